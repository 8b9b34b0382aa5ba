//! Summaries of a capture as a whole, and of each of its connections.

use core::time::Duration;
use std::net::{IpAddr, SocketAddr};

use base::pcap::PcapError;
use base::{FlowKey, human};

use crate::end::End;
use crate::flow::Flow;
use crate::waits::Cause;

/// An end that is this many times nearer than the other one is where the capture was made.
const NEARER: u32 = 4;
/// Both ends within this are on the machine of the capture.
const LOCAL: Duration = Duration::from_micros(200);

/// The capture as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct CaptureSummary {
    /// Packets of any kind.
    pub packets: u64,
    /// TCP segments among them.
    pub tcp_packets: u64,
    /// Bytes on the wire.
    pub bytes: u64,
    /// Connections, each counted once per device that saw it.
    pub connections: u64,
    /// Packets of other protocols, and of sockets that are connected with themselves.
    pub other_packets: u64,
    /// Fragments of IP packets, which are not put together.
    pub fragments: u64,
    /// Packets that were cut off before the end of their TCP header, or are damaged.
    pub unreadable_packets: u64,
    /// Packets that were cut off within the options of that: of these, options are unknown.
    pub cut_options_packets: u64,
    /// Packets that were cut off behind the fixed part of it.
    pub cut_packets: u64,
    /// Segments that stand in the capture twice.
    pub duplicate_packets: u64,
    /// Segments whose time was a little before that of the segment in front of it.
    pub clock_steps_back: u64,
    /// How often the clock of the capture jumped: back by more than a minute, or ahead by more than
    /// a month. What goes on behind a jump back counts as another connection.
    pub clock_jumps: u64,
    /// Segments whose numbers are far from those of their connection; their payload is not counted.
    pub stray_segments: u64,
    /// Payload that was acknowledged and does not stand in the capture.
    pub missed_bytes: u64,
    /// Packets dropped by the interfaces during the capture; `None` where the file does not say.
    pub dropped_packets: Option<u64>,
    /// Connections of which only one direction was captured.
    pub one_way_connections: u64,
    /// Connections whose beginning was not captured, so that the scale of their windows is
    /// estimated or unknown.
    pub connections_without_syn: u64,
    /// Connections that were forgotten because there were too many at once.
    pub evicted_connections: u64,
    /// Connections that were counted and not judged, because there were too many.
    pub connections_left_out: u64,
    /// Vantage point, from most of its packets.
    pub taken: Option<Vantage>,
    /// Where it was made, if that end sends in some connections and receives in others.
    pub taken_at: Option<IpAddr>,
    /// Microseconds from the first packet to the last.
    pub duration_us: u64,
}

/// Properties of a capture as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct CaptureInfo {
    /// Counters.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub summary: CaptureSummary,
    /// Missing parts, and their consequences, in sentences.
    pub doubts: Vec<String>,
}

impl CaptureInfo {
    /// For a capture of which a part, or nothing, could be read.
    #[must_use]
    pub fn new(summary: CaptureSummary, cut_short: Option<&PcapError>) -> Self {
        let cut_short = cut_short.map(ToString::to_string).into_iter();
        Self {
            doubts: cut_short.chain(summary.doubts()).collect(),
            summary,
        }
    }
}

