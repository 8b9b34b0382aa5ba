//! Cases of a recording: which sockets are the two ends of one connection, which connections belong
//! together, and what is known around each.

mod place;
mod timelines;

use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use base::{FlowKey, Instant, TcpState};

use self::timelines::Timelines;
pub(crate) use self::timelines::timeline_of;
use crate::facts::Facts;
use crate::host_timeline::HostTimeline;
use crate::observation::{Observation, Report, diagnose};
use crate::recording::{Recording, Track};
use crate::rules::thresholds::MIN_SAMPLES;
use crate::timeline::Timeline;
use crate::verdict::Verdict;
pub use place::{Place, Services};

/// Most siblings of a connection between a pair of hosts that are considered, of open ones and of
/// ended ones each.
const SIBLINGS_MAX: usize = 64;
/// Connections that were seen for a smaller share of the time came or went.
const SHORT_SHARE: f64 = 0.6;
/// ... unless they were seen for this long, as in a usual watch.
const LONG_ENOUGH: Duration = Duration::from_secs(5);
/// Connections of a service that are asked whether they agree with the one that was seen longest.
const ALIKE_MAX: usize = 8;

/// The connections of one recording, ready to be asked about.
#[derive(Clone, Debug)]
pub struct Cases<'r> {
    tracks: &'r [Track],
    /// One for each track.
    facts: Vec<Facts>,
    timelines: Timelines,
    by_key: BTreeMap<ByPorts, usize>,
    by_hosts: BTreeMap<(IpAddr, IpAddr), Between>,
    /// For each process, the first of its connections that carry data, at most three: enough to
    /// find one that is neither a given connection nor its other end.
    carrying: BTreeMap<u32, Vec<usize>>,
    /// Between two hosts the first of the connections on which segments arrive, as many.
    hearing: BTreeMap<(IpAddr, IpAddr), Vec<usize>>,
    host: HostTimeline,
    services: Services,
    /// How long was recorded.
    whole: Duration,
    /// When the connections that were open at first were sampled.
    first_look: Option<Instant>,
    /// Recordings of the same time from elsewhere, which may hold the other ends.
    elsewhere: Option<&'r Cases<'r>>,
    /// The latest result.
    beside: RefCell<Option<Arc<Beside>>>,
}

/// The two ends in the order of their ports, which distinguish nearly all connections of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ByPorts(FlowKey);

impl Ord for ByPorts {
    fn cmp(&self, other: &Self) -> Ordering {
        let ports = |key: &FlowKey| (key.local.port(), key.remote.port());
        let by_ports = ports(&self.0).cmp(&ports(&other.0));
        by_ports.then_with(|| self.0.cmp(&other.0))
    }
}

impl PartialOrd for ByPorts {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Connections between two hosts that may be regarded beside one of a certain process and service.
#[derive(Debug)]
struct Beside {
    hosts: (IpAddr, IpAddr),
    pid: Option<u32>,
    /// What they are of, whichever process holds them.
    service: Option<OfService>,
    /// None was left out for its ports, so that another connection may use the list, too.
    serves_others: bool,
    /// The latest first: one more than are considered, since the connection itself is not.
    open: Vec<Sibling>,
    ended: Vec<Sibling>,
}

/// A connection, by its place among all.
#[derive(Debug)]
struct Sibling {
    index: usize,
    key: FlowKey,
    timeline: Arc<Timeline>,
}

/// The port here that accepted a connection, or the place that one was opened to, and by which
/// program: a server may have a process for each connection, and so may a script that starts a
/// client for each.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OfService {
    place: Place,
    command: Option<String>,
}

impl Beside {
    fn serves(&self, track: &Track, service: Option<&OfService>) -> bool {
        let hosts = (track.key.local.ip(), track.key.remote.ip());
        let mut siblings = self.open.iter().chain(&self.ended);
        self.serves_others
            && (self.hosts, self.pid) == (hosts, track.pid())
            && self.service.as_ref() == service
            && siblings.all(|sibling| is_beside(track.key, sibling.key))
    }

    /// All but the one at this place.
    fn but(&self, index: usize) -> Vec<&Timeline> {
        let mut chosen = Vec::with_capacity(self.open.len() + self.ended.len());
        for all in [&self.open, &self.ended] {
            let others = all.iter().filter(|sibling| sibling.index != index);
            let others = others.take(SIBLINGS_MAX);
            chosen.extend(others.map(|sibling| &*sibling.timeline));
        }
        chosen
    }
}

