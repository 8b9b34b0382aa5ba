//! The virtual engine: a [`Trial`] on two hosts with our stack, in virtual time.
//!
//! What it returns means the same as what the kernel engine returns, but for two things: the limits
//! are true, not inferred, and a link is never late. The same trial gives the same outcome.

mod labelled;
mod session;

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;

use base::{Bytes, Instant, KnobValue, Rate, Rng};
use link::{LinkSpec, LinkStats};
use stack::profile::{self, MakeProfile};
use stack::{Host, Trace};

use crate::app::{
    App, Course, HostCosts, LAB_PORT, Machine, Program, ProgramSpec, Scene, Totals, WARM_UP,
};
use crate::outcome::{Caveat, LinkOutcome, Outcome};
use crate::trial::{End, PathSpec, Trial};
use crate::workload::{Amount, Workload};
use crate::world::{LinkId, NodeId, Tap, TapPoint, World, chain};
pub use labelled::LabelledFlow;
pub use session::{
    Arrival, SAMPLE_INTERVAL, SeenFlow, SeenHost, SetError, VirtualLook, VirtualSession,
    VirtualTarget,
};

/// Virtual time after its planned end that a workload has to finish operations in progress.
const OVERTIME: Duration = Duration::from_secs(5);
/// Virtual time after which a workload of an amount is given up.
const TIME_MAX: Duration = Duration::from_secs(24 * 3600);
/// Interval of checks whether the run is to be stopped, and of reports of progress.
const LOOK_STEPS: u32 = 10_000;
/// At what rate a host hands packets to an emulated path, as the emulator of the kernel engine has
/// it.
const HOST_RATE: Rate = Rate::from_bits_per_second(20_000_000_000);
/// From host to host where nothing is emulated; the rest is the work of the hosts.
const WIRE_DELAY: Duration = Duration::from_micros(1);
/// Time that the kernel engine's emulator adds to each crossing of a path: its thread is woken to
/// read and to deliver. Measured: a request of 100 bytes and its response of 1000 take 13 us
/// without and 60 to 70 us with an emulator, apart from the path's own time, from 0.1 to 3 ms.
const EMULATOR_DELAY: Duration = Duration::from_micros(26);
/// Linux's loopback interface has 65536, one more than an IPv4 packet may have.
const LOOPBACK_MTU: Bytes = Bytes(65_535);

/// How trials are run.
#[derive(Debug)]
pub struct Virtual {
    /// The stack of hosts that name none.
    pub profile: MakeProfile,
    /// Processing times of both hosts.
    pub costs: HostCosts,
    /// Additional one-way delay of an emulated path.
    pub emulator_delay: Duration,
    /// Check every packet; see [`World::audit`].
    pub audit: bool,
}

impl Default for Virtual {
    /// Linux 6.18 at both ends, as the kernel engine's hosts are.
    fn default() -> Self {
        Self {
            profile: profile::linux_6_18,
            costs: HostCosts::linux(),
            emulator_delay: Duration::ZERO,
            audit: false,
        }
    }
}

/// How far a run is, in virtual time.
#[derive(Clone, Copy, Debug)]
pub struct VirtualProgress {
    /// Since its start.
    pub elapsed: Duration,
    /// Expected duration; `None` where it depends on the path.
    pub expected: Option<Duration>,
}

const BOTH: [End; 2] = [End::Client, End::Server];

/// Hosts and a path.
#[derive(Debug)]
struct Stage {
    world: World<Program>,
    /// The client's and the server's.
    nodes: [NodeId; 2],
    /// First links of the client and of the server.
    links: (LinkId, LinkId),
    is_emulated: bool,
    machines: [Machine; 2],
    costs: HostCosts,
    /// Address of the server.
    address: SocketAddr,
}

impl Stage {
    /// Starts both programs.
    fn start(&mut self, workload: &Workload) {
        for end in [End::Server, End::Client] {
            let spec = self.program(end, workload);
            self.start_program(end, spec);
        }
    }

    /// Configuration of the program at one end.
    fn program(&self, end: End, workload: &Workload) -> ProgramSpec {
        let machine = self.machines[at(end)].clone();
        ProgramSpec {
            costs: self.costs,
            ..machine.program(end, workload, self.address)
        }
    }

    fn start_program(&mut self, end: End, spec: ProgramSpec) {
        let program = match end {
            End::Client => Program::client(spec),
            End::Server => Program::server(spec),
        };
        self.world.start(self.nodes[at(end)], program);
    }
}

/// The place of an end in what there are two of.
const fn at(end: End) -> usize {
    match end {
        End::Client => 0,
        End::Server => 1,
    }
}

