//! The whole of a capture: packets go in, a recording for the doctor comes out.

use core::cmp::Reverse;
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};
use std::io::BufRead;
use std::net::IpAddr;

use base::pcap::{CapturedPacket, PcapError, Reader};
use base::tcp::TcpFlags;
use base::{FlowKey, Instant};
use doctor::recording::Alike;
use doctor::{Recording, Samples, Track};

use crate::flow::Flow;
use crate::look::LookBudget;
use crate::packet::{self, Found, Segment};
use crate::summary::{CaptureSummary, FlowSummary, Vantage};
use crate::table::{Place, Table};
use crate::trace::FlowTrace;

/// Packets between two pauses.
const PACKETS_AT_ONCE: u32 = 4096;
/// A connection that was reset is kept for what may still come; of one that both ends have closed,
/// only that there was one.
const LINGER: Duration = Duration::from_secs(2);
/// What comes so soon behind a connection's last packet is of it: without payload, that packet once
/// more; with payload, one that the capture took from another queue.
const SOON_NANOS: u64 = 2_000_000;
/// A clock that goes back by more was set; by less, packets of several queues were mixed.
const CLOCK_SET: Duration = Duration::from_secs(60);
/// No capture has a pause that is longer.
const PAUSE_MAX: Duration = Duration::from_secs(30 * 24 * 3600);
/// Places that are looked at for each new connection, so that ended ones go in time.
const SWEEP: usize = 2;
/// Connections whose memory is kept for the next ones.
const SPARE_MAX: usize = 64;
/// Points kept of open connections for time-sequence plots, in total: 24 or 32 bytes each. When
/// there are more, the connections with least payload lose theirs.
const TRACE_POINTS_MAX: usize = 1 << 20;

/// How a capture is looked at, and what it may take.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Mean distance of looks at a connection; they are rarer in captures of many connections.
    pub interval: Duration,
    /// Connections that are open at a time; the one that was silent longest goes first.
    pub open_max: usize,
    /// Connections that are handed to the doctor: those with most payload.
    pub judged_max: usize,
    /// Two numbers that writers of packets cannot know.
    pub hash_keys: [u64; 2],
    /// Whether each connection is told of by [`Analysis::poll_flow`].
    pub lists_flows: bool,
    /// Connections of which [`Analysis::traces`] tells: those with most payload.
    pub traced_max: usize,
}

impl Default for Settings {
    /// Interval of the live sensors; a million connections, of which 10 000 are judged.
    fn default() -> Self {
        Self {
            interval: Duration::from_millis(10),
            open_max: 1_000_000,
            judged_max: 10_000,
            hash_keys: [0x9e37_79b9_7f4a_7c15, 0xd1b5_4a32_d192_ed03],
            lists_flows: false,
            traced_max: 0,
        }
    }
}

/// Takes the packets of a capture one after the other; see [`Analysis::handle`].
#[derive(Debug)]
pub struct Analysis {
    settings: Settings,
    table: Table,
    summary: CaptureSummary,
    began: Option<Instant>,
    ended: Instant,
    serial: u64,
    /// Open connections that are looked at.
    looked_at: usize,
    budget: LookBudget,
    /// Ended connections.
    done: Done,
    /// What looks of ended connections have in common.
    alike: Alike,
    /// Memory of connections that have ended, for the next ones: in a capture of short connections
    /// getting it anew takes a tenth of the time.
    #[expect(clippy::vec_box, reason = "it is the memory that is kept")]
    spare: Vec<Box<Flow>>,
    summaries: VecDeque<FlowSummary>,
    /// Packets by where they seem to have been captured.
    vantages: BTreeMap<Vantage, u64>,
    /// The end at which all of those that show one were captured; `None` behind the first that was
    /// captured elsewhere.
    place: Option<Option<IpAddr>>,
    /// Points of the traces of open connections.
    trace_points: usize,
    /// Traces of connections that have ended.
    traces: BTreeMap<Rank, FlowTrace>,
}

/// Connections with more payload are worth more; of equals the earlier one, so that the next one of
/// thousands that are alike costs nothing.
type Rank = (u64, Reverse<u64>);

fn rank_of(flow: &Flow) -> Rank {
    (flow.sends_most().1, Reverse(flow.serial))
}

/// Connections that are over. They are handed over in the memory in which they were put down, since
/// moving thousands of them takes time.
#[derive(Debug, Default)]
struct Done {
    /// Where each is.
    places: BTreeMap<Rank, usize>,
    tracks: Vec<[Track; 2]>,
    views: Vec<View>,
}

