//! The experiments of the published documents, run on this machine and set beside what they say.

mod cells;
mod drawing;
mod folder;
mod markdown;
mod origin;
mod screen;
mod surroundings;

use std::path::{Path, PathBuf};
use std::time::Duration;

use lab::EngineName;
use lab::app::HostCosts;
use lab::judge::Verdict;
use papers::evaluation::Reproduction;
use papers::figures::Drawing;
use papers::page::{CellRef, Courses};
use papers::reproduction::{Campaign, Chosen, Extent, Line, Wanted};
use serde::Serialize;

pub(super) use self::folder::lines as recorded;
use self::folder::{Folder, Head};
use self::surroundings::Surroundings;
use super::calibrate;
use super::folder::{check_page, write_page};
use super::run::{Engine, load_file};
use crate::exit::{Exit, Problem};
use crate::interrupt;
use crate::output::{self, Output};

/// From this many runs in real time on, it takes an hour and more.
const LONG_RUNS: u64 = 500;

/// Run the experiments of published documents and compare the results with theirs.
///
/// Every experiment is a scenario file with the numbers of its document and the expected results.
/// Runs are interleaved: all cells once on all engines that this machine has, then all of them
/// again; cells whose numbers spread are run up to twice as often. An experiment whose engine is
/// missing is reported as not run.
///
/// Figures of the documents are drawn from the runs; of w1, w2, w6 and r2 the first packets, a
/// stall beside its repair.
///
/// `calibrated`: a parameter was fitted to this very number, so that it is not a prediction.
/// `deviates as expected`: the published statement does not hold, and the scenario claims just
/// that. docs/reproduce.md says how to read the table.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tcptailor lab reproduce --quick                    all experiments, short, in virtual time mostly
  tcptailor lab reproduce netburner                  those of one document
  tcptailor lab reproduce n1 w2a --engines virtual   two of them, in virtual time
  tcptailor lab reproduce all -o results             everything; each run is written down at once,
                                                     the same command goes on after Ctrl-C, and in
                                                     the end results/index.html has plots
  tcptailor lab reproduce --show results             the same table again, without running anything
  tcptailor lab reproduce --show results --html r.html   the same as a page with plots

Exit code 3 if a claim that must hold fails.")]
pub(crate) struct Args {
    /// Documents (netburner, datacenter, winsock, freebsd, cork), experiments (n1, w2a, ...),
    /// files, or `all`; all without.
    #[arg(value_name = "EXPERIMENT")]
    experiments: Vec<String>,
    /// Write each run and the result to this folder; runs that it already has are not repeated.
    #[arg(short, long, value_name = "DIR", conflicts_with = "show")]
    output: Option<PathBuf>,
    /// Short: fewer operations, one run, as the files say.
    #[arg(long)]
    quick: bool,
    /// Only these engines of those that the files name.
    #[arg(long, value_name = "ENGINE,...", value_delimiter = ',')]
    engines: Vec<Engine>,
    /// Runs of each cell, instead of what the files say; no extra runs where numbers spread.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=999))]
    runs: Option<u32>,
    /// What the work of hosts takes in virtual time, from a file of `lab calibrate`; without, what
    /// it takes on a usual Linux host. Some claims are about one of the two.
    #[arg(long, value_name = "FILE")]
    costs: Option<PathBuf>,
    /// Also write the results as an HTML page with plots; it needs no network.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// With --show: as a page of Markdown; with --json too, the figures alone.
    #[arg(long, requires = "show", conflicts_with = "html")]
    markdown: bool,
    /// Show the results in a folder; run nothing.
    #[arg(long, value_name = "DIR")]
    #[arg(conflicts_with_all = ["experiments", "quick", "engines", "runs", "costs"])]
    show: Option<PathBuf>,
}

impl Args {
    /// Whether a path of this machine may be laid. It can be done without: engines that cannot run
    /// are told.
    pub(super) fn lays_path(&self) -> bool {
        let is_real_time = |engine: &Engine| engine.is_real_time();
        self.show.is_none() && (self.engines.is_empty() || self.engines.iter().any(is_real_time))
    }

