//! One end of a connection: what it sends, what it offers, and how far it is from the capture.

use base::tcp::{SackBlocks, TcpFlags};
use base::{Instant, SeqNum};

use crate::acks::{AcksInTransit, Near};
use crate::packet::Segment;
use crate::sender::{Ack, Data, Sacked, Sender};
use crate::waits::Held;

/// The same packet, seen twice, comes so soon after itself.
const TWICE_MAX_NANOS: u64 = 2_000_000;

/// Options of an end's handshake.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Opening {
    /// When its first SYN was seen, and how many there were.
    pub(crate) syn_at: Option<Instant>,
    pub(crate) syns: u32,
    pub(crate) scale: Option<u8>,
    pub(crate) mss: Option<u16>,
    pub(crate) sack: bool,
    pub(crate) stamps: bool,
    /// Its SYN asked for ECN, or agreed.
    pub(crate) ecn: bool,
    /// The capture cut its options.
    pub(crate) is_cut: bool,
}

impl Opening {
    /// Whether a SYN was seen whole: an option that it does not have was not offered.
    pub(crate) const fn tells(&self) -> bool {
        self.syns > 0 && !self.is_cut
    }
}

/// The end.
#[derive(Clone, Debug)]
pub(crate) struct End {
    pub(crate) sender: Sender,
    pub(crate) near: Near,
    /// ACKs that it does not have yet.
    pub(crate) underway: AcksInTransit,
    pub(crate) opening: Opening,
    /// The window that it offers, as it stands in its packets.
    pub(crate) window: u16,
    pub(crate) has_stamps: bool,
    pub(crate) has_fin: bool,
    /// An ACK of it, as the capture sees it, maybe before the end does.
    pub(crate) is_fin_acked: bool,
    /// Messages that it sent: data after data of the other end.
    pub(crate) messages: u64,
    /// The packet before, to know one that was captured twice.
    last: Option<Seen>,
}

/// Fields that distinguish a packet from the previous one.
#[derive(Clone, Copy, Debug)]
struct Seen {
    at: Instant,
    seq: u32,
    ack: u32,
    payload_bytes: u32,
    ident: u16,
    window: u16,
    flags: TcpFlags,
    timestamps: Option<(u32, u32)>,
    sack: SackBlocks,
}

impl Seen {
    const fn of(segment: &Segment) -> Self {
        Self {
            at: segment.at,
            seq: segment.seq,
            ack: segment.ack,
            payload_bytes: segment.payload_bytes,
            ident: segment.ident,
            window: segment.window,
            flags: segment.flags,
            timestamps: segment.timestamps,
            sack: segment.sack,
        }
    }
}

impl End {
    pub(crate) fn new() -> Self {
        Self {
            sender: Sender::new(),
            near: Near::default(),
            underway: AcksInTransit::default(),
            opening: Opening::default(),
            window: 0,
            has_stamps: false,
            has_fin: false,
            is_fin_acked: false,
            messages: 0,
            last: None,
        }
    }

    /// The same in the memory of one whose connection is over.
    pub(crate) fn renew(&mut self) {
        let Self {
            sender,
            near,
            underway,
            opening,
            window,
            has_stamps,
            has_fin,
            is_fin_acked,
            messages,
            last,
        } = self;
        sender.renew();
        underway.clear();
        (*near, *opening, *last) = (Near::default(), Opening::default(), None);
        (*window, *messages) = (0, 0);
        (*has_stamps, *has_fin, *is_fin_acked) = (false, false, false);
    }

    /// Whether this is the packet before once more. Where its number does not tell, only one that
    /// no sender repeats so soon is taken for it.
    pub(crate) fn is_twice(&mut self, segment: &Segment) -> bool {
        let same = self.last.is_some_and(|last| {
            last.seq == segment.seq
                && last.ident == segment.ident
                && segment.at.nanos_since(last.at) < TWICE_MAX_NANOS
                && last.ack == segment.ack
                && last.flags == segment.flags
                && last.window == segment.window
                && last.payload_bytes == segment.payload_bytes
                && last.timestamps == segment.timestamps
                && last.sack == segment.sack
                // A duplicate ACK looks like the one before, but for its number.
                && (segment.ident != 0 || segment.payload_bytes > 0)
        });
        self.last = Some(Seen::of(segment));
        same
    }

