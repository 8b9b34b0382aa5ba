//! A [`Trial`] that keeps running in virtual time: it can be looked at, changed, and looked at
//! again, as an operator does with a connection on real hosts.
//!
//! What a look sees is what `sock_diag` shows of a Linux host: samples of connections at random
//! times, counters and sysctls of the host. What our stack knows beside that (why it waits) is not
//! handed out.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;

use base::{
    FlowKey, FlowSample, HostSample, Instant, KNOBS, KnobError, KnobValue, Rate, Rng, Scope,
};
use serde::{Deserialize, Serialize};
use stack::{Arrived, Host, SocketId};

use super::{BOTH, Stage, Virtual, at, link_outcome, program};
use crate::app::{Program, ProgramSpec, Totals};
use crate::measure::Measure;
use crate::outcome::{Caveat, LinkOutcome};
use crate::trial::{End, Trial};
use crate::world::{NodeId, Tap};

/// Mean sampling interval of connections, drawn from a quarter of it to one and three quarters, as
/// on Linux, so that no timer of TCP is in step with it.
pub const SAMPLE_INTERVAL: Duration = Duration::from_millis(10);
/// Looks that are nearer to each other than this are close: see [`SeenFlow::close`].
const CLOSE_MAX: Duration = Duration::from_millis(5);
/// Sampling interval of a host.
const HOST_INTERVAL: Duration = Duration::from_millis(200);
/// Virtual time after which a wait looks whether it is to be stopped.
const STOP_CHECK: Duration = Duration::from_millis(50);

/// A trial that is running.
#[derive(Debug)]
pub struct VirtualSession {
    pub(super) stage: Stage,
    trial: Trial,
    rng: Rng,
    /// By appearance, from 1 on: what the kernel calls the cookie of a socket.
    cookies: [BTreeMap<SocketId, u64>; 2],
    /// Delayed ACKs counted by connections that are closed by now, when last seen.
    delayed_acks: [BTreeMap<u64, u64>; 2],
    /// The client was started again, so that connections broke which the server cannot help.
    reconnected: bool,
}

/// Scope of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VirtualTarget {
    /// One socket of a host; also a listener, for the connections that it will accept.
    Socket {
        /// Which host.
        end: End,
        /// The socket's number in [`SeenFlow::cookie`] or [`VirtualSession::listener`].
        cookie: u64,
    },
    /// A whole host: what Linux keeps in its routes and sysctls.
    Host(End),
}

/// Why a setting was not changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetError {
    /// The socket is closed.
    Gone,
    /// The knob is unknown to our stack, or has no such value.
    Knob(KnobError),
}

impl core::fmt::Display for SetError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Gone => f.write_str("the connection is closed"),
            Self::Knob(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for SetError {}

impl From<KnobError> for SetError {
    fn from(error: KnobError) -> Self {
        Self::Knob(error)
    }
}

/// Bytes sent and received by one end of a connection until some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrival {
    /// When.
    pub at: Instant,
    /// Payload that has arrived in order, in bytes.
    pub received: u64,
    /// Payload that was sent and has arrived, in bytes.
    pub acked: u64,
    /// The same, with what arrived behind a gap, as full segments.
    pub delivered: u64,
    /// Segments with payload that have arrived, in whatever order.
    pub segments: u64,
}

impl Arrival {
    fn new(at: Instant, arrived: Arrived) -> Self {
        Self {
            at,
            received: arrived.bytes_received,
            acked: arrived.bytes_acked,
            delivered: arrived.delivered_pkts * u64::from(arrived.snd_mss_bytes),
            segments: arrived.data_segs_in,
        }
    }
}

/// One connection as one end of it shows itself.
#[derive(Clone, Debug)]
pub struct SeenFlow {
    /// Its two ends.
    pub key: FlowKey,
    /// Its number on its host.
    pub cookie: u64,
    /// The looks at it in order of time; at least one.
    pub samples: Vec<Arc<FlowSample>>,
    /// Arrivals at times closer than [`SAMPLE_INTERVAL`], where such looks were requested;
    /// everything else is judged at that interval.
    pub close: Vec<Arrival>,
    /// The connection was closed before the look ended.
    pub ended: bool,
}

/// Samples of one host.
#[derive(Clone, Debug, Default)]
pub struct SeenHost {
    /// Its connections in order of appearance.
    pub flows: Vec<SeenFlow>,
    /// The looks at the host in order of time; at least two.
    pub samples: Vec<HostSample>,
}

