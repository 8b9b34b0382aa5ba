//! From what was watched to an answer: which sockets are the two ends of one connection, which
//! flows belong together, and what the doctor says of each.

use std::collections::BTreeMap;
use std::net::IpAddr;

use base::{FlowKey, FlowSample, Netns};
use doctor::{HostTimeline, Observation, Timeline, Verdict};
use linux::{Filter, Watched, WatchedFlow};

use super::document::{Document, FlowRow, VerdictRow};
use crate::interrupt;
use crate::targets::{End, Ends};

/// Flows of a pair of hosts that are handed to the doctor beside the one in question, at most.
const SIBLINGS_MAX: usize = 64;
/// Connections that ended with fewer samples are shown as one, where they are of one service.
const SHORT_SAMPLES: usize = 20;

/// Everything that was seen in one namespace.
pub(crate) struct Seen<'w> {
    netns: &'w Netns,
    /// Another namespace that was watched at the same time, where the other ends of its flows are.
    elsewhere: Option<&'w Seen<'w>>,
    flows: Vec<Flow<'w>>,
    by_key: BTreeMap<FlowKey, usize>,
    by_hosts: BTreeMap<(IpAddr, IpAddr), Vec<usize>>,
    host: HostTimeline,
    /// The interface that dropped most, if any did.
    dropping_link: Option<String>,
}

struct Flow<'w> {
    watched: &'w WatchedFlow,
    timeline: Timeline,
}

/// Asks the doctor about each flow that the filter selects. A connection with both ends here is
/// answered for once.
pub(crate) fn diagnose(watched: &Watched, netns: &Netns, filter: &Filter) -> Document {
    let seen = Seen::new(watched, netns);
    let flows = seen.rows(filter);
    let host = seen.host_rows();
    Document {
        duration_s: watched.ended.since(watched.began).as_secs_f64(),
        interrupted: interrupt::stopped(),
        process_ended: watched.process_ended,
        findings: flows.iter().filter(|flow| flow.has_finding()).count() + host.len(),
        host,
        unseen_processes: watched.unseen_processes,
        flows_left_out: watched.flows_left_out,
        flows,
    }
}

/// Findings first, then flows that do something; within them by share.
fn rank(flow: &FlowRow) -> f64 {
    let share = flow.main().map_or(0.0, |verdict| verdict.share);
    match flow.main() {
        Some(verdict) if verdict.finding => 30.0 + share,
        _ if flow.has_finding() => 20.0 + share,
        _ if flow.idle => share,
        _ => 10.0 + share,
    }
}

impl<'w> Seen<'w> {
    /// The same flows, whose other ends are in `elsewhere`.
    pub(crate) const fn with_other_ends(mut self, elsewhere: &'w Self) -> Self {
        self.elsewhere = Some(elsewhere);
        self
    }

    /// The doctor's answers for the flows that the filter selects, the most important first.
    pub(crate) fn rows(&self, filter: &Filter) -> Vec<FlowRow> {
        let mut flows: Vec<FlowRow> = Vec::new();
        for (index, connections) in self.selected(filter) {
            let mut row = self.row(index);
            row.connections = connections;
            flows.push(row);
        }
        flows.sort_by(|a, b| {
            rank(b)
                .total_cmp(&rank(a))
                .then(b.rate_bps.cmp(&a.rate_bps))
        });
        flows
    }

    pub(crate) fn new(watched: &'w Watched, netns: &'w Netns) -> Self {
        let mut host = HostTimeline::new();
        for sample in &watched.hosts {
            host.push(sample.clone());
        }
        let dropping_link = host
            .link_drops()
            .into_iter()
            .find(|drops| drops.dropped_pkts() > 0)
            .map(|drops| drops.name);
        let mut seen = Self {
            netns,
            elsewhere: None,
            flows: Vec::new(),
            by_key: BTreeMap::new(),
            by_hosts: BTreeMap::new(),
            host,
            dropping_link,
        };
        for watched in &watched.flows {
            let mut timeline = Timeline::new();
            for sample in &watched.samples {
                timeline.push(sample.clone());
            }
            let (key, index) = (watched.key, seen.flows.len());
            seen.by_key.insert(key, index);
            seen.by_hosts
                .entry((key.local.ip(), key.remote.ip()))
                .or_default()
                .push(index);
            seen.flows.push(Flow { watched, timeline });
        }
        seen
    }

