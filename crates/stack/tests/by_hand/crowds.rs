//! Attacks of many peers on one host: one row for each, with what they may make it hold and how far
//! they may delay others.

use base::SeqNum;
use base::tcp::SackBlocks;
use tcptailor_stack::profile::Profile;
use tcptailor_stack::{IcmpKind, MemoryBudget, PoolSize, Segment, SegmentOptions};

use crate::bounds::Holds;
use crate::crowd::{BACKLOG, Crowd, ordinary, small};
use crate::hand::{ACK, FIN, PEER, Peer, RST, SYN, millis, secs, with_mss};
use crate::honest::BATCH;

const PEERS: usize = 1000;
/// Packets in the local queue, of both profiles (`txqueuelen`).
const TXQUEUELEN: u64 = 1000;
/// Where each packet costs more.
const FEW: usize = 100;
/// Data of a large packet, as a virtual machine on a TUN device may send it.
const LARGE_BYTES: usize = 60_000;
/// Connections in TIME-WAIT that the host allows.
const TIME_WAITS: u32 = 4096;
/// Buffers of a `NetBurner`.
const BUFFERS: u32 = 256;

/// An attack of many.
pub(crate) struct CrowdRow {
    pub(crate) name: &'static str,
    pub(crate) attackers: usize,
    pub(crate) holds: Holds,
    /// Packets of others that may leave between a request and its answer.
    pub(crate) ahead: u64,
    /// Requests that may remain without an answer at once.
    pub(crate) unanswered: u64,
    /// What is special about the host.
    pub(crate) adapt: fn(Profile) -> Profile,
    pub(crate) run: fn(&mut Crowd),
}

const fn row(name: &'static str, attackers: usize, run: fn(&mut Crowd)) -> CrowdRow {
    CrowdRow {
        name,
        attackers,
        holds: Holds::connections(attackers as u64),
        ahead: BATCH,
        unanswered: 0,
        adapt: small,
        run,
    }
}

impl CrowdRow {
    const fn receiving(self) -> Self {
        Self {
            holds: self.holds.receiving(),
            ..self
        }
    }

    const fn sending(self) -> Self {
        Self {
            holds: self.holds.sending(),
            ..self
        }
    }

    /// This many packets of timers, or of a queue that is full, may come in front beside those of
    /// the batch.
    const fn ahead(self, ahead: u64) -> Self {
        Self {
            ahead: BATCH + ahead,
            ..self
        }
    }

    /// Timers of all of them may fire at one time.
    const fn timed(self) -> Self {
        let attackers = self.attackers as u64;
        self.ahead(attackers)
    }

    /// Up to this many connections at once.
    const fn connections(self, connections: u64) -> Self {
        Self {
            holds: Holds {
                connections,
                ..self.holds
            },
            ..self
        }
    }

    const fn time_waits(self, time_waits: u64) -> Self {
        Self {
            holds: Holds {
                time_waits,
                ..self.holds
            },
            ..self
        }
    }
}

/// As many as may wait at a listener, half open or to be accepted.
const WAITING: u64 = BACKLOG as u64 + 1;

