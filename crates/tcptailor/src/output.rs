//! Output of the program: JSON documents in one envelope, tables that fit 100 columns.
//!
//! Results go to stdout, progress and notes to stderr. Every write can fail (a reader that left, a
//! full disk) and says so; nothing here panics on it. What a terminal would obey in text for people
//! is made visible here, and nowhere else.

mod control;
mod file;

use std::fmt::{self, Display};
use std::io::{self, Write};
use std::path::Path;

use anyhow::Context;
use base::human;
use comfy_table::{
    Attribute, Cell, CellAlignment, ColumnConstraint, ContentArrangement, Row, Table, Width,
    presets,
};
use serde::Serialize;

pub(crate) use self::control::{Paint, signed, visible};
pub(crate) use self::file::{
    UntilStopped, check_no_link, check_page, check_writable, fill, folder_of, is_device, new_file,
    open_device, open_result, read_text, replace, replace_page, sync_folder, write_page,
    write_result, write_text,
};
use crate::cli::{Color, Globals};

/// A document of JSON is written in parts of this size.
const JSON_PART_BYTES: usize = 64 << 10;
/// Widest line of a table.
const TABLE_COLUMNS: u16 = 100;
/// A longer word, such as a path, may be parted. No number with its unit is as long.
const WORD_COLUMNS_MAX: usize = 20;
/// A narrower terminal wraps lines itself.
const COLUMNS_MIN: u16 = 20;

/// The reader of stdout is gone: there is nothing to report to.
#[derive(Debug)]
pub(crate) struct ReaderLeft;

impl Display for ReaderLeft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the reader of stdout left")
    }
}

impl std::error::Error for ReaderLeft {}

/// Destination and form of results.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    globals: Globals,
}

/// Every document begins with this; the fields of the command follow on the same level.
#[derive(Serialize)]
struct Envelope<'b, T> {
    schema: String,
    tool: Tool,
    host: Host,
    time: String,
    #[serde(flatten)]
    body: &'b T,
}

#[derive(Serialize)]
struct Tool {
    version: &'static str,
}

#[derive(Serialize)]
struct Host {
    kernel: Option<String>,
    cpus: Option<usize>,
}

impl Output {
    /// Sets the colours of the whole program as the flags ask.
    pub(crate) fn new(globals: &Globals) -> Self {
        match globals.color {
            Color::Auto => anstream::ColorChoice::Auto,
            Color::Always => anstream::ColorChoice::Always,
            Color::Never => anstream::ColorChoice::Never,
        }
        .write_global();
        Self {
            globals: globals.clone(),
        }
    }

    /// The same without progress and notes, for work inside other work.
    pub(crate) fn silenced(&self) -> Self {
        let globals = Globals {
            quiet: true,
            verbose: 0,
            ..self.globals.clone()
        };
        Self { globals }
    }

    /// Whether the result is a JSON document.
    pub(crate) const fn is_json(&self) -> bool {
        self.globals.json
    }

    /// Whether only the result is wanted.
    pub(crate) const fn is_quiet(&self) -> bool {
        self.globals.quiet
    }

    /// How many `-v` were given.
    pub(crate) const fn verbosity(&self) -> u8 {
        self.globals.verbose
    }

    /// Prints a result: as the JSON document `tcptailor/NAME/1`, or as the text that `human` makes
    /// of it (with colours, which are removed where they are not wanted).
    pub(crate) fn report<T: Serialize>(
        &self,
        name: &str,
        body: &T,
        human: impl FnOnce() -> String,
    ) -> anyhow::Result<()> {
        unless_reader_left(if self.is_json() {
            written(write_document(name, body))
        } else if self.is_quiet() {
            self.print(results_only(&human()))
        } else {
            self.print(&human())
        })
    }

