//! A host with its program, and the processing time of its packets.

use std::collections::BTreeMap;

use base::{Instant, WirePacket};
use stack::{Host, SocketId};

use super::limits::LimitTimes;
use super::packet_pool::{BoxedPacket, PacketPool};
use crate::app::{App, HostCosts, PacketCost};

/// A host and its program.
#[derive(Debug)]
pub(super) struct SimHost<A> {
    pub(super) host: Host,
    pub(super) app: Option<A>,
    pub(super) limits: LimitTimes,
    pub(super) is_watched: bool,
    /// The same of each connection, where all are watched.
    pub(super) every: Option<BTreeMap<SocketId, LimitTimes>>,
    send_cost: PacketCost,
    /// When the host is done with what it sends.
    send_free: Instant,
    /// When the program is done with handing over what its last call made the host send: that is
    /// part of the call.
    call_free: Instant,
}

impl<A: App> SimHost<A> {
    pub(super) fn new(host: Host, costs: HostCosts) -> Self {
        Self {
            host,
            app: None,
            limits: LimitTimes::default(),
            is_watched: false,
            every: None,
            send_cost: costs.send(),
            send_free: Instant::ZERO,
            call_free: Instant::ZERO,
        }
    }

    /// Serves the host's timers where one is due by `now`.
    #[inline]
    pub(super) fn handle_timeout(&mut self, now: Instant) -> bool {
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
        packets: &mut PacketPool,
    ) -> Option<(Instant, BoxedPacket)> {
        let packet = packets.transmit(now, &mut self.host)?;
        let cost = self.send_cost.nanos(packet.segments());
        self.send_free = self.send_free.max(now).after_nanos(cost);
        Some((self.send_free, packet))
    }

    /// Tells the program what happened; returns how much that was.
    #[inline]
    pub(super) fn tell_program(&mut self, now: Instant) -> u64 {
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

    /// When there is something to do again, with the next packet at `packet`.
    #[inline]
    pub(super) fn deadline(&mut self, packet: Instant) -> Option<Instant> {
        let or_never = |at: Option<Instant>| at.unwrap_or(Instant::MAX);
        let app = or_never(self.app.as_mut().and_then(App::poll_timeout)).max(self.call_free);
        let first = or_never(self.host.poll_timeout()).min(app).min(packet);
        (first < Instant::MAX).then_some(first)
    }
}
