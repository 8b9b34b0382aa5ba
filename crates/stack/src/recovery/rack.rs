//! RACK: a segment is lost when one that left later has arrived, and its own time is over.
//!
//! Keeps the latest delivered segment and the width of the reordering window. RFC 8985 sections 6
//! and 3.3.2; Linux `tcp_rack_advance`, `tcp_rack_reo_wnd`, `tcp_rack_update_reo_wnd`; rule 11.4.

use core::time::Duration;

use base::Instant;

/// Recoveries after which a widened window becomes narrow again (RFC 8985 section 6.2.4).
const PERSISTENCE: u32 = 16;
/// Widest window, in quarters of the least round-trip time (Linux: 8 bits).
const STEPS_MAX: u32 = 255;

/// State of RACK.
#[derive(Clone, Debug)]
pub(super) struct Rack {
    /// When the segment left that was sent last among the delivered ones, and its end.
    pub(super) latest: (Instant, u64),
    /// Its round-trip time.
    rtt_nanos: u64,
    /// Something was delivered since losses were last looked for.
    pub(super) is_advanced: bool,
    steps: u32,
    persistence: u32,
    dsack_seen: bool,
    /// Packets delivered when the window was last widened.
    widened_at: u64,
}

impl Default for Rack {
    fn default() -> Self {
        Self {
            latest: (Instant::ZERO, 0),
            rtt_nanos: 0,
            is_advanced: false,
            steps: 1,
            persistence: 0,
            dsack_seen: false,
            widened_at: 0,
        }
    }
}

/// Input to the reordering window.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReorderInput {
    /// Reordering was seen on this connection.
    pub(super) reordering_seen: bool,
    /// A recovery runs (Recovery or Loss).
    pub(super) is_recovering: bool,
    /// Packets SACKed.
    pub(super) sacked: u32,
    /// Packets that may be SACKed before that alone means a loss.
    pub(super) threshold: u32,
    pub(super) min_rtt: Option<Duration>,
    pub(super) srtt: Option<Duration>,
}

impl Rack {
    /// Round-trip time of the latest delivered segment.
    pub(super) const fn rtt(&self) -> Duration {
        Duration::from_nanos(self.rtt_nanos)
    }

    /// A segment was delivered.
    pub(super) fn on_delivered(
        &mut self,
        now: Instant,
        sent: Instant,
        end: u64,
        was_retransmitted: bool,
        min_rtt: Option<Duration>,
    ) {
        let nanos = now.as_nanos().saturating_sub(sent.as_nanos());
        // In whole microseconds, as Linux counts: what left in the instant of another packet, but
        // later, is not early by that.
        let micros = || (now.as_nanos() / 1000).saturating_sub(sent.as_nanos() / 1000);
        if was_retransmitted && min_rtt.is_some_and(|min| u128::from(micros()) < min.as_micros()) {
            // The original arrived, or an earlier retransmission: no round-trip sample.
            return;
        }
        self.is_advanced = true;
        self.rtt_nanos = nanos;
        self.latest = self.latest.max((sent, end));
    }

    /// How long a segment may be late by reordering before it counts as lost.
    pub(super) fn reorder_window(&self, input: &ReorderInput) -> Duration {
        let is_lossy = input.is_recovering || input.sacked >= input.threshold;
        if !input.reordering_seen && is_lossy {
            return Duration::ZERO;
        }
        let quarter = input.min_rtt.unwrap_or_default() / 4;
        let window = quarter.saturating_mul(self.steps);
        window.min(input.srtt.unwrap_or_default())
    }

    /// The peer reported a retransmission as superfluous.
    pub(super) fn on_dsack(&mut self) {
        self.dsack_seen = true;
    }

    /// An ACK was processed whose sample reaches back to `prior_delivered`.
    pub(super) fn adapt(&mut self, prior_delivered: Option<u64>, delivered: u64) {
        let Some(prior_delivered) = prior_delivered else {
            return;
        };
        if prior_delivered < self.widened_at {
            // It answers what was sent before the window was widened.
            self.dsack_seen = false;
        }
        if self.dsack_seen {
            self.steps = (self.steps + 1).min(STEPS_MAX);
            self.dsack_seen = false;
            self.widened_at = delivered;
            self.persistence = PERSISTENCE;
        } else if self.persistence == 0 {
            self.steps = 1;
        }
    }

    /// A recovery ended.
    pub(super) fn on_recovery_end(&mut self) {
        self.persistence = self.persistence.saturating_sub(1);
    }

    /// A recovery was undone: the widened window stays for longer.
    pub(super) fn on_undo(&mut self) {
        self.persistence = (self.persistence + 1).min(PERSISTENCE);
        self.is_advanced = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn input(reordering_seen: bool, sacked: u32) -> ReorderInput {
        ReorderInput {
            reordering_seen,
            is_recovering: false,
            sacked,
            threshold: 3,
            min_rtt: Some(millis(40)),
            srtt: Some(millis(44)),
        }
    }

    #[test]
    fn vectors_of_the_window() {
        let rack = Rack::default();
        assert_eq!(rack.reorder_window(&input(false, 2)), millis(10), "T16");
        assert_eq!(rack.reorder_window(&input(false, 3)), Duration::ZERO, "T17");
        let rack = Rack {
            steps: 3,
            ..Rack::default()
        };
        assert_eq!(rack.reorder_window(&input(true, 3)), millis(30), "T18");
        let rack = Rack {
            steps: 9,
            ..Rack::default()
        };
        assert_eq!(
            rack.reorder_window(&input(true, 3)),
            millis(44),
            "at most srtt"
        );
    }

    #[test]
    fn superfluous_retransmissions_widen_the_window_once_per_round() {
        let mut rack = Rack::default();
        rack.on_dsack();
        rack.adapt(Some(10), 20);
        assert_eq!(rack.steps, 2);
        rack.on_dsack();
        rack.adapt(Some(19), 25);
        assert_eq!(rack.steps, 2, "the same round");
        rack.on_dsack();
        rack.adapt(Some(20), 30);
        assert_eq!(rack.steps, 3);
        for _ in 0..16 {
            rack.adapt(Some(30), 40);
            assert_eq!(rack.steps, 3);
            rack.on_recovery_end();
        }
        rack.adapt(Some(30), 40);
        assert_eq!(rack.steps, 1);
    }

    #[test]
    fn a_retransmission_that_came_back_too_early_says_nothing() {
        let mut rack = Rack::default();
        let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        rack.on_delivered(at(50), at(45), 100, true, Some(millis(40)));
        assert!(!rack.is_advanced);
        rack.on_delivered(at(50), at(10), 100, true, Some(millis(40)));
        rack.on_delivered(at(50), at(8), 300, false, Some(millis(40)));
        assert_eq!(rack.latest, (at(10), 100));
    }

    #[test]
    fn what_left_in_the_instant_of_another_packet_is_not_early() {
        let mut rack = Rack::default();
        let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        let later = at(10) + Duration::from_nanos(1);
        rack.on_delivered(at(50), later, 100, true, Some(millis(40)));
        assert_eq!(rack.latest, (later, 100));
        assert!(rack.is_advanced);
    }
}