/// How a connection was seen.
#[derive(Debug)]
struct View {
    device: u32,
    first: Instant,
    last: Instant,
    /// How far each end is from the capture.
    near: [Option<Duration>; 2],
    vantage: Option<Vantage>,
}

impl Done {
    /// Whether one of this rank would be the least of more than `most`.
    fn is_too_small(&self, rank: Rank, most: usize) -> bool {
        let least = || self.places.first_key_value().map(|(least, _)| *least);
        self.places.len() >= most && least().is_none_or(|least| rank < least)
    }

    /// Takes one more, in place of the least if there would be more than `most`; whether that went.
    fn insert(&mut self, rank: Rank, (tracks, view): ([Track; 2], View), most: usize) -> bool {
        let is_full = self.places.len() >= most;
        let least = is_full.then(|| self.places.pop_first()).flatten();
        let place = least.map_or(self.tracks.len(), |(_, place)| place);
        match least {
            Some(_) => (self.tracks[place], self.views[place]) = (tracks, view),
            None => {
                self.tracks.push(tracks);
                self.views.push(view);
            }
        }
        self.places.insert(rank, place);
        least.is_some()
    }

    fn is_of_one_device(&self) -> bool {
        let mut devices = self.views.iter().map(|view| view.device);
        let first = devices.next();
        devices.all(|device| Some(device) == first)
    }

    /// The ends of all connections, in the order in which these appeared.
    fn into_tracks(mut self) -> Vec<Track> {
        if self.is_of_one_device() {
            self.tracks.sort_by_cached_key(|[low, _]| low.cookie);
            return self.tracks.into_flattened();
        }
        let mut tracks = from_the_nearest(self);
        tracks.sort_unstable_by_key(|track| track.cookie);
        tracks
    }
}

