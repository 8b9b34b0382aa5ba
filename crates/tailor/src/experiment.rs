//! Whether B is better than A, from looks at both in turn.
//!
//! The order is A B B A, so that a steady drift of the traffic favours neither. After 3, 5, 8, 12
//! and 16 looks at each the question is asked whether it can be told already; the demands are such
//! that all five together name a gain in fewer than 2 of 100 cases where there is none
//! (`tests/experiment.rs` counts). Everything goes by ranks, since measurements of networks are
//! skewed (Mann and Whitney 1947).

use doctor::Objective;
use lab::Measure;
use lab::stats::{self, Interval};
use serde::Serialize;

/// Below this gain a change is not worth keeping.
pub const GAIN_MIN: f64 = 1.05;
/// A lower goodput than this share of that before is no price for a better response time.
const GOODPUT_SHARE_MIN: f64 = 0.9;
/// Looks at each of A and B after which it is asked, and the largest two-sided p-value that counts
/// as a difference then. Of 5 and 5, 0.0079 means that every value of one exceeds all of the other.
const STAGES: &[(usize, f64)] = &[(5, 0.008), (8, 0.01), (12, 0.01), (16, 0.01)];
/// The first question, at so many looks of each, demands more than an order of values, which would
/// come about by chance in one of ten cases: a gap of [`CLEAR_RANGES`] times the range of either.
const CLEAR_LOOKS: usize = 3;
const CLEAR_RANGES: f64 = 2.0;
/// For a percentile interval: any constant.
const SEED: u64 = 1;

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arm {
    /// As it was.
    A,
    /// With the change.
    B,
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// B is better by [`GAIN_MIN`] or more.
    Better,
    /// B is worse, or costs more goodput than it may.
    Worse,
    /// No significant difference.
    NotDistinguishable,
}

/// Looks at A and B.
#[derive(Clone, Debug)]
pub struct Experiment {
    objective: Objective,
    /// All looks at A before the first one at B.
    a_first: bool,
    /// Each with its number in the order of time.
    looks: [Vec<(f64, Measure)>; 2],
}

/// How an experiment ended.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// The answer.
    pub answer: Answer,
    /// What the values are of.
    pub objective: Objective,
    /// Median of the looks at A, in the unit of the objective; `None` where nothing was measured.
    pub before: Option<f64>,
    /// Median of the looks at B.
    pub after: Option<f64>,
    /// How many times better B is than A.
    pub gain: Option<f64>,
    /// Of the gain, 95 %; of three looks their whole range.
    pub gain_interval: Option<[f64; 2]>,
    /// The chance of such a difference where there is none.
    pub p_value: Option<f64>,
    /// Looks at each.
    pub looks: usize,
    /// What made the answer, where it is not the objective itself.
    pub why: Option<&'static str>,
}

impl Experiment {
    /// One that goes back and forth.
    #[must_use]
    pub const fn alternating(objective: Objective) -> Self {
        Self {
            objective,
            a_first: false,
            looks: [Vec::new(), Vec::new()],
        }
    }

    /// One in which A does not come back.
    #[must_use]
    pub const fn before_after(objective: Objective) -> Self {
        Self {
            objective,
            a_first: true,
            looks: [Vec::new(), Vec::new()],
        }
    }

    /// What to look at next.
    #[must_use]
    pub fn next(&self) -> Arm {
        let [a, b] = self.looks.each_ref().map(Vec::len);
        if self.a_first {
            let enough = STAGES[0].0;
            return if a < enough { Arm::A } else { Arm::B };
        }
        match (a + b) % 4 {
            0 | 3 => Arm::A,
            _ => Arm::B,
        }
    }

    /// Whether nothing was looked at yet.
    #[must_use]
    pub fn is_first(&self) -> bool {
        self.looks.iter().all(Vec::is_empty)
    }

    /// Takes in a look.
    pub fn add(&mut self, arm: Arm, measure: Measure) {
        let number: usize = self.looks.iter().map(Vec::len).sum();
        self.looks[arm as usize].push((number as f64, measure));
    }

    /// The outcome, where it can be told by now or never.
    #[must_use]
    pub fn outcome(&self) -> Option<Outcome> {
        let [a, b] = self.looks.each_ref().map(Vec::len);
        if a != b || (self.a_first && a < STAGES[0].0) {
            return None;
        }
        let stage = STAGES.iter().find(|(looks, _)| *looks == a);
        let is_last = self.a_first || STAGES.last().is_some_and(|(looks, _)| *looks == a);
        let is_clear = a == CLEAR_LOOKS && self.is_clear();
        if !is_clear && stage.is_none() {
            return None;
        }
        let found = self.found();
        let differs =
            is_clear || stage.is_some_and(|(_, p)| found.p_value.is_some_and(|q| q <= *p));
        match found.gain {
            Some(gain) if differs && !(1.0..GAIN_MIN).contains(&gain) => {
                let (answer, why) = self.judge(gain);
                Some(Outcome {
                    answer,
                    why,
                    ..found
                })
            }
            _ if is_last || found.is_negligible() => Some(found),
            _ => None,
        }
    }

