//! NewReno: one packet per round trip, half the window at a loss (RFC 5681, RFC 6582).
//!
//! It decides from the packets that an ACK delivered and from the window alone; time plays no part.
//! Partial acknowledgments, the "New" of RFC 6582, are handled by loss recovery.

use base::Instant;

use super::{AckSample, CongestionControl, Window, growth_credit};

/// RFC 5681 in the integers of Linux (`tcp_reno_cong_avoid`).
#[derive(Clone, Debug)]
pub struct NewReno {
    byte_counting: bool,
}

impl NewReno {
    /// `byte_counting`: an ACK counts for the packets that it delivered (RFC 3465), not for one.
    #[must_use]
    pub const fn new(byte_counting: bool) -> Self {
        Self { byte_counting }
    }
}

impl CongestionControl for NewReno {
    fn name(&self) -> &'static str {
        "newreno"
    }

    fn on_ack(&mut self, window: &mut Window, ack: &AckSample) {
        let mut acked = growth_credit(ack, self.byte_counting);
        if acked == 0 || !window.may_grow() {
            return;
        }
        if window.in_slow_start() {
            acked = window.slow_start(acked);
        }
        if acked > 0 {
            window.grow_by_one_per(window.cwnd, acked);
        }
    }

    /// Half the window, at least 2 packets (Linux `tcp_reno_ssthresh`; RFC 5681 equation 4 takes
    /// half of what is in flight, which is the same where the window is used).
    fn on_congestion(&mut self, window: &Window, _now: Instant) -> u32 {
        (window.cwnd / 2).max(2)
    }

    fn on_timeout(&mut self, _window: &mut Window, _now: Instant) {}
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ack, limited};
    use super::*;

    #[test]
    fn window_after_acks() {
        // (cwnd, ssthresh, byte counting, packets per ACK, ACKs) and the window after them.
        let check = |case: (u32, u32, bool, u32, u32), expected: u32| {
            let (cwnd, ssthresh, byte_counting, packets, acks) = case;
            let mut window = limited(cwnd, ssthresh);
            let mut reno = NewReno::new(byte_counting);
            for _ in 0..acks {
                reno.on_ack(&mut window, &ack(packets));
            }
            assert_eq!(window.cwnd, expected, "{case:?}");
        };
        check((10, u32::MAX, true, 1, 10), 20);
        check((10, u32::MAX, true, 2, 5), 20);
        check((10, u32::MAX, false, 2, 5), 15);
        check((10, 12, true, 2, 5), 12);
        check((10, 10, true, 1, 9), 10);
        check((10, 10, true, 1, 10), 11);
        check((10, 10, true, 2, 5), 11);
        check((10, 10, false, 2, 9), 10);
    }

    #[test]
    fn threshold_is_half_and_at_least_two() {
        for (cwnd, expected) in [(100, 50), (11, 5), (3, 2), (1, 2)] {
            let threshold =
                NewReno::new(true).on_congestion(&limited(cwnd, u32::MAX), Instant::ZERO);
            assert_eq!(threshold, expected, "window {cwnd}");
        }
    }
}
