//! Predicted effect of a change: an interval, from runs of a twin with and without it.

use base::human;
use doctor::Objective;
use serde::Serialize;

use crate::twin::{Observables, ROUND_TRIP, SelfCheck, TRANSFER_TIME};

/// How far the virtual hosts are from real ones at best, as a share: the 90th percentile of the
/// errors of `lab agree` for goodput, the larger part of which is the change of the kernel itself
/// from run to run.
const GOODPUT_FLOOR: f64 = 0.08;
/// Least error of the rate of a path that was not full, inferred from the spacing of packets, as a
/// share.
const UNSEEN_RATE_FLOOR: f64 = 0.12;
/// The same of a median response time.
const RESPONSE_FLOOR: f64 = 0.10;
/// What a busy host adds to a response time, in seconds.
const RESPONSE_SLACK: f64 = 80e-6;
/// Minimum error of a round-trip time under load.
const RTT_FLOOR: f64 = 0.15;
const RTT_SLACK: f64 = 200e-6;
/// No operation is faster, in seconds: each wakes both programs, which read and write once at least
/// (over a loopback `netperf -t TCP_RR` takes three times as long and more).
pub(crate) const OPERATION_MIN_S: f64 = 5e-6;
/// Slack of the stalled share of time.
const STALLS_SLACK: f64 = 0.05;
/// A change of a number by less than this factor is predicted by its ratio, since the twin's errors
/// are the same before and after; a larger one is another regime, for which the twin's number is
/// used.
const SAME_REGIME: f64 = 1.5;
/// An interval of goodput whose ends differ by more is too wide to be useful.
pub(crate) const UNKNOWN_FACTOR: f64 = 4.0;
/// From this share of the bottleneck rate on, goodput is bounded by the path.
const FULL_SHARE: f64 = 0.85;

/// One run of a twin.
pub(crate) struct Run {
    pub(crate) before: Observables,
    pub(crate) after: Observables,
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

    /// Nothing but this value.
    pub(crate) const fn at(value: f64) -> Self {
        Self {
            low: value,
            value,
            high: value,
        }
    }

    pub(crate) fn map(self, change: impl Fn(f64) -> f64) -> Self {
        Self {
            low: change(self.low),
            value: change(self.value),
            high: change(self.high),
        }
    }
}

/// Source of a prediction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// Runs of a twin.
    Twin,
    /// The share of an operation's time that the change saves.
    TimeSaved,
}

/// Predicted effect of a change.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// Source of the prediction.
    pub source: Source,
    /// Metric by which the change is judged.
    pub objective: Objective,
    /// Observed value, in the unit of the objective; the twin's for response times that no program
    /// reported.
    pub before: Option<f64>,
    /// Predicted range, in the unit of the objective.
    pub range: Option<Range>,
    /// How many times better, of the value; above 1 is better.
    pub gain: Option<f64>,
    /// Payload per second, in bit/s; `None` if its interval is too wide to be useful.
    pub goodput_bps: Option<Range>,
    /// Median response time in microseconds, where there are responses.
    pub response_us: Option<Range>,
    /// Its 99th percentile.
    pub response_p99_us: Option<Range>,
    /// Smoothed round-trip time in microseconds.
    pub rtt_us: Option<Range>,
    /// The rate of the path, as far as it showed.
    pub path_bps: Option<Range>,
    /// Share of the segments that were retransmitted before the change.
    pub lost_share: f64,
    /// Runs of the twin that it comes from.
    pub runs: usize,
    /// The change lets so many packets pass that the runs were cut short, to less than half of the
    /// time that will be measured.
    pub shortened: bool,
}

/// How one number is widened.
#[derive(Clone, Copy)]
struct Floor {
    share: f64,
    slack: f64,
    residual: f64,
    /// Error if the bound is the bottleneck rate, and that did not show directly.
    unseen: f64,
    /// What was seen differs from the twin by chance, so that it need not come again.
    by_chance: bool,
}

impl Prediction {
    /// Without a number.
    pub(crate) const fn by(source: Source, objective: Objective) -> Self {
        Self {
            source,
            objective,
            before: None,
            range: None,
            gain: None,
            goodput_bps: None,
            response_us: None,
            response_p99_us: None,
            rtt_us: None,
            path_bps: None,
            lost_share: 0.0,
            runs: 0,
            shortened: false,
        }
    }

