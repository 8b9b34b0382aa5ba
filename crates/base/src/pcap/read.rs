//! Reading capture files, which are untrusted.
//!
//! Blocks are framed here and not by the library that writes them: packets are handed out where
//! they lie in the buffer, without a copy.

use alloc::vec::Vec;
use core::fmt;
use std::io::Read;

use super::{CapturedPacket, LinkType, PcapError, PcapErrorKind};
use crate::time::Instant;

/// Enough to know the format.
const HEAD_BYTES: usize = 12;
const PCAP_HEADER_BYTES: usize = 24;
const PCAP_PACKET_HEADER_BYTES: usize = 16;
/// Type and length in front of a block's body, and the length behind it.
const BLOCK_BYTES_MIN: usize = 12;
/// Read at once: few system calls, and still in the cache of a processor.
const CHUNK_BYTES: usize = 256 << 10;
/// No packet and no sensible block is longer.
const BLOCK_BYTES_MAX: usize = 8 << 20;
/// Each takes memory for as long as the section lasts; no capture describes this many.
const INTERFACES_MAX: usize = 4096;
const NANOS_PER_SECOND: u128 = 1_000_000_000;

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
/// The older form of a packet.
const PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const INTERFACE_STATISTICS: u32 = 5;
const ENHANCED_PACKET: u32 = 6;

const OPTION_END: u16 = 0;
const OPTION_TIME_RESOLUTION: u16 = 9;
const OPTION_TIME_OFFSET: u16 = 14;
/// `isb_ifdrop`: what the interface dropped since the capture began.
const OPTION_DROPS: u16 = 5;

/// Reads the packets of a capture file, pcap or pcapng, one after the other.
///
/// Takes 256 KiB, and as much as its longest block takes, at most 8 MiB.
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
    input: Input<R>,
    format: Format,
    /// Offset of the next packet or block.
    at: u64,
    /// An error has been handed out: nothing behind it can be trusted.
    failed: bool,
}

/// A packet without its bytes, and where these lie in the buffer.
struct Found {
    at: Instant,
    interface: u32,
    link: LinkType,
    original_bytes: u32,
    from: usize,
    to: usize,
}

enum Format {
    Pcap(Pcap),
    PcapNg(PcapNg),
}

impl<R: Read> fmt::Debug for Reader<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("at", &self.at)
            .field("failed", &self.failed)
            .finish_non_exhaustive()
    }
}

impl<R: Read> Reader<R> {
    /// Reads the head of the file.
    ///
    /// # Errors
    /// Where it is not a capture file.
    pub fn new(input: R) -> Result<Self, PcapError> {
        let error = |kind| PcapError { at: 0, kind };
        let mut input = Input::new(input);
        let head_is_there = input.fill(HEAD_BYTES).map_err(error)?;
        if !head_is_there {
            return Err(error(PcapErrorKind::NotACapture));
        }
        let (format, at) = match *input.bytes() {
            [
                0x0a,
                0x0d,
                0x0d,
                0x0a,
                _,
                _,
                _,
                _,
                0x1a,
                0x2b,
                0x3c,
                0x4d,
                ..,
            ] => (Format::PcapNg(PcapNg::new(true)), 0),
            [
                0x0a,
                0x0d,
                0x0d,
                0x0a,
                _,
                _,
                _,
                _,
                0x4d,
                0x3c,
                0x2b,
                0x1a,
                ..,
            ] => (Format::PcapNg(PcapNg::new(false)), 0),
            _ => {
                let pcap = Pcap::begin(&mut input).map_err(error)?;
                (Format::Pcap(pcap), PCAP_HEADER_BYTES as u64)
            }
        };
        let mut reader = Self {
            input,
            format,
            at,
            failed: false,
        };
        if let Format::PcapNg(format) = &mut reader.format {
            format
                .begin(&mut reader.input, &mut reader.at)
                .map_err(error)?;
        }
        Ok(reader)
    }

    /// The next packet; `None` at the end of the file and after an error.
    ///
    /// # Errors
    /// Where the file is cut off or says something impossible.
    pub fn next_packet(&mut self) -> Option<Result<CapturedPacket<'_>, PcapError>> {
        if self.failed {
            return None;
        }
        let found = match &mut self.format {
            Format::Pcap(format) => format.next(&mut self.input, &mut self.at),
            Format::PcapNg(format) => format.next(&mut self.input, &mut self.at),
        };
        match found {
            Ok(None) => None,
            Ok(Some(found)) => Some(Ok(CapturedPacket {
                at: found.at,
                interface: found.interface,
                link: found.link,
                original_bytes: found.original_bytes,
                bytes: &self.input.buffer[found.from..found.to],
            })),
            Err(kind) => {
                self.failed = true;
                Some(Err(PcapError { at: self.at, kind }))
            }
        }
    }

    /// How far the file has been read, in bytes from its start.
    #[must_use]
    pub const fn position(&self) -> u64 {
        self.at
    }

    /// Packets that the interfaces dropped while the capture ran, as far as the file has been read;
    /// `None` where it does not say (pcap never does).
    #[must_use]
    pub fn dropped(&self) -> Option<u64> {
        match &self.format {
            Format::Pcap(_) => None,
            Format::PcapNg(format) => format.dropped(),
        }
    }
}

