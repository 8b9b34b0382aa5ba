//! Changes that are made again at every boot, by files that an administrator expects: kernel
//! parameters in sysctl.d(5); routes, interfaces and queues in a plan that a unit of systemd
//! applies.
//!
//! The files are steps of the transaction that makes the changes. What a boot repeats from them is
//! not journaled again.

mod at_boot;
mod overriding;
mod since_boot;
mod unit;

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use base::{Change, Netns, Target, find_knob};
use serde::{Deserialize, Serialize};

use crate::actuator::{Setting, sysctl_text};
use crate::error::{Error, Result};
use crate::journal::{FileContent, FilePresence, History, Transaction, why_open_to_others};
use crate::netns::NetnsHandle;
pub use at_boot::{AtBoot, SetAtBoot, apply_at_boot};
pub use since_boot::SinceBoot;
use unit::Unit;

/// The process whose namespace is that of the machine, or of the container.
const FIRST_PROCESS: u32 = 1;

/// The plan that is applied at boot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BootPlan {
    /// [`BootPlan::SCHEMA`].
    schema: String,
    /// Number of the transaction that made it.
    transaction: u64,
    /// Why, for people.
    reason: String,
    /// Changes to make, in this order.
    changes: Vec<Change>,
}

impl BootPlan {
    const SCHEMA: &'static str = "tcptailor/persist/1";
}

/// Everything needed to make changes at every boot.
#[derive(Clone, Debug)]
pub struct Persistence {
    /// In the machine's own namespace.
    changes: Vec<Change>,
    etc: PathBuf,
    program: PathBuf,
}

/// Paths of the files of one transaction.
struct Paths {
    sysctls: PathBuf,
    plan: PathBuf,
    unit: PathBuf,
    enabled: PathBuf,
}

impl Persistence {
    /// Checks that these changes can be made at every boot, before anything is changed. `program`
    /// is this program, which the unit will run as root.
    ///
    /// # Errors
    /// [`Error::Permission`] for others than root; [`Error::Refused`] for what ends with a process
    /// or with a namespace, and where others than root could change what the unit runs;
    /// [`Error::Os`] where the files cannot be written.
    pub fn of(changes: &[Change], program: &Path) -> Result<Self> {
        let etc = etc_directory()?;
        if !rustix::process::geteuid().is_root() {
            return Err(Error::Permission {
                what: format!("writing to {}", etc.display()),
                needs: "root",
                hint: "run as root".into(),
            });
        }
        let persistence = Self {
            changes: changes.iter().map(at_every_boot).collect::<Result<_>>()?,
            program: program.into(),
            etc,
        };
        for (path, content) in persistence.files(1, &History::default(), "")? {
            if content != FileContent::Directory {
                check_writable(&path)?;
            }
        }
        Ok(persistence)
    }

    /// The paths of the files, with `id` in place of the number of the transaction.
    #[must_use]
    pub fn paths(&self, id: &str) -> Vec<PathBuf> {
        let paths = self.paths_of(id);
        let mut all = Vec::new();
        if self.has(is_sysctl) {
            all.push(paths.sysctls);
        }
        if self.has(is_for_unit) {
            all.extend([paths.plan, paths.unit, paths.enabled]);
        }
        all
    }

    /// The kernel parameters that another file will set at boot after ours, and that file.
    #[must_use]
    pub fn overridden(&self, id: u64) -> Vec<(String, PathBuf)> {
        let ours = self.paths_of(&shown(id)).sysctls;
        let sysctls = self.changes.iter().filter(|change| is_sysctl(change));
        sysctls
            .filter_map(|change| {
                let file = overriding::later(&change.knob, &ours)?;
                Some((change.knob.clone(), file))
            })
            .collect()
    }

    /// Makes the files, as steps of a transaction that has made the changes; `reason` is for
    /// people.
    ///
    /// # Errors
    /// As [`Transaction::make_file`].
    pub fn write(&self, transaction: &mut Transaction, reason: &str) -> Result<Vec<PathBuf>> {
        let id = transaction.id();
        for (path, content) in self.files(id, transaction.history(), reason)? {
            transaction.make_file(&path, &content)?;
        }
        Ok(self.paths(&shown(id)))
    }

