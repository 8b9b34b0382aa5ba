//! Workloads: the traffic of the programs at both ends, independent of the engine.

mod records;

use core::time::Duration;

use base::{Bytes, Rate};
use serde::{Deserialize, Serialize};

use crate::outcome::Caveat;
use crate::text::duration;
use crate::trial::End;
pub use records::{Pace, Quotes, RecordWrites, Records, SizeRange};

/// Polling interval of a writer that waits until less is unacknowledged: systems tell programs how
/// much that is (`SIOCOUTQ`), but not when it changes.
pub const UNACKED_LOOK: Duration = Duration::from_micros(200);

/// Least room for which such a writer writes, where its bound is larger: the low-water mark of
/// BSD's send buffers.
pub const UNACKED_ROOM_MIN: u64 = 2048;

/// Bytes that a sender may write now that keeps at most `bound` unacknowledged; 0 where it waits.
/// `left`: what it would write if there were no bound.
#[must_use]
pub const fn unacked_room(bound: Bytes, unacked_bytes: u64, left: u64) -> u64 {
    let room = bound.0.saturating_sub(unacked_bytes);
    let is_enough = room >= left || room >= UNACKED_ROOM_MIN || unacked_bytes == 0;
    match (is_enough, room < left) {
        (false, _) => 0,
        (true, true) => room,
        (true, false) => left,
    }
}

/// Which way the payload goes. The client opens the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// Client to server.
    Up,
    /// Server to client.
    Down,
    /// Both at once.
    Both,
}

/// When a workload ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Amount {
    /// After this much payload, per flow.
    Bytes(Bytes),
    /// After this time.
    Time(#[serde(with = "duration")] Duration),
    /// After this many operations (requests, records, bursts), per flow.
    Operations(u64),
}

/// How a message that consists of several pieces is handed to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WriteMethod {
    /// One `write` per piece: the pattern that stalls.
    Write,
    /// All pieces in one `writev`.
    Writev,
    /// One `send` per piece, all but the last with `MSG_MORE`.
    MsgMore,
    /// Cork, one `write` per piece, uncork.
    Cork,
    /// Cork and never uncork: a fault.
    CorkForever,
    /// The last piece from a file with `sendfile`, those before it with a `write` each. Programs on
    /// our own stack have no files and write the last one too.
    Sendfile,
    /// The same, corked.
    CorkSendfile,
}

impl WriteMethod {
    /// Whether it takes a kernel.
    #[must_use]
    pub const fn needs_files(self) -> bool {
        matches!(self, Self::Sendfile | Self::CorkSendfile)
    }
}

/// When a record counts as done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Completion {
    /// As soon as the kernel took it.
    Written,
    /// When the peer has acknowledged it (what a send buffer of zero means on Winsock).
    Acknowledged,
}

/// The traffic of a trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Workload {
    /// As much data as the connection carries.
    Bulk {
        /// Which way.
        direction: Direction,
        /// Connections at once.
        flows: u32,
        /// Bytes per `write`.
        write_size: Bytes,
        /// Most bytes that a sender keeps between written and acknowledged, as a send buffer of
        /// BSD would; `None` for as many as the socket takes. The program looks every
        /// [`UNACKED_LOOK`], by which it may be late: of a round-trip time of 35 ms at most 1 in
        /// 100.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unacked: Option<Bytes>,
        /// The end.
        amount: Amount,
    },
    /// A request, its response, the next request, on one connection (netperf calls it RR).
    RequestResponse {
        /// Bytes of a request.
        request: Bytes,
        /// Bytes of a response.
        response: Bytes,
        /// Connections at once.
        flows: u32,
        /// The end.
        amount: Amount,
    },
    /// Request and response on a new connection each (netperf calls it CRR).
    ConnectRequestClose {
        /// Bytes of a request.
        request: Bytes,
        /// Bytes of a response.
        response: Bytes,
        /// The end.
        amount: Amount,
    },
    /// Pieces of a request, each handed over by itself, then the reply is awaited.
    WriteWriteRead {
        /// Pieces per request.
        writes: u32,
        /// Bytes of each piece.
        write_size: Bytes,
        /// Bytes of each piece where they differ; then in place of the two above.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pieces: Vec<Bytes>,
        /// Bytes of the reply.
        reply: Bytes,
        /// How the pieces are handed over.
        method: WriteMethod,
        /// From the last piece to the uncorking, where the method uncorks.
        #[serde(default, with = "duration")]
        uncork_after: Duration,
        /// The end.
        amount: Amount,
    },
    /// Records one way, without replies (seed: Winsock, case 1).
    Records(Records),
    /// Requests on one connection, answers on another or on the same, one at a time (seed: Winsock,
    /// case 2).
    Quotes(Quotes),
    /// A block, an idle gap, the next block; the client awaits one byte when a block has arrived.
    Bursts {
        /// Bytes of a block.
        burst: Bytes,
        /// The gap.
        #[serde(with = "duration")]
        idle: Duration,
        /// A new connection for each block.
        reconnect: bool,
        /// The end.
        amount: Amount,
    },
    /// Bulk from the client into a server that reads slowly.
    SlowReader {
        /// Bytes per read.
        read_size: Bytes,
        /// Time from read to read.
        #[serde(with = "duration")]
        every: Duration,
        /// The end.
        amount: Amount,
    },
    /// A client that writes at this rate.
    Paced {
        /// Payload rate.
        rate: Rate,
        /// Bytes per `write`.
        write_size: Bytes,
        /// The end.
        amount: Amount,
    },
}

