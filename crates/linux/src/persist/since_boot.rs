//! Compares settings made by a transaction of an earlier boot with the present ones.

use std::fmt;

use super::{at_every_boot, in_own_namespace, overriding};
use crate::actuator::Setting;
use crate::error::Result;
use crate::journal::{Entry, Step};
use crate::state::State;

/// How a change stands after a boot that should have made it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SinceBoot {
    /// In force again.
    SetAgain,
    /// Something else is in force.
    Otherwise {
        /// Present state.
        present: State,
        /// The file that sets it after ours, where there is one.
        by: Option<String>,
    },
    /// Cannot be inspected.
    Unknown {
        /// Why.
        error: String,
    },
}

impl fmt::Display for SinceBoot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SetAgain => f.write_str("in force, set again at boot"),
            Self::Otherwise { present, by: None } => {
                write!(f, "not in force since the boot: {present}")
            }
            Self::Otherwise {
                present,
                by: Some(file),
            } => write!(f, "not in force since the boot: {present}, set by {file}"),
            Self::Unknown { error } => write!(f, "unknown: {error}"),
        }
    }
}

impl SinceBoot {
    /// For a change that files of its transaction set again at every boot; `None` if no file does,
    /// if the machine has not booted since, and in namespaces other than the machine's.
    #[must_use]
    pub fn of(entry: &Entry, step: &Step) -> Option<Self> {
        let has_files = entry.files.iter().any(|file| file.is_in_force());
        if step.undone || !has_files || !entry.owner.is_of_another_boot().unwrap_or(false) {
            return None;
        }
        let change = at_every_boot(&in_own_namespace(&step.change)).ok()?;
        let read = || -> Result<State> { Setting::open(&change.target, &change.knob)?.read() };
        let present = match read() {
            Ok(present) => present,
            Err(error) => {
                return Some(Self::Unknown {
                    error: error.to_string(),
                });
            }
        };
        // Interfaces have other numbers after a boot, and routes name them; the value counts.
        let made = step.now.as_ref().and_then(State::value);
        if present.value() == made || present.is_exactly(&change.to) {
            return Some(Self::SetAgain);
        }
        let by = overriding::later_file(&change.knob, &entry.files);
        Some(Self::Otherwise { present, by })
    }
}
