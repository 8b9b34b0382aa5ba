//! State shared by the connections of a host while they work.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::num::NonZeroU32;
use core::time::Duration;

use base::settings::Congestion;
use base::tcp::TcpFlags;
use base::{Instant, Rng, WirePacket as _};

use super::config::{Event, HostSettings, SocketId};
use super::memory::Memory;
use crate::cc::{self, CongestionControl, Controllers};
use crate::counters::Counters;
use crate::packet::{Body, Packet, Segment};
use crate::pool::Pool;
use crate::recovery::SpareFlight;
use crate::recv::SpareQueue;
use crate::tick::TickClock;
use crate::trace::{Trace, TraceEvent};

/// Packets for which an empty local queue keeps room: an ordinary burst.
const OUTBOX_KEPT: usize = 256;

/// A packet in the local queue.
#[derive(Debug)]
pub(crate) struct Queued {
    /// Whose it is; `None`: it belongs to no connection.
    pub(crate) socket: Option<SocketId>,
    /// Bytes counted there: those on the wire.
    pub(crate) bytes: u32,
    pub(crate) packet: Box<Packet>,
}

/// Place of a bare ACK in the local queue, until the driver asks for packets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitingAck {
    batch: u64,
    /// Counted from 1.
    place: NonZeroU32,
}

impl WaitingAck {
    /// Counted from 0.
    const fn index(self) -> usize {
        self.place.get() as usize - 1
    }
}

/// Everything of a host but its sockets.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) mtu: u16,
    pub(crate) system: HostSettings,
    pub(crate) tick: TickClock,
    pub(crate) rng: Rng,
    pub(crate) counters: Counters,
    pub(crate) pool: Pool,
    pub(crate) memory: Memory,
    /// The local queue: packets that wait for the driver.
    pub(super) outbox: VecDeque<Queued>,
    /// Bytes in it.
    pub(super) outbox_bytes: u64,
    /// Memory for packets that are sent next.
    #[expect(clippy::vec_box, reason = "the boxes go into the local queue")]
    spare_packets: Vec<Box<Packet>>,
    /// How often the driver has asked for packets; packets received between two times form a batch.
    pub(super) batch: u64,
    pub(crate) events: VecDeque<(SocketId, Event)>,
    pub(crate) trace: Option<Box<dyn Trace>>,
    pub(super) controllers: Option<Box<dyn Controllers>>,
    pub(crate) spare_flight: SpareFlight,
    pub(crate) spare_queue: SpareQueue,
    answers: RateLimit,
}

impl Shared {
    pub(crate) fn new(mtu: u16, system: HostSettings, rng: Rng, tick: TickClock) -> Self {
        Self {
            mtu,
            tick,
            rng,
            counters: Counters::default(),
            pool: Pool::new(system.pool),
            memory: Memory::new(system.memory),
            outbox: VecDeque::new(),
            outbox_bytes: 0,
            spare_packets: Vec::new(),
            batch: 0,
            events: VecDeque::new(),
            trace: None,
            controllers: None,
            spare_flight: SpareFlight::default(),
            spare_queue: SpareQueue::default(),
            answers: RateLimit::default(),
            system,
        }
    }

    /// Makes the congestion control of a connection to `remote`.
    pub(crate) fn controller(
        &mut self,
        remote: SocketAddr,
        settings: &Congestion,
    ) -> Box<dyn CongestionControl> {
        let own = self.controllers.as_mut();
        own.and_then(|own| own.make(remote, settings))
            .unwrap_or_else(|| cc::make(settings, &mut self.rng))
    }

    /// Queues a packet for the driver, and returns what it counts there; 0 where it is dropped. A
    /// packet that belongs to no connection is dropped where the local queue is full, and a bare
    /// ACK where twice as much waits: a peer can ask for one with each of its packets. For all else
    /// connections ask [`Shared::has_room`] before. A packet without data needs a buffer of its
    /// own: with an empty pool it is dropped (seed: `NetBurner`, NB12).
    pub(crate) fn transmit(
        &mut self,
        now: Instant,
        socket: Option<SocketId>,
        packet: Box<Packet>,
    ) -> u32 {
        let has_room = match socket {
            None => self.has_room(),
            Some(_) => self.outbox.len() < self.answers_max() || !is_bare_ack(&packet),
        };
        if !has_room {
            self.counters.local_queue_drops += 1;
            return 0;
        }
        if is_bare(&packet) && !self.take_one_buffer() {
            return 0;
        }
        if let Some(segment) = packet.segment() {
            self.counters.segments_out += u64::from(segment.segments());
        }
        self.tell(now, socket, || TraceEvent::Sent(&packet));
        let bytes = u32::try_from(packet.wire_bytes()).unwrap_or(u32::MAX);
        self.outbox_bytes += u64::from(bytes);
        self.outbox.push_back(Queued {
            socket,
            bytes,
            packet,
        });
        bytes
    }

    /// Memory for a packet to be queued, with unspecified contents.
    #[inline]
    pub(crate) fn packet_memory(&mut self) -> Box<Packet> {
        let spare = self.spare_packets.pop();
        spare.unwrap_or_else(|| Box::new(Packet::TAKEN))
    }

