//! Initial sequence numbers and offsets of timestamps (RFC 6528, RFC 7323 section 5.4).
//!
//! Decides both from the ends of the connection, the time and a key, so that off-path attackers
//! cannot guess them, and a new connection with the same ends begins above its predecessor.

use core::net::{IpAddr, SocketAddr};

use base::{Instant, SeqNum};

use crate::keyed_hash::{KeyedHash, Keys};

/// RFC 6528 section 3: the clock counts up every 4 microseconds.
const NANOS_PER_COUNT: u64 = 4_000;

/// Generator of initial sequence numbers.
#[derive(Debug)]
pub(crate) struct InitialSequence {
    sequence: KeyedHash,
    timestamps: KeyedHash,
}

impl InitialSequence {
    /// The numbers of the host with these keys.
    pub(crate) fn new(keys: impl Into<Keys>) -> Self {
        let keys = keys.into();
        Self {
            sequence: KeyedHash::new(keys, "initial sequence"),
            timestamps: KeyedHash::new(keys, "timestamp offset"),
        }
    }

    /// Our first sequence number of a connection that is opened at `now`.
    //= https://www.rfc-editor.org/rfc/rfc6528#section-3
    //# ISN = M + F(localip, localport, remoteip, remoteport, secretkey)
    pub(crate) fn next(&self, now: Instant, local: SocketAddr, remote: SocketAddr) -> SeqNum {
        let clock = now.as_nanos() / NANOS_PER_COUNT;
        let hash = self.sequence.of_ends(local, remote, 0);
        SeqNum::new(clock.wrapping_add(hash) as u32)
    }

    /// Offset of timestamps from our clock: one per pair of hosts, so that timestamps of successive
    /// connections keep increasing, on which the reuse of TIME-WAIT relies (RFC 6191; Linux
    /// `secure_tcp_ts_off`).
    pub(crate) fn timestamp_offset(&self, local: IpAddr, remote: IpAddr) -> u32 {
        self.timestamps.of_hosts(local, remote) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    fn end(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn same_ends_begin_higher_by_the_clock() {
        let isn = InitialSequence::new(7);
        let (local, remote) = (end("10.0.0.1:1000"), end("10.0.0.2:80"));
        let start = Instant::from_nanos(1 << 40);
        let first = isn.next(start, local, remote);
        let later = isn.next(start + Duration::from_secs(1), local, remote);
        assert_eq!(later.bytes_since(first), 250_000);
        assert_eq!(InitialSequence::new(7).next(start, local, remote), first);
    }

    #[test]
    fn other_ends_and_other_seeds_begin_elsewhere() {
        let (local, remote) = (end("10.0.0.1:1000"), end("10.0.0.2:80"));
        let isn = |seed, local, remote| {
            InitialSequence::new(seed)
                .next(Instant::ZERO, local, remote)
                .number()
        };
        let mut seen = alloc::vec![isn(7, local, remote), isn(8, local, remote)];
        for port in 1001..1050 {
            seen.push(isn(7, (local.ip(), port).into(), remote));
        }
        let count = seen.len();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), count);
    }

    #[test]
    fn timestamp_offsets_belong_to_hosts() {
        let isn = InitialSequence::new(7);
        let hosts = |local, remote| isn.timestamp_offset(end(local).ip(), end(remote).ip());
        let first = hosts("10.0.0.1:1", "10.0.0.2:1");
        assert_eq!(hosts("10.0.0.1:2", "10.0.0.2:3"), first);
        assert_ne!(hosts("10.0.0.2:1", "10.0.0.1:1"), first);
        assert_ne!(hosts("[fd00::1]:1", "[fd00::2]:1"), first);
    }
}
