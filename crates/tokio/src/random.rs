//! Seeds and secrets from the kernel.

use std::io;

use stack::Secret;

use crate::error::of_system;

/// A seed that differs each time, for [`HostConfig::of`](stack::HostConfig::of).
///
/// # Errors
/// Where the kernel gives no random bytes.
pub fn random_seed() -> io::Result<u64> {
    linux::random_seed().map_err(of_system)
}

/// A secret for a host that strangers can reach: who knows it knows the host's initial sequence
/// numbers, its ports, and the key of its SYN cookies.
///
/// # Errors
/// Where the kernel gives no random bytes.
pub fn random_secret() -> io::Result<Secret> {
    linux::random_secret().map_err(of_system)
}
