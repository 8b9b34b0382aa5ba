//! Compares two variants from alternating looks.
//!
//! The order is that of Thue and Morse (A B B A B A A B ...), so that neither a drift nor a period
//! of the traffic favours one. After 5, 8, 12 and more looks at each the difference is tested for
//! significance; the thresholds are such that all tests together report a false gain in fewer than
//! 1 of 100 cases (`tests/experiment.rs` counts). The tests use ranks, since network measurements
//! are skewed (Mann and Whitney 1947).
//!
//! The offered load is compared too: a gain that comes with another load does not count as one.

mod beside;
mod drift;
mod load;

use core::time::Duration;

use doctor::Objective;
use lab::Measure;
use lab::stats::{self, Interval};
use serde::Serialize;

/// Below this gain a change is not worth keeping.
pub const GAIN_MIN: f64 = 1.05;
/// A lower goodput than this share of that before is too high a price for a better response time.
const GOODPUT_SHARE_MIN: f64 = 0.9;
/// The slowest operations may take so much longer, and no more, where the median gets better.
const TAIL_FACTOR_MAX: f64 = 1.5;
/// Looks at each of A and B after which the test is made, and the largest two-sided p-value that
/// counts as a difference then.
const STAGES: &[(usize, f64)] = &[
    (8, 0.001),
    (12, 0.0015),
    (16, 0.002),
    (24, 0.002),
    (32, 0.002),
];
/// The same where time runs out between two questions: six looks of each, of which none of the one
/// is like one of the other, have 0.00216.
const LAST_P_MAX: f64 = 0.0025;
/// The first test, at this many looks of each, demands more than an order of values, which occurs
/// by chance in one of 126 cases: a gap of [`CLEAR_RANGES`] times the range of either.
const CLEAR_LOOKS: usize = 5;
const CLEAR_RANGES: f64 = 2.0;
/// A gain is close to a result from this p-value on; without a gain one of twenty is.
const CLOSE_P_MAX: f64 = 0.1;
/// Looks at A, and then at B, if A cannot be restored.
const BEFORE_AFTER_LOOKS: usize = 8;
/// Once decided, the result may be reported in another metric where that differs as surely as five
/// looks can show.
const ALL_TIME_P_MAX: f64 = 0.01;
/// For a percentile interval: any constant.
const SEED: u64 = 1;

/// Variant being measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arm {
    /// Without the change.
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

/// In which order A and B are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// Back and forth.
    Alternating,
    /// All looks at A before the first one at B.
    AFirst,
    /// Both in every look, on connections of their own, each of which counts once.
    SideBySide,
}

/// Looks at A and B.
#[derive(Clone, Debug)]
pub struct Experiment {
    objective: Objective,
    order: Order,
    /// Each with its number in the order of time.
    looks: [Vec<(f64, Measure)>; 2],
}

/// How an experiment ended.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// The answer.
    pub answer: Answer,
    /// Metric of the values.
    pub objective: Objective,
    /// Median of the looks at A, in the unit of the objective; `None` where nothing was measured.
    pub before: Option<f64>,
    /// Median of the looks at B.
    pub after: Option<f64>,
    /// How many times better B is than A.
    pub gain: Option<f64>,
    /// Goodput per time with data in flight rather than per second, since a program that sets its
    /// own pace gets no more of the latter.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub while_in_flight: bool,
    /// Confidence interval of the gain, 95 %; the whole range for five looks.
    pub gain_interval: Option<[f64; 2]>,
    /// The chance of such a difference where there is none.
    pub p_value: Option<f64>,
    /// Looks at each.
    pub looks: usize,
    /// Reason for the answer, where it is not the objective itself.
    pub why: Option<&'static str>,
    /// The time that the experiment was allowed, in seconds, where that ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_limit_s: Option<f64>,
    /// The minimum duration, where the time was too short from the start, and nothing was changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_needed_s: Option<f64>,
}

impl Outcome {
    /// What was compared, of one look.
    #[must_use]
    pub fn value(&self, look: &Measure) -> Option<f64> {
        match self.objective {
            Objective::Goodput if !self.while_in_flight => Some(look.goodput_bps as f64),
            objective => look.value(objective),
        }
    }
}

impl Experiment {
    const fn of(objective: Objective, order: Order) -> Self {
        Self {
            objective,
            order,
            looks: [Vec::new(), Vec::new()],
        }
    }

