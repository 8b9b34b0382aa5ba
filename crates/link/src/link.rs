//! The link: queue and wire, then fate and delay, then delivery in order of time.

use core::time::Duration;
use std::collections::VecDeque;

use base::{Instant, WirePacket};

use crate::fate::{Fate, Fates};
use crate::spec::{LinkSpec, SpecError, TooBig};
use crate::stats::LinkStats;
use crate::wire::{Run, Shape, Wire};

/// Longest time that a piece of a GSO packet occupies the wire, unless it is a single packet.
///
/// A GSO packet arrives when its last segment does. At 10 Gbit/s that is 0.05 ms after its first
/// one and saves most of the work; at 25 Mbit/s it would be 21 ms, which no real path shows. So a
/// GSO packet that takes longer is cut. Without the bound, latencies of slow links are wrong.
const PIECE_TIME_MAX: Duration = Duration::from_micros(250);

/// Fate of a packet that was handed to a link. Counts are wire packets (segments).
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a packet that is too big may have to be reported to its sender"]
#[non_exhaustive]
pub struct Handled<P> {
    /// Got into the queue or on the wire, where they may still be lost.
    pub accepted: u32,
    /// Found the queue full.
    pub dropped: u32,
    /// Exceeds the MTU, and its sender must be notified ([`TooBig::Report`]): the driver answers
    /// with ICMP "fragmentation needed" or "packet too big" and [`LinkSpec::mtu`].
    pub too_big: Option<P>,
}

/// One direction of one hop.
///
/// A driver calls [`handle_packet`](Self::handle_packet) with each packet that comes in, waits
/// until [`poll_timeout`](Self::poll_timeout) and calls [`poll_deliver`](Self::poll_deliver) until
/// it returns `None`. Calling late delays nothing but the delivery itself: every packet has its
/// *logical* time of arrival, which is computed when the packet comes in.
///
/// A packet passes: MTU; tail-drop queue; wire (rate); fate (lost, doubled, held back, each decided
/// for each wire packet); propagation delay and jitter. Lost packets have used queue and wire;
/// copies use neither. Packets arrive in order, except for those that [`LinkSpec::reorder`] holds.
///
/// A GSO packet passes whole as long as nothing happens to a part of it, in constant time, and
/// arrives when its last segment arrives. It is cut in front of and behind segments that the queue
/// drops or that have a fate of their own, and where it would occupy the wire for more than
/// 250 us. Its segments get the same fate as if they had come in one by one.
///
/// Memory is bounded by the queue plus what arrives within the delay.
#[derive(Debug)]
pub struct Link<P> {
    spec: LinkSpec,
    /// Its delay in nanoseconds.
    delay_nanos: u64,
    wire: Wire,
    fates: Fates,
    /// Packets that arrive in order; times do not decrease.
    line: VecDeque<(Instant, P)>,
    /// Packets held back; times do not decrease here either, since all are held for the same time.
    held: VecDeque<(Instant, P)>,
    /// Arrival of the first packet of both; `Instant::MAX` where there is none.
    next_arrival: Instant,
    /// Arrival of the latest packet, before any holding back: no later one arrives earlier.
    last_arrival: Instant,
    now: Instant,
    stats: LinkStats,
}

impl<P: WirePacket> Link<P> {
    /// A link whose random fates are determined by `seed`. The two directions of a path should
    /// have different seeds.
    ///
    /// # Errors
    /// [`SpecError`] where the link makes no sense.
    pub fn new(spec: LinkSpec, seed: u64) -> Result<Self, SpecError> {
        spec.check()?;
        Ok(Self {
            delay_nanos: u64::try_from(spec.delay.as_nanos()).unwrap_or(u64::MAX),
            wire: Wire::new(&spec, PIECE_TIME_MAX),
            fates: Fates::new(&spec, seed),
            line: VecDeque::new(),
            held: VecDeque::new(),
            next_arrival: Instant::MAX,
            last_arrival: Instant::ZERO,
            now: Instant::ZERO,
            stats: LinkStats::default(),
            spec,
        })
    }

    /// The link's parameters.
    #[must_use]
    pub const fn spec(&self) -> &LinkSpec {
        &self.spec
    }

    /// Takes a packet in at `now`. A `now` before an earlier one counts as that one.
    pub fn handle_packet(&mut self, now: Instant, packet: P) -> Handled<P> {
        self.now = self.now.max(now);
        self.wire.advance(self.now);
        let shape = Shape::of(&packet);
        self.stats.sent += u64::from(shape.segments);
        self.stats.inside += u64::from(shape.segments);
        let mut handled = Handled {
            accepted: 0,
            dropped: 0,
            too_big: None,
        };
        let mtu = self.spec.mtu.map_or(u64::MAX, |mtu| mtu.0);
        if shape.segment_bytes <= mtu && shape.segments == 1 {
            self.offer_single(packet, shape, &mut handled);
        } else if shape.segment_bytes <= mtu && !self.wire.has_trace() {
            self.offer(packet, shape, &mut handled);
        } else {
            self.offer_cut(packet, shape, mtu, &mut handled);
        }
        let (packets, bytes) = self.wire.waiting();
        self.stats.queue_packets_max = self.stats.queue_packets_max.max(packets);
        self.stats.queue_bytes_max = self.stats.queue_bytes_max.max(bytes);
        handled
    }

