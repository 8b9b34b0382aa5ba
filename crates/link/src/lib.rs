//! What happens to a packet between two hosts: one direction of one hop as a state machine.
//!
//! A [`Link`](https://docs.rs) has no clock, no file descriptor and no thread: time is an argument
//! and deadlines come out. The same link serves the simulator and the real-time emulator.
#![forbid(unsafe_code)]

mod spec;

pub use spec::{LinkSpec, Loss, Reorder, TooBig};
