//! State shared by the flows of a host, over an interval: counters, drops, sysctls.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use base::{HostSample, LinkSample, ListenerSample, PortUse, QdiscSample};

use crate::rules::thresholds::SAMPLES_KEPT;

/// The samples of one network namespace in the order of time, a bounded number of them.
#[derive(Clone, Debug, Default)]
pub struct HostTimeline {
    samples: VecDeque<HostSample>,
}

/// A listening socket whose accept queue was full.
#[derive(Clone, Debug, PartialEq)]
pub struct FullListener {
    /// Its address and port.
    pub local: SocketAddr,
    /// Most connections that waited in it.
    pub queue_pkts: u32,
    /// Its backlog.
    pub backlog_pkts: u32,
    /// Share of the samples in which it was full, 0 to 1.
    pub full_share: f64,
}

/// Packets dropped by an interface and its queues in the observed interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkDrops {
    /// Name of the interface.
    pub name: String,
    /// Packets dropped by its driver on the way out.
    pub tx_dropped_pkts: u64,
    /// Packets dropped by its queueing disciplines.
    pub qdisc_dropped_pkts: u64,
    /// Packets that it sent.
    pub tx_pkts: u64,
    /// Length of its transmit queue in packets.
    pub txqueuelen_pkts: u32,
    /// Kind of the queueing discipline that dropped most, or of the root if none did.
    pub qdisc_kind: String,
    /// Bytes that its queue holds, as far as its kind tells.
    pub queue_bytes: Option<u64>,
}

/// Packets that reached an interface in the observed interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LinkArrivals {
    pub(crate) name: String,
    pub(crate) rx_pkts: u64,
    /// Packets for which the card had no room.
    pub(crate) missed_pkts: u64,
}

impl LinkDrops {
    /// Packets lost on the way out. Some kernels count a packet that the queue dropped at the
    /// interface too, so the larger one is taken and not the sum.
    #[must_use]
    pub fn dropped_pkts(&self) -> u64 {
        self.tx_dropped_pkts.max(self.qdisc_dropped_pkts)
    }
}

impl HostTimeline {
    /// No samples yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a sample; one that is not later than the last is ignored.
    pub fn push(&mut self, sample: HostSample) {
        if self.samples.back().is_some_and(|last| sample.at <= last.at) {
            return;
        }
        if self.samples.len() == SAMPLES_KEPT {
            // Drops every second one, but not the first: differences cover the whole time.
            let mut index = 0;
            self.samples.retain(|_| {
                index += 1;
                index % 2 == 1
            });
        }
        self.samples.push_back(sample);
    }

    /// From the first sample to the last.
    #[must_use]
    pub fn interval(&self) -> Duration {
        self.ends()
            .map_or(Duration::ZERO, |(first, last)| last.at.since(first.at))
    }

    /// Whether there are no samples.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    /// Change of a counter such as `TcpExtDelayedACKs`; `None` where it is unknown, was seen once,
    /// or went backwards.
    #[must_use]
    pub fn counted(&self, counter: &str) -> Option<u64> {
        let (first, last) = self.ends()?;
        let read = |sample: &HostSample| sample.counters.get(counter).copied();
        read(last)?.checked_sub(read(first)?)
    }

    /// The newest value of a gauge such as `SockstatTCPmem`.
    #[must_use]
    pub fn latest(&self, gauge: &str) -> Option<u64> {
        self.samples.back()?.counters.get(gauge).copied()
    }

    /// The listener whose accept queue was full most often; `None` where none was at least twice.
    #[must_use]
    pub fn fullest_listener(&self) -> Option<FullListener> {
        let mut full: BTreeMap<u64, (usize, &ListenerSample)> = BTreeMap::new();
        let waiting = self.samples.iter().flat_map(|sample| &sample.listeners);
        // A full queue holds one more than the backlog; a backlog of 0 is used for a single accept.
        for listener in waiting.filter(|one| one.queue_pkts > one.backlog_pkts) {
            let entry = full.entry(listener.cookie).or_insert((0, listener));
            entry.0 += 1;
            if listener.queue_pkts > entry.1.queue_pkts {
                entry.1 = listener;
            }
        }
        let (count, listener) = full.into_values().max_by_key(|(count, _)| *count)?;
        (count >= 2).then(|| FullListener {
            local: listener.local,
            queue_pkts: listener.queue_pkts,
            backlog_pkts: listener.backlog_pkts,
            full_share: count as f64 / self.samples.len() as f64,
        })
    }

