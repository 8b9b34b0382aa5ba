//! Infers the workload from the connections of programs.

use std::time::Duration;

use base::{Bytes, Rate};
use lab::{Amount, Direction, End, Quotes, Records, Workload, WriteMethod};

use super::NoPrediction;
use super::observables::{Observables, Pair, TRANSPORT_SHARE, UNREAD_SHARE};

/// Until it is stopped.
pub(super) const ENDLESS: Amount = Amount::Time(Duration::from_secs(3600));
/// A sender that had something to send or unacknowledged for this much of the time is as fast as
/// its connection.
const BUSY_SHARE: f64 = 0.9;
/// A pause between an answer and the next request that is longer than this share of the time from
/// request to request is one.
const PAUSE_SHARE: f64 = 0.15;
/// Writes of programs that move bulk.
const WRITE_BYTES: u64 = 65_536;
/// Segments that carry less than this share of what they may are small writes.
const SMALL_SHARE: f64 = 0.7;
/// How often a program that is slow to read reads, where its reads cannot be seen.
const READ_EVERY: Duration = Duration::from_millis(10);
/// Blocks above this size that are answered by next to nothing are bursts.
const BURST_BYTES_MIN: f64 = 10_000.0;
/// Above this, a response waits for a timer: the shortest is the delayed ACK of 40 ms.
const STALLED: f64 = 0.035;

/// The traffic that `seen` shows.
pub(super) fn workload(seen: &Observables, main: &Pair<'_>) -> Result<Workload, NoPrediction> {
    if seen.main().bps < 1.0 {
        return Err(NoPrediction::Silent);
    }
    if seen.short_connections > 1 && seen.short_connections > seen.connections {
        return short_connections(seen);
    }
    if is_two_one_way(seen, main) {
        return Ok(quotes(seen));
    }
    if seen.is_one_way() {
        return Ok(one_way_workload(seen));
    }
    let operations = operations_per_s(seen);
    if operations <= 0.0 {
        return Err(NoPrediction::Traffic);
    }
    Ok(exchanges(seen, main, operations))
}

fn one_way_workload(seen: &Observables) -> Workload {
    let direction = match seen.sender() {
        End::Client => Direction::Up,
        End::Server => Direction::Down,
    };
    let way = seen.main();
    let segment = way.bps / 8.0 / way.segments_per_s.max(1e-9);
    let is_small = segment < SMALL_SHARE * seen.mss_bytes;
    let is_idle = seen
        .transport_share
        .is_some_and(|share| share < TRANSPORT_SHARE);
    let is_busy = !is_idle && seen.busy_share.is_none_or(|share| share >= BUSY_SHARE);
    let shut = seen.window_shut_share.unwrap_or(0.0);
    if is_busy && seen.unread_share.is_some_and(|share| share > UNREAD_SHARE) && shut > 0.3 {
        let read_size = Bytes((way.bps / 8.0 * READ_EVERY.as_secs_f64()).round() as u64);
        return Workload::SlowReader {
            read_size,
            every: READ_EVERY,
            amount: ENDLESS,
        };
    }
    if is_busy {
        return Workload::Bulk {
            direction,
            flows: flows(seen),
            write_size: Bytes(if is_small {
                segment.round() as u64
            } else {
                WRITE_BYTES
            }),
            unacked: None,
            amount: ENDLESS,
        };
    }
    if is_small {
        return Workload::Records(Records {
            per_second: Some(way.segments_per_s.round().max(1.0) as u32),
            ..Records::new(Bytes(segment.round().max(1.0) as u64), ENDLESS)
        });
    }
    Workload::Paced {
        rate: Rate::from_bits_per_second(seen.goodput_bps().round() as u64),
        write_size: Bytes((way.bps / 8.0 * 0.004).clamp(seen.mss_bytes, 65_536.0) as u64),
        amount: ENDLESS,
    }
}

fn flows(seen: &Observables) -> u32 {
    u32::try_from(seen.connections.max(1)).unwrap_or(1)
}

/// Operations per second: told by the program, or as many as the rarer of requests and answers.
fn operations_per_s(seen: &Observables) -> f64 {
    let told = seen.measure.operations_per_s.filter(|count| *count > 0.0);
    let segments = seen.up.segments_per_s.min(seen.down.segments_per_s);
    told.unwrap_or(segments)
}

fn bytes(bps: f64, per_s: f64) -> Bytes {
    Bytes((bps / 8.0 / per_s).round().max(1.0) as u64)
}

