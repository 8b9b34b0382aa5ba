//! Results of a program, from the kernel's view of its connections.

mod offered;
mod others;
mod stalls;
mod transfers;

pub use others::{Counters, Others};

use std::time::Duration;

use base::{FlowSample, HostSample, Rate};
use doctor::{Objective, Recording, Track};
use lab::Measure;

/// No arrival for less than this, or than this many round trips, is not a pause of the program.
const PAUSE_MIN: Duration = Duration::from_millis(200);
const PAUSE_RTTS: u32 = 2;

/// Results of the `wanted` connections: payload is that of the direction that carried more, as in
/// the doctor's rows and in predictions. Durations of the program's operations are unknown to the
/// kernel; payload per time with data in flight replaces them.
pub fn measure_of(recording: &Recording, wanted: impl Fn(&Track) -> bool) -> Measure {
    let time = recording.ended.since(recording.began);
    let flows = Flows::of(recording, wanted);
    let main = flows.main();
    let mut srtts: Vec<Duration> = flows
        .tracks
        .iter()
        .flat_map(|track| track.samples.iter())
        .filter_map(|sample| sample.srtt)
        .collect();
    srtts.sort_unstable();
    let measure = Measure {
        duration_s: time.as_secs_f64(),
        goodput_bps: rate(main.bytes, time),
        busy_goodput_bps: (!main.time.is_zero()).then(|| rate(main.bytes, main.time)),
        srtt_us: srtts.get(srtts.len() / 2).map(|srtt| micros(*srtt)),
        local_drops_pkts: local_drops(&recording.hosts),
        ..Measure::default()
    };
    flows.completed(measure)
}

/// `measure`, which the programs of a workload made of themselves, with what only the connections
/// show: times of transfers, stalls, and the load that was offered.
#[must_use]
pub fn completed(
    measure: Measure,
    recording: &Recording,
    wanted: impl Fn(&Track) -> bool,
) -> Measure {
    Flows::of(recording, wanted).completed(measure)
}

/// Measurable substitute of `objective`: response times are known to the program only; stalled
/// time, and the time that data takes to leave, show in samples.
pub(crate) fn measurable(objective: Objective, measure: &Measure) -> Objective {
    let instead: &[Objective] = match objective {
        Objective::Tail => &[Objective::Tail, Objective::Stalls],
        _ => &[objective],
    };
    let mut known = instead.iter();
    let found = known.find(|objective| measure.value(**objective).is_some());
    found.copied().unwrap_or(Objective::Goodput)
}

/// The connections that are asked about, and what they carried.
struct Flows<'r> {
    tracks: Vec<&'r Track>,
    /// When those were looked at first that were open at the beginning.
    first_look: Option<base::Instant>,
    sent: Carried,
    received: Carried,
}

impl<'r> Flows<'r> {
    fn of(recording: &'r Recording, wanted: impl Fn(&Track) -> bool) -> Self {
        let mut flows = Self {
            first_look: recording.first_look(),
            tracks: recording
                .flows
                .iter()
                .filter(|track| wanted(track))
                .collect(),
            sent: Carried::default(),
            received: Carried::default(),
        };
        for track in &flows.tracks {
            let was_open = flows.was_open(track);
            flows.sent.add(Carried::sent(track, was_open));
            flows.received.add(Carried::received(track, was_open));
        }
        flows
    }

    /// Whether a connection was there when the recording began.
    fn was_open(&self, track: &Track) -> bool {
        track.was_open_at(self.first_look)
    }

    /// Whether more came than went.
    const fn is_download(&self) -> bool {
        self.received.bytes > self.sent.bytes
    }

    /// The direction that carried more.
    const fn main(&self) -> Carried {
        if self.is_download() {
            self.received
        } else {
            self.sent
        }
    }

