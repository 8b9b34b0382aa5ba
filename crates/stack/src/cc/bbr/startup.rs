//! Detects that the pipe is full: bandwidth no longer grows although more is sent.

use super::bandwidth::{Bandwidth, UNIT};

/// Growth of a round that counts, 1.25 in 1/256 (Linux `bbr_full_bw_thresh`).
const GROWTH: u32 = UNIT * 5 / 4;
/// Rounds without such growth (Linux `bbr_full_bw_cnt`): one may be short of data or of window.
const ROUNDS: u32 = 3;

/// Ends startup (Linux `bbr_check_full_bw_reached`).
#[derive(Clone, Debug)]
pub(super) struct FullPipe {
    bandwidth: Bandwidth,
    rounds: u32,
    is_reached: bool,
}

impl FullPipe {
    pub(super) fn new() -> Self {
        Self {
            bandwidth: Bandwidth::default(),
            rounds: 0,
            is_reached: false,
        }
    }

    pub(super) const fn is_reached(&self) -> bool {
        self.is_reached
    }

    /// A round began, not limited by the application; the best so far is `max`.
    pub(super) fn on_round(&mut self, max: Bandwidth) {
        if self.is_reached {
            return;
        }
        if max >= self.bandwidth.scaled(GROWTH) {
            self.bandwidth = max;
            self.rounds = 0;
            return;
        }
        self.rounds += 1;
        self.is_reached = self.rounds >= ROUNDS;
    }

    /// After a timeout: the next round sets the mark anew.
    pub(super) fn forget_bandwidth(&mut self) {
        self.bandwidth = Bandwidth::default();
    }

    /// After a wrong reduction: all rounds count anew.
    pub(super) fn restart(&mut self) {
        self.bandwidth = Bandwidth::default();
        self.rounds = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_rounds_without_a_quarter_more() {
        let check = |rounds: &[u64], expected: Option<usize>| {
            let mut pipe = FullPipe::new();
            let full = rounds.iter().position(|&packets| {
                pipe.on_round(Bandwidth::of(packets, 1_000));
                pipe.is_reached()
            });
            assert_eq!(full, expected, "{rounds:?}");
        };
        check(&[100, 200, 400, 499, 499, 499], Some(5));
        check(&[100, 200, 400, 499, 499, 500, 500, 500, 500], Some(8));
        check(&[100, 125, 157, 197, 247, 309], None);
    }

    #[test]
    fn restart_starts_to_count_anew() {
        let mut pipe = FullPipe::new();
        let same = Bandwidth::of(100, 1_000);
        (0..3).for_each(|_| pipe.on_round(same));
        pipe.restart();
        (0..3).for_each(|_| pipe.on_round(same));
        assert!(!pipe.is_reached());
        pipe.on_round(same);
        assert!(pipe.is_reached());
    }
}
