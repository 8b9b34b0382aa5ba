//! The thread that looks at the calls of a supervised program: it notes which sockets are the
//! program's, gives them their settings, and lets the call go on.
//!
//! Whatever fails here, the call goes on: a program is never held up by us. What could not be set
//! is counted.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::FlowSample;
use doctor::{ProcessInfo, SocketOwner, Track};

use super::filter::{self, Shown};
use super::listener::{Answer, Call, Listener};
use super::setting::{Forced, SocketSetting};
use crate::error::{Error, Result};
use crate::process::process_info;
use crate::remote_socket::{OwnerProcess, RemoteSocket};
use crate::sock_diag::accepts;
use crate::watch::AnnouncedSockets;

/// Sockets that are noted at most; each takes some hundred bytes.
const SOCKETS_MAX: usize = 200_000;
const LISTENERS_MAX: usize = 1000;
/// Processes whose names are kept.
const PROCESSES_MAX: usize = 4096;

/// Observations of the program's sockets.
#[derive(Clone, Debug, Default)]
pub struct Noted {
    /// Sockets that it connected, by cookie, with the process that did.
    pub sockets: BTreeMap<u64, SocketOwner>,
    /// The addresses it listens on, and the process that does: connections to them are the
    /// program's too.
    pub listeners: Vec<(SocketAddr, SocketOwner)>,
    /// The cookies of those that listen.
    listening: BTreeSet<u64>,
    /// The cookies of those that were connected before the program began.
    inherited: BTreeSet<u64>,
    /// Result of each setting, in the order of the requests.
    pub outcomes: Vec<SettingOutcome>,
    /// Sockets that could not be reached, and why the first could not.
    pub unreached: Tally,
    /// The processes of the program that were seen.
    pub processes: BTreeSet<u32>,
}

/// How a setting fared at the sockets of the program.
#[derive(Clone, Debug, PartialEq)]
pub struct SettingOutcome {
    /// The setting.
    pub setting: SocketSetting,
    /// Sockets that have it.
    pub set: usize,
    /// Sockets that the kernel did not give it, and its reason for the first.
    pub refused: Tally,
    /// How often the program wanted to set the option itself; it was told that it had.
    pub overruled: usize,
}

/// How often something failed, and why it did the first time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How often.
    pub count: usize,
    /// The first reason.
    pub reason: Option<String>,
}

impl Tally {
    fn add(&mut self, error: &Error) {
        self.count += 1;
        self.reason.get_or_insert_with(|| error.to_string());
    }
}

impl Noted {
    /// Nothing yet, with these settings to give.
    fn new(settings: &[SocketSetting]) -> Self {
        let outcome = |setting: &SocketSetting| SettingOutcome {
            setting: setting.clone(),
            set: 0,
            refused: Tally::default(),
            overruled: 0,
        };
        Self {
            outcomes: settings.iter().map(outcome).collect(),
            ..Self::default()
        }
    }

    /// Whether a connection is one of the program's: it connected or listened, or one of its
    /// processes holds the socket.
    #[must_use]
    pub fn has(&self, track: &Track) -> bool {
        let held = |owner: &SocketOwner| self.processes.contains(&owner.pid());
        self.passed_by(track) || track.owners.iter().any(held)
    }

    fn knows(&self, cookie: u64) -> bool {
        self.sockets.contains_key(&cookie) || self.listening.contains(&cookie)
    }

    /// Whether a connection passed by here when it was opened, so that it has the settings.
    #[must_use]
    pub fn passed_by(&self, track: &Track) -> bool {
        self.owner_of(track).is_some()
    }

    /// Whether a connection was opened by the program, so that all it carried it carried since.
    #[must_use]
    pub fn opened(&self, track: &Track) -> bool {
        self.passed_by(track) && !self.inherited.contains(&track.cookie)
    }

    /// The process that opened a connection, or that listens where it was accepted.
    #[must_use]
    pub fn owner_of(&self, track: &Track) -> Option<&SocketOwner> {
        let connected = self.sockets.get(&track.cookie);
        connected.or_else(|| self.listener_at(track.key.local))
    }

