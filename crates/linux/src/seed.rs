//! Unpredictable seeds and secrets.

use rustix::rand::{GetRandomFlags, getrandom};
use stack::Secret;

use crate::error::{Error, Result};

/// A seed that differs each time.
///
/// # Errors
/// Where the kernel gives no random bytes.
pub fn random_seed() -> Result<u64> {
    random().map(u64::from_ne_bytes)
}

/// A secret for a host that strangers can reach: who knows it knows the host's initial sequence
/// numbers, its ports, and the key of its SYN cookies.
///
/// # Errors
/// Where the kernel gives no random bytes.
pub fn random_secret() -> Result<Secret> {
    random().map(Secret)
}

/// Up to 256 bytes come whole (getrandom(2)).
fn random<const BYTES: usize>() -> Result<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    getrandom(&mut bytes, GetRandomFlags::empty()).map_err(Error::errno("getrandom"))?;
    Ok(bytes)
}
