//! Limits of this machine's connections: watch for a while, ask the doctor about each flow, show
//! the answer. Changes nothing; `-o` writes down what `apply` would change.

mod capture;
pub(crate) mod document;
pub(crate) mod everywhere;
pub(crate) mod page;
pub(crate) mod replay;
pub(crate) mod screen;
pub(crate) mod seen;
pub(crate) mod service;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use base::{Change, Live, Netns};
use clap::ValueEnum;
use doctor::Recording;
use linux::{Filter, NetnsHandle, NetnsPlace, Plan};

use self::document::Document;
use self::page::Drawn;
use crate::commands::watching::{self, Watching};
use crate::exit::{Exit, Problem};
use crate::output::{self, Output};

/// Show what limits each connection, why, and what to change.
///
/// Samples the TCP sockets of this machine (or of one process or network namespace) for a few
/// seconds. Without root it sees all connections, but only the processes of its own user.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tcptailor diagnose                              all connections, for 5 seconds
  tcptailor diagnose --pid 4127 -t 10s -v         one process, longer, with the evidence
  tcptailor diagnose dport = :443 and dst 10.0.0.0/8
  tcptailor diagnose --all-netns                  of all containers too
  tcptailor diagnose 'comm = backup' -o plan.json     then: tcptailor apply plan.json
  tcptailor diagnose --fail-on findings --json    for scripts: exit code 3 if something is wrong
  tcptailor diagnose ./slow.rec sport = :443      what `tcptailor record` saved
  tcptailor diagnose slow.pcapng.zst -v           what tcpdump or Wireshark captured
  tcptailor diagnose slow.pcap --html slow.html   as a page with plots over time
  sudo tcpdump -i eth0 -s 128 -w - tcp | tcptailor diagnose -

