//! One end of a workload: opens or takes connections, and runs a thread for each.

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::BTreeMap;

use base::Instant;
use base::settings::SocketSettings;
use stack::{Event, Host, ListenOptions, SocketId};

use super::course::MeasuredSpan;
use super::flow::Flow;
use super::ledger::{Account, Ends, Ledger};
use super::owners::Owners;
use super::session::{Counts, Cut, Schedule, Session, Totals};
use super::thread::{Env, Thread, Turn};
use super::{App, HostCosts, pattern, script};
use crate::agenda::Agenda;
use crate::workload::{Amount, Workload};

/// Port on which the servers of labs listen.
pub const LAB_PORT: u16 = 5201;
/// Connections that may wait to be accepted.
const BACKLOG: u32 = 1024;
/// The number of the thread that opens or takes connections.
const MAIN: usize = 0;

/// Configuration of a program.
#[derive(Clone, Debug)]
pub struct ProgramSpec {
    /// The traffic.
    pub workload: Workload,
    /// The server's listening address.
    pub address: SocketAddr,
    /// Settings of its sockets: of the listener and, through it, of accepted ones.
    pub settings: SocketSettings,
    /// `TCP_QUICKACK` is set to this before every read.
    pub quickack: Option<bool>,
    /// The server corks the connections that it accepts.
    pub corks_accepted: bool,
    /// Time that does not count.
    pub warmup: Duration,
    /// Duration of its system calls.
    pub costs: HostCosts,
    /// The other end is a [`Program`] too, so what arrives must be what it wrote.
    pub checks_payload: bool,
}

/// The client or the server of a workload.
#[derive(Debug)]
pub struct Program {
    spec: ProgramSpec,
    role: Role,
    session: Session,
    /// By their number less one.
    threads: Vec<Option<Box<Thread>>>,
    free: Vec<usize>,
    /// When each thread goes on.
    ready: Agenda,
    owners: Owners,
    ledger: Ledger,
    /// The thread whose connection is watched.
    watched: usize,
}

#[derive(Debug)]
enum Role {
    Client(Opening),
    Server {
        listener: Option<SocketId>,
        /// The first connection of a pair.
        partner: Option<Flow>,
    },
}

/// How far the client is with opening its connections, one after the other.
#[derive(Debug, Default)]
struct Opening {
    dialled_at: Instant,
    dialling: Option<SocketId>,
    connected: bool,
    flows: Vec<Flow>,
    done: bool,
}

impl Program {
    /// The end that opens connections. It ends by itself.
    #[must_use]
    pub fn client(spec: ProgramSpec) -> Self {
        Self::new(spec, Role::Client(Opening::default()), true)
    }

    /// The end that listens. It serves as long as it is asked to.
    #[must_use]
    pub fn server(spec: ProgramSpec) -> Self {
        let role = Role::Server {
            listener: None,
            partner: None,
        };
        Self::new(spec, role, false)
    }

    fn new(spec: ProgramSpec, role: Role, stop_at_end: bool) -> Self {
        let time = match spec.workload.amount() {
            Amount::Time(time) => Some(time),
            Amount::Bytes(_) | Amount::Operations(_) => None,
        };
        pattern::prepare();
        let mut ready = Agenda::default();
        assert_eq!(ready.join(), MAIN);
        Self {
            session: Session::new(Schedule {
                warmup: spec.warmup,
                time,
                stop_at_end,
            }),
            spec,
            role,
            threads: Vec::new(),
            free: Vec::new(),
            ready,
            owners: Owners::default(),
            ledger: Ledger::default(),
            watched: MAIN,
        }
    }

    /// Counters so far.
    #[must_use]
    pub fn totals(&self, now: Instant) -> Totals {
        self.session.totals(now)
    }

    /// Counters, warm-up included.
    #[must_use]
    pub const fn counts(&self) -> Counts {
        self.session.all()
    }

