//! What the flows of a host share, over an interval: counters, drops, sysctls.

use std::collections::VecDeque;

use base::{HostSample, LinkSample};

use crate::rules::thresholds::SAMPLES_KEPT;

/// The samples of one network namespace in the order of time, a bounded number of them.
#[derive(Clone, Debug, Default)]
pub struct HostTimeline {
    samples: VecDeque<HostSample>,
}

/// What an interface and its queues threw away in the observed interval.
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
    /// Nothing seen yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes one more sample; one that is not later than the last is left out.
    pub fn push(&mut self, sample: HostSample) {
        if self.samples.back().is_some_and(|last| sample.at <= last.at) {
            return;
        }
        if self.samples.len() == SAMPLES_KEPT {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
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

    /// What each interface dropped on the way out, the worst first.
    #[must_use]
    pub fn link_drops(&self) -> Vec<LinkDrops> {
        let Some((first, last)) = self.ends() else {
            return Vec::new();
        };
        let mut found: Vec<LinkDrops> = last
            .links
            .iter()
            .filter_map(|link| {
                let before = first.links.iter().find(|other| other.index == link.index)?;
                drops_between(before, link)
            })
            .collect();
        found.sort_by_key(|drops| core::cmp::Reverse(drops.dropped_pkts()));
        found
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
    Some(LinkDrops {
        name: after.name.clone(),
        tx_dropped_pkts: after.tx_dropped_pkts.checked_sub(before.tx_dropped_pkts)?,
        qdisc_dropped_pkts: qdisc_dropped(after).checked_sub(qdisc_dropped(before))?,
        tx_pkts: after.tx_pkts.checked_sub(before.tx_pkts)?,
        txqueuelen_pkts: after.txqueuelen_pkts,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Instant, QdiscSample};

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
