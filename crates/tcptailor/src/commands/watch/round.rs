//! A round: look at all connections for some seconds, ask the doctor, and sum up by service. What
//! was recorded is dropped namespace by namespace, so that memory does not grow with their number.

use std::cmp::Ordering;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use base::{FlowKey, FlowSample, HostSample, Limit, Netns};
use doctor::{Confidence, Place, Recording, Shares, Track};
use linux::{Filter, NetnsHandle, NetnsPlace, ScanRequest, SockDiag, WatchRequest};
use tailor::Observed;

use super::finding::Occurrence;
use crate::commands::diagnose::document::{Direction, FlowRow, HostRow, VerdictRow};
use crate::commands::diagnose::seen;
use crate::commands::diagnose::service::{self, Counts};
use crate::commands::watching::{SOCKETS_WATCHED_WHOLE, Where};
use crate::interrupt;

/// How long connections are looked at in a round, at most.
pub(super) const WINDOW_MAX: Duration = Duration::from_secs(5);
/// Looks in that time; the doctor wants at least twenty.
const LOOKS: u32 = 26;
const HOST_LOOKS: u32 = 5;
/// Connections that are looked at together, in one or several namespaces; others follow. This
/// bounds the memory: a look at one takes about 100 bytes.
const CONNECTIONS_AT_ONCE: usize = 1000;
/// Samples for each of them: some more than looks, because new ones come.
const SAMPLES_EACH: usize = 32;
/// A namespace where few connections were counted may have this many.
const CONNECTIONS_MIN: usize = 50;
/// Parts into which the connections of one namespace are divided.
const PARTS_MAX: usize = 64;
/// Namespaces that are looked at together, each by a thread.
const NETNS_AT_ONCE: usize = 8;
/// Places for the limits, and for the time of which nothing can be said.
pub(super) const LIMITS: usize = Limit::ALL.len() + 1;

/// Results of a round.
#[derive(Debug, Default)]
pub(super) struct Round {
    pub(super) services: BTreeMap<String, ServiceRound>,
    /// Findings on the host as a whole.
    pub(super) host: BTreeMap<&'static str, Found>,
    /// By address, the fullest.
    pub(super) listeners: BTreeMap<String, AcceptQueue>,
    pub(super) overflows: u64,
    pub(super) drops: u64,
    pub(super) connections_left_out: usize,
    pub(super) unseen_processes: usize,
    pub(super) netns_watched: usize,
    pub(super) netns_left_out: usize,
}

/// The accept queue of a listener at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AcceptQueue {
    /// Connections that wait for accept().
    pub(super) waiting: u32,
    /// How many may: the backlog of listen().
    pub(super) limit: u32,
}

impl AcceptQueue {
    /// Compares the shares of their limits that wait.
    pub(super) fn by_fullness(&self, other: &Self) -> Ordering {
        // Crosswise, which needs no fractions. A limit of 0 lets one connection wait.
        let product = |a: &Self, b: &Self| u64::from(a.waiting) * u64::from(b.limit.max(1));
        product(self, other).cmp(&product(other, self))
    }
}

/// Notes how full a listener is, where it was less full at other times or in other namespaces.
fn note_queue(listeners: &mut BTreeMap<String, AcceptQueue>, name: String, queue: AcceptQueue) {
    let known = listeners.entry(name).or_insert(queue);
    if queue.by_fullness(known).is_gt() {
        *known = queue;
    }
}

/// Results of one service.
#[derive(Debug, Default)]
pub(super) struct ServiceRound {
    pub(super) counts: Counts,
    /// Connection-seconds by limit, in the order of [`Limit::ALL`]; the last is unclear.
    pub(super) limits_s: [f64; LIMITS],
    /// Round-trip times of connections that carry data.
    pub(super) rtts_s: Vec<f64>,
    pub(super) traffic: Traffic,
    pub(super) findings: BTreeMap<&'static str, Found>,
}

