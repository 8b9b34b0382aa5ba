//! Queues of connections take little memory while they are empty: most connections are idle most of
//! the time.

use alloc::collections::VecDeque;

/// Entries for which an empty queue keeps room, so that one packet at a time allocates nothing.
const KEPT: usize = 1;

/// Appends to a queue of which little is expected: an ordinary one begins with room for four.
#[inline]
pub(crate) fn push<T>(queue: &mut VecDeque<T>, entry: T) {
    if queue.capacity() == 0 {
        make_room(queue);
    }
    queue.push_back(entry);
}

#[cold]
fn make_room<T>(queue: &mut VecDeque<T>) {
    queue.reserve_exact(KEPT);
}

/// To be called where something was taken out.
#[inline]
pub(crate) fn shrink_empty<T>(queue: &mut VecDeque<T>) {
    shrink_empty_to(queue, KEPT);
}

/// The same for a queue that keeps room for `kept` entries once it has had so many: it empties all
/// the time, and would have to grow as often.
#[inline]
pub(crate) fn shrink_empty_to<T>(queue: &mut VecDeque<T>, kept: usize) {
    if queue.is_empty() && queue.capacity() > kept {
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
        (0..4).for_each(|entry| push(&mut queue, entry));
        queue.clear();
        shrink_empty_to(&mut queue, 4);
        assert!(queue.capacity() >= 4);
        shrink_empty(&mut queue);
        assert_eq!(queue.capacity(), 0);
    }
}
