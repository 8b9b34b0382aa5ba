//! Changing settings so that every change can be undone, whatever happens in between.
//!
//! One file per transaction, one line of JSON per step. The order is the whole point: first the old
//! value and the intent are on the disk (file and directory), then the setting is written, then it
//! is read back and the result is on the disk. So after a crash at any moment the file tells what
//! may have been changed, and the kernel tells whether it was. Undoing is announced as well, so
//! that the next command finishes it. It runs backwards, leaves alone what others have changed
//! since, hands on what a later change of ours covers, and reports what is gone.
//!
//! Only one process at a time changes settings: an exclusive lock on the directory of the
//! transactions, which the kernel releases when the process dies.
//!
//! What is not here: whether a change did any good. The caller measures, then calls
//! [`Transaction::keep`] or [`Transaction::roll_back`].

mod chain;
mod directory;
mod entry;
mod file;
mod guard;
mod history;
mod lock;
mod made_file;
mod record;
mod target_identity;
mod undo;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base::{Change, Instant};

use crate::actuator::Setting;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::state::State;

pub(crate) use directory::why_open_to_others;
pub use entry::{Entry, Lease, Status, Step};
use file::{SUBDIRECTORY, TransactionFile};
pub use guard::{Guard, stand_guard};
pub use history::{History, Unusable};
pub use lock::ExperimentLock;
use lock::Lock;
pub use made_file::{FileContent, FilePresence, MadeFile, Removal, RemovedFile};
pub use record::{ProcessIdentity, Record, StepId};
pub use target_identity::TargetIdentity;
pub use undo::{How, Presence, Undone};

/// Transactions that are kept to be looked at; of older ones, those of which something is in force.
const HISTORY: usize = 100;
/// Where root has it.
const OF_ROOT: &str = "/var/lib/tcptailor";
/// How long to wait for another process's lock: recovery holds it for a moment only.
const PATIENCE: Duration = Duration::from_millis(500);

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
    history: History,
    id: u64,
    /// Transactions recovered before it began.
    recovered: Vec<Recovered>,
    finished: bool,
    _lock: Lock,
}

/// A change that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The requested change.
    pub change: Change,
    /// State before the change.
    pub old: State,
    /// State set by the kernel.
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

/// Result of rolling back one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// The transaction.
    pub id: u64,
    /// Why it was made.
    pub reason: String,
    /// Its changes, last first.
    pub undone: Vec<Undone>,
    /// The files that it had made, last first.
    pub files: Vec<RemovedFile>,
}

