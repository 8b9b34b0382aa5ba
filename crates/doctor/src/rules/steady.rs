//! Signs of a full path: quantities that stay constant while others change.
//!
//! A bottleneck lets packets out at one rate. A sender that tries more for a time, as BBR does in
//! one round trip of eight, or whose window grows, gets no more through it: only a queue and the
//! round trips become longer. A program, a buffer or a window that is the limit makes packets
//! arrive as unsteadily as they are sent, and round trips do not change with the window.

use core::time::Duration;
use std::sync::OnceLock;

use base::{CongestionState, FlowSample, Instant, Source};

use super::loss::start_ends;
use super::thresholds::{
    EXCESS_KEPT, EXCESS_PASSED, EXCESS_ROUNDS, EXCESS_SENT, FOLLOWS_CORRELATION, FOLLOWS_SLOPE,
    FOLLOWS_SPREAD, LARGE_WINDOWS, LOSSES_SPREAD, LOSSES_TOGETHER_RTTS, LOST_TOGETHER,
    ONE_RATE_LOSSES, ONE_RATE_SPREAD, PACED_SEGMENT, PROBING_CORRELATION, PROBING_CYCLE,
    PROBING_ROUNDS, PROBING_RTT, PROBING_SWING, STEADY_STEP, STEADY_STEPS,
};
use crate::timeline::Timeline;
use crate::view::View;

/// Whether packets alone were seen, full ones, and the path does not pass what is sent beyond a
/// rate: in many of the round trips in which more was sent than usual, no more arrived. It waited
/// in a queue, or was dropped. A policer passes some of it, for as long as it has tokens; what a
/// program, a buffer or a window lets out at once arrives at once.
pub(crate) fn arrives_at_one_rate(view: &View<'_>) -> bool {
    let is_so = || {
        let sender = view.sender?;
        let mss = f64::from(sender.mss_bytes()?);
        let is_full = sender.segment_bytes()? as f64 >= mss * PACED_SEGMENT;
        if sender.last()?.source != Source::Capture || !is_full {
            return None;
        }
        let times = later_rounds(sender)?;
        let alone = Rounds::of(sender, &times)?;
        let keeps = |rounds: &Rounds| rounds.keep_excess() == Some(true);
        Some(keeps(&alone) || keeps(&alone.with(to_same_host(view, sender), &times)))
    };
    is_so() == Some(true)
}

/// Whether packets alone were seen, full ones that pass the capture at one rate: a bottleneck in
/// front of it lets them out like that, and BBR paces them so. What a program writes at a rate of its
/// own comes in the blocks of its writes.
pub(crate) fn leaves_at_one_rate(view: &View<'_>) -> bool {
    let is_so = || {
        let sender = view.sender?;
        let mss = f64::from(sender.mss_bytes()?);
        let is_full = sender.segment_bytes()? as f64 >= mss * PACED_SEGMENT;
        let sent = counted_between(sender.courses.sent(sender), &later_rounds(sender)?)?;
        let is_capture = sender.last()?.source == Source::Capture;
        Some(is_capture && is_full && spread_of(sent.into_iter())? <= ONE_RATE_SPREAD)
    };
    is_so() == Some(true)
}

/// Bytes sent and arrived in each round trip, of one connection or of several.
struct Rounds {
    sent: Vec<f64>,
    arrived: Vec<f64>,
}

impl Rounds {
    fn of(sender: &Timeline, times: &[Instant]) -> Option<Self> {
        Some(Self {
            sent: counted_between(sender.courses.sent(sender), times)?,
            arrived: counted_between(sender.courses.arrived(sender), times)?,
        })
    }

