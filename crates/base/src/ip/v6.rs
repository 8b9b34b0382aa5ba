//! IPv6 (RFC 8200), with a walk over the extension headers.

use alloc::vec::Vec;
use core::net::Ipv6Addr;

use super::Ecn;
use crate::parse::{ParseError, ParseErrorKind, be16, be32, require};

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const NO_NEXT_HEADER: u8 = 59;
const DESTINATION_OPTIONS: u8 = 60;
/// RFC 8200 section 4.1 knows at most 7 in a sensible packet; the bound is against hostile ones.
const EXTENSION_HEADERS_MAX: usize = 16;

/// An IPv6 packet, seen in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Ipv6Packet<'a> {
    /// At least the fixed header and the extension headers.
    bytes: &'a [u8],
    chain: Chain,
}

/// Result of the walk over the extension headers.
#[derive(Clone, Copy, Debug)]
struct Chain {
    /// Offset of the payload.
    end: usize,
    protocol: u8,
    /// Fragment offset in bytes and whether more follow, where there is a fragment header.
    fragment: Option<(u32, bool)>,
    /// A routing header has hops left: the destination in the fixed header is not the last one.
    routed: bool,
}

impl<'a> Ipv6Packet<'a> {
    /// Bytes of the fixed header.
    pub const HEADER_BYTES: usize = 40;

    /// Sees `bytes`, which begin with the header; see [`super::IpPacket::parse`].
    ///
    /// # Errors
    /// What is wrong, and where.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        require(bytes, Self::HEADER_BYTES)?;
        if bytes[0] >> 4 != 6 {
            return Err(ParseError {
                at: 0,
                kind: ParseErrorKind::Version(bytes[0] >> 4),
            });
        }
        let total = total_bytes(bytes);
        let chain = walk(bytes, total)?;
        Ok(Self {
            bytes: &bytes[..total.min(bytes.len())],
            chain,
        })
    }

    /// Source address.
    #[must_use]
    pub fn source(&self) -> Ipv6Addr {
        address(self.bytes, 8)
    }

    /// To whom; with a routing header, to the next of its hops.
    #[must_use]
    pub fn destination(&self) -> Ipv6Addr {
        address(self.bytes, 24)
    }

    /// Protocol of the payload behind the extension headers; see [`super::protocol`].
    #[must_use]
    pub const fn protocol(&self) -> u8 {
        self.chain.protocol
    }

    /// Bytes of the fixed header and the extension headers.
    #[must_use]
    pub const fn header_bytes(&self) -> usize {
        self.chain.end
    }

    /// Bytes of the packet; see [`super::IpPacket::total_bytes`].
    #[must_use]
    pub const fn total_bytes(&self) -> usize {
        total_bytes(self.bytes)
    }

    /// The differentiated services code point, 0 to 63 (RFC 2474).
    #[must_use]
    pub const fn dscp(&self) -> u8 {
        ((be16(self.bytes, 0) >> 6) & 0x3f) as u8
    }

    /// Its congestion notification.
    #[must_use]
    pub const fn ecn(&self) -> Ecn {
        Ecn::from_bits(self.bytes[1] >> 4)
    }

    /// The flow label, 20 bits (RFC 6437).
    #[must_use]
    pub const fn flow_label(&self) -> u32 {
        be32(self.bytes, 0) & 0xf_ffff
    }

    /// Routers that it may still pass.
    #[must_use]
    pub const fn hop_limit(&self) -> u8 {
        self.bytes[7]
    }

    /// Whether it is one of several fragments.
    #[must_use]
    pub const fn is_fragment(&self) -> bool {
        matches!(self.chain.fragment, Some((offset, more)) if offset != 0 || more)
    }

    /// Offset of this payload in the original datagram, in bytes.
    #[must_use]
    pub const fn fragment_offset(&self) -> u32 {
        match self.chain.fragment {
            Some((offset, _)) => offset,
            None => 0,
        }
    }

    /// Whether a routing header sends it on after its destination, so that the pseudo header of
    /// the checksum names another destination (RFC 8200 section 8.1).
    #[must_use]
    pub const fn is_routed(&self) -> bool {
        self.chain.routed
    }

    /// The payload, truncated where the bytes end early.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[self.chain.end..]
    }
}