impl Journal {
    /// Default directory of the journal: `$TCPTAILOR_STATE`, else `/var/lib/tcptailor` for root,
    /// else `$XDG_STATE_HOME/tcptailor`, else `~/.local/state/tcptailor`.
    ///
    /// # Errors
    /// [`Error::NotFound`] where an ordinary user has no home directory.
    pub fn default_directory() -> Result<PathBuf> {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        if let Some(directory) = variable("TCPTAILOR_STATE") {
            return Ok(directory.into());
        }
        if rustix::process::geteuid().is_root() {
            return Ok(OF_ROOT.into());
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

    /// The directory of root's journal, if there is one and this user's default is another: only
    /// root can read it, so that what root has changed is not known here. `None` where
    /// `TCPTAILOR_STATE` names the journal that is wanted.
    #[must_use]
    pub fn of_root() -> Option<PathBuf> {
        let is_named = std::env::var_os("TCPTAILOR_STATE").is_some_and(|value| !value.is_empty());
        if is_named || rustix::process::geteuid().is_root() {
            return None;
        }
        let is_there = match std::fs::metadata(Path::new(OF_ROOT).join(SUBDIRECTORY)) {
            Ok(_) => true,
            Err(error) => error.kind() == std::io::ErrorKind::PermissionDenied,
        };
        is_there.then(|| OF_ROOT.into())
    }

    /// Opens the journal in a directory, which is made where it is missing.
    ///
    /// # Errors
    /// [`Error::Os`] where the directory cannot be made.
    pub fn open(directory: impl Into<PathBuf>) -> Result<Self> {
        let directory = directory.into();
        directory::make(&directory)?;
        Ok(Self {
            directory,
            on_step: None,
        })
    }

    /// The journal in a directory, if there is one, for reading or undoing. Makes nothing.
    ///
    /// # Errors
    /// [`Error::Refused`] where others could write to it, [`Error::Os`] where it cannot be looked
    /// at.
    pub fn open_existing(directory: impl Into<PathBuf>) -> Result<Option<Self>> {
        let directory = directory.into();
        match std::fs::metadata(directory.join(SUBDIRECTORY)) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(source) => {
                let op = format!(
                    "look at the journal in {} (TCPTAILOR_STATE names another one)",
                    directory.display()
                );
                Err(Error::Os { op, source })
            }
            Ok(_) => Self::open(directory).map(Some),
        }
    }

    /// Calls `hook` with the name of every step that this journal takes from now on, so that a
    /// test can stop there.
    pub fn on_step(&mut self, hook: impl FnMut(&'static str) + Send + 'static) {
        self.on_step = Some(Arc::new(Mutex::new(hook)));
    }

    /// Directory of the journal.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Finishes what an interrupted process left in the journal of this directory, if there is one
    /// that no process is working on: for the start of every command. Makes nothing.
    ///
    /// # Errors
    /// As [`Journal::recover`].
    pub fn recover_in(directory: impl Into<PathBuf>) -> Result<Vec<Recovered>> {
        let directory = directory.into();
        if !directory.join(SUBDIRECTORY).is_dir() {
            return Ok(Vec::new());
        }
        directory::check(&directory)?;
        let journal = Self {
            directory,
            on_step: None,
        };
        let is_interrupted = journal.history()?.entries.iter().any(Entry::is_interrupted);
        if !is_interrupted {
            return Ok(Vec::new());
        }
        match Lock::take(&journal.directory, Duration::ZERO) {
            Ok(_lock) => Ok(journal.undo_interrupted(&mut journal.history()?)),
            // It is not interrupted but at work.
            Err(Error::Busy { .. }) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Whether something in the journal of this directory is on trial; a journal that is gone has
    /// nothing.
    pub(crate) fn has_trials(directory: &Path) -> Result<bool> {
        if !directory.join(SUBDIRECTORY).is_dir() {
            return Ok(false);
        }
        let history = History::load(directory)?;
        let is_leased = |entry: &Entry| entry.status() == Status::Leased;
        Ok(history.entries.iter().any(is_leased))
    }

    /// Undoes what was interrupted, what this process was `undoing`, and whatever it has left on
    /// trial: it has ended, or its trial is over. Where it has left nothing, others who are at work
    /// are not waited for.
    pub(crate) fn undo_left_by(
        directory: &Path,
        owner: &ProcessIdentity,
        undoing: &[u64],
        wait_max: Duration,
    ) -> Result<Vec<Recovered>> {
        if !directory.join(SUBDIRECTORY).is_dir() {
            return Ok(Vec::new());
        }
        directory::check(directory)?;
        let journal = Self {
            directory: directory.into(),
            on_step: None,
        };
        let is_left = |entry: &Entry| {
            let status = entry.status();
            let is_on_trial = status == Status::Leased && entry.owner == *owner;
            let is_begun = undoing.contains(&entry.id) && status != Status::RolledBack;
            is_on_trial || is_begun
        };
        let is_left_by_it =
            |entry: &Entry| is_left(entry) || entry.is_interrupted() && entry.owner == *owner;
        let _lock = match Lock::take(directory, wait_max) {
            Err(busy @ Error::Busy { .. }) => {
                let history = journal.history()?;
                return match history.entries.iter().any(is_left_by_it) {
                    true => Err(busy),
                    false => Ok(Vec::new()),
                };
            }
            taken => taken?,
        };
        let mut history = journal.history()?;
        history.set_aside_unusable();
        Ok(journal.undo_all(&mut history, |entry| {
            is_left(entry) || entry.is_interrupted()
        }))
    }

    /// Keeps changes that are on trial.
    ///
    /// # Errors
    /// [`Error::NotFound`] where there is no transaction of this number, [`Error::Refused`] where
    /// it is not on trial, [`Error::Busy`] while another process changes settings, [`Error::Os`]
    /// where the journal cannot be written; then the trial goes on.
    pub fn confirm(&self, id: u64) -> Result<()> {
        let _lock = Lock::take(&self.directory, PATIENCE)?;
        let mut history = self.history()?;
        let entry = history.entry(id).ok_or_else(|| not_found(id))?;
        if entry.status() != Status::Leased || entry.is_interrupted() {
            return Err(Error::Refused {
                what: format!("confirming transaction {id}"),
                reason: match entry.status() {
                    Status::Kept => "it is kept already".into(),
                    Status::Leased | Status::RollingBack => {
                        "its time is over, and it is being rolled back".into()
                    }
                    Status::RolledBack => "it has been rolled back".into(),
                    _ => "it is not on trial".to_owned(),
                },
            });
        }
        let time_unix_ms = Clock.unix_millis();
        let mut file = TransactionFile::reopen(&self.directory, id)?;
        self.append(&mut file, &mut history, id, Record::Kept { time_unix_ms })
    }

    /// Begins a transaction; `reason` is for people. What an interrupted process left is undone
    /// first; see [`Transaction::recovered`]. Nothing else is changed yet.
    ///
    /// # Errors
    /// [`Error::Busy`] while another process changes settings; [`Error::Refused`] where what an
    /// interrupted process left cannot be undone; [`Error::Os`] where the disk is full.
    pub fn begin(&self, reason: &str) -> Result<Transaction> {
        let lock = Lock::take(&self.directory, PATIENCE)?;
        let mut history = self.history()?;
        history.set_aside_unusable();
        let recovered = self.undo_interrupted(&mut history);
        if let Some(left) = history.entries.iter().find(|entry| entry.is_interrupted()) {
            return Err(Error::Refused {
                what: format!("transaction {} ({})", left.id, left.reason),
                reason: "it was interrupted and could not be undone; `tcptailor recover` says why"
                    .into(),
            });
        }
        history.prune(&self.directory, HISTORY);
        let id = history.next_id();
        self.step("begin");
        let mut file = TransactionFile::create(&self.directory, id)?;
        let begin = Record::Begin {
            schema: Record::SCHEMA.into(),
            id,
            reason: reason.into(),
            time_unix_ms: Clock.unix_millis(),
            owner: ProcessIdentity::this_process()?,
        };
        history.entries.push(Entry::new(id));
        if let Err(error) = self.append(&mut file, &mut history, id, begin) {
            file.discard();
            return Err(error);
        }
        Ok(Transaction {
            journal: self.clone(),
            file,
            history,
            id,
            recovered,
            finished: false,
            _lock: lock,
        })
    }

    /// Admits this process alone to experiments with settings, until the lock is dropped. What a
    /// process that was killed had in force is undone by then.
    ///
    /// # Errors
    /// [`Error::Experimenting`] while another process experiments, [`Error::Busy`] while one
    /// changes settings, [`Error::Os`] where the journal cannot be opened.
    pub fn lock_experiments(&self) -> Result<ExperimentLock> {
        let lock = ExperimentLock::take(&self.directory, PATIENCE)?;
        // The guard of an experiment that was killed is perhaps at work.
        Lock::take(&self.directory, PATIENCE)?;
        Ok(lock)
    }

    /// The process that experiments with settings, where there is one.
    #[must_use]
    pub fn experimenter_in(directory: &Path) -> Option<u32> {
        ExperimentLock::holder(directory)
    }

    /// Transactions of this directory that are on trial, with the end of it in milliseconds since
    /// 1970. Makes nothing.
    ///
    /// # Errors
    /// [`Error::Os`] where the directory cannot be listed.
    pub fn on_trial_in(directory: &Path) -> Result<Vec<(u64, u64)>> {
        let history = History::load(directory)?;
        let leased = history
            .entries
            .iter()
            .filter(|entry| entry.status() == Status::Leased && !entry.is_interrupted());
        let ends = leased.filter_map(|entry| Some((entry.id, entry.lease?.until_unix_ms)));
        Ok(ends.collect())
    }

    /// All transactions that there are files of, and what cannot be used.
    ///
    /// # Errors
    /// [`Error::Os`] where the directory cannot be listed.
    pub fn history(&self) -> Result<History> {
        History::load(&self.directory)
    }

    /// Undoes, newest first, every transaction that its process left unfinished, and finishes every
    /// undoing that was begun. Running it twice does no harm.
    ///
    /// # Errors
    /// [`Error::Busy`] while another process changes settings; as [`Journal::history`].
    pub fn recover(&self) -> Result<Vec<Recovered>> {
        let _lock = Lock::take(&self.directory, PATIENCE)?;
        let mut history = self.history()?;
        history.set_aside_unusable();
        Ok(self.undo_interrupted(&mut history))
    }

    /// Undoes one transaction, also one that was kept, and one whose file is damaged as far as it
    /// can be read.
    ///
    /// # Errors
    /// [`Error::NotFound`] where there is none of this number, [`Error::Refused`] where it was
    /// rolled back already, [`Error::Busy`] while another process changes settings.
    pub fn roll_back(&self, id: u64) -> Result<Recovered> {
        let _lock = Lock::take(&self.directory, PATIENCE)?;
        let mut history = self.history()?;
        let entry = history.entry(id).ok_or_else(|| not_found(id))?;
        if entry.status() == Status::RolledBack {
            return Err(Error::Refused {
                what: format!("transaction {id}"),
                reason: "it was rolled back already".into(),
            });
        }
        Ok(self.undo_entry(&mut history, id))
    }

    fn undo_interrupted(&self, history: &mut History) -> Vec<Recovered> {
        self.undo_all(history, Entry::is_interrupted)
    }

    /// Undoes those that `is_due` names, newest first.
    fn undo_all(&self, history: &mut History, is_due: impl Fn(&Entry) -> bool) -> Vec<Recovered> {
        let due = history.entries.iter().rev().filter(|entry| is_due(entry));
        let due: Vec<u64> = due.map(|entry| entry.id).collect();
        let undo = |id: u64| self.undo_entry(history, id);
        due.into_iter().map(undo).collect()
    }

    fn undo_entry(&self, history: &mut History, id: u64) -> Recovered {
        // On a disk that is read-only the settings can be restored all the same.
        let mut file = TransactionFile::reopen(&self.directory, id).ok();
        let (undone, files) = self.undo_all_of(file.as_mut(), history, id);
        let reason = history.entry(id).map(|entry| entry.reason.clone());
        Recovered {
            id,
            reason: reason.unwrap_or_default(),
            undone,
            files,
        }
    }

    /// Undoes backwards, the files first, which were made last. What cannot be written into the
    /// journal is still undone: the comparison with what there is makes the next attempt harmless.
    fn undo_all_of(
        &self,
        mut file: Option<&mut TransactionFile>,
        history: &mut History,
        id: u64,
    ) -> (Vec<Undone>, Vec<RemovedFile>) {
        let is_empty = |entry: &Entry| entry.steps.is_empty() && entry.files.is_empty();
        let mut can_record = true;
        if !history.entry(id).is_none_or(is_empty) {
            let begun = Record::RollingBack {
                time_unix_ms: Clock.unix_millis(),
            };
            can_record = self.note(&mut file, history, id, begun);
        }
        let files = self.remove_files(&mut file, history, id);
        let undone = self.undo_changes(&mut file, history, id, can_record);
        let failed = |undone: &Undone| matches!(undone.how, How::Failed { .. });
        let stays = |file: &RemovedFile| matches!(file.how, Removal::Failed { .. });
        if !undone.iter().any(failed) && !files.iter().any(stays) {
            let time_unix_ms = Clock.unix_millis();
            self.note(&mut file, history, id, Record::RolledBack { time_unix_ms });
        }
        (undone, files)
    }

    fn remove_files(
        &self,
        file: &mut Option<&mut TransactionFile>,
        history: &mut History,
        id: u64,
    ) -> Vec<RemovedFile> {
        let due = history.entry(id).map_or(Vec::new(), |entry| {
            let due = entry.files.iter().rev().filter(|made| !made.undone);
            due.cloned().collect()
        });
        let mut all = Vec::new();
        for made in due {
            let how = made.remove(&|name| self.step(name));
            if !matches!(how, Removal::Failed { .. }) {
                let record = Record::FileUndone {
                    file: made.number,
                    how: how.to_string(),
                };
                self.note(file, history, id, record);
            }
            let path = made.path;
            all.push(RemovedFile { path, how });
        }
        all
    }

    fn undo_changes(
        &self,
        file: &mut Option<&mut TransactionFile>,
        history: &mut History,
        id: u64,
        can_record: bool,
    ) -> Vec<Undone> {
        let steps = history.entry(id).map_or(0, |entry| entry.steps.len());
        let mut all = Vec::new();
        for at in (0..steps).rev() {
            let Some(step) = history.entry(id).map(|entry| entry.steps[at].clone()) else {
                continue;
            };
            if step.undone {
                continue;
            }
            self.step("undo");
            let (how, passed_to) = undo::undo(history, &step, can_record);
            self.step("undone");
            if !matches!(how, How::Failed { .. }) {
                let record = Record::Undone {
                    step: step.id.step,
                    how: how.to_string(),
                    passed_to,
                };
                self.note(file, history, id, record);
            }
            all.push(Undone {
                target: step.target_from_here(),
                change: step.change,
                how,
            });
        }
        all
    }

    /// Appends where that is possible: a full disk must not stop the undoing. Says whether it was.
    fn note(
        &self,
        file: &mut Option<&mut TransactionFile>,
        history: &mut History,
        id: u64,
        record: Record,
    ) -> bool {
        let written = file
            .as_mut()
            .is_some_and(|file| self.append(file, history, id, record.clone()).is_ok());
        if !written && let Some(entry) = history.entry_mut(id) {
            // What follows has to know it all the same.
            entry.take(record);
        }
        written
    }

    fn append(
        &self,
        file: &mut TransactionFile,
        history: &mut History,
        id: u64,
        record: Record,
    ) -> Result<()> {
        self.step("append");
        file.write(&record)?;
        self.step("appended");
        file.sync()?;
        self.step("synced");
        if let Some(entry) = history.entry_mut(id) {
            entry.take(record);
        }
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
        self.id
    }

    /// Changes of interrupted runs that were rolled back before this one began.
    #[must_use]
    pub fn recovered(&self) -> &[Recovered] {
        &self.recovered
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
        let step = self.history.entry(self.id).map_or(0, Entry::next_step);
        self.record(Record::Intent {
            step,
            change: change.clone(),
            old: old.clone(),
            place: Box::new(TargetIdentity::of(&setting)?),
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

    /// Makes a file, which outlives the running of the machine: path and contents to the disk, the
    /// file under a temporary name, its own name, and that it is there to the disk. A directory
    /// that no transaction of this journal has made is never removed, and not recorded.
    ///
    /// # Errors
    /// [`Error::Refused`] where there is something already, or the path is not absolute;
    /// [`Error::Os`] where it or the journal cannot be written. Then nothing of it stays once the
    /// transaction is rolled back.
    pub fn make_file(&mut self, path: &Path, content: &FileContent) -> Result<()> {
        if !path.is_absolute() || path.to_str().is_none() {
            return Err(Error::Refused {
                what: format!("writing {}", path.display()),
                reason: "it is not an absolute path of plain text".into(),
            });
        }
        made_file::check_free(path, content)?;
        if *content == FileContent::Directory && path.exists() && !self.history.has_made(path) {
            return Ok(());
        }
        let file = self.history.entry(self.id).map_or(0, Entry::next_file);
        self.record(Record::FileIntent {
            file,
            path: path.into(),
            content: content.clone(),
            time_unix_ms: Clock.unix_millis(),
        })?;
        made_file::make(path, content, &|name| self.journal.step(name))?;
        self.record(Record::FileMade { file })
    }

    /// The transactions that there are files of, this one included.
    #[must_use]
    pub const fn history(&self) -> &History {
        &self.history
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

    /// Leaves the changes on trial until this time, and ends the transaction: they are undone then,
    /// by a [`Guard`] or by the next start of any command, unless [`Journal::confirm`] comes
    /// before.
    ///
    /// # Errors
    /// [`Error::Os`] where the journal cannot be written; then the changes have been undone.
    pub fn lease(mut self, until: Instant) -> Result<()> {
        let left = until.since(Clock.now());
        let left_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
        self.record(Record::Leased {
            until,
            until_unix_ms: Clock.unix_millis().saturating_add(left_ms),
        })?;
        self.finished = true;
        Ok(())
    }

    /// Undoes the changes, last first, and ends the transaction.
    pub fn roll_back(mut self) -> Vec<Undone> {
        self.undo()
    }

    fn undo(&mut self) -> Vec<Undone> {
        self.finished = true;
        let file = Some(&mut self.file);
        let (undone, _) = self.journal.undo_all_of(file, &mut self.history, self.id);
        undone
    }

    fn record(&mut self, record: Record) -> Result<()> {
        self.journal
            .append(&mut self.file, &mut self.history, self.id, record)
    }
}

fn not_found(id: u64) -> Error {
    Error::NotFound {
        what: "transaction",
        name: id.to_string(),
        hint: "; `tcptailor status` lists them".into(),
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
