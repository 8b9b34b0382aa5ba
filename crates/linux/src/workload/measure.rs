//! Counters of a running workload: bytes, operations and response times per interval, and their
//! sum.
//!
//! Flows write into a [`Meter`] of their own; one thread looks at all meters every interval. Rates
//! are taken where data arrive, never where they are handed to the kernel.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use base::{Instant, Limit, Rate};
use hdrhistogram::Histogram;
use lab::{ResponseMicros, STALL_US, SenderOutcome};
use serde::{Deserialize, Serialize};

use crate::tun_engine::StackSummary;

/// Response times are kept to three digits up to this value; longer ones count as this long.
const LONGEST_RESPONSE_NS: u64 = 600_000_000_000;

/// Response times in nanoseconds, kept to three significant digits.
#[derive(Clone, Debug, PartialEq)]
pub struct Responses(Histogram<u64>);

impl Default for Responses {
    fn default() -> Self {
        let mut histogram = Histogram::new(3).expect("three digits are allowed");
        histogram.auto(true);
        Self(histogram)
    }
}

impl Responses {
    /// Adds one response time.
    pub fn record(&mut self, time: Duration) {
        self.record_times(time, 1);
    }

    fn record_times(&mut self, time: Duration, count: u32) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.record_many(nanos, count.into());
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (nanos, count) in other.pairs() {
            self.record_many(nanos, count);
        }
    }

    /// Adds all that an interval has kept.
    pub fn add(&mut self, counts: &ResponseCounts) {
        for (nanos, count) in &counts.0 {
            self.record_many(*nanos, *count);
        }
    }

    /// Operations.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.0.len()
    }

    /// Whether nothing was recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The response time below which this share (0 to 1) of the operations lies.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Duration {
        Duration::from_nanos(self.0.value_at_quantile(share))
    }

    /// The usual percentiles; `None` where nothing was recorded.
    #[must_use]
    pub fn micros(&self) -> Option<ResponseMicros> {
        let micros = |nanos: u64| (nanos + 500) / 1_000;
        (!self.is_empty()).then(|| ResponseMicros {
            n: self.0.len(),
            p50: micros(self.0.value_at_quantile(0.50)),
            p90: micros(self.0.value_at_quantile(0.90)),
            p99: micros(self.0.value_at_quantile(0.99)),
            max: micros(self.0.max()),
            stalled: self
                .pairs()
                .filter(|(nanos, _)| *nanos >= STALL_US * 1_000)
                .map(|(_, count)| count)
                .sum(),
        })
    }

    pub(crate) fn record_many(&mut self, nanos: u64, count: u64) {
        self.0
            .record_n(nanos.clamp(1, LONGEST_RESPONSE_NS), count)
            .expect("an automatic histogram takes every value up to its bound");
    }

    fn pairs(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0
            .iter_recorded()
            .map(|value| (value.value_iterated_to(), value.count_at_value()))
    }
}

/// Goes over the wire as pairs of nanoseconds and count.
impl Serialize for Responses {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.pairs())
    }
}

impl<'de> Deserialize<'de> for Responses {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut responses = Self::default();
        let pairs: Vec<(u64, u64)> = Vec::deserialize(deserializer)?;
        let total = pairs
            .iter()
            .try_fold(0_u64, |sum, pair| sum.checked_add(pair.1));
        if total.is_none() {
            return Err(serde::de::Error::custom(
                "more operations than a count holds",
            ));
        }
        for (nanos, count) in pairs {
            responses.record_many(nanos, count);
        }
        Ok(responses)
    }
}

/// Response times in nanoseconds with their counts, as [`Responses`] keeps them but without the
/// values that did not occur: for what is stored in great numbers. A histogram takes 16 to 136 KiB,
/// this 16 bytes for each value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct ResponseCounts(Box<[(u64, u64)]>);

impl ResponseCounts {
    /// Different values: what this takes in memory.
    #[must_use]
    pub const fn values(&self) -> usize {
        self.0.len()
    }
}

impl From<&Responses> for ResponseCounts {
    fn from(responses: &Responses) -> Self {
        Self(responses.pairs().collect())
    }
}

/// By way of a histogram, which bounds how many values there are.
impl<'de> Deserialize<'de> for ResponseCounts {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Responses::deserialize(deserializer).map(|responses| Self::from(&responses))
    }
}

/// Which part of a run an interval belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Before the measured time.
    Warmup,
    /// Counts.
    Measured,
    /// After the planned end: what was still in progress.
    After,
}

