//! From outcomes to rows and verdicts.

use std::collections::BTreeSet;

use super::doubts::doubts;
use super::judge::{Judged, Subject, judge};
use super::show::{RATIO, unit_name};
use super::{
    Bounds, CorrectionRow, EngineValue, ExperimentResult, NotRun, NumberRow, Spread,
    VALUE_TOLERANCE, Verdict,
};
use crate::corrections::find_correction;
use crate::engine::EngineName;
use crate::outcome::Outcome;
use crate::scenario::{Class, Expectation, Experiment, Metric, Published, Unit};
use crate::stats;

/// One run of one cell on one engine.
#[derive(Clone, Debug, PartialEq)]
pub struct RunOf {
    /// What ran it.
    pub engine: EngineName,
    /// Place of the cell in [`Material::cells`].
    pub cell: usize,
    /// What came out.
    pub outcome: Outcome,
}

/// A cell of any engine; variants and points that only some engines run are there too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellName {
    /// As in scenario files; `None` where there are no variants.
    pub variant: Option<String>,
    /// Keys and values of the sweep.
    pub axes: Vec<(String, String)>,
}

/// An experiment and what its runs gave.
#[derive(Clone, Copy, Debug)]
pub struct Material<'m> {
    /// Name of the scenario.
    pub scenario: &'m str,
    /// What it is, in a sentence.
    pub about: &'m str,
    /// What was published, and where.
    pub experiment: &'m Experiment,
    /// What is claimed.
    pub claims: &'m [Expectation],
    /// All cells, in the order of rows.
    pub cells: &'m [CellName],
    /// All runs, in their order.
    pub runs: &'m [RunOf],
    /// Engines that the file names and that did not run it.
    pub not_run: &'m [NotRun],
}

/// Which number of which cell a row is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Target<'m> {
    cell: usize,
    over: Option<&'m str>,
    metric: Metric,
}

/// Judges an experiment by its runs.
#[must_use]
pub fn evaluate(material: &Material<'_>) -> ExperimentResult {
    let rows: Vec<NumberRow> = targets(material)
        .into_iter()
        .map(|target| row(material, target))
        .collect();
    let experiment = material.experiment;
    let verdict = verdict(experiment.class, &rows);
    let engines = EngineName::ALL.into_iter();
    let doubts = engines.flat_map(|engine| {
        let runs = material.runs.iter().filter(|run| run.engine == engine);
        let outcomes: Vec<&Outcome> = runs.map(|run| &run.outcome).collect();
        doubts(engine, &outcomes)
    });
    let corrections = experiment.corrections.iter();
    ExperimentResult {
        scenario: material.scenario.into(),
        ids: experiment.ids.clone(),
        about: material.about.into(),
        document: experiment.document,
        class: experiment.class,
        claim: experiment.claim.clone(),
        not_promised: experiment.not_promised.clone(),
        verdict,
        why: why(verdict, &rows, material.not_run),
        not_run: material.not_run.to_vec(),
        doubts: doubts.collect(),
        corrections: corrections.filter_map(|id| correction(id)).collect(),
        rows,
    }
}

/// Whether a cell should be run again on an engine, by the spread of the numbers that are published
/// or claimed of it; see [`stats::more_runs_wanted`]. Shares of time are left out: one near zero is
/// known well enough, however much it spreads.
#[must_use]
pub fn wants_more_runs(
    material: &Material<'_>,
    (engine, cell): (EngineName, usize),
    (min, max): (usize, usize),
) -> bool {
    let ran = outcomes(material, engine, cell);
    let usable: Vec<&Outcome> = ran.iter().copied().filter(|run| run.is_usable()).collect();
    let cell = &material.cells[cell];
    let claimed = material
        .claims
        .iter()
        .filter(|claim| claim.applies_on(engine))
        .map(|claim| (&claim.variant, &claim.over, claim.metric));
    let published = material.experiment.published.iter();
    let published = published.map(|number| (&number.variant, &number.over, number.metric));
    let concerns = |of: &Option<String>| of.is_none() || *of == cell.variant;
    let metrics: BTreeSet<Metric> = claimed
        .chain(published)
        .filter(|(variant, over, _)| concerns(variant) || (over.is_some() && concerns(over)))
        .map(|(_, _, metric)| metric)
        .filter(|metric| metric.unit() != Unit::Share)
        .collect();
    // Runs that cannot be used count for the bound: an engine that is never in time must end too.
    let max = max.saturating_sub(ran.len() - usable.len()).max(1);
    let unknown = |metric: &Metric| {
        let values: Vec<f64> = usable.iter().filter_map(|run| metric.of(run)).collect();
        !values.is_empty() && stats::more_runs_wanted(&values, min, max)
    };
    ran.len() < min || usable.len() < max && metrics.iter().any(unknown)
}

