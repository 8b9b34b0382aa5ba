//! Judges expectations by the results of runs: the verdict, and why.

use base::human;
use serde::{Deserialize, Serialize};

use crate::engine::EngineName;
use crate::scenario::{Expectation, Metric};
use crate::show::{outside, show_range, show_value};
use crate::stats;

/// How far a number may lie from the published one, as a share of it, where the class of the
/// experiment is `value` and the file claims nothing else. Most tolerances of the experiments are 3
/// to 5 %.
pub const VALUE_TOLERANCE: f64 = 0.05;
/// Seed of the intervals: the same values always give the same one.
const SEED: u64 = 1;

/// Verdict on an experiment or one of its expectations. Later variants weigh more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It was measured; nothing is claimed of it.
    Recorded,
    /// All that is claimed came out.
    Holds,
    /// It came out, by a parameter that was fitted on this number: no prediction.
    Calibrated,
    /// The published number does not come out, which is what is claimed; where the document prints
    /// none, what is claimed against its statement does.
    DeviatesAsExpected,
    /// No engine ran it, or no run can be used.
    NotRun,
    /// One run in real time, where several are needed to tell it from chance.
    NotTested,
    /// The median is outside of what is claimed, but may be inside by its interval; or a claim was
    /// not measured on an engine that ran it.
    NotDistinguishable,
    /// What is claimed did not come out; or what was published did, which was not expected.
    Fails,
}

impl Verdict {
    /// Text shown to users.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Recorded => "recorded",
            Self::Holds => "pass",
            Self::Calibrated => "calibrated",
            Self::DeviatesAsExpected => "deviates as expected",
            Self::NotRun => "not run",
            Self::NotTested => "not tested",
            Self::NotDistinguishable => "not distinguishable",
            Self::Fails => "fail",
        }
    }
}

/// Between which values a number is claimed to lie.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bounds {
    /// Smallest, in the unit of the row.
    pub min: Option<f64>,
    /// Largest.
    pub max: Option<f64>,
    /// Engines about which it is claimed; empty for all.
    pub engines: Vec<EngineName>,
    /// Why.
    pub reason: String,
    /// See [`Expectation::history`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<String>,
}

impl Bounds {
    /// Whether a value lies between them.
    #[must_use]
    pub fn contains(&self, value: f64) -> bool {
        self.min.is_none_or(|min| value >= min) && self.max.is_none_or(|max| value <= max)
    }

    /// Whether they are claimed on an engine.
    #[must_use]
    pub fn applies_on(&self, engine: EngineName) -> bool {
        self.engines.is_empty() || self.engines.contains(&engine)
    }
}

impl From<&Expectation> for Bounds {
    fn from(claim: &Expectation) -> Self {
        Self {
            min: claim.min,
            max: claim.max,
            engines: claim.engines.clone(),
            reason: claim.reason.clone(),
            history: claim.history.clone(),
        }
    }
}

/// The values of some runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The middle one; of a ratio that of the medians.
    pub median: f64,
    /// Lower end of the confidence interval of the median; see [`stats::Interval`]. The value
    /// itself for a single run.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Runs.
    pub n: usize,
    /// Value of each run, in run order; empty for a ratio.
    pub values: Vec<f64>,
    /// Places of those that lie far from the others; they count like all others.
    pub outliers: Vec<usize>,
}

impl Spread {
    /// Spread of these values; `None` if there are none or one is not a number.
    #[must_use]
    pub fn of(values: Vec<f64>) -> Option<Self> {
        let interval = stats::median_interval(&values, SEED)?;
        Some(Self {
            median: stats::median(&values)?,
            low: interval.low,
            high: interval.high,
            n: values.len(),
            outliers: stats::outliers(&values),
            values,
        })
    }

    /// Spread of the values of one metric, or of its ratio to that of another variant.
    #[must_use]
    pub fn of_runs(values: &[f64], over: Option<&[f64]>) -> Option<Self> {
        match over {
            Some(over) => Self::of_ratio(values, over),
            None => Self::of(values.to_vec()),
        }
    }

    /// Spread of the median of `values` divided by that of `over`; `None` if one is empty, or
    /// `over` is not above zero.
    #[must_use]
    pub fn of_ratio(values: &[f64], over: &[f64]) -> Option<Self> {
        let interval = stats::ratio_interval(over, values, SEED)?;
        Some(Self {
            median: stats::median(values)? / stats::median(over)?,
            low: interval.low,
            high: interval.high,
            n: values.len().min(over.len()),
            values: Vec::new(),
            outliers: Vec::new(),
        })
    }
}

