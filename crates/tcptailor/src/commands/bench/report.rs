//! The results of a benchmark: medians with their intervals, and how the variants compare.

use std::time::Duration;

use base::human;
use lab::stats::{self, Judgement};
use lab::{Direction, Records, ResponseMicros, SenderOutcome, Workload};
use linux::service::BenchOutcome;
use linux::workload::{Ended, Responses};
use serde::Serialize;

use super::live::Row;
use crate::output;

/// Seed of the bootstrap: the same values give the same interval.
const SEED: u64 = 1;

/// The document `bench`.
#[derive(Debug, Serialize)]
pub(super) struct Document {
    pub(super) remote: String,
    pub(super) workload: Workload,
    /// Round trips of the control connection before the first run, from program to program.
    pub(super) rtt_idle_us: Option<ResponseMicros>,
    /// Metric by which variants are judged.
    pub(super) metric: Metric,
    pub(super) variants: Vec<Variant>,
    pub(super) comparisons: Vec<Comparison>,
    pub(super) interrupted: bool,
}

impl Document {
    /// What was interrupted, and what the figures are therefore of.
    pub(super) fn interruption(&self) -> Option<String> {
        let runs: Vec<_> = self
            .variants
            .iter()
            .flat_map(|variant| &variant.runs)
            .collect();
        match runs[..] {
            [run] if self.interrupted && run.ended_early => {
                let time = human::time(Duration::from_secs_f64(run.duration_s));
                Some(format!("Interrupted: the figures are those of {time}."))
            }
            _ => (self.interrupted).then(|| "Interrupted: only complete runs are counted.".into()),
        }
    }
}

/// Metric of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Metric {
    /// More is better.
    GoodputBps,
    /// More is better.
    OperationsPerS,
    /// Less is better.
    ResponseP50Us,
}

impl Metric {
    pub(super) const fn of(workload: &Workload) -> Self {
        match workload {
            Workload::Bulk { .. } | Workload::SlowReader { .. } | Workload::Paced { .. } => {
                Self::GoodputBps
            }
            Workload::Bursts { .. }
            | Workload::Records(Records {
                per_second: Some(_),
                ..
            }) => Self::ResponseP50Us,
            _ => Self::OperationsPerS,
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::GoodputBps => "goodput",
            Self::OperationsPerS => "operations per second",
            Self::ResponseP50Us => "median response time",
        }
    }

    fn show(self, value: f64) -> String {
        match self {
            Self::GoodputBps => human::bps(value as u64),
            Self::OperationsPerS if value < 100.0 => format!("{value:.1}/s"),
            Self::OperationsPerS => format!("{value:.0}/s"),
            Self::ResponseP50Us => human::micros(value as u64),
        }
    }
}

/// All runs of one variant.
#[derive(Debug, Serialize)]
pub(super) struct Variant {
    pub(super) name: String,
    pub(super) goodput_bps: Option<Spread>,
    pub(super) operations_per_s: Option<Spread>,
    /// Over all operations of all runs.
    pub(super) response_us: Option<ResponseMicros>,
    /// As `rtt_idle_us`, while the runs were on.
    pub(super) rtt_loaded_us: Option<ResponseMicros>,
    pub(super) runs: Vec<Run>,
}

/// A median with its bootstrap interval.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

/// One run.
#[derive(Debug, Default, Serialize)]
pub(super) struct Run {
    pub(super) goodput_bps: u64,
    /// Payload that arrived at the server, and here.
    pub(super) up_bps: Option<u64>,
    pub(super) down_bps: Option<u64>,
    pub(super) duration_s: f64,
    pub(super) operations_per_s: Option<f64>,
    pub(super) response_us: Option<ResponseMicros>,
    pub(super) client_congestion: String,
    pub(super) server_congestion: String,
    #[serde(skip)]
    pub(super) responses: Responses,
    /// Counters of this end and of the server as senders; `None` where the kernel does not report
    /// them.
    pub(super) client_sent: Option<SenderOutcome>,
    pub(super) server_sent: Option<SenderOutcome>,
    pub(super) rtt_loaded_us: Option<ResponseMicros>,
    #[serde(skip)]
    pub(super) loaded: Responses,
    pub(super) intervals: Vec<Row>,
    pub(super) ended_early: bool,
}

