//! One end of one run: when measuring begins and ends, and its counters.

use core::time::Duration;

use base::Instant;
use hdrhistogram::Histogram;

use super::course::MeasuredSpan;
use crate::outcome::{ResponseMicros, STALL_US};

/// Time that flows have after the end to finish operations in progress; then they are cut off.
const GRACE: Duration = Duration::from_secs(1);
/// Response times are kept to three digits up to this value; longer ones count as this long.
const LONGEST_RESPONSE_NS: u64 = 600_000_000_000;

/// How the time of one end is cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schedule {
    /// Time that does not count.
    pub(super) warmup: Duration,
    /// Time that counts; `None`: up to the end of the last flow.
    pub(super) time: Option<Duration>,
    /// Whether flows are stopped when the measured time is over.
    pub(super) stop_at_end: bool,
}

/// Counters of one end over its whole life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Payload that this end read.
    pub received_bytes: u64,
    /// Payload that this end handed over.
    pub sent_bytes: u64,
    /// Operations that were completed.
    pub operations: u64,
}

/// Counters of one end over the measured time.
#[derive(Clone, Debug)]
pub struct Totals {
    /// How long that was.
    pub duration: Duration,
    /// Payload that this end read.
    pub received_bytes: u64,
    /// Payload that this end handed over.
    pub sent_bytes: u64,
    /// Longest time in which nothing arrived, between two arrivals.
    pub silence_max: Duration,
    /// Operations that were completed.
    pub operations: u64,
    /// Their response times in nanoseconds.
    responses: Histogram<u64>,
}

impl Totals {
    fn new() -> Self {
        let mut responses = Histogram::new(3).expect("three digits are allowed");
        responses.auto(true);
        Self {
            duration: Duration::ZERO,
            received_bytes: 0,
            sent_bytes: 0,
            silence_max: Duration::ZERO,
            operations: 0,
            responses,
        }
    }

    /// The difference from `earlier`.
    ///
    /// # Panics
    /// Where `earlier` is of another session, or later.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut responses = self.responses.clone();
        responses
            .subtract(&earlier.responses)
            .expect("counts of one session never fall");
        Self {
            duration: self.duration - earlier.duration,
            received_bytes: self.received_bytes - earlier.received_bytes,
            sent_bytes: self.sent_bytes - earlier.sent_bytes,
            silence_max: self.silence_max,
            operations: self.operations - earlier.operations,
            responses,
        }
    }

    /// The response times in nanoseconds, to three digits, with how often each occurred.
    pub fn responses_ns(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.responses
            .iter_recorded()
            .map(|value| (value.value_iterated_to(), value.count_at_value()))
    }

    /// The usual percentiles; `None` where nothing was timed.
    #[must_use]
    pub fn response_us(&self) -> Option<ResponseMicros> {
        let micros = |nanos: u64| (nanos + 500) / 1_000;
        let at = |quantile| micros(self.responses.value_at_quantile(quantile));
        (!self.responses.is_empty()).then(|| ResponseMicros {
            n: self.responses.len(),
            p50: at(0.50),
            p90: at(0.90),
            p99: at(0.99),
            max: micros(self.responses.max()),
            stalled: self
                .responses_ns()
                .filter(|(nanos, _)| *nanos >= STALL_US * 1_000)
                .map(|(_, count)| count)
                .sum(),
        })
    }
}

/// Event of the schedule that interrupts a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// The time that counts begins.
    Measure,
    /// The end of the run.
    End,
    /// The grace after it ends: what is still open is cut off.
    Abort,
}

/// One end of one run.
#[derive(Debug)]
pub(super) struct Session {
    schedule: Schedule,
    /// See [`Session::measured_span`].
    measured: Option<MeasuredSpan>,
    /// Running flows.
    open: usize,
    /// When the last flow ended.
    idle_since: Option<Instant>,
    stopped: Option<Instant>,
    /// The next cut of the schedule, where time matters.
    cut: Option<(Instant, Cut)>,
    failure: Option<String>,
    /// Something arrived last, in time that counts.
    last_received: Option<Instant>,
    totals: Totals,
    counts: Counts,
}

impl Session {
    pub(super) fn new(schedule: Schedule) -> Self {
        Self {
            schedule,
            measured: None,
            open: 0,
            idle_since: None,
            stopped: None,
            cut: None,
            failure: None,
            last_received: None,
            totals: Totals::new(),
            counts: Counts::default(),
        }
    }

    /// A flow begins. The clock of this end runs from its first one on.
    pub(super) fn enter(&mut self, now: Instant) {
        self.open += 1;
        if self.measured.is_none() {
            let begin = now + self.schedule.warmup;
            self.measured = Some((begin, self.schedule.time.map(|time| begin + time)));
            self.cut = Some((begin, Cut::Measure));
        }
    }

    /// A flow has ended.
    pub(super) fn leave(&mut self, now: Instant) {
        self.open -= 1;
        if self.open == 0 {
            self.idle_since = Some(now);
        }
    }

    /// The next cut of time.
    pub(super) fn next_cut(&self) -> Option<Instant> {
        self.cut.map(|(at, _)| at)
    }

    /// The cut that is due by `now`.
    pub(super) fn take_cut(&mut self, now: Instant) -> Option<Cut> {
        let (at, cut) = self.cut.filter(|(at, _)| *at <= now)?;
        self.cut = match (cut, self.schedule.time) {
            (Cut::Measure, Some(time)) => Some((at + time, Cut::End)),
            (Cut::End, _) if self.schedule.stop_at_end => {
                self.stopped = Some(at);
                Some((at + GRACE, Cut::Abort))
            }
            _ => None,
        };
        Some(cut)
    }

