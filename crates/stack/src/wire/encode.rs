//! Writes packets as bytes.

use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;

use base::ip::{Ecn, IpHeader, Ipv4Header, Ipv6Header, protocol};
use base::tcp::{TcpFlags, TcpHeader, TcpOption};
use base::{Checksum, GsoType, SeqNum, VirtioHeader};
use smallvec::SmallVec;

use super::icmp;
use crate::packet::{Body, EcnMark, Packet, Segment, SegmentOptions};

/// Offset of the checksum in a TCP header.
pub(super) const TCP_CHECKSUM_AT: usize = 16;
const OPTION_BYTES_MAX: u32 = 40;
/// Limit of the length field of IPv4; that of IPv6 does not count its header.
const PACKET_BYTES_MAX: u64 = 65_535;

/// Why a packet has no form on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EncodeError {
    /// Its addresses are of different IP versions.
    MixedVersions,
    /// Its TCP options take this many bytes; a header has room for 40.
    OptionsTooLong(u32),
    /// The packet has this many bytes; an IP packet has at most 65535.
    TooLong(u64),
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MixedVersions => f.write_str("addresses of different IP versions"),
            Self::OptionsTooLong(bytes) => {
                write!(
                    f,
                    "options take {bytes} bytes; a TCP header has room for 40"
                )
            }
            Self::TooLong(bytes) => {
                write!(f, "{bytes} bytes; an IP packet has 65535 at most: split it")
            }
        }
    }
}

impl core::error::Error for EncodeError {}

/// Appends the packet with all its checksums. A chain of segments becomes one large IP packet, as
/// captures show it that are taken in front of the segmentation.
///
/// # Errors
/// Where it has no form on the wire; nothing is appended then.
pub fn encode(packet: &Packet, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let ip = ip_header(packet)?;
    match &packet.body {
        Body::Tcp(segment) => {
            let tcp_at = encode_tcp_headers(&ip, segment, out)?;
            let length = segment.header_bytes() + segment.payload.len();
            let mut sum = Checksum::new()
                .pseudo_header(ip.ends(), protocol::TCP, length)
                .bytes(&out[tcp_at..]);
            for chunk in segment.payload.chunks() {
                out.extend_from_slice(chunk);
                sum = sum.bytes(chunk);
            }
            set_tcp_checksum(&mut out[tcp_at..], sum.finish());
            Ok(())
        }
        Body::Icmp(error) => icmp::encode(&ip, error, out),
    }
}

/// Appends the packet as a TUN device with `IFF_VNET_HDR` takes it: a virtio header, then one IP
/// packet whose segmentation and checksum are left to the device.
///
/// # Errors
/// Where it has no form on the wire; nothing is appended then.
pub fn encode_tun(packet: &Packet, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    encode_tun_headers(packet, out)?;
    if let Body::Tcp(segment) = &packet.body {
        for chunk in segment.payload.chunks() {
            out.extend_from_slice(chunk);
        }
    }
    Ok(())
}

/// As [`encode_tun`], but without the payload, whose slices the caller writes behind it (`writev`).
///
/// # Errors
/// Where it has no form on the wire; nothing is appended then.
pub fn encode_tun_headers(packet: &Packet, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let start = out.len();
    out.resize(start + VirtioHeader::BYTES, 0);
    let encoded = match &packet.body {
        Body::Tcp(segment) => encode_offloaded(packet, segment, start, out),
        Body::Icmp(_) => encode(packet, out),
    };
    if encoded.is_err() {
        out.truncate(start);
    }
    encoded
}

/// Appends the headers of a segment behind the room for its virtio header at `start`, and fills
/// that in.
fn encode_offloaded(
    packet: &Packet,
    segment: &Segment,
    start: usize,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let ip = ip_header(packet)?;
    let tcp_at = encode_tcp_headers(&ip, segment, out)?;
    let length = segment.header_bytes() + segment.payload.len();
    let sum = Checksum::new().pseudo_header(ip.ends(), protocol::TCP, length);
    set_tcp_checksum(&mut out[tcp_at..], sum.partial());
    let packet_at = start + VirtioHeader::BYTES;
    let mut vnet = VirtioHeader {
        flags: VirtioHeader::NEEDS_CSUM,
        csum_start: (tcp_at - packet_at) as u16,
        csum_offset: TCP_CHECKSUM_AT as u16,
        ..VirtioHeader::default()
    };
    if segment.segments() > 1 {
        vnet.gso = match ip {
            IpHeader::V4(_) => GsoType::TcpV4,
            IpHeader::V6(_) => GsoType::TcpV6,
        };
        vnet.ecn = segment.flags.contains(TcpFlags::CWR);
        vnet.gso_size = segment.gso_size;
        vnet.header_bytes = (out.len() - packet_at) as u16;
    }
    out[start..packet_at].copy_from_slice(&vnet.to_bytes());
    Ok(())
}

