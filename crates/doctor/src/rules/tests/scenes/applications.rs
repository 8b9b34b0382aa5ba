//! Flows whose program is the limit: what it sends, when, and in how many writes.

use base::{FlowSample, Instant, Rate};
use core::time::Duration;

use super::super::builders::{Scene, Sender, plain, scene};
use super::{WAN, WWR};

// tidy: long because it is a table of flows.
pub(super) fn applications() -> Vec<Scene> {
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
        // As many bytes in fewer segments, and as small ones at a harmless rate.
        scene("records, joined", "app-limited", joined, plain),
        scene("telemetry", "app-limited", telemetry, |s, _| {
            s.nodelay = Some(true);
        }),
    ]
}