pub(crate) const CROWDS: &[CrowdRow] = &[
    row("one-byte segments with gaps", PEERS, gaps).receiving(),
    row("full segments behind a gap", PEERS, behind_a_gap).receiving(),
    row("single bytes, never read", PEERS, unread_bytes).receiving(),
    row("full segments, never read", PEERS, unread).receiving(),
    row("gaps over the wrap of numbers and clocks", PEERS, wraps).receiving(),
    row("one new byte in each large packet", FEW, overlaps).receiving(),
    row("large packets across the window's edge", PEERS, edges).receiving(),
    row("zero windows that stay", PEERS, zero_windows)
        .sending()
        .timed(),
    row("zero windows and long writes", PEERS, long_writes)
        .sending()
        .timed(),
    row("zero windows of closed connections", PEERS, orphans)
        .sending()
        .timed(),
    row("data that is never acknowledged", PEERS, hung)
        .sending()
        .timed(),
    row("ACKs of what was never sent", PEERS, optimistic).sending(),
    // What is too large is retransmitted in smaller segments: the first packets of a flight.
    row("forged ICMP errors", PEERS, icmp)
        .sending()
        .ahead(2 * BATCH),
    row("segments of the smallest size", FEW, tiny_segments)
        .sending()
        .timed(),
    row("windows of a few bytes", FEW, tiny_windows)
        .sending()
        .timed(),
    // Each ACK lets two packets leave.
    row("every second segment SACKed", FEW, sacks)
        .sending()
        .ahead(BATCH),
    row("answers of one byte, never acknowledged", 20, single_writes).sending(),
    CrowdRow {
        adapt: large_flights,
        // All data in flight is retransmitted: the local queue is full.
        ..row("an MTU that shrinks byte by byte", 20, shrinking_mtu)
            .sending()
            .ahead(TXQUEUELEN)
    },
    CrowdRow {
        adapt: automatic,
        ..row("zero windows on a grown buffer", 20, grown)
            .sending()
            .timed()
    },
    row("resets and SYNs in all windows", PEERS, challenged),
    row("simultaneous opens", PEERS, simultaneous).timed(),
    row("SYNs", 0, syns).connections(WAITING).ahead(WAITING),
    CrowdRow {
        adapt: large_flights,
        // What is lost is retransmitted: the local queue is full.
        ..row("every second of many small segments SACKed", 4, many_sacks)
            .sending()
            .ahead(TXQUEUELEN)
    },
    // What it may take at once is one segment for each that has none, beyond the budget.
    row("requests for memory that others hold", 9000, starve).receiving(),
    row("connections, never accepted", 0, unaccepted)
        .connections(2 * WAITING)
        .receiving(),
    row("data and a reset before accept", 0, reset_early)
        .connections(2 * WAITING)
        .receiving(),
    CrowdRow {
        adapt: few_time_waits,
        ..row("connections in TIME-WAIT", PEERS, time_waits).time_waits(TIME_WAITS as u64)
    },
    row("ports used again from TIME-WAIT", PEERS, reuse).time_waits(PEERS as u64),
    row(
        "FINs that are acknowledged and not answered",
        PEERS,
        fin_wait,
    )
    .timed(),
    row("FINs that are never acknowledged", PEERS, last_ack).timed(),
    CrowdRow {
        holds: Holds {
            is_link_down: true,
            ..Holds::connections(PEERS as u64 + WAITING).sending()
        },
        ..row("a link that takes nothing", PEERS, link_down)
    },
    CrowdRow {
        adapt: pool,
        // Where no buffer is free, nothing comes in (seed: NetBurner, NB12).
        unanswered: u64::MAX,
        ..row("holes in a pool of buffers", 60, gaps).receiving()
    },
];

/// Memory that bounds nothing of it: the attack is on what a flight costs.
fn large_flights(profile: Profile) -> Profile {
    let mut profile = small(profile);
    profile.system.memory = MemoryBudget {
        pressure_bytes: 48 << 20,
        max_bytes: 64 << 20,
    };
    profile.settings.send.buffer.fixed = Some(1 << 20);
    profile.settings.congestion.initial_window = 1000;
    profile.settings.congestion.pacing = false;
    profile
}

fn automatic(profile: Profile) -> Profile {
    let mut profile = small(profile);
    profile.settings.send.buffer.fixed = None;
    profile.settings.congestion.pacing = false;
    profile
}

fn few_time_waits(profile: Profile) -> Profile {
    let mut profile = small(profile);
    profile.system.time_wait_max = TIME_WAITS;
    profile
}

fn pool(profile: Profile) -> Profile {
    let mut profile = small(profile);
    profile.system.pool = Some(PoolSize {
        buffers: BUFFERS,
        buffer_bytes: 1548,
        reserved: 0,
    });
    profile
}

/// As many times as it says, something at a distance that grows, of each.
fn each_at(crowd: &mut Crowd, times: i32, first: i32, step: i32, payload: &[u8]) {
    for time in 0..times {
        crowd.each(|crowd, peer, _| crowd.hit(peer.at(first + step * time, ACK, payload)));
    }
}

