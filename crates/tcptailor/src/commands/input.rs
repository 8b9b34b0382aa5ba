//! Files that may be compressed, read from their start to their end once.

use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::StreamingDecoder;

/// Read at once from a file.
pub(crate) const BUFFER_BYTES: usize = 1 << 20;
/// First bytes of a compressed file (RFC 1952, RFC 8878).
const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// What tells of the kind of a file.
const START_BYTES: u64 = 4;

/// What is read, decompressed.
pub(crate) struct Input {
    pub(crate) reader: Box<dyn BufRead>,
    /// Bytes of the file; `None` for a pipe.
    pub(crate) bytes: Option<u64>,
    read: Arc<AtomicU64>,
}

impl Input {
    /// Of a file or a pipe, whatever its compression.
    pub(crate) fn of(reader: Box<dyn BufRead>, bytes: Option<u64>) -> io::Result<Self> {
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

    /// Bytes of the file that were read so far.
    pub(crate) fn position(&self) -> Position {
        Position(Arc::clone(&self.read))
    }
}

/// How far a file was read, while somebody else reads it.
pub(crate) struct Position(Arc<AtomicU64>);

impl Position {
    pub(crate) fn bytes(&self) -> u64 {
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
