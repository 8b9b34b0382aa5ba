//! The self-check: a twin that does not reproduce the observations predicts nothing.

use doctor::Objective;
use serde::Serialize;

use super::observables::{Observables, percentile};
use crate::prediction::UNKNOWN_FACTOR;

/// Largest difference of goodput, as a share of what was seen. The stack agrees with the kernel to
/// 15 % in nine of ten cases, so that a twin which is off by more has another cause.
pub const GOODPUT_TOLERANCE: f64 = 0.15;
/// The same where response times are compared too: the goodput of operations that follow each other
/// is their mean, in which the few that wait for a processor count in full; no virtual host waits.
pub const MEAN_TOLERANCE: f64 = 0.3;
/// Tolerance of the median response time.
pub const RESPONSE_TOLERANCE: f64 = 0.15;
/// Tolerance of the round-trip time, plus a time that hosts may add: a virtual host never waits for
/// a processor.
pub const RTT_TOLERANCE: f64 = 0.25;
const RTT_SLACK: f64 = 300e-6;
/// The same of a response time.
const RESPONSE_SLACK: f64 = 60e-6;

/// What is compared where the time of a transfer is predicted.
pub(crate) const TRANSFER_TIME: &str = "time of a transfer";
/// What is compared of round-trip times, and in its place of trains.
pub(crate) const ROUND_TRIP: &str = "smoothed round-trip time";
const ROUND_TRIP_HIGH: &str = "smoothed round-trip time, p90";

/// As many runs show what chance does: where losses fall, of which a look has few. A look is then
/// one more of them, and lies outside their range in two of eleven cases.
const CHANCE_RUNS_MIN: usize = 10;

/// One number, observed and of the twin.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// Name of the quantity.
    pub what: &'static str,
    /// Bit/s, or seconds.
    pub seen: f64,
    /// The median of several runs.
    pub twin: f64,
    /// Difference as a share of what was seen.
    pub error: f64,
    /// Whether that is within the tolerance, or chance.
    pub ok: bool,
    /// What was seen lies among the runs of the twin, which differ in where losses fall.
    pub by_chance: bool,
}

/// How far a twin agrees with what was seen.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SelfCheck {
    /// The numbers that both have.
    pub compared: Vec<Compared>,
}

impl SelfCheck {
    /// `in_trains`: the sender fills a buffer that does not grow, and waits.
    pub(super) fn of(seen: &Observables, twin: &[Observables], in_trains: bool) -> Self {
        let mut check = Self::default();
        let of_goodput = match seen.response() {
            Some(_) => MEAN_TOLERANCE,
            None => GOODPUT_TOLERANCE,
        };
        let goodput = |s: &Observables| Some(s.goodput_bps());
        check.add("goodput", (seen, twin), &goodput, (of_goodput, 0.0));
        check.add(
            "median response time",
            (seen, twin),
            &Observables::response,
            (RESPONSE_TOLERANCE, RESPONSE_SLACK),
        );
        let tolerance = (RTT_TOLERANCE, RTT_SLACK);
        // Within a train round trips grow from the shortest to what its own queue takes, and until
        // the next one the last ACK leaves the estimate where it was: which of them is the median
        // depends on the end of the trains, and their highest on how long trains are.
        let (what, srtt): (_, fn(&Observables) -> Option<f64>) = match in_trains {
            true => (ROUND_TRIP_HIGH, |s| s.srtt_high),
            false => (ROUND_TRIP, |s| s.srtt),
        };
        check.add(what, (seen, twin), &srtt, tolerance);
        check
    }

    /// The same with the metric that is to be predicted, where that is another one: a twin that has
    /// other transfers tells nothing of them.
    pub(super) fn with_metric(
        &self,
        objective: Objective,
        (seen, twin): (&Observables, &[Observables]),
    ) -> Self {
        let mut check = self.clone();
        if objective == Objective::Transfer {
            let seconds = |s: &Observables| Some(s.measure.value(objective)? / 1e6);
            let tolerance = (RESPONSE_TOLERANCE, RESPONSE_SLACK);
            check.add(TRANSFER_TIME, (seen, twin), &seconds, tolerance);
        }
        check
    }

    fn add(
        &mut self,
        what: &'static str,
        (seen, twin): (&Observables, &[Observables]),
        read: &dyn Fn(&Observables) -> Option<f64>,
        (tolerance, slack): (f64, f64),
    ) {
        let values: Vec<f64> = twin.iter().filter_map(read).collect();
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(0.0, f64::max);
        // A range that is too wide to predict anything has nothing to say here either.
        let is_random = seen.lost_share > 0.0
            && values.len() >= CHANCE_RUNS_MIN
            && most <= UNKNOWN_FACTOR * least;
        let pair = read(seen).zip(percentile(values, 0.5));
        if let Some((seen, twin)) = pair.filter(|(seen, _)| *seen > 0.0) {
            let off = (twin - seen).abs();
            let is_near = off <= tolerance * seen + slack;
            let by_chance = !is_near && is_random && (least..=most).contains(&seen);
            self.compared.push(Compared {
                what,
                seen,
                twin,
                error: off / seen,
                ok: is_near || by_chance,
                by_chance,
            });
        }
    }

    /// Whether the twin may predict.
    #[must_use]
    pub fn holds(&self) -> bool {
        !self.compared.is_empty() && self.compared.iter().all(|compared| compared.ok)
    }

    /// The error of one number; 0 where it was not compared, or is chance.
    #[must_use]
    pub fn residual(&self, what: &str) -> f64 {
        match self.find(what) {
            Some(compared) if !compared.by_chance => compared.error,
            _ => 0.0,
        }
    }

    /// Whether one number was compared.
    pub(crate) fn has(&self, what: &str) -> bool {
        self.find(what).is_some()
    }

    /// Whether one number is off by chance alone.
    pub(crate) fn is_by_chance(&self, what: &str) -> bool {
        self.find(what).is_some_and(|compared| compared.by_chance)
    }

    fn find(&self, what: &str) -> Option<&Compared> {
        self.compared.iter().find(|compared| compared.what == what)
    }
}
