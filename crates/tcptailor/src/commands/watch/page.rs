//! The page of `--html`: the last hours of each service, findings with their evidence and with what
//! to type, and what the watch itself costs. Written once a minute, whole each time.

use std::cmp::Reverse;
use std::path::PathBuf;
use std::time::Duration;

use base::{Instant, Limit, Netns, human};
use doctor::{Evidence, Side};
use lab::Point;
use page::{
    Axis, Cell, Curve, Head, LimitShares, Line, Lines, Page, Part, Section, Series, Spot, Table,
    Tile, TimeUnit, Tone,
};

use super::finding::{Connection, Occurrence, Remedy};
use super::history::{Course, Finding, History, Rounds, Slot};
use super::round::LIMITS;
use crate::commands::diagnose::screen;
use crate::output;

/// How often it is written.
const EVERY: Duration = Duration::from_secs(60);
/// Services with a plot over time; the others are in a table.
const PLOTS_MAX: usize = 10;
/// Findings that are told whole.
const TOLD_MAX: usize = 40;
/// A smaller share is not drawn.
const SHARE_MIN: f64 = 0.001;

/// The file of a watch, and how writing it goes.
#[derive(Debug)]
pub(super) struct PageFile {
    path: PathBuf,
    /// The command, as it was typed.
    command: String,
    /// When that was tried last.
    written: Option<Instant>,
    has_failed: bool,
}

/// State of the watch itself, for the page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watch {
    /// Final version.
    pub(super) is_over: bool,
    /// The largest share of a core that may be used.
    pub(super) cpu_budget: f64,
    pub(super) resident_bytes: Option<u64>,
}

impl PageFile {
    pub(super) const fn new(path: PathBuf, command: String) -> Self {
        Self {
            path,
            command,
            written: None,
            has_failed: false,
        }
    }

    /// Whether it is to be written again.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.written.is_none_or(|at| now.since(at) >= EVERY)
    }

    /// Writes it; why that fails, where it did not fail the last time.
    pub(super) fn write(
        &mut self,
        history: &History,
        watch: Watch,
        now: Instant,
    ) -> Option<String> {
        // What fails is not tried in each round either.
        self.written = Some(now);
        let page = render(history, watch, &self.command);
        match output::replace_page(&self.path, &page) {
            Ok(()) => {
                self.has_failed = false;
                None
            }
            Err(error) => {
                let is_news = !std::mem::replace(&mut self.has_failed, true);
                is_news.then(|| format!("{error:#}"))
            }
        }
    }
}

fn render(history: &History, watch: Watch, command: &str) -> String {
    let findings = history.findings();
    let services = ranked(history, &findings);
    let mut sections = vec![of_findings(&findings)];
    let first_plot = sections.len();
    let plotted = services.iter().take(PLOTS_MAX);
    sections.extend(plotted.map(|(name, course)| of_service(name, course, history)));
    sections.push(of_services(&services, first_plot));
    sections.push(of_watch(history, watch));
    let open = findings.iter().filter(|one| one.ended.is_none()).count();
    page::render(&Page {
        title: "What limits TCP: the last hours of this machine".into(),
        lead: format!(
            "{} now, {} kept.",
            human::count(open as u64, "finding"),
            human::time(history.span())
        ),
        facts: facts(command),
        parts: head(history, &findings, watch),
        sections,
    })
}

fn facts(command: &str) -> Vec<(String, String)> {
    let made = output::provenance().into_iter();
    let made = made.map(|(name, value)| match name.as_str() {
        "time" => ("page written".to_owned(), value),
        _ => (name, value),
    });
    [("command".to_owned(), command.to_owned())]
        .into_iter()
        .chain(made)
        .collect()
}

/// Services with a present finding first, then by bytes carried.
fn ranked<'h>(history: &'h History, findings: &[&Finding]) -> Vec<(&'h str, &'h Course)> {
    let has_finding = |name: &str| {
        let mut open = findings.iter().filter(|one| one.ended.is_none());
        open.any(|finding| finding.service == name)
    };
    let mut services: Vec<_> = history.services().collect();
    services.sort_by_cached_key(|(name, course)| Reverse((has_finding(name), course.bytes())));
    services
}