fn gaps(crowd: &mut Crowd) {
    let attackers = crowd.attackers.capacity();
    crowd.open(attackers, ordinary());
    each_at(crowd, 100, 2, 2, b"x");
    if crowd.bench.host.pool().buffers == 0 {
        crowd.check_newcomer();
    }
}

fn behind_a_gap(crowd: &mut Crowd) {
    crowd.open(PEERS, ordinary());
    each_at(crowd, 30, 1460, 1460, &[6; 1460]);
    crowd.check_newcomer();
}

fn in_order(crowd: &mut Crowd, times: u32, payload: &[u8]) {
    crowd.open(PEERS, ordinary());
    for _ in 0..times {
        crowd.each(|crowd, peer, _| {
            crowd.hit(peer.segment(ACK, payload));
            peer.seq += payload.len() as u32;
        });
    }
}

fn unread_bytes(crowd: &mut Crowd) {
    in_order(crowd, 100, b"x");
}

fn unread(crowd: &mut Crowd) {
    in_order(crowd, 30, &[6; 1460]);
}

fn wraps(crowd: &mut Crowd) {
    for _ in 0..PEERS {
        let stranger = crowd.stranger();
        let peer = Peer {
            seq: SeqNum::new(u32::MAX - 4000),
            ..Peer::with_clock(stranger.port, u32::MAX - 3)
        };
        crowd.open_as(peer, ordinary());
    }
    for time in 0..12 {
        crowd.each(|crowd, peer, _| {
            if let Some(clock) = &mut peer.timestamps {
                clock.value = clock.value.wrapping_add(1);
            }
            crowd.hit(peer.at(10 + 1000 * time, ACK, &[6; 900]));
        });
    }
}

fn large(peer: &Peer, distance: i32) -> Segment {
    Segment {
        gso_size: 1460,
        ..peer.at(distance, ACK, &[6; LARGE_BYTES])
    }
}

fn overlaps(crowd: &mut Crowd) {
    crowd.open(FEW, ordinary());
    crowd.each(|crowd, peer, id| {
        // In pieces, for the window grows with what comes.
        for _ in 0..LARGE_BYTES / 1000 {
            crowd.hit(peer.segment(ACK, &[6; 1000]));
            crowd.bench.read(id);
            peer.seq += 1000;
        }
    });
    for _ in 0..30 {
        crowd.each(|crowd, peer, _| {
            crowd.hit(large(peer, 1 - LARGE_BYTES as i32));
            peer.seq += 1;
        });
    }
}

fn edges(crowd: &mut Crowd) {
    crowd.open(PEERS, with_mss(1460));
    crowd.each(|crowd, peer, id| {
        let window = crowd.bench.sample(id).rcv_wnd_bytes.unwrap_or(65_535);
        crowd.hit(large(peer, window as i32 - 1));
    });
}

fn close_windows(crowd: &mut Crowd) {
    crowd.each(|crowd, peer, _| {
        peer.window = 0;
        crowd.hit(peer.segment(ACK, b""));
    });
}

fn zero_windows(crowd: &mut Crowd) {
    crowd.open(PEERS, ordinary());
    close_windows(crowd);
    crowd.fill(4096);
    crowd.pass(secs(600), true);
}

/// What is not taken of a write must not stay with what is.
fn long_writes(crowd: &mut Crowd) {
    crowd.open(PEERS, ordinary());
    close_windows(crowd);
    crowd.fill(1 << 20);
    crowd.pass(secs(600), true);
}

fn orphans(crowd: &mut Crowd) {
    crowd.open(PEERS, ordinary());
    close_windows(crowd);
    crowd.fill(4096);
    crowd.each(|crowd, _, id| crowd.bench.host.close(crowd.bench.now, id));
    crowd.pass(secs(7200), true);
    // RFC 9293 lets a peer hold a connection for ever; an end that has closed does not wait this
    // long.
    assert_eq!(crowd.bench.host.sockets().count(), 2);
}

fn hung(crowd: &mut Crowd) {
    crowd.open(PEERS, ordinary());
    crowd.fill(4096);
    crowd.pass(secs(600), false);
}

