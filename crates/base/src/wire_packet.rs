//! Properties of a packet that a path needs.

use alloc::boxed::Box;

/// Anything that a link can carry.
///
/// A *GSO packet* stands for several packets on the wire (segmentation offload). A link counts,
/// delays and drops wire packets, and cuts a GSO packet where only a part of it fits or survives.
/// All segments of a GSO packet but the last have the same size, and the last is not larger.
pub trait WirePacket: Sized {
    /// How many packets this is on the wire; at least 1.
    fn segments(&self) -> u32;

    /// Bytes of all its packets on the wire, each with its own headers.
    fn wire_bytes(&self) -> u64;

    /// Bytes of the largest of its packets on the wire, for the comparison with an MTU.
    fn largest_segment_bytes(&self) -> u32;

    /// Cuts it in front of segment `at`, where `0 < at < self.segments()`.
    fn split_off(&mut self, at: u32) -> Self;

    /// A copy, for links that duplicate.
    fn duplicate(&self) -> Self;
}

/// A large packet goes from place to place as a pointer.
impl<P: WirePacket> WirePacket for Box<P> {
    fn segments(&self) -> u32 {
        P::segments(self)
    }

    fn wire_bytes(&self) -> u64 {
        P::wire_bytes(self)
    }

    fn largest_segment_bytes(&self) -> u32 {
        P::largest_segment_bytes(self)
    }

    fn split_off(&mut self, at: u32) -> Self {
        Self::new(P::split_off(self, at))
    }

    fn duplicate(&self) -> Self {
        Self::new(P::duplicate(self))
    }
}