    /// With what others sent in the same time: they share what the path carries.
    fn with<'v>(self, others: impl Iterator<Item = &'v Timeline>, times: &[Instant]) -> Self {
        others
            .filter_map(|other| Self::of(other, times))
            .fold(self, |mut all, other| {
                add(&mut all.sent, &other.sent);
                add(&mut all.arrived, &other.arrived);
                all
            })
    }

    fn keep_excess(&self) -> Option<bool> {
        let passed = self.passed_of_excess()?;
        let kept = passed
            .iter()
            .filter(|share| **share < EXCESS_PASSED)
            .count();
        Some(kept >= EXCESS_ROUNDS && kept as f64 >= passed.len() as f64 * EXCESS_KEPT)
    }

    /// For each round trip in which more was sent than usual, the share of the excess that arrived,
    /// in the same one or in the next: a capture at the receiver sees the ACK at once, one at the
    /// sender after a round trip.
    fn passed_of_excess(&self) -> Option<Vec<f64>> {
        let usual = |counts: &[f64]| Some(median(counts)).filter(|median| *median > 0.0);
        let (usually_sent, usually_arrived) = (usual(&self.sent)?, usual(&self.arrived)?);
        let rounds = self.sent.iter().zip(self.arrived.windows(2));
        let passed = rounds.filter_map(|(sent, arrived)| {
            let excess = sent / usually_sent - 1.0;
            let more = arrived[0].max(arrived[1]) / usually_arrived - 1.0;
            (excess >= EXCESS_SENT).then_some(more / excess)
        });
        Some(passed.collect())
    }
}

fn add(sums: &mut [f64], counts: &[f64]) {
    for (sum, count) in sums.iter_mut().zip(counts) {
        *sum += count;
    }
}

/// Other connections from the sender's host to the same one.
pub(crate) fn to_same_host<'v>(
    view: &View<'v>,
    sender: &Timeline,
) -> impl Iterator<Item = &'v Timeline> + use<'v> {
    let own = sender.key();
    let siblings = view.sender_siblings.iter().copied();
    siblings.filter(move |other| {
        let hosts = other.key().zip(own);
        hosts.is_some_and(|(a, b)| a != b && a.remote.ip() == b.remote.ip())
    })
}

/// Whether packets alone were seen, full ones that arrive at one rate, while round trips are longer
/// in one of about eight, again and again: BBR sends a quarter more for a round trip of eight
/// (`bbr_pacing_gain`), and that waits in a queue. It shows behind the bottleneck, where all
/// packets come at its rate, however they were sent.
pub(crate) fn round_trips_probe(view: &View<'_>) -> bool {
    let probe = || {
        let sender = view.sender?;
        let mss = f64::from(sender.mss_bytes()?);
        let is_full = sender.segment_bytes()? as f64 >= mss * PACED_SEGMENT;
        let min_rtt = sender.min_rtt()?;
        if sender.last()?.source != Source::Capture || !is_full || min_rtt < PROBING_RTT {
            return None;
        }
        let (end, half) = (sender.last()?.at, sender.interval() / 2);
        let times = steps(end, half, min_rtt)?;
        let trips = means_between(sender, &times, |s| s.last_rtt)?;
        let cycles = trips.len() >= PROBING_ROUNDS;
        let mut sorted = trips.clone();
        sorted.sort_by(f64::total_cmp);
        let swing = sorted[sorted.len() * 15 / 16] - sorted[sorted.len() / 2];
        let is_steady = arrivals_spread(sender)? <= ONE_RATE_SPREAD;
        let swings = swing >= min_rtt.as_secs_f64() * PROBING_SWING;
        Some(is_steady && cycles && swings && has_cycle_of_eight(&trips))
    };
    probe() == Some(true)
}

/// Whether values come again after about eight, and not after fewer.
fn has_cycle_of_eight(values: &[f64]) -> bool {
    let (mean, variance) = mean_and_variance(values);
    let after = |lag: usize| {
        let pairs = values.iter().zip(values.iter().skip(lag));
        let products = pairs.map(|(x, y)| (x - mean) * (y - mean));
        products.sum::<f64>() / (values.len() - lag) as f64 / variance
    };
    let best = PROBING_CYCLE.map(after).into_iter().fold(0.0, f64::max);
    let sooner = (2..=5).map(after).fold(0.0, f64::max);
    best >= PROBING_CORRELATION && sooner < best / 2.0
}

