//! Everything that can be set on one connection of our stack, as plain data.
//!
//! A *profile* (in `stack`) is a whole [`SocketSettings`] with a name; a *knob* (in
//! [`crate::KNOBS`]) reads and writes one value of it by name. There is no `Default`: settings
//! always come from a named profile.

use core::time::Duration;

use crate::Rate;

/// Treatment of segments smaller than the MSS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nagle {
    /// They leave at once (`TCP_NODELAY`).
    Off,
    /// They wait while anything is unacknowledged (RFC 896, RFC 9293 section 3.7.4).
    Rfc896,
    /// They wait while an earlier *small* segment is unacknowledged (Minshall; Linux
    /// `tcp_minshall_check`).
    Minshall,
}

/// Which segments carry PSH, and whether a partial segment may leave at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Push {
    /// The last segment of each write (Linux).
    EachWrite,
    /// The segment that empties the send buffer (BSD, RFC 9293 section 3.9.1.2).
    BufferEmpty,
    /// None, and a partial segment waits until this is changed or the connection is closed
    /// (`NetBurner` `SO_NOPUSH`, BSD `TCP_NOPUSH`).
    Never,
}

/// Settings of small writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SmallWrites {
    /// Nagle's algorithm.
    pub nagle: Nagle,
    /// A partial segment also leaves when it holds half the largest window that the peer ever
    /// offered (RFC 9293 section 3.8.6.2.1; FreeBSD `tcp_output`).
    pub half_window: bool,
    /// PSH, and whether partial segments leave.
    pub push: Push,
    /// Partial segments are held until uncorked (`TCP_CORK`).
    pub cork: bool,
    /// A corked partial segment leaves after the larger of this and the retransmission timeout;
    /// `None`: never. Linux: 200 ms.
    pub cork_ceiling: Option<Duration>,
    /// A small write is held while an earlier packet of the flow is in the local queue (Linux
    /// `tcp_should_autocork`).
    pub autocork: bool,
}

/// When received data is acknowledged. Every stack's rule is a value of this type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acks {
    /// How much unacknowledged data is acknowledged at once.
    pub every: AckEvery,
    /// How long an ACK waits at the start. Zero: every ACK is immediate.
    pub delay: Duration,
    /// Whether the delay follows the gaps between segments (Linux `ato`); otherwise it is fixed.
    pub follows_pace: bool,
    /// The least delay that follows gaps.
    pub delay_min: Duration,
    /// The longest that an ACK waits, whatever the gaps (Linux `TCP_DELACK_MAX_US`).
    pub delay_max: Duration,
    /// Granularity of the delayed-ACK timer where it is coarser than the host's tick (BSD's fast
    /// timer, Microsoft's 100 ms); zero: the host's tick.
    pub timer_tick: Duration,
    /// Immediate ACKs at the start of a connection and after an irregularity (Linux: 16).
    pub quick_max: u32,
    /// Answers sent shortly after data arrived, from which on the connection counts as
    /// request and response, where ACKs wait for an answer; 0: never (Linux: 1).
    pub pingpong_threshold: u32,
    /// A reader that empties the buffer after a short segment sends the ACK (Linux
    /// `__tcp_cleanup_rbuf`).
    pub on_read: bool,
    /// Never delay (`ip route ... quickack 1`).
    pub always_quick: bool,
    /// How many duplicate ACKs of a hole are merged; `None`: each leaves (RFC 5681).
    pub compress: Option<SackCompression>,
    /// A window update leaves by itself when the window can open by this many segments and by a
    /// quarter of the buffer, or by half the buffer (FreeBSD); `None`: when it doubles (Linux).
    pub window_update_segments: Option<u32>,
    /// Most challenge ACKs and answers to out-of-window segments per second of a connection
    /// (RFC 5961 section 7; Linux: one per 500 ms = 2).
    pub challenge_per_second: u32,
}

/// How much data is acknowledged at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckEvery {
    /// More than this many full segments in bytes (Linux: more than one `rcv_mss`).
    MoreThanSegments(u32),
    /// This many data packets of any size (Microsoft `TcpAckFrequency`; BSD: 2).
    Packets(u32),
}

/// Linux `tcp_comp_sack_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SackCompression {
    /// Longest wait.
    pub delay_max: Duration,
    /// The wait in percent of the round-trip time.
    pub rtt_percent: u32,
    /// Most ACKs merged into one.
    pub count_max: u32,
}

