//! Programs on hosts with our stack: the traffic of a [`Workload`](crate::Workload), as system
//! calls on a [`stack::Host`].
//!
//! A program here does what the kernel engine's programs do (crate `linux`, module `workload`): who
//! writes first, framing, warm-up, when a response time starts and ends. Its flows are *threads*
//! that make one blocking system call after the other. What a thread does is a `script`; what a
//! call means to the host is in `thread`; [`Program`] knows whose turn it is.
//!
//! The driver of a host drives its program too: after each [`App::call`] the host may have packets
//! to send, and they leave before the next call, as they do inside a system call.

mod costs;
mod course;
mod flow;
mod ledger;
mod machine;
mod owners;
mod pattern;
mod program;
mod script;
mod session;
mod thread;

use core::fmt::Debug;

use base::Instant;
use stack::{Event, Host, SocketId};

pub use costs::HostCosts;
pub(crate) use costs::PacketCost;
pub use course::{Course, MeasuredSpan, Scene};
pub use machine::{Machine, WARM_UP};
pub use program::{LAB_PORT, Program, ProgramSpec};
pub use session::{Counts, Totals};

/// One program, driven by events, the same on every engine that has our stack under it.
pub trait App: Debug {
    /// Begins; called once.
    fn start(&mut self, now: Instant, host: &mut Host);

    /// Hears of an event of the host.
    fn handle_event(&mut self, now: Instant, id: SocketId, event: Event);

    /// Makes the next system call that is due by `now`; false where none is. What the call made the
    /// host send must leave before the next one is made.
    fn call(&mut self, now: Instant, host: &mut Host) -> bool;

    /// When [`App::call`] is to be tried again, unless an event comes first.
    fn poll_timeout(&mut self) -> Option<Instant>;

    /// Whether it has nothing more to do, ever.
    fn is_done(&self) -> bool;

    /// The connection whose limits are recorded, and whether it is the time that counts.
    fn watched(&self, now: Instant) -> Option<(SocketId, bool)> {
        let _ = now;
        None
    }
}
