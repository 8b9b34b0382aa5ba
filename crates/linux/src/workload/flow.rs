//! One connection of a workload with its counters: reads and writes that count, and the question
//! whether there is more to do.

use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use base::Instant;
use lab::Amount;
use rustix::fs::{MemfdFlags, memfd_create, sendfile};

use super::measure::Meter;
use super::session::Session;
use super::socket::{SocketSpec, flow_error, set_quickack};
use crate::clock::Clock;
use crate::error::Error;

/// Most bytes per read and, for payload without a size of its own, per write; as iperf3 does.
pub(crate) const CHUNK_BYTES: usize = 128 << 10;
/// Largest piece that a workload may hand over at once.
pub(crate) const PIECE_BYTES_MAX: u64 = 1 << 20;
/// Payload. Not zero, so that the pages are real ones.
const FILL: u8 = 0x5a;
const PAGE_BYTES: usize = 4096;

/// One connection, or one after the other, of a workload.
pub(crate) struct Flow<'s> {
    pub(crate) session: &'s Session,
    pub(crate) stream: Arc<TcpStream>,
    /// Its remote end, asked for at the beginning: a connection that was reset has none any more.
    remote: Option<SocketAddr>,
    meter: Arc<Meter>,
    quickack: Option<bool>,
    amount: Amount,
    /// A sender without an end stops here.
    deadline: Option<Instant>,
    counted_bytes: u64,
    counted_operations: u64,
    payload: &'static Buffer,
    /// Most bytes of `payload` per write.
    piece_max: usize,
    incoming: Buffer,
    /// File sent by `sendfile`.
    file: Option<File>,
}

/// Payload of all flows: the kernel only reads it.
static PAYLOAD: LazyLock<Buffer> = LazyLock::new(|| Buffer::new(PIECE_BYTES_MAX as usize));

/// Memory that begins with a page: the kernel copies whole pages faster from there.
struct Buffer {
    memory: Vec<u8>,
    start: usize,
}

impl Buffer {
    fn new(bytes: usize) -> Self {
        let memory = vec![FILL; bytes + PAGE_BYTES];
        let start = memory.as_ptr().align_offset(PAGE_BYTES).min(PAGE_BYTES);
        Self { memory, start }
    }

    fn first(&self, bytes: usize) -> &[u8] {
        &self.memory[self.start..self.start + bytes]
    }

    fn first_mut(&mut self, bytes: usize) -> &mut [u8] {
        &mut self.memory[self.start..self.start + bytes]
    }
}

/// How often a writer that waits for room looks whether the run is over.
const LOOK_NANOS: i64 = 100_000_000;

impl<'s> Flow<'s> {
    /// A flow over `stream` that ends after `amount`.
    pub(crate) fn new(
        session: &'s Session,
        sockets: &SocketSpec,
        amount: Amount,
        stream: TcpStream,
    ) -> Self {
        let remote = stream.peer_addr().ok();
        let stream = Arc::new(stream);
        session.watch_stream(&stream);
        Self {
            session,
            stream,
            remote,
            meter: session.meter(),
            quickack: sockets.quickack(),
            amount,
            deadline: None,
            counted_bytes: 0,
            counted_operations: 0,
            payload: &PAYLOAD,
            piece_max: CHUNK_BYTES,
            incoming: Buffer::new(CHUNK_BYTES),
            file: None,
        }
    }

    /// Sets `TCP_QUICKACK` to this before every read.
    pub(crate) fn set_quickack(&mut self, on: bool) {
        self.quickack = Some(on);
    }

    /// Ends sending by itself after this time, where the amount is a time.
    pub(crate) fn end_after(&mut self, warmup: Duration) {
        if let Amount::Time(time) = self.amount {
            self.deadline = Some(Clock.now() + warmup + time);
        }
    }

    /// Goes on with another connection.
    pub(crate) fn adopt(&mut self, stream: TcpStream) {
        self.session.on_closing(&self.stream);
        self.remote = stream.peer_addr().ok();
        self.stream = Arc::new(stream);
        self.session.watch_stream(&self.stream);
    }

    /// Meaning of a failed read or write on it.
    pub(crate) fn error(&self, source: io::Error) -> Error {
        flow_error(self.remote, source)
    }

    /// Whether there is another operation to do.
    pub(crate) fn more(&self) -> bool {
        !self.session.is_stopping()
            && self.deadline.is_none_or(|end| Clock.now() < end)
            && match self.amount {
                Amount::Time(_) => true,
                Amount::Bytes(bytes) => self.counted_bytes < bytes.0,
                Amount::Operations(operations) => self.counted_operations < operations,
            }
    }

