//! Course of a flow over time: looks at it while it runs, thinned to a bounded number of points.
//!
//! Engines add samples, each with counters since the flow began; they become rates only when asked
//! for. So points can be left out without any payload being lost, and a run of unknown length costs
//! no more than a short one.

use core::time::Duration;

use base::{FlowSample, Instant, Limit, Rate};

use crate::outcome::Point;

/// Points of a run whose length is known.
const POINTS: u32 = 200;
/// Points that are kept at most; then every other one is left out.
pub const POINTS_MAX: usize = 400;
/// No look follows another one sooner.
const INTERVAL_MIN: Duration = Duration::from_millis(1);

/// One look at a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowLook {
    /// Payload that arrived since the run began.
    pub received_bytes: u64,
    /// Smoothed round-trip time in microseconds; of several connections the mean.
    pub rtt_us: Option<u64>,
    /// Congestion window in bytes; of several connections the sum.
    pub cwnd_bytes: Option<u64>,
    /// Sent and not acknowledged, in bytes; of several connections the sum.
    pub in_flight_bytes: Option<u64>,
    /// Bytes that wait for the link.
    pub queue_bytes: Option<u64>,
}

impl FlowLook {
    /// Sums over the samples of one sender's connections at one instant.
    pub fn of<'s>(samples: impl IntoIterator<Item = &'s FlowSample>) -> Self {
        let mut look = Self::default();
        let (mut rtts, mut rtt_sum) = (0_u64, 0_u64);
        for sample in samples {
            if let Some(rtt) = sample.srtt {
                rtts += 1;
                rtt_sum += u64::try_from(rtt.as_micros()).unwrap_or(u64::MAX);
            }
            let cwnd = sample.cwnd_pkts.zip(sample.snd_mss_bytes);
            let cwnd = cwnd.map(|(packets, mss)| u64::from(packets) * u64::from(mss));
            look.cwnd_bytes = sum(look.cwnd_bytes, cwnd);
            look.in_flight_bytes = sum(look.in_flight_bytes, sample.bytes_out());
        }
        look.rtt_us = rtt_sum.checked_div(rtts);
        look
    }
}

fn sum(all: Option<u64>, one: Option<u64>) -> Option<u64> {
    match (all, one) {
        (Some(all), Some(one)) => Some(all.saturating_add(one)),
        (all, one) => all.or(one),
    }
}

/// The looks at one run.
#[derive(Clone, Debug)]
pub struct Series {
    began: Instant,
    interval: Duration,
    /// When the next look is due.
    next: Instant,
    marks: Vec<Mark>,
}

#[derive(Clone, Copy, Debug)]
struct Mark {
    at: Instant,
    look: FlowLook,
    /// The limit that held for most of the time since the previous mark, and for how long.
    limit: Option<(Limit, Duration)>,
}

impl Series {
    /// Series of a run that begins at `began`, with its duration where it is known.
    #[must_use]
    pub fn new(began: Instant, expected: Option<Duration>) -> Self {
        let interval = expected.map_or(INTERVAL_MIN, |time| time / POINTS);
        Self {
            began,
            interval: interval.max(INTERVAL_MIN),
            next: began,
            marks: Vec::new(),
        }
    }

    /// Whether a look is due by `now`.
    #[must_use]
    pub fn is_due(&self, now: Instant) -> bool {
        now >= self.next
    }

    /// When the next look is due.
    #[must_use]
    pub const fn next(&self) -> Instant {
        self.next
    }

    /// Takes a look, with the limit that held for longest since the look before, and for how long
    /// it did. One that is not later than the last takes its place.
    pub fn push(&mut self, at: Instant, look: FlowLook, limit: Option<(Limit, Duration)>) {
        let mut limit = limit;
        if let Some(last) = self.marks.pop_if(|last| last.at >= at) {
            limit = longer(last.limit, limit);
        }
        self.marks.push(Mark { at, look, limit });
        if self.marks.len() > POINTS_MAX {
            self.thin();
        }
        self.next = at + self.interval;
    }

    /// Leaves every other look out, and looks half as often from now on. The newest one stays.
    fn thin(&mut self) {
        let mut kept = Vec::with_capacity(POINTS_MAX);
        for pair in self.marks.rchunks(2).rev() {
            let mut last = pair[pair.len() - 1];
            if pair.len() == 2 {
                last.limit = longer(pair[0].limit, last.limit);
            }
            kept.push(last);
        }
        self.marks = kept;
        self.interval *= 2;
    }

