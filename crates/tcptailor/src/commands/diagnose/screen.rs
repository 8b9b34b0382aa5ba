//! The answer for people: a table of connections by service, what is wrong and what to change, what
//! is unclear, and what to type next.

mod verdict;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use base::{Netns, human};
use doctor::Place;

use self::verdict::Telling;
pub(crate) use self::verdict::{advice, confidence, findings, sureness};
use super::capture;
use super::document::{Direction, Document, FlowRow, HostRow};
use super::service::{Answer, Row};
use crate::output::{self, push_wrapped};

/// Rows that are shown unless everything is asked for.
const ROWS_MAX: usize = 20;
/// Rows whose findings are told unless everything is asked for: this many fit on a screen.
const TOLD_MAX: usize = 5;

/// Style of the screen, beside the document.
pub(crate) struct Style<'a> {
    pub(crate) verbosity: u8,
    /// Whether changes and notes are told beside what was found.
    pub(crate) has_advice: bool,
    /// The commands to go on with.
    pub(crate) next: &'a str,
}

pub(crate) fn render(document: &Document, style: &Style<'_>) -> String {
    let mut screen = String::new();
    let (shown, left_out) = rows_to_show(document, style.verbosity);
    if !shown.is_empty() {
        screen.push_str(&table(&shown));
        push_findings(&mut screen, &shown, style);
        push_unclear(&mut screen, &shown);
        screen.push('\n');
    }
    for row in &document.host {
        push_host_finding(&mut screen, row, style);
    }
    screen.push_str(&summary(document, left_out));
    if let Some(info) = &document.capture {
        capture::push_summary(&mut screen, info);
    }
    if !style.next.is_empty() {
        screen.push_str(style.next);
        screen.push('\n');
    }
    screen
}

/// A finding that is of the host and of no single connection.
fn push_host_finding(text: &mut String, row: &HostRow, style: &Style<'_>) {
    let whose = whose(row);
    let telling = Telling {
        whose: &whose,
        seen_s: 0.0,
        changes_elsewhere: 0,
        with_advice: style.has_advice,
        with_evidence: style.verbosity > 0,
    };
    verdict::push(text, &row.verdict, &telling);
    text.push('\n');
}

/// The most important rows, and the number of connections in the others. What is idle is shown
/// with everything else only.
pub(super) fn rows_to_show(document: &Document, verbosity: u8) -> (Vec<Row<'_>>, usize) {
    if verbosity > 1 {
        return (Row::each(&document.flows), 0);
    }
    let mut rows = Row::by_service(&document.flows);
    rows.retain(|row| Answer::of(row.first()) != Answer::Idle);
    rows.truncate(ROWS_MAX);
    let shown: usize = rows.iter().map(Row::connections).sum();
    let left_out = document.counts.connections - shown;
    (rows, left_out)
}

