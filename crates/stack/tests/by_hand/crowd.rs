//! A host with many peers that attack at once, and an honest one.

use std::time::Duration;

use base::settings::Nagle;
use tcptailor_stack::profile::Profile;
use tcptailor_stack::{Body, IcmpError, IcmpKind, MemoryBudget, Segment, SegmentOptions, SocketId};

use crate::hand::{ACK, Bench, HOST, PEER, Peer, packet, secs, with_mss};
use crate::honest::{BATCH, Honest};

/// Port of the first attacker; the others follow.
const FIRST_PORT: u16 = 5000;
/// Connections that may wait to be accepted.
pub(crate) const BACKLOG: u32 = 4096;
/// What the host may keep of received data.
const BUDGET: MemoryBudget = MemoryBudget {
    pressure_bytes: 6 << 20,
    max_bytes: 8 << 20,
};

/// A host with `profile` and little memory, whose buffers have a size.
pub(crate) fn small(mut profile: Profile) -> Profile {
    profile.system.memory = BUDGET;
    profile.settings.life.keepalive = None;
    profile.settings.small_writes.nagle = Nagle::Off;
    profile.settings.recv.buffer.fixed = Some(256 << 10);
    profile.settings.send.buffer.fixed = Some(16 << 10);
    profile
}

/// A host, its honest peer, and those that attack.
pub(crate) struct Crowd {
    pub(crate) bench: Bench,
    pub(crate) listener: SocketId,
    pub(crate) honest: Honest,
    pub(crate) attackers: Vec<(Peer, SocketId)>,
    pub(crate) packets: u64,
    /// Segments that the host has sent to attackers.
    pub(crate) answers: u64,
    /// The driver does not poll.
    pub(crate) is_link_down: bool,
    /// The honest peer asks nothing more.
    is_over: bool,
    next_port: u16,
}

impl Crowd {
    /// One with room for this many attackers.
    pub(crate) fn new(profile: &Profile, attackers: usize) -> Self {
        let mut bench = Bench::new(profile);
        let listener = bench.listen_with(profile, BACKLOG, true);
        let honest = Honest::open(&mut bench, listener);
        Self {
            bench,
            listener,
            honest,
            attackers: Vec::with_capacity(attackers),
            packets: 0,
            answers: 0,
            is_link_down: false,
            is_over: false,
            next_port: FIRST_PORT,
        }
    }

    /// What the host may keep of received data.
    pub(crate) fn memory_max(&self) -> u64 {
        BUDGET.max_bytes
    }

    /// A new peer.
    pub(crate) fn stranger(&mut self) -> Peer {
        let peer = Peer::new(self.next_port);
        self.next_port = self.next_port.checked_add(1).unwrap_or(FIRST_PORT);
        peer
    }

    /// This many attackers more, whose connections the program accepts.
    pub(crate) fn open(&mut self, count: usize, options: SegmentOptions) {
        for _ in 0..count {
            let peer = self.stranger();
            self.open_as(peer, options);
        }
    }

    pub(crate) fn open_as(&mut self, mut peer: Peer, options: SegmentOptions) {
        self.flush();
        let id = peer.open(&mut self.bench, self.listener, options);
        self.packets += 2;
        self.attackers.push((peer, id));
    }

    /// A segment of an attacker, in a batch with others: the driver takes out packets when the
    /// batch is whole, and the honest peer's request is its last packet.
    pub(crate) fn hit(&mut self, segment: Segment) {
        let bench = &mut self.bench;
        let packet = packet(Body::Tcp(segment));
        self.honest
            .wait(|| bench.host.handle_packet(bench.now, packet));
        self.on_packet();
    }

    /// An ICMP error about what an attacker has got.
    pub(crate) fn hit_error(&mut self, kind: IcmpKind, peer: &Peer) {
        let error = IcmpError {
            kind,
            local: (HOST, peer.host_port).into(),
            remote: (PEER, peer.port).into(),
            seq: peer.ack,
        };
        let bench = &mut self.bench;
        self.honest.wait(|| {
            let packet = packet(Body::Icmp(error));
            bench.host.handle_packet(bench.now, packet);
        });
        self.on_packet();
    }

