//! Cost of pauses to a flow of bursts whose window restarts after each of them.
//!
//! All is read from bursts that began and ended while they were watched: those at the edges of a
//! look are seen in part, and would make the same traffic look different in each interval.

use base::{FlowSample, Instant, Rate, Source};
use core::time::Duration;

use super::application::unanswered_share;
use super::startup::shown_rate;
use super::thresholds::{
    INITIAL_WINDOW_PKTS, RESTART_COST, RESTART_COST_OF_STREAM, RESTART_SHARE, RESTART_TIME,
    TRAIN_TIME,
};
use crate::timeline::{Burst, Timeline, is_idle};
use crate::view::View;

/// Cost of pauses to a flow of bursts.
pub(super) struct Restarts {
    pub(super) count: usize,
    /// Congestion windows before and after the last pause, in segments.
    pub(super) before: u32,
    pub(super) after: u32,
    /// Payload of a burst.
    pub(super) bytes: u64,
    /// Time of a burst, how much of it is lost to the restart, and time from burst to burst.
    pub(super) time: Duration,
    pub(super) lost: Duration,
    period: Duration,
    /// For how long its program works on each question first, where it is asked.
    thinks: Duration,
    /// The other end sends between the bursts: it waits for each of them.
    are_answers: bool,
}

impl Restarts {
    /// `None` where fewer than `enough` pauses, or not most of them, reset the window.
    pub(super) fn read(view: &View<'_>, enough: usize) -> Option<Self> {
        let sender = view.sender?;
        let bursts = sender.bursts();
        let begun = Begun::all(sender, &bursts);
        let restarts: Vec<(u32, u32)> = begun.iter().filter_map(Begun::restart).collect();
        if restarts.len() < enough || restarts.len() * 2 < begun.len() {
            return None;
        }
        let (before, after) = *restarts.last()?;
        let (mss, min_rtt) = (u64::from(sender.mss_bytes()?), sender.min_rtt()?);
        let (shown, train) = (shown_rate(sender), train_rate(sender, &begun));
        let wholes: Vec<Whole> = begun.iter().filter_map(|one| one.whole).collect();
        let Mean { bytes, time } = Mean::of(&wholes).or_else(|| Mean::in_part(sender, &bursts))?;
        // Each round trip doubles the window, until it is what the burst or the path needs: what is
        // beyond waits in a queue.
        let path = shown.max(train);
        let path = path.map_or(u64::MAX, |rate| rate.bdp_bytes(min_rtt) / mss);
        let segments = (bytes / mss).min(u64::from(before)).min(path).max(1) as f64;
        let round_trips = (segments / f64::from(after.max(1))).log2().max(0.0);
        // A burst takes no longer beyond what the path takes for it.
        let at_rate = |rate: Rate| bytes as f64 * 8.0 / rate.bits_per_second().max(1) as f64;
        let ideal = train.or(shown).map_or(0.0, at_rate) + min_rtt.as_secs_f64();
        let beyond = (time.as_secs_f64() - ideal).max(0.0);
        let most = match wholes.is_empty() {
            // The mean of parts is shorter than a whole one.
            true => time,
            false => Duration::from_secs_f64(beyond),
        };
        let count = bursts.len().max(1);
        let period = period(&begun).unwrap_or(sender.interval() / count as u32);
        let asked = view.sender_accepted().then(|| unanswered_share(sender));
        Some(Self {
            count: restarts.len(),
            before,
            after,
            bytes,
            time,
            lost: min_rtt.mul_f64(round_trips).min(most),
            period,
            thinks: period.mul_f64(asked.flatten().unwrap_or(0.0)),
            // What the first one answers may have come before the watch.
            are_answers: sender.counted(|s| s.data_segs_in)? >= restarts.len().max(2) as u64 - 1,
        })
    }