impl Run {
    pub(super) fn new(workload: &Workload, outcome: BenchOutcome, intervals: Vec<Row>) -> Self {
        let goodput_bps = outcome.goodput_bps(workload);
        let (up, down) = (
            outcome.server.measured.goodput_bps(),
            outcome.client.measured.goodput_bps(),
        );
        let timed = outcome.client.measured;
        let has_operations = Metric::of(workload) != Metric::GoodputBps;
        let one_way = |of_end: u64| (of_end > 0).then_some(of_end);
        Self {
            goodput_bps,
            up_bps: one_way(up),
            down_bps: one_way(down),
            duration_s: timed.duration_s,
            operations_per_s: has_operations.then(|| timed.operations_per_s()),
            response_us: timed.response_us(),
            client_congestion: outcome.client.congestion,
            server_congestion: outcome.server.congestion,
            responses: timed.responses_ns,
            client_sent: outcome.client.sent,
            server_sent: outcome.server.sent,
            rtt_loaded_us: outcome.loaded_rtt.micros(),
            loaded: outcome.loaded_rtt,
            intervals,
            ended_early: outcome.client.ended != Ended::Complete,
        }
    }

    /// Sum of both ends; `None` where the kernel does not report them.
    pub(super) fn retransmitted_segments(&self) -> Option<u64> {
        let ends = [self.client_sent.as_ref(), self.server_sent.as_ref()];
        let known = ends.into_iter().flatten();
        known
            .map(|sent| Some(sent.retransmitted_segments))
            .reduce(|one, other| Some(one?.saturating_add(other?)))?
    }

    fn value(&self, metric: Metric) -> f64 {
        match metric {
            Metric::GoodputBps => self.goodput_bps as f64,
            Metric::OperationsPerS => self.operations_per_s.unwrap_or_default(),
            Metric::ResponseP50Us => self.responses.quantile(0.5).as_nanos() as f64 / 1e3,
        }
    }
}

impl Variant {
    pub(super) fn new(name: String, runs: Vec<Run>) -> Self {
        let spread = |metric| {
            let values: Vec<f64> = runs.iter().map(|run| run.value(metric)).collect();
            let interval = stats::median_interval(&values, SEED)?;
            Some(Spread {
                median: stats::median(&values)?,
                low: interval.low,
                high: interval.high,
            })
        };
        let timed = runs.iter().any(|run| run.operations_per_s.is_some());
        let mut responses = Responses::default();
        runs.iter().for_each(|run| responses.merge(&run.responses));
        let mut loaded = Responses::default();
        runs.iter().for_each(|run| loaded.merge(&run.loaded));
        Self {
            rtt_loaded_us: loaded.micros(),
            goodput_bps: spread(Metric::GoodputBps),
            operations_per_s: timed.then(|| spread(Metric::OperationsPerS)).flatten(),
            response_us: responses.micros(),
            name,
            runs,
        }
    }
}

/// A variant beside the first one.
#[derive(Debug, Serialize)]
pub(super) struct Comparison {
    pub(super) variant: String,
    pub(super) base: String,
    pub(super) ratio: f64,
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) p_value: f64,
    pub(super) judgement: &'static str,
}

/// Every variant beside the first one, by the metric.
pub(super) fn compare(metric: Metric, variants: &[Variant]) -> Vec<Comparison> {
    let Some((base, others)) = variants.split_first() else {
        return Vec::new();
    };
    let values = |variant: &Variant| -> Vec<f64> {
        variant.runs.iter().map(|run| run.value(metric)).collect()
    };
    others
        .iter()
        .filter_map(|other| {
            let compared = stats::compare(&values(base), &values(other), SEED)?;
            Some(Comparison {
                variant: other.name.clone(),
                base: base.name.clone(),
                ratio: compared.ratio,
                low: compared.interval.low,
                high: compared.interval.high,
                p_value: compared.p_value,
                judgement: match compared.judgement {
                    Judgement::Larger => "larger",
                    Judgement::Smaller => "smaller",
                    Judgement::NotDistinguishable => "not-distinguishable",
                },
            })
        })
        .collect()
}

