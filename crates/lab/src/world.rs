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
mod net;
mod packet_pool;
mod routes;
mod rx_queue;
mod sim_host;
mod tap;
#[cfg(test)]
mod tests;
mod topology;

use core::net::IpAddr;
use core::time::Duration;
use std::collections::BTreeMap;

use base::{Instant, Limit, Rate, WirePacket};
use link::{LinkSpec, LinkStats, SpecError};
use stack::{Host, HostConfig, SocketId, Trace};

use crate::app::{App, HostCosts};
use audit::Audit;
pub use capture::Capture;
use hop::Hop;
pub use limits::LimitTimes;
use net::Net;
use packet_pool::BoxedPacket;
use routes::Routes;
use rx_queue::RxQueue;
use sim_host::SimHost;
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
    /// Events since time last progressed.
    moves: u64,
    members: Vec<Member>,
    nodes: Vec<Node<A>>,
    net: Net,
    /// How often a program was told of something or made a call.
    turns: u64,
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
    sim_host: Option<Box<SimHost<A>>>,
    routes: Routes,
}

impl<A: App> World<A> {
    /// An empty world at time zero.
    #[must_use]
    pub fn new() -> Self {
        Self {
            moves: 0,
            members: Vec::new(),
            nodes: Vec::new(),
            net: Net {
                audit: cfg!(debug_assertions).then(Audit::default),
                ..Net::default()
            },
            turns: 0,
        }
    }

    /// Checks the promises of hosts on each packet that they send; costs time. The default in debug
    /// builds.
    pub fn audit(&mut self) {
        self.net.audit = Some(Audit::default());
    }

    /// Adds a host with these processing times.
    pub fn add_host(&mut self, config: HostConfig, costs: HostCosts) -> NodeId {
        let sim_host = SimHost::new(Host::new(config), costs);
        self.add_node(Some(Box::new(sim_host)), costs)
    }

    /// Adds a router, which forwards at once.
    pub fn add_router(&mut self) -> NodeId {
        self.add_node(None, HostCosts::NONE)
    }

