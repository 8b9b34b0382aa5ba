//! A few pages over HTTP/1.1, for who collects metrics: a `GET` each, on one thread, in bounded
//! memory and time whatever clients do.
//!
//! Never reads a body, keeps a connection open, or looks at another header than `Host`: a request
//! is its first line.
//! A library for HTTP brings an asynchronous runtime or a thread for each client; what is needed
//! here is less than what it would take to bound those.

mod request;

use std::cell::RefCell;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use base::Instant;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use socket2::{Domain, Protocol, Socket, Type};

use self::request::{HEAD_BYTES_MAX, Read, is_for_named_host, read_head};
use crate::clock::Clock;
use crate::error::{Error, Result};

pub use self::request::Status;

/// Connections at once. Of more the oldest gives way: who is honest has its answer in
/// milliseconds, and these are enough for some at the pace of [`ACCEPTED_PER_SECOND`].
pub const CONNECTIONS_MAX: usize = 256;
/// Connections that are taken from the kernel in a second, evenly over it. The others wait in its
/// queue, in turn, so that a flood costs no more than this many. Fewer would be slower to empty the
/// queue than a few clients that connect again and again are to fill it, and then the kernel drops
/// whose turn would be next.
pub const ACCEPTED_PER_SECOND: u32 = 5_000;
/// Those of a second are taken in portions of this time, so that none waits for the next second.
const PORTION: Duration = Duration::from_millis(10);
const PORTIONS_PER_SECOND: u32 = 100;
/// Connections that are taken before those that wait are looked at.
const ACCEPTED_AT_ONCE: usize = 16;
/// A page younger than this is not made anew: a flood costs a few pages, however many ask.
const PAGE_AGE_MAX: Duration = Duration::from_millis(100);
/// From the opening of a connection to the last byte of the answer.
pub const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(5);
/// Connections that wait in the kernel.
const BACKLOG: i32 = 1024;
/// How long a request to stop may go unseen.
const STOP_CHECK: Duration = Duration::from_millis(200);
/// Bytes read and discarded after a request: a connection closed with unread data is reset, which
/// may destroy the response.
const DRAINED_BYTES_MAX: usize = 64 * 1024;

/// A page that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Status; [`Status::Ok`] nearly always.
    pub status: Status,
    /// The media type of the text.
    pub content_type: &'static str,
    /// The text.
    pub body: String,
}

/// Counters of connections since the server began.
#[derive(Debug, Default)]
pub struct HttpCounts {
    answered: [AtomicU64; Status::ALL.len()],
    dropped: AtomicU64,
}

impl HttpCounts {
    /// Requests that were answered with this status.
    #[must_use]
    pub fn answered(&self, status: Status) -> u64 {
        self.answered[status as usize].load(Ordering::Relaxed)
    }

    /// Connections that were closed without a whole answer: too slow, or too many at once.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// A socket that listens for requests.
#[derive(Debug)]
pub struct HttpServer {
    listener: TcpListener,
}

impl HttpServer {
    /// Listens on this address and no other; port 0 lets the kernel choose one.
    ///
    /// # Errors
    /// Where another program listens there, the host does not have the address, or a port below
    /// 1024 needs a permission.
    pub fn bind(address: SocketAddr) -> Result<Self> {
        let listen = || {
            let socket = Socket::new(
                Domain::for_address(address),
                Type::STREAM,
                Some(Protocol::TCP),
            )?;
            socket.set_reuse_address(true)?;
            socket.bind(&address.into())?;
            socket.listen(BACKLOG)?;
            socket.set_nonblocking(true)?;
            Ok(socket.into())
        };
        let listener = listen().map_err(Error::os(format!("listen on {address}")))?;
        Ok(Self { listener })
    }

    /// Local address.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn address(&self) -> Result<SocketAddr> {
        self.listener.local_addr().map_err(Error::os("getsockname"))
    }

    /// Answers until `stop` is true. `page` is asked for each path and gives `None` for those that
    /// do not exist.
    ///
    /// # Errors
    /// Where the kernel does not let wait for connections any more.
    pub fn run(
        &self,
        stop: &AtomicBool,
        counts: &HttpCounts,
        page: &dyn Fn(&str) -> Option<Page>,
    ) -> Result<()> {
        let pages = Pages {
            is_loopback: self.address()?.ip().is_loopback(),
            counts,
            page,
            made: RefCell::default(),
        };
        let mut exchanges: Vec<Exchange> = Vec::new();
        let mut quota = Quota::new(Clock.now());
        while !stop.load(Ordering::Relaxed) {
            let accepts = quota.is_open(Clock.now());
            let pause = if accepts { STOP_CHECK } else { PORTION };
            let ready = self.wait(&exchanges, accepts, pause)?;
            let now = Clock.now();
            let mut ready = ready.into_iter();
            let has_arrivals = ready.next().unwrap_or(false);
            exchanges.retain_mut(|exchange| {
                let is_ready = ready.next().unwrap_or(false);
                let step = match exchange.is_late(now) {
                    true => Step::Broken,
                    false if is_ready => exchange.handle_ready(&pages),
                    false => Step::Waits,
                };
                exchange.note(step, counts)
            });
            if has_arrivals && accepts {
                self.accept_some(&mut exchanges, &mut quota, counts);
            }
        }
        Ok(())
    }

