//! Files of packets, or of anything else, that may be compressed, read from their start to their
//! end once. Whoever opens them hands them over as a reader.

use std::fmt;
use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::StreamingDecoder;

/// A buffer of so many bytes is right for a file that is read to its end.
pub const BUFFER_BYTES: usize = 1 << 20;
/// First bytes of a compressed file (RFC 1952, RFC 8878).
const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// First bytes of a capture: pcap in both byte orders, with microseconds and with nanoseconds, and
/// pcapng.
const CAPTURES: [[u8; 4]; 5] = [
    [0xa1, 0xb2, 0xc3, 0xd4],
    [0xd4, 0xc3, 0xb2, 0xa1],
    [0xa1, 0xb2, 0x3c, 0x4d],
    [0x4d, 0x3c, 0xb2, 0xa1],
    [0x0a, 0x0d, 0x0d, 0x0a],
];
/// What tells of the kind of a file.
const START_BYTES: u64 = 4;

/// What is read, decompressed.
pub struct Input {
    /// The text or the packets.
    pub reader: Box<dyn BufRead>,
    /// Bytes of the file; `None` for a pipe.
    pub bytes: Option<u64>,
    read: Arc<AtomicU64>,
}

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            reader: _,
            bytes,
            read,
        } = self;
        f.debug_struct("Input")
            .field("bytes", bytes)
            .field("read", read)
            .finish_non_exhaustive()
    }
}

impl Input {
    /// Of a file or a pipe, whatever its compression.
    ///
    /// # Errors
    /// Where its first bytes cannot be read, or are not those of the compression that they begin.
    pub fn of(reader: Box<dyn BufRead>, bytes: Option<u64>) -> io::Result<Self> {
        let read = Arc::new(AtomicU64::new(0));
        let counted = Counted {
            reader,
            read: Arc::clone(&read),
        };
        let mut raw = with_whole_start(BufReader::with_capacity(BUFFER_BYTES, counted))?;
        let start = raw.fill_buf()?;
        let reader: Box<dyn BufRead> = if start.starts_with(&GZIP) {
            decompressed(MultiGzDecoder::new(raw))?
        } else if start.starts_with(&ZSTD) {
            decompressed(Frames::new(raw)?)?
        } else {
            Box::new(raw)
        };
        Ok(Self {
            reader,
            bytes,
            read,
        })
    }

    /// Whether packets follow: a capture, pcap or pcapng. What cannot be read is none.
    pub fn is_capture(&mut self) -> bool {
        let start = self.reader.fill_buf().unwrap_or_default();
        CAPTURES.iter().any(|known| start.starts_with(known))
    }

    /// Bytes of the file that were read so far.
    #[must_use]
    pub fn position(&self) -> Position {
        Position(Arc::clone(&self.read))
    }
}

/// How far a file was read, while another part of the program reads it.
#[derive(Clone, Debug)]
pub struct Position(Arc<AtomicU64>);

impl Position {
    /// Bytes of the file, compressed as it is.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

fn decompressed(reader: impl Read + 'static) -> io::Result<Box<dyn BufRead>> {
    let reader = BufReader::with_capacity(BUFFER_BYTES, reader);
    Ok(Box::new(with_whole_start(reader)?))
}

/// The same, whose first bytes come together: a pipe may give one at a time.
fn with_whole_start<R: BufRead>(mut reader: R) -> io::Result<Chain<Cursor<Vec<u8>>, R>> {
    let mut start = Vec::new();
    reader.by_ref().take(START_BYTES).read_to_end(&mut start)?;
    Ok(Cursor::new(start).chain(reader))
}

struct Counted {
    reader: Box<dyn BufRead>,
    read: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.reader.read(buffer)?;
        self.read.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(bytes)
    }
}

/// Zstandard frames one after the other, as `cat a.zst b.zst` makes them.
struct Frames<R: BufRead> {
    frame: Option<StreamingDecoder<R, ruzstd::decoding::FrameDecoder>>,
}

impl<R: BufRead> Frames<R> {
    fn new(source: R) -> io::Result<Self> {
        let frame = StreamingDecoder::new(source).map_err(io::Error::other)?;
        Ok(Self { frame: Some(frame) })
    }
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let Some(frame) = &mut self.frame else {
                return Ok(0);
            };
            let bytes = frame.read(buffer)?;
            if bytes > 0 || buffer.is_empty() {
                return Ok(bytes);
            }
            let Some(frame) = self.frame.take() else {
                return Ok(0);
            };
            let mut source = frame.into_inner();
            if source.fill_buf()?.is_empty() {
                return Ok(0);
            }
            *self = Self::new(source)?;
        }
    }
}
