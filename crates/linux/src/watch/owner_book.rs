//! Owners of watched connections, and the socket options that only the owners' descriptors show.
//!
//! Looking through all of `/proc` can cost more than the rest of the watching together. So it is
//! done only when a new flow needs it, first in the processes that hold watched flows already (a
//! client that reconnects), and never for more than a small share of the time.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base::{FlowSample, Instant, ListenerSample, Rate, TcpState};
use doctor::{SocketOwner, Track};

use crate::clock::{Clock, thread_cpu_time};
use crate::error::{Error, Result};
use crate::process::{SocketOwners, process_cpu_time};
use crate::remote_socket::OwnerProcess;
use crate::sock_diag::{accepts, preference};

/// A full look through `/proc` takes at most one part in this many of the time.
const SHARE_ALL: u32 = 10;
const SHARE_NEAR: u32 = 20;
/// With more processes than this a look at all is hardly dearer.
const NEAR_PROCESSES_MAX: usize = 64;
/// By then a program has set the options of a new socket.
const OPTIONS_SETTLED: Duration = Duration::from_millis(500);
/// Distance of two readings of a process's processor time.
const CPU_TIME_EVERY: Duration = Duration::from_millis(100);
/// A reading this old serves other flows of the same look.
const CPU_TIME_AGE: Duration = Duration::from_millis(2);
/// Each held process costs a descriptor.
const HELD_PROCESSES_MAX: usize = 256;

/// Options of this many sockets are read anew in each watch. Those of more are taken over from the
/// last one until they are so old, and up to as much again, so that not all are read at once.
const OPTIONS_READ_ANEW: usize = 500;
const OPTIONS_AGE: Duration = Duration::from_secs(30);

/// Socket owners and options carried over from one watch of a namespace to the next: with thousands
/// of sockets, finding them out costs more than sampling for some seconds.
#[derive(Debug, Default)]
pub struct KnownOwners(Mutex<OwnerBook>);

impl KnownOwners {
    fn lock(&self) -> MutexGuard<'_, OwnerBook> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the owners known so far, for a watch.
    pub(super) fn take(&self) -> OwnerBook {
        std::mem::take(&mut *self.lock())
    }

    /// Returns the owners known to a watch at its end, for the connections that it saw last.
    pub(super) fn put(&self, book: OwnerBook, tracks: &[Track]) {
        *self.lock() = book.of_those_left(tracks);
    }
}

/// Options that only the owner's descriptor shows, and when they were read.
#[derive(Debug)]
struct Options {
    read: Instant,
    nodelay: Option<bool>,
    cork: Option<bool>,
    sndbuf_locked: Option<bool>,
    rcvbuf_locked: Option<bool>,
    notsent_lowat_bytes: Option<u32>,
    max_pacing_rate: Option<Rate>,
}

impl Options {
    fn of(sample: &FlowSample) -> Self {
        Self {
            read: sample.at,
            nodelay: sample.nodelay,
            cork: sample.cork,
            sndbuf_locked: sample.sndbuf_locked,
            rcvbuf_locked: sample.rcvbuf_locked,
            notsent_lowat_bytes: sample.notsent_lowat_bytes,
            max_pacing_rate: sample.max_pacing_rate,
        }
    }

    fn fill(&self, sample: &mut FlowSample) {
        let Self {
            read: _,
            nodelay,
            cork,
            sndbuf_locked,
            rcvbuf_locked,
            notsent_lowat_bytes,
            max_pacing_rate,
        } = *self;
        (sample.nodelay, sample.cork) = (nodelay, cork);
        (sample.sndbuf_locked, sample.rcvbuf_locked) = (sndbuf_locked, rcvbuf_locked);
        sample.notsent_lowat_bytes = notsent_lowat_bytes;
        sample.max_pacing_rate = max_pacing_rate;
    }
}

/// Keeps a repeated chore to a share of the time.
#[derive(Debug, Default)]
pub(super) struct Pace {
    last: Option<(Instant, Duration)>,
    cpu: Duration,
}

impl Pace {
    /// Whether the chore may run again, if it may take one part in `share` of the time.
    pub(super) fn is_due(&self, now: Instant, share: u32) -> bool {
        self.last
            .is_none_or(|(end, cost)| now.since(end) >= cost * share)
    }