    /// Takes a few connections; others are taken after those that wait were looked at.
    fn accept_some(&self, exchanges: &mut Vec<Exchange>, quota: &mut Quota, counts: &HttpCounts) {
        for _ in 0..ACCEPTED_AT_ONCE {
            if !quota.is_open(Clock.now()) || !self.accept(exchanges, quota, counts) {
                return;
            }
        }
    }

    /// Takes one connection; returns whether there may be more.
    fn accept(
        &self,
        exchanges: &mut Vec<Exchange>,
        quota: &mut Quota,
        counts: &HttpCounts,
    ) -> bool {
        // Also one that is lost already, or for which the kernel has no descriptor, counts: its
        // queue is asked again only at the pace of the quota.
        quota.take();
        let Ok((stream, _)) = self.listener.accept() else {
            return false;
        };
        if stream.set_nonblocking(true).is_err() {
            return true;
        }
        if exchanges.len() >= CONNECTIONS_MAX {
            // Those whose answer is out have nothing to lose.
            let oldest = exchanges
                .iter()
                .position(Exchange::is_answered)
                .unwrap_or(0);
            exchanges.remove(oldest).note(Step::Broken, counts);
        }
        exchanges.push(Exchange::new(stream, Clock.now()));
        true
    }

    /// Waits for something to do; the first answer is the listener's.
    fn wait(&self, exchanges: &[Exchange], accepts: bool, pause: Duration) -> Result<Vec<bool>> {
        let asked = if accepts {
            PollFlags::IN
        } else {
            PollFlags::empty()
        };
        let listening = [PollFd::from_borrowed_fd(self.listener.as_fd(), asked)];
        let others = exchanges
            .iter()
            .map(|exchange| PollFd::new(&exchange.stream, exchange.waits_for()));
        let mut polled: Vec<PollFd<'_>> = listening.into_iter().chain(others).collect();
        let timeout = Timespec::try_from(pause).ok();
        match poll(&mut polled, timeout.as_ref()) {
            Ok(_) => Ok(polled.iter().map(|one| !one.revents().is_empty()).collect()),
            Err(rustix::io::Errno::INTR) => Ok(vec![false; polled.len()]),
            Err(error) => Err(Error::errno("poll")(error)),
        }
    }
}

/// What is answered.
struct Pages<'p> {
    /// Only programs of this machine can ask.
    is_loopback: bool,
    counts: &'p HttpCounts,
    page: &'p dyn Fn(&str) -> Option<Page>,
    /// Pages that were made lately.
    made: RefCell<Vec<Made>>,
}

/// A response, made for a path at a time.
struct Made {
    path: String,
    at: Instant,
    status: Status,
    bytes: Arc<[u8]>,
}

impl Pages<'_> {
    /// The answer to what was heard; nothing before all of it is.
    fn answer(&self, heard: &[u8]) -> Option<Arc<[u8]>> {
        let refused = |status| (status, Page::of_status(status).into_bytes().into());
        let (status, bytes) = match read_head(heard) {
            Read::Incomplete => return None,
            Read::Get(_) if self.is_loopback && is_for_named_host(heard) => {
                refused(Status::Misdirected)
            }
            Read::Get(path) => self
                .page_of(path)
                .unwrap_or_else(|| refused(Status::NotFound)),
            Read::Refused(status) => refused(status),
        };
        self.counts.answered[status as usize].fetch_add(1, Ordering::Relaxed);
        Some(bytes)
    }

    /// The page of a path, made lately or now. Only those that exist are remembered, so that there
    /// are few.
    fn page_of(&self, path: &str) -> Option<(Status, Arc<[u8]>)> {
        let now = Clock.now();
        let mut made = self.made.borrow_mut();
        made.retain(|one| now.since(one.at) < PAGE_AGE_MAX);
        if let Some(one) = made.iter().find(|one| one.path == path) {
            return Some((one.status, Arc::clone(&one.bytes)));
        }
        let page = (self.page)(path)?;
        let one = Made {
            path: path.into(),
            at: now,
            status: page.status,
            bytes: page.into_bytes().into(),
        };
        let told = (one.status, Arc::clone(&one.bytes));
        made.push(one);
        Some(told)
    }
}

/// How many connections may still be taken in this portion of a second.
#[derive(Debug)]
struct Quota {
    since: Instant,
    left: u32,
}

impl Quota {
    const fn new(now: Instant) -> Self {
        Self {
            since: now,
            left: ACCEPTED_PER_SECOND / PORTIONS_PER_SECOND,
        }
    }

    fn is_open(&mut self, now: Instant) -> bool {
        if now.since(self.since) >= PORTION {
            *self = Self::new(now);
        }
        self.left > 0
    }

