//! Observers of the packets of a link.

use core::fmt::Debug;

use base::Instant;
use stack::Packet;

/// Which end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TapPoint {
    /// Before its queue: what a capture at the sender sees.
    Entry,
    /// Behind its delay: what a capture at the receiver sees.
    Exit,
}

/// Sees packets that pass a point of a link; see [`World::add_tap`](super::World::add_tap).
pub trait Tap: Debug {
    /// A packet passes. GSO packets are shown whole.
    fn on_packet(&mut self, at: Instant, packet: &Packet);
}