    /// An experiment that alternates between the variants.
    #[must_use]
    pub const fn alternating(objective: Objective) -> Self {
        Self::of(objective, Order::Alternating)
    }

    /// One in which A does not come back.
    #[must_use]
    pub const fn before_after(objective: Objective) -> Self {
        Self::of(objective, Order::AFirst)
    }

    /// One of connections that were opened before the change and after it.
    #[must_use]
    pub const fn side_by_side(objective: Objective) -> Self {
        Self::of(objective, Order::SideBySide)
    }

    /// The variant to measure next.
    #[must_use]
    pub fn next(&self) -> Arm {
        let [a, b] = self.looks.each_ref().map(Vec::len);
        let is_a = match self.order {
            Order::AFirst => a < BEFORE_AFTER_LOOKS,
            Order::Alternating => (a + b).count_ones().is_multiple_of(2),
            // The arm with fewer.
            Order::SideBySide => a <= b,
        };
        if is_a { Arm::A } else { Arm::B }
    }

    /// In which order A and B are looked at before the first decision.
    #[must_use]
    pub fn shortest(&self) -> Vec<Arm> {
        let mut experiment = Self::of(self.objective, self.order);
        let looks = match self.order {
            Order::AFirst => BEFORE_AFTER_LOOKS,
            Order::Alternating | Order::SideBySide => CLEAR_LOOKS,
        };
        let next = |_| {
            let arm = experiment.next();
            experiment.add(arm, Measure::default());
            arm
        };
        (0..2 * looks).map(next).collect()
    }

    /// Whether nothing was looked at yet.
    #[must_use]
    pub fn is_first(&self) -> bool {
        self.looks.iter().all(Vec::is_empty)
    }

    /// Takes in a look. One in which no transfer began and ended does not show how long one takes,
    /// and is repeated, unless there was something to deliver and nothing was delivered.
    pub fn add(&mut self, arm: Arm, measure: Measure) {
        let is_stuck = measure.goodput_bps == 0 && measure.stalled_share.is_some();
        let is_told = measure.value(self.objective).is_some() || is_stuck;
        if self.objective == Objective::Transfer && !is_told {
            return;
        }
        let number: usize = self.looks.iter().map(Vec::len).sum();
        let number = match self.order {
            // All of them cover the same time.
            Order::SideBySide => 0,
            _ => number,
        };
        self.looks[arm as usize].push((number as f64, measure));
    }

    /// The outcome, where the looks so far decide it or no more may follow.
    #[must_use]
    pub fn outcome(&self) -> Option<Outcome> {
        let [a, b] = self.looks.each_ref().map(Vec::len);
        let looks = a.min(b);
        let is_due = match self.order {
            Order::Alternating => a == b,
            Order::AFirst => a == b && a == BEFORE_AFTER_LOOKS,
            Order::SideBySide => true,
        };
        if !is_due {
            return None;
        }
        let stage = match self.order {
            Order::SideBySide => STAGES.iter().rev().find(|(least, _)| *least <= looks),
            _ => STAGES.iter().find(|(exactly, _)| *exactly == looks),
        };
        let last = STAGES.last().map_or(0, |(looks, _)| *looks);
        let is_last = self.order == Order::AFirst || looks >= last;
        let is_clear = looks == CLEAR_LOOKS && self.is_clear();
        if !is_clear && stage.is_none() {
            return None;
        }
        let p_max = stage.map_or(0.0, |(_, p_max)| *p_max);
        let judged = self.judged(if is_clear { 1.0 } else { p_max });
        judged.map(|judged| self.as_users_see(judged)).or_else(|| {
            if is_last {
                return Some(self.undecided());
            }
            // Without a difference there is nothing more to report, unless there may be one in
            // what the program gets in a second, which is what would be reported.
            let gain = self.gain().filter(|gain| !is_worth_naming(*gain));
            let found = gain.map(|_| self.found()).filter(Outcome::is_negligible);
            let found = found.map(|found| self.as_users_see(found));
            found.filter(Outcome::is_negligible)
        })
    }

    /// How many times better B is.
    fn gain(&self) -> Option<f64> {
        let [a, b] = self.steady(self.objective);
        direction(&a, &b)
    }