    /// As [`Output::report`], of a command whose stdout is another program's: what people read goes
    /// to stderr, and either goes into `file` where there is one.
    pub(crate) fn report_aside<T: Serialize>(
        &self,
        (name, body): (&str, &T),
        file: Option<&Path>,
        human: impl FnOnce() -> String,
    ) -> anyhow::Result<()> {
        match (file, self.is_json()) {
            (None, true) => self.report(name, body, human),
            (None, false) => {
                // That stderr is gone cannot be reported.
                let _ = write_lines(&mut anstream::stderr().lock(), &visible(&human()));
                Ok(())
            }
            (Some(file), is_json) => {
                let mut text = match is_json {
                    true => document(name, body)?,
                    false => anstream::adapter::strip_str(&visible(&human())).to_string(),
                };
                if !text.ends_with('\n') {
                    text.push('\n');
                }
                write_text(file, &text)
            }
        }
    }

    /// Prints `text` on stdout, for people and for generated files.
    pub(crate) fn print(&self, text: &str) -> anyhow::Result<()> {
        write_stdout(&visible(text))
    }

    /// Prints a line of JSON, of a document that is made of lines.
    pub(crate) fn json_line<T: Serialize>(&self, row: &T) -> anyhow::Result<()> {
        write_json(&serde_json::to_string(row).context("writing JSON")?)
    }

    /// Prints a line on stdout while a command runs; with `--json` nothing.
    pub(crate) fn line(&self, text: impl Display) -> anyhow::Result<()> {
        if self.is_json() {
            return Ok(());
        }
        unless_reader_left(self.print(&text.to_string()))
    }

    /// Tells on stderr what the result is of no use without, also with `--quiet`.
    pub(crate) fn important(&self, text: impl Display) {
        // There is no other place to tell it.
        let _ = writeln!(anstream::stderr(), "{}", visible(&text.to_string()));
    }

    /// Tells something beside the result, on stderr.
    pub(crate) fn note(&self, text: impl Display) {
        if !self.is_quiet() {
            // An unreadable note is not a reason to fail.
            let _ = writeln!(anstream::stderr(), "{}", visible(&text.to_string()));
        }
    }
}

/// `1.24 to 1.28`: both ends of an interval, without the unit where both have that of the number
/// that stands beside it.
pub(crate) fn range_beside(ends: &[String; 2], beside: &str) -> String {
    let unit = beside.split_once(' ').map_or("", |(_, unit)| unit);
    let bare = ends.each_ref().map(|text| match text.split_once(' ') {
        Some((number, same)) if same == unit => Some(number),
        _ => None,
    });
    match bare {
        [Some(low), Some(high)] => format!("{low} to {high}"),
        _ => ends.join(" to "),
    }
}

/// A report without what to type next, which stands at its end.
fn results_only(text: &str) -> &str {
    let advice = if text.starts_with("Next: ") {
        Some(0)
    } else {
        text.find("\nNext: ")
    };
    advice.map_or(text, |at| text[..at].trim_end())
}

/// Ignores a reader that left early (`| head`), so that the exit code stays that of the result.
pub(crate) fn unless_reader_left(printed: anyhow::Result<()>) -> anyhow::Result<()> {
    match printed {
        Err(error) if error.is::<ReaderLeft>() => Ok(()),
        other => other,
    }
}

fn write_stdout(text: &str) -> anyhow::Result<()> {
    written(write_lines(&mut anstream::stdout().lock(), text))
}

/// JSON has neither colours nor control characters. To look for them in a document of thousands of
/// connections takes as long as to read their packets.
fn write_json(text: &str) -> anyhow::Result<()> {
    written(write_lines(&mut io::stdout().lock(), text))
}

fn written(result: io::Result<()>) -> anyhow::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(ReaderLeft.into()),
        result => result.context("writing to stdout"),
    }
}

fn write_lines(target: &mut impl Write, text: &str) -> io::Result<()> {
    target.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        target.write_all(b"\n")?;
    }
    target.flush()
}

