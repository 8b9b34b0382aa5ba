//! Looks at connections all the time, as `watch` does, in windows that follow each other: tells
//! what they did each second, asks the doctor about each window, and keeps the last of them to be
//! saved. Bounds its own CPU time.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use base::{Fraction, Instant, Netns, human};
use doctor::{Recording, Track};
use linux::{
    Filter, KnownOwners, NetnsHandle, OwnerProcess, ScanRequest, SockDiag, WatchProgress,
    WatchRequest,
};

use super::live::Watchlist;
use super::model::{Event, Look};
use crate::commands::diagnose::{quoted, seen};
use crate::commands::record;
use crate::commands::watch::own_cpu_time;
use crate::commands::watch::pace::Pace;
use crate::commands::watching::SOCKETS_WATCHED_WHOLE;

/// Mean distance of two looks at a connection.
const INTERVAL: Duration = Duration::from_millis(100);
/// The screen gets numbers so often.
const TELL_EVERY: Duration = Duration::from_secs(1);
/// The first answer is to come soon; the doctor wants at least twenty looks.
const FIRST_WINDOW: Duration = Duration::from_millis(2600);
const WINDOW: Duration = Duration::from_secs(5);
/// Where the doctor is asked less often, windows are longer: each one looks for the owners of all
/// sockets anew.
const WINDOW_MAX: Duration = Duration::from_secs(10);
const HOST_LOOKS: u32 = 5;
/// Less than this shows too little to ask the doctor about.
const JUDGED_MIN: Duration = Duration::from_secs(2);
/// Samples of a window, which take about 100 bytes each.
const SAMPLES_MAX: usize = 200_000;
/// Windows that are kept to be saved, for about two minutes, and what they may take.
const KEPT_WINDOWS_MAX: usize = 24;
const KEPT_BYTES_MAX: usize = 32 << 20;
/// About what a connection takes in each window, beside its samples, and what a sample takes.
const CONNECTION_BYTES: usize = 4096;
const SAMPLE_BYTES: usize = 100;
/// How long a request may go unseen in a pause.
const STOP_CHECK: Duration = Duration::from_millis(50);
/// Of the CPU time that may be used so much is aimed at.
const AIMED_AT: f64 = 0.9;
/// Looks never get less than this of their part: without any there is nothing to show.
const THRIFT_MIN: f64 = 0.05;
/// What fails is tried again after this time.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// What is looked at, and how much that may cost.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) netns: Netns,
    pub(super) filter: Filter,
    /// Share of one core.
    pub(super) max_cpu: Fraction,
}

/// The thread that looks.
#[derive(Debug)]
pub(super) struct Engine {
    shared: Arc<Shared>,
    saves: Sender<PathBuf>,
    thread: Option<JoinHandle<anyhow::Result<()>>>,
}

#[derive(Debug, Default)]
struct Shared {
    is_paused: AtomicBool,
    /// Something is to be saved.
    is_asked: AtomicBool,
    is_over: AtomicBool,
}

impl Shared {
    /// Whether the window ends before its time.
    fn cuts_window(&self) -> bool {
        let all = [&self.is_paused, &self.is_asked, &self.is_over];
        all.into_iter().any(|flag| flag.load(Ordering::Relaxed))
    }
}

impl Engine {
    /// Begins to look, and to tell `events`.
    pub(super) fn start(request: Request, events: Sender<Event>) -> anyhow::Result<Self> {
        let shared = Arc::new(Shared::default());
        let (saves, to_save) = channel();
        let mut work = Work {
            netns: NetnsHandle::open(&request.netns)?,
            process: request
                .filter
                .fixed_pid()
                .map(OwnerProcess::open)
                .transpose()?,
            pace: Pace::new(WINDOW, judging_budget(request.max_cpu)),
            shared: Arc::clone(&shared),
            kept: VecDeque::new(),
            watchlist: Watchlist::new(linux::Clock.now()),
            owners: KnownOwners::default(),
            judged: None,
            windows: 0,
            usage: Usage::new(),
            thrift: 1.0,
            request,
            events,
            to_save,
        };
        let thread = std::thread::Builder::new()
            .name("looking".into())
            .spawn(move || work.run())
            .context("starting to look")?;
        Ok(Self {
            shared,
            saves,
            thread: Some(thread),
        })
    }

