//! Flows with the values that were measured on Linux 6.18, path and traffic beside each.

mod alike;
mod boxes;
mod starts;
mod waits;

use base::{CongestionState, FlowSample, Instant, QdiscSample, Rate};
use core::time::Duration;

use super::builders::{Scene, Sender, key, millis, plain, receiving, scene, set};
use crate::Timeline;

/// The healthy CUBIC bulk flow on a path of 50 Mbit/s and 40 ms.
const WAN: Sender = Sender {
    mbit: 44.8,
    rwnd: 0.003,
    rtt_ms: 90.0,
    min_rtt_ms: 40.0,
    snd_wnd: 3_000_000,
    unacked: 379,
    cwnd: 381,
    notsent: 1_100_000,
    w: 1_700_000,
    tb: 1_954_000,
    app_limited: false,
    lost: 0.0002,
    segment: 1448,
    back_bytes: 0.0,
    back_segs: 0.0,
};

/// Write 4 bytes, write 100, read 100, on the LAN.
const WWR: Sender = Sender {
    mbit: 21.0 * 104.0 * 8e-6,
    rwnd: 0.0,
    rtt_ms: 22.0,
    min_rtt_ms: 0.26,
    snd_wnd: 65_160,
    unacked: 1,
    cwnd: 10,
    notsent: 100,
    w: 1900,
    tb: 46_080,
    app_limited: true,
    lost: 0.0,
    segment: 52,
    back_bytes: 2100.0,
    back_segs: 21.0,
};

/// Bulk held by a send buffer.
const SNDBUF: Sender = Sender {
    mbit: 26.0,
    rwnd: 0.0,
    rtt_ms: 59.0,
    unacked: 55,
    cwnd: 204,
    notsent: 0,
    w: 103_768,
    tb: 65_536,
    app_limited: true,
    ..WAN
};

/// All of them.
pub(super) fn scenes() -> Vec<Scene> {
    let mut all = healthy();
    all.extend(windows());
    all.extend(stalls());
    all.extend(send_buffers());
    all.extend(applications());
    all.extend(losses());
    all.extend(starts::starts());
    all.extend(boxes::boxes());
    all.extend(alike::alike());
    all.extend(waits::waits());
    all
}

fn bbr(s: &mut FlowSample, _: u64) {
    s.congestion = Some("bbr".into());
    s.ssthresh_pkts = Some(i32::MAX as u32);
}

