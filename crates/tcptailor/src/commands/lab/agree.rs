//! Agreement of our stack with the kernel of this machine, in virtual time and on real packets.

mod recorded;
mod table;

use std::borrow::Cow;
use std::path::PathBuf;
use std::time::Duration;

use lab::{
    Agreement, Caveat, Cell, ERROR_MEDIAN_MAX, ERROR_P90_MAX, ERROR_TO_EXPLAIN, Metric, Outcome,
    Scenario, StackMode, agreement_label, agreement_scenarios,
};
use linux::kernel::RealTime;
use serde::Serialize;

use super::run::{Engine, Runner};
use crate::exit::{Exit, Problem};
use crate::interrupt;
use crate::output::Output;
use crate::progress::Progress;

/// Runs of each scenario without `--runs`.
const RUNS: u32 = 3;
/// Measured time of each scenario with `--quick`.
const QUICK_DURATION: Duration = Duration::from_secs(2);
/// Steps of the progress bar per run.
const STEPS_PER_RUN: u64 = 1000;

/// Compare our stack with the kernel of this machine.
///
/// Runs scenarios on the engines, interleaved, and shows how far the medians are from the kernel's:
/// goodput, and median and 99th percentile of the response times. Errors above 10 % come with their
/// cause. The scenarios are those made for this comparison and the everyday ones, shortened to four
/// seconds, with the same congestion control on all engines. In virtual time the CPU costs of the
/// hosts and of the emulator are included. Takes 25 minutes, and 20 more for each engine on real
/// packets; needs an otherwise idle machine. With `--results` it compares the experiments of a
/// folder that `lab reproduce` wrote, and runs nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tcptailor lab agree                      the whole table in virtual time, three runs each
  tcptailor lab agree --core               only the scenarios that were made for it
  tcptailor lab agree bulk wwr/cork        a scenario with all its variants, and one of another
  tcptailor lab agree --engines virtual,tun,tun-receiver --quick   all engines, a short run each
  tcptailor lab agree --runs 9 --json      as data
  tcptailor lab agree --results results    the experiments that `lab reproduce -o results` ran

Letters stand for the causes of large errors, explained below the table; `?`: cause unknown.

Exit code 3 if the median of an engine's errors is above 5 % or their 90th percentile above 15 %; 1
if a scenario has no valid run. A machine too busy for the comparison is reported, and is not a
failure.")]
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
    /// Compare the experiments in this folder of `lab reproduce`; run nothing.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["core", "runs", "quick"])]
    results: Option<PathBuf>,
}

impl Args {
    /// Whether a path of this machine is laid.
    pub(super) const fn lays_path(&self) -> bool {
        self.results.is_none()
    }
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
    /// Other work may have made the error: it had the processors in all runs on one of the engines.
    is_disturbed: bool,
}

/// A doubt about runs of one scenario on one engine.
#[derive(Clone, Debug, Serialize)]
struct Doubt {
    engine: Engine,
    /// The worst of its kind.
    #[serde(flatten)]
    caveat: Caveat,
    /// Number of runs.
    runs: usize,
}

/// Verdict on the errors of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Verdict {
    /// Both figures are within their bounds, over all rows.
    Agrees,
    /// One is not, by the numbers alone that nothing disturbed, which are half of all or more.
    Differs,
    /// The machine may have made the errors, or numbers are missing.
    NotDistinguishable,
}

/// The errors of one engine.
#[derive(Debug, Serialize)]
struct Errors {
    engine: Engine,
    /// Whether it agrees.
    ok: bool,
    verdict: Verdict,
    #[serde(flatten)]
    figures: Figures,
    /// Numbers that were to be compared.
    numbers: usize,
    /// Of these, missing runs, and runs that other work may have disturbed.
    doubtful: usize,
}

/// Summary of many errors.
#[derive(Clone, Copy, Debug, Serialize)]
struct Figures {
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

/// Results of one scenario.
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
    let (ran, runs) = match &args.results {
        Some(folder) => {
            let ran = recorded::runs(folder, &cells, &engines)?;
            engines.retain(|engine| ran.iter().any(|ran| ran.is_beside(*engine)));
            let runs = ran.iter().map(|ran| ran.kernel.len()).max();
            (ran, u32::try_from(runs.unwrap_or(0)).unwrap_or(u32::MAX))
        }
        None => {
            let runs = args.runs.unwrap_or(if args.quick { 1 } else { RUNS });
            (run_all(&cells, &engines, runs, output)?, runs)
        }
    };
    let document = Document::new(&cells, &engines, &ran, runs);
    output.report("lab-agree", &document, || table::render(&document))?;
    Ok(if document.interrupted {
        Exit::Interrupted
    } else if document.rows.iter().any(Row::lacks_errors) {
        output.note("some scenarios have no usable run: see the caveats");
        Exit::Failed
    } else if document.has(Verdict::Differs) {
        Exit::Findings
    } else {
        if !document.ok {
            output.note("other work had the processors: measure again on a quiet machine");
        }
        Exit::Done
    })
}

