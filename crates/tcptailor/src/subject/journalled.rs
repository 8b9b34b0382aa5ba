//! Settings of this machine, each change behind the journal.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use base::{Change, Instant};
use linux::journal::{self, Guard, Transaction};
use linux::{Clock, Journal};

use tailor::{Settings, Undone, Values};

use crate::commands::guard;

/// The settings of real hosts.
pub(crate) struct Journalled {
    /// `None` where nothing is to be changed.
    journal: Option<Journal>,
    // Dropped before its guard, which then has nothing to do.
    unconfirmed: Option<Transaction>,
    guarding: Option<Guarding>,
}

/// Somebody who undoes the unconfirmed changes should this process not be able to.
struct Guarding {
    guard: Guard,
    /// How long one change may stay unconfirmed.
    lease: Duration,
}

impl Journalled {
    /// Of a host that is only looked at.
    pub(crate) const fn none() -> Self {
        Self {
            journal: None,
            unconfirmed: None,
            guarding: None,
        }
    }

    /// Of hosts that end with this process; the journal is in this directory.
    pub(crate) fn of_lab(directory: impl Into<PathBuf>) -> anyhow::Result<Self> {
        Ok(Self {
            journal: Some(Journal::open(directory)?),
            unconfirmed: None,
            guarding: None,
        })
    }

    /// Of this machine. Whatever becomes of this process, no change stays unconfirmed for longer
    /// than `lease`.
    pub(crate) fn of_machine(lease: Duration) -> anyhow::Result<Self> {
        let journal = Journal::open(Journal::default_directory()?)?;
        let guard = guard::start(&journal, false)?;
        Ok(Self {
            journal: Some(journal),
            unconfirmed: None,
            guarding: Some(Guarding { guard, lease }),
        })
    }

    /// Nothing is unconfirmed any more: a guard that is gone has nothing to miss.
    fn end_lease(&mut self) {
        if let Some(Guarding { guard, .. }) = &mut self.guarding {
            guard.give_until(Instant::MAX).ok();
        }
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
        if let Some(Guarding { guard, lease }) = &mut self.guarding {
            guard.give_until(Clock.now() + *lease)?;
        }
        let journal = self.journal.as_ref().context("it is only looked at")?;
        let mut transaction = journal.begin(reason)?;
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
        transaction.keep()?;
        self.end_lease();
        Ok(())
    }

    fn undo(&mut self) -> Vec<Undone> {
        let shown = |undone: journal::Undone| Undone {
            knob: undone.change.knob,
            is_theirs: matches!(undone.how, journal::How::LeftAlone { .. }),
            how: undone.how.to_string(),
        };
        let undone = self.unconfirmed.take().map(Transaction::roll_back);
        self.end_lease();
        undone.into_iter().flatten().map(shown).collect()
    }
}