/// Formats the confidence interval of the median: `5.61 to 5.70 s`.
#[must_use]
pub fn show_interval(unit: &str, spread: &Spread) -> String {
    show_range(unit, spread.low, spread.high)
}

/// The subject of an expectation, for sentences.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'s> {
    /// The number: `duration_us`, or `duration_us over that of n20`.
    pub name: &'s str,
    /// Its unit.
    pub unit: &'s str,
    /// Whether it is a ratio of two variants.
    pub is_ratio: bool,
}

/// Whether a number is as claimed; if not plainly so, with a sentence.
#[must_use]
pub fn judge(subject: Subject<'_>, bounds: &Bounds, spread: &Spread) -> Judged {
    let Subject {
        name,
        unit,
        is_ratio,
    } = subject;
    let Spread {
        median, low, high, ..
    } = *spread;
    let min = bounds.min.unwrap_or(f64::NEG_INFINITY);
    let max = bounds.max.unwrap_or(f64::INFINITY);
    let range = show_interval(unit, spread);
    let Some(wrong) = outside(unit, median, (bounds.min, bounds.max)) else {
        // A ratio is of two noisy numbers, and chance may make one on either side of a bound.
        if is_ratio && (low < min || high > max) {
            let why = format!(
                "{name} is {}, as expected, but its interval is {range}, and may be without",
                show_value(unit, median)
            );
            return Judged(Verdict::NotDistinguishable, Some(why));
        }
        return Judged(Verdict::Holds, None);
    };
    let mut why = format!("{name} {wrong}");
    if !bounds.reason.is_empty() {
        why = format!("{why} ({})", bounds.reason);
    }
    if low <= max && high >= min {
        let why = format!("{why}; its interval is {range}, so it may be within");
        return Judged(Verdict::NotDistinguishable, Some(why));
    }
    Judged(Verdict::Fails, Some(why))
}

/// Verdict of runs on an expectation.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// The number; `None` where none can be made of the runs.
    pub spread: Option<Spread>,
    /// Whether it is as claimed.
    pub verdict: Verdict,
    /// A sentence where it does not plainly hold.
    pub why: Option<String>,
}

impl Judgement {
    /// Turns the verdict into `NotTested` if fewer runs are usable than needed to tell; see
    /// [`runs_to_tell`]. A metric that was not measured stays as it is.
    #[must_use]
    pub fn told_by(self, usable: usize, needed: usize) -> Self {
        if self.spread.is_none() {
            return self;
        }
        let Judged(verdict, why) = Judged(self.verdict, self.why).told_by(usable, needed);
        Self {
            verdict,
            why,
            ..self
        }
    }
}

/// Judges a claim by the values of all usable runs of a cell, and where it is about a ratio by
/// those of the cell that it divides by. What was not measured fails.
#[must_use]
pub fn judge_claim(claim: &Expectation, values: &[f64], over: Option<&[f64]>) -> Judgement {
    let spread = Spread::of_runs(values, over);
    let name = claim.name();
    let Judged(verdict, why) = match (&spread, &claim.over, over) {
        (Some(spread), ..) => {
            let subject = Subject {
                name: &name,
                unit: claim.unit(),
                is_ratio: over.is_some(),
            };
            judge(subject, &Bounds::from(claim), spread)
        }
        (None, Some(variant), Some(over)) if is_over_nothing(values, over) => {
            Judged(Verdict::Fails, Some(over_nothing(claim.metric, variant)))
        }
        (None, ..) => {
            let why = format!("{name} was not measured, but is expected");
            Judged(Verdict::Fails, Some(why))
        }
    };
    Judgement {
        spread,
        verdict,
        why,
    }
}

/// Whether there is no ratio because the base is 0.
#[must_use]
pub fn is_over_nothing(values: &[f64], over: &[f64]) -> bool {
    !values.is_empty() && over.iter().any(|value| *value <= 0.0)
}

/// Says that there is no ratio to the values of variant `over`, because one of them is 0.
#[must_use]
pub fn over_nothing(metric: Metric, over: &str) -> String {
    let metric = metric.name();
    format!("{metric} of {over} is 0 in some run, and nothing can be divided by it")
}

/// A verdict and its sentence, where it needs one.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged(pub Verdict, pub Option<String>);

