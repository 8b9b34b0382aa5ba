//! The workloads of `lab` on real sockets: the client's side and the server's side of each.
//!
//! Blocking threads, one per flow. Payload is counted where it is read; the rate of a workload is
//! the one at its receiving end. Both ends cut time by their own clock, from their first connection
//! on: warm-up, measured time, end.

mod bulk;
mod bursts;
mod client;
mod flow;
mod measure;
mod quotes;
mod records;
mod request;
mod sent;
mod server;
mod session;
mod socket;
#[cfg(test)]
mod tests;

use std::net::TcpStream;
use std::time::Duration;

use base::{Bytes, Instant};
use lab::{Amount, Direction, Quotes, Records, Workload};
use serde::{Deserialize, Serialize};

pub use client::{Remote, run_client};
pub use measure::{Ended, Interval, Phase, ResponseCounts, Responses, Sending, Summary, Totals};
pub use server::{Gate, OPENING_BYTES, Source, Token, run_server};
pub use session::Session;
pub use socket::SocketSpec;
pub(crate) use socket::{read_exact_by, settings};

use session::Schedule;

/// Connections that a workload may open at once.
pub const FLOWS_MAX: u32 = 128;
/// Pieces that a request may have; one `writev` takes no more.
const PIECES_MAX: u32 = 1024;
/// Records or requests of one write.
const JOINED_MAX: u32 = 100_000;
/// Longest message or block.
const MESSAGE_BYTES_MAX: u64 = 1 << 30;
/// Longest run.
pub(crate) const TIME_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// Congestion control of a socket of this process after `wanted` was requested: without
/// `CAP_NET_ADMIN`, only those listed as allowed on the host can be set.
#[cfg(test)]
pub(crate) fn settable_congestion(wanted: &str) -> String {
    let read = |name: &str| {
        std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).expect("the sysctl is there")
    };
    let is_allowed = read("tcp_allowed_congestion_control")
        .split_whitespace()
        .any(|n| n == wanted);
    let may_choose = rustix::thread::capabilities(None).is_ok_and(|sets| {
        let needed = rustix::thread::CapabilitySet::NET_ADMIN;
        sets.effective.contains(needed)
    });
    if is_allowed || may_choose {
        wanted.into()
    } else {
        read("tcp_congestion_control").trim().into()
    }
}

/// Parameters of a run that one end needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunSpec {
    /// The traffic.
    pub workload: Workload,
    /// This end's sockets.
    #[serde(default)]
    pub sockets: SocketSpec,
    /// Time that does not count.
    #[serde(with = "lab::text::duration")]
    pub warmup: Duration,
    /// Time from report to report.
    #[serde(with = "lab::text::duration")]
    pub interval: Duration,
}

impl RunSpec {
    /// Checks sizes, counts and settings.
    ///
    /// # Errors
    /// A sentence that says what is out of range and what the range is.
    pub fn check(&self) -> Result<(), String> {
        let Self {
            workload,
            sockets,
            warmup,
            interval,
        } = self;
        sockets.check()?;
        let time = |name: &str, time: Duration, min: Duration| {
            if time < min || time > TIME_MAX {
                let (min, max) = (base::format_duration(min), base::format_duration(TIME_MAX));
                Err(format!("{name}: the range is {min} to {max}"))
            } else {
                Ok(())
            }
        };
        time("warm-up", *warmup, Duration::ZERO)?;
        time("interval", *interval, Duration::from_millis(10))?;
        match workload.amount() {
            Amount::Time(length) => time("time", length, Duration::from_millis(1))?,
            Amount::Bytes(Bytes(0)) | Amount::Operations(0) => {
                return Err("an amount of nothing; ask for at least one byte or operation".into());
            }
            Amount::Bytes(_) | Amount::Operations(_) => {}
        }
        check_sizes(workload)
    }

    /// How this end's time is cut.
    fn schedule(&self, stop_at_end: bool) -> Schedule {
        let time = match self.workload.amount() {
            Amount::Time(time) => Some(time),
            Amount::Bytes(_) | Amount::Operations(_) => None,
        };
        Schedule {
            warmup: self.warmup,
            time,
            interval: self.interval,
            stop_at_end,
        }
    }
}

/// Whether a workload opens a connection per operation.
#[must_use]
pub const fn reconnects(workload: &Workload) -> bool {
    matches!(
        workload,
        Workload::ConnectRequestClose { .. }
            | Workload::Bursts {
                reconnect: true,
                ..
            }
    )
}

/// Connections that a workload opens at its start.
const fn connections(workload: &Workload) -> u32 {
    match workload {
        Workload::Bulk {
            direction: Direction::Both,
            flows,
            ..
        } => 2 * *flows,
        Workload::Bulk { flows, .. } | Workload::RequestResponse { flows, .. } => *flows,
        Workload::Quotes(quotes) => quotes.connections(),
        _ => 1,
    }
}

