//! When timers fire: on ticks, as kernels do it.

use core::time::Duration;

use base::Instant;

/// The timer clock of a host (rules 2.1 and 2.2; Linux `calc_index`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct TickClock {
    tick: Duration,
    phase: Duration,
    coarse_above: u32,
}

impl TickClock {
    /// `hz` 0: exact. The phase lies in 0..tick.
    pub(crate) fn new(_hz: u32, _coarse_above_ticks: u32, _phase_seed: u64) -> Self {
        unimplemented!()
    }
    /// `duration` in whole ticks, rounded up.
    pub(crate) fn round_up(&self, _duration: Duration) -> Duration {
        unimplemented!()
    }
    /// When a timer that is set at `now` for `delay` fires.
    pub(crate) fn expiry(&self, _now: Instant, _delay: Duration) -> Instant {
        unimplemented!()
    }
    /// One tick; zero where timers are exact.
    pub(crate) const fn tick(&self) -> Duration {
        self.tick
    }
}