    fn wanted(&self, costs: Option<HostCosts>) -> Wanted {
        let named: Vec<EngineName> = self.engines.iter().map(|engine| (*engine).into()).collect();
        let mut engines = EngineName::ALL.to_vec();
        engines.retain(|engine| named.is_empty() || named.contains(engine));
        Wanted {
            engines,
            quick: self.quick,
            runs: self.runs,
            costs,
        }
    }
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<Exit> {
    check_page(args.html.as_deref())?;
    if let Some(folder) = &args.show {
        return match args.markdown {
            true => markdown(folder, output),
            false => show(folder, args.html.as_deref(), output),
        };
    }
    let began = linux::Clock.now();
    let chosen = chosen(&args.experiments)?;
    let scenarios = chosen.iter().map(|chosen| &chosen.scenario);
    let costs = args.costs.as_deref().map(calibrate::read).transpose()?;
    let mut campaign = Campaign::new(scenarios, args.wanted(costs));
    let mut folder = match &args.output {
        Some(path) => {
            let texts = chosen.iter().map(|one| (&*one.scenario.name, &*one.text));
            let head = Head::new(texts, args.quick, costs);
            Some(open((path, &head), &mut campaign, output)?)
        }
        None => None,
    };
    if !args.quick {
        output.note(announcement(campaign.extent()));
    }
    campaign.run(&mut Surroundings::new(output, folder.as_mut()))?;
    let mut document = campaign.document();
    document.summary.interrupted = interrupt::stopped() && campaign.wants_more();
    document.summary.elapsed_s = linux::Clock.now().since(began).as_secs_f64();
    let told = report(&document, output);
    // If one of the two cannot be written, the other is not lost.
    if folder.is_some() || args.html.is_some() {
        let page = courses(&campaign).page(&document, output::provenance());
        if let Some(folder) = &folder {
            folder.finish(&output::document("lab-reproduce", &document)?, &page)?;
        }
        if let Some(path) = &args.html {
            write_page(path, &page)?;
        }
    }
    told?;
    Ok(exit(&document))
}

/// The experiments that the user names, each once: first the built-in ones in the order of the
/// documents, then files; all that are built in where nothing is named.
fn chosen(names: &[String]) -> Result<Vec<Chosen>, Problem> {
    let is_file = |name: &&str| name.contains('/') || name.ends_with(".toml");
    let names = names.iter().map(String::as_str);
    let (files, mut names): (Vec<&str>, Vec<&str>) = names.partition(is_file);
    if files.is_empty() && names.is_empty() {
        names.push("all");
    }
    let chosen = papers::reproduction::chosen(names);
    let mut chosen = chosen.map_err(|unknown| {
        let hint = unknown.hint();
        Problem::usage(unknown).hint(hint)
    })?;
    for file in files {
        let (scenario, text) = load_file(file)?;
        if scenario.experiment.is_none() {
            let problem = Problem::usage(format!("{file} is not an experiment"));
            return Err(problem.hint("an experiment has a table `[experiment]`"));
        }
        let name = &scenario.name;
        if chosen.iter().any(|other| other.scenario.name == *name) {
            return Err(Problem::usage(format!(
                "two experiments are named `{name}`"
            )));
        }
        chosen.push(Chosen { scenario, text });
    }
    Ok(chosen)
}

/// How much is to be run, for whom did not expect it.
fn announcement(extent: Extent) -> String {
    let Extent {
        experiments,
        in_virtual_time,
        in_real_time,
    } = extent;
    let runs = base::human::count(in_virtual_time + in_real_time, "run");
    let experiments = base::human::count(experiments, "experiment");
    let mut text = format!("{experiments}, {runs} at least");
    if in_real_time > 0 {
        text += &format!(", {in_real_time} of them in real time, one after the other");
    }
    if in_real_time >= LONG_RUNS {
        text += "; --quick takes half a minute";
    }
    text
}

/// Shows the results of a folder again.
fn show(folder: &Path, html: Option<&Path>, output: &Output) -> anyhow::Result<Exit> {
    let text = folder::document(folder)?;
    let document = parse(&text, folder)?;
    let told = report(&document, output);
    if let Some(path) = html {
        let mut courses = Courses::default();
        for line in folder::lines(folder)? {
            courses.offer(place_of(&line), &line.outcome);
        }
        let origin = origin::recorded(&text);
        write_page(path, &courses.page(&document, origin))?;
    }
    told?;
    Ok(exit(&document))
}

/// The figures of a folder as a document.
#[derive(Debug, Serialize)]
struct Figures {
    figures: Vec<Drawing>,
}

/// Results of a folder as Markdown; in JSON the figures alone, since `--json` without it shows the
/// rest.
fn markdown(folder: &Path, output: &Output) -> anyhow::Result<Exit> {
    let text = folder::document(folder)?;
    let document = parse(&text, folder)?;
    let page = markdown::render(&document, &origin::of(&text));
    let experiments = document.experiments.into_iter();
    let figures = Figures {
        figures: experiments.flat_map(|one| one.drawings).collect(),
    };
    output.report("lab-reproduce-figures", &figures, || page)?;
    Ok(Exit::Done)
}

fn report(document: &Reproduction, output: &Output) -> anyhow::Result<()> {
    output.report("lab-reproduce", document, || {
        screen::render(document, output.verbosity() > 0)
    })
}

fn place_of(line: &Line) -> CellRef<'_> {
    CellRef {
        scenario: &line.scenario,
        variant: line.variant.as_deref(),
        axes: &line.axes,
        engine: line.engine,
    }
}

