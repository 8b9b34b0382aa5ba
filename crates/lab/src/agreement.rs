//! Comparison of engines that run our stack with the kernel.
//!
//! Data: scenarios, which number of each is compared, how large the errors may be, and what is
//! known of those that are large. Running the engines is the program's.

mod causes;
mod everyday;

use crate::builtin::parse_builtin;
use crate::outcome::{Caveat, Outcome};
use crate::scenario::{Cell, Metric, Scenario};
use crate::stats;
use crate::workload::Workload;
pub use causes::known_cause;
pub use everyday::everyday_cells;

/// The scenarios, with CUBIC at both ends: every path has what it needs to differ from the others.
pub const AGREEMENT_SCENARIOS: &[(&str, &str)] = &[
    ("agree-bulk", include_str!("../scenarios/agree-bulk.toml")),
    (
        "agree-buffers",
        include_str!("../scenarios/agree-buffers.toml"),
    ),
    ("agree-loss", include_str!("../scenarios/agree-loss.toml")),
    ("agree-queue", include_str!("../scenarios/agree-queue.toml")),
    (
        "agree-request",
        include_str!("../scenarios/agree-request.toml"),
    ),
    ("agree-wwr", include_str!("../scenarios/agree-wwr.toml")),
];

/// Largest median of the errors.
pub const ERROR_MEDIAN_MAX: f64 = 0.05;
/// Largest 90th percentile of the errors.
pub const ERROR_P90_MAX: f64 = 0.15;
/// Errors above this share need a known cause.
pub const ERROR_TO_EXPLAIN: f64 = 0.1;

/// How an engine runs our stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackMode {
    /// Both ends, in virtual time.
    VirtualTime,
    /// One end, on real packets.
    RealPackets,
}

/// All scenarios.
///
/// # Panics
/// Never: a test reads every one.
#[must_use]
pub fn agreement_scenarios() -> Vec<Scenario> {
    AGREEMENT_SCENARIOS
        .iter()
        .map(|(name, text)| parse_builtin(name, text))
        .collect()
}

/// The name of a cell in a table of agreement: `bulk/long`.
#[must_use]
pub fn agreement_label(cell: &Cell) -> &str {
    cell.id.strip_prefix("agree-").unwrap_or(&cell.id)
}

/// Metrics compared for this workload: throughput, and response times.
#[must_use]
pub const fn compared_metrics(workload: &Workload) -> &'static [Metric] {
    match workload {
        Workload::Bulk { .. } | Workload::SlowReader { .. } | Workload::Paced { .. } => {
            &[Metric::GoodputBps]
        }
        _ => &[
            Metric::GoodputBps,
            Metric::ResponseP50Us,
            Metric::ResponseP99Us,
        ],
    }
}

/// Runs of one cell on an engine and on the kernel's, by one metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Agreement {
    /// Median on the engine.
    pub median: f64,
    /// Median on the kernel's.
    pub kernel_median: f64,
    /// By how much the first is off, as a share of the second.
    pub error: f64,
    /// One of the engines has nothing but disturbed runs, so the machine may have made the error.
    pub is_disturbed: bool,
}

impl Agreement {
    /// `None` where one engine has no usable run, or the kernel's median is 0. Of the runs of each
    /// those count that nothing disturbed; where there are none, all that are usable.
    #[must_use]
    pub fn of(metric: Metric, runs: &[Outcome], kernel_runs: &[Outcome]) -> Option<Self> {
        let median = stats::median(&counted(metric, runs))?;
        let kernel_median = stats::median(&counted(metric, kernel_runs))?;
        (kernel_median > 0.0).then(|| Self {
            median,
            kernel_median,
            error: (median - kernel_median).abs() / kernel_median,
            is_disturbed: [runs, kernel_runs].iter().any(|runs| are_disturbed(runs)),
        })
    }
}

