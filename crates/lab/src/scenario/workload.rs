//! The keys of `[workload]`, one set for each kind.

use core::time::Duration;

use base::{Bytes, Rate};

use super::path::bytes_between;
use super::read::Reader;
use crate::workload::{
    Amount, Completion, Direction, Quotes, Records, SizeRange, Workload, WriteMethod,
};

/// Sockets of one process, with room for others (`ulimit -n`).
const FLOWS_MAX: u64 = 10_000;
/// Pieces of a request; more are a stream.
const WRITES_MAX: u64 = 1_000;
/// Writes that a program has outstanding at once; a host refuses more than 1024.
const OUTSTANDING_MAX: u64 = 1000;
/// Records or requests of one write.
const JOINED_MAX: u64 = 100_000;
/// Largest element of `workload.pieces`, each of which is written at once.
const PIECE_MAX: u64 = 1 << 20;
/// Largest write, request, record or block.
const SIZE_MAX: u64 = 1 << 30;
/// Longer than any measurement; it also keeps sums of times small.
const TIME_MAX: Duration = Duration::from_secs(24 * 3600);
/// Default size of writes. iperf3 writes 128 KiB; half of that costs no measurable throughput and
/// fits the send buffer of a new connection.
const WRITE_SIZE_DEFAULT: u64 = 64 << 10;

#[derive(Clone, Copy)]
enum Kind {
    Bulk,
    RequestResponse,
    ConnectRequestClose,
    WriteWriteRead,
    Records,
    Quotes,
    Bursts,
    SlowReader,
    Paced,
}

const KINDS: &[(&str, Kind)] = &[
    ("bulk", Kind::Bulk),
    ("request-response", Kind::RequestResponse),
    ("connect-request-close", Kind::ConnectRequestClose),
    ("write-write-read", Kind::WriteWriteRead),
    ("records", Kind::Records),
    ("quotes", Kind::Quotes),
    ("bursts", Kind::Bursts),
    ("slow-reader", Kind::SlowReader),
    ("paced", Kind::Paced),
];

const DIRECTIONS: &[(&str, Direction)] = &[
    ("up", Direction::Up),
    ("down", Direction::Down),
    ("both", Direction::Both),
];

const METHODS: &[(&str, WriteMethod)] = &[
    ("write", WriteMethod::Write),
    ("writev", WriteMethod::Writev),
    ("msg-more", WriteMethod::MsgMore),
    ("cork", WriteMethod::Cork),
    ("cork-forever", WriteMethod::CorkForever),
    ("sendfile", WriteMethod::Sendfile),
    ("cork-sendfile", WriteMethod::CorkSendfile),
];

const COMPLETIONS: &[(&str, Completion)] = &[
    ("written", Completion::Written),
    ("acknowledged", Completion::Acknowledged),
];

pub(super) fn read(reader: &mut Reader<'_>) -> Workload {
    reader.require("workload.kind", "bulk");
    let Some(kind) = reader.choice("workload.kind", KINDS) else {
        // Which keys it may have is unknown, so none is wrong.
        reader.take_table("workload");
        return bulk(reader, Amount::Operations(0));
    };
    let amount = read_amount(reader, kind);
    match kind {
        Kind::Bulk => bulk(reader, amount),
        Kind::RequestResponse => Workload::RequestResponse {
            request: size(reader, "request", None),
            response: size(reader, "response", None),
            flows: flows(reader),
            amount,
        },
        Kind::ConnectRequestClose => Workload::ConnectRequestClose {
            request: size(reader, "request", None),
            response: size(reader, "response", None),
            amount,
        },
        Kind::WriteWriteRead => write_write_read(reader, amount),
        Kind::Records => records(reader, amount),
        Kind::Quotes => quotes(reader, amount),
        Kind::Bursts => Workload::Bursts {
            burst: size(reader, "burst", None),
            idle: time(reader, "idle", "500ms"),
            reconnect: reader.flag("workload.reconnect"),
            amount,
        },
        Kind::SlowReader => Workload::SlowReader {
            read_size: size(reader, "read_size", None),
            every: time(reader, "every", "10ms"),
            amount,
        },
        Kind::Paced => paced(reader, amount),
    }
}