    /// Keeps the memory of a packet for one that is sent later, if there are not many.
    #[inline]
    pub(super) fn reuse(&mut self, packet: Box<Packet>) {
        if self.spare_packets.len() < OUTBOX_KEPT {
            self.spare_packets.push(packet);
        }
    }

    /// Whether the pool has a buffer for a packet that needs it only while queued; counts a drop if
    /// not.
    pub(crate) const fn take_one_buffer(&mut self) -> bool {
        let may = self.pool.can_take(1);
        if !may {
            self.memory.want();
            self.counters.pool_drops += 1;
            self.pool.on_refused();
        }
        may
    }

    /// Place of the packet that was queued last.
    pub(crate) fn last_place(&self) -> Option<WaitingAck> {
        let place = u32::try_from(self.outbox.len()).ok()?;
        Some(WaitingAck {
            batch: self.batch,
            place: NonZeroU32::new(place)?,
        })
    }

    /// Whether the driver has had no chance yet to take that ACK.
    #[inline]
    pub(crate) fn waits_still(&self, waiting: WaitingAck) -> bool {
        waiting.batch == self.batch && waiting.index() < self.outbox.len()
    }

    /// Updates a bare ACK that [is still queued](Self::waits_still).
    pub(crate) fn renew(
        &mut self,
        now: Instant,
        waiting: WaitingAck,
        stamp: impl FnOnce(&mut Segment),
    ) {
        let queued = &mut self.outbox[waiting.index()];
        if let Body::Tcp(segment) = &mut queued.packet.body {
            stamp(segment);
        }
        self.counters.acks_superseded += 1;
        if let Some(trace) = &mut self.trace {
            trace.on_event(now, queued.socket, &TraceEvent::Sent(&queued.packet));
        }
    }

    /// The local queue is empty: the next packet reuses its first place, which is in the
    /// processor's cache. Memory is freed after a burst, such as timers of all connections firing
    /// at once.
    #[inline]
    pub(super) fn rewind_outbox(&mut self) {
        self.outbox.clear();
        if self.outbox.capacity() > OUTBOX_KEPT {
            self.outbox = VecDeque::new();
        }
    }

    /// Packets in the local queue from which on no further bare ACK is added.
    const fn answers_max(&self) -> usize {
        2 * self.system.txqueuelen as usize
    }

    /// Whether the local queue takes another packet.
    pub(crate) fn has_room(&self) -> bool {
        self.outbox.len() < self.system.txqueuelen as usize
    }

    pub(crate) fn report(&mut self, socket: SocketId, event: Event) {
        self.events.push_back((socket, event));
    }

    /// Whether the host may answer another segment that belongs to no open connection.
    pub(crate) fn may_answer(&mut self, now: Instant) -> bool {
        // A whole second's worth may be sent at once after an idle second.
        let per_second = self.system.answers_per_second;
        let may = self.answers.take(now, per_second, per_second);
        if !may {
            self.counters.answers_suppressed += 1;
        }
        may
    }

    /// Tells the trace, where there is one; the event is only made for it.
    pub(crate) fn tell<'a>(
        &mut self,
        now: Instant,
        socket: Option<SocketId>,
        event: impl FnOnce() -> TraceEvent<'a>,
    ) {
        if let Some(trace) = &mut self.trace {
            trace.on_event(now, socket, &event());
        }
    }
}

/// A packet without data.
fn is_bare(packet: &Packet) -> bool {
    packet
        .segment()
        .is_some_and(|segment| segment.payload.is_empty())
}

/// An ACK that a later one makes redundant.
fn is_bare_ack(packet: &Packet) -> bool {
    packet.segment().is_some_and(|segment| {
        segment.payload.is_empty() && segment.flags.without(TcpFlags::ECE) == TcpFlags::ACK
    })
}

/// A rate limit: the time by which all that was taken would have been used at an even rate (the
/// generic cell rate algorithm, GCRA).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RateLimit {
    until: Instant,
}

impl RateLimit {
    /// Takes one of `per_second`, of which `burst` may come at once; false if none is left.
    pub(crate) fn take(&mut self, now: Instant, per_second: u32, burst: u32) -> bool {
        let Some(spacing) = Duration::from_secs(1).checked_div(per_second) else {
            return false;
        };
        let ahead = spacing.saturating_mul(burst.saturating_sub(1));
        let may = self.until.since(now) <= ahead;
        if may {
            self.until = self.until.max(now) + spacing;
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_limited_by_the_second() {
        let check = |per_second, burst, millis: &[u64], expected: &[bool]| {
            let mut limit = RateLimit::default();
            let at = |millis: &u64| Instant::from_nanos(millis * 1_000_000);
            let taken: alloc::vec::Vec<bool> = millis
                .iter()
                .map(|millis| limit.take(at(millis), per_second, burst))
                .collect();
            assert_eq!(taken, expected);
        };
        let times = [0, 10, 20, 999, 1000, 1001, 1600];
        let spaced = [true, false, false, true, false, false, true];
        check(2, 1, &times, &spaced);
        let bursting = [true, true, false, true, true, false, true];
        check(2, 2, &times, &bursting);
        check(0, 1, &[0, 5000], &[false, false]);
    }
}
