//! What limits the connections of this machine: watch for a while, ask the doctor about each flow,
//! show the answer. Changes nothing; `-o` writes down what `apply` would change.

pub(crate) mod document;
pub(crate) mod screen;
pub(crate) mod seen;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use base::{Change, Netns};
use clap::ValueEnum;
use doctor::Recording;
use linux::{Filter, NetnsHandle, OwnerProcess, Plan, ScanRequest, SockDiag, WatchRequest};

use self::document::Document;
use crate::exit::{Exit, Problem};
use crate::interrupt;
use crate::output::Output;
use crate::progress::Progress;

/// Up to so many sockets all are watched whatever the filter says, because the other end of a
/// connection may be among them; above, only those that match.
const SOCKETS_WATCHED_WHOLE: usize = 500;
/// The doctor gives no verdict on less.
const TIME_MIN: Duration = Duration::from_secs(1);
const TIME_MAX: Duration = Duration::from_secs(3600);
const INTERVAL_MIN: Duration = Duration::from_millis(1);
/// The doctor wants at least twenty samples.
const SAMPLES_MIN: u32 = 20;

/// Name what limits each connection, with evidence and what to change.
///
/// Watches the TCP sockets of this machine (or of one process or namespace) for some seconds.
/// Without root it sees all connections, but only the programs of its own user.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tcptailor diagnose                              all connections, for 5 seconds
  tcptailor diagnose --pid 4127 -t 10s -v         one process, longer, with the evidence
  tcptailor diagnose dport = :443 and dst 10.0.0.0/8
  tcptailor diagnose 'comm = backup' -o plan.json     then: tcptailor apply plan.json
  tcptailor diagnose --fail-on findings --json    for scripts: exit code 3 if something is wrong

Filters, as in ss(8): sport, dport (= != < <= > >= :PORT), src, dst (ADDRESS[/BITS][:PORT]), pid,
comm, uid, cgroup, state; joined by and, or, not and parentheses.")]
pub(crate) struct Args {
    /// Only connections that match.
    #[arg(value_name = "FILTER")]
    filter: Vec<String>,
    /// Only connections of this process, in its network namespace.
    #[arg(short, long, value_name = "PID", conflicts_with = "netns")]
    #[arg(value_parser = process_number)]
    pid: Option<u32>,
    /// The connections of this network namespace (`ip netns` lists them).
    #[arg(short = 'N', long, value_name = "NAME")]
    netns: Option<String>,
    /// For how long to watch.
    #[arg(short, long, value_name = "TIME", default_value = "5s")]
    #[arg(value_parser = base::parse_duration)]
    time: Duration,
    /// Mean time from look to look.
    #[arg(short, long, value_name = "TIME", default_value = "10ms")]
    #[arg(value_parser = base::parse_duration)]
    interval: Duration,
    /// Exit with code 3 if there is any.
    #[arg(long, value_name = "WHAT")]
    fail_on: Option<FailOn>,
    /// Write the changes that can be made at once into this file, for `tcptailor apply`.
    #[arg(short, long, value_name = "PLAN.json")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FailOn {
    /// A change that would help, or a defect of a program or of the path.
    Findings,
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<Exit> {
    check_times(args.time, args.interval)?;
    args.output.as_deref().map_or(Ok(()), check_plan_path)?;
    let filter = parse_filter(args)?;
    filter.fixed_pid().map_or(Ok(()), check_may_see)?;
    let netns_name = netns_of(args);
    let netns = NetnsHandle::open(&netns_name)?;
    let watched = watch(args, &netns, &filter, output)?;
    let document = seen::diagnose(&watched, &netns_name, &filter);
    drop(watched);
    tell_what_is_missing(&document, output);

    let plan = document::plan(&document.flows);
    let planned = plan.len();
    if let Some(path) = &args.output {
        write_plan(path, plan)?;
    }
    let next = next_step(args, &document, planned, output.verbosity());
    output.report("diagnose", &document, || {
        screen::render(
            &document,
            &screen::Style {
                verbosity: output.verbosity(),
                next: &next,
            },
        )
    })?;
    Ok(match args.fail_on {
        _ if document.interrupted => Exit::Interrupted,
        Some(FailOn::Findings) if document.findings > 0 => Exit::Findings,
        _ => Exit::Done,
    })
}

/// Reads the number of a process.
pub(crate) fn process_number(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(pid) if pid > 0 => Ok(pid),
        _ => Err("a process is a number from 1 on, as `ps` shows it".into()),
    }
}

