//! Files of packets, or of anything else, that may be compressed, read from their start to their
//! end once. The caller opens them and passes a reader.

use std::error::Error;
use std::fmt;
use std::io::{self, BufRead, BufReader, Chain, Cursor, ErrorKind, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::StreamingDecoder;

/// A buffer of so many bytes is right for a file that is read to its end: a decompressor takes as
/// much at a time, and who reads packets asks for more, which then passes by the buffer.
pub const BUFFER_BYTES: usize = 64 << 10;
/// First bytes of a compressed file (RFC 1952, RFC 8878).
const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// The other three bytes of a skippable frame, whose first is 0x50 to 0x5f (RFC 8878, section
/// 3.1.2). `pzstd` begins each frame with one, and a seekable file ends with one.
const ZSTD_SKIPPABLE: [u8; 3] = [0x2a, 0x4d, 0x18];
/// First bytes of a capture: pcap in both byte orders, with microseconds and with nanoseconds, and
/// pcapng.
const CAPTURES: [[u8; 4]; 5] = [
    [0xa1, 0xb2, 0xc3, 0xd4],
    [0xd4, 0xc3, 0xb2, 0xa1],
    [0xa1, 0xb2, 0x3c, 0x4d],
    [0x4d, 0x3c, 0xb2, 0xa1],
    [0x0a, 0x0d, 0x0d, 0x0a],
];
/// Bytes that identify the kind of a file.
const START_BYTES: u64 = 4;

/// Decompressed input.
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
    /// Input from a file or a pipe, of any compression; `reader` has a buffer of
    /// [`BUFFER_BYTES`].
    ///
    /// # Errors
    /// Where its first bytes cannot be read, or are not those of the compression that they begin.
    pub fn of(reader: Box<dyn BufRead>, bytes: Option<u64>) -> io::Result<Self> {
        let read = Arc::new(AtomicU64::new(0));
        let counted = Counted {
            reader,
            read: Arc::clone(&read),
        };
        let mut raw = with_whole_start(counted)?;
        let start = raw.fill_buf()?;
        let reader: Box<dyn BufRead> = if start.starts_with(&GZIP) {
            decompressed("gzip", MultiGzDecoder::new(raw))?
        } else if start.starts_with(&ZSTD) || is_skippable(start) {
            decompressed(
                "zstd",
                Frames::new(raw).map_err(|error| plain("zstd", error))?,
            )?
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

fn decompressed(format: &'static str, reader: impl Read + 'static) -> io::Result<Box<dyn BufRead>> {
    let reader = Decompressed { format, reader };
    let reader = BufReader::with_capacity(BUFFER_BYTES, reader);
    Ok(Box::new(with_whole_start(reader)?))
}

/// Output of a decompressor, with errors that say what to do.
struct Decompressed<R> {
    format: &'static str,
    reader: R,
}

impl<R: Read> Read for Decompressed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer);
        read.map_err(|error| plain(self.format, error))
    }
}

/// The error of a decompressor as a sentence. Those of the file itself stay as they are.
fn plain(format: &str, error: io::Error) -> io::Error {
    if error.raw_os_error().is_some() || error.kind() == ErrorKind::Interrupted {
        return error;
    }
    if ends_early(&error) {
        let text = format!("its {format} data ends early: copy the whole file again");
        return io::Error::new(ErrorKind::UnexpectedEof, text);
    }
    let text = format!("its {format} data is damaged: `{format} -t FILE` tests it; copy it again");
    io::Error::new(ErrorKind::InvalidData, text)
}

/// Whether it, or what it comes from, says that there should be more.
fn ends_early(error: &io::Error) -> bool {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        let of_io = error.downcast_ref::<io::Error>();
        if of_io.is_some_and(|error| error.kind() == ErrorKind::UnexpectedEof) {
            return true;
        }
        // An error of I/O passes over what it holds.
        cause = match of_io.and_then(io::Error::get_ref) {
            Some(held) => Some(held),
            None => error.source(),
        };
    }
    false
}

/// The same, whose first bytes come together: a pipe may give one at a time.
fn with_whole_start<R: BufRead>(mut reader: R) -> io::Result<WithStart<R>> {
    let start = start_of(&mut reader)?;
    Ok(Cursor::new(start).chain(reader))
}

