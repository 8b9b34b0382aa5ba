//! TCP sequence numbers.

use core::fmt;
use core::ops::{Add, AddAssign, Sub};

/// A TCP sequence number: a point on a circle of 2^32 bytes.
///
/// It has no `Ord`: on a circle "less" holds only within half a turn of some point, so that
/// sorting by it is wrong as soon as the numbers wrap.
///
/// ```
/// use tcptailor_base::SeqNum;
/// let last = SeqNum::new(u32::MAX);
/// assert!(last.before(last + 1));
/// assert_eq!((last + 11).bytes_since(last), 11);
/// ```
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.4
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SeqNum(u32);

impl SeqNum {
    /// From the number in a packet.
    #[must_use]
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// The number in a packet.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }

    /// Whether it lies less than half a turn in front of `other`.
    #[must_use]
    pub const fn before(self, other: Self) -> bool {
        (self.0.wrapping_sub(other.0) as i32) < 0
    }

    /// Whether it lies less than half a turn behind `other`.
    #[must_use]
    pub const fn after(self, other: Self) -> bool {
        other.before(self)
    }

    /// Bytes from `earlier` to here, going forward around the circle.
    #[must_use]
    pub const fn bytes_since(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }
}

impl Add<u32> for SeqNum {
    type Output = Self;

    fn add(self, bytes: u32) -> Self {
        Self(self.0.wrapping_add(bytes))
    }
}

impl AddAssign<u32> for SeqNum {
    fn add_assign(&mut self, bytes: u32) {
        *self = *self + bytes;
    }
}

impl Sub<u32> for SeqNum {
    type Output = Self;

    fn sub(self, bytes: u32) -> Self {
        Self(self.0.wrapping_sub(bytes))
    }
}

impl fmt::Display for SeqNum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn order_holds_within_half_a_turn(start: u32, step in 1_u32..1 << 31) {
            let (a, b) = (SeqNum::new(start), SeqNum::new(start) + step);
            prop_assert!(a.before(b) && b.after(a));
            prop_assert!(!b.before(a) && !a.after(b) && !a.before(a));
            prop_assert_eq!(b.bytes_since(a), step);
            prop_assert_eq!(b - step, a);
        }
    }
}