    /// The points; the first look only says where the others begin to count. A run seldom ends
    /// where a look is due: a last interval of less than half the one before is joined to it, as
    /// the rate of a burst in so short a time would stand out as a peak that was none.
    #[must_use]
    pub fn points(&self) -> Vec<Point> {
        let mut marks = self.marks.clone();
        if let [.., first, second, last] = &mut marks[..]
            && last.at.since(second.at) * 2 < second.at.since(first.at)
        {
            last.limit = longer(second.limit, last.limit);
            let short = marks.len() - 2;
            marks.remove(short);
        }
        let pairs = marks.windows(2);
        pairs.map(|pair| self.point(&pair[0], &pair[1])).collect()
    }

    fn point(&self, before: &Mark, mark: &Mark) -> Point {
        let Mark { at, look, limit } = *mark;
        let FlowLook {
            received_bytes,
            rtt_us,
            cwnd_bytes,
            in_flight_bytes,
            queue_bytes,
        } = look;
        let bytes = received_bytes.saturating_sub(before.look.received_bytes);
        let since_began = at.since(self.began).as_micros();
        Point {
            at_us: u64::try_from(since_began).unwrap_or(u64::MAX),
            goodput_bps: Rate::of(bytes, at.since(before.at)).bits_per_second(),
            rtt_us,
            cwnd_bytes,
            in_flight_bytes,
            queue_bytes,
            limit: limit.map(|(limit, _)| limit),
        }
    }
}

/// The one that held longer; equal limits add up.
fn longer(
    one: Option<(Limit, Duration)>,
    other: Option<(Limit, Duration)>,
) -> Option<(Limit, Duration)> {
    match (one, other) {
        (Some((a, first)), Some((b, second))) if a == b => Some((a, first + second)),
        (Some(one), Some(other)) => Some(if one.1 > other.1 { one } else { other }),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn look(received_bytes: u64) -> FlowLook {
        FlowLook {
            received_bytes,
            ..FlowLook::default()
        }
    }

    fn bytes(points: &[Point]) -> f64 {
        let mut before = 0;
        let mut bytes = 0.0;
        for point in points {
            bytes += point.goodput_bps as f64 * (point.at_us - before) as f64 / 8e6;
            before = point.at_us;
        }
        bytes
    }

    #[test]
    fn a_long_run_keeps_few_points_and_all_bytes() {
        let mut series = Series::new(at(0), None);
        for millis in 0..10_000 {
            if series.is_due(at(millis)) {
                series.push(at(millis), look(millis * 1_000), None);
            }
        }
        series.push(at(10_000), look(10_000_000), None);
        let points = series.points();
        assert!(
            (100..POINTS_MAX).contains(&points.len()),
            "{}",
            points.len()
        );
        assert!((bytes(&points) - 1e7).abs() < 1e3, "{}", bytes(&points));
        assert!(points.iter().all(|point| point.goodput_bps == 8_000_000));
    }

    #[test]
    fn a_short_last_interval_makes_no_peak() {
        let mut series = Series::new(at(0), Some(Duration::from_secs(20)));
        for hundred in 0..4 {
            series.push(at(hundred * 100), look(hundred * 1_000), None);
        }
        series.push(at(301), look(3_900), None);
        let points = series.points();
        let ends: Vec<u64> = points.iter().map(|point| point.at_us).collect();
        assert_eq!(ends, [100_000, 200_000, 301_000]);
        assert!(points.iter().all(|point| point.goodput_bps < 160_000));
        assert!((bytes(&points) - 3_900.0).abs() < 1.0, "{}", bytes(&points));

        let mut whole = Series::new(at(0), None);
        for millis in [0, 100, 160] {
            whole.push(at(millis), look(millis * 10), None);
        }
        assert_eq!(whole.points().len(), 2, "an interval of its own");
    }

    #[test]
    fn a_run_of_known_length_is_looked_at_evenly() {
        let series = Series::new(at(0), Some(Duration::from_secs(20)));
        assert_eq!(series.interval, Duration::from_millis(100));
        let series = Series::new(at(0), Some(Duration::from_millis(20)));
        assert_eq!(series.interval, INTERVAL_MIN);
    }

    #[test]
    fn the_limit_that_held_longest_is_named() {
        let time = Duration::from_millis;
        let held = |limit, millis| Some((limit, time(millis)));
        let check = |one, other, expected| assert_eq!(longer(one, other), expected);
        check(None, None, None);
        check(
            held(Limit::Nagle, 3),
            held(Limit::Application, 2),
            held(Limit::Nagle, 3),
        );
        check(
            held(Limit::Nagle, 3),
            held(Limit::Nagle, 2),
            held(Limit::Nagle, 5),
        );
        check(None, held(Limit::Cork, 1), held(Limit::Cork, 1));
        let mut series = Series::new(at(0), None);
        series.push(at(0), look(0), None);
        series.push(at(5), look(5), held(Limit::Nagle, 5));
        series.push(at(5), look(6), None);
        let points = series.points();
        assert_eq!(points.len(), 1);
        assert_eq!(
            (points[0].at_us, points[0].limit),
            (5_000, Some(Limit::Nagle))
        );
    }
}
