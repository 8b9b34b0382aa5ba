//! Seeds that nobody can guess.

use rustix::rand::{GetRandomFlags, getrandom};

use crate::error::{Error, Result};

/// A seed for a host that strangers can reach: who knows it knows the host's initial sequence
/// numbers, its ports, and the key of its SYN cookies.
///
/// # Errors
/// Where the kernel gives no random bytes.
pub fn random_seed() -> Result<u64> {
    let mut seed = [0; 8];
    // Up to 256 bytes come whole (getrandom(2)).
    getrandom(&mut seed, GetRandomFlags::empty()).map_err(Error::errno("getrandom"))?;
    Ok(u64::from_ne_bytes(seed))
}