fn bulk(reader: &mut Reader<'_>, amount: Amount) -> Workload {
    Workload::Bulk {
        direction: reader
            .choice("workload.direction", DIRECTIONS)
            .unwrap_or(Direction::Up),
        flows: flows(reader),
        write_size: size(reader, "write_size", Some(WRITE_SIZE_DEFAULT)),
        unacked: reader.parsed("workload.unacked", |text| bytes_between(text, 1, SIZE_MAX)),
        amount,
    }
}

fn write_write_read(reader: &mut Reader<'_>, amount: Amount) -> Workload {
    let differ = reader.has("workload.pieces");
    if differ {
        for key in ["workload.writes", "workload.write_size"] {
            if reader.has(key) {
                reader.complain_about(key, "pieces is given too; write one of them");
            }
        }
    }
    let pieces = reader.parsed("workload.pieces", |text| {
        let sizes = text.split_ascii_whitespace();
        let pieces: Vec<Bytes> = sizes
            .map(|size| bytes_between(size, 1, PIECE_MAX))
            .collect::<Result<_, _>>()?;
        if (1..=WRITES_MAX as usize).contains(&pieces.len()) {
            Ok(pieces)
        } else {
            Err(format!("1 to {WRITES_MAX} sizes, such as \"6B 24B\""))
        }
    });
    let uncork_after = reader.parsed("workload.uncork_after", time_above_zero);
    Workload::WriteWriteRead {
        writes: if differ { 1 } else { writes(reader) },
        write_size: size(reader, "write_size", differ.then_some(1)),
        pieces: pieces.unwrap_or_default(),
        reply: size(reader, "reply", None),
        method: reader
            .choice("workload.method", METHODS)
            .unwrap_or(WriteMethod::Write),
        uncork_after: uncork_after.unwrap_or_default(),
        amount,
    }
}

fn records(reader: &mut Reader<'_>, amount: Amount) -> Workload {
    let per_second = reader.has("workload.per_second").then(|| {
        let per_second = reader.count("workload.per_second", 1, 1_000_000, None);
        u32::try_from(per_second).unwrap_or(1)
    });
    reader.require("workload.record", "20B..100B");
    let record = reader.parsed("workload.record", size_range);
    let completion = reader.choice("workload.completion", COMPLETIONS);
    let read_size = reader.has("workload.read_size");
    let records = Records {
        joined: joined(reader),
        header: reader
            .parsed("workload.header", |text| bytes_between(text, 0, SIZE_MAX))
            .unwrap_or_default(),
        per_second,
        completion: completion.unwrap_or(Completion::Written),
        non_blocking: reader.flag("workload.non_blocking"),
        outstanding: u32::try_from(reader.count(
            "workload.outstanding",
            1,
            OUTSTANDING_MAX,
            Some(1),
        ))
        .unwrap_or(1),
        read_size: read_size.then(|| size(reader, "read_size", None)),
        read_pause: reader
            .parsed("workload.read_pause", time_above_zero)
            .unwrap_or_default(),
        record: record.unwrap_or(SizeRange::exactly(Bytes(1))),
        ..Records::new(Bytes(1), amount)
    };
    if records.write_bytes_max() > SIZE_MAX {
        let max = Bytes(SIZE_MAX);
        reader.complain_about("workload.joined", format!("one write is more than {max}"));
    }
    Workload::Records(records)
}

fn quotes(reader: &mut Reader<'_>, amount: Amount) -> Workload {
    let quotes = Quotes {
        writes: writes(reader),
        write_size: size(reader, "write_size", None),
        reply: size(reader, "reply", None),
        delayed_acks: reader.flag("workload.delayed_acks"),
        joined: joined(reader),
        one_connection: reader.flag("workload.one_connection"),
        amount,
    };
    if quotes.pieces().1.max(quotes.answer_bytes()) > SIZE_MAX {
        let max = Bytes(SIZE_MAX);
        reader.complain_about("workload.joined", format!("one write is more than {max}"));
    }
    Workload::Quotes(quotes)
}