/// Taps at both ends of a path with these first links.
fn add_taps(
    world: &mut World<Program>,
    (forward, reverse): (LinkId, LinkId),
    tap: impl Fn(u32) -> Box<dyn Tap>,
) {
    for (out, back, end) in [(forward, reverse, 0), (reverse, forward, 1)] {
        world.add_tap(out, TapPoint::Entry, tap(end));
        world.add_tap(back, TapPoint::Exit, tap(end));
    }
}

/// A trial that is set up.
#[derive(Debug)]
pub struct VirtualRun {
    world: World<Program>,
    client: NodeId,
    server: NodeId,
    /// First links of the client and of the server.
    links: (LinkId, LinkId),
    workload: Workload,
    is_emulated: bool,
    caveats: Vec<Caveat>,
    course: Course,
}

impl Virtual {
    /// With the times that the kernel engine takes beside those of the path: the work of Linux
    /// hosts, and of the emulator between them.
    #[must_use]
    pub fn with_machine_costs() -> Self {
        Self {
            emulator_delay: EMULATOR_DELAY,
            ..Self::default()
        }
    }

    /// Runs a trial to its end. `stop` ends it early; what was measured until then is returned,
    /// with a caveat. A setting that our stack does not have is a caveat too.
    ///
    /// # Panics
    /// Where bytes, packets or buffers were made or lost on the way: a bug of the stack, after
    /// which no number can be believed.
    pub fn run(
        &self,
        trial: &Trial,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(VirtualProgress),
    ) -> Outcome {
        let mut run = self.prepare(trial);
        run.run(stop, progress);
        run.finish(stop)
    }

    /// Sets a trial up; nothing has happened yet.
    ///
    /// # Panics
    /// Where the trial makes no sense: scenarios check theirs.
    #[must_use]
    pub fn prepare(&self, trial: &Trial) -> VirtualRun {
        let (mut stage, mut caveats) = self.stage(trial);
        caveats.extend(trial.workload.caveat_on_our_stack());
        stage.start(&trial.workload);
        let Stage {
            mut world,
            nodes: [client, server],
            links,
            is_emulated,
            ..
        } = stage;
        world.watch_limits(match trial.workload.sender() {
            End::Client => client,
            End::Server => server,
        });
        VirtualRun {
            world,
            client,
            server,
            links,
            workload: trial.workload.clone(),
            is_emulated,
            caveats,
            course: Course::new(Instant::ZERO, expected(&trial.workload)),
        }
    }

    /// Both hosts with the path between them, and what could not be set. No program runs yet.
    fn stage(&self, trial: &Trial) -> (Stage, Vec<Caveat>) {
        let mut path = Path::of(&trial.path);
        if path.is_emulated {
            path.links.0.delay += self.emulator_delay;
            path.links.1.delay += self.emulator_delay;
        }
        let (machines, caveats) = self.machines(trial, &path);
        let costs = match path.is_emulated {
            true => self.costs,
            false => self.costs.on_one_machine(),
        };
        let mut world = World::new();
        if self.audit {
            world.audit();
        }
        let mut add_host = |at: usize, name: &str| {
            let seed = Rng::new(trial.seed, name).next_u64();
            let config = machines[at].host_config(path.addresses[at], seed);
            let costs = costs.and_per_segment(trial.host(BOTH[at]).cost_per_segment);
            world.add_host(config, costs)
        };
        let nodes = [add_host(0, "client host"), add_host(1, "server host")];
        let links = chain(&mut world, nodes.into(), &[path.links], trial.seed)
            .expect("scenarios check their links");
        if path.is_emulated {
            world.set_interface_rate(links.0, HOST_RATE);
            world.set_interface_rate(links.1, HOST_RATE);
        }
        let address = SocketAddr::new(path.addresses[1], LAB_PORT);
        world.read_links_directly();
        let stage = Stage {
            world,
            nodes,
            links,
            is_emulated: path.is_emulated,
            machines,
            costs,
            address,
        };
        (stage, caveats)
    }

    /// Both hosts to be, with their knobs set, and what could not be set.
    fn machines(&self, trial: &Trial, path: &Path) -> ([Machine; 2], Vec<Caveat>) {
        let mut machines = BOTH.map(|end| {
            let profile = match trial.host(end).profile {
                Some(name) => profile::find(name).expect("scenarios name known profiles"),
                None => (self.profile)(),
            };
            Machine::new(profile, path.mtu).holding(trial.host(end).held)
        });
        let mut caveats = Vec::new();
        // What a program asks of its socket wins over what its host gives all of them.
        for (is_wide, end) in [true, false]
            .into_iter()
            .flat_map(|wide| BOTH.map(|end| (wide, end)))
        {
            let settings = trial.host(end).settings.iter();
            for (knob, value) in settings.filter(|(knob, _)| Machine::is_wide(knob) == is_wide) {
                let ends = if path.is_shared && is_wide {
                    &BOTH[..]
                } else {
                    &[end]
                };
                let refused = set_knob(&mut machines, ends, knob, value).err();
                caveats.extend(refused.map(|why| Caveat::SettingNotApplied {
                    knob: (*knob).to_owned(),
                    why,
                }));
            }
        }
        (machines, caveats)
    }
}

