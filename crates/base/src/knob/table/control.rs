//! Handshake, recovery, congestion control, path and life of our stack, where no row of Linux sets
//! them.

use super::{HOUR, SECOND, bytes, choice, count, flag, micros, number, rate};
use crate::knob::Knob;
use crate::knob::site::{RTO_MAX, field, names};
use crate::settings::{Detection, Ecn, HyStart, RtoRule, Validation};

pub(super) const ROWS: &[Knob] = &[
    flag(
        "dsack",
        field!(options.dsack),
        "Report duplicates in SACK blocks.",
        "RFC 2883; ip-sysctl, tcp_dsack",
    ),
    choice(
        "ecn",
        names::<Ecn>(),
        field!(options.ecn),
        "Explicit congestion notification: off, accept it where the peer asks, request it.",
        "RFC 3168; ip-sysctl, tcp_ecn",
    ),
    number(
        "default_mss",
        bytes(48, 65_495),
        field!(options.default_mss),
        "Payload of a segment where the peer announces no MSS.",
        "RFC 9293 section 3.7.1; seed: NetBurner; tcp(4), mssdflt",
    ),
    number(
        "window_clamp",
        bytes(1, 65_535 << 14),
        field!(options.window_clamp),
        "The receive window that is never exceeded; none: the buffer decides.",
        "tcp(7), TCP_WINDOW_CLAMP; tcp_select_initial_window",
    )
    .or_none(),
    flag(
        "accept_window_zero",
        field!(options.accept_window_zero),
        "Offer no window until the application accepts the connection.",
        "seed: NetBurner; NetBurner tcp.h, wait for accept",
    ),
    choice(
        "loss_detection",
        names::<Detection>(),
        field!(recovery.detection),
        "How losses are found with SACK: rack (by time), dupsack (three segments above), newreno \
         (three duplicate ACKs).",
        "RFC 8985; RFC 6675; RFC 6582",
    ),
    number(
        "dupack_threshold",
        count(1, 300),
        field!(recovery.dupack_threshold),
        "Duplicate ACKs that mean a loss.",
        "RFC 5681 section 3.2; ip-sysctl, tcp_reordering",
    ),
    flag(
        "tail_loss_probe",
        field!(recovery.tail_loss_probe),
        "Probe for a lost tail after two round trips instead of waiting for the timeout.",
        "RFC 8985 section 7; tcp_schedule_loss_probe",
    ),
    flag(
        "prr",
        field!(recovery.prr),
        "Reduce the window in proportion to what arrives, instead of at once.",
        "RFC 6937; tcp_cwnd_reduction",
    ),
    flag(
        "frto",
        field!(recovery.frto),
        "Recognise timeouts that came too early.",
        "RFC 5682; tcp_process_loss",
    ),
    flag(
        "undo",
        field!(recovery.undo),
        "Take back reductions that timestamps or D-SACK prove wrong.",
        "RFC 3522; RFC 4015; tcp_try_undo_recovery",
    ),
    flag(
        "limited_transmit",
        field!(recovery.limited_transmit),
        "Send new segments on the first two duplicate ACKs.",
        "RFC 3042",
    ),
    number(
        "rto_initial",
        micros(1_000, 120 * SECOND),
        field!(recovery.rto_initial),
        "Retransmission timeout before any round trip was measured.",
        "RFC 6298 section 2.1; TCP_TIMEOUT_INIT; seed: NetBurner",
    ),
    number(
        "rto_max",
        micros(1_000, 600 * SECOND),
        RTO_MAX,
        "Largest retransmission timeout.",
        "RFC 6298 section 2.5; ip-sysctl, tcp_rto_max_ms",
    ),
    choice(
        "rto_rule",
        names::<RtoRule>(),
        field!(recovery.rto_rule),
        "Whether the least timeout bounds the sum (rfc6298) or the variation (linux).",
        "RFC 6298 section 2; tcp_rtt_estimator",
    ),
    choice(
        "hystart",
        names::<HyStart>(),
        field!(congestion.hystart),
        "When slow start ends before a loss: off (never), classic (as Linux), plusplus (RFC 9406).",
        "RFC 9406; hystart_update",
    ),
    choice(
        "cwnd_validation",
        names::<Validation>(),
        field!(congestion.validation),
        "What becomes of a congestion window that is not used.",
        "RFC 2861; RFC 7661; tcp_cwnd_validate",
    ),
    flag(
        "pacing",
        field!(congestion.pacing),
        "Spread segments over the round trip also where the congestion control does not ask for \
         it.",
        "tc-fq(8); tcp_update_pacing_rate",
    ),
    number(
        "pacing_rate_max",
        rate(1_000, 1_000_000_000_000),
        field!(congestion.pacing_rate_max),
        "Upper bound of the pacing rate; none: no bound.",
        "socket(7), SO_MAX_PACING_RATE",
    )
    .or_none(),
    number(
        "pacing_ss_percent",
        count(1, 1_000),
        field!(congestion.pacing_ss_percent),
        "Pacing rate in slow start, in percent of window over round-trip time.",
        "ip-sysctl, tcp_pacing_ss_ratio",
    ),
    number(
        "pacing_ca_percent",
        count(1, 1_000),
        field!(congestion.pacing_ca_percent),
        "Pacing rate after slow start, in percent of window over round-trip time.",
        "ip-sysctl, tcp_pacing_ca_ratio",
    ),
    flag(
        "byte_counting",
        field!(congestion.byte_counting),
        "Grow the congestion window by what is acknowledged, not by the number of ACKs.",
        "RFC 3465; tcp_slow_start",
    ),
    flag(
        "pmtu_discovery",
        field!(path.pmtu_discovery),
        "Forbid fragmentation, and act on ICMP messages that a packet was too big.",
        "RFC 1191; RFC 8201; ip-sysctl, ip_no_pmtu_disc",
    ),
    flag(
        "pmtu_confirm",
        field!(path.pmtu_confirm),
        "Let a report of an MTU smaller than packets that have passed wait for a timeout.",
        "RFC 5927 section 7.2; Linux tcp_v4_mtu_reduced does at once",
    ),
    number(
        "mtu_base",
        bytes(88, 65_535),
        field!(path.mtu_base),
        "MTU with which probing begins after a black hole.",
        "RFC 4821 section 7.2; ip-sysctl, tcp_base_mss",
    ),
    number(
        "gso_max",
        bytes(0, 65_536),
        field!(path.gso_max),
        "Bytes of the largest GSO packet; 0: no GSO.",
        "ip-link(8), gso_max_size; tcp_xmit_size_goal",
    ),
    number(
        "tso_min_segments",
        count(0, 65_535),
        field!(path.tso_min_segments),
        "Size GSO packets by the pacing rate, at least so many segments; 0: always the largest.",
        "ip-sysctl, tcp_min_tso_segs; tcp_tso_autosize",
    ),
    number(
        "tso_rtt_log",
        count(0, 31),
        field!(path.tso_rtt_log),
        "GSO packets double in size for each halving of the round-trip time below 2 to the power of this, \
         in microseconds.",
        "ip-sysctl, tcp_tso_rtt_log",
    ),
    number(
        "tso_win_divisor",
        count(0, 1_000),
        field!(path.tso_win_divisor),
        "Below this share of the window a burst waits for more; 0: it never waits.",
        "ip-sysctl, tcp_tso_win_divisor; tcp_tso_should_defer",
    ),
    number(
        "local_queue_max",
        bytes(1, u32::MAX as u64),
        field!(path.local_queue_max),
        "Most bytes of one connection in the local queue.",
        "ip-sysctl, tcp_limit_output_bytes; tcp_small_queue_check",
    ),
    number(
        "hop_limit",
        count(1, 255),
        field!(path.hop_limit),
        "Hop limit (time to live) of packets.",
        "RFC 9293 section 3.9.2; ip(7), IP_TTL",
    ),
    number(
        "syn_retries",
        count(0, 127),
        field!(life.syn_retries),
        "Retransmissions of an unanswered SYN.",
        "RFC 9293 section 3.8.3; ip-sysctl, tcp_syn_retries",
    ),
    number(
        "syn_linear_timeouts",
        count(0, 127),
        field!(life.syn_linear_timeouts),
        "Of these, the ones in constant intervals.",
        "ip-sysctl, tcp_syn_linear_timeouts",
    ),
    number(
        "synack_retries",
        count(0, 255),
        field!(life.synack_retries),
        "Retransmissions of an unanswered SYN-ACK.",
        "ip-sysctl, tcp_synack_retries",
    ),
    number(
        "defer_accept",
        micros(SECOND, HOUR),
        field!(life.defer_accept),
        "How long a listener waits for the first data before it accepts a connection without; \
         none: not at all.",
        "tcp(7), TCP_DEFER_ACCEPT; tcp_check_req",
    )
    .or_none()
    .alias(&["TCP_DEFER_ACCEPT"]),
    number(
        "retries",
        count(0, 255),
        field!(life.retries),
        "Retransmissions of data before the connection ends.",
        "RFC 9293 section 3.8.3; ip-sysctl, tcp_retries2; seed: NetBurner",
    ),
    number(
        "retries_timeout",
        micros(1_000, HOUR),
        field!(life.retries_timeout),
        "First of the timeouts, each twice as long as the one before, whose sum retries stands for; \
         none: retries are counted.",
        "ip-sysctl, tcp_retries2; Linux retransmits_timed_out",
    )
    .or_none(),
    number(
        "user_timeout",
        micros(1_000, 24 * HOUR),
        field!(life.user_timeout),
        "Time without progress after which the connection ends; none: retries decide.",
        "RFC 5482; tcp(7), TCP_USER_TIMEOUT",
    )
    .or_none(),
    number(
        "keepalive",
        micros(SECOND, 24 * HOUR),
        field!(life.keepalive),
        "Idle time before keepalive probes; none: no probes.",
        "RFC 9293 section 3.8.4; tcp(7), TCP_KEEPIDLE",
    )
    .or_none(),
    number(
        "keepalive_interval",
        micros(1_000, 24 * HOUR),
        field!(life.keepalive_interval),
        "Time between keepalive probes.",
        "tcp(7), TCP_KEEPINTVL",
    ),
    number(
        "keepalive_probes",
        count(1, 127),
        field!(life.keepalive_probes),
        "Unanswered keepalive probes after which the connection ends.",
        "tcp(7), TCP_KEEPCNT",
    ),
    number(
        "fin_timeout",
        micros(0, HOUR),
        field!(life.fin_timeout),
        "How long a closed socket waits for the peer to close.",
        "ip-sysctl, tcp_fin_timeout; tcp(4), finwait2_timeout",
    ),
    number(
        "time_wait",
        micros(0, HOUR),
        field!(life.time_wait),
        "How long a pair of ports stays used after the end.",
        "RFC 9293 section 3.6.1; TCP_TIMEWAIT_LEN; tcp(4), msl",
    ),
    flag(
        "time_wait_reuse",
        field!(life.time_wait_reuse),
        "A new SYN may take over a pair of ports that waits.",
        "RFC 6191; tcp_timewait_state_process",
    ),
    flag(
        "unreachable_ends_opening",
        field!(life.unreachable_ends_opening),
        "ICMP host unreachable ends a connection that is not established yet.",
        "RFC 1122 section 4.2.3.9; RFC 5461 section 4.1",
    ),
];