/// On one machine, the ends of other connections at the other side are in the list, too.
fn is_beside(key: FlowKey, other: FlowKey) -> bool {
    other.local.port() != key.remote.port() && other.remote.port() != key.local.port()
}

/// The connections between two hosts, in the order in which they appeared.
#[derive(Clone, Debug, Default)]
struct Between {
    open: Vec<usize>,
    ended: Vec<usize>,
}

/// One connection to diagnose, with all that is known around it.
#[derive(Clone, Debug)]
pub struct Case<'c, 'r> {
    cases: &'c Cases<'r>,
    index: usize,
    /// All that it stands for, itself included.
    members: Vec<usize>,
}

impl<'r> Cases<'r> {
    /// Cases of `recording`.
    #[must_use]
    pub fn of(recording: &'r Recording) -> Self {
        let mut host = HostTimeline::new();
        for sample in &recording.hosts {
            host.push(sample.clone());
        }
        let mut cases = Self {
            tracks: &recording.flows,
            facts: Vec::with_capacity(recording.flows.len()),
            timelines: Timelines::default(),
            by_key: BTreeMap::new(),
            by_hosts: BTreeMap::new(),
            carrying: BTreeMap::new(),
            hearing: BTreeMap::new(),
            host,
            services: Services::of(recording),
            whole: recording.ended.since(recording.began),
            first_look: recording.first_look(),
            elsewhere: None,
            beside: RefCell::new(None),
        };
        for (index, track) in recording.flows.iter().enumerate() {
            let facts = Facts::of(&track.samples);
            let hosts = (track.key.local.ip(), track.key.remote.ip());
            if let Some(pid) = track.pid().filter(|_| facts.carries) {
                note(cases.carrying.entry(pid).or_default(), index);
            }
            if facts.hears {
                note(cases.hearing.entry(hosts).or_default(), index);
            }
            cases.facts.push(facts);
            cases.by_key.insert(ByPorts(track.key), index);
            let between = cases.by_hosts.entry(hosts).or_default();
            match track.ended {
                true => between.ended.push(index),
                false => between.open.push(index),
            }
        }
        cases
    }

    /// Cases of `recording`, whose other ends may be in `elsewhere`.
    #[must_use]
    pub const fn with_other_ends(mut self, elsewhere: &'r Self) -> Self {
        self.elsewhere = Some(elsewhere);
        self
    }

    /// The host that the connections share.
    #[must_use]
    pub const fn host(&self) -> &HostTimeline {
        &self.host
    }

    /// The end of a connection that a service has.
    #[must_use]
    pub fn place(&self, key: FlowKey) -> Place {
        self.services.place(key)
    }

    /// How long was recorded.
    #[must_use]
    pub const fn whole(&self) -> Duration {
        self.whole
    }

    /// The connections to diagnose, of those that are `wanted`. One with both ends here is
    /// diagnosed once, from the end that sends more; connections of one service that came or went
    /// are one case.
    pub fn select(&self, wanted: impl Fn(&Track) -> bool) -> Vec<Case<'_, 'r>> {
        let mut groups: BTreeMap<GroupKey, Case<'_, 'r>> = BTreeMap::new();
        for index in 0..self.tracks.len() {
            let seen_there = self
                .partner(index)
                .is_some_and(|other| wanted(&self.tracks[other]) && self.sends_less(index, other));
            if !wanted(&self.tracks[index]) || seen_there {
                continue;
            }
            let case = groups.entry(self.group_of(index)).or_insert(Case {
                cases: self,
                index,
                members: Vec::new(),
            });
            case.add(index);
        }
        join_ownerless(&mut groups);
        groups.into_values().collect()
    }

    /// The connection that is `key` here or elsewhere, and the cases that it is in.
    #[must_use]
    pub fn find(&self, key: FlowKey) -> Option<(&Self, &'r Track)> {
        let here = self.by_key.get(&ByPorts(key));
        if let Some(&index) = here {
            return Some((self, &self.tracks[index]));
        }
        let elsewhere = self.elsewhere?;
        let &index = elsewhere.by_key.get(&ByPorts(key))?;
        Some((elsewhere, &elsewhere.tracks[index]))
    }

    /// The socket at the other end, where it is in the same namespace.
    fn partner(&self, index: usize) -> Option<usize> {
        let key = self.tracks[index].key.reversed();
        let other = *self.by_key.get(&ByPorts(key))?;
        (other != index).then_some(other)
    }