impl VirtualRun {
    /// Shows the packets that the client sends and gets to two taps that `tap` makes, and those of
    /// the server to two others; `tap` hears 0 for the client and 1 for the server.
    pub fn add_taps(&mut self, tap: impl Fn(u32) -> Box<dyn Tap>) {
        add_taps(&mut self.world, self.links, tap);
    }

    /// Tells what happens inside the client to a trace that `trace` makes for 0, and what happens
    /// inside the server to another for 1.
    pub fn set_traces(&mut self, trace: impl Fn(u32) -> Box<dyn Trace>) {
        self.world.set_trace(self.client, trace(0));
        self.world.set_trace(self.server, trace(1));
    }

    /// Runs it to its end.
    pub fn run(&mut self, stop: &AtomicBool, progress: &mut dyn FnMut(VirtualProgress)) {
        let expected = expected(&self.workload);
        let until = Instant::ZERO + expected.map_or(TIME_MAX, |expected| expected + OVERTIME);
        let mut steps = 0;
        let mut turns = None;
        loop {
            // Only a program can end it.
            let turns_before = turns.replace(self.world.turns());
            if turns_before != turns && self.has_ended() {
                return;
            }
            // A look comes with the first step by which it is due, also that of a packet's arrival.
            let look = self.course.next_look().as_nanos();
            let before_look = Instant::from_nanos(look.saturating_sub(1)).min(until);
            steps += match self.world.advance_steps(before_look, LOOK_STEPS - steps) {
                0 if !self.world.step(until) => return,
                0 => 1,
                taken => taken,
            };
            if self.course.is_due(self.world.now()) {
                let queue_bytes = self.queue_bytes();
                let Self { world, course, .. } = self;
                let ends = (self.client, self.server);
                let scene = scene(world, ends, &self.workload, queue_bytes);
                course.look(world.now(), &scene);
            }
            if steps == LOOK_STEPS {
                steps = 0;
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                let elapsed = self.world.now().since(Instant::ZERO);
                progress(VirtualProgress { elapsed, expected });
            }
        }
    }

    /// The programs and their hosts.
    #[must_use]
    pub const fn world(&self) -> &World<Program> {
        &self.world
    }

    /// The hosts of the client and of the server.
    #[must_use]
    pub fn hosts(&self) -> [&Host; 2] {
        [self.client, self.server].map(|node| self.world.host(node))
    }

    /// The outcome.
    ///
    /// # Panics
    /// See [`Virtual::run`].
    #[must_use]
    pub fn finish(mut self, stop: &AtomicBool) -> Outcome {
        self.world.check();
        let now = self.world.now();
        let [client, server] = [self.client, self.server].map(|node| self.program(node));
        let early = client.failure().or(server.failure()).map(str::to_owned);
        let early = early.or_else(|| match client.is_done() {
            true => None,
            false if stop.load(Ordering::Relaxed) => Some("it was stopped".to_owned()),
            false => Some("it does not come to an end".to_owned()),
        });
        let (client, server) = (client.totals(now), server.totals(now));
        let sender = match self.workload.sender() {
            End::Client => self.client,
            End::Server => self.server,
        };
        let queue_bytes = self.queue_bytes();
        let ends = (self.client, self.server);
        let scene = scene(&self.world, ends, &self.workload, queue_bytes);
        let (series, sent) = self.course.finish(now, &scene);
        let mut caveats = self.caveats;
        caveats.extend(early.map(|why| Caveat::EndedEarly { why }));
        let link = |stats: LinkStats| match self.is_emulated {
            true => link_outcome(&stats),
            false => LinkOutcome::default(),
        };
        Outcome {
            goodput_bps: goodput_bps(&self.workload, &client, &server),
            duration_s: client.duration.as_secs_f64(),
            response_us: client.response_us(),
            stall_max_us: Some(stall_max_us(&client, &server)),
            limits: self.world.limit_times(sender).shares(),
            forward: link(self.world.link_stats(self.links.0)),
            reverse: link(self.world.link_stats(self.links.1)),
            caveats,
            sender: sent,
            series,
            ..Outcome::default()
        }
    }

    #[inline]
    fn program(&self, node: NodeId) -> &Program {
        program(&self.world, node)
    }

