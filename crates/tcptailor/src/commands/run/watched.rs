//! One run of a program: it is watched from before its start to its end.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use doctor::{Recording, SocketOwner};
use linux::supervise::{
    Ended, Filtering, Launch, LaunchError, Noted, Notes, Running, SocketSetting, launch,
    send_signal, shares_terminal,
};
use linux::{Clock, Filter, NetnsHandle, ScanRequest, SockDiag, WatchRequest};

use crate::commands::watching;
use crate::exit::{Exit, Problem};
use crate::interrupt;

/// The end of a program is unknown; a watch needs one.
const TIME_MAX: Duration = Duration::from_secs(30 * 24 * 3600);
/// Exit code of shells for a program that cannot be run.
const NOT_RUNNABLE: u8 = 126;
const NO_SUCH_PROGRAM: u8 = 127;
/// Connections with fewer looks are judged together.
const LOOKS_ALONE: usize = 20;
/// Ctrl-C (signal(7)); the same number on all Linux machines.
const SIGINT: i32 = 2;

/// The program that runs now; 0 where none does.
static RUNS_NOW: AtomicU32 = AtomicU32::new(0);
/// A signal that came before it did; 0 for none.
static CAME_BEFORE: AtomicI32 = AtomicI32::new(0);

/// Has every signal that asks for an end go to the program. A Ctrl-C in its terminal has reached it
/// by itself.
pub(super) fn give_signals_to_the_program() {
    interrupt::hand_over(|signal| {
        match RUNS_NOW.load(Ordering::SeqCst) {
            0 => CAME_BEFORE.store(signal, Ordering::SeqCst),
            _ if signal == SIGINT && shares_terminal() => {}
            // It may have ended just now.
            pid => drop(send_signal(pid, signal)),
        }
    });
}

/// The program, and how it is watched.
pub(super) struct Program<'a> {
    pub(super) command: &'a [OsString],
    pub(super) netns: &'a NetnsHandle,
    pub(super) filter: Filtering,
    pub(super) interval: Duration,
}

/// A program that has ended.
pub(super) struct Ran {
    pub(super) ended: Ended,
    pub(super) time: Duration,
    pub(super) noted: Noted,
    /// Why its calls were not shown, where they were not.
    pub(super) unfiltered: Option<String>,
}

/// A program that has ended, and all connections that were seen meanwhile.
pub(super) struct WatchedRun {
    pub(super) ended: Ended,
    pub(super) time: Duration,
    pub(super) noted: Noted,
    pub(super) unfiltered: Option<String>,
    pub(super) recording: Recording,
}

impl Program<'_> {
    /// Runs it to its end, watched.
    pub(super) fn watch(&self, settings: &[SocketSetting]) -> anyhow::Result<WatchedRun> {
        let notes = Notes::new(settings);
        let stop = AtomicBool::new(false);
        let sysctls = crate::subject::sysctls();
        let sockets = SockDiag::open_in(self.netns)?.scan(&ScanRequest::default())?;
        let is_crowded = sockets.len() > watching::SOCKETS_WATCHED_WHOLE;
        let request = WatchRequest {
            netns: Some(self.netns),
            interval: self.interval,
            sysctls: &sysctls,
            stop: Some(&stop),
            open_end: true,
            announced: Some(&notes),
            only_announced: is_crowded && self.filter != Filtering::Never,
            ..WatchRequest::new(Filter::default(), TIME_MAX)
        };
        let (ready, is_ready) = mpsc::channel();
        let request = &request;
        let (ran, watched) = thread::scope(|scope| {
            // Told after the first look, and then of no interest; the sender goes with the watch.
            let watcher = scope.spawn(move || {
                linux::watch(request, &mut |_| {
                    let _ = ready.send(());
                })
            });
            // Where it cannot watch it ends by itself, and says why below.
            let ran = is_ready.recv().ok().map(|()| self.run_noted(&notes));
            stop.store(true, Ordering::SeqCst);
            let watched = watcher.join();
            let watched = watched.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            (ran, watched)
        });
        let mut recording = watched?;
        let ran = ran.unwrap_or_else(|| Err(anyhow::anyhow!("the watch ended too early")))?;
        // It was the program's end that ended it.
        recording.stopped = false;
        recording.process_ended = true;
        name_owners(&mut recording, &ran.noted);
        Ok(WatchedRun {
            ended: ran.ended,
            time: ran.time,
            noted: ran.noted,
            unfiltered: ran.unfiltered,
            recording,
        })
    }

    /// Runs it to its end, with these settings.
    pub(super) fn run(&self, settings: &[SocketSetting]) -> anyhow::Result<Ran> {
        self.run_noted(&Notes::new(settings))
    }

    fn run_noted(&self, notes: &Notes) -> anyhow::Result<Ran> {
        let began = Clock.now();
        let running = self.start(notes)?;
        RUNS_NOW.store(running.pid(), Ordering::SeqCst);
        let signal = CAME_BEFORE.swap(0, Ordering::SeqCst);
        if signal != 0 {
            let _ = send_signal(running.pid(), signal);
        }
        let ended = running.wait();
        RUNS_NOW.store(0, Ordering::SeqCst);
        Ok(Ran {
            ended: ended?,
            time: Clock.now().since(began),
            noted: notes.noted(),
            unfiltered: running.unfiltered().map(str::to_owned),
        })
    }

    fn start(&self, notes: &Notes) -> anyhow::Result<Running> {
        let asked = Launch {
            command: self.command,
            netns: Some(self.netns),
            notes,
            filter: self.filter,
        };
        let problem = |code, error: &LaunchError| Problem::new(Exit::OfProgram(code), error);
        launch(&asked).map_err(|error| match error {
            LaunchError::NotFound { .. } => problem(NO_SUCH_PROGRAM, &error)
                .hint("Write the program with its path, or as it is found in PATH.")
                .into(),
            LaunchError::NotRunnable { .. } => problem(NOT_RUNNABLE, &error).into(),
            LaunchError::Ours(error) => error.into(),
        })
    }
}

/// Assigns owners to connections that were gone before their owner could be looked up. Short ones
/// of several processes with one name are taken for those of the first: a script that calls a
/// client a hundred times has one service, not a hundred.
fn name_owners(recording: &mut Recording, noted: &Noted) {
    let mut firsts: BTreeMap<String, SocketOwner> = BTreeMap::new();
    for track in &mut recording.flows {
        if track.owners.is_empty() {
            let owner = noted.owner_of(track).cloned();
            track.owners.extend(owner);
        }
        let is_short = track.ended && track.samples.len() < LOOKS_ALONE;
        if let (true, true, [owner]) = (is_short, noted.has(track), &track.owners[..]) {
            let name = owner.process.command.clone();
            let first = firsts.entry(name).or_insert_with(|| owner.clone());
            track.owners = vec![first.clone()];
        }
    }
}