/// Messages that are handed over with one write.
fn joined(reader: &mut Reader<'_>) -> u32 {
    u32::try_from(reader.count("workload.joined", 1, JOINED_MAX, Some(1))).unwrap_or(1)
}

/// `100B`, or `20B..100B`.
fn size_range(text: &str) -> Result<SizeRange, String> {
    let size = |text: &str| bytes_between(text.trim(), 1, SIZE_MAX);
    let Some((min, max)) = text.split_once("..") else {
        return size(text).map(SizeRange::exactly);
    };
    let (min, max) = (size(min)?, size(max)?);
    if min <= max {
        Ok(SizeRange { min, max })
    } else {
        Err(format!(
            "`{text}` ends below its beginning; write `{max}..{min}`"
        ))
    }
}

fn paced(reader: &mut Reader<'_>, amount: Amount) -> Workload {
    reader.require("workload.rate", "5mbit");
    Workload::Paced {
        rate: reader
            .value("workload.rate")
            .unwrap_or(Rate::from_bits_per_second(1)),
        write_size: size(reader, "write_size", Some(WRITE_SIZE_DEFAULT)),
        amount,
    }
}

/// Exactly one of `duration`, `bytes` and `operations`.
fn read_amount(reader: &mut Reader<'_>, kind: Kind) -> Amount {
    let given: Vec<&str> = ["workload.duration", "workload.bytes", "workload.operations"]
        .into_iter()
        .filter(|key| reader.has(key))
        .collect();
    let stream = matches!(kind, Kind::Bulk | Kind::SlowReader | Kind::Paced);
    if given.is_empty() {
        reader.require("workload.duration", "5s");
    } else if given.len() > 1 {
        reader.complain_about(
            given[1],
            format!("{} is given too; write one of them", given[0]),
        );
    } else if given[0] == "workload.operations" && stream {
        reader.complain_about(
            given[0],
            "this kind has no operations; write `duration` or `bytes`",
        );
    }
    let duration = reader
        .parsed("workload.duration", time_above_zero)
        .map(Amount::Time);
    let bytes = reader.parsed("workload.bytes", |text| bytes_between(text, 1, 1 << 50));
    let operations = reader
        .has("workload.operations")
        .then(|| Amount::Operations(reader.count("workload.operations", 1, 1_000_000_000, None)));
    duration
        .or(bytes.map(Amount::Bytes))
        .or(operations)
        .unwrap_or(Amount::Operations(0))
}

fn flows(reader: &mut Reader<'_>) -> u32 {
    u32::try_from(reader.count("workload.flows", 1, FLOWS_MAX, Some(1))).unwrap_or(1)
}

fn writes(reader: &mut Reader<'_>) -> u32 {
    u32::try_from(reader.count("workload.writes", 1, WRITES_MAX, Some(2))).unwrap_or(1)
}

/// A size; without a default it must be there.
fn size(reader: &mut Reader<'_>, name: &str, default: Option<u64>) -> Bytes {
    let key = format!("workload.{name}");
    if default.is_none() {
        reader.require(&key, "100B");
    }
    let read = reader.parsed(&key, |text| bytes_between(text, 1, SIZE_MAX));
    read.unwrap_or(Bytes(default.unwrap_or(1)))
}

fn time(reader: &mut Reader<'_>, name: &str, example: &str) -> Duration {
    let key = format!("workload.{name}");
    reader.require(&key, example);
    reader.parsed(&key, time_above_zero).unwrap_or_default()
}

fn time_above_zero(text: &str) -> Result<Duration, String> {
    let time = base::parse_duration(text).map_err(|error| error.to_string())?;
    if time.is_zero() || time > TIME_MAX {
        return Err(format!(
            "`{text}` is out of range; the range is above 0 to 24h"
        ));
    }
    Ok(time)
}
