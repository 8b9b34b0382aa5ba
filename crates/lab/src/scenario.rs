//! Scenario files: what to try, as text that people write.
//!
//! A scenario is a flat list of settings (`path.rtt`, `client.nodelay`, `workload.kind`, …),
//! written as TOML tables. A *variant* overrides some of them and gets a name; a *sweep* overrides
//! one of them with each of several values. So `--set path.rtt=80ms`, variants and sweeps all mean
//! the same keys, and a knob is a key without further work. All mistakes of a file are reported at
//! once.
//!
//! ```
//! let text = r#"
//! name = "example"
//! about = "A download over 20 Mbit/s."
//! [path]
//! kind = "emulated"
//! rate = "20mbit"
//! rtt = "40ms"
//! [workload]
//! kind = "bulk"
//! direction = "down"
//! duration = "5s"
//! [sweep]
//! "client.net.ipv4.tcp_rmem" = ["4096 65536 65536", "4096 131072 6291456"]
//! "#;
//! let scenario = lab::Scenario::parse("example.toml", text).expect("a valid file");
//! let cells = scenario.trials();
//! assert_eq!(cells.len(), 2);
//! assert_eq!(cells[0].id, "example/client.net.ipv4.tcp_rmem=4096 65536 65536");
//! ```

mod document;
mod expect;
mod experiment;
mod facts;
mod metric;
mod path;
mod read;
mod vary;
mod vocabulary;
mod workload;

use core::time::Duration;
use std::collections::BTreeSet;

use base::{Diagnostic, find_knob, parse_duration};
use stack::profile::{BUILDS, PROFILES};

use crate::engine::EngineName;
use crate::show::cell_name;
use crate::trial::{HostSpec, Trial};
pub use expect::{CostsOf, Expectation};
pub use experiment::{Class, Experiment, Published};
pub use metric::{Metric, Unit};
use read::{Entry, Keys, LineColumn, Problem, ProblemKind, Reader};
pub use vary::SWEEP_CELLS_MAX;
pub use vocabulary::{ProbeSpec, Vocabulary};

/// Most trials that one scenario makes: a sweep of more is a mistake or belongs into several files.
pub const CELLS_MAX: usize = 10_000;
/// More runs belong into several files.
const RUNS_MAX: u64 = 1_000;
/// Largest file that is read.
const FILE_BYTES_MAX: usize = 256 << 10;
/// Most text that all trials of a scenario are made from: bounds time and memory of a hostile file.
const CELLS_BYTES_MAX: usize = 64 << 20;
/// Most mistakes that are reported.
const DIAGNOSTICS_MAX: usize = 100;

/// A scenario file that was read and is known to make sense.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// One sentence.
    pub about: String,
    /// How often each trial is to be run, each time with another seed; see [`Cell::run`].
    pub runs: u32,
    /// Expectations on the results.
    pub expectations: Vec<Expectation>,
    /// Present if the scenario is an experiment of the seed documents.
    pub experiment: Option<Experiment>,
    /// Probe that replaces trials.
    pub probe: Option<ProbeSpec>,
    file: String,
    keys: Keys,
    variants: Vec<Variant>,
    axes: Vec<Axis>,
    overrides: Vec<Overrides>,
    /// Engine; see [`Scenario::on`].
    engine: Option<EngineName>,
    is_quick: bool,
    /// From [`Scenario::set`]; they win.
    set: Keys,
}

/// One trial of a scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// Scenario, variant and values of the sweep: `lan-wwr/nodelay/path.rtt=10ms`. Unique in the
    /// scenario, the same in each run of the program.
    pub id: String,
    /// The variant; `None` where the scenario has none.
    pub variant: Option<String>,
    /// Keys and values of the sweep, in the order of the file.
    pub axes: Vec<(String, String)>,
    /// The trial of the first run.
    pub trial: Trial,
}

impl Cell {
    /// The trial of run `run`, from 0: the same one with another seed.
    #[must_use]
    pub fn run(&self, run: u32) -> Trial {
        let seed = self.trial.seed.wrapping_add(run.into());
        self.trial.clone().with_seed(seed)
    }
}

/// Named overrides.
#[derive(Clone, Debug)]
struct Variant {
    name: String,
    keys: Keys,
    overrides: Vec<Overrides>,
    /// Supported engines; empty for all.
    engines: Vec<EngineName>,
}

/// When overrides apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OverrideCondition {
    /// On this engine.
    On(EngineName),
    /// A quick run.
    Quick,
}

