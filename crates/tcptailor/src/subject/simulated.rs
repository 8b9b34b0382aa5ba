//! A trial on our own TCP in virtual time. It needs no permission, and takes less time than it
//! shows.

use std::time::Duration;

use anyhow::Context;
use base::{Change, KnobValue, Netns, Target, find_knob};
use doctor::{Recording, Track};
use lab::app::HostCosts;
use lab::{End, EngineName, SeenFlow, SeenHost, Trial, Virtual, VirtualSession, VirtualTarget};
use linux::Filter;

use super::path::{Links, PathReport, PathSubject};
use super::{Made, PutBack, Settings, Sight, Subject, Trying, millis};
use crate::commands::diagnose::seen::Seen;
use crate::interrupt;
use crate::output::Output;
use crate::progress::Progress;

/// A session and how to talk about it.
pub(crate) struct SimulatedSubject<'o> {
    hosts: SimulatedHosts,
    output: &'o Output,
    label: String,
}

/// The simulation, and the changes in it that are on trial.
struct SimulatedHosts {
    session: VirtualSession,
    trying: Vec<Changed>,
}

/// A change, and what there was before.
struct Changed {
    knob: String,
    target: VirtualTarget,
    old: KnobValue,
}

/// Our TCP with Linux's settings, on hosts whose work takes the time that it takes on Linux.
pub(crate) fn engine() -> Virtual {
    Virtual {
        costs: Some(HostCosts::linux()),
        ..Virtual::default()
    }
}

impl<'o> SimulatedSubject<'o> {
    /// Starts the programs.
    pub(crate) fn start(trial: &Trial, label: &str, output: &'o Output) -> anyhow::Result<Self> {
        let session = engine().start(trial).map_err(|refused| {
            let refused: Vec<String> = refused.iter().map(ToString::to_string).collect();
            anyhow::anyhow!(refused.join("; "))
        })?;
        let hosts = SimulatedHosts {
            session,
            trying: Vec::new(),
        };
        Ok(Self {
            hosts,
            output,
            label: label.to_owned(),
        })
    }

    fn bar(&self, what: &str, time: Duration) -> Progress {
        let label = format!("{}: {what}", self.label);
        Progress::bar(self.output, label, millis(time))
    }
}

impl PathSubject for SimulatedSubject<'_> {
    fn engine(&self) -> EngineName {
        EngineName::Virtual
    }

    fn programs(&self) -> [String; 2] {
        [End::Client, End::Server].map(|end| host_name(end).to_string())
    }

    fn path_report(&mut self) -> anyhow::Result<PathReport> {
        let (forward, reverse) = self.hosts.session.links();
        Ok(PathReport {
            engine: self.engine(),
            link: Links { forward, reverse },
            caveats: Vec::new(),
        })
    }
}

impl Subject for SimulatedSubject<'_> {
    fn look(&mut self, time: Duration) -> anyhow::Result<Sight> {
        let bar = self.bar("measuring", time);
        let look = self
            .hosts
            .session
            .look(time, interrupt::stop_flag(), &mut |elapsed| {
                bar.set(millis(elapsed));
            })
            .map_err(|why| anyhow::anyhow!("the workload ended: {why}"))?;
        let span = (look.began, look.ended);
        let [client, server] = [&look.client, &look.server].map(|host| watched(host, span));
        let [client_name, server_name] = [End::Client, End::Server].map(host_name);
        let server = Seen::new(&server, &server_name);
        let client = Seen::new(&client, &client_name).with_other_ends(&server);
        Ok(Sight {
            measure: look.measure,
            flows: client.rows(&Filter::default()),
        })
    }

    fn wait(&mut self, time: Duration) -> anyhow::Result<()> {
        let bar = self.bar("settling", time);
        self.hosts
            .session
            .wait(time, interrupt::stop_flag(), &mut |elapsed| {
                bar.set(millis(elapsed));
            });
        Ok(())
    }

    fn can_reconnect(&self) -> bool {
        true
    }

    fn reconnect(&mut self) -> anyhow::Result<()> {
        self.hosts.session.reconnect();
        Ok(())
    }

    fn on_listener(&mut self, change: &Change) -> anyhow::Result<Option<Change>> {
        let Target::Socket { netns, pid, .. } = &change.target else {
            return Ok(None);
        };
        if *netns != host_name(End::Server) {
            return Ok(None);
        }
        let listener = self.hosts.session.listener();
        Ok(listener.map(|(cookie, key)| Change {
            target: Target::Socket {
                netns: netns.clone(),
                pid: *pid,
                cookie,
                key,
            },
            ..change.clone()
        }))
    }

    fn settings(&mut self) -> &mut dyn Settings {
        &mut self.hosts
    }
}

impl Settings for SimulatedHosts {
    fn make(&mut self, _reason: &str, changes: &[Change]) -> anyhow::Result<Trying> {
        let mut made = Vec::new();
        for change in changes {
            match self.change(change) {
                Ok(done) => made.push(done),
                Err(error) => {
                    self.put_back();
                    return Err(error);
                }
            }
        }
        Ok(Trying {
            transaction: None,
            changes: made,
        })
    }

    fn verified(&mut self, _better: bool, _comparison: &str) -> anyhow::Result<()> {
        Ok(())
    }

    fn keep(&mut self) -> anyhow::Result<()> {
        self.trying.clear();
        Ok(())
    }

    fn put_back(&mut self) -> Vec<PutBack> {
        let mut all = Vec::new();
        while let Some(Changed { knob, target, old }) = self.trying.pop() {
            let how = match self.session.set(target, &knob, &old) {
                Ok(()) => format!("restored: {}", shown(&knob, &old)),
                Err(error) => format!("nothing left to undo: {error}"),
            };
            all.push(PutBack { knob, how });
        }
        all
    }
}

impl SimulatedHosts {
    fn change(&mut self, change: &Change) -> anyhow::Result<Made> {
        let target = simulated_target(&change.target)
            .with_context(|| format!("{change}: only a kernel has this"))?;
        let old = self.session.get(target, &change.knob)?;
        self.session.set(target, &change.knob, &change.to)?;
        let made = Made {
            from: shown(&change.knob, &old),
            to: shown(&change.knob, &self.session.get(target, &change.knob)?),
        };
        self.trying.push(Changed {
            knob: change.knob.clone(),
            target,
            old,
        });
        Ok(made)
    }
}

/// Where a target lies in the simulation; `None` for what only a kernel has.
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

/// A host as targets name it.
fn host_name(end: End) -> Netns {
    Netns::Simulated(end.name().to_owned())
}

fn shown(knob: &str, value: &KnobValue) -> String {
    find_knob(knob).map_or_else(|_| value.to_string(), |knob| knob.format(value))
}

/// As if a namespace had been watched.
fn watched(host: &SeenHost, (began, ended): (base::Instant, base::Instant)) -> Recording {
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
        stopped: false,
        process_ended: false,
        flows_left_out: 0,
        unseen_processes: 0,
    }
}