    /// What is wrong with the host as a whole. No change follows from here.
    fn host_rows(&self) -> Vec<VerdictRow> {
        let verdicts = doctor::diagnose_host(&self.host);
        verdicts.iter().map(VerdictRow::of_host).collect()
    }

    /// The flows to answer for, each with the number of connections that it stands for.
    fn selected(&self, filter: &Filter) -> Vec<(usize, usize)> {
        let matches = |index: usize| {
            let WatchedFlow {
                samples, owners, ..
            } = self.flows[index].watched;
            samples
                .last()
                .is_some_and(|sample| filter.matches(sample, owners))
        };
        let mut groups: BTreeMap<GroupKey, (usize, usize)> = BTreeMap::new();
        for index in (0..self.flows.len()).filter(|&index| matches(index)) {
            if self
                .partner(index)
                .is_some_and(|other| matches(other) && self.sends_less(index, other))
            {
                continue;
            }
            let entry = groups.entry(self.group_of(index)).or_insert((index, 0));
            entry.1 += 1;
            if self.flows[index].timeline.len() > self.flows[entry.0].timeline.len() {
                entry.0 = index;
            }
        }
        groups.into_values().collect()
    }

    /// The socket at the other end, where it is in the same namespace.
    fn partner(&self, index: usize) -> Option<usize> {
        let other = *self.by_key.get(&self.flows[index].watched.key.reversed())?;
        (other != index).then_some(other)
    }

    /// Of the two ends the one that sends more stands for the connection; of equals the first.
    fn sends_less(&self, index: usize, other: usize) -> bool {
        let sent = |index: usize| {
            self.flows[index]
                .timeline
                .counted(|sample| sample.bytes_acked)
                .unwrap_or(0)
        };
        (sent(index), other) < (sent(other), index)
    }

    /// Short connections of one process to one service belong together; every other flow stands
    /// alone.
    fn group_of(&self, index: usize) -> GroupKey {
        let flow = &self.flows[index];
        let FlowKey { local, remote } = flow.watched.key;
        if !flow.watched.ended || flow.timeline.len() >= SHORT_SAMPLES {
            return GroupKey::Alone(flow.watched.cookie);
        }
        // The port that the kernel chose is the larger one, nearly always.
        let serves = local.port() < remote.port();
        GroupKey::Short {
            hosts: (local.ip(), remote.ip()),
            service_port: local.port().min(remote.port()),
            serves,
            pid: pid_of(flow.watched),
        }
    }

    /// Other flows of the same process (where that is known) between the same two hosts, the latest
    /// first.
    fn siblings(&self, index: usize) -> Vec<&Timeline> {
        let key = self.flows[index].watched.key;
        let pid = pid_of(self.flows[index].watched);
        let between = self.by_hosts.get(&(key.local.ip(), key.remote.ip()));
        between
            .into_iter()
            .flatten()
            .rev()
            .filter(|&&other| other != index)
            .map(|&other| &self.flows[other])
            .filter(|other| {
                let WatchedFlow { key: theirs, .. } = other.watched;
                // On one machine, the ends of other connections at the other side are in the list.
                theirs.local.port() != key.remote.port()
                    && theirs.remote.port() != key.local.port()
                    && (pid.is_none() || pid_of(other.watched) == pid)
            })
            .take(SIBLINGS_MAX)
            .map(|other| &other.timeline)
            .collect()
    }

