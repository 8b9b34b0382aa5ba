//! The engines in real time: Linux TCP at both ends of a lab path, or at one of them with our stack
//! at the other; programs that know nothing of the doctor.
//!
//! A [`Session`] keeps a trial running to be observed and changed; [`RealTime`] runs one to its
//! end.

mod course;
mod load;
mod run;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use base::{FlowSample, Instant, KNOBS, KnobValue, Netns, Rng, Scope, Target, TcpState};
use doctor::Recording;
use lab::{Caveat, Measure, Trial};

use crate::actuator::Setting;
use crate::error::{Error, Result};
use crate::filter::Filter;
use crate::netns::NetnsHandle;
use crate::path::LabPath;
use crate::sock_diag::{ScanRequest, SockDiag};
use crate::tun::Tun;
use crate::tun_engine::{self, StackEnd};
use crate::watch::{WatchProgress, WatchRequest, watch};
use crate::worker::{Role, Worker, WorkerSpec};
use crate::workload::{RunSpec, SocketSpec, Totals};
use load::Load;

pub use lab::{End, WARM_UP};
pub use run::{RealTime, RunProgress};

/// Port on which the servers of labs listen.
pub const LAB_PORT: u16 = 5201;

/// Time within which a program must be ready.
const READY_TIMEOUT: Duration = Duration::from_secs(10);
/// Time from report to report of the programs; a measurement is exact to one of them at each end.
const REPORT_INTERVAL: Duration = Duration::from_millis(50);

/// A trial that is running.
#[derive(Debug)]
pub struct Session {
    // The order of fields is the order of ending: programs before their path.
    client: Option<Worker>,
    server: Worker,
    path: LabPath,
    trial: Trial,
    exe: PathBuf,
    /// The end that has our stack.
    stack: Option<End>,
}

/// Samples of both ends over the same time.
#[derive(Debug)]
pub struct Look {
    /// In the namespace of the client.
    pub client: Recording,
    /// In the namespace of the server; on loopback the same namespace.
    pub server: Recording,
    /// Caveat on processors that were busy with other work, if they were.
    pub load: Option<Caveat>,
}

impl Look {
    /// When both were looked at.
    #[must_use]
    pub fn span(&self) -> (Instant, Instant) {
        (
            self.client.began.max(self.server.began),
            self.client.ended.min(self.server.ended),
        )
    }
}

impl Session {
    /// Makes the path, sets the hosts and starts both programs. `exe` is the program whose hidden
    /// command `worker` runs one side of a workload.
    ///
    /// # Errors
    /// Those of [`LabPath::create`]; [`Error::Peer`] where a program does not start.
    pub fn start(exe: &Path, trial: &Trial) -> Result<Self> {
        let hosts = Hosts {
            trial,
            warmup: Duration::ZERO,
            stack: None,
        };
        Self::launch(exe, &hosts, &mut |_, error| Err(error))
    }