/// How many usable runs of each cell a claim about a ratio takes in real time: of three and three,
/// all of one above all of the other, chance makes one in twenty.
const RUNS_OF_RATIO: usize = 3;

/// How many usable runs a claim takes, of which a file asks for this many. In virtual time a run is
/// what it is. In real time one run may be anything, so that it takes two, unless the file says
/// that one settles it; and three for a ratio, whatever the file says.
#[must_use]
pub const fn runs_to_tell(engine: EngineName, of_file: usize, is_ratio: bool) -> usize {
    match (engine, is_ratio) {
        (EngineName::Virtual, _) => 1,
        (_, true) => RUNS_OF_RATIO,
        (_, false) if of_file < 2 => 1,
        (_, false) => 2,
    }
}

impl Judged {
    /// Turns the verdict into `NotTested` if fewer runs are usable than needed to tell.
    #[must_use]
    pub fn told_by(self, usable: usize, needed: usize) -> Self {
        if usable >= needed {
            return self;
        }
        let runs = human::count(usable as u64, "usable run");
        let why = format!("{runs} in real time, and it takes {needed} to tell from chance");
        let whys = self.1.into_iter().chain([why]);
        Self(
            Verdict::NotTested,
            whys.reduce(|known, more| format!("{known}; {more}")),
        )
    }

    /// Withdraws a failure while fewer runs than requested, or usable, are present.
    #[must_use]
    pub fn of_runs(self, usable: usize, asked: usize) -> Self {
        match self {
            Self(Verdict::Fails, why) if usable < asked => Self(
                Verdict::NotDistinguishable,
                why.map(|why| {
                    let runs = human::count(usable as u64, "usable run");
                    format!("{why}; {runs}, and it takes {asked} to fail")
                }),
            ),
            other => other,
        }
    }

