//! Course of a row's connections: rate, round-trip time and bytes in flight at even distances, and
//! which limits held between, from the samples that the answer is made from.

use std::collections::BTreeMap;

use base::{FlowKey, FlowSample, Instant, Limit, Netns};
use doctor::{Recording, Shares, Timeline, Track};
use lab::Point;
use page::{Curve, LimitShares, Series};
use tailor::{Answered, Look};

use crate::commands::diagnose::document::{Direction, Document, FlowRow};
use crate::commands::diagnose::{screen, seen};

/// Rows that have plots.
const PLOTS_MAX: usize = 20;
/// Connections of a row that are summed up.
const CONNECTIONS_MAX: usize = 64;
/// Points of a plot.
const POINTS: std::ops::RangeInclusive<usize> = 10..=120;
/// Samples between two points, about: of fewer a rate is an accident.
const SAMPLES_PER_POINT: usize = 4;
/// The window of the receiver is drawn where it limits for this share of the time.
const WINDOW_SHARE: f64 = 0.05;
/// Limits, and the time of which nothing can be said.
const CAUSES: usize = Limit::ALL.len() + 1;

/// How one row went.
#[derive(Clone, Debug)]
pub(super) struct Course {
    series: Series,
    /// When its plot begins, in seconds after the recording did.
    pub(super) begins_s: f64,
    /// Connections that are summed up in it.
    pub(super) connections: usize,
}

/// How the most important rows of an answer went, by the connection that stands for each.
#[derive(Debug, Default)]
pub(crate) struct Courses {
    of: BTreeMap<(Netns, u64, FlowKey), Course>,
}

impl Course {
    /// Its plot.
    pub(super) fn series(&self, title: String) -> Series {
        Series {
            title,
            ..self.series.clone()
        }
    }
}

impl Courses {
    /// Courses of the rows on the page.
    pub(crate) fn of(
        document: &Document,
        recording: &Recording,
        answers: &[Answered<'_, '_>],
    ) -> Self {
        let by_key: BTreeMap<(u64, FlowKey), &Answered<'_, '_>> = answers
            .iter()
            .map(|answered| {
                let track = answered.case.track();
                ((track.cookie, track.key), answered)
            })
            .collect();
        let mut of = BTreeMap::new();
        for row in screen::rows_to_show(document, 0).0.iter().take(PLOTS_MAX) {
            let answers = row.flows().iter().filter_map(|flow| {
                let key = (flow.cookie, key_of(flow));
                by_key.get(&key).copied()
            });
            let tracks = answers.flat_map(|answered| answered.case.tracks());
            let tracks: Vec<&Track> = tracks.take(CONNECTIONS_MAX).collect();
            if let Some(course) = course(&tracks, row.first().direction, recording.began) {
                of.insert(place_of(row.first()), course);
            }
        }
        Self { of }
    }

    /// Adds those of another namespace.
    pub(crate) fn add(&mut self, other: Self) {
        self.of.extend(other.of);
    }

    /// Course of the row that represents this connection.
    pub(super) fn find(&self, flow: &FlowRow) -> Option<&Course> {
        self.of.get(&place_of(flow))
    }
}

/// How the connection with the most important answer went in a look.
pub(crate) fn main_series(look: &Look, wants: &dyn Fn(&Track) -> bool) -> Option<Series> {
    look.observed(|observed| {
        let answers = observed.answers(wants);
        let first = answers.first()?;
        let row = seen::row(observed, first);
        let tracks: Vec<&Track> = first.case.tracks().take(CONNECTIONS_MAX).collect();
        let course = course(&tracks, row.direction, observed.began())?;
        Some(course.series(format!("{} to {}", row.local, row.remote)))
    })
}

fn place_of(flow: &FlowRow) -> (Netns, u64, FlowKey) {
    (flow.netns.clone(), flow.cookie, key_of(flow))
}

const fn key_of(flow: &FlowRow) -> FlowKey {
    FlowKey {
        local: flow.local,
        remote: flow.remote,
    }
}

/// The time of a plot, cut into equal parts.
#[derive(Clone, Copy, Debug)]
struct Grid {
    begin: Instant,
    part_s: f64,
    parts: usize,
}

/// Sums over connections in one part of the time.
#[derive(Clone, Debug, Default)]
struct Part {
    bytes: f64,
    rtt_us: Vec<f64>,
    cwnd: Option<f64>,
    in_flight: Option<f64>,
    window: Option<f64>,
    retransmitted: Option<f64>,
    times: [f64; CAUSES],
}