    /// Whether the other end stands for the connection: the one that sends more, or the first of
    /// equals.
    fn sends_less(&self, index: usize, other: usize) -> bool {
        let sent = |index: usize| self.facts[index].moved_bytes.0.unwrap_or(0);
        (sent(index), other) < (sent(other), index)
    }

    /// Connections of one service that came or went while it was recorded belong together; every
    /// other one stands alone.
    fn group_of(&self, index: usize) -> GroupKey {
        let track = &self.tracks[index];
        if !self.is_short(index) {
            return GroupKey::Alone(track.cookie, index);
        }
        if is_unanswered(track) {
            return GroupKey::Unanswered(self.services.place(track.key), track.pid());
        }
        match self.services.place(track.key) {
            // They belong together without a known process, which connections that ended early do
            // not show.
            place @ Place::Listening(_) => GroupKey::Short(place, None),
            place @ Place::Remote(_) => GroupKey::Short(place, track.pid()),
        }
    }

    /// Whether it was there for a part of the time only.
    fn is_short(&self, index: usize) -> bool {
        let (track, facts) = (&self.tracks[index], &self.facts[index]);
        let part = self.whole.mul_f64(SHORT_SHARE).min(LONG_ENOUGH);
        (track.ended && facts.looks < MIN_SAMPLES) || facts.interval < part
    }

    /// Payload that a connection sent and received while it was watched. The first sample of one
    /// that was opened meanwhile has some already.
    fn moved_bytes(&self, index: usize) -> (u64, u64) {
        let facts = &self.facts[index];
        let (sent, received) = if self.tracks[index].was_open_at(self.first_look) {
            facts.moved_bytes
        } else {
            facts.moved_ever_bytes
        };
        (sent.unwrap_or(0), received.unwrap_or(0))
    }

    /// Other connections between the same two hosts, of the same process (where that is known), or
    /// of the same service. Cached, since thousands of connections may have the same ones.
    fn beside(&self, index: usize) -> Arc<Beside> {
        let known = self.beside.borrow().clone();
        let service = self.service_of(index);
        let serves = |known: &Arc<Beside>| known.serves(&self.tracks[index], service.as_ref());
        if let Some(known) = known.filter(serves) {
            return known;
        }
        let (key, pid) = (self.tracks[index].key, self.tracks[index].pid());
        let hosts = (key.local.ip(), key.remote.ip());
        let between = self.by_hosts.get(&hosts);
        let serves_others = Cell::new(true);
        let is_sibling = |other: usize| {
            let track = &self.tracks[other];
            let is_apart = other == index || is_beside(key, track.key);
            serves_others.set(serves_others.get() && is_apart);
            let is_of_process = pid.is_none() || track.pid().is_none() || track.pid() == pid;
            let is_of_service = || service.as_ref().is_some_and(|one| self.is_of(other, one));
            is_apart && (is_of_process || is_of_service())
        };
        let latest = |of: fn(&Between) -> &[usize]| -> Vec<Sibling> {
            let all = between.map_or(&[][..], of).iter().rev().copied();
            let chosen = all.filter(|&other| is_sibling(other));
            let chosen = chosen.take(SIBLINGS_MAX + 1);
            let sibling = |index| Sibling {
                index,
                key: self.tracks[index].key,
                timeline: self.timeline(index),
            };
            chosen.map(sibling).collect()
        };
        let open = latest(|between| &between.open);
        let ended = latest(|between| &between.ended);
        let beside = Arc::new(Beside {
            hosts,
            pid,
            service,
            serves_others: serves_others.get(),
            open,
            ended,
        });
        *self.beside.borrow_mut() = Some(Arc::clone(&beside));
        beside
    }

    /// What a connection is of; of one that was opened by an unknown program, nothing.
    fn service_of(&self, index: usize) -> Option<OfService> {
        let track = &self.tracks[index];
        let place = self.services.place(track.key);
        let command = match place {
            Place::Listening(_) => None,
            Place::Remote(_) => Some(track.owners.first()?.process.command.clone()),
        };
        Some(OfService { place, command })
    }

    fn is_of(&self, index: usize, service: &OfService) -> bool {
        let track = &self.tracks[index];
        let command = || Some(&track.owners.first()?.process.command);
        self.services.place(track.key) == service.place
            && (service.command.is_none() || service.command.as_ref() == command())
    }

