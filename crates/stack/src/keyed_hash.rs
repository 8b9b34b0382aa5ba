//! A keyed hash over the ends of a connection, for numbers that an attacker cannot guess.

use core::hash::Hasher;
use core::net::{IpAddr, SocketAddr};

use base::Rng;

use crate::host::Secret;
use siphasher::sip::SipHasher24;

/// Source of a host's keys: a secret, or for simulations a seed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keys {
    seed: u64,
    secret: Option<Secret>,
}

impl Keys {
    pub(crate) const fn new(seed: u64, secret: Option<Secret>) -> Self {
        Self { seed, secret }
    }

    /// The key of the component `name`. With a secret, one key does not reveal another.
    pub(crate) fn key(&self, name: &str) -> (u64, u64) {
        let Some(Secret(secret)) = self.secret else {
            let mut rng = self.rng(name);
            return (rng.next_u64(), rng.next_u64());
        };
        let half = |which: u8| {
            let mut hasher = SipHasher24::new_with_key(&secret);
            hasher.write(name.as_bytes());
            hasher.write(&[which]);
            hasher.finish()
        };
        (half(0), half(1))
    }

    /// Random numbers of the component `name`; not secure: predictable to an observer of some of
    /// them.
    pub(crate) fn rng(&self, name: &str) -> Rng {
        match self.secret {
            Some(_) => Rng::new(self.key(name).0, name),
            None => Rng::new(self.seed, name),
        }
    }
}

impl From<u64> for Keys {
    fn from(seed: u64) -> Self {
        Self::new(seed, None)
    }
}

/// One secret key; the same inputs always give the same number (RFC 6528 section 3).
#[derive(Clone, Debug)]
pub(crate) struct KeyedHash(SipHasher24);

impl KeyedHash {
    /// With the key of the component `name`.
    pub(crate) fn new(keys: impl Into<Keys>, name: &str) -> Self {
        let (first, second) = keys.into().key(name);
        Self(SipHasher24::new_with_keys(first, second))
    }

    /// The hash of two ends of a connection and of `more`.
    pub(crate) fn of_ends(&self, local: SocketAddr, remote: SocketAddr, more: u64) -> u64 {
        let mut hasher = self.0;
        write_address(&mut hasher, local.ip());
        write_address(&mut hasher, remote.ip());
        hasher.write(&local.port().to_le_bytes());
        hasher.write(&remote.port().to_le_bytes());
        hasher.write(&more.to_le_bytes());
        hasher.finish()
    }

    /// The hash of two hosts.
    pub(crate) fn of_hosts(&self, local: IpAddr, remote: IpAddr) -> u64 {
        self.of_ends((local, 0).into(), (remote, 0).into(), 0)
    }
}

/// The length distinguishes the IP versions; the result does not depend on byte order or memory
/// layout.
fn write_address(hasher: &mut SipHasher24, address: IpAddr) {
    match address {
        IpAddr::V4(address) => {
            hasher.write(&[4]);
            hasher.write(&address.octets());
        }
        IpAddr::V6(address) => {
            hasher.write(&[16]);
            hasher.write(&address.octets());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_is_pinned_and_every_part_counts() {
        let end = |text: &str| text.parse::<SocketAddr>().unwrap();
        let hash = KeyedHash::new(1, "test");
        let secret = |seed, last: u8, name| {
            let mut bytes = [0; 16];
            bytes[15] = last;
            KeyedHash::new(Keys::new(seed, Some(Secret(bytes))), name)
        };
        let (a, b) = (end("10.0.0.1:80"), end("10.0.0.2:40000"));
        let first = hash.of_ends(a, b, 0);
        assert_eq!(first, 10_394_483_601_792_957_737);
        for other in [
            hash.of_ends(b, a, 0),
            hash.of_ends(end("10.0.0.1:81"), b, 0),
            hash.of_ends(a, end("10.0.0.2:40001"), 0),
            hash.of_ends(end("10.0.0.3:80"), b, 0),
            hash.of_ends(end("[::ffff:10.0.0.1]:80"), b, 0),
            hash.of_ends(a, b, 1),
            KeyedHash::new(2, "test").of_ends(a, b, 0),
            KeyedHash::new(1, "other").of_ends(a, b, 0),
            secret(1, 0, "test").of_ends(a, b, 0),
        ] {
            assert_ne!(other, first);
        }
        // Only the secret counts.
        let first = secret(1, 0, "test").of_ends(a, b, 0);
        assert_eq!(secret(2, 0, "test").of_ends(a, b, 0), first);
        assert_ne!(secret(1, 1, "test").of_ends(a, b, 0), first);
        assert_ne!(secret(1, 0, "other").of_ends(a, b, 0), first);
    }
}
