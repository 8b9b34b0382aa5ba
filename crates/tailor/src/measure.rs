//! What a program gets out of its connections, from what the kernel shows of them.

use std::time::Duration;

use base::{FlowSample, HostSample, Rate};
use doctor::{Recording, Track};
use lab::Measure;

/// What the connections that are `wanted` carried. How long the program's operations took, the
/// kernel does not know; in its place stands the payload per time in which some was on its way.
pub fn measure_of(recording: &Recording, wanted: impl Fn(&Track) -> bool) -> Measure {
    let time = recording.ended.since(recording.began);
    let first_look = recording
        .flows
        .iter()
        .filter_map(|track| Some(track.samples.first()?.at))
        .min();
    let mut sent = Carried::default();
    let mut received = Carried::default();
    let mut srtts: Vec<Duration> = Vec::new();
    for track in recording.flows.iter().filter(|track| wanted(track)) {
        let was_open = track.samples.first().map(|first| first.at) == first_look;
        sent.add(Carried::sent(track, was_open));
        received.add(Carried::received(track, was_open));
        srtts.extend(track.samples.iter().filter_map(|sample| sample.srtt));
    }
    srtts.sort_unstable();
    let main = if received.bytes > sent.bytes {
        received
    } else {
        sent
    };
    Measure {
        duration_s: time.as_secs_f64(),
        goodput_bps: rate(sent.bytes + received.bytes, time),
        busy_goodput_bps: (!main.time.is_zero()).then(|| rate(main.bytes, main.time)),
        srtt_us: srtts
            .get(srtts.len() / 2)
            .map(|srtt| u64::try_from(srtt.as_micros()).unwrap_or(u64::MAX)),
        local_drops_pkts: local_drops(&recording.hosts),
        ..Measure::default()
    }
}

/// Payload in one direction, and the time in which some was on its way.
#[derive(Clone, Copy, Debug, Default)]
struct Carried {
    bytes: u64,
    time: Duration,
}

impl Carried {
    fn add(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.time += other.time;
    }

    /// The kernel counts how long something was sent and not acknowledged (`tcp_chrono_start`).
    fn sent(track: &Track, was_open: bool) -> Self {
        let ends = || Some((track.samples.first()?, track.samples.last()?));
        let Some((first, last)) = ends() else {
            return Self::default();
        };
        let bytes = |sample: &FlowSample| sample.bytes_acked.unwrap_or(0);
        let busy = |sample: &FlowSample| sample.busy_time.unwrap_or_default();
        let (bytes_before, busy_before) = match was_open {
            true => (bytes(first), busy(first)),
            // Whatever it carries it has carried since.
            false => (0, Duration::ZERO),
        };
        Self {
            bytes: bytes(last).saturating_sub(bytes_before),
            time: busy(last).saturating_sub(busy_before),
        }
    }

    /// Of a receiver the intervals between looks count in which something arrived.
    fn received(track: &Track, was_open: bool) -> Self {
        let mut carried = Self::default();
        let mut before: Option<(base::Instant, u64)> = None;
        for sample in track.samples.iter() {
            let Some(bytes) = sample.bytes_received else {
                continue;
            };
            let (since, had) = match before {
                Some(before) => before,
                None if was_open => (sample.at, bytes),
                None => (sample.at, 0),
            };
            if bytes > had {
                carried.bytes += bytes - had;
                carried.time += sample.at.since(since);
            }
            before = Some((sample.at, bytes));
        }
        carried
    }
}

/// Packets that any interface of the host dropped on the way out.
fn local_drops(hosts: &[HostSample]) -> u64 {
    let dropped = |host: &HostSample| {
        let of_link = |link: &base::LinkSample| {
            let queued: u64 = link.qdiscs.iter().map(|queue| queue.dropped_pkts).sum();
            link.tx_dropped_pkts.max(queued)
        };
        host.links.iter().map(of_link).sum::<u64>()
    };
    let [first, last] = [hosts.first(), hosts.last()].map(|host| host.map_or(0, dropped));
    last.saturating_sub(first)
}

fn rate(bytes: u64, time: Duration) -> u64 {
    Rate::of(bytes, time).bits_per_second()
}
