//! Packet captures: TCP connections in them, as samples for the doctor.
//!
//! [`Analysis`] takes packets one after the other and keeps a bounded state of each connection;
//! what comes out is a [`doctor::Recording`], as live sensors fill one: both ends of each
//! connection, as far as its packets show them. What a capture cannot see (buffers, options of
//! sockets, what a program has not read) is `None`. What a sender waited for is inferred from what
//! it did next. The doctor has no rule for captures: `Diagnosis::in_packets` says how far packets
//! alone show a diagnosis.
//!
//! It opens no file and reads no clock.
//!
//! Reading list: RFC 9293 (TCP), RFC 7323 (window scaling, timestamps), RFC 2883 (D-SACK), RFC 8985
//! (probes of the tail).
#![forbid(unsafe_code)]

mod acks;
mod analysis;
mod arrived;
mod end;
mod flow;
mod gaps;
mod input;
mod look;
mod loss;
mod packet;
mod rtt;
mod runs;
mod scale;
mod sender;
mod summary;
mod table;
mod trace;
mod waits;

pub use analysis::{Analysis, Settings};
pub use input::{BUFFER_BYTES, Input, Position};
pub use summary::{CaptureInfo, CaptureSummary, DirectionSummary, FlowSummary, Vantage, Waited};
pub use trace::{AckedTo, FlowTrace, Retransmission, RetransmissionKind, SentSpan};
