//! Reading capture files that anybody may have written.

use alloc::vec::Vec;
use std::io::{Chain, Cursor, Read};

use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::PcapNgReader;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::{
    ENHANCED_PACKET_BLOCK, INTERFACE_DESCRIPTION_BLOCK, PACKET_BLOCK, SECTION_HEADER_BLOCK,
    SIMPLE_PACKET_BLOCK,
};
use pcap_file::{Endianness, TsResolution};

use super::{CapturedPacket, LinkType, PcapError, PcapErrorKind};
use crate::time::Instant;

/// Enough to know the format and how long the first block of pcapng is.
const HEAD_BYTES: usize = 12;
const PCAP_HEADER_BYTES: u64 = 24;
const PCAP_PACKET_HEADER_BYTES: u64 = 16;
/// Each takes memory for as long as the section lasts; no capture describes this many.
const INTERFACES_MAX: usize = 4096;
const NANOS_PER_SECOND: u128 = 1_000_000_000;

type Input<R> = Chain<Cursor<Vec<u8>>, R>;

/// Reads the packets of a capture file, pcap or pcapng, one after the other.
///
/// Takes about 8 MB whatever the file contains, plus what its interfaces are called.
///
/// ```
/// use tcptailor_base::pcap::{Reader, Writer};
/// use tcptailor_base::Instant;
///
/// let mut writer = Writer::pcap(Vec::new())?;
/// writer.write(0, Instant::from_nanos(1_000_001), &[0x45, 0])?;
/// let file = writer.finish()?;
/// let mut reader = Reader::new(&file[..])?;
/// while let Some(packet) = reader.next_packet() {
///     assert_eq!(packet?.at, Instant::from_nanos(1_000_001));
/// }
/// # Ok::<(), tcptailor_base::pcap::PcapError>(())
/// ```
pub struct Reader<R: Read> {
    source: Source<R>,
    /// Where the next packet or block begins.
    at: u64,
    /// The last packet.
    bytes: Vec<u8>,
    /// An error has been handed out: nothing behind it can be trusted.
    failed: bool,
}

enum Source<R: Read> {
    Pcap(PcapReader<Input<R>>),
    PcapNg(PcapNgReader<Input<R>>, Vec<Interface>),
}

/// A packet without its bytes.
struct Found {
    at: Instant,
    interface: u32,
    link: LinkType,
    original_bytes: u32,
}

impl<R: Read> Reader<R> {
    /// Reads the head of the file.
    ///
    /// # Errors
    /// Where it is not a capture file.
    pub fn new(mut input: R) -> Result<Self, PcapError> {
        let error = |kind| PcapError { at: 0, kind };
        let mut head = Vec::with_capacity(HEAD_BYTES);
        let read = input
            .by_ref()
            .take(HEAD_BYTES as u64)
            .read_to_end(&mut head);
        read.map_err(|e| error(PcapErrorKind::Io(e)))?;
        let Some(format) = Format::of(&head) else {
            return Err(error(PcapErrorKind::NotACapture));
        };
        let input = Cursor::new(head).chain(input);
        let (source, at) = match format {
            Format::Pcap => {
                let reader = PcapReader::new(input).map_err(|e| PcapError::new(0, e))?;
                (Source::Pcap(reader), PCAP_HEADER_BYTES)
            }
            Format::PcapNg { section_bytes } => {
                let reader = PcapNgReader::new(input).map_err(|e| PcapError::new(0, e))?;
                (Source::PcapNg(reader, Vec::new()), section_bytes.into())
            }
        };
        Ok(Self {
            source,
            at,
            bytes: Vec::new(),
            failed: false,
        })
    }

