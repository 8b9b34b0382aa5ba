//! What is compared to learn how far engines with our stack agree with the kernel.
//!
//! Data: scenarios, which number of each is compared, how large the errors may be, and what is
//! known of those that are large. Running the engines is the program's.

mod everyday;

use core::ops::RangeInclusive;

use crate::builtin::parse_builtin;
use crate::outcome::{Caveat, Outcome};
use crate::scenario::{Cell, Metric, Scenario};
use crate::stats;
use crate::workload::Workload;
pub use everyday::everyday_cells;

/// The scenarios, with CUBIC at both ends: every path has what it needs to differ from the others.
pub const AGREEMENT_SCENARIOS: &[(&str, &str)] = &[
    (
        "agree-bulk",
        include_str!("../../../scenarios/agree-bulk.toml"),
    ),
    (
        "agree-buffers",
        include_str!("../../../scenarios/agree-buffers.toml"),
    ),
    (
        "agree-loss",
        include_str!("../../../scenarios/agree-loss.toml"),
    ),
    (
        "agree-queue",
        include_str!("../../../scenarios/agree-queue.toml"),
    ),
    (
        "agree-request",
        include_str!("../../../scenarios/agree-request.toml"),
    ),
    (
        "agree-wwr",
        include_str!("../../../scenarios/agree-wwr.toml"),
    ),
];

/// Largest median of the errors.
pub const ERROR_MEDIAN_MAX: f64 = 0.05;
/// Largest 90th percentile of the errors.
pub const ERROR_P90_MAX: f64 = 0.15;
/// Above this, an error wants a cause.
pub const ERROR_TO_EXPLAIN: f64 = 0.1;

/// How an engine runs our stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ground {
    /// Both ends, in virtual time.
    VirtualTime,
    /// One end, on real packets.
    RealPackets,
}

/// A cause of errors above [`ERROR_TO_EXPLAIN`] that is known.
struct Cause {
    /// The cell without `agree-`, or where it begins and a `/` follows; empty: any other.
    cell: &'static str,
    /// `None`: of any.
    metric: Option<Metric>,
    /// `None`: on either.
    ground: Option<Ground>,
    /// By how much the engine's median may be off the kernel's, in the unit of the metric: what is
    /// farther off has another cause.
    off: RangeInclusive<f64>,
    when: When,
    why: &'static str,
}

/// What else must be so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Always,
    /// Operations follow each other, so that the time of each takes from the goodput, and the mean
    /// is no farther off than a hundredth of them waiting [`TURN_US`] would make it.
    Timed,
    /// Nothing but disturbed runs were made.
    Disturbed,
    /// The engine's median lies between two runs of the kernel's.
    WithinRange,
}

const ANYTHING: RangeInclusive<f64> = f64::NEG_INFINITY..=f64::INFINITY;

/// The longest wait for a processor that is taken for usual, in microseconds: a tick of a kernel
/// with 250 Hz, with which whoever runs is made to share.
const TURN_US: f64 = 4_000.0;

const fn cause(cell: &'static str, metric: Metric, why: &'static str) -> Cause {
    Cause {
        cell,
        metric: Some(metric),
        ground: None,
        off: ANYTHING,
        when: When::Always,
        why,
    }
}

const fn cause_on_packets(cell: &'static str, metric: Metric, why: &'static str) -> Cause {
    Cause {
        cell,
        metric: Some(metric),
        ground: Some(Ground::RealPackets),
        off: ANYTHING,
        when: When::Always,
        why,
    }
}

const P50: Metric = Metric::ResponseP50Us;

/// On paths of a millisecond or less it shows.
const FARTHER: &str = "each packet of ours passes a router and another device, and a process is \
                       woken to read it";

const SHARED_MACHINE: &str =
    "two hosts and the emulator share this machine's processors, which are then the limit";

const TWO_PHASES: &str = "each request meets one delayed ACK or two: which, the first exchange \
                          decides for the whole run, on the kernel as well";

const TWO_TIMES: &str = "every other record waits for a delayed ACK, so half take one round trip and \
                         half 43 ms; the middle of such times is any between";

const MEAN: &str = "goodput of operations that follow each other is their mean, in which the few that \
                    wait for a processor count in full";

const BUSY: &str = "other work had the processors, or the emulator was late, in all runs on the \
                    kernel: measure again on a quiet machine";

