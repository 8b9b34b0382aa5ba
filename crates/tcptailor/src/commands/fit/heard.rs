//! Observations during the work, beside the result: each run of each experiment, and how the
//! connection with the most important answer went before and after.

use page::Series;
use serde::Serialize;
use tailor::{Arm, FitEvent};

use super::lasting::Wider;
use super::screen;
use crate::commands::diagnose::document::FlowRow;
use crate::commands::diagnose::page::main_series;
use crate::commands::diagnose::seen;

/// Runs of an experiment that are kept. One of connections side by side has a run for each of them
/// at each look.
const RUNS_MAX: usize = 1000;

/// Connections of a look, the most important first, of which the changes are kept.
const ROWS_MAX: usize = 16;

/// All of it.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// One for each candidate that was tried, in order.
    pub(super) experiments: Vec<Experiment>,
    /// How a connection went before the first change.
    pub(super) first: Option<Series>,
    /// The same after the last one that is kept.
    pub(super) last: Option<Series>,
    /// The doctor's rows on that connection before the first change, and after the last one.
    pub(super) said: [Option<FlowRow>; 2],
    /// Further proposals against the limits that were seen.
    pub(super) wider: Vec<Wider>,
    is_looked_at: bool,
}

/// One experiment.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Experiment {
    /// Method of measurement.
    #[serde(skip)]
    pub(super) how: &'static str,
    /// In the order in which they were made.
    pub(super) runs: Vec<Run>,
    /// Changes rolled back, with results.
    #[serde(skip)]
    pub(super) undone: Vec<String>,
}

/// One run.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Run {
    /// Without the change or with it.
    pub(super) arm: Arm,
    #[serde(flatten)]
    pub(super) measure: lab::Measure,
}

impl Heard {
    /// Takes in an event; `wants` says which connections are meant.
    pub(super) fn hear(&mut self, event: &FitEvent<'_>, wants: &dyn Fn(&doctor::Track) -> bool) {
        match event {
            FitEvent::Looked(look) => {
                let series = main_series(look, wants);
                match self.first {
                    None => self.first = series,
                    Some(_) => self.last = series.or(self.last.take()),
                }
                let mut rows = look.observed(|observed| seen::rows(observed, wants));
                // Thousands of connections have the same to say.
                let wider = rows.iter().take(ROWS_MAX).flat_map(Wider::of);
                self.wider.extend(wider);
                let main = (!rows.is_empty()).then(|| rows.swap_remove(0));
                self.said[usize::from(self.is_looked_at)] = main;
                self.is_looked_at = true;
            }
            FitEvent::Trying(_, _, design) => self.experiments.push(Experiment {
                how: screen::how(*design),
                ..Experiment::default()
            }),
            FitEvent::Compared(arm, measure) => {
                if let Some(experiment) = self.experiments.last_mut()
                    && experiment.runs.len() < RUNS_MAX
                {
                    experiment.runs.push(Run {
                        arm: *arm,
                        measure: **measure,
                    });
                }
            }
            FitEvent::Undone(undone) => {
                if let Some(experiment) = self.experiments.last_mut() {
                    let lines = undone
                        .iter()
                        .map(|one| format!("{}: {}", one.knob, one.how));
                    experiment.undone.extend(lines);
                }
            }
            FitEvent::Predicted(_) | FitEvent::Tried(_) => {}
        }
    }
}
