//! What runs a trial.

use std::path::PathBuf;

use anyhow::Context;
use clap::ValueEnum;
use lab::{Caveat, Cell, HostSpec, Outcome, Trial, Virtual};
use serde::Serialize;
use stack::profile;

use super::record::{Recording, Records};
use crate::exit::Problem;
use crate::interrupt;

/// What makes TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::commands::lab) enum Engine {
    /// The Linux kernel.
    Kernel,
    /// Our stack, in virtual time.
    Virtual,
}

/// An engine that is ready to run.
#[derive(Debug)]
pub(in crate::commands::lab) enum Runner {
    Kernel {
        exe: PathBuf,
        /// Whether it says what limits a connection.
        is_watched: bool,
    },
    Virtual(Virtual),
}

impl Runner {
    /// `profile` names the stack of hosts that name none.
    pub(in crate::commands::lab) fn new(
        engine: Engine,
        profile: Option<&str>,
    ) -> anyhow::Result<Self> {
        match (engine, profile) {
            (Engine::Kernel, Some(_)) => Err(Problem::usage(
                "--profile: the kernel has its own TCP; add `--engine virtual`",
            )
            .into()),
            (Engine::Kernel, None) => {
                linux::cleanup::remove_leftovers()?;
                let exe = linux::own_program()?;
                Ok(Self::Kernel {
                    exe,
                    is_watched: true,
                })
            }
            (Engine::Virtual, name) => {
                let mut engine = Virtual::default();
                if let Some(name) = name {
                    let known = profile::PROFILES.iter().find(|(known, _)| *known == name);
                    engine.profile = known.context("the command line takes known profiles")?.1;
                }
                Ok(Self::Virtual(engine))
            }
        }
    }

    /// Runs a trial; `progress` hears of the share of the time that has passed, where it is known.
    pub(in crate::commands::lab) fn run(
        &self,
        trial: &Trial,
        progress: &mut dyn FnMut(Option<f64>),
    ) -> anyhow::Result<Outcome> {
        let stop = interrupt::stop_flag();
        let share = |elapsed: std::time::Duration, expected: Option<std::time::Duration>| {
            expected.map(|expected| elapsed.as_secs_f64() / expected.as_secs_f64())
        };
        match self {
            Self::Kernel { exe, is_watched } => {
                let run = match is_watched {
                    true => linux::kernel::run,
                    false => linux::kernel::run_unwatched,
                };
                let outcome = run(exe, trial, stop, &mut |seen| {
                    progress(share(seen.elapsed, seen.expected));
                });
                match outcome {
                    Ok(mut outcome) => {
                        outcome.caveats.extend(other_stacks(trial));
                        Ok(outcome)
                    }
                    Err(error) if error.is_missing_privilege() => Err(error.into()),
                    // One cell that cannot be run is no reason to lose the others.
                    Err(error) => Ok(failed(error.to_string())),
                }
            }
            Self::Virtual(engine) => Ok(engine.run(trial, stop, &mut |seen| {
                progress(share(seen.elapsed, seen.expected));
            })),
        }
    }

    /// Runs a trial of a cell and writes down what is asked for.
    pub(super) fn record(
        &self,
        cell: &Cell,
        trial: &Trial,
        records: Records<'_>,
    ) -> anyhow::Result<Outcome> {
        let Self::Virtual(engine) = self else {
            return Err(records.refusal().into());
        };
        let mut run = engine.prepare(trial);
        let recording = Recording::start(records, cell, trial, &mut run)?;
        let stop = interrupt::stop_flag();
        run.run(stop, &mut |_| ());
        let outcome = run.finish(stop);
        recording.finish()?;
        Ok(outcome)
    }
}

/// The kernel is the stack of both hosts, whatever a scenario says.
fn other_stacks(trial: &Trial) -> Option<Caveat> {
    let named = |host: &HostSpec| host.profile;
    let name = named(&trial.client).or(named(&trial.server))?;
    Some(Caveat::SettingNotApplied {
        knob: "profile".into(),
        why: format!("the kernel is no `{name}`; `--engine virtual` has it"),
    })
}

/// An outcome that says why there is none.
pub(super) fn failed(why: String) -> Outcome {
    Outcome {
        caveats: vec![Caveat::EndedEarly { why }],
        ..Outcome::default()
    }
}
