//! Question and answer: on one connection, on a new one each, and with the question in pieces.

use base::Instant;

use super::{Done, Next, Order, Scene, Script};
use crate::workload::WriteMethod;

/// Bytes of the request and of the response.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exchange(pub(super) u64, pub(super) u64);

impl Exchange {
    const fn bytes(self) -> u64 {
        self.0 + self.1
    }
}

#[derive(Debug)]
enum Stage {
    Begin,
    Asking,
    Hearing,
    Closing,
    Dialling,
}

/// Asks, one request at a time. The end of one operation is the start of the next.
#[derive(Debug)]
pub(super) struct Ask {
    exchange: Exchange,
    asked_at: Instant,
    stage: Stage,
}

impl Ask {
    pub(super) const fn new(exchange: Exchange) -> Self {
        Self {
            exchange,
            asked_at: Instant::ZERO,
            stage: Stage::Begin,
        }
    }
}

impl Script for Ask {
    fn resume(&mut self, done: Done, scene: &mut Scene<'_>) -> Next {
        match self.stage {
            Stage::Asking => {
                self.stage = Stage::Hearing;
                return Next::Do(0, Order::Receive(self.exchange.1));
            }
            Stage::Hearing if done.bytes == 0 => return Next::Broken,
            Stage::Hearing => scene.on_response(self.asked_at, self.exchange.bytes()),
            Stage::Begin | Stage::Closing | Stage::Dialling => {}
        }
        self.asked_at = scene.now;
        if !scene.more() {
            return Next::Finish;
        }
        self.stage = Stage::Asking;
        Next::Do(0, Order::Write(self.exchange.0))
    }
}

/// Answers until the client finishes, or once.
#[derive(Debug)]
pub(super) struct Answer {
    exchange: Exchange,
    once: bool,
    stage: Stage,
}

impl Answer {
    pub(super) const fn new(exchange: Exchange, once: bool) -> Self {
        Self {
            exchange,
            once,
            stage: Stage::Begin,
        }
    }
}

impl Script for Answer {
    fn resume(&mut self, done: Done, scene: &mut Scene<'_>) -> Next {
        match self.stage {
            Stage::Hearing if done.bytes == 0 => return Next::End,
            Stage::Hearing => {
                self.stage = Stage::Asking;
                return Next::Do(0, Order::Write(self.exchange.1));
            }
            Stage::Asking => {
                scene.on_operations(self.exchange.bytes(), 1);
                if self.once {
                    return Next::End;
                }
            }
            Stage::Begin | Stage::Closing | Stage::Dialling => {}
        }
        self.stage = Stage::Hearing;
        Next::Do(0, Order::Receive(self.exchange.0))
    }
}

/// Asks once on each connection. The response time runs from before the connection is opened; the
/// server closes first.
#[derive(Debug)]
pub(super) struct AskAnew {
    exchange: Exchange,
    asked_at: Instant,
    stage: Stage,
}

impl AskAnew {
    /// The first connection is there; its opening began at `dialled_at`.
    pub(super) const fn new(exchange: Exchange, dialled_at: Instant) -> Self {
        Self {
            exchange,
            asked_at: dialled_at,
            stage: Stage::Begin,
        }
    }
}

impl Script for AskAnew {
    fn resume(&mut self, done: Done, scene: &mut Scene<'_>) -> Next {
        let (stage, order) = match self.stage {
            Stage::Begin if !scene.more() => return Next::End,
            Stage::Begin | Stage::Dialling => (Stage::Asking, Order::Write(self.exchange.0)),
            Stage::Asking => (Stage::Hearing, Order::Receive(self.exchange.1)),
            Stage::Hearing if done.bytes == 0 => return Next::Broken,
            Stage::Hearing => {
                scene.on_response(self.asked_at, self.exchange.bytes());
                (Stage::Closing, Order::Read(1))
            }
            Stage::Closing if !scene.more() => return Next::End,
            Stage::Closing => {
                self.asked_at = scene.now;
                (Stage::Dialling, Order::Dial)
            }
        };
        self.stage = stage;
        Next::Do(0, order)
    }
}

