#![doc = include_str!("../README.md")]
//!
//! A [`Host`] has no clock, no thread and no file descriptor: packets and the time are arguments,
//! packets and deadlines come out. Packets may be *GSO packets*, with up to 64 KiB of payload
//! under one header, in both directions.
//!
//! Reading list: RFC 9293 (TCP), RFC 7323 (window scaling, timestamps), RFC 2018 and 2883 (SACK),
//! RFC 6298 (retransmission timeout), RFC 8985 (RACK-TLP), RFC 6937 (PRR), RFC 5961 (blind
//! attacks), RFC 9438 (CUBIC). "Rule 8.4" in a comment is one of Linux's, as listed with what was
//! measured in <https://github.com/tcptailor/tcptailor/blob/main/docs/linux-tcp.md>.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

// For processors without compare-and-swap, such as a Cortex-M0.
#[cfg(target_has_atomic = "ptr")]
use alloc::sync::Arc;
#[cfg(not(target_has_atomic = "ptr"))]
use portable_atomic_util::Arc;

pub mod cc;
mod config;
mod cookie;
mod counters;
mod departures;
mod host;
mod isn;
mod keyed_hash;
mod mtu;
mod packet;
mod pool;
mod ports;
pub mod profile;
mod progress;
mod rare;
mod recovery;
mod recv;
mod send;
mod shrink;
mod tcp;
mod tick;
mod trace;
pub mod wire;

pub use base;
pub use bytes;
pub use config::Config;
pub use counters::Counters;
pub use departures::Departures;
pub use host::{
    ConnectError, Event, Failure, Host, HostConfig, HostSettings, ListenError, ListenOptions,
    MemoryBudget, PoolSize, ReadError, Secret, SocketId, Wait, WriteError, WriteFlags,
};
pub use packet::{
    Body, EcnMark, IcmpError, IcmpKind, Packet, Payload, Segment, SegmentOptions, Timestamps,
};
pub use pool::{PoolOwner, PoolState};
pub use recovery::RecoveryStats;
pub use recv::{AckStats, RecvQueueStats, RecvStats};
pub use send::SendStats;
pub use tcp::Arrived;
pub use tcp::counters::ConnectionCounters;
pub use trace::{Trace, TraceEvent, TraceValue};
