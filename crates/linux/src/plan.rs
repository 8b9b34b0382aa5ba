//! A list of changes in a file, to be looked at, kept, and applied later.
//!
//! What there was when the plan was made is in it: the values, the namespaces, the boot. Where that
//! is not so any more, the plan is refused, with what differs. A plan that is written by hand may
//! leave this out.

use std::path::Path;

use base::{Change, KnobValue, Netns, Target, find_knob};
use serde::{Deserialize, Serialize};

use crate::actuator::Setting;
use crate::all_netns::{NetnsPlace, all_netns};
use crate::error::{Error, Result};
use crate::journal::{ProcessIdentity, TargetIdentity};
use crate::netns::NetnsHandle;
use crate::regular_file;
use crate::state::State;

/// The longest plan that is read: a thousand changes of routes fit.
const BYTES_MAX: u64 = 1 << 20;
/// Changes in one plan, at most.
const CHANGES_MAX: usize = 1000;
/// Differences that are told of a plan that does not fit; the others are counted.
const DIFFERENCES_MAX: usize = 3;

/// Changes to be applied together, in this order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// [`Plan::SCHEMA`].
    pub schema: String,
    /// During which boot of which machine it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
    /// Planned changes.
    pub changes: Vec<Planned>,
}

/// One change, and what there was when it was planned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Planned {
    /// Scope.
    pub target: Target,
    /// Which setting.
    pub knob: String,
    /// Its new value.
    pub to: KnobValue,
    /// State when it was planned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<State>,
    /// In which namespace, apart from its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<TargetIdentity>,
}

impl Planned {
    /// The change.
    #[must_use]
    pub fn change(&self) -> Change {
        Change {
            target: self.target.clone(),
            knob: self.knob.clone(),
            to: self.to.clone(),
        }
    }

    /// With what there is now.
    fn seen(change: Change) -> Result<Self> {
        let setting = Setting::open(&change.target, &change.knob)?;
        Ok(Self {
            from: Some(setting.read()?),
            place: Some(TargetIdentity::of(&setting)?),
            ..change.into()
        })
    }

    /// Difference between the present state and the state when the change was planned.
    ///
    /// # Errors
    /// Where a permission is missing: what there is now is not known then.
    fn difference(&self) -> Result<Option<Difference>> {
        let about = |what: String| {
            Ok(Some(Difference {
                what: format!("{} of the {}: {what}", self.knob, self.target),
                way: None,
            }))
        };
        let setting = match Setting::open(&self.target, &self.knob) {
            Ok(setting) => setting,
            Err(error) if error.is_denied() => return Err(error),
            Err(error) => return about(error.to_string()),
        };
        // One that is named is reached from anywhere: another way leads to the same.
        if let Some(then) = &self.place
            && *self.target.netns() == Netns::Own
            && is_elsewhere(then, &setting)
            && let Some((netns, way)) = way_to(then)
        {
            return Ok(Some(Difference {
                what: format!(
                    "{} of the {} was planned in the {netns}, and this is another one",
                    self.knob, self.target
                ),
                way: Some(way),
            }));
        }
        if let (Some(then), Ok(now)) = (&self.place, TargetIdentity::of(&setting))
            && !now.is_same(then)
        {
            let what = match now.is_same_link(then.link_index) {
                true => "namespace",
                false => "interface",
            };
            return about(format!("that name is of another {what} now"));
        }
        let Some(from) = &self.from else {
            return Ok(None);
        };
        match setting.read() {
            // The change was made already.
            Ok(now) if setting.is_already(&now, &self.to) => Ok(None),
            Ok(now) if now.same_as(from) || setting.is_volatile() => Ok(None),
            Ok(now) => about(format!("it was {from}, now {now}")),
            Err(error) if error.is_denied() => Err(error),
            Err(error) => about(error.to_string()),
        }
    }
}

/// Something that is not as it was when a change was planned.
struct Difference {
    what: String,
    /// How to start a command in the namespace where it still is so.
    way: Option<String>,
}