/// Settings that apply to one engine or to quick runs only.
#[derive(Clone, Debug)]
struct Overrides {
    when: OverrideCondition,
    keys: Keys,
    axes: Vec<Axis>,
    runs: Option<u32>,
    engines: Vec<EngineName>,
}

/// One dimension of a sweep.
#[derive(Clone, Debug)]
struct Axis {
    key: String,
    values: Vec<Entry>,
}

impl Axis {
    /// Length of the longest value with its key.
    fn bytes(&self) -> usize {
        self.key.len()
            + self
                .values
                .iter()
                .map(|value| value.text.len())
                .max()
                .unwrap_or(0)
    }
}

impl Scenario {
    /// Reads a scenario; `file` is its name in messages.
    ///
    /// # Errors
    /// All mistakes, in the order of the file; at least one.
    pub fn parse(file: &str, text: &str) -> Result<Self, Vec<Diagnostic>> {
        Self::parse_with(file, text, &Vocabulary::default())
    }

    /// Reads a file that may name what `vocabulary` has, such as a probe.
    ///
    /// # Errors
    /// As [`Scenario::parse`].
    pub fn parse_with(
        file: &str,
        text: &str,
        vocabulary: &Vocabulary,
    ) -> Result<Self, Vec<Diagnostic>> {
        if text.len() > FILE_BYTES_MAX {
            let message = format!("the file has more than {FILE_BYTES_MAX} bytes");
            return Err(diagnostics(
                file,
                vec![Problem::new(LineColumn::START, message)],
            ));
        }
        let (scenario, mut problems) = document::read(file, text, vocabulary);
        problems.extend(scenario.check());
        let syntax = |problem: &&Problem| problem.kind == ProblemKind::Syntax;
        let broken: BTreeSet<u32> = problems
            .iter()
            .filter(syntax)
            .map(|problem| problem.place.line)
            .collect();
        if !broken.is_empty() {
            // What such a line says is unknown: nothing is missing, and its remains are not wrong.
            problems.retain(
                |Problem {
                     place,
                     kind,
                     message: _,
                 }| match kind {
                    ProblemKind::Syntax => true,
                    ProblemKind::Wrong => {
                        *place != LineColumn::START && !broken.contains(&place.line)
                    }
                    ProblemKind::Missing => false,
                },
            );
        }
        if problems.is_empty() {
            Ok(scenario)
        } else {
            Err(diagnostics(file, problems))
        }
    }

    /// Every trial: variants in the order of the file, and within each all values of the sweep, the
    /// last axis changing fastest. At most [`CELLS_MAX`].
    #[must_use]
    pub fn trials(&self) -> Vec<Cell> {
        self.cells().map(|(cell, _)| cell).collect()
    }

