//! The lines of the list: services, or connections one by one, filtered and sorted.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base::{FlowKey, Netns};
use doctor::Held;
use linux::{Filter, NetnsPlace};

use super::live::Connection;
use crate::commands::diagnose::document::{Direction, Document, FlowRow, VerdictRow};
use crate::commands::diagnose::service;

/// By what a line is known from second to second.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RowKey {
    /// By its name, and where it is.
    Service(Arc<str>, Arc<NetnsPlace>),
    /// By its cookie, and where it is.
    Connection(u64, Arc<NetnsPlace>),
}

/// Unit of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Grouping {
    #[default]
    Services,
    Connections,
}

impl Grouping {
    pub(super) const fn other(self) -> Self {
        match self {
            Self::Services => Self::Connections,
            Self::Connections => Self::Services,
        }
    }
}

/// Sort order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sort {
    /// Findings, then what does something.
    #[default]
    Finding,
    Rate,
    Rtt,
    Name,
}

impl Sort {
    pub(super) const fn next(self) -> Self {
        match self {
            Self::Finding => Self::Rate,
            Self::Rate => Self::Rtt,
            Self::Rtt => Self::Name,
            Self::Name => Self::Finding,
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Finding => "finding",
            Self::Rate => "rate",
            Self::Rtt => "round-trip time",
            Self::Name => "name",
        }
    }
}

/// By what a line is sorted. Rates and times vary from second to second: what has changed by less
/// than a [`Rank::SAME`]th counts as unchanged, so that lines that are about equal stay where they
/// are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Rank {
    /// Share of the time that the finding took, in millionths.
    share_ppm: u64,
    rate_bps: u64,
    /// 0 where it is not known.
    srtt_us: u64,
}

impl Rank {
    const SAME: u64 = 10;

    fn after(self, before: Option<&Self>) -> Self {
        let Some(before) = before else {
            return self;
        };
        let settled = |before: u64, now: u64| match now.abs_diff(before) * Self::SAME < before {
            true => before,
            false => now,
        };
        Self {
            share_ppm: settled(before.share_ppm, self.share_ppm),
            rate_bps: settled(before.rate_bps, self.rate_bps),
            srtt_us: settled(before.srtt_us, self.srtt_us),
        }
    }
}

/// The ranks of the lines that were shown last.
pub(super) type Ranks = BTreeMap<RowKey, Rank>;

/// A line of the list.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) key: RowKey,
    /// The network namespace of all of it.
    pub(super) place: Arc<NetnsPlace>,
    pub(super) name: String,
    /// Alternative for narrow columns.
    pub(super) short_name: Option<String>,
    /// Places in the list of connections.
    pub(super) connections: Vec<usize>,
    /// Connections too short to be among them, in the last answer of the doctor.
    pub(super) short: usize,
    pub(super) rate_bps: u64,
    /// The median, of connections that do something where there are any.
    pub(super) srtt: Option<Duration>,
    pub(super) held: Held,
    /// The place in the doctor's answer of the most important connection.
    pub(super) judged: Option<usize>,
    /// This many have a finding.
    pub(super) with_finding: usize,
}

impl Row {
    pub(super) fn count(&self) -> usize {
        self.connections.len() + self.short
    }
}

/// The doctor's last answer, to be asked by connection.
#[derive(Debug, Default)]
pub(super) struct Answers {
    document: Document,
    /// Places in it, by namespace and cookie.
    of: BTreeMap<Netns, BTreeMap<u64, usize>>,
}

impl Answers {
    pub(super) fn new(document: Document) -> Self {
        let mut of: BTreeMap<Netns, BTreeMap<u64, usize>> = BTreeMap::new();
        for (at, flow) in document.flows.iter().enumerate() {
            match of.get_mut(&flow.netns) {
                Some(known) => {
                    known.insert(flow.cookie, at);
                }
                None => {
                    of.insert(flow.netns.clone(), BTreeMap::from([(flow.cookie, at)]));
                }
            }
        }
        Self { document, of }
    }

