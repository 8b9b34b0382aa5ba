//! Flows that wait for something else than it seems: the path behind a queue of others, the host's
//! own interface, a round trip that is longer than a timer.

use base::{FlowSample, Rate};
use core::time::Duration;

use super::super::builders::{Scene, Sender, cut_to, key, millis, plain, receiving, sample, scene};
use super::{WAN, WWR};
use crate::Timeline;

/// A question of 104 bytes and an answer of 100, one after the other, over 20 ms that take longer.
const PING: Sender = Sender {
    mbit: 4.5 * 104.0 * 8e-6,
    rtt_ms: 220.0,
    min_rtt_ms: 20.0,
    unacked: 1,
    notsent: 0,
    segment: 104,
    back_bytes: 450.0,
    back_segs: 4.5,
    ..WWR
};

/// 100 Mbit/s of a token bucket at the sender's own interface, and 40 ms.
const SHAPED: Sender = Sender {
    mbit: 95.0,
    rtt_ms: 41.5,
    min_rtt_ms: 40.0,
    unacked: 330,
    cwnd: 800,
    lost: 0.0,
    ..WAN
};

/// How long ago the question left, and the answer before it came, where each takes 222 ms.
fn asked(s: &mut FlowSample, tick: u64) -> Duration {
    let since = millis((50 * tick % 222) as f64);
    (s.since_data_sent, s.since_data_received) = (Some(since), Some(since));
    since
}

/// A page of 70 segments in four windows, 40 ms apart, seen by its reader each 10 ms; then the next
/// question, at once or after 300 ms.
fn read_in_windows(name: &'static str, expected: Option<&'static str>, thinks: bool) -> Scene {
    let mut local = Timeline::new();
    let period = if thinks { 46 } else { 16 };
    for tick in 0..460_u64 {
        let (page, phase) = (tick / period, tick % period);
        let mut s = sample(Duration::from_millis(10 * tick), key(40_001));
        let windows = (phase / 4).min(4);
        s.data_segs_in = Some(page * 70 + [0, 10, 30, 60, 70][windows as usize]);
        s.bytes_received = s.data_segs_in.map(|segments| segments * 1448);
        s.data_segs_out = Some(page + 1);
        s.bytes_acked = Some(200 * (page + 1));
        s.bytes_sent = s.bytes_acked;
        s.unacked_pkts = Some(u32::from(phase < 4));
        s.notsent_bytes = Some(0);
        (s.srtt, s.min_rtt) = (Some(millis(41.0)), Some(millis(40.0)));
        s.since_data_sent = Some(Duration::from_millis(10 * phase));
        let since = if phase < 4 {
            phase + period - 16
        } else {
            phase - 4 * windows
        };
        s.since_data_received = Some(Duration::from_millis(10 * since));
        s.unread_bytes = Some(0);
        s.rcvbuf_bytes = Some(6_291_456);
        local.push(s);
    }
    let mut scene = scene(name, "path-full", WAN, plain);
    (scene.expected, scene.local) = (expected, local);
    (scene.remote, scene.remote_host) = (None, None);
    scene
}

fn queued_here(s: &mut FlowSample, _: u64) {
    s.local_queue_bytes = Some(15_000);
}

/// The best rate of a watch, which few looks see.
fn best_at(tick: u64, bits: u64) -> Option<Rate> {
    (tick == 3).then_some(Rate::from_bits_per_second(bits))
}

pub(super) fn waits() -> Vec<Scene> {
    let mut all = of_the_path();
    all.extend(of_timers());
    all
}