// tidy: long because it is a table of flows.
fn healthy() -> Vec<Scene> {
    let bbr_flow = Sender {
        mbit: 46.3,
        rtt_ms: 66.0,
        notsent: 2_400_000,
        cwnd: 500,
        unacked: 300,
        ..WAN
    };
    let lowat = Sender {
        mbit: 46.1,
        notsent: 53_000,
        ..WAN
    };
    let rr = Sender {
        mbit: 2643.0 * 104.0 * 8e-6,
        rtt_ms: 0.3,
        notsent: 0,
        unacked: 2,
        back_bytes: 264_300.0,
        back_segs: 2643.0,
        ..WWR
    };
    let corked = Sender {
        mbit: 1837.0 * 104.0 * 8e-6,
        segment: 104,
        back_bytes: 183_700.0,
        back_segs: 1837.0,
        rtt_ms: 0.4,
        ..rr
    };
    let rr_far = Sender {
        mbit: 48.0 * 104.0 * 8e-6,
        back_bytes: 4800.0,
        back_segs: 48.0,
        rtt_ms: 20.3,
        min_rtt_ms: 20.0,
        ..rr
    };
    let clipped = Sender { mbit: 46.7, ..WAN };
    let long_queue = Sender {
        rtt_ms: 136.0,
        ..WAN
    };
    let bbr_dsl = Sender {
        mbit: 9.6,
        rtt_ms: 122.0,
        min_rtt_ms: 20.3,
        ..WAN
    };
    let lossy_bbr = Sender {
        mbit: 44.1,
        rtt_ms: 45.0,
        cwnd: 219,
        unacked: 170,
        lost: 0.0093,
        ..WAN
    };
    vec![
        scene("healthy CUBIC", "path-full", WAN, plain),
        scene("healthy BBR", "path-full", bbr_flow, bbr),
        scene("NOTSENT_LOWAT", "path-full", lowat, |s, _| {
            s.notsent_lowat_bytes = Some(16_384);
        }),
        scene("SO_RCVBUF 8 MB", "path-full", clipped, plain).remote(clipped, |s, _| {
            s.rcvbuf_locked = Some(true);
            s.rcvbuf_bytes = Some(8_388_608);
            s.rcv_wscale = Some(7);
        }),
        scene("queue of 400", "path-full", long_queue, plain),
        scene("loss, BBR", "path-full", lossy_bbr, bbr),
        scene("DSL, BBR", "path-full", bbr_dsl, bbr),
        scene("reordering", "path-full", WAN, |s, tick| {
            s.retrans_total_pkts = Some(tick / 27);
            s.dsack_dups = Some(tick / 27);
            s.reord_seen = Some(tick * 2);
        }),
        scene("request/response", "round-trip-bound", rr, |s, _| {
            s.nodelay = Some(true);
        }),
        // One wait for the timer of 210 ms in half a second: looks come each 20 ms or so.
        scene(
            "lost requests",
            "retransmission-timeouts",
            rr_far,
            |s, tick| {
                s.retrans_total_pkts = Some(tick / 16);
                s.rto = Some(millis(220.0));
                s.since_data_sent = Some(millis(((tick % 16) * 14) as f64));
                (s.unacked_pkts, s.notsent_bytes) = (Some(1), Some(0));
            },
        ),
        // Both ends run a core: that is the emulator's price, not that of small writes.
        scene("request/response, busy", "round-trip-bound", rr, |s, _| {
            s.nodelay = Some(true);
            s.owner_cpu_time = Some(s.at.since(Instant::ZERO));
        }),
        scene("cork and uncork", "round-trip-bound", corked, plain),
        scene(
            "request/response, far",
            "round-trip-bound",
            rr_far,
            |s, _| s.nodelay = Some(true),
        ),
    ]
}