/// Most connections that a workload has open at once: one may close while the next one opens.
pub(crate) const fn connections_max(workload: &Workload) -> u64 {
    connections(workload) as u64 + 1
}

/// How the connection of the next operation is opened.
struct Reconnect<'d> {
    /// Bytes in front of the request, in the same write.
    opening: Vec<u8>,
    /// When the first connection was begun.
    connect_began: Instant,
    connect: &'d (dyn Fn() -> std::io::Result<TcpStream> + Sync),
}

/// The first byte of a connection on which the server is to send, in a bulk workload both ways.
/// Payload never begins with it.
const SERVER_SENDS: u8 = 1;

fn size(name: &str, bytes: &Bytes, max: u64) -> Result<(), String> {
    if (1..=max).contains(&bytes.0) {
        Ok(())
    } else {
        Err(format!("{name} {bytes}: the range is 1B to {}", Bytes(max)))
    }
}

fn count(name: &str, number: u32, max: u32) -> Result<(), String> {
    if (1..=max).contains(&number) {
        Ok(())
    } else {
        Err(format!("{name} {number}: the range is 1 to {max}"))
    }
}

fn check_records(records: &Records) -> Result<(), String> {
    size("record", &records.record.min, records.record.max.0)?;
    count("joined", records.joined, JOINED_MAX)?;
    if records.outstanding != 1 {
        return Err("outstanding writes need a stack that completes them later (Winsock's)".into());
    }
    if records.read_pause > TIME_MAX {
        return Err("the pause before a read is longer than any run".into());
    }
    let read_size = records.read_size.unwrap_or(Bytes(1));
    size("read size", &read_size, flow::CHUNK_BYTES as u64)?;
    let bytes = Bytes(records.write_bytes_max());
    size("write", &bytes, flow::PIECE_BYTES_MAX)
}

fn check_quotes(quotes: &Quotes) -> Result<(), String> {
    count("writes", quotes.writes, PIECES_MAX)?;
    count("joined", quotes.joined, JOINED_MAX)?;
    let request = Bytes(quotes.pieces().1);
    size("requests of one write", &request, flow::PIECE_BYTES_MAX)?;
    let answer = Bytes(quotes.answer_bytes());
    size("replies of one write", &answer, MESSAGE_BYTES_MAX)
}

fn check_sizes(workload: &Workload) -> Result<(), String> {
    let piece_max = flow::PIECE_BYTES_MAX;
    match workload {
        Workload::Bulk {
            flows,
            write_size,
            unacked,
            ..
        } => {
            count("flows", *flows, FLOWS_MAX)?;
            let unacked = unacked.as_ref();
            unacked.map_or(Ok(()), |bound| size("unacked", bound, MESSAGE_BYTES_MAX))?;
            size("write size", write_size, piece_max)
        }
        Workload::RequestResponse {
            request,
            response,
            flows,
            ..
        } => {
            count("flows", *flows, FLOWS_MAX)?;
            size("request", request, MESSAGE_BYTES_MAX)?;
            size("response", response, MESSAGE_BYTES_MAX)
        }
        Workload::ConnectRequestClose {
            request, response, ..
        } => {
            size("request", request, MESSAGE_BYTES_MAX)?;
            size("response", response, MESSAGE_BYTES_MAX)
        }
        Workload::WriteWriteRead { pieces, reply, .. } if !pieces.is_empty() => {
            let number = u32::try_from(pieces.len()).unwrap_or(u32::MAX);
            count("pieces", number, PIECES_MAX)?;
            for piece in pieces {
                size("piece", piece, piece_max)?;
            }
            size("reply", reply, MESSAGE_BYTES_MAX)
        }
        Workload::WriteWriteRead {
            writes,
            write_size,
            reply,
            ..
        } => {
            count("writes", *writes, PIECES_MAX)?;
            size("write size", write_size, piece_max)?;
            size("reply", reply, MESSAGE_BYTES_MAX)
        }
        Workload::Quotes(quotes) => check_quotes(quotes),
        Workload::Records(records) => check_records(records),
        Workload::Bursts { burst, .. } => size("burst", burst, MESSAGE_BYTES_MAX),
        Workload::SlowReader { read_size, .. } => {
            size("read size", read_size, flow::CHUNK_BYTES as u64)
        }
        Workload::Paced {
            rate, write_size, ..
        } => {
            if rate.bits_per_second() == 0 {
                return Err("a rate of nothing; ask for at least 1bit".into());
            }
            size("write size", write_size, piece_max)
        }
    }
}
