//! The memory that all connections of a host have together for what programs write: who may write
//! how much where others hold it, and when it comes back.

use base::settings::Nagle;
use base::{Limit, TcpState};
use tcptailor_stack::profile::{self, Profile};
use tcptailor_stack::{Event, Failure, MemoryBudget, Segment, SocketId, WriteError};

use crate::hand::{ACK, Bench, Peer, RST, flags, millis, payload_bytes, secs, with_mss};

/// What the host may keep.
const BUDGET: MemoryBudget = MemoryBudget {
    pressure_bytes: 768 << 10,
    max_bytes: 1 << 20,
};
/// What each connection may hold of written data in any case (Linux `net.ipv4.tcp_wmem[0]`).
const FLOOR_BYTES: u64 = 4096;
/// Peers that take nothing: many more than the budget has room for.
const HUNG: u16 = 64;

/// A host with little memory, its listener, and the peers that take nothing of what is written to
/// them.
struct Scene {
    bench: Bench,
    listener: SocketId,
    hung: Vec<(Peer, SocketId)>,
}

fn scarce(mut profile: Profile) -> Profile {
    profile.system.memory = BUDGET;
    profile.settings.small_writes.nagle = Nagle::Off;
    profile.settings.life.keepalive = None;
    profile.settings.send.buffer.fixed = Some(64 << 10);
    profile
}

impl Scene {
    fn new(profile: &Profile) -> Self {
        let mut bench = Bench::new(profile);
        let listener = bench.listen(profile);
        Self {
            bench,
            listener,
            hung: Vec::new(),
        }
    }

    fn open(&mut self, port: u16) -> (Peer, SocketId) {
        let mut peer = Peer::new(port);
        let id = peer.open(&mut self.bench, self.listener, with_mss(1460));
        let _ = self.bench.events(id);
        (peer, id)
    }

    /// Writes until nothing more is taken; returns the bytes.
    fn fill(&mut self, id: SocketId) -> usize {
        let mut taken = 0;
        loop {
            match self.bench.write(id, &[7; 10_000]) {
                Ok(bytes) => taken += bytes,
                Err(refused) => {
                    assert_eq!(refused, WriteError::Full);
                    return taken;
                }
            }
        }
    }

    /// Peers with a zero window, each with as much as the host lets the program write.
    fn hang(&mut self) -> Vec<usize> {
        let mut taken = Vec::new();
        for port in 10_000..10_000 + HUNG {
            let (mut peer, id) = self.open(port);
            peer.window = 0;
            self.bench.send(peer.segment(ACK, b""));
            taken.push(self.fill(id));
            self.hung.push((peer, id));
        }
        taken
    }

    /// One round trip of an honest peer: it gets what was sent to it and acknowledges all, and the
    /// program writes where it is told to. Returns the bytes that arrived.
    fn round(&mut self, peer: &mut Peer, id: SocketId) -> u32 {
        let sent = own(self.bench.drain(), peer);
        peer.take(&sent);
        self.bench.now += millis(10);
        let more = self.bench.send(peer.segment(ACK, b""));
        let events = self.bench.events(id);
        if events.contains(&Event::Writable) {
            self.fill(id);
        }
        let more = own(more, peer);
        peer.take(&more);
        payload_bytes(&sent) + payload_bytes(&more)
    }
}

/// Segments for that peer.
fn own(mut sent: Vec<Segment>, peer: &Peer) -> Vec<Segment> {
    sent.retain(|segment| segment.destination_port == peer.port);
    sent
}

fn each(check: fn(Profile)) {
    check(scarce(profile::linux_6_18()));
    check(scarce(profile::freebsd_14()));
}

