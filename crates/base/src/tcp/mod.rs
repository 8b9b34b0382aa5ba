//! TCP segments, seen in bytes and written as bytes.

mod flags;
mod option;

use alloc::vec::Vec;
use core::net::IpAddr;

pub use flags::TcpFlags;
pub use option::{SackBlocks, TcpOption, TcpOptions};

use crate::checksum::Checksum;
use crate::ip::{IpHeader, protocol};
use crate::parse::{ParseError, ParseErrorKind, be16, be32, require, set_be16};
use crate::seq::SeqNum;

/// Offset of the checksum in the header.
pub(crate) const CHECKSUM_AT: usize = 16;

/// A TCP segment, seen in bytes.
#[derive(Clone, Copy, Debug)]
pub struct TcpSegment<'a> {
    /// At least the header with its options.
    bytes: &'a [u8],
}

impl<'a> TcpSegment<'a> {
    /// Bytes of a header without options.
    pub const HEADER_BYTES_MIN: usize = 20;
    /// Bytes of the longest header.
    pub const HEADER_BYTES_MAX: usize = 60;

    /// Sees `bytes`, the payload of an IP packet.
    ///
    /// # Errors
    /// What is wrong, and where. The checksum is not looked at.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        require(bytes, Self::HEADER_BYTES_MIN)?;
        let header = usize::from(bytes[12] >> 4) * 4;
        if header < Self::HEADER_BYTES_MIN {
            return Err(ParseError {
                at: 12,
                kind: ParseErrorKind::Length(header as u32),
            });
        }
        require(bytes, header)?;
        Ok(Self { bytes })
    }

    /// The sender's port.
    #[must_use]
    pub const fn source_port(&self) -> u16 {
        be16(self.bytes, 0)
    }

    /// The receiver's port.
    #[must_use]
    pub const fn destination_port(&self) -> u16 {
        be16(self.bytes, 2)
    }

    /// The number of the first payload byte, or of SYN.
    #[must_use]
    pub const fn seq(&self) -> SeqNum {
        SeqNum::new(be32(self.bytes, 4))
    }

    /// The next byte that the sender expects; counts where ACK is set.
    #[must_use]
    pub const fn ack(&self) -> SeqNum {
        SeqNum::new(be32(self.bytes, 8))
    }

    /// The flags.
    #[must_use]
    pub const fn flags(&self) -> TcpFlags {
        TcpFlags::from_bits(be16(self.bytes, 12))
    }

    /// The window field; in bytes only after the connection's shift.
    #[must_use]
    pub const fn window(&self) -> u16 {
        be16(self.bytes, 14)
    }

    /// The checksum field.
    #[must_use]
    pub const fn checksum(&self) -> u16 {
        be16(self.bytes, CHECKSUM_AT)
    }

    /// Urgent pointer: the offset from `seq` to the end of urgent data, in bytes; valid where URG
    /// is set.
    #[must_use]
    pub const fn urgent(&self) -> u16 {
        be16(self.bytes, 18)
    }

    /// Bytes of the header with its options.
    #[must_use]
    pub const fn header_bytes(&self) -> usize {
        (self.bytes[12] >> 4) as usize * 4
    }

    /// The options.
    #[must_use]
    pub fn options(&self) -> TcpOptions<'a> {
        TcpOptions::new(&self.bytes[Self::HEADER_BYTES_MIN..self.header_bytes()])
    }

    /// The sender's timestamp and its echo of the other side's.
    #[must_use]
    pub fn timestamps(&self) -> Option<(u32, u32)> {
        self.options().find_map(|option| match option {
            TcpOption::Timestamps { value, echo } => Some((value, echo)),
            _ => None,
        })
    }

    /// The ranges that arrived behind a gap, where the segment names any.
    #[must_use]
    pub fn sack_blocks(&self) -> Option<SackBlocks> {
        self.options().find_map(|option| match option {
            TcpOption::Sack(blocks) => Some(blocks),
            _ => None,
        })
    }

    /// The payload, as far as the bytes go.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[self.header_bytes()..]
    }

    /// Whether the checksum is right for this source and destination.
    #[must_use]
    pub fn checksum_is_right(&self, ends: (IpAddr, IpAddr)) -> bool {
        let length = self.bytes.len() as u32;
        let sum = Checksum::new().pseudo_header(ends, protocol::TCP, length);
        sum.bytes(self.bytes).finish() == 0
    }
}

/// The fixed part of a TCP header, to be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpHeader {
    /// The sender's port.
    pub source_port: u16,
    /// The receiver's port.
    pub destination_port: u16,
    /// The number of the first payload byte, or of SYN.
    pub seq: SeqNum,
    /// The next byte that the sender expects.
    pub ack: SeqNum,
    /// The flags.
    pub flags: TcpFlags,
    /// The window field, already shifted.
    pub window: u16,
    /// Urgent pointer: the offset from `seq` to the end of urgent data, in bytes.
    pub urgent: u16,
}

impl TcpHeader {
    /// Appends the header with `options`, padded to whole words, and a checksum of 0; returns the
    /// bytes written.
    ///
    /// # Panics
    /// Where the options exceed 40 bytes.
    pub fn write(&self, options: &[TcpOption<'_>], out: &mut Vec<u8>) -> usize {
        let start = out.len();
        out.extend_from_slice(&self.source_port.to_be_bytes());
        out.extend_from_slice(&self.destination_port.to_be_bytes());
        out.extend_from_slice(&self.seq.number().to_be_bytes());
        out.extend_from_slice(&self.ack.number().to_be_bytes());
        out.extend_from_slice(&self.flags.bits().to_be_bytes());
        out.extend_from_slice(&self.window.to_be_bytes());
        out.extend_from_slice(&[0, 0]);
        out.extend_from_slice(&self.urgent.to_be_bytes());
        for option in options {
            option.write(out);
        }
        // Zero is the end of the list.
        out.resize(start + (out.len() - start).next_multiple_of(4), 0);
        let length = out.len() - start;
        assert!(
            length <= TcpSegment::HEADER_BYTES_MAX,
            "options take {} bytes, a header has room for 40",
            length - TcpSegment::HEADER_BYTES_MIN
        );
        out[start + 12] |= (length as u8 / 4) << 4;
        length
    }

    /// Appends a whole packet: IP header, this header with `options`, `payload`, all checksums.
    ///
    /// # Panics
    /// Where the options exceed 40 bytes or the packet exceeds 64 KiB.
    pub fn write_packet(
        &self,
        ip: &IpHeader,
        options: &[TcpOption<'_>],
        payload: &[u8],
        out: &mut Vec<u8>,
    ) {
        let mut segment = Vec::with_capacity(TcpSegment::HEADER_BYTES_MAX);
        self.write(options, &mut segment);
        let length = segment.len() + payload.len();
        let sum = Checksum::new()
            .pseudo_header(ip.ends(), protocol::TCP, length as u32)
            .bytes(&segment)
            .bytes(payload);
        set_be16(&mut segment, CHECKSUM_AT, sum.finish());
        ip.write(length, out);
        out.extend_from_slice(&segment);
        out.extend_from_slice(payload);
    }
}

#[cfg(test)]
mod tests;
