//! What many connections cost: memory of an idle one and of one whose buffer is full, and the time
//! for a SYN, with room in the backlog and without.
//!
//! `cargo bench -p tcptailor-stack --bench many [-- CONNECTIONS]` prints a table.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use base::tcp::TcpFlags;
use base::{Instant, SeqNum};
use bytes::Bytes;
use tcptailor_stack::{
    Body, EcnMark, Host, HostConfig, ListenOptions, Packet, Segment, SegmentOptions, SocketId,
    Timestamps, WriteFlags, profile,
};

const CLIENT: [u8; 4] = [10, 0, 0, 1];
const SERVER: [u8; 4] = [10, 0, 0, 2];
/// What each connection carries before it is idle.
const REQUEST_BYTES: usize = 100_000;

fn host(address: [u8; 4]) -> Host {
    let mut config = HostConfig::of(&profile::linux_6_18(), address.into(), 1);
    config.system.connections_max = u32::MAX;
    config.system.txqueuelen = u32::MAX;
    Host::new(config)
}

/// A client and a server that hand each other their packets at once.
struct Pair {
    now: Instant,
    client: Host,
    server: Host,
    listener: SocketId,
}

impl Pair {
    fn new() -> Self {
        let mut server = host(SERVER);
        let options = ListenOptions::of(&profile::linux_6_18());
        let listener = server
            .listen((SERVER, 80).into(), options)
            .expect("a free port");
        Self {
            now: Instant::ZERO,
            client: host(CLIENT),
            server,
            listener,
        }
    }

    fn exchange(&mut self) {
        for _ in 0..1000 {
            self.now += Duration::from_micros(10);
            let mut is_quiet = true;
            while let Some(packet) = self.client.poll_transmit(self.now) {
                self.server.handle_packet(self.now, packet);
                is_quiet = false;
            }
            while let Some(packet) = self.server.poll_transmit(self.now) {
                self.client.handle_packet(self.now, packet);
                is_quiet = false;
            }
            if is_quiet {
                return;
            }
        }
    }

    /// Opens a connection that carries a little, both ways read to the end, and is idle then.
    fn open(&mut self, data: &Bytes) -> (SocketId, SocketId) {
        let settings = self.client.default_settings().clone();
        let client = self
            .client
            .connect(self.now, (SERVER, 80).into(), settings)
            .expect("a free port");
        self.exchange();
        let server = self
            .server
            .accept(self.now, self.listener)
            .expect("a connection");
        for _ in 0..10 {
            let flags = WriteFlags::default();
            let part = data.slice(..REQUEST_BYTES / 10);
            let _ = self.client.write_chunk(self.now, client, part, flags);
            self.exchange();
            while self
                .server
                .read_chunks(self.now, server, usize::MAX)
                .is_ok()
            {}
            self.exchange();
        }
        while self
            .client
            .poll_event()
            .or(self.server.poll_event())
            .is_some()
        {}
        (client, server)
    }
}

/// Bytes of one side of an idle connection, and what a blocked writer and a reader that does not
/// read add to both sides, the data apart.
fn memory(connections: u64) {
    let data = Bytes::from(vec![7; 1 << 20]);
    let mut pair = Pair::new();
    pair.open(&data);
    let empty = resident_bytes();
    let ids: Vec<_> = (1..connections).map(|_| pair.open(&data)).collect();
    let idle = resident_bytes();
    for (client, _) in ids {
        let flags = WriteFlags::default();
        while pair
            .client
            .write_chunk(pair.now, client, data.clone(), flags)
            .is_ok()
        {}
        pair.exchange();
    }
    let active = resident_bytes();
    println!("connections  bytes of an idle end  bytes of an end with full buffers");
    println!(
        "{connections:>11}  {:>20}  {:>33}",
        (idle - empty) / (2 * (connections - 1)),
        (active - empty) / (2 * (connections - 1)),
    );
}

/// Nanoseconds for a SYN and its answer, and what is left of it in memory.
fn syns(count: u32, backlog: u32, name: &str) {
    let mut server = host(SERVER);
    let options = ListenOptions::of(&profile::linux_6_18()).with_backlog(backlog);
    server
        .listen((SERVER, 80).into(), options)
        .expect("a free port");
    let packets: Vec<Packet> = (0..count).map(syn).collect();
    let (memory, start) = (resident_bytes(), cpu_nanos());
    let mut answers = 0;
    for (packet, nanos) in packets.into_iter().zip((0..).step_by(10_000)) {
        let now = Instant::from_nanos(nanos);
        server.handle_packet(now, packet);
        answers += u64::from(server.poll_transmit(now).is_some());
    }
    let nanos = (cpu_nanos() - start) / u64::from(count);
    let bytes = resident_bytes().saturating_sub(memory) / u64::from(count);
    println!("{name:>12}  {count:>7}  {answers:>7}  {nanos:>6}  {bytes:>9}");
}

/// A SYN from an address of its own.
fn syn(number: u32) -> Packet {
    let [_, a, b, c] = number.to_be_bytes();
    let segment = Segment {
        source_port: 40_000,
        destination_port: 80,
        seq: SeqNum::new(number),
        flags: TcpFlags::SYN,
        window: u16::MAX,
        options: SegmentOptions {
            mss: Some(1460),
            window_scale: Some(7),
            sack_permitted: true,
            timestamps: Some(Timestamps { value: 1, echo: 0 }),
            sack: None,
        },
        ..Segment::default()
    };
    let source: SocketAddr = ([11, a, b, c], 0).into();
    Packet {
        source: source.ip(),
        destination: IpAddr::from(SERVER),
        ecn: EcnMark::NotEct,
        dont_fragment: true,
        hop_limit: 64,
        not_before: Instant::ZERO,
        body: Body::Tcp(segment),
    }
}

/// CPU time of this process: other work on the machine does not count.
fn cpu_nanos() -> u64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").expect("a Linux kernel");
    let first = text.split_whitespace().next().expect("three numbers");
    first.parse().expect("nanoseconds")
}

/// Memory that the process has now.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a Linux kernel");
    let line = status.lines().find(|line| line.starts_with("VmRSS"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kib.expect("a number of KiB") << 10
}

fn main() {
    let connections = std::env::args().find_map(|arg| arg.parse().ok());
    memory(connections.unwrap_or(5_000));
    println!("      SYNs of    count  answers  ns/SYN  bytes/SYN");
    syns(100_000, u32::MAX, "a backlog");
    syns(100_000, 0, "cookies");
}