const CAUSES: &[Cause] = &[
    cause("bulk/dc-10g", Metric::GoodputBps, SHARED_MACHINE),
    cause("dc-10g", Metric::GoodputBps, SHARED_MACHINE),
    cause("datacenter-10g", Metric::GoodputBps, SHARED_MACHINE),
    cause("dc-10g-jumbo", Metric::GoodputBps, SHARED_MACHINE),
    cause("quotes/default", Metric::GoodputBps, TWO_PHASES),
    cause("quotes/default", P50, TWO_PHASES),
    cause("quotes/default", Metric::ResponseP99Us, TWO_PHASES),
    cause("records/acknowledged", P50, TWO_TIMES),
    cause(
        "buffers/dc-receive-64k",
        Metric::GoodputBps,
        "Linux gauges memory against payload by its first full packet, here of more segments than \
         on a long path; the profile has one ratio for all",
    ),
    cause(
        "buffers/long-send-128k",
        Metric::GoodputBps,
        "SO_SNDBUF bounds nothing as long as the window lets packets go, so a few early losses \
         decide",
    ),
    cause(
        "queue/shallow",
        Metric::GoodputBps,
        "a few losses decide, and where they fall differs from run to run of the kernel as well",
    ),
    cause(
        "wwr/nagle",
        Metric::ResponseP50Us,
        "on a busy machine the kernel's timers often fire a tick (4 ms) later",
    ),
    Cause {
        cell: "embedded-lossy/linux",
        metric: Some(P50),
        ground: Some(Ground::VirtualTime),
        off: -100.0..=0.0,
        when: When::Always,
        why: "a write after a pause takes longer than one of many: the processor has slept, and its \
              caches have gone to others",
    },
    cause_on_packets("request/lan", P50, FARTHER),
    cause_on_packets("wwr/nodelay", P50, FARTHER),
    cause_on_packets("wwr/cork", P50, FARTHER),
    Cause {
        cell: "",
        metric: Some(Metric::ResponseP99Us),
        ground: Some(Ground::VirtualTime),
        // It is the kernel's that waits.
        off: -TURN_US..=0.0,
        when: When::Always,
        why: "the slowest hundredth waits for a processor, which the kernel's hosts share with the \
              emulator, interrupts and other programs; each virtual host has its own",
    },
    Cause {
        cell: "",
        metric: Some(Metric::ResponseP99Us),
        ground: Some(Ground::RealPackets),
        off: -TURN_US..=TURN_US,
        when: When::Always,
        why: "the slowest hundredth waits for a processor, which both hosts share with the \
              emulator, interrupts and other programs; our stack waits longer, since it is a \
              process that gets its turn",
    },
    Cause {
        cell: "",
        metric: Some(Metric::GoodputBps),
        ground: Some(Ground::VirtualTime),
        off: 0.0..=f64::INFINITY,
        when: When::Timed,
        why: MEAN,
    },
    // A few losses may decide a run.
    Cause {
        cell: "",
        metric: None,
        ground: None,
        off: ANYTHING,
        when: When::WithinRange,
        why: "the kernel's own runs differ by more: what came out lies between two of them",
    },
    Cause {
        cell: "",
        metric: None,
        ground: None,
        off: ANYTHING,
        when: When::Disturbed,
        why: BUSY,
    },
];

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

/// What of this workload is compared: how much comes through, and how long an answer takes.
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

/// Why a large error of this metric is there, where it is known; `None` of one that is not above
/// [`ERROR_TO_EXPLAIN`]. `kernel_runs` are those that `found` is about.
#[must_use]
pub fn known_cause(
    cell: &Cell,
    metric: Metric,
    ground: Ground,
    found: &Agreement,
    kernel_runs: &[Outcome],
) -> Option<&'static str> {
    if found.error <= ERROR_TO_EXPLAIN {
        return None;
    }
    let label = agreement_label(cell);
    let off = found.median - found.kernel_median;
    let is_there = |known: &str| {
        let rest = label.strip_prefix(known);
        known.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let is_so = |when: When| match when {
        When::Always => true,
        When::Timed => {
            let slower_us = mean_slower_us(found, kernel_runs);
            slower_us.is_some_and(|us| (0.0..=TURN_US / 100.0).contains(&us))
        }
        When::Disturbed => are_disturbed(kernel_runs),
        When::WithinRange => {
            let values = counted(metric, kernel_runs);
            let is_below = values.iter().any(|value| *value <= found.median);
            is_below && values.iter().any(|value| *value >= found.median)
        }
    };
    let fits = |cause: &&Cause| {
        is_there(cause.cell)
            && cause.metric.is_none_or(|known| known == metric)
            && cause.ground.is_none_or(|known| known == ground)
            && cause.off.contains(&off)
            && is_so(cause.when)
    };
    CAUSES.iter().find(fits).map(|cause| cause.why)
}

