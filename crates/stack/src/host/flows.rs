//! Lookup of the socket for packets between two ends.
//!
//! A table by a keyed hash of the ends, so that a peer cannot choose ports that collide. A lookup
//! compares the ends themselves, which the sockets know. Nothing iterates over it.

use core::hash::Hasher as _;
use core::net::{IpAddr, SocketAddr};

use hashbrown::HashTable;
use siphasher::sip::SipHasher13;

use crate::keyed_hash::Keys;
use crate::packet::Segment;

/// The two ends of a connection: the remote one first.
pub(super) type Ends = (SocketAddr, SocketAddr);

/// A socket and the hash of its ends, which a table that grows needs again.
#[derive(Clone, Copy, Debug)]
struct Used {
    hash: u64,
    socket: u32,
}

/// The ends of a packet, as it has them, and the socket that it was for.
#[derive(Clone, Copy, Debug)]
struct Recent {
    source: IpAddr,
    destination: IpAddr,
    source_port: u16,
    destination_port: u16,
    socket: u32,
}

/// The table.
#[derive(Debug)]
pub(super) struct Flows {
    key: SipHasher13,
    sockets: HashTable<Used>,
    /// The latest lookup: packets of a connection come in trains.
    recent: Option<Recent>,
}

impl Flows {
    /// An empty table with one of these keys.
    pub(super) fn new(keys: impl Into<Keys>) -> Self {
        let (first, second) = keys.into().key("flows");
        Self {
            key: SipHasher13::new_with_keys(first, second),
            sockets: HashTable::new(),
            recent: None,
        }
    }

    /// The socket of a segment between the same ends as that of the latest lookup for a packet.
    #[inline]
    pub(super) fn recent(
        &self,
        source: IpAddr,
        destination: IpAddr,
        segment: &Segment,
    ) -> Option<u32> {
        let recent = self.recent.as_ref()?;
        let is_same = segment.source_port == recent.source_port
            && segment.destination_port == recent.destination_port
            && source == recent.source
            && destination == recent.destination;
        is_same.then_some(recent.socket)
    }

    /// No lookup for a packet came before.
    pub(super) const fn forget_recent(&mut self) {
        self.recent = None;
    }

    /// The socket of the ends of a packet, as [`Flows::find`]; [`Flows::recent`] from then on.
    #[inline(never)]
    pub(super) fn find_for_packet(
        &mut self,
        ends: &Ends,
        has_ends: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let socket = self.find(ends, has_ends)?;
        let (remote, local) = ends;
        self.recent = Some(Recent {
            source: remote.ip(),
            destination: local.ip(),
            source_port: remote.port(),
            destination_port: local.port(),
            socket,
        });
        Some(socket)
    }

    /// The socket of `ends`; `has_ends` says whether they are those of a socket.
    pub(super) fn find(&self, ends: &Ends, has_ends: impl Fn(u32) -> bool) -> Option<u32> {
        let is_it = |used: &Used| has_ends(used.socket);
        let found = self.sockets.find(self.hash(ends), is_it)?;
        Some(found.socket)
    }

    /// From now on `ends` are those of `socket`, and of no other.
    pub(super) fn insert(&mut self, ends: &Ends, socket: u32, has_ends: impl Fn(u32) -> bool) {
        self.forget_recent();
        let hash = self.hash(ends);
        let used = Used { hash, socket };
        let is_it = |used: &Used| has_ends(used.socket);
        self.sockets
            .entry(hash, is_it, |used| used.hash)
            .and_modify(|there| *there = used)
            .or_insert(used);
    }

    /// Removes `ends` if they belong to `socket`.
    pub(super) fn remove(&mut self, ends: &Ends, socket: u32) {
        self.forget_recent();
        let is_it = |used: &Used| used.socket == socket;
        if let Ok(found) = self.sockets.find_entry(self.hash(ends), is_it) {
            found.remove();
        }
    }

    /// The versions of IP differ in the length of what is hashed.
    fn hash(&self, (remote, local): &Ends) -> u64 {
        let ports = u32::from(remote.port()) << 16 | u32::from(local.port());
        match (remote.ip(), local.ip()) {
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
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    /// Ends from a small number: both versions of IP, few of each.
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
                prop_assert_eq!(
                    flows.find_for_packet(&ends, has_ends),
                    plain.get(&ends).copied()
                );
                let segment = Segment {
                    source_port: ends.0.port(),
                    destination_port: ends.1.port(),
                    ..Segment::default()
                };
                let recent = flows.recent(ends.0.ip(), ends.1.ip(), &segment);
                prop_assert!(recent.is_none() || recent == plain.get(&ends).copied());
                prop_assert!(recent.is_some() || !plain.contains_key(&ends));
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
