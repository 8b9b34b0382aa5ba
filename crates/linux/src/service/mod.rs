//! `serve` and `bench`: workloads against a real peer.
//!
//! One control connection carries messages that nobody else can read or change (`opening`,
//! `channel`, `protocol`); data connections open with a token that only the client of the run
//! knows. A server is no open traffic generator: it sends only to the address that connected, only
//! while that client is there, and only within its [`Limits`]. With a [`Key`], both ends prove that
//! they hold it before anything else happens.
//!
//! A server can be left running: who says nothing, little, or too much costs it a descriptor for a
//! few seconds (`lobby`), no address takes the room of all (`admission`), and no peer prolongs a
//! run by saying that it is there. What a server claims of a run is held against what was sent
//! (`claims`).

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
