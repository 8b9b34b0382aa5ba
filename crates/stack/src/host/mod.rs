//! One host: its addresses, listeners and connections, and the dispatch of packets to them.

mod calls;
mod config;
mod cookies;
mod deadlines;
mod flows;
mod incoming;
mod listener;
mod memory;
mod shared;
mod socket;
mod sockets;
#[cfg(test)]
mod tests;
mod time_wait;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use base::settings::SocketSettings;
use base::{Instant, Rng};

use crate::Arc;
use crate::cc::Controllers;
use crate::cookie::Cookies;
use crate::counters::Counters;
use crate::isn::InitialSequence;
use crate::keyed_hash::Keys;
use crate::packet::{Body, Packet};
use crate::pool::PoolState;
use crate::ports::EphemeralPorts;
use crate::tcp::{Effects, Next, Opened};
use crate::tick::TickClock;
use crate::trace::{Trace, TraceEvent};
pub use config::{
    ConnectError, Event, Failure, HostConfig, HostSettings, ListenError, ListenOptions,
    MemoryBudget, PoolSize, ReadError, Secret, SocketId, Wait, WriteError, WriteFlags,
};
use deadlines::Deadlines;
use flows::{Ends, Flows};
pub(crate) use listener::Listener;
pub(crate) use memory::{Grant, memory_of};
pub(crate) use shared::{RateLimit, Shared, WaitingAck};
pub(crate) use socket::{Socket, Writer};
use sockets::{Kind, Sockets};
pub(crate) use time_wait::TimeWait;

/// One host.
///
/// A driver hands packets to [`handle_packet`](Self::handle_packet), calls
/// [`handle_timeout`](Self::handle_timeout) when [`poll_timeout`](Self::poll_timeout) says so, and
/// after each of these and after each call of the application takes out what
/// [`poll_transmit`](Self::poll_transmit) and [`poll_event`](Self::poll_event) have, until there is
/// nothing. Time never goes backwards; a call that comes late only makes the host late.
#[derive(Debug)]
pub struct Host {
    addrs: Vec<IpAddr>,
    settings: SocketSettings,
    /// Settings of the connection that was opened last; the next one that has the same shares them.
    settings_of_last: Arc<SocketSettings>,
    isn: InitialSequence,
    ports: EphemeralPorts,
    cookies: Cookies,
    sockets: Sockets,
    /// Connections by their ends; also those in TIME-WAIT.
    flows: Flows,
    listeners: BTreeMap<SocketAddr, u32>,
    /// When each socket has something to do.
    deadlines: Deadlines,
    /// The connection whose deadline may have changed since that was noted. Packets come in trains:
    /// it is updated for the next other connection, or when the deadline is asked for.
    unsettled: Option<u32>,
    /// Sockets that are due; empty between calls.
    due: Vec<u32>,
    /// Connections that wait for room in the local queue.
    blocked: VecDeque<SocketId>,
    /// Connections that wait for buffers of the pool.
    pool_waiters: VecDeque<SocketId>,
    shared: Shared,
}

impl Host {
    /// A host without connections, from a [`Config`](crate::Config) or a full [`HostConfig`].
    #[must_use]
    pub fn new(config: impl Into<HostConfig>) -> Self {
        let HostConfig {
            addrs,
            mtu,
            seed,
            secret,
            settings,
            system,
        } = config.into();
        let mut rng = Rng::new(seed, "host");
        let tick = TickClock::new(system.hz, system.coarse_above_ticks, rng.next_u64());
        Self {
            addrs,
            settings_of_last: Arc::new(settings.clone()),
            settings,
            isn: InitialSequence::new(Keys::new(rng.next_u64(), secret)),
            ports: EphemeralPorts::new(Keys::new(rng.next_u64(), secret)),
            cookies: Cookies::new(Keys::new(rng.next_u64(), secret)),
            sockets: Sockets::default(),
            flows: Flows::new(Keys::new(seed, secret)),
            listeners: BTreeMap::new(),
            deadlines: Deadlines::default(),
            unsettled: None,
            due: Vec::new(),
            blocked: VecDeque::new(),
            pool_waiters: VecDeque::new(),
            shared: Shared::new(mtu, system, rng, tick),
        }
    }

