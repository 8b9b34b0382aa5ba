//! Samples connections continuously, as `watch` does, in consecutive windows: reports what they did
//! each second, asks the doctor about each window, and keeps the last windows to be saved. Bounds
//! its own CPU time.

mod judge;
mod window;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use base::{Fraction, Instant, Netns, human};
use doctor::{Recording, Track};
use linux::{Filter, NetnsHandle, NetnsPlace, OwnerProcess};

use self::window::{Board, Spot, View, Window};
use super::model::Event;
use crate::commands::diagnose::everywhere::Together;
use crate::commands::diagnose::{quoted, screen, seen};
use crate::commands::record;
use crate::commands::watch::own_cpu_time;
use crate::commands::watch::pace::Pace;
use crate::commands::watching::Where;

/// The first answer is to come soon; the doctor wants at least twenty looks.
const FIRST_WINDOW: Duration = Duration::from_millis(2600);
const WINDOW: Duration = Duration::from_secs(5);
/// Longest window: each one searches the owners of all sockets anew.
const WINDOW_MAX: Duration = Duration::from_secs(10);
/// Less than this shows too little to ask the doctor about.
const JUDGED_MIN: Duration = Duration::from_secs(2);
/// Windows that are kept to be saved, for about two minutes, and what they may take.
const KEPT_WINDOWS_MAX: usize = 24;
const KEPT_BYTES_MAX: usize = 32 << 20;
/// About what a connection takes in each window, beside its samples, and what a sample takes.
const CONNECTION_BYTES: usize = 4096;
const SAMPLE_BYTES: usize = 100;
/// How long a request may go unseen in a pause.
const STOP_CHECK: Duration = Duration::from_millis(50);
/// Share of the permitted CPU time that is aimed at: what a window costs is known only after it.
const AIMED_AT: f64 = 0.95;
/// Looks never get less than this of their part: without any there is nothing to show.
const THRIFT_MIN: f64 = 0.05;
/// Nor more than this, where the doctor and the screen leave time over: four parts in five of what
/// may be used.
const THRIFT_MAX: f64 = 4.0 / 3.0;
/// Time until a failed namespace is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// What to watch, and at what cost.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) places: Where,
    pub(super) filter: Filter,
    /// Share of one core.
    pub(super) max_cpu: Fraction,
}

/// The thread that looks.
#[derive(Debug)]
pub(super) struct Engine {
    shared: Arc<Shared>,
    saves: Sender<Save>,
    thread: Option<JoinHandle<anyhow::Result<()>>>,
}

/// A file to save into, and the namespace whose connections are to be saved.
type Save = (PathBuf, Option<Arc<NetnsPlace>>);

#[derive(Debug, Default)]
struct Shared {
    is_paused: AtomicBool,
    /// Something is to be saved.
    is_asked: AtomicBool,
    is_over: AtomicBool,
    /// Connections that are on the screen, by cookie.
    shown: Mutex<BTreeSet<u64>>,
}

impl Shared {
    fn shown(&self) -> BTreeSet<u64> {
        let shown = self.shown.lock();
        shown.unwrap_or_else(PoisonError::into_inner).clone()
    }

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
            process: request
                .filter
                .fixed_pid()
                .map(OwnerProcess::open)
                .transpose()?,
            pace: Pace::new(WINDOW, judging_budget(request.max_cpu)),
            shared: Arc::clone(&shared),
            kept: VecDeque::new(),
            spots: BTreeMap::new(),
            board: Board::new(events.clone()),
            judged: None,
            windows: 0,
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

    /// Which connections are on the screen.
    pub(super) fn show(&self, shown: BTreeSet<u64>) {
        let known = self.shared.shown.lock();
        *known.unwrap_or_else(PoisonError::into_inner) = shown;
    }

