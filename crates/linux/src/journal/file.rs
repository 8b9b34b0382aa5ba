//! Transaction files: lines of JSON that each carry a checksum, and what a crash does to them.
//!
//! A line is appended with one `write` and followed by `fsync`, so a crash can only cut the last
//! one. A cut line was never followed by the write that it announces. Anything else that does not
//! read is damage, which is reported and never repaired.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::FallocateFlags;

use super::record::{Record, Status, Story};
use crate::error::{Error, Result};

/// Where the transactions lie in the journal's directory.
pub(super) const SUBDIRECTORY: &str = "txn";
/// Disk space that is taken before an intent is written, so that its outcome finds room: several
/// times the longest line, which holds a route.
const RESERVE_BYTES: u64 = 16 << 10;

/// A file that lines are appended to.
pub(super) struct TransactionFile {
    path: PathBuf,
    file: File,
    length: u64,
}

impl TransactionFile {
    /// Makes the file of a new transaction, durably.
    pub(super) fn create(directory: &Path, id: u64) -> Result<Self> {
        let path = path_of(directory, id);
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .map_err(|source| nothing_changed(&path, source))?;
        sync_directory(&directory.join(SUBDIRECTORY))?;
        Ok(Self {
            path,
            file,
            length: 0,
        })
    }

    /// Opens the file of an earlier transaction to append to it. What a crash has left of a cut
    /// line is taken off, so that the next line begins at the beginning of a line.
    pub(super) fn reopen(directory: &Path, id: u64) -> Result<Self> {
        let path = path_of(directory, id);
        let fail = |source| Error::Os {
            op: format!("open {}", path.display()),
            source,
        };
        let whole = whole_lines(&fs::read(&path).map_err(fail)?) as u64;
        let file = OpenOptions::new().append(true).open(&path).map_err(fail)?;
        file.set_len(whole).map_err(fail)?;
        Ok(Self {
            path,
            file,
            length: whole,
        })
    }

    /// Appends a line. Where that fails, nothing of it stays.
    pub(super) fn write(&mut self, record: &Record) -> Result<()> {
        let line = line_of(record);
        if matches!(record, Record::Begin { .. } | Record::Intent { .. }) {
            self.reserve(line.len() as u64 + RESERVE_BYTES)
                .map_err(|source| nothing_changed(&self.path, source))?;
        }
        if let Err(source) = self.file.write_all(line.as_bytes()) {
            // If even this fails, reading takes the rest for a cut line.
            self.file.set_len(self.length).ok();
            return Err(nothing_changed(&self.path, source));
        }
        self.length += line.len() as u64;
        Ok(())
    }

    /// Returns once the lines are on the disk.
    pub(super) fn sync(&self) -> Result<()> {
        self.file
            .sync_data()
            .map_err(|source| nothing_changed(&self.path, source))
    }

    /// Deletes the file of a transaction that could not begin. One that stays is empty, and counts
    /// for nothing.
    pub(super) fn discard(self) {
        fs::remove_file(&self.path).ok();
    }

    fn reserve(&self, bytes: u64) -> io::Result<()> {
        match rustix::fs::fallocate(&self.file, FallocateFlags::KEEP_SIZE, self.length, bytes) {
            // Some file systems cannot; then a full disk is found by the write itself.
            Ok(()) | Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

impl Drop for TransactionFile {
    fn drop(&mut self) {
        // Gives back what was reserved and not used.
        self.file.set_len(self.length).ok();
    }
}

/// Makes the directory of a journal, which only its owner may look into, durably. One that is there
/// must not be open to others: whoever writes a transaction there says what is to be "undone".
pub(super) fn make_directory(directory: &Path) -> Result<()> {
    let transactions = directory.join(SUBDIRECTORY);
    if transactions.is_dir() {
        check_owner(directory)?;
        return check_owner(&transactions);
    }
    let made = fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(transactions);
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
    check_owner(directory)?;
    sync_directory(directory)?;
    directory.parent().map_or(Ok(()), sync_directory)
}

/// Refuses a directory in which others than this user and root may make files.
fn check_owner(directory: &Path) -> Result<()> {
    const OTHERS_WRITE: u32 = 0o002;
    let meta =
        fs::metadata(directory).map_err(Error::os(format!("look at {}", directory.display())))?;
    let own = rustix::process::geteuid().as_raw();
    let why = if meta.uid() != own && meta.uid() != 0 {
        "it belongs to another user"
    } else if meta.mode() & OTHERS_WRITE != 0 {
        "everybody may write to it"
    } else {
        return Ok(());
    };
    Err(Error::Refused {
        what: format!("a journal in {}", directory.display()),
        reason: format!(
            "{why}, who could have settings changed by it; set TCPTAILOR_STATE to a directory of \
             your own"
        ),
    })
}

fn sync_directory(directory: &Path) -> Result<()> {
    // The parent of a relative path of one part is the empty path.
    let directory = if directory.as_os_str().is_empty() {
        Path::new(".")
    } else {
        directory
    };
    File::open(directory)
        .and_then(|directory| directory.sync_all())
        .map_err(Error::os(format!("fsync of {}", directory.display())))
}

/// The numbers of all transactions, rising.
pub(super) fn ids(directory: &Path) -> Result<Vec<u64>> {
    let directory = directory.join(SUBDIRECTORY);
    let entries = fs::read_dir(&directory).map_err(Error::os(format!(
        "list the journal {}",
        directory.display()
    )))?;
    let mut ids: Vec<u64> = entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name();
            name.to_str()?.strip_suffix(".jsonl")?.parse().ok()
        })
        .collect();
    ids.sort_unstable();
    Ok(ids)
}

/// Reads a transaction. A cut last line does not count.
pub(super) fn load(directory: &Path, id: u64) -> Result<Story> {
    let path = path_of(directory, id);
    let bytes = fs::read(&path).map_err(Error::os(format!("read {}", path.display())))?;
    let damaged = |line: usize, what: &str| Error::File {
        path: path.clone(),
        what: format!(
            "line {line} {what}, so nobody knows what was changed; look at the file, undo by hand \
             what it names, and move it away"
        ),
    };
    let mut story = Story::new(id);
    let whole = &bytes[..whole_lines(&bytes)];
    for (at, line) in whole.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let record = record_in(line).ok_or_else(|| damaged(at + 1, "is damaged"))?;
        if !story.tell(record) {
            return Err(damaged(at + 1, "does not follow from those before it"));
        }
    }
    Ok(story)
}