/// How a buffer is sized.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferSize {
    /// Least (`tcp_rmem[0]`).
    pub min: u32,
    /// At the start.
    pub initial: u32,
    /// Most that automatic sizing takes.
    pub max: u32,
    /// Most that an application may ask for (`rmem_max`, `wmem_max`).
    pub request_max: u32,
    /// Size set by the application, after the stack's own rounding (Linux doubles it: the knobs
    /// `sndbuf` and `rcvbuf` do that); `Some` ends automatic sizing.
    pub fixed: Option<u32>,
    /// Rule of automatic sizing.
    pub rule: SizeRule,
}

/// The rule of automatic sizing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeRule {
    /// It stays as it began.
    Fixed,
    /// Linux: dynamic right-sizing for receiving, `tcp_sndbuf_expand` for sending.
    Linux(LinuxVersion),
    /// `FreeBSD` 7 (the patch of December 2006): steps of this many bytes.
    FreeBsd2006 {
        /// `sendbuf_inc` or `recvbuf_inc`.
        step: u32,
    },
    /// `FreeBSD` from April 2017 (revision 316676) to 2018: steps, by the smoothed round-trip time
    /// in place of timestamps; for sending as in 2006.
    FreeBsd2017 {
        /// `sendbuf_inc` or `recvbuf_inc`.
        step: u32,
    },
    /// `FreeBSD` since 2018 (review D18375); for sending as in 2006.
    FreeBsd14 {
        /// `sendbuf_inc`; the receive rule grows by half.
        step: u32,
    },
}

/// Linux versions between which rules changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LinuxVersion {
    /// Until 6.15.
    V6_12,
    /// 6.16 and 6.17.
    V6_16,
    /// 6.18.
    V6_18,
    /// From 6.19.
    V6_19,
}

/// Unit in which a buffer's fill level is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accounting {
    /// Bytes of payload.
    Payload,
    /// Memory as Linux charges it: descriptor, data area and waste.
    Truesize {
        /// Payload over memory of a full segment, in 1/256; `None`: a received packet takes whole
        /// blocks of Linux's allocator, as behind a TUN device.
        ratio: Option<u8>,
    },
    /// Whole buffers, one per segment (`NetBurner`).
    Buffers {
        /// Payload that one buffer holds.
        payload_bytes: u32,
    },
}

/// When a write counts as done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// As soon as all of it is in the buffer; the buffer's size is a hard limit on payload (BSD).
    Bsd,
    /// As soon as all of it is in the buffer, which is checked only where a packet is started
    /// (Linux: overshoots by up to a packet, and without a bound behind Nagle's algorithm).
    Linux,
    /// The quota rules of Winsock; a buffer of 0 completes when all is acknowledged.
    Winsock,
}

/// How far a program fills its send buffer. On Linux that depends on the program: a write that has
/// begun may exceed the buffer, and a program that asks for room before each write leaves a part of
/// it empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Most payload that is written and not acknowledged, in 1/1000 of the buffer's size, whatever
    /// memory it takes.
    pub share: u32,
    /// It does not write while less room than this is free, in bytes.
    pub room_bytes: u32,
}

/// Settings of the sending side's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendMemory {
    /// The buffer.
    pub buffer: BufferSize,
    /// Unit of its fill level.
    pub accounting: Accounting,
    /// When a write is done.
    pub completion: Completion,
    /// Most payload that is sent and not acknowledged (`NetBurner` `SetSocketUnackBuffers`).
    pub unacked_budget: Option<u32>,
    /// How far the program fills the buffer, for Linux, where that depends on how it writes.
    /// `None`: by the rules of `completion`.
    pub held: Option<Held>,
    /// Unsent bytes above which the application is not asked for more (`TCP_NOTSENT_LOWAT`).
    pub notsent_lowat: Option<u32>,
    /// `FreeBSD`'s rule grows the buffer by its low-water mark earlier (`sendbuf_auto_lowat`).
    pub auto_lowat: bool,
}

/// Settings of the receiving side's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecvMemory {
    /// The buffer.
    pub buffer: BufferSize,
    /// Unit of its fill level.
    pub accounting: Accounting,
    /// Most payload that is kept behind a gap (`NetBurner` `SetOutOfOrderBuffers`); `None`: as
    /// much as the buffer holds.
    pub out_of_order_budget: Option<u32>,
    /// Unread bytes from which the socket counts as readable (`SO_RCVLOWAT`), at most half of the
    /// buffer's largest size.
    pub lowat: u32,
}

