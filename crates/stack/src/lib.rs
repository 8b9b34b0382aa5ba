//! What one host does: TCP as a state machine, with every knob.
//!
//! A [`Host`] has no clock, no thread and no file descriptor: packets and the time are arguments,
//! packets and deadlines come out. One thread owns it. Packets may be *superpackets*, with up to
//! 64 KiB of payload under one header, in both directions.
//!
//! Reading list: RFC 9293 (TCP), RFC 7323 (window scaling, timestamps), RFC 2018 and 2883 (SACK),
//! RFC 6298 (retransmission timeout), RFC 8985 (RACK-TLP), RFC 6937 (PRR), RFC 5961 (blind
//! attacks), RFC 9438 (CUBIC).
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod cc;
mod cookie;
mod counters;
mod departures;
mod host;
mod isn;
mod keyed_hash;
mod mtu;
mod packet;
pub mod packet_script;
mod pool;
mod ports;
pub mod profile;
mod recovery;
mod recv;
mod send;
mod tcp;
mod tick;
mod trace;
pub mod wire;

pub use counters::Counters;
pub use departures::Departures;
pub use host::{
    ConnectError, Event, Failure, Host, HostConfig, HostSettings, ListenError, ListenOptions,
    MemoryBudget, PoolSize, ReadError, Secret, SocketId, Wait, WriteError, WriteFlags,
};
pub use packet::{
    Body, EcnMark, IcmpError, IcmpKind, Packet, Payload, Segment, SegmentOptions, Timestamps,
};
pub use pool::PoolState;
pub use tcp::Arrived;
pub use trace::{Trace, TraceEvent, TraceValue};
