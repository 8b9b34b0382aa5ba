//! Two hosts with the stack of Microsoft KB 214397 (profile `winsock`) and a path of a LAN between
//! them: its rules one by one, and blocks of several sizes packet by packet.
//!
//! Seed: Winsock; experiments W5 and W7.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::time::Duration;
use std::sync::{Arc, Mutex, PoisonError};

use base::settings::Nagle;
use base::tcp::TcpFlags;
use base::{Instant, QueueLimit, Rate, SeqNum};
use link::LinkSpec;
use stack::profile::{Profile, winsock};
use stack::{Body, Event, Host, HostConfig, ListenOptions, Packet, SocketId, WriteFlags};

use super::{Figures, Probe};
use lab::app::{App, HostCosts};
use lab::world::{LinkId, Tap, TapPoint, World, chain};

/// Rules WS1 to WS4 and WS12 to WS16, each by the times that it makes.
pub(super) const RULES: Probe = Probe {
    name: "winsock-rules",
    about: "Each rule of Winsock for ACKs and for the completion of sends, by the times it makes.",
    figures: &[
        "timer_ack_us",
        "second_packet_ack_us",
        "timer_ack_after_restart_us",
        "answer_ack_us",
        "answer_pure_acks",
        "within_quota_wait_us",
        "behind_one_send_wait_us",
        "behind_two_sends_wait_us",
        "behind_two_sends_after_ack_us",
        "part_of_a_send_released",
        "no_buffer_wait_us",
        "no_buffer_nodelay_wait_us",
    ],
    run: Some(rules),
    run_on_kernel: None,
};

/// Suggestion 1 of the article: what becomes of a block of some size.
pub(super) const BLOCKS: Probe = Probe {
    name: "winsock-blocks",
    about: "Blocks of about 8 KiB, in a stream and alone: which packet waits, and for how long.",
    figures: &[
        "stream_7kib_stalls",
        "stream_8000_stalls",
        "stream_8192_stalls",
        "stream_20kib_stalls",
        "alone_7kib_held_us",
        "alone_8000_held_us",
        "alone_8192_held_us",
        "alone_20kib_held_us",
        "alone_7kib_last_ack_us",
        "alone_8000_last_ack_us",
        "alone_8192_last_ack_us",
        "alone_20kib_last_ack_us",
        "alone_7kib_packets",
        "alone_8000_packets",
        "alone_8192_packets",
        "alone_20kib_packets",
        "nodelay_7kib_last_ack_us",
        "nodelay_8000_last_ack_us",
    ],
    run: Some(blocks),
    run_on_kernel: None,
};

const PORT: u16 = 5201;
/// A wait of this much is a timer's: a round trip and the time of a block on the wire are below 3
/// ms.
const STALL: Duration = Duration::from_millis(20);
/// Longer than any of what is tried here.
const END: Duration = Duration::from_secs(60);
/// Blocks of a stream.
const STREAM_BLOCKS: usize = 100;

/// A write of one host: its size, and the time after the connection was established, or after the
/// writes before it have completed.
#[derive(Clone, Copy, Debug)]
struct Write {
    after: Duration,
    bytes: usize,
}

/// A program that makes a few writes and reads whatever comes.
#[derive(Debug)]
struct Player {
    /// `None`: it listens.
    remote: Option<SocketAddr>,
    profile: Profile,
    /// In reverse order.
    writes: Vec<Write>,
    /// A write is made when the ones before it are complete, as a program that blocks does.
    blocks: bool,
    socket: Option<SocketId>,
    connected: Option<Instant>,
    is_readable: bool,
    /// The writes that were made: when, and when complete.
    made: Vec<(Instant, Option<Instant>)>,
}

impl Player {
    fn new(remote: Option<SocketAddr>, profile: &Profile, writes: &[Write]) -> Self {
        Self {
            remote,
            profile: profile.clone(),
            writes: writes.iter().rev().copied().collect(),
            blocks: false,
            socket: None,
            connected: None,
            is_readable: false,
            made: Vec::new(),
        }
    }

    /// When the next write is made.
    fn next_at(&self) -> Option<Instant> {
        let waits = self.blocks && self.made.last().is_some_and(|(_, done)| done.is_none());
        let next = self.writes.last().filter(|_| !waits)?;
        Some(self.connected? + next.after)
    }

