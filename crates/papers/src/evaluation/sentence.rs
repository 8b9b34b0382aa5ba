//! The verdict of an experiment in a sentence.

use lab::Class;
use lab::judge::{Bounds, Verdict};

use super::evaluate::unmeasured;
use super::published::comes_out;
use super::{EngineValue, NotRun, NumberRow};

/// Explains the verdict.
pub(super) fn why(
    class: Class,
    verdict: Verdict,
    rows: &[NumberRow],
    not_run: &[NotRun],
) -> String {
    let open = open(rows) + &elsewhere(rows);
    match verdict {
        Verdict::Recorded => match rows.iter().all(|row| row.expectations.is_empty()) {
            true => "measured; no expectation".into(),
            false => format!("measured{open}"),
        },
        Verdict::Holds => format!("all expectations passed{}{open}", off(class, rows)),
        Verdict::Calibrated => {
            format!("fitted on this number, not a prediction; all expectations passed{open}")
        }
        Verdict::DeviatesAsExpected => format!("{}{open}", deviation(rows)),
        Verdict::NotRun => {
            let whys = not_run.iter();
            let whys: Vec<String> = whys
                .map(|missing| format!("{}: {}", missing.engine, missing.why))
                .chain(failures(rows, verdict))
                .collect();
            match whys.is_empty() {
                true => "no engine ran it".into(),
                false => whys.join("; "),
            }
        }
        Verdict::NotTested | Verdict::NotDistinguishable | Verdict::Fails => {
            let mut whys: Vec<String> = failures(rows, verdict).collect();
            if class == Class::Deviates && whys.is_empty() {
                whys.extend(unexpected(rows, verdict));
            }
            let unknown = (verdict == Verdict::NotDistinguishable).then(|| unknown(rows));
            match unknown.flatten() {
                Some(unknown) => whys.push(unknown),
                None => whys.push(open.trim_start_matches("; ").into()),
            }
            whys.retain(|why| !why.is_empty());
            whys.join("; ")
        }
    }
}

/// Rows that no engine measured.
fn open(rows: &[NumberRow]) -> String {
    let open = rows.iter().filter(|row| row.verdict == Verdict::NotRun);
    match open.count() {
        0 => String::new(),
        count => format!("; not measured here: {count} of {} rows", rows.len()),
    }
}

/// Claims about none of the engines that ran.
fn elsewhere(rows: &[NumberRow]) -> String {
    let ran = rows.iter().filter(|row| !row.engines.is_empty());
    let (mut all, mut others) = (0, 0);
    for row in ran {
        let is_elsewhere = |claim: &&Bounds| {
            let mut engines = row.engines.iter();
            !engines.any(|value| claim.applies_on(value.engine))
        };
        all += row.expectations.len();
        others += row.expectations.iter().filter(is_elsewhere).count();
    }
    match others {
        0 => String::new(),
        _ => format!("; about engines that did not run: {others} of {all} expectations"),
    }
}

/// Claims that were not measured on an engine that ran them.
fn unknown(rows: &[NumberRow]) -> Option<String> {
    let mut unmeasured = rows
        .iter()
        .flat_map(|row| unmeasured(row).map(move |of| (row, of)));
    let (row, (_, first)) = unmeasured.next()?;
    let count = 1 + unmeasured.count();
    let claims: usize = rows.iter().map(|row| row.expectations.len()).sum();
    let (verb, first) = match count {
        1 => ("was", at(row, first)?),
        _ => ("were", format!("the first: {}", at(row, first)?)),
    };
    Some(format!(
        "{count} of {claims} expectations {verb} not measured ({first})"
    ))
}

/// Adds that an expectation on other hardware than the published one holds all the same.
fn off(class: Class, rows: &[NumberRow]) -> String {
    let is_off = |row: &&NumberRow| {
        let Some(published) = row.published else {
            return false;
        };
        let mut values = row.engines.iter().filter(|value| value.spread.is_some());
        values.any(|value| {
            let mut claims = row.expectations.iter();
            claims.any(|claim| claim.applies_on(value.engine) && !claim.contains(published))
        })
    };
    if !matches!(class, Class::Exact | Class::Value) {
        return String::new();
    }
    match rows.iter().filter(is_off).count() {
        0 => String::new(),
        count => format!("; off the published number: {count} of {} rows", rows.len()),
    }
}

/// Explains that the published value is not reproduced.
fn deviation(rows: &[NumberRow]) -> String {
    if rows.iter().all(|row| row.published.is_none()) {
        return "what the document states, without a number, is not what comes out: see the expectations"
            .into();
    }
    let reasons = reasons(rows);
    let text = "the published statement does not hold";
    match reasons.is_empty() {
        true => text.into(),
        false => format!("{text}: {reasons}"),
    }
}

/// Published numbers that came out, or may have, where that was not expected.
fn unexpected(rows: &[NumberRow], verdict: Verdict) -> impl Iterator<Item = String> {
    rows.iter().flat_map(move |row| {
        let values = row.engines.iter().filter(move |value| {
            let spread = value.spread.as_ref().zip(row.published);
            spread.is_some_and(|(spread, published)| {
                !row.fitted && comes_out(published, row.tolerance, spread) == verdict
            })
        });
        values.filter_map(|value| at(row, value))
    })
}

/// Why the published numbers are not expected on the engines that ran, each reason once.
fn reasons(rows: &[NumberRow]) -> String {
    let deviating = rows
        .iter()
        .filter(|row| row.verdict == Verdict::DeviatesAsExpected);
    let mut told: Vec<&str> = Vec::new();
    for row in deviating {
        for claim in &row.expectations {
            let is_told = claim.reason.is_empty() || told.contains(&&*claim.reason);
            let mut values = row.engines.iter();
            if !is_told && values.any(|value| claim.applies_on(value.engine)) {
                told.push(&claim.reason);
            }
        }
    }
    told.join("; ")
}

fn failures(rows: &[NumberRow], verdict: Verdict) -> impl Iterator<Item = String> {
    rows.iter().flat_map(move |row| {
        let values = row.engines.iter();
        let values = values.filter(move |value| value.verdict == verdict);
        values.filter_map(|value| at(row, value))
    })
}

/// The sentence of a value with its cell and engine.
fn at(row: &NumberRow, value: &EngineValue) -> Option<String> {
    let why = value.why.as_ref()?;
    Some(match row.label() {
        label if label.is_empty() => format!("{}: {why}", value.engine),
        label => format!("{label}, {}: {why}", value.engine),
    })
}
