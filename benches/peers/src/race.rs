//! One measurement: a stage, traffic on it, and what the counters say.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use base::Instant;
use linux::{Clock, ScanRequest, SockDiag, process_cpu_time};

use crate::child::{Interrupt, Program};
use crate::kernel::{Load, RoundTrips};
use crate::memory;
use crate::rows::{Row, Seat};
use crate::stage::{Network, Stage, own_command};

/// Numbers by name; the unit stands last in the name.
pub(crate) type Figures = BTreeMap<&'static str, f64>;

/// A stack that moves nothing for this long has failed.
const STALL: Duration = Duration::from_secs(3);
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Longest that all connections together may take to open.
const OPEN_WITHIN: Duration = Duration::from_secs(60);
/// Connections of one client process; it may have 20 000 descriptors on some machines.
const PER_CLIENT: usize = 5000;
/// Until what an earlier measurement left in the kernel has gone.
const SETTLE: Duration = Duration::from_millis(500);

/// How to measure.
#[derive(Clone, Debug)]
pub(crate) struct Method {
    /// Time that does not count.
    pub(crate) warm_up: Duration,
    /// Time that counts.
    pub(crate) time: Duration,
    /// Processors of the stack and of the kernel's sockets.
    pub(crate) pin: Option<(u32, u32)>,
    pub(crate) interrupt: Interrupt,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// One byte there and back.
    Ping,
    /// Data in one direction over some connections, or connections that do nothing.
    Flows { load: Load, connections: usize },
}

/// # Errors
/// Why the stack failed.
pub(crate) fn measure(
    row: &Row,
    network: &Network,
    what: What,
    method: &Method,
) -> anyhow::Result<(Figures, Vec<String>)> {
    let mut stage = Stage::set(row, network, method.pin.map(|pin| pin.0), &method.interrupt)?;
    let figures = match what {
        What::Ping => ping(&stage, method)?,
        What::Flows { load, connections } => {
            let kernel = row.seat != Seat::Tun;
            Flows {
                load,
                connections,
                kernel,
            }
            .measure(&mut stage, method)?
        }
    };
    Ok((figures, stage.caveats()?))
}

fn ping(stage: &Stage, method: &Method) -> anyhow::Result<Figures> {
    let millis = |time: Duration| time.as_millis().to_string();
    let (warm_up, time) = (millis(method.warm_up), millis(method.time));
    let address = stage.address.to_string();
    let words = own_command(&["ping", &address, &warm_up, &time])?;
    let mut client = start_client(stage, &words, method)?;
    let within = method.warm_up + method.time + STALL;
    let line = client.line("{", within, &method.interrupt)?;
    let found: RoundTrips = serde_json::from_str(&line).context("the client's result")?;
    Ok(Figures::from([
        ("round_trips_per_s", found.per_s),
        ("p50_us", found.p50_us),
        ("p99_us", found.p99_us),
    ]))
}

fn start_client(stage: &Stage, words: &[String], method: &Method) -> anyhow::Result<Program> {
    let mut client = Program::start(words, stage.client(), method.pin.map(|pin| pin.1))?;
    client.line("ready", OPEN_WITHIN, &method.interrupt)?;
    Ok(client)
}

/// A number of connections that do the same.
struct Flows {
    load: Load,
    connections: usize,
    /// The kernel is at both ends.
    kernel: bool,
}

/// What the counters say at one time.
struct Look {
    at: Instant,
    cpu: Duration,
    /// Payload that has arrived, by the client's end of each connection.
    bytes: BTreeMap<SocketAddr, u64>,
    retransmits: u64,
}

impl Look {
    fn total(&self) -> u64 {
        self.bytes.values().sum()
    }
}

impl Flows {
    fn measure(&self, stage: &mut Stage, method: &Method) -> anyhow::Result<Figures> {
        let many = self.connections > 1;
        if many {
            method.interrupt.sleep(SETTLE)?;
        }
        let before = memory::used(stage.server.pid(), self.kernel)?;
        let opening = Clock.now();
        let mut clients = self.start_clients(stage, method)?;
        let opened = Clock.now().since(opening);

        let mut diag = SockDiag::open_in(stage.client())?;
        let mut figures = Figures::new();
        if self.load == Load::Idle {
            let per_s = self.connections as f64 / opened.as_secs_f64();
            figures.insert("opened_per_s", per_s);
            method.interrupt.sleep(method.warm_up)?;
            let open = self.look(&mut diag, stage)?.bytes.len();
            ensure!(
                open == self.connections,
                "only {open} connections are still open"
            );
        } else {
            self.watch(&mut diag, stage, &mut clients, (method.warm_up, method))?;
            let begin = self.look(&mut diag, stage)?;
            self.watch(&mut diag, stage, &mut clients, (method.time, method))?;
            let end = self.look(&mut diag, stage)?;
            self.compare(&begin, &end, &mut figures);
        }
        if many {
            let after = memory::used(stage.server.pid(), self.kernel)?;
            // Of the kernel's memory, both ends of each connection have a part.
            let ends = if self.kernel { 2 } else { 1 } * self.connections;
            figures.insert("memory_kib", (after - before) / 1024.0 / ends as f64);
        }
        Ok(figures)
    }

