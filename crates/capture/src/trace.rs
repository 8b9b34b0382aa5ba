//! Time-sequence data of a connection: bytes sent, acknowledged and retransmitted, with times: a
//! time-sequence plot, in bounded memory.
//!
//! Times are those at which the capture saw the packets, also those of ACKs.

use base::{FlowKey, Instant};

use crate::loss::Loss;
use crate::summary::FlowSummary;

/// Spans of what was sent, and ACKs, that are kept of a direction at most; above, neighbours become
/// one.
const POINTS_MAX: usize = 800;
/// Retransmissions that are kept of a direction at most: the first.
const RETRANSMISSIONS_MAX: usize = 1000;

/// Why a segment was retransmitted, as far as packets show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RetransmissionKind {
    /// Early, on duplicate ACKs or SACK (RFC 5681 section 3.2, RFC 6675).
    Fast,
    /// After a retransmission timeout, and while that is repaired (RFC 6298).
    Timeout,
    /// To probe the tail of what was sent (RFC 8985 section 7).
    TailProbe,
}

impl RetransmissionKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Fast, Self::Timeout, Self::TailProbe];

    /// Name used in sentences.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fast => "fast retransmission",
            Self::Timeout => "retransmission after a timeout",
            Self::TailProbe => "tail-loss probe",
        }
    }
}

/// Payload that was sent for the first time, one segment after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentSpan {
    /// When the first segment was seen.
    pub begin: Instant,
    /// When the last one was.
    pub end: Instant,
    /// Payload before it, in bytes since the connection was first seen.
    pub from: u64,
    /// Payload up to its end.
    pub to: u64,
}

/// Information in an ACK from the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckedTo {
    /// When it was seen.
    pub at: Instant,
    /// Payload that it has, in bytes since the connection was first seen.
    pub to: u64,
    /// Payload up to the end of its window; `None` where the scale of that is unknown.
    pub edge: Option<u64>,
}

/// A retransmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retransmission {
    /// When it was seen.
    pub at: Instant,
    /// Payload before it, in bytes since the connection was first seen.
    pub from: u64,
    /// Payload up to its end.
    pub to: u64,
    /// Why.
    pub kind: RetransmissionKind,
}

/// The direction of a connection in which most payload went.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowTrace {
    /// The sender is the local end.
    pub key: FlowKey,
    /// The cookies of the two tracks of the connection, in the recording of this analysis.
    pub cookies: [u64; 2],
    /// When its first packet was seen.
    pub began: Instant,
    /// Data sent, in order of time; neighbours are merged where there are too many.
    pub sent: Vec<SentSpan>,
    /// ACKs, in order of time; of too many neighbours, the one with the smallest window is kept.
    pub acked: Vec<AckedTo>,
    /// The first retransmissions, in the order of time.
    pub retransmissions: Vec<Retransmission>,
    /// How many there were of each kind, in the order of [`RetransmissionKind::ALL`].
    pub counts: [u64; 3],
    /// The numbers of the connection.
    pub summary: FlowSummary,
}

/// Trace of one direction. Offsets are those of its sender.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trace {
    pub(crate) sent: Vec<SentSpan>,
    pub(crate) acked: Vec<AckedTo>,
    pub(crate) retransmissions: Vec<Retransmission>,
    pub(crate) counts: [u64; 3],
    sent_thinned: Thinned,
    acked_thinned: Thinned,
    newest: Option<AckedTo>,
}

/// How many of what came one that is kept stands for.
#[derive(Clone, Copy, Debug)]
struct Thinned {
    stride: u64,
    in_last: u64,
}

impl Default for Thinned {
    fn default() -> Self {
        Self {
            stride: 1,
            in_last: 1,
        }
    }
}

impl Thinned {
    /// Whether the next one joins the last that is kept.
    const fn joins(&mut self) -> bool {
        let joins = self.in_last < self.stride;
        self.in_last = if joins { self.in_last + 1 } else { 1 };
        joins
    }
}

/// The counters of losses before a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Before {
    next: u64,
    segments: u64,
    timeouts: u64,
    tail_probes: u64,
    fast: u64,
}

impl Before {
    pub(crate) const fn of(next: u64, loss: &Loss) -> Self {
        Self {
            next,
            segments: loss.segments,
            timeouts: loss.timeouts,
            tail_probes: loss.tail_probes,
            fast: loss.fast,
        }
    }

    /// Kind of retransmission; `None` for probes, and for segments that came late.
    const fn kind(&self, loss: &Loss) -> Option<RetransmissionKind> {
        if loss.tail_probes > self.tail_probes {
            Some(RetransmissionKind::TailProbe)
        } else if loss.fast > self.fast {
            Some(RetransmissionKind::Fast)
        } else if loss.timeouts > self.timeouts || loss.segments > self.segments {
            Some(RetransmissionKind::Timeout)
        } else {
            None
        }
    }
}

impl Trace {
    /// Everything that is kept.
    pub(crate) const fn len(&self) -> usize {
        self.sent.len() + self.acked.len() + self.retransmissions.len()
    }

    /// Payload left.
    pub(crate) fn take_data(
        &mut self,
        at: Instant,
        (from, to): (u64, u64),
        before: &Before,
        loss: &Loss,
    ) {
        if to > before.next {
            self.take_new(at, from.max(before.next), to);
        } else if let Some(kind) = before.kind(loss) {
            self.counts[kind as usize] += 1;
            if self.retransmissions.len() < RETRANSMISSIONS_MAX {
                self.retransmissions
                    .push(Retransmission { at, from, to, kind });
            }
        }
    }