fn head(history: &History, findings: &[&Finding], watch: Watch) -> Vec<Part> {
    let open = findings.iter().filter(|one| one.ended.is_none()).count();
    let connections: usize = history
        .services()
        .map(|(_, course)| course.counts.connections)
        .sum();
    let tile = |number: usize, name: &str, tone| Tile {
        number: number.to_string(),
        name: name.into(),
        tone,
    };
    let is_bad = if open > 0 { Tone::Bad } else { Tone::Good };
    let tiles = vec![
        tile(open, "findings now", is_bad),
        tile(findings.len() - open, "findings that ended", Tone::Muted),
        tile(history.services().count(), "services", Tone::Plain),
        tile(connections, "connections", Tone::Plain),
    ];
    let text = match watch.is_over {
        true => "The watch has ended; this is what it saw last.",
        false => "The watch replaces this page about once a minute; reload it to see more.",
    };
    vec![Part::Tiles(tiles), Part::Note(Tone::Muted, text.into())]
}

fn of_findings(findings: &[&Finding]) -> Section {
    let mut parts = Vec::new();
    match findings.is_empty() {
        true => parts.push(Part::Note(Tone::Good, "None so far.".into())),
        false => parts.push(Part::Table(table_of_findings(findings))),
    }
    for finding in findings.iter().take(TOLD_MAX) {
        let block = block(finding);
        parts.push(match &finding.ended {
            None => block,
            Some(ended) => {
                let title = format!("{}: {}, ended {ended}", finding.service, finding.diagnosis);
                Part::Fold(title, vec![block])
            }
        });
    }
    if findings.len() > TOLD_MAX {
        let more = findings.len() - TOLD_MAX;
        let text = format!("{more} more are in the table only.");
        parts.push(Part::Note(Tone::Muted, text));
    }
    Section {
        title: "Findings".into(),
        parts,
    }
}

fn table_of_findings(findings: &[&Finding]) -> Table {
    let head = [
        "service",
        "finding",
        "began",
        "ended",
        "connections",
        "share of the time",
    ];
    let row = |finding: &&Finding| {
        let tone = match finding.ended {
            None => Tone::Bad,
            Some(_) => Tone::Muted,
        };
        vec![
            Cell::text(finding.service.as_str()),
            Cell::text(finding.diagnosis).toned(tone),
            Cell::text(finding.began.as_str()),
            Cell::text(finding.ended.as_deref().unwrap_or("–")),
            Cell::number("", Some(finding.connections as f64)),
            Cell::number("share", Some(finding.share)),
        ]
    };
    Table {
        caption: "Open ones first.".into(),
        head: head.map(Into::into).into(),
        rows: findings.iter().map(row).collect(),
    }
}

/// One finding: what it says, what to type and what undoes that, and what speaks for it.
fn block(finding: &Finding) -> Part {
    let Occurrence {
        sentence,
        confidence,
        evidence,
        connection,
        remedy,
        remark,
    } = &*finding.occurrence;
    let mut parts = vec![Part::Text((*sentence).to_owned())];
    parts.extend(connection.as_ref().map(|one| Part::Text(where_it_was(one))));
    if let Some(remedy) = remedy {
        let Remedy {
            knob,
            to,
            side,
            typed,
            ..
        } = remedy;
        let place = match side {
            Side::Local => "",
            Side::Remote => ", at the other end",
        };
        let text = format!("Change: {knob} = {to}{place}.");
        parts.push(Part::Note(Tone::Good, text));
        parts.push(Part::Code(typed.clone()));
    }
    if !remark.is_empty() {
        parts.push(Part::Note(Tone::Plain, remark.clone()));
    }
    parts.push(Part::Table(table_of_evidence(evidence)));
    let sureness = format!("{confidence:?}").to_lowercase();
    Part::Block(
        Head {
            title: format!("{}: {}", finding.service, finding.diagnosis),
            tags: vec![
                format!("confidence {sureness}"),
                format!("since {}", finding.began),
            ],
            badge: Some(match &finding.ended {
                None => (Tone::Bad, "finding".into()),
                Some(ended) => (Tone::Muted, format!("ended {ended}")),
            }),
        },
        parts,
    )
}