impl Analysis {
    /// Nothing seen yet.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            table: Table::new(settings.hash_keys),
            summary: CaptureSummary::default(),
            began: None,
            ended: Instant::ZERO,
            serial: 0,
            looked_at: 0,
            budget: LookBudget::new(),
            done: Done::default(),
            alike: Alike::default(),
            spare: Vec::new(),
            summaries: VecDeque::new(),
            vantages: BTreeMap::new(),
            place: None,
            trace_points: 0,
            traces: BTreeMap::new(),
        }
    }

    /// Takes a packet, in the order of the capture.
    pub fn handle(&mut self, packet: &CapturedPacket<'_>) {
        self.summary.packets += 1;
        self.summary.bytes += u64::from(packet.original_bytes);
        self.pass(packet.at);
        match &mut packet::look(packet) {
            Found::Segment(segment) => {
                self.summary.tcp_packets += 1;
                self.budget.earn();
                let is_cut = (packet.bytes.len() as u64) < u64::from(packet.original_bytes);
                self.summary.cut_packets += u64::from(is_cut);
                self.summary.cut_options_packets += u64::from(segment.has_cut_options);
                self.handle_segment(segment);
            }
            Found::Fragment => self.summary.fragments += 1,
            Found::Other => self.summary.other_packets += 1,
            Found::Unreadable => self.summary.unreadable_packets += 1,
        }
    }

    /// Time goes on, from where a clock was set to if it was.
    fn pass(&mut self, now: Instant) {
        let Some(began) = self.began else {
            (self.began, self.ended) = (Some(now), now);
            return;
        };
        if now >= self.ended {
            self.summary.clock_jumps += u64::from(now.since(self.ended) > PAUSE_MAX);
            self.ended = now;
        } else if self.ended.since(now) > CLOCK_SET {
            self.summary.clock_jumps += 1;
            (self.began, self.ended) = (Some(began.min(now)), now);
        }
    }

    fn handle_segment(&mut self, segment: &mut Segment) {
        let found = self.table.find(&segment.key);
        let old = found.map(|at| (at, Fit::of(self.table.place(at), segment)));
        let at = match old {
            Some((at, Fit::Same)) => at,
            Some((_, Fit::Late { is_twice })) => {
                self.summary.duplicate_packets += u64::from(is_twice);
                return;
            }
            Some((at, Fit::Other)) => {
                self.retire(at);
                self.open(segment)
            }
            None => self.open(segment),
        };
        let Place::Open(flow) = self.table.place(at) else {
            return;
        };
        if segment.payload_bytes > 0
            && !flow.is_looked_at()
            && self.looked_at < self.settings.judged_max
        {
            flow.begin_looks(segment.at, self.settings.interval);
            self.looked_at += 1;
        }
        let before = flow.trace_points();
        flow.handle(segment, &mut self.budget);
        self.trace_points = self.trace_points + flow.trace_points() - before;
        if flow.is_over() {
            let flow = self.table.take_over(at, segment.at);
            self.take_ended(flow);
        } else if self.trace_points > TRACE_POINTS_MAX {
            self.drop_traces();
        }
    }

    /// Forgets the traces of the connections with least payload, down to half of the bound.
    fn drop_traces(&mut self) {
        let flows = self.table.flows().filter(|flow| flow.trace_points() > 0);
        let mut sizes: Vec<(u64, u64, usize)> = flows
            .map(|flow| (flow.sends_most().1, flow.serial, flow.trace_points()))
            .collect();
        sizes.sort_unstable();
        let mut least = None;
        for (bytes, serial, points) in sizes {
            if self.trace_points <= TRACE_POINTS_MAX / 2 {
                break;
            }
            self.trace_points -= points;
            least = Some((bytes, serial));
        }
        for flow in self.table.flows() {
            if Some((flow.sends_most().1, flow.serial)) <= least {
                flow.drop_trace();
            }
        }
    }

    /// Apart from what each packet passes through, which is one function that way.
    #[inline(never)]
    fn open(&mut self, segment: &Segment) -> u32 {
        self.make_room(segment.at);
        let serial = self.serial;
        self.serial += 1;
        // Half of the places are for those that carry payload: what only knocks would take all.
        let is_looked_at = self.looked_at < self.settings.judged_max.div_ceil(2);
        self.looked_at += usize::from(is_looked_at);
        let interval = is_looked_at.then_some(self.settings.interval);
        let mut flow = match self.spare.pop() {
            Some(mut flow) => {
                flow.renew(segment, serial, interval);
                flow
            }
            None => Box::new(Flow::new(segment, serial, interval)),
        };
        if self.settings.traced_max > 0 {
            flow.begin_trace();
        }
        self.table.insert(flow)
    }

    fn make_room(&mut self, now: Instant) {
        let is_over = |place: &Place| match place {
            Place::Open(flow) => flow.is_closed() && now.since(flow.last) >= LINGER,
            Place::Over(over) => now.since(over.since) >= LINGER,
        };
        for _ in 0..SWEEP {
            if let Some(at) = self.table.advance(false, is_over) {
                self.retire(at);
            }
        }
        while self.table.len() >= self.settings.open_max.max(1) {
            if let Some(at) = self.table.advance(true, is_over) {
                let is_open = matches!(self.table.place(at), Place::Open(_));
                self.summary.evicted_connections += u64::from(is_open);
                self.retire(at);
            }
        }
    }

    /// The ends at this place are forgotten: their connection is over, or has to go.
    fn retire(&mut self, at: u32) {
        let flow = self.table.remove(at);
        self.take_ended(flow);
    }

    fn take_ended(&mut self, flow: Option<Box<Flow>>) {
        if let Some(mut flow) = flow {
            let last = flow.last;
            self.take(&mut flow, last);
            if self.spare.len() < SPARE_MAX {
                self.spare.push(flow);
            }
        }
    }

    fn take(&mut self, flow: &mut Flow, now: Instant) {
        let rank = rank_of(flow);
        self.looked_at -= usize::from(flow.is_looked_at());
        if self.done.is_too_small(rank, self.settings.judged_max) {
            flow.drop_looks();
        }
        let samples = flow.finish(now, &mut self.budget, &mut self.alike);
        self.sum_up(flow);
        if self.settings.lists_flows {
            self.summaries.push_back(FlowSummary::of(flow));
        }
        self.trace_points -= flow.trace_points();
        if let Some(trace) = flow.take_trace() {
            self.traces.insert(rank, trace);
            if self.traces.len() > self.settings.traced_max {
                self.traces.pop_first();
            }
        }
        let Some(samples) = samples else {
            self.summary.connections_left_out += 1;
            return;
        };
        let [low, high] = samples;
        let track = |end: usize, samples: Samples| Track {
            key: flow.key.of_end(end),
            cookie: flow.cookie(end),
            owners: Vec::new(),
            samples,
            ended: flow.is_closed(),
            interface: None,
            options_error: None,
        };
        let view = View {
            device: flow.key.device,
            first: flow.first,
            last: flow.last,
            near: [0, 1].map(|end: usize| flow.ends[end].near.min()),
            vantage: Vantage::of(flow),
        };
        let tracks = [track(0, low), track(1, high)];
        let most = self.settings.judged_max;
        let one_went = self.done.insert(rank, (tracks, view), most);
        self.summary.connections_left_out += u64::from(one_went);
    }

    fn sum_up(&mut self, flow: &Flow) {
        let summary = &mut self.summary;
        summary.connections += 1;
        summary.duplicate_packets += flow.twice;
        summary.clock_steps_back += flow.steps_back;
        let strays = flow.ends.iter().map(|end| end.sender.counts.stray_segments);
        summary.stray_segments += strays.sum::<u64>();
        let segments = [0, 1].map(|end: usize| flow.ends[end].sender.counts.segments);
        summary.one_way_connections += u64::from(segments.contains(&0));
        let has_syn = flow.ends.iter().any(|end| end.opening.syns > 0);
        summary.connections_without_syn += u64::from(!has_syn);
        for end in &flow.ends {
            summary.missed_bytes += end.sender.counts.missed_bytes;
        }
        if let Some(vantage) = Vantage::of(flow) {
            *self.vantages.entry(vantage).or_default() += flow.packets;
            let (sender, _) = flow.sends_most();
            let FlowKey { local, remote } = flow.key.of_end(sender);
            let at = match vantage {
                Vantage::Sender => Some(local.ip()),
                Vantage::Receiver => Some(remote.ip()),
                _ => None,
            };
            let before = self.place.unwrap_or(at);
            self.place = Some(at.filter(|_| at == before));
        }
    }

    /// Takes all packets of a file up to a damaged part, what stands in front of which is good, and
    /// ends. Now and then `pause` is asked whether to go on.
    ///
    /// Returns why the rest could not be read, where there is one.
    ///
    /// # Errors
    /// Those of `pause`.
    pub fn handle_file<E>(
        &mut self,
        reader: &mut Reader<Box<dyn BufRead>>,
        mut pause: impl FnMut(&mut Self) -> Result<bool, E>,
    ) -> Result<Option<PcapError>, E> {
        let mut cut_short = None;
        while self.handle_some(reader, &mut cut_short) && pause(self)? {}
        self.note_drops(reader.dropped());
        self.end();
        Ok(cut_short)
    }

    /// Takes the packets up to the next pause; whether there may be more. It has no parameter that
    /// is a type, so that it is compiled for speed, as this crate is, and not for the size of the
    /// program that calls it.
    #[inline(never)]
    fn handle_some(
        &mut self,
        reader: &mut Reader<Box<dyn BufRead>>,
        cut_short: &mut Option<PcapError>,
    ) -> bool {
        for _ in 0..PACKETS_AT_ONCE {
            match reader.next_packet() {
                Some(Ok(packet)) => self.handle(&packet),
                Some(Err(error)) => *cut_short = Some(error),
                None => return false,
            }
        }
        true
    }

    /// The summary of a connection that is over; call it until it returns `None`, after
    /// [`Analysis::handle`] and before [`Analysis::finish`] has consumed the rest.
    pub fn poll_flow(&mut self) -> Option<FlowSummary> {
        self.summaries.pop_front()
    }

    /// Records the number of dropped packets stated in the file.
    pub fn note_drops(&mut self, packets: Option<u64>) {
        self.summary.dropped_packets = packets;
    }

    /// The capture has ended: all that is open is over.
    pub fn end(&mut self) {
        for mut flow in self.table.take_all() {
            self.take(&mut flow, self.ended);
        }
        let most = self.vantages.iter().max_by_key(|(_, packets)| **packets);
        self.summary.taken = match self.is_of_both_ends() {
            true => Some(Vantage::BothEnds),
            false => most.map(|(vantage, _)| *vantage),
        };
        let is_either = |end| self.vantages.contains_key(&end);
        let are_both = is_either(Vantage::Sender) && is_either(Vantage::Receiver);
        self.summary.taken_at = self.place.flatten().filter(|_| are_both);
        let began = self.began.unwrap_or_default();
        let micros = self.ended.since(began).as_micros();
        self.summary.duration_us = u64::try_from(micros).unwrap_or(u64::MAX);
    }

    /// Whether of most connections one device is at the sender and another at the receiver.
    fn is_of_both_ends(&self) -> bool {
        if self.done.is_of_one_device() {
            return false;
        }
        let mut seen: BTreeMap<FlowKey, BTreeMap<Vantage, u32>> = BTreeMap::new();
        for &place in self.done.places.values() {
            // The smaller end comes first, on each device.
            let [low, _] = &self.done.tracks[place];
            let view = &self.done.views[place];
            let of_it = seen.entry(low.key).or_default();
            of_it.extend(view.vantage.map(|vantage| (vantage, view.device)));
        }
        let is_split = |of_it: &&BTreeMap<Vantage, u32>| {
            let ends = [Vantage::Sender, Vantage::Receiver].map(|end| of_it.get(&end));
            matches!(ends, [Some(one), Some(other)] if one != other)
        };
        2 * seen.values().filter(is_split).count() > seen.len()
    }

    /// Time-sequence plots of the connections with most payload, those first; after
    /// [`Analysis::end`]. Where very many were open at once, some are missing.
    pub fn traces(&mut self) -> Vec<FlowTrace> {
        let traces = std::mem::take(&mut self.traces);
        traces.into_values().rev().collect()
    }

    /// The recording for the doctor, and the summary of the capture; after [`Analysis::end`].
    #[must_use]
    pub fn finish(self) -> (Recording, CaptureSummary) {
        let recording = Recording {
            flows: self.done.into_tracks(),
            hosts: Vec::new(),
            began: self.began.unwrap_or_default(),
            ended: self.ended,
            flows_left_out: usize::try_from(self.summary.connections_left_out)
                .unwrap_or(usize::MAX),
            ..Recording::default()
        };
        (recording, self.summary)
    }
}