    /// The outcome where there is a difference that chance makes no more often than this. Payload
    /// per time with data in flight does not show waits in which this end has nothing in flight,
    /// such as those for the rest of an answer: a program that gets more in a second has gained.
    fn judged(&self, p_max: f64) -> Option<Outcome> {
        let judged = self.judged_by_objective(p_max);
        let is_gain = |found: &Outcome| found.answer == Answer::Better;
        if judged.as_ref().is_some_and(is_gain) || !self.is_of_time_in_flight() {
            return judged;
        }
        let p_max = p_max.min(ALL_TIME_P_MAX);
        let all_time = self.by_all_time().judged_by_objective(p_max);
        all_time.filter(is_gain).or(judged)
    }

    fn judged_by_objective(&self, p_max: f64) -> Option<Outcome> {
        let gain = self.gain().filter(|gain| is_worth_naming(*gain))?;
        let [a, b] = self.steady(self.objective);
        if stats::mann_whitney(&a, &b)? > p_max {
            return None;
        }
        let (answer, why) = self.judge(gain);
        Some(Outcome {
            answer,
            why,
            ..self.found()
        })
    }

    /// Whether results are payload per time with data in flight.
    fn is_of_time_in_flight(&self) -> bool {
        let mut looks = self.looks.iter().flatten();
        self.objective == Objective::Goodput
            && looks.any(|(_, look)| look.busy_goodput_bps.is_some())
    }

    /// The same looks, with payload per second in place of that.
    fn by_all_time(&self) -> Self {
        let mut all_time = self.clone();
        for (_, look) in all_time.looks.iter_mut().flatten() {
            look.busy_goodput_bps = None;
        }
        all_time
    }

    /// Reports a decision made by payload per time with data in flight as payload per second where
    /// that shows a difference of the same kind: the gain that the program sees. Where a program
    /// works between its messages, the time in flight alone shrinks by far more.
    fn as_users_see(&self, judged: Outcome) -> Outcome {
        if !judged.while_in_flight {
            return judged;
        }
        let all_time = self.by_all_time();
        let found = all_time.found();
        if judged.answer == Answer::NotDistinguishable {
            return Outcome {
                why: judged.why,
                ..found
            };
        }
        let is_same = |gain: f64| {
            is_worth_naming(gain) && Some(gain > 1.0) == judged.gain.map(|gain| gain > 1.0)
        };
        let is_sure = found.p_value.is_some_and(|p| p <= ALL_TIME_P_MAX);
        if !is_sure || !all_time.gain().is_some_and(is_same) {
            return judged;
        }
        Outcome {
            answer: judged.answer,
            why: judged.why,
            ..found
        }
    }

    /// Whether a decision is tried after this many looks at each.
    #[must_use]
    pub fn is_asked_at(looks: usize) -> bool {
        looks == CLEAR_LOOKS || STAGES.iter().any(|(stage, _)| *stage == looks)
    }

    /// Whether it looks like a gain that more looks may prove. It only decides how long the
    /// experiment continues, up to tests that are planned anyway.
    #[must_use]
    pub fn is_close(&self) -> bool {
        let [a, b] = self.steady(self.objective);
        self.gain().is_some_and(|gain| gain >= GAIN_MIN)
            && stats::mann_whitney(&a, &b).is_some_and(|p| p <= CLOSE_P_MAX)
    }

    /// The outcome where there is no time for more looks: no more than `limit`. It is the last
    /// question, whatever the number of looks.
    #[must_use]
    pub fn out_of_time(&self, limit: Duration) -> Outcome {
        let judged = self.judged(LAST_P_MAX);
        let judged = judged.map(|judged| self.as_users_see(judged));
        judged.unwrap_or_else(|| Outcome {
            time_limit_s: Some(limit.as_secs_f64()),
            ..self.undecided()
        })
    }

    /// The outcome where the time that is allowed is too short from the start.
    #[must_use]
    pub fn too_long(&self, needed: Duration, limit: Duration) -> Outcome {
        Outcome {
            time_limit_s: Some(limit.as_secs_f64()),
            time_needed_s: Some(needed.as_secs_f64()),
            ..self.undecided()
        }
    }

    /// The outcome where it is given up, for whatever reason.
    #[must_use]
    pub fn given_up(&self, why: &'static str) -> Outcome {
        Outcome {
            why: Some(why),
            ..self.undecided()
        }
    }

