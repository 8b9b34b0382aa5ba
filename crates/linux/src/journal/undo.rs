//! Undoing one change: compare with what we wrote, then set what was there before.

use std::fmt;

use base::Change;

use super::chain::Link;
use super::entry::{Entry, Step};
use super::history::History;
use super::record::StepId;
use crate::actuator::Setting;
use crate::error::Error;
use crate::state::State;

/// A change and what became of undoing it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undone {
    /// The change.
    pub change: Change,
    /// What was changed, with the namespace as this process calls it.
    pub target: String,
    /// Result of the rollback.
    pub how: How,
}

/// Result of rolling back a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum How {
    /// The old value is in force again.
    Restored {
        /// The old value.
        to: State,
    },
    /// Restored as far as the kernel allows without privilege.
    Clipped {
        /// Present state.
        now: State,
    },
    /// The old value was in force: the change was never made, or undone before.
    WasBack,
    /// A later change of the same setting is in force; undoing that one restores the old value.
    PassedOn {
        /// The transaction of the later change.
        to: u64,
    },
    /// The setting was changed since, and left alone.
    LeftAlone {
        /// Present state.
        present: State,
        /// Whether the value is still the one that was set, and the rest of the route or queue not.
        beside: bool,
    },
    /// The target is gone, and the change with it.
    Gone {
        /// The object that is gone.
        why: String,
    },
    /// Could not be rolled back; the next attempt may succeed.
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
            Self::WasBack => f.write_str("nothing to undo: it was never made, or undone before"),
            Self::PassedOn { to } => write!(
                f,
                "nothing to undo yet: transaction {to} has changed it since; rolling that back \
                 restores the value from before both"
            ),
            Self::LeftAlone { beside: true, .. } => f.write_str(
                "left alone: the rest of it has been changed since; set it back with `ip` or `tc`",
            ),
            Self::LeftAlone { present, .. } => {
                write!(f, "left alone: it has been set to {present} since")
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
            Self::PassedOn { .. } => "passed-on",
            Self::LeftAlone { .. } => "left-alone",
            Self::Gone { .. } => "gone",
            Self::Failed { .. } => "failed",
        }
    }
}

/// How a change stands now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    /// The value written is in force.
    InForce,
    /// The old value is in force, or that of another change, made when this one had been undone.
    Undone,
    /// A later transaction has changed the setting since.
    Superseded {
        /// Its number.
        by: u64,
    },
    /// The setting was changed since.
    Changed {
        /// Present state.
        present: State,
        /// Whether the value is still the one that was set, and the rest of the route or queue not.
        beside: bool,
    },
    /// The target is gone.
    Gone {
        /// The object that is gone.
        why: String,
    },
    /// Cannot be inspected.
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
            Self::Superseded { by } => write!(f, "changed since by transaction {by}"),
            Self::Changed { beside: true, .. } => {
                f.write_str("in force, and the rest of it was changed since")
            }
            Self::Changed { present, .. } => write!(f, "changed since to {present}"),
            Self::Gone { why } => write!(f, "gone: {why}"),
            Self::Unknown { error } => write!(f, "unknown: {error}"),
        }
    }
}

/// Undoes one change. Where later changes of the same setting are in force, the newest of them is
/// returned as well, to be recorded: without the record, undoing them would restore a wrong value.
/// So where nothing can be recorded, such a change is not undone.
pub(super) fn undo(history: &History, step: &Step, can_record: bool) -> (How, Option<StepId>) {
    let situation = Situation::of(history, step);
    if let (Some(newest), false) = (situation.passed_to, can_record) {
        let error = format!(
            "transaction {} has changed it since and the journal cannot be written; roll that one \
             back first",
            newest.transaction
        );
        return (How::Failed { error }, None);
    }
    let how = match situation.presence {
        Presence::InForce => match situation.restoring {
            Some((setting, target)) => restored(&setting, &target),
            None => How::WasBack,
        },
        Presence::Undone => How::WasBack,
        Presence::Superseded { by } => How::PassedOn { to: by },
        Presence::Changed { present, beside } => How::LeftAlone { present, beside },
        Presence::Gone { why } => How::Gone { why },
        Presence::Unknown { error } => How::Failed { error },
    };
    (how, situation.passed_to)
}

/// How a change stands now.
pub(super) fn presence(history: &History, step: &Step) -> Presence {
    if step.undone {
        return Presence::Undone;
    }
    Situation::of(history, step).presence
}

/// A change as it stands now, and what undoing it takes.
struct Situation {
    presence: Presence,
    /// Setting to restore, and its value; only for [`Presence::InForce`].
    restoring: Option<(Setting, State)>,
    /// The newest of the later changes in the same place that are in force.
    passed_to: Option<StepId>,
}

