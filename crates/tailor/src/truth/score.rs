//! Errors of predictions: median, 90th percentile, coverage.

use std::collections::BTreeMap;

use lab::{Measure, error_percentile};
use serde::Serialize;

use crate::prediction::{Prediction, Range};

/// Trials that are shown as the worst.
pub const WORST: usize = 10;

/// By fewer operations goodput is not judged.
const OPERATIONS_MIN: u64 = 10;

/// A trial without a prediction.
#[derive(Clone, Debug, Serialize)]
pub struct Unpredicted {
    /// Which.
    pub label: String,
    /// The kind of the reason.
    pub kind: &'static str,
    /// In words.
    pub why: String,
}

/// A prediction beside what was measured after it.
#[derive(Clone, Debug, Serialize)]
pub struct Scored {
    /// Which.
    pub label: String,
    /// The change.
    pub change: String,
    /// Results before.
    pub before: Measure,
    /// Results after.
    pub after: Measure,
    /// The prediction.
    pub prediction: Prediction,
    /// Duration of the prediction with its fitting, in milliseconds.
    pub predict_ms: u64,
    /// Reasons to doubt its measured numbers, if any.
    pub doubts: Vec<String>,
}

/// The errors of one number over all trials.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Score {
    /// Predictions.
    pub count: usize,
    /// Median of the relative errors.
    pub median: Option<f64>,
    /// Their 90th percentile.
    pub p90: Option<f64>,
    /// Share of the intervals that hold the measured value.
    pub coverage: Option<f64>,
    /// Median of the ratio of the upper to the lower end of the intervals.
    pub width: Option<f64>,
}

impl Scored {
    /// The predicted goodput with the measured one, in bit/s; `None` where none was predicted, or
    /// so few operations were counted that one more or less would decide.
    #[must_use]
    pub fn goodput(&self) -> Option<(Range, f64)> {
        let measured = self.after.goodput_bps as f64;
        let counted = |measure: &Measure| {
            let response = measure.response_us.filter(|response| response.n > 0);
            response.map_or(u64::MAX, |response| response.n)
        };
        let is_enough = counted(&self.before).min(counted(&self.after)) >= OPERATIONS_MIN;
        let predicted = self.prediction.goodput_bps?;
        (measured > 0.0 && is_enough).then_some((predicted, measured))
    }

    /// The same of the median response time, in microseconds.
    #[must_use]
    pub fn response(&self) -> Option<(Range, f64)> {
        let measured = self.after.response_us.filter(|response| response.n > 0)?;
        Some((self.prediction.response_us?, measured.p50 as f64))
    }

    /// The larger of its errors.
    #[must_use]
    pub fn error(&self) -> f64 {
        let pairs = [self.goodput(), self.response()];
        pairs
            .into_iter()
            .flatten()
            .map(|(range, measured)| error(range, measured))
            .fold(0.0, f64::max)
    }
}

/// As a share of what was measured.
fn error(range: Range, measured: f64) -> f64 {
    (range.value - measured).abs() / measured.max(1e-9)
}

/// Scores of goodput and of the median response time.
#[must_use]
pub fn score(scored: &[Scored]) -> [Score; 2] {
    let of = |read: fn(&Scored) -> Option<(Range, f64)>| {
        let pairs: Vec<(Range, f64)> = scored.iter().filter_map(read).collect();
        let errors: Vec<f64> = pairs
            .iter()
            .map(|&(range, value)| error(range, value))
            .collect();
        let widths: Vec<f64> = pairs
            .iter()
            .map(|(r, _)| r.high / r.low.max(1e-9))
            .collect();
        let covered = pairs
            .iter()
            .filter(|(range, value)| range.contains(*value))
            .count();
        Score {
            count: pairs.len(),
            median: error_percentile(&errors, 0.5),
            p90: error_percentile(&errors, 0.9),
            coverage: (!pairs.is_empty()).then(|| covered as f64 / pairs.len() as f64),
            width: error_percentile(&widths, 0.5),
        }
    };
    [of(Scored::goodput), of(Scored::response)]
}

/// How many trials were refused, by kind.
#[must_use]
pub fn refusals(all: &[Unpredicted]) -> BTreeMap<&'static str, usize> {
    let mut kinds = BTreeMap::new();
    for one in all {
        *kinds.entry(one.kind).or_insert(0) += 1;
    }
    kinds
}
