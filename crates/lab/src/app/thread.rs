//! A thread of a program: what its script asks for, call by call on the host.

use core::net::SocketAddr;
use core::time::Duration;

use base::Instant;
use base::settings::SocketSettings;
use bytes::Bytes;
use stack::{Failure, Host, Payload, ReadError, SocketId, WriteError, WriteFlags};

use super::flow::{CHUNK_BYTES, Flow};
use super::ledger::Ledger;
use super::owners::Owners;
use super::pattern;
use super::script::{Done, Next, Order, Scene, Script};
use super::session::Session;
use crate::workload::{UNACKED_LOOK, unacked_room};

/// Polling interval of a thread that waits until all is acknowledged: programs ask the system
/// (`SIOCOUTQ`), which does not notify.
const LOOK_EVERY: Duration = Duration::from_micros(50);

/// One thread with its connections.
#[derive(Debug)]
pub(super) struct Thread {
    pub(super) flows: Vec<Flow>,
    /// It waits for an event of one of its connections.
    pub(super) blocked: bool,
    script: Box<dyn Script>,
    state: State,
    closing: Closing,
    dialling: Option<Dialling>,
}

/// A connection that is being opened in place of another.
#[derive(Clone, Copy, Debug)]
struct Dialling {
    socket: SocketId,
    connected: bool,
    failed: Option<Failure>,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// The last call has returned.
    Returned(Done),
    /// In a call on the flow `on`.
    In {
        on: usize,
        order: Order,
        part: Part,
    },
    Ended,
}

/// How far an order is.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    /// Bytes read so far.
    read: u64,
    /// Bytes that the write in progress still has to hand over.
    piece: u64,
}

/// How far the end of the first flow is.
#[derive(Clone, Copy, Debug)]
enum Closing {
    No,
    Shut,
    Draining,
}

/// How a turn ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// One system call was made, which copied this many bytes.
    Called(u64),
    /// It waits for an event.
    Blocked,
    /// It waits for a time.
    Sleeping(Instant),
    /// It has ended.
    Ended,
    /// Its connection broke.
    Failed(String),
}

/// Outcome of one call.
enum Call {
    /// It returned, having copied this much.
    Returned(Done, u64),
    /// The rest of the order takes another call.
    Partly(Order, Part, u64),
    /// It would return later.
    Blocked(Order, Part),
    /// No call was needed.
    Skipped(Done),
    Sleeping(Instant),
    Failed(String),
}

/// Everything a thread works with.
pub(super) struct Env<'e> {
    pub(super) now: Instant,
    pub(super) host: &'e mut Host,
    pub(super) session: &'e mut Session,
    /// Which thread a connection belongs to.
    pub(super) owners: &'e mut Owners,
    pub(super) ledger: &'e mut Ledger,
    /// Address of the other connection.
    pub(super) remote: SocketAddr,
    pub(super) settings: &'e SocketSettings,
    /// Whether payload is that of a [`pattern`].
    pub(super) checks_payload: bool,
    /// The number of this thread.
    pub(super) own: usize,
}

impl Thread {
    pub(super) fn new(flows: Vec<Flow>, script: Box<dyn Script>) -> Self {
        Self {
            flows,
            blocked: false,
            script,
            state: State::Returned(Done::default()),
            closing: Closing::No,
            dialling: None,
        }
    }

    /// Whether it waits for a time that the end of the session cuts short.
    pub(super) const fn is_sleeping(&self) -> bool {
        matches!(
            self.state,
            State::In {
                order: Order::Sleep(_),
                ..
            }
        )
    }

