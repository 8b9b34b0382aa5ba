//! Experiments run on the engines that a machine has: what is to be run, the order in which it is
//! run, and the document that comes of it.
//!
//! A [`Campaign`] knows what was run and what is missing. Its [`Surroundings`] provide engines, a
//! place to write to and a screen.

mod choose;
mod plan;
mod run;
#[cfg(test)]
mod tests;
mod times;

use core::sync::atomic::AtomicBool;
use core::time::Duration;

use lab::{EngineName, Outcome, Scenario, Trial};
use serde::{Deserialize, Serialize};

pub use self::choose::{Chosen, UnknownExperiment, chosen};
pub use self::plan::Wanted;
use self::plan::{Planned, Record};
use self::run::Runner;
use crate::evaluation::{CellName, Counts, NotRun, Reproduction, RunOf, Summary};

/// One run of one cell on one engine, as it is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Name of the experiment's file.
    pub scenario: String,
    /// `None` where the scenario has no variants.
    pub variant: Option<String>,
    /// Keys and values of the sweep.
    pub axes: Vec<(String, String)>,
    /// Engine.
    pub engine: EngineName,
    /// From 0.
    pub run: u32,
    /// Real time that it took, in seconds.
    pub elapsed_s: f64,
    /// Outcome.
    pub outcome: Outcome,
}

/// Environment of a campaign, supplied by the caller. Virtual time needs nothing of it but the
/// flag.
pub trait Surroundings {
    /// Why a run could not be kept, which ends them all.
    type Error;

    /// Set from elsewhere: then nothing more is run.
    fn stop(&self) -> &'static AtomicBool;

    /// Hears, before each run, which one begins and which share of the whole time has passed.
    fn on_run(&mut self, label: String, share: f64);

    /// Makes an engine in real time ready; called before each of its runs.
    ///
    /// # Errors
    /// Why this machine cannot run it: a permission or a feature is missing.
    fn prepare(&mut self, engine: EngineName) -> Result<(), String>;

    /// Runs a trial on an engine that is ready.
    ///
    /// # Errors
    /// As [`Surroundings::prepare`]. A trial that fails otherwise is an outcome that
    /// [ended early](Outcome::ended_early).
    fn run(&mut self, engine: EngineName, trial: &Trial) -> Result<Outcome, String>;

    /// Writes a run down.
    ///
    /// # Errors
    /// Where that fails.
    fn keep(&mut self, line: &Line) -> Result<(), Self::Error>;
}

/// How much is to be run, at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Experiments.
    pub experiments: u64,
    /// Runs in virtual time.
    pub in_virtual_time: u64,
    /// Runs in real time, one after the other.
    pub in_real_time: u64,
}

/// Experiments with what is to be run for them, and what was run.
#[derive(Debug)]
pub struct Campaign {
    wanted: Wanted,
    planned: Vec<Planned>,
    /// One per experiment.
    records: Vec<Record>,
}

