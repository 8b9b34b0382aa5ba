//! The timelines of a recording, made when they are asked for: all of them at once would take ten
//! times the memory of what was recorded.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use base::FlowSample;

use super::SIBLINGS_MAX;
use crate::recording::Samples;
use crate::timeline::Timeline;

/// Samples that the timelines that are kept may have together, if they are more than
/// [`TIMELINES_KEPT`] and [`TIMELINES_MORE`]: one takes about 800 bytes.
const SAMPLES_KEPT: usize = 4096;
/// A connection is judged beside this many siblings, and by its other end.
const TIMELINES_KEPT: usize = 2 * SIBLINGS_MAX + 2;
/// Memory of samples that is kept for the next timelines.
const SPARE_MAX: usize = 1024;
/// How many more may be kept before a search for those to drop, which takes a step for each.
const TIMELINES_MORE: usize = 16;

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
    /// Memory of samples that are no longer used: freeing and allocating it takes longer than
    /// unpacking samples.
    spare: Vec<Arc<FlowSample>>,
}

impl Timelines {
    /// Timeline of the connection at `index`, made of `samples`.
    pub(super) fn get(&self, index: usize, samples: &Samples) -> Arc<Timeline> {
        let mut kept = self.kept.borrow_mut();
        kept.asked += 1;
        let asked = kept.asked;
        if let Some((last, timeline)) = kept.timelines.get_mut(&index) {
            *last = asked;
            return Arc::clone(timeline);
        }
        let timeline = Arc::new(timeline_of(samples, &mut kept.spare));
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
            // If the timeline is still referenced, its memory is freed with the last reference.
            let samples = Arc::into_inner(timeline).map(Timeline::into_samples);
            let samples = samples.into_iter().flatten();
            // Samples that are kept whole are shared with the recording.
            let mut free = samples.filter(|sample| Arc::strong_count(sample) == 1);
            self.spare.extend(free.by_ref().take(room));
        }
        let left = self.timelines.values();
        self.samples = left.map(|(_, timeline)| timeline.samples().len()).sum();
    }
}

pub(crate) fn timeline_of(samples: &Samples, spare: &mut Vec<Arc<FlowSample>>) -> Timeline {
    let mut timeline = Timeline::new();
    samples.share(spare, |sample| timeline.push(sample));
    timeline
}
