//! The answer for people: a row per cell, doubts and failed expectations below.

use std::fmt::Write;

use base::human;
use comfy_table::{ColumnConstraint, Width};
use lab::{Amount, CaveatKind, Cell, Outcome, Scenario, stats};

use super::Ran;
use super::document::Document;
use crate::commands::fit::screen::path as path_text;
use crate::commands::lab::short_name;
use crate::output;

/// Names of cells that are longer may be broken anywhere.
const CELL_COLUMNS_MIN: u16 = 20;
/// Between columns.
const PADDING: u16 = 2;

/// All runs of one cell.
struct Runs<'r> {
    cell: &'r Cell,
    /// Usable runs; all if none are.
    shown: Vec<&'r Outcome>,
    usable: usize,
    all: Vec<&'r Outcome>,
}

pub(super) fn render(
    scenario: &Scenario,
    cells: &[Cell],
    ran: &[Ran],
    document: &Document,
) -> String {
    let rows: Vec<Runs<'_>> = cells
        .iter()
        .enumerate()
        .map(|(index, cell)| Runs::of(cell, index, ran))
        .filter(|runs| !runs.all.is_empty())
        .collect();
    let mut text = heading(scenario, cells, document);
    text.push_str(&table(scenario, &rows));
    caveats(&mut text, scenario, &rows);
    expectations(&mut text, document);
    if document.interrupted {
        text.push_str("\ninterrupted: not all runs were made\n");
    }
    text
}

/// The scenario, the number of runs, and the measured time.
fn heading(scenario: &Scenario, cells: &[Cell], document: &Document) -> String {
    let bold = output::Paint::BOLD;
    let mut text = format!("{bold}{}{bold:#}: {}\n", scenario.name, scenario.about);
    let mut add = |line: String| writeln!(text, "{line}").expect("a String grows");
    if let Some(first) = cells.first() {
        if cells.iter().all(|cell| cell.trial.path == first.trial.path) {
            add(format!("path: {}", path_text(&first.trial.path)));
        }
        let amount = first.trial.workload.amount();
        if let Amount::Time(time) = amount {
            add(format!(
                "{} per run after {} of warm-up",
                base::format_duration(time),
                base::format_duration(linux::kernel::WARM_UP)
            ));
        }
    }
    if scenario.runs > 1 {
        add(format!(
            "medians of {} runs; RANGE is the interval of the median of goodput",
            document.runs_told()
        ));
    }
    text.push('\n');
    text
}

