//! IPv4 (RFC 791).

use alloc::vec::Vec;
use core::net::Ipv4Addr;

use super::Ecn;
use crate::checksum::Checksum;
use crate::parse::{ParseError, ParseErrorKind, be16, require, set_be16};

const HEADER_BYTES_MIN: usize = 20;
const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;

/// An IPv4 packet, seen in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Ipv4Packet<'a> {
    /// The header without its options.
    fixed: &'a [u8; HEADER_BYTES_MIN],
    /// At least the header.
    bytes: &'a [u8],
}

impl<'a> Ipv4Packet<'a> {
    /// Bytes of a header without options.
    pub const HEADER_BYTES_MIN: usize = HEADER_BYTES_MIN;

    /// Sees `bytes`, which begin with the header; see [`super::IpPacket::parse`].
    ///
    /// # Errors
    /// What is wrong, and where. The header checksum is not looked at.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let Some(fixed) = bytes.first_chunk() else {
            return Err(ParseError::too_short(HEADER_BYTES_MIN));
        };
        let error = |at, kind| Err(ParseError { at, kind });
        if fixed[0] >> 4 != 4 {
            return error(0, ParseErrorKind::Version(fixed[0] >> 4));
        }
        let header = usize::from(fixed[0] & 0xf) * 4;
        if header < Self::HEADER_BYTES_MIN {
            return error(0, ParseErrorKind::Length(header as u32));
        }
        require(bytes, header)?;
        let total = be16(fixed, 2);
        if total != 0 && usize::from(total) < header {
            return error(2, ParseErrorKind::Length(total.into()));
        }
        let end = match usize::from(total) {
            0 => bytes.len(),
            total => total.min(bytes.len()),
        };
        Ok(Self {
            fixed,
            bytes: &bytes[..end],
        })
    }

    /// Source address.
    #[inline]
    #[must_use]
    pub const fn source(&self) -> Ipv4Addr {
        address(self.fixed, 12)
    }

    /// To whom.
    #[inline]
    #[must_use]
    pub const fn destination(&self) -> Ipv4Addr {
        address(self.fixed, 16)
    }

    /// Protocol of the payload; see [`super::protocol`].
    #[inline]
    #[must_use]
    pub const fn protocol(&self) -> u8 {
        self.fixed[9]
    }

    /// Bytes of the header with its options.
    #[inline]
    #[must_use]
    pub const fn header_bytes(&self) -> usize {
        (self.fixed[0] & 0xf) as usize * 4
    }

    /// Bytes of the packet; see [`super::IpPacket::total_bytes`].
    #[inline]
    #[must_use]
    pub const fn total_bytes(&self) -> usize {
        match be16(self.fixed, 2) {
            0 => self.bytes.len(),
            total => total as usize,
        }
    }

    /// The differentiated services code point, 0 to 63 (RFC 2474).
    #[must_use]
    pub const fn dscp(&self) -> u8 {
        self.fixed[1] >> 2
    }

    /// Its congestion notification.
    #[must_use]
    pub const fn ecn(&self) -> Ecn {
        Ecn::from_bits(self.fixed[1])
    }

    /// The number that its fragments share.
    #[inline]
    #[must_use]
    pub const fn identification(&self) -> u16 {
        be16(self.fixed, 4)
    }

    /// Routers must not fragment it.
    #[must_use]
    pub const fn dont_fragment(&self) -> bool {
        be16(self.fixed, 6) & DONT_FRAGMENT != 0
    }

    /// It is not the last fragment.
    #[inline]
    #[must_use]
    pub const fn more_fragments(&self) -> bool {
        be16(self.fixed, 6) & MORE_FRAGMENTS != 0
    }

    /// Offset of this payload in the original datagram, in bytes.
    #[inline]
    #[must_use]
    pub const fn fragment_offset(&self) -> u32 {
        (be16(self.fixed, 6) & 0x1fff) as u32 * 8
    }

    /// Routers that it may still pass.
    #[must_use]
    pub const fn time_to_live(&self) -> u8 {
        self.fixed[8]
    }

    /// Whether the header checksum is right.
    #[must_use]
    pub fn checksum_is_right(&self) -> bool {
        let header = &self.bytes[..self.header_bytes()];
        Checksum::new().bytes(header).finish() == 0
    }

    /// The options, raw.
    #[must_use]
    pub fn options(&self) -> &'a [u8] {
        &self.bytes[Self::HEADER_BYTES_MIN..self.header_bytes()]
    }

    /// The payload, truncated where the bytes end early.
    #[inline]
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[self.header_bytes()..]
    }
}

const fn address(bytes: &[u8], at: usize) -> Ipv4Addr {
    Ipv4Addr::new(bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3])
}

/// An IPv4 header without options, of a packet that is not a fragment, to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4Header {
    /// Source address.
    pub source: Ipv4Addr,
    /// To whom.
    pub destination: Ipv4Addr,
    /// Protocol of the payload; see [`super::protocol`].
    pub protocol: u8,
    /// Differentiated services code point, 0 to 63.
    pub dscp: u8,
    /// Congestion notification.
    pub ecn: Ecn,
    /// The number that its fragments would share.
    pub identification: u16,
    /// Routers must not fragment it.
    pub dont_fragment: bool,
    /// Routers that it may pass.
    pub time_to_live: u8,
}

impl Ipv4Header {
    /// A header as Linux writes it for TCP: do not fragment, 64 routers.
    #[must_use]
    pub const fn new(source: Ipv4Addr, destination: Ipv4Addr, protocol: u8) -> Self {
        Self {
            source,
            destination,
            protocol,
            dscp: 0,
            ecn: Ecn::NotCapable,
            identification: 0,
            dont_fragment: true,
            time_to_live: 64,
        }
    }

    /// Appends the header of a packet with a payload of `payload_bytes`.
    ///
    /// # Panics
    /// Where the packet exceeds 65535 bytes.
    pub fn write(&self, payload_bytes: usize, out: &mut Vec<u8>) {
        let mut bytes = [0; Ipv4Packet::HEADER_BYTES_MIN];
        let total = bytes.len() + payload_bytes;
        let total = u16::try_from(total).expect("the caller keeps a packet below 64 KiB");
        bytes[0] = 0x45;
        bytes[1] = self.dscp << 2 | self.ecn.bits();
        set_be16(&mut bytes, 2, total);
        set_be16(&mut bytes, 4, self.identification);
        let flags = if self.dont_fragment { DONT_FRAGMENT } else { 0 };
        set_be16(&mut bytes, 6, flags);
        bytes[8] = self.time_to_live;
        bytes[9] = self.protocol;
        bytes[12..16].copy_from_slice(&self.source.octets());
        bytes[16..20].copy_from_slice(&self.destination.octets());
        write_checksum(&mut bytes);
        out.extend_from_slice(&bytes);
    }
}

/// Sets the checksum of a whole IPv4 header.
pub(crate) fn write_checksum(header: &mut [u8]) {
    set_be16(header, 10, 0);
    let checksum = Checksum::new().bytes(header).finish();
    set_be16(header, 10, checksum);
}
