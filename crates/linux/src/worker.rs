//! One end of a workload in a process of its own: an ordinary program in the eyes of the doctor.
//!
//! The process reads one line of JSON ([`WorkerSpec`]) and writes lines of JSON
//! ([`WorkerReport`]). It ends when its standard input ends, so that nothing is left behind when
//! the parent dies, or on the line `{"stop":true}`. It knows nothing of the doctor.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use base::Instant;
use serde::{Deserialize, Serialize};

use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::netns::NetnsHandle;
use crate::tun_engine::{StackRun, StackSpec};
use crate::workload::{
    Interval, Remote, RunSpec, Session, Source, Summary, Totals, run_client, run_server,
};

/// Longest line that a worker reads or that its parent reads from it.
const LINE_BYTES_MAX: u64 = 16 << 20;
/// Time that a worker has to end by itself before it is killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
/// Time within which a client's connection must stand.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time over which the parent keeps a worker's intervals.
const LOG_TIME: Duration = Duration::from_secs(3600);
/// Response times that the parent keeps of one worker, 16 bytes each. At 20 intervals a second with
/// 200 different values in each, that is a quarter of an hour.
const LOG_VALUES_MAX: usize = 4 << 20;
/// Congestion control of sockets that the spec names none for. The kernel's default differs from
/// host to host; a lab must not.
pub(crate) const DEFAULT_CONGESTION: &str = "cubic";

/// Which end a worker plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Opens connections.
    Client,
    /// Listens; serves one client after the other until it is stopped.
    Server,
}

/// Configuration of a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkerSpec {
    /// Its end.
    pub role: Role,
    /// Address to listen on (port 0: any), or to connect to.
    pub address: SocketAddr,
    /// The traffic and the sockets.
    pub run: RunSpec,
    /// The stack of this end, where it is ours; the sockets of `run` do not matter then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack: Option<StackSpec>,
}

/// A line that a worker writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkerReport {
    /// Listening on this port, or about to connect to it.
    Ready {
        /// The port.
        port: u16,
    },
    /// Counters since the last report.
    Interval(Interval),
    /// Ended.
    Done(Box<Summary>),
    /// Failed; nothing follows.
    Error {
        /// One line.
        message: String,
    },
}

/// A line that a worker reads after its spec.
#[derive(Debug, Serialize, Deserialize)]
struct Order {
    stop: bool,
}

/// The whole life of a worker process: reads its spec from `input` and reports to `output`. When
/// `input` ends, `on_orphan` is called; the program exits there.
///
/// # Errors
/// Where the workload fails; it has been reported to `output` then.
pub fn run_worker(
    input: impl Read + Send + 'static,
    mut output: impl Write,
    on_orphan: impl FnOnce() + Send + 'static,
) -> Result<()> {
    let mut input = BufReader::new(input);
    let mut stack_run = None;
    let outcome = read_spec(&mut input).and_then(|spec| {
        if let Some(stack) = &spec.stack {
            let run = stack_run.insert(StackRun::new(&spec, stack)?);
            let stopper = run.stopper();
            std::thread::spawn(move || obey(input, || stopper.stop(), on_orphan));
            let port = spec.address.port();
            write_line(&mut output, &WorkerReport::Ready { port })?;
            return run.run();
        }
        let session = Arc::new(Session::new());
        let ours = Arc::clone(&session);
        std::thread::spawn(move || obey(input, || ours.stop(), on_orphan));
        work(spec, &session, &mut output)
    });
    let report = match &outcome {
        Ok(summary) => WorkerReport::Done(Box::new(summary.clone())),
        Err(error) => WorkerReport::Error {
            message: error.to_string(),
        },
    };
    write_line(&mut output, &report)?;
    // Of two failures the earlier is told: the other end must not fail of this one's before.
    if let (Some(run), Err(_)) = (&mut stack_run, &outcome) {
        run.abandon();
    }
    outcome.map(drop)
}

