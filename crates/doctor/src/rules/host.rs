//! State shared by all connections of a host: queues of its listeners, its memory.

use base::human;

use super::draft::{Draft, high_if};
use super::thresholds::{CONNTRACK_DROPS, PORTS_TAKEN, RECEIVE_DROP_SHARE, RECEIVE_DROPS};
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
                        "{} waiting at {}, in {} of the samples",
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
                "more than arrive between two calls to accept",
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
                 net.ipv4.tcp_max_syn_backlog, and net.ipv4.tcp_syncookies = 1. Many unknown \
                 source addresses mean a SYN flood.",
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
                "In the program: keep connections open and reuse them. On the host: a wider \
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
                host.latest("SockstatTCPmem")
                    .map(|pages| human::count(pages, "page")),
                "below the second value of net.ipv4.tcp_mem",
            )
            .remark(
                "No TCP setting helps, because memory is short: use fewer connections or smaller \
                 maxima in tcp_rmem and tcp_wmem; where the machine has memory to spare, raise \
                 net.ipv4.tcp_mem.",
            ),
    )
}

/// Packets that reach the machine and that it drops before TCP sees them: the processor does not
/// keep up (`enqueue_to_backlog`), or the card has no room.
pub(crate) fn receive_drops(host: &HostTimeline) -> Option<Verdict> {
    let received: u64 = host.link_arrivals().iter().map(|link| link.rx_pkts).sum();
    let backlog = host.counted("SoftnetDropped").unwrap_or(0);
    let worst = host
        .link_arrivals()
        .into_iter()
        .max_by_key(|link| link.missed_pkts);
    let missed = worst.as_ref().map_or(0, |link| link.missed_pkts);
    let dropped = backlog + missed;
    let share = dropped as f64 / received.saturating_add(dropped).max(1) as f64;
    if dropped < RECEIVE_DROPS || share < RECEIVE_DROP_SHARE {
        return None;
    }
    let squeezed = host.counted("SoftnetTimeSqueeze").unwrap_or(0);
    let help = if backlog >= missed {
        "On the host: a larger net.core.netdev_max_backlog and net.core.netdev_budget, and packets \
         spread over more processors (receive queues of the card, RPS)."
    } else {
        "On the host: a larger ring of the card (ethtool -g shows it, ethtool -G DEV rx N sets it), \
         and interrupts spread over more processors."
    };
    // The backlog of a processor is that of all namespaces.
    Some(
        Draft::new("receive-drops", share, high_if(missed >= RECEIVE_DROPS))
            .row(
                "softnet_stat dropped",
                human::count(backlog, "packet"),
                "0; the counter is that of the whole machine",
            )
            .row_if(
                "rx_missed_errors",
                worst.map(|link| format!("{} at {}", human::count(missed, "packet"), link.name)),
                "0",
            )
            .row(
                "rx_packets",
                human::count(received, "packet"),
                "none of them dropped",
            )
            .row(
                "softnet_stat time_squeeze",
                human::count(squeezed, "time"),
                "seldom",
            )
            .remark(help),
    )
}

/// Connection tracking has no room for more (`nf_conntrack_max`), and drops packets or forgets
/// connections that live.
pub(crate) fn conntrack_full(host: &HostTimeline) -> Option<Verdict> {
    let dropped = host.counted("ConntrackDrop").unwrap_or(0);
    let forgotten = host.counted("ConntrackEarlyDrop").unwrap_or(0);
    if dropped + forgotten < CONNTRACK_DROPS {
        return None;
    }
    Some(
        Draft::new("conntrack-full", 0.0, Confidence::Medium)
            .row("nf_conntrack drop", human::count(dropped, "packet"), "0")
            .row(
                "nf_conntrack early_drop",
                format!(
                    "{} evicted to make room",
                    human::count(forgotten, "connection")
                ),
                "0",
            )
            .remark(
                "On the host: a larger net.netfilter.nf_conntrack_max, shorter timeouts \
                 (nf_conntrack_tcp_timeout_established is five days by default), or no tracking \
                 of this traffic (notrack).",
            ),
    )
}

/// Packets that arrive within the window and for which the receive buffer has no room: small
/// segments take much more memory than they carry.
pub(crate) fn receive_buffer_overrun(host: &HostTimeline) -> Option<Verdict> {
    let counters = [
        ("TcpExtRcvPruned", "segments dropped, the buffer is full"),
        ("TcpExtOfoPruned", "queues of segments out of order dropped"),
        ("TcpExtTCPRcvQDrop", "segments dropped, memory is short"),
        (
            "TcpExtTCPBacklogDrop",
            "segments dropped while the program held the socket",
        ),
        (
            "TcpExtTCPZeroWindowDrop",
            "segments dropped in a closed window",
        ),
    ];
    let counted = counters.map(|(name, what)| (name, host.counted(name).unwrap_or(0), what));
    let dropped: u64 = counted.iter().map(|(_, count, _)| count).sum();
    let segments = host.counted("TcpInSegs")?;
    let share = dropped as f64 / segments.max(1) as f64;
    if dropped < RECEIVE_DROPS || share < RECEIVE_DROP_SHARE {
        return None;
    }
    let draft = Draft::new("receive-buffer-overrun", share, Confidence::High).row(
        "TcpInSegs",
        human::count(segments, "segment"),
        "none of them dropped",
    );
    let seen = counted.into_iter().filter(|(_, count, _)| *count > 0);
    let draft = seen.fold(draft, |draft, (name, count, what)| {
        draft.row(name, format!("{count} {what}"), "0")
    });
    Some(draft.remark(
        "In the receiving program: no fixed SO_RCVBUF, or a larger one, and faster reads. In the \
         sending program: fewer and larger writes; a segment of one byte takes at least 768 bytes \
         of the receive buffer.",
    ))
}