    /// As [`Session::start`] for these hosts. `on_refused` decides whether a setting of a host that
    /// cannot be made ends the start.
    fn launch(
        exe: &Path,
        hosts: &Hosts<'_>,
        on_refused: &mut dyn FnMut(&'static str, Error) -> Result<()>,
    ) -> Result<Self> {
        let trial = hosts.trial;
        let stack = hosts.stack.map(|stack| stack.end(trial));
        let path = match stack {
            None => LabPath::create(&trial.path, trial.seed)?,
            Some(end) => LabPath::create_with_router(&trial.path, trial.seed, end)?,
        };
        for end in [End::Client, End::Server] {
            if stack == Some(end) {
                // What the worker would be refused is told here, where it keeps its kind.
                handle(&path, end).run(|| Tun::create(tun_engine::DEVICE))??;
                continue;
            }
            for (&knob, value) in &trial.host(end).settings {
                set_on_host(&path, end, knob, value).or_else(|error| on_refused(knob, error))?;
            }
        }
        let program = |end| start_worker(exe, handle(&path, end), &hosts.spec(&path, end));
        let server = program(End::Server)?;
        let client = program(End::Client)?;
        Ok(Self {
            client: Some(client),
            server,
            path,
            trial: trial.clone(),
            exe: exe.to_owned(),
            stack,
        })
    }

    /// The path.
    #[must_use]
    pub const fn path(&self) -> &LabPath {
        &self.path
    }

    /// The program at one end.
    #[must_use]
    pub fn worker(&self, end: End) -> &Worker {
        match end {
            End::Client => self
                .client
                .as_ref()
                .expect("absent only inside `reconnect`"),
            End::Server => &self.server,
        }
    }

    /// The namespace of one end, as changes name it.
    #[must_use]
    pub fn netns(&self, end: End) -> Netns {
        handle(&self.path, end).name().clone()
    }

    /// Looks at all connections of the workload, at both ends, for `time`, at random times of which
    /// `interval` is the mean distance. `progress` hears of the client's end.
    ///
    /// # Errors
    /// Where a host cannot be looked at.
    pub fn look(
        &self,
        (time, interval): (Duration, Duration),
        stop: &AtomicBool,
        progress: &mut (dyn FnMut(WatchProgress) + Send),
    ) -> Result<Look> {
        let sysctls: Vec<&str> = KNOBS
            .iter()
            .filter(|knob| knob.scope >= Scope::Namespace)
            .map(|knob| knob.name)
            .collect();
        let request = |end: End| {
            let port = format!("sport = :{LAB_PORT} or dport = :{LAB_PORT}");
            let filter: Filter = port.parse().expect("the filter is a constant");
            WatchRequest {
                netns: Some(handle(&self.path, end)),
                sysctls: &sysctls,
                seed: Rng::new(self.trial.seed, end.name()).next_u64(),
                stop: Some(stop),
                interval,
                ..WatchRequest::new(filter, time)
            }
        };
        let load = self.load();
        let (client, server) = thread::scope(|scope| {
            let server = scope.spawn(|| watch(&request(End::Server), &mut |_| ()));
            let client = watch(&request(End::Client), progress);
            (
                client,
                server
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            )
        });
        Ok(Look {
            client: client?,
            server: server?,
            load: self.busy_since(load),
        })
    }

    /// Load of the processors and of our programs until now; `None` where the kernel does not
    /// report it.
    fn load(&self) -> Option<Load> {
        Load::read(&[End::Client, End::Server].map(|end| self.worker(end).pid()))
    }

    /// The doubt about what was measured since then, if the processors had other work.
    fn busy_since(&self, then: Option<Load>) -> Option<Caveat> {
        let (then, now) = then.zip(self.load())?;
        then.caveat(&now)
    }

    /// Results of the programs during a look.
    ///
    /// # Errors
    /// Where a program ended before its time, with what it said.
    pub fn measure(&self, look: &Look) -> Result<Measure> {
        let (from, until) = look.span();
        let client = self.totals(End::Client, from, until)?;
        let server = self.totals(End::Server, from, until)?;
        let has_operations = client.response_us().is_some();
        Ok(Measure {
            duration_s: until.since(from).as_secs_f64(),
            // The payload of a workload goes one way; what comes back are answers.
            goodput_bps: server.goodput_bps().max(client.goodput_bps()),
            busy_goodput_bps: None,
            operations_per_s: has_operations.then(|| client.operations_per_s()),
            response_us: client.response_us(),
            srtt_us: median_srtt_us(&look.client),
            local_drops_pkts: local_drops(&look.client, self.path.interface()),
            ..Measure::default()
        })
    }

    fn totals(&self, end: End, from: Instant, until: Instant) -> Result<Totals> {
        let worker = self.worker(end);
        match worker.failure() {
            Some(failure) => {
                let why = failure.why;
                Err(Error::Peer(format!("the {} ended: {why}", end.name())))
            }
            None => Ok(worker.between(from, until)),
        }
    }

    /// Starts the client's program again: its connections are new ones.
    ///
    /// # Errors
    /// Where it does not start.
    pub fn reconnect(&mut self) -> Result<()> {
        drop(self.client.take());
        let hosts = Hosts {
            trial: &self.trial,
            warmup: Duration::ZERO,
            stack: None,
        };
        let spec = hosts.spec(&self.path, End::Client);
        self.client = Some(start_worker(&self.exe, self.path.a(), &spec)?);
        Ok(())
    }

    /// The socket on which the program at one end listens: its process and its cookie.
    ///
    /// # Errors
    /// Where the sockets of that host cannot be listed.
    pub fn listener(&self, end: End) -> Result<Option<(u32, FlowSample)>> {
        let request = ScanRequest {
            listeners: true,
            local_port: Some(LAB_PORT),
            ..ScanRequest::default()
        };
        let sockets = SockDiag::open_in(handle(&self.path, end))?.scan(&request)?;
        let listening = sockets
            .into_iter()
            .find(|s| s.state == Some(TcpState::Listen));
        Ok(listening.map(|sample| (self.worker(end).pid(), sample)))
    }

    /// Doubts about everything measured so far that come of the path; a [`Look`] has its own.
    ///
    /// # Errors
    /// Where an interface cannot be read any more.
    pub fn caveats(&self) -> Result<Vec<Caveat>> {
        self.path.caveats()
    }
}

fn handle(path: &LabPath, end: End) -> &NetnsHandle {
    match end {
        End::Client => path.a(),
        End::Server => path.b(),
    }
}

/// Turns a knob that is wider than a socket; those of sockets are left to the programs. The
/// namespaces are ours and end with the path, so nothing is journalled.
fn set_on_host(path: &LabPath, end: End, knob: &str, value: &KnobValue) -> Result<()> {
    let netns = handle(path, end).name().clone();
    let remote = match end {
        End::Client => path.b_addr(),
        End::Server => path.a_addr(),
    };
    let interface = path.interface().to_owned();
    let knob = base::find_knob(knob)?;
    // A setting of our own stack has the scope of a socket too, and is refused here.
    knob.check_for_linux(value)?;
    let target = match knob.scope {
        Scope::Socket => return Ok(()),
        Scope::Route => {
            let bits = if remote.is_ipv4() { 32 } else { 128 };
            Target::Route {
                netns,
                destination: format!("{remote}/{bits}"),
            }
        }
        Scope::Link => Target::Link {
            netns,
            name: interface,
        },
        Scope::Qdisc => Target::Qdisc {
            netns,
            link: interface,
        },
        Scope::Namespace | Scope::Host => Target::Namespace { netns },
    };
    Setting::open(&target, knob.name)?.write(value)
}

/// Both hosts to be.
#[derive(Clone, Copy, Debug)]
struct Hosts<'t> {
    trial: &'t Trial,
    /// Time that the programs do not measure.
    warmup: Duration,
    /// The end that has our stack.
    stack: Option<StackEnd>,
}

