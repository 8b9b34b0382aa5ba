//! Arrival patterns of data: how densely where it comes in trains, and how unevenly within a round
//! trip. The slowest link of a path spaces packets out, so that a train shows its rate although
//! pauses follow.

use std::time::Duration;

use doctor::Track;
use lab::{Arrival, SAMPLE_INTERVAL};

use super::observables::{SAMPLES_MIN, percentile};
use crate::arrivals::{Arrivals, LOOK_INTERVAL};
use crate::subject::Look;

/// The times over which the densest train is searched, in seconds, the shortest first.
const CREST_TIMES: [f64; 9] = [
    0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256,
];
/// The rate of the densest train is reached in this share of the time: more is chance, such as of
/// packets that a host had merged.
const CREST_SHARE: f64 = 0.02;
/// The link's rate is taken to be reached where the rates at these shares of the time differ by no
/// more than this factor, and those over twice the time fall short by no more than the other: data
/// sent in trains arrives as fast as the slowest link allows.
const PLATEAU_SHARES: [f64; 2] = [0.02, 0.05];
const PLATEAU_FACTOR: f64 = 1.055;
const PLATEAU_LONGER: f64 = 0.92;
/// By how many segments the rate of a train is overestimated: the densest of all trains arrived a
/// little too densely by chance.
const TRAIN_EXCESS_SEGMENTS: f64 = 0.6;
/// The rate over twice the time is that of the same train where it falls short by no more.
const TRAIN_LONGER: f64 = 0.9;
/// A train is seen over this share of the packets in flight at most: over more, a pause is too.
const TRAIN_SHARE: f64 = 0.5;
/// Least segments of a train.
const CREST_SEGMENTS_MIN: f64 = 6.0;
/// The same of segments that are acknowledged, two at a time or more.
const CREST_ACKED_MIN: f64 = 12.0;
/// A receiver whose segments hold this much of what arrived counts each of them.
const COUNTED_SHARE: f64 = 0.9;
/// Least pairs of samples.
const CREST_PAIRS_MIN: usize = 40;
/// Samples of a twin are no farther apart.
const INTERVAL_MAX: Duration = Duration::from_millis(50);
/// Evenness is judged within this many round trips, and at least this time in seconds: over more,
/// the rate itself may change.
const SWING_RTTS: f64 = 8.0;
const SWING_TIME_MIN: f64 = 0.25;
/// Shortest round trip within which samples show arrivals.
const SWING_RTT_MIN: f64 = 0.003;

/// The highest arrival rate, over the shortest time that holds a train of packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DensestTrain {
    /// Payload per second, in bit/s.
    pub bps: f64,
    /// Over which time, in seconds.
    pub time: f64,
    /// Full segments that arrive in it.
    pub segments: f64,
    /// Reached repeatedly, and never exceeded by much.
    pub is_plateau: bool,
}

impl DensestTrain {
    /// The rate of the train itself, in bit/s.
    pub(super) fn rate(&self) -> f64 {
        self.bps / (1.0 + TRAIN_EXCESS_SEGMENTS / self.segments)
    }
}

/// Arrivals over time, at the receiver where it was observed: seconds since the first sample, and
/// bytes.
pub(super) fn arrivals(
    close: &[Arrivals],
    (sender, receiver): (Option<&Track>, Option<&Track>),
    (is_lossy, mss): (bool, f64),
) -> Vec<(f64, f64)> {
    let points = |track: &Track, read: fn(&Arrival) -> u64| {
        let closely = close.iter().find(|arrivals| arrivals.key == track.key);
        match closely {
            Some(closely) => points(&closely.points, read),
            None => points(&Arrivals::of(track).points, read),
        }
    };
    // What arrives behind a loss is read all at once when the gap is filled.
    match (receiver, sender) {
        (Some(receiver), _) => {
            let received = points(receiver, |point| point.received);
            let segments = points(receiver, |point| point.segments).into_iter();
            let segments: Vec<_> = segments.map(|(at, count)| (at, count * mss)).collect();
            let all = |points: &[(f64, f64)]| points.last().map_or(0.0, |(_, bytes)| *bytes);
            // Merged packets may be counted as one.
            let are_counted = all(&segments) > COUNTED_SHARE * all(&received);
            if is_lossy && are_counted {
                segments
            } else {
                received
            }
        }
        (None, Some(sender)) if is_lossy => points(sender, |point| point.delivered),
        (None, Some(sender)) => points(sender, |point| point.acked),
        (None, None) => Vec::new(),
    }
}

/// See [`Observables::swing`].
pub(super) fn swing(points: &[(f64, f64)], rtt: Option<f64>) -> Option<f64> {
    let rtt = rtt.filter(|rtt| *rtt >= SWING_RTT_MIN)?;
    let window = (rtt * SWING_RTTS).max(SWING_TIME_MIN);
    let (mut offs, mut rates) = (Vec::new(), Vec::new());
    let mut rest = points;
    while let Some((began, _)) = rest.first() {
        let end = rest.partition_point(|(at, _)| *at < began + window);
        let (these, later) = rest.split_at(end);
        if these.len() >= SAMPLES_MIN {
            let (slope, off) = about_a_line(these);
            rates.push(slope);
            offs.extend(off);
        }
        rest = later;
    }
    let per_rtt = rates.iter().sum::<f64>() / rates.len() as f64 * rtt;
    let range = percentile(offs.clone(), 0.97)? - percentile(offs, 0.03)?;
    (per_rtt > 0.0).then(|| range / per_rtt)
}

