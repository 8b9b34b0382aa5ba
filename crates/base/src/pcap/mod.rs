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

use crate::parse::{be16, be32};
use crate::time::Instant;

/// One packet of a capture file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapturedPacket<'a> {
    /// When it was captured, since the epoch of the file: 1970 in those of the kernel, the start of
    /// the trial in those of a trial. Zero where the file does not say (simple packet blocks).
    pub at: Instant,
    /// Which of the file's interfaces saw it, from 0; always 0 in pcap.
    pub interface: u32,
    /// Headers in front of IP.
    pub link: LinkType,
    /// Bytes of the packet on the wire; `bytes` may be fewer.
    pub original_bytes: u32,
    /// Captured bytes, from the link-layer header on.
    pub bytes: &'a [u8],
}

impl<'a> CapturedPacket<'a> {
    /// The packet from its IP header on; `None` where it is not IP or was cut off before. Tags of
    /// VLANs, labels of MPLS and the header of a `PPPoE` session come off too.
    #[must_use]
    pub fn ip(&self) -> Option<&'a [u8]> {
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
        ip_of_ether_type(ether_type, bytes)
    }

    /// The device that saw it: the interface of the file, or the one that Linux names in front of
    /// each packet of a capture on `any`.
    #[must_use]
    pub fn device(&self) -> u32 {
        match (self.link, self.bytes.get(4..8)) {
            (LinkType::LinuxSll2, Some(index)) => be32(index, 0),
            _ => self.interface,
        }
    }
}

/// The IP packet in the payload of an Ethernet frame of this type.
pub(crate) fn ip_of_ether_type(mut ether_type: u16, mut bytes: &[u8]) -> Option<&[u8]> {
    const VLAN: [u16; 3] = [0x8100, 0x88a8, 0x9100];
    const MPLS: [u16; 2] = [0x8847, 0x8848];
    const PPPOE_SESSION: u16 = 0x8864;
    // Two tags at most (IEEE 802.1ad).
    for _ in 0..2 {
        if VLAN.contains(&ether_type) {
            ether_type = take_ether_type(&mut bytes, 2, 4)?;
        }
    }
    match ether_type {
        0x0800 | 0x86dd => Some(bytes),
        PPPOE_SESSION => bytes.get(8..).filter(|ip| is_ip(ip)),
        _ if MPLS.contains(&ether_type) => behind_labels(bytes),
        _ => None,
    }
}

/// RFC 3032: the last label has a bit set; what follows is known by its version.
fn behind_labels(mut bytes: &[u8]) -> Option<&[u8]> {
    const LABELS_MAX: usize = 8;
    for _ in 0..LABELS_MAX {
        let (label, rest) = bytes.split_at_checked(4)?;
        bytes = rest;
        if label[2] & 1 != 0 {
            return Some(bytes).filter(|ip| is_ip(ip));
        }
    }
    None
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

/// The IP packet in an Ethernet frame, such as a tunnel carries; `None` where there is none.
#[must_use]
pub fn ip_of_frame(mut frame: &[u8]) -> Option<&[u8]> {
    let ether_type = take_ether_type(&mut frame, 12, 14)?;
    ip_of_ether_type(ether_type, frame)
}

/// Link-layer header type of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkType {
    /// Nothing: a packet begins with its IP header.
    Raw,
    /// The address family in 4 bytes (BSD loopback).
    Null,
    /// Ethernet, perhaps with VLAN tags.
    Ethernet,
    /// Linux cooked capture, version 1 (interface `any`).
    LinuxSll,
    /// The newer form of the same.
    LinuxSll2,
    /// Another number of the registry at tcpdump.org.
    Other(u32),
}

impl LinkType {
    const fn from_number(number: u32) -> Self {
        match number {
            // 108 is that of OpenBSD.
            0 | 108 => Self::Null,
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
    /// Kind of error.
    pub kind: PcapErrorKind,
}

/// Kind of error in a capture file.
#[derive(Debug)]
#[non_exhaustive]
pub enum PcapErrorKind {
    /// It begins with none of the known numbers.
    NotACapture,
    /// It ends within a block or packet.
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
