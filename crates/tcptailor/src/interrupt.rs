//! Ctrl-C, SIGTERM and the loss of the terminal (SIGHUP): the first asks the command to end in
//! order, the second ends the program.
//!
//! A command that runs for more than a moment looks at [`stopped`] (or hands [`stop_flag`] down)
//! and returns; whatever it made is then taken down by `Drop`. Where a command waits in a place
//! that cannot look, it registers with [`on_stop`] what wakes it. A second Ctrl-C only takes
//! away the names of namespaces; what else it leaves behind, the next start removes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use anyhow::Context;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;

use crate::exit::Exit;

static STOP: AtomicBool = AtomicBool::new(false);
static NEXT_ID: AtomicU64 = AtomicU64::new(0);
static CLEANUPS: Mutex<Vec<Cleanup>> = Mutex::new(Vec::new());
static HANDLER: Mutex<Option<Handler>> = Mutex::new(None);

/// Receives signals, by number.
type Handler = Box<dyn Fn(i32) + Send>;

struct Cleanup {
    id: u64,
    work: Box<dyn FnOnce() + Send>,
}

/// Starts to listen for the signals, on a thread of its own. What `nohup` started outlives its
/// terminal.
pub(crate) fn install() -> anyhow::Result<()> {
    let hangup = (!linux::ignores_signal(SIGHUP)).then_some(SIGHUP);
    let listened = [SIGINT, SIGTERM].into_iter().chain(hangup);
    let mut signals = Signals::new(listened).context("listening for Ctrl-C")?;
    thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            for signal in signals.forever() {
                if let Some(handle) = &*handler() {
                    STOP.store(true, Ordering::SeqCst);
                    handle(signal);
                    continue;
                }
                // A terminal may be lost more than once.
                let is_second = STOP.swap(true, Ordering::SeqCst);
                if is_second && signal != SIGHUP {
                    crate::commands::top::terminal::leave();
                    linux::cleanup::remove_all_of_this_process();
                    std::process::exit(Exit::Interrupted.number().into());
                }
                run_cleanups();
            }
        })
        .context("listening for Ctrl-C")?;
    // setrlimit(2), RLIMIT_FSIZE: a file that grows too large ends the program, unless this signal
    // is caught; then the write fails as on a full disk. Programs that are started get it as usual.
    if !linux::ignores_signal(SIGXFSZ) {
        let caught = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(SIGXFSZ, caught).context("listening for SIGXFSZ")?;
    }
    Ok(())
}

/// Hands the signals over from now on, for a command that ends when another program does: none of
/// them ends this program by itself any more.
pub(crate) fn hand_over(to: impl Fn(i32) + Send + 'static) {
    *handler() = Some(Box::new(to));
}

fn handler() -> MutexGuard<'static, Option<Handler>> {
    HANDLER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Becomes true when the user wants the program to end.
pub(crate) fn stop_flag() -> &'static AtomicBool {
    &STOP
}

/// Whether the user wants the program to end.
pub(crate) fn stopped() -> bool {
    STOP.load(Ordering::SeqCst)
}

/// Runs `work` when the first signal comes, unless the guard was dropped before; at once where it
/// has come already. `work` may run on another thread than the command.
#[must_use = "dropping the guard takes the cleanup back"]
pub(crate) fn on_stop(work: impl FnOnce() + Send + 'static) -> Guard {
    register(work, &STOP)
}

fn register(work: impl FnOnce() + Send + 'static, stop: &AtomicBool) -> Guard {
    let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
    cleanups().push(Cleanup {
        id,
        work: Box::new(work),
    });
    // The signal's thread looks at the list once, and may have done so before this was on it.
    if stop.load(Ordering::SeqCst) {
        run_cleanups();
    }
    Guard { id }
}

/// Keeps a cleanup registered.
#[derive(Debug)]
pub(crate) struct Guard {
    id: u64,
}

impl Drop for Guard {
    fn drop(&mut self) {
        cleanups().retain(|cleanup| cleanup.id != self.id);
    }
}

fn cleanups() -> MutexGuard<'static, Vec<Cleanup>> {
    // A list that a panicking thread held is still a list.
    CLEANUPS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs what is registered, the newest first. The list is not locked while work runs, because work
/// may drop guards.
fn run_cleanups() {
    let registered = std::mem::take(&mut *cleanups());
    for cleanup in registered.into_iter().rev() {
        (cleanup.work)();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn cleanups_run_newest_first_unless_taken_back() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let note = |name: &'static str| {
            let seen = Arc::clone(&seen);
            move || seen.lock().unwrap().push(name)
        };
        let _path = on_stop(note("path"));
        let taken_back = on_stop(note("taken back"));
        let _child = on_stop(note("child"));
        drop(taken_back);
        run_cleanups();
        run_cleanups();
        assert_eq!(*seen.lock().unwrap(), ["child", "path"]);

        // In the same test, since there is one list.
        let stop = AtomicBool::new(false);
        let _early = register(note("early"), &stop);
        assert_eq!(seen.lock().unwrap().len(), 2, "it waits for the signal");
        stop.store(true, Ordering::SeqCst);
        let _late = register(note("late"), &stop);
        assert_eq!(*seen.lock().unwrap(), ["child", "path", "late", "early"]);
        run_cleanups();
        assert_eq!(seen.lock().unwrap().len(), 4, "each runs once");
    }
}
