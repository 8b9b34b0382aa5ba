//! Round-trip times and the retransmission timeout.
//!
//! Decides how long to wait for an ACK, from the samples that the ACKs gave. The caller decides
//! which samples may be taken (Karn's algorithm). They are kept in microseconds, as in Linux, so
//! that its test vectors hold to the last digit.
//!
//! Reading list: RFC 6298; Linux `tcp_rtt_estimator`, `tcp_update_rtt_min`.

use core::time::Duration;

use base::Instant;
use base::settings::{Recovery, RtoRule};

use crate::tick::TickClock;

/// How long a least round-trip time counts (Linux `tcp_min_rtt_wlen`).
const MIN_RTT_WINDOW: Duration = Duration::from_secs(300);

/// Timeout after a handshake whose packets were retransmitted and gave no sample (RFC 6298 section
/// 5.7).
const RTO_AFTER_LOST_SYN: Duration = Duration::from_secs(3);

/// The estimator of one connection.
#[derive(Clone, Debug)]
pub(crate) struct RttEstimator {
    tick: TickClock,
    /// 8 times the smoothed round-trip time, microseconds; 0: no sample yet.
    srtt_8: u64,
    /// 4 times the mean deviation, microseconds.
    deviation_4: u64,
    /// Linux's variation in the timeout and the largest deviation of this round.
    variation: u64,
    deviation_max: u64,
    /// The round ends when this offset is acknowledged.
    round_end: u64,
    min_rtt: WindowedMin,
    /// Timeout with backoff.
    rto: Duration,
    backoff: u32,
    /// How many there were; what counts is whether that changed.
    samples: u32,
    /// The last sample, microseconds.
    latest: u64,
}

impl RttEstimator {
    pub(super) fn new(rules: &Recovery, tick: TickClock) -> Self {
        Self {
            tick,
            srtt_8: 0,
            deviation_4: 0,
            variation: 0,
            deviation_max: 0,
            round_end: 0,
            min_rtt: WindowedMin::default(),
            rto: tick.round_up(rules.rto_initial),
            backoff: 0,
            samples: 0,
            latest: 0,
        }
    }

    /// Other rules are in force, in place of `before`.
    pub(super) fn configure(&mut self, before: &Recovery, rules: &Recovery) {
        if before.rto_rule != rules.rto_rule {
            // The least variation is part of what Linux's rule smoothed: begin it anew.
            self.variation = self.deviation_4.max(micros(rules.rto_min));
            self.deviation_max = self.variation;
        }
        // In Linux the next sample counts with what was set, and the variation of before decays.
        let waits = rules.rto_rule == RtoRule::Linux && before.rto_rule == rules.rto_rule;
        if self.backoff == 0 && !(waits && self.srtt_8 > 0) {
            self.rto = self.base_rto(rules);
        }
    }

    /// Smoothed round-trip time; `None` before the first sample.
    pub(crate) fn srtt(&self) -> Option<Duration> {
        (self.srtt_8 > 0).then(|| Duration::from_micros(self.srtt_8 / 8))
    }

    /// The same in microseconds; 0: unknown.
    pub(crate) fn srtt_micros(&self) -> u64 {
        self.srtt_8 / 8
    }

    /// Mean deviation (Linux `tcpi_rttvar`); zero before the first sample.
    pub(crate) fn variation(&self) -> Duration {
        Duration::from_micros(self.deviation_4 / 4)
    }

    /// Least round-trip time of the last five minutes.
    pub(crate) fn min_rtt(&self) -> Option<Duration> {
        self.min_rtt.value().map(Duration::from_micros)
    }

    /// When a timer that is set at `now` for `delay` fires.
    pub(super) fn expiry(&self, now: Instant, delay: Duration) -> Instant {
        self.tick.expiry(now, delay)
    }

    /// `time` in whole ticks, rounded down.
    pub(super) fn whole_ticks(&self, time: Duration) -> Duration {
        self.tick.round_down(time)
    }

    /// Retransmission timeout, with its backoff, in whole ticks.
    pub(crate) fn rto(&self) -> Duration {
        self.rto
    }

