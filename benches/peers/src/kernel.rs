//! The kernel's side: ordinary sockets that serve the three ports, or talk to them. It runs in
//! processes of its own, so that what it costs is not mistaken for what a stack costs.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream as Blocking};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::ValueEnum;
use linux::Clock;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use serde::{Deserialize, Serialize};
use socket2::SockRef;

pub(crate) const DISCARD: u16 = 5001;
pub(crate) const CHARGEN: u16 = 5002;
pub(crate) const ECHO: u16 = 5003;

/// The same for all, whatever this machine's default is.
const CONGESTION_CONTROL: &[u8] = b"cubic";
const CHUNK: usize = 256 << 10;
/// Reads or writes in a row before another connection has its turn.
const TURNS: usize = 16;
const STALL: Duration = Duration::from_secs(3);

/// What the connections of a client do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Load {
    /// Send to the discard port.
    Send,
    /// Read from the chargen port.
    Receive,
    /// Exchange one byte with the echo port, then nothing.
    Idle,
}

impl Load {
    pub(crate) const fn port(self) -> u16 {
        match self {
            Self::Send => DISCARD,
            Self::Receive => CHARGEN,
            Self::Idle => ECHO,
        }
    }
}

/// What a socket does with its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Discard,
    Chargen,
    Echo,
}

/// The kernel's own TCP under the contract.
pub(crate) fn serve(address: IpAddr) -> anyhow::Result<()> {
    let mut pump = Pump::new()?;
    for (port, role) in [
        (DISCARD, Role::Discard),
        (CHARGEN, Role::Chargen),
        (ECHO, Role::Echo),
    ] {
        pump.listen(SocketAddr::new(address, port), role)?;
    }
    writeln!(io::stdout(), "ready")?;
    pump.run()
}

/// Opens connections, says so, and keeps them busy until this process is ended.
pub(crate) fn load(load: Load, address: IpAddr, connections: usize) -> anyhow::Result<()> {
    let mut pump = Pump::new()?;
    for _ in 0..connections {
        let stream = connect(address, load.port())?;
        let role = match load {
            Load::Send => Role::Chargen,
            Load::Receive => Role::Discard,
            Load::Idle => {
                exchange(&stream).context("no echo")?;
                Role::Echo
            }
        };
        stream.set_nonblocking(true)?;
        pump.add(TcpStream::from_std(stream), role)?;
    }
    writeln!(io::stdout(), "ready")?;
    pump.run()
}

fn connect(address: IpAddr, port: u16) -> anyhow::Result<Blocking> {
    let to = SocketAddr::new(address, port);
    let stream = Blocking::connect_timeout(&to, 2 * STALL)
        .with_context(|| format!("connecting to port {port}"))?;
    SockRef::from(&stream).set_tcp_congestion(CONGESTION_CONTROL)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(STALL))?;
    Ok(stream)
}

fn exchange(mut stream: &Blocking) -> io::Result<()> {
    stream.write_all(&[0])?;
    stream.read_exact(&mut [0])
}

/// How long one byte takes there and back.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct RoundTrips {
    pub(crate) per_s: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
}

/// Sends one byte at a time and prints [`RoundTrips`].
pub(crate) fn ping(address: IpAddr, warm_up: Duration, time: Duration) -> anyhow::Result<()> {
    let stream = connect(address, ECHO)?;
    writeln!(io::stdout(), "ready")?;
    let begin = Clock.now() + warm_up;
    let end = begin + time;
    let mut nanos = Vec::with_capacity(1 << 20);
    loop {
        let sent = Clock.now();
        if sent > end {
            break;
        }
        exchange(&stream).context("no echo")?;
        if sent > begin {
            nanos.push(Clock.now().since(sent).as_nanos());
        }
    }
    nanos.sort_unstable();
    let at = |share: usize| {
        let index = (nanos.len() * share / 100).min(nanos.len().saturating_sub(1));
        nanos
            .get(index)
            .map_or(f64::NAN, |nanos| *nanos as f64 / 1e3)
    };
    let result = RoundTrips {
        per_s: nanos.len() as f64 / time.as_secs_f64(),
        p50_us: at(50),
        p99_us: at(99),
    };
    writeln!(io::stdout(), "{}", serde_json::to_string(&result)?)?;
    Ok(())
}

/// Moves the data of any number of sockets.
struct Pump {
    poll: Poll,
    listeners: Vec<(TcpListener, Role)>,
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    buffer: Vec<u8>,
}

struct Connection {
    stream: TcpStream,
    role: Role,
    /// What was read and is still to be written back.
    owed: Vec<u8>,
    is_queued: bool,
}

/// What a turn of a connection ended with.
enum Turn {
    /// The kernel has nothing, or takes nothing, for now.
    Waits,
    MayGoOn,
    Over,
}

