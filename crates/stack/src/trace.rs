//! What a host tells of itself while it works.
//!
//! Events are plain data that borrow what they speak of, so that telling costs nothing where nobody
//! listens. Whoever writes them down takes a name and named values from [`TraceEvent::name`] and
//! [`TraceEvent::visit`] (the shape of qlog), or the line of text that they make together.
//!
//! Positions are offsets into the sender's stream: the SYN is 0, the first byte of data 1.

use core::fmt;
use core::fmt::Debug;
use core::time::Duration;

use base::{CongestionState, Instant, Limit, TcpState};

use crate::host::SocketId;
use crate::packet::{Body, IcmpKind, Packet, Segment};

/// Something that happened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum TraceEvent<'a> {
    /// A packet left.
    Sent(&'a Packet),
    /// A packet came in.
    Received(&'a Packet),
    /// A packet that came in was not used, or one that should leave did not.
    Dropped {
        /// It.
        packet: &'a Packet,
        /// Why.
        reason: DropReason,
    },
    /// The connection went from one state of RFC 9293 section 3.3.2 to another.
    StateChanged {
        /// The state that it left.
        from: TcpState,
        /// The state that it is in.
        to: TcpState,
    },
    /// Data in flight is taken for lost.
    Lost {
        /// Offset of its first byte.
        start: u64,
        /// Offset behind its last byte.
        end: u64,
        /// By what it was recognised.
        sign: LossSign,
    },
    /// Data left again.
    Retransmitted {
        /// Offset of its first byte.
        start: u64,
        /// Offset behind its last byte.
        end: u64,
        /// Why.
        cause: RetransmitCause,
    },
    /// A timer fired.
    TimerFired(TimerKind),
    /// Loss recovery went from one state to another.
    CongestionChanged {
        /// The state that it left.
        from: CongestionState,
        /// The state that it is in.
        to: CongestionState,
    },
    /// The congestion window or its threshold changed, in packets.
    WindowChanged {
        /// Congestion window.
        cwnd: u32,
        /// Slow-start threshold; `None`: none yet.
        ssthresh: Option<u32>,
        /// Packets in flight.
        in_flight: u32,
    },
    /// A round-trip time was measured.
    RttUpdated {
        /// The sample.
        latest: Duration,
        /// Smoothed round-trip time.
        smoothed: Duration,
        /// Retransmission timeout.
        rto: Duration,
    },
    /// Something else limits the sender; `None`: nothing does.
    LimitChanged {
        /// What did.
        from: Option<Limit>,
        /// What does.
        to: Option<Limit>,
    },
    /// The path MTU that is used changed, in bytes.
    MtuChanged {
        /// The old one.
        from: u16,
        /// The new one.
        to: u16,
    },
}

/// Declares an enum whose values have names in logs.
macro_rules! named {
    (
        $(#[$about:meta])*
        $name:ident { $($(#[$doc:meta])* $variant:ident = $text:literal,)* }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$doc])* $variant,)*
        }

        impl $name {
            /// All values.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The name in logs.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }
    };
}

named! {
    /// Why a packet was not used.
    DropReason {
        /// It is for an address that the host does not have.
        NotOurs = "not-ours",
        /// Nobody listens there, and there is no such connection.
        NoConnection = "no-connection",
        /// The state of the connection has no use for it (RFC 9293 section 3.10.7).
        UnexpectedInState = "unexpected-in-state",
        /// It lies outside of the receive window.
        OutOfWindow = "out-of-window",
        /// Its timestamp is older than the last one (PAWS, RFC 7323 section 5).
        OldTimestamp = "old-timestamp",
        /// It acknowledges what was never sent, or long ago (RFC 5961 section 5).
        UnacceptableAck = "unacceptable-ack",
        /// A reset or SYN that may be forged; it was answered by a challenge (RFC 5961).
        Challenged = "challenged",
        /// Data behind the end of the peer's stream.
        BehindFin = "behind-fin",
        /// The window is closed.
        ZeroWindow = "zero-window",
        /// The receive buffer is full.
        BufferFull = "buffer-full",
        /// What may be kept behind a gap is used up.
        OutOfOrderFull = "out-of-order-full",
        /// The shared pool of buffers is empty.
        PoolEmpty = "pool-empty",
        /// The listener has as many connections waiting as it may have.
        BacklogFull = "backlog-full",
        /// The host has as many connections as it may have.
        TooManyConnections = "too-many-connections",
        /// An ICMP error that quotes nothing in flight (RFC 5927 section 4.1).
        ForgedIcmp = "forged-icmp",
        /// The local queue is full.
        LocalQueueFull = "local-queue-full",
    }
}

named! {
    /// By what a loss was recognised.
    LossSign {
        /// Something sent later was delivered, and long enough ago (RFC 8985).
        Rack = "rack",
        /// Enough segments above it were SACKed, or enough duplicate ACKs came (RFC 6675, 5681).
        Duplicates = "duplicates",
        /// A partial ACK ended in front of it (RFC 6582).
        PartialAck = "partial-ack",
        /// The retransmission timer expired.
        Timeout = "timeout",
        /// A router said that it was too big.
        TooBig = "too-big",
    }
}

named! {
    /// Why data left again.
    RetransmitCause {
        /// It was marked lost.
        Lost = "lost",
        /// The retransmission timer expired.
        Timeout = "timeout",
        /// To learn whether the last segments arrived (RFC 8985 section 7).
        LossProbe = "loss-probe",
        /// SYN or SYN-ACK was not answered.
        Handshake = "handshake",
    }
}

named! {
    /// Which timer.
    TimerKind {
        /// Repeats SYN or SYN-ACK.
        Handshake = "handshake",
        /// Retransmission timeout (RFC 6298).
        Retransmit = "retransmit",
        /// Tail-loss probe (RFC 8985 section 7.2).
        LossProbe = "loss-probe",
        /// The end of RACK's reordering window (RFC 8985 section 6.2).
        Reorder = "reorder",
        /// Probes a closed window (RFC 9293 section 3.8.6.1).
        WindowProbe = "window-probe",
        /// Sends a delayed ACK.
        DelayedAck = "delayed-ack",
        /// Sends a partial segment that was held long enough.
        Hold = "hold",
        /// The next packet has its time.
        Pacing = "pacing",
        /// Asks an idle peer whether it is there.
        Keepalive = "keepalive",
        /// Ends a connection without progress (RFC 5482).
        UserTimeout = "user-timeout",
        /// Ends the wait for the peer's FIN.
        FinWait = "fin-wait",
        /// Ends TIME-WAIT.
        TimeWait = "time-wait",
    }
}

/// A value of an event, ready to be written down.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub enum TraceValue<'a> {
    /// A number; times are nanoseconds.
    Number(u64),
    /// A text without line breaks and quotes.
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

/// Hears the values of an event, each with its name.
type Visitor<'v> = dyn FnMut(&'static str, TraceValue<'_>) + 'v;

impl TraceEvent<'_> {
    /// What happened, such as `packet-sent`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Sent(_) => "packet-sent",
            Self::Received(_) => "packet-received",
            Self::Dropped { .. } => "packet-dropped",
            Self::StateChanged { .. } => "state-changed",
            Self::Lost { .. } => "data-lost",
            Self::Retransmitted { .. } => "data-retransmitted",
            Self::TimerFired(_) => "timer-fired",
            Self::CongestionChanged { .. } => "congestion-changed",
            Self::WindowChanged { .. } => "window-changed",
            Self::RttUpdated { .. } => "rtt-updated",
            Self::LimitChanged { .. } => "limit-changed",
            Self::MtuChanged { .. } => "mtu-changed",
        }
    }

    /// Tells `visitor` each value with its name, always in the same order. A value that is not
    /// known has no entry.
    pub fn visit(&self, visitor: &mut Visitor<'_>) {
        match *self {
            Self::Sent(packet) | Self::Received(packet) => visit_packet(packet, visitor),
            Self::Dropped { packet, reason } => {
                visitor("reason", TraceValue::Text(&reason));
                visit_packet(packet, visitor);
            }
            Self::StateChanged { from, to } => {
                visitor("from", TraceValue::Text(&state_name(from)));
                visitor("to", TraceValue::Text(&state_name(to)));
            }
            Self::Lost { start, end, sign } => {
                visit_range(start, end, visitor);
                visitor("sign", TraceValue::Text(&sign));
            }
            Self::Retransmitted { start, end, cause } => {
                visit_range(start, end, visitor);
                visitor("cause", TraceValue::Text(&cause));
            }
            Self::TimerFired(timer) => visitor("timer", TraceValue::Text(&timer)),
            Self::CongestionChanged { from, to } => {
                visitor("from", TraceValue::Text(&congestion_name(from)));
                visitor("to", TraceValue::Text(&congestion_name(to)));
            }
            Self::WindowChanged {
                cwnd,
                ssthresh,
                in_flight,
            } => {
                visitor("cwnd", TraceValue::Number(cwnd.into()));
                if let Some(ssthresh) = ssthresh {
                    visitor("ssthresh", TraceValue::Number(ssthresh.into()));
                }
                visitor("in_flight", TraceValue::Number(in_flight.into()));
            }
            Self::RttUpdated {
                latest,
                smoothed,
                rto,
            } => {
                visitor("latest_ns", nanos(latest));
                visitor("smoothed_ns", nanos(smoothed));
                visitor("rto_ns", nanos(rto));
            }
            Self::LimitChanged { from, to } => {
                visitor("from", TraceValue::Text(&limit_name(from)));
                visitor("to", TraceValue::Text(&limit_name(to)));
            }
            Self::MtuChanged { from, to } => {
                visitor("from", TraceValue::Number(from.into()));
                visitor("to", TraceValue::Number(to.into()));
            }
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

/// Somebody who listens; see [`Host::set_trace`](crate::Host::set_trace).
pub trait Trace: Debug + Send {
    /// Hears of one event; `socket` is `None` where it belongs to no connection.
    fn on_event(&mut self, now: Instant, socket: Option<SocketId>, event: &TraceEvent<'_>);
}

fn nanos(duration: Duration) -> TraceValue<'static> {
    TraceValue::Number(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

fn visit_range(start: u64, end: u64, visitor: &mut Visitor<'_>) {
    visitor("start", TraceValue::Number(start));
    visitor("end", TraceValue::Number(end));
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

/// As RFC 9293 section 3.3.2 writes them.
const fn state_name(state: TcpState) -> &'static str {
    match state {
        TcpState::Established => "established",
        TcpState::SynSent => "syn-sent",
        TcpState::SynReceived => "syn-received",
        TcpState::FinWait1 => "fin-wait-1",
        TcpState::FinWait2 => "fin-wait-2",
        TcpState::TimeWait => "time-wait",
        TcpState::Closed => "closed",
        TcpState::CloseWait => "close-wait",
        TcpState::LastAck => "last-ack",
        TcpState::Listen => "listen",
        TcpState::Closing => "closing",
    }
}

const fn congestion_name(state: CongestionState) -> &'static str {
    match state {
        CongestionState::Open => "open",
        CongestionState::Disorder => "disorder",
        CongestionState::Cwr => "cwr",
        CongestionState::Recovery => "recovery",
        CongestionState::Loss => "loss",
    }
}

const fn limit_name(limit: Option<Limit>) -> &'static str {
    match limit {
        Some(limit) => limit.name(),
        None => "none",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{EcnMark, IcmpError};
    use alloc::collections::BTreeSet;
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
    fn events_are_lines_of_text() {
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
        check(
            TraceEvent::Dropped {
                packet: &segment,
                reason: DropReason::ZeroWindow,
            },
            &alloc::format!("packet-dropped reason=zero-window {fields}"),
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
        check(
            TraceEvent::StateChanged {
                from: TcpState::FinWait1,
                to: TcpState::Closing,
            },
            "state-changed from=fin-wait-1 to=closing",
        );
        let (start, end) = (1, 1449);
        let sign = LossSign::Rack;
        check(
            TraceEvent::Lost { start, end, sign },
            "data-lost start=1 end=1449 sign=rack",
        );
        let cause = RetransmitCause::LossProbe;
        check(
            TraceEvent::Retransmitted { start, end, cause },
            "data-retransmitted start=1 end=1449 cause=loss-probe",
        );
        check(
            TraceEvent::TimerFired(TimerKind::DelayedAck),
            "timer-fired timer=delayed-ack",
        );
    }

    #[test]
    fn changes_are_lines_of_text() {
        let check = |event: TraceEvent<'_>, expected: &str| {
            assert_eq!(event.to_string(), expected);
        };
        check(
            TraceEvent::CongestionChanged {
                from: CongestionState::Open,
                to: CongestionState::Recovery,
            },
            "congestion-changed from=open to=recovery",
        );
        check(
            TraceEvent::WindowChanged {
                cwnd: 10,
                ssthresh: None,
                in_flight: 4,
            },
            "window-changed cwnd=10 in_flight=4",
        );
        check(
            TraceEvent::WindowChanged {
                cwnd: 10,
                ssthresh: Some(7),
                in_flight: 4,
            },
            "window-changed cwnd=10 ssthresh=7 in_flight=4",
        );
        check(
            TraceEvent::RttUpdated {
                latest: Duration::from_micros(1),
                smoothed: Duration::from_nanos(7),
                rto: Duration::MAX,
            },
            "rtt-updated latest_ns=1000 smoothed_ns=7 rto_ns=18446744073709551615",
        );
        check(
            TraceEvent::LimitChanged {
                from: None,
                to: Some(Limit::PeerWindow),
            },
            "limit-changed from=none to=peer-window",
        );
        check(
            TraceEvent::MtuChanged {
                from: 1500,
                to: 1400,
            },
            "mtu-changed from=1500 to=1400",
        );
    }

    #[test]
    fn names_differ() {
        fn check(names: impl Iterator<Item = &'static str>) {
            let mut seen = BTreeSet::new();
            for name in names {
                assert!(seen.insert(name), "{name} twice");
                let plain = |c: char| c.is_ascii_lowercase() || c == '-';
                assert!(name.chars().all(plain), "{name}");
            }
        }
        check(DropReason::ALL.iter().map(|reason| reason.name()));
        check(LossSign::ALL.iter().map(|sign| sign.name()));
        check(RetransmitCause::ALL.iter().map(|cause| cause.name()));
        check(TimerKind::ALL.iter().map(|timer| timer.name()));
    }

    #[test]
    fn events_are_small() {
        // Three durations of 16 bytes and what tells them from the others.
        assert!(size_of::<TraceEvent<'_>>() <= 56);
    }
}
