//! The answer as data: what `--json` prints.

use std::borrow::Cow;
use std::collections::BTreeMap;

use lab::app::HostCosts;
use lab::judge::{Verdict, judge_claim, runs_to_tell};
use lab::{Cell, CostsOf, Expectation, OutcomeRow, Scenario};
use serde::Serialize;

use super::{Engine, Ran};
use crate::interrupt;

/// The whole answer.
#[derive(Debug, Serialize)]
pub(super) struct Document {
    pub(super) scenario: String,
    pub(super) about: String,
    /// How often each cell was to be run, at least.
    pub(super) runs: u32,
    /// And at most: with `--runs auto`, as often as its numbers spread.
    pub(super) runs_max: u32,
    /// Time at the start of workloads of a certain time that does not count.
    pub(super) warmup_s: f64,
    /// Whether the user ended it early.
    pub(super) interrupted: bool,
    /// Processing times of virtual hosts; null in real time.
    pub(super) host_costs: Option<HostCosts>,
    pub(super) outcomes: Vec<OutcomeRow>,
    pub(super) expectations: Vec<ExpectationRow>,
}

/// How the runs were made, and what rows tell of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shown {
    /// Engine.
    pub(super) engine: Engine,
    /// Runs of a cell that the file asks for.
    pub(super) runs_of_file: u32,
    /// Most runs of a cell.
    pub(super) runs_max: u32,
    /// How each run went.
    pub(super) series: bool,
    /// Processing times of virtual hosts.
    pub(super) costs: Option<HostCosts>,
}

/// One expectation about one cell, judged by its usable runs.
#[derive(Debug, Serialize)]
pub(super) struct ExpectationRow {
    pub(super) metric: Cow<'static, str>,
    pub(super) variant: Option<String>,
    /// The value is divided by that of this variant.
    pub(super) over: Option<String>,
    pub(super) axes: BTreeMap<String, String>,
    /// Unit of the bounds and the value: `bit/s`, `us`, `bytes`, `share`, `ratio`, or empty for
    /// names.
    pub(super) unit: &'static str,
    pub(super) min: Option<f64>,
    pub(super) max: Option<f64>,
    pub(super) reason: String,
    /// Median; null where no run was usable, or none measured it.
    pub(super) value: Option<f64>,
    /// Null where no run was usable, or none of that which the value is divided by; or, with a
    /// sentence why, where the runs differ too much to tell.
    pub(super) passed: Option<bool>,
    /// The problem or unknown, in one sentence.
    pub(super) why: Option<String>,
}

impl Document {
    pub(super) fn new(scenario: &Scenario, cells: &[Cell], ran: &[Ran], shown: Shown) -> Self {
        let engine = shown.engine;
        let needed = |expectation: &Expectation| {
            let of_file = shown.runs_of_file as usize;
            runs_to_tell(engine.into(), of_file, expectation.over.is_some())
        };
        let outcomes = ran
            .iter()
            .map(|ran| row(scenario, &cells[ran.cell], ran, shown));
        let expectations = cells.iter().enumerate().flat_map(|(index, cell)| {
            let about_it = scenario
                .expectations
                .iter()
                .filter(|expectation| expectation.applies_to(cell.variant.as_deref()))
                .filter(move |expectation| expectation.applies_on(engine.into()))
                .filter(move |expectation| {
                    let costs = shown.costs.as_ref();
                    costs.is_none_or(|costs| expectation.applies_with(CostsOf::of(costs)))
                });
            about_it.map(move |expectation| {
                ExpectationRow::new(expectation, (cells, index), ran, needed(expectation))
            })
        });
        Self {
            scenario: scenario.name.clone(),
            about: scenario.about.clone(),
            runs: scenario.runs,
            runs_max: shown.runs_max,
            warmup_s: linux::kernel::WARM_UP.as_secs_f64(),
            host_costs: shown.costs,
            interrupted: interrupt::stopped(),
            outcomes: outcomes.collect(),
            expectations: expectations.collect(),
        }
    }

    /// How often cells were to be run, for people.
    pub(super) fn runs_told(&self) -> String {
        match self.runs_max > self.runs {
            true => format!("{} to {}", self.runs, self.runs_max),
            false => self.runs.to_string(),
        }
    }

    /// Failed expectations.
    pub(super) fn failed_expectations(&self) -> impl Iterator<Item = String> + '_ {
        let failed = self
            .expectations
            .iter()
            .filter(|row| row.passed == Some(false));
        failed.filter_map(ExpectationRow::told)
    }

    /// Expectations that the results cannot decide.
    pub(super) fn open_expectations(&self) -> impl Iterator<Item = String> + '_ {
        let open = self.expectations.iter().filter(|row| row.passed.is_none());
        open.filter_map(ExpectationRow::told)
    }
}

/// One run of one cell.
pub(super) fn row(scenario: &Scenario, cell: &Cell, ran: &Ran, shown: Shown) -> OutcomeRow {
    let place = (ran.run, ran.seed);
    let row = OutcomeRow::new(shown.engine.into(), scenario, cell, place, &ran.outcome);
    match shown.series {
        true => row.with_series(&ran.outcome),
        false => row,
    }
}

/// The cell of another variant at the same point of the sweep.
fn place_of(variant: &str, cell: &Cell, cells: &[Cell]) -> Option<usize> {
    let is = |other: &Cell| other.variant.as_deref() == Some(variant) && other.axes == cell.axes;
    cells.iter().position(is)
}

impl ExpectationRow {
    /// Row of cell `index`; a verdict takes `needed` usable runs.
    fn new(
        expectation: &Expectation,
        (cells, index): (&[Cell], usize),
        ran: &[Ran],
        needed: usize,
    ) -> Self {
        let cell = &cells[index];
        let usable = |index: usize| {
            let of_cell = ran.iter().filter(move |ran| ran.cell == index);
            of_cell.filter(|ran| ran.outcome.is_usable())
        };
        let values = |index: usize| -> Vec<f64> {
            let measured = usable(index).filter_map(|ran| expectation.metric.of(&ran.outcome));
            measured.collect()
        };
        let base = expectation
            .over
            .as_ref()
            .map(|over| place_of(over, cell, cells));
        let is_known = |index: Option<usize>| index.is_some_and(|i| usable(i).next().is_some());
        let judged = (is_known(Some(index)) && base.is_none_or(is_known)).then(|| {
            let over = base.flatten().map(values);
            let values = values(index);
            let usable = over
                .as_ref()
                .map_or(values.len(), |over| over.len().min(values.len()));
            judge_claim(expectation, &values, over.as_deref()).told_by(usable, needed)
        });
        let value = judged.as_ref().and_then(|judged| judged.spread.as_ref());
        Self {
            metric: expectation.metric.name(),
            variant: cell.variant.clone(),
            over: expectation.over.clone(),
            axes: cell.axes.iter().cloned().collect(),
            unit: expectation.unit(),
            min: expectation.min,
            max: expectation.max,
            reason: expectation.reason.clone(),
            value: value.map(|spread| spread.median),
            passed: judged.as_ref().and_then(|judged| match judged.verdict {
                Verdict::NotDistinguishable | Verdict::NotTested => None,
                verdict => Some(verdict == Verdict::Holds),
            }),
            why: judged.and_then(|judged| judged.why),
        }
    }

    /// The cell and what is wrong or not known, where something is.
    fn told(&self) -> Option<String> {
        let why = self.why.as_ref()?;
        let cell = lab::cell_name(self.variant.as_deref(), &self.axes, "/");
        Some(match cell.is_empty() {
            true => why.clone(),
            false => format!("{cell}: {why}"),
        })
    }
}
