//! Network namespaces that a lab path makes, and their names.
//!
//! A name says whose it is: `tcptailor-PID-START-N-SIDE`, where START is the start time of the
//! process in clock ticks since boot. So a later start can tell what a killed process left behind,
//! even when its process id is in use again (see [`crate::cleanup`]).
//!
//! A name is a bind mount in [`NAMED_DIR`], which `ip netns` lists. Where mounting is not allowed
//! (in a user namespace) only this process knows the name, and the namespace ends with it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use base::Netns;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::mount::{
    MountPropagationFlags, UnmountFlags, mount_bind, mount_bind_recursive, mount_change, unmount,
};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use crate::error::{Error, Result};
use crate::netns::{NAMED_DIR, NetnsHandle};
use crate::process::process_start_ticks;

/// Prefix of all names.
pub(crate) const PREFIX: &str = "tcptailor-";

/// The namespaces of this process: what a name stands for, and where it is mounted.
static OWN: Mutex<BTreeMap<String, Own>> = Mutex::new(BTreeMap::new());

struct Own {
    file: File,
    mounted: Option<PathBuf>,
}

/// A network namespace of our own with a name. Dropping it removes the name; the namespace ends
/// when it is no longer used.
#[derive(Debug)]
pub struct LabNetns {
    name: String,
    handle: NetnsHandle,
}

impl LabNetns {
    /// Makes one namespace for each of `sides`, with names that differ in the side only.
    ///
    /// # Errors
    /// [`Error::Permission`] without `CAP_SYS_ADMIN`.
    pub fn create<const N: usize>(sides: [&str; N]) -> Result<[Self; N]> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let owner = Owner::this_process()?;
        let mut made = Vec::with_capacity(N);
        for side in sides {
            made.push(Self::create_named(format!(
                "{}{number}-{side}",
                owner.prefix()
            ))?);
        }
        Ok(made.try_into().expect("one namespace was made per side"))
    }

    fn create_named(name: String) -> Result<Self> {
        let (file, mounted) = std::thread::scope(|scope| {
            std::thread::Builder::new()
                .spawn_scoped(scope, || enter_new(&name))
                .map_err(Error::os("start a thread"))?
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })?;
        let handle = file.try_clone();
        // First, so that the name is taken away whatever happens next.
        own().insert(name.clone(), Own { file, mounted });
        let handle = handle.map_err(|source| {
            remove_own(&name);
            Error::os("dup of a namespace")(source)
        })?;
        Ok(Self {
            handle: NetnsHandle::from_file(Netns::Named(name.clone()), handle),
            name,
        })
    }

    /// The handle by which everything else enters it.
    #[must_use]
    pub const fn handle(&self) -> &NetnsHandle {
        &self.handle
    }

    /// The name, as `ip netns` shows it when it is mounted.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether `ip netns` shows it.
    #[must_use]
    pub fn is_mounted(&self) -> bool {
        own()
            .get(&self.name)
            .is_some_and(|own| own.mounted.is_some())
    }
}

impl Drop for LabNetns {
    fn drop(&mut self) {
        remove_own(&self.name);
    }
}

/// Removes the name of a namespace that this process made.
fn remove_own(name: &str) {
    let found = own().remove(name);
    if let Some(path) = found.and_then(|own| own.mounted) {
        // A failure leaves a name that the next start removes.
        let _ = remove_mount(&path);
    }
}

/// A namespace of this process by its name, for those that are mounted nowhere.
pub(crate) fn find_own(name: &str) -> Option<File> {
    own().get(name).and_then(|own| own.file.try_clone().ok())
}

/// Removes the names of all namespaces that this process made.
pub(crate) fn remove_all_own() {
    for own in std::mem::take(&mut *own()).into_values() {
        if let Some(path) = own.mounted {
            let _ = remove_mount(&path);
        }
    }
}

/// Takes a name away: first the mount, then the file under it.
pub(crate) fn remove_mount(path: &Path) -> Result<()> {
    match unmount(path, UnmountFlags::DETACH) {
        // A process killed between making the file and mounting on it left only a file.
        Ok(()) | Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT) => {}
        Err(errno) => return Err(Error::errno(format!("unmount {}", path.display()))(errno)),
    }
    match fs::remove_file(path) {
        // The first `ip netns add` of a machine mounts the directory over itself; an older mount
        // lies hidden below and keeps the file, which does no harm.
        Err(source)
            if !matches!(
                source.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::ResourceBusy
            ) =>
        {
            Err(Error::Os {
                op: format!("remove {}", path.display()),
                source,
            })
        }
        _ => Ok(()),
    }
}

