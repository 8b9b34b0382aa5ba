//! Attacks on one connection: one row for each, with how much may be sent in answer and done at
//! most, which of its buffers it may fill, and whether the connection lives on.
//!
//! Work is counted in what a trace hears: packets, timers, retransmissions, changes of state.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base::settings::Nagle;
use base::tcp::{SackBlocks, TcpFlags};
use base::{FlowSample, Instant, SeqNum};
use tcptailor_stack::profile::{self, Profile};
use tcptailor_stack::{EcnMark, IcmpKind, Segment, SegmentOptions, SocketId, Trace, TraceEvent};

use crate::bounds::Holds;
use crate::hand::{ACK, Bench, FIN, Peer, RST, SYN, millis, with_mss};
use crate::honest::{BATCH, Honest};

/// The listener, the connection under attack and the honest one.
const SOCKETS: usize = 3;
/// Connections that may be half open, with a backlog of 128, and the one under attack.
const HALF_OPEN: u64 = 129 + 1;

/// Counts what a host does.
#[derive(Debug)]
struct Work(Arc<AtomicU64>);

impl Trace for Work {
    fn on_event(&mut self, _: Instant, _: Option<SocketId>, _: &TraceEvent<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A connection under attack, and what that has cost so far.
pub(crate) struct Scene {
    pub(crate) bench: Bench,
    /// The end that the attacker interferes with, or that attacks.
    pub(crate) peer: Peer,
    pub(crate) id: SocketId,
    /// Another peer, with a connection of its own.
    pub(crate) honest: Honest,
    work: Arc<AtomicU64>,
    pub(crate) packets: u64,
    pub(crate) answers: u64,
}

/// What an attack may cost, and what is left.
pub(crate) struct Bound {
    /// Segments in answer.
    pub(crate) answers: u64,
    /// Events of a trace for each packet of the attacker, and as many to begin with.
    work_per_packet: u64,
    pub(crate) survives: bool,
    pub(crate) holds: Holds,
}

impl Scene {
    pub(crate) fn new(profile: &Profile, options: SegmentOptions) -> Self {
        let mut bench = Bench::new(profile);
        let listener = bench.listen(profile);
        let honest = Honest::open(&mut bench, listener);
        let mut peer = Peer::new(4000);
        let id = peer.open(&mut bench, listener, options);
        let _ = bench.events(id);
        let work = Arc::new(AtomicU64::new(0));
        bench.host.set_trace(Box::new(Work(Arc::clone(&work))));
        Self {
            bench,
            peer,
            id,
            honest,
            work,
            packets: 0,
            answers: 0,
        }
    }

    /// A segment of the attacker.
    fn send(&mut self, segment: Segment) -> Vec<Segment> {
        let bench = &mut self.bench;
        let sent = self.honest.wait(|| bench.send(segment));
        self.on_packet();
        self.count(sent)
    }

    /// Behind each batch of the attacker's packets comes a request of the honest peer. What that
    /// makes of work is not the attacker's.
    fn on_packet(&mut self) {
        self.packets += 1;
        if self.packets.is_multiple_of(BATCH) {
            let work = self.work.load(Ordering::Relaxed);
            self.honest.ask(&mut self.bench);
            self.work.store(work, Ordering::Relaxed);
        }
    }

    /// A segment at a distance from where the honest end is.
    pub(crate) fn send_at(
        &mut self,
        distance: i32,
        flags: TcpFlags,
        payload: &[u8],
    ) -> Vec<Segment> {
        self.send(self.peer.at(distance, flags, payload))
    }

    /// An ACK of nothing new, with these blocks.
    pub(crate) fn send_sack(&mut self, blocks: &[(SeqNum, SeqNum)]) {
        let ack = self.peer.segment(ACK, b"");
        let options = SegmentOptions {
            sack: Some(SackBlocks::new(blocks)),
            ..ack.options
        };
        self.send(Segment { options, ..ack });
    }

    /// One of the three kinds of ICMP errors, in turn.
    fn send_error(&mut self, turn: u32, mtu: u32, seq: SeqNum) {
        let kinds = [
            IcmpKind::Refused,
            IcmpKind::Unreachable,
            IcmpKind::TooBig { mtu },
        ];
        let (bench, peer) = (&mut self.bench, &self.peer);
        let kind = kinds[turn as usize % 3];
        let sent = self.honest.wait(|| bench.send_error(kind, peer, seq));
        self.on_packet();
        self.count(sent);
    }

    pub(crate) fn sample(&self) -> FlowSample {
        self.bench.sample(self.id)
    }

    pub(crate) fn pass(&mut self, millis: u64) -> Vec<Segment> {
        let sent = self.bench.pass(Duration::from_millis(millis));
        self.count(sent)
    }

    fn count(&mut self, sent: Vec<Segment>) -> Vec<Segment> {
        for segment in &sent {
            self.answers += u64::from(segment.segments());
        }
        if let Some(sample) = self.bench.host.sample(self.bench.now, self.id) {
            let used = sample.rmem_bytes.unwrap_or(0);
            let size = sample.rcvbuf_bytes.unwrap_or(0);
            assert!(used <= size + 8192, "receive memory: {used} of {size}");
            let (out, bytes) = (
                sample.unacked_pkts.unwrap_or(0),
                sample.send_queue_bytes.unwrap_or(0),
            );
            assert!(out <= bytes + 1, "more records than bytes");
        }
        sent
    }

    pub(crate) fn write(&mut self, bytes: usize) {
        let taken = self.bench.write(self.id, &vec![9; bytes]);
        taken.expect("there is room");
        let sent = self.bench.drain();
        self.count(sent);
    }

    /// Whether data still goes both ways.
    pub(crate) fn check_alive(&mut self) {
        let (bench, peer, id) = (&mut self.bench, &mut self.peer, self.id);
        peer.window = 65_535;
        bench.read(id);
        let sample = bench.sample(id);
        let received = sample.bytes_received.expect("a connection knows it") as u32;
        peer.seq = SeqNum::new(1_000_001) + received;
        // Everything that is out arrives; more is written, and arrives too.
        let mut wanted = None;
        for round in 0..400 {
            let sent = bench.send(peer.segment(ACK, b""));
            for segment in sent.iter().chain(&bench.pass(millis(500))) {
                let end = segment.seq + segment.sequence_bytes();
                if !segment.seq.after(peer.ack) && end.after(peer.ack) {
                    peer.ack = end;
                }
            }
            if bench.host.unacked_bytes(id) == 0 && wanted.is_none() {
                bench.write(id, &[4; 100]).expect("room for a few bytes");
                wanted = Some(peer.ack + 100);
                for segment in bench.drain() {
                    peer.take(&[segment]);
                }
            }
            if wanted == Some(peer.ack) {
                break;
            }
            assert!(round < 399, "no byte leaves: {}", bench.limit(id));
        }
        bench.send(peer.segment(ACK, b"alive?"));
        let read = bench.read(id);
        // What the attacker put behind a gap may follow.
        assert!(read.starts_with(b"alive?"), "{read:?}");
    }
}

/// What an attack does; the connection lives on if its bound says so.
pub(crate) type Attack = fn(&mut Scene);

const fn lives(answers: u64, work_per_packet: u64) -> Bound {
    Bound {
        answers,
        work_per_packet,
        survives: true,
        holds: Holds::ONE,
    }
}

impl Bound {
    /// The attacker fills the receive buffer.
    const fn receiving(self) -> Self {
        Self {
            holds: self.holds.receiving(),
            ..self
        }
    }

    /// What the program has sent stays in the send buffer.
    const fn sending(self) -> Self {
        Self {
            holds: self.holds.sending(),
            ..self
        }
    }

    /// Whether this much work was done for this many packets and answers.
    pub(crate) fn check_work(&self, scene: &Scene) {
        let work = scene.work.load(Ordering::Relaxed);
        let most = (scene.packets + 20) * self.work_per_packet + 3 * scene.answers;
        assert!(work <= most, "{work} events for {} packets", scene.packets);
    }
}

const fn dies(answers: u64, work_per_packet: u64) -> Bound {
    Bound {
        survives: false,
        ..lives(answers, work_per_packet)
    }
}

pub(crate) const ATTACKS: &[(&str, Bound, Attack)] = &[
    ("blind resets", lives(200, 2), |scene| {
        for step in 0..3000_u32 {
            scene.send_at((step * 421_337) as i32 | 1, RST, b"");
        }
    }),
    ("blind resets in the window", lives(200, 2), |scene| {
        for step in 1..5000 {
            scene.send_at(step, RST, b"");
        }
    }),
    ("the exact reset", dies(0, 4), |scene| {
        scene.send_at(0, RST, b"");
    }),
    ("blind SYNs", lives(200, 2), |scene| {
        for step in 0..3000_u32 {
            scene.send_at((step * 421_337) as i32, SYN, b"");
        }
    }),
    (
        "blind data with old ACKs",
        lives(200, 2).receiving(),
        |scene| {
            for step in 0..3000_u32 {
                let segment = scene.peer.at(10, ACK, b"evil");
                scene.send(Segment {
                    ack: segment.ack + (0x4000_0000 + step * 100_000),
                    ..segment
                });
            }
        },
    ),
    ("data without ACK", lives(0, 1), |scene| {
        for step in 0..1000 {
            scene.send_at(step, TcpFlags::PSH, b"evil");
        }
    }),
    // Each may be a retransmission whose ACK was lost: one for one.
    ("data far outside the window", lives(10_000, 3), |scene| {
        for step in 0..3000 {
            scene.send_at((1 << 29) + step * 40_000, ACK, &[6; 1000]);
        }
    }),
    ("bare ACKs outside the window", lives(200, 2), |scene| {
        for _ in 0..3000 {
            scene.send_at(-1, ACK, b"");
        }
    }),
    (
        "tiny segments behind a gap (SegmentSmack)",
        lives(30_000, 4).receiving(),
        |scene| {
            for step in 0..8000 {
                scene.send_at(1 + 2 * step % 65_000, ACK, b"x");
            }
        },
    ),
    (
        "tiny segments behind a gap, backwards",
        lives(30_000, 4).receiving(),
        |scene| {
            for step in 0..8000 {
                scene.send_at(60_000 - 2 * step % 59_998, ACK, b"x");
            }
        },
    ),
    (
        "tiny segments, never read",
        lives(20_000, 4).receiving(),
        |scene| {
            for _ in 0..3000 {
                scene.send_at(0, ACK, b"x");
                let sample = scene.sample();
                scene.peer.seq = SeqNum::new(1_000_001)
                    + sample.bytes_received.expect("a connection knows it") as u32;
            }
        },
    ),
    ("FINs everywhere", dies(6000, 4).receiving(), |scene| {
        for step in 0..3000 {
            scene.send_at(60_000 - step * 10, ACK | FIN, b"yy");
        }
        for step in 1..1000 {
            scene.send_at(-step, ACK | FIN, b"");
        }
    }),
    ("urgent pointers", lives(2000, 4).receiving(), |scene| {
        for step in 0..2000 {
            let segment = scene.peer.at(1 + step, ACK | TcpFlags::URG, b"!");
            scene.send(Segment {
                urgent: 65_535 - step as u16,
                ..segment
            });
        }
    }),
    (
        "ACKs of what was never sent (optimistic)",
        lives(210, 2).sending(),
        |scene| {
            scene.write(5000);
            let before = scene.sample().cwnd_pkts;
            for step in 1..3000 {
                let segment = scene.peer.segment(ACK, b"");
                scene.send(Segment {
                    ack: segment.ack + 1_000_000 + step * 1000,
                    ..segment
                });
            }
            let after = scene.sample().cwnd_pkts;
            assert_eq!(after, before);
        },
    ),
    (
        "an ACK for every byte (ACK division)",
        lives(10, 5).sending(),
        |scene| {
            scene.write(5000);
            let cwnd = |scene: &Scene| scene.sample().cwnd_pkts.expect("a connection knows it");
            let out = scene.sample().unacked_pkts.expect("a connection knows it");
            let (first, before) = (scene.peer.ack, cwnd(scene));
            for step in 1..=1460 {
                scene.peer.ack = first + step;
                scene.send_at(0, ACK, b"");
            }
            // At most one packet for each that was out, not one for each ACK.
            let after = cwnd(scene);
            assert!(after <= before + out, "{before} to {after}");
        },
    ),
    (
        "duplicate ACKs without end",
        lives(20, 4).sending(),
        |scene| {
            scene.write(5000);
            for _ in 0..3000 {
                scene.send_at(0, ACK, b"");
            }
        },
    ),
    (
        "SACK blocks that make no sense",
        lives(20, 5).sending(),
        |scene| {
            scene.write(5000);
            let una = scene.peer.ack;
            for step in 0..3000_u32 {
                let at = |bytes: u32| una + bytes.wrapping_mul(step);
                let blocks = [
                    (at(3), at(2)),
                    (at(0x1234_5678), at(0x1234_5679)),
                    (una - 1 - step, una),
                ];
                scene.send_sack(&blocks);
            }
        },
    ),
    (
        "single bytes SACKed (SACK panic, SACK slowness)",
        lives(200, 5).sending(),
        |scene| {
            scene.write(5000);
            let una = scene.peer.ack;
            for step in 0..5000_u32 {
                let at = |index: u32| 1 + (step * 7 + index * 1667) % 4990;
                let block = |index: u32| (una + at(index), una + at(index) + 1);
                let blocks = [block(0), block(1), block(2)];
                scene.send_sack(&blocks);
            }
        },
    ),
    ("D-SACKs without end", lives(20, 5).sending(), |scene| {
        scene.write(5000);
        let before = scene.sample().cwnd_pkts;
        let una = scene.peer.ack;
        for step in 0..3000_u32 {
            let end = una - step % 4;
            scene.send_sack(&[(end - 1460, end)]);
        }
        // RFC 2883 section 4: of data that never left twice they say nothing; without SACK they
        // are duplicate ACKs.
        assert!(scene.sample().cwnd_pkts <= before);
    }),
    // At most all data in flight is retransmitted each time. Some profiles give up a peer that
    // acknowledges nothing for longer than this.
    (
        "SACKs that are taken back",
        lives(3 * 100, 8).sending(),
        |scene| {
            scene.write(5000);
            let una = scene.peer.ack;
            for _ in 0..100 {
                scene.send_sack(&[(una + 1460, una + 2920)]);
                scene.pass(20);
                scene.send_at(0, ACK, b"");
                scene.pass(20);
            }
        },
    ),
    (
        "a window that opens and closes",
        lives(40, 5).sending(),
        |scene| {
            scene.write(5000);
            for step in 0..5000_u32 {
                scene.peer.window = [0, 1, 65_535, 30, 5000][step as usize % 5];
                scene.send_at(0, ACK, b"");
            }
        },
    ),
    (
        "a zero window that stays",
        lives(100, 20).sending(),
        |scene| {
            scene.peer.window = 0;
            scene.send_at(0, ACK, b"");
            scene.write(3000);
            for _ in 0..3600 {
                if !scene.pass(1000).is_empty() {
                    scene.send_at(0, ACK, b"");
                }
            }
        },
    ),
    (
        "overlapping segments with other data",
        lives(8, 6).receiving(),
        |scene| {
            scene.send_at(4, ACK, b"5678");
            for evil in [&b"EVIL"[..], b"EVILMORE"] {
                scene.send_at(4, ACK, evil);
            }
            scene.send_at(0, ACK, b"1234ZZZZ");
            // As in Linux, the segment that closes the gap counts as a whole; behind it, what came
            // first stays.
            assert_eq!(scene.bench.read(scene.id), b"1234ZZZZMORE");
        },
    ),
    (
        "ICMP errors for other numbers",
        lives(10, 2).sending(),
        |scene| {
            scene.write(5000);
            let seq = scene.peer.ack;
            for step in 0..5000_u32 {
                scene.send_error(step, 68, seq + (100_000 + step * 400_000));
            }
            assert_eq!(scene.bench.host.counters().icmp_ignored, 5000);
        },
    ),
    (
        "ICMP errors for the right numbers",
        lives(60, 4).sending(),
        |scene| {
            scene.write(5000);
            let seq = scene.peer.ack;
            for step in 0..1000_u32 {
                scene.send_error(step, step, seq);
            }
            // RFC 1191 section 3, RFC 5927: no report makes segments tiny.
            let mss = scene.sample().snd_mss_bytes;
            assert!(mss.expect("a connection knows it") >= 500, "{mss:?}");
        },
    ),
    ("marks of congestion", lives(20, 5).sending(), |scene| {
        scene.write(5000);
        for step in 0..5000_u32 {
            let segment = scene.peer.segment(ACK | TcpFlags::ECE | TcpFlags::CWR, b"");
            let mark = if step % 2 == 0 {
                EcnMark::Ce
            } else {
                EcnMark::Ect1
            };
            let bench = &mut scene.bench;
            let sent = scene.honest.wait(|| bench.send_marked(segment, mark));
            scene.on_packet();
            scene.count(sent);
        }
    }),
    // As many answers as any profile gives in a second.
    ("a scan of closed ports", lives(1000, 2), |scene| {
        for port in 1000..4000 {
            let mut scan = Peer::new(7000);
            scan.host_port = port;
            let segment = scan.syn(SegmentOptions::default());
            scene.send(segment);
        }
        let left = scene.bench.host.sockets().count();
        assert_eq!(left, SOCKETS, "a scan leaves nothing behind");
    }),
    // SYN-ACKs and their retransmissions, one more round where slots became free, and resets.
    (
        "a flood of SYNs",
        Bound {
            holds: Holds::connections(HALF_OPEN),
            ..lives(20_000, 3)
        },
        |scene| {
            for step in 0..5000_u32 {
                let mut flood = Peer::new(10_000 + step as u16 % 50_000);
                flood.seq = SeqNum::new(step.wrapping_mul(0x9e37_79b9));
                let segment = flood.syn(with_mss(1460));
                scene.send(segment);
            }
            assert!(scene.bench.host.sockets().count() <= SOCKETS + 129);
            // The half-open ones time out and leave nothing.
            scene.pass(600_000);
            assert_eq!(scene.bench.host.sockets().count(), SOCKETS);
        },
    ),
];

/// Stacks of every kind, and with options.
pub(crate) fn scenes() -> Vec<(Profile, SegmentOptions)> {
    let all = SegmentOptions {
        window_scale: Some(7),
        sack_permitted: true,
        ..with_mss(1460)
    };
    let profiles = [
        profile::linux_6_18(),
        profile::freebsd_14(),
        profile::freebsd_2006(),
        profile::winsock(),
        profile::netburner(),
        profile::textbook(),
    ];
    let mut scenes = Vec::new();
    for mut profile in profiles {
        // Keepalives, which some send, are no answer.
        profile.settings.life.keepalive = None;
        profile.settings.small_writes.nagle = Nagle::Off;
        profile.settings.send.buffer.fixed = Some(65_536);
        profile.settings.recv.buffer.fixed.get_or_insert(65_536);
        profile.settings.send.unacked_budget = None;
        profile.backlog = 128;
        scenes.push((profile.clone(), all));
        scenes.push((profile, with_mss(1460)));
    }
    scenes
}