    fn on_packet(&mut self) {
        self.packets += 1;
        if self.packets.is_multiple_of(BATCH) && !self.is_link_down {
            self.ask();
            self.flush();
        }
    }

    fn ask(&mut self) {
        if !self.is_link_down && !self.is_over {
            self.honest.ask(&mut self.bench);
        }
    }

    /// The driver takes out everything.
    pub(crate) fn flush(&mut self) {
        self.take(|_, _| {});
    }

    /// The same; `each` hears of what is for which attacker.
    pub(crate) fn take(&mut self, mut each: impl FnMut(&mut Peer, &Segment)) {
        while let Some(packet) = self.bench.host.poll_transmit(self.bench.now) {
            let Body::Tcp(segment) = packet.body else {
                continue;
            };
            self.answers += u64::from(segment.segments());
            let index = segment.destination_port.wrapping_sub(FIRST_PORT);
            if let Some((peer, _)) = self.attackers.get_mut(usize::from(index)) {
                each(peer, &segment);
            }
        }
        while self.bench.host.poll_event().is_some() {}
    }

    /// The same attack of each attacker.
    pub(crate) fn each(&mut self, mut hit: impl FnMut(&mut Self, &mut Peer, SocketId)) {
        let mut attackers = std::mem::take(&mut self.attackers);
        for (peer, id) in &mut attackers {
            hit(self, peer, *id);
        }
        self.attackers = attackers;
    }

    /// The program writes to each attacker what the send buffer takes, and the driver takes out
    /// what may leave.
    pub(crate) fn fill(&mut self, piece: usize) {
        self.write(piece);
        if !self.is_link_down {
            self.flush();
        }
    }

    /// The program writes that, and nothing leaves yet.
    pub(crate) fn write(&mut self, piece: usize) {
        let bytes = vec![7; piece];
        self.each(|crowd, _, id| {
            while crowd
                .bench
                .write(id, &bytes)
                .is_ok_and(|taken| taken == piece)
            {}
        });
    }

    /// Time passes; all timers that are due at one time come in front of a request. Where it
    /// `answers`, each attacker acknowledges with each packet what it has got before.
    pub(crate) fn pass(&mut self, time: Duration, answers: bool) {
        let end = self.bench.now + time;
        while let Some(due) = self.bench.host.poll_timeout().filter(|due| *due <= end) {
            let bench = &mut self.bench;
            bench.now = bench.now.max(due);
            self.honest.wait(|| bench.host.handle_timeout(bench.now));
            self.ask();
            let mut replies = Vec::new();
            self.take(|peer, _| {
                if answers {
                    replies.push(peer.segment(ACK, b""));
                }
            });
            for reply in replies {
                self.hit(reply);
            }
            self.flush();
        }
        self.bench.now = end;
    }

    /// A connection that begins under attack gets its data, also over a gap.
    pub(crate) fn check_newcomer(&mut self) {
        let stranger = self.stranger();
        self.open_as(stranger, with_mss(1460));
        let (mut peer, id) = self.attackers.pop().expect("just opened");
        for _ in 0..20 {
            self.bench.send(peer.at(1460, ACK, &[2; 1460]));
            self.bench.send(peer.at(0, ACK, &[1; 1460]));
            // The first time others have not given yet.
            self.bench.send(peer.at(1460, ACK, &[2; 1460]));
            assert_eq!(self.bench.read(id).len(), 2920);
            peer.seq += 2920;
        }
        self.bench.host.abort(self.bench.now, id);
    }

    /// The attackers send no more, the program closes their connections and those that it did not
    /// accept, and all timers pass.
    pub(crate) fn leave(&mut self) {
        self.is_link_down = false;
        self.is_over = true;
        self.flush();
        self.each(|crowd, _, id| crowd.bench.host.close(crowd.bench.now, id));
        self.attackers.clear();
        for _ in 0..10 {
            while let Some(id) = self.bench.host.accept(self.bench.now, self.listener) {
                self.bench.host.close(self.bench.now, id);
            }
            self.flush();
            self.pass(secs(600), false);
        }
    }
}

/// The options of an ordinary peer.
pub(crate) fn ordinary() -> SegmentOptions {
    SegmentOptions {
        window_scale: Some(7),
        sack_permitted: true,
        ..with_mss(1460)
    }
}