    /// Bytes queued at the bottleneck in front of the sender; `None` where no link is emulated.
    fn queue_bytes(&mut self) -> Option<u64> {
        let link = match self.workload.sender() {
            End::Client => self.links.0,
            End::Server => self.links.1,
        };
        let is_emulated = self.is_emulated;
        is_emulated.then(|| self.world.link_stats(link).queue_bytes)
    }

    fn has_ended(&self) -> bool {
        let client = self.program(self.client);
        let has_failed = || self.program(self.server).failure().is_some();
        client.is_done() || client.failure().is_some() || has_failed()
    }
}

#[inline]
fn program(world: &World<Program>, node: NodeId) -> &Program {
    world.app(node).expect("both hosts have a program")
}

/// Observable state of a run with these ends.
fn scene<'w>(
    world: &'w World<Program>,
    (client, server): (NodeId, NodeId),
    workload: &Workload,
    queue_bytes: Option<u64>,
) -> Scene<'w> {
    let sender = match workload.sender() {
        End::Client => client,
        End::Server => server,
    };
    let read = |node| program(world, node).counts().received_bytes;
    let (client_read, server_read) = (read(client), read(server));
    Scene {
        program: program(world, sender),
        host: world.host(sender),
        limits: world.limit_times(sender),
        received_bytes: match workload.is_two_way() {
            true => client_read + server_read,
            // The payload of a workload goes one way; what comes back are answers.
            false => client_read.max(server_read),
        },
        queue_bytes,
        span: program(world, client).measured_span(),
    }
}

/// How long a run takes; `None` where that depends on the path.
const fn expected(workload: &Workload) -> Option<Duration> {
    match workload.amount() {
        Amount::Time(time) => Some(WARM_UP.saturating_add(time)),
        Amount::Bytes(_) | Amount::Operations(_) => None,
    }
}

/// Payload per second in the main direction; in a workload both ways, of both together.
fn goodput_bps(workload: &Workload, client: &Totals, server: &Totals) -> u64 {
    let bytes = match workload.is_two_way() {
        true => client.received_bytes + server.received_bytes,
        // The payload of a workload goes one way; what comes back are answers.
        false => client.received_bytes.max(server.received_bytes),
    };
    Rate::of(bytes, client.duration).bits_per_second()
}

/// Longest wait for payload of the end that reads most.
fn stall_max_us(client: &Totals, server: &Totals) -> u64 {
    let reader = if client.received_bytes > server.received_bytes {
        client
    } else {
        server
    };
    u64::try_from(reader.silence_max.as_micros()).unwrap_or(u64::MAX)
}

const fn link_outcome(stats: &LinkStats) -> LinkOutcome {
    LinkOutcome {
        sent: stats.sent,
        delivered: stats.delivered,
        dropped_segments: stats.dropped(),
        queue_dropped_segments: stats.queue_dropped,
        queue_bytes_max: stats.queue_bytes_max,
        lateness_us: None,
    }
}

/// Path between the hosts, and their addresses.
struct Path {
    links: (LinkSpec, LinkSpec),
    addresses: [IpAddr; 2],
    mtu: Bytes,
    is_emulated: bool,
    /// Both programs run on one host.
    is_shared: bool,
}

impl Path {
    fn of(spec: &PathSpec) -> Self {
        let wire = LinkSpec {
            delay: WIRE_DELAY,
            ..LinkSpec::ideal()
        };
        let plain = |addresses, mtu, is_shared| Self {
            links: (wire.clone(), wire.clone()),
            addresses,
            mtu,
            is_emulated: false,
            is_shared,
        };
        let local = |host| IpAddr::V4(Ipv4Addr::new(127, 0, 0, host));
        match spec {
            PathSpec::Loopback => plain([local(1), local(2)], LOOPBACK_MTU, true),
            PathSpec::Veth { mtu } => plain(addresses(false), *mtu, false),
            PathSpec::Emulated {
                mtu,
                forward,
                reverse,
                ipv6,
            } => Self {
                links: (forward.clone(), reverse.clone()),
                addresses: addresses(*ipv6),
                mtu: *mtu,
                is_emulated: true,
                is_shared: false,
            },
        }
    }
}

/// Addresses used by the kernel engine.
fn addresses(ipv6: bool) -> [IpAddr; 2] {
    [1, 2].map(|host: u8| match ipv6 {
        true => IpAddr::V6(Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, host.into())),
        false => IpAddr::V4(Ipv4Addr::new(10, 77, 0, host)),
    })
}

/// Sets a knob at these ends.
fn set_knob(
    machines: &mut [Machine; 2],
    ends: &[End],
    knob: &str,
    value: &KnobValue,
) -> Result<(), String> {
    ends.iter()
        .try_for_each(|end| machines[at(*end)].set(knob, value))
}