    pub(crate) fn of(objective: Objective, basis: &Basis<'_>) -> Option<Self> {
        let goodput = basis.goodput()?;
        let goodput_bps = (goodput.high <= UNKNOWN_FACTOR * goodput.low).then_some(goodput);
        let response_us = basis.response().map(in_us);
        let response_p99_us = basis.response_p99().map(in_us);
        let rtt_us = basis.rtt().map(in_us);
        let seen = basis.seen;
        let micros = |seconds: f64| seconds * 1e6;
        let as_measured = seen.measure.value(objective);
        let (before, range) = match objective {
            Objective::Response if response_us.is_some() => {
                (basis.response_before().map(micros), response_us)
            }
            Objective::Goodput | Objective::Response => (Some(seen.goodput_bps()), goodput_bps),
            Objective::Rtt => (seen.srtt.map(micros), rtt_us),
            Objective::Tail if response_p99_us.is_some() => {
                (response_p99(seen).map(micros), response_p99_us)
            }
            Objective::Transfer => {
                let floor = basis.floor(TRANSFER_TIME, RESPONSE_FLOOR, RESPONSE_SLACK);
                let slack = micros(floor.slack);
                (
                    as_measured,
                    basis.value(objective, Floor { slack, ..floor }),
                )
            }
            Objective::Stalls => {
                let floor = basis.floor("goodput", 0.0, STALLS_SLACK);
                (as_measured, basis.value(objective, floor))
            }
            Objective::LocalDrops | Objective::Tail => (None, None),
        };
        let gain = before.zip(range);
        Some(Self {
            source: Source::Twin,
            objective,
            before,
            range,
            gain: gain.map(|(before, range)| objective.gain(before, range.value)),
            goodput_bps,
            response_us,
            response_p99_us,
            rtt_us,
            path_bps: Some(basis.path_bps),
            lost_share: seen.lost_share,
            runs: basis.runs.len(),
            shortened: basis.shortened,
        })
    }

    /// Whether it approaches the rate of a path that fits, which then has to be known.
    pub(crate) fn is_bound_by_path(&self) -> bool {
        self.goodput_bps
            .zip(self.path_bps)
            .is_some_and(|(goodput, path)| goodput.high > FULL_SHARE * path.low)
    }

    /// The metric of [`Prediction::range`]: goodput, where no program reported response times.
    #[must_use]
    pub const fn shown_objective(&self) -> Objective {
        match self.objective {
            Objective::Response if self.response_us.is_none() => Objective::Goodput,
            other => other,
        }
    }

    /// `26.0 Mbit/s (24.0 Mbit/s to 28.0 Mbit/s)`, `217 us median (113 us to 1.21 ms)`: what the
    /// time is of, since what is measured may be something else.
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
        let value = lab::show_value(self.shown_objective(), range.value);
        let (low, high) = (shown(range.low), shown(range.high));
        format!("{value} ({low} to {high})")
    }
}

/// Input of a prediction.
pub(crate) struct Basis<'b> {
    pub(crate) seen: &'b Observables,
    pub(crate) runs: &'b [Run],
    pub(crate) check: &'b SelfCheck,
    pub(crate) path_bps: Range,
    /// Payload of the operations that are in flight at once, in bytes; `None` where more of them
    /// are asked for than are answered.
    pub(crate) operations_bytes: Option<f64>,
    /// See [`Prediction::shortened`].
    pub(crate) shortened: bool,
}