    /// Overrides one setting in all trials, as `--set path.rtt=80ms` does; also `runs`. A sweep
    /// over that key ends.
    ///
    /// # Errors
    /// What is wrong with the key, with the value, or with what then comes out; the scenario stays
    /// as it was.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), Vec<Diagnostic>> {
        if key == "runs" {
            return self.set_runs(value);
        }
        let mut changed = self.clone();
        let mut one = Keys::default();
        one.insert(key, Entry::new(value, LineColumn::NONE, LineColumn::NONE));
        changed.set.override_with(&one);
        changed.axes.retain(|axis| axis.key != key);
        let problems = changed.check();
        if problems.is_empty() {
            *self = changed;
            return Ok(());
        }
        Err(diagnostics(&self.file, problems))
    }

    fn set_runs(&mut self, value: &str) -> Result<(), Vec<Diagnostic>> {
        let runs = read::number(value, 1, RUNS_MAX).map_err(|message| {
            vec![Diagnostic {
                file: "runs".into(),
                line: 0,
                column: 0,
                message,
            }]
        })?;
        self.runs = u32::try_from(runs).unwrap_or(1);
        Ok(())
    }

    /// The scenario as run on one engine: with that engine's settings, and without variants of
    /// other engines.
    #[must_use]
    pub fn on(&self, engine: EngineName) -> Self {
        let mut scenario = self.clone();
        scenario.engine = Some(engine);
        scenario.take_overrides(OverrideCondition::On(engine));
        scenario
    }

    /// The scenario as run by `--quick`. Call it after [`Scenario::on`].
    #[must_use]
    pub fn quick(&self) -> Self {
        let mut scenario = self.clone();
        scenario.is_quick = true;
        scenario.take_overrides(OverrideCondition::Quick);
        scenario
    }

    /// The parts of the overrides that are no settings.
    fn take_overrides(&mut self, occasion: OverrideCondition) {
        let overrides = self.overrides.clone();
        for overrides in overrides.iter().filter(|o| o.when == occasion) {
            self.runs = overrides.runs.unwrap_or(self.runs);
            for axis in &overrides.axes {
                match self.axes.iter_mut().find(|known| known.key == axis.key) {
                    Some(known) => *known = axis.clone(),
                    None if self.set.has(&axis.key) => (),
                    None => self.axes.push(axis.clone()),
                }
            }
            if let Some(experiment) = &mut self.experiment
                && !overrides.engines.is_empty()
            {
                experiment.engines.clone_from(&overrides.engines);
            }
        }
    }

    /// Whether overrides count now.
    fn is_now(&self, when: OverrideCondition) -> bool {
        match when {
            OverrideCondition::On(engine) => self.engine == Some(engine),
            OverrideCondition::Quick => self.is_quick,
        }
    }

    /// Problems with any trial on any engine, quick or not.
    fn check(&self) -> Vec<Problem> {
        self.check_views(Self::check_now)
    }

    /// Problems that `check` finds in any view.
    fn check_views(&self, check: fn(&Self) -> Vec<Problem>) -> Vec<Problem> {
        let in_variants = self.variants.iter().flat_map(|variant| &variant.overrides);
        let occasions = self.overrides.iter().chain(in_variants).map(|o| o.when);
        let occasions: Vec<OverrideCondition> = occasions.collect();
        let mut engines = EngineName::ALL.to_vec();
        engines.retain(|engine| occasions.contains(&OverrideCondition::On(*engine)));
        let mut views = vec![self.clone()];
        views.extend(engines.into_iter().map(|engine| self.on(engine)));
        if occasions.contains(&OverrideCondition::Quick) {
            let quick: Vec<Self> = views.iter().map(Self::quick).collect();
            views.extend(quick);
        }
        let problems: BTreeSet<Problem> = views.iter().flat_map(check).collect();
        problems.into_iter().collect()
    }

    /// Problems with any trial as set now, or with their number.
    fn check_now(&self) -> Vec<Problem> {
        let variants = self.variants.len().max(1);
        let cells = self.axes.iter().try_fold(variants, |cells, axis| {
            cells
                .checked_mul(axis.values.len())
                .filter(|cells| *cells <= CELLS_MAX)
        });
        let swept: usize = self.axes.iter().map(Axis::bytes).sum();
        let bytes = swept
            + self.keys.bytes()
            + self
                .variants
                .iter()
                .map(|variant| variant.keys.bytes())
                .max()
                .unwrap_or(0);
        if cells.is_none_or(|cells| cells.saturating_mul(bytes) > CELLS_BYTES_MAX) {
            let place = self.axes.first().and_then(|axis| axis.values.first());
            let message = format!(
                "the sweep makes more than {CELLS_MAX} trials, or very long ones; split it"
            );
            return vec![Problem::new(
                place.map_or(LineColumn::START, |entry| entry.place),
                message,
            )];
        }
        self.check_cells()
    }

    /// Problems with any trial as set now.
    fn check_cells(&self) -> Vec<Problem> {
        let mut seen = BTreeSet::new();
        for (_, problems) in self.cells() {
            seen.extend(problems);
            if seen.len() > DIAGNOSTICS_MAX {
                break;
            }
        }
        seen.into_iter().collect()
    }

    /// Variants on this engine; one without a name where the scenario names none.
    fn variants_here(&self) -> Vec<Option<&Variant>> {
        let here = |variant: &&Variant| {
            let engines = &variant.engines;
            engines.is_empty() || self.engine.is_none_or(|engine| engines.contains(&engine))
        };
        if self.probe.is_some() {
            Vec::new()
        } else if self.variants.is_empty() {
            vec![None]
        } else {
            self.variants.iter().filter(here).map(Some).collect()
        }
    }

    fn cells(&self) -> impl Iterator<Item = (Cell, Vec<Problem>)> {
        let per_variant: usize = self.axes.iter().map(|axis| axis.values.len()).product();
        self.variants_here()
            .into_iter()
            .flat_map(move |variant| (0..per_variant).map(move |point| (variant, point)))
            .map(|(variant, point)| self.cell(variant, point))
    }

    /// Applies those that count now.
    fn override_now(&self, keys: &mut Keys, overrides: &[Overrides]) {
        for overrides in overrides.iter().filter(|o| self.is_now(o.when)) {
            keys.override_with(&overrides.keys);
        }
    }

    /// The cell of this variant at this point of the sweep, counted with the last axis fastest.
    fn cell(&self, variant: Option<&Variant>, mut point: usize) -> (Cell, Vec<Problem>) {
        let mut keys = self.keys.clone();
        self.override_now(&mut keys, &self.overrides);
        if let Some(variant) = variant {
            keys.override_with(&variant.keys);
            self.override_now(&mut keys, &variant.overrides);
        }
        let mut swept = Keys::default();
        let mut axes = Vec::new();
        for axis in self.axes.iter().rev() {
            let value = &axis.values[point % axis.values.len()];
            point /= axis.values.len();
            swept.insert(&axis.key, value.clone());
            axes.insert(0, (axis.key.clone(), value.text.clone()));
        }
        keys.override_with(&swept);
        keys.override_with(&self.set);
        let mut reader = Reader::new(&keys);
        let trial = read_trial(&mut reader);
        let pairs = axes.iter().map(|(key, value)| (key, value));
        let name = cell_name(variant.map(|variant| variant.name.as_str()), pairs, "/");
        let id = match name.is_empty() {
            true => self.name.clone(),
            false => format!("{}/{name}", self.name),
        };
        let variant = variant.map(|variant| variant.name.clone());
        (
            Cell {
                id,
                variant,
                axes,
                trial,
            },
            reader.finish(),
        )
    }
}