// tidy: long because it is a table of flows.
fn windows() -> Vec<Scene> {
    let small = Sender {
        mbit: 7.55,
        rwnd: 0.979,
        rtt_ms: 41.0,
        snd_wnd: 39_096,
        unacked: 27,
        cwnd: 60,
        ..WAN
    };
    let slow = Sender {
        mbit: 4.0,
        rwnd: 0.967,
        rtt_ms: 41.0,
        snd_wnd: 23_552,
        unacked: 14,
        cwnd: 60,
        ..WAN
    };
    let unscaled = Sender {
        mbit: 11.8,
        rwnd: 0.97,
        rtt_ms: 41.0,
        snd_wnd: 65_535,
        unacked: 45,
        cwnd: 90,
        ..WAN
    };
    let capped = Sender {
        mbit: 7.0,
        rwnd: 0.971,
        snd_wnd: 39_552,
        ..small
    };
    let clamped = Sender {
        mbit: 10.7,
        rwnd: 0.429,
        ..unscaled
    };
    let moving = |s: &mut FlowSample, tick: u64| {
        s.snd_wnd_bytes = Some([23_552, 4096, 1448, 14_000][tick as usize % 4]);
    };
    let fixed = |s: &mut FlowSample, _: u64| {
        s.rcvbuf_bytes = Some(65_536);
        s.rcvbuf_locked = Some(true);
    };
    let scale_0 = |s: &mut FlowSample, _: u64| s.snd_wscale = Some(0);
    // The program reads nothing: the window is closed, and the sender probes it.
    let closed = Sender {
        mbit: 0.0,
        rwnd: 1.0,
        snd_wnd: 0,
        unacked: 0,
        ..slow
    };
    // As much as the path carries, and twice as much again in its queue.
    let queued = Sender {
        mbit: 7.7,
        rwnd: 0.8,
        rtt_ms: 136.0,
        snd_wnd: 131_072,
        unacked: 90,
        cwnd: 120,
        ..WAN
    };
    let late = Sender {
        mbit: 31.6,
        rwnd: 1.0,
        rtt_ms: 21.8,
        min_rtt_ms: 1.2,
        snd_wnd: 86_016,
        unacked: 59,
        cwnd: 61,
        ..WAN
    };
    let merged = Sender {
        mbit: 2_060.0,
        rwnd: 1.0,
        rtt_ms: 0.25,
        min_rtt_ms: 0.24,
        snd_wnd: 65_536,
        unacked: 44,
        cwnd: 90,
        ..WAN
    };
    let much = Sender {
        mbit: 6.56,
        rwnd: 1.0,
        rtt_ms: 20.0,
        min_rtt_ms: 10.1,
        snd_wnd: 18_432,
        unacked: 12,
        cwnd: 84,
        ..WAN
    };
    let mut out_of_breath =
        scene("reader out of breath", "cpu-bound", slow, moving).remote(slow, |s, _| {
            s.rcvbuf_bytes = Some(131_072);
            s.unread_bytes = Some(60_384);
            s.owner_cpu_time = Some(s.at.since(Instant::ZERO).mul_f64(0.98));
        });
    // Without its processor time it is a slow reader, which is a finding.
    out_of_breath.healthy = false;
    let alone = |mut scene: Scene| {
        scene.remote = None;
        scene.remote_host = None;
        scene
    };
    vec![
        alone(scene("reader stopped", "slow-reader", closed, plain)),
        alone(scene(
            "slow reader, from the sender",
            "slow-reader",
            slow,
            moving,
        )),
        alone(scene(
            "half a window per round trip",
            "slow-reader",
            Sender { mbit: 1.5, ..small },
            plain,
        )),
        alone(scene(
            "small window, from the sender",
            "peer-window",
            small,
            plain,
        )),
        // A kernel's on a LAN: 40 of 100 Mbit/s are read, and the window stays at one size.
        alone(scene("late ACKs", "slow-reader", late, |s, tick| {
            s.segs_in = s.data_segs_out.map(|segments| segments / 60);
            s.since_ack_received = Some(millis(4.0 * (tick % 5) as f64));
        })),
        // The driver of a prompt receiver merges as many into one.
        alone(scene("merged segments", "peer-window", merged, |s, _| {
            s.segs_in = s.data_segs_out.map(|segments| segments / 40);
        })),
        // A kernel's: 16 KiB are read each 20 ms, and so long is a round trip then. Of these ACKs
        // the window cannot tell whether the program or its buffer makes them late.
        alone(scene("much at a time", "peer-window", much, |s, tick| {
            s.since_ack_received = Some(millis(4.0 * (tick % 5) as f64));
        })),
        scene("queue of a window", "path-full", queued, plain),
        out_of_breath,
        scene("autotuning off", "rmem-autotuning-off", small, plain)
            .remote(small, |s, _| s.rcvbuf_bytes = Some(131_072))
            .remote_host(|h, _| set(h, "net.ipv4.tcp_moderate_rcvbuf", "0")),
        scene("rcvbuf on the listener", "rcvbuf-locked", small, scale_0).remote(
            small,
            |s, tick| {
                fixed(s, tick);
                s.rcv_wscale = Some(0);
            },
        ),
        scene("rcvbuf on the socket", "rcvbuf-locked", small, plain).remote(small, fixed),
        // More was read in a round trip before the call than the window allows now.
        scene("rcvbuf shrunk", "rcvbuf-locked", small, plain).remote(small, |s, tick| {
            fixed(s, tick);
            s.rcv_space_bytes = Some(60_000);
        }),
        scene("slow reader", "slow-reader", slow, moving).remote(slow, |s, _| {
            s.rcvbuf_bytes = Some(131_072);
            s.unread_bytes = Some(60_384);
            s.rmem_bytes = Some(99_072);
        }),
        scene("scaling off", "window-scaling-off", unscaled, |s, _| {
            s.window_scaling = Some(false);
            s.snd_wscale = Some(0);
        })
        .host(|h, _| set(h, "net.ipv4.tcp_window_scaling", "0")),
        scene("route window", "window-scaling-off", clamped, scale_0)
            .remote(clamped, |s, _| s.rcv_wscale = Some(0)),
        scene("tcp_rmem", "tcp-rmem-max-cap", capped, |s, _| {
            s.snd_wscale = Some(7);
        })
        .remote(capped, |s, _| {
            s.rcvbuf_bytes = Some(65_536);
            s.rcv_wscale = Some(7);
        })
        .remote_host(|h, _| set(h, "net.ipv4.tcp_rmem", "4096 65536 65536")),
    ]
}