/// Whether round trips become longer as the congestion window grows, and no more arrives. A window
/// that was cut shows more (`WindowCuts::follow_a_queue`).
pub(crate) fn round_trips_follow_window(view: &View<'_>) -> bool {
    let follow = || {
        let sender = view.sender.filter(|_| !view.is_bbr())?;
        let middle = sender.first()?.at + sender.interval() / 2;
        let both = |s: &FlowSample| Some((f64::from(s.cwnd_pkts?), s.srtt?.as_secs_f64()));
        let later = sender.samples().filter(|s| s.at >= middle);
        let (windows, times): (Vec<f64>, Vec<f64>) = later.filter_map(both).unzip();
        let ((window, of_windows), (time, of_times)) =
            (mean_and_variance(&windows), mean_and_variance(&times));
        let pairs = windows.iter().zip(&times);
        let products: f64 = pairs.map(|(x, y)| (x - window) * (y - time)).sum();
        let together = products / windows.len().max(1) as f64;
        let correlation = together / (of_windows * of_times).sqrt();
        let slope = together / of_windows * window / time;
        Some(
            of_windows.sqrt() >= window * FOLLOWS_SPREAD
                && correlation >= FOLLOWS_CORRELATION
                && slope >= FOLLOWS_SLOPE
                && arrivals_spread(sender)? <= ONE_RATE_SPREAD,
        )
    };
    follow() == Some(true)
}

/// Whether as much gets through per second from each loss to the next one, alone or with other
/// connections to the same host: what drops at one rate, be it a bucket without tokens or a queue
/// without room, is in the same state at each of its drops, so that it has passed its rate in
/// between, however the windows were. From one random loss to the next the rate is that of the
/// windows, which vary. Says at how many losses, and by how much it varies.
pub(crate) fn drops_at_one_rate(view: &View<'_>) -> Option<(usize, f64)> {
    let all = losses(view.sender?);
    let start = start_ends(view.sender?).unwrap_or(Instant::ZERO);
    let of_start = all.partition_point(|time| *time < start);
    let later = || drop_at_one_rate(view, &all[of_start..]);
    drop_at_one_rate(view, &all).or_else(|| (of_start > 0).then(later)?)
}

/// The same of these losses.
fn drop_at_one_rate(view: &View<'_>, times: &[Instant]) -> Option<(usize, f64)> {
    let sender = view.sender?;
    let lost = sender.counted(|s| s.retrans_total_pkts)? as f64 / times.len().max(1) as f64;
    // Losses that come one by one may do so at one rate by chance, where they are few.
    let enough = if lost >= LOST_TOGETHER {
        ONE_RATE_LOSSES - 1
    } else {
        ONE_RATE_LOSSES
    };
    if times.len() < enough {
        return None;
    }
    let delivered = |of: &Timeline| counted_between(of.courses.delivered(of), times);
    let alone = delivered(sender)?;
    let mut together = alone.clone();
    for other in to_same_host(view, sender) {
        if let Some(counts) = delivered(other) {
            add(&mut together, &counts);
        }
    }
    let spread = |counts: &[f64]| {
        let spans = times.windows(2).map(|pair| pair[1].since(pair[0]));
        let rates = counts.iter().zip(spans);
        spread_of(rates.map(|(count, span)| count / span.as_secs_f64()))
    };
    let least = spread(&alone)?.min(spread(&together)?);
    (least <= LOSSES_SPREAD).then_some((times.len(), least))
}

/// How large the windows were in which losses came, among all in which something was sent: the mean
/// share of the segments that were sent in smaller ones, and of how many losses. A path that drops
/// what exceeds a rate, or a queue, does so while the window is large, so that the share is near 1.
/// Random losses hit each segment alike, in windows of any size, and the share is a half. The
/// beginning of a connection, whose window overshoots, is left out.
pub(crate) fn windows_of_losses(view: &View<'_>) -> Option<(usize, f64)> {
    let sender = view.sender.filter(|_| !view.is_bbr())?;
    let start = start_ends(sender).unwrap_or(Instant::ZERO);
    let is_open = |s: &FlowSample| {
        let repairs = [CongestionState::Recovery, CongestionState::Loss];
        s.congestion_state
            .is_some_and(|state| !repairs.contains(&state))
    };
    let samples: Vec<&FlowSample> = sender.samples().filter(|s| s.at >= start).collect();
    let sent = |pair: &[&FlowSample]| {
        let sent = pair[1]
            .delivered_pkts?
            .saturating_sub(pair[0].delivered_pkts?);
        is_open(pair[0]).then_some((pair[0].cwnd_pkts?, sent as f64))
    };
    let sent: Vec<(u32, f64)> = samples.windows(2).filter_map(sent).collect();
    let of_windows = |is_meant: &dyn Fn(u32) -> bool| -> f64 {
        let meant = sent.iter().filter(|(window, _)| is_meant(*window));
        meant.map(|(_, segments)| segments).sum()
    };
    let all = of_windows(&|_| true);
    let share = |at: Instant| {
        let window = samples[samples.partition_point(|s| s.at < at)..]
            .first()?
            .cwnd_pkts?;
        let below = of_windows(&|other| other < window);
        Some((below + of_windows(&|other| other == window) / 2.0) / all)
    };
    let times = losses(sender).into_iter().filter(|time| *time >= start);
    let shares: Vec<f64> = times.filter_map(share).collect();
    let count = shares.len();
    (count >= ONE_RATE_LOSSES && all > 0.0)
        .then(|| (count, shares.iter().sum::<f64>() / count as f64))
}