fn check_times(time: Duration, interval: Duration) -> Result<(), Problem> {
    let shown = base::format_duration;
    if !(TIME_MIN..=TIME_MAX).contains(&time) {
        let (min, max) = (shown(TIME_MIN), shown(TIME_MAX));
        return Err(Problem::usage(format!(
            "-t {}: the range is {min} to {max}",
            shown(time)
        )));
    }
    let max = time / SAMPLES_MIN;
    if !(INTERVAL_MIN..=max).contains(&interval) {
        return Err(Problem::usage(format!(
            "-i {}: with -t {} the range is {} to {}, for at least {SAMPLES_MIN} looks",
            shown(interval),
            shown(time),
            shown(INTERVAL_MIN),
            shown(max)
        )));
    }
    Ok(())
}

/// The filter of the command line; `--pid` is one more test.
fn parse_filter(args: &Args) -> Result<Filter, Problem> {
    let words = args.filter.join(" ");
    let text = match args.pid {
        Some(pid) if words.trim().is_empty() => format!("pid = {pid}"),
        Some(pid) => format!("pid = {pid} and ( {words} )"),
        None => words,
    };
    let mut filter: Filter = text.parse().map_err(|error| {
        Problem::usage(error).hint("`tcptailor diagnose --help` lists the tests")
    })?;
    filter.resolve_cgroups(&linux::cgroup_id);
    Ok(filter)
}

fn netns_of(args: &Args) -> Netns {
    match (&args.netns, args.pid) {
        (Some(name), _) => Netns::Named(name.clone()),
        (None, Some(pid)) => netns_of_process(pid),
        (None, None) => Netns::Own,
    }
}

/// The namespace of a process, as messages call it.
pub(crate) fn netns_of_process(pid: u32) -> Netns {
    if is_elsewhere(pid) {
        Netns::OfProcess(pid)
    } else {
        Netns::Own
    }
}

/// Refuses to look at a process whose sockets we may not see: it would seem to have none.
pub(crate) fn check_may_see(pid: u32) -> Result<(), Problem> {
    match std::fs::read_dir(format!("/proc/{pid}/fd")) {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Err(Problem {
            exit: Exit::Missing,
            message: format!("seeing the sockets of process {pid} needs CAP_SYS_PTRACE"),
            hint: Some("Run as root, or as the user of that process.".into()),
        }),
        _ => Ok(()),
    }
}

/// Whether a process lives in another network namespace than we.
fn is_elsewhere(pid: u32) -> bool {
    let inode = |name: &Netns| NetnsHandle::open(name).and_then(|netns| netns.inode()).ok();
    let theirs = inode(&Netns::OfProcess(pid));
    theirs.is_some() && theirs != inode(&Netns::Own)
}

fn watch(
    args: &Args,
    netns: &NetnsHandle,
    filter: &Filter,
    output: &Output,
) -> anyhow::Result<Recording> {
    let process = filter.fixed_pid().map(OwnerProcess::open).transpose()?;
    let sockets = SockDiag::open_in(netns)?
        .scan(linux::Clock.now(), &ScanRequest::default())?
        .len();
    let whole = sockets <= SOCKETS_WATCHED_WHOLE;
    let sysctls = crate::subject::sysctls();
    let stop = AtomicBool::new(false);
    let request = WatchRequest {
        netns: Some(netns),
        interval: args.interval,
        sysctls: &sysctls,
        stop: Some(&stop),
        ..WatchRequest::new(
            if whole {
                Filter::default()
            } else {
                filter.clone()
            },
            args.time,
        )
    };
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let bar = Progress::bar(output, "watching", millis(args.time));
    let mut watched = linux::watch(&request, &mut |progress| {
        bar.set(millis(progress.elapsed));
        let process_ended = process.as_ref().is_some_and(OwnerProcess::has_ended);
        if interrupt::stopped() || process_ended {
            stop.store(true, Ordering::Relaxed);
        }
    })?;
    watched.process_ended |= process.as_ref().is_some_and(OwnerProcess::has_ended);
    Ok(watched)
}

