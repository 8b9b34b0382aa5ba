//! A transaction, as the lines of its file make it together.

use base::{Change, Instant};
use serde::Serialize;

use super::made_file::MadeFile;
use super::record::{ProcessIdentity, Record, StepId};
use super::target_identity::TargetIdentity;
use crate::clock::Clock;
use crate::state::State;

/// How a transaction stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Status {
    /// Neither kept nor rolled back: its process is at work, or was interrupted.
    Pending,
    /// Its changes are in force on trial: they are undone unless they are confirmed in time.
    Leased,
    /// Its changes are in force.
    Kept,
    /// Its undoing was begun.
    RollingBack,
    /// Its changes were undone.
    RolledBack,
    /// Its file is damaged, so that its end is unknown.
    Damaged,
}

/// One change of a transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// Which of which transaction.
    pub id: StepId,
    /// The requested change.
    pub change: Change,
    /// State before the change.
    pub old: State,
    /// State read back after it; `None` if the process died in between, or the kernel refused.
    pub now: Option<State>,
    /// Which target this was.
    pub place: TargetIdentity,
    /// Whether it was undone.
    pub undone: bool,
    /// The newest of the later changes of the same setting that were in force when it was undone.
    pub passed_to: Option<StepId>,
}

impl Step {
    /// What was changed, with the namespace as this process calls it.
    #[must_use]
    pub fn target_from_here(&self) -> String {
        self.place.named_from_here(&self.change.target)
    }
}

/// How long unconfirmed changes are in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Lease {
    /// By the monotonic clock of the boot.
    pub until: Instant,
    /// In milliseconds since 1970, for people.
    pub until_unix_ms: u64,
}

/// A transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// Number.
    pub id: u64,
    /// Why it was made.
    pub reason: String,
    /// When it was begun, milliseconds since 1970.
    pub time_unix_ms: u64,
    /// The process that made it.
    pub owner: ProcessIdentity,
    /// Its changes, first first.
    pub steps: Vec<Step>,
    /// Files that it has made, first first.
    pub files: Vec<MadeFile>,
    /// Result of verification.
    pub verified: Option<(bool, String)>,
    /// Damage of its file. Readable lines count.
    pub damage: Option<String>,
    /// Until when it is on trial.
    pub lease: Option<Lease>,
    status: Option<Status>,
}

impl Entry {
    pub(super) fn new(id: u64) -> Self {
        Self {
            id,
            reason: String::new(),
            time_unix_ms: 0,
            owner: ProcessIdentity::default(),
            steps: Vec::new(),
            files: Vec::new(),
            verified: None,
            damage: None,
            lease: None,
            status: None,
        }
    }

    /// Status. An entry whose first line never reached the disk has changed nothing.
    #[must_use]
    pub fn status(&self) -> Status {
        match self.status {
            Some(Status::RolledBack) => Status::RolledBack,
            _ if self.damage.is_some() => Status::Damaged,
            Some(status) => status,
            None if !self.has_begun() => Status::RolledBack,
            None => Status::Pending,
        }
    }

    /// Whether its first line was read.
    pub(super) fn has_begun(&self) -> bool {
        self.owner != ProcessIdentity::default()
    }

    /// Whether the holder of the journal's lock has to put it back now: no other process is working
    /// on it then.
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        match self.status() {
            Status::Pending | Status::RollingBack => true,
            // The clock of a trial ends with its boot, and its files do not.
            Status::Leased => {
                let is_over = |lease: Lease| Clock.now() >= lease.until;
                let is_of_another_boot = self.owner.is_of_another_boot().unwrap_or(false);
                self.lease.is_none_or(is_over) || is_of_another_boot
            }
            _ => false,
        }
    }

    fn step_mut(&mut self, number: usize) -> Option<&mut Step> {
        self.steps.iter_mut().find(|step| step.id.step == number)
    }

    /// The number of the next step.
    pub(super) fn next_step(&self) -> usize {
        self.steps.last().map_or(0, |step| step.id.step + 1)
    }

    /// Adds a change. One that a damaged line before it has announced may be missing.
    fn add(&mut self, step: Step) -> bool {
        let (number, next) = (step.id.step, self.next_step());
        let fits = number == next || (self.damage.is_some() && number > next);
        if fits {
            self.steps.push(step);
        }
        fits
    }

    /// Takes in the next line. `false` where it does not fit those before it.
    pub(super) fn take(&mut self, record: Record) -> bool {
        match record {
            Record::Begin {
                schema,
                id,
                reason,
                time_unix_ms,
                owner,
            } => {
                let is_known = [Record::SCHEMA, Record::SCHEMA_1].contains(&schema.as_str());
                if !is_known || id != self.id || self.has_begun() {
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
                let id = StepId {
                    transaction: self.id,
                    step,
                };
                return self.add(Step {
                    id,
                    change,
                    old,
                    now: None,
                    place: *place,
                    undone: false,
                    passed_to: None,
                });
            }
            Record::Outcome { step, now } => match self.step_mut(step) {
                Some(step) => step.now = Some(now),
                None => return false,
            },
            Record::Undone {
                step, passed_to, ..
            } => match self.step_mut(step) {
                Some(step) => (step.undone, step.passed_to) = (true, passed_to),
                None => return false,
            },
            Record::FileIntent { .. } | Record::FileMade { .. } | Record::FileUndone { .. } => {
                return self.take_file(record);
            }
            Record::Failed { .. } => {}
            Record::Verified { better, note } => self.verified = Some((better, note)),
            Record::Leased {
                until,
                until_unix_ms,
            } => {
                self.status = Some(Status::Leased);
                self.lease = Some(Lease {
                    until,
                    until_unix_ms,
                });
            }
            Record::Kept { .. } => self.status = Some(Status::Kept),
            Record::RollingBack { .. } => self.status = Some(Status::RollingBack),
            Record::RolledBack { .. } => self.status = Some(Status::RolledBack),
        }
        true
    }

    /// Takes in a line about a file.
    fn take_file(&mut self, record: Record) -> bool {
        let next = self.next_file();
        match record {
            Record::FileIntent {
                file: number,
                path,
                content,
                time_unix_ms: _,
            } => {
                let fits = number == next || (self.damage.is_some() && number > next);
                if fits {
                    self.files.push(MadeFile {
                        number,
                        path,
                        content,
                        written: false,
                        undone: false,
                    });
                }
                fits
            }
            Record::FileMade { file: number } => {
                let made = self.files.iter_mut().find(|file| file.number == number);
                made.map(|file| file.written = true).is_some()
            }
            Record::FileUndone { file: number, .. } => {
                let made = self.files.iter_mut().find(|file| file.number == number);
                made.map(|file| file.undone = true).is_some()
            }
            _ => false,
        }
    }

    /// The number of the next file.
    pub(super) fn next_file(&self) -> usize {
        self.files.last().map_or(0, |file| file.number + 1)
    }
}
