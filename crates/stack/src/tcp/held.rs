//! Why nothing more is sent, and how long a connection has waited for what (Linux `tcp_chrono`).

use core::time::Duration;

use base::{Instant, Limit};

/// Time that a connection spent with data to deliver, by what it waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Waited {
    /// Something was written and not acknowledged.
    pub(super) busy: Duration,
    /// Of it, for the peer's window.
    pub(super) by_peer_window: Duration,
    /// Of it, for room in the send buffer.
    pub(super) by_send_buffer: Duration,
}

/// Why nothing more is sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    limit: Limit,
    waited: Waited,
    counted_until: Instant,
    /// Whether something was written and not acknowledged from then on.
    has_data: bool,
}

impl Held {
    /// By the handshake.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            limit: Limit::Handshake,
            waited: Waited::default(),
            counted_until: now,
            has_data: false,
        }
    }

    pub(super) const fn limit(&self) -> Limit {
        self.limit
    }

    /// Whether nothing was unsent or unacknowledged, and there was nothing to send.
    #[inline]
    pub(super) fn is_at_rest(&self) -> bool {
        !self.has_data && self.limit == Limit::Application
    }

    /// Time counts from now on.
    pub(super) const fn begin(&mut self, now: Instant) {
        self.counted_until = now;
    }

    /// From now on `limit` is the reason. `has_data`: something is unsent or unacknowledged.
    #[inline]
    pub(super) fn hold(&mut self, now: Instant, limit: Limit, has_data: bool) {
        if self.has_data {
            self.waited = self.waited(now);
        }
        self.counted_until = now;
        self.has_data = has_data;
        self.limit = limit;
    }

    /// What was waited for up to `now`.
    #[inline]
    pub(super) fn waited(&self, now: Instant) -> Waited {
        let mut waited = self.waited;
        if self.has_data {
            let time = now.since(self.counted_until);
            waited.busy += time;
            match self.limit {
                Limit::PeerWindow => waited.by_peer_window += time,
                Limit::SendBuffer => waited.by_send_buffer += time,
                _ => {}
            }
        }
        waited
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
        held.hold(at(10), Limit::PeerWindow, true);
        held.hold(at(30), Limit::SendBuffer, true);
        held.hold(at(70), Limit::PeerWindow, false);
        let millis = Duration::from_millis;
        let expected = Waited {
            busy: millis(60),
            by_peer_window: millis(20),
            by_send_buffer: millis(40),
        };
        assert_eq!(held.waited(at(100)), expected);
    }
}
