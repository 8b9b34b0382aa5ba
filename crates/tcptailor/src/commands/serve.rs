//! The other side of bench and fit.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use base::{Bytes, human};
use linux::service::{Event, Key, Limits, PORT, Serve};
use serde::Serialize;

use crate::exit::{Exit, Problem};
use crate::interrupt;
use crate::output::Output;

/// Where a key may come from, beside `--key-file`. Never from the command line, which `ps` shows.
const KEY_VARIABLE: &str = "TCPTAILOR_KEY";

/// Answer `bench` and `fit` of other machines.
///
/// Listens on loopback unless told otherwise. It sends only to the host that connected, only while
/// that host is there, and only within the limits below.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tcptailor serve                                   for this machine only
  tcptailor serve -B 10.0.0.9 --key-file key        for others that hold the same key
  tcptailor serve -B :: --max-clients 2 --max-time 60s --max-bytes 100GiB

The key file holds one line of at least 8 characters, the same on both machines; the environment
variable TCPTAILOR_KEY may hold it instead. Without a key, everybody who reaches the address may
measure.")]
pub(crate) struct Args {
    /// Listen on this port (0: any).
    #[arg(short, long, value_name = "PORT", default_value_t = PORT)]
    port: u16,
    /// Listen on this address of this machine (`::` for all).
    #[arg(short = 'B', long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    bind: IpAddr,
    /// End when the first client leaves.
    #[arg(short = '1', long)]
    one_off: bool,
    /// Clients at once.
    #[arg(long, value_name = "N", default_value_t = Limits::default().clients)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    max_clients: u32,
    /// Time of one run, its warm-up included.
    #[arg(long, value_name = "TIME", default_value = "1h")]
    #[arg(value_parser = base::parse_duration)]
    max_time: Duration,
    /// Payload of one run, both directions together.
    #[arg(long, value_name = "BYTES", default_value = "1024GiB")]
    max_bytes: Bytes,
    /// Send a client away that says nothing for this time.
    #[arg(long, value_name = "TIME", default_value = "10s")]
    #[arg(value_parser = base::parse_duration)]
    idle_timeout: Duration,
    /// Only for those that hold this key.
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
}

#[derive(Serialize)]
struct Document {
    address: SocketAddr,
    key_required: bool,
    max_clients: u32,
    max_time_s: f64,
    max_bytes: u64,
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<Exit> {
    let limits = limits(args)?;
    let key = read_key(args.key_file.as_deref())?;
    let document = Document {
        address: SocketAddr::new(args.bind, args.port),
        key_required: key.is_some(),
        max_clients: limits.clients,
        max_time_s: limits.time.as_secs_f64(),
        max_bytes: limits.bytes,
    };
    let serve =
        Serve::bind(document.address, limits, key).map_err(|error| bind_problem(args, error))?;
    let address = serve.address()?;
    let document = Document {
        address,
        ..document
    };
    output.report("serve", &document, || format!("Listening on {address}."))?;
    if !args.bind.is_loopback() && !document.key_required {
        output.note("note: everybody who reaches this address may measure; --key-file limits it");
    }
    let stopper = serve.stopper();
    let _guard = interrupt::on_stop(move || stopper.stop());
    serve.run(args.one_off, &|event| {
        // A reader of the log that left is no reason to end the service.
        let _ = output.line(line_of(&event));
    })?;
    Ok(if interrupt::stopped() {
        Exit::Interrupted
    } else {
        Exit::Done
    })
}

/// What to do where the address cannot be listened on.
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
    Problem {
        exit: Exit::Failed,
        message: format!("cannot listen on {address}: {source}"),
        hint: Some(hint.into()),
    }
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
    Ok(Limits {
        clients: args.max_clients,
        time: args.max_time,
        bytes: args.max_bytes.0,
        idle: args.idle_timeout,
    })
}

/// The shared key from a file, or else from the environment.
pub(crate) fn read_key(file: Option<&Path>) -> anyhow::Result<Option<Key>> {
    let text = match file {
        Some(path) => Some(
            std::fs::read_to_string(path)
                .with_context(|| format!("reading the key file {}", path.display()))?,
        ),
        None => std::env::var(KEY_VARIABLE).ok(),
    };
    let key = text.map(|text| Key::new(&text)).transpose();
    Ok(key.map_err(|what| {
        let from = file.map_or(KEY_VARIABLE.to_owned(), |path| path.display().to_string());
        Problem::usage(format!("{from}: {what}"))
    })?)
}

fn line_of(event: &Event) -> String {
    match event {
        Event::Welcomed { client } => format!("{client}: connected"),
        Event::Refused { client, reason } => format!("{client}: refused: {reason}"),
        Event::Left {
            client,
            reason: None,
        } => format!("{client}: left"),
        Event::Left {
            client,
            reason: Some(reason),
        } => format!("{client}: broke off: {reason}"),
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
