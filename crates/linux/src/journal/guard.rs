//! A process of its own that undoes what its owner has neither kept nor undone, once that cannot do
//! it any more: it was killed, its terminal is gone, it hangs, or it has left the change on trial.
//!
//! The owner talks to it over a pipe. The kernel closes the pipe whatever the owner dies of, so
//! that no signal has to be caught. The guard leads a session of its own, which a terminal that is
//! lost does not end. Should the guard be killed as well, the next start of any command does its
//! work.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base::Instant;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, getppid, pidfd_open, pidfd_send_signal, setsid};

use super::record::ProcessIdentity;
use super::{Journal, Recovered};
use crate::clock::Clock;
use crate::error::{Error, Result};

/// Line by which the guard reports that it is ready.
const READY: &str = "guard is ready";
/// How often a guard looks whether a trial was decided, or it is told to end.
const LOOK: Duration = Duration::from_millis(500);
/// How long an owner that hangs has to end by itself once it was told to.
const GRACE: Duration = Duration::from_secs(2);
/// How long a guard retries if undoing fails for another reason than another process changing
/// settings. Those have guards of their own, and are waited for however long it takes.
const PATIENCE: Duration = Duration::from_secs(600);
/// The longest order, in bytes.
const ORDER_BYTES_MAX: usize = 64;

/// The guard of this process. Dropping it lets the guard end, which has nothing to do then, unless
/// something was left unfinished.
#[derive(Debug)]
pub struct Guard {
    child: Child,
    orders: Option<ChildStdin>,
}

impl Guard {
    /// Starts `command`, which has to call [`stand_guard`], and waits until it is ready. A guard
    /// that will outlive this process should not be given its standard error.
    ///
    /// # Errors
    /// [`Error::Os`] where no process can be started, [`Error::Peer`] where it ends at once.
    pub fn start(command: &mut Command) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(Error::os("start the guard that undoes unconfirmed changes"))?;
        let orders = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().expect("it is piped"));
        let guard = Self { child, orders };
        let is_ready = |line: std::io::Result<String>| line.is_ok_and(|line| line.ends_with(READY));
        if answers.lines().any(is_ready) {
            return Ok(guard);
        }
        Err(Error::Peer(
            "the guard that undoes unconfirmed changes did not start; nothing was changed".into(),
        ))
    }

    /// Lets this process have until `deadline` to decide. An owner that hangs longer than that is
    /// killed, and what it has not kept is undone.
    ///
    /// # Errors
    /// [`Error::Os`] where the guard is gone.
    pub fn give_until(&mut self, deadline: Instant) -> Result<()> {
        self.order(&format!("until {}\n", deadline.as_nanos()))
    }

    /// Says that this process is about to undo a transaction, for a disk that cannot be written to:
    /// elsewhere the journal says so.
    ///
    /// # Errors
    /// [`Error::Os`] where the guard is gone.
    pub fn undoing(&mut self, id: u64) -> Result<()> {
        self.order(&format!("undoing {id}\n"))
    }

    /// From now on the guard does not mind that this process ends: it waits until the trial that
    /// ends at `until` was decided or is over.
    ///
    /// # Errors
    /// [`Error::Os`] where the guard is gone.
    pub fn detach(mut self, until: Instant) -> Result<()> {
        self.order(&format!("detach {}\n", until.as_nanos()))?;
        self.orders = None;
        Ok(())
    }

    fn order(&mut self, order: &str) -> Result<()> {
        let op = "talk to the guard that undoes unconfirmed changes";
        let Some(orders) = &mut self.orders else {
            return Err(Error::Peer(op.into()));
        };
        orders.write_all(order.as_bytes()).map_err(Error::os(op))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.orders.take().is_some() {
            // It has nothing to wait for. How it ends does not matter.
            self.child.wait().ok();
        }
    }
}

/// What the guard waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GuardState {
    /// The owner is at work.
    Attached {
        /// When it counts as hung.
        deadline: Option<Instant>,
    },
    /// The owner has left the change on trial until then.
    Detached { until: Instant },
}

/// The whole life of a guard, as a child of the process that changes settings: returns what had to
/// be undone. `stop` tells that the guard itself is to end, as at a logout that ends everything;
/// then a trial is over.
///
/// # Errors
/// As [`Journal::recover`].
pub fn stand_guard(directory: &Path, stop: &AtomicBool) -> Result<Vec<Recovered>> {
    // It fails for who leads a process group already, and then there is no terminal to lose.
    setsid().ok();
    // No directory is kept from being unmounted.
    std::env::set_current_dir("/").ok();
    let owner = Owner::parent()?;
    let mut input = OwnerPipe::default();
    writeln!(std::io::stdout(), "{READY}").map_err(Error::os("answer the owner"))?;
    loop {
        let is_open = input.wait(LOOK);
        match input.state {
            GuardState::Attached { .. } if !is_open => break,
            GuardState::Attached { deadline } => {
                if deadline.is_some_and(|deadline| Clock.now() >= deadline) {
                    owner.end();
                    break;
                }
            }
            GuardState::Detached { until } => {
                let is_over = Clock.now() >= until || stop.load(Ordering::SeqCst);
                // A look that fails decides nothing: the trial goes on to its end.
                let is_decided = Journal::has_trials(directory).is_ok_and(|has_some| !has_some);
                if is_over || is_decided {
                    break;
                }
                if !is_open {
                    std::thread::sleep(LOOK);
                }
            }
        }
    }
    until_undone(PATIENCE, || {
        Journal::undo_left_by(directory, &owner.identity, &input.undoing, LOOK)
    })
}