A first argument that contains a dot or a slash is a recording or a packet capture (pcap, pcapng;
gzip, zstd), unless it is a filter, such as an address, and no file has that name; `-` is one on
standard input. Filters, as in ss(8): sport, dport
(= != < <= > >= :PORT), src, dst (ADDRESS[/BITS][:PORT]), pid, comm, uid, cgroup, state; joined by
and, or, not and parentheses. An address alone (10.0.0.9, 10.0.0.0/8, :443) is that of either
end.")]
pub(crate) struct Args {
    #[command(flatten)]
    watching: Watching,
    /// All network namespaces of this machine, including containers.
    #[arg(long, conflicts_with_all = ["netns", "pid"])]
    all_netns: bool,
    /// Exit with code 3 if there is a finding.
    #[arg(long, value_name = "WHAT")]
    fail_on: Option<FailOn>,
    /// Write what a capture shows of each connection to this file, as lines of JSON.
    #[arg(long, value_name = "FILE")]
    write_flows: Option<PathBuf>,
    /// Write the changes that can be applied now to this file, for `tcptailor apply`.
    #[arg(short, long, value_name = "PLAN.json")]
    output: Option<PathBuf>,
    /// Also write the answer as an HTML page with plots over time; it needs no network.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FailOn {
    /// A change that would help, or a defect in a program or in the path.
    Findings,
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<Exit> {
    args.output
        .as_deref()
        .map_or(Ok(()), output::check_writable)?;
    output::check_page(args.html.as_deref())?;
    let (document, drawn) = match replay::file(&args.watching) {
        Some(file) => replay::judge(file, args, output)?,
        None if args.write_flows.is_some() => {
            let what = "--write-flows: live connections show no packets; give a capture file";
            return Err(Problem::usage(what).into());
        }
        None if args.all_netns => everywhere::look(&args.watching, args.html.is_some(), output)?,
        None => look(&args.watching, args.html.is_some(), output)?,
    };
    for missing in missing(&document) {
        output.note(format!("note: {missing}"));
    }

    let plan = document::plan(&document.flows);
    let planned = plan.len();
    if let Some(path) = &args.output {
        write_plan(path, plan, output)?;
    }
    let next = next_step(args, &document, planned, output.verbosity());
    let told = output.report("diagnose", &document, || {
        screen::render(
            &document,
            &screen::Style {
                verbosity: output.verbosity(),
                has_advice: !output.is_quiet(),
                next: &next,
            },
        )
    });
    // If one of the two cannot be written, the other is not lost.
    if let Some(path) = &args.html {
        let command = command_words(args.html.is_some());
        let asked = page::Asked {
            file: replay::file(&args.watching),
            command: &command,
        };
        output::write_page(path, &page::render(&document, &drawn, &asked))?;
    }
    told?;
    let exit = match args.fail_on {
        _ if document.interrupted => Exit::Interrupted,
        Some(FailOn::Findings) if document.findings > 0 => Exit::Findings,
        _ => Exit::Done,
    };
    // The end of the program gives the memory of thousands of rows back at once.
    std::mem::forget(document);
    Ok(exit)
}

/// Watches this machine and asks the doctor.
fn look(watching: &Watching, has_page: bool, output: &Output) -> anyhow::Result<(Document, Drawn)> {
    let mut filter = watching.filter()?;
    let netns = watching.netns();
    let handle = NetnsHandle::open(&netns)?;
    watching::note_unsettled(output);
    let recording = watching::watch(watching, &handle, &filter, output)?;
    filter.renew(&handle);
    let (mut document, drawn) = judged(&recording, &netns, &filter, has_page);
    if watching.watched.pid.is_some() {
        // Of other processes nothing was asked.
        document.unseen_processes = 0;
    }
    if document.flows.is_empty() && !watching.watched.filter.is_empty() {
        output.note("note: no connection matches the filter");
    }
    let pid = watching.watched.pid.filter(|_| document.flows.is_empty());
    if let Some(workers) = pid.and_then(super::workers::of) {
        output.note(format!(
            "note: child processes of it have connections: {workers}"
        ));
    }
    // A process is looked at where it is: --all-netns is not for it.
    if document.flows.is_empty() && netns == Netns::Own && watching.watched.pid.is_none() {
        tell_of_others(output);
    }
    Ok((document, drawn))
}

/// The doctor's answers, with what a page of them draws.
fn judged(
    recording: &Recording,
    netns: &Netns,
    filter: &Filter,
    has_page: bool,
) -> (Document, Drawn) {
    match has_page {
        true => {
            let (document, courses) = seen::diagnose_drawn(recording, netns, filter);
            let drawn = Drawn {
                courses,
                ..Drawn::default()
            };
            (document, drawn)
        }
        false => (seen::diagnose(recording, netns, filter), Drawn::default()),
    }
}

/// Notes that connections not seen here may be in a container.
fn tell_of_others(output: &Output) {
    let places = linux::all_netns();
    let others = &places[1..];
    if others.is_empty() {
        return;
    }
    // Without root there may be none that the flag could look into.
    let may_enter = |place: &NetnsPlace| {
        NetnsHandle::open(&place.netns).is_ok_and(|handle| handle.run(|| ()).is_ok())
    };
    let how = match others.iter().any(may_enter) {
        true => "--all-netns",
        false => "--all-netns, with CAP_SYS_ADMIN (root outside of containers)",
    };
    output.note(format!(
        "note: {} not looked at, such as those of containers: {how}",
        base::human::count(others.len() as u64, "other network namespace")
    ));
}

/// Doubts about the whole answer, beside it.
fn missing(document: &Document) -> Vec<String> {
    let mut missing = Vec::new();
    if document.process_ended {
        let seen = base::human::time(Duration::from_secs_f64(document.duration_s));
        missing.push(format!("the process ended, {seen} after the start"));
    }
    missing.extend(document.netns_left_out());
    if document.flows_left_out > 0 {
        missing.push(format!(
            "{} connections were left out, there are too many at once; use a filter",
            document.flows_left_out
        ));
    }
    let errors = document.flows.iter();
    let error = errors.filter_map(|flow| flow.options_error.as_ref()).next();
    missing
        .extend(error.map(|error| format!("options of some sockets could not be read: {error}")));
    missing
}

/// Writes a plan for `apply`, with what there is now.
pub(crate) fn write_plan(path: &Path, changes: Vec<Change>, output: &Output) -> anyhow::Result<()> {
    let (plan, left_out) = Plan::of_present(changes)?;
    for (change, error) in left_out {
        output.note(format!("note: left out of the plan: {change}: {error}"));
    }
    let text = serde_json::to_string_pretty(&plan).context("writing JSON")?;
    crate::output::write_text(path, &(text + "\n"))
}

/// Suggests the next command.
fn next_step(args: &Args, document: &Document, planned: usize, verbosity: u8) -> String {
    if document.findings == 0 {
        return String::new();
    }
    let evidence = if verbosity == 0 {
        "  # -v shows the evidence"
    } else {
        ""
    };
    if document.process_ended || replay::file(&args.watching).is_some() {
        // There is nothing left to change.
        return String::new();
    }
    let step = match &args.output {
        _ if planned == 0 && needs_root(document) => {
            "Next: the same command as root, which may make these changes.".into()
        }
        _ if planned == 0 => {
            "Nothing of it can be changed at once from here; the notes say who can.".into()
        }
        Some(path) => format!("Next: tcptailor apply {} --dry-run", path.display()),
        None => {
            let command = command_words(args.html.is_some());
            format!("Next: {command} -o plan.json && tcptailor apply plan.json")
        }
    };
    step + evidence
}

/// The command as it was typed, but for the page that it writes, where it writes one.
pub(crate) fn command_words(has_page: bool) -> String {
    let mut words = vec!["tcptailor".to_owned()];
    let mut typed = std::env::args().skip(1);
    while let Some(word) = typed.next() {
        match word.as_str() {
            "--html" if has_page => drop(typed.next()),
            word if has_page && word.starts_with("--html=") => {}
            word => words.push(quoted(word)),
        }
    }
    words.join(" ")
}

/// Whether a change that would be made at once fails for lack of a permission.
fn needs_root(document: &Document) -> bool {
    let verdicts = document.flows.iter().flat_map(|flow| &flow.verdicts);
    let sure = verdicts.filter(|verdict| verdict.finding && verdict.act);
    let mut changes = sure.flat_map(|verdict| verdict.change.iter().chain(&verdict.alternatives));
    changes.any(|change| {
        change.takes_effect == Live::Now
            && change
                .requires
                .is_some_and(|what| what != document::ITS_PROGRAM)
    })
}

/// A word as a shell reads it back.
pub(crate) fn quoted(word: &str) -> String {
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
    fn words_are_quoted_for_the_shell() {
        let check = |word: &str, expected: &str| assert_eq!(quoted(word), expected);
        check("dport", "dport");
        check("=", "=");
        check("( x )", "'( x )'");
        check("it's", "'it'\\''s'");
        check("", "''");
    }
}
