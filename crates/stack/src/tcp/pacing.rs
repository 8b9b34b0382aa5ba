//! Pacing: when the next packet of a paced connection may leave.

use core::time::Duration;

use base::{Instant, Rate};

use super::Connection;
use super::outgoing::UNPACED_SEGMENTS;
use crate::packet::Segment;

/// Spreads packets by a rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pacer {
    /// When the next packet may be sent.
    next: Instant,
}

impl Pacer {
    pub(super) const fn new() -> Self {
        Self {
            next: Instant::ZERO,
        }
    }

    /// The next packet may be sent at once.
    pub(super) const fn start(&mut self, now: Instant) {
        self.next = now;
    }

    /// Whether the next packet would have to wait for longer than `horizon` in the queue.
    pub(super) fn is_ahead(&self, now: Instant, horizon: Duration) -> bool {
        self.next > now + horizon
    }

    /// When it would no longer.
    pub(super) fn due(&self, horizon: Duration) -> Instant {
        self.next - horizon
    }

    /// Sends a packet at once, regardless of earlier ones.
    pub(super) fn pass(&mut self, now: Instant) {
        self.next = self.next.max(now);
    }

    /// Sends this many bytes at `rate`; returns the departure time (Linux
    /// `tcp_update_skb_after_send`: unused time counts for up to half a packet).
    pub(super) fn spread(&mut self, now: Instant, bytes: u32, rate: Rate) -> Instant {
        let (mut time, _) = rate.serialize(bytes.into(), 0);
        let leaves = self.next.max(now);
        let unused = now.since(self.next);
        time -= unused.min(time / 2);
        self.next = leaves + time;
        if leaves > now { leaves } else { Instant::ZERO }
    }
}

impl Connection {
    /// Notes that this leaves, and returns when it is to leave.
    pub(super) fn pace(&mut self, now: Instant, segment: &Segment) -> Instant {
        let is_first = self.traffic.data_segments_out() < UNPACED_SEGMENTS;
        let rate = match self.recovery.is_paced() && !is_first {
            true => self.recovery.pacing_rate(),
            false => Rate::default(),
        };
        // Without any rate there is nothing to pace by.
        if rate == Rate::default() {
            self.pacer.pass(now);
            return Instant::ZERO;
        }
        // Data alone takes time, and no headers, in all profiles as in Linux
        // (`tcp_update_skb_after_send`).
        let leaves = self.pacer.spread(now, segment.payload.len(), rate);
        if self.linux().is_some() {
            self.recovery.pace_until(self.pacer.due(Duration::ZERO));
        }
        leaves
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_leave_one_after_the_other_and_unused_time_counts_for_half_of_one() {
        let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        // A packet of 1000 bytes takes 10 ms.
        let rate = Rate::of(100_000, Duration::from_secs(1));
        let mut pacer = Pacer::new();
        pacer.start(at(100));
        assert_eq!(pacer.spread(at(100), 1000, rate), Instant::ZERO);
        assert!(pacer.is_ahead(at(100), Duration::from_millis(9)));
        assert!(!pacer.is_ahead(at(100), Duration::from_millis(10)));
        assert_eq!(pacer.spread(at(100), 1000, rate), at(110));
        assert_eq!(pacer.due(Duration::from_millis(10)), at(110));
        // 120 was its time: 30 ms were not used, of which 5 count.
        assert_eq!(pacer.spread(at(150), 1000, rate), Instant::ZERO);
        assert_eq!(pacer.spread(at(150), 1000, rate), at(155));
    }
}