#[test]
fn what_is_written_to_peers_that_take_nothing_is_bounded_for_all_together() {
    each(|profile| {
        let mut scene = Scene::new(&profile);
        let taken = scene.hang();
        let used = scene.bench.host.memory_bytes();
        let most = BUDGET.max_bytes + u64::from(HUNG) * FLOOR_BYTES;
        assert!(used <= most, "{}: {used} of {most}", profile.name);
        // The first ones took all that their buffers hold; the last ones had the floor, but for
        // what packets take of it.
        assert!(taken[0] >= 40_000, "{}: {taken:?}", profile.name);
        let last = taken[taken.len() - 1];
        assert!((3000..=4096).contains(&last), "{}: {taken:?}", profile.name);
        assert!(scene.bench.host.counters().memory_write_refusals >= u64::from(HUNG) / 2);
        let (_, id) = scene.hung[taken.len() - 1];
        assert_eq!(scene.bench.limit(id), Limit::PeerWindow);
        // They give all of it back.
        for (peer, _) in std::mem::take(&mut scene.hung) {
            scene.bench.send(peer.segment(RST, b""));
        }
        assert_eq!(scene.bench.host.memory_bytes(), 0, "{}", profile.name);
    });
}

/// Where others hold all, an honest connection goes on by as much as it may hold in any case for
/// each round trip, and with all that its buffer holds once they have gone.
#[test]
fn an_honest_connection_keeps_going_where_others_hold_all() {
    each(|profile| {
        let mut scene = Scene::new(&profile);
        let (mut peer, id) = scene.open(4000);
        scene.hang();
        scene.fill(id);
        for round in 0..100 {
            let bytes = scene.round(&mut peer, id);
            assert!(bytes >= 2920, "{}: {bytes} in {round}", profile.name);
        }
        for (peer, _) in std::mem::take(&mut scene.hung) {
            scene.bench.send(peer.segment(RST, b""));
        }
        let mut most = 0;
        for _ in 0..20 {
            most = most.max(scene.round(&mut peer, id));
        }
        assert!(most >= 30_000, "{}: {most}", profile.name);
    });
}

/// Programs whose answers are small notice nothing.
#[test]
fn answers_are_written_where_others_hold_all() {
    each(|profile| {
        let mut scene = Scene::new(&profile);
        scene.hang();
        for port in 4000..4050 {
            let (mut peer, id) = scene.open(port);
            for _ in 0..20 {
                scene.bench.send(peer.segment(ACK, b"request"));
                peer.seq += 7;
                assert_eq!(scene.bench.read(id), b"request");
                assert_eq!(scene.bench.write(id, &[5; 2000]), Ok(2000));
                let sent = own(scene.bench.drain(), &peer);
                assert_eq!(payload_bytes(&sent), 2000);
                peer.take(&sent);
                scene.bench.send(peer.segment(ACK, b""));
            }
        }
    });
}

/// A program that was refused is told once, when its own data has been acknowledged; what is there
/// leaves meanwhile, corked or not (Linux `tcp_push` with `TCP_NAGLE_PUSH`).
#[test]
fn a_refused_program_is_told_when_its_own_data_has_arrived() {
    each(|profile| told_when_its_own_data_has_arrived(&profile));
    each(|mut profile| {
        profile.settings.small_writes.cork = true;
        told_when_its_own_data_has_arrived(&profile);
    });
}

fn told_when_its_own_data_has_arrived(profile: &Profile) {
    let mut scene = Scene::new(profile);
    let (mut peer, id) = scene.open(4000);
    scene.hang();
    let taken = scene.fill(id);
    assert!((3000..=4096).contains(&taken), "{taken}");
    let sent = own(scene.bench.drain(), &peer);
    assert_eq!(payload_bytes(&sent) as usize, taken);
    assert_eq!(scene.bench.events(id), []);
    assert_eq!(scene.bench.limit(id), Limit::SendBuffer);
    peer.take(&sent);
    scene.bench.send(peer.segment(ACK, b""));
    assert_eq!(scene.bench.events(id), [Event::Writable]);
    scene.bench.send(peer.segment(ACK, b""));
    assert_eq!(scene.bench.events(id), []);
    assert_eq!(scene.bench.write(id, &[7; 4000]), Ok(4000));
}

