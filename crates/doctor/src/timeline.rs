//! Differences of counters and votes of states of one flow over an interval.
//!
//! A [`Timeline`] takes samples of one socket and answers questions about the observed interval
//! only. Totals since a connection began do not describe the present, and one snapshot says little
//! about an interval, so rules get differences and votes. What no sample shows is `None`.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use base::{FlowKey, FlowSample, Instant, Rate, Source, TcpState};
use core::time::Duration;

use crate::rules::short::ShortWaits;
use crate::rules::startup::Startup;
use crate::rules::steady::Courses;
use crate::rules::thresholds::{
    DENSE_TIME_MIN, HOLDS_STILL, LASTING_PART, LASTING_RTTS, LASTING_TIMES, MIN_INTERVAL,
    MIN_VOTES, ROUND_TRIPS_WANTED, SAMPLES_KEPT, SHORTEST_GAP,
};

/// The counters that must never decrease, with their names.
type Counter = (&'static str, fn(&FlowSample) -> Option<u64>);
const COUNTERS: [Counter; 6] = [
    ("bytes_acked", |s| s.bytes_acked),
    ("bytes_received", |s| s.bytes_received),
    ("bytes_sent", |s| s.bytes_sent),
    ("data_segs_out", |s| s.data_segs_out),
    ("retrans_total_pkts", |s| s.retrans_total_pkts),
    ("busy_time", |s| s.busy_time.map(nanos)),
];

/// The samples of one flow in the order of time, a bounded number of them.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    samples: VecDeque<Arc<FlowSample>>,
    backwards: Option<&'static str>,
    opening: Option<Opening>,
    /// Samples that were offered, of which every `stride`-th is kept.
    offered: usize,
    stride: usize,
    /// The newest sample is replaced by the next one.
    is_extra: bool,
    /// How many samples these stand for, cached: it is needed of thousands of connections.
    looks: usize,
    /// Start of these samples, cached because many connections ask their siblings for it.
    pub(crate) startup: OnceLock<Startup>,
    pub(crate) short_waits: OnceLock<Option<ShortWaits>>,
    pub(crate) courses: Courses,
}

/// State of a sample that is needed for the next one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Before {
    key: FlowKey,
    cookie: Option<u64>,
    pub(crate) at: Instant,
    is_closed: bool,
}

/// Result of adding a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    LeftOut,
    /// It belongs to another socket than those before.
    Anew,
    /// The first, or a continuation.
    Kept,
}

impl Before {
    pub(crate) fn of(sample: &FlowSample) -> Self {
        Self {
            key: sample.key,
            cookie: sample.cookie,
            at: sample.at,
            is_closed: is_closed(sample),
        }
    }

    /// Result of adding `sample` after this one.
    pub(crate) fn take(before: Option<Self>, sample: &FlowSample) -> Taken {
        let is_last_look = is_closed(sample)
            && sample.bytes_acked.is_some()
            && before.is_none_or(|before| !before.is_closed);
        if sample.state.is_some_and(carries_no_data) && !is_last_look {
            return Taken::LeftOut;
        }
        let Some(before) = before else {
            return Taken::Kept;
        };
        let other_socket = before.key != sample.key
            || matches!((before.cookie, sample.cookie), (Some(a), Some(b)) if a != b);
        match other_socket {
            true => Taken::Anew,
            false if sample.at <= before.at => Taken::LeftOut,
            false => Taken::Kept,
        }
    }
}

fn is_closed(sample: &FlowSample) -> bool {
    sample.state == Some(TcpState::Closed)
}

/// A connection request that was seen before its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Opening {
    /// When it was seen first.
    pub(crate) first: Instant,
    /// When it was seen last.
    pub(crate) last: Instant,
    /// How often it was seen.
    pub(crate) looks: u32,
    /// How often its SYN was retransmitted.
    pub(crate) timeouts: u8,
}

