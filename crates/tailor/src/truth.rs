//! Accuracy of predictions: the trials on which that is counted, and the count.

mod draw;
mod score;

use std::time::Duration;

use base::KnobValue;
use lab::{End, FAULTS, Trial};

pub use self::score::{Score, Scored, Unpredicted, WORST, refusals, score};

/// Time from the start to the first look, where the fault names none.
const WARM_UP: Duration = Duration::from_millis(1800);
/// How long a look lasts.
const LOOK: Duration = Duration::from_millis(2000);
/// Intermittent faults get a longer look, up to this.
const LOOK_MAX: Duration = Duration::from_secs(5);
/// Length of a look on lossy paths: one timeout more or less of the few in a short look changes the
/// result by a third.
const LOOK_LOSSY: Duration = Duration::from_secs(10);
/// Time from a change to the look at its effect.
const SETTLE: Duration = Duration::from_millis(1200);

/// One trial whose change is predicted and then made.
#[derive(Clone, Debug)]
pub struct TruthCase {
    /// Description.
    pub label: String,
    /// The trial before the change.
    pub trial: Trial,
    /// From the start, and from new connections, to a look.
    pub warm_up: Duration,
    /// How long a look lasts.
    pub look: Duration,
    /// From a change on an open connection to the look.
    pub settle: Duration,
    /// Made where the doctor has nothing to propose.
    pub change: KnobChange,
    /// Why our own stack does not have it; `None` where it has.
    pub kernel_only: Option<&'static str>,
}

/// A setting of one end.
#[derive(Clone, Debug, PartialEq)]
pub struct KnobChange {
    /// Which end.
    pub end: End,
    /// Which knob.
    pub knob: &'static str,
    /// The value.
    pub to: KnobValue,
}

/// The faults, the everyday scenarios and so many trials that are drawn by `seed`.
#[must_use]
pub fn truth_cases(seed: u64, trials: u32) -> Vec<TruthCase> {
    let faults = FAULTS.iter().map(|fault| {
        let trial = fault.trial().with_seed(seed);
        TruthCase {
            label: format!("fault/{}", fault.id),
            change: draw::change(&trial, &mut draw::rng(seed, fault.id)),
            warm_up: fault.warm_up,
            look: look_at(&trial, fault.observe.min(LOOK_MAX)),
            trial,
            settle: fault.settle,
            kernel_only: fault.kernel_only,
        }
    });
    let everyday = lab::everyday_cells(None).into_iter().map(|cell| {
        let mut trial = cell.trial.with_seed(seed);
        trial.workload.set_endless();
        TruthCase {
            label: format!("everyday/{}", cell.id),
            change: draw::change(&trial, &mut draw::rng(seed, &cell.id)),
            ..draw::timed(trial, String::new())
        }
    });
    let drawn = (0..trials).map(|number| draw::case(seed, number));
    faults.chain(everyday).chain(drawn).collect()
}

/// How long `trial` is looked at: this long, or longer where packets are lost by chance.
fn look_at(trial: &Trial, look: Duration) -> Duration {
    match trial.path.loses_by_chance() {
        true => look.max(LOOK_LOSSY),
        false => look,
    }
}

/// The drawn trials alone.
#[must_use]
pub fn drawn_cases(seed: u64, trials: u32) -> Vec<TruthCase> {
    (0..trials).map(|number| draw::case(seed, number)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_draws_the_same_trials_and_another_one_others() {
        let shown = |seed| format!("{:?}", drawn_cases(seed, 20));
        assert_eq!(shown(1), shown(1));
        assert_ne!(shown(1), shown(2));
    }

    #[test]
    fn our_stack_has_what_is_drawn() {
        for case in drawn_cases(3, 60) {
            let started = lab::Virtual::default().start(&case.trial);
            assert!(started.is_ok(), "{}: {:?}", case.label, started.err());
        }
    }

    #[test]
    fn all_kinds_of_traffic_and_of_changes_are_drawn() {
        let cases = drawn_cases(4, 200);
        for kind in [
            "bulk",
            "request",
            "write-write-read",
            "bursts",
            "records",
            "paced",
        ] {
            assert!(cases.iter().any(|case| case.label.contains(kind)), "{kind}");
        }
        let mut knobs: Vec<&str> = cases.iter().map(|case| case.change.knob).collect();
        knobs.sort_unstable();
        knobs.dedup();
        assert!(knobs.len() >= 4, "{knobs:?}");
    }
}