    fn write(&mut self, now: Instant, host: &mut Host) {
        let (Some(id), Some(write)) = (self.socket, self.writes.pop()) else {
            return;
        };
        let bytes = bytes::Bytes::from(vec![0; write.bytes]);
        let taken = host.write_chunk(now, id, bytes, WriteFlags::default());
        assert_eq!(taken, Ok(write.bytes), "Winsock takes all of a send");
        let is_complete = host.incomplete_writes(id) == 0;
        self.made.push((now, is_complete.then_some(now)));
    }

    /// How long each write took.
    fn waits(&self) -> Vec<Duration> {
        let wait =
            |(at, done): &(Instant, Option<Instant>)| done.unwrap_or(Instant::MAX).since(*at);
        self.made.iter().map(wait).collect()
    }
}

impl App for Player {
    fn start(&mut self, now: Instant, host: &mut Host) {
        let settings = self.profile.settings.clone();
        match self.remote {
            Some(remote) => self.socket = host.connect(now, remote, settings).ok(),
            None => {
                let local = SocketAddr::new(host.addrs()[0], PORT);
                let listening = host.listen(local, ListenOptions::of(&self.profile));
                assert!(listening.is_ok(), "no other program listens");
            }
        }
    }

    fn handle_event(&mut self, now: Instant, id: SocketId, event: Event) {
        match event {
            Event::Connected => self.connected = Some(now),
            Event::Acceptable => self.socket = Some(id),
            Event::Readable => self.is_readable = true,
            Event::Completed(count) => {
                let open = self.made.iter_mut().filter(|(_, done)| done.is_none());
                open.take(count as usize)
                    .for_each(|(_, done)| *done = Some(now));
            }
            _ => {}
        }
    }

    fn call(&mut self, now: Instant, host: &mut Host) -> bool {
        if let (Some(listener), None, None) = (self.socket, self.remote, self.connected) {
            self.socket = host.accept(now, listener);
            self.connected = Some(now);
            return true;
        }
        if core::mem::take(&mut self.is_readable) {
            if let Some(id) = self.socket {
                while host
                    .read_chunks(now, id, 1 << 20)
                    .is_ok_and(|data| !data.is_empty())
                {}
            }
            return true;
        }
        let is_due = self.next_at().is_some_and(|at| at <= now);
        if is_due {
            self.write(now, host);
        }
        is_due
    }

    fn poll_timeout(&mut self) -> Option<Instant> {
        self.next_at()
    }

    fn is_done(&self) -> bool {
        self.writes.is_empty()
    }
}

/// A packet that passed: when, its payload, and what it acknowledges.
#[derive(Clone, Copy, Debug)]
struct Passed {
    at: Instant,
    bytes: u32,
    seq: SeqNum,
    ack: SeqNum,
}

/// Segments that passed a place, without handshakes.
#[derive(Clone, Debug, Default)]
struct SegmentTap(Arc<Mutex<Vec<Passed>>>);

impl SegmentTap {
    fn all(&self) -> Vec<Passed> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Segments with payload.
    fn data(&self) -> Vec<Passed> {
        self.all()
            .into_iter()
            .filter(|passed| passed.bytes > 0)
            .collect()
    }
}

impl Tap for SegmentTap {
    fn on_packet(&mut self, at: Instant, packet: &Packet) {
        if let Body::Tcp(segment) = &packet.body
            && !segment.flags.contains(TcpFlags::SYN)
        {
            let passed = Passed {
                at,
                bytes: segment.payload.len(),
                seq: segment.seq,
                ack: segment.ack,
            };
            self.0
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(passed);
        }
    }
}

/// Results of one play.
struct Played {
    client: Vec<Duration>,
    /// When each of the client's writes was made and complete.
    made: Vec<(Instant, Option<Instant>)>,
    /// Segments sent by the client.
    left: SegmentTap,
    /// Segments received by the server.
    arrived: SegmentTap,
    /// Segments sent by the server.
    answered: SegmentTap,
    /// Segments received by the client.
    returned: SegmentTap,
}

/// Setup of a play.
struct Play<'p> {
    profile: Profile,
    client: &'p [Write],
    server: &'p [Write],
    blocks: bool,
}

impl<'p> Play<'p> {
    /// Sends of the client at once, or one after the other.
    fn of(client: &'p [Write]) -> Self {
        Self {
            profile: winsock(),
            client,
            server: &[],
            blocks: false,
        }
    }

