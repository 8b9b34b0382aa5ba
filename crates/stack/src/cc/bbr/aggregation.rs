//! ACKs that come in clumps: how much more than expected is acknowledged at once.
//!
//! Wi-Fi and receivers that merge packets acknowledge many packets together. A window of twice the
//! path would then stand idle between two clumps, so it is enlarged by what the clumps hold.

use base::Instant;

use super::super::micros;
use super::bandwidth::Bandwidth;

/// Rounds of half the window of the maximum (Linux `bbr_extra_acked_win_rtts`).
const ROUNDS: u32 = 5;
/// Packets of an epoch after which it begins anew (Linux `bbr_ack_epoch_acked_reset_thresh`).
const EPOCH_PACKETS_MAX: u64 = 1 << 20;
/// The window is enlarged by at most this much time (Linux `bbr_extra_acked_max_us`).
const EXTRA_US_MAX: u64 = 100_000;

/// The most that arrived ahead of the bandwidth in the last 5 to 10 rounds (Linux
/// `bbr_update_ack_aggregation`).
#[derive(Clone, Debug)]
pub(super) struct Aggregation {
    /// Maximum of the present half of the window, and of the one before.
    extra: [u32; 2],
    rounds: u32,
    epoch_start: Instant,
    epoch_acked: u64,
}

impl Aggregation {
    pub(super) const fn new(now: Instant) -> Self {
        Self {
            extra: [0; 2],
            rounds: 0,
            epoch_start: now,
            epoch_acked: 0,
        }
    }

    /// Begins to compare anew: nothing was in flight.
    pub(super) const fn restart(&mut self, now: Instant) {
        self.epoch_start = now;
        self.epoch_acked = 0;
    }

    pub(super) fn on_round(&mut self) {
        self.rounds += 1;
        if self.rounds >= ROUNDS {
            self.rounds = 0;
            self.extra = [0, self.extra[0]];
        }
    }

    /// `acked` packets were delivered; more than `cwnd` never counts.
    pub(super) fn update(&mut self, now: Instant, bandwidth: Bandwidth, acked: u32, cwnd: u32) {
        let acked = u64::from(acked);
        let mut expected = bandwidth.packets_in(micros(now.since(self.epoch_start)));
        if self.epoch_acked <= expected || self.epoch_acked + acked >= EPOCH_PACKETS_MAX {
            self.restart(now);
            expected = 0;
        }
        self.epoch_acked = (self.epoch_acked + acked).min(EPOCH_PACKETS_MAX - 1);
        let extra = self.epoch_acked.saturating_sub(expected).min(cwnd.into());
        self.extra[0] = self.extra[0].max(u32::try_from(extra).unwrap_or(u32::MAX));
    }

    /// Packets by which the window is enlarged.
    pub(super) fn extra_packets(&self, bandwidth: Bandwidth) -> u64 {
        let most = bandwidth.packets_in(EXTRA_US_MAX);
        most.min(self.extra[0].max(self.extra[1]).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clumps_enlarge_the_window_for_ten_rounds() {
        // 1000 packets per second; clumps of 20 every 20 ms, then single packets.
        let bandwidth = Bandwidth::of(1_000, 1_000_000);
        let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        let mut aggregation = Aggregation::new(at(0));
        for clump in 1..=10 {
            aggregation.update(at(clump * 20), bandwidth, 20, 100);
        }
        let extra = aggregation.extra_packets(bandwidth);
        assert!((20..=30).contains(&extra), "{extra}");
        for packet in 1..=100 {
            aggregation.update(at(300 + packet), bandwidth, 1, 100);
        }
        for round in 1..10 {
            aggregation.on_round();
            assert_eq!(aggregation.extra_packets(bandwidth), extra, "round {round}");
        }
        aggregation.on_round();
        assert_eq!(aggregation.extra_packets(bandwidth), 0);
    }

    #[test]
    fn bounded_by_window_and_time() {
        let bandwidth = Bandwidth::of(1_000, 1_000_000);
        let mut aggregation = Aggregation::new(Instant::ZERO);
        aggregation.update(Instant::ZERO, bandwidth, 5_000, 60);
        assert_eq!(aggregation.extra_packets(bandwidth), 60);
        aggregation.update(Instant::ZERO, bandwidth, 5_000, 6_000);
        assert_eq!(aggregation.extra_packets(bandwidth), 99);
    }
}
