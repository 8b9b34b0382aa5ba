//! IP packets, seen in bytes and written as bytes.

mod v4;
mod v6;

use alloc::vec::Vec;
use core::net::IpAddr;

pub(crate) use v4::write_checksum;
pub use v4::{Ipv4Header, Ipv4Packet};
pub use v6::{Ipv6Header, Ipv6Packet};

use crate::parse::{ParseError, ParseErrorKind, require};

/// Numbers of the protocols that IP carries (IANA).
pub mod protocol {
    /// ICMP for IPv4.
    pub const ICMP: u8 = 1;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
    /// ICMP for IPv6.
    pub const ICMPV6: u8 = 58;
}

/// Explicit congestion notification in the IP header (RFC 3168 section 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ecn {
    /// The sender does not understand marks.
    #[default]
    NotCapable,
    /// Capable; RFC 9331 asks for the treatment of L4S.
    Ect1,
    /// Capable.
    Ect0,
    /// A router marked congestion.
    CongestionExperienced,
}

impl Ecn {
    pub(crate) const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::NotCapable,
            1 => Self::Ect1,
            2 => Self::Ect0,
            _ => Self::CongestionExperienced,
        }
    }

    pub(crate) const fn bits(self) -> u8 {
        match self {
            Self::NotCapable => 0,
            Self::Ect1 => 1,
            Self::Ect0 => 2,
            Self::CongestionExperienced => 3,
        }
    }
}

/// A packet of either version.
#[derive(Clone, Copy, Debug)]
pub enum IpPacket<'a> {
    /// Version 4.
    V4(Ipv4Packet<'a>),
    /// Version 6.
    V6(Ipv6Packet<'a>),
}

impl<'a> IpPacket<'a> {
    /// Sees `bytes`, which begin with the IP header. Bytes behind the packet are ignored, and a
    /// packet that a capture cut short is accepted as long as its headers are there.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        require(bytes, 1)?;
        match bytes[0] >> 4 {
            4 => Ipv4Packet::parse(bytes).map(Self::V4),
            6 => Ipv6Packet::parse(bytes).map(Self::V6),
            version => Err(ParseError {
                at: 0,
                kind: ParseErrorKind::Version(version),
            }),
        }
    }

    /// Source address.
    #[must_use]
    pub fn source(&self) -> IpAddr {
        match self {
            Self::V4(packet) => packet.source().into(),
            Self::V6(packet) => packet.source().into(),
        }
    }

    /// To whom.
    #[must_use]
    pub fn destination(&self) -> IpAddr {
        match self {
            Self::V4(packet) => packet.destination().into(),
            Self::V6(packet) => packet.destination().into(),
        }
    }

    /// The protocol that it carries, behind the extension headers of IPv6; see [`protocol`].
    #[inline]
    #[must_use]
    pub const fn protocol(&self) -> u8 {
        match self {
            Self::V4(packet) => packet.protocol(),
            Self::V6(packet) => packet.protocol(),
        }
    }

    /// The payload, truncated where the bytes end early.
    #[inline]
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        match self {
            Self::V4(packet) => packet.payload(),
            Self::V6(packet) => packet.payload(),
        }
    }

    /// Bytes of its headers, extension headers of IPv6 included.
    #[inline]
    #[must_use]
    pub const fn header_bytes(&self) -> usize {
        match self {
            Self::V4(packet) => packet.header_bytes(),
            Self::V6(packet) => packet.header_bytes(),
        }
    }

    /// Length of the whole packet from its header. A length of 0, which Linux gives to GSO packets
    /// above 64 KiB, means all bytes present.
    #[inline]
    #[must_use]
    pub const fn total_bytes(&self) -> usize {
        match self {
            Self::V4(packet) => packet.total_bytes(),
            Self::V6(packet) => packet.total_bytes(),
        }
    }

    /// Routers that it may still pass.
    #[must_use]
    pub const fn hop_limit(&self) -> u8 {
        match self {
            Self::V4(packet) => packet.time_to_live(),
            Self::V6(packet) => packet.hop_limit(),
        }
    }

    /// Its congestion notification.
    #[must_use]
    pub const fn ecn(&self) -> Ecn {
        match self {
            Self::V4(packet) => packet.ecn(),
            Self::V6(packet) => packet.ecn(),
        }
    }

    /// Whether it is one of several fragments.
    #[inline]
    #[must_use]
    pub const fn is_fragment(&self) -> bool {
        match self {
            Self::V4(packet) => packet.more_fragments() || packet.fragment_offset() != 0,
            Self::V6(packet) => packet.is_fragment(),
        }
    }

    /// Whether its payload begins at the start of what the sender handed to IP.
    #[must_use]
    pub const fn is_first_fragment(&self) -> bool {
        match self {
            Self::V4(packet) => packet.fragment_offset() == 0,
            Self::V6(packet) => packet.fragment_offset() == 0,
        }
    }
}

/// A header to be written, of either version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpHeader {
    /// Version 4.
    V4(Ipv4Header),
    /// Version 6.
    V6(Ipv6Header),
}

impl IpHeader {
    /// Source and destination.
    #[must_use]
    pub fn ends(&self) -> (IpAddr, IpAddr) {
        match self {
            Self::V4(header) => (header.source.into(), header.destination.into()),
            Self::V6(header) => (header.source.into(), header.destination.into()),
        }
    }

    /// Appends the header of a packet with a payload of `payload_bytes`.
    ///
    /// # Panics
    /// Where the packet exceeds what the length field holds (64 KiB).
    pub fn write(&self, payload_bytes: usize, out: &mut Vec<u8>) {
        match self {
            Self::V4(header) => header.write(payload_bytes, out),
            Self::V6(header) => header.write(payload_bytes, out),
        }
    }
}

#[cfg(test)]
mod tests;
