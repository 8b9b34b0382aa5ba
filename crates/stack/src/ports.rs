//! Ephemeral ports (RFC 6056).
//!
//! Decides the port of a connection that names none, from its other three coordinates, a key and
//! which ports are free; the caller knows whether one is free.

use core::net::{IpAddr, SocketAddr};

use base::Rng;

use crate::keyed_hash::{KeyedHash, Keys};

/// Counters that destinations share (RFC 6056 section 3.3.4 proposes a small table).
const COUNTERS: usize = 64;
/// Largest step between two ports of one destination; hides how many connections there were
/// (RFC 6056 section 3.3.5).
const STEP_MAX: u64 = 8;

/// Picks ports by the double hash of RFC 6056 section 3.3.4 with the random steps of its section
/// 3.3.5: towards one destination ports are not reused soon, and the ports of one destination do
/// not reveal those of another.
#[derive(Debug)]
pub(crate) struct EphemeralPorts {
    offset: KeyedHash,
    counter: KeyedHash,
    counters: [u32; COUNTERS],
    steps: Rng,
}

impl EphemeralPorts {
    /// The ports of the host with these keys.
    pub(crate) fn new(keys: impl Into<Keys>) -> Self {
        let keys = keys.into();
        Self {
            offset: KeyedHash::new(keys, "port offset"),
            counter: KeyedHash::new(keys, "port counter"),
            counters: [0; COUNTERS],
            steps: keys.rng("port steps"),
        }
    }

    /// A free port of `range` (first and last) towards `remote`; `None` where all are taken. Asks
    /// for each port of the range once at most.
    pub(crate) fn pick(
        &mut self,
        range: (u16, u16),
        local: IpAddr,
        remote: SocketAddr,
        is_free: impl Fn(u16) -> bool,
    ) -> Option<u16> {
        // Port 0 stands for "any".
        let (first, last) = (u32::from(range.0.max(1)), u32::from(range.1));
        let ports = (last + 1).checked_sub(first).filter(|&ports| ports > 0)?;
        let local = SocketAddr::from((local, 0));
        let offset = self.offset.of_ends(local, remote, 0) as u32;
        let index = self.counter.of_ends(local, remote, 0) as usize % COUNTERS;
        let step = 1 + self.steps.below(STEP_MAX) as u32;
        let begin = self.counters[index].wrapping_add(step);
        for tried in 0..ports {
            let place = offset.wrapping_add(begin).wrapping_add(tried);
            let port = u16::try_from(first + place % ports).expect("within a range of u16");
            if is_free(port) {
                self.counters[index] = begin.wrapping_add(tried);
                return Some(port);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    const LOCAL: IpAddr = IpAddr::V4(core::net::Ipv4Addr::new(10, 0, 0, 1));

    fn remote(port: u16) -> SocketAddr {
        ([10, 0, 0, 2], port).into()
    }

    #[test]
    fn every_free_port_is_found_and_then_none() {
        let mut ports = EphemeralPorts::new(3);
        let mut used = BTreeSet::new();
        for _ in 0..100 {
            let port = ports
                .pick((40_000, 40_099), LOCAL, remote(80), |port| {
                    !used.contains(&port)
                })
                .expect("one is free");
            assert!((40_000..40_100).contains(&port) && used.insert(port));
        }
        let is_free = |port| !used.contains(&port);
        assert_eq!(
            ports.pick((40_000, 40_099), LOCAL, remote(80), is_free),
            None
        );
        // Towards another destination they are free.
        assert!(
            ports
                .pick((40_000, 40_099), LOCAL, remote(81), |_| true)
                .is_some()
        );
    }

    #[test]
    fn ports_of_one_destination_are_not_reused_soon_and_say_nothing_of_another() {
        let mut ports = EphemeralPorts::new(3);
        let mut picks = |destination: u16, count: usize| -> Vec<u16> {
            (0..count)
                .filter_map(|_| ports.pick((32_768, 60_999), LOCAL, remote(destination), |_| true))
                .collect()
        };
        let first = picks(80, 1000);
        assert_eq!(first.iter().collect::<BTreeSet<_>>().len(), 1000);
        let gaps: Vec<_> = first
            .windows(2)
            .map(|two| two[1].abs_diff(two[0]))
            .collect();
        assert!(gaps.iter().filter(|&&gap| gap <= 8).count() >= 998);
        let begins: BTreeSet<_> = (81..101).map(|to| picks(to, 1)[0] / 64).collect();
        assert!(begins.len() > 15, "20 destinations begin at {begins:?}");
        let again = EphemeralPorts::new(3).pick((32_768, 60_999), LOCAL, remote(80), |_| true);
        assert_eq!(again, Some(first[0]));
    }

    #[test]
    fn odd_ranges() {
        let mut ports = EphemeralPorts::new(3);
        let mut check = |range, expected| {
            assert_eq!(ports.pick(range, LOCAL, remote(80), |_| true), expected);
        };
        check((7, 7), Some(7));
        check((0, 1), Some(1));
        check((0, 0), None);
        check((8, 7), None);
        check((9, 7), None);
        check((65_535, 65_535), Some(65_535));
    }

    proptest! {
        #[test]
        fn a_port_lies_in_its_range_and_is_free(
            range: (u16, u16),
            seed: u64,
            free in prop::collection::btree_set(any::<u16>(), 0..20),
        ) {
            let picked = EphemeralPorts::new(seed)
                .pick(range, LOCAL, remote(80), |port| free.contains(&port));
            let possible = free.range(range.0.max(1)..).find(|&&port| port <= range.1);
            prop_assert_eq!(picked.is_some(), possible.is_some());
            if let Some(port) = picked {
                prop_assert!(free.contains(&port) && (range.0..=range.1).contains(&port));
            }
        }
    }
}
