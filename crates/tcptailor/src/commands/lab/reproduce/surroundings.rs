//! Environment of a reproduction: the engines of this machine, the folder, and the progress bar.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use lab::{EngineName, Outcome, Trial};
use papers::reproduction::{self, Line};

use super::folder::Folder;
use crate::commands::lab::run::{Engine, Runner};
use crate::interrupt;
use crate::output::Output;
use crate::progress::Progress;

/// Steps of the progress bar.
const STEPS: u64 = 1000;

/// Engines that are ready, or why one is not, and where runs are written down.
pub(super) struct Surroundings<'o> {
    output: &'o Output,
    /// From the first run on.
    bar: Option<Progress>,
    engines: BTreeMap<EngineName, Result<Runner, String>>,
    folder: Option<&'o mut Folder>,
}

impl<'o> Surroundings<'o> {
    pub(super) fn new(output: &'o Output, folder: Option<&'o mut Folder>) -> Self {
        Self {
            output,
            bar: None,
            engines: BTreeMap::new(),
            folder,
        }
    }

    fn runner(&mut self, engine: EngineName) -> Result<&Runner, String> {
        let runner = self.engines.entry(engine).or_insert_with(|| {
            Runner::new(Engine::from(engine), None, None).map_err(|error| error.to_string())
        });
        runner.as_ref().map_err(Clone::clone)
    }
}

impl reproduction::Surroundings for Surroundings<'_> {
    type Error = anyhow::Error;

    fn stop(&self) -> &'static AtomicBool {
        interrupt::stop_flag()
    }

    fn on_run(&mut self, label: String, share: f64) {
        let start = || Progress::bar(self.output, "reproduce", STEPS);
        let bar = self.bar.get_or_insert_with(start);
        bar.label(label);
        bar.set((share * STEPS as f64) as u64);
    }

    fn prepare(&mut self, engine: EngineName) -> Result<(), String> {
        self.runner(engine).map(|_| ())
    }

    fn run(&mut self, engine: EngineName, trial: &Trial) -> Result<Outcome, String> {
        let runner = self.runner(engine)?;
        let made = runner.run(trial, &mut |_| ());
        made.map_err(|error| error.to_string())
    }

    fn keep(&mut self, line: &Line) -> anyhow::Result<()> {
        match &mut self.folder {
            Some(folder) => folder.add(line),
            None => Ok(()),
        }
    }
}