    /// Saves what is kept of a namespace, or of the first one; how that went is an event.
    pub(super) fn save(&self, path: PathBuf, place: Option<Arc<NetnsPlace>>) {
        // If the receiver is gone the thread has ended, which is reported.
        if self.saves.send((path, place)).is_ok() {
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

/// Share of the permitted CPU time for the doctor: three fifths go to looks at first, one to the
/// doctor, and one to processing and the screen.
fn judging_budget(max_cpu: Fraction) -> f64 {
    max_cpu.as_f64() / 5.0
}

/// Budget factor of the next windows, after one that exceeded its budget by this factor.
fn adapted(thrift: f64, excess: f64) -> f64 {
    let factor = (AIMED_AT / excess.max(0.01)).clamp(0.7, 1.2);
    (thrift * factor).clamp(THRIFT_MIN, THRIFT_MAX)
}

/// The work of the thread.
struct Work {
    request: Request,
    /// The requested process.
    process: Option<OwnerProcess>,
    shared: Arc<Shared>,
    events: Sender<Event>,
    to_save: Receiver<Save>,
    pace: Pace,
    /// The last windows, the oldest first.
    kept: VecDeque<Vec<Seen>>,
    /// The namespaces that were looked into in the last window.
    spots: BTreeMap<Netns, Spot>,
    board: Board,
    /// When the doctor was asked, and the CPU time that it took.
    judged: Option<(Instant, Duration)>,
    windows: u64,
    /// See [`adapted`].
    thrift: f64,
}

/// Samples of a namespace in a window.
struct Seen {
    place: Arc<NetnsPlace>,
    recording: Recording,
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
                Ok((seen, left_out)) => {
                    self.windows += 1;
                    if let Some(Ok(own)) = seen
                        .first()
                        .map(|seen| NetnsHandle::open(&seen.place.netns))
                    {
                        self.request.filter.renew(&own);
                    }
                    self.judge(&seen, left_out);
                    process_ended = self.has_process_ended();
                    self.keep(seen);
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
        // If the receiver is gone, it ends.
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

    /// Looks for some seconds into all namespaces, and tells each second what was seen; how many
    /// namespaces are left out.
    fn window(&mut self) -> anyhow::Result<(Vec<Seen>, usize)> {
        let (mut views, mut left_out) = self.views()?;
        let window = Window {
            request: &self.request,
            shared: &self.shared,
            process: self.process.as_ref(),
            board: &self.board,
            length: self.length(),
            thrift: self.thrift,
            seed: self.windows,
            views: views.len(),
        };
        let recordings = window.watch_all(&mut views);
        let mut all = Vec::new();
        for (at, (view, recording)) in views.into_iter().zip(recordings).enumerate() {
            let place = Arc::clone(&view.spot.place);
            match recording {
                Ok(recording) => {
                    self.spots.insert(place.netns.clone(), view.spot);
                    all.push(Seen { place, recording });
                }
                Err(error) if at == 0 => return Err(error),
                // Others may end meanwhile.
                Err(_) => left_out += 1,
            }
        }
        Ok((all, left_out))
    }

    /// The namespaces to look into now, that which was asked for or our own first; and how many are
    /// left out. One in which there is no socket at all is not looked into.
    fn views(&mut self) -> anyhow::Result<(Vec<View>, usize)> {
        let (places, mut left_out) = self.request.places.places();
        let mut before = std::mem::take(&mut self.spots);
        let mut views = Vec::new();
        for (at, place) in places.into_iter().enumerate() {
            let known = before.remove(&place.netns);
            let known = known.filter(|spot| *spot.place == place);
            let spot = known.unwrap_or_else(|| Spot::new(place, linux::Clock.now()));
            match View::open(spot, at == 0) {
                Ok(view) => views.extend(view),
                Err(error) if at == 0 => return Err(error.into()),
                Err(_) => left_out += 1,
            }
        }
        self.board
            .keep(&|place| views.iter().any(|view| *view.spot.place == *place));
        Ok((views, left_out))
    }

    /// Asks the doctor, where that is due.
    fn judge(&mut self, seen: &[Seen], left_out: usize) {
        let now = linux::Clock.now();
        let is_due = self
            .judged
            .is_none_or(|(at, cost)| now.since(at) >= self.pace.interval(cost).mul_f64(0.9));
        let lengths = seen.iter().map(|Seen { recording, .. }| recording);
        let lengths = lengths.map(|recording| recording.ended.since(recording.began));
        let length = lengths.max().unwrap_or_default();
        if !is_due || length < JUDGED_MIN || self.shared.is_over.load(Ordering::Relaxed) {
            return;
        }
        let before = own_cpu_time();
        let mut together = Together::new(left_out);
        let shown = self.shared.shown();
        for Seen { place, recording } in seen {
            let Some(spot) = self.spots.get_mut(&place.netns) else {
                continue;
            };
            let filter = &self.request.filter;
            let document = spot.judge.judge(recording, &place.netns, filter, &shown);
            together.add(document, place);
        }
        let document = together.document();
        self.judged = Some((now, own_cpu_time().saturating_sub(before)));
        self.tell(Event::Judged(Box::new(document)));
    }

    fn keep(&mut self, seen: Vec<Seen>) {
        self.kept.push_back(seen);
        let bytes = |window: &Vec<Seen>| -> usize {
            let flows = window.iter().flat_map(|seen| &seen.recording.flows);
            let each = flows.map(|flow| CONNECTION_BYTES + SAMPLE_BYTES * flow.samples.len());
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
                Ok((path, place)) => {
                    let told = self.save(&path, place.as_deref()).unwrap_or_else(|error| {
                        format!("could not save {}: {error:#}", path.display())
                    });
                    self.tell(Event::Note(told));
                }
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return,
            }
        }
    }

    /// Writes what is kept of one namespace, as `record` does; what to say of it.
    fn save(&self, path: &std::path::Path, place: Option<&NetnsPlace>) -> anyhow::Result<String> {
        let first = self.kept.iter().flatten().map(|seen| &*seen.place).next();
        let Some(place) = place.or(first) else {
            return Ok("nothing to save yet".into());
        };
        let kept = self.kept.iter().flatten();
        let kept = kept.filter(|seen| seen.place.netns == place.netns);
        let kept = kept.map(|seen| seen.recording.clone());
        let Some(mut recording) = kept.reduce(Recording::followed_by) else {
            return Ok("nothing to save yet".into());
        };
        record::keep_wanted(&mut recording, |track| selects(&self.request.filter, track));
        record::save(&recording, &place.netns, path)?;
        let connections = human::count(recording.flows.len() as u64, "connection");
        let time = human::time(recording.ended.since(recording.began));
        let name = path.display().to_string();
        let name = match name.contains(['.', '/']) {
            true => name,
            false => format!("./{name}"),
        };
        let name = quoted(&name);
        let of = match &self.request.places {
            Where::One(_) => String::new(),
            Where::All => {
                let place = screen::place_name(&place.netns, place.container.as_deref());
                format!(" of {place}")
            }
        };
        Ok(format!(
            "saved {connections}{of}, {time}; next: tcptailor diagnose {name}"
        ))
    }
}

fn selects(filter: &Filter, track: &Track) -> bool {
    seen::selects(filter, track)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_doctor_and_the_screen_leave_over_is_used_for_looks() {
        // Looks that get what they may and cost three fifths of the bound, the rest a tenth of it.
        let spent = |thrift: f64| 0.6 * thrift + 0.1;
        let mut thrift = 1.0;
        for _ in 0..20 {
            thrift = adapted(thrift, spent(thrift));
        }
        assert_eq!(thrift, THRIFT_MAX);
        assert!(spent(thrift) <= AIMED_AT);
        // Where the rest costs a third, they get less, and all together what is aimed at.
        let spent = |thrift: f64| 0.6 * thrift + 1.0 / 3.0;
        for _ in 0..20 {
            thrift = adapted(thrift, spent(thrift));
        }
        assert!((spent(thrift) - AIMED_AT).abs() < 0.01, "{thrift}");
    }

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
        assert_eq!(thrift, THRIFT_MAX);
        assert_eq!(adapted(0.5, AIMED_AT), 0.5);
    }
}
