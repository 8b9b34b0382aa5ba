//! Records joined to blocks on a socket of the standard library, or on anything that is written to.
//!
//! Nothing runs behind the program's back: there is no thread, so the caller that waits keeps the
//! deadline of a block. [`RecordWriter::write`] looks at it, [`RecordWriter::time_left`] says how
//! long a program may sleep, [`RecordWriter::flush_if_due`] is called when it wakes up; and
//! [`RecordWriter::write_from`] does all of that for records that come from a channel.

use std::io::{self, ErrorKind, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use base::records::{Batch, BatchSpec};

use crate::clock::Clock;

/// Collects records and writes each block of them with one call: when it is full, when its first
/// record has waited for [`BatchSpec::delay_max`], or when it is told to.
///
/// The cost is latency: of a record at most that delay, while the program calls something here; of
/// one that fills its block none. The gain is that only the last, odd segment of a block can meet a
/// delayed ACK, and a hundredth of the packets and calls (seed: Winsock, suggestion 1). Small
/// segments that must go at once need `TCP_NODELAY` instead (suggestion 3).
///
/// What is held when it is dropped is written then, unless the thread panics; a failure is lost.
/// [`RecordWriter::finish`] reports it.
///
/// After an error the block stays, less the bytes that the writer took. The next call goes on
/// behind them, and so does the drop: no byte is written twice.
///
/// ```
/// use base::records::BatchSpec;
/// use linux::RecordWriter;
/// use std::time::Duration;
///
/// let spec = BatchSpec::new(Duration::from_millis(5));
/// let mut writer = RecordWriter::new(Vec::new(), spec); // or a TcpStream
/// for record in ["AAPL 1\n", "MSFT 2\n"] {
///     writer.write(record.as_bytes())?;
/// }
/// assert!(writer.writer().is_empty(), "they wait for more, or for 5 ms");
/// assert_eq!(writer.finish()?, b"AAPL 1\nMSFT 2\n");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct RecordWriter<W: Write> {
    batch: Batch,
    /// `None` once it was given back.
    writer: Option<W>,
    /// A call of the writer has not come back.
    writing: bool,
    /// The block was handed over, and the writer is yet to be flushed.
    unflushed: bool,
}

impl<W: Write> RecordWriter<W> {
    /// Joins records as `spec` says and writes them to `writer`.
    #[must_use]
    pub const fn new(writer: W, spec: BatchSpec) -> Self {
        Self {
            batch: Batch::new(spec),
            writer: Some(writer),
            writing: false,
            unflushed: false,
        }
    }

    /// Takes a record: it leaves with its block, at once where that is full or was due already.
    ///
    /// # Errors
    /// Those of the writer. A record that finds a full block which the writer does not take
    /// ([`ErrorKind::WouldBlock`]) is not taken either; try again when the socket is writable. With
    /// any other error it may be part of what stays: do not hand it over again.
    pub fn write(&mut self, record: &[u8]) -> io::Result<()> {
        let now = Clock.now();
        while !self.batch.push(now, record) {
            self.flush()?;
        }
        match self.flush_if_due() {
            // The record is taken; the block leaves with the next call.
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            result => result.map(drop),
        }
    }

    /// How long the block may still wait: what a program may sleep before it calls
    /// [`RecordWriter::flush_if_due`]. `None` where nothing waits.
    #[must_use]
    pub fn time_left(&self) -> Option<Duration> {
        if self.unflushed {
            return Some(Duration::ZERO);
        }
        self.batch.due().map(|due| due.since(Clock.now()))
    }

    /// Writes the block if it is due; says whether it was.
    ///
    /// # Errors
    /// Those of the writer; what it did not take stays here.
    pub fn flush_if_due(&mut self) -> io::Result<bool> {
        let is_due = self.unflushed || self.batch.is_due(Clock.now());
        if is_due {
            self.flush()?;
        }
        Ok(is_due)
    }

