#![doc = include_str!("../README.md")]
//!
//! A [`Link`] is one direction of one hop. It has no clock, no file descriptor and no thread. The
//! same link serves the simulator and the real-time emulator. It never draws a random number that
//! its seed does not determine and computes without floating point, so a run repeats.
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

pub use crate::link::{Handled, Link};
pub use crate::spec::{LinkSpec, Loss, Reorder, SpecError, TooBig};
pub use crate::stats::LinkStats;
pub use base;
