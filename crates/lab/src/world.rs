//! Many hosts, their programs and the links between them, under one clock that jumps.
//!
//! A step moves the clock to the next deadline of all and lets everything happen that is due then:
//! links deliver, hosts answer, events reach programs, programs make system calls, and what hosts
//! send goes into links, until nothing moves. A packet that a host sends in answer to a packet or
//! in a system call leaves before its program goes on, as it does in a kernel.
//!
//! The same world with the same seeds does the same in every run: deadlines at the same time come
//! in the order in which they were set, and nothing is decided by floating point.

mod audit;
mod capture;
mod check;
mod hop;
mod limits;
mod parcel;
mod routes;
mod station;
mod tap;
#[cfg(test)]
mod tests;
mod topology;

use core::net::IpAddr;
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use base::{Instant, Limit, Rate, WirePacket};
use link::{LinkSpec, LinkStats, SpecError};
use stack::{Host, HostConfig, SocketId, Trace};

use crate::agenda::Agenda;
use crate::app::{App, HostCosts};
use audit::Audit;
pub use capture::Capture;
use hop::{Hop, too_big_reply};
pub use limits::LimitTimes;
use parcel::{Parcel, Parcels};
use routes::Routes;
use station::{Arrival, Station};
pub use tap::{Tap, TapPoint};
pub use topology::{Dumbbell, chain, dumbbell};

/// Bound on events without progress of time; more mean a path that takes no time at all.
const MOVES_MAX: u64 = 50_000_000;

/// A host or a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeId(usize);

/// One direction of one hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkId(usize);

/// Hosts with programs of the kind `A`, routers, links, and their clock.
#[derive(Debug)]
pub struct World<A> {
    now: Instant,
    /// Events since time last progressed.
    moves: u64,
    agenda: Agenda,
    members: Vec<Member>,
    nodes: Vec<Node<A>>,
    hops: Vec<Hop>,
    /// ICMP errors on their way back to the host that sent what was too big.
    returned: VecDeque<(usize, Parcel)>,
    parcels: Parcels,
    audit: Option<Audit>,
    counts: Counts,
}

/// Owner of a deadline.
#[derive(Clone, Copy, Debug)]
enum Member {
    Node(usize),
    Link(usize),
}

#[derive(Debug)]
struct Node<A> {
    member: usize,
    /// `None` for a router.
    station: Option<Box<Station<A>>>,
    routes: Routes,
}

/// Wire packets, outside of links.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    /// Sent by a host.
    sent: u64,
    /// ICMP errors that a packet was too big.
    reported: u64,
    /// Received by a host.
    received: u64,
    /// Had no route, or exceeded the hop limit.
    lost: u64,
}

impl<A: App> World<A> {
    /// An empty world at time zero.
    #[must_use]
    pub fn new() -> Self {
        Self {
            now: Instant::ZERO,
            moves: 0,
            agenda: Agenda::default(),
            members: Vec::new(),
            nodes: Vec::new(),
            hops: Vec::new(),
            returned: VecDeque::new(),
            parcels: Parcels::default(),
            audit: cfg!(debug_assertions).then(Audit::default),
            counts: Counts::default(),
        }
    }

    /// Checks the promises of hosts on each packet that they send; costs time. The default in debug
    /// builds.
    pub fn audit(&mut self) {
        self.audit = Some(Audit::default());
    }

    /// Adds a host with these processing times.
    pub fn add_host(&mut self, config: HostConfig, costs: HostCosts) -> NodeId {
        self.add_node(Some(Box::new(Station::new(Host::new(config), costs))))
    }

    /// Adds a router, which forwards at once.
    pub fn add_router(&mut self) -> NodeId {
        self.add_node(None)
    }

    fn add_node(&mut self, station: Option<Box<Station<A>>>) -> NodeId {
        let node = self.nodes.len();
        let member = self.join(Member::Node(node));
        self.nodes.push(Node {
            member,
            station,
            routes: Routes::default(),
        });
        NodeId(node)
    }

    /// Adds a link from one node to another. It becomes the default route of its first node, unless
    /// that has one.
    ///
    /// # Errors
    /// Where the specification of the link is invalid.
    pub fn add_link(
        &mut self,
        from: NodeId,
        to: NodeId,
        spec: LinkSpec,
        seed: u64,
    ) -> Result<LinkId, SpecError> {
        let link = self.hops.len();
        let member = self.members.len();
        self.hops
            .push(Hop::new(spec, seed, (from.0, to.0), member)?);
        self.join(Member::Link(link));
        self.nodes[from.0].routes.add_default(link);
        Ok(LinkId(link))
    }

    /// Routes packets to `destination` from `node` over `link`.
    pub fn add_route(&mut self, node: NodeId, destination: IpAddr, link: LinkId) {
        self.nodes[node.0].routes.add(destination, link.0);
    }