/// Options offered in the handshake, and windows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Offer window scaling (RFC 7323 section 2).
    pub window_scaling: bool,
    /// Offer timestamps (RFC 7323 section 3).
    pub timestamps: bool,
    /// Offer selective acknowledgments (RFC 2018).
    pub sack: bool,
    /// Report duplicates (RFC 2883).
    pub dsack: bool,
    /// ECN (RFC 3168).
    pub ecn: Ecn,
    /// Announce and send at most this much payload in a segment; `None`: what the MTU gives.
    pub mss: Option<u16>,
    /// Announce at most this much, whatever is sent (the route's `advmss`); `None`: as above.
    pub advmss: Option<u16>,
    /// Payload of a segment where the peer announces none (RFC 9293 section 3.7.1: 536).
    pub default_mss: u16,
    /// First receive window in segments; `None`: what the buffer gives.
    pub initial_window_segments: Option<u32>,
    /// Never offer more (`TCP_WINDOW_CLAMP`).
    pub window_clamp: Option<u32>,
    /// The window that is offered until the application accepts the connection is 0 (`NetBurner`
    /// "wait for accept").
    pub accept_window_zero: bool,
}

/// Explicit congestion notification (RFC 3168).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ecn {
    /// Neither asked for nor accepted.
    Off,
    /// Accepted where the peer asks (Linux `tcp_ecn` = 2).
    Accept,
    /// Asked for.
    Request,
}

/// Settings of loss recovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// How losses are found where SACK was agreed.
    pub detection: Detection,
    /// Duplicate ACKs that mean a loss, and the least degree of reordering (RFC 5681: 3).
    pub dupack_threshold: u32,
    /// Tail-loss probes (RFC 8985 section 7).
    pub tail_loss_probe: bool,
    /// Proportional rate reduction (RFC 6937); otherwise the window is halved at once and inflated
    /// by duplicate ACKs (RFC 5681 section 3.2, RFC 6675).
    pub prr: bool,
    /// Detects spurious timeouts (RFC 5682).
    pub frto: bool,
    /// Undoes reductions that timestamps (RFC 3522, 4015) or D-SACK prove wrong.
    pub undo: bool,
    /// New segments on the first two duplicate ACKs (RFC 3042).
    pub limited_transmit: bool,
    /// Retransmission timeout before any sample (RFC 6298: 1 s).
    pub rto_initial: Duration,
    /// Its least value; Linux: 200 ms, added to the smoothed round-trip time as variation.
    pub rto_min: Duration,
    /// Its largest value (RFC 6298: at least 60 s; Linux: 120 s).
    pub rto_max: Duration,
    /// How the least value acts.
    pub rto_rule: RtoRule,
}

/// How a lost segment is recognised with SACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detection {
    /// By time: RACK (RFC 8985).
    Rack,
    /// By counting: three segments above it were SACKed (RFC 6675).
    DupSack,
    /// By three duplicate ACKs, one hole per round trip, even with SACK (RFC 6582).
    NewReno,
}

/// How the retransmission timeout is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RtoRule {
    /// SRTT + max(4 RTTVAR, tick), at least the minimum (RFC 6298).
    Rfc6298,
    /// SRTT + max(variation, minimum), with Linux's slow decay (`tcp_rtt_estimator`).
    Linux,
}

/// Which congestion control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CongestionName {
    /// RFC 5681, RFC 6582.
    NewReno,
    /// RFC 9438, in the integers of Linux.
    Cubic,
    /// Version 1, as Linux has it.
    Bbr,
    /// None: the window of the peer alone limits (`NetBurner`, experiments).
    None,
}

/// Settings of congestion control.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Congestion {
    /// Which.
    pub name: CongestionName,
    /// When slow start ends before a loss.
    pub hystart: HyStart,
    /// First window in segments (RFC 6928: 10).
    pub initial_window: u32,
    /// Slow start after idle (RFC 5681 section 4.1; Linux `tcp_slow_start_after_idle`).
    pub slow_start_after_idle: bool,
    /// Treatment of an unused congestion window.
    pub validation: Validation,
    /// Spread segments over the round-trip time also where the congestion control does not ask for
    /// it (`SO_MAX_PACING_RATE`, the fq qdisc).
    pub pacing: bool,
    /// Upper bound of the pacing rate.
    pub pacing_rate_max: Option<Rate>,
    /// Pacing rate in slow start, in percent of cwnd / srtt (Linux: 200).
    pub pacing_ss_percent: u32,
    /// Pacing rate after it (Linux: 120).
    pub pacing_ca_percent: u32,
    /// The window counts the acknowledged bytes, not the ACKs (RFC 3465); guards against ACK
    /// division.
    pub byte_counting: bool,
}

/// When CUBIC leaves slow start before any loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HyStart {
    /// Never.
    Off,
    /// ACK train and delay, as Linux has it.
    Classic,
    /// RFC 9406.
    PlusPlus,
}

/// Treatment of a congestion window that the application does not use up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validation {
    /// It stays.
    Off,
    /// Linux `tcp_cwnd_validate`, `tcp_cwnd_application_limited` (RFC 2861).
    Linux,
    /// RFC 7661.
    Rfc7661,
}

