//! Observables of one service, which a twin has to reproduce: computed in the same way from a real
//! look and from one at a twin, so that errors of the sensors are in both.

use std::time::Duration;

use base::{FlowSample, Fraction, Instant, Limit};
use doctor::{Place, Services, Shares, Timeline, Track};
use lab::{End, Measure};

use super::arriving::{DensestTrain, arrivals, crest, interval, swing, train};
use crate::row::is_for_control;
use crate::subject::Look;

/// And where that is so much above the mean that it is not simply the rate of the program.
const TRAIN_FACTOR: f64 = 1.3;
/// Largest ratio of arrival rates that counts as even.
const EVEN_FACTOR: f64 = 1.15;
/// A train from this share of BBR's pace on has what BBR sends; behind a link it has four fifths.
const BBR_PACE_SHARE: f64 = 0.9;
/// Quantile of the packets in flight that is taken as the window of trains.
const WINDOW_SHARE: f64 = 0.8;
const WINDOW_FACTOR: f64 = 1.5;
/// The densest trains are those of the densest 2 % of the time, in which the window may be largest.
const WINDOW_HIGH_SHARE: f64 = 0.98;
/// A sender that TCP or the path limits for less than this share of the time is limited by its
/// program.
pub(super) const TRANSPORT_SHARE: f64 = 0.4;
/// A program waits for room in its send buffer where that is the limit for this much of the time.
const FULL_BUFFER_SHARE: f64 = 0.1;
/// Quantile of what a program keeps in its send buffer that is taken for the most of it.
const HELD_SHARE: f64 = 0.95;
/// A receiver with unread data in this many of the samples is slow to read.
pub(super) const UNREAD_SHARE: f64 = 0.9;
/// Fewer samples of a connection tell no percentiles.
pub(super) const SAMPLES_MIN: usize = 10;
/// IPv4 and TCP with timestamps.
pub(super) const HEADERS_BYTES: f64 = 52.0;
/// Smoothed round-trip times are so far up when a queue overflows, as a share of their range.
const RANDOM_SHARE: f64 = 0.6;
/// Fewer segments than these in one direction are no answers.
const ANSWERS_MIN: f64 = 3.0;
/// A transfer of so many round trips is more than its start.
const TRANSFER_ROUND_TRIPS: f64 = 20.0;
/// A sender that TCP or the path limits for this share of the time does not wait for answers.
const STREAM_SHARE: f64 = 0.95;
/// The same where it waits for room in its send buffer.
const FILLING_SHARE: f64 = 0.9;

/// One direction of the connections, all together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Way {
    /// Payload per second that arrived.
    pub bps: f64,
    /// Segments with payload per second, retransmissions included.
    pub segments_per_s: f64,
}

/// Losses of one round trip.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LostTogether {
    /// Segments that were retransmitted in a round trip, on average of those in which some were.
    pub segments: f64,
    /// How many such round trips there were.
    pub times: f64,
}

