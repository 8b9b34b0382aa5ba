//! Changing settings so that every change can be undone, whatever happens in between.
//!
//! One file per transaction, one line of JSON per step. The order is the whole point: first the
//! old value and the intent are on the disk (file and directory), then the setting is written, then
//! it is read back and the result is on the disk. So after a crash at any moment the file tells
//! what may have been changed, and the kernel tells whether it was. Undoing runs backwards, leaves
//! alone what somebody else has changed since, and reports what is gone.
//!
//! Only one process at a time changes settings: an exclusive lock on a file beside the
//! transactions, which the kernel releases when the process dies.
//!
//! What is not here: whether a change did any good. The caller measures, then calls
//! [`Transaction::keep`] or [`Transaction::roll_back`].

mod file;
mod lock;
mod place;
mod record;
mod undo;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use base::Change;

use crate::actuator::Setting;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::state::State;

use file::TransactionFile;
use lock::Lock;
pub use place::Place;
pub use record::{Owner, Record, Status, Step, Story};
pub use undo::{How, Presence, Undone};

/// Finished transactions that are kept to be looked at and undone later.
const HISTORY: usize = 100;

/// Called with the name of each step, before and after it. A test dies here.
type StepHook = Arc<Mutex<dyn FnMut(&'static str) + Send>>;

/// The directory of transactions.
#[derive(Clone)]
pub struct Journal {
    directory: PathBuf,
    on_step: Option<StepHook>,
}

/// A group of changes that are kept or undone together. It holds the lock. Dropping one that was
/// neither kept nor rolled back rolls it back.
pub struct Transaction {
    journal: Journal,
    file: TransactionFile,
    story: Story,
    finished: bool,
    _lock: Lock,
}

/// A change that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// What was asked for.
    pub change: Change,
    /// What there was.
    pub old: State,
    /// What the kernel made of it.
    pub now: State,
    /// Whether it was so already, and nothing was written.
    pub already: bool,
}

impl Applied {
    /// Whether the kernel took the value as it was asked for, neither clipped nor rounded.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.now.is_exactly(&self.change.to)
    }
}

/// What [`Journal::recover`] did with one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// The transaction.
    pub id: u64,
    /// Why it was made.
    pub reason: String,
    /// Its changes, last first.
    pub undone: Vec<Undone>,
}

impl Journal {
    /// Where the journal belongs: `$TCPTAILOR_STATE`, else `/var/lib/tcptailor` for root, else
    /// `$XDG_STATE_HOME/tcptailor`, else `~/.local/state/tcptailor`.
    ///
    /// # Errors
    /// [`Error::NotFound`] where an ordinary user has no home directory.
    pub fn default_directory() -> Result<PathBuf> {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        if let Some(directory) = variable("TCPTAILOR_STATE") {
            return Ok(directory.into());
        }
        if rustix::process::geteuid().is_root() {
            return Ok("/var/lib/tcptailor".into());
        }
        let state = variable("XDG_STATE_HOME")
            .map(PathBuf::from)
            .or_else(|| variable("HOME").map(|home| PathBuf::from(home).join(".local/state")));
        state
            .map(|state| state.join("tcptailor"))
            .ok_or_else(|| Error::NotFound {
                what: "directory",
                name: "$HOME".into(),
                hint: "; set TCPTAILOR_STATE to a directory for the journal".into(),
            })
    }

    /// Opens the journal in a directory, which is made where it is missing.
    ///
    /// # Errors
    /// [`Error::Os`] where the directory cannot be made.
    pub fn open(directory: impl Into<PathBuf>) -> Result<Self> {
        let directory = directory.into();
        file::make_directory(&directory)?;
        Ok(Self {
            directory,
            on_step: None,
        })
    }