    /// How often it was doubled.
    pub(crate) fn backoff(&self) -> u32 {
        self.backoff
    }

    /// How many round-trip times were measured.
    pub(crate) fn samples(&self) -> u32 {
        self.samples
    }

    /// The last of them.
    pub(crate) fn latest(&self) -> Duration {
        Duration::from_micros(self.latest)
    }

    /// A sample for the smoothed time, by the `rules` in force. `una`: what is acknowledged by now;
    /// `next`: what was sent by now.
    pub(super) fn on_sample(&mut self, rules: &Recovery, sample: Duration, una: u64, next: u64) {
        let sample = micros(sample);
        self.samples = self.samples.wrapping_add(1);
        self.latest = sample;
        match rules.rto_rule {
            RtoRule::Linux => self.sample_linux(rules, sample, una, next),
            RtoRule::Rfc6298 => self.sample_rfc6298(sample),
        }
        self.srtt_8 = self.srtt_8.max(1);
        self.backoff = 0;
        self.rto = self.base_rto(rules);
    }

    /// A sample for the least time, `is_delayed`: the peer may have waited before it answered.
    pub(super) fn on_min_sample(&mut self, now: Instant, sample: Duration, is_delayed: bool) {
        let sample = micros(sample).max(1);
        if is_delayed && self.min_rtt.value().is_some_and(|min| sample > min) {
            return;
        }
        self.min_rtt.update(now, sample);
    }

    /// The timeout expired: the next one takes twice as long.
    pub(super) fn back_off(&mut self, rules: &Recovery) {
        self.backoff = self.backoff.saturating_add(1);
        self.rto = self.tick.round_up((self.rto * 2).min(rules.rto_max));
    }

    /// The doublings count no more, but the timeout stays.
    pub(super) fn forget_backoff(&mut self) {
        self.backoff = 0;
    }

    /// Takes the last doubling back; whether there was one.
    pub(super) fn revert_back_off(&mut self, rules: &Recovery) -> bool {
        let Some(backoff) = self.backoff.checked_sub(1) else {
            return false;
        };
        self.backoff = backoff;
        let rto = self.base_rto(rules).saturating_mul(1 << backoff.min(30));
        self.rto = self.tick.round_up(rto.min(rules.rto_max));
        true
    }

    /// The handshake gave no sample, its packets having been retransmitted.
    pub(super) fn on_lost_handshake(&mut self, rules: &Recovery) {
        if self.srtt_8 == 0 {
            let rto = rules.rto_initial.max(RTO_AFTER_LOST_SYN);
            // Linux bounds the timer, but not what it is set by (`tcp_reset_xmit_timer`).
            let rto = match rules.rto_rule {
                RtoRule::Linux => rto,
                RtoRule::Rfc6298 => rto.min(rules.rto_max),
            };
            self.rto = self.tick.round_up(rto);
        }
    }

    /// The SYN was acknowledged after so many timeouts, and which of them is not known.
    pub(super) fn on_unmeasured_handshake(&mut self, rules: &Recovery, timeouts: u32) {
        let rto = rules.rto_initial.saturating_mul(1 << timeouts.min(30));
        self.backoff = timeouts;
        self.rto = self.tick.round_up(rto.min(rules.rto_max));
    }

    /// Rule 11.1.
    fn sample_linux(&mut self, rules: &Recovery, sample: u64, una: u64, next: u64) {
        let rto_min = micros(rules.rto_min);
        if self.srtt_8 == 0 {
            self.srtt_8 = sample * 8;
            self.deviation_4 = sample * 2;
            self.deviation_max = self.deviation_4.max(rto_min);
            self.variation = self.deviation_max;
            self.round_end = next;
            return;
        }
        let smoothed = self.srtt_8 / 8;
        let deviation = self.deviation_4 / 4;
        if sample >= smoothed {
            let error = sample - smoothed;
            self.srtt_8 += error;
            self.deviation_4 = self.deviation_4 + error - deviation;
        } else {
            let error = smoothed - sample;
            self.srtt_8 -= error;
            // A fall of the round-trip time shall not raise the timeout (Eifel).
            if error > deviation {
                self.deviation_4 += (error - deviation) / 8;
            } else {
                self.deviation_4 = self.deviation_4 + error - deviation;
            }
        }
        if self.deviation_4 > self.deviation_max {
            self.deviation_max = self.deviation_4;
            self.variation = self.variation.max(self.deviation_max);
        }
        if una > self.round_end {
            if self.deviation_max < self.variation {
                self.variation -= (self.variation - self.deviation_max) / 4;
            }
            self.round_end = next;
            self.deviation_max = rto_min;
        }
    }