/// The document for people.
pub(super) fn render(document: &Document) -> String {
    let Document {
        remote: _,
        workload,
        rtt_idle_us,
        metric,
        variants,
        comparisons,
        interrupted: _,
    } = document;
    let mut header = vec!["VARIANT", "RUNS", "GOODPUT", "95 % CI"];
    let timed = variants.iter().any(|variant| variant.response_us.is_some());
    if timed {
        header = vec![
            "VARIANT", "RUNS", "OPS/S", "95 % CI", "P50", "P90", "P99", "MAX",
        ];
    }
    let mut table = output::table(&header);
    for variant in variants {
        table.add_row(row(variant, *metric, timed));
    }
    output::align_right(&mut table, &(1..header.len()).collect::<Vec<_>>());
    let mut text = String::new();
    output::push_wrapped(&mut text, &heading(document), "  ", 0);
    text.push('\n');
    text.push_str(&output::render(&table));
    if let [variant] = variants.as_slice() {
        push_details(&mut text, workload, variant);
    }
    push_latency(&mut text, *rtt_idle_us, variants);
    if !comparisons.is_empty() {
        text.push_str(&format!(
            "\nCompared with {}, by {}:\n",
            comparisons[0].base,
            metric.name()
        ));
    }
    for comparison in comparisons {
        text.push_str(&format!("  {}\n", sentence(comparison)));
    }
    if let Some(interruption) = document.interruption() {
        text.push_str(&format!("\n{interruption}\n"));
    }
    text
}

/// The workload and the server.
pub(super) fn heading(document: &Document) -> String {
    let remote = &document.remote;
    match &document.workload {
        Workload::Bulk {
            direction: Direction::Down,
            flows,
            ..
        } => format!("{} from {remote}", human::count(*flows, "stream")),
        workload => format!("{} to {remote}", super::kind_of(workload)),
    }
}

/// Details of a single variant, beside its row.
fn push_details(text: &mut String, workload: &Workload, variant: &Variant) {
    let is_both = matches!(
        workload,
        Workload::Bulk {
            direction: Direction::Both,
            ..
        }
    );
    let runs = &variant.runs;
    let median = |of: fn(&Run) -> Option<u64>| {
        let values: Vec<f64> = runs.iter().filter_map(of).map(|bps| bps as f64).collect();
        stats::median(&values).map(|bps| human::bps(bps as u64))
    };
    if let (true, Some(up), Some(down)) = (is_both, median(|r| r.up_bps), median(|r| r.down_bps)) {
        text.push('\n');
        output::push_wrapped(text, &format!("Sent {up}, received {down}."), "", 0);
    }
    let sent = |of: fn(&SenderOutcome) -> u64| -> u64 {
        let ends = runs
            .iter()
            .flat_map(|run| [&run.client_sent, &run.server_sent]);
        // Another host may have said any number.
        ends.flatten().map(of).fold(0, u64::saturating_add)
    };
    let (segments, again) = (
        sent(|s| s.data_segments),
        sent(|s| s.retransmitted_segments),
    );
    if segments > 0 {
        let share = human::share(again as f64 / segments as f64);
        let noun = human::count(segments, "segment");
        let line = format!("Retransmitted {again} of {noun} with data ({share}).");
        text.push('\n');
        output::push_wrapped(text, &line, "", 0);
    }
}

/// What the RTT between the programs is.
const PINGS: &str = "  (pings on a second connection, which also take the time until both programs \
                     wake up)";