    fn add_node(&mut self, sim_host: Option<Box<SimHost<A>>>, costs: HostCosts) -> NodeId {
        self.net.rx_queues.push(RxQueue::new(costs.receive()));
        let node = self.nodes.len();
        let member = self.join(Member::Node(node));
        self.nodes.push(Node {
            member,
            sim_host,
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
        let link = self.net.hops.len();
        let member = self.members.len();
        self.net
            .hops
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
        self.net.hops[link.0].interface_rate = Some(rate);
    }

    /// Shows every packet that passes this point of the link to `tap`.
    pub fn add_tap(&mut self, link: LinkId, point: TapPoint, tap: Box<dyn Tap>) {
        self.net.hops[link.0].taps.push((point, tap));
        self.stop_direct_reading(link.0);
    }

    /// Lets hosts read packets directly from the link that leads to them, where processing takes
    /// time, no other link leads there, and no tap watches it. The same happens at the same times,
    /// with fewer steps of [`World::advance`].
    pub fn read_links_directly(&mut self) {
        for node in 0..self.nodes.len() {
            let mut links = (0..self.net.hops.len()).filter(|link| self.net.hops[*link].to == node);
            let (Some(link), None) = (links.next(), links.next()) else {
                continue;
            };
            let (rx_queue, hop) = (&mut self.net.rx_queues[node], &mut self.net.hops[link]);
            if rx_queue.takes_time(1) && hop.taps.is_empty() && hop.link.poll_timeout().is_none() {
                rx_queue.direct_link = Some(link);
                hop.read_by = Some(self.nodes[node].member);
            }
        }
    }

    /// Packets leave this link when they arrive from now on.
    fn stop_direct_reading(&mut self, link: usize) {
        self.net.take_arrived(self.net.hops[link].to);
        let hop = &mut self.net.hops[link];
        if hop.read_by.take().is_some() {
            self.net.rx_queues[hop.to].direct_link = None;
            self.net.agenda.set(hop.member, hop.link.poll_timeout());
        }
    }

    /// Reports events inside a host to `trace` from now on.
    ///
    /// # Panics
    /// Where `node` is a router.
    pub fn set_trace(&mut self, node: NodeId, trace: Box<dyn Trace>) {
        self.sim_host_mut(node).host.set_trace(trace);
    }

    /// Starts a program on a host, at the present time.
    ///
    /// # Panics
    /// Where `node` is a router.
    pub fn start(&mut self, node: NodeId, mut app: A) {
        let now = self.net.now;
        let sim_host = self.sim_host_mut(node);
        app.start(now, &mut sim_host.host);
        sim_host.app = Some(app);
        let member = self.nodes[node.0].member;
        self.net.agenda.set(member, Some(now));
    }

    /// The time.
    #[must_use]
    pub const fn now(&self) -> Instant {
        self.net.now
    }

    /// How often a program was told of something or made a call: where this is the same as before,
    /// so is every program.
    #[must_use]
    pub const fn turns(&self) -> u64 {
        self.turns
    }

    /// A host.
    ///
    /// # Panics
    /// Where `node` is a router.
    #[must_use]
    pub fn host(&self, node: NodeId) -> &Host {
        &self.sim_host(node).host
    }

    /// The program of a host.
    ///
    /// # Panics
    /// Where `node` is a router.
    #[must_use]
    #[inline]
    pub fn app(&self, node: NodeId) -> Option<&A> {
        self.sim_host(node).app.as_ref()
    }

    /// How long each limit held the connection that the program of this host names.
    ///
    /// # Panics
    /// Where `node` is a router.
    #[must_use]
    pub fn limit_times(&self, node: NodeId) -> &LimitTimes {
        &self.sim_host(node).limits
    }

    /// Records the limits of the connection that the program of this host names, from now on.
    ///
    /// # Panics
    /// Where `node` is a router.
    pub fn watch_limits(&mut self, node: NodeId) {
        self.sim_host_mut(node).is_watched = true;
    }

    /// Records the limits of each connection of this host, from now on.
    ///
    /// # Panics
    /// Where `node` is a router.
    pub fn watch_every_limit(&mut self, node: NodeId) {
        self.sim_host_mut(node).every = Some(BTreeMap::new());
    }

    /// How long each limit held a connection up to now, where all of its host are watched.
    ///
    /// # Panics
    /// Where `node` is a router.
    #[must_use]
    pub fn limits_of(&self, node: NodeId, id: SocketId) -> BTreeMap<Limit, Duration> {
        let every = self.sim_host(node).every.as_ref();
        let times = every.and_then(|every| every.get(&id));
        times.map_or_else(BTreeMap::new, |times| times.held_until(self.net.now))
    }

    /// Counters of a link until now.
    pub fn link_stats(&mut self, link: LinkId) -> LinkStats {
        self.settle_arrivals();
        let hop = &mut self.net.hops[link.0];
        hop.link.advance(self.net.now);
        hop.link.stats()
    }

    /// Advances to the next deadline and handles everything due then. False, without any effect, if
    /// that is after `until` or there is none.
    ///
    /// # Panics
    /// Where time would go back or does not move on at all: a bug of a host, a link or a program,
    /// or a path that takes no time.
    pub fn step(&mut self, until: Instant) -> bool {
        if self.net.next_arrival() <= self.net.now {
            self.settle_arrivals();
        }
        let arrival = self.net.next_arrival();
        if arrival > until || arrival == Instant::MAX || arrival >= self.net.agenda.next_at() {
            return self.advance(until);
        }
        self.moves = 0;
        self.net.now = arrival;
        self.settle_arrivals();
        true
    }

    /// As [`World::step`], but does not stop for packets that only arrive at a host and wait there
    /// ([`World::read_links_directly`]).
    ///
    /// # Panics
    /// As [`World::step`].
    pub fn advance(&mut self, until: Instant) -> bool {
        self.advance_steps(until, 1) > 0
    }

    /// As [`World::advance`], up to `steps_max` times, until [`World::turns`] has changed; returns
    /// how often.
    ///
    /// # Panics
    /// As [`World::step`].
    pub fn advance_steps(&mut self, until: Instant, steps_max: u32) -> u32 {
        let turns = self.turns;
        let mut steps = 0;
        loop {
            let at = self.net.agenda.next_at();
            let now = self.net.now;
            // What else is due at the same time belongs to the same step.
            if steps == 0 || at > now {
                let is_due = at <= until && at < Instant::MAX;
                if !is_due || steps == steps_max || self.turns != turns {
                    return steps;
                }
                assert!(at >= now, "{at:?} is before {now:?}");
                if at > now {
                    self.moves = 0;
                }
                self.net.now = at;
                steps += 1;
            }
            count_move(&mut self.moves, at);
            match self.members[self.net.agenda.pop_first()] {
                Member::Link(link) => self.deliver(link),
                Member::Node(node) => self.let_act(node),
            }
            while let Some((node, packet)) = self.net.returned.pop_front() {
                self.arrive(node, packet);
            }
        }
    }

    /// Runs until `until`, or until nothing is due any more.
    pub fn run(&mut self, until: Instant) {
        while self.advance_steps(until, u32::MAX) > 0 {}
        while self.step(until) {}
    }

    /// Runs until `until`; the clock shows that time also where nothing happens then.
    pub fn run_to(&mut self, until: Instant) {
        self.run(until);
        self.net.now = self.net.now.max(until);
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
        let now = self.net.now;
        let SimHost { host, app, .. } = self.sim_host_mut(node);
        let app = app.as_mut().expect("the caller started a program");
        let result = calls(now, host, app);
        self.net.agenda.set(self.nodes[node.0].member, Some(now));
        result
    }

    fn join(&mut self, member: Member) -> usize {
        self.members.push(member);
        self.net.agenda.join()
    }

    #[inline]
    fn sim_host(&self, node: NodeId) -> &SimHost<A> {
        let sim_host = self.nodes[node.0].sim_host.as_ref();
        sim_host.expect("the caller names a host, no router")
    }

    #[inline]
    fn sim_host_mut(&mut self, node: NodeId) -> &mut SimHost<A> {
        let sim_host = self.nodes[node.0].sim_host.as_mut();
        sim_host.expect("the caller names a host, no router")
    }

    /// Delivers the packets that have arrived at the end of a link.
    fn deliver(&mut self, link: usize) {
        let to = self.net.hops[link].to;
        while let Some(packet) = self.net.hops[link].poll_deliver(self.net.now) {
            self.arrive(to, packet);
        }
        let hop = &self.net.hops[link];
        self.net.agenda.set(hop.member, hop.link.poll_timeout());
    }

    /// Takes what has arrived by now out of the links in which it stayed.
    fn settle_arrivals(&mut self) {
        for node in 0..self.nodes.len() {
            self.net.take_arrived(node);
        }
    }

    /// Handles a packet that arrives at a node.
    fn arrive(&mut self, node: usize, packet: BoxedPacket) {
        let net = &mut self.net;
        let Node {
            member,
            sim_host,
            routes,
        } = &mut self.nodes[node];
        let Some(sim_host) = sim_host else {
            return net.forward(routes, packet);
        };
        net.take_arrived(node);
        net.counts.received += u64::from(packet.segments());
        let rx_queue = &mut net.rx_queues[node];
        if rx_queue.takes_time(packet.segments()) {
            rx_queue.handle_packet(net.now, packet);
            return net.agenda.hasten(*member, rx_queue.next_at());
        }
        net.packets.deliver(net.now, packet, &mut sim_host.host);
        net.transmit(node, routes, sim_host);
        // Its program is called when all nodes have delivered what is due now.
        net.agenda.set(*member, Some(net.now));
    }

    /// Handles everything due on a host, and lets its program run.
    fn let_act(&mut self, node: usize) {
        let net = &mut self.net;
        let Node {
            member,
            sim_host,
            routes,
        } = &mut self.nodes[node];
        let sim_host = sim_host.as_mut().expect("routers have no deadlines");
        let now = net.now;
        let mut handled = false;
        while net.receive_next(node, sim_host) || sim_host.handle_timeout(now) {
            net.transmit(node, routes, sim_host);
            handled = true;
        }
        if !handled {
            // What calls from outside made it send.
            net.transmit(node, routes, sim_host);
        }
        loop {
            self.turns += sim_host.tell_program(now);
            if !sim_host.call(now) {
                break;
            }
            self.turns += 1;
            net.transmit(node, routes, sim_host);
            sim_host.end_call();
            count_move(&mut self.moves, now);
        }
        sim_host.watch(now);
        let deadline = sim_host.deadline(net.rx_queues[node].next_at());
        net.agenda.set(*member, deadline);
    }
}

/// # Panics
/// Where too much has happened since time progressed.
#[inline]
fn count_move(moves: &mut u64, now: Instant) {
    *moves += 1;
    assert!(
        *moves < MOVES_MAX,
        "time stands still at {now:?}: a path without rate and delay needs hosts whose work takes \
         time"
    );
}

impl<A: App> Default for World<A> {
    fn default() -> Self {
        Self::new()
    }
}
