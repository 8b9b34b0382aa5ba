//! A list of changes in a file, to be looked at, kept, and applied later.

use std::fs;
use std::path::Path;

use base::Change;
use serde::{Deserialize, Serialize};

use crate::actuator::Setting;
use crate::error::{Error, Result};

/// Changes to be applied together, in this order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// [`Plan::SCHEMA`].
    pub schema: String,
    /// What to change.
    pub changes: Vec<Change>,
}

impl Plan {
    /// Name and version of the form.
    pub const SCHEMA: &'static str = "tcptailor/plan/1";

    /// A plan of these changes.
    #[must_use]
    pub fn new(changes: Vec<Change>) -> Self {
        Self {
            schema: Self::SCHEMA.into(),
            changes,
        }
    }

    /// Reads a plan and checks every change: known knobs, values in range, fitting targets.
    ///
    /// # Errors
    /// [`Error::File`] with the place in the file or the number of the change, and what to write.
    pub fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path)
            .map_err(Error::os(format!("read the plan {}", path.display())))?;
        let wrong = |what: String| Error::File {
            path: path.into(),
            what,
        };
        let plan: Self =
            serde_json::from_str(&text).map_err(|e| wrong(format!("this is no plan: {e}")))?;
        if plan.schema != Self::SCHEMA {
            return Err(wrong(format!(
                "schema `{}` is not understood; this version reads `{}`",
                plan.schema,
                Self::SCHEMA
            )));
        }
        for (at, change) in plan.changes.iter().enumerate() {
            Setting::check(change).map_err(|e| wrong(format!("change {}: {e}", at + 1)))?;
        }
        Ok(plan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(changes: &str, expected: &str) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("plan.json");
        fs::write(&path, changes).unwrap();
        let shown = match Plan::read(&path) {
            Ok(plan) => format!("{} changes", plan.changes.len()),
            Err(error) => error.to_string(),
        };
        assert!(shown.contains(expected), "{shown}");
    }

    #[test]
    fn a_plan_is_checked_before_anything_happens() {
        let plan =
            |change: &str| format!(r#"{{"schema":"tcptailor/plan/1","changes":[{change}]}}"#);
        let sysctl = |knob: &str, to: &str| {
            plan(&format!(
                r#"{{"target":{{"scope":"namespace","netns":"own"}},"knob":"{knob}","to":{to}}}"#
            ))
        };
        check(&sysctl("net.ipv4.tcp_sack", "true"), "1 changes");
        check(
            &sysctl("net.ipv4.tcp_rmem", "[4096,8192,16384]"),
            "1 changes",
        );
        check(
            &sysctl("net.ipv4.tcp_sak", "true"),
            "did you mean `net.ipv4.tcp_sack`",
        );
        check(&sysctl("net.ipv4.tcp_mtu_probing", "7"), "change 1: ");
        check(&sysctl("nodelay", "true"), "it is a setting of a socket");
        check(
            &sysctl("nagle", r#""off""#),
            "change 1: nagle: it is a setting of tcptailor's own stack; it cannot be set in Linux",
        );
        check(&sysctl("sndbuf", r#""none""#), "Linux has no `none`");
        check(
            &plan(
                r#"{"target":{"scope":"route","netns":"own","destination":"here"},"knob":"route.mtu","to":1400}"#,
            ),
            "no IP address",
        );
        check("{", "this is no plan");
        check(
            r#"{"schema":"tcptailor/plan/9","changes":[]}"#,
            "is not understood",
        );
    }
}