/// Whether losses come in the largest windows only, so often that it is no chance.
pub(crate) fn drops_large_windows(view: &View<'_>) -> Option<(usize, f64)> {
    windows_of_losses(view).filter(|(count, share)| *share >= by_chance(*count, LARGE_WINDOWS))
}

/// What the mean of this many shares is by chance at most: it deviates by less, the more there are.
pub(crate) fn by_chance(count: usize, deviation: f64) -> f64 {
    0.5 + deviation / (count as f64).sqrt()
}

/// From the tenth part to the ninth, as a share of the median.
fn spread_of(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let part = |tenths: usize| values.get(values.len() * tenths / 10).copied();
    let median = part(5).filter(|median| *median > 0.0)?;
    Some((part(9)? - part(1)?) / median)
}

/// When losses were found while a connection was watched; several that are repaired together, or
/// within a few round trips, are one.
fn losses(sender: &Timeline) -> Vec<Instant> {
    let repairs = |s: &FlowSample| {
        let state = s.congestion_state;
        state.map(|state| matches!(state, CongestionState::Recovery | CongestionState::Loss))
    };
    let samples: Vec<&FlowSample> = sender.samples().collect();
    let pairs = samples.windows(2);
    let begins =
        |pair: &&[&FlowSample]| repairs(pair[0]) == Some(false) && repairs(pair[1]) == Some(true);
    let together = sender.srtt().unwrap_or_default() * LOSSES_TOGETHER_RTTS;
    let mut found: Vec<Instant> = Vec::new();
    for at in pairs.filter(begins).map(|pair| pair[0].at) {
        if found.last().is_none_or(|last| at.since(*last) >= together) {
            found.push(at);
        }
    }
    found
}

/// By how much arrivals differ from one round trip to another in the later half of a watch: from
/// the tenth part to the ninth, as a share of the median.
fn arrivals_spread(sender: &Timeline) -> Option<f64> {
    let arrived = counted_between(sender.courses.arrived(sender), &later_rounds(sender)?)?;
    spread_of(arrived.into_iter())
}

/// Times a round trip apart in the later half of a watch: the beginning of a connection is left
/// out.
fn later_rounds(sender: &Timeline) -> Option<Vec<Instant>> {
    let (end, half) = (sender.last()?.at, sender.interval() / 2);
    steps(end, half, sender.min_rtt()?.max(STEADY_STEP))
}

/// Bytes received by the other end, behind gaps too.
fn arrived_bytes(sample: &FlowSample) -> Option<u64> {
    let behind = u64::from(sample.sacked_pkts.unwrap_or(0)) * u64::from(sample.snd_mss_bytes?);
    Some(sample.bytes_acked?.saturating_add(behind))
}

/// Times that divide what lies before `end` into steps, the newest of them where these are many;
/// `None` where they are few.
fn steps(end: Instant, time: Duration, step: Duration) -> Option<Vec<Instant>> {
    let count = (time.as_nanos() / step.as_nanos().max(1)).min(STEADY_STEPS.1.into()) as u32;
    let times = (0..=count).rev().map(|before| end - step * before);
    (count >= STEADY_STEPS.0).then(|| times.collect())
}

