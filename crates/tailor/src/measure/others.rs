//! What other connections to the same hosts carry meanwhile, such as those of other processes: they
//! may share the path, and lose what the measured ones gain.
//!
//! They are only counted, apart from the recording: they are neither diagnosed nor changed.

use std::collections::{BTreeMap, BTreeSet};

use base::{FlowKey, FlowSample, Instant};
use doctor::{Recording, Track};

use super::{Flows, rate};

/// Payload by the cookies of sockets, at one moment.
#[derive(Clone, Debug)]
pub struct Counters {
    at: Instant,
    /// Sent and acknowledged, and received.
    bytes: BTreeMap<u64, [u64; 2]>,
}

/// What each connection of a namespace has carried between two moments.
#[derive(Clone, Debug, Default)]
pub struct Others {
    time: core::time::Duration,
    carried: Vec<(u64, FlowKey, [u64; 2])>,
}

fn counted(sample: &FlowSample) -> [u64; 2] {
    [sample.bytes_acked, sample.bytes_received].map(Option::unwrap_or_default)
}

impl Counters {
    /// Nothing counted before `at`.
    #[must_use]
    pub const fn new(at: Instant) -> Self {
        Self {
            at,
            bytes: BTreeMap::new(),
        }
    }

    /// A connection that was there.
    pub fn note(&mut self, sample: &FlowSample) {
        let cookie = sample.cookie.unwrap_or_default();
        self.bytes.insert(cookie, counted(sample));
    }
}

impl Others {
    /// Since `before` was counted; [`Others::note`] takes the connections that are there at `now`.
    #[must_use]
    pub fn since(before: &Counters, now: Instant) -> Self {
        Self {
            time: now.since(before.at),
            carried: Vec::new(),
        }
    }

    /// A connection that is there; one that was not has been opened in between.
    pub fn note(&mut self, before: &Counters, sample: &FlowSample) {
        let cookie = sample.cookie.unwrap_or_default();
        let had = before.bytes.get(&cookie).copied().unwrap_or_default();
        let has = counted(sample);
        let carried = [0, 1].map(|way: usize| has[way].saturating_sub(had[way]));
        if carried != [0; 2] {
            self.carried.push((cookie, sample.key, carried));
        }
    }

    /// Bit/s of those that lead to the networks of the wanted ones and carry the same way; `None`
    /// where none did.
    pub fn bps_beside(
        &self,
        recording: &Recording,
        wanted: impl Fn(&Track) -> bool,
    ) -> Option<u64> {
        let flows = Flows::of(recording, wanted);
        let own: BTreeSet<u64> = flows.tracks.iter().map(|track| track.cookie).collect();
        // On one machine, the other ends of the wanted ones are in the list, too.
        let ends: BTreeSet<FlowKey> = (flows.tracks.iter())
            .map(|track| track.key.reversed())
            .collect();
        let networks: BTreeSet<_> = (flows.tracks.iter())
            .map(|track| track.key.remote_network())
            .collect();
        let way = usize::from(flows.is_download());
        let beside = self.carried.iter().filter(|(cookie, key, _)| {
            let is_own = own.contains(cookie) || ends.contains(key);
            !is_own && networks.contains(&key.remote_network())
        });
        let bytes = beside.map(|(_, _, carried)| carried[way]).sum();
        Some(rate(bytes, self.time)).filter(|bps| *bps > 0)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use core::time::Duration;

    use super::*;

    const HOST: ([u8; 4], u16) = ([10, 0, 1, 2], 443);

    /// A connection that has carried `kilobytes` more than a megabyte in its way.
    fn sample(local: u16, remote: ([u8; 4], u16), sends: bool, kilobytes: u64) -> FlowSample {
        let key = FlowKey {
            local: ([10, 0, 0, 1], local).into(),
            remote: remote.into(),
        };
        let mut sample = FlowSample::empty(Instant::ZERO, key);
        sample.cookie = Some(local.into());
        let counted = Some(1_000_000 + 1000 * kilobytes);
        match sends {
            true => sample.bytes_acked = counted,
            false => sample.bytes_received = counted,
        }
        sample
    }

    fn own() -> Recording {
        let look = |kilobytes| Arc::new(sample(1, HOST, true, kilobytes));
        let track = Track {
            key: look(0).key,
            cookie: 1,
            owners: Vec::new(),
            samples: [look(0), look(10)].into_iter().collect(),
            ended: false,
            interface: None,
            options_error: None,
        };
        Recording {
            flows: vec![track],
            ..Recording::default()
        }
    }

    #[test]
    fn others_to_the_same_hosts_are_counted_that_carry_the_same_way() {
        let check = |others: &[fn(u64) -> FlowSample], expected: Option<u64>| {
            let mut before = Counters::new(Instant::ZERO);
            let own = sample(1, HOST, true, 0);
            before.note(&own);
            for other in others {
                before.note(&other(0));
            }
            let mut seen = Others::since(&before, Instant::ZERO + Duration::from_secs(1));
            seen.note(&before, &sample(1, HOST, true, 10));
            for other in others {
                seen.note(&before, &other(10));
            }
            assert_eq!(seen.bps_beside(&self::own(), |_| true), expected);
        };
        check(&[], None);
        let to_host = |kilobytes| sample(2, HOST, true, kilobytes);
        check(
            &[to_host, |kilobytes| sample(3, HOST, true, kilobytes)],
            Some(160_000),
        );
        check(
            &[|kilobytes| sample(2, ([10, 0, 1, 9], 80), true, kilobytes)],
            Some(80_000),
        );
        check(
            &[|kilobytes| sample(2, ([10, 0, 2, 2], 443), true, kilobytes)],
            None,
        );
        check(&[|kilobytes| sample(2, HOST, false, kilobytes)], None);
        // The other end of the one that is measured.
        check(
            &[|kilobytes| {
                let mut end = sample(2, HOST, true, kilobytes);
                end.key = sample(1, HOST, true, 0).key.reversed();
                end
            }],
            None,
        );
    }

    #[test]
    fn of_a_connection_that_was_opened_in_between_all_counts() {
        let before = Counters::new(Instant::ZERO);
        let mut seen = Others::since(&before, Instant::ZERO + Duration::from_secs(8));
        seen.note(&before, &sample(2, HOST, true, 0));
        assert_eq!(seen.bps_beside(&own(), |_| true), Some(1_000_000));
    }
}
