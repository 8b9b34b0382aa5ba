//! The client's side: opens the connections and begins.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::channel;
use std::time::Duration;

use base::Instant;
use lab::{Direction, Workload};

use super::flow::Flow;
use super::measure::{Interval, Summary};
use super::request::{self, Exchange, Pieces, WriteStyle};
use super::server::{GREETING, Token};
use super::session::{Session, Ticket, start};
use super::socket::{congestion_of, flow_error};
use super::{Reconnect, RunSpec, SERVER_SENDS, bulk, bursts, quotes, reconnects, records};
use crate::clock::Clock;
use crate::error::{Error, Result};

/// Connections that are opened at the same time: a server lets an address have twice as many in
/// their handshake, and others may be behind it.
const OPENED_AT_ONCE: u32 = 4;

/// Address of a workload's server.
#[derive(Clone, Copy, Debug)]
pub struct Remote {
    /// Its data address.
    pub address: SocketAddr,
    /// Token that opens each connection, where the server requires it.
    pub token: Option<Token>,
    /// Time within which it must answer.
    pub timeout: Duration,
}

/// Runs the client's side to its end and hands over a report every interval.
///
/// # Errors
/// Where the server refuses, vanishes or closes early, or an option is refused.
pub fn run_client(
    spec: &RunSpec,
    remote: &Remote,
    session: &Session,
    on_interval: &mut dyn FnMut(&Interval),
) -> Result<Summary> {
    let run = Client {
        spec,
        remote,
        session,
    };
    let connect_began = Clock.now();
    let flows = run.open()?;
    let congestion = flows
        .first()
        .map_or_else(String::new, |flow| congestion_of(&*flow.stream));
    let connect = || run.connect().map_err(io::Error::other);
    let reconnect = reconnects(&spec.workload).then(|| Reconnect {
        opening: remote.token.map_or_else(Vec::new, |token| token.opening()),
        connect_began,
        connect: &connect,
    });
    let schedule = spec.schedule(true);
    session.prepare(&schedule);
    let summary = std::thread::scope(|scope| {
        let mut flows = flows.into_iter();
        let mut index = 0;
        while let Some(mut flow) = flows.next() {
            let partner = (spec.workload.connections_per_thread() == 2)
                .then(|| flows.next())
                .flatten();
            let (run, reconnect, ticket) = (&run, reconnect.as_ref(), session.enter());
            let play = move || run.play(&mut flow, partner, index, reconnect, ticket);
            if let Err(error) = start(scope, play) {
                session.fail(error);
                break;
            }
            index += 1;
        }
        // Where a thread did not start, those without one end here.
        drop(flows);
        session.watch(&schedule, on_interval)
    })?;
    Ok(Summary {
        congestion,
        sent: session.sent(),
        silence_max_us: session.silence_max_us(),
        ..summary
    })
}

struct Client<'r> {
    spec: &'r RunSpec,
    remote: &'r Remote,
    session: &'r Session,
}

