//! Packets on their way, in memory that is used again.

use core::ops::{Deref, DerefMut};

use base::WirePacket;
use stack::Packet;

const EMPTY: &str = "a parcel is full until it is unpacked";

/// A packet on its way: queues move a pointer, not some hundred bytes.
#[derive(Debug)]
pub(super) struct Parcel(Box<Option<Packet>>);

impl Parcel {
    pub(super) fn new(packet: Packet) -> Self {
        Self(Box::new(Some(packet)))
    }
}

impl Deref for Parcel {
    type Target = Packet;

    #[inline]
    fn deref(&self) -> &Packet {
        self.0.as_ref().as_ref().expect(EMPTY)
    }
}

impl DerefMut for Parcel {
    #[inline]
    fn deref_mut(&mut self) -> &mut Packet {
        self.0.as_mut().as_mut().expect(EMPTY)
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

/// The empty parcels, as many as were ever on their way at once: what arrives leaves its memory to
/// what is sent next, which costs half of what it takes to free and to allocate it.
#[derive(Debug, Default)]
pub(super) struct Parcels {
    empty: Vec<Parcel>,
}

impl Parcels {
    #[inline]
    pub(super) fn pack(&mut self, packet: Packet) -> Parcel {
        match self.empty.pop() {
            Some(mut parcel) => {
                *parcel.0 = Some(packet);
                parcel
            }
            None => Parcel::new(packet),
        }
    }

    #[inline]
    pub(super) fn unpack(&mut self, mut parcel: Parcel) -> Packet {
        let packet = parcel.0.take().expect(EMPTY);
        self.empty.push(parcel);
        packet
    }
}
