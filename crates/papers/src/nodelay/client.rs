//! The client: messages in pieces, an answer to each.

use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use base::Instant;
use hdrhistogram::Histogram;
use linux::calls::{self, More};
use linux::{Clock, Error, Result};
use socket2::SockRef;

use super::Handing;

/// Payload. Not zero, so that a capture shows it.
const FILL: u8 = b'x';
/// Longest sleep before the client looks whether it was stopped.
const NAP: Duration = Duration::from_millis(100);
/// Response times are kept with three digits, up to an hour.
const RESPONSE_NS_MAX: u64 = 3_600_000_000_000;

/// Configuration of the client.
#[derive(Clone, Debug)]
pub struct ClientSpec {
    /// The server.
    pub remote: SocketAddr,
    /// Messages.
    pub messages: u64,
    /// Bytes of each piece of a message.
    pub pieces: Vec<usize>,
    /// Bytes of the answer that is awaited.
    pub reply_bytes: usize,
    /// Sets `TCP_NODELAY` once, after `connect`.
    pub nodelay: bool,
    /// Sets `TCP_CORK` before each message and takes it back after it.
    pub cork: bool,
    /// How the pieces are handed over.
    pub handing: Handing,
    /// Messages per second, sent at fixed times without awaiting answers.
    pub per_second: Option<u32>,
}

/// Results of the client.
#[derive(Clone, Debug)]
pub struct ClientRun {
    /// Messages that were sent, and answered where answers are awaited.
    pub messages: u64,
    /// Bytes of a message.
    pub message_bytes: usize,
    /// From the first call to the last answer.
    pub elapsed: Duration,
    /// Segments with payload that the kernel sent for them (`tcpi_data_segs_out`).
    pub data_segments: Option<u64>,
    /// From the first call of a message to its answer, in nanoseconds; empty without answers.
    pub responses_ns: Histogram<u64>,
    /// Whether it was stopped before the last message.
    pub interrupted: bool,
}

/// A connection to the server.
#[derive(Debug)]
pub struct Client {
    spec: ClientSpec,
    stream: Arc<TcpStream>,
    stopped: Arc<AtomicBool>,
    message: Vec<u8>,
    /// Holds the last piece, where it is sent with `sendfile`.
    file: Option<File>,
}

impl Client {
    /// Connects; `stop` ends the wait.
    ///
    /// # Errors
    /// [`Error::Os`] if there is no answer, it was stopped, or the socket rejects an option.
    pub fn connect(spec: ClientSpec, stop: &AtomicBool) -> Result<Self> {
        let op = format!("connecting to {}", spec.remote);
        let stream = calls::connect(spec.remote, stop).map_err(Error::os(op))?;
        if spec.nodelay {
            let set = stream.set_nodelay(true);
            set.map_err(Error::os("socket option TCP_NODELAY"))?;
        }
        let last = spec.pieces.last().copied().unwrap_or_default();
        let file = (spec.handing == Handing::Sendfile)
            .then(|| calls::memory_file("tcptailor-message", &vec![FILL; last]))
            .transpose()?;
        Ok(Self {
            message: vec![FILL; spec.pieces.iter().sum()],
            spec,
            stream: Arc::new(stream),
            stopped: Arc::default(),
            file,
        })
    }

