//! Keepalives of a run: each end sends a message every second, and checks that the other one does.

use std::time::Duration;

use base::Instant;
use serde::de::DeserializeOwned;

use super::channel::Channel;
use crate::clock::Clock;
use crate::error::Result;

/// Action after a message.
pub(super) enum Next {
    /// Listen on.
    Listen,
    /// The run is over for the peer.
    Over,
}

/// How to listen.
pub(super) struct Pulse {
    /// Time from call to call of `on_tick`.
    pub(super) tick: Duration,
    /// The peer is gone where nothing is heard for this time.
    pub(super) silence_max: Duration,
}

/// Listens until the peer's run is over. `on_tick` says that this end is here, and ends the
/// listening with an error when it has taken too long: what a peer says does not prolong it.
///
/// # Errors
/// If the peer disconnects, or sends nothing for `silence_max`; and what the two functions return.
pub(super) fn listen<M: DeserializeOwned>(
    channel: &mut Channel,
    pulse: &Pulse,
    on_tick: &mut dyn FnMut(Instant) -> Result<()>,
    on_message: &mut dyn FnMut(M, Instant) -> Result<Next>,
) -> Result<()> {
    let mut heard_at = Clock.now();
    let mut ticked_at = Clock.now();
    loop {
        let left = (ticked_at + pulse.tick).since(Clock.now());
        let message = match channel.receive(left) {
            Err(_) if channel.is_closed() => {
                return Err(channel.error("closed the connection in the middle of the test"));
            }
            received => received?,
        };
        let now = Clock.now();
        if let Some(message) = message {
            heard_at = now;
            if matches!(on_message(message, now)?, Next::Over) {
                return Ok(());
            }
        }
        if now.since(ticked_at) >= pulse.tick {
            ticked_at = now;
            on_tick(now)?;
        }
        if now.since(heard_at) >= pulse.silence_max {
            return Err(channel.error(&format!(
                "vanished in the middle of the test: nothing was heard for {}",
                base::format_duration(pulse.silence_max)
            )));
        }
    }
}