fn address(bytes: &[u8], at: usize) -> Ipv6Addr {
    let mut octets = [0; 16];
    octets.copy_from_slice(&bytes[at..at + 16]);
    octets.into()
}

const fn total_bytes(bytes: &[u8]) -> usize {
    match be16(bytes, 4) {
        0 if bytes[6] != NO_NEXT_HEADER => bytes.len(),
        length => Ipv6Packet::HEADER_BYTES + length as usize,
    }
}

/// Walks the extension headers that lie within the packet of `total` bytes.
fn walk(bytes: &[u8], total: usize) -> Result<Chain, ParseError> {
    let mut chain = Chain {
        end: Ipv6Packet::HEADER_BYTES,
        protocol: bytes[6],
        fragment: None,
        routed: false,
    };
    for _ in 0..EXTENSION_HEADERS_MAX {
        if !matches!(
            chain.protocol,
            HOP_BY_HOP | ROUTING | FRAGMENT | DESTINATION_OPTIONS
        ) || chain.fragment.is_some_and(|(offset, _)| offset != 0)
        {
            break;
        }
        let at = chain.end;
        require(bytes, at + 8)?;
        let length = match chain.protocol {
            FRAGMENT => 8,
            _ => 8 + usize::from(bytes[at + 1]) * 8,
        };
        require(bytes, at + length)?;
        if at + length > total {
            return Err(ParseError {
                at: at + 1,
                kind: ParseErrorKind::Length(length as u32),
            });
        }
        match chain.protocol {
            FRAGMENT => {
                let field = be16(bytes, at + 2);
                chain.fragment = Some((u32::from(field & 0xfff8), field & 1 != 0));
            }
            ROUTING => chain.routed |= bytes[at + 3] != 0,
            _ => {}
        }
        chain.protocol = bytes[at];
        chain.end += length;
    }
    Ok(chain)
}

/// An IPv6 header without extension headers, to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6Header {
    /// Source address.
    pub source: Ipv6Addr,
    /// To whom.
    pub destination: Ipv6Addr,
    /// Protocol of the payload; see [`super::protocol`].
    pub protocol: u8,
    /// Differentiated services code point, 0 to 63.
    pub dscp: u8,
    /// Congestion notification.
    pub ecn: Ecn,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Routers that it may pass.
    pub hop_limit: u8,
}

impl Ipv6Header {
    /// A header as Linux writes it: 64 routers; no flow label, which Linux would draw.
    #[must_use]
    pub const fn new(source: Ipv6Addr, destination: Ipv6Addr, protocol: u8) -> Self {
        Self {
            source,
            destination,
            protocol,
            dscp: 0,
            ecn: Ecn::NotCapable,
            flow_label: 0,
            hop_limit: 64,
        }
    }

    /// Appends the header of a packet with a payload of `payload_bytes`.
    ///
    /// # Panics
    /// Where the payload exceeds 65535 bytes.
    pub fn write(&self, payload_bytes: usize, out: &mut Vec<u8>) {
        let length = u16::try_from(payload_bytes).expect("the caller keeps it below 64 KiB");
        let first = 6 << 28
            | u32::from(self.dscp & 0x3f) << 22
            | u32::from(self.ecn.bits()) << 20
            | self.flow_label & 0xf_ffff;
        out.extend_from_slice(&first.to_be_bytes());
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(&[self.protocol, self.hop_limit]);
        out.extend_from_slice(&self.source.octets());
        out.extend_from_slice(&self.destination.octets());
    }
}
