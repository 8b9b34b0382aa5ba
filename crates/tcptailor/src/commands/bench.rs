//! Measures against a host that runs serve.

mod export;
mod live;
mod log;
mod page;
mod report;
mod setup;

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base::{Bytes, KnobValue, human};
use lab::{Direction, Workload};
use linux::Role;
use linux::service::{BenchClient, BenchOutcome, Key, PORT};
use linux::workload::{Interval, Session};

use self::live::Live;
use self::log::{Log, Measurement};
use self::report::{Document, Metric, Run, Variant};
use self::setup::{Ends, Setup};
use crate::exit::{Exit, Problem};
use crate::interrupt;
use crate::output::{self, Output};
use crate::progress::Progress;
use crate::subject::host::RunParameters;

/// Time within which a host must answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Time from report to report of traffic that another command watches.
const INTERVAL: Duration = Duration::from_millis(100);
/// Runs of each variant, and their length, where variants are compared.
const COMPARED_RUNS: u32 = 10;
const COMPARED_TIME: Duration = Duration::from_secs(2);
const SINGLE_TIME: Duration = Duration::from_secs(10);
/// A run that was cut shorter than this tells too little.
const PARTIAL_MIN_S: f64 = 1.0;
/// Default interval between lines.
const LINE_INTERVAL: Duration = Duration::from_secs(1);
/// Variants that one command may compare.
const VARIANTS_MAX: usize = 64;

/// Measure against a host that runs `tcptailor serve`.
///
/// Short options follow iperf3. Rates are those at the receiving end. Prints a line per second: the
/// rate, and the sender's retransmissions, RTT, congestion window and limit (sums or means over all
/// connections). A second connection measures the RTT between the programs before and during the
/// test: the difference is the delay under load.
#[derive(Debug, clap::Args)]
#[command(override_usage = "tcptailor bench [OPTIONS] <HOST>")]
#[command(after_help = "\
Examples:
  tcptailor bench 10.0.0.9                                  a stream, for 10 seconds
  tcptailor bench 10.0.0.9 -R -P 4 -t 30s -O 2s             four streams from the server
  tcptailor bench 10.0.0.9 --bidir -b 0 --export-csv a.csv  both directions at once; results as CSV
  tcptailor bench 10.0.0.9 --mode wwr --compare nodelay=off,on
                                    write-write-read, ten interleaved runs of each variant
  tcptailor bench 10.0.0.9 --html bench.html                as a page with plots over time
  tcptailor bench 10.0.0.9 --mode rr --compare congestion=cubic,bbr --runs 20 --json
  tcptailor bench 10.0.0.9 -t 10h --log day.jsonl           each second and the mean so far; after an
                                    interruption the same command continues (serve --max-time 10h)")]