/// A counter at each look at which it was known.
type Course = Vec<(Instant, f64)>;

/// Counters of one connection over time, side by side in memory: each of its siblings asks for
/// them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Courses {
    sent: OnceLock<Course>,
    arrived: OnceLock<Course>,
    delivered: OnceLock<Course>,
}

impl Courses {
    fn sent(&self, of: &Timeline) -> &Course {
        self.sent.get_or_init(|| course(of, |s| s.bytes_sent))
    }

    fn arrived(&self, of: &Timeline) -> &Course {
        self.arrived.get_or_init(|| course(of, arrived_bytes))
    }

    fn delivered(&self, of: &Timeline) -> &Course {
        self.delivered
            .get_or_init(|| course(of, |s| s.delivered_pkts))
    }
}

fn course(timeline: &Timeline, read: impl Fn(&FlowSample) -> Option<u64>) -> Course {
    let known = |s: &FlowSample| Some((s.at, read(s)? as f64));
    timeline.samples().filter_map(known).collect()
}

/// Differences of a counter between consecutive times; `None` where unknown.
fn counted_between(course: &Course, times: &[Instant]) -> Option<Vec<f64>> {
    let (first, last) = (course.first()?, course.last()?);
    let start = *times.first()?;
    let mut index = course.partition_point(|(at, _)| *at < start);
    let counts = times.iter().map(|time| {
        while course.get(index).is_some_and(|(at, _)| at < time) {
            index += 1;
        }
        let (Some(before), Some(after)) = (index.checked_sub(1), course.get(index)) else {
            return if index == 0 { first.1 } else { last.1 };
        };
        let before = course[before];
        let part = time.since(before.0).as_secs_f64() / after.0.since(before.0).as_secs_f64();
        before.1 + (after.1 - before.1) * part
    });
    let counts: Vec<f64> = counts.collect();
    Some(counts.windows(2).map(|pair| pair[1] - pair[0]).collect())
}

/// The mean of what was seen from each time to the next one, in seconds; that before it where
/// nothing was. `None` where nothing is known.
fn means_between(
    timeline: &Timeline,
    times: &[Instant],
    read: impl Fn(&FlowSample) -> Option<Duration>,
) -> Option<Vec<f64>> {
    let known = |s: &FlowSample| Some((s.at, read(s)?.as_secs_f64()));
    let from = *times.first()?;
    let mut samples = timeline.samples().filter_map(known).peekable();
    let mut last = samples.peek()?.1;
    while let Some((_, value)) = samples.next_if(|(at, _)| *at < from) {
        last = value;
    }
    let mut means = Vec::with_capacity(times.len());
    for &until in &times[1..] {
        let (mut sum, mut count) = (0.0, 0.0);
        while let Some((_, value)) = samples.next_if(|(at, _)| *at < until) {
            (sum, count) = (sum + value, count + 1.0);
        }
        if count > 0.0 {
            last = sum / count;
        }
        means.push(last);
    }
    Some(means)
}

/// The upper one of two in the middle; 0 of none.
fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

