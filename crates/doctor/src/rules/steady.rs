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
    FOLLOWS_SPREAD, LARGE_WINDOWS, LOSSES_SPREAD, LOSSES_SPREAD_SURE, LOSSES_TOGETHER_RTTS,
    LOST_TOGETHER, MIN_SAMPLES, ONE_RATE_LOSSES, ONE_RATE_SPREAD, PACED_SEGMENT,
    PROBING_CORRELATION, PROBING_CYCLE, PROBING_ROUNDS, PROBING_RTT, PROBING_SWING, QUEUE_DELAY,
    QUEUE_GAP_RANK, QUEUE_GAPS, QUEUE_LOSS_RANK, QUEUE_SHARE, STEADY_STEP, STEADY_STEPS,
};
use crate::timeline::Timeline;
use crate::view::View;

/// Whether packets alone were seen, full ones, and the path does not pass what is sent beyond a
/// rate: in many of the round trips in which more was sent than usual, no more arrived. It waited
/// in a queue, or was dropped. A policer passes some of it, for as long as it has tokens; what a
/// program, a buffer or a window lets out at once arrives at once.
pub(crate) fn arrives_at_one_rate(view: &View<'_>) -> bool {
    *view.at_one_rate.get_or_init(|| is_at_one_rate(view))
}

