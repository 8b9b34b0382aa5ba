//! Small writes, acknowledgments and memory of our stack, where no row of Linux sets them.

use super::{INT_MAX, SECOND, bytes, choice, count, flag, micros, number};
use crate::knob::Knob;
use crate::knob::site::{
    ACCOUNTINGS, ACK_COUNTS, ACK_DELAY, ACK_DELAY_MIN, ACK_EVERY, ACK_UNITS, COMPRESS_COUNT,
    COMPRESS_DELAY, COMPRESS_PERCENT, DELAYED_ACK, NOPUSH, OUT_OF_ORDER_BUFFERS, RECV_ACCOUNTING,
    RECV_INITIAL, RECV_MAX, RECV_PAYLOAD, RECV_RATIO, RECV_RULE, RECV_STEP_SITE, RX_BUFFERS,
    SEND_ACCOUNTING, SEND_INITIAL, SEND_MAX, SEND_PAYLOAD, SEND_RATIO, SEND_RULE, SEND_STEP_SITE,
    SIZE_RULES, SNDBUF_AUTO, TX_BUFFERS, UNACK_BUFFERS, field, names,
};
use crate::settings::{Completion, Nagle, Push};

/// Most buffers of a socket: a window without scaling ends at 44 of 1460 bytes, but one may ask for
/// more with scaling.
const BUFFERS_MAX: u64 = 65_535;

