//! All transactions that there are files of, and what lies beside them.

use std::fs;
use std::path::{Path, PathBuf};

use super::entry::{Entry, Status, Step};
use super::file::{self, SUBDIRECTORY};
use super::made_file::MadeFile;
use super::undo::{self, Presence};
use crate::error::{Error, Result};
use crate::regular_file::Refused;

/// Contents of the journal's directory.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// The transactions, oldest first.
    pub entries: Vec<Entry>,
    /// Unusable entries.
    pub unusable: Vec<Unusable>,
}

/// A file, or whatever else bears the name of a transaction, that tells nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unusable {
    /// Path of the file.
    pub path: PathBuf,
    /// Why, for people.
    pub why: String,
    /// Whether it still has the name of a transaction, and nothing speaks for it being one.
    is_to_set_aside: bool,
}

impl History {
    /// Reads everything. What cannot be used costs itself only.
    ///
    /// # Errors
    /// [`Error::Os`] where the directory cannot be listed.
    pub(super) fn load(journal: &Path) -> Result<Self> {
        let directory = journal.join(SUBDIRECTORY);
        let entries = fs::read_dir(&directory).map_err(Error::os(format!(
            "list the journal {}",
            directory.display()
        )))?;
        let mut names: Vec<String> = entries
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| name.contains(".jsonl"))
            .collect();
        names.sort();
        let mut history = Self::default();
        for name in names {
            let path = directory.join(&name);
            let (original, _) = name.split_once(".damaged").unwrap_or((&name, ""));
            let is_in_place = original == name;
            let unusable = |refused: Refused| Unusable {
                path: path.clone(),
                why: refused.why,
                // What cannot be read now may tell of a change that is in force.
                is_to_set_aside: is_in_place && !refused.may_pass,
            };
            let Some(id) = file::id_of(original) else {
                let why = "its name is not that of a transaction";
                history.unusable.push(unusable(Refused::for_good(why)));
                continue;
            };
            match file::load(&path, id) {
                Ok(entry) if is_in_place => history.entries.push(entry),
                Ok(_) => {
                    let why = Refused::for_good("it was set aside");
                    history.unusable.push(unusable(why));
                }
                Err(why) => history.unusable.push(unusable(why)),
            }
        }
        history.entries.sort_by_key(|entry| entry.id);
        Ok(history)
    }

    /// The transaction of this number.
    #[must_use]
    pub fn entry(&self, id: u64) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.id == id)
    }

    pub(super) fn entry_mut(&mut self, id: u64) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| entry.id == id)
    }

    /// Every change of every transaction, oldest first.
    pub(super) fn steps(&self) -> impl DoubleEndedIterator<Item = (&Entry, &Step)> {
        self.entries
            .iter()
            .flat_map(|entry| entry.steps.iter().map(move |step| (entry, step)))
    }

    /// How one of the changes stands now.
    #[must_use]
    pub fn presence(&self, step: &Step) -> Presence {
        undo::presence(self, step)
    }

    /// Whether there is something of a transaction that could be undone or is at work. A change
    /// ends with its process, its namespace, or the running of the machine; a file does not.
    #[must_use]
    pub fn is_in_force(&self, entry: &Entry) -> bool {
        let ended = |step: &Step| {
            let presence = self.presence(step);
            matches!(presence, Presence::Gone { .. } | Presence::Undone)
        };
        match entry.status() {
            Status::RolledBack => false,
            Status::Kept | Status::Leased => {
                let has_file = entry.files.iter().any(MadeFile::is_in_force);
                has_file || !entry.steps.iter().all(ended)
            }
            _ => true,
        }
    }

    /// Whether a transaction of this journal has made this file.
    pub(super) fn has_made(&self, path: &Path) -> bool {
        let mut files = self.entries.iter().flat_map(|entry| &entry.files);
        files.any(|file| file.path == path)
    }

    /// The number of the next transaction: greater than every other, and not that of a file which
    /// cannot be used.
    pub(super) fn next_id(&self) -> u64 {
        let newest = self.entries.last().map_or(0, |entry| entry.id);
        let is_free = |id: &u64| {
            let name = file::name_of(*id);
            let has_it = |unusable: &Unusable| {
                let found = unusable.path.file_name().unwrap_or_default();
                found.to_string_lossy().starts_with(&name)
            };
            !self.unusable.iter().any(has_it)
        };
        let mut free = (newest + 1..).filter(is_free);
        free.next().expect("the files that are there have an end")
    }

    /// Renames what cannot be used; call it only while holding the lock.
    pub(super) fn set_aside_unusable(&self) {
        let is_due = |unusable: &&Unusable| unusable.is_to_set_aside;
        for unusable in self.unusable.iter().filter(is_due) {
            file::set_aside(&unusable.path);
        }
    }

    /// Deletes the oldest transactions beyond `keep` of which nothing is in force any more. Failing
    /// to do so is harmless.
    pub(super) fn prune(&mut self, journal: &Path, keep: usize) {
        let older = self.entries.len().saturating_sub(keep);
        let ended: Vec<u64> = self.entries[..older]
            .iter()
            .filter(|entry| !self.is_in_force(entry))
            .map(|entry| entry.id)
            .collect();
        for id in &ended {
            fs::remove_file(file::path_of(journal, *id)).ok();
        }
        self.entries.retain(|entry| !ended.contains(&entry.id));
    }
}
