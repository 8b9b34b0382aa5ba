//! The other side of bench and fit.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use base::{Bytes, human};
use linux::service::{Event, Key, Limits, MaxStartups, PORT, Serve};
use serde::Serialize;

use crate::exit::{Exit, Problem};
use crate::interrupt;
use crate::output::{self, Output};

/// Environment variable for the key, beside `--key-file`. Never on the command line, which `ps`
/// shows.
const KEY_VARIABLE: &str = "TCPTAILOR_KEY";
/// A key has 32 digits; a file of one may have a comment's worth of blanks around it.
const KEY_BYTES_MAX: u64 = 4096;

/// Answer `bench` and `fit` of other machines.
///
/// Listens on loopback, for this machine, unless --bind says otherwise. It sends only to the host
/// that connected, only while that host is there, and only within the limits below.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tcptailor serve                                   for this machine only
  tcptailor serve -B 10.0.0.9                       for others, with a key that it makes and prints
  tcptailor serve -B :: --key-file key              the same key again after a restart
  tcptailor serve -B :: --no-key --max-time 60s --max-bytes 100GiB

A key is 32 hexadecimal digits. `bench` and `fit` take it from a file (--key-file) or from the
environment variable TCPTAILOR_KEY. Both sides prove that they hold it, and everything but the data
of a test is encrypted. dist/tcptailor-serve.service runs it as a service.")]
pub(crate) struct Args {
    /// Listen on this port (0: any).
    #[arg(short, long, value_name = "PORT", default_value_t = PORT)]
    port: u16,
    /// Listen on this address of this machine (`::` for all).
    #[arg(short = 'B', long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    bind: IpAddr,
    /// Exit when the first client disconnects.
    #[arg(short = '1', long)]
    one_off: bool,
    /// Concurrent clients.
    #[arg(long, value_name = "N", default_value_t = Limits::default().clients)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    max_clients: u32,
    /// ... of one address (of one /64 of IPv6) [default: half of --max-clients].
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    max_clients_per_address: Option<u32>,
    /// Unauthenticated connections: from START on dropped with a probability of RATE %, from FULL
    /// on always (sshd's MaxStartups).
    #[arg(long, value_name = "START:RATE:FULL", default_value_t)]
    max_startups: MaxStartups,
    /// Time limit of one run, including warm-up.
    #[arg(long, value_name = "TIME", default_value = "1h")]
    #[arg(value_parser = base::parse_time)]
    max_time: Duration,
    /// Payload limit of one run, both directions together.
    #[arg(long, value_name = "BYTES", default_value = "1024GiB")]
    max_bytes: Bytes,
    /// Disconnect clients that are silent, or do not ask for a run, for this long.
    #[arg(long, value_name = "TIME", default_value = "10s")]
    #[arg(value_parser = base::parse_time)]
    idle_timeout: Duration,
    /// Accept only clients with the key in this file; if the file does not exist, a new key is
    /// written to it.
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Serve anyone who can reach the address.
    #[arg(long, conflicts_with = "key_file")]
    no_key: bool,
    /// iperf3's way to serve.
    #[arg(short = 's', hide = true)]
    server: bool,
    /// iperf3's way to measure.
    #[arg(short = 'c', hide = true, value_name = "HOST")]
    client: Option<String>,
    /// iperf3's way to stay in the background.
    #[arg(short = 'D', hide = true)]
    daemon: bool,
}

#[derive(Serialize)]
struct Document {
    address: SocketAddr,
    key_required: bool,
    max_clients: u32,
    max_clients_per_address: u32,
    max_startups: String,
    max_time_s: f64,
    max_bytes: u64,
}

