//! The runs of a shard, several at a time; each goes to the folder as soon as it is over.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use lab::results::{Planned, Record, RunId, SweepPlan};
use lab::{Outcome, Shard};

use super::super::line_log::LineLog;
use super::super::run::Runner;
use crate::interrupt;
use crate::output::{self, Output};
use crate::progress::Progress;

/// Work to do.
pub(super) struct Work<'w> {
    pub(super) plan: &'w SweepPlan,
    pub(super) runner: &'w Runner,
    pub(super) shard: Shard,
    /// Runs that are in the folder and are not made again, and whether their numbers count.
    pub(super) done: &'w BTreeMap<RunId, bool>,
    pub(super) jobs: usize,
    pub(super) label: String,
}

/// Results of the work.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Made {
    /// Runs of the shard.
    pub(super) runs: u64,
    /// Runs that were there.
    pub(super) skipped: u64,
    /// Runs that were made.
    pub(super) made: u64,
    /// Of all these, unusable.
    pub(super) unusable: u64,
    pub(super) time: Duration,
}

/// State shared by all threads.
struct Shared<'w> {
    work: &'w Work<'w>,
    /// Positions that no thread has taken.
    rest: Mutex<Box<dyn Iterator<Item = u64> + Send>>,
    log: Mutex<LineLog>,
    bar: Progress,
    /// Set when continuing is useless: the log cannot be written, or a thread found a bug.
    broken: AtomicBool,
    skipped: AtomicU64,
    made: AtomicU64,
    unusable: AtomicU64,
    runs: u64,
}

impl Work<'_> {
    /// Makes all runs, or those up to an interrupt.
    pub(super) fn run(&self, log: LineLog, output: &Output) -> anyhow::Result<Made> {
        let runs = self.plan.count(self.shard);
        let begun = linux::Clock.now();
        let shared = Shared {
            work: self,
            rest: Mutex::new(Box::new(self.plan.positions(self.shard))),
            log: Mutex::new(log),
            bar: Progress::bar(output, self.label.clone(), runs.max(1)),
            broken: AtomicBool::new(false),
            skipped: AtomicU64::new(0),
            made: AtomicU64::new(0),
            unusable: AtomicU64::new(0),
            runs,
        };
        let ended = thread::scope(|scope| {
            let jobs: Vec<_> = (0..self.jobs)
                .map(|_| scope.spawn(|| shared.work_on()))
                .collect();
            let ends = jobs.into_iter().map(|job| match job.join() {
                Ok(end) => end,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            ends.collect::<anyhow::Result<()>>()
        });
        let log = shared.log.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = log.finish();
        drop(log);
        ended?;
        kept?;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Ok(Made {
            runs,
            skipped: count(&shared.skipped),
            made: count(&shared.made),
            unusable: count(&shared.unusable),
            time: linux::Clock.now().since(begun),
        })
    }
}

impl Shared<'_> {
    /// Takes one run after the other until none is left.
    fn work_on(&self) -> anyhow::Result<()> {
        let _guard = Guard(&self.broken);
        while let Some(position) = self.next() {
            let Some(record) = self.one(position)? else {
                continue;
            };
            let usable = record.outcome.is_usable();
            let line = record.to_line();
            let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
            if let Err(error) = log.append(&line) {
                self.broken.store(true, Ordering::Relaxed);
                return Err(error.into());
            }
            drop(log);
            self.made.fetch_add(1, Ordering::Relaxed);
            self.unusable
                .fetch_add(u64::from(!usable), Ordering::Relaxed);
            self.show(&record.cell);
        }
        Ok(())
    }

    fn next(&self) -> Option<u64> {
        if interrupt::stopped() || self.broken.load(Ordering::Relaxed) {
            return None;
        }
        self.rest
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .next()
    }

    /// `None` where it is in the folder, or was cut short.
    fn one(&self, position: u64) -> anyhow::Result<Option<Record>> {
        let planned = self.work.plan.at(position);
        if let Some(usable) = self.work.done.get(&planned.id) {
            self.skipped.fetch_add(1, Ordering::Relaxed);
            self.unusable
                .fetch_add(u64::from(!usable), Ordering::Relaxed);
            self.show(&planned.cell.id);
            return Ok(None);
        }
        let outcome = match self.outcome(&planned) {
            Ok(outcome) => outcome,
            Err(_) if interrupt::stopped() => return Ok(None),
            Err(error) => {
                self.broken.store(true, Ordering::Relaxed);
                return Err(error);
            }
        };
        if interrupt::stopped() && !outcome.is_usable() {
            return Ok(None);
        }
        let is_real_time = matches!(self.work.runner, Runner::RealTime(_));
        let at = is_real_time.then(output::now);
        Ok(Some(Record::new(&planned, outcome, at)))
    }

    /// One invalid cell does not stop the others; a missing permission does.
    fn outcome(&self, planned: &Planned) -> anyhow::Result<Outcome> {
        if planned.problems.is_empty() {
            return self.work.runner.run(&planned.trial, &mut |_| ());
        }
        let told: Vec<String> = planned.problems.iter().map(ToString::to_string).collect();
        Ok(Outcome::ended_early(told.join("; ")))
    }

    fn show(&self, cell: &str) {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let done = count(&self.made) + count(&self.skipped);
        self.bar.set(done);
        self.bar.label(format!("{done} of {}: {cell}", self.runs));
    }
}

/// Ends the other threads where one panics.
struct Guard<'g>(&'g AtomicBool);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}
