//! What one side of a bulk transfer costs per GSO packet of 64 KiB at MTU 1500, and per segment
//! where each is a packet by itself, without links and without system calls: receiving is
//! `handle_packet`, `read_chunks` and `poll_transmit` for the ACKs, sending is `write_chunk`,
//! `poll_transmit` and `handle_packet` of the ACKs.
//!
//! Two hosts talk once, and what each was asked is written down; then each side alone does it
//! again, which takes the same way because a host depends on its seed and its arguments alone.
//!
//! `cargo bench -p tcptailor-stack --bench gso_packet` prints a table; `-- SIDE UNIT COUNT` does
//! one row of it once, for `.ci/instructions`, which counts what [`Side::replay`] takes.

use std::hint::black_box;
use std::net::SocketAddr;
use std::time::Duration;

use base::Instant;
use bytes::Bytes;
use tcptailor_stack::{
    Event, Host, HostConfig, ListenOptions, Packet, SocketId, WriteFlags, profile,
};

/// What a segment carries at MTU 1500, with timestamps.
const SEGMENT_BYTES: usize = 1448;
/// One GSO packet, and what a program writes at once.
const GSO_PACKET_BYTES: usize = 45 * SEGMENT_BYTES;
/// Time between two rounds: a GSO packet each 20 microseconds is 26 Gbit/s.
const ROUND: Duration = Duration::from_micros(20);
/// Bytes until buffers and windows have reached their size.
const WARM_UP_BYTES: usize = 400 * GSO_PACKET_BYTES;

/// What packets carry.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    /// Up to 64 KiB.
    GsoPacket,
    /// One segment.
    Segment,
}

impl Unit {
    const ALL: [Self; 2] = [Self::GsoPacket, Self::Segment];

    const fn name(self) -> &'static str {
        match self {
            Self::GsoPacket => "gso_packet",
            Self::Segment => "segment",
        }
    }

    const fn bytes(self) -> usize {
        match self {
            Self::GsoPacket => GSO_PACKET_BYTES,
            Self::Segment => SEGMENT_BYTES,
        }
    }
}

/// What a side was asked.
#[derive(Clone)]
enum Call {
    Handle(Instant, Packet),
    Read(Instant),
    Write(Instant),
    /// It gave out one packet, or none.
    Poll(Instant),
    Timeout(Instant),
}

/// One host with its connection and all that was asked of it.
struct Side {
    host: Host,
    id: Option<SocketId>,
    calls: Vec<Call>,
    /// Written or read.
    bytes: usize,
    /// A shared slice that every write takes.
    data: Bytes,
}

impl Side {
    fn receiver(_: Unit) -> Self {
        let profile = profile::linux_6_18();
        let mut host = Host::new(HostConfig::of(&profile, [10, 0, 0, 2].into(), 2));
        let options = ListenOptions::of(&profile);
        host.listen(([10, 0, 0, 2], 80).into(), options)
            .expect("a free port");
        Self::of(host, None)
    }

    fn sender(unit: Unit) -> Self {
        let mut profile = profile::linux_6_18();
        if unit == Unit::Segment {
            profile.settings.path.gso_max = 0;
        }
        let mut host = Host::new(HostConfig::of(&profile, [10, 0, 0, 1].into(), 1));
        let remote: SocketAddr = ([10, 0, 0, 2], 80).into();
        let id = host
            .connect(Instant::ZERO, remote, profile.settings)
            .expect("a free port");
        Self::of(host, Some(id))
    }

    fn of(host: Host, id: Option<SocketId>) -> Self {
        Self {
            host,
            id,
            calls: Vec::new(),
            bytes: 0,
            data: Bytes::from(vec![7; GSO_PACKET_BYTES]),
        }
    }

    /// Does what is asked, as a driver with a program that forgets what it reads; returns what
    /// leaves.
    fn call(&mut self, call: &mut Call) -> Option<Packet> {
        match *call {
            Call::Handle(now, ref mut packet) => self.host.handle_packet_in_place(now, packet),
            Call::Read(now) => {
                if let Some(id) = self.id {
                    let read = self.host.read_chunks(now, id, usize::MAX);
                    self.bytes += read.map_or(0, |payload| payload.len() as usize);
                }
            }
            Call::Write(now) => {
                if let Some(id) = self.id {
                    let flags = WriteFlags::default();
                    let written = self.host.write_chunk(now, id, self.data.clone(), flags);
                    self.bytes += written.unwrap_or(0);
                }
            }
            Call::Poll(now) => return self.host.poll_transmit(now),
            Call::Timeout(now) => self.host.handle_timeout(now),
        }
        while let Some((id, event)) = self.host.poll_event() {
            if event == Event::Acceptable {
                self.id = self.host.accept(Instant::ZERO, id);
            }
        }
        None
    }