    /// The next packet that has arrived by `now`.
    #[inline]
    pub fn poll_deliver(&mut self, now: Instant) -> Option<P> {
        self.poll_deliver_at(now).map(|(_, packet)| packet)
    }

    /// The next packet that has arrived by `now`, and when it arrived; `now` less that time is how
    /// late the driver is.
    #[inline]
    pub fn poll_deliver_at(&mut self, now: Instant) -> Option<(Instant, P)> {
        if self.next_arrival > now {
            return None;
        }
        let queue = match self.is_held_next() {
            true => &mut self.held,
            false => &mut self.line,
        };
        let (at, packet) = queue.pop_front()?;
        self.next_arrival = arrival_of_first(&self.line).min(arrival_of_first(&self.held));
        let segments = u64::from(packet.segments().max(1));
        self.stats.delivered += segments;
        self.stats.inside -= segments;
        Some((at, packet))
    }

    /// The next packet to arrive, and when it does; `None` if none is in transit.
    #[must_use]
    #[inline]
    pub fn first(&self) -> Option<(Instant, &P)> {
        let queue = match self.is_held_next() {
            true => &self.held,
            false => &self.line,
        };
        queue.front().map(|(at, packet)| (*at, packet))
    }

    /// Whether so many packets can have arrived by `now` that were not polled; not exact where some
    /// were held back.
    #[must_use]
    #[inline]
    pub fn may_have_arrived(&self, packets: usize, now: Instant) -> bool {
        let last = self.line.get(packets.saturating_sub(1));
        !self.held.is_empty() || last.is_some_and(|(at, _)| *at <= now)
    }

    /// Arrival time of the next packet; `None` if none is in transit.
    #[must_use]
    #[inline]
    pub fn poll_timeout(&self) -> Option<Instant> {
        (self.next_arrival < Instant::MAX).then_some(self.next_arrival)
    }

    /// Whether the next packet to arrive is one that was held back. Mostly there is none.
    #[inline]
    fn is_held_next(&self) -> bool {
        !self.held.is_empty() && arrival_of_first(&self.held) < arrival_of_first(&self.line)
    }

