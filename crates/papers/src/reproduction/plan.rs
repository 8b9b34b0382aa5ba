//! Runs planned for an experiment on each engine.

use std::time::Duration;

use lab::app::HostCosts;
use lab::{Cell, CostsOf, EngineName, Expectation, Experiment, Scenario};

use crate::evaluation::{CellName, ExperimentResult, Material, NotRun, RunOf, evaluate};
use crate::experiments::SeedDocument;
use crate::probe::{Figures, KernelRun, find_probe};

/// How often a number that spreads is run, compared with what its file asks for.
const RUNS_FACTOR: usize = 2;

/// Settings for all experiments.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The engines that may be used, in the order of tables.
    pub engines: Vec<EngineName>,
    /// Short: as the files say for a short look, and one run where they say nothing.
    pub quick: bool,
    /// How often each cell is run, in place of what the files say.
    pub runs: Option<u32>,
    /// Processing times of virtual hosts; `None` for the defaults.
    pub costs: Option<HostCosts>,
}

impl Wanted {
    pub(super) fn costs(&self) -> HostCosts {
        self.costs.unwrap_or(HostCosts::linux())
    }
}

/// An experiment and what is to be run for it.
#[derive(Debug)]
pub(super) struct Planned {
    pub(super) name: String,
    about: String,
    document: SeedDocument,
    experiment: Experiment,
    claims: Vec<Expectation>,
    pub(super) cells: Vec<CellName>,
    pub(super) on: Vec<OnEngine>,
    /// Engines that the file names and that are not to run it.
    not_run: Vec<NotRun>,
    /// Fewest runs of each cell.
    runs_min: Vec<(EngineName, usize)>,
    /// Runs of each cell as the file says, in full.
    runs_of_file: Vec<(EngineName, usize)>,
}

/// Outcomes of an experiment so far.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) runs: Vec<RunOf>,
    /// How long those took that a folder had: engine, cell and time.
    pub(super) found: Vec<(EngineName, usize, Duration)>,
    /// Engines that the file names and that did not run it.
    pub(super) not_run: Vec<NotRun>,
}

/// Work of one engine for it.
#[derive(Debug)]
pub(super) struct OnEngine {
    pub(super) engine: EngineName,
    /// Fewest and most runs of each cell.
    pub(super) runs: (usize, usize),
    /// Place of the cell, and how it is run.
    pub(super) work: Vec<(usize, Work)>,
}

/// How a cell is run.
#[derive(Debug)]
pub(super) enum Work {
    Trial(Box<Cell>),
    VirtualProbe(fn(u64) -> Figures),
    KernelProbe(KernelRun),
}

impl Planned {
    /// `scenario` is one of the experiments.
    pub(super) fn new(scenario: &Scenario, wanted: &Wanted) -> Option<Self> {
        let experiment = scenario.experiment.clone()?;
        let document = SeedDocument::of(&experiment)?;
        let costs = CostsOf::of(&wanted.costs());
        let claims = scenario.expectations.iter();
        let claims = claims.filter(|claim| claim.applies_with(costs));
        let mut planned = Self {
            name: scenario.name.clone(),
            about: scenario.about.clone(),
            document,
            experiment,
            claims: claims.cloned().collect(),
            cells: names(&view(scenario, None, wanted.quick)),
            on: Vec::new(),
            not_run: Vec::new(),
            runs_min: Vec::new(),
            runs_of_file: Vec::new(),
        };
        for engine in EngineName::ALL {
            planned.add(scenario, engine, wanted);
        }
        planned.drop_idle_cells();
        Some(planned)
    }

    /// Adds what an engine is to run.
    fn add(&mut self, scenario: &Scenario, engine: EngineName, wanted: &Wanted) {
        if !self.experiment.engines.contains(&engine) {
            return;
        }
        let in_full = view(scenario, Some(engine), false);
        let scenario = view(scenario, Some(engine), wanted.quick);
        let engines = scenario.experiment.as_ref().map(|e| &e.engines);
        if !wanted.engines.contains(&engine) {
            return self.leave_out(engine, "not asked for", true);
        }
        if engines.is_none_or(|engines| !engines.contains(&engine)) {
            return self.leave_out(engine, "left out with --quick", true);
        }
        let work = match scenario.probe {
            Some(spec) => {
                let probe = find_probe(spec.name);
                let work = probe.and_then(|probe| match engine {
                    EngineName::Virtual => probe.run.map(Work::VirtualProbe),
                    EngineName::Kernel => probe.run_on_kernel.map(Work::KernelProbe),
                    EngineName::Tun | EngineName::TunReceiver => None,
                });
                work.map(|work| vec![(0, work)])
            }
            None => Some(
                scenario
                    .trials()
                    .into_iter()
                    .map(|cell| (self.place_of(&cell), Work::Trial(Box::new(cell))))
                    .collect(),
            ),
        };
        let Some(work) = work else {
            return self.leave_out(engine, "its probe has no form here", false);
        };
        // One run, unless the file says how many a short look takes.
        let is_short = wanted.quick && scenario.runs == in_full.runs;
        let of_file = if is_short { 1 } else { scenario.runs };
        let min = wanted.runs.unwrap_or(of_file) as usize;
        let is_fixed = wanted.quick || wanted.runs.is_some() || min == 1;
        let max = if is_fixed { min } else { min * RUNS_FACTOR };
        self.runs_min.push((engine, min));
        self.runs_of_file.push((engine, in_full.runs as usize));
        self.on.push(OnEngine {
            engine,
            runs: (min, max),
            work,
        });
    }