/// Observable properties of connections, recorded or in a twin, by which the two are compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Observables {
    /// How long was looked.
    pub span: Duration,
    /// Which end was looked at, of the two that a trial has.
    pub here: End,
    /// Whether the other end was seen too.
    pub both_ends: bool,
    /// Connections that were open for most of the time.
    pub connections: usize,
    /// Connections that came or went.
    pub short_connections: usize,
    /// Client to server.
    pub up: Way,
    /// Server to client.
    pub down: Way,
    /// Payload of a full segment.
    pub mss_bytes: f64,
    /// Smallest round-trip time, in seconds.
    pub min_rtt: Option<f64>,
    /// Median of the smoothed round-trip times of the sender.
    pub srtt: Option<f64>,
    /// Their 90th percentile.
    pub srtt_high: Option<f64>,
    /// The largest.
    pub srtt_max: Option<f64>,
    /// Median of the mean deviation of the round-trip times.
    pub rttvar: Option<f64>,
    /// Share of the segments that were retransmitted.
    pub lost_share: f64,
    /// Segments that this share was counted from.
    pub lost_of: f64,
    /// What was retransmitted in round trips in which something was.
    pub lost_together: Option<LostTogether>,
    /// Median of the smoothed round-trip times just before losses, where there were any.
    pub srtt_at_loss: Option<f64>,
    /// Reordering events per segment that arrived out of order and was not lost.
    pub reordered_share: f64,
    /// Mean distance of two samples.
    pub interval: Duration,
    /// Segments in flight most of the time when there are many.
    pub window_pkts: Option<f64>,
    /// The same where there are most, as long as trains are looked at.
    pub window_high_pkts: Option<f64>,
    /// How densely data arrives at most.
    pub crest: Option<DensestTrain>,
    /// The same over as long a time as trains last.
    pub train: Option<DensestTrain>,
    /// The fastest that BBR sent, in bit/s of payload: no train is denser. `None` of another
    /// congestion control.
    pub bbr_pace_bps: Option<f64>,
    /// How unevenly data arrives within a round trip: how far it runs ahead of its mean rate and
    /// falls behind, as a share of what arrives in a round trip. 0 where it flows evenly, near 1
    /// where all of it comes at once.
    pub swing: Option<f64>,
    /// Share of the time in which the sender had data out or to send.
    pub busy_share: Option<f64>,
    /// Share of the time in which congestion control, the window or a buffer was the limit, and not
    /// the program or its writes.
    pub transport_share: Option<f64>,
    /// Whether the sender's program waits for room in its send buffer in most samples.
    pub fills_buffer: bool,
    /// What the sender's program keeps written and not acknowledged, as a share of its send buffer.
    pub held: Option<f64>,
    /// That buffer at the end of the look, in bytes.
    pub buffer_bytes: Option<u64>,
    /// Share of the time in which congestion control was.
    pub congestion_share: Option<f64>,
    /// Share of the busy time in which the receiver's window was zero.
    pub window_shut_share: Option<f64>,
    /// Share of the samples in which data that the receiver's program has not taken waits.
    pub unread_share: Option<f64>,
    /// How old the connection was when the look began.
    pub age: Duration,
    /// Results of the program.
    pub measure: Measure,
}

/// The samples of a track at one end with those of its other end.
pub(super) struct Pair<'r> {
    pub(super) here: &'r Track,
    pub(super) there: Option<&'r Track>,
}

impl Observables {
    /// The observables of the connections of `place` in `look`; `None` where there are none.
    #[must_use]
    pub fn of(look: &Look, place: Place) -> Option<Self> {
        let pairs = pairs(look, place);
        let span = look.here.ended.since(look.here.began);
        let here = end_of(place);
        let main = pairs.iter().max_by_key(|pair| order(pair.here))?;
        let is_short = |pair: &&Pair<'_>| is_short(pair.here, span);
        let short_connections = pairs.iter().filter(is_short).count();
        let [sent, received] = ways(look, &pairs);
        let (up, down) = match here {
            End::Client => (sent, received),
            End::Server => (received, sent),
        };
        let sends_here = sent.bps >= received.bps;
        let until_first_data = handshake(here, sends_here, min_rtt(&pairs));
        let (sender, receiver) = match (sends_here, main.there) {
            (true, there) => (Some(main.here), there),
            (false, there) => (there, Some(main.here)),
        };
        let shares = sender.and_then(shares);
        let rtts = Rtts::of(sender.unwrap_or(main.here));
        let losses = Losses::of(pairs.iter().filter_map(|pair| match sends_here {
            true => Some(pair.here),
            false => pair.there,
        }));
        let mss = mss(sender.unwrap_or(main.here));
        let is_lossy = losses.share() > 0.0;
        let arrivals = arrivals(&look.close, (sender, receiver), (is_lossy, mss));
        let crest = crest(&arrivals, mss, receiver.is_some());
        let window_at = |share| sender.and_then(|sender| window_pkts(sender, share));
        let window_pkts = window_at(WINDOW_SHARE);
        Some(Self {
            span,
            here,
            both_ends: main.there.is_some(),
            connections: carrying(&pairs).filter(|pair| !is_short(pair)).count(),
            short_connections,
            up,
            down,
            mss_bytes: mss,
            min_rtt: min_rtt(&pairs),
            srtt: rtts.at(0.5),
            srtt_high: rtts.at(0.9),
            srtt_max: rtts.at(1.0),
            rttvar: rttvar(sender.unwrap_or(main.here)),
            lost_share: losses.share(),
            lost_of: losses.segments,
            lost_together: losses.together(),
            srtt_at_loss: percentile(losses.srtts.clone(), 0.5),
            reordered_share: losses.reordered,
            interval: interval(look, main.here),
            window_pkts,
            window_high_pkts: window_at(WINDOW_HIGH_SHARE),
            crest,
            train: crest
                .zip(window_pkts)
                .map(|(crest, window)| train(&arrivals, crest, window, mss)),
            bbr_pace_bps: sender.and_then(bbr_pace_bps),
            swing: swing(&arrivals, min_rtt(&pairs)),
            busy_share: sender.and_then(busy_share),
            transport_share: shares.map(|shares| transport_share(shares, sender)),
            fills_buffer: sender.is_some_and(fills_buffer),
            held: sender.and_then(held),
            buffer_bytes: sender.and_then(buffer_bytes),
            congestion_share: shares.map(congestion_share),
            window_shut_share: sender.and_then(window_shut_share),
            unread_share: receiver.map(unread_share),
            age: age(sender.unwrap_or(main.here), until_first_data),
            measure: look.measure,
        })
    }

