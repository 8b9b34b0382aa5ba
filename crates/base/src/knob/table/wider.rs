//! Settings of Linux that reach further than one socket: routes, links, queues, sysctls. Our stack
//! sets the same for one connection.

use crate::knob::site::{
    AFTER_IDLE, MTU_PROBING, RCVBUF_AUTO, RMEM, RTO_MIN, TIMESTAMPS, WMEM, field,
};
use crate::knob::table::{INT_MAX, ROW};
use crate::knob::{Kind, Knob, LinuxSite, Scope};

const fn route(metric: u16, name: &'static str) -> LinuxSite {
    LinuxSite::RouteMetric { metric, name }
}

pub(super) const ROWS: &[Knob] = &[
    Knob {
        name: "route.quickack",
        kind: Kind::Flag,
        min: 0,
        max: 1,
        help: "Never delay ACKs towards this destination.",
        cite: "ip-route(8); tcp_in_quickack_mode",
        scope: Scope::Route,
        linux: Some(route(15, "quickack")),
        stack: field!(acks.always_quick),
        ..ROW
    },
    Knob {
        name: "route.initcwnd",
        kind: Kind::Count,
        min: 1,
        max: 65_535,
        help: "Initial congestion window towards this destination, in segments.",
        cite: "RFC 6928; ip-route(8); tcp_init_cwnd",
        scope: Scope::Route,
        linux: Some(route(11, "initcwnd")),
        aliases: &["initial_window"],
        stack: field!(congestion.initial_window),
        ..ROW
    },
    Knob {
        name: "route.initrwnd",
        kind: Kind::Count,
        min: 1,
        max: 65_535,
        help: "Initial receive window towards this destination, in segments.",
        cite: "ip-route(8); tcp_select_initial_window",
        scope: Scope::Route,
        linux: Some(route(14, "initrwnd")),
        or_none: true,
        stack: field!(options.initial_window_segments),
        ..ROW
    },
    Knob {
        name: "route.congctl",
        kind: Kind::Name,
        min: 0,
        max: 0,
        help: "Congestion control of new connections to this destination.",
        cite: "ip-route(8); tcp_ca_dst_init",
        scope: Scope::Route,
        linux: Some(route(16, "congctl")),
        stack: field!(congestion.name),
        ..ROW
    },
    Knob {
        name: "route.mtu",
        kind: Kind::Bytes,
        min: 68,
        max: 65_535,
        help: "Largest packet towards this destination.",
        cite: "RFC 1191; ip-route(8)",
        scope: Scope::Route,
        linux: Some(route(2, "mtu")),
        ..ROW
    },
    Knob {
        name: "route.advmss",
        kind: Kind::Bytes,
        min: 48,
        max: 65_495,
        help: "Segment size announced to this destination.",
        cite: "RFC 9293 section 3.7.1; ip-route(8)",
        scope: Scope::Route,
        linux: Some(route(8, "advmss")),
        or_none: true,
        stack: field!(options.advmss),
        ..ROW
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
        linux: Some(route(13, "rto_min")),
        aliases: &["rto_min"],
        stack: RTO_MIN,
        ..ROW
    },
    Knob {
        name: "link.mtu",
        kind: Kind::Bytes,
        min: 68,
        max: 65_535,
        help: "Largest packet of the interface.",
        cite: "ip-link(8); seed: datacenter paths, MTU",
        scope: Scope::Link,
        linux: Some(LinuxSite::LinkMtu),
        ..ROW
    },
    Knob {
        name: "link.txqueuelen",
        kind: Kind::Packets,
        min: 1,
        max: INT_MAX,
        help: "Packets that wait in front of the interface.",
        cite: "ip-link(8); seed: datacenter paths, txqueuelen",
        scope: Scope::Link,
        linux: Some(LinuxSite::LinkTxqueuelen),
        ..ROW
    },
    Knob {
        name: "qdisc.limit",
        kind: Kind::Count,
        min: 1,
        max: u32::MAX as u64,
        help: "Limit of the root queue: packets for pfifo, bytes for bfifo.",
        cite: "tc-pfifo(8)",
        scope: Scope::Qdisc,
        linux: Some(LinuxSite::QdiscLimit),
        ..ROW
    },
    sysctl(
        "net.ipv4.tcp_rmem",
        Kind::BytesTriple,
        INT_MAX,
        "Receive buffer of a connection: minimum, default, and the most that autotuning takes.",
        "tcp(7); tcp_rcv_space_adjust; seed: datacenter paths, receive buffer",
    )
    .on_stack(RMEM),
    sysctl(
        "net.ipv4.tcp_wmem",
        Kind::BytesTriple,
        INT_MAX,
        "Send buffer of a connection: minimum, default, and the most that autotuning takes.",
        "tcp(7); tcp_sndbuf_expand; seed: datacenter paths, send buffer",
    )
    .on_stack(WMEM),
    sysctl(
        "net.ipv4.tcp_window_scaling",
        Kind::Flag,
        1,
        "Offer window scaling, without which a window ends at 65535 bytes.",
        "RFC 7323 section 2; tcp(7)",
    )
    .on_stack(field!(options.window_scaling))
    .alias(&["window_scaling"]),
    sysctl(
        "net.ipv4.tcp_sack",
        Kind::Flag,
        1,
        "Offer selective acknowledgements.",
        "RFC 2018; tcp(7); seed: datacenter paths, SACK",
    )
    .on_stack(field!(options.sack))
    .alias(&["sack"]),
    sysctl(
        "net.ipv4.tcp_timestamps",
        Kind::Count,
        2,
        "Offer timestamps: 0 off, 1 with a random offset, 2 without.",
        "RFC 7323 section 3; tcp(7)",
    )
    .on_stack(TIMESTAMPS)
    .alias(&["timestamps"]),
    sysctl(
        "net.ipv4.tcp_slow_start_after_idle",
        Kind::Flag,
        1,
        "Return to the initial congestion window after an idle time above the timeout.",
        "RFC 2861; RFC 9293; tcp_slow_start_after_idle_check",
    )
    .on_stack(AFTER_IDLE)
    .alias(&["slow_start_after_idle"]),
    sysctl(
        "net.ipv4.tcp_mtu_probing",
        Kind::Count,
        2,
        "Probe for the path MTU: 0 never, 1 after a black hole was seen, 2 always.",
        "RFC 4821; tcp_mtu_probing",
    )
    .on_stack(MTU_PROBING)
    .alias(&["mtu_probing"]),
    sysctl(
        "net.ipv4.tcp_moderate_rcvbuf",
        Kind::Flag,
        1,
        "Let the kernel size receive buffers.",
        "tcp(7); tcp_rcv_space_adjust; seed: FreeBSD automatic buffer sizing",
    )
    .on_stack(RCVBUF_AUTO)
    .alias(&["recv_buffer_auto", "net.inet.tcp.recvbuf_auto"]),
    sysctl(
        "net.ipv4.tcp_autocorking",
        Kind::Flag,
        1,
        "Hold small writes while an earlier packet of the flow waits in the local queue.",
        "tcp(7); tcp_should_autocork",
    )
    .on_stack(field!(small_writes.autocork))
    .alias(&["autocork"]),
    sysctl(
        "net.ipv4.tcp_no_metrics_save",
        Kind::Flag,
        1,
        "Forget what a connection learned about its path when it ends.",
        "ip-sysctl; tcp_update_metrics",
    ),
    of_host(
        "net.core.rmem_max",
        RCVBUF_MIN,
        "The most that a program may ask for as its receive buffer; autotuning goes beyond it.",
        "socket(7); sk_setsockopt; seed: datacenter paths, receive buffer",
    )
    .on_stack(field!(recv.buffer.request_max))
    .alias(&["rmem_max", "recv_buffer_request_max"]),
    of_host(
        "net.core.wmem_max",
        SNDBUF_MIN,
        "The most that a program may ask for as its send buffer; autotuning goes beyond it.",
        "socket(7); sk_setsockopt; seed: datacenter paths, send buffer",
    )
    .on_stack(field!(send.buffer.request_max))
    .alias(&["wmem_max", "send_buffer_request_max"]),
    of_host(
        "net.core.rmem_default",
        RCVBUF_MIN,
        "Receive buffer of sockets that are not TCP's: those begin with the middle value of \
         net.ipv4.tcp_rmem.",
        "socket(7); sock_init_data_uid, tcp_init_sock; seed: datacenter paths",
    )
    .alias(&["rmem_default"]),
    of_host(
        "net.core.wmem_default",
        SNDBUF_MIN,
        "Send buffer of sockets that are not TCP's: those begin with the middle value of \
         net.ipv4.tcp_wmem.",
        "socket(7); sock_init_data_uid, tcp_init_sock; seed: datacenter paths",
    )
    .alias(&["wmem_default"]),
];

/// `SOCK_MIN_RCVBUF` and `SOCK_MIN_SNDBUF`: the kernel refuses less.
const RCVBUF_MIN: u64 = 2304;
const SNDBUF_MIN: u64 = 4608;

/// A number of bytes that all network namespaces of a host share.
const fn of_host(name: &'static str, min: u64, help: &'static str, cite: &'static str) -> Knob {
    Knob {
        min,
        scope: Scope::Host,
        ..sysctl(name, Kind::Bytes, INT_MAX, help, cite)
    }
}

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
        linux: Some(LinuxSite::Sysctl { name }),
        ..ROW
    }
}
