//! The server's side: takes connections and answers.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::Scope;
use std::time::Duration;

use base::Bytes;
use lab::{Direction, Workload};

use super::client::exchange;
use super::flow::{CHUNK_BYTES, Flow};
use super::measure::{Interval, Summary};
use super::session::{Session, start};
use super::socket::{congestion_of, flow_error, read_exact_by};
use super::{
    RunSpec, SERVER_SENDS, bulk, bursts, connections, quotes, reconnects, records, request,
};
use crate::clock::Clock;
use crate::error::{Error, Result};

/// Bytes with which a data connection of `serve` begins: a zero and the token.
pub const OPENING_BYTES: usize = 17;
/// Time for the opening at the listener of one run: a client must not block it by withholding its
/// token.
const OPENING_TIME_MAX: Duration = Duration::from_secs(2);
/// The answer to a token.
pub(super) const GREETING: [u8; 1] = [6];
/// Interval of checks whether a session without connections has ended.
const IDLE_LOOK: Duration = Duration::from_millis(100);

/// Secret of the client of one run; opens that run's data connections.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Token(pub [u8; 16]);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(..)")
    }
}

impl Token {
    /// The first bytes of a data connection.
    #[must_use]
    pub fn opening(self) -> Vec<u8> {
        [&[0][..], &self.0].concat()
    }
}

/// Admits the data connections of a run.
#[derive(Clone, Copy, Debug)]
pub struct Gate {
    /// The token that must come first.
    pub token: Token,
    /// The client's address.
    pub client: IpAddr,
}

/// Source of a server's connections.
#[derive(Debug)]
pub enum Source {
    /// A listener that accepts all clients, one after the other, until it is told to stop.
    Everybody(TcpListener),
    /// A listener of one run behind a gate.
    Gated(TcpListener, Gate),
    /// Connections that were admitted elsewhere.
    Queue(Receiver<TcpStream>),
}

/// Runs the server's side and hands over a report every interval. It ends when it is told to, or,
/// unless it accepts all clients, when all connections that the workload opens have ended.
///
/// # Errors
/// Where a connection breaks before the end of the run, or an option is refused.
pub fn run_server(
    spec: &RunSpec,
    source: Source,
    session: &Session,
    on_interval: &mut dyn FnMut(&Interval),
) -> Result<Summary> {
    let entry = Entry::new(source, session);
    let run = Server {
        spec,
        session,
        repeat: matches!(entry, Entry::Listener { gate: None, .. }),
        congestion: std::sync::OnceLock::new(),
    };
    let schedule = spec.schedule(false);
    session.prepare(&schedule);
    session.set_accepting(true);
    let summary = std::thread::scope(|scope| {
        let run = &run;
        let attending = start(scope, move || {
            let outcome = run.attend(&entry, scope);
            if let (Err(error), false) = (outcome, session.is_stopping()) {
                session.fail(error);
            }
            session.set_accepting(false);
        });
        if let Err(error) = attending {
            session.fail(error);
            session.set_accepting(false);
        }
        session.watch(&schedule, on_interval)
    })?;
    Ok(Summary {
        congestion: run.congestion.into_inner().unwrap_or_default(),
        sent: session.sent(),
        silence_max_us: session.silence_max_us(),
        ..summary
    })
}

/// A [`Source`] whose listener the session can wake.
enum Entry {
    Listener {
        listener: Arc<TcpListener>,
        gate: Option<Gate>,
    },
    Queue(Receiver<TcpStream>),
}

impl Entry {
    fn new(source: Source, session: &Session) -> Self {
        let (listener, gate) = match source {
            Source::Everybody(listener) => (listener, None),
            Source::Gated(listener, gate) => (listener, Some(gate)),
            Source::Queue(queue) => return Self::Queue(queue),
        };
        let listener = Arc::new(listener);
        session.watch_listener(&listener);
        Self::Listener { listener, gate }
    }

    /// The next connection; `None` where the session has ended.
    fn next(&self, run: &Server<'_>) -> Result<Option<TcpStream>> {
        while !run.session.is_stopping() {
            match self {
                Self::Listener { listener, gate } => match listener.accept() {
                    Ok((stream, remote)) => {
                        if let Some(stream) = run.admit(stream, remote, gate.as_ref())? {
                            return Ok(Some(stream));
                        }
                    }
                    Err(error) if is_passing(&error) => {}
                    Err(_) if run.session.is_stopping() => {}
                    Err(error) => return Err(Error::os("accept")(error)),
                },
                Self::Queue(queue) => match queue.recv_timeout(IDLE_LOOK) {
                    Ok(stream) => {
                        run.spec.sockets.apply_all(&stream)?;
                        run.greet(&stream)?;
                        return Ok(Some(stream));
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return Ok(None),
                },
            }
        }
        Ok(None)
    }
}

struct Server<'r> {
    spec: &'r RunSpec,
    session: &'r Session,
    /// Clients come one after the other; one that breaks off does not matter.
    repeat: bool,
    congestion: std::sync::OnceLock<String>,
}

