//! Sequence numbers and offsets: the only place that converts between them.

use base::SeqNum;

/// Our numbers: offset 0 is our SYN.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendSequence {
    first: SeqNum,
}

impl SendSequence {
    pub(crate) const fn new(first: SeqNum) -> Self {
        Self { first }
    }

    pub(crate) fn number(self, offset: u64) -> SeqNum {
        self.first + offset as u32
    }

    /// The offset of `number` that is nearest to `near`; negative where it lies before our SYN.
    pub(crate) fn offset(self, number: SeqNum, near: u64) -> i64 {
        near as i64 + i64::from(number.bytes_since(self.number(near)) as i32)
    }
}

/// The peer's numbers: offset 0 is its SYN.
pub(crate) type RecvSequence = SendSequence;

impl Default for SendSequence {
    fn default() -> Self {
        Self::new(SeqNum::new(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn offsets_survive_the_way_through_32_bits(
            first: u32, near in 0_u64..1 << 40, step in -(1_i64 << 31) + 1..1 << 31,
        ) {
            let sequence = SendSequence::new(SeqNum::new(first));
            let offset = near as i64 + step;
            let number = sequence.number(offset as u64);
            prop_assert_eq!(sequence.offset(number, near), offset);
        }
    }
}
