//! Watching flows for a while: what the doctor's verdicts are made from.
//!
//! Decides when to look, at which flows, and how to keep the looking cheap. Samples come at random
//! distances, so that they cannot lock to a timer of the flow itself (a delayed ACK of 40 ms).
//! Flows may come and go meanwhile: each is known by its cookie, and one that lived shorter than
//! the window is kept with the samples that there are.

mod closing;
mod families;
mod followed;
mod onlooker;
mod owner_book;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base::{FlowKey, FlowSample, HostSample, Instant, PortUse, Rng, TcpState};
use doctor::{ByCookie, Recording, Samples, SocketOwner, Track};

use crate::clock::Clock;
use crate::counters::{host_sample, sysctl};
use crate::error::{Error, Result};
use crate::filter::Filter;
use crate::netlink::route::{self, Destination, Found};
use crate::netns::NetnsHandle;
use crate::offload::OffloadReader;
use crate::process::cgroup_id;
use crate::remote_socket::OwnerProcess;
use crate::sock_diag::{ScanRequest, SockDiag};
use closing::Closing;
use families::Families;
use followed::Followed;
use onlooker::ProgressOnly;
pub use onlooker::{Tracks, WatchObserver, WatchProgress};
pub use owner_book::KnownOwners;
use owner_book::{Known, OwnerBook, Pace};

/// Listing all sockets to find new ones takes at most one part in this many of the time.
const SHARE_SCAN: u32 = 20;
/// Asking for one socket costs as much as listing this many.
const ONE_BY_ONE: usize = 3;
/// Looking takes at most one part in this many of the time: a host with very many matching flows is
/// looked at less often.
const SHARE_LOOK: u32 = 4;
/// Counting ports, which lists connections in TIME-WAIT, takes at most one part in this many.
const SHARE_PORTS: u32 = 50;
/// Nor more often: they do not run out in a moment.
const COUNT_PORTS_EVERY: Duration = Duration::from_secs(2);
/// Looking up what a process serves, which reads its descriptors, likewise.
const SHARE_SERVING: u32 = 50;
/// How long a request to stop may go unseen.
const STOP_CHECK: Duration = Duration::from_millis(50);
/// How long the kernel gets at the end to tell of connections that were announced.
const ANNOUNCED_GRACE: Duration = Duration::from_millis(300);
/// Where some connections are asleep, one dump serves this many looks.
const LOOKS_PER_LIST: u32 = 4;
const PROGRESS_EVERY: Duration = Duration::from_millis(100);
/// Assumed minimum of the remaining duration of a watch without a set end.
const OPEN_END_MIN: Duration = Duration::from_secs(10);
/// And there are about so many looks at the host each time that it has taken twice as long.
const OPEN_END_HOST_LOOKS: u32 = 300;
/// Interfaces and listeners that are kept of all looks at the host together, at most: of a host
/// with thousands there are fewer looks. Each has about 400 bytes.
const HOST_ITEMS_MAX: usize = 300_000;
/// An open-ended watch plans for one part in this many of them: its interval grows with the time
/// elapsed, so that the sum grows with the logarithm of the time, and reaches the bound after
/// e^10, or 22 000, times as long.
const OPEN_END_FOLDS: usize = 10;
/// Hosts whose route is looked up; the interface of flows to others is not known.
const ROUTES_ASKED: usize = 256;

