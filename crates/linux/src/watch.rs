//! Watching flows for a while: what the doctor's verdicts are made from.
//!
//! Decides when to look, at which flows, and how to keep the looking cheap. Samples come at random
//! distances, so that they cannot lock to a timer of the flow itself (a delayed ACK of 40 ms).
//! Flows may come and go meanwhile: each is known by its cookie, and one that lived shorter than
//! the window is kept with the samples that there are.

mod owner_book;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base::{FlowKey, FlowSample, HostSample, Instant, PortUse, Rng, TcpState};
use doctor::{Recording, Track};

use crate::clock::Clock;
use crate::counters::{host_sample, sysctl};
use crate::error::{Error, Result};
use crate::filter::Filter;
use crate::netlink::route::{self, Destination, Found};
use crate::netns::NetnsHandle;
use crate::process::cgroup_id;
use crate::remote_socket::OwnerProcess;
use crate::sock_diag::{ScanRequest, SockDiag};
use owner_book::{Known, OwnerBook, Pace};

/// Listing all sockets takes at most one part in this many of the time, asking one by one the rest.
const SHARE_SCAN: u32 = 20;
/// Looking takes at most one part in this many of the time: a host with very many matching flows is
/// looked at less often.
const SHARE_LOOK: u32 = 4;
/// Counting ports, which lists connections in TIME-WAIT, takes at most one part in this many.
const SHARE_PORTS: u32 = 50;
/// A list that took longer than this gives times too coarse to compute rates from.
const SCAN_AT_ONCE: Duration = Duration::from_millis(1);
/// How long a request to stop may go unseen.
const STOP_CHECK: Duration = Duration::from_millis(50);
const PROGRESS_EVERY: Duration = Duration::from_millis(100);
/// Hosts whose route is looked up; the interface of flows to others is not known.
const ROUTES_ASKED: usize = 256;

/// What to watch, for how long, how closely.
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
    /// Seed of the random distances.
    pub seed: u64,
    /// About as many samples are kept at most, of all flows together (a sample has about 1 KB).
    pub samples_max: usize,
    /// Set by somebody else to end early; what was seen until then is returned.
    pub stop: Option<&'a AtomicBool>,
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
            seed: 0,
            samples_max: 100_000,
            stop: None,
        }
    }
}

/// How far it is.
#[derive(Clone, Copy, Debug)]
pub struct WatchProgress {
    /// Time since the start.
    pub elapsed: Duration,
    /// Time that it will take in all.
    pub duration: Duration,
    /// Flows seen so far that match.
    pub flows: usize,
    /// Samples taken of them so far.
    pub samples: usize,
}

/// Watches the flows that match. `progress` is told about every tenth of a second.
///
/// # Errors
/// [`Error::NotFound`] where the filter names a process that does not exist, [`Error::Permission`]
/// where the namespace may not be entered, and whatever `sock_diag` and `/proc` refuse. A flow or a
/// process that ends meanwhile is no error.
pub fn watch(
    request: &WatchRequest<'_>,
    progress: &mut (dyn FnMut(WatchProgress) + Send),
) -> Result<Recording> {
    match request.netns {
        None => watch_here(request, progress),
        Some(netns) => netns.run(|| watch_here(request, progress))?,
    }
}

fn watch_here(
    request: &WatchRequest<'_>,
    progress: &mut (dyn FnMut(WatchProgress) + Send),
) -> Result<Recording> {
    let mut watcher = Watcher::open(request)?;
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
            next_host = now + request.host_interval;
        }
        watcher.look(now, over)?;
        if over {
            watcher.look_at_host(Clock.now())?;
            progress(watcher.progress(Clock.now()));
            return Ok(watcher.finish());
        }
        if now >= next_progress {
            progress(watcher.progress(now));
            next_progress = now + PROGRESS_EVERY;
        }
        next_look = watcher.next_look(next_look, deadline);
        watcher.sleep_until(next_look);
    }
}

struct Watcher<'a> {
    request: &'a WatchRequest<'a>,
    filter: Filter,
    scan: ScanRequest,
    diag: SockDiag,
    /// The last list of all sockets; kept for its memory.
    listed: Vec<FlowSample>,
    flows: BTreeMap<u64, Followed>,
    order: u64,
    samples: usize,
    left_out: BTreeSet<u64>,
    hosts: Vec<HostSample>,
    book: OwnerBook,
    /// The one that the filter names.
    process: Option<OwnerProcess>,
    pace_scan: Pace,
    pace_look: Pace,
    pace_ports: Pace,
    rng: Rng,
    began: Instant,
    stopped: bool,
    process_ended: bool,
}

