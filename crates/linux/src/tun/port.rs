//! A TUN device as the packets of a host of ours.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};

use base::{VirtioHeader, WirePacket as _};
use bytes::Bytes;
use smallvec::SmallVec;
use stack::wire::{self, WireError};
use stack::{Body, Packet, Payload};

use super::Tun;
use super::buffers::{Buffers, Raw};

/// Payload in pieces up to this length on average is copied behind its headers, which costs less
/// than handing the pieces over. So there are never more than 128 of them (`IOV_MAX` is 1024).
const COPY_BYTES_MAX: usize = 512;

/// Result of a receive.
#[derive(Debug)]
pub enum Received {
    /// A packet for the host.
    Packet(Packet),
    /// Something that is none of TCP's business, or malformed; counted.
    Ignored,
    /// No packet waits.
    Nothing,
}

/// Result of a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The kernel took it.
    Whole,
    /// The kernel did not take it, as a link may lose any packet; counted.
    Lost,
}

/// Counters of a port. A GSO packet counts once in `reads` and `writes`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Packets that were read.
    pub reads: u64,
    /// Of these, malformed packets and packets without TCP.
    pub ignored: u64,
    /// Times that there was nothing to read.
    pub empty_reads: u64,
    /// Packets that were written.
    pub writes: u64,
    /// Packets that the kernel refused or that have no form on the wire.
    pub lost: u64,
}

/// A TUN device with the translation between its bytes and packets.
#[derive(Debug)]
pub struct TunPort {
    tun: Tun,
    buffers: Buffers,
    /// Headers of the packet being sent.
    headers: Vec<u8>,
    counters: PortCounters,
}

impl TunPort {
    /// Over an open device.
    #[must_use]
    pub fn new(tun: Tun) -> Self {
        Self {
            tun,
            buffers: Buffers::default(),
            headers: Vec::new(),
            counters: PortCounters::default(),
        }
    }

    /// The device.
    #[must_use]
    pub const fn tun(&self) -> &Tun {
        &self.tun
    }

    /// Counters so far.
    #[must_use]
    pub const fn counters(&self) -> PortCounters {
        self.counters
    }

    /// The next packet, if one waits. Its payload stays where the kernel put it, unless it is
    /// small.
    ///
    /// # Errors
    /// Where the device was deleted.
    pub fn receive(&mut self) -> io::Result<Received> {
        let has_header = self.tun.offloads().vnet_header;
        let Some(raw) = self.buffers.read(&self.tun)? else {
            self.counters.empty_reads += 1;
            return Ok(Received::Nothing);
        };
        self.counters.reads += 1;
        match decode(&raw, has_header) {
            Ok(packet) => Ok(Received::Packet(packet)),
            // Neighbour discovery and the like: every host hears what is not for it.
            Err(_) => {
                self.counters.ignored += 1;
                Ok(Received::Ignored)
            }
        }
    }

    /// Sends a packet. Its payload is not copied, unless it is small. Without offloads a
    /// GSO packet leaves as the segments that it stands for, which are copied.
    ///
    /// # Errors
    /// Where the device is gone for ever.
    pub fn send(&mut self, packet: Packet) -> io::Result<Sent> {
        if self.tun.offloads().vnet_header {
            return self.send_whole(&packet);
        }
        let mut rest = packet;
        loop {
            let next = (rest.segments() > 1).then(|| rest.split_off(1));
            let sent = self.send_segment(&rest)?;
            match next {
                Some(next) => rest = next,
                None => return Ok(sent),
            }
        }
    }

    fn send_whole(&mut self, packet: &Packet) -> io::Result<Sent> {
        self.headers.clear();
        if wire::encode_tun_headers(packet, &mut self.headers).is_err() {
            self.counters.lost += 1;
            return Ok(Sent::Lost);
        }
        let payload = match &packet.body {
            Body::Tcp(segment) => &segment.payload,
            Body::Icmp(_) => &Payload::default(),
        };
        let chunks = payload.chunks();
        let written = if payload.len() as usize <= COPY_BYTES_MAX * chunks.len() {
            for chunk in chunks {
                self.headers.extend_from_slice(chunk);
            }
            self.tun.write(&self.headers)
        } else {
            let pieces: SmallVec<[IoSlice<'_>; 8]> = core::iter::once(&self.headers[..])
                .chain(chunks.iter().map(AsRef::as_ref))
                .map(IoSlice::new)
                .collect();
            self.tun.write_vectored(&pieces)
        };
        self.count(written)
    }

    fn send_segment(&mut self, packet: &Packet) -> io::Result<Sent> {
        self.headers.clear();
        if wire::encode(packet, &mut self.headers).is_err() {
            self.counters.lost += 1;
            return Ok(Sent::Lost);
        }
        let written = self.tun.write(&self.headers);
        self.count(written)
    }

    fn count(&mut self, written: io::Result<()>) -> io::Result<Sent> {
        match written {
            Ok(()) => {
                self.counters.writes += 1;
                Ok(Sent::Whole)
            }
            // The device was deleted.
            Err(error) if error.raw_os_error() == Some(libc::EBADFD) => Err(error),
            Err(_) => {
                self.counters.lost += 1;
                Ok(Sent::Lost)
            }
        }
    }
}

fn decode(raw: &Raw<'_>, has_header: bool) -> Result<Packet, WireError> {
    let bytes: &[u8] = match raw {
        Raw::Shared(bytes) => bytes,
        Raw::Borrowed(bytes) => bytes,
    };
    let (vnet, at) = match has_header {
        true => (Some(VirtioHeader::parse(bytes)?), VirtioHeader::BYTES),
        false => (None, 0),
    };
    wire::decode_with(&bytes[at..], vnet, |payload| {
        let range = at + payload.start..at + payload.end;
        match raw {
            Raw::Shared(bytes) => bytes.slice(range),
            Raw::Borrowed(bytes) => Bytes::copy_from_slice(&bytes[range]),
        }
    })
}

impl AsFd for TunPort {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.tun.as_fd()
    }
}
