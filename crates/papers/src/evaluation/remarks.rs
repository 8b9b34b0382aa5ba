//! Remarks beside the numbers of an experiment, in the sentences of the screen and of pages.

use std::collections::BTreeSet;

use base::human;
use lab::judge::{Bounds, Verdict};
use lab::show::show_value;
use page::number_name;

use super::{EngineValue, ExperimentResult, NumberRow, words};

/// Why numbers do not plainly hold, what lies far off, and which runs are left out: a sentence
/// each, without its full stop.
#[must_use]
pub fn of_numbers(experiment: &ExperimentResult) -> Vec<String> {
    let mut remarks = Vec::new();
    for row in &experiment.rows {
        remarks.extend(whys(experiment, row));
        let far = |value| Some(at(&label(row), value, &outliers(row, value)?));
        remarks.extend(row.engines.iter().filter_map(far));
    }
    remarks.extend(left_out(experiment));
    remarks.extend(experiment.rows.iter().flat_map(changed_bounds));
    // All numbers of a cell without a usable run say the same.
    let mut told = BTreeSet::new();
    remarks.retain(|remark| told.insert(remark.clone()));
    remarks
}

/// `n5`, or `n5 / n20` for a ratio, with the point of the sweep.
#[must_use]
pub fn label(row: &NumberRow) -> String {
    match &row.over {
        Some(over) => format!("{} / {over}", row.label()),
        None => row.label(),
    }
}

/// Why a number does not plainly hold, once for all engines of which the same is told.
fn whys(experiment: &ExperimentResult, row: &NumberRow) -> Vec<String> {
    // What fails and what is not run is told beside the verdict.
    let is_told = |value: &&EngineValue| {
        value.verdict == experiment.verdict && value.verdict >= Verdict::NotRun
    };
    let mut whys: Vec<(&str, Vec<&str>)> = Vec::new();
    for value in row.engines.iter().filter(|value| !is_told(value)) {
        let Some(why) = value.why.as_deref() else {
            continue;
        };
        match whys.iter_mut().find(|(known, _)| *known == why) {
            Some((_, engines)) => engines.push(value.engine.name()),
            None => whys.push((why, vec![value.engine.name()])),
        }
    }
    let told = whys.iter().map(|(why, engines)| match label(row) {
        label if label.is_empty() => format!("{}: {why}", engines.join(", ")),
        label => format!("{label}, {}: {why}", engines.join(", ")),
    });
    told.collect()
}

fn at(label: &str, value: &EngineValue, told: &str) -> String {
    match label.is_empty() {
        true => format!("{}: {told}", value.engine),
        false => format!("{label}, {}: {told}", value.engine),
    }
}

/// Values far from the others; they count like all others.
fn outliers(row: &NumberRow, value: &EngineValue) -> Option<String> {
    let spread = value
        .spread
        .as_ref()
        .filter(|spread| !spread.outliers.is_empty())?;
    let far = spread
        .outliers
        .iter()
        .filter_map(|place| spread.values.get(*place));
    let far: Vec<String> = far.map(|value| show_value(&row.unit, *value)).collect();
    Some(format!(
        "{} of {} runs lie far from the others in {}: {}",
        far.len(),
        spread.n,
        number_name(&row.metric),
        far.join(", ")
    ))
}

/// Bounds that were changed after a run, of engines that ran, and how.
fn changed_bounds(row: &NumberRow) -> impl Iterator<Item = String> + '_ {
    let cell = match label(row) {
        label if label.is_empty() => String::new(),
        label => format!("{label}, "),
    };
    let name = format!("{cell}{}", number_name(&row.metric));
    let ran = |claim: &&Bounds| {
        row.engines
            .iter()
            .any(|value| claim.applies_on(value.engine))
    };
    let changed = row.expectations.iter().filter(ran);
    let changed = changed.filter(|claim| !claim.history.is_empty());
    changed.map(move |claim| {
        let bounds = words::claim(&row.unit, claim);
        let history = claim.history.join("; ");
        format!("{name}, expected {bounds}: the expectation was changed, {history}")
    })
}

/// Runs that do not count, of each number anew.
fn left_out(experiment: &ExperimentResult) -> impl Iterator<Item = String> + '_ {
    let rows = experiment.rows.iter().filter(|row| row.over.is_none());
    rows.flat_map(|row| {
        let values = row.engines.iter().filter(|value| value.left_out > 0);
        values.map(|value| {
            let runs = human::count(value.left_out as u64, "run");
            let words = format!("{runs} left out, which cannot be used");
            at(&row.label(), value, &words)
        })
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;

    use crate::experiments::SeedDocument;
    use lab::judge::Spread;
    use lab::{Class, EngineName};

    use super::*;

    fn row(variant: &str, verdict: Verdict, why: &str) -> NumberRow {
        let value = EngineValue {
            engine: EngineName::Kernel,
            spread: None,
            left_out: 0,
            untested: false,
            verdict,
            why: Some(why.into()),
        };
        NumberRow {
            variant: Some(variant.into()),
            over: None,
            axes: BTreeMap::new(),
            metric: "duration_us".into(),
            unit: "us".into(),
            published_text: None,
            published: None,
            fitted: false,
            tolerance: 0.05,
            expectations: Vec::new(),
            engines: vec![value],
            verdict,
        }
    }

    /// One number fails, one cannot be told, one has a run that lies far off and one left out.
    pub(crate) fn experiment() -> ExperimentResult {
        let mut far = row("c", Verdict::Holds, "off the published number");
        far.engines[0].left_out = 1;
        far.engines[0].spread = Some(Spread {
            n: 4,
            median: 2e3,
            low: 1e3,
            high: 9e3,
            outliers: vec![3],
            values: vec![1e3, 2e3, 2e3, 9e3],
        });
        ExperimentResult {
            scenario: "x1".into(),
            ids: vec!["X1".into()],
            about: String::new(),
            document: SeedDocument::Netburner,
            class: Class::Value,
            claim: String::new(),
            not_promised: None,
            verdict: Verdict::Fails,
            why: "a, kernel: too slow".into(),
            rows: vec![
                row("a", Verdict::Fails, "too slow"),
                row("b", Verdict::NotDistinguishable, "too few runs"),
                far,
            ],
            not_run: Vec::new(),
            doubts: Vec::new(),
            corrections: Vec::new(),
            drawings: Vec::new(),
            diagrams: Vec::new(),
        }
    }

    #[test]
    fn a_changed_bound_is_told_with_what_it_was() {
        let mut experiment = experiment();
        experiment.rows.truncate(1);
        experiment.rows[0].expectations = vec![Bounds {
            min: None,
            max: Some(6e6),
            engines: vec![EngineName::Kernel],
            reason: String::new(),
            history: vec!["2026-11-22: at most 5 s before; it took longer".into()],
        }];
        let expected = "a, duration, expected kernel: at most 6.00 s: the expectation was changed, \
                        2026-11-22: at most 5 s before; it took longer";
        assert_eq!(of_numbers(&experiment), [expected]);
    }

    #[test]
    fn what_does_not_stand_beside_the_verdict_is_told() {
        let expected = [
            "b, kernel: too few runs",
            "c, kernel: off the published number",
            "c, kernel: 1 of 4 runs lie far from the others in duration: 9.00 ms",
            "c, kernel: 1 run left out, which cannot be used",
        ];
        let mut experiment = experiment();
        assert_eq!(of_numbers(&experiment), expected);
        // Another number of the cells says the same once more.
        experiment.rows.extend(experiment.rows.clone());
        assert_eq!(of_numbers(&experiment), expected);
    }
}
