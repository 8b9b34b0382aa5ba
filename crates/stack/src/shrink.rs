//! Queues of connections take little memory while they are empty: most connections are idle most of
//! the time.

use alloc::collections::VecDeque;

/// Entries for which an empty queue keeps room, so that one packet at a time allocates nothing.
pub(crate) const KEPT: usize = 1;

/// Room for those that follow the first one: as much as an ordinary queue has after its second
/// allocation.
const FEW: usize = 8;

/// Appends to a queue that mostly holds one entry.
#[inline]
pub(crate) fn push<T>(queue: &mut VecDeque<T>, entry: T) {
    if queue.len() == queue.capacity() {
        make_room(queue);
    }
    queue.push_back(entry);
}

#[cold]
fn make_room<T>(queue: &mut VecDeque<T>) {
    let entries = match queue.len() {
        0 => KEPT,
        count @ 1..FEW => FEW - count,
        count => count,
    };
    queue.reserve_exact(entries);
}

/// Call it after removing entries.
#[inline]
pub(crate) fn shrink_empty<T>(queue: &mut VecDeque<T>) {
    if queue.is_empty() && queue.capacity() > KEPT {
        *queue = VecDeque::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_queue_keeps_little() {
        let mut queue = VecDeque::new();
        push(&mut queue, 1);
        assert_eq!(queue.capacity(), KEPT);
        queue.clear();
        shrink_empty(&mut queue);
        assert_eq!(queue.capacity(), KEPT);
        for (entries, room) in [(2, FEW), (FEW, FEW), (FEW + 1, 2 * FEW)] {
            (0..entries).for_each(|_| push(&mut queue, 0));
            assert_eq!(queue.capacity(), room, "{entries}");
            queue.clear();
        }
        shrink_empty(&mut queue);
        assert_eq!(queue.capacity(), 0);
    }
}