    fn ask(&mut self, mut call: Call) -> Option<Packet> {
        self.calls.push(call.clone());
        self.call(&mut call)
    }

    /// Takes out all that leaves.
    fn poll(&mut self, now: Instant) -> Vec<Packet> {
        std::iter::from_fn(|| self.ask(Call::Poll(now))).collect()
    }

    fn wake(&mut self, now: Instant) {
        if self.host.poll_timeout().is_some_and(|due| due <= now) {
            self.ask(Call::Timeout(now));
        }
    }

    /// Does calls again. They stay where they are, since moving them is not the host's work.
    #[inline(never)]
    fn replay(&mut self, calls: &mut [Call]) {
        for call in calls {
            // What leaves goes to the device, and its memory with it.
            black_box(&self.call(call));
        }
    }

    /// Nanoseconds of CPU time per `unit` of doing `calls` again, those before `warm` apart.
    fn nanos_per(mut self, unit: Unit, mut calls: Vec<Call>, warm: usize) -> f64 {
        let (before, measured) = calls.split_at_mut(warm);
        for call in before {
            self.call(call);
        }
        let (start, first) = (cpu_nanos(), self.bytes);
        self.replay(measured);
        let nanos = cpu_nanos() - start;
        nanos as f64 * unit.bytes() as f64 / (self.bytes - first) as f64
    }
}

/// CPU time of this process: other work on the machine does not count.
fn cpu_nanos() -> u64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").expect("a Linux kernel");
    let first = text.split_whitespace().next().expect("three numbers");
    first.parse().expect("nanoseconds")
}

/// What a side was asked in a transfer, and how many of the calls came before the end of the
/// warm-up.
struct Asked {
    calls: Vec<Call>,
    warm: usize,
}

/// Two hosts that talk until this many units were read behind the warm-up: what the sender was
/// asked, and what the receiver was.
fn transfer(unit: Unit, units: usize) -> (Asked, Asked) {
    let (mut sender, mut receiver) = (Side::sender(unit), Side::receiver(unit));
    let (mut now, mut acks) = (Instant::ZERO, Vec::new());
    let mut warm = None;
    while receiver.bytes < WARM_UP_BYTES + units * unit.bytes() {
        if warm.is_none() && receiver.bytes >= WARM_UP_BYTES {
            warm = Some((sender.calls.len(), receiver.calls.len()));
        }
        now += ROUND;
        sender.wake(now);
        receiver.wake(now);
        sender.ask(Call::Write(now));
        let data = sender.poll(now);
        // ACKs come a round later, so that something is always in flight.
        for packet in std::mem::replace(&mut acks, receiver.poll(now)) {
            sender.ask(Call::Handle(now, packet));
        }
        for packet in data {
            receiver.ask(Call::Handle(now, packet));
            receiver.ask(Call::Read(now));
        }
    }
    let warm = warm.expect("more than the warm-up");
    let asked = |side: Side, warm| Asked {
        calls: side.calls,
        warm,
    };
    (asked(sender, warm.0), asked(receiver, warm.1))
}

fn main() {
    let chosen: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| !arg.starts_with("--"))
        .collect();
    let is_chosen = |at: usize, name: &str| chosen.get(at).is_none_or(|chosen| chosen == name);
    let count = chosen
        .get(2)
        .map(|arg| arg.parse::<usize>().expect("a number of units"));
    println!("side     unit           units  packets in  ns/unit");
    for unit in Unit::ALL {
        if !is_chosen(1, unit.name()) {
            continue;
        }
        let units = count.unwrap_or(10_000 * GSO_PACKET_BYTES / unit.bytes() / 10);
        let (sender, receiver) = transfer(unit, units);
        let row = |name: &str, make: fn(Unit) -> Side, asked: &Asked| {
            if !is_chosen(0, name) {
                return;
            }
            let once = || make(unit).nanos_per(unit, asked.calls.clone(), asked.warm);
            let rounds = if count.is_some() { 1 } else { 7 };
            let best = (0..rounds).map(|_| once()).fold(f64::INFINITY, f64::min);
            let is_packet = |call: &&Call| matches!(call, Call::Handle(..));
            let packets = asked.calls[asked.warm..].iter().filter(is_packet).count();
            let unit = unit.name();
            println!("{name:7}  {unit:11}  {units:>7}  {packets:>10}  {best:>7.0}");
        };
        row("receive", Side::receiver, &receiver);
        row("send", Side::sender, &sender);
    }
}
