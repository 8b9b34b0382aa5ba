//! Windows and ACKs for the tests of the controllers.

use core::time::Duration;

use base::{CongestionState, Instant, Rate};

use super::{AckSample, Window};

/// A window that was used.
pub(super) fn limited(cwnd: u32, ssthresh: u32) -> Window {
    let mut window = Window::new(cwnd);
    window.ssthresh = ssthresh;
    window.is_limited = true;
    window
}

/// An ACK of `packets` in state Open.
pub(super) fn ack(packets: u32) -> AckSample {
    let rtt = Some(Duration::from_millis(40));
    AckSample {
        now: Instant::from_nanos(1_000_000_000),
        acked: packets,
        delivered: packets,
        delivered_total: u64::from(packets),
        lost: 0,
        is_reordered: false,
        prior_in_flight: packets,
        in_flight: 0,
        rtt,
        srtt: rtt,
        min_rtt: rtt,
        rate: None,
        una: 1,
        next: 1,
        state: CongestionState::Open,
        ece: false,
        mss: 1448,
        gso_max: 65_536,
        pacing_rate: Rate::from_bits_per_second(100_000_000),
        is_paced: false,
    }
}