/// Samples of both ends over the same time.
#[derive(Clone, Debug)]
pub struct VirtualLook {
    /// When it began.
    pub began: Instant,
    /// When it ended.
    pub ended: Instant,
    /// The host of the client.
    pub client: SeenHost,
    /// The host of the server.
    pub server: SeenHost,
    /// Results of the programs in that time.
    pub measure: Measure,
}

impl Virtual {
    /// Sets a trial up and starts its programs, which go on until the session is dropped.
    ///
    /// # Errors
    /// The settings of the trial that our stack does not have.
    ///
    /// # Panics
    /// Where the trial makes no sense: scenarios and faults check theirs.
    pub fn start(&self, trial: &Trial) -> Result<VirtualSession, Vec<Caveat>> {
        let (stage, refused) = self.stage(trial);
        if !refused.is_empty() {
            return Err(refused);
        }
        let mut session = VirtualSession {
            stage,
            trial: trial.clone(),
            rng: Rng::new(trial.seed, "looks"),
            cookies: Default::default(),
            delayed_acks: Default::default(),
            reconnected: false,
        };
        session.start_program(End::Server);
        session.start_program(End::Client);
        Ok(session)
    }
}

impl VirtualSession {
    /// The time.
    #[must_use]
    pub const fn now(&self) -> Instant {
        self.stage.world.now()
    }

    /// Shows the packets from now on that the client sends and gets to two taps that `tap` makes,
    /// and those of the server to two others; `tap` hears 0 for the client and 1 for the server.
    pub fn add_taps(&mut self, tap: impl Fn(u32) -> Box<dyn Tap>) {
        let links = self.stage.links;
        super::add_taps(&mut self.stage.world, links, tap);
    }

    /// Counters of the links since the session began: client to server, and back.
    pub fn links(&mut self) -> (LinkOutcome, LinkOutcome) {
        let (forward, reverse) = self.stage.links;
        let mut outcome = |link| link_outcome(&self.stage.world.link_stats(link));
        (outcome(forward), outcome(reverse))
    }

    /// Lets virtual time pass; `stop` ends it early, and `progress` hears of the time that has
    /// passed.
    pub fn wait(&mut self, time: Duration, stop: &AtomicBool, progress: &mut dyn FnMut(Duration)) {
        let began = self.now();
        let until = began + time;
        while self.now() < until && !stop.load(Ordering::Relaxed) {
            let next = (self.now() + STOP_CHECK).min(until);
            self.stage.world.run_to(next);
            progress(next.since(began));
        }
    }

    /// Looks at both hosts for `time`, at random times of which `interval` is the mean distance;
    /// `stop` ends it early. Where that is a few milliseconds, what arrives is looked at this
    /// often, and all else at [`SAMPLE_INTERVAL`].
    ///
    /// # Errors
    /// Why a program ended before its time.
    pub fn look(
        &mut self,
        (time, interval): (Duration, Duration),
        stop: &AtomicBool,
        progress: &mut dyn FnMut(Duration),
    ) -> Result<VirtualLook, String> {
        let began = self.now();
        let until = began + time;
        let before = BOTH.map(|end| self.totals(end));
        let mut seen: [SeenHost; 2] = Default::default();
        let (mut next_host, mut next_sample) = (began, began);
        let is_close = interval < CLOSE_MAX;
        self.look_until((until, interval), stop, |session, is_last| {
            let now = session.now();
            let host_due = is_last || now >= next_host;
            if host_due {
                next_host = now + HOST_INTERVAL;
            }
            let sample_due = is_last || now >= next_sample;
            if sample_due && is_close {
                next_sample = now + session.sample_distance(SAMPLE_INTERVAL);
            }
            for end in BOTH {
                let seen = &mut seen[at(end)];
                if sample_due || host_due {
                    session.look_at(end, host_due, seen);
                }
                if is_close {
                    session.look_closely_at(end, seen);
                }
            }
            progress(now.since(began));
        });
        self.check_programs()?;
        let [client, server] = seen;
        let [of_client, of_server] = BOTH.map(|end| self.totals(end).since(&before[at(end)]));
        Ok(VirtualLook {
            began,
            ended: self.now(),
            measure: measure(self.now().since(began), [&of_client, &of_server], &client),
            client,
            server,
        })
    }

    /// Calls `look` at random times from now on, and at `until` or where `stop` ends it, which it
    /// is told.
    pub(super) fn look_until(
        &mut self,
        (until, interval): (Instant, Duration),
        stop: &AtomicBool,
        mut look: impl FnMut(&mut Self, bool),
    ) {
        loop {
            let now = self.now();
            let is_last = now >= until || stop.load(Ordering::Relaxed);
            look(self, is_last);
            if is_last {
                return;
            }
            let next = now + self.sample_distance(interval);
            self.stage.world.run_to(next.min(until));
        }
    }

