//! The experiments of Microsoft KB 214397 in virtual time: each keeps what its file claims.

use std::sync::atomic::AtomicBool;

use lab::reproduction::{CellName, Material, RunOf, Verdict, evaluate};
use lab::{EngineName, Outcome, Scenario, SeedDocument, Virtual};

fn runs_of(scenario: &Scenario) -> (Vec<CellName>, Vec<RunOf>) {
    let (mut names, mut runs) = (Vec::new(), Vec::new());
    let mut add = |variant, axes, outcome| {
        runs.push(RunOf {
            engine: EngineName::Virtual,
            cell: names.len(),
            outcome,
        });
        names.push(CellName { variant, axes });
    };
    if let Some(run) = scenario.probe.and_then(|probe| probe.run) {
        let figures = run(1).into_iter();
        let outcome = Outcome {
            figures: figures.map(|(name, value)| (name.into(), value)).collect(),
            ..Outcome::default()
        };
        add(None, Vec::new(), outcome);
    }
    let stop = AtomicBool::new(false);
    for cell in scenario.trials() {
        let outcome = Virtual::default().run(&cell.trial, &stop, &mut |_| ());
        assert!(outcome.is_usable(), "{}: {:?}", cell.id, outcome.caveats);
        add(cell.variant, cell.axes, outcome);
    }
    (names, runs)
}

#[test]
fn the_experiments_keep_their_claims() {
    let mut ids = Vec::new();
    for scenario in lab::experiment_scenarios() {
        let Some(experiment) = &scenario.experiment else {
            continue;
        };
        if experiment.document != SeedDocument::Winsock {
            continue;
        }
        ids.extend(experiment.ids.clone());
        if !experiment.engines.contains(&EngineName::Virtual) {
            continue;
        }
        let scenario = scenario.on(EngineName::Virtual).quick();
        let (cells, runs) = runs_of(&scenario);
        let result = evaluate(&Material {
            scenario: &scenario.name,
            about: &scenario.about,
            experiment,
            claims: &scenario.expectations,
            cells: &cells,
            runs: &runs,
            not_run: &[],
        });
        assert_eq!(
            result.verdict,
            Verdict::Holds,
            "{}: {}",
            scenario.name,
            result.why
        );
    }
    ids.sort();
    assert_eq!(
        ids,
        [
            "W1", "W1a", "W1b", "W1c", "W2", "W2a", "W2b", "W2c", "W3", "W3a", "W3b", "W3c", "W3d",
            "W4", "W5", "W6", "W7", "W8", "W9"
        ]
    );
}