    fn timeline(&self, index: usize) -> Arc<Timeline> {
        self.timelines.get(index, &self.tracks[index].samples)
    }

    /// Whether other connections of the same process carry data, apart from this one's other end.
    fn shares_process(&self, index: usize) -> bool {
        let Some(pid) = self.tracks[index].pid() else {
            return false;
        };
        let partner = self.partner(index);
        let is_other = |other: usize| other != index && Some(other) != partner;
        let of_process = self.carrying.get(&pid).into_iter().flatten();
        of_process.copied().any(is_other)
    }

    /// Whether segments arrive on another connection between the same two hosts.
    fn hosts_answer_elsewhere(&self, index: usize) -> bool {
        let key = self.tracks[index].key;
        let between = self.hearing.get(&(key.local.ip(), key.remote.ip()));
        let partner = self.partner(index);
        let mut hearing = between.into_iter().flatten().copied();
        hearing.any(|other| other != index && Some(other) != partner)
    }

    /// The interface that dropped most, if any did.
    fn dropping_link(&self) -> Option<String> {
        let mut drops = self.host.link_drops().into_iter();
        drops
            .find(|link| link.dropped_pkts() > 0)
            .map(|link| link.name)
    }

    /// The interface through which a connection sends, or else the one that drops most.
    #[must_use]
    pub fn interface(&self, track: &Track) -> Option<String> {
        track.interface.clone().or_else(|| self.dropping_link())
    }
}

impl<'c, 'r> Case<'c, 'r> {
    /// Adds another connection to the case; the one with a known owner and the most samples
    /// represents it.
    fn add(&mut self, index: usize) {
        let of = |index: usize| {
            let (track, facts) = (&self.cases.tracks[index], &self.cases.facts[index]);
            (track.pid(), facts.looks)
        };
        if of(index) > of(self.index) {
            self.index = index;
        }
        self.members.push(index);
    }

    /// The connection; the one observed longest, if the case has several.
    #[must_use]
    pub fn track(&self) -> &'r Track {
        &self.cases.tracks[self.index]
    }

    /// All connections that it stands for, in the order in which they appeared.
    pub fn tracks(&self) -> impl Iterator<Item = &'r Track> {
        self.members.iter().map(|&index| &self.cases.tracks[index])
    }

    /// The end of it that a service has.
    #[must_use]
    pub fn place(&self) -> Place {
        self.cases.place(self.track().key)
    }

    /// Timeline of its samples.
    #[must_use]
    pub fn timeline(&self) -> Arc<Timeline> {
        self.cases.timeline(self.index)
    }

    /// For how many connections it stands.
    #[must_use]
    pub const fn connections(&self) -> usize {
        self.members.len()
    }

    /// Payload that all its connections sent and received while they were watched, in bytes.
    #[must_use]
    pub fn payload_bytes(&self) -> (u64, u64) {
        let moved = self
            .members
            .iter()
            .map(|&index| self.cases.moved_bytes(index));
        moved.fold((0, 0), |(sent, received), (more_sent, more_received)| {
            (sent + more_sent, received + more_received)
        })
    }

    /// The other end, and the cases that it is in, where it was seen.
    #[must_use]
    pub fn other_end(&self) -> Option<(&'c Cases<'r>, &'r Track)> {
        let (cases, index) = self.other()?;
        Some((cases, &cases.tracks[index]))
    }

    /// The doctor's answer. If it is not sure enough to act on, others that it stands for are
    /// diagnosed too: the surest answer of those that agree counts.
    #[must_use]
    pub fn diagnose(&self) -> Report {
        let report = self.cases.diagnose(self.index, Duration::ZERO);
        let Some(main) = report.main().filter(|main| main.is_unsure()) else {
            return report;
        };
        let Some((alike, surest)) = self.seen_alike(main) else {
            return report;
        };
        let together = self.cases.diagnose(self.index, alike);
        let is_sure = |report: &Report| report.main().is_some_and(|main| !main.is_unsure());
        [surest, together]
            .into_iter()
            .find(is_sure)
            .unwrap_or(report)
    }

    /// How long the longest of its other connections were watched in all, and their surest answer,
    /// if each has the same main verdict by itself; `None` if one has another.
    fn seen_alike(&self, main: &Verdict) -> Option<(Duration, Report)> {
        let others = self.members.iter().filter(|&&index| index != self.index);
        let mut others: Vec<(Duration, usize)> = others
            .map(|&index| (self.cases.facts[index].interval, index))
            .collect();
        others.sort_unstable_by(|a, b| b.cmp(a));
        let mut alike = Duration::ZERO;
        let mut surest: Option<Report> = None;
        let confidence = |report: &Report| report.main().map(|main| main.confidence);
        for (interval, index) in others.into_iter().take(ALIKE_MAX) {
            let report = self.cases.diagnose(index, Duration::ZERO);
            match report.main() {
                Some(other) if other.diagnosis == main.diagnosis => alike += interval,
                Some(_) => return None,
                // One that was hardly seen gets no verdict.
                None => continue,
            }
            if surest.as_ref().and_then(confidence) < confidence(&report) {
                surest = Some(report);
            }
        }
        surest.map(|surest| (alike, surest))
    }

    fn other(&self) -> Option<(&'c Cases<'r>, usize)> {
        self.cases.other(self.index)
    }
}