    /// Sets the rate of the interface in front of `link`: packets enter the link one by one.
    pub fn set_interface_rate(&mut self, link: LinkId, rate: Rate) {
        self.hops[link.0].interface_rate = Some(rate);
    }

    /// Shows every packet that passes this point of the link to `tap`.
    pub fn add_tap(&mut self, link: LinkId, point: TapPoint, tap: Box<dyn Tap>) {
        self.hops[link.0].taps.push((point, tap));
    }

    /// Reports events inside a host to `trace` from now on.
    ///
    /// # Panics
    /// Where `node` is a router.
    pub fn set_trace(&mut self, node: NodeId, trace: Box<dyn Trace>) {
        self.station_mut(node).host.set_trace(trace);
    }

    /// Starts a program on a host, at the present time.
    ///
    /// # Panics
    /// Where `node` is a router.
    pub fn start(&mut self, node: NodeId, mut app: A) {
        let now = self.now;
        let station = self.station_mut(node);
        app.start(now, &mut station.host);
        station.app = Some(app);
        let member = self.nodes[node.0].member;
        self.agenda.set(member, Some(now));
    }

    /// The time.
    #[must_use]
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// A host.
    ///
    /// # Panics
    /// Where `node` is a router.
    #[must_use]
    pub fn host(&self, node: NodeId) -> &Host {
        &self.station(node).host
    }

    /// The program of a host.
    ///
    /// # Panics
    /// Where `node` is a router.
    #[must_use]
    #[inline]
    pub fn app(&self, node: NodeId) -> Option<&A> {
        self.station(node).app.as_ref()
    }

    /// How long each limit held the connection that the program of this host names.
    ///
    /// # Panics
    /// Where `node` is a router.
    #[must_use]
    pub fn limit_times(&self, node: NodeId) -> &LimitTimes {
        &self.station(node).limits
    }

    /// Records the limits of the connection that the program of this host names, from now on.
    ///
    /// # Panics
    /// Where `node` is a router.
    pub fn watch_limits(&mut self, node: NodeId) {
        self.station_mut(node).is_watched = true;
    }

    /// Records the limits of each connection of this host, from now on.
    ///
    /// # Panics
    /// Where `node` is a router.
    pub fn watch_every_limit(&mut self, node: NodeId) {
        self.station_mut(node).every = Some(BTreeMap::new());
    }

    /// How long each limit held a connection up to now, where all of its host are watched.
    ///
    /// # Panics
    /// Where `node` is a router.
    #[must_use]
    pub fn limits_of(&self, node: NodeId, id: SocketId) -> BTreeMap<Limit, Duration> {
        let every = self.station(node).every.as_ref();
        let times = every.and_then(|every| every.get(&id));
        times.map_or_else(BTreeMap::new, |times| times.held_until(self.now))
    }

    /// Counters of a link until now.
    pub fn link_stats(&mut self, link: LinkId) -> LinkStats {
        let hop = &mut self.hops[link.0];
        hop.link.advance(self.now);
        hop.link.stats()
    }

    /// Advances to the next deadline and handles everything due then. False, without any effect, if
    /// that is after `until` or there is none.
    ///
    /// # Panics
    /// Where time would go back or does not move on at all: a bug of a host, a link or a program,
    /// or a path that takes no time.
    pub fn step(&mut self, until: Instant) -> bool {
        let Some((at, mut member)) = self.agenda.pop_until(until) else {
            return false;
        };
        assert!(at >= self.now, "{at:?} is before {:?}", self.now);
        if at > self.now {
            self.moves = 0;
        }
        self.now = at;
        loop {
            self.on_move();
            match self.members[member] {
                Member::Link(link) => self.deliver(link),
                Member::Node(node) => self.let_act(node),
            }
            while let Some((node, packet)) = self.returned.pop_front() {
                self.arrive(node, packet);
            }
            match self.agenda.pop_due(at) {
                Some(next) => member = next,
                None => return true,
            }
        }
    }

    /// Runs until `until`, or until nothing is due any more.
    pub fn run(&mut self, until: Instant) {
        while self.step(until) {}
    }

    /// Runs until `until`; the clock shows that time also where nothing happens then.
    pub fn run_to(&mut self, until: Instant) {
        self.run(until);
        self.now = self.now.max(until);
    }

    /// Makes calls from outside on a host and its program at the present time. Packets that they
    /// cause are sent in the next step.
    ///
    /// # Panics
    /// Where `node` is a router, or its host has no program.
    pub fn act<T>(
        &mut self,
        node: NodeId,
        calls: impl FnOnce(Instant, &mut Host, &mut A) -> T,
    ) -> T {
        let now = self.now;
        let Station { host, app, .. } = self.station_mut(node);
        let app = app.as_mut().expect("the caller started a program");
        let result = calls(now, host, app);
        self.agenda.set(self.nodes[node.0].member, Some(now));
        result
    }