    /// The worse of two; of equals both sentences.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match self.0.cmp(&other.0) {
            core::cmp::Ordering::Less => other,
            core::cmp::Ordering::Greater => self,
            core::cmp::Ordering::Equal => {
                let whys: Vec<String> = self.1.into_iter().chain(other.1).collect();
                Self(self.0, (!whys.is_empty()).then(|| whys.join("; ")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(min: Option<f64>, max: Option<f64>) -> Bounds {
        Bounds {
            min,
            max,
            engines: Vec::new(),
            reason: String::new(),
            history: Vec::new(),
        }
    }

    #[test]
    fn a_number_is_judged_by_its_median_then_by_its_interval() {
        let check = |values: &[f64], min: Option<f64>, max: Option<f64>, expected: &str| {
            let subject = Subject {
                name: "duration_us",
                unit: "us",
                is_ratio: false,
            };
            let spread = Spread::of(values.to_vec()).expect("numbers");
            let Judged(verdict, why) = judge(subject, &bounds(min, max), &spread);
            let told = why.map_or_else(String::new, |why| format!(": {why}"));
            assert_eq!(format!("{}{told}", verdict.words()), expected);
        };
        check(&[5e6], Some(4e6), Some(6e6), "pass");
        check(&[5e6], Some(5e6), Some(5e6), "pass");
        check(&[5e6], None, Some(5e6), "pass");
        check(
            &[7e6],
            Some(4e6),
            Some(6e6),
            "fail: duration_us is 7.00 s, expected at most 6.00 s",
        );
        check(
            &[5.9e6, 6.2e6, 6.3e6],
            None,
            Some(6e6),
            "not distinguishable: duration_us is 6.20 s, expected at most 6.00 s; its interval \
             is 5.90 to 6.30 s, so it may be within",
        );
        // One of many does not move the interval.
        check(
            &[
                5.9e6, 6.2e6, 6.2e6, 6.2e6, 6.2e6, 6.2e6, 6.3e6, 6.3e6, 6.3e6,
            ],
            None,
            Some(6e6),
            "fail: duration_us is 6.20 s, expected at most 6.00 s",
        );
        check(
            &[900.0],
            Some(40_000.0),
            None,
            "fail: duration_us is 900 us, expected at least 40.0 ms",
        );
    }

    #[test]
    fn too_few_runs_fail_nothing() {
        let failed = || Judged(Verdict::Fails, Some("it is 3".into()));
        assert_eq!(failed().of_runs(5, 5), failed());
        let open = Judged(
            Verdict::NotDistinguishable,
            Some("it is 3; 2 usable runs, and it takes 5 to fail".into()),
        );
        assert_eq!(failed().of_runs(2, 5), open);
        let held = || Judged(Verdict::Holds, None);
        assert_eq!(held().of_runs(2, 5), held());
    }

    #[test]
    fn a_claim_is_judged_by_the_runs_of_its_cells() {
        let claim = |over: Option<&str>| Expectation {
            metric: Metric::GoodputBps,
            variant: Some("nodelay".into()),
            over: over.map(str::to_owned),
            engines: Vec::new(),
            costs: None,
            min: Some(2.5),
            max: None,
            reason: "the rate".into(),
            history: Vec::new(),
        };
        let check = |claim: Expectation, values: &[f64], over: Option<&[f64]>, expected: &str| {
            let found = judge_claim(&claim, values, over);
            let told = found.why.map_or_else(String::new, |why| format!(": {why}"));
            assert_eq!(format!("{}{told}", found.verdict.words()), expected);
        };
        check(claim(None), &[3.0, 4.0], None, "pass");
        check(
            claim(None),
            &[],
            None,
            "fail: goodput_bps was not measured, but is expected",
        );
        let ratio = || claim(Some("nagle"));
        check(ratio(), &[6.0], Some(&[2.0]), "pass");
        check(
            ratio(),
            &[4.8],
            Some(&[2.0]),
            "fail: goodput_bps over that of nagle is 2.40, expected at least 2.50 (the rate)",
        );
        check(
            ratio(),
            &[4.8],
            Some(&[0.0]),
            "fail: goodput_bps of nagle is 0 in some run, and nothing can be divided by it",
        );
    }

    #[test]
    fn a_bound_near_one_is_no_exception() {
        for (min, max) in [
            (Some(1.0), None),
            (Some(0.95), None),
            (Some(0.99), Some(1.02)),
            (None, Some(1.0)),
            (None, Some(1.02)),
        ] {
            let spread = Spread::of_ratio(&[41.0, 100.0, 154.0], &[100.0; 3]).expect("a ratio");
            let subject = Subject {
                name: "r",
                unit: "ratio",
                is_ratio: true,
            };
            let Judged(verdict, why) = judge(subject, &bounds(min, max), &spread);
            assert_eq!(
                verdict,
                Verdict::NotDistinguishable,
                "{min:?} {max:?} {why:?}"
            );
        }
    }

    #[test]
    fn chance_settles_no_claim_about_a_ratio() {
        let check = |values: &[f64], over: &[f64], min, max, expected: &str| {
            let subject = Subject {
                name: "goodput_bps over that of a",
                unit: "ratio",
                is_ratio: true,
            };
            let spread = Spread::of_ratio(values, over).expect("above zero");
            let Judged(verdict, why) = judge(subject, &bounds(min, max), &spread);
            let told = why.map_or_else(String::new, |why| format!(": {why}"));
            assert_eq!(format!("{}{told}", verdict.words()), expected);
        };
        let around = (Some(0.97), Some(1.03));
        check(&[100.0], &[100.0], around.0, around.1, "pass");
        check(
            &[90.0, 100.0, 120.0, 121.0],
            &[95.0, 98.0, 100.0, 105.0],
            around.0,
            around.1,
            "not distinguishable: goodput_bps over that of a is 1.11, expected at most 1.03; its \
             interval is 0.90 to 1.25, so it may be within",
        );
        check(
            &[110.0],
            &[100.0],
            around.0,
            around.1,
            "fail: goodput_bps over that of a is 1.10, expected at most 1.03",
        );
        // What is claimed is claimed of the whole interval, whatever the bounds are.
        check(
            &[90.0, 140.0, 150.0, 95.0, 160.0],
            &[100.0, 105.0, 110.0, 100.0, 98.0],
            Some(1.2),
            None,
            "not distinguishable: goodput_bps over that of a is 1.40, as expected, but its interval \
             is 0.86 to 1.60, and may be without",
        );
        let told = [1.4, 1.3, 1.5];
        check(&told, &[1.0, 1.1, 1.0], Some(1.0), None, "pass");
        check(&[200.0], &[100.0], Some(1.2), None, "pass");
        check(
            &[110.0],
            &[100.0],
            Some(2.5),
            None,
            "fail: goodput_bps over that of a is 1.10, expected at least 2.50",
        );
        assert_eq!(Spread::of_ratio(&[1.0], &[0.0]), None);
        assert_eq!(Spread::of(Vec::new()), None);
    }
}
