//! Scenarios on an engine: every cell, several times, with what is expected of them.

mod document;
mod engine;
mod events;
mod page;
mod record;
mod screen;

use std::path::{Path, PathBuf};
use std::str::FromStr;

use base::Diagnostic;
use clap::builder::PossibleValuesParser;
use lab::{Cell, Metric, Outcome, Scenario};
use papers::experiments::{find_scenario_text, read_scenario};
use stack::profile::PROFILES;

use self::document::{Document, Shown};
pub(super) use self::engine::{Engine, Runner};
use self::record::Records;
use super::calibrate;
use super::folder::{check_page, write_page};
use crate::exit::{Exit, Problem};
use crate::interrupt;
use crate::output::{self, Output};
use crate::progress::Progress;

/// A scenario file has at most 256 KiB; what is longer is not read to its end.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Steps of the progress bar per run.
const STEPS_PER_RUN: u64 = 1000;
/// Fewest and most runs of a cell with `--runs auto`: of fewer than six no interval of a median is
/// one of 95 %, and what thirty do not decide is not decided by some more.
const AUTO_RUNS: (u32, u32) = (6, 30);

/// Run a scenario: every variant at every point of its sweep.
///
/// Sets up the path, starts two programs, measures, and checks the scenario's expectations.
/// Several runs are interleaved (first all cells once, then all again) and shown as medians.
/// Timed workloads have one second of warm-up.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tcptailor lab list                                        the built-in scenarios
  tcptailor lab run wan-bulk                                one of them
  tcptailor lab run lan-wwr --runs 5                        medians with their range
  tcptailor lab run wan-bulk --runs auto                    until its medians are known to 5 %
  tcptailor lab run wan-bulk --set path.rtt=80ms --json     on another path, as JSON
  tcptailor lab run wan-bulk --engine tun                   our TCP sends to the kernel's
  tcptailor lab run lan-wwr --engine virtual --pcap a.pcapng  in virtual time, with its packets
  tcptailor lab run lossy-100m --engine virtual --events a.jsonl  with what happens in the hosts
  tcptailor lab run wan-bulk --html wan.html                as a page with plots
  tcptailor lab run ./mine.toml --jsonl                     a file; a line of JSON per run

Exit code 3 if an expectation of the scenario fails, 1 if a cell has no valid run.")]
pub(crate) struct Args {
    /// A built-in scenario, or a file.
    #[arg(value_name = "SCENARIO")]
    scenario: String,
    /// TCP implementations of the two hosts. With `tun` and `tun-receiver` a `loopback` path
    /// becomes a veth pair.
    #[arg(long, value_name = "ENGINE", default_value = "kernel")]
    engine: Engine,
    /// Override one setting of all cells, such as `path.rtt=80ms` or `client.nodelay=on`.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Runs of each cell, each with a different seed; `auto`: 6 to 30, until the medians of
    /// goodput, response time and expected metrics are known to within 5 %.
    #[arg(long, value_name = "N|auto")]
    runs: Option<Runs>,
    /// Seed of the random number generators.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// The stack of hosts whose scenario names none (`client.profile`).
    #[arg(long, value_name = "NAME")]
    #[arg(value_parser = PossibleValuesParser::new(PROFILES.iter().map(|(name, _)| *name)))]
    profile: Option<String>,
    /// CPU costs of hosts in virtual time, from `lab calibrate -o FILE` [default: those of a
    /// typical Linux host].
    #[arg(long, value_name = "FILE")]
    costs: Option<PathBuf>,
    /// Write the packets of the first run of the first cell, at both ends, to a pcapng file; only
    /// in virtual time.
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// Write the events inside both hosts in the first run of the first cell to this file, a line
    /// of JSON for each packet, timer, state, window, round-trip time and limit; only in virtual
    /// time. A second of a fast path may make 100 MB.
    #[arg(long, value_name = "FILE")]
    events: Option<PathBuf>,
    /// Also write the results as an HTML page with plots; it needs no network.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print a line of JSON for each run as soon as it is over.
    #[arg(long, conflicts_with = "json")]
    jsonl: bool,
    /// With `--json` or `--jsonl`: add the course of each run, a few hundred points of goodput,
    /// round-trip time, windows, queue and limit.
    #[arg(long)]
    series: bool,
}

/// How often cells are run.
#[derive(Clone, Copy, Debug)]
enum Runs {
    /// What a scenario may say too.
    Exactly(u32),
    /// By the spread of what came out.
    Auto,
}

impl FromStr for Runs {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => Ok(Self::Auto),
            _ => match text.parse() {
                Ok(runs) => Ok(Self::Exactly(runs)),
                Err(_) => Err("write a number, or `auto`"),
            },
        }
    }
}

/// One run of one cell.
#[derive(Debug)]
struct Ran {
    /// Index of the cell.
    cell: usize,
    /// From 0.
    run: u32,
    seed: u64,
    outcome: Outcome,
}

