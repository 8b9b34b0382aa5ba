//! Turns outcomes into rows and verdicts.

use std::collections::BTreeSet;

use lab::judge::{
    Bounds, Judged, Spread, Subject, Verdict, is_over_nothing, judge, over_nothing, runs_to_tell,
};
use lab::show::{cell_name, number_name, unit_name};
use lab::{
    Class, EngineName, Expectation, Experiment, Metric, Outcome, Published, caveat_kinds,
    wants_another_run,
};

use super::published::{comes_out, departures, tolerance};
use super::sentence::why;
use super::{CorrectionRow, Doubt, EngineValue, ExperimentResult, NotRun, NumberRow};
use crate::corrections::find_correction;
use crate::diagrams::diagrams;
use crate::experiments::SeedDocument;
use crate::figures::drawings;

/// One run of one cell on one engine.
#[derive(Clone, Debug, PartialEq)]
pub struct RunOf {
    /// Engine.
    pub engine: EngineName,
    /// Place of the cell in [`Material::cells`].
    pub cell: usize,
    /// From 0; each has its own seed.
    pub run: u32,
    /// Outcome.
    pub outcome: Outcome,
}

impl RunOf {
    /// Whether it is the same run of the same cell, whatever came out.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        (self.engine, self.cell, self.run) == (other.engine, other.cell, other.run)
    }
}

/// A cell of any engine; variants and points that only some engines run are there too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellName {
    /// Name of the variant; `None` where the scenario has none.
    pub variant: Option<String>,
    /// Keys and values of the sweep.
    pub axes: Vec<(String, String)>,
}

/// An experiment and what its runs gave.
#[derive(Clone, Copy, Debug)]
pub struct Material<'m> {
    /// Name of the scenario.
    pub scenario: &'m str,
    /// Description, in a sentence.
    pub about: &'m str,
    /// The document that it is of.
    pub document: SeedDocument,
    /// Published values, and their source.
    pub experiment: &'m Experiment,
    /// Expectations.
    pub claims: &'m [Expectation],
    /// All cells, in the order of rows.
    pub cells: &'m [CellName],
    /// All runs, in their order.
    pub runs: &'m [RunOf],
    /// Engines that the file names and that did not run it.
    pub not_run: &'m [NotRun],
    /// How often each engine runs each cell at least. A claim does not fail by fewer usable runs,
    /// which an interrupted reproduction or a busy machine leaves.
    pub runs_min: &'m [(EngineName, usize)],
    /// How often each engine runs each cell as the file says, in full.
    pub runs_of_file: &'m [(EngineName, usize)],
}

impl Material<'_> {
    fn runs_min(&self, engine: EngineName) -> usize {
        runs_on(self.runs_min, engine).unwrap_or(0)
    }

    /// See [`runs_to_tell`]; a file that does not say how often it is to be run asks for several.
    fn runs_to_tell(&self, engine: EngineName, is_ratio: bool) -> usize {
        runs_to_tell(
            engine,
            runs_on(self.runs_of_file, engine).unwrap_or(usize::MAX),
            is_ratio,
        )
    }
}

fn runs_on(all: &[(EngineName, usize)], engine: EngineName) -> Option<usize> {
    let mut all = all.iter();
    all.find(|(of, _)| *of == engine).map(|(_, runs)| *runs)
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
    let targets = targets(material).into_iter();
    let rows: Vec<NumberRow> = targets.map(|target| row(material, target)).collect();
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
        document: material.document,
        class: experiment.class,
        claim: experiment.claim.clone(),
        not_promised: experiment.not_promised.clone(),
        verdict,
        why: why(experiment.class, verdict, &rows, material.not_run),
        not_run: material.not_run.to_vec(),
        doubts: doubts.collect(),
        corrections: corrections.filter_map(|id| correction(id)).collect(),
        drawings: drawings(material),
        diagrams: diagrams(material),
        rows,
    }
}