fn optimistic(crowd: &mut Crowd) {
    crowd.open(PEERS, ordinary());
    crowd.fill(4096);
    for step in 1..30 {
        crowd.each(|crowd, peer, _| {
            let ack = peer.segment(ACK, b"");
            crowd.hit(Segment {
                ack: ack.ack + 1_000_000 + step * 1000,
                ..ack
            });
        });
    }
}

fn icmp(crowd: &mut Crowd) {
    crowd.open(PEERS, ordinary());
    crowd.fill(4096);
    for step in 0..40 {
        let kinds = [
            IcmpKind::TooBig {
                mtu: 1400 - 20 * step,
            },
            IcmpKind::Unreachable,
            IcmpKind::Refused,
        ];
        let kind = kinds[step as usize % 3];
        crowd.each(|crowd, peer, _| crowd.hit_error(kind, peer));
    }
}

/// The program writes and each attacker acknowledges, until the congestion window has grown.
fn grow(crowd: &mut Crowd, rounds: u32) {
    for _ in 0..rounds {
        crowd.write(4096);
        crowd.bench.now += millis(10);
        let mut acks = Vec::new();
        crowd.take(|peer, segment| {
            peer.take(std::slice::from_ref(segment));
            acks.push(peer.segment(ACK, b""));
        });
        acks.into_iter().for_each(|ack| crowd.hit(ack));
    }
}

fn tiny_segments(crowd: &mut Crowd) {
    let options = SegmentOptions {
        mss: Some(1),
        ..ordinary()
    };
    crowd.open(FEW, options);
    grow(crowd, 30);
    crowd.fill(4096);
    crowd.pass(secs(1), false);
}

fn tiny_windows(crowd: &mut Crowd) {
    crowd.open(FEW, with_mss(1460));
    grow(crowd, 10);
    close_windows(crowd);
    crowd.fill(1000);
    for _ in 0..200 {
        // One byte more, and nothing is acknowledged.
        crowd.each(|crowd, peer, _| {
            peer.window += 1;
            crowd.hit(peer.segment(ACK, b""));
        });
        crowd.pass(millis(300), false);
    }
}

fn sacks(crowd: &mut Crowd) {
    let options = SegmentOptions {
        mss: Some(1),
        ..ordinary()
    };
    crowd.open(FEW, options);
    grow(crowd, 30);
    crowd.fill(4096);
    crowd.flush();
    for index in 0..200 {
        crowd.each(|crowd, peer, id| {
            let mss = crowd.bench.sample(id).snd_mss_bytes.unwrap_or(1);
            let block = |index: u32| {
                let start = peer.ack + (2 * index + 1) * mss;
                (start, start + mss)
            };
            let blocks = [block(index), block(index + 200), block(index + 400)];
            let ack = peer.segment(ACK, b"");
            let options = SegmentOptions {
                sack: Some(SackBlocks::new(&blocks)),
                ..ack.options
            };
            crowd.hit(Segment { options, ..ack });
        });
    }
}

fn many_sacks(crowd: &mut Crowd) {
    let options = SegmentOptions {
        mss: Some(1),
        ..ordinary()
    };
    crowd.open(4, options);
    crowd.fill(65_536);
    for _ in 0..10 {
        crowd.pass(millis(100), true);
    }
    for index in 0..10_000 {
        crowd.each(|crowd, peer, id| {
            let mss = crowd.bench.sample(id).snd_mss_bytes.unwrap_or(1);
            let start = peer.ack + (2 * index + 1) * mss;
            let ack = peer.segment(ACK, b"");
            let options = SegmentOptions {
                sack: Some(SackBlocks::new(&[(start, start + mss)])),
                ..ack.options
            };
            crowd.hit(Segment { options, ..ack });
        });
    }
}

