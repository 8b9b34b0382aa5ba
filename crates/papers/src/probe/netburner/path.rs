//! A board and its peer on a path of virtual time, each with tasks, and what a look at the packets
//! shows.

use core::cell::RefCell;
use core::net::{IpAddr, Ipv4Addr};
use core::task::Poll;
use core::time::Duration;
use std::rc::Rc;

use base::tcp::TcpFlags;
use base::{Instant, Rate, SeqNum};
use link::LinkSpec;
use stack::profile::Profile;
use stack::{HostConfig, Packet};

use crate::netburner::{Board, MAXPEND, Netburner, Task, Turn};
use lab::app::HostCosts;
use lab::world::{NodeId, Tap, TapPoint, World, chain};

/// The device.
pub(super) const DEVICE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
/// Address of the peer.
pub(super) const PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
/// Port of a [`Sink`].
pub(super) const PORT: u16 = 1234;

/// Longer than any of these runs takes.
const TIME_MAX: Duration = Duration::from_secs(3600);

/// A task of any kind.
pub(super) type AnyTask = Box<dyn Task>;

/// Both ends and the path between them.
#[derive(Debug)]
pub(super) struct Site {
    pub(super) world: World<Board<AnyTask>>,
    pub(super) device: NodeId,
    /// Data segments of the device, as they reach the peer.
    pub(super) seen: DataTap,
}

/// One end of a path: its stack, and its tasks.
pub(super) type End = (Profile, Vec<AnyTask>);

impl Site {
    /// A path that is the same both ways; the tasks begin at once, those of the peer first.
    pub(super) fn new(device: End, peer: End, link: &LinkSpec, seed: u64) -> Self {
        let mut world = World::new();
        let config = |profile: &Profile, ip| HostConfig::of(profile, ip, seed);
        let a = world.add_host(config(&device.0, DEVICE), HostCosts::NONE);
        let b = world.add_host(config(&peer.0, PEER), HostCosts::NONE);
        let links = [(link.clone(), link.clone())];
        let (out, _) =
            chain(&mut world, (a, b), &links, seed).expect("a link that is none of ours");
        let seen = DataTap::default();
        world.add_tap(out, TapPoint::Exit, Box::new(seen.clone()));
        world.start(b, Board::new(peer.1));
        world.start(a, Board::new(device.1));
        Self {
            world,
            device: a,
            seen,
        }
    }

    /// Runs until nothing is due any more, or the tasks would not end.
    pub(super) fn run(&mut self) {
        self.world.run(Instant::ZERO + TIME_MAX);
    }
}

/// A link of this rate with half of this round-trip time, and a queue of 200 packets.
pub(super) fn link(rate: Rate, rtt: Duration) -> LinkSpec {
    LinkSpec {
        rate: Some(rate),
        delay: rtt / 2,
        queue: base::QueueLimit::Packets(200),
        overhead_bytes: 14,
        ..LinkSpec::ideal()
    }
}

/// `nb-wan` with the round-trip time that N1 was fitted to.
pub(super) fn wan() -> LinkSpec {
    link(
        Rate::from_bits_per_second(25_000_000),
        Duration::from_micros(7_380),
    )
}

/// One segment with data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DataSegment {
    /// When it reached the peer.
    pub(super) at: Instant,
    /// The number of its first byte, from 0.
    pub(super) start: u64,
    /// Its bytes.
    pub(super) bytes: u64,
    /// Whether it bears PSH.
    pub(super) push: bool,
}

/// The segments with data that passed, one connection only.
#[derive(Clone, Debug, Default)]
pub(super) struct DataTap(Rc<RefCell<Passed>>);

#[derive(Debug, Default)]
struct Passed {
    first: Option<SeqNum>,
    segments: Vec<DataSegment>,
}

impl DataTap {
    /// All so far.
    pub(super) fn segments(&self) -> Vec<DataSegment> {
        self.0.borrow().segments.clone()
    }

    /// When a byte reached the peer first.
    pub(super) fn arrival(&self, byte: u64) -> Option<Instant> {
        let passed = self.0.borrow();
        let has_it =
            |segment: &&DataSegment| (segment.start..segment.start + segment.bytes).contains(&byte);
        passed
            .segments
            .iter()
            .find(has_it)
            .map(|segment| segment.at)
    }
}

impl Tap for DataTap {
    fn on_packet(&mut self, at: Instant, packet: &Packet) {
        let Some(segment) = packet.segment() else {
            return;
        };
        let Passed { first, segments } = &mut *self.0.borrow_mut();
        if segment.flags.contains(TcpFlags::SYN) {
            *first = Some(segment.seq + 1);
        }
        let bytes = u64::from(segment.payload.len());
        if let Some(first) = first.filter(|_| bytes > 0) {
            segments.push(DataSegment {
                at,
                start: segment.seq.bytes_since(first).into(),
                bytes,
                push: segment.flags.contains(TcpFlags::PSH),
            });
        }
    }
}

/// Accepts connections and reads all that comes, until each peer closes.
#[derive(Debug, Default)]
pub(super) struct Sink {
    listener: i32,
    open: Vec<i32>,
    /// Connections that are to come.
    awaited: usize,
    /// Bytes read so far.
    pub(super) received: Rc<core::cell::Cell<u64>>,
}

impl Sink {
    /// For this many connections.
    pub(super) fn of(connections: usize) -> Self {
        Self {
            awaited: connections,
            ..Self::default()
        }
    }
}

impl Task for Sink {
    fn turn(&mut self, system: &mut Netburner<'_>) -> Turn {
        if self.listener == 0 {
            self.listener = system.listen(PEER, PORT, MAXPEND);
        }
        let (mut address, mut port) = (DEVICE, 0);
        while self.awaited > 0
            && let Poll::Ready(fd @ 1..) = system.accept(self.listener, &mut address, &mut port, 0)
        {
            self.awaited -= 1;
            self.open.push(fd);
        }
        let mut buffer = [0; 65_536];
        let received = &self.received;
        self.open.retain(|fd| {
            loop {
                match system.read(*fd, &mut buffer) {
                    Poll::Pending => return true,
                    Poll::Ready(n @ 1..) => received.set(received.get() + n as u64),
                    Poll::Ready(_) => {
                        system.close(*fd);
                        return false;
                    }
                }
            }
        });
        match self.awaited == 0 && self.open.is_empty() {
            true => Turn::Done,
            false => Turn::Blocked,
        }
    }
}