    /// When it was done last.
    pub(super) fn last_end(&self) -> Option<Instant> {
        self.last.map(|(end, _)| end)
    }

    /// Duration of the chore when it last ran.
    pub(super) fn cost(&self) -> Duration {
        self.last.map_or(Duration::ZERO, |(_, cost)| cost)
    }

    /// The CPU time of it, which is less where others are busy too.
    pub(super) const fn cpu_cost(&self) -> Duration {
        self.cpu
    }

    pub(super) fn run<T>(&mut self, chore: impl FnOnce() -> T) -> T {
        let (begin, cpu) = (Clock.now(), thread_cpu_time());
        let result = chore();
        let end = Clock.now();
        self.last = Some((end, end.since(begin)));
        self.cpu = thread_cpu_time().saturating_sub(cpu);
        result
    }
}

/// Knowledge about the owner of a socket.
pub(super) enum Known<'b> {
    /// These hold it.
    Owners(&'b [SocketOwner]),
    /// No process that we may inspect does.
    Nobody,
    /// Not looked up yet.
    NotYet,
}

#[derive(Debug, Default)]
pub(super) struct OwnerBook {
    owners: SocketOwners,
    /// What listens on each port, at which address, with the inodes.
    listeners: BTreeMap<u16, Vec<(IpAddr, u64)>>,
    /// Sockets whose owner is to be looked up.
    wanted: BTreeSet<u64>,
    /// Sockets that a full look did not find.
    nobodys: BTreeSet<u64>,
    /// The process whose connections are asked for, where it is one.
    asked: Option<u32>,
    /// Processes that hold watched flows.
    near: BTreeSet<u32>,
    held: BTreeMap<u32, OwnerProcess>,
    /// How often the options of a flow were read before this watch, by its cookie.
    reads: BTreeMap<u64, u8>,
    /// Options read last.
    options: BTreeMap<u64, Options>,
    /// Processor time by process, with the time of its reading.
    cpu_times: BTreeMap<u32, (Instant, Option<Duration>)>,
    pace_near: Pace,
    pace_all: Pace,
    /// Watches that share the time for looking through `/proc`; 0 counts as 1.
    watches: u32,
}

impl OwnerBook {
    /// Looks at this process first, where there is one.
    pub(super) fn note_process(&mut self, pid: Option<u32>) {
        self.asked = pid;
        self.near.extend(pid);
    }

    /// Takes only its part of the time for looking through `/proc`: this many watches do.
    pub(super) const fn note_watches(&mut self, watches: u32) {
        self.watches = watches;
    }

    /// The part that concerns these connections, for the next watch. Options of many are read
    /// through descriptors no more often than they age.
    fn of_those_left(self, tracks: &[Track]) -> Self {
        let left = || tracks.iter().filter(|track| !track.ended);
        let inodes: BTreeSet<u64> = left()
            .filter_map(|track| track.samples.last()?.inode)
            .collect();
        let mut options = self.options;
        let reads: BTreeMap<u64, u8> = if options.len() <= OPTIONS_READ_ANEW {
            options.clear();
            BTreeMap::new()
        } else {
            let kept = left().filter_map(|track| {
                let last = track.samples.last()?.at;
                let age = last.since(options.get(&track.cookie)?.read);
                let more = Duration::from_secs(track.cookie % OPTIONS_AGE.as_secs());
                (age < OPTIONS_AGE + more).then_some((track.cookie, u8::MAX))
            });
            kept.collect()
        };
        options.retain(|cookie, _| reads.contains_key(cookie));
        let mut owners = self.owners;
        let listeners = self.listeners.values().flatten();
        let listen: BTreeSet<u64> = listeners.map(|(_, inode)| *inode).collect();
        owners.retain(|inode| inodes.contains(&inode) || listen.contains(&inode));
        Self {
            owners,
            listeners: self.listeners,
            reads,
            options,
            asked: self.asked,
            near: self.near,
            held: self.held,
            pace_near: self.pace_near,
            pace_all: self.pace_all,
            watches: self.watches,
            // Who could not be found may be by now.
            wanted: BTreeSet::new(),
            nobodys: BTreeSet::new(),
            cpu_times: BTreeMap::new(),
        }
    }

    pub(super) const fn unseen_processes(&self) -> usize {
        self.owners.unseen_processes()
    }

