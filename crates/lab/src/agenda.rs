//! A queue of deadlines, one per member, in order of time, and of being set where times are equal.
//!
//! Each member has at most one deadline. Members stand in groups of a few. The groups are the
//! leaves of a binary tree, each node of which holds the earlier one of the two below it; so
//! setting a deadline costs O(log n) of all. What happens at one time mostly concerns the same few
//! members, so the tree is updated for a group only when another one changes, or when the next
//! deadline is requested.

use base::Instant;

/// Nanoseconds of a deadline that never comes.
const NEVER: u64 = Instant::MAX.as_nanos();
/// Key of a member without a deadline, one of several of that time.
const NONE: u128 = (NEVER as u128) << 64;
/// Bits of a key that say whose it is; those above count settings, enough for some days.
const MEMBER_BITS: u32 = 20;
/// No group has this number.
const NO_GROUP: usize = usize::MAX;
/// Members of a group, which are compared one by one.
const GROUP: usize = 4;

/// The deadlines of members that are numbered from 0.
#[derive(Debug)]
pub(crate) struct Agenda {
    /// Keys of the members: a deadline, below it the number of its setting, and whose it is.
    groups: Vec<[u128; GROUP]>,
    /// The first key of each group in the second half; below `node` are `2 * node` and the one
    /// after it. The root, which would be at 1, is `first`: a small world has no other node.
    tree: Vec<u128>,
    /// The first key of all.
    first: u128,
    members: usize,
    /// The number of the last setting, as it stands in keys.
    setting: u64,
    /// The changed group for which the tree is not up to date, or [`NO_GROUP`].
    changed: usize,
}

impl Default for Agenda {
    /// Without members.
    fn default() -> Self {
        Self {
            groups: Vec::new(),
            tree: Vec::new(),
            first: NONE,
            members: 0,
            setting: 0,
            changed: NO_GROUP,
        }
    }
}

impl Agenda {
    /// Adds a member; returns its number.
    pub(crate) fn join(&mut self) -> usize {
        if self.members == self.groups.len() * GROUP {
            let groups = (2 * self.groups.len()).max(1);
            self.groups.resize(groups, [NONE; GROUP]);
            let mut tree = vec![NONE; groups];
            tree.extend(self.groups.iter().map(first_of));
            for node in (1..groups).rev() {
                tree[node] = tree[2 * node].min(tree[2 * node + 1]);
            }
            self.first = tree[1];
            self.tree = tree;
            self.changed = NO_GROUP;
        }
        self.members += 1;
        assert!(
            self.members <= 1 << MEMBER_BITS,
            "more members than a key can name"
        );
        self.members - 1
    }

    /// Sets the deadline of `member`. An unchanged deadline keeps its place among equal ones.
    #[inline]
    pub(crate) fn set(&mut self, member: usize, at: Option<Instant>) {
        let nanos = at.map_or(NEVER, Instant::as_nanos);
        if nanos != time_of(self.key(member)) {
            self.change(member, nanos);
        }
    }

    /// Sets the deadline of `member`, unless it has an earlier one.
    #[inline]
    pub(crate) fn hasten(&mut self, member: usize, at: Instant) {
        if at.as_nanos() < time_of(self.key(member)) {
            self.change(member, at.as_nanos());
        }
    }

    #[inline]
    fn key(&self, member: usize) -> u128 {
        self.groups[member / GROUP][member % GROUP]
    }

    #[inline]
    fn change(&mut self, member: usize, nanos: u64) {
        self.setting += 1 << MEMBER_BITS;
        let group = member / GROUP;
        if self.changed != group {
            self.update();
            self.changed = group;
        }
        let key = u128::from(nanos) << 64 | u128::from(self.setting | member as u64);
        self.groups[group][member % GROUP] = key;
    }

    /// The earliest deadline of all; [`Instant::MAX`] where there is none.
    #[inline]
    pub(crate) fn next_at(&mut self) -> Instant {
        self.update();
        Instant::from_nanos(time_of(self.first))
    }

    /// The next member that is due by `now`; it has no deadline from then on.
    #[inline]
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<usize> {
        let at = self.next_at();
        (at <= now && at < Instant::MAX).then(|| self.pop_first())
    }

    /// The member with the earliest deadline of all, as [`Agenda::next_at`] told; it has no
    /// deadline from then on.
    #[inline]
    pub(crate) fn pop_first(&mut self) -> usize {
        debug_assert!(self.changed == NO_GROUP, "told before");
        let member = self.first as usize & ((1 << MEMBER_BITS) - 1);
        self.changed = member / GROUP;
        self.groups[member / GROUP][member % GROUP] = NONE;
        member
    }

    /// The deadline of `member`.
    #[inline]
    pub(crate) fn deadline(&self, member: usize) -> Option<Instant> {
        deadline_of(self.key(member))
    }

    /// Updates the tree for the changed group, if there is one.
    #[inline]
    fn update(&mut self) {
        if self.changed == NO_GROUP {
            return;
        }
        if let [only] = &self.groups[..] {
            self.changed = NO_GROUP;
            self.first = first_of(only);
        } else {
            self.update_tree();
        }
    }

    /// Each node above a group holds the first key of what is below it.
    #[inline(never)]
    fn update_tree(&mut self) {
        let group = core::mem::replace(&mut self.changed, NO_GROUP);
        let mut key = first_of(&self.groups[group]);
        let mut node = self.groups.len() + group;
        while node > 1 {
            if self.tree[node] == key {
                return;
            }
            self.tree[node] = key;
            key = key.min(self.tree[node ^ 1]);
            node /= 2;
        }
        self.first = key;
    }
}

/// The first key of a group.
#[inline]
fn first_of(&[a, b, c, d]: &[u128; GROUP]) -> u128 {
    a.min(b).min(c.min(d))
}

#[inline]
fn deadline_of(key: u128) -> Option<Instant> {
    let nanos = time_of(key);
    (nanos != NEVER).then(|| Instant::from_nanos(nanos))
}

/// The nanoseconds of a deadline.
#[inline]
const fn time_of(key: u128) -> u64 {
    (key >> 64) as u64
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
        assert_eq!(
            [a, b].map(|member| agenda.deadline(member)),
            [Some(at(5)), Some(at(3))]
        );
        // What does not change keeps its place.
        agenda.set(c, Some(at(5)));
        assert_eq!(agenda.pop_due(at(2)), None);
        let order: Vec<usize> = core::iter::from_fn(|| agenda.pop_due(at(9))).collect();
        assert_eq!(order, [b, c, a]);
        assert_eq!(agenda.next_at(), Instant::MAX);
        agenda.set(a, None);
        assert_eq!([a, b].map(|member| agenda.deadline(member)), [None; 2]);
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_scan(
            changes in prop::collection::vec((0..23_usize, 0..40_u64), 1..300),
        ) {
            let mut agenda = Agenda::default();
            let mut naive: Vec<Option<Instant>> = vec![None; 23];
            for _ in 0..23 {
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
                if nanos % 3 > 0 {
                    let earliest = naive.iter().flatten().min().copied();
                    prop_assert_eq!(agenda.next_at(), earliest.unwrap_or(Instant::MAX));
                }
            }
        }
    }
}