/// By how much the mean operation takes longer on the kernel's, in microseconds, when operations
/// follow each other and `found` is about goodput; `None` where they do not.
fn mean_slower_us(found: &Agreement, kernel_runs: &[Outcome]) -> Option<f64> {
    let mean_us = |run: &Outcome| {
        let operations = run.response_us?.n;
        (operations > 0).then(|| run.duration_s * 1e6 / operations as f64)
    };
    let means: Vec<f64> = kernel_runs
        .iter()
        .filter(|run| run.is_usable())
        .filter_map(mean_us)
        .collect();
    let kernel_us = stats::median(&means)?;
    Some(kernel_us * (1.0 - found.kernel_median / found.median))
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
    use crate::outcome::ResponseMicros;

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
        let everyday = everyday_cells(None);
        for cause in CAUSES.iter().filter(|cause| !cause.cell.is_empty()) {
            let cell = cells
                .iter()
                .chain(&everyday)
                .find(|cell| agreement_label(cell) == cause.cell);
            let compared = compared_metrics(&cell.expect(cause.cell).trial.workload);
            assert!(
                cause.metric.is_none_or(|m| compared.contains(&m)),
                "{}",
                cause.cell
            );
        }
    }

    #[test]
    fn a_cause_holds_where_it_was_found() {
        let check_off = |label, metric, ground, medians: (f64, f64), expected: Option<&str>| {
            let (median, kernel_median) = medians;
            let found = Agreement {
                median,
                kernel_median,
                error: (median - kernel_median).abs() / kernel_median,
                is_disturbed: false,
            };
            let cells: Vec<Cell> = agreement_scenarios()
                .iter()
                .flat_map(Scenario::trials)
                .chain(everyday_cells(None))
                .collect();
            let cell = cells.iter().find(|cell| agreement_label(cell) == label);
            let mut quiet = [Outcome {
                duration_s: 4.0,
                ..Outcome::default()
            }];
            if compared_metrics(&cell.expect(label).trial.workload).len() > 1 {
                quiet[0].response_us = Some(ResponseMicros {
                    n: 20_000,
                    ..ResponseMicros::default()
                });
            }
            let found = known_cause(cell.expect(label), metric, ground, &found, &quiet);
            match (found, expected) {
                (Some(found), Some(part)) => assert!(found.contains(part), "{found}"),
                _ => assert_eq!(found, expected, "{label}"),
            }
        };
        let check = |label, metric, ground, expected| {
            check_off(label, metric, ground, (800.0, 1_000.0), expected);
        };
        let (virtual_time, packets) = (Ground::VirtualTime, Ground::RealPackets);
        let (p50, p99) = (Metric::ResponseP50Us, Metric::ResponseP99Us);
        check("request/lan", p50, packets, Some("router"));
        check("request/lan", p50, virtual_time, None);
        check("request/lan", p99, packets, Some("gets its turn"));
        check("bursts/default", p99, virtual_time, Some("virtual host"));
        check("queue/shallow", Metric::GoodputBps, packets, Some("losses"));
        check("queue/one-bdp", Metric::GoodputBps, packets, None);

        // A mean that a few waits can make: 200 us on the kernel's and 167 or 100.
        let goodput = Metric::GoodputBps;
        let faster = (1_200.0, 1_000.0);
        check_off("request/lan", goodput, virtual_time, faster, Some("mean"));
        let twice = (2_000.0, 1_000.0);
        check_off("request/lan", goodput, virtual_time, twice, None);
        let slower = (800.0, 1_000.0);
        check_off("request/lan", goodput, virtual_time, slower, None);
        check_off("bulk/long", goodput, virtual_time, faster, None);

        // What a wait for a processor does not explain.
        let small = (950.0, 1_000.0);
        check_off("request/lan", p99, packets, small, None);
        let slower = (1_200.0, 1_000.0);
        check_off("request/lan", p99, packets, slower, Some("gets its turn"));
        check_off("request/lan", p99, virtual_time, slower, None);
        for long in [(30_000.0, 35_000.0), (35_000.0, 30_000.0)] {
            check_off("bursts/default", p99, virtual_time, long, None);
            check_off("bursts/default", p99, packets, long, None);
        }
    }

    #[test]
    fn what_lies_between_two_runs_of_the_kernels_is_explained_by_them() {
        let cells: Vec<Cell> = everyday_cells(None);
        let cell = cells
            .iter()
            .find(|cell| agreement_label(cell) == "wan-bulk");
        let cell = cell.expect("an everyday scenario");
        let run = |goodput_bps| Outcome {
            goodput_bps,
            ..Outcome::default()
        };
        let kernel = [run(700), run(1_000), run(1_300)];
        let cause_of = |median: f64| {
            let found = Agreement {
                median,
                kernel_median: 1_000.0,
                error: (median - 1_000.0).abs() / 1_000.0,
                is_disturbed: false,
            };
            known_cause(
                cell,
                Metric::GoodputBps,
                Ground::VirtualTime,
                &found,
                &kernel,
            )
        };
        assert!(cause_of(1_250.0).is_some_and(|why| why.contains("between two")));
        assert_eq!(cause_of(1_350.0), None);
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