/// How much later answers come while the test is on.
fn push_latency(text: &mut String, idle: Option<ResponseMicros>, variants: &[Variant]) {
    let Some(idle) = idle else { return };
    let shown = |times: ResponseMicros| {
        format!(
            "{} (p99 {})",
            human::micros(times.p50),
            human::micros(times.p99)
        )
    };
    let idle = shown(idle);
    for variant in variants {
        let of = match variants.len() {
            1 => String::new(),
            _ => format!("{}: ", variant.name),
        };
        // Of a run that was over at once there is none.
        let loaded = variant.rtt_loaded_us.map_or_else(String::new, |loaded| {
            format!(", under load {}", shown(loaded))
        });
        let line = format!("{of}RTT between the programs: idle {idle}{loaded}.");
        output::push_wrapped(text, &line, "  ", 0);
    }
    // Else it seems to contradict the time of an operation, beside which it stands.
    output::push_wrapped(text, PINGS, "  ", 0);
}

fn row(variant: &Variant, metric: Metric, timed: bool) -> Vec<String> {
    // Where operations are timed their rate is shown, whatever variants are judged by.
    let (metric, spread) = match metric {
        Metric::GoodputBps => (metric, variant.goodput_bps),
        _ => (Metric::OperationsPerS, variant.operations_per_s),
    };
    let unknown = || "-".to_owned();
    let shown =
        |value: fn(Spread) -> f64| spread.map_or_else(unknown, |spread| metric.show(value(spread)));
    let interval = format!("{} .. {}", shown(|s| s.low), shown(|s| s.high));
    let mut cells = vec![
        variant.name.clone(),
        variant.runs.len().to_string(),
        shown(|s| s.median),
        // One run has no spread.
        if variant.runs.len() > 1 {
            interval
        } else {
            unknown()
        },
    ];
    if timed {
        let response = variant.response_us;
        let percentile = |value: fn(ResponseMicros) -> u64| {
            response.map_or_else(unknown, |response| human::micros(value(response)))
        };
        cells.extend([
            percentile(|r| r.p50),
            percentile(|r| r.p90),
            percentile(|r| r.p99),
            percentile(|r| r.max),
        ]);
    }
    cells
}

fn sentence(comparison: &Comparison) -> String {
    let Comparison {
        variant,
        ratio,
        low,
        high,
        ..
    } = comparison;
    let what = verdict(comparison);
    let [ratio, low, high] = [*ratio, *low, *high].map(times);
    format!("{variant}: {ratio} times ({low} to {high}), {what}")
}

/// How sure a comparison is, in words.
pub(super) fn verdict(comparison: &Comparison) -> &'static str {
    // An interval beside 1 that was not significant comes of too few runs.
    let is_apart = comparison.low > 1.0 || comparison.high < 1.0;
    match comparison.judgement {
        "not-distinguishable" if is_apart => "too few runs to be sure (--runs 10)",
        "not-distinguishable" => "no significant difference",
        other => other,
    }
}

/// A ratio with the digits that mean something.
fn times(ratio: f64) -> String {
    match ratio {
        100.0.. => format!("{ratio:.0}"),
        10.0.. => format!("{ratio:.1}"),
        _ => format!("{ratio:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comparison_is_told_with_its_doubt() {
        let check = |[ratio, low, high]: [f64; 3], judgement, expected: &str| {
            let comparison = Comparison {
                variant: "b".into(),
                base: "a".into(),
                ratio,
                low,
                high,
                p_value: 0.1,
                judgement,
            };
            assert_eq!(sentence(&comparison), expected);
        };
        check(
            [1.01, 0.99, 1.03],
            "not-distinguishable",
            "b: 1.010 times (0.990 to 1.030), no significant difference",
        );
        check(
            [2265.001, 2123.7, 2277.1],
            "not-distinguishable",
            "b: 2265 times (2124 to 2277), too few runs to be sure (--runs 10)",
        );
        check(
            [12.34, 11.0, 13.0],
            "larger",
            "b: 12.3 times (11.0 to 13.0), larger",
        );
    }
}
