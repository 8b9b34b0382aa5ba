//! What a transaction file says, line by line, and the story that its lines make together.

use std::fs;

use base::Change;
use serde::{Deserialize, Serialize};

use super::place::Place;
use super::undo::{Presence, look};
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
        /// Who makes it.
        owner: Owner,
    },
    /// A change is about to be made.
    Intent {
        /// Its position in the transaction, from 0.
        step: usize,
        /// What is to be set.
        change: Change,
        /// What there was.
        old: State,
        /// Which target this was, apart from its name.
        place: Box<Place>,
        /// Milliseconds since 1970.
        time_unix_ms: u64,
    },
    /// A change was made.
    Outcome {
        /// Which.
        step: usize,
        /// What was read back.
        now: State,
    },
    /// A change was refused by the kernel.
    Failed {
        /// Which.
        step: usize,
        /// The kernel's reason.
        reason: String,
    },
    /// The effect was measured.
    Verified {
        /// Whether it was good.
        better: bool,
        /// The numbers, for people.
        note: String,
    },
    /// The changes stay: the end of most files.
    Kept {
        /// Milliseconds since 1970.
        time_unix_ms: u64,
    },
    /// A change was undone, or there was nothing left to undo.
    Undone {
        /// Which.
        step: usize,
        /// How, for people.
        how: String,
    },
    /// All changes were undone: the other end.
    RolledBack {
        /// Milliseconds since 1970.
        time_unix_ms: u64,
    },
}

impl Record {
    /// Name and version of the form.
    pub const SCHEMA: &'static str = "tcptailor/journal/1";
}

/// The process that makes a transaction, told apart from a later one of the same number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Process number.
    pub pid: u32,
    /// When it started, in ticks since the boot.
    pub start_ticks: u64,
    /// Which boot.
    pub boot_id: String,
}

impl Owner {
    /// The calling process.
    ///
    /// # Errors
    /// [`Error::Os`] where `/proc` is not mounted.
    pub fn this_process() -> Result<Self> {
        let pid = std::process::id();
        Ok(Self {
            pid,
            start_ticks: process_start_ticks(pid).unwrap_or_default(),
            boot_id: boot_id()?,
        })
    }

    /// Whether that process runs now.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.is_of_this_boot() && process_start_ticks(self.pid) == Some(self.start_ticks)
    }

    /// Whether the machine has not been started again since.
    #[must_use]
    pub fn is_of_this_boot(&self) -> bool {
        boot_id().is_ok_and(|boot| boot == self.boot_id)
    }
}

fn boot_id() -> Result<String> {
    let path = "/proc/sys/kernel/random/boot_id";
    fs::read_to_string(path)
        .map(|text| text.trim().into())
        .map_err(Error::os(format!("read {path}")))
}

/// How a transaction stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// Neither kept nor rolled back.
    Pending,
    /// Its changes are in force.
    Kept,
    /// Its changes were undone.
    RolledBack,
}

/// One change in the story of a transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// What was to be set.
    pub change: Change,
    /// What there was.
    pub old: State,
    /// What was read back; nothing where the process died in between, or the kernel refused.
    pub now: Option<State>,
    /// Which target this was.
    pub place: Place,
    /// Whether it was undone.
    pub undone: bool,
}

/// A transaction, as its file tells it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Story {
    /// Number.
    pub id: u64,
    /// Why it was made.
    pub reason: String,
    /// When it was begun, milliseconds since 1970.
    pub time_unix_ms: u64,
    /// Who made it.
    pub owner: Owner,
    /// Its changes, first first.
    pub steps: Vec<Step>,
    /// What measuring has shown.
    pub verified: Option<(bool, String)>,
    status: Option<Status>,
}

impl Story {
    pub(super) fn new(id: u64) -> Self {
        Self {
            id,
            reason: String::new(),
            time_unix_ms: 0,
            owner: Owner::default(),
            steps: Vec::new(),
            verified: None,
            status: None,
        }
    }

    /// How it stands. One whose first line never reached the disk has changed nothing.
    #[must_use]
    pub fn status(&self) -> Status {
        match self.status {
            Some(status) => status,
            None if self.owner == Owner::default() => Status::RolledBack,
            None => Status::Pending,
        }
    }

    /// How one of its changes stands now.
    #[must_use]
    pub fn presence(&self, step: &Step) -> Presence {
        if step.undone {
            return Presence::Undone;
        }
        look(step, &self.owner).1
    }

    /// Takes in the next line. `false` where it does not fit those before it.
    pub(super) fn tell(&mut self, record: Record) -> bool {
        match record {
            Record::Begin {
                schema,
                id,
                reason,
                time_unix_ms,
                owner,
            } => {
                if schema != Record::SCHEMA || id != self.id {
                    return false;
                }
                self.reason = reason;
                self.time_unix_ms = time_unix_ms;
                self.owner = owner;
            }
            Record::Intent {
                step,
                change,
                old,
                place,
                time_unix_ms: _,
            } => {
                if step != self.steps.len() {
                    return false;
                }
                self.steps.push(Step {
                    change,
                    old,
                    now: None,
                    place: *place,
                    undone: false,
                });
            }
            Record::Outcome { step, now } => match self.steps.get_mut(step) {
                Some(step) => step.now = Some(now),
                None => return false,
            },
            Record::Undone { step, how: _ } => match self.steps.get_mut(step) {
                Some(step) => step.undone = true,
                None => return false,
            },
            Record::Failed { .. } => {}
            Record::Verified { better, note } => self.verified = Some((better, note)),
            Record::Kept { .. } => self.status = Some(Status::Kept),
            Record::RolledBack { .. } => self.status = Some(Status::RolledBack),
        }
        true
    }
}