/// `None` where too little was seen.
fn course(tracks: &[&Track], direction: Direction, began: Instant) -> Option<Course> {
    let timelines: Vec<Timeline> = tracks.iter().map(|track| timeline(track)).collect();
    let times = || timelines.iter().flat_map(Timeline::samples).map(|s| s.at);
    let (first, last) = (times().min()?, times().max()?);
    let span = last.since(first).as_secs_f64();
    let samples = timelines.iter().map(|timeline| timeline.samples().len());
    let parts = samples.max()? / SAMPLES_PER_POINT;
    let parts = parts.clamp(*POINTS.start(), *POINTS.end());
    if span <= 0.0 {
        return None;
    }
    let grid = Grid {
        begin: first,
        part_s: span / parts as f64,
        parts,
    };
    let mut summed = vec![Part::default(); parts];
    for timeline in &timelines {
        let samples: Vec<&FlowSample> = timeline.samples().collect();
        grid.add(&samples, direction, &mut summed);
    }
    Some(Course {
        series: series(&grid, &summed, direction),
        begins_s: first.since(began).as_secs_f64(),
        connections: tracks.len(),
    })
}

fn timeline(track: &Track) -> Timeline {
    let mut timeline = Timeline::new();
    for sample in &track.samples {
        timeline.push(sample);
    }
    timeline
}

impl Grid {
    fn seconds(&self, at: Instant) -> f64 {
        at.since(self.begin).as_secs_f64()
    }

    /// Adds one connection.
    fn add(&self, samples: &[&FlowSample], direction: Direction, parts: &mut [Part]) {
        let micros = |time: Option<std::time::Duration>| Some(time?.as_secs_f64() * 1e6);
        let is_receiver = direction == Direction::In;
        let moved = self.counted(samples, |s| match is_receiver {
            true => s.bytes_received,
            false => s.bytes_acked,
        });
        let rtt = self.level(samples, |s| match is_receiver {
            true => micros(s.rcv_rtt.or(s.srtt)),
            false => micros(s.srtt),
        });
        for (index, part) in parts.iter_mut().enumerate() {
            part.bytes += moved[index].unwrap_or(0.0);
            part.rtt_us.extend(rtt[index]);
        }
        if is_receiver {
            return;
        }
        let again = self.counted(samples, |s| s.retrans_total_pkts);
        let cwnd = self.level(samples, |s| {
            Some(f64::from(s.cwnd_pkts?) * f64::from(s.snd_mss_bytes?))
        });
        let in_flight = self.level(samples, |s| s.bytes_out().map(|bytes| bytes as f64));
        let window = self.level(samples, |s| s.snd_wnd_bytes.map(f64::from));
        for (index, part) in parts.iter_mut().enumerate() {
            add_known(&mut part.retransmitted, again[index]);
            add_known(&mut part.cwnd, cwnd[index]);
            add_known(&mut part.in_flight, in_flight[index]);
            add_known(&mut part.window, window[index]);
        }
        self.share_out(samples, parts);
    }

    /// How a counter grew in each part: evenly from one sample to the next.
    fn counted(
        &self,
        samples: &[&FlowSample],
        read: impl Fn(&FlowSample) -> Option<u64>,
    ) -> Vec<Option<f64>> {
        let known = samples
            .iter()
            .filter_map(|s| Some((self.seconds(s.at), read(s)?)));
        let known: Vec<(f64, f64)> = known.map(|(at, value)| (at, value as f64)).collect();
        let mut grown = vec![None; self.parts];
        for pair in known.windows(2) {
            let ((from, before), (to, after)) = (pair[0], pair[1]);
            let growth = (after - before).max(0.0);
            self.overlaps((from, to), |part, share| {
                *grown[part].get_or_insert(0.0) += growth * share;
            });
        }
        grown
    }

    /// Latest values at the end of each part, while the connection existed.
    fn level(
        &self,
        samples: &[&FlowSample],
        read: impl Fn(&FlowSample) -> Option<f64>,
    ) -> Vec<Option<f64>> {
        let known = samples
            .iter()
            .filter_map(|s| Some((self.seconds(s.at), read(s)?)));
        let mut known = known.peekable();
        let end = samples.last().map_or(0.0, |s| self.seconds(s.at));
        let mut level = None;
        let each = (0..self.parts).map(|part| {
            let (from, to) = (self.part_s * part as f64, self.part_s * (part + 1) as f64);
            while let Some((_, value)) = known.next_if(|(at, _)| *at <= to) {
                level = Some(value);
            }
            level.filter(|_| from <= end)
        });
        each.collect()
    }

