//! Flows that start slowly: after pauses, or on connections of their own.

use base::Rate;
use core::time::Duration;

use super::super::builders::{Scene, host, key, millis, sample, set};
use super::super::edited;
use crate::Timeline;

/// Bursts of 500 KB with pauses of a second, seen every 10 ms. ACKs come all the time, or in
/// trains, one in this many looks.
fn bursts(restarts: bool, train: u64) -> Timeline {
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
            acked += match phase % train {
                0 => 500_000 / length * train,
                _ => 0,
            };
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

/// A server that answers each question with 50 KB over 20 ms, 460 ms after the one before: for 400
/// ms its program works on the answer, or there is no request. Seen every 10 ms.
fn pages(works: bool) -> Timeline {
    let mut timeline = Timeline::new();
    for tick in 0..460_u64 {
        let (page, phase) = (tick / 46, 10 * (tick % 46));
        let mut s = sample(Duration::from_millis(10 * tick), key(40_001).reversed());
        let is_active = phase >= 400;
        // By the windows of each round trip.
        let progress = [0, 14_480, 43_440][phase.saturating_sub(400) as usize / 20];
        let cwnd = if is_active {
            10 << ((phase - 400) / 20)
        } else {
            40
        };
        s.cwnd_pkts = Some(cwnd);
        s.unacked_pkts = Some(if is_active { cwnd.min(20) } else { 0 });
        let has_more = (400..430).contains(&phase);
        s.notsent_bytes = Some(if has_more { 20_000 } else { 0 });
        s.bytes_acked = Some(page * 50_000 + progress);
        let out = if is_active { 14_480 } else { 0 };
        s.bytes_sent = Some(page * 50_000 + (progress + out).min(50_000));
        s.bytes_received = Some((page + 1) * 200);
        s.data_segs_out = Some((page * 50_000 + progress) / 1448);
        s.data_segs_in = Some(page + 1);
        s.bytes_retrans = Some(0);
        s.retrans_total_pkts = Some(0);
        s.rwnd_limited_time = Some(Duration::ZERO);
        s.busy_time = Some(Duration::from_millis(60 * page + phase.saturating_sub(400)));
        s.snd_wnd_bytes = Some(3_000_000);
        (s.srtt, s.min_rtt) = (Some(millis(21.0)), Some(millis(20.0)));
        s.delivery_rate = Some(Rate::from_bits_per_second(15_000_000));
        // The question comes as the pause begins, or as it ends.
        let idle = Duration::from_millis(phase);
        s.since_data_sent = Some(if is_active {
            Duration::ZERO
        } else {
            idle + millis(30.0)
        });
        s.since_data_received = Some(match works {
            true => idle,
            false if is_active => idle - millis(400.0),
            false => idle + millis(60.0),
        });
        timeline.push(s);
    }
    timeline
}

/// Blocks of 500 KB that a client sends each 800 ms, each answered by a byte, seen by the server.
fn blocks_arrive() -> Timeline {
    let mut timeline = Timeline::new();
    for tick in 0..480_u64 {
        let (block, phase) = (tick / 80, tick % 80);
        let mut s = sample(Duration::from_millis(10 * tick), key(40_001).reversed());
        let arrived = block * 345 + phase.min(30) * 345 / 30;
        s.data_segs_in = Some(arrived);
        s.bytes_received = Some(arrived * 1448);
        s.data_segs_out = Some(block + u64::from(phase >= 30));
        s.bytes_acked = s.data_segs_out;
        s.bytes_sent = s.data_segs_out;
        (s.unacked_pkts, s.notsent_bytes) = (Some(0), Some(0));
        let since = Duration::from_millis(10 * phase.saturating_sub(30));
        (s.since_data_sent, s.since_data_received) = (Some(since), Some(since));
        if phase < 30 {
            s.since_data_sent = Some(Duration::from_millis(500 + 10 * phase));
        }
        (s.srtt, s.min_rtt) = (Some(millis(41.0)), Some(millis(40.0)));
        s.unread_bytes = Some(0);
        s.rcvbuf_bytes = Some(6_291_456);
        timeline.push(s);
    }
    timeline
}

// tidy: long because it is a table of flows.
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
    // As much in the same time, over a link that has no more: windows grow into its queue.
    let on_slow_link = |timeline: &Timeline| {
        edited(timeline, |s| {
            s.srtt = Some(millis(110.0));
            s.delivery_rate = Some(Rate::from_bits_per_second(8_300_000));
        })
    };
    // From the third round trip on the buffer is full, and all that is in it has been sent.
    let in_fixed_buffer = |timeline: &Timeline| {
        edited(timeline, |s| {
            (s.sndbuf_bytes, s.sndbuf_locked) = (Some(48_000), Some(true));
            let cwnd = s.cwnd_pkts.unwrap_or(0).min(32);
            (s.cwnd_pkts, s.unacked_pkts) = (Some(cwnd), Some(cwnd));
            let is_full = cwnd == 32;
            s.notsent_bytes = Some(if is_full { 0 } else { 10_000 });
            s.wmem_queued_bytes = Some(if is_full { 46_000 } else { 25_000 });
        })
    };
    vec![
        of("bursts", Some("slow-start-after-idle"), bursts(true, 4)),
        Scene {
            healthy: true,
            ..of(
                "bursts over a slow link",
                Some("app-limited"),
                on_slow_link(&bursts(true, 1)),
            )
        },
        Scene {
            siblings: earlier(480, 10).iter().map(on_slow_link).collect(),
            healthy: true,
            ..of(
                "short connections over a slow link",
                None,
                on_slow_link(&short(40_001, 4000, 480, 10)),
            )
        },
        Scene {
            healthy: true,
            ..of("bursts, window kept", Some("app-limited"), bursts(false, 1))
        }
        .host(|h, _| set(h, "net.ipv4.tcp_slow_start_after_idle", "0")),
        // Who asks waits for the program, and hardly for the window.
        of("pages worked for", Some("application-thinks"), pages(true)),
        of("pages", Some("slow-start-after-idle"), pages(false)),
        // Nothing waits for these answers, and the window shows at the other end alone.
        of("blocks arrive", None, blocks_arrive()),
        Scene {
            siblings: earlier(480, 10),
            ..of(
                "short connections",
                Some("initcwnd-too-small"),
                short(40_001, 4000, 480, 10),
            )
        },
        Scene {
            siblings: earlier(480, 10).iter().map(in_fixed_buffer).collect(),
            ..of(
                "short connections with a fixed buffer",
                Some("sndbuf-locked"),
                in_fixed_buffer(&short(40_001, 4000, 480, 10)),
            )
        },
        Scene {
            siblings: earlier(170, 60),
            healthy: true,
            ..of("short connections, 60", None, short(40_001, 4000, 170, 60))
        },
    ]
}