/// A finding and on how many connections it is.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) connections: usize,
    /// Sum of the shares of time of each.
    pub(super) shares: f64,
    /// The occurrence with the largest share of time.
    pub(super) occurrence: Occurrence,
    pub(super) share_max: f64,
}

impl Found {
    fn merge(&mut self, other: Self) {
        self.connections += other.connections;
        self.shares += other.shares;
        if other.share_max > self.share_max {
            self.share_max = other.share_max;
            self.occurrence = other.occurrence;
        }
    }
}

/// Counters of connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Traffic {
    pub(super) sent_bytes: u64,
    pub(super) received_bytes: u64,
    pub(super) segments: u64,
    pub(super) retransmitted: u64,
}

impl Traffic {
    fn of(sample: &FlowSample) -> Self {
        Self {
            sent_bytes: sample.bytes_sent.unwrap_or(0),
            received_bytes: sample.bytes_received.unwrap_or(0),
            segments: sample.data_segs_out.unwrap_or(0),
            retransmitted: sample.retrans_total_pkts.unwrap_or(0),
        }
    }

    fn since(self, earlier: Self) -> Self {
        Self {
            sent_bytes: self.sent_bytes.saturating_sub(earlier.sent_bytes),
            received_bytes: self.received_bytes.saturating_sub(earlier.received_bytes),
            segments: self.segments.saturating_sub(earlier.segments),
            retransmitted: self.retransmitted.saturating_sub(earlier.retransmitted),
        }
    }

    pub(super) fn add(&mut self, more: Self) {
        self.sent_bytes += more.sent_bytes;
        self.received_bytes += more.received_bytes;
        self.segments += more.segments;
        self.retransmitted += more.retransmitted;
    }
}

impl ServiceRound {
    /// Takes in what was seen of another one that is counted under the same name.
    pub(super) fn merge(&mut self, other: Self) {
        self.counts.connections += other.counts.connections;
        self.counts.with_finding += other.counts.with_finding;
        self.counts.healthy += other.counts.healthy;
        self.counts.unclear += other.counts.unclear;
        self.counts.idle += other.counts.idle;
        for (time, more) in self.limits_s.iter_mut().zip(other.limits_s) {
            *time += more;
        }
        self.rtts_s.extend(other.rtts_s);
        self.traffic.add(other.traffic);
        for (id, found) in other.findings {
            match self.findings.entry(id) {
                Entry::Occupied(known) => known.into_mut().merge(found),
                Entry::Vacant(place) => {
                    place.insert(found);
                }
            }
        }
    }
}

/// Whether a connection is one with this endpoint of ours, seen at its end or, where the client is
/// on this host too, at the client's.
fn is_of_endpoint(endpoint: SocketAddr, key: FlowKey) -> bool {
    let FlowKey { local, remote } = key;
    let is_any = endpoint.ip().is_unspecified();
    let is_it = |end: SocketAddr, is_here: bool| {
        end.port() == endpoint.port() && (end.ip() == endpoint.ip() || is_any && is_here)
    };
    // Linux takes the address of the destination as that of the source where both are its own.
    is_it(local, true) || is_it(remote, remote.ip() == local.ip())
}

/// Counts a finding that this many connections have for this share of the time. Where it was seen
/// is asked for where it took more of the time than elsewhere: that may ask the kernel.
fn note(
    findings: &mut BTreeMap<&'static str, Found>,
    id: &'static str,
    (connections, share): (usize, f64),
    occurrence: impl FnOnce() -> Occurrence,
) {
    let shares = share * connections as f64;
    match findings.entry(id) {
        Entry::Occupied(known) => {
            let known = known.into_mut();
            known.connections += connections;
            known.shares += shares;
            if share > known.share_max {
                known.share_max = share;
                known.occurrence = occurrence();
            }
        }
        Entry::Vacant(place) => {
            place.insert(Found {
                connections,
                shares,
                share_max: share,
                occurrence: occurrence(),
            });
        }
    }
}

