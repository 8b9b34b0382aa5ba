//! Two hosts, two links, and a clock that jumps to whatever is next.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use base::{Instant, WirePacket as _};
use bytes::Bytes;
use link::{Link, LinkSpec};
use tcptailor_stack::profile::Profile;
use tcptailor_stack::{
    Event, Host, HostConfig, ListenOptions, Packet, Payload, ReadError, SocketId, WriteError,
    WriteFlags,
};

pub(crate) const PORT: u16 = 5000;

/// A client and a server, with a path between them.
pub(crate) struct Pair {
    pub(crate) now: Instant,
    pub(crate) client: Host,
    pub(crate) server: Host,
    pub(crate) forward: Link<Packet>,
    pub(crate) reverse: Link<Packet>,
    /// What passed, if recorded.
    pub(crate) log: Option<String>,
    /// Sees every packet before its link does.
    pub(crate) watch: Option<Watch>,
    server_addr: SocketAddr,
}

pub(crate) type Watch = Box<dyn FnMut(Side, &Packet)>;

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Server,
}

pub(crate) fn client_ip() -> IpAddr {
    [10, 0, 0, 1].into()
}

pub(crate) fn server_ip() -> IpAddr {
    [10, 0, 0, 2].into()
}

pub(crate) fn server_addr() -> SocketAddr {
    SocketAddr::new(server_ip(), PORT)
}

pub(crate) fn host(profile: &Profile, addr: IpAddr, mtu: u16, seed: u64) -> Host {
    let mut config = HostConfig::of(profile, addr, seed);
    config.mtu = mtu;
    Host::new(config)
}

impl Pair {
    pub(crate) fn new(client: &Profile, server: &Profile, spec: &LinkSpec, seed: u64) -> Self {
        Self::between([client_ip(), server_ip()], [client, server], spec, seed)
    }

    /// With addresses of the client and of the server.
    pub(crate) fn between(
        [client_ip, server_ip]: [IpAddr; 2],
        [client, server]: [&Profile; 2],
        spec: &LinkSpec,
        seed: u64,
    ) -> Self {
        Self {
            now: Instant::from_nanos(1_000_000_000),
            client: host(client, client_ip, 1500, seed),
            server: host(server, server_ip, 1500, seed + 1),
            forward: Link::new(spec.clone(), seed + 2).expect("a valid link"),
            reverse: Link::new(spec.clone(), seed + 3).expect("a valid link"),
            log: None,
            watch: None,
            server_addr: SocketAddr::new(server_ip, PORT),
        }
    }

    /// Listens at the server.
    pub(crate) fn listen(&mut self, profile: &Profile) -> SocketId {
        let options = ListenOptions::new(profile.settings.clone())
            .with_backlog(128)
            .with_syn_cookies(false);
        self.server
            .listen(self.server_addr, options)
            .expect("no other program listens")
    }

    /// An established connection: its ids at the client and at the server.
    pub(crate) fn connect(&mut self, client: &Profile, server: &Profile) -> (SocketId, SocketId) {
        let listener = self.listen(server);
        let id = self
            .client
            .connect(self.now, self.server_addr, client.settings.clone())
            .expect("the host has ports");
        for _ in 0..10_000 {
            if let Some(accepted) = self.server.accept(self.now, listener) {
                return (id, accepted);
            }
            assert!(self.step(), "the handshake stands still");
        }
        panic!("the handshake does not end");
    }

