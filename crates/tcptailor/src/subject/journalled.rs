//! Settings of this machine, each change behind the journal.

use std::path::PathBuf;

use anyhow::Context;
use base::Change;
use linux::Journal;
use linux::journal::{Applied, Transaction, Undone};

use super::{Made, PutBack, Settings, Trying};

/// The settings of real hosts.
pub(crate) struct Journalled {
    journal: Journal,
    trying: Option<Transaction>,
}

impl Journalled {
    /// With the journal in this directory.
    pub(crate) fn open(directory: impl Into<PathBuf>) -> anyhow::Result<Self> {
        Ok(Self {
            journal: Journal::open(directory)?,
            trying: None,
        })
    }

    fn trying(&mut self) -> anyhow::Result<&mut Transaction> {
        self.trying.as_mut().context("no change is on trial")
    }
}

impl Settings for Journalled {
    fn make(&mut self, reason: &str, changes: &[Change]) -> anyhow::Result<Trying> {
        let mut transaction = self.journal.begin(reason)?;
        let applied = transaction.apply_all(changes)?;
        let made = |applied: &Applied| Made {
            from: applied.old.to_string(),
            to: applied.now.to_string(),
        };
        let trying = Trying {
            transaction: Some(transaction.id()),
            changes: applied.iter().map(made).collect(),
        };
        self.trying = Some(transaction);
        Ok(trying)
    }

    fn verified(&mut self, better: bool, comparison: &str) -> anyhow::Result<()> {
        Ok(self.trying()?.verified(better, comparison)?)
    }

    fn keep(&mut self) -> anyhow::Result<()> {
        let transaction = self.trying.take().context("no change is on trial")?;
        Ok(transaction.keep()?)
    }

    fn put_back(&mut self) -> Vec<PutBack> {
        let shown = |undone: Undone| PutBack {
            knob: undone.change.knob,
            how: undone.how.to_string(),
        };
        let undone = self.trying.take().map(Transaction::roll_back);
        undone.into_iter().flatten().map(shown).collect()
    }
}