    /// The next packet; `None` at the end of the file and after an error.
    ///
    /// # Errors
    /// Where the file is cut off or says something impossible.
    pub fn next_packet(&mut self) -> Option<Result<CapturedPacket<'_>, PcapError>> {
        if self.failed {
            return None;
        }
        let found = match &mut self.source {
            Source::Pcap(reader) => next_of_pcap(reader, &mut self.at, &mut self.bytes),
            Source::PcapNg(reader, interfaces) => {
                next_of_pcapng(reader, interfaces, &mut self.at, &mut self.bytes)
            }
        };
        self.failed = found.is_err();
        let Found {
            at,
            interface,
            link,
            original_bytes,
        } = match found.transpose()? {
            Ok(found) => found,
            Err(error) => return Some(Err(error)),
        };
        Some(Ok(CapturedPacket {
            at,
            interface,
            link,
            original_bytes,
            bytes: &self.bytes,
        }))
    }

    /// How far the file has been read, in bytes from its start.
    #[must_use]
    pub const fn position(&self) -> u64 {
        self.at
    }
}

enum Format {
    Pcap,
    PcapNg {
        /// Of the first block.
        section_bytes: u32,
    },
}

impl Format {
    fn of(head: &[u8]) -> Option<Self> {
        let length: [u8; 4] = head.get(4..8)?.try_into().ok()?;
        match *head {
            [0xa1, 0xb2, 0xc3, 0xd4, ..]
            | [0xa1, 0xb2, 0x3c, 0x4d, ..]
            | [0xd4, 0xc3, 0xb2, 0xa1, ..]
            | [0x4d, 0x3c, 0xb2, 0xa1, ..] => Some(Self::Pcap),
            [0x0a, 0x0d, 0x0d, 0x0a, _, _, _, _, 0x1a, 0x2b, 0x3c, 0x4d] => Some(Self::PcapNg {
                section_bytes: u32::from_be_bytes(length),
            }),
            [0x0a, 0x0d, 0x0d, 0x0a, _, _, _, _, 0x4d, 0x3c, 0x2b, 0x1a] => Some(Self::PcapNg {
                section_bytes: u32::from_le_bytes(length),
            }),
            _ => None,
        }
    }
}

/// The library's own checks refuse packets that were longer than what was captured of them, so the
/// raw form is read and checked here.
fn next_of_pcap<R: Read>(
    reader: &mut PcapReader<Input<R>>,
    at: &mut u64,
    bytes: &mut Vec<u8>,
) -> Result<Option<Found>, PcapError> {
    let header = reader.header();
    let Some(packet) = reader.next_raw_packet() else {
        return Ok(None);
    };
    let packet = packet.map_err(|e| PcapError::new(*at, e))?;
    let nanos_per_unit = match header.ts_resolution {
        TsResolution::MicroSecond => 1000,
        TsResolution::NanoSecond => 1,
    };
    let nanos =
        u128::from(packet.ts_sec) * NANOS_PER_SECOND + u128::from(packet.ts_frac) * nanos_per_unit;
    bytes.clear();
    bytes.extend_from_slice(&packet.data);
    *at += PCAP_PACKET_HEADER_BYTES + u64::from(packet.incl_len);
    Ok(Some(Found {
        at: instant(nanos),
        interface: 0,
        link: LinkType::from_number(header.datalink.into()),
        original_bytes: packet.orig_len.max(packet.incl_len),
    }))
}

/// The library frames the blocks and reads interfaces. Packet blocks are decoded here, because it
/// takes every timestamp for nanoseconds and refuses a packet for a bad comment.
fn next_of_pcapng<R: Read>(
    reader: &mut PcapNgReader<Input<R>>,
    interfaces: &mut Vec<Interface>,
    at: &mut u64,
    bytes: &mut Vec<u8>,
) -> Result<Option<Found>, PcapError> {
    loop {
        let start = *at;
        let invalid = |what| PcapError {
            at: start,
            kind: PcapErrorKind::Invalid(what),
        };
        let endianness = reader.section().endianness;
        let Some(block) = reader.next_raw_block() else {
            return Ok(None);
        };
        let block = block.map_err(|e| PcapError::new(start, e))?;
        *at += u64::from(block.initial_len);
        match block.type_ {
            SECTION_HEADER_BLOCK => interfaces.clear(),
            INTERFACE_DESCRIPTION_BLOCK => {
                let described = reader.interfaces().last();
                let described = described.ok_or_else(|| invalid("no interface described"))?;
                if interfaces.len() == INTERFACES_MAX {
                    return Err(invalid("more than 4096 interfaces"));
                }
                interfaces.push(Interface::of(described));
            }
            kind => {
                let body = Body {
                    bytes: &block.body,
                    endianness,
                };
                if let Some(packet) = body.packet(kind, interfaces).map_err(invalid)? {
                    bytes.clear();
                    bytes.extend_from_slice(packet.1);
                    return Ok(Some(packet.0));
                }
            }
        }
    }
}