/// Bytes that have been read but not consumed.
struct Input<R: Read> {
    source: R,
    buffer: Vec<u8>,
    /// Start of the unconsumed bytes ...
    begin: usize,
    /// ... and ends here.
    end: usize,
}

impl<R: Read> Input<R> {
    fn new(source: R) -> Self {
        Self {
            source,
            buffer: alloc::vec![0; CHUNK_BYTES],
            begin: 0,
            end: 0,
        }
    }

    fn bytes(&self) -> &[u8] {
        &self.buffer[self.begin..self.end]
    }

    /// Whether this many bytes are there; reads on where they are not.
    fn fill(&mut self, bytes: usize) -> Result<bool, PcapErrorKind> {
        match self.end - self.begin >= bytes {
            true => Ok(true),
            false => self.read_on(bytes),
        }
    }

    #[cold]
    fn read_on(&mut self, bytes: usize) -> Result<bool, PcapErrorKind> {
        self.buffer.copy_within(self.begin..self.end, 0);
        self.end -= self.begin;
        self.begin = 0;
        if self.buffer.len() < bytes {
            self.buffer.resize(bytes.next_multiple_of(CHUNK_BYTES), 0);
        }
        while self.end < bytes {
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(0) => return Ok(false),
                Ok(read) => self.end += read,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(PcapErrorKind::Io(error)),
            }
        }
        Ok(true)
    }

    fn is_empty(&self) -> bool {
        self.begin == self.end
    }

    fn word(&self, at: usize, is_big: bool) -> u32 {
        word(self.bytes(), at, is_big)
    }
}

/// The four bytes at `at`, which the caller knows to be there.
#[inline]
fn word(bytes: &[u8], at: usize, is_big: bool) -> u32 {
    let word = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
    match is_big {
        true => u32::from_be_bytes(word),
        false => u32::from_le_bytes(word),
    }
}

fn half(bytes: &[u8], at: usize, is_big: bool) -> u16 {
    let half = [bytes[at], bytes[at + 1]];
    match is_big {
        true => u16::from_be_bytes(half),
        false => u16::from_le_bytes(half),
    }
}

/// The older format.
struct Pcap {
    is_big: bool,
    nanos_per_unit: u64,
    link: LinkType,
}

impl Pcap {
    fn begin<R: Read>(input: &mut Input<R>) -> Result<Self, PcapErrorKind> {
        let (is_big, nanos_per_unit) = match input.bytes()[..4] {
            [0xa1, 0xb2, 0xc3, 0xd4] => (true, 1000),
            [0xa1, 0xb2, 0x3c, 0x4d] => (true, 1),
            [0xd4, 0xc3, 0xb2, 0xa1] => (false, 1000),
            [0x4d, 0x3c, 0xb2, 0xa1] => (false, 1),
            _ => return Err(PcapErrorKind::NotACapture),
        };
        if !input.fill(PCAP_HEADER_BYTES)? {
            return Err(PcapErrorKind::Truncated);
        }
        // The upper half tells of checksums of frames.
        let link = LinkType::from_number(input.word(20, is_big) & 0xffff);
        input.begin += PCAP_HEADER_BYTES;
        Ok(Self {
            is_big,
            nanos_per_unit,
            link,
        })
    }

    fn next<R: Read>(
        &self,
        input: &mut Input<R>,
        at: &mut u64,
    ) -> Result<Option<Found>, PcapErrorKind> {
        if !input.fill(PCAP_PACKET_HEADER_BYTES)? {
            return match input.is_empty() {
                true => Ok(None),
                false => Err(PcapErrorKind::Truncated),
            };
        }
        let head: &[u8] = &input.bytes()[..PCAP_PACKET_HEADER_BYTES];
        let word = |at: usize| word(head, at, self.is_big);
        let (seconds, fraction, captured, original) = (word(0), word(4), word(8), word(12));
        let length = PCAP_PACKET_HEADER_BYTES + captured as usize;
        if length > BLOCK_BYTES_MAX {
            return Err(PcapErrorKind::Invalid("a packet of more than 8 MB"));
        }
        if !input.fill(length)? {
            return Err(PcapErrorKind::Truncated);
        }
        let from = input.begin + PCAP_PACKET_HEADER_BYTES;
        input.begin += length;
        *at += length as u64;
        let nanos = u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * self.nanos_per_unit;
        Ok(Some(Found {
            at: Instant::from_nanos(nanos),
            interface: 0,
            link: self.link,
            original_bytes: original.max(captured),
            from,
            to: input.begin,
        }))
    }
}