    /// The other end of a flow, here or elsewhere, and the namespace that it is in.
    fn other_end(&self, index: usize) -> Option<(&Self, &Flow<'w>)> {
        if let Some(other) = self.partner(index) {
            return Some((self, &self.flows[other]));
        }
        let elsewhere = self.elsewhere?;
        let other = *elsewhere
            .by_key
            .get(&self.flows[index].watched.key.reversed())?;
        Some((elsewhere, &elsewhere.flows[other]))
    }

    /// Whether other connections of the same process carry data, apart from this one's other end.
    fn shares_process(&self, index: usize) -> bool {
        let Some(pid) = pid_of(self.flows[index].watched) else {
            return false;
        };
        let partner = self.partner(index);
        let carries = |flow: &Flow<'_>| {
            let moved =
                |read: fn(&FlowSample) -> Option<u64>| flow.timeline.counted(read) > Some(0);
            moved(|s| s.bytes_acked) || moved(|s| s.bytes_received)
        };
        let mut others = self.flows.iter().enumerate().filter(|&(other, flow)| {
            other != index && Some(other) != partner && pid_of(flow.watched) == Some(pid)
        });
        others.any(|(_, flow)| carries(flow))
    }

    fn row(&self, index: usize) -> FlowRow {
        let flow = &self.flows[index];
        let partner = self.other_end(index);
        let siblings = self.siblings(index);
        let report = doctor::diagnose(&Observation {
            local: &flow.timeline,
            remote: partner.map(|(_, partner)| &partner.timeline),
            siblings: &siblings,
            host: Some(&self.host),
            remote_host: partner.map(|(seen, _)| &seen.host),
            interface: flow.watched.interface.as_deref(),
            remote_interface: partner.and_then(|(_, other)| other.watched.interface.as_deref()),
            shares_process: self.shares_process(index),
        });
        let ends = Ends {
            local: self.end(flow),
            remote: partner.map(|(seen, partner)| seen.end(partner)),
            beside: report
                .verdicts
                .iter()
                .flat_map(|verdict| self.ends_beside(verdict))
                .collect(),
        };
        let mut row = FlowRow::of(&flow.timeline, &ends, flow.watched);
        row.verdicts = report
            .verdicts
            .iter()
            .map(|verdict| VerdictRow::of(verdict, &ends))
            .collect();
        row.unknown = report.unknown;
        row
    }

    /// The ends of other connections that a verdict wants to change.
    fn ends_beside(&self, verdict: &Verdict) -> Vec<End> {
        let keys = verdict
            .proposals
            .iter()
            .filter_map(|proposal| proposal.beside);
        keys.filter_map(|key| {
            [Some(self), self.elsewhere]
                .into_iter()
                .flatten()
                .find_map(|seen| {
                    seen.by_key
                        .get(&key)
                        .map(|&index| seen.end(&seen.flows[index]))
                })
        })
        .collect()
    }

    fn end(&self, flow: &Flow<'_>) -> End {
        End {
            netns: self.netns.clone(),
            key: flow.watched.key,
            cookie: Some(flow.watched.cookie),
            pid: pid_of(flow.watched),
            link: flow
                .watched
                .interface
                .clone()
                .or_else(|| self.dropping_link.clone()),
        }
    }
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum GroupKey {
    /// By cookie.
    Alone(u64),
    Short {
        hosts: (IpAddr, IpAddr),
        service_port: u16,
        serves: bool,
        pid: Option<u32>,
    },
}

