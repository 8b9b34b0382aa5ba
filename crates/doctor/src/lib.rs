//! The doctor: from samples of a flow to a verdict in words, with evidence and advice.
//!
//! This crate never sees our own stack, a socket or a clock: it must work from what a kernel shows
//! of a flow. Samples go into a [`Timeline`]; [`diagnose`] takes the timelines of an
//! [`Observation`] and returns verdicts, the most important first.
//!
//! ```
//! use base::{FlowKey, FlowSample, Instant};
//! use core::time::Duration;
//! use doctor::{Observation, Timeline, diagnose};
//!
//! let key = FlowKey { local: ([10, 0, 0, 1], 40_000).into(), remote: ([10, 0, 0, 2], 80).into() };
//! let mut timeline = Timeline::new();
//! for tick in 0..100 {
//!     let mut sample = FlowSample::empty(Instant::ZERO + Duration::from_millis(20 * tick), key);
//!     // A write of 100 bytes waits for the ACK of an earlier small one, and that ACK is late.
//!     (sample.unacked_pkts, sample.notsent_bytes) = (Some(1), Some(100));
//!     sample.snd_mss_bytes = Some(1448);
//!     sample.srtt = Some(Duration::from_millis(22));
//!     sample.min_rtt = Some(Duration::from_micros(260));
//!     timeline.push(sample);
//! }
//! let report = diagnose(&Observation::of(&timeline));
//! let main = report.main().expect("a verdict");
//! assert_eq!(main.diagnosis.id, "nagle-delack-stall");
//! assert_eq!(main.proposals[0].knob.name, "nodelay");
//! ```
//!
//! Reading list: RFC 896 (Nagle), RFC 1122 section 4.2.3.2 (delayed ACKs), RFC 4898 (what limits a
//! sender), RFC 7323 (window scaling), RFC 4821 (path MTU probing).
#![forbid(unsafe_code)]

mod by_cookie;
mod case;
mod catalogue;
mod facts;
mod host_timeline;
mod meter;
mod observation;
pub mod recording;
mod rules;
mod shares;
mod timeline;
mod verdict;
mod view;

pub use by_cookie::ByCookie;
pub use case::{Case, Cases, Place, Services};
pub use catalogue::{DIAGNOSES, Diagnosis, InPackets, Objective, find_diagnosis};
pub use host_timeline::{FullListener, HostTimeline, LinkDrops};
pub use meter::{Held, Meters, Reading};
pub use observation::{Observation, Report, SENDER_UNSEEN, WATCH_LONGER, diagnose, diagnose_host};
pub use recording::{ProcessInfo, Recording, Samples, SocketOwner, Track};
pub use shares::{Shares, paces_itself};
pub use timeline::{Burst, Timeline};
pub use verdict::{Confidence, Evidence, NextLimit, Proposal, Side, Verdict};