    /// Advances time, so that [`stats`](Self::stats) returns the queue at `now`. Nothing else needs
    /// it.
    pub fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
        self.wire.advance(self.now);
    }

    /// All counters; the queue as of the latest time passed to
    /// [`handle_packet`](Self::handle_packet) or [`advance`](Self::advance).
    #[must_use]
    pub const fn stats(&self) -> LinkStats {
        let (queue_packets, queue_bytes) = self.wire.waiting();
        LinkStats {
            queue_packets,
            queue_bytes,
            ..self.stats
        }
    }

    /// Counts a packet above the MTU, and returns it if its sender must be notified.
    fn refuse(&mut self, packet: P, handled: &mut Handled<P>) {
        let segments = packet.segments().max(1);
        self.fates.skip(segments);
        self.stats.too_big += u64::from(segments);
        self.stats.inside -= u64::from(segments);
        match self.spec.too_big {
            TooBig::Vanish => {}
            TooBig::Report => handled.too_big = Some(packet),
        }
    }

    /// Refuses what exceeds the MTU, and offers the rest, segment by segment where the rate
    /// changes.
    fn offer_cut(&mut self, packet: P, shape: Shape, mtu: u64, handled: &mut Handled<P>) {
        let (mut rest, mut left) = (Some(packet), shape.segments);
        if shape.segment_bytes > mtu {
            // The last segment of a GSO packet is smaller and may fit.
            let last_fits = shape.segments > 1 && shape.last_bytes() <= mtu;
            let too_big = cut(&mut rest, &mut left, shape.segments - u32::from(last_fits));
            self.refuse(too_big, handled);
        }
        while left > 0 {
            let count = if self.wire.has_trace() { 1 } else { left };
            let packet = cut(&mut rest, &mut left, count);
            let shape = Shape::of(&packet);
            self.offer(packet, shape, handled);
        }
    }

    /// As [`Link::offer`], for a single segment: the common case, in which nothing has to be cut.
    #[inline]
    fn offer_single(&mut self, packet: P, shape: Shape, handled: &mut Handled<P>) {
        let Some(run) = self.wire.offer_single(self.now, shape) else {
            return self.overflow(1, handled);
        };
        handled.accepted = 1;
        let (_, fate) = self.fates.scan(1);
        match fate {
            Some(fate) => self.meet(fate, &run, 0, packet),
            None => {
                let arrival = self.arrival(&run, 0..1);
                self.line_up(arrival, packet);
            }
        }
    }

    /// Puts into the queue what fits of a packet, and drops the rest.
    fn offer(&mut self, packet: P, mut shape: Shape, handled: &mut Handled<P>) {
        let (mut rest, mut left) = (Some(packet), shape.segments);
        loop {
            let admitted = self.wire.admit(self.now, shape);
            if admitted > 0 {
                let run = self.wire.send(self.now, shape, admitted);
                let packet = cut(&mut rest, &mut left, admitted);
                handled.accepted += admitted;
                self.carry(&run, packet);
            } else {
                // A queue counted in bytes may still take the last segment, which may be smaller.
                let smaller_last = shape.segments > 1 && shape.last_bytes() < shape.segment_bytes;
                let dropped = shape.segments - u32::from(smaller_last);
                drop(cut(&mut rest, &mut left, dropped));
                self.overflow(dropped, handled);
            }
            match &rest {
                Some(rest) => shape = Shape::of(rest),
                None => return,
            }
        }
    }

    /// Counts packets that find the queue full.
    fn overflow(&mut self, count: u32, handled: &mut Handled<P>) {
        self.fates.skip(count);
        handled.dropped += count;
        self.stats.queue_dropped += u64::from(count);
        self.stats.inside -= u64::from(count);
    }

    /// Takes what is on the wire to the other end, in pieces where a part has a fate of its own.
    fn carry(&mut self, run: &Run, packet: P) {
        let shape = run.shape;
        let piece_max = self.wire.segments_per_piece(shape);
        let (mut rest, mut left) = (Some(packet), shape.segments);
        while left > 0 {
            let done = shape.segments - left;
            let (plain, fate) = self.fates.scan(piece_max.min(left));
            if plain > 0 {
                let arrival = self.arrival(run, done..done + plain);
                let packet = cut(&mut rest, &mut left, plain);
                self.line_up(arrival, packet);
            }
            if let Some(fate) = fate {
                let done = shape.segments - left;
                let packet = cut(&mut rest, &mut left, 1);
                self.meet(fate, run, done, packet);
            }
        }
    }

    /// Lets segment `index` of `run` meet its fate.
    fn meet(&mut self, fate: Fate, run: &Run, index: u32, packet: P) {
        let (twice, hold) = match (fate, &self.spec.reorder) {
            (Fate::Lost, _) => {
                if self.fates.has_jitter() {
                    self.fates.jitter();
                }
                self.stats.lost += 1;
                self.stats.inside -= 1;
                return;
            }
            (Fate::Held { twice }, Some(reorder)) => (twice, Some(reorder.hold)),
            (Fate::Held { twice }, None) => (twice, None),
            (Fate::Twice, _) => (true, None),
        };
        let arrival = self.arrival(run, index..index + 1);
        let (queue, arrival) = match hold {
            Some(hold) => (&mut self.held, arrival + hold),
            None => (&mut self.line, arrival),
        };
        if twice {
            queue.push_back((arrival, packet.duplicate()));
            self.stats.duplicated += 1;
            self.stats.inside += 1;
        }
        queue.push_back((arrival, packet));
        self.next_arrival = self.next_arrival.min(arrival);
    }

    /// Lets a packet arrive then, after all those before it.
    #[inline]
    fn line_up(&mut self, arrival: Instant, packet: P) {
        self.line.push_back((arrival, packet));
        self.next_arrival = self.next_arrival.min(arrival);
    }

    /// Arrival time of the last of these segments of `run`: in order, whatever the jitter.
    #[inline]
    fn arrival(&mut self, run: &Run, segments: core::ops::Range<u32>) -> Instant {
        let delay = self.delay_nanos;
        if self.fates.has_jitter() {
            for index in segments {
                let at = self.wire.left_at(run, index).after_nanos(delay) + self.fates.jitter();
                self.last_arrival = self.last_arrival.max(at);
            }
        } else {
            let at = self.wire.left_at(run, segments.end - 1).after_nanos(delay);
            self.last_arrival = self.last_arrival.max(at);
        }
        self.last_arrival
    }
}

/// When the first packet of a queue arrives; `Instant::MAX` where there is none.
#[inline]
fn arrival_of_first<P>(queue: &VecDeque<(Instant, P)>) -> Instant {
    queue.front().map_or(Instant::MAX, |(at, _)| *at)
}

/// Cuts the first `count` of the segments that are `left` off; nothing remains where those are all.
///
/// # Panics
/// Where nothing is there to be cut: callers count segments.
#[inline]
fn cut<P: WirePacket>(rest: &mut Option<P>, left: &mut u32, count: u32) -> P {
    let mut packet = rest.take().expect("segments are counted, so some remain");
    *left -= count;
    if *left > 0 {
        *rest = Some(packet.split_off(count));
    }
    packet
}

#[cfg(test)]
mod tests;