/// One request, one answer, at a time.
fn exchanges(seen: &Observables, main: &Pair<'_>, operations: f64) -> Workload {
    let request = bytes(seen.up.bps, operations);
    let response = bytes(seen.down.bps, operations);
    let period = f64::from(flows(seen)) / operations;
    // If the program did not say, the time in which the sender had nothing in flight is the pause.
    let spent = seen.response().or_else(|| Some(period * seen.busy_share?));
    let idle = period - spent.unwrap_or(period);
    if idle > PAUSE_SHARE * period && request.0 as f64 > BURST_BYTES_MIN {
        return Workload::Bursts {
            burst: request,
            idle: Duration::from_secs_f64(idle),
            reconnect: false,
            amount: ENDLESS,
        };
    }
    let corked = main.here.samples.iter().any(|s| s.cork == Some(true));
    let again = seen.lost_share.min(0.5);
    let pieces = (seen.up.segments_per_s * (1.0 - again) / operations).round() as u32;
    let is_small = (request.0 as f64) < SMALL_SHARE * seen.mss_bytes;
    if is_small && seen.here == End::Client && (corked || pieces > 1) {
        let writes = pieces.max(1);
        let method = if corked {
            WriteMethod::CorkForever
        } else {
            WriteMethod::Write
        };
        return Workload::WriteWriteRead {
            writes,
            write_size: Bytes((request.0 / u64::from(writes)).max(1)),
            pieces: Vec::new(),
            reply: response,
            method,
            uncork_after: Duration::ZERO,
            amount: ENDLESS,
        };
    }
    Workload::RequestResponse {
        request,
        response,
        flows: flows(seen),
        amount: ENDLESS,
    }
}

/// Payload of the operations that are in flight at once, the way that has more, in bytes; `None`
/// where a program does not wait for one before it begins the next.
pub(super) fn bytes_at_once(workload: &Workload) -> Option<f64> {
    let bytes = match workload {
        Workload::RequestResponse {
            request,
            response,
            flows,
            amount: _,
        } => request.0.max(response.0) * u64::from(*flows),
        Workload::WriteWriteRead {
            writes,
            write_size,
            pieces,
            reply,
            ..
        } => {
            let written = match pieces.as_slice() {
                [] => write_size.0 * u64::from(*writes),
                pieces => pieces.iter().map(|piece| piece.0).sum(),
            };
            written.max(reply.0)
        }
        _ => return None,
    };
    Some(bytes as f64)
}

/// A connection for each exchange.
fn short_connections(seen: &Observables) -> Result<Workload, NoPrediction> {
    // Of long transfers the look has a part of the first one and of the last one.
    let parts = seen.long_transfer().unwrap_or(0.0);
    let connections = seen.short_connections as f64 / (seen.span.as_secs_f64() + parts);
    let per_s = seen.measure.operations_per_s.filter(|count| *count > 0.0);
    let per_s = per_s.unwrap_or(connections);
    let request = bytes(seen.up.bps, per_s);
    let response = bytes(seen.down.bps, per_s);
    let Some(spent) = seen.response().or_else(|| seen.long_transfer()) else {
        return Err(NoPrediction::Traffic);
    };
    let idle = 1.0 / per_s - spent;
    if request.0 as f64 > BURST_BYTES_MIN {
        return Ok(Workload::Bursts {
            burst: request,
            idle: Duration::from_secs_f64(idle.max(0.0)),
            reconnect: true,
            amount: ENDLESS,
        });
    }
    Ok(Workload::ConnectRequestClose {
        request,
        response,
        amount: ENDLESS,
    })
}

/// Whether requests go on one connection and answers on another.
fn is_two_one_way(seen: &Observables, main: &Pair<'_>) -> bool {
    let ends = main.here.samples.first().zip(main.here.samples.last());
    let moved = ends.map(|(first, last)| {
        let sent = last.bytes_acked.unwrap_or(0) - first.bytes_acked.unwrap_or(0);
        let received = last.bytes_received.unwrap_or(0) - first.bytes_received.unwrap_or(0);
        (sent, received)
    });
    let main_is_one_way = moved.is_some_and(|(sent, received)| sent.min(received) == 0);
    seen.connections == 2 && main_is_one_way && !seen.is_one_way()
}

fn quotes(seen: &Observables) -> Workload {
    let operations = operations_per_s(seen).max(0.1);
    let writes = (seen.up.segments_per_s / operations).round().max(1.0) as u32;
    let request = bytes(seen.up.bps, operations);
    Workload::Quotes(Quotes {
        writes,
        delayed_acks: seen.response().is_some_and(|time| time > STALLED),
        ..Quotes::new(
            Bytes((request.0 / u64::from(writes)).max(1)),
            bytes(seen.down.bps, operations),
            ENDLESS,
        )
    })
}
