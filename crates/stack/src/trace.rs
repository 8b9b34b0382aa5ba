//! Trace events of a host.
//!
//! Events borrow their data, so that reporting costs nothing without a trace. Writers take a name
//! and named values from [`TraceEvent::name`] and [`TraceEvent::visit`] (the shape of qlog), or the
//! line of text that these make together.

use core::fmt;
use core::fmt::Debug;
use core::time::Duration;

use base::{CongestionState, Instant, Limit, TcpState};

use crate::host::{Failure, SocketId};
use crate::packet::{Body, IcmpKind, Packet, Segment};

/// An event of a host or a connection.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum TraceEvent<'a> {
    /// A packet was sent.
    Sent(&'a Packet),
    /// A packet was received.
    Received(&'a Packet),
    /// The connection changed its state (RFC 9293 section 3.3.2).
    State(TcpState),
    /// The connection failed.
    Failed(Failure),
    /// A timer fired.
    Timer(&'static str),
    /// Data was retransmitted, as offsets of our stream.
    Retransmitted {
        /// First byte.
        start: u64,
        /// After the last.
        end: u64,
    },
    /// Packets were found to be lost.
    Lost {
        /// How many.
        packets: u32,
    },
    /// A segment was dropped.
    Dropped {
        /// Why.
        reason: &'static str,
    },
    /// Loss recovery changed its state.
    Congestion(CongestionState),
    /// The congestion window or its threshold changed, in packets.
    Window {
        /// Congestion window.
        cwnd: u32,
        /// Slow-start threshold; `None`: none yet.
        ssthresh: Option<u32>,
        /// Packets in flight.
        in_flight: u32,
    },
    /// A round-trip time was measured.
    Rtt {
        /// The sample.
        latest: Duration,
        /// Smoothed round-trip time.
        smoothed: Duration,
        /// Retransmission timeout.
        rto: Duration,
    },
    /// What limits the sender changed.
    Limit(Option<Limit>),
    /// Another path MTU is used, in bytes.
    Mtu(u16),
}

/// A value of an event, ready to be written down.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub enum TraceValue<'a> {
    /// A number; times are nanoseconds.
    Number(u64),
    /// A text without line breaks and quotes; where it may hold spaces it is the last value.
    Text(&'a dyn fmt::Display),
}

impl fmt::Display for TraceValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => fmt::Display::fmt(number, f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

impl Debug for TraceValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Receives the values of an event, each with its name.
type Visitor<'v> = dyn FnMut(&'static str, TraceValue<'_>) + 'v;

impl TraceEvent<'_> {
    /// Name of the event, such as `packet-sent`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Sent(_) => "packet-sent",
            Self::Received(_) => "packet-received",
            Self::State(_) => "state",
            Self::Failed(_) => "failed",
            Self::Timer(_) => "timer-fired",
            Self::Retransmitted { .. } => "retransmitted",
            Self::Lost { .. } => "lost",
            Self::Dropped { .. } => "dropped",
            Self::Congestion(_) => "congestion",
            Self::Window { .. } => "window",
            Self::Rtt { .. } => "rtt",
            Self::Limit(_) => "limit",
            Self::Mtu(_) => "mtu",
        }
    }

    /// Passes each value with its name to `visitor`, always in the same order. A value that is not
    /// known has no entry.
    pub fn visit(&self, visitor: &mut Visitor<'_>) {
        let number = |value: u32| TraceValue::Number(value.into());
        match *self {
            Self::Sent(packet) | Self::Received(packet) => visit_packet(packet, visitor),
            Self::State(state) => visitor("state", TraceValue::Text(&state.name())),
            Self::Failed(failure) => visitor("failure", TraceValue::Text(&failure_name(failure))),
            Self::Timer(timer) => visitor("timer", TraceValue::Text(&timer)),
            Self::Retransmitted { start, end } => {
                visitor("start", TraceValue::Number(start));
                visitor("end", TraceValue::Number(end));
            }
            Self::Lost { packets } => visitor("packets", number(packets)),
            Self::Dropped { reason } => visitor("reason", TraceValue::Text(&reason)),
            Self::Congestion(state) => visitor("state", TraceValue::Text(&state.name())),
            Self::Window {
                cwnd,
                ssthresh,
                in_flight,
            } => {
                visitor("cwnd", number(cwnd));
                if let Some(ssthresh) = ssthresh {
                    visitor("ssthresh", number(ssthresh));
                }
                visitor("in_flight", number(in_flight));
            }
            Self::Rtt {
                latest,
                smoothed,
                rto,
            } => {
                visitor("latest_ns", nanos(latest));
                visitor("smoothed_ns", nanos(smoothed));
                visitor("rto_ns", nanos(rto));
            }
            Self::Limit(limit) => {
                let name = limit.map_or("none", Limit::name);
                visitor("limit", TraceValue::Text(&name));
            }
            Self::Mtu(mtu) => visitor("mtu", number(mtu.into())),
        }
    }
}

