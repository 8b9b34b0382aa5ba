//! A keyed hash over what names a connection, for numbers that nobody outside can guess.

use core::hash::Hasher;
use core::net::{IpAddr, SocketAddr};

use base::Rng;
use siphasher::sip::SipHasher24;

/// One secret key; the same inputs always give the same number (RFC 6528 section 3).
#[derive(Clone, Debug)]
pub(crate) struct KeyedHash(SipHasher24);

impl KeyedHash {
    /// The key of the component `name` of the host with this seed.
    pub(crate) fn new(seed: u64, name: &str) -> Self {
        let mut rng = Rng::new(seed, name);
        Self(SipHasher24::new_with_keys(rng.next_u64(), rng.next_u64()))
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

/// The length keeps the versions apart; neither the host's byte order nor the layout of a type in
/// memory comes in.
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
        ] {
            assert_ne!(other, first);
        }
    }
}
