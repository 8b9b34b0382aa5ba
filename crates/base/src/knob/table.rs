//! The knobs, a row each.

use super::{Kind, Knob, LinuxSite, Scope};

const SOL_SOCKET: i32 = 1;
const IPPROTO_TCP: i32 = 6;
/// Largest buffer that the kernel's `int` options and sysctls hold.
const INT_MAX: u64 = i32::MAX as u64;

const fn socket(level: i32, option: i32, symbol: &'static str) -> LinuxSite {
    LinuxSite::SocketOption {
        level,
        option,
        symbol,
    }
}

const fn route(metric: u16, name: &'static str) -> LinuxSite {
    LinuxSite::RouteMetric { metric, name }
}

/// Every knob, smallest scope first.
pub const KNOBS: &[Knob] = &[
    Knob {
        name: "nodelay",
        kind: Kind::Flag,
        min: 0,
        max: 1,
        help: "Send small segments at once instead of waiting for earlier ones to be acknowledged \
               (Nagle's algorithm off).",
        cite: "RFC 896; RFC 9293 section 3.7.4; tcp_nagle_check; seed: Red Hat, TCP_NODELAY",
        scope: Scope::Socket,
        linux: socket(IPPROTO_TCP, 1, "TCP_NODELAY"),
    },
    Knob {
        name: "cork",
        kind: Kind::Flag,
        min: 0,
        max: 1,
        help: "Hold partial segments until uncorked, at most 200 ms.",
        cite: "tcp(7); tcp_nagle_check; seed: Red Hat, TCP_CORK",
        scope: Scope::Socket,
        linux: socket(IPPROTO_TCP, 3, "TCP_CORK"),
    },
    Knob {
        name: "quickack",
        kind: Kind::Flag,
        min: 0,
        max: 1,
        help: "Acknowledge at once instead of delaying; the kernel clears it by itself.",
        cite: "RFC 1122 section 4.2.3.2; tcp(7); tcp_enter_quickack_mode",
        scope: Scope::Socket,
        linux: socket(IPPROTO_TCP, 12, "TCP_QUICKACK"),
    },
    Knob {
        name: "congestion",
        kind: Kind::Name,
        min: 0,
        max: 0,
        help: "Congestion control of the connection, such as cubic or bbr.",
        cite: "RFC 9438 (CUBIC); tcp(7), TCP_CONGESTION",
        scope: Scope::Socket,
        linux: socket(IPPROTO_TCP, 13, "TCP_CONGESTION"),
    },
    Knob {
        name: "sndbuf",
        kind: Kind::Bytes,
        min: 0,
        max: INT_MAX / 2,
        help: "Send buffer as asked for; the kernel doubles it, limits it to wmem_max and stops \
               its own sizing.",
        cite: "socket(7), SO_SNDBUF; sock_setsockopt; seed: Winsock, send buffers",
        scope: Scope::Socket,
        linux: socket(SOL_SOCKET, 7, "SO_SNDBUF"),
    },
    Knob {
        name: "rcvbuf",
        kind: Kind::Bytes,
        min: 0,
        max: INT_MAX / 2,
        help: "Receive buffer as asked for; the kernel doubles it, limits it to rmem_max and stops \
               its own sizing.",
        cite: "socket(7), SO_RCVBUF; seed: FreeBSD automatic buffer sizing",
        scope: Scope::Socket,
        linux: socket(SOL_SOCKET, 8, "SO_RCVBUF"),
    },
    Knob {
        name: "buf_lock",
        kind: Kind::Count,
        min: 0,
        max: 3,
        help: "Which buffers are fixed: 1 send, 2 receive, 3 both, 0 none (the kernel sizes them).",
        cite: "sock_setsockopt, SO_BUF_LOCK; tcp_sndbuf_expand; tcp_rcv_space_adjust",
        scope: Scope::Socket,
        linux: socket(SOL_SOCKET, 72, "SO_BUF_LOCK"),
    },
    Knob {
        name: "notsent_lowat",
        kind: Kind::Bytes,
        min: 0,
        max: u32::MAX as u64,
        help: "Unsent data above which the program is not asked for more.",
        cite: "tcp(7), TCP_NOTSENT_LOWAT; sk_stream_memory_free",
        scope: Scope::Socket,
        linux: socket(IPPROTO_TCP, 25, "TCP_NOTSENT_LOWAT"),
    },
    Knob {
        name: "delack_max",
        kind: Kind::Micros,
        min: 2_000,
        max: 200_000,
        help: "Longest time that an ACK is delayed; at least two kernel ticks.",
        cite: "RFC 1122 section 4.2.3.2; do_tcp_setsockopt, TCP_DELACK_MAX_US",
        scope: Scope::Socket,
        linux: socket(IPPROTO_TCP, 46, "TCP_DELACK_MAX_US"),
    },
    Knob {
        name: "route.quickack",
        kind: Kind::Flag,
        min: 0,
        max: 1,
        help: "Never delay ACKs towards this destination.",
        cite: "ip-route(8); tcp_in_quickack_mode",
        scope: Scope::Route,
        linux: route(15, "quickack"),
    },
    Knob {
        name: "route.initcwnd",
        kind: Kind::Count,
        min: 1,
        max: 65_535,
        help: "Initial congestion window towards this destination, in segments.",
        cite: "RFC 6928; ip-route(8); tcp_init_cwnd",
        scope: Scope::Route,
        linux: route(11, "initcwnd"),
    },
    Knob {
        name: "route.initrwnd",
        kind: Kind::Count,
        min: 1,
        max: 65_535,
        help: "Initial receive window towards this destination, in segments.",
        cite: "ip-route(8); tcp_select_initial_window",
        scope: Scope::Route,
        linux: route(14, "initrwnd"),
    },
    Knob {
        name: "route.congctl",
        kind: Kind::Name,
        min: 0,
        max: 0,
        help: "Congestion control of new connections to this destination.",
        cite: "ip-route(8); tcp_ca_dst_init",
        scope: Scope::Route,
        linux: route(16, "congctl"),
    },
    Knob {
        name: "route.mtu",
        kind: Kind::Bytes,
        min: 68,
        max: 65_535,
        help: "Largest packet towards this destination.",
        cite: "RFC 1191; ip-route(8)",
        scope: Scope::Route,
        linux: route(2, "mtu"),
    },
    Knob {
        name: "route.advmss",
        kind: Kind::Bytes,
        min: 48,
        max: 65_495,
        help: "Segment size announced to this destination.",
        cite: "RFC 9293 section 3.7.1; ip-route(8)",
        scope: Scope::Route,
        linux: route(8, "advmss"),
    },
    Knob {
        name: "route.rto_min",
        kind: Kind::Micros,
        min: 1_000,
        max: 120_000_000,
        help: "Smallest retransmission timeout towards this destination; it also bounds delayed \
               ACKs.",
        cite: "RFC 6298 section 2.4; ip-route(8); tcp_rto_min",
        scope: Scope::Route,
        linux: route(13, "rto_min"),
    },
    Knob {
        name: "link.mtu",
        kind: Kind::Bytes,
        min: 68,
        max: 65_535,
        help: "Largest packet of the interface.",
        cite: "ip-link(8); seed: datacenter paths, MTU",
        scope: Scope::Link,
        linux: LinuxSite::LinkMtu,
    },
    Knob {
        name: "link.txqueuelen",
        kind: Kind::Packets,
        min: 1,
        max: INT_MAX,
        help: "Packets that wait in front of the interface.",
        cite: "ip-link(8); seed: datacenter paths, txqueuelen",
        scope: Scope::Link,
        linux: LinuxSite::LinkTxqueuelen,
    },
    Knob {
        name: "qdisc.limit",
        kind: Kind::Count,
        min: 1,
        max: u32::MAX as u64,
        help: "Limit of the root queue: packets for pfifo, bytes for bfifo.",
        cite: "tc-pfifo(8)",
        scope: Scope::Qdisc,
        linux: LinuxSite::QdiscLimit,
    },
    sysctl(
        "net.ipv4.tcp_rmem",
        Kind::BytesTriple,
        INT_MAX,
        "Receive buffer of a connection: minimum, default, and the most that autotuning takes.",
        "tcp(7); tcp_rcv_space_adjust; seed: datacenter paths, receive buffer",
    ),
    sysctl(
        "net.ipv4.tcp_wmem",
        Kind::BytesTriple,
        INT_MAX,
        "Send buffer of a connection: minimum, default, and the most that autotuning takes.",
        "tcp(7); tcp_sndbuf_expand; seed: datacenter paths, send buffer",
    ),
    sysctl(
        "net.ipv4.tcp_window_scaling",
        Kind::Flag,
        1,
        "Offer window scaling, without which a window ends at 65535 bytes.",
        "RFC 7323 section 2; tcp(7)",
    ),
    sysctl(
        "net.ipv4.tcp_sack",
        Kind::Flag,
        1,
        "Offer selective acknowledgements.",
        "RFC 2018; tcp(7); seed: datacenter paths, SACK",
    ),
    sysctl(
        "net.ipv4.tcp_timestamps",
        Kind::Count,
        2,
        "Offer timestamps: 0 off, 1 with a random offset, 2 without.",
        "RFC 7323 section 3; tcp(7)",
    ),
    sysctl(
        "net.ipv4.tcp_slow_start_after_idle",
        Kind::Flag,
        1,
        "Return to the initial congestion window after an idle time above the timeout.",
        "RFC 2861; RFC 9293; tcp_slow_start_after_idle_check",
    ),
    sysctl(
        "net.ipv4.tcp_mtu_probing",
        Kind::Count,
        2,
        "Probe for the path MTU: 0 never, 1 after a black hole was seen, 2 always.",
        "RFC 4821; tcp_mtu_probing",
    ),
    sysctl(
        "net.ipv4.tcp_moderate_rcvbuf",
        Kind::Flag,
        1,
        "Let the kernel size receive buffers.",
        "tcp(7); tcp_rcv_space_adjust; seed: FreeBSD automatic buffer sizing",
    ),
    sysctl(
        "net.ipv4.tcp_autocorking",
        Kind::Flag,
        1,
        "Hold small writes while an earlier packet of the flow waits in the local queue.",
        "tcp(7); tcp_should_autocork",
    ),
    sysctl(
        "net.ipv4.tcp_no_metrics_save",
        Kind::Flag,
        1,
        "Forget what a connection learned about its path when it ends.",
        "ip-sysctl; tcp_update_metrics",
    ),
];

/// A sysctl is its own name and its own place.
const fn sysctl(
    name: &'static str,
    kind: Kind,
    max: u64,
    help: &'static str,
    cite: &'static str,
) -> Knob {
    Knob {
        name,
        kind,
        min: 0,
        max,
        help,
        cite,
        scope: Scope::Namespace,
        linux: LinuxSite::Sysctl { name },
    }
}