/// The version of a document: one more each time that its shape changes for those who read it.
fn version_of(name: &str) -> u32 {
    match name {
        "fit" => 3,
        "check" | "diagnose" | "lab-run" | "lab-truth" | "predict" => 2,
        _ => 1,
    }
}

/// The JSON document of a result.
pub(crate) fn document<T: Serialize>(name: &str, body: &T) -> anyhow::Result<String> {
    serde_json::to_string_pretty(&envelope(name, body)).context("writing JSON")
}

/// Prints it, part by part: that of thousands of connections is as large as their packets.
fn write_document<T: Serialize>(name: &str, body: &T) -> io::Result<()> {
    let mut target = io::BufWriter::with_capacity(JSON_PART_BYTES, io::stdout().lock());
    serde_json::to_writer_pretty(&mut target, &envelope(name, body))?;
    target.write_all(b"\n")?;
    target.flush()
}

fn envelope<'b, T>(name: &str, body: &'b T) -> Envelope<'b, T> {
    Envelope {
        schema: format!("tcptailor/{name}/{}", version_of(name)),
        tool: Tool {
            version: env!("CARGO_PKG_VERSION"),
        },
        host: Host {
            kernel: kernel_release(),
            cpus: std::thread::available_parallelism().ok().map(usize::from),
        },
        time: now(),
        body,
    }
}

/// The wall clock, as a label.
pub(crate) fn now() -> String {
    rfc3339(linux::Clock.unix_millis() / 1000)
}

/// Time and machine of a measurement: names and values.
pub(crate) fn provenance() -> Vec<(String, String)> {
    let cpus = std::thread::available_parallelism().ok();
    let known = [
        ("version", Some(env!("CARGO_PKG_VERSION").to_owned())),
        ("kernel", kernel_release()),
        ("processors", cpus.map(|cpus| cpus.to_string())),
        ("time", Some(rfc3339(linux::Clock.unix_millis() / 1000))),
    ];
    let known = known.into_iter();
    known
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect()
}

/// Release of this machine's kernel.
pub(crate) fn kernel_release() -> Option<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    Some(text.trim().to_owned())
}

/// Columns of a line of text: those of the terminal, up to 100.
pub(crate) fn columns() -> usize {
    usize::from(line_columns())
}

/// Width from `COLUMNS`, else from the terminal. A terminal without a useful answer (none, or width
/// 0, as serial lines and some containers have it) counts as wide.
fn line_columns() -> u16 {
    let asked = std::env::var("COLUMNS").ok();
    let asked = asked.and_then(|text| text.trim().parse::<u16>().ok());
    let known = asked.filter(|columns| *columns > 0);
    let known = known.or_else(|| Table::new().width().filter(|columns| *columns > 0));
    known.map_or(TABLE_COLUMNS, |columns| {
        columns.clamp(COLUMNS_MIN, TABLE_COLUMNS)
    })
}

/// A table without lines, header in bold. Cells are wrapped where it would be wider than 100
/// columns or than the terminal.
pub(crate) fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .enforce_styling()
        .set_header(
            header
                .iter()
                .map(|name| Cell::new(name).add_attribute(Attribute::Bold)),
        );
    table.style_text_only();
    table.set_width(line_columns());
    let last = header.len() - 1;
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, if index == last { 0 } else { 2 }));
    }
    table
}

