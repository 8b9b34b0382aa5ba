//! Input and output types of the receiving half.

use core::time::Duration;

use base::Instant;

use crate::packet::Payload;

/// Options agreed in the handshake.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Agreed {
    /// SACK (RFC 2018).
    pub(crate) sack: bool,
    /// Timestamps (RFC 7323).
    pub(crate) timestamps: bool,
    /// Window scaling, both sides.
    pub(crate) window_scaling: bool,
    /// Largest payload that this host accepts, already less the options.
    pub(crate) advmss: u32,
    /// Largest payload that this host sends.
    pub(crate) send_mss: u32,
    /// Bytes of the IP and TCP headers before the peer's data.
    pub(crate) headers: u8,
}

/// State of the sending half and of the host that the rules need.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Env {
    /// Smoothed round-trip time of the sending half in microseconds; 0: unknown.
    pub(crate) srtt_micros: u64,
    /// Its retransmission timeout.
    pub(crate) rto: Duration,
    /// The host is short of memory: buffers do not grow (Linux `tcp_under_memory_pressure`).
    pub(crate) is_tight: bool,
}

impl Env {
    /// Smoothed round-trip time of the sending half, which few rules ask for.
    pub(super) fn srtt(&self) -> Option<Duration> {
        (self.srtt_micros > 0).then(|| Duration::from_micros(self.srtt_micros))
    }
}

/// The data of a segment that the connection found acceptable.
#[derive(Debug)]
pub(crate) struct DataInput<'a> {
    /// Offset of the first byte.
    pub(crate) start: u64,
    /// The data, which is taken out if it is accepted.
    pub(crate) payload: &'a mut Payload,
    /// Payload of each segment of a chain (`gso_size`), or the length.
    pub(crate) segment_bytes: u32,
    /// Bytes of the options in its header; they only matter for a segment shorter than others.
    pub(crate) option_bytes: u32,
    /// PSH is set.
    pub(crate) push: bool,
    /// URG is set.
    pub(crate) urgent: bool,
    /// A FIN follows the data.
    pub(crate) fin: bool,
    /// It is the one that Linux predicts, where that matters (`Receiver::asks_for_prediction`).
    pub(crate) is_predicted: bool,
    /// Its ECN mark asks for ACKs at once (Linux `tcp_data_ecn_check`).
    pub(crate) wants_quick_acks: bool,
    /// It triggered ACKs that waited to be merged, and asks for none itself.
    pub(crate) pushes_acks: bool,
    /// Our timestamp that it echoes, and the age of that, where both are asked for.
    pub(crate) echo: Option<(u32, Duration)>,
}

impl DataInput<'_> {
    /// Offset after the data.
    pub(super) fn end(&self) -> u64 {
        self.start + u64::from(self.payload.len())
    }
}

/// Result of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DataOutcome {
    /// Some of it was taken.
    pub(crate) accepted: bool,
    /// There is more to read than before, or the end of it.
    pub(crate) readable: bool,
    /// The FIN has been reached, and everything before it is here.
    pub(crate) fin: bool,
    /// All of it is duplicate.
    pub(crate) duplicate: bool,
    /// Queued out of order.
    pub(crate) out_of_order: bool,
    /// Why it was dropped.
    pub(crate) dropped: Option<DropReason>,
}

/// Why data was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DropReason {
    /// Beyond the offered window.
    OutOfWindow,
    /// The offered window is 0.
    ZeroWindow,
    /// The receive buffer is full.
    BufferFull,
    /// The budget for out-of-order data is used up.
    OutOfOrderFull,
    /// Beyond the peer's FIN.
    BehindFin,
}

impl DropReason {
    /// The reason in words, for traces.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::OutOfWindow => "out of window",
            Self::ZeroWindow => "the offered window is 0",
            Self::BufferFull => "the receive buffer is full",
            Self::OutOfOrderFull => "the out-of-order budget is used up",
            Self::BehindFin => "behind the FIN",
        }
    }
}

/// When an ACK is to be sent by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AckWanted {
    /// None is owed.
    No,
    /// At once.
    Now,
    /// At this time, unless something else carries it before.
    At(Instant),
}

/// State of the receive memory and window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecvMemoryState {
    /// Memory in use.
    pub(crate) rmem_bytes: u32,
    /// The receive buffer.
    pub(crate) rcvbuf_bytes: u32,
    /// Largest window that is offered, in bytes.
    pub(crate) window_clamp: u32,
    /// Bound of the window, which grows inside the buffer (slow start of the window), in bytes.
    pub(crate) rcv_ssthresh: u32,
    /// Estimated payload of the peer's segments, in bytes.
    pub(crate) rcv_mss: u32,
    /// Bytes that the application took in a round-trip time.
    pub(crate) space: u32,
    /// The receiver's estimate of the round-trip time.
    pub(crate) rtt: Option<Duration>,
    /// How long an ACK may be delayed.
    pub(crate) ato: Duration,
    /// The application fixed the size (`SO_RCVBUF`).
    pub(crate) locked: bool,
}

/// Counters of the receiving half.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecvStats {
    /// How ACKs were sent.
    pub acks: AckStats,
    /// Counters of data that was out of order or found no room.
    pub queue: RecvQueueStats,
    /// Bytes taken in order.
    pub bytes: u64,
}

/// How ACKs were sent that were not due at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AckStats {
    /// ACKs that were merged into others (`TCPAckCompressed`).
    pub compressed: u64,
    /// ACKs that the timer sent (`DelayedACKs`).
    pub delayed: u64,
    /// ACKs in quick-ACK mode.
    pub quick: u64,
    /// Window updates after reads.
    pub window_updates: u64,
}

/// Data dropped from the receive queue and the out-of-order queue, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecvQueueStats {
    /// Times that memory was short (Linux `PruneCalled`).
    pub pruned: u64,
    /// Packets that were copied into others (`TCPRcvCollapsed`).
    pub collapsed: u64,
    /// Packets out of order that were dropped for memory (`OfoPruned` counts the times).
    pub out_of_order_pruned: u64,
    /// Packets in order that were dropped for memory (`TCPRcvQDrop`).
    pub drops: u64,
    /// Packets out of order that were dropped on arrival (`TCPOFODrop`).
    pub out_of_order_drops: u64,
    /// Packets dropped as the window was 0 (`TCPZeroWindowDrop`).
    pub zero_window_drops: u64,
    /// Packets beyond the window or the peer's FIN.
    pub out_of_window_drops: u64,
    /// Duplicate segments (`DelayedACKLost` counts a part of them).
    pub duplicates: u64,
    /// Packets that came out of order (`TCPOFOQueue`).
    pub out_of_order: u64,
}
