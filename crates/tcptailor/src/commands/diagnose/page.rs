//! The answer as a page: what `--html` writes.

mod course;
mod packets;
pub(crate) mod remedy;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::time::Duration;

use base::{Netns, human};
use capture::{CaptureInfo, FlowTrace};
use doctor::Evidence;
use page::{Cell, Head, Page, Part, Section, Table, Tile, Tone};

pub(crate) use self::course::{Courses, main_series};
use super::document::{self, Direction, Document, FlowRow, HostRow, VerdictRow};
use super::screen;
use super::service::{self, Answer, Row};
use crate::output;

/// Connections of a capture that are traced. One that several devices saw is traced for each.
pub(crate) const TRACED_MAX: usize = 40;
/// Rows of a table of connections.
const CONNECTIONS_MAX: usize = 500;
/// Rows of the table of one service.
const OF_SERVICE_MAX: usize = 50;

/// Data that the page draws beside the document.
#[derive(Debug, Default)]
pub(crate) struct Drawn {
    pub(crate) courses: Courses,
    /// Traces of a capture's largest connections.
    pub(crate) traces: Vec<FlowTrace>,
}

/// Request of the user.
pub(crate) struct Asked<'a> {
    /// A recording or a capture, in place of what lives.
    pub(crate) file: Option<&'a Path>,
    /// The command, as it was typed.
    pub(crate) command: &'a str,
}

pub(crate) fn render(document: &Document, drawn: &Drawn, asked: &Asked<'_>) -> String {
    let (rows, left_out) = screen::rows_to_show(document, 0);
    let mut sections: Vec<Section> = rows
        .iter()
        .enumerate()
        .map(|(index, row)| section(index, row, drawn, asked))
        .collect();
    sections.extend(host(document, asked));
    sections.extend(capture(document));
    sections.extend(connections(document));
    page::render(&Page {
        title: format!("What limits TCP: {}", place(asked)),
        lead: one_line(&screen::summary(document, 0)),
        facts: facts(document, asked),
        parts: head(document, &rows, left_out, asked),
        sections,
    })
}

