//! Requests on one connection, answers on another: no answer can carry an ACK.
//!
//! Seed: Winsock, case 1 with two one-way connections.

use base::Instant;

use super::exchange::Pieces;
use super::{Done, Next, Order, Scene, Script};
use crate::workload::WriteMethod;

/// The client's flow that carries requests, and the one that carries answers.
const ASK: usize = 0;
const HEAR: usize = 1;

/// Sends requests on one flow and reads the answers from the other.
#[derive(Debug)]
pub(super) struct AskQuotes {
    pieces: Pieces,
    reply: u64,
    delayed_acks: bool,
    asked_at: Instant,
    stage: Asking,
}

#[derive(Clone, Copy, Debug)]
enum Asking {
    Begin,
    Writing,
    Hearing,
}

impl AskQuotes {
    /// `request` is the number of pieces and the bytes of each.
    pub(super) const fn new(request: (u32, u64), reply: u64, delayed_acks: bool) -> Self {
        Self {
            pieces: Pieces::new(request.0, request.1, WriteMethod::Write),
            reply,
            delayed_acks,
            asked_at: Instant::ZERO,
            stage: Asking::Begin,
        }
    }

    fn write(&mut self, now: Instant) -> Next {
        match self.pieces.next_call(now) {
            Some(order) => Next::Do(ASK, order),
            None => {
                self.stage = Asking::Hearing;
                Next::Do(HEAR, Order::Receive(self.reply))
            }
        }
    }
}

impl Script for AskQuotes {
    fn resume(&mut self, done: Done, scene: &mut Scene<'_>) -> Next {
        match self.stage {
            Asking::Begin => {
                scene.flows[ASK].reserve(self.pieces.piece());
                if self.delayed_acks {
                    scene.flows[HEAR].quickack = Some(false);
                }
            }
            Asking::Writing => return self.write(scene.now),
            Asking::Hearing if done.bytes == 0 => return Next::Broken,
            Asking::Hearing => {
                scene.on_response(self.asked_at, self.pieces.total() + self.reply);
            }
        }
        self.asked_at = scene.now;
        if !scene.more() {
            return Next::Finish;
        }
        self.stage = Asking::Writing;
        self.write(scene.now)
    }
}

/// Reads requests from the flow on which data comes first, and writes each answer to the other, in
/// as many pieces as the request.
#[derive(Debug)]
pub(super) struct AnswerQuotes {
    request: (u32, u64),
    reply: u64,
    delayed_acks: bool,
    stage: Stage,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    Begin,
    Choosing,
    Hearing { on: usize },
    Telling { on: usize, part: u32 },
}

impl AnswerQuotes {
    pub(super) const fn new(request: (u32, u64), reply: u64, delayed_acks: bool) -> Self {
        Self {
            request,
            reply,
            delayed_acks,
            stage: Stage::Begin,
        }
    }

    const fn total(&self) -> u64 {
        self.request.0 as u64 * self.request.1
    }

    fn tell(&mut self, on: usize, part: u32, scene: &mut Scene<'_>) -> Next {
        match part_bytes(self.reply, self.request.0, part) {
            Some(bytes) => {
                self.stage = Stage::Telling { on, part };
                Next::Do(1 - on, Order::Write(bytes))
            }
            None => {
                scene.on_operation(self.total() + self.reply);
                self.hear(on)
            }
        }
    }

    fn hear(&mut self, on: usize) -> Next {
        self.stage = Stage::Hearing { on };
        Next::Do(on, Order::Receive(self.total()))
    }
}

impl Script for AnswerQuotes {
    fn resume(&mut self, done: Done, scene: &mut Scene<'_>) -> Next {
        match self.stage {
            Stage::Begin => {
                self.stage = Stage::Choosing;
                Next::Do(0, Order::AwaitData)
            }
            Stage::Choosing => {
                let on = usize::from(done.bytes == 1);
                if self.delayed_acks {
                    scene.flows[on].quickack = Some(false);
                }
                self.hear(on)
            }
            Stage::Hearing { .. } if done.bytes == 0 => Next::End,
            Stage::Hearing { on } => self.tell(on, 0, scene),
            Stage::Telling { on, part } => self.tell(on, part + 1, scene),
        }
    }
}

/// Bytes of part number `part` of `total`, cut in `count` parts that differ by at most one; `None`
/// behind the last one that has any.
fn part_bytes(total: u64, count: u32, part: u32) -> Option<u64> {
    let (each, rest) = (total / u64::from(count), total % u64::from(count));
    let bytes = each + u64::from(u64::from(part) < rest);
    (part < count && bytes > 0).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up() {
        let parts = |total, count| -> Vec<u64> {
            (0..)
                .map_while(|part| part_bytes(total, count, part))
                .collect()
        };
        assert_eq!(parts(10, 3), [4, 3, 3]);
        assert_eq!(parts(2, 5), [1, 1]);
    }
}