/// A stretch of activity between two gaps; see [`Timeline::bursts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// When the first sample that had something to send was taken.
    pub begin: Instant,
    /// When the last one was taken.
    pub end: Instant,
    /// Largest congestion window, in segments.
    pub cwnd_max_pkts: Option<u32>,
    /// Congestion window at the start, in segments.
    pub cwnd_begin_pkts: Option<u32>,
}

impl Timeline {
    /// Nothing seen yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a sample. Another cookie or another key is another socket and starts anew; a sample
    /// that is not later than the last, or of a socket that carries no data (listening, opening,
    /// closed), is left out, except for the counters with which a connection was closed; the oldest
    /// give way to new ones.
    pub fn push(&mut self, sample: impl Into<Arc<FlowSample>>) {
        let sample = sample.into();
        if sample.state == Some(TcpState::SynSent) {
            self.note_opening(&sample);
        }
        match Before::take(self.last().map(Before::of), &sample) {
            Taken::LeftOut => return,
            Taken::Anew => *self = Self::new(),
            Taken::Kept => self.note_backwards(&sample),
        }
        self.keep(sample);
    }

    fn note_backwards(&mut self, sample: &FlowSample) {
        let Some(last) = self.last() else { return };
        let fell = |(_, read): &&Counter| {
            let both = read(last).zip(read(sample));
            both.is_some_and(|(old, new)| new < old)
        };
        let found = COUNTERS.iter().find(fell);
        self.backwards = self.backwards.or(found.map(|(name, _)| *name));
    }

    /// Keeps a bounded number of samples over the whole time: when there are too many, every second
    /// one is dropped, and from then on every second new one is kept. The newest is always there,
    /// so that differences reach to the end.
    fn keep(&mut self, sample: Arc<FlowSample>) {
        let stride = self.stride.max(1);
        if self.is_extra
            && let Some(extra) = self.samples.pop_back()
        {
            self.looks -= extra.looks as usize;
        }
        self.looks += sample.looks as usize;
        self.forget_answers();
        self.is_extra = !self.offered.is_multiple_of(stride);
        self.offered += 1;
        self.samples.push_back(sample);
        if self.samples.len() > SAMPLES_KEPT && !self.is_extra {
            let mut index = 0;
            self.samples.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.looks = self.samples().map(|sample| sample.looks as usize).sum();
            self.stride = stride * 2;
        }
    }

    fn note_opening(&mut self, sample: &FlowSample) {
        let begun = Opening {
            first: sample.at,
            last: sample.at,
            looks: 0,
            timeouts: 0,
        };
        let opening = self.opening.get_or_insert(begun);
        opening.last = sample.at;
        opening.looks += 1;
        opening.timeouts = opening.timeouts.max(sample.timeouts.unwrap_or(0));
        self.forget_answers();
    }

    fn forget_answers(&mut self) {
        self.startup = OnceLock::new();
        self.short_waits = OnceLock::new();
        self.courses = Courses::default();
    }

    /// Samples before it was established.
    pub(crate) const fn opening(&self) -> Option<&Opening> {
        self.opening.as_ref()
    }

    /// Whether the connection was opened from this end; `None` if unknown.
    pub(crate) fn opened_here(&self) -> Option<bool> {
        let seen = self.opening.is_some().then_some(true);
        seen.or_else(|| self.samples().find_map(opened_here))
    }

    /// Number of samples before it was established.
    pub(crate) fn opening_looks(&self) -> u32 {
        self.opening.map_or(0, |opening| opening.looks)
    }

    /// The memory of its samples.
    pub(crate) fn into_samples(self) -> impl Iterator<Item = Arc<FlowSample>> {
        self.samples.into_iter()
    }

    /// The samples, oldest first.
    pub fn samples(&self) -> impl DoubleEndedIterator<Item = &FlowSample> + ExactSizeIterator {
        self.samples.iter().map(|sample| &**sample)
    }

    /// The oldest sample.
    #[must_use]
    pub fn first(&self) -> Option<&FlowSample> {
        self.samples.front().map(|sample| &**sample)
    }

