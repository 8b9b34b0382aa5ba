//! `serve` and `bench`: workloads against a real peer.
//!
//! One control connection carries lines of JSON (`protocol`); data connections open with a token
//! that only the client of the run knows. A server is no open traffic generator: it sends only to
//! the address that connected, only while that client is there, and only within its [`Limits`].
//! With a shared key, both ends prove that they hold it before anything else happens.

mod client;
mod lines;
mod protocol;
mod pulse;
mod server;
#[cfg(test)]
mod tests;

pub use client::{BenchClient, BenchOutcome};
pub use protocol::{Key, Limits, PORT};
pub use server::{Event, Serve, Stopper};

use std::time::Duration;

/// Time within which a peer must say something; it is asked to every second.
pub const SILENCE_MAX: Duration = Duration::from_secs(10);
