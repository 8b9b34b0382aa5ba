//! The options of a socket in Linux.

use crate::knob::site::{BUF_LOCK, DELACK_MAX, NODELAY, NOTSENT_LOWAT, RCVBUF, SNDBUF, field};
use crate::knob::table::{INT_MAX, ROW};
use crate::knob::{Kind, Knob, LinuxSite};

const SOL_SOCKET: i32 = 1;
const IPPROTO_TCP: i32 = 6;

const fn socket(level: i32, option: i32, symbol: &'static str) -> LinuxSite {
    LinuxSite::SocketOption {
        level,
        option,
        symbol,
    }
}

pub(super) const ROWS: &[Knob] = &[
    Knob {
        name: "nodelay",
        help: "Send small segments at once instead of waiting for earlier ones to be acknowledged \
               (Nagle's algorithm off).",
        cite: "RFC 896; RFC 9293 section 3.7.4; tcp_nagle_check; seed: Red Hat, TCP_NODELAY",
        linux: Some(socket(IPPROTO_TCP, 1, "TCP_NODELAY")),
        aliases: &["SO_NONAGLE"],
        stack: NODELAY,
        ..ROW
    },
    Knob {
        name: "cork",
        help: "Hold partial segments until uncorked, at most 200 ms.",
        cite: "tcp(7); tcp_nagle_check; seed: Red Hat, TCP_CORK",
        linux: Some(socket(IPPROTO_TCP, 3, "TCP_CORK")),
        stack: field!(small_writes.cork),
        ..ROW
    },
    Knob {
        name: "quickack",
        help: "Acknowledge at once instead of delaying; the kernel clears it by itself.",
        cite: "RFC 1122 section 4.2.3.2; tcp(7); tcp_enter_quickack_mode",
        linux: Some(socket(IPPROTO_TCP, 12, "TCP_QUICKACK")),
        ..ROW
    },
    Knob {
        name: "congestion",
        kind: Kind::Name,
        min: 0,
        max: 0,
        help: "Congestion control of the connection, such as cubic or bbr.",
        cite: "RFC 9438 (CUBIC); tcp(7), TCP_CONGESTION",
        linux: Some(socket(IPPROTO_TCP, 13, "TCP_CONGESTION")),
        stack: field!(congestion.name),
        ..ROW
    },
    Knob {
        name: "sndbuf",
        kind: Kind::Bytes,
        min: 0,
        max: INT_MAX / 2,
        help: "Send buffer as asked for; the kernel doubles it, limits it to wmem_max and stops \
               its own sizing.",
        cite: "socket(7), SO_SNDBUF; sock_setsockopt; seed: Winsock, send buffers",
        linux: Some(socket(SOL_SOCKET, 7, "SO_SNDBUF")),
        or_none: true,
        stack: SNDBUF,
        ..ROW
    },
    Knob {
        name: "rcvbuf",
        kind: Kind::Bytes,
        min: 0,
        max: INT_MAX / 2,
        help: "Receive buffer as asked for; the kernel doubles it, limits it to rmem_max and stops \
               its own sizing.",
        cite: "socket(7), SO_RCVBUF; seed: FreeBSD automatic buffer sizing",
        linux: Some(socket(SOL_SOCKET, 8, "SO_RCVBUF")),
        or_none: true,
        stack: RCVBUF,
        ..ROW
    },
    Knob {
        name: "buf_lock",
        kind: Kind::Count,
        min: 0,
        max: 3,
        help: "Which buffers are fixed: 1 send, 2 receive, 3 both, 0 none (the kernel sizes them).",
        cite: "sock_setsockopt, SO_BUF_LOCK; tcp_sndbuf_expand; tcp_rcv_space_adjust",
        linux: Some(socket(SOL_SOCKET, 72, "SO_BUF_LOCK")),
        stack: BUF_LOCK,
        ..ROW
    },
    Knob {
        name: "notsent_lowat",
        kind: Kind::Bytes,
        min: 0,
        max: u32::MAX as u64,
        help: "Unsent data above which the program is not asked for more.",
        cite: "tcp(7), TCP_NOTSENT_LOWAT; sk_stream_memory_free",
        linux: Some(socket(IPPROTO_TCP, 25, "TCP_NOTSENT_LOWAT")),
        stack: NOTSENT_LOWAT,
        ..ROW
    },
    Knob {
        name: "delack_max",
        kind: Kind::Micros,
        min: 2_000,
        max: 200_000,
        help: "Longest time that an ACK is delayed; at least two kernel ticks.",
        cite: "RFC 1122 section 4.2.3.2; do_tcp_setsockopt, TCP_DELACK_MAX_US",
        linux: Some(socket(IPPROTO_TCP, 46, "TCP_DELACK_MAX_US")),
        stack: DELACK_MAX,
        ..ROW
    },
    Knob {
        name: "mss",
        kind: Kind::Bytes,
        min: 88,
        max: 32_767,
        help: "Largest segment that a connection sends and announces; only before it is opened.",
        cite: "RFC 9293 section 3.7.1; tcp(7), TCP_MAXSEG; do_tcp_setsockopt",
        linux: Some(socket(IPPROTO_TCP, 2, "TCP_MAXSEG")),
        or_none: true,
        stack: field!(options.mss),
        ..ROW
    },
];
