//! What the nodes of a world share: the clock, the links, and the packets outside of links.

use std::collections::VecDeque;

use base::{Instant, WirePacket};

use super::audit::Audit;
use super::hop::{Hop, too_big_reply};
use super::packet_pool::{BoxedPacket, PacketPool};
use super::routes::Routes;
use super::rx_queue::RxQueue;
use super::sim_host::SimHost;
use crate::agenda::Agenda;
use crate::app::App;

#[derive(Debug, Default)]
pub(super) struct Net {
    pub(super) now: Instant,
    pub(super) agenda: Agenda,
    pub(super) hops: Vec<Hop>,
    /// What waits at each node; a router's is always empty.
    pub(super) rx_queues: Vec<RxQueue>,
    /// ICMP errors on their way back to the host that sent what was too big.
    pub(super) returned: VecDeque<(usize, BoxedPacket)>,
    pub(super) packets: PacketPool,
    pub(super) audit: Option<Audit>,
    pub(super) counts: Counts,
}

/// Wire packets, outside of links.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    /// Sent by a host.
    pub(super) sent: u64,
    /// ICMP errors that a packet was too big.
    pub(super) reported: u64,
    /// Received by a host.
    pub(super) received: u64,
    /// Had no route, or exceeded the hop limit.
    pub(super) lost: u64,
}

impl Net {
    /// Sends everything that the host of `node` has to send now.
    #[inline]
    pub(super) fn transmit<A: App>(
        &mut self,
        node: usize,
        routes: &Routes,
        sim_host: &mut SimHost<A>,
    ) {
        if sim_host.host.may_transmit() {
            self.transmit_all(node, routes, sim_host);
        }
    }

    #[inline(never)]
    fn transmit_all<A: App>(&mut self, node: usize, routes: &Routes, sim_host: &mut SimHost<A>) {
        while let Some((at, packet)) = sim_host.poll_transmit(self.now, &mut self.packets) {
            if let Some(audit) = &mut self.audit {
                audit.on_sent(&packet);
            }
            self.counts.sent += u64::from(packet.segments());
            if let Some(reply) = self.send(routes, at, packet) {
                self.returned.push_back((node, reply));
            }
        }
    }

    /// Lets the host of `node` process the next packet that is due; false where there is none.
    #[inline]
    pub(super) fn receive_next<A: App>(&mut self, node: usize, sim_host: &mut SimHost<A>) -> bool {
        let rx_queue = &mut self.rx_queues[node];
        if rx_queue.next_at() > self.now {
            return false;
        }
        let packet = match rx_queue.direct_link {
            None => rx_queue.poll_packet(),
            Some(link) => {
                let link = &mut self.hops[link].link;
                rx_queue.poll_direct(link, self.now, &mut self.counts.received)
            }
        };
        let Some(packet) = packet else {
            return false;
        };
        self.packets.deliver(self.now, packet, &mut sim_host.host);
        true
    }

    /// Queues what has arrived by now out of the link that the host of `node` reads directly.
    pub(super) fn take_arrived(&mut self, node: usize) {
        let rx_queue = &mut self.rx_queues[node];
        if let Some(link) = rx_queue.direct_link {
            self.counts.received += rx_queue.take_arrived(&mut self.hops[link].link, self.now);
        }
    }

    /// When the next packet arrives of those that stay in their link; [`Instant::MAX`]: never.
    pub(super) fn next_arrival(&self) -> Instant {
        let direct = self.hops.iter().filter(|hop| hop.read_by.is_some());
        let arrivals = direct.filter_map(|hop| hop.link.poll_timeout());
        arrivals.min().unwrap_or(Instant::MAX)
    }

    /// Forwards a packet from a router with these routes.
    pub(super) fn forward(&mut self, routes: &Routes, mut packet: BoxedPacket) {
        if !packet.take_hop() {
            self.counts.lost += u64::from(packet.segments());
            return;
        }
        let mut next = Some(packet);
        while let Some(packet) = next {
            next = self.send(routes, self.now, packet);
        }
    }

    /// Puts a packet into the link that leads to its destination, at the present time or, where
    /// the host is still busy with it, later. Returns the error of one that is too big.
    #[inline]
    fn send(&mut self, routes: &Routes, at: Instant, packet: BoxedPacket) -> Option<BoxedPacket> {
        let Some(link) = routes.find(&packet.destination) else {
            self.counts.lost += u64::from(packet.segments());
            return None;
        };
        let hop = &mut self.hops[link];
        let next = hop.link.poll_timeout();
        let too_big = hop.handle_packet(at, packet);
        // A packet that was held back may be reordered behind one that arrives at the same time.
        let overtakes = hop.read_by.is_some() && hop.link.spec().reorder.is_some();
        if overtakes || hop.link.poll_timeout() != next {
            match hop.read_by {
                None => self.agenda.set(hop.member, hop.link.poll_timeout()),
                Some(member) => {
                    let rx_queue = &mut self.rx_queues[hop.to];
                    rx_queue.on_first_changed(&hop.link);
                    self.agenda.hasten(member, rx_queue.next_at());
                }
            }
        }
        let packet = too_big?;
        let reply = too_big_reply(&packet, hop.link.spec())?;
        self.counts.reported += 1;
        Some(BoxedPacket::new(reply))
    }
}