    /// An answer comes later by what the restart takes, and the client waits for the program too. A
    /// stream without requests loses only what its pauses cannot make up for: a server that sends
    /// this many bytes a second does it in bursts, and its next burst does not wait for the end of
    /// the last.
    pub(super) fn is_worth_a_setting(&self) -> bool {
        let of_burst = self.lost >= (self.time + self.thinks).mul_f64(RESTART_COST);
        let of_stream =
            self.are_answers || self.lost >= self.period.mul_f64(RESTART_COST_OF_STREAM);
        self.lost >= RESTART_TIME && of_burst && of_stream
    }
}

/// A burst that began while it was watched.
struct Begun<'t> {
    /// The last look at the pause before it, and the first one behind that.
    quiet: &'t FlowSample,
    begin: &'t FlowSample,
    /// The burst before, where it was seen.
    earlier: Option<Burst>,
    whole: Option<Whole>,
}

/// A burst that ended while it was watched, too.
#[derive(Clone, Copy)]
struct Whole {
    bytes: u64,
    time: Duration,
}

impl<'t> Begun<'t> {
    fn all(sender: &'t Timeline, bursts: &[Burst]) -> Vec<Self> {
        let samples: Vec<&FlowSample> = sender.samples().collect();
        let at = |time: Instant| samples.partition_point(|sample| sample.at < time);
        let is_quiet = |sample: &&&FlowSample| is_idle(sample) == Some(true);
        let mut all = Vec::new();
        for (index, burst) in bursts.iter().enumerate() {
            let (first, last) = (at(burst.begin), at(burst.end));
            let before = first.checked_sub(1).and_then(|index| samples.get(index));
            let (Some(quiet), Some(begin)) = (before.filter(is_quiet), samples.get(first)) else {
                continue;
            };
            let behind = samples.get(last + 1).filter(is_quiet);
            let whole = behind.and_then(|behind| {
                let middle =
                    |from: &FlowSample, to: &FlowSample| from.at + to.at.since(from.at) / 2;
                let ended = middle(samples.get(last)?, behind);
                Some(Whole {
                    bytes: behind.bytes_acked?.checked_sub(quiet.bytes_acked?)?,
                    time: ended.since(middle(quiet, begin)),
                })
            });
            all.push(Self {
                quiet,
                begin,
                earlier: index.checked_sub(1).map(|before| bursts[before]),
                whole,
            });
        }
        all
    }

    /// Windows before and after the pause where they show a restart. The kernel resets the window
    /// with the first write behind it, so that a look at the pause still shows the one before;
    /// what a capture shows is what was in flight. The first look at a burst may come late: the
    /// window has grown by what was acknowledged since (RFC 5681 section 3.1).
    fn restart(&self) -> Option<(u32, u32)> {
        let of_pause = || match self.quiet.source {
            Source::Capture => None,
            _ => self.quiet.cwnd_pkts,
        };
        let of_burst = self.earlier.and_then(|burst| burst.cwnd_max_pkts);
        // The last ACK of the burst, with which it is over, may have doubled it.
        let (before, after) = (of_burst.max(of_pause())?, self.begin.cwnd_pkts?);
        let is_reset = f64::from(after) <= f64::from(before) * RESTART_SHARE;
        is_reset.then(|| (before, self.window_of_start(after)))
    }

    /// The window with which the burst began, from that at its first look.
    fn window_of_start(&self, window: u32) -> u32 {
        let grown = || {
            let (from, to) = (self.quiet.bytes_acked?, self.begin.bytes_acked?);
            let mss = u64::from(self.begin.snd_mss_bytes?);
            u32::try_from(to.checked_sub(from)? / mss).ok()
        };
        let first = window.min(INITIAL_WINDOW_PKTS as u32);
        window.saturating_sub(grown().unwrap_or(0)).max(first)
    }
}

