//! The timelines of a recording, made when they are asked for: all of them at once would take ten
//! times the memory of what was recorded.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base::{FlowSample, Instant};

use super::SIBLINGS_MAX;
use crate::recording::Track;
use crate::rules::thresholds;
use crate::timeline::{Before, Taken, Timeline};

/// Samples that the timelines that are kept may have together, if they are more than
/// [`TIMELINES_KEPT`] and [`TIMELINES_MORE`]: one takes about 800 bytes.
const SAMPLES_KEPT: usize = 4096;
/// A connection is judged beside this many siblings, and by its other end.
const TIMELINES_KEPT: usize = 2 * SIBLINGS_MAX + 2;
/// Memory of samples that is kept for the next timelines.
const SPARE_MAX: usize = 1024;
/// So many more, since it takes a step for each that is kept to find those that may go.
const TIMELINES_MORE: usize = 16;

type Counter = fn(&FlowSample) -> Option<u64>;

/// Facts about each connection of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) looks: usize,
    pub(super) interval: Duration,
    /// Payload that was acknowledged and that arrived while it was watched.
    pub(super) moved_bytes: (Option<u64>, Option<u64>),
    /// The same since it was opened.
    pub(super) moved_ever_bytes: (Option<u64>, Option<u64>),
    /// Payload moved in either direction.
    pub(super) carries: bool,
    /// Segments arrived.
    pub(super) hears: bool,
}

impl Facts {
    /// Facts about a connection, without a timeline where that would keep all its samples.
    pub(super) fn of(track: &Track) -> Self {
        if track.samples.len() > thresholds::SAMPLES_KEPT {
            return Self::of_timeline(&timeline_of(track, &mut Vec::new()));
        }
        let mut sums = Sums::default();
        track.samples.each(|sample| sums.take(sample));
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

    pub(super) fn of_timeline(timeline: &Timeline) -> Self {
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

/// Recently used timelines.
#[derive(Clone, Debug, Default)]
pub(super) struct Timelines {
    kept: RefCell<Kept>,
}

#[derive(Clone, Debug, Default)]
struct Kept {
    /// By place of the connection, with the time when it was asked for.
    timelines: BTreeMap<usize, (u64, Arc<Timeline>)>,
    samples: usize,
    asked: u64,
    /// Memory of samples that nothing holds any more: to give it back and ask for it again takes
    /// longer than to unpack them.
    spare: Vec<Arc<FlowSample>>,
}

impl Timelines {
    /// Timeline of the connection `track` at `index`.
    pub(super) fn get(&self, index: usize, track: &Track) -> Arc<Timeline> {
        let mut kept = self.kept.borrow_mut();
        kept.asked += 1;
        let asked = kept.asked;
        if let Some((last, timeline)) = kept.timelines.get_mut(&index) {
            *last = asked;
            return Arc::clone(timeline);
        }
        let timeline = Arc::new(timeline_of(track, &mut kept.spare));
        kept.samples += timeline.samples().len();
        kept.timelines.insert(index, (asked, Arc::clone(&timeline)));
        kept.forget_some();
        timeline
    }
}

impl Kept {
    /// Drops the least recently used timelines if there are too many, but none by which the current
    /// connection is judged.
    fn forget_some(&mut self) {
        let most = TIMELINES_KEPT + TIMELINES_MORE;
        if self.samples <= SAMPLES_KEPT || self.timelines.len() < most {
            return;
        }
        let mut asked: Vec<u64> = self.timelines.values().map(|(asked, _)| *asked).collect();
        let gone = (asked.len() / 8).clamp(1, asked.len() - TIMELINES_KEPT);
        let (_, newest_gone, _) = asked.select_nth_unstable(gone - 1);
        let newest_gone = *newest_gone;
        let all = std::mem::take(&mut self.timelines).into_iter();
        let (left, gone): (BTreeMap<_, _>, BTreeMap<_, _>) =
            all.partition(|(_, (asked, _))| *asked > newest_gone);
        self.timelines = left;
        for (_, timeline) in gone.into_values() {
            let room = SPARE_MAX.saturating_sub(self.spare.len());
            // Where somebody holds the timeline, its memory goes with that.
            let samples = Arc::into_inner(timeline).map(Timeline::into_samples);
            let samples = samples.into_iter().flatten();
            // Those that are whole are the recording's own.
            let mut free = samples.filter(|sample| Arc::strong_count(sample) == 1);
            self.spare.extend(free.by_ref().take(room));
        }
        let left = self.timelines.values();
        self.samples = left.map(|(_, timeline)| timeline.samples().len()).sum();
    }
}

pub(super) fn timeline_of(track: &Track, spare: &mut Vec<Arc<FlowSample>>) -> Timeline {
    let mut timeline = Timeline::new();
    track.samples.share(spare, |sample| timeline.push(sample));
    timeline
}