impl<'r> Server<'r> {
    /// Takes connections and starts a thread for each, or serves them one by one.
    fn attend<'scope>(&'scope self, entry: &Entry, scope: &'scope Scope<'scope, '_>) -> Result<()> {
        if reconnects(&self.spec.workload) {
            return self.attend_one_by_one(entry);
        }
        let mut left = connections(&self.spec.workload);
        let mut waiting = None;
        let mut all = Vec::new();
        while left > 0 {
            let Some(stream) = entry.next(self)? else {
                return Ok(());
            };
            if !self.repeat {
                left -= 1;
            }
            let flow = self.flow(stream);
            let partner = if self.spec.workload.connections_per_thread() == 2 {
                // The second connection completes the pair.
                match waiting.take() {
                    Some(partner) => Some(partner),
                    None => {
                        waiting = Some(flow);
                        continue;
                    }
                }
            } else {
                None
            };
            if self.repeat {
                self.begin(flow, partner, scope)?;
            } else {
                all.push((flow, partner));
            }
        }
        // The client begins when all are open: time before that is not of the run.
        self.await_client(&all)?;
        for (flow, partner) in all {
            self.begin(flow, partner, scope)?;
        }
        Ok(())
    }

    fn begin<'scope>(
        &'scope self,
        mut flow: Flow<'r>,
        partner: Option<Flow<'r>>,
        scope: &'scope Scope<'scope, '_>,
    ) -> Result<()> {
        let ticket = self.session.enter();
        start(scope, move || {
            let outcome = self.converse(&mut flow, partner);
            self.report(&flow, outcome);
            drop(ticket);
        })
    }

    /// Waits for the client's first byte, unless this end sends first.
    fn await_client(&self, flows: &[(Flow<'_>, Option<Flow<'_>>)]) -> Result<()> {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let sends_first = matches!(
            self.spec.workload,
            Workload::Bulk {
                direction: Direction::Down,
                ..
            }
        );
        let each = flows.iter();
        let all = each.flat_map(|(flow, partner)| std::iter::once(flow).chain(partner));
        let mut polled: Vec<PollFd<'_>> = all
            .map(|flow| PollFd::new(&*flow.stream, PollFlags::IN))
            .collect();
        let look = Timespec {
            tv_sec: 0,
            tv_nsec: i64::from(IDLE_LOOK.subsec_nanos()),
        };
        while !sends_first && !polled.is_empty() && !self.session.is_stopping() {
            match poll(&mut polled, Some(&look)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => break,
                Err(error) => return Err(Error::os("poll")(error.into())),
            }
        }
        Ok(())
    }

    /// For clients that open a connection per operation: there is one at a time.
    fn attend_one_by_one(&self, entry: &Entry) -> Result<()> {
        let Some(stream) = entry.next(self)? else {
            return Ok(());
        };
        let _ticket = self.session.enter();
        let mut flow = self.flow(stream);
        loop {
            let outcome = match &self.spec.workload {
                Workload::ConnectRequestClose {
                    request, response, ..
                } => request::answer_once(&mut flow, exchange(request.0, response.0)),
                _ => bursts::receive(&mut flow, burst_of(&self.spec.workload)),
            };
            // The client waits for this end before it goes on.
            let outcome = outcome.and_then(|()| flow.stream.shutdown(Shutdown::Write));
            self.report(&flow, outcome);
            let Some(stream) = entry.next(self)? else {
                return Ok(());
            };
            flow.adopt(stream);
        }
    }

    fn flow(&self, stream: TcpStream) -> Flow<'r> {
        self.congestion.get_or_init(|| congestion_of(&stream));
        let amount = self.spec.workload.amount();
        Flow::new(self.session, &self.spec.sockets, amount, stream)
    }

    fn report(&self, flow: &Flow<'_>, outcome: io::Result<()>) {
        if let (Err(error), false) = (outcome, self.repeat || self.session.is_over()) {
            self.session.fail(flow.error(error));
        }
    }

    fn converse(&self, flow: &mut Flow<'r>, partner: Option<Flow<'r>>) -> io::Result<()> {
        match (&self.spec.workload, partner) {
            (
                Workload::Bulk {
                    direction,
                    write_size,
                    unacked,
                    ..
                },
                _,
            ) => self.stream(flow, *direction, write_size.0, *unacked),
            (
                Workload::SlowReader {
                    read_size, every, ..
                },
                _,
            ) => bulk::receive_slowly(flow, read_size.0, *every),
            (Workload::Paced { .. }, _) => bulk::receive(flow),
            (Workload::Records(records), _) => records::receive(flow, records),
            (
                Workload::RequestResponse {
                    request, response, ..
                }
                | Workload::ConnectRequestClose {
                    request, response, ..
                },
                _,
            ) => request::answer(flow, exchange(request.0, response.0)),
            (workload @ Workload::WriteWriteRead { reply, .. }, _) => {
                let request = workload.message_bytes().unwrap_or(0);
                request::answer(flow, exchange(request, reply.0))
            }
            (Workload::Bursts { .. }, _) => bursts::receive(flow, burst_of(&self.spec.workload)),
            (Workload::Quotes(quotes), Some(mut partner)) => {
                // The client's first bytes tell which connection carries the requests.
                let (hear, tell) = if has_data_first(flow, &partner)? {
                    (flow, &mut partner)
                } else {
                    (&mut partner, flow)
                };
                quotes::answer(hear, Some(tell), quotes)
            }
            (Workload::Quotes(quotes), None) => quotes::answer(flow, None, quotes),
        }
    }

    fn stream(
        &self,
        flow: &mut Flow<'r>,
        direction: Direction,
        write_size: u64,
        unacked: Option<Bytes>,
    ) -> io::Result<()> {
        let sends = match direction {
            Direction::Up => false,
            Direction::Down => true,
            Direction::Both => takes_role(&flow.stream)?,
        };
        if sends {
            flow.end_after(self.spec.warmup);
            bulk::send(flow, write_size, unacked)
        } else {
            bulk::receive(flow)
        }
    }

    /// Finishes an accepted socket; `None` where the gate keeps it out.
    fn admit(
        &self,
        stream: TcpStream,
        remote: SocketAddr,
        gate: Option<&Gate>,
    ) -> Result<Option<TcpStream>> {
        if let Some(gate) = gate {
            let mut opening = [0; OPENING_BYTES];
            let from_client = remote.ip().to_canonical() == gate.client.to_canonical();
            let admitted = from_client
                && read_exact_by(&stream, &mut opening, Clock.now() + OPENING_TIME_MAX).is_ok()
                && opening[..] == gate.token.opening()[..];
            if !admitted {
                return Ok(None);
            }
            self.greet(&stream)?;
        }
        self.spec.sockets.finish_accepted(&stream)?;
        Ok(Some(stream))
    }

    /// Answers the token, and lets reads take as long as they need from here on.
    fn greet(&self, mut stream: &TcpStream) -> Result<()> {
        let remote = stream.peer_addr().ok();
        let failed = |error| flow_error(remote, error);
        stream.set_read_timeout(None).map_err(failed)?;
        if reconnects(&self.spec.workload) {
            // An answer would be one more packet in each operation.
            return Ok(());
        }
        stream.write_all(&GREETING).map_err(failed)
    }
}