impl Args {
    /// Whether it needs a path of this machine.
    pub(crate) const fn lays_path(&self) -> bool {
        !matches!(self.engine, Engine::Virtual)
    }

    /// Most runs of each cell; the scenario has the fewest.
    const fn runs_max(&self, scenario: &Scenario) -> u32 {
        match self.runs {
            Some(Runs::Auto) => AUTO_RUNS.1,
            Some(Runs::Exactly(_)) | None => scenario.runs,
        }
    }

    /// `scenario` with what is overridden; its file asks for `runs_of_file` runs.
    const fn shown(&self, scenario: &Scenario, runs_of_file: u32) -> Shown {
        Shown {
            engine: self.engine,
            runs_of_file,
            runs_max: self.runs_max(scenario),
            series: self.series,
            costs: None,
        }
    }

    fn records(&self) -> Records<'_> {
        Records {
            pcap: self.pcap.as_deref(),
            events: self.events.as_deref(),
        }
    }
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<Exit> {
    let mut scenario = load(&args.scenario)?.on(args.engine.into());
    let runs_of_file = scenario.runs;
    override_settings(&mut scenario, args)?;
    if let Some(probe) = scenario.probe {
        let name = &scenario.name;
        let problem = Problem::usage(format!("`{name}` is a probe, not a trial: {}", probe.about));
        let hint = format!("`tcptailor lab reproduce {name}` runs it");
        return Err(problem.hint(hint).into());
    }
    check_page(args.html.as_deref())?;
    let costs = args.costs.as_deref().map(calibrate::read).transpose()?;
    let runner = Runner::new(args.engine, args.profile.as_deref(), costs)?;
    let cells = scenario.trials();
    let (ran, lines) = run_all(&scenario, &cells, &runner, args, output)?;
    let shown = Shown {
        costs: runner.costs(),
        ..args.shown(&scenario, runs_of_file)
    };
    let document = Document::new(&scenario, &cells, &ran, shown);
    let told = if args.jsonl {
        for why in document.failed_expectations() {
            output.note(format!("expectation failed: {why}"));
        }
        output::unless_reader_left(lines)
    } else {
        output.report("lab-run", &document, || {
            screen::render(&scenario, &cells, &ran, &document)
        })
    };
    // If one of the two cannot be written, the other is not lost.
    if let Some(path) = &args.html {
        let page = page::render(&scenario, &cells, &ran, (&document, args.engine));
        write_page(path, &page)?;
    }
    told?;
    Ok(if document.interrupted {
        Exit::Interrupted
    } else if document.failed_expectations().next().is_some() {
        if args.profile.is_some() || !args.set.is_empty() {
            output.note("the expectations are about the scenario without --set and --profile");
        }
        Exit::Findings
    } else if has_result(&cells, &ran) {
        Exit::Done
    } else {
        output.note("some cells have no usable run: see the caveats");
        Exit::Failed
    })
}

/// Whether each cell has a run that counts.
fn has_result(cells: &[Cell], ran: &[Ran]) -> bool {
    (0..cells.len()).all(|cell| {
        ran.iter()
            .any(|ran| ran.cell == cell && ran.outcome.is_usable())
    })
}

/// A built-in scenario by its name, or a file.
fn load(name: &str) -> Result<Scenario, Problem> {
    let (file, text) = load_text(name)?;
    read_scenario(&file, &text).map_err(|diagnostics| mistakes(&diagnostics))
}

/// The name of a scenario's file, for messages, and its text.
pub(super) fn load_text(name: &str) -> Result<(String, String), Problem> {
    let unknown = match find_scenario_text(name) {
        Ok((builtin, text)) => return Ok((format!("{builtin}.toml"), text.to_owned())),
        Err(unknown) => unknown,
    };
    let is_path = name.contains('/') || name.ends_with(".toml") || Path::new(name).exists();
    if !is_path {
        return Err(Problem::usage(unknown)
            .hint("`tcptailor lab list` names the scenarios; a file is named as `./mine.toml`"));
    }
    Ok((name.to_owned(), read_file(name)?))
}

/// A scenario file and its text.
pub(super) fn load_file(name: &str) -> Result<(Scenario, String), Problem> {
    let text = read_file(name)?;
    let scenario = read_scenario(name, &text).map_err(|diagnostics| mistakes(&diagnostics))?;
    Ok((scenario, text))
}

fn read_file(name: &str) -> Result<String, Problem> {
    output::read_text(Path::new(name), FILE_BYTES_MAX)
}