    /// Calls `hook` with the name of every step that this journal takes from now on, so that a
    /// test can stop there.
    pub fn on_step(&mut self, hook: impl FnMut(&'static str) + Send + 'static) {
        self.on_step = Some(Arc::new(Mutex::new(hook)));
    }

    /// Where it is.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Begins a transaction; `reason` is for people. Nothing is changed yet.
    ///
    /// # Errors
    /// [`Error::Busy`] while another process changes settings; [`Error::Refused`] while an earlier
    /// transaction waits to be recovered, because undoing runs backwards; [`Error::File`] for a
    /// journal that cannot be read; [`Error::Os`] where the disk is full.
    pub fn begin(&self, reason: &str) -> Result<Transaction> {
        let lock = Lock::take(&self.directory)?;
        let stories = self.stories()?;
        if let Some(unfinished) = stories
            .iter()
            .find(|story| story.status() == Status::Pending)
        {
            return Err(Error::Refused {
                what: format!("transaction {} ({})", unfinished.id, unfinished.reason),
                reason: "it was never finished; run `tcptailor recover` first".into(),
            });
        }
        file::prune(&self.directory, &stories, HISTORY);
        let id = stories.last().map_or(1, |story| story.id + 1);
        self.step("begin");
        let mut file = TransactionFile::create(&self.directory, id)?;
        let begin = Record::Begin {
            schema: Record::SCHEMA.into(),
            id,
            reason: reason.into(),
            time_unix_ms: Clock.unix_millis(),
            owner: Owner::this_process()?,
        };
        let mut story = Story::new(id);
        if let Err(error) = self.append(&mut file, &mut story, begin) {
            file.discard();
            return Err(error);
        }
        Ok(Transaction {
            journal: self.clone(),
            file,
            story,
            finished: false,
            _lock: lock,
        })
    }

    /// All transactions that there are files of, oldest first.
    ///
    /// # Errors
    /// [`Error::File`] for a file that is damaged other than by being cut short. It is never
    /// deleted.
    pub fn stories(&self) -> Result<Vec<Story>> {
        file::ids(&self.directory)?
            .into_iter()
            .map(|id| file::load(&self.directory, id))
            .collect()
    }

    /// The transactions that were neither kept nor rolled back: that of a process that is at work
    /// now, or those of processes that died.
    ///
    /// # Errors
    /// As [`Journal::stories`].
    pub fn pending(&self) -> Result<Vec<Story>> {
        let mut stories = self.stories()?;
        stories.retain(|story| story.status() == Status::Pending);
        Ok(stories)
    }

    /// Undoes, newest first, every transaction that its process left unfinished. Running it twice
    /// does no harm.
    ///
    /// # Errors
    /// [`Error::Busy`] while another process changes settings; as [`Journal::stories`].
    pub fn recover(&self) -> Result<Vec<Recovered>> {
        let _lock = Lock::take(&self.directory)?;
        let mut pending = self.pending()?;
        pending.reverse();
        pending
            .into_iter()
            .map(|story| self.undo_story(story))
            .collect()
    }

    /// Undoes one transaction, also one that was kept.
    ///
    /// # Errors
    /// [`Error::NotFound`] where there is none of this number, [`Error::Refused`] where it was
    /// rolled back already, [`Error::Busy`] while another process changes settings.
    pub fn roll_back(&self, id: u64) -> Result<Recovered> {
        let _lock = Lock::take(&self.directory)?;
        let story = self.stories()?.into_iter().find(|story| story.id == id);
        let story = story.ok_or_else(|| Error::NotFound {
            what: "transaction",
            name: id.to_string(),
            hint: "; `tcptailor status` lists them".into(),
        })?;
        if story.status() == Status::RolledBack {
            return Err(Error::Refused {
                what: format!("transaction {id}"),
                reason: "it was rolled back already".into(),
            });
        }
        self.undo_story(story)
    }

    fn undo_story(&self, mut story: Story) -> Result<Recovered> {
        let mut file = TransactionFile::reopen(&self.directory, story.id)?;
        let undone = self.undo_changes(&mut file, &mut story);
        Ok(Recovered {
            id: story.id,
            reason: story.reason,
            undone,
        })
    }

    /// Undoes backwards. What cannot be written into the journal is still undone: the comparison
    /// with the kernel makes the next attempt harmless.
    fn undo_changes(&self, file: &mut TransactionFile, story: &mut Story) -> Vec<Undone> {
        let mut all = Vec::new();
        for at in (0..story.steps.len()).rev() {
            if story.steps[at].undone {
                continue;
            }
            self.step("undo");
            let step = story.steps[at].clone();
            let how = undo::undo(&step, &story.owner);
            self.step("undone");
            let finished = !matches!(how, How::Failed { .. });
            let undone = Undone {
                change: step.change,
                how,
            };
            if finished {
                let record = Record::Undone {
                    step: at,
                    how: undone.how.to_string(),
                };
                // A full disk must not stop the undoing.
                self.append(file, story, record).ok();
            }
            all.push(undone);
        }
        if all
            .iter()
            .all(|undone| !matches!(undone.how, How::Failed { .. }))
        {
            let time_unix_ms = Clock.unix_millis();
            self.append(file, story, Record::RolledBack { time_unix_ms })
                .ok();
        }
        all
    }

    fn append(&self, file: &mut TransactionFile, story: &mut Story, record: Record) -> Result<()> {
        self.step("append");
        file.write(&record)?;
        self.step("appended");
        file.sync()?;
        self.step("synced");
        story.tell(record);
        Ok(())
    }

    fn step(&self, name: &'static str) {
        if let Some(hook) = &self.on_step {
            (hook.lock().unwrap_or_else(PoisonError::into_inner))(name);
        }
    }
}

impl Transaction {
    /// Its number.
    #[must_use]
    pub const fn id(&self) -> u64 {
        self.story.id
    }

