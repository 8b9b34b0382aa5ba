//! What one side of a bulk transfer costs per superpacket of 64 KiB at MTU 1500, without links and
//! without system calls: receiving is `handle_packet`, `read_chunks` and `poll_transmit` for the
//! ACKs, sending is `write_chunk`, `poll_transmit` and `handle_packet` of the ACKs.
//!
//! Two hosts talk once, and what each was asked is written down; then each side alone does it
//! again, which takes the same way because a host depends on its seed and its arguments alone.
//!
//! `cargo bench -p tcptailor-stack --bench superpacket [-- SIDE [SUPERPACKETS]]` prints a table;
//! `perf stat -e instructions:u` on the binary, with two numbers of superpackets, counts
//! instructions.

use std::hint::black_box;
use std::net::SocketAddr;
use std::time::Duration;

use base::Instant;
use bytes::Bytes;
use tcptailor_stack::{
    Event, Host, HostConfig, ListenOptions, Packet, SocketId, WriteFlags, profile,
};

/// One superpacket: 45 segments of 1448 bytes.
const SUPERPACKET_BYTES: usize = 45 * 1448;
/// Time between two rounds: a superpacket each 20 microseconds is 26 Gbit/s.
const ROUND: Duration = Duration::from_micros(20);
/// Superpackets until buffers and windows have reached their size.
const WARM_UP: usize = 2_000;

/// What a side was asked.
#[derive(Clone)]
#[expect(clippy::large_enum_variant, reason = "a box would be measured as well")]
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
    superpackets: usize,
    /// A shared slice that every write takes.
    data: Bytes,
}

impl Side {
    fn receiver() -> Self {
        let profile = profile::linux_6_18();
        let mut host = Host::new(HostConfig::of(&profile, [10, 0, 0, 2].into(), 2));
        let options = ListenOptions::of(&profile);
        host.listen(([10, 0, 0, 2], 80).into(), options)
            .expect("a free port");
        Self::of(host, None)
    }

    fn sender() -> Self {
        let profile = profile::linux_6_18();
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
            superpackets: 0,
            data: Bytes::from(vec![7; SUPERPACKET_BYTES]),
        }
    }

    /// Does what is asked, as a driver with a program that forgets what it reads; returns what
    /// leaves.
    fn call(&mut self, call: Call) -> Option<Packet> {
        match call {
            Call::Handle(now, packet) => self.host.handle_packet(now, packet),
            Call::Read(now) => {
                if let Some(id) = self.id {
                    let read = self.host.read_chunks(now, id, usize::MAX);
                    self.superpackets += usize::from(read.is_ok());
                }
            }
            Call::Write(now) => {
                if let Some(id) = self.id {
                    let flags = WriteFlags::default();
                    let written = self.host.write_chunk(now, id, self.data.clone(), flags);
                    self.superpackets += usize::from(written.is_ok());
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

    fn ask(&mut self, call: Call) -> Option<Packet> {
        self.calls.push(call.clone());
        self.call(call)
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

    /// Nanoseconds of CPU time per superpacket of doing `calls` again, the first `warm_up`
    /// superpackets apart.
    #[inline(never)]
    fn replay(mut self, calls: Vec<Call>, warm_up: usize) -> f64 {
        let mut start = None;
        let mut first = 0;
        for call in calls {
            if start.is_none() && self.superpackets >= warm_up {
                (start, first) = (Some(cpu_nanos()), self.superpackets);
            }
            // What leaves goes to the device, and its memory with it.
            black_box(self.call(call));
        }
        let nanos = cpu_nanos() - start.expect("more than the warm-up");
        nanos as f64 / (self.superpackets - first) as f64
    }
}

/// CPU time of this process: other work on the machine does not count.
fn cpu_nanos() -> u64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").expect("a Linux kernel");
    let first = text.split_whitespace().next().expect("three numbers");
    first.parse().expect("nanoseconds")
}

/// Two hosts that talk until so many superpackets were read.
fn transfer(superpackets: usize) -> (Side, Side) {
    let (mut sender, mut receiver) = (Side::sender(), Side::receiver());
    let (mut now, mut acks) = (Instant::ZERO, Vec::new());
    while receiver.superpackets < superpackets {
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
    (sender, receiver)
}

fn main() {
    let chosen: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| !arg.starts_with("--"))
        .collect();
    let side = chosen.first().map(String::as_str);
    let superpackets = chosen
        .get(1)
        .map_or(10_000, |arg| arg.parse().expect("a number of superpackets"));
    let (sender, receiver) = transfer(WARM_UP + superpackets);
    println!("side     superpackets  packets in  ns/superpacket");
    let row = |name: &str, make: fn() -> Side, calls: &[Call]| {
        if side.is_none_or(|side| side == name) {
            let rounds = (0..7).map(|_| make().replay(calls.to_vec(), WARM_UP));
            let best = rounds.fold(f64::INFINITY, f64::min);
            let is_packet = |call: &&Call| matches!(call, Call::Handle(..));
            let packets = calls.iter().filter(is_packet).count();
            println!("{name:7}  {superpackets:>12}  {packets:>10}  {best:>14.0}");
        }
    };
    row("receive", Side::receiver, &receiver.calls);
    row("send", Side::sender, &sender.calls);
}
