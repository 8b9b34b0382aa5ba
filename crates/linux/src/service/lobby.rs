//! Connections at their opening, all on one thread: what each says first is read as it comes, in
//! bounded memory and within one time for all of it. A connection costs a descriptor and less than
//! a hundred bytes here, and a thread only when it has shown the key.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use base::Instant;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, recv};

use super::admission::{Offence, Source};
use super::opening::{HELLO_BYTES, may_be_hello};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::workload::OPENING_BYTES;

/// Time for the opening of a connection, to its last byte.
pub(super) const OPENING_TIMEOUT: Duration = Duration::from_secs(5);
/// Connections that are taken from the kernel before those that wait are looked at.
const ACCEPTED_MAX: usize = 64;
/// Time that nothing is accepted after the kernel ran out of something.
const SHORTAGE_PAUSE: Duration = Duration::from_millis(100);

/// A connection that has not said all of its opening.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) stream: TcpStream,
    pub(super) remote: SocketAddr,
    pub(super) began: Instant,
    heard: [u8; HELLO_BYTES],
    length: usize,
}

/// Outcome of an opening.
pub(super) enum Opened {
    /// Opened with a zero and this token.
    Token([u8; OPENING_BYTES - 1]),
    /// Sent this hello.
    Hello(Box<[u8; HELLO_BYTES]>),
    /// Left without sending anything, as port scanners do.
    Left,
    /// Not one of our clients.
    Failed(Offence, &'static str),
}

impl Waiting {
    /// Reads what is there, never beyond the opening.
    fn read(&mut self) -> Option<Opened> {
        loop {
            let whole = match self.heard[..self.length].first() {
                None => 1,
                Some(0) => OPENING_BYTES,
                Some(_) => HELLO_BYTES,
            };
            let rest = &mut self.heard[self.length..whole];
            match recv(&self.stream, rest, RecvFlags::DONTWAIT) {
                Ok((0, _)) if self.length == 0 => return Some(Opened::Left),
                Ok((0, _)) => return Some(Opened::Failed(Offence::NoAuth, "left at once")),
                Ok((got, _)) => self.length += got,
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return None,
                Err(_) => return Some(Opened::Failed(Offence::NoAuth, "broke off")),
            }
            match (self.heard[0], self.length) {
                (0, OPENING_BYTES) => {
                    let mut token = [0; OPENING_BYTES - 1];
                    token.copy_from_slice(&self.heard[1..OPENING_BYTES]);
                    return Some(Opened::Token(token));
                }
                (0, _) => {}
                (_, length) if !may_be_hello(&self.heard[..length]) => {
                    return Some(Opened::Failed(Offence::NoAuth, "not a tcptailor client"));
                }
                (_, HELLO_BYTES) => return Some(Opened::Hello(Box::new(self.heard))),
                _ => {}
            }
        }
    }
}

/// The server's side of a lobby.
pub(super) trait Host {
    /// Whether new connections are rejected.
    fn is_stopping(&self) -> bool;
    /// A connection has come. `None` where it may not wait; else which of those that wait goes.
    fn handle_arrival(&self, remote: SocketAddr, stream: &TcpStream) -> Option<Room>;
    /// The opening of a connection is over.
    fn handle_opened(&self, waiting: Waiting, opened: Opened);
    /// A connection gave its place to another one.
    fn handle_displaced(&self, waiting: Waiting);
}

/// Source of room for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// There is enough.
    Free,
    /// From the one that stands there in the order of arrival, by a random number.
    OfAny(u32),
    /// From the first one of the same address.
    OfSource(Source),
}

