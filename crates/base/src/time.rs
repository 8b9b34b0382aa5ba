//! A point in time that an engine hands to everything else.

use core::fmt;
use core::num::NonZeroU64;
use core::ops::{Add, AddAssign, Sub};
use core::time::Duration;

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Nanoseconds since the epoch of the engine that made it. Only `linux::Clock` (from the kernel's
/// monotonic clock) and the virtual world of `lab` make one from outside; everywhere else time is
/// an argument.
///
/// The range is 584 years; additions saturate at its end instead of wrapping. An `Option` of it is
/// as small as itself: many are kept, in each connection and each packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(from = "u64", into = "u64"))]
pub struct Instant(
    /// One more than the nanoseconds.
    NonZeroU64,
);

impl Instant {
    /// The epoch.
    pub const ZERO: Self = Self(NonZeroU64::MIN);
    /// The end of time; a deadline that never comes.
    pub const MAX: Self = Self(NonZeroU64::MAX);

    /// The instant `nanos` nanoseconds after the epoch.
    #[inline]
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(NonZeroU64::MIN.saturating_add(nanos))
    }

    /// Nanoseconds since the epoch.
    #[inline]
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0.get() - 1
    }

    /// The time from `earlier` to `self`, zero where `earlier` is the later one.
    #[inline]
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.nanos_since(earlier))
    }

    /// The same in nanoseconds, which is cheaper to compare.
    #[inline]
    #[must_use]
    pub const fn nanos_since(self, earlier: Self) -> u64 {
        self.0.get().saturating_sub(earlier.0.get())
    }

    /// The instant this many nanoseconds later, as the sum with a [`Duration`].
    #[inline]
    #[must_use]
    pub const fn after_nanos(self, nanos: u64) -> Self {
        Self(self.0.saturating_add(nanos))
    }
}

impl Default for Instant {
    fn default() -> Self {
        Self::ZERO
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Instant").field(&self.as_nanos()).finish()
    }
}

impl From<u64> for Instant {
    fn from(nanos: u64) -> Self {
        Self::from_nanos(nanos)
    }
}

impl From<Instant> for u64 {
    fn from(at: Instant) -> Self {
        at.as_nanos()
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    #[inline]
    fn add(self, rhs: Duration) -> Self {
        self.after_nanos(nanos_of(rhs))
    }
}

impl AddAssign<Duration> for Instant {
    #[inline]
    fn add_assign(&mut self, rhs: Duration) {
        *self = *self + rhs;
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    /// Stops at the epoch.
    #[inline]
    fn sub(self, rhs: Duration) -> Self {
        Self::from_nanos(self.as_nanos().saturating_sub(nanos_of(rhs)))
    }
}

/// Nanoseconds, up to the end of the range.
#[inline]
const fn nanos_of(duration: Duration) -> u64 {
    let seconds = duration.as_secs().saturating_mul(NANOS_PER_SECOND);
    seconds.saturating_add(duration.subsec_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        assert_eq!(Instant::MAX + Duration::from_secs(1), Instant::MAX);
        assert_eq!(Instant::ZERO - Duration::from_secs(1), Instant::ZERO);
        assert_eq!(Instant::ZERO.since(Instant::MAX), Duration::ZERO);
        assert_eq!(
            Instant::from_nanos(7).since(Instant::from_nanos(3)),
            Duration::from_nanos(4)
        );
        assert_eq!(Instant::from_nanos(u64::MAX), Instant::MAX);
    }

    #[test]
    fn it_and_an_option_of_it_are_as_small_as_a_number() {
        assert_eq!(size_of::<Option<Instant>>(), size_of::<u64>());
        assert_eq!(Instant::default().as_nanos(), 0);
        let at = Instant::from_nanos(1_500_000_000);
        assert_eq!((at + Duration::from_millis(2500)).as_nanos(), 4_000_000_000);
        assert_eq!((at - Duration::from_millis(1400)).as_nanos(), 100_000_000);
        assert_eq!(std::format!("{at:?}"), "Instant(1500000000)");
    }
}