// tidy: long because it is a table of flows.
fn stalls() -> Vec<Scene> {
    let quick = Sender {
        mbit: 1454.0 * 104.0 * 8e-6,
        rtt_ms: 0.4,
        back_bytes: 145_400.0,
        back_segs: 1454.0,
        ..WWR
    };
    let corked = Sender {
        mbit: 4.8 * 104.0 * 8e-6,
        rtt_ms: 0.3,
        unacked: 0,
        notsent: 104,
        back_bytes: 480.0,
        back_segs: 4.8,
        segment: 104,
        ..WWR
    };
    let quotes = Sender {
        rtt_ms: 40.5,
        back_bytes: 0.0,
        back_segs: 0.0,
        ..WWR
    };
    let pause = |s: &mut FlowSample, tick: u64| {
        s.cork = Some(true);
        s.since_data_sent = Some(Duration::from_millis(50 * (tick % 4)));
    };
    let mut two = scene("quotes", "two-one-way-connections", quotes, plain);
    let mut other = Timeline::new();
    let answers = receiving(
        Sender {
            mbit: 0.01,
            ..quotes
        },
        plain,
    );
    for answer in answers.samples() {
        let mut answer = answer.clone();
        answer.key = key(40_002);
        answer.cookie = Some(2);
        other.push(answer);
    }
    two.siblings = vec![other.clone()];
    // The piece is held on the other connection: here a request leaves whenever an answer came.
    let prompt = Sender {
        notsent: 0,
        mbit: 44.0 * 8.0 * 8e-6,
        segment: 8,
        rtt_ms: 21.0,
        ..quotes
    };
    let phase = |tick: u64| Some(Duration::from_millis(tick * 7 % 22));
    let mut requests = scene(
        "quotes, requests",
        "two-one-way-connections",
        prompt,
        |s, tick| {
            s.since_data_sent = phase(tick);
        },
    );
    let mut answers = Timeline::new();
    for (tick, answer) in other.samples().enumerate() {
        let mut answer = answer.clone();
        answer.since_data_received = phase(tick as u64);
        answers.push(answer);
    }
    requests.siblings = vec![answers];
    vec![
        scene("nagle x delayed ACK", "nagle-delack-stall", WWR, plain).remote_host(|h, tick| {
            h.counters
                .insert("TcpExtDelayedACKs".into(), tick * 21 / 20);
        }),
        scene("nagle, quick ACKs", "nagle-rtt-serialised", quick, plain),
        scene("cork", "cork-not-uncorked", corked, pause),
        two,
        requests,
    ]
}

fn locked(s: &mut FlowSample, _: u64) {
    s.sndbuf_locked = Some(true);
}