    /// Its addresses.
    #[must_use]
    pub fn addrs(&self) -> &[IpAddr] {
        &self.addrs
    }

    /// Whether packets to `address` are for this host.
    fn has_address(&self, address: IpAddr) -> bool {
        self.shared.system.any_address || self.addrs.contains(&address)
    }

    /// Settings of connections that name none.
    #[must_use]
    pub const fn default_settings(&self) -> &SocketSettings {
        &self.settings
    }

    /// The interface has another MTU from now on. Connections that send larger packets send smaller
    /// ones; larger ones are for connections to come.
    pub fn set_mtu(&mut self, now: Instant, mtu: u16) {
        self.shared.mtu = mtu;
        let sockets: Vec<SocketId> = self.sockets.ids().collect();
        for id in sockets {
            if let Some(connection) = self.sockets.connection(id) {
                connection.on_interface_mtu(now, &mut self.shared);
                self.settle(now, id.index);
            }
        }
    }

    /// Processes a received packet. What is wrong with it is counted and answered, never returned.
    pub fn handle_packet(&mut self, now: Instant, mut packet: Packet) {
        self.handle_packet_in_place(now, &mut packet);
    }

    /// As [`Host::handle_packet`], for callers that reuse the memory of the packet, whose contents
    /// are unspecified afterwards.
    pub fn handle_packet_in_place(&mut self, now: Instant, packet: &mut Packet) {
        let (source, destination) = (packet.source, packet.destination);
        if let Body::Tcp(segment) = &mut packet.body
            && let Some(index) = self.flows.recent(source, destination, segment)
        {
            self.shared.counters.segments_in += u64::from(segment.segments());
            self.deliver(now, index, segment, packet.ecn);
        } else {
            self.handle_any(now, packet);
        }
        if self.shared.memory.is_search_due(now) {
            self.reclaim(now);
        }
    }

    /// Processes a packet that may be of another connection than the one before, or not for us.
    #[inline(never)]
    fn handle_any(&mut self, now: Instant, packet: &mut Packet) {
        if !self.has_address(packet.destination) {
            self.shared.counters.not_for_us += 1;
            return;
        }
        if self.shared.trace.is_some() {
            let socket = self.socket_of(packet);
            self.shared
                .tell(now, socket, || TraceEvent::Received(packet));
        }
        match &mut packet.body {
            Body::Tcp(segment) => {
                self.shared.counters.segments_in += u64::from(segment.segments());
                let local = SocketAddr::new(packet.destination, segment.destination_port);
                let remote = SocketAddr::new(packet.source, segment.source_port);
                self.handle_segment(now, local, remote, segment, packet.ecn);
            }
            Body::Icmp(error) => {
                let Some(index) = self.flow(error.remote, error.local) else {
                    self.shared.counters.icmp_ignored += 1;
                    return;
                };
                if let Some(connection) = self.sockets.connection_at(index) {
                    connection.handle_icmp(now, &mut self.shared, *error);
                    self.settle(now, index);
                }
            }
        }
    }

    /// A connection was refused memory because of others: those with more than half an equal share
    /// drop out-of-order data, until there is room again.
    #[cold]
    fn reclaim(&mut self, now: Instant) {
        let much = self.shared.memory.share() / 2;
        let all = self.sockets.slots().end;
        let (mut looked, mut has_given) = (0, false);
        for index in self.shared.memory.slots_to_search(all) {
            if !self.shared.memory.is_tight() && !self.shared.pool.is_short() {
                break;
            }
            looked += 1;
            if let Some(connection) = self.sockets.connection_at(index) {
                has_given |= connection.give_back(&mut self.shared, much);
            }
        }
        self.shared.memory.on_searched(now, looked, all, has_given);
    }