impl Pump {
    fn new() -> anyhow::Result<Self> {
        Ok(Self {
            poll: Poll::new().context("making an epoll")?,
            listeners: Vec::new(),
            connections: Vec::new(),
            free: Vec::new(),
            buffer: vec![0; CHUNK],
        })
    }

    fn listen(&mut self, address: SocketAddr, role: Role) -> anyhow::Result<()> {
        let what = || format!("listening on {address}");
        let mut listener = TcpListener::bind(address).with_context(what)?;
        // Those that it accepts inherit it.
        SockRef::from(&listener)
            .set_tcp_congestion(CONGESTION_CONTROL)
            .with_context(what)?;
        // Listeners count downwards from the largest token, connections upwards from 0.
        let token = Token(usize::MAX - 1 - self.listeners.len());
        self.poll
            .registry()
            .register(&mut listener, token, Interest::READABLE)
            .with_context(what)?;
        self.listeners.push((listener, role));
        Ok(())
    }

    fn add(&mut self, mut stream: TcpStream, role: Role) -> anyhow::Result<()> {
        let index = self.free.pop().unwrap_or(self.connections.len());
        self.poll
            .registry()
            .register(
                &mut stream,
                Token(index),
                Interest::READABLE | Interest::WRITABLE,
            )
            .context("watching a connection")?;
        let connection = Connection {
            stream,
            role,
            owed: Vec::new(),
            is_queued: false,
        };
        match self.connections.get_mut(index) {
            Some(slot) => *slot = Some(connection),
            None => self.connections.push(Some(connection)),
        }
        Ok(())
    }

    fn run(&mut self) -> anyhow::Result<()> {
        let mut events = Events::with_capacity(1024);
        let mut queue = VecDeque::new();
        loop {
            // Polls instead of sleeping while a connection has work.
            let timeout = (!queue.is_empty()).then_some(Duration::ZERO);
            match self.poll.poll(&mut events, timeout) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                    return Err(error.into());
                }
                _ => {}
            }
            for event in &events {
                let index = event.token().0;
                if usize::MAX - 1 - index < self.listeners.len() {
                    self.accept(usize::MAX - 1 - index)?;
                } else if let Some(Some(connection)) = self.connections.get_mut(index)
                    && !std::mem::replace(&mut connection.is_queued, true)
                {
                    queue.push_back(index);
                }
            }
            for _ in 0..queue.len() {
                let Some(index) = queue.pop_front() else {
                    break;
                };
                if self.turns(index) {
                    queue.push_back(index);
                }
            }
            if self.listeners.is_empty() && self.free.len() == self.connections.len() {
                bail!("the other side closed all connections");
            }
        }
    }

    fn accept(&mut self, listener: usize) -> anyhow::Result<()> {
        loop {
            let (listener, role) = &self.listeners[listener];
            let role = *role;
            match listener.accept() {
                Ok((stream, _)) => {
                    stream.set_nodelay(true)?;
                    self.add(stream, role)?;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                // A connection that ended before it was taken.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => return Err(error).context("accepting a connection"),
            }
        }
    }

    /// Some turns of one connection. True where it may go on at once.
    fn turns(&mut self, index: usize) -> bool {
        let Some(connection) = &mut self.connections[index] else {
            return false;
        };
        for _ in 0..TURNS {
            match connection.turn(&mut self.buffer) {
                Turn::MayGoOn => {}
                Turn::Waits => {
                    connection.is_queued = false;
                    return false;
                }
                Turn::Over => {
                    self.connections[index] = None;
                    self.free.push(index);
                    return false;
                }
            }
        }
        true
    }
}

impl Connection {
    fn turn(&mut self, buffer: &mut [u8]) -> Turn {
        match self.role {
            Role::Discard => turn(self.stream.read(buffer), buffer.len()),
            Role::Chargen => turn(self.stream.write(buffer), buffer.len()),
            Role::Echo => self.echo(buffer),
        }
    }

    fn echo(&mut self, buffer: &mut [u8]) -> Turn {
        let mut next = Turn::MayGoOn;
        if self.owed.is_empty() {
            match self.stream.read(buffer) {
                Ok(length) if length > 0 => {
                    self.owed.extend_from_slice(&buffer[..length]);
                    next = turn(Ok(length), buffer.len());
                }
                other => return turn(other, 1),
            }
        }
        match self.stream.write(&self.owed) {
            Ok(length) if length == self.owed.len() => {
                self.owed.clear();
                next
            }
            Ok(length) => {
                self.owed.drain(..length);
                Turn::Waits
            }
            Err(error) => turn(Err(error), 1),
        }
    }
}

/// Less than was asked for means that there is no more for now.
fn turn(outcome: io::Result<usize>, asked: usize) -> Turn {
    match outcome {
        Ok(0) => Turn::Over,
        Ok(length) if length == asked => Turn::MayGoOn,
        Ok(_) => Turn::Waits,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Turn::Waits,
        Err(_) => Turn::Over,
    }
}
