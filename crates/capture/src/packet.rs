//! Finds the TCP segment in a captured packet.

use core::cmp::Ordering;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use base::ip::{IpPacket, protocol};
use base::pcap::{CapturedPacket, LinkType, ip_of_frame};
use base::tcp::{SackBlocks, TcpFlags, TcpOption, TcpOptions, TcpSegment};
use base::{FlowKey, Instant};

const GRE: u8 = 47;
const IPV4_IN_IP: u8 = 4;
const IPV6_IN_IP: u8 = 41;
const UDP_HEADER_BYTES: usize = 8;
/// VXLAN (RFC 7348), and the port that Linux used before it was assigned.
const VXLAN_PORTS: [u16; 2] = [4789, 8472];
const VXLAN_HEADER_BYTES: usize = 8;
/// Geneve (RFC 8926).
const GENEVE_PORT: u16 = 6081;
const ETHERNET_IN_TUNNEL: u16 = 0x6558;
/// The largest packets that Linux hands to a device (`GSO_MAX_SIZE`); what states more is damaged.
const PAYLOAD_MAX: usize = 8 * 65_535;

/// Two ends and the device that saw their packets. The smaller end comes first, so that both
/// directions have the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// IPv4 as mapped to IPv6.
    pub(crate) addresses: [u128; 2],
    pub(crate) ports: [u16; 2],
    pub(crate) device: u32,
}

impl Key {
    /// The connection as one of its ends has it.
    pub(crate) fn of_end(&self, end: usize) -> FlowKey {
        let at = |end: usize| SocketAddr::new(address(self.addresses[end]), self.ports[end]);
        FlowKey {
            local: at(end),
            remote: at(1 - end),
        }
    }
}

fn address(bits: u128) -> IpAddr {
    let address = Ipv6Addr::from_bits(bits);
    address
        .to_ipv4_mapped()
        .map_or(address.into(), Ipv4Addr::into)
}

/// As mapped to IPv6.
fn mapped(address: Ipv4Addr) -> u128 {
    0xffff_0000_0000 | u128::from(address.to_bits())
}

/// Options of a SYN.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SynOptions {
    pub(crate) mss: Option<u16>,
    pub(crate) scale: Option<u8>,
    pub(crate) sack: bool,
}

/// Fields of a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub(crate) at: Instant,
    pub(crate) key: Key,
    /// Which end of the key sent it.
    pub(crate) from: usize,
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) flags: TcpFlags,
    pub(crate) window: u16,
    /// By the IP header: what was captured may be less, and a GSO packet has more than an MSS.
    pub(crate) payload_bytes: u32,
    /// Number of the IPv4 packet; 0 where there is none.
    pub(crate) ident: u16,
    pub(crate) timestamps: Option<(u32, u32)>,
    pub(crate) sack: SackBlocks,
    pub(crate) syn: SynOptions,
    /// A short snapshot cut its options: one that is not there may have been sent.
    pub(crate) has_cut_options: bool,
}

impl Segment {
    pub(crate) const fn has(&self, flags: TcpFlags) -> bool {
        self.flags.contains(flags)
    }
}

/// Kind of packet found.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Found {
    Segment(Segment),
    /// A fragment; only the first would show ports.
    Fragment,
    /// Another protocol, or a socket that is connected with itself, whose directions look the same.
    Other,
    /// Cut off before the end of the TCP header's fixed part, or not as the protocols say.
    Unreadable,
}

/// Looks into a packet, and into one tunnel.
pub(crate) fn look(packet: &CapturedPacket<'_>) -> Found {
    let Some(ip) = packet.ip() else {
        return if ends_in_link_header(packet) {
            Found::Unreadable
        } else {
            Found::Other
        };
    };
    let mut inside = inside(packet, ip);
    if let Inside::Tunnel(inner) = inside {
        inside = self::inside(packet, inner);
    }
    match inside {
        Inside::Tcp(ip, ip_bytes) => segment(packet, &ip, ip_bytes).unwrap_or(Found::Unreadable),
        Inside::Fragment => Found::Fragment,
        Inside::Tunnel(_) | Inside::Other => Found::Other,
        Inside::Unreadable => Found::Unreadable,
    }
}

/// Whether the packet was cut off before what shows its protocol.
const fn ends_in_link_header(packet: &CapturedPacket<'_>) -> bool {
    let least = match packet.link {
        LinkType::Raw | LinkType::Other(_) => 0,
        // The version of IP behind it is needed too.
        LinkType::Null => 5,
        LinkType::Ethernet => 14,
        LinkType::LinuxSll => 16,
        LinkType::LinuxSll2 => 20,
    };
    packet.bytes.len() < least
}

/// What an IP packet carries.
enum Inside<'a> {
    /// A segment, in an IP packet of this many bytes.
    Tcp(IpPacket<'a>, usize),
    Tunnel(&'a [u8]),
    Fragment,
    Other,
    Unreadable,
}

fn inside<'a>(packet: &CapturedPacket<'a>, bytes: &'a [u8]) -> Inside<'a> {
    let Ok(ip) = IpPacket::parse(bytes) else {
        return Inside::Unreadable;
    };
    if ip.is_fragment() {
        return Inside::Fragment;
    }
    if ip.protocol() != protocol::TCP {
        return tunnelled(&ip).map_or(Inside::Other, Inside::Tunnel);
    }
    let behind = packet.bytes.len() - bytes.len();
    let on_the_wire = (packet.original_bytes as usize).saturating_sub(behind);
    let ip_bytes = ip_bytes(bytes, &ip, on_the_wire);
    Inside::Tcp(ip, ip_bytes)
}

/// Bytes of the IP packet: those of GSO packets above 64 KiB stand in no header.
fn ip_bytes(bytes: &[u8], ip: &IpPacket<'_>, on_the_wire: usize) -> usize {
    let length = match ip {
        IpPacket::V4(_) => [bytes[2], bytes[3]],
        IpPacket::V6(_) => [bytes[4], bytes[5]],
    };
    match length {
        [0, 0] => on_the_wire,
        _ => ip.total_bytes(),
    }
}

fn tunnelled<'a>(ip: &IpPacket<'a>) -> Option<&'a [u8]> {
    let payload = ip.payload();
    match ip.protocol() {
        IPV4_IN_IP | IPV6_IN_IP => Some(payload),
        GRE => in_gre(payload),
        protocol::UDP => in_udp(payload),
        _ => None,
    }
}

