//! Header prediction of Linux: whether a segment takes its fast path.
//!
//! The receiving half knows whether there is memory for it.

use base::Instant;
use base::tcp::TcpFlags;

use super::{Connection, State};
use crate::host::Shared;
use crate::packet::{EcnMark, Segment};

/// What the header says about taking the data of a segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct DataHints {
    /// It is the segment that Linux's header prediction expects.
    pub(super) is_predicted: bool,
    /// Its ECN mark asks for quick ACKs.
    pub(super) wants_quick_acks: bool,
}

impl Connection {
    /// Whether it is data alone, the next in order: Linux takes it without looking at unsent data
    /// (`tcp_rcv_established`, header prediction).
    pub(super) fn is_plain(&self, segment: &Segment, start: i64) -> bool {
        self.acknowledges_nothing(segment) && self.is_predicted(segment, start)
    }

    pub(super) fn acknowledges_nothing(&self, segment: &Segment) -> bool {
        let una = self.recovery.una();
        self.iss.offset(segment.ack, una) == una as i64
    }

    /// See [`Self::is_predicted`]; rarely asked, since few send both ways at once.
    #[inline(never)]
    pub(super) fn is_predicted_beside_flight(&self, segment: &Segment, start: i64) -> bool {
        self.is_predicted(segment, start)
    }

    /// Whether it is the segment that Linux predicts: data, the next in order, with the usual
    /// header, for which there is memory (`tcp_rcv_established`).
    pub(super) fn is_predicted(&self, segment: &Segment, start: i64) -> bool {
        let sent = || self.send.queued_bytes(self.recovery.progress());
        matches!(self.state, State::Established(_))
            && segment.flags.without(TcpFlags::PSH) == TcpFlags::ACK
            && !segment.payload.is_empty()
            && start == self.recv.next() as i64
            && segment.options.sack.is_none()
            && segment.options.timestamps.is_some() == self.agreed.timestamps
            && self.window.is_same(segment)
            && self
                .recv
                .is_reserved(segment.payload.len(), segment.segments(), sent())
    }

    /// Whether data is taken although its ACK is too old, which Linux checks only afterwards
    /// (`tcp_rcv_established`, header prediction).
    pub(super) fn takes_despite_ack(&self, segment: &Segment, start: i64) -> bool {
        let next = self.recovery.next();
        self.linux().is_some()
            && self.is_predicted(segment, start)
            && self.iss.offset(segment.ack, next) <= next as i64
    }

    #[inline(never)]
    pub(super) fn take_despite_ack(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        segment: &mut Segment,
        mark: EcnMark,
        start: i64,
    ) {
        self.note_timestamp(now, segment, start);
        let wants_quick_acks = self.ecn.on_segment(segment, mark, true);
        let hints = DataHints {
            is_predicted: true,
            wants_quick_acks,
        };
        self.handle_data(now, shared, segment, start, hints);
        self.challenge(now, shared);
        self.output_after_data(now, shared);
    }
}