    /// Stops looking, or goes on.
    pub(super) fn pause(&self, is_paused: bool) {
        self.shared.is_paused.store(is_paused, Ordering::Relaxed);
    }

    /// Saves what is kept; how that went is an event.
    pub(super) fn save(&self, path: PathBuf) {
        // Where nobody receives it the thread has ended, which is told.
        if self.saves.send(path).is_ok() {
            self.shared.is_asked.store(true, Ordering::Relaxed);
        }
    }

    /// How the thread ended, where it has ended.
    pub(super) fn ended(&mut self) -> Option<anyhow::Result<()>> {
        let is_over = self.thread.as_ref().is_some_and(JoinHandle::is_finished);
        let thread = self.thread.take_if(|_| is_over)?;
        Some(joined(thread))
    }
}

fn joined<T>(thread: JoinHandle<T>) -> T {
    let ended = thread.join();
    ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // Its failure does not matter any more.
            let _ = thread.join();
        }
    }
}

/// Of what may be used, three parts in five go to looks, one to the doctor, and one to what is done
/// with looks and on the screen.
fn judging_budget(max_cpu: Fraction) -> f64 {
    max_cpu.as_f64() / 5.0
}

/// Looking takes at most one part in so many of the time; `thrift` makes it less where all together
/// took more than it may.
fn share_look(max_cpu: Fraction, thrift: f64) -> u32 {
    let share = thrift * 3.0 * max_cpu.as_f64() / 5.0;
    (1.0 / share).ceil().clamp(2.0, 10_000.0) as u32
}

/// What the next windows may take of their part, after one that took so many times what it may.
fn adapted(thrift: f64, excess: f64) -> f64 {
    let factor = (AIMED_AT / excess.max(0.01)).clamp(0.7, 1.2);
    (thrift * factor).clamp(THRIFT_MIN, 1.0)
}

/// The work of the thread.
struct Work {
    request: Request,
    netns: NetnsHandle,
    /// The one that was asked for.
    process: Option<OwnerProcess>,
    shared: Arc<Shared>,
    events: Sender<Event>,
    to_save: Receiver<PathBuf>,
    pace: Pace,
    /// The last windows, the oldest first.
    kept: VecDeque<Recording>,
    watchlist: Watchlist,
    owners: KnownOwners,
    /// When the doctor was asked, and the CPU time that it took.
    judged: Option<(Instant, Duration)>,
    windows: u64,
    usage: Usage,
    /// See [`adapted`].
    thrift: f64,
}

impl Work {
    /// One window after the other.
    ///
    /// # Errors
    /// Where the first one fails: what was typed, or a permission. Later failures are told.
    fn run(&mut self) -> anyhow::Result<()> {
        let mut process_ended = false;
        while !self.shared.is_over.load(Ordering::Relaxed) {
            self.save_what_is_asked();
            if process_ended || self.shared.is_paused.load(Ordering::Relaxed) {
                std::thread::sleep(STOP_CHECK);
                continue;
            }
            let (began, cpu) = (linux::Clock.now(), own_cpu_time());
            match self.window() {
                Ok(recording) => {
                    self.windows += 1;
                    self.judge(&recording);
                    process_ended = recording.process_ended;
                    self.keep(recording);
                    let time = linux::Clock.now().since(began).as_secs_f64();
                    let spent = own_cpu_time().saturating_sub(cpu).as_secs_f64();
                    let may = time * self.request.max_cpu.as_f64();
                    self.thrift = adapted(self.thrift, spent / may);
                }
                Err(_) if self.has_process_ended() => process_ended = true,
                Err(error) if self.windows == 0 => return Err(error),
                Err(error) => {
                    self.tell(Event::Note(format!("could not look: {error:#}")));
                    std::thread::sleep(RETRY_AFTER);
                }
            }
            if process_ended {
                self.tell(Event::Note("the process ended".into()));
            }
        }
        Ok(())
    }

