//! A file to which one process adds lines, each whole or not at all: the outcomes of runs.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use base::Instant;

use super::folder::{folder_of, sync_folder};
use crate::exit::Problem;
use crate::output::Output;

/// Longest time between writes to disk, to bound the loss at a power failure. Runs in real time
/// take longer: each is on disk before the next.
const SYNC_EVERY: Duration = Duration::from_secs(2);
/// How often a lock is tried, and how long is waited in between.
const LOCK_TRIES: u32 = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// An open file of lines.
#[derive(Debug)]
pub(super) struct LineLog {
    file: File,
    path: PathBuf,
    /// Length of the complete lines.
    bytes: u64,
    synced_at: Instant,
    go_on: &'static str,
}

/// Purpose of a file of lines, for messages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Purpose<'p> {
    /// Contents: `shard 1/4 of results`.
    pub(super) place: &'p str,
    /// Remedy where another process writes the file.
    pub(super) taken: &'p str,
    /// How to go on when there is room again.
    pub(super) go_on: &'static str,
}

impl LineLog {
    /// Opens or makes it. No other process can, until it is dropped.
    pub(super) fn open(
        path: PathBuf,
        purpose: Purpose<'_>,
        output: &Output,
    ) -> anyhow::Result<Self> {
        let opening = || format!("opening {}", path.display());
        let mut options = OpenOptions::new();
        let file = options.create(true).append(true).read(true).open(&path);
        let file = file.with_context(opening)?;
        if !file.metadata().with_context(opening)?.is_file() {
            return Err(Problem::usage(format!("{} is not a file", path.display())).into());
        }
        lock(&file, purpose.place, purpose.taken, output)?;
        sync_folder(folder_of(&path));
        let bytes = file.metadata().with_context(opening)?.len();
        Ok(Self {
            file,
            path,
            bytes,
            synced_at: linux::Clock.now(),
            go_on: purpose.go_on,
        })
    }

    /// To be read from its beginning.
    pub(super) const fn file(&self) -> &File {
        &self.file
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// How long it is.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes away what stands behind this many bytes.
    pub(super) fn cut(&mut self, bytes: u64) -> anyhow::Result<()> {
        let cut = self.file.set_len(bytes);
        cut.with_context(|| format!("repairing {}", self.path.display()))?;
        self.bytes = bytes;
        Ok(())
    }

    /// Adds a line that ends as lines do, or nothing.
    pub(super) fn append(&mut self, line: &str) -> Result<(), Problem> {
        if let Err(error) = self.file.write_all(line.as_bytes()) {
            // A full disk has room for less; where even that fails the next start repairs it.
            let _ = self.file.set_len(self.bytes);
            return Err(self.failed(&error));
        }
        self.bytes += line.len() as u64;
        let now = linux::Clock.now();
        if now.since(self.synced_at) < SYNC_EVERY {
            return Ok(());
        }
        self.synced_at = now;
        self.file.sync_data().map_err(|error| self.failed(&error))
    }

    /// After the last line: all of it is on the disk.
    pub(super) fn finish(&self) -> Result<(), Problem> {
        let synced = self.file.sync_all();
        synced.map_err(|error| self.failed(&error))?;
        sync_folder(folder_of(&self.path));
        Ok(())
    }

    fn failed(&self, error: &std::io::Error) -> Problem {
        let go_on = self.go_on;
        Problem::failed(format!("writing {}: {error}", self.path.display())).hint(format!(
            "What was written before is whole: make room, then {go_on}."
        ))
    }
}

/// Keeps other processes from a file while it is open. Where the file system knows no locks,
/// nothing does, which is noted. `place`: what the file is for, in words; `taken`: what to do where
/// another process has it.
///
/// A child of this process holds the lock with it until it has become another program, so a lock
/// that was just given up is not free at once.
pub(in crate::commands) fn lock(
    file: &File,
    place: &str,
    taken: &str,
    output: &Output,
) -> Result<(), Problem> {
    let mut tries = 1;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if tries < LOCK_TRIES => {
                tries += 1;
                std::thread::sleep(LOCK_PAUSE);
            }
            Err(TryLockError::WouldBlock) => {
                let message = format!("another process is writing {place}");
                return Err(Problem::usage(message).hint(taken));
            }
            Err(TryLockError::Error(error)) => {
                output.note(format!(
                    "{place} cannot be locked ({error}): start no second process for it"
                ));
                return Ok(());
            }
        }
    }
}
