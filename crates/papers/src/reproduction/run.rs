//! Runs what is planned: all cells once on all engines, then all of them again.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use lab::app::HostCosts;
use lab::{EngineName, Outcome, Virtual};

use super::plan::{Planned, Record, Work};
use super::times::Times;
use super::{Line, Surroundings};
use crate::diagrams;
use crate::evaluation::{NotRun, RunOf, wants_more_runs};
use crate::probe::Figures;

/// Place of a run: the experiment, its engine, and the work of that.
pub(super) type WorkIndex = (usize, usize, usize);

/// One run that is to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Job {
    place: WorkIndex,
    /// From 0.
    run: u32,
}

/// Everything that is run, and who runs it.
pub(super) struct Runner<'c, S> {
    pub(super) planned: &'c [Planned],
    /// One per experiment.
    pub(super) records: &'c mut [Record],
    /// Processing times of virtual hosts.
    pub(super) costs: HostCosts,
    pub(super) surroundings: &'c mut S,
}

impl<S: Surroundings> Runner<'_, S> {
    /// Runs all of it, until it is stopped.
    pub(super) fn run(&mut self) -> Result<(), S::Error> {
        let mut times = Times::new(self.planned, self.records, threads());
        while !self.is_stopped() {
            let jobs = jobs(self.planned, self.records);
            if jobs.is_empty() {
                break;
            }
            let is_virtual = |job: &Job| self.engine(*job) == EngineName::Virtual;
            let (virtual_jobs, real_jobs): (Vec<Job>, Vec<Job>) =
                jobs.into_iter().partition(is_virtual);
            self.run_virtual(&virtual_jobs, &mut times)?;
            for job in real_jobs {
                if self.is_stopped() {
                    break;
                }
                self.run_real(job, &mut times)?;
            }
        }
        Ok(())
    }

    fn is_stopped(&self) -> bool {
        self.surroundings.stop().load(Ordering::SeqCst)
    }

    fn engine(&self, job: Job) -> EngineName {
        let (planned, on, _) = job.place;
        self.planned[planned].on[on].engine
    }

    /// Different cells on all processors; nothing in real time runs meanwhile.
    fn run_virtual(&mut self, jobs: &[Job], times: &mut Times) -> Result<(), S::Error> {
        let (planned, costs) = (self.planned, self.costs);
        let stop = self.surroundings.stop();
        let (next, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
        let (send, made) = mpsc::channel();
        thread::scope(|scope| {
            for _ in 0..threads().min(jobs.len()) {
                let (send, next, is_over) = (send.clone(), &next, &is_over);
                scope.spawn(move || {
                    while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let began = linux::Clock.now();
                        let outcome = run_virtually(planned, *job, costs, stop);
                        let took = linux::Clock.now().since(began);
                        if is_over.load(Ordering::Relaxed) || stop.load(Ordering::SeqCst) {
                            return;
                        }
                        // The receiver outlives the threads.
                        let _ = send.send((*job, outcome, took));
                    }
                });
            }
            drop(send);
            for (job, outcome, took) in made {
                self.show(job, times);
                if let Err(error) = self.take(job, outcome, took, times) {
                    is_over.store(true, Ordering::Relaxed);
                    return Err(error);
                }
            }
            Ok(())
        })
    }

    /// One cell at a time: it wants the machine for itself.
    fn run_real(&mut self, job: Job, times: &mut Times) -> Result<(), S::Error> {
        let engine = self.engine(job);
        let record = &self.records[job.place.0];
        if record.not_run.iter().any(|no| no.engine == engine) {
            return Ok(());
        }
        self.show(job, times);
        let began = linux::Clock.now();
        let made = run_really(
            work(self.planned, job.place),
            (engine, job.run),
            self.surroundings,
        );
        let took = linux::Clock.now().since(began);
        if self.is_stopped() {
            return Ok(());
        }
        match made {
            Ok(outcome) => self.take(job, outcome, took, times),
            Err(why) => {
                let record = &mut self.records[job.place.0];
                record.not_run.push(NotRun {
                    engine,
                    why,
                    by_choice: false,
                });
                times.drop_engine(job.place);
                Ok(())
            }
        }
    }

    fn show(&mut self, job: Job, times: &Times) {
        let (planned, _, _) = job.place;
        let cell = self.planned[planned].cell_id(self.cell(job));
        let left = times.left_in_words();
        let engine = self.engine(job);
        let label = format!("run {}: {cell} on {engine}{left}", job.run + 1);
        self.surroundings.on_run(label, times.share_done());
    }

    fn cell(&self, job: Job) -> usize {
        let (planned, on, work) = job.place;
        self.planned[planned].on[on].work[work].0
    }

    /// Writes a run down.
    fn take(
        &mut self,
        job: Job,
        mut outcome: Outcome,
        took: Duration,
        times: &mut Times,
    ) -> Result<(), S::Error> {
        times.add(job.place, took);
        if job.run > 0 {
            // How it went is told of the first run alone, or a folder would take gigabytes.
            outcome.series.clear();
        }
        let (engine, cell) = (self.engine(job), self.cell(job));
        let planned = &self.planned[job.place.0];
        let name = &planned.cells[cell];
        self.surroundings.keep(&Line {
            scenario: planned.name.clone(),
            variant: name.variant.clone(),
            axes: name.axes.clone(),
            engine,
            run: job.run,
            elapsed_s: took.as_secs_f64(),
            outcome: outcome.clone(),
        })?;
        self.records[job.place.0].runs.push(RunOf {
            engine,
            cell,
            run: job.run,
            outcome,
        });
        Ok(())
    }
}

