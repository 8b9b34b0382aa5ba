//! Two hosts with many connections between them, of which the first carries data one way.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::time::Duration;

use base::settings::SocketSettings;
use base::{Instant, QueueLimit, Rate};
use bytes::Bytes;
use link::{LinkSpec, Reorder};
use stack::profile::freebsd_2006;
use stack::{Event, Host, HostConfig, ListenOptions, SocketId, WriteFlags};

use lab::app::{App, HostCosts, LAB_PORT};
use lab::world::{NodeId, World, chain};

/// Time from one connection to the next.
const DIAL_EVERY: Duration = Duration::from_millis(1);
/// Bytes per write.
const CHUNK_BYTES: usize = 64 << 10;
/// Longest run.
const TIME_MAX: Duration = Duration::from_secs(3600);

/// Setup of the measurement.
#[derive(Clone, Debug)]
pub(super) struct CrowdSetup {
    /// The end that connects and writes.
    pub(super) sender: SocketSettings,
    /// The other end.
    pub(super) receiver: SocketSettings,
    /// Connections.
    pub(super) connections: usize,
    /// Bytes sent by the first connection.
    pub(super) bytes: u64,
    /// Rate of the path each way.
    pub(super) rate: Rate,
    /// Round-trip time of the path.
    pub(super) rtt: Duration,
    /// Reordering of the writer's packets.
    pub(super) reorder: Option<Reorder>,
    /// Seed of everything random.
    pub(super) seed: u64,
}

/// Sizes of buffers that automatic sizing went through, and when it took each.
#[derive(Clone, Debug, Default)]
pub(super) struct Sizes(pub(super) Vec<(Instant, u32)>);

impl Sizes {
    fn note(&mut self, now: Instant, bytes: Option<u32>) {
        let Some(bytes) = bytes else {
            return;
        };
        if self.0.last().is_none_or(|(_, last)| *last != bytes) {
            self.0.push((now, bytes));
        }
    }
}

/// Results.
#[derive(Debug)]
pub(super) struct CrowdResult {
    /// The sender's send buffer.
    pub(super) send: Sizes,
    /// The receiver's receive buffer.
    pub(super) recv: Sizes,
    /// When the receiver got a packet behind a gap.
    pub(super) out_of_order_at: Vec<Instant>,
    /// ACKs that had reached the sender when its buffer took each of its sizes.
    pub(super) acks: Vec<u64>,
    /// Both buffers of the sender's connections, at the end.
    pub(super) reserved_bytes: u64,
    /// Both buffers of its connections when all had been opened and nothing written.
    pub(super) start_bytes: u64,
    /// Most that its busy connection held at once.
    pub(super) used_bytes_max: u64,
    /// Memory of idle connections at the end.
    pub(super) idle_used_bytes: u64,
    /// Payload per second, from the first byte written to the last one read.
    pub(super) goodput: Rate,
}

/// Runs the connections to their end.
///
/// # Panics
/// Where a connection breaks, on a path that loses nothing: a bug of the stack.
pub(super) fn run(setup: &CrowdSetup) -> CrowdResult {
    let mut world = World::new();
    let [sender, receiver] = [(1, &setup.sender), (2, &setup.receiver)].map(|(host, settings)| {
        world.add_host(config(host, settings, setup.seed), HostCosts::NONE)
    });
    let back = LinkSpec {
        rate: Some(setup.rate),
        delay: setup.rtt / 2,
        queue: QueueLimit::Packets(100_000),
        ..LinkSpec::ideal()
    };
    let forward = LinkSpec {
        reorder: setup.reorder.clone(),
        ..back.clone()
    };
    chain(
        &mut world,
        (sender, receiver),
        &[(forward, back)],
        setup.seed,
    )
    .expect("a link with rate, delay and queue");
    world.start(
        receiver,
        Crowd::Reader(Box::new(Reader::new(setup.receiver.clone()))),
    );
    world.start(sender, Crowd::Writer(Box::new(Writer::new(setup))));
    watch(&mut world, sender, receiver)
}

