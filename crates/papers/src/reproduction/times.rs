//! Estimates the remaining time from completed runs.

use std::collections::BTreeMap;
use std::time::Duration;

use lab::EngineName;

use super::plan::{Planned, Record};
use super::run::WorkIndex;

/// Known durations of the runs of one cell on one engine.
#[derive(Clone, Copy, Debug)]
struct Entry {
    engine: EngineName,
    /// Runs that are still to be made, at least.
    left: usize,
    last_s: Option<f64>,
}

/// Times of runs.
#[derive(Debug)]
pub(super) struct Times {
    entries: BTreeMap<WorkIndex, Entry>,
    /// Sum and count of each engine.
    engines: BTreeMap<EngineName, (f64, usize)>,
    /// Runs in virtual time that are made at once.
    threads: usize,
    done_s: f64,
}

impl Times {
    /// Estimate for planned runs, from the runs that a folder had.
    pub(super) fn new(planned: &[Planned], records: &[Record], threads: usize) -> Self {
        let mut entries = BTreeMap::new();
        for (index, planned) in planned.iter().enumerate() {
            for (on, engine) in planned.on.iter().enumerate() {
                for work in 0..engine.work.len() {
                    let entry = Entry {
                        engine: engine.engine,
                        left: engine.runs.0,
                        last_s: None,
                    };
                    entries.insert((index, on, work), entry);
                }
            }
        }
        let mut times = Self {
            entries,
            engines: BTreeMap::new(),
            threads: threads.max(1),
            done_s: 0.0,
        };
        for (index, (planned, record)) in planned.iter().zip(records).enumerate() {
            for (engine, cell, took) in &record.found {
                if let Some((on, work)) = planned.work_of(*engine, *cell) {
                    times.add((index, on, work), *took);
                }
            }
        }
        times
    }

    /// A run was made, or found.
    pub(super) fn add(&mut self, place: WorkIndex, took: Duration) {
        let Some(entry) = self.entries.get_mut(&place) else {
            return;
        };
        let seconds = took.as_secs_f64();
        entry.left = entry.left.saturating_sub(1);
        entry.last_s = Some(seconds);
        let engine = entry.engine;
        let (sum, count) = self.engines.entry(engine).or_default();
        *sum += seconds;
        *count += 1;
        self.done_s += seconds / self.at_once(engine);
    }

    /// The engine will not run this experiment.
    pub(super) fn drop_engine(&mut self, (planned, on, _): WorkIndex) {
        self.entries
            .retain(|(index, other, _), _| (*index, *other) != (planned, on));
    }

    fn at_once(&self, engine: EngineName) -> f64 {
        match engine {
            EngineName::Virtual => self.threads as f64,
            _ => 1.0,
        }
    }

    /// Seconds; `None` while an engine has not run anything.
    fn left_s(&self) -> Option<f64> {
        let waiting = self.entries.values().filter(|entry| entry.left > 0);
        let mut left_s = 0.0;
        for entry in waiting {
            let mean = || {
                let (sum, count) = self.engines.get(&entry.engine)?;
                Some(sum / *count as f64)
            };
            let each = entry.last_s.or_else(mean)?;
            left_s += each * entry.left as f64 / self.at_once(entry.engine);
        }
        Some(left_s)
    }

    /// Completed share of the whole time, from 0 to 1.
    pub(super) fn share_done(&self) -> f64 {
        match self.left_s() {
            Some(left_s) if self.done_s > 0.0 => self.done_s / (self.done_s + left_s),
            _ => 0.0,
        }
    }

    /// `, about 3 min left`; empty while it is not known.
    pub(super) fn left_in_words(&self) -> String {
        let left = self.left_s().filter(|left_s| *left_s >= 1.0);
        left.map_or_else(String::new, |left_s| {
            let about = match left_s >= 90.0 {
                true => format!("{:.0} min", left_s / 60.0),
                false => format!("{left_s:.0} s"),
            };
            format!(", about {about} left")
        })
    }
}
