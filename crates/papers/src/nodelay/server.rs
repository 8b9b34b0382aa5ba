//! The server: reads a message, answers it, and counts its reads.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base::Instant;
use linux::{Clock, Error, Result};
use socket2::SockRef;

/// One client at a time is served; one that sends nothing, or reads nothing, for this long is
/// disconnected.
const IDLE: Duration = Duration::from_secs(60);
/// Most bytes per read.
const READ_BYTES_MAX: usize = 64 << 10;

/// Configuration of the server.
#[derive(Clone, Copy, Debug)]
pub struct ServerSpec {
    /// Address to listen on; port 0 for any.
    pub address: SocketAddr,
    /// Bytes of a message.
    pub message_bytes: usize,
    /// Bytes of an answer; 0 for none.
    pub reply_bytes: usize,
    /// Sets `TCP_NODELAY` on each connection.
    pub nodelay: bool,
    /// Corks around each answer.
    pub cork: bool,
}

/// Times between the ends of messages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Intervals {
    /// Shortest.
    pub min: Duration,
    /// Mean.
    pub mean: Duration,
    /// Longest.
    pub max: Duration,
}

/// One client, from its connection to its leaving.
#[derive(Clone, Debug, PartialEq)]
pub struct Visit {
    /// Client address.
    pub client: SocketAddr,
    /// Reads that returned something: the document's "buffers".
    pub buffers: u64,
    /// Whole messages.
    pub messages: u64,
    /// Times between them; `None` with fewer than two.
    pub intervals: Option<Intervals>,
    /// Why it ended, where the client did not close in order.
    pub problem: Option<String>,
}

/// A listening socket.
#[derive(Debug)]
pub struct Server {
    spec: ServerSpec,
    listener: Arc<TcpListener>,
    stopping: Arc<Stopping>,
}

#[derive(Debug, Default)]
struct Stopping {
    stopped: AtomicBool,
    /// Whom a stop interrupts.
    stream: Mutex<Option<Arc<TcpStream>>>,
}

impl Server {
    /// Listens.
    ///
    /// # Errors
    /// [`Error::Os`] where the address is taken, or not of this machine.
    pub fn bind(spec: ServerSpec) -> Result<Self> {
        let op = format!("listening on {}", spec.address);
        let listener = TcpListener::bind(spec.address).map_err(Error::os(op))?;
        Ok(Self {
            spec,
            listener: Arc::new(listener),
            stopping: Arc::default(),
        })
    }

    /// Local address.
    ///
    /// # Errors
    /// [`Error::Os`] where the kernel does not tell.
    pub fn address(&self) -> Result<SocketAddr> {
        let address = self.listener.local_addr();
        address.map_err(Error::os("reading the address of the listener"))
    }

    /// Ends [`Server::run`] from another thread.
    pub fn stopper(&self) -> impl FnOnce() + Send + 'static {
        let (stopping, listener) = (Arc::clone(&self.stopping), Arc::clone(&self.listener));
        move || {
            stopping.stopped.store(true, Ordering::SeqCst);
            // Linux 6.18 net/ipv4/af_inet.c, inet_shutdown: a listening socket is disconnected, and
            // its `accept` returns. Neither can fail but on a socket that is closed.
            let _ = SockRef::from(&*listener).shutdown(Shutdown::Read);
            if let Some(stream) = stopping.current().as_ref() {
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
    }

    /// Serves one client after the other until it is stopped, or only the first.
    ///
    /// # Errors
    /// [`Error::Os`] where no connection can be accepted.
    pub fn run(&self, one_off: bool, on_visit: &mut dyn FnMut(&Visit)) -> Result<()> {
        while !self.stopping.is_stopped() {
            let (stream, client) = match self.listener.accept() {
                Ok(accepted) => accepted,
                Err(_) if self.stopping.is_stopped() => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(error) => return Err(Error::os("accepting a client")(error)),
            };
            let stream = Arc::new(stream);
            *self.stopping.current() = Some(Arc::clone(&stream));
            if !self.stopping.is_stopped() {
                on_visit(&self.serve(&stream, client));
            }
            *self.stopping.current() = None;
            if one_off {
                return Ok(());
            }
        }
        Ok(())
    }

    fn serve(&self, stream: &TcpStream, client: SocketAddr) -> Visit {
        let mut tally = Tally::default();
        let problem = match self.converse(stream, &mut tally) {
            Ok(()) => None,
            Err(_) if self.stopping.is_stopped() => Some("stopped".into()),
            Err(error) => Some(error.to_string()),
        };
        Visit {
            client,
            buffers: tally.buffers,
            messages: tally.messages,
            intervals: tally.intervals(),
            problem,
        }
    }

    fn converse(&self, mut stream: &TcpStream, tally: &mut Tally) -> io::Result<()> {
        stream.set_read_timeout(Some(IDLE))?;
        stream.set_write_timeout(Some(IDLE))?;
        if self.spec.nodelay {
            stream.set_nodelay(true)?;
        }
        let mut buffer = vec![0; self.spec.message_bytes.min(READ_BYTES_MAX)];
        let reply = vec![b'k'; self.spec.reply_bytes];
        loop {
            let mut left = self.spec.message_bytes;
            while left > 0 {
                let wanted = left.min(buffer.len());
                match stream.read(&mut buffer[..wanted]) {
                    Ok(0) if left == self.spec.message_bytes => return Ok(()),
                    Ok(0) => return Err(io::Error::other("closed in the middle of a message")),
                    Ok(got) => {
                        left -= got;
                        tally.buffers += 1;
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(idle(error, "said nothing")),
                }
            }
            tally.on_message(Clock.now());
            self.answer(stream, &reply)
                .map_err(|error| idle(error, "did not read its answers"))?;
        }
    }

    fn answer(&self, mut stream: &TcpStream, reply: &[u8]) -> io::Result<()> {
        if self.spec.cork {
            SockRef::from(stream).set_tcp_cork(true)?;
        }
        stream.write_all(reply)?;
        if self.spec.cork {
            SockRef::from(stream).set_tcp_cork(false)?;
        }
        Ok(())
    }
}

/// Says what the client did not do, where the time was up.
fn idle(error: io::Error, what: &str) -> io::Error {
    if error.kind() == io::ErrorKind::WouldBlock {
        io::Error::other(format!("{what} for {} s", IDLE.as_secs()))
    } else {
        error
    }
}

impl Stopping {
    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    fn current(&self) -> std::sync::MutexGuard<'_, Option<Arc<TcpStream>>> {
        self.stream.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counters of a client.
#[derive(Debug, Default)]
struct Tally {
    buffers: u64,
    messages: u64,
    first: Option<Instant>,
    last: Option<Instant>,
    shortest: Option<Duration>,
    longest: Duration,
}

impl Tally {
    fn on_message(&mut self, now: Instant) {
        if let Some(last) = self.last {
            let interval = now.since(last);
            self.shortest = Some(
                self.shortest
                    .map_or(interval, |shortest| shortest.min(interval)),
            );
            self.longest = self.longest.max(interval);
        }
        self.first = self.first.or(Some(now));
        self.last = Some(now);
        self.messages += 1;
    }

    fn intervals(&self) -> Option<Intervals> {
        let whole = self.last?.since(self.first?);
        let number = self.messages.checked_sub(1).filter(|&number| number > 0)?;
        Some(Intervals {
            min: self.shortest?,
            mean: whole.div_f64(number as f64),
            max: self.longest,
        })
    }
}
