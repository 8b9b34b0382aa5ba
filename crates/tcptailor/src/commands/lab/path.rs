//! A lab path that stays, for any program: two namespaces with the kernel's TCP and the emulator
//! between them. It starts nothing at the ends itself.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use base::{Diagnostic, Netns};
use lab::{Caveat, LinkOutcome, Scenario, Trial};
use linux::supervise;
use linux::{Clock, LabPath, NAMED_DIR, NetnsHandle};
use serde::Serialize;

use crate::exit::{Exit, Problem};
use crate::interrupt;
use crate::output::Output;
use crate::subject::path::Links;

/// How often the path looks whether it should end.
const POLL: Duration = Duration::from_millis(20);
/// How long a command has to end by itself after Ctrl-C.
const GRACE: Duration = Duration::from_secs(2);
/// A scenario is what reads the settings of a path; its workload is never run.
const SCENARIO: &str = "\
name = \"path\"
about = \"A path for any program.\"
[workload]
kind = \"bulk\"
direction = \"up\"
duration = \"1s\"
[path]
kind = \"emulated\"
";

/// Set up a lab path for other programs.
///
/// Makes two network namespaces that are joined by emulated links, prints their names and
/// addresses, and removes them at Ctrl-C or SIGTERM, or when COMMAND ends. Programs run there with
/// `ip netns exec NAME`. At the end it reports what the links carried and dropped, and how late the
/// emulator forwarded packets.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tcptailor lab path --rate 50mbit --rtt 40ms --queue 1bdp      until Ctrl-C
  tcptailor lab path --rtt 20ms --loss 1% -- ./test.sh          until the script ends
  tcptailor lab path --set path.forward.rate=10mbit --json      a line of JSON when it is ready
  ip netns exec tcptailor-4127-9000-0-b iperf3 -s               ... and then, elsewhere
  ip netns exec tcptailor-4127-9000-0-a iperf3 -c 10.77.0.2

COMMAND finds the path in CLIENT_NETNS, SERVER_NETNS, CLIENT_ADDRESS and SERVER_ADDRESS. With
--json the second line, at the end, has the links and the caveats.

Exit codes: that of COMMAND; 126 or 127 if it cannot be run or found.")]
pub(crate) struct Args {
    /// Rate of both directions; no limit by default.
    #[arg(long, value_name = "RATE")]
    rate: Option<String>,
    /// Round-trip time, half of it each way.
    #[arg(long, value_name = "TIME")]
    rtt: Option<String>,
    /// Queue limit of each link: `250p`, `64KiB` or `2bdp`.
    #[arg(long, value_name = "QUEUE")]
    queue: Option<String>,
    /// Random loss in both directions.
    #[arg(long, value_name = "PERCENT")]
    loss: Option<String>,
    /// MTU of the interfaces.
    #[arg(long, value_name = "BYTES")]
    mtu: Option<String>,
    /// Jitter: extra delay of each packet, uniform between zero and this.
    #[arg(long, value_name = "TIME")]
    jitter: Option<String>,
    /// Any other setting of a scenario's path, such as `path.reorder.share=2%`.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Seed of the random number generators.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Run this program, and end with it.
    #[arg(value_name = "COMMAND", last = true)]
    command: Vec<OsString>,
}

/// How to go without root: names of namespaces are mounts in /run/netns.
const IN_USER_NAMESPACE: &str = "Without root, where user namespaces and /dev/net/tun are permitted: \
     unshare -rm sh -c 'mount -t tmpfs tmpfs /run && tcptailor lab path -- COMMAND'";

/// One end, for starting programs there.
#[derive(Debug, Serialize)]
struct Host {
    netns: String,
    address: String,
}

/// The line that says that the path is ready.
#[derive(Debug, Serialize)]
struct Ready<'p> {
    schema: &'static str,
    client: Host,
    server: Host,
    interface: &'p str,
    seed: u64,
}

