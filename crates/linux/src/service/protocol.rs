//! Messages between `bench` and `serve` after the opening, in JSON.
//!
//! ```text
//! client                               server
//! hello                         ->
//!                               <-     welcome {limits} | refused {reason}
//! ping {n}                      ->                                             (at any time)
//!                               <-     pong {n}
//! prepare {run}                 ->
//!                               <-     prepared {token, port} | failed {reason}
//! data connections, each beginning with a zero and the token
//!                               <-     interval …    (both ends are heard every second)
//! stop                          ->
//!                               <-     done {summary} | failed {reason}
//! prepare …
//! ```
//! The opening (`opening`) has proven the key at both ends, and all of this is encrypted
//! (`channel`). Data connections are not: they carry no information, and their token is of use to
//! the client's address only.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::SILENCE_MAX;
use super::admission::MaxStartups;
use crate::error::{Error, Result};
use crate::workload::{Interval, RunSpec, Summary, Token};

/// Port of `serve`; iperf3's.
pub const PORT: u16 = 5201;
/// Longest message that a server takes: a run with all settings is below 2 KiB.
pub(super) const REQUEST_BYTES_MAX: usize = 64 << 10;
/// Longest message that a client takes: response times of a long run.
pub(super) const REPORT_BYTES_MAX: usize = 4 << 20;

/// Message of a client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum FromClient {
    /// First message: what came before may have been recorded, this was not.
    Hello,
    /// To be answered at once, with the same number.
    Ping { n: u64 },
    /// The next run, with the server's sockets.
    Prepare { run: Box<RunSpec> },
    /// I am still here.
    Alive,
    /// The run is over, or shall be.
    Stop,
}

/// Message of a server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum FromServer {
    /// The client may ask for runs.
    Welcome { limits: Limits },
    /// The client may not.
    Refused { reason: String },
    /// The server waits for data connections: on the port of this connection, or on another one.
    Prepared { token: Nonce, port: Option<u16> },
    /// Counters at the server since the last report.
    Interval(Interval),
    /// I am still here.
    Alive,
    /// Answer to a ping.
    Pong { n: u64 },
    /// The run's summary at the server.
    Done(Box<Summary>),
    /// The run has failed, or is refused.
    Failed { reason: String },
}

/// Limits of a server for each client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Concurrent clients.
    pub clients: u32,
    /// ... of one address (of one /64 of IPv6).
    pub clients_per_address: u32,
    /// Connections at once of which it is not known yet what they are.
    pub startups: MaxStartups,
    /// Time of one run, warm-up included.
    #[serde(with = "lab::text::duration")]
    pub time: Duration,
    /// Payload of one run, both directions together, in bytes.
    pub bytes: u64,
    /// Time between two runs of a client, or without any word from it during one.
    #[serde(with = "lab::text::duration")]
    pub idle: Duration,
}

impl Default for Limits {
    /// For a machine that is there to be measured against: a few people, runs of minutes.
    fn default() -> Self {
        Self {
            clients: 8,
            clients_per_address: 4,
            startups: MaxStartups::default(),
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
