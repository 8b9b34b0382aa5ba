//! One host, and a peer that is made by hand, segment by segment.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use base::tcp::TcpFlags;
use base::{FlowSample, Instant, Limit, SeqNum, TcpState};
use bytes::Bytes;
use tcptailor_stack::profile::Profile;
use tcptailor_stack::{
    Body, EcnMark, Event, Host, HostConfig, IcmpError, IcmpKind, ListenOptions, Packet, Segment,
    SegmentOptions, SocketId, Timestamps, WriteError,
};

pub(crate) const HOST: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
pub(crate) const PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
pub(crate) const PORT: u16 = 80;

pub(crate) const SYN: TcpFlags = TcpFlags::SYN;
pub(crate) const ACK: TcpFlags = TcpFlags::ACK;
pub(crate) const FIN: TcpFlags = TcpFlags::FIN;
pub(crate) const RST: TcpFlags = TcpFlags::RST;

/// More than one call may ever set free.
const BURST_MAX: usize = 20_000;

/// A host and its time.
pub(crate) struct Bench {
    pub(crate) now: Instant,
    pub(crate) host: Host,
}

impl Bench {
    pub(crate) fn new(profile: &Profile) -> Self {
        Self {
            now: Instant::from_nanos(1_000_000_000),
            host: Host::new(HostConfig::of(profile, HOST, 7)),
        }
    }

    pub(crate) fn listen(&mut self, profile: &Profile) -> SocketId {
        self.listen_with(profile, 128, false)
    }

    pub(crate) fn listen_with(
        &mut self,
        profile: &Profile,
        backlog: u32,
        syn_cookies: bool,
    ) -> SocketId {
        let local = SocketAddr::new(HOST, PORT);
        let options = ListenOptions::new(profile.settings.clone())
            .with_backlog(backlog)
            .with_syn_cookies(syn_cookies);
        self.host.listen(local, options).expect("the port is free")
    }

    /// Everything that the host sends now.
    pub(crate) fn drain(&mut self) -> Vec<Segment> {
        let mut sent = Vec::new();
        while let Some(packet) = self.host.poll_transmit(self.now) {
            assert!(sent.len() < BURST_MAX, "a storm");
            if let Body::Tcp(segment) = packet.body {
                sent.push(segment);
            }
        }
        sent
    }

    /// Hands a segment of the peer in; returns what the host sends then.
    pub(crate) fn send(&mut self, segment: Segment) -> Vec<Segment> {
        self.send_marked(segment, EcnMark::NotEct)
    }

    pub(crate) fn send_marked(&mut self, segment: Segment, ecn: EcnMark) -> Vec<Segment> {
        self.host.handle_packet(
            self.now,
            Packet {
                ecn,
                ..packet(Body::Tcp(segment))
            },
        );
        self.drain()
    }

    /// An ICMP error about a segment of the host.
    pub(crate) fn send_error(&mut self, kind: IcmpKind, peer: &Peer, seq: SeqNum) -> Vec<Segment> {
        let error = IcmpError {
            kind,
            local: SocketAddr::new(HOST, peer.host_port),
            remote: SocketAddr::new(PEER, peer.port),
            seq,
        };
        self.host.handle_packet(self.now, packet(Body::Icmp(error)));
        self.drain()
    }

    /// Time passes; returns what the host sends meanwhile.
    pub(crate) fn pass(&mut self, time: Duration) -> Vec<Segment> {
        let end = self.now + time;
        let mut sent = self.drain();
        while let Some(due) = self.host.poll_timeout().filter(|due| *due <= end) {
            assert!(sent.len() < BURST_MAX, "a storm");
            self.now = self.now.max(due);
            self.host.handle_timeout(self.now);
            sent.extend(self.drain());
        }
        self.now = end;
        sent
    }

    /// What the connection says of itself.
    pub(crate) fn sample(&self, id: SocketId) -> FlowSample {
        let sample = self.host.sample(self.now, id);
        sample.expect("the connection is there")
    }

    pub(crate) fn state(&self, id: SocketId) -> Option<TcpState> {
        self.sample(id).state
    }

    /// Why it does not send.
    pub(crate) fn limit(&self, id: SocketId) -> Limit {
        let now = self.host.limit(self.now, id);
        now.expect("the connection is there").limit
    }

    /// The application writes; nothing leaves yet.
    pub(crate) fn write(&mut self, id: SocketId, bytes: &[u8]) -> Result<usize, WriteError> {
        self.host.write(self.now, id, bytes)
    }

    /// Events of one socket since the last call.
    pub(crate) fn events(&mut self, id: SocketId) -> Vec<Event> {
        std::iter::from_fn(|| self.host.poll_event())
            .filter(|(socket, _)| *socket == id)
            .map(|(_, event)| event)
            .collect()
    }

    /// Reads everything that is there.
    pub(crate) fn read(&mut self, id: SocketId) -> Vec<u8> {
        let mut bytes = Vec::new();
        while let Ok(payload) = self.host.read_chunks(self.now, id, usize::MAX) {
            if payload.is_empty() {
                break;
            }
            for chunk in payload.chunks() {
                bytes.extend_from_slice(chunk);
            }
        }
        bytes
    }
}

