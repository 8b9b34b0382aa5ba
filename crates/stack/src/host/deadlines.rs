//! Next deadline of each socket: a heap in which moving a deadline to a later time costs nothing
//! until it would be the first.
//!
//! TCP's timers are moved with nearly every packet and hardly ever fire. So an entry keeps its
//! place while its deadline only moves to later times, and is updated when it reaches the front;
//! the first entry is always right.

use alloc::vec::Vec;

use base::Instant;

/// Children of a place: wide and flat, so that few cache lines are touched.
const CHILDREN: usize = 4;
/// Place of a socket that is not in the heap.
const NOWHERE: u32 = u32::MAX;

/// A place in the heap; none is later than the deadline of its socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    at: Instant,
    socket: u32,
}

/// A socket's deadline, and where it is in the heap.
#[derive(Clone, Copy, Debug)]
struct Entry {
    due: Instant,
    place: u32,
}

/// The deadlines of all sockets, by slot.
#[derive(Debug, Default)]
pub(super) struct Deadlines {
    heap: Vec<Place>,
    sockets: Vec<Entry>,
}

impl Deadlines {
    /// Sets the deadline of a socket; `None`: it has none.
    #[inline]
    pub(super) fn set(&mut self, socket: u32, due: Option<Instant>) {
        let due = due.unwrap_or(Instant::MAX);
        let known = self.sockets.get(socket as usize);
        if known.is_none_or(|entry| entry.due != due) {
            self.change(socket, due);
        }
    }

    fn change(&mut self, socket: u32, due: Instant) {
        let index = socket as usize;
        if index >= self.sockets.len() {
            if due == Instant::MAX {
                return;
            }
            let none = Entry {
                due: Instant::MAX,
                place: NOWHERE,
            };
            self.sockets.resize(index + 1, none);
        }
        self.sockets[index].due = due;
        let place = self.sockets[index].place as usize;
        if let Some(found) = self.heap.get_mut(place) {
            if due < found.at {
                found.at = due;
                self.sift_up(place);
            }
        } else if due != Instant::MAX {
            self.heap.push(Place { at: due, socket });
            self.sift_up(self.heap.len() - 1);
        }
        self.correct_first();
    }

    /// The first deadline.
    pub(super) fn first(&self) -> Option<Instant> {
        self.heap.first().map(|place| place.at)
    }

    /// Takes out the socket whose deadline is the first, where that is due by `now`; of several at
    /// one time the lowest slot.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<u32> {
        let first = *self.heap.first().filter(|place| place.at <= now)?;
        self.set(first.socket, None);
        Some(first.socket)
    }

    /// Moves entries that are too early away from the front.
    fn correct_first(&mut self) {
        while let Some(first) = self.heap.first_mut() {
            let due = self.sockets[first.socket as usize].due;
            if due == first.at {
                return;
            }
            if due == Instant::MAX {
                self.sockets[first.socket as usize].place = NOWHERE;
                self.heap.swap_remove(0);
                if self.heap.is_empty() {
                    return;
                }
            } else {
                first.at = due;
            }
            self.sift_down();
        }
    }

    fn sift_up(&mut self, mut at: usize) {
        let moving = self.heap[at];
        while at > 0 {
            let parent = (at - 1) / CHILDREN;
            if self.heap[parent] <= moving {
                break;
            }
            self.put(at, self.heap[parent]);
            at = parent;
        }
        self.put(at, moving);
    }

    /// Moves the first entry to where it belongs.
    fn sift_down(&mut self) {
        let moving = self.heap[0];
        let mut at = 0;
        loop {
            let first = CHILDREN * at + 1;
            let end = self.heap.len().min(first + CHILDREN);
            let Some(least) = (first..end).min_by_key(|child| self.heap[*child]) else {
                break;
            };
            if moving <= self.heap[least] {
                break;
            }
            self.put(at, self.heap[least]);
            at = least;
        }
        self.put(at, moving);
    }

    fn put(&mut self, at: usize, place: Place) {
        self.heap[at] = place;
        self.sockets[place.socket as usize].place = at as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_serves_in_the_order_of_a_sorted_set(
            steps in proptest::collection::vec((0_u32..12, 0_u64..40, 0_u64..4), 1..300),
        ) {
            let mut deadlines = Deadlines::default();
            let mut plain: BTreeSet<(Instant, u32)> = BTreeSet::new();
            for (socket, at, kind) in steps {
                let at = Instant::from_nanos(at);
                if kind == 0 {
                    while let Some(taken) = deadlines.take_due(at) {
                        prop_assert_eq!(plain.pop_first().map(|(_, socket)| socket), Some(taken));
                    }
                    prop_assert!(plain.first().is_none_or(|(due, _)| *due > at));
                } else {
                    plain.retain(|(_, other)| *other != socket);
                    let due = (kind < 3).then_some(at);
                    plain.extend(due.map(|due| (due, socket)));
                    deadlines.set(socket, due);
                }
                prop_assert_eq!(deadlines.first(), plain.first().map(|(due, _)| *due));
            }
        }
    }
}