    /// Takes in who may have accepted connections: what listens now, and the inodes.
    pub(super) fn note_listeners(&mut self, listeners: &[(ListenerSample, Option<u64>)]) {
        self.listeners.clear();
        for (listener, inode) in listeners {
            let at = listener.local;
            let there = self.listeners.entry(at.port()).or_default();
            there.extend(inode.map(|inode| (at.ip(), inode)));
        }
    }

    /// The inode of what listens where a connection was accepted, if one socket alone does. Of
    /// several (`SO_REUSEPORT`) any may have been it: that of the process that is asked for, as of
    /// workers that share one socket each counts for any of them.
    fn listener_at(&self, local: SocketAddr) -> Option<u64> {
        let ip = local.ip();
        let listeners = self.listeners.get(&local.port())?;
        let rank = |at: IpAddr| preference(at, ip);
        let mut here: Vec<_> = listeners
            .iter()
            .filter(|(at, _)| accepts(*at, ip))
            .collect();
        here.sort_by_key(|(at, _)| rank(*at));
        let (first, _) = here.first()?;
        let first = rank(*first);
        here.retain(|(at, _)| rank(*at) == first);
        let is_asked = |inode: u64| {
            let owners = self.owners.of(inode).iter();
            self.asked.is_some()
                && owners
                    .map(SocketOwner::pid)
                    .any(|pid| Some(pid) == self.asked)
        };
        match here[..] {
            [(_, inode)] => Some(*inode),
            _ => here
                .iter()
                .map(|(_, inode)| *inode)
                .find(|inode| is_asked(*inode)),
        }
    }

    /// Whether a connection without an owner was accepted by a socket that has one.
    pub(super) fn accepted(&self, sample: &FlowSample) -> bool {
        let listener = self.listener_at(sample.key.local);
        listener.is_some_and(|inode| !self.owners.of(inode).is_empty())
    }

