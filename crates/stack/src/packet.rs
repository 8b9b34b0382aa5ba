//! Packets as the inside of a host sees them: a header in fields and payload in shared slices, so
//! that a simulated path copies nothing. Bytes are made only where a real path begins
//! ([`wire`](crate::wire)).

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use base::tcp::{SackBlocks, TcpFlags};
use base::{Instant, SeqNum, WirePacket};
use bytes::Bytes;

/// The ECN field of an IP header (RFC 3168 section 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EcnMark {
    /// Not ECN-capable.
    #[default]
    NotEct,
    /// ECN-capable, ECT(0).
    Ect0,
    /// ECN-capable, ECT(1).
    Ect1,
    /// Congestion experienced.
    Ce,
}

/// A packet, or a GSO packet that stands for several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Sender.
    pub source: IpAddr,
    /// Receiver.
    pub destination: IpAddr,
    /// Congestion mark.
    pub ecn: EcnMark,
    /// Routers must not fragment it (IPv4 DF; always so for IPv6).
    pub dont_fragment: bool,
    /// Hop limit.
    pub hop_limit: u8,
    /// Earliest departure time (pacing); `Instant::ZERO`: at once.
    pub not_before: Instant,
    /// Body.
    pub body: Body,
}

/// Body of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// TCP.
    Tcp(Segment),
    /// An ICMP error about one of our segments.
    Icmp(IcmpError),
}

/// An ICMP error about one of our segments (RFC 792, RFC 4443), as far as TCP uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcmpError {
    /// Kind of error.
    pub kind: IcmpKind,
    /// Our end, as the quoted segment names it.
    pub local: SocketAddr,
    /// Its destination.
    pub remote: SocketAddr,
    /// Its sequence number, by which forgeries are told apart (RFC 5927 section 4.1).
    pub seq: SeqNum,
}

/// Kind of ICMP error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IcmpKind {
    /// A packet exceeded the MTU of the next hop (0 where it is not told).
    TooBig {
        /// MTU of the next hop, in bytes.
        mtu: u32,
    },
    /// Soft: network or host unreachable (RFC 9293 section 3.9.2.2).
    Unreachable,
    /// Soft: the hop limit was exceeded, or reassembly timed out.
    TimeExceeded,
    /// Hard: protocol or port unreachable, administratively prohibited.
    Refused,
}

/// A TCP segment, or a chain of segments with the same header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// The sender's port.
    pub source_port: u16,
    /// The receiver's port.
    pub destination_port: u16,
    /// Number of the first payload byte, or of SYN.
    pub seq: SeqNum,
    /// The next byte that the sender expects; counts where ACK is set.
    pub ack: SeqNum,
    /// The flags. In a chain FIN and PSH belong to the last segment, CWR to the first.
    pub flags: TcpFlags,
    /// The window as it stands in the header, already shifted.
    pub window: u16,
    /// Urgent pointer: the offset from `seq` to the end of urgent data, in bytes; valid where URG
    /// is set.
    pub urgent: u16,
    /// The options.
    pub options: SegmentOptions,
    /// The data.
    pub payload: Payload,
    /// Payload of each segment of the chain but the last; 0 for a single segment.
    pub gso_size: u16,
}

/// The options that TCP here understands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentOptions {
    /// Largest payload that the sender accepts (RFC 9293 section 3.7.1); only with SYN.
    pub mss: Option<u16>,
    /// Shift of its windows (RFC 7323 section 2); only with SYN.
    pub window_scale: Option<u8>,
    /// SACK permitted (RFC 2018); in a SYN only.
    pub sack_permitted: bool,
    /// Its clock and the echo of ours (RFC 7323 section 3).
    pub timestamps: Option<Timestamps>,
    /// Ranges of out-of-order data that the sender holds; the first may be a duplicate (RFC 2883).
    pub sack: Option<SackBlocks>,
}

/// The timestamps option (RFC 7323 section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamps {
    /// The sender's clock (`TSval`).
    pub value: u32,
    /// The last clock value that it saw (`TSecr`).
    pub echo: u32,
}

impl SegmentOptions {
    /// Bytes that they take in the header, padded to whole words as every stack does.
    #[must_use]
    pub fn bytes(&self) -> u32 {
        let Self {
            mss,
            window_scale,
            sack_permitted,
            timestamps,
            sack,
        } = self;
        let mut bytes = 0;
        bytes += if mss.is_some() { 4 } else { 0 };
        // Padded with one NOP, which the bare SACK-permitted option needs two of.
        bytes += if window_scale.is_some() { 4 } else { 0 };
        bytes += match (sack_permitted, timestamps) {
            (true, Some(_)) => 12,
            (true, None) => 4,
            (false, Some(_)) => 12,
            (false, None) => 0,
        };
        let blocks = sack.as_ref();
        bytes += blocks.map_or(0, |blocks| 4 + 8 * blocks.iter().len() as u32);
        bytes
    }
}