    /// The fullest use of local ports.
    #[must_use]
    pub fn ports(&self) -> Option<PortUse> {
        let counted = self.samples.iter().filter_map(|sample| sample.ports);
        counted.max_by_key(|ports| ports.taken)
    }

    /// Outbound drops of each interface, the worst first.
    #[must_use]
    pub fn link_drops(&self) -> Vec<LinkDrops> {
        let mut found = self.of_each_link(drops_between);
        found.sort_by_key(|drops| core::cmp::Reverse(drops.dropped_pkts()));
        found
    }

    /// Packets that reached each interface.
    pub(crate) fn link_arrivals(&self) -> Vec<LinkArrivals> {
        self.of_each_link(|before, after| {
            let missed = after.rx_missed_pkts.zip(before.rx_missed_pkts);
            Some(LinkArrivals {
                name: after.name.clone(),
                rx_pkts: after.rx_pkts.checked_sub(before.rx_pkts)?,
                missed_pkts: missed.map_or(Some(0), |(after, before)| after.checked_sub(before))?,
            })
        })
    }

    /// Whether TCP segmentation offload is on at an interface.
    pub(crate) fn tso(&self, interface: &str) -> Option<bool> {
        let mut links = self.samples.iter().flat_map(|sample| &sample.links);
        links.find_map(|link| link.tso.filter(|_| link.name == interface))
    }

    fn of_each_link<T>(&self, between: impl Fn(&LinkSample, &LinkSample) -> Option<T>) -> Vec<T> {
        let Some((first, last)) = self.ends() else {
            return Vec::new();
        };
        let links = last.links.iter().filter_map(|link| {
            let before = first.links.iter().find(|other| other.index == link.index)?;
            between(before, link)
        });
        links.collect()
    }

    /// A sysctl as text.
    #[must_use]
    pub fn sysctl(&self, name: &str) -> Option<&str> {
        self.samples
            .iter()
            .rev()
            .find_map(|sample| sample.sysctls.get(name))
            .map(String::as_str)
    }

    /// A sysctl that is one number.
    #[must_use]
    pub fn sysctl_number(&self, name: &str) -> Option<u64> {
        self.sysctl(name)?.trim().parse().ok()
    }

    /// A sysctl that is minimum, default and maximum.
    #[must_use]
    pub fn sysctl_triple(&self, name: &str) -> Option<[u64; 3]> {
        let mut words = self.sysctl(name)?.split_whitespace().map(str::parse);
        let mut next = || words.next()?.ok();
        Some([next()?, next()?, next()?])
    }

    fn ends(&self) -> Option<(&HostSample, &HostSample)> {
        let (first, last) = (self.samples.front()?, self.samples.back()?);
        (first.at < last.at).then_some((first, last))
    }
}

/// `None` where a counter went backwards: then the interface is another one of the same number.
fn drops_between(before: &LinkSample, after: &LinkSample) -> Option<LinkDrops> {
    let qdisc_dropped = |link: &LinkSample| -> u64 {
        // A root queue's counter contains those of its children.
        let root = link.qdiscs.iter().filter(|queue| queue.parent == u32::MAX);
        root.map(|queue| queue.dropped_pkts).sum()
    };
    let dropping = dropping_qdisc(before, after);
    Some(LinkDrops {
        qdisc_kind: dropping.map(|queue| queue.kind.clone()).unwrap_or_default(),
        queue_bytes: queue_bytes(dropping, after),
        name: after.name.clone(),
        tx_dropped_pkts: after.tx_dropped_pkts.checked_sub(before.tx_dropped_pkts)?,
        qdisc_dropped_pkts: qdisc_dropped(after).checked_sub(qdisc_dropped(before))?,
        tx_pkts: after.tx_pkts.checked_sub(before.tx_pkts)?,
        txqueuelen_pkts: after.txqueuelen_pkts,
    })
}

