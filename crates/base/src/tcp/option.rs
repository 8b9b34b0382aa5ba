//! The options of a TCP segment.

use alloc::vec::Vec;

use crate::parse::{be16, be32};
use crate::seq::SeqNum;

const END: u8 = 0;
const NOP: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;
const FAST_OPEN: u8 = 34;

/// One option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpOption<'a> {
    /// Padding between options.
    Nop,
    /// The largest payload that the sender accepts in one segment, in bytes (RFC 9293, 3.7.1).
    Mss(u16),
    /// By how many bits the window field is to be shifted (RFC 7323); values above 14 count as 14.
    WindowScale(u8),
    /// Selective acknowledgments are welcome (RFC 2018).
    SackPermitted,
    /// Data that arrived behind a gap (RFC 2018).
    Sack(SackBlocks),
    /// Timestamps (RFC 7323 section 3).
    Timestamps {
        /// The sender's clock.
        value: u32,
        /// The last timestamp of the other side.
        echo: u32,
    },
    /// A cookie of fast open (RFC 7413), raw; empty where one is asked for.
    FastOpen(&'a [u8]),
    /// Another option, or a known one of a wrong length, raw.
    Unknown {
        /// The option's number.
        kind: u8,
        /// Bytes behind the length field.
        data: &'a [u8],
    },
}

impl TcpOption<'_> {
    /// Appends the option.
    ///
    /// # Panics
    /// Where raw data exceed the 38 bytes that any header has room for.
    pub fn write(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Nop => out.push(NOP),
            Self::Mss(bytes) => write_raw(MSS, &bytes.to_be_bytes(), out),
            Self::WindowScale(shift) => write_raw(WINDOW_SCALE, &[shift], out),
            Self::SackPermitted => write_raw(SACK_PERMITTED, &[], out),
            Self::Sack(blocks) => {
                out.extend_from_slice(&[SACK, 2 + 8 * blocks.length]);
                for (start, end) in blocks.iter() {
                    out.extend_from_slice(&start.number().to_be_bytes());
                    out.extend_from_slice(&end.number().to_be_bytes());
                }
            }
            Self::Timestamps { value, echo } => {
                out.extend_from_slice(&[TIMESTAMPS, 10]);
                out.extend_from_slice(&value.to_be_bytes());
                out.extend_from_slice(&echo.to_be_bytes());
            }
            Self::FastOpen(cookie) => write_raw(FAST_OPEN, cookie, out),
            Self::Unknown { kind, data } => write_raw(kind, data, out),
        }
    }
}

fn write_raw(kind: u8, data: &[u8], out: &mut Vec<u8>) {
    assert!(data.len() <= 38, "{} bytes do not fit a header", data.len());
    out.extend_from_slice(&[kind, data.len() as u8 + 2]);
    out.extend_from_slice(data);
}

/// Up to four ranges of received data, each from its first byte to behind its last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SackBlocks {
    blocks: [(SeqNum, SeqNum); Self::MAX],
    length: u8,
}

impl SackBlocks {
    /// As many as fit into 40 bytes of options.
    pub const MAX: usize = 4;

    /// The first four of `blocks`.
    #[must_use]
    pub fn new(blocks: &[(SeqNum, SeqNum)]) -> Self {
        let mut taken = Self::default();
        for (slot, block) in taken.blocks.iter_mut().zip(blocks) {
            *slot = *block;
            taken.length += 1;
        }
        taken
    }

    /// The ranges in the order of the packet; the first is the one that arrived last.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (SeqNum, SeqNum)> + '_ {
        self.blocks[..usize::from(self.length)].iter().copied()
    }
}

/// Iterates over the options of a segment, up to the end of the list or to the first that exceeds
/// its header: like Linux, it accepts the options in front of a malformed one.
#[derive(Clone, Copy, Debug)]
pub struct TcpOptions<'a> {
    bytes: &'a [u8],
}

impl<'a> TcpOptions<'a> {
    /// Sees the bytes between the fixed header and the payload.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }
}

impl<'a> Iterator for TcpOptions<'a> {
    type Item = TcpOption<'a>;

    fn next(&mut self) -> Option<TcpOption<'a>> {
        match *self.bytes {
            [NOP, ref rest @ ..] => {
                self.bytes = rest;
                Some(TcpOption::Nop)
            }
            [kind, length, ..] if kind != END => {
                let (option, rest) = self.bytes.split_at_checked(length.into())?;
                // The kind and the length itself; a shorter one would never end.
                let data = option.get(2..)?;
                self.bytes = rest;
                Some(decode(kind, data))
            }
            _ => None,
        }
    }
}

fn decode(kind: u8, data: &[u8]) -> TcpOption<'_> {
    match (kind, data.len()) {
        (MSS, 2) => TcpOption::Mss(be16(data, 0)),
        (WINDOW_SCALE, 1) => TcpOption::WindowScale(data[0]),
        (SACK_PERMITTED, 0) => TcpOption::SackPermitted,
        (SACK, 8 | 16 | 24 | 32) => TcpOption::Sack(sack_blocks(data)),
        (TIMESTAMPS, 8) => TcpOption::Timestamps {
            value: be32(data, 0),
            echo: be32(data, 4),
        },
        (FAST_OPEN, _) => TcpOption::FastOpen(data),
        _ => TcpOption::Unknown { kind, data },
    }
}

fn sack_blocks(data: &[u8]) -> SackBlocks {
    let mut taken = SackBlocks::default();
    for (slot, block) in taken.blocks.iter_mut().zip(data.chunks_exact(8)) {
        *slot = (SeqNum::new(be32(block, 0)), SeqNum::new(be32(block, 4)));
        taken.length += 1;
    }
    taken
}
