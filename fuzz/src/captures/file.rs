//! The bytes are a capture file.

use std::io::{self, Read};

use base::pcap::Reader;
use capture::Analysis;

use super::judged::{self, SETTINGS};

/// Time in nanoseconds, interface, bytes on the wire and in the file.
type Seen = (u64, u32, u32, usize);

/// Whatever a file holds ends in answers, and no read decides which.
pub(crate) fn check(bytes: &[u8]) {
    let mut analysis = Analysis::new(SETTINGS);
    let whole = read(bytes, bytes.len(), &mut analysis);
    judged::check(analysis);
    let in_small_reads = read(Trickle(bytes), bytes.len(), &mut Analysis::new(SETTINGS));
    assert_eq!(whole, in_small_reads);
}

/// Reads up to the end or the first error; gives the packets and how far that was.
fn read(file: impl Read, length: usize, analysis: &mut Analysis) -> (Vec<Seen>, u64) {
    let Ok(mut reader) = Reader::new(file) else {
        return (Vec::new(), 0);
    };
    let mut seen = Vec::new();
    while let Some(packet) = reader.next_packet() {
        let Ok(packet) = packet else { continue };
        let (original, captured) = (packet.original_bytes, packet.bytes.len());
        assert!(captured <= original as usize, "{captured} of {original}");
        seen.push((packet.at.as_nanos(), packet.interface, original, captured));
        analysis.handle(&packet);
    }
    analysis.note_drops(reader.dropped());
    let captured: usize = seen.iter().map(|packet| packet.3).sum();
    assert!(captured <= length, "{captured} bytes of {length}");
    assert!(reader.position() <= length as u64);
    (seen, reader.position())
}

/// Gives seven bytes at a time.
struct Trickle<'a>(&'a [u8]);

impl Read for Trickle<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = buffer.len().min(7);
        self.0.read(&mut buffer[..most])
    }
}
