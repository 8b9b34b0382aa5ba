//! What other connections to the same hosts carry the same way, such as those of other processes:
//! they may share the path, and lose what the measured ones gain.

use std::collections::BTreeSet;

use doctor::{Recording, Track};

use super::{Carried, Flows};

/// Payload of the others; `None` where none carried any. Of one that was seen late nobody knows
/// what it had carried before.
pub(super) fn bytes(flows: &Flows<'_>, recording: &Recording) -> Option<u64> {
    let of_own = || flows.tracks.iter();
    let own: BTreeSet<u64> = of_own().map(|track| track.cookie).collect();
    // On one machine, the other ends of the measured ones are in the list, too.
    let ends: BTreeSet<_> = of_own().map(|track| track.key.reversed()).collect();
    let networks: BTreeSet<_> = of_own().map(|track| track.key.remote_network()).collect();
    let is_other = |track: &&Track| {
        let is_own = own.contains(&track.cookie) || ends.contains(&track.key);
        !is_own && networks.contains(&track.key.remote_network())
    };
    let others = recording.flows.iter().filter(is_other);
    let carried = others.map(|track| match flows.is_download() {
        true => Carried::received(track, true).bytes,
        false => Carried::sent(track, true).bytes,
    });
    Some(carried.sum()).filter(|bytes| *bytes > 0)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use base::{FlowKey, FlowSample, Instant};
    use core::time::Duration;

    use super::*;
    use crate::measure::measure_of;

    /// A connection that sends 1 kB, or receives so much, in each of ten looks, and has done more.
    fn track(local: u16, remote: ([u8; 4], u16), sends: bool) -> Track {
        let key = FlowKey {
            local: ([10, 0, 0, 1], local).into(),
            remote: remote.into(),
        };
        let look = |look: u64| {
            let at = Instant::ZERO + Duration::from_millis(100) * look as u32;
            let mut sample = FlowSample::empty(at, key);
            let counted = Some(1_000_000 + look * 1000);
            match sends {
                true => sample.bytes_acked = counted,
                false => sample.bytes_received = counted,
            }
            Arc::new(sample)
        };
        Track {
            key,
            cookie: local.into(),
            owners: Vec::new(),
            samples: (0..=10).map(look).collect(),
            ended: false,
            interface: None,
            options_error: None,
        }
    }

    #[test]
    fn others_to_the_same_hosts_are_counted_that_carry_the_same_way() {
        let host = ([10, 0, 1, 2], 443);
        let check = |others: Vec<Track>, expected: Option<u64>| {
            let flows = std::iter::once(track(1, host, true)).chain(others);
            let recording = Recording {
                flows: flows.collect(),
                began: Instant::ZERO,
                ended: Instant::ZERO + Duration::from_secs(1),
                ..Recording::default()
            };
            let measure = measure_of(&recording, |track| track.cookie == 1);
            assert_eq!(measure.beside_bps, expected);
            assert_eq!(measure.goodput_bps, 80_000);
        };
        check(Vec::new(), None);
        check(
            vec![track(2, host, true), track(3, host, true)],
            Some(160_000),
        );
        check(vec![track(2, ([10, 0, 1, 9], 80), true)], Some(80_000));
        check(vec![track(2, ([10, 0, 2, 2], 443), true)], None);
        check(vec![track(2, host, false)], None);
        // The other end of the one that is measured.
        let mut end = track(2, host, true);
        end.key = track(1, host, true).key.reversed();
        check(vec![end], None);
    }
}
