//! Locks that admit one process at a time: to the settings, and to experiments.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

use super::file::SUBDIRECTORY;
use crate::clock::Clock;
use crate::error::{Error, Result};

/// How often a lock that is taken is tried again.
const RETRY: Duration = Duration::from_millis(10);

/// The exclusive right to change settings: a lock on the directory of the transactions itself,
/// which needs no room on the disk and may be had on one that is read-only. The kernel takes it
/// back when the process ends.
pub(super) struct Lock {
    directory: File,
}

impl Lock {
    /// Takes the lock, or after `wait_max` says who has it: a guard needs it for a moment only.
    pub(super) fn take(directory: &Path, wait_max: Duration) -> Result<Self> {
        Self::take_of(&directory.join(SUBDIRECTORY), wait_max)
            .map_err(|refused| refused.or_held(|pid| Error::Busy { pid }))
    }

    /// The lock of a directory; who has it, where that is the only reason not to get it.
    fn take_of(path: &Path, wait_max: Duration) -> core::result::Result<Self, Refused> {
        let op = || format!("lock the journal {}", path.display());
        let directory = open(path).map_err(Error::os(op()))?;
        let began = Clock.now();
        loop {
            match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Self { directory }),
                Err(rustix::io::Errno::WOULDBLOCK) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(errno) => return Err(Error::errno(op())(errno).into()),
            }
            if Clock.now().since(began) >= wait_max {
                let pid = holder_of(&directory).map_or("unknown".into(), |pid| pid.to_string());
                return Err(Refused::HeldBy(pid));
            }
            std::thread::sleep(RETRY);
        }
    }
}

impl Drop for Lock {
    /// Closing the file is not enough: a process that another thread is just starting shares it
    /// until it runs its program, and would hold the lock this long.
    fn drop(&mut self) {
        flock(&self.directory, FlockOperation::Unlock).ok();
    }
}

/// Why a lock was not taken.
enum Refused {
    /// This process has it.
    HeldBy(String),
    /// Something else.
    Failed(Error),
}

impl Refused {
    fn or_held(self, held: impl FnOnce(String) -> Error) -> Error {
        match self {
            Self::HeldBy(pid) => held(pid),
            Self::Failed(error) => error,
        }
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// The exclusive right to experiment with settings, for as long as it is held: between two runs of
/// an experiment the settings are as they were, and free to be changed, but two experiments at a
/// time would each measure the changes of the other. It is the lock of the journal's own directory.
pub struct ExperimentLock {
    _lock: Lock,
}

impl ExperimentLock {
    pub(super) fn take(directory: &Path, wait_max: Duration) -> Result<Self> {
        Lock::take_of(directory, wait_max)
            .map(|_lock| Self { _lock })
            .map_err(|refused| refused.or_held(|pid| Error::Experimenting { pid }))
    }

    /// Who has it.
    pub(super) fn holder(directory: &Path) -> Option<u32> {
        let directory = open(directory).ok()?;
        match flock(&directory, FlockOperation::NonBlockingLockShared) {
            Err(rustix::io::Errno::WOULDBLOCK) => holder_of(&directory),
            _ => None,
        }
    }
}

/// Opens a directory, and nothing else: a FIFO in its place would be waited for.
fn open(directory: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECTORY)
        .open(directory)
}

/// Holder of a lock of the whole file, from `/proc/locks` (proc(5)): `1: FLOCK ADVISORY WRITE PID
/// MAJOR:MINOR:INODE 0 EOF`. The device is not compared, since some file systems report another one
/// to stat(2).
fn holder_of(file: &File) -> Option<u32> {
    let inode = file.metadata().ok()?.ino().to_string();
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let holder = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_it = words.get(1) == Some(&"FLOCK")
            && words.get(5)?.rsplit(':').next() == Some(inode.as_str());
        is_it.then(|| words.get(4)?.parse().ok()).flatten()
    };
    // 0: a process that this one cannot see, as from within a container.
    locks.lines().find_map(holder).filter(|pid| *pid != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fifo_in_place_of_the_journal_is_not_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let fifo = directory.path().join("fifo");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, mode).unwrap();
        let (done, told) = std::sync::mpsc::channel();
        let path = fifo.clone();
        std::thread::spawn(move || done.send(ExperimentLock::holder(&path)));
        let holder = told.recv_timeout(Duration::from_secs(20));
        assert_eq!(holder, Ok(None));
    }
}