pub(crate) struct Args {
    /// Where `tcptailor serve` runs: HOST or HOST:PORT.
    #[arg(value_name = "HOST", required_unless_present_any = ["client", "server", "udp"])]
    #[arg(default_value = "", hide_default_value = true)]
    host: String,
    /// Its port.
    #[arg(short, long, value_name = "PORT", default_value_t = PORT)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// Only IPv4.
    #[arg(short = '4', conflicts_with = "ipv6")]
    ipv4: bool,
    /// Only IPv6.
    #[arg(short = '6')]
    ipv6: bool,
    /// The key that `serve` printed [also: the environment variable TCPTAILOR_KEY].
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Time between lines; 0: no lines [default: 1s; no lines with --compare, --runs or --log].
    #[arg(short, long, value_name = "TIME", value_parser = base::parse_time)]
    interval: Option<Duration>,
    /// Runs of each variant [default: 1; 10 with --compare].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    runs: Option<u32>,
    /// Warm-up runs of each variant.
    #[arg(long, value_name = "N", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=10_000))]
    warmup: u32,
    /// Compare these values of a socket knob, or of write-size, method, parallel or writes, in
    /// interleaved runs. With several --compare, all combinations.
    #[arg(long, value_name = "KEY=VALUE,VALUE")]
    compare: Vec<String>,
    /// Append the rate of each second (or of each -i) and the mean so far to this file, as lines of
    /// JSON. Time that the file already covers counts towards -t: the same command continues an
    /// interrupted test. A file belongs to one host, --mode, direction and -P.
    #[arg(long, value_name = "FILE")]
    #[arg(conflicts_with_all = ["compare", "runs", "warmup", "bytes", "operations"])]
    log: Option<PathBuf>,
    /// Write a line per run into this file.
    #[arg(long, value_name = "FILE")]
    export_csv: Option<PathBuf>,
    /// Write the table of the variants into this file.
    #[arg(long, value_name = "FILE")]
    export_markdown: Option<PathBuf>,
    /// Also write the results as an HTML page with plots over time; it needs no network.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// iperf3's letter for --json.
    #[arg(short = 'J', hide = true)]
    pub(crate) iperf_json: bool,
    /// iperf3's way to measure.
    #[arg(short = 'c', hide = true, value_name = "HOST")]
    client: Option<String>,
    /// iperf3's way to serve.
    #[arg(short = 's', hide = true)]
    server: bool,
    /// iperf3's letter for UDP.
    #[arg(short = 'u', hide = true)]
    udp: bool,
    #[command(flatten)]
    setup: Setup,
}

impl Args {
    /// Time from report to report.
    fn report_interval(&self) -> Duration {
        self.interval
            .filter(|interval| !interval.is_zero())
            .unwrap_or(LINE_INTERVAL)
    }

    /// Whether lines are printed while a run is on.
    fn has_lines(&self) -> bool {
        match self.interval {
            Some(interval) => !interval.is_zero(),
            None => self.compare.is_empty() && self.runs.is_none() && self.log.is_none(),
        }
    }
}

/// The flags of `bench`, given to another command for its traffic.
#[derive(Debug, clap::Parser)]
#[command(name = "bench", no_binary_name = true)]
pub(crate) struct Traffic {
    #[command(flatten)]
    args: Args,
}

impl Traffic {
    /// Reads them.
    ///
    /// # Errors
    /// What clap says of a flag that `bench` does not have.
    pub(crate) fn parse(host: &str, flags: &[String]) -> Result<Self, Problem> {
        let words = std::iter::once(host).chain(flags.iter().map(String::as_str));
        <Self as clap::Parser>::try_parse_from(words).map_err(|error| {
            let text = error.to_string();
            let line = text.lines().next().unwrap_or_default();
            Problem::usage(line.trim_start_matches("error: "))
                .hint("`tcptailor bench --help` lists the flags for the traffic")
        })
    }

    /// Name of the workload.
    pub(crate) fn kind(&self) -> String {
        self.args
            .setup
            .ends(INTERVAL, SINGLE_TIME)
            .map_or_else(|_| String::new(), |ends| kind_of(&ends.client.workload))
    }

    /// A run that another command stops when it has seen enough, after `time` at the latest.
    pub(crate) fn run_parameters(
        &self,
        key_file: Option<&std::path::Path>,
        time: Duration,
    ) -> anyhow::Result<RunParameters> {
        let ends = self.args.setup.ends(INTERVAL, time)?;
        let address = resolve(&self.args)?.into_iter().next().ok_or_else(|| {
            Problem::usage(format!(
                "`{}` has no address of this family",
                self.args.host
            ))
        })?;
        Ok(RunParameters {
            address,
            key: super::serve::read_key(key_file)?,
            answer_timeout: ANSWER_TIMEOUT,
            client: ends.client,
            server: ends.server,
        })
    }
}

