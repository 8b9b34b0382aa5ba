//! Parses bytes into packets.

use core::fmt;
use core::ops::Range;

use base::ip::{Ecn, IpPacket, protocol};
use base::tcp::{TcpFlags, TcpOption, TcpSegment};
use base::{GsoType, Instant, ParseError, VirtioHeader};
use bytes::Bytes;

use super::encode::TCP_CHECKSUM_AT;
use super::icmp;
use crate::packet::{Body, EcnMark, Packet, Payload, Segment, SegmentOptions, Timestamps};

/// RFC 7323 section 2.3: a larger shift counts as this.
const WINDOW_SCALE_MAX: u8 = 14;

/// Why bytes are no packet for TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WireError {
    /// A header that is none.
    Header(ParseError),
    /// The IP header states more bytes than there are.
    CutShort,
    /// A checksum is wrong.
    Checksum,
    /// A fragment of a packet; nothing puts them together here.
    Fragment,
    /// A packet that a routing header forwards to another node (RFC 8200 section 4.4).
    Routed,
    /// Neither TCP nor ICMP, but this.
    Protocol(u8),
    /// ICMP, but no error about a TCP segment that its receiver sent.
    IcmpIrrelevant,
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(error) => fmt::Display::fmt(error, f),
            Self::CutShort => f.write_str("shorter than its IP header states"),
            Self::Checksum => f.write_str("wrong checksum"),
            Self::Fragment => f.write_str("a fragment"),
            Self::Routed => f.write_str("routed to another host"),
            Self::Protocol(number) => write!(f, "protocol {number}, neither TCP nor ICMP"),
            Self::IcmpIrrelevant => f.write_str("ICMP, but no error about a segment"),
        }
    }
}

impl core::error::Error for WireError {}

impl From<ParseError> for WireError {
    fn from(error: ParseError) -> Self {
        Self::Header(error)
    }
}

/// Reads what a TUN device with `IFF_VNET_HDR` handed over: a virtio header and a packet.
///
/// # Errors
/// If it is not a packet for TCP.
pub fn decode_tun(bytes: &Bytes) -> Result<Packet, WireError> {
    let vnet = VirtioHeader::parse(bytes)?;
    let at = VirtioHeader::BYTES;
    decode_with(&bytes[at..], Some(vnet), |range| {
        bytes.slice(at + range.start..at + range.end)
    })
}

/// Reads a packet that begins with its IP header; bytes behind it are ignored. The payload stays
/// where it is. Checksums are verified unless `vnet` says that the device answers for them.
///
/// # Errors
/// If it is not a packet for TCP.
pub fn decode(bytes: &Bytes, vnet: Option<VirtioHeader>) -> Result<Packet, WireError> {
    decode_with(bytes, vnet, |range| bytes.slice(range))
}

/// As [`decode`], of borrowed bytes: `payload` makes shared memory of the range of them that is
/// payload. It is called at most once, and only where there is payload.
///
/// # Errors
/// If it is not a packet for TCP.
pub fn decode_with(
    bytes: &[u8],
    vnet: Option<VirtioHeader>,
    payload: impl FnOnce(Range<usize>) -> Bytes,
) -> Result<Packet, WireError> {
    let ip = IpPacket::parse(bytes)?;
    if ip.total_bytes() > bytes.len() {
        return Err(WireError::CutShort);
    }
    let dont_fragment = match ip {
        IpPacket::V4(packet) if !packet.checksum_is_right() => return Err(WireError::Checksum),
        IpPacket::V4(packet) => packet.dont_fragment(),
        IpPacket::V6(packet) if packet.is_routed() => return Err(WireError::Routed),
        IpPacket::V6(_) => true,
    };
    if ip.is_fragment() {
        return Err(WireError::Fragment);
    }
    let vnet = vnet.unwrap_or_default();
    let body = match (&ip, ip.protocol()) {
        (_, protocol::TCP) => Body::Tcp(decode_segment(&ip, &vnet, payload)?),
        (IpPacket::V4(_), protocol::ICMP) | (IpPacket::V6(_), protocol::ICMPV6) => {
            Body::Icmp(icmp::decode(&ip)?)
        }
        (_, other) => return Err(WireError::Protocol(other)),
    };
    Ok(Packet {
        source: ip.source(),
        destination: ip.destination(),
        ecn: match ip.ecn() {
            Ecn::NotCapable => EcnMark::NotEct,
            Ecn::Ect0 => EcnMark::Ect0,
            Ecn::Ect1 => EcnMark::Ect1,
            Ecn::CongestionExperienced => EcnMark::Ce,
        },
        dont_fragment,
        hop_limit: ip.hop_limit(),
        not_before: Instant::ZERO,
        body,
    })
}

