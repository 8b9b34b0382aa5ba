//! Flows that lose packets: by chance, in queues, to a policer, or all of them.

use base::{BbrState, CongestionState, FlowSample, QdiscSample, Rate};
use core::time::Duration;

use super::super::builders::{Scene, Sender, cut_to, millis, plain, scene, set};
use super::{WAN, bbr};

fn qdisc(kind: &str, limit: Option<u64>, dropped: u64) -> QdiscSample {
    QdiscSample {
        kind: kind.into(),
        parent: u32::MAX,
        limit,
        dropped_pkts: dropped,
        ..QdiscSample::default()
    }
}

/// Losses that cut the window at one size.
fn cuts(s: &mut FlowSample, tick: u64) {
    let cut = [60, 62, 59, 61][(tick / 16) as usize % 4];
    let saw = (tick % 16) as u32;
    (s.ssthresh_pkts, s.cwnd_pkts) = (Some(cut), Some(cut + saw * 26 / 15));
    s.unacked_pkts = s.cwnd_pkts;
}

/// A path that lets nothing large through.
const HOLE: Sender = Sender {
    mbit: 0.0,
    rtt_ms: 40.2,
    unacked: 11,
    cwnd: 1,
    notsent: 90_000,
    w: 130_000,
    tb: 87_040,
    lost: 0.0,
    ..WAN
};

/// Timeouts by then, each after twice the time of the one before.
fn timeouts(tick: u64) -> u64 {
    let begin = [5, 15, 35, 75];
    begin.iter().filter(|at| tick >= **at).count() as u64
}

// tidy: long because it is a table of flows.
pub(super) fn losses() -> Vec<Scene> {
    let lossy = Sender {
        mbit: 2.46,
        rtt_ms: 41.2,
        unacked: 12,
        cwnd: 13,
        lost: 0.0116,
        notsent: 60_000,
        w: 90_000,
        tb: 87_040,
        ..WAN
    };
    let no_sack = Sender {
        mbit: 22.2,
        rtt_ms: 95.0,
        unacked: 1076,
        cwnd: 1200,
        lost: 0.01,
        w: 4_100_000,
        tb: 4_194_304,
        rwnd: 0.25,
        ..WAN
    };
    let dsl = Sender {
        mbit: 9.6,
        rtt_ms: 219.0,
        min_rtt_ms: 20.3,
        unacked: 190,
        cwnd: 191,
        lost: 0.0,
        ..WAN
    };
    let bucket = Sender {
        mbit: 44.4,
        rtt_ms: 24.0,
        min_rtt_ms: 20.0,
        unacked: 90,
        cwnd: 91,
        lost: 0.0,
        ..WAN
    };
    let dropping = Sender {
        mbit: 15.0,
        rtt_ms: 41.0,
        unacked: 50,
        cwnd: 51,
        lost: 0.004,
        ..WAN
    };
    let short_queue = Sender {
        mbit: 46.0,
        rtt_ms: 42.0,
        unacked: 170,
        cwnd: 171,
        lost: 0.0012,
        ..WAN
    };
    let policed = Sender {
        mbit: 18.0,
        rtt_ms: 40.3,
        unacked: 70,
        cwnd: 70,
        lost: 0.02,
        ..WAN
    };
    let bursts = Sender {
        mbit: 40.0,
        rtt_ms: 0.37,
        min_rtt_ms: 0.1,
        unacked: 75,
        cwnd: 8,
        notsent: 700_000,
        lost: 0.1,
        ..WAN
    };
    vec![
        scene("loss, CUBIC", "random-loss", lossy, |s, tick| {
            // A burst between two losses shows what the path can do.
            s.delivery_rate = (tick == 3)
                .then_some(Rate::from_bits_per_second(48_000_000))
                .or(s.delivery_rate);
            cut_to(s, tick, [7, 12, 9, 7, 10]);
        }),
        // As above without the burst: what drops, drops at about the rate that the flow has.
        Scene {
            expected: None,
            ..scene("losses at one rate", "policed", lossy, |s, tick| {
                cut_to(s, tick, [7, 12, 9, 7, 10]);
            })
        },
        scene("SACK off", "sack-or-timestamps-off", no_sack, |s, tick| {
            s.sack = Some(false);
            s.retrans_total_pkts = Some(tick * 62 / 80);
            s.sacked_pkts = Some(1000);
            s.congestion_state = Some(if tick % 4 == 0 {
                CongestionState::Open
            } else {
                CongestionState::Recovery
            });
        })
        .host(|h, _| set(h, "net.ipv4.tcp_sack", "0")),
        // A kernel's, over 0.3 ms: a bucket takes a burst, drops the rest, and a timer lets the
        // next one go.
        scene("bursts of a bucket", "policed", bursts, |s, tick| {
            let phase = tick % 4;
            s.rto = Some(millis(204.0));
            (s.cwnd_pkts, s.ssthresh_pkts) = match phase {
                0 => (Some(70), Some(70)),
                _ => (Some(8), Some(69 + (tick / 4 % 3) as u32)),
            };
            let state = [CongestionState::Open, CongestionState::Recovery];
            s.congestion_state = Some(state[usize::from(phase > 0)]);
            let since = Some(millis(50.0 * phase as f64));
            (s.since_data_sent, s.since_ack_received) = (since, since);
        }),
        scene("DSL, CUBIC", "bufferbloat", dsl, plain),
        scene("token bucket here", "local-qdisc-drops", bucket, plain).host(|h, tick| {
            h.links[0].qdiscs = vec![qdisc("tbf", Some(30_000), tick / 40)];
        }),
        // Queues that drop by design, and one that is long enough.
        scene("fq_codel here", "path-full", bucket, plain).host(|h, tick| {
            h.links[0].qdiscs = vec![qdisc("fq_codel", Some(10_240), tick)];
        }),
        scene("a long queue here", "path-full", bucket, plain).host(|h, tick| {
            h.links[0].tx_dropped_pkts = tick / 40;
        }),
        // A queue of 15 packets: the window is cut at one size, and round trips follow it.
        scene("short queue", "path-full", short_queue, |s, tick| {
            let saw = (tick % 20) as u32;
            s.cwnd_pkts = Some(150 + 2 * saw);
            s.unacked_pkts = s.cwnd_pkts;
            s.ssthresh_pkts = Some(130);
            s.srtt = Some(millis(40.2 + f64::from(saw) * 0.17));
        }),
        scene("policer", "policed", policed, cuts),
        // A kernel's: a program writes half of what BBR finds the path to carry, and packets get
        // lost at the same size of the window each time. That is not a limit of the path.
        Scene {
            expected: None,
            ..scene("BBR with room", "policed", policed, |s, tick| {
                bbr(s, tick);
                cuts(s, tick);
                s.bbr = Some(BbrState {
                    bandwidth: Rate::from_bits_per_second(36_000_000),
                    min_rtt: millis(40.0),
                    pacing_gain: 256,
                    cwnd_gain: 512,
                });
            })
        },
        scene("short txqueuelen", "local-qdisc-drops", dropping, plain).host(|h, tick| {
            h.links[0].tx_dropped_pkts = tick;
            h.links[0].txqueuelen_pkts = 10;
        }),
    ]
}

