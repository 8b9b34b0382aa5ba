//! Packets that a host has handed out before their departure time, for drivers whose interface does
//! not pace.

use alloc::collections::BTreeMap;

use base::Instant;

use crate::host::Host;
use crate::packet::Packet;

/// Holds paced packets until [`Packet::not_before`]. There are none where
/// [`HostSettings::pacing_horizon`](crate::HostSettings::pacing_horizon) is zero.
#[derive(Debug, Default)]
pub struct Departures {
    /// By time, and by the order in which they came.
    waiting: BTreeMap<(Instant, u64), Packet>,
    count: u64,
}

impl Departures {
    /// The next packet of `host` that may be sent at `now`; call it instead of
    /// [`Host::poll_transmit`].
    pub fn poll_transmit(&mut self, now: Instant, host: &mut Host) -> Option<Packet> {
        if let Some(entry) = self.waiting.first_entry()
            && entry.key().0 <= now
        {
            return Some(entry.remove());
        }
        loop {
            let packet = host.poll_transmit(now)?;
            if packet.not_before <= now {
                return Some(packet);
            }
            self.count += 1;
            self.waiting.insert((packet.not_before, self.count), packet);
        }
    }

    /// When the first of them may be sent.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.waiting.keys().next().map(|(at, _)| *at)
    }

    /// Whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}