    fn leave_out(&mut self, engine: EngineName, why: &str, by_choice: bool) {
        self.not_run.push(NotRun {
            engine,
            why: why.into(),
            by_choice,
        });
    }

    /// Index of a cell among those of all engines; a new cell is added.
    fn place_of(&mut self, cell: &Cell) -> usize {
        let name = name_of(cell);
        let known = self.cells.iter().position(|known| *known == name);
        known.unwrap_or_else(|| {
            self.cells.push(name);
            self.cells.len() - 1
        })
    }

    /// A sweep that all engines override leaves points that none runs.
    fn drop_idle_cells(&mut self) {
        if self.on.is_empty() {
            return;
        }
        let work = |on: &OnEngine| on.work.iter().map(|(cell, _)| *cell).collect::<Vec<_>>();
        let busy: Vec<usize> = self.on.iter().flat_map(work).collect();
        let kept: Vec<usize> = (0..self.cells.len())
            .filter(|cell| busy.contains(cell))
            .collect();
        let cells = std::mem::take(&mut self.cells);
        self.cells = kept.iter().map(|cell| cells[*cell].clone()).collect();
        for (cell, _) in self.on.iter_mut().flat_map(|on| &mut on.work) {
            *cell = kept.iter().position(|place| place == cell).unwrap_or(0);
        }
    }

    /// Place of a cell in the work of an engine: the engine's index, and the index in its work.
    pub(super) fn work_of(&self, engine: EngineName, cell: usize) -> Option<(usize, usize)> {
        let on = self.on.iter().position(|on| on.engine == engine)?;
        let work = self.on[on].work.iter().position(|(of, _)| *of == cell)?;
        Some((on, work))
    }

    /// An empty record.
    pub(super) fn record(&self) -> Record {
        Record {
            runs: Vec::new(),
            found: Vec::new(),
            not_run: self.not_run.clone(),
        }
    }

    /// For evaluation.
    pub(super) fn material<'m>(&'m self, record: &'m Record) -> Material<'m> {
        Material {
            scenario: &self.name,
            about: &self.about,
            document: self.document,
            experiment: &self.experiment,
            claims: &self.claims,
            cells: &self.cells,
            runs: &record.runs,
            not_run: &record.not_run,
            runs_min: &self.runs_min,
            runs_of_file: &self.runs_of_file,
        }
    }

    /// The judged result.
    pub(super) fn result(&self, record: &Record) -> ExperimentResult {
        evaluate(&self.material(record))
    }

    /// Name of the cell in progress messages and files.
    pub(super) fn cell_id(&self, cell: usize) -> String {
        let CellName { variant, axes } = &self.cells[cell];
        let axes = axes.iter().map(|(key, value)| (key, value));
        match lab::cell_name(variant.as_deref(), axes, "/") {
            name if name.is_empty() => self.name.clone(),
            name => format!("{}/{name}", self.name),
        }
    }
}

fn view(scenario: &Scenario, engine: Option<EngineName>, quick: bool) -> Scenario {
    let on = engine.map_or_else(|| scenario.clone(), |engine| scenario.on(engine));
    if quick { on.quick() } else { on }
}

/// A probe has one cell without a name.
fn names(scenario: &Scenario) -> Vec<CellName> {
    if scenario.probe.is_some() {
        return vec![CellName {
            variant: None,
            axes: Vec::new(),
        }];
    }
    scenario.trials().iter().map(name_of).collect()
}

fn name_of(cell: &Cell) -> CellName {
    CellName {
        variant: cell.variant.clone(),
        axes: cell.axes.clone(),
    }
}