    #[inline]
    fn on_move(&mut self) {
        self.moves += 1;
        assert!(
            self.moves < MOVES_MAX,
            "time stands still at {:?}: a path without rate and delay needs hosts whose work takes \
             time",
            self.now
        );
    }

    fn join(&mut self, member: Member) -> usize {
        self.members.push(member);
        self.agenda.join()
    }

    #[inline]
    fn station(&self, node: NodeId) -> &Station<A> {
        let station = self.nodes[node.0].station.as_ref();
        station.expect("the caller names a host, no router")
    }

    #[inline]
    fn station_mut(&mut self, node: NodeId) -> &mut Station<A> {
        let station = self.nodes[node.0].station.as_mut();
        station.expect("the caller names a host, no router")
    }

    /// Delivers the packets that have arrived at the end of a link.
    fn deliver(&mut self, link: usize) {
        while let Some(packet) = self.hops[link].poll_deliver(self.now) {
            self.arrive(self.hops[link].to, packet);
        }
        let hop = &self.hops[link];
        self.agenda.set(hop.member, hop.link.poll_timeout());
    }

    /// Handles a packet that arrives at a node.
    fn arrive(&mut self, node: usize, packet: Parcel) {
        let Node {
            member, station, ..
        } = &mut self.nodes[node];
        let member = *member;
        let Some(station) = station else {
            return self.forward(node, packet);
        };
        self.counts.received += u64::from(packet.segments());
        match station.take_in(self.now, packet, &mut self.parcels) {
            Arrival::Handled => {
                self.transmit(node);
                // Its program hears of it when everybody has delivered what is due now.
                self.agenda.set(member, Some(self.now));
            }
            Arrival::Waits(until) => self.agenda.hasten(member, until),
        }
    }

    /// Forwards a packet from a router.
    fn forward(&mut self, node: usize, mut packet: Parcel) {
        if packet.take_hop() {
            self.send(node, self.now, packet);
        } else {
            self.counts.lost += u64::from(packet.segments());
        }
    }

    /// Handles everything due on a host, and lets its program run.
    fn let_act(&mut self, node: usize) {
        let now = self.now;
        let mut handled = false;
        while self.handle_next(node) {
            self.transmit(node);
            handled = true;
        }
        if !handled {
            // What calls from outside made it send.
            self.transmit(node);
        }
        loop {
            let station = self.station_at(node);
            station.hand_out(now);
            if !station.call(now) {
                break;
            }
            self.transmit(node);
            self.station_at(node).end_call();
            self.on_move();
        }
        let station = self.station_at(node);
        station.watch(now);
        let deadline = station.deadline();
        self.agenda.set(self.nodes[node].member, deadline);
    }

    #[inline]
    fn station_at(&mut self, node: usize) -> &mut Station<A> {
        self.station_mut(NodeId(node))
    }

    /// Handles the next due event of a host; false if there is none.
    #[inline]
    fn handle_next(&mut self, node: usize) -> bool {
        let station = self.nodes[node].station.as_mut();
        station.is_some_and(|station| station.handle_next(self.now, &mut self.parcels))
    }

    /// The next packet to send from a host now, and the time at which it has left the host.
    #[inline]
    fn poll_transmit(&mut self, node: usize) -> Option<(Instant, Parcel)> {
        let station = self.nodes[node].station.as_mut()?;
        station.poll_transmit(self.now, &mut self.parcels)
    }

    /// Sends everything that a host has to send now.
    #[inline]
    fn transmit(&mut self, node: usize) {
        if self.station_at(node).host.may_transmit() {
            self.transmit_all(node);
        }
    }

    #[inline(never)]
    fn transmit_all(&mut self, node: usize) {
        while let Some((at, packet)) = self.poll_transmit(node) {
            if let Some(audit) = &mut self.audit {
                audit.on_sent(&packet);
            }
            self.counts.sent += u64::from(packet.segments());
            self.send(node, at, packet);
        }
    }

    /// Puts a packet into the link that leads to its destination, at the present time or, where
    /// the host is still busy with it, later.
    fn send(&mut self, node: usize, at: Instant, packet: Parcel) {
        let Some(link) = self.nodes[node].routes.find(&packet.destination) else {
            self.counts.lost += u64::from(packet.segments());
            return;
        };
        let hop = &mut self.hops[link];
        let too_big = hop.handle_packet(at, packet);
        self.agenda.set(hop.member, hop.link.poll_timeout());
        if let Some(reply) = too_big.and_then(|packet| too_big_reply(&packet, hop.link.spec())) {
            self.counts.reported += 1;
            if self.nodes[node].station.is_some() {
                self.returned.push_back((node, Parcel::new(reply)));
            } else {
                self.send(node, at, Parcel::new(reply));
            }
        }
    }
}

impl<A: App> Default for World<A> {
    fn default() -> Self {
        Self::new()
    }
}
