//! The unit of bandwidth, and the largest of the last rounds.

use base::Rate;

/// A gain of 1; gains are in 1/256.
pub(super) const UNIT: u32 = 256;
/// Packets are sent 1 % slower than computed, so that a queue can drain (Linux
/// `bbr_pacing_margin_percent`).
const MARGIN_PERCENT: u128 = 1;
/// Binary places of [`Bandwidth`].
const SHIFT: u32 = 24;

/// Packets per microsecond, times 2^24: 715 bit/s with packets of 1500 bytes up to more than any
/// link has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Bandwidth(u64);

impl Bandwidth {
    /// `packets` in `micros` microseconds.
    pub(super) fn of(packets: u64, micros: u64) -> Self {
        narrow((u128::from(packets) << SHIFT) / u128::from(micros.max(1)))
    }

    /// Packets in `micros` microseconds, rounded down.
    pub(super) fn packets_in(self, micros: u64) -> u64 {
        let packets = (u128::from(self.0) * u128::from(micros)) >> SHIFT;
        u64::try_from(packets).unwrap_or(u64::MAX)
    }

    /// Packets in `micros` microseconds at `gain` times the bandwidth, rounded up.
    pub(super) fn packets_in_at(self, micros: u64, gain: u32) -> u64 {
        let fixed = u128::from(self.0) * u128::from(micros) * u128::from(gain) / u128::from(UNIT);
        u64::try_from(fixed.div_ceil(1 << SHIFT)).unwrap_or(u64::MAX)
    }

    /// The share `parts / 256` of it.
    pub(super) fn scaled(self, parts: u32) -> Self {
        narrow(u128::from(self.0) * u128::from(parts) / u128::from(UNIT))
    }

    pub(super) fn difference(self, other: Self) -> Self {
        Self(self.0.abs_diff(other.0))
    }

    pub(super) fn average(self, other: Self) -> Self {
        narrow((u128::from(self.0) + u128::from(other.0)) / 2)
    }

    /// The rate of packets of `mss` bytes.
    pub(super) fn rate(self, mss: u32) -> Rate {
        bytes_per_second((u128::from(self.0) * u128::from(mss) * 1_000_000) >> SHIFT)
    }

    /// The rate at which packets of `mss` bytes are sent at `gain`, margin taken off.
    pub(super) fn pacing_rate(self, mss: u32, gain: u32) -> Rate {
        let scaled = (u128::from(self.0) * u128::from(mss) * u128::from(gain)) / u128::from(UNIT);
        let margin = 1_000_000 / 100 * (100 - MARGIN_PERCENT);
        bytes_per_second((scaled * margin) >> SHIFT)
    }
}

fn narrow(fixed: u128) -> Bandwidth {
    Bandwidth(u64::try_from(fixed).unwrap_or(u64::MAX))
}

fn bytes_per_second(bytes: u128) -> Rate {
    Rate::from_bytes_per_second(u64::try_from(bytes).unwrap_or(u64::MAX))
}

/// The largest bandwidth of the last rounds, from three candidates only (Kathleen Nichols'
/// windowed filter; Linux `minmax_running_max`): each is the best since the one before it, and the
/// later two are renewed when a quarter or half of the window has passed without them. It never
/// exceeds the true maximum and never falls below the latest value.
#[derive(Clone, Debug)]
pub(super) struct MaxFilter {
    best: [Candidate; 3],
}

#[derive(Clone, Copy, Debug, Default)]
struct Candidate {
    round: u64,
    value: Bandwidth,
}

/// Rounds for which a maximum counts: a cycle of gains and two more (Linux `bbr_bw_rtts`).
const ROUNDS: u64 = 10;

impl MaxFilter {
    pub(super) const fn new() -> Self {
        let none = Candidate {
            round: 0,
            value: Bandwidth(0),
        };
        Self { best: [none; 3] }
    }

    pub(super) const fn max(&self) -> Bandwidth {
        self.best[0].value
    }

    /// Takes in `value`, measured in `round`.
    pub(super) fn insert(&mut self, round: u64, value: Bandwidth) {
        let new = Candidate { round, value };
        let [first, second, third] = self.best;
        let all_old = round - third.round > ROUNDS;
        self.best = if value >= first.value || all_old {
            [new; 3]
        } else if value >= second.value {
            [first, new, new]
        } else if value >= third.value {
            [first, second, new]
        } else {
            self.best
        };
        self.expire(new);
    }

    fn expire(&mut self, new: Candidate) {
        let [first, second, third] = self.best;
        let age = new.round - first.round;
        if age > ROUNDS {
            self.best = if new.round - second.round > ROUNDS {
                [third, new, new]
            } else {
                [second, third, new]
            };
        } else if second.round == first.round && age > ROUNDS / 4 {
            self.best = [first, new, new];
        } else if third.round == second.round && age > ROUNDS / 2 {
            self.best = [first, second, new];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rates_of_a_bandwidth() {
        // 1000 packets of 1448 bytes per second; 2^24 / 1000 is not whole.
        let bandwidth = Bandwidth::of(1_000, 1_000_000);
        assert_eq!(bandwidth, Bandwidth(16_777));
        assert_eq!(bandwidth.rate(1_448).bits_per_second(), 8 * 1_447_981);
        let paced = bandwidth.pacing_rate(1_448, UNIT).bits_per_second();
        assert_eq!(paced, 8 * 1_433_501);
        let high = bandwidth.pacing_rate(1_448, 739).bits_per_second();
        assert_eq!(high, 8 * 4_138_115);
        assert_eq!(bandwidth.packets_in(100_000), 99);
        assert_eq!(bandwidth.packets_in_at(100_000, UNIT), 100);
        assert_eq!(bandwidth.packets_in_at(100_000, 2 * UNIT), 200);
    }

    #[test]
    fn extremes_do_not_overflow() {
        let most = Bandwidth::of(u64::MAX, 1);
        assert_eq!(most, Bandwidth(u64::MAX));
        assert_eq!(most.pacing_rate(65_536, 739).bits_per_second(), u64::MAX);
        assert_eq!(Bandwidth::of(0, 0), Bandwidth::default());
        assert_eq!(most.average(most), most);
    }

    #[test]
    fn a_maximum_lasts_ten_rounds() {
        let mut filter = MaxFilter::new();
        filter.insert(1, Bandwidth(100));
        for round in 2..=11 {
            filter.insert(round, Bandwidth(50));
            assert_eq!(filter.max(), Bandwidth(100), "round {round}");
        }
        filter.insert(12, Bandwidth(50));
        assert_eq!(filter.max(), Bandwidth(50));
    }

    proptest! {
        /// Between the latest value and the maximum of the window, whatever comes.
        #[test]
        fn filter_lies_within_the_naive_maximum(
            samples in prop::collection::vec((0_u64..4, 0_u64..1_000), 1..200)
        ) {
            let mut filter = MaxFilter::new();
            let mut seen = alloc::vec::Vec::new();
            let mut round = 0;
            for (step, value) in samples {
                round += step;
                filter.insert(round, Bandwidth(value));
                seen.push((round, value));
                let window = seen.iter().filter(|&&(then, _)| round - then <= ROUNDS);
                let naive = window.map(|&(_, value)| value).max().expect("one at least");
                prop_assert!(filter.max() <= Bandwidth(naive));
                prop_assert!(filter.max() >= Bandwidth(value));
            }
        }
    }
}