    fn has(&self, kind: fn(&Change) -> bool) -> bool {
        self.changes.iter().any(kind)
    }

    fn paths_of(&self, id: &str) -> Paths {
        let units = self.etc.join("systemd/system");
        let unit = format!("tcptailor-{id}.service");
        Paths {
            sysctls: self.etc.join(format!("sysctl.d/90-tcptailor-{id}.conf")),
            plan: self.etc.join(format!("tcptailor/persist-{id}.json")),
            enabled: units.join("multi-user.target.wants").join(&unit),
            unit: units.join(unit),
        }
    }

    /// The files, each after the directories that it may need.
    fn files(&self, id: u64, history: &History, why: &str) -> Result<Vec<(PathBuf, FileContent)>> {
        let paths = self.paths_of(&shown(id));
        let text = |text| FileContent::Text { text };
        let mut files = Vec::new();
        if self.has(is_sysctl) {
            files.push((paths.sysctls, text(self.sysctls(id, why)?)));
        }
        if self.has(is_for_unit) {
            let others = self.changes.iter().filter(|change| is_for_unit(change));
            let others: Vec<Change> = others.cloned().collect();
            let unit = Unit {
                id,
                reason: why,
                program: &self.program,
                plan: &paths.plan,
                links: links_of(&others),
                after: earlier_units(history),
            };
            files.push((paths.unit.clone(), text(unit.text()?)));
            let plan = BootPlan {
                schema: BootPlan::SCHEMA.into(),
                transaction: id,
                reason: why.into(),
                changes: others,
            };
            let plan = serde_json::to_string_pretty(&plan).expect("a plan is plain data");
            files.insert(files.len() - 1, (paths.plan, text(plan + "\n")));
            // As `systemctl enable` makes it.
            files.push((paths.enabled, FileContent::Link { to: paths.unit }));
        }
        let mut all = Vec::new();
        for (path, content) in files {
            let above = path.ancestors().skip(1);
            let mut missing: Vec<&Path> = above.take_while(|path| *path != self.etc).collect();
            missing.push(&self.etc);
            for directory in missing.into_iter().rev() {
                let item = (directory.to_owned(), FileContent::Directory);
                if !all.contains(&item) {
                    all.push(item);
                }
            }
            all.push((path, content));
        }
        Ok(all)
    }

    /// The file for sysctl.d(5).
    fn sysctls(&self, id: u64, reason: &str) -> Result<String> {
        let mut text = format!(
            "# Made by `tcptailor apply --persist` (transaction {id}): {}\n\
             # Remove with: tcptailor rollback {id}\n",
            one_line(reason)
        );
        for change in self.changes.iter().filter(|change| is_sysctl(change)) {
            let value = sysctl_text(&change.to);
            if value.contains(|c: char| c.is_control()) {
                return Err(Error::Refused {
                    what: format!("writing {} to a file", change.knob),
                    reason: "its value has more than one line".into(),
                });
            }
            writeln!(text, "{} = {value}", change.knob).expect("a String grows");
        }
        Ok(text)
    }
}

/// How the number of a transaction stands in names: sysctl.d(5) and we go by the order of names, so
/// the later transaction must come last.
fn shown(id: u64) -> String {
    format!("{id:06}")
}

fn is_sysctl(change: &Change) -> bool {
    matches!(change.target, Target::Namespace { .. })
}

fn is_for_unit(change: &Change) -> bool {
    !is_sysctl(change)
}

/// The change in the machine's own namespace.
fn at_every_boot(change: &Change) -> Result<Change> {
    at_every_boot_of(change, || {
        NetnsHandle::open(&Netns::OfProcess(FIRST_PROCESS))?.inode()
    })
}

