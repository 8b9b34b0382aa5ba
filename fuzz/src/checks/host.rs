//! The bytes are a script: what a peer that knows the connection sends to a host, what its
//! application does meanwhile, and how the time passes.
//!
//! The peer sees what the host sends, so that its sequence numbers lie close to those that matter.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use base::tcp::{SackBlocks, TcpFlags};
use base::{Instant, SeqNum, WirePacket as _};
use bytes::Bytes;
use stack::profile::PROFILES;
use stack::{
    Body, EcnMark, Host, HostConfig, IcmpError, IcmpKind, ListenOptions, Packet, Segment,
    SegmentOptions, SocketId, Timestamps, wire,
};

use super::input::Input;

const HOST: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));
const PORT: u16 = 80;
/// Connections that the peer has from its own ports, and sockets that the application keeps.
const CONNECTIONS_MAX: usize = 8;
const STEPS_MAX: usize = 2_000;
/// What one packet or timeout may set free beside data: more is a sign of a storm.
const BURST_MAX: usize = 20_000;
/// ... and data, all of it at once where no congestion control holds it: the smallest segment that
/// a peer can ask for, less the timestamps in it.
const SEGMENT_BYTES_MIN: usize = 36;
const TIMEOUTS_MAX: usize = 1_000;

/// No script makes the host panic, send without end or set timers that do not advance.
pub(crate) fn check(bytes: &[u8]) {
    let mut input = Input { bytes };
    let mut world = World::new(&mut input);
    for _ in 0..STEPS_MAX {
        let Some(step) = input.byte() else { break };
        world.step(step, &mut input);
        world.settle();
    }
    // Whatever happened, time ends it or nothing is pending.
    for _ in 0..20 {
        world.pass(Duration::from_secs(7));
        world.settle();
    }
}

/// What the peer knows of one connection.
#[derive(Clone, Copy, Default)]
struct Known {
    /// Behind the last that the host sent.
    host_next: SeqNum,
    /// What the host acknowledged.
    host_ack: SeqNum,
    /// The host's last timestamp.
    timestamp: u32,
}

struct World {
    now: Instant,
    host: Host,
    listener: SocketId,
    sockets: Vec<SocketId>,
    /// Bytes that the application wrote.
    written: usize,
    /// By the host's port and the peer's.
    known: BTreeMap<(u16, u16), Known>,
}

impl World {
    fn new(input: &mut Input<'_>) -> Self {
        let (_, make) = PROFILES[input.number() as usize % PROFILES.len()];
        let profile = make();
        let bits = input.number();
        let mut config = HostConfig::of(&profile, HOST, bits.into());
        config.mtu = if bits & 1 == 0 { 1500 } else { 576 };
        let mut host = Host::new(config);
        let options = ListenOptions::new(profile.settings)
            .with_backlog(bits >> 1 & 3)
            .with_syn_cookies(bits & 8 != 0);
        let listener = host
            .listen((HOST, PORT).into(), options)
            .expect("nobody else listens");
        Self {
            now: Instant::from_nanos(1_000_000_000),
            host,
            listener,
            sockets: Vec::new(),
            written: 0,
            known: BTreeMap::new(),
        }
    }

    fn step(&mut self, step: u8, input: &mut Input<'_>) {
        match step % 8 {
            0..3 => self.send_segment(input),
            3 => {
                let shift = input.number() % 36;
                self.pass(Duration::from_nanos(u64::from(input.number()) << shift));
            }
            4 | 5 => self.act(input),
            6 => self.send_error(input),
            _ => self.send_bytes(input),
        }
    }

    /// Time passes in one go: a driver may be late.
    fn pass(&mut self, time: Duration) {
        self.now += time;
        for _ in 0..TIMEOUTS_MAX {
            match self.host.poll_timeout() {
                Some(due) if due <= self.now => self.host.handle_timeout(self.now),
                _ => return,
            }
            self.drain();
        }
        panic!("timers do not advance at {:?}", self.now);
    }

    /// One of the connections that were seen, or a new one from a port of the peer.
    fn ports(&self, input: &mut Input<'_>) -> (u16, u16) {
        let which = input.number() as usize;
        match self.known.keys().nth(which / 2 % CONNECTIONS_MAX) {
            Some(&ports) if which.is_multiple_of(2) => ports,
            _ => (PORT, 40_000 + (which % CONNECTIONS_MAX) as u16),
        }
    }

    fn send_segment(&mut self, input: &mut Input<'_>) {
        let (local, remote) = self.ports(input);
        let known = self
            .known
            .get(&(local, remote))
            .copied()
            .unwrap_or_default();
        let flags = TcpFlags::from_bits(input.wide() as u16);
        let seq = known.host_ack + input.distance();
        let ack = known.host_next + input.distance();
        let shape = input.number();
        let length = match shape & 3 {
            0 => 0,
            1 => input.number(),
            2 => input.wide() % 1461,
            _ => input.wide() % 60_000,
        };
        let gso_size = match shape >> 2 & 3 {
            3 if length > 1460 => 1460,
            2 if length > 100 => 100,
            _ => 0,
        };
        let segment = Segment {
            source_port: remote,
            destination_port: local,
            seq,
            ack,
            flags,
            window: input.wide() as u16,
            urgent: input.number() as u16,
            options: options(shape >> 4, &known, input),
            payload: Bytes::from(vec![7; length as usize]).into(),
            gso_size,
        };
        let ecn = match input.number() % 4 {
            0 => EcnMark::NotEct,
            1 => EcnMark::Ect0,
            2 => EcnMark::Ect1,
            _ => EcnMark::Ce,
        };
        self.deliver(Packet {
            ecn,
            ..packet(Body::Tcp(segment))
        });
    }