    /// Writes the block, due or not.
    ///
    /// # Errors
    /// Those of the writer; what it did not take stays here. One of its own after the writer
    /// panicked: what it took then is unknown.
    pub fn flush(&mut self) -> io::Result<()> {
        let Self {
            batch,
            writer,
            writing,
            unflushed,
        } = self;
        let Some(writer) = writer else {
            return Ok(());
        };
        if *writing {
            return Err(io::Error::other("the writer panicked within a block"));
        }
        while !batch.unwritten().is_empty() {
            *writing = true;
            let written = writer.write(batch.unwritten());
            *writing = false;
            match written {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(bytes) => {
                    batch.on_written(bytes);
                    *unflushed = true;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        writer.flush()?;
        *unflushed = false;
        Ok(())
    }

    /// Writes the records that come from `records`, each block in time, until no more come.
    ///
    /// # Errors
    /// Those of the writer, which is to be a blocking one.
    pub fn write_from<R: AsRef<[u8]>>(&mut self, records: &Receiver<R>) -> io::Result<()> {
        loop {
            let record = match self.time_left() {
                None => records.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(left) => records.recv_timeout(left),
            };
            match record {
                Ok(record) => self.write(record.as_ref())?,
                Err(RecvTimeoutError::Timeout) => drop(self.flush_if_due()?),
                Err(RecvTimeoutError::Disconnected) => return self.flush(),
            }
        }
    }

    /// Records that wait.
    #[must_use]
    pub const fn pending(&self) -> u32 {
        self.batch.records()
    }

    /// The writer.
    ///
    /// # Panics
    /// Never: it is only given back by [`RecordWriter::finish`].
    #[must_use]
    pub fn writer(&self) -> &W {
        self.writer.as_ref().expect("it was not given back")
    }

    /// Writes what is left and gives the writer back.
    ///
    /// # Errors
    /// Those of the writer, which is then dropped, after another try to write what it did not take.
    ///
    /// # Panics
    /// Never: it is only given back here.
    pub fn finish(mut self) -> io::Result<W> {
        self.flush()?;
        Ok(self.writer.take().expect("it was not given back"))
    }
}

impl<W: Write> Drop for RecordWriter<W> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // The error cannot be reported any more.
            drop(self.flush());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::net::{TcpListener, TcpStream};
    use std::sync::mpsc;

    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    fn connected() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("binds");
        let client = TcpStream::connect(listener.local_addr().expect("bound")).expect("connects");
        let (server, _) = listener.accept().expect("accepts");
        (client, server)
    }

    /// Takes what its script says: bytes per call, or an error.
    #[derive(Debug)]
    struct Reluctant {
        script: Vec<Result<usize, ErrorKind>>,
        calls: Vec<Vec<u8>>,
        /// Calls of flush that it does not take.
        refused_flushes: u32,
    }

    impl Reluctant {
        fn new(script: &[Result<usize, ErrorKind>]) -> Self {
            Self {
                script: script.iter().rev().copied().collect(),
                calls: Vec::new(),
                refused_flushes: 0,
            }
        }
    }

    impl Write for Reluctant {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = self
                .script
                .pop()
                .unwrap_or(Ok(usize::MAX))?
                .min(bytes.len());
            self.calls.push(bytes[..taken].to_vec());
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            match self.refused_flushes.checked_sub(1) {
                None => Ok(()),
                Some(left) => {
                    self.refused_flushes = left;
                    Err(ErrorKind::WouldBlock.into())
                }
            }
        }
    }

    #[test]
    fn a_flush_that_was_refused_is_due_until_it_is_taken() {
        let mut reluctant = Reluctant::new(&[]);
        reluctant.refused_flushes = 2;
        let mut writer = RecordWriter::new(reluctant, BatchSpec::new(Duration::ZERO));
        writer.write(b"a").expect("the record is taken");
        assert_eq!(writer.time_left(), Some(Duration::ZERO));
        let error = writer.flush_if_due().expect_err("again");
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        assert!(writer.flush_if_due().expect("now it is taken"));
        assert_eq!(writer.time_left(), None);
        assert_eq!(writer.writer().calls, [b"a"]);
    }

    #[test]
    fn ten_thousand_records_arrive_as_they_were_written_ws22() {
        let (client, mut server) = connected();
        let reader = std::thread::spawn(move || {
            let mut received = Vec::new();
            server.read_to_end(&mut received).map(|_| received)
        });
        let spec = BatchSpec::new(LONG).with_count_header();
        let mut writer = RecordWriter::new(client, spec);
        let mut expected = Vec::new();
        for index in 0..10_000_u32 {
            let record = [index.to_le_bytes().as_slice(), &[b'x'; 96]].concat();
            if index % 80 == 0 {
                expected.extend(80_u32.to_be_bytes());
            }
            expected.extend(&record);
            writer.write(&record).expect("writes");
        }
        assert_eq!(writer.pending(), 0, "the last block is full");
        drop(writer.finish().expect("flushes"));
        let received = reader.join().expect("no panic").expect("reads");
        assert!(received == expected);
    }

    #[test]
    fn each_block_is_one_call() {
        let spec = BatchSpec::new(LONG).with_bytes_max(10);
        let mut writer = RecordWriter::new(Reluctant::new(&[]), spec);
        for record in ["four", "four", "four", "more than ten bytes", "x"] {
            writer.write(record.as_bytes()).expect("writes");
        }
        assert_eq!(
            writer.finish().expect("flushes").calls,
            [&b"fourfour"[..], b"four", b"more than ten bytes", b"x"]
        );
    }

    #[test]
    fn a_deadline_that_has_passed_is_kept_by_the_next_call() {
        let mut writer = RecordWriter::new(Vec::new(), BatchSpec::new(Duration::ZERO));
        writer.write(b"a").expect("writes");
        assert_eq!(writer.writer(), b"a");
        assert_eq!(writer.time_left(), None);
        assert!(!writer.flush_if_due().expect("nothing to do"));

        let mut writer = RecordWriter::new(Vec::new(), BatchSpec::new(LONG));
        writer.write(b"b").expect("writes");
        assert!(writer.time_left().is_some_and(|left| left <= LONG));
        assert!(!writer.flush_if_due().expect("nothing to do"));
        writer.flush().expect("flushes");
        assert_eq!(writer.writer(), b"b");
    }

