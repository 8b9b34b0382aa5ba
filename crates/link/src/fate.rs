//! Fate of each wire packet: lost, doubled, held back, and how much it is delayed.
//!
//! Each kind of fate has its own stream of random numbers and draws once for every packet that
//! comes in, also for those that the queue drops. So the fate of the n-th packet depends on the
//! seed and on n only, never on timing.

use core::time::Duration;

use base::{Fraction, Rng};

use crate::spec::{LinkSpec, Loss};

/// Fate of a packet that is not simply delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It disappears.
    Lost,
    /// It arrives late, and twice if `twice`.
    Held {
        /// A copy follows it.
        twice: bool,
    },
    /// It arrives in its place, twice.
    Twice,
}

/// The source of fates.
#[derive(Clone, Debug)]
pub(crate) struct Fates {
    loss: Loss,
    loss_rng: Rng,
    /// State of the model of Gilbert and Elliott; it begins good.
    bad: bool,
    reorder: Fraction,
    reorder_rng: Rng,
    duplicate: Fraction,
    duplicate_rng: Rng,
    /// Exclusive bound of the jitter in nanoseconds; 0 for none.
    jitter_bound: u64,
    jitter_rng: Rng,
    /// Nothing ever happens: no draw is needed.
    never: bool,
}

impl Fates {
    pub(crate) fn new(spec: &LinkSpec, seed: u64) -> Self {
        let reorder = spec
            .reorder
            .as_ref()
            .map_or(Fraction::ZERO, |reorder| reorder.share);
        let jitter = u64::try_from(spec.jitter.as_nanos()).unwrap_or(u64::MAX);
        Self {
            loss: spec.loss.clone(),
            loss_rng: Rng::new(seed, "loss"),
            bad: false,
            reorder,
            reorder_rng: Rng::new(seed, "reorder"),
            duplicate: spec.duplicate,
            duplicate_rng: Rng::new(seed, "duplicate"),
            jitter_bound: if jitter == 0 {
                0
            } else {
                jitter.saturating_add(1)
            },
            jitter_rng: Rng::new(seed, "jitter"),
            never: spec.loss == Loss::Never
                && reorder == Fraction::ZERO
                && spec.duplicate == Fraction::ZERO,
        }
    }

    /// How many of the next `count` packets are simply delivered, and the fate of the one after
    /// them, where that is among the `count`.
    #[inline]
    pub(crate) fn scan(&mut self, count: u32) -> (u32, Option<Fate>) {
        if self.never {
            return (count, None);
        }
        for plain in 0..count {
            let fate = self.draw();
            if fate.is_some() {
                return (plain, fate);
            }
        }
        (count, None)
    }

    /// Passes over the fates of `count` packets that do not reach the wire.
    pub(crate) fn skip(&mut self, count: u32) {
        for _ in 0..if self.never { 0 } else { count } {
            self.draw();
        }
        for _ in 0..if self.has_jitter() { count } else { 0 } {
            self.jitter();
        }
    }

    /// Whether packets are delayed differently.
    pub(crate) const fn has_jitter(&self) -> bool {
        self.jitter_bound > 0
    }

    /// The extra delay of the next packet.
    pub(crate) fn jitter(&mut self) -> Duration {
        Duration::from_nanos(self.jitter_rng.below(self.jitter_bound))
    }

    fn draw(&mut self) -> Option<Fate> {
        let lost = self.is_lost();
        let held = self.reorder > Fraction::ZERO && self.reorder_rng.chance(self.reorder);
        let twice = self.duplicate > Fraction::ZERO && self.duplicate_rng.chance(self.duplicate);
        match (lost, held, twice) {
            (true, _, _) => Some(Fate::Lost),
            (false, true, twice) => Some(Fate::Held { twice }),
            (false, false, true) => Some(Fate::Twice),
            (false, false, false) => None,
        }
    }

    fn is_lost(&mut self) -> bool {
        match self.loss {
            Loss::Never => false,
            Loss::Random(share) => self.loss_rng.chance(share),
            Loss::GilbertElliott {
                good_to_bad,
                bad_to_good,
                loss_good,
                loss_bad,
            } => {
                let leave = if self.bad { bad_to_good } else { good_to_bad };
                self.bad ^= self.loss_rng.chance(leave);
                self.loss_rng
                    .chance(if self.bad { loss_bad } else { loss_good })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn losses(loss: Loss, count: u32) -> Vec<bool> {
        let spec = LinkSpec {
            loss,
            ..LinkSpec::ideal()
        };
        let mut fates = Fates::new(&spec, 3);
        (0..count)
            .map(|_| fates.scan(1).1 == Some(Fate::Lost))
            .collect()
    }

    #[test]
    fn gilbert_elliott_loses_in_bursts() {
        let part = |text: &str| text.parse::<Fraction>().unwrap();
        let lost = losses(
            Loss::GilbertElliott {
                good_to_bad: part("1%"),
                bad_to_good: part("25%"),
                loss_good: Fraction::ZERO,
                loss_bad: Fraction::ONE,
            },
            100_000,
        );
        // Bad for 1/(1+25) of the packets, in bursts of 4 on average.
        let count = lost.iter().filter(|lost| **lost).count();
        assert!(
            (3_500..4_200).contains(&count),
            "{count} lost, 3846 expected"
        );
        let bursts = lost.windows(2).filter(|pair| !pair[0] && pair[1]).count();
        assert!(
            (860..1_070).contains(&bursts),
            "{bursts} bursts, 961 expected"
        );
    }

    #[test]
    fn as_many_are_lost_in_a_row_as_is_wanted() {
        let share: Fraction = "1%".parse().unwrap();
        let lost = losses(Loss::in_bursts(share, 5.0), 1_000_000);
        let count = lost.iter().filter(|lost| **lost).count();
        let bursts = lost.windows(2).filter(|pair| !pair[0] && pair[1]).count();
        assert!((9_000..11_000).contains(&count), "{count} lost of 10 000");
        assert!(
            (1_800..2_200).contains(&bursts),
            "{bursts} bursts, 2000 expected"
        );
        assert_eq!(Loss::in_bursts(share, 1.0), Loss::Random(share));
        assert_eq!(Loss::in_bursts(Fraction::ZERO, 5.0), Loss::Never);
    }

    #[test]
    fn skipped_packets_use_up_their_fates() {
        let spec = LinkSpec {
            loss: Loss::Random(Fraction::from_parts(300_000_000)),
            jitter: Duration::from_millis(1),
            ..LinkSpec::ideal()
        };
        let fates = Fates::new(&spec, 9);
        let draw = |mut fates: Fates| -> Vec<_> {
            (0..20).map(|_| (fates.scan(1), fates.jitter())).collect()
        };
        let mut later = fates.clone();
        later.skip(5);
        assert_eq!(draw(fates)[5..], draw(later)[..15]);
    }
}