    /// Owner of a connection's socket. Unknown ones are looked up by the next
    /// [`OwnerBook::refresh`]. A socket that has been closed by its owner while its data was on the
    /// way counts for the owner of the socket that accepted it: a server that writes a page and
    /// closes leaves nothing else to see.
    pub(super) fn known(&mut self, sample: &FlowSample) -> Known<'_> {
        let is_closed = !matches!(
            sample.state,
            // Not accepted yet.
            None | Some(TcpState::Established | TcpState::CloseWait)
        );
        let accepted_by = || self.listener_at(sample.key.local).filter(|_| is_closed);
        let Some(inode) = sample.inode.or_else(accepted_by) else {
            return Known::Nobody;
        };
        let owners = self.owners.of(inode);
        if !owners.is_empty() {
            return Known::Owners(owners);
        }
        if self.nobodys.contains(&inode) {
            return Known::Nobody;
        }
        self.wanted.insert(inode);
        Known::NotYet
    }

    /// What [`OwnerBook::known`] says, the likeliest first. Of those that hold a listener together,
    /// a parent that has forked its workers accepts nothing.
    pub(super) fn in_order(sample: &FlowSample, owners: &[SocketOwner]) -> Vec<SocketOwner> {
        let mut owners = owners.to_vec();
        if sample.inode.is_none() {
            owners.sort_by_key(|owner| std::cmp::Reverse(owner.pid()));
        }
        owners
    }

    /// Remembers that these processes hold watched flows.
    pub(super) fn note_near(&mut self, owners: &[SocketOwner]) {
        self.near.extend(owners.iter().map(SocketOwner::pid));
    }

    /// Looks through all processes now: for filters that depend on owners.
    pub(super) fn look_everywhere(&mut self) -> Result<()> {
        let found = self.pace_all.run(SocketOwners::scan)?;
        self.take_in(found);
        Ok(())
    }

    /// Looks up what was asked for, as far as time allows.
    pub(super) fn refresh(&mut self, now: Instant) -> Result<()> {
        if self.wanted.is_empty() {
            return Ok(());
        }
        let few = (1..=NEAR_PROCESSES_MAX).contains(&self.near.len());
        let watches = self.watches.max(1);
        if few && self.pace_near.is_due(now, SHARE_NEAR * watches) {
            let near = &self.near;
            let found = self
                .pace_near
                .run(|| SocketOwners::of_processes(near.iter().copied()));
            self.take_in(found);
        }
        if !self.wanted.is_empty() && self.pace_all.is_due(now, SHARE_ALL * watches) {
            self.look_everywhere()?;
            self.nobodys.append(&mut self.wanted);
        }
        Ok(())
    }

    fn take_in(&mut self, found: SocketOwners) {
        self.owners.update(found);
        let owners = &self.owners;
        self.wanted.retain(|&inode| owners.of(inode).is_empty());
    }

    /// Fills what the owner's descriptor and the owner's process show. The socket is held only for
    /// this moment: a second handle kept open would keep the connection from ending.
    /// `reads` says how often its options were read.
    pub(super) fn fill(&mut self, flow: &mut Track, sample: &mut FlowSample, reads: &mut u8) {
        let (Some(inode), Some(first)) = (sample.inode, flow.owners.first()) else {
            return;
        };
        sample.owner_cpu_time = self.cpu_time(first.pid(), sample.at);
        if flow.samples.is_empty()
            && let Some(options) = self.options.get(&flow.cookie)
        {
            options.fill(sample);
        }
        if flow.options_error.is_some() || !wants_options(reads, flow, sample) {
            return;
        }
        for owner in &flow.owners {
            match self.read_options(owner, flow.cookie, sample) {
                Ok(()) => {
                    self.options.insert(flow.cookie, Options::of(sample));
                    return;
                }
                Err(Error::NotFound { .. }) => {}
                Err(error) => {
                    flow.options_error = Some(error.to_string());
                    return;
                }
            }
        }
        // Closed, or held under another number by now.
        self.owners.forget(inode);
        flow.owners.clear();
        self.wanted.insert(inode);
    }

    /// How often the options of this flow were read before this watch.
    pub(super) fn reads_before(&self, cookie: u64) -> u8 {
        self.reads.get(&cookie).copied().unwrap_or(0)
    }

    /// The processor time of a process: a file to read, so not with each sample.
    fn cpu_time(&mut self, pid: u32, now: Instant) -> Option<Duration> {
        match self.cpu_times.get(&pid) {
            Some(&(read, time)) if now.since(read) < CPU_TIME_AGE => return time,
            Some(&(read, _)) if now.since(read) < CPU_TIME_EVERY => return None,
            _ => {}
        }
        let time = process_cpu_time(pid);
        self.cpu_times.insert(pid, (now, time));
        time
    }

    fn read_options(
        &mut self,
        owner: &SocketOwner,
        cookie: u64,
        sample: &mut FlowSample,
    ) -> Result<()> {
        let pid = owner.pid();
        if !self.held.contains_key(&pid) {
            if self.held.len() >= HELD_PROCESSES_MAX {
                self.held.clear();
            }
            self.held.insert(pid, OwnerProcess::open(pid)?);
        }
        let result = self.held[&pid].socket(owner.fd, cookie);
        if matches!(
            &result,
            Err(Error::NotFound {
                what: "process",
                ..
            })
        ) {
            self.held.remove(&pid);
            self.near.remove(&pid);
        }
        result?.read_options(sample);
        Ok(())
    }
}