fn burst_of(workload: &Workload) -> bursts::Burst {
    match workload {
        Workload::Bursts { burst, idle, .. } => bursts::Burst {
            bytes: burst.0,
            idle: *idle,
        },
        _ => bursts::Burst {
            bytes: CHUNK_BYTES as u64,
            idle: Duration::ZERO,
        },
    }
}

/// Whether the first byte of the connection asks the server to send; only then it is taken.
fn takes_role(mut stream: &TcpStream) -> io::Result<bool> {
    let mut first = [0];
    if stream.peek(&mut first)? == 1 && first == [SERVER_SENDS] {
        stream.read_exact(&mut first)?;
        return Ok(true);
    }
    Ok(false)
}

/// Waits for data on one of two connections; whether it came on `one`.
fn has_data_first(one: &Flow<'_>, other: &Flow<'_>) -> io::Result<bool> {
    use rustix::event::{PollFd, PollFlags, poll};
    let mut polled = [
        PollFd::new(&*one.stream, PollFlags::IN),
        PollFd::new(&*other.stream, PollFlags::IN),
    ];
    poll(&mut polled, None)?;
    Ok(!polled[0].revents().is_empty())
}

/// Errors of `accept` after which the next one may succeed: a timeout of the listener, or a
/// connection that was gone before it was taken.
fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock
            | io::ErrorKind::Interrupted
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::TimedOut
    )
}
