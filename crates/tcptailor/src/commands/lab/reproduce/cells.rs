//! Table of an experiment, place by place, with the remarks below it: for the screen and for
//! Markdown alike.

use base::human;
use lab::EngineName;
use lab::judge::Verdict;
use lab::show::show_value;
use page::number_name;
use papers::evaluation::remarks::{label, of_numbers};
use papers::evaluation::words;
use papers::evaluation::{EngineValue, ExperimentResult, NotRun, NumberRow, Summary};

use crate::output;

/// The table of an experiment: a row for each number, lines within a place parted by line feeds,
/// the verdict last.
pub(super) struct Cells {
    pub(super) header: Vec<String>,
    /// The first column that has numbers.
    pub(super) first_number: usize,
    /// In the order of the experiment's rows.
    pub(super) rows: Vec<Vec<String>>,
}

impl Cells {
    /// `with_claims` shows what is claimed even where a number is published.
    pub(super) fn of(experiment: &ExperimentResult, with_claims: bool) -> Self {
        let engines = engines(experiment);
        let rows = &experiment.rows;
        let has_names = rows.iter().any(|row| !label(row).is_empty());
        let has_published = rows.iter().any(|row| row.published_text.is_some());
        let columns = [
            (has_names, "VARIANT"),
            (true, "NUMBER"),
            (has_published, "PUBLISHED"),
            (with_claims || !has_published, "EXPECTED"),
        ];
        let shown_ones = columns.iter().filter(|(is_shown, _)| *is_shown);
        let mut header: Vec<String> = shown_ones.map(|(_, name)| (*name).to_owned()).collect();
        header.extend(engines.iter().map(|engine| engine.name().to_uppercase()));
        header.push("VERDICT".into());
        let row = |row: &NumberRow| {
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
            cells.push(verdict(row));
            cells
        };
        Self {
            header,
            first_number: 1 + usize::from(has_names),
            rows: rows.iter().map(row).collect(),
        }
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

/// The value as printed in the document, and below it in the unit of the row.
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
fn verdict(row: &NumberRow) -> String {
    let judged = |value: &&EngineValue| !matches!(value.verdict, Verdict::Recorded);
    let verdicts: Vec<&EngineValue> = row.engines.iter().filter(judged).collect();
    let same = verdicts
        .windows(2)
        .all(|pair| pair[0].verdict == pair[1].verdict);
    if same {
        return row.verdict.words().into();
    }
    let each = verdicts
        .iter()
        .map(|value| format!("{} {}", value.engine, value.verdict.words()));
    each.collect::<Vec<_>>().join("\n")
}

/// Remarks beside the numbers, a sentence each.
pub(super) fn remarks(experiment: &ExperimentResult, missing: &[NotRun]) -> Vec<String> {
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

/// How many experiments came out how: `12 pass, 1 fail`.
pub(super) fn counts(summary: &Summary) -> String {
    let counts = summary.verdicts.rows().into_iter();
    let told: Vec<String> = counts
        .filter(|(count, _)| *count > 0)
        .map(|(count, verdict)| format!("{count} {}", verdict.words()))
        .collect();
    told.join(", ")
}
