//! Policers: a bandwidth that is below what the path can carry for a moment.
//!
//! A token bucket lets a burst pass and then drops everything above its rate. The maximum of the
//! last rounds would be the burst's rate, and most of what is sent would be lost. So where two
//! successive intervals between losses show the same bandwidth, the flow sends at that for some
//! time (Linux `bbr_lt_bw_sampling`).

use base::Instant;

use super::super::micros;
use super::bandwidth::{Bandwidth, UNIT};

/// Rounds of an interval (Linux `bbr_lt_intvl_min_rtts`); four times as many are too long.
const ROUNDS_MIN: u32 = 4;
/// Lost of delivered packets, in 1/256, that make a policer likely: 20 % (Linux
/// `bbr_lt_loss_thresh`).
const LOSS_256: u64 = 50;
/// Bandwidths are the same that differ by this share, in 1/256 (Linux `bbr_lt_bw_ratio`), ...
const SAME_256: u32 = UNIT / 8;
/// ... or by less than this (Linux `bbr_lt_bw_diff`).
const SAME_BITS_PER_SECOND: u64 = 4_000;
/// Rounds for which the bandwidth is used before the path is probed again (Linux
/// `bbr_lt_bw_max_rtts`).
const ROUNDS_USED: u32 = 48;

/// Counters of the connection so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Totals {
    /// When the last packet was delivered.
    pub(super) at: Instant,
    pub(super) delivered: u64,
    pub(super) lost: u64,
}

impl Totals {
    pub(super) const ZERO: Self = Self {
        at: Instant::ZERO,
        delivered: 0,
        lost: 0,
    };
}

/// Contribution of one sample.
pub(super) struct PolicerInput {
    pub(super) totals: Totals,
    pub(super) has_losses: bool,
    pub(super) is_app_limited: bool,
    pub(super) is_round: bool,
    pub(super) is_probing_bandwidth: bool,
    pub(super) mss: u32,
}

/// Change of the estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PolicerChange {
    None,
    /// From now on the bandwidth of the policer counts.
    Found,
    /// Used long enough: probe again.
    Expired,
}

/// Looks for a policer.
#[derive(Clone, Debug)]
pub(super) struct Policer {
    /// The bandwidth of the last interval.
    bandwidth: Option<Bandwidth>,
    is_in_use: bool,
    is_sampling: bool,
    /// The totals when the interval began.
    start: Totals,
    /// Rounds of the interval, or of use.
    rounds: u32,
}

impl Policer {
    pub(super) const fn new(totals: Totals) -> Self {
        Self {
            bandwidth: None,
            is_in_use: false,
            is_sampling: false,
            start: totals,
            rounds: 0,
        }
    }

    /// The policer's bandwidth, where it is to be used.
    pub(super) fn bandwidth(&self) -> Option<Bandwidth> {
        self.bandwidth.filter(|_| self.is_in_use)
    }

    fn begin_interval(&mut self, totals: Totals) {
        self.start = totals;
        self.rounds = 0;
    }

    pub(super) fn on_sample(&mut self, input: &PolicerInput) -> PolicerChange {
        if self.is_in_use {
            return self.use_up(input);
        }
        if !self.is_sampling {
            // An interval begins with a loss: then the bucket is empty.
            if !input.has_losses {
                return PolicerChange::None;
            }
            self.begin_interval(input.totals);
            self.is_sampling = true;
        }
        if input.is_app_limited {
            *self = Self::new(input.totals);
            return PolicerChange::None;
        }
        self.rounds += u32::from(input.is_round);
        if self.rounds > 4 * ROUNDS_MIN {
            *self = Self::new(input.totals);
        } else if self.rounds >= ROUNDS_MIN && input.has_losses {
            return self.end_interval(input);
        }
        PolicerChange::None
    }

    fn use_up(&mut self, input: &PolicerInput) -> PolicerChange {
        if input.is_probing_bandwidth && input.is_round {
            self.rounds += 1;
            if self.rounds >= ROUNDS_USED {
                *self = Self::new(input.totals);
                return PolicerChange::Expired;
            }
        }
        PolicerChange::None
    }

    /// An interval of some rounds ended with a loss.
    fn end_interval(&mut self, input: &PolicerInput) -> PolicerChange {
        let lost = input.totals.lost - self.start.lost;
        let delivered = input.totals.delivered - self.start.delivered;
        let time = micros(input.totals.at.since(self.start.at));
        if delivered == 0 || lost * 256 < LOSS_256 * delivered || time < 1_000 {
            return PolicerChange::None;
        }
        let bandwidth = Bandwidth::of(delivered, time);
        if let Some(before) = self.bandwidth {
            let difference = bandwidth.difference(before);
            let is_small = || {
                let rate = difference.pacing_rate(input.mss, UNIT);
                rate.bits_per_second() <= SAME_BITS_PER_SECOND
            };
            if difference <= before.scaled(SAME_256) || is_small() {
                self.bandwidth = Some(bandwidth.average(before));
                self.is_in_use = true;
                self.rounds = 0;
                return PolicerChange::Found;
            }
        }
        self.bandwidth = Some(bandwidth);
        self.begin_interval(input.totals);
        PolicerChange::None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds of 100 ms with this many packets delivered and lost.
    fn run(policer: &mut Policer, rounds: u64, delivered: u64, lost: u64) -> Option<u64> {
        let mut totals = policer.start;
        (1..=rounds).find(|_| {
            totals.at += core::time::Duration::from_millis(100);
            totals.delivered += delivered;
            totals.lost += lost;
            let change = policer.on_sample(&PolicerInput {
                totals,
                has_losses: lost > 0,
                is_app_limited: false,
                is_round: true,
                is_probing_bandwidth: true,
                mss: 1_448,
            });
            change != PolicerChange::None
        })
    }

    #[test]
    fn found_after_two_like_intervals() {
        let mut policer = Policer::new(Totals::ZERO);
        // The first round begins the interval and counts; then it ends with the loss of every
        // fourth round, the second one after four more.
        assert_eq!(run(&mut policer, 100, 100, 20), Some(8));
        assert_eq!(policer.bandwidth(), policer.bandwidth);
        let found = policer.bandwidth().expect("in use");
        assert!(found >= Bandwidth::of(1_000, 1_000_000), "{found:?}");
        assert_eq!(run(&mut policer, 100, 100, 0), Some(48), "expires");
        assert_eq!(policer.bandwidth(), None);
    }

    #[test]
    fn few_losses_or_other_bandwidths_are_no_policer() {
        let mut policer = Policer::new(Totals::ZERO);
        assert_eq!(run(&mut policer, 100, 100, 19), None, "19 % lost");
        let mut policer = Policer::new(Totals::ZERO);
        assert_eq!(run(&mut policer, 4, 100, 30), None);
        assert_eq!(run(&mut policer, 4, 200, 60), None);
        assert_eq!(policer.bandwidth(), None);
    }
}