pub(super) const ROWS: &[Knob] = &[
    choice(
        "nagle",
        names::<Nagle>(),
        field!(small_writes.nagle),
        "What holds back a segment below the MSS: off, rfc896 (anything unacknowledged), minshall \
         (an earlier small segment unacknowledged).",
        "RFC 896; RFC 9293 section 3.7.4; tcp_minshall_check; seed: Winsock, Nagle",
    ),
    flag(
        "half_window",
        field!(small_writes.half_window),
        "A partial segment also leaves when it holds half the largest window that the peer ever \
         offered.",
        "RFC 9293 section 3.8.6.2.1; FreeBSD tcp_output",
    ),
    choice(
        "push",
        names::<Push>(),
        field!(small_writes.push),
        "Which segment carries PSH: the last of each_write, the one that leaves the buffer_empty, \
         or never, which also holds partial segments.",
        "RFC 9293 section 3.9.1.2; tcp_push; seed: NetBurner, SO_NOPUSH",
    ),
    flag(
        "nopush",
        NOPUSH,
        "Hold partial segments until this is turned off or the connection is closed (push never).",
        "tcp(4), TCP_NOPUSH; seed: NetBurner, SO_NOPUSH",
    )
    .alias(&["SO_NOPUSH", "TCP_NOPUSH"]),
    number(
        "cork_ceiling",
        micros(0, 60 * SECOND),
        field!(small_writes.cork_ceiling),
        "Longest time that a corked segment is held with nothing in flight, if above the \
         retransmission timeout; none: for ever.",
        "tcp(7), TCP_CORK; tcp_probe_timer",
    )
    .or_none(),
    flag(
        "delayed_ack",
        DELAYED_ACK,
        "ACKs may wait; off: every data segment is acknowledged at once.",
        "tcp(4), delayed_ack; RFC 9293 section 3.8.6.3",
    )
    .alias(&["net.inet.tcp.delayed_ack"]),
    number(
        "delayed_ack_every",
        count(0, 255),
        ACK_EVERY,
        "How much unacknowledged data is acknowledged at once: more than so many full segments, or \
         so many packets (delayed_ack_counts).",
        "RFC 9293 section 3.8.6.3; __tcp_ack_snd_check; Microsoft KB 328890, TcpAckFrequency",
    )
    .alias(&["TcpAckFrequency"]),
    choice(
        "delayed_ack_counts",
        ACK_UNITS,
        ACK_COUNTS,
        "What delayed_ack_every counts: full segments in bytes, or data packets of any size.",
        "RFC 9293 section 3.8.6.3; Microsoft KB 328890",
    ),
    number(
        "delayed_ack_timer",
        micros(0, 10 * SECOND),
        ACK_DELAY,
        "How long an ACK waits at the start; a fixed timer moves as a whole. 0: every ACK is \
         immediate.",
        "RFC 9293 section 3.8.6.3; seed: Winsock, delayed ACK; tcp(4), delacktime",
    )
    .alias(&["net.inet.tcp.delacktime"]),
    number(
        "delayed_ack_min",
        micros(0, 10 * SECOND),
        ACK_DELAY_MIN,
        "Least delay of an ACK while the delay follows the gaps between segments; delack_max is \
         the longest that an ACK waits.",
        "tcp_event_data_recv; tcp_send_delayed_ack",
    ),
    number(
        "delayed_ack_tick",
        micros(0, SECOND),
        field!(acks.timer_tick),
        "Granularity of the delayed-ACK timer where it is coarser than the host's tick; 0: the \
         host's.",
        "TechNet, TcpDelAckTicks; BSD tcp_fasttimo",
    ),
    number(
        "quick_acks",
        count(0, 65_535),
        field!(acks.quick_max),
        "Immediate ACKs at the start of a connection and after an irregularity.",
        "tcp_incr_quickack; tcp_enter_quickack_mode",
    ),
    number(
        "pingpong_threshold",
        count(0, 255),
        field!(acks.pingpong_threshold),
        "Answers shortly after data from which on ACKs wait for an answer to ride on; 0: never.",
        "tcp_event_data_sent; ip-sysctl, tcp_pingpong_thresh",
    ),
    flag(
        "ack_on_read",
        field!(acks.on_read),
        "A reader that empties the buffer after a short segment sends the ACK.",
        "__tcp_cleanup_rbuf",
    ),
    number(
        "sack_compress_delay",
        micros(0, SECOND),
        COMPRESS_DELAY,
        "Longest wait of the merged duplicate ACKs of a hole; none: each leaves.",
        "RFC 5681 section 4.2; ip-sysctl, tcp_comp_sack_delay_ns",
    )
    .or_none(),
    number(
        "sack_compress_percent",
        count(0, 100),
        COMPRESS_PERCENT,
        "That wait in percent of the round-trip time; none: each leaves.",
        "ip-sysctl, tcp_comp_sack_rtt_percent",
    )
    .or_none(),
    number(
        "sack_compress_count",
        count(0, 255),
        COMPRESS_COUNT,
        "Most duplicate ACKs that one stands for; none: each leaves.",
        "ip-sysctl, tcp_comp_sack_nr",
    )
    .or_none(),
    number(
        "window_update_segments",
        count(1, 65_535),
        field!(acks.window_update_segments),
        "A window update leaves when the window can open by so many segments and a quarter of the \
         buffer; none: when it doubles.",
        "RFC 9293 section 3.8.6.2.2; FreeBSD tcp_output; __tcp_cleanup_rbuf",
    )
    .or_none(),
    number(
        "challenge_acks",
        count(0, 1_000_000),
        field!(acks.challenge_per_second),
        "Most challenge ACKs and answers to out-of-window segments per second.",
        "RFC 5961 section 7; tcp_oow_rate_limited",
    ),
    number(
        "send_buffer",
        bytes(0, INT_MAX),
        field!(send.buffer.fixed),
        "Send buffer in exactly so many bytes of its accounting, without Linux's doubling; none: \
         it sizes itself.",
        "socket(7), SO_SNDBUF; seed: Winsock, send buffers",
    )
    .or_none(),
    number(
        "send_buffer_initial",
        bytes(0, INT_MAX),
        SEND_INITIAL,
        "Send buffer at the start.",
        "tcp(4), sendspace; ip-sysctl, tcp_wmem",
    )
    .alias(&["net.inet.tcp.sendspace"]),
    number(
        "send_buffer_max",
        bytes(0, INT_MAX),
        SEND_MAX,
        "The most that automatic sizing gives the send buffer.",
        "seed: FreeBSD automatic buffer sizing, sendbuf_max; ip-sysctl, tcp_wmem",
    )
    .alias(&["net.inet.tcp.sendbuf_max"]),
    flag(
        "send_buffer_auto",
        SNDBUF_AUTO,
        "The send buffer sizes itself where the application did not.",
        "seed: FreeBSD automatic buffer sizing, sendbuf_auto",
    )
    .alias(&["net.inet.tcp.sendbuf_auto"]),
    choice(
        "send_buffer_rule",
        SIZE_RULES,
        SEND_RULE,
        "Whose rule sizes the send buffer.",
        "tcp_sndbuf_expand; FreeBSD tcp_output",
    ),
    number(
        "send_buffer_step",
        bytes(1, INT_MAX),
        SEND_STEP_SITE,
        "By how much FreeBSD's rule enlarges the send buffer.",
        "seed: FreeBSD automatic buffer sizing, sendbuf_inc",
    )
    .alias(&["net.inet.tcp.sendbuf_inc"]),
    flag(
        "send_buffer_auto_lowat",
        field!(send.auto_lowat),
        "FreeBSD's rule enlarges the send buffer when the window and the data in it are short of \
         their thresholds by the low-water mark, 2048 bytes.",
        "tcp(4), sendbuf_auto_lowat; FreeBSD tcp_output",
    )
    .alias(&["net.inet.tcp.sendbuf_auto_lowat"]),
    choice(
        "send_accounting",
        ACCOUNTINGS,
        SEND_ACCOUNTING,
        "What the send buffer counts: payload, memory as Linux charges it, or whole packet \
         buffers.",
        "sk_wmem_queued_add; seed: NetBurner, buffers",
    ),
    number(
        "send_truesize_ratio",
        count(1, 255),
        SEND_RATIO,
        "Payload over memory of a packet to send, in 1/256.",
        "sk_wmem_queued_add",
    ),
    number(
        "send_buffer_payload",
        bytes(1, 65_535),
        SEND_PAYLOAD,
        "Payload that one packet buffer holds when sending.",
        "seed: NetBurner, buffers",
    ),
    choice(
        "send_completion",
        names::<Completion>(),
        field!(send.completion),
        "When a write counts as done: in the buffer (bsd), in the buffer that a packet may \
         overshoot (linux), by Winsock's quota (winsock; a buffer of 0: when acknowledged).",
        "tcp_sendmsg_locked; Microsoft KB 214397; seed: Winsock, completion",
    ),
    number(
        "unacked_budget",
        bytes(1, INT_MAX),
        field!(send.unacked_budget),
        "Most payload that is sent and not acknowledged; none: no such limit.",
        "seed: NetBurner, SetSocketUnackBuffers",
    )
    .or_none(),
    number(
        "tx_buffers",
        count(1, BUFFERS_MAX),
        TX_BUFFERS,
        "Send buffer in packet buffers; none: it sizes itself.",
        "seed: NetBurner, SetSocketTxBuffers",
    )
    .or_none()
    .alias(&["SetSocketTxBuffers"]),
    number(
        "unack_buffers",
        count(1, BUFFERS_MAX),
        UNACK_BUFFERS,
        "Most packet buffers that are sent and not acknowledged; none: no such limit.",
        "seed: NetBurner, SetSocketUnackBuffers; NetBurner tcp.h, setsocketackbuffers",
    )
    .or_none()
    .alias(&["SetSocketUnackBuffers", "setsocketackbuffers"]),
    number(
        "recv_buffer",
        bytes(0, INT_MAX),
        field!(recv.buffer.fixed),
        "Receive buffer in exactly so many bytes of its accounting, without Linux's doubling; \
         none: it sizes itself.",
        "socket(7), SO_RCVBUF; seed: FreeBSD automatic buffer sizing",
    )
    .or_none(),
    number(
        "recv_buffer_initial",
        bytes(0, INT_MAX),
        RECV_INITIAL,
        "Receive buffer at the start.",
        "tcp(4), recvspace; ip-sysctl, tcp_rmem",
    )
    .alias(&["net.inet.tcp.recvspace"]),
    number(
        "recv_buffer_max",
        bytes(0, INT_MAX),
        RECV_MAX,
        "The most that automatic sizing gives the receive buffer.",
        "seed: FreeBSD automatic buffer sizing, recvbuf_max; ip-sysctl, tcp_rmem",
    )
    .alias(&["net.inet.tcp.recvbuf_max"]),
    choice(
        "recv_buffer_rule",
        SIZE_RULES,
        RECV_RULE,
        "Whose rule sizes the receive buffer.",
        "tcp_rcv_space_adjust; FreeBSD tcp_autorcvbuf, review D18375",
    ),
    number(
        "recv_buffer_step",
        bytes(1, INT_MAX),
        RECV_STEP_SITE,
        "By how much FreeBSD's rule of 2006 enlarges the receive buffer.",
        "seed: FreeBSD automatic buffer sizing, recvbuf_inc",
    )
    .alias(&["net.inet.tcp.recvbuf_inc"]),
    choice(
        "recv_accounting",
        ACCOUNTINGS,
        RECV_ACCOUNTING,
        "What the receive buffer counts: payload, memory as Linux charges it, or whole packet \
         buffers.",
        "tcp_win_from_space; seed: NetBurner, buffers",
    ),
    number(
        "recv_truesize_ratio",
        count(1, 255),
        RECV_RATIO,
        "Payload over memory of a full segment received, in 1/256; none: whole blocks of memory, as \
         over a TUN device.",
        "tcp_measure_rcv_mss, scaling_ratio",
    )
    .or_none(),
    number(
        "recv_buffer_payload",
        bytes(1, 65_535),
        RECV_PAYLOAD,
        "Payload that one packet buffer holds when receiving.",
        "seed: NetBurner, buffers",
    ),
    number(
        "out_of_order_budget",
        bytes(0, INT_MAX),
        field!(recv.out_of_order_budget),
        "Most payload that is kept behind a gap; none: as much as the buffer holds.",
        "seed: NetBurner, SetOutOfOrderBuffers",
    )
    .or_none(),
    number(
        "rcvlowat",
        bytes(1, INT_MAX),
        field!(recv.lowat),
        "Unread data from which on the program is told of it; the buffer grows to hold it.",
        "socket(7), SO_RCVLOWAT; tcp_set_rcvlowat",
    )
    .alias(&["SO_RCVLOWAT"]),
    number(
        "rx_buffers",
        count(1, BUFFERS_MAX),
        RX_BUFFERS,
        "Receive buffer in packet buffers; none: it sizes itself.",
        "seed: NetBurner, SetSocketRxBuffers",
    )
    .or_none()
    .alias(&["SetSocketRxBuffers"]),
    number(
        "out_of_order_buffers",
        count(0, BUFFERS_MAX),
        OUT_OF_ORDER_BUFFERS,
        "Most packet buffers that are kept behind a gap; none: as many as there are.",
        "seed: NetBurner, SetOutOfOrderBuffers",
    )
    .or_none()
    .alias(&["SetOutOfOrderBuffers"]),
];