/// A counter over time, in seconds since its first value.
fn points(arrivals: &[Arrival], read: fn(&Arrival) -> u64) -> Vec<(f64, f64)> {
    let Some(first) = arrivals.first() else {
        return Vec::new();
    };
    let since = |point: &Arrival| {
        let time = point.at.since(first.at).as_secs_f64();
        (time, read(point).saturating_sub(read(first)) as f64)
    };
    arrivals.iter().map(since).collect()
}

/// The slope of the line through the points that is nearest to them, and how far each is off.
fn about_a_line(points: &[(f64, f64)]) -> (f64, Vec<f64>) {
    let count = points.len() as f64;
    let mean_at = points.iter().map(|(at, _)| at).sum::<f64>() / count;
    let mean = points.iter().map(|(_, value)| value).sum::<f64>() / count;
    let along: f64 = points
        .iter()
        .map(|(at, value)| (at - mean_at) * (value - mean))
        .sum();
    let spread: f64 = points.iter().map(|(at, _)| (at - mean_at).powi(2)).sum();
    let slope = if spread > 0.0 { along / spread } else { 0.0 };
    let off = |(at, value): &(f64, f64)| value - mean - slope * (at - mean_at);
    (slope, points.iter().map(off).collect())
}

/// See [`Observables::crest`].
pub(super) fn crest(points: &[(f64, f64)], mss: f64, is_received: bool) -> Option<DensestTrain> {
    let least = match is_received {
        true => CREST_SEGMENTS_MIN,
        false => CREST_ACKED_MIN,
    };
    CREST_TIMES.into_iter().find_map(|time| {
        let rates = rates_over(points, time);
        let bps = reached(&rates, CREST_SHARE)?;
        let segments = bps / 8.0 * time / mss;
        let [most, less] = PLATEAU_SHARES.map(|share| reached(&rates, share));
        let longer = reached(&rates_over(points, 2.0 * time), CREST_SHARE);
        (segments >= least).then_some(DensestTrain {
            bps,
            time,
            segments,
            is_plateau: most? <= PLATEAU_FACTOR * less?
                && longer.is_some_and(|longer| longer >= PLATEAU_LONGER * bps),
        })
    })
}

/// `crest` over the longest time in which trains last, where fewer segments that come by chance a
/// little too densely make it too high. `window`: segments in flight.
pub(super) fn train(
    points: &[(f64, f64)],
    crest: DensestTrain,
    window: f64,
    mss: f64,
) -> DensestTrain {
    let longer = CREST_TIMES.into_iter().filter(|time| *time > crest.time);
    let mut train = crest;
    for time in longer {
        let Some(bps) = reached(&rates_over(points, time), CREST_SHARE) else {
            break;
        };
        let segments = bps / 8.0 * time / mss;
        if segments > TRAIN_SHARE * window || bps < TRAIN_LONGER * train.bps {
            break;
        }
        train = DensestTrain {
            bps,
            time,
            segments,
            ..train
        };
    }
    train
}

/// Rate reached in this share of the time.
fn reached(rates: &[f64], share: f64) -> Option<f64> {
    let place = (rates.len() as f64 * share) as usize;
    rates
        .get(place)
        .copied()
        .filter(|_| rates.len() >= CREST_PAIRS_MIN)
}

/// The rates between any sample and the next one that is at least this much later, in bit/s; the
/// largest first.
fn rates_over(points: &[(f64, f64)], time: f64) -> Vec<f64> {
    let mut later = points.iter().peekable();
    let rate = |(at, had): &(f64, f64)| {
        while later.next_if(|(then, _)| *then < at + time).is_some() {}
        let (then, has) = later.peek()?;
        let passed = then - at;
        (passed < 2.0 * time).then(|| (has - had) * 8.0 / passed)
    };
    let mut rates: Vec<f64> = points.iter().filter_map(rate).collect();
    rates.sort_unstable_by(|a, b| b.total_cmp(a));
    rates
}

/// Mean distance of looks at what arrives.
pub(super) fn interval(look: &Look, track: &Track) -> Duration {
    let closely = look.close.iter().any(|arrivals| arrivals.key == track.key);
    let ends = track.samples.first().zip(track.samples.last());
    let span = ends.map_or(Duration::ZERO, |(first, last)| last.at.since(first.at));
    let count = u32::try_from(track.samples.len()).unwrap_or(u32::MAX);
    match closely {
        true => LOOK_INTERVAL,
        false => (span / count.max(1)).clamp(SAMPLE_INTERVAL, INTERVAL_MAX),
    }
}
