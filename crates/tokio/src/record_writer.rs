//! Records joined to blocks on a stream of tokio, ours or the kernel's.

use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use base::Instant;
use base::records::{Batch, BatchSpec};
use futures_util::future::{Either, select};
use futures_util::{Stream, StreamExt as _};
use tokio::io::AsyncWrite;
use tokio::time::sleep_until;

use crate::time::Clock;

/// Collects records and writes each block of them with one call: when it is full, when its first
/// record has waited for [`BatchSpec::delay_max`], or on request.
///
/// The cost is latency: of a record at most that delay; of one that fills its block none. The gain
/// is that only the last, odd segment of a block can meet a delayed ACK, and a hundredth of the
/// packets and calls (seed: Winsock, suggestion 1). Small segments that must go at once need
/// `TCP_NODELAY` instead (suggestion 3).
///
/// No task runs in the background, so the deadline is kept while a task awaits
/// [`flush_when_due`](Self::flush_when_due), beside whatever else is awaited, or
/// [`write_from`](Self::write_from), which does so for records that come from a stream.
///
/// A drop cannot wait, so it writes nothing: what is held then is lost. Call
/// [`shutdown`](Self::shutdown) or [`flush`](Self::flush) first.
///
/// After an error the block stays, less the bytes that the writer took, and the next call goes on
/// behind them: no byte is written twice.
///
/// # Cancel safety
/// A future that is dropped loses no record that was taken: what was written of a block stays
/// written, the rest leaves first with the next call. [`write`](Self::write) takes its record when
/// it returns, or not at all.
///
/// ```
/// use std::time::Duration;
/// use tcptailor_tokio::RecordWriter;
/// use tcptailor_tokio::base::records::BatchSpec;
///
/// # fn main() -> std::io::Result<()> {
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let spec = BatchSpec::new(Duration::from_millis(5));
/// let mut writer = RecordWriter::new(Vec::new(), spec); // or a TcpStream
/// writer.write(b"AAPL 1\n").await?;
/// writer.write(b"MSFT 2\n").await?;
/// assert!(writer.writer().is_empty(), "they wait for more");
/// writer.flush_when_due().await?; // in a `select!`, beside what brings records
/// assert_eq!(writer.writer(), b"AAPL 1\nMSFT 2\n");
/// # Ok(())
/// # })
/// # }
/// ```
#[derive(Debug)]
pub struct RecordWriter<W> {
    batch: Batch,
    writer: W,
    clock: Clock,
    /// The block was handed over, and the writer is yet to be flushed.
    unflushed: bool,
}

impl<W: AsyncWrite + Unpin> RecordWriter<W> {
    /// Joins records as `spec` says and writes them to `writer`.
    ///
    /// # Panics
    /// Outside a runtime of tokio, whose time it uses.
    #[must_use]
    pub fn new(writer: W, spec: BatchSpec) -> Self {
        Self {
            batch: Batch::new(spec),
            writer,
            clock: Clock::starting_at(Instant::ZERO),
            unflushed: false,
        }
    }

    /// Takes a record: it leaves with its block, at once where that is full or was due already.
    ///
    /// # Errors
    /// Those of the writer. The record may then be part of what stays: do not hand it over again.
    pub async fn write(&mut self, record: &[u8]) -> io::Result<()> {
        // First what must leave before the record is taken, so that it is taken at the very end.
        let now = self.clock.now();
        if !self.batch.has_room(record.len()) {
            self.flush().await?;
        }
        let is_taken = self.batch.push(now, record);
        debug_assert!(is_taken, "an empty block takes everything");
        if !self.batch.is_due(now) {
            return Ok(());
        }
        // What is not taken at once leaves with the next call: a program that gives this one up
        // must not think that the record was not taken.
        poll_fn(|cx| match self.poll_flush(cx) {
            Poll::Ready(result) => Poll::Ready(result),
            Poll::Pending => Poll::Ready(Ok(())),
        })
        .await
    }

    /// Waits until the block is due and writes it. Never returns while nothing is held and nothing
    /// is added; use it in a `select!` beside the source of records.
    ///
    /// # Errors
    /// Those of the writer.
    pub async fn flush_when_due(&mut self) -> io::Result<()> {
        if self.unflushed {
            // Begun by a call that was given up.
            return self.flush().await;
        }
        let Some(due) = self.batch.due() else {
            return std::future::pending().await;
        };
        loop {
            let now = self.clock.now();
            if due <= now {
                return self.flush().await;
            }
            sleep_until(self.clock.wake_up(now, due)).await;
        }
    }

    /// Writes the block, due or not.
    ///
    /// # Errors
    /// Those of the writer.
    pub async fn flush(&mut self) -> io::Result<()> {
        poll_fn(|cx| self.poll_flush(cx)).await
    }

    /// Writes the block and says that nothing more comes.
    ///
    /// # Errors
    /// Those of the writer.
    pub async fn shutdown(&mut self) -> io::Result<()> {
        self.flush().await?;
        poll_fn(|cx| Pin::new(&mut self.writer).poll_shutdown(cx)).await
    }

    /// Writes the records that come from `records`, each block in time, until no more come.
    ///
    /// # Errors
    /// Those of the writer.
    pub async fn write_from<S>(&mut self, mut records: S) -> io::Result<()>
    where
        S: Stream<Item: AsRef<[u8]>> + Unpin,
    {
        loop {
            // The first of the two is asked first: a block that is due leaves, however many records
            // wait already.
            let next = {
                let due = pin!(self.flush_when_due());
                match select(due, records.next()).await {
                    Either::Left((flushed, _)) => {
                        flushed?;
                        continue;
                    }
                    Either::Right((next, _)) => next,
                }
            };
            match next {
                Some(record) => self.write(record.as_ref()).await?,
                None => return self.flush().await,
            }
        }
    }

    /// Records that wait.
    #[must_use]
    pub const fn pending(&self) -> u32 {
        self.batch.records()
    }

    /// The writer.
    #[must_use]
    pub const fn writer(&self) -> &W {
        &self.writer
    }

    /// Writes what is left and gives the writer back.
    ///
    /// # Errors
    /// Those of the writer, which is then dropped.
    pub async fn finish(mut self) -> io::Result<W> {
        self.flush().await?;
        Ok(self.writer)
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.batch.unwritten().is_empty() {
            let writer = Pin::new(&mut self.writer);
            match ready!(writer.poll_write(cx, self.batch.unwritten()))? {
                0 => return Poll::Ready(Err(ErrorKind::WriteZero.into())),
                bytes => self.batch.on_written(bytes),
            }
            self.unflushed = true;
        }
        if self.unflushed {
            ready!(Pin::new(&mut self.writer).poll_flush(cx))?;
            self.unflushed = false;
        }
        Poll::Ready(Ok(()))
    }
}
