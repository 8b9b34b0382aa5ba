//! Errors in bytes that are not the expected packet or file, and the reading of their fields.

use core::fmt;

/// Bytes that cannot be read as what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// Offset of the offending field, in bytes from the start of what was given.
    pub at: usize,
    /// Kind of error.
    pub kind: ParseErrorKind,
}

/// Kind of error in the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParseErrorKind {
    /// Fewer bytes than the header needs.
    TooShort {
        /// How many bytes it takes.
        needed: usize,
    },
    /// Neither IP version 4 nor 6, or not the version asked for.
    Version(u8),
    /// A length field that contradicts the header or the bytes.
    Length(u32),
}

impl ParseError {
    pub(crate) const fn too_short(needed: usize) -> Self {
        Self {
            at: 0,
            kind: ParseErrorKind::TooShort { needed },
        }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            ParseErrorKind::TooShort { needed } => {
                write!(f, "cut short: the header takes {needed} bytes; ")?;
                f.write_str("capture with a larger snapshot length")
            }
            ParseErrorKind::Version(version) => {
                write!(f, "byte {}: IP version {version} is not handled", self.at)
            }
            ParseErrorKind::Length(length) => {
                write!(
                    f,
                    "byte {}: length {length} contradicts the packet",
                    self.at
                )
            }
        }
    }
}

impl core::error::Error for ParseError {}

/// The first `needed` bytes are there.
pub(crate) const fn require(bytes: &[u8], needed: usize) -> Result<(), ParseError> {
    if bytes.len() < needed {
        Err(ParseError::too_short(needed))
    } else {
        Ok(())
    }
}

/// The 16 bits in network order at `at`, which the caller knows to be there.
pub(crate) const fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// The 32 bits in network order at `at`, which the caller knows to be there.
pub(crate) const fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Writes 16 bits in network order at `at`.
pub(crate) fn set_be16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}
