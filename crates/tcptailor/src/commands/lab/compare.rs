//! Two sweeps beside each other: what differs, and what chance may have made.

use std::path::PathBuf;

use base::human;
use comfy_table::{ColumnConstraint, Table, Width};
use lab::results::{self, CellComparison, Compared};
use serde::Serialize;

use super::folder::{Folder, go_on};
use super::{report, short_name};
use crate::exit::{Exit, Problem};
use crate::output::{self, Output};

/// Names shown of each list.
const NAMED_MAX: usize = 10;
/// Rows shown of a larger comparison; JSON has all.
const ROWS_MAX: usize = 500;
/// Columns of the table, and which of them is the verdict.
const COLUMNS: usize = 8;
const VERDICT: usize = COLUMNS - 1;
/// `distinguishable`: the longest word of a verdict.
const VERDICT_COLUMNS: u16 = 15;
/// Between columns.
const PADDING: usize = 2;

/// Compare two sweeps, cell by cell.
///
/// Compares cells of the same name by their median response time where there is one, otherwise by
/// goodput. Only significant differences are reported: at least four runs are needed on each side,
/// more where many cells are compared (false discovery rate 5 %, Benjamini-Hochberg).
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tcptailor lab sweep lan-wwr --vary path.rtt=1ms..50ms:log5 --runs 8 -o before
  tcptailor lab sweep lan-wwr --vary path.rtt=1ms..50ms:log5 --runs 8 --set client.nodelay=on -o after
  tcptailor lab compare before after

RATIO is the median of DIR_B divided by that of DIR_A; RANGE is its 95 % confidence interval; with
few runs, the range of all of them.")]
pub(crate) struct Args {
    /// The baseline: a results folder.
    #[arg(value_name = "DIR_A")]
    base: PathBuf,
    /// The folder to compare with it.
    #[arg(value_name = "DIR_B")]
    other: PathBuf,
}

#[derive(Serialize)]
struct Document<'d> {
    base: String,
    other: String,
    /// Difference between the two setups, if any.
    difference: Option<String>,
    #[serde(flatten)]
    compared: &'d Compared,
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<Exit> {
    let (base, other) = (Folder::open(&args.base)?, Folder::open(&args.other)?);
    let summaries = (
        report::summary(&base, output)?,
        report::summary(&other, output)?,
    );
    let compared = results::compare(&summaries.0, &summaries.1, go_on)?;
    let difference = base.manifest.difference(&other.manifest);
    let Compared {
        cells,
        only_base: _,
        only_other: _,
        without_values,
        without_ratio,
    } = &compared;
    if cells.is_empty() && without_values.is_empty() && without_ratio.is_empty() {
        return Err(nothing_common(args, difference.as_deref()).into());
    }
    let document = Document {
        base: args.base.display().to_string(),
        other: args.other.display().to_string(),
        difference,
        compared: &compared,
    };
    let scenario = &base.manifest.scenario;
    output.report("lab-compare", &document, || render(&document, scenario))?;
    if cells.is_empty() {
        output.note(match without_ratio.is_empty() {
            true => "no cell has usable runs in both folders",
            false => "no cell can be compared: there is no ratio to runs of 0",
        });
        return Ok(Exit::Failed);
    }
    Ok(Exit::Done)
}

fn nothing_common(args: &Args, difference: Option<&str>) -> Problem {
    let (base, other) = (args.base.display(), args.other.display());
    let why = difference.map_or_else(String::new, |difference| format!(": {difference}"));
    Problem::usage(format!("{base} and {other} have no cell in common{why}")).hint(
        "Compare sweeps of one scenario with the same --vary; `tcptailor lab report DIR` shows one.",
    )
}

fn render(document: &Document<'_>, scenario: &str) -> String {
    let Document {
        base,
        other,
        difference,
        compared,
    } = document;
    let mut text = format!("{other} compared with {base}\n");
    if let Some(difference) = difference {
        text.push_str(&format!("  {difference}\n"));
    }
    text.push('\n');
    let mut table = output::table(&["CELL", "", "A", "B", "RATIO", "RANGE", "RUNS", ""]);
    let cells = compared.cells.iter().take(ROWS_MAX);
    let rows: Vec<Vec<String>> = cells
        .map(|cell| row(short_name(&cell.cell, scenario), cell))
        .collect();
    set_widths(&mut table, &rows);
    table.add_rows(rows);
    output::align_right(&mut table, &[2, 3, 4, 5, 6]);
    text.push_str(&output::render(&table));
    let rest = compared.cells.len().saturating_sub(ROWS_MAX);
    if rest > 0 {
        let cells = human::count(rest as u64, "more cell");
        text.push_str(&format!("and {cells}: --json has all\n"));
    }
    for (names, what) in [
        (&compared.only_base, format!("only in {base}")),
        (&compared.only_other, format!("only in {other}")),
        (
            &compared.without_values,
            "without a usable run in one of them".to_owned(),
        ),
        (
            &compared.without_ratio,
            format!("without a ratio, because of runs of 0 in {base}"),
        ),
    ] {
        if !names.is_empty() {
            let shown = names.iter().take(NAMED_MAX);
            let shown = shown.map(|cell| short_name(cell, scenario));
            let shown = shown.collect::<Vec<_>>().join(", ");
            let more = if names.len() > NAMED_MAX { ", ..." } else { "" };
            let count = human::count(names.len() as u64, "cell");
            text.push_str(&format!("\n{count} {what}: {shown}{more}\n"));
        }
    }
    text
}

/// Wraps a table that is too wide: first the verdicts, then the names, never the numbers.
fn set_widths(table: &mut Table, rows: &[Vec<String>]) {
    let widest = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let width: usize = (0..COLUMNS).map(|column| widest(column) + PADDING).sum();
    let is_wide = width > output::columns();
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_constraint(match index {
            0 if is_wide => continue,
            VERDICT if is_wide => ColumnConstraint::Absolute(Width::Fixed(VERDICT_COLUMNS)),
            _ => ColumnConstraint::ContentWidth,
        });
    }
}

fn row(name: &str, cell: &CellComparison) -> Vec<String> {
    let (measure, show): (_, fn(u64) -> String) = match cell.metric.as_str() {
        "goodput_bps" => ("goodput", human::bps),
        _ => ("p50", human::micros),
    };
    // One value has no interval.
    let range = match cell.runs.0.min(cell.runs.1) {
        0 | 1 => String::new(),
        _ => format!("{:.3} to {:.3}", cell.low, cell.high),
    };
    vec![
        name.to_owned(),
        measure.to_owned(),
        show(cell.base.round() as u64),
        show(cell.other.round() as u64),
        format!("{:.3}", cell.ratio),
        range,
        format!("{}/{}", cell.runs.0, cell.runs.1),
        cell.judgement.words().into(),
    ]
}