/// Thousands hold unread data, which is never dropped, until the budget is used up but for a
/// packet. The last one has out-of-order data, which is dropped whenever others lack memory, and
/// retransmits it.
fn starve(crowd: &mut Crowd) {
    crowd.open(9000, ordinary());
    let max = crowd.memory_max();
    for (bytes, left) in [(900, 3000), (100, 1700)] {
        crowd.each(|crowd, peer, _| {
            if peer.seq == SeqNum::new(1_000_001) && crowd.bench.host.memory_bytes() + left < max {
                crowd.hit(peer.segment(ACK, &[6; 1000][..bytes]));
                peer.seq += bytes as u32;
            }
        });
    }
    let giver = crowd.attackers[8999].0.clone();
    let askers: Vec<Peer> = crowd.attackers[8000..8999]
        .iter()
        .map(|(peer, _)| peer.clone())
        .collect();
    for asker in &askers {
        crowd.hit(giver.at(10, ACK, &[6; 400]));
        crowd.hit(asker.at(10, ACK, &[6; 800]));
    }
}

fn single_writes(crowd: &mut Crowd) {
    crowd.open(20, ordinary());
    for written in 0..20_000 {
        let mut acks = Vec::new();
        crowd.each(|crowd, _, id| {
            // Where the buffer is full, the program waits.
            let _ = crowd.bench.write(id, b"y");
        });
        crowd.take(|peer, segment| {
            if written < 10_000 {
                peer.take(std::slice::from_ref(segment));
                acks.push(peer.segment(ACK, b""));
            }
        });
        acks.into_iter().for_each(|ack| crowd.hit(ack));
    }
}

fn shrinking_mtu(crowd: &mut Crowd) {
    crowd.open(20, ordinary());
    crowd.fill(65_536);
    crowd.flush();
    for mtu in (600..1500).rev() {
        crowd.each(|crowd, peer, _| crowd.hit_error(IcmpKind::TooBig { mtu }, peer));
    }
    // A flight of 1 MiB in segments of 512 bytes, for each of ten reports: written down when 16
    // million had been seen without a limit of reports.
    let retransmitted = crowd.bench.host.counters().segments_retransmitted;
    assert!(retransmitted <= 20 * 10 * 2048, "{retransmitted}");
}

fn grown(crowd: &mut Crowd) {
    crowd.open(20, ordinary());
    grow(crowd, 60);
    close_windows(crowd);
    crowd.fill(4096);
    crowd.pass(secs(600), true);
}

/// RFC 5961 section 7: each connection answers a few of them only. Ten were written down before the
/// first run.
fn challenged(crowd: &mut Crowd) {
    crowd.open(PEERS, ordinary());
    let before = crowd.answers;
    for step in 1..30 {
        crowd.each(|crowd, peer, _| {
            crowd.hit(peer.at(step, RST, b""));
            crowd.hit(peer.at(step, SYN, b""));
        });
    }
    let answers = crowd.answers - before;
    assert!(
        answers <= 10 * PEERS as u64 + crowd.honest.asked * 2,
        "{answers}"
    );
}

/// The host connects, and each peer sends SYNs of its own in place of an answer (RFC 9293 section
/// 3.5).
fn simultaneous(crowd: &mut Crowd) {
    for _ in 0..PEERS {
        crowd.flush();
        let mut peer = crowd.stranger();
        let settings = crowd.bench.host.default_settings().clone();
        let remote = (PEER, peer.port).into();
        let id = crowd.bench.host.connect(crowd.bench.now, remote, settings);
        let id = id.expect("the host has ports");
        let syn = crowd.bench.drain().remove(0);
        peer.host_port = syn.source_port;
        peer.take(std::slice::from_ref(&syn));
        crowd.packets += 1;
        crowd.attackers.push((peer, id));
    }
    for _ in 0..20 {
        crowd.each(|crowd, peer, _| crowd.hit(peer.syn(ordinary())));
    }
    crowd.pass(secs(300), false);
}

fn syns(crowd: &mut Crowd) {
    for step in 0..50_000_u32 {
        let mut peer = crowd.stranger();
        peer.seq = SeqNum::new(step.wrapping_mul(0x9e37_79b9));
        crowd.hit(peer.syn(ordinary()));
    }
    crowd.pass(secs(100), false);
}

