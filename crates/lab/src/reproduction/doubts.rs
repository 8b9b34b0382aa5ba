//! Caveats of many runs, each kind once.

use core::mem::discriminant;

use super::Doubt;
use crate::engine::EngineName;
use crate::outcome::{Caveat, Outcome};

/// Whether two caveats tell the same of the same thing, if not to the same degree.
#[must_use]
pub fn is_same_doubt(a: &Caveat, b: &Caveat) -> bool {
    let same_object = match (a, b) {
        (Caveat::SettingNotApplied { knob: a, .. }, Caveat::SettingNotApplied { knob: b, .. }) => {
            a == b
        }
        (Caveat::DeviceDropped { host: a, .. }, Caveat::DeviceDropped { host: b, .. }) => a == b,
        _ => true,
    };
    discriminant(a) == discriminant(b) && same_object
}

/// The larger, the worse, of caveats of one kind: first whether it forbids to use the run.
#[must_use]
pub const fn severity(caveat: &Caveat) -> (bool, u64) {
    let degree = match caveat {
        Caveat::EmulatorLate {
            p99_us, invalid, ..
        } => return (*invalid, *p99_us),
        Caveat::DeviceDropped { packets, .. } | Caveat::StackDropped { packets } => *packets,
        Caveat::HostBusy { percent } | Caveat::StackBusy { percent } => *percent,
        Caveat::SettingNotApplied { .. }
        | Caveat::NoRealtimePriority
        | Caveat::EndedEarly { .. } => 0,
    };
    (false, degree)
}

/// The worst of each kind, with the number of runs that have it.
pub(super) fn doubts(engine: EngineName, outcomes: &[&Outcome]) -> Vec<Doubt> {
    let mut kinds: Vec<Doubt> = Vec::new();
    for caveat in outcomes.iter().flat_map(|outcome| &outcome.caveats) {
        let same = kinds
            .iter_mut()
            .find(|known| is_same_doubt(&known.caveat, caveat));
        match same {
            Some(known) => {
                known.runs += 1;
                if severity(caveat) > severity(&known.caveat) {
                    known.caveat = caveat.clone();
                }
            }
            None => kinds.push(Doubt {
                engine,
                caveat: caveat.clone(),
                text: String::new(),
                runs: 1,
                of: outcomes.len(),
            }),
        }
    }
    for doubt in &mut kinds {
        doubt.text = doubt.caveat.to_string();
    }
    kinds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_told_once_with_its_worst() {
        let busy = |percent| Outcome {
            caveats: vec![
                Caveat::HostBusy { percent },
                Caveat::SettingNotApplied {
                    knob: "mss".into(),
                    why: "x".into(),
                },
            ],
            ..Outcome::default()
        };
        let quiet = Outcome::default();
        let told = doubts(
            EngineName::Kernel,
            &[&busy(20), &quiet, &busy(60), &busy(5)],
        );
        let told: Vec<(&str, usize, usize)> = told
            .iter()
            .map(|doubt| (doubt.text.as_str(), doubt.runs, doubt.of))
            .collect();
        assert_eq!(
            told,
            [
                ("other work took 60 % of the processors' time", 3, 4),
                ("mss was not set: x", 3, 4)
            ]
        );
    }
}
