//! Invariants of every capture.

use core::time::Duration;

use capture::{Analysis, DirectionSummary, FlowSummary, Settings};
use doctor::{Cases, Report, Timeline, Track};

/// Few connections, so that scripts reach the bounds.
pub(crate) const SETTINGS: Settings = Settings {
    interval: Duration::from_millis(10),
    open_max: 6,
    judged_max: 4,
    hash_keys: [0x51_7c_c1_b7, 0x27_22_0a_95],
    lists_flows: true,
    traced_max: 2,
};
/// Looks that are kept of an end at most, with those that waited for two packets.
const LOOKS_MAX: usize = 1024 + 2 * 64 + 1;
/// ... and what they take, where each is kept whole.
const LOOKS_BYTES_MAX: usize = 320 << 10;

/// Ends the analysis and asks the doctor.
pub(crate) fn check(mut analysis: Analysis) {
    analysis.end();
    let mut flows = 0;
    while let Some(flow) = analysis.poll_flow() {
        check_flow(&flow);
        flows += 1;
    }
    assert!(analysis.traces().len() <= SETTINGS.traced_max);
    let (recording, summary) = analysis.finish();
    assert_eq!(summary.connections, flows);
    assert!(summary.connections_left_out + SETTINGS.judged_max as u64 >= flows);
    assert!(summary.evicted_connections <= flows);
    let told = summary.tcp_packets + summary.other_packets + summary.fragments;
    assert_eq!(told + summary.unreadable_packets, summary.packets);
    assert!(recording.flows.len() <= 2 * SETTINGS.judged_max);
    for track in &recording.flows {
        check_track(track);
    }
    for case in Cases::of(&recording).select(|_| true) {
        check_report(&case.diagnose());
    }
}

fn check_flow(flow: &FlowSummary) {
    for direction in [&flow.forward, &flow.reverse] {
        check_direction(direction, flow.duration_us);
    }
    assert!(flow.forward.payload_bytes >= flow.reverse.payload_bytes.saturating_sub(1));
}

fn check_direction(direction: &DirectionSummary, duration_us: u64) {
    let kinds = direction.fast_retransmissions + direction.timeouts + direction.tail_probes;
    assert!(kinds <= direction.retransmissions, "{direction:?}");
    assert!(direction.mss_bytes > 0);
    assert!(direction.window_scale.is_none_or(|scale| scale <= 14));
    // Each is cut to whole microseconds.
    let least = direction.min_rtt_us.unwrap_or(0);
    assert!(direction.srtt_us.is_none_or(|srtt| least <= srtt + 1));
    let waited = &direction.waited_us;
    let waits = [
        waited.application,
        waited.nagle,
        waited.peer_window,
        waited.congestion,
        waited.cork,
    ];
    assert!(waits.iter().sum::<u64>() <= duration_us, "{direction:?}");
}

fn check_track(track: &Track) {
    let looks = track.samples.len();
    assert!((1..=LOOKS_MAX).contains(&looks), "{looks} looks");
    let bytes = track.samples.memory_bytes();
    assert!(bytes <= LOOKS_BYTES_MAX, "{bytes} bytes of looks");
    let mut timeline = Timeline::new();
    let mut before = None;
    for sample in &track.samples {
        assert!(before.is_none_or(|before| before <= sample.at));
        before = Some(sample.at);
        assert!(sample.looks > 0);
        timeline.push(sample);
    }
    assert_eq!(timeline.went_backwards(), None, "{:?}", track.samples);
}

fn check_report(report: &Report) {
    assert_ne!(report.verdicts.is_empty(), report.unknown.is_none());
    for verdict in &report.verdicts {
        let share = verdict.share;
        let id = verdict.diagnosis.id;
        assert!((0.0..=1.0).contains(&share), "{id}: {share}");
        assert!(verdict.held.is_none_or(|(first, last)| first <= last));
    }
}