    fn listener_at(&self, local: SocketAddr) -> Option<&SocketOwner> {
        let is_here = |listener: &SocketAddr| {
            listener.port() == local.port() && accepts(listener.ip(), local.ip())
        };
        let mut listeners = self.listeners.iter();
        listeners
            .find(|(at, _)| is_here(at))
            .map(|(_, owner)| owner)
    }
}

/// Notes on a program's sockets, taken while it runs.
#[derive(Clone, Debug)]
pub struct Notes(Arc<Mutex<Noted>>);

impl Notes {
    /// Nothing yet, for a program whose sockets get these settings.
    #[must_use]
    pub fn new(settings: &[SocketSetting]) -> Self {
        Self(Arc::new(Mutex::new(Noted::new(settings))))
    }

    /// Everything so far.
    #[must_use]
    pub fn noted(&self) -> Noted {
        self.lock().clone()
    }

    pub(super) fn settings(&self) -> Vec<SocketSetting> {
        let notes = self.lock();
        let outcomes = notes.outcomes.iter();
        outcomes.map(|outcome| outcome.setting.clone()).collect()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Noted> {
        // What a panicking thread has noted is still right.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How a socket comes to be the program's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// About to connect.
    Connects,
    /// About to listen, or listening.
    Listens,
    /// Connected before.
    Inherited,
}

impl Notes {
    /// Gives a socket the settings, and notes it.
    pub(super) fn take_in(
        &self,
        (cookie, socket): (u64, &RemoteSocket),
        owner: SocketOwner,
        origin: Origin,
    ) {
        let settings = self.settings();
        let results: Vec<Result<()>> = settings.iter().map(|s| s.apply(socket)).collect();
        let at = socket.local();
        let mut notes = self.lock();
        for (outcome, result) in notes.outcomes.iter_mut().zip(results) {
            match result {
                Ok(()) => outcome.set += 1,
                Err(error) => outcome.refused.add(&error),
            }
        }
        notes.processes.insert(owner.pid());
        if origin == Origin::Listens {
            notes.listening.insert(cookie);
            let known = |at: &SocketAddr| notes.listeners.iter().any(|(old, _)| old == at);
            if let Some(at) = at.filter(|at| !known(at))
                && notes.listeners.len() < LISTENERS_MAX
            {
                notes.listeners.push((at, owner));
            }
        } else if notes.sockets.len() < SOCKETS_MAX {
            notes.sockets.insert(cookie, owner);
            if origin == Origin::Inherited {
                notes.inherited.insert(cookie);
            }
        }
    }
}

impl AnnouncedSockets for Notes {
    fn owner(&self, cookie: u64) -> Option<SocketOwner> {
        self.lock().sockets.get(&cookie).cloned()
    }

    fn has(&self, sample: &FlowSample) -> bool {
        let notes = self.lock();
        let is_connected = |cookie| notes.sockets.contains_key(&cookie);
        sample.cookie.is_some_and(is_connected) || notes.listener_at(sample.key.local).is_some()
    }

    fn are_all(&self, seen: &dyn Fn(u64) -> bool) -> bool {
        self.lock().sockets.keys().all(|&cookie| seen(cookie))
    }
}

/// Answers calls until no process is left under the filter.
pub(super) fn serve(listener: &Listener, notes: &Notes) {
    let mut supervisor = Supervisor {
        listener,
        notes,
        processes: BTreeMap::new(),
    };
    // After an error of the listener itself there is no call to answer.
    while let Ok(Some(call)) = listener.next() {
        let handled = catch_unwind(AssertUnwindSafe(|| supervisor.handle(&call)));
        listener.answer(&call, handled.unwrap_or(Answer::Continue));
    }
}

struct Supervisor<'s> {
    listener: &'s Listener,
    notes: &'s Notes,
    processes: BTreeMap<u32, Arc<ProcessInfo>>,
}

impl Supervisor<'_> {
    fn handle(&mut self, call: &Call) -> Answer {
        let Some(shown) = filter::shown(call.number, &call.arguments) else {
            return Answer::Continue;
        };
        match self.look(call, shown) {
            Ok(answer) => answer,
            // No socket: the kernel will say so to the program.
            Err(Error::NotFound { .. }) => Answer::Continue,
            Err(error) => {
                self.notes.lock().unreached.add(&error);
                Answer::Continue
            }
        }
    }

