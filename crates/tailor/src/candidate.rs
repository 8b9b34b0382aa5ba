//! The changes that may fix a finding, from the smallest scope to the largest, and how each can be
//! tried without harm.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use base::{Change, FlowKey, Instant, KnobValue, Live, Scope, Target};
use doctor::{Objective, Place, Proposal, Services, Track};

use crate::measure::counted;
use crate::observed::Answered;
use crate::subject::{Look, Subject};
use crate::targets::host_route;
use crate::waited::Waited;

/// Identity of a candidate: its service, its diagnosis and its text.
pub(crate) type Name = (Place, &'static str, String);

/// Changes that belong together, and fix one finding if the finding is right.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The service: its connections come and go, the changes are for all of them.
    pub place: Place,
    /// The finding, by the id of its diagnosis.
    pub diagnosis: &'static str,
    /// Objective to improve.
    pub objective: Objective,
    /// The scope that they share.
    pub scope: Scope,
    /// Changes to make.
    pub changes: Vec<Change>,
    /// Whether they act on open connections.
    pub live: bool,
    /// Risks.
    pub risk: &'static str,
    /// The wait that they end, if known.
    pub(crate) waited: Option<Waited>,
    /// Origin of the changes, to make them again for a new connection.
    proposals: Vec<Proposal>,
    /// The connections of the service come and go by themselves.
    comes_and_goes: bool,
    /// Connections are replaced slowly.
    turns_slowly: bool,
    /// The program keeps several of them, and opens more.
    is_pool: bool,
}

/// How variants A and B are established in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Design {
    /// On open connections, back and forth.
    Alternate,
    /// Each on connections of its own, which the subject opens.
    NewConnections,
    /// Connections that were open before the change beside those that the program opened after it,
    /// over the same time.
    SideBySide,
    /// The setting can be restored, but the open connection may keep what it has gained by B, and
    /// there is no other one to look at A: all looks at A come first.
    BeforeAfter,
}

/// Why a finding has no candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoCandidate {
    /// TCP has no setting for it.
    NoSetting,
    /// There is one, on another host, without permission, or for connections that are not opened.
    OutOfReach,
}

/// Knobs whose old value brings back the old behaviour of an open connection. A buffer that has
/// grown stays (`tcp_rcv_space_adjust`, `sk_stream_moderate_sndbuf`), a window once offered is not
/// taken back (RFC 9293, section 3.8.6.2.1), an MSS once lowered by probing does not rise at once.
/// After BBR a connection keeps the window that BBR found, without a slow-start threshold
/// (`bbr_init`) and paced: CUBIC then gets much of what BBR gets.
const REVERSIBLE: &[&str] = &[
    "cork",
    "link.txqueuelen",
    "max_pacing_rate",
    "net.ipv4.tcp_autocorking",
    "net.ipv4.tcp_slow_start_after_idle",
    "nodelay",
    "notsent_lowat",
    "qdisc.limit",
    "quickack",
    "route.quickack",
];

/// Most changes of one candidate: those of more connections than this leave the others as they are.
const CHANGES_MAX: usize = 64;

impl Candidate {
    /// Design of the experiment; `None` where it cannot be tried.
    #[must_use]
    pub fn design(&self, can_reconnect: bool) -> Option<Design> {
        let comes_back = |change: &Change| REVERSIBLE.contains(&change.knob.as_str());
        let is_reversible = self.live && self.changes.iter().all(comes_back);
        if self.comes_and_goes && !self.is_pool && !can_reconnect {
            // New connections have the present value by themselves; long-lived ones from before a
            // switch outlast the look after it.
            return Some(match self.turns_slowly && !is_reversible {
                true => Design::BeforeAfter,
                false => Design::Alternate,
            });
        }
        match (self.live, can_reconnect) {
            _ if is_reversible => Some(Design::Alternate),
            (_, true) => Some(Design::NewConnections),
            // A change that acts on open connections leaves none unchanged.
            (false, false) if self.is_pool => Some(Design::SideBySide),
            (true, false) => Some(Design::BeforeAfter),
            (false, false) => None,
        }
    }

    /// Whether the changes are those of single connections, so that the next one needs its own.
    #[must_use]
    pub const fn is_of_one_connection(&self) -> bool {
        matches!(self.scope, Scope::Socket) && self.live
    }