    fn take_new(&mut self, at: Instant, from: u64, to: u64) {
        if let Some(last) = self.sent.last_mut()
            && self.sent_thinned.joins()
        {
            (last.end, last.to) = (at, to);
            return;
        }
        if self.sent.len() == POINTS_MAX {
            for index in 0..POINTS_MAX / 2 {
                let (first, second) = (self.sent[2 * index], self.sent[2 * index + 1]);
                self.sent[index] = SentSpan {
                    end: second.end,
                    to: second.to,
                    ..first
                };
            }
            self.sent.truncate(POINTS_MAX / 2);
            self.sent_thinned.stride *= 2;
        }
        self.sent.push(SentSpan {
            begin: at,
            end: at,
            from,
            to,
        });
    }

    /// The receiver told that it has everything up to `to`, and its window.
    pub(crate) fn take_ack(&mut self, at: Instant, to: u64, window: Option<u32>) {
        let edge = window.map(|window| to + u64::from(window));
        let acked = AckedTo { at, to, edge };
        let is_old = |newest: AckedTo| to < newest.to || (to, edge) == (newest.to, newest.edge);
        if self.newest.is_some_and(is_old) {
            return;
        }
        self.newest = Some(acked);
        if let Some(last) = self.acked.last_mut()
            && self.acked_thinned.joins()
        {
            *last = tighter(*last, acked);
            return;
        }
        if self.acked.len() == POINTS_MAX {
            for index in 0..POINTS_MAX / 2 {
                self.acked[index] = tighter(self.acked[2 * index], self.acked[2 * index + 1]);
            }
            self.acked.truncate(POINTS_MAX / 2);
            self.acked_thinned.stride *= 2;
        }
        self.acked.push(acked);
    }

    /// The trace in final form: offsets begin at `origin`, and the last ACK is included.
    pub(crate) fn finish(mut self, origin: u64) -> Self {
        if let Some(newest) = self
            .newest
            .filter(|newest| self.acked.last() != Some(newest))
        {
            self.acked.push(newest);
        }
        for span in &mut self.sent {
            span.from = span.from.saturating_sub(origin);
            span.to = span.to.saturating_sub(origin);
        }
        for acked in &mut self.acked {
            acked.to = acked.to.saturating_sub(origin);
            acked.edge = acked.edge.map(|edge| edge.saturating_sub(origin));
        }
        for again in &mut self.retransmissions {
            again.from = again.from.saturating_sub(origin);
            again.to = again.to.saturating_sub(origin);
        }
        self
    }
}

/// The one with the smaller window: a closed window must not be lost.
fn tighter(one: AckedTo, later: AckedTo) -> AckedTo {
    let window = |acked: &AckedTo| acked.edge.map(|edge| edge - acked.to);
    match window(&later) <= window(&one) {
        true => later,
        false => one,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn a_long_transfer_is_kept_in_few_spans_without_a_gap() {
        let mut trace = Trace::default();
        let loss = Loss::default();
        for number in 0..100_000_u64 {
            let before = Before::of(number * 10, &loss);
            trace.take_data(at(number), (number * 10, number * 10 + 10), &before, &loss);
            trace.take_ack(at(number), number * 10, Some(5000));
            assert!(trace.len() <= 2 * POINTS_MAX);
        }
        let trace = trace.finish(0);
        assert!((POINTS_MAX / 2..=POINTS_MAX).contains(&trace.sent.len()));
        let (mut next, mut time) = (0, at(0));
        for span in &trace.sent {
            assert_eq!(span.from, next);
            assert!(span.begin >= time && span.end >= span.begin);
            (next, time) = (span.to, span.end);
        }
        assert_eq!((next, time), (1_000_000, at(99_999)));
        assert_eq!(trace.acked.last().map(|acked| acked.to), Some(999_990));
    }

    #[test]
    fn a_window_that_closed_stays() {
        let mut trace = Trace::default();
        for number in 0..10_000_u64 {
            let window = if number == 5001 { 0 } else { 1000 };
            trace.take_ack(at(number), number * 10, Some(window));
        }
        let closed = trace
            .acked
            .iter()
            .filter(|acked| acked.edge == Some(acked.to));
        assert_eq!(closed.count(), 1);
    }

    #[test]
    fn retransmissions_have_their_kind_and_are_bounded() {
        let mut trace = Trace::default();
        let mut loss = Loss::default();
        let before = Before::of(5000, &loss);
        trace.take_data(at(1), (0, 1000), &before, &loss);
        assert_eq!(trace.len(), 0, "a probe is not a retransmission");
        loss.fast += 1;
        trace.take_data(at(2), (0, 1000), &before, &loss);
        let before = Before::of(5000, &loss);
        for number in 0..2 * RETRANSMISSIONS_MAX {
            loss.segments += 1;
            trace.take_data(at(3 + number as u64), (0, 1000), &before, &loss);
        }
        assert_eq!(trace.counts, [1, 2 * RETRANSMISSIONS_MAX as u64, 0]);
        assert_eq!(trace.retransmissions.len(), RETRANSMISSIONS_MAX);
        assert_eq!(trace.retransmissions[0].kind, RetransmissionKind::Fast);
        let trace = trace.finish(400);
        assert_eq!(
            (trace.retransmissions[0].from, trace.retransmissions[0].to),
            (0, 600)
        );
    }
}