/// Whether a cell should be run again on an engine, by the spread of the numbers that are published
/// or claimed of it; see [`wants_another_run`].
#[must_use]
pub fn wants_more_runs(
    material: &Material<'_>,
    (engine, cell): (EngineName, usize),
    bounds: (usize, usize),
) -> bool {
    let ran = outcomes(material, engine, cell);
    let cell = &material.cells[cell];
    let claims = material.claims.iter();
    let claimed = claims
        .filter(|claim| claim.applies_on(engine) && claim.needs(cell.variant()))
        .map(|claim| claim.metric);
    let published = material.experiment.published.iter();
    let published = published
        .filter(|number| number.needs(cell.variant()))
        .map(|number| number.metric);
    let metrics: BTreeSet<Metric> = claimed.chain(published).collect();
    wants_another_run(&ran, metrics, bounds)
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
    let mut claims: Vec<Bounds> = claims.map(Bounds::from).collect();
    let class = material.experiment.class;
    if claims.is_empty() && class == Class::Value {
        let within = tolerance(material.experiment);
        claims.extend(published.map(|number| as_published(number, within)));
    }
    let engines = EngineName::ALL.into_iter();
    let mut engines: Vec<EngineValue> = engines
        .filter_map(|engine| value(material, target, engine, &claims))
        .collect();
    if let Some(published) = published {
        departures(material.experiment, published, &claims, &mut engines);
    }
    NumberRow {
        variant: cell.variant.clone(),
        over: target.over.map(str::to_owned),
        axes: cell.axes.iter().cloned().collect(),
        metric: target.metric.name().into_owned(),
        unit: target.unit().into(),
        published_text: published.map(|number| number.text.clone()),
        published: published.map(|number| number.value),
        fitted: published.is_some_and(|number| number.fitted),
        tolerance: tolerance(material.experiment),
        verdict: row_verdict(material.experiment, published, &claims, &engines),
        expectations: claims,
        engines,
    }
}

/// The claim that a number comes out as it is published.
fn as_published(number: &Published, tolerance: f64) -> Bounds {
    Bounds {
        min: Some(number.value * (1.0 - tolerance)),
        max: Some(number.value * (1.0 + tolerance)),
        engines: Vec::new(),
        reason: format!("published, within {:.0} %", tolerance * 100.0),
        history: Vec::new(),
    }
}

fn outcomes<'m>(material: &Material<'m>, engine: EngineName, cell: usize) -> Vec<&'m Outcome> {
    let runs = material.runs.iter();
    runs.filter(|run| run.engine == engine && run.cell == cell)
        .map(|run| &run.outcome)
        .collect()
}

/// How many runs it takes to say that a claim fails: one run in real time has no interval, and
/// noise may have made it.
const fn runs_to_fail(engine: EngineName) -> usize {
    match engine {
        EngineName::Virtual => 1,
        EngineName::Kernel | EngineName::Tun | EngineName::TunReceiver => 2,
    }
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
    let needed = material.runs_to_tell(engine, target.over.is_some());
    let asked = material.runs_min(engine).max(runs_to_fail(engine));
    let numbers = |runs: &Vec<&Outcome>| -> Vec<f64> {
        let usable = runs.iter().filter(|run| run.is_usable());
        usable.filter_map(|run| target.metric.of(run)).collect()
    };
    let numbers: Vec<Vec<f64>> = ran.iter().map(numbers).collect();
    let usable = numbers.iter().map(Vec::len).min().unwrap_or(0);
    let spread = Spread::of_runs(&numbers[0], numbers.get(1).map(Vec::as_slice));
    let claims = claims.iter().filter(|claim| claim.applies_on(engine));
    let name = target.name();
    let Judged(verdict, why) = match &spread {
        None => Judged(
            Verdict::NotRun,
            Some(why_unmeasured(target, &ran, &numbers)),
        ),
        Some(spread) => {
            let subject = Subject {
                name: &name,
                unit: target.unit(),
                is_ratio: target.over.is_some(),
            };
            let judged = claims.map(|claim| judge(subject, claim, spread));
            let judged = judged.map(|judged| judged.told_by(usable, needed).of_runs(usable, asked));
            judged
                .reduce(Judged::and)
                .unwrap_or(Judged(Verdict::Recorded, None))
        }
    };
    Some(EngineValue {
        engine,
        spread,
        left_out,
        untested: usable < needed,
        verdict,
        why,
    })
}

impl Target<'_> {
    fn unit(&self) -> &'static str {
        unit_name(self.metric, self.over.is_some())
    }

    fn name(&self) -> String {
        number_name(self.metric, self.over)
    }
}

fn why_unmeasured(target: Target<'_>, ran: &[Vec<&Outcome>], numbers: &[Vec<f64>]) -> String {
    let unusable = ran
        .iter()
        .find(|runs| runs.iter().all(|run| !run.is_usable()));
    if let Some(runs) = unusable {
        let caveat = runs.iter().find_map(|run| run.unusable_because());
        let caveat = caveat.map(ToString::to_string);
        return format!("no usable run: {}", caveat.unwrap_or_default());
    }
    match (target.over, numbers) {
        (Some(over), [of, base]) if is_over_nothing(of, base) => over_nothing(target.metric, over),
        _ => format!("{} is not measured here", target.name()),
    }
}