/// What to watch, for how long, and at what interval.
#[derive(Clone, Debug)]
pub struct WatchRequest<'a> {
    /// The namespace to look into; the calling thread's where there is none.
    pub netns: Option<&'a NetnsHandle>,
    /// Which flows.
    pub filter: Filter,
    /// For how long.
    pub duration: Duration,
    /// Mean distance of two looks at a flow; each distance is drawn from a quarter of it to one and
    /// three quarters. Looks are rarer where very many flows match.
    pub interval: Duration,
    /// Distance of two looks at the host; there always is one at the start and one at the end.
    pub host_interval: Duration,
    /// Sysctls to read with each look at the host.
    pub sysctls: &'a [&'a str],
    /// The CPU time of looks is at most one part in this many of the time; looks are rarer where it
    /// would be more.
    pub share_look: u32,
    /// Seed of the random distances.
    pub seed: u64,
    /// About as many samples are kept at most, of all flows together (a sample has about 100 bytes
    /// where the connection does something).
    pub samples_max: usize,
    /// Set it from another thread to end early; what was seen until then is returned.
    pub stop: Option<&'a AtomicBool>,
    /// When that will be is unknown: the duration is a bound. Samples are spaced as if it took as
    /// long again as it has taken so far.
    pub open_end: bool,
    /// Source of socket owners known before any scan.
    pub announced: Option<&'a dyn AnnouncedSockets>,
    /// Owners found by earlier watches of this namespace.
    pub owners: Option<&'a KnownOwners>,
    /// This many namespaces are watched at the same time: each takes only its part of the time that
    /// may be spent on finding owners and on counting ports.
    pub watches: u32,
    /// Of matching connections, watch only these: for hosts with very many others.
    pub only_announced: bool,
    /// Of matching connections, watch one part of several: the first number, below the second,
    /// selects it. Both ends of a connection are in the same part, and stay there.
    pub part: (u32, u32),
}

/// Reports sockets as they are opened.
pub trait AnnouncedSockets: fmt::Debug + Sync {
    /// Owner of the socket with this cookie, if it was reported.
    fn owner(&self, cookie: u64) -> Option<SocketOwner>;

    /// Whether a socket was announced, or accepted by one that was.
    fn has(&self, sample: &FlowSample) -> bool;

    /// Whether all that were announced are among those that were seen.
    fn are_all(&self, seen: &dyn Fn(u64) -> bool) -> bool;
}

impl WatchRequest<'_> {
    /// Every 10 ms, for flows with round-trip times from 0.1 ms to some hundred; 100 000 samples at
    /// most, the calling thread's namespace.
    #[must_use]
    pub const fn new(filter: Filter, duration: Duration) -> Self {
        Self {
            netns: None,
            filter,
            duration,
            interval: Duration::from_millis(10),
            host_interval: Duration::from_millis(200),
            sysctls: &[],
            share_look: SHARE_LOOK,
            seed: 0,
            samples_max: 100_000,
            stop: None,
            open_end: false,
            announced: None,
            owners: None,
            watches: 1,
            only_announced: false,
            part: (0, 1),
        }
    }
}

/// Watches the flows that match. `progress` is told about every tenth of a second.
///
/// # Errors
/// [`Error::NotFound`] where the filter names a process that does not exist, [`Error::Permission`]
/// where the namespace may not be entered, and whatever `sock_diag` and `/proc` refuse. A flow or a
/// process that ends meanwhile is not an error.
pub fn watch(
    request: &WatchRequest<'_>,
    progress: &mut (dyn FnMut(WatchProgress) + Send),
) -> Result<Recording> {
    watch_by(request, &mut ProgressOnly(progress))
}

/// The same, reporting each sample.
///
/// # Errors
/// As [`watch`].
pub fn watch_by(
    request: &WatchRequest<'_>,
    onlooker: &mut (dyn WatchObserver + Send),
) -> Result<Recording> {
    match request.netns {
        None => watch_here(request, onlooker),
        Some(netns) => netns.run(|| watch_here(request, onlooker))?,
    }
}

fn watch_here(
    request: &WatchRequest<'_>,
    onlooker: &mut (dyn WatchObserver + Send),
) -> Result<Recording> {
    let mut watcher = Watcher::open(request, onlooker)?;
    let mut next_look = watcher.began;
    let mut next_host = watcher.began;
    let mut next_progress = watcher.began;
    let deadline = watcher.began + request.duration;
    loop {
        let now = Clock.now();
        let over = now >= deadline || watcher.is_to_end();
        // The first look at the flows is inside the first and the last look at the host.
        if now >= next_host && !over {
            watcher.look_at_host(now)?;
            next_host = now + watcher.host_interval(now);
        }
        if over {
            watcher.wait_for_announced()?;
        }
        watcher.look(now, over)?;
        if over {
            watcher.look_at_host(Clock.now())?;
            watcher.tell(Clock.now());
            return Ok(watcher.finish());
        }
        if now >= next_progress {
            watcher.tell(now);
            next_progress = now + PROGRESS_EVERY;
        }
        next_look = watcher.next_look(next_look, deadline);
        watcher.sleep_until(next_look);
    }
}

