//! What happens to a packet between two hosts: one direction of one hop as a state machine.
//!
//! A [`Link`] has no clock, no file descriptor and no thread: time is an argument and deadlines
//! come out. The same link serves the simulator and the real-time emulator. It never draws a random
//! number that its seed does not determine and computes without floating point, so a run repeats.
//!
//! ```
//! use base::{Instant, WirePacket};
//! use link::{Link, LinkSpec};
//!
//! struct Packet(u32);
//! impl WirePacket for Packet {
//!     fn segments(&self) -> u32 { 1 }
//!     fn wire_bytes(&self) -> u64 { self.0.into() }
//!     fn largest_segment_bytes(&self) -> u32 { self.0 }
//!     fn split_off(&mut self, _: u32) -> Self { unreachable!("one segment") }
//!     fn duplicate(&self) -> Self { Self(self.0) }
//! }
//!
//! let spec = LinkSpec {
//!     rate: Some("12mbit".parse()?),
//!     delay: base::parse_duration("20ms")?,
//!     ..LinkSpec::ideal()
//! };
//! let mut link = Link::new(spec, 1).expect("a valid link");
//! let handled = link.handle_packet(Instant::ZERO, Packet(1500));
//! assert_eq!(handled.accepted, 1);
//! // 1500 bytes take 1 ms at 12 Mbit/s, then 20 ms to arrive.
//! let due = link.poll_timeout().expect("a packet is under way");
//! assert_eq!(due, Instant::from_nanos(21_000_000));
//! assert!(link.poll_deliver(due).is_some());
//! # Ok::<(), base::UnitError>(())
//! ```
//!
//! Reading list: RFC 1191 and RFC 8201 (path MTU discovery), RFC 4737 (reordering), Gilbert 1960
//! and Elliott 1963 (bursty loss), RFC 7928 section 3 (how queues are evaluated).
#![forbid(unsafe_code)]

mod fate;
mod link;
mod spec;
mod stats;
mod trace;
mod wire;

pub use crate::link::{Handled, Link, PIECE_TIME_MAX};
pub use crate::spec::{LinkSpec, Loss, Reorder, SpecError, TooBig};
pub use crate::stats::LinkStats;
