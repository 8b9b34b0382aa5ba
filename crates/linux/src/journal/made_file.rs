//! Files that a transaction makes, so that a change outlives the running of the machine: each is
//! there whole or not at all, and is removed as long as it is what was written.
//!
//! Nothing that is there is ever overwritten, and a symbolic link is never followed to its target.

use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde::{Deserialize, Serialize};

use super::directory;
use crate::error::{Error, Result};

/// All users may read the machine's settings.
const FILE_MODE: u32 = 0o644;
const DIRECTORY_MODE: u32 = 0o755;

/// Contents of a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum FileContent {
    /// A file of this text.
    Text {
        /// All of it.
        text: String,
    },
    /// A symbolic link.
    Link {
        /// Destination of a link.
        to: PathBuf,
    },
    /// A directory. It may be there already, made by an earlier transaction; it goes with the last
    /// file in it.
    Directory,
}

/// A file of a transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MadeFile {
    /// Its position among the files of the transaction, from 0.
    pub number: usize,
    /// Path of the file.
    pub path: PathBuf,
    /// Contents written.
    #[serde(skip)]
    pub content: FileContent,
    /// Whether it is known to have been written.
    pub written: bool,
    /// Whether it was removed, or left alone when it was to be removed.
    pub undone: bool,
}

/// How a file stands now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilePresence {
    /// Unchanged since it was written.
    AsWritten,
    /// Missing.
    Missing,
    /// It was changed or replaced since.
    Changed,
    /// Cannot be inspected.
    Unknown {
        /// Why.
        error: String,
    },
}

/// A file and what became of removing it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovedFile {
    /// Path of the file.
    pub path: PathBuf,
    /// Result of the removal.
    pub how: Removal,
}

/// Result of removing a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removal {
    /// Removed.
    Removed,
    /// Missing already: never created, or removed by others.
    WasMissing,
    /// It was changed since, and left alone.
    LeftAlone,
    /// A directory that holds other files.
    StillUsed,
    /// Could not be removed; the next attempt may succeed.
    Failed {
        /// Why.
        error: String,
    },
}

impl fmt::Display for FilePresence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AsWritten => f.write_str("as written"),
            Self::Missing => f.write_str("missing"),
            Self::Changed => f.write_str("changed since"),
            Self::Unknown { error } => write!(f, "unknown: {error}"),
        }
    }
}

impl fmt::Display for Removal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Removed => f.write_str("removed"),
            Self::WasMissing => f.write_str("nothing to remove"),
            Self::LeftAlone => f.write_str("left alone: it has been changed since"),
            Self::StillUsed => f.write_str("left alone: other files are in it"),
            Self::Failed { error } => write!(f, "NOT removed: {error}"),
        }
    }
}

impl Removal {
    /// One word for programs.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Removed => "removed",
            Self::WasMissing => "was-missing",
            Self::LeftAlone => "left-alone",
            Self::StillUsed => "still-used",
            Self::Failed { .. } => "failed",
        }
    }
}

impl MadeFile {
    /// Present state of the file.
    #[must_use]
    pub fn presence(&self) -> FilePresence {
        match is_as_written(&self.path, &self.content) {
            Ok(true) => FilePresence::AsWritten,
            Ok(false) => FilePresence::Changed,
            Err(error) if error.kind() == io::ErrorKind::NotFound => FilePresence::Missing,
            Err(error) => FilePresence::Unknown {
                error: error.to_string(),
            },
        }
    }

    /// Whether it keeps its transaction from being forgotten. A directory alone does nothing.
    pub(crate) fn is_in_force(&self) -> bool {
        let is_directory = self.content == FileContent::Directory;
        !is_directory && !self.undone && self.presence() != FilePresence::Missing
    }

