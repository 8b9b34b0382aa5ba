//! A packet as a TUN device with offloads hands it over: up to 64 KiB of TCP payload under one
//! header, to be cut into wire packets where they are needed one by one.
//!
//! It decides where the cuts are and what the headers of the parts say, from the virtio header and
//! the IP and TCP headers alone. It knows no offload but TCP's: a device opened with `TUN_F_USO4`
//! or `TUN_F_USO6` would hand over UDP GSO packets, which count as one wire packet here.

use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;

use crate::checksum::{Checksum, update_partial};
use crate::icmp;
use crate::ip::{IpPacket, protocol, write_checksum};
use crate::parse::{be16, be32, set_be16};
use crate::tcp::{CHECKSUM_AT, TcpFlags, TcpSegment};
use crate::virtio::{GsoType, VirtioHeader};
use crate::wire_packet::WirePacket;

const VNET: usize = VirtioHeader::BYTES;
const TCP_FLAGS_AT: usize = 12;
/// Largest part of a packet that an ICMP message quotes.
const QUOTE_BYTES_MAX: usize = 1280;

/// A packet in the buffer that it was read into, with its virtio header in front.
///
/// ```
/// use tcptailor_base::{GsoPacket, VirtioHeader, WirePacket};
///
/// let mut buffer = vec![0; 65_545]; // reused for each read
/// // let length = read(tun, &mut buffer);
/// let length = VirtioHeader::BYTES + 40;
/// let packet = GsoPacket::from_tun(buffer, length).expect("at least a virtio header");
/// assert_eq!(packet.segments(), 1);
/// // write(tun, packet.as_tun_bytes());
/// assert_eq!(packet.into_buffer().len(), 65_545);
/// ```
pub struct GsoPacket {
    /// The packet with its virtio header lies in `start..end`; the rest is of no meaning.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    vnet: VirtioHeader,
    shape: Shape,
}

/// Header fields that every cut must patch. Offsets count from the start of the IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// One wire packet, whatever is in it.
    Single,
    /// TCP that is to be cut.
    Tcp(TcpShape),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TcpShape {
    /// At least 2.
    segments: u32,
    is_v4: bool,
    tcp_at: usize,
    payload_at: usize,
}

impl GsoPacket {
    /// Takes a buffer whose first `length` bytes were read from a TUN device with `IFF_VNET_HDR`
    /// (and the usual header of [`VirtioHeader::BYTES`]). Nothing is copied; looks at the headers
    /// only.
    ///
    /// A packet that is not valid IP, not TCP, or whose virtio header contradicts the others,
    /// counts as one wire packet and passes unchanged.
    ///
    /// # Errors
    /// The buffer back, where `length` is less than a virtio header or more than the buffer.
    pub fn from_tun(buffer: Vec<u8>, length: usize) -> Result<Self, Vec<u8>> {
        if length > buffer.len() {
            return Err(buffer);
        }
        let Ok(vnet) = VirtioHeader::parse(&buffer[..length]) else {
            return Err(buffer);
        };
        let shape = Shape::of(&vnet, &buffer[VNET..length]);
        Ok(Self {
            buffer,
            start: 0,
            end: length,
            vnet,
            shape,
        })
    }

    /// One wire packet, without offloads.
    #[must_use]
    pub fn from_ip(packet: &[u8]) -> Self {
        let mut buffer = Vec::with_capacity(VNET + packet.len());
        buffer.resize(VNET, 0);
        buffer.extend_from_slice(packet);
        Self {
            start: 0,
            end: buffer.len(),
            buffer,
            vnet: VirtioHeader::default(),
            shape: Shape::Single,
        }
    }

    /// The virtio header and the packet, to be written to a TUN device at once.
    #[must_use]
    pub fn as_tun_bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// The packet from its IP header on. The checksum of TCP may be left to the device; see
    /// [`VirtioHeader::needs_checksum`].
    #[must_use]
    pub fn packet(&self) -> &[u8] {
        &self.as_tun_bytes()[VNET..]
    }

    /// The virtio header.
    #[must_use]
    pub const fn vnet(&self) -> &VirtioHeader {
        &self.vnet
    }

    /// The buffer, for the next read. It is as long as it was when it came in; that of a packet
    /// that was cut off or duplicated is only as long as this packet.
    #[must_use]
    pub fn into_buffer(self) -> Vec<u8> {
        self.buffer
    }

