//! The experiments of the published documents in virtual time: each keeps what its file claims, in
//! its short form, and none is missing.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;

use lab::judge::Verdict;
use lab::{CostsOf, EngineName, Outcome, Scenario, Virtual};
use papers::evaluation::{CellName, ExperimentResult, Material, RunOf, evaluate};
use papers::experiments::{SeedDocument, experiment_scenarios};
use papers::figures::Drawing;
use papers::probe::find_probe;

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

/// Runs a scenario of an experiment in virtual time.
fn evaluated(scenario: &Scenario, document: SeedDocument) -> ExperimentResult {
    let experiment = scenario.experiment.as_ref();
    let (cells, runs) = runs_of(scenario);
    let claims = scenario.expectations.iter();
    let claims = claims.filter(|claim| claim.applies_with(CostsOf::Usual));
    let claims: Vec<_> = claims.cloned().collect();
    evaluate(&Material {
        scenario: &scenario.name,
        about: &scenario.about,
        document,
        experiment: experiment.expect("a scenario of an experiment"),
        claims: &claims,
        cells: &cells,
        runs: &runs,
        not_run: &[],
        runs_min: &[],
        runs_of_file: &[],
    })
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
        if !experiment.engines.contains(&EngineName::Virtual) {
            continue;
        }
        let result = evaluated(&scenario.on(EngineName::Virtual).quick(), document);
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

/// The figures of docs/datacenter.md are what the command gives today, to the bit. Where a change
/// of the stack changes them, `lab reproduce fig1 fig2 fig3 fig4 --engines virtual -o DIR` and `lab
/// reproduce --show DIR --markdown`, once with `--json`, write them anew.
#[test]
fn the_published_figures_come_out() {
    let published = include_str!("../../../docs/datacenter-figures.json");
    let published: serde_json::Value = serde_json::from_str(published).expect("JSON");
    let mut published: Vec<Drawing> =
        serde_json::from_value(published["figures"].clone()).expect("figures");
    // What a kernel gave is not the same twice.
    for figure in &mut published {
        figure
            .spots
            .retain(|spot| spot.engine == EngineName::Virtual);
    }
    let mut compared = 0;
    for scenario in experiment_scenarios() {
        let mut ids = scenario.experiment.iter().flat_map(|it| &it.ids);
        let drawn = |id: &String| published.iter().any(|figure| figure.id == *id);
        if !ids.any(drawn) || scenario.name == "fig3-mtu" {
            continue;
        }
        let scenario = scenario.on(EngineName::Virtual);
        for drawing in evaluated(&scenario, SeedDocument::Datacenter).drawings {
            let figure = published.iter().find(|figure| figure.id == drawing.id);
            let figure = figure.unwrap_or_else(|| panic!("{} is not published", drawing.id));
            assert_eq!(drawing, *figure, "{}", drawing.id);
            compared += 1;
        }
    }
    assert_eq!(compared, published.len());
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
        "P1", "P1b", "P2", "P3", "P3b", "P4", "P5", "P6", "P6c", "P7", "P8", "P9", "P10", "P11",
        "FIG1", "FIG2", "FIG3", "FIG4",
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