/// Numbers that are published or claimed, by cell, each once.
fn targets<'m>(material: &Material<'m>) -> Vec<Target<'m>> {
    let published = material.experiment.published.iter();
    let published =
        published.map(|number| (&number.variant, number.over.as_deref(), number.metric));
    let claimed = material.claims.iter();
    let claimed = claimed.map(|claim| (&claim.variant, claim.over.as_deref(), claim.metric));
    let wanted: Vec<_> = published.chain(claimed).collect();
    let mut targets = Vec::new();
    for (cell, name) in material.cells.iter().enumerate() {
        for (variant, over, metric) in &wanted {
            let target = Target {
                cell,
                over: *over,
                metric: *metric,
            };
            if is_about(variant, *over, name) && !targets.contains(&target) {
                targets.push(target);
            }
        }
    }
    targets
}

/// Whether what names this variant is about a cell; nothing is divided by itself.
fn is_about(variant: &Option<String>, over: Option<&str>, cell: &CellName) -> bool {
    (variant.is_none() || *variant == cell.variant) && (over.is_none() || over != cell.variant())
}

impl CellName {
    fn variant(&self) -> Option<&str> {
        self.variant.as_deref()
    }
}

fn row(material: &Material<'_>, target: Target<'_>) -> NumberRow {
    let cell = &material.cells[target.cell];
    let same = |variant: &Option<String>, over: &Option<String>, metric: Metric| {
        metric == target.metric
            && over.as_deref() == target.over
            && is_about(variant, target.over, cell)
    };
    let published = material.experiment.published.iter();
    let published = published
        .filter(|number| same(&number.variant, &number.over, number.metric))
        .max_by_key(|number| number.variant.is_some());
    let claims = material.claims.iter();
    let claims = claims.filter(|claim| same(&claim.variant, &claim.over, claim.metric));
    let mut claims: Vec<Bounds> = claims
        .map(|claim| Bounds {
            min: claim.min,
            max: claim.max,
            engines: claim.engines.clone(),
            reason: claim.reason.clone(),
        })
        .collect();
    let class = material.experiment.class;
    if claims.is_empty() && class == Class::Value {
        claims.extend(published.map(as_published));
    }
    let engines = EngineName::ALL.into_iter();
    let engines: Vec<EngineValue> = engines
        .filter_map(|engine| value(material, target, engine, &claims))
        .collect();
    NumberRow {
        variant: cell.variant.clone(),
        over: target.over.map(str::to_owned),
        axes: cell.axes.iter().cloned().collect(),
        metric: target.metric.name().into_owned(),
        unit: target.unit().into(),
        published_text: published.map(|number| number.text.clone()),
        published: published.map(|number| number.value),
        verdict: row_verdict(class, published, &claims, &engines),
        claims,
        engines,
    }
}

/// The claim that a number comes out as it is published.
fn as_published(number: &Published) -> Bounds {
    Bounds {
        min: Some(number.value * (1.0 - VALUE_TOLERANCE)),
        max: Some(number.value * (1.0 + VALUE_TOLERANCE)),
        engines: Vec::new(),
        reason: format!("published, within {:.0} %", VALUE_TOLERANCE * 100.0),
    }
}