    /// Whether packets were lost where the queue was not full, as it is when it overflows; `None`
    /// where none were lost before one's eyes.
    #[must_use]
    pub fn loses_at_random(&self) -> Option<bool> {
        let (at_loss, most) = self.srtt_at_loss.zip(self.srtt_max)?;
        let least = self.min_rtt?;
        Some(at_loss - least < RANDOM_SHARE * (most - least))
    }

    /// How many segments are lost in a row on average, where chance decides of it.
    #[must_use]
    pub(super) fn in_a_row(&self) -> f64 {
        let together = self.lost_together.filter(|_| self.loses_by_chance());
        together.map_or(1.0, |together| together.segments)
    }

    /// Whether chance decides of its losses.
    #[must_use]
    pub fn loses_by_chance(&self) -> bool {
        self.lost_share > 0.0 && self.loses_at_random() == Some(true)
    }

    /// The end that sends the payload.
    #[must_use]
    pub fn sender(&self) -> End {
        if self.up.bps >= self.down.bps {
            End::Client
        } else {
            End::Server
        }
    }

    /// The direction with the payload.
    #[must_use]
    pub fn main(&self) -> Way {
        if self.up.bps >= self.down.bps {
            self.up
        } else {
            self.down
        }
    }

    /// Whether nothing waits for an answer: data goes one way, and not a few times only. What comes
    /// back may tell a stream how far it may go on, as in SSH and HTTP/2.
    #[must_use]
    pub fn is_one_way(&self) -> bool {
        let answers = self.up.segments_per_s.min(self.down.segments_per_s);
        let is_told = self
            .measure
            .operations_per_s
            .is_some_and(|count| count > 0.0);
        let least = match self.fills_buffer {
            true => FILLING_SHARE,
            false => STREAM_SHARE,
        };
        let never_waits = || self.transport_share.is_some_and(|share| share >= least);
        let answers = answers * self.span.as_secs_f64();
        let is_asked_once = || {
            self.long_transfer().is_some() && answers < ANSWERS_MIN * self.short_connections as f64
        };
        answers < ANSWERS_MIN || is_asked_once() || (!is_told && never_waits())
    }

    /// How long a transfer takes in seconds, one on each connection, where that is much longer than
    /// its window takes to grow: arithmetic tells more of others.
    #[must_use]
    pub fn long_transfer(&self) -> Option<f64> {
        let time = self.measure.transfer_us? as f64 / 1e6;
        let is_long = time >= TRANSFER_ROUND_TRIPS * self.min_rtt?;
        (is_long && self.short_connections > self.connections).then_some(time)
    }