struct Watcher<'a> {
    request: &'a WatchRequest<'a>,
    onlooker: &'a mut (dyn WatchObserver + Send),
    filter: Filter,
    scan: ScanRequest,
    diag: SockDiag,
    /// `None` where the kernel does not let us.
    closed: Option<Closing>,
    /// How many sockets were in the last list of all sockets, and when that was.
    listed_count: usize,
    listed_at: Instant,
    /// How many of them are followed.
    live: usize,
    /// How many of them do not sleep.
    awake: usize,
    families: Families,
    flows: ByCookie<Followed>,
    /// There may be some whose owners are not known yet.
    is_unsettled: bool,
    order: u64,
    samples: usize,
    looks: u64,
    /// Lists of all sockets so far.
    lists: u64,
    left_out: BTreeSet<u64>,
    hosts: Vec<HostSample>,
    book: OwnerBook,
    /// The process named in the filter.
    process: Option<OwnerProcess>,
    pace_scan: Pace,
    pace_look: Pace,
    pace_ports: Pace,
    pace_serving: Pace,
    rng: Rng,
    began: Instant,
    stopped: bool,
    process_ended: bool,
}

/// How many looks at a host with so many interfaces and listeners there may be in one watch.
fn looks_at_host(items: usize) -> u32 {
    u32::try_from(HOST_ITEMS_MAX / items.max(1))
        .unwrap_or(u32::MAX)
        .max(2)
}

/// Which of this many parts a connection is in. Ports that a kernel chose are as good as random; a
/// multiplication spreads those that were counted up.
fn part_of(key: FlowKey, parts: u32) -> u32 {
    let ports = [key.local.port(), key.remote.port()].map(u32::from);
    let both = ports[0]
        .wrapping_mul(ports[1])
        .wrapping_add(ports[0] + ports[1]);
    (both.wrapping_mul(0x9e37_79b1) >> 16) % parts.max(1)
}

impl<'a> Watcher<'a> {
    fn open(
        request: &'a WatchRequest<'a>,
        onlooker: &'a mut (dyn WatchObserver + Send),
    ) -> Result<Self> {
        let mut filter = request.filter.clone();
        filter.resolve_cgroups(&cgroup_id);
        let pid = filter.fixed_pid();
        let process = match pid.map(OwnerProcess::open) {
            // Without pidfd its end is not seen, and the watch goes on to the end of its time.
            None | Some(Err(Error::Unsupported { .. })) => None,
            Some(opened) => Some(opened?),
        };
        let mut book = match request.owners {
            Some(known) => known.take(),
            None => OwnerBook::default(),
        };
        book.note_process(pid);
        book.note_watches(request.watches);
        if filter.needs_owners() {
            book.look_everywhere()?;
        }
        let (local_port, remote_port) = filter.fixed_ports();
        let began = Clock.now();
        Ok(Self {
            request,
            onlooker,
            scan: ScanRequest {
                listeners: filter.names_state(TcpState::Listen),
                no_connections: false,
                time_wait: false,
                syn_received: filter.names_state(TcpState::SynReceived),
                local_port,
                remote_port,
                skip_ipv6: false,
                ends_only: false,
            },
            diag: SockDiag::open()?,
            // Of a program that is run every connection is wanted.
            closed: Closing::open(request.announced.is_some()),
            listed_count: 0,
            listed_at: began,
            live: 0,
            awake: 0,
            families: Families::new(),
            flows: ByCookie::default(),
            is_unsettled: false,
            order: 0,
            samples: 0,
            looks: 0,
            lists: 0,
            left_out: BTreeSet::new(),
            hosts: Vec::new(),
            book,
            process,
            pace_scan: Pace::default(),
            pace_look: Pace::default(),
            pace_ports: Pace::default(),
            pace_serving: Pace::default(),
            rng: Rng::new(request.seed, "watch"),
            began,
            stopped: false,
            process_ended: false,
            filter,
        })
    }