fn work(mut spec: WorkerSpec, session: &Session, output: &mut impl Write) -> Result<Summary> {
    let sockets = &mut spec.run.sockets;
    sockets
        .default_congestion
        .get_or_insert_with(|| DEFAULT_CONGESTION.into());
    // A parent that no longer listens ends the run: the reports are what it is for.
    let report = |interval: &Interval, output: &mut dyn Write| {
        if write_line(output, &WorkerReport::Interval(interval.clone())).is_err() {
            session.stop();
        }
    };
    match spec.role {
        Role::Client => {
            let remote = Remote {
                address: spec.address,
                token: None,
                timeout: CONNECT_TIMEOUT,
            };
            let port = spec.address.port();
            write_line(output, &WorkerReport::Ready { port })?;
            run_client(&spec.run, &remote, session, &mut |i| report(i, output))
        }
        Role::Server => {
            let listener = spec.run.sockets.listen(spec.address)?;
            let port = listener
                .local_addr()
                .map_err(Error::os("getsockname"))?
                .port();
            write_line(output, &WorkerReport::Ready { port })?;
            let source = Source::Everybody(listener);
            run_server(&spec.run, source, session, &mut |i| report(i, output))
        }
    }
}

fn read_spec(input: &mut impl BufRead) -> Result<WorkerSpec> {
    let line = read_line(input)?.ok_or_else(|| Error::Peer("no worker spec came".into()))?;
    let spec: WorkerSpec = serde_json::from_str(&line)
        .map_err(|error| Error::Peer(format!("worker spec: {error}")))?;
    spec.run
        .check()
        .map_err(|what| Error::Peer(format!("worker spec: {what}")))?;
    Ok(spec)
}

/// Waits for the order to stop, and for the end of the input.
fn obey(mut input: impl BufRead, stop: impl Fn(), on_orphan: impl FnOnce()) {
    while let Ok(Some(line)) = read_line(&mut input) {
        if serde_json::from_str::<Order>(&line).is_ok_and(|order| order.stop) {
            stop();
        }
    }
    stop();
    on_orphan();
}

fn read_line(input: &mut impl BufRead) -> Result<Option<String>> {
    let mut line = String::new();
    let got = input
        .take(LINE_BYTES_MAX)
        .read_line(&mut line)
        .map_err(Error::os("reading a line"))?;
    Ok((got > 0).then_some(line))
}

fn write_line(output: &mut (impl Write + ?Sized), message: &impl Serialize) -> Result<()> {
    let mut line = serde_json::to_vec(message).expect("reports are plain data");
    line.push(b'\n');
    output
        .write_all(&line)
        .and_then(|()| output.flush())
        .map_err(Error::os("reporting to the parent"))
}

/// A worker process, seen from its parent. It is killed when this is dropped.
#[derive(Debug)]
pub struct Worker {
    child: Child,
    orders: Option<ChildStdin>,
    shared: Arc<Shared>,
    reader: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    log: Mutex<Log>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Log {
    port: Option<u16>,
    /// The newest ones: a worker may run for days.
    intervals: VecDeque<Interval>,
    /// Response times in `intervals`.
    values: usize,
    outcome: Option<Result<Summary, WorkerFailure>>,
}

/// Why a worker failed, and when that was learnt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerFailure {
    /// When its report came, or it was seen to be gone.
    pub at: Instant,
    /// One line.
    pub why: String,
}

impl WorkerFailure {
    fn now(why: String) -> Self {
        let at = Clock.now();
        Self { at, why }
    }
}

impl Log {
    /// Adds an interval and drops those that are too old, or too many.
    fn keep(&mut self, interval: Interval) {
        let end = interval.end();
        self.values += interval.responses_ns.values();
        self.intervals.push_back(interval);
        while let Some(oldest) = self.intervals.front()
            && (end.since(oldest.end()) > LOG_TIME || self.values > LOG_VALUES_MAX)
        {
            self.values -= oldest.responses_ns.values();
            self.intervals.pop_front();
        }
    }
}