    /// Makes one change: old value and intent to the disk, write, read back, result to the disk.
    ///
    /// # Errors
    /// Whatever [`Setting::write`] says, and [`Error::Os`] where the journal cannot be written. In
    /// both cases this change is not in force; the earlier ones of the transaction are, until it
    /// is rolled back.
    pub fn apply(&mut self, change: &Change) -> Result<Applied> {
        Setting::check(change)?;
        let setting = Setting::open(&change.target, &change.knob)?;
        let old = setting.read()?;
        if setting.is_already(&old, &change.to) {
            return Ok(Applied {
                change: change.clone(),
                now: old.clone(),
                old,
                already: true,
            });
        }
        let step = self.story.steps.len();
        self.record(Record::Intent {
            step,
            change: change.clone(),
            old: old.clone(),
            place: Box::new(Place::of(&setting, &change.target)?),
            time_unix_ms: Clock.unix_millis(),
        })?;
        let written = setting.write(&change.to);
        self.journal.step("written");
        if let Err(error) = written {
            let reason = error.to_string();
            self.record(Record::Failed { step, reason }).ok();
            return Err(error);
        }
        self.finish(step, &setting, change, old)
    }

    /// Reads back what was written and records it. Where that fails, the change is put back.
    fn finish(
        &mut self,
        step: usize,
        setting: &Setting,
        change: &Change,
        old: State,
    ) -> Result<Applied> {
        let outcome = setting.read().and_then(|now| {
            self.record(Record::Outcome {
                step,
                now: now.clone(),
            })?;
            Ok(now)
        });
        match outcome {
            Ok(now) => Ok(Applied {
                change: change.clone(),
                old,
                now,
                already: false,
            }),
            Err(error) => {
                setting.restore(&old)?;
                Err(error)
            }
        }
    }

    /// Makes all changes, in order; where one fails, those before it are undone, and the error of
    /// the one that failed is returned.
    ///
    /// # Errors
    /// As [`Transaction::apply`].
    pub fn apply_all(&mut self, changes: &[Change]) -> Result<Vec<Applied>> {
        let mut applied = Vec::new();
        for change in changes {
            match self.apply(change) {
                Ok(done) => applied.push(done),
                Err(error) => {
                    self.undo();
                    return Err(error);
                }
            }
        }
        Ok(applied)
    }

    /// Records what measuring has shown.
    ///
    /// # Errors
    /// [`Error::Os`] where the journal cannot be written.
    pub fn verified(&mut self, better: bool, note: &str) -> Result<()> {
        self.record(Record::Verified {
            better,
            note: note.into(),
        })
    }

    /// Keeps the changes and ends the transaction. `tcptailor rollback ID` still undoes it.
    ///
    /// # Errors
    /// [`Error::Os`] where the journal cannot be written; then the changes have been undone.
    pub fn keep(mut self) -> Result<()> {
        let time_unix_ms = Clock.unix_millis();
        self.record(Record::Kept { time_unix_ms })?;
        self.finished = true;
        Ok(())
    }

    /// Undoes the changes, last first, and ends the transaction.
    pub fn roll_back(mut self) -> Vec<Undone> {
        self.undo()
    }

    fn undo(&mut self) -> Vec<Undone> {
        self.finished = true;
        self.journal.undo_changes(&mut self.file, &mut self.story)
    }

    fn record(&mut self, record: Record) -> Result<()> {
        self.journal.append(&mut self.file, &mut self.story, record)
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if !self.finished {
            self.undo();
        }
    }
}

#[cfg(test)]
mod tests;