/// Source of the server's key.
enum Secret {
    /// Anyone may ask for runs.
    None,
    /// Given by the user.
    Given(Key),
    /// Generated, and shown.
    Made(Key),
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<Exit> {
    check_iperf(args)?;
    let limits = limits(args)?;
    let secret = secret(args)?;
    let key = match &secret {
        Secret::None => None,
        Secret::Given(key) | Secret::Made(key) => Some(key.clone()),
    };
    let key_required = key.is_some();
    let address = SocketAddr::new(args.bind, args.port);
    let serve = Serve::bind(address, limits, key).map_err(|error| bind_problem(args, error))?;
    let address = serve.address()?;
    let document = Document {
        address,
        key_required,
        max_clients: limits.clients,
        max_clients_per_address: limits.clients_per_address,
        max_startups: limits.startups.to_string(),
        max_time_s: limits.time.as_secs_f64(),
        max_bytes: limits.bytes,
    };
    output.report("serve", &document, || format!("Listening on {address}."))?;
    tell_key(args, &secret, output);
    let stopper = serve.stopper();
    let _guard = interrupt::on_stop(move || stopper.stop());
    serve.run(args.one_off, &|event| {
        // The service continues if the reader of the log is gone.
        let _ = output.line(line_of(&event));
    })?;
    Ok(if interrupt::stopped() {
        Exit::Interrupted
    } else {
        Exit::Done
    })
}

/// Letters of iperf3 that are other commands here.
fn check_iperf(args: &Args) -> Result<(), Problem> {
    if args.server {
        return Err(Problem::usage("-s is iperf3's").hint("Type `tcptailor serve` without it."));
    }
    if let Some(host) = &args.client {
        let hint = format!("Type `tcptailor bench {host}`.");
        return Err(Problem::usage("-c is iperf3's").hint(hint));
    }
    if args.daemon {
        let hint =
            "`systemd-run tcptailor serve`, or dist/tcptailor-serve.service, keeps it running.";
        return Err(Problem::usage("-D is iperf3's").hint(hint));
    }
    Ok(())
}

/// The key that clients need. Who listens for other machines has one unless told otherwise.
fn secret(args: &Args) -> anyhow::Result<Secret> {
    if let Some(path) = &args.key_file
        && !path.exists()
    {
        let key = Key::random()?;
        // Not through a link, and only readable by the owner.
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let writing = || format!("writing the key file {}", path.display());
        let mut file: File = options.open(path).with_context(writing)?;
        if let Err(error) = file.write_all(format!("{key}\n").as_bytes()) {
            // On a full disk: half a key would be refused by the next start.
            let _ = std::fs::remove_file(path);
            return Err(error).with_context(writing);
        }
        return Ok(Secret::Made(key));
    }
    if args.no_key {
        return Ok(Secret::None);
    }
    Ok(match read_key(args.key_file.as_deref())? {
        Some(key) => Secret::Given(key),
        None if args.bind.is_loopback() => Secret::None,
        None => Secret::Made(Key::random()?),
    })
}

/// On stderr, so that no log of stdout holds a key.
fn tell_key(args: &Args, secret: &Secret, output: &Output) {
    match secret {
        // The file is for those that may read it, and a log is not.
        Secret::Made(_) if args.key_file.is_some() => {
            let path = args.key_file.as_deref().unwrap_or(Path::new(""));
            output.note(format!("A new key is in {}.", path.display()));
        }
        Secret::Made(key) => {
            output.important(format!("Key: {key}"));
            let host = match args.bind.is_unspecified() {
                true => "HOST".into(),
                false => args.bind.to_string(),
            };
            output.note(format!(
                "On the other machine: TCPTAILOR_KEY={key} tcptailor bench {host}{}",
                port_flag(args.port)
            ));
        }
        Secret::None if !args.bind.is_loopback() => {
            output.note("note: anyone who can reach this address can run tests");
        }
        Secret::Given(_) if args.key_file.is_none() => {
            output.note("The key is that of the environment variable TCPTAILOR_KEY.");
        }
        Secret::None | Secret::Given(_) => {}
    }
}

/// For a command line that names the port only where it has to.
pub(super) fn port_flag(port: u16) -> String {
    match port {
        PORT => String::new(),
        port => format!(" -p {port}"),
    }
}

/// Remedy where the address cannot be bound.
fn bind_problem(args: &Args, error: linux::Error) -> anyhow::Error {
    let linux::Error::Os { ref source, .. } = error else {
        return error.into();
    };
    let hint = match source.kind() {
        io::ErrorKind::AddrInUse => "Another program listens there; take another port with -p.",
        io::ErrorKind::AddrNotAvailable => "No interface has this address; `ip addr` lists them.",
        _ => return error.into(),
    };
    let address = SocketAddr::new(args.bind, args.port);
    Problem::failed(format!("cannot listen on {address}: {source}"))
        .hint(hint)
        .into()
}

fn limits(args: &Args) -> Result<Limits, Problem> {
    let second = Duration::from_secs(1);
    for (flag, time) in [
        ("--max-time", args.max_time),
        ("--idle-timeout", args.idle_timeout),
    ] {
        if time < second {
            let shown = base::format_duration(time);
            return Err(Problem::usage(format!("{flag} {shown}: at least 1s")));
        }
    }
    if args.max_bytes.0 == 0 {
        return Err(Problem::usage("--max-bytes 0: at least 1B"));
    }
    let half = args.max_clients.div_ceil(2);
    Ok(Limits {
        clients: args.max_clients,
        clients_per_address: args.max_clients_per_address.unwrap_or(half),
        startups: args.max_startups,
        time: args.max_time,
        bytes: args.max_bytes.0,
        idle: args.idle_timeout,
    })
}

/// The shared key from a file, or else from the environment.
pub(crate) fn read_key(file: Option<&Path>) -> anyhow::Result<Option<Key>> {
    let text = match file {
        Some(path) => Some(output::read_text(path, KEY_BYTES_MAX)?),
        // Empty is as unset, for scripts.
        None => std::env::var_os(KEY_VARIABLE)
            .filter(|text| !text.is_empty())
            .map(|text| text.to_string_lossy().into_owned()),
    };
    let key = text.map(|text| text.parse()).transpose();
    Ok(key.map_err(|what: String| {
        let from = file.map_or(KEY_VARIABLE.to_owned(), |path| path.display().to_string());
        Problem::usage(format!("{from}: {what}"))
    })?)
}

fn line_of(event: &Event) -> String {
    match event {
        Event::Welcomed { client } => format!("{client}: connected"),
        Event::Refused { reason, .. } => format!("rejected {reason}"),
        Event::AlsoRefused { count } => {
            format!("rejected {} more", human::count(*count, "connection"))
        }
        Event::Left {
            client,
            reason: None,
        } => format!("{client}: disconnected"),
        Event::Left {
            client,
            reason: Some(reason),
        } => format!("{client}: disconnected: {reason}"),
        Event::Ran {
            client,
            outcome: Err(reason),
            ..
        } => format!("{client}: run ended: {reason}"),
        Event::Ran {
            client,
            workload,
            outcome: Ok(summary),
        } => format!(
            "{client}: {}: received {}, sent {} in {}",
            super::bench::kind_of(workload),
            human::bytes(summary.all_received_bytes),
            human::bytes(summary.all_sent_bytes),
            human::time(Duration::from_secs_f64(summary.measured.duration_s)),
        ),
    }
}
