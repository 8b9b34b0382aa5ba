//! Requests on one connection, answers on another, so that no answer can carry an ACK; or both on
//! one connection, the first of the thread.
//!
//! Seed: Winsock, case 2.

use base::Instant;

use super::exchange::Pieces;
use super::{Done, Next, Order, Scene, Script};
use crate::workload::{Quotes, WriteMethod};

/// The client's flow that carries requests.
const ASK: usize = 0;

/// Sends requests on one flow and reads the answers from the other, or from the same.
#[derive(Debug)]
pub(super) struct AskQuotes {
    quotes: Quotes,
    pieces: Pieces,
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
    pub(super) fn new(quotes: &Quotes) -> Self {
        let (count, bytes) = quotes.pieces();
        Self {
            quotes: quotes.clone(),
            pieces: Pieces::new(count, bytes, WriteMethod::Write),
            asked_at: Instant::ZERO,
            stage: Asking::Begin,
        }
    }

    /// The flow that carries the answers.
    fn hear(&self) -> usize {
        self.quotes.connections() as usize - 1
    }

    fn write(&mut self, now: Instant) -> Next {
        match self.pieces.next_call(now) {
            Some(order) => Next::Do(ASK, order),
            None => {
                self.stage = Asking::Hearing;
                Next::Do(self.hear(), Order::Receive(self.quotes.answer_bytes()))
            }
        }
    }
}

impl Script for AskQuotes {
    fn resume(&mut self, done: Done, scene: &mut Scene<'_>) -> Next {
        match self.stage {
            Asking::Begin => {
                scene.flows[ASK].reserve(self.pieces.piece());
                if self.quotes.delayed_acks {
                    scene.flows[self.hear()].quickack = Some(false);
                }
            }
            Asking::Writing => return self.write(scene.now),
            Asking::Hearing if done.bytes == 0 => return Next::Broken,
            Asking::Hearing => {
                let bytes = self.pieces.total() + self.quotes.answer_bytes();
                scene.on_responses(self.asked_at, bytes, self.quotes.joined);
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

/// Reads requests from the flow on which data comes first, and writes each answer to the other, or
/// to the same where there is one, in as many pieces as the request.
#[derive(Debug)]
pub(super) struct AnswerQuotes {
    quotes: Quotes,
    /// The flow that carries the requests.
    on: usize,
    stage: Stage,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    Begin,
    Choosing,
    Hearing,
    Telling { part: u32 },
}

impl AnswerQuotes {
    pub(super) fn new(quotes: &Quotes) -> Self {
        Self {
            quotes: quotes.clone(),
            on: 0,
            stage: Stage::Begin,
        }
    }

    const fn request_bytes(&self) -> u64 {
        let (count, bytes) = self.quotes.pieces();
        count as u64 * bytes
    }

    fn tell(&mut self, part: u32, scene: &mut Scene<'_>) -> Next {
        let answer = self.quotes.answer_bytes();
        match part_bytes(answer, self.quotes.writes, part) {
            Some(bytes) => {
                self.stage = Stage::Telling { part };
                let other = self.quotes.connections() as usize - 1;
                Next::Do(other - self.on, Order::Write(bytes))
            }
            None => {
                scene.on_operations(self.request_bytes() + answer, self.quotes.joined);
                self.hear()
            }
        }
    }

    fn hear(&mut self) -> Next {
        self.stage = Stage::Hearing;
        Next::Do(self.on, Order::Receive(self.request_bytes()))
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
                self.on = usize::from(done.bytes == 1);
                if self.quotes.delayed_acks {
                    scene.flows[self.on].quickack = Some(false);
                }
                self.hear()
            }
            Stage::Hearing if done.bytes == 0 => Next::End,
            Stage::Hearing => self.tell(0, scene),
            Stage::Telling { part } => self.tell(part + 1, scene),
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
