//! SYN cookies (RFC 4987 section 3.6 and appendix A): a listener that keeps no state of a SYN gets
//! what it needs from the ACK of its SYN-ACK.
//!
//! The cookie is the sequence number of the SYN-ACK. It holds the period of 64 s in which it was
//! made (5 bits), the peer's MSS (3 bits of an index) and 24 bits of a keyed hash over all of that
//! and the connection. Options other than the MSS travel in the lowest bits of the timestamp, which
//! the peer echoes; without timestamps they are lost.

use core::net::SocketAddr;

use base::{Instant, SeqNum};

use crate::keyed_hash::{KeyedHash, Keys};

/// How long one value of the counter is used.
const PERIOD_NANOS: u64 = 64 * 1_000_000_000;
/// Periods that a cookie is good for, the one in which it was made included (Linux
/// `MAX_SYNCOOKIE_AGE`: 2).
const PERIODS_MAX: u64 = 2;
const COUNTER_MASK: u64 = 0x1f;
const HASH_MASK: u64 = 0xff_ffff;
/// MSS values that three bits encode: common ones, and safe ones below them.
const MSS: [u16; 8] = [64, 536, 1220, 1300, 1400, 1440, 1460, 8960];

/// Lowest bits of a timestamp that hold options.
const OPTION_MASK: u32 = 0x3f;
const WINDOW_SCALE_MASK: u32 = 0xf;
/// The peer offered no scaling; no shift exceeds 14 (RFC 7323 section 2.3).
const NO_WINDOW_SCALE: u32 = 0xf;
const SACK_BIT: u32 = 1 << 4;
const ECN_BIT: u32 = 1 << 5;

/// Makes and validates cookies.
#[derive(Debug)]
pub(crate) struct Cookies {
    hash: KeyedHash,
}

/// Options offered in the peer's SYN, as far as a timestamp can hold them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CookieOptions {
    /// Shift of its windows.
    pub(crate) window_scale: Option<u8>,
    /// SACK permitted.
    pub(crate) sack: bool,
    /// ECN requested by the peer, and agreed.
    pub(crate) ecn: bool,
}

impl Cookies {
    /// The cookies of the host with these keys.
    pub(crate) fn new(keys: impl Into<Keys>) -> Self {
        let keys = keys.into();
        Self {
            hash: KeyedHash::new(keys, "syn cookies"),
        }
    }

    /// The sequence number of a SYN-ACK that answers a SYN with `peer_isn` and this MSS option.
    pub(crate) fn make(
        &self,
        now: Instant,
        local: SocketAddr,
        remote: SocketAddr,
        peer_isn: SeqNum,
        mss: u16,
    ) -> SeqNum {
        let index = MSS.iter().rposition(|&known| known <= mss).unwrap_or(0);
        let period = now.as_nanos() / PERIOD_NANOS;
        // The peer's own number keeps ours from standing still within a period.
        peer_isn + self.cookie((local, remote), peer_isn, period, index as u64)
    }

    /// The MSS of the peer, if `ack` is a valid, recent cookie for this connection. `peer_isn` is
    /// the number before the one of the acknowledging segment.
    pub(crate) fn check(
        &self,
        now: Instant,
        local: SocketAddr,
        remote: SocketAddr,
        peer_isn: SeqNum,
        ack: SeqNum,
    ) -> Option<u16> {
        let cookie = (ack - 1).bytes_since(peer_isn);
        let period = now.as_nanos() / PERIOD_NANOS;
        let made = u64::from(cookie >> 27);
        let age = period.wrapping_sub(made) & COUNTER_MASK;
        if age >= PERIODS_MAX {
            return None;
        }
        let period = period.checked_sub(age)?;
        let index = u64::from(cookie >> 24) & 7;
        let expected = self.cookie((local, remote), peer_isn, period, index);
        (cookie == expected).then(|| MSS[index as usize])
    }

    fn cookie(
        &self,
        (local, remote): (SocketAddr, SocketAddr),
        peer_isn: SeqNum,
        period: u64,
        index: u64,
    ) -> u32 {
        // 29 bits are enough for the periods of the 584 years of an `Instant`.
        let known = period << 35 | index << 32 | u64::from(peer_isn.number());
        let hash = self.hash.of_ends(local, remote, known);
        ((period & COUNTER_MASK) << 27 | index << 24 | hash & HASH_MASK) as u32
    }
}

/// Our timestamp for the SYN-ACK, `clock` (without the offset of the connection) or a little less,
/// with the options in its lowest bits (Linux `cookie_init_timestamp`).
pub(crate) const fn encode_options(clock: u32, options: CookieOptions) -> u32 {
    let CookieOptions {
        window_scale,
        sack,
        ecn,
    } = options;
    let mut bits = match window_scale {
        Some(shift) if shift <= 14 => shift as u32,
        // RFC 7323 section 2.3: a larger shift counts as 14.
        Some(_) => 14,
        None => NO_WINDOW_SCALE,
    };
    if sack {
        bits |= SACK_BIT;
    }
    if ecn {
        bits |= ECN_BIT;
    }
    let stamp = clock & !OPTION_MASK | bits;
    // A timestamp in the future would make the next real one look old (RFC 7323 section 5).
    if bits > clock & OPTION_MASK {
        stamp.wrapping_sub(OPTION_MASK + 1)
    } else {
        stamp
    }
}