fn is_at_one_rate(view: &View<'_>) -> bool {
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
/// front of it lets them out like that, and BBR paces them so. What a program writes at a rate of
/// its own comes in the blocks of its writes.
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

/// What one connection or several had sent, and what had arrived, at times a round trip apart, in
/// bytes.
struct Rounds {
    sent: Vec<f64>,
    arrived: Vec<f64>,
}

impl Rounds {
    fn of(sender: &Timeline, times: &[Instant]) -> Option<Self> {
        Some(Self {
            sent: counted_by(sender.courses.sent(sender), times)?,
            arrived: counted_by(sender.courses.arrived(sender), times)?,
        })
    }

    /// With what others sent in the same time: they share what the path carries.
    fn with<'v>(mut self, others: impl Iterator<Item = &'v Timeline>, times: &[Instant]) -> Self {
        for other in others {
            let (sent, arrived) = (other.courses.sent(other), other.courses.arrived(other));
            if !sent.is_empty() && !arrived.is_empty() {
                add_course(&mut self.sent, sent, times);
                add_course(&mut self.arrived, arrived, times);
            }
        }
        self
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
        let (sent, arrived) = (differences(&self.sent), differences(&self.arrived));
        let (usually_sent, usually_arrived) = (usual(&sent)?, usual(&arrived)?);
        let rounds = sent.iter().zip(arrived.windows(2));
        let passed = rounds.filter_map(|(sent, arrived)| {
            let excess = sent / usually_sent - 1.0;
            let more = arrived[0].max(arrived[1]) / usually_arrived - 1.0;
            (excess >= EXCESS_SENT).then_some(more / excess)
        });
        Some(passed.collect())
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
/// in one of about eight, repeatedly: BBR sends a quarter more for a round trip of eight
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
    let find = || {
        let all = losses(view.sender?);
        let start = start_ends(view.sender?).unwrap_or(Instant::ZERO);
        let of_start = all.partition_point(|time| *time < start);
        let later = || drop_at_one_rate(view, &all[of_start..]);
        drop_at_one_rate(view, &all).or_else(|| (of_start > 0).then(later)?)
    };
    *view.drops_at_one_rate.get_or_init(find)
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
    let alone = counted_by(sender.courses.delivered(sender), times)?;
    let mut together = alone.clone();
    for other in to_same_host(view, sender) {
        add_course(&mut together, other.courses.delivered(other), times);
    }
    let spread = |counted: &[f64]| {
        let spans = times.windows(2).map(|pair| pair[1].since(pair[0]));
        let rates = differences(counted).into_iter().zip(spans);
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

/// Whether losses come in the largest windows only, too often to be chance.
pub(crate) fn drops_large_windows(view: &View<'_>) -> Option<(usize, f64)> {
    windows_of_losses(view).filter(|(count, share)| *share >= by_chance(*count, LARGE_WINDOWS))
}

/// How many losses came while packets waited longer than otherwise, and longer than which share of
/// the others the next one did: the queue that dropped them was full then. Only captures tell. The
/// beginning of a connection, whose window overshoots, is left out.
pub(crate) fn drops_behind_queue(sender: &Timeline) -> Option<(usize, f64)> {
    let start = start_ends(sender).unwrap_or(Instant::ZERO);
    let (first, last) = (sender.samples().find(|s| s.at >= start)?, sender.last()?);
    let count = last.gaps?.saturating_sub(first.gaps?) as usize;
    let ranks = last.gap_ranks?.saturating_sub(first.gap_ranks?) as f64;
    let share = ranks / 1000.0 / count.max(1) as f64;
    (count >= QUEUE_GAPS && share >= by_chance(count, QUEUE_GAP_RANK)).then_some((count, share))
}

/// As [`drops_behind_queue`], by looks at a socket: how many losses its first look in recovery saw,
/// and longer than which share of the others the mean round trip was then. What was acknowledged
/// last came behind the loss, and has waited in the queue that dropped it; where losses are random,
/// nothing has.
pub(crate) fn losses_behind_queue(view: &View<'_>) -> Option<(usize, f64)> {
    let (losses, share, _) = round_trips_of_losses(view.sender.filter(|_| !view.is_bbr())?)?;
    Some((losses, share))
}

/// Whether BBR's losses come with its longest round trips, which are longer by what a queue takes:
/// each time it probes for more, a short queue fills up and drops. A policer drops without one, and
/// the round trips of random losses are like others.
pub(crate) fn probes_overflow(view: &View<'_>) -> bool {
    let overflow = || {
        let sender = view.sender.filter(|_| view.is_bbr())?;
        let (_, _, round_trip) = round_trips_of_losses(sender)?;
        let min_rtt = sender.min_rtt()?;
        Some(round_trip >= min_rtt + QUEUE_DELAY.max(min_rtt.mul_f64(QUEUE_SHARE)))
    };
    overflow() == Some(true)
}

/// How many losses looks at a socket saw, where round trips are then longer than most others;
/// longer than which share of them, and the median of theirs.
fn round_trips_of_losses(sender: &Timeline) -> Option<(usize, f64, Duration)> {
    let start = start_ends(sender).unwrap_or(Instant::ZERO);
    if sender.last()?.source == Source::Capture {
        return None;
    }
    let samples: Vec<&FlowSample> = sender.samples().filter(|s| s.at >= start).collect();
    let of_open = |s: &&FlowSample| s.congestion_state == Some(CongestionState::Open);
    let open = samples.iter().copied().filter(of_open);
    let mut others: Vec<Duration> = open.filter_map(|s| s.srtt).collect();
    others.sort_unstable();
    let after = |at: Instant| {
        samples[samples.partition_point(|s| s.at <= at)..]
            .first()?
            .srtt
    };
    let times = losses(sender).into_iter().filter(|time| *time >= start);
    let mut round_trips: Vec<Duration> = times.filter_map(after).collect();
    round_trips.sort_unstable();
    let longer_than = |srtt: &Duration| {
        let shorter = others.partition_point(|other| other < srtt);
        let as_long = others.partition_point(|other| other <= srtt) - shorter;
        (shorter as f64 + as_long as f64 / 2.0) / others.len().max(1) as f64
    };
    let shares: Vec<f64> = round_trips.iter().map(longer_than).collect();
    let (mean, _) = mean_and_variance(&shares);
    let enough = others.len() >= MIN_SAMPLES && shares.len() >= ONE_RATE_LOSSES;
    let median = round_trips.get(round_trips.len() / 2)?;
    (enough && mean >= QUEUE_LOSS_RANK).then_some((shares.len(), mean, *median))
}

/// As [`drops_at_one_rate`], where so few random losses would hardly come at one rate by chance.
/// Those that take several segments at a time are seldom random.
pub(crate) fn drops_surely_at_one_rate(view: &View<'_>) -> Option<(usize, f64)> {
    let is_sure = |(losses, spread): &(usize, f64)| {
        let bound = |more| bound_of(more, &LOSSES_SPREAD_SURE, LOSSES_SPREAD);
        losses
            .checked_sub(ONE_RATE_LOSSES)
            .is_none_or(|more| *spread <= bound(more))
    };
    drops_at_one_rate(view).filter(is_sure)
}

/// The bound for this many more than the least number, or the one for many.
pub(crate) fn bound_of(more: usize, few: &[f64], many: f64) -> f64 {
    few.get(more).copied().unwrap_or(many)
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

/// Whether packets alone were seen, and arrive at one rate, as they do behind a queue, or from a
/// sender that paces them: then losses at one rate do not show a policer. Those of a policer cut a
/// window repeatedly.
pub(crate) fn arrives_steadily(sender: &Timeline) -> bool {
    let is_capture = sender.last().is_some_and(|s| s.source == Source::Capture);
    is_capture && arrivals_spread(sender).is_some_and(|spread| spread <= ONE_RATE_SPREAD)
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

/// Counters and ACKs of one connection over time, side by side in memory: each of its siblings asks
/// for them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Courses {
    sent: OnceLock<Course>,
    arrived: OnceLock<Course>,
    delivered: OnceLock<Course>,
    acks: OnceLock<Vec<Instant>>,
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

    /// When the last ACK up to `at` came, as far as looks while something was in flight tell.
    pub(crate) fn last_ack(&self, of: &Timeline, at: Instant) -> Option<Instant> {
        let acks = self.acks.get_or_init(|| {
            let looks = of.samples().filter(|s| s.unacked_pkts > Some(0));
            let mut acks: Vec<Instant> = looks
                .filter_map(|s| Some(s.at - s.since_ack_received?))
                .collect();
            acks.sort_unstable();
            acks
        });
        let behind = acks.partition_point(|ack| *ack <= at);
        Some(acks[behind.checked_sub(1)?])
    }
}

fn course(timeline: &Timeline, read: impl Fn(&FlowSample) -> Option<u64>) -> Course {
    let known = |s: &FlowSample| Some((s.at, read(s)? as f64));
    timeline.samples().filter_map(known).collect()
}

/// Differences of a counter between consecutive times; `None` where unknown.
fn counted_between(course: &Course, times: &[Instant]) -> Option<Vec<f64>> {
    counted_by(course, times).map(|counted| differences(&counted))
}

/// A counter at each of these times; `None` where unknown.
fn counted_by(course: &Course, times: &[Instant]) -> Option<Vec<f64>> {
    let mut counted = vec![0.0; times.len()];
    (!course.is_empty()).then(|| add_course(&mut counted, course, times))?;
    Some(counted)
}

/// Adds a counter at each of these times, which are in order, to `sums`. It is taken to grow
/// evenly from one look to the next, and not at all before the first and behind the last. Of
/// thousands of connections each asks for those beside it, at thousands of times.
fn add_course(sums: &mut [f64], course: &Course, times: &[Instant]) {
    let (Some(first), Some(last)) = (course.first(), course.last()) else {
        return;
    };
    let mut sums = times.iter().zip(sums).peekable();
    while let Some((_, sum)) = sums.next_if(|(time, _)| **time <= first.0) {
        *sum += first.1;
    }
    let from = sums.peek().map_or(last.0, |(time, _)| **time);
    let known_from = course.partition_point(|(at, _)| *at < from).max(1) - 1;
    for pair in course[known_from..].windows(2) {
        let (before, after) = (pair[0], pair[1]);
        let slope = (after.1 - before.1) / after.0.nanos_since(before.0) as f64;
        while let Some((time, sum)) = sums.next_if(|(time, _)| **time <= after.0) {
            *sum += before.1 + slope * time.nanos_since(before.0) as f64;
        }
    }
    for (_, sum) in sums {
        *sum += last.1;
    }
}

fn differences(values: &[f64]) -> Vec<f64> {
    values.windows(2).map(|pair| pair[1] - pair[0]).collect()
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
    if values.is_empty() {
        return 0.0;
    }
    let mut values = values.to_vec();
    let middle = values.len() / 2;
    *values.select_nth_unstable_by(middle, f64::total_cmp).1
}

pub(super) fn mean_and_variance(values: &[f64]) -> (f64, f64) {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares = values.iter().map(|value| (value - mean).powi(2));
    (mean, squares.sum::<f64>() / count)
}

#[cfg(test)]
mod tests;