    fn is_to_end(&mut self) -> bool {
        self.stopped = self
            .request
            .stop
            .is_some_and(|stop| stop.load(Ordering::Relaxed));
        self.process_ended = self.process.as_ref().is_some_and(OwnerProcess::has_ended);
        self.stopped || self.process_ended
    }

    fn look_at_host(&mut self, now: Instant) -> Result<()> {
        let mut sample = host_sample(now, self.request.sysctls)?;
        let listeners = self.diag.listeners()?;
        self.book.note_listeners(&listeners);
        // What it serves may be opened at any time, by looking through the descriptors it is found.
        if self.pace_serving.is_due(now, SHARE_SERVING) {
            let filter = &mut self.filter;
            self.pace_serving.run(|| filter.note_listeners(&listeners));
        }
        sample.listeners = listeners.into_iter().map(|(sample, _)| sample).collect();
        if self.hosts.is_empty() {
            let offloads = OffloadReader::new()?;
            for link in &mut sample.links {
                link.tso = offloads.tso(&link.name);
            }
        }
        let share = SHARE_PORTS * self.request.watches;
        let counted = self.pace_ports.last_end();
        if self.pace_ports.is_due(now, share)
            && counted.is_none_or(|counted| now.since(counted) >= COUNT_PORTS_EVERY)
        {
            let (diag, skip_ipv6) = (&mut self.diag, self.families.skips_ipv6(now));
            sample.ports = self.pace_ports.run(|| ports_taken(diag, skip_ipv6))?;
        }
        self.hosts.push(sample);
        Ok(())
    }

    /// One look at every flow. The last one is a full list, so that differences reach to the end.
    fn look(&mut self, now: Instant, last: bool) -> Result<()> {
        let mut pace = std::mem::take(&mut self.pace_look);
        let result = pace.run(|| {
            if last || self.is_list_due(now) {
                self.look_at_all(now, last)
            } else {
                self.look_at_each()
            }
        });
        self.pace_look = pace;
        self.looks += 1;
        result?;
        self.look_at_closed();
        Ok(())
    }

    /// Takes in the last counters of connections that were closed since the last look. One that was
    /// never seen open is new, unless only its owner could tell whether it matches, and that is not
    /// the one that listens where it was accepted.
    fn look_at_closed(&mut self) {
        let closed = self.closed.as_ref().map(Closing::take);
        for mut sample in closed.into_iter().flatten() {
            let cookie = sample.cookie.unwrap_or_default();
            if !self.flows.contains(cookie) {
                self.families.note_missed(sample.at);
                let may_match = !self.filter.needs_owners() || self.book.accepted(&sample);
                let Some(new) = may_match.then(|| self.admit(&sample)).flatten() else {
                    continue;
                };
                self.flows.insert(cookie, new);
            }
            if let Some(Followed {
                flow,
                look,
                matches,
                ..
            }) = self.flows.value_mut(cookie)
            {
                *look = self.looks;
                sample.key = flow.key;
                sample.inode = flow.samples.last().and_then(|last| last.inode);
                if *matches {
                    self.onlooker.on_look(cookie, &sample);
                }
                flow.samples.push(sample);
                flow.ended = true;
                self.samples += 1;
            }
        }
    }

    /// The kernel tells of closed connections on a worker of its own, which may come late. One that
    /// was refused is told of never.
    fn wait_for_announced(&mut self) -> Result<()> {
        let Some(announced) = self.request.announced else {
            return Ok(());
        };
        let began = Clock.now();
        let mut looks = 0;
        loop {
            self.look_at_closed();
            let is_seen = |cookie| self.flows.contains(cookie);
            if announced.are_all(&is_seen) || Clock.now() >= began + ANNOUNCED_GRACE {
                return Ok(());
            }
            match looks {
                // Some may still be open, or closing.
                0 => self.look_at_all(began, true)?,
                _ => std::thread::sleep(ANNOUNCED_GRACE / 50),
            }
            looks += 1;
        }
    }

