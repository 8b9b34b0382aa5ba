//! The experiments that a folder of `lab reproduce` has, in place of new runs.

use std::collections::BTreeMap;
use std::path::Path;

use lab::{Cell, EngineName, Outcome, Scenario};
use papers::reproduction::Line;

use super::{Engine, Ran};
use crate::commands::lab::reproduce;
use crate::exit::Problem;

/// The cells of all experiments of which the kernel and our stack ought to make the same.
pub(super) fn cells() -> Vec<Cell> {
    let chosen = papers::reproduction::chosen(["all"]).expect("`all` is a name");
    let scenarios = chosen.iter().map(|chosen| &chosen.scenario);
    scenarios
        .filter(|scenario| scenario.probe.is_none())
        .flat_map(comparable)
        .collect()
}

/// Cells comparable with the kernel: a document about another stack than Linux names an engine that
/// has it.
fn comparable(scenario: &Scenario) -> Vec<Cell> {
    let names_stack =
        |cell: &Cell| cell.trial.client.profile.is_some() || cell.trial.server.profile.is_some();
    let engines = EngineName::ALL.into_iter();
    let on_all = engines.flat_map(|engine| scenario.on(engine).trials());
    let others: Vec<String> = on_all.filter(names_stack).map(|cell| cell.id).collect();
    let mut cells = scenario.on(EngineName::Kernel).trials();
    cells.retain(|cell| !others.contains(&cell.id));
    cells
}

/// Runs of these cells in the folder, on the kernel and on those of these engines that ran them.
pub(super) fn runs(folder: &Path, cells: &[Cell], engines: &[Engine]) -> anyhow::Result<Vec<Ran>> {
    let mut runs: BTreeMap<(String, EngineName), Vec<Outcome>> = BTreeMap::new();
    for line in reproduce::recorded(folder)? {
        let key = (cell_id(&line), line.engine);
        runs.entry(key).or_default().push(line.outcome);
    }
    let mut taken = |cell: &Cell, engine: Engine| {
        let key = (cell.id.clone(), engine.into());
        runs.remove(&key).unwrap_or_default()
    };
    let ran: Vec<Ran> = cells
        .iter()
        .map(|cell| {
            let others = engines.iter().map(|engine| (*engine, taken(cell, *engine)));
            let others: Vec<_> = others.filter(|(_, runs)| !runs.is_empty()).collect();
            Ran {
                kernel: taken(cell, Engine::Kernel),
                others,
            }
        })
        .collect();
    if !ran.iter().any(Ran::is_comparable) {
        let message = format!(
            "{} has no run of the kernel beside one of these engines",
            folder.display()
        );
        let problem = Problem::usage(message);
        return Err(problem
            .hint("a folder that `lab reproduce -o DIR` wrote as root has both; --engines chooses")
            .into());
    }
    Ok(ran)
}

/// [`Cell::id`] of a run.
fn cell_id(line: &Line) -> String {
    let axes = line.axes.iter().map(|(key, value)| (key, value));
    let name = lab::cell_name(line.variant.as_deref(), axes, "/");
    match name.is_empty() {
        true => line.scenario.clone(),
        false => format!("{}/{name}", line.scenario),
    }
}