fn table(scenario: &Scenario, rows: &[Runs<'_>]) -> String {
    let several = scenario.runs > 1;
    let timed = rows
        .iter()
        .flat_map(|runs| &runs.all)
        .any(|outcome| outcome.response_us.is_some());
    let mut header = vec!["", "CELL", "GOODPUT"];
    if several {
        header.extend(["RANGE", "RUNS"]);
    }
    if timed {
        header.extend(["P50", "P99"]);
    }
    header.extend(["LIMIT", "QUEUE", "DROPS", "LATE"]);
    let mut table = output::table(&header);
    for runs in rows {
        let goodput = runs.median(|outcome| Some(outcome.goodput_bps));
        let goodput = human::bps(goodput.unwrap_or(0));
        let mut row = vec![
            if runs.usable == 0 { "!" } else { "" }.to_owned(),
            label(scenario, runs.cell),
        ];
        let range = several.then(|| runs.goodput_range(&goodput));
        row.push(goodput);
        if let Some(range) = range {
            row.extend([range, format!("{}/{}", runs.usable, runs.all.len())]);
        }
        if timed {
            row.extend([
                micros(runs.median(|outcome| Some(outcome.response_us?.p50))),
                micros(runs.median(|outcome| Some(outcome.response_us?.p99))),
            ]);
        }
        let dropped = runs.median(|outcome| Some(drops(outcome)));
        row.extend([
            limit(&runs.shown).unwrap_or_default(),
            human::bytes(runs.largest(queue).unwrap_or(0)),
            dropped.unwrap_or(0).to_string(),
            micros(runs.largest(lateness)),
        ]);
        table.add_row(row);
    }
    let numbers: Vec<usize> = (2..header.len())
        .filter(|&column| header[column] != "LIMIT")
        .collect();
    output::align_right(&mut table, &numbers);
    for (index, name) in header.iter().enumerate() {
        // Where the table is too wide, these are broken between words only.
        let longest = match *name {
            "CELL" => rows
                .iter()
                .map(|runs| label(scenario, runs.cell).len())
                .max(),
            "LIMIT" => base::Limit::ALL
                .iter()
                .map(|limit| limit.name().len())
                .max(),
            _ => None,
        };
        let width = longest.map(|longest| u16::try_from(longest).unwrap_or(u16::MAX));
        if let (Some(width), Some(column)) = (width, table.column_mut(index)) {
            let width = Width::Fixed(width.min(CELL_COLUMNS_MIN) + PADDING);
            column.set_constraint(ColumnConstraint::LowerBoundary(width));
        }
    }
    output::render(&table)
}

fn micros(value: Option<u64>) -> String {
    value.map_or_else(String::new, human::micros)
}

fn label(scenario: &Scenario, cell: &Cell) -> String {
    short_name(&cell.id, &scenario.name).to_owned()
}

fn queue(outcome: &Outcome) -> Option<u64> {
    Some(
        outcome
            .forward
            .queue_bytes_max
            .max(outcome.reverse.queue_bytes_max),
    )
}

const fn drops(outcome: &Outcome) -> u64 {
    outcome.forward.dropped_segments + outcome.reverse.dropped_segments
}

/// 99th percentile of the later direction.
fn lateness(outcome: &Outcome) -> Option<u64> {
    let links = [outcome.forward, outcome.reverse];
    links
        .iter()
        .filter_map(|link| Some(link.lateness_us?.p99))
        .max()
}

impl<'r> Runs<'r> {
    fn of(cell: &'r Cell, index: usize, ran: &'r [Ran]) -> Self {
        let all: Vec<&Outcome> = ran
            .iter()
            .filter(|ran| ran.cell == index)
            .map(|ran| &ran.outcome)
            .collect();
        let good: Vec<&Outcome> = all.iter().copied().filter(|o| o.is_usable()).collect();
        Self {
            cell,
            usable: good.len(),
            shown: if good.is_empty() { all.clone() } else { good },
            all,
        }
    }

    fn values(&self, read: impl Fn(&Outcome) -> Option<u64>) -> Vec<f64> {
        let values = self.shown.iter().filter_map(|outcome| read(outcome));
        values.map(|value| value as f64).collect()
    }

    fn median(&self, read: impl Fn(&Outcome) -> Option<u64>) -> Option<u64> {
        stats::median(&self.values(read)).map(|median| median.round() as u64)
    }

    fn largest(&self, read: impl Fn(&Outcome) -> Option<u64>) -> Option<u64> {
        self.shown.iter().filter_map(|outcome| read(outcome)).max()
    }

    /// Bootstrap interval of the median goodput.
    fn goodput_range(&self, median: &str) -> String {
        let values = self.values(|outcome| Some(outcome.goodput_bps));
        let interval = stats::median_interval(&values, self.cell.trial.seed);
        match interval.filter(|_| values.len() > 1) {
            Some(interval) => {
                let ends = [interval.low, interval.high];
                output::range_beside(&ends.map(|end| human::bps(end.round() as u64)), median)
            }
            None => String::new(),
        }
    }
}

/// The limit that most runs name first, with the median of its share; `None` where none names one.
pub(super) fn limit(runs: &[&Outcome]) -> Option<String> {
    let mut named: Vec<(base::Limit, Vec<f64>)> = Vec::new();
    for &(limit, share) in runs.iter().filter_map(|outcome| outcome.limits.first()) {
        match named.iter_mut().find(|(known, _)| *known == limit) {
            Some((_, shares)) => shares.push(share),
            None => named.push((limit, vec![share])),
        }
    }
    // Of equals the one that was named first.
    let most = named.iter().rev().max_by_key(|(_, shares)| shares.len());
    most.map(|(limit, shares)| {
        let share = stats::median(shares).unwrap_or(0.0);
        format!("{limit} {}", human::share(share))
    })
}

/// Each kind of doubt once per cell: its worst, and how many runs have it.
fn caveats(text: &mut String, scenario: &Scenario, rows: &[Runs<'_>]) {
    let mut header = vec!["CELL", "CAVEAT"];
    if scenario.runs > 1 {
        header.insert(1, "RUNS");
    }
    let mut table = output::table(&header);
    for runs in rows {
        for CaveatKind { worst, runs: count } in lab::caveat_kinds(runs.all.iter().copied()) {
            let mut row = vec![label(scenario, runs.cell), worst.to_string()];
            if scenario.runs > 1 {
                row.insert(1, format!("{count}/{}", runs.all.len()));
            }
            table.add_row(row);
        }
    }
    if table.is_empty() {
        return;
    }
    text.push('\n');
    text.push_str(&output::render(&table));
    if rows.iter().any(|runs| runs.usable == 0) {
        text.push_str("! no usable run: the numbers are shown and not judged\n");
    }
}

fn expectations(text: &mut String, document: &Document) {
    let red = output::Paint::color(anstyle::AnsiColor::Red);
    let judged = document
        .expectations
        .iter()
        .filter_map(|expectation| expectation.passed);
    let (held, failed): (Vec<bool>, Vec<bool>) = judged.partition(|passed| *passed);
    let unjudged = document.expectations.len() - held.len() - failed.len();
    if document.expectations.is_empty() {
        return;
    }
    text.push('\n');
    for why in document.failed_expectations() {
        writeln!(text, "{red}expectation failed{red:#}: {why}").expect("a String grows");
    }
    for why in document.open_expectations() {
        writeln!(text, "expectation not distinguishable: {why}").expect("a String grows");
    }
    let all = document.expectations.len();
    write!(text, "expectations passed: {} of {all}", held.len()).expect("a String grows");
    if unjudged > 0 {
        write!(text, ", {unjudged} not judged").expect("a String grows");
    }
    text.push('\n');
}
