//! Results in files that the user names: a file of somebody else is left alone.

use std::fs::OpenOptions;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use anyhow::Context;

use crate::exit::Problem;

/// The mark of ours stands within so many bytes.
const MARK_WITHIN: u64 = 4096;

/// Writes a result. A file that is there is replaced only where it is empty or holds `mark` near
/// its beginning, as an earlier result of the same kind does; devices and pipes are written to.
/// Symbolic links to files are not followed.
///
/// # Errors
/// Where the file is another one, or cannot be written.
pub(crate) fn write_result(path: &Path, text: &str, mark: &str) -> anyhow::Result<()> {
    let shown = path.display();
    let mut file = open_result(path, &|start| String::from_utf8_lossy(start).contains(mark))?;
    file.write_all(text.as_bytes())
        .and_then(|()| file.flush())
        .with_context(|| format!("writing {shown}"))
}

/// Whether a file may be replaced by a result: it is not there, empty, a device, or holds `mark`.
///
/// # Errors
/// What is wrong with it, for people.
pub(crate) fn check_replaceable(path: &Path, mark: &str) -> Result<(), String> {
    let Ok(meta) = std::fs::metadata(path) else {
        return Ok(());
    };
    let mut start = Vec::new();
    // One that cannot be read is not looked at; whether it can be written is another question.
    if let (true, Ok(file)) = (meta.is_file(), std::fs::File::open(path)) {
        let _ = file.take(MARK_WITHIN).read_to_end(&mut start);
    }
    match start.is_empty() || String::from_utf8_lossy(&start).contains(mark) {
        true => Ok(()),
        false => Err(format!(
            "{} exists and is not an earlier result of this kind",
            path.display()
        )),
    }
}

/// Opens a file for a result and empties it; as [`write_result`], where `is_ours` looks at its
/// beginning.
pub(crate) fn open_result(
    path: &Path,
    is_ours: &dyn Fn(&[u8]) -> bool,
) -> anyhow::Result<std::fs::File> {
    let shown = path.display();
    let writing = || format!("writing {shown}");
    let target = std::fs::metadata(path).ok();
    if target
        .as_ref()
        .is_some_and(|target| !target.is_file() && !target.is_dir())
    {
        // A device or a pipe, such as /dev/stdout.
        return OpenOptions::new()
            .write(true)
            .open(path)
            .with_context(writing);
    }
    let is_link = std::fs::symlink_metadata(path).is_ok_and(|meta| meta.is_symlink());
    if is_link {
        return Err(Problem::usage(format!("{shown} is a symbolic link"))
            .hint("Name the file itself, or another one.")
            .into());
    }
    if target.is_none() {
        // Never through a link that was put there meanwhile.
        return OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(path)
            .with_context(writing);
    }
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .with_context(writing)?;
    let mut start = Vec::new();
    std::io::Read::by_ref(&mut file)
        .take(MARK_WITHIN)
        .read_to_end(&mut start)
        .with_context(|| format!("reading {shown}"))?;
    if !start.is_empty() && !is_ours(&start) {
        return Err(Problem::usage(format!(
            "{shown} exists and is not an earlier result of this kind"
        ))
        .hint("Name another file, or remove this one.")
        .into());
    }
    file.set_len(0)
        .and_then(|()| file.seek(SeekFrom::Start(0)))
        .with_context(writing)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_somebody_else_is_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("result");
        let read = || std::fs::read_to_string(&path).expect("a file");
        write_result(&path, "mark 1", "mark").expect("a new one");
        write_result(&path, "mark", "mark").expect("one of ours");
        assert_eq!(read(), "mark", "shorter than the one before");
        std::fs::write(&path, "").expect("written");
        write_result(&path, "mark 3", "mark").expect("an empty one");
        std::fs::write(&path, "my thesis").expect("written");
        let error = write_result(&path, "mark 4", "mark").expect_err("another's");
        assert!(error.to_string().contains("exists and is not"), "{error}");
        assert_eq!(read(), "my thesis");

        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).expect("a link");
        let error = write_result(&link, "mark 5", "my").expect_err("a link");
        assert!(error.to_string().contains("symbolic link"), "{error}");
        let dangling = folder.path().join("dangling");
        std::os::unix::fs::symlink(folder.path().join("victim"), &dangling).expect("a link");
        write_result(&dangling, "mark", "mark").expect_err("a link");
        assert!(!folder.path().join("victim").exists());
        write_result(Path::new("/dev/null"), "mark", "mark").expect("a device");
        assert!(write_result(folder.path(), "mark", "mark").is_err());
    }
}