/// Counters of one end of a workload between two looks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// When it ended, in nanoseconds of the host's monotonic clock.
    pub end_ns: u64,
    /// Its length.
    pub length_ns: u64,
    /// The part of the run.
    pub phase: Phase,
    /// Payload that this end read.
    pub received_bytes: u64,
    /// Payload that this end handed to the kernel.
    pub sent_bytes: u64,
    /// Operations that were completed.
    pub operations: u64,
    /// Their response times in nanoseconds, with counts; empty at an end that does not time them.
    pub responses_ns: ResponseCounts,
    /// How sending went at this end; `None` if it sent nothing, or that is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sending: Option<Sending>,
}

/// Kernel counters of one end's connections as senders, over one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sending {
    /// Retransmitted segments.
    pub retransmitted_segments: u64,
    /// Mean of the connections' smoothed round-trip times at the end, in microseconds.
    pub rtt_us: Option<u64>,
    /// Sum of the connections' congestion windows at the end, in bytes.
    pub cwnd_bytes: Option<u64>,
    /// The limit of the senders for most of the time: `Application`, `PeerWindow` or `SendBuffer`
    /// by the kernel's clocks, else `Congestion`.
    pub limit: Option<Limit>,
}

impl Interval {
    /// When it began.
    #[must_use]
    pub const fn start(&self) -> Instant {
        Instant::from_nanos(self.end_ns.saturating_sub(self.length_ns))
    }

    /// When it ended.
    #[must_use]
    pub const fn end(&self) -> Instant {
        Instant::from_nanos(self.end_ns)
    }
}

/// Rates over a stretch of time at one end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Seconds.
    pub duration_s: f64,
    /// Payload that this end read.
    pub received_bytes: u64,
    /// Payload that this end handed to the kernel.
    pub sent_bytes: u64,
    /// Operations that were completed.
    pub operations: u64,
    /// Their response times in nanoseconds, with counts.
    pub responses_ns: Responses,
}

impl Totals {
    /// Adds an interval that follows.
    pub fn add(&mut self, interval: &Interval) {
        self.duration_s += interval.length_ns as f64 / 1e9;
        self.received_bytes += interval.received_bytes;
        self.sent_bytes += interval.sent_bytes;
        self.operations += interval.operations;
        self.responses_ns.add(&interval.responses_ns);
    }

    /// Payload per second that arrived here, in bit/s; 0 over no time.
    #[must_use]
    pub fn goodput_bps(&self) -> u64 {
        // Another host may have said how long it was: any number.
        let time = Duration::try_from_secs_f64(self.duration_s.max(0.0)).unwrap_or(Duration::MAX);
        Rate::of(self.received_bytes, time).bits_per_second()
    }

    /// Operations per second; 0 over no time.
    #[must_use]
    pub fn operations_per_s(&self) -> f64 {
        if self.duration_s > 0.0 {
            self.operations as f64 / self.duration_s
        } else {
            0.0
        }
    }

    /// The usual percentiles of the response time, where this end timed operations.
    #[must_use]
    pub fn response_us(&self) -> Option<ResponseMicros> {
        self.responses_ns.micros()
    }
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// Completed.
    #[default]
    Complete,
    /// Stopped early.
    Stopped,
    /// Reached the limit of bytes.
    ByteLimit,
}

/// Results of one end of a workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The measured time: after the warm-up, up to the planned end or the last connection's.
    pub measured: Totals,
    /// Payload read during the whole run.
    pub all_received_bytes: u64,
    /// Payload handed to the kernel during the whole run.
    pub all_sent_bytes: u64,
    /// Operations of the whole run.
    pub all_operations: u64,
    /// Congestion control of the sockets at this end, as the kernel names it.
    pub congestion: String,
    /// Counters of the sockets at this end as senders over the measured time; `None` where the
    /// kernel does not report them.
    #[serde(default)]
    pub sent: Option<SenderOutcome>,
    /// Longest time between two reads of payload at this end in the measured time, in microseconds;
    /// `None` where there were no two.
    #[serde(default)]
    pub silence_max_us: Option<u64>,
    /// Why it ended.
    pub ended: Ended,
    /// Report of our own stack, at an end that has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack: Option<StackSummary>,
}

impl Summary {
    /// Whether any payload passed.
    #[must_use]
    pub const fn has_carried(&self) -> bool {
        self.all_received_bytes > 0 || self.all_sent_bytes > 0
    }
}

impl Summary {
    pub(crate) fn add(&mut self, interval: &Interval) {
        self.all_received_bytes += interval.received_bytes;
        self.all_sent_bytes += interval.sent_bytes;
        self.all_operations += interval.operations;
        if interval.phase == Phase::Measured {
            self.measured.add(interval);
        }
    }
}