    /// Ends [`Client::run`] from another thread.
    pub fn stopper(&self) -> impl FnOnce() + Send + 'static {
        let (stopped, stream) = (Arc::clone(&self.stopped), Arc::clone(&self.stream));
        move || {
            stopped.store(true, Ordering::SeqCst);
            // It fails only where the connection is gone, which is what is wanted.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Sends all messages. `on_message` hears after each how many there were.
    ///
    /// # Errors
    /// [`Error::Peer`] where the server goes away, [`Error::Os`] otherwise; no error where
    /// [`Client::stopper`] was called.
    pub fn run(self, on_message: &mut dyn FnMut(u64)) -> Result<ClientRun> {
        let mut run = ClientRun {
            messages: 0,
            message_bytes: self.message.len(),
            elapsed: Duration::ZERO,
            data_segments: None,
            responses_ns: Histogram::new_with_bounds(1, RESPONSE_NS_MAX, 3)
                .expect("the bounds are constants"),
            interrupted: false,
        };
        let draining = match self.spec.per_second {
            Some(_) => Some(self.start_draining()?),
            None => None,
        };
        let started = Clock.now();
        let mut last = started;
        while run.messages < self.spec.messages && !self.is_stopped() {
            match self.exchange(started, run.messages) {
                Ok(()) => {}
                Err(_) if self.is_stopped() => break,
                Err(error) => {
                    // It ends the draining. The connection may be gone already.
                    let _ = self.stream.shutdown(Shutdown::Both);
                    return Err(self.failure(error, run.messages));
                }
            }
            let now = Clock.now();
            if self.spec.per_second.is_none() {
                let nanos = u64::try_from(now.since(last).as_nanos()).unwrap_or(u64::MAX);
                run.responses_ns.saturating_record(nanos);
            }
            last = now;
            run.messages += 1;
            on_message(run.messages);
        }
        run.elapsed = last.since(started);
        run.interrupted = run.messages < self.spec.messages;
        run.data_segments = linux::sockopt::data_segments_sent(self.stream.as_fd());
        self.finish(draining);
        Ok(run)
    }

    /// Reads unneeded answers on a thread of its own. A server whose answers are not read stops
    /// reading in the end, and then nothing can be sent.
    fn start_draining(&self) -> Result<JoinHandle<()>> {
        let stream = Arc::clone(&self.stream);
        let thread = thread::Builder::new().name("answers".into());
        let started = thread.spawn(move || read_to_end(&stream));
        started.map_err(Error::os("starting a thread that reads answers"))
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    fn failure(&self, error: io::Error, messages: u64) -> Error {
        match error.kind() {
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe => Error::Peer(format!(
                "{} closed the connection after {messages} messages; {}",
                self.spec.remote,
                self.question(messages)
            )),
            io::ErrorKind::InvalidData => Error::Peer(format!(
                "{} answers more than once to a message of {} bytes; start it with `--message {1}`",
                self.spec.remote,
                self.message.len()
            )),
            _ => Error::Os {
                op: format!("talking to {}", self.spec.remote),
                source: error,
            },
        }
    }

    /// Probable cause when the server closes the connection.
    const fn question(&self, messages: u64) -> &'static str {
        let awaits = self.spec.per_second.is_none() && self.spec.reply_bytes > 0;
        if awaits && messages == 0 {
            return "do both ends have messages of the same size? A server that was started with \
                    `rate` answers nothing: its clients need `--rate`";
        }
        "do both ends have messages of the same size?"
    }

    /// One message and its answer, or one message at its time.
    fn exchange(&self, started: Instant, number: u64) -> io::Result<()> {
        if let Some(per_second) = self.spec.per_second {
            let at = Duration::from_secs(1).mul_f64(number as f64 / f64::from(per_second));
            self.sleep_until(started + at);
            return self.send();
        }
        self.send()?;
        let mut reply = [0; 64];
        let mut left = self.spec.reply_bytes;
        while left > 0 {
            // There is room for more than it may answer, so that this does not go unseen.
            match again(|| (&*self.stream).read(&mut reply))? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                got if got > left => return Err(io::ErrorKind::InvalidData.into()),
                got => left -= got,
            }
        }
        Ok(())
    }

    fn send(&self) -> io::Result<()> {
        if !self.spec.cork {
            return self.hand_over();
        }
        SockRef::from(&*self.stream).set_tcp_cork(true)?;
        self.hand_over()?;
        SockRef::from(&*self.stream).set_tcp_cork(false)
    }

    fn hand_over(&self) -> io::Result<()> {
        let pieces = &self.spec.pieces;
        match self.spec.handing {
            Handing::Write => self.write_each(pieces),
            Handing::Single => (&*self.stream).write_all(&self.message),
            Handing::Writev => {
                let slices: Vec<IoSlice<'_>> = pieces
                    .iter()
                    .map(|&bytes| IoSlice::new(&self.message[..bytes]))
                    .collect();
                let sent = again(|| (&*self.stream).write_vectored(&slices))?;
                (&*self.stream).write_all(&self.message[sent..])
            }
            Handing::MsgMore => {
                let (last, before) = pieces.split_last().expect("a message has a piece");
                for &bytes in before {
                    self.send_with_more(bytes)?;
                }
                (&*self.stream).write_all(&self.message[..*last])
            }
            Handing::Sendfile => {
                let (last, before) = pieces.split_last().expect("a message has a piece");
                self.write_each(before)?;
                self.send_file(*last)
            }
        }
    }

    fn write_each(&self, pieces: &[usize]) -> io::Result<()> {
        pieces
            .iter()
            .try_for_each(|&bytes| (&*self.stream).write_all(&self.message[..bytes]))
    }

    fn send_with_more(&self, bytes: usize) -> io::Result<()> {
        let mut rest = &self.message[..bytes];
        while !rest.is_empty() {
            let sent = again(|| calls::send_part(&*self.stream, rest, More::Follows))?;
            rest = &rest[sent..];
        }
        Ok(())
    }

    fn send_file(&self, bytes: usize) -> io::Result<()> {
        let file = self.file.as_ref().expect("made where it is sent");
        let mut offset = 0;
        while offset < bytes as u64 {
            let left = bytes - offset as usize;
            let sent = again(|| calls::send_file(&*self.stream, file, &mut offset, left))?;
            if sent == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(())
    }

    fn sleep_until(&self, at: Instant) {
        loop {
            let left = at.since(Clock.now());
            if left.is_zero() || self.is_stopped() {
                return;
            }
            thread::sleep(left.min(NAP));
        }
    }

    /// Waits until the server has read everything, so that its count is whole.
    fn finish(&self, draining: Option<JoinHandle<()>>) {
        // A stop has shut it down already; then both ways end at once.
        if self.stream.shutdown(Shutdown::Write).is_ok() && draining.is_none() {
            read_to_end(&self.stream);
        }
        if let Some(thread) = draining {
            thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    }
}

/// Makes a call again for as long as signals interrupt it.
fn again<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

fn read_to_end(mut stream: &TcpStream) {
    let mut rest = [0; 4096];
    while matches!(again(|| stream.read(&mut rest)), Ok(1..)) {}
}
