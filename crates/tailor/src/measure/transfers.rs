//! Duration of transfers: blocks between two pauses, and short connections.

use std::sync::Arc;
use std::time::Duration;

use base::{FlowSample, Instant};
use doctor::Track;

use super::Flows;
use super::stalls::has_data;

/// A shorter pause does not separate transfers, nor does a retransmission timeout.
const GAP_MIN: Duration = Duration::from_millis(200);

/// Median time of the transfers that began and ended while they were watched; `None` where there
/// was none.
pub(super) fn median(flows: &Flows<'_>) -> Option<Duration> {
    let mut times: Vec<Duration> = flows
        .tracks
        .iter()
        .flat_map(|track| transfers(track, flows.was_open(track), flows.is_download()))
        .collect();
    times.sort_unstable();
    times.get(times.len() / 2).copied()
}

/// One transfer that goes on.
struct Transfer {
    /// `None` if its start was not seen.
    begin: Option<Instant>,
    end: Instant,
}

fn transfers(track: &Track, was_open: bool, is_download: bool) -> Vec<Duration> {
    let mut times = Vec::new();
    let mut current: Option<Transfer> = None;
    let mut before: Option<Arc<FlowSample>> = None;
    for sample in track.samples.iter() {
        let gap = sample.rto.unwrap_or_default().max(GAP_MIN);
        if let Some(ended) = current.take_if(|transfer| sample.at.since(transfer.end) > gap) {
            times.extend(ended.begin.map(|begin| ended.end.since(begin)));
        }
        let is_active = match (is_download, &before) {
            (true, Some(before)) => sample.bytes_received > before.bytes_received,
            (true, None) => !was_open,
            (false, _) => has_data(&sample),
        };
        if is_active {
            let seen = before.as_ref().map(|before| before.at);
            match &mut current {
                Some(transfer) => transfer.end = sample.at,
                None => {
                    let begin = seen.or((!was_open).then_some(sample.at));
                    current = Some(Transfer {
                        begin,
                        end: sample.at,
                    });
                }
            }
        } else if let Some(transfer) = current.as_mut().filter(|_| !is_download) {
            // The last ACK came between the two looks.
            if before.as_deref().is_some_and(has_data) {
                transfer.end = sample.at;
            }
        }
        before = Some(sample);
    }
    if let Some(last) = current.filter(|_| track.ended) {
        times.extend(last.begin.map(|begin| last.end.since(begin)));
    }
    times
}

#[cfg(test)]
mod tests {
    use base::FlowKey;

    use super::*;

    /// A page of four round trips of 100 ms, of a server that has closed before the last one.
    #[test]
    fn the_last_round_trip_of_a_page_is_seen_where_the_kernel_tells_of_its_end() {
        let key = FlowKey {
            local: ([10, 0, 0, 1], 80).into(),
            remote: ([10, 0, 0, 2], 40_000).into(),
        };
        let look = |(ms, unacked): (u64, u32)| {
            let at = Instant::ZERO + Duration::from_millis(ms);
            let mut sample = FlowSample::empty(at, key);
            sample.unacked_pkts = Some(unacked);
            sample.notsent_bytes = Some(0);
            Arc::new(sample)
        };
        let looks = [(5, 10), (105, 20), (205, 40), (305, 22), (405, 0)];
        let track = Track {
            key,
            cookie: 1,
            owners: Vec::new(),
            samples: looks.into_iter().map(look).collect(),
            ended: true,
            interface: None,
            options_error: None,
        };
        assert_eq!(
            transfers(&track, false, false),
            [Duration::from_millis(400)]
        );
    }
}
