//! What a scenario claims to come out.

use base::{Bytes, Rate, parse_duration};

use crate::outcome::Outcome;

/// A number of an [`Outcome`] about which something can be claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Payload per second, in bit/s.
    GoodputBps,
    /// Operations.
    Operations,
    /// Median response time, in microseconds.
    ResponseP50Us,
    /// 90th percentile of the response time, in microseconds.
    ResponseP90Us,
    /// 99th percentile of the response time, in microseconds.
    ResponseP99Us,
    /// Worst response time, in microseconds.
    ResponseMaxUs,
    /// Longest time between two arrivals of payload, in microseconds; only in virtual time.
    StallMaxUs,
    /// Wire packets that were lost or dropped from client to server.
    ForwardDroppedSegments,
    /// Wire packets that were lost or dropped from server to client.
    ReverseDroppedSegments,
    /// Most bytes that waited in the queue from client to server.
    ForwardQueueBytesMax,
    /// Most bytes that waited in the queue from server to client.
    ReverseQueueBytesMax,
}

impl Metric {
    /// All, by the names that scenario files use.
    pub const ALL: &[(&'static str, Self)] = &[
        ("goodput_bps", Self::GoodputBps),
        ("operations", Self::Operations),
        ("response_p50_us", Self::ResponseP50Us),
        ("response_p90_us", Self::ResponseP90Us),
        ("response_p99_us", Self::ResponseP99Us),
        ("response_max_us", Self::ResponseMaxUs),
        ("stall_max_us", Self::StallMaxUs),
        ("forward_dropped_segments", Self::ForwardDroppedSegments),
        ("reverse_dropped_segments", Self::ReverseDroppedSegments),
        ("forward_queue_bytes_max", Self::ForwardQueueBytesMax),
        ("reverse_queue_bytes_max", Self::ReverseQueueBytesMax),
    ];

    /// The name that scenario files use.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL
            .iter()
            .find(|(_, metric)| *metric == self)
            .map_or("", |(name, _)| name)
    }

    /// Its value in `outcome`, in the unit of its name; `None` where the workload has none.
    #[must_use]
    pub fn of(self, outcome: &Outcome) -> Option<u64> {
        let response = outcome.response_us;
        match self {
            Self::GoodputBps => Some(outcome.goodput_bps),
            Self::Operations => response.map(|response| response.n),
            Self::ResponseP50Us => response.map(|response| response.p50),
            Self::ResponseP90Us => response.map(|response| response.p90),
            Self::ResponseP99Us => response.map(|response| response.p99),
            Self::ResponseMaxUs => response.map(|response| response.max),
            Self::StallMaxUs => outcome.stall_max_us,
            Self::ForwardDroppedSegments => Some(outcome.forward.dropped_segments),
            Self::ReverseDroppedSegments => Some(outcome.reverse.dropped_segments),
            Self::ForwardQueueBytesMax => Some(outcome.forward.queue_bytes_max),
            Self::ReverseQueueBytesMax => Some(outcome.reverse.queue_bytes_max),
        }
    }

    /// Reads a limit in this metric's unit: `45mbit`, `40ms`, `64KiB`, `12`.
    pub(super) fn parse(self, text: &str) -> Result<u64, String> {
        let show = |error: base::UnitError| error.to_string();
        match self {
            Self::GoodputBps => text
                .parse::<Rate>()
                .map(Rate::bits_per_second)
                .map_err(show),
            Self::ResponseP50Us
            | Self::ResponseP90Us
            | Self::ResponseP99Us
            | Self::ResponseMaxUs
            | Self::StallMaxUs => parse_duration(text)
                .map(|time| u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
                .map_err(show),
            Self::ForwardQueueBytesMax | Self::ReverseQueueBytesMax => {
                text.parse::<Bytes>().map(|bytes| bytes.0).map_err(show)
            }
            Self::Operations | Self::ForwardDroppedSegments | Self::ReverseDroppedSegments => {
                super::read::number(text, 0, u64::MAX)
            }
        }
    }
}

/// A claim: a number lies between two limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expectation {
    /// About what.
    pub metric: Metric,
    /// For which variant; `None` for all.
    pub variant: Option<String>,
    /// Smallest value that is right, in the unit of the metric.
    pub min: Option<u64>,
    /// Largest value that is right, in the unit of the metric.
    pub max: Option<u64>,
    /// Why it is claimed.
    pub reason: String,
}

impl Expectation {
    /// Whether it is about trials of `variant`.
    #[must_use]
    pub fn applies_to(&self, variant: Option<&str>) -> bool {
        self.variant.is_none() || self.variant.as_deref() == variant
    }

    /// Whether the outcome of a trial of `variant` is as claimed. Claims about other variants hold.
    ///
    /// # Errors
    /// One sentence with what was claimed, what came out, and the reason.
    pub fn check(&self, variant: Option<&str>, outcome: &Outcome) -> Result<(), String> {
        if !self.applies_to(variant) {
            return Ok(());
        }
        self.check_value(self.metric.of(outcome))
    }

    /// Whether a value of the metric, such as the median of several runs, is as claimed; `None`
    /// where it was not measured.
    ///
    /// # Errors
    /// One sentence with what was claimed, what came out, and the reason.
    pub fn check_value(&self, value: Option<u64>) -> Result<(), String> {
        let name = self.metric.name();
        let because = if self.reason.is_empty() {
            "no reason given"
        } else {
            &self.reason
        };
        let Some(value) = value else {
            return Err(format!(
                "{name} was not measured, but is claimed ({because})"
            ));
        };
        match (self.min, self.max) {
            (Some(min), _) if value < min => Err(format!(
                "{name} is {value}, claimed at least {min} ({because})"
            )),
            (_, Some(max)) if value > max => Err(format!(
                "{name} is {value}, claimed at most {max} ({because})"
            )),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_holds_or_says_why_not() {
        let claim = Expectation {
            metric: Metric::GoodputBps,
            variant: Some("nodelay".into()),
            min: Some(100),
            max: Some(200),
            reason: "the rate".into(),
        };
        let check = |variant: Option<&str>, goodput_bps: u64, expected: &str| {
            let outcome = Outcome {
                goodput_bps,
                ..Outcome::default()
            };
            let said = claim.check(variant, &outcome).err().unwrap_or_default();
            assert_eq!(said, expected);
        };
        check(Some("nodelay"), 100, "");
        check(Some("nodelay"), 200, "");
        check(
            Some("nodelay"),
            99,
            "goodput_bps is 99, claimed at least 100 (the rate)",
        );
        check(
            Some("nodelay"),
            201,
            "goodput_bps is 201, claimed at most 200 (the rate)",
        );
        check(Some("other"), 99, "");
        check(None, 99, "");
        let claim = Expectation {
            metric: Metric::ResponseP50Us,
            variant: None,
            ..claim
        };
        assert!(
            claim
                .check(None, &Outcome::default())
                .unwrap_err()
                .contains("not measured")
        );
    }

    #[test]
    fn each_metric_reads_its_unit() {
        let check = |name: &str, text: &str, expected: u64| {
            let metric = Metric::ALL
                .iter()
                .find(|(other, _)| *other == name)
                .unwrap()
                .1;
            assert_eq!(metric.name(), name);
            assert_eq!(metric.parse(text), Ok(expected));
            assert!(metric.parse("7parsecs").is_err());
        };
        check("goodput_bps", "45mbit", 45_000_000);
        check("response_p99_us", "1.5ms", 1_500);
        check("forward_queue_bytes_max", "64KiB", 65_536);
        check("operations", "12", 12);
    }
}
