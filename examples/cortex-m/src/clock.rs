//! Milliseconds since the start, counted by the processor's own timer.

use core::sync::atomic::{AtomicU32, Ordering};

use cortex_m::peripheral::SYST;
use cortex_m::peripheral::syst::SystClkSource;
use cortex_m_rt::exception;

/// Processor cycles of a millisecond: 12.5 MHz, as the part starts.
const CYCLES_PER_MS: u32 = 12_500;

static MILLIS: AtomicU32 = AtomicU32::new(0);

/// The clock.
#[derive(Debug)]
pub struct Clock(());

impl Clock {
    /// Starts to count.
    #[must_use]
    pub fn start(mut timer: SYST) -> Self {
        timer.set_clock_source(SystClkSource::Core);
        timer.set_reload(CYCLES_PER_MS - 1);
        timer.clear_current();
        timer.enable_counter();
        timer.enable_interrupt();
        Self(())
    }

    /// Milliseconds since the start; the count is good for 49 days.
    #[must_use]
    pub fn millis(&self) -> u32 {
        MILLIS.load(Ordering::Relaxed)
    }
}

#[exception]
fn SysTick() {
    // No other code writes it.
    MILLIS.store(
        MILLIS.load(Ordering::Relaxed).wrapping_add(1),
        Ordering::Relaxed,
    );
}