/// A name and what it stands for.
struct Contender {
    name: String,
    ends: Ends,
    runs: Vec<Run>,
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<Exit> {
    check_iperf(args)?;
    for path in [&args.export_csv, &args.export_markdown]
        .into_iter()
        .flatten()
    {
        output::check_writable(path)?;
    }
    output::check_page(args.html.as_deref())?;
    let log = args.log.as_deref();
    let log = log.map(|path| Log::open(path, measurement(args), output));
    let log = log.transpose()?;
    let mut contenders = contenders(args, log.as_ref())?;
    let workload = contenders[0].ends.client.workload.clone();
    note_bare_sizes(&args.setup, output);
    let key = super::serve::read_key(args.key_file.as_deref())?;
    let mut client = connect(args, key.as_ref())?;
    // The first run comes at once and needs no check.
    for Contender { ends, .. } in contenders.iter().skip(1) {
        if ends.server.settings.contains_key("congestion") {
            client.check(&ends.client, &ends.server)?;
        }
    }
    let rtt_idle_us = client.idle_rtt()?.micros();
    let interrupted = run_all(args, &mut client, &mut contenders, (log.as_ref(), output))?;
    if let Some(log) = &log {
        log.finish()?;
    }
    if contenders.iter().all(|contender| contender.runs.is_empty()) {
        let problem = Problem::interrupted("interrupted before a run was complete");
        return Err(match log {
            Some(log) => {
                let covered = human::time(log.covered());
                problem.hint(format!(
                    "The log holds {covered}; the same command goes on."
                ))
            }
            None => problem,
        }
        .into());
    }
    let metric = Metric::of(&workload);
    let variants: Vec<Variant> = contenders
        .into_iter()
        .filter(|contender| !contender.runs.is_empty())
        .map(|contender| Variant::new(contender.name, contender.runs))
        .collect();
    let document = Document {
        remote: client.remote().to_string(),
        comparisons: report::compare(metric, &variants),
        workload,
        rtt_idle_us,
        metric,
        variants,
        interrupted,
    };
    tell(args, &document, output)?;
    Ok(if interrupted {
        Exit::Interrupted
    } else {
        Exit::Done
    })
}

/// Writes the results into all files that are asked for, and prints them.
fn tell(args: &Args, document: &Document, output: &Output) -> anyhow::Result<()> {
    if let Some(path) = &args.export_csv {
        export::write_csv(path, document)?;
    }
    if let Some(path) = &args.export_markdown {
        export::write_markdown(path, document)?;
    }
    let told = output.report("bench", document, || {
        let gap = if args.has_lines() && !output.is_quiet() {
            "\n"
        } else {
            ""
        };
        format!("{gap}{}", report::render(document))
    });
    // If one of the two cannot be written, the other is not lost.
    if let Some(path) = &args.html {
        let command = super::diagnose::command_words(true);
        output::write_page(path, &page::render(document, &command))?;
    }
    told
}

/// The measurement that a log records.
fn measurement(args: &Args) -> Measurement {
    let host = match port_of(&args.host) {
        Some(_) => args.host.clone(),
        None => format!("{}:{}", args.host, args.port),
    };
    args.setup.measurement(host)
}

/// All combinations of the compared values; one without a name where nothing is compared.
fn contenders(args: &Args, log: Option<&Log>) -> Result<Vec<Contender>, Problem> {
    let interval = args.report_interval();
    let mut setup = args.setup.clone();
    if let Some(log) = log {
        setup.time = Some(time_left(log, setup.time.unwrap_or(SINGLE_TIME), interval)?);
    }
    let mut combinations: Vec<(Vec<String>, Setup)> = vec![(Vec::new(), setup)];
    for text in &args.compare {
        let (key, values) = text
            .split_once('=')
            .filter(|(_, values)| values.contains(','))
            .ok_or_else(|| Problem::usage(format!("--compare {text}: write KEY=VALUE,VALUE")))?;
        let mut next = Vec::new();
        for (names, setup) in &combinations {
            for value in values.split(',') {
                let mut setup = setup.clone();
                setup.put(key, value)?;
                let name = format!("{key}={value}");
                next.push((names.iter().cloned().chain([name]).collect(), setup));
            }
        }
        combinations = next;
        if combinations.len() > VARIANTS_MAX {
            return Err(Problem::usage(format!(
                "--compare: more than {VARIANTS_MAX} variants"
            )));
        }
    }
    let default = if args.compare.is_empty() {
        SINGLE_TIME
    } else {
        COMPARED_TIME
    };
    combinations
        .into_iter()
        .map(|(names, setup)| {
            let name = match names.is_empty() {
                true => "as given".to_owned(),
                false => names.join(" "),
            };
            let ends = setup.ends(interval, default)?;
            check_congestion(&ends)?;
            Ok(Contender {
                name,
                ends,
                runs: Vec::new(),
            })
        })
        .collect()
}

/// Refuses what this host does not have before any run: it may be the last that is compared.
fn check_congestion(ends: &Ends) -> Result<(), Problem> {
    match ends.client.sockets.settings.get("congestion") {
        Some(KnobValue::Name(name)) => {
            linux::sockopt::check_congestion(name).map_err(Problem::usage)
        }
        _ => Ok(()),
    }
}

/// Time that a log has yet to cover.
fn time_left(log: &Log, time: Duration, interval: Duration) -> Result<Duration, Problem> {
    let covered = log.covered();
    match time.checked_sub(covered) {
        // Ends are cut a little before or after their time.
        Some(left) if covered.is_zero() || left > interval / 2 => Ok(left),
        _ => Err(
            Problem::usage(format!("the log holds {} already", human::time(covered)))
                .hint("Give a longer time with -t, or another file."),
        ),
    }
}

fn note_bare_sizes(setup: &Setup, output: &Output) {
    let sizes = [setup.write_size, setup.window, setup.bytes];
    for size in sizes.into_iter().flatten() {
        if size.was_bare {
            output.note(format!(
                "note: the size is taken as {}, as iperf3 does",
                size.bytes
            ));
        }
    }
}

/// Tries the addresses of the host in turn.
fn connect(args: &Args, key: Option<&Key>) -> anyhow::Result<BenchClient> {
    let mut last = None;
    for address in resolve(args)? {
        match BenchClient::connect(address, key, ANSWER_TIMEOUT) {
            Ok(client) => return Ok(client),
            Err(error) => last = Some(error),
        }
    }
    Err(match last {
        Some(linux::Error::ConnectionRefused { remote }) => not_there(remote).into(),
        Some(error) => error.into(),
        None => Problem::usage(format!("`{}` has no address of this family", args.host)).into(),
    })
}

/// There is no listener. On this machine, listeners on other ports can be seen.
fn not_there(remote: SocketAddr) -> Problem {
    let listening = || {
        let listeners = linux::SockDiag::open().and_then(|mut diag| diag.listeners());
        let same = |local: &SocketAddr| local.port() == remote.port();
        let listeners = listeners
            .ok()?
            .into_iter()
            .map(|(listener, _)| listener.local);
        listeners
            .filter(same)
            .map(|local| local.to_string())
            .reduce(|a, b| format!("{a}, {b}"))
    };
    let flag = format!(
        "`tcptailor serve --bind {}{}`",
        remote.ip(),
        super::serve::port_flag(remote.port())
    );
    let is_own = std::net::UdpSocket::bind((remote.ip(), 0)).is_ok();
    let hint = match is_own.then(listening).flatten() {
        Some(there) => format!("On this machine {there} is listened on; {flag} listens there."),
        None => format!("`tcptailor serve` listens on 127.0.0.1 only; {flag} listens there."),
    };
    Problem::failed(linux::Error::ConnectionRefused { remote }).hint(hint)
}

/// Letters of iperf3 that are other commands here, or nothing.
fn check_iperf(args: &Args) -> Result<(), Problem> {
    if let Some(host) = &args.client {
        let hint = format!("Type `tcptailor bench {host} ...`.");
        return Err(Problem::usage("-c is iperf3's").hint(hint));
    }
    if args.server {
        return Err(Problem::usage("-s is iperf3's").hint("Type `tcptailor serve`."));
    }
    if args.udp {
        let hint = "tcptailor measures TCP; for UDP take `iperf3 -u`.";
        return Err(Problem::usage("-u is iperf3's").hint(hint));
    }
    Ok(())
}

fn resolve(args: &Args) -> Result<Vec<SocketAddr>, Problem> {
    check_host(&args.host)?;
    // The name may be right and the name service away.
    let unknown = |error: std::io::Error| {
        Problem::failed(format!("`{}` is not a host: {error}", args.host))
            .hint("Write HOST, HOST:PORT, an address, or [ADDRESS]:PORT for IPv6.")
    };
    let found: Vec<SocketAddr> = match args.host.to_socket_addrs() {
        Ok(found) => found.collect(),
        // Without a port in it: a name or an address, with or without brackets.
        Err(_) => (args.host.trim_matches(['[', ']']), args.port)
            .to_socket_addrs()
            .map_err(unknown)?
            .collect(),
    };
    Ok(found
        .into_iter()
        .filter(|address| !(args.ipv4 && address.is_ipv6() || args.ipv6 && address.is_ipv4()))
        .collect())
}

/// Refuses what no name service has to be asked about.
fn check_host(host: &str) -> Result<(), Problem> {
    const FORMS: &str = "Write HOST, HOST:PORT, an address, or [ADDRESS]:PORT for IPv6.";
    if host.trim_matches(['[', ']']).is_empty() {
        return Err(Problem::usage("the host is empty").hint(FORMS));
    }
    let Some(port) = port_of(host) else {
        return Ok(());
    };
    match port.parse::<u16>() {
        Ok(port) if port > 0 => Ok(()),
        _ => {
            Err(Problem::usage(format!("`{host}`: a port is a number from 1 to 65535")).hint(FORMS))
        }
    }
}

/// The part after a host's name that stands for a port.
fn port_of(host: &str) -> Option<&str> {
    // More than one colon is an address of IPv6, unless it has brackets.
    let (name, port) = host.rsplit_once(':')?;
    (!name.contains(':') || name.ends_with(']')).then_some(port)
}

/// Runs the contenders in turn, each round beginning with another one. Returns whether the user
/// ended it.
fn run_all(
    args: &Args,
    client: &mut BenchClient,
    contenders: &mut [Contender],
    (log, output): (Option<&Log>, &Output),
) -> anyhow::Result<bool> {
    let runs = args.runs.unwrap_or(match args.compare.is_empty() {
        true => 1,
        false => COMPARED_RUNS,
    });
    let rounds = args.warmup + runs;
    let total = u64::from(rounds) * contenders.len() as u64;
    let has_lines = args.has_lines() && !output.is_quiet();
    let shown = match has_lines {
        true => &output.silenced(),
        false => output,
    };
    let bar = Progress::bar(shown, "measuring", total);
    let mut done = 0;
    for round in 0..rounds {
        for turn in 0..contenders.len() {
            let index = (turn + round as usize) % contenders.len();
            let contender = &mut contenders[index];
            bar.label(format!("run {} of {total}, {}", done + 1, contender.name));
            if has_lines && total > 1 {
                output.line(format!("\nRun {} of {total}, {}", done + 1, contender.name))?;
            }
            let live = Live::new(&contender.ends.client.workload, has_lines.then_some(output));
            let listener = Listener {
                live: &live,
                log,
                bar: &bar,
            };
            let outcome = run_one(client, &contender.ends, &listener)?;
            let workload = &contender.ends.client.workload;
            let run = Run::new(workload, outcome, live.finish());
            if interrupt::stopped() {
                // Of a single run it is the answer so far, as of iperf3; a log goes on with it.
                if total == 1 && log.is_none() && run.duration_s >= PARTIAL_MIN_S {
                    contender.runs.push(run);
                }
                return Ok(true);
            }
            if round >= args.warmup {
                contender.runs.push(run);
            }
            done += 1;
            bar.set(done);
        }
    }
    Ok(false)
}

/// Receives the reports of the receiving end.
struct Listener<'l> {
    live: &'l Live<'l>,
    log: Option<&'l Log>,
    bar: &'l Progress,
}