/// Looks, and keeps from round to round what differences are made from.
#[derive(Debug)]
pub(super) struct Sampler {
    place: Where,
    filter: Filter,
    window: Duration,
    /// The endpoint of this program, whose connections are left out.
    endpoint: SocketAddr,
    rounds: u64,
    /// Counters of each connection at the end of the last round.
    traffic: BTreeMap<(FlowKey, u64), Traffic>,
    /// Counters of each namespace that was looked at in the last round: overflows and drops.
    hosts: BTreeMap<Netns, [u64; 2]>,
    /// Namespaces of which the last round may have missed connections.
    incomplete: BTreeSet<Netns>,
}

/// Namespaces recorded together.
#[derive(Debug)]
struct View {
    place: NetnsPlace,
    /// Whether it is the requested namespace, or our own.
    is_first: bool,
    filter: Filter,
    /// About this many connections.
    connections: usize,
    /// One part of this many.
    part: (u32, u32),
}

impl View {
    /// For how many namespaces it counts: of all parts of one the first does.
    fn counts_as(&self) -> usize {
        usize::from(self.part.0 == 0)
    }
}

/// Groups recorded at the same time: few namespaces, few connections.
fn groups(views: Vec<View>) -> Vec<Vec<View>> {
    let mut groups: Vec<Vec<View>> = Vec::new();
    for view in views {
        let fits = |group: &&mut Vec<View>| {
            let connections: usize = group.iter().map(|view| view.connections).sum();
            group.len() < NETNS_AT_ONCE
                && connections + view.connections <= CONNECTIONS_AT_ONCE
                && view.part.1 == 1
        };
        match groups.last_mut().filter(fits) {
            Some(group) => group.push(view),
            None => groups.push(vec![view]),
        }
    }
    groups
}

/// State carried to the next round.
#[derive(Default)]
struct Carried {
    traffic: BTreeMap<(FlowKey, u64), Traffic>,
    hosts: BTreeMap<Netns, [u64; 2]>,
    incomplete: BTreeSet<Netns>,
}

impl Sampler {
    pub(super) const fn new(
        place: Where,
        filter: Filter,
        window: Duration,
        endpoint: SocketAddr,
    ) -> Self {
        Self {
            place,
            filter,
            window,
            endpoint,
            rounds: 0,
            traffic: BTreeMap::new(),
            hosts: BTreeMap::new(),
            incomplete: BTreeSet::new(),
        }
    }

    /// Looks at everything once, and tells of each part that is done.
    ///
    /// # Errors
    /// Where the namespace that was asked for, or our own, cannot be looked at.
    pub(super) fn round(&mut self, progress: &dyn Fn()) -> anyhow::Result<Round> {
        let (places, netns_left_out) = self.place.places();
        if let Some(Ok(own)) = places.first().map(|place| NetnsHandle::open(&place.netns)) {
            self.filter.renew(&own);
        }
        let mut round = Round {
            netns_left_out,
            ..Round::default()
        };
        self.rounds += 1;
        let mut carried = Carried::default();
        let views = places.iter().enumerate();
        let views = views
            .flat_map(|(at, place)| self.views(place, at == 0))
            .collect();
        for group in groups(views) {
            if interrupt::stopped() {
                break;
            }
            for (view, recording) in group.iter().zip(self.record(&group)) {
                match recording {
                    Ok(recording) => self.judge(&recording, view, &mut round, &mut carried),
                    // Others may end meanwhile, or need a permission to enter.
                    Err(_) if !view.is_first => {
                        round.netns_left_out += view.counts_as();
                        carried.incomplete.insert(view.place.netns.clone());
                    }
                    Err(error) => return Err(error),
                }
            }
            progress();
        }
        self.carry(carried);
        Ok(round)
    }

    fn carry(&mut self, carried: Carried) {
        (self.traffic, self.hosts) = (carried.traffic, carried.hosts);
        self.incomplete = carried.incomplete;
    }

