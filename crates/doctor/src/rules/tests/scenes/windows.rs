//! Flows that the peer's window stops, seen from the sender alone or from both ends.

use base::{BbrState, FlowSample, Instant, Rate};

use super::super::builders::{Scene, Sender, millis, plain, scene, set};
use super::{WAN, bbr};

/// A window of 39 KB over 40 ms, and a prompt reader.
const SMALL: Sender = Sender {
    mbit: 7.55,
    rwnd: 0.979,
    rtt_ms: 41.0,
    snd_wnd: 39_096,
    unacked: 27,
    cwnd: 60,
    ..WAN
};

/// A program that reads slowly.
const SLOW: Sender = Sender {
    mbit: 4.0,
    rwnd: 0.967,
    rtt_ms: 41.0,
    snd_wnd: 23_552,
    unacked: 14,
    cwnd: 60,
    ..WAN
};

/// A LAN, of which the reader takes less than half; its ACKs come late.
const LATE: Sender = Sender {
    mbit: 31.6,
    rwnd: 1.0,
    rtt_ms: 21.8,
    min_rtt_ms: 1.2,
    snd_wnd: 86_016,
    unacked: 59,
    cwnd: 61,
    ..WAN
};

/// A fast path, on which the receiver's driver merges segments.
const MERGED: Sender = Sender {
    mbit: 2_060.0,
    rwnd: 1.0,
    rtt_ms: 0.25,
    min_rtt_ms: 0.24,
    snd_wnd: 65_536,
    unacked: 44,
    cwnd: 90,
    ..WAN
};

/// BBR at the pace of a reader.
const PROBED: Sender = Sender {
    mbit: 7.6,
    rwnd: 0.1,
    rtt_ms: 40.0,
    min_rtt_ms: 20.2,
    snd_wnd: 41_984,
    unacked: 20,
    cwnd: 54,
    notsent: 460_000,
    ..WAN
};

/// BBR at the pace of a window.
const PACED_BELOW: Sender = Sender {
    mbit: 13.8,
    rwnd: 0.19,
    rtt_ms: 40.4,
    min_rtt_ms: 40.1,
    snd_wnd: 80_480,
    unacked: 50,
    cwnd: 134,
    notsent: 52_128,
    ..WAN
};

/// A window of one segment, open at times.
const TRICKLE: Sender = Sender {
    mbit: 0.158,
    rwnd: 1.0,
    rtt_ms: 56.5,
    min_rtt_ms: 20.2,
    snd_wnd: 1448,
    unacked: 1,
    cwnd: 10,
    notsent: 38_000,
    ..WAN
};

pub(super) fn windows() -> Vec<Scene> {
    let mut all = seen_from_the_sender();
    all.extend(seen_from_both_ends());
    all
}

fn moving(s: &mut FlowSample, tick: u64) {
    s.snd_wnd_bytes = Some([23_552, 4096, 1448, 14_000][tick as usize % 4]);
}

// tidy: long because it is a table of flows.
fn seen_from_the_sender() -> Vec<Scene> {
    // The program reads nothing: the window is closed, and the sender probes it.
    let closed = Sender {
        mbit: 0.0,
        rwnd: 1.0,
        snd_wnd: 0,
        unacked: 0,
        ..SLOW
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
            SLOW,
            moving,
        )),
        alone(scene(
            "half a window per round trip",
            "slow-reader",
            Sender { mbit: 1.5, ..SMALL },
            plain,
        )),
        alone(scene(
            "small window, from the sender",
            "peer-window",
            SMALL,
            plain,
        )),
        // A kernel's on a LAN: 40 of 100 Mbit/s are read, and the window stays at one size.
        alone(scene("late ACKs", "slow-reader", LATE, |s, tick| {
            s.segs_in = s.data_segs_out.map(|segments| segments / 60);
            s.since_ack_received = Some(millis(4.0 * (tick % 5) as f64));
        })),
        // A kernel's: BBR paces to a reader of 8 of 50 Mbit/s, and probes for more.
        alone(scene(
            "BBR and a reader",
            "slow-reader",
            PROBED,
            |s, tick| {
                bbr(s, tick);
                s.snd_wnd_bytes = Some([39_936, 33_792, 45_056, 41_984][tick as usize % 4]);
                s.segs_in = s.data_segs_out.map(|segments| segments / 13);
                s.since_ack_received = Some(millis(4.0 * (tick % 5) as f64));
            },
        )),
        // A kernel's: a window of 80 KB over 40 ms, which BBR takes for the path. It is full where
        // BBR probes for more.
        alone(scene(
            "BBR and a window",
            "peer-window",
            PACED_BELOW,
            |s, tick| {
                bbr(s, tick);
                s.bbr = Some(BbrState {
                    bandwidth: Rate::from_bits_per_second(16_069_080),
                    min_rtt: millis(40.1),
                    pacing_gain: 256,
                    cwnd_gain: 512,
                });
            },
        )),
        // A kernel's: 1000 bytes are read each 50 ms from the smallest of buffers.
        alone(scene("shut for long", "slow-reader", TRICKLE, |s, tick| {
            let is_shut = tick % 3 == 0;
            s.snd_wnd_bytes = Some(if is_shut { 0 } else { 1448 });
            s.unacked_pkts = Some(u32::from(!is_shut));
            s.since_ack_received = Some(millis(12.0 * (1 + tick % 4) as f64));
        })),
        // The driver of a prompt receiver merges as many into one.
        alone(scene("merged segments", "peer-window", MERGED, |s, _| {
            s.segs_in = s.data_segs_out.map(|segments| segments / 40);
        })),
        // A kernel's: 16 KiB are read each 20 ms, and this long is a round trip then. Of these ACKs
        // the window cannot tell whether the program or its buffer makes them late.
        alone(scene("much at a time", "peer-window", much, |s, tick| {
            s.since_ack_received = Some(millis(4.0 * (tick % 5) as f64));
        })),
    ]
}