    /// The newest sample.
    #[must_use]
    pub fn last(&self) -> Option<&FlowSample> {
        self.samples.back().map(|sample| &**sample)
    }

    /// How many samples these stand for.
    #[must_use]
    pub const fn looks(&self) -> usize {
        self.looks
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    /// Which flow it is.
    #[must_use]
    pub fn key(&self) -> Option<FlowKey> {
        self.last().map(|sample| sample.key)
    }

    /// From the first sample to the last.
    #[must_use]
    pub fn interval(&self) -> Duration {
        match (self.first(), self.last()) {
            (Some(first), Some(last)) => last.at.since(first.at),
            _ => Duration::ZERO,
        }
    }

    /// How long this flow should be observed: a second, and long enough for what takes round trips.
    #[must_use]
    pub fn wanted_interval(&self) -> Duration {
        // The round-trip time of the path, not of the queue that the flow itself fills.
        let round_trips = self
            .min_rtt()
            .or_else(|| self.srtt())
            .unwrap_or_default()
            .saturating_mul(ROUND_TRIPS_WANTED);
        round_trips.max(MIN_INTERVAL)
    }

    /// A counter that went backwards, which only a broken source shows.
    #[must_use]
    pub fn went_backwards(&self) -> Option<&'static str> {
        self.backwards
    }

    /// Change of a counter from the first sample that has it to the last; `None` with fewer than
    /// two of them.
    pub fn counted(&self, read: impl Fn(&FlowSample) -> Option<u64>) -> Option<u64> {
        let first = self.samples().position(|sample| read(sample).is_some())?;
        let last = self.samples().rposition(|sample| read(sample).is_some())?;
        if first == last {
            return None;
        }
        read(&self.samples[last])?.checked_sub(read(&self.samples[first])?)
    }

    /// Change of a counter of time.
    pub fn counted_time(&self, read: impl Fn(&FlowSample) -> Option<Duration>) -> Option<Duration> {
        self.counted(|sample| read(sample).map(nanos))
            .map(Duration::from_nanos)
    }

    /// The newest value that is known.
    pub fn latest<T>(&self, read: impl Fn(&FlowSample) -> Option<T>) -> Option<T> {
        self.samples().rev().find_map(read)
    }

    /// Smallest known value.
    pub fn smallest<T: Ord>(&self, read: impl Fn(&FlowSample) -> Option<T>) -> Option<T> {
        self.samples().filter_map(read).min()
    }

    /// Largest known value.
    pub fn largest<T: Ord>(&self, read: impl Fn(&FlowSample) -> Option<T>) -> Option<T> {
        self.samples().filter_map(read).max()
    }

    /// As [`Timeline::largest`]; that of the later half of the watch where most values there are
    /// close to it. A program may set its buffers when the connection is open, so that the first
    /// windows belong to other buffers; a window that moves shows the reader, by its largest value.
    pub(crate) fn largest_that_holds(
        &self,
        read: impl Fn(&FlowSample) -> Option<u32>,
    ) -> Option<u32> {
        let middle = self.first()?.at + self.interval() / 2;
        let later = self.samples().filter(|sample| sample.at >= middle);
        let mut values: Vec<u32> = later.filter_map(&read).collect();
        values.sort_unstable();
        let (most, median) = (values.last(), values.get(values.len() / 2));
        let holds = |most: u32, median: u32| f64::from(median) >= f64::from(most) * HOLDS_STILL;
        match most.zip(median) {
            Some((&most, &median)) if holds(most, median) => Some(most),
            _ => self.largest(read),
        }
    }

    /// The value below which half of the known ones lie.
    pub fn median<T: Ord>(&self, read: impl Fn(&FlowSample) -> Option<T>) -> Option<T> {
        self.above_share(2, read)
    }