/// One line: the name, then `name=value` for each value.
impl fmt::Display for TraceEvent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        let mut written = Ok(());
        self.visit(&mut |name, value| {
            if written.is_ok() {
                written = write!(f, " {name}={value}");
            }
        });
        written
    }
}

/// A receiver of trace events; see [`Host::set_trace`](crate::Host::set_trace).
pub trait Trace: Debug + Send {
    /// Called for each event; `socket` is `None` if it belongs to no connection.
    fn on_event(&mut self, now: Instant, socket: Option<SocketId>, event: &TraceEvent<'_>);
}

fn nanos(duration: Duration) -> TraceValue<'static> {
    TraceValue::Number(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

fn visit_packet(packet: &Packet, visitor: &mut Visitor<'_>) {
    let Packet {
        source,
        destination,
        ecn: _,
        dont_fragment: _,
        hop_limit: _,
        not_before: _,
        ref body,
    } = *packet;
    visitor("source", TraceValue::Text(&source));
    visitor("destination", TraceValue::Text(&destination));
    match body {
        Body::Tcp(segment) => visit_segment(segment, visitor),
        Body::Icmp(error) => {
            let kind = match error.kind {
                IcmpKind::TooBig { .. } => "too-big",
                IcmpKind::Unreachable => "unreachable",
                IcmpKind::TimeExceeded => "time-exceeded",
                IcmpKind::Refused => "refused",
            };
            visitor("icmp", TraceValue::Text(&kind));
            if let IcmpKind::TooBig { mtu } = error.kind {
                visitor("mtu", TraceValue::Number(mtu.into()));
            }
            visitor("about", TraceValue::Text(&error.remote));
            visitor("seq", TraceValue::Number(error.seq.number().into()));
        }
    }
}

fn visit_segment(segment: &Segment, visitor: &mut Visitor<'_>) {
    let number = |number: u32| TraceValue::Number(number.into());
    visitor("source_port", number(segment.source_port.into()));
    visitor("destination_port", number(segment.destination_port.into()));
    visitor("flags", TraceValue::Text(&segment.flags));
    visitor("seq", number(segment.seq.number()));
    visitor("ack", number(segment.ack.number()));
    visitor("window", number(segment.window.into()));
    visitor("payload_bytes", number(segment.payload.len()));
    visitor("segments", number(segment.segments()));
    let blocks = segment.options.sack.as_ref();
    if let Some(blocks) = blocks {
        let count = blocks.iter().count() as u32;
        visitor("sack_blocks", number(count));
    }
}

const fn failure_name(failure: Failure) -> &'static str {
    match failure {
        Failure::Reset => "reset",
        Failure::BrokenPipe => "broken",
        Failure::Refused => "refused",
        Failure::TimedOut => "timed-out",
        Failure::Unreachable => "unreachable",
        Failure::Aborted => "aborted",
        Failure::Disconnected => "disconnected",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{EcnMark, IcmpError};
    use alloc::string::ToString;
    use base::SeqNum;
    use base::tcp::TcpFlags;
    use bytes::Bytes;

    fn packet(body: Body) -> Packet {
        Packet {
            source: [10, 0, 0, 1].into(),
            destination: [10, 0, 0, 2].into(),
            ecn: EcnMark::NotEct,
            dont_fragment: true,
            hop_limit: 64,
            not_before: Instant::ZERO,
            body,
        }
    }

    #[test]
    fn packets_are_lines_of_text() {
        let check = |event: TraceEvent<'_>, expected: &str| {
            assert_eq!(event.to_string(), expected);
        };
        let segment = packet(Body::Tcp(Segment {
            source_port: 1,
            destination_port: 80,
            seq: SeqNum::new(7),
            ack: SeqNum::new(9),
            flags: TcpFlags::ACK | TcpFlags::PSH,
            window: 100,
            payload: Bytes::from_static(&[0; 250]).into(),
            gso_size: 100,
            ..Segment::default()
        }));
        let fields = "source=10.0.0.1 destination=10.0.0.2 source_port=1 destination_port=80 \
                      flags=P. seq=7 ack=9 window=100 payload_bytes=250 segments=3";
        check(
            TraceEvent::Sent(&segment),
            &alloc::format!("packet-sent {fields}"),
        );
        let icmp = packet(Body::Icmp(IcmpError {
            kind: IcmpKind::TooBig { mtu: 1400 },
            local: "10.0.0.2:5".parse().unwrap(),
            remote: "10.0.0.3:80".parse().unwrap(),
            seq: SeqNum::new(7),
        }));
        check(
            TraceEvent::Received(&icmp),
            "packet-received source=10.0.0.1 destination=10.0.0.2 icmp=too-big mtu=1400 \
             about=10.0.0.3:80 seq=7",
        );
    }

    #[test]
    fn each_event_has_its_name_and_values() {
        let check = |event: TraceEvent<'_>, expected: &str| {
            assert_eq!(event.to_string(), expected);
        };
        check(
            TraceEvent::State(TcpState::FinWait1),
            "state state=fin-wait-1",
        );
        check(
            TraceEvent::Failed(Failure::TimedOut),
            "failed failure=timed-out",
        );
        check(TraceEvent::Timer("pacing"), "timer-fired timer=pacing");
        let (start, end) = (1, 1449);
        check(
            TraceEvent::Retransmitted { start, end },
            "retransmitted start=1 end=1449",
        );
        check(TraceEvent::Lost { packets: 3 }, "lost packets=3");
        let reason = "out of window";
        check(
            TraceEvent::Dropped { reason },
            "dropped reason=out of window",
        );
        check(
            TraceEvent::Congestion(CongestionState::Recovery),
            "congestion state=recovery",
        );
        let window = |ssthresh| TraceEvent::Window {
            cwnd: 10,
            ssthresh,
            in_flight: 4,
        };
        check(window(None), "window cwnd=10 in_flight=4");
        check(window(Some(7)), "window cwnd=10 ssthresh=7 in_flight=4");
        check(
            TraceEvent::Rtt {
                latest: Duration::from_micros(1),
                smoothed: Duration::from_nanos(7),
                rto: Duration::MAX,
            },
            "rtt latest_ns=1000 smoothed_ns=7 rto_ns=18446744073709551615",
        );
        check(TraceEvent::Limit(None), "limit limit=none");
        check(
            TraceEvent::Limit(Some(Limit::PeerWindow)),
            "limit limit=peer-window",
        );
        check(TraceEvent::Mtu(1400), "mtu mtu=1400");
    }

    #[test]
    fn events_are_small() {
        // Three durations of 16 bytes and what tells them from the others.
        assert!(size_of::<TraceEvent<'_>>() <= 56);
    }
}