fn outcomes<'m>(material: &Material<'m>, engine: EngineName, cell: usize) -> Vec<&'m Outcome> {
    let runs = material.runs.iter();
    runs.filter(|run| run.engine == engine && run.cell == cell)
        .map(|run| &run.outcome)
        .collect()
}

/// `None` where the engine did not run it.
fn value(
    material: &Material<'_>,
    target: Target<'_>,
    engine: EngineName,
    claims: &[Bounds],
) -> Option<EngineValue> {
    let cell = &material.cells[target.cell];
    let mut ran = vec![outcomes(material, engine, target.cell)];
    if let Some(over) = target.over {
        let base = material
            .cells
            .iter()
            .position(|other| other.variant() == Some(over) && other.axes == cell.axes)?;
        ran.push(outcomes(material, engine, base));
    }
    if ran.iter().any(Vec::is_empty) {
        return None;
    }
    let left_out = ran.iter().flatten().filter(|run| !run.is_usable()).count();
    let numbers = |runs: &Vec<&Outcome>| -> Vec<f64> {
        let usable = runs.iter().filter(|run| run.is_usable());
        usable.filter_map(|run| target.metric.of(run)).collect()
    };
    let spread = match &ran[..] {
        [of, over] => Spread::of_ratio(&numbers(of), &numbers(over)),
        _ => Spread::of(numbers(&ran[0])),
    };
    let is_claimed = |claim: &&Bounds| claim.engines.is_empty() || claim.engines.contains(&engine);
    let claims: Vec<&Bounds> = claims.iter().filter(is_claimed).collect();
    let name = target.name();
    let Judged(verdict, why) = match &spread {
        None => Judged(Verdict::NotRun, Some(why_unmeasured(&name, &ran))),
        Some(spread) => {
            let subject = Subject {
                name: &name,
                unit: target.unit(),
                is_ratio: target.over.is_some(),
            };
            let judged = claims.iter().map(|claim| judge(subject, claim, spread));
            judged
                .reduce(Judged::and)
                .unwrap_or(Judged(Verdict::Recorded, None))
        }
    };
    Some(EngineValue {
        engine,
        spread,
        left_out,
        verdict,
        why,
    })
}

impl Target<'_> {
    fn unit(&self) -> &'static str {
        match self.over {
            Some(_) => RATIO,
            None => unit_name(self.metric.unit()),
        }
    }

    fn name(&self) -> String {
        let name = self.metric.name();
        match self.over {
            Some(over) => format!("{name} over that of {over}"),
            None => name.into_owned(),
        }
    }
}

fn why_unmeasured(name: &str, ran: &[Vec<&Outcome>]) -> String {
    let unusable = ran
        .iter()
        .find(|runs| runs.iter().all(|run| !run.is_usable()));
    match unusable {
        None => format!("{name} is not measured here"),
        Some(runs) => {
            let caveats = runs.iter().filter_map(|run| run.caveats.last());
            let caveat = caveats.map(ToString::to_string).next();
            format!("no usable run: {}", caveat.unwrap_or_default())
        }
    }
}

/// The worst of the engines that judged it. What holds is called by what it is worth.
fn row_verdict(
    class: Class,
    published: Option<&Published>,
    claims: &[Bounds],
    engines: &[EngineValue],
) -> Verdict {
    let judged = engines.iter().map(|value| value.verdict);
    let worst = worst(judged.clone());
    if worst != Verdict::Holds {
        return worst;
    }
    let Some(published) = published else {
        return worst;
    };
    let is_claimed = claims.iter().any(|bounds| {
        let (min, max) = (bounds.min, bounds.max);
        min.is_none_or(|min| published.value >= min) && max.is_none_or(|max| published.value <= max)
    });
    match class {
        Class::Calibrated if is_claimed => Verdict::Calibrated,
        Class::Deviates if !is_claimed => Verdict::DeviatesAsExpected,
        _ => Verdict::Holds,
    }
}

