//! The keys of `[path]`.
//!
//! A key of both directions (`path.rate`) is overridden for one by `path.forward.rate` (client to
//! server) or `path.reverse.rate`.

use core::time::Duration;

use base::{Bytes, Fraction, QueueLimit, Rate, parse_duration};
use link::{LinkSpec, Loss, Reorder, TooBig};

use super::read::Reader;
use crate::trial::{ETHERNET_HEADER_BYTES, ETHERNET_MTU, PathSpec};

/// Linux's default `txqueuelen`; a queue of this size never drops in a burst that a default host
/// sends, and holds 1.2 s at 10 Mbit/s.
const QUEUE_DEFAULT: QueueLimit = QueueLimit::Packets(1000);
/// Smallest MTU of IPv4 (RFC 791) and of IPv6 (RFC 8200 section 5).
const MTU_MIN: (u64, u64) = (68, 1280);
/// The length field of IPv4.
const MTU_MAX: u64 = 65_535;

#[derive(Clone, Copy)]
enum Kind {
    Emulated,
    Loopback,
    Veth,
}

pub(super) fn read(reader: &mut Reader<'_>) -> PathSpec {
    reader.require("path.kind", "emulated");
    let kinds = [
        ("emulated", Kind::Emulated),
        ("loopback", Kind::Loopback),
        ("veth", Kind::Veth),
    ];
    match reader.choice("path.kind", &kinds).unwrap_or(Kind::Emulated) {
        Kind::Loopback => PathSpec::Loopback,
        Kind::Veth => PathSpec::Veth {
            mtu: mtu(reader, MTU_MIN.0),
        },
        Kind::Emulated => emulated(reader),
    }
}

fn emulated(reader: &mut Reader<'_>) -> PathSpec {
    let ipv6 = reader.flag("path.ipv6");
    let mtu = mtu(reader, if ipv6 { MTU_MIN.1 } else { MTU_MIN.0 });
    let (forward, reverse) = delays(reader);
    let path = Shared {
        rtt: forward + reverse,
        mtu,
    };
    PathSpec::Emulated {
        mtu,
        forward: read_link(reader, "forward", forward, path),
        reverse: read_link(reader, "reverse", reverse, path),
        ipv6,
    }
}

fn mtu(reader: &mut Reader<'_>, min: u64) -> Bytes {
    let range = |text: &str| bytes_between(text, min, MTU_MAX);
    reader
        .parsed("path.mtu", range)
        .unwrap_or(Bytes(ETHERNET_MTU))
}

/// A size in a range.
pub(super) fn bytes_between(text: &str, min: u64, max: u64) -> Result<Bytes, String> {
    let bytes: Bytes = text
        .parse()
        .map_err(|error: base::UnitError| error.to_string())?;
    if (min..=max).contains(&bytes.0) {
        Ok(bytes)
    } else {
        Err(format!(
            "{bytes} is out of range; the range is {} to {}",
            Bytes(min),
            Bytes(max)
        ))
    }
}

/// Delays of both directions.
fn delays(reader: &mut Reader<'_>) -> (Duration, Duration) {
    let rtt = reader.time("path.rtt");
    let delay = reader.time("path.delay");
    if rtt.is_some() && delay.is_some() {
        reader.complain_about("path.delay", "path.rtt is given too; write one of them");
    }
    let of = |reader: &mut Reader<'_>, direction: &str, half: Option<Duration>| {
        let own = reader.time(&format!("path.{direction}.delay"));
        own.or(delay).or(half).unwrap_or(Duration::ZERO)
    };
    let half = rtt.map(|rtt| rtt / 2);
    let forward = of(reader, "forward", half);
    // Half a nanosecond must not get lost.
    let rest = rtt.map(|rtt| rtt - rtt / 2);
    (forward, of(reader, "reverse", rest))
}

/// Properties of the path that the links of both directions share.
#[derive(Clone, Copy)]
struct Shared {
    rtt: Duration,
    mtu: Bytes,
}

fn read_link(reader: &mut Reader<'_>, direction: &str, delay: Duration, path: Shared) -> LinkSpec {
    let rate_key = pick(reader, direction, "rate");
    let rate: Option<Rate> = reader.value(&rate_key);
    let trace_key = pick(reader, direction, "trace");
    let rate_trace = reader.parsed(&trace_key, parse_trace).unwrap_or_default();
    let fastest = rate_trace.iter().map(|(_, rate)| *rate).max().or(rate);
    let queue_key = pick(reader, direction, "queue");
    let queue = reader
        .parsed(&queue_key, |text| parse_queue(text, fastest, path))
        .unwrap_or(QUEUE_DEFAULT);
    let jitter_key = pick(reader, direction, "jitter");
    let duplicate_key = pick(reader, direction, "duplicate");
    let link_mtu_key = pick(reader, direction, "link_mtu");
    let too_big_key = pick(reader, direction, "too_big");
    let overhead_key = pick(reader, direction, "overhead");
    let overhead = reader
        .value::<Bytes>(&overhead_key)
        .map_or(ETHERNET_HEADER_BYTES.into(), |b| b.0);
    let spec = LinkSpec {
        rate,
        rate_trace,
        delay,
        jitter: reader.time(&jitter_key).unwrap_or(Duration::ZERO),
        loss: read_loss(reader, direction),
        reorder: read_reorder(reader, direction),
        duplicate: reader.value(&duplicate_key).unwrap_or(Fraction::ZERO),
        queue,
        mtu: reader.value(&link_mtu_key),
        too_big: reader
            .choice(
                &too_big_key,
                &[("vanish", TooBig::Vanish), ("report", TooBig::Report)],
            )
            .unwrap_or(TooBig::Report),
        overhead_bytes: u32::try_from(overhead).unwrap_or(u32::MAX),
    };
    if let Err(error) = spec.check() {
        reader.complain_about("path", error);
    }
    spec
}