/// Linux `tcp_check_oom`: who has closed, and whose peer does not take what is left, is reset where
/// nothing is left for others; what is small is let live.
#[test]
fn closed_connections_give_way() {
    each(|profile| {
        let mut scene = Scene::new(&profile);
        scene.hang();
        let used = scene.bench.host.memory_bytes();
        let (small, _) = scene.hung[usize::from(HUNG) - 1].clone();
        let ids: Vec<SocketId> = scene.hung.iter().map(|(_, id)| *id).collect();
        let mut resets = Vec::new();
        for id in ids {
            scene.bench.host.close(scene.bench.now, id);
            let sent = scene.bench.drain();
            assert!(sent.iter().all(|sent| sent.flags.contains(RST)), "{sent:?}");
            resets.extend(sent);
        }
        let counted = scene.bench.host.counters().memory_resets;
        assert_eq!(counted, resets.len() as u64);
        assert!(counted > 0 && own(resets, &small).is_empty());
        let left = scene.bench.host.memory_bytes();
        assert!(left + FLOOR_BYTES <= BUDGET.max_bytes, "{left} of {used}");
        // No other connection is touched, and there is room again.
        let (_, id) = scene.open(4000);
        let taken = scene.fill(id);
        assert!(taken > 0);
    });
}

/// The timers of those that had closed before find that nothing is left.
#[test]
fn closed_connections_give_way_when_their_timers_fire() {
    each(|profile| {
        let mut scene = Scene::new(&profile);
        let (mut early, id) = scene.open(4000);
        early.window = 0;
        scene.bench.send(early.segment(ACK, b""));
        scene.fill(id);
        scene.bench.host.close(scene.bench.now, id);
        assert_eq!(scene.bench.drain(), []);
        scene.hang();
        let sent = own(scene.bench.pass(secs(10)), &early);
        assert!(
            flags(&sent).last().is_some_and(|last| last.contains(RST)),
            "{sent:?}"
        );
        assert_eq!(scene.bench.host.counters().memory_resets, 1);
    });
}

/// A dead peer's data is forgotten when the connection breaks, whenever the program notices.
#[test]
fn a_broken_connection_gives_back_what_it_did_not_deliver() {
    each(|profile| {
        let mut scene = Scene::new(&profile);
        let (_, id) = scene.open(4000);
        let taken = scene.fill(id);
        assert!(scene.bench.host.memory_bytes() >= taken as u64);
        scene.bench.pass(secs(3600));
        assert_eq!(scene.bench.state(id), Some(TcpState::Closed));
        assert_eq!(scene.bench.events(id), [Event::Failed(Failure::TimedOut)]);
        assert_eq!(scene.bench.host.memory_bytes(), 0);
    });
}

/// Under pressure, below the limit: a buffer that sizes itself does not grow (Linux
/// `tcp_should_expand_sndbuf`), and grows when the pressure is over.
#[test]
fn send_buffers_do_not_grow_under_pressure() {
    each(|mut profile| {
        profile.settings.send.buffer.fixed = None;
        profile.settings.congestion.pacing = false;
        let mut scene = Scene::new(&profile);
        let (mut peer, id) = scene.open(4000);
        let size = |scene: &Scene| scene.bench.sample(id).sndbuf_bytes;
        let first = size(&scene);
        // Unread data brings the pressure.
        let (mut filler, reader) = scene.open(4001);
        scene
            .bench
            .host
            .configure(scene.bench.now, reader, |settings| {
                settings.recv.buffer.fixed = Some(4 << 20);
            });
        while scene.bench.host.memory_bytes() <= BUDGET.pressure_bytes {
            let before = scene.bench.host.memory_bytes();
            scene.bench.send(filler.segment(ACK, &[1; 1460]));
            filler.seq += 1460;
            assert!(
                scene.bench.host.memory_bytes() > before,
                "the window has room"
            );
        }
        scene.fill(id);
        for _ in 0..50 {
            scene.round(&mut peer, id);
        }
        assert_eq!(size(&scene), first, "{}", profile.name);
        scene.bench.read(reader);
        for _ in 0..50 {
            scene.round(&mut peer, id);
        }
        assert!(size(&scene) > first, "{}", profile.name);
    });
}