fn watch(world: &mut World<Crowd>, sender: NodeId, receiver: NodeId) -> CrowdResult {
    let mut seen = CrowdResult {
        send: Sizes::default(),
        recv: Sizes::default(),
        out_of_order_at: Vec::new(),
        acks: Vec::new(),
        reserved_bytes: 0,
        start_bytes: 0,
        used_bytes_max: 0,
        idle_used_bytes: 0,
        goodput: Rate::from_bits_per_second(0),
    };
    let until = Instant::ZERO + TIME_MAX;
    let mut out_of_order_pkts = 0;
    while !is_done(world, sender, receiver) {
        assert!(world.step(until), "the transfer does not come to an end");
        let now = world.now();
        let Some(Crowd::Writer(writer)) = world.app(sender) else {
            unreachable!("it was started there");
        };
        if let Some(busy) = writer.busy
            && let Some(sample) = world.host(sender).sample(now, busy)
        {
            let before = seen.send.0.len();
            seen.send.note(now, sample.sndbuf_bytes);
            if seen.send.0.len() > before {
                seen.acks.push(sample.segs_in.unwrap_or(0));
            }
            let used = used_bytes(world.host(sender), now, busy);
            seen.used_bytes_max = seen.used_bytes_max.max(used);
        }
        if let Some(Crowd::Reader(reader)) = world.app(receiver)
            && let Some(busy) = reader.accepted.first()
        {
            let sample = world.host(receiver).sample(now, *busy);
            seen.recv
                .note(now, sample.as_ref().and_then(|it| it.rcvbuf_bytes));
            let pkts = sample.and_then(|it| it.out_of_order_pkts).unwrap_or(0);
            if pkts > out_of_order_pkts {
                out_of_order_pkts = pkts;
                seen.out_of_order_at.push(now);
            }
        }
    }
    finish(world, sender, seen)
}

fn finish(world: &World<Crowd>, sender: NodeId, mut seen: CrowdResult) -> CrowdResult {
    let (now, host) = (world.now(), world.host(sender));
    let Some(Crowd::Writer(writer)) = world.app(sender) else {
        unreachable!("it was started there");
    };
    seen.reserved_bytes = reserved_bytes(host, now);
    seen.start_bytes = writer.start_bytes;
    let idle = writer.open.iter().filter(|id| Some(**id) != writer.busy);
    seen.idle_used_bytes = idle.map(|id| used_bytes(host, now, *id)).sum();
    seen.goodput = Rate::of(writer.written, now.since(writer.begun_at));
    seen
}

fn is_done(world: &World<Crowd>, sender: NodeId, receiver: NodeId) -> bool {
    let (Some(Crowd::Writer(writer)), Some(Crowd::Reader(reader))) =
        (world.app(sender), world.app(receiver))
    else {
        unreachable!("both were started");
    };
    reader.read >= writer.bytes
}

fn reserved_bytes(host: &Host, now: Instant) -> u64 {
    let samples = host.sockets().filter_map(|id| host.sample(now, id));
    let both = |bytes: [Option<u32>; 2]| bytes.into_iter().flatten().map(u64::from).sum::<u64>();
    samples
        .map(|it| both([it.sndbuf_bytes, it.rcvbuf_bytes]))
        .sum()
}

fn used_bytes(host: &Host, now: Instant, id: SocketId) -> u64 {
    let sample = host.sample(now, id);
    let bytes = sample.map(|it| [it.wmem_queued_bytes, it.rmem_bytes]);
    bytes.into_iter().flatten().flatten().map(u64::from).sum()
}

fn address(host: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, 0, host).into()
}

fn config(host: u8, settings: &SocketSettings, seed: u64) -> HostConfig {
    let seed = seed.wrapping_add(host.into());
    let mut config = HostConfig::of(&freebsd_2006(), address(host), seed);
    config.settings = settings.clone();
    config
}

/// The program of either end.
#[derive(Debug)]
enum Crowd {
    Writer(Box<Writer>),
    Reader(Box<Reader>),
}

/// Opens connections and writes into the first when all are open.
#[derive(Debug)]
struct Writer {
    settings: SocketSettings,
    connections: usize,
    bytes: u64,
    dialled: usize,
    open: Vec<SocketId>,
    busy: Option<SocketId>,
    next_at: Option<Instant>,
    begun_at: Instant,
    /// Both buffers of all connections before the first write.
    start_bytes: u64,
    written: u64,
    chunk: Bytes,
}

