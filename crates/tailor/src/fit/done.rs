//! What is not tried again.

use crate::candidate::{Candidate, Name};
use crate::experiment::Outcome;

/// What a socket needs depends on how far its other end is, but a server has thousands of them,
/// and each experiment takes as long as one may: what failed to so many ends is tried to no other.
const ENDS_MAX: usize = 3;

#[derive(Debug, Default)]
pub(super) struct Done {
    /// Those that failed, and those that are kept for more than single connections.
    names: Vec<Name>,
    /// Kinds of which one was tried without an answer.
    undecided: Vec<Name>,
    /// The kind of each one that failed, wherever its other ends are.
    failed: Vec<Name>,
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
        let is_second = kinds.iter().all(|kind| self.undecided.contains(kind));
        match is_second || outcome.is_none_or(Outcome::is_decided) {
            true => self.names.extend(kinds),
            false => self.undecided.extend(kinds),
        }
        let kind = candidate.name_of_kind();
        self.failed.push(kind.clone());
        if self.failed.iter().filter(|failed| **failed == kind).count() >= ENDS_MAX {
            self.names.push(kind);
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

    #[test]
    fn what_failed_to_three_ends_is_tried_to_no_other() {
        let experiment = Experiment::alternating(Objective::Goodput);
        let nothing = experiment.given_up("");
        let mut done = Done::default();
        let to = |end: u8| sndbuf_to(&[end], 1 << (20 + end));
        for end in 2..5 {
            assert!(to(end).is_left((&[], done.names()), true), "{end}");
            done.leave(&to(end), Some(&nothing));
        }
        assert!(!to(5).is_left((&[], done.names()), true));
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