/// The worst of the engines that judged it. What holds is called by what it is worth.
fn row_verdict(
    experiment: &Experiment,
    published: Option<&Published>,
    claims: &[Bounds],
    engines: &[EngineValue],
) -> Verdict {
    let worst = worst(engines.iter().map(|value| value.verdict));
    let Some(published) = published else {
        return worst;
    };
    if published.fitted {
        return match worst {
            Verdict::Holds => Verdict::Calibrated,
            other => other,
        };
    }
    match (experiment.class, worst) {
        // That it does not come out is what the class claims, of numbers without bounds too.
        (Class::Deviates, Verdict::Holds | Verdict::Recorded | Verdict::NotRun) => {
            match comes_out_on(published.value, tolerance(experiment), engines) {
                Some(out @ (Verdict::DeviatesAsExpected | Verdict::NotTested)) => out,
                _ => worst,
            }
        }
        (Class::Calibrated, Verdict::Holds)
            if claims.iter().any(|bounds| bounds.contains(published.value)) =>
        {
            Verdict::Calibrated
        }
        _ => worst,
    }
}

/// The worst verdict; parts that were not run matter only if nothing was.
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
    let worst = worst(rows.iter().map(|row| row.verdict));
    if !matches!(
        worst,
        Verdict::Recorded | Verdict::Holds | Verdict::Calibrated | Verdict::DeviatesAsExpected
    ) {
        return worst;
    }
    let verdict = match class {
        Class::Deviates => deviation(worst, rows),
        Class::Calibrated if worst != Verdict::Recorded => Verdict::Calibrated,
        // A fitted value is not evidence beside a predicted one.
        _ if worst == Verdict::Calibrated && rows.iter().any(predicts) => Verdict::Holds,
        Class::Calibrated | Class::Exact | Class::Value | Class::Shape => worst,
    };
    match rows.iter().any(|row| unmeasured(row).next().is_some()) {
        true => verdict.max(Verdict::NotDistinguishable),
        false => verdict,
    }
}

fn predicts(row: &NumberRow) -> bool {
    row.verdict == Verdict::Holds
}

/// Whether what was published fails to come out, as the class claims: it is enough that one number
/// comes out on no engine. Where no number was published, what is claimed of others must say so.
fn deviation(worst: Verdict, rows: &[NumberRow]) -> Verdict {
    if rows.iter().all(|row| row.published.is_none()) {
        return match worst {
            Verdict::Holds => Verdict::DeviatesAsExpected,
            other => other,
        };
    }
    // Nothing of it was measured: then only what is claimed of other numbers is known.
    rows.iter()
        .filter_map(comes_out_anywhere)
        .min()
        .unwrap_or(worst)
}

/// Whether the published number of a row comes out on any engine; `None` where none is published,
/// where it was fitted, or where none measured it.
fn comes_out_anywhere(row: &NumberRow) -> Option<Verdict> {
    let published = row.published.filter(|_| !row.fitted)?;
    comes_out_on(published, row.tolerance, &row.engines)
}

/// Whether a published number comes out on any engine; one that had too few runs tells nothing,
/// unless it is the only one.
fn comes_out_on(published: f64, tolerance: f64, engines: &[EngineValue]) -> Option<Verdict> {
    let measured = engines.iter().filter(|value| value.spread.is_some());
    let (untested, tested): (Vec<_>, Vec<_>) = measured.partition(|value| value.untested);
    let tested = tested.into_iter().filter_map(|value| value.spread.as_ref());
    let out = tested
        .map(|spread| comes_out(published, tolerance, spread))
        .max();
    out.or((!untested.is_empty()).then_some(Verdict::NotTested))
}

/// Claims that were not measured on an engine that ran, with the sentence why.
pub(super) fn unmeasured(row: &NumberRow) -> impl Iterator<Item = (&Bounds, &EngineValue)> {
    row.expectations.iter().filter_map(|claim| {
        let mut values = row.engines.iter();
        let value =
            values.find(|value| value.spread.is_none() && claim.applies_on(value.engine))?;
        Some((claim, value))
    })
}

impl NumberRow {
    /// Variant and point of the sweep: `n5/path.rtt=1ms`; empty where there is neither.
    #[must_use]
    pub fn label(&self) -> String {
        cell_name(self.variant.as_deref(), &self.axes, "/")
    }
}

fn doubts(engine: EngineName, outcomes: &[&Outcome]) -> impl Iterator<Item = Doubt> + use<> {
    let of = outcomes.len();
    let kinds = caveat_kinds(outcomes.iter().copied()).into_iter();
    kinds.map(move |kind| Doubt {
        engine,
        text: kind.worst.to_string(),
        caveat: kind.worst,
        runs: kind.runs,
        of,
    })
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