/// Final counters of the path.
#[derive(Debug, Serialize)]
struct Ended {
    schema: &'static str,
    link: Links,
    caveats: Vec<Caveat>,
    usable: bool,
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<Exit> {
    let trial = trial(args)?;
    linux::cleanup::remove_leftovers()?;
    let path = LabPath::create(&trial.path, trial.seed).map_err(|error| {
        // The program does not do that itself: COMMAND would see itself as root.
        match error.is_missing_privilege() {
            true => Problem::missing(error).hint(IN_USER_NAMESPACE).into(),
            false => anyhow::Error::from(error),
        }
    })?;
    let ready = Ready {
        schema: "tcptailor/lab-path/1",
        client: host(path.a(), &path.a_addr())?,
        server: host(path.b(), &path.b_addr())?,
        interface: path.interface(),
        seed: trial.seed,
    };
    // The command's own output stands alone on stdout.
    match (args.command.is_empty(), output.is_json()) {
        (_, true) => output.json_line(&ready)?,
        (true, false) => output.print(&shown(&ready))?,
        (false, false) => output.note(shown(&ready)),
    }
    let exit = match args.command.split_first() {
        None => wait(),
        Some((program, rest)) => run_command(program, rest, &ready)?,
    };
    let ended = end(&path)?;
    match output.is_json() {
        true => output.json_line(&ended)?,
        false => output.note(ended.shown()),
    }
    Ok(exit)
}

/// The trial described by the flags, checked by the rules of scenarios.
fn trial(args: &Args) -> Result<Trial, Problem> {
    let flags = [
        ("rate", &args.rate),
        ("rtt", &args.rtt),
        ("queue", &args.queue),
        ("loss", &args.loss),
        ("mtu", &args.mtu),
        ("jitter", &args.jitter),
    ];
    let given = flags
        .into_iter()
        .filter_map(|(key, value)| Some((key, value.as_deref()?)));
    let set: Vec<(&str, &str)> = args
        .set
        .iter()
        .map(|setting| path_setting(setting))
        .collect::<Result<_, _>>()?;
    let mut text = SCENARIO.to_owned();
    for (key, value) in given.chain(set) {
        text.push_str(&format!("{key} = \"{}\"\n", value.escape_default()));
    }
    let wrong = |found: Vec<Diagnostic>| {
        let messages: Vec<String> = found.into_iter().map(|one| one.message).collect();
        Problem::usage(messages.join("\n"))
    };
    let mut scenario = Scenario::parse("path", &text).map_err(wrong)?;
    if let Some(seed) = args.seed {
        scenario.set("seed", &seed.to_string()).map_err(wrong)?;
    }
    let cells = scenario.trials();
    Ok(cells.first().expect("it sweeps over nothing").run(0))
}

/// Key and value of `path.KEY=VALUE`.
fn path_setting(setting: &str) -> Result<(&str, &str), Problem> {
    let is_key = |key: &str| {
        key.bytes()
            .all(|b| b.is_ascii_lowercase() || b"._".contains(&b))
    };
    setting
        .split_once('=')
        .and_then(|(key, value)| Some((key.trim().strip_prefix("path.")?, value.trim())))
        .filter(|(key, _)| is_key(key))
        .ok_or_else(|| {
            let message = format!("--set {setting}: write path.KEY=VALUE");
            Problem::usage(message).hint("The programs at the ends are yours to set.")
        })
}

/// An end whose namespace other programs can enter by its name.
fn host(netns: &NetnsHandle, address: &impl ToString) -> Result<Host, Problem> {
    let name = match netns.name() {
        Netns::Named(name) if Path::new(NAMED_DIR).join(name).exists() => name.clone(),
        _ => {
            let what = "cannot give a network namespace a name: mounting is not permitted";
            return Err(Problem::missing(what).hint(IN_USER_NAMESPACE));
        }
    };
    Ok(Host {
        netns: name,
        address: address.to_string(),
    })
}

fn shown(ready: &Ready<'_>) -> String {
    let Ready { client, server, .. } = ready;
    format!(
        "client {} {}  server {} {}",
        client.netns, client.address, server.netns, server.address
    )
}

/// Until Ctrl-C, which is how it is meant to end.
fn wait() -> Exit {
    while !interrupt::stopped() {
        thread::sleep(POLL);
    }
    Exit::Done
}

fn run_command(program: &OsString, rest: &[OsString], path: &Ready<'_>) -> anyhow::Result<Exit> {
    let mut child = Command::new(program)
        .args(rest)
        .env("CLIENT_NETNS", &path.client.netns)
        .env("SERVER_NETNS", &path.server.netns)
        .env("CLIENT_ADDRESS", &path.client.address)
        .env("SERVER_ADDRESS", &path.server.address)
        .spawn()
        .map_err(|error| Problem::not_started(program, &error))?;
    let status = wait_for(&mut child).context("waiting for the command")?;
    if interrupt::stopped() {
        return Ok(Exit::Interrupted);
    }
    Ok(Exit::OfProgram(supervise::Ended::from(status).shell_code()))
}

/// After Ctrl-C, which a terminal sends to the command too, it has a while to end.
fn wait_for(child: &mut Child) -> std::io::Result<ExitStatus> {
    let mut stopped_at = None;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if interrupt::stopped() {
            let since = *stopped_at.get_or_insert_with(|| Clock.now());
            if Clock.now().since(since) > GRACE {
                child.kill()?;
            }
        }
        thread::sleep(POLL);
    }
}

fn end(path: &LabPath) -> anyhow::Result<Ended> {
    let (forward, reverse) = path.outcome();
    let caveats = path.caveats()?;
    Ok(Ended {
        schema: "tcptailor/lab-path-end/1",
        usable: !caveats.iter().any(Caveat::forbids_use),
        link: Links { forward, reverse },
        caveats,
    })
}

impl Ended {
    fn shown(&self) -> String {
        let link = |name: &str, link: &LinkOutcome| {
            let late = link.lateness_us.unwrap_or_default();
            format!(
                "{name}: {} of {} packets delivered, {} dropped by the queue, emulator late by {} \
                 us (p50), {} us (p99), {} us (max)",
                link.delivered,
                link.sent,
                link.queue_dropped_segments,
                late.p50,
                late.p99,
                late.max
            )
        };
        let mut lines = vec![
            link("forward", &self.link.forward),
            link("reverse", &self.link.reverse),
        ];
        lines.extend(
            self.caveats
                .iter()
                .map(|caveat| format!("caveat: {caveat}")),
        );
        lines.join("\n")
    }
}