/// Converts a change for a machine whose own namespace has this inode.
fn at_every_boot_of(change: &Change, machine: impl FnOnce() -> Result<u64>) -> Result<Change> {
    let refuse = |what: String, reason: String| Err(Error::Refused { what, reason });
    let what = || format!("{} of the {} at every boot", change.knob, change.target);
    if let Target::Socket { .. } = change.target {
        let value = find_knob(&change.knob)?.format(&change.to);
        let reason = format!(
            "a connection ends with its program; start that with `tcptailor run --set {}={} -- \
             CMD`, or set it in the program",
            change.knob,
            value.replace(' ', "")
        );
        return refuse(what(), reason);
    }
    if let Netns::Simulated(_) = change.target.netns() {
        return refuse(what(), "it is a simulation".into());
    }
    if NetnsHandle::open(change.target.netns())?.inode()? != machine()? {
        let reason = match change.target.netns() {
            Netns::Own => "this is not the namespace of the machine, which process 1 is in",
            Netns::Named(_) => {
                "the namespace is made again at every boot, without this; set it where it is made"
            }
            _ => "the namespace ends with its processes; set it where it is made",
        };
        return refuse(what(), reason.into());
    }
    let change = in_own_namespace(change);
    Setting::check(&change)?;
    Ok(change)
}

/// The change, as a program that is in the namespace says it.
fn in_own_namespace(change: &Change) -> Change {
    let mut change = change.clone();
    match &mut change.target {
        Target::Socket { netns, .. }
        | Target::Route { netns, .. }
        | Target::Link { netns, .. }
        | Target::Qdisc { netns, .. }
        | Target::Namespace { netns } => *netns = Netns::Own,
    }
    change
}

/// `$TCPTAILOR_ETC`, else `/etc`.
fn etc_directory() -> Result<PathBuf> {
    let variable = std::env::var_os("TCPTAILOR_ETC").filter(|value| !value.is_empty());
    let etc = variable.map_or_else(|| "/etc".into(), PathBuf::from);
    unit::check_plain("the directory TCPTAILOR_ETC", &etc)?;
    Ok(etc)
}

/// Asks where the file will be, or the nearest directory above that is there.
fn check_writable(path: &Path) -> Result<()> {
    let mut above = path.ancestors().skip(1);
    let Some(directory) = above.find(|path| path.exists()) else {
        return Ok(());
    };
    rustix::fs::access(directory, rustix::fs::Access::WRITE_OK).map_err(|errno| Error::Os {
        op: format!("write to {} (nothing was changed)", directory.display()),
        source: errno.into(),
    })
}

/// Refuses to let root run at every boot what others may replace.
fn check_program(program: &Path) -> Result<PathBuf> {
    let advice = "install it first, for instance as /usr/local/bin/tcptailor";
    let refuse = |reason: String| Error::Refused {
        what: format!("running {} at every boot", program.display()),
        reason,
    };
    let real = fs::canonicalize(program)
        .map_err(|error| refuse(format!("it is not there ({error}); {advice}")))?;
    unit::check_plain("the path of the program", &real)?;
    match why_open_to_others(&real)? {
        Some(why) => Err(refuse(format!("{why}, and would run as root; {advice}"))),
        None => Ok(real),
    }
}

/// The interfaces that have to be there first.
fn links_of(changes: &[Change]) -> Vec<String> {
    let mut links = Vec::new();
    for change in changes {
        if let Target::Link { name, .. } | Target::Qdisc { link: name, .. } = &change.target
            && !links.contains(name)
        {
            links.push(name.clone());
        }
    }
    links
}

/// The units of earlier transactions: what is changed by both is to be the later one's.
fn earlier_units(history: &History) -> Vec<String> {
    let files = history.entries.iter().flat_map(|entry| &entry.files);
    let in_force = files.filter(|file| !file.undone && file.presence() != FilePresence::Missing);
    in_force
        .filter(|file| matches!(file.content, FileContent::Text { .. }))
        .filter_map(|file| Some(file.path.file_name()?.to_str()?.to_owned()))
        .filter(|name| name.ends_with(".service"))
        .collect()
}

/// Text from elsewhere as a part of one line.
fn one_line(text: &str) -> String {
    let plain = |c: char| if base::is_obeyed(c) { ' ' } else { c };
    text.chars().map(plain).collect()
}

#[cfg(test)]
mod tests;