/// Retries until it works: no other process will, unless another command is started.
fn until_undone<T>(retry_max: Duration, mut undo: impl FnMut() -> Result<T>) -> Result<T> {
    let mut failing_since = None;
    loop {
        match undo() {
            Err(Error::Busy { .. }) => failing_since = None,
            Err(error) => {
                let since = *failing_since.get_or_insert(Clock.now());
                if Clock.now().since(since) >= retry_max {
                    return Err(error);
                }
                std::thread::sleep(LOOK);
            }
            undone => return undone,
        }
    }
}

/// The process that changes settings.
struct Owner {
    identity: ProcessIdentity,
    pidfd: Option<rustix::fd::OwnedFd>,
}

impl Owner {
    fn parent() -> Result<Self> {
        let parent = getppid().unwrap_or(Pid::INIT);
        Ok(Self {
            identity: ProcessIdentity::of(parent.as_raw_nonzero().get().unsigned_abs())?,
            pidfd: pidfd_open(parent, PidfdFlags::empty()).ok(),
        })
    }

    /// Tells it to end, and kills it where it does not.
    fn end(&self) {
        let Some(pidfd) = &self.pidfd else { return };
        for signal in [Signal::TERM, Signal::KILL] {
            if pidfd_send_signal(pidfd, signal).is_err() {
                return;
            }
            let mut ends = [PollFd::new(pidfd, PollFlags::IN)];
            if poll(&mut ends, Some(&timespec(GRACE))).is_ok_and(|ready| ready > 0) {
                return;
            }
        }
    }
}

/// The pipe from the owner.
struct OwnerPipe {
    text: Vec<u8>,
    is_closed: bool,
    state: GuardState,
    /// Transactions that the owner was rolling back.
    undoing: Vec<u64>,
}

impl Default for OwnerPipe {
    fn default() -> Self {
        Self {
            text: Vec::new(),
            is_closed: false,
            state: GuardState::Attached { deadline: None },
            undoing: Vec::new(),
        }
    }
}

impl OwnerPipe {
    /// Takes in what comes within `time`; `false` once the owner has closed the pipe.
    fn wait(&mut self, time: Duration) -> bool {
        if self.is_closed {
            return false;
        }
        let stdin = std::io::stdin();
        let mut readable = [PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN)];
        match poll(&mut readable, Some(&timespec(time))) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return true,
            Ok(_) => {}
            // No memory, or no descriptor may be had (poll(2)): that may pass.
            Err(_) => {
                std::thread::sleep(time);
                return true;
            }
        }
        let mut bytes = [0; ORDER_BYTES_MAX];
        match rustix::io::read(stdin.as_fd(), &mut bytes) {
            Ok(0) => self.is_closed = true,
            Ok(count) => self.take(&bytes[..count]),
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => self.is_closed = true,
        }
        !self.is_closed
    }

    fn take(&mut self, bytes: &[u8]) {
        self.text.extend_from_slice(bytes);
        while let Some(end) = self.text.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.text.drain(..=end).collect();
            // Only the owner writes here.
            let _ = self.obey(&String::from_utf8_lossy(&line));
        }
        self.text.truncate(ORDER_BYTES_MAX);
    }

    fn obey(&mut self, line: &str) -> Option<()> {
        let (word, number) = line.trim_end().split_once(' ')?;
        let number = number.parse().ok()?;
        let at = Instant::from_nanos(number);
        match word {
            "until" => self.state = GuardState::Attached { deadline: Some(at) },
            "detach" => self.state = GuardState::Detached { until: at },
            "undoing" => self.undoing.push(number),
            _ => return None,
        }
        Some(())
    }
}

fn timespec(time: Duration) -> Timespec {
    Timespec::try_from(time).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_at_work_is_waited_for_and_other_failures_have_an_end() {
        let busy = || Error::Busy { pid: "7".into() };
        let failed = || Error::Peer("no descriptor is left".into());
        let mut answers = vec![Ok(3), Err(failed()), Err(busy()), Err(busy())];
        let undone = until_undone(LOOK, || {
            answers.pop().expect("it ends with the first success")
        });
        assert_eq!(undone.ok(), Some(3));
        let mut tries = 0;
        let given_up = until_undone(LOOK, || -> Result<()> {
            tries += 1;
            Err(failed())
        });
        assert!(given_up.is_err() && tries >= 2, "{tries}");
    }
}
