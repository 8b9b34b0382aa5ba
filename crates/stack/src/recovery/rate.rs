//! Delivery rate.
//!
//! Each record remembers how much had been delivered when it left; the ACK that delivers it gives a
//! sample: what came in since then, over the longer of the time that sending and acknowledging it
//! took (draft-cheng-iccrg-delivery-rate-estimation; Linux `tcp_rate_*`).

use core::time::Duration;

use base::{Instant, Rate};

use crate::cc::RateSample;
use crate::progress::Mark;

/// Delivery state at the time of sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SentState {
    pub(super) delivered: u64,
    delivered_at: Instant,
    first_sent: Instant,
    is_app_limited: bool,
}

/// The sample that an ACK is building.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PendingSample {
    prior: Option<SentState>,
    send_interval: Duration,
    last_end: u64,
}

impl PendingSample {
    /// Packets that had been delivered when the record that gives the sample was sent.
    pub(super) fn prior_delivered(&self) -> Option<u64> {
        self.prior.map(|prior| prior.delivered)
    }
}

/// The sampler of one connection.
#[derive(Clone, Debug, Default)]
pub(super) struct RateSampler {
    /// Packets delivered since the connection began.
    delivered: u64,
    /// Of these, delivered by ACKs with ECE.
    delivered_ce: u64,
    delivered_at: Instant,
    first_sent: Instant,
    /// Samples are limited by the application until this much is delivered.
    app_limited_until: Mark,
    /// The last sample that says something of the path.
    last: Option<Last>,
}

/// A sample, as small as it can be kept.
#[derive(Clone, Copy, Debug)]
struct Last {
    packets: u32,
    /// The interval in nanoseconds.
    nanos: u64,
    is_app_limited: bool,
}

impl RateSampler {
    pub(super) fn delivered(&self) -> u64 {
        self.delivered
    }

    pub(super) fn delivered_ce(&self) -> u64 {
        self.delivered_ce
    }

    /// Packets delivered, and of these by ACKs with ECE.
    pub(super) fn counted(&self) -> (u64, u64) {
        (self.delivered, self.delivered_ce)
    }

    /// Discards what was delivered since `counted`: a reordered ACK reported it.
    pub(super) fn count_again_from(&mut self, counted: (u64, u64)) {
        (self.delivered, self.delivered_ce) = counted;
    }

    pub(super) fn count(&mut self, packets: u32, ece: bool) {
        self.delivered += u64::from(packets);
        if ece {
            self.delivered_ce += u64::from(packets);
        }
    }

    /// Delivery state for a record sent now. `is_idle`: nothing was outstanding.
    pub(super) fn on_sent(&mut self, now: Instant, is_idle: bool) -> SentState {
        if is_idle {
            self.first_sent = now;
            self.delivered_at = now;
        }
        SentState {
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent: self.first_sent,
            is_app_limited: self.app_limited_until.is_set(),
        }
    }

    /// A record was delivered; the one sent last gives the sample.
    pub(super) fn on_delivered(
        &mut self,
        pending: &mut PendingSample,
        sent: Instant,
        end: u64,
        state: &SentState,
    ) {
        let is_later = (sent, end) > (self.first_sent, pending.last_end);
        if pending.prior.is_some() && !is_later {
            return;
        }
        pending.prior = Some(*state);
        pending.last_end = end;
        pending.send_interval = sent.since(state.first_sent);
        self.first_sent = sent;
    }

    /// The ACK is processed: `newly_delivered` packets came in with it.
    pub(super) fn finish(
        &mut self,
        now: Instant,
        pending: &PendingSample,
        newly_delivered: u32,
        losses: u32,
        min_rtt: Option<Duration>,
    ) -> Option<RateSample> {
        if self
            .app_limited_until
            .get()
            .is_some_and(|until| self.delivered > until)
        {
            self.app_limited_until = Mark::NONE;
        }
        if newly_delivered > 0 {
            self.delivered_at = now;
        }
        let prior = pending.prior?;
        let interval = pending.send_interval.max(now.since(prior.delivered_at));
        if interval.is_zero() || min_rtt.is_some_and(|min| interval.as_micros() < min.as_micros()) {
            return None;
        }
        let delivered = u32::try_from(self.delivered - prior.delivered).unwrap_or(u32::MAX);
        let nanos = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
        let is_higher = self.last.is_none_or(|last| {
            u128::from(delivered) * u128::from(last.nanos)
                >= u128::from(last.packets) * u128::from(nanos)
        });
        if !prior.is_app_limited || is_higher {
            self.last = Some(Last {
                packets: delivered,
                nanos,
                is_app_limited: prior.is_app_limited,
            });
        }
        Some(RateSample {
            delivered,
            interval,
            prior_delivered: prior.delivered,
            is_app_limited: prior.is_app_limited,
            losses,
        })
    }

    /// The application has nothing more to send while the window is open.
    pub(super) fn mark_app_limited(&mut self, in_flight: u32) {
        self.app_limited_until = Mark::at((self.delivered + u64::from(in_flight)).max(1));
    }

    /// The last rate, and whether the application limited it.
    pub(super) fn rate(&self, mss: u32) -> Option<(Rate, bool)> {
        let last = self.last?;
        let bytes = u64::from(last.packets) * u64::from(mss);
        let interval = Duration::from_nanos(last.nanos);
        Some((Rate::of(bytes, interval), last.is_app_limited))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn the_longer_of_sending_and_acknowledging_is_the_interval() {
        let mut rate = RateSampler::default();
        let first = rate.on_sent(at(0), true);
        let second = rate.on_sent(at(4), false);
        // Both are acknowledged at once, at 10 ms: ten milliseconds of acknowledging.
        let mut pending = PendingSample::default();
        rate.on_delivered(&mut pending, at(0), 100, &first);
        rate.on_delivered(&mut pending, at(4), 200, &second);
        rate.count(2, false);
        let sample = rate.finish(at(10), &pending, 2, 0, None).unwrap();
        assert_eq!(
            (sample.delivered, sample.interval),
            (2, Duration::from_millis(10))
        );
        // 2 x 1000 bytes in 10 ms.
        assert_eq!(
            rate.rate(1000),
            Some((Rate::from_bytes_per_second(200_000), false))
        );
    }

    #[test]
    fn an_application_that_has_nothing_marks_its_samples() {
        let mut rate = RateSampler::default();
        rate.mark_app_limited(3);
        let state = rate.on_sent(at(0), true);
        let mut pending = PendingSample::default();
        rate.on_delivered(&mut pending, at(0), 1, &state);
        rate.count(4, false);
        assert!(
            rate.finish(at(10), &pending, 4, 0, None)
                .unwrap()
                .is_app_limited
        );
        assert!(
            !rate.on_sent(at(11), true).is_app_limited,
            "the bubble is gone"
        );
    }

    #[test]
    fn a_sample_shorter_than_the_path_is_none() {
        let mut rate = RateSampler::default();
        let state = rate.on_sent(at(0), true);
        let mut pending = PendingSample::default();
        rate.on_delivered(&mut pending, at(0), 1, &state);
        rate.count(1, false);
        let min = Some(Duration::from_millis(11));
        assert_eq!(rate.finish(at(10), &pending, 1, 0, min), None);
    }
}