/// Doubts about the whole answer, beside it.
fn tell_what_is_missing(document: &Document, output: &Output) {
    if document.process_ended {
        let seen = base::human::time(Duration::from_secs_f64(document.duration_s));
        output.note(format!("note: the process ended, {seen} after the start"));
    }
    if document.flows_left_out > 0 {
        output.note(format!(
            "note: {} connections were left out, there are too many at once; use a filter",
            document.flows_left_out
        ));
    }
    if let Some(error) = document
        .flows
        .iter()
        .find_map(|flow| flow.options_error.as_ref())
    {
        output.note(format!(
            "note: options of some sockets could not be read: {error}"
        ));
    }
}

/// Refuses a plan's place that cannot be written before anybody has waited for the answer.
pub(crate) fn check_plan_path(path: &Path) -> Result<(), Problem> {
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let shown = path.display();
    match parent {
        _ if path.is_dir() => Err(Problem::usage(format!("-o {shown}: this is a directory"))),
        Some(parent) if !parent.is_dir() => Err(Problem::usage(format!(
            "-o {shown}: there is no directory {}",
            parent.display()
        ))),
        _ => Ok(()),
    }
}

/// Writes a plan for `apply`.
pub(crate) fn write_plan(path: &Path, changes: Vec<Change>) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(&Plan::new(changes)).context("writing JSON")?;
    std::fs::write(path, text + "\n").with_context(|| format!("writing {}", path.display()))
}

/// What to type next.
fn next_step(args: &Args, document: &Document, planned: usize, verbosity: u8) -> String {
    if document.findings == 0 {
        return String::new();
    }
    let evidence = if verbosity == 0 {
        "  (-v shows the evidence)"
    } else {
        ""
    };
    if document.process_ended {
        // There is nothing left to change.
        return String::new();
    }
    let step = match &args.output {
        _ if planned == 0 => {
            "Nothing of it can be changed at once from here; the notes say who can.".into()
        }
        Some(path) => format!("Next: tcptailor apply {} --dry-run", path.display()),
        None => {
            let words: Vec<String> = std::env::args().skip(1).map(|word| quoted(&word)).collect();
            let command = words.join(" ");
            format!("Next: tcptailor {command} -o plan.json && tcptailor apply plan.json")
        }
    };
    step + evidence
}

/// A word as a shell reads it back.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,=@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.into()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_range() {
        let check = |time: &str, interval: &str, expected: &str| {
            let parse = |text| base::parse_duration(text).unwrap();
            let found = match check_times(parse(time), parse(interval)) {
                Ok(()) => String::new(),
                Err(problem) => problem.to_string(),
            };
            assert_eq!(found, expected);
        };
        check("5s", "10ms", "");
        check("1s", "50ms", "");
        check("500ms", "10ms", "-t 500ms: the range is 1s to 3600s");
        check(
            "1s",
            "100ms",
            "-i 100ms: with -t 1s the range is 1ms to 50ms, for at least 20 looks",
        );
    }

    #[test]
    fn words_are_quoted_for_the_shell() {
        let check = |word: &str, expected: &str| assert_eq!(quoted(word), expected);
        check("dport", "dport");
        check("=", "=");
        check("( x )", "'( x )'");
        check("it's", "'it'\\''s'");
        check("", "''");
    }
}
