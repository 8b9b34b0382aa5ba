//! Flows that an interface, a link or a box on the path slows down.

use base::{CongestionState, Instant, Rate};
use core::time::Duration;

use super::super::builders::{Scene, Sender, millis, plain, scene};
use super::WAN;

/// Veth without offload: the sender's processor is what it reaches.
const FAST: Sender = Sender {
    mbit: 6600.0,
    rtt_ms: 9.0,
    min_rtt_ms: 0.05,
    unacked: 100,
    cwnd: 100,
    ..WAN
};

// tidy: long because it is a table of flows.
pub(super) fn boxes() -> Vec<Scene> {
    // 100 Mbit/s, 20 ms, every second packet 60 ms late.
    let overtaken = Sender {
        mbit: 6.4,
        rtt_ms: 55.0,
        min_rtt_ms: 20.0,
        unacked: 40,
        cwnd: 41,
        lost: 0.08,
        ..WAN
    };
    let forgotten = Sender {
        mbit: 0.0,
        rtt_ms: 20.0,
        min_rtt_ms: 20.0,
        unacked: 1,
        cwnd: 1,
        notsent: 0,
        lost: 0.0,
        segment: 14,
        ..WAN
    };
    let cut = |idle: u64| {
        scene("", "idle-connection-cut", forgotten, move |s, tick| {
            s.backoff = Some(3 + (tick / 60) as u8);
            s.rto = Some(millis(1632.0));
            s.bytes_acked = Some(1000);
            s.bytes_sent = Some(1014);
            s.lost_pkts = Some(1);
            s.segs_in = Some(20);
            s.since_data_sent = Some(millis(300.0));
            s.since_ack_received = Some(Duration::from_secs(idle) + millis(50.0 * tick as f64));
        })
        .answered_elsewhere()
    };
    let without_offload = |tso: bool, cpu: f64, name, expected| {
        let mut built = scene(name, expected, FAST, move |s, _| {
            s.owner_cpu_time = Some(s.at.since(Instant::ZERO).mul_f64(cpu));
            s.delivery_rate = Some(Rate::from_bits_per_second(6_800_000_000));
        })
        .host(|h, tick| h.links[0].tso = (tick == 0).then_some(tso));
        built.interface = Some("tt0");
        // Who looks at the sockets alone sees a path that is used up.
        built.healthy = false;
        built
    };
    vec![
        scene("packets overtaken", "reordering", overtaken, |s, tick| {
            s.dsack_dups = s.retrans_total_pkts.map(|pkts| pkts / 2);
            s.reord_seen = s.retrans_total_pkts.map(|pkts| pkts * 4);
            s.congestion_state = Some(match tick % 3 {
                0 => CongestionState::Open,
                _ => CongestionState::Recovery,
            });
        }),
        Scene {
            name: "forgotten by a firewall",
            ..cut(9)
        },
        // The pause is too short for any timeout of a NAT.
        Scene {
            name: "one of two is dead",
            expected: Some("path-dead"),
            ..cut(2)
        },
        without_offload(false, 0.97, "offload off", "segmentation-offload-off"),
        without_offload(true, 0.97, "offload on", "path-full"),
        without_offload(false, 0.5, "offload off, time left", "path-full"),
        scene("offload of nobody", "path-full", FAST, plain),
    ]
}