    /// Nothing was found.
    fn undecided(&self) -> Outcome {
        self.as_users_see(self.found())
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
            while_in_flight: self.is_of_time_in_flight(),
            looks: self.looks[0].len().min(self.looks[1].len()),
            why: None,
            time_limit_s: None,
            time_needed_s: None,
        }
    }

    fn judge(&self, gain: f64) -> (Answer, Option<&'static str>) {
        if let Some(why) = load::explains(self.objective, self.loads(), gain) {
            return (Answer::NotDistinguishable, Some(why));
        }
        let [before, _] = self.goodness(self.objective);
        if self.order == Order::AFirst && drift::explains(&before, gain) {
            let why = "the values were changing before the change already";
            return (Answer::NotDistinguishable, Some(why));
        }
        if gain < 1.0 {
            return (Answer::Worse, None);
        }
        let is_worse = |objective, least| {
            let [a, b] = self.steady(objective);
            let found = || stats::compare(&a, &b, SEED);
            let is_lower = direction(&a, &b).is_some_and(|ratio| ratio < least);
            is_lower && found().is_some_and(|found| found.interval.high < 1.0)
        };
        let costs_goodput =
            self.objective != Objective::Goodput && is_worse(Objective::Goodput, GOODPUT_SHARE_MIN);
        if costs_goodput {
            return (Answer::Worse, Some("it costs goodput"));
        }
        let is_taken = self.objective == Objective::Goodput && self.order != Order::SideBySide;
        if let Some(why) = is_taken.then(|| beside::explains(&self.looks)).flatten() {
            return (Answer::NotDistinguishable, Some(why));
        }
        if self.objective == Objective::Response && is_worse(Objective::Tail, 1.0 / TAIL_FACTOR_MAX)
        {
            let why = "the slowest operations (p99) take longer";
            return (Answer::Worse, Some(why));
        }
        (Answer::Better, None)
    }

    /// Load offered by the program in each look.
    fn loads(&self) -> [Vec<Option<lab::Offered>>; 2] {
        let offered = |looks: &Vec<(f64, Measure)>| {
            let looks = looks.iter();
            looks.map(|(_, measure)| measure.offered).collect()
        };
        self.looks.each_ref().map(offered)
    }

    /// Whether the values of A and B lie so far apart that five of each suffice.
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
        if self.order == Order::AFirst {
            // Looks at A and B are of different times there; what drifts is told by [`drift`].
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

    /// The values transformed such that more is better and nothing is zero. A look in which nothing
    /// was delivered is the worst value, and is not left out.
    fn goodness(&self, objective: Objective) -> [Vec<f64>; 2] {
        let good = |look: &Measure| match (look.value(objective), objective) {
            (None, _) => 0.0,
            (Some(value), Objective::Goodput) => value,
            // Its gain over one unit: all other objectives are the smaller the better.
            (Some(value), Objective::Stalls) => Objective::Stalls.gain(1.0, value),
            (Some(value), Objective::LocalDrops) => Objective::LocalDrops.gain(0.0, value),
            (Some(value), objective) => objective.gain(1.0, value.max(1.0)),
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

/// Whether a gain, or a loss, is large enough to matter.
fn is_worth_naming(gain: f64) -> bool {
    !(1.0 / GAIN_MIN..GAIN_MIN).contains(&gain)
}

/// How many times larger `other` is, of the medians; `None` where single values against each other
/// (the shift of Hodges and Lehmann, to which the test of ranks belongs) say the opposite: of
/// values in two groups the medians may lie in either.
fn direction(base: &[f64], other: &[f64]) -> Option<f64> {
    let ratio = stats::median(other)? / stats::median(base)?;
    let pairs: Vec<f64> = other
        .iter()
        .flat_map(|other| base.iter().map(move |base| other / base))
        .collect();
    let shift = stats::median(&pairs)?;
    ((ratio > 1.0) == (shift > 1.0)).then_some(ratio)
}

impl Outcome {
    /// Whether it tells what the change does: nothing that shows, or harm. Where the time was too
    /// short, or something else changed too, it may still help.
    pub(crate) fn is_decided(&self) -> bool {
        let is_whole = self.why.is_none() && self.time_limit_s.is_none();
        self.answer != Answer::NotDistinguishable || is_whole
    }

    /// Whether the gain, if there is one, is too small to be worth keeping.
    fn is_negligible(&self) -> bool {
        self.gain_interval
            .is_some_and(|[low, high]| low > 1.0 / GAIN_MIN && high < GAIN_MIN)
    }
}