/// RFC 2784 and RFC 2890.
fn in_gre(bytes: &[u8]) -> Option<&[u8]> {
    let &[flags, version, high, low, ..] = bytes else {
        return None;
    };
    if version & 7 != 0 {
        return None;
    }
    let optional = [0x80, 0x20, 0x10].into_iter();
    let fields = optional.filter(|bit| flags & bit != 0).count();
    let inner = bytes.get(4 + 4 * fields..)?;
    behind_ether_type(u16::from_be_bytes([high, low]), inner)
}

fn in_udp(bytes: &[u8]) -> Option<&[u8]> {
    let port = u16::from_be_bytes([*bytes.get(2)?, *bytes.get(3)?]);
    let inner = bytes.get(UDP_HEADER_BYTES..)?;
    if VXLAN_PORTS.contains(&port) {
        return ip_of_frame(inner.get(VXLAN_HEADER_BYTES..)?);
    }
    if port != GENEVE_PORT {
        return None;
    }
    let options = usize::from(*inner.first()? & 0x3f) * 4;
    let ether_type = u16::from_be_bytes([*inner.get(2)?, *inner.get(3)?]);
    behind_ether_type(ether_type, inner.get(8 + options..)?)
}

fn behind_ether_type(ether_type: u16, inner: &[u8]) -> Option<&[u8]> {
    match ether_type {
        0x0800 | 0x86dd => Some(inner),
        ETHERNET_IN_TUNNEL => ip_of_frame(inner),
        _ => None,
    }
}

/// `None` where the fixed part of the header is not there, or says what cannot be.
fn segment(packet: &CapturedPacket<'_>, ip: &IpPacket<'_>, ip_bytes: usize) -> Option<Found> {
    let bytes = ip.payload();
    let fixed: &[u8; TcpSegment::HEADER_BYTES_MIN] = bytes.first_chunk()?;
    let header_bytes = usize::from(fixed[12] >> 4) * 4;
    if header_bytes < TcpSegment::HEADER_BYTES_MIN {
        return None;
    }
    // A short snapshot may cut the options; those in front of the cut are there.
    let options = &bytes[TcpSegment::HEADER_BYTES_MIN..header_bytes.min(bytes.len())];
    let payload_bytes = ip_bytes.checked_sub(ip.header_bytes() + header_bytes)?;
    if payload_bytes > PAYLOAD_MAX {
        return None;
    }
    let half = |at: usize| u16::from_be_bytes([fixed[at], fixed[at + 1]]);
    let word = |at: usize| u32::from(half(at)) << 16 | u32::from(half(at + 2));
    let (source, destination, ident) = match ip {
        IpPacket::V4(ip) => {
            let ends = (mapped(ip.source()), mapped(ip.destination()));
            (ends.0, ends.1, ip.identification())
        }
        IpPacket::V6(ip) => (ip.source().to_bits(), ip.destination().to_bits(), 0),
    };
    let (source, destination) = ((source, half(0)), (destination, half(2)));
    let (from, low, high) = match source.cmp(&destination) {
        Ordering::Less => (0, source, destination),
        Ordering::Greater => (1, destination, source),
        Ordering::Equal => return Some(Found::Other),
    };
    let Options {
        timestamps,
        sack,
        syn,
    } = Options::read(options);
    Some(Found::Segment(Segment {
        at: packet.at,
        key: Key {
            addresses: [low.0, high.0],
            ports: [low.1, high.1],
            device: packet.device(),
        },
        from,
        seq: word(4),
        ack: word(8),
        flags: TcpFlags::from_bits(half(12)),
        window: half(14),
        payload_bytes: payload_bytes as u32,
        ident,
        timestamps,
        sack,
        syn,
        has_cut_options: bytes.len() < header_bytes,
    }))
}

/// The options of a segment that matter.
#[derive(Default)]
struct Options {
    timestamps: Option<(u32, u32)>,
    sack: SackBlocks,
    syn: SynOptions,
}

impl Options {
    fn read(bytes: &[u8]) -> Self {
        let mut read = Self::default();
        // What nearly every segment has.
        if let [1, 1, 8, 10, a, b, c, d, e, f, g, h] = *bytes {
            let value = u32::from_be_bytes([a, b, c, d]);
            read.timestamps = Some((value, u32::from_be_bytes([e, f, g, h])));
            return read;
        }
        for option in TcpOptions::new(bytes) {
            match option {
                TcpOption::Timestamps { value, echo } => read.timestamps = Some((value, echo)),
                TcpOption::Sack(blocks) => read.sack = blocks,
                TcpOption::Mss(bytes) => read.syn.mss = Some(bytes),
                TcpOption::WindowScale(shift) => read.syn.scale = Some(shift.min(14)),
                TcpOption::SackPermitted => read.syn.sack = true,
                _ => {}
            }
        }
        read
    }
}
