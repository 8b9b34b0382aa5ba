//! The round-trip time without a queue, and when the flow empties its queue to see it.

use core::time::Duration;

use base::Instant;

/// How long a least round-trip time counts (Linux `bbr_min_rtt_win_sec`).
const WINDOW: Duration = Duration::from_secs(10);
/// How long the window is kept small at least (Linux `bbr_probe_rtt_mode_ms`).
const PROBE_TIME: Duration = Duration::from_millis(200);
/// The window then (Linux `bbr_cwnd_min_target`).
pub(super) const PROBE_CWND: u32 = 4;

/// The least round-trip time of ten seconds.
#[derive(Clone, Debug)]
pub(super) struct MinRtt {
    least: Option<Duration>,
    seen_at: Instant,
}

impl MinRtt {
    pub(super) const fn new(least: Option<Duration>, now: Instant) -> Self {
        Self {
            least,
            seen_at: now,
        }
    }

    pub(super) const fn least(&self) -> Option<Duration> {
        self.least
    }

    /// Takes in a sample; returns whether the old value had expired.
    pub(super) fn update(&mut self, now: Instant, rtt: Option<Duration>) -> bool {
        let has_expired = now > self.seen_at + WINDOW;
        if let Some(rtt) = rtt
            && (has_expired || self.least.is_none_or(|least| rtt < least))
        {
            self.least = Some(rtt);
            self.seen_at = now;
        }
        has_expired
    }

    /// The value was confirmed by an empty queue.
    pub(super) const fn confirm(&mut self, now: Instant) {
        self.seen_at = now;
    }
}

/// A time with a very small window, so that the queue of this flow empties.
#[derive(Clone, Debug)]
pub(super) struct ProbeRtt {
    /// When the time is over; `None`: the window is not yet small.
    ends_at: Option<Instant>,
    /// A whole round trip passed with the small window.
    has_round: bool,
    /// Samples of packets sent when this many had been delivered show this window, not the path.
    limited: Option<(u64, u64)>,
}

/// Result of an ACK during ProbeRTT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProbeStep {
    /// The window is still too large, or the time is not over.
    Wait,
    /// The window became small: a round begins here.
    BeginRound,
    /// Possibly over: ask [`ProbeRtt::is_over`].
    Check,
}

impl ProbeRtt {
    pub(super) const fn new() -> Self {
        Self {
            ends_at: None,
            has_round: false,
            limited: None,
        }
    }

    pub(super) const fn begin(&mut self, delivered: u64) {
        self.ends_at = None;
        self.limited = Some((delivered, delivered));
    }

    /// `in_flight` packets are out after an ACK, `delivered` have arrived in all.
    pub(super) fn on_ack(
        &mut self,
        now: Instant,
        in_flight: u32,
        delivered: u64,
        is_round: bool,
    ) -> ProbeStep {
        if let Some((_, until)) = &mut self.limited {
            *until = delivered + u64::from(in_flight);
        }
        if self.ends_at.is_none() {
            if in_flight > PROBE_CWND {
                return ProbeStep::Wait;
            }
            self.ends_at = Some(now + PROBE_TIME);
            self.has_round = false;
            return ProbeStep::BeginRound;
        }
        self.has_round |= is_round;
        if self.has_round {
            ProbeStep::Check
        } else {
            ProbeStep::Wait
        }
    }

    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.ends_at.is_some_and(|end| now > end)
    }

    /// Whether a packet that was sent when `delivered` packets had arrived was limited by this
    /// window (Linux marks the flow as limited by the application).
    pub(super) fn limited(&self, delivered: u64) -> bool {
        self.limited
            .is_some_and(|(from, until)| (from..=until).contains(&delivered))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn least_of_ten_seconds() {
        let mut filter = MinRtt::new(None, at(0));
        // (time, sample), expired?, least; all in milliseconds.
        for (now, rtt, expired, least) in [
            (10, 50, false, 50),
            (20, 40, false, 40),
            (5_000, 60, false, 40),
            (9_000, 40, false, 40),
            (10_020, 60, false, 40),
            (10_021, 60, true, 60),
            (10_022, 61, false, 60),
        ] {
            let has_expired = filter.update(at(now), Some(Duration::from_millis(rtt)));
            let seen = filter.least().map(|rtt| rtt.as_millis());
            assert_eq!((has_expired, seen), (expired, Some(least)), "at {now} ms");
        }
        filter.confirm(at(15_000));
        assert!(!filter.update(at(25_000), None));
        assert!(filter.update(at(25_001), None));
    }

    #[test]
    fn lasts_200_ms_and_a_round() {
        let mut probe = ProbeRtt::new();
        probe.begin(1_000);
        assert_eq!(probe.on_ack(at(0), 5, 1_000, true), ProbeStep::Wait);
        assert_eq!(probe.on_ack(at(10), 4, 1_010, false), ProbeStep::BeginRound);
        assert_eq!(probe.on_ack(at(150), 4, 1_020, false), ProbeStep::Wait);
        assert_eq!(probe.on_ack(at(200), 4, 1_024, true), ProbeStep::Check);
        assert!(!probe.is_over(at(210)));
        assert!(probe.is_over(at(211)));
        let limited = [999, 1_000, 1_028, 1_029].map(|delivered| probe.limited(delivered));
        assert_eq!(limited, [false, true, true, false]);
    }
}