pub(crate) fn packet(body: Body) -> Packet {
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

/// What the peer knows of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) port: u16,
    pub(crate) host_port: u16,
    /// Number of its next byte.
    pub(crate) seq: SeqNum,
    /// What it acknowledges.
    pub(crate) ack: SeqNum,
    pub(crate) window: u16,
    /// Its clock, and what it echoes.
    pub(crate) timestamps: Option<Timestamps>,
}

impl Peer {
    /// One that has sent nothing yet.
    pub(crate) fn new(port: u16) -> Self {
        Self {
            port,
            host_port: PORT,
            seq: SeqNum::new(1_000_000),
            ack: SeqNum::default(),
            window: 65_535,
            timestamps: None,
        }
    }

    /// The same, with a clock that shows `value`.
    pub(crate) fn with_clock(port: u16, value: u32) -> Self {
        Self {
            timestamps: Some(Timestamps { value, echo: 0 }),
            ..Self::new(port)
        }
    }

    /// A segment from where the peer is; it does not move by it.
    pub(crate) fn segment(&self, flags: TcpFlags, payload: &[u8]) -> Segment {
        Segment {
            source_port: self.port,
            destination_port: self.host_port,
            seq: self.seq,
            ack: self.ack,
            flags,
            window: self.window,
            options: SegmentOptions {
                timestamps: self.timestamps,
                ..SegmentOptions::default()
            },
            payload: Bytes::copy_from_slice(payload).into(),
            ..Segment::default()
        }
    }

    /// A segment that lies `distance` from where the peer is.
    pub(crate) fn at(&self, distance: i32, flags: TcpFlags, payload: &[u8]) -> Segment {
        Segment {
            seq: self.seq + distance as u32,
            ..self.segment(flags, payload)
        }
    }

    /// The SYN with these options.
    pub(crate) fn syn(&self, options: SegmentOptions) -> Segment {
        Segment {
            options: SegmentOptions {
                timestamps: self.timestamps.or(options.timestamps),
                ..options
            },
            ack: SeqNum::default(),
            ..self.segment(SYN, b"")
        }
    }

    /// The answer to a SYN.
    pub(crate) fn syn_ack(&self, options: SegmentOptions) -> Segment {
        Segment {
            options,
            ..self.segment(SYN | ACK, b"")
        }
    }

    /// Takes the host's segments for received.
    pub(crate) fn take(&mut self, sent: &[Segment]) {
        for segment in sent {
            let end = segment.seq + segment.sequence_bytes();
            if end.after(self.ack) || self.ack == SeqNum::default() {
                self.ack = end;
            }
            if let (Some(own), Some(host)) = (&mut self.timestamps, segment.options.timestamps) {
                own.echo = host.value;
            }
        }
    }

    /// Sends the SYN and takes the SYN-ACK: only the ACK is missing.
    pub(crate) fn half_open(&mut self, bench: &mut Bench, options: SegmentOptions) {
        let answer = bench.send(self.syn(options));
        assert_eq!(flags(&answer), [SYN | ACK]);
        self.take(&answer);
        self.seq += 1;
    }

    /// Opens a connection to the listener, and lets the application accept it.
    pub(crate) fn open(
        &mut self,
        bench: &mut Bench,
        listener: SocketId,
        options: SegmentOptions,
    ) -> SocketId {
        self.half_open(bench, options);
        let sent = bench.send(self.segment(ACK, b""));
        self.take(&sent);
        let id = bench
            .host
            .accept(bench.now, listener)
            .expect("it is established");
        // Some open their window only now.
        let sent = bench.drain();
        self.take(&sent);
        id
    }
}

/// A bench with an established connection without options, except for the MSS.
pub(crate) fn established(profile: &Profile) -> (Bench, Peer, SocketId) {
    established_with(profile, Peer::new(4000), with_mss(1460))
}

/// The same with that peer, and with options.
pub(crate) fn established_with(
    profile: &Profile,
    mut peer: Peer,
    options: SegmentOptions,
) -> (Bench, Peer, SocketId) {
    let mut bench = Bench::new(profile);
    let listener = bench.listen(profile);
    let id = peer.open(&mut bench, listener, options);
    let _ = bench.events(id);
    (bench, peer, id)
}

/// A host that has sent a SYN to the peer.
pub(crate) fn connecting(profile: &Profile) -> (Bench, Peer, SocketId, Segment) {
    let mut bench = Bench::new(profile);
    let remote = SocketAddr::new(PEER, 4000);
    let id = bench
        .host
        .connect(bench.now, remote, profile.settings.clone())
        .expect("the host has ports");
    let syn = bench.drain().remove(0);
    let mut peer = Peer::new(4000);
    peer.host_port = syn.source_port;
    peer.take(std::slice::from_ref(&syn));
    (bench, peer, id, syn)
}

pub(crate) fn flags(sent: &[Segment]) -> Vec<TcpFlags> {
    sent.iter().map(|segment| segment.flags).collect()
}

/// Bytes of payload in all.
pub(crate) fn payload_bytes(sent: &[Segment]) -> u32 {
    sent.iter().map(|segment| segment.payload.len()).sum()
}

pub(crate) fn with_mss(mss: u16) -> SegmentOptions {
    SegmentOptions {
        mss: Some(mss),
        ..SegmentOptions::default()
    }
}

pub(crate) const fn millis(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

pub(crate) const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
