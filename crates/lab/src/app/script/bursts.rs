//! A block, an idle gap, the next block. The server answers each block by one byte.

use core::time::Duration;

use base::Instant;

use super::{Done, Next, Order, Scene, Script};

/// Bytes of the answer to a block.
const RECEIPT_BYTES: u64 = 1;

/// Sends blocks. The response time runs from the start of the block (of its connection, where each
/// has one) to the answer.
#[derive(Debug)]
pub(super) struct SendBursts {
    bytes: u64,
    idle: Duration,
    reconnect: bool,
    /// When the opening of the first connection began, until its block was sent.
    dialled_at: Option<Instant>,
    begun_at: Instant,
    stage: Stage,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    First,
    Dialling,
    Sending,
    Awaiting,
    Idle,
}

impl SendBursts {
    /// `dialled_at`, where each block has a connection of its own: when the first one was begun.
    pub(super) const fn new(bytes: u64, idle: Duration, dialled_at: Option<Instant>) -> Self {
        Self {
            bytes,
            idle,
            reconnect: dialled_at.is_some(),
            dialled_at,
            begun_at: Instant::ZERO,
            stage: Stage::First,
        }
    }

    fn to(&mut self, stage: Stage, order: Order) -> Next {
        self.stage = stage;
        Next::Do(0, order)
    }
}

impl Script for SendBursts {
    fn resume(&mut self, done: Done, scene: &mut Scene<'_>) -> Next {
        match self.stage {
            Stage::First | Stage::Idle if !scene.more() => Next::Finish,
            Stage::First | Stage::Idle => {
                let is_first = matches!(self.stage, Stage::First);
                self.begun_at = self.dialled_at.take().unwrap_or(scene.now);
                if self.reconnect && !is_first {
                    self.to(Stage::Dialling, Order::Dial)
                } else {
                    self.to(Stage::Sending, Order::Write(self.bytes))
                }
            }
            Stage::Dialling => self.to(Stage::Sending, Order::Write(self.bytes)),
            Stage::Sending => self.to(Stage::Awaiting, Order::Receive(RECEIPT_BYTES)),
            Stage::Awaiting if done.bytes == 0 => Next::Broken,
            Stage::Awaiting => {
                scene.on_response(self.begun_at, self.bytes);
                if !scene.more() {
                    return Next::Finish;
                }
                self.to(Stage::Idle, Order::Sleep(scene.now + self.idle))
            }
        }
    }
}

/// Takes blocks until the client finishes.
#[derive(Debug)]
pub(super) struct ReceiveBursts {
    bytes: u64,
    stage: Stage,
}

impl ReceiveBursts {
    pub(super) const fn new(bytes: u64) -> Self {
        Self {
            bytes,
            stage: Stage::First,
        }
    }
}

impl Script for ReceiveBursts {
    fn resume(&mut self, done: Done, scene: &mut Scene<'_>) -> Next {
        match self.stage {
            Stage::Awaiting if done.bytes == 0 => return Next::End,
            Stage::Awaiting => {
                self.stage = Stage::Sending;
                return Next::Do(0, Order::Write(RECEIPT_BYTES));
            }
            Stage::Sending => scene.on_operations(self.bytes, 1),
            Stage::First | Stage::Dialling | Stage::Idle => {}
        }
        self.stage = Stage::Awaiting;
        Next::Do(0, Order::Receive(self.bytes))
    }
}
