//! Scripts of threads, one per side of a workload. A script says which call comes next and is asked
//! again when that call has returned.

mod bursts;
mod exchange;
mod quotes;
mod records;
mod stream;

use core::fmt::Debug;
use core::time::Duration;

use base::Instant;

use super::flow::Flow;
use super::session::Session;
use crate::workload::{Direction, Workload};
use bursts::{ReceiveBursts, SendBursts};
use exchange::{Answer, Ask, AskAnew, AskInPieces, Exchange, Pieces};
use quotes::{AnswerQuotes, AskQuotes};
use records::{ReceiveRecords, SendRecords};
use stream::{GiveRole, Receive, ReceiveSlowly, Send, SendPaced, TakeRole};

/// A call, or several of one kind in a row. What is left of it stays in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Hands over this many bytes, at most the flow's piece per call.
    Write(u64),
    /// Hands over one piece and says that more follows at once.
    WriteMore(u64),
    /// Hands over this many pieces of this many bytes in one call.
    WriteVector(u32, u64),
    /// Writes the byte that asks the server to send.
    WriteRole,
    /// Reads a message of this many bytes, or the end of the stream in front of it.
    Receive(u64),
    /// Reads once, at most this much.
    Read(u64),
    /// Reads to the end of the stream.
    Drain,
    /// Waits until one of the flows has something to read.
    AwaitData,
    /// Waits until all that was written is acknowledged.
    AwaitAcknowledged,
    /// Waits until the writes are complete that were taken (Winsock), or all but a few: what a
    /// write that blocks does at its end.
    AwaitCompleted,
    /// Waits until, with this many bytes unacknowledged at most, some of this many can be written.
    AwaitRoom(base::Bytes, u64),
    /// Corks or uncorks.
    Cork(bool),
    /// Waits until then, or until the session ends.
    Sleep(Instant),
    /// Says that nothing more comes.
    Shutdown,
    /// Opens another connection in place of this one, which is then closed.
    Dial,
}

/// Result of a call.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Done {
    /// Read bytes: 0 at the end of the stream. For [`Order::AwaitData`] the number of the flow, for
    /// [`Order::AwaitRoom`] the room.
    pub(super) bytes: u64,
    /// The first byte of what was read.
    pub(super) first: Option<u8>,
}

/// Next step of a script.
#[derive(Clone, Copy, Debug)]
pub(super) enum Next {
    /// A call on the flow of this number.
    Do(usize, Order),
    /// Says that nothing more comes and waits until the peer has finished too.
    Finish,
    /// Nothing: the connections are closed.
    End,
    /// The peer finished where it must not.
    Broken,
}

/// Behaviour of one thread.
pub(super) trait Script: Debug {
    /// The next call, after the one before has returned; the first time with nothing.
    fn resume(&mut self, done: Done, scene: &mut Scene<'_>) -> Next;
}

/// State that a script sees.
pub(super) struct Scene<'s> {
    pub(super) now: Instant,
    pub(super) flows: &'s mut [Flow],
    pub(super) session: &'s mut Session,
}

impl Scene<'_> {
    fn more(&self) -> bool {
        self.flows[0].more(self.now, self.session)
    }

    fn on_done(&mut self, bytes: u64, count: u32) {
        self.flows[0].on_done(self.now, self.session, bytes, count);
    }

    /// Counts an operation of the first flow with its response time.
    fn on_response(&mut self, since: Instant, bytes: u64) {
        self.on_responses(since, bytes, 1);
    }

    /// Counts operations that were asked for and done at once.
    fn on_responses(&mut self, since: Instant, bytes: u64, count: u32) {
        self.session
            .on_responses(self.now, self.now.since(since), count);
        self.on_done(bytes, count);
    }

    /// Counts operations that are not timed at this end.
    fn on_operations(&mut self, bytes: u64, count: u32) {
        self.session.on_operations(self.now, count);
        self.on_done(bytes, count);
    }
}

/// The script of the client's flow number `index`.
pub(super) fn client(workload: &Workload, index: u32, dialled_at: Instant) -> Box<dyn Script> {
    match workload {
        Workload::Bulk {
            direction,
            flows,
            write_size,
            unacked,
            ..
        } => match direction {
            Direction::Up => Box::new(Send::new(write_size.0, *unacked, None)),
            Direction::Down => Box::new(Receive),
            Direction::Both if index < *flows => Box::new(Send::new(write_size.0, *unacked, None)),
            Direction::Both => Box::<GiveRole>::default(),
        },
        Workload::SlowReader { .. } => Box::new(Send::new(super::flow::CHUNK_BYTES, None, None)),
        Workload::Paced {
            rate, write_size, ..
        } => Box::new(SendPaced::new(write_size.0, *rate)),
        Workload::RequestResponse {
            request, response, ..
        } => Box::new(Ask::new(Exchange(request.0, response.0))),
        Workload::ConnectRequestClose {
            request, response, ..
        } => Box::new(AskAnew::new(Exchange(request.0, response.0), dialled_at)),
        Workload::WriteWriteRead {
            writes,
            write_size,
            pieces,
            reply,
            method,
            uncork_after,
            ..
        } => {
            let pieces = Pieces::new(*writes, write_size.0, *method)
                .of_sizes(pieces)
                .uncorked_after(*uncork_after);
            Box::new(AskInPieces::new(pieces, reply.0))
        }
        Workload::Records(records) => Box::new(SendRecords::new(records)),
        Workload::Quotes(quotes) => Box::new(AskQuotes::new(quotes)),
        Workload::Bursts {
            burst,
            idle,
            reconnect,
            ..
        } => {
            let dialled_at = reconnect.then_some(dialled_at);
            Box::new(SendBursts::new(burst.0, *idle, dialled_at))
        }
    }
}

/// The server's script for a connection; for two of them with [`Workload::Quotes`].
pub(super) fn server(workload: &Workload, warmup: Duration) -> Box<dyn Script> {
    match workload {
        Workload::Bulk {
            direction,
            write_size,
            unacked,
            ..
        } => match direction {
            Direction::Up => Box::new(Receive),
            Direction::Down => Box::new(Send::new(write_size.0, *unacked, Some(warmup))),
            Direction::Both => Box::new(TakeRole::new(write_size.0, *unacked, warmup)),
        },
        Workload::SlowReader {
            read_size, every, ..
        } => Box::new(ReceiveSlowly::new(read_size.0, *every)),
        Workload::Paced { .. } => Box::new(Receive),
        Workload::Records(records) => Box::new(ReceiveRecords::new(records)),
        Workload::RequestResponse {
            request, response, ..
        } => Box::new(Answer::new(Exchange(request.0, response.0), false)),
        Workload::ConnectRequestClose {
            request, response, ..
        } => Box::new(Answer::new(Exchange(request.0, response.0), true)),
        Workload::WriteWriteRead { reply, .. } => {
            let request = workload.message_bytes().unwrap_or(0);
            Box::new(Answer::new(Exchange(request, reply.0), false))
        }
        Workload::Quotes(quotes) => Box::new(AnswerQuotes::new(quotes)),
        Workload::Bursts { burst, .. } => Box::new(ReceiveBursts::new(burst.0)),
    }
}