/// Median of the runs that count, as for [`Agreement::of`], and the distance of the smallest and
/// the largest as a share of it; `None` where none counts.
#[must_use]
pub fn median_and_spread(metric: Metric, runs: &[Outcome]) -> Option<(f64, f64)> {
    let values = counted(metric, runs);
    let median = stats::median(&values)?;
    let largest = values.iter().copied().fold(f64::MIN, f64::max);
    let smallest = values.iter().copied().fold(f64::MAX, f64::min);
    Some((median, (largest - smallest) / median.max(f64::MIN_POSITIVE)))
}

/// The values of the runs that nothing disturbed; where there are none, of those that are usable.
fn counted(metric: Metric, runs: &[Outcome]) -> Vec<f64> {
    let values = |counts: fn(&Outcome) -> bool| -> Vec<f64> {
        let runs = runs.iter().filter(|outcome| counts(outcome));
        runs.filter_map(|outcome| metric.of(outcome)).collect()
    };
    let undisturbed = values(is_undisturbed);
    match undisturbed.is_empty() {
        true => values(Outcome::is_usable),
        false => undisturbed,
    }
}

fn are_disturbed(runs: &[Outcome]) -> bool {
    !runs.iter().any(is_undisturbed)
}

/// Whether the machine did nothing else meanwhile, and the emulator was in time.
fn is_undisturbed(outcome: &Outcome) -> bool {
    let disturbs = |caveat: &Caveat| {
        matches!(
            caveat,
            Caveat::HostBusy { .. } | Caveat::EmulatorLate { .. } | Caveat::StackDropped { .. }
        )
    };
    outcome.is_usable() && !outcome.caveats.iter().any(disturbs)
}

/// The value that `share` of the errors do not exceed (nearest rank); `None` of none.
#[must_use]
pub fn error_percentile(errors: &[f64], share: f64) -> Option<f64> {
    let mut sorted = errors.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_is_valid_and_names_its_congestion_control() {
        let scenarios = agreement_scenarios();
        assert!(scenarios.len() == AGREEMENT_SCENARIOS.len());
        let cells: Vec<Cell> = scenarios.iter().flat_map(Scenario::trials).collect();
        assert!(cells.len() >= 10);
        for cell in &cells {
            for host in [&cell.trial.client, &cell.trial.server] {
                let congestion = host.settings.get("congestion");
                assert!(congestion.is_some(), "{}: the host's default", cell.id);
            }
        }
    }

    #[test]
    fn errors_are_shares_of_the_kernels_median() {
        let run = |goodput_bps| Outcome {
            goodput_bps,
            ..Outcome::default()
        };
        let mut late = run(1);
        late.caveats.push(Caveat::EndedEarly { why: "x".into() });
        let kernel = [run(100), run(90), run(130), late.clone()];
        let of = |kernel: &[Outcome]| Agreement::of(Metric::GoodputBps, &[run(110)], kernel);
        let found = of(&kernel).expect("usable runs");
        assert!((found.error - 0.1).abs() < 1e-9, "{found:?}");
        let (median, spread) = median_and_spread(Metric::GoodputBps, &kernel).expect("runs");
        assert!((median - 100.0).abs() < 1e-9 && (spread - 0.4).abs() < 1e-9);
        assert_eq!(of(&[late]), None);
        let mut busy = run(50);
        busy.caveats.push(Caveat::HostBusy { percent: 40 });
        assert_eq!(
            of(&[busy.clone(), run(100)]),
            of(&[run(100)]),
            "it was disturbed"
        );
        let of_busy = of(&[busy]).expect("better than nothing");
        assert!(of_busy.is_disturbed && !found.is_disturbed);
        assert_eq!(of(&[run(0)]), None, "an error of what share?");
    }

    #[test]
    fn percentiles_are_errors_that_occurred() {
        let check = |errors: &[f64], share: f64, expected: Option<f64>| {
            assert_eq!(error_percentile(errors, share), expected, "{share}");
        };
        let ten: Vec<f64> = (1..=10).rev().map(f64::from).collect();
        check(&ten, 0.5, Some(5.0));
        check(&ten, 0.9, Some(9.0));
        check(&[0.3], 0.9, Some(0.3));
        check(&[], 0.5, None);
    }
}