fn pid_of(flow: &WatchedFlow) -> Option<u32> {
    flow.owners.first().map(linux::SocketOwner::pid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::time::Duration;

    use base::{HostSample, Instant};
    use linux::{ProcessInfo, SocketOwner};

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    /// A flow of `pid` with `looks` samples, each 1 KB of payload after the other.
    fn flow(ends: [&str; 2], pid: u32, looks: u64) -> WatchedFlow {
        let [local, remote] = ends.map(|end| end.parse().unwrap());
        let key = FlowKey { local, remote };
        let samples = (0..looks)
            .map(|look| FlowSample {
                bytes_acked: Some(look * 1000),
                bytes_sent: Some(look * 1000),
                ..FlowSample::empty(at(look * 10), key)
            })
            .collect();
        let process = ProcessInfo {
            pid,
            command: "test".into(),
            cmdline: String::new(),
            cgroup: None,
        };
        WatchedFlow {
            key,
            cookie: u64::from(local.port()) << 16 | u64::from(remote.port()),
            owners: vec![SocketOwner {
                fd: 3,
                process: Arc::new(process),
            }],
            samples,
            ended: false,
            interface: None,
            options_error: None,
        }
    }

    fn watched(flows: Vec<WatchedFlow>) -> Watched {
        let host = |millis| HostSample {
            at: at(millis),
            ..HostSample::default()
        };
        Watched {
            flows,
            hosts: vec![host(0), host(1000)],
            began: at(0),
            ended: at(1000),
            stopped: false,
            process_ended: false,
            flows_left_out: 0,
            unseen_processes: 0,
        }
    }

    fn shown(watched: &Watched, filter: &str) -> Vec<String> {
        let document = diagnose(watched, &Netns::Own, &filter.parse().unwrap());
        let row = |flow: &FlowRow| {
            format!(
                "{} {} x{}",
                flow.local, flow.both_ends_seen, flow.connections
            )
        };
        document.flows.iter().map(row).collect()
    }

    const CLIENT: &str = "127.0.0.1:50000";
    const SERVER: &str = "127.0.0.1:80";

    #[test]
    fn a_connection_with_both_ends_here_is_answered_once_by_its_sender() {
        let quiet = flow([SERVER, CLIENT], 2, 1);
        let both = watched(vec![quiet, flow([CLIENT, SERVER], 1, 100)]);
        assert_eq!(shown(&both, ""), ["127.0.0.1:50000 true x1"]);
        assert_eq!(
            shown(&both, "pid = 2"),
            ["127.0.0.1:80 true x1"],
            "unless it was asked for"
        );
        assert_eq!(shown(&both, "pid = 3"), [""; 0]);
        let alone = watched(vec![flow([CLIENT, SERVER], 1, 100)]);
        assert_eq!(shown(&alone, ""), ["127.0.0.1:50000 false x1"]);
    }

    #[test]
    fn short_connections_to_one_service_are_one_row() {
        let short = |port: u32, pid| {
            let local = format!("10.0.0.1:{port}");
            WatchedFlow {
                ended: true,
                ..flow([&local, "10.0.0.2:443"], pid, 3)
            }
        };
        let mut flows: Vec<WatchedFlow> = (40_000..40_005).map(|port| short(port, 1)).collect();
        flows.push(short(40_010, 2));
        flows.push(flow(["10.0.0.1:40011", "10.0.0.2:443"], 1, 100));
        let mut rows = shown(&watched(flows), "");
        rows.sort();
        assert_eq!(
            rows,
            [
                "10.0.0.1:40000 false x5",
                "10.0.0.1:40010 false x1",
                "10.0.0.1:40011 false x1"
            ]
        );
    }

    #[test]
    fn siblings_are_flows_of_the_same_process_on_the_same_side() {
        let watched = watched(vec![
            flow([CLIENT, SERVER], 1, 100),
            flow([SERVER, CLIENT], 1, 100),
            flow(["127.0.0.1:50001", SERVER], 1, 100),
            flow([SERVER, "127.0.0.1:50001"], 1, 100),
            flow(["127.0.0.1:50002", SERVER], 2, 100),
            flow(["127.0.0.1:50003", "127.0.0.2:80"], 1, 100),
        ]);
        let seen = Seen::new(&watched, &Netns::Own);
        let siblings = seen.siblings(0);
        let keys: Vec<FlowKey> = siblings
            .iter()
            .filter_map(|timeline| timeline.key())
            .collect();
        assert_eq!(keys, [watched.flows[2].key]);
    }
}