fn send_buffers() -> Vec<Scene> {
    let rows = [
        ("sndbuf 4096 nb 1000", 286_832, 8192, 196, 126, 19.3),
        ("sndbuf 4096 nb 16384", 21_376, 8192, 232, 12, 15.3),
        ("sndbuf 32768 nb 1000", 253_080, 65_536, 227, 111, 21.0),
        ("sndbuf 32768 nb 16384", 337_400, 65_536, 180, 179, 24.3),
        ("sndbuf 131072 nb 1000", 286_832, 262_144, 405, 126, 26.3),
        ("sndbuf 32768 1000", 100_320, 65_536, 338, 44, 21.1),
        ("sndbuf 32768 4096", 188_864, 65_536, 226, 104, 27.8),
        ("sndbuf 32768 262144", 343_616, 65_536, 261, 208, 24.2),
    ];
    let tiny = Sender {
        mbit: 17.6,
        w: 49_640,
        tb: 4608,
        unacked: 31,
        cwnd: 247,
        ..SNDBUF
    };
    let capped = Sender {
        mbit: 25.0,
        w: 66_000,
        ..SNDBUF
    };
    let mut scenes = vec![
        scene("sndbuf 32768", "sndbuf-locked", SNDBUF, locked),
        scene("sndbuf 0", "sndbuf-tiny", tiny, locked),
        scene("tcp_wmem", "tcp-wmem-max-cap", capped, plain)
            .host(|h, _| set(h, "net.ipv4.tcp_wmem", "4096 16384 65536")),
    ];
    scenes.push(scene("sndbuf cycle", "sndbuf-locked", SNDBUF, |s, tick| {
        s.sndbuf_locked = Some(true);
        // Nagle's tail lets it fill cwnd, then it drains to two thirds before the writer is woken.
        let (unacked, notsent, w) =
            [(204, 40_544, 404_840), (144, 0, 243_456), (40, 0, 45_000)][tick as usize % 3];
        s.unacked_pkts = Some(unacked);
        s.notsent_bytes = Some(notsent);
        s.wmem_queued_bytes = Some(w);
    }));
    for (name, w, tb, cwnd, unacked, mbit) in rows {
        let sender = Sender {
            w,
            tb,
            cwnd,
            unacked,
            mbit,
            ..SNDBUF
        };
        scenes.push(scene(name, "sndbuf-locked", sender, locked));
    }
    scenes
}

// tidy: long because it is a table of flows.
fn applications() -> Vec<Scene> {
    let paced = Sender {
        mbit: 9.93,
        rtt_ms: 41.0,
        notsent: 912,
        unacked: 34,
        cwnd: 138,
        w: 56_720,
        tb: 193_536,
        app_limited: true,
        ..WAN
    };
    let silent = Sender {
        mbit: 0.0,
        unacked: 0,
        notsent: 0,
        w: 0,
        ..paced
    };
    let tiny_writes = Sender {
        mbit: 67.8,
        rtt_ms: 21.0,
        min_rtt_ms: 20.0,
        segment: 583,
        unacked: 290,
        cwnd: 900,
        notsent: 0,
        w: 410_000,
        tb: 1_900_000,
        app_limited: true,
        lost: 0.0,
        ..WAN
    };
    let flood = Sender {
        mbit: 10.0,
        segment: 16,
        unacked: 4900,
        cwnd: 9552,
        w: 4_194_000,
        tb: 4_194_304,
        ..tiny_writes
    };
    let gathered = Sender {
        mbit: 100.7,
        segment: 1444,
        unacked: 174,
        notsent: 700,
        ..tiny_writes
    };
    // 100-byte records at 4000 per second on the LAN.
    let records = Sender {
        mbit: 3.2,
        rtt_ms: 0.3,
        min_rtt_ms: 0.26,
        segment: 100,
        unacked: 2,
        cwnd: 10,
        notsent: 0,
        w: 4600,
        tb: 87_040,
        lost: 0.0,
        app_limited: true,
        ..WAN
    };
    let joined = Sender {
        segment: 1340,
        ..records
    };
    let telemetry = Sender {
        mbit: 0.16,
        unacked: 0,
        w: 0,
        ..records
    };
    let whole_core =
        |s: &mut FlowSample| s.owner_cpu_time = Some(s.at.since(Instant::ZERO).mul_f64(0.97));
    // Three round trips of 10 ms for each operation, two of them spent by the server.
    let far_server = Sender {
        mbit: 33.0 * 104.0 * 8e-6,
        rtt_ms: 10.2,
        min_rtt_ms: 10.0,
        unacked: 0,
        notsent: 0,
        back_bytes: 3300.0,
        back_segs: 33.0,
        ..WWR
    };
    let held_back = Sender {
        mbit: 9.6,
        rtt_ms: 41.0,
        unacked: 34,
        cwnd: 138,
        w: 300_000,
        ..WAN
    };
    vec![
        scene(
            "a server that thinks",
            "application-thinks",
            far_server,
            |s, tick| {
                s.since_data_sent = Some(Duration::from_millis(7 * tick % 30));
                s.since_data_received = Some(Duration::from_millis(7 * tick % 30 + 20));
            },
        ),
        scene("SO_MAX_PACING_RATE", "paced", held_back, |s, _| {
            s.max_pacing_rate = Some(Rate::from_bits_per_second(10_000_000));
        }),
        scene("paced", "app-limited", paced, plain),
        scene("silent", "app-limited", silent, |s, _| {
            s.busy_time = Some(Duration::ZERO);
        }),
        scene(
            "16-byte writes, nodelay",
            "small-writes-cpu",
            tiny_writes,
            |s, _| {
                s.nodelay = Some(true);
                whole_core(s);
            },
        ),
        // Where an emulator has most of the processor, the writer's own time shows little, and
        // single segments of 16 bytes fill any send buffer.
        scene(
            "16-byte writes, busy host",
            "small-writes-cpu",
            flood,
            |s, _| {
                s.nodelay = Some(true);
            },
        ),
        scene("16-byte writes, nagle", "cpu-bound", gathered, |s, _| {
            whole_core(s);
        }),
        scene("records, nodelay", "unbatched-records", records, |s, _| {
            s.nodelay = Some(true);
        }),
        // Each ACK comes before the next record, so Nagle's algorithm joins none.
        scene("records, nagle", "unbatched-records", records, |s, tick| {
            s.unacked_pkts = Some(u32::from(tick % 3 == 0));
        }),
        // As many bytes in fewer segments, and as small ones at a rate that nobody minds.
        scene("records, joined", "app-limited", joined, plain),
        scene("telemetry", "app-limited", telemetry, |s, _| {
            s.nodelay = Some(true);
        }),
    ]
}

