//! Streams in one direction: as fast as they go, at a rate, or into a reader that takes its time.

use core::time::Duration;

use base::{Bytes, Instant, Rate};

use super::super::pattern;
use super::{Done, Next, Order, Scene, Script};

/// Time by which a paced writer may be behind before it gives up catching up.
const LAG_MAX: Duration = Duration::from_millis(100);

/// Writes until the amount is done, then waits until all has arrived.
#[derive(Debug)]
pub(super) struct Send {
    write_size: u64,
    /// Most bytes between written and acknowledged.
    unacked: Option<Bytes>,
    /// Ends by itself after this and the time of the workload.
    end_after: Option<Duration>,
    begun: bool,
    /// The writer waits for room.
    waiting: bool,
    writing: Option<u64>,
}

impl Send {
    pub(super) const fn new(
        write_size: u64,
        unacked: Option<Bytes>,
        end_after: Option<Duration>,
    ) -> Self {
        Self {
            write_size,
            unacked,
            end_after,
            begun: false,
            waiting: false,
            writing: None,
        }
    }
}

impl Script for Send {
    fn resume(&mut self, done: Done, scene: &mut Scene<'_>) -> Next {
        if !self.begun {
            self.begun = true;
            scene.flows[0].reserve(self.write_size);
            if let Some(warmup) = self.end_after {
                scene.flows[0].end_after(scene.now, warmup);
            }
        }
        if let Some(bytes) = self.writing.take() {
            scene.on_done(bytes, 1);
        }
        if !scene.more() {
            return Next::Finish;
        }
        let bytes = scene.flows[0].next_write(self.write_size);
        let waited = core::mem::take(&mut self.waiting);
        let bytes = match self.unacked {
            Some(bound) if !waited => {
                self.waiting = true;
                return Next::Do(0, Order::AwaitRoom(bound, bytes));
            }
            Some(_) => done.bytes,
            None => bytes,
        };
        self.writing = Some(bytes);
        Next::Do(0, Order::Write(bytes))
    }
}

/// As [`Send`], at a rate: each piece leaves when the ones before it would have been serialised. A
/// writer that was held up catches up, but not by more than [`LAG_MAX`].
#[derive(Debug)]
pub(super) struct SendPaced {
    write_size: u64,
    rate: Rate,
    due: Instant,
    carry: u64,
    stage: Pace,
}

#[derive(Debug)]
enum Pace {
    Begin,
    Waiting,
    Writing(u64),
}

impl SendPaced {
    pub(super) const fn new(write_size: u64, rate: Rate) -> Self {
        Self {
            write_size,
            rate,
            due: Instant::ZERO,
            carry: 0,
            stage: Pace::Begin,
        }
    }
}

impl Script for SendPaced {
    fn resume(&mut self, done: Done, scene: &mut Scene<'_>) -> Next {
        match self.stage {
            Pace::Waiting if done.bytes == 0 => return Next::Finish,
            Pace::Waiting => {
                let bytes = scene.flows[0].next_write(self.write_size);
                self.stage = Pace::Writing(bytes);
                return Next::Do(0, Order::Write(bytes));
            }
            Pace::Begin => {
                scene.flows[0].reserve(self.write_size);
                self.due = scene.now;
            }
            Pace::Writing(bytes) => {
                scene.on_done(bytes, 1);
                let (gap, rest) = self.rate.serialize(bytes, self.carry);
                self.carry = rest;
                self.due = (self.due + gap).max(scene.now - LAG_MAX);
            }
        }
        if !scene.more() {
            return Next::Finish;
        }
        self.stage = Pace::Waiting;
        Next::Do(0, Order::Sleep(self.due))
    }
}

/// Reads to the end of the stream.
#[derive(Debug)]
pub(super) struct Receive;

impl Script for Receive {
    fn resume(&mut self, _: Done, scene: &mut Scene<'_>) -> Next {
        if scene.flows[0].saw_end {
            Next::End
        } else {
            Next::Do(0, Order::Drain)
        }
    }
}

/// Reads at most this much at a time, once every this often. At the end of the session the rest is
/// read at once, so that the sender can finish.
#[derive(Debug)]
pub(super) struct ReceiveSlowly {
    read_size: u64,
    every: Duration,
    due: Option<Instant>,
    reading: bool,
}

impl ReceiveSlowly {
    pub(super) const fn new(read_size: u64, every: Duration) -> Self {
        Self {
            read_size,
            every,
            due: None,
            reading: false,
        }
    }
}

impl Script for ReceiveSlowly {
    fn resume(&mut self, _: Done, scene: &mut Scene<'_>) -> Next {
        let due = *self.due.get_or_insert(scene.now);
        if scene.flows[0].saw_end {
            return Next::End;
        }
        if core::mem::take(&mut self.reading) {
            let due = (due + self.every).max(scene.now);
            self.due = Some(due);
            return Next::Do(0, Order::Sleep(due));
        }
        if scene.session.is_stopping() {
            return Next::Do(0, Order::Drain);
        }
        self.reading = true;
        Next::Do(0, Order::Read(self.read_size))
    }
}

/// Asks the server to send, and reads to the end of the stream.
#[derive(Debug, Default)]
pub(super) struct GiveRole {
    given: bool,
}

impl Script for GiveRole {
    fn resume(&mut self, done: Done, scene: &mut Scene<'_>) -> Next {
        if core::mem::replace(&mut self.given, true) {
            Receive.resume(done, scene)
        } else {
            Next::Do(0, Order::WriteRole)
        }
    }
}

/// Sends or receives, as the first byte of the connection says.
#[derive(Debug)]
pub(super) struct TakeRole {
    send: Send,
    role: Option<bool>,
    asked: bool,
}

impl TakeRole {
    pub(super) const fn new(write_size: u64, unacked: Option<Bytes>, warmup: Duration) -> Self {
        Self {
            send: Send::new(write_size, unacked, Some(warmup)),
            role: None,
            asked: false,
        }
    }
}

impl Script for TakeRole {
    fn resume(&mut self, done: Done, scene: &mut Scene<'_>) -> Next {
        if !core::mem::replace(&mut self.asked, true) {
            return Next::Do(0, Order::Read(1));
        }
        let sends = *self
            .role
            .get_or_insert_with(|| done.first.is_some_and(pattern::asks_to_send));
        if sends {
            self.send.resume(done, scene)
        } else {
            Receive.resume(done, scene)
        }
    }
}