/// Deletes the oldest finished transactions beyond `keep`. Failing to is no harm.
pub(super) fn prune(directory: &Path, stories: &[Story], keep: usize) {
    let finished: Vec<&Story> = stories
        .iter()
        .filter(|story| story.status() != Status::Pending)
        .collect();
    for story in &finished[..finished.len().saturating_sub(keep)] {
        fs::remove_file(path_of(directory, story.id)).ok();
    }
}

fn path_of(directory: &Path, id: u64) -> PathBuf {
    directory.join(SUBDIRECTORY).join(format!("{id:06}.jsonl"))
}

fn nothing_changed(path: &Path, source: io::Error) -> Error {
    Error::Os {
        op: format!(
            "write the journal {} (without it nothing is changed; make room on that file system \
             and try again)",
            path.display()
        ),
        source,
    }
}

/// Bytes up to the end of the last line that ends.
fn whole_lines(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |end| end + 1)
}

/// A record as a line: JSON whose last member is the checksum of everything before it.
fn line_of(record: &Record) -> String {
    let json = serde_json::to_string(record).expect("records are maps with text keys");
    let body = json.strip_suffix('}').expect("a record is a JSON object");
    format!(
        "{body},\"sum\":\"{:08x}\"}}\n",
        crc32fast::hash(body.as_bytes())
    )
}

/// The record in a line, where its checksum is right.
fn record_in(line: &[u8]) -> Option<Record> {
    let line = std::str::from_utf8(line).ok()?.strip_suffix("\"}\n")?;
    let (body, sum) = line.rsplit_once(",\"sum\":\"")?;
    if sum != format!("{:08x}", crc32fast::hash(body.as_bytes())) {
        return None;
    }
    serde_json::from_str(&format!("{body}}}")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_common_one() {
        assert_eq!(crc32fast::hash(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn a_directory_that_is_open_to_others_is_refused() {
        use std::os::unix::fs::{PermissionsExt, chown};
        let parent = tempfile::tempdir().unwrap();
        let check = |name: &str, prepare: &dyn Fn(&Path), expected: &str| {
            let directory = parent.path().join(name);
            fs::create_dir_all(directory.join(SUBDIRECTORY)).unwrap();
            prepare(&directory);
            let shown = make_directory(&directory).map_or_else(|e| e.to_string(), |()| "ok".into());
            assert!(shown.contains(expected), "{name}: {shown}");
        };
        let open_up = |directory: &Path| {
            fs::set_permissions(directory, fs::Permissions::from_mode(0o777)).unwrap();
        };
        check("own", &|_| (), "ok");
        check("open", &open_up, "everybody may write");
        check(
            "open-below",
            &|d| open_up(&d.join(SUBDIRECTORY)),
            "everybody may write",
        );
        let somebody = rustix::process::geteuid().as_raw() + 1;
        let given = chown(parent.path().join("own"), Some(somebody), None);
        if crate::asking::may("giving a directory away", given).is_some() {
            let give = |d: &Path| chown(d, Some(somebody), None).unwrap();
            check("foreign", &give, "another user");
        }
        // Not there yet, in a directory that is open to others.
        let open = parent.path().join("shared");
        fs::create_dir(&open).unwrap();
        open_up(&open);
        assert!(make_directory(&open).is_err());
        assert!(make_directory(&open.join("ours")).is_ok());
    }

    #[test]
    fn a_changed_letter_is_noticed() {
        let record = Record::Verified {
            better: true,
            note: "44 ms, then 0.1 ms, \"sum\":\"0\"".into(),
        };
        let line = line_of(&record);
        assert_eq!(record_in(line.as_bytes()), Some(record));
        for at in 0..line.len() {
            let mut changed = line.clone().into_bytes();
            changed[at] ^= 1;
            assert_eq!(record_in(&changed), None, "byte {at}");
        }
    }
}