fn override_settings(scenario: &mut Scenario, args: &Args) -> Result<(), Problem> {
    let mut set = |key: &str, value: &str| {
        scenario
            .set(key, value)
            .map_err(|diagnostics| mistakes(&diagnostics))
    };
    for setting in &args.set {
        let Some((key, value)) = setting.split_once('=') else {
            let message = format!("--set {setting}: write KEY=VALUE, such as path.rtt=80ms");
            return Err(Problem::usage(message));
        };
        set(key.trim(), value.trim())?;
    }
    if let Some(seed) = args.seed {
        set("seed", &seed.to_string())?;
    }
    match args.runs {
        Some(Runs::Exactly(runs)) => set("runs", &runs.to_string()),
        Some(Runs::Auto) => set("runs", &AUTO_RUNS.0.to_string()),
        None => Ok(()),
    }
}

/// A setting requested by `--set` that was not applied is an error, not a caveat.
fn check_applied(set: &[String], outcome: &Outcome) -> Result<(), Problem> {
    for setting in set {
        let key = setting.split_once('=').map_or("", |(key, _)| key.trim());
        if let Some(why) = outcome.refusal(key) {
            return Err(Problem::usage(format!("--set {setting}: {why}")).hint(
                "Another --engine may have it; `tcptailor knobs` lists what each knob takes.",
            ));
        }
    }
    Ok(())
}

/// All mistakes, a line each.
pub(super) fn mistakes(diagnostics: &[Diagnostic]) -> Problem {
    let lines: Vec<String> = diagnostics.iter().map(ToString::to_string).collect();
    Problem::usage(lines.join("\n"))
}

/// Runs all cells once, then all of them again: what changes on this machine meanwhile changes
/// every cell alike. Returns too whether all lines of `--jsonl` could be written; the runs after
/// one that could not are made all the same.
fn run_all(
    scenario: &Scenario,
    cells: &[Cell],
    runner: &Runner,
    args: &Args,
    output: &Output,
) -> anyhow::Result<(Vec<Ran>, anyhow::Result<()>)> {
    let runs_max = args.runs_max(scenario);
    let total = u64::from(runs_max) * cells.len() as u64;
    // With `--jsonl` the lines show the progress, and they may go to the same terminal.
    let shown = (!args.jsonl).then_some(output);
    let bar =
        shown.map(|output| Progress::bar(output, scenario.name.clone(), total * STEPS_PER_RUN));
    let mut ran: Vec<Ran> = Vec::new();
    let mut lines = Ok(());
    let order = (0..runs_max).flat_map(|run| (0..cells.len()).map(move |cell| (run, cell)));
    // What is known well enough is passed over, as if it were done.
    for ((run, index), done) in order.zip(0_u64..) {
        if interrupt::stopped() {
            break;
        }
        let cell = &cells[index];
        if !wants_another_run(
            scenario,
            (index, cell),
            &ran,
            args.shown(scenario, scenario.runs),
        ) {
            continue;
        }
        let trial = cell.run(run);
        if let Some(bar) = &bar {
            bar.label(format!("run {} of {}: {}", run + 1, runs_max, cell.id));
        }
        let mut show = |share: Option<f64>| {
            if let Some(bar) = &bar {
                bar.set(done * STEPS_PER_RUN + step(share));
            }
        };
        let records = args.records();
        let outcome = if done == 0 && !records.is_empty() {
            runner.record(cell, &trial, records)?
        } else {
            runner.run(&trial, &mut show)?
        };
        if interrupt::stopped() && outcome.duration_s <= 0.0 {
            break;
        }
        check_applied(&args.set, &outcome)?;
        let row = Ran {
            cell: index,
            run,
            seed: trial.seed,
            outcome,
        };
        if args.jsonl && lines.is_ok() {
            let row = document::row(scenario, cell, &row, args.shown(scenario, scenario.runs));
            lines = output.json_line(&row);
        }
        ran.push(row);
    }
    Ok((ran, lines))
}

/// Whether a cell has not had its runs, by its number of them or by what came out.
fn wants_another_run(
    scenario: &Scenario,
    (index, cell): (usize, &Cell),
    ran: &[Ran],
    shown: Shown,
) -> bool {
    let of_cell = ran.iter().filter(|ran| ran.cell == index);
    let outcomes: Vec<&Outcome> = of_cell.map(|ran| &ran.outcome).collect();
    let expectations = scenario.expectations.iter();
    let expected = expectations
        .filter(|expectation| expectation.applies_on(shown.engine.into()))
        .filter(|expectation| expectation.needs(cell.variant.as_deref()))
        .map(|expectation| expectation.metric);
    let metrics = expected.chain([Metric::GoodputBps, Metric::ResponseP50Us]);
    let bounds = (scenario.runs as usize, shown.runs_max as usize);
    lab::wants_another_run(&outcomes, metrics, bounds)
}

fn step(share: Option<f64>) -> u64 {
    (share.unwrap_or(0.5).min(1.0) * STEPS_PER_RUN as f64) as u64
}

#[cfg(test)]
mod tests;