/// The connection on which it took most of the time.
fn where_it_was(connection: &Connection) -> String {
    let Connection {
        netns,
        container,
        local,
        remote,
        pid,
        command,
    } = connection;
    let program = match (pid, command) {
        (Some(pid), Some(command)) => format!(", {pid}/{command}"),
        (Some(pid), None) => format!(", process {pid}"),
        (None, _) => String::new(),
    };
    let place = match (netns, container) {
        (Netns::Own, None) => String::new(),
        _ => format!(" in {}", screen::place_name(netns, container.as_deref())),
    };
    format!("Seen first on {local} to {remote}{program}{place}.")
}

fn table_of_evidence(evidence: &[Evidence]) -> Table {
    let row = |row: &Evidence| {
        let cells = [row.field, row.observed.as_str(), row.expected.as_str()];
        Vec::from(cells.map(Cell::text))
    };
    Table {
        caption: "Evidence, as it was when it began".into(),
        head: ["field", "observed", "expected"].map(Into::into).into(),
        rows: evidence.iter().map(row).collect(),
    }
}

fn of_service(name: &str, course: &Course, history: &History) -> Section {
    let mut parts = vec![Part::Series(Box::new(series(name, course, history)))];
    let shares = shares(&course.whole());
    if !shares.is_empty() {
        let row = |(limit, share): &(Option<Limit>, f64)| {
            vec![
                Cell::text(limit.map_or("unclear", Limit::name)),
                Cell::number("share", Some(*share)),
            ]
        };
        parts.push(Part::Table(Table {
            caption: "Time of the senders by limit".into(),
            head: ["limit", "share of the time"].map(Into::into).into(),
            rows: shares.iter().map(row).collect(),
        }));
    }
    let text = "Goodput is what was sent without retransmissions, or what was received, whichever \
                is more, of all connections; round-trip times are means.";
    parts.push(Part::Note(Tone::Muted, text.into()));
    Section {
        title: name.into(),
        parts,
    }
}

/// How a service went.
fn series(name: &str, course: &Course, history: &History) -> Series {
    let slots: Vec<(f64, &Rounds, Slot)> = history.slots(course).collect();
    let point = |(end_s, rounds, slot): &(f64, &Rounds, Slot)| Point {
        at_us: whole(end_s * 1e6),
        goodput_bps: goodput_bps(slot, rounds.time_s),
        rtt_us: slot.rtt_s().map(|rtt_s| whole(rtt_s * 1e6)),
        limit: shares(slot).first().and_then(|(limit, _)| *limit),
        ..Point::default()
    };
    let found = slots.iter().map(|(.., slot)| slot.with_finding);
    let found: Vec<Option<f64>> = found.map(|number| Some(number as f64)).collect();
    let mut curves = Vec::new();
    if found.iter().flatten().any(|number| *number > 0.0) {
        curves.push(Curve {
            panel: "connections with a finding",
            unit: "",
            name: "connections with a finding",
            values: found,
        });
    }
    Series {
        title: format!("{name} over time"),
        points: slots.iter().map(point).collect(),
        shares: slots.iter().map(|(.., slot)| shares(slot)).collect(),
        // As in the table: a minute with many senders weighs more than one with few.
        totals: shares(&course.whole()),
        curves,
        time: TimeUnit::of(history.span()),
        ..Series::default()
    }
}

/// Limits of the senders with their shares of the time, largest first.
fn shares(slot: &Slot) -> LimitShares {
    let all: f64 = slot.limits_s.iter().sum();
    if all <= 0.0 {
        return Vec::new();
    }
    let limits = Limit::ALL.into_iter().map(Some).chain([None]);
    let each: [f64; LIMITS] = slot.limits_s;
    let shares = limits.zip(each.map(|time_s| time_s / all));
    let mut shares: LimitShares = shares.filter(|(_, share)| *share >= SHARE_MIN).collect();
    shares.sort_by(|a, b| b.1.total_cmp(&a.1));
    shares
}

fn goodput_bps(slot: &Slot, time_s: f64) -> u64 {
    let traffic = slot.traffic;
    let new = match traffic.segments {
        0 => 1.0,
        all => 1.0 - (traffic.retransmitted as f64 / all as f64).min(1.0),
    };
    let sent = traffic.sent_bytes as f64 * new;
    let bytes = sent.max(traffic.received_bytes as f64);
    match time_s > 0.0 {
        true => whole(bytes * 8.0 / time_s),
        false => 0,
    }
}