    /// Whether all sockets are to be listed: where that costs less than asking for those that do
    /// not sleep, and now and then.
    fn is_list_due(&self, now: Instant) -> bool {
        if self.awake * ONE_BY_ONE >= self.listed_count {
            return true;
        }
        let serves = match self.awake < self.live {
            true => self.request.interval * LOOKS_PER_LIST,
            false => Duration::ZERO,
        };
        now.since(self.listed_at) >= serves && self.pace_scan.is_due(now, SHARE_SCAN)
    }

    /// Lists all sockets, which also finds new ones.
    fn look_at_all(&mut self, now: Instant, last: bool) -> Result<()> {
        self.scan.skip_ipv6 = !last && self.families.skips_ipv6(now);
        (self.listed_count, self.listed_at) = (0, now);
        self.lists += 1;
        let mut others = Vec::new();
        let mut take = |sample: &mut FlowSample| {
            self.listed_count += 1;
            let cookie = sample.cookie.unwrap_or_default();
            let Some(followed) = self.flows.value_mut(cookie) else {
                others.push(sample.clone());
                return;
            };
            followed.listed = self.lists;
            if followed.matches {
                self.onlooker.on_look(cookie, sample);
            }
            if !last && followed.may_skip(sample, self.looks) {
                return;
            }
            let is_more = followed.keep(sample, self.looks, &mut self.book);
            self.samples += usize::from(is_more);
        };
        let (diag, scan) = (&mut self.diag, &self.scan);
        let ipv6 = self.pace_scan.run(|| diag.scan_each(scan, &mut take))?;
        if !self.scan.skip_ipv6 {
            self.families.note(now, ipv6);
        }
        for mut sample in others {
            let cookie = sample.cookie.unwrap_or_default();
            if let Some(mut followed) = self.admit(&sample) {
                followed.listed = self.lists;
                if followed.matches {
                    self.onlooker.on_look(cookie, &sample);
                }
                let is_more = followed.keep(&mut sample, self.looks, &mut self.book);
                self.samples += usize::from(is_more);
                self.flows.insert(cookie, followed);
            }
        }
        (self.live, self.awake, self.is_unsettled) = (0, 0, false);
        for followed in self.flows.values_mut() {
            followed.flow.ended = followed.listed < self.lists;
            if !followed.flow.ended {
                self.live += 1;
                self.awake += usize::from(!followed.is_asleep);
            }
            self.is_unsettled |= !followed.is_settled();
        }
        self.book.refresh(Clock.now())?;
        self.settle();
        Ok(())
    }

    /// Asks for the known flows that do not sleep one by one.
    fn look_at_each(&mut self) -> Result<()> {
        let awake = self
            .flows
            .iter()
            .filter(|(_, followed)| !followed.flow.ended && !followed.is_asleep);
        let asked: Vec<_> = awake
            .map(|(cookie, followed)| (cookie, followed.flow.key))
            .collect();
        for (cookie, key) in asked {
            // Whether one that is not found is gone, the next list shows.
            if let Some(mut sample) = self.diag.sample_one(Clock.now(), key, Some(cookie))?
                && let Some(followed) = self.flows.value_mut(cookie)
            {
                if followed.matches {
                    self.onlooker.on_look(cookie, &sample);
                }
                let is_more = followed.keep(&mut sample, self.looks, &mut self.book);
                self.samples += usize::from(is_more);
            }
        }
        Ok(())
    }