impl CaptureSummary {
    /// Missing parts, and their consequences, in sentences.
    #[must_use]
    pub fn doubts(&self) -> Vec<String> {
        let rows: [(u64, &str, &str); 12] = [
            (
                self.dropped_packets.unwrap_or(0),
                "packet",
                "dropped while it was made: losses and delays may be those of the capture",
            ),
            (
                self.missed_bytes,
                "byte",
                "acknowledged and not in it: it dropped packets, or they went another way",
            ),
            (
                self.one_way_connections,
                "connection",
                "seen in one direction only: without ACKs, round trips and waits are unknown",
            ),
            (
                self.connections_without_syn,
                "connection",
                "begun before it: window scales are estimated or unknown",
            ),
            (
                self.duplicate_packets,
                "packet",
                "in it twice, as captures on several devices have them: counted once",
            ),
            (
                self.fragments,
                "fragment",
                "of IP packets: not put together, so their segments are missing",
            ),
            (
                self.unreadable_packets,
                "packet",
                "damaged, or cut off before the end of the TCP header (tcpdump -s 128)",
            ),
            (
                self.cut_options_packets,
                "packet",
                "cut off within their TCP options: window scales, SACK and timestamps that stood \
                 there are unknown (tcpdump -s 128)",
            ),
            (
                self.clock_steps_back,
                "packet",
                "older than the one before: the clock stepped, or devices were merged",
            ),
            (
                self.clock_jumps,
                "jump",
                "of its clock: times across one are wrong, and connections count as two",
            ),
            (
                self.stray_segments,
                "segment",
                "with numbers far from those of its connection: not counted",
            ),
            (
                self.evicted_connections,
                "connection",
                "forgotten early, because too many were open at once",
            ),
        ];
        let told = rows.into_iter().filter(|(number, _, _)| *number > 0);
        told.map(|(number, what, why)| format!("{} {why}", human::count(number, what)))
            .collect()
    }
}

/// Vantage point of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Vantage {
    /// At the end that sends most of the payload.
    Sender,
    /// At the end that receives most of it.
    Receiver,
    /// On the way between them.
    Between,
    /// Both ends are on its machine.
    SameHost,
    /// At each end by a device of its own, as merged captures are.
    BothEnds,
}

impl Vantage {
    /// Name used in sentences.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sender => "at the sender",
            Self::Receiver => "at the receiver",
            Self::Between => "between sender and receiver",
            Self::SameHost => "on the machine of both ends",
            Self::BothEnds => "at both ends",
        }
    }

    pub(crate) fn of(flow: &Flow) -> Option<Self> {
        let (sender, _) = flow.sends_most();
        let near = |end: usize| flow.ends[end].near.min();
        let (here, there) = (near(sender), near(1 - sender));
        // Whom nothing is sent to gives no time: data and their ACKs give that of the receiver.
        let there = there.or(flow.ends[sender].sender.rtt.min());
        match (here?, there?) {
            (here, there) if here.max(there) < LOCAL => Some(Self::SameHost),
            (here, there) if here * NEARER <= there => Some(Self::Sender),
            (here, there) if there * NEARER <= here => Some(Self::Receiver),
            _ => Some(Self::Between),
        }
    }
}

/// One direction of a connection.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct DirectionSummary {
    /// Segments, with and without payload.
    pub segments: u64,
    /// Segments with payload, those of a GSO packet counted each.
    pub data_segments: u64,
    /// Payload, each byte once.
    pub payload_bytes: u64,
    /// Payload that was retransmitted.
    pub retransmitted_bytes: u64,
    /// Segments that were retransmitted: all, and of these the kinds.
    pub retransmissions: u64,
    /// ... early, on duplicate ACKs or SACK.
    pub fast_retransmissions: u64,
    /// ... after a timeout.
    pub timeouts: u64,
    /// ... to probe the tail of a message.
    pub tail_probes: u64,
    /// ... and in vain, as the receiver says (D-SACK).
    pub needless_retransmissions: u64,
    /// Segments that were captured out of order.
    pub reordered_segments: u64,
    /// Payload that was acknowledged and not captured.
    pub missed_bytes: u64,
    /// Payload of a full segment.
    pub mss_bytes: u32,
    /// From the capture to the sender of this direction and back, at least.
    pub to_sender_us: Option<u64>,
    /// Round-trip times as the sender sees them: the smallest, and the last mean.
    pub min_rtt_us: Option<u64>,
    /// ...
    pub srtt_us: Option<u64>,
    /// Most payload in flight; `None` without ACKs.
    pub flight_max_bytes: Option<u64>,
    /// Scale of the windows that its receiver offers, and whether it was estimated.
    pub window_scale: Option<u8>,
    /// ...
    pub window_scale_estimated: bool,
    /// How often the receiver closed its window.
    pub zero_windows: u64,
    /// Highest rate at which the receiver acknowledged over a round trip: that of the bottleneck,
    /// where nothing else is the limit.
    pub best_rate_bps: Option<u64>,
    /// ACKs of its receiver that came 20 ms or more after the data.
    pub delayed_acks: u64,
    /// Messages: payload after payload of the other direction.
    pub messages: u64,
    /// For how long the sender waited, by cause.
    pub waited_us: Waited,
}

