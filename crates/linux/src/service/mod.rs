//! `serve` and `bench`: workloads against a real peer.
//!
//! One control connection carries encrypted, authenticated messages (`opening`, `channel`,
//! `protocol`); data connections open with a token that only the client of the run knows. A server
//! is not an open traffic generator: it sends only to the address that connected, only while that
//! client is there, and only within its [`Limits`]. With a [`Key`], both ends prove that they hold
//! it before anything else happens.
//!
//! A server can be left running: a client that sends nothing, little, or too much costs it a
//! descriptor for a few seconds (`lobby`), no address takes the places of all (`admission`), and
//! keepalive messages do not prolong a run. The client compares the server's report of a run with
//! what was sent (`claims`).

mod admission;
mod channel;
mod claims;
mod client;
#[cfg(test)]
mod hostile;
mod key;
mod lobby;
mod opening;
mod protocol;
mod pulse;
mod server;
#[cfg(test)]
mod tests;

pub use admission::MaxStartups;
pub use client::{BenchClient, BenchOutcome};
pub use key::Key;
pub use protocol::{Limits, PORT};
pub use server::{Event, Serve, Stopper};

use std::time::Duration;

/// Time within which a peer must say something; it is asked to every second.
pub const SILENCE_MAX: Duration = Duration::from_secs(10);