    fn take(&mut self) {
        self.left = self.left.saturating_sub(1);
    }
}

/// One connection: a request, its answer, and the end.
#[derive(Debug)]
struct Exchange {
    stream: TcpStream,
    began: Instant,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// Received so far.
    Reads(Vec<u8>),
    /// The answer, and how much of it the kernel has taken.
    Writes(Arc<[u8]>, usize),
    /// The answer is out; this much was thrown away since.
    Drains(usize),
}

/// Next step of an exchange.
#[derive(Clone, Copy)]
enum Step {
    /// Wait until its socket is ready.
    Waits,
    /// Ended with a complete response.
    Over,
    /// Ended without a complete response.
    Broken,
}

impl Exchange {
    const fn new(stream: TcpStream, now: Instant) -> Self {
        Self {
            stream,
            began: now,
            stage: Stage::Reads(Vec::new()),
        }
    }

    fn is_late(&self, now: Instant) -> bool {
        now.since(self.began) >= EXCHANGE_TIMEOUT
    }

    const fn is_answered(&self) -> bool {
        matches!(self.stage, Stage::Drains(_))
    }

    const fn waits_for(&self) -> PollFlags {
        match self.stage {
            Stage::Reads(_) | Stage::Drains(_) => PollFlags::IN,
            Stage::Writes(..) => PollFlags::OUT,
        }
    }

    /// Whether it goes on; of one that broke off before its answer was out the end is counted.
    fn note(&self, step: Step, counts: &HttpCounts) -> bool {
        match step {
            Step::Waits => return true,
            Step::Over => {}
            Step::Broken if self.is_answered() => {}
            Step::Broken => {
                counts.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
        false
    }

    /// Does what its socket is ready for: one call for each, so that no client holds up the others.
    fn handle_ready(&mut self, pages: &Pages<'_>) -> Step {
        let step = match &mut self.stage {
            Stage::Reads(heard) => match receive(&self.stream, heard) {
                Received::Later => Step::Waits,
                Received::End => Step::Broken,
                Received::More => {
                    let Some(bytes) = pages.answer(heard) else {
                        return Step::Waits;
                    };
                    self.stage = Stage::Writes(bytes, 0);
                    Step::Waits
                }
            },
            Stage::Drains(drained) => match discard(&self.stream) {
                Some(0) => Step::Over,
                None => Step::Waits,
                Some(more) => {
                    *drained += more;
                    if *drained > DRAINED_BYTES_MAX {
                        Step::Over
                    } else {
                        Step::Waits
                    }
                }
            },
            Stage::Writes(..) => Step::Waits,
        };
        if matches!(self.stage, Stage::Writes(..)) {
            return self.write();
        }
        step
    }

    fn write(&mut self) -> Step {
        let Stage::Writes(bytes, sent) = &mut self.stage else {
            return Step::Waits;
        };
        match send(
            &self.stream,
            &bytes[*sent..],
            SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
        ) {
            Ok(more) => *sent += more,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Step::Waits,
            Err(_) => return Step::Broken,
        }
        if *sent < bytes.len() {
            return Step::Waits;
        }
        self.stage = Stage::Drains(0);
        match self.stream.shutdown(std::net::Shutdown::Write) {
            Ok(()) => Step::Waits,
            Err(_) => Step::Over,
        }
    }
}

enum Received {
    More,
    Later,
    End,
}

/// Adds what has come, up to the bound of a request.
fn receive(stream: &TcpStream, heard: &mut Vec<u8>) -> Received {
    let mut room = [0; 1024];
    let left = HEAD_BYTES_MAX + 1 - heard.len().min(HEAD_BYTES_MAX);
    let most = left.min(room.len());
    match recv(stream, &mut room[..most], RecvFlags::DONTWAIT) {
        Ok((0, _)) => Received::End,
        Ok((got, _)) => {
            heard.extend_from_slice(&room[..got]);
            Received::More
        }
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Received::Later,
        Err(_) => Received::End,
    }
}

/// Throws away what has come: how much, 0 at the end; `None` where nothing is there yet.
fn discard(stream: &TcpStream) -> Option<usize> {
    let mut room = [0; 4096];
    match recv(stream, &mut room, RecvFlags::DONTWAIT) {
        Ok((got, _)) => Some(got),
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => None,
        Err(_) => Some(0),
    }
}

impl Page {
    /// One line that says what is wrong with a request.
    fn of_status(status: Status) -> Self {
        Self {
            status,
            content_type: "text/plain; charset=utf-8",
            body: format!("{}\n", status.sentence()),
        }
    }

    fn into_bytes(self) -> Vec<u8> {
        let allow = match self.status {
            Status::MethodNotAllowed => "Allow: GET\r\n",
            _ => "",
        };
        let head = format!(
            "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{allow}\
             Cache-Control: no-store\r\nConnection: close\r\n\r\n",
            self.status.line(),
            self.content_type,
            self.body.len(),
        );
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(self.body.as_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests;
