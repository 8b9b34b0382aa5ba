//! Removes leftovers of lab paths: on exit, on Ctrl-C, and after `kill -9` at the next start.
//!
//! TUN devices end with their descriptors and veth pairs with their namespaces, so that the names
//! of namespaces and the scratch directories of labs are all that can stay. Both are named after
//! the process that made them.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

use crate::error::{Error, Result};
use crate::lab_netns::{self, Owner};
use crate::netns::NAMED_DIR;

/// Separates the owner from the rest in the name of a scratch directory.
const SCRATCH: &str = "scratch-";

/// Says for as long as the file is open that its namespace or directory is used. A process in
/// another PID namespace, as in a container, that shares the directory of names or of temporary
/// files sees no process of our number, or another one, and would take it for a leftover.
///
/// # Errors
/// Where the kernel does not lock it.
pub fn mark_used(file: &File) -> io::Result<()> {
    Ok(flock(file, FlockOperation::NonBlockingLockShared)?)
}

/// Whether a process has marked it.
fn is_used(path: &Path) -> bool {
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW)
        .open(path);
    let lock = |file| flock(&file, FlockOperation::NonBlockingLockExclusive);
    opened
        .map(lock)
        .is_ok_and(|locked| locked == Err(rustix::io::Errno::WOULDBLOCK))
}

/// Removes every namespace name that this process made. For the end of a program that does not
/// drop its paths, as after Ctrl-C: call it from an ordinary thread (not from a signal handler) and
/// exit. Paths that are still in use go on working.
pub fn remove_all_of_this_process() {
    lab_netns::remove_all_own();
}

/// Prefix of scratch directories of this process.
///
/// # Errors
/// Where `/proc` is not readable.
pub fn scratch_prefix() -> Result<String> {
    let owner = Owner::this_process()?;
    Ok(format!("{}{SCRATCH}", owner.prefix()))
}

/// Removes the namespace names and scratch directories of lab paths whose process is gone, and
/// returns them. Call it at the start of whatever makes paths. What other users left stays: it is
/// theirs to remove. So does a name that the kernel does not release because its directory was
/// mounted over: it does no harm.
///
/// # Errors
/// Where a directory cannot be listed, or a leftover of ours cannot be removed; those before it are
/// removed.
pub fn remove_leftovers() -> Result<Vec<String>> {
    let names = |_: &str, path: &Path| !is_used(path);
    let mut removed = remove_leftovers_in(Path::new(NAMED_DIR), names, lab_netns::remove_mount)?;
    // Anybody may make directories of any name there.
    let temporary = std::env::temp_dir();
    let is_left = |name: &str, path: &Path| is_own_scratch(name, path) && !is_used(path);
    removed.extend(remove_leftovers_in(&temporary, is_left, |path| {
        fs::remove_dir_all(path).map_err(Error::os(format!("remove {}", path.display())))
    })?);
    Ok(removed)
}

/// Whether a leftover in a directory that all users share is a scratch directory and ours: a real
/// directory of our own, which no other user can substitute.
fn is_own_scratch(name: &str, path: &Path) -> bool {
    let is_scratch = name
        .splitn(4, '-')
        .nth(3)
        .is_some_and(|rest| rest.starts_with(SCRATCH));
    let own = rustix::process::geteuid().as_raw();
    // Of a link itself, not of what it leads to.
    is_scratch && fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir() && meta.uid() == own)
}

