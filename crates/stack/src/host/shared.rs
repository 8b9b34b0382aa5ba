//! What the connections of a host share while they work.

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use base::{Instant, Rng};

use super::config::{Event, HostSettings, SocketId};
use crate::counters::Counters;
use crate::packet::Packet;
use crate::pool::Pool;
use crate::tick::TickClock;
use crate::trace::{Trace, TraceEvent};

/// Everything of a host except its sockets.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) mtu: u16,
    pub(crate) system: HostSettings,
    pub(crate) tick: TickClock,
    pub(crate) rng: Rng,
    pub(crate) counters: Counters,
    pub(crate) pool: Pool,
    /// The local queue: packets that wait for the driver, each with its socket.
    pub(crate) outbox: VecDeque<(Option<SocketId>, Packet)>,
    pub(crate) events: VecDeque<(SocketId, Event)>,
    pub(crate) trace: Option<Box<dyn Trace>>,
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
            outbox: VecDeque::new(),
            events: VecDeque::new(),
            trace: None,
            answers: RateLimit::shared(system.answers_per_second),
            system,
        }
    }

    /// Queues a packet for the driver. A packet that belongs to no connection is dropped where the
    /// local queue is full; connections ask [`Shared::has_room`] before.
    pub(crate) fn transmit(&mut self, now: Instant, socket: Option<SocketId>, packet: Packet) {
        if socket.is_none() && !self.has_room() {
            self.counters.local_queue_drops += 1;
            return;
        }
        if let Some(segment) = packet.segment() {
            self.counters.segments_out += u64::from(segment.segments());
        }
        self.tell(now, socket, || TraceEvent::Sent(&packet));
        self.outbox.push_back((socket, packet));
    }

    /// Whether the local queue takes another packet.
    pub(crate) fn has_room(&self) -> bool {
        self.outbox.len() < self.system.txqueuelen as usize
    }

    pub(crate) fn report(&mut self, socket: SocketId, event: Event) {
        self.events.push_back((socket, event));
    }

    /// Whether the host may answer another segment that belongs to no living connection.
    pub(crate) fn may_answer(&mut self, now: Instant) -> bool {
        let may = self.answers.take(now);
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

/// A host's burst is what it may answer in such a part of a second.
const BURSTS_PER_SECOND: u32 = 10;

/// At most so many per second, evenly spread but for bursts (the generic cell rate algorithm).
#[derive(Clone, Copy, Debug)]
pub(crate) struct RateLimit {
    per_second: u32,
    /// So many may come at once.
    burst: u32,
    /// When the next one is due where they are evenly spread.
    next: Instant,
}

impl RateLimit {
    pub(crate) const fn new(per_second: u32) -> Self {
        Self {
            per_second,
            burst: 1,
            next: Instant::ZERO,
        }
    }

    /// The same for a host, where what many peers cause may come at once.
    pub(crate) const fn shared(per_second: u32) -> Self {
        Self {
            burst: 1 + per_second / BURSTS_PER_SECOND,
            ..Self::new(per_second)
        }
    }

    pub(crate) const fn set_rate(&mut self, per_second: u32) {
        self.per_second = per_second;
    }

    /// Whether there is one more; it is used then.
    pub(crate) fn take(&mut self, now: Instant) -> bool {
        let Some(spacing) = core::time::Duration::from_secs(1).checked_div(self.per_second) else {
            return false;
        };
        let due = self.next.max(now);
        let may = due.since(now) <= spacing * (self.burst - 1);
        if may {
            self.next = due + spacing;
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_spread_evenly() {
        let mut limit = RateLimit::new(2);
        let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        let taken: alloc::vec::Vec<bool> = [0, 10, 20, 999, 1000, 1001, 1002]
            .into_iter()
            .map(|millis| limit.take(at(millis)))
            .collect();
        assert_eq!(taken, [true, false, false, true, false, false, false]);
    }

    #[test]
    fn a_host_answers_some_at_once() {
        let mut limit = RateLimit::shared(20);
        let mut taken = |millis: u64| {
            let now = Instant::from_nanos(millis * 1_000_000);
            (0..9).filter(|_| limit.take(now)).count()
        };
        assert_eq!([taken(0), taken(49), taken(50), taken(2000)], [3, 0, 1, 3]);
    }
}
