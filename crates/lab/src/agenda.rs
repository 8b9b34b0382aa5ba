//! Who is due when: deadlines in order of time, and of being set where times are equal.
//!
//! Each member has at most one deadline. Setting it costs O(log n) of all members; nobody is ever
//! scanned for the next one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use base::Instant;

/// Entries that are no longer valid are kept until they are as many as this and as the valid ones.
const STALE_MIN: usize = 64;

/// The deadlines of members that are numbered from 0.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    /// Valid where it equals what `deadlines` says of its member.
    queue: BinaryHeap<Reverse<(Instant, u64, usize)>>,
    /// When each member is due, and which setting that was.
    deadlines: Vec<Option<(Instant, u64)>>,
    set: usize,
    settings: u64,
}

impl Agenda {
    /// A member more; its number.
    pub(crate) fn join(&mut self) -> usize {
        self.deadlines.push(None);
        self.deadlines.len() - 1
    }

    /// Sets when `member` is due. One that was due then anyway keeps its place among the others.
    pub(crate) fn set(&mut self, member: usize, at: Option<Instant>) {
        let before = self.deadlines[member];
        if before.map(|(before, _)| before) == at {
            return;
        }
        self.set -= usize::from(before.is_some());
        self.deadlines[member] = at.map(|at| {
            self.settings += 1;
            self.set += 1;
            self.queue.push(Reverse((at, self.settings, member)));
            (at, self.settings)
        });
        if self.queue.len() > 2 * self.set + STALE_MIN {
            let deadlines = &self.deadlines;
            self.queue.retain(|Reverse((at, setting, member))| {
                deadlines[*member] == Some((*at, *setting))
            });
        }
    }

    /// The earliest deadline of all.
    pub(crate) fn next_at(&mut self) -> Option<Instant> {
        loop {
            let Reverse((at, setting, member)) = *self.queue.peek()?;
            if self.deadlines[member] == Some((at, setting)) {
                return Some(at);
            }
            self.queue.pop();
        }
    }

    /// The next member that is due by `now`; it has no deadline from then on.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<usize> {
        if self.next_at()? > now {
            return None;
        }
        let Reverse((_, _, member)) = self.queue.pop()?;
        self.deadlines[member] = None;
        self.set -= 1;
        Some(member)
    }

    /// When `member` is due.
    pub(crate) fn deadline(&self, member: usize) -> Option<Instant> {
        self.deadlines[member].map(|(at, _)| at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn equal_times_come_in_the_order_of_setting() {
        let mut agenda = Agenda::default();
        let [a, b, c] = [(); 3].map(|()| agenda.join());
        agenda.set(c, Some(at(5)));
        agenda.set(a, Some(at(5)));
        agenda.set(b, Some(at(3)));
        // What does not change keeps its place.
        agenda.set(c, Some(at(5)));
        assert_eq!(agenda.pop_due(at(2)), None);
        let order: Vec<usize> = core::iter::from_fn(|| agenda.pop_due(at(9))).collect();
        assert_eq!(order, [b, c, a]);
        assert_eq!(agenda.next_at(), None);
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_scan(
            changes in prop::collection::vec((0..7_usize, 0..40_u64), 1..300),
        ) {
            let mut agenda = Agenda::default();
            let mut naive: Vec<Option<Instant>> = vec![None; 7];
            for _ in 0..7 {
                agenda.join();
            }
            for (member, nanos) in changes {
                let deadline = (nanos % 5 != 0).then(|| at(nanos));
                agenda.set(member, deadline);
                naive[member] = deadline;
                if nanos % 7 == 0 {
                    let due = agenda.pop_due(at(nanos));
                    let earliest = naive.iter().flatten().min().copied();
                    let is_due = earliest.is_some_and(|first| first <= at(nanos));
                    prop_assert_eq!(due.is_some(), is_due);
                    if let Some(due) = due {
                        prop_assert_eq!(naive[due].take(), earliest);
                    }
                }
                prop_assert_eq!(agenda.next_at(), naive.iter().flatten().min().copied());
                prop_assert!(agenda.queue.len() <= 2 * 7 + STALE_MIN);
            }
        }
    }
}
