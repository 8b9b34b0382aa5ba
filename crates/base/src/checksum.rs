//! The Internet checksum (RFC 1071): whole, in parts, and brought up to date after a change.

use core::net::IpAddr;

/// A checksum being summed up.
///
/// ```
/// use tcptailor_base::Checksum;
/// // The example of RFC 1071, section 3.
/// let sum = Checksum::new().bytes(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
/// assert_eq!(sum.partial(), 0xddf2);
/// assert_eq!(sum.finish(), 0x220d);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Checksum {
    /// Sum of the 16-bit words in network order, not yet folded.
    sum: u64,
    /// An odd number of bytes has been added: what follows lands in the other half of the words.
    odd: bool,
}

impl Checksum {
    /// The sum of nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self { sum: 0, odd: false }
    }

    /// Adds bytes; the next ones follow them directly, even after an odd number.
    #[must_use]
    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        let word = sum_of(bytes);
        self.sum += u64::from(if self.odd { word.swap_bytes() } else { word });
        self.odd ^= bytes.len() % 2 == 1;
        self
    }

    /// Adds 16 bits, given in host order, at an even place.
    #[must_use]
    pub const fn word(mut self, word: u16) -> Self {
        self.sum += word as u64;
        self
    }

    /// Adds the pseudo header of a TCP, UDP or ICMPv6 message of `length` bytes.
    ///
    /// Addresses of different versions give the sum of what they hold, which no packet has.
    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.1
    //= https://www.rfc-editor.org/rfc/rfc8200#section-8.1
    #[must_use]
    pub fn pseudo_header(self, ends: (IpAddr, IpAddr), protocol: u8, length: u32) -> Self {
        let add = |sum: Self, address| match address {
            IpAddr::V4(address) => sum.bytes(&address.octets()),
            IpAddr::V6(address) => sum.bytes(&address.octets()),
        };
        add(add(self, ends.0), ends.1)
            .word(u16::from(protocol))
            .word((length >> 16) as u16)
            .word(length as u16)
    }

    /// The sum, not complemented: the value in a packet whose checksum is left to a device
    /// (`NEEDS_CSUM`).
    #[must_use]
    pub const fn partial(self) -> u16 {
        fold(self.sum)
    }

    /// The checksum for the packet; 0 if the summed bytes contain a correct one.
    #[must_use]
    pub const fn finish(self) -> u16 {
        !self.partial()
    }
}

/// The checksum after the 16-bit word `old` of the summed bytes became `new`.
//= https://www.rfc-editor.org/rfc/rfc1624#section-3
//# HC' = ~(~HC + ~m + m')
#[must_use]
pub const fn update_checksum(checksum: u16, old: u16, new: u16) -> u16 {
    !update_partial(!checksum, old, new)
}

/// The not complemented sum after the 16-bit word `old` became `new`.
#[must_use]
pub const fn update_partial(partial: u16, old: u16, new: u16) -> u16 {
    fold(partial as u64 + !old as u64 + new as u64)
}

const fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// The folded sum of `bytes`, padded with a zero byte to whole words.
///
/// RFC 1071 section 2: the sum does not depend on the word size (carries are folded back) nor,
/// apart from a swap at the end, on the byte order. So 8 bytes are added as two halves of 32 bits,
/// in lanes that do not wait for each other; a lane overflows only after 16 GiB.
fn sum_of(bytes: &[u8]) -> u16 {
    const LANES: usize = 4;
    let mut lanes = [0_u64; LANES];
    let mut blocks = bytes.chunks_exact(8 * LANES);
    for block in &mut blocks {
        for (lane, word) in lanes.iter_mut().zip(block.as_chunks::<8>().0) {
            let word = u64::from_le_bytes(*word);
            *lane += (word & 0xffff_ffff) + (word >> 32);
        }
    }
    let mut sum: u64 = lanes.iter().map(|&lane| u64::from(fold(lane))).sum();
    let (words, rest) = blocks.remainder().as_chunks::<2>();
    for word in words {
        sum += u64::from(u16::from_le_bytes(*word));
    }
    if let [last] = rest {
        sum += u64::from(*last);
    }
    fold(sum).swap_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn plain(bytes: &[u8]) -> u16 {
        let mut sum = 0_u64;
        for pair in bytes.chunks(2) {
            sum += u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0));
        }
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }

    proptest! {
        #[test]
        fn equals_the_plain_loop_however_it_is_cut(bytes: Vec<u8>, cut: prop::sample::Index) {
            let (front, back) = bytes.split_at(cut.index(bytes.len() + 1));
            prop_assert_eq!(Checksum::new().bytes(&bytes).finish(), plain(&bytes));
            prop_assert_eq!(Checksum::new().bytes(front).bytes(back).finish(), plain(&bytes));
        }

        #[test]
        fn update_equals_summing_again(
            mut bytes in prop::collection::vec(any::<u8>(), 2..200),
            at: prop::sample::Index,
            new: u16,
        ) {
            // RFC 1624 keeps +0 and -0 apart only where some word is not zero, as in any packet.
            bytes[0] = 0x45;
            let at = 2 * at.index((bytes.len() - 1) / 2 + 1);
            prop_assume!(at > 0 && at + 1 < bytes.len());
            let before = Checksum::new().bytes(&bytes).finish();
            let old = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
            bytes[at..at + 2].copy_from_slice(&new.to_be_bytes());
            prop_assert_eq!(update_checksum(before, old, new), plain(&bytes));
        }
    }

    #[test]
    fn pseudo_headers_have_the_known_sums() {
        let v4 = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        let sum = Checksum::new().pseudo_header(v4, 6, 0x1_0020);
        assert_eq!(sum.partial(), 0x0a00 + 1 + 0x0a00 + 2 + 6 + 1 + 0x20);
        let v6 = ("fd00::1".parse().unwrap(), "::2".parse().unwrap());
        let sum = Checksum::new().pseudo_header(v6, 6, 20);
        assert_eq!(sum.partial(), 0xfd00 + 1 + 2 + 6 + 20);
    }
}
