//! Statements of the `NetBurner` document that no path and no workload expresses. Most of it is
//! written in that system's own calls.

mod lossy;
mod nopush;
mod path;
mod pool;
mod programs;
mod telnet;
#[cfg(test)]
mod tests;
mod wire;
mod write;

use super::Probe;

/// All of them.
pub(super) const POOL: Probe = pool::POOL;
pub(super) const LOSSY_POOL: Probe = lossy::LOSSY_POOL;
pub(super) const TELNET: Probe = telnet::TELNET;
pub(super) const NOPUSH: Probe = nopush::NOPUSH;
pub(super) const WRITE: Probe = write::WRITE;
pub(super) const SPEED: Probe = programs::SPEED;
pub(super) const STRESS: Probe = programs::STRESS;
