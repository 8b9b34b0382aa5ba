//! Flows that look like one diagnosis and are another one, each as it was seen with real programs.

use base::{FlowKey, FlowSample};
use core::time::Duration;

use super::super::builders::{Scene, Sender, millis, scene, sending, set};
use super::{SNDBUF, WAN};

/// A client that is given a window of 64 KiB fills it with each of its bursts: 33 Mbit/s in 4 % of
/// the time.
const BURSTS: Sender = Sender {
    mbit: 34.0,
    rwnd: 0.88,
    rtt_ms: 0.5,
    min_rtt_ms: 0.26,
    snd_wnd: 65_535,
    unacked: 0,
    cwnd: 70,
    notsent: 0,
    w: 0,
    app_limited: true,
    ..WAN
};

/// 200 Mbit/s and 100 ms, and 4 MB of send buffer: the path is full, and a queue stands.
const FULL_BUFFER: Sender = Sender {
    mbit: 191.0,
    rtt_ms: 135.0,
    min_rtt_ms: 100.0,
    snd_wnd: 12_000_000,
    unacked: 2300,
    cwnd: 3036,
    w: 3_800_000,
    tb: 4_194_304,
    ..SNDBUF
};

/// Nothing of what it sent arrived.
const STARVED: Sender = Sender {
    mbit: 0.0,
    rtt_ms: 60.0,
    unacked: 11,
    cwnd: 1,
    lost: 0.0,
    ..WAN
};

fn starved(s: &mut FlowSample, _: u64) {
    s.backoff = Some(5);
    s.rto_total = Some(5);
    s.rto = Some(millis(7000.0));
    s.bytes_acked = Some(38);
    s.bytes_sent = Some(38 + 11 * 1448);
    s.lost_pkts = Some(11);
    s.segs_in = Some(2);
    s.since_ack_received = Some(Duration::from_secs(11));
    s.since_data_sent = Some(Duration::from_secs(5));
}

fn beside(mut starved: Scene, lost: f64) -> Scene {
    let key = starved.local.key().expect("samples");
    let other = Sender {
        mbit: 0.4,
        lost,
        ..WAN
    };
    let with_port = |s: &mut FlowSample, _: u64| {
        let local = (key.local.ip(), 40_009).into();
        s.key = FlowKey { local, ..key };
    };
    starved.siblings = vec![sending(other, with_port)];
    starved.answered_elsewhere()
}

// tidy: long because it is a table of flows.
pub(super) fn alike() -> Vec<Scene> {
    let stopped = Sender {
        mbit: 0.0,
        rwnd: 1.0,
        snd_wnd: 0,
        unacked: 0,
        ..WAN
    };
    let pausing = Sender {
        mbit: 5.1,
        rwnd: 0.98,
        rtt_ms: 43.0,
        min_rtt_ms: 20.0,
        snd_wnd: 64_512,
        cwnd: 122,
        notsent: 310_000,
        ..WAN
    };
    let more = Sender {
        mbit: 0.005,
        rtt_ms: 5.2,
        min_rtt_ms: 5.1,
        unacked: 0,
        cwnd: 10,
        notsent: 128,
        segment: 128,
        w: 1900,
        back_bytes: 5.0,
        back_segs: 5.0,
        ..WAN
    };
    let probing = |probes: u8, arrived: u64| {
        move |s: &mut FlowSample, tick: u64| {
            s.probes = Some(probes);
            s.backoff = Some(5);
            s.segs_in = Some(51 + arrived * tick / 20);
            s.since_ack_received = Some(Duration::from_secs(6));
        }
    };
    let at_cap = |pause_ms: f64| {
        move |s: &mut FlowSample, tick: u64| {
            let pauses = tick.is_multiple_of(2);
            s.since_ack_received = Some(millis(if pauses { pause_ms } else { 0.0 }));
        }
    };
    let default_wmem =
        |scene: Scene| scene.host(|h, _| set(h, "net.ipv4.tcp_wmem", "4096 16384 4194304"));
    vec![
        scene(
            "a window is filled at times",
            "app-limited",
            BURSTS,
            |s, _| {
                let busy = s.busy_time.unwrap_or_default().mul_f64(0.041);
                s.busy_time = Some(busy);
                s.rwnd_limited_time = Some(busy.mul_f64(0.88));
            },
        ),
        alone(scene(
            "closed, and the host is gone",
            "path-dead",
            stopped,
            probing(2, 0),
        )),
        // The window opens and closes each 100 ms; late ACKs make round trips long.
        alone(scene(
            "opens and closes",
            "slow-reader",
            pausing,
            |s, tick| {
                let (wnd, unacked) = [(64_512, 44), (61_440, 43), (0, 0)][tick as usize % 3];
                s.snd_wnd_bytes = Some(wnd);
                s.unacked_pkts = Some(unacked);
                let sent = (tick / 3 + 1) * 96_000;
                s.bytes_sent = Some(sent);
                s.bytes_acked = Some(sent - u64::from(unacked) * 1448);
            },
        )),
        // A program that does not read answers each probe.
        alone(scene("closed", "slow-reader", stopped, probing(1, 1))),
        default_wmem(scene(
            "a full buffer on a full path",
            "path-full",
            FULL_BUFFER,
            at_cap(4.0),
        )),
        // A sender that stops and goes leaves the path idle, and its bursts queue.
        default_wmem(scene(
            "a full buffer, stop and go",
            "tcp-wmem-max-cap",
            FULL_BUFFER,
            at_cap(40.0),
        )),
        scene(
            "MSG_MORE on each write",
            "cork-not-uncorked",
            more,
            |s, tick| {
                s.rto = Some(millis(204.0));
                s.since_data_sent = Some(millis(50.0 * (tick % 4) as f64));
            },
        ),
        // Retransmissions of one packet find the queue full each time.
        beside(
            scene("starved", "retransmission-timeouts", STARVED, starved),
            0.1,
        ),
        beside(scene("dead beside", "path-dead", STARVED, starved), 0.0),
    ]
}

/// Seen from the sender alone.
fn alone(mut scene: Scene) -> Scene {
    scene.remote = None;
    scene.remote_host = None;
    scene
}