/// Reads openings until the host stops.
///
/// # Errors
/// Where the kernel gives no more connections.
pub(super) fn run(listener: &TcpListener, host: &dyn Host) -> Result<()> {
    listener
        .set_nonblocking(true)
        .map_err(Error::os("O_NONBLOCK"))?;
    // In the order of arrival.
    let mut waiting: Vec<Waiting> = Vec::new();
    let mut accept_after = Instant::ZERO;
    while !host.is_stopping() {
        let now = Clock.now();
        let accepts = now >= accept_after;
        let ready = wait(listener, &waiting, accepts, accept_after)?;
        if host.is_stopping() {
            return Ok(());
        }
        let mut at = 0;
        // Those that are ready, before newcomers may take their places.
        waiting = waiting
            .into_iter()
            .filter_map(|mut one| {
                let is_ready = ready.get(1 + at).copied().unwrap_or(false);
                at += 1;
                match is_ready.then(|| one.read()).flatten() {
                    None => Some(one),
                    Some(opened) => {
                        host.handle_opened(one, opened);
                        None
                    }
                }
            })
            .collect();
        let now = Clock.now();
        let late = waiting
            .iter()
            .take_while(|one| now.since(one.began) >= OPENING_TIMEOUT)
            .count();
        for one in waiting.drain(..late) {
            let what = "did not open the connection in time";
            host.handle_opened(one, Opened::Failed(Offence::GraceExceeded, what));
        }
        if ready[0] && accepts && !accept_some(listener, host, &mut waiting)? {
            accept_after = Clock.now() + SHORTAGE_PAUSE;
        }
    }
    Ok(())
}

/// Waits until something is to be read or accepted, or is late. The first answer is the listener's.
fn wait(
    listener: &TcpListener,
    waiting: &[Waiting],
    accepts: bool,
    accept_after: Instant,
) -> Result<Vec<bool>> {
    // A listener that is shut down wakes with an error, whatever was asked for.
    let asked = if accepts {
        PollFlags::IN
    } else {
        PollFlags::empty()
    };
    let listening = [PollFd::from_borrowed_fd(listener.as_fd(), asked)];
    let reading = waiting
        .iter()
        .map(|one| PollFd::new(&one.stream, PollFlags::IN));
    let mut polled: Vec<PollFd<'_>> = listening.into_iter().chain(reading).collect();
    let mut until = waiting.first().map(|one| one.began + OPENING_TIMEOUT);
    if !accepts {
        until = Some(until.map_or(accept_after, |until| until.min(accept_after)));
    }
    let left = until.map(|until| until.since(Clock.now()));
    let left = left.and_then(|left| Timespec::try_from(left).ok());
    match poll(&mut polled, left.as_ref()) {
        Ok(_) => Ok(polled.iter().map(|one| !one.revents().is_empty()).collect()),
        Err(rustix::io::Errno::INTR) => Ok(vec![false; polled.len()]),
        Err(error) => Err(Error::errno("poll")(error)),
    }
}

/// Takes connections from the kernel; `false` where it is short of something.
fn accept_some(
    listener: &TcpListener,
    host: &dyn Host,
    waiting: &mut Vec<Waiting>,
) -> Result<bool> {
    for _ in 0..ACCEPTED_MAX {
        let (stream, remote) = match listener.accept() {
            Ok(accepted) => accepted,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(true),
            Err(error) if is_shortage(&error) => return Ok(false),
            Err(error) if is_lost(&error) || host.is_stopping() => continue,
            Err(error) => return Err(Error::os("accept")(error)),
        };
        let Some(room) = host.handle_arrival(remote, &stream) else {
            continue;
        };
        let displaced = match room {
            Room::Free => None,
            Room::OfAny(number) if waiting.is_empty() => {
                // All places are of those whose answer is being computed.
                let _ = number;
                None
            }
            Room::OfAny(number) => Some(number as usize % waiting.len()),
            Room::OfSource(source) => waiting
                .iter()
                .position(|one| Source::from(one.remote.ip()) == source),
        };
        let mut one = Waiting {
            stream,
            remote,
            began: Clock.now(),
            heard: [0; HELLO_BYTES],
            length: 0,
        };
        if let Some(index) = displaced {
            host.handle_displaced(waiting.remove(index));
        } else if room != Room::Free {
            host.handle_displaced(one);
            continue;
        }
        // What came with the connection is there already.
        match one.read() {
            None => waiting.push(one),
            Some(opened) => host.handle_opened(one, opened),
        }
    }
    Ok(true)
}

fn is_shortage(error: &std::io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)
    )
}

/// Whether only the connection is lost that was to be accepted. accept(2): Linux hands over what
/// the network has said about it, to be treated like EAGAIN.
fn is_lost(error: &std::io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(
            libc::ECONNABORTED
                | libc::EINTR
                | libc::ENETDOWN
                | libc::EPROTO
                | libc::ENOPROTOOPT
                | libc::EHOSTDOWN
                | libc::ENONET
                | libc::EHOSTUNREACH
                | libc::EOPNOTSUPP
                | libc::ENETUNREACH
        )
    )
}