impl Writer {
    fn new(setup: &CrowdSetup) -> Self {
        Self {
            settings: setup.sender.clone(),
            connections: setup.connections,
            bytes: setup.bytes,
            dialled: 0,
            open: Vec::new(),
            busy: None,
            next_at: Some(Instant::ZERO),
            begun_at: Instant::ZERO,
            start_bytes: 0,
            written: 0,
            chunk: vec![0x5a; CHUNK_BYTES].into(),
        }
    }

    fn call(&mut self, now: Instant, host: &mut Host) -> bool {
        if self.next_at.is_none_or(|at| at > now) {
            return false;
        }
        self.next_at = None;
        if self.dialled < self.connections {
            let remote = SocketAddr::new(address(2), LAB_PORT);
            host.connect(now, remote, self.settings.clone())
                .expect("ports are left");
            self.dialled += 1;
            self.next_at = Some(now + DIAL_EVERY);
            return true;
        }
        let left = self.bytes - self.written;
        let Some(busy) = self.busy.filter(|_| left > 0) else {
            return false;
        };
        if self.written == 0 {
            self.start_bytes = reserved_bytes(host, now);
        }
        let chunk = self.chunk.slice(..left.min(CHUNK_BYTES as u64) as usize);
        let taken = host.write_chunk(now, busy, chunk, WriteFlags::default());
        let taken = taken.unwrap_or(0);
        self.written += taken as u64;
        // A write that was refused or cut short goes on with the next event.
        self.next_at = (taken == CHUNK_BYTES).then_some(now);
        true
    }

    fn handle_event(&mut self, now: Instant, id: SocketId, event: Event) {
        match event {
            Event::Connected => {
                self.open.push(id);
                if self.open.len() == self.connections {
                    self.busy = self.open.iter().min().copied();
                    self.begun_at = now;
                    self.next_at = Some(now);
                }
            }
            Event::Writable => self.next_at = Some(now),
            Event::Failed(failure) => panic!("a path that loses nothing: {failure}"),
            _ => {}
        }
    }
}

/// Takes connections and reads all that comes.
#[derive(Debug)]
struct Reader {
    settings: SocketSettings,
    listener: Option<SocketId>,
    accepted: Vec<SocketId>,
    readable: Vec<SocketId>,
    has_more: bool,
    read: u64,
}

impl Reader {
    const fn new(settings: SocketSettings) -> Self {
        Self {
            settings,
            listener: None,
            accepted: Vec::new(),
            readable: Vec::new(),
            has_more: false,
            read: 0,
        }
    }

    fn call(&mut self, now: Instant, host: &mut Host) -> bool {
        if let Some(listener) = self.listener.filter(|_| self.has_more) {
            let accepted = host.accept(now, listener);
            self.has_more = accepted.is_some();
            self.accepted.extend(accepted);
            // What arrived before it was accepted is not reported again.
            self.readable.extend(accepted);
            return true;
        }
        let Some(id) = self.readable.last().copied() else {
            return false;
        };
        match host.read_chunks(now, id, usize::MAX) {
            Ok(payload) if !payload.is_empty() => self.read += u64::from(payload.len()),
            _ => {
                self.readable.pop();
            }
        }
        true
    }
}

impl App for Crowd {
    fn start(&mut self, _: Instant, host: &mut Host) {
        if let Self::Reader(reader) = self {
            let options = ListenOptions::new(reader.settings.clone()).with_syn_cookies(false);
            let local = SocketAddr::new(address(2), LAB_PORT);
            reader.listener = Some(host.listen(local, options).expect("a new host"));
        }
    }

    fn handle_event(&mut self, now: Instant, id: SocketId, event: Event) {
        match (self, event) {
            (Self::Writer(writer), event) => writer.handle_event(now, id, event),
            (Self::Reader(reader), Event::Acceptable) => reader.has_more = true,
            (Self::Reader(reader), Event::Readable) => reader.readable.push(id),
            _ => {}
        }
    }

    fn call(&mut self, now: Instant, host: &mut Host) -> bool {
        match self {
            Self::Writer(writer) => writer.call(now, host),
            Self::Reader(reader) => reader.call(now, host),
        }
    }

    fn poll_timeout(&mut self) -> Option<Instant> {
        match self {
            Self::Writer(writer) => writer.next_at,
            Self::Reader(_) => None,
        }
    }

    fn is_done(&self) -> bool {
        false
    }
}