    fn completed(&self, measure: Measure) -> Measure {
        Measure {
            transfer_us: transfers::median(self).map(micros),
            stalled_share: stalls::share(self),
            offered: offered::load(self),
            ..measure
        }
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
        let busy = |sample: &FlowSample| sample.busy_time.map(nanos);
        Self {
            bytes: counted(track, was_open, |sample| sample.bytes_acked),
            time: Duration::from_nanos(counted(track, was_open, busy)),
        }
    }

    /// For a receiver, the time between arrivals counts, except pauses: between the trains of a
    /// small window nothing arrives either.
    fn received(track: &Track, was_open: bool) -> Self {
        let mut carried = Self::default();
        let mut before: Option<(base::Instant, u64)> = None;
        let mut arrived: Option<base::Instant> = None;
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
                let train = PAUSE_MIN.max(sample.srtt.unwrap_or_default() * PAUSE_RTTS);
                let last = arrived.filter(|last| sample.at.since(*last) <= train);
                carried.time += sample.at.since(last.unwrap_or(since));
                arrived = Some(sample.at);
            }
            before = Some((sample.at, bytes));
        }
        carried
    }
}

/// How much a counter rose while it was watched.
pub(crate) fn counted(
    track: &Track,
    was_open: bool,
    read: impl Fn(&FlowSample) -> Option<u64>,
) -> u64 {
    let of = |sample: Option<&FlowSample>| sample.and_then(&read).unwrap_or(0);
    let before = match was_open {
        true => of(track.samples.first()),
        // A connection opened meanwhile has counted everything since.
        false => 0,
    };
    of(track.samples.last()).saturating_sub(before)
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

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use base::{FlowKey, Instant};

    use super::*;

    /// A connection that was opened and closed between two samples only shows its last counters.
    #[test]
    fn what_was_seen_once_has_no_load_per_second() {
        let key = FlowKey {
            local: ([10, 0, 0, 1], 40_000).into(),
            remote: ([10, 0, 0, 2], 443).into(),
        };
        let track = |cookie: u64, seen: Duration| {
            let mut sample = FlowSample::empty(Instant::ZERO + seen, key);
            (sample.bytes_acked, sample.notsent_bytes) = (Some(10_000), Some(0));
            Track {
                key,
                cookie,
                owners: Vec::new(),
                samples: [Arc::new(sample)].into_iter().collect(),
                ended: true,
                interface: None,
                options_error: None,
            }
        };
        let recording = Recording {
            // What the first of them carried it may have carried before.
            flows: vec![
                track(1, Duration::ZERO),
                track(2, Duration::from_millis(500)),
            ],
            began: Instant::ZERO,
            ended: Instant::ZERO + Duration::from_secs(1),
            ..Recording::default()
        };
        let measure = measure_of(&recording, |_| true);
        assert_eq!(measure.goodput_bps, 80_000);
        assert_eq!(measure.offered, None);
    }

    /// A transfer that is always busy offers all that it can, and a control connection beside it
    /// which is idle, or says a little, does not change that.
    #[test]
    fn an_idle_connection_beside_a_busy_one_is_no_pause() {
        let track = |number: u16, step: u64, busy_share: f64, waiting: u32| {
            let key = FlowKey {
                local: ([10, 0, 0, 1], 40_000 + number).into(),
                remote: ([10, 0, 0, 2], 5201).into(),
            };
            let samples = (0..=10_u64).map(|look| {
                let time = Duration::from_millis(100 * look);
                let mut sample = FlowSample::empty(Instant::ZERO + time, key);
                sample.bytes_acked = Some(step * look);
                sample.busy_time = Some(time.mul_f64(busy_share));
                sample.notsent_bytes = Some(waiting);
                sample.snd_mss_bytes = Some(1448);
                Arc::new(sample)
            });
            Track {
                key,
                cookie: number.into(),
                owners: Vec::new(),
                samples: samples.collect(),
                ended: false,
                interface: None,
                options_error: None,
            }
        };
        let offered = |flows: Vec<Track>| {
            let recording = Recording {
                flows,
                began: Instant::ZERO,
                ended: Instant::ZERO + Duration::from_secs(1),
                ..Recording::default()
            };
            measure_of(&recording, |_| true).offered
        };
        let busy = || track(1, 50_000, 1.0, 1_000_000);
        assert_eq!(offered(vec![busy()]), None);
        assert_eq!(offered(vec![busy(), track(2, 0, 0.0, 0)]), None);
        assert_eq!(offered(vec![busy(), track(2, 30, 0.1, 0)]), None);
        // One that pauses by itself has a load of its own, whatever is idle beside it.
        let paced = || track(3, 50_000, 0.3, 0);
        let load = Some(lab::Offered::PerSecond(500_000.0));
        assert_eq!(offered(vec![paced()]), load);
        assert_eq!(offered(vec![paced(), track(2, 0, 0.0, 0)]), load);
    }

    /// A window that is taken in once a round trip arrives in trains, whatever looks find of them.
    #[test]
    fn a_receiver_is_busy_between_the_trains_of_a_window() {
        let key = FlowKey {
            local: ([10, 0, 0, 1], 40_000).into(),
            remote: ([10, 0, 0, 2], 443).into(),
        };
        let busy = |looks_ms: u64| {
            let samples = (0..1000 / looks_ms).map(|look| {
                let ms = look * looks_ms;
                let mut sample = FlowSample::empty(Instant::ZERO + Duration::from_millis(ms), key);
                // 25 kB at once each 50 ms.
                sample.bytes_received = Some(25_000 * (ms / 50));
                sample.srtt = Some(Duration::from_millis(50));
                Arc::new(sample)
            });
            let track = Track {
                key,
                cookie: 1,
                owners: Vec::new(),
                samples: samples.collect(),
                ended: false,
                interface: None,
                options_error: None,
            };
            let carried = Carried::received(&track, true);
            rate(carried.bytes, carried.time)
        };
        for looks_ms in [5, 10, 50] {
            let bps = busy(looks_ms);
            assert!(
                (3_900_000..4_200_000).contains(&bps),
                "{bps}, a look each {looks_ms} ms"
            );
        }
    }

    /// The kernel tells of one socket after the other, so that no two samples have the same time;
    /// what a connection carried before it was watched is none of this.
    #[test]
    fn what_several_connections_carried_is_counted_from_the_first_look_on() {
        let track = |number: u16, opened: Duration| {
            let key = FlowKey {
                local: ([10, 0, 0, 1], 40_000 + number).into(),
                remote: ([10, 0, 0, 2], 443).into(),
            };
            let past = match opened.is_zero() {
                true => 1_000_000_000,
                false => 0,
            };
            let samples = (0..=10_u64).map(|look| {
                let lag = Duration::from_micros(5) * u32::from(number);
                let time = Duration::from_millis(100) * look as u32;
                let mut sample = FlowSample::empty(Instant::ZERO + opened + time + lag, key);
                sample.bytes_acked = Some(past + look * 12_500);
                sample.busy_time = Some(Duration::from_secs(past / 1_000_000) + time);
                Arc::new(sample)
            });
            Track {
                key,
                cookie: number.into(),
                owners: Vec::new(),
                samples: samples.collect(),
                ended: false,
                interface: None,
                options_error: None,
            }
        };
        let half = Duration::from_millis(500);
        let mut flows: Vec<Track> = (1..4).map(|number| track(number, Duration::ZERO)).collect();
        flows.push(track(4, half));
        let recording = Recording {
            flows,
            began: Instant::ZERO,
            ended: Instant::ZERO + Duration::from_secs(1),
            ..Recording::default()
        };
        let measure = measure_of(&recording, |_| true);
        // Four times a megabit, each in a second of its own.
        assert_eq!(measure.goodput_bps, 4_000_000);
        assert_eq!(measure.busy_goodput_bps, Some(1_000_000));
    }
}
