//! What a change will give: an interval, from runs of a twin with and without it.

use base::human;
use doctor::Objective;
use serde::Serialize;

use crate::twin::{Seen, SelfCheck};

/// How far the virtual hosts are from real ones at best, as a share: the 90th percentile of the
/// errors of `lab agree` for goodput, the larger part of which is the change of the kernel itself
/// from run to run.
const GOODPUT_FLOOR: f64 = 0.08;
/// And what the rate of a path is off by that was not full, and was told by how its packets lie.
const UNSEEN_RATE_FLOOR: f64 = 0.12;
/// The same of a median response time.
const RESPONSE_FLOOR: f64 = 0.10;
/// And what a host with other work to do adds, in seconds.
const RESPONSE_SLACK: f64 = 80e-6;
/// Of a round-trip time under load.
const RTT_FLOOR: f64 = 0.15;
const RTT_SLACK: f64 = 200e-6;
/// Of the share of the time that is stalled.
const STALLS_SLACK: f64 = 0.05;
/// A change of a number by less than this factor is predicted by its ratio, since what the twin
/// lacks it lacks before and after; a larger one is another regime, and the twin's number is it.
const SAME_REGIME: f64 = 1.5;
/// What fills the path so far is bounded by the path.
const FULL_SHARE: f64 = 0.85;

/// One run of a twin.
pub(crate) struct Run {
    pub(crate) before: Seen,
    pub(crate) after: Seen,
    /// On the path that fits best.
    pub(crate) is_best: bool,
}

/// An interval and the value that is most likely.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Range {
    /// The lower end.
    pub low: f64,
    /// The value.
    pub value: f64,
    /// The upper end.
    pub high: f64,
}

impl Range {
    /// Whether a measured value lies in it.
    #[must_use]
    pub fn contains(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    fn map(self, change: impl Fn(f64) -> f64) -> Self {
        Self {
            low: change(self.low),
            value: change(self.value),
            high: change(self.high),
        }
    }
}

/// What a change is predicted to give.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// What the change is judged by.
    pub objective: Objective,
    /// What was seen of that, in the unit of the objective; of response times that no program
    /// told, what the twin has.
    pub before: Option<f64>,
    /// Of the objective, in its unit.
    pub range: Option<Range>,
    /// How many times better, of the value; above 1 is better.
    pub gain: Option<f64>,
    /// Payload per second, in bit/s.
    pub goodput_bps: Range,
    /// Median response time in microseconds, where there are responses.
    pub response_us: Option<Range>,
    /// Its 99th percentile.
    pub response_p99_us: Option<Range>,
    /// Smoothed round-trip time in microseconds.
    pub rtt_us: Option<Range>,
    /// The rate of the path, as far as it showed.
    pub path_bps: Range,
    /// Runs of the twin that it comes from.
    pub runs: usize,
}

/// How one number is widened.
#[derive(Clone, Copy)]
struct Floor {
    share: f64,
    slack: f64,
    residual: f64,
    /// Where the path bounds it, whose rate did not show directly.
    unseen: f64,
}

