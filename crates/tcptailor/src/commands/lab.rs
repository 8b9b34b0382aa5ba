//! Lab paths on this machine.

mod agree;
mod calibrate;
mod compare;
mod experiments;
mod faults;
mod folder;
mod line_log;
mod list;
mod merge;
mod path;
mod play;
mod report;
mod reproduce;
mod run;
mod shares;
mod sweep;
mod truth;

use clap::Subcommand;
use lab::{EngineName, FAULTS, Fault, find_fault};
use serde::Serialize;

pub(super) use self::line_log::lock;
use crate::exit::{self, Exit, Problem};
use crate::output::{self, Output};

/// Run scenarios and faults on emulated paths of this machine.
///
/// A lab path is two network namespaces with the kernel's own TCP, joined by emulated links.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tcptailor lab list                       the built-in scenarios
  tcptailor lab run lan-wwr                one of them
  tcptailor lab run mine.toml --set path.rtt=80ms
  tcptailor lab sweep wan-bulk --vary path.rtt=1ms..200ms:log8 -o rtt     many cells, to a folder
  tcptailor lab report rtt                 ... as a table
  tcptailor lab path --rtt 40ms            keep a path, for any program
  tcptailor lab play                       turn knobs in a browser and watch TCP answer
  tcptailor lab faults                     every fault, provoked, diagnosed and fixed
  tcptailor lab agree                      how far our own TCP agrees with the kernel's
  tcptailor lab truth                      accuracy of predictions
  tcptailor lab calibrate                  CPU costs of this machine, for hosts in virtual time
  tcptailor lab shares                     accuracy of the inferred limits
  tcptailor lab experiments                how often `fit` keeps or undoes the wrong change
  tcptailor lab reproduce netburner        the experiments of a published document")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Args),
    /// List the built-in scenarios.
    List,
    Sweep(sweep::Args),
    Path(path::Args),
    Play(play::Args),
    Merge(merge::Args),
    Report(report::Args),
    Compare(compare::Args),
    Faults(faults::Args),
    Agree(agree::Args),
    Shares(shares::Args),
    Experiments(experiments::Args),
    Reproduce(reproduce::Args),
    Truth(truth::Args),
    Calibrate(calibrate::Args),
}

/// The name of a cell without that of its scenario, unless there is nothing else.
fn short_name<'c>(cell: &'c str, scenario: &str) -> &'c str {
    let rest = cell.strip_prefix(scenario).unwrap_or(cell);
    match rest.trim_start_matches('/') {
        "" => cell,
        rest => rest,
    }
}

impl Args {
    /// Whether a lab path is laid, for which an ordinary user needs a user namespace.
    pub(crate) fn lays_path(&self) -> bool {
        match self.command {
            Command::Run(ref args) => args.lays_path(),
            Command::Sweep(ref args) => args.lays_path(),
            Command::Reproduce(ref args) => args.lays_path(),
            Command::Faults(ref args) => args.lays_path(),
            Command::Experiments(ref args) => args.lays_path(),
            Command::Truth(ref args) => args.lays_path(),
            Command::Agree(ref args) => args.lays_path(),
            Command::Path(_)
            | Command::Play(_)
            | Command::List
            | Command::Shares(_)
            | Command::Calibrate(_)
            | Command::Merge(_)
            | Command::Report(_)
            | Command::Compare(_) => false,
        }
    }
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<Exit> {
    match &args.command {
        Command::Run(args) => exit::or_without(run::run(args, output), ON_VIRTUAL),
        Command::List => list::run(output),
        Command::Sweep(args) => exit::or_without(sweep::run(args, output), ON_VIRTUAL),
        Command::Path(args) => path::run(args, output),
        Command::Play(args) => play::run(args, output),
        Command::Merge(args) => merge::run(args, output),
        Command::Report(args) => report::run(args, output),
        Command::Compare(args) => compare::run(args, output),
        Command::Faults(args) => faults::run(args, output),
        Command::Agree(args) => exit::or_without(agree::run(args, output), AGREE_NEEDS),
        Command::Shares(args) => shares::run(args, output),
        Command::Experiments(args) => experiments::run(args, output),
        Command::Reproduce(args) => reproduce::run(args, output),
        Command::Truth(args) => truth::run(args, output),
        Command::Calibrate(args) => calibrate::run(args, output),
    }
}

/// Remedy where no kernel path can be created.
const ON_VIRTUAL: &str = "Works without: the same with `--engine virtual`.";
const AGREE_NEEDS: &str = "It compares with the kernel's TCP; `tcptailor lab run SCENARIO --engine \
                           virtual` runs tcptailor's own alone.";

/// The fault that a user names.
pub(crate) fn fault(name: &str) -> Result<&'static Fault, Problem> {
    find_fault(name).map_err(|nearest| {
        let meant = nearest.map_or_else(String::new, |id| format!("; did you mean `{id}`?"));
        Problem::usage(format!("unknown fault `{name}`{meant}"))
            .hint("`tcptailor fit --lab list` names the faults")
    })
}

#[derive(Serialize)]
struct FaultRow {
    fault: &'static str,
    aliases: &'static [&'static str],
    about: &'static str,
    path: String,
    /// On which it can be provoked.
    engines: Vec<EngineName>,
    /// Why not on the engine `virtual`, where it is not.
    kernel_only: Option<&'static str>,
}

/// Shows the table of faults.
pub(crate) fn list_faults(output: &Output) -> anyhow::Result<Exit> {
    let rows: Vec<FaultRow> = FAULTS
        .iter()
        .map(|fault| FaultRow {
            fault: fault.id,
            aliases: fault.aliases,
            about: fault.about,
            path: super::fit::screen::path(&fault.trial().path),
            engines: fault.engines(),
            kernel_only: fault.kernel_only,
        })
        .collect();
    output.report("faults", &serde_json::json!({ "faults": rows }), || {
        let mut table = output::table(&["FAULT", "OR", "ENGINES", "WHAT IS WRONG"]);
        for row in &rows {
            let engines: Vec<&str> = row.engines.iter().map(|engine| engine.name()).collect();
            let engines = engines.join(", ");
            table.add_row([row.fault, &row.aliases.join(", "), &engines, row.about]);
        }
        let mut text = output::render(&table);
        for row in &rows {
            if let Some(why) = row.kernel_only {
                text.push_str(&format!("\n{}: only on the kernel: {why}.", row.fault));
            }
        }
        text.push('\n');
        text
    })?;
    Ok(Exit::Done)
}
