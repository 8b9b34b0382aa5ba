//! A board and the host of its peers, joined by a wire that takes no time: for what is counted, not
//! timed.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::time::Duration;
use std::collections::BTreeSet;

use base::{Instant, TcpState};
use stack::profile::{Profile, textbook};
use stack::{Host, HostConfig, Packet, SocketId};

use crate::netburner::{Netburner, Sockets};

/// The board.
pub(super) const BOARD: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
/// All its peers.
pub(super) const PEERS: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
/// Port on which the board listens.
pub(super) const PORT: u16 = 1234;

/// More packets than any call may ever set free.
const BURST_MAX: usize = 100_000;

/// Two hosts and their time.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) now: Instant,
    pub(super) board: Host,
    pub(super) peers: Host,
    sockets: Sockets,
    /// Ports of peers that hang: nothing comes from them, nothing reaches them.
    hung: BTreeSet<u16>,
}

impl Wire {
    /// With a board of that profile, and peers as the textbook has them.
    pub(super) fn new(profile: &Profile, seed: u64) -> Self {
        Self {
            now: Instant::ZERO + Duration::from_secs(1),
            board: Host::new(HostConfig::of(profile, BOARD, seed)),
            peers: Host::new(HostConfig::of(&textbook(), PEERS, !seed)),
            sockets: Sockets::default(),
            hung: BTreeSet::new(),
        }
    }

    /// The board's system.
    pub(super) fn system(&mut self) -> Netburner<'_> {
        Netburner::new(&mut self.board, self.now, &mut self.sockets)
    }

    /// The host's name of a socket of the board.
    pub(super) fn id(&self, fd: i32) -> SocketId {
        self.sockets.id(fd).expect("the number of a socket")
    }

    /// A peer begins to open a connection to the board.
    pub(super) fn dial(&mut self) -> SocketId {
        let settings = self.peers.default_settings().clone();
        let server = SocketAddr::new(BOARD, PORT);
        let dialled = self.peers.connect(self.now, server, settings);
        dialled.expect("as many ports as connections")
    }

    /// Whether the peer's connection is open.
    pub(super) fn is_open(&self, peer: SocketId) -> bool {
        let flow = self.peers.sample(self.now, peer);
        flow.is_some_and(|flow| flow.state == Some(TcpState::Established))
    }

    /// From now on the peer is silent.
    pub(super) fn hang(&mut self, peer: SocketId) {
        let end = self.peers.local_addr(peer).expect("a connection");
        self.hung.insert(end.port());
    }

    /// Everything that waits to be sent arrives.
    pub(super) fn carry(&mut self) {
        for _ in 0..BURST_MAX {
            let out = self.board.poll_transmit(self.now);
            let back = self.peers.poll_transmit(self.now);
            if out.is_none() && back.is_none() {
                return;
            }
            if let Some(packet) = out.filter(|packet| !self.is_lost(packet)) {
                self.peers.handle_packet(self.now, packet);
            }
            if let Some(packet) = back.filter(|packet| !self.is_lost(packet)) {
                self.board.handle_packet(self.now, packet);
            }
        }
        unreachable!("a storm");
    }

    fn is_lost(&self, packet: &Packet) -> bool {
        packet.segment().is_some_and(|segment| {
            let ports = [segment.source_port, segment.destination_port];
            ports.iter().any(|port| self.hung.contains(port))
        })
    }

    /// Time passes, until `until` says that it is enough, or for this long.
    pub(super) fn pass(&mut self, time: Duration, until: impl Fn(&Self) -> bool) {
        let end = self.now + time;
        self.carry();
        while !until(self) {
            let due = [&mut self.board, &mut self.peers].map(Host::poll_timeout);
            let Some(due) = due.into_iter().flatten().min().filter(|due| *due <= end) else {
                self.now = end;
                return;
            };
            self.now = self.now.max(due);
            self.board.handle_timeout(self.now);
            self.peers.handle_timeout(self.now);
            self.carry();
        }
    }
}
