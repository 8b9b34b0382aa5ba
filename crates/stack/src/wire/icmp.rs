//! ICMP errors about segments (RFC 792, RFC 4443).

use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use base::ip::{IpHeader, IpPacket, Ipv4Header, Ipv6Header, protocol};
use base::tcp::TcpHeader;
use base::{Checksum, SeqNum};

use super::decode::WireError;
use super::encode::EncodeError;
use crate::packet::{IcmpError, IcmpKind};

const HEADER_BYTES: usize = 8;
const CHECKSUM_AT: usize = 2;
const TCP_HEADER_BYTES: usize = 20;
/// Ports and sequence number: what RFC 792 quotes of a segment at least.
const QUOTED_BYTES_MIN: usize = 8;

/// Types and codes of ICMP for IPv4 (RFC 792, RFC 1122 section 3.2.2.1, RFC 1812 section 5.2.7.1).
mod v4 {
    pub(super) const UNREACHABLE: u8 = 3;
    pub(super) const TIME_EXCEEDED: u8 = 11;
    pub(super) const HOST: u8 = 1;
    pub(super) const PROTOCOL: u8 = 2;
    pub(super) const PORT: u8 = 3;
    pub(super) const TOO_BIG: u8 = 4;
    pub(super) const NET_PROHIBITED: u8 = 9;
    pub(super) const HOST_PROHIBITED: u8 = 10;
    pub(super) const PROHIBITED: u8 = 13;
}

/// Types and codes of ICMPv6 (RFC 4443 section 3).
mod v6 {
    pub(super) const UNREACHABLE: u8 = 1;
    pub(super) const TOO_BIG: u8 = 2;
    pub(super) const TIME_EXCEEDED: u8 = 3;
    pub(super) const NO_ROUTE: u8 = 0;
    pub(super) const PROHIBITED: u8 = 1;
    pub(super) const PORT: u8 = 4;
    pub(super) const POLICY: u8 = 5;
    pub(super) const REJECTED: u8 = 6;
}

/// Appends the whole packet: `ip`, the message, and the headers of the segment it is about.
pub(super) fn encode(
    ip: &IpHeader,
    error: &IcmpError,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let IcmpError {
        kind,
        local,
        remote,
        seq,
    } = *error;
    let (quoted, first) = match (ip, local.ip(), remote.ip()) {
        (IpHeader::V4(_), IpAddr::V4(from), IpAddr::V4(to)) => {
            let quoted = Ipv4Header::new(from, to, protocol::TCP);
            (IpHeader::V4(quoted), v4_header(kind))
        }
        (IpHeader::V6(_), IpAddr::V6(from), IpAddr::V6(to)) => {
            let quoted = Ipv6Header::new(from, to, protocol::TCP);
            (IpHeader::V6(quoted), v6_header(kind))
        }
        _ => return Err(EncodeError::MixedVersions),
    };
    let mut message = Vec::with_capacity(HEADER_BYTES + 60);
    message.extend_from_slice(&first);
    quoted.write(TCP_HEADER_BYTES, &mut message);
    let segment = TcpHeader {
        source_port: local.port(),
        destination_port: remote.port(),
        seq,
        ..TcpHeader::default()
    };
    segment.write(&[], &mut message);
    let checksum = sum(ip.ends(), &message).finish();
    message[CHECKSUM_AT..CHECKSUM_AT + 2].copy_from_slice(&checksum.to_be_bytes());
    ip.write(message.len(), out);
    out.extend_from_slice(&message);
    Ok(())
}

/// Type, code, no checksum yet, and the MTU.
fn v4_header(kind: IcmpKind) -> [u8; HEADER_BYTES] {
    let (kind, code, mtu) = match kind {
        IcmpKind::TooBig { mtu } => {
            let mtu = u16::try_from(mtu).unwrap_or(u16::MAX);
            (v4::UNREACHABLE, v4::TOO_BIG, mtu)
        }
        IcmpKind::Unreachable => (v4::UNREACHABLE, v4::HOST, 0),
        IcmpKind::TimeExceeded => (v4::TIME_EXCEEDED, 0, 0),
        IcmpKind::Refused => (v4::UNREACHABLE, v4::PORT, 0),
    };
    let [high, low] = mtu.to_be_bytes();
    [kind, code, 0, 0, 0, 0, high, low]
}