impl Workload {
    /// When it ends.
    #[must_use]
    pub const fn amount(&self) -> Amount {
        match self {
            Self::Bulk { amount, .. }
            | Self::RequestResponse { amount, .. }
            | Self::ConnectRequestClose { amount, .. }
            | Self::WriteWriteRead { amount, .. }
            | Self::Records(Records { amount, .. })
            | Self::Quotes(Quotes { amount, .. })
            | Self::Bursts { amount, .. }
            | Self::SlowReader { amount, .. }
            | Self::Paced { amount, .. } => *amount,
        }
    }

    /// Bytes of a request in pieces; of other traffic `None`.
    #[must_use]
    pub fn message_bytes(&self) -> Option<u64> {
        match self {
            Self::WriteWriteRead {
                writes,
                write_size,
                pieces,
                ..
            } if pieces.is_empty() => Some(u64::from(*writes) * write_size.0),
            Self::WriteWriteRead { pieces, .. } => Some(pieces.iter().map(|piece| piece.0).sum()),
            _ => None,
        }
    }

    /// Deviation of a client on our own stack from the request.
    #[must_use]
    pub fn caveat_on_our_stack(&self) -> Option<Caveat> {
        match self {
            Self::WriteWriteRead { method, .. } if method.needs_files() => {
                Some(Caveat::SettingNotApplied {
                    knob: "workload.method".into(),
                    why: "programs on our stack have no files; the data was written".into(),
                })
            }
            _ => None,
        }
    }

    /// Which end sends what is measured: bulk goes where it is told to, everything else begins at
    /// the client. Of two directions at once, the client's.
    #[must_use]
    pub const fn sender(&self) -> End {
        match self {
            Self::Bulk {
                direction: Direction::Down,
                ..
            } => End::Server,
            _ => End::Client,
        }
    }

    /// Whether payload goes both ways at once; of other workloads what comes back are answers.
    #[must_use]
    pub const fn is_two_way(&self) -> bool {
        matches!(
            self,
            Self::Bulk {
                direction: Direction::Both,
                ..
            }
        )
    }

    /// Whether it opens a connection per operation.
    #[must_use]
    pub const fn redials(&self) -> bool {
        matches!(
            self,
            Self::ConnectRequestClose { .. }
                | Self::Bursts {
                    reconnect: true,
                    ..
                }
        )
    }

    /// Connections that it opens at its start.
    #[must_use]
    pub const fn connections(&self) -> u32 {
        match self {
            Self::Bulk {
                direction: Direction::Both,
                flows,
                ..
            } => 2 * *flows,
            Self::Bulk { flows, .. } | Self::RequestResponse { flows, .. } => *flows,
            Self::Quotes(quotes) => quotes.connections(),
            _ => 1,
        }
    }

    /// Connections that one thread of a program works on.
    #[must_use]
    pub const fn connections_per_thread(&self) -> usize {
        match self {
            Self::Quotes(quotes) => quotes.connections() as usize,
            _ => 1,
        }
    }

    /// Lets it go on until it is stopped.
    pub const fn set_endless(&mut self) {
        const ENDLESS: Amount = Amount::Time(Duration::from_secs(3600));
        match self {
            Self::Bulk { amount, .. }
            | Self::RequestResponse { amount, .. }
            | Self::ConnectRequestClose { amount, .. }
            | Self::WriteWriteRead { amount, .. }
            | Self::Records(Records { amount, .. })
            | Self::Quotes(Quotes { amount, .. })
            | Self::Bursts { amount, .. }
            | Self::SlowReader { amount, .. }
            | Self::Paced { amount, .. } => *amount = ENDLESS,
        }
    }

    /// Lets everything random in it be drawn by this seed.
    pub const fn set_seed(&mut self, seed: u64) {
        if let Self::Records(records) = self {
            records.seed = seed;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bounded_writer_waits_for_its_low_water_mark() {
        let check = |bound, unacked, left, room| {
            assert_eq!(unacked_room(Bytes(bound), unacked, left), room);
        };
        check(32_768, 0, 65_536, 32_768);
        check(32_768, 30_720, 65_536, 2_048);
        check(32_768, 30_721, 65_536, 0); // one byte short of the mark
        check(32_768, 30_721, 2_047, 2_047); // all that is left fits
        check(32_768, 40_000, 1, 0);
        check(1_000, 0, 65_536, 1_000); // a bound below the mark
        check(1_000, 1, 65_536, 0);
        check(32_768, 0, 0, 0);
    }
}
