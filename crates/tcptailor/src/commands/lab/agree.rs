//! How far the virtual engine agrees with the kernel of this machine.

use std::fmt::Write;

use base::human;
use lab::{
    Agreement, Caveat, Cell, ERROR_MEDIAN_MAX, ERROR_P90_MAX, ERROR_TO_EXPLAIN, Metric, Outcome,
    Scenario, agreement_label, agreement_scenarios,
};
use serde::Serialize;

use super::run::{Engine, Runner};
use crate::exit::{Exit, Problem};
use crate::interrupt;
use crate::output::{self, Output};
use crate::progress::Progress;

/// Runs of each scenario without `--runs`.
const RUNS: u32 = 3;
/// Measured time of each scenario with `--quick`.
const QUICK_DURATION: &str = "2s";
/// Steps of the progress bar per run.
const STEPS_PER_RUN: u64 = 1000;

/// Compare the virtual engine with the kernel of this machine.
///
/// Runs a set of scenarios on both engines, interleaved, and shows by how much the medians of the
/// virtual one are off: goodput of streams, median and 99th percentile of response times. The
/// virtual engine reckons the work of the hosts and of the emulator in. Takes some minutes, and
/// wants a machine that does nothing else.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tcptailor lab agree                      the whole table, three runs each
  tcptailor lab agree bulk wwr/cork        a scenario with all its variants, and one of another
  tcptailor lab agree --quick              one short run each
  tcptailor lab agree --runs 9 --json      as data

Exit code 3 if the median of the errors is above 5 % or their 90th percentile above 15 %, 1 if a
scenario has no usable run.")]
pub(crate) struct Args {
    /// Only these scenarios; all without.
    #[arg(value_name = "SCENARIO")]
    scenarios: Vec<String>,
    /// How often each scenario is run on each engine, with another seed each time.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=99))]
    runs: Option<u32>,
    /// One run of two seconds each: faster, and less certain.
    #[arg(long, conflicts_with = "runs")]
    quick: bool,
}

/// One number of one scenario on both engines.
#[derive(Debug, Serialize)]
struct Row {
    scenario: String,
    /// In the unit of its name.
    measure: &'static str,
    /// Medians of the usable runs; null where there are none.
    r#virtual: Option<f64>,
    kernel: Option<f64>,
    /// Share of the kernel's median.
    error: Option<f64>,
    /// From the kernel's smallest run to its largest, as a share of the median.
    kernel_spread: Option<f64>,
    /// Why the error is above 10 %, where that is known.
    cause: Option<&'static str>,
    /// Each doubt about a kernel run, once.
    caveats: Vec<String>,
    #[serde(skip)]
    metric: Metric,
}

#[derive(Debug, Serialize)]
struct Document {
    /// Whether both figures are within their bounds, over all rows.
    ok: bool,
    /// Of the errors; null where there are none.
    median: Option<f64>,
    p90: Option<f64>,
    median_max: f64,
    p90_max: f64,
    runs: u32,
    interrupted: bool,
    rows: Vec<Row>,
}