/// What was not run says nothing beside what was.
fn worst(verdicts: impl Iterator<Item = Verdict> + Clone) -> Verdict {
    let judged = |verdict: &Verdict| !matches!(verdict, Verdict::NotRun | Verdict::Recorded);
    verdicts
        .clone()
        .filter(judged)
        .max()
        .or_else(|| verdicts.max())
        .unwrap_or(Verdict::NotRun)
}

fn verdict(class: Class, rows: &[NumberRow]) -> Verdict {
    match worst(rows.iter().map(|row| row.verdict)) {
        Verdict::Holds | Verdict::Calibrated | Verdict::DeviatesAsExpected => match class {
            Class::Calibrated => Verdict::Calibrated,
            Class::Deviates => Verdict::DeviatesAsExpected,
            Class::Exact | Class::Value | Class::Shape => Verdict::Holds,
        },
        other => other,
    }
}

/// The verdict in a sentence.
fn why(verdict: Verdict, rows: &[NumberRow], not_run: &[NotRun]) -> String {
    let unmeasured = rows.iter().filter(|row| row.verdict == Verdict::NotRun);
    let unmeasured = match unmeasured.count() {
        0 => String::new(),
        count => format!("; not measured here: {count} of {} rows", rows.len()),
    };
    match verdict {
        Verdict::Recorded => "measured; nothing is claimed".into(),
        Verdict::Holds => format!("what is claimed came out{unmeasured}"),
        Verdict::Calibrated => {
            format!("fitted on this number, not a prediction; what is claimed holds{unmeasured}")
        }
        Verdict::DeviatesAsExpected => {
            let reasons = reasons(rows);
            let text = "the published statement does not hold";
            match reasons.is_empty() {
                true => format!("{text}{unmeasured}"),
                false => format!("{text}: {reasons}{unmeasured}"),
            }
        }
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
        Verdict::NotDistinguishable | Verdict::Fails => {
            let whys: Vec<String> = failures(rows, verdict).collect();
            format!("{}{unmeasured}", whys.join("; "))
        }
    }
}

/// Why the published numbers are not expected on the engines that ran, each reason once.
fn reasons(rows: &[NumberRow]) -> String {
    let deviating = rows
        .iter()
        .filter(|row| row.verdict == Verdict::DeviatesAsExpected);
    let mut told: Vec<&str> = Vec::new();
    for row in deviating {
        let ran = |engine: &EngineName| row.engines.iter().any(|value| value.engine == *engine);
        let concern = |claim: &&Bounds| claim.engines.is_empty() || claim.engines.iter().any(ran);
        for claim in row.claims.iter().filter(concern) {
            if !claim.reason.is_empty() && !told.contains(&&*claim.reason) {
                told.push(&claim.reason);
            }
        }
    }
    told.join("; ")
}

fn failures(rows: &[NumberRow], verdict: Verdict) -> impl Iterator<Item = String> {
    rows.iter().flat_map(move |row| {
        let values = row
            .engines
            .iter()
            .filter(move |value| value.verdict == verdict);
        values.filter_map(|value| {
            let why = value.why.as_ref()?;
            Some(match row.label() {
                label if label.is_empty() => format!("{}: {why}", value.engine),
                label => format!("{label}, {}: {why}", value.engine),
            })
        })
    })
}

impl NumberRow {
    /// Variant and point of the sweep: `n5/path.rtt=1ms`; empty where there is neither.
    #[must_use]
    pub fn label(&self) -> String {
        let axes = self
            .axes
            .iter()
            .map(|(key, value)| format!("{key}={value}"));
        let parts: Vec<String> = self.variant.iter().cloned().chain(axes).collect();
        parts.join("/")
    }
}

fn correction(id: &str) -> Option<CorrectionRow> {
    let found = find_correction(id).ok()?;
    Some(CorrectionRow {
        id: found.id.into(),
        says: found.says.into(),
        wrong: found.wrong.into(),
        wording: found.wording.into(),
    })
}

#[cfg(test)]
mod tests;