struct Followed {
    order: u64,
    flow: Track,
    /// The filter holds. Until it does the owner is not known, and samples are kept on trial.
    matches: bool,
}

impl<'a> Watcher<'a> {
    fn open(request: &'a WatchRequest<'a>) -> Result<Self> {
        let mut filter = request.filter.clone();
        filter.resolve_cgroups(&cgroup_id);
        let pid = filter.fixed_pid();
        let process = match pid.map(OwnerProcess::open) {
            // Without pidfd its end is not seen, and the watch goes on to the end of its time.
            None | Some(Err(Error::Unsupported { .. })) => None,
            Some(opened) => Some(opened?),
        };
        let mut book = OwnerBook::new(pid);
        if filter.needs_owners() {
            book.look_everywhere()?;
        }
        let (local_port, remote_port) = filter.fixed_ports();
        let began = Clock.now();
        Ok(Self {
            request,
            scan: ScanRequest {
                listeners: filter.names_state(TcpState::Listen),
                no_connections: false,
                time_wait: false,
                syn_received: filter.names_state(TcpState::SynReceived),
                local_port,
                remote_port,
            },
            diag: SockDiag::open()?,
            listed: Vec::new(),
            flows: BTreeMap::new(),
            order: 0,
            samples: 0,
            left_out: BTreeSet::new(),
            hosts: Vec::new(),
            book,
            process,
            pace_scan: Pace::default(),
            pace_look: Pace::default(),
            pace_ports: Pace::default(),
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
        sample.listeners = self.diag.listeners(now)?;
        if self.pace_ports.is_due(now, SHARE_PORTS) {
            let diag = &mut self.diag;
            sample.ports = self.pace_ports.run(|| ports_taken(diag, now))?;
        }
        self.hosts.push(sample);
        Ok(())
    }

    /// One look at every flow. The last one is a full list, so that differences reach to the end.
    fn look(&mut self, now: Instant, last: bool) -> Result<()> {
        let mut pace = std::mem::take(&mut self.pace_look);
        let result = pace.run(|| {
            if last || self.pace_scan.is_due(now, SHARE_SCAN) {
                self.look_at_all(now)
            } else {
                self.look_at_each(&BTreeSet::new())
            }
        });
        self.pace_look = pace;
        result
    }

    /// Lists all sockets, which also finds new ones.
    fn look_at_all(&mut self, now: Instant) -> Result<()> {
        let mut listed = std::mem::take(&mut self.listed);
        let result = self
            .pace_scan
            .run(|| self.diag.scan_into(now, &self.scan, &mut listed));
        result?;
        let at_once = self.pace_scan.cost() <= SCAN_AT_ONCE;
        let mut present = BTreeSet::new();
        let mut fresh = BTreeSet::new();
        for sample in &listed {
            let cookie = sample.cookie.unwrap_or_default();
            let is_new = !self.flows.contains_key(&cookie);
            if is_new && !self.admit(sample) {
                continue;
            }
            if present.insert(cookie) && (is_new || at_once) {
                fresh.insert(cookie);
                self.keep(sample.clone());
            }
        }
        self.listed = listed;
        for (cookie, track) in &mut self.flows {
            track.flow.ended = !present.contains(cookie);
        }
        if !at_once {
            self.look_at_each(&fresh)?;
        }
        self.book.refresh(Clock.now())?;
        self.settle();
        Ok(())
    }

    /// Asks for the known flows one by one, except those that were just seen.
    fn look_at_each(&mut self, fresh: &BTreeSet<u64>) -> Result<()> {
        let asked: Vec<_> = self
            .flows
            .iter()
            .filter(|(cookie, track)| !track.flow.ended && !fresh.contains(cookie))
            .map(|(&cookie, track)| (cookie, track.flow.key))
            .collect();
        for (cookie, key) in asked {
            // Whether one that is not found is gone, the next list shows.
            if let Some(sample) = self.diag.sample_one(Clock.now(), key, Some(cookie))? {
                self.keep(sample);
            }
        }
        Ok(())
    }

    /// Whether a flow that was not known so far is to be kept: it matches, or may turn out to.
    fn admit(&mut self, sample: &FlowSample) -> bool {
        let matches = if self.filter.needs_owners() {
            match self.book.known(sample.inode) {
                Known::Owners(owners) => Some(self.filter.matches(sample, owners)),
                Known::Nobody => Some(self.filter.matches(sample, &[])),
                Known::NotYet => None,
            }
        } else {
            Some(self.filter.matches(sample, &[]))
        };
        let (Some(cookie), true) = (sample.cookie, matches != Some(false)) else {
            return false;
        };
        if self.samples >= self.request.samples_max {
            if matches == Some(true) {
                self.left_out.insert(cookie);
            }
            return false;
        }
        self.order += 1;
        let flow = Track {
            key: sample.key,
            cookie,
            owners: Vec::new(),
            samples: Vec::new(),
            ended: false,
            interface: None,
            options_error: None,
        };
        let track = Followed {
            order: self.order,
            flow,
            matches: matches == Some(true),
        };
        self.flows.insert(cookie, track);
        true
    }

    /// Completes a sample of a known flow by what its owner shows and keeps it.
    fn keep(&mut self, mut sample: FlowSample) {
        let cookie = sample.cookie.unwrap_or_default();
        let Some(track) = self.flows.get_mut(&cookie) else {
            return;
        };
        if track.flow.owners.is_empty()
            && let Known::Owners(owners) = self.book.known(sample.inode)
        {
            track.flow.owners = owners.to_vec();
            self.book.note_near(&track.flow.owners);
        }
        self.book.fill(&mut track.flow, &mut sample);
        track.flow.samples.push(sample);
        self.samples += 1;
    }

    /// Decides about the flows on trial whose owners are known by now, and completes the first
    /// samples of new flows, whose owners were not known when they were taken.
    fn settle(&mut self) {
        let Self {
            flows,
            book,
            filter,
            samples,
            ..
        } = self;
        flows.retain(|_, track| {
            let flow = &mut track.flow;
            let Some(last) = flow.samples.last_mut() else {
                return true;
            };
            let matches = match book.known(last.inode) {
                Known::NotYet => return true,
                Known::Nobody => track.matches || filter.matches(last, &[]),
                Known::Owners(owners) => {
                    if flow.owners.is_empty() {
                        flow.owners = owners.to_vec();
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
                let mut last = flow.samples.pop().expect("there is one");
                book.fill(flow, &mut last);
                flow.samples.push(last);
            }
            true
        });
    }

    /// A random time after the planned one: on average the interval, or longer where looking is
    /// dear or the samples would not suffice to the end.
    fn next_look(&mut self, planned: Instant, deadline: Instant) -> Instant {
        let now = Clock.now();
        let live = self
            .flows
            .values()
            .filter(|track| !track.flow.ended)
            .count();
        let rest = self.request.samples_max.saturating_sub(self.samples).max(1);
        let rationed = deadline.since(now).mul_f64(live as f64 / rest as f64);
        let mean = self
            .request
            .interval
            .max(self.pace_look.cost() * SHARE_LOOK)
            .max(rationed);
        let nanos = u64::try_from(mean.as_nanos()).unwrap_or(u64::MAX / 4);
        let spacing = nanos / 4 + self.rng.below(nanos + nanos / 2);
        let next = planned + Duration::from_nanos(spacing);
        // After a delay the missed looks are not made up for.
        next.max(now).min(deadline)
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

    fn progress(&self, now: Instant) -> WatchProgress {
        // Not `self.samples`, in which those on trial count.
        let matching = || self.flows.values().filter(|track| track.matches);
        WatchProgress {
            elapsed: now.since(self.began),
            duration: self.request.duration,
            flows: matching().count(),
            samples: matching().map(|track| track.flow.samples.len()).sum(),
        }
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
        Recording {
            flows,
            hosts: self.hosts,
            began: self.began,
            ended: Clock.now(),
            stopped: self.stopped,
            process_ended: self.process_ended,
            flows_left_out: self.left_out.len(),
            unseen_processes: self.book.unseen_processes(),
        }
    }
}

/// The destination to which connections take most of the ports that the kernel chooses from.
fn ports_taken(diag: &mut SockDiag, now: Instant) -> Result<Option<PortUse>> {
    let range = sysctl("net.ipv4.ip_local_port_range").and_then(|text| {
        let (first, last) = text.split_once(' ')?;
        Some((first.parse::<u16>().ok()?, last.parse::<u16>().ok()?))
    });
    let Some((first, last)) = range else {
        return Ok(None);
    };
    let request = ScanRequest {
        time_wait: true,
        ..ScanRequest::default()
    };
    let mut taken: BTreeMap<(IpAddr, SocketAddr), u32> = BTreeMap::new();
    for sample in diag.scan(now, &request)? {
        let FlowKey { local, remote } = sample.key;
        if (first..=last).contains(&local.port()) {
            *taken.entry((local.ip(), remote)).or_default() += 1;
        }
    }
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
