//! Taking away what lab paths leave: on exit, on Ctrl-C, and after `kill -9` at the next start.
//!
//! TUN devices end with their descriptors and veth pairs with their namespaces, so that the names
//! of namespaces and the scratch directories of labs are all that can stay. Both are named after
//! the process that made them.

use std::fs;
use std::io;
use std::path::Path;

use crate::error::{Error, Result};
use crate::lab_netns::{self, Owner};
use crate::netns::NAMED_DIR;

/// Removes every namespace name that this process made. For the end of a program that does not
/// drop its paths, as after Ctrl-C: call it from an ordinary thread (not from a signal handler) and
/// exit. Paths that are still in use go on working.
pub fn remove_all_of_this_process() {
    lab_netns::remove_all_own();
}

/// What the name of a scratch directory of this process begins with.
///
/// # Errors
/// Where `/proc` is not readable.
pub fn scratch_prefix() -> Result<String> {
    let owner = Owner::this_process()?;
    Ok(format!("{}scratch-", owner.prefix()))
}

/// Removes the namespace names and scratch directories of lab paths whose process is gone, and
/// returns them. Call it at the start of whatever makes paths. A name that the kernel does not let
/// go (because somebody mounted over its directory) is left: it is in nobody's way.
///
/// # Errors
/// Where a leftover may not be removed; those before it are removed.
pub fn remove_leftovers() -> Result<Vec<String>> {
    let mut removed = remove_leftovers_in(Path::new(NAMED_DIR), lab_netns::remove_mount)?;
    // Those of other users stay: they are theirs to remove.
    let scratch = |path: &Path| {
        let _ = fs::remove_dir_all(path);
        Ok(())
    };
    removed.extend(remove_leftovers_in(&std::env::temp_dir(), scratch)?);
    Ok(removed)
}

fn remove_leftovers_in(
    directory: &Path,
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
        if Owner::of_name(&name).is_some_and(|owner| !owner.is_alive()) {
            match remove(&entry.path()) {
                Ok(()) => removed.push(name),
                Err(Error::Os { source, .. }) if is_held(&source) => {}
                Err(error) => return Err(error),
            }
        }
    }
    removed.sort();
    Ok(removed)
}

/// Whether something that we cannot see holds the file, such as a mount below another one.
fn is_held(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ResourceBusy
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
        let remove = lab_netns::remove_mount;
        let removed = remove_leftovers_in(directory.path(), remove);
        let can_unmount = rustix::process::geteuid().is_root();
        if !can_unmount {
            println!("skipped: unmounting needs CAP_SYS_ADMIN");
            return;
        }
        assert_eq!(removed.expect("root may remove them"), dead);
        for name in kept {
            assert!(directory.path().join(name).exists(), "{name} must stay");
        }
        let none = remove_leftovers_in(&directory.path().join("none"), remove);
        assert_eq!(none.expect("a missing directory holds nothing"), [""; 0]);
    }
}