/// Whether a setting is reached in another namespace than the one it was planned in.
fn is_elsewhere(then: &TargetIdentity, setting: &Setting) -> bool {
    let cookies = (then.netns_cookie, setting.netns_cookie());
    setting
        .netns_inode()
        .is_ok_and(|inode| inode != then.netns_inode)
        || matches!(cookies, (Some(then), Some(now)) if then != now)
}

/// The namespace where a change was planned, if it still exists, and how to start a command in it.
fn way_to(then: &TargetIdentity) -> Option<(Netns, String)> {
    let is_it = |place: &NetnsPlace| {
        NetnsHandle::open(&place.netns).is_ok_and(|handle| then.is_namespace(&handle))
    };
    let place = all_netns().into_iter().find(is_it)?;
    let way = match &place.netns {
        Netns::Own | Netns::Simulated(_) => return None,
        Netns::Named(name) => format!("ip netns exec {name}"),
        Netns::OfProcess(pid) => format!("nsenter --net --target {pid}"),
    };
    Some((place.netns, way))
}

impl From<Change> for Planned {
    /// Without what there was.
    fn from(Change { target, knob, to }: Change) -> Self {
        Self {
            target,
            knob,
            to,
            from: None,
            place: None,
        }
    }
}

impl Plan {
    /// Name and version of the form.
    pub const SCHEMA: &'static str = "tcptailor/plan/2";

    /// A plan of these changes, whatever there is.
    #[must_use]
    pub fn new(changes: Vec<Change>) -> Self {
        Self {
            schema: Self::SCHEMA.into(),
            boot_id: None,
            changes: changes.into_iter().map(Planned::from).collect(),
        }
    }

    /// A plan of these changes with what there is now, and those that cannot be planned, with the
    /// reason.
    ///
    /// # Errors
    /// [`Error::Os`] where `/proc` is not mounted.
    pub fn of_present(changes: Vec<Change>) -> Result<(Self, Vec<(Change, Error)>)> {
        let mut left_out = Vec::new();
        let mut planned = Vec::new();
        for change in changes {
            match Planned::seen(change.clone()) {
                Ok(seen) => planned.push(seen),
                Err(error) => left_out.push((change, error)),
            }
        }
        let plan = Self {
            schema: Self::SCHEMA.into(),
            boot_id: Some(ProcessIdentity::this_process()?.boot_id),
            changes: planned,
        };
        Ok((plan, left_out))
    }

    /// The changes.
    #[must_use]
    pub fn changes(&self) -> Vec<Change> {
        self.changes.iter().map(Planned::change).collect()
    }

    /// Reads a plan and checks every change: known knobs, values in range, fitting targets, one
    /// value for each setting.
    ///
    /// # Errors
    /// [`Error::File`] with the place in the file or the number of the change, and what to write;
    /// [`Error::NotFound`] where there is no such file; [`Error::Os`] without permission to read.
    pub fn read(path: &Path) -> Result<Self> {
        let wrong = |what: String| Error::File {
            path: path.into(),
            what,
        };
        match rustix::fs::access(path, rustix::fs::Access::READ_OK) {
            Ok(()) => {}
            Err(rustix::io::Errno::NOENT) => {
                return Err(Error::NotFound {
                    what: "plan",
                    name: path.display().to_string(),
                    hint: format!("; `tcptailor diagnose -o {}` writes one", path.display()),
                });
            }
            Err(error) => return Err(Error::errno(format!("read {}", path.display()))(error)),
        }
        let bytes = regular_file::open(path, true)
            .and_then(|(file, meta)| regular_file::read(file, &meta, BYTES_MAX))
            .map_err(|refused| wrong(refused.why))?;
        let text = String::from_utf8(bytes).map_err(|_| wrong("not text".to_owned()))?;
        let plan: Self =
            serde_json::from_str(&text).map_err(|e| wrong(why_not_a_plan(&text, &e)))?;
        plan.check().map_err(wrong)?;
        Ok(plan)
    }