    /// Starts the client's program again: its connections are new ones. The old ones are reset.
    pub fn reconnect(&mut self) {
        self.reconnected = true;
        let client = self.stage.nodes[at(End::Client)];
        // Settings of the host that were changed meanwhile hold for the new connections too.
        let settings = self.program(End::Client).settings().clone();
        self.stage
            .world
            .act(client, |now, host, program| program.kill(now, host));
        self.stage.world.run_to(self.now());
        let spec = ProgramSpec {
            settings,
            ..self.spec(End::Client)
        };
        self.stage.start_program(End::Client, spec);
    }

    /// The number and the address of the socket on which the server listens.
    pub fn listener(&mut self) -> Option<(u64, FlowKey)> {
        let id = self.program(End::Server).listener()?;
        let local = self.stage.address;
        let remote = (core::net::Ipv4Addr::UNSPECIFIED, 0).into();
        let cookie = self.cookie(End::Server, id);
        Some((cookie, FlowKey { local, remote }))
    }

    /// The value of a knob.
    ///
    /// # Errors
    /// [`SetError`].
    pub fn get(&self, target: VirtualTarget, knob: &str) -> Result<KnobValue, SetError> {
        let knob = base::find_knob(knob)?;
        let settings = match target {
            VirtualTarget::Socket { end, cookie } => {
                let (id, host) = (self.socket(end, cookie)?, self.host(end));
                let settings = host.settings(id).or_else(|| host.listener_settings(id));
                settings.ok_or(SetError::Gone)?
            }
            VirtualTarget::Host(end) => self.program(end).settings(),
        };
        Ok(knob.get(settings)?)
    }

    /// Sets a knob, now and while connections are open. What Linux reads in the handshake only
    /// acts on new connections only.
    ///
    /// # Errors
    /// [`SetError`]; then nothing has changed.
    pub fn set(
        &mut self,
        target: VirtualTarget,
        knob: &str,
        value: &KnobValue,
    ) -> Result<(), SetError> {
        let knob = base::find_knob(knob)?;
        let (VirtualTarget::Socket { end, .. } | VirtualTarget::Host(end)) = target;
        let node = self.node(end);
        match target {
            VirtualTarget::Socket { end, cookie } => {
                let id = self.socket(end, cookie)?;
                let world = &mut self.stage.world;
                world.act(node, |now, host, _| host.set(now, id, knob.name, value))?;
            }
            VirtualTarget::Host(_) => self.stage.world.act(node, |now, host, program| {
                knob.set(program.settings_mut(), value)?;
                let sockets: Vec<SocketId> = host.sockets().collect();
                let is_open = |id| Some(id) != program.listener();
                for id in sockets {
                    if is_open(id) && NEW_CONNECTIONS_ONLY.contains(&knob.name) {
                        continue;
                    }
                    host.set(now, id, knob.name, value)?;
                }
                Ok::<_, KnobError>(())
            })?,
        }
        let now = self.now();
        self.stage.world.run_to(now);
        Ok(())
    }

    #[inline]
    fn program(&self, end: End) -> &Program {
        program(&self.stage.world, self.node(end))
    }

    fn host(&self, end: End) -> &Host {
        self.stage.world.host(self.node(end))
    }

    pub(super) const fn node(&self, end: End) -> NodeId {
        self.stage.nodes[at(end)]
    }

    /// A program that runs until it is ended: all of its time counts.
    fn spec(&self, end: End) -> ProgramSpec {
        ProgramSpec {
            warmup: Duration::ZERO,
            ..self.stage.program(end, &self.trial.workload)
        }
    }

    fn start_program(&mut self, end: End) {
        let spec = self.spec(end);
        self.stage.start_program(end, spec);
    }

    fn totals(&self, end: End) -> Totals {
        self.program(end).totals(self.now())
    }

    fn check_programs(&self) -> Result<(), String> {
        let client = self.program(End::Client).failure();
        let server = self.program(End::Server).failure();
        let server = server.filter(|_| !self.reconnected);
        client.or(server).map_or(Ok(()), |why| Err(why.to_owned()))
    }

    fn sample_distance(&mut self, mean: Duration) -> Duration {
        let mean = u64::try_from(mean.as_nanos()).unwrap_or(u64::MAX / 4);
        Duration::from_nanos(mean / 4 + self.rng.below(mean + mean / 2))
    }

    fn cookie(&mut self, end: End, id: SocketId) -> u64 {
        let cookies = &mut self.cookies[at(end)];
        let next = cookies.len() as u64 + 1;
        *cookies.entry(id).or_insert(next)
    }

