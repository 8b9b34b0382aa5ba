//! The pair of sample programs that shows what `TCP_NODELAY` and `TCP_CORK` do: a client that sends
//! messages in small writes and awaits an answer to each, and the server that answers.
//!
//! Seed: Red Hat Enterprise Linux for Real Time 7, Reference Guide, chapter 8. The behaviour, the
//! arguments and the line of output are those of its programs; the code is not. Blocking sockets of
//! the kernel, one thread; nothing is printed here.

mod client;
mod server;

use std::time::Duration;

pub use client::{Client, ClientRun, ClientSpec};
pub use server::{Intervals, Server, ServerSpec, Visit};

/// Bytes of an answer.
pub const REPLY_BYTES: usize = 2;
/// Pieces of a message in the document.
pub const PIECES: usize = 15;
/// Bytes of a piece in the document.
pub const PIECE_BYTES: usize = 2;
/// Header and payload of the later client's two writes.
pub const HEADER_AND_PAYLOAD: [usize; 2] = [6, 24];
/// Port of the document.
pub const PORT: u16 = 5001;
/// Messages of the document.
pub const MESSAGES: u64 = 10_000;
/// Longest message: more is a stream.
pub const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// How the pieces of a message are handed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Handing {
    /// One `write` per piece.
    #[default]
    Write,
    /// All pieces in one `writev`.
    Writev,
    /// One `send` per piece, all but the last with `MSG_MORE`.
    MsgMore,
    /// The whole message from contiguous memory in one `write`.
    Single,
    /// The last piece from a file with `sendfile`, those before it with a `write` each.
    Sendfile,
}

impl Handing {
    /// Calls that hand over a message of this many pieces: its buffers, in the words of the
    /// document.
    #[must_use]
    pub const fn calls(self, pieces: usize) -> usize {
        match self {
            Self::Write | Self::MsgMore | Self::Sendfile => pieces,
            Self::Writev | Self::Single => 1,
        }
    }
}

/// Which options the client set, in the words that end its line; empty for none.
#[must_use]
pub const fn options_used(nodelay: bool, cork: bool) -> &'static str {
    match (nodelay, cork) {
        (false, false) => "",
        (true, false) => " using TCP_NODELAY",
        (false, true) => " using TCP_CORK",
        (true, true) => " using TCP_NODELAY and TCP_CORK",
    }
}

/// The document's line. Its "packets" are messages, and its six decimals are those of a number
/// with 24 bits, of which three or fewer are true; programs that read such lines want them so.
#[must_use]
pub fn line(messages: u64, message_bytes: usize, elapsed: Duration, options: &str) -> String {
    let millis = milliseconds(elapsed) as f32;
    let rate = (messages as f64 * message_bytes as f64) as f32 / millis.max(f32::MIN_POSITIVE);
    format!(
        "{messages} packets of {message_bytes} bytes sent in {millis:.6} ms: {rate:.6} bytes/ms\
         {options}"
    )
}

/// The time that a line of the document gives; `None` where it is none.
#[must_use]
pub fn elapsed_of(line: &str) -> Option<Duration> {
    let (_, rest) = line.split_once(" packets of ")?;
    let (_, rest) = rest.split_once(" bytes sent in ")?;
    let (millis, rest) = rest.split_once(" ms: ")?;
    let (_, _) = rest.split_once(" bytes/ms")?;
    Duration::try_from_secs_f64(millis.parse::<f64>().ok()? / 1e3).ok()
}

/// Payload sent per millisecond.
#[must_use]
pub fn bytes_per_ms(messages: u64, message_bytes: usize, elapsed: Duration) -> f64 {
    messages as f64 * message_bytes as f64 / milliseconds(elapsed).max(f64::MIN_POSITIVE)
}

/// A time as the document writes it.
#[must_use]
pub fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}