/// Whether the owner's descriptor is to be taken for this sample: where the flow is seen for the
/// first time, once more when its program has had time to set its options, and where only
/// `TCP_CORK` can tell why data waits. Taking it each time would delay the end of connections.
fn wants_options(reads: &mut u8, flow: &Track, sample: &FlowSample) -> bool {
    let looks_corked = sample.unacked_pkts == Some(0)
        && sample.notsent_bytes > Some(0)
        && sample.notsent_bytes < sample.snd_mss_bytes;
    // Far away in memory: read seldom.
    let first = || flow.samples.first().map_or(sample.at, |first| first.at);
    let wanted = match *reads {
        0 => true,
        1 => sample.at.since(first()) >= OPTIONS_SETTLED,
        _ => false,
    };
    *reads += u8::from(wanted);
    wanted || looks_corked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chore_keeps_to_its_share() {
        let at = |micros: u64| Instant::from_nanos(micros * 1000);
        let mut pace = Pace::default();
        assert!(pace.is_due(at(0), 10));
        pace.last = Some((at(100), Duration::from_micros(20)));
        assert!(!pace.is_due(at(299), 10));
        assert!(pace.is_due(at(300), 10));
        assert!(pace.is_due(at(200), 5));
        pace.run(|| std::thread::sleep(Duration::from_millis(20)));
        assert!(pace.cpu_cost() < pace.cost(), "to wait is not to work");
    }

    #[test]
    fn options_of_many_sockets_are_taken_over_until_they_are_old() {
        let key = base::FlowKey {
            local: ([10, 0, 0, 1], 443).into(),
            remote: ([10, 0, 0, 2], 50_000).into(),
        };
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        let look = |seconds, nodelay| FlowSample {
            nodelay,
            inode: Some(9),
            ..FlowSample::empty(at(seconds), key)
        };
        let track = |cookie| Track {
            key,
            cookie,
            owners: Vec::new(),
            samples: std::iter::once(look(35, None)).collect(),
            ended: false,
            interface: None,
            options_error: None,
        };
        let kept = |sockets: u64| {
            let mut book = OwnerBook::default();
            for cookie in 0..sockets {
                // Read 35 s ago: too old where the cookie adds 5 s or less.
                book.options
                    .insert(cookie, Options::of(&look(0, Some(true))));
            }
            let known = KnownOwners::default();
            let tracks: Vec<Track> = (0..60).map(track).collect();
            known.put(book, &tracks);
            let book = known.take();
            assert_eq!(book.options.len(), book.reads.len());
            book
        };
        assert!(kept(60).options.is_empty(), "few are read anew");
        let book = kept(501);
        assert!(!book.options.contains_key(&35), "too old");
        assert!(!book.options.contains_key(&100), "its connection is gone");
        let mut sample = look(36, None);
        let new = Track {
            samples: doctor::Samples::new(),
            ..track(8)
        };
        assert!(!wants_options(&mut book.reads_before(8), &new, &sample));
        book.options[&8].fill(&mut sample);
        assert_eq!(sample.nodelay, Some(true));
    }

    #[test]
    fn what_nobody_holds_is_looked_up_once() {
        let mut book = OwnerBook::default();
        // No socket has this number: the kernel counts up from 1 in 32 bits.
        let held = |inode| FlowSample {
            inode,
            ..ended(TcpState::Established)
        };
        let held_by_nobody = held(Some(u64::MAX));
        assert!(matches!(book.known(&held_by_nobody), Known::NotYet));
        book.refresh(Clock.now()).expect("/proc");
        assert!(matches!(book.known(&held_by_nobody), Known::Nobody));
        assert!(matches!(book.known(&held(None)), Known::Nobody));
        assert!(book.wanted.is_empty());
    }

    /// A connection to port 443 whose socket no process holds.
    fn ended(state: TcpState) -> FlowSample {
        let key = base::FlowKey {
            local: ([10, 0, 0, 1], 443).into(),
            remote: ([10, 0, 0, 2], 50_000).into(),
        };
        FlowSample {
            state: Some(state),
            ..FlowSample::empty(Instant::ZERO, key)
        }
    }

    #[test]
    fn what_a_server_has_closed_is_still_its_own() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let mut diag = crate::SockDiag::open().expect("sock_diag");
        let mut listeners = diag.listeners().expect("listeners");
        let here = listener.local_addr().expect("bound");
        listeners.retain(|(listener, _)| listener.local == here);
        listeners[0].0.local = "[::]:443".parse().expect("an address");
        let mut book = OwnerBook::default();
        book.note_process(Some(std::process::id()));
        book.note_listeners(&listeners);
        let closing = ended(TcpState::FinWait1);
        assert!(matches!(book.known(&closing), Known::NotYet));
        book.refresh(Clock.now()).expect("/proc");
        let owner = |book: &mut OwnerBook, state| match book.known(&ended(state)) {
            Known::Owners(owners) => Some(owners[0].pid()),
            Known::Nobody | Known::NotYet => None,
        };
        let pid = Some(std::process::id());
        assert_eq!(owner(&mut book, TcpState::FinWait1), pid);
        assert_eq!(owner(&mut book, TcpState::LastAck), pid);
        assert_eq!(
            owner(&mut book, TcpState::Established),
            None,
            "not accepted"
        );
        assert!(book.accepted(&closing));
        let mut second = listeners[0].clone();
        second.1 = Some(1);
        book.note_listeners(&[listeners.remove(0), second]);
        assert_eq!(owner(&mut book, TcpState::FinWait1), pid, "asked for");
        book.note_process(None);
        assert_eq!(owner(&mut book, TcpState::FinWait1), None, "one of two");
        assert!(!book.accepted(&closing));
    }
}