    /// Whether the end was reached.
    pub(super) const fn is_stopping(&self) -> bool {
        self.stopped.is_some()
    }

    /// Whether the warm-up is over.
    pub(super) fn is_measuring(&self, now: Instant) -> bool {
        self.measured
            .map_or(!self.warms_up(), |(begin, _)| now >= begin)
    }

    /// When the time that counts begins, and when it ends where that is planned; `None` before the
    /// first flow.
    pub(super) const fn measured_span(&self) -> Option<MeasuredSpan> {
        self.measured
    }

    /// Whether there is time at the start that does not count.
    pub(super) const fn warms_up(&self) -> bool {
        !self.schedule.warmup.is_zero()
    }

    /// Whether what happens now counts.
    #[inline]
    pub(super) fn counts(&self, now: Instant) -> bool {
        self.is_measuring(now) && self.planned_end().is_none_or(|end| now < end)
    }

    /// Whether a connection may break now without being a failure.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.is_stopping() || self.planned_end().is_some_and(|end| now >= end)
    }

    /// Whether no flow is running.
    pub(super) const fn is_idle(&self) -> bool {
        self.open == 0
    }

    pub(super) fn on_sent(&mut self, now: Instant, bytes: u64) {
        self.counts.sent_bytes += bytes;
        if self.counts(now) {
            self.totals.sent_bytes += bytes;
        }
    }

    pub(super) fn on_received(&mut self, now: Instant, bytes: u64) {
        self.counts.received_bytes += bytes;
        if self.counts(now) {
            self.totals.received_bytes += bytes;
            if let Some(last) = self.last_received.replace(now) {
                self.totals.silence_max = self.totals.silence_max.max(now.since(last));
            }
        }
    }

    pub(super) fn on_operations(&mut self, now: Instant, count: u32) {
        self.counts.operations += u64::from(count);
        if self.counts(now) {
            self.totals.operations += u64::from(count);
        }
    }

    /// So many operations that were asked for and done at once, in this time.
    pub(super) fn on_responses(&mut self, now: Instant, time: Duration, count: u32) {
        self.on_operations(now, count);
        if self.counts(now) {
            let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
            self.totals
                .responses
                .record_n(nanos.clamp(1, LONGEST_RESPONSE_NS), u64::from(count))
                .expect("an automatic histogram takes every value up to its bound");
        }
    }

    /// Remembers the first reason why a flow broke.
    pub(super) fn fail(&mut self, why: String) {
        self.failure.get_or_insert(why);
    }

    pub(super) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Counters, warm-up included.
    pub(super) const fn all(&self) -> Counts {
        self.counts
    }

    /// Counters over the measured time; up to `now` while it lasts.
    pub(super) fn totals(&self, now: Instant) -> Totals {
        let Some((begin, _)) = self.measured else {
            return self.totals.clone();
        };
        let idle = self.idle_since.filter(|_| self.open == 0);
        let end = [self.planned_end(), self.stopped, idle]
            .into_iter()
            .flatten()
            .fold(now, Instant::min);
        Totals {
            duration: end.since(begin),
            ..self.totals.clone()
        }
    }

    #[inline]
    fn planned_end(&self) -> Option<Instant> {
        self.measured.and_then(|(_, end)| end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn session(warmup_ms: u64, time_ms: Option<u64>) -> Session {
        Session::new(Schedule {
            warmup: Duration::from_millis(warmup_ms),
            time: time_ms.map(Duration::from_millis),
            stop_at_end: true,
        })
    }

    #[test]
    fn time_is_cut_at_its_ends() {
        let mut session = session(100, Some(400));
        session.enter(at(10));
        assert_eq!(session.next_cut(), Some(at(110)));
        session.on_received(at(109), 1);
        assert_eq!(session.take_cut(at(109)), None);
        assert_eq!(session.take_cut(at(110)), Some(Cut::Measure));
        session.on_received(at(110), 10);
        session.on_responses(at(509), Duration::from_micros(70), 1);
        assert_eq!(session.take_cut(at(510)), Some(Cut::End));
        session.on_received(at(510), 100);
        assert!(session.is_stopping() && session.is_over(at(510)));
        assert_eq!(session.take_cut(at(1510)), Some(Cut::Abort));
        let totals = session.totals(at(600));
        assert_eq!((totals.received_bytes, totals.operations), (10, 1));
        assert_eq!(totals.duration, Duration::from_millis(400));
        let all = session.all();
        assert_eq!((all.received_bytes, all.operations), (111, 1));
        assert_eq!(totals.response_us().expect("one").p50, 70);
    }

    #[test]
    fn an_amount_counts_from_the_first_byte_to_the_last_flow() {
        let mut session = session(0, None);
        session.enter(at(5));
        session.enter(at(5));
        session.on_received(at(5), 7);
        session.leave(at(20));
        session.leave(at(25));
        let totals = session.totals(at(99));
        assert_eq!(totals.received_bytes, 7);
        assert_eq!(totals.duration, Duration::from_millis(20));
        assert_eq!(session.take_cut(at(99)), Some(Cut::Measure));
        assert_eq!(session.take_cut(at(99)), None);
    }
}
