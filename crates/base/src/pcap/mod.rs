//! Capture files: pcap and pcapng, read and written with timestamps in nanoseconds.
//!
//! What a link adds in front of IP is taken off by [`CapturedPacket::ip`]; compression is left to
//! the caller, who wraps the file.

mod read;
mod write;

use core::fmt;
use std::io;

pub use read::Reader;
pub use write::Writer;

use crate::parse::be16;
use crate::time::Instant;

/// One packet of a capture file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapturedPacket<'a> {
    /// When it was captured, since the epoch of the file: 1970 in those of the kernel, the start of
    /// the trial in those of a trial. Zero where the file does not say (simple packet blocks).
    pub at: Instant,
    /// Which of the file's interfaces saw it, from 0; always 0 in pcap.
    pub interface: u32,
    /// What stands in front of IP.
    pub link: LinkType,
    /// Bytes of the packet on the wire; `bytes` may be fewer.
    pub original_bytes: u32,
    /// What was captured, from the link's header on.
    pub bytes: &'a [u8],
}

impl<'a> CapturedPacket<'a> {
    /// The packet from its IP header on; `None` where it is not IP or was cut off before.
    #[must_use]
    pub fn ip(&self) -> Option<&'a [u8]> {
        const ETHERTYPE_VLAN: [u16; 2] = [0x8100, 0x88a8];
        let mut bytes = self.bytes;
        let ether_type = match self.link {
            LinkType::Raw => return Some(bytes),
            // The address family in the byte order of the writer; the version of IP says the same.
            LinkType::Null => return bytes.get(4..).filter(|ip| is_ip(ip)),
            LinkType::Ethernet => take_ether_type(&mut bytes, 12, 14)?,
            LinkType::LinuxSll => take_ether_type(&mut bytes, 14, 16)?,
            LinkType::LinuxSll2 => take_ether_type(&mut bytes, 0, 20)?,
            LinkType::Other(_) => return None,
        };
        let mut ether_type = ether_type;
        // Two tags at most (IEEE 802.1ad).
        for _ in 0..2 {
            if ETHERTYPE_VLAN.contains(&ether_type) {
                ether_type = take_ether_type(&mut bytes, 2, 4)?;
            }
        }
        matches!(ether_type, 0x0800 | 0x86dd).then_some(bytes)
    }
}

fn is_ip(bytes: &[u8]) -> bool {
    bytes.first().is_some_and(|byte| matches!(byte >> 4, 4 | 6))
}

/// Reads the 16 bits at `at` and moves `bytes` behind a header of `length`.
fn take_ether_type(bytes: &mut &[u8], at: usize, length: usize) -> Option<u16> {
    let (header, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(be16(header, at))
}

/// What stands in front of the IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkType {
    /// Nothing: a packet begins with its IP header.
    Raw,
    /// The address family in 4 bytes (BSD loopback).
    Null,
    /// Ethernet, perhaps with VLAN tags.
    Ethernet,
    /// What Linux gives for the interface `any`.
    LinuxSll,
    /// The newer form of the same.
    LinuxSll2,
    /// Another number of the registry at tcpdump.org.
    Other(u32),
}

impl LinkType {
    const fn from_number(number: u32) -> Self {
        match number {
            0 => Self::Null,
            1 => Self::Ethernet,
            // 12 and 14 are what BSD systems wrote; 228 and 229 say which version of IP.
            12 | 14 | 101 | 228 | 229 => Self::Raw,
            113 => Self::LinuxSll,
            276 => Self::LinuxSll2,
            other => Self::Other(other),
        }
    }
}

/// A capture file that cannot be read or written on.
#[derive(Debug)]
pub struct PcapError {
    /// Offset of the header, block or packet concerned, in bytes from the start of the file.
    pub at: u64,
    /// What is wrong with it.
    pub kind: PcapErrorKind,
}

/// What is wrong with a capture file.
#[derive(Debug)]
#[non_exhaustive]
pub enum PcapErrorKind {
    /// It begins with none of the known numbers.
    NotACapture,
    /// It ends within a block or packet, or a block exceeds the 8 MB that a reader keeps.
    Truncated,
    /// A field has a value that it must not have.
    Invalid(&'static str),
    /// Reading or writing failed.
    Io(io::Error),
}

impl PcapError {
    fn new(at: u64, error: pcap_file::PcapError) -> Self {
        use pcap_file::PcapError as Theirs;
        let kind = match error {
            Theirs::IncompleteBuffer => PcapErrorKind::Truncated,
            Theirs::IoError(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                PcapErrorKind::Truncated
            }
            Theirs::IoError(error) => PcapErrorKind::Io(error),
            Theirs::InvalidField(what) => PcapErrorKind::Invalid(what),
            Theirs::Utf8Error(_) | Theirs::FromUtf8Error(_) => {
                PcapErrorKind::Invalid("text that is not UTF-8")
            }
            Theirs::InvalidInterfaceId(_) => {
                PcapErrorKind::Invalid("an interface that was not described")
            }
        };
        Self { at, kind }
    }
}

impl fmt::Display for PcapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.at;
        match &self.kind {
            PcapErrorKind::NotACapture => f.write_str(
                "neither pcap nor pcapng; decompress the file, or write it with `tcpdump -w`",
            ),
            PcapErrorKind::Truncated => write!(
                f,
                "byte {at}: the file ends within a packet; what stands in front of it is good"
            ),
            PcapErrorKind::Invalid(what) => {
                write!(f, "byte {at}: {what}; what stands in front of it is good")
            }
            PcapErrorKind::Io(error) => write!(f, "byte {at}: {error}"),
        }
    }
}

impl core::error::Error for PcapError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match &self.kind {
            PcapErrorKind::Io(error) => Some(error),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
