//! The queue and the wire after it: which packets are admitted, and when each has been transmitted.
//!
//! The time at which a packet leaves is known when it comes in, because the queue is served in
//! order. So nothing has to happen at that time: the wire computes, it does not wait.

use core::time::Duration;
use std::collections::VecDeque;

use base::{Instant, QueueLimit, Rate, WirePacket};

use crate::spec::LinkSpec;
use crate::trace::Trace;

/// Sizes of a GSO packet. All its segments but the last have the same size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// At least 1.
    pub(crate) segments: u32,
    /// Size of all segments but the last, at least 1.
    pub(crate) segment_bytes: u64,
    /// Size of the whole packet.
    pub(crate) bytes: u64,
}

impl Shape {
    #[inline]
    pub(crate) fn of(packet: &impl WirePacket) -> Self {
        let segments = packet.segments().max(1);
        let bytes = packet.wire_bytes();
        let segment_bytes = match segments {
            1 => bytes,
            _ => packet.largest_segment_bytes().into(),
        };
        Self {
            segments,
            segment_bytes: segment_bytes.max(1),
            bytes,
        }
    }

    pub(crate) const fn last_bytes(self) -> u64 {
        self.bytes_from(self.segments - 1)
    }

    /// Bytes of the first `count` segments.
    const fn bytes_until(self, count: u32) -> u64 {
        if count >= self.segments {
            self.bytes
        } else {
            self.segment_bytes * count as u64
        }
    }

    const fn bytes_from(self, count: u32) -> u64 {
        self.bytes.saturating_sub(self.segment_bytes * count as u64)
    }

    /// The first `count` segments.
    const fn head(self, count: u32) -> Self {
        Self {
            segments: count,
            bytes: self.bytes_until(count),
            ..self
        }
    }
}

/// Segments that follow each other on the wire without a gap.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) shape: Shape,
    /// When the first one starts.
    start: Instant,
    /// Work left over at the start; see [`Rate::serialize`].
    carry: u64,
    /// When the last one has left.
    end: Instant,
    /// How many had started at the latest time that was told.
    started: u32,
}

/// A tail-drop queue in front of a wire.
#[derive(Clone, Debug)]
pub(crate) struct Wire {
    rate: Option<Rate>,
    trace: Option<Trace>,
    overhead_bytes: u64,
    limit: QueueLimit,
    /// Largest piece of a GSO packet that the wire takes at once.
    piece_bytes: u64,
    /// When the wire has sent all that it has, and the work left over below a nanosecond.
    free_at: Instant,
    carry: u64,
    /// Runs that had not started in full at the latest time that was told.
    waiting: VecDeque<Run>,
    packets: u64,
    bytes: u64,
}

impl Wire {
    /// Pieces of GSO packets occupy the wire for at most `piece_time`, or are single packets.
    pub(crate) fn new(spec: &LinkSpec, piece_time: Duration) -> Self {
        Self {
            rate: spec.rate,
            trace: Trace::new(&spec.rate_trace),
            overhead_bytes: spec.overhead_bytes.into(),
            limit: spec.queue,
            piece_bytes: spec
                .rate
                .map_or(u64::MAX, |rate| rate.bdp_bytes(piece_time)),
            free_at: Instant::ZERO,
            carry: 0,
            waiting: VecDeque::new(),
            packets: 0,
            bytes: 0,
        }
    }

    /// Packets and bytes that waited at the latest time that was told.
    pub(crate) const fn waiting(&self) -> (u64, u64) {
        (self.packets, self.bytes)
    }

    /// Whether the rate changes: then only single packets may be sent.
    pub(crate) const fn has_trace(&self) -> bool {
        self.trace.is_some()
    }

    /// Moves time forward: what has started by `now` no longer waits.
    pub(crate) fn advance(&mut self, now: Instant) {
        while let Some(front) = self.waiting.front() {
            if front.start > now {
                return;
            }
            if front.shape.segments == 1 {
                self.bytes -= front.shape.bytes;
                self.packets -= 1;
                self.waiting.pop_front();
                continue;
            }
            // A run has started in full when the next one has; that needs no division.
            let is_next = |next: &Run| next.start <= now;
            let started = match self.waiting.get(1).is_some_and(is_next) {
                true => front.shape.segments,
                false => self.started(front, now),
            };
            let run = &mut self.waiting[0];
            let before = run.shape.bytes_until(run.started);
            self.bytes -= run.shape.bytes_until(started) - before;
            self.packets -= u64::from(started - run.started);
            run.started = started;
            if started < run.shape.segments {
                return;
            }
            self.waiting.pop_front();
        }
    }

