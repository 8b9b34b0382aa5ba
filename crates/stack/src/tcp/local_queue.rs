//! Packets of a connection in the local queue of its host, and its wait for room there.

use crate::host::WaitingAck;

/// A connection's part of the local queue.
#[derive(Debug, Default)]
pub(super) struct LocalQueue {
    /// Bytes of this connection that are queued.
    bytes: u32,
    /// Waits for room.
    is_blocked: bool,
    /// The host has it in its list of waiters.
    is_waiter: bool,
    /// The last packet that was queued, if it is a bare ACK that a newer one may replace.
    waiting_ack: Option<WaitingAck>,
}

impl LocalQueue {
    pub(super) const fn bytes(&self) -> u32 {
        self.bytes
    }

    /// Starts an attempt to send, which determines anew whether it waits for room.
    pub(super) const fn begin_round(&mut self) {
        self.is_blocked = false;
    }

    /// Something could not be sent for lack of room.
    pub(super) const fn block(&mut self) {
        self.is_blocked = true;
    }

    /// Whether something could not be sent for lack of room at the last attempt.
    pub(super) const fn is_blocked(&self) -> bool {
        self.is_blocked
    }

    /// Whether it waits for room from now on, which is said once until [`LocalQueue::on_turn`].
    pub(super) fn begins_to_wait(&mut self) -> bool {
        self.is_blocked && !core::mem::replace(&mut self.is_waiter, true)
    }

    /// Its turn to use the room.
    pub(super) const fn on_turn(&mut self) {
        self.is_waiter = false;
    }

    /// The bare ACK that a newer one may take the place of.
    pub(super) const fn waiting_ack(&self) -> Option<WaitingAck> {
        self.waiting_ack
    }

    /// A packet was queued; `bytes` is 0 where it was dropped.
    pub(super) const fn on_queued(&mut self, bytes: u32) {
        self.bytes += bytes;
        self.waiting_ack = None;
    }

    /// Called when a bare ACK was queued that a newer one may replace.
    pub(super) const fn on_ack_queued(&mut self, place: Option<WaitingAck>) {
        self.waiting_ack = place;
    }

    /// A packet left.
    pub(super) const fn on_dequeued(&mut self, bytes: u32) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_joins_the_queue_once() {
        let mut queue = LocalQueue::default();
        assert!(!queue.begins_to_wait());
        queue.block();
        assert!(queue.begins_to_wait() && !queue.begins_to_wait());
        queue.begin_round();
        queue.block();
        // It has not had its turn.
        assert!(!queue.begins_to_wait());
        queue.on_turn();
        assert!(queue.begins_to_wait());
    }

    #[test]
    fn what_leaves_counts_no_more() {
        let mut queue = LocalQueue::default();
        queue.on_queued(60);
        queue.on_queued(40);
        queue.on_dequeued(60);
        assert_eq!(queue.bytes(), 40);
    }
}
