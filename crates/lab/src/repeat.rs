//! Number of runs of a trial: until its numbers are known well enough.

use crate::outcome::Outcome;
use crate::scenario::{Metric, Unit};
use crate::stats;

/// Whether a trial should be run again after these runs: fewer than `min`, or fewer than `max` of
/// which the median of one of `metrics` is not known; see [`stats::more_runs_wanted`]. Shares of
/// time are left out: one near zero is known well enough, however much it spreads. A metric that
/// no run measured asks for nothing. Runs that cannot be used count for the bounds: an engine that
/// is never in time must end too.
#[must_use]
pub fn wants_another_run(
    ran: &[&Outcome],
    metrics: impl IntoIterator<Item = Metric>,
    (min, max): (usize, usize),
) -> bool {
    let usable: Vec<&Outcome> = ran.iter().copied().filter(|run| run.is_usable()).collect();
    let max = max.saturating_sub(ran.len() - usable.len()).max(1);
    let is_unknown = |metric: Metric| {
        let values: Vec<f64> = usable.iter().filter_map(|run| metric.of(run)).collect();
        !values.is_empty() && stats::more_runs_wanted(&values, min, max)
    };
    let mut told = metrics.into_iter().filter(|m| m.unit() != Unit::Share);
    ran.len() < min || usable.len() < max && told.any(is_unknown)
}
