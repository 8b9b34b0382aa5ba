//! A fault on a path of this machine: between two hosts of the kernel where that is permitted, else
//! between two simulated ones. Users of it need not know which.

use std::time::Duration;

use clap::ValueEnum;
use lab::{Caveat, End, EngineName, Fault, LatenessMicros, LinkOutcome, Trial, Virtual};
use serde::Serialize;
use tailor::{FitOptions, Simulated, Subject, host_name};

use super::lab::LabSubject;
use super::millis;
use crate::exit::{self, Problem};
use crate::interrupt;
use crate::output::Output;
use crate::progress::Progress;

/// Which TCP a lab path is to have at its ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum EngineChoice {
    /// Linux TCP where this process has the permissions for a lab path, else tcptailor's own.
    #[default]
    Auto,
    /// Linux TCP between two network namespaces.
    Kernel,
    /// tcptailor's own TCP in virtual time; requires no privileges.
    Virtual,
}

/// A workload on a path that was made for it.
pub(crate) trait PathSubject: Subject<Error = anyhow::Error> {
    /// Engine of its ends.
    fn engine(&self) -> EngineName;

    /// Names of the programs: the client's, then the server's.
    fn programs(&self) -> [String; 2];

    /// Counters of the path since it was made, and the caveats that follow.
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

/// A look of an experiment lasts half as long as one from which a limit is named, and no shorter.
const SLICE_MIN: Duration = Duration::from_secs(1);

/// How a fault of the table is fitted.
pub(crate) fn fit_options(fault: &Fault, observe: Option<Duration>, bound: Duration) -> FitOptions {
    let observe = observe.unwrap_or(fault.observe);
    FitOptions {
        observe,
        slice: (observe.min(fault.observe) / 2).max(SLICE_MIN),
        settle: fault.settle,
        warm_up: fault.warm_up,
        bound,
        extra: Duration::ZERO,
        once: false,
        dry_run: false,
    }
}

/// A trial of a fault that runs.
pub(crate) struct Started<'o> {
    pub(crate) subject: Box<dyn PathSubject + 'o>,
    /// Reason why the kernel's path was not available, where `auto` chose to do without.
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
    if let (EngineChoice::Virtual, Some(why)) = (choice, fault.kernel_only) {
        let message = format!("{}: not on the engine `virtual`: {why}", fault.id);
        return Err(Problem::usage(message)
            .hint("`tcptailor fit --lab list` shows which faults exist on which engine.")
            .into());
    }
    start_trial(choice, fault.kernel_only, trial, label, output)
}

/// Starts `trial`; `kernel_only` says why our own stack does not have it.
pub(crate) fn start_trial<'o>(
    choice: EngineChoice,
    kernel_only: Option<&str>,
    trial: &Trial,
    label: &str,
    output: &'o Output,
) -> anyhow::Result<Started<'o>> {
    if choice == EngineChoice::Virtual {
        return simulated(trial, label, output);
    }
    match (LabSubject::start(trial, label, output), kernel_only) {
        (Ok(subject), _) => Ok(Started {
            subject: Box::new(subject),
            denied: None,
        }),
        (Err(error), None) if choice == EngineChoice::Auto && exit::is_denied(&error) => {
            Ok(Started {
                denied: error.downcast().ok(),
                ..simulated(trial, label, output)?
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

fn simulated<'o>(trial: &Trial, label: &str, output: &'o Output) -> anyhow::Result<Started<'o>> {
    let session = engine().start(trial).map_err(|refused| {
        let refused: Vec<String> = refused.iter().map(ToString::to_string).collect();
        anyhow::anyhow!(refused.join("; "))
    })?;
    let label = label.to_owned();
    let mut bar: Option<(&str, Progress)> = None;
    let progress = move |what: &'static str, elapsed: Duration, whole: Duration| {
        if elapsed >= whole {
            bar = None;
            return;
        }
        if bar.as_ref().is_none_or(|(shown, _)| *shown != what) {
            let text = format!("{label}: {what}");
            bar = Some((what, Progress::bar(output, text, millis(whole))));
        }
        if let Some((_, bar)) = &bar {
            bar.set(millis(elapsed));
        }
    };
    let subject = Simulated::new(session, interrupt::stop_flag(), Box::new(progress));
    Ok(Started {
        subject: Box::new(subject),
        denied: None,
    })
}

/// Our TCP with Linux's settings, on hosts whose work takes the time that it takes on Linux.
pub(crate) fn engine() -> Virtual {
    Virtual::default()
}

impl PathSubject for Simulated<'_, anyhow::Error> {
    fn engine(&self) -> EngineName {
        EngineName::Virtual
    }

    fn programs(&self) -> [String; 2] {
        [End::Client, End::Server].map(|end| host_name(end).to_string())
    }

    fn path_report(&mut self) -> anyhow::Result<PathReport> {
        let (forward, reverse) = self.session().links();
        Ok(PathReport {
            engine: self.engine(),
            link: Links { forward, reverse },
            caveats: Vec::new(),
        })
    }
}