    /// Whether all that is sent are messages of less than a segment.
    #[must_use]
    pub fn is_small(&self) -> bool {
        let segment = |way: Way| way.bps / 8.0 / way.segments_per_s.max(1e-9);
        segment(self.up).max(segment(self.down)) < 0.7 * self.mss_bytes
    }

    /// Payload per second, as the program counts it where it does.
    #[must_use]
    pub fn goodput_bps(&self) -> f64 {
        let told = self.measure.goodput_bps;
        // What the kernel counts is that of whole looks, and this of the samples.
        if told == 0 || self.measure.busy_goodput_bps.is_some() {
            self.main().bps
        } else {
            told as f64
        }
    }

    /// Packets and calls per second that a run of a twin has to go through, about.
    #[must_use]
    pub fn events_per_s(&self) -> f64 {
        let segments = self.up.segments_per_s + self.down.segments_per_s;
        segments.max(self.goodput_bps() / 8.0 / self.mss_bytes)
    }

    /// Median response time in seconds, where a program told.
    #[must_use]
    pub fn response(&self) -> Option<f64> {
        // Where nothing is answered, it is the time of a call.
        let response = self.measure.response_us.filter(|response| response.n > 0);
        let response = response.filter(|_| !self.is_one_way() || self.short_connections > 0)?;
        Some(response.p50 as f64 / 1e6)
    }

    /// The rate of the link, in bit/s of whole packets, where trains of packets show it.
    #[must_use]
    pub fn link_bps(&self) -> Option<f64> {
        let crest = self.crest.filter(|crest| crest.is_plateau)?;
        let is_of_train = self.window_pkts? >= WINDOW_FACTOR * crest.segments;
        // Over more than a part of a round trip it is the mean of trains and pauses.
        let is_short = crest.time <= self.min_rtt? / 2.0;
        let has_pauses = crest.bps > TRAIN_FACTOR * self.mean_bps();
        // A program's own pace may look like that of a link.
        let is_program = self
            .transport_share
            .is_some_and(|share| share < TRANSPORT_SHARE)
            || self.unread_share.is_some_and(|share| share > UNREAD_SHARE);
        let is_given = is_program || self.is_pace(crest) || self.is_of_largest_window(crest)?;
        let is_link = self.is_one_way() && is_of_train && is_short && has_pauses && !is_given;
        is_link.then_some(crest.rate() * (1.0 + HEADERS_BYTES / self.mss_bytes))
    }

    /// Whether a train is not denser than the largest window makes data that flows evenly: losses
    /// leave smaller ones most of the time.
    fn is_of_largest_window(&self, crest: DensestTrain) -> Option<bool> {
        let bytes = self.window_high_pkts? * self.mss_bytes;
        let evenly = bytes * 8.0 / self.min_rtt?;
        Some(self.lost_share > 0.0 && crest.rate() < TRAIN_FACTOR * evenly)
    }

    /// Whether trains are as dense as BBR sends them: behind a link it probes with a quarter more
    /// than arrives.
    pub(super) fn is_pace(&self, train: DensestTrain) -> bool {
        self.bbr_pace_bps
            .is_some_and(|pace| train.rate() >= BBR_PACE_SHARE * pace)
    }

    /// Whether data arrives without pauses, as behind a link that is never idle.
    #[must_use]
    pub fn is_even(&self) -> bool {
        self.crest
            .is_some_and(|crest| crest.is_plateau && crest.rate() < EVEN_FACTOR * self.mean_bps())
    }

    /// Lower bound of the bottleneck rate in bit/s of payload: the rate seen over a short train.
    #[must_use]
    pub fn at_least_bps(&self) -> f64 {
        let crest = self.crest.filter(|crest| crest.is_plateau);
        crest
            .map_or(0.0, |crest| crest.rate())
            .max(self.goodput_bps())
    }