/// Settings of packet sizes and the local queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// Act on ICMP "too big", and forbid fragmentation (RFC 1191, RFC 8201).
    pub pmtu_discovery: bool,
    /// Act on ICMP "too big" about a size that the peer has acknowledged before only once the
    /// quoted segment times out (RFC 5927 section 7.2); Linux does at once.
    pub pmtu_confirm: bool,
    /// Probe for the path MTU (RFC 4821, RFC 8899).
    pub mtu_probing: MtuProbing,
    /// MTU with which probing begins after a black hole (Linux `tcp_base_mss` 1024 + 40).
    pub mtu_base: u16,
    /// Bytes of the largest GSO packet; 0: no GSO.
    pub gso_max: u32,
    /// Size GSO packets by the pacing rate, at least this many segments (Linux
    /// `tcp_tso_autosize`, 2); 0: always the largest.
    pub tso_min_segments: u32,
    /// Linux `tcp_tso_rtt_log` (9): bursts grow on short paths.
    pub tso_rtt_log: u32,
    /// Linux `tcp_tso_win_divisor` (3): below this share of the window a burst waits for more.
    pub tso_win_divisor: u32,
    /// Most bytes of one connection in the local queue (Linux `tcp_limit_output_bytes`).
    pub local_queue_max: u32,
    /// Hop limit of packets.
    pub hop_limit: u8,
}

/// Probing for the path MTU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MtuProbing {
    /// Never.
    Off,
    /// After repeated timeouts.
    BlackHole,
    /// Always.
    Always,
}

/// Settings of a connection's life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Life {
    /// Retransmissions of an unanswered SYN (Linux `tcp_syn_retries`, 6).
    pub syn_retries: u32,
    /// Of these, the first ones at constant intervals (Linux `tcp_syn_linear_timeouts`, 4).
    pub syn_linear_timeouts: u32,
    /// Retransmissions of an unanswered SYN-ACK (Linux: 5).
    pub synack_retries: u32,
    /// How long a listener waits for data behind the ACK of the handshake before it accepts without
    /// (`TCP_DEFER_ACCEPT`), as a number of timeouts that take as long; `None`: it does not. Who
    /// connects with it delays that ACK.
    pub defer_accept: Option<Duration>,
    /// Retransmissions of data before the connection ends (Linux `tcp_retries2`, 15).
    pub retries: u32,
    /// How `retries` is turned into a time limit: the sum of that many timeouts, the first of this
    /// length and each one twice its predecessor (Linux: 200 ms). `None`: `retries` counts
    /// retransmissions.
    pub retries_timeout: Option<Duration>,
    /// Time without progress after which the connection ends (RFC 5482); `None`: by retries.
    pub user_timeout: Option<Duration>,
    /// Idle time before keepalive probes; `None`: none are sent.
    pub keepalive: Option<Duration>,
    /// Time between keepalive probes (Linux: 75 s).
    pub keepalive_interval: Duration,
    /// Unanswered probes after which the connection ends (Linux: 9).
    pub keepalive_probes: u32,
    /// How long a closed socket waits for the peer's FIN (Linux `tcp_fin_timeout`, 60 s).
    pub fin_timeout: Duration,
    /// How long a port pair stays used (RFC 9293: 2 MSL; Linux: 60 s).
    pub time_wait: Duration,
    /// A new SYN may reuse a connection in TIME-WAIT where its timestamp or sequence number is
    /// above the old ones (RFC 6191, RFC 1122 section 4.2.2.13).
    pub time_wait_reuse: bool,
    /// ICMP "host unreachable" ends a connection that is not established yet. RFC 1122 section
    /// 4.2.3.9 forbids it, Linux does it (RFC 5461 section 4.1).
    pub unreachable_ends_opening: bool,
}

/// Everything that can be set on one connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketSettings {
    /// Small writes.
    pub small_writes: SmallWrites,
    /// Acknowledgments.
    pub acks: Acks,
    /// Memory of the sending side.
    pub send: SendMemory,
    /// Memory of the receiving side.
    pub recv: RecvMemory,
    /// Handshake and windows.
    pub options: Options,
    /// Loss recovery.
    pub recovery: Recovery,
    /// Congestion control.
    pub congestion: Congestion,
    /// Packet sizes and the local queue.
    pub path: Path,
    /// A connection's life.
    pub life: Life,
}

impl SocketSettings {
    /// Variant that "Nagle's algorithm on" selects in these settings: Minshall's on Linux, the
    /// original elsewhere.
    #[must_use]
    pub const fn usual_nagle(&self) -> Nagle {
        match self.send.completion {
            Completion::Linux => Nagle::Minshall,
            Completion::Bsd | Completion::Winsock => Nagle::Rfc896,
        }
    }
}