impl Campaign {
    /// Campaign of those scenarios that are experiments.
    #[must_use]
    pub fn new<'s>(scenarios: impl IntoIterator<Item = &'s Scenario>, wanted: Wanted) -> Self {
        let scenarios = scenarios.into_iter();
        let planned = scenarios.filter_map(|scenario| Planned::new(scenario, &wanted));
        let planned: Vec<Planned> = planned.collect();
        Self {
            wanted,
            records: planned.iter().map(Planned::record).collect(),
            planned,
        }
    }

    /// How much is to be run.
    #[must_use]
    pub fn extent(&self) -> Extent {
        let runs = |in_real_time: bool| -> u64 {
            let engines = self.planned.iter().flat_map(|planned| &planned.on);
            let engines = engines.filter(|on| (on.engine != EngineName::Virtual) == in_real_time);
            engines.map(|on| (on.runs.0 * on.work.len()) as u64).sum()
        };
        Extent {
            experiments: self.planned.len() as u64,
            in_virtual_time: runs(false),
            in_real_time: runs(true),
        }
    }

    /// Takes runs that were made earlier; one that is not asked for now is left out, and of one
    /// that is there twice the first counts.
    pub fn take(&mut self, lines: impl IntoIterator<Item = Line>) {
        for line in lines {
            self.take_one(line);
        }
        for record in &mut self.records {
            record.runs.sort_by_key(|run| run.run);
        }
    }

    fn take_one(&mut self, line: Line) {
        let mut planned = self.planned.iter();
        let Some(index) = planned.position(|planned| planned.name == line.scenario) else {
            return;
        };
        let planned = &self.planned[index];
        let mut cells = planned.cells.iter();
        let cell = cells.position(|cell| cell.variant == line.variant && cell.axes == line.axes);
        let is_asked = planned.on.iter().any(|on| on.engine == line.engine);
        let Some(cell) = cell.filter(|_| is_asked) else {
            return;
        };
        // An invalid time in a file becomes `None`.
        let took = Duration::try_from_secs_f64(line.elapsed_s).unwrap_or_default();
        let run = RunOf {
            engine: line.engine,
            cell,
            run: line.run,
            outcome: line.outcome,
        };
        let record = &mut self.records[index];
        if !record.runs.iter().any(|known| known.is_same(&run)) {
            record.found.push((run.engine, cell, took));
            record.runs.push(run);
        }
    }

    /// Runs what is missing: all cells once on all engines, then all of them again, until all had
    /// their runs or it is stopped. Cells in virtual time run on all processors, those in real time
    /// one by one.
    ///
    /// # Errors
    /// Those of [`Surroundings::keep`].
    pub fn run<S: Surroundings>(&mut self, surroundings: &mut S) -> Result<(), S::Error> {
        Runner {
            planned: &self.planned,
            records: &mut self.records,
            costs: self.wanted.costs(),
            surroundings,
        }
        .run()
    }

    /// Whether something is missing, of what this machine can run.
    #[must_use]
    pub fn wants_more(&self) -> bool {
        run::wants_more(&self.planned, &self.records)
    }

    /// Runs that were made or taken.
    #[must_use]
    pub fn run_count(&self) -> usize {
        self.records.iter().map(|record| record.runs.len()).sum()
    }

    /// All of them, by cell, each with the experiment that it is of.
    pub fn runs(&self) -> impl Iterator<Item = (&str, &CellName, &RunOf)> {
        let pairs = self.planned.iter().zip(&self.records);
        pairs.flat_map(|(planned, record)| {
            let mut runs: Vec<&RunOf> = record.runs.iter().collect();
            runs.sort_by_key(|run| run.cell);
            let runs = runs.into_iter();
            runs.map(|run| (&*planned.name, &planned.cells[run.cell], run))
        })
    }

    /// Judged results; the caller fills in the duration.
    #[must_use]
    pub fn document(&self) -> Reproduction {
        let pairs = self.planned.iter().zip(&self.records);
        let experiments: Vec<_> = pairs
            .map(|(planned, record)| planned.result(record))
            .collect();
        let found = self.records.iter().map(|record| record.found.len());
        Reproduction {
            summary: Summary {
                verdicts: Counts::of(&experiments),
                elapsed_s: 0.0,
                quick: self.wanted.quick,
                host_costs: self.wanted.costs,
                interrupted: false,
                runs: self.run_count(),
                runs_found: found.sum(),
                engines: self.wanted.engines.clone(),
                missing: self.missing(),
            },
            experiments,
        }
    }

    /// Engines that were to run something and ran nothing.
    fn missing(&self) -> Vec<NotRun> {
        let engines = EngineName::ALL.into_iter();
        engines
            .filter_map(|engine| {
                let is_on = |planned: &Planned| planned.on.iter().any(|on| on.engine == engine);
                let ran = |record: &Record| record.runs.iter().any(|run| run.engine == engine);
                if self.records.iter().any(ran) {
                    return None;
                }
                let pairs = self.planned.iter().zip(&self.records);
                let mut whys = pairs
                    .filter(|(planned, _)| is_on(planned))
                    .flat_map(|(_, record)| &record.not_run);
                whys.find(|not_run| not_run.engine == engine).cloned()
            })
            .collect()
    }
}