/// Appends IP and TCP header, the latter with a checksum of 0; returns where it begins.
fn encode_tcp_headers(
    ip: &IpHeader,
    segment: &Segment,
    out: &mut Vec<u8>,
) -> Result<usize, EncodeError> {
    let option_bytes = segment.options.bytes();
    if option_bytes > OPTION_BYTES_MAX {
        return Err(EncodeError::OptionsTooLong(option_bytes));
    }
    let ip_bytes = match ip {
        IpHeader::V4(_) => 20,
        IpHeader::V6(_) => 40,
    };
    let length = u64::from(segment.header_bytes()) + u64::from(segment.payload.len());
    if ip_bytes + length > PACKET_BYTES_MAX {
        return Err(EncodeError::TooLong(ip_bytes + length));
    }
    ip.write(length as usize, out);
    let tcp_at = out.len();
    let header = TcpHeader {
        source_port: segment.source_port,
        destination_port: segment.destination_port,
        seq: segment.seq,
        ack: segment.ack,
        flags: segment.flags,
        window: segment.window,
        urgent: segment.urgent,
    };
    let written = header.write(&option_list(&segment.options), out);
    assert_eq!(
        written,
        segment.header_bytes() as usize,
        "the length of {:?}",
        segment.options
    );
    Ok(tcp_at)
}

fn set_tcp_checksum(tcp: &mut [u8], checksum: u16) {
    tcp[TCP_CHECKSUM_AT..TCP_CHECKSUM_AT + 2].copy_from_slice(&checksum.to_be_bytes());
}

/// The options in the order of Linux (`tcp_options_write`), padded to whole words each.
fn option_list(options: &SegmentOptions) -> SmallVec<[TcpOption<'static>; 8]> {
    let SegmentOptions {
        mss,
        window_scale,
        sack_permitted,
        timestamps,
        sack,
    } = *options;
    let mut list = SmallVec::new();
    list.extend(mss.map(TcpOption::Mss));
    match (sack_permitted, timestamps.is_some()) {
        (true, true) => list.push(TcpOption::SackPermitted),
        (true, false) => {
            list.extend([TcpOption::Nop, TcpOption::Nop, TcpOption::SackPermitted]);
        }
        (false, true) => list.extend([TcpOption::Nop, TcpOption::Nop]),
        (false, false) => {}
    }
    list.extend(timestamps.map(|stamps| TcpOption::Timestamps {
        value: stamps.value,
        echo: stamps.echo,
    }));
    if let Some(shift) = window_scale {
        list.extend([TcpOption::Nop, TcpOption::WindowScale(shift)]);
    }
    if let Some(blocks) = sack {
        list.extend([TcpOption::Nop, TcpOption::Nop, TcpOption::Sack(blocks)]);
    }
    list
}

fn ip_header(packet: &Packet) -> Result<IpHeader, EncodeError> {
    let ecn = match packet.ecn {
        EcnMark::NotEct => Ecn::NotCapable,
        EcnMark::Ect0 => Ecn::Ect0,
        EcnMark::Ect1 => Ecn::Ect1,
        EcnMark::Ce => Ecn::CongestionExperienced,
    };
    match (packet.source, packet.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let protocol = match packet.body {
                Body::Tcp(_) => protocol::TCP,
                Body::Icmp(_) => protocol::ICMP,
            };
            Ok(IpHeader::V4(Ipv4Header {
                ecn,
                identification: identification(packet),
                dont_fragment: packet.dont_fragment,
                time_to_live: packet.hop_limit,
                ..Ipv4Header::new(source, destination, protocol)
            }))
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let protocol = match packet.body {
                Body::Tcp(_) => protocol::TCP,
                Body::Icmp(_) => protocol::ICMPV6,
            };
            Ok(IpHeader::V6(Ipv6Header {
                ecn,
                hop_limit: packet.hop_limit,
                ..Ipv6Header::new(source, destination, protocol)
            }))
        }
        _ => Err(EncodeError::MixedVersions),
    }
}

/// Fragments of different packets must not be put together (RFC 6864 section 4.3); a packet that
/// cannot become fragments needs no number.
fn identification(packet: &Packet) -> u16 {
    if packet.dont_fragment {
        return 0;
    }
    let fold = |number: SeqNum| (number.number() ^ number.number() >> 16) as u16;
    match &packet.body {
        Body::Tcp(segment) => fold(segment.seq) ^ fold(segment.ack).rotate_left(5),
        Body::Icmp(error) => fold(error.seq),
    }
}
