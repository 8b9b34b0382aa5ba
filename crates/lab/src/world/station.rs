//! A host with its program, and the time that its own work takes.

use std::collections::{BTreeMap, VecDeque};

use base::{Instant, WirePacket};
use stack::{Host, SocketId};

use super::limits::LimitTimes;
use super::parcel::{Parcel, Parcels};
use crate::app::{App, HostCosts, PacketCost};

/// Packets that may wait for a host that is busy (Linux `netdev_max_backlog`).
const BACKLOG_MAX: usize = 1000;

/// A host and its program.
#[derive(Debug)]
pub(super) struct Station<A> {
    pub(super) host: Host,
    pub(super) app: Option<A>,
    pub(super) limits: LimitTimes,
    pub(super) is_watched: bool,
    /// The same of each connection, where all are watched.
    pub(super) every: Option<BTreeMap<SocketId, LimitTimes>>,
    receive_cost: PacketCost,
    send_cost: PacketCost,
    /// Packets that have arrived and wait to be processed, with the time of processing.
    backlog: VecDeque<(Instant, Parcel)>,
    /// When the host is done with what it takes in and sends.
    receive_free: Instant,
    send_free: Instant,
    /// When the program is done with handing over what its last call made the host send: that is
    /// part of the call.
    call_free: Instant,
    /// Wire packets that found the backlog full.
    pub(super) backlog_dropped: u64,
}

/// Result of an arrival.
pub(super) enum Arrival {
    /// The host knows it.
    Handled,
    /// It waits until then for its turn.
    Waits(Instant),
}

impl<A: App> Station<A> {
    pub(super) fn new(host: Host, costs: HostCosts) -> Self {
        Self {
            host,
            app: None,
            limits: LimitTimes::default(),
            is_watched: false,
            every: None,
            receive_cost: costs.receive(),
            send_cost: costs.send(),
            backlog: VecDeque::new(),
            receive_free: Instant::ZERO,
            send_free: Instant::ZERO,
            call_free: Instant::ZERO,
            backlog_dropped: 0,
        }
    }

    /// A packet has arrived.
    pub(super) fn take_in(
        &mut self,
        now: Instant,
        packet: Parcel,
        parcels: &mut Parcels,
    ) -> Arrival {
        let cost = self.receive_cost.nanos(packet.segments());
        if cost == 0 {
            parcels.unpack(now, packet, &mut self.host);
            return Arrival::Handled;
        }
        if self.backlog.len() >= BACKLOG_MAX {
            self.backlog_dropped += u64::from(packet.segments());
            return Arrival::Waits(self.receive_free);
        }
        self.receive_free = self.receive_free.max(now).after_nanos(cost);
        self.backlog.push_back((self.receive_free, packet));
        Arrival::Waits(self.receive_free)
    }

    /// Does the next thing that is due by `now`: a packet whose turn it is, or a timer.
    #[inline]
    pub(super) fn handle_next(&mut self, now: Instant, parcels: &mut Parcels) -> bool {
        if self.backlog.front().is_some_and(|(at, _)| *at <= now)
            && let Some((_, packet)) = self.backlog.pop_front()
        {
            parcels.unpack(now, packet, &mut self.host);
            return true;
        }
        if self.host.poll_timeout().is_some_and(|at| at <= now) {
            self.host.handle_timeout(now);
            let next = self.host.poll_timeout();
            assert!(
                next.is_none_or(|at| at > now),
                "a host has a deadline at {next:?}, which has passed at {now:?}"
            );
            return true;
        }
        false
    }

    /// The next packet to send, and when it has left the host.
    #[inline]
    pub(super) fn poll_transmit(
        &mut self,
        now: Instant,
        parcels: &mut Parcels,
    ) -> Option<(Instant, Parcel)> {
        let packet = parcels.pack(now, &mut self.host)?;
        let cost = self.send_cost.nanos(packet.segments());
        self.send_free = self.send_free.max(now).after_nanos(cost);
        Some((self.send_free, packet))
    }

    /// Tells the program what happened; returns how much that was.
    #[inline]
    pub(super) fn hand_out(&mut self, now: Instant) -> u64 {
        let mut told = 0;
        while let Some((id, event)) = self.host.poll_event() {
            if let Some(app) = &mut self.app {
                app.handle_event(now, id, event);
            }
            told += 1;
        }
        told
    }

    /// Lets the program make a system call; false where it waits.
    pub(super) fn call(&mut self, now: Instant) -> bool {
        let Self { host, app, .. } = self;
        now >= self.call_free && app.as_mut().is_some_and(|app| app.call(now, host))
    }

    /// Called when the packets of the last call have been sent.
    pub(super) fn end_call(&mut self) {
        self.call_free = self.send_free;
    }

    /// Notes the limit of the connection that the program names, and of each where all are
    /// watched.
    pub(super) fn watch(&mut self, now: Instant) {
        if let Some(every) = &mut self.every {
            for times in every.values_mut() {
                times.set(now, None);
            }
            for id in self.host.sockets() {
                let Some(wait) = self.host.limit(now, id) else {
                    continue;
                };
                every
                    .entry(id)
                    .or_default()
                    .set(now, Some((wait.limit, true)));
            }
        }
        if !self.is_watched {
            return;
        }
        let watched = self.app.as_ref().and_then(|app| app.watched(now));
        let limit = watched.and_then(|(id, counts)| {
            let wait = self.host.limit(now, id)?;
            Some((wait.limit, counts))
        });
        self.limits.set(now, limit);
    }

    /// When there is something to do again.
    #[inline]
    pub(super) fn deadline(&mut self) -> Option<Instant> {
        let or_never = |at: Option<Instant>| at.unwrap_or(Instant::MAX);
        let app = or_never(self.app.as_mut().and_then(App::poll_timeout)).max(self.call_free);
        let packet = or_never(self.backlog.front().map(|(at, _)| *at));
        let first = or_never(self.host.poll_timeout()).min(app).min(packet);
        (first < Instant::MAX).then_some(first)
    }

    /// Wire packets that wait to be taken in.
    pub(super) fn backlog_segments(&self) -> u64 {
        self.backlog
            .iter()
            .map(|(_, packet)| u64::from(packet.segments()))
            .sum()
    }
}