    fn has_process_ended(&self) -> bool {
        self.process.as_ref().is_some_and(OwnerProcess::has_ended)
    }

    fn tell(&self, event: Event) {
        // Where nobody listens any more it is over.
        let _ = self.events.send(event);
    }

    /// How long the next window is to be: until the doctor is to be asked.
    fn length(&self) -> Duration {
        if self.windows == 0 {
            return FIRST_WINDOW;
        }
        let now = linux::Clock.now();
        let due = self.judged.map_or(Duration::ZERO, |(at, cost)| {
            self.pace.interval(cost).saturating_sub(now.since(at))
        });
        due.clamp(WINDOW, WINDOW_MAX)
    }

    /// Looks for some seconds, and tells each second what was seen.
    fn window(&mut self) -> anyhow::Result<Recording> {
        let length = self.length();
        let sockets = SockDiag::open_in(&self.netns)?
            .scan(&ScanRequest::default())?
            .len();
        // The other end of a connection may be among those that do not match.
        let filter = match sockets <= SOCKETS_WATCHED_WHOLE {
            true => Filter::default(),
            false => self.request.filter.clone(),
        };
        let sysctls = crate::subject::sysctls();
        let stop = AtomicBool::new(false);
        let Self {
            netns,
            shared,
            watchlist,
            owners,
            usage,
            events,
            request:
                Request {
                    filter: wanted,
                    max_cpu,
                    ..
                },
            process,
            windows,
            thrift,
            ..
        } = self;
        let request = WatchRequest {
            netns: Some(netns),
            samples_max: SAMPLES_MAX,
            interval: INTERVAL,
            share_look: share_look(*max_cpu, *thrift),
            host_interval: length / HOST_LOOKS,
            sysctls: &sysctls,
            owners: Some(owners),
            stop: Some(&stop),
            seed: *windows,
            ..WatchRequest::new(filter, length)
        };
        let mut looks = 0;
        let mut recording = linux::watch(&request, &mut |seen: WatchProgress| {
            let process_ended = process.as_ref().is_some_and(OwnerProcess::has_ended);
            if shared.cuts_window() || process_ended {
                stop.store(true, Ordering::Relaxed);
            }
            // Where looks are rare, there may be none since the last time.
            if std::mem::replace(&mut looks, seen.looks) != seen.looks {
                seen.tracks.each(&mut |track| watchlist.handle_look(track));
            }
            let now = linux::Clock.now();
            if let Some((looks_per_s, cpu)) = usage.poll(now, &seen) {
                let tracks = seen.tracks.iter();
                let wanted = tracks.filter(|track| selects(wanted, track));
                let connections = watchlist.poll(now, wanted);
                // As in `tell`.
                let _ = events.send(Event::Looked(Look {
                    connections,
                    looks_per_s,
                    cpu,
                }));
            }
        })?;
        recording.process_ended |= self.has_process_ended();
        Ok(recording)
    }

    /// Asks the doctor, where that is due.
    fn judge(&mut self, recording: &Recording) {
        let now = linux::Clock.now();
        let is_due = self
            .judged
            .is_none_or(|(at, cost)| now.since(at) >= self.pace.interval(cost).mul_f64(0.9));
        let length = recording.ended.since(recording.began);
        if !is_due || length < JUDGED_MIN || self.shared.is_over.load(Ordering::Relaxed) {
            return;
        }
        let before = own_cpu_time();
        let Request { netns, filter, .. } = &self.request;
        let document = seen::diagnose_many(recording, netns, filter);
        self.judged = Some((now, own_cpu_time().saturating_sub(before)));
        self.tell(Event::Judged(Box::new(document)));
    }

