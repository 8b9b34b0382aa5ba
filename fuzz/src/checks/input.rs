//! A script of bytes, from which a check takes one number after the other.

/// What is left of the script.
pub(crate) struct Input<'a> {
    pub(crate) bytes: &'a [u8],
}

impl Input<'_> {
    /// The next byte; `None` where the script has ended.
    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(first)
    }

    /// The next byte, 0 where the script has ended.
    pub(crate) fn number(&mut self) -> u32 {
        self.byte().unwrap_or(0).into()
    }

    /// Two of them.
    pub(crate) fn wide(&mut self) -> u32 {
        self.number() << 8 | self.number()
    }

    /// Mostly close to 0, of either sign, seldom far away.
    pub(crate) fn distance(&mut self) -> u32 {
        let shift = self.number() % 28;
        let step = (self.number() as u8).cast_signed();
        (i64::from(step) << shift) as u32
    }
}