    /// The outcome where there is no time for more looks.
    #[must_use]
    pub fn give_up(&self) -> Outcome {
        self.outcome().unwrap_or_else(|| Outcome {
            why: Some("there was no time for more looks"),
            ..self.found()
        })
    }

    /// The numbers, not yet judged.
    fn found(&self) -> Outcome {
        let [a, b] = [Arm::A, Arm::B].map(|arm| self.raw(arm, self.objective));
        let [good_a, good_b] = self.steady(self.objective);
        let compared = stats::compare(&good_a, &good_b, SEED);
        let interval = |interval: Interval| [interval.low, interval.high];
        Outcome {
            answer: Answer::NotDistinguishable,
            objective: self.objective,
            before: stats::median(&a),
            after: stats::median(&b),
            gain: compared.map(|found| found.ratio),
            gain_interval: compared.map(|found| interval(found.interval)),
            p_value: compared.map(|found| found.p_value),
            looks: self.looks[0].len().min(self.looks[1].len()),
            why: None,
        }
    }

    fn judge(&self, gain: f64) -> (Answer, Option<&'static str>) {
        if gain < 1.0 {
            return (Answer::Worse, None);
        }
        if self.objective != Objective::Goodput {
            let [a, b] = self.steady(Objective::Goodput);
            let costs = stats::compare(&a, &b, SEED).is_some_and(|goodput| {
                goodput.ratio < GOODPUT_SHARE_MIN && goodput.interval.high < 1.0
            });
            if costs {
                return (Answer::Worse, Some("it costs goodput"));
            }
        }
        (Answer::Better, None)
    }

    /// Whether the values of A and B lie so far apart that three of each suffice.
    fn is_clear(&self) -> bool {
        let [a, b] = self.goodness(self.objective).map(|values| {
            let logs = values.iter().map(|value| value.ln());
            let (low, high) = logs.fold((f64::MAX, f64::MIN), |(low, high), log| {
                (low.min(log), high.max(log))
            });
            Interval { low, high }
        });
        let gap = (a.low - b.high).max(b.low - a.high);
        let range = (a.high - a.low).max(b.high - b.low);
        gap > GAIN_MIN.ln() && gap > CLEAR_RANGES * range
    }

    fn raw(&self, arm: Arm, objective: Objective) -> Vec<f64> {
        let looks = self.looks[arm as usize].iter();
        looks
            .filter_map(|(_, look)| look.value(objective))
            .collect()
    }

    /// The values of [`Experiment::goodness`] without a steady drift of the traffic: of their
    /// logarithms the slope that A and B share is taken away, each about its own mean (analysis of
    /// covariance), so that a difference between A and B stays.
    fn steady(&self, objective: Objective) -> [Vec<f64>; 2] {
        let good = self.goodness(objective);
        if self.a_first {
            // A drift cannot be told from the change there.
            return good;
        }
        let logs = good.map(|values| values.iter().map(|v| v.ln()).collect::<Vec<f64>>());
        let times = self
            .looks
            .each_ref()
            .map(|looks| looks.iter().map(|(time, _)| *time).collect::<Vec<f64>>());
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
        let (mut along, mut spread) = (0.0, 0.0);
        for (times, logs) in times.iter().zip(&logs) {
            let (middle, level) = (mean(times), mean(logs));
            for (time, log) in times.iter().zip(logs) {
                along += (time - middle) * (log - level);
                spread += (time - middle) * (time - middle);
            }
        }
        let slope = if spread > 0.0 { along / spread } else { 0.0 };
        let middle = mean(&times.concat());
        let mut arms = logs.into_iter().zip(times).map(|(logs, times)| {
            let level = |(log, time): (f64, f64)| (log - slope * (time - middle)).exp();
            logs.into_iter().zip(times).map(level).collect()
        });
        [(); 2].map(|()| arms.next().unwrap_or_default())
    }

    /// The values such that more is better and nothing is zero. A look in which nothing came
    /// through is the worst there can be, and no reason to leave it out.
    fn goodness(&self, objective: Objective) -> [Vec<f64>; 2] {
        let good = |look: &Measure| match (look.value(objective), objective) {
            (None, _) => 0.0,
            (Some(value), Objective::Goodput) => value,
            (Some(value), Objective::Response | Objective::Rtt) => 1.0 / value.max(1.0),
            (Some(value), Objective::LocalDrops) => 1.0 / (value + 1.0),
        };
        let all = self
            .looks
            .each_ref()
            .map(|looks| looks.iter().map(|(_, look)| good(look)));
        let best = all.clone().into_iter().flatten().fold(0.0, f64::max);
        let floor = (best * 1e-6).max(f64::MIN_POSITIVE);
        all.map(|values| values.map(|value| value.max(floor)).collect())
    }
}

impl Outcome {
    /// Whether the gain, if there is one, is too small to be worth keeping.
    fn is_negligible(&self) -> bool {
        self.gain_interval
            .is_some_and(|[low, high]| low > 1.0 / GAIN_MIN && high < GAIN_MIN)
    }
}