    /// The connection that a packet is for.
    fn socket_of(&self, packet: &Packet) -> Option<SocketId> {
        let (remote, local) = match &packet.body {
            Body::Tcp(segment) => (
                SocketAddr::new(packet.source, segment.source_port),
                SocketAddr::new(packet.destination, segment.destination_port),
            ),
            Body::Icmp(error) => (error.remote, error.local),
        };
        let index = self.flow(remote, local)?;
        Some(self.sockets.id_at(index))
    }

    /// The slot of the connection between two ends.
    fn flow(&self, remote: SocketAddr, local: SocketAddr) -> Option<u32> {
        let ends = (remote, local);
        self.flows
            .find(&ends, |index| self.sockets.has_ends(index, &ends))
    }

    /// The slot of the connection that a segment is for.
    fn flow_of_segment(&mut self, remote: SocketAddr, local: SocketAddr) -> Option<u32> {
        let ends = (remote, local);
        let sockets = &self.sockets;
        let has_ends = |index| sockets.has_ends(index, &ends);
        // A trace shows each packet, so that none takes the short way.
        match self.shared.trace.is_some() {
            true => self.flows.find(&ends, has_ends),
            false => self.flows.find_for_packet(&ends, has_ends),
        }
    }

    /// Registers a socket for packets between these ends.
    fn lead_to(&mut self, ends: &Ends, index: u32) {
        let sockets = &self.sockets;
        let has_ends = |index| sockets.has_ends(index, ends);
        self.flows.insert(ends, index, has_ends);
    }