/// A kernel's, by `iperf3 -b 16M`: blocks of 128 kB, 16 of 100 Mbit/s, overflow a queue of 40
/// packets. Blocks wait to be sent nearly always, in a buffer that is never full.
pub(super) fn blocks() -> Vec<Scene> {
    let blocks = Sender {
        mbit: 16.0,
        rtt_ms: 30.7,
        min_rtt_ms: 30.0,
        unacked: 45,
        cwnd: 45,
        notsent: 106_000,
        w: 178_000,
        tb: 751_000,
        lost: 0.006,
        ..WAN
    };
    let always_writes = Sender {
        w: 560_000,
        ..blocks
    };
    let asks = Sender {
        back_bytes: 4000.0,
        back_segs: 400.0,
        ..blocks
    };
    let queued = Sender {
        rtt_ms: 41.0,
        ..blocks
    };
    let by_chance = |s: &mut FlowSample, tick| cut_to(s, tick, [20, 30, 24, 33, 26]);
    vec![
        scene("blocks that overflow a queue", "app-limited", blocks, cuts),
        scene("blocks and losses", "app-limited", blocks, by_chance),
        scene("no room for blocks", "policed", always_writes, cuts),
        // It is woken when little is unsent.
        scene("blocks, NOTSENT_LOWAT", "policed", blocks, |s, tick| {
            cuts(s, tick);
            s.notsent_lowat_bytes = Some(131_072);
        }),
        // A client that gets answers may wait for that.
        Scene {
            expected: None,
            ..scene("blocks that are answered", "app-limited", asks, cuts)
        },
        scene("blocks, and a queue stands", "path-full", queued, cuts),
    ]
}

/// Flows of which nothing arrives any more, or nothing large.
pub(super) fn silences() -> Vec<Scene> {
    vec![
        scene("peer gone", "path-dead", HOLE, |s, tick| {
            s.backoff = Some(3 + (tick / 40) as u8);
            s.bytes_acked = Some(5_000_000);
            s.bytes_sent = Some(5_000_000 + 11 * 1448);
            s.lost_pkts = Some(11);
            s.segs_in = Some(2000);
            s.since_ack_received = Some(Duration::from_secs(9));
        }),
        // A request of 11 small segments, and the SYN-ACK is retransmitted repeatedly.
        scene("never accepted", "path-dead", HOLE, |s, tick| {
            s.backoff = Some(3 + (tick / 40) as u8);
            s.advmss_bytes = Some(1448);
            (s.bytes_acked, s.bytes_received) = (Some(1), Some(0));
            s.bytes_sent = Some(1 + 11 * 20);
            s.notsent_bytes = Some(0);
            s.lost_pkts = Some(11);
            s.segs_in = Some(1 + tick / 40);
        }),
        scene("black hole", "pmtu-blackhole", HOLE, |s, tick| {
            let timeouts = timeouts(tick);
            s.backoff = Some(timeouts as u8);
            s.rto_total = Some(timeouts);
            s.lost_pkts = Some(if timeouts > 0 { 11 } else { 0 });
            s.bytes_retrans = Some(1448 * timeouts);
            s.bytes_sent = s.bytes_sent.map(|sent| sent + 1448 * timeouts);
            s.retrans_total_pkts = Some(timeouts);
        }),
        // A message of one full segment and a small one, which arrives.
        scene(
            "black hole, a small segment arrives",
            "pmtu-blackhole",
            HOLE,
            |s, tick| {
                let timeouts = timeouts(tick);
                s.backoff = Some(timeouts as u8);
                s.rto_total = Some(timeouts);
                s.unacked_pkts = Some(2);
                s.sacked_pkts = Some(1);
                s.lost_pkts = Some(u32::from(timeouts > 0));
                s.notsent_bytes = Some(0);
                s.send_queue_bytes = Some(1448 + 112);
                s.cwnd_pkts = Some(1);
                s.bytes_sent = s
                    .bytes_acked
                    .map(|acked| acked + 1448 + 112 + 1448 * timeouts);
                s.bytes_retrans = Some(1448 * timeouts);
                s.retrans_total_pkts = Some(timeouts);
            },
        ),
    ]
}
