//! Reasons why runs are unusable, in little memory: of a sweep of a million cells all runs may have
//! failed.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::outcome::{Caveat, Outcome};

/// This many different causes are kept, of this many characters each; a sweep has a handful.
const CAUSES_MAX: usize = 100;
const CAUSE_CHARS_MAX: usize = 200;
/// Stands for the others.
const OTHER_CAUSE: &str = "another cause, which the line of the run has";

/// Why runs of a cell are invalid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// In words.
    pub why: String,
    /// Runs of the cell to which it applies.
    pub runs: usize,
}

/// Reasons by cell and run.
#[derive(Clone, Debug, Default)]
pub(super) struct Reasons {
    kinds: BTreeMap<(u64, u32), Kind>,
    /// Each once.
    causes: Vec<String>,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    EmulatorLate {
        p99_us: u64,
        limit_us: u64,
    },
    /// By its place among the causes; what is behind the last is any other.
    Cause(usize),
}

impl Reasons {
    /// Notes why a run does not count, or that it does.
    pub(super) fn set(&mut self, place: (u64, u32), outcome: &Outcome) {
        let kind = match outcome.unusable_because() {
            None => {
                self.kinds.remove(&place);
                return;
            }
            Some(Caveat::EmulatorLate {
                p99_us, limit_us, ..
            }) => Kind::EmulatorLate {
                p99_us: *p99_us,
                limit_us: *limit_us,
            },
            Some(other) => Kind::Cause(self.cause(&other.to_string())),
        };
        self.kinds.insert(place, kind);
    }

    fn cause(&mut self, text: &str) -> usize {
        let text: String = text.chars().take(CAUSE_CHARS_MAX).collect();
        let known = self.causes.iter().position(|known| *known == text);
        known.unwrap_or_else(|| {
            if self.causes.len() < CAUSES_MAX {
                self.causes.push(text);
                return self.causes.len() - 1;
            }
            CAUSES_MAX
        })
    }

    /// Reasons of a cell, each once; of several late emulators the worst.
    pub(super) fn of_cell(&self, index: u64) -> Vec<Reason> {
        let mut found: Vec<(Kind, usize)> = Vec::new();
        for (_, kind) in self.kinds.range((index, 0)..=(index, u32::MAX)) {
            match found.iter_mut().find(|(known, _)| known.is_like(*kind)) {
                Some((known, runs)) => {
                    *known = known.worse(*kind);
                    *runs += 1;
                }
                None => found.push((*kind, 1)),
            }
        }
        let told = found.into_iter().map(|(kind, runs)| Reason {
            why: self.told(kind),
            runs,
        });
        told.collect()
    }

    fn told(&self, kind: Kind) -> String {
        match kind {
            Kind::EmulatorLate { p99_us, limit_us } => Caveat::EmulatorLate {
                p99_us,
                limit_us,
                invalid: true,
            }
            .to_string(),
            Kind::Cause(at) => {
                let cause = self.causes.get(at).map(String::as_str);
                cause.unwrap_or(OTHER_CAUSE).to_owned()
            }
        }
    }
}

impl Kind {
    fn is_like(self, other: Self) -> bool {
        match (self, other) {
            (Self::EmulatorLate { .. }, Self::EmulatorLate { .. }) => true,
            (Self::Cause(one), Self::Cause(other)) => one == other,
            _ => false,
        }
    }

    fn worse(self, other: Self) -> Self {
        match (self, other) {
            (Self::EmulatorLate { p99_us: one, .. }, Self::EmulatorLate { p99_us, .. })
                if p99_us > one =>
            {
                other
            }
            _ => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn late(p99_us: u64, invalid: bool) -> Caveat {
        Caveat::EmulatorLate {
            p99_us,
            limit_us: 100,
            invalid,
        }
    }

    fn early(why: &str) -> Caveat {
        Caveat::EndedEarly { why: why.into() }
    }

    fn outcome(caveats: Vec<Caveat>) -> Outcome {
        Outcome {
            caveats,
            ..Outcome::default()
        }
    }

    #[test]
    fn a_cell_tells_each_reason_once() {
        let mut reasons = Reasons::default();
        let runs = [
            vec![late(500, true)],
            vec![late(150, false), Caveat::NoRealtimePriority],
            vec![Caveat::HostBusy { percent: 9 }, early("it was stopped")],
            vec![late(900, true), early("unheard")],
            vec![early("it was stopped")],
        ];
        for (run, caveats) in (0..).zip(runs) {
            reasons.set((3, run), &outcome(caveats));
        }
        reasons.set((4, 0), &outcome(vec![early("gone")]));
        // A later try that counts.
        reasons.set((4, 0), &outcome(Vec::new()));
        let told = |index| -> Vec<(String, usize)> {
            let reasons = reasons.of_cell(index).into_iter();
            reasons.map(|reason| (reason.why, reason.runs)).collect()
        };
        let worst = outcome(vec![late(900, true)]).caveats[0].to_string();
        let expected = [(worst, 2), ("ended early: it was stopped".into(), 2)];
        assert_eq!(told(3), expected);
        assert_eq!(told(4), []);
        assert_eq!(told(2), []);
    }

    #[test]
    fn memory_is_bounded_whatever_lines_say() {
        let mut reasons = Reasons::default();
        for run in 0..1_000 {
            let why = format!("{run} {}", "x".repeat(10_000));
            reasons.set((0, run), &outcome(vec![early(&why)]));
        }
        let told = reasons.of_cell(0);
        assert_eq!(told.len(), CAUSES_MAX + 1);
        assert!(
            told.iter()
                .all(|reason| reason.why.len() <= CAUSE_CHARS_MAX)
        );
        let other = &told[CAUSES_MAX];
        assert_eq!((other.why.as_str(), other.runs), (OTHER_CAUSE, 900));
    }
}