    fn send_error(&mut self, input: &mut Input<'_>) {
        let (local, remote) = self.ports(input);
        let known = self
            .known
            .get(&(local, remote))
            .copied()
            .unwrap_or_default();
        let kind = match input.number() % 4 {
            0 => IcmpKind::Unreachable,
            1 => IcmpKind::Refused,
            _ => IcmpKind::TooBig { mtu: input.wide() },
        };
        self.deliver(packet(Body::Icmp(IcmpError {
            kind,
            local: SocketAddr::new(HOST, local),
            remote: SocketAddr::new(PEER, remote),
            seq: known.host_next + input.distance(),
        })));
    }

    /// Bytes from the script that may happen to be a packet.
    fn send_bytes(&mut self, input: &mut Input<'_>) {
        let length = (input.number() as usize).min(input.bytes.len());
        let (bytes, rest) = input.bytes.split_at(length);
        input.bytes = rest;
        let bytes = Bytes::copy_from_slice(bytes);
        if let Ok(packet) = wire::decode_tun(&bytes) {
            self.deliver(packet);
        }
    }

    fn deliver(&mut self, packet: Packet) {
        assert!(packet.segments() >= 1);
        self.host.handle_packet(self.now, packet);
    }

    /// The application does something.
    fn act(&mut self, input: &mut Input<'_>) {
        let (now, action) = (self.now, input.number());
        if self.sockets.len() < CONNECTIONS_MAX && action.is_multiple_of(11) {
            self.sockets.extend(self.host.accept(now, self.listener));
            return;
        }
        if self.sockets.len() < CONNECTIONS_MAX && action % 11 == 1 {
            let settings = PROFILES[input.number() as usize % PROFILES.len()].1().settings;
            let remote = SocketAddr::new(PEER, 80 + (action % 3) as u16);
            self.sockets
                .extend(self.host.connect(now, remote, settings));
            return;
        }
        let which = input.number() as usize;
        if self.sockets.is_empty() {
            return;
        }
        let id = self.sockets[which % self.sockets.len()];
        match action % 11 {
            2..5 => {
                let bytes = vec![3; input.wide() as usize];
                self.written += self.host.write(now, id, &bytes).unwrap_or(0);
            }
            5 | 6 => {
                let mut buffer = vec![0; input.wide() as usize];
                let _ = self.host.read(now, id, &mut buffer);
            }
            7 => self.host.shutdown(now, id),
            8 => self.host.close(now, id),
            9 => self.host.abort(now, id),
            _ => {
                let settings = PROFILES[input.number() as usize % PROFILES.len()].1().settings;
                self.host.configure(now, id, |current| *current = settings);
            }
        }
        if matches!(action % 11, 8 | 9) {
            self.sockets.retain(|&kept| kept != id);
        }
    }

    fn settle(&mut self) {
        self.drain();
        for _ in 0..BURST_MAX {
            if self.host.poll_event().is_none() {
                break;
            }
        }
        for &id in &self.sockets {
            let _ = self.host.limit(self.now, id);
            let _ = self.host.sample(self.now, id);
        }
    }

    /// Takes out what the host sends; the peer looks at it.
    fn drain(&mut self) {
        let most = BURST_MAX + self.written / SEGMENT_BYTES_MIN;
        for _ in 0..most {
            let Some(packet) = self.host.poll_transmit(self.now) else {
                return;
            };
            self.look_at(&packet);
        }
        panic!("more than {most} packets at once");
    }

    fn look_at(&mut self, packet: &Packet) {
        let mut bytes = Vec::new();
        wire::encode(packet, &mut bytes).expect("a host sends what has a form on the wire");
        let Body::Tcp(segment) = &packet.body else {
            return;
        };
        if self.known.len() >= 4 * CONNECTIONS_MAX {
            self.known.pop_first();
        }
        let ports = (segment.source_port, segment.destination_port);
        let known = self.known.entry(ports).or_default();
        known.host_next = segment.seq + segment.sequence_bytes();
        if segment.flags.contains(TcpFlags::ACK) {
            known.host_ack = segment.ack;
        }
        if let Some(stamps) = segment.options.timestamps {
            known.timestamp = stamps.value;
        }
    }
}

fn packet(body: Body) -> Packet {
    Packet {
        source: PEER,
        destination: HOST,
        ecn: EcnMark::NotEct,
        dont_fragment: true,
        hop_limit: 64,
        not_before: Instant::ZERO,
        body,
    }
}

fn options(shape: u32, known: &Known, input: &mut Input<'_>) -> SegmentOptions {
    let mut options = SegmentOptions::default();
    if shape & 1 != 0 {
        options.timestamps = Some(Timestamps {
            value: input.distance(),
            echo: known.timestamp.wrapping_add(input.distance()),
        });
    }
    if shape & 2 != 0 {
        options.mss = Some(input.wide() as u16);
        options.window_scale = Some(input.number() as u8);
        options.sack_permitted = true;
    }
    if shape & 4 != 0 {
        let mut block = || {
            (
                known.host_next + input.distance(),
                known.host_next + input.distance(),
            )
        };
        options.sack = Some(SackBlocks::new(&[block(), block(), block()]));
    }
    options
}
