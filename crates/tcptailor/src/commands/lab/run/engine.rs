//! Engines of trials.

use std::fmt;

use anyhow::Context;
use clap::ValueEnum;
use lab::app::HostCosts;
use lab::{Caveat, Cell, End, EngineName, Outcome, Trial, Virtual};
use linux::kernel::RealTime;
use linux::{Side, StackEnd};
use serde::Serialize;
use stack::profile;

use super::record::{Recording, Records};
use crate::exit::Problem;
use crate::interrupt;

/// The stack of our hosts without `--profile`: what the kernel of the other end is nearest to.
const DEFAULT_PROFILE: &str = "linux_6_18";

/// What makes TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::commands::lab) enum Engine {
    /// The Linux kernel at both ends.
    Kernel,
    /// Our stack at both ends, in virtual time.
    Virtual,
    /// Our stack at the end that sends, on real packets; the kernel at the other.
    Tun,
    /// Our stack at the end that receives, on real packets; the kernel at the other.
    TunReceiver,
}

/// An engine that is ready to run.
#[derive(Debug)]
pub(in crate::commands::lab) enum Runner {
    RealTime(RealTime),
    Virtual(Virtual),
}

impl From<Engine> for EngineName {
    fn from(engine: Engine) -> Self {
        match engine {
            Engine::Kernel => Self::Kernel,
            Engine::Virtual => Self::Virtual,
            Engine::Tun => Self::Tun,
            Engine::TunReceiver => Self::TunReceiver,
        }
    }
}

impl From<EngineName> for Engine {
    fn from(engine: EngineName) -> Self {
        match engine {
            EngineName::Kernel => Self::Kernel,
            EngineName::Virtual => Self::Virtual,
            EngineName::Tun => Self::Tun,
            EngineName::TunReceiver => Self::TunReceiver,
        }
    }
}

/// Name on the command line.
impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(EngineName::from(*self).name())
    }
}

impl Engine {
    /// Whether a trial takes its time.
    pub(in crate::commands::lab) const fn is_real_time(self) -> bool {
        !matches!(self, Self::Virtual)
    }

    /// The end that has our stack on real packets.
    const fn stack_side(self) -> Option<Side> {
        match self {
            Self::Tun => Some(Side::Sender),
            Self::TunReceiver => Some(Side::Receiver),
            Self::Kernel | Self::Virtual => None,
        }
    }
}

impl Runner {
    /// `profile` names the stack of hosts that name none; `costs` is what their work takes in
    /// virtual time.
    pub(in crate::commands::lab) fn new(
        engine: Engine,
        profile: Option<&str>,
        costs: Option<HostCosts>,
    ) -> anyhow::Result<Self> {
        let known = |name| profile::PROFILES.iter().find(|(known, _)| *known == name);
        let profile = match profile {
            Some(name) => Some(known(name).context("the command line takes known profiles")?),
            None => None,
        };
        match (engine, profile) {
            (Engine::Kernel, Some(_)) => Err(Problem::usage(
                "--profile: the kernel has its own TCP; add `--engine virtual` or `--engine tun`",
            )
            .into()),
            (Engine::Kernel | Engine::Tun | Engine::TunReceiver, _) if costs.is_some() => {
                Err(Problem::usage(
                    "--costs: hosts in real time take what they take; add `--engine virtual`",
                )
                .into())
            }
            (Engine::Virtual, _) => {
                let mut engine = Virtual::default();
                engine.costs = costs.unwrap_or(engine.costs);
                if let Some((_, make)) = profile {
                    engine.profile = *make;
                }
                Ok(Self::Virtual(engine))
            }
            (Engine::Kernel | Engine::Tun | Engine::TunReceiver, _) => {
                linux::cleanup::remove_leftovers()?;
                Ok(Self::RealTime(RealTime {
                    exe: linux::own_program()?,
                    is_watched: true,
                    stack: engine.stack_side().map(|side| StackEnd {
                        side,
                        profile: profile.map_or(DEFAULT_PROFILE, |(name, _)| *name),
                    }),
                }))
            }
        }
    }

    /// Processing times of virtual hosts; `None` in real time.
    pub(in crate::commands::lab) const fn costs(&self) -> Option<HostCosts> {
        match self {
            Self::RealTime(_) => None,
            Self::Virtual(engine) => Some(engine.costs),
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
            Self::RealTime(engine) => {
                let outcome = engine.run(trial, stop, &mut |seen| {
                    progress(share(seen.elapsed, seen.expected));
                });
                match outcome {
                    Ok(mut outcome) => {
                        let ours = engine.stack.map(|stack| stack.end(trial));
                        outcome.caveats.extend(other_stacks(trial, ours));
                        Ok(outcome)
                    }
                    Err(error) if error.is_missing_privilege() => Err(error.into()),
                    // If one cell cannot be run, the others are not lost.
                    Err(error) => Ok(Outcome::ended_early(error.to_string())),
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

/// The kernel is the stack of hosts that have not ours, whatever a scenario says.
fn other_stacks(trial: &Trial, ours: Option<End>) -> Option<Caveat> {
    let kernels = [End::Client, End::Server].into_iter();
    let name = kernels
        .filter(|end| Some(*end) != ours)
        .find_map(|end| trial.host(end).profile)?;
    Some(Caveat::SettingNotApplied {
        knob: "profile".into(),
        why: format!("the kernel cannot behave as `{name}`; `--engine virtual` can"),
    })
}
