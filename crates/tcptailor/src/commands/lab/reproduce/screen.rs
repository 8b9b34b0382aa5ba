//! The answer for people: a table per experiment, what does not plainly hold below it, a summary.

use std::fmt::Write;

use base::human;
use comfy_table::{ColumnConstraint, Width};
use lab::judge::Verdict;
use papers::evaluation::{ExperimentResult, Reproduction};

use super::cells::{Cells, counts, remarks};
use super::{drawing, of_verdict};
use crate::output;

/// Some documents say in a sentence what others print as a number.
const PUBLISHED_COLUMNS_MAX: u16 = 22;
/// `kernel fails` stays on one line.
const VERDICT_COLUMNS_MIN: u16 = 12;

/// `verbose` shows what is claimed too.
pub(super) fn render(document: &Reproduction, verbose: bool) -> String {
    let mut text = String::new();
    let mut last = None;
    for experiment in &document.experiments {
        if last != Some(experiment.document) {
            let bold = output::Paint::BOLD;
            let title = experiment.document.title();
            output::push_wrapped(&mut text, &format!("{bold}{title}{bold:#}"), "  ", 0);
            text.push('\n');
        }
        last = Some(experiment.document);
        experiment_text(&mut text, experiment, document, verbose);
        text.push('\n');
    }
    summary(&mut text, document);
    text
}

fn experiment_text(
    text: &mut String,
    experiment: &ExperimentResult,
    document: &Reproduction,
    verbose: bool,
) {
    let bold = output::Paint::BOLD;
    let ids = experiment.ids.join(" ");
    let about = format!(
        "{bold}{ids}{bold:#} ({}, {}) {}",
        experiment.scenario,
        experiment.class.name(),
        experiment.about
    );
    output::push_wrapped(text, &about, "  ", 0);
    output::push_wrapped(text, &format!("Claim: {}", experiment.claim), "  ", 0);
    if experiment.rows.is_empty() {
        text.push_str("nothing is published or expected in numbers\n");
    } else {
        text.push_str(&table(experiment, verbose));
    }
    for drawing in &experiment.drawings {
        drawing::push(text, drawing);
    }
    for diagram in &experiment.diagrams {
        drawing::push_diagram(text, diagram);
    }
    let style = style(experiment.verdict);
    let verdict = format!(
        "{style}{}{style:#}: {}",
        experiment.verdict.words(),
        experiment.why
    );
    output::push_wrapped(text, &verdict, "  ", 0);
    for remark in remarks(experiment, &document.summary.missing) {
        text.push_str("- ");
        output::push_wrapped(text, &remark, "  ", 2);
    }
}

fn table(experiment: &ExperimentResult, verbose: bool) -> String {
    let cells = Cells::of(experiment, verbose);
    let header: Vec<&str> = cells.header.iter().map(String::as_str).collect();
    let mut table = output::table(&header);
    for (row, of) in cells.rows.into_iter().zip(&experiment.rows) {
        let (verdict, before) = row.split_last().expect("a row ends with its verdict");
        let verdict = painted(of.verdict, verdict);
        table.add_row(before.iter().chain([&verdict]));
    }
    let numbers: Vec<usize> = (cells.first_number..header.len() - 1).collect();
    output::align_right(&mut table, &numbers);
    let widths = [
        (
            cells.first_number,
            ColumnConstraint::UpperBoundary(Width::Fixed(PUBLISHED_COLUMNS_MAX)),
        ),
        (
            header.len() - 1,
            ColumnConstraint::LowerBoundary(Width::Fixed(VERDICT_COLUMNS_MIN)),
        ),
    ];
    for (index, constraint) in widths {
        if let Some(column) = table.column_mut(index) {
            column.set_constraint(constraint);
        }
    }
    output::render(&table)
}

fn painted(verdict: Verdict, words: &str) -> String {
    let style = style(verdict);
    let lines: Vec<String> = words
        .lines()
        .map(|line| format!("{style}{line}{style:#}"))
        .collect();
    lines.join("\n")
}

const fn style(verdict: Verdict) -> output::Paint {
    match verdict {
        Verdict::Fails => output::Paint::color(anstyle::AnsiColor::Red),
        Verdict::NotDistinguishable | Verdict::NotTested => {
            output::Paint::color(anstyle::AnsiColor::Yellow)
        }
        Verdict::Holds | Verdict::Calibrated | Verdict::DeviatesAsExpected => {
            output::Paint::color(anstyle::AnsiColor::Green)
        }
        Verdict::Recorded | Verdict::NotRun => output::Paint::PLAIN,
    }
}

fn summary(text: &mut String, document: &Reproduction) {
    let summary = &document.summary;
    let bold = output::Paint::BOLD;
    let experiments = human::count(document.experiments.len() as u64, "experiment");
    writeln!(text, "{bold}{experiments}{bold:#}: {}", counts(summary)).expect("a String grows");
    for verdict in [
        Verdict::Fails,
        Verdict::NotDistinguishable,
        Verdict::NotTested,
        Verdict::NotRun,
    ] {
        let names = of_verdict(document, verdict);
        if !names.is_empty() {
            let line = format!("{}: {}", painted(verdict, verdict.words()), names.join(" "));
            output::push_wrapped(text, &line, "  ", 0);
        }
    }
    for missing in &summary.missing {
        let line = format!("not run: {}: {}", missing.engine, missing.why);
        output::push_wrapped(text, &line, "  ", 0);
    }
    let runs = human::count(summary.runs as u64, "run");
    let found = match summary.runs_found {
        0 => String::new(),
        found => format!(", {found} of them found in the folder"),
    };
    let elapsed = human::long_time(super::duration(summary.elapsed_s));
    let took = format!("took {elapsed} for {runs}{found}");
    output::push_wrapped(text, &took, "  ", 0);
    if summary.interrupted {
        text.push_str("interrupted: not all runs were made\n");
    }
}
