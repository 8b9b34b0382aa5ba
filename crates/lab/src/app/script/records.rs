//! Records one way: at a rate or one after the other, done when written or when acknowledged.

use core::time::Duration;

use base::Instant;

use super::{Done, Next, Order, Scene, Script};
use crate::workload::Completion;

/// Writes records until the amount is done.
#[derive(Debug)]
pub(super) struct SendRecords {
    record: u64,
    gap: Option<Duration>,
    completion: Completion,
    due: Instant,
    written_at: Instant,
    stage: Stage,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    Begin,
    Waiting,
    Writing,
    Awaiting,
}

impl SendRecords {
    pub(super) fn new(record: u64, per_second: Option<u32>, completion: Completion) -> Self {
        Self {
            record,
            gap: per_second.map(|rate| Duration::from_secs(1) / rate.max(1)),
            completion,
            due: Instant::ZERO,
            written_at: Instant::ZERO,
            stage: Stage::Begin,
        }
    }

    fn write(&mut self, now: Instant) -> Next {
        self.written_at = now;
        self.stage = Stage::Writing;
        Next::Do(0, Order::Write(self.record))
    }
}

impl Script for SendRecords {
    fn resume(&mut self, done: Done, scene: &mut Scene<'_>) -> Next {
        match (self.stage, self.gap) {
            (Stage::Begin, _) => {
                scene.flows[0].reserve(self.record);
                self.due = scene.now;
            }
            (Stage::Waiting, _) if done.bytes == 0 => return Next::Finish,
            (Stage::Waiting, gap) => {
                let gap = gap.unwrap_or(Duration::ZERO);
                self.due = (self.due + gap).max(scene.now - gap);
                return self.write(scene.now);
            }
            (Stage::Writing, _) if self.completion == Completion::Acknowledged => {
                self.stage = Stage::Awaiting;
                return Next::Do(0, Order::AwaitAcknowledged);
            }
            (Stage::Writing | Stage::Awaiting, _) => {
                scene.on_response(self.written_at, self.record);
            }
        }
        if !scene.more() {
            return Next::Finish;
        }
        if self.gap.is_none() {
            return self.write(scene.now);
        }
        self.stage = Stage::Waiting;
        Next::Do(0, Order::Sleep(self.due))
    }
}
