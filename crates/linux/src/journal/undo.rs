//! Undoing one change: compare with what we wrote, then set what was there before.

use std::fmt;

use base::Change;

use super::record::{Owner, Step};
use crate::actuator::Setting;
use crate::error::{Error, Result};
use crate::state::State;

/// A change and what became of undoing it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undone {
    /// The change.
    pub change: Change,
    /// What became of it.
    pub how: How,
}

/// What became of undoing a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum How {
    /// The old value is in force again.
    Restored {
        /// The old value.
        to: State,
    },
    /// Restored as far as the kernel allows without privilege.
    Clipped {
        /// What it is now.
        now: State,
    },
    /// The old value was in force: the change was never made, or undone before.
    WasBack,
    /// Somebody else has changed the setting since; it was left alone.
    LeftAlone {
        /// What it is now.
        present: State,
    },
    /// The target is gone, and the change with it.
    Gone {
        /// What is gone.
        why: String,
    },
    /// It could not be undone; the next attempt may succeed.
    Failed {
        /// Why, and what to do.
        error: String,
    },
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Restored { to } => write!(f, "restored: {to}"),
            Self::Clipped { now } => {
                write!(
                    f,
                    "restored only to {now}, which is all the kernel allows this user"
                )
            }
            Self::WasBack => f.write_str("nothing to undo: the old value is in force"),
            Self::LeftAlone { present } => {
                write!(f, "left alone: somebody else has set it to {present} since")
            }
            Self::Gone { why } => write!(f, "nothing left to undo: {why}"),
            Self::Failed { error } => write!(f, "NOT undone: {error}"),
        }
    }
}

impl How {
    /// One word for programs.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Restored { .. } => "restored",
            Self::Clipped { .. } => "clipped",
            Self::WasBack => "was-back",
            Self::LeftAlone { .. } => "left-alone",
            Self::Gone { .. } => "gone",
            Self::Failed { .. } => "failed",
        }
    }
}

/// How a change stands now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    /// What was written is in force.
    InForce,
    /// The old value is in force.
    Undone,
    /// Somebody else has changed the setting since.
    Changed {
        /// What it is now.
        present: State,
    },
    /// The target is gone.
    Gone {
        /// What is gone.
        why: String,
    },
    /// It cannot be seen.
    Unknown {
        /// Why.
        error: String,
    },
}

impl fmt::Display for Presence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InForce => f.write_str("in force"),
            Self::Undone => f.write_str("undone"),
            Self::Changed { present } => write!(f, "changed since to {present}"),
            Self::Gone { why } => write!(f, "gone: {why}"),
            Self::Unknown { error } => write!(f, "unknown: {error}"),
        }
    }
}

/// Undoes one change of a transaction of `owner`.
pub(super) fn undo(step: &Step, owner: &Owner) -> How {
    let (setting, presence) = look(step, owner);
    let setting = match (presence, setting) {
        (Presence::InForce, Some(setting)) => setting,
        (Presence::InForce | Presence::Undone, _) => return How::WasBack,
        (Presence::Changed { present }, _) => return How::LeftAlone { present },
        (Presence::Gone { why }, _) => return How::Gone { why },
        (Presence::Unknown { error }, _) => return How::Failed { error },
    };
    match restore(&setting, step) {
        Ok(how) => how,
        Err(error @ Error::NotFound { .. }) => How::Gone {
            why: error.to_string(),
        },
        Err(error) => How::Failed {
            error: error.to_string(),
        },
    }
}

/// How a change of a transaction of `owner` stands now, and the setting where there is one.
pub(super) fn look(step: &Step, owner: &Owner) -> (Option<Setting>, Presence) {
    let gone = |why: &str| (None, Presence::Gone { why: why.into() });
    // Everything that is changed here lives in the kernel's memory.
    if !owner.is_of_this_boot() {
        return gone("the machine has been started again since");
    }
    if !step.place.process_lives(&step.change.target) {
        return gone("the process has ended");
    }
    let Some(netns) = step.place.netns(&step.change.target) else {
        return gone("the network namespace is no more");
    };
    let opened = Setting::open_in(netns, &step.change.target, &step.change.knob);
    let read = opened.and_then(|setting| {
        let present = setting.read()?;
        Ok((setting, present))
    });
    match read {
        Ok((_, present)) if present.same_as(&step.old) => (None, Presence::Undone),
        Ok((setting, present)) if is_ours(&setting, step, &present) => {
            (Some(setting), Presence::InForce)
        }
        Ok((_, present)) => (None, Presence::Changed { present }),
        Err(error @ Error::NotFound { .. }) => gone(&error.to_string()),
        Err(error) => {
            let error = error.to_string();
            (None, Presence::Unknown { error })
        }
    }
}

fn restore(setting: &Setting, step: &Step) -> Result<How> {
    setting.restore(&step.old)?;
    let now = setting.read()?;
    if now.same_as(&step.old) || setting.is_volatile() {
        let to = step.old.clone();
        return Ok(How::Restored { to });
    }
    Ok(How::Clipped { now })
}

/// Whether the present state is one that we have made.
fn is_ours(setting: &Setting, step: &Step, present: &State) -> bool {
    if setting.is_volatile() {
        return true;
    }
    let written = match &step.now {
        Some(now) => present.same_as(now),
        None => setting.is_result_of(present, &step.old, &step.change.to),
    };
    written || is_half_restored(present, &step.old)
}

/// Restoring a buffer that was open takes two calls, the size and then the lock; a crash in
/// between leaves the old size, locked. The same goes for the locks, whose sizes come first.
fn is_half_restored(present: &State, old: &State) -> bool {
    match (present, old) {
        (
            State::Buffer {
                bytes,
                locked: true,
            },
            State::Buffer {
                bytes: old,
                locked: false,
            },
        ) => *bytes == old / 2 * 2,
        (
            State::Locks {
                bits,
                send_bytes,
                receive_bytes,
            },
            State::Locks {
                bits: old,
                send_bytes: old_send,
                receive_bytes: old_receive,
            },
        ) => {
            // The first of two locks that are to be closed again is closed, at its old size.
            let is_back = |lock, now, before| bits & lock == 0 || now == before;
            *bits != 0
                && bits & !old == 0
                && is_back(1, send_bytes, old_send)
                && is_back(2, receive_bytes, old_receive)
        }
        _ => false,
    }
}