    /// The next packet to send. Call it after every other call that takes `now`, or after a batch
    /// of them, until it returns `None`; what came in one batch is acknowledged once.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Packet> {
        self.fill_local_queue(now);
        let mut queued = self.shared.outbox.pop_front()?;
        let packet = core::mem::replace(&mut *queued.packet, Packet::TAKEN);
        self.shared.reuse(queued.packet);
        self.on_dequeued(now, queued.socket, queued.bytes);
        Some(packet)
    }

    /// As [`Host::poll_transmit`], in exchange for the memory of another packet, whose contents are
    /// forgotten when it is used again. Returns its bytes on the wire (headers of each segment
    /// included), which the host knows already; `None` where there is none to send.
    pub fn poll_transmit_into(&mut self, now: Instant, packet: &mut Box<Packet>) -> Option<u32> {
        self.fill_local_queue(now);
        let queued = self.shared.outbox.pop_front()?;
        let memory = core::mem::replace(packet, queued.packet);
        self.shared.reuse(memory);
        self.on_dequeued(now, queued.socket, queued.bytes);
        Some(queued.bytes)
    }

    /// Whether [`Host::poll_transmit`] may return a packet.
    #[inline]
    #[must_use]
    pub fn may_transmit(&self) -> bool {
        !self.shared.outbox.is_empty() || !self.blocked.is_empty()
    }

    /// Lets connections that wait for the local queue send, where it is empty.
    #[inline]
    fn fill_local_queue(&mut self, now: Instant) {
        // A connection with nothing more to send must not block the next.
        while self.shared.outbox.is_empty() && self.unblock(now) {}
    }

    /// A packet has left the local queue.
    #[inline]
    fn on_dequeued(&mut self, now: Instant, socket: Option<SocketId>, bytes: u32) {
        if self.shared.outbox.is_empty() {
            self.shared.rewind_outbox();
        }
        // All others have moved up by a place.
        self.shared.batch += 1;
        self.shared.outbox_bytes -= u64::from(bytes);
        if let Some(id) = socket
            && let Some(connection) = self.sockets.connection(id)
        {
            connection.on_dequeued(bytes);
        }
        if !self.blocked.is_empty() {
            self.unblock(now);
        }
    }

    /// Resumes one connection that waited for the local queue; false if none does.
    fn unblock(&mut self, now: Instant) -> bool {
        let Some(id) = self.blocked.pop_front() else {
            return false;
        };
        if let Some(connection) = self.sockets.connection(id) {
            connection.on_local_queue_turn(now, &mut self.shared);
            self.settle(now, id.index);
        }
        true
    }

    /// When [`handle_timeout`](Self::handle_timeout) has something to do; `None`: never.
    #[must_use]
    pub fn poll_timeout(&mut self) -> Option<Instant> {
        self.note_deadline();
        self.deadlines.first()
    }

    /// Serves everything that is due by `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.note_deadline();
        // Each socket is served once, even where its next deadline is due at once.
        let mut due = core::mem::take(&mut self.due);
        due.extend(core::iter::from_fn(|| self.deadlines.take_due(now)));
        for index in due.drain(..) {
            match self.sockets.kind_at(index) {
                Kind::Connection(connection) => {
                    connection.handle_timeout(now, &mut self.shared);
                    connection.give_way(now, &mut self.shared);
                    self.settle(now, index);
                }
                Kind::TimeWait(_) => self.end_time_wait(index),
                Kind::Listener(_) | Kind::Free => {}
            }
        }
        self.due = due;
    }

    /// The next thing that an application should know.
    #[inline]
    pub fn poll_event(&mut self) -> Option<(SocketId, Event)> {
        // Mostly there is none.
        if self.shared.events.is_empty() {
            return None;
        }
        self.next_event()
    }

    fn next_event(&mut self) -> Option<(SocketId, Event)> {
        loop {
            let (id, event) = self.shared.events.pop_front()?;
            // Its application may have closed it since.
            if self.sockets.is_known(id) {
                return Some((id, event));
            }
        }
    }

    /// All counters.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    /// The shared pool of buffers: how many are free, and who holds the others.
    #[must_use]
    pub fn pool(&self) -> PoolState {
        self.shared.pool.state()
    }

    /// Bytes of memory of all connections: of received data that is unread or out of order, and of
    /// written data that is not acknowledged. [`HostSettings::memory`] bounds them.
    #[must_use]
    pub const fn memory_bytes(&self) -> u64 {
        self.shared.memory.used()
    }

    /// Reports events to `trace` from now on.
    pub fn set_trace(&mut self, trace: Box<dyn Trace>) {
        self.flows.forget_recent();
        self.shared.trace = Some(trace);
    }

    /// From now on `controllers` make the congestion control of connections that begin; those that
    /// are there keep theirs.
    pub fn set_controllers(&mut self, controllers: Box<dyn Controllers>) {
        self.shared.controllers = Some(controllers);
    }

    /// Bytes in the local queue.
    #[must_use]
    pub fn local_queue_bytes(&self) -> u64 {
        self.shared.outbox_bytes
    }

    /// Carries out the effects of a connection's latest event.
    #[inline]
    fn settle(&mut self, now: Instant, index: u32) {
        if let Some(connection) = self.sockets.connection_at(index) {
            let has_effects = connection.has_effects();
            self.settle_any(now, index, has_effects);
        }
    }

    /// The same where it is known whether there are any beside its next deadline.
    #[inline]
    fn settle_any(&mut self, now: Instant, index: u32, has_effects: bool) {
        if has_effects {
            self.settle_more(now, index);
        } else if self.unsettled != Some(index) {
            self.settle_later(index);
        }
        if !self.pool_waiters.is_empty() {
            self.wake_pool_waiters();
        }
    }

    /// The deadline of this connection may have changed: it is noted when another's may.
    #[inline(never)]
    fn settle_later(&mut self, index: u32) {
        self.note_deadline();
        self.unsettled = Some(index);
    }

    /// Notes when the connection has something to do whose deadline may have changed.
    #[inline]
    fn note_deadline(&mut self) {
        if let Some(index) = self.unsettled.take()
            && let Some(connection) = self.sockets.connection_at(index)
        {
            self.deadlines.set(index, connection.next_due());
        }
    }

    /// From now on the socket has something to do at `due`; `None`: never.
    fn set_deadline(&mut self, index: u32, due: Option<Instant>) {
        self.note_deadline();
        self.deadlines.set(index, due);
    }

    #[cold]
    fn settle_more(&mut self, now: Instant, index: u32) {
        let Some(connection) = self.sockets.connection_at(index) else {
            return;
        };
        let Effects {
            awaits_local_queue,
            awaits_pool,
            opened,
            next,
        } = connection.take_effects();
        if awaits_local_queue {
            self.blocked.push_back(self.sockets.id_at(index));
        }
        if awaits_pool {
            self.pool_waiters.push_back(self.sockets.id_at(index));
        }
        if let Some((listener, opened)) = opened {
            let id = self.sockets.id_at(index);
            self.on_half_open_done(id, listener, opened);
        }
        match next {
            Next::At(due) => self.set_deadline(index, due),
            Next::TimeWait => self.begin_time_wait(now, index),
            Next::Over => self.bury(index),
        }
    }

    /// Removes an ended connection: its ports are free, and its memory once the application has
    /// closed it.
    fn bury(&mut self, index: u32) {
        self.set_deadline(index, None);
        let Some(connection) = self.sockets.connection_at(index) else {
            return;
        };
        let ends = (connection.remote(), connection.local());
        let is_wanted = !connection.socket().is_orphan();
        self.flows.remove(&ends, index);
        if !is_wanted {
            self.free(self.sockets.id_at(index));
        }
    }

    /// Frees the slot of a connection.
    fn free(&mut self, id: SocketId) {
        if let Some(connection) = self.sockets.connection(id) {
            connection.forget_memory(&mut self.shared);
        }
        self.shared.pool.release(id);
        self.sockets.remove(id);
    }

    /// Moves a connection to TIME-WAIT: little of it remains, and all of it only until its
    /// application has closed it. If too many are in TIME-WAIT already, nothing remains (Linux
    /// `tcp_time_wait`).
    fn begin_time_wait(&mut self, now: Instant, index: u32) {
        let is_full = self.sockets.time_waits() >= self.shared.system.time_wait_max;
        let Some(connection) = self.sockets.connection_at(index) else {
            return;
        };
        if is_full {
            self.shared.counters.time_wait_overflows += 1;
            connection.skip_time_wait();
            self.bury(index);
            return;
        }
        let rest = connection.begin_time_wait(now, &self.shared);
        let ends = (rest.remote, rest.local);
        let due = rest.due;
        let is_orphan = connection.socket().is_orphan();
        if is_orphan {
            connection.forget_memory(&mut self.shared);
        }
        self.set_deadline(index, None);
        let waiting = if is_orphan {
            self.shared.pool.release(self.sockets.id_at(index));
            self.sockets.replace(index, Kind::TimeWait(Box::new(rest)));
            index
        } else {
            self.sockets
                .insert(|_| Kind::TimeWait(Box::new(rest)))
                .index
        };
        self.lead_to(&ends, waiting);
        self.set_deadline(waiting, Some(due));
    }

    /// The port pair is free again.
    fn end_time_wait(&mut self, index: u32) {
        let Kind::TimeWait(rest) = self.sockets.kind_at(index) else {
            return;
        };
        let ends = (rest.remote, rest.local);
        self.set_deadline(index, None);
        self.flows.remove(&ends, index);
        self.sockets.remove_at(index);
    }

    /// A connection of a listener is established, or its attempt has ended.
    fn on_half_open_done(&mut self, id: SocketId, parent: SocketId, opened: Opened) {
        let Some(listener) = self.sockets.listener(parent) else {
            return;
        };
        listener.half_open -= 1;
        match opened {
            Opened::Established => {
                listener.accept_queue.push_back(id);
                self.shared.report(parent, Event::Acceptable);
            }
            Opened::Failed => {
                if let Some(connection) = self.sockets.connection(id) {
                    connection.let_go();
                }
            }
        }
    }

    /// Buffers are free again: wakes as many applications, those first that have waited longest.
    fn wake_pool_waiters(&mut self) {
        let free = self.shared.pool.free() as usize;
        for _ in 0..free.min(self.pool_waiters.len()) {
            let Some(id) = self.pool_waiters.pop_front() else {
                return;
            };
            if let Some(connection) = self.sockets.connection(id) {
                connection.on_pool_turn(&mut self.shared);
            }
        }
    }
}