    fn check(&self) -> Result<(), String> {
        if self.schema != Self::SCHEMA {
            return Err(format!(
                "unknown schema `{}`; this version reads `{}`",
                self.schema,
                Self::SCHEMA
            ));
        }
        if self.changes.len() > CHANGES_MAX {
            let count = self.changes.len();
            return Err(format!("{count} changes; {CHANGES_MAX} at most"));
        }
        for (at, planned) in self.changes.iter().enumerate() {
            let number = at + 1;
            Setting::check(&planned.change()).map_err(|e| format!("change {number}: {e}"))?;
            let knob = |planned: &Planned| find_knob(&planned.knob).map(|knob| knob.name).ok();
            let mut before = self.changes[..at].iter().enumerate();
            let same = before
                .find(|(_, other)| other.target == planned.target && knob(other) == knob(planned));
            if let Some((first, _)) = same {
                let first = first + 1;
                return Err(format!(
                    "changes {first} and {number} both set {} of the {}; leave one",
                    planned.knob, planned.target
                ));
            }
        }
        Ok(())
    }

    /// Checks that everything is as it was when the plan was made, which was read from `file`.
    ///
    /// # Errors
    /// [`Error::Refused`], with what differs; [`Error::Permission`] where that cannot be seen.
    pub fn check_present(&self, file: &Path) -> Result<()> {
        let boot_id = ProcessIdentity::this_process()?.boot_id;
        let mut differences = Vec::new();
        if self.boot_id.as_ref().is_some_and(|made| *made != boot_id) {
            let what = "it was made on another machine, or before this one was last booted";
            differences.push(Difference {
                what: what.to_owned(),
                way: None,
            });
        } else {
            for planned in &self.changes {
                differences.extend(planned.difference()?);
            }
        }
        if differences.is_empty() {
            return Ok(());
        }
        let more = differences.len().saturating_sub(DIFFERENCES_MAX);
        differences.truncate(DIFFERENCES_MAX);
        let told: Vec<&str> = differences.iter().map(|one| one.what.as_str()).collect();
        let mut reason = told.join("; ");
        if more > 0 {
            reason += &format!("; {more} more");
        }
        // Where all of it is in one place, that is where the plan is to be applied.
        let mut ways = differences.iter().map(|one| &one.way);
        let first = ways.next().cloned().flatten();
        if let Some(way) =
            first.filter(|way| more == 0 && ways.all(|other| other.as_ref() == Some(way)))
        {
            return Err(Error::Refused {
                what: "the plan is of another network namespace".into(),
                reason: format!("{reason}; type `{way} tcptailor apply {}`", file.display()),
            });
        }
        Err(Error::Refused {
            what: "the plan does not fit any more".into(),
            reason: reason
                + "; make a new one, with `-o` of the command that made it (diagnose, bdp)",
        })
    }
}