impl<'r> Cases<'r> {
    /// The doctor's answer for one connection, of whose kind others with the same verdict were
    /// watched for so long.
    fn diagnose(&self, index: usize, seen_alike: Duration) -> Report {
        let track = &self.tracks[index];
        let other = self.other(index);
        let local = self.timeline(index);
        let remote = other.map(|(cases, index)| cases.timeline(index));
        let siblings = self.beside(index);
        let siblings = siblings.but(index);
        // Only those that came or went are judged together.
        let short = other.filter(|_| self.is_short(index));
        let beside = short.map(|(cases, index)| (cases.beside(index), index));
        let beside = beside.as_ref();
        let beside = beside.map_or_else(Vec::new, |(beside, index)| beside.but(*index));
        diagnose(&Observation {
            remote: remote.as_deref(),
            siblings: &siblings,
            remote_siblings: &beside,
            host: Some(&self.host),
            remote_host: other.map(|(cases, _)| &cases.host),
            interface: track.interface.as_deref(),
            remote_interface: other
                .and_then(|(cases, index)| cases.tracks[index].interface.as_deref()),
            shares_process: self.shares_process(index),
            hosts_answer_elsewhere: self.hosts_answer_elsewhere(index),
            seen_alike,
            ..Observation::of(&local)
        })
    }

    /// The other end of a connection, and the cases that it is in.
    fn other(&self, index: usize) -> Option<(&Self, usize)> {
        if let Some(other) = self.partner(index) {
            return Some((self, other));
        }
        let elsewhere = self.elsewhere?;
        let key = self.tracks[index].key.reversed();
        let other = elsewhere.by_key.get(&ByPorts(key))?;
        Some((elsewhere, *other))
    }
}

/// Keeps the first three.
fn note(places: &mut Vec<usize>, index: usize) {
    if places.len() < 3 {
        places.push(index);
    }
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum GroupKey {
    /// By cookie, and by place where two tracks have the same.
    Alone(u64, usize),
    /// Short connections of one service, and of one process where it is the client.
    Short(Place, Option<u32>),
    /// The same of those without an answer, which would not show beside others.
    Unanswered(Place, Option<u32>),
}

/// Whether nothing but its SYN was seen, which was retransmitted more than once.
fn is_unanswered(track: &Track) -> bool {
    let mut states = track.samples.turns().map(|s| s.state);
    let is_opening = states.all(|state| state == Some(TcpState::SynSent));
    let timeouts = || track.samples.last().and_then(|s| s.timeouts);
    is_opening && timeouts() > Some(1)
}

/// A connection that ended early does not show its process: it is assigned to the only one here
/// that has connections to the same place.
fn join_ownerless(groups: &mut BTreeMap<GroupKey, Case<'_, '_>>) {
    let mut owners: BTreeMap<Place, Vec<u32>> = BTreeMap::new();
    for key in groups.keys() {
        if let &GroupKey::Short(place, Some(pid)) = key {
            owners.entry(place).or_default().push(pid);
        }
    }
    for (place, pids) in owners {
        let &[pid] = pids.as_slice() else {
            continue;
        };
        if let Some(ownerless) = groups.remove(&GroupKey::Short(place, None)) {
            let case = groups.get_mut(&GroupKey::Short(place, Some(pid)));
            let case = case.expect("its key was found among them");
            for index in ownerless.members {
                case.add(index);
            }
        }
    }
}

#[cfg(test)]
mod tests;
