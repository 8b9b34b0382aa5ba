//! Probing for bandwidth: the cycle of pacing gains.

use core::time::Duration;

use base::{Instant, Rng};

use super::bandwidth::UNIT;

/// A phase that sends more, one that drains what it queued, and six at the bandwidth (Linux
/// `bbr_pacing_gain`).
const GAINS: [u32; 8] = [
    UNIT * 5 / 4,
    UNIT * 3 / 4,
    UNIT,
    UNIT,
    UNIT,
    UNIT,
    UNIT,
    UNIT,
];

/// Phase of the cycle.
#[derive(Clone, Debug)]
pub(super) struct Cycle {
    phase: usize,
    since: Instant,
}

/// Input to the decision whether a phase ends.
pub(super) struct PhaseInput {
    pub(super) now: Instant,
    /// The least round-trip time.
    pub(super) min_rtt: Duration,
    /// Packets in the network before this ACK.
    pub(super) in_flight: u64,
    /// Whether any loss was found with it.
    pub(super) has_losses: bool,
    /// The gain in use, in 1/256.
    pub(super) gain: u32,
    /// Packets in flight that fill the path at `gain`.
    pub(super) target_at_gain: u64,
    /// Packets in flight that fill it exactly.
    pub(super) target: u64,
}

impl Cycle {
    pub(super) const fn new() -> Self {
        Self {
            phase: 0,
            since: Instant::ZERO,
        }
    }

    pub(super) const fn gain(&self) -> u32 {
        GAINS[self.phase]
    }

    /// Whether the flow probes for more.
    pub(super) const fn is_probing_up(&self) -> bool {
        self.phase == 0
    }

    /// Begins at a random phase, but never at the one that drains, so that flows do not probe
    /// together (Linux `bbr_reset_probe_bw_mode`).
    pub(super) fn restart(&mut self, now: Instant, rng: &mut Rng) {
        self.phase = GAINS.len() - 1 - rng.below(GAINS.len() as u64 - 1) as usize;
        self.advance(now);
    }

    fn advance(&mut self, now: Instant) {
        self.phase = (self.phase + 1) % GAINS.len();
        self.since = now;
    }

    /// Moves on where the phase is over (Linux `bbr_is_next_cycle_phase`): after a round-trip
    /// time; probing up lasts until the queue is there or something is lost; draining ends early
    /// when the queue is gone.
    pub(super) fn update(&mut self, input: &PhaseInput) {
        let is_long_enough = input.now.since(self.since) > input.min_rtt;
        let is_over = if input.gain == UNIT {
            is_long_enough
        } else if input.gain > UNIT {
            is_long_enough && (input.has_losses || input.in_flight >= input.target_at_gain)
        } else {
            is_long_enough || input.in_flight <= input.target
        };
        if is_over {
            self.advance(input.now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_end() {
        // Phase, milliseconds in it (round trip 40 ms), packets in flight, losses: is it over?
        let check = |phase: usize, millis: u64, in_flight: u64, has_losses: bool, over: bool| {
            let mut cycle = Cycle::new();
            cycle.phase = phase;
            let gain = cycle.gain();
            cycle.update(&PhaseInput {
                now: Instant::from_nanos(millis * 1_000_000),
                min_rtt: Duration::from_millis(40),
                in_flight,
                has_losses,
                gain,
                target_at_gain: 125,
                target: 100,
            });
            let expected = if over { phase + 1 } else { phase } % 8;
            assert_eq!(
                cycle.phase, expected,
                "{phase} {millis} {in_flight} {has_losses}"
            );
        };
        check(0, 40, 130, true, false);
        check(0, 41, 124, false, false);
        check(0, 41, 125, false, true);
        check(0, 41, 50, true, true);
        check(1, 1, 101, false, false);
        check(1, 1, 100, false, true);
        check(1, 41, 130, false, true);
        check(2, 40, 50, true, false);
        check(7, 41, 200, false, true);
    }

    #[test]
    fn it_never_begins_by_draining() {
        let mut rng = Rng::new(1, "test");
        let mut seen = [0; 8];
        for _ in 0..1_000 {
            let mut cycle = Cycle::new();
            cycle.restart(Instant::ZERO, &mut rng);
            seen[cycle.phase] += 1;
        }
        assert_eq!(seen[1], 0);
        assert!(
            seen.iter().filter(|&&count| count > 100).count() == 7,
            "{seen:?}"
        );
    }
}
