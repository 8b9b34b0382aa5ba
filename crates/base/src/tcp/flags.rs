//! The flags of a TCP segment.

use core::fmt;
use core::ops::{BitOr, BitOrAssign};

/// A set of the nine flags of a TCP segment (RFC 9293 section 3.1, RFC 9768).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TcpFlags(u16);

impl TcpFlags {
    /// No flag.
    pub const NONE: Self = Self(0);
    /// No more data from the sender.
    pub const FIN: Self = Self(1);
    /// Open a connection.
    pub const SYN: Self = Self(1 << 1);
    /// Reset the connection.
    pub const RST: Self = Self(1 << 2);
    /// Hand what is there to the program.
    pub const PSH: Self = Self(1 << 3);
    /// The acknowledgment number counts.
    pub const ACK: Self = Self(1 << 4);
    /// The urgent pointer counts.
    pub const URG: Self = Self(1 << 5);
    /// Echo of a congestion mark (RFC 3168).
    pub const ECE: Self = Self(1 << 6);
    /// The congestion window has been reduced (RFC 3168).
    pub const CWR: Self = Self(1 << 7);
    /// Accurate ECN (RFC 9768); was the nonce sum.
    pub const AE: Self = Self(1 << 8);

    /// The lower nine of `bits`.
    #[must_use]
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits & 0x1ff)
    }

    /// The flags in bytes 12 and 13 of the header.
    #[must_use]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Whether all of `flags` are set.
    #[must_use]
    pub const fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// These flags but not `flags`.
    #[must_use]
    pub const fn without(self, flags: Self) -> Self {
        Self(self.0 & !flags.0)
    }
}

impl BitOr for TcpFlags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for TcpFlags {
    fn bitor_assign(&mut self, other: Self) {
        *self = *self | other;
    }
}

impl fmt::Display for TcpFlags {
    /// As `tcpdump` writes them: `S.` for SYN with ACK.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LETTERS: [&str; 9] = ["F", "S", "R", "P", ".", "U", "E", "W", "e"];
        if *self == Self::NONE {
            return f.write_str("none");
        }
        for (bit, letter) in LETTERS.iter().enumerate() {
            if self.0 >> bit & 1 == 1 {
                f.write_str(letter)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn sets_and_text() {
        let flags = TcpFlags::SYN | TcpFlags::ACK;
        assert_eq!(flags.to_string(), "S.");
        assert!(flags.contains(TcpFlags::SYN) && !flags.contains(TcpFlags::SYN | TcpFlags::FIN));
        assert_eq!(flags.without(TcpFlags::SYN), TcpFlags::ACK);
        assert_eq!(TcpFlags::from_bits(0xffff).bits(), 0x1ff);
        assert_eq!(TcpFlags::NONE.to_string(), "none");
    }
}
