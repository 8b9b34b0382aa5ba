//! CUBIC: the window as a cubic function of the time since the last reduction (RFC 9438).
//!
//! It decides from the window at the last loss, the time since growth began again, the lowest
//! round-trip time and the packets delivered. The integers are those of Linux (`tcp_cubic.c`:
//! `bictcp_update`, `bictcp_recalc_ssthresh`, `bictcp_acked`), except that the cube root is exact,
//! where Linux approximates it within 0.2 %.

use core::time::Duration;

use base::Instant;
use base::settings::HyStart;

use super::hystart::Detector;
use super::{AckSample, CongestionControl, Window, growth_credit, micros};

/// The constant C, 0.4 packets per cubic second, in 1/1024.
const C_1024: u64 = 410;
/// Multiplicative decrease factor, 0.7, in 1/1024.
const BETA_1024: u64 = 717;
/// Packets to be acknowledged per packet of window, in 1/8, so that a flow with this beta grows
/// like Reno: 8/3 (1 + beta) / (1 - beta) (RFC 9438 section 4.3).
const RENO_SCALE_8: u64 = 8 * (1024 + BETA_1024) / 3 / (1024 - BETA_1024);
/// Tick of the clock of the curve, with `HZ` = 250.
const TICK: Duration = Duration::from_millis(4);
/// Ticks after which an unchanged window is looked at again (Linux: `HZ / 32`).
const TICKS_UNCHANGED: u64 = 7;
/// Delays so soon after a reduction still show the queue that caused it.
const SETTLING: Duration = Duration::from_secs(1);

/// CUBIC with HyStart.
#[derive(Clone, Debug)]
pub struct Cubic {
    byte_counting: bool,
    detector: Detector,
    /// The window at the last reduction, lowered for fast convergence; 0: there was none.
    last_max: u32,
    epoch: Option<Epoch>,
    /// Lowest round-trip time, in microseconds; 0: there was none.
    delay_min: u64,
    /// One packet is gained for this many acknowledged.
    every: u32,
    /// The window when `every` was computed, and the tick; 0: it was not.
    computed_window: u32,
    computed_tick: u64,
}

/// Growth since a reduction, or since slow start ended.
#[derive(Clone, Debug)]
struct Epoch {
    start: Instant,
    /// When the curve is back at `origin`, in 1/1024 s after the start (K of RFC 9438).
    inflection: u64,
    /// The window there.
    origin: u32,
    /// Packets acknowledged towards the next one of `reno_window`.
    acked: u64,
    /// Estimate of Reno's window.
    reno_window: u32,
}

impl Cubic {
    /// CUBIC that leaves slow start by `hystart`. `byte_counting`: see
    /// [`base::settings::Congestion`].
    #[must_use]
    pub fn new(hystart: HyStart, byte_counting: bool) -> Self {
        Self {
            byte_counting,
            detector: Detector::new(hystart),
            last_max: 0,
            epoch: None,
            delay_min: 0,
            every: 0,
            computed_window: 0,
            computed_tick: 0,
        }
    }

    /// Learns from the round-trip time of `ack`; may end slow start (Linux `bictcp_acked`).
    fn on_delay(&mut self, window: &mut Window, ack: &AckSample) {
        let Some(rtt) = ack.rtt else { return };
        let settling = |epoch: &Epoch| ack.now.since(epoch.start) < SETTLING;
        if self.epoch.as_ref().is_some_and(settling) {
            return;
        }
        let delay = micros(rtt).max(1);
        let delay_min = match self.delay_min {
            0 => delay,
            least => least.min(delay),
        };
        self.delay_min = delay_min;
        if window.in_slow_start() {
            self.detector.on_delay(window, ack, delay, delay_min);
        }
    }

    /// Computes [`Cubic::every`] for `window` packets after `acked` more were acknowledged.
    fn update(&mut self, now: Instant, window: u32, acked: u32) {
        if let Some(epoch) = &mut self.epoch {
            epoch.acked += u64::from(acked);
        }
        let tick = now.as_nanos() / TICK.as_nanos() as u64;
        let then = self.computed_tick;
        let same_tick = self.computed_window > 0 && tick == then;
        if self.computed_window == window && tick.saturating_sub(then) <= TICKS_UNCHANGED {
            return;
        }
        if self.epoch.is_none() || !same_tick {
            self.computed_window = window;
            self.computed_tick = tick;
            let delay = Duration::from_micros(self.delay_min);
            let last_max = self.last_max;
            let epoch = self
                .epoch
                .get_or_insert_with(|| Epoch::new(now, window, last_max, acked));
            let target = epoch.target(now.since(epoch.start) + delay);
            self.every = match target.checked_sub(window) {
                None | Some(0) => window.saturating_mul(100),
                Some(missing) => window / missing,
            };
            if self.last_max == 0 {
                // Nothing is known about the path yet: at least 5 % per round trip.
                self.every = self.every.min(20);
            }
        }
        if let Some(epoch) = &mut self.epoch {
            let ahead = epoch.reno_window(window).saturating_sub(window);
            let reno = window.checked_div(ahead).unwrap_or(u32::MAX);
            self.every = self.every.min(reno);
        }
        // At most half of the window per round trip.
        self.every = self.every.max(2);
    }
}