    /// How many of the first segments of `shape` get in at `now`, the others being dropped.
    #[inline]
    pub(crate) fn admit(&self, now: Instant, shape: Shape) -> u32 {
        if self.rate.is_none() && self.trace.is_none() {
            return shape.segments;
        }
        let run = self.planned(now, shape);
        let at_once = if run.start > now {
            0
        } else {
            self.started(&run, now)
        };
        if at_once == shape.segments {
            return at_once;
        }
        // The first ones start now and do not wait; the others need room.
        let room = match self.limit {
            QueueLimit::Packets(limit) => limit.saturating_sub(self.packets),
            QueueLimit::Bytes(limit) => {
                let room = limit.0.saturating_sub(self.bytes);
                if room >= shape.bytes_from(at_once) {
                    return shape.segments;
                }
                room / shape.segment_bytes
            }
        };
        let left = shape.segments - at_once;
        at_once + u32::try_from(room).unwrap_or(u32::MAX).min(left)
    }

    /// Sends the first `count` segments of `shape`, which were admitted.
    #[inline]
    pub(crate) fn send(&mut self, now: Instant, shape: Shape, count: u32) -> Run {
        let mut run = self.planned(now, shape.head(count));
        if !self.occupy(&mut run) {
            return run;
        }
        if run.start <= now {
            run.started = self.started(&run, now);
        }
        if run.started < count {
            self.packets += u64::from(count - run.started);
            self.bytes += run.shape.bytes_from(run.started);
            self.waiting.push_back(run);
        }
        run
    }

    /// As [`Wire::admit`] and [`Wire::send`], for a single packet: the common case. `None` where it
    /// finds the queue full.
    #[inline]
    pub(crate) fn offer_single(&mut self, now: Instant, shape: Shape) -> Option<Run> {
        let mut run = self.planned(now, shape);
        // Never so without a rate: such a wire is always free.
        let waits = run.start > now;
        let has_room = match self.limit {
            QueueLimit::Packets(limit) => self.packets < limit,
            QueueLimit::Bytes(limit) => limit.0.saturating_sub(self.bytes) >= shape.bytes,
        };
        if waits && !has_room {
            return None;
        }
        self.occupy(&mut run);
        if waits {
            self.packets += 1;
            self.bytes += shape.bytes;
            self.waiting.push_back(run);
        }
        Some(run)
    }

    /// Takes the wire for `run`, which ends then; false where the wire takes no time.
    #[inline]
    fn occupy(&mut self, run: &mut Run) -> bool {
        let on_wire = run.shape.bytes + u64::from(run.shape.segments) * self.overhead_bytes;
        (run.end, self.carry) = match (&mut self.trace, self.rate) {
            (Some(trace), _) => trace.serialize(run.start, on_wire, run.carry),
            (None, Some(rate)) => {
                let (nanos, carry) = rate.serialize_nanos(on_wire, run.carry);
                (run.start.after_nanos(nanos), carry)
            }
            (None, None) => return false,
        };
        self.free_at = run.end;
        true
    }

    /// When segment `index` of `run` has left the wire.
    pub(crate) fn left_at(&self, run: &Run, index: u32) -> Instant {
        if index + 1 == run.shape.segments {
            return run.end;
        }
        let count = u64::from(index) + 1;
        let on_wire = run.shape.bytes_until(index + 1) + count * self.overhead_bytes;
        match self.rate {
            Some(rate) => {
                let (nanos, _) = rate.serialize_nanos(on_wire, run.carry);
                run.start.after_nanos(nanos)
            }
            None => run.end,
        }
    }

    /// How many segments of `shape` leave together: as many as the wire sends within the bound that
    /// [`Wire::new`] was given, at least 1.
    pub(crate) fn segments_per_piece(&self, shape: Shape) -> u32 {
        if shape.bytes + u64::from(shape.segments) * self.overhead_bytes <= self.piece_bytes {
            return shape.segments;
        }
        let segments = self.piece_bytes / (shape.segment_bytes + self.overhead_bytes);
        u32::try_from(segments.max(1)).unwrap_or(u32::MAX)
    }

    /// When `shape` would start on the wire; its end is not known yet.
    fn planned(&self, now: Instant, shape: Shape) -> Run {
        // A gap ends the run of packets back to back: what was left over is done.
        let (start, carry) = if self.free_at < now {
            (now, 0)
        } else {
            (self.free_at, self.carry)
        };
        Run {
            shape,
            start,
            carry,
            end: start,
            started: 0,
        }
    }

    /// How many segments of `run`, whose first one has started, have started by `now`.
    fn started(&self, run: &Run, now: Instant) -> u32 {
        debug_assert!(run.start <= now, "{:?} starts after {now:?}", run.start);
        if run.shape.segments == 1 {
            return 1;
        }
        let Some(rate) = self.rate else {
            return run.shape.segments;
        };
        // Segment i starts after floor((i * work + carry) / rate) nanoseconds, with the work of one
        // segment. That is at most `elapsed` where i * work + carry < (elapsed + 1) * rate.
        let work = u128::from(run.shape.segment_bytes + self.overhead_bytes) * 8_000_000_000;
        let elapsed = u128::from(now.as_nanos() - run.start.as_nanos());
        let done = (elapsed + 1) * u128::from(rate.bits_per_second());
        let last = done.saturating_sub(u128::from(run.carry) + 1) / work;
        u32::try_from(last)
            .unwrap_or(u32::MAX)
            .saturating_add(1)
            .min(run.shape.segments)
    }
}
