//! Packets on their way, in memory that is used again.

use core::ops::{Deref, DerefMut};

use base::{Instant, WirePacket};
use stack::{Body, Host, Packet, Payload};

/// A packet on its way: queues move a pointer, not some hundred bytes.
#[derive(Debug)]
pub(super) struct Parcel(Box<Packet>);

impl Parcel {
    pub(super) fn new(packet: Packet) -> Self {
        Self(Box::new(packet))
    }
}

impl Deref for Parcel {
    type Target = Packet;

    #[inline]
    fn deref(&self) -> &Packet {
        &self.0
    }
}

impl DerefMut for Parcel {
    #[inline]
    fn deref_mut(&mut self) -> &mut Packet {
        &mut self.0
    }
}

impl WirePacket for Parcel {
    #[inline]
    fn segments(&self) -> u32 {
        Packet::segments(self)
    }

    #[inline]
    fn wire_bytes(&self) -> u64 {
        Packet::wire_bytes(self)
    }

    #[inline]
    fn largest_segment_bytes(&self) -> u32 {
        Packet::largest_segment_bytes(self)
    }

    fn split_off(&mut self, at: u32) -> Self {
        Self::new(Packet::split_off(self, at))
    }

    fn duplicate(&self) -> Self {
        Self::new(Packet::duplicate(self))
    }
}

/// The parcels that have arrived, as many as were ever on their way at once: what arrives leaves
/// its memory to what is sent next, which costs half of what it takes to free and to allocate it.
#[derive(Debug, Default)]
pub(super) struct Parcels {
    arrived: Vec<Parcel>,
}

impl Parcels {
    /// The next packet that a host sends.
    #[inline]
    pub(super) fn pack(&mut self, now: Instant, host: &mut Host) -> Option<Parcel> {
        let Some(mut parcel) = self.arrived.pop() else {
            return host.poll_transmit(now).map(Parcel::new);
        };
        if host.poll_transmit_into(now, &mut parcel) {
            return Some(parcel);
        }
        self.arrived.push(parcel);
        None
    }

    /// Hands a packet to a host.
    #[inline]
    pub(super) fn unpack(&mut self, now: Instant, mut parcel: Parcel, host: &mut Host) {
        host.handle_packet_in_place(now, &mut parcel);
        // What was refused would keep its payload for as long as the parcel lies here.
        if let Body::Tcp(segment) = &mut parcel.body {
            segment.payload = Payload::default();
        }
        self.arrived.push(parcel);
    }
}
