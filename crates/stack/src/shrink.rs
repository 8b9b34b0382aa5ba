//! Queues of connections give their memory back when they are empty: most connections are idle most
//! of the time.

use alloc::collections::VecDeque;

/// Entries for which an empty queue keeps room, so that little traffic allocates nothing.
const KEPT: usize = 4;

/// To be called where something was taken out.
pub(crate) fn shrink_empty<T>(queue: &mut VecDeque<T>) {
    if queue.is_empty() && queue.capacity() > KEPT {
        *queue = VecDeque::new();
    }
}
