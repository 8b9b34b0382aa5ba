//! Records one way: at a rate or one after the other, done when written or when acknowledged.

use core::time::Duration;

use base::Instant;

use super::super::flow::CHUNK_BYTES;
use super::{Done, Next, Order, Scene, Script};
use crate::workload::{Completion, Pace, RecordWrites, Records};

/// Writes records until the amount is done.
#[derive(Debug)]
pub(super) struct SendRecords {
    writes: RecordWrites,
    joined: u32,
    bytes_max: u64,
    pace: Pace,
    began: Instant,
    completion: Completion,
    non_blocking: bool,
    outstanding: u32,
    due: Instant,
    written_at: Instant,
    /// Size of the write in progress.
    bytes: u64,
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
    pub(super) fn new(records: &Records) -> Self {
        Self {
            writes: records.writes(),
            joined: records.joined,
            bytes_max: records.write_bytes_max(),
            pace: records.pace(),
            began: Instant::ZERO,
            completion: records.completion,
            non_blocking: records.non_blocking,
            outstanding: records.outstanding,
            due: Instant::ZERO,
            written_at: Instant::ZERO,
            bytes: 0,
            stage: Stage::Begin,
        }
    }

    fn write(&mut self, now: Instant) -> Next {
        self.written_at = now;
        self.bytes = self.writes.next_bytes();
        self.stage = Stage::Writing;
        Next::Do(0, Order::Write(self.bytes))
    }
}

impl Script for SendRecords {
    fn resume(&mut self, done: Done, scene: &mut Scene<'_>) -> Next {
        let gap = self.pace.gap(scene.now.since(self.began));
        match (self.stage, gap) {
            (Stage::Begin, _) => {
                scene.flows[0].reserve(self.bytes_max);
                scene.flows[0].non_blocking = self.non_blocking;
                scene.flows[0].outstanding = self.outstanding as usize;
                (self.due, self.began) = (scene.now, scene.now);
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
                scene.on_responses(self.written_at, self.bytes, self.joined);
            }
        }
        if !scene.more() {
            return Next::Finish;
        }
        if gap.is_none() {
            return self.write(scene.now);
        }
        self.stage = Stage::Waiting;
        Next::Do(0, Order::Sleep(self.due))
    }
}

/// Reads to the end of the stream, with a pause before each read where there is to be one. At the
/// end of the session the rest is read at once, so that the sender can finish.
#[derive(Debug)]
pub(super) struct ReceiveRecords {
    read_size: u64,
    pause: Duration,
    paused: bool,
}

impl ReceiveRecords {
    pub(super) fn new(records: &Records) -> Self {
        Self {
            read_size: records.read_size.map_or(CHUNK_BYTES, |size| size.0),
            pause: records.read_pause,
            paused: false,
        }
    }
}

impl Script for ReceiveRecords {
    fn resume(&mut self, _: Done, scene: &mut Scene<'_>) -> Next {
        if scene.flows[0].saw_end {
            return Next::End;
        }
        if scene.session.is_stopping() {
            return Next::Do(0, Order::Drain);
        }
        self.paused = !self.paused && !self.pause.is_zero();
        Next::Do(
            0,
            if self.paused {
                Order::Sleep(scene.now + self.pause)
            } else {
                Order::Read(self.read_size)
            },
        )
    }
}
