//! An encrypted control connection: messages out, messages in with a deadline.
//!
//! A message is JSON in frames: two bytes of length, then what Noise makes of a byte that says
//! whether more frames follow and of a piece of the message. Frames are numbered by both ends, so
//! that none can be left out, repeated or taken from the other direction.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base::Instant;
use serde::Serialize;
use serde::de::DeserializeOwned;
use snow::StatelessTransportState;

use super::SILENCE_MAX;
use crate::clock::Clock;
use crate::error::{Error, Result};

/// Bytes of a message in one frame.
const PIECE_BYTES: usize = 16 << 10;
/// Bytes that Noise adds.
const TAG_BYTES: usize = 16;
/// Longest frame after its length: the byte, a piece and the tag.
const FRAME_BYTES_MAX: usize = 1 + PIECE_BYTES + TAG_BYTES;
const LAST: u8 = 0;
const MORE: u8 = 1;

/// A control connection.
#[derive(Debug)]
pub(super) struct Channel {
    speaker: Arc<MessageSender>,
    pending: Vec<u8>,
    message: Vec<u8>,
    frames_read: u64,
    message_bytes_max: usize,
    is_closed: bool,
}

/// The sending side of a control connection. Messages of several threads do not mix.
pub(super) struct MessageSender {
    stream: TcpStream,
    remote: SocketAddr,
    noise: StatelessTransportState,
    frames_written: Mutex<u64>,
}

impl std::fmt::Debug for MessageSender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MessageSender")
            .field("remote", &self.remote)
            .finish_non_exhaustive()
    }
}

impl Channel {
    /// Continues on `stream` after the opening. Messages of the peer have at most
    /// `message_bytes_max` bytes.
    pub(super) fn new(
        stream: TcpStream,
        noise: StatelessTransportState,
        message_bytes_max: usize,
    ) -> Result<Self> {
        let remote = stream.peer_addr().map_err(Error::os("getpeername"))?;
        stream
            .set_nodelay(true)
            .and_then(|()| stream.set_write_timeout(Some(SILENCE_MAX)))
            .map_err(Error::os("options of the control connection"))?;
        let speaker = MessageSender {
            stream,
            remote,
            noise,
            frames_written: Mutex::new(0),
        };
        Ok(Self {
            speaker: Arc::new(speaker),
            pending: Vec::new(),
            message: Vec::new(),
            frames_read: 0,
            message_bytes_max,
            is_closed: false,
        })
    }

    pub(super) fn remote(&self) -> SocketAddr {
        self.speaker.remote
    }

    /// Whether the peer has left.
    pub(super) const fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// This end's address.
    pub(super) fn local(&self) -> Result<SocketAddr> {
        let local = self.speaker.stream.local_addr();
        local.map_err(Error::os("getsockname"))
    }

    /// Handle by which other threads send.
    pub(super) fn speaker(&self) -> Arc<MessageSender> {
        Arc::clone(&self.speaker)
    }

    pub(super) fn send(&self, message: &impl Serialize) -> Result<()> {
        self.speaker.send(message)
    }

    /// The next message; `None` where it has not come whole within `timeout`.
    ///
    /// # Errors
    /// [`Error::Peer`] where the peer closes the connection or does not keep to the protocol.
    pub(super) fn receive<T: DeserializeOwned>(&mut self, timeout: Duration) -> Result<Option<T>> {
        let deadline = Clock.now() + timeout;
        loop {
            while let Some(frame) = self.next_frame()? {
                if self.take(&frame)? {
                    let message = std::mem::take(&mut self.message);
                    return self.read(message).map(Some);
                }
            }
            let left = deadline.since(Clock.now());
            if left.is_zero() || !self.read_some(left)? {
                return Ok(None);
            }
        }
    }

    fn read<T: DeserializeOwned>(&self, message: Vec<u8>) -> Result<T> {
        let wrong = |error: &dyn std::fmt::Display| {
            self.error(&format!("does not keep to the protocol: {error}"))
        };
        let text = String::from_utf8(message).map_err(|error| wrong(&error))?;
        serde_json::from_str(&text).map_err(|error| wrong(&error))
    }

    /// As [`Channel::receive`] where silence is an error.
    pub(super) fn expect<T: DeserializeOwned>(&mut self, timeout: Duration) -> Result<T> {
        self.receive(timeout)?.ok_or_else(|| {
            self.error(&format!(
                "does not answer within {}",
                base::format_duration(timeout)
            ))
        })
    }

    /// An error that names the peer. `what` may quote it.
    pub(super) fn error(&self, what: &str) -> Error {
        peer_error(self.speaker.remote, what)
    }