    /// Adds for how long each limit held in each part.
    fn share_out(&self, samples: &[&FlowSample], parts: &mut [Part]) {
        for pair in samples.windows(2) {
            let Some(shares) = Shares::of_samples(pair.iter().copied()) else {
                continue;
            };
            let (from, to) = (self.seconds(pair[0].at), self.seconds(pair[1].at));
            self.overlaps((from, to), |part, share| {
                let time = share * (to - from);
                for (cause, limit) in Limit::ALL.into_iter().enumerate() {
                    parts[part].times[cause] += time * shares.get(limit);
                }
                parts[part].times[CAUSES - 1] += time * shares.unclear();
            });
        }
    }

    /// Calls `take` with each part that a time overlaps, and the share of that time in it.
    fn overlaps(&self, (from, to): (f64, f64), mut take: impl FnMut(usize, f64)) {
        let place = |at: f64| ((at / self.part_s) as usize).min(self.parts - 1);
        for part in place(from)..=place(to) {
            let (begin, end) = (self.part_s * part as f64, self.part_s * (part + 1) as f64);
            let overlap = to.min(end) - from.max(begin);
            if to > from && overlap > 0.0 {
                take(part, overlap / (to - from));
            }
        }
    }
}

fn add_known(sum: &mut Option<f64>, value: Option<f64>) {
    if let Some(value) = value {
        *sum = Some(sum.unwrap_or(0.0) + value);
    }
}

fn series(grid: &Grid, parts: &[Part], direction: Direction) -> Series {
    let points = parts.iter().enumerate();
    let points = points.map(|(index, part)| point(grid, index, part));
    let is_sender = direction == Direction::Out;
    let shares: Vec<LimitShares> = match is_sender {
        true => parts.iter().map(shares).collect(),
        false => Vec::new(),
    };
    let mut curves = Vec::new();
    if limits_share(parts, Limit::PeerWindow) >= WINDOW_SHARE {
        curves.push(Curve {
            panel: Curve::BYTES,
            unit: "bytes",
            name: "window of the receiver",
            values: parts.iter().map(|part| part.window).collect(),
        });
    }
    let again: Vec<Option<f64>> = parts.iter().map(|part| part.retransmitted).collect();
    if again.iter().flatten().any(|segments| *segments > 0.0) {
        curves.push(Curve {
            panel: "retransmitted segments per second",
            unit: "",
            name: "retransmitted per second",
            values: again.iter().map(|n| Some((*n)? / grid.part_s)).collect(),
        });
    }
    Series {
        points: points.collect(),
        shares,
        curves,
        ..Series::default()
    }
}

fn point(grid: &Grid, index: usize, part: &Part) -> Point {
    let whole = |value: f64| value.round() as u64;
    let known = part.rtt_us.len();
    let rtt = part.rtt_us.iter().sum::<f64>() / known.max(1) as f64;
    let largest = shares(part).into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
    Point {
        at_us: whole(grid.part_s * (index + 1) as f64 * 1e6),
        goodput_bps: whole(part.bytes * 8.0 / grid.part_s),
        rtt_us: (known > 0).then(|| whole(rtt)),
        cwnd_bytes: part.cwnd.map(whole),
        in_flight_bytes: part.in_flight.map(whole),
        queue_bytes: None,
        limit: largest.and_then(|(limit, _)| limit),
    }
}

/// Shares of the time in which any connection was seen.
fn shares(part: &Part) -> LimitShares {
    let all: f64 = part.times.iter().sum();
    let causes = Limit::ALL.into_iter().map(Some).chain([None]);
    let times = causes.zip(part.times).filter(|(_, time)| *time > 0.0);
    times.map(|(limit, time)| (limit, time / all)).collect()
}