/// Bytes of the options that every segment with data carries, SACK apart.
pub(crate) const fn option_bytes(timestamps: bool) -> u32 {
    if timestamps { 12 } else { 0 }
}

impl Segment {
    /// Sequence numbers that it takes: payload, SYN and FIN.
    #[must_use]
    pub fn sequence_bytes(&self) -> u32 {
        self.payload.len()
            + u32::from(self.flags.contains(TcpFlags::SYN))
            + u32::from(self.flags.contains(TcpFlags::FIN))
    }

    /// How many segments it stands for; at least 1.
    #[must_use]
    pub fn segments(&self) -> u32 {
        match self.gso_size {
            0 => 1,
            size => self.payload.len().div_ceil(size.into()).max(1),
        }
    }

    /// Bytes of its TCP header with options.
    #[must_use]
    pub fn header_bytes(&self) -> u32 {
        20 + self.options.bytes()
    }
}

impl Packet {
    /// Bytes of the IP header and the TCP header of each segment.
    fn header_bytes(&self) -> u32 {
        let ip = if self.source.is_ipv4() { 20 } else { 40 };
        match &self.body {
            Body::Tcp(segment) => ip + segment.header_bytes(),
            // Type, code, checksum, and the quoted headers.
            Body::Icmp(_) => ip + 8 + ip + 20,
        }
    }

    /// The segment, where it is one.
    #[must_use]
    pub const fn segment(&self) -> Option<&Segment> {
        match &self.body {
            Body::Tcp(segment) => Some(segment),
            Body::Icmp(_) => None,
        }
    }
}

impl Packet {
    /// The contents of memory from which a packet was taken.
    pub(crate) const TAKEN: Self = {
        let nowhere = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        Self {
            source: nowhere,
            destination: nowhere,
            ecn: EcnMark::NotEct,
            dont_fragment: false,
            hop_limit: 0,
            not_before: Instant::ZERO,
            body: Body::Icmp(IcmpError {
                kind: IcmpKind::Refused,
                local: SocketAddr::new(nowhere, 0),
                remote: SocketAddr::new(nowhere, 0),
                seq: SeqNum::new(0),
            }),
        }
    };

    /// A segment, with the header fields of an ordinary reply.
    pub(crate) const fn of_segment(source: IpAddr, destination: IpAddr, segment: Segment) -> Self {
        Self {
            source,
            destination,
            ecn: EcnMark::NotEct,
            dont_fragment: true,
            hop_limit: 64,
            not_before: Instant::ZERO,
            body: Body::Tcp(segment),
        }
    }
}

impl WirePacket for Packet {
    fn segments(&self) -> u32 {
        self.segment().map_or(1, Segment::segments)
    }

    fn wire_bytes(&self) -> u64 {
        let headers = u64::from(self.header_bytes());
        match self.segment() {
            Some(segment) => {
                headers * u64::from(segment.segments()) + u64::from(segment.payload.len())
            }
            None => headers,
        }
    }

    fn largest_segment_bytes(&self) -> u32 {
        let payload = self.segment().map_or(0, |segment| match segment.gso_size {
            0 => segment.payload.len(),
            size => segment.payload.len().min(size.into()),
        });
        self.header_bytes() + payload
    }

    fn split_off(&mut self, at: u32) -> Self {
        let segments = self.segments();
        assert!(
            0 < at && at < segments,
            "cut in front of segment {at} of {segments}"
        );
        let mut rest = self.clone();
        let (Body::Tcp(head), Body::Tcp(tail)) = (&mut self.body, &mut rest.body) else {
            unreachable!("only TCP has several segments");
        };
        let bytes = at * u32::from(head.gso_size);
        tail.payload = head.payload.split_off(bytes);
        tail.seq += bytes;
        tail.flags = tail.flags.without(TcpFlags::CWR);
        head.flags = head.flags.without(TcpFlags::FIN | TcpFlags::PSH);
        for part in [head, tail] {
            if part.payload.len() <= part.gso_size.into() {
                part.gso_size = 0;
            }
        }
        rest
    }

    fn duplicate(&self) -> Self {
        self.clone()
    }
}

/// Most bytes that were cut off and may stay in memory with the rest: as much as a packet is
/// charged beside its bytes.
const REST_BYTES_MAX: u32 = 256;