    /// Why a connection broke before the end, where one did.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        self.session.failure()
    }

    /// Whether the measured time is over.
    #[must_use]
    pub fn is_over(&self, now: Instant) -> bool {
        self.session.is_over(now)
    }

    /// When the time that counts begins, and when it ends where that is planned; `None` before the
    /// first connection is open.
    #[must_use]
    pub fn measured_span(&self) -> Option<MeasuredSpan> {
        self.session.measured_span()
    }

    /// Whether there is time at the start that does not count.
    #[must_use]
    pub const fn warms_up(&self) -> bool {
        self.session.warms_up()
    }

    /// Settings of sockets that it will open.
    #[must_use]
    pub const fn settings(&self) -> &SocketSettings {
        &self.spec.settings
    }

    /// As [`Program::settings`], to be changed.
    pub const fn settings_mut(&mut self) -> &mut SocketSettings {
        &mut self.spec.settings
    }

    /// The socket on which a server listens.
    #[must_use]
    pub const fn listener(&self) -> Option<SocketId> {
        match self.role {
            Role::Client(_) => None,
            Role::Server { listener, .. } => listener,
        }
    }

    /// Ends as a program that is killed: its connections are reset.
    pub fn kill(&mut self, now: Instant, host: &mut Host) {
        for id in core::mem::take(&mut self.owners).into_sockets() {
            host.abort(now, id);
        }
        self.threads.clear();
        self.ready = Agenda::default();
        assert_eq!(self.ready.join(), MAIN);
    }

    /// The connections that it has now.
    pub fn sockets(&self) -> impl Iterator<Item = SocketId> + '_ {
        self.threads
            .iter()
            .flatten()
            .flat_map(|thread| thread.sockets())
    }

    pub(crate) fn accounts(&self, host: &Host) -> BTreeMap<Ends, Account> {
        let open = self
            .threads
            .iter()
            .flatten()
            .flat_map(|thread| &thread.flows);
        self.ledger.accounts(host, open)
    }

    fn main(&mut self, now: Instant, host: &mut Host) {
        if matches!(self.role, Role::Client(_)) {
            self.open_next(now, host);
        } else {
            self.accept_next(now, host);
        }
    }

    /// Opens the next connection, or begins when all are open.
    fn open_next(&mut self, now: Instant, host: &mut Host) {
        let Role::Client(opening) = &mut self.role else {
            return;
        };
        match (opening.dialling, opening.connected) {
            (Some(_), false) => return,
            (Some(id), true) => {
                let amount = self.spec.workload.amount();
                let flow = Flow::new(id, amount, self.spec.quickack);
                opening.flows.push(flow);
                (opening.dialling, opening.connected) = (None, false);
            }
            (None, _) => opening.dialled_at = now,
        }
        if opening.flows.len() == self.spec.workload.connections() as usize {
            opening.done = true;
            let flows = core::mem::take(&mut opening.flows);
            let dialled_at = opening.dialled_at;
            self.begin(now, flows, dialled_at);
            return;
        }
        match host.connect(now, self.spec.address, self.spec.settings.clone()) {
            Ok(id) => {
                opening.dialling = Some(id);
                self.owners.insert(id, MAIN);
            }
            Err(error) => {
                opening.done = true;
                self.session.fail(format!("{}: {error}", self.spec.address));
            }
        }
    }

    /// Starts a thread for each flow, or for each pair of a workload that takes two.
    fn begin(&mut self, now: Instant, flows: Vec<Flow>, dialled_at: Instant) {
        let per_thread = self.spec.workload.connections_per_thread();
        let mut flows = flows.into_iter().peekable();
        let mut index = 0;
        while flows.peek().is_some() {
            let own: Vec<Flow> = flows.by_ref().take(per_thread).collect();
            let script = script::client(&self.spec.workload, index, dialled_at);
            let member = self.spawn(now, Thread::new(own, script));
            if index == 0 {
                self.watched = member;
            }
            index += 1;
        }
    }

    /// Takes the next connection, and begins with it.
    fn accept_next(&mut self, now: Instant, host: &mut Host) {
        let one_by_one = self.spec.workload.redials();
        if one_by_one && !self.session.is_idle() {
            return;
        }
        let Role::Server {
            listener: Some(listener),
            partner,
        } = &mut self.role
        else {
            return;
        };
        let Some(id) = host.accept(now, *listener) else {
            return;
        };
        if self.spec.corks_accepted {
            host.configure(now, id, |settings| settings.small_writes.cork = true);
        }
        let flow = Flow::new(id, self.spec.workload.amount(), self.spec.quickack);
        self.ready.set(MAIN, Some(now + self.spec.costs.call(0)));
        let flows = match partner.take() {
            None if self.spec.workload.connections_per_thread() == 2 => {
                *partner = Some(flow);
                return;
            }
            None => vec![flow],
            Some(first) => vec![first, flow],
        };
        let script = script::server(&self.spec.workload, self.spec.warmup);
        let member = self.spawn(now, Thread::new(flows, script));
        if self.watched == MAIN || one_by_one {
            self.watched = member;
        }
    }

    fn spawn(&mut self, now: Instant, thread: Thread) -> usize {
        let member = self.free.pop().unwrap_or_else(|| {
            self.threads.push(None);
            self.ready.join()
        });
        for id in thread.sockets() {
            self.owners.insert(id, member);
        }
        self.threads[member - 1] = Some(Box::new(thread));
        self.ready.set(member, Some(now));
        self.session.enter(now);
        member
    }

    /// Lets a thread make its next call.
    fn turn(&mut self, now: Instant, host: &mut Host, own: usize) {
        let Some(mut thread) = self.threads[own - 1].take() else {
            return;
        };
        thread.blocked = false;
        let mut env = Env {
            now,
            host,
            session: &mut self.session,
            owners: &mut self.owners,
            ledger: &mut self.ledger,
            remote: self.spec.address,
            settings: &self.spec.settings,
            checks_payload: self.spec.checks_payload,
            own,
        };
        let at = match thread.turn(&mut env) {
            Turn::Called(bytes) => Some(now + self.spec.costs.call(bytes)),
            Turn::Sleeping(at) => Some(at),
            Turn::Blocked => {
                thread.blocked = true;
                None
            }
            Turn::Ended => {
                thread.close(&mut env);
                return self.leave(now, own);
            }
            Turn::Failed(why) => {
                thread.close(&mut env);
                if !self.session.is_over(now) {
                    self.session.fail(format!("{}: {why}", self.spec.address));
                }
                return self.leave(now, own);
            }
        };
        self.ready.set(own, at);
        self.threads[own - 1] = Some(thread);
    }

    fn leave(&mut self, now: Instant, own: usize) {
        self.ready.set(own, None);
        self.free.push(own);
        self.session.leave(now);
        if matches!(self.role, Role::Server { .. }) {
            // One by one: the next connection may wait already.
            self.ready.set(MAIN, Some(now));
        }
    }

    fn on_cut(&mut self, now: Instant, host: &mut Host, cut: Cut) {
        for own in 1..=self.threads.len() {
            let Some(thread) = &mut self.threads[own - 1] else {
                continue;
            };
            match cut {
                Cut::Measure => {}
                Cut::End if thread.is_sleeping() => self.ready.set(own, Some(now)),
                Cut::End => {}
                Cut::Abort => {
                    let sockets: Vec<SocketId> = thread.sockets().collect();
                    for id in sockets {
                        host.abort(now, id);
                        self.owners.remove(id);
                    }
                    self.threads[own - 1] = None;
                    self.leave(now, own);
                }
            }
        }
    }

    /// An event for the thread that opens or takes connections.
    fn wake_main(&mut self, now: Instant, event: Event) {
        match (&mut self.role, event) {
            (Role::Client(opening), Event::Connected) => opening.connected = true,
            (Role::Client(opening), Event::Failed(failure)) => {
                opening.done = true;
                let why = format!("{}: {failure}", self.spec.address);
                return self.session.fail(why);
            }
            (Role::Server { .. }, Event::Acceptable) => {}
            _ => return,
        }
        self.wake(MAIN, now);
    }

    /// When a call is due; [`Instant::MAX`]: never.
    #[inline]
    fn next_call(&mut self) -> Instant {
        let cut = self.session.next_cut().unwrap_or(Instant::MAX);
        self.ready.next_at().min(cut)
    }

    /// Makes the call that is due: what the time cuts comes first.
    fn call_due(&mut self, now: Instant, host: &mut Host) {
        if let Some(cut) = self.session.take_cut(now) {
            return self.on_cut(now, host, cut);
        }
        match self.ready.pop_due(now) {
            None => {}
            Some(MAIN) => self.main(now, host),
            Some(own) => self.turn(now, host, own),
        }
    }

    fn wake(&mut self, member: usize, now: Instant) {
        if self.ready.deadline(member).is_none() {
            self.ready.set(member, Some(now + self.spec.costs.wake));
        }
    }
}

