//! Timer granularity: timers fire on ticks, as in kernels.
//!
//! Decides the moment at which a timer runs from the moment at which it is armed and its delay. It
//! keeps no timers: the connection holds deadlines, this rounds them.

use core::time::Duration;

use base::{Instant, Rng};

const NANOS_PER_SECOND: u32 = 1_000_000_000;
/// By how much the granularity grows from one level of the timer wheel to the next (Linux
/// `LVL_CLK_SHIFT`: 3 bits).
const LEVEL_FACTOR: u64 = 8;
/// Levels of the wheel (Linux `LVL_DEPTH` at HZ up to 1000: 9). Longer delays keep the last step.
const LEVELS: u32 = 9;
/// Ticks that a host may have counted before the epoch: the coarse levels align to their number.
const TICKS_BEFORE_EPOCH: u64 = 1 << 15;

/// The timer clock of a host (rules 2.1 to 2.3; Linux `calc_index`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct TickClock {
    /// Nanoseconds of one tick, a second at most; 0: timers are exact.
    tick_nanos: u32,
    /// Nanoseconds from tick number 0 to the epoch of `Instant`.
    before_epoch_nanos: u64,
    /// Ticks of one level of the wheel; 0: each timer is one tick exact.
    coarse_above_ticks: u32,
}

impl TickClock {
    /// `hz` ticks per second, 0: exact. The seed decides how the ticks lie against the epoch.
    pub(crate) fn new(hz: u32, coarse_above_ticks: u32, phase_seed: u64) -> Self {
        let tick_nanos = match hz {
            0 => 0,
            hz => NANOS_PER_SECOND / hz,
        };
        let before_epoch_nanos =
            Rng::new(phase_seed, "tick phase").below(u64::from(tick_nanos) * TICKS_BEFORE_EPOCH);
        Self {
            tick_nanos,
            before_epoch_nanos,
            coarse_above_ticks,
        }
    }

    /// `duration` in whole ticks, rounded up (rule 2.1).
    pub(crate) fn round_up(&self, duration: Duration) -> Duration {
        match self.tick_nanos {
            0 => duration,
            _ => Duration::from_nanos(self.round_up_nanos(nanos_of(duration))),
        }
    }

    /// `duration` in whole ticks, rounded down.
    pub(crate) fn round_down(&self, duration: Duration) -> Duration {
        match self.tick_nanos() {
            0 => duration,
            tick => Duration::from_nanos(nanos_of(duration) / tick * tick),
        }
    }

    /// The same of nanoseconds, rounded up.
    #[inline]
    pub(crate) fn round_up_nanos(&self, nanos: u64) -> u64 {
        match self.tick_nanos() {
            0 => nanos,
            tick => nanos.div_ceil(tick).saturating_mul(tick),
        }
    }

    /// When a timer that is set at `now` for `delay` fires: never early, and on a tick that is a
    /// multiple of the granularity of its level (rule 2.2).
    pub(crate) fn expiry(&self, now: Instant, delay: Duration) -> Instant {
        if self.tick_nanos == 0 {
            return now + delay;
        }
        let ticks = self.ticks_of(delay);
        let step = self.step_ticks(ticks);
        let tick = u64::from(self.tick_nanos);
        let armed = now.as_nanos().saturating_add(self.before_epoch_nanos) / tick;
        // The wheel runs a timer at the end of the step that its time falls into.
        let fires = (armed.saturating_add(ticks) / step)
            .saturating_add(1)
            .saturating_mul(step);
        let nanos = fires.saturating_mul(tick);
        Instant::from_nanos(nanos.saturating_sub(self.before_epoch_nanos))
    }

    /// The tick that follows `now`, by which kernels count time; `now` where timers are exact.
    #[inline]
    pub(crate) fn edge(&self, now: Instant) -> Instant {
        if self.tick_nanos == 0 {
            return now;
        }
        let counted = now.as_nanos().saturating_add(self.before_epoch_nanos);
        let fires = (counted / self.tick_nanos())
            .saturating_add(1)
            .saturating_mul(self.tick_nanos());
        Instant::from_nanos(fires.saturating_sub(self.before_epoch_nanos))
    }

    /// As [`Self::expiry`] for a delay of whole ticks, where it is known that the tick that
    /// follows `now` lies at `edge`.
    #[inline]
    pub(crate) fn expiry_behind(&self, now: Instant, edge: Instant, delay_nanos: u64) -> Instant {
        let fine = self.tick_nanos() * u64::from(self.coarse_above_ticks);
        if fine == 0 || delay_nanos < fine {
            edge.after_nanos(delay_nanos)
        } else {
            self.expiry(now, Duration::from_nanos(delay_nanos))
        }
    }

    /// Nanoseconds of one tick; 0 where timers are exact.
    #[inline]
    pub(crate) const fn tick_nanos(&self) -> u64 {
        self.tick_nanos as u64
    }

    /// One tick; zero where timers are exact.
    pub(crate) const fn tick(&self) -> Duration {
        Duration::from_nanos(self.tick_nanos())
    }

    /// `duration` in ticks, rounded up.
    fn ticks_of(&self, duration: Duration) -> u64 {
        nanos_of(duration).div_ceil(self.tick_nanos.into())
    }

    /// Granularity in ticks of a timer of this many ticks.
    fn step_ticks(&self, ticks: u64) -> u64 {
        let mut level_begins = u64::from(self.coarse_above_ticks);
        let mut step = 1;
        if level_begins == 0 {
            return step;
        }
        for _ in 1..LEVELS {
            if ticks < level_begins {
                break;
            }
            level_begins *= LEVEL_FACTOR;
            step *= LEVEL_FACTOR;
        }
        step
    }
}