/// The queue that dropped most; of a tree of queues the innermost one.
fn dropping_qdisc<'l>(before: &LinkSample, after: &'l LinkSample) -> Option<&'l QdiscSample> {
    let dropped = |queue: &&QdiscSample| {
        let earlier = before.qdiscs.iter().find(|other| {
            (other.handle, other.parent, &other.kind) == (queue.handle, queue.parent, &queue.kind)
        });
        let before = earlier.map_or(0, |queue| queue.dropped_pkts);
        queue.dropped_pkts.saturating_sub(before)
    };
    let most = after.qdiscs.iter().map(|queue| dropped(&queue)).max()?;
    let mut candidates = after.qdiscs.iter().filter(|queue| dropped(queue) == most);
    let is_leaf = |queue: &&QdiscSample| queue.parent != u32::MAX;
    candidates
        .clone()
        .find(is_leaf)
        .or_else(|| candidates.next())
}

/// Capacity of a queue: its own limit, or the interface's for kinds that use it.
fn queue_bytes(queue: Option<&QdiscSample>, link: &LinkSample) -> Option<u64> {
    let packets = |count: u64| count.saturating_mul(u64::from(link.mtu_bytes));
    let by_interface = packets(u64::from(link.txqueuelen_pkts));
    let Some(queue) = queue else {
        return Some(by_interface);
    };
    match (queue.kind.as_str(), queue.limit) {
        ("tbf" | "bfifo", limit) => limit,
        ("pfifo", Some(limit)) => Some(packets(limit)),
        ("pfifo" | "pfifo_fast" | "noqueue" | "mq" | "", _) => Some(by_interface),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Instant;

    fn sample(at: u64, acks: u64, dropped: u64) -> HostSample {
        HostSample {
            at: Instant::from_nanos(at),
            counters: [("TcpExtDelayedACKs".into(), acks)].into(),
            links: vec![LinkSample {
                index: 2,
                name: "tun0".into(),
                tx_pkts: at,
                txqueuelen_pkts: 10,
                tx_dropped_pkts: dropped,
                qdiscs: vec![QdiscSample {
                    parent: u32::MAX,
                    dropped_pkts: 2 * dropped,
                    ..QdiscSample::default()
                }],
                ..LinkSample::default()
            }],
            listeners: Vec::new(),
            ports: None,
            sysctls: [("net.ipv4.tcp_rmem".into(), "4096 131072 6291456".into())].into(),
        }
    }

    #[test]
    fn counters_and_drops_are_differences() {
        let mut host = HostTimeline::new();
        host.push(sample(10, 5, 1));
        assert_eq!(host.counted("TcpExtDelayedACKs"), None);
        host.push(sample(20, 8, 4));
        host.push(sample(15, 99, 99));
        assert_eq!(host.counted("TcpExtDelayedACKs"), Some(3));
        assert_eq!(host.counted("TcpExtNothing"), None);
        let drops = host.link_drops();
        assert_eq!((drops[0].dropped_pkts(), drops[0].tx_pkts), (6, 10));
        host.push(sample(30, 2, 0));
        assert_eq!(host.counted("TcpExtDelayedACKs"), None, "it went backwards");
        assert_eq!(host.link_drops(), []);
    }

    #[test]
    fn sysctls_are_parsed() {
        let mut host = HostTimeline::new();
        assert_eq!(host.sysctl_triple("net.ipv4.tcp_rmem"), None);
        host.push(sample(10, 5, 1));
        let triple = host.sysctl_triple("net.ipv4.tcp_rmem");
        assert_eq!(triple, Some([4096, 131_072, 6_291_456]));
        assert_eq!(host.sysctl_number("net.ipv4.tcp_rmem"), None);
    }
}