    /// Bytes of the next write of a stream: `write_size`, or what is left of the amount.
    pub(crate) fn next_write(&self, write_size: u64) -> usize {
        let left = match self.amount {
            Amount::Bytes(bytes) => bytes.0.saturating_sub(self.counted_bytes),
            _ => write_size,
        };
        usize::try_from(left.min(write_size)).unwrap_or(usize::MAX)
    }

    /// Counts operations of this much payload together. The warm-up does not count.
    pub(crate) fn on_done(&mut self, bytes: u64, count: u32) {
        if self.session.is_measuring() {
            self.counted_bytes += bytes;
            self.counted_operations += u64::from(count);
        }
    }

    /// Counts an operation with its response time.
    pub(crate) fn on_response(&mut self, time: Duration, bytes: u64) {
        self.on_responses(time, bytes, 1);
    }

    /// Counts operations that were asked for and done at once.
    pub(crate) fn on_responses(&mut self, time: Duration, bytes: u64, count: u32) {
        self.meter.on_responses(time, count);
        self.on_done(bytes, count);
    }

    /// Counts operations that are not timed at this end.
    pub(crate) fn on_operations(&mut self, bytes: u64, count: u32) {
        self.meter.on_operations(count);
        self.on_done(bytes, count);
    }

    /// Makes sure that pieces of this size can be written at once.
    pub(crate) fn reserve(&mut self, piece: u64) {
        let piece = usize::try_from(piece.min(PIECE_BYTES_MAX)).unwrap_or(CHUNK_BYTES);
        self.piece_max = self.piece_max.max(piece);
    }

    /// Hands over one piece of `bytes`, at most what [`Flow::reserve`] prepared, with one `write`
    /// unless the kernel takes it in parts.
    pub(crate) fn write_piece(&mut self, bytes: usize) -> io::Result<()> {
        (&*self.stream).write_all(self.payload.first(bytes))?;
        self.on_sent(bytes)
    }

