//! Connections that belong together: those of one program to one place, as totals in the document
//! and as rows on the screen.

use std::collections::BTreeMap;

use base::Netns;
use doctor::Place;
use serde::Serialize;
use tailor::rate_of_rows;

use super::document::{Direction, FlowRow, VerdictRow};

/// Connections of one program to one port here, or to one port of another host.
#[derive(Debug, Serialize)]
pub(crate) struct Service {
    netns: Netns,
    container: Option<String>,
    /// The port here that clients connect to; null where the program here is the client.
    port: Option<u16>,
    /// The address that the program here connected to.
    remote: Option<std::net::SocketAddr>,
    command: Option<String>,
    #[serde(flatten)]
    counts: Counts,
    /// Payload per second in the direction that carries more, of all connections, in bit/s, over
    /// the time in which any of them was there.
    rate_bps: u64,
    /// Main answers, each with the number of its connections; `idle` and `unknown` are answers too.
    answers: BTreeMap<&'static str, usize>,
}

/// Connections by what is said of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Counts {
    pub(crate) connections: usize,
    /// With a finding.
    pub(crate) with_finding: usize,
    /// Connections with a limit that needs no improvement, as far as this end shows.
    pub(crate) healthy: usize,
    /// Those of them that the window of the other end limits, where the cause can be seen.
    pub(crate) peer_window: usize,
    /// Connections whose limit could not be determined.
    pub(crate) unclear: usize,
    pub(crate) idle: usize,
}

/// Answer on a connection, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Answer {
    Finding,
    Healthy,
    Unclear,
    Idle,
}

impl Answer {
    pub(crate) fn of(flow: &FlowRow) -> Self {
        if flow.has_finding() {
            Self::Finding
        } else if flow.idle {
            Self::Idle
        } else if flow.verdicts.is_empty() {
            Self::Unclear
        } else {
            Self::Healthy
        }
    }
}

/// The id of a connection's main verdict, or what stands in place of one.
pub(crate) fn answer_id(flow: &FlowRow) -> &'static str {
    match flow.main() {
        Some(main) => main.id,
        None if flow.idle => "idle",
        None => "unknown",
    }
}

impl Counts {
    pub(crate) fn of<'f>(flows: impl IntoIterator<Item = &'f FlowRow>) -> Self {
        let mut counts = Self::default();
        for flow in flows {
            counts.connections += flow.connections;
            let answer = Answer::of(flow);
            if answer == Answer::Healthy && answer_id(flow) == "peer-window" {
                counts.peer_window += flow.connections;
            }
            *match answer {
                Answer::Finding => &mut counts.with_finding,
                Answer::Healthy => &mut counts.healthy,
                Answer::Unclear => &mut counts.unclear,
                Answer::Idle => &mut counts.idle,
            } += flow.connections;
        }
        counts
    }
}

/// The service that a connection belongs to.
type Key<'f> = (&'f Netns, Option<&'f str>, Place, Option<&'f str>);

fn key(flow: &FlowRow) -> Key<'_> {
    (
        &flow.netns,
        flow.container.as_deref(),
        flow.place,
        flow.command.as_deref(),
    )
}

/// Name of a service: a program and the port that it has or connects to.
pub(crate) fn name(place: Place, command: Option<&str>) -> String {
    let command = command.unwrap_or("?");
    match place {
        Place::Listening(port) => format!("{command}:{port}"),
        Place::Remote(remote) => format!("{command} to :{}", remote.port()),
    }
}

/// All services, that of the most important connection first.
pub(crate) fn services(flows: &[FlowRow]) -> Vec<Service> {
    let together = together(flows.iter(), key);
    let service = |flows: &Vec<&FlowRow>| {
        let first = flows[0];
        let mut answers = BTreeMap::new();
        for flow in flows {
            *answers.entry(answer_id(flow)).or_insert(0) += flow.connections;
        }
        let (port, remote) = match first.place {
            Place::Listening(port) => (Some(port), None),
            Place::Remote(remote) => (None, Some(remote)),
        };
        Service {
            netns: first.netns.clone(),
            container: first.container.clone(),
            port,
            remote,
            command: first.command.clone(),
            counts: Counts::of(flows.iter().copied()),
            rate_bps: rate_of_rows(flows).unwrap_or(0),
            answers,
        }
    };
    together.iter().map(service).collect()
}