fn remove_leftovers_in(
    directory: &Path,
    is_ours: impl Fn(&str, &Path) -> bool,
    remove: impl Fn(&Path) -> Result<()>,
) -> Result<Vec<String>> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => {
            return Err(Error::Os {
                op: format!("list {}", directory.display()),
                source,
            });
        }
    };
    let mut removed = Vec::new();
    for entry in entries.flatten() {
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        let is_left = Owner::of_name(&name).is_some_and(|owner| !owner.is_alive());
        if !is_left || !is_ours(&name, &entry.path()) {
            continue;
        }
        match remove(&entry.path()) {
            Ok(()) => removed.push(name),
            // Another user's: root's namespaces must not keep others from making theirs.
            Err(error) if error.is_missing_privilege() => {}
            Err(error) => return Err(error),
        }
    }
    removed.sort();
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_ended_processes_go() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        // Process 1 runs, but it did not start at tick 3; nothing has the largest process id.
        let dead = ["tcptailor-1-3-0-a", "tcptailor-4194305-1-0-b"];
        let kept = ["tcptailor", "tcptailor-1", "blue", "tcptailor-4194305-1"];
        for name in dead.iter().chain(&kept) {
            fs::write(directory.path().join(name), "").expect("a file");
        }
        let all = |_: &str, _: &Path| true;
        let remove = lab_netns::remove_mount;
        let removed = remove_leftovers_in(directory.path(), all, remove).expect("no failure");
        if removed.is_empty() {
            // What we may not unmount is left to a user who may.
            return crate::asking::skip("unmounting needs CAP_SYS_ADMIN");
        }
        assert_eq!(removed, dead);
        for name in kept {
            assert!(directory.path().join(name).exists(), "{name} must stay");
        }
        let none = remove_leftovers_in(&directory.path().join("none"), all, remove);
        assert_eq!(none.expect("a missing directory holds nothing"), [""; 0]);
    }

    /// As in a container with its own process numbers and the directory of another one.
    #[test]
    fn what_a_process_uses_that_is_not_seen_here_stays() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("tcptailor-4194305-1-0-a");
        fs::create_dir(&path).expect("a directory");
        let used = File::open(&path).expect("it is there");
        mark_used(&used).expect("no other process has it");
        let remove = |path: &Path| fs::remove_dir(path).map_err(Error::os("remove"));
        let cleanup = || {
            let is_ours = |_: &str, path: &Path| !is_used(path);
            remove_leftovers_in(directory.path(), is_ours, remove).expect("no failure")
        };
        assert_eq!(cleanup(), [""; 0]);
        drop(used);
        assert_eq!(cleanup(), ["tcptailor-4194305-1-0-a"]);
    }

    #[test]
    fn what_another_user_left_stops_nobody() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        for name in ["tcptailor-4194305-1-0-a", "tcptailor-4194305-1-1-a"] {
            fs::write(directory.path().join(name), "").expect("a file");
        }
        let remove = |path: &Path| match path.to_str() {
            Some(name) if name.ends_with("0-a") => Err(Error::Os {
                op: "unmount".into(),
                source: io::Error::from_raw_os_error(libc::EPERM),
            }),
            _ => Ok(()),
        };
        let removed = remove_leftovers_in(directory.path(), |_, _| true, remove);
        assert_eq!(removed.expect("no failure"), ["tcptailor-4194305-1-1-a"]);
    }

    #[test]
    fn only_our_own_real_scratch_directories_go() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let at = |name: &str| directory.path().join(name);
        let (ours, link, file, other, foreign) = (
            "tcptailor-4194305-1-scratch-x",
            "tcptailor-4194305-1-scratch-link",
            "tcptailor-4194305-1-scratch-file",
            "tcptailor-4194305-1-results",
            "tcptailor-4194305-1-scratch-foreign",
        );
        for name in [ours, other, foreign, "precious"] {
            fs::create_dir(at(name)).expect("a directory");
            fs::write(at(name).join("file"), "").expect("a file");
        }
        std::os::unix::fs::symlink(at("precious"), at(link)).expect("a link");
        fs::write(at(file), "").expect("a file");
        let somebody = rustix::process::geteuid().as_raw() + 1;
        let given = std::os::unix::fs::chown(at(foreign), Some(somebody), None);
        let given = crate::asking::may("giving a directory away", given).is_some();
        let check =
            |name, expected| assert_eq!(is_own_scratch(name, &at(name)), expected, "{name}");
        check(ours, true);
        check(link, false);
        check(file, false);
        check(other, false);
        check(foreign, !given);
    }
}
