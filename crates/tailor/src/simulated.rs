//! Two simulated hosts as a [`Subject`]: a trial on our own TCP in virtual time, which needs no
//! permission and runs faster than real time.

use core::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base::{Change, Instant, KnobValue, Netns, Target, find_knob};
use doctor::{Recording, Track};
use lab::{End, SeenFlow, SeenHost, SetError, VirtualSession, VirtualTarget};

use crate::arrivals::{Arrivals, LOOK_INTERVAL};
use crate::measure::{Others, completed};
use crate::subject::{Applied, Look, Settings, Subject, Undone, Values};

/// Told what is going on, how long it has been going on, and how long it will.
pub type Progress<'p> = Box<dyn FnMut(&'static str, Duration, Duration) + 'p>;

/// A running trial, with the changes in it that are not confirmed yet. `E` is the error type of its
/// driver.
pub struct Simulated<'p, E> {
    session: VirtualSession,
    unconfirmed: Vec<Changed>,
    /// Mean distance of two looks at a connection.
    interval: Duration,
    stop: &'p AtomicBool,
    progress: Progress<'p>,
    error: PhantomData<fn() -> E>,
}

/// A change, and what there was before.
struct Changed {
    knob: String,
    target: VirtualTarget,
    old: KnobValue,
}

/// Error of an operation that simulated hosts do not support.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SimulatedError {
    /// The workload ended early, and why.
    Ended(String),
    /// Only a kernel has this setting.
    OnlyInKernels(String),
    /// The setting was refused.
    Refused(SetError),
    /// The user wants to stop.
    Stopped,
}

impl core::fmt::Display for SimulatedError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Ended(why) => write!(f, "the workload ended: {why}"),
            Self::OnlyInKernels(change) => {
                write!(f, "{change}: the simulated TCP has no such setting")
            }
            Self::Refused(error) => error.fmt(f),
            Self::Stopped => f.write_str("interrupted; nothing stays changed"),
        }
    }
}

impl core::error::Error for SimulatedError {}

impl<'p, E> Simulated<'p, E> {
    /// Works on a session that has been started; `stop` ends every look and every wait.
    #[must_use]
    pub fn new(session: VirtualSession, stop: &'p AtomicBool, progress: Progress<'p>) -> Self {
        Self {
            session,
            unconfirmed: Vec::new(),
            interval: LOOK_INTERVAL,
            stop,
            progress,
            error: PhantomData,
        }
    }

    /// Looks at connections with this mean distance.
    #[must_use]
    pub const fn with_interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// The session.
    pub const fn session(&mut self) -> &mut VirtualSession {
        &mut self.session
    }

    fn check_stopped(&self) -> Result<(), SimulatedError> {
        match self.stop.load(Ordering::Relaxed) {
            true => Err(SimulatedError::Stopped),
            false => Ok(()),
        }
    }

    fn change(&mut self, change: &Change) -> Result<Values, SimulatedError> {
        let target = simulated_target(&change.target)
            .ok_or_else(|| SimulatedError::OnlyInKernels(change.to_string()))?;
        let session = &mut self.session;
        let get = |session: &VirtualSession| session.get(target, &change.knob);
        let old = get(session).map_err(SimulatedError::Refused)?;
        session
            .set(target, &change.knob, &change.to)
            .map_err(SimulatedError::Refused)?;
        let now = get(session).map_err(SimulatedError::Refused)?;
        let values = Values {
            from: shown(&change.knob, &old),
            to: shown(&change.knob, &now),
        };
        self.unconfirmed.push(Changed {
            knob: change.knob.clone(),
            target,
            old,
        });
        Ok(values)
    }

    fn undo_all(&mut self) -> Vec<Undone> {
        let mut all = Vec::new();
        while let Some(Changed { knob, target, old }) = self.unconfirmed.pop() {
            let how = match self.session.set(target, &knob, &old) {
                Ok(()) => format!("restored: {}", shown(&knob, &old)),
                Err(error) => format!("nothing left to undo: {error}"),
            };
            all.push(Undone {
                knob,
                how,
                is_theirs: false,
            });
        }
        all
    }
}

