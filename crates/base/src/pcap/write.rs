//! Writing capture files of IP packets.

use alloc::borrow::Cow;
use alloc::vec;
use core::fmt;
use core::time::Duration;
use std::io::Write;

use pcap_file::pcap::{PcapHeader, PcapWriter, RawPcapPacket};
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::{DataLink, Endianness, TsResolution};

use super::{PcapError, PcapErrorKind};
use crate::time::Instant;

/// Largest snapshot length of `tcpdump`; more than any IP packet has.
const SNAP_BYTES_MAX: u32 = 262_144;
/// `if_tsresol`: 10^-9 s.
const NANOSECONDS: u8 = 9;
const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// File header of pcap, written in front of the first packet.
const PCAP_HEADER_BYTES: u64 = 24;
const SECTION_HEADER_BYTES: u64 = 28;

/// Writes IP packets with their times in nanoseconds (link type "raw"), in small writes: files want
/// a `BufWriter` around them.
pub struct Writer<W: Write> {
    output: Output<W>,
    /// Bytes written so far.
    position: u64,
    /// Bytes kept of each packet.
    snap_bytes: u32,
}

enum Output<W: Write> {
    Pcap(PcapWriter<W>),
    PcapNg(PcapNgWriter<W>),
}

impl<W: Write> fmt::Debug for Writer<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer")
            .field("position", &self.position)
            .field("snap_bytes", &self.snap_bytes)
            .finish_non_exhaustive()
    }
}

impl<W: Write> Writer<W> {
    /// A pcap file, which any tool reads. It has one interface and ends in the year 2106.
    ///
    /// # Errors
    /// Where its head cannot be written.
    pub fn pcap(output: W) -> Result<Self, PcapError> {
        let header = PcapHeader {
            snaplen: SNAP_BYTES_MAX,
            datalink: DataLink::RAW,
            ts_resolution: TsResolution::NanoSecond,
            endianness: Endianness::Little,
            ..PcapHeader::default()
        };
        let writer = PcapWriter::with_header(output, header);
        Ok(Self {
            output: Output::Pcap(writer.map_err(|e| PcapError::new(0, e))?),
            position: PCAP_HEADER_BYTES,
            snap_bytes: SNAP_BYTES_MAX,
        })
    }

    /// A pcapng file with one interface for each of `names`, such as the two ends of a path.
    ///
    /// # Errors
    /// Where its head cannot be written.
    pub fn pcapng(output: W, names: &[&str]) -> Result<Self, PcapError> {
        let mut writer = PcapNgWriter::with_endianness(output, Endianness::Little)
            .map_err(|e| PcapError::new(0, e))?;
        let mut position = SECTION_HEADER_BYTES;
        for &name in names {
            let block = InterfaceDescriptionBlock {
                linktype: DataLink::RAW,
                snaplen: SNAP_BYTES_MAX,
                options: vec![
                    InterfaceDescriptionOption::IfName(Cow::Borrowed(name)),
                    InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
                ],
            };
            let written = writer.write_pcapng_block(block);
            position += written.map_err(|e| PcapError::new(position, e))? as u64;
        }
        Ok(Self {
            output: Output::PcapNg(writer),
            position,
            snap_bytes: SNAP_BYTES_MAX,
        })
    }

    /// Keeps only the first `bytes` of each packet, at most 256 KiB; headers take up to 120.
    #[must_use]
    pub fn with_snap_bytes(mut self, bytes: u32) -> Self {
        self.snap_bytes = bytes.min(SNAP_BYTES_MAX);
        self
    }

    /// Appends the IP packet `bytes`, seen by an `interface` (from 0; pcap ignores it).
    ///
    /// # Errors
    /// Where the output fails, pcapng was given no such interface, or pcap cannot express the time.
    pub fn write(&mut self, interface: u32, at: Instant, bytes: &[u8]) -> Result<(), PcapError> {
        let original_bytes = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let data = &bytes[..bytes.len().min(self.snap_bytes as usize)];
        let position = self.position;
        let written = match &mut self.output {
            Output::Pcap(writer) => {
                let seconds = u32::try_from(at.as_nanos() / NANOS_PER_SECOND);
                writer.write_raw_packet(&RawPcapPacket {
                    ts_sec: seconds.map_err(|_| PcapError {
                        at: position,
                        kind: PcapErrorKind::Invalid("a time behind the end of pcap, write pcapng"),
                    })?,
                    ts_frac: (at.as_nanos() % NANOS_PER_SECOND) as u32,
                    incl_len: data.len() as u32,
                    orig_len: original_bytes,
                    data: Cow::Borrowed(data),
                })
            }
            Output::PcapNg(writer) => writer.write_pcapng_block(EnhancedPacketBlock {
                interface_id: interface,
                timestamp: Duration::from_nanos(at.as_nanos()),
                original_len: original_bytes,
                data: Cow::Borrowed(data),
                options: vec![],
            }),
        };
        self.position += written.map_err(|e| PcapError::new(position, e))? as u64;
        Ok(())
    }

    /// Flushes the output and gives it back.
    ///
    /// # Errors
    /// Where the output fails.
    pub fn finish(self) -> Result<W, PcapError> {
        let mut output = match self.output {
            Output::Pcap(writer) => writer.into_writer(),
            Output::PcapNg(writer) => writer.into_inner(),
        };
        match output.flush() {
            Ok(()) => Ok(output),
            Err(e) => Err(PcapError {
                at: self.position,
                kind: PcapErrorKind::Io(e),
            }),
        }
    }
}
