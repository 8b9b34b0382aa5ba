//! Statistics of measurements: medians with intervals, and whether two sets differ at all.
//!
//! Network measurements are skewed and have outliers, so everything here is based on ranks:
//! medians, bootstrap intervals by percentiles (Efron and Tibshirani 1993, chapter 13) and the test
//! of Mann and Whitney (1947). The same seed gives the same interval. Values are finite numbers;
//! where one is not, or there are none, the answer is `None`.

mod spread;

use core::time::Duration;

use base::Rng;
use hdrhistogram::Histogram;

use crate::outcome::{LatenessMicros, ResponseMicros, STALL_US};
pub use spread::{INTERVAL_SHARE_WANTED, more_runs_wanted, outliers};

/// How often is drawn anew for an interval: its ends then vary by less than its width matters.
const RESAMPLES: usize = 2_000;
/// Resamples outside of the interval at each end: 2.5 %, which leaves 95 %.
const TAIL: usize = RESAMPLES / 40;
/// Up to this many values in both sets together the p-value is exact; above, the normal
/// approximation is good to three digits.
const EXACT_VALUES_MAX: usize = 60;
/// Chance to see a difference where there is none.
const SIGNIFICANCE: f64 = 0.05;

/// The middle one of the values in order, or the mean of the two in the middle.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = finite(values)?;
    Some(median_of(&mut sorted))
}

/// A range that contains the true value with a probability of 95 %. Of few values it is their whole
/// range, and nothing distribution-free says more: it contains the median with 94 % of five values,
/// 88 % of four, 75 % of three and 50 % of two. Of one value it is that value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// Whether `value` lies within, ends included.
    #[must_use]
    pub fn contains(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }
}

/// The interval of the median of `values`.
#[must_use]
pub fn median_interval(values: &[f64], seed: u64) -> Option<Interval> {
    let values = finite(values)?;
    let mut rng = Rng::new(seed, "bootstrap");
    let mut drawn = Vec::with_capacity(values.len());
    Some(interval(|| resampled_median(&values, &mut drawn, &mut rng)))
}

/// The interval of the ratio `median(other) / median(base)`; `None` also where the median of `base`
/// is not above zero, or may not be: then the ratio has no upper end.
#[must_use]
pub fn ratio_interval(base: &[f64], other: &[f64], seed: u64) -> Option<Interval> {
    let (base, other) = (finite(base)?, finite(other)?);
    if median(&base)? <= 0.0 {
        return None;
    }
    let mut rng = Rng::new(seed, "bootstrap");
    let mut drawn = Vec::with_capacity(base.len().max(other.len()));
    let mut unknown = 0;
    let ratios = resampled(|| {
        let below = resampled_median(&base, &mut drawn, &mut rng);
        let above = resampled_median(&other, &mut drawn, &mut rng);
        if below > 0.0 {
            return above / below;
        }
        // 0 of 0 is any ratio: it counts at both ends.
        unknown += usize::from(above <= 0.0);
        f64::INFINITY
    });
    let interval = Interval {
        low: ratios[TAIL.saturating_sub(unknown)],
        high: ratios[RESAMPLES - 1 - TAIL],
    };
    interval.high.is_finite().then_some(interval)
}

/// The chance to see two sets that differ as much as these, or more, if both came from the same
/// source (test of Mann and Whitney, two-sided). Equal values share their ranks.
#[must_use]
pub fn mann_whitney(one: &[f64], other: &[f64]) -> Option<f64> {
    let (one, other) = (finite(one)?, finite(other)?);
    let (ranks, sum) = pooled_ranks(&one, &other);
    Some(if ranks.len() <= EXACT_VALUES_MAX {
        exact_p(&ranks, one.len(), sum)
    } else {
        approximate_p(&ranks, one.len(), sum)
    })
}

/// Result of comparing two sets of measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// The other one is larger.
    Larger,
    /// The other one is smaller.
    Smaller,
    /// The difference may be chance. With fewer than four values in each set it always may.
    NotDistinguishable,
}

/// Two sets of measurements beside each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// Median of the base.
    pub base: f64,
    /// Median of the other one.
    pub other: f64,
    /// `other / base`.
    pub ratio: f64,
    /// Confidence interval of the ratio.
    pub interval: Interval,
    /// See [`mann_whitney`].
    pub p_value: f64,
    /// A difference is named only where the p-value is below 5 % and the interval excludes 1.
    pub judgement: Judgement,
}