/// The counters of one flow. One thread writes, another one takes. A line of the cache holds no
/// counters of two flows.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Meter {
    received_bytes: AtomicU64,
    sent_bytes: AtomicU64,
    operations: AtomicU64,
    responses: Mutex<Responses>,
}

impl Meter {
    pub(crate) fn on_received(&self, bytes: u64) {
        self.received_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn on_sent(&self, bytes: u64) {
        self.sent_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn on_operations(&self, count: u32) {
        self.operations.fetch_add(count.into(), Ordering::Relaxed);
    }

    /// So many operations that were asked for and done at once, in this time.
    pub(crate) fn on_responses(&self, time: Duration, count: u32) {
        self.on_operations(count);
        self.responses
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .record_times(time, count);
    }

    /// Adds what was counted since the last call to `interval`, and the response times to `times`.
    pub(crate) fn take_into(&self, interval: &mut Interval, times: &mut Responses) {
        interval.received_bytes += self.received_bytes.swap(0, Ordering::Relaxed);
        interval.sent_bytes += self.sent_bytes.swap(0, Ordering::Relaxed);
        interval.operations += self.operations.swap(0, Ordering::Relaxed);
        let mut responses = self
            .responses
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if !responses.is_empty() {
            times.merge(&responses);
            responses.0.reset();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_keep_three_digits_and_travel_as_pairs() {
        let mut responses = Responses::default();
        for micros in 1..=100 {
            responses.record(Duration::from_micros(micros * 100));
        }
        let text = serde_json::to_string(&responses).expect("numbers");
        let back: Responses = serde_json::from_str(&text).expect("what was written");
        let micros = back.micros().expect("a hundred operations");
        assert_eq!((micros.n, micros.max), (100, 10_002));
        assert!((5_000..=5_005).contains(&micros.p50), "{micros:?}");
        assert!((9_900..=9_910).contains(&micros.p99), "{micros:?}");
        assert_eq!(Responses::default().micros(), None);
    }

    #[test]
    fn an_interval_keeps_what_occurred_and_nothing_else() {
        let mut responses = Responses::default();
        for micros in [70, 70, 90, 1_000_000] {
            responses.record(Duration::from_micros(micros));
        }
        let counts = ResponseCounts::from(&responses);
        assert_eq!(counts.values(), 3);
        let text = serde_json::to_string(&counts).expect("numbers");
        assert_eq!(text, serde_json::to_string(&responses).expect("numbers"));
        let back: ResponseCounts = serde_json::from_str(&text).expect("what was written");
        let mut sum = Responses::default();
        sum.add(&back);
        assert_eq!(sum.micros(), responses.micros());
        // What another host sends cannot be longer than a histogram has places.
        let twice: ResponseCounts = serde_json::from_str("[[5,1],[5,2]]").expect("pairs");
        assert_eq!(twice.values(), 1);
    }

    #[test]
    fn counts_that_overflow_are_refused() {
        let text = format!("[[1,{0}],[2,{0}]]", u64::MAX);
        assert!(serde_json::from_str::<Responses>(&text).is_err());
    }

    #[test]
    fn a_rate_over_a_senseless_time_is_a_number() {
        for (duration_s, expected) in [
            (1.0, 8_000),
            (0.0, 0),
            (-1.0, 0),
            (f64::NAN, 0),
            (1e300, 0),
            (f64::INFINITY, 0),
        ] {
            let totals = Totals {
                duration_s,
                received_bytes: 1_000,
                ..Totals::default()
            };
            assert_eq!(totals.goodput_bps(), expected, "{duration_s} s");
        }
    }

    #[test]
    fn only_measured_intervals_count_for_rates() {
        let interval = |phase, received_bytes| Interval {
            end_ns: 2_000_000_000,
            length_ns: 1_000_000_000,
            phase,
            received_bytes,
            sent_bytes: 0,
            operations: 2,
            responses_ns: ResponseCounts::default(),
            sending: None,
        };
        let mut summary = Summary::default();
        summary.add(&interval(Phase::Warmup, 7));
        summary.add(&interval(Phase::Measured, 125));
        summary.add(&interval(Phase::After, 9));
        assert_eq!(summary.measured.goodput_bps(), 1_000);
        assert_eq!(summary.measured.operations_per_s(), 2.0);
        assert_eq!(
            (summary.all_received_bytes, summary.all_operations),
            (141, 6)
        );
        assert_eq!(
            interval(Phase::After, 0).start(),
            Instant::from_nanos(1_000_000_000)
        );
    }
}