/// Data in slices of shared memory: cutting and joining copy nothing.
#[derive(Clone, Debug, Default)]
pub struct Payload {
    chunks: Chunks,
    len: u32,
}

/// The slices of a payload. Mostly there is one, so that a packet is small, and moved quickly.
#[derive(Clone, Debug, Default)]
enum Chunks {
    #[default]
    None,
    One(Bytes),
    Many(Vec<Bytes>),
}

impl Payload {
    /// Bytes in it.
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// Whether nothing is in it.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends a slice; an empty one leaves no trace.
    ///
    /// # Panics
    /// Where the whole would exceed 4 GiB.
    #[inline]
    pub fn push(&mut self, chunk: Bytes) {
        if chunk.is_empty() {
            return;
        }
        let more = u32::try_from(chunk.len()).expect("a slice below 4 GiB");
        self.len = self.len.checked_add(more).expect("a payload below 4 GiB");
        match self.chunks {
            Chunks::None => self.chunks = Chunks::One(chunk),
            _ => self.many(1).push(chunk),
        }
    }

    /// The slices in a vector that has room for some more.
    #[inline]
    fn many(&mut self, more: usize) -> &mut Vec<Bytes> {
        if !matches!(self.chunks, Chunks::Many(_)) {
            let one = core::mem::take(&mut self.chunks);
            let mut many = Vec::with_capacity(1 + more);
            if let Chunks::One(first) = one {
                many.push(first);
            }
            self.chunks = Chunks::Many(many);
        }
        let Chunks::Many(many) = &mut self.chunks else {
            unreachable!("just put there");
        };
        many.reserve(more);
        many
    }

    /// Appends all of another one; about so many more slices will follow.
    pub(crate) fn append(&mut self, other: Self, more: usize) {
        let len = self.len.checked_add(other.len);
        self.len = len.expect("a payload below 4 GiB");
        let many = self.many(other.chunks().len() + more);
        match other.chunks {
            Chunks::None => {}
            Chunks::One(chunk) => many.push(chunk),
            Chunks::Many(chunks) => many.extend(chunks),
        }
    }

    /// The slices in order; none is empty.
    #[inline]
    #[must_use]
    pub fn chunks(&self) -> &[Bytes] {
        match &self.chunks {
            Chunks::None => &[],
            Chunks::One(chunk) => core::slice::from_ref(chunk),
            Chunks::Many(many) => many,
        }
    }

    /// Takes the slices out, in order.
    pub fn into_chunks(self) -> impl Iterator<Item = Bytes> {
        let (one, many) = match self.chunks {
            Chunks::None => (None, Vec::new()),
            Chunks::One(chunk) => (Some(chunk), Vec::new()),
            Chunks::Many(many) => (None, many),
        };
        one.into_iter().chain(many)
    }

    /// Cuts off everything from byte `at` on and returns it.
    ///
    /// # Panics
    /// Where `at` exceeds the length.
    pub fn split_off(&mut self, at: u32) -> Self {
        assert!(at <= self.len, "cut at {at} of {}", self.len);
        let (mut head, mut tail) = (Self::default(), Self::default());
        for mut chunk in core::mem::take(self).into_chunks() {
            let in_head = (at - head.len).min(chunk.len() as u32);
            tail.push(chunk.split_off(in_head as usize));
            head.push(chunk);
        }
        *self = head;
        tail
    }

    /// Drops the first `bytes`.
    ///
    /// # Panics
    /// Where they exceed the length.
    pub fn advance(&mut self, bytes: u32) {
        *self = self.split_off(bytes);
    }

    /// Copies what is left of `before` bytes if a slice would keep much more memory alive than it
    /// needs: it holds the whole block that it was cut from, of which a peer would be charged one
    /// byte.
    pub(crate) fn release_rest(&mut self, before: u32) {
        if before - self.len > REST_BYTES_MAX {
            *self = Bytes::from(self.to_vec()).into();
        }
    }

    /// Copies everything out.
    #[must_use]
    pub fn to_vec(&self) -> alloc::vec::Vec<u8> {
        self.chunks().concat()
    }
}

/// The same bytes, however they are cut.
impl PartialEq for Payload {
    fn eq(&self, other: &Self) -> bool {
        let bytes = |payload: &'_ Self| payload.chunks().to_vec().into_iter().flatten();
        self.len == other.len && bytes(self).eq(bytes(other))
    }
}

impl Eq for Payload {}

impl From<Bytes> for Payload {
    fn from(chunk: Bytes) -> Self {
        let mut payload = Self::default();
        payload.push(chunk);
        payload
    }
}
