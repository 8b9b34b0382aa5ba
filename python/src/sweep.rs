//! Sweeps in virtual time, as `tcptailor lab sweep`: many cells, or one shard of their runs.

use lab::app::HostCosts;
use lab::results::{FORMAT, Host, Manifest, Planned, SWEEP_RUNS_MAX, SweepPlan};
use lab::{EngineName, Outcome, OutcomeRow, Scenario, Shard, Vary};
use pyo3::prelude::*;
use serde::{Deserialize, Serialize};

use crate::engine::engine;
use crate::{mistakes, pool, request, wrong};

/// More rows are no table any more; `lab sweep` writes them to a folder.
const RUNS_MAX: u64 = 1_000_000;

/// What is to be run.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    /// The name of the scenario's file, for messages.
    file: String,
    text: String,
    /// Keys with their values, in this order.
    settings: Vec<(String, String)>,
    axes: Vec<Axis>,
    runs: Option<u32>,
    seed: Option<u64>,
    profile: Option<String>,
    jobs: Option<usize>,
    /// Which one, from 1, and of how many.
    shard: Option<String>,
}

/// One axis of a sweep.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Axis {
    /// As `--vary` has it behind the `=`.
    Text(String, String),
    /// Its values.
    Values(String, Vec<String>),
}

/// What came of it.
#[derive(Serialize)]
struct Answer {
    scenario: String,
    about: String,
    runs: u32,
    warmup_s: f64,
    host_costs: HostCosts,
    outcomes: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    /// Number of the cell, by which shards are joined.
    index: u64,
    #[serde(flatten)]
    outcome: OutcomeRow,
}

/// Makes all runs, or those of a shard.
#[pyfunction]
pub(crate) fn sweep(py: Python<'_>, asked: &str) -> PyResult<String> {
    let asked: Request = request(asked)?;
    let engine = engine(asked.profile.as_deref())?;
    let manifest = asked.manifest()?;
    let plan = SweepPlan::new(&manifest).map_err(|told| mistakes(&told))?;
    let shard = match &asked.shard {
        Some(shard) => shard.parse().map_err(|why: String| wrong(why))?,
        None => Shard::WHOLE,
    };
    let runs = plan.count(shard);
    if runs > RUNS_MAX {
        let why = format!("{runs} runs: one table has at most {RUNS_MAX}; use a shard");
        return Err(wrong(why));
    }
    let positions: Vec<u64> = plan.positions(shard).collect();
    let threads = pool::threads(asked.jobs)?;
    let outcomes = pool::each(py, threads, positions.len(), |at, stop| {
        let planned = plan.at(positions[at]);
        let outcome = match refusal(&planned) {
            // One invalid cell does not stop the others.
            Some(why) => Outcome::ended_early(why),
            None => engine.run(&planned.trial, stop, &mut |_| ()),
        };
        let place = (planned.run, planned.trial.seed);
        let (scenario, cell) = (plan.scenario(), &planned.cell);
        Row {
            index: planned.index,
            outcome: OutcomeRow::new(EngineName::Virtual, scenario, cell, place, &outcome),
        }
    })?;
    let answer = Answer {
        scenario: plan.scenario().name.clone(),
        about: plan.scenario().about.clone(),
        runs: manifest.runs,
        warmup_s: lab::WARM_UP.as_secs_f64(),
        host_costs: engine.costs,
        outcomes,
    };
    Ok(serde_json::to_string(&answer).expect("plain data"))
}

/// Why a run must not be made.
fn refusal(planned: &Planned) -> Option<String> {
    let told: Vec<String> = planned.problems.iter().map(ToString::to_string).collect();
    (!told.is_empty()).then(|| told.join("; "))
}

impl Request {
    /// What is to be run, as a results folder says it.
    fn manifest(&self) -> PyResult<Manifest> {
        let scenario = Scenario::parse(&self.file, &self.text).map_err(|told| mistakes(&told))?;
        let mut scenario = scenario.on(EngineName::Virtual);
        // The number of repetitions is not a setting of a cell: the manifest has a field for it.
        let mut set = Vec::new();
        for (key, value) in &self.settings {
            if key == "runs" {
                let told = scenario.set(key, value);
                told.map_err(|told| mistakes(&told))?;
            } else {
                set.push(format!("{key}={value}"));
            }
        }
        set.extend(self.seed.map(|seed| format!("seed={seed}")));
        let runs = self.runs.unwrap_or(scenario.runs);
        if !(1..=SWEEP_RUNS_MAX).contains(&runs) {
            return Err(wrong(format!(
                "runs={runs}: the range is 1 to {SWEEP_RUNS_MAX}"
            )));
        }
        Ok(Manifest {
            format: FORMAT,
            tool_version: env!("CARGO_PKG_VERSION").into(),
            scenario: scenario.name,
            file: self.file.clone(),
            text: self.text.clone(),
            set,
            vary: self.axes.iter().map(Axis::text).collect(),
            engine: EngineName::Virtual,
            profile: self.profile.clone(),
            host_costs: Some(HostCosts::linux()),
            runs,
            cells: 0,
            host: Host::default(),
            created: String::new(),
        })
    }
}

impl Axis {
    /// As `--vary` has it.
    fn text(&self) -> String {
        match self {
            Self::Text(key, values) => format!("{key}={values}"),
            Self::Values(key, values) => {
                let (key, values) = (key.clone(), values.clone());
                Vary { key, values }.to_string()
            }
        }
    }
}