    #[test]
    fn records_of_a_channel_leave_in_time_and_at_the_end() {
        let (client, mut server) = connected();
        let (sender, records) = mpsc::channel();
        let spec = BatchSpec::new(Duration::from_millis(1));
        let writing = std::thread::spawn(move || {
            let mut writer = RecordWriter::new(client, spec);
            writer.write_from(&records).map(|()| writer.pending())
        });
        // Nothing but the deadline makes the first two leave.
        sender.send(b"one".to_vec()).expect("the writer lives");
        sender.send(b"two".to_vec()).expect("the writer lives");
        let mut received = [0; 6];
        server.read_exact(&mut received).expect("reads");
        assert_eq!(&received, b"onetwo");
        sender.send(b"three".to_vec()).expect("the writer lives");
        drop(sender);
        let mut rest = Vec::new();
        server.read_to_end(&mut rest).expect("reads");
        assert_eq!(rest, b"three");
        assert_eq!(writing.join().expect("no panic").expect("no error"), 0);
    }

    #[test]
    fn what_a_socket_does_not_take_stays() {
        let blocks = ErrorKind::WouldBlock;
        let script = [Err(ErrorKind::Interrupted), Ok(3), Err(blocks), Err(blocks)];
        let spec = BatchSpec::new(LONG).with_bytes_max(4);
        let mut writer = RecordWriter::new(Reluctant::new(&script), spec);
        writer.write(b"abcd").expect("the record is taken");
        let refused = writer.write(b"e").map_err(|error| error.kind());
        assert_eq!(refused, Err(blocks), "it found a block that did not leave");
        assert_eq!(writer.pending(), 1);
        writer.write(b"e").expect("writes");
        assert_eq!(
            writer.finish().expect("flushes").calls,
            [&b"abc"[..], b"d", b"e"]
        );
    }

    #[test]
    fn what_stays_after_an_error_is_written_once() {
        let fails = Err(ErrorKind::TimedOut);
        let spec = BatchSpec::new(LONG).with_bytes_max(4);
        for calls in [0, 1, 2] {
            let mut reluctant = Reluctant::new(&[Ok(3), fails, fails, fails]);
            let mut writer = RecordWriter::new(&mut reluctant, spec);
            let error = writer.write(b"abcd").expect_err("a part is taken");
            assert_eq!((error.kind(), writer.pending()), (ErrorKind::TimedOut, 1));
            for _ in 0..calls {
                writer.write(b"e").expect_err("the block did not leave");
                assert_eq!(writer.pending(), 1, "it is not taken");
            }
            while writer.flush().is_err() {}
            drop(writer);
            assert_eq!(reluctant.calls, [&b"abc"[..], b"d"], "{calls}");
        }
        let mut reluctant = Reluctant::new(&[Ok(3), fails]);
        let mut writer = RecordWriter::new(&mut reluctant, spec);
        writer.write(b"abcd").expect_err("a part is taken");
        drop(writer);
        assert_eq!(reluctant.calls, [&b"abc"[..], b"d"], "by the drop");
    }

    /// Takes what it is given, and panics.
    struct Panics(Vec<u8>);

    impl Write for Panics {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.extend(bytes);
            panic!("after it was written");
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_a_writer_that_panicked_may_have_taken_is_not_written_again() {
        let mut panics = Panics(Vec::new());
        let mut writer = RecordWriter::new(&mut panics, BatchSpec::new(LONG));
        writer.write(b"once").expect("it only waits");
        let flush = std::panic::AssertUnwindSafe(|| writer.flush());
        std::panic::catch_unwind(flush).expect_err("it panics");
        writer.flush().expect_err("nobody knows what was taken");
        drop(writer);
        assert_eq!(panics.0, b"once");
    }

    #[test]
    fn errors_are_told_where_somebody_hears() {
        let broken = || Reluctant::new(&[Err(ErrorKind::BrokenPipe), Err(ErrorKind::BrokenPipe)]);
        let mut writer = RecordWriter::new(broken(), BatchSpec::new(Duration::ZERO));
        let error = writer.write(b"a").expect_err("broken");
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
        drop(writer);

        let mut writer = RecordWriter::new(broken(), BatchSpec::new(LONG));
        writer.write(b"a").expect("it only waits");
        assert!(writer.finish().is_err());

        let mut writer = RecordWriter::new(Reluctant::new(&[Ok(0)]), BatchSpec::new(LONG));
        writer.write(b"a").expect("it only waits");
        let error = writer.flush().expect_err("took nothing");
        assert_eq!(error.kind(), ErrorKind::WriteZero);
    }

    #[test]
    fn a_drop_writes_what_is_held() {
        let mut written = Vec::new();
        let mut writer = RecordWriter::new(&mut written, BatchSpec::new(LONG));
        writer.write(b"held").expect("writes");
        drop(writer);
        assert_eq!(written, b"held");
    }
}