impl Listener<'_> {
    /// Returns whether the run is worth going on with.
    fn hear(&self, interval: &Interval) -> bool {
        let Some(log) = self.log else { return true };
        let is_written = log.append(interval, linux::Clock.unix_millis() / 1000);
        self.bar.label(log.progress());
        is_written
    }
}

fn run_one(
    client: &mut BenchClient,
    ends: &Ends,
    listener: &Listener<'_>,
) -> anyhow::Result<BenchOutcome> {
    let session = Arc::new(Session::new());
    let stopped = Arc::clone(&session);
    let _guard = interrupt::on_stop(move || stopped.stop());
    if interrupt::stopped() {
        // The signal came before there was anything to stop.
        session.stop();
    }
    let workload = &ends.client.workload;
    let receiver = receiving_end(workload);
    let outcome = client.run(&ends.client, &ends.server, &session, &|role, interval| {
        listener.live.handle_interval(role, interval);
        if role == receiver && !listener.hear(interval) {
            session.stop();
        }
    })?;
    Ok(outcome)
}

/// The end whose reports are worth reading while a run is on.
const fn receiving_end(workload: &Workload) -> Role {
    match workload {
        Workload::Bulk {
            direction: Direction::Up,
            ..
        }
        | Workload::SlowReader { .. }
        | Workload::Paced { .. } => Role::Server,
        _ => Role::Client,
    }
}