    fn look(&mut self, call: &Call, shown: Shown) -> Result<Answer> {
        // The kernel reads it as `int`.
        let fd = call.arguments[0] as u32 as i32;
        let pid = process_of(call.thread).ok_or_else(|| gone(call.thread))?;
        let process = OwnerProcess::open(pid)?;
        if !self.listener.is_waiting(call) {
            return Ok(Answer::Continue);
        }
        let Some((socket, cookie)) = process.tcp_socket(fd)? else {
            return Ok(Answer::Continue);
        };
        if let Shown::SetOption(option) = shown {
            return Ok(self.overrule(option, &socket));
        }
        // One that is known is a connect that is asked for its result, or tried again.
        if !self.notes.lock().knows(cookie)
            && let Some(owner) = self.owner(pid, fd)
        {
            let origin = match shown {
                Shown::Listen => Origin::Listens,
                _ => Origin::Connects,
            };
            self.notes.take_in((cookie, &socket), owner, origin);
        }
        // The second handle must not outlive the call: see `remote_socket`.
        drop(socket);
        Ok(Answer::Continue)
    }

    /// The program wants to set what a setting forces: it is given that, also where the socket did
    /// not pass by when it was opened. Where the kernel refuses that, the program's call goes on.
    fn overrule(&self, option: Forced, socket: &RemoteSocket) -> Answer {
        let mut notes = self.notes.lock();
        let mut forcing = notes
            .outcomes
            .iter_mut()
            .filter(|outcome| outcome.setting.forced().contains(&option));
        match forcing.next() {
            Some(outcome) if outcome.setting.apply(socket).is_ok() => {
                outcome.overruled += 1;
                Answer::Done
            }
            _ => Answer::Continue,
        }
    }

    /// Owner of the socket; the names of a process are read again after it has executed another
    /// program.
    fn owner(&mut self, pid: u32, fd: i32) -> Option<SocketOwner> {
        let command = fs::read_to_string(format!("/proc/{pid}/comm")).ok();
        let known = self.processes.get(&pid).filter(|known| {
            let command = command.as_deref().map(str::trim_end);
            command == Some(known.command.as_str())
        });
        let process = match known {
            Some(known) => Arc::clone(known),
            None => {
                let read = process_info(pid)?;
                if self.processes.len() >= PROCESSES_MAX {
                    self.processes.clear();
                }
                self.processes.insert(pid, Arc::clone(&read));
                read
            }
        };
        Some(SocketOwner { fd, process })
    }
}

/// The process that a thread belongs to.
fn process_of(thread: u32) -> Option<u32> {
    let status = fs::read(format!("/proc/{thread}/status")).ok()?;
    let status = String::from_utf8_lossy(&status);
    let number = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
    number.trim().parse().ok()
}

fn gone(thread: u32) -> Error {
    Error::NotFound {
        what: "thread",
        name: thread.to_string(),
        hint: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_listener_accepts_is_the_programs() {
        let owner = SocketOwner {
            fd: 3,
            process: process_info(std::process::id()).unwrap(),
        };
        let at = |text: &str| (text.parse().unwrap(), owner.clone());
        let noted = Noted {
            listeners: vec![at("[::]:80"), at("127.0.0.1:90")],
            ..Noted::default()
        };
        let check = |local: &str, expected| {
            let local = local.parse().unwrap();
            assert_eq!(noted.listener_at(local).is_some(), expected, "{local}");
        };
        check("10.0.0.1:80", true);
        check("[::1]:80", true);
        check("[::ffff:127.0.0.1]:90", true);
        check("10.0.0.1:90", false);
        check("10.0.0.1:8080", false);
    }

    #[test]
    fn a_thread_is_found_in_its_process() {
        let own = std::process::id();
        let inner = std::thread::spawn(|| rustix::thread::gettid().as_raw_pid());
        let _ = inner.join();
        let thread = rustix::thread::gettid().as_raw_pid().cast_unsigned();
        assert_ne!(thread, own, "tests run on threads of their own");
        assert_eq!(process_of(thread), Some(own));
        assert_eq!(process_of(own), Some(own));
        assert_eq!(process_of(0), None);
    }
}
