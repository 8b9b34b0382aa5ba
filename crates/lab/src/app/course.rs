//! Observation of a run in progress: the course of its flow, and its sender's counters in the
//! measured time.
//!
//! It only looks, a bounded number of times, and between its looks costs a comparison.

use core::time::Duration;
use std::collections::BTreeMap;

use base::{FlowSample, Instant, Limit};
use stack::Host;

use super::Program;
use crate::outcome::{Point, SenderOutcome};
use crate::series::{FlowLook, Series};
use crate::stats;
use crate::world::LimitTimes;

/// When the time that counts begins, and when it ends where that is planned.
pub type MeasuredSpan = (Instant, Option<Instant>);

/// State that a look reads.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'s> {
    /// The program that sends what is measured.
    pub program: &'s Program,
    /// Its host.
    pub host: &'s Host,
    /// Limits so far.
    pub limits: &'s LimitTimes,
    /// Payload that has arrived so far, in the main direction.
    pub received_bytes: u64,
    /// Bytes that wait for the link in front of the sender, where that can be seen.
    pub queue_bytes: Option<u64>,
    /// `None` before the first connection is open.
    pub span: Option<MeasuredSpan>,
}

/// The looks at one run.
#[derive(Debug)]
pub struct Course {
    series: Series,
    next: Instant,
    /// The sender's counters at the end of warm-up.
    begin: Option<Sent>,
    /// The counters at the end of the measured time.
    end: Option<Sent>,
    held: BTreeMap<Limit, Duration>,
    /// Smoothed round-trip times in microseconds, one per look; as many as the series bounds.
    rtts_us: Vec<u64>,
}

/// Data segments of one host.
#[derive(Clone, Copy, Debug, Default)]
struct Sent {
    segments: u64,
    retransmitted: u64,
}

impl Sent {
    fn of(host: &Host) -> Self {
        let counters = host.counters();
        Self {
            segments: counters.data_segments_out,
            retransmitted: counters.segments_retransmitted,
        }
    }
}

impl Course {
    /// A run that begins at `began`, with its duration where it is known.
    #[must_use]
    pub fn new(began: Instant, expected: Option<Duration>) -> Self {
        Self {
            series: Series::new(began, expected),
            next: began,
            begin: None,
            end: None,
            held: BTreeMap::new(),
            rtts_us: Vec::new(),
        }
    }

    /// Whether [`Course::look`] is due by `now`.
    #[must_use]
    pub fn is_due(&self, now: Instant) -> bool {
        now >= self.next
    }

    /// When the next look is due.
    #[must_use]
    #[inline]
    pub const fn next_look(&self) -> Instant {
        self.next
    }

    /// Looks.
    pub fn look(&mut self, now: Instant, scene: &Scene<'_>) {
        self.look_at(now, scene, false);
    }

    /// The last look, and what came out.
    #[must_use]
    pub fn finish(
        mut self,
        now: Instant,
        scene: &Scene<'_>,
    ) -> (Vec<Point>, Option<SenderOutcome>) {
        if self.end.is_none() {
            self.look_at(now, scene, true);
        }
        let end = self.end.unwrap_or_else(|| Sent::of(scene.host));
        let sender = self.begin.map(|begin| SenderOutcome {
            data_segments: end.segments - begin.segments,
            retransmitted_segments: end.retransmitted - begin.retransmitted,
            rtt_mean_us: stats::whole_mean(&self.rtts_us),
            rtt_p99_us: stats::whole_percentile(&self.rtts_us, 99),
        });
        (self.series.points(), sender)
    }

    fn look_at(&mut self, now: Instant, scene: &Scene<'_>, is_last: bool) {
        let begins = scene.span.map(|(begin, _)| begin);
        let ends = scene.span.and_then(|(_, end)| end);
        let is_begun = begins.is_some_and(|begin| now >= begin);
        if is_begun && self.begin.is_none() {
            // A run that counts from its first byte on counts what left with that, too.
            self.begin = Some(match scene.program.warms_up() {
                true => Sent::of(scene.host),
                false => Sent::default(),
            });
        }
        let is_over = ends.is_some_and(|end| now >= end);
        if is_over {
            self.end = Some(Sent::of(scene.host));
        }
        if self.series.is_due(now) || is_over || is_last {
            self.record(now, scene, is_begun);
        }
        self.next = if is_over {
            Instant::MAX
        } else {
            let cuts = [begins.filter(|_| !is_begun), ends];
            let cuts = cuts.into_iter().flatten();
            cuts.fold(self.series.next(), Instant::min)
        };
    }

    fn record(&mut self, now: Instant, scene: &Scene<'_>, is_begun: bool) {
        let sockets = scene.program.sockets();
        let samples = sockets.filter_map(|id| scene.host.sample(now, id));
        // The congestion window of an end that only receives has no meaning.
        let sending = samples.filter(|sample| sample.data_segs_out != Some(0));
        let look = FlowLook {
            received_bytes: scene.received_bytes,
            queue_bytes: scene.queue_bytes,
            ..FlowLook::of(&sending.collect::<Vec<FlowSample>>())
        };
        if let Some(rtt) = look.rtt_us.filter(|_| is_begun) {
            self.rtts_us.push(rtt);
        }
        let held = scene.limits.held_until(now);
        let before = core::mem::replace(&mut self.held, held);
        let since = |(limit, time): (&Limit, &Duration)| {
            let before = before.get(limit).copied().unwrap_or_default();
            (*limit, time.saturating_sub(before))
        };
        let longest = self.held.iter().map(since).max_by_key(|(_, time)| *time);
        let limit = longest.filter(|(_, time)| !time.is_zero());
        self.series.push(now, look, limit);
    }
}
