//! Some seconds in which all namespaces are sampled at the same time, each by a thread. Each
//! reports once a second what its connections did; the first one passes on the latest reports of
//! all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base::{FlowSample, Fraction, Instant};
use doctor::Recording;
use linux::{
    Filter, KnownOwners, NetnsHandle, NetnsPlace, OwnerProcess, ScanRequest, SockDiag,
    WatchObserver, WatchProgress, WatchRequest,
};

use super::super::live::{Connection, Watchlist};
use super::super::model::{Event, Look};
use super::judge::Judge;
use super::{Request, Shared, selects};
use crate::commands::watch::own_cpu_time;
use crate::commands::watching::SOCKETS_WATCHED_WHOLE;

/// Mean distance of two looks at a connection.
const INTERVAL: Duration = Duration::from_millis(100);
/// The screen gets numbers this often.
const TELL_EVERY: Duration = Duration::from_secs(1);
const HOST_LOOKS: u32 = 5;
/// With more namespaces than this, each host is sampled at the beginning and the end only.
const HOSTS_LOOKED_AT: usize = 8;
/// Samples of a window, which take about 100 bytes each; and the least number in a namespace.
const SAMPLES_MAX: usize = 200_000;
const SAMPLES_MIN: usize = 1000;

/// A namespace, and what is known of it from window to window.
#[derive(Debug)]
pub(super) struct Spot {
    pub(super) place: Arc<NetnsPlace>,
    watchlist: Watchlist,
    owners: KnownOwners,
    rate: LookRate,
    pub(super) judge: Judge,
}

impl Spot {
    pub(super) fn new(place: NetnsPlace, now: Instant) -> Self {
        let place = Arc::new(place);
        Self {
            watchlist: Watchlist::new(Arc::clone(&place), now),
            place,
            owners: KnownOwners::default(),
            rate: LookRate::new(now),
            judge: Judge::default(),
        }
    }
}

/// A namespace that is looked into in this window.
#[derive(Debug)]
pub(super) struct View {
    pub(super) spot: Spot,
    netns: NetnsHandle,
    /// Connections that it has now.
    sockets: usize,
}

impl View {
    /// Opens it. `None` where it has no socket at all, unless it is the first one.
    pub(super) fn open(spot: Spot, is_first: bool) -> linux::Result<Option<Self>> {
        let netns = NetnsHandle::open(&spot.place.netns)?;
        let mut diag = SockDiag::open_in(&netns)?;
        let mut sockets = 0;
        let ends = ScanRequest {
            ends_only: true,
            ..ScanRequest::default()
        };
        diag.scan_each(&ends, &mut |_| sockets += 1)?;
        // Where there are listeners, or were connections, there may be some in a moment.
        let others = ScanRequest {
            listeners: true,
            no_connections: true,
            time_wait: true,
            ..ends
        };
        let is_quiet = sockets == 0 && !is_first && diag.scan(&others)?.is_empty();
        Ok((!is_quiet).then_some(Self {
            spot,
            netns,
            sockets,
        }))
    }

    /// By how much of what all may take it takes its part: also an empty one is looked into.
    fn weight(&self) -> f64 {
        (self.sockets + 1) as f64
    }
}

/// State shared by all namespaces of a window.
pub(super) struct Window<'w> {
    pub(super) request: &'w Request,
    pub(super) shared: &'w Shared,
    /// The requested process.
    pub(super) process: Option<&'w OwnerProcess>,
    pub(super) board: &'w Board,
    pub(super) length: Duration,
    pub(super) thrift: f64,
    pub(super) seed: u64,
    pub(super) views: usize,
}

impl Window<'_> {
    /// Looks into all of them; each has an answer of its own.
    pub(super) fn watch_all(&self, views: &mut [View]) -> Vec<anyhow::Result<Recording>> {
        let weights: f64 = views.iter().map(View::weight).sum();
        if let [view] = views {
            return vec![self.watch(view, true, 1.0)];
        }
        std::thread::scope(|scope| {
            let threads: Vec<_> = views
                .iter_mut()
                .enumerate()
                .map(|(at, view)| {
                    let part = view.weight() / weights;
                    scope.spawn(move || self.watch(view, at == 0, part))
                })
                .collect();
            let joined = threads.into_iter().map(|thread| {
                let joined = thread.join();
                joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            });
            joined.collect()
        })
    }

    /// Looks into one, which gets this part of what all may take.
    fn watch(&self, view: &mut View, is_first: bool, part: f64) -> anyhow::Result<Recording> {
        let View {
            spot:
                Spot {
                    place,
                    watchlist,
                    owners,
                    rate,
                    judge,
                },
            netns,
            sockets,
        } = view;
        // The other end of a connection may be among those that do not match.
        let filter = match *sockets <= SOCKETS_WATCHED_WHOLE {
            true => Filter::default(),
            false => self.request.filter.clone(),
        };
        let sysctls = crate::subject::sysctls();
        let stop = AtomicBool::new(false);
        let shown = self.shared.shown();
        let host_looks = match self.views <= HOSTS_LOOKED_AT {
            true => HOST_LOOKS,
            false => 1,
        };
        let request = WatchRequest {
            netns: Some(&*netns),
            samples_max: ((SAMPLES_MAX as f64 * part) as usize).max(SAMPLES_MIN),
            interval: INTERVAL,
            share_look: share_look(self.request.max_cpu, self.thrift * part),
            host_interval: self.length / host_looks,
            sysctls: &sysctls,
            owners: Some(&*owners),
            watches: u32::try_from(self.views).unwrap_or(u32::MAX),
            stop: Some(&stop),
            seed: self.seed,
            ..WatchRequest::new(filter, self.length)
        };
        let mut looker = SampleReceiver {
            window: self,
            place,
            watchlist,
            rate,
            judge,
            shown: &shown,
            stop: &stop,
            is_first,
        };
        let mut recording = linux::watch_by(&request, &mut looker)?;
        recording.process_ended |= self.has_process_ended();
        Ok(recording)
    }

    fn has_process_ended(&self) -> bool {
        self.process.is_some_and(OwnerProcess::has_ended)
    }
}