    /// How a namespace is looked at: at once, or in parts where it has very many connections.
    fn views(&self, place: &NetnsPlace, is_first: bool) -> Vec<View> {
        let listed = NetnsHandle::open(&place.netns)
            .and_then(|netns| SockDiag::open_in(&netns))
            .and_then(|mut diag| diag.scan(&ScanRequest::default()));
        // What cannot be listed cannot be recorded either, which then says why.
        let listed = listed.unwrap_or_default();
        let whole = listed.len() <= SOCKETS_WATCHED_WHOLE;
        let filter = if whole {
            Filter::default()
        } else {
            self.filter.clone()
        };
        let may_match = |sample: &&FlowSample| filter.needs_owners() || filter.matches(sample, &[]);
        let connections = listed.iter().filter(may_match).count();
        let parts = connections
            .div_ceil(CONNECTIONS_AT_ONCE)
            .clamp(1, PARTS_MAX);
        let view = |part| View {
            place: place.clone(),
            is_first,
            filter: filter.clone(),
            connections: connections.div_ceil(parts).max(CONNECTIONS_MIN),
            part: (part, parts as u32),
        };
        (0..parts as u32).map(view).collect()
    }

    /// Records some at the same time.
    fn record(&self, views: &[View]) -> Vec<anyhow::Result<Recording>> {
        if let [view] = views {
            return vec![self.record_one(view)];
        }
        std::thread::scope(|scope| {
            let threads: Vec<_> = views
                .iter()
                .map(|view| scope.spawn(move || self.record_one(view)))
                .collect();
            let joined = threads.into_iter().map(|thread| {
                let joined = thread.join();
                joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            });
            joined.collect()
        })
    }

    fn record_one(&self, view: &View) -> anyhow::Result<Recording> {
        let handle = NetnsHandle::open(&view.place.netns)?;
        let sysctls = crate::subject::sysctls();
        let request = WatchRequest {
            netns: Some(&handle),
            samples_max: view.connections.min(2 * CONNECTIONS_AT_ONCE) * SAMPLES_EACH,
            interval: self.window / LOOKS,
            host_interval: self.window / HOST_LOOKS,
            sysctls: &sysctls,
            stop: Some(interrupt::stop_flag()),
            seed: self.rounds,
            part: view.part,
            ..WatchRequest::new(view.filter.clone(), self.window)
        };
        Ok(linux::watch(&request, &mut |_| ())?)
    }

    /// Asks the doctor about a namespace and sums up.
    fn judge(&self, recording: &Recording, view: &View, round: &mut Round, carried: &mut Carried) {
        let place = &view.place;
        round.netns_watched += view.counts_as();
        round.connections_left_out += recording.flows_left_out;
        round.unseen_processes = round.unseen_processes.max(recording.unseen_processes);
        let programs = Programs::of(recording);
        let observed = Observed::new(recording, &place.netns);
        let endpoint = self.endpoint_in(&place.netns);
        observed.each_answer(
            |track| self.is_wanted(endpoint, track),
            |answered| {
                let mut row = seen::row(&observed, &answered);
                row.container.clone_from(&place.container);
                let command = row.command.as_deref();
                let name = programs.service(row.place, command);
                let service = round.services.entry(name).or_default();
                if row.direction == Direction::Out && !row.idle {
                    let shares = Shares::of_timeline(&answered.case.timeline());
                    add_limits(&mut service.limits_s, shares, &row);
                }
                add_row(service, &row);
            },
        );
        for host in seen::host_rows(&observed) {
            let HostRow { verdict, .. } = &host;
            if is_sure(verdict) {
                let seen = (1, verdict.share);
                note(&mut round.host, verdict.id, seen, || {
                    Occurrence::of_host(verdict)
                });
            }
        }
        // What a part was asked for may leave out now what it shows later, such as a state.
        if recording.flows_left_out > 0 || view.filter.may_change() {
            carried.incomplete.insert(place.netns.clone());
        }
        self.count_traffic(recording, &place.netns, &programs, round, carried);
        self.count_host(recording, &place.netns, round, carried);
    }

    fn is_wanted(&self, endpoint: Option<SocketAddr>, track: &Track) -> bool {
        let is_own = endpoint.is_some_and(|endpoint| is_of_endpoint(endpoint, track.key));
        !is_own && seen::selects(&self.filter, track)
    }

