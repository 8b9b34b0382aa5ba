//! Connections beside those that match: of other processes, to the same hosts. They may share the
//! path, and lose what others gain.

use std::collections::BTreeSet;
use std::net::IpAddr;

use base::FlowKey;

/// Where matching connections lead to, and how many others are followed there.
#[derive(Debug)]
pub(super) struct Beside {
    networks: BTreeSet<IpAddr>,
    left: usize,
}

impl Beside {
    /// At most so many are followed.
    pub(super) const fn new(most: usize) -> Self {
        Self {
            networks: BTreeSet::new(),
            left: most,
        }
    }

    /// A connection matches.
    pub(super) fn note(&mut self, key: FlowKey) {
        if self.left > 0 {
            self.networks.insert(key.remote_network());
        }
    }

    /// Whether one that does not match is to be followed. It counts from then on.
    pub(super) fn admits(&mut self, key: FlowKey) -> bool {
        let admits = self.left > 0 && self.networks.contains(&key.remote_network());
        self.left -= usize::from(admits);
        admits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_to_the_same_network_are_followed_up_to_a_number() {
        let to = |host: [u8; 4]| FlowKey {
            local: ([10, 0, 0, 1], 40_000).into(),
            remote: (host, 443).into(),
        };
        let mut beside = Beside::new(2);
        assert!(!beside.admits(to([10, 0, 1, 2])), "none matches yet");
        beside.note(to([10, 0, 1, 1]));
        assert!(!beside.admits(to([10, 0, 2, 2])));
        assert!(beside.admits(to([10, 0, 1, 2])) && beside.admits(to([10, 0, 1, 2])));
        assert!(!beside.admits(to([10, 0, 1, 2])), "two are enough");
    }
}