    fn start_clients(&self, stage: &Stage, method: &Method) -> anyhow::Result<Vec<Program>> {
        let load = match self.load {
            Load::Send => "send",
            Load::Receive => "receive",
            Load::Idle => "idle",
        };
        let address = stage.address.to_string();
        let mut clients = Vec::new();
        let mut rest = self.connections;
        while rest > 0 {
            let count = rest.min(PER_CLIENT);
            let words = own_command(&["load", load, &address, &count.to_string()])?;
            clients.push(start_client(stage, &words, method)?);
            rest -= count;
        }
        Ok(clients)
    }

    /// Waits for a while, and fails as soon as the stack does.
    fn watch(
        &self,
        diag: &mut SockDiag,
        stage: &mut Stage,
        clients: &mut [Program],
        (time, method): (Duration, &Method),
    ) -> anyhow::Result<()> {
        let end = Clock.now() + time;
        let mut moved = (self.look(diag, stage)?.total(), Clock.now());
        loop {
            let now = Clock.now();
            let rest = end.since(now);
            if rest.is_zero() {
                return Ok(());
            }
            method.interrupt.sleep(rest.min(LOOK_EVERY))?;
            stage.server.check_alive().context("the stack")?;
            for client in &mut *clients {
                client.check_alive().context("the kernel's client")?;
            }
            let look = self.look(diag, stage)?;
            let (total, open) = (look.total(), look.bytes.len());
            ensure!(
                open == self.connections,
                "{open} of {} connections are still open",
                self.connections
            );
            if total != moved.0 {
                moved = (total, now);
            } else if now.since(moved.1) > STALL {
                bail!("no byte moved for {} s, after {total}", STALL.as_secs());
            }
        }
    }

    fn look(&self, diag: &mut SockDiag, stage: &Stage) -> anyhow::Result<Look> {
        let request = ScanRequest {
            remote_port: Some(self.load.port()),
            ..ScanRequest::default()
        };
        let cpu = process_cpu_time(stage.server.pid()).context("the stack has ended")?;
        let at = Clock.now();
        let mut look = Look {
            at,
            cpu,
            bytes: BTreeMap::new(),
            retransmits: 0,
        };
        for flow in diag.scan(&request)? {
            let bytes = match self.load {
                Load::Send => flow.bytes_acked,
                Load::Receive | Load::Idle => flow.bytes_received,
            };
            look.bytes.insert(flow.key.local, bytes.unwrap_or(0));
            look.retransmits += flow.retrans_total_pkts.unwrap_or(0);
        }
        Ok(look)
    }

    fn compare(&self, begin: &Look, end: &Look, figures: &mut Figures) {
        let seconds = end.at.since(begin.at).as_secs_f64();
        let shares: Vec<f64> = end
            .bytes
            .iter()
            .map(|(key, bytes)| (bytes - begin.bytes.get(key).unwrap_or(&0)) as f64)
            .collect();
        let total: f64 = shares.iter().sum();
        let cores = (end.cpu - begin.cpu).as_secs_f64() / seconds;
        let gbit_s = total * 8e-9 / seconds;
        figures.insert("gbit_s", gbit_s);
        figures.insert("core_percent", cores * 100.0);
        figures.insert("gbit_s_per_core", gbit_s / cores);
        figures.insert(
            "kernel_retransmits",
            end.retransmits.saturating_sub(begin.retransmits) as f64,
        );
        if self.connections > 1 {
            let squares: f64 = shares.iter().map(|share| share * share).sum();
            // Jain, Chiu, Hawe 1984: 1 where all have the same, 1/n where one has it all.
            figures.insert(
                "fairness",
                total * total / (squares * self.connections as f64),
            );
        }
    }
}