    pub(crate) fn note_syn(&mut self, segment: &Segment) {
        let opening = &mut self.opening;
        opening.syns = opening.syns.saturating_add(1);
        opening.syn_at.get_or_insert(segment.at);
        opening.scale = segment.syn.scale;
        opening.mss = segment.syn.mss;
        opening.sack = segment.syn.sack;
        opening.stamps = segment.timestamps.is_some();
        opening.ecn = segment.has(TcpFlags::ECE);
        opening.is_cut = segment.has_cut_options;
    }

    /// The other end takes segments of this MSS, of which options take a part.
    pub(crate) fn allow_mss(&mut self, mss: Option<u16>, options: u32) {
        if let Some(mss) = mss {
            self.sender
                .allow_mss(u32::from(mss).saturating_sub(options));
        }
    }

    /// Its ACK as the sender at the other end will have it.
    pub(crate) fn ack_of(&self, segment: &Segment, other: &Self) -> Option<Ack> {
        let una = other.sender.offset(segment.ack)?;
        let (sacked, is_dsack) = match segment.sack.iter().len() {
            0 => (Sacked::default(), false),
            _ => Self::sacked_of(segment, other, una),
        };
        Some(Ack {
            at: segment.at,
            seen: segment.at,
            una,
            window: self.window_of(segment, other),
            unscaled: segment.window,
            carries_data: segment.payload_bytes > 0,
            sacked,
            is_dsack,
            echoes_mark: segment.has(TcpFlags::ECE) && !segment.has(TcpFlags::SYN),
        })
    }

    /// What the SACK blocks of an ACK up to `una` name behind it, and whether the first of them
    /// tells of data that came twice.
    fn sacked_of(segment: &Segment, other: &Self, una: u64) -> (Sacked, bool) {
        let span = |(from, to): (SeqNum, SeqNum)| {
            let (from, to) = (
                other.sender.offset(from.number())?,
                other.sender.offset(to.number())?,
            );
            (from < to).then_some((from, to))
        };
        let mut blocks = segment.sack.iter().filter_map(span);
        let first = blocks.next();
        let inside = segment.sack.iter().filter_map(span).nth(1);
        let is_dsack = first.is_some_and(|(from, to)| {
            to <= una || inside.is_some_and(|outer| outer.0 <= from && to <= outer.1)
        });
        let behind = segment.sack.iter().filter_map(span);
        let sacked = behind.filter(|block| block.0 >= una).collect();
        (sacked, is_dsack)
    }

    /// In bytes, where the scale is known. The window of a SYN is never scaled (RFC 7323), and none
    /// is none by any scale.
    fn window_of(&self, segment: &Segment, other: &Self) -> Option<u32> {
        let window = u32::from(segment.window);
        if segment.has(TcpFlags::SYN) || window == 0 {
            return Some(window);
        }
        Some(window << self.scale(other)?)
    }

    /// The scale of the windows that it offers: agreed in the handshake, or what this many full
    /// windows fit; `None` where neither tells.
    pub(crate) fn scale(&self, other: &Self) -> Option<u8> {
        if let Some((own, _)) = self.opening.scale.zip(other.opening.scale) {
            return Some(own);
        }
        match (self.opening.tells(), other.opening.tells()) {
            // Who offers none has none.
            (true, true) => Some(0),
            (true, false) if self.opening.scale.is_none() => Some(0),
            (_, true) if other.opening.scale.is_none() => Some(0),
            (true, false) => self.opening.scale,
            _ => other.sender.scale.scale(),
        }
    }

    /// Payload of a segment leaves.
    pub(crate) fn send(&mut self, segment: &Segment) -> Option<Held> {
        // A SYN may carry data (RFC 7413), which begins behind its number.
        let seq = segment
            .seq
            .wrapping_add(u32::from(segment.has(TcpFlags::SYN)));
        self.sender.on_data(&Data {
            at: segment.at,
            seq,
            bytes: segment.payload_bytes,
            is_pushed: segment.has(TcpFlags::PSH),
            ends: segment.has(TcpFlags::FIN),
            stamp: segment.timestamps.map(|(value, _)| value),
        })
    }
}