    /// All its connections.
    pub(super) fn sockets(&self) -> impl Iterator<Item = SocketId> + '_ {
        let dialling = self.dialling.map(|dialling| dialling.socket);
        self.flows
            .iter()
            .filter_map(|flow| flow.socket)
            .chain(dialling)
    }

    /// Hears that a connection was opened.
    pub(super) fn on_connected(&mut self, id: SocketId) {
        if let Some(dialling) = self.dialling.as_mut().filter(|dial| dial.socket == id) {
            dialling.connected = true;
        }
    }

    /// Hears that a connection broke.
    pub(super) fn on_failed(&mut self, id: SocketId, failure: Failure) {
        if let Some(dialling) = self.dialling.as_mut().filter(|dial| dial.socket == id) {
            dialling.failed = Some(failure);
        }
        for flow in self.flows.iter_mut().filter(|flow| flow.socket == Some(id)) {
            flow.failed = Some(failure);
        }
    }

    /// Goes on until it has made one system call, or must wait.
    pub(super) fn turn(&mut self, env: &mut Env<'_>) -> Turn {
        loop {
            let (on, order, part) = match self.state {
                State::In { on, order, part } => (on, order, part),
                State::Ended => return Turn::Ended,
                State::Returned(done) => match self.next(done, env) {
                    Next::Do(on, order) => (on, order, Part::default()),
                    Next::Finish | Next::End => {
                        self.state = State::Ended;
                        return Turn::Ended;
                    }
                    Next::Broken => return self.fail("closed the connection in the middle"),
                },
            };
            self.state = State::In { on, order, part };
            match self.call(on, order, part, env) {
                Call::Partly(order, part, copied) => {
                    self.state = State::In { on, order, part };
                    return Turn::Called(copied);
                }
                Call::Returned(done, copied) => {
                    self.state = State::Returned(done);
                    return Turn::Called(copied);
                }
                Call::Blocked(order, part) => {
                    self.state = State::In { on, order, part };
                    return Turn::Blocked;
                }
                Call::Skipped(done) => self.state = State::Returned(done),
                Call::Sleeping(at) => return Turn::Sleeping(at),
                Call::Failed(why) => return self.fail(&why),
            }
        }
    }

    /// Closes all that it still has open.
    pub(super) fn close(&mut self, env: &mut Env<'_>) {
        for flow in &mut self.flows {
            close_flow(flow, env);
        }
        if let Some(dialling) = self.dialling.take() {
            env.owners.remove(dialling.socket);
            env.host.close(env.now, dialling.socket);
        }
    }

    fn fail(&mut self, why: &str) -> Turn {
        self.state = State::Ended;
        Turn::Failed(why.to_owned())
    }

    /// The next order, after one has returned.
    fn next(&mut self, done: Done, env: &mut Env<'_>) -> Next {
        match self.closing {
            Closing::No => {}
            Closing::Shut => {
                self.closing = Closing::Draining;
                return Next::Do(0, Order::Drain);
            }
            Closing::Draining => return Next::End,
        }
        let next = self.script.resume(
            done,
            &mut Scene {
                now: env.now,
                flows: &mut self.flows,
                session: env.session,
            },
        );
        if matches!(next, Next::Finish) {
            self.closing = Closing::Shut;
            return Next::Do(0, Order::Shutdown);
        }
        next
    }

    fn call(&mut self, on: usize, order: Order, part: Part, env: &mut Env<'_>) -> Call {
        let returned = Call::Returned(Done::default(), 0);
        match order {
            Order::Dial => return self.dial(on, env),
            Order::AwaitData => return self.await_data(env),
            _ => {}
        }
        let flow = &mut self.flows[on];
        let Some(id) = flow.socket else {
            return Call::Failed("the connection is closed".into());
        };
        match order {
            Order::Write(_) | Order::WriteMore(_) | Order::WriteVector(..) | Order::WriteRole => {
                write(flow, id, order, part, env)
            }
            Order::Receive(_) | Order::Read(_) | Order::Drain => read(flow, id, order, part, env),
            Order::AwaitAcknowledged => {
                let waits = env.host.unacked_bytes(id) > 0;
                if waits && flow.failed.is_none() && !env.session.is_stopping() {
                    Call::Sleeping(env.now + LOOK_EVERY)
                } else {
                    Call::Skipped(Done::default())
                }
            }
            Order::AwaitCompleted => await_completed(flow, id, env),
            Order::AwaitRoom(bound, left) => await_room(flow, id, (bound, left), env),
            Order::Cork(on) => {
                let cork = |settings: &mut SocketSettings| settings.small_writes.cork = on;
                env.host.configure(env.now, id, cork);
                returned
            }
            Order::Sleep(at) if at > env.now && !env.session.is_stopping() => Call::Sleeping(at),
            Order::Sleep(at) => Call::Skipped(Done {
                bytes: u64::from(at <= env.now && !env.session.is_stopping()),
                first: None,
            }),
            Order::Shutdown => {
                env.host.shutdown(env.now, id);
                returned
            }
            Order::Dial | Order::AwaitData => unreachable!("dealt with above"),
        }
    }

    fn dial(&mut self, on: usize, env: &mut Env<'_>) -> Call {
        match self.dialling {
            None => match env.host.connect(env.now, env.remote, env.settings.clone()) {
                Ok(socket) => {
                    env.owners.insert(socket, env.own);
                    self.dialling = Some(Dialling {
                        socket,
                        connected: false,
                        failed: None,
                    });
                    Call::Partly(Order::Dial, Part::default(), 0)
                }
                Err(error) => Call::Failed(error.to_string()),
            },
            Some(Dialling {
                failed: Some(failure),
                ..
            }) => Call::Failed(failure.to_string()),
            Some(Dialling {
                socket,
                connected: true,
                ..
            }) => {
                self.dialling = None;
                close_flow(&mut self.flows[on], env);
                self.flows[on].adopt(socket);
                Call::Skipped(Done::default())
            }
            Some(_) => Call::Blocked(Order::Dial, Part::default()),
        }
    }

    fn await_data(&self, env: &Env<'_>) -> Call {
        let has_data = |flow: &Flow| {
            flow.failed.is_some() || flow.socket.is_some_and(|id| env.host.unread_bytes(id) > 0)
        };
        match self.flows.iter().position(has_data) {
            Some(on) => Call::Skipped(Done {
                bytes: on as u64,
                first: None,
            }),
            None => Call::Blocked(Order::AwaitData, Part::default()),
        }
    }
}

