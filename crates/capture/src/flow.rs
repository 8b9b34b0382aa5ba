//! A connection: its packets go to both of its ends, and at intervals both are looked at.

use core::time::Duration;
use std::sync::Arc;

use base::tcp::TcpFlags;
use base::{FlowSample, Instant};
use doctor::Samples;
use doctor::recording::{Alike, placed};

use crate::acks::{Answer, WAITING_MAX, WAITING_UNSEEN};
use crate::end::End;
use crate::look::{self, LookBudget};
use crate::packet::{Key, Segment};
use crate::sender::Ack;
use crate::summary::FlowSummary;
use crate::trace::{Before, FlowTrace, Trace};
use crate::waits::{Cause, Held};

/// Looks while no packet comes, where something is in flight and where nothing is.
const GAP_LOOKS: u64 = 16;
const IDLE_LOOKS: u64 = 4;
/// Looks that wait for the sender's next packet, at most.
const OPEN_MAX: usize = 64;
/// Looks that are kept of each end; when there are more, every second one goes.
const LOOKS_MAX: usize = 1024;
/// ... and when they take more: what looks hold of changes that never come (a state that turns back
/// and forth) takes a thousand bytes each.
const LOOKS_BYTES_MAX: usize = 128 << 10;
/// Memory of looks that an end keeps for the next ones.
const SPARE_MAX: usize = 2;
/// Room for looks that wait, which an end keeps.
const OPEN_KEPT: usize = 8;
/// Size of the timestamp option in each segment.
const STAMP_BYTES: u32 = 12;
/// An end that has sent no payload is looked at once in this many times.
const SILENT_TURNS: u32 = 4;
/// A pure ACK that comes so late after the data was held back.
const DELAYED_ACK: Duration = Duration::from_millis(20);

/// Where the distances of a connection's looks begin.
const fn first_random(serial: u64) -> u32 {
    (serial as u32).wrapping_mul(0x9e37_79b9) | 1
}

/// The looks at one end.
#[derive(Clone, Debug, Default)]
struct Looks {
    told: Samples,
    /// Looks whose limit is not known yet.
    open: Vec<Arc<FlowSample>>,
    /// Memory for the next ones: looks at thousands of connections are not in a cache, so that each
    /// copy of one takes longer than making it.
    spare: Vec<Arc<FlowSample>>,
    /// Busy time of the last one that was told: what a wait was taken for counts no less when it
    /// turns out to be another.
    busy: Option<Duration>,
}

/// The connection.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    pub(crate) key: Key,
    pub(crate) serial: u64,
    pub(crate) ends: [End; 2],
    pub(crate) first: Instant,
    pub(crate) last: Instant,
    pub(crate) packets: u64,
    pub(crate) twice: u64,
    pub(crate) steps_back: u64,
    pub(crate) delayed_acks: [u64; 2],
    pub(crate) is_reset: bool,
    /// The looks at its ends, or their memory while it `is_looked_at` no more.
    looks: Option<Box<[Looks; 2]>>,
    is_looked_at: bool,
    /// Data sent by each end, where it is kept.
    traces: Option<Box<[Trace; 2]>>,
    next_look: Instant,
    interval: Duration,
    random: u32,
    /// Looks so far.
    turn: u32,
    /// Which end sent payload last.
    spoke: Option<usize>,
    is_shaken: bool,
}

impl Looks {
    /// Forgets them, but keeps memory for the next ones.
    fn clear(&mut self) {
        self.told.clear_into(&mut self.spare, SPARE_MAX);
        self.open.clear();
        self.busy = None;
    }
}

impl Flow {
    /// A connection whose first packet is `segment`, looked at with this mean distance; not at all
    /// where that is `None`.
    pub(crate) fn new(segment: &Segment, serial: u64, interval: Option<Duration>) -> Self {
        Self {
            key: segment.key,
            serial,
            ends: [End::new(), End::new()],
            first: segment.at,
            last: segment.at,
            packets: 0,
            twice: 0,
            steps_back: 0,
            delayed_acks: [0; 2],
            is_reset: false,
            looks: interval.map(|_| Box::default()),
            is_looked_at: interval.is_some(),
            traces: None,
            next_look: segment.at,
            interval: interval.unwrap_or_default(),
            random: first_random(serial),
            turn: 0,
            spoke: None,
            is_shaken: false,
        }
    }