/// The process that a namespace belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pid: u32,
    /// Start time in clock ticks since boot, which tells processes with one id apart.
    start: u64,
}

impl Owner {
    /// Owner identity of this process.
    ///
    /// # Errors
    /// Where `/proc` is not readable.
    pub(crate) fn this_process() -> Result<Self> {
        let pid = std::process::id();
        let start = process_start_ticks(pid).ok_or_else(|| Error::File {
            path: PathBuf::from("/proc/self/stat"),
            what: "cannot be read; mount /proc (`mount -t proc proc /proc`)".into(),
        })?;
        Ok(Self { pid, start })
    }

    /// Prefix of names of its objects.
    pub(crate) fn prefix(self) -> String {
        format!("{PREFIX}{}-{}-", self.pid, self.start)
    }

    /// Reads it from the name of a namespace; `None` where the name is not one of ours.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        let mut parts = name.strip_prefix(PREFIX)?.splitn(3, '-');
        let pid = parts.next()?.parse().ok()?;
        let start = parts.next()?.parse().ok()?;
        parts.next()?;
        Some(Self { pid, start })
    }

    /// Whether that process still runs.
    pub(crate) fn is_alive(self) -> bool {
        process_start_ticks(self.pid) == Some(self.start)
    }
}

/// On a thread of its own: makes a namespace, and mounts it where that is allowed.
fn enter_new(name: &str) -> Result<(File, Option<PathBuf>)> {
    // SAFETY: only the network namespace is unshared, no descriptor table.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.map_err(|errno| match errno {
        rustix::io::Errno::PERM => Error::Permission {
            what: "making a network namespace".into(),
            needs: "CAP_SYS_ADMIN",
            hint: crate::privilege::how_to_lay_paths(),
        },
        rustix::io::Errno::NOSPC => Error::Permission {
            what: "making one more network namespace".into(),
            needs: "a higher limit",
            hint: "`sysctl user.max_net_namespaces` says how many a user may have".into(),
        },
        _ => Error::errno("unshare the network namespace")(errno),
    })?;
    let source = "/proc/thread-self/ns/net";
    let file = File::open(source).map_err(Error::os(format!("open {source}")))?;
    // Where that fails our number tells, to all that see it.
    let _ = crate::cleanup::mark_used(&file);
    let path = Path::new(NAMED_DIR).join(name);
    let mounted = mount_named(source, &path).is_ok();
    if !mounted {
        // Without a mount the name is known to this process only, which is enough for everything
        // but other people's `ip netns`.
        let _ = fs::remove_file(&path);
    }
    Ok((file, mounted.then_some(path)))
}

fn mount_named(source: &str, path: &Path) -> io::Result<()> {
    share_named_dir()?;
    File::create_new(path)?;
    Ok(mount_bind(source, path)?)
}

/// Makes [`NAMED_DIR`] a shared mount, as `ip netns add` does before its first name. If we left
/// that to `ip`, it would lay a second mount over the names that we have by then, and they could
/// not be removed any more.
fn share_named_dir() -> io::Result<()> {
    fs::create_dir_all(NAMED_DIR)?;
    // `ip` takes this lock too: two that find no mount at once would stack theirs.
    let directory = File::open(NAMED_DIR)?;
    flock(&directory, FlockOperation::LockExclusive)?;
    match mount_change(
        NAMED_DIR,
        MountPropagationFlags::SHARED | MountPropagationFlags::REC,
    ) {
        Err(Errno::INVAL) => {}
        done => return Ok(done?),
    }
    mount_bind_recursive(NAMED_DIR, NAMED_DIR)?;
    Ok(mount_change(
        NAMED_DIR,
        MountPropagationFlags::SHARED | MountPropagationFlags::REC,
    )?)
}

fn own() -> MutexGuard<'static, BTreeMap<String, Own>> {
    OWN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_whose_they_are() {
        fn check(name: &str, expected: Option<(u32, u64)>) {
            let found = Owner::of_name(name).map(|owner| (owner.pid, owner.start));
            assert_eq!(found, expected, "{name}");
        }
        check("tcptailor-17-900-0-a", Some((17, 900)));
        check("tcptailor-17-900-12-b", Some((17, 900)));
        check("tcptailor-17-900", None);
        check("tcptailor-x-900-0-a", None);
        check("tcptailor-99999999999-900-0-a", None);
        check("other-17-900-0-a", None);
    }

    #[test]
    fn this_process_is_alive_and_one_with_another_start_is_not() {
        let owner = Owner::this_process().expect("/proc is mounted");
        assert!(owner.is_alive());
        let reused = Owner {
            start: owner.start + 1,
            ..owner
        };
        assert!(!reused.is_alive());
    }
}