/// Receives the samples of a namespace.
struct SampleReceiver<'w> {
    window: &'w Window<'w>,
    place: &'w Arc<NetnsPlace>,
    watchlist: &'w mut Watchlist,
    rate: &'w mut LookRate,
    judge: &'w Judge,
    /// Connections that are on the screen.
    shown: &'w BTreeSet<u64>,
    stop: &'w AtomicBool,
    is_first: bool,
}

impl WatchObserver for SampleReceiver<'_> {
    fn on_look(&mut self, cookie: u64, sample: &FlowSample) {
        self.watchlist.handle_look(cookie, sample);
    }

    fn is_steady(&self, cookie: u64) -> bool {
        self.judge.rests(cookie, self.shown)
    }

    fn on_progress(&mut self, seen: WatchProgress<'_>) {
        let Window {
            request,
            shared,
            board,
            ..
        } = self.window;
        if shared.cuts_window() || self.window.has_process_ended() {
            self.stop.store(true, Ordering::Relaxed);
        }
        let now = linux::Clock.now();
        if let Some(looks_per_s) = self.rate.poll(now, seen.looks) {
            let tracks = seen.tracks.iter();
            let wanted = tracks.filter(|track| selects(&request.filter, track));
            let update = NamespaceUpdate {
                connections: self.watchlist.poll(now, wanted),
                looks_per_s,
            };
            board.put(self.place, update, self.is_first.then_some(now));
        }
    }
}

/// Looking takes at most one part in this many of the time: three parts in five of what may be
/// used, times `thrift`: less where all together took more than it may, and where there are several
/// namespaces; more where the rest took less than its two fifths.
fn share_look(max_cpu: Fraction, thrift: f64) -> u32 {
    let share = thrift * 3.0 * max_cpu.as_f64() / 5.0;
    (1.0 / share).ceil().clamp(2.0, 10_000.0) as u32
}

/// The connections of a namespace in its last second.
#[derive(Debug, Default)]
struct NamespaceUpdate {
    connections: Vec<Connection>,
    looks_per_s: f64,
}

/// Latest results of each namespace, for the screen.
#[derive(Debug)]
pub(super) struct Board {
    notes: Mutex<Notes>,
    events: Sender<Event>,
}

#[derive(Debug)]
struct Notes {
    of: BTreeMap<Arc<NetnsPlace>, NamespaceUpdate>,
    usage: Usage,
}

impl Board {
    pub(super) fn new(events: Sender<Event>) -> Self {
        Self {
            notes: Mutex::new(Notes {
                of: BTreeMap::new(),
                usage: Usage::new(linux::Clock.now()),
            }),
            events,
        }
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets the namespaces that are not looked into any more.
    pub(super) fn keep(&self, is_kept: &dyn Fn(&NetnsPlace) -> bool) {
        self.notes().of.retain(|place, _| is_kept(place));
    }

    /// Takes the update of a namespace; with `now`, passes on the latest of all.
    fn put(&self, place: &Arc<NetnsPlace>, update: NamespaceUpdate, now: Option<Instant>) {
        let mut notes = self.notes();
        let Some(now) = now else {
            notes.of.insert(Arc::clone(place), update);
            return;
        };
        let cpu = notes.usage.poll(now);
        let others = notes.of.values();
        let look = together(update, others, cpu);
        // If the receiver is gone, it ends.
        let _ = self.events.send(Event::Looked(look));
    }
}

/// Sum of all results, beginning with the first namespace's own. The rate of looks is the mean over
/// connections.
fn together<'t>(
    first: NamespaceUpdate,
    others: impl Iterator<Item = &'t NamespaceUpdate> + Clone,
    cpu: f64,
) -> Look {
    let weight = |update: &NamespaceUpdate| (update.connections.len() + 1) as f64;
    let sum: f64 = others.clone().map(weight).sum::<f64>() + weight(&first);
    let looks = |update: &NamespaceUpdate| update.looks_per_s * weight(update);
    let looks_per_s = (others.clone().map(looks).sum::<f64>() + looks(&first)) / sum;
    let mut connections = first.connections;
    connections.extend(others.flat_map(|update| update.connections.iter().cloned()));
    Look {
        connections,
        looks_per_s,
        cpu,
    }
}