impl App for Program {
    fn start(&mut self, now: Instant, host: &mut Host) {
        if let Role::Server { listener, .. } = &mut self.role {
            let options = ListenOptions::new(self.spec.settings.clone()).with_backlog(BACKLOG);
            match host.listen(self.spec.address, options) {
                Ok(id) => {
                    self.owners.insert(id, MAIN);
                    *listener = Some(id);
                }
                Err(error) => self.session.fail(format!("{}: {error}", self.spec.address)),
            }
        }
        self.ready.set(MAIN, Some(now));
    }

    fn handle_event(&mut self, now: Instant, id: SocketId, event: Event) {
        let Some(member) = self.owners.find(id) else {
            return;
        };
        if member == MAIN {
            return self.wake_main(now, event);
        }
        let Some(thread) = &mut self.threads[member - 1] else {
            return;
        };
        match event {
            Event::Connected => thread.on_connected(id),
            Event::Failed(failure) => thread.on_failed(id, failure),
            _ => {}
        }
        if thread.blocked {
            self.wake(member, now);
        }
    }

    #[inline]
    fn call(&mut self, now: Instant, host: &mut Host) -> bool {
        let is_due = self.next_call() <= now;
        if is_due {
            self.call_due(now, host);
        }
        is_due
    }

    #[inline]
    fn poll_timeout(&mut self) -> Option<Instant> {
        let next = self.next_call();
        (next < Instant::MAX).then_some(next)
    }

    fn is_done(&self) -> bool {
        match &self.role {
            Role::Client(opening) => opening.done && self.session.is_idle(),
            Role::Server { .. } => false,
        }
    }

    fn watched(&self, now: Instant) -> Option<(SocketId, bool)> {
        let thread = self.threads.get(self.watched.checked_sub(1)?)?.as_ref()?;
        Some((thread.sockets().next()?, self.session.counts(now)))
    }
}