/// Name of a workload in a line.
pub(crate) fn kind_of(workload: &Workload) -> String {
    let each = |bytes: &Bytes| bytes.to_string();
    match workload {
        Workload::Bulk {
            direction, flows, ..
        } => {
            let direction = match direction {
                Direction::Up => "",
                Direction::Down => ", from the server",
                Direction::Both => " in each direction",
            };
            format!("{}{direction}", human::count(*flows, "stream"))
        }
        Workload::RequestResponse {
            request, response, ..
        } => format!("request/response of {}/{}", each(request), each(response)),
        Workload::ConnectRequestClose {
            request, response, ..
        } => format!(
            "connect/request/close of {}/{}",
            each(request),
            each(response)
        ),
        Workload::WriteWriteRead { pieces, reply, .. } if !pieces.is_empty() => format!(
            "{} writes of {} in all, then a reply of {}",
            pieces.len(),
            human::bytes(workload.message_bytes().unwrap_or(0)),
            each(reply)
        ),
        Workload::WriteWriteRead {
            writes,
            write_size,
            reply,
            ..
        } => format!(
            "{writes} writes of {}, then a reply of {}",
            each(write_size),
            each(reply)
        ),
        Workload::Records(records) if records.record.min < records.record.max => format!(
            "records of {} to {}",
            each(&records.record.min),
            each(&records.record.max)
        ),
        Workload::Records(records) => format!("records of {}", each(&records.record.max)),
        Workload::Quotes(quotes) if quotes.one_connection => "quotes on one connection".into(),
        Workload::Quotes(_) => "quotes on two connections".into(),
        Workload::Bursts { burst, idle, .. } => format!(
            "blocks of {} with gaps of {}",
            each(burst),
            base::format_duration(*idle)
        ),
        Workload::SlowReader { .. } => "a stream into a slow reader".into(),
        Workload::Paced { rate, .. } => format!("a stream paced at {rate}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_a_name_and_a_port_in_range() {
        for good in [
            "a",
            "a:1",
            "::1",
            "[::1]",
            "[::1]:65535",
            "fd00::9",
            "10.0.0.9:5201",
        ] {
            check_host(good).expect(good);
        }
        for bad in [
            "",
            "[]",
            "a:",
            "a:0",
            "a:65536",
            "[::1]:x",
            "10.0.0.9:99999",
        ] {
            let problem = check_host(bad).expect_err(bad);
            assert_eq!(problem.exit, Exit::Usage);
        }
    }
}
