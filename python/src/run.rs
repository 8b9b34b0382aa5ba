//! Scenarios in virtual time, as `tcptailor lab run --engine virtual`.

use lab::app::HostCosts;
use lab::{
    AGREEMENT_SCENARIOS, BUILTIN_SCENARIOS, EngineName, OutcomeRow, Scenario, find_scenario_text,
};
use pyo3::prelude::*;
use serde::{Deserialize, Serialize};

use crate::engine::engine;
use crate::{mistakes, pool, request, wrong};

/// What is to be run.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    /// The name of the scenario's file, for messages.
    file: String,
    text: String,
    /// Keys with their values, in this order.
    settings: Vec<(String, String)>,
    runs: Option<u32>,
    seed: Option<u64>,
    profile: Option<String>,
    /// Whether the course of each run is told.
    series: bool,
    jobs: Option<usize>,
}

/// What came of it.
#[derive(Serialize)]
struct Answer {
    scenario: String,
    about: String,
    runs: u32,
    warmup_s: f64,
    host_costs: HostCosts,
    outcomes: Vec<OutcomeRow>,
}

/// Names of the built-in scenarios, each with a sentence about it.
#[pyfunction]
pub(crate) fn scenarios() -> Vec<(&'static str, String)> {
    let about = |text: &str| Scenario::parse("", text).map_or_else(|_| String::new(), |s| s.about);
    let all = BUILTIN_SCENARIOS.iter().chain(AGREEMENT_SCENARIOS);
    all.map(|(name, text)| (*name, about(text))).collect()
}

/// The text of a built-in scenario.
#[pyfunction]
pub(crate) fn scenario_text(name: &str) -> PyResult<&'static str> {
    let found = find_scenario_text(name).map_err(|unknown| wrong(unknown.to_string()))?;
    Ok(found.1)
}

/// Runs every cell of a scenario.
#[pyfunction]
pub(crate) fn run(py: Python<'_>, asked: &str) -> PyResult<String> {
    let asked: Request = request(asked)?;
    let (scenario, engine) = (asked.scenario()?, engine(asked.profile.as_deref())?);
    let threads = pool::threads(asked.jobs)?;
    let cells = scenario.trials();
    let runs = scenario.runs as usize;
    // First all cells once, then all again, as the program does.
    let outcomes = pool::each(py, threads, cells.len() * runs, |at, stop| {
        let run = (at / cells.len()) as u32;
        let cell = &cells[at % cells.len()];
        let trial = cell.run(run);
        let outcome = engine.run(&trial, stop, &mut |_| ());
        let refused = asked.refused(&outcome);
        let place = (run, trial.seed);
        let row = OutcomeRow::new(EngineName::Virtual, &scenario, cell, place, &outcome);
        let row = match asked.series {
            true => row.with_series(&outcome),
            false => row,
        };
        refused.map_or(Ok(row), Err)
    })?;
    let outcomes: Result<Vec<OutcomeRow>, String> = outcomes.into_iter().collect();
    let answer = Answer {
        outcomes: outcomes.map_err(wrong)?,
        scenario: scenario.name,
        about: scenario.about,
        runs: scenario.runs,
        warmup_s: lab::WARM_UP.as_secs_f64(),
        host_costs: engine.costs,
    };
    Ok(serde_json::to_string(&answer).expect("plain data"))
}

impl Request {
    /// The scenario with all that is to be set.
    fn scenario(&self) -> PyResult<Scenario> {
        let scenario = Scenario::parse(&self.file, &self.text).map_err(|told| mistakes(&told))?;
        let mut scenario = scenario.on(EngineName::Virtual);
        let mut set =
            |key: &str, value: &str| scenario.set(key, value).map_err(|told| mistakes(&told));
        for (key, value) in &self.settings {
            set(key, value)?;
        }
        if let Some(seed) = self.seed {
            set("seed", &seed.to_string())?;
        }
        if let Some(runs) = self.runs {
            set("runs", &runs.to_string())?;
        }
        Ok(scenario)
    }

    /// A setting that could not be applied is an error, not a caveat.
    fn refused(&self, outcome: &lab::Outcome) -> Option<String> {
        self.settings.iter().find_map(|(key, value)| {
            let why = outcome.refusal(key)?;
            Some(format!("{key} = {value}: {why}"))
        })
    }
}