impl Epoch {
    fn new(now: Instant, window: u32, last_max: u32, acked: u32) -> Self {
        let missing = u64::from(last_max.saturating_sub(window));
        Self {
            start: now,
            // missing / C in cubic seconds, times 1024^3 for the unit of the root.
            inflection: cube_root((1 << 40) / C_1024 * missing),
            origin: last_max.max(window),
            acked: u64::from(acked),
            reno_window: window,
        }
    }

    /// The window that the curve has `elapsed` after the start of the epoch.
    fn target(&self, elapsed: Duration) -> u32 {
        let time = (elapsed.as_nanos() * 1024 / 1_000_000_000) as u64;
        let offset = u128::from(time.abs_diff(self.inflection));
        let cube = offset
            .saturating_mul(offset)
            .saturating_mul(offset)
            .saturating_mul(C_1024.into());
        let distance = u32::try_from(cube >> 40).unwrap_or(u32::MAX);
        if time < self.inflection {
            self.origin.saturating_sub(distance)
        } else {
            self.origin.saturating_add(distance)
        }
    }

    /// Moves the estimate of Reno's window forward by what was acknowledged since, and returns it.
    fn reno_window(&mut self, window: u32) -> u32 {
        let step = (u64::from(window) * RENO_SCALE_8 / 8).max(1);
        // A step is taken only when more than its packets have been acknowledged.
        let steps = self.acked.saturating_sub(1) / step;
        self.acked -= steps * step;
        self.reno_window = self
            .reno_window
            .saturating_add(u32::try_from(steps).unwrap_or(u32::MAX));
        self.reno_window
    }
}

impl CongestionControl for Cubic {
    fn name(&self) -> &'static str {
        "cubic"
    }

    fn on_ack(&mut self, window: &mut Window, ack: &AckSample) {
        self.on_delay(window, ack);
        let mut acked = growth_credit(ack, self.byte_counting);
        if acked == 0 || !window.may_grow() {
            return;
        }
        if window.in_slow_start() {
            acked = window.slow_start(self.detector.slow_start_credit(acked, ack.is_paced));
        }
        if acked > 0 {
            self.update(ack.now, window.cwnd, acked);
            window.grow_by_one_per(self.every, acked);
        }
    }

    fn on_congestion(&mut self, window: &Window, _now: Instant) -> u32 {
        let cwnd = u64::from(window.cwnd);
        self.epoch = None;
        // Fast convergence (RFC 9438 section 4.7): a window that did not get back to where it was
        // has new competition, and leaves it some room.
        self.last_max = if window.cwnd < self.last_max {
            (cwnd * (1024 + BETA_1024) / 2048) as u32
        } else {
            window.cwnd
        };
        ((cwnd * BETA_1024 / 1024) as u32).max(2)
    }

    /// Resets everything learned (Linux `bictcp_state`).
    fn on_timeout(&mut self, _window: &mut Window, _now: Instant) {
        *self = Self::new(self.detector.kind(), self.byte_counting);
    }

    /// Idle time does not count on the curve: it shifts the epoch (Linux `bictcp_cwnd_event`).
    fn on_restart(&mut self, _window: &mut Window, now: Instant, idle: Duration) {
        if let Some(epoch) = &mut self.epoch {
            epoch.start = (epoch.start + idle).min(now);
        }
    }
}