    /// Removes it, and what a crash has left of writing it. `step` is told each step.
    pub(super) fn remove(&self, step: &dyn Fn(&'static str)) -> Removal {
        let unfinished = remove_unfinished(&self.path, &self.content);
        step("unfinished removed");
        let removal = match self.presence() {
            FilePresence::AsWritten => match remove(&self.path, &self.content) {
                Ok(()) => Removal::Removed,
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                    Removal::StillUsed
                }
                Err(error) => failed(&error),
            },
            FilePresence::Missing => Removal::WasMissing,
            FilePresence::Changed => Removal::LeftAlone,
            FilePresence::Unknown { error } => Removal::Failed { error },
        };
        step("removed");
        match (unfinished, removal) {
            (Err(error), Removal::Removed | Removal::WasMissing) => failed(&error),
            (_, removal) => removal,
        }
    }
}

fn failed(error: &io::Error) -> Removal {
    Removal::Failed {
        error: error.to_string(),
    }
}

/// Refuses a path at which something is already, but for a directory that is wanted there.
///
/// # Errors
/// [`Error::Refused`] where it is taken, [`Error::Os`] where that is unknown.
pub(super) fn check_free(path: &Path, content: &FileContent) -> Result<()> {
    for path in [path, &unfinished_name(path)] {
        match fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => {
                let op = format!("look at {}", path.display());
                return Err(Error::Os { op, source });
            }
            Ok(meta) if meta.is_dir() && *content == FileContent::Directory => {}
            Ok(_) => {
                return Err(Error::Refused {
                    what: format!("writing {}", path.display()),
                    reason: "there is such a file, which this journal has not made; move it away \
                             or remove it"
                        .into(),
                });
            }
        }
    }
    Ok(())
}

