//! The window in recovery: packet conservation, and the restored window afterwards.

use base::CongestionState;

use super::super::AckSample;

/// The window before it was made small, and what recovery makes of it (Linux `bbr_save_cwnd`,
/// `bbr_set_cwnd_to_recover_or_restore`).
#[derive(Clone, Debug)]
pub(super) struct Conservation {
    prior_cwnd: u32,
    /// State of loss recovery after the last ACK.
    state: CongestionState,
    /// The first round of recovery: no more is sent than was delivered.
    is_conserving: bool,
}

/// The window after the losses and the state that an ACK showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) cwnd: u32,
    /// Recovery began with this ACK.
    pub(super) has_begun: bool,
    /// [`Step::cwnd`] is final; otherwise it may grow towards its target.
    pub(super) is_final: bool,
}

const fn is_repairing(state: CongestionState) -> bool {
    match state {
        CongestionState::Open | CongestionState::Disorder | CongestionState::Cwr => false,
        CongestionState::Recovery | CongestionState::Loss => true,
    }
}

impl Conservation {
    pub(super) const fn new() -> Self {
        Self {
            prior_cwnd: 0,
            state: CongestionState::Open,
            is_conserving: false,
        }
    }

    /// Remembers `cwnd`; where it is already small for another reason, the larger one stays.
    pub(super) fn save(&mut self, cwnd: u32, is_probing_rtt: bool) {
        self.prior_cwnd = if is_repairing(self.state) || is_probing_rtt {
            self.prior_cwnd.max(cwnd)
        } else {
            cwnd
        };
    }

    /// The remembered window, or `cwnd` where that is larger.
    pub(super) fn restored(&self, cwnd: u32) -> u32 {
        cwnd.max(self.prior_cwnd)
    }

    /// A round began: the window may grow again.
    pub(super) const fn on_round(&mut self) {
        self.is_conserving = false;
    }

    pub(super) const fn on_timeout(&mut self) {
        self.state = CongestionState::Loss;
    }

    pub(super) fn on_ack(&mut self, cwnd: u32, ack: &AckSample) -> Step {
        let mut cwnd = if ack.lost > 0 {
            cwnd.saturating_sub(ack.lost).max(1)
        } else {
            cwnd
        };
        let conserved = ack.in_flight.saturating_add(ack.delivered);
        let has_begun =
            ack.state == CongestionState::Recovery && self.state != CongestionState::Recovery;
        if has_begun {
            self.is_conserving = true;
            cwnd = conserved;
        } else if is_repairing(self.state) && !is_repairing(ack.state) {
            self.is_conserving = false;
            cwnd = self.restored(cwnd);
        }
        self.state = ack.state;
        Step {
            cwnd: if self.is_conserving {
                cwnd.max(conserved)
            } else {
                cwnd
            },
            has_begun,
            is_final: self.is_conserving,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::ack;
    use super::*;

    #[test]
    fn window_through_a_recovery() {
        use CongestionState::{Loss, Open, Recovery};
        let mut conservation = Conservation::new();
        conservation.save(100, false);
        let mut cwnd = 100;
        // State, newly delivered, newly lost, in flight after; window and whether it is final.
        for (number, (state, delivered, lost, in_flight, expected, is_final)) in [
            (Recovery, 1, 3, 90, 91, true),
            (Recovery, 1, 2, 88, 89, true),
            (Recovery, 2, 0, 87, 89, true),
            (Open, 1, 0, 80, 100, false),
            (Loss, 1, 150, 0, 1, false),
            (Open, 1, 0, 3, 100, false),
        ]
        .into_iter()
        .enumerate()
        {
            let mut sample = ack(delivered);
            sample.state = state;
            sample.lost = lost;
            sample.in_flight = in_flight;
            let step = conservation.on_ack(cwnd, &sample);
            cwnd = step.cwnd;
            assert_eq!((cwnd, step.is_final), (expected, is_final), "ACK {number}");
            assert_eq!(step.has_begun, number == 0, "ACK {number}");
        }
    }

    #[test]
    fn conserving_ends_with_the_round() {
        let mut conservation = Conservation::new();
        let mut sample = ack(1);
        sample.state = CongestionState::Recovery;
        assert!(conservation.on_ack(10, &sample).is_final);
        conservation.on_round();
        assert!(!conservation.on_ack(10, &sample).is_final);
    }

    #[test]
    fn the_larger_window_is_kept_while_small() {
        let mut conservation = Conservation::new();
        conservation.save(100, false);
        conservation.save(4, true);
        assert_eq!(conservation.restored(4), 100);
        conservation.save(50, false);
        assert_eq!(conservation.restored(4), 50);
        conservation.on_timeout();
        conservation.save(1, false);
        assert_eq!(conservation.restored(4), 50);
    }
}