    /// RFC 6298 section 2.
    fn sample_rfc6298(&mut self, sample: u64) {
        if self.srtt_8 == 0 {
            self.srtt_8 = sample * 8;
            self.deviation_4 = sample * 2;
            return;
        }
        let smoothed = self.srtt_8 / 8;
        self.deviation_4 = self.deviation_4 - self.deviation_4 / 4 + smoothed.abs_diff(sample);
        self.srtt_8 = self.srtt_8 - smoothed + sample;
    }

    /// The timeout without backoff.
    fn base_rto(&self, rules: &Recovery) -> Duration {
        if self.srtt_8 == 0 {
            return self.tick.round_up(rules.rto_initial);
        }
        let smoothed = Duration::from_micros(self.srtt_8 / 8);
        let rto = match rules.rto_rule {
            RtoRule::Linux => smoothed + Duration::from_micros(self.variation),
            RtoRule::Rfc6298 => {
                let spread = Duration::from_micros(self.deviation_4).max(self.tick.tick());
                (smoothed + spread).max(rules.rto_min)
            }
        };
        self.tick.round_up(rto).min(rules.rto_max)
    }
}

/// `time` in whole microseconds.
fn micros(time: Duration) -> u64 {
    // Bounded so that no sum of samples can overflow.
    u64::try_from(time.as_micros()).map_or(u64::MAX >> 8, |time| time.min(u64::MAX >> 8))
}

/// The least value of a sliding window, by three estimates of growing age (Linux
/// `minmax_running_min`; Kathleen Nichols).
#[derive(Clone, Copy, Debug, Default)]
struct WindowedMin {
    /// Best, second best, third best, with the time of each; none before the first sample.
    estimates: Option<[(Instant, u64); 3]>,
}

impl WindowedMin {
    fn value(&self) -> Option<u64> {
        self.estimates.map(|estimates| estimates[0].1)
    }

