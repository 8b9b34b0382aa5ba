//! While a run is on, each end says every second that it is there, and listens whether the other
//! one is.

use std::time::Duration;

use serde::de::DeserializeOwned;

use super::protocol::Channel;
use crate::clock::Clock;
use crate::error::Result;

/// Time from sign to sign.
const SIGN_EVERY: Duration = Duration::from_secs(1);

/// What to do after a message.
pub(super) enum Next {
    /// Listen on.
    Listen,
    /// The run is over for the peer.
    Over,
}

/// Listens until the peer's run is over; `say_alive` is called every second.
///
/// # Errors
/// Where the peer breaks off, or says nothing for `silence_max`; and what `on_message` returns.
pub(super) fn listen<M: DeserializeOwned>(
    channel: &mut Channel,
    silence_max: Duration,
    say_alive: &mut dyn FnMut() -> Result<()>,
    on_message: &mut dyn FnMut(M) -> Result<Next>,
) -> Result<()> {
    let mut heard_at = Clock.now();
    let mut said_at = Clock.now();
    loop {
        let message = match channel.receive(SIGN_EVERY) {
            Err(_) if channel.is_closed() => {
                return Err(channel.error("closed the connection in the middle of the test"));
            }
            received => received?,
        };
        let now = Clock.now();
        if now.since(said_at) >= SIGN_EVERY {
            said_at = now;
            say_alive()?;
        }
        match message {
            Some(message) => {
                heard_at = now;
                if matches!(on_message(message)?, Next::Over) {
                    return Ok(());
                }
            }
            None if now.since(heard_at) >= silence_max => {
                return Err(channel.error(&format!(
                    "vanished in the middle of the test: nothing was heard for {}",
                    base::format_duration(silence_max)
                )));
            }
            None => {}
        }
    }
}
