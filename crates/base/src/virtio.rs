//! The virtio-net header with which a TUN device says how far a packet is finished.
//!
//! Layout: virtio 1.2, section 5.1.6 ("Device Operation"), little-endian, as `TUNSETVNETLE` and
//! every little-endian machine have it.

use crate::parse::{ParseError, require};

/// How a packet is to be cut into wire packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GsoType {
    /// It is one wire packet.
    #[default]
    None,
    /// TCP over IPv4.
    TcpV4,
    /// UDP by IP fragments, over IPv4 (obsolete).
    Udp,
    /// TCP over IPv6.
    TcpV6,
    /// UDP datagrams of the same size.
    UdpL4,
    /// A value that is none of these.
    Other(u8),
}

impl GsoType {
    const ECN: u8 = 0x80;

    const fn from_bits(bits: u8) -> Self {
        match bits {
            0 => Self::None,
            1 => Self::TcpV4,
            3 => Self::Udp,
            4 => Self::TcpV6,
            5 => Self::UdpL4,
            other => Self::Other(other),
        }
    }

    const fn bits(self) -> u8 {
        match self {
            Self::None => 0,
            Self::TcpV4 => 1,
            Self::Udp => 3,
            Self::TcpV6 => 4,
            Self::UdpL4 => 5,
            Self::Other(bits) => bits & !Self::ECN,
        }
    }
}

/// The header in front of each packet of a TUN device with `IFF_VNET_HDR`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VirtioHeader {
    /// [`Self::NEEDS_CSUM`], [`Self::DATA_VALID`] and bits unknown to us, which are kept.
    pub flags: u8,
    /// How the packet is to be cut.
    pub gso: GsoType,
    /// The first wire packet, and it alone, carries TCP's CWR (RFC 3168 section 6.1.2).
    pub ecn: bool,
    /// Bytes of all headers, as a hint for where to split memory; 0 where unknown.
    pub header_bytes: u16,
    /// Payload bytes of each wire packet but the last; 0 without segmentation.
    pub gso_size: u16,
    /// Offset at which the checksum starts to cover, in bytes from the start of the packet.
    pub csum_start: u16,
    /// Offset of the checksum, in bytes from `csum_start`.
    pub csum_offset: u16,
}

impl VirtioHeader {
    /// Bytes on a TUN device, unless `TUNSETVNETHDRSZ` says otherwise.
    pub const BYTES: usize = 10;
    /// Bytes with the count of merged buffers behind (virtio 1, `VIRTIO_NET_F_MRG_RXBUF`).
    pub const MERGEABLE_BYTES: usize = 12;
    /// The checksum field holds the sum over the pseudo header only; the rest is to be added.
    pub const NEEDS_CSUM: u8 = 1;
    /// The checksum has been found right.
    pub const DATA_VALID: u8 = 2;

    /// Reads the first [`Self::BYTES`]; a count of merged buffers after them is not used here.
    ///
    /// # Errors
    /// Where there are fewer bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        require(bytes, Self::BYTES)?;
        let le16 = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        Ok(Self {
            flags: bytes[0],
            gso: GsoType::from_bits(bytes[1] & !GsoType::ECN),
            ecn: bytes[1] & GsoType::ECN != 0,
            header_bytes: le16(2),
            gso_size: le16(4),
            csum_start: le16(6),
            csum_offset: le16(8),
        })
    }

    /// The header as a TUN device reads and writes it.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[0] = self.flags;
        bytes[1] = self.gso.bits() | if self.ecn { GsoType::ECN } else { 0 };
        bytes[2..4].copy_from_slice(&self.header_bytes.to_le_bytes());
        bytes[4..6].copy_from_slice(&self.gso_size.to_le_bytes());
        bytes[6..8].copy_from_slice(&self.csum_start.to_le_bytes());
        bytes[8..10].copy_from_slice(&self.csum_offset.to_le_bytes());
        bytes
    }

    /// The long form, with the count of buffers that hold the packet.
    #[must_use]
    pub fn to_mergeable_bytes(self, buffers: u16) -> [u8; Self::MERGEABLE_BYTES] {
        let mut bytes = [0; Self::MERGEABLE_BYTES];
        bytes[..Self::BYTES].copy_from_slice(&self.to_bytes());
        bytes[Self::BYTES..].copy_from_slice(&buffers.to_le_bytes());
        bytes
    }

    /// Whether the checksum is left to the device.
    #[must_use]
    pub const fn needs_checksum(&self) -> bool {
        self.flags & Self::NEEDS_CSUM != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_round_trip(bytes: [u8; 12]) {
            let header = VirtioHeader::parse(&bytes).unwrap();
            prop_assert_eq!(&header.to_bytes()[..], &bytes[..10]);
            let buffers = u16::from_le_bytes([bytes[10], bytes[11]]);
            prop_assert_eq!(header.to_mergeable_bytes(buffers), bytes);
        }
    }

    #[test]
    fn layout_is_that_of_linux() {
        // A GSO packet of 1448-byte segments as Linux hands it over.
        let bytes = [1, 0x81, 66, 0, 0xa8, 5, 20, 0, 16, 0];
        let header = VirtioHeader {
            flags: VirtioHeader::NEEDS_CSUM,
            gso: GsoType::TcpV4,
            ecn: true,
            header_bytes: 66,
            gso_size: 1448,
            csum_start: 20,
            csum_offset: 16,
        };
        assert_eq!(VirtioHeader::parse(&bytes), Ok(header));
        assert!(VirtioHeader::parse(&bytes[..9]).is_err());
    }
}