fn close_flow(flow: &mut Flow, env: &mut Env<'_>) {
    if let Some(id) = flow.socket.take() {
        env.ledger.close(env.host, id, flow);
        env.owners.remove(id);
        env.host.close(env.now, id);
    }
}

/// Hands over what is left of one write; one that is cut short blocks until there is room again.
fn write(flow: &mut Flow, id: SocketId, order: Order, part: Part, env: &mut Env<'_>) -> Call {
    let (left, piece, more) = match order {
        Order::WriteRole => return write_role(flow, id, env),
        Order::WriteVector(pieces, bytes) => return write_vector(flow, id, pieces, bytes, env),
        Order::WriteMore(bytes) => (bytes, bytes, true),
        Order::Write(bytes) => (bytes, bytes.min(flow.piece_max), false),
        _ => unreachable!("only writes come here"),
    };
    let piece = if part.piece > 0 { part.piece } else { piece };
    let flags = WriteFlags::default()
        .with_more(more)
        .with_no_wait(flow.non_blocking);
    let chunk = pattern::piece(flow.written, piece);
    match env.host.write_chunk(env.now, id, chunk, flags) {
        Ok(taken) => {
            let taken = taken as u64;
            flow.written += taken;
            env.session.on_sent(env.now, taken);
            let part = Part {
                piece: piece - taken,
                ..part
            };
            match (left - taken, more) {
                // What is told to wait for more cannot be waited for.
                (0, true) => Call::Returned(Done::default(), taken),
                (0, false) => completed(flow, id, taken, env),
                (left, true) => Call::Partly(Order::WriteMore(left), part, taken),
                (left, false) => Call::Partly(Order::Write(left), part, taken),
            }
        }
        Err(error) => refused(flow, order, Part { piece, ..part }, error),
    }
}

/// All of a write was taken; one that blocks returns when it is complete, or few enough are not.
fn completed(flow: &Flow, id: SocketId, taken: u64, env: &Env<'_>) -> Call {
    if flow.non_blocking || env.host.incomplete_writes(id) < flow.outstanding {
        Call::Returned(Done::default(), taken)
    } else {
        Call::Partly(Order::AwaitCompleted, Part::default(), taken)
    }
}

/// Waits until some of `left` can be written with at most `bound` bytes unacknowledged.
fn await_room(flow: &Flow, id: SocketId, (bound, left): (base::Bytes, u64), env: &Env<'_>) -> Call {
    let room = unacked_room(bound, env.host.unacked_bytes(id), left);
    let is_over = flow.failed.is_some() || env.session.is_stopping();
    if room == 0 && !is_over {
        return Call::Sleeping(env.now + UNACKED_LOOK);
    }
    // A connection that broke says so when it is written to.
    Call::Skipped(Done {
        bytes: room.max(1),
        first: None,
    })
}

fn await_completed(flow: &Flow, id: SocketId, env: &Env<'_>) -> Call {
    match flow.failed {
        Some(failure) => Call::Failed(failure.to_string()),
        None if env.host.incomplete_writes(id) < flow.outstanding => Call::Skipped(Done::default()),
        None => Call::Blocked(Order::AwaitCompleted, Part::default()),
    }
}