/// Microseconds that a sender waited between packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Waited {
    /// For its program.
    pub application: u64,
    /// For the ACK of a small segment.
    pub nagle: u64,
    /// For the window of the receiver.
    pub peer_window: u64,
    /// For its congestion window, its send buffer or its pace.
    pub congestion: u64,
    /// For the timer of a cork, as it seems.
    pub cork: u64,
}

/// One connection.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct FlowSummary {
    /// The end that sent most of the payload.
    pub sender: SocketAddr,
    /// The other one.
    pub receiver: SocketAddr,
    /// The device that saw it.
    pub device: u32,
    /// When it was seen first, in microseconds since the epoch of the capture.
    pub first_us: u64,
    /// For how long.
    pub duration_us: u64,
    /// Packets.
    pub packets: u64,
    /// Whether its beginning was captured.
    pub syn_seen: bool,
    /// Whether it ended.
    pub ended: bool,
    /// Vantage point of the capture, as far as this connection shows it.
    pub taken: Option<Vantage>,
    /// Data from the sender.
    pub forward: DirectionSummary,
    /// Data towards the sender.
    pub reverse: DirectionSummary,
}

impl FlowSummary {
    pub(crate) fn of(flow: &Flow) -> Self {
        let (sender, _) = flow.sends_most();
        let FlowKey { local, remote } = flow.key.of_end(sender);
        Self {
            sender: local,
            receiver: remote,
            device: flow.key.device,
            first_us: flow.first.as_nanos() / 1000,
            duration_us: micros(flow.last.since(flow.first)),
            packets: flow.packets,
            syn_seen: flow.ends.iter().any(|end| end.opening.syns > 0),
            ended: flow.is_closed(),
            taken: Vantage::of(flow),
            forward: direction(flow, sender),
            reverse: direction(flow, 1 - sender),
        }
    }
}

fn direction(flow: &Flow, from: usize) -> DirectionSummary {
    let (end, other): (&End, &End) = (&flow.ends[from], &flow.ends[1 - from]);
    let sender = &end.sender;
    let (loss, counts) = (&sender.loss, &sender.counts);
    let waited = |cause| micros(flow.held(from, cause));
    DirectionSummary {
        segments: counts.segments,
        data_segments: counts.data_segments,
        // A FIN has a number too.
        payload_bytes: sender.bytes_new().saturating_sub(u64::from(end.has_fin)),
        retransmitted_bytes: loss.bytes,
        retransmissions: loss.segments,
        fast_retransmissions: loss.fast,
        timeouts: loss.timeouts,
        tail_probes: loss.tail_probes,
        needless_retransmissions: loss.needless,
        reordered_segments: loss.reordered,
        missed_bytes: counts.missed_bytes,
        mss_bytes: sender.mss(),
        to_sender_us: end.near.min().map(micros),
        min_rtt_us: sender.rtt.min().map(micros),
        srtt_us: sender.rtt.srtt().map(micros),
        flight_max_bytes: sender.hears.then_some(sender.flight_max),
        window_scale: other.scale(end),
        window_scale_estimated: !other.opening.tells() && sender.scale.scale().is_some(),
        zero_windows: counts.zero_windows,
        best_rate_bps: sender.rates().1.map(base::Rate::bits_per_second),
        delayed_acks: flow.delayed_acks[1 - from],
        messages: end.messages,
        waited_us: Waited {
            application: waited(Cause::Application),
            nagle: waited(Cause::Nagle),
            peer_window: waited(Cause::PeerWindow),
            congestion: waited(Cause::Congestion),
            cork: waited(Cause::Cork),
        },
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