/// The cells that the user names, in the order of the table.
fn chosen(args: &Args) -> Result<Vec<Cell>, Problem> {
    let cells = match args.results {
        Some(_) => recorded::cells(),
        None => made_for_it(args)?,
    };
    for name in &args.scenarios {
        if !cells.iter().any(|cell| is_meant(name, cell)) {
            let labels = cells.iter().map(agreement_label);
            let mut scenarios: Vec<&str> =
                labels.filter_map(|label| label.split('/').next()).collect();
            scenarios.dedup();
            let hint = format!("these are compared: {}", scenarios.join(", "));
            return Err(Problem::usage(format!("no scenario `{name}` is compared")).hint(hint));
        }
    }
    let named = |cell: &Cell| args.scenarios.iter().any(|name| is_meant(name, cell));
    Ok(cells
        .into_iter()
        .filter(|cell| args.scenarios.is_empty() || named(cell))
        .collect())
}

/// The cells of the scenarios that were made for the comparison, and of the everyday ones.
fn made_for_it(args: &Args) -> Result<Vec<Cell>, Problem> {
    let mut scenarios = agreement_scenarios();
    if args.quick {
        for scenario in &mut scenarios {
            shorten(scenario)?;
        }
    }
    let mut cells: Vec<Cell> = scenarios.iter().flat_map(Scenario::trials).collect();
    if !args.core {
        let quick = args.quick.then_some(QUICK_DURATION);
        cells.extend(lab::everyday_cells(quick));
    }
    Ok(cells)
}

fn shorten(scenario: &mut Scenario) -> Result<(), Problem> {
    scenario
        .set("workload.duration", &base::format_duration(QUICK_DURATION))
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

/// An engine without samples, which would take a processor from the hosts.
fn unwatched(engine: Engine) -> anyhow::Result<Runner> {
    Ok(match Runner::new(engine, None, None)? {
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

    /// Whether it ran on the kernel and on another engine.
    fn is_comparable(&self) -> bool {
        !self.kernel.is_empty() && !self.others.is_empty()
    }

    /// Whether it ran on the kernel and on this one.
    fn is_beside(&self, engine: Engine) -> bool {
        !self.kernel.is_empty() && self.others.iter().any(|(other, _)| *other == engine)
    }
}

impl Document {
    fn new(cells: &[Cell], engines: &[Engine], ran: &[Ran], runs: u32) -> Self {
        let is_complete = |ran: &Ran| ran.kernel.len() >= runs as usize;
        let interrupted = interrupt::stopped() && !ran.iter().all(is_complete);
        let pairs = cells.iter().zip(ran);
        let rows: Vec<Row> = pairs
            .filter(|(_, ran)| ran.is_comparable())
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

    fn has(&self, verdict: Verdict) -> bool {
        self.engines.iter().any(|errors| errors.verdict == verdict)
    }
}

impl Errors {
    fn of(engine: Engine, rows: &[Row]) -> Self {
        let values = rows.iter().flat_map(|row| &row.engines);
        let values: Vec<&Value> = values.filter(|value| value.engine == engine).collect();
        let numbers = values.len();
        let (disturbed, sound): (Vec<&Value>, Vec<&Value>) = values
            .into_iter()
            .filter(|value| value.error.is_some())
            .partition(|value| value.is_disturbed);
        let of_sound = Figures::of(&sound);
        let figures = Figures::of(&[&sound[..], &disturbed].concat());
        let doubtful = numbers - sound.len();
        let is_complete = sound.len() + disturbed.len() == numbers;
        let verdict = if is_complete && figures.are_within() {
            Verdict::Agrees
        } else if 2 * sound.len() >= numbers && !of_sound.are_within() {
            Verdict::Differs
        } else {
            Verdict::NotDistinguishable
        };
        Self {
            engine,
            ok: verdict == Verdict::Agrees,
            verdict,
            figures,
            numbers,
            doubtful,
        }
    }
}

impl Figures {
    fn of(values: &[&Value]) -> Self {
        let errors: Vec<f64> = values.iter().filter_map(|value| value.error).collect();
        Self {
            median: lab::stats::median(&errors),
            p90: lab::error_percentile(&errors, 0.9),
        }
    }

    fn are_within(&self) -> bool {
        let within = |value: Option<f64>, max: f64| value.is_some_and(|value| value <= max);
        within(self.median, ERROR_MEDIAN_MAX) && within(self.p90, ERROR_P90_MAX)
    }
}

impl Row {
    fn new(cell: &Cell, metric: Metric, ran: &Ran) -> Self {
        let label = agreement_label(cell);
        let kernel = lab::median_and_spread(metric, &ran.kernel);
        let value = |(engine, runs): &(Engine, Vec<Outcome>)| {
            let found = Agreement::of(metric, runs, &ran.kernel);
            let explain =
                |found| lab::known_cause(cell, metric, ground(*engine), found, &ran.kernel);
            Value {
                engine: *engine,
                value: lab::median_and_spread(metric, runs).map(|(median, _)| median),
                error: found.map(|found| found.error),
                cause: found.as_ref().and_then(explain),
                is_disturbed: found.is_some_and(|found| found.is_disturbed),
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

const fn ground(engine: Engine) -> StackMode {
    match engine.is_real_time() {
        true => StackMode::RealPackets,
        false => StackMode::VirtualTime,
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
            let kinds = lab::caveat_kinds(runs).into_iter();
            kinds.map(move |kind| Doubt {
                engine,
                caveat: kind.worst,
                runs: kind.runs,
            })
        });
    told.collect()
}

#[cfg(test)]
mod tests;