    fn socket(&self, end: End, cookie: u64) -> Result<SocketId, SetError> {
        let mut all = self.cookies[at(end)].iter();
        all.find_map(|(id, own)| (*own == cookie).then_some(*id))
            .ok_or(SetError::Gone)
    }

    /// One look at one host.
    fn look_at(&mut self, end: End, with_host: bool, seen: &mut SeenHost) {
        let now = self.now();
        let host = self.host(end);
        let present: Vec<(SocketId, FlowSample, u64)> = host
            .sockets()
            .filter_map(|id| Some((id, host.sample(now, id)?, delayed_acks(host, id))))
            .collect();
        for flow in &mut seen.flows {
            flow.ended = true;
        }
        for (id, sample, delayed) in present {
            let cookie = self.cookie(end, id);
            self.delayed_acks[at(end)].insert(cookie, delayed);
            let sample = FlowSample {
                cookie: Some(cookie),
                // A kernel does not tell.
                limit: None,
                ..sample
            };
            match seen.flows.iter_mut().find(|flow| flow.cookie == cookie) {
                Some(flow) => {
                    flow.ended = false;
                    flow.samples.push(Arc::new(sample));
                }
                None => seen.flows.push(SeenFlow {
                    key: sample.key,
                    cookie,
                    samples: vec![Arc::new(sample)],
                    close: Vec::new(),
                    ended: false,
                }),
            }
        }
        if with_host {
            seen.samples.push(self.host_sample(end));
        }
    }

    /// One look at what has arrived at one host; connections show themselves first in a look at all
    /// that they tell.
    fn look_closely_at(&self, end: End, seen: &mut SeenHost) {
        let (now, host) = (self.now(), self.host(end));
        let cookies = &self.cookies[at(end)];
        for id in host.sockets() {
            let flow = cookies.get(&id).and_then(|cookie| {
                let mut flows = seen.flows.iter_mut();
                flows.find(|flow| flow.cookie == *cookie)
            });
            if let Some((flow, arrived)) = flow.zip(host.arrived(id)) {
                flow.close.push(Arrival::new(now, arrived));
            }
        }
    }

    fn host_sample(&self, end: End) -> HostSample {
        let settings = self.program(end).settings();
        let sysctl = |knob: &base::Knob| {
            let value = knob.get(settings).ok()?;
            Some((knob.name.to_owned(), sysctl_text(&value)))
        };
        let delayed = self.delayed_acks[at(end)].values().sum();
        HostSample {
            listeners: Vec::new(),
            ports: None,
            at: self.now(),
            counters: [("TcpExtDelayedACKs".to_owned(), delayed)].into(),
            links: Vec::new(),
            sysctls: KNOBS
                .iter()
                .filter(|knob| knob.scope >= Scope::Namespace)
                .filter_map(sysctl)
                .collect(),
        }
    }
}

/// Settings that Linux reads when a connection is made, but our stack at once (`tcp_ca_dst_init`,
/// `tcp_assign_congestion_control`).
const NEW_CONNECTIONS_ONLY: &[&str] = &["route.congctl", "net.ipv4.tcp_congestion_control"];

/// The value in the format of `/proc/sys`.
fn sysctl_text(value: &KnobValue) -> String {
    match value {
        KnobValue::Flag(on) => u8::from(*on).to_string(),
        other => other.to_string(),
    }
}

fn delayed_acks(host: &Host, id: SocketId) -> u64 {
    let counters = host.connection_counters(id);
    counters.map_or(0, |counters| counters.recv.acks.delayed)
}

