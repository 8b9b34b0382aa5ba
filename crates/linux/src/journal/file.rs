//! Transaction files: lines of JSON that each carry a checksum, and what a crash does to them.
//!
//! A line is appended with one `write` and followed by `fsync`, so a crash can only cut the last
//! one. A cut line was never followed by the write that it announces. Anything else that does not
//! read is damage: the lines beside it still count, and a foreign file costs only itself.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::FallocateFlags;

use super::directory;
use super::entry::Entry;
use super::record::Record;
use crate::error::{Error, Result};
use crate::regular_file::{self, Refused};

/// Directory of transactions within the journal's.
pub(super) const SUBDIRECTORY: &str = "txn";
/// Disk space that is taken before an intent is written, so that its outcome finds room: several
/// times the longest line, which holds a route.
const RESERVE_BYTES: u64 = 16 << 10;
/// The longest file that is read: several times what a plan of the longest can make.
const BYTES_MAX: u64 = 16 << 20;
/// Numbers of transactions have no more digits than fit the names of a thousand years.
const ID_MAX: u64 = 999_999_999;

/// A file that lines are appended to.
pub(super) struct TransactionFile {
    path: PathBuf,
    file: File,
    length: u64,
}

impl TransactionFile {
    /// Makes the file of a new transaction, durably.
    pub(super) fn create(journal: &Path, id: u64) -> Result<Self> {
        let path = path_of(journal, id);
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .map_err(|source| nothing_changed(&path, source))?;
        directory::sync(&journal.join(SUBDIRECTORY))?;
        Ok(Self {
            path,
            file,
            length: 0,
        })
    }

    /// Opens the file of an earlier transaction to append to it. What a crash has left of a cut
    /// line is taken off, so that the next line begins at the beginning of a line.
    pub(super) fn reopen(journal: &Path, id: u64) -> Result<Self> {
        let path = path_of(journal, id);
        let fail = |source| Error::Os {
            op: format!("open {}", path.display()),
            source,
        };
        let bytes = read_trusted(&path).map_err(|refused| Error::File {
            path: path.clone(),
            what: refused.why,
        })?;
        let whole = whole_lines(&bytes) as u64;
        let file = OpenOptions::new().append(true).open(&path).map_err(fail)?;
        if whole < bytes.len() as u64 {
            file.set_len(whole).map_err(fail)?;
        }
        Ok(Self {
            path,
            file,
            length: whole,
        })
    }

    /// Appends a line. Where that fails, nothing of it stays.
    pub(super) fn write(&mut self, record: &Record) -> Result<()> {
        let line = line_of(record);
        if record.is_announcement() {
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

/// The name of a transaction's file.
pub(super) fn path_of(journal: &Path, id: u64) -> PathBuf {
    journal.join(SUBDIRECTORY).join(name_of(id))
}

pub(super) fn name_of(id: u64) -> String {
    format!("{id:06}.jsonl")
}

/// The number in the name of a transaction's file, where it is the name that the number has.
pub(super) fn id_of(name: &str) -> Option<u64> {
    let id = name.strip_suffix(".jsonl")?.parse().ok()?;
    ((1..=ID_MAX).contains(&id) && name_of(id) == name).then_some(id)
}

/// Reads a transaction. A cut last line does not count, and damaged ones only by the remark that
/// there are some.
///
/// # Errors
/// Why it cannot be used at all.
pub(super) fn load(path: &Path, id: u64) -> Result<Entry, Refused> {
    let bytes = read_trusted(path)?;
    let mut entry = Entry::new(id);
    let whole = &bytes[..whole_lines(&bytes)];
    for (at, line) in whole.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let line_number = at + 1;
        let record = record_in(line);
        let what = if record.is_none() {
            "is damaged"
        } else {
            "does not follow from those before it"
        };
        let is_taken = record.is_some_and(|record| entry.take(record));
        if !is_taken && !entry.has_begun() {
            return Err(Refused::for_good(format!("line {line_number} {what}")));
        }
        if !is_taken && entry.damage.is_none() {
            entry.damage = Some(format!("line {line_number} of its file {what}"));
        }
    }
    Ok(entry)
}

/// The bytes of an ordinary file of ours: never waits for another program, never follows a link,
/// never reads more than a journal has.
fn read_trusted(path: &Path) -> Result<Vec<u8>, Refused> {
    let (file, meta) = regular_file::open(path, false)?;
    match directory::why_not_trusted(&meta) {
        Some(why) => Err(Refused::for_good(why)),
        None => regular_file::read(file, &meta, BYTES_MAX),
    }
}

/// Renames what cannot be used, so that it is looked at by people only. A read-only disk keeps its
/// name.
pub(super) fn set_aside(path: &Path) {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    for number in 1..1000 {
        let aside = path.with_file_name(format!("{name}.damaged-{number}"));
        // RENAME_NOREPLACE: what was set aside before stays.
        let renamed = rustix::fs::renameat_with(
            rustix::fs::CWD,
            path,
            rustix::fs::CWD,
            &aside,
            rustix::fs::RenameFlags::NOREPLACE,
        );
        if renamed != Err(rustix::io::Errno::EXIST) {
            return;
        }
    }
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