    /// Adds the same changes for other open connections of the service with the same finding,
    /// behind the one at `own` of `all`: a program that keeps several has the fault on each of
    /// them, and a fix of one alone hardly shows.
    ///
    /// # Errors
    /// Those of the subject.
    pub(crate) fn extend_to<S: Subject + ?Sized>(
        &mut self,
        all: &[Answered<'_, '_>],
        own: usize,
        subject: &mut S,
    ) -> Result<(), S::Error> {
        let waited = self.waited;
        // What is wider than a socket is for those before it as well.
        let from = if self.is_of_open_connections() {
            own
        } else {
            0
        };
        self.waited = waited.map(|waited| waited.among((all, from), self.place, self.diagnosis));
        if self.comes_and_goes {
            self.extend_to_routes(all, own);
        }
        if !self.is_of_open_connections() {
            return Ok(());
        }
        let of_service = all[own + 1..]
            .iter()
            .filter(|other| other.case.place() == self.place);
        for other in of_service {
            let found = candidates(other, subject)?.unwrap_or_default();
            let mut same = found.into_iter().filter(|found| {
                found.diagnosis == self.diagnosis
                    && found.is_of_open_connections()
                    && found.text() == self.text()
            });
            let Some(same) = same.next() else { continue };
            // A finding on two connections proposes the same of each of them.
            let mut more = same.changes;
            more.retain(|change| !self.changes.contains(change));
            if self.changes.len() + more.len() > CHANGES_MAX {
                break;
            }
            self.changes.extend(more);
        }
        let connections = self.connections();
        self.waited = self.waited.map(|waited| waited.of_connections(connections));
        Ok(())
    }

    /// Connections that come and go have other ends at many addresses, each behind a route of its
    /// own: where one of these alone had the setting, what the others carry would hide its effect.
    fn extend_to_routes(&mut self, all: &[Answered<'_, '_>], own: usize) {
        let of_service = all.iter().filter(|one| one.case.place() == self.place);
        let tracks = of_service.flat_map(|one| one.case.tracks());
        let destinations = destinations(&tracks.collect::<Vec<_>>());
        if let Some(first) = host_route(all[own].case.track().key.remote.ip()) {
            self.extend_to_destinations(&first, &destinations);
        }
    }

    /// The changes of the route to `first` for these others. The other end may be seen too, and
    /// have a route to here.
    fn extend_to_destinations(&mut self, first: &str, destinations: &[String]) {
        let own = self.changes.clone();
        for destination in destinations.iter().filter(|other| *other != first) {
            let more = own
                .iter()
                .filter_map(|change| on_other_route(change, first, destination));
            let mut more: Vec<Change> = more.collect();
            more.retain(|change| !self.changes.contains(change));
            if self.changes.len() + more.len() > CHANGES_MAX {
                break;
            }
            self.changes.extend(more);
        }
    }

    /// Whether most connections of the service lead to other addresses than those whose routes are
    /// changed: a look shows few of the clients that a server has.
    pub(crate) fn misses_most(&self, look: &Look) -> bool {
        if self.scope != Scope::Route || !self.comes_and_goes {
            return false;
        }
        let services = Services::of(&look.here);
        let tracks = look.here.flows.iter();
        let of_service = tracks.filter(|track| services.place(track.key) == self.place);
        let routes = |of: fn(&FlowKey) -> IpAddr| -> Vec<Option<String>> {
            let of_service = of_service.clone();
            of_service.map(|track| host_route(of(&track.key))).collect()
        };
        let remote = routes(|key| key.remote.ip());
        let local = routes(|key| key.local.ip());
        let changed: BTreeSet<Option<String>> = self
            .changes
            .iter()
            .filter_map(|change| match &change.target {
                Target::Route { destination, .. } => Some(Some(destination.clone())),
                _ => None,
            })
            .collect();
        // The other end has one route to all of them, which counts where there is none from here.
        let mut routes = changed.iter();
        let ends = match routes.any(|route| remote.contains(route) || !local.contains(route)) {
            true => remote,
            false => local,
        };
        let reached = ends.iter().filter(|route| changed.contains(*route)).count();
        let missed = ends.len() - reached;
        missed > reached
    }

    /// The same, of connections that stay.
    pub(crate) const fn is_of_open_connections(&self) -> bool {
        self.is_of_one_connection() && !self.comes_and_goes
    }