    fn keep(&mut self, recording: Recording) {
        self.kept.push_back(recording);
        let bytes = |one: &Recording| -> usize {
            let each = one.flows.iter();
            let each = each.map(|flow| CONNECTION_BYTES + SAMPLE_BYTES * flow.samples.len());
            each.sum()
        };
        let mut all: usize = self.kept.iter().map(bytes).sum();
        while self.kept.len() > KEPT_WINDOWS_MAX || (all > KEPT_BYTES_MAX && self.kept.len() > 1) {
            all -= self.kept.pop_front().as_ref().map_or(0, bytes);
        }
    }

    fn save_what_is_asked(&mut self) {
        loop {
            self.shared.is_asked.store(false, Ordering::Relaxed);
            match self.to_save.try_recv() {
                Ok(path) => {
                    let told = self.save(&path).unwrap_or_else(|error| {
                        format!("could not save {}: {error:#}", path.display())
                    });
                    self.tell(Event::Note(told));
                }
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return,
            }
        }
    }

    /// Writes what is kept, as `record` does; what to say of it.
    fn save(&self, path: &std::path::Path) -> anyhow::Result<String> {
        let kept = self.kept.iter().cloned();
        let Some(mut recording) = kept.reduce(Recording::followed_by) else {
            return Ok("nothing to save yet".into());
        };
        record::keep_wanted(&mut recording, |track| selects(&self.request.filter, track));
        record::save(&recording, &self.request.netns, path)?;
        let connections = human::count(recording.flows.len() as u64, "connection");
        let time = human::time(recording.ended.since(recording.began));
        let name = path.display().to_string();
        let name = match name.contains(['.', '/']) {
            true => name,
            false => format!("./{name}"),
        };
        let name = quoted(&name);
        Ok(format!(
            "saved {connections}, {time}; next: tcptailor diagnose {name}"
        ))
    }
}

fn selects(filter: &Filter, track: &Track) -> bool {
    seen::selects(filter, track)
}

/// How often is looked, and the CPU time of this process, from one telling to the next.
#[derive(Debug)]
struct Usage {
    told: Instant,
    cpu: Duration,
    /// Looks since then.
    looks: u64,
    /// Looks in this window so far.
    of_window: u64,
}

impl Usage {
    fn new() -> Self {
        Self {
            told: linux::Clock.now(),
            cpu: own_cpu_time(),
            looks: 0,
            of_window: 0,
        }
    }

    /// Looks per second and share of a core, where it is time to tell.
    fn poll(&mut self, now: Instant, seen: &WatchProgress) -> Option<(f64, f64)> {
        // A new window begins to count anew.
        let new = seen.looks.checked_sub(self.of_window);
        self.looks += new.unwrap_or(seen.looks);
        self.of_window = seen.looks;
        let time = now.since(self.told);
        if time < TELL_EVERY {
            return None;
        }
        let cpu = own_cpu_time();
        let spent = cpu.saturating_sub(self.cpu).as_secs_f64();
        let looks = std::mem::take(&mut self.looks);
        (self.told, self.cpu) = (now, cpu);
        let time_s = time.as_secs_f64();
        Some((looks as f64 / time_s, spent / time_s))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_took_too_much_gets_less() {
        let mut thrift = 1.0;
        for _ in 0..3 {
            thrift = adapted(thrift, 2.0);
        }
        assert!((0.3..0.4).contains(&thrift), "{thrift}");
        for _ in 0..100 {
            thrift = adapted(thrift, 100.0);
        }
        assert!(thrift >= THRIFT_MIN, "{thrift}");
        for _ in 0..100 {
            thrift = adapted(thrift, 0.1);
        }
        assert!(thrift <= 1.0 && thrift > 0.99, "{thrift}");
        assert_eq!(adapted(0.5, AIMED_AT), 0.5);
    }

    #[test]
    fn looks_get_most_of_what_may_be_used() {
        let percent = |text: &str| text.parse::<Fraction>().expect("a share");
        assert_eq!(share_look(percent("5%"), 1.0), 34);
        assert_eq!(share_look(percent("5%"), 0.5), 67);
        assert_eq!(share_look(percent("100%"), 1.0), 2);
    }
}
