//! Settings of this machine, each change behind the journal.

use std::path::PathBuf;

use anyhow::Context;
use base::Change;
use linux::Journal;
use linux::journal::{self, Transaction};

use tailor::{Settings, Undone, Values};

/// The settings of real hosts.
pub(crate) struct Journalled {
    journal: Journal,
    unconfirmed: Option<Transaction>,
}

impl Journalled {
    /// With the journal in this directory.
    pub(crate) fn open(directory: impl Into<PathBuf>) -> anyhow::Result<Self> {
        Ok(Self {
            journal: Journal::open(directory)?,
            unconfirmed: None,
        })
    }

    fn unconfirmed(&mut self) -> anyhow::Result<&mut Transaction> {
        self.unconfirmed
            .as_mut()
            .context("no change is unconfirmed")
    }
}

impl Settings for Journalled {
    type Error = anyhow::Error;

    fn make(&mut self, reason: &str, changes: &[Change]) -> anyhow::Result<tailor::Applied> {
        let mut transaction = self.journal.begin(reason)?;
        let applied = transaction.apply_all(changes)?;
        let values = |applied: &journal::Applied| Values {
            from: applied.old.to_string(),
            to: applied.now.to_string(),
        };
        let applied = tailor::Applied {
            transaction: Some(transaction.id()),
            values: applied.iter().map(values).collect(),
        };
        self.unconfirmed = Some(transaction);
        Ok(applied)
    }

    fn verified(&mut self, better: bool, comparison: &str) -> anyhow::Result<()> {
        Ok(self.unconfirmed()?.verified(better, comparison)?)
    }

    fn keep(&mut self) -> anyhow::Result<()> {
        let transaction = self
            .unconfirmed
            .take()
            .context("no change is unconfirmed")?;
        Ok(transaction.keep()?)
    }

    fn undo(&mut self) -> Vec<Undone> {
        let shown = |undone: journal::Undone| Undone {
            knob: undone.change.knob,
            how: undone.how.to_string(),
        };
        let undone = self.unconfirmed.take().map(Transaction::roll_back);
        undone.into_iter().flatten().map(shown).collect()
    }
}
