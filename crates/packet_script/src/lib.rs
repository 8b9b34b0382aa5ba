//! Packet scripts: what a TCP does, packet by packet, as text that people write.
//!
//! A script plays the application above one host and the peer on the other side of the wire. Each
//! line says when something happens and what: a call of the application, a packet that the peer
//! sends (`in`), or a packet that the host must send (`out`). The same script runs on our own stack
//! in virtual time and on the kernel through a TUN device; both are a [`ScriptHost`].
//!
//! ```
//! let text = "
//! about  A write leaves at once and is acknowledged.
//! +0     established passive rtt 10ms
//! +0     write 100
//! +0     out data 1..101 PSH ack 1
//! +10ms  in ack 101
//! +0     check unacked 0
//! ";
//! # use packet_script::PacketScript;
//! let script = PacketScript::parse("example.script", text).expect("a valid script");
//! assert_eq!(script.about, "A write leaves at once and is acknowledged.");
//! ```
//!
//! **Time** is the first word of a step: `+40ms` after the step before it happened, `+40..44ms` for
//! a range, `+40ms~2ms` for a tolerance, `@1s` after the start, `name+1s` after the packet that was
//! marked `as name`. Without a range a packet may be one tick of the kernel late. While the script
//! waits, nothing may leave the host but what the next `out` says.
//!
//! **Numbers** are relative to the SYN of their side, so the first byte is 1; windows are in bytes.
//! What an `out` does not mention is judged by a default: flags are exactly those named, the
//! sequence number is the next one, SACK blocks are none; window and timestamps do not matter.
//!
//! `crates/stack/scripts/README.md` describes every word.

mod compare;
mod connection;
mod model;
mod on_stack;
mod packet_words;
mod read;
mod run;
mod sample;
mod settings;
mod wire;
mod words;

pub use connection::{HOST_PORT, PEER_PORT_ACTIVE, PEER_PORT_PASSIVE};
pub use model::{
    Action, After, Call, CallResult, Check, CheckValue, Echo, Engine, IcmpName, OptionsSpec,
    PacketScript, PacketSpec, PeerSetup, SackSpec, Seq, Setting, SettingValue, Setup, Step,
    TimestampSpec, When, WindowSpec,
};
pub use on_stack::StackHost;
pub use run::{
    Failure, Happening, Icmp, Observed, ScriptHost, Value, Wire, WireOptions, observe, pattern, run,
};
pub use settings::unknown_setting;
