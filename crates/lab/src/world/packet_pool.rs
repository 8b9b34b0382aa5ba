//! Packets on their way, in memory that is used again.

use core::ops::Deref;

use base::{Instant, WirePacket};
use stack::{Body, Host, Packet, Payload};

/// A packet on its way, with its size: queues move few bytes, and need no look at the packet.
#[derive(Debug)]
pub(super) struct BoxedPacket {
    packet: Box<Packet>,
    segments: u32,
    wire_bytes: u32,
}

impl BoxedPacket {
    pub(super) fn new(packet: Packet) -> Self {
        Self::of(Box::new(packet))
    }

    fn of(packet: Box<Packet>) -> Self {
        let wire_bytes = wire_bytes_of(&packet);
        Self::of_size(packet, wire_bytes)
    }

    #[inline]
    fn of_size(packet: Box<Packet>, wire_bytes: u32) -> Self {
        debug_assert_eq!(wire_bytes, wire_bytes_of(&packet));
        Self {
            segments: packet.segments(),
            wire_bytes,
            packet,
        }
    }

    /// Counts a hop; false where its hop limit does not let it go on.
    pub(super) fn take_hop(&mut self) -> bool {
        let left = self.packet.hop_limit.saturating_sub(1);
        self.packet.hop_limit = left;
        left > 0
    }
}

impl Deref for BoxedPacket {
    type Target = Packet;

    #[inline]
    fn deref(&self) -> &Packet {
        &self.packet
    }
}

impl WirePacket for BoxedPacket {
    #[inline]
    fn segments(&self) -> u32 {
        self.segments
    }

    #[inline]
    fn wire_bytes(&self) -> u64 {
        self.wire_bytes.into()
    }

    // It matters to packets of several segments only.
    #[inline(never)]
    fn largest_segment_bytes(&self) -> u32 {
        self.packet.largest_segment_bytes()
    }

    fn split_off(&mut self, at: u32) -> Self {
        let rest = Self::of(self.packet.split_off(at));
        self.segments = self.packet.segments();
        self.wire_bytes -= rest.wire_bytes;
        rest
    }

    fn duplicate(&self) -> Self {
        Self::of(self.packet.duplicate())
    }
}

fn wire_bytes_of(packet: &Packet) -> u32 {
    u32::try_from(packet.wire_bytes()).unwrap_or(u32::MAX)
}

/// The memory of packets that have arrived, of as many as were ever on their way at once: it is
/// left to what is sent next, which costs half of what it takes to free and to allocate it.
#[derive(Debug, Default)]
pub(super) struct PacketPool {
    #[expect(clippy::vec_box, reason = "the boxes go into the next packets")]
    arrived: Vec<Box<Packet>>,
}

impl PacketPool {
    /// The next packet that a host sends.
    #[inline]
    pub(super) fn transmit(&mut self, now: Instant, host: &mut Host) -> Option<BoxedPacket> {
        let Some(memory) = self.arrived.last_mut() else {
            return host.poll_transmit(now).map(BoxedPacket::new);
        };
        let wire_bytes = host.poll_transmit_into(now, memory)?;
        let packet = self.arrived.pop()?;
        Some(BoxedPacket::of_size(packet, wire_bytes))
    }

    /// Hands a packet to a host.
    #[inline]
    pub(super) fn deliver(&mut self, now: Instant, packet: BoxedPacket, host: &mut Host) {
        let mut packet = packet.packet;
        host.handle_packet_in_place(now, &mut packet);
        // What was refused would keep its payload for as long as the packet lies here.
        if let Body::Tcp(segment) = &mut packet.body {
            segment.payload = Payload::default();
        }
        self.arrived.push(packet);
    }
}
