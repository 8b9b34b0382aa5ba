//! The main job: measure, name the limit, change, verify, keep or roll back.

pub(crate) mod story;

use base::Netns;
use clap::Args as _;
use linux::Journal;
use serde::Serialize;

use crate::exit::{Exit, Problem};
use crate::lab_subject::{self, LabSubject};
use crate::output::Output;
use crate::progress::Progress;
use crate::tailor::{self, Fitting, Subject};

/// Find what limits the traffic to a host or on a lab path, fix it, and prove it.
///
/// Measures, names the limit with its evidence, makes the smallest change that helps, measures
/// again, and keeps it or rolls it back.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tcptailor fit --lab nagle      a stall on a lab path of this machine, named and removed
  tcptailor fit --lab list       the faults that can be tried
  tcptailor fit 10.0.0.9         towards a host that runs `tcptailor serve`
  tcptailor fit 10.0.0.9 -n      name the change, do not make it")]
pub(crate) struct Args {
    /// Provoke this fault on a lab path of this machine; `list` names them.
    #[arg(long, value_name = "FAULT")]
    lab: Option<String>,
    /// Name the change and do not make it.
    #[arg(short = 'n', long)]
    dry_run: bool,
}

impl Args {
    /// Whether a lab path is laid, for which an ordinary user needs a user namespace.
    pub(crate) fn lays_path(&self) -> bool {
        self.lab.as_deref().is_some_and(|fault| fault != "list")
    }
}

/// What `--json` prints.
#[derive(Serialize)]
struct Document<'d> {
    fault: &'d str,
    about: &'d str,
    #[serde(flatten)]
    fitting: Fitting,
    caveats: Vec<lab::Caveat>,
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<Exit> {
    match args.lab.as_deref() {
        Some("list") => super::lab::list_faults(output),
        Some(name) => fit_fault(super::lab::fault(name)?, args.dry_run, output),
        None => Err(Problem::usage("say what to fit: a host, or `--lab FAULT`")
            .hint(
                "`tcptailor fit --lab list` names the faults; `tcptailor fit --help` has examples",
            )
            .into()),
    }
}

/// Fits one fault of the table, and tells the story while it happens.
fn fit_fault(fault: &lab::Fault, dry_run: bool, output: &Output) -> anyhow::Result<Exit> {
    linux::cleanup::remove_leftovers()?;
    let trial = fault.trial();
    output.line(story::opening(fault, &trial))?;
    let mut subject = LabSubject::start(&trial, fault.id, output)?;
    output.line(story::programs(&subject))?;
    subject.wait(fault.warm_up)?;
    let scratch = lab_subject::scratch_journal()?;
    let mut journal = Journal::open(scratch.path())?;
    let pattern = lab_subject::pattern(fault, dry_run);
    let fitting = tailor::fit(&mut subject, &mut journal, &pattern, &mut |step| {
        output.line(story::step(&step, &pattern))
    })?;
    let caveats = subject.session().caveats()?;
    output.line(story::ending(&fitting, &caveats, &pattern))?;
    let exit = fitting.ending.exit();
    if output.is_json() {
        let document = Document {
            fault: fault.id,
            about: fault.about,
            fitting,
            caveats,
        };
        output.report("fit", &document, String::new)?;
    }
    Ok(exit)
}
