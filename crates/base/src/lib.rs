#![doc = include_str!("../README.md")]
//!
//! It reads no clock, opens no file, draws no random number of its own. `doctor` and `stack` meet
//! only here.
//!
//! Reading list: RFC 9293 (TCP), RFC 7323 (window scaling, timestamps), RFC 2018 (SACK), RFC 6298
//! (retransmission timeout), RFC 2544 section 26 (how throughput is stated).
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

mod change;
mod checksum;
mod diagnostic;
mod foreign_text;
mod gso_packet;
pub mod human;
pub mod icmp;
pub mod inet_diag;
pub mod ip;
mod kernel_name;
pub mod knob;
mod limit;
mod parse;
#[cfg(feature = "std")]
pub mod pcap;
pub mod records;
mod rng;
mod sample;
mod seq;
pub mod settings;
pub mod tcp;
pub mod tcp_info;
mod time;
mod units;
mod virtio;
mod wire_packet;

pub use change::{Change, KnobValue, Live, Netns, Target};
pub use checksum::{Checksum, update_checksum, update_partial};
pub use diagnostic::Diagnostic;
pub use foreign_text::{harmless, is_obeyed};
pub use gso_packet::GsoPacket;
pub use kernel_name::KernelName;
pub use knob::{KNOBS, Knob, KnobError, Scope, StackSite, find_knob};
pub use limit::Limit;
pub use parse::{ParseError, ParseErrorKind};
pub use rng::Rng;
pub use sample::{
    BbrState, CongestionState, CounterSet, FlowKey, FlowSample, HostSample, LinkSample,
    ListenerSample, PortUse, QdiscSample, Source, TcpState,
};
pub use seq::SeqNum;
pub use time::Instant;
pub use units::{
    Bytes, Fraction, QueueLimit, Rate, UnitError, format_duration, parse_duration, parse_time,
};
pub use virtio::{GsoType, VirtioHeader};
pub use wire_packet::WirePacket;