    /// The same in the memory of one that is over.
    pub(crate) fn renew(&mut self, segment: &Segment, serial: u64, interval: Option<Duration>) {
        let Self {
            key,
            serial: own_serial,
            ends,
            first,
            last,
            packets,
            twice,
            steps_back,
            delayed_acks,
            is_reset,
            looks,
            is_looked_at,
            traces,
            next_look,
            interval: own_interval,
            random,
            turn,
            spoke,
            is_shaken,
        } = self;
        ends.iter_mut().for_each(End::renew);
        for looks in looks.iter_mut().flat_map(|both| both.iter_mut()) {
            looks.clear();
        }
        (*is_looked_at, *traces) = (false, None);
        (*key, *own_serial) = (segment.key, serial);
        (*first, *last) = (segment.at, segment.at);
        (*packets, *twice, *steps_back, *delayed_acks) = (0, 0, 0, [0; 2]);
        (*is_reset, *spoke, *is_shaken) = (false, None, false);
        (*next_look, *own_interval) = (segment.at, Duration::ZERO);
        (*random, *turn) = (first_random(serial), 0);
        if let Some(interval) = interval {
            self.begin_looks(segment.at, interval);
        }
    }

    /// Whether nothing more is to come.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_reset || self.ends.iter().all(|end| end.has_fin)
    }

    /// Whether both ends have closed it, and know that of each other.
    pub(crate) fn is_over(&self) -> bool {
        self.ends.iter().all(|end| end.is_fin_acked)
    }

    /// The end that sent more payload, and how much.
    pub(crate) fn sends_most(&self) -> (usize, u64) {
        let [low, high] = [0, 1].map(|end: usize| self.ends[end].sender.bytes_new());
        if high > low { (1, high) } else { (0, low) }
    }

    pub(crate) const fn is_looked_at(&self) -> bool {
        self.is_looked_at
    }

    /// From now on, what its ends send is kept; see [`Flow::take_trace`].
    pub(crate) fn begin_trace(&mut self) {
        self.traces = Some(Box::default());
    }

    /// Forgets what was kept.
    pub(crate) fn drop_trace(&mut self) {
        self.traces = None;
    }

    /// How much of it is kept.
    pub(crate) fn trace_points(&self) -> usize {
        let traces = self.traces.as_deref();
        traces.map_or(0, |[low, high]| low.len() + high.len())
    }

    /// Trace of the end that sent more.
    pub(crate) fn take_trace(&mut self) -> Option<FlowTrace> {
        let [low, high] = *self.traces.take()?;
        let (end, _) = self.sends_most();
        let trace = if end == 0 { low } else { high };
        let trace = trace.finish(self.ends[end].sender.origin());
        Some(FlowTrace {
            key: self.key.of_end(end),
            cookies: [0, 1].map(|end| self.cookie(end)),
            began: self.first,
            sent: trace.sent,
            acked: trace.acked,
            retransmissions: trace.retransmissions,
            counts: trace.counts,
            summary: FlowSummary::of(self),
        })
    }

    /// From now on it is looked at, with this mean distance.
    pub(crate) fn begin_looks(&mut self, now: Instant, interval: Duration) {
        self.looks.get_or_insert_default();
        self.is_looked_at = true;
        (self.next_look, self.interval) = (now, interval);
    }

    /// What was seen at looks is wanted no more.
    pub(crate) const fn drop_looks(&mut self) {
        self.is_looked_at = false;
    }

    /// A packet of it; looks are taken from `budget`.
    pub(crate) fn handle(&mut self, segment: &mut Segment, budget: &mut LookBudget) {
        if segment.at < self.last {
            self.steps_back += 1;
            segment.at = self.last;
        }
        if self.ends[segment.from].is_twice(segment) {
            self.twice += 1;
            return;
        }
        self.look_until(segment.at, budget);
        self.last = segment.at;
        self.packets += 1;
        self.deliver(segment.at);
        self.take_stamps(segment);
        if segment.has(TcpFlags::SYN) {
            self.take_syn(segment);
        } else {
            self.take_handshake(segment);
        }
        self.take_data(segment);
        if segment.has(TcpFlags::ACK) {
            self.take_ack(segment);
        }
        // Who does not know the numbers resets nothing (RFC 5961).
        self.is_reset |= segment.has(TcpFlags::RST)
            && self.ends[segment.from].sender.offset(segment.seq).is_some();
    }

    /// The end that sent, and the other one.
    fn pair(&mut self, from: usize) -> (&mut End, &mut End) {
        let [low, high] = &mut self.ends;
        match from {
            0 => (low, high),
            _ => (high, low),
        }
    }

    /// Hands over the ACKs that have reached their ends by now.
    fn deliver(&mut self, now: Instant) {
        for end in &mut self.ends {
            if end.underway.is_empty() {
                continue;
            }
            let delay = end.near.delay_nanos(now);
            let End {
                underway, sender, ..
            } = end;
            underway.arrive(now, delay, |ack| sender.on_ack(ack));
        }
    }

    fn take_stamps(&mut self, segment: &Segment) {
        let Some((value, echo)) = segment.timestamps else {
            return;
        };
        let (own, other) = self.pair(segment.from);
        own.has_stamps = true;
        if segment.has(TcpFlags::ACK) {
            let answer = match own.sender.waits.has_more() {
                _ if segment.payload_bytes == 0 => Answer::Kernel,
                true => Answer::Stream,
                false => Answer::Program,
            };
            own.near.heard(segment.at, echo, answer);
            let least = own.near.min_nanos().unwrap_or(0);
            let End {
                underway, sender, ..
            } = own;
            underway.prove(segment.at, echo, least, |ack| sender.on_ack(ack));
        }
        other
            .near
            .sent_to(segment.at, value, segment.payload_bytes > 0);
    }

    fn take_syn(&mut self, segment: &Segment) {
        let (own, other) = self.pair(segment.from);
        own.note_syn(segment);
        if own.opening.tells() {
            other.sender.scale.settle();
        }
        own.sender.on_syn(segment.seq);
        let asked = other.opening.syn_at.filter(|_| other.opening.syns == 1);
        if let Some(asked) = asked.filter(|_| own.opening.syns == 1) {
            own.near.sample(segment.at.nanos_since(asked));
        }
        let stamps = match own.opening.stamps && other.opening.stamps {
            true => STAMP_BYTES,
            false => 0,
        };
        own.allow_mss(other.opening.mss, stamps);
        other.allow_mss(own.opening.mss, stamps);
    }

    /// The first packet behind the answer to a SYN comes from who asked.
    fn take_handshake(&mut self, segment: &Segment) {
        if self.is_shaken {
            return;
        }
        let (own, other) = self.pair(segment.from);
        let is_third = own.opening.syn_at < other.opening.syn_at;
        if let Some(answered) = other.opening.syn_at.filter(|_| is_third) {
            let once = other.opening.syns == 1;
            if once && own.opening.syns > 0 {
                own.near.sample(segment.at.nanos_since(answered));
            }
        }
        self.is_shaken = true;
    }

    fn take_data(&mut self, segment: &Segment) {
        let from = segment.from;
        let speaks = segment.payload_bytes > 0;
        if speaks && self.spoke != Some(from) {
            self.spoke = Some(from);
            self.ends[from].messages += 1;
        }
        let (own, _) = self.pair(from);
        own.sender.begin(segment.seq);
        own.sender.counts.segments += 1;
        let held = if speaks { self.send(segment) } else { None };
        let (own, _) = self.pair(from);
        if !speaks {
            own.sender.note_bare(segment.seq);
        }
        if segment.has(TcpFlags::FIN) {
            let end = segment.seq.wrapping_add(segment.payload_bytes);
            own.has_fin |= own.sender.on_fin(end);
        }
        if let Some(held) = held {
            self.tell(from, &held);
        }
    }

    /// Payload leaves, and is traced as what it is counted as.
    fn send(&mut self, segment: &Segment) -> Option<Held> {
        let end = &mut self.ends[segment.from];
        let Some(traces) = &mut self.traces else {
            return end.send(segment);
        };
        let before = Before::of(end.sender.in_flight().next, &end.sender.loss);
        let held = end.send(segment);
        let syn = u32::from(segment.has(TcpFlags::SYN));
        if let Some(from) = end.sender.offset(segment.seq.wrapping_add(syn)) {
            let span = (from, from + u64::from(segment.payload_bytes));
            traces[segment.from].take_data(segment.at, span, &before, &end.sender.loss);
        }
        held
    }

    fn take_ack(&mut self, segment: &Segment) {
        let from = segment.from;
        let most = if self.is_looked_at {
            WAITING_MAX
        } else {
            WAITING_UNSEEN
        };
        let (own, other) = self.pair(from);
        other.sender.begin(segment.ack);
        own.window = segment.window;
        let Some(ack) = own.ack_of(segment, other) else {
            return;
        };
        other.is_fin_acked |= other.has_fin && ack.una >= other.sender.in_flight().next;
        // Without timestamps nothing tells, and the capture is taken to be at the sender.
        other.sender.is_placed = other.near.min_nanos().is_some() || segment.timestamps.is_none();
        let delay = other.near.delay_nanos(segment.at);
        let is_far = delay > 0;
        let is_blurred = is_far && !other.near.echoes();
        other.sender.waits.is_far = is_far;
        other.sender.waits.blur_nanos = if is_blurred { delay / 16 } else { 0 };
        if !is_far && other.underway.is_empty() {
            other.sender.on_ack(&ack);
        } else {
            let stamp = segment.timestamps.map(|(value, _)| value);
            if let Some(early) = other.underway.push(stamp, ack, most) {
                other.sender.on_ack(&early);
            }
        }
        let held_back = other.sender.last_data.is_some_and(|sent| {
            segment.payload_bytes == 0 && segment.at.since(sent) >= DELAYED_ACK
        });
        self.delayed_acks[from] += u64::from(held_back);
        self.trace_ack(segment.at, 1 - from, &ack);
    }

    fn trace_ack(&mut self, at: Instant, sender: usize, ack: &Ack) {
        if let Some(traces) = &mut self.traces {
            traces[sender].take_ack(at, ack.una, ack.window);
        }
    }

    /// Looks at both ends up to a time.
    fn look_until(&mut self, now: Instant, budget: &mut LookBudget) {
        if self.next_look >= now || !self.is_looked_at {
            return;
        }
        let is_idle = |end: &End| end.sender.flight_bytes() == 0;
        let most = match self.ends.iter().all(is_idle) {
            true => IDLE_LOOKS,
            false => GAP_LOOKS,
        };
        let gap = now.since(self.next_look).as_nanos() as u64;
        let each = (self.interval.as_nanos() as u64).max(1);
        let stretch = u32::try_from(gap / each / most).unwrap_or(u32::MAX).max(1);
        while self.next_look < now {
            let at = self.next_look;
            self.deliver(at);
            let stretch = stretch.saturating_mul(budget.stretch());
            budget.take(self.look_at(at, stretch));
            // However long it is: a clock may step by years.
            let least = Duration::from_nanos(gap / most / 4);
            let distance = self.distance().saturating_mul(stretch);
            self.next_look = at + distance.max(least);
        }
    }

    /// From a quarter of the mean to one and three quarters, so that no timer is in step with it.
    fn distance(&mut self) -> Duration {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 17;
        self.random ^= self.random << 5;
        let share = 0.25 + 1.5 * f64::from(self.random) / f64::from(u32::MAX);
        self.interval.mul_f64(share).max(Duration::from_nanos(1))
    }

    /// A look that stands for this many; how many ends were looked at.
    fn look_at(&mut self, at: Instant, looks: u32) -> u32 {
        self.turn = self.turn.wrapping_add(1);
        let mut taken = 0;
        for end in [0, 1] {
            self.ends[end].sender.pass(at);
            let is_silent = self.ends[end].sender.counts.data_segments == 0;
            if is_silent && !self.turn.is_multiple_of(SILENT_TURNS) {
                continue;
            }
            let looks = if is_silent {
                looks.saturating_mul(SILENT_TURNS)
            } else {
                looks
            };
            let sample = look::look(
                at,
                self.key.of_end(end),
                self.cookie(end),
                (&self.ends[end], &self.ends[1 - end]),
                looks,
            );
            let Some(kept) = self.looks.as_mut().filter(|_| self.is_looked_at) else {
                return taken;
            };
            let Looks { open, spare, .. } = &mut kept[end];
            open.push(placed(spare.pop(), sample));
            taken += 1;
            let has_spoken = self.ends[end].sender.waits.since().is_some();
            if !has_spoken || kept[end].open.len() >= OPEN_MAX {
                self.tell_so_far(end, at);
            }
        }
        self.thin_out();
        taken
    }

    /// Bounds the looks: over the whole time, at a larger distance.
    fn thin_out(&mut self) {
        let Some(looks) = self.looks.as_mut().filter(|_| self.is_looked_at) else {
            return;
        };
        let is_small =
            |told: &Samples| told.len() < LOOKS_MAX && told.memory_bytes() < LOOKS_BYTES_MAX;
        if looks.iter().all(|end| is_small(&end.told)) {
            return;
        }
        for end in looks.iter_mut() {
            end.told = end.told.iter().step_by(2).collect();
        }
        self.interval *= 2;
    }

    /// Records the sender's limit as far as it is known.
    fn tell_so_far(&mut self, end: usize, now: Instant) {
        let sender = &self.ends[end].sender;
        let mss = sender.mss();
        let (flight, room) = (sender.flight_bytes(), sender.room());
        let held = Held {
            cause: sender.waits.so_far(now, (mss, &sender.rtt), flight, room),
            from: sender.waits.since().unwrap_or(now),
            to: now,
            bytes: mss,
            idle_from: sender.stopped_since(),
        };
        self.tell(end, &held);
    }

    /// Records the limit of the sender of `end` for the open looks.
    fn tell(&mut self, end: usize, held: &Held) {
        let Some(looks) = self.looks.as_mut().filter(|_| self.is_looked_at) else {
            return;
        };
        let Looks {
            told,
            open,
            spare,
            busy,
        } = &mut looks[end];
        if open.is_empty() {
            return;
        }
        let cwnd = self.ends[end].sender.waits.cwnd;
        for mut sample in open.drain(..) {
            let seen = Arc::make_mut(&mut sample);
            look::tell(seen, held, cwnd);
            seen.busy_time = seen.busy_time.max(*busy);
            *busy = seen.busy_time;
            let free = told.push_in_exchange(sample);
            spare.extend(free.filter(|_| spare.len() < SPARE_MAX));
        }
        if open.capacity() > OPEN_KEPT {
            *open = Vec::new();
        }
    }

    /// Nothing more comes up to `now`: the looks that are left are taken, and those at both ends
    /// given in terms of `alike`.
    pub(crate) fn finish(
        &mut self,
        now: Instant,
        budget: &mut LookBudget,
        alike: &mut Alike,
    ) -> Option<[Samples; 2]> {
        let until = if self.is_closed() {
            self.last
        } else {
            now.max(self.last)
        };
        self.look_until(until, budget);
        self.deliver(until);
        if self.is_looked_at {
            // The last one is of both.
            self.turn = u32::MAX;
            self.look_at(until, 1);
        }
        for end in [0, 1] {
            self.tell_so_far(end, until);
        }
        let looks = self.looks.as_deref().filter(|_| self.is_looked_at)?;
        Some([0, 1].map(|end: usize| looks[end].told.settled(alike)))
    }

    /// What tells the socket of one of its ends from others.
    pub(crate) const fn cookie(&self, end: usize) -> u64 {
        2 * self.serial + end as u64
    }

    /// How long an end was held by a cause.
    pub(crate) const fn held(&self, end: usize, cause: Cause) -> Duration {
        self.ends[end].sender.waits.of(cause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_takes_what_the_page_says() {
        assert!(size_of::<Flow>() <= 2224, "{} bytes", size_of::<Flow>());
    }
}