fn read_trial(reader: &mut Reader<'_>) -> Trial {
    let seed = reader.count("seed", 0, u64::MAX, Some(1));
    Trial {
        path: path::read(reader),
        client: read_host(reader, "client"),
        server: read_host(reader, "server"),
        workload: workload::read(reader),
        seed,
    }
    .with_seed(seed)
}

/// Largest cost per segment: slower than any device.
const COST_MAX: Duration = Duration::from_secs(1);
/// Keys of a host that are no knobs.
const HOST_KEYS: [&str; 2] = ["profile", "cost_per_segment"];

/// Every key of a host is a knob, but for [`HOST_KEYS`].
fn read_host(reader: &mut Reader<'_>, host: &str) -> HostSpec {
    let known = PROFILES.iter().chain(BUILDS);
    let known = known.map(|(name, _)| (*name, *name));
    let known: Vec<(&str, &'static str)> = known.collect();
    let profile = reader.choice(&format!("{host}.profile"), &known);
    let cost = reader.parsed(&format!("{host}.cost_per_segment"), |text| {
        let cost = parse_duration(text).map_err(|error| error.to_string())?;
        match cost <= COST_MAX {
            true => Ok(cost),
            false => Err(format!("`{text}` is out of range; the range is 0 to 1s")),
        }
    });
    let mut settings = HostSpec::default().settings;
    for (name, entry) in reader.take_table(host) {
        if HOST_KEYS.contains(&name.as_str()) {
            continue;
        }
        match find_knob(&name)
            .map_err(|error| (entry.key_place, error))
            .and_then(|knob| {
                let value = knob
                    .parse(&entry.text)
                    .map_err(|error| (entry.place, error))?;
                Ok((knob.name, value))
            }) {
            Ok((name, value)) => drop(settings.insert(name, value)),
            Err((place, error)) => reader.complain(place, format!("{host}: {error}")),
        }
    }
    HostSpec {
        settings,
        profile,
        cost_per_segment: cost.unwrap_or_default(),
        held: None,
    }
}

/// In the order of the file, each once, not too many.
fn diagnostics(file: &str, problems: Vec<Problem>) -> Vec<Diagnostic> {
    let problems: BTreeSet<Problem> = problems.into_iter().collect();
    let count = problems.len();
    let mut list: Vec<Diagnostic> = problems
        .into_iter()
        .take(DIAGNOSTICS_MAX)
        .map(
            |Problem {
                 place,
                 message,
                 kind: _,
             }| Diagnostic {
                file: if place == LineColumn::NONE {
                    "--set".into()
                } else {
                    file.into()
                },
                line: place.line,
                column: place.column,
                message,
            },
        )
        .collect();
    if count > DIAGNOSTICS_MAX {
        let message = "there are more mistakes; mend these first".into();
        list.push(Diagnostic {
            file: file.into(),
            line: 0,
            column: 0,
            message,
        });
    }
    list
}

#[cfg(test)]
mod tests;
