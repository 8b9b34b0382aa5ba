//! The numbers of an outcome about which something can be claimed or was published.

use std::borrow::Cow;

use base::{Bytes, Fraction, Limit, Rate, parse_duration};

use super::read::one_of;
use super::vocabulary::ProbeSpec;
use crate::outcome::{LinkOutcome, Outcome};

/// A number of an [`Outcome`] about which something can be claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Metric {
    /// Payload per second, in bit/s.
    GoodputBps,
    /// Time that was measured, in microseconds: for a workload of an amount what it took.
    DurationUs,
    /// Operations.
    Operations,
    /// Operations per second of the measured time.
    OperationsPerSecond,
    /// Median response time, in microseconds.
    ResponseP50Us,
    /// 90th percentile of the response time, in microseconds.
    ResponseP90Us,
    /// 99th percentile of the response time, in microseconds.
    ResponseP99Us,
    /// Worst response time, in microseconds.
    ResponseMaxUs,
    /// Share of the operations that took [`crate::STALL_US`] or more.
    StalledShare,
    /// Longest time between two arrivals of payload, in microseconds; only where our stack reads.
    StallMaxUs,
    /// Segments with payload that the sender sent.
    DataSegments,
    /// Of these, retransmitted.
    RetransmittedSegments,
    /// Segments with payload per operation.
    SegmentsPerOperation,
    /// Mean of the sender's smoothed round-trip time, in microseconds.
    RttMeanUs,
    /// 99th percentile of the smoothed round-trip time, in microseconds, over the looks at the run.
    RttP99Us,
    /// Wire packets that were lost or dropped from client to server.
    ForwardDroppedSegments,
    /// Wire packets that were lost or dropped from server to client.
    ReverseDroppedSegments,
    /// Most bytes that waited in the queue from client to server.
    ForwardQueueBytesMax,
    /// Most bytes that waited in the queue from server to client.
    ReverseQueueBytesMax,
    /// Share of the time during which this limited the sender.
    LimitShare(Limit),
    /// Figure of a probe, by name.
    Figure(&'static str),
}

/// Unit of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bits per second.
    Bps,
    /// Microseconds.
    Micros,
    /// Bytes.
    Bytes,
    /// A share of 1.
    Share,
    /// Things, or a ratio.
    Number,
}

/// How the share of a limit is named.
const LIMIT: &str = "limit.";

