//! Permissions: what this process may do, and getting those of a lab path without being root.
//!
//! A lab path needs network namespaces and TUN devices. An ordinary user gets both inside a user
//! namespace, where the kernel allows it and the node `/dev/net/tun` may be opened. Not available
//! there: real-time priority, and names that `ip netns` shows.

mod probe;

use std::fs;
use std::io;
use std::path::Path;

use rustix::io::Errno;
use rustix::thread::{CapabilitySet, UnshareFlags, capabilities, unshare_unsafe};

pub use probe::{Capabilities, Fact};

use crate::error::{Error, Result};

/// Says whether Debian's kernels let ordinary users make user namespaces.
const DEBIAN_SWITCH: &str = "/proc/sys/kernel/unprivileged_userns_clone";
/// Says whether Ubuntu's AppArmor takes the capabilities in them away.
const APPARMOR_SWITCH: &str = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns";
/// Says how many user namespaces a user may have.
const LIMIT: &str = "/proc/sys/user/max_user_namespaces";

/// The user as whom this process acts (geteuid(2)).
#[must_use]
pub fn user_id() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Whether this process may make namespaces and configure networks as it is.
#[must_use]
pub fn may_make_paths() -> bool {
    let needed = CapabilitySet::SYS_ADMIN | CapabilitySet::NET_ADMIN;
    capabilities(None).is_ok_and(|sets| sets.effective.contains(needed))
}

/// Whether this process may change routes, interfaces, queues and sysctls of a network namespace.
#[must_use]
pub fn may_configure_network() -> bool {
    capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::NET_ADMIN))
}

/// Makes this process root of a user namespace of its own, in which it may make network namespaces.
/// It stays in the network namespace in which it runs and keeps its own user for everything
/// outside, such as files.
///
/// Call it at the start of `main`, before any thread is made, where [`may_make_paths`] is false and
/// a lab path is wanted. There is no way back.
///
/// # Errors
/// [`Error::Permission`] where the machine does not allow it, with what would;
/// [`Error::Unsupported`] where threads run already.
pub fn enter_user_namespace() -> Result<()> {
    let (uid, gid) = (rustix::process::getuid(), rustix::process::getgid());
    // SAFETY: no descriptor table is unshared.
    unsafe { unshare_unsafe(UnshareFlags::NEWUSER) }.map_err(explain_unshare)?;
    // user_namespaces(7): a group may be mapped without privilege only where no process of the
    // namespace can drop groups.
    write_map("setgroups", "deny")?;
    write_map("uid_map", &format!("0 {} 1", uid.as_raw()))?;
    write_map("gid_map", &format!("0 {} 1", gid.as_raw()))?;
    if may_make_paths() {
        return Ok(());
    }
    Err(denied(
        "the capabilities in a user namespace are taken away",
    ))
}

fn write_map(file: &str, text: &str) -> Result<()> {
    let path = format!("/proc/self/{file}");
    fs::write(&path, text).map_err(|source| match source.kind() {
        io::ErrorKind::PermissionDenied => denied(&format!("writing {path} is refused")),
        _ => Error::Os {
            op: format!("write {path}"),
            source,
        },
    })
}

fn explain_unshare(errno: Errno) -> Error {
    match errno {
        Errno::PERM | Errno::ACCESS | Errno::NOSPC | Errno::USERS => {
            denied("making one is refused")
        }
        // unshare(2): a process with several threads may not.
        Errno::INVAL if thread_count() > 1 => Error::Unsupported {
            what: "entering a user namespace while several threads run".into(),
            hint: "this is a defect of the program: it must come first in `main`".into(),
        },
        Errno::INVAL | Errno::NOSYS => Error::Unsupported {
            what: "a user namespace (CONFIG_USER_NS)".into(),
            hint: "run as root".into(),
        },
        _ => Error::errno("unshare the user namespace")(errno),
    }
}

fn thread_count() -> usize {
    fs::read_dir("/proc/self/task").map_or(1, Iterator::count)
}

fn denied(what: &str) -> Error {
    Error::Permission {
        what: format!("a lab path without root ({what})"),
        needs: "permission to use user namespaces",
        hint: how_to_lay_paths(),
    }
}

/// How to permit lab paths for this process.
pub(crate) fn how_to_lay_paths() -> String {
    let first = match rustix::process::geteuid().is_root() {
        // A container's root lacks what root has.
        true => "give this process CAP_SYS_ADMIN and CAP_NET_ADMIN (a container: `--privileged`)",
        false => "run as root",
    };
    format!("{first}, or {}", allow_user_namespaces())
}

/// Which switch of this machine forbids user namespaces, and how to turn it.
fn allow_user_namespaces() -> String {
    let value = |path: &str| {
        let text = fs::read_to_string(Path::new(path)).ok()?;
        text.trim().parse::<u64>().ok()
    };
    let switch = switch_for(value(DEBIAN_SWITCH), value(APPARMOR_SWITCH), value(LIMIT));
    format!("allow user namespaces {switch}")
}

fn switch_for(debian: Option<u64>, apparmor: Option<u64>, limit: Option<u64>) -> &'static str {
    match (debian, apparmor, limit) {
        (Some(0), _, _) => "with `sysctl kernel.unprivileged_userns_clone=1`",
        (_, _, Some(0)) => "with `sysctl user.max_user_namespaces=10000`",
        (_, Some(1), _) => "with `sysctl kernel.apparmor_restrict_unprivileged_userns=0`",
        _ => "where it is confined (a container, a chroot, seccomp)",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_switch_that_forbids_is_named() {
        fn check(switches: [Option<u64>; 3], expected: &str) {
            let [debian, apparmor, limit] = switches;
            let found = switch_for(debian, apparmor, limit);
            assert!(found.contains(expected), "{switches:?}: {found}");
        }
        check([Some(0), None, Some(9)], "unprivileged_userns_clone=1");
        check([Some(1), Some(1), Some(9)], "apparmor");
        check([None, None, Some(0)], "max_user_namespaces=");
        check([None, Some(1), Some(0)], "max_user_namespaces=");
        check([Some(1), Some(0), Some(9)], "container");
    }

    #[test]
    fn with_threads_it_is_refused_and_says_why() {
        // A second thread, in case the tests run on the first one.
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || ended.recv());
        let error = enter_user_namespace().expect_err("two threads");
        assert!(error.is_missing_privilege(), "{error}");
        drop(end);
        assert!(other.join().expect("no panic").is_err());
    }
}