impl Worker {
    /// Starts `program worker` in `namespace` and hands it `spec`.
    ///
    /// # Errors
    /// Where the namespace may not be entered or the program cannot be started.
    pub fn spawn(program: &Path, namespace: &NetnsHandle, spec: &WorkerSpec) -> Result<Self> {
        let mut child = namespace.run(|| {
            Command::new(program)
                .arg("worker")
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .map_err(Error::os(format!("starting {}", program.display())))
        })??;
        let mut orders = child.stdin.take().expect("stdin is piped");
        let reports = child.stdout.take().expect("stdout is piped");
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let reader = std::thread::spawn(move || theirs.collect(BufReader::new(reports)));
        let sent = write_line(&mut orders, spec);
        let worker = Self {
            child,
            orders: Some(orders),
            shared,
            reader: Some(reader),
        };
        sent.map(|()| worker)
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it listens or is about to connect.
    ///
    /// # Returns
    /// The port.
    ///
    /// # Errors
    /// What the worker reports, or that it is not ready within `timeout`.
    pub fn wait_ready(&self, timeout: Duration) -> Result<u16> {
        let log = self
            .shared
            .wait(timeout, |log| log.port.is_some() || log.outcome.is_some());
        match (&log.outcome, log.port) {
            (Some(Err(failure)), _) => Err(Error::Peer(failure.why.clone())),
            (_, Some(port)) => Ok(port),
            _ => Err(Error::Peer(format!(
                "the worker is not ready within {}",
                base::format_duration(timeout)
            ))),
        }
    }

    /// Waits until it has ended by itself; `None` where it still runs after `timeout`.
    ///
    /// # Errors
    /// What the worker reports.
    pub fn wait_done(&self, timeout: Duration) -> Result<Option<Summary>> {
        let log = self.shared.wait(timeout, |log| log.outcome.is_some());
        let outcome = log.outcome.clone().transpose();
        outcome.map_err(|failure| Error::Peer(failure.why))
    }

    /// The reports so far, the oldest first; of a worker that runs for long, those of the last hour
    /// at most.
    #[must_use]
    pub fn intervals(&self) -> Vec<Interval> {
        self.shared.lock().intervals.iter().cloned().collect()
    }

    /// Totals of this end since `begin`: intervals that began then or later.
    #[must_use]
    pub fn since(&self, begin: Instant) -> Totals {
        self.between(begin, Instant::MAX)
    }

    /// Totals of this end in the intervals between two times that are still kept, as in
    /// [`Worker::intervals`].
    #[must_use]
    pub fn between(&self, begin: Instant, end: Instant) -> Totals {
        let mut totals = Totals::default();
        let log = self.shared.lock();
        // The newest first: a worker that has run for hours has many intervals.
        let wanted = log
            .intervals
            .iter()
            .rev()
            .skip_while(|interval| interval.end() > end)
            .take_while(|interval| interval.start() >= begin);
        wanted.for_each(|interval| totals.add(interval));
        totals
    }

    /// Why it has failed, where it has.
    #[must_use]
    pub fn failure(&self) -> Option<WorkerFailure> {
        match &self.shared.lock().outcome {
            Some(Err(failure)) => Some(failure.clone()),
            _ => None,
        }
    }

    /// Stops it and returns what it says at its end.
    ///
    /// # Errors
    /// What the worker reports, or that it does not end by itself in time; then it is killed.
    pub fn stop(mut self) -> Result<Summary> {
        if let Some(orders) = &mut self.orders {
            // Where it has ended already the pipe is closed and its report is here.
            let _ = write_line(orders, &Order { stop: true });
        }
        let summary = self.wait_done(STOP_TIMEOUT)?;
        summary.ok_or_else(|| Error::Peer("the worker does not stop; it was killed".into()))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // An ended worker is only waited for; one that runs does no harm after the kill.
        drop(self.orders.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

impl Shared {
    /// Reads reports to their end.
    fn collect(&self, mut reports: impl BufRead) {
        let failure = loop {
            let report = match read_line(&mut reports) {
                Ok(Some(line)) => serde_json::from_str(&line),
                Ok(None) => break "the worker ended without a report".to_owned(),
                Err(error) => break error.to_string(),
            };
            let mut log = self.lock();
            match report {
                Ok(WorkerReport::Ready { port }) => log.port = Some(port),
                Ok(WorkerReport::Interval(interval)) => log.keep(interval),
                Ok(WorkerReport::Done(summary)) => log.outcome = Some(Ok(*summary)),
                Ok(WorkerReport::Error { message }) => {
                    log.outcome = Some(Err(WorkerFailure::now(message)));
                }
                Err(error) => break format!("the worker's report: {error}"),
            }
            drop(log);
            self.changed.notify_all();
        };
        let failure = WorkerFailure::now(failure);
        self.lock().outcome.get_or_insert(Err(failure));
        self.changed.notify_all();
    }

    fn wait(&self, timeout: Duration, until: impl Fn(&Log) -> bool) -> MutexGuard<'_, Log> {
        let deadline = Clock.now() + timeout;
        let mut log = self.lock();
        loop {
            let left = deadline.since(Clock.now());
            if until(&log) || left.is_zero() {
                return log;
            }
            log = self
                .changed
                .wait_timeout(log, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Path of this program, which runs as worker.
///
/// # Errors
/// Where the kernel does not tell the path.
pub fn own_program() -> Result<std::path::PathBuf> {
    std::env::current_exe().map_err(Error::os("finding the path of this program"))
}

/// Runs [`run_worker`] on the standard streams and leaves the process when the input ends.
///
/// # Errors
/// As [`run_worker`].
pub fn run_worker_process() -> Result<()> {
    run_worker(io::stdin(), io::stdout(), || {
        // The flows get their second of grace, and no more than that.
        std::thread::sleep(Duration::from_millis(1_500));
        std::process::exit(0);
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::sync::mpsc::channel;

    use base::{Bytes, Netns};
    use lab::{Amount, Workload};

    use super::*;
    use crate::workload::SocketSpec;

    fn spec(role: Role, address: SocketAddr) -> WorkerSpec {
        WorkerSpec {
            role,
            address,
            run: RunSpec {
                workload: Workload::RequestResponse {
                    request: Bytes(100),
                    response: Bytes(200),
                    flows: 1,
                    amount: Amount::Operations(20),
                },
                sockets: SocketSpec::default(),
                warmup: Duration::ZERO,
                interval: Duration::from_millis(10),
            },
            stack: None,
        }
    }

    /// What a worker writes when it reads `spec` and then nothing, its input staying open until
    /// `Client` is done.
    fn reports(text: &[u8]) -> Vec<WorkerReport> {
        text.split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(|line| serde_json::from_slice(line).expect("a report"))
            .collect()
    }

    #[test]
    fn two_workers_talk_and_the_server_stops_on_command() {
        let (server_input, mut server_orders) = io::pipe().expect("pipe");
        let (mut server_reports, server_output) = io::pipe().expect("pipe");
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        write_line(&mut server_orders, &spec(Role::Server, any)).expect("room in the pipe");
        let serving = std::thread::spawn(move || run_worker(server_input, server_output, || ()));
        let mut lines = BufReader::new(&mut server_reports);
        let ready = read_line(&mut lines).expect("a line").expect("not the end");
        let WorkerReport::Ready { port } = serde_json::from_str(&ready).expect("a report") else {
            panic!("ready comes first: {ready}");
        };

        let (client_input, mut client_orders) = io::pipe().expect("pipe");
        let server = SocketAddr::from(([127, 0, 0, 1], port));
        write_line(&mut client_orders, &spec(Role::Client, server)).expect("room in the pipe");
        let mut output = Vec::new();
        run_worker(client_input, &mut output, || ()).expect("the client ends");
        let Some(WorkerReport::Done(summary)) = reports(&output).pop() else {
            panic!("a summary comes last");
        };
        assert_eq!(summary.all_received_bytes, 4_000);
        assert_eq!(
            summary.congestion,
            crate::workload::settable_congestion("cubic")
        );

        write_line(&mut server_orders, &Order { stop: true }).expect("room in the pipe");
        serving.join().expect("no panic").expect("the server ends");
        let mut rest = Vec::new();
        lines.read_to_end(&mut rest).expect("reads");
        let Some(WorkerReport::Done(summary)) = reports(&rest).pop() else {
            panic!("a summary comes last");
        };
        assert_eq!(summary.all_operations, 20);
    }

    #[test]
    fn the_end_of_the_input_is_noticed() {
        let (input, mut orders) = io::pipe().expect("pipe");
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        write_line(&mut orders, &spec(Role::Server, any)).expect("room in the pipe");
        drop(orders);
        let (told, orphaned) = channel();
        run_worker(input, io::sink(), move || told.send(()).expect("heard")).expect("it ends");
        assert!(orphaned.recv_timeout(Duration::from_secs(10)).is_ok());
    }

    #[test]
    fn a_bad_spec_is_reported() {
        let check = |line: &'static str, expected: &str| {
            let mut output = Vec::new();
            let outcome = run_worker(line.as_bytes(), &mut output, || ());
            assert!(outcome.is_err(), "{line}");
            let [WorkerReport::Error { message }] = &reports(&output)[..] else {
                panic!("one report");
            };
            assert!(message.contains(expected), "{message}");
        };
        check("", "no worker spec came");
        check("{\"role\":\"king\"}\n", "unknown variant `king`");
    }

    /// A program that reports what it is told to and stays until its input ends.
    fn puppet(lines: &str) -> (tempfile::TempDir, std::path::PathBuf) {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("puppet");
        let script = format!("#!/bin/sh\nread spec\ncat <<'END'\n{lines}\nEND\ncat >/dev/null\n");
        std::fs::write(&path, script).expect("written");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&path, mode).expect("own file");
        (directory, path)
    }

    fn spawn(lines: &str) -> (tempfile::TempDir, Option<Worker>) {
        let (directory, path) = puppet(lines);
        let here = NetnsHandle::open(&Netns::Own).expect("opens");
        let spec = spec(Role::Client, SocketAddr::from(([127, 0, 0, 1], 9)));
        let worker = crate::asking::permitted(Worker::spawn(&path, &here, &spec));
        (directory, worker)
    }

    const WAIT: Duration = Duration::from_secs(20);

    #[test]
    fn reports_are_collected_and_summed_over_a_time() {
        let interval = |end, length, bytes| {
            format!(
                "{{\"interval\":{{\"end_ns\":{end},\"length_ns\":{length},\"phase\":\"measured\",\
                 \"received_bytes\":{bytes},\"sent_bytes\":1,\"operations\":2,\
                 \"responses_ns\":[[5000,2]]}}}}"
            )
        };
        let done = serde_json::to_string(&WorkerReport::Done(Box::default())).expect("json");
        let second = 1_000_000_000;
        let lines = [
            "{\"ready\":{\"port\":77}}".to_owned(),
            interval(second, second, 1),
            interval(2 * second, second, 10),
            interval(3 * second, second, 100),
            done,
        ]
        .join("\n");
        let (_directory, Some(worker)) = spawn(&lines) else {
            return;
        };
        assert_eq!(worker.wait_ready(WAIT).expect("ready"), 77);
        assert!(worker.wait_done(WAIT).expect("no failure").is_some());
        assert_eq!(worker.intervals().len(), 3);
        let at = |seconds: u64| Instant::from_nanos(seconds * second);
        assert_eq!(worker.since(at(1)).received_bytes, 110);
        assert_eq!(worker.between(at(1), at(2)).received_bytes, 10);
        let all = worker.since(at(0));
        assert_eq!(all.goodput_bps(), 111 * 8 / 3);
        assert_eq!(all.operations_per_s(), 2.0);
        assert_eq!(all.response_us().expect("timed").p50, 5);
        let pid = worker.pid();
        assert_eq!(worker.stop().expect("it has reported"), Summary::default());
        assert!(
            !Path::new(&format!("/proc/{pid}")).exists(),
            "killed and waited for"
        );
    }

    #[test]
    fn a_log_keeps_the_newest_intervals_only() {
        let interval = |second: u64, values: u64| -> Interval {
            let pairs: Vec<_> = (1..=values).map(|value| (value, 1)).collect();
            serde_json::from_value(serde_json::json!({
                "end_ns": second * 1_000_000_000, "length_ns": 1_000_000_000, "phase": "measured",
                "received_bytes": 0, "sent_bytes": 0, "operations": values, "responses_ns": pairs,
            }))
            .expect("an interval")
        };
        let mut log = Log::default();
        for second in 1..=4000 {
            log.keep(interval(second, 2));
        }
        assert_eq!((log.intervals.len(), log.values), (3601, 7202));
        assert_eq!(log.intervals[0].end(), Instant::from_nanos(400_000_000_000));

        // Every value up to 2047 has a place of its own.
        let many = interval(4001, 2000);
        for _ in 0..2200 {
            log.keep(many.clone());
        }
        assert_eq!(log.intervals.len(), LOG_VALUES_MAX / 2000);
        assert_eq!(log.values, log.intervals.len() * 2000);
    }

    #[test]
    fn failures_of_a_worker_reach_its_parent() {
        let check = |lines: &str, expected: &str| {
            let (_directory, Some(worker)) = spawn(lines) else {
                return;
            };
            let message = worker.wait_ready(WAIT).expect_err("no port").to_string();
            assert!(message.contains(expected), "{message}");
            let failure = worker.failure().expect("it failed");
            assert_eq!(failure.why, message);
            assert!(failure.at <= Clock.now());
        };
        check(
            "{\"error\":{\"message\":\"no such address\"}}",
            "no such address",
        );
        check("garbage", "the worker's report:");
    }
}