fn v6_header(kind: IcmpKind) -> [u8; HEADER_BYTES] {
    let (kind, code, mtu) = match kind {
        IcmpKind::TooBig { mtu } => (v6::TOO_BIG, 0, mtu),
        IcmpKind::Unreachable => (v6::UNREACHABLE, v6::NO_ROUTE, 0),
        IcmpKind::TimeExceeded => (v6::TIME_EXCEEDED, 0, 0),
        IcmpKind::Refused => (v6::UNREACHABLE, v6::PORT, 0),
    };
    let mtu = mtu.to_be_bytes();
    [kind, code, 0, 0, mtu[0], mtu[1], mtu[2], mtu[3]]
}

/// ICMPv6 covers a pseudo header, ICMP does not.
fn sum(ends: (IpAddr, IpAddr), message: &[u8]) -> Checksum {
    let sum = if ends.0.is_ipv4() {
        Checksum::new()
    } else {
        Checksum::new().pseudo_header(ends, protocol::ICMPV6, message.len() as u32)
    };
    sum.bytes(message)
}

/// Reads the ICMP message that `ip` carries.
pub(super) fn decode(ip: &IpPacket<'_>) -> Result<IcmpError, WireError> {
    let message = ip.payload();
    let Some((header, quoted)) = message.split_first_chunk::<HEADER_BYTES>() else {
        return Err(WireError::IcmpIrrelevant);
    };
    if sum((ip.source(), ip.destination()), message).finish() != 0 {
        return Err(WireError::Checksum);
    }
    let kind = match ip {
        IpPacket::V4(_) => v4_kind(header),
        IpPacket::V6(_) => v6_kind(header),
    };
    let kind = kind.ok_or(WireError::IcmpIrrelevant)?;
    let (local, remote, seq) = quoted_segment(quoted).ok_or(WireError::IcmpIrrelevant)?;
    // Only the sender is told about its packets.
    if local.ip() != ip.destination() {
        return Err(WireError::IcmpIrrelevant);
    }
    Ok(IcmpError {
        kind,
        local,
        remote,
        seq,
    })
}

/// `None` where TCP does not care: RFC 1122 section 4.2.3.9; source quench is long gone (RFC
/// 6633).
fn v4_kind(header: &[u8; HEADER_BYTES]) -> Option<IcmpKind> {
    let [kind, code, _, _, _, _, high, low] = *header;
    match (kind, code) {
        (v4::UNREACHABLE, v4::TOO_BIG) => Some(IcmpKind::TooBig {
            mtu: u16::from_be_bytes([high, low]).into(),
        }),
        (
            v4::UNREACHABLE,
            v4::PROTOCOL | v4::PORT | v4::NET_PROHIBITED | v4::HOST_PROHIBITED | v4::PROHIBITED,
        ) => Some(IcmpKind::Refused),
        (v4::UNREACHABLE, _) => Some(IcmpKind::Unreachable),
        (v4::TIME_EXCEEDED, _) => Some(IcmpKind::TimeExceeded),
        _ => None,
    }
}

fn v6_kind(header: &[u8; HEADER_BYTES]) -> Option<IcmpKind> {
    let [kind, code, _, _, mtu @ ..] = *header;
    match (kind, code) {
        (v6::TOO_BIG, _) => Some(IcmpKind::TooBig {
            mtu: u32::from_be_bytes(mtu),
        }),
        (v6::UNREACHABLE, v6::PROHIBITED | v6::PORT | v6::POLICY | v6::REJECTED) => {
            Some(IcmpKind::Refused)
        }
        (v6::UNREACHABLE, _) => Some(IcmpKind::Unreachable),
        (v6::TIME_EXCEEDED, _) => Some(IcmpKind::TimeExceeded),
        _ => None,
    }
}

/// Both ends and the sequence number of the quoted segment, which may be cut short behind them.
fn quoted_segment(quoted: &[u8]) -> Option<(SocketAddr, SocketAddr, SeqNum)> {
    let ip = IpPacket::parse(quoted).ok()?;
    if ip.protocol() != protocol::TCP || !ip.is_first_fragment() {
        return None;
    }
    let (segment, _) = ip.payload().split_first_chunk::<QUOTED_BYTES_MIN>()?;
    let [source_high, source_low, to_high, to_low, seq @ ..] = *segment;
    let from = u16::from_be_bytes([source_high, source_low]);
    let to = u16::from_be_bytes([to_high, to_low]);
    Some((
        (ip.source(), from).into(),
        (ip.destination(), to).into(),
        SeqNum::new(u32::from_be_bytes(seq)),
    ))
}