    /// The message to the sender that its packets exceed `mtu` bytes, about the first of the wire
    /// packets; from `from`, or else from the destination. `None` where none may be sent; see
    /// [`icmp::too_big`].
    #[must_use]
    pub fn too_big_reply(&self, mtu: u32, from: Option<IpAddr>) -> Option<Self> {
        let packet = self.packet();
        let quoted = match self.shape {
            Shape::Single => &packet[..packet.len().min(QUOTE_BYTES_MAX)],
            Shape::Tcp(_) => {
                let first_bytes = self.largest_segment_bytes() as usize;
                let mut first = packet[..first_bytes.min(QUOTE_BYTES_MAX)].to_vec();
                self.shape.write_lengths(&mut first, first_bytes);
                return icmp::too_big(&first, mtu, from).map(|reply| Self::from_ip(&reply));
            }
        };
        icmp::too_big(quoted, mtu, from).map(|reply| Self::from_ip(&reply))
    }

    /// Writes the headers of a part that was cut out of `whole`.
    fn finish_part(&mut self, whole: &Whole, part: Part) {
        let Shape::Tcp(tcp) = self.shape else {
            unreachable!("only TCP is cut");
        };
        let start = self.start + VNET;
        let total = self.end - start;
        let shape = self.shape;
        let packet = &mut self.buffer[start..self.end];
        let flags = be16(packet, tcp.tcp_at + TCP_FLAGS_AT);
        let flags = match part {
            Part::Head => flags & !(TcpFlags::FIN | TcpFlags::PSH).bits(),
            Part::Tail { bytes, segments } => {
                let seq = be32(packet, tcp.tcp_at + 4).wrapping_add(bytes);
                packet[tcp.tcp_at + 4..tcp.tcp_at + 8].copy_from_slice(&seq.to_be_bytes());
                if tcp.is_v4 {
                    // Linux 6.18 net/ipv4/af_inet.c, inet_gso_segment: counts up per segment.
                    let id = be16(packet, 4).wrapping_add(segments as u16);
                    set_be16(packet, 4, id);
                }
                flags & !TcpFlags::CWR.bits()
            }
        };
        set_be16(packet, tcp.tcp_at + TCP_FLAGS_AT, flags);
        shape.write_lengths(packet, total);
        let partial = update_partial(
            whole.partial,
            (whole.bytes - tcp.tcp_at) as u16,
            (total - tcp.tcp_at) as u16,
        );
        set_be16(packet, tcp.tcp_at + CHECKSUM_AT, partial);
        let payload = (total - tcp.payload_at) as u32;
        self.write_vnet(tcp, payload, flags & TcpFlags::CWR.bits() != 0);
    }

    /// Writes the virtio header of a part with `payload` bytes.
    fn write_vnet(&mut self, tcp: TcpShape, payload: u32, has_cwr: bool) {
        self.vnet.flags |= VirtioHeader::NEEDS_CSUM;
        self.vnet.csum_start = tcp.tcp_at as u16;
        self.vnet.csum_offset = CHECKSUM_AT as u16;
        let segments = payload.div_ceil(self.vnet.gso_size.into());
        if segments > 1 {
            self.vnet.ecn &= has_cwr;
            self.shape = Shape::Tcp(TcpShape { segments, ..tcp });
        } else {
            self.vnet.gso = GsoType::None;
            self.vnet.ecn = false;
            self.vnet.gso_size = 0;
            self.vnet.header_bytes = 0;
            self.shape = Shape::Single;
        }
        self.buffer[self.start..self.start + VNET].copy_from_slice(&self.vnet.to_bytes());
    }
}

/// Properties of the whole packet that every segment cut from it needs.
struct Whole {
    /// From the IP header on.
    bytes: usize,
    /// The not complemented sum over its pseudo header.
    partial: u16,
}

/// Which part is being finished.
#[derive(Clone, Copy)]
enum Part {
    /// It keeps the sequence number, and CWR; FIN and PSH are for the end.
    Head,
    /// The rest, behind this many payload bytes and segments.
    Tail { bytes: u32, segments: u32 },
}

impl Shape {
    fn of(vnet: &VirtioHeader, packet: &[u8]) -> Self {
        Self::of_tcp(vnet, packet).map_or(Self::Single, Self::Tcp)
    }