    fn update(&mut self, now: Instant, value: u64) {
        let sample = (now, value);
        let Some(estimates) = &mut self.estimates else {
            self.estimates = Some([sample; 3]);
            return;
        };
        let window_empty = now.since(estimates[2].0) > MIN_RTT_WINDOW;
        if value <= estimates[0].1 || window_empty {
            *estimates = [sample; 3];
            return;
        }
        if value <= estimates[1].1 {
            estimates[1] = sample;
            estimates[2] = sample;
        } else if value <= estimates[2].1 {
            estimates[2] = sample;
        }
        let age = now.since(estimates[0].0);
        if age > MIN_RTT_WINDOW {
            *estimates = [estimates[1], estimates[2], sample];
            if now.since(estimates[0].0) > MIN_RTT_WINDOW {
                *estimates = [estimates[1], estimates[2], sample];
            }
        } else if estimates[1].0 == estimates[0].0 && age > MIN_RTT_WINDOW / 4 {
            estimates[1] = sample;
            estimates[2] = sample;
        } else if estimates[2].0 == estimates[1].0 && age > MIN_RTT_WINDOW / 2 {
            estimates[2] = sample;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recovery::tests::settings;

    fn rules(rule: RtoRule) -> Recovery {
        let mut rules = settings().recovery;
        rules.rto_rule = rule;
        rules
    }

    fn estimator(hz: u32, rules: &Recovery) -> RttEstimator {
        RttEstimator::new(rules, TickClock::new(hz, 63, 1))
    }

    #[test]
    fn vectors_of_the_estimator() {
        let rules = rules(RtoRule::Linux);
        let after = |hz, samples: &[u64]| {
            let mut rtt = estimator(hz, &rules);
            for &sample in samples {
                rtt.on_sample(&rules, Duration::from_micros(sample), 1, 1);
            }
            rtt
        };
        let rto = |hz, samples: &[u64]| after(hz, samples).rto().as_millis();
        assert_eq!(rto(250, &[]), 1000, "T1");
        assert_eq!(rto(250, &[45]), 204, "T2");
        assert_eq!(rto(250, &[40_200]), 244, "T3");
        assert_eq!((rto(0, &[10_000]), rto(250, &[10_000])), (210, 212), "T4");
        assert_eq!((rto(0, &[150_000]), rto(250, &[150_000])), (450, 452), "T5");
        let state = |samples: &[u64]| {
            let rtt = after(0, samples);
            (rtt.srtt_8, rtt.deviation_4, rtt.variation)
        };
        assert_eq!(state(&[40_000, 48_000]), (328_000, 68_000, 200_000), "T6");
        assert_eq!(state(&[40_000, 32_000]), (312_000, 68_000, 200_000), "T7");
        assert_eq!(state(&[40_000, 10_000]), (290_000, 81_250, 200_000), "T8");
    }

    #[test]
    fn the_variation_decays_by_a_quarter_per_round() {
        let rules = rules(RtoRule::Linux);
        let mut rtt = estimator(0, &rules);
        rtt.on_sample(&rules, Duration::from_millis(200), 1, 100);
        assert_eq!(rtt.variation, 400_000);
        // Within the round nothing decays; the mark is passed when 101 is acknowledged. The
        // deviation of the round began with the first one.
        rtt.on_sample(&rules, Duration::from_millis(200), 101, 200);
        assert_eq!((rtt.variation, rtt.deviation_max), (400_000, 200_000));
        rtt.on_sample(&rules, Duration::from_millis(200), 150, 300);
        rtt.on_sample(&rules, Duration::from_millis(200), 201, 300);
        assert_eq!(rtt.variation, 400_000 - (400_000 - 225_000) / 4);
    }

    #[test]
    fn rfc_6298_takes_the_minimum_of_the_sum() {
        let rules = rules(RtoRule::Rfc6298);
        let mut rtt = estimator(0, &rules);
        rtt.on_sample(&rules, Duration::from_millis(100), 1, 1);
        assert_eq!(rtt.rto(), Duration::from_millis(300));
        for _ in 0..50 {
            rtt.on_sample(&rules, Duration::from_millis(100), 1, 1);
        }
        assert_eq!(rtt.rto(), Duration::from_millis(200), "the least value");
    }

    #[test]
    fn backoff_doubles_up_to_the_largest_value_and_ends_with_a_sample() {
        let rules = rules(RtoRule::Linux);
        let mut rtt = estimator(0, &rules);
        rtt.on_sample(&rules, Duration::from_millis(10), 1, 1);
        rtt.back_off(&rules);
        assert_eq!((rtt.rto(), rtt.backoff()), (Duration::from_millis(420), 1));
        for _ in 0..20 {
            rtt.back_off(&rules);
        }
        assert_eq!(rtt.rto(), Duration::from_secs(120));
        rtt.on_sample(&rules, Duration::from_millis(10), 1, 1);
        assert_eq!(
            (rtt.rto(), rtt.backoff()),
            (Duration::from_millis(207) + Duration::from_millis(3), 0)
        );
    }

    #[test]
    fn a_lost_handshake_makes_the_first_timeout_longer() {
        let rules = rules(RtoRule::Linux);
        let mut rtt = estimator(0, &rules);
        rtt.on_lost_handshake(&rules);
        assert_eq!(rtt.rto(), Duration::from_secs(3));
    }

    #[test]
    fn the_least_time_is_forgotten_after_its_window() {
        let mut min = WindowedMin::default();
        let at = |seconds: u64| Instant::from_nanos(seconds * 1_000_000_000);
        min.update(at(0), 10);
        for second in 1..=300 {
            min.update(at(second), 20);
            assert_eq!(min.value(), Some(10));
        }
        min.update(at(301), 20);
        assert_eq!(min.value(), Some(20));
    }
}