/// A number that is not negative.
fn whole(value: f64) -> u64 {
    value.round() as u64
}

fn of_services(services: &[(&str, &Course)], first_plot: usize) -> Section {
    let part = match services.is_empty() {
        true => Part::Note(Tone::Muted, "No connections so far.".into()),
        false => Part::Table(table_of_services(services, first_plot)),
    };
    Section {
        title: "Services".into(),
        parts: vec![part],
    }
}

fn table_of_services(services: &[(&str, &Course)], first_plot: usize) -> Table {
    let head = [
        "service",
        "connections",
        "with a finding",
        "sent",
        "received",
        "retransmitted",
        "mean RTT",
    ];
    let row = |(at, (name, course)): (usize, &(&str, &Course))| {
        let whole = course.whole();
        let traffic = whole.traffic;
        let count = |number: u64, unit| Cell::number(unit, Some(number as f64));
        let name = Cell::text(*name);
        let retransmitted =
            (traffic.segments > 0).then(|| traffic.retransmitted as f64 / traffic.segments as f64);
        vec![
            match at < PLOTS_MAX {
                true => name.leading_to(first_plot + at),
                false => name,
            },
            count(course.counts.connections as u64, ""),
            count(course.counts.with_finding as u64, ""),
            count(traffic.sent_bytes, "bytes"),
            count(traffic.received_bytes, "bytes"),
            Cell::number("share", retransmitted),
            Cell::number("us", whole.rtt_s().map(|rtt_s| rtt_s * 1e6)),
        ]
    };
    Table {
        caption: "Connections are those of the last round; all else is of the whole time kept."
            .into(),
        head: head.map(Into::into).into(),
        rows: services.iter().enumerate().map(row).collect(),
    }
}

/// Cost of watching.
fn of_watch(history: &History, watch: Watch) -> Section {
    let mut sum = Rounds::default();
    for (_, rounds) in history.rounds() {
        sum.add(rounds);
    }
    let cpu = (sum.cpu_of_s > 0.0).then(|| sum.cpu_s / sum.cpu_of_s);
    let interval = (sum.number > 0).then(|| sum.time_s / sum.number as f64);
    let row = |name: &str, cell: Cell| vec![Cell::text(name), cell];
    let rows = vec![
        row("rounds", Cell::number("", Some(sum.number as f64))),
        row(
            "mean time from round to round",
            Cell::number("us", interval.map(|interval_s| interval_s * 1e6)),
        ),
        row("CPU time, of one core", Cell::number("share", cpu)),
        row(
            "most that is allowed (--max-cpu)",
            Cell::number("share", Some(watch.cpu_budget)),
        ),
        row(
            "resident memory now",
            Cell::number("bytes", watch.resident_bytes.map(|bytes| bytes as f64)),
        ),
    ];
    let mut parts = vec![Part::Table(Table {
        caption: "Cost of watching".into(),
        head: ["", "value"].map(Into::into).into(),
        rows,
    })];
    parts.extend(cpu_over_time(history, watch));
    Section {
        title: "This watch".into(),
        parts,
    }
}

fn cpu_over_time(history: &History, watch: Watch) -> Option<Part> {
    let unit = TimeUnit::of(history.span());
    let spot = |(end_s, rounds): (f64, &Rounds)| {
        (rounds.cpu_of_s > 0.0).then(|| Spot {
            x: end_s / unit.seconds(),
            y: Some(rounds.cpu_s / rounds.cpu_of_s),
            range: None,
        })
    };
    let spots: Vec<Spot> = history.rounds().filter_map(spot).collect();
    (spots.len() > 1).then(|| {
        Part::Lines(Lines {
            title: "CPU time over time, of one core".into(),
            x: Axis {
                name: unit.name().into(),
                ..Axis::default()
            },
            y: Axis {
                name: "share of one core".into(),
                unit: "share",
                is_log: false,
            },
            lines: vec![Line {
                name: "CPU time".into(),
                spots,
            }],
            references: vec![(watch.cpu_budget, "--max-cpu".into())],
        })
    })
}

#[cfg(test)]
mod tests;