    /// The place of what was said of a connection.
    fn place_of(&self, connection: &Connection) -> Option<usize> {
        let of = self.of.get(&connection.place.netns)?;
        of.get(&connection.cookie).copied()
    }

    pub(super) const fn document(&self) -> &Document {
        &self.document
    }

    pub(super) fn flow(&self, at: usize) -> &FlowRow {
        &self.document.flows[at]
    }

    /// The finding to be shown of a connection.
    pub(super) fn finding(&self, at: usize) -> Option<&VerdictRow> {
        let mut verdicts = self.flow(at).verdicts.iter();
        verdicts.find(|verdict| verdict.finding)
    }
}

/// Source of the list.
pub(super) struct Source<'m> {
    pub(super) connections: &'m [Connection],
    pub(super) answers: &'m Answers,
    pub(super) filter: Option<&'m Filter>,
    pub(super) grouping: Grouping,
    pub(super) sort: Sort,
}

impl Source<'_> {
    /// The lines in their order; `ranks` are those of the lines that they replace, then theirs.
    pub(super) fn rows(&self, ranks: &mut Ranks) -> Vec<Row> {
        let mut rows = match self.grouping {
            Grouping::Connections => self.wanted().map(|at| self.connection(at)).collect(),
            Grouping::Services => self.services(),
        };
        let ranked = |row: &Row| (row.key.clone(), self.rank(row).after(ranks.get(&row.key)));
        *ranks = rows.iter().map(ranked).collect();
        self.sort(&mut rows, ranks);
        rows
    }

    fn rank(&self, row: &Row) -> Rank {
        let main = row.judged.and_then(|at| self.answers.flow(at).main());
        let whole = |value: f64| value.round() as u64;
        Rank {
            share_ppm: main.map_or(0, |main| whole(main.share * 1e6)),
            rate_bps: row.rate_bps,
            srtt_us: row.srtt.map_or(0, |srtt| whole(srtt.as_secs_f64() * 1e6)),
        }
    }

    /// Places of the connections that the filter selects.
    fn wanted(&self) -> impl Iterator<Item = usize> {
        let selects = |connection: &Connection| {
            self.filter
                .is_none_or(|filter| filter.matches(&connection.sample, &connection.owners))
        };
        let all = self.connections.iter().enumerate();
        all.filter(move |(_, connection)| selects(connection))
            .map(|(at, _)| at)
    }

    fn connection(&self, at: usize) -> Row {
        let connection = &self.connections[at];
        let FlowKey { local, remote } = connection.key();
        let arrow = match connection.now.direction {
            Direction::Out => '>',
            Direction::In => '<',
        };
        let judged = self.answers.place_of(connection);
        Row {
            key: RowKey::Connection(connection.cookie, Arc::clone(&connection.place)),
            place: Arc::clone(&connection.place),
            name: format!("{local} {arrow} {remote}"),
            short_name: Some(format!(":{} {arrow} {remote}", local.port())),
            connections: vec![at],
            short: 0,
            rate_bps: connection.now.rate_bps,
            srtt: connection.sample.srtt,
            held: connection.now.held,
            judged,
            with_finding: judged.map_or(0, |at| usize::from(self.has_finding(at))),
        }
    }

    fn has_finding(&self, at: usize) -> bool {
        self.answers.flow(at).has_finding()
    }

    fn services(&self) -> Vec<Row> {
        let mut members: BTreeMap<(&Arc<str>, &Arc<NetnsPlace>), Vec<usize>> = BTreeMap::new();
        for at in self.wanted() {
            let Connection { service, place, .. } = &self.connections[at];
            members.entry((service, place)).or_default().push(at);
        }
        let mut rows: BTreeMap<RowKey, Row> = BTreeMap::new();
        for ((name, place), members) in members {
            let key = RowKey::Service(Arc::clone(name), Arc::clone(place));
            rows.insert(key.clone(), self.service(key, (&**name, place), members));
        }
        if self.filter.is_none() {
            self.add_short_ones(&mut rows);
        }
        rows.into_values().collect()
    }

    fn service(
        &self,
        key: RowKey,
        (name, place): (&str, &Arc<NetnsPlace>),
        members: Vec<usize>,
    ) -> Row {
        let all = || members.iter().map(|at| &self.connections[*at]);
        let judged = all().filter_map(|one| self.answers.place_of(one));
        let judged: Vec<usize> = judged.collect();
        let with_finding = judged.iter().filter(|at| self.has_finding(**at));
        Row {
            key,
            place: Arc::clone(place),
            name: name.into(),
            short_name: None,
            short: 0,
            rate_bps: all().map(|one| one.now.rate_bps).sum(),
            srtt: median_srtt(&all().collect::<Vec<_>>()),
            held: held(all()),
            // They are in the order of their importance.
            judged: judged.iter().min().copied(),
            with_finding: with_finding.count(),
            connections: members,
        }
    }

    /// Connections of services that are over before their second is: of them the doctor tells.
    fn add_short_ones(&self, rows: &mut BTreeMap<RowKey, Row>) {
        let flows = self.answers.document.flows.iter().enumerate();
        for (at, flow) in flows.filter(|(_, flow)| flow.connections > 1) {
            let name = service::name(flow.place, flow.command.as_deref());
            let place = Arc::new(NetnsPlace {
                netns: flow.netns.clone(),
                container: flow.container.clone(),
            });
            let key = RowKey::Service(name.as_str().into(), Arc::clone(&place));
            let row = rows.entry(key.clone()).or_insert_with(|| Row {
                key,
                place,
                name,
                short_name: None,
                connections: Vec::new(),
                short: 0,
                rate_bps: 0,
                srtt: flow.srtt_us.map(Duration::from_micros),
                held: Held::Unclear,
                judged: None,
                with_finding: 0,
            });
            row.short += flow.connections;
            row.rate_bps = row.rate_bps.max(flow.rate_bps.unwrap_or(0));
            row.judged = row.judged.map_or(Some(at), |known| Some(known.min(at)));
            if flow.has_finding() {
                row.with_finding += flow.connections;
            }
        }
    }

    fn sort(&self, rows: &mut [Row], ranks: &Ranks) {
        let rank = |row: &Row| ranks.get(&row.key).copied().unwrap_or_default();
        let importance = |row: &Row| {
            let main = row.judged.and_then(|at| self.answers.flow(at).main());
            let is_main = main.is_some_and(|main| main.finding);
            match row.with_finding > 0 {
                true => (false, !is_main, Reverse(rank(row).share_ppm)),
                false => (true, row.held == Held::Idle, Reverse(0)),
            }
        };
        rows.sort_by(|a, b| {
            let by_rate = || rank(b).rate_bps.cmp(&rank(a).rate_bps);
            let by_name = || a.name.cmp(&b.name);
            match self.sort {
                Sort::Finding => importance(a).cmp(&importance(b)).then_with(by_rate),
                Sort::Rate => by_rate(),
                Sort::Rtt => rank(b).srtt_us.cmp(&rank(a).srtt_us),
                Sort::Name => by_name(),
            }
            .then_with(by_name)
            .then_with(|| a.key.cmp(&b.key))
        });
    }
}

/// The limit of most active connections; idle if there are none.
pub(super) fn held<'c>(connections: impl Iterator<Item = &'c Connection>) -> Held {
    let mut shares: BTreeMap<Held, f64> = BTreeMap::new();
    for connection in connections {
        let now = connection.now;
        if now.held != Held::Idle {
            *shares.entry(now.held).or_default() += now.share;
        }
    }
    let most = shares.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
    most.map_or(Held::Idle, |(held, _)| held)
}

fn median_srtt(connections: &[&Connection]) -> Option<Duration> {
    let of = |is_wanted: fn(&Connection) -> bool| {
        let known = connections.iter().filter(|one| is_wanted(one));
        let mut known: Vec<Duration> = known.filter_map(|one| one.sample.srtt).collect();
        known.sort_unstable();
        known.get(known.len() / 2).copied()
    };
    of(|one| one.now.held != Held::Idle).or_else(|| of(|_| true))
}
