//! What `bench` and `serve` say to each other: lines of JSON of limited length.
//!
//! ```text
//! client                               server
//! hello {protocol, nonce}       ->
//!                               <-     challenge {protocol, nonce, key_required}
//! answer {proof}                ->
//!                               <-     welcome {proof, limits} | refused {reason}
//! prepare {run}                 ->
//!                               <-     prepared {token, port} | failed {reason}
//! data connections, each beginning with a zero and the token
//!                               <-     interval … (both ends say alive every second)
//! stop                          ->
//!                               <-     done {summary} | failed {reason}
//! prepare …
//! ```
//! A proof is HMAC-SHA256 under the shared key over the role and both nonces (RFC 2104), so that
//! neither end can replay what it heard.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use super::SILENCE_MAX;
use super::lines::LineBuffer;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::workload::{Interval, RunSpec, Summary, Token};

/// Port of `serve`; iperf3's.
pub const PORT: u16 = 5201;
/// Version of what is said here.
pub(super) const PROTOCOL: u32 = 1;
/// Longest line that a server takes: a run with all settings is below 2 KiB.
pub(super) const REQUEST_BYTES_MAX: usize = 64 << 10;
/// Longest line that a client takes: response times of a long run.
pub(super) const REPORT_BYTES_MAX: usize = 4 << 20;

/// What a client says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum FromClient {
    /// First line.
    Hello { protocol: u32, nonce: Nonce },
    /// The proof that the key is known, where one is asked for.
    Answer { proof: Option<String> },
    /// The next run, with the server's sockets.
    Prepare { run: Box<RunSpec> },
    /// I am still here.
    Alive,
    /// The run is over, or shall be.
    Stop,
}

/// What a server says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(clippy::large_enum_variant, reason = "the large one comes once")]
pub(super) enum FromServer {
    /// Answer to the first line.
    Challenge {
        protocol: u32,
        nonce: Nonce,
        key_required: bool,
    },
    /// The client may ask for runs.
    Welcome {
        proof: Option<String>,
        limits: Limits,
    },
    /// The client may not.
    Refused { reason: String },
    /// The server waits for data connections: on the port of this connection, or on another one.
    Prepared { token: Nonce, port: Option<u16> },
    /// What happened at the server since the last report.
    Interval(Interval),
    /// I am still here.
    Alive,
    /// The run's summary at the server.
    Done(Summary),
    /// The run has failed, or is not allowed.
    Failed { reason: String },
}

/// What a server allows each client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Clients at once.
    pub clients: u32,
    /// Time of one run, warm-up included.
    #[serde(with = "lab::text::duration")]
    pub time: Duration,
    /// Payload of one run, both directions together, in bytes.
    pub bytes: u64,
    /// Time without any word from a client.
    #[serde(with = "lab::text::duration")]
    pub idle: Duration,
}

impl Default for Limits {
    /// For a machine that is there to be measured against: a few people, runs of minutes.
    fn default() -> Self {
        Self {
            clients: 8,
            time: Duration::from_secs(3600),
            bytes: 1 << 40,
            idle: SILENCE_MAX,
        }
    }
}

/// Sixteen random bytes, written as hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Nonce(pub(super) [u8; 16]);

impl Nonce {
    pub(super) fn random() -> Result<Self> {
        let mut bytes = [0; 16];
        let got = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
            .map_err(Error::errno("getrandom"))?;
        assert_eq!(got, bytes.len(), "the kernel gives up to 256 bytes at once");
        Ok(Self(bytes))
    }

    pub(super) const fn token(self) -> Token {
        Token(self.0)
    }
}

impl Serialize for Nonce {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&to_hex(&self.0))
    }
}

impl<'de> Deserialize<'de> for Nonce {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        from_hex(&text)
            .and_then(|bytes| bytes.try_into().ok())
            .map(Self)
            .ok_or_else(|| serde::de::Error::custom("a nonce has 32 hexadecimal digits"))
    }
}

/// A key that both ends were given.
#[derive(Clone)]
pub struct Key(Vec<u8>);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(..)")
    }
}

/// Whose proof it is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Prover {
    Client,
    Server,
}

/// What a proof is over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nonces {
    pub(super) client: Nonce,
    pub(super) server: Nonce,
}