/// How a segment fits what is known of its ends.
enum Fit {
    /// It is of their connection.
    Same,
    /// It comes behind the end of that, and tells nothing more.
    Late {
        /// ... because it is the last packet, captured once more.
        is_twice: bool,
    },
    /// It is of another connection between them.
    Other,
}

impl Fit {
    fn of(place: &Place, segment: &Segment) -> Self {
        let since = match place {
            Place::Open(flow) => {
                return match begins_anew(flow, segment) {
                    true => Self::Other,
                    false => Self::Same,
                };
            }
            Place::Over(over) => over.since,
        };
        let is_soon = segment.at.nanos_since(since) < SOON_NANOS;
        // An end that has closed can only retransmit its FIN.
        let has_more = segment.payload_bytes > 0 && !segment.has(TcpFlags::FIN);
        let is_long_ago = segment.at.since(since) >= LINGER || since.since(segment.at) > CLOCK_SET;
        match opens(segment) || (has_more && !is_soon) || is_long_ago {
            true => Self::Other,
            false => Self::Late {
                is_twice: is_soon && segment.payload_bytes == 0,
            },
        }
    }
}

/// Whether a SYN asks for a connection.
const fn opens(segment: &Segment) -> bool {
    segment.has(TcpFlags::SYN) && !segment.has(TcpFlags::ACK)
}