/// Compares `other` with `base`, whose median must be above zero; see [`ratio_interval`].
#[must_use]
pub fn compare(base: &[f64], other: &[f64], seed: u64) -> Option<Comparison> {
    let interval = ratio_interval(base, other, seed)?;
    let p_value = mann_whitney(base, other)?;
    let (base, other) = (median(base)?, median(other)?);
    let judgement = if p_value >= SIGNIFICANCE || interval.contains(1.0) {
        Judgement::NotDistinguishable
    } else if interval.low > 1.0 {
        Judgement::Larger
    } else {
        Judgement::Smaller
    };
    Some(Comparison {
        base,
        other,
        ratio: other / base,
        interval,
        p_value,
        judgement,
    })
}

/// The mean of whole numbers, rounded down; `None` of none.
#[must_use]
pub fn whole_mean(values: &[u64]) -> Option<u64> {
    let sum: u128 = values.iter().copied().map(u128::from).sum();
    let mean = sum.checked_div(values.len() as u128)?;
    u64::try_from(mean).ok()
}

/// The smallest of the values that `percent` of them do not exceed (nearest rank); `None` of none.
#[must_use]
pub fn whole_percentile(values: &[u64], percent: usize) -> Option<u64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

/// Times in microseconds, counted so that percentiles are right to 0.1 % in constant memory.
#[derive(Clone, Debug)]
pub struct TimeHistogram {
    histogram: Histogram<u64>,
    /// The histogram knows it only up to its precision.
    max_us: u64,
}

impl TimeHistogram {
    /// Longest time that is told apart: an hour.
    const MAX_US: u64 = 3_600_000_000;

    /// Without any times.
    #[must_use]
    pub fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, Self::MAX_US, 3)
            .expect("bounds and precision are constants that the histogram allows");
        Self {
            histogram,
            max_us: 0,
        }
    }

    /// Adds a time, rounded down to microseconds. More than an hour counts as an hour.
    pub fn record(&mut self, time: Duration) {
        let micros = u64::try_from(time.as_micros())
            .unwrap_or(u64::MAX)
            .min(Self::MAX_US);
        self.histogram.saturating_record(micros);
        self.max_us = self.max_us.max(micros);
    }

    /// Adds all times of another one.
    pub fn merge(&mut self, other: &Self) {
        self.histogram
            .add(&other.histogram)
            .expect("both have the same bounds");
        self.max_us = self.max_us.max(other.max_us);
    }

    /// How many times were added.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Forgets all times, as after a warm-up.
    pub fn clear(&mut self) {
        self.histogram.reset();
        self.max_us = 0;
    }

    /// As response times; `None` for an empty set.
    #[must_use]
    pub fn response(&self) -> Option<ResponseMicros> {
        (self.count() > 0).then(|| ResponseMicros {
            n: self.count(),
            p50: self.quantile(0.5),
            p90: self.quantile(0.9),
            p99: self.quantile(0.99),
            max: self.max_us,
            stalled: self.histogram.count_between(STALL_US, Self::MAX_US),
        })
    }

    /// As the emulator's lateness; `None` for an empty set.
    #[must_use]
    pub fn lateness(&self) -> Option<LatenessMicros> {
        (self.count() > 0).then(|| LatenessMicros {
            p50: self.quantile(0.5),
            p99: self.quantile(0.99),
            max: self.max_us,
        })
    }

    fn quantile(&self, quantile: f64) -> u64 {
        // The histogram returns the upper end of a bucket, which may lie above all values.
        self.histogram.value_at_quantile(quantile).min(self.max_us)
    }
}

impl Default for TimeHistogram {
    fn default() -> Self {
        Self::new()
    }
}

fn finite(values: &[f64]) -> Option<Vec<f64>> {
    (!values.is_empty() && values.iter().all(|value| value.is_finite())).then(|| values.to_vec())
}

