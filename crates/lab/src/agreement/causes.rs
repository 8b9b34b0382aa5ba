//! Known causes of large errors.
//!
//! Each cause has a direction and a bound, so that it explains what it was found for and no error
//! of any size. What only noise explains is measured, not listed: the kernel's own runs beside it.

use core::ops::RangeInclusive;

use super::{Agreement, ERROR_TO_EXPLAIN, StackMode, agreement_label, counted};
use crate::outcome::Outcome;
use crate::scenario::{Cell, Metric};
use crate::stats;

/// A cause of errors above [`ERROR_TO_EXPLAIN`] that is known.
struct Cause {
    /// The cell without `agree-`, or where it begins and a `/` follows; empty: any other.
    cell: &'static str,
    /// `None`: of any.
    metric: Option<Metric>,
    /// `None`: on either.
    ground: Option<StackMode>,
    /// How far off it explains; what is farther off has another cause.
    off: Off,
    why: &'static str,
}

/// The quantity that a cause explains.
#[derive(Clone, Debug, PartialEq)]
enum Off {
    /// By how much the engine's median may be above the kernel's, in the unit of the metric.
    By(RangeInclusive<f64>),
    /// How many times the kernel's median the engine's may be.
    Times(RangeInclusive<f64>),
    /// Operations follow each other, so that the time of each takes from the goodput: the engine's
    /// is higher, by no more than a hundredth of them waiting [`TURN_US`] would make it.
    Timed,
    /// The engine's median lies between two runs of the kernel's.
    WithinRange,
}

/// The longest wait for a processor that is taken for usual, in microseconds: a tick of a kernel
/// with 250 Hz, after which a running process is preempted.
const TURN_US: f64 = 4_000.0;
/// A delayed ACK, in microseconds: 40 ms, and the tick in which its timer fires.
const DELAYED_ACK_US: f64 = 44_000.0;
/// A process of ours takes in a packet on either end of the round trip, and is woken for each, in
/// 50 us at most where processors do not sleep deeply; two devices more take 1 us each, both ways.
const FARTHER_US: f64 = 2.0 * 50.0 + 4.0 * 1.0;

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

const fn cause(
    cell: &'static str,
    metric: Metric,
    ground: Option<StackMode>,
    off: Off,
    why: &'static str,
) -> Cause {
    Cause {
        cell,
        metric: Some(metric),
        ground,
        off,
        why,
    }
}

/// A link of 10 Gbit/s that the virtual hosts fill and the kernel's do not; they do carry 1 Gbit/s.
const fn shared(cell: &'static str) -> Cause {
    let off = Off::Times(1.0..=10.0);
    cause(cell, Metric::GoodputBps, VIRTUAL, off, SHARED_MACHINE)
}

const fn farther(cell: &'static str) -> Cause {
    cause(cell, P50, PACKETS, Off::By(0.0..=FARTHER_US), FARTHER)
}

const VIRTUAL: Option<StackMode> = Some(StackMode::VirtualTime);
const PACKETS: Option<StackMode> = Some(StackMode::RealPackets);

const CAUSES: &[Cause] = &[
    shared("bulk/dc-10g"),
    shared("dc-10g"),
    shared("datacenter-10g"),
    shared("dc-10g-jumbo"),
    // One of two, or two of one.
    cause(
        "quotes/default",
        Metric::GoodputBps,
        None,
        Off::Times(0.5..=2.0),
        TWO_PHASES,
    ),
    cause(
        "quotes/default",
        P50,
        None,
        Off::By(-DELAYED_ACK_US..=DELAYED_ACK_US),
        TWO_PHASES,
    ),
    cause(
        "quotes/default",
        Metric::ResponseP99Us,
        None,
        Off::By(-DELAYED_ACK_US..=DELAYED_ACK_US),
        TWO_PHASES,
    ),
    cause(
        "records/acknowledged",
        P50,
        None,
        Off::By(-DELAYED_ACK_US..=DELAYED_ACK_US),
        TWO_TIMES,
    ),
    cause(
        "wwr/nagle",
        P50,
        None,
        Off::By(-TURN_US..=0.0),
        "on a busy machine the kernel's timers often fire a tick (4 ms) later",
    ),
    cause(
        "embedded-lossy/linux",
        P50,
        VIRTUAL,
        Off::By(-100.0..=0.0),
        "a write after a pause takes longer than one of many: the processor has slept, and its \
         caches have gone to others",
    ),
    farther("request/lan"),
    farther("wwr/nodelay"),
    farther("wwr/cork"),
    cause(
        "",
        Metric::ResponseP99Us,
        VIRTUAL,
        // It is the kernel's that waits.
        Off::By(-TURN_US..=0.0),
        "the slowest hundredth waits for a processor, which the kernel's hosts share with the \
         emulator, interrupts and other programs; each virtual host has its own",
    ),
    cause(
        "",
        Metric::ResponseP99Us,
        PACKETS,
        Off::By(-TURN_US..=TURN_US),
        "the slowest hundredth waits for a processor, which both hosts share with the \
         emulator, interrupts and other programs; our stack waits longer, since it is a \
         process that gets its turn",
    ),
    cause("", Metric::GoodputBps, VIRTUAL, Off::Timed, MEAN),
    // A few losses may decide a run.
    Cause {
        cell: "",
        metric: None,
        ground: None,
        off: Off::WithinRange,
        why: "the kernel's own runs differ by more: what came out lies between two of them",
    },
];