impl Hosts<'_> {
    /// Configuration of the program at one end.
    fn spec(&self, path: &LabPath, end: End) -> WorkerSpec {
        let trial = self.trial;
        let stack = self.stack.filter(|stack| stack.end(trial) == end);
        let is_socket = |name: &str| base::find_knob(name).is_ok_and(base::Knob::is_socket_option);
        let settings = &trial.host(end).settings;
        let sockets = match stack {
            None => settings
                .iter()
                .filter(|(name, _)| is_socket(name))
                .map(|(name, value)| (*name, value.clone()))
                .collect(),
            Some(_) => lab::Settings::new(),
        };
        WorkerSpec {
            role: match end {
                End::Client => Role::Client,
                End::Server => Role::Server,
            },
            address: SocketAddr::new(path.b_addr(), LAB_PORT),
            run: RunSpec {
                workload: trial.workload.clone(),
                sockets: SocketSpec {
                    settings: sockets,
                    ..SocketSpec::default()
                },
                warmup: self.warmup,
                interval: REPORT_INTERVAL,
            },
            stack: stack.map(|stack| stack.spec(trial, path.address(end))),
        }
    }
}

fn start_worker(exe: &Path, netns: &NetnsHandle, spec: &WorkerSpec) -> Result<Worker> {
    let worker = Worker::spawn(exe, netns, spec)?;
    worker.wait_ready(READY_TIMEOUT)?;
    Ok(worker)
}

fn median_srtt_us(watched: &Recording) -> Option<u64> {
    let mut all: Vec<u64> = watched
        .flows
        .iter()
        .flat_map(|flow| &flow.samples)
        .filter_map(|sample| sample.srtt)
        .map(|srtt| u64::try_from(srtt.as_micros()).unwrap_or(u64::MAX))
        .collect();
    all.sort_unstable();
    all.get(all.len() / 2).copied()
}

/// Packets that the interface or its queue dropped on the way out, in the time of the look.
fn local_drops(watched: &Recording, interface: &str) -> u64 {
    let dropped = |sample: &base::HostSample| {
        let link = sample.links.iter().find(|link| link.name == interface)?;
        let queued: u64 = link.qdiscs.iter().map(|queue| queue.dropped_pkts).sum();
        Some(link.tx_dropped_pkts.max(queued))
    };
    let count = |sample: Option<&base::HostSample>| sample.and_then(dropped).unwrap_or(0);
    count(watched.hosts.last()).saturating_sub(count(watched.hosts.first()))
}