/// The newer format.
struct PcapNg {
    /// Byte order of the present section.
    is_big: bool,
    interfaces: Vec<Interface>,
    /// Drops counted in sections that have ended.
    dropped_before: Option<u64>,
}

impl PcapNg {
    const fn new(is_big: bool) -> Self {
        Self {
            is_big,
            interfaces: Vec::new(),
            dropped_before: None,
        }
    }

    /// Takes the first section header, which must be whole.
    fn begin<R: Read>(&mut self, input: &mut Input<R>, at: &mut u64) -> Result<(), PcapErrorKind> {
        let length = self.block(input)?.ok_or(PcapErrorKind::Truncated)?;
        input.begin += length;
        *at += length as u64;
        Ok(())
    }

    /// The length of the next block, which is in the buffer then; `None` at the end.
    fn block<R: Read>(&mut self, input: &mut Input<R>) -> Result<Option<usize>, PcapErrorKind> {
        if !input.fill(BLOCK_BYTES_MIN)? {
            return match input.is_empty() {
                true => Ok(None),
                false => Err(PcapErrorKind::Truncated),
            };
        }
        if word(input.bytes(), 0, true) == SECTION_HEADER {
            self.is_big = match word(input.bytes(), 8, true) {
                0x1a2b_3c4d => true,
                0x4d3c_2b1a => false,
                _ => return Err(PcapErrorKind::Invalid("a section without a byte order")),
            };
        }
        let length = input.word(4, self.is_big) as usize;
        if length < BLOCK_BYTES_MIN || !length.is_multiple_of(4) {
            return Err(PcapErrorKind::Invalid("a block with an impossible length"));
        }
        if length > BLOCK_BYTES_MAX {
            return Err(PcapErrorKind::Invalid("a block of more than 8 MB"));
        }
        if !input.fill(length)? {
            return Err(PcapErrorKind::Truncated);
        }
        match input.word(length - 4, self.is_big) as usize == length {
            true => Ok(Some(length)),
            false => Err(PcapErrorKind::Invalid("a block with two lengths")),
        }
    }

    fn next<R: Read>(
        &mut self,
        input: &mut Input<R>,
        at: &mut u64,
    ) -> Result<Option<Found>, PcapErrorKind> {
        loop {
            let Some(length) = self.block(input)? else {
                return Ok(None);
            };
            let block = &input.bytes()[..length];
            let kind = word(block, 0, self.is_big);
            let body = &block[8..length - 4];
            let found = self.take(kind, body)?;
            let from = input.begin + 8;
            input.begin += length;
            *at += length as u64;
            if let Some(found) = found {
                return Ok(Some(Found {
                    from: from + found.from,
                    to: from + found.to,
                    ..found
                }));
            }
        }
    }

    /// Parses a block; offsets of a packet count from the start of the body.
    fn take(&mut self, kind: u32, body: &[u8]) -> Result<Option<Found>, PcapErrorKind> {
        match kind {
            SECTION_HEADER => {
                self.dropped_before = self.dropped();
                self.interfaces.clear();
            }
            INTERFACE_DESCRIPTION => {
                if self.interfaces.len() == INTERFACES_MAX {
                    return Err(PcapErrorKind::Invalid("more than 4096 interfaces"));
                }
                let described = Interface::of(body, self.is_big)?;
                self.interfaces.push(described);
            }
            INTERFACE_STATISTICS => self.note_drops(body),
            ENHANCED_PACKET | PACKET | SIMPLE_PACKET => {
                return self
                    .packet(kind, body)
                    .map(Some)
                    .map_err(PcapErrorKind::Invalid);
            }
            _ => {}
        }
        Ok(None)
    }

    fn dropped(&self) -> Option<u64> {
        let now = self.interfaces.iter().filter_map(|each| each.dropped);
        let of_section = now.fold(None, |sum: Option<u64>, each| {
            Some(sum.unwrap_or(0).saturating_add(each))
        });
        match (self.dropped_before, of_section) {
            (Some(before), Some(now)) => Some(before.saturating_add(now)),
            (before, now) => before.or(now),
        }
    }