// tidy: long because it is a table of flows.
fn of_the_path() -> Vec<Scene> {
    let thinking = Sender {
        rtt_ms: 60.0,
        ..PING
    };
    let lossy = Sender {
        lost: 0.003,
        ..SHAPED
    };
    let blocks = Sender {
        mbit: 48.0,
        rtt_ms: 60.0,
        back_bytes: 190.0 * 60.0,
        back_segs: 190.0,
        ..WAN
    };
    let asking = receiving(blocks, |s, _| s.unacked_pkts = Some(3));
    let mut ahead = scene("blocks asked for ahead", "path-full", blocks, plain);
    (ahead.expected, ahead.local) = (None, asking);
    (ahead.remote, ahead.remote_host) = (None, None);
    // 500 Mbit/s and 66 to 94 ms at random: the window grows, and brings more.
    let jitter = Sender {
        mbit: 120.0,
        rtt_ms: 94.0,
        min_rtt_ms: 66.0,
        lost: 0.0,
        ..WAN
    };
    let growing = scene(
        "a window that still grows",
        "path-full",
        jitter,
        |s, tick| {
            let window = 500 + 10 * tick;
            (s.cwnd_pkts, s.unacked_pkts) =
                (u32::try_from(window).ok(), u32::try_from(window).ok());
            let acked = 770 * (500 * tick + 5 * tick * tick.saturating_sub(1));
            s.bytes_acked = Some(acked);
            s.bytes_sent = Some(acked + window * 1448);
        },
    );
    vec![
        Scene {
            expected: None,
            ..growing
        },
        read_in_windows("a page that comes in windows", None, false),
        read_in_windows(
            "a page that is thought about",
            Some("application-thinks"),
            true,
        ),
        // Nothing is acknowledged before the answer comes, and no ACK is delayed for this long.
        scene(
            "a ping behind a queue",
            "round-trip-bound",
            PING,
            |s, tick| {
                asked(s, tick);
            },
        ),
        scene(
            "a ping to a program at work",
            "application-thinks",
            thinking,
            |s, tick| {
                let since = asked(s, tick);
                s.unacked_pkts = Some(u32::from(since < millis(60.0)));
            },
        ),
        scene("a shaper here", "path-full", SHAPED, queued_here),
        // What is lost then is made good while the interface is waited for.
        scene(
            "a shaper here, and losses",
            "path-full",
            lossy,
            |s, tick| {
                queued_here(s, tick);
                let cut = [300, 500, 400, 350, 450][(tick / 16) as usize % 5];
                (s.ssthresh_pkts, s.cwnd_pkts) = (Some(cut), Some(cut + 20 * (tick % 16) as u32));
                s.unacked_pkts = Some(250);
            },
        ),
        // SFTP, HTTP/2 and NFS, seen by who asks: what limits the answers does not show there.
        ahead,
    ]
}

fn of_timers() -> Vec<Scene> {
    let satellite = Sender {
        mbit: 0.25,
        rtt_ms: 605.0,
        min_rtt_ms: 600.0,
        lost: 0.05,
        notsent: 60_000,
        w: 90_000,
        tb: 87_040,
        ..WAN
    };
    let heavy = Sender {
        mbit: 0.7,
        rtt_ms: 44.0,
        min_rtt_ms: 40.0,
        ..satellite
    };
    let ended = Sender {
        mbit: 870.0 * 104.0 * 8e-6,
        rtt_ms: 0.4,
        notsent: 0,
        back_bytes: 87_000.0,
        back_segs: 870.0,
        ..WWR
    };
    vec![
        // A window leaves at once and its ACKs come a round trip later, which is most of the RTO.
        scene(
            "losses by satellite",
            "random-loss",
            satellite,
            |s, tick| {
                cut_to(s, tick, [7, 12, 9, 7, 10]);
                s.delivery_rate = best_at(tick, 400_000).or(s.delivery_rate);
                s.rto = Some(millis(805.0));
                s.since_data_sent = Some(millis(50.0 * (tick % 12) as f64));
            },
        ),
        // There is always more to follow a lost packet, and losses leave no window for it.
        scene("heavy loss", "random-loss", heavy, |s, tick| {
            cut_to(s, tick, [4, 6, 5, 4, 5]);
            s.delivery_rate = best_at(tick, 1_250_000).or(s.delivery_rate);
            let waits = tick % 10 < 2;
            s.since_data_sent = Some(millis(if waits { 200.0 } else { 10.0 }));
        }),
        // A stall of delayed ACKs that was switched off after a third of the time.
        scene("a stall that has ended", "app-limited", ended, |s, tick| {
            if tick < 33 {
                (s.notsent_bytes, s.srtt) = (Some(100), Some(millis(22.0)));
            }
        }),
    ]
}
