//! Caveats of many runs, each kind once.

use core::mem::discriminant;

use crate::outcome::{Caveat, Outcome};

/// One kind of caveat about some runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaveatKind {
    /// The worst of them.
    pub worst: Caveat,
    /// How many runs have one of this kind.
    pub runs: usize,
}

impl CaveatKind {
    /// Takes another one of the same kind in, about other runs; `false` where it is of another.
    pub fn absorb(&mut self, other: &Self) -> bool {
        let is_same = is_same_kind(&self.worst, &other.worst);
        if is_same {
            self.runs += other.runs;
            self.worsen(&other.worst);
        }
        is_same
    }

    fn worsen(&mut self, caveat: &Caveat) {
        if severity(caveat) > severity(&self.worst) {
            self.worst = caveat.clone();
        }
    }
}

/// The kinds of caveats of these runs, in the order in which they come up.
#[must_use]
pub fn caveat_kinds<'o>(outcomes: impl IntoIterator<Item = &'o Outcome>) -> Vec<CaveatKind> {
    let mut kinds: Vec<CaveatKind> = Vec::new();
    for outcome in outcomes {
        // A run may tell the same of both of its hosts, and is one run all the same.
        for one in of_run(outcome) {
            if !kinds.iter_mut().any(|known| known.absorb(&one)) {
                kinds.push(one);
            }
        }
    }
    kinds
}

fn of_run(outcome: &Outcome) -> Vec<CaveatKind> {
    let mut kinds: Vec<CaveatKind> = Vec::new();
    for caveat in &outcome.caveats {
        let mut known = kinds.iter_mut();
        match known.find(|known| is_same_kind(&known.worst, caveat)) {
            Some(known) => known.worsen(caveat),
            None => kinds.push(CaveatKind {
                worst: caveat.clone(),
                runs: 1,
            }),
        }
    }
    kinds
}

/// Whether two caveats tell the same of the same thing, if not to the same degree.
fn is_same_kind(a: &Caveat, b: &Caveat) -> bool {
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
const fn severity(caveat: &Caveat) -> (bool, u64) {
    let degree = match caveat {
        Caveat::EmulatorLate { p99_us, .. } => *p99_us,
        Caveat::DeviceDropped { packets, .. } | Caveat::StackDropped { packets } => *packets,
        Caveat::HostBusy { percent } | Caveat::StackBusy { percent } => *percent,
        Caveat::SettingNotApplied { .. }
        | Caveat::NoRealtimePriority
        | Caveat::EndedEarly { .. } => 0,
    };
    (caveat.forbids_use(), degree)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_told_once_with_its_worst_and_its_runs() {
        let refused = |why: &str| Caveat::SettingNotApplied {
            knob: "mss".into(),
            why: why.into(),
        };
        let busy = |percent| Outcome {
            caveats: vec![
                Caveat::HostBusy { percent },
                refused("the client"),
                refused("the server"),
            ],
            ..Outcome::default()
        };
        let quiet = Outcome::default();
        let told = caveat_kinds([&busy(20), &quiet, &busy(60), &busy(5)]);
        let told: Vec<(String, usize)> = told
            .iter()
            .map(|kind| (kind.worst.to_string(), kind.runs))
            .collect();
        assert_eq!(
            told,
            [
                ("other work took 60 % of the processors' time".into(), 3),
                ("mss was not set: the client".into(), 3)
            ]
        );
    }
}
