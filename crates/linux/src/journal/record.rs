//! The lines of a transaction file, and the identity of a process.

use std::fs;
use std::path::PathBuf;

use base::{Change, Instant};
use serde::{Deserialize, Serialize};

use super::made_file::FileContent;
use super::target_identity::TargetIdentity;
use crate::error::{Error, Result};
use crate::process::process_start_ticks;
use crate::state::State;

/// One line of a transaction file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "record")]
#[non_exhaustive]
pub enum Record {
    /// The first line.
    Begin {
        /// [`Record::SCHEMA`].
        schema: String,
        /// Number of the transaction; also the name of its file.
        id: u64,
        /// Why, for people.
        reason: String,
        /// Milliseconds since 1970.
        time_unix_ms: u64,
        /// The process that makes it.
        owner: ProcessIdentity,
    },
    /// A change is about to be made.
    Intent {
        /// Its position in the transaction, from 0.
        step: usize,
        /// The requested change.
        change: Change,
        /// State before the change.
        old: State,
        /// Which target this was, apart from its name.
        place: Box<TargetIdentity>,
        /// Milliseconds since 1970.
        time_unix_ms: u64,
    },
    /// A change was made.
    Outcome {
        /// Which.
        step: usize,
        /// State read back.
        now: State,
    },
    /// A change was refused by the kernel.
    Failed {
        /// Which.
        step: usize,
        /// The kernel's reason.
        reason: String,
    },
    /// A file is about to be made.
    FileIntent {
        /// Its position among the files of the transaction, from 0.
        file: usize,
        /// Path of the file.
        path: PathBuf,
        /// Contents to write.
        content: FileContent,
        /// Milliseconds since 1970.
        time_unix_ms: u64,
    },
    /// A file was made.
    FileMade {
        /// Which.
        file: usize,
    },
    /// A file was removed, or there was nothing left to remove.
    FileUndone {
        /// Which.
        file: usize,
        /// How, for people.
        how: String,
    },
    /// The effect was measured.
    Verified {
        /// Whether it was good.
        better: bool,
        /// The numbers, for people.
        note: String,
    },
    /// The changes stay for a time, and are undone unless confirmed by then.
    Leased {
        /// When the time is over, by the monotonic clock of this boot.
        until: Instant,
        /// The same in milliseconds since 1970, for people.
        until_unix_ms: u64,
    },
    /// The changes stay: the end of most files.
    Kept {
        /// Milliseconds since 1970.
        time_unix_ms: u64,
    },
    /// The changes are about to be undone. A process that finds this without the last line
    /// continues.
    RollingBack {
        /// Milliseconds since 1970.
        time_unix_ms: u64,
    },
    /// A change was undone, or there was nothing left to undo.
    Undone {
        /// Which.
        step: usize,
        /// How, for people.
        how: String,
        /// The newest of the later changes of the same setting, where there are any in force.
        /// Rolling back any of them restores the state before this step.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        passed_to: Option<StepId>,
    },
    /// All changes were undone: the other end.
    RolledBack {
        /// Milliseconds since 1970.
        time_unix_ms: u64,
    },
}

impl Record {
    /// Name and version of the form.
    pub const SCHEMA: &'static str = "tcptailor/journal/2";
    /// The previous schema, with fewer kinds of lines.
    pub(super) const SCHEMA_1: &'static str = "tcptailor/journal/1";

    /// Whether something is done as soon as it is on the disk.
    pub(super) const fn is_announcement(&self) -> bool {
        matches!(
            self,
            Self::Begin { .. } | Self::Intent { .. } | Self::FileIntent { .. }
        )
    }
}

/// One change of one transaction. Later ones are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct StepId {
    /// Number of the transaction.
    pub transaction: u64,
    /// Position in it, from 0.
    pub step: usize,
}

/// A process, told apart from a later one of the same number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessIdentity {
    /// Process ID.
    pub pid: u32,
    /// When it started, in ticks since the boot.
    pub start_ticks: u64,
    /// Which boot.
    pub boot_id: String,
}

impl ProcessIdentity {
    /// The calling process.
    ///
    /// # Errors
    /// [`Error::Os`] where `/proc` is not mounted.
    pub fn this_process() -> Result<Self> {
        Self::of(std::process::id())
    }

    /// The process of this number, as long as it runs.
    ///
    /// # Errors
    /// [`Error::Os`] where `/proc` is not mounted.
    pub fn of(pid: u32) -> Result<Self> {
        Ok(Self {
            pid,
            start_ticks: process_start_ticks(pid).unwrap_or_default(),
            boot_id: boot_id()?,
        })
    }

    /// Whether that process runs now.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        let is_of_this_boot = self
            .is_of_another_boot()
            .is_ok_and(|is_another| !is_another);
        is_of_this_boot && process_start_ticks(self.pid) == Some(self.start_ticks)
    }

    /// Whether the machine has been started again since.
    ///
    /// # Errors
    /// [`Error::Os`] where `/proc` is not mounted: then it may run on as it did.
    pub fn is_of_another_boot(&self) -> Result<bool> {
        Ok(boot_id()? != self.boot_id)
    }
}

/// Identifies this boot of the machine (random(4)).
fn boot_id() -> Result<String> {
    let path = "/proc/sys/kernel/random/boot_id";
    fs::read_to_string(path)
        .map(|text| text.trim().into())
        .map_err(Error::os(format!("read {path}")))
}