    /// A flow that was not known so far, if it is to be followed: it matches, or may turn out to.
    fn admit(&mut self, sample: &FlowSample) -> Option<Followed> {
        let (part, parts) = self.request.part;
        if part_of(sample.key, parts) != part {
            return None;
        }
        let announced = self.request.announced;
        let is_announced = || announced.is_some_and(|announced| announced.has(sample));
        if self.request.only_announced && !is_announced() {
            return None;
        }
        let matches = if self.filter.needs_owners() && !self.filter.matches_of_anybody(sample) {
            match self.book.known(sample) {
                Known::Owners(owners) => Some(self.filter.matches(sample, owners)),
                Known::Nobody => Some(self.filter.matches(sample, &[])),
                Known::NotYet => None,
            }
        } else {
            Some(self.filter.matches(sample, &[]))
        };
        let cookie = sample.cookie.filter(|_| matches != Some(false))?;
        if self.samples >= self.request.samples_max {
            if matches == Some(true) {
                self.left_out.insert(cookie);
            }
            return None;
        }
        self.order += 1;
        let owner = announced.and_then(|announced| announced.owner(cookie));
        let owners: Vec<SocketOwner> = owner.into_iter().collect();
        self.book.note_near(&owners);
        let flow = Track {
            key: sample.key,
            cookie,
            owners,
            samples: Samples::new(),
            ended: false,
            interface: None,
            options_error: None,
        };
        Some(Followed {
            order: self.order,
            flow,
            look: self.looks,
            matches: matches == Some(true),
            is_asleep: false,
            listed: 0,
            is_steady: self.onlooker.is_steady(cookie),
            option_reads: self.book.reads_before(cookie),
        })
    }

    /// Decides about the flows on trial whose owners are known by now, and completes the first
    /// samples of new flows, whose owners were not known when they were taken.
    fn settle(&mut self) {
        if !self.is_unsettled {
            return;
        }
        let Self {
            flows,
            book,
            filter,
            samples,
            ..
        } = self;
        flows.retain(|track| {
            if track.is_settled() {
                return true;
            }
            let flow = &mut track.flow;
            let Some(last) = flow.samples.last() else {
                return true;
            };
            let matches = match book.known(last) {
                Known::NotYet => return true,
                Known::Nobody => track.matches || filter.matches(last, &[]),
                Known::Owners(owners) => {
                    if flow.owners.is_empty() {
                        flow.owners = OwnerBook::in_order(last, owners);
                    }
                    track.matches || filter.matches(last, owners)
                }
            };
            if !matches {
                *samples -= flow.samples.len();
                return false;
            }
            track.matches = true;
            if last.nodelay.is_none() && !flow.owners.is_empty() && flow.samples.len() == 1 {
                book.note_near(&flow.owners);
                let mut last = last.clone();
                book.fill(flow, &mut last, &mut track.option_reads);
                flow.samples.replace_last(last);
            }
            true
        });
    }

    /// A random time after the planned one: on average the interval, or longer where looking is
    /// dear or the samples would not suffice to the end.
    fn next_look(&mut self, planned: Instant, deadline: Instant) -> Instant {
        let now = Clock.now();
        let rest = self.request.samples_max.saturating_sub(self.samples).max(1);
        let time_left = match self.request.open_end {
            true => now.since(self.began).max(OPEN_END_MIN),
            false => deadline.since(now),
        };
        let rationed = time_left.mul_f64(self.live as f64 / rest as f64);
        let mean = self
            .request
            .interval
            .max(self.pace_look.cost() * SHARE_LOOK)
            .max(self.pace_look.cpu_cost() * self.request.share_look)
            .max(rationed);
        let nanos = u64::try_from(mean.as_nanos()).unwrap_or(u64::MAX / 4);
        let spacing = nanos / 4 + self.rng.below(nanos + nanos / 2);
        let next = planned + Duration::from_nanos(spacing);
        // After a delay the missed looks are not made up for.
        next.max(now).min(deadline)
    }

    /// Distance of this look at the host and the next one.
    fn host_interval(&self, now: Instant) -> Duration {
        let plain = self.request.host_interval;
        let items = self
            .hosts
            .last()
            .map_or(0, |host| host.links.len() + host.listeners.len());
        match self.request.open_end {
            true => {
                let looks = looks_at_host(items * OPEN_END_FOLDS).min(OPEN_END_HOST_LOOKS);
                plain.max(now.since(self.began) / looks)
            }
            false => plain.max(self.request.duration / looks_at_host(items)),
        }
    }