    /// The endpoint, where this is the namespace that it is in: in others its address is another.
    fn endpoint_in(&self, netns: &Netns) -> Option<SocketAddr> {
        let inode = |netns| NetnsHandle::open(netns).and_then(|handle| handle.inode());
        let is_here = *netns == Netns::Own
            || matches!((inode(netns), inode(&Netns::Own)), (Ok(one), Ok(own)) if one == own);
        is_here.then_some(self.endpoint)
    }

    /// Adds what each connection carried since the last round, also between the rounds.
    fn count_traffic(
        &self,
        recording: &Recording,
        netns: &Netns,
        programs: &Programs,
        round: &mut Round,
        carried: &mut Carried,
    ) {
        // One that is new since a round in which none was left out began after it.
        let is_complete = self.hosts.contains_key(netns) && !self.incomplete.contains(netns);
        let endpoint = self.endpoint_in(netns);
        for track in &recording.flows {
            let (Some(first), Some(last)) = (track.samples.first(), track.samples.last()) else {
                continue;
            };
            let key = (track.key, track.cookie);
            let now = Traffic::of(last);
            // Also what is not wanted: a connection may come to match the filter later.
            if !track.ended {
                carried.traffic.insert(key, now);
            }
            if !self.is_wanted(endpoint, track) {
                continue;
            }
            let before = match self.traffic.get(&key) {
                Some(before) => *before,
                None if is_complete => Traffic::default(),
                None => Traffic::of(first),
            };
            let command = command_of(track);
            let name = programs.service(Place::of(track.key), command);
            let service = round.services.entry(name).or_default();
            service.traffic.add(now.since(before));
        }
    }

    fn count_host(
        &self,
        recording: &Recording,
        netns: &Netns,
        round: &mut Round,
        carried: &mut Carried,
    ) {
        let (Some(first), Some(last)) = (recording.hosts.first(), recording.hosts.last()) else {
            return;
        };
        let read = |host: &HostSample| {
            let counter = |name: &str| host.counters.get(name).copied().unwrap_or(0);
            [
                counter("TcpExtListenOverflows"),
                counter("TcpExtListenDrops"),
            ]
        };
        // Where it was looked at in parts, the part before this one.
        let known = carried.hosts.get(netns).or_else(|| self.hosts.get(netns));
        let now = read(last);
        let before = known.copied().unwrap_or_else(|| read(first));
        round.overflows += now[0].saturating_sub(before[0]);
        round.drops += now[1].saturating_sub(before[1]);
        carried.hosts.insert(netns.clone(), now);
        for listener in recording.hosts.iter().flat_map(|host| &host.listeners) {
            let name = listener.local.to_string();
            let queue = AcceptQueue {
                waiting: listener.queue_pkts,
                limit: listener.backlog_pkts,
            };
            note_queue(&mut round.listeners, name, queue);
        }
    }
}

/// The program of each place, for connections that ended before it was seen who held them.
struct Programs {
    /// `None` where there are several.
    of: BTreeMap<Port, Option<String>>,
}

/// A place without the address of the other host, of which there may be very many.
type Port = (bool, u16);

impl Programs {
    fn of(recording: &Recording) -> Self {
        let mut seen: BTreeMap<Port, BTreeSet<&str>> = BTreeMap::new();
        for track in &recording.flows {
            if let Some(command) = command_of(track) {
                let commands = seen.entry(port_of(Place::of(track.key))).or_default();
                commands.insert(command);
            }
        }
        let only = |commands: BTreeSet<&str>| match commands.into_iter().collect::<Vec<_>>()[..] {
            [only] => Some(only.to_owned()),
            _ => None,
        };
        Self {
            of: seen
                .into_iter()
                .map(|(port, commands)| (port, only(commands)))
                .collect(),
        }
    }

    /// The name of a service: a program and the port that it has or connects to.
    fn service(&self, place: Place, command: Option<&str>) -> String {
        let port = port_of(place);
        let known = || self.of.get(&port).and_then(Option::as_deref);
        service::name(place, command.or_else(known))
    }
}

