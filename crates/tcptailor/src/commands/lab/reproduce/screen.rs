//! The answer for people: a table per experiment, what does not plainly hold below it, a summary.

use std::fmt::Write;

use base::human;
use comfy_table::{ColumnConstraint, Width};
use lab::EngineName;
use lab::judge::Verdict;
use lab::show::show_value;
use page::number_name;
use papers::evaluation::remarks::{label, of_numbers};
use papers::evaluation::words;
use papers::evaluation::{EngineValue, ExperimentResult, NotRun, NumberRow, Reproduction};

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
        text.push_str("nothing is published or claimed in numbers\n");
    } else {
        text.push_str(&table(experiment, verbose));
    }
    for drawing in &experiment.drawings {
        drawing::push(text, drawing);
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

/// Engines that ran any of it, in the order of tables.
fn engines(experiment: &ExperimentResult) -> Vec<EngineName> {
    let ran = |engine: &EngineName| {
        let mut values = experiment.rows.iter().flat_map(|row| &row.engines);
        values.any(|value| value.engine == *engine)
    };
    EngineName::ALL.into_iter().filter(ran).collect()
}

fn table(experiment: &ExperimentResult, verbose: bool) -> String {
    let engines = engines(experiment);
    let rows = &experiment.rows;
    let has_names = rows.iter().any(|row| !label(row).is_empty());
    let has_published = rows.iter().any(|row| row.published_text.is_some());
    let shows_claims = verbose || !has_published;
    let names: Vec<String> = engines.iter().map(|e| e.name().to_uppercase()).collect();
    let columns = [
        (has_names, "VARIANT"),
        (true, "NUMBER"),
        (has_published, "PUBLISHED"),
        (shows_claims, "CLAIMED"),
    ];
    let shown_ones = columns.iter().filter(|(is_shown, _)| *is_shown);
    let mut header: Vec<&str> = shown_ones.map(|(_, name)| *name).collect();
    let first_number = 1 + usize::from(has_names);
    header.extend(names.iter().map(String::as_str));
    header.push("VERDICT");
    let mut table = output::table(&header);
    for row in rows {
        let all = [
            label(row),
            number_name(&row.metric),
            published(row),
            words::claims(row).join("\n"),
        ];
        let pairs = all.into_iter().zip(&columns);
        let shown_ones = pairs.filter(|(_, (is_shown, _))| *is_shown);
        let mut cells: Vec<String> = shown_ones.map(|(cell, _)| cell).collect();
        for engine in &engines {
            let value = row.engines.iter().find(|value| value.engine == *engine);
            cells.push(value.map_or_else(String::new, |value| shown(&row.unit, value)));
        }
        cells.push(verdict_of(row));
        table.add_row(cells);
    }
    let numbers: Vec<usize> = (first_number..header.len() - 1).collect();
    output::align_right(&mut table, &numbers);
    let widths = [
        (
            first_number,
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

/// As the document prints it, and below it in the unit of the row.
fn published(row: &NumberRow) -> String {
    match (&row.published_text, words::published_value(row)) {
        (Some(text), Some(value)) => format!("{text}\n{value}"),
        _ => words::published(row).unwrap_or_default(),
    }
}

/// The median, and where it lies below it.
fn shown(unit: &str, value: &EngineValue) -> String {
    let Some(spread) = &value.spread else {
        return "-".into();
    };
    let median = show_value(unit, spread.median);
    // A ratio of one run each has no interval either.
    let ends = [spread.low, spread.high].map(|end| show_value(unit, end));
    if ends.iter().any(|end| *end != median) {
        format!("{median}\n{}", output::range_beside(&ends, &median))
    } else {
        median
    }
}

/// One word where all engines agree; else what each of them says.
fn verdict_of(row: &NumberRow) -> String {
    let judged = |value: &&EngineValue| !matches!(value.verdict, Verdict::Recorded);
    let verdicts: Vec<&EngineValue> = row.engines.iter().filter(judged).collect();
    let same = verdicts
        .windows(2)
        .all(|pair| pair[0].verdict == pair[1].verdict);
    if same {
        return painted(row.verdict, row.verdict.words());
    }
    let each = verdicts
        .iter()
        .map(|value| format!("{} {}", value.engine, value.verdict.words()));
    painted(row.verdict, &each.collect::<Vec<_>>().join("\n"))
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

/// What a reader must know beside the numbers, a sentence each.
fn remarks(experiment: &ExperimentResult, missing: &[NotRun]) -> Vec<String> {
    let mut remarks = of_numbers(experiment);
    for doubt in &experiment.doubts {
        remarks.push(format!(
            "{}, {} of {}: {}",
            doubt.engine,
            doubt.runs,
            human::count(doubt.of as u64, "run"),
            doubt.text
        ));
    }
    // What the user left out is known, and what the machine lacks is told in the end.
    let is_told = |not: &&NotRun| not.by_choice || missing.contains(not);
    let not_run = experiment.not_run.iter().filter(|not| !is_told(not));
    remarks.extend(not_run.map(|not| format!("not run: {}: {}", not.engine, not.why)));
    let not_promised = experiment.not_promised.iter();
    remarks.extend(not_promised.map(|sentence| format!("not promised: {sentence}")));
    for correction in &experiment.corrections {
        remarks.push(format!(
            "{}: the document says {}; {}. Corrected: {}",
            correction.id, correction.says, correction.wrong, correction.wording
        ));
    }
    remarks
}

fn summary(text: &mut String, document: &Reproduction) {
    let summary = &document.summary;
    let bold = output::Paint::BOLD;
    let counts = summary.verdicts.rows().into_iter();
    let told: Vec<String> = counts
        .filter(|(count, _)| *count > 0)
        .map(|(count, verdict)| format!("{count} {}", verdict.words()))
        .collect();
    let experiments = human::count(document.experiments.len() as u64, "experiment");
    writeln!(text, "{bold}{experiments}{bold:#}: {}", told.join(", ")).expect("a String grows");
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