    fn sleep_until(&self, time: Instant) {
        loop {
            let left = time.since(Clock.now());
            let stop = self.request.stop;
            if left.is_zero() || stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
                return;
            }
            std::thread::sleep(left.min(STOP_CHECK));
        }
    }

    fn tell(&mut self, now: Instant) {
        self.onlooker.on_progress(WatchProgress {
            elapsed: now.since(self.began),
            duration: self.request.duration,
            looks: self.looks,
            tracks: Tracks { flows: &self.flows },
        });
    }

    fn finish(self) -> Recording {
        let mut tracks: Vec<_> = self
            .flows
            .into_values()
            .filter(|track| track.matches)
            .collect();
        tracks.sort_by_key(|track| track.order);
        let mut flows: Vec<Track> = tracks.into_iter().map(|track| track.flow).collect();
        name_interfaces(&mut flows, self.hosts.last());
        let unseen_processes = self.book.unseen_processes();
        if let Some(known) = self.request.owners {
            known.put(self.book, &flows);
        }
        Recording {
            flows,
            hosts: self.hosts,
            began: self.began,
            ended: Clock.now(),
            stopped: self.stopped,
            process_ended: self.process_ended,
            flows_left_out: self.left_out.len(),
            unseen_processes,
        }
    }
}

/// The destination to which connections take most of the ports that the kernel chooses from.
fn ports_taken(diag: &mut SockDiag, skip_ipv6: bool) -> Result<Option<PortUse>> {
    let range = sysctl("net.ipv4.ip_local_port_range").and_then(|text| {
        let (first, last) = text.split_once(' ')?;
        Some((first.parse::<u16>().ok()?, last.parse::<u16>().ok()?))
    });
    let Some((first, last)) = range else {
        return Ok(None);
    };
    let request = ScanRequest {
        time_wait: true,
        skip_ipv6,
        ends_only: true,
        ..ScanRequest::default()
    };
    let mut taken: BTreeMap<(IpAddr, SocketAddr), u32> = BTreeMap::new();
    diag.scan_each(&request, &mut |sample| {
        let FlowKey { local, remote } = sample.key;
        if (first..=last).contains(&local.port()) {
            *taken.entry((local.ip(), remote)).or_default() += 1;
        }
    })?;
    let most = taken.into_iter().max_by_key(|(_, count)| *count);
    Ok(most.map(|((_, remote), taken)| PortUse {
        remote,
        taken,
        range: u32::from(last - first) + 1,
    }))
}

/// Says through which interface each flow sends. One question for each host, and not for more than
/// [`ROUTES_ASKED`] of them.
fn name_interfaces(flows: &mut [Track], host: Option<&HostSample>) {
    let links = host.map_or(&[][..], |host| &host.links);
    let name = |host: IpAddr| {
        let (Found::Exact(route) | Found::Covering(route)) =
            route::find(Destination::of_host(host)).ok()?;
        let index = route.interface()?;
        let link = links.iter().find(|link| link.index == index)?;
        Some(link.name.clone())
    };
    let mut known: BTreeMap<IpAddr, Option<String>> = BTreeMap::new();
    for flow in flows {
        let host = flow.key.remote.ip().to_canonical();
        if known.len() < ROUTES_ASKED || known.contains_key(&host) {
            flow.interface = known.entry(host).or_insert_with(|| name(host)).clone();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_with_many_interfaces_is_looked_at_less_often() {
        let check = |items, looks| assert_eq!(looks_at_host(items), looks, "{items}");
        check(0, 300_000);
        check(300, 1000);
        check(30_000, 10);
        check(usize::MAX, 2);
    }

    #[test]
    fn parts_are_about_equal_and_hold_both_ends() {
        let mut sizes = [0; 8];
        for port in 32_768..60_999_u16 {
            let key = FlowKey {
                local: ([10, 0, 0, 1], 443).into(),
                remote: ([10, 0, 0, 2], port).into(),
            };
            let part = part_of(key, 8);
            assert_eq!(part_of(key.reversed(), 8), part);
            assert_eq!(part_of(key, 1), 0);
            sizes[part as usize] += 1;
        }
        let even = (60_999 - 32_768) / 8;
        assert!(
            sizes.iter().all(|size| (even / 2..even * 2).contains(size)),
            "{sizes:?}"
        );
    }
}