fn measure(time: Duration, [client, server]: [&Totals; 2], seen: &SeenHost) -> Measure {
    let response_us = client.response_us();
    let seconds = time.as_secs_f64();
    let rate = |end: &Totals| Rate::of(end.received_bytes, time).bits_per_second();
    let mut srtts: Vec<u64> = seen
        .flows
        .iter()
        .flat_map(|flow| &flow.samples)
        .filter_map(|sample| sample.srtt)
        .map(|srtt| u64::try_from(srtt.as_micros()).unwrap_or(u64::MAX))
        .collect();
    srtts.sort_unstable();
    Measure {
        duration_s: seconds,
        // The payload of a workload goes one way; what comes back are answers.
        goodput_bps: rate(server).max(rate(client)),
        busy_goodput_bps: None,
        operations_per_s: response_us.map(|_| client.operations as f64 / seconds),
        response_us,
        srtt_us: srtts.get(srtts.len() / 2).copied(),
        local_drops_pkts: 0,
        ..Measure::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find_fault;

    const SECOND: Duration = Duration::from_secs(1);

    fn session(fault: &str) -> VirtualSession {
        let fault = find_fault(fault).expect("a row of the table");
        let mut session = Virtual::default()
            .start(&fault.trial())
            .expect("our stack has its settings");
        session.wait(SECOND, &AtomicBool::new(false), &mut |_| ());
        session
    }

    fn look(session: &mut VirtualSession) -> VirtualLook {
        let stop = AtomicBool::new(false);
        session
            .look((SECOND, SAMPLE_INTERVAL), &stop, &mut |_| ())
            .expect("they run")
    }

    fn p50(session: &mut VirtualSession) -> u64 {
        look(session).measure.response_us.expect("operations").p50
    }

    fn client_socket(session: &mut VirtualSession) -> VirtualTarget {
        let cookie = look(session).client.flows[0].cookie;
        let end = End::Client;
        VirtualTarget::Socket { end, cookie }
    }

    #[test]
    fn a_look_shows_what_a_kernel_shows_and_not_what_our_stack_knows_beside() {
        let look = look(&mut session("nagle"));
        let [client, server] = [&look.client, &look.server];
        assert_eq!((client.flows.len(), server.flows.len()), (1, 1));
        let flow = &client.flows[0];
        assert_eq!(flow.key, server.flows[0].key.reversed());
        assert!((60..200).contains(&flow.samples.len()), "every 10 ms or so");
        assert!(flow.samples.is_sorted_by_key(|sample| sample.at));
        assert!(flow.samples.iter().all(|sample| sample.limit.is_none()));
        assert!(!flow.ended);
        let delayed = |at: usize| server.samples[at].counters["TcpExtDelayedACKs"];
        assert!(delayed(server.samples.len() - 1) > delayed(0) + 10);
        let rmem = &server.samples[0].sysctls["net.ipv4.tcp_rmem"];
        assert!(rmem.starts_with("4096 131072 "), "{rmem}");
        assert_eq!(look.measure.duration_s, 1.0);
    }

    #[test]
    fn the_same_session_shows_the_same() {
        let [mut one, mut other] = [session("loss"), session("loss")];
        let shown = |session: &mut VirtualSession| format!("{:?}", look(session));
        assert_eq!(shown(&mut one), shown(&mut other));
    }

    #[test]
    fn a_change_of_a_socket_acts_at_once_and_can_be_taken_back() {
        let mut session = session("nagle");
        let target = client_socket(&mut session);
        assert!(p50(&mut session) > 40_000);
        let old = session.get(target, "nodelay").expect("it is open");
        session
            .set(target, "nodelay", &KnobValue::Flag(true))
            .expect("it is open");
        assert!(p50(&mut session) < 1_000);
        session.set(target, "nodelay", &old).expect("it is open");
        look(&mut session);
        assert!(p50(&mut session) > 40_000);
    }

    #[test]
    fn new_connections_have_what_was_set_on_their_host_or_listener() {
        let mut session = session("rcvbuf");
        let open = client_socket(&mut session);
        let before = look(&mut session).measure.goodput_bps;
        let (cookie, _) = session.listener().expect("the server listens");
        let end = End::Server;
        let listener = VirtualTarget::Socket { end, cookie };
        let none = KnobValue::Number(0);
        session.set(listener, "buf_lock", &none).expect("a value");
        assert!(look(&mut session).measure.goodput_bps < before * 11 / 10);
        let host = VirtualTarget::Host(End::Client);
        let reno = KnobValue::Name("reno".into());
        session.set(host, "route.congctl", &reno).expect("a value");
        let unchanged = session.get(open, "congestion").expect("it is open");
        assert_ne!(unchanged, reno, "what is open keeps its own");
        session.reconnect();
        session.wait(SECOND, &AtomicBool::new(false), &mut |_| ());
        let after = look(&mut session);
        assert!(after.measure.goodput_bps > before * 3);
        let congestion = after.client.flows.last().expect("a new one").samples[0].clone();
        assert_eq!(congestion.congestion.as_deref(), Some("newreno"));
        assert_eq!(session.get(open, "nodelay"), Err(SetError::Gone));
    }

    #[test]
    fn what_our_stack_lacks_is_refused() {
        let mut session = session("nagle");
        let host = VirtualTarget::Host(End::Client);
        let refused = session.set(host, "qdisc.limit", &KnobValue::Number(1));
        assert!(matches!(refused, Err(SetError::Knob(_))), "{refused:?}");
        let gone = VirtualTarget::Socket {
            end: End::Client,
            cookie: 99,
        };
        let set = session.set(gone, "nodelay", &KnobValue::Flag(true));
        assert_eq!(set, Err(SetError::Gone));
    }
}
