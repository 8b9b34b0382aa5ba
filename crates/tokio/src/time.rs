//! The time of a host: that of the runtime, so that a test which pauses the runtime's clock pauses
//! the host's too.

use std::time::Duration;

use base::Instant;
use tokio::time::Instant as RuntimeInstant;

/// Longest sleep at once. Deadlines farther away are looked at again then.
const SLEEP_MAX: Duration = Duration::from_secs(3600);

/// Translates between the two kinds of instants.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
    began: RuntimeInstant,
}

impl Clock {
    /// A clock that shows `start` now.
    pub(crate) fn starting_at(start: Instant) -> Self {
        Self {
            start,
            began: RuntimeInstant::now(),
        }
    }

    /// Now.
    pub(crate) fn now(&self) -> Instant {
        self.start + self.began.elapsed()
    }

    /// When the runtime has to wake a task that has something to do at `due`.
    pub(crate) fn wake_up(&self, now: Instant, due: Instant) -> RuntimeInstant {
        self.began + now.since(self.start) + due.since(now).min(SLEEP_MAX)
    }
}