impl Prediction {
    // tidy: long because each number that is predicted is a few lines, and none decides on another.
    pub(crate) fn of(
        objective: Objective,
        seen: &Seen,
        runs: &[Run],
        check: &SelfCheck,
        path_bps: Range,
    ) -> Option<Self> {
        let is_seen = seen.goodput_bps() > FULL_SHARE * path_bps.value;
        let unseen = if is_seen { 0.0 } else { UNSEEN_RATE_FLOOR };
        let floor = |what: &str, share: f64, slack: f64| Floor {
            share,
            slack,
            residual: check.residual(what),
            unseen,
        };
        let full = |value: f64| value > FULL_SHARE * path_bps.value;
        let goodput = |s: &Seen| Some(s.goodput_bps());
        let goodput_bps = predict(
            seen,
            runs,
            &goodput,
            floor("goodput", GOODPUT_FLOOR, 0.0),
            &full,
        )?;
        let never = |_: f64| false;
        let response_floor = floor("median response time", RESPONSE_FLOOR, RESPONSE_SLACK);
        let response = predict(seen, runs, &Seen::response, response_floor, &never);
        let as_measured = |s: &Seen| s.measure.value(objective);
        let p99 = |s: &Seen| Some(s.measure.response_us.filter(|r| r.n > 0)?.p99 as f64 / 1e6);
        let p99_floor = Floor {
            share: 2.0 * RESPONSE_FLOOR,
            slack: 4e-3,
            ..response_floor
        };
        let rtt_floor = floor("smoothed round-trip time", RTT_FLOOR, RTT_SLACK);
        let in_us = |range: Range| range.map(|seconds| seconds * 1e6);
        let response_p99_us = predict(seen, runs, &p99, p99_floor, &never).map(in_us);
        let rtt_us = predict(seen, runs, &|s: &Seen| s.srtt, rtt_floor, &never).map(in_us);
        let response_us = response.map(in_us);
        let (before, range) = match objective {
            Objective::Response if response_us.is_some() => {
                (response_before(seen, runs).map(|s| s * 1e6), response_us)
            }
            Objective::Goodput | Objective::Response => {
                (Some(seen.goodput_bps()), Some(goodput_bps))
            }
            Objective::Rtt => (seen.srtt.map(|s| s * 1e6), rtt_us),
            Objective::Tail if response_p99_us.is_some() => {
                (p99(seen).map(|s| s * 1e6), response_p99_us)
            }
            Objective::Transfer => {
                let floor = Floor {
                    slack: RESPONSE_SLACK * 1e6,
                    ..response_floor
                };
                let range = predict(seen, runs, &as_measured, floor, &never);
                (as_measured(seen), range)
            }
            Objective::Stalls => {
                let floor = floor("goodput", 0.0, STALLS_SLACK);
                let range = predict(seen, runs, &as_measured, floor, &never);
                (as_measured(seen), range)
            }
            Objective::LocalDrops | Objective::Tail => (None, None),
        };
        Some(Self {
            objective,
            before,
            range,
            gain: before
                .zip(range)
                .map(|(before, range)| objective.gain(before, range.value)),
            goodput_bps,
            response_us,
            response_p99_us,
            rtt_us,
            path_bps,
            runs: runs.len(),
        })
    }

    /// Whether it comes to the rate of the path, which then has to be known.
    pub(crate) fn is_bound_by_path(&self) -> bool {
        self.goodput_bps.value > FULL_SHARE * self.path_bps.value
    }

    /// What [`Prediction::range`] is of: where no program told response times, goodput.
    #[must_use]
    pub const fn shown_objective(&self) -> Objective {
        match self.objective {
            Objective::Response if self.response_us.is_none() => Objective::Goodput,
            other => other,
        }
    }

    /// `26.0 Mbit/s (24.0 to 28.0)`.
    #[must_use]
    pub fn text(&self) -> String {
        let Some(range) = self.range else {
            return "not known".into();
        };
        let shown = |value: f64| match self.shown_objective() {
            Objective::Goodput => human::bps(value.round() as u64),
            Objective::Stalls => human::share(value),
            _ => human::micros(value.round() as u64),
        };
        let (value, low, high) = (shown(range.value), shown(range.low), shown(range.high));
        format!("{value} ({low} to {high})")
    }
}

/// What responses take now; where no program told, what they take in the twin.
fn response_before(seen: &Seen, runs: &[Run]) -> Option<f64> {
    let mut best = runs.iter().filter(|run| run.is_best);
    let of_twin = best.find_map(|run| run.before.response());
    seen.response().or(of_twin)
}

/// Anchored at what was seen.
fn predict(
    seen: &Seen,
    runs: &[Run],
    read: &dyn Fn(&Seen) -> Option<f64>,
    floor: Floor,
    is_bounded: &dyn Fn(f64) -> bool,
) -> Option<Range> {
    let measured = read(seen);
    let value = |run: &Run| {
        let after = read(&run.after)?;
        let before = read(&run.before);
        Some(match measured.zip(before) {
            Some((measured, before)) if before > 0.0 && !is_bounded(after) => {
                let ratio = after / before;
                let same = (1.0 / SAME_REGIME..SAME_REGIME).contains(&ratio);
                if same { measured * ratio } else { after }
            }
            _ => after,
        })
    };
    let all: Vec<f64> = runs.iter().filter_map(value).collect();
    let mut best: Vec<f64> = runs
        .iter()
        .filter(|run| run.is_best)
        .filter_map(value)
        .collect();
    best.sort_unstable_by(f64::total_cmp);
    let value = *best.get(best.len() / 2)?;
    let low = all.iter().copied().fold(value, f64::min);
    let high = all.iter().copied().fold(value, f64::max);
    let unseen = if is_bounded(value) { floor.unseen } else { 0.0 };
    let share = floor.share + floor.residual + unseen;
    Some(Range {
        low: (low * (1.0 - share) - floor.slack).max(0.0),
        value,
        high: high * (1.0 + share) + floor.slack,
    })
}
