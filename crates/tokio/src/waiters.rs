//! Tasks that wait for something.

use std::task::Waker;

use smallvec::SmallVec;

/// Tasks to wake once the lock is released.
pub(crate) type Woken = SmallVec<[Waker; 4]>;

/// Tasks that wait for one thing: the task that polled last, as traits like `AsyncRead` have it,
/// and any number of futures, each of which takes its waker back when it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    task: Option<Waker>,
    futures: Vec<(WaiterKey, Waker)>,
}

/// Names one waiting future.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WaiterKey(pub(crate) u64);

impl Waiters {
    /// The task that is woken next, instead of the one before.
    pub(crate) fn set_task(&mut self, waker: &Waker) {
        match &mut self.task {
            Some(task) => task.clone_from(waker),
            None => self.task = Some(waker.clone()),
        }
    }

    /// Another future waits, or the same with another waker.
    pub(crate) fn insert(&mut self, key: WaiterKey, waker: &Waker) {
        match self.futures.iter_mut().find(|(known, _)| *known == key) {
            Some((_, known)) => known.clone_from(waker),
            None => self.futures.push((key, waker.clone())),
        }
    }

    /// A future waits no more.
    pub(crate) fn remove(&mut self, key: WaiterKey) {
        self.futures.retain(|(known, _)| *known != key);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.task.is_none() && self.futures.is_empty()
    }

    /// Takes all of them out, to be woken.
    pub(crate) fn take(&mut self, woken: &mut Woken) {
        woken.extend(self.task.take());
        woken.extend(self.futures.drain(..).map(|(_, waker)| waker));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_taken_once_and_nothing_stays_of_those_who_left() {
        let noop = Waker::noop();
        let mut waiters = Waiters::default();
        for _ in 0..3 {
            waiters.set_task(noop);
            waiters.insert(WaiterKey(1), noop);
            waiters.insert(WaiterKey(2), noop);
        }
        waiters.insert(WaiterKey(3), noop);
        waiters.remove(WaiterKey(2));
        let mut woken = Woken::new();
        waiters.take(&mut woken);
        assert_eq!(woken.len(), 3);
        assert!(waiters.is_empty());
        waiters.take(&mut woken);
        assert_eq!(woken.len(), 3);
    }
}