fn qdisc(kind: &str, limit: Option<u64>, dropped: u64) -> QdiscSample {
    QdiscSample {
        kind: kind.into(),
        parent: u32::MAX,
        limit,
        dropped_pkts: dropped,
        ..QdiscSample::default()
    }
}

// tidy: long because it is a table of flows.
fn losses() -> Vec<Scene> {
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
    let hole = Sender {
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
    vec![
        scene("loss, CUBIC", "random-loss", lossy, |s, tick| {
            // A burst between two losses shows what the path can do.
            s.delivery_rate = (tick == 3)
                .then_some(Rate::from_bits_per_second(48_000_000))
                .or(s.delivery_rate);
            // Losses come at any size of the window.
            let cut = |number: u64| [7, 12, 9, 7, 10][number as usize % 5];
            let (from, to) = (cut(tick / 16), cut(tick / 16 + 1) * 10 / 7);
            let grown = (to - from) * (tick % 16) as u32 / 15;
            (s.ssthresh_pkts, s.cwnd_pkts) = (Some(from), Some(from + grown));
            s.unacked_pkts = s.cwnd_pkts;
        }),
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
        scene("policer", "policed", policed, |s, tick| {
            let cut = [60, 62, 59, 61][(tick / 16) as usize % 4];
            let saw = (tick % 16) as u32;
            (s.ssthresh_pkts, s.cwnd_pkts) = (Some(cut), Some(cut + saw * 26 / 15));
            s.unacked_pkts = s.cwnd_pkts;
        }),
        scene("peer gone", "path-dead", hole, |s, tick| {
            s.backoff = Some(3 + (tick / 40) as u8);
            s.bytes_acked = Some(5_000_000);
            s.bytes_sent = Some(5_000_000 + 11 * 1448);
            s.lost_pkts = Some(11);
            s.segs_in = Some(2000);
            s.since_ack_received = Some(Duration::from_secs(9));
        }),
        scene("short txqueuelen", "local-qdisc-drops", dropping, plain).host(|h, tick| {
            h.links[0].tx_dropped_pkts = tick;
            h.links[0].txqueuelen_pkts = 10;
        }),
        scene("black hole", "pmtu-blackhole", hole, |s, tick| {
            let timeouts = [5, 15, 35, 75].iter().filter(|at| tick >= **at).count() as u64;
            s.backoff = Some(timeouts as u8);
            s.rto_total = Some(timeouts);
            s.lost_pkts = Some(if timeouts > 0 { 11 } else { 0 });
            s.bytes_retrans = Some(1448 * timeouts);
            s.bytes_sent = s.bytes_sent.map(|sent| sent + 1448 * timeouts);
            s.retrans_total_pkts = Some(timeouts);
        }),
    ]
}