impl Key {
    /// A key as a user writes it; white space around it is taken off.
    ///
    /// # Errors
    /// Where it is shorter than 8 bytes: a listener could guess it.
    pub fn new(text: &str) -> Result<Self, String> {
        let key = text.trim();
        if key.len() < 8 {
            return Err("a shared key has at least 8 characters".into());
        }
        Ok(Self(key.as_bytes().to_vec()))
    }

    pub(super) fn prove(&self, prover: Prover, nonces: &Nonces) -> String {
        to_hex(&self.mac(prover, nonces).finalize().into_bytes())
    }

    /// Compares in constant time.
    pub(super) fn verify(&self, prover: Prover, nonces: &Nonces, proof: Option<&str>) -> bool {
        let Some(proof) = proof.and_then(from_hex) else {
            return false;
        };
        self.mac(prover, nonces).verify_slice(&proof).is_ok()
    }

    fn mac(&self, prover: Prover, nonces: &Nonces) -> Hmac<Sha256> {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of every length");
        mac.update(match prover {
            Prover::Client => b"tcptailor client",
            Prover::Server => b"tcptailor server",
        });
        mac.update(&nonces.client.0);
        mac.update(&nonces.server.0);
        mac
    }
}

/// A control connection: lines out, lines in with a deadline.
#[derive(Debug)]
pub(super) struct Channel {
    stream: TcpStream,
    remote: SocketAddr,
    lines: LineBuffer,
    is_closed: bool,
}

impl Channel {
    /// Lines of the peer are at most so long.
    pub(super) fn new(stream: TcpStream, line_bytes_max: usize) -> Result<Self> {
        let remote = stream.peer_addr().map_err(Error::os("getpeername"))?;
        stream
            .set_nodelay(true)
            .and_then(|()| stream.set_write_timeout(Some(SILENCE_MAX)))
            .map_err(Error::os("options of the control connection"))?;
        Ok(Self {
            stream,
            remote,
            lines: LineBuffer::new(line_bytes_max),
            is_closed: false,
        })
    }

    pub(super) const fn remote(&self) -> SocketAddr {
        self.remote
    }

    /// Whether the peer has left.
    pub(super) const fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// This end's address.
    pub(super) fn local(&self) -> Result<SocketAddr> {
        self.stream.local_addr().map_err(Error::os("getsockname"))
    }

    /// A second handle that can only speak.
    pub(super) fn speaker(&self) -> Result<Speaker> {
        Ok(Speaker {
            stream: self.stream.try_clone().map_err(Error::os("dup"))?,
            remote: self.remote,
        })
    }

    pub(super) fn send(&self, message: &impl Serialize) -> Result<()> {
        write_line(&self.stream, self.remote, message)
    }