impl<'r> Client<'r> {
    /// Opens what the workload needs at its start, several at a time: each takes two round trips.
    fn open(&self) -> Result<Vec<Flow<'r>>> {
        let deadline = Clock.now() + 2 * self.remote.timeout;
        // The server makes pairs of connections in the order in which they come.
        let at_once = match self.spec.workload.connections_per_thread() {
            1 => OPENED_AT_ONCE,
            _ => 1,
        };
        let mut left = super::connections(&self.spec.workload);
        let mut flows = Vec::new();
        while left > 0 {
            let some = left.min(at_once);
            left -= some;
            for stream in self.open_some(some, deadline) {
                let amount = self.spec.workload.amount();
                let flow = Flow::new(self.session, &self.spec.sockets, amount, stream?);
                flows.push(flow);
            }
        }
        Ok(flows)
    }

    /// Opens this many connections at once.
    fn open_some(&self, count: u32, deadline: Instant) -> Vec<Result<TcpStream>> {
        let (opened, results) = channel();
        std::thread::scope(|scope| {
            for _ in 1..count {
                let told = opened.clone();
                let open = move || drop(told.send(self.open_one(deadline)));
                if let Err(error) = start(scope, open) {
                    drop(opened.send(Err(error)));
                }
            }
            drop(opened.send(self.open_one(deadline)));
        });
        drop(opened);
        results.into_iter().collect()
    }

    fn open_one(&self, deadline: Instant) -> Result<TcpStream> {
        let address = self.remote.address;
        if self.session.is_stopping() {
            return Err(self.session.take_failure().unwrap_or_else(|| {
                Error::Peer(format!(
                    "the run with {address} was stopped before its connections were open"
                ))
            }));
        }
        if Clock.now() >= deadline {
            return Err(Error::Peer(format!(
                "{address} takes too long to answer its data connections: with a smaller -P there \
                 are fewer"
            )));
        }
        let stream = self.connect()?;
        if let (Some(token), false) = (self.remote.token, reconnects(&self.spec.workload)) {
            greet(&stream, token, self.remote)?;
        }
        Ok(stream)
    }

    fn connect(&self) -> Result<TcpStream> {
        self.spec
            .sockets
            .connect(self.remote.address, self.remote.timeout)
    }

    /// Runs one flow and reports what went wrong.
    fn play(
        &self,
        flow: &mut Flow<'r>,
        partner: Option<Flow<'r>>,
        index: u32,
        reconnect: Option<&Reconnect<'_>>,
        ticket: Ticket<'_>,
    ) {
        let outcome = self.converse(flow, partner, index, reconnect);
        if let (Err(error), false) = (outcome, self.session.is_stopping()) {
            self.session
                .fail(flow_error(Some(self.remote.address), error));
        }
        drop(ticket);
    }

    // tidy: long because it is one table, an arm per workload.
    fn converse(
        &self,
        flow: &mut Flow<'r>,
        partner: Option<Flow<'r>>,
        index: u32,
        reconnect: Option<&Reconnect<'_>>,
    ) -> io::Result<()> {
        match (&self.spec.workload, reconnect, partner) {
            (Workload::Bulk { .. } | Workload::SlowReader { .. }, ..) => self.stream(flow, index),
            (
                Workload::Paced {
                    rate, write_size, ..
                },
                ..,
            ) => bulk::send_paced(flow, write_size.0, *rate),
            (
                Workload::RequestResponse {
                    request, response, ..
                },
                ..,
            ) => request::ask(flow, exchange(request.0, response.0)),
            (
                Workload::ConnectRequestClose {
                    request, response, ..
                },
                Some(reconnect),
                _,
            ) => request::ask_anew(flow, exchange(request.0, response.0), reconnect),
            (
                Workload::WriteWriteRead {
                    writes,
                    write_size,
                    pieces: sizes,
                    reply,
                    method,
                    uncork_after,
                    ..
                },
                ..,
            ) => {
                let pieces = Pieces {
                    sizes,
                    ..pieces(*writes, write_size.0)
                };
                let style = WriteStyle {
                    method: *method,
                    uncork_after: *uncork_after,
                };
                request::ask_in_pieces(flow, pieces, reply.0, style)
            }
            (Workload::Records(records), ..) => records::send(flow, records),
            (Workload::Quotes(quotes), _, mut hear) => quotes::ask(flow, hear.as_mut(), quotes),
            (Workload::Bursts { burst, idle, .. }, reconnect, _) => {
                let burst = bursts::Burst {
                    bytes: burst.0,
                    idle: *idle,
                };
                bursts::send(flow, burst, reconnect)
            }
            (Workload::ConnectRequestClose { .. }, None, _) => {
                unreachable!("reconnects follow from the workload")
            }
        }
    }

    /// Bulk in either direction; into a slow reader always up.
    fn stream(&self, flow: &mut Flow<'r>, index: u32) -> io::Result<()> {
        let (direction, flows, write_size, unacked) = match self.spec.workload {
            Workload::Bulk {
                direction,
                flows,
                write_size,
                unacked,
                ..
            } => (direction, flows, write_size.0, unacked),
            _ => (Direction::Up, 1, super::flow::CHUNK_BYTES as u64, None),
        };
        match direction {
            Direction::Up => bulk::send(flow, write_size, unacked),
            Direction::Down => bulk::receive(flow),
            Direction::Both if index < flows => bulk::send(flow, write_size, unacked),
            Direction::Both => {
                (&*flow.stream).write_all(&[SERVER_SENDS])?;
                bulk::receive(flow)
            }
        }
    }
}

/// Shows the token and waits until the server accepts it.
fn greet(mut stream: &TcpStream, token: Token, remote: &Remote) -> Result<()> {
    let refused = |error: io::Error| match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Error::Peer(format!(
            "{} does not answer on its data connection within {}",
            remote.address,
            base::format_duration(remote.timeout)
        )),
        _ => flow_error(Some(remote.address), error),
    };
    stream
        .set_read_timeout(Some(remote.timeout))
        .map_err(refused)?;
    stream.write_all(&token.opening()).map_err(refused)?;
    let mut answer = [0];
    stream.read_exact(&mut answer).map_err(refused)?;
    stream.set_read_timeout(None).map_err(refused)?;
    if answer == GREETING {
        Ok(())
    } else {
        Err(Error::Peer(format!(
            "{} does not speak the protocol of tcptailor",
            remote.address
        )))
    }
}

pub(super) const fn exchange(request: u64, response: u64) -> Exchange {
    Exchange { request, response }
}

pub(super) const fn pieces(count: u32, bytes: u64) -> Pieces<'static> {
    Pieces {
        count,
        bytes,
        sizes: &[],
    }
}