fn refused(flow: &Flow, order: Order, part: Part, error: WriteError) -> Call {
    match error {
        WriteError::Full | WriteError::NotConnected => Call::Blocked(order, part),
        WriteError::Failed(failure) => Call::Failed(failure.to_string()),
        _ => Call::Failed(
            flow.failed
                .map_or_else(|| "it was closed".into(), |failure| failure.to_string()),
        ),
    }
}

fn write_vector(flow: &mut Flow, id: SocketId, pieces: u32, bytes: u64, env: &mut Env<'_>) -> Call {
    let chunks: Vec<Bytes> = (0..u64::from(pieces))
        .map(|index| pattern::piece(flow.written + index * bytes, bytes))
        .collect();
    let flags = WriteFlags::default();
    match env.host.write_vectored(env.now, id, &chunks, flags) {
        Ok(taken) => {
            flow.written += taken as u64;
            env.session.on_sent(env.now, taken as u64);
            match u64::from(pieces) * bytes - taken as u64 {
                0 => completed(flow, id, taken as u64, env),
                left => Call::Partly(Order::Write(left), Part::default(), taken as u64),
            }
        }
        Err(error) => refused(
            flow,
            Order::WriteVector(pieces, bytes),
            Part::default(),
            error,
        ),
    }
}

fn write_role(flow: &Flow, id: SocketId, env: &mut Env<'_>) -> Call {
    let flags = WriteFlags::default();
    match env.host.write_chunk(env.now, id, pattern::role(), flags) {
        Ok(_) => Call::Returned(Done::default(), 1),
        Err(error) => refused(flow, Order::WriteRole, Part::default(), error),
    }
}

/// Reads once, and looks whether it is what was written.
fn read(flow: &mut Flow, id: SocketId, order: Order, part: Part, env: &mut Env<'_>) -> Call {
    let wanted = match order {
        Order::Receive(left) => left.min(CHUNK_BYTES),
        Order::Read(wanted) => wanted.min(CHUNK_BYTES),
        _ => CHUNK_BYTES,
    };
    // Before the read, not again when one that waited goes on: what the host forgot meanwhile stays
    // forgotten until the next one.
    if let Some(on) = flow.quickack.filter(|_| !flow.is_reading) {
        env.host.set_quickack(env.now, id, u32::from(on));
    }
    let read = env.host.read_chunks(env.now, id, wanted as usize);
    flow.is_reading = matches!(read, Err(ReadError::Empty));
    let payload = match read {
        Ok(payload) => payload,
        Err(ReadError::Empty) => return Call::Blocked(order, part),
        Err(ReadError::Failed(failure)) => return Call::Failed(failure.to_string()),
        Err(_) => {
            return Call::Failed(
                flow.failed
                    .map_or_else(|| "it was closed".into(), |failure| failure.to_string()),
            );
        }
    };
    let got = u64::from(payload.len());
    if got == 0 {
        flow.saw_end = true;
        return match order {
            Order::Receive(_) if part.read > 0 => Call::Failed("closed in a message".into()),
            _ => Call::Returned(Done::default(), 0),
        };
    }
    // Commands are single bytes; the memory of the rest was not touched yet.
    let first = (got == 1).then(|| payload.chunks()[0][0]);
    if flow.read == 0 && wanted == 1 && first.is_some_and(pattern::asks_to_send) {
        // No payload: the client says what this connection is for.
        return Call::Returned(Done { bytes: got, first }, got);
    }
    if env.checks_payload {
        check(flow, &payload);
    }
    flow.read += got;
    env.session.on_received(env.now, got);
    let read = part.read + got;
    let part = Part { read, ..part };
    match order {
        Order::Receive(left) if left > got => Call::Partly(Order::Receive(left - got), part, got),
        Order::Drain => Call::Partly(order, part, got),
        _ => Call::Returned(Done { bytes: read, first }, got),
    }
}

/// # Panics
/// Where the stack delivered other bytes than were written: then nothing it says can be believed.
fn check(flow: &Flow, payload: &Payload) {
    let mut offset = flow.read;
    for chunk in payload.chunks() {
        assert!(
            pattern::is_at(offset, chunk),
            "{} bytes at offset {offset} of a stream are not those that were written",
            chunk.len()
        );
        offset += chunk.len() as u64;
    }
}