    pub(crate) fn host(&mut self, side: Side) -> &mut Host {
        match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        }
    }

    /// Moves what may move now, then lets time jump to the next deadline. False where nothing will
    /// ever happen again.
    pub(crate) fn step(&mut self) -> bool {
        self.transmit();
        let Some(next) = self.next_deadline() else {
            return false;
        };
        self.now = self.now.max(next);
        while let Some(packet) = self.forward.poll_deliver(self.now) {
            self.server.handle_packet(self.now, packet);
            self.transmit();
        }
        while let Some(packet) = self.reverse.poll_deliver(self.now) {
            self.client.handle_packet(self.now, packet);
            self.transmit();
        }
        self.client.handle_timeout(self.now);
        self.server.handle_timeout(self.now);
        self.transmit();
        true
    }

    /// When something happens next.
    pub(crate) fn next_deadline(&mut self) -> Option<Instant> {
        let deadlines = [
            self.client.poll_timeout(),
            self.server.poll_timeout(),
            self.forward.poll_timeout(),
            self.reverse.poll_timeout(),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// Puts everything that the hosts send on the links.
    pub(crate) fn transmit(&mut self) {
        while let Some(packet) = self.client.poll_transmit(self.now) {
            self.note(Side::Client, &packet);
            let _ = self.forward.handle_packet(self.now, packet);
        }
        while let Some(packet) = self.server.poll_transmit(self.now) {
            self.note(Side::Server, &packet);
            let _ = self.reverse.handle_packet(self.now, packet);
        }
    }

    fn note(&mut self, side: Side, packet: &Packet) {
        if let Some(watch) = &mut self.watch {
            watch(side, packet);
        }
        let Some(log) = &mut self.log else { return };
        let Some(segment) = packet.segment() else {
            return;
        };
        let arrow = if side == Side::Client { ">" } else { "<" };
        let _ = writeln!(
            log,
            "{:>12} {arrow} {} seq {} ack {} win {} len {} x{}",
            self.now.as_nanos() / 1000,
            segment.flags,
            segment.seq,
            segment.ack,
            segment.window,
            segment.payload.len(),
            packet.segments(),
        );
    }

    /// Steps until `done`, at most `limit` of time.
    pub(crate) fn run(&mut self, limit: Duration, mut done: impl FnMut(&mut Self) -> bool) -> bool {
        let end = self.now + limit;
        while self.now < end {
            if done(self) {
                return true;
            }
            if !self.step() {
                return done(self);
            }
        }
        false
    }
}

const PERIOD: u64 = 65_537;
const SLICE_MAX: u64 = 1 << 18;

/// One byte of the stream that tests send: its value tells its place.
pub(crate) fn pattern(at: u64) -> u8 {
    ((at % PERIOD).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// A slice of that stream, which repeats after a prime number of bytes.
pub(crate) fn slice(from: u64, bytes: usize) -> Bytes {
    thread_local! {
        static STREAM: Bytes = (0..PERIOD + SLICE_MAX).map(pattern).collect();
    }
    let at = (from % PERIOD) as usize;
    STREAM.with(|stream| stream.slice(at..at + bytes.min(SLICE_MAX as usize)))
}

/// Compares what arrived with the stream, from byte `from` on.
pub(crate) fn verify(from: u64, payload: &Payload) {
    let mut at = from;
    for chunk in payload.chunks() {
        assert_eq!(
            chunk,
            &slice(at, chunk.len()),
            "from byte {at} of the stream"
        );
        at += chunk.len() as u64;
    }
}

/// A transfer of `total` bytes from one side to the other, and how it goes.
pub(crate) struct Transfer {
    pub(crate) from: Side,
    pub(crate) sender: SocketId,
    pub(crate) receiver: SocketId,
    pub(crate) total: u64,
    pub(crate) written: u64,
    pub(crate) read: u64,
    pub(crate) write_size: usize,
    pub(crate) read_size: usize,
    pub(crate) is_finished: bool,
    /// The writer waits until it is told that there is room.
    pub(crate) waits: bool,
}

impl Transfer {
    pub(crate) fn new(from: Side, sender: SocketId, receiver: SocketId, total: u64) -> Self {
        Self {
            from,
            sender,
            receiver,
            total,
            written: 0,
            read: 0,
            write_size: 65_536,
            read_size: 1 << 20,
            is_finished: false,
            waits: false,
        }
    }

    /// Writes as a program that blocks does, reads what is there; true when all is read.
    pub(crate) fn drive(&mut self, pair: &mut Pair) -> bool {
        let now = pair.now;
        let to = match self.from {
            Side::Client => Side::Server,
            Side::Server => Side::Client,
        };
        let told = events(pair.host(self.from));
        self.waits &= !told.contains(&(self.sender, Event::Writable));
        while self.written < self.total && !self.waits {
            let bytes = self.write_size.min((self.total - self.written) as usize);
            let chunk = slice(self.written, bytes);
            match pair
                .host(self.from)
                .write_chunk(now, self.sender, chunk, WriteFlags::default())
            {
                Ok(taken) => self.written += taken as u64,
                Err(WriteError::Full) => self.waits = true,
                Err(WriteError::NotConnected) => break,
                Err(error) => panic!("write: {error}"),
            }
        }
        if self.written == self.total && !self.is_finished {
            self.is_finished = true;
            pair.host(self.from).shutdown(now, self.sender);
        }
        loop {
            match pair
                .host(to)
                .read_chunks(now, self.receiver, self.read_size)
            {
                Ok(payload) if payload.is_empty() => return true,
                Ok(payload) => {
                    verify(self.read, &payload);
                    self.read += u64::from(payload.len());
                }
                Err(ReadError::Empty) => return false,
                Err(error) => panic!("read: {error}"),
            }
        }
    }
}

/// Takes all events out of a host.
pub(crate) fn events(host: &mut Host) -> Vec<(SocketId, Event)> {
    std::iter::from_fn(|| host.poll_event()).collect()
}
