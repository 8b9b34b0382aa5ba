//! The only reader of real time.

use core::time::Duration;

use base::Instant;
use rustix::time::{ClockId, clock_gettime};

/// The kernel's monotonic clock. All clocks of one host share their epoch, so that instants of
/// several processes can be compared.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock;

impl Clock {
    /// Now.
    #[must_use]
    pub fn now(self) -> Instant {
        let time = clock_gettime(ClockId::Monotonic);
        let nanos = time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs();
        Instant::from_nanos(nanos)
    }

    /// Time since 1970, for the stamps of documents; it jumps when somebody sets the clock.
    #[must_use]
    pub fn unix_time(self) -> Duration {
        let time = clock_gettime(ClockId::Realtime);
        Duration::new(
            time.tv_sec.unsigned_abs(),
            time.tv_nsec.unsigned_abs() as u32,
        )
    }
}
