//! Question and answer: on one connection, on a new one each, and with the question in pieces.

use core::time::Duration;

use base::{Bytes, Instant};

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
#[derive(Clone, Debug)]
pub(super) struct Pieces {
    count: u32,
    bytes: u64,
    /// Request sizes, where they differ.
    sizes: Vec<u64>,
    method: WriteMethod,
    /// From the last piece to the uncorking.
    uncork_after: Duration,
    /// Calls made so far of the request in progress.
    made: u32,
}

impl Pieces {
    pub(super) const fn new(count: u32, bytes: u64, method: WriteMethod) -> Self {
        Self {
            count,
            bytes,
            sizes: Vec::new(),
            method,
            uncork_after: Duration::ZERO,
            made: 0,
        }
    }

    /// Pieces of these sizes instead, if there are any.
    pub(super) fn of_sizes(mut self, sizes: &[Bytes]) -> Self {
        if !sizes.is_empty() {
            self.sizes = sizes.iter().map(|size| size.0).collect();
            self.count = u32::try_from(sizes.len()).unwrap_or(u32::MAX);
            self.bytes = self.sizes.iter().copied().max().unwrap_or(0);
        }
        self
    }

    /// Held for this long before the cork is taken out.
    pub(super) const fn uncorked_after(mut self, time: Duration) -> Self {
        self.uncork_after = time;
        self
    }

    pub(super) fn total(&self) -> u64 {
        if self.sizes.is_empty() {
            u64::from(self.count) * self.bytes
        } else {
            self.sizes.iter().sum()
        }
    }

    /// The largest.
    pub(super) const fn piece(&self) -> u64 {
        self.bytes
    }

    fn size(&self, index: u32) -> u64 {
        let size = self.sizes.get(index as usize);
        size.copied().unwrap_or(self.bytes)
    }

    fn vector(&self) -> Order {
        if self.sizes.is_empty() {
            Order::WriteVector(self.count, self.bytes)
        } else {
            // How a vector is cut is not seen behind the call.
            Order::WriteVector(1, self.total())
        }
    }

    /// The next call of a request; `None` where it is complete, and the next one may begin.
    pub(super) fn next_call(&mut self, now: Instant) -> Option<Order> {
        let made = self.made;
        self.made += 1;
        let count = self.count;
        let write = |index| Order::Write(self.size(index));
        let holds = u32::from(!self.uncork_after.is_zero());
        let order = match self.method {
            WriteMethod::Writev => (made == 0).then(|| self.vector()),
            WriteMethod::Write | WriteMethod::CorkForever | WriteMethod::Sendfile => {
                (made < count).then(|| write(made))
            }
            WriteMethod::MsgMore if made + 1 < count => Some(Order::WriteMore(self.size(made))),
            WriteMethod::MsgMore => (made + 1 == count).then(|| write(made)),
            WriteMethod::Cork | WriteMethod::CorkSendfile => match made.checked_sub(1) {
                None => Some(Order::Cork(true)),
                Some(piece) if piece < count => Some(write(piece)),
                Some(piece) if piece - count < holds => Some(Order::Sleep(now + self.uncork_after)),
                Some(piece) => (piece - count == holds).then_some(Order::Cork(false)),
            },
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
    pub(super) fn new(pieces: Pieces, reply: u64) -> Self {
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
        self.write(scene.now)
    }

    fn write(&mut self, now: Instant) -> Next {
        match self.pieces.next_call(now) {
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
            Stage::Asking => self.write(scene.now),
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

    #[track_caller]
    fn check_calls(pieces: &Pieces, expected: &[Order]) {
        let mut pieces = pieces.clone();
        for _ in 0..2 {
            let calls: Vec<Order> =
                core::iter::from_fn(|| pieces.next_call(Instant::ZERO)).collect();
            assert_eq!(calls, expected, "{pieces:?}");
        }
    }

    #[test]
    fn pieces_are_handed_over_by_their_method() {
        let check = |method, expected: &[Order]| {
            check_calls(&Pieces::new(3, 7, method), expected);
        };
        let (write, more) = (Order::Write(7), Order::WriteMore(7));
        check(WriteMethod::Write, &[write; 3]);
        check(WriteMethod::CorkForever, &[write; 3]);
        check(WriteMethod::Sendfile, &[write; 3]);
        check(WriteMethod::Writev, &[Order::WriteVector(3, 7)]);
        check(WriteMethod::MsgMore, &[more, more, write]);
        let (cork, uncork) = (Order::Cork(true), Order::Cork(false));
        check(WriteMethod::Cork, &[cork, write, write, write, uncork]);
        check(
            WriteMethod::CorkSendfile,
            &[cork, write, write, write, uncork],
        );
    }

    #[test]
    fn pieces_of_several_sizes_are_written_each() {
        let check = |method, expected: &[Order]| {
            let pieces = Pieces::new(9, 9, method).of_sizes(&[Bytes(6), Bytes(24)]);
            assert_eq!((pieces.total(), pieces.piece()), (30, 24));
            check_calls(&pieces, expected);
        };
        let (header, payload) = (Order::Write(6), Order::Write(24));
        check(WriteMethod::Write, &[header, payload]);
        check(WriteMethod::Writev, &[Order::WriteVector(1, 30)]);
        check(WriteMethod::MsgMore, &[Order::WriteMore(6), payload]);
        let (cork, uncork) = (Order::Cork(true), Order::Cork(false));
        check(WriteMethod::Cork, &[cork, header, payload, uncork]);
    }

    #[test]
    fn a_cork_may_stay_for_a_while() {
        let time = Duration::from_millis(10);
        let pieces = Pieces::new(1, 10, WriteMethod::Cork).uncorked_after(time);
        let later = Order::Sleep(Instant::ZERO + time);
        let (cork, uncork) = (Order::Cork(true), Order::Cork(false));
        check_calls(&pieces, &[cork, Order::Write(10), later, uncork]);
    }
}