    /// The value below which one in `parts` of the known ones lies.
    pub(crate) fn above_share<T: Ord>(
        &self,
        parts: usize,
        read: impl Fn(&FlowSample) -> Option<T>,
    ) -> Option<T> {
        let mut values: Vec<T> = self.samples().filter_map(read).collect();
        let place = values.len() / parts;
        if place >= values.len() {
            return None;
        }
        values.select_nth_unstable(place);
        values.into_iter().nth(place)
    }

    /// Share of samples in which the flow had nothing to send and nothing in flight; `None` if that
    /// cannot be seen.
    #[must_use]
    pub fn idle_share(&self) -> Option<f64> {
        share_of(self.samples().map(|s| (is_idle(s), s.looks)), 1)
    }

    /// As [`Timeline::idle_share`], of the samples between two times.
    pub(crate) fn idle_share_between(&self, from: Instant, to: Instant) -> Option<f64> {
        let samples = self.samples().filter(|s| s.at >= from && s.at < to);
        share_of(samples.map(|s| (is_idle(s), s.looks)), MIN_VOTES)
    }

    /// Share of the samples that were not idle in which `condition` holds. `None` where fewer
    /// than five samples can tell.
    pub fn vote(&self, condition: impl Fn(&FlowSample) -> Option<bool>) -> Option<f64> {
        let active = self
            .samples()
            .filter(|sample| is_idle(sample) != Some(true));
        share_of(active.map(|s| (condition(s), s.looks)), MIN_VOTES)
    }

    /// As [`Timeline::vote`], of the samples up to `end`.
    pub fn vote_until(
        &self,
        end: Instant,
        condition: impl Fn(&FlowSample) -> Option<bool>,
    ) -> Option<f64> {
        self.vote(|sample| condition(sample).filter(|_| sample.at <= end))
    }

    /// As [`Timeline::vote`], over all samples: for questions about the receiver of the data,
    /// which has nothing to send itself.
    pub fn vote_of_all(&self, condition: impl Fn(&FlowSample) -> Option<bool>) -> Option<f64> {
        share_of(self.samples().map(|s| (condition(s), s.looks)), MIN_VOTES)
    }

    /// Acknowledged payload per second.
    #[must_use]
    pub fn rate(&self) -> Option<Rate> {
        Some(Rate::of(self.counted(|s| s.bytes_acked)?, self.interval()))
    }

    /// Payload that left per second, each byte once: where a capture has no ACKs, all that is
    /// known.
    #[must_use]
    pub fn send_rate(&self) -> Option<Rate> {
        let sent = self.counted(|s| s.bytes_sent)?;
        let again = self.counted(|s| s.bytes_retrans).unwrap_or(0);
        Some(Rate::of(sent.saturating_sub(again), self.interval()))
    }

    /// Received payload per second.
    #[must_use]
    pub fn receive_rate(&self) -> Option<Rate> {
        Some(Rate::of(
            self.counted(|s| s.bytes_received)?,
            self.interval(),
        ))
    }

    /// Share of the interval in which something was to be sent or unacknowledged.
    #[must_use]
    pub fn busy_share(&self) -> Option<f64> {
        ratio_of_times(self.counted_time(|s| s.busy_time)?, self.interval())
    }

    /// Share of the busy time in which the peer's window stopped the flow; `None` without busy
    /// time.
    #[must_use]
    pub fn rwnd_share(&self) -> Option<f64> {
        ratio_of_times(
            self.counted_time(|s| s.rwnd_limited_time)?,
            self.counted_time(|s| s.busy_time)?,
        )
    }

    /// Share of the sent payload that was retransmitted; 0 where nothing was sent.
    #[must_use]
    pub fn retransmitted_share(&self) -> Option<f64> {
        let again = self.counted(|s| s.bytes_retrans)? as f64;
        let sent = self.counted(|s| s.bytes_sent)? as f64;
        Some(if sent > 0.0 {
            (again / sent).min(1.0)
        } else {
            0.0
        })
    }

    /// Median of the smoothed round-trip times.
    #[must_use]
    pub fn srtt(&self) -> Option<Duration> {
        self.median(|s| s.srtt)
    }