    /// Number of connections that the changes concern, if they concern single ones.
    pub(crate) fn connections(&self) -> usize {
        self.changes.len().div_ceil(self.proposals.len().max(1))
    }

    /// The same changes for the connection that has taken the place of the first one; `None` where
    /// it cannot be reached.
    #[must_use]
    pub fn again(&self, answered: &Answered<'_, '_>) -> Option<Vec<Change>> {
        let change = |proposal| answered.ends.change_by_others(proposal);
        self.proposals.iter().map(change).collect()
    }

    /// Whether connections that were there before it are waited for, until they have ended.
    pub(crate) const fn outlasts_a_look(&self) -> bool {
        self.comes_and_goes && self.turns_slowly
    }

    /// Whether its effect shows on connections that are opened after it: always where it does not
    /// act on open ones, and surely where it is wider than a socket, since the kernel reads a route
    /// or a sysctl when it next has a reason to.
    #[must_use]
    pub fn acts_on_new_connections(&self) -> bool {
        !self.live || self.scope > Scope::Socket
    }

    /// Identity of the candidate.
    pub(crate) fn name(&self) -> Name {
        (self.place, self.diagnosis, self.text())
    }

    /// The same without its numbers: what did not help is not tried again with those of another
    /// look, which differ by chance, until chance keeps one of them. What a socket needs depends on
    /// how far its other end is, so that there is a name for each of these.
    pub(crate) fn names_of_kind(&self) -> Vec<Name> {
        let (_, _, kind) = self.name_of_kind();
        let mut names: Vec<Name> = Vec::new();
        for change in &self.changes {
            let text = match &change.target {
                Target::Socket { key, .. } => format!("{kind} to {}", key.remote.ip()),
                _ => kind.clone(),
            };
            let name = (self.place, self.diagnosis, text);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// The same, wherever the other ends are.
    pub(crate) fn name_of_kind(&self) -> Name {
        let mut shown: Vec<String> = Vec::new();
        let kind = |change: &Change| match change.to {
            KnobValue::Number(_) | KnobValue::Triple(_) => change.knob.clone(),
            KnobValue::Flag(_) | KnobValue::Name(_) => text_of(change),
        };
        for kind in self.changes.iter().map(kind) {
            if !shown.contains(&kind) {
                shown.push(kind);
            }
        }
        (self.place, self.diagnosis, shown.join(", "))
    }

    /// Whether it can be tried, did not fail before, and is not kept already.
    pub(crate) fn is_left(&self, (kept, done): (&[Change], &[Name]), can_reconnect: bool) -> bool {
        !done.contains(&self.name())
            && !done.contains(&self.name_of_kind())
            && !self.names_of_kind().iter().all(|name| done.contains(name))
            && !self.changes.iter().all(|change| kept.contains(change))
            && self.design(can_reconnect).is_some()
    }

    /// `nodelay = on`.
    #[must_use]
    pub fn text(&self) -> String {
        let mut shown: Vec<String> = Vec::new();
        for change in self.changes.iter().map(text_of) {
            if !shown.contains(&change) {
                shown.push(change);
            }
        }
        shown.join(", ")
    }
}

/// The routes to the other ends of these, but not to what is an end of them here too. Not all may
/// get the setting: those that carry most come first.
fn destinations(tracks: &[&Track]) -> Vec<String> {
    let first_look = tracks
        .iter()
        .filter_map(|track| track.samples.began())
        .min();
    let here: BTreeSet<IpAddr> = tracks
        .iter()
        .map(|track| track.key.local.ip().to_canonical())
        .collect();
    let mut carried: BTreeMap<IpAddr, u64> = BTreeMap::new();
    for track in tracks {
        let address = track.key.remote.ip().to_canonical();
        if !here.contains(&address) {
            *carried.entry(address).or_default() += carried_by(track, first_look);
        }
    }
    let mut carried: Vec<(IpAddr, u64)> = carried.into_iter().collect();
    carried.sort_by_key(|(_, bytes)| Reverse(*bytes));
    carried
        .into_iter()
        .filter_map(|(address, _)| host_route(address))
        .collect()
}

/// Payload of a connection, both ways, since this look.
fn carried_by(track: &Track, first_look: Option<Instant>) -> u64 {
    let was_open = track.was_open_at(first_look);
    let sent = counted(track, was_open, |sample| sample.bytes_acked);
    sent.saturating_add(counted(track, was_open, |sample| sample.bytes_received))
}

/// The same for the route to `other`, if it is one of the route to `first`.
fn on_other_route(change: &Change, first: &str, other: &str) -> Option<Change> {
    let Target::Route { netns, destination } = &change.target else {
        return None;
    };
    (destination == first).then(|| Change {
        target: Target::Route {
            netns: netns.clone(),
            destination: other.into(),
        },
        ..change.clone()
    })
}

/// `nodelay = on`.
fn text_of(change: &Change) -> String {
    let value = base::find_knob(&change.knob)
        .map_or_else(|_| change.to.to_string(), |knob| knob.format(&change.to));
    format!("{} = {value}", change.knob)
}

/// The candidates of the main verdict of `answered`, which is a finding, the smallest scope first.
/// Proposals of one scope belong together (both ends of a connection, both windows of a route).
///
/// # Errors
/// Those of the subject; inside, why there is none.
pub fn candidates<S: Subject + ?Sized>(
    answered: &Answered<'_, '_>,
    subject: &mut S,
) -> Result<Result<Vec<Candidate>, NoCandidate>, S::Error> {
    let Some(verdict) = answered.actionable() else {
        return Ok(Ok(Vec::new()));
    };
    if verdict.proposals.is_empty() {
        return Ok(Err(NoCandidate::NoSetting));
    }
    let cause = (verdict.diagnosis.id, verdict.diagnosis.objective);
    let mut found = of_proposals(&verdict.proposals, cause, answered, subject)?;
    let waited = Waited::of(answered, verdict);
    found
        .iter_mut()
        .for_each(|candidate| candidate.waited = waited);
    Ok(if found.is_empty() {
        Err(NoCandidate::OutOfReach)
    } else {
        Ok(found)
    })
}

/// Whether `answered` has no candidate but for connections that the program would open.
///
/// # Errors
/// Those of the subject.
pub(crate) fn needs_new_connections<S: Subject + ?Sized>(
    answered: &Answered<'_, '_>,
    subject: &mut S,
) -> Result<bool, S::Error> {
    let Some(verdict) = answered.actionable() else {
        return Ok(false);
    };
    let mut later = verdict
        .proposals
        .iter()
        .filter(|proposal| proposal.live == Live::Reconnect);
    let may_help = later.any(|proposal| change_here(proposal, answered, subject).is_some());
    Ok(may_help && matches!(candidates(answered, subject)?, Err(NoCandidate::OutOfReach)))
}

/// The candidates among `proposals` that can be applied from here.
pub(crate) fn of_proposals<S: Subject + ?Sized>(
    proposals: &[Proposal],
    (diagnosis, objective): (&'static str, Objective),
    answered: &Answered<'_, '_>,
    subject: &mut S,
) -> Result<Vec<Candidate>, S::Error> {
    let comes_and_goes = answered.comes_and_goes();
    let mut found: Vec<Candidate> = Vec::new();
    for proposal in proposals {
        for reached in reach(proposal, answered, subject)? {
            let scope = proposal.knob.scope;
            let is_same =
                |known: &&mut Candidate| known.scope == scope && known.live == reached.live;
            match found.iter_mut().find(is_same) {
                Some(candidate) if !candidate.changes.contains(&reached.change) => {
                    candidate.changes.push(reached.change);
                    candidate.proposals.push(proposal.clone());
                }
                Some(_) => {}
                None => found.push(Candidate {
                    place: answered.case.place(),
                    diagnosis,
                    objective,
                    scope,
                    changes: vec![reached.change],
                    live: reached.live,
                    risk: proposal.risk,
                    waited: None,
                    proposals: vec![proposal.clone()],
                    comes_and_goes,
                    turns_slowly: answered.turns_slowly() || answered.is_followed,
                    is_pool: answered.is_pool,
                }),
            }
        }
    }
    found.sort_by_key(|candidate| (candidate.scope, !candidate.live));
    Ok(found)
}

/// A change that can be made from here.
struct Reached {
    change: Change,
    live: bool,
}

/// What a proposal changes, if that is on this host and permitted.
fn change_here<S: Subject + ?Sized>(
    proposal: &Proposal,
    answered: &Answered<'_, '_>,
    subject: &S,
) -> Option<Change> {
    let change = answered.ends.change_by_others(proposal)?;
    subject.lacks(&change.target).is_none().then_some(change)
}

fn reach<S: Subject + ?Sized>(
    proposal: &Proposal,
    answered: &Answered<'_, '_>,
    subject: &mut S,
) -> Result<Vec<Reached>, S::Error> {
    let Some(change) = change_here(proposal, answered, subject) else {
        return Ok(Vec::new());
    };
    let comes_and_goes = answered.comes_and_goes();
    let has_new_ones = comes_and_goes || answered.is_pool || subject.can_reconnect();
    // A short connection ends before its change would show.
    let is_passing = comes_and_goes
        && !subject.can_reconnect()
        && matches!(change.target, Target::Socket { .. });
    let (changes, live) = match proposal.live {
        Live::Now if !is_passing => (vec![change], true),
        _ if !has_new_ones => (Vec::new(), false),
        Live::Reconnect => (vec![change], false),
        // Accepted sockets inherit the options of their listener, so that new connections are
        // reached without starting the program again.
        Live::Now | Live::Restart => (subject.on_listener(&change)?, false),
    };
    let changes = changes.into_iter();
    Ok(changes.map(|change| Reached { change, live }).collect())
}

#[cfg(test)]
pub(crate) mod tests {
    use core::time::Duration;

    use base::{FlowSample, Netns};
    use doctor::Recording;

    use super::*;

    pub(crate) fn candidate(knob: &str, to: KnobValue) -> Candidate {
        Candidate {
            place: Place::Listening(3306),
            diagnosis: "tcp-wmem-max-cap",
            objective: Objective::Goodput,
            scope: Scope::Namespace,
            changes: vec![Change {
                target: Target::Namespace { netns: Netns::Own },
                knob: knob.into(),
                to,
            }],
            live: true,
            risk: "",
            waited: None,
            proposals: Vec::new(),
            comes_and_goes: false,
            turns_slowly: false,
            is_pool: false,
        }
    }

    /// Of connections to these ends.
    pub(crate) fn sndbuf_to(ends: &[u8], bytes: u64) -> Candidate {
        let mut raised = candidate("sndbuf", KnobValue::Number(bytes));
        let change = |end: &u8| Change {
            target: Target::Socket {
                netns: Netns::Own,
                pid: 7,
                cookie: u64::from(*end) + bytes,
                key: FlowKey {
                    local: ([10, 0, 0, 1], 443).into(),
                    remote: ([10, 0, 0, *end], 50_000).into(),
                },
            },
            ..raised.changes[0].clone()
        };
        raised.changes = ends.iter().map(change).collect();
        raised.scope = Scope::Socket;
        raised
    }

    #[test]
    fn a_change_of_a_route_is_one_of_the_routes_to_all_clients() {
        let mut raised = candidate("route.initcwnd", KnobValue::Number(64));
        let to = |destination: &str| Target::Route {
            netns: Netns::Own,
            destination: destination.into(),
        };
        raised.changes[0].target = to("10.0.0.2/32");
        let elsewhere = raised.changes[0].clone();
        raised.changes.push(Change {
            target: to("10.0.0.1/32"),
            ..elsewhere
        });
        let clients = |count: usize| -> Vec<String> {
            let ends = 2..2 + count;
            ends.map(|end| format!("10.0.0.{end}/32")).collect()
        };
        raised.extend_to_destinations("10.0.0.2/32", &clients(3));
        let reached = raised.changes.iter().map(|change| change.target.clone());
        let routes = ["2", "1", "3", "4"].map(|end| to(&format!("10.0.0.{end}/32")));
        assert_eq!(reached.collect::<Vec<Target>>(), routes);
        assert_eq!(raised.text(), "route.initcwnd = 64");
        raised.extend_to_destinations("10.0.0.2/32", &clients(200));
        assert_eq!(raised.changes.len(), CHANGES_MAX);
    }

    /// A client at this address of the server at 1.
    fn client(end: u8) -> Track {
        Track {
            key: FlowKey {
                local: ([10, 0, 0, 1], 3306).into(),
                remote: ([10, 0, 0, end], 50_000).into(),
            },
            cookie: u64::from(end),
            owners: Vec::new(),
            samples: core::iter::empty::<std::sync::Arc<FlowSample>>().collect(),
            ended: false,
            interface: None,
            options_error: None,
        }
    }

    #[test]
    fn a_client_on_the_host_itself_adds_no_route() {
        let clients = [client(1), client(3), client(2), client(3)];
        let found = destinations(&clients.iter().collect::<Vec<_>>());
        assert_eq!(found, ["10.0.0.2/32", "10.0.0.3/32"]);
    }

    /// Addresses of many connections count together, and those without a scope have no route.
    #[test]
    fn the_routes_that_carry_most_come_first() {
        let carries = |remote: &str, [before, after]: [u64; 2]| {
            let key = FlowKey {
                remote: remote.parse().expect("an address"),
                ..client(2).key
            };
            let look = |(second, bytes): (u64, u64)| FlowSample {
                bytes_acked: Some(bytes),
                ..FlowSample::empty(Instant::ZERO + Duration::from_secs(second), key)
            };
            let looks = [(0, before), (1, after)];
            Track {
                key,
                samples: looks.into_iter().map(look).collect(),
                ..client(2)
            }
        };
        let clients = [
            carries("10.0.0.10:50000", [0, 700]),
            carries("10.0.0.9:50000", [9_000, 9_100]),
            carries("10.0.0.200:50000", [0, 400]),
            carries("10.0.0.200:50001", [0, 400]),
            carries("[fe80::2]:50000", [0, 900]),
            carries("[::ffff:10.0.0.3]:50000", [0, 800]),
        ];
        let found = destinations(&clients.iter().collect::<Vec<_>>());
        let expected = [3, 200, 10, 9].map(|end| format!("10.0.0.{end}/32"));
        assert_eq!(found, expected);
    }

    #[test]
    fn a_change_of_the_routes_to_few_clients_misses_most() {
        let check = |routes: &[u8], clients: &[u8], expected: bool| {
            let mut raised = candidate("route.initcwnd", KnobValue::Number(64));
            let change = |end: &u8| Change {
                target: Target::Route {
                    netns: Netns::Own,
                    destination: format!("10.0.0.{end}/32"),
                },
                ..raised.changes[0].clone()
            };
            raised.changes = routes.iter().map(change).collect();
            (raised.scope, raised.comes_and_goes) = (Scope::Route, true);
            let recording = Recording {
                flows: clients.iter().copied().map(client).collect(),
                ..Recording::default()
            };
            let look = Look::new((recording, Netns::Own), None, |_| lab::Measure::default());
            assert_eq!(
                raised.misses_most(&look),
                expected,
                "{routes:?} {clients:?}"
            );
        };
        check(&[2, 3], &[2, 3, 4], false);
        check(&[2, 3], &[2, 4, 5], true);
        check(&[2, 3], &[], false);
        // The other end's route to the server.
        check(&[1], &[2, 4, 5], false);
        check(&[2, 1], &[2, 4, 5], true);
        check(&[2, 1], &[4, 5, 6], true);
        // One that asks after the server's health on its own host.
        check(&[2, 1], &[1, 2, 4], false);
        check(&[1], &[1, 4, 5], true);
    }

    /// Each look proposes another maximum of `tcp_wmem`; one that did not help is enough.
    #[test]
    fn what_did_not_help_is_not_tried_with_another_number() {
        let raised = |most| {
            let to = KnobValue::Triple([4096, 16_384, most]);
            candidate("net.ipv4.tcp_wmem", to)
        };
        let failed = raised(4_194_304).names_of_kind();
        assert!(!raised(7_686_144).is_left((&[], &failed), false));
        let kept = [raised(4_194_304).name()];
        assert!(raised(7_686_144).is_left((&[], &kept), false));
        let bbr = candidate("route.congctl", KnobValue::Name("bbr".into()));
        let cubic = candidate("route.congctl", KnobValue::Name("cubic".into()));
        assert!(bbr.is_left((&[], &cubic.names_of_kind()), false));
    }

    /// A megabyte that did not help on a connection to one end says nothing of eight to another,
    /// which is further away, and of two to the same one that chance may keep it.
    #[test]
    fn what_did_not_help_to_one_end_may_help_to_another() {
        let failed = sndbuf_to(&[2, 3], 1 << 20).names_of_kind();
        let is_left = |ends: &[u8]| sndbuf_to(ends, 8 << 20).is_left((&[], &failed), true);
        assert!(!is_left(&[2]), "the same end");
        assert!(!is_left(&[3, 2]), "the same ends");
        assert!(is_left(&[4]));
        assert!(is_left(&[2, 4]), "one of them is another");
    }
}
