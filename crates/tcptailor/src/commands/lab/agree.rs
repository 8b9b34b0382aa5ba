//! How far our stack agrees with the kernel of this machine, in virtual time and on real packets.

use std::borrow::Cow;
use std::time::Duration;

use base::human;
use lab::reproduction::{is_same_doubt, severity};
use lab::{
    Agreement, Caveat, Cell, ERROR_MEDIAN_MAX, ERROR_P90_MAX, ERROR_TO_EXPLAIN, Ground, Metric,
    Outcome, Scenario, agreement_label, agreement_scenarios,
};
use linux::kernel::RealTime;
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

/// Compare our stack with the kernel of this machine.
///
/// Runs a set of scenarios on the engines, interleaved, and shows by how much the medians are off
/// those of the kernel: goodput of streams, median and 99th percentile of response times. In
/// virtual time the work of the hosts and of the emulator is reckoned in. Takes some minutes per
/// engine, and wants a machine that does nothing else.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tcptailor lab agree                      the whole table in virtual time, three runs each
  tcptailor lab agree bulk wwr/cork        a scenario with all its variants, and one of another
  tcptailor lab agree --engines virtual,tun,tun-receiver --quick   all engines, a short run each
  tcptailor lab agree --runs 9 --json      as data

Exit code 3 if the median of an engine's errors is above 5 % or their 90th percentile above 15 %, 1
if a scenario has no usable run.")]
pub(crate) struct Args {
    /// Only these scenarios; all without.
    #[arg(value_name = "SCENARIO")]
    scenarios: Vec<String>,
    /// Only the scenarios that were made for this comparison, without the everyday ones.
    #[arg(long)]
    core: bool,
    /// The engines that are compared with the kernel's.
    #[arg(
        long,
        value_name = "ENGINE,...",
        value_delimiter = ',',
        default_value = "virtual"
    )]
    engines: Vec<Engine>,
    /// How often each scenario is run on each engine, with another seed each time.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=99))]
    runs: Option<u32>,
    /// One run of two seconds each: faster, and less certain.
    #[arg(long, conflicts_with = "runs")]
    quick: bool,
}

/// One number of one scenario on all engines.
#[derive(Debug, Serialize)]
struct Row {
    scenario: String,
    /// In the unit of its name.
    measure: Cow<'static, str>,
    /// Median of the usable runs; null where there are none.
    kernel: Option<f64>,
    /// From the kernel's smallest run to its largest, as a share of the median.
    kernel_spread: Option<f64>,
    engines: Vec<Value>,
    /// Each kind of doubt once per engine.
    caveats: Vec<Doubt>,
    #[serde(skip)]
    metric: Metric,
}

/// The same number on one engine.
#[derive(Debug, Serialize)]
struct Value {
    engine: Engine,
    /// Median of the usable runs; null where there are none.
    value: Option<f64>,
    /// Share of the kernel's median.
    error: Option<f64>,
    /// Why the error is above 10 %, where that is known.
    cause: Option<&'static str>,
}

/// A doubt about runs of one scenario on one engine.
#[derive(Clone, Debug, Serialize)]
struct Doubt {
    engine: Engine,
    /// The worst of its kind.
    #[serde(flatten)]
    caveat: Caveat,
    /// Of how many runs it is told.
    runs: usize,
}

/// The errors of one engine.
#[derive(Debug, Serialize)]
struct Errors {
    engine: Engine,
    /// Whether both figures are within their bounds, over all rows.
    ok: bool,
    /// Null where there are no errors.
    median: Option<f64>,
    p90: Option<f64>,
}

#[derive(Debug, Serialize)]
struct Document {
    /// Whether all engines agree with the kernel.
    ok: bool,
    engines: Vec<Errors>,
    median_max: f64,
    p90_max: f64,
    runs: u32,
    interrupted: bool,
    rows: Vec<Row>,
}