    /// `None` where it is one wire packet.
    fn of_tcp(vnet: &VirtioHeader, bytes: &[u8]) -> Option<TcpShape> {
        if !matches!(vnet.gso, GsoType::TcpV4 | GsoType::TcpV6) || vnet.gso_size == 0 {
            return None;
        }
        let packet = IpPacket::parse(bytes).ok()?;
        let (is_v4, stated, is_routed) = match packet {
            IpPacket::V4(_) => (true, be16(bytes, 2).into(), false),
            IpPacket::V6(packet) => (false, 40 + usize::from(be16(bytes, 4)), packet.is_routed()),
        };
        let fits = is_v4 == (vnet.gso == GsoType::TcpV4)
            && stated == bytes.len()
            && packet.protocol() == protocol::TCP
            && !packet.is_fragment()
            && !is_routed;
        if !fits {
            return None;
        }
        let tcp_at = packet.header_bytes();
        let segment = TcpSegment::parse(packet.payload()).ok()?;
        let covers_tcp =
            usize::from(vnet.csum_start) == tcp_at && usize::from(vnet.csum_offset) == CHECKSUM_AT;
        if vnet.needs_checksum() && !covers_tcp {
            return None;
        }
        let segments = segment.payload().len().div_ceil(vnet.gso_size.into()) as u32;
        (segments > 1).then_some(TcpShape {
            segments,
            is_v4,
            tcp_at,
            payload_at: tcp_at + segment.header_bytes(),
        })
    }

    /// Sets the length of an IP packet of `total` bytes, and the checksum of an IPv4 header.
    fn write_lengths(self, packet: &mut [u8], total: usize) {
        match self {
            Self::Single => {}
            Self::Tcp(TcpShape { is_v4: false, .. }) => {
                set_be16(packet, 4, (total - 40) as u16);
            }
            Self::Tcp(TcpShape { tcp_at, .. }) => {
                set_be16(packet, 2, total as u16);
                write_checksum(&mut packet[..tcp_at]);
            }
        }
    }
}

impl WirePacket for GsoPacket {
    fn segments(&self) -> u32 {
        match self.shape {
            Shape::Single => 1,
            Shape::Tcp(tcp) => tcp.segments,
        }
    }

    fn wire_bytes(&self) -> u64 {
        let bytes = (self.end - self.start - VNET) as u64;
        match self.shape {
            Shape::Single => bytes,
            Shape::Tcp(tcp) => bytes + u64::from(tcp.segments - 1) * tcp.payload_at as u64,
        }
    }

    fn largest_segment_bytes(&self) -> u32 {
        match self.shape {
            Shape::Single => (self.end - self.start - VNET) as u32,
            Shape::Tcp(tcp) => tcp.payload_at as u32 + u32::from(self.vnet.gso_size),
        }
    }

    /// Copies the smaller of the two parts only; the other one keeps the buffer. So a packet may be
    /// taken apart one by one from either end without copying it each time.
    fn split_off(&mut self, at: u32) -> Self {
        let segments = self.segments();
        let tcp = match self.shape {
            Shape::Tcp(tcp) if 0 < at && at < segments => tcp,
            _ => panic!("cut in front of segment {at} of {segments}"),
        };
        let whole = self.whole(tcp);
        let headers = VNET + tcp.payload_at;
        let head_payload = at as usize * usize::from(self.vnet.gso_size);
        let head_end = self.start + headers + head_payload;
        let mut tail = Self {
            buffer: Vec::new(),
            start: 0,
            end: 0,
            ..*self
        };
        if head_payload <= self.end - head_end {
            let head = self.buffer[self.start..head_end].to_vec();
            tail.start = self.start + head_payload;
            tail.end = self.end;
            self.buffer
                .copy_within(self.start..self.start + headers, tail.start);
            tail.buffer = core::mem::replace(&mut self.buffer, head);
            self.start = 0;
            self.end = self.buffer.len();
        } else {
            let headers = &self.buffer[self.start..self.start + headers];
            let payload = &self.buffer[head_end..self.end];
            tail.buffer = [headers, payload].concat();
            tail.end = tail.buffer.len();
            self.end = head_end;
        }
        self.finish_part(&whole, Part::Head);
        tail.finish_part(
            &whole,
            Part::Tail {
                bytes: head_payload as u32,
                segments: at,
            },
        );
        tail
    }

    fn duplicate(&self) -> Self {
        Self {
            buffer: self.as_tun_bytes().to_vec(),
            start: 0,
            end: self.end - self.start,
            ..*self
        }
    }
}

impl GsoPacket {
    fn whole(&self, tcp: TcpShape) -> Whole {
        let packet = self.packet();
        let partial = if self.vnet.needs_checksum() {
            be16(packet, tcp.tcp_at + CHECKSUM_AT)
        } else {
            // A finished checksum over all segments is of no use for any of them.
            let ip = IpPacket::parse(packet).expect("the shape was read from it");
            let length = (packet.len() - tcp.tcp_at) as u32;
            Checksum::new()
                .pseudo_header((ip.source(), ip.destination()), protocol::TCP, length)
                .partial()
        };
        Whole {
            bytes: packet.len(),
            partial,
        }
    }
}

impl fmt::Debug for GsoPacket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GsoPacket")
            .field("bytes", &self.packet().len())
            .field("segments", &self.segments())
            .field("vnet", &self.vnet)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
