//! Why was it that fast: from samples of a flow to a verdict in words, with evidence and advice.
//!
//! This crate never sees our own stack, a socket or a clock: it must work from what a kernel shows
//! of a flow. Samples go into a [`Timeline`]; [`diagnose`] takes the timelines of an
//! [`Observation`] and returns verdicts, the most important first.
//!
//! Reading list: RFC 896 (Nagle), RFC 1122 section 4.2.3.2 (delayed ACKs), RFC 4898 (what limits a
//! sender), RFC 7323 (window scaling), RFC 4821 (path MTU probing).
#![forbid(unsafe_code)]

mod catalogue;
mod host_timeline;
#[cfg(feature = "serde")]
mod json;
mod observation;
mod rules;
mod timeline;
mod verdict;
mod view;

pub use catalogue::{DIAGNOSES, Diagnosis, find_diagnosis};
pub use host_timeline::{HostTimeline, LinkDrops};
pub use observation::{Observation, Report, diagnose};
pub use timeline::{Burst, Timeline};
pub use verdict::{Confidence, Evidence, NextLimit, Proposal, Side, Verdict};
