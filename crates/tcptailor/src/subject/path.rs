//! A fault on a path of this machine: between two hosts of the kernel where that is permitted, else
//! between two simulated ones. Whoever works on it need not know which.

use clap::ValueEnum;
use lab::{Caveat, EngineName, Fault, LatenessMicros, LinkOutcome, Trial};
use serde::Serialize;

use super::Subject;
use super::lab::LabSubject;
use super::simulated::SimulatedSubject;
use crate::exit::{self, Problem};
use crate::output::Output;
use crate::tailor::Pattern;

/// Which TCP a lab path is to have at its ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum EngineChoice {
    /// That of the kernel where this process may lay a path, else tcptailor's own.
    #[default]
    Auto,
    /// Linux TCP between two network namespaces.
    Kernel,
    /// tcptailor's own TCP in virtual time; needs no permission.
    Virtual,
}

/// A workload on a path that was made for it.
pub(crate) trait PathSubject: Subject {
    /// What makes TCP at its ends.
    fn engine(&self) -> EngineName;

    /// Who runs where: the client, then the server.
    fn programs(&self) -> [String; 2];

    /// What the path did since it was made, and the doubts that follow.
    fn path_report(&mut self) -> anyhow::Result<PathReport>;
}

/// How the path did its part: a number travels with its doubts.
#[derive(Debug, Serialize)]
pub(crate) struct PathReport {
    pub(crate) engine: EngineName,
    pub(crate) link: Links,
    pub(crate) caveats: Vec<Caveat>,
}

/// Both directions.
#[derive(Debug, Serialize)]
pub(crate) struct Links {
    pub(crate) forward: LinkOutcome,
    pub(crate) reverse: LinkOutcome,
}

impl Links {
    /// How late the emulator was, in the direction in which it was later; `None` where nothing is
    /// emulated in real time.
    pub(crate) fn lateness(&self) -> Option<LatenessMicros> {
        let of = |link: &LinkOutcome| link.lateness_us;
        [of(&self.forward), of(&self.reverse)]
            .into_iter()
            .flatten()
            .max_by_key(|late| late.p99)
    }
}

/// How a fault of the table is fitted.
pub(crate) fn pattern(fault: &Fault, dry_run: bool) -> Pattern {
    Pattern {
        observe: fault.observe,
        settle: fault.settle,
        warm_up: fault.warm_up,
        yardstick: fault.cure.yardstick(),
        dry_run,
    }
}

/// A trial of a fault that runs.
pub(crate) struct Started<'o> {
    pub(crate) subject: Box<dyn PathSubject + 'o>,
    /// What the kernel's path would have needed, where `auto` chose to do without.
    pub(crate) denied: Option<linux::Error>,
}

/// Starts `trial`, which is one of `fault`.
pub(crate) fn start<'o>(
    choice: EngineChoice,
    fault: &Fault,
    trial: &Trial,
    label: &str,
    output: &'o Output,
) -> anyhow::Result<Started<'o>> {
    if choice == EngineChoice::Virtual {
        return simulated(fault, trial, label, output);
    }
    match (LabSubject::start(trial, label, output), fault.kernel_only) {
        (Ok(subject), _) => Ok(Started {
            subject: Box::new(subject),
            denied: None,
        }),
        (Err(error), None) if choice == EngineChoice::Auto && exit::is_denied(&error) => {
            Ok(Started {
                denied: error.downcast().ok(),
                ..simulated(fault, trial, label, output)?
            })
        }
        (Err(error), None) => exit::or_without(
            Err(error),
            "Works without: the same with `--engine virtual`.",
        ),
        (Err(error), Some(_)) => exit::or_without(
            Err(error),
            "`tcptailor fit --lab list` shows the faults that work without, on the engine \
             `virtual`.",
        ),
    }
}

fn simulated<'o>(
    fault: &Fault,
    trial: &Trial,
    label: &str,
    output: &'o Output,
) -> anyhow::Result<Started<'o>> {
    if let Some(why) = fault.kernel_only {
        let message = format!("{}: not on the engine `virtual`: {why}", fault.id);
        return Err(Problem::usage(message)
            .hint("`tcptailor fit --lab list` shows which faults exist on which engine.")
            .into());
    }
    Ok(Started {
        subject: Box::new(SimulatedSubject::start(trial, label, output)?),
        denied: None,
    })
}
