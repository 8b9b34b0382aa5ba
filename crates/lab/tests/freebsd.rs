//! The experiments of FreeBSD's automatic buffers keep every claim in virtual time.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use lab::{EngineName, Expectation, Outcome, Scenario, SeedDocument, Virtual};

/// Outcomes by variant; a probe has one, without a variant.
fn outcomes(scenario: &Scenario) -> BTreeMap<Option<String>, Outcome> {
    let stop = AtomicBool::new(false);
    let run = |cell: lab::Cell| {
        let outcome = Virtual::default().run(&cell.trial, &stop, &mut |_| ());
        assert!(outcome.is_usable(), "{}: {:?}", cell.id, outcome.caveats);
        assert_eq!(outcome.caveats, [], "{}", cell.id);
        (cell.variant, outcome)
    };
    scenario.trials().into_iter().map(run).collect()
}

fn check(name: &str, claim: &Expectation, found: &BTreeMap<Option<String>, Outcome>) {
    let of = |variant: &Option<String>| claim.metric.of(&found[variant]);
    if claim.over.is_some() {
        let ratio = of(&claim.variant).zip(of(&claim.over));
        let held = claim.check_value(ratio.map(|(one, other)| one / other));
        return assert_eq!(held, Ok(()), "{name} {:?}", claim.variant);
    }
    for (variant, outcome) in found {
        assert_eq!(
            claim.check(variant.as_deref(), outcome),
            Ok(()),
            "{name} {variant:?}"
        );
    }
}

#[test]
fn every_claim_holds() {
    let mut ids = Vec::new();
    for scenario in lab::experiment_scenarios() {
        let experiment = scenario.experiment.as_ref().expect("it is one");
        if experiment.document != SeedDocument::Freebsd {
            continue;
        }
        ids.extend(experiment.ids.clone());
        let here = scenario.quick().on(EngineName::Virtual);
        let claims = here.expectations.iter();
        let claims = claims.filter(|claim| claim.applies_on(EngineName::Virtual));
        if let Some(probe) = here.probe {
            let figures = probe.run.expect("it runs in virtual time")(1);
            for claim in claims {
                let lab::Metric::Figure(figure) = claim.metric else {
                    panic!("{}: a probe has figures alone", scenario.name);
                };
                let held = claim.check_value(figures.get(figure).copied());
                assert_eq!(held, Ok(()), "{}", scenario.name);
            }
        } else {
            let found = outcomes(&here);
            claims.for_each(|claim| check(&scenario.name, claim, &found));
        }
    }
    ids.sort();
    let all = [
        "F1", "F10", "F11", "F2", "F3", "F4", "F5", "F6", "F7", "F7s", "F8", "F9",
    ];
    assert_eq!(ids, all, "every experiment of the document is there");
}