fn decode_segment(
    ip: &IpPacket<'_>,
    vnet: &VirtioHeader,
    payload: impl FnOnce(Range<usize>) -> Bytes,
) -> Result<Segment, WireError> {
    let tcp = TcpSegment::parse(ip.payload())?;
    if !is_answered_for(ip, vnet) && !tcp.checksum_is_right((ip.source(), ip.destination())) {
        return Err(WireError::Checksum);
    }
    let range = payload_range(ip, &tcp);
    let gso_size = gso_size(ip, vnet, range.len());
    Ok(Segment {
        source_port: tcp.source_port(),
        destination_port: tcp.destination_port(),
        seq: tcp.seq(),
        ack: tcp.ack(),
        flags: tcp.flags(),
        window: tcp.window(),
        urgent: tcp.urgent(),
        options: options(&tcp),
        payload: match range.is_empty() {
            true => Payload::default(),
            false => payload(range).into(),
        },
        gso_size,
    })
}

/// Whether the device found the checksum right, or the packet comes from its own host, which has
/// not filled it in yet.
fn is_answered_for(ip: &IpPacket<'_>, vnet: &VirtioHeader) -> bool {
    let covers_tcp = usize::from(vnet.csum_start) == ip.header_bytes()
        && usize::from(vnet.csum_offset) == TCP_CHECKSUM_AT;
    vnet.flags & VirtioHeader::DATA_VALID != 0 || vnet.needs_checksum() && covers_tcp
}

fn payload_range(ip: &IpPacket<'_>, tcp: &TcpSegment<'_>) -> Range<usize> {
    let tcp_at = ip.header_bytes();
    tcp_at + tcp.header_bytes()..tcp_at + ip.payload().len()
}

/// Payload of each segment, 0 where it is one; a virtio header that contradicts the packet is
/// ignored.
fn gso_size(ip: &IpPacket<'_>, vnet: &VirtioHeader, payload: usize) -> u16 {
    let expected = match ip {
        IpPacket::V4(_) => GsoType::TcpV4,
        IpPacket::V6(_) => GsoType::TcpV6,
    };
    if vnet.gso == expected && payload > usize::from(vnet.gso_size) {
        vnet.gso_size
    } else {
        0
    }
}

/// The options that we understand; where one comes twice the last one counts, and those of the
/// handshake only with SYN (Linux `tcp_parse_options`).
fn options(tcp: &TcpSegment<'_>) -> SegmentOptions {
    let mut options = SegmentOptions::default();
    let is_syn = tcp.flags().contains(TcpFlags::SYN);
    for option in tcp.options() {
        match option {
            TcpOption::Mss(mss) if is_syn && mss > 0 => options.mss = Some(mss),
            TcpOption::WindowScale(shift) if is_syn => {
                options.window_scale = Some(shift.min(WINDOW_SCALE_MAX));
            }
            TcpOption::SackPermitted if is_syn => options.sack_permitted = true,
            TcpOption::Timestamps { value, echo } => {
                options.timestamps = Some(Timestamps { value, echo });
            }
            TcpOption::Sack(blocks) => options.sack = Some(blocks),
            TcpOption::Nop
            | TcpOption::Mss(_)
            | TcpOption::WindowScale(_)
            | TcpOption::SackPermitted
            | TcpOption::FastOpen(_)
            | TcpOption::Unknown { .. } => {}
        }
    }
    options
}
