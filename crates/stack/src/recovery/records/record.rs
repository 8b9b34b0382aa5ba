//! State of a chain of segments in flight, and its changes.

use base::Instant;

use crate::recovery::rate::SentState;

/// A chain of segments that was sent at once and is not delivered yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::recovery) struct Record {
    /// Offset after its last byte.
    pub(in crate::recovery) end: u64,
    /// Bytes of each segment but the last.
    pub(in crate::recovery) segment: u32,
    pub(in crate::recovery) packets: u32,
    /// When it was last sent.
    pub(in crate::recovery) sent: Instant,
    pub(in crate::recovery) state: SentState,
    /// Our timestamp in the last retransmission.
    pub(in crate::recovery) timestamp: u32,
    pub(in crate::recovery) is_lost: bool,
    /// A retransmission of it is in flight.
    pub(in crate::recovery) is_retransmitted: bool,
    /// Retransmitted at least once.
    pub(in crate::recovery) was_retransmitted: bool,
    /// RACK found it lost since it was last sent.
    pub(in crate::recovery) is_overdue: bool,
}

impl Record {
    /// Whether it waits to be retransmitted.
    pub(super) fn waits(&self) -> bool {
        self.is_lost && !self.is_retransmitted
    }
}

/// How a record is retransmitted.
#[derive(Clone, Copy, Debug)]
pub(in crate::recovery) struct Retransmission {
    pub(in crate::recovery) now: Instant,
    /// Bytes of each segment but the last.
    pub(in crate::recovery) segment: u32,
    pub(in crate::recovery) timestamp: u32,
    pub(in crate::recovery) state: SentState,
    /// Counts as an additional packet in flight.
    pub(in crate::recovery) is_in_flight: bool,
}

/// A piece of a record that an ACK delivers.
#[derive(Debug)]
pub(in crate::recovery) struct Delivered<'a> {
    pub(in crate::recovery) start: u64,
    pub(in crate::recovery) end: u64,
    pub(in crate::recovery) packets: u32,
    pub(in crate::recovery) record: &'a Record,
}

/// What the peer reports a duplicate of (Linux `tcp_sacktag_one`, `tcp_check_dsack`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::recovery) enum Duplicate {
    /// It was acknowledged before: whether we sent it twice is not known any more.
    Forgotten,
    /// It was retransmitted and is SACKed: both arrived.
    Sacked,
    /// It was retransmitted and is not SACKed yet.
    Out,
    /// We sent it once.
    OfTheNetwork,
}