/// Why a large error of this metric is there, where it is known; `None` of one that is not above
/// [`ERROR_TO_EXPLAIN`]. `kernel_runs` are those that `found` is about.
#[must_use]
pub fn known_cause(
    cell: &Cell,
    metric: Metric,
    ground: StackMode,
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
    let times = found.median / found.kernel_median;
    let explains = |known: &Off| match known {
        Off::By(range) => range.contains(&off),
        Off::Times(range) => range.contains(&times),
        Off::Timed => {
            let slower_us = mean_slower_us(found, kernel_runs);
            slower_us.is_some_and(|us| (0.0..=TURN_US / 100.0).contains(&us))
        }
        Off::WithinRange => {
            let values = counted(metric, kernel_runs);
            let is_below = values.iter().any(|value| *value <= found.median);
            is_below && values.iter().any(|value| *value >= found.median)
        }
    };
    let fits = |cause: &&Cause| {
        is_there(cause.cell)
            && cause.metric.is_none_or(|known| known == metric)
            && cause.ground.is_none_or(|known| known == ground)
            && explains(&cause.off)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agreement::{agreement_scenarios, compared_metrics, everyday_cells};
    use crate::outcome::ResponseMicros;
    use crate::scenario::Scenario;

    #[test]
    fn every_cause_is_of_a_cell_has_a_bound_and_is_about_what_is_compared() {
        let scenarios = agreement_scenarios();
        let cells: Vec<Cell> = scenarios.iter().flat_map(Scenario::trials).collect();
        for cause in CAUSES {
            if let Off::By(range) | Off::Times(range) = &cause.off {
                assert!(
                    range.start().is_finite() && range.end().is_finite(),
                    "{}",
                    cause.why
                );
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

    /// Checks what explains the difference between medians of an engine and the kernel's;
    /// `expected` is part of it.
    fn check_off(
        label: &str,
        metric: Metric,
        ground: StackMode,
        (median, kernel_median): (f64, f64),
        expected: Option<&str>,
    ) {
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
    }

    #[test]
    fn a_cause_holds_where_it_was_found() {
        let check = |label, metric, ground, expected| {
            check_off(label, metric, ground, (800.0, 1_000.0), expected);
        };
        let (virtual_time, packets) = (StackMode::VirtualTime, StackMode::RealPackets);
        let (p50, p99) = (Metric::ResponseP50Us, Metric::ResponseP99Us);
        let farther = (1_100.0, 980.0);
        check_off("request/lan", p50, packets, farther, None);
        check_off("request/lan", p50, packets, (600.0, 500.0), Some("router"));
        check_off("request/lan", p50, packets, (400.0, 500.0), None);
        check_off("request/lan", p50, virtual_time, (600.0, 500.0), None);
        check("request/lan", p99, packets, Some("gets its turn"));
        check("bursts/default", p99, virtual_time, Some("virtual host"));
        check("queue/shallow", Metric::GoodputBps, packets, None);
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
    fn a_cause_has_a_direction_and_a_bound() {
        let (virtual_time, packets) = (StackMode::VirtualTime, StackMode::RealPackets);
        let p50 = Metric::ResponseP50Us;
        let rate = Metric::GoodputBps;
        let tens = |medians, ground, expected| {
            check_off("bulk/dc-10g", rate, ground, medians, expected);
        };
        tens((9e9, 3e9), virtual_time, Some("processors"));
        tens((3e9, 9e9), virtual_time, None);
        tens((9e9, 8e8), virtual_time, None);
        tens((3e9, 9e9), packets, None);
        check_off("quotes/default", rate, packets, (2e5, 1e5), Some("two"));
        check_off("quotes/default", rate, packets, (3e5, 1e5), None);
        check_off(
            "records/acknowledged",
            p50,
            packets,
            (2e3, 43e3),
            Some("half"),
        );
        check_off("records/acknowledged", p50, packets, (2e3, 86e3), None);
        check_off("wwr/nagle", p50, virtual_time, (40e3, 46e3), None);
        check_off("wwr/nagle", p50, virtual_time, (30e3, 33.9e3), Some("tick"));
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
                StackMode::VirtualTime,
                &found,
                &kernel,
            )
        };
        assert!(cause_of(1_250.0).is_some_and(|why| why.contains("between two")));
        assert_eq!(cause_of(1_350.0), None);
    }
}