const fn port_of(place: Place) -> Port {
    match place {
        Place::Listening(port) => (true, port),
        Place::Remote(remote) => (false, remote.port()),
    }
}

fn command_of(track: &Track) -> Option<&str> {
    let owner = track.owners.first()?;
    Some(&owner.process.command)
}

/// A permanent watch tells of what is sure: a signal that other causes could give too may come and
/// go on a healthy host.
fn is_sure(verdict: &VerdictRow) -> bool {
    verdict.finding && verdict.confidence >= Confidence::Medium
}

fn add_row(service: &mut ServiceRound, row: &FlowRow) {
    let sure: Vec<&VerdictRow> = row.verdicts.iter().filter(|one| is_sure(one)).collect();
    let counts = &mut service.counts;
    counts.connections += row.connections;
    *match row.verdicts.is_empty() {
        _ if !sure.is_empty() => &mut counts.with_finding,
        _ if row.idle => &mut counts.idle,
        // A doubtful finding counts as unclear.
        false if !row.has_finding() => &mut counts.healthy,
        _ => &mut counts.unclear,
    } += row.connections;
    if let Some(srtt) = row.srtt_us.filter(|_| !row.idle) {
        service.rtts_s.push(srtt as f64 / 1e6);
    }
    for verdict in sure {
        let seen = (row.connections, verdict.share);
        note(&mut service.findings, verdict.id, seen, || {
            Occurrence::of(verdict, row)
        });
    }
}

/// Shares out the time for which a connection was seen; several short ones count as one that is as
/// long as all of them.
fn add_limits(limits_s: &mut [f64; LIMITS], shares: Option<Shares>, row: &FlowRow) {
    let seen_s = row.seen_s * row.connections as f64;
    let Some(shares) = shares else {
        return;
    };
    for (time, limit) in limits_s.iter_mut().zip(Limit::ALL) {
        *time += shares.get(limit) * seen_s;
    }
    limits_s[LIMITS - 1] += shares.unclear() * seen_s;
}

#[cfg(test)]
mod tests {
    use base::TcpState;

    use super::*;

    #[test]
    fn what_is_recorded_together_has_a_bound() {
        let view = |connections, part| View {
            place: NetnsPlace {
                netns: Netns::Own,
                container: None,
            },
            is_first: false,
            filter: Filter::default(),
            connections,
            part,
        };
        let check = |views: Vec<View>, expected: &[usize]| {
            let sizes: Vec<usize> = groups(views).iter().map(Vec::len).collect();
            assert_eq!(sizes, expected);
        };
        let alone = (0, 1);
        check((0..20).map(|_| view(50, alone)).collect(), &[8, 8, 4]);
        check(vec![view(600, alone), view(600, alone)], &[1, 1]);
        check(
            vec![view(700, (0, 2)), view(700, (1, 2)), view(50, alone)],
            &[1, 2],
        );
    }

    #[test]
    fn a_service_is_a_program_and_a_port() {
        let programs = Programs {
            of: [((true, 443), Some("nginx".into())), ((true, 80), None)].into(),
        };
        let remote = |port| Place::Remote(([10, 0, 0, 1], port).into());
        let check = |place, command, expected: &str| {
            assert_eq!(programs.service(place, command), expected);
        };
        check(Place::Listening(443), Some("envoy"), "envoy:443");
        check(Place::Listening(443), None, "nginx:443");
        check(Place::Listening(80), None, "?:80");
        check(remote(5432), Some("python3"), "python3 to :5432");
        check(remote(443), None, "? to :443");
    }

    #[test]
    fn the_fullest_of_listeners_with_one_address_is_noted_whole() {
        let mut listeners = BTreeMap::new();
        for (waiting, limit) in [(0, 4096), (8, 8), (20, 4096), (0, 0)] {
            note_queue(&mut listeners, "a".into(), AcceptQueue { waiting, limit });
        }
        let expected = AcceptQueue {
            waiting: 8,
            limit: 8,
        };
        assert_eq!(listeners["a"], expected);
    }