/// How often is looked, from one telling to the next.
#[derive(Debug)]
struct LookRate {
    told: Instant,
    /// Looks since then.
    looks: u64,
    /// Looks in this window so far.
    of_window: u64,
}

impl LookRate {
    const fn new(now: Instant) -> Self {
        Self {
            told: now,
            looks: 0,
            of_window: 0,
        }
    }

    /// Looks per second, where it is time to tell; after this many in this window.
    fn poll(&mut self, now: Instant, of_window: u64) -> Option<f64> {
        // A new window begins to count anew.
        let new = of_window.checked_sub(self.of_window);
        self.looks += new.unwrap_or(of_window);
        self.of_window = of_window;
        let time = now.since(self.told);
        if time < TELL_EVERY {
            return None;
        }
        self.told = now;
        Some(std::mem::take(&mut self.looks) as f64 / time.as_secs_f64())
    }
}

/// The CPU time of this process, from one telling to the next.
#[derive(Debug)]
struct Usage {
    told: Instant,
    cpu: Duration,
}

impl Usage {
    fn new(now: Instant) -> Self {
        Self {
            told: now,
            cpu: own_cpu_time(),
        }
    }

    /// As a share of a core.
    fn poll(&mut self, now: Instant) -> f64 {
        let cpu = own_cpu_time();
        let spent = cpu.saturating_sub(self.cpu).as_secs_f64();
        let time_s = now.since(self.told).as_secs_f64();
        (self.told, self.cpu) = (now, cpu);
        spent / time_s.max(TELL_EVERY.as_secs_f64() / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use base::{FlowKey, FlowSample, Netns};
    use doctor::Held;

    use super::*;
    use crate::commands::diagnose::document::Direction;
    use crate::commands::top::live::Now;

    fn place(name: &str) -> Arc<NetnsPlace> {
        Arc::new(NetnsPlace {
            netns: Netns::Named(name.into()),
            container: None,
        })
    }

    fn told(place: &Arc<NetnsPlace>, cookies: &[u64], looks_per_s: f64) -> NamespaceUpdate {
        let key = FlowKey {
            local: ([10, 0, 0, 1], 40_000).into(),
            remote: ([10, 0, 0, 2], 443).into(),
        };
        let connection = |cookie: &u64| Connection {
            cookie: *cookie,
            place: Arc::clone(place),
            service: "curl to :443".into(),
            sample: Arc::new(FlowSample::empty(Instant::ZERO, key)),
            owners: Arc::from([]),
            now: Now {
                rate_bps: 8,
                direction: Direction::Out,
                held: Held::Idle,
                share: 1.0,
            },
        };
        NamespaceUpdate {
            connections: cookies.iter().map(connection).collect(),
            looks_per_s,
        }
    }

    #[test]
    fn the_screen_has_all_namespaces_and_no_longer_those_that_are_gone() {
        let (sender, events) = std::sync::mpsc::channel();
        let board = Board::new(sender);
        let [own, blue, red] = ["own", "blue", "red"].map(place);
        let now = linux::Clock.now();
        let seen = |told: NamespaceUpdate| {
            board.put(&own, told, Some(now));
            match events.try_recv() {
                Ok(Event::Looked(look)) => {
                    let cookies = look.connections.iter().map(|one| one.cookie);
                    (cookies.collect::<Vec<_>>(), look.looks_per_s)
                }
                other => panic!("{other:?}"),
            }
        };
        board.put(&blue, told(&blue, &[2, 3, 4], 2.0), None);
        board.put(&red, told(&red, &[], 10.0), None);
        // Each namespace counts for its connections, and for one more.
        let (cookies, looks_per_s) = seen(told(&own, &[1], 10.0));
        assert_eq!(cookies, [1, 2, 3, 4]);
        assert!((looks_per_s - 38.0 / 7.0).abs() < 1e-9, "{looks_per_s}");
        // What it told last stays until it tells anew, or is gone.
        assert_eq!(seen(told(&own, &[1], 10.0)).0, [1, 2, 3, 4]);
        board.keep(&|place| place.netns != Netns::Named("blue".into()));
        assert_eq!(seen(told(&own, &[1], 10.0)).0, [1]);
    }

    #[test]
    fn looks_are_counted_over_windows() {
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        let mut rate = LookRate::new(at(0));
        assert_eq!(rate.poll(at(900), 9), None);
        // A new window.
        assert_eq!(rate.poll(at(2000), 5), Some(7.0));
        assert_eq!(rate.poll(at(2500), 6), None);
        assert_eq!(rate.poll(at(3000), 15), Some(10.0));
    }

    #[test]
    fn looks_get_most_of_what_may_be_used() {
        let percent = |text: &str| text.parse::<Fraction>().expect("a share");
        assert_eq!(share_look(percent("5%"), 1.0), 34);
        assert_eq!(share_look(percent("5%"), 0.5), 67);
        assert_eq!(share_look(percent("5%"), 4.0 / 3.0), 25);
        assert_eq!(share_look(percent("100%"), 1.0), 2);
    }
}