impl<E: From<SimulatedError>> Subject for Simulated<'_, E> {
    type Error = E;

    fn look(&mut self, time: Duration) -> Result<Look, E> {
        let progress = &mut self.progress;
        let look = self
            .session
            .look((time, self.interval), self.stop, &mut |elapsed| {
                progress("measuring", elapsed, time);
            })
            .map_err(SimulatedError::Ended)?;
        self.check_stopped()?;
        let span = (look.began, look.ended);
        let hosts = [&look.client, &look.server];
        let [here, there] = hosts.map(|host| recording(host, span));
        Ok(Look {
            measure: completed(look.measure, &here, |track| self.wants(track)),
            here,
            netns: host_name(End::Client),
            there: Some((there, host_name(End::Server))),
            close: hosts.into_iter().flat_map(arrivals).collect(),
            others: Others::default(),
        })
    }

    fn wait(&mut self, time: Duration) -> Result<(), E> {
        let progress = &mut self.progress;
        self.session.wait(time, self.stop, &mut |elapsed| {
            progress("settling", elapsed, time);
        });
        Ok(self.check_stopped()?)
    }

    fn wants(&self, _track: &Track) -> bool {
        true
    }

    fn lacks(&self, _target: &Target) -> Option<&'static str> {
        None
    }

    fn can_reconnect(&self) -> bool {
        true
    }

    fn reconnect(&mut self) -> Result<(), E> {
        self.session.reconnect();
        Ok(())
    }

    fn on_listener(&mut self, change: &Change) -> Result<Vec<Change>, E> {
        let Target::Socket { netns, pid, .. } = &change.target else {
            return Ok(Vec::new());
        };
        if *netns != host_name(End::Server) {
            return Ok(Vec::new());
        }
        let listener = self.session.listener();
        Ok(listener
            .into_iter()
            .map(|(cookie, key)| Change {
                target: Target::Socket {
                    netns: netns.clone(),
                    pid: *pid,
                    cookie,
                    key,
                },
                ..change.clone()
            })
            .collect())
    }

    fn settings(&mut self) -> &mut dyn Settings<Error = E> {
        self
    }
}

impl<E: From<SimulatedError>> Settings for Simulated<'_, E> {
    type Error = E;

    fn make(&mut self, _reason: &str, changes: &[Change]) -> Result<Applied, E> {
        let mut values = Vec::new();
        for change in changes {
            match self.change(change) {
                Ok(done) => values.push(done),
                Err(error) => {
                    self.undo_all();
                    return Err(error.into());
                }
            }
        }
        Ok(Applied {
            transaction: None,
            values,
            all_closed: false,
        })
    }

    fn verified(&mut self, _better: bool, _note: &str) -> Result<(), E> {
        Ok(())
    }

    fn keep(&mut self) -> Result<(), E> {
        self.unconfirmed.clear();
        Ok(())
    }

    fn undo(&mut self) -> Vec<Undone> {
        self.undo_all()
    }
}

/// Place of a target in the simulation; `None` for targets that only a kernel has.
fn simulated_target(target: &Target) -> Option<VirtualTarget> {
    let end = [End::Client, End::Server]
        .into_iter()
        .find(|end| *target.netns() == host_name(*end))?;
    match target {
        Target::Socket { cookie, .. } => Some(VirtualTarget::Socket {
            end,
            cookie: *cookie,
        }),
        Target::Route { .. } | Target::Namespace { .. } => Some(VirtualTarget::Host(end)),
        Target::Link { .. } | Target::Qdisc { .. } => None,
    }
}

/// A simulated host as targets name it.
#[must_use]
pub fn host_name(end: End) -> Netns {
    Netns::Simulated(end.name().to_owned())
}

fn shown(knob: &str, value: &KnobValue) -> String {
    find_knob(knob).map_or_else(|_| value.to_string(), |knob| knob.format(value))
}

/// Arrivals at a host that was sampled closely.
fn arrivals(host: &SeenHost) -> impl Iterator<Item = Arrivals> + '_ {
    let close = host.flows.iter().filter(|flow| !flow.close.is_empty());
    close.map(|flow| Arrivals {
        key: flow.key,
        points: flow.close.clone(),
    })
}

/// Recording in the form of a watched namespace.
fn recording(host: &SeenHost, (began, ended): (Instant, Instant)) -> Recording {
    let flow = |flow: &SeenFlow| Track {
        key: flow.key,
        cookie: flow.cookie,
        owners: Vec::new(),
        samples: flow.samples.iter().cloned().collect(),
        ended: flow.ended,
        interface: None,
        options_error: None,
    };
    Recording {
        flows: host.flows.iter().map(flow).collect(),
        hosts: host.samples.clone(),
        began,
        ended,
        ..Recording::default()
    }
}