/// Connections of a service of which the same is said: a row on the screen.
pub(crate) struct Row<'d> {
    /// The most important one first.
    flows: Vec<&'d FlowRow>,
}

impl<'d> Row<'d> {
    /// One row for each connection.
    pub(crate) fn each(flows: &'d [FlowRow]) -> Vec<Self> {
        flows
            .iter()
            .map(|flow| Self { flows: vec![flow] })
            .collect()
    }

    /// One row for all connections of a service of which the same is said.
    pub(crate) fn by_service(flows: &'d [FlowRow]) -> Vec<Self> {
        let said = |flow: &'d FlowRow| {
            let findings = flow.verdicts.iter().filter(|verdict| verdict.finding);
            let findings: Vec<&str> = findings.map(|verdict| verdict.id).collect();
            (
                key(flow),
                Answer::of(flow),
                answer_id(flow),
                findings,
                flow.unknown.as_deref(),
                (flow.direction == Direction::In, flow.upper.as_deref()),
            )
        };
        let together = together(flows.iter(), said).into_iter();
        together.map(|flows| Self { flows }).collect()
    }

    /// The connection that represents all.
    pub(crate) fn first(&self) -> &'d FlowRow {
        self.flows[0]
    }

    /// All of them, as they are answered for.
    pub(crate) fn flows(&self) -> &[&'d FlowRow] {
        &self.flows
    }

    /// The number of connections.
    pub(crate) fn connections(&self) -> usize {
        self.flows.iter().map(|flow| flow.connections).sum()
    }

    /// The processes that have them.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let mut all: Vec<u32> = self.flows.iter().filter_map(|flow| flow.pid).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Payload per second of all of them, in bit/s.
    pub(crate) fn rate_bps(&self) -> Option<u64> {
        rate_of_rows(&self.flows)
    }

    /// The smallest round-trip time of all, in microseconds.
    pub(crate) fn min_rtt_us(&self) -> Option<u64> {
        self.flows.iter().filter_map(|flow| flow.min_rtt_us).min()
    }

    /// Share of the time for which the main answer holds: the mean over the connections.
    pub(crate) fn share(&self) -> f64 {
        let weighted = |flow: &&FlowRow| {
            flow.main()
                .map_or(0.0, |main| main.share * flow.connections as f64)
        };
        let sum: f64 = self.flows.iter().map(weighted).sum();
        sum / self.connections() as f64
    }

    /// How sure the main answer is: as it is for the connection with the least.
    pub(crate) fn main(&self) -> Option<&'d VerdictRow> {
        let mains = self.flows.iter().filter_map(|flow| flow.main());
        mains.min_by_key(|main| main.confidence)
    }

    /// The same change at other sockets than that of the first connection: this many.
    pub(crate) fn changes_elsewhere(&self, verdict: &VerdictRow) -> usize {
        let target =
            |verdict: &VerdictRow| Some(verdict.change.as_ref()?.target.clone()?.to_string());
        let of_id = |flow: &&&FlowRow| {
            let same = flow.verdicts.iter().find(|other| other.id == verdict.id);
            same.and_then(target)
        };
        let mut targets: Vec<String> = self.flows.iter().filter_map(|flow| of_id(&flow)).collect();
        targets.sort_unstable();
        targets.dedup();
        targets.len().saturating_sub(1)
    }
}

/// Groups items with equal keys; groups and their members stay in order of arrival.
fn together<'f, K: Ord>(
    flows: impl Iterator<Item = &'f FlowRow>,
    key: impl Fn(&'f FlowRow) -> K,
) -> Vec<Vec<&'f FlowRow>> {
    let mut groups: Vec<Vec<&FlowRow>> = Vec::new();
    let mut places: BTreeMap<K, usize> = BTreeMap::new();
    for flow in flows {
        let place = *places.entry(key(flow)).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[place].push(flow);
    }
    groups
}