/// The options, from our timestamp (without the offset) as the peer echoes it.
pub(crate) const fn decode_options(echo: u32) -> CookieOptions {
    let window_scale = match echo & WINDOW_SCALE_MASK {
        NO_WINDOW_SCALE => None,
        shift => Some(shift as u8),
    };
    CookieOptions {
        window_scale,
        sack: echo & SACK_BIT != 0,
        ecn: echo & ECN_BIT != 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;
    use proptest::prelude::*;

    fn ends() -> (SocketAddr, SocketAddr) {
        (([10, 0, 0, 1], 80).into(), ([10, 0, 0, 2], 40_000).into())
    }

    #[test]
    fn the_mss_comes_back_rounded_down() {
        let (local, remote) = ends();
        let cookies = Cookies::new(5);
        let check = |mss, expected| {
            let isn = cookies.make(Instant::ZERO, local, remote, SeqNum::new(9), mss);
            let found = cookies.check(Instant::ZERO, local, remote, SeqNum::new(9), isn + 1);
            assert_eq!(found, Some(expected), "MSS {mss}");
        };
        check(0, 64);
        check(535, 64);
        check(536, 536);
        check(1459, 1440);
        check(1460, 1460);
        check(8948, 1460);
        check(8960, 8960);
        check(65_535, 8960);
    }

    #[test]
    fn cookies_age_and_belong_to_one_connection() {
        let (local, remote) = ends();
        let cookies = Cookies::new(5);
        let seconds = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        let peer = SeqNum::new(u32::MAX);
        let isn = cookies.make(seconds(100), local, remote, peer, 1460);
        let check = |at, remote, peer, ack| cookies.check(at, local, remote, peer, ack);
        assert_eq!(check(seconds(100), remote, peer, isn + 1), Some(1460));
        // Made in the period from 64 to 128 s, good until 192 s.
        assert_eq!(check(seconds(191), remote, peer, isn + 1), Some(1460));
        assert_eq!(check(seconds(192), remote, peer, isn + 1), None);
        // The same five bits again.
        assert_eq!(check(seconds(100 + 32 * 64), remote, peer, isn + 1), None);
        assert_eq!(check(seconds(63), remote, peer, isn + 1), None);
        assert_eq!(check(seconds(100), remote, peer, isn + 2), None);
        assert_eq!(check(seconds(100), remote, peer + 1, isn + 1), None);
        let other = (remote.ip(), 40_001).into();
        assert_eq!(check(seconds(100), other, peer, isn + 1), None);
        let stranger = Cookies::new(6);
        assert_eq!(
            stranger.check(seconds(100), local, remote, peer, isn + 1),
            None
        );
    }

    proptest! {
        #[test]
        fn guesses_miss(peer: u32, acks in prop::collection::vec(any::<u32>(), 100)) {
            let (local, remote) = ends();
            let cookies = Cookies::new(5);
            let now = Instant::from_nanos(1 << 45);
            let hits = acks.iter().filter(|&&ack| {
                let (peer, ack) = (SeqNum::new(peer), SeqNum::new(ack));
                cookies.check(now, local, remote, peer, ack).is_some()
            });
            prop_assert!(hits.count() <= 1);
        }

        #[test]
        fn cookies_are_known_again(peer: u32, mss: u16, nanos: u64, later in 0_u64..64) {
            let (local, remote) = ends();
            let cookies = Cookies::new(5);
            let now = Instant::from_nanos(nanos);
            let peer = SeqNum::new(peer);
            let isn = cookies.make(now, local, remote, peer, mss);
            let later = now + Duration::from_secs(later);
            let found = cookies.check(later, local, remote, peer, isn + 1);
            prop_assert!(found.is_some_and(|found| found <= mss.max(64)));
        }

        #[test]
        fn options_travel_in_a_timestamp_that_is_not_of_the_future(
            clock: u32,
            window_scale in prop::option::of(0_u8..=14),
            sack: bool,
            ecn: bool,
        ) {
            let options = CookieOptions { window_scale, sack, ecn };
            let stamp = encode_options(clock, options);
            prop_assert_eq!(decode_options(stamp), options);
            prop_assert!(clock.wrapping_sub(stamp) < 64);
        }
    }

    #[test]
    fn shifts_above_14_count_as_14() {
        let options = CookieOptions {
            window_scale: Some(255),
            ..CookieOptions::default()
        };
        let found = decode_options(encode_options(1000, options));
        assert_eq!(found.window_scale, Some(14));
    }
}