/// Aligns the columns of numbers to the right.
pub(crate) fn align_right(table: &mut Table, columns: &[usize]) {
    for &index in columns {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

/// Never breaks the words of a column: ids that people search for.
pub(crate) fn keep_whole(table: &mut Table, index: usize) {
    if let Some(column) = table.column_mut(index) {
        column.set_constraint(ColumnConstraint::ContentWidth);
    }
}

/// A table whose first column begins with blanks: its cells are never broken, since a line that was
/// wrapped has lost them.
pub(crate) fn indented_table(header: &[&str]) -> Table {
    let mut table = table(header);
    keep_whole(&mut table, 0);
    table
}

/// The table as lines without blanks at their ends. Control characters in cells are shown before
/// the widths are counted.
pub(crate) fn render(table: &Table) -> String {
    let mut table = table.clone();
    for row in table.row_iter_mut() {
        let glued = |cell: &Cell| {
            let content = cell.content();
            // Where a cell holds a style, the library ends it.
            let own = content.strip_suffix("\x1b[0m").unwrap_or(&content);
            match glue(&visible(own)) {
                same if same == content => cell.clone(),
                text => Cell::new_owned(text),
            }
        };
        *row = Row::from(row.cell_iter().map(glued).collect::<Vec<_>>());
    }
    let words = longest(&table, &[' ', '\n'], WORD_COLUMNS_MAX);
    let lines = longest(&table, &['\n'], usize::MAX);
    let paddings = 2 * words.len().saturating_sub(1);
    let fits = |widths: &[usize]| {
        let available = usize::from(table.width().unwrap_or(u16::MAX));
        widths.iter().sum::<usize>() + paddings <= available
    };
    if !fits(&words) {
        return records(&table);
    }
    if !fits(&lines) {
        for (column, word) in table.column_iter_mut().zip(words) {
            if column.constraint().is_none() {
                let width = word as u16 + column.padding_width();
                column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(width)));
            }
        }
    }
    let mut text = String::new();
    for line in table.lines() {
        text.push_str(&line.trim_end().replace(GLUE, " "));
        text.push('\n');
    }
    // The cells are without control characters now: what is left are the styles of the table.
    signed(&text)
}

/// Length of the longest part in each column, up to `most`.
fn longest(table: &Table, separators: &[char], most: usize) -> Vec<usize> {
    let mut longest = Vec::new();
    let header = table.header().into_iter();
    for row in header.chain(table.row_iter()) {
        for (index, cell) in row.cell_iter().enumerate() {
            let content = cell.content();
            let parts = content.split(separators).map(|part| part.chars().count());
            let length = parts.max().unwrap_or(0).min(most);
            match longest.get_mut(index) {
                Some(known) => *known = length.max(*known),
                None => longest.push(length),
            }
        }
    }
    longest
}

/// The rows one below the other, for a terminal that is too narrow to have the columns beside each
/// other.
fn records(table: &Table) -> String {
    let names: Vec<String> = table
        .header()
        .map(|row| row.cell_iter().map(|cell| cell.content()).collect())
        .unwrap_or_default();
    // A table below a heading is indented by the blanks before its first name.
    let indent = names
        .first()
        .map_or("", |name| &name[..name.len() - name.trim_start().len()]);
    let names: Vec<String> = names
        .iter()
        .map(|name| format!("{indent}{}", name.trim_start()))
        .collect();
    let widest = names
        .iter()
        .map(|name| name.chars().count())
        .max()
        .unwrap_or(0);
    let mut text = String::new();
    for (index, row) in table.row_iter().enumerate() {
        if index > 0 {
            text.push('\n');
        }
        for (name, cell) in names.iter().zip(row.cell_iter()) {
            let content = cell.content();
            if content.is_empty() {
                continue;
            }
            text.push_str(&format!("{name:widest$}  ").replace(GLUE, " "));
            push_wrapped(&mut text, &content, &" ".repeat(widest + 2), widest + 2);
        }
    }
    text
}

/// Appends words in lines as wide as the terminal, at most 100 columns; `used` columns of the first
/// are taken.
pub(crate) fn push_wrapped(text: &mut String, words: &str, indent: &str, used: usize) {
    let columns = columns();
    let mut column = used;
    let mut first = true;
    for word in glue(words).split_ascii_whitespace() {
        // Styles take no room.
        let width = anstream::adapter::strip_str(word)
            .to_string()
            .chars()
            .count();
        if !first && column + 1 + width > columns {
            text.push('\n');
            text.push_str(indent);
            column = indent.len();
        } else if !first {
            text.push(' ');
            column += 1;
        }
        text.push_str(&word.replace(GLUE, " "));
        column += width;
        first = false;
    }
    text.push('\n');
}