    #[test]
    fn connections_with_the_own_endpoint_are_left_out() {
        let check = |endpoint: &str, local: &str, remote: &str, expected: bool| {
            let parsed = |text: &str| text.parse::<SocketAddr>().expect("an address");
            let key = FlowKey {
                local: parsed(local),
                remote: parsed(remote),
            };
            let found = is_of_endpoint(parsed(endpoint), key);
            assert_eq!(found, expected, "{endpoint}: {local} {remote}");
        };
        let (server, client) = ("127.0.0.1:9917", "127.0.0.1:50000");
        check(server, server, client, true);
        check(server, client, server, true);
        check(server, client, "127.0.0.1:9918", false);
        check("0.0.0.0:9917", "10.0.0.1:9917", "10.0.0.2:50000", true);
        check("0.0.0.0:9917", "10.0.0.1:50000", "10.0.0.1:9917", true);
        // Of another host, by a Prometheus of this one.
        check("0.0.0.0:9917", "10.0.0.1:50000", "10.0.0.2:9917", false);
        check("10.0.0.1:9917", "10.0.0.1:50000", "10.0.0.2:9917", false);
    }

    /// Counts a connection that has sent this many bytes; what was added to its service.
    fn sent(looker: &mut Sampler, state: TcpState, bytes: u64, incomplete: bool) -> Option<u64> {
        let key = FlowKey {
            local: ([10, 0, 0, 1], 443).into(),
            remote: ([10, 0, 0, 2], 50_000).into(),
        };
        let sample = FlowSample {
            state: Some(state),
            bytes_sent: Some(bytes),
            ..FlowSample::empty(base::Instant::ZERO, key)
        };
        let track = Track {
            key,
            cookie: 1,
            owners: Vec::new(),
            samples: [sample].into_iter().collect(),
            ended: false,
            interface: None,
            options_error: None,
        };
        let recording = Recording {
            flows: vec![track],
            ..Recording::default()
        };
        let programs = Programs::of(&recording);
        let mut round = Round::default();
        let mut carried = Carried::default();
        carried.hosts.insert(Netns::Own, [0; 2]);
        if incomplete {
            carried.incomplete.insert(Netns::Own);
        }
        looker.count_traffic(&recording, &Netns::Own, &programs, &mut round, &mut carried);
        looker.carry(carried);
        let service = round.services.values().next()?;
        Some(service.traffic.sent_bytes)
    }

    fn looker(filter: &str) -> Sampler {
        let mut looker = Sampler::new(
            Where::One(Netns::Own),
            filter.parse().expect("a filter"),
            WINDOW_MAX,
            ([127, 0, 0, 1], 9917).into(),
        );
        looker.hosts.insert(Netns::Own, [0; 2]);
        looker
    }

    #[test]
    fn a_connection_that_comes_to_match_counts_from_then_on() {
        let mut looker = looker("state close-wait");
        let mut check = |state, bytes, expected| {
            assert_eq!(sent(&mut looker, state, bytes, false), expected);
        };
        check(TcpState::Established, 1_000_000, None);
        check(TcpState::CloseWait, 1_000_300, Some(300));
    }

    #[test]
    fn after_a_round_that_missed_some_nothing_counts_as_new() {
        let mut known = looker("");
        let state = TcpState::Established;
        assert_eq!(sent(&mut known, state, 700, false), Some(700));
        let mut missed = looker("");
        missed.incomplete.insert(Netns::Own);
        assert_eq!(sent(&mut missed, state, 700, true), Some(0));
        assert_eq!(sent(&mut missed, state, 900, false), Some(200));
    }

    #[test]
    fn differences_of_counters_never_go_below_zero() {
        let traffic = |sent_bytes| Traffic {
            sent_bytes,
            ..Traffic::default()
        };
        assert_eq!(traffic(5).since(traffic(3)), traffic(2));
        assert_eq!(traffic(3).since(traffic(5)), traffic(0));
    }
}