    /// Bytes that were read before the channel was made.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.lines.push(bytes);
    }

    /// The next message; `None` where none comes within `timeout`.
    ///
    /// # Errors
    /// [`Error::Peer`] where the peer closes the connection or does not keep to the protocol.
    pub(super) fn receive<T: DeserializeOwned>(&mut self, timeout: Duration) -> Result<Option<T>> {
        let deadline = Clock.now() + timeout;
        loop {
            let line = self
                .lines
                .next_line()
                .map_err(|_| self.error("sends lines that are too long"))?;
            if let Some(line) = line {
                let message = serde_json::from_slice(&line).map_err(|error| {
                    self.error(&format!("does not keep to the protocol: {error}"))
                })?;
                return Ok(Some(message));
            }
            let left = deadline.since(Clock.now());
            if left.is_zero() || !self.read_some(left)? {
                return Ok(None);
            }
        }
    }

    /// As [`Channel::receive`] where silence is an error.
    pub(super) fn expect<T: DeserializeOwned>(&mut self, timeout: Duration) -> Result<T> {
        self.receive(timeout)?.ok_or_else(|| {
            self.error(&format!(
                "does not answer within {}; does `tcptailor serve` run there?",
                base::format_duration(timeout)
            ))
        })
    }

    /// An error that names the peer. `what` may quote it.
    pub(super) fn error(&self, what: &str) -> Error {
        Error::Peer(format!("{} {}", self.remote, harmless(what)))
    }

    /// `false` after `timeout`.
    fn read_some(&mut self, timeout: Duration) -> Result<bool> {
        let mut buffer = [0; 16 << 10];
        let timeout = timeout.max(Duration::from_millis(1));
        let got = self
            .stream
            .set_read_timeout(Some(timeout))
            .and_then(|()| self.stream.read(&mut buffer));
        match got {
            Ok(0) => {
                self.is_closed = true;
                Err(self.error("closed the connection"))
            }
            Ok(got) => {
                self.lines.push(&buffer[..got]);
                Ok(true)
            }
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Ok(false),
                io::ErrorKind::Interrupted => Ok(true),
                io::ErrorKind::ConnectionReset => {
                    self.is_closed = true;
                    Err(self.error("closed the connection"))
                }
                _ => Err(self.error(&format!("cannot be heard any more: {error}"))),
            },
        }
    }
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
            if letter.is_control() {
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

/// The speaking side of a control connection.
#[derive(Debug)]
pub(super) struct Speaker {
    stream: TcpStream,
    remote: SocketAddr,
}

impl Speaker {
    pub(super) fn send(&self, message: &impl Serialize) -> Result<()> {
        write_line(&self.stream, self.remote, message)
    }
}

/// One write per line, so that lines of several threads do not mix unless the kernel's buffer is
/// full; callers that share a stream hold a lock.
fn write_line(mut stream: &TcpStream, remote: SocketAddr, message: &impl Serialize) -> Result<()> {
    let mut line = serde_json::to_vec(message).expect("messages are plain data");
    line.push(b'\n');
    stream
        .write_all(&line)
        .map_err(|error| Error::Peer(format!("{remote} cannot be told any more: {error}")))
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.is_ascii() {
        return None;
    }
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn nonces() -> Nonces {
        Nonces {
            client: Nonce([1; 16]),
            server: Nonce([2; 16]),
        }
    }

    #[test]
    fn a_proof_holds_for_its_key_its_role_and_its_nonces_only() {
        let key = Key::new(" correct horse ").expect("long enough");
        let proof = key.prove(Prover::Client, &nonces());
        let check = |key: &Key, prover, nonces: Nonces, proof: Option<&str>| {
            key.verify(prover, &nonces, proof)
        };
        let other = Key::new("correct house").expect("long enough");
        let swapped = Nonces {
            client: nonces().server,
            server: nonces().client,
        };
        assert!(check(&key, Prover::Client, nonces(), Some(&proof)));
        assert!(!check(&other, Prover::Client, nonces(), Some(&proof)));
        assert!(!check(&key, Prover::Server, nonces(), Some(&proof)));
        assert!(!check(&key, Prover::Client, swapped, Some(&proof)));
        assert!(!check(&key, Prover::Client, nonces(), Some(&proof[2..])));
        assert!(!check(&key, Prover::Client, nonces(), None));
        assert!(Key::new("short").is_err());
    }

    /// RFC 4231, test case 2, through the same library calls.
    #[test]
    fn what_a_peer_says_stays_on_its_line() {
        let check = |text: &str, expected: &str| assert_eq!(harmless(text), expected);
        check("unknown variant `x`", "unknown variant `x`");
        check("a\u{1b}]0;b\u{7}\nc", "a\u{fffd}]0;b\u{fffd}\u{fffd}c");
        let long = "\u{e9}".repeat(300);
        check(&long, &long);
        check(&format!("{long}x"), &format!("{long}\u{2026}"));
    }

    #[test]
    fn the_library_computes_hmac_sha256() {
        let mut mac = Hmac::<Sha256>::new_from_slice(b"Jefe").expect("any length");
        mac.update(b"what do ya want for nothing?");
        assert_eq!(
            to_hex(&mac.finalize().into_bytes()),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
    }

    proptest! {
        #[test]
        fn garbage_is_no_message_and_no_panic(text in "\\PC{0,200}") {
            let _ = serde_json::from_str::<FromClient>(&text);
            let _ = serde_json::from_str::<FromServer>(&text);
            let _ = from_hex(&text);
        }

        #[test]
        fn broken_messages_are_refused_or_read(at in 0_usize..400, byte in any::<u8>()) {
            let run = super::super::tests::request_response();
            let message = FromClient::Prepare { run: Box::new(run) };
            let mut line = serde_json::to_vec(&message).expect("json");
            let at = at % line.len();
            line[at] = byte;
            if let Ok(FromClient::Prepare { run }) = serde_json::from_slice(&line) {
                let _ = run.check();
            }
        }

        #[test]
        fn nonces_travel(bytes in any::<[u8; 16]>()) {
            let text = serde_json::to_string(&Nonce(bytes)).expect("json");
            prop_assert_eq!(serde_json::from_str::<Nonce>(&text).expect("back"), Nonce(bytes));
        }
    }
}