/// What one scenario came to on both engines.
#[derive(Debug, Default)]
struct Both {
    r#virtual: Vec<Outcome>,
    kernel: Vec<Outcome>,
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<Exit> {
    let cells = chosen(args)?;
    let runs = args.runs.unwrap_or(if args.quick { 1 } else { RUNS });
    let ran = run_all(&cells, runs, output)?;
    let document = Document::new(&cells, &ran, runs);
    output.report("lab-agree", &document, || render(&document))?;
    Ok(if document.interrupted {
        Exit::Interrupted
    } else if document.rows.iter().any(|row| row.error.is_none()) {
        output.note("some scenarios have no usable run on the kernel: see the caveats");
        Exit::Failed
    } else if document.ok {
        Exit::Done
    } else {
        Exit::Findings
    })
}

/// The cells that the user names, in the order of the table.
fn chosen(args: &Args) -> Result<Vec<Cell>, Problem> {
    let mut scenarios = agreement_scenarios();
    if args.quick {
        for scenario in &mut scenarios {
            shorten(scenario)?;
        }
    }
    let cells: Vec<Cell> = scenarios.iter().flat_map(Scenario::trials).collect();
    for name in &args.scenarios {
        if !cells.iter().any(|cell| is_meant(name, cell)) {
            let labels: Vec<&str> = cells.iter().map(agreement_label).collect();
            let hint = format!("these are compared: {}", labels.join(", "));
            return Err(Problem::usage(format!("no scenario `{name}` is compared")).hint(hint));
        }
    }
    let named = |cell: &Cell| args.scenarios.iter().any(|name| is_meant(name, cell));
    Ok(cells
        .into_iter()
        .filter(|cell| args.scenarios.is_empty() || named(cell))
        .collect())
}

fn shorten(scenario: &mut Scenario) -> Result<(), Problem> {
    scenario
        .set("workload.duration", QUICK_DURATION)
        .map_err(|diagnostics| {
            let lines: Vec<String> = diagnostics.iter().map(ToString::to_string).collect();
            Problem::usage(lines.join("\n"))
        })
}

/// `bulk` means all of `bulk/...`; `agree-` may be written or not.
fn is_meant(name: &str, cell: &Cell) -> bool {
    let name = name.strip_prefix("agree-").unwrap_or(name);
    let label = agreement_label(cell);
    let rest = label.strip_prefix(name);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Runs all cells once on both engines, then all of them again.
fn run_all(cells: &[Cell], runs: u32, output: &Output) -> anyhow::Result<Vec<Both>> {
    let mut kernel = Runner::new(Engine::Kernel, None)?;
    if let Runner::RealTime(engine) = &mut kernel {
        engine.is_watched = false;
    }
    let own = Runner::Virtual(lab::Virtual::with_machine_costs());
    let total = u64::from(runs) * cells.len() as u64;
    let bar = Progress::bar(output, "agree", total * STEPS_PER_RUN);
    let mut ran: Vec<Both> = cells.iter().map(|_| Both::default()).collect();
    let order = (0..runs).flat_map(|run| (0..cells.len()).map(move |cell| (run, cell)));
    for ((run, index), done) in order.zip(0_u64..) {
        if interrupt::stopped() {
            break;
        }
        let label = agreement_label(&cells[index]);
        bar.label(format!("run {} of {runs}: {label}", run + 1));
        let trial = cells[index].run(run);
        let computed = own.run(&trial, &mut |_| ())?;
        let measured = kernel.run(&trial, &mut |share| {
            let step = (share.unwrap_or(0.5).min(1.0) * STEPS_PER_RUN as f64) as u64;
            bar.set(done * STEPS_PER_RUN + step);
        })?;
        if interrupt::stopped() {
            break;
        }
        ran[index].r#virtual.push(computed);
        ran[index].kernel.push(measured);
    }
    Ok(ran)
}

impl Document {
    fn new(cells: &[Cell], ran: &[Both], runs: u32) -> Self {
        let interrupted = interrupt::stopped();
        let pairs = cells.iter().zip(ran);
        let rows: Vec<Row> = pairs
            .filter(|(_, both)| !both.kernel.is_empty())
            .flat_map(|(cell, both)| {
                let metrics = lab::compared_metrics(&cell.trial.workload);
                metrics.iter().map(|metric| Row::new(cell, *metric, both))
            })
            .collect();
        let errors: Vec<f64> = rows.iter().filter_map(|row| row.error).collect();
        let median = lab::error_percentile(&errors, 0.5);
        let p90 = lab::error_percentile(&errors, 0.9);
        let within = |value: Option<f64>, max: f64| value.is_some_and(|value| value <= max);
        Self {
            ok: !interrupted
                && errors.len() == rows.len()
                && within(median, ERROR_MEDIAN_MAX)
                && within(p90, ERROR_P90_MAX),
            median,
            p90,
            median_max: ERROR_MEDIAN_MAX,
            p90_max: ERROR_P90_MAX,
            runs,
            interrupted,
            rows,
        }
    }
}

impl Row {
    fn new(cell: &Cell, metric: Metric, both: &Both) -> Self {
        let agreement = Agreement::of(metric, &both.r#virtual, &both.kernel);
        let label = agreement_label(cell);
        let error = agreement.map(|agreement| agreement.error);
        let is_large = error.is_some_and(|error| error > ERROR_TO_EXPLAIN);
        Self {
            scenario: label.to_owned(),
            measure: metric.name(),
            r#virtual: agreement.map(|agreement| agreement.virtual_median),
            kernel: agreement.map(|agreement| agreement.kernel_median),
            error,
            kernel_spread: agreement.map(|agreement| agreement.kernel_spread),
            cause: lab::known_cause(label, metric).filter(|_| is_large),
            caveats: doubts(both),
            metric,
        }
    }
}

/// Each kind of doubt once, with the number of runs that have it.
fn doubts(both: &Both) -> Vec<String> {
    let mut kinds: Vec<(&Caveat, usize)> = Vec::new();
    let outcomes = both.kernel.iter().chain(&both.r#virtual);
    for caveat in outcomes.flat_map(|outcome| &outcome.caveats) {
        let kind = std::mem::discriminant(caveat);
        match kinds
            .iter_mut()
            .find(|(known, _)| std::mem::discriminant(*known) == kind)
        {
            Some((_, count)) => *count += 1,
            None => kinds.push((caveat, 1)),
        }
    }
    let tell = |(caveat, count): &(&Caveat, usize)| {
        format!("{count} of {} runs: {caveat}", both.kernel.len())
    };
    kinds.iter().map(tell).collect()
}

fn render(document: &Document) -> String {
    let header = [
        "SCENARIO", "MEASURE", "VIRTUAL", "KERNEL", "ERROR", "SPREAD",
    ];
    let mut table = output::table(&header);
    for row in &document.rows {
        table.add_row([
            row.scenario.clone(),
            measure_name(row.metric).to_owned(),
            show(row.metric, row.r#virtual),
            show(row.metric, row.kernel),
            percent(row.error),
            percent(row.kernel_spread.filter(|_| document.runs > 1)),
        ]);
    }
    output::align_right(&mut table, &[2, 3, 4, 5]);
    let mut text = output::render(&table);
    remarks(&mut text, document);
    let (median, p90) = (percent(document.median), percent(document.p90));
    let verdict = match (document.interrupted, document.ok) {
        (true, _) => "interrupted: not all runs were made",
        (_, true) => "the engines agree",
        (_, false) => "the engines do not agree",
    };
    writeln!(
        text,
        "\n{verdict}: median of the errors {median} (at most {}), 90th percentile {p90} (at most \
         {})",
        percent(Some(ERROR_MEDIAN_MAX)),
        percent(Some(ERROR_P90_MAX))
    )
    .expect("a String grows");
    text
}

/// Causes of large errors, and doubts about the kernel's runs.
fn remarks(text: &mut String, document: &Document) {
    let mut table = output::table(&["SCENARIO", ""]);
    for row in &document.rows {
        let is_large = row.error.is_some_and(|error| error > ERROR_TO_EXPLAIN);
        if is_large {
            let name = measure_name(row.metric);
            let cause = row.cause.unwrap_or("cause not known");
            table.add_row([row.scenario.clone(), format!("{name}: {cause}")]);
        }
    }
    let mut told = "";
    for row in &document.rows {
        if row.scenario != told {
            for caveat in &row.caveats {
                table.add_row([row.scenario.clone(), caveat.clone()]);
            }
        }
        told = &row.scenario;
    }
    if !table.is_empty() {
        text.push('\n');
        text.push_str(&output::render(&table));
    }
}

const fn measure_name(metric: Metric) -> &'static str {
    match metric {
        Metric::GoodputBps => "goodput",
        Metric::ResponseP50Us => "response p50",
        Metric::ResponseP99Us => "response p99",
        _ => "",
    }
}

fn show(metric: Metric, value: Option<f64>) -> String {
    let Some(value) = value.map(|value| value.round() as u64) else {
        return "-".into();
    };
    match metric {
        Metric::GoodputBps => human::bps(value),
        _ => human::micros(value),
    }
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(String::new, |share| format!("{:.1} %", share * 100.0))
}

#[cfg(test)]
mod tests {
    use lab::ResponseMicros;

    use super::*;

    fn cells() -> Vec<Cell> {
        agreement_scenarios()
            .iter()
            .flat_map(Scenario::trials)
            .collect()
    }

    fn args(names: &[&str]) -> Args {
        Args {
            scenarios: names.iter().map(|name| (*name).to_owned()).collect(),
            runs: None,
            quick: false,
        }
    }

    #[test]
    fn scenarios_are_chosen_by_name() {
        let check = |names: &[&str], expected: &[&str]| {
            let cells = chosen(&args(names)).expect("they exist");
            let labels: Vec<&str> = cells.iter().map(agreement_label).collect();
            assert_eq!(labels, expected);
        };
        check(&["wwr/cork", "bulk/long"], &["bulk/long", "wwr/cork"]);
        check(&["wwr"], &["wwr/nagle", "wwr/nodelay", "wwr/cork"]);
        check(&["agree-wwr/cork"], &["wwr/cork"]);
        assert_eq!(chosen(&args(&[])).expect("all").len(), cells().len());
        assert_eq!(chosen(&args(&["ww"])).unwrap_err().exit, Exit::Usage);
        let quick = Args {
            quick: true,
            ..args(&["bulk"])
        };
        assert_eq!(chosen(&quick).expect("they exist").len(), 5);
    }

    fn outcome(p50: u64, p99: u64) -> Outcome {
        Outcome {
            response_us: Some(ResponseMicros {
                n: 9,
                p50,
                p99,
                ..ResponseMicros::default()
            }),
            ..Outcome::default()
        }
    }

    #[test]
    fn a_table_says_what_differs_and_by_how_much() {
        let cells = chosen(&args(&["wwr/cork"])).expect("it exists");
        let mut disturbed = outcome(1000, 2000);
        disturbed.caveats.push(Caveat::HostBusy { percent: 40 });
        let ran = [Both {
            r#virtual: vec![outcome(1040, 1050)],
            kernel: vec![disturbed],
        }];
        let document = Document::new(&cells, &ran, 1);
        assert_eq!(document.rows.len(), 2);
        assert!(!document.ok, "the 99th percentile is off by 47 %");
        assert_eq!(document.median, Some(0.04));
        let text = anstream::adapter::strip_str(&render(&document)).to_string();
        for part in [
            "1.04 ms",
            "4.0 %",
            "47.5 %",
            "do not agree",
            "other work took 40 %",
        ] {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
    }

    #[test]
    fn a_scenario_without_a_usable_run_has_no_error() {
        let cells = chosen(&args(&["wwr/cork"])).expect("it exists");
        let mut failed = outcome(1000, 2000);
        failed.caveats.push(Caveat::EndedEarly { why: "x".into() });
        let ran = [Both {
            r#virtual: vec![outcome(1000, 2000)],
            kernel: vec![failed],
        }];
        let document = Document::new(&cells, &ran, 1);
        assert!(!document.ok && document.median.is_none());
        assert!(document.rows.iter().all(|row| row.error.is_none()));
    }
}
