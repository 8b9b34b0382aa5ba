//! What limits the sender, and the time spent in each limit (Linux `tcp_chrono`).

use core::time::Duration;

use base::{Instant, Limit};

/// Time that a connection spent with data to deliver, by what it waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Waited {
    /// Something was written and not acknowledged.
    pub(super) busy: Duration,
    /// Of it, time limited by the peer's window.
    pub(super) by_peer_window: Duration,
    /// Of it, time limited by the send buffer.
    pub(super) by_send_buffer: Duration,
}

/// Why nothing more is sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    limit: Limit,
    /// Nanoseconds of what is [`Waited`].
    busy: u64,
    by_peer_window: u64,
    by_send_buffer: u64,
    counted_until: Instant,
    /// What is left to deliver from then on.
    pending: Pending,
}

/// What is left to deliver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pending {
    Nothing,
    /// All of it was sent, but is not acknowledged.
    Sent,
    /// Something was never sent.
    Unsent,
}

impl Held {
    /// By the handshake.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            limit: Limit::Handshake,
            busy: 0,
            by_peer_window: 0,
            by_send_buffer: 0,
            counted_until: now,
            pending: Pending::Nothing,
        }
    }

    pub(super) const fn limit(&self) -> Limit {
        self.limit
    }

    /// Whether nothing was unsent or unacknowledged, and there was nothing to send.
    #[inline]
    pub(super) fn is_at_rest(&self) -> bool {
        self.pending == Pending::Nothing && self.limit == Limit::Application
    }

    /// Time counts from now on.
    pub(super) const fn begin(&mut self, now: Instant) {
        self.counted_until = now;
    }

    /// From now on `limit` is the reason.
    #[inline]
    pub(super) fn hold(&mut self, now: Instant, limit: Limit, pending: Pending) {
        self.count(now);
        self.counted_until = now;
        self.pending = pending;
        self.limit = limit;
    }

    /// Adds the time since it was last counted to what it was waited for.
    #[inline]
    fn count(&mut self, now: Instant) {
        if self.pending != Pending::Nothing {
            let nanos = now.as_nanos().saturating_sub(self.counted_until.as_nanos());
            self.busy += nanos;
            match self.limit {
                // A shrunk window only holds retransmissions (Linux counts in `tcp_write_xmit`, not
                // in `tcp_retransmit_skb`).
                Limit::PeerWindow if self.pending == Pending::Sent => {}
                Limit::PeerWindow => self.by_peer_window += nanos,
                Limit::SendBuffer => self.by_send_buffer += nanos,
                _ => {}
            }
        }
    }

    /// Waiting times up to `now`.
    pub(super) fn waited(&self, now: Instant) -> Waited {
        let mut held = *self;
        held.count(now);
        Waited {
            busy: Duration::from_nanos(held.busy),
            by_peer_window: Duration::from_nanos(held.by_peer_window),
            by_send_buffer: Duration::from_nanos(held.by_send_buffer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_counts_for_what_held_the_data_during_it() {
        let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        let mut held = Held::new(at(0));
        held.begin(at(5));
        held.hold(at(10), Limit::PeerWindow, Pending::Unsent);
        held.hold(at(30), Limit::SendBuffer, Pending::Sent);
        held.hold(at(70), Limit::PeerWindow, Pending::Nothing);
        let millis = Duration::from_millis;
        let expected = Waited {
            busy: millis(60),
            by_peer_window: millis(20),
            by_send_buffer: millis(40),
        };
        assert_eq!(held.waited(at(100)), expected);
    }
}
