//! Time for which connections had data to deliver while nothing moved.

use std::time::Duration;

use base::{FlowSample, Instant};

use super::Flows;

/// A shorter silence is not a stall: a delayed ACK takes up to 200 ms on some hosts, and no
/// retransmission timeout of Linux is shorter (`TCP_RTO_MIN`).
const STALL_MIN: Duration = Duration::from_millis(200);
/// ... and this many round trips may pass.
const STALL_RTTS: u32 = 2;

/// Share of the time with data to deliver in which it was stalled; `None` without such a time.
pub(super) fn share(flows: &Flows<'_>) -> Option<f64> {
    let (mut waited, mut stalled) = (Duration::ZERO, Duration::ZERO);
    for track in &flows.tracks {
        // Since when nothing has moved, and what had been acknowledged then.
        let mut still: Option<(Instant, Option<u64>)> = None;
        let mut before: Option<Instant> = None;
        for sample in track.samples.iter() {
            let waits = has_data(&sample);
            if let (Some(before), true) = (before, waits) {
                waited += sample.at.since(before);
            }
            before = waits.then_some(sample.at);
            match still {
                Some((_, acked)) if waits && acked == sample.bytes_acked => {}
                _ => {
                    stalled += still.map_or(Duration::ZERO, |(since, _)| stall(since, &sample));
                    still = waits.then_some((sample.at, sample.bytes_acked));
                }
            }
        }
        if let (Some((since, _)), Some(last)) = (still, track.samples.last()) {
            stalled += stall(since, last);
        }
    }
    (!waited.is_zero()).then(|| (stalled.as_secs_f64() / waited.as_secs_f64()).min(1.0))
}

/// The time since then, where that is longer than a round trip explains.
fn stall(since: Instant, sample: &FlowSample) -> Duration {
    let time = sample.at.since(since);
    let least = STALL_MIN.max(sample.srtt.unwrap_or_default() * STALL_RTTS);
    if time > least { time } else { Duration::ZERO }
}

pub(super) fn has_data(sample: &FlowSample) -> bool {
    [sample.unacked_pkts, sample.notsent_bytes]
        .into_iter()
        .any(|waiting| waiting.is_some_and(|waiting| waiting > 0))
}