    fn quota(mut self, bytes: u32) -> Self {
        self.profile.settings.send.buffer.fixed = Some(bytes);
        self
    }

    fn nodelay(mut self) -> Self {
        self.profile.settings.small_writes.nagle = Nagle::Off;
        self
    }

    /// # Panics
    /// Never: the path makes sense.
    fn run(self, seed: u64) -> Played {
        let addrs: [IpAddr; 2] = [1, 2].map(|host| Ipv4Addr::new(10, 0, 0, host).into());
        let mut world = World::new();
        let plain = winsock();
        let configs = [
            HostConfig::of(&self.profile, addrs[0], seed),
            HostConfig::of(&plain, addrs[1], seed.wrapping_add(1)),
        ];
        let [a, b] = configs.map(|config| world.add_host(config, HostCosts::NONE));
        let lan = LinkSpec {
            rate: Some(Rate::from_bits_per_second(100_000_000)),
            delay: Duration::from_micros(100),
            queue: QueueLimit::Packets(1000),
            ..LinkSpec::ideal()
        };
        let (there, back) = chain(&mut world, (a, b), &[(lan.clone(), lan)], seed)
            .expect("a plain link makes sense");
        let mut tap = |link: LinkId, place| {
            let seen = SegmentTap::default();
            world.add_tap(link, place, Box::new(seen.clone()));
            seen
        };
        let (left, arrived) = (tap(there, TapPoint::Entry), tap(there, TapPoint::Exit));
        let (answered, returned) = (tap(back, TapPoint::Entry), tap(back, TapPoint::Exit));
        let remote = Some(SocketAddr::new(addrs[1], PORT));
        let mut client = Player::new(remote, &self.profile, self.client);
        client.blocks = self.blocks;
        world.start(b, Player::new(None, &plain, self.server));
        world.start(a, client);
        world.run(Instant::ZERO + END);
        let client = world.app(a).expect("it was started");
        Played {
            client: client.waits(),
            made: client.made.clone(),
            left,
            arrived,
            answered,
            returned,
        }
    }
}

const fn write(after_ms: u64, bytes: usize) -> Write {
    Write {
        after: Duration::from_millis(after_ms),
        bytes,
    }
}

fn micros(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e3
}

fn rules(seed: u64) -> Figures {
    let mut figures = Figures::new();
    // WS1, WS4: one packet, no answer.
    let one = Play::of(&[write(10, 100)]).run(seed);
    figures.insert("timer_ack_us", one.ack_after(0));
    // WS2, and WS1 again: the ACK resets the timer, the next packet starts it.
    let sends = [write(10, 100), write(110, 100), write(260, 100)];
    let three = Play::of(&sends).nodelay().run(seed);
    figures.insert("second_packet_ack_us", three.ack_after(1));
    figures.insert("timer_ack_after_restart_us", three.ack_after(2));
    // WS3: the server has something to say.
    let answered = Play {
        server: &[write(60, 50)],
        ..Play::of(&[write(10, 100)])
    }
    .run(seed);
    let acks = answered.answered.all();
    let pure = acks.iter().filter(|ack| ack.bytes == 0).count();
    figures.insert("answer_ack_us", answered.ack_after(0));
    figures.insert("answer_pure_acks", pure as f64);
    completions(seed, &mut figures);
    figures
}

/// When sends are complete.
fn completions(seed: u64, figures: &mut Figures) {
    let wait = |played: &Played, send: usize| micros(played.client[send]);
    // WS13: within the quota.
    let within = Play::of(&[write(10, 4000), write(10, 4000)]).run(seed);
    figures.insert("within_quota_wait_us", wait(&within, 1));
    // WS14, WS15, WS16: beyond it, behind one send and behind two.
    let three = [write(10, 10_000), write(10, 10_000), write(10, 10_000)];
    let beyond = Play::of(&three).run(seed);
    figures.insert("behind_one_send_wait_us", wait(&beyond, 1));
    figures.insert("behind_two_sends_wait_us", wait(&beyond, 2));
    let done = beyond.made[2].1.unwrap_or(Instant::MAX);
    let acked = beyond.acked_at(10_000);
    figures.insert("behind_two_sends_after_ack_us", micros(done.since(acked)));
    figures.insert("part_of_a_send_released", f64::from(u8::from(done < acked)));
    // WS12: no buffer.
    let one = [write(10, 100)];
    let plain = Play::of(&one).quota(0).run(seed);
    figures.insert("no_buffer_wait_us", wait(&plain, 0));
    let nodelay = Play::of(&one).quota(0).nodelay().run(seed);
    figures.insert("no_buffer_nodelay_wait_us", wait(&nodelay, 0));
}

