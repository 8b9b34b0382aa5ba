//! What all connections of a host share: queues of its listeners, its memory.

use base::human;

use super::draft::Draft;
use super::thresholds::PORTS_TAKEN;
use crate::host_timeline::HostTimeline;
use crate::verdict::{Confidence, Verdict};

/// `accept` is called too seldom: completed handshakes find the queue of `listen` full.
pub(crate) fn accept_queue_full(host: &HostTimeline) -> Option<Verdict> {
    let overflows = host.counted("TcpExtListenOverflows");
    let full = host.fullest_listener();
    if overflows.unwrap_or(0) == 0 && full.is_none() {
        return None;
    }
    let confidence = match (&full, overflows) {
        (Some(_), Some(1..)) => Confidence::High,
        _ => Confidence::Medium,
    };
    let share = full.as_ref().map_or(0.0, |listener| listener.full_share);
    Some(
        Draft::new("accept-queue-full", share, confidence)
            .row_if(
                "TcpExtListenOverflows",
                overflows.map(|count| format!("{} dropped", human::count(count, "connection"))),
                "0",
            )
            .row_if(
                "unacked_pkts",
                full.as_ref().map(|listener| {
                    format!(
                        "{} wait at {}, in {} of the samples",
                        human::count(listener.queue_pkts, "connection"),
                        listener.local,
                        human::share(listener.full_share)
                    )
                }),
                "below the backlog",
            )
            .row_if(
                "sacked_pkts",
                full.as_ref()
                    .map(|listener| format!("a backlog of {}", listener.backlog_pkts)),
                "more than arrive between two calls of accept",
            )
            .remark(
                "In the program: call accept more often (in a thread of its own, or until it would \
                 block), and pass a larger backlog to listen; net.core.somaxconn bounds it. An open \
                 listener keeps its backlog until listen is called again.",
            ),
    )
}

/// More handshakes are half open than the listener keeps.
pub(crate) fn syn_queue_full(host: &HostTimeline) -> Option<Verdict> {
    let dropped = host.counted("TcpExtTCPReqQFullDrop").unwrap_or(0);
    let cookies = host.counted("TcpExtTCPReqQFullDoCookies").unwrap_or(0);
    // A full accept queue sends the same cookies, and is the nearer cause.
    if dropped + cookies == 0 || accept_queue_full(host).is_some() {
        return None;
    }
    Some(
        Draft::new("syn-queue-full", 0.0, Confidence::Medium)
            .row("TcpExtTCPReqQFullDrop", human::count(dropped, "SYN"), "0")
            .row(
                "TcpExtTCPReqQFullDoCookies",
                format!("{} answered by a cookie", human::count(cookies, "SYN")),
                "0",
            )
            .remark(
                "In the program: a larger backlog of listen. On the host: \
                 net.ipv4.tcp_max_syn_backlog, and net.ipv4.tcp_syncookies = 1. If the addresses \
                 are many and strange, it is a flood.",
            ),
    )
}

/// Each connection to one destination takes a local port, for a minute after its end too
/// (TIME-WAIT); without one, `connect` fails with `EADDRNOTAVAIL`.
pub(crate) fn ports_exhausted(host: &HostTimeline) -> Option<Verdict> {
    let ports = host.ports()?;
    if f64::from(ports.taken) < f64::from(ports.range) * PORTS_TAKEN {
        return None;
    }
    Some(
        Draft::new("ports-exhausted", 0.0, Confidence::Medium)
            .row(
                "local ports",
                format!("{} of {} taken", ports.taken, ports.range),
                format!("below {}", human::share(PORTS_TAKEN)),
            )
            .row("destination", ports.remote.to_string(), "any")
            .remark(
                "In the program: keep connections open and use them again. On the host: a wider \
                 net.ipv4.ip_local_port_range, net.ipv4.tcp_tw_reuse = 1, or more addresses.",
            ),
    )
}

/// The kernel entered memory pressure (`tcp_mem`): buffers stop growing, windows shrink.
pub(crate) fn tcp_memory_pressure(host: &HostTimeline) -> Option<Verdict> {
    let entered = host.counted("TcpExtTCPMemoryPressures")?;
    if entered == 0 {
        return None;
    }
    Some(
        Draft::new("tcp-memory-pressure", 0.0, Confidence::High)
            .row(
                "TcpExtTCPMemoryPressures",
                format!("entered {}", human::count(entered, "time")),
                "0",
            )
            .row_if(
                "sockstat TCP mem",
                host.latest("SockstatTCPmem").map(|pages| human::count(pages, "page")),
                "below the second value of net.ipv4.tcp_mem",
            )
            .remark(
                "No TCP setting helps, because memory is short: fewer connections, smaller maxima in \
                 tcp_rmem and tcp_wmem, or, where the machine has memory to spare, a larger \
                 net.ipv4.tcp_mem.",
            ),
    )
}