    /// Smallest round-trip time.
    #[must_use]
    pub fn min_rtt(&self) -> Option<Duration> {
        self.smallest(|s| s.min_rtt)
    }

    /// Median of `srtt - min_rtt`: the delay that queues and delayed ACKs add to the round-trip
    /// time.
    #[must_use]
    pub fn queue_delay(&self) -> Option<Duration> {
        self.median(|s| Some(s.srtt?.saturating_sub(s.min_rtt?)))
    }

    /// Largest delivery rate among samples that the application did not limit, of all where it
    /// limited each; not below the mean rate, since the kernel keeps few samples of a flow that
    /// stops and goes (measured: 15 of 28 Mbit/s where a send buffer was the limit).
    #[must_use]
    pub fn best_rate(&self) -> Option<Rate> {
        let unlimited =
            |s: &FlowSample| (s.delivery_app_limited == Some(false)).then_some(s.delivery_rate?);
        let delivered = self
            .largest(unlimited)
            .or_else(|| self.largest(|s| s.delivery_rate))?;
        Some(delivered.max(self.rate().unwrap_or_default()))
    }

    /// Largest rate at which payload was acknowledged over an eighth of the interval, and over some
    /// round trips at least: a token bucket lets bursts pass at the rate of the link behind it.
    /// `None` where few such times fit: the best of them is the mean then.
    #[must_use]
    pub fn lasting_rate(&self) -> Option<Rate> {
        let least = (self.interval() / LASTING_PART).max(self.srtt()? * LASTING_RTTS);
        if self.interval() < least * LASTING_TIMES {
            return None;
        }
        let all = self.acked_over(least).into_iter();
        let best = all.map(|(_, rate)| rate).max();
        Some(best?.max(self.rate()?))
    }

    /// The rate at which payload is acknowledged over half a round trip, reached in a tenth of such
    /// times: blocks that a program writes arrive at the rate of the path, and what comes between
    /// them is in the mean of longer times. Of short round trips it is that over a longer time, and
    /// may be less.
    #[must_use]
    pub fn dense_rate(&self) -> Option<Rate> {
        let least = (self.min_rtt()? / 2).max(DENSE_TIME_MIN);
        let all = self.acked_over(least).into_iter();
        let dense = all.filter(|(time, _)| *time <= least * 2);
        let mut rates: Vec<Rate> = dense.map(|(_, rate)| rate).collect();
        rates.sort_unstable();
        rates.get(rates.len() * 9 / 10).copied()
    }

    /// The rates at which payload was acknowledged up to each look, since the latest one that is at
    /// least this long before it, with the time between the two.
    fn acked_over(&self, least: Duration) -> Vec<(Duration, Rate)> {
        let acked = self.samples().filter_map(|s| Some((s.at, s.bytes_acked?)));
        let acked: Vec<(Instant, u64)> = acked.collect();
        let mut from = 0;
        let rate = |&(at, bytes): &(Instant, u64)| {
            let is_whole = |begin: &(Instant, u64)| at.since(begin.0) >= least;
            while acked.get(from + 1).is_some_and(is_whole) {
                from += 1;
            }
            let (begin, before) = acked[from];
            let time = at.since(begin);
            let is_long = time >= least && !time.is_zero();
            is_long.then(|| (time, Rate::of(bytes.saturating_sub(before), time)))
        };
        acked.iter().filter_map(rate).collect()
    }

    /// Bandwidth-delay product of the best rate and the smallest round-trip time, in bytes.
    #[must_use]
    pub fn bdp_bytes(&self) -> Option<u64> {
        Some(self.best_rate()?.bdp_bytes(self.min_rtt()?))
    }

    /// Payload per data segment; `None` where none was sent.
    #[must_use]
    pub fn segment_bytes(&self) -> Option<u64> {
        self.counted(|s| s.bytes_sent)?
            .checked_div(self.counted(|s| s.data_segs_out)?)
    }