/// Median of at least one value; reorders them.
fn median_of(values: &mut [f64]) -> f64 {
    let (middle, is_odd) = (values.len() / 2, values.len() % 2 == 1);
    let (below, upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    if is_odd {
        return *upper;
    }
    let lower = below.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    f64::midpoint(lower, *upper)
}

/// The median of as many values, drawn from them with repetition.
fn resampled_median(values: &[f64], drawn: &mut Vec<f64>, rng: &mut Rng) -> f64 {
    drawn.clear();
    drawn.extend((0..values.len()).map(|_| values[rng.below(values.len() as u64) as usize]));
    median_of(drawn)
}

/// Calls `draw` [`RESAMPLES`] times; sorted results.
fn resampled(draw: impl FnMut() -> f64) -> Vec<f64> {
    let mut drawn: Vec<f64> = core::iter::repeat_with(draw).take(RESAMPLES).collect();
    drawn.sort_by(f64::total_cmp);
    drawn
}

fn interval(draw: impl FnMut() -> f64) -> Interval {
    let drawn = resampled(draw);
    Interval {
        low: drawn[TAIL],
        high: drawn[RESAMPLES - 1 - TAIL],
    }
}

/// Twice the ranks of all values together, sorted, and what those of `one` sum up to.
fn pooled_ranks(one: &[f64], other: &[f64]) -> (Vec<usize>, usize) {
    let mut all: Vec<(f64, bool)> = one
        .iter()
        .map(|value| (*value, true))
        .chain(other.iter().map(|value| (*value, false)))
        .collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let ranks = doubled_ranks(&all);
    let sum = ranks
        .iter()
        .zip(&all)
        .filter(|(_, (_, mine))| *mine)
        .map(|(rank, _)| *rank)
        .sum();
    (ranks, sum)
}

/// Twice the rank of each of the sorted values; equal ones have the mean of their ranks, and twice
/// a mean of ranks is a whole number.
fn doubled_ranks(sorted: &[(f64, bool)]) -> Vec<usize> {
    let mut ranks = Vec::with_capacity(sorted.len());
    for equal in sorted.chunk_by(|a, b| a.0 == b.0) {
        let first = ranks.len() + 1;
        ranks.extend(core::iter::repeat_n(
            2 * first + equal.len() - 1,
            equal.len(),
        ));
    }
    ranks
}

/// The share of all choices of `count` ranks whose sum is at least as far from the mean as `sum`.
fn exact_p(ranks: &[usize], count: usize, sum: usize) -> f64 {
    let total: usize = ranks.iter().sum();
    // ways[k][s]: in how many ways k ranks have the sum s.
    let mut ways = vec![vec![0.0_f64; total + 1]; count + 1];
    ways[0][0] = 1.0;
    for &rank in ranks {
        for k in (1..=count).rev() {
            for s in rank..=total {
                ways[k][s] += ways[k - 1][s - rank];
            }
        }
    }
    // The mean is total * count / n; multiplied by n it is a whole number.
    let distance = |s: usize| (s * ranks.len()).abs_diff(total * count);
    let limit = distance(sum);
    let all: f64 = ways[count].iter().sum();
    let far = ways[count]
        .iter()
        .enumerate()
        .filter(|(s, _)| distance(*s) >= limit);
    far.map(|(_, ways)| ways).sum::<f64>() / all
}

/// The normal approximation, with the corrections for equal values and for continuity.
fn approximate_p(ranks: &[usize], count: usize, sum: usize) -> f64 {
    let (n, a) = (ranks.len() as f64, count as f64);
    let b = n - a;
    let ties: f64 = ranks
        .chunk_by(|x, y| x == y)
        .map(|equal| (equal.len() as f64).powi(3) - equal.len() as f64)
        .sum();
    let variance = a * b / 12.0 * (n + 1.0 - ties / (n * (n - 1.0)));
    let distance = (sum as f64 / 2.0 - a * (n + 1.0) / 2.0).abs() - 0.5;
    if variance <= 0.0 || distance <= 0.0 {
        return 1.0;
    }
    erfc(distance / variance.sqrt() / core::f64::consts::SQRT_2)
}

/// The complementary error function for x >= 0, to 1.5e-7 (Abramowitz and Stegun 7.1.26).
fn erfc(x: f64) -> f64 {
    const FACTORS: [f64; 5] = [
        1.061_405_429,
        -1.453_152_027,
        1.421_413_741,
        -0.284_496_736,
        0.254_829_592,
    ];
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    FACTORS.iter().fold(0.0, |sum, factor| (sum + factor) * t) * (-x * x).exp()
}

#[cfg(test)]
mod tests;
