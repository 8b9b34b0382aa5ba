//! Which change helps, how much, and did it.
//!
//! A pure crate: what it works on is an argument, and so is the time. The program drives it; real
//! hosts, lab paths and simulated hosts are all the same to it.

mod targets;

pub use targets::{End, Ends};
