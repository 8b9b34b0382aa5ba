//! What a host tells of itself while it works.

use core::fmt::Debug;

use base::{Instant, TcpState};

use crate::host::{Failure, SocketId};
use crate::packet::Packet;

/// Something that happened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum TraceEvent<'a> {
    /// A packet left.
    Sent(&'a Packet),
    /// A packet came in.
    Received(&'a Packet),
    /// The connection went to another state.
    State(TcpState),
    /// The connection broke.
    Failed(Failure),
    /// A timer fired.
    Timer(&'static str),
    /// Data left again, as offsets of our stream.
    Retransmitted {
        /// First byte.
        start: u64,
        /// Behind the last.
        end: u64,
    },
    /// Packets were found to be lost.
    Lost {
        /// How many.
        packets: u32,
    },
    /// A segment was dropped.
    Dropped {
        /// Why.
        reason: &'static str,
    },
}

/// Somebody who listens; see [`Host::set_trace`](crate::Host::set_trace).
pub trait Trace: Debug + Send {
    /// Hears of one event; `socket` is `None` where it belongs to no connection.
    fn on_event(&mut self, now: Instant, socket: Option<SocketId>, event: &TraceEvent<'_>);
}
