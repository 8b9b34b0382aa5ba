//! Which socket the packets between two ends are for.
//!
//! A table of slots by a keyed hash of the ends, so that nobody can choose ports that meet in it;
//! what is compared in the end is the ends themselves, which the sockets know. Nothing iterates
//! over it.

use alloc::vec::Vec;
use core::hash::Hasher as _;
use core::net::{IpAddr, SocketAddr};

use base::Rng;
use siphasher::sip::SipHasher13;

/// Slots of the smallest table.
const SLOTS_MIN: usize = 16;

/// The two ends of a connection: the remote one first.
pub(super) type Ends = (SocketAddr, SocketAddr);

/// A slot that is in use.
#[derive(Clone, Copy, Debug)]
struct Used {
    hash: u32,
    socket: u32,
}

/// The table: linear probing, at most three quarters full.
#[derive(Debug)]
pub(super) struct Flows {
    key: SipHasher13,
    /// As many as a power of two, or none.
    slots: Vec<Option<Used>>,
    used: usize,
}

impl Flows {
    /// An empty table with the key of this seed.
    pub(super) fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed, "flows");
        Self {
            key: SipHasher13::new_with_keys(rng.next_u64(), rng.next_u64()),
            slots: Vec::new(),
            used: 0,
        }
    }

    /// The socket of `ends`; `has_ends` says whether they are those of a socket.
    pub(super) fn find(&self, ends: &Ends, has_ends: impl Fn(u32) -> bool) -> Option<u32> {
        let (_, found) = self.search(self.hash(ends), has_ends)?;
        Some(found.socket)
    }

    /// From now on `ends` are those of `socket`, and of no other.
    pub(super) fn insert(&mut self, ends: &Ends, socket: u32, has_ends: impl Fn(u32) -> bool) {
        let hash = self.hash(ends);
        let used = Used { hash, socket };
        if let Some((at, _)) = self.search(hash, has_ends) {
            self.slots[at] = Some(used);
            return;
        }
        if 4 * (self.used + 1) > 3 * self.slots.len() {
            self.grow();
        }
        self.place(used);
        self.used += 1;
    }

    /// `ends` are nobody's any more, where they were those of `socket`.
    pub(super) fn remove(&mut self, ends: &Ends, socket: u32) {
        let Some((mut hole, _)) = self.search(self.hash(ends), |other| other == socket) else {
            return;
        };
        self.slots[hole] = None;
        self.used -= 1;
        // What was put behind its place because of this slot moves up.
        let mask = self.slots.len() - 1;
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let Some(used) = self.slots[at] else { return };
            let way = at.wrapping_sub(used.hash as usize) & mask;
            if way >= at.wrapping_sub(hole) & mask {
                self.slots[hole] = self.slots[at].take();
                hole = at;
            }
        }
    }

    fn search(&self, hash: u32, is_it: impl Fn(u32) -> bool) -> Option<(usize, Used)> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut at = hash as usize & mask;
        while let Some(used) = self.slots[at] {
            if used.hash == hash && is_it(used.socket) {
                return Some((at, used));
            }
            at = (at + 1) & mask;
        }
        None
    }

    fn grow(&mut self) {
        let slots = (2 * self.slots.len()).max(SLOTS_MIN);
        let before = core::mem::replace(&mut self.slots, alloc::vec![None; slots]);
        for used in before.into_iter().flatten() {
            self.place(used);
        }
    }

    fn place(&mut self, used: Used) {
        let mask = self.slots.len() - 1;
        let mut at = used.hash as usize & mask;
        while self.slots[at].is_some() {
            at = (at + 1) & mask;
        }
        self.slots[at] = Some(used);
    }

    /// The versions of IP differ in the length of what is hashed.
    fn hash(&self, (remote, local): &Ends) -> u32 {
        let ports = u32::from(remote.port()) << 16 | u32::from(local.port());
        let hash = match (remote.ip(), local.ip()) {
            (IpAddr::V4(remote), IpAddr::V4(local)) => {
                let mut bytes = [0; 12];
                bytes[..4].copy_from_slice(&remote.octets());
                bytes[4..8].copy_from_slice(&local.octets());
                bytes[8..].copy_from_slice(&ports.to_le_bytes());
                self.key.hash(&bytes)
            }
            (remote, local) => {
                let mut hasher = self.key;
                for address in [remote, local] {
                    match address {
                        IpAddr::V4(address) => hasher.write(&address.to_ipv6_mapped().octets()),
                        IpAddr::V6(address) => hasher.write(&address.octets()),
                    }
                }
                hasher.write(&ports.to_le_bytes());
                hasher.finish()
            }
        };
        hash as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    /// Ends that a small number names: both versions of IP, few of each.
    fn ends(number: u16) -> Ends {
        let port = number / 4 + 1;
        let remote: IpAddr = match number % 4 {
            0 => [10, 0, 0, 1].into(),
            1 => [10, 0, 0, 3].into(),
            2 => [0xfd00, 0, 0, 0, 0, 0, 0, 1].into(),
            _ => [0xfd00, 0, 0, 0, 0, 0, 0, 3].into(),
        };
        let local: IpAddr = match number % 4 {
            0 | 1 => [10, 0, 0, 2].into(),
            _ => [0xfd00, 0, 0, 0, 0, 0, 0, 2].into(),
        };
        (SocketAddr::new(remote, port), SocketAddr::new(local, 80))
    }

    proptest! {
        #[test]
        fn it_equals_a_sorted_map(
            seed: u64,
            steps in proptest::collection::vec((0_u16..200, 0_u8..3), 1..600),
        ) {
            let mut flows = Flows::new(seed);
            let mut plain: BTreeMap<Ends, u32> = BTreeMap::new();
            // What the sockets know, by slot.
            let mut sockets: Vec<Ends> = Vec::new();
            for (number, kind) in steps {
                let ends = ends(number);
                let has_ends = |socket: u32| sockets.get(socket as usize) == Some(&ends);
                prop_assert_eq!(flows.find(&ends, has_ends), plain.get(&ends).copied());
                match (kind, plain.get(&ends)) {
                    (0, Some(&socket)) => {
                        flows.remove(&ends, socket);
                        plain.remove(&ends);
                    }
                    (0, None) => flows.remove(&ends, u32::MAX),
                    _ => {
                        let socket = sockets.len() as u32;
                        flows.insert(&ends, socket, has_ends);
                        sockets.push(ends);
                        plain.insert(ends, socket);
                    }
                }
            }
            for number in 0..200 {
                let ends = ends(number);
                let has_ends = |socket: u32| sockets.get(socket as usize) == Some(&ends);
                prop_assert_eq!(flows.find(&ends, has_ends), plain.get(&ends).copied());
            }
        }
    }
}