/// Summary of the request.
fn place(asked: &Asked<'_>) -> String {
    match asked.file {
        None => "this machine".into(),
        Some(file) if file == Path::new("-") => "standard input".into(),
        Some(file) => {
            let name = file.file_name().unwrap_or(file.as_os_str());
            name.to_string_lossy().into_owned()
        }
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn facts(document: &Document, asked: &Asked<'_>) -> Vec<(String, String)> {
    let observed = human::time(Duration::from_secs_f64(document.duration_s));
    let mut facts = vec![
        ("command".to_owned(), asked.command.to_owned()),
        ("observed".to_owned(), observed),
    ];
    let made = output::provenance().into_iter();
    facts.extend(
        made.filter_map(|(name, value)| match (name.as_str(), asked.file) {
            // A file may be of another machine and of another day.
            ("kernel" | "processors", Some(_)) => None,
            ("time", Some(_)) => Some(("page made".to_owned(), value)),
            _ => Some((name, value)),
        }),
    );
    facts
}

/// The answer for each service, and what to doubt of it.
fn head(document: &Document, rows: &[Row<'_>], left_out: usize, asked: &Asked<'_>) -> Vec<Part> {
    let counts = &document.counts;
    let tile = |number: usize, name: &str, tone| Tile {
        number: number.to_string(),
        name: name.into(),
        tone,
    };
    let tiles = [
        tile(counts.connections, "connections", Tone::Plain),
        tile(counts.with_finding, "with a finding", Tone::Bad),
        tile(
            counts.peer_window,
            "limited by the other end's window",
            Tone::Doubt,
        ),
        tile(counts.healthy - counts.peer_window, "healthy", Tone::Good),
        tile(counts.unclear, "unclear", Tone::Doubt),
        tile(counts.idle, "idle", Tone::Muted),
        tile(document.host.len(), "findings of the host", Tone::Bad),
    ];
    let shown = tiles.into_iter().enumerate();
    let shown = shown.filter(|(index, tile)| *index == 0 || tile.number != "0");
    let mut parts = vec![Part::Tiles(shown.map(|(_, tile)| tile).collect())];
    let doubt = |text: String| Part::Note(Tone::Doubt, text);
    parts.extend(
        document
            .interrupted
            .then(|| doubt("Interrupted early.".into())),
    );
    let missing = super::missing(document).into_iter();
    parts.extend(missing.map(|what| doubt(format!("Note: {what}."))));
    if !rows.is_empty() {
        parts.push(Part::Table(answers(rows)));
    }
    if left_out > 0 {
        let are_more = match left_out {
            1 => "1 more connection is".to_owned(),
            _ => format!("{left_out} more connections are"),
        };
        let text = format!("{are_more} below, under all connections.");
        parts.push(Part::Note(Tone::Muted, text));
    }
    if document.findings > 0 && asked.file.is_none() && !document.process_ended {
        parts.extend(at_once(document, asked.command));
    }
    parts
}

/// Changes that need no restart, or who could make them.
fn at_once(document: &Document, command: &str) -> Vec<Part> {
    if document::plan(&document.flows).is_empty() {
        let text = match super::needs_root(document) {
            true => "The same command as root may make these changes at once.",
            false => "Nothing of it can be changed at once from here; the parts below say who can.",
        };
        return vec![Part::Note(Tone::Plain, text.into())];
    }
    let text = "What can be changed at once, and how to undo it:";
    let commands = format!(
        "{command} -o plan.json && tcptailor apply plan.json\ntcptailor rollback   # undo it"
    );
    vec![Part::Text(text.into()), Part::Code(commands)]
}

/// A row for each service of whose connections the same is said, as on the screen.
fn answers(rows: &[Row<'_>]) -> Table {
    let head = [
        "",
        "connection",
        "program",
        "rate",
        "min RTT",
        "limited by",
        "share",
        "confidence",
    ];
    let row = |(index, row): (usize, &Row<'_>)| {
        let main = row.main();
        let micros = row.min_rtt_us().map(|micros| micros as f64);
        vec![
            Cell::text((index + 1).to_string()).leading_to(index),
            Cell::text(screen::ends(row)),
            Cell::text(program(row)),
            Cell::number("bit/s", row.rate_bps().map(|rate| rate as f64)),
            Cell::number("us", micros),
            Cell::text(answer(row.first()))
                .toned(tone(row.first()))
                .leading_to(index),
            Cell::number("share", main.map(|_| row.share())),
            Cell::text(main.map_or_else(String::new, screen::confidence)),
        ]
    };
    Table {
        caption: "Services and connections, those with findings first.".into(),
        head: head.map(Into::into).into(),
        rows: rows.iter().enumerate().map(row).collect(),
    }
}

/// The program, with the place where it is not of this namespace.
fn program(row: &Row<'_>) -> String {
    let flow = row.first();
    let owner = screen::owner(row);
    match (&flow.netns, &flow.container) {
        (Netns::Own, None) => owner,
        _ => format!("{owner} in {}", screen::where_it_is(flow)),
    }
}

fn answer(flow: &FlowRow) -> &'static str {
    match Answer::of(flow) {
        Answer::Unclear => "unclear",
        _ => service::answer_id(flow),
    }
}

fn tone(flow: &FlowRow) -> Tone {
    match Answer::of(flow) {
        Answer::Finding => Tone::Bad,
        Answer::Healthy => Tone::Good,
        Answer::Unclear => Tone::Doubt,
        Answer::Idle => Tone::Muted,
    }
}

/// All of one row.
fn section(index: usize, row: &Row<'_>, drawn: &Drawn, asked: &Asked<'_>) -> Section {
    let flow = row.first();
    let mut parts = vec![Part::Table(numbers(row))];
    if row.flows().len() > OF_SERVICE_MAX {
        let text = format!("{OF_SERVICE_MAX} of {} connections.", row.flows().len());
        parts.push(Part::Note(Tone::Muted, text));
    }
    for verdict in &flow.verdicts {
        let elsewhere = row.changes_elsewhere(verdict);
        parts.push(block(verdict, (flow.seen_s, elsewhere), asked));
    }
    if let Some(reason) = &flow.unknown {
        parts.push(Part::Note(Tone::Doubt, format!("Unclear: {reason}")));
    }
    parts.extend(over_time(row, drawn));
    parts.extend(times(flow));
    let trace = drawn.traces.iter();
    let mut trace = trace.filter(|trace| trace.cookies.contains(&flow.cookie));
    parts.extend(trace.next().map(packets::parts).unwrap_or_default());
    Section {
        title: format!("{}. {}: {}", index + 1, screen::ends(row), answer(flow)),
        parts,
    }
}

/// The numbers of each connection of a row.
fn numbers(row: &Row<'_>) -> Table {
    let flows = row.flows().iter().take(OF_SERVICE_MAX);
    Table {
        caption: match screen::owner(row).as_str() {
            "?" => "Measurements.".into(),
            _ => format!("Program: {}.", program(row)),
        },
        rows: flows.map(|flow| of_connection(flow)).collect(),
        ..connection_table()
    }
}

fn connection_table() -> Table {
    let head = [
        "connection",
        "connections",
        "rate",
        "min RTT",
        "smoothed RTT",
        "seen for",
        "samples",
        "limited by",
        "share",
    ];
    Table {
        head: head.map(Into::into).into(),
        ..Table::default()
    }
}

fn of_connection(flow: &FlowRow) -> Vec<Cell> {
    let arrow = match flow.direction {
        Direction::Out => '>',
        Direction::In => '<',
    };
    let number = |unit, value: Option<u64>| Cell::number(unit, value.map(|value| value as f64));
    let seen = Cell {
        text: human::time(Duration::from_secs_f64(flow.seen_s.max(0.0))),
        value: Some(flow.seen_s),
        ..Cell::default()
    };
    vec![
        Cell::text(format!("{} {arrow} {}", flow.local, flow.remote)),
        number("", Some(flow.connections as u64)),
        number("bit/s", flow.rate_bps),
        number("us", flow.min_rtt_us),
        number("us", flow.srtt_us),
        seen,
        number("", Some(flow.samples as u64)),
        Cell::text(answer(flow)).toned(tone(flow)),
        Cell::number("share", flow.main().map(|main| main.share)),
    ]
}

/// One verdict: what it says, what to change and how to undo that, and what speaks for it.
fn block(verdict: &VerdictRow, (seen_s, elsewhere): (f64, usize), asked: &Asked<'_>) -> Part {
    let badge = match verdict.finding {
        true => (Tone::Bad, "finding"),
        false => (Tone::Plain, "limit"),
    };
    let sentence = match verdict.consistent_with {
        true => format!("Consistent with: {}", verdict.sentence),
        false => verdict.sentence.to_owned(),
    };
    let mut parts = vec![Part::Text(sentence)];
    let changes = verdict.change.iter().chain(&verdict.alternatives);
    for (index, change) in changes.enumerate() {
        let word = if index == 0 { "Change" } else { "Or" };
        let mut text = format!("{word}: {}", screen::advice(change));
        if index == 0 && elsewhere > 0 {
            let others = human::count(elsewhere as u64, "other socket");
            text.push_str(&format!("; and at {others} (JSON names them)"));
        }
        parts.push(Part::Note(Tone::Good, format!("{text}.")));
        parts.push(Part::Code(remedy::commands(change, asked)));
    }
    if let Some(next) = &verdict.next {
        parts.push(Part::Text(format!("Then: {next}.")));
    }
    if !verdict.remark.is_empty() {
        parts.push(Part::Note(Tone::Plain, verdict.remark.clone()));
    }
    parts.push(Part::Table(evidence(verdict)));
    let head = Head {
        title: verdict.id.into(),
        tags: vec![format!("confidence {}", screen::sureness(verdict, seen_s))],
        badge: Some((badge.0, badge.1.into())),
    };
    Part::Block(head, parts)
}

fn evidence(verdict: &VerdictRow) -> Table {
    let share = vec![
        Cell::text("share of the time"),
        Cell::number("share", Some(verdict.share)),
        Cell::text(""),
    ];
    let row = |row: &Evidence| {
        let cells = [row.field, row.observed.as_str(), row.expected.as_str()];
        Vec::from(cells.map(Cell::text))
    };
    Table {
        caption: "Evidence".into(),
        head: ["field", "observed", "expected"].map(Into::into).into(),
        rows: [share]
            .into_iter()
            .chain(verdict.evidence.iter().map(row))
            .collect(),
    }
}

/// How the connections of a row went.
fn over_time(row: &Row<'_>, drawn: &Drawn) -> Vec<Part> {
    let flow = row.first();
    let Some(course) = drawn.courses.find(flow) else {
        return vec![Part::Note(
            Tone::Muted,
            "Too little was seen for a plot over time.".into(),
        )];
    };
    let mut parts = vec![Part::Series(Box::new(
        course.series(format!("{} over time", screen::ends(row))),
    ))];
    let mut said = Vec::new();
    if course.connections > 1 {
        said.push(format!(
            "{} together: rates, windows and bytes are sums, round-trip times and limits are means",
            human::count(course.connections as u64, "connection")
        ));
    }
    if course.begins_s > 0.05 {
        let begins = human::time(Duration::from_secs_f64(course.begins_s));
        said.push(format!("second 0 is {begins} after the beginning"));
    }
    if flow.direction == Direction::In {
        said.push("this end mostly receives, so its own limits as a sender say little".into());
    }
    if !said.is_empty() {
        let text = said.join("; ");
        let mut letters = text.chars();
        let first = letters.next().map(|letter| letter.to_ascii_uppercase());
        let text: String = first.into_iter().chain(letters).collect();
        parts.push(Part::Note(Tone::Muted, format!("{text}.")));
    }
    parts
}

/// Waiting times of a sender, as numbers.
fn times(flow: &FlowRow) -> Option<Part> {
    let row = |limit: &document::LimitShare| {
        vec![
            Cell::text(limit.limit),
            Cell::number("share", Some(limit.share)),
        ]
    };
    (!flow.idle && !flow.limits.is_empty()).then(|| {
        Part::Table(Table {
            caption: "Time of the sender by limit".into(),
            head: ["limit", "share of the time"].map(Into::into).into(),
            rows: flow.limits.iter().map(row).collect(),
        })
    })
}

/// Findings on the host as a whole.
fn host(document: &Document, asked: &Asked<'_>) -> Option<Section> {
    let part = |row: &HostRow| {
        let whose = match (&row.container, &row.netns) {
            (Some(container), _) => Some(container.clone()),
            (None, Netns::Own) => None,
            (None, netns) => Some(netns.to_string()),
        };
        let mut parts = vec![block(&row.verdict, (0.0, 0), asked)];
        if let Some(whose) = whose {
            parts.insert(0, Part::Text(format!("In {whose}:")));
        }
        parts
    };
    (!document.host.is_empty()).then(|| Section {
        title: "The host".into(),
        parts: document.host.iter().flat_map(part).collect(),
    })
}

/// Properties of the capture, and missing parts.
fn capture(document: &Document) -> Option<Section> {
    let info = document.capture.as_ref()?;
    let mut lines = String::new();
    super::capture::push_summary(
        &mut lines,
        &CaptureInfo {
            summary: info.summary.clone(),
            doubts: Vec::new(),
        },
    );
    let doubts = info.doubts.iter().cloned();
    let doubts = doubts.map(|doubt| Part::Note(Tone::Doubt, doubt));
    Some(Section {
        title: "The capture".into(),
        parts: [Part::Text(one_line(&lines))]
            .into_iter()
            .chain(doubts)
            .collect(),
    })
}

/// All of them, also those that are idle.
fn connections(document: &Document) -> Option<Section> {
    let flows = &document.flows;
    let table = Table {
        caption: "Those with findings first.".into(),
        rows: flows
            .iter()
            .take(CONNECTIONS_MAX)
            .map(of_connection)
            .collect(),
        ..connection_table()
    };
    let mut parts = vec![Part::Fold(
        human::count(flows.len() as u64, "row"),
        vec![Part::Table(table)],
    )];
    if flows.len() > CONNECTIONS_MAX {
        let text = format!(
            "The first {CONNECTIONS_MAX} of {}; JSON has all.",
            flows.len()
        );
        parts.push(Part::Note(Tone::Muted, text));
    }
    (flows.len() > 1).then(|| Section {
        title: "All connections".into(),
        parts,
    })
}