/// A size with the names of its figures.
struct Block {
    bytes: usize,
    stream_stalls: &'static str,
    alone_held: &'static str,
    alone_last_ack: &'static str,
    alone_packets: &'static str,
}

const SIZES: [Block; 4] = [
    Block {
        bytes: 7168,
        stream_stalls: "stream_7kib_stalls",
        alone_held: "alone_7kib_held_us",
        alone_last_ack: "alone_7kib_last_ack_us",
        alone_packets: "alone_7kib_packets",
    },
    Block {
        bytes: 8000,
        stream_stalls: "stream_8000_stalls",
        alone_held: "alone_8000_held_us",
        alone_last_ack: "alone_8000_last_ack_us",
        alone_packets: "alone_8000_packets",
    },
    Block {
        bytes: 8192,
        stream_stalls: "stream_8192_stalls",
        alone_held: "alone_8192_held_us",
        alone_last_ack: "alone_8192_last_ack_us",
        alone_packets: "alone_8192_packets",
    },
    Block {
        bytes: 20_480,
        stream_stalls: "stream_20kib_stalls",
        alone_held: "alone_20kib_held_us",
        alone_last_ack: "alone_20kib_last_ack_us",
        alone_packets: "alone_20kib_packets",
    },
];

fn blocks(seed: u64) -> Figures {
    let mut figures = Figures::new();
    for block in SIZES {
        let writes = vec![write(10, block.bytes); STREAM_BLOCKS];
        let stream = Play {
            blocks: true,
            ..Play::of(&writes)
        };
        figures.insert(block.stream_stalls, stream.run(seed).stalls() as f64);
        let alone = Play::of(&[write(10, block.bytes)]).run(seed);
        figures.insert(block.alone_held, alone.last_held());
        figures.insert(block.alone_last_ack, alone.last_ack());
        figures.insert(block.alone_packets, alone.left.data().len() as f64);
    }
    for (name, bytes) in [
        ("nodelay_7kib_last_ack_us", 7168),
        ("nodelay_8000_last_ack_us", 8000),
    ] {
        let alone = Play::of(&[write(10, bytes)]).nodelay().run(seed);
        figures.insert(name, alone.last_ack());
    }
    figures
}

impl Played {
    /// When the client had heard that its first `bytes` arrived.
    fn acked_at(&self, bytes: u32) -> Instant {
        let Some(first) = self.left.data().first().map(|packet| packet.seq) else {
            return Instant::MAX;
        };
        let returned = self.returned.all();
        let mut acks = returned.iter();
        let acked = acks.find(|ack| !ack.ack.before(first + bytes));
        acked.map_or(Instant::MAX, |ack| ack.at)
    }

    /// Packets in front of the last one that left long after the one before.
    fn stalls(&self) -> usize {
        let data = self.left.data();
        let inner = data.len().saturating_sub(1);
        let gaps = data[..inner].windows(2);
        gaps.filter(|pair| pair[1].at.since(pair[0].at) >= STALL)
            .count()
    }

    /// How long after the packet in front of it the last one left.
    fn last_held(&self) -> f64 {
        match self.left.data().as_slice() {
            [.., before, last] => micros(last.at.since(before.at)),
            _ => 0.0,
        }
    }

    /// How long after its arrival the last packet was acknowledged.
    fn last_ack(&self) -> f64 {
        self.ack_after(self.arrived.data().len().saturating_sub(1))
    }

    /// From the arrival of the data packet of this number to the next packet of the server.
    fn ack_after(&self, packet: usize) -> f64 {
        let Some(arrived) = self.arrived.data().get(packet).map(|packet| packet.at) else {
            return f64::INFINITY;
        };
        let answered = self.answered.all();
        let mut answers = answered.iter().filter(|answer| answer.at >= arrived);
        let answer = answers.next();
        answer.map_or(f64::INFINITY, |answer| micros(answer.at.since(arrived)))
    }
}
