//! Flows that start slowly: after pauses, or on connections of their own.

use base::Rate;
use core::time::Duration;

use super::super::builders::{Scene, host, key, millis, sample, set};
use crate::Timeline;

/// Bursts of 500 KB with pauses of a second, seen every 10 ms.
fn bursts(restarts: bool) -> Timeline {
    let mut timeline = Timeline::new();
    let (mut acked, mut sent, mut busy) = (1_u64, 1_u64, 0_u64);
    for tick in 0..450_u64 {
        let at = Duration::from_millis(10 * tick);
        let mut s = sample(at, key(40_001));
        let (length, phase) = (if restarts { 48 } else { 12 }, tick % 150);
        let is_active = phase < length;
        let cwnd = if restarts {
            (10_u32 << (phase / 4).min(6)).min(400)
        } else {
            400
        };
        if is_active {
            acked += 500_000 / length;
            busy += 10;
        }
        s.cwnd_pkts = Some(if is_active { cwnd } else { 400 });
        s.unacked_pkts = Some(if is_active { cwnd.min(200) } else { 0 });
        s.notsent_bytes = Some(if is_active && phase + 2 < length {
            100_000
        } else {
            0
        });
        s.bytes_acked = Some(acked);
        let out = if is_active {
            u64::from(cwnd.min(200)) * 1448
        } else {
            0
        };
        sent = sent.max(acked + out);
        s.bytes_sent = Some(sent);
        s.bytes_received = Some(tick / 150);
        s.data_segs_out = Some(acked / 1448);
        s.data_segs_in = Some(tick / 150);
        s.bytes_retrans = Some(0);
        s.retrans_total_pkts = Some(0);
        s.busy_time = Some(Duration::from_millis(busy));
        s.rwnd_limited_time = Some(Duration::ZERO);
        s.snd_wnd_bytes = Some(3_000_000);
        s.srtt = Some(millis(42.0));
        s.min_rtt = Some(millis(40.0));
        s.delivery_rate = Some(Rate::from_bits_per_second(45_000_000));
        s.wmem_queued_bytes = Some(if is_active { 500_000 } else { 0 });
        s.sndbuf_bytes = Some(1_800_000);
        timeline.push(s);
    }
    timeline
}

/// One connection for each 500 KB, which took `life` milliseconds.
fn short(port: u16, begin: u64, life: u64, first_cwnd: u32) -> Timeline {
    let mut timeline = Timeline::new();
    for tick in 0..=life / 10 {
        let at = Duration::from_millis(begin + 10 * tick);
        let mut s = sample(at, key(port));
        let cwnd = (first_cwnd << (tick / 4).min(6)).min(400);
        s.cwnd_pkts = Some(cwnd);
        s.ssthresh_pkts = Some(i32::MAX as u32);
        let acked = 1 + 500_000 * tick * tick / (life / 10).pow(2);
        s.bytes_acked = Some(acked);
        s.bytes_sent = Some((acked + u64::from(cwnd.min(100)) * 1448).min(500_001));
        s.bytes_received = Some(0);
        s.bytes_retrans = Some(0);
        s.retrans_total_pkts = Some(0);
        s.busy_time = Some(Duration::from_millis(10 * tick));
        s.rwnd_limited_time = Some(Duration::ZERO);
        s.unacked_pkts = Some(cwnd.min(100));
        s.notsent_bytes = Some(if tick * 10 == life { 0 } else { 50_000 });
        s.snd_wnd_bytes = Some(3_000_000);
        s.srtt = Some(millis(42.0));
        s.min_rtt = Some(millis(40.0));
        s.delivery_rate = Some(Rate::from_bits_per_second(45_000_000));
        timeline.push(s);
    }
    timeline
}

pub(super) fn starts() -> Vec<Scene> {
    let of = |name, expected, local| Scene {
        name,
        expected,
        healthy: false,
        local,
        remote: None,
        siblings: Vec::new(),
        host: host(|_, _| ()),
        remote_host: host(|_, _| ()),
        interface: None,
        remote_interface: None,
        hosts_answer_elsewhere: false,
    };
    let earlier = |life, cwnd| {
        vec![
            short(40_002, 0, life, cwnd),
            short(40_003, 2000, life, cwnd),
        ]
    };
    vec![
        of("bursts", Some("slow-start-after-idle"), bursts(true)),
        Scene {
            healthy: true,
            ..of("bursts, window kept", Some("app-limited"), bursts(false))
        }
        .host(|h, _| set(h, "net.ipv4.tcp_slow_start_after_idle", "0")),
        Scene {
            siblings: earlier(480, 10),
            ..of(
                "short connections",
                Some("initcwnd-too-small"),
                short(40_001, 4000, 480, 10),
            )
        },
        Scene {
            siblings: earlier(170, 60),
            healthy: true,
            ..of("short connections, 60", None, short(40_001, 4000, 170, 60))
        },
    ]
}