/// What is wrong with a text that is not a plan. The document of a command is told by its schema:
/// it shows the changes, and a file with the plan is written beside it.
fn why_not_a_plan(text: &str, error: &serde_json::Error) -> String {
    #[derive(Deserialize)]
    struct Document {
        schema: String,
    }
    let document = serde_json::from_str::<Document>(text).ok();
    let schema = document.map(|document| document.schema);
    let mut parts = schema.as_deref().unwrap_or_default().split('/');
    match (parts.next(), parts.next()) {
        (Some("tcptailor"), Some(other)) if other != "plan" => format!(
            "not a plan but a document of the kind `{other}`; `tcptailor diagnose -o FILE` writes \
             plans"
        ),
        _ => format!("not a plan: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[track_caller]
    fn check(changes: &str, expected: &str) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("plan.json");
        fs::write(&path, changes).unwrap();
        check_file(&path, expected);
    }

    #[track_caller]
    fn check_file(path: &Path, expected: &str) {
        let shown = match Plan::read(path) {
            Ok(plan) => format!("{} changes", plan.changes.len()),
            Err(error) => error.to_string(),
        };
        assert!(shown.contains(expected), "{shown}");
    }

    fn plan(changes: &[&str]) -> String {
        let changes = changes.join(",");
        format!(r#"{{"schema":"tcptailor/plan/2","changes":[{changes}]}}"#)
    }

    fn sysctl(knob: &str, to: &str) -> String {
        format!(r#"{{"target":{{"scope":"namespace","netns":"own"}},"knob":"{knob}","to":{to}}}"#)
    }

    #[test]
    fn a_plan_is_checked_before_anything_happens() {
        let one = |knob: &str, to: &str| plan(&[&sysctl(knob, to)]);
        check(&one("net.ipv4.tcp_sack", "true"), "1 changes");
        check(&one("net.ipv4.tcp_rmem", "[4096,8192,16384]"), "1 changes");
        check(
            &one("net.ipv4.tcp_sak", "true"),
            "did you mean `net.ipv4.tcp_sack`",
        );
        check(&one("net.ipv4.tcp_mtu_probing", "7"), "change 1: ");
        check(&one("nodelay", "true"), "it is a setting of a socket");
        check(
            &one("nagle", r#""off""#),
            "change 1: nagle: it is a setting of tcptailor's own stack; it cannot be set in Linux",
        );
        check(&one("sndbuf", r#""none""#), "Linux has no `none`");
        let route = r#"{"target":{"scope":"route","netns":"own","destination":"here"},
                       "knob":"route.mtu","to":1400}"#;
        check(&plan(&[route]), "not an IP address");
        check("{", "not a plan");
        check(
            r#"{"schema":"tcptailor/diagnose/2","tool":{"version":"1"},"flows":[]}"#,
            "of the kind `diagnose`; `tcptailor diagnose -o FILE` writes plans",
        );
        check(
            r#"{"schema":"tcptailor/plan/2","tool":1}"#,
            "not a plan: unknown field",
        );
        check(
            r#"{"schema":"tcptailor/plan/9","changes":[]}"#,
            "unknown schema",
        );
    }

    #[test]
    fn one_setting_has_one_value() {
        let first = sysctl("net.ipv4.tcp_rmem", "[4096,8192,16384]");
        let second = sysctl("net.ipv4.tcp_rmem", "[4096,8192,32768]");
        let other = sysctl("net.ipv4.tcp_sack", "true");
        check(
            &plan(&[&first, &other, &second]),
            "changes 1 and 3 both set net.ipv4.tcp_rmem",
        );
    }

    #[test]
    fn what_is_no_plan_costs_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        check_file(&at("none"), "does not exist");
        check_file(directory.path(), "not a regular file");
        check_file(Path::new("/dev/zero"), "not a regular file");
        let mode = rustix::fs::Mode::RUSR;
        let fifo = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, at("fifo"), fifo, mode, 0).unwrap();
        check_file(&at("fifo"), "not a regular file");
        fs::File::create(at("long"))
            .unwrap()
            .set_len(BYTES_MAX + 1)
            .unwrap();
        check_file(&at("long"), "at most");
        let change = sysctl("net.ipv4.tcp_sack", "true");
        fs::write(at("many"), plan(&vec![&*change; CHANGES_MAX + 1])).unwrap();
        check_file(&at("many"), "1000 at most");
    }

    #[test]
    fn a_name_is_no_path() {
        let named = |name: &str| {
            let target = format!(r#"{{"scope":"namespace","netns":{{"named":"{name}"}}}}"#);
            plan(&[&format!(
                r#"{{"target":{target},"knob":"net.ipv4.tcp_sack","to":true}}"#
            )])
        };
        check(&named("blue"), "1 changes");
        for name in ["/proc/1/ns/net", "..", "a/b", "", ".", &"x".repeat(300)] {
            check(&named(name), "not the name of a namespace");
        }
        let link = |name: &str| {
            let target = format!(r#"{{"scope":"link","netns":"own","name":"{name}"}}"#);
            plan(&[&format!(
                r#"{{"target":{target},"knob":"link.mtu","to":1400}}"#
            )])
        };
        check(&link("eth0"), "1 changes");
        for name in ["", "a/b", "sixteen-letters-", "a b"] {
            check(&link(name), "not the name of an interface");
        }
    }

    #[test]
    fn a_plan_of_another_boot_is_refused() {
        let mut plan = Plan::new(Vec::new());
        plan.check_present(Path::new("plan.json")).unwrap();
        plan.boot_id = Some("another".into());
        let error = plan
            .check_present(Path::new("plan.json"))
            .expect_err("it is not of this boot");
        assert!(error.to_string().contains("another machine"), "{error}");
    }
}