impl Basis<'_> {
    fn floor(&self, what: &str, share: f64, slack: f64) -> Floor {
        let is_seen = self.is_full(self.seen.goodput_bps());
        Floor {
            share,
            slack,
            residual: self.check.residual(what),
            unseen: if is_seen { 0.0 } else { UNSEEN_RATE_FLOOR },
            by_chance: self.check.is_by_chance(what),
        }
    }

    fn response_floor(&self) -> Floor {
        self.floor("median response time", RESPONSE_FLOOR, RESPONSE_SLACK)
    }

    fn is_full(&self, bps: f64) -> bool {
        bps > FULL_SHARE * self.path_bps.value
    }

    fn goodput(&self) -> Option<Range> {
        let floor = self.floor("goodput", GOODPUT_FLOOR, 0.0);
        let is_full = |bps: f64| self.is_full(bps);
        let range = self.range(&|s: &Observables| Some(s.goodput_bps()), floor, &is_full)?;
        let least_s = self.seen.min_rtt.unwrap_or(0.0).max(OPERATION_MIN_S);
        match self.operations_bytes.map(|bytes| bytes * 8.0 / least_s) {
            None => Some(range),
            // What was seen is then none of the twin's operations.
            Some(most) if range.low > most => None,
            Some(most) => Some(Range {
                value: range.value.min(most),
                high: range.high.min(most),
                ..range
            }),
        }
    }

    /// In seconds.
    fn response(&self) -> Option<Range> {
        let range = self.range(&Observables::response, self.response_floor(), &|_| false)?;
        Some(range.map(|seconds| seconds.max(OPERATION_MIN_S)))
    }

    /// In seconds.
    fn response_p99(&self) -> Option<Range> {
        let floor = Floor {
            share: 2.0 * RESPONSE_FLOOR,
            slack: 4e-3,
            ..self.response_floor()
        };
        self.range(&response_p99, floor, &|_| false)
    }

    /// In seconds; `None` where the twin has not been compared in that.
    fn rtt(&self) -> Option<Range> {
        if !self.check.has(ROUND_TRIP) {
            return None;
        }
        let floor = self.floor(ROUND_TRIP, RTT_FLOOR, RTT_SLACK);
        self.range(&|s: &Observables| s.srtt, floor, &|_| false)
    }

    /// Range of an objective, in its unit.
    fn value(&self, objective: Objective, floor: Floor) -> Option<Range> {
        self.range(
            &|s: &Observables| s.measure.value(objective),
            floor,
            &|_| false,
        )
    }

    /// Present response time in seconds; the twin's where no program reported one.
    fn response_before(&self) -> Option<f64> {
        let mut best = self.runs.iter().filter(|run| run.is_best);
        let of_twin = best.find_map(|run| run.before.response());
        self.seen.response().or(of_twin)
    }

    /// Anchored at what was seen.
    fn range(
        &self,
        read: &dyn Fn(&Observables) -> Option<f64>,
        floor: Floor,
        is_bounded: &dyn Fn(f64) -> bool,
    ) -> Option<Range> {
        let measured = read(self.seen);
        let value = |before: Option<f64>, after: f64| match measured.zip(before) {
            Some((measured, before)) if before > 0.0 && !is_bounded(after) => {
                let ratio = after / before;
                let same = (1.0 / SAME_REGIME..SAME_REGIME).contains(&ratio);
                if same { measured * ratio } else { after }
            }
            _ => after,
        };
        let one = |run: &Run| Some(value(read(&run.before), read(&run.after)?));
        let mut all: Vec<f64> = self.runs.iter().filter_map(one).collect();
        if floor.by_chance {
            all.extend(self.runs.iter().filter_map(|run| read(&run.after)));
        }
        // The places of losses are random: the expected value is the mean over the runs.
        let best = || self.runs.iter().filter(|run| run.is_best);
        let before = mean(best().filter_map(|run| read(&run.before)));
        let value = value(before, mean(best().filter_map(|run| read(&run.after)))?);
        let low = all.iter().copied().fold(value, f64::min);
        let high = all.iter().copied().fold(value, f64::max);
        // The paths that fit show how far the rate may be off; where one fits alone, it is so much.
        let unseen = if is_bounded(value) { floor.unseen } else { 0.0 };
        let (low, high) = (
            low.min(value * (1.0 - unseen)),
            high.max(value * (1.0 + unseen)),
        );
        let share = floor.share + floor.residual;
        Some(Range {
            low: (low * (1.0 - share) - floor.slack).max(0.0),
            value,
            high: high * (1.0 + share) + floor.slack,
        })
    }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    (count > 0.0).then(|| sum / count)
}

/// 99th percentile of the response times in seconds.
fn response_p99(seen: &Observables) -> Option<f64> {
    let response = seen.measure.response_us.filter(|response| response.n > 0)?;
    Some(response.p99 as f64 / 1e6)
}

fn in_us(range: Range) -> Range {
    range.map(|seconds| seconds * 1e6)
}