fn table(rows: &[Row<'_>]) -> String {
    let place_of = |row: &Row<'_>| row.first().netns.clone();
    let are_apart = rows
        .windows(2)
        .any(|two| place_of(&two[0]) != place_of(&two[1]));
    let place = are_apart.then_some("WHERE");
    let header = ["", "CONNECTION"].into_iter().chain(place).chain([
        "PID/CMD",
        "RATE",
        "MIN RTT",
        "LIMITED BY",
        "SHARE",
        "CONF",
    ]);
    let mut table = output::table(&header.collect::<Vec<_>>());
    for (number, row) in rows.iter().enumerate() {
        let flow = row.first();
        let (limited_by, share, confidence) = match row.main() {
            Some(main) => (
                main.id,
                human::share(row.share()),
                verdict::confidence(main),
            ),
            None if flow.idle => ("idle", String::new(), String::new()),
            None => ("unclear", String::new(), String::new()),
        };
        let place = are_apart.then(|| where_it_is(flow));
        let cells = [(number + 1).to_string(), ends(row)]
            .into_iter()
            .chain(place)
            .chain([
                owner(row),
                row.rate_bps().map_or_else(|| "?".into(), human::bps),
                row.min_rtt_us().map_or_else(|| "?".into(), human::micros),
                limited_by.to_owned(),
                share,
                confidence,
            ]);
        table.add_row(cells);
    }
    let numbers = [3, 4, 6].map(|column| column + usize::from(are_apart));
    output::align_right(&mut table, &numbers);
    output::keep_whole(&mut table, 5 + usize::from(are_apart));
    output::render(&table)
}

/// Whose a finding is that is of no single connection: the container, the namespace, or the host.
pub(crate) fn whose(row: &HostRow) -> String {
    match (&row.netns, &row.container) {
        (Netns::Own, None) => "host".to_owned(),
        (netns, container) => place_name(netns, container.as_deref()),
    }
}

/// Namespace and process of a connection.
pub(super) fn where_it_is(flow: &FlowRow) -> String {
    place_name(&flow.netns, flow.container.as_deref())
}

/// The container, or else the namespace.
pub(crate) fn place_name(netns: &Netns, container: Option<&str>) -> String {
    container.map_or_else(|| netns.to_string(), str::to_owned)
}

/// `10.0.0.5:51514 < 10.0.9.2:443`: the arrow points where the data goes. Of several connections
/// the end of the service.
pub(super) fn ends(row: &Row<'_>) -> String {
    let flow = row.first();
    let arrow = match flow.direction {
        Direction::Out => '>',
        Direction::In => '<',
    };
    let upper = match flow.upper.as_deref() {
        Some("mptcp") => " (MPTCP subflow)",
        Some("tls") => " (kernel TLS)",
        _ => "",
    };
    match (row.connections(), flow.place) {
        (1, _) => format!("{} {arrow} {}{upper}", flow.local, flow.remote),
        (n, Place::Listening(port)) => format!("port {port} {arrow} {n} connections{upper}"),
        (n, Place::Remote(remote)) => format!("{n} connections {arrow} {remote}{upper}"),
    }
}

pub(super) fn owner(row: &Row<'_>) -> String {
    match (&row.processes()[..], &row.first().command) {
        ([pid], Some(command)) => format!("{pid}/{command}"),
        ([pid], None) => pid.to_string(),
        ([], _) => "?".into(),
        (several, Some(command)) => format!("{command} x{}", several.len()),
        (several, None) => format!("{} processes", several.len()),
    }
}

/// Text below the table: findings with their changes, and with `-v` every verdict with evidence.
fn push_findings(screen: &mut String, rows: &[Row<'_>], style: &Style<'_>) {
    let &Style {
        verbosity,
        has_advice,
        next: _,
    } = style;
    let mut told = 0;
    for (number, row) in rows.iter().enumerate() {
        let flow = row.first();
        let is_told = verbosity > 0 || told < TOLD_MAX;
        if !is_told || (verbosity == 0 && !flow.has_finding()) {
            continue;
        }
        told += usize::from(flow.has_finding());
        let whose = (number + 1).to_string();
        let verdicts = flow.verdicts.iter();
        for verdict in verdicts.filter(|verdict| verdict.finding || verbosity > 0) {
            screen.push('\n');
            let telling = Telling {
                whose: &whose,
                seen_s: flow.seen_s,
                changes_elsewhere: row.changes_elsewhere(verdict),
                with_advice: has_advice,
                with_evidence: verbosity > 0,
            };
            verdict::push(screen, verdict, &telling);
        }
        if verbosity > 0 && !flow.idle && !flow.limits.is_empty() {
            push_limits(screen, flow);
        }
    }
    let findings = rows.iter().filter(|row| row.first().has_finding()).count();
    if told < findings {
        let more = human::count((findings - told) as u64, "more row");
        writeln!(
            screen,
            "\n{more} with a finding: -v tells what to do about them."
        )
        .expect("a String grows");
    }
}

/// Waiting times of a sender.
fn push_limits(screen: &mut String, flow: &FlowRow) {
    let shares = flow.limits.iter();
    let shares: Vec<String> = shares
        .map(|limit| format!("{} {}", limit.limit, human::share(limit.share)))
        .collect();
    screen.push_str("   its time  ");
    push_wrapped(screen, &shares.join(", "), "   ", 13);
}

/// Why nothing can be said of some rows, and what would settle it; each reason once, also where
/// its numbers differ.
fn push_unclear(screen: &mut String, rows: &[Row<'_>]) {
    let mut reasons: BTreeMap<String, (&str, Vec<String>)> = BTreeMap::new();
    for (number, row) in rows.iter().enumerate() {
        let flow = row.first();
        if let Some(reason) = flow.unknown.as_deref().filter(|_| !flow.idle) {
            let without_numbers = reason.replace(|c: char| c.is_ascii_digit(), "");
            let (_, numbers) = reasons
                .entry(without_numbers.replace("samples", "sample"))
                .or_insert((reason, Vec::new()));
            numbers.push((number + 1).to_string());
        }
    }
    for (reason, numbers) in reasons.into_values() {
        let whose = numbers.join(", ");
        write!(screen, "\n{whose}  unclear: ").expect("a String grows");
        push_wrapped(screen, reason, "   ", whose.len() + 11);
    }
}

pub(super) fn summary(document: &Document, left_out: usize) -> String {
    let counts = &document.counts;
    let watched = human::time(Duration::from_secs_f64(document.duration_s));
    if counts.connections == 0 && document.host.is_empty() {
        return format!("No connection was seen in {watched}.\n");
    }
    let mut text = String::new();
    if document.findings == 0 && counts.unclear == 0 {
        text.push_str(match counts.peer_window {
            0 => "Nothing to improve: ",
            _ => "Nothing to improve at this end: ",
        });
    }
    let connections = human::count(counts.connections as u64, "connection");
    write!(text, "{connections} seen in {watched}").expect("a String grows");
    let said = [
        (counts.with_finding, "with a finding"),
        (counts.peer_window, "limited by the window of the other end"),
        (counts.healthy - counts.peer_window, "healthy"),
        (counts.unclear, "unclear"),
        (counts.idle, "idle"),
    ];
    let said = said.into_iter().filter(|(number, _)| *number > 0);
    let said: Vec<String> = said
        .map(|(number, what)| format!("{number} {what}"))
        .collect();
    if !said.is_empty() {
        write!(text, ": {}", said.join(", ")).expect("a String grows");
    }
    match document.host.len() {
        0 => text.push('.'),
        n => write!(text, "; {} of the host.", human::count(n as u64, "finding"))
            .expect("a String grows"),
    }
    if counts.peer_window > 0 {
        text.push_str(
            " What keeps the window small shows there: run tcptailor at the other end too.",
        );
    }
    if left_out > 0 {
        write!(text, " {left_out} not shown (-vv shows all).").expect("a String grows");
    }
    if document.unseen_processes > 0 {
        write!(
            text,
            " No permission to inspect {}; run as root to see which sockets are theirs.",
            human::count(document.unseen_processes as u64, "process")
        )
        .expect("a String grows");
    }
    let mut wrapped = String::new();
    push_wrapped(&mut wrapped, &text, "", 0);
    wrapped
}

#[cfg(test)]
pub(crate) mod tests;