/// Whether something that is planned has not been run.
pub(super) fn wants_more(planned: &[Planned], records: &[Record]) -> bool {
    !jobs(planned, records).is_empty()
}

/// The next round: another run of each cell that has not had its runs, or spreads too much.
/// What a folder has already is not run again.
fn jobs(planned: &[Planned], records: &[Record]) -> Vec<Job> {
    let mut jobs = Vec::new();
    for (index, (planned, record)) in planned.iter().zip(records).enumerate() {
        let material = planned.material(record);
        for cell in 0..planned.cells.len() {
            // All engines of a cell stand beside each other.
            for (on, engine) in planned.on.iter().enumerate() {
                let missing = record.not_run.iter().any(|no| no.engine == engine.engine);
                let work = engine.work.iter().position(|(of, _)| *of == cell);
                let Some(work) = work.filter(|_| !missing) else {
                    continue;
                };
                if !wants_more_runs(&material, (engine.engine, cell), engine.runs) {
                    continue;
                }
                jobs.push(Job {
                    place: (index, on, work),
                    run: next_run(&record.runs, engine.engine, cell),
                });
            }
        }
    }
    jobs
}

/// The smallest number that no run of the cell has: a line may have been taken out of a folder.
fn next_run(runs: &[RunOf], engine: EngineName, cell: usize) -> u32 {
    let runs = runs.iter();
    let ran: BTreeSet<u32> = runs
        .filter(|run| run.engine == engine && run.cell == cell)
        .map(|run| run.run)
        .collect();
    (0..u32::MAX)
        .find(|run| !ran.contains(run))
        .unwrap_or(u32::MAX)
}

fn work(planned: &[Planned], (index, on, work): WorkIndex) -> &Work {
    &planned[index].on[on].work[work].1
}

fn threads() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Seed of a probe: that of a scenario file is 1 too.
const fn probe_seed(run: u32) -> u64 {
    1 + run as u64
}

fn of_probe(figures: Figures) -> Outcome {
    let figures = figures.into_iter();
    Outcome {
        figures: figures
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
        ..Outcome::default()
    }
}

fn run_virtually(planned: &[Planned], job: Job, costs: HostCosts, stop: &AtomicBool) -> Outcome {
    match work(planned, job.place) {
        Work::Trial(cell) => {
            let engine = Virtual {
                costs,
                ..Virtual::default()
            };
            let (trial, scenario) = (cell.run(job.run), &planned[job.place.0].name);
            match job.run == 0 && diagrams::is_shown(scenario, cell.variant.as_deref()) {
                true => diagrams::run(&engine, &trial, stop),
                false => engine.run(&trial, stop, &mut |_| ()),
            }
        }
        Work::VirtualProbe(probe) => of_probe(probe(probe_seed(job.run))),
        Work::KernelProbe(_) => Outcome::ended_early("it is a probe of the kernel".into()),
    }
}

/// Runs it once; the error is that a permission or a feature of this machine is missing.
fn run_really(
    work: &Work,
    (engine, run): (EngineName, u32),
    surroundings: &mut impl Surroundings,
) -> Result<Outcome, String> {
    surroundings.prepare(engine)?;
    match work {
        Work::Trial(cell) => surroundings.run(engine, &cell.run(run)),
        Work::KernelProbe(probe) => match probe(probe_seed(run), surroundings.stop()) {
            Ok(figures) => Ok(of_probe(figures)),
            Err(error) if error.is_missing_privilege() => Err(error.to_string()),
            Err(error) => Ok(Outcome::ended_early(error.to_string())),
        },
        Work::VirtualProbe(_) => Err("its probe runs in virtual time only".into()),
    }
}