impl Situation {
    fn without_undoing(presence: Presence) -> Self {
        Self {
            presence,
            restoring: None,
            passed_to: None,
        }
    }

    fn of(history: &History, step: &Step) -> Self {
        let Some(entry) = history.entry(step.id.transaction) else {
            let why = "its transaction no longer exists".into();
            return Self::without_undoing(Presence::Gone { why });
        };
        let opened = open(entry, step).and_then(|setting| match setting.read() {
            Ok(present) => Ok((setting, present)),
            Err(error) => Err(not_seen(&error)),
        });
        match opened {
            Ok((setting, present)) => Self::seen(history, entry, step, setting, present),
            Err(presence) => Self::without_undoing(presence),
        }
    }

    /// Presence of a setting whose value is `present`.
    fn seen(
        history: &History,
        entry: &Entry,
        step: &Step,
        setting: Setting,
        present: State,
    ) -> Self {
        let link = Link::of(history, entry, step);
        let later = link.later(history, entry);
        let is_made = |found: &State| setting.is_result_of(found, &step.old, &step.change.to);
        let covered = link.covered(&later, &is_made);
        let passed_to = later.last().map(|newest| newest.step.id);
        let own_parts = if step.change.knob == "buf_lock" { 2 } else { 1 };
        if covered.len() == own_parts {
            return Self {
                presence: Presence::Superseded {
                    by: covered[0].1.transaction,
                },
                restoring: None,
                passed_to,
            };
        }
        if link.is_undone_before(&later) {
            return Self::without_undoing(Presence::Undone);
        }
        let under = |state: &State| match later.is_empty() {
            true => state.clone(),
            false => link.under(state, &later, &covered, &present),
        };
        let target = under(&link.old);
        let now = link.now.as_ref().map(under);
        if present.same_as(&target) {
            return Self {
                passed_to,
                ..Self::without_undoing(Presence::Undone)
            };
        }
        if is_ours(&setting, step, now.as_ref(), &target, &present) {
            return Self {
                presence: Presence::InForce,
                restoring: Some((setting, target)),
                passed_to,
            };
        }
        let value = present.value();
        let has_rest = matches!(present, State::Route { .. } | State::Qdisc { .. });
        let beside = has_rest && value.is_some() && now.is_some_and(|now| now.value() == value);
        Self::without_undoing(Presence::Changed { present, beside })
    }
}

/// The setting of a change, wherever it is now.
fn open(entry: &Entry, step: &Step) -> Result<Setting, Presence> {
    let gone = |why: &str| Presence::Gone { why: why.into() };
    // Everything that is changed here lives in the kernel's memory.
    match entry.owner.is_of_another_boot() {
        Ok(false) => {}
        Ok(true) => return Err(gone("the machine has been started again since")),
        // Where that cannot be known, nothing is forgotten.
        Err(error) => return Err(not_seen(&error)),
    }
    let target = &step.change.target;
    let netns = step
        .place
        .netns(target)
        .ok_or_else(|| gone("the network namespace no longer exists"))?;
    let setting = Setting::open_in(netns, target, &step.change.knob);
    let setting = setting.map_err(|error| not_seen(&error))?;
    let link = setting.link_index().map_err(|error| not_seen(&error))?;
    match step.place.is_same_link(link) {
        true => Ok(setting),
        // A device that was plugged in again, a tunnel or a container that was started again.
        false => Err(gone("the interface was removed, and this is another one")),
    }
}

fn not_seen(error: &Error) -> Presence {
    match error {
        Error::NotFound { .. } => Presence::Gone {
            why: error.to_string(),
        },
        _ => Presence::Unknown {
            error: error.to_string(),
        },
    }
}

fn restored(setting: &Setting, target: &State) -> How {
    match restore(setting, target) {
        Ok(how) => how,
        Err(error @ Error::NotFound { .. }) => How::Gone {
            why: error.to_string(),
        },
        Err(error) => How::Failed {
            error: error.to_string(),
        },
    }
}

fn restore(setting: &Setting, target: &State) -> Result<How, Error> {
    setting.restore(target)?;
    let now = setting.read()?;
    if now.same_as(target) || setting.is_volatile() {
        let to = target.clone();
        return Ok(How::Restored { to });
    }
    Ok(How::Clipped { now })
}

/// Whether the present state is one that we have made: what was read back after the change, or
/// what a crash has left between it and the state that is to be restored.
fn is_ours(
    setting: &Setting,
    step: &Step,
    now: Option<&State>,
    target: &State,
    present: &State,
) -> bool {
    if setting.is_volatile() {
        return true;
    }
    let written = match now {
        Some(now) => present.same_as(now),
        None => setting.is_result_of(present, target, &step.change.to),
    };
    written || is_half_restored(present, target)
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
