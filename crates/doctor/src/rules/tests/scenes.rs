//! Flows with the values that were measured on Linux 6.18, path and traffic beside each.

mod alike;
mod applications;
mod boxes;
mod losses;
mod starts;
mod waits;
mod windows;

use base::{FlowSample, Instant};
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
    all.extend(windows::windows());
    all.extend(stalls());
    all.extend(send_buffers());
    all.extend(applications::applications());
    all.extend(losses::losses());
    all.extend(losses::blocks());
    all.extend(losses::silences());
    all.extend(starts::starts());
    all.extend(boxes::boxes());
    all.extend(alike::alike());
    all.extend(waits::waits());
    all
}

pub(super) fn bbr(s: &mut FlowSample, _: u64) {
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

/// In three looks of eight a piece waits, in two of them for a late ACK.
fn at_times(s: &mut FlowSample, tick: u64) {
    match tick % 8 {
        0 | 1 => s.srtt = s.srtt.map(|srtt| srtt + millis(25.0)),
        2 => {}
        _ => s.notsent_bytes = Some(0),
    }
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
        s.rto = Some(millis(204.0));
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
        // A relay: its pieces wait for a timer, for a round trip, or arrive together.
        scene("nagle, at times", "nagle-rtt-serialised", quick, at_times),
        // One of four round trips of each operation; one of twenty is not worth a change.
        scene(
            "nagle, now and then",
            "nagle-rtt-serialised",
            quick,
            |s, tick| {
                at_times(s, if tick % 4 == 0 { 2 } else { 3 });
            },
        ),
        scene("nagle, seldom", "app-limited", quick, |s, tick| {
            at_times(s, if tick % 20 == 0 { 2 } else { 3 });
        }),
        // What was held at first, and no longer is, counts as none.
        scene("nagle, at first", "app-limited", quick, |s, tick| {
            let has_ended = s.at.since(Instant::ZERO) > Duration::from_secs(1);
            at_times(s, if has_ended { 3 } else { tick });
        }),
        scene("cork", "cork-not-uncorked", corked, pause),
        // The program corks, works 150 ms on the rest, and pulls the cork before the timer does.
        scene("cork and work", "app-limited", corked, |s, tick| {
            pause(s, tick % 3);
        }),
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