/// A request in pieces, and how they are handed over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pieces {
    count: u32,
    bytes: u64,
    method: WriteMethod,
    /// Calls of the request under way that were made.
    made: u32,
}

impl Pieces {
    pub(super) const fn new(count: u32, bytes: u64, method: WriteMethod) -> Self {
        Self {
            count,
            bytes,
            method,
            made: 0,
        }
    }

    pub(super) const fn total(&self) -> u64 {
        self.count as u64 * self.bytes
    }

    pub(super) const fn piece(&self) -> u64 {
        self.bytes
    }

    /// The next call of a request; `None` where it is complete, and the next one may begin.
    pub(super) fn next_call(&mut self) -> Option<Order> {
        let made = self.made;
        self.made += 1;
        let order = match self.method {
            WriteMethod::Writev => {
                (made == 0).then_some(Order::WriteVector(self.count, self.bytes))
            }
            WriteMethod::Write | WriteMethod::CorkForever => {
                (made < self.count).then_some(Order::Write(self.bytes))
            }
            WriteMethod::MsgMore if made + 1 < self.count => Some(Order::WriteMore(self.bytes)),
            WriteMethod::MsgMore => (made + 1 == self.count).then_some(Order::Write(self.bytes)),
            WriteMethod::Cork if made == 0 => Some(Order::Cork(true)),
            WriteMethod::Cork if made <= self.count => Some(Order::Write(self.bytes)),
            WriteMethod::Cork => (made == self.count + 1).then_some(Order::Cork(false)),
        };
        if order.is_none() {
            self.made = 0;
        }
        order
    }
}

/// Hands over the pieces, then awaits the reply.
#[derive(Debug)]
pub(super) struct AskInPieces {
    pieces: Pieces,
    reply: u64,
    asked_at: Instant,
    stage: Stage,
}

impl AskInPieces {
    pub(super) const fn new(pieces: Pieces, reply: u64) -> Self {
        Self {
            pieces,
            reply,
            asked_at: Instant::ZERO,
            stage: Stage::Begin,
        }
    }

    fn next_request(&mut self, scene: &Scene<'_>) -> Next {
        self.asked_at = scene.now;
        if !scene.more() {
            return Next::Finish;
        }
        self.stage = Stage::Asking;
        self.write()
    }

    fn write(&mut self) -> Next {
        match self.pieces.next_call() {
            Some(order) => Next::Do(0, order),
            None => {
                self.stage = Stage::Hearing;
                Next::Do(0, Order::Receive(self.reply))
            }
        }
    }
}

impl Script for AskInPieces {
    fn resume(&mut self, done: Done, scene: &mut Scene<'_>) -> Next {
        match self.stage {
            Stage::Begin => {
                scene.flows[0].reserve(self.pieces.bytes);
                if self.pieces.method == WriteMethod::CorkForever {
                    self.stage = Stage::Closing;
                    return Next::Do(0, Order::Cork(true));
                }
                self.next_request(scene)
            }
            Stage::Asking => self.write(),
            Stage::Hearing if done.bytes == 0 => Next::Broken,
            Stage::Hearing => {
                scene.on_response(self.asked_at, self.pieces.total() + self.reply);
                self.next_request(scene)
            }
            // Corked for ever.
            Stage::Closing | Stage::Dialling => self.next_request(scene),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_handed_over_by_their_method() {
        let check = |method, expected: &[Order]| {
            let mut pieces = Pieces::new(3, 7, method);
            for _ in 0..2 {
                let calls: Vec<Order> = core::iter::from_fn(|| pieces.next_call()).collect();
                assert_eq!(calls, expected, "{method:?}");
            }
        };
        let (write, more) = (Order::Write(7), Order::WriteMore(7));
        check(WriteMethod::Write, &[write; 3]);
        check(WriteMethod::CorkForever, &[write; 3]);
        check(WriteMethod::Writev, &[Order::WriteVector(3, 7)]);
        check(WriteMethod::MsgMore, &[more, more, write]);
        let (cork, uncork) = (Order::Cork(true), Order::Cork(false));
        check(WriteMethod::Cork, &[cork, write, write, write, uncork]);
    }
}