/// What an interface description says of its packets.
#[derive(Clone, Copy)]
struct Interface {
    link: LinkType,
    snap_bytes: u32,
    /// `if_tsresol`: a power of 10, or of 2 with the highest bit set.
    resolution: u8,
    offset_seconds: i64,
}

impl Interface {
    fn of(block: &InterfaceDescriptionBlock<'_>) -> Self {
        let mut interface = Self {
            link: LinkType::from_number(block.linktype.into()),
            snap_bytes: block.snaplen,
            resolution: 6,
            offset_seconds: 0,
        };
        for option in &block.options {
            match option {
                InterfaceDescriptionOption::IfTsResol(resolution) => {
                    interface.resolution = *resolution;
                }
                InterfaceDescriptionOption::IfTsOffset(offset) => {
                    interface.offset_seconds = *offset as i64;
                }
                _ => {}
            }
        }
        interface
    }

    fn instant(&self, units: u64) -> Instant {
        let exponent = u32::from(self.resolution & 0x7f);
        let scaled = u128::from(units) * NANOS_PER_SECOND;
        let nanos = if self.resolution & 0x80 != 0 {
            scaled >> exponent
        } else {
            10_u128
                .checked_pow(exponent)
                .map_or(0, |per_second| scaled / per_second)
        };
        let offset = u128::from(self.offset_seconds.unsigned_abs()) * NANOS_PER_SECOND;
        instant(if self.offset_seconds < 0 {
            nanos.saturating_sub(offset)
        } else {
            nanos + offset
        })
    }
}

fn instant(nanos: u128) -> Instant {
    Instant::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// What stands in a block, in the byte order of its section.
struct Body<'a> {
    bytes: &'a [u8],
    endianness: Endianness,
}

impl<'a> Body<'a> {
    /// The packet of a block of this `kind`; `None` where it holds none.
    fn packet(
        &self,
        kind: u32,
        interfaces: &[Interface],
    ) -> Result<Option<(Found, &'a [u8])>, &'static str> {
        let (interface, units, captured, original, data_at) = match kind {
            // Both have five words in front of the data; the older one counts drops in the upper
            // half of the first.
            ENHANCED_PACKET_BLOCK | PACKET_BLOCK => {
                let interface = match (kind, self.endianness) {
                    (PACKET_BLOCK, Endianness::Big) => self.word(0)? >> 16,
                    (PACKET_BLOCK, Endianness::Little) => self.word(0)? & 0xffff,
                    _ => self.word(0)?,
                };
                let units = u64::from(self.word(1)?) << 32 | u64::from(self.word(2)?);
                (interface, Some(units), self.word(3)?, self.word(4)?, 20)
            }
            SIMPLE_PACKET_BLOCK => (0, None, u32::MAX, self.word(0)?, 4),
            _ => return Ok(None),
        };
        let described = interfaces
            .get(interface as usize)
            .ok_or("a packet of an interface that was not described")?;
        let data = &self.bytes[data_at..];
        let captured = if kind == SIMPLE_PACKET_BLOCK {
            let snapped = match described.snap_bytes {
                0 => original,
                bytes => original.min(bytes),
            };
            data.len().min(snapped as usize)
        } else {
            captured as usize
        };
        let data = data
            .get(..captured)
            .ok_or("a packet longer than its block")?;
        let found = Found {
            at: units.map_or(Instant::ZERO, |units| described.instant(units)),
            interface,
            link: described.link,
            original_bytes: original.max(captured as u32),
        };
        Ok(Some((found, data)))
    }

    fn word(&self, index: usize) -> Result<u32, &'static str> {
        let word = self.bytes.as_chunks::<4>().0.get(index);
        let word = *word.ok_or("a packet block that is too short")?;
        Ok(match self.endianness {
            Endianness::Big => u32::from_be_bytes(word),
            Endianness::Little => u32::from_le_bytes(word),
        })
    }
}
