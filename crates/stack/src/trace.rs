//! What a host tells of itself while it works.

use core::fmt::Debug;

use base::Instant;

use crate::host::SocketId;
use crate::packet::Packet;

/// Something that happened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum TraceEvent<'a> {
    /// A packet left.
    Sent(&'a Packet),
    /// A packet came in.
    Received(&'a Packet),
}

/// Somebody who listens; see [`Host::set_trace`](crate::Host::set_trace).
pub trait Trace: Debug + Send {
    /// Hears of one event; `socket` is `None` where it belongs to no connection.
    fn on_event(&mut self, now: Instant, socket: Option<SocketId>, event: &TraceEvent<'_>);
}