    /// As [`Flow::write_piece`], without blocking in the call: where the buffer is full, waits
    /// until there is room and tries again.
    pub(crate) fn write_piece_without_blocking(&mut self, bytes: usize) -> io::Result<()> {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        use rustix::io::Errno;
        use rustix::net::{SendFlags, send};
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let look = Timespec {
            tv_sec: 0,
            tv_nsec: LOOK_NANOS,
        };
        let mut rest = self.payload.first(bytes);
        while !rest.is_empty() {
            match send(&*self.stream, rest, flags) {
                Ok(sent) => rest = &rest[sent..],
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if self.session.is_stopping() => break,
                Err(Errno::AGAIN) => {
                    let room = PollFd::new(&*self.stream, PollFlags::OUT);
                    match poll(&mut [room], Some(&look)) {
                        Ok(_) | Err(Errno::INTR) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        self.on_sent(bytes - rest.len())
    }

    /// Hands over one piece and says that more follows at once (`MSG_MORE`).
    pub(crate) fn write_piece_with_more(&mut self, bytes: usize) -> io::Result<()> {
        use rustix::net::{SendFlags, send};
        let flags = SendFlags::MORE | SendFlags::NOSIGNAL;
        let mut rest = self.payload.first(bytes);
        while !rest.is_empty() {
            let sent = send(&*self.stream, rest, flags)?;
            rest = &rest[sent..];
        }
        self.on_sent(bytes)
    }

    /// Hands over pieces of these sizes with one `writev`.
    pub(crate) fn write_pieces_at_once(
        &mut self,
        sizes: impl Iterator<Item = usize>,
    ) -> io::Result<()> {
        let slices: Vec<IoSlice<'_>> = sizes
            .map(|bytes| IoSlice::new(self.payload.first(bytes)))
            .collect();
        let total: usize = slices.iter().map(|slice| slice.len()).sum();
        let sent = (&*self.stream).write_vectored(&slices)?;
        let mut left = total - sent;
        while left > 0 {
            let part = left.min(self.piece_max);
            (&*self.stream).write_all(self.payload.first(part))?;
            left -= part;
        }
        self.on_sent(total)
    }

    /// Makes the file of [`Flow::send_file`], in memory.
    pub(crate) fn make_file(&mut self, bytes: u64) -> io::Result<()> {
        let fd = memfd_create("tcptailor-payload", MemfdFlags::CLOEXEC)?;
        let mut file = File::from(fd);
        let bytes = usize::try_from(bytes.min(PIECE_BYTES_MAX)).unwrap_or(CHUNK_BYTES);
        file.write_all(self.payload.first(bytes))?;
        self.file = Some(file);
        Ok(())
    }

    /// Hands over one piece with `sendfile`, at most what [`Flow::make_file`] was told.
    pub(crate) fn send_file(&mut self, bytes: usize) -> io::Result<()> {
        let file = self.file.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let mut offset = 0;
        while offset < bytes as u64 {
            let left = bytes - offset as usize;
            if sendfile(&*self.stream, file, Some(&mut offset), left)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        self.on_sent(bytes)
    }

    /// Hands over a message of any size.
    pub(crate) fn send(&mut self, bytes: u64) -> io::Result<()> {
        let mut left = bytes;
        while left > 0 {
            let part = left.min(self.piece_max as u64);
            self.write_piece(part as usize)?;
            left -= part;
        }
        Ok(())
    }

    /// As [`Flow::send`], with `opening` in front in the same `write`; it does not count.
    pub(crate) fn send_after(&mut self, opening: &[u8], bytes: u64) -> io::Result<()> {
        if opening.is_empty() {
            return self.send(bytes);
        }
        let first = bytes.min(self.piece_max as u64) as usize;
        let joined = [opening, self.payload.first(first)].concat();
        (&*self.stream).write_all(&joined)?;
        self.on_sent(first)?;
        self.send(bytes - first as u64)
    }

    /// Reads a message that must come.
    pub(crate) fn receive(&mut self, bytes: u64) -> io::Result<()> {
        if self.receive_next(bytes)? {
            Ok(())
        } else {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    }

    /// Reads a message; `false` where the peer has finished instead.
    pub(crate) fn receive_next(&mut self, bytes: u64) -> io::Result<bool> {
        let mut left = bytes;
        while left > 0 {
            let wanted = left.min(CHUNK_BYTES as u64) as usize;
            let got = self.read(wanted)? as u64;
            if got == 0 && left == bytes {
                return Ok(false);
            }
            if got == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            left -= got;
        }
        Ok(true)
    }

    /// One read of at most `wanted` bytes; 0 at the end of the stream.
    pub(crate) fn read(&mut self, wanted: usize) -> io::Result<usize> {
        if let Some(on) = self.quickack {
            set_quickack(&self.stream, on)?;
        }
        let buffer = self.incoming.first_mut(wanted.min(CHUNK_BYTES));
        let got = loop {
            match (&*self.stream).read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => break result?,
            }
        };
        self.meter.on_received(got as u64);
        self.session.on_received(got as u64);
        self.spend(got as u64)?;
        Ok(got)
    }

    /// Says that nothing more comes from here and waits until the peer has finished too.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.stream.shutdown(Shutdown::Write)?;
        while self.read(CHUNK_BYTES)? > 0 {}
        Ok(())
    }

    fn on_sent(&self, bytes: usize) -> io::Result<()> {
        self.meter.on_sent(bytes as u64);
        self.session.on_sent(bytes as u64);
        self.spend(bytes as u64)
    }

    fn spend(&self, bytes: u64) -> io::Result<()> {
        if self.session.spend(bytes) {
            Ok(())
        } else {
            Err(io::Error::other("the limit of bytes is reached"))
        }
    }
}

impl Drop for Flow<'_> {
    fn drop(&mut self) {
        self.session.on_closing(&self.stream);
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// 128 flows with a piece of 1 MiB each took 128 MiB.
    #[test]
    fn flows_share_what_they_send() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("binds");
        let address = listener.local_addr().expect("bound");
        let session = Session::new();
        let flow = || {
            let stream = TcpStream::connect(address).expect("connects");
            let amount = Amount::Operations(1);
            Flow::new(&session, &SocketSpec::default(), amount, stream)
        };
        let (mut one, mut other) = (flow(), flow());
        one.reserve(PIECE_BYTES_MAX);
        other.reserve(1);
        assert_eq!(one.piece_max as u64, PIECE_BYTES_MAX);
        assert_eq!(other.piece_max, CHUNK_BYTES);
        let (ours, theirs) = (one.payload.first(one.piece_max), other.payload.first(1));
        assert_eq!(ours.as_ptr(), theirs.as_ptr());
        assert_eq!(ours.as_ptr().align_offset(PAGE_BYTES), 0);
        assert!(ours.iter().all(|byte| *byte == FILL));
    }
}