    /// Counted since the capture began: the last statistics hold.
    fn note_drops(&mut self, body: &[u8]) {
        let is_big = self.is_big;
        let Some(index) = body.get(..12).map(|head| word(head, 0, is_big)) else {
            return;
        };
        if let Some(interface) = self.interfaces.get_mut(index as usize) {
            each_option(&body[12..], is_big, |code, value| {
                if let (OPTION_DROPS, Some(value)) = (code, long(value, is_big)) {
                    interface.dropped = Some(value);
                }
            });
        }
    }

    fn packet(&self, kind: u32, body: &[u8]) -> Result<Found, &'static str> {
        let head_bytes = if kind == SIMPLE_PACKET { 4 } else { 20 };
        if body.len() < head_bytes {
            return Err("a packet block that is too short");
        }
        let word = |index: usize| word(body, 4 * index, self.is_big);
        let interface = match kind {
            SIMPLE_PACKET => 0,
            // It counts drops in the other half.
            PACKET => half(body, 0, self.is_big).into(),
            _ => word(0),
        };
        let described = self
            .interfaces
            .get(interface as usize)
            .ok_or("a packet of an interface that was not described")?;
        let (at, captured, original) = if kind == SIMPLE_PACKET {
            let original = word(0);
            let snapped = match described.snap_bytes {
                0 => original,
                bytes => original.min(bytes),
            };
            let there = (body.len() - head_bytes).min(snapped as usize);
            (Instant::ZERO, there, original)
        } else {
            let units = u64::from(word(1)) << 32 | u64::from(word(2));
            (described.instant(units), word(3) as usize, word(4))
        };
        if captured > body.len() - head_bytes {
            return Err("a packet longer than its block");
        }
        Ok(Found {
            at,
            interface,
            link: described.link,
            original_bytes: original.max(captured as u32),
            from: head_bytes,
            to: head_bytes + captured,
        })
    }
}

/// Fields of an interface description that its packets need.
#[derive(Clone, Copy)]
struct Interface {
    link: LinkType,
    snap_bytes: u32,
    /// `if_tsresol`: a power of 10, or of 2 with the highest bit set.
    resolution: u8,
    offset_seconds: i64,
    dropped: Option<u64>,
}

impl Interface {
    fn of(body: &[u8], is_big: bool) -> Result<Self, PcapErrorKind> {
        if body.len() < 8 {
            return Err(PcapErrorKind::Invalid("an interface without a link type"));
        }
        let mut interface = Self {
            link: LinkType::from_number(half(body, 0, is_big).into()),
            snap_bytes: word(body, 4, is_big),
            resolution: 6,
            offset_seconds: 0,
            dropped: None,
        };
        each_option(&body[8..], is_big, |code, value| match (code, value) {
            (OPTION_TIME_RESOLUTION, [resolution]) => interface.resolution = *resolution,
            (OPTION_TIME_OFFSET, _) => {
                if let Some(offset) = long(value, is_big) {
                    interface.offset_seconds = offset as i64;
                }
            }
            _ => {}
        });
        Ok(interface)
    }

    fn instant(&self, units: u64) -> Instant {
        let exponent = u32::from(self.resolution & 0x7f);
        let is_decimal = self.resolution & 0x80 == 0;
        if let (true, 0, Some(left)) =
            (is_decimal, self.offset_seconds, 9_u32.checked_sub(exponent))
        {
            return Instant::from_nanos(units.saturating_mul(10_u64.pow(left)));
        }
        let scaled = u128::from(units) * NANOS_PER_SECOND;
        let nanos = if is_decimal {
            10_u128
                .checked_pow(exponent)
                .map_or(0, |per_second| scaled / per_second)
        } else {
            scaled >> exponent
        };
        let offset = u128::from(self.offset_seconds.unsigned_abs()) * NANOS_PER_SECOND;
        let nanos = if self.offset_seconds < 0 {
            nanos.saturating_sub(offset)
        } else {
            nanos + offset
        };
        Instant::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

fn long(value: &[u8], is_big: bool) -> Option<u64> {
    let value: [u8; 8] = value.try_into().ok()?;
    Some(match is_big {
        true => u64::from_be_bytes(value),
        false => u64::from_le_bytes(value),
    })
}

/// Tells `take` of each option, up to the end of the list or to the first that is broken.
fn each_option(mut bytes: &[u8], is_big: bool, mut take: impl FnMut(u16, &[u8])) {
    while bytes.len() >= 4 {
        let (code, length) = (half(bytes, 0, is_big), usize::from(half(bytes, 2, is_big)));
        let Some(value) = bytes.get(4..4 + length).filter(|_| code != OPTION_END) else {
            return;
        };
        take(code, value);
        bytes = bytes.get(4 + length.next_multiple_of(4)..).unwrap_or(&[]);
    }
}
