//! The experiments of the published documents in virtual time: each keeps what its file claims, in
//! its short form, and none is missing.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;

use lab::judge::Verdict;
use lab::{CostsOf, EngineName, Outcome, Scenario, Virtual};
use papers::evaluation::{CellName, Material, RunOf, evaluate};
use papers::experiments::{SeedDocument, experiment_scenarios};
use papers::probe::find_probe;

/// Seconds each even in release builds: some hundred MiB, or 10 Gbit/s.
const LONG: &[&str] = &["f6", "p3", "p4", "p5", "p6", "p11"];

/// Their short form has too few seeds to tell from chance what is claimed of ratios.
const BY_CHANCE: &[&str] = &["n5", "p7"];

fn runs_of(scenario: &Scenario) -> (Vec<CellName>, Vec<RunOf>) {
    let run_of = |cell, run, outcome| RunOf {
        engine: EngineName::Virtual,
        cell,
        run,
        outcome,
    };
    if let Some(run) = scenario.probe.and_then(|spec| find_probe(spec.name)?.run) {
        let figures = run(1).into_iter();
        let outcome = Outcome {
            figures: figures.map(|(name, value)| (name.into(), value)).collect(),
            ..Outcome::default()
        };
        let name = CellName {
            variant: None,
            axes: Vec::new(),
        };
        return (vec![name], vec![run_of(0, 0, outcome)]);
    }
    let (mut names, mut runs) = (Vec::new(), Vec::new());
    let stop = AtomicBool::new(false);
    for (index, cell) in scenario.trials().into_iter().enumerate() {
        for run in 0..scenario.runs {
            let outcome = Virtual::default().run(&cell.run(run), &stop, &mut |_| ());
            assert!(outcome.is_usable(), "{}: {:?}", cell.id, outcome.caveats);
            runs.push(run_of(index, run, outcome));
        }
        names.push(CellName {
            variant: cell.variant,
            axes: cell.axes,
        });
    }
    (names, runs)
}

fn check(document: SeedDocument, expected: &[&str]) {
    let mut ids = BTreeSet::new();
    for scenario in experiment_scenarios() {
        let Some(experiment) = &scenario.experiment else {
            panic!("{} is not an experiment", scenario.name);
        };
        if SeedDocument::of(experiment) != Some(document) {
            continue;
        }
        ids.extend(experiment.ids.clone());
        let is_long = cfg!(debug_assertions) && LONG.contains(&scenario.name.as_str());
        if is_long || !experiment.engines.contains(&EngineName::Virtual) {
            continue;
        }
        let scenario = scenario.on(EngineName::Virtual).quick();
        let (cells, runs) = runs_of(&scenario);
        let claims = scenario.expectations.iter();
        let claims = claims.filter(|claim| claim.applies_with(CostsOf::Usual));
        let claims: Vec<_> = claims.cloned().collect();
        let result = evaluate(&Material {
            scenario: &scenario.name,
            about: &scenario.about,
            document,
            experiment,
            claims: &claims,
            cells: &cells,
            runs: &runs,
            not_run: &[],
            runs_min: &[],
            runs_of_file: &[],
        });
        let held: &[Verdict] = match BY_CHANCE.contains(&scenario.name.as_str()) {
            true => &[Verdict::NotDistinguishable],
            false => &[
                Verdict::Holds,
                Verdict::Calibrated,
                Verdict::DeviatesAsExpected,
            ],
        };
        assert!(
            held.contains(&result.verdict),
            "{}: {}: {}",
            scenario.name,
            result.verdict.words(),
            result.why
        );
    }
    for id in expected {
        assert!(ids.contains(*id), "{id} has no scenario");
    }
}

/// A mistake of a document is told beside the numbers that it is about.
#[test]
fn every_correction_belongs_to_an_experiment() {
    let mut told = BTreeSet::new();
    for scenario in experiment_scenarios() {
        told.extend(scenario.experiment.into_iter().flat_map(|e| e.corrections));
    }
    for correction in papers::CORRECTIONS {
        assert!(
            told.contains(correction.id),
            "{} is not told",
            correction.id
        );
    }
}

#[test]
fn netburner() {
    let ids = [
        "N1", "N2", "N3", "N3x", "N4", "N4k", "N5", "N6", "N7a", "N7b", "N8", "N9", "N10",
    ];
    check(SeedDocument::Netburner, &ids);
}

#[test]
fn datacenter() {
    let ids = [
        "P1", "P2", "P3", "P3b", "P4", "P5", "P6", "P7", "P8", "P9", "P10", "P11", "FIG1", "FIG2",
        "FIG3", "FIG4",
    ];
    check(SeedDocument::Datacenter, &ids);
}

#[test]
fn winsock() {
    let ids = [
        "W1", "W1a", "W1b", "W1c", "W2", "W2a", "W2b", "W2c", "W3", "W3a", "W3b", "W3c", "W3d",
        "W4", "W5", "W6", "W7", "W8", "W9",
    ];
    check(SeedDocument::Winsock, &ids);
}

#[test]
fn freebsd() {
    let ids = [
        "F1", "F2", "F3", "F4", "F5", "F6", "F7", "F7s", "F8", "F9", "F10", "F11",
    ];
    check(SeedDocument::Freebsd, &ids);
}

#[test]
fn cork() {
    let ids = [
        "R1", "R2", "R3", "R4", "R5", "R6", "R7a", "R7b", "R7c", "R8", "R9", "R10", "R11", "R12",
        "R13", "R14",
    ];
    check(SeedDocument::Cork, &ids);
}
