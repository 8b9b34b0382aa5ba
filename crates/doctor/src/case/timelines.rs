//! The timelines of a recording, made when they are asked for: all of them at once would take ten
//! times the memory of what was recorded.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base::FlowSample;

use super::SIBLINGS_MAX;
use crate::recording::Track;
use crate::timeline::Timeline;

/// Samples that the timelines that are kept may have together, if they are more than
/// [`TIMELINES_KEPT`]: one takes about 800 bytes.
const SAMPLES_KEPT: usize = 4096;
/// A connection is judged beside this many siblings, and by its other end.
const TIMELINES_KEPT: usize = 2 * SIBLINGS_MAX + 2;

type Counter = fn(&FlowSample) -> Option<u64>;

/// What is asked of each connection of a recording.
#[derive(Clone, Copy, Debug)]
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
    pub(super) fn of(timeline: &Timeline) -> Self {
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

/// Those that were asked for lately.
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
}

impl Timelines {
    /// That of the connection `track` at `index`.
    pub(super) fn get(&self, index: usize, track: &Track) -> Arc<Timeline> {
        let mut kept = self.kept.borrow_mut();
        kept.asked += 1;
        let asked = kept.asked;
        if let Some((last, timeline)) = kept.timelines.get_mut(&index) {
            *last = asked;
            return Arc::clone(timeline);
        }
        let timeline = Arc::new(timeline_of(track));
        kept.samples += timeline.samples().len();
        kept.timelines.insert(index, (asked, Arc::clone(&timeline)));
        kept.forget_some(index);
        timeline
    }
}

impl Kept {
    /// Those that were asked for longest ago go, but not that of `index`.
    fn forget_some(&mut self, index: usize) {
        while self.samples > SAMPLES_KEPT && self.timelines.len() > TIMELINES_KEPT {
            let others = self.timelines.iter().filter(|(at, _)| **at != index);
            let oldest = others.min_by_key(|(_, (asked, _))| *asked);
            let Some(oldest) = oldest.map(|(&at, _)| at) else {
                return;
            };
            let gone = self.timelines.remove(&oldest);
            self.samples -= gone.map_or(0, |(_, timeline)| timeline.samples().len());
        }
    }
}

pub(super) fn timeline_of(track: &Track) -> Timeline {
    let mut timeline = Timeline::new();
    for sample in &track.samples {
        timeline.push(sample);
    }
    timeline
}