/// Strangers who open connections, never accepted, and send data.
fn approach(crowd: &mut Crowd, then: fn(&mut Crowd, &Peer)) {
    for _ in 0..20_000 {
        let mut peer = crowd.stranger();
        let answer = crowd.bench.send(peer.syn(ordinary()));
        crowd.packets += 1;
        peer.take(&answer);
        peer.seq += 1;
        crowd.hit(peer.segment(ACK, &[6; 1460]));
        then(crowd, &peer);
    }
}

fn unaccepted(crowd: &mut Crowd) {
    approach(crowd, |crowd, peer| {
        crowd.hit(peer.at(1460, ACK, &[6; 1460]));
        crowd.hit(peer.at(5000, ACK, &[6; 1460]));
    });
}

fn reset_early(crowd: &mut Crowd) {
    approach(crowd, |crowd, peer| {
        crowd.hit(peer.at(1460, RST, b""));
    });
}

/// The program closes first, and the attackers close in order.
fn close_first(crowd: &mut Crowd) {
    crowd.each(|crowd, _, id| crowd.bench.host.close(crowd.bench.now, id));
    crowd.take(|peer, segment| peer.take(std::slice::from_ref(segment)));
    crowd.each(|crowd, peer, _| crowd.hit(peer.segment(ACK | FIN, b"")));
    crowd.flush();
}

fn time_waits(crowd: &mut Crowd) {
    for _ in 0..10 {
        crowd.open(PEERS, ordinary());
        // The program closes before anything else is sent.
        let closing = crowd.attackers.len() - PEERS;
        crowd.attackers.drain(..closing);
        for (peer, id) in std::mem::take(&mut crowd.attackers) {
            crowd.bench.host.close(crowd.bench.now, id);
            let mut sent = crowd.bench.drain();
            sent.retain(|segment| segment.destination_port == peer.port);
            let mut peer = peer;
            peer.take(&sent);
            crowd.hit(peer.segment(ACK | FIN, b""));
        }
        crowd.attackers.reserve_exact(PEERS);
    }
}

fn reuse(crowd: &mut Crowd) {
    crowd.open(PEERS, ordinary());
    for _ in 0..10 {
        close_first(crowd);
        crowd.bench.now += secs(2);
        let peers = std::mem::take(&mut crowd.attackers);
        crowd.attackers.reserve_exact(PEERS);
        for (peer, _) in peers {
            let again = Peer {
                seq: peer.seq + 1_000_000,
                ..Peer::new(peer.port)
            };
            crowd.open_as(again, ordinary());
        }
    }
}

fn fin_wait(crowd: &mut Crowd) {
    crowd.open(PEERS, ordinary());
    crowd.each(|crowd, _, id| crowd.bench.host.close(crowd.bench.now, id));
    crowd.take(|peer, segment| peer.take(std::slice::from_ref(segment)));
    for _ in 0..60 {
        crowd.each(|crowd, peer, _| crowd.hit(peer.segment(ACK, b"")));
        crowd.pass(secs(10), false);
    }
    assert_eq!(crowd.bench.host.sockets().count(), 2);
}

fn last_ack(crowd: &mut Crowd) {
    crowd.open(PEERS, ordinary());
    crowd.each(|crowd, peer, id| {
        crowd.hit(peer.segment(ACK | FIN, b""));
        crowd.bench.host.close(crowd.bench.now, id);
    });
    crowd.pass(secs(3600), false);
    assert_eq!(crowd.bench.host.sockets().count(), 2);
}

fn link_down(crowd: &mut Crowd) {
    crowd.open(PEERS, ordinary());
    crowd.is_link_down = true;
    crowd.fill(4096);
    let strangers: Vec<Peer> = (0..100).map(|_| crowd.stranger()).collect();
    for _ in 0..200 {
        for peer in &strangers {
            crowd.hit(peer.syn(ordinary()));
        }
    }
    for step in 0..20 {
        crowd.each(|crowd, peer, _| {
            crowd.hit(peer.at(5000 + 10 * step, ACK, b"x"));
            crowd.hit(peer.at(-100, ACK, b"old"));
        });
    }
}