pub(super) fn mean_and_variance(values: &[f64]) -> (f64, f64) {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares = values.iter().map(|value| (value - mean).powi(2));
    (mean, squares.sum::<f64>() / count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Observation;
    use crate::rules::application::app_limited;
    use base::FlowKey;

    const MSS: u32 = 1448;
    const RTT: Duration = Duration::from_millis(40);

    /// As [`probing_by`], with the same share each time.
    fn probing(passes: f64) -> Timeline {
        probing_by(|_| passes)
    }

    /// Looks each 10 ms at a capture of 8 s. In one round trip of eight a quarter more is sent, and
    /// less in the next one; the share that `passes` gives for this cycle arrives as it is sent,
    /// the rest at one rate.
    fn probing_by(passes: impl Fn(u32) -> f64) -> Timeline {
        let key = FlowKey {
            local: ([10, 0, 0, 1], 40_000).into(),
            remote: ([10, 0, 0, 2], 5001).into(),
        };
        let mut timeline = Timeline::new();
        let (mut sent, mut acked) = (0.0, 0.0);
        for look in 0..800_u32 {
            let at = Instant::ZERO + Duration::from_millis(10) * look;
            let gain = match look / 4 % 8 {
                0 => 0.25,
                1 => -0.25,
                _ => 0.0,
            };
            sent += f64::from(MSS) * 40.0 * (1.0 + gain);
            acked += f64::from(MSS) * 40.0 * (1.0 + gain * passes(look / 32));
            timeline.push(FlowSample {
                source: Source::Capture,
                snd_mss_bytes: Some(MSS),
                min_rtt: Some(RTT),
                bytes_sent: Some(sent as u64),
                bytes_acked: Some(acked as u64),
                data_segs_out: Some(sent as u64 / u64::from(MSS)),
                ..FlowSample::empty(at, key)
            });
        }
        timeline
    }

    fn is_full(timeline: &Timeline) -> bool {
        arrives_at_one_rate(&crate::observation::sender_view(&Observation::of(timeline)))
    }

    #[test]
    fn what_arrives_at_one_rate_however_it_is_sent_fills_a_path() {
        assert!(is_full(&probing(0.0)));
        assert!(is_full(&probing(0.2)));
        assert!(!is_full(&probing(1.0)), "a path with room passes all");
    }

    #[test]
    fn a_policer_passes_what_it_has_tokens_for() {
        let every = |count: u32| probing_by(move |cycle| f64::from(u8::from(cycle % count != 0)));
        assert!(is_full(&every(2)));
        assert!(!is_full(&every(7)), "a loss now and then is none");
    }

    #[test]
    fn what_arrives_behind_a_gap_has_arrived() {
        let mut timeline = Timeline::new();
        for (look, sample) in (0..800_u64).zip(probing(0.0).samples()) {
            // In every other fifth of a second a gap holds all ACKs up.
            let held = (look / 20 % 2) * (look % 20) * 40;
            let held = u32::try_from(held).expect("some hundreds");
            timeline.push(FlowSample {
                sacked_pkts: Some(held),
                bytes_acked: Some(sample.bytes_acked.unwrap_or(0) - u64::from(held * MSS)),
                ..sample.clone()
            });
        }
        assert!(is_full(&timeline));
    }

    /// Arrivals behind the bottleneck, all at one rate. In one round trip of `period`, round trips
    /// are longer by this share, and shorter again in the next.
    fn behind(period: u32, share: f64) -> Timeline {
        let mut timeline = Timeline::new();
        let looks = probing(0.0);
        for (look, sample) in (0..800_u32).zip(looks.samples()) {
            let extra = match look / 4 % period {
                0 => share,
                1 => share / 2.0,
                _ => 0.0,
            };
            timeline.push(FlowSample {
                bytes_sent: sample.bytes_acked,
                last_rtt: Some(RTT.mul_f64(1.0 + extra)),
                ..sample.clone()
            });
        }
        timeline
    }

    #[test]
    fn round_trips_that_are_longer_in_one_of_eight_are_those_of_a_queue() {
        let probes = |timeline: &Timeline| {
            let seen = Observation::of(timeline);
            round_trips_probe(&crate::observation::sender_view(&seen))
        };
        assert!(probes(&behind(8, 0.2)));
        assert!(!is_full(&behind(8, 0.2)), "nothing shows in what is sent");
        assert!(!probes(&behind(8, 0.02)), "no queue");
        for period in [3, 4, 13] {
            assert!(!probes(&behind(period, 0.2)), "another cycle: {period}");
        }
        assert!(!probes(&behind(1, 0.2)), "all of them are as long");
    }

    /// ACKs come for 20 ms, beginning at `from`, and pause for as long.
    fn in_trains(from: Duration, port: u16) -> Timeline {
        let mut timeline = Timeline::new();
        for sample in probing(0.0).samples() {
            let local = ([10, 0, 0, 1], port).into();
            let phase = (sample.at + from).since(Instant::ZERO).as_millis() % 40;
            let pause = Duration::from_millis(phase.saturating_sub(20) as u64);
            timeline.push(FlowSample {
                key: FlowKey {
                    local,
                    ..sample.key
                },
                unacked_pkts: Some(40),
                since_ack_received: Some(pause),
                ..sample.clone()
            });
        }
        timeline
    }

    #[test]
    fn a_path_is_not_idle_while_acks_come_on_a_connection_beside() {
        let own = in_trains(Duration::ZERO, 40_000);
        let pauses = |others: &[&Timeline]| {
            let seen = Observation {
                siblings: others,
                ..Observation::of(&own)
            };
            crate::observation::sender_view(&seen).acks_pause()
        };
        assert!(pauses(&[]));
        let (apart, same) = (
            in_trains(Duration::from_millis(20), 40_001),
            in_trains(Duration::ZERO, 40_002),
        );
        assert!(!pauses(&[&apart]));
        assert!(pauses(&[&same]), "both pause together");
        let mut done = Timeline::new();
        for sample in apart.samples() {
            done.push(FlowSample {
                unacked_pkts: Some(0),
                ..sample.clone()
            });
        }
        assert!(pauses(&[&done]), "nothing is in flight beside");
    }

    /// The same with nothing left to send and room in each window.
    fn written_out(timeline: &Timeline) -> Timeline {
        let mut told = Timeline::new();
        for sample in timeline.samples() {
            told.push(FlowSample {
                notsent_bytes: Some(0),
                unacked_pkts: Some(10),
                cwnd_pkts: Some(40),
                ..sample.clone()
            });
        }
        told
    }

    #[test]
    fn full_segments_that_pass_at_one_rate_are_not_told_to_be_a_programs() {
        let told = |timeline: &Timeline| {
            let timeline = written_out(timeline);
            let seen = Observation::of(&timeline);
            let view = crate::observation::sender_view(&seen);
            (leaves_at_one_rate(&view), app_limited(&view).is_some())
        };
        assert_eq!(told(&behind(8, 0.0)), (true, false));
        assert_eq!(told(&probing(1.0)), (false, true));
        let mut sockets = Timeline::new();
        for sample in behind(8, 0.0).samples() {
            sockets.push(FlowSample {
                source: Source::SockDiag,
                ..sample.clone()
            });
        }
        assert_eq!(told(&sockets), (false, true));
    }

    /// The window grows by a tenth in 8 s, and round trips grow by this share of that.
    fn growing(share: f64) -> Timeline {
        let mut timeline = Timeline::new();
        for (look, sample) in (0..800).zip(probing(0.0).samples()) {
            let grown = f64::from(look) / 8000.0;
            timeline.push(FlowSample {
                cwnd_pkts: Some((1000.0 * (1.0 + grown)) as u32),
                srtt: Some(RTT.mul_f64(1.0 + grown * share)),
                ..sample.clone()
            });
        }
        timeline
    }

    #[test]
    fn round_trips_that_grow_with_the_window_are_those_of_a_queue() {
        let follow = |timeline: &Timeline| {
            let seen = Observation::of(timeline);
            round_trips_follow_window(&crate::observation::sender_view(&seen))
        };
        assert!(follow(&growing(1.0)));
        assert!(!follow(&growing(0.5)), "more is in flight, and arrives");
        assert!(!follow(&growing(0.0)));
    }

    /// Looks each 10 ms at 8 s in which this many segments are delivered per second from one loss
    /// to the next, once a second.
    fn losing(rates: [u64; 8]) -> Timeline {
        let mut timeline = Timeline::new();
        let mut delivered = 0.0;
        for (look, sample) in (0..800_usize).zip(probing(0.0).samples()) {
            delivered += rates[look / 100] as f64 / 100.0;
            let repairs = look % 100 < 5 && look >= 100;
            timeline.push(FlowSample {
                delivered_pkts: Some(delivered as u64),
                retrans_total_pkts: Some((look / 100) as u64),
                congestion_state: Some(match repairs {
                    true => CongestionState::Recovery,
                    false => CongestionState::Open,
                }),
                ..sample.clone()
            });
        }
        timeline
    }

    #[test]
    fn what_passes_the_same_from_each_loss_to_the_next_drops_at_one_rate() {
        let drops = |timeline: &Timeline| {
            let seen = Observation::of(timeline);
            drops_at_one_rate(&crate::observation::sender_view(&seen)).map(|(losses, _)| losses)
        };
        assert_eq!(
            drops(&losing([900, 1000, 1010, 990, 1000, 1000, 990, 1010])),
            Some(7)
        );
        let by_chance = losing([1000, 700, 900, 1300, 800, 1000, 600, 1100]);
        assert_eq!(drops(&by_chance), None);
    }

    #[test]
    fn losses_within_a_few_round_trips_are_one() {
        let once = losing([1000; 8]);
        let mut twice = Timeline::new();
        for (look, sample) in once.samples().enumerate() {
            // Again 80 ms after each.
            let again = look >= 100 && (8..12).contains(&(look % 100));
            twice.push(FlowSample {
                srtt: Some(RTT),
                congestion_state: match again {
                    true => Some(CongestionState::Recovery),
                    false => sample.congestion_state,
                },
                ..sample.clone()
            });
        }
        assert_eq!(losses(&once).len(), 7);
        assert_eq!(losses(&twice), losses(&once));
    }

    #[test]
    fn connections_to_one_host_share_what_is_dropped_at_one_rate() {
        let (mut own, mut other) = ([1000; 8], [1000; 8]);
        for (second, less) in [100, 300, 0, 250, 400, 150, 350, 50]
            .into_iter()
            .enumerate()
        {
            (own[second], other[second]) = (1000 - less, 1000 + less);
        }
        let (own, mut beside) = (losing(own), Timeline::new());
        for sample in losing(other).samples() {
            let key = FlowKey {
                local: ([10, 0, 0, 1], 40_001).into(),
                ..sample.key
            };
            beside.push(FlowSample {
                key,
                ..sample.clone()
            });
        }
        let alone = Observation::of(&own);
        assert_eq!(
            drops_at_one_rate(&crate::observation::sender_view(&alone)),
            None
        );
        let siblings = [&beside];
        let together = Observation {
            siblings: &siblings,
            ..Observation::of(&own)
        };
        assert!(drops_at_one_rate(&crate::observation::sender_view(&together)).is_some());
    }

    #[test]
    fn steps_are_bounded() {
        let end = Instant::ZERO + Duration::from_secs(1 << 32);
        let all = steps(end, Duration::from_secs(1 << 31), Duration::from_millis(30));
        let all = all.expect("enough of them");
        assert_eq!(all.len(), STEADY_STEPS.1 as usize + 1);
        assert_eq!(all.last(), Some(&end));
        assert_eq!(steps(end, RTT * 5, RTT), None);
    }

    /// Looks each 40 ms at a window that grows by a segment each time, and by 30 % less behind a
    /// loss; losses come where `is_lost` says so for the look and its window.
    fn sawtooth(is_lost: impl Fn(u32, u32) -> bool) -> Timeline {
        let key = FlowKey {
            local: ([10, 0, 0, 1], 40_000).into(),
            remote: ([10, 0, 0, 2], 5001).into(),
        };
        let (mut timeline, mut window, mut delivered) = (Timeline::new(), 40_u32, 0);
        for look in 0..400_u32 {
            let repairs = is_lost(look, window);
            delivered += u64::from(window);
            timeline.push(FlowSample {
                cwnd_pkts: Some(window),
                ssthresh_pkts: Some(30),
                delivered_pkts: Some(delivered),
                srtt: Some(RTT),
                congestion_state: Some(if repairs {
                    CongestionState::Recovery
                } else {
                    CongestionState::Open
                }),
                ..FlowSample::empty(Instant::ZERO + RTT * look, key)
            });
            window = if repairs { window * 7 / 10 } else { window + 1 };
        }
        timeline
    }

    #[test]
    fn losses_in_large_windows_are_those_of_a_path_that_is_full() {
        let told = |timeline: &Timeline| {
            drops_large_windows(&crate::observation::sender_view(&Observation::of(timeline)))
        };
        let policed = told(&sawtooth(|_, window| window > 60));
        assert!(
            policed.is_some_and(|(count, share)| count >= 10 && share > 0.9),
            "{policed:?}"
        );
        // Whatever the window is.
        let chance = |look: u32| look.wrapping_mul(2_654_435_761) >> 16;
        let random = told(&sawtooth(|look, window| chance(look) % 1500 < window));
        assert_eq!(random, None);
    }
}