impl Metric {
    /// All that every outcome may have, by the names that scenario files use.
    pub const ALL: &[(&'static str, Self)] = &[
        ("goodput_bps", Self::GoodputBps),
        ("duration_us", Self::DurationUs),
        ("operations", Self::Operations),
        ("operations_per_second", Self::OperationsPerSecond),
        ("response_p50_us", Self::ResponseP50Us),
        ("response_p90_us", Self::ResponseP90Us),
        ("response_p99_us", Self::ResponseP99Us),
        ("response_max_us", Self::ResponseMaxUs),
        ("stalled_share", Self::StalledShare),
        ("stall_max_us", Self::StallMaxUs),
        ("data_segments", Self::DataSegments),
        ("retransmitted_segments", Self::RetransmittedSegments),
        ("segments_per_operation", Self::SegmentsPerOperation),
        ("rtt_mean_us", Self::RttMeanUs),
        ("rtt_p99_us", Self::RttP99Us),
        ("forward_dropped_segments", Self::ForwardDroppedSegments),
        ("reverse_dropped_segments", Self::ReverseDroppedSegments),
        ("forward_queue_bytes_max", Self::ForwardQueueBytesMax),
        ("reverse_queue_bytes_max", Self::ReverseQueueBytesMax),
    ];

    /// The metric that a scenario names: one of [`Metric::ALL`], `limit.nagle` and the like, or a
    /// figure of its probe.
    pub(super) fn named(name: &str, probe: Option<ProbeSpec>) -> Result<Self, String> {
        if let Some(probe) = probe {
            let figures: Vec<(&str, &'static str)> = probe
                .figures
                .iter()
                .map(|figure| (*figure, *figure))
                .collect();
            return one_of(name, &figures).map(Self::Figure);
        }
        match name.strip_prefix(LIMIT) {
            Some(limit) => {
                let limits = Limit::ALL.map(|limit| (limit.name(), limit));
                one_of(limit, &limits).map(Self::LimitShare)
            }
            None => one_of(name, Self::ALL),
        }
    }

    /// The name that scenario files use.
    #[must_use]
    pub fn name(self) -> Cow<'static, str> {
        match self {
            Self::LimitShare(limit) => format!("{LIMIT}{limit}").into(),
            Self::Figure(name) => name.into(),
            _ => Self::ALL
                .iter()
                .find(|(_, metric)| *metric == self)
                .map_or("", |(name, _)| name)
                .into(),
        }
    }

    /// Unit of the metric.
    #[must_use]
    pub fn unit(self) -> Unit {
        let name = self.name();
        match self {
            Self::LimitShare(_) | Self::StalledShare => Unit::Share,
            _ if name.ends_with("_bps") => Unit::Bps,
            _ if name.ends_with("_us") => Unit::Micros,
            _ if name.ends_with("_bytes") || name.ends_with("_bytes_max") => Unit::Bytes,
            _ if name.ends_with("_share") => Unit::Share,
            _ => Unit::Number,
        }
    }

    /// Its value in `outcome`, in its unit; `None` where the workload or the engine has none.
    #[must_use]
    pub fn of(self, outcome: &Outcome) -> Option<f64> {
        let response = outcome.response_us;
        let sender = outcome.sender;
        let link = |link: LinkOutcome| (link.dropped_segments as f64, link.queue_bytes_max as f64);
        let whole = |value: u64| value as f64;
        Some(match self {
            Self::GoodputBps => whole(outcome.goodput_bps),
            Self::DurationUs => outcome.duration_s * 1e6,
            Self::Operations => whole(response?.n),
            Self::OperationsPerSecond => {
                let seconds = (outcome.duration_s > 0.0).then_some(outcome.duration_s)?;
                whole(response?.n) / seconds
            }
            Self::ResponseP50Us => whole(response?.p50),
            Self::ResponseP90Us => whole(response?.p90),
            Self::ResponseP99Us => whole(response?.p99),
            Self::ResponseMaxUs => whole(response?.max),
            Self::StalledShare => {
                let response = response.filter(|response| response.n > 0)?;
                whole(response.stalled) / whole(response.n)
            }
            Self::StallMaxUs => whole(outcome.stall_max_us?),
            Self::DataSegments => whole(sender?.data_segments),
            Self::RetransmittedSegments => whole(sender?.retransmitted_segments),
            Self::SegmentsPerOperation => {
                let response = response.filter(|response| response.n > 0)?;
                whole(sender?.data_segments) / whole(response.n)
            }
            Self::RttMeanUs => whole(sender?.rtt_mean_us?),
            Self::RttP99Us => whole(sender?.rtt_p99_us?),
            Self::ForwardDroppedSegments => link(outcome.forward).0,
            Self::ReverseDroppedSegments => link(outcome.reverse).0,
            Self::ForwardQueueBytesMax => link(outcome.forward).1,
            Self::ReverseQueueBytesMax => link(outcome.reverse).1,
            Self::LimitShare(limit) => {
                let limits = (!outcome.limits.is_empty()).then_some(&outcome.limits)?;
                let share = limits.iter().find(|(known, _)| *known == limit);
                share.map_or(0.0, |(_, share)| *share)
            }
            Self::Figure(name) => *outcome.figures.get(name)?,
        })
    }

    /// Reads a value in this metric's unit: `45mbit`, `40ms`, `64KiB`, `60%`, `12`, `5.66`.
    pub(super) fn parse(self, text: &str) -> Result<f64, String> {
        let show = |error: base::UnitError| error.to_string();
        match self.unit() {
            Unit::Bps => text
                .parse::<Rate>()
                .map(|rate| rate.bits_per_second() as f64)
                .map_err(show),
            Unit::Micros => parse_duration(text)
                .map(|time| time.as_secs_f64() * 1e6)
                .map_err(show),
            Unit::Bytes => text
                .parse::<Bytes>()
                .map(|bytes| bytes.0 as f64)
                .map_err(show),
            Unit::Share => text
                .parse::<Fraction>()
                .map(|share| share.parts() as f64 / 1e9)
                .map_err(show),
            Unit::Number => parse_number(text),
        }
    }
}

/// A number without a unit, not negative.
pub(super) fn parse_number(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number >= 0.0 => Ok(number),
        _ => Err(format!("`{text}` is not a number of 0 or more")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::{ResponseMicros, SenderOutcome};

    #[test]
    fn each_metric_reads_its_unit() {
        let check = |name: &str, text: &str, expected: f64| {
            let metric = Metric::named(name, None).expect("it is known");
            assert_eq!(metric.name(), name);
            assert_eq!(metric.parse(text), Ok(expected));
            assert!(metric.parse("7parsecs").is_err());
        };
        check("goodput_bps", "45mbit", 45e6);
        check("response_p99_us", "1.5ms", 1_500.0);
        check("forward_queue_bytes_max", "64KiB", 65_536.0);
        check("operations", "12", 12.0);
        check("operations_per_second", "5.05", 5.05);
        check("limit.nagle", "60%", 0.6);
        assert!(Metric::named("limit.nagel", None).is_err());
    }

    #[test]
    fn values_come_from_where_they_are_counted() {
        let outcome = Outcome {
            duration_s: 2.0,
            response_us: Some(ResponseMicros {
                n: 10,
                stalled: 5,
                ..ResponseMicros::default()
            }),
            sender: Some(SenderOutcome {
                data_segments: 150,
                retransmitted_segments: 0,
                rtt_mean_us: None,
                rtt_p99_us: Some(40),
            }),
            limits: vec![(Limit::Nagle, 0.9)],
            ..Outcome::default()
        };
        let check = |name: &str, expected: Option<f64>| {
            let metric = Metric::named(name, None).expect("it is known");
            assert_eq!(metric.of(&outcome), expected, "{name}");
        };
        check("duration_us", Some(2e6));
        check("operations_per_second", Some(5.0));
        check("segments_per_operation", Some(15.0));
        check("stalled_share", Some(0.5));
        check("rtt_mean_us", None);
        check("rtt_p99_us", Some(40.0));
        check("limit.nagle", Some(0.9));
        check("limit.cork", Some(0.0));
    }
}