    /// Payload per second of one connection, on average.
    fn mean_bps(&self) -> f64 {
        self.main().bps / self.connections.max(1) as f64
    }

    /// Median queueing delay: what queues add to the smallest round-trip time.
    #[must_use]
    pub fn queue_time(&self) -> Option<f64> {
        Some((self.srtt? - self.min_rtt?).max(0.0))
    }
}

/// See [`Observables::rttvar`].
fn rttvar(track: &Track) -> Option<f64> {
    let deviation = |s: &FlowSample| s.rttvar.map(|time| time.as_secs_f64());
    percentile(values(track, deviation), 0.5)
}

/// See [`Observables::window_pkts`].
fn window_pkts(sender: &Track, share: f64) -> Option<f64> {
    let in_flight = |s: &FlowSample| Some(f64::from(s.unacked_pkts?));
    percentile(values(sender, in_flight), share)
}

fn bbr_pace_bps(sender: &Track) -> Option<f64> {
    let is_bbr = |s: &FlowSample| s.congestion.is_some_and(|name| name.starts_with("bbr"));
    let paces = values(sender, |s| {
        let pace = s.pacing_rate.filter(|_| is_bbr(s))?;
        Some(pace.bits_per_second() as f64)
    });
    percentile(paces, 1.0)
}

/// The end of a trial that a place stands for.
pub(crate) const fn end_of(place: Place) -> End {
    match place {
        Place::Remote(_) => End::Client,
        Place::Listening(_) => End::Server,
    }
}

/// The tracks of a service with their other ends.
pub(super) fn pairs(look: &Look, place: Place) -> Vec<Pair<'_>> {
    let other = |track: &Track| {
        let (recording, _) = look.there.as_ref()?;
        let key = track.key.reversed();
        recording.flows.iter().find(|other| other.key == key)
    };
    let services = Services::of(&look.here);
    let tracks = look.here.flows.iter();
    tracks
        .filter(|track| services.place(track.key) == place && !track.samples.is_empty())
        .map(|here| Pair {
            here,
            there: other(here),
        })
        .collect()
}

fn is_short(track: &Track, span: Duration) -> bool {
    let ends = track.samples.first().zip(track.samples.last());
    ends.is_none_or(|(first, last)| last.at.since(first.at) < span.mul_f64(0.6))
}

/// Those that carry something beside the others, of which a twin has as many: iperf3 has one more,
/// for control.
pub(super) fn carrying<'p, 'r>(pairs: &'p [Pair<'r>]) -> impl Iterator<Item = &'p Pair<'r>> {
    let most = pairs.iter().map(|pair| segments(pair.here)).max();
    let most = most.unwrap_or(0);
    pairs
        .iter()
        .filter(move |pair| !is_for_control(segments(pair.here), most))
}

/// Segments with payload, both ways: a request is little beside its answer in bytes alone.
fn segments(track: &Track) -> u64 {
    grown(track, |s| s.data_segs_out) + grown(track, |s| s.data_segs_in)
}

fn moved(track: &Track) -> u64 {
    sent(track) + grown(track, |s| s.bytes_received)
}

/// By which the connection is chosen that stands for all: of those that carry about as much, one
/// that sends.
fn order(track: &Track) -> (u32, u64) {
    (moved(track).max(1).ilog2(), sent(track))
}

fn sent(track: &Track) -> u64 {
    grown(track, |s| s.bytes_acked)
}

/// Growth of a counter from the first sample to the last.
fn grown(track: &Track, read: fn(&FlowSample) -> Option<u64>) -> u64 {
    let first = track.samples.first().and_then(read);
    let ends = first.zip(track.samples.last().and_then(read));
    ends.map_or(0, |(first, last)| last.saturating_sub(first))
}

/// Bytes and segments that one end sent and received.
fn counted(track: &Track, was_open: bool) -> [(f64, f64); 2] {
    let difference = |read: fn(&FlowSample) -> Option<u64>| {
        let first = track.samples.first().and_then(read).filter(|_| was_open);
        let last = track.samples.last().and_then(read).unwrap_or(0);
        last.saturating_sub(first.unwrap_or(0)) as f64
    };
    [
        (
            difference(|s| s.bytes_acked),
            difference(|s| s.data_segs_out),
        ),
        (
            difference(|s| s.bytes_received),
            difference(|s| s.data_segs_in),
        ),
    ]
}

