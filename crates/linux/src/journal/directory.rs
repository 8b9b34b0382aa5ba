//! The journal's directory: made for its owner alone, and refused where others could write to it.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::file::SUBDIRECTORY;
use crate::error::{Error, Result};

const GROUP_OR_OTHERS_WRITE: u32 = 0o022;
/// In such a directory a file can be renamed and removed by its owner alone (inode(7)).
const STICKY: u32 = 0o1000;

/// Makes the directory of a journal, which only its owner may look into, durably. One that is there
/// must not be open to others: a transaction there says what is to be "undone".
pub(super) fn make(directory: &Path) -> Result<()> {
    let transactions = directory.join(SUBDIRECTORY);
    if transactions.is_dir() {
        return check(directory);
    }
    let made = fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&transactions);
    made.map_err(|source| match source.kind() {
        io::ErrorKind::PermissionDenied => Error::Permission {
            what: format!("the journal in {}", directory.display()),
            needs: "a directory that this user may write to",
            hint: "run as root, or set TCPTAILOR_STATE".into(),
        },
        _ => Error::Os {
            op: format!(
                "make the journal's directory {} (TCPTAILOR_STATE names another one)",
                directory.display()
            ),
            source,
        },
    })?;
    check(directory)?;
    sync(directory)?;
    directory.parent().map_or(Ok(()), sync)
}

/// Refuses a journal that others than this user and root could write to, by the rules by which
/// sshd(8) trusts its files (`StrictModes`): it and every directory above it belong to this user or
/// to root, and neither group nor others may write to them. Above it, a directory with the sticky
/// bit, as `/tmp` has it, will do.
pub(super) fn check(directory: &Path) -> Result<()> {
    let real = fs::canonicalize(directory)
        .map_err(Error::os(format!("look at {}", directory.display())))?;
    match why_not_alone(&[real.join(SUBDIRECTORY), real.clone()], &real)? {
        None => Ok(()),
        Some(why) => Err(Error::Refused {
            what: format!("no journal can be kept in {}", directory.display()),
            reason: format!(
                "{why}, so that others could have settings changed by it; `chmod go-w` or `chown` \
                 it, or set TCPTAILOR_STATE to a directory of your own"
            ),
        }),
    }
}

/// Explains which users besides this one and root could write to a file or replace it, by the same
/// rules.
pub(crate) fn why_open_to_others(file: &Path) -> Result<Option<String>> {
    why_not_alone(&[file.to_owned()], file)
}

/// Explains which other users could write to one of `own`, or to a directory above `path`.
fn why_not_alone(own: &[PathBuf], path: &Path) -> Result<Option<String>> {
    let above = path.ancestors().skip(1).map(Path::to_path_buf);
    for path in own.iter().cloned().chain(above) {
        let meta = fs::metadata(&path).map_err(Error::os(format!("look at {}", path.display())))?;
        let is_above = !own.contains(&path);
        if !(is_trusted(meta.uid()) || is_above && is_outside_user_namespace(meta.uid())) {
            return Ok(Some(format!("user {} owns {}", meta.uid(), path.display())));
        }
        let is_shared = is_above && meta.mode() & STICKY != 0;
        if meta.mode() & GROUP_OR_OTHERS_WRITE != 0 && !is_shared {
            let who = match meta.mode() & 0o002 {
                0 => format!("group {}", meta.gid()),
                _ => "every user".into(),
            };
            return Ok(Some(format!("{who} may write to {}", path.display())));
        }
    }
    Ok(None)
}

/// Why a file of the journal cannot be believed, by the same rules.
pub(super) fn why_not_trusted(meta: &Metadata) -> Option<String> {
    if !is_trusted(meta.uid()) {
        return Some(format!("it belongs to user {}", meta.uid()));
    }
    (meta.mode() & GROUP_OR_OTHERS_WRITE != 0).then(|| "others may write to it".into())
}

fn is_trusted(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw()
}

/// In a user namespace, what belongs to root outside seems to belong to the user of
/// `/proc/sys/kernel/overflowuid`, as does what belongs to other users; the two look the same, and
/// only the path above a directory that is our own is looked at so.
fn is_outside_user_namespace(uid: u32) -> bool {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    // user_namespaces(7): the first namespace maps all numbers to themselves.
    let map = read("/proc/self/uid_map");
    let is_first = map.split_whitespace().eq(["0", "0", "4294967295"]);
    !is_first && read("/proc/sys/kernel/overflowuid").trim() == uid.to_string()
}

/// Waits until the names in a directory are on the disk.
pub(super) fn sync(directory: &Path) -> Result<()> {
    // The parent of a relative path of one part is the empty path.
    let directory: PathBuf = if directory.as_os_str().is_empty() {
        ".".into()
    } else {
        directory.into()
    };
    File::open(&directory)
        .and_then(|directory| directory.sync_all())
        .map_err(Error::os(format!("fsync of {}", directory.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_open_to_others_is_refused() {
        use std::os::unix::fs::{PermissionsExt, chown};
        let parent = tempfile::tempdir().unwrap();
        let check = |name: &str, prepare: &dyn Fn(&Path), expected: &str| {
            let directory = parent.path().join(name);
            fs::create_dir_all(directory.join(SUBDIRECTORY)).unwrap();
            for path in [&directory, &directory.join(SUBDIRECTORY)] {
                fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
            }
            prepare(&directory);
            let shown = make(&directory).map_or_else(|e| e.to_string(), |()| "ok".into());
            assert!(shown.contains(expected), "{name}: {shown}");
        };
        let mode = |directory: &Path, mode: u32| {
            fs::set_permissions(directory, fs::Permissions::from_mode(mode)).unwrap();
        };
        check("own", &|_| (), "ok");
        check("open", &|d| mode(d, 0o777), "every user may write to");
        check("sticky", &|d| mode(d, 0o1777), "every user may write to");
        check("group", &|d| mode(d, 0o770), "may write to");
        let below = |d: &Path| mode(&d.join(SUBDIRECTORY), 0o770);
        check("group-below", &below, "group-below/txn");
        // Directories above count as well, unless no other user can rename what is there.
        let open_above = |d: &Path| mode(d.parent().unwrap(), 0o770);
        fs::create_dir(parent.path().join("above")).unwrap();
        check("above/it", &open_above, "above, so that");
        fs::create_dir(parent.path().join("shared")).unwrap();
        let shared_above = |d: &Path| mode(d.parent().unwrap(), 0o1777);
        check("shared/it", &shared_above, "ok");
        let somebody = rustix::process::geteuid().as_raw() + 1;
        let given = chown(parent.path().join("own"), Some(somebody), None);
        if crate::asking::may("giving a directory away", given).is_some() {
            let give = |d: &Path| chown(d, Some(somebody), None).unwrap();
            check("foreign", &give, "owns");
            let give_above = |d: &Path| chown(d.parent().unwrap(), Some(somebody), None).unwrap();
            fs::create_dir(parent.path().join("theirs")).unwrap();
            check("theirs/it", &give_above, "owns");
        }
    }
}