/// Nanoseconds, up to the end of the range.
#[inline]
pub(crate) const fn nanos_of(duration: Duration) -> u64 {
    let seconds = duration.as_secs().saturating_mul(NANOS_PER_SECOND as u64);
    seconds.saturating_add(duration.subsec_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn clock(hz: u32, coarse_above_ticks: u32, before_epoch_nanos: u64) -> TickClock {
        TickClock {
            tick_nanos: NANOS_PER_SECOND / hz,
            before_epoch_nanos,
            coarse_above_ticks,
        }
    }

    const fn micros(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    #[test]
    fn rule_2_2_gives_the_measured_times_at_250_hz() {
        let check = |armed_micros: u64, delay_ms: u64, expected_micros: u64| {
            let now = Instant::ZERO + micros(armed_micros);
            let fires = clock(250, 63, 0).expiry(now, Duration::from_millis(delay_ms));
            assert_eq!(
                fires.since(now),
                micros(expected_micros),
                "{delay_ms} ms armed at {armed_micros} us"
            );
        };
        // 40 ms, armed at, just after and just before a tick (rule 2.3).
        check(0, 40, 44_000);
        check(1, 40, 43_999);
        check(3_999, 40, 40_001);
        // 61 ticks are still exact.
        check(1_000, 244, 247_000);
        // 122 ticks end on a multiple of 8 ticks = 32 ms.
        check(0, 488, 512_000);
        check(20_000, 488, 492_000);
        check(24_000, 488, 520_000);
        // 504 ticks end on a multiple of 64.
        check(0, 504 * 4, 512 * 4_000);
    }

    #[test]
    fn t14_122_jiffies_fire_123_to_130_later() {
        let ticks: std::vec::Vec<u64> = (0..8)
            .map(|armed| {
                let now = Instant::ZERO + Duration::from_millis(4) * armed;
                let fires = clock(250, 63, 0).expiry(now, Duration::from_millis(488));
                assert_eq!(fires.as_nanos() % 32_000_000, 0);
                fires.since(now).as_millis() as u64 / 4
            })
            .collect();
        assert_eq!(ticks, [128, 127, 126, 125, 124, 123, 130, 129]);
    }

    #[test]
    fn exact_timers_keep_their_times() {
        let exact = TickClock::new(0, 63, 7);
        let now = Instant::from_nanos(17);
        assert_eq!(exact.round_up(micros(1)), micros(1));
        assert_eq!(exact.expiry(now, micros(1)), Instant::from_nanos(1_017));
        assert_eq!(exact.tick(), Duration::ZERO);
        assert_eq!(exact.expiry(now, Duration::MAX), Instant::MAX);
    }

    #[test]
    fn durations_round_up_to_whole_ticks() {
        let clock = TickClock::new(250, 63, 7);
        assert_eq!(clock.tick(), micros(4_000));
        assert_eq!(clock.round_up(micros(0)), micros(0));
        assert_eq!(clock.round_up(micros(1)), micros(4_000));
        assert_eq!(clock.round_up(micros(4_000)), micros(4_000));
        assert_eq!(clock.round_up(micros(4_001)), micros(8_000));
    }

    proptest! {
        #[test]
        fn never_early_and_late_by_one_step_at_most(
            hz in prop::sample::select(std::vec![10_u32, 20, 100, 250, 300, 1000]),
            coarse_above in prop::sample::select(std::vec![0_u32, 63]),
            seed: u64,
            armed in 0_u64..1 << 60,
            delay in prop_oneof![0_u64..1 << 30, 0_u64..1 << 58],
        ) {
            let clock = TickClock::new(hz, coarse_above, seed);
            let (now, delay) = (Instant::from_nanos(armed), Duration::from_nanos(delay));
            let late = clock.expiry(now, delay).since(now) - delay;
            let ticks = delay.as_nanos().div_ceil(clock.tick().as_nanos());
            let levels = (0..8).filter(|level| ticks >= 63 << (3 * level)).count() as u32;
            let step = if coarse_above == 0 { 1 } else { 8_u32.pow(levels) };
            // Rounding the delay up costs one tick more.
            prop_assert!(late > Duration::ZERO || clock.tick().is_zero());
            prop_assert!(late <= clock.tick() * (step + 1), "{late:?} late, step {step}");
        }

        #[test]
        fn from_a_known_tick_on_a_timer_fires_at_the_same_time(
            hz in prop::sample::select(std::vec![0_u32, 100, 250, 1000]),
            coarse_above in prop::sample::select(std::vec![0_u32, 63]),
            seed: u64,
            now in 0_u64..1 << 50,
            ticks in 0_u32..200,
        ) {
            let clock = TickClock::new(hz, coarse_above, seed);
            let (now, delay) = (Instant::from_nanos(now), clock.tick() * ticks);
            let edge = clock.edge(now);
            prop_assert_eq!(edge, clock.expiry(now, Duration::ZERO));
            let fires = clock.expiry_behind(now, edge, nanos_of(delay));
            prop_assert_eq!(fires, clock.expiry(now, delay));
        }

        #[test]
        fn any_time_is_survived(now: u64, delay: u64, hz: u32, coarse: u32, seed: u64) {
            let clock = TickClock::new(hz, coarse, seed);
            let now = Instant::from_nanos(now);
            prop_assert!(clock.expiry(now, Duration::from_secs(delay)) >= now || hz == 0);
            clock.round_up(Duration::from_secs(delay));
        }
    }

    #[test]
    fn phases_differ_between_hosts() {
        let fires = |seed| TickClock::new(250, 63, seed).expiry(Instant::ZERO, micros(1));
        assert_ne!(fires(1), fires(2));
        assert_eq!(fires(1), fires(1));
    }
}