/// What one scenario came to.
#[derive(Debug, Default)]
struct Ran {
    kernel: Vec<Outcome>,
    others: Vec<(Engine, Vec<Outcome>)>,
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<Exit> {
    let cells = chosen(args)?;
    let mut engines = args.engines.clone();
    engines.retain(|engine| *engine != Engine::Kernel);
    engines.sort_unstable();
    engines.dedup();
    if engines.is_empty() {
        let problem = Problem::usage("--engines: nothing to compare with the kernel");
        return Err(problem
            .hint("name `virtual`, `tun` or `tun-receiver`")
            .into());
    }
    let runs = args.runs.unwrap_or(if args.quick { 1 } else { RUNS });
    let ran = run_all(&cells, &engines, runs, output)?;
    let document = Document::new(&cells, &engines, &ran, runs);
    output.report("lab-agree", &document, || render(&document))?;
    Ok(if document.interrupted {
        Exit::Interrupted
    } else if document.rows.iter().any(Row::lacks_errors) {
        output.note("some scenarios have no usable run: see the caveats");
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
    let mut cells: Vec<Cell> = scenarios.iter().flat_map(Scenario::trials).collect();
    if !args.core {
        let quick = args.quick.then_some(Duration::from_secs(2));
        cells.extend(lab::everyday_cells(quick));
    }
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

/// Runs all cells once on all engines, then all of them again.
fn run_all(
    cells: &[Cell],
    engines: &[Engine],
    runs: u32,
    output: &Output,
) -> anyhow::Result<Vec<Ran>> {
    let kernel = &[Engine::Kernel][..];
    let runners: Vec<(Engine, Runner)> = [engines, kernel]
        .concat()
        .into_iter()
        .map(|engine| anyhow::Ok((engine, unwatched(engine)?)))
        .collect::<anyhow::Result<_>>()?;
    let total = u64::from(runs) * cells.len() as u64;
    let bar = Progress::bar(output, "agree", total * STEPS_PER_RUN);
    let mut ran: Vec<Ran> = cells.iter().map(|_| Ran::of(engines)).collect();
    let order = (0..runs).flat_map(|run| (0..cells.len()).map(move |cell| (run, cell)));
    // Virtual time passes at once.
    let in_real_time = runners.iter().filter(|(engine, _)| engine.is_real_time());
    let steps_of_each = STEPS_PER_RUN as f64 / in_real_time.count() as f64;
    for ((run, index), done) in order.zip(0_u64..) {
        let label = agreement_label(&cells[index]);
        bar.label(format!("run {} of {runs}: {label}", run + 1));
        let trial = cells[index].run(run);
        let mut begun = 0.0;
        let mut outcomes = Vec::new();
        for (engine, runner) in &runners {
            if interrupt::stopped() {
                return Ok(ran);
            }
            let is_real_time = engine.is_real_time();
            outcomes.push(runner.run(&trial, &mut |share| {
                if is_real_time {
                    let steps = (begun + share.unwrap_or(0.5).min(1.0)) * steps_of_each;
                    bar.set(done * STEPS_PER_RUN + steps as u64);
                }
            })?);
            begun += f64::from(u8::from(is_real_time));
        }
        if interrupt::stopped() {
            return Ok(ran);
        }
        ran[index].kernel.extend(outcomes.pop());
        for ((_, runs), outcome) in ran[index].others.iter_mut().zip(outcomes) {
            runs.push(outcome);
        }
    }
    Ok(ran)
}

/// An engine that nobody watches, which would take a processor from the hosts.
fn unwatched(engine: Engine) -> anyhow::Result<Runner> {
    Ok(match Runner::new(engine, None)? {
        Runner::RealTime(engine) => Runner::RealTime(RealTime {
            is_watched: false,
            ..engine
        }),
        Runner::Virtual(_) => Runner::Virtual(lab::Virtual::with_machine_costs()),
    })
}

impl Ran {
    fn of(engines: &[Engine]) -> Self {
        Self {
            kernel: Vec::new(),
            others: engines.iter().map(|engine| (*engine, Vec::new())).collect(),
        }
    }
}

impl Document {
    fn new(cells: &[Cell], engines: &[Engine], ran: &[Ran], runs: u32) -> Self {
        let interrupted = interrupt::stopped();
        let pairs = cells.iter().zip(ran);
        let rows: Vec<Row> = pairs
            .filter(|(_, ran)| !ran.kernel.is_empty())
            .flat_map(|(cell, ran)| {
                let metrics = lab::compared_metrics(&cell.trial.workload);
                metrics.iter().map(|metric| Row::new(cell, *metric, ran))
            })
            .collect();
        let errors = engines.iter().map(|engine| Errors::of(*engine, &rows));
        let engines: Vec<Errors> = errors.collect();
        Self {
            ok: !interrupted && engines.iter().all(|errors| errors.ok),
            engines,
            median_max: ERROR_MEDIAN_MAX,
            p90_max: ERROR_P90_MAX,
            runs,
            interrupted,
            rows,
        }
    }
}

impl Errors {
    fn of(engine: Engine, rows: &[Row]) -> Self {
        let values = rows.iter().flat_map(|row| &row.engines);
        let errors: Vec<f64> = values
            .filter(|value| value.engine == engine)
            .filter_map(|value| value.error)
            .collect();
        let median = lab::error_percentile(&errors, 0.5);
        let p90 = lab::error_percentile(&errors, 0.9);
        let within = |value: Option<f64>, max: f64| value.is_some_and(|value| value <= max);
        Self {
            engine,
            ok: errors.len() == rows.len()
                && within(median, ERROR_MEDIAN_MAX)
                && within(p90, ERROR_P90_MAX),
            median,
            p90,
        }
    }
}

impl Row {
    fn new(cell: &Cell, metric: Metric, ran: &Ran) -> Self {
        let label = agreement_label(cell);
        let kernel = lab::median_and_spread(metric, &ran.kernel);
        let value = |(engine, runs): &(Engine, Vec<Outcome>)| {
            let found = Agreement::of(metric, runs, &ran.kernel);
            let explain = |found| lab::known_cause(label, metric, ground(*engine), found);
            Value {
                engine: *engine,
                value: lab::median_and_spread(metric, runs).map(|(median, _)| median),
                error: found.map(|found| found.error),
                cause: found.as_ref().and_then(explain),
            }
        };
        Self {
            scenario: label.to_owned(),
            measure: metric.name(),
            kernel: kernel.map(|(median, _)| median),
            kernel_spread: kernel.map(|(_, spread)| spread),
            engines: ran.others.iter().map(value).collect(),
            caveats: doubts(ran),
            metric,
        }
    }

    fn lacks_errors(&self) -> bool {
        self.engines.iter().any(|value| value.error.is_none())
    }
}

fn is_large(error: f64) -> bool {
    error > ERROR_TO_EXPLAIN
}

const fn ground(engine: Engine) -> Ground {
    match engine.is_real_time() {
        true => Ground::RealPackets,
        false => Ground::VirtualTime,
    }
}

/// Each kind of doubt once for each engine.
fn doubts(ran: &Ran) -> Vec<Doubt> {
    let kernel = (Engine::Kernel, &ran.kernel);
    let others = ran.others.iter().map(|(engine, runs)| (*engine, runs));
    let told = [kernel]
        .into_iter()
        .chain(others)
        .flat_map(|(engine, runs)| {
            let caveats = runs.iter().flat_map(|outcome| &outcome.caveats);
            caveats.map(move |caveat| Doubt {
                engine,
                caveat: caveat.clone(),
                runs: 1,
            })
        });
    merged(told)
}

/// The worst of each kind on each engine.
fn merged(doubts: impl IntoIterator<Item = Doubt>) -> Vec<Doubt> {
    let mut kinds: Vec<Doubt> = Vec::new();
    for doubt in doubts {
        let same = kinds.iter_mut().find(|known| {
            known.engine == doubt.engine && is_same_doubt(&known.caveat, &doubt.caveat)
        });
        match same {
            Some(known) => {
                let runs = known.runs + doubt.runs;
                if severity(&doubt.caveat) > severity(&known.caveat) {
                    *known = doubt;
                }
                known.runs = runs;
            }
            None => kinds.push(doubt),
        }
    }
    kinds
}

fn render(document: &Document) -> String {
    let mut header = vec!["SCENARIO".to_owned(), String::new()];
    header.extend(["KERNEL".to_owned(), "SPREAD".to_owned()]);
    let engines = document.engines.iter();
    header.extend(engines.map(|errors| errors.engine.to_string().to_uppercase()));
    let names: Vec<&str> = header.iter().map(String::as_str).collect();
    let mut table = output::table(&names);
    for row in &document.rows {
        let kernel = show(row.metric, row.kernel);
        let mut cells = vec![
            row.scenario.clone(),
            measure_name(row.metric).to_owned(),
            kernel.clone(),
            percent(row.kernel_spread.filter(|_| document.runs > 1)),
        ];
        cells.extend(row.engines.iter().map(|value| beside(row, value, &kernel)));
        table.add_row(cells);
    }
    let numbers: Vec<usize> = (2..names.len()).collect();
    output::align_right(&mut table, &numbers);
    let mut text = output::render(&table);
    remarks(&mut text, document);
    text.push('\n');
    for errors in &document.engines {
        let verdict = match (document.interrupted, errors.ok) {
            (true, _) => "interrupted, not all runs were made",
            (_, true) => "agrees with the kernel",
            (_, false) => "does not agree with the kernel",
        };
        let (median, p90) = (percent(errors.median), percent(errors.p90));
        let words = format!(
            "{} {verdict}: median of the errors {median} (at most {}), 90th percentile {p90} (at \
             most {})",
            errors.engine,
            percent(Some(ERROR_MEDIAN_MAX)),
            percent(Some(ERROR_P90_MAX))
        );
        output::push_wrapped(&mut text, &words, "  ", 0);
    }
    text
}

/// Causes of large errors, each once with where they are, and doubts, each kind once per engine.
fn remarks(text: &mut String, document: &Document) {
    let mut causes: Vec<(&str, Vec<String>)> = Vec::new();
    for row in &document.rows {
        for value in row.engines.iter().filter(|v| v.error.is_some_and(is_large)) {
            let cause = value.cause.unwrap_or("cause not known");
            let place = format!(
                "{} {} ({})",
                row.scenario,
                measure_name(row.metric),
                value.engine
            );
            match causes.iter_mut().find(|(known, _)| *known == cause) {
                Some((_, places)) => places.push(place),
                None => causes.push((cause, vec![place])),
            }
        }
    }
    if !causes.is_empty() {
        text.push('\n');
    }
    for (cause, places) in causes {
        push_item(text, &format!("{cause}: {}", places.join(", ")));
    }
    let mut told = "";
    let once = document.rows.iter().filter(|row| {
        // Each row of a scenario has its doubts.
        std::mem::replace(&mut told, row.scenario.as_str()) != row.scenario
    });
    let doubts = merged(once.flat_map(|row| row.caveats.clone()));
    if !doubts.is_empty() {
        text.push('\n');
    }
    for doubt in doubts {
        let Doubt {
            engine,
            caveat,
            runs,
        } = doubt;
        let times = if runs == 1 { "run" } else { "runs" };
        push_item(text, &format!("{engine}, {runs} {times}: {caveat}"));
    }
}

fn push_item(text: &mut String, words: &str) {
    text.push_str("- ");
    output::push_wrapped(text, words, "  ", 2);
}

const fn measure_name(metric: Metric) -> &'static str {
    match metric {
        Metric::GoodputBps => "goodput",
        Metric::ResponseP50Us => "p50",
        Metric::ResponseP99Us => "p99",
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

/// An engine's value with its distance from the kernel's, which stands beside it: `94.1 -0.3%`.
/// The unit is left out where it is the same.
fn beside(row: &Row, value: &Value, kernel: &str) -> String {
    let own = show(row.metric, value.value);
    let unit = |text: &str| text.split_once(' ').map(|(_, unit)| unit.to_owned());
    let number = match own.split_once(' ') {
        Some((number, _)) if unit(&own) == unit(kernel) => number,
        _ => &own,
    };
    match (value.value, row.kernel, value.error) {
        (Some(value), Some(kernel), Some(_)) if value >= 10.0 * kernel => {
            format!("{number} x{:.0}", value / kernel)
        }
        (Some(value), Some(kernel), Some(error)) => {
            let sign = if value < kernel { "-" } else { "+" };
            format!("{number} {sign}{}", short_percent(error))
        }
        _ => number.to_owned(),
    }
}

/// In few columns: `8.4%`, `42%`.
fn short_percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent < 9.95 {
        true => format!("{percent:.1}%"),
        false => format!("{percent:.0}%"),
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
            engines: vec![Engine::Virtual],
            runs: None,
            quick: false,
            core: true,
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
        let engines = [Engine::Virtual, Engine::TunReceiver];
        let ran = [Ran {
            kernel: vec![disturbed],
            others: vec![
                (Engine::Virtual, vec![outcome(1040, 1050)]),
                (Engine::TunReceiver, vec![outcome(999, 2100)]),
            ],
        }];
        let document = Document::new(&cells, &engines, &ran, 1);
        assert_eq!(document.rows.len(), 2);
        assert!(
            !document.engines[0].ok,
            "the 99th percentile is off by 47 %"
        );
        assert!(document.engines[1].ok && !document.ok);
        assert_eq!(document.engines[0].median, Some(0.04));
        let text = anstream::adapter::strip_str(&render(&document)).to_string();
        for part in [
            "TUN-RECEIVER",
            "1.04 +4.0%",
            "1.05 -48%",
            "999 us -0.1%",
            "2.10 +5.0%",
            "virtual does not agree",
            "tun-receiver agrees",
            "kernel, 1 run: other work took 40 %",
            "wwr/cork p99 (virtual)",
        ] {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
        let json = serde_json::to_value(&document).expect("plain data");
        assert_eq!(json["rows"][0]["kernel"], 1000.0);
        assert_eq!(json["rows"][1]["engines"][1]["engine"], "tun-receiver");
        assert_eq!(json["rows"][1]["caveats"][0]["caveat"], "host-busy");
    }

    #[test]
    fn all_engines_side_by_side_take_a_hundred_columns() {
        let others = [Engine::Virtual, Engine::Tun, Engine::TunReceiver];
        let cells = cells();
        let run = || Outcome {
            goodput_bps: 123_456_789,
            ..outcome(980, 990)
        };
        let far = || Outcome {
            goodput_bps: 3_456_789,
            ..outcome(2_980, 13_990)
        };
        let ran: Vec<Ran> = cells
            .iter()
            .map(|_| Ran {
                kernel: vec![run(), run()],
                others: others.map(|engine| (engine, vec![far()])).into(),
            })
            .collect();
        let document = Document::new(&cells, &others, &ran, 2);
        let text = anstream::adapter::strip_str(&render(&document)).to_string();
        let table = text.split("\n\n").next().expect("a table first");
        let widest = table.lines().map(|line| line.trim_end().len()).max();
        assert!(widest <= Some(100), "{widest:?}\n{table}");
        assert_eq!(table.lines().count(), document.rows.len() + 1, "{table}");
    }

    #[test]
    fn a_scenario_without_a_usable_run_has_no_error() {
        let cells = chosen(&args(&["wwr/cork"])).expect("it exists");
        let mut failed = outcome(1000, 2000);
        failed.caveats.push(Caveat::EndedEarly { why: "x".into() });
        let ran = [Ran {
            kernel: vec![failed],
            others: vec![(Engine::Virtual, vec![outcome(1000, 2000)])],
        }];
        let document = Document::new(&cells, &[Engine::Virtual], &ran, 1);
        assert!(!document.ok && document.engines[0].median.is_none());
        assert!(document.rows.iter().all(Row::lacks_errors));
    }
}