/// Stands for a blank where no line may be broken, until the lines are made.
const GLUE: char = '\u{a0}';

/// Ties each unit to its number: `at least 10.0 ms, or`.
fn glue(text: &str) -> String {
    let mut glued = String::with_capacity(text.len());
    for (index, word) in text.split(' ').enumerate() {
        let unit = word.trim_end_matches([',', ';', ':', '.', ')']);
        if glued.ends_with(|c: char| c.is_ascii_digit()) && human::is_unit(unit) {
            glued.push(GLUE);
        } else if index > 0 {
            glued.push(' ');
        }
        glued.push_str(word);
    }
    glued
}

/// Seconds since 1970 as `2026-11-21T09:40:00Z`.
pub(crate) fn rfc3339(unix_seconds: u64) -> String {
    let (days, second) = (unix_seconds / 86_400, unix_seconds % 86_400);
    // Days are counted from 0000-03-01, so that the leap day ends a year: eras of 400 years have
    // 146097 days, and months from March on have 153 days in each five.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let leap_free = day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096;
    let year_of_era = leap_free / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = month_from_march + if month_from_march < 10 { 3 } else { 0 }
        - if month_from_march < 10 { 0 } else { 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_a_unit_where_it_is_another() {
        let check = |low: &str, high: &str, expected: &str| {
            let ends = [low, high].map(str::to_owned);
            assert_eq!(range_beside(&ends, "1.00 ms"), expected);
        };
        check("0.99 ms", "1.20 ms", "0.99 to 1.20");
        check("900 us", "1.20 ms", "900 us to 1.20 ms");
        check("1", "2", "1 to 2");
    }

    #[test]
    fn who_wants_results_only_is_not_told_what_to_type_next() {
        let check = |text: &str, expected: &str| assert_eq!(results_only(text), expected);
        check("a\n\nNext: b\n      c\n", "a");
        check("Next: b", "");
        check("a Next: b\n", "a Next: b\n");
    }

    #[test]
    fn times_are_written_by_rfc_3339() {
        let check = |seconds: u64, expected: &str| assert_eq!(rfc3339(seconds), expected);
        check(0, "1970-01-01T00:00:00Z");
        check(951_782_399, "2000-02-28T23:59:59Z");
        check(951_782_400, "2000-02-29T00:00:00Z");
        check(951_868_800, "2000-03-01T00:00:00Z");
        check(1_709_164_800, "2024-02-29T00:00:00Z");
        check(1_767_225_599, "2025-12-31T23:59:59Z");
        check(4_107_542_400, "2100-03-01T00:00:00Z");
    }

    #[test]
    fn a_document_begins_with_its_schema() {
        #[derive(Serialize)]
        struct Body {
            rate_bps: u64,
        }
        let text = document("test", &Body { rate_bps: 5 }).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert!(
            text.trim_start_matches(['{', '\n', ' '])
                .starts_with("\"schema\""),
            "{text}"
        );
        assert_eq!(value["schema"], "tcptailor/test/1");
        assert_eq!(value["tool"]["version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(value["rate_bps"], 5);
        assert!(value["time"].as_str().unwrap().ends_with('Z'));
    }

    #[test]
    fn a_number_and_its_unit_stay_on_one_line() {
        let check = |text: &str, expected: &str| {
            assert_eq!(glue(text).replace(GLUE, "_"), expected);
        };
        check("44.0 ms median, 97 %.", "44.0_ms median, 97_%.");
        check("13 segments of us", "13 segments of us");
        check("  indented 5 us", "  indented 5_us");

        let mut table = table(&["", "OBSERVED"]);
        table.set_width(16).add_row(["limit", "in 98 % of it"]);
        let text = anstream::adapter::strip_str(&render(&table)).to_string();
        assert!(text.lines().any(|line| line.ends_with("98 %")), "{text}");
        assert!(!text.contains(GLUE), "{text}");

        let mut text = String::new();
        push_wrapped(&mut text, "takes 44.0 ms each", "  ", 90);
        assert_eq!(text, "takes\n  44.0 ms each\n");
    }

    #[test]
    fn a_cell_with_control_characters_is_as_wide_as_it_is_shown() {
        let mut table = table(&["NAME", "RUNS"]);
        table.add_row(["a\u{1b}]0;x\u{7}b", "1"]);
        table.add_row(["abcdefgh", "2"]);
        let text = anstream::adapter::strip_str(&render(&table)).to_string();
        let rows: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(rows, ["a\u{fffd}]0;x\u{fffd}b  1", "abcdefgh  2"]);
    }

    #[test]
    fn a_narrow_table_parts_no_word_and_no_number_from_its_unit() {
        let shown = |width: u16| {
            let mut table = table(&["VARIANT", "RUNS", "GOODPUT", "95 % OF MEDIAN", "P50"]);
            table.set_width(width);
            let interval = "9.31 Mbit/s .. 9.55 Mbit/s";
            table.add_row(["nodelay=off", "10", "9.44 Mbit/s", interval, "44.0 ms"]);
            table.add_row(["nodelay=on", "10", "90.1 Mbit/s", "-", "1.02 ms"]);
            align_right(&mut table, &[1, 2, 3, 4]);
            anstream::adapter::strip_str(&render(&table)).to_string()
        };
        for width in [20, 30, 40, 60, 80, 100] {
            let text = shown(width);
            for whole in [
                "nodelay=off",
                "9.44 Mbit/s",
                "9.31 Mbit/s",
                "44.0 ms",
                "1.02 ms",
            ] {
                assert!(text.contains(whole), "{width}: {text}");
            }
        }
        let narrow = shown(40);
        assert!(narrow.contains("VARIANT         nodelay=off\n"), "{narrow}");
        assert!(narrow.contains("GOODPUT         9.44 Mbit/s\n"), "{narrow}");
        assert!(shown(80).starts_with("VARIANT "), "{}", shown(80));
        assert_eq!(shown(100).lines().count(), 3);
    }

    #[test]
    fn an_indented_table_stays_indented_where_it_is_narrow() {
        let mut table = table(&["  KNOB", "WHERE"]);
        table.set_width(20);
        table.add_row(["  net.ipv4.tcp_rmem", "own namespace"]);
        let shown = anstream::adapter::strip_str(&render(&table)).to_string();
        assert!(shown.starts_with("  KNOB "), "{shown}");
        assert!(shown.contains("\n  WHERE "), "{shown}");
    }

    #[test]
    fn an_indented_cell_stays_indented_where_others_need_the_room() {
        let mut table = indented_table(&["  KNOB", "WHERE", "WAS", "SET TO", "STATE"]);
        table.set_width(80);
        table.add_row([
            "  net.ipv4.tcp_wmem",
            "sysctl, namespace of process 16100",
            "4096 16384 65536",
            "4096 16384 4386816",
            "in force",
        ]);
        let shown = anstream::adapter::strip_str(&render(&table)).to_string();
        assert!(shown.contains("\n  net.ipv4.tcp_wmem  sysctl"), "{shown}");
    }

    #[test]
    fn tables_fit_100_columns() {
        let mut table = table(&["FLOW", "SHARE"]);
        table.add_row(["10.0.0.5:51514 > 10.0.9.2:443 ".repeat(8).as_str(), "97 %"]);
        align_right(&mut table, &[1]);
        let text = anstream::adapter::strip_str(&render(&table)).to_string();
        assert!(text.lines().count() > 2, "the long cell is wrapped: {text}");
        for line in text.lines() {
            assert!(line.chars().count() <= 100, "{line}");
            assert_eq!(line, line.trim_end());
        }
    }
}