/// From burst to burst, in the median, since looks may miss one; of one alone by the pause before
/// it.
fn period(begun: &[Begun<'_>]) -> Option<Duration> {
    let first = begun.first()?;
    if begun.len() > 1 {
        let pairs = begun.windows(2);
        let mut times: Vec<_> = pairs
            .map(|pair| pair[1].begin.at.since(pair[0].begin.at))
            .collect();
        times.sort_unstable();
        return times.get(times.len() / 2).copied();
    }
    let pause = first.quiet.since_data_sent?;
    Some(pause.saturating_add(first.whole?.time))
}

/// Means over several bursts.
struct Mean {
    bytes: u64,
    time: Duration,
}

impl Mean {
    fn of(wholes: &[Whole]) -> Option<Self> {
        let count = u32::try_from(wholes.len())
            .ok()
            .filter(|count| *count > 0)?;
        Some(Self {
            bytes: wholes.iter().map(|whole| whole.bytes).sum::<u64>() / u64::from(count),
            time: wholes.iter().map(|whole| whole.time).sum::<Duration>() / count,
        })
    }

    /// Estimate where no burst was seen from its beginning to its end.
    fn in_part(sender: &Timeline, bursts: &[Burst]) -> Option<Self> {
        let count = bursts.len().max(1);
        let active = 1.0 - sender.idle_share().unwrap_or(0.0);
        Some(Self {
            bytes: sender.counted(|s| s.bytes_acked)? / count as u64,
            time: sender.interval().mul_f64(active / count as f64),
        })
    }
}

/// The rate at which what was sent at once is acknowledged: that of the path, however small the
/// window is that comes to it in each round trip. It is the median of bursts, since ACKs that were
/// held up come at any rate.
fn train_rate(sender: &Timeline, begun: &[Begun<'_>]) -> Option<Rate> {
    let of_burst = |one: &Begun<'_>| {
        let time = one.whole?.time;
        let samples = sender.samples();
        let of_it = samples.filter(|s| s.at >= one.quiet.at && s.at <= one.begin.at + time * 2);
        densest(
            &of_it
                .filter_map(|s| Some((s.at, s.bytes_acked?)))
                .collect::<Vec<_>>(),
        )
    };
    let mut rates: Vec<Rate> = begun.iter().filter_map(of_burst).collect();
    rates.sort();
    rates.get(rates.len() / 2).copied()
}

/// The most that was counted in a time, over one that is long enough.
fn densest(points: &[(Instant, u64)]) -> Option<Rate> {
    let (mut from, mut most) = (0, None);
    for (until, (at, bytes)) in points.iter().enumerate() {
        while from + 1 < until && at.since(points[from + 1].0) >= TRAIN_TIME {
            from += 1;
        }
        let (began, before) = points[from];
        let time = at.since(began);
        if time >= TRAIN_TIME {
            most = most.max(Some(Rate::of(bytes.saturating_sub(before), time)));
        }
    }
    most
}

#[cfg(test)]
mod tests {
    use base::FlowKey;

    use super::*;
    use crate::Observation;

    const MSS: u32 = 1448;
    const ROUND_TRIP: u64 = 100;

    /// A look of 4 s that begins `from` milliseconds into traffic of 400 segments each 2.5 s, over
    /// 80 Mbit/s and 100 ms: the window is 10 segments behind each pause, and doubles.
    fn look(from: u64) -> Timeline {
        look_late(from, 0)
    }

    /// The same where no look falls into the first so many milliseconds of a burst.
    fn look_late(from: u64, late: u64) -> Timeline {
        let key = FlowKey {
            local: ([10, 0, 0, 1], 40_000).into(),
            remote: ([10, 0, 0, 2], 5001).into(),
        };
        let mut timeline = Timeline::new();
        for look in 0..400 {
            let now = from + 10 * look;
            let (burst, phase) = (now / 2500, now % 2500);
            if phase < late {
                continue;
            }
            let (round, into) = (phase / ROUND_TRIP, phase % ROUND_TRIP);
            let before = |round: u64| (10 * ((1 << round.min(6)) - 1)).min(400);
            // 7 segments a millisecond.
            let passed = (before(round.saturating_sub(1)) + into * 7).min(before(round));
            let is_over = passed >= 400;
            timeline.push(FlowSample {
                snd_mss_bytes: Some(MSS),
                min_rtt: Some(Duration::from_millis(ROUND_TRIP)),
                srtt: Some(Duration::from_millis(ROUND_TRIP + 5)),
                rto: Some(Duration::from_millis(300)),
                cwnd_pkts: Some(if is_over { 410 } else { 10 + passed as u32 }),
                unacked_pkts: Some(if is_over { 0 } else { 10 }),
                notsent_bytes: Some(0),
                bytes_acked: Some((burst * 400 + passed) * u64::from(MSS)),
                data_segs_in: Some(0),
                since_data_sent: Some(Duration::from_millis(phase.saturating_sub(600))),
                ..FlowSample::empty(Instant::ZERO + Duration::from_millis(now), key)
            });
        }
        timeline
    }

    #[test]
    fn a_late_look_tells_the_window_behind_the_pause() {
        for late in [0, 60, 130, 230] {
            let timeline = look_late(700, late);
            let seen = Observation::of(&timeline);
            let read = Restarts::read(&crate::observation::sender_view(&seen), 1);
            let read = read.unwrap_or_else(|| panic!("{late}: no restart"));
            assert_eq!((read.before, read.after), (410, 10), "{late} ms late");
        }
    }

    /// Bursts of 137 segments, one each 920 ms, over a path of 107 ms: two timeouts halve the
    /// window twice in each pause, and it is what it was when the last ACK of the burst has come.
    fn halved() -> Timeline {
        let (mut timeline, seen) = (Timeline::new(), look(0));
        let sample = seen.last().expect("a sample");
        for now in (0..12_000_u64).step_by(10) {
            let (burst, phase) = (now / 920, now % 920);
            let (window, passed, out) = match phase / 107 {
                0 => (46, 0, 46),
                1 => (92, 46, 91),
                _ => (184, 137, 0),
            };
            timeline.push(FlowSample {
                at: Instant::ZERO + Duration::from_millis(now),
                min_rtt: Some(Duration::from_millis(107)),
                srtt: Some(Duration::from_millis(109)),
                rto: Some(Duration::from_millis(312)),
                cwnd_pkts: Some(window),
                unacked_pkts: Some(out),
                bytes_acked: Some((burst * 137 + passed) * u64::from(MSS)),
                since_data_sent: Some(Duration::from_millis(phase.saturating_sub(107))),
                ..sample.clone()
            });
        }
        timeline
    }

    #[test]
    fn the_window_before_a_pause_is_the_one_that_the_last_ack_made() {
        let timeline = halved();
        let seen = Observation::of(&timeline);
        let read = Restarts::read(&crate::observation::sender_view(&seen), 1).expect("restarts");
        assert_eq!((read.before, read.after), (184, 46));
        assert!(read.is_worth_a_setting(), "{:?} of each 920 ms", read.lost);
    }

    #[test]
    fn each_look_at_the_same_bursts_says_the_same() {
        for from in (0..2500).step_by(70) {
            let timeline = look(from);
            let seen = Observation::of(&timeline);
            let read = Restarts::read(&crate::observation::sender_view(&seen), 1);
            let read = read.unwrap_or_else(|| panic!("{from}: no restart"));
            assert!(read.is_worth_a_setting(), "{from}: {:?}", read.lost);
            let lost = read.lost.as_millis();
            assert!((350..470).contains(&lost), "{from}: {lost} ms are lost");
            assert_eq!(read.bytes, 400 * u64::from(MSS), "{from}: a whole burst");
            let period = read.period.as_millis();
            assert!((2400..2600).contains(&period), "{from}: each {period} ms");
        }
    }
}