/// The key of one direction where there is one, otherwise that of both.
fn pick(reader: &mut Reader<'_>, direction: &str, name: &str) -> String {
    let (own, both) = (format!("path.{direction}.{name}"), format!("path.{name}"));
    reader.has(&both);
    if !reader.has(&own) {
        return both;
    }
    // What it overrides has a meaning too.
    reader.take_table(&both);
    own
}

fn read_loss(reader: &mut Reader<'_>, direction: &str) -> Loss {
    let key = pick(reader, direction, "loss");
    let random: Option<Fraction> = reader.value(&key);
    let mut part = |name: &str| reader.value::<Fraction>(&format!("{key}.{name}"));
    let parts = [
        part("good_to_bad"),
        part("bad_to_good"),
        part("loss_good"),
        part("loss_bad"),
    ];
    match (random, parts) {
        (Some(share), _) if share == Fraction::ZERO => Loss::Never,
        (Some(share), _) => Loss::Random(share),
        (None, [None, None, None, None]) => Loss::Never,
        (None, [good_to_bad, bad_to_good, loss_good, loss_bad]) => {
            reader.require(&format!("{key}.good_to_bad"), "0.5%");
            reader.require(&format!("{key}.bad_to_good"), "25%");
            Loss::GilbertElliott {
                good_to_bad: good_to_bad.unwrap_or_default(),
                bad_to_good: bad_to_good.unwrap_or_default(),
                loss_good: loss_good.unwrap_or_default(),
                // Gilbert's model: everything is lost in the bad state.
                loss_bad: loss_bad.unwrap_or(Fraction::ONE),
            }
        }
    }
}

fn read_reorder(reader: &mut Reader<'_>, direction: &str) -> Option<Reorder> {
    let key = pick(reader, direction, "reorder");
    if !reader.has(&key) {
        return None;
    }
    let (share, hold) = (format!("{key}.share"), format!("{key}.hold"));
    reader.require(&share, "2%");
    reader.require(&hold, "1ms");
    // Where one is missing the other must not be reported a second time as nonsense.
    Some(Reorder {
        share: reader.value(&share)?,
        hold: reader.time(&hold)?,
    })
}

/// `1000p`, `64KiB` or `2bdp`.
fn parse_queue(text: &str, rate: Option<Rate>, path: Shared) -> Result<QueueLimit, String> {
    let Some(multiple) = text.strip_suffix("bdp") else {
        return text
            .parse()
            .map_err(|error: base::UnitError| error.to_string());
    };
    // In thousandths: `2.5` is read as the 2500 bytes of `2.5kB`.
    let thousandths = format!("{multiple}kB")
        .parse::<Bytes>()
        .map_err(|_| format!("`{text}` is not a queue; write for example `2bdp`"))?;
    let Some(rate) = rate.filter(|_| !path.rtt.is_zero()) else {
        return Err(format!(
            "`{text}` needs a rate and a round-trip time; write for example `1000p`"
        ));
    };
    let bytes = u128::from(rate.bdp_bytes(path.rtt)) * u128::from(thousandths.0) / 1000;
    let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
    // A queue that holds no packet would pass no burst of two.
    Ok(QueueLimit::Bytes(Bytes(bytes.max(path.mtu.0))))
}

/// `1s 50mbit, 500ms 5mbit`: for how long, and which rate.
fn parse_trace(text: &str) -> Result<Vec<(Duration, Rate)>, String> {
    const STEPS_MAX: usize = 100_000;
    if text.bytes().filter(|byte| *byte == b',').count() >= STEPS_MAX {
        return Err(format!("a trace has at most {STEPS_MAX} steps"));
    }
    text.split(',')
        .map(|step| {
            let (time, rate) = step.trim().split_once(' ').ok_or_else(|| {
                format!(
                    "`{step}` is not a step of a trace; write for example `1s 50mbit, 500ms 5mbit`"
                )
            })?;
            let show = |error: base::UnitError| error.to_string();
            Ok((
                parse_duration(time).map_err(show)?,
                rate.parse().map_err(show)?,
            ))
        })
        .collect()
}