/// The first bytes, fewer only where there are no more.
fn start_of(reader: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut start = Vec::new();
    reader.take(START_BYTES).read_to_end(&mut start)?;
    Ok(start)
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

impl BufRead for Counted {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.reader.fill_buf()
    }

    fn consume(&mut self, bytes: usize) {
        self.reader.consume(bytes);
        self.read.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// Whether a skippable frame of Zstandard begins here.
fn is_skippable(start: &[u8]) -> bool {
    matches!(start, [0x50..=0x5f, rest @ ..] if rest.starts_with(&ZSTD_SKIPPABLE))
}

/// Zstandard frames one after the other, as `cat a.zst b.zst` makes them. Skippable ones are passed
/// over.
struct Frames<R: BufRead> {
    frame: Option<StreamingDecoder<WithStart<R>, ruzstd::decoding::FrameDecoder>>,
}

/// A source whose first bytes were looked at.
type WithStart<R> = Chain<Cursor<Vec<u8>>, R>;

impl<R: BufRead> Frames<R> {
    /// The frames from here on; at the end of the source there are none.
    fn new(mut source: R) -> io::Result<Self> {
        loop {
            let start = start_of(&mut source)?;
            if start.is_empty() {
                return Ok(Self { frame: None });
            }
            if !is_skippable(&start) {
                let source = Cursor::new(start).chain(source);
                let frame = StreamingDecoder::new(source).map_err(io::Error::other)?;
                return Ok(Self { frame: Some(frame) });
            }
            let mut length = [0; 4];
            source.read_exact(&mut length)?;
            let length = u32::from_le_bytes(length).into();
            if io::copy(&mut source.by_ref().take(length), &mut io::sink())? < length {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
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
            // All of its start was the head of the frame.
            let (_, source) = frame.into_inner().into_inner();
            *self = Self::new(source)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    /// Bytes that do not compress to nothing.
    fn noise() -> Vec<u8> {
        let mut state = 1_u32;
        let next = |_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        (0..300_000).map(next).collect()
    }

    fn gzip(data: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(data).expect("memory");
        encoder.finish().expect("memory")
    }

    /// Frames of raw blocks (RFC 8878, section 3.1.1.2), with a checksum of none.
    fn zstd(data: &[u8]) -> Vec<u8> {
        const BLOCK: usize = 100_000;
        // One segment, with a content size of four bytes.
        let mut file = [
            &ZSTD[..],
            &[0b1010_0000],
            &(data.len() as u32).to_le_bytes(),
        ]
        .concat();
        let blocks = data.chunks(BLOCK);
        let last = blocks.len() - 1;
        for (index, block) in blocks.enumerate() {
            let head = (block.len() as u32) << 3 | u32::from(index == last);
            file.extend_from_slice(&head.to_le_bytes()[..3]);
            file.extend_from_slice(block);
        }
        file
    }

    fn read_all(file: &[u8]) -> io::Result<Vec<u8>> {
        let mut input = Input::of(Box::new(Cursor::new(file.to_vec())), None)?;
        let mut data = Vec::new();
        input.reader.read_to_end(&mut data)?;
        Ok(data)
    }

    #[test]
    fn what_is_compressed_and_cut_is_told_in_a_sentence() {
        let data = noise();
        for (format, file) in [("gzip", gzip(&data)), ("zstd", zstd(&data))] {
            assert!(read_all(&file).expect("whole") == data, "{format}");
            for end in [5, 100, file.len() / 2, file.len() - 1] {
                let error = read_all(&file[..end]).expect_err("cut");
                let expected = format!("its {format} data ends early: copy the whole file again");
                assert_eq!(error.to_string(), expected, "{end} bytes");
                assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "{end} bytes");
            }
            let mut damaged = file.clone();
            damaged[9..40].fill(0xff);
            let error = read_all(&damaged).expect_err("damaged").to_string();
            let begin = format!("its {format} data is damaged: `{format} -t FILE`");
            assert!(error.starts_with(&begin), "{error}");
        }
    }

    #[test]
    fn skippable_frames_of_zstd_are_passed_over() {
        let data = noise();
        let skippable = |first: u8, bytes: usize| {
            let head = [&[first], &ZSTD_SKIPPABLE[..], &(bytes as u32).to_le_bytes()].concat();
            [head, vec![7; bytes]].concat()
        };
        let (frame, sizes) = (zstd(&data), skippable(0x50, 4));
        let check = |parts: &[&[u8]], times: usize| {
            let read = read_all(&parts.concat()).expect("whole");
            assert!(read == data.repeat(times), "{} bytes", read.len());
        };
        check(&[&sizes, &frame], 1);
        check(&[&frame, &skippable(0x5e, 100_000)], 1);
        check(&[&sizes, &skippable(0x5f, 0), &frame, &sizes, &frame], 2);
        check(&[&sizes], 0);
        for cut in [5, 9, 11] {
            let error = read_all(&[&frame, &sizes[..cut]].concat()).expect_err("cut");
            assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "{cut}: {error}");
        }
        let other = [frame, b"tail".to_vec()].concat();
        assert_eq!(
            read_all(&other).expect_err("no frame").kind(),
            ErrorKind::InvalidData
        );
    }
}
