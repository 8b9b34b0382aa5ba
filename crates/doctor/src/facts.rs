//! Facts about a connection that are cheap for thousands of them: how long it was observed, and how
//! much it carried.

use std::time::Duration;

use base::{FlowSample, Instant};

use crate::case::timeline_of;
use crate::recording::Samples;
use crate::rules::thresholds;
use crate::timeline::{Before, Taken, Timeline};

type Counter = fn(&FlowSample) -> Option<u64>;

/// Facts about each connection of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) looks: usize,
    pub(crate) interval: Duration,
    /// Payload that was acknowledged and that arrived while it was watched.
    pub(crate) moved_bytes: (Option<u64>, Option<u64>),
    /// The same since it was opened.
    pub(crate) moved_ever_bytes: (Option<u64>, Option<u64>),
    /// Payload moved in either direction.
    pub(crate) carries: bool,
    /// Segments arrived.
    pub(crate) hears: bool,
}

impl Facts {
    /// Facts about a connection, without a timeline where that would keep all its samples.
    pub(crate) fn of(samples: &Samples) -> Self {
        if let Some(known) = samples.facts() {
            return known;
        }
        if samples.len() > thresholds::SAMPLES_KEPT {
            return Self::of_timeline(&timeline_of(samples, &mut Vec::new()));
        }
        let mut sums = Sums::default();
        samples.each(|sample| sums.take(sample));
        let moved_bytes = (sums.acked.counted(), sums.received.counted());
        Self {
            looks: sums.looks,
            interval: sums.interval(),
            moved_bytes,
            moved_ever_bytes: (sums.acked.last, sums.received.last),
            carries: moved_bytes.0.max(moved_bytes.1) > Some(0),
            hears: sums.segments_in.counted() > Some(0),
        }
    }

    pub(crate) fn of_timeline(timeline: &Timeline) -> Self {
        let (acked, received): (Counter, Counter) = (|s| s.bytes_acked, |s| s.bytes_received);
        let moved_bytes = (timeline.counted(acked), timeline.counted(received));
        Self {
            looks: timeline.looks(),
            interval: timeline.interval(),
            moved_bytes,
            moved_ever_bytes: (timeline.latest(acked), timeline.latest(received)),
            carries: moved_bytes.0.max(moved_bytes.1) > Some(0),
            hears: timeline.counted(|s| s.segs_in) > Some(0),
        }
    }
}

/// Running sums over the samples of a connection.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    first: Option<Instant>,
    before: Option<Before>,
    looks: usize,
    acked: Span,
    received: Span,
    segments_in: Span,
}

impl Sums {
    fn take(&mut self, sample: &FlowSample) {
        match Before::take(self.before, sample) {
            Taken::LeftOut => return,
            Taken::Anew => *self = Self::default(),
            Taken::Kept => {}
        }
        self.first.get_or_insert(sample.at);
        self.before = Some(Before::of(sample));
        self.looks += sample.looks as usize;
        self.acked.take(sample.bytes_acked);
        self.received.take(sample.bytes_received);
        self.segments_in.take(sample.segs_in);
    }

    fn interval(&self) -> Duration {
        let ends = self.first.zip(self.before);
        ends.map_or(Duration::ZERO, |(first, last)| last.at.since(first))
    }
}

/// A counter where it was known first and last.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    first: Option<u64>,
    last: Option<u64>,
    is_one: bool,
}

impl Span {
    fn take(&mut self, value: Option<u64>) {
        if value.is_some() {
            self.is_one = self.first.is_none();
            self.first = self.first.or(value);
            self.last = value;
        }
    }

    /// As [`Timeline::counted`].
    fn counted(&self) -> Option<u64> {
        let (first, last) = self.first.zip(self.last).filter(|_| !self.is_one)?;
        last.checked_sub(first)
    }
}
