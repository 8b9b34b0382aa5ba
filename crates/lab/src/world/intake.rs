//! Packets that have arrived at a host, which takes them in one after the other.
//!
//! Where a single link leads to a host whose work takes time, nothing happens at an arrival but
//! that the packet waits: so it may wait in the link as well, until its turn comes.

use std::collections::VecDeque;

use base::{Instant, WirePacket};
use link::Link;

use super::parcel::Parcel;
use crate::app::PacketCost;

/// Packets that may wait for a host that is busy (Linux `netdev_max_backlog`).
const BACKLOG_MAX: usize = 1000;

/// What waits for a host.
#[derive(Debug)]
pub(super) struct Intake {
    cost: PacketCost,
    /// Packets that have arrived and wait to be processed, with the time of processing.
    backlog: VecDeque<(Instant, Parcel)>,
    /// When the host is done with what it has begun to take in.
    free: Instant,
    /// When the turn of the first packet comes; [`Instant::MAX`] where there is none.
    turn: Instant,
    /// Wire packets that found the backlog full.
    pub(super) dropped: u64,
    /// The only link to the host, where packets stay in it until the host takes them in.
    pub(super) inlet: Option<usize>,
}

impl Intake {
    pub(super) const fn new(cost: PacketCost) -> Self {
        Self {
            cost,
            backlog: VecDeque::new(),
            free: Instant::ZERO,
            turn: Instant::MAX,
            dropped: 0,
            inlet: None,
        }
    }

    /// Whether it takes time to take a packet in.
    pub(super) fn takes_time(&self, segments: u32) -> bool {
        self.cost.nanos(segments) > 0
    }

    /// A packet has arrived that takes time to be taken in.
    pub(super) fn handle_packet(&mut self, now: Instant, packet: Parcel) {
        if self.backlog.len() >= BACKLOG_MAX {
            self.dropped += u64::from(packet.segments());
            return;
        }
        self.free = self.done_with(now, &packet);
        if self.backlog.is_empty() {
            self.turn = self.free;
        }
        self.backlog.push_back((self.free, packet));
    }

    /// Takes out of the inlet what has arrived by `now`; returns how many wire packets.
    pub(super) fn take_arrived(&mut self, inlet: &mut Link<Parcel>, now: Instant) -> u64 {
        let mut received = 0;
        while let Some((at, packet)) = inlet.poll_deliver_at(now) {
            received += u64::from(packet.segments());
            self.handle_packet(at, packet);
        }
        received
    }

    /// When the turn of the first packet comes; [`Instant::MAX`] where there is none.
    #[inline]
    pub(super) const fn turn(&self) -> Instant {
        self.turn
    }

    /// The first packet of the backlog, whose turn has come.
    pub(super) fn poll_packet(&mut self) -> Option<Parcel> {
        let (_, packet) = self.backlog.pop_front()?;
        self.turn = self.backlog.front().map_or(Instant::MAX, |(at, _)| *at);
        Some(packet)
    }

    /// As [`Intake::poll_packet`], with the packets that are still in the inlet.
    #[inline]
    pub(super) fn poll_inlet(
        &mut self,
        inlet: &mut Link<Parcel>,
        now: Instant,
        received: &mut u64,
    ) -> Option<Parcel> {
        // What arrives at the same time comes later.
        let before = Instant::from_nanos(now.as_nanos().saturating_sub(1));
        if !self.backlog.is_empty() || inlet.may_have_arrived(BACKLOG_MAX, before) {
            // Some may find the backlog full.
            *received += self.take_arrived(inlet, before);
        }
        if !self.backlog.is_empty() {
            let packet = self.poll_packet();
            self.on_first_changed(inlet);
            return packet;
        }
        self.free = self.turn;
        let packet = inlet.poll_deliver(now);
        *received += packet.as_ref().map_or(0, |packet| packet.segments().into());
        self.on_first_changed(inlet);
        packet
    }

    /// The packet that arrives first out of the inlet may be another one.
    #[inline]
    pub(super) fn on_first_changed(&mut self, inlet: &Link<Parcel>) {
        if self.backlog.is_empty() {
            let first = inlet.first();
            self.turn = first.map_or(Instant::MAX, |(at, packet)| self.done_with(at, packet));
        }
    }

    /// When the host has taken in a packet that arrives at `at`, behind all the others.
    #[inline]
    fn done_with(&self, at: Instant, packet: &Parcel) -> Instant {
        let cost = self.cost.nanos(packet.segments());
        self.free.max(at).after_nanos(cost)
    }

    /// Wire packets that wait in the backlog.
    pub(super) fn backlog_segments(&self) -> u64 {
        self.backlog
            .iter()
            .map(|(_, packet)| u64::from(packet.segments()))
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::app::HostCosts;
    use link::LinkSpec;
    use stack::{Body, EcnMark, Packet, Segment};

    /// Turns of packets that come in every `spacing` nanoseconds, 700 ns of work each, and how many
    /// found the backlog full.
    fn turns(packets: u64, spacing: u64, from_inlet: bool) -> (Vec<Instant>, u64, u64) {
        let mut link = Link::new(LinkSpec::ideal(), 1).expect("a valid link");
        let costs = HostCosts {
            receive_packet: Duration::from_nanos(700),
            ..HostCosts::NONE
        };
        let mut intake = Intake::new(costs.receive());
        let local = [10, 0, 0, 1].into();
        for index in 0..packets {
            let packet = Packet {
                source: local,
                destination: local,
                ecn: EcnMark::NotEct,
                dont_fragment: true,
                hop_limit: 64,
                not_before: Instant::ZERO,
                body: Body::Tcp(Segment::default()),
            };
            let _ = link.handle_packet(Instant::from_nanos(index * spacing), Parcel::new(packet));
        }
        intake.inlet = from_inlet.then_some(0);
        let (mut turns, mut received) = (Vec::new(), 0);
        loop {
            if from_inlet {
                intake.on_first_changed(&link);
            } else if let Some(at) = link.poll_timeout()
                && at < intake.turn()
            {
                received += intake.take_arrived(&mut link, at);
                continue;
            }
            let now = intake.turn();
            let packet = match from_inlet {
                true => intake.poll_inlet(&mut link, now, &mut received),
                false => intake.poll_packet(),
            };
            if packet.is_none() {
                return (turns, intake.dropped, received);
            }
            turns.push(now);
        }
    }

    #[test]
    fn a_full_backlog_drops_the_same_packets_from_an_inlet() {
        for spacing in [0, 1, 350, 699, 700, 701, 5000] {
            let there = turns(3500, spacing, true);
            assert_eq!(there, turns(3500, spacing, false), "{spacing} ns apart");
            let has_drops = there.1 > 0;
            assert_eq!(has_drops, spacing <= 350, "{spacing} ns apart");
        }
    }
}