    /// Payload of a full segment.
    #[must_use]
    pub fn mss_bytes(&self) -> Option<u32> {
        self.latest(|s| s.snd_mss_bytes).filter(|mss| *mss > 0)
    }

    /// The interval cut at gaps longer than the retransmission timeout, in which nothing was out.
    #[must_use]
    pub fn bursts(&self) -> Vec<Burst> {
        let mut bursts: Vec<Burst> = Vec::new();
        let active = self
            .samples()
            .filter(|sample| is_idle(sample) == Some(false));
        for sample in active {
            let gap = sample.rto.unwrap_or(SHORTEST_GAP).max(SHORTEST_GAP);
            match bursts.last_mut() {
                Some(burst) if sample.at.since(burst.end) <= gap => {
                    burst.end = sample.at;
                    burst.cwnd_max_pkts = burst.cwnd_max_pkts.max(sample.cwnd_pkts);
                }
                _ => bursts.push(Burst {
                    begin: sample.at,
                    end: sample.at,
                    cwnd_max_pkts: sample.cwnd_pkts,
                    cwnd_begin_pkts: sample.cwnd_pkts,
                }),
            }
        }
        bursts
    }
}

/// Nothing to send and nothing in flight; `None` if that cannot be seen.
pub(crate) fn is_idle(sample: &FlowSample) -> Option<bool> {
    let unacked = sample.unacked_pkts?;
    let notsent = sample.notsent_bytes.or((unacked > 0).then_some(0))?;
    Some(unacked == 0 && notsent == 0)
}

/// Whether an end at rest opened the connection: the kernel counts the SYN among the bytes that
/// were acknowledged at the end that sent it, and no other end's (`tcp_ack`).
pub(crate) fn opened_here(sample: &FlowSample) -> Option<bool> {
    let is_open = sample.state == Some(TcpState::Established);
    if sample.source != Source::SockDiag || !is_open || is_idle(sample) != Some(true) {
        return None;
    }
    let sent = sample.bytes_sent?.checked_sub(sample.bytes_retrans?)?;
    match sample.bytes_acked?.checked_sub(sent)? {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

/// Congestion window left: `cwnd - packets out`; 0 where it is full.
pub(crate) fn cwnd_room_pkts(sample: &FlowSample) -> Option<u32> {
    Some(sample.cwnd_pkts?.saturating_sub(sample.packets_out()?))
}

/// Room in the peer's window: `snd_wnd - bytes out`.
pub(crate) fn window_room_bytes(sample: &FlowSample) -> Option<u64> {
    Some(u64::from(sample.snd_wnd_bytes?).saturating_sub(sample.bytes_out()?))
}

/// Whether the send buffer is known to be used up.
pub(crate) fn fills_sndbuf(sample: &FlowSample) -> bool {
    matches!(
        (sample.wmem_queued_bytes, sample.sndbuf_bytes),
        (Some(queued), Some(limit)) if u64::from(queued) * 10 >= u64::from(limit) * 9
    )
}

/// `part / whole` as a share from 0 to 1; `None` where the whole is nothing.
pub(crate) fn ratio_of_times(part: Duration, whole: Duration) -> Option<f64> {
    (!whole.is_zero()).then(|| (part.as_secs_f64() / whole.as_secs_f64()).min(1.0))
}

fn share_of(votes: impl Iterator<Item = (Option<bool>, u32)>, enough: usize) -> Option<f64> {
    let (mut yes, mut known) = (0_usize, 0_usize);
    for (vote, looks) in votes {
        let Some(vote) = vote else { continue };
        known += looks as usize;
        yes += if vote { looks as usize } else { 0 };
    }
    (known >= enough).then(|| yes as f64 / known as f64)
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

const fn carries_no_data(state: TcpState) -> bool {
    matches!(
        state,
        TcpState::Listen
            | TcpState::SynSent
            | TcpState::SynReceived
            | TcpState::TimeWait
            | TcpState::Closed
    )
}

#[cfg(test)]
mod tests;