    /// Cuts a frame off what has come in.
    fn next_frame(&mut self) -> Result<Option<Vec<u8>>> {
        let Some((length, rest)) = self.pending.split_first_chunk() else {
            return Ok(None);
        };
        let length = usize::from(u16::from_be_bytes(*length));
        if !(1 + TAG_BYTES..=FRAME_BYTES_MAX).contains(&length) {
            return Err(self.error("does not keep to the protocol: a frame of impossible length"));
        }
        if rest.len() < length {
            return Ok(None);
        }
        let frame = rest[..length].to_vec();
        self.pending.drain(..2 + length);
        Ok(Some(frame))
    }

    /// Adds a frame to the message; whether it was its last one.
    fn take(&mut self, frame: &[u8]) -> Result<bool> {
        let mut plain = [0; FRAME_BYTES_MAX];
        let read = self
            .speaker
            .noise
            .read_message(self.frames_read, frame, &mut plain);
        let read = read.map_err(|_| {
            self.error("does not keep to the protocol: a frame was changed on its way")
        })?;
        self.frames_read += 1;
        let (kind, piece) = (plain[0], &plain[1..read]);
        if self.message.len() + piece.len() > self.message_bytes_max {
            return Err(self.error("sends messages that are too long"));
        }
        self.message.extend_from_slice(piece);
        Ok(kind != MORE)
    }

    /// `false` after `timeout`.
    fn read_some(&mut self, timeout: Duration) -> Result<bool> {
        let mut buffer = [0; 16 << 10];
        let timeout = timeout.max(Duration::from_millis(1));
        let mut stream = &self.speaker.stream;
        let got = stream
            .set_read_timeout(Some(timeout))
            .and_then(|()| stream.read(&mut buffer));
        match got {
            Ok(0) => {
                self.is_closed = true;
                Err(self.error("closed the connection"))
            }
            Ok(got) => {
                self.pending.extend_from_slice(&buffer[..got]);
                Ok(true)
            }
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Ok(false),
                io::ErrorKind::Interrupted => Ok(true),
                io::ErrorKind::ConnectionReset => {
                    self.is_closed = true;
                    Err(self.error("closed the connection"))
                }
                _ => Err(self.error(&format!("connection failed: {error}"))),
            },
        }
    }
}

impl MessageSender {
    /// Sends a message whole. A peer that takes it in drops is given up.
    ///
    /// # Errors
    /// [`Error::Peer`] where the peer does not take it in time, or is gone.
    pub(super) fn send(&self, message: &impl Serialize) -> Result<()> {
        let text = serde_json::to_vec(message).expect("messages are plain data");
        let mut written = self
            .frames_written
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let mut out = Vec::with_capacity(text.len() + 64);
        let mut pieces = text.chunks(PIECE_BYTES).peekable();
        let mut frame = [0; FRAME_BYTES_MAX];
        while let Some(piece) = pieces.next() {
            let kind = if pieces.peek().is_some() { MORE } else { LAST };
            let plain = [&[kind][..], piece].concat();
            let length = self.noise.write_message(*written, &plain, &mut frame);
            let length = length.expect("a frame has room for its piece");
            *written += 1;
            let shown = u16::try_from(length).expect("frames are short");
            out.extend_from_slice(&shown.to_be_bytes());
            out.extend_from_slice(&frame[..length]);
        }
        self.write_by(&out, Clock.now() + SILENCE_MAX)
            .map_err(|error| Error::Peer(format!("{}: cannot send: {error}", self.remote)))
    }

    /// Each write waits for at most [`SILENCE_MAX`] and may take less than all.
    fn write_by(&self, mut bytes: &[u8], deadline: Instant) -> io::Result<()> {
        while !bytes.is_empty() {
            match (&self.stream).write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(taken) => bytes = &bytes[taken..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if !bytes.is_empty() && Clock.now() >= deadline {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        Ok(())
    }
}

/// An error that names the peer. `what` may quote it.
pub(super) fn peer_error(remote: SocketAddr, what: &str) -> Error {
    Error::Peer(format!("{remote} {}", harmless(what)))
}

/// Text that a peer may have had a part in, fit for a terminal and a log: on one line, without
/// control characters, and not longer than a line of either.
pub(super) fn harmless(text: &str) -> String {
    const CHARACTERS_MAX: usize = 300;
    let mut letters = text.chars();
    let mut shown: String = letters
        .by_ref()
        .take(CHARACTERS_MAX)
        .map(|letter| {
            if base::is_obeyed(letter) {
                char::REPLACEMENT_CHARACTER
            } else {
                letter
            }
        })
        .collect();
    if letters.next().is_some() {
        shown.push('\u{2026}');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_peer_says_stays_on_its_line() {
        let check = |text: &str, expected: &str| assert_eq!(harmless(text), expected);
        check("plain", "plain");
        check("a\nb\u{1b}[2J", "a\u{fffd}b\u{fffd}[2J");
        assert_eq!(harmless(&"x".repeat(1000)).chars().count(), 301);
    }
}
