//! The only reader of real time.

use std::time::Duration;

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

    /// Milliseconds since 1970, for records that people read. It may jump; never measure with it.
    #[must_use]
    pub fn unix_millis(self) -> u64 {
        let time = clock_gettime(ClockId::Realtime);
        time.tv_sec.unsigned_abs() * 1_000 + time.tv_nsec.unsigned_abs() / 1_000_000
    }
}

/// CPU time of the calling thread, user and system.
pub(crate) fn thread_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
    Duration::new(time.tv_sec.unsigned_abs(), nanos)
}
