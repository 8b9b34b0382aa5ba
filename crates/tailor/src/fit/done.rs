//! What is not tried again.

use std::collections::{BTreeMap, BTreeSet};

use crate::candidate::{Candidate, Name};
use crate::experiment::Outcome;

/// What a socket needs depends on how far its other end is, but a server has thousands of them,
/// and each experiment takes as long as one may: what failed to so many ends is tried to no other.
const ENDS_MAX: usize = 3;
/// The same of what had no answer, such as where connections close meanwhile.
const UNANSWERED_MAX: usize = 8;

#[derive(Debug, Default)]
pub(super) struct Done {
    /// Those that failed, and those that are kept for more than single connections.
    names: Vec<Name>,
    /// Kinds of which one was tried without an answer.
    undecided: Vec<Name>,
    /// The ends that a kind failed to, by its name wherever they are.
    failed: BTreeMap<Name, BTreeSet<Name>>,
    /// Those that gave no answer to it.
    unanswered: BTreeMap<Name, BTreeSet<Name>>,
}

impl Done {
    pub(super) fn names(&self) -> &[Name] {
        &self.names
    }

    pub(super) fn keep(&mut self, candidate: &Candidate) {
        if !candidate.is_of_open_connections() {
            self.names.push(candidate.name());
        }
    }

    /// With other numbers it is tried once more where the outcome tells nothing of it, and no more
    /// often: each look may propose others, without an end.
    pub(super) fn leave(&mut self, candidate: &Candidate, outcome: Option<&Outcome>) {
        self.names.push(candidate.name());
        let kinds = candidate.names_of_kind();
        let is_decided = outcome.is_none_or(Outcome::is_decided);
        let (ends, most) = match is_decided {
            true => (&mut self.failed, ENDS_MAX),
            false => (&mut self.unanswered, UNANSWERED_MAX),
        };
        let kind = candidate.name_of_kind();
        let ends = ends.entry(kind.clone()).or_default();
        ends.extend(kinds.iter().cloned());
        if ends.len() >= most {
            self.names.push(kind);
        }
        let is_second = kinds.iter().all(|kind| self.undecided.contains(kind));
        match is_decided || is_second {
            true => self.names.extend(kinds),
            false => self.undecided.extend(kinds),
        }
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use base::KnobValue;
    use doctor::Objective;

    use super::*;
    use crate::candidate::tests::{candidate, sndbuf_to};
    use crate::experiment::Experiment;

    fn raised(most: u64) -> Candidate {
        let to = KnobValue::Triple([4096, 16_384, most]);
        candidate("net.ipv4.tcp_wmem", to)
    }

    #[test]
    fn what_was_not_decided_is_tried_once_more_with_other_numbers() {
        let experiment = Experiment::alternating(Objective::Goodput);
        let time = Duration::from_secs(30);
        let undecided = [
            experiment.too_long(time * 2, time),
            experiment.out_of_time(time),
            experiment.given_up("the connections are closed"),
        ];
        for outcome in undecided {
            let mut done = Done::default();
            let is_left = |done: &Done, most| raised(most).is_left((&[], done.names()), false);
            done.leave(&raised(1 << 20), Some(&outcome));
            assert!(!is_left(&done, 1 << 20), "the same: {outcome:?}");
            assert!(is_left(&done, 2 << 20), "{outcome:?}");
            done.leave(&raised(2 << 20), Some(&outcome));
            assert!(!is_left(&done, 3 << 20), "a third: {outcome:?}");
        }
    }

    /// Whether another end is left after this outcome at these ends, each with its own number.
    fn left_after(outcome: &Outcome, ends: &[u8]) -> bool {
        let mut done = Done::default();
        for (number, end) in (1 << 20..).zip(ends) {
            done.leave(&sndbuf_to(&[*end], number), Some(outcome));
        }
        sndbuf_to(&[19], 8 << 20).is_left((&[], done.names()), true)
    }

    #[test]
    fn what_failed_to_three_ends_is_tried_to_no_other() {
        let undecided = Experiment::alternating(Objective::Goodput).given_up("they closed");
        let nothing = Outcome {
            why: None,
            ..undecided.clone()
        };
        assert!(left_after(&nothing, &[2, 3]));
        assert!(!left_after(&nothing, &[2, 3, 4]));
        assert!(left_after(&nothing, &[2, 2, 3]), "two ends");
        assert!(left_after(&undecided, &[2, 3, 4]), "it did not fail");
        let many: Vec<u8> = (2..10).collect();
        assert!(left_after(&undecided, &many[1..]));
        assert!(!left_after(&undecided, &many), "none gave an answer");
    }

    #[test]
    fn what_was_decided_is_not() {
        let experiment = Experiment::alternating(Objective::Goodput);
        let nothing = Outcome {
            why: None,
            ..experiment.given_up("")
        };
        let harm = Outcome {
            answer: crate::experiment::Answer::Worse,
            ..experiment.given_up("it costs goodput")
        };
        for outcome in [nothing, harm] {
            let mut done = Done::default();
            done.leave(&raised(1 << 20), Some(&outcome));
            assert!(!raised(2 << 20).is_left((&[], done.names()), false));
        }
    }
}