/// How runs went, for the page.
fn courses(campaign: &Campaign) -> Courses {
    let mut courses = Courses::default();
    for (scenario, cell, run) in campaign.runs() {
        let place = CellRef {
            scenario,
            variant: cell.variant.as_deref(),
            axes: &cell.axes,
            engine: run.engine,
        };
        courses.offer(place, &run.outcome);
    }
    courses
}

fn exit(document: &Reproduction) -> Exit {
    if document.summary.interrupted {
        Exit::Interrupted
    } else if document.summary.verdicts.fails > 0 {
        Exit::Findings
    } else {
        Exit::Done
    }
}

/// Opens the folder and takes the runs that it has.
fn open(
    (path, head): (&Path, &Head),
    campaign: &mut Campaign,
    output: &Output,
) -> anyhow::Result<Folder> {
    let in_real_time = campaign.extent().in_real_time > 0;
    let (folder, lines) = Folder::open(path, head, in_real_time, output)?;
    if !lines.is_empty() {
        let there = base::human::count(lines.len() as u64, "run");
        output.note(format!("{} has {there} already: going on", path.display()));
    }
    campaign.take(lines);
    Ok(folder)
}

/// Seconds from a file; an invalid time is `None`.
fn duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

fn parse(text: &str, folder: &Path) -> anyhow::Result<Reproduction> {
    let damaged = |error: serde_json::Error| {
        let message = format!("{} has no whole result: {error}", folder.display());
        Problem::usage(message).hint(
            "run `lab reproduce` with the same experiments and -o on it: it writes the result again, \
             and no run that it has is made again",
        )
    };
    let value: serde_json::Value = serde_json::from_str(text).map_err(damaged)?;
    let schema = value.get("schema").and_then(serde_json::Value::as_str);
    if schema != Some("tcptailor/lab-reproduce/1") {
        let name = folder.display();
        return Err(
            Problem::usage(format!("{name} has the result of another version"))
                .hint("run `tcptailor lab reproduce -o` with a new folder")
                .into(),
        );
    }
    Ok(serde_json::from_value(value).map_err(damaged)?)
}

/// The experiments that came to a verdict; for the summary.
fn of_verdict(document: &Reproduction, verdict: Verdict) -> Vec<&str> {
    let experiments = document.experiments.iter();
    experiments
        .filter(|experiment| experiment.verdict == verdict)
        .map(|experiment| experiment.scenario.as_str())
        .collect()
}

#[cfg(test)]
mod tests;