/// Whether this is of another connection between ends that have one: a SYN opens it, or what was
/// known of the old one does not fit any more.
fn begins_anew(flow: &Flow, segment: &Segment) -> bool {
    let sender = &flow.ends[segment.from].sender;
    if sender.has_strayed() || flow.last.since(segment.at) > CLOCK_SET {
        return true;
    }
    let is_old = || sender.begins_at(segment.seq) || !sender.has_begun();
    opens(segment) && (flow.is_closed() || !is_old())
}

/// For connections seen by several devices, takes each end from the nearest one.
fn from_the_nearest(done: Done) -> Vec<Track> {
    let mut ends: BTreeMap<FlowKey, Vec<(DeviceView, Track)>> = BTreeMap::new();
    let mut tracks: Vec<Option<[Track; 2]>> = done.tracks.into_iter().map(Some).collect();
    for place in done.places.into_values() {
        let View {
            device,
            first,
            last,
            near,
            vantage: _,
        } = done.views[place];
        let tracks = tracks[place].take().into_iter().flatten();
        for (track, near) in tracks.zip(near) {
            let seen = DeviceView {
                device,
                first,
                last,
                near,
            };
            let others = ends.entry(track.key).or_default();
            let same = others.iter_mut().find(|(other, _)| other.is_of_same(&seen));
            match same {
                Some(other) if seen.is_nearer(&other.0) => *other = (seen, track),
                Some(_) => {}
                None => others.push((seen, track)),
            }
        }
    }
    let tracks = ends.into_values().flatten();
    tracks.map(|(_, track)| track).collect()
}

/// When one device saw an end, and how near to it it is.
struct DeviceView {
    device: u32,
    first: Instant,
    last: Instant,
    near: Option<Duration>,
}

impl DeviceView {
    fn is_of_same(&self, other: &Self) -> bool {
        self.device != other.device && self.first <= other.last && other.first <= self.last
    }

    fn is_nearer(&self, other: &Self) -> bool {
        match (self.near, other.near) {
            (Some(near), Some(other)) => near < other,
            (near, other) => near.is_some() && other.is_none(),
        }
    }
}