fn values(track: &Track, read: impl Fn(&FlowSample) -> Option<f64>) -> Vec<f64> {
    track
        .samples
        .iter()
        .filter_map(|sample| read(&sample))
        .collect()
}

/// Losses of the whole life of a connection are counted where their share differs from that of the
/// look by no more standard deviations of the difference of two shares.
const LIFE_DEVIATIONS: f64 = 2.0;

/// The value below which this share of them lies.
pub(super) fn percentile(mut values: Vec<f64>, share: f64) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    values.get((last as f64 * share).round() as usize).copied()
}

struct Rtts(Vec<f64>);

impl Rtts {
    fn of(track: &Track) -> Self {
        Self(values(track, |s| s.srtt.map(|time| time.as_secs_f64())))
    }

    fn at(&self, share: f64) -> Option<f64> {
        percentile(self.0.clone(), share)
    }
}

/// After a retransmission the kernel takes a round-trip time from timestamps, in whole milliseconds
/// and rounded down (`tcp_ack_update_rtt`): others are nearer.
fn min_rtt(pairs: &[Pair<'_>]) -> Option<f64> {
    let tracks = || {
        let ends = pairs.iter().flat_map(|pair| [Some(pair.here), pair.there]);
        ends.flatten().flat_map(|track| track.samples.iter())
    };
    let least = |read: fn(&FlowSample) -> Option<Duration>| {
        let times = tracks().filter_map(|sample| read(&sample));
        times.filter(|time| !time.is_zero()).min()
    };
    let is_whole = |time: Duration| time.subsec_micros().is_multiple_of(1000);
    let rounded = least(|s| s.min_rtt)?;
    let exact = || {
        let times = tracks().filter_map(|sample| sample.min_rtt);
        let exact = times
            .filter(|time| !time.is_zero() && !is_whole(*time))
            .min();
        let smooth = least(|s| s.srtt).map_or(rounded, |srtt| srtt.max(rounded));
        let upper = rounded + Duration::from_millis(1);
        exact.unwrap_or(smooth).min(upper)
    };
    let time = match is_whole(rounded) {
        true => exact(),
        false => rounded,
    };
    Some(time.as_secs_f64())
}

fn mss(track: &Track) -> f64 {
    let mss = track.samples.last().and_then(|s| s.snd_mss_bytes);
    f64::from(mss.unwrap_or(1448))
}

/// Segments that were retransmitted.
#[derive(Debug, Default)]
struct Losses {
    again: f64,
    segments: f64,
    srtts: Vec<f64>,
    reordered: f64,
    /// Round trips of the look in which segments were retransmitted, and how many were.
    times: f64,
    in_times: f64,
}

impl Losses {
    fn of<'r>(tracks: impl Iterator<Item = &'r Track>) -> Self {
        let mut losses = Self::default();
        for track in tracks {
            let Some(last) = track.samples.last() else {
                continue;
            };
            let again = last.retrans_total_pkts.unwrap_or(0);
            let spurious = last.dsack_dups.unwrap_or(0);
            let life = [
                again.saturating_sub(spurious) as f64,
                last.data_segs_out.unwrap_or(0) as f64,
            ];
            let first = track.samples.first();
            let before = |read: fn(&FlowSample) -> Option<u64>| first.and_then(read).unwrap_or(0);
            let again_now = again.saturating_sub(before(|s| s.retrans_total_pkts));
            let spurious_now = spurious.saturating_sub(before(|s| s.dsack_dups));
            let sent_now = last.data_segs_out.unwrap_or(0) - before(|s| s.data_segs_out);
            let now = [
                again_now.saturating_sub(spurious_now) as f64,
                sent_now as f64,
            ];
            // What was lost when it began is another matter: slow start overflows every queue.
            let [again, sent] = if are_alike(life, now) { life } else { now };
            losses.again += again;
            losses.segments += sent;
            losses.reordered += last.reord_seen.unwrap_or(0) as f64;
            losses.look_at(track);
        }
        losses.reordered /= losses.segments.max(1.0);
        losses
    }

    /// Counts losses one after the other.
    fn look_at(&mut self, track: &Track) {
        let mut before = None;
        let mut began: Option<Instant> = None;
        for sample in track.samples.iter() {
            let now = (sample.retrans_total_pkts, sample.srtt);
            let Some((Some(had), Some(srtt))) = before.replace(now) else {
                continue;
            };
            let more = now.0.unwrap_or(had).saturating_sub(had);
            if more == 0 {
                continue;
            }
            self.srtts.push(srtt.as_secs_f64());
            self.in_times += more as f64;
            // One look may fall between retransmissions of one round trip.
            if began.is_none_or(|began| sample.at.since(began) > srtt) {
                self.times += 1.0;
                began = Some(sample.at);
            }
        }
    }

    fn together(&self) -> Option<LostTogether> {
        (self.times > 0.0).then(|| LostTogether {
            segments: self.in_times / self.times,
            times: self.times,
        })
    }

    fn share(&self) -> f64 {
        if self.segments > 0.0 {
            self.again / self.segments
        } else {
            0.0
        }
    }
}