/// Makes it, durably. `step` is told each step.
///
/// # Errors
/// [`Error::Os`]; then something of it may be there, for [`MadeFile::remove`].
pub(super) fn make(path: &Path, content: &FileContent, step: &dyn Fn(&'static str)) -> Result<()> {
    let made = match content {
        FileContent::Text { text } => make_text(path, text, step),
        FileContent::Link { to } => symlink(to, path),
        FileContent::Directory => match DirBuilder::new().mode(DIRECTORY_MODE).create(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            other => other,
        },
    };
    made.map_err(Error::os(format!("write {}", path.display())))?;
    step("file made");
    path.parent().map_or(Ok(()), directory::sync)?;
    step("file synced");
    Ok(())
}

fn make_text(path: &Path, text: &str, step: &dyn Fn(&'static str)) -> io::Result<()> {
    let unfinished = unfinished_name(path);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(FILE_MODE)
        .custom_flags(libc::O_NOFOLLOW)
        .open(&unfinished)?;
    step("file begun");
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| file.sync_all());
    step("file written");
    // RENAME_NOREPLACE: a file that was put there in between stays.
    let moved = written.and_then(|()| {
        renameat_with(CWD, &unfinished, CWD, path, RenameFlags::NOREPLACE).map_err(io::Error::from)
    });
    if moved.is_err() {
        fs::remove_file(&unfinished).ok();
    }
    moved
}

fn remove(path: &Path, content: &FileContent) -> io::Result<()> {
    match content {
        FileContent::Directory => fs::remove_dir(path)?,
        FileContent::Text { .. } | FileContent::Link { .. } => fs::remove_file(path)?,
    }
    sync_parent(path)
}

/// Removes the beginning of a file that never got its name.
fn remove_unfinished(path: &Path, content: &FileContent) -> io::Result<()> {
    let FileContent::Text { text } = content else {
        return Ok(());
    };
    let unfinished = unfinished_name(path);
    match read(&unfinished, text.len()) {
        Ok(Some(found)) if text.as_bytes().starts_with(&found) => {
            fs::remove_file(&unfinished)?;
            sync_parent(path)
        }
        // Not ours.
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

fn sync_parent(path: &Path) -> io::Result<()> {
    path.parent()
        .map_or(Ok(()), |parent| File::open(parent)?.sync_all())
}

fn is_as_written(path: &Path, content: &FileContent) -> io::Result<bool> {
    let meta = fs::symlink_metadata(path)?;
    Ok(match content {
        FileContent::Directory => meta.is_dir(),
        FileContent::Link { to } => meta.is_symlink() && fs::read_link(path)? == *to,
        FileContent::Text { text } => {
            read(path, text.len())?.is_some_and(|found| found == text.as_bytes())
        }
    })
}

/// The bytes of an ordinary file, up to one more than expected; nothing where it is none.
fn read(path: &Path, expected: usize) -> io::Result<Option<Vec<u8>>> {
    if !fs::symlink_metadata(path)?.is_file() {
        return Ok(None);
    }
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)?;
    let mut bytes = Vec::new();
    file.take(expected as u64 + 1).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// Temporary name of a file while it is written; neither sysctl.d(5) nor systemd.unit(5) read files
/// of such names.
fn unfinished_name(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.new"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> FileContent {
        FileContent::Text { text: text.into() }
    }

    /// Prepares something, removes the file of this content, and tells how, and what is left.
    #[track_caller]
    fn check(content: FileContent, prepare: &dyn Fn(&Path), expected: &str) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.conf");
        prepare(&path);
        let file = MadeFile {
            number: 0,
            path,
            content,
            written: true,
            undone: false,
        };
        let how = file.remove(&|_| ());
        let mut left: Vec<String> = fs::read_dir(directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(format!("{} [{}]", how.name(), left.join(" ")), expected);
    }

    #[test]
    fn only_what_was_written_is_removed() {
        let make_it =
            |content: FileContent| move |path: &Path| make(path, &content, &|_| ()).unwrap();
        let write = |text: &'static str| move |path: &Path| fs::write(path, text).unwrap();
        check(text("a\n"), &make_it(text("a\n")), "removed []");
        check(text("a\n"), &|_| (), "was-missing []");
        check(text("a\n"), &write("b\n"), "left-alone [a.conf]");
        check(text("a\n"), &write("a\n# mine\n"), "left-alone [a.conf]");
        check(text("a\n"), &write(""), "left-alone [a.conf]");
        let link = |to: &str| FileContent::Link { to: to.into() };
        check(link("/x"), &make_it(link("/x")), "removed []");
        check(link("/x"), &make_it(link("/y")), "left-alone [a.conf]");
        check(link("/x"), &write("/x"), "left-alone [a.conf]");
        // A link to a file of the same text is not that file.
        let linked = |path: &Path| {
            fs::write(path.with_file_name("b"), "a\n").unwrap();
            symlink("b", path).unwrap();
        };
        check(text("a\n"), &linked, "left-alone [a.conf b]");
        let directory = FileContent::Directory;
        check(directory.clone(), &make_it(directory.clone()), "removed []");
        let used = |path: &Path| {
            make(path, &FileContent::Directory, &|_| ()).unwrap();
            fs::write(path.join("other"), "").unwrap();
        };
        check(directory, &used, "still-used [a.conf]");
    }

    #[test]
    fn what_a_crash_has_left_is_removed_unless_it_is_not_ours() {
        let unfinished =
            |text: &'static str| move |path: &Path| fs::write(unfinished_name(path), text).unwrap();
        check(text("abc"), &unfinished("ab"), "was-missing []");
        check(text("abc"), &unfinished(""), "was-missing []");
        check(text("abc"), &unfinished("abd"), "was-missing [.a.conf.new]");
    }

    #[test]
    fn nothing_that_is_there_is_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.conf");
        fs::write(directory.path().join("victim"), "theirs").unwrap();
        for prepare in [
            &(|path: &Path| symlink("victim", path).unwrap()) as &dyn Fn(&Path),
            &|path: &Path| symlink("nowhere", path).unwrap(),
            &|path: &Path| fs::write(path, "theirs").unwrap(),
        ] {
            for taken in [path.clone(), unfinished_name(&path)] {
                prepare(&taken);
                let refused = check_free(&path, &text("ours")).unwrap_err();
                assert!(refused.to_string().contains("move it away"), "{refused}");
                make(&path, &text("ours"), &|_| ()).unwrap_err();
                assert!(!directory.path().join("nowhere").exists());
                fs::remove_file(&taken).unwrap();
                assert!(!path.exists() && !unfinished_name(&path).exists());
            }
        }
        let theirs = fs::read_to_string(directory.path().join("victim")).unwrap();
        assert_eq!(theirs, "theirs");
    }
}
