//! The receive queue of a host, which processes one packet after the other.
//!
//! If a single link leads to a host whose work takes time, an arrival only lengthens the queue: the
//! packet may as well wait in the link until the host reads it there, which saves an event.

use std::collections::VecDeque;

use base::{Instant, WirePacket};
use link::Link;

use super::packet_pool::BoxedPacket;
use crate::app::PacketCost;

/// Most packets that wait for a busy host (Linux `netdev_max_backlog`).
const BACKLOG_MAX: usize = 1000;

/// Packets that have arrived at a host and are not processed yet.
#[derive(Debug)]
pub(super) struct RxQueue {
    cost: PacketCost,
    /// With the time at which each is processed.
    backlog: VecDeque<(Instant, BoxedPacket)>,
    /// When the host is done with all that is in the queue.
    free: Instant,
    /// When the first packet is processed; [`Instant::MAX`] where there is none.
    next_at: Instant,
    /// Wire packets that found the backlog full.
    pub(super) dropped: u64,
    /// The only link to the host, where the host reads packets directly from it.
    pub(super) direct_link: Option<usize>,
}

impl RxQueue {
    pub(super) const fn new(cost: PacketCost) -> Self {
        Self {
            cost,
            backlog: VecDeque::new(),
            free: Instant::ZERO,
            next_at: Instant::MAX,
            dropped: 0,
            direct_link: None,
        }
    }

    /// Whether processing a packet takes time.
    pub(super) fn takes_time(&self, segments: u32) -> bool {
        self.cost.nanos(segments) > 0
    }

    /// Queues a packet that has arrived and takes time to process.
    pub(super) fn handle_packet(&mut self, now: Instant, packet: BoxedPacket) {
        if self.backlog.len() >= BACKLOG_MAX {
            self.dropped += u64::from(packet.segments());
            return;
        }
        self.free = self.done_with(now, &packet);
        if self.backlog.is_empty() {
            self.next_at = self.free;
        }
        self.backlog.push_back((self.free, packet));
    }

    /// Queues what has arrived out of `link` by `now`; returns how many wire packets.
    pub(super) fn take_arrived(&mut self, link: &mut Link<BoxedPacket>, now: Instant) -> u64 {
        let mut received = 0;
        while let Some((at, packet)) = link.poll_deliver_at(now) {
            received += u64::from(packet.segments());
            self.handle_packet(at, packet);
        }
        received
    }

    /// When the first packet is processed; [`Instant::MAX`] where there is none.
    #[inline]
    pub(super) const fn next_at(&self) -> Instant {
        self.next_at
    }

    /// The first packet of the backlog, which is due.
    pub(super) fn poll_packet(&mut self) -> Option<BoxedPacket> {
        let (_, packet) = self.backlog.pop_front()?;
        self.next_at = self.backlog.front().map_or(Instant::MAX, |(at, _)| *at);
        Some(packet)
    }

    /// As [`RxQueue::poll_packet`], with the packets that are still in the link.
    #[inline]
    pub(super) fn poll_direct(
        &mut self,
        link: &mut Link<BoxedPacket>,
        now: Instant,
        received: &mut u64,
    ) -> Option<BoxedPacket> {
        // What arrives at the same time comes later.
        let before = Instant::from_nanos(now.as_nanos().saturating_sub(1));
        if !self.backlog.is_empty() || link.may_have_arrived(BACKLOG_MAX, before) {
            // Some may find the backlog full.
            *received += self.take_arrived(link, before);
        }
        if !self.backlog.is_empty() {
            let packet = self.poll_packet();
            self.on_first_changed(link);
            return packet;
        }
        self.free = self.next_at;
        let packet = link.poll_deliver(now);
        *received += packet.as_ref().map_or(0, |packet| packet.segments().into());
        self.on_first_changed(link);
        packet
    }

    /// Another packet may be the first to arrive out of the link.
    #[inline]
    pub(super) fn on_first_changed(&mut self, link: &Link<BoxedPacket>) {
        if self.backlog.is_empty() {
            let first = link.first();
            self.next_at = first.map_or(Instant::MAX, |(at, packet)| self.done_with(at, packet));
        }
    }

    /// When the host has processed a packet that arrives at `at`, behind all the others.
    #[inline]
    fn done_with(&self, at: Instant, packet: &BoxedPacket) -> Instant {
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

    /// When packets are processed that arrive every `spacing` nanoseconds, 700 ns of work each, and
    /// how many found the backlog full.
    fn processed(packets: u64, spacing: u64, is_direct: bool) -> (Vec<Instant>, u64, u64) {
        let mut link = Link::new(LinkSpec::ideal(), 1).expect("a valid link");
        let costs = HostCosts {
            receive_packet: Duration::from_nanos(700),
            ..HostCosts::NONE
        };
        let mut rx_queue = RxQueue::new(costs.receive());
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
            let _ = link.handle_packet(
                Instant::from_nanos(index * spacing),
                BoxedPacket::new(packet),
            );
        }
        rx_queue.direct_link = is_direct.then_some(0);
        let (mut processed, mut received) = (Vec::new(), 0);
        loop {
            if is_direct {
                rx_queue.on_first_changed(&link);
            } else if let Some(at) = link.poll_timeout()
                && at < rx_queue.next_at()
            {
                received += rx_queue.take_arrived(&mut link, at);
                continue;
            }
            let now = rx_queue.next_at();
            let packet = match is_direct {
                true => rx_queue.poll_direct(&mut link, now, &mut received),
                false => rx_queue.poll_packet(),
            };
            if packet.is_none() {
                return (processed, rx_queue.dropped, received);
            }
            processed.push(now);
        }
    }

    #[test]
    fn a_full_backlog_drops_the_same_packets_out_of_a_link() {
        for spacing in [0, 1, 350, 699, 700, 701, 5000] {
            let there = processed(3500, spacing, true);
            assert_eq!(there, processed(3500, spacing, false), "{spacing} ns apart");
            let has_drops = there.1 > 0;
            assert_eq!(has_drops, spacing <= 350, "{spacing} ns apart");
        }
    }
}