/// Whether losses were as frequent in the whole life of a connection as in the look at it, as far
/// as their numbers tell: each is that of the losses and that of the segments.
fn are_alike(life: [f64; 2], now: [f64; 2]) -> bool {
    let share = |[lost, sent]: [f64; 2]| lost / f64::max(sent, 1.0);
    let before = [life[0] - now[0], life[1] - now[1]];
    let variance = share(life) * (1.0 / before[1].max(1.0) + 1.0 / now[1].max(1.0));
    let difference = (share(before) - share(now)).abs();
    now[0] > 0.0 && difference <= LIFE_DEVIATIONS * variance.sqrt()
}

/// Bytes sent and received by the connections at this end.
fn ways(look: &Look, pairs: &[Pair<'_>]) -> [Way; 2] {
    let seconds = look
        .here
        .ended
        .since(look.here.began)
        .as_secs_f64()
        .max(1e-6);
    let first_look = look.here.first_look();
    let mut ways = [Way::default(); 2];
    for pair in pairs {
        let was_open = pair.here.was_open_at(first_look);
        let counted = counted(pair.here, was_open);
        for (way, (bytes, segments)) in ways.iter_mut().zip(counted) {
            way.bps += bytes * 8.0 / seconds;
            way.segments_per_s += segments / seconds;
        }
    }
    ways
}

fn time_share(track: &Track, read: fn(&FlowSample) -> Option<Duration>) -> Option<(f64, f64)> {
    let (first, last) = (track.samples.first()?, track.samples.last()?);
    let time = read(last)?.checked_sub(read(first)?)?;
    Some((
        time.as_secs_f64(),
        last.at.since(first.at).as_secs_f64().max(1e-6),
    ))
}

fn busy_share(track: &Track) -> Option<f64> {
    let (busy, all) = time_share(track, |s| s.busy_time)?;
    Some((busy / all).min(1.0))
}

fn shares(track: &Track) -> Option<Shares> {
    let mut timeline = Timeline::new();
    track
        .samples
        .iter()
        .for_each(|sample| timeline.push(sample));
    Shares::of_timeline(&timeline)
}

/// Whether a program waits for room in its send buffer in most samples: it is woken when a third is
/// free (`sk_stream_is_writeable`), whatever holds the last piece of what it wrote.
fn fills_buffer(track: &Track) -> bool {
    let is_full =
        |s: &FlowSample| Some(3 * u64::from(s.wmem_queued_bytes?) > 2 * u64::from(s.sndbuf_bytes?));
    let full = track
        .samples
        .iter()
        .filter(|s| is_full(s) == Some(true))
        .count();
    full * 2 > track.samples.len()
}

fn buffer_bytes(track: &Track) -> Option<u64> {
    track.samples.last()?.sndbuf_bytes.map(u64::from)
}

/// See [`Observables::held`].
fn held(track: &Track) -> Option<f64> {
    let share = |s: &FlowSample| {
        let sent = u64::from(s.unacked_pkts?) * u64::from(s.snd_mss_bytes?);
        let bytes = sent + u64::from(s.notsent_bytes?);
        Some(bytes as f64 / f64::from(s.sndbuf_bytes.filter(|bytes| *bytes > 0)?))
    };
    percentile(values(track, share), HELD_SHARE)
}

fn transport_share(shares: Shares, sender: Option<&Track>) -> f64 {
    let send_buffer = shares.get(Limit::SendBuffer);
    let is_held = send_buffer >= FULL_BUFFER_SHARE || sender.is_some_and(fills_buffer);
    // If the send buffer is full, the program has written more: Nagle's algorithm only holds the
    // end of it.
    let held = match is_held {
        true => shares.get(Limit::Nagle),
        false => 0.0,
    };
    congestion_share(shares) + shares.get(Limit::PeerWindow) + send_buffer + held
}

fn congestion_share(shares: Shares) -> f64 {
    let limits = [Limit::Congestion, Limit::Recovery, Limit::Pacing];
    limits.into_iter().map(|limit| shares.get(limit)).sum()
}

fn window_shut_share(track: &Track) -> Option<f64> {
    let (shut, _) = time_share(track, |s| s.rwnd_limited_time)?;
    let (busy, _) = time_share(track, |s| s.busy_time)?;
    (busy > 0.0).then(|| (shut / busy).min(1.0))
}

fn unread_share(track: &Track) -> f64 {
    let has = track
        .samples
        .iter()
        .filter(|s| s.unread_bytes.is_some_and(|bytes| bytes > 0));
    has.count() as f64 / track.samples.len().max(1) as f64
}

/// How long its sender has been busy so far, and the time before its first data; or, where that
/// takes longer because of pauses or is unknown, as long as it takes to carry what it has carried
/// at the rate of the look. A window that grew since makes the latter too short: a connection over
/// a satellite is in slow start for seconds.
fn age(track: &Track, until_first_data: Duration) -> Duration {
    let ends = || Some((track.samples.first()?, track.samples.last()?));
    let Some((first, last)) = ends() else {
        return Duration::ZERO;
    };
    let busy = first
        .busy_time
        .map_or(Duration::ZERO, |busy| busy + until_first_data);
    let carried = |s: &FlowSample| s.bytes_acked.unwrap_or(0) + s.bytes_received.unwrap_or(0);
    let (before, moved) = (carried(first), carried(last).saturating_sub(carried(first)));
    let time = last.at.since(first.at);
    let evenly = match moved {
        0 => Duration::ZERO,
        moved => time.mul_f64((before as f64 / moved as f64).min(1e6)),
    };
    busy.max(evenly)
}

/// From the start of a connection until its sender can send: a server hears of it half a round
/// trip after the client does.
fn handshake(here: End, sends_here: bool, min_rtt: Option<f64>) -> Duration {
    let sender = if sends_here { here } else { here.other() };
    let round_trips = match sender {
        End::Client => 1.0,
        End::Server => 1.5,
    };
    Duration::from_secs_f64(round_trips * min_rtt.unwrap_or(0.0))
}

/// A share as links are told it.
pub(super) fn fraction(share: f64) -> Fraction {
    Fraction::from_parts((share.clamp(0.0, 1.0) * 1e9).round() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_slow_start_lost_is_not_counted_with_later_losses() {
        assert!(!are_alike([70.0, 24_000.0], [15.0, 15_000.0]));
        assert!(are_alike([28.0, 24_000.0], [15.0, 15_000.0]));
        assert!(!are_alike([3.0, 24_000.0], [0.0, 15_000.0]));
        assert!(are_alike([15.0, 15_000.0], [15.0, 15_000.0]));
    }
}