fn limits_share(parts: &[Part], limit: Limit) -> f64 {
    let place = Limit::ALL.iter().position(|known| *known == limit);
    let of = place.map_or(0.0, |place| {
        parts.iter().map(|part| part.times[place]).sum()
    });
    let all: f64 = parts.iter().flat_map(|part| part.times).sum();
    if all > 0.0 { of / all } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use doctor::Samples;

    use super::*;

    const KEY: ([u8; 4], u16) = ([10, 0, 0, 1], 40_000);

    /// At this many milliseconds, this many bytes acknowledged; busy where something is in flight.
    fn look(millis: u64, acked: u64, unacked: u32) -> FlowSample {
        let key = FlowKey {
            local: KEY.into(),
            remote: ([10, 0, 0, 2], 80).into(),
        };
        FlowSample {
            snd_mss_bytes: Some(1000),
            cwnd_pkts: Some(10),
            snd_wnd_bytes: Some(1 << 20),
            srtt: Some(Duration::from_millis(7)),
            bytes_sent: Some(acked + u64::from(unacked) * 1000),
            bytes_acked: Some(acked),
            unacked_pkts: Some(unacked),
            notsent_bytes: Some(unacked * 5000),
            retrans_total_pkts: Some(acked / 100_000),
            ..FlowSample::empty(Instant::ZERO + Duration::from_millis(millis), key)
        }
    }

    fn track(looks: Vec<FlowSample>) -> Track {
        Track {
            key: looks[0].key,
            cookie: 7,
            owners: Vec::new(),
            samples: looks.into_iter().collect::<Samples>(),
            ended: false,
            interface: None,
            options_error: None,
        }
    }

    /// For a second 8 Mbit/s against the congestion window, then a second of silence.
    fn busy_then_silent() -> Track {
        let busy = (0..100).map(|n| look(n * 10, n * 10_000, 10));
        let silent = (100..=200).map(|n| look(n * 10, 1_000_000, 0));
        track(busy.chain(silent).collect())
    }

    #[test]
    fn what_is_drawn_sums_up_to_what_was_counted() {
        let track = busy_then_silent();
        let course = course(&[&track], Direction::Out, Instant::ZERO).expect("enough was seen");
        let points = &course.series.points;
        assert_eq!(points.len(), 50);
        assert_eq!(points[49].at_us, 2_000_000);
        let bytes: f64 = points
            .iter()
            .map(|p| p.goodput_bps as f64 * 0.04 / 8.0)
            .sum();
        assert!((bytes - 1e6).abs() < 10.0, "{bytes}");
        assert_eq!(points[10].goodput_bps, 8_000_000);
        assert_eq!(
            (points[10].rtt_us, points[10].in_flight_bytes),
            (Some(7000), Some(10_000))
        );
        assert_eq!(points[10].limit, Some(Limit::Congestion));
        assert_eq!(
            (points[40].goodput_bps, points[40].limit),
            (0, Some(Limit::Application))
        );
        // The shares are those that the answer has.
        let whole = Shares::of_timeline(&timeline(&track)).expect("many looks");
        let shares = &course.series.shares;
        let drawn = |limit| {
            let of = shares
                .iter()
                .flatten()
                .filter(|(known, _)| *known == Some(limit));
            of.map(|(_, share)| share / 50.0).sum::<f64>()
        };
        for limit in [Limit::Congestion, Limit::Application] {
            assert!((drawn(limit) - whole.get(limit)).abs() < 1e-9, "{limit}");
        }
        assert_eq!(
            course.series.curves.len(),
            1,
            "retransmissions, and no window"
        );
    }

    #[test]
    fn connections_of_a_row_are_summed_up() {
        let (one, other) = (busy_then_silent(), busy_then_silent());
        let both = course(&[&one, &other], Direction::Out, Instant::ZERO).expect("enough");
        let point = both.series.points[10];
        assert_eq!((point.goodput_bps, point.rtt_us), (16_000_000, Some(7000)));
        assert_eq!((point.cwnd_bytes, both.connections), (Some(20_000), 2));
    }

    #[test]
    fn a_receiver_has_no_limits_of_its_own() {
        let looks = (0..50).map(|n| FlowSample {
            bytes_received: Some(n * 1000),
            rcv_rtt: Some(Duration::from_millis(3)),
            ..look(n * 10, 0, 0)
        });
        let receiver = track(looks.collect());
        let course = course(&[&receiver], Direction::In, Instant::ZERO).expect("enough");
        assert!(course.series.shares.is_empty());
        let point = course.series.points[5];
        assert_eq!(
            (point.rtt_us, point.cwnd_bytes, point.limit),
            (Some(3000), None, None)
        );
        let once = track(vec![look(0, 0, 0)]);
        assert!(super::course(&[&once], Direction::In, Instant::ZERO).is_none());
    }
}