// tidy: long because it is a table of flows.
fn seen_from_both_ends() -> Vec<Scene> {
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
        ..SMALL
    };
    let clamped = Sender {
        mbit: 10.7,
        rwnd: 0.429,
        ..unscaled
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
    let fixed = |s: &mut FlowSample, _: u64| {
        s.rcvbuf_bytes = Some(65_536);
        s.rcvbuf_locked = Some(true);
    };
    let scale_0 = |s: &mut FlowSample, _: u64| s.snd_wscale = Some(0);
    let mut out_of_breath =
        scene("reader out of breath", "cpu-bound", SLOW, moving).remote(SLOW, |s, _| {
            s.rcvbuf_bytes = Some(131_072);
            s.unread_bytes = Some(60_384);
            s.owner_cpu_time = Some(s.at.since(Instant::ZERO).mul_f64(0.98));
        });
    // Without its processor time it is a slow reader, which is a finding.
    out_of_breath.healthy = false;
    vec![
        scene("queue of a window", "path-full", queued, plain),
        out_of_breath,
        scene("autotuning off", "rmem-autotuning-off", SMALL, plain)
            .remote(SMALL, |s, _| s.rcvbuf_bytes = Some(131_072))
            .remote_host(|h, _| set(h, "net.ipv4.tcp_moderate_rcvbuf", "0")),
        scene("rcvbuf on the listener", "rcvbuf-locked", SMALL, scale_0).remote(
            SMALL,
            |s, tick| {
                fixed(s, tick);
                s.rcv_wscale = Some(0);
            },
        ),
        scene("rcvbuf on the socket", "rcvbuf-locked", SMALL, plain).remote(SMALL, fixed),
        // More was read in a round trip before the call than the window allows now.
        scene("rcvbuf shrunk", "rcvbuf-locked", SMALL, plain).remote(SMALL, |s, tick| {
            fixed(s, tick);
            s.rcv_space_bytes = Some(60_000);
        }),
        scene("slow reader", "slow-reader", SLOW, moving).remote(SLOW, |s, _| {
            s.rcvbuf_bytes = Some(131_072);
            s.unread_bytes = Some(60_384);
            s.rmem_bytes = Some(99_072);
        }),
        // 64 kB are read at a time, with pauses: what is left then and what comes.
        scene("reader that sleeps", "slow-reader", SLOW, moving).remote(SLOW, |s, tick| {
            s.rcvbuf_bytes = Some(149_760);
            s.unread_bytes = Some([26_000, 28_000, 32_000, 60_000, 92_000][tick as usize % 5]);
            s.rmem_bytes = s.unread_bytes.map(|bytes| bytes * 8 / 5);
        }),
        scene("scaling off", "window-scaling-off", unscaled, |s, _| {
            s.window_scaling = Some(false);
            s.snd_wscale = Some(0);
        })
        .host(|h, _| set(h, "net.ipv4.tcp_window_scaling", "0")),
        scene("route window", "peer-window", clamped, scale_0)
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