/// The largest integer whose cube is at most `value`, bit by bit.
fn cube_root(value: u64) -> u64 {
    (0..22).rev().fold(0, |root, bit| {
        let candidate = root | 1 << bit;
        let wide = u128::from(candidate);
        if wide * wide * wide <= u128::from(value) {
            candidate
        } else {
            root
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ack, limited};
    use super::*;

    fn cubic() -> Cubic {
        Cubic::new(HyStart::Off, true)
    }

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn c1_threshold_after_a_loss() {
        for (cwnd, expected) in [(100, 70), (10, 7), (2, 2), (1, 2)] {
            let threshold = cubic().on_congestion(&limited(cwnd, u32::MAX), Instant::ZERO);
            assert_eq!(threshold, expected, "window {cwnd}");
        }
    }

    #[test]
    fn c2_fast_convergence() {
        let mut cubic = cubic();
        cubic.on_congestion(&limited(120, u32::MAX), Instant::ZERO);
        assert_eq!(cubic.last_max, 120);
        cubic.on_congestion(&limited(100, 84), Instant::ZERO);
        assert_eq!(cubic.last_max, 85);
        cubic.on_congestion(&limited(100, 70), Instant::ZERO);
        assert_eq!(cubic.last_max, 100);
    }

    #[test]
    fn c3_reno_step() {
        let mut epoch = Epoch::new(Instant::ZERO, 100, 0, 0);
        // The step is taken with the packet after the 187th.
        for (acked, expected) in [(187, 100), (188, 101), (374, 101), (375, 102), (3741, 120)] {
            epoch.acked = acked - 187 * u64::from(epoch.reno_window - 100);
            assert_eq!(epoch.reno_window(100), expected, "{acked} packets");
        }
    }

    #[test]
    fn cube_roots_are_exact() {
        for root in (0..2_642_245).step_by(997).chain(2_642_200..2_642_245) {
            let cube = root * root * root;
            assert_eq!(cube_root(cube), root);
            assert_eq!(cube_root(cube + 1), root.max(1));
            assert_eq!(cube_root(cube.max(1) - 1), root.max(1) - 1);
        }
        assert_eq!(cube_root(u64::MAX), 2_642_245);
    }

    #[test]
    fn curve_returns_to_the_last_maximum() {
        // Window 700 after a loss at 1000: K is the cube root of 300 x 1024 / 410, 9.083 s.
        let epoch = Epoch::new(Instant::ZERO, 700, 1000, 0);
        assert_eq!(epoch.inflection, 9300);
        for (millis, expected) in [
            (0, 701),
            (1_000, 789),
            (5_000, 973),
            (9_083, 1000),
            (12_000, 1009),
            (20_000, 1521),
        ] {
            let target = epoch.target(Duration::from_millis(millis));
            assert_eq!(target, expected, "after {millis} ms");
        }
        assert_eq!(epoch.target(Duration::from_secs(1 << 40)), u32::MAX);
    }

    #[test]
    fn growth_is_bounded_on_both_sides() {
        // (last maximum, window, time since the epoch began) and packets per packet gained.
        let check = |last_max: u32, window: u32, millis: u64, expected: u32| {
            let mut cubic = cubic();
            cubic.last_max = last_max;
            cubic.epoch = Some(Epoch::new(at(0), window, last_max, 0));
            cubic.update(at(millis), window, 1);
            assert_eq!(cubic.every, expected, "{last_max} {window} {millis} ms");
        };
        check(1000, 700, 1_000, 700 / 89);
        check(1000, 700, 60_000, 2);
        check(0, 1000, 0, 20);
        check(500, 1000, 0, 100_000);
    }

    #[test]
    fn recomputed_once_per_tick_and_rarely_without_change() {
        let mut cubic = cubic();
        cubic.last_max = 1000;
        cubic.update(at(0), 700, 1);
        let first = cubic.every;
        cubic.update(at(28), 700, 1);
        assert_eq!(cubic.every, first, "7 ticks later, window unchanged");
        cubic.update(at(1_000), 700, 1);
        let second = cubic.every;
        assert!(second < first);
        cubic.update(at(1_003), 750, 1);
        assert_eq!(cubic.every, second, "in the same tick, window changed");
        cubic.update(at(1_004), 750, 1);
        assert_ne!(cubic.every, second);
    }

    #[test]
    fn idle_time_does_not_count() {
        let mut cubic = cubic();
        cubic.epoch = Some(Epoch::new(at(100), 10, 0, 0));
        let start = |cubic: &Cubic| cubic.epoch.as_ref().map(|epoch| epoch.start);
        cubic.on_restart(&mut Window::new(10), at(900), Duration::from_millis(500));
        assert_eq!(start(&cubic), Some(at(600)));
        cubic.on_restart(&mut Window::new(10), at(900), Duration::from_millis(500));
        assert_eq!(start(&cubic), Some(at(900)));
    }

    #[test]
    fn a_timeout_forgets_everything() {
        let mut cubic = cubic();
        let mut window = limited(50, 20);
        cubic.on_ack(&mut window, &ack(1));
        cubic.on_congestion(&window, Instant::ZERO);
        cubic.on_timeout(&mut window, Instant::ZERO);
        assert_eq!((cubic.last_max, cubic.delay_min), (0, 0));
        assert!(cubic.epoch.is_none());
    }
}
