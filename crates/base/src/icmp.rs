//! The ICMP messages by which a path says that a packet is too big for it.
//!
//! Fragmentation needed of IPv4 (RFC 792, RFC 1191 section 4) and packet too big of IPv6 (RFC 4443
//! section 3.2). Nothing else of ICMP matters to a path model.

use alloc::vec::Vec;
use core::net::IpAddr;

use crate::checksum::Checksum;
use crate::ip::{IpHeader, IpPacket, Ipv4Header, Ipv6Header, protocol};
use crate::parse::{be16, be32, set_be16};

const V4_UNREACHABLE: u8 = 3;
const V4_FRAGMENTATION_NEEDED: u8 = 4;
const V6_TOO_BIG: u8 = 2;
/// RFC 4443 section 2.1: the errors of ICMPv6 have types below 128.
const V6_INFORMATION_MIN: u8 = 128;
const HEADER_BYTES: usize = 8;
/// RFC 1812 section 4.3.2.3: as much of the packet as fits into 576 bytes.
const V4_MESSAGE_BYTES_MAX: usize = 576;
/// RFC 4443 section 3.2: as much of the packet as fits into the smallest MTU of IPv6.
const V6_MESSAGE_BYTES_MAX: usize = 1280;

/// A message that says that a packet was too big.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooBig<'a> {
    /// The host that reports the error.
    pub from: IpAddr,
    /// The largest packet that would have passed, in bytes with its IP header; 0 where an old
    /// router does not say.
    pub mtu: u32,
    /// The start of the packet that did not pass.
    pub quoted: &'a [u8],
}

impl<'a> TooBig<'a> {
    /// Finds the message in an IP packet; `None` where it is anything else. Checksums are not
    /// looked at.
    #[must_use]
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let packet = IpPacket::parse(bytes).ok()?;
        let message = packet.payload();
        if packet.is_fragment() || message.len() < HEADER_BYTES {
            return None;
        }
        let mtu = match (packet.protocol(), message[0], message[1]) {
            (protocol::ICMP, V4_UNREACHABLE, V4_FRAGMENTATION_NEEDED) => be16(message, 6).into(),
            (protocol::ICMPV6, V6_TOO_BIG, _) => be32(message, 4),
            _ => return None,
        };
        Some(Self {
            from: packet.source(),
            mtu,
            quoted: &message[HEADER_BYTES..],
        })
    }
}

/// The message to the sender of `packet` that nothing above `mtu` bytes passes; a whole IP packet.
///
/// It comes from `from`, or from the destination of `packet` where that is `None` or of another IP
/// version: a path without an address of its own borrows one that the sender can reach.
///
/// `None` where no such message may be sent: the packet may be fragmented (IPv4 without "don't
/// fragment"), is not the first fragment, is itself an ICMP error, goes to or comes from more than
/// one host, or is not IP (RFC 1122 section 3.2.2, RFC 4443 section 2.4).
#[must_use]
pub fn too_big(packet: &[u8], mtu: u32, from: Option<IpAddr>) -> Option<Vec<u8>> {
    let about = IpPacket::parse(packet).ok()?;
    let (to, destination) = (about.source(), about.destination());
    let one_host = |address: IpAddr| !address.is_multicast() && !address.is_unspecified();
    if !one_host(to) || !one_host(destination) || !about.is_first_fragment() {
        return None;
    }
    let from = from.filter(|address| address.is_ipv4() == to.is_ipv4());
    let message = match (about, to, from.unwrap_or(destination)) {
        (IpPacket::V4(about), IpAddr::V4(to), IpAddr::V4(from)) => {
            let is_error = about.protocol() == protocol::ICMP && !is_v4_query(about.payload());
            if !about.dont_fragment() || is_error || to.is_broadcast() {
                return None;
            }
            let mut header = Ipv4Header::new(from, to, protocol::ICMP);
            header.dont_fragment = false;
            v4_message(packet, mtu, header)
        }
        (IpPacket::V6(about), IpAddr::V6(to), IpAddr::V6(from)) => {
            let kind = about.payload().first().copied().unwrap_or(0);
            if about.protocol() == protocol::ICMPV6 && kind < V6_INFORMATION_MIN {
                return None;
            }
            v6_message(packet, mtu, Ipv6Header::new(from, to, protocol::ICMPV6))
        }
        _ => return None,
    };
    Some(message)
}

/// Echo, its reply, and timestamps are no errors; of what is unknown we stay silent.
fn is_v4_query(message: &[u8]) -> bool {
    matches!(message.first(), Some(0 | 8 | 13 | 14))
}

fn v4_message(packet: &[u8], mtu: u32, header: Ipv4Header) -> Vec<u8> {
    let quoted = quote(packet, V4_MESSAGE_BYTES_MAX - HEADER_BYTES - 20);
    let mut icmp = [0; HEADER_BYTES];
    icmp[0] = V4_UNREACHABLE;
    icmp[1] = V4_FRAGMENTATION_NEEDED;
    set_be16(&mut icmp, 6, u16::try_from(mtu).unwrap_or(u16::MAX));
    message(&IpHeader::V4(header), Checksum::new(), icmp, quoted)
}

fn v6_message(packet: &[u8], mtu: u32, header: Ipv6Header) -> Vec<u8> {
    let quoted = quote(packet, V6_MESSAGE_BYTES_MAX - HEADER_BYTES - 40);
    let mut icmp = [0; HEADER_BYTES];
    icmp[0] = V6_TOO_BIG;
    icmp[4..].copy_from_slice(&mtu.to_be_bytes());
    let header = IpHeader::V6(header);
    let length = (HEADER_BYTES + quoted.len()) as u32;
    let sum = Checksum::new().pseudo_header(header.ends(), protocol::ICMPV6, length);
    message(&header, sum, icmp, quoted)
}

fn quote(packet: &[u8], bytes_max: usize) -> &[u8] {
    &packet[..packet.len().min(bytes_max)]
}

fn message(
    header: &IpHeader,
    sum: Checksum,
    mut icmp: [u8; HEADER_BYTES],
    quoted: &[u8],
) -> Vec<u8> {
    let sum = sum.bytes(&icmp).bytes(quoted);
    set_be16(&mut icmp, 2, sum.finish());
    let mut out = Vec::with_capacity(V6_MESSAGE_BYTES_MAX);
    header.write(icmp.len() + quoted.len(), &mut out);
    out.extend_from_slice(&icmp);
    out.extend_from_slice(quoted);
    out
}

#[cfg(test)]
mod tests;
