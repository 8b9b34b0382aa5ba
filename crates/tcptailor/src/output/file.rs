//! Files that the user names. Of one that is read no more is taken than it may have; writing leaves
//! foreign files alone.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use base::Instant;

use super::visible;
use crate::exit::Problem;
use crate::interrupt;

/// The mark of ours stands within this many bytes.
const MARK_WITHIN: u64 = 4096;
/// How long a request to stop may go unseen.
const STOP_CHECK: Duration = Duration::from_millis(200);
/// What a pipe waits for is told after this time.
const TOLD_AFTER: Duration = Duration::from_secs(1);
/// How long the reader of a pipe is waited for where the program is to end already.
const READER_WAIT_AT_END: Duration = Duration::from_secs(5);

/// A file that ends when the program is to end, also while nothing comes from a pipe.
pub(crate) struct UntilStopped(pub(crate) File);

impl UntilStopped {
    /// Opens it, a named pipe too, without waiting for what will be written to that.
    ///
    /// # Errors
    /// Where it cannot be opened.
    pub(crate) fn open(path: &Path) -> std::io::Result<Self> {
        linux::open_to_read(path).map(Self)
    }
}

impl Read for UntilStopped {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        while !interrupt::stopped() {
            if linux::wait_readable(&self.0, STOP_CHECK) {
                return self.0.read(buffer);
            }
        }
        Ok(0)
    }
}

/// A file of which nothing is left out when the program is to end, unless a pipe is waited for.
struct Patient {
    file: File,
    has_given_up: bool,
}

impl Read for Patient {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        while !linux::wait_readable(&self.file, STOP_CHECK) {
            if interrupt::stopped() {
                self.has_given_up = true;
                return Ok(0);
            }
        }
        self.file.read(buffer)
    }
}

/// The text of a file of at most this many bytes.
///
/// # Errors
/// Where it cannot be read, is longer, or is not text; where a pipe is waited for and the program
/// is to end.
pub(crate) fn read_text(path: &Path, bytes_max: u64) -> Result<String, Problem> {
    let mut bytes = Vec::new();
    let failed = |error: &std::io::Error| Problem::file(path, error);
    let mut file = Patient {
        file: linux::open_to_read(path).map_err(|error| failed(&error))?,
        has_given_up: false,
    };
    let read = (&mut file).take(bytes_max + 1).read_to_end(&mut bytes);
    read.map_err(|error| failed(&error))?;
    let shown = path.display();
    if file.has_given_up {
        return Err(Problem::interrupted(format!(
            "interrupted while reading {shown}"
        )));
    }
    if bytes.len() as u64 > bytes_max {
        return Err(Problem::usage(format!(
            "{shown}: more than {bytes_max} bytes"
        )));
    }
    String::from_utf8(bytes).map_err(|_| Problem::usage(format!("{shown}: not text")))
}

/// Rejects a path that cannot be written, before the wait for the result. Devices and pipes are not
/// tried.
///
/// # Errors
/// A directory, one that is not there, or a missing permission.
pub(crate) fn check_writable(path: &Path) -> Result<(), Problem> {
    let tried = match std::fs::metadata(path) {
        Ok(meta) if meta.is_dir() => Err(std::io::ErrorKind::IsADirectory.into()),
        Ok(meta) if !meta.is_file() => Ok(()),
        Ok(_) => OpenOptions::new().write(true).open(path).map(drop),
        Err(_) => {
            let parent = path.parent().filter(|p| !p.as_os_str().is_empty());
            let parent = parent.unwrap_or(Path::new("."));
            if !parent.is_dir() {
                let (shown, parent) = (path.display(), parent.display());
                return Err(Problem::usage(format!(
                    "{shown}: there is no directory {parent}"
                )));
            }
            tempfile::tempfile_in(parent).map(drop)
        }
    };
    tried.map_err(|error| {
        Problem::file(path, &error).hint("Name a file in a directory that you can write to.")
    })
}

/// Writes a result. A file that is there is replaced only where it is empty or holds `mark` near
/// its beginning, as an earlier result of the same kind does; devices and pipes are written to.
/// Symbolic links to files are not followed.
///
/// # Errors
/// Where the file is another one, or cannot be written.
pub(crate) fn write_result(path: &Path, text: &str, mark: &str) -> anyhow::Result<()> {
    let shown = path.display();
    let is_new = is_missing(path);
    let mut file = open_result(path, &|start| String::from_utf8_lossy(start).contains(mark))?;
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| file.flush())
        .inspect_err(|_| remove_if(is_new, path));
    written.with_context(|| format!("writing {shown}"))
}

/// Whether nothing has that name, not even a link that leads nowhere.
fn is_missing(path: &Path) -> bool {
    fs::symlink_metadata(path).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}

/// A file that was made for what could not be written into it, on a full disk, is not left behind:
/// a script would take it for the result.
fn remove_if(is_new: bool, path: &Path) {
    if is_new {
        // What stays is as it was before: the error is told in any case.
        let _ = fs::remove_file(path);
    }
}

/// Writes into a file, or into a device or a pipe, whatever was in it.
///
/// # Errors
/// Where it cannot be written.
pub(crate) fn write_text(path: &Path, text: &str) -> anyhow::Result<()> {
    let is_new = is_missing(path);
    let written = match is_device(path) {
        true => open_device(path).and_then(|mut device| device.write_all(text.as_bytes())),
        false => fs::write(path, text).inspect_err(|_| remove_if(is_new, path)),
    };
    written.with_context(|| format!("writing {}", path.display()))
}

/// Whether a file may be replaced by a result: it is not there, empty, a device, or holds `mark`.
///
/// # Errors
/// What is wrong with it, for people.
fn check_replaceable(path: &Path, mark: &str) -> Result<(), String> {
    // A pipe would be waited for.
    if !std::fs::metadata(path).is_ok_and(|meta| meta.is_file()) {
        return Ok(());
    }
    // One that cannot be read is not looked at; whether it can be written is another question.
    File::open(path).map_or(Ok(()), |file| check_mark(&file, path, mark))
}

/// The same of a regular file that is open.
fn check_mark(file: &File, path: &Path, mark: &str) -> Result<(), String> {
    let mut start = Vec::new();
    let _ = file.take(MARK_WITHIN).read_to_end(&mut start);
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
pub(crate) fn open_result(path: &Path, is_ours: &dyn Fn(&[u8]) -> bool) -> anyhow::Result<File> {
    let shown = path.display();
    let writing = || format!("writing {shown}");
    if is_device(path) {
        return open_device(path).with_context(writing);
    }
    check_no_link(path)?;
    if !path.exists() {
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

/// Whether it is neither a file nor a directory but a device or a pipe, such as `/dev/stdout` often
/// is.
pub(crate) fn is_device(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|meta| !meta.is_file() && !meta.is_dir())
}

/// Opens it to be written. A pipe without a reader is waited for, which is told, until the program
/// is to end.
///
/// # Errors
/// Where it cannot be opened.
pub(crate) fn open_device(path: &Path) -> std::io::Result<File> {
    // Ctrl-C is how most recordings end; their reader may be about to come.
    let was_stopped = interrupt::stopped();
    let mut waits_since: Option<Instant> = None;
    let mut is_told = false;
    linux::open_to_write(path, || {
        let now = linux::Clock.now();
        let since = *waits_since.get_or_insert(now);
        if !is_told && now.since(since) >= TOLD_AFTER {
            is_told = true;
            let line = format!("waiting for a program to read {}", path.display());
            // There is no other place to tell it.
            let _ = writeln!(anstream::stderr(), "{}", visible(&line));
        }
        !interrupt::stopped() || was_stopped && now.since(since) < READER_WAIT_AT_END
    })
}

/// Refuses a symbolic link to a file, which another user may have put there, or which would be
/// replaced itself.
///
/// # Errors
/// Where it is one.
pub(crate) fn check_no_link(path: &Path) -> Result<(), Problem> {
    let is_link = std::fs::symlink_metadata(path).is_ok_and(|meta| meta.is_symlink());
    if !is_link || is_device(path) {
        return Ok(());
    }
    let message = format!("{} is a symbolic link", path.display());
    Err(Problem::usage(message).hint("Name the file itself, or another one."))
}

/// A file without its final name, readable to whom the user lets read new files.
pub(crate) fn new_file(dir: &Path) -> std::io::Result<tempfile::NamedTempFile> {
    tempfile::Builder::new()
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(dir)
        .map_err(without_name)
}

/// The cause alone: an error of a file without its final name tells a name that the user never
/// wrote.
fn without_name(error: std::io::Error) -> std::io::Error {
    let text = error.to_string();
    match text.split_once(" at path ") {
        Some((cause, _)) => std::io::Error::new(error.kind(), cause),
        None => error,
    }
}

/// Writes into a file without its final name.
pub(crate) fn fill(file: &mut tempfile::NamedTempFile, text: &[u8]) -> std::io::Result<()> {
    file.write_all(text).map_err(without_name)?;
    file.as_file().sync_all()
}

/// Makes the name of a new file last. Not every file system can, and what is in the file is safe.
pub(crate) fn sync_folder(dir: &Path) {
    let _ = File::open(dir).and_then(|dir| dir.sync_all());
}

/// Makes a file whole, in place of an older one, or leaves that as it was.
pub(crate) fn replace(path: &Path, text: &[u8]) -> anyhow::Result<()> {
    let writing = || format!("writing {}", path.display());
    let dir = folder_of(path);
    let mut file = new_file(dir).with_context(writing)?;
    fill(&mut file, text).with_context(writing)?;
    file.persist(path)
        .map_err(|error| error.error)
        .with_context(writing)?;
    sync_folder(dir);
    Ok(())
}

pub(crate) fn folder_of(path: &Path) -> &Path {
    let parent = path.parent();
    parent
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

/// Whether a page can be written there, before the work whose result it shall show.
pub(crate) fn check_page(path: Option<&Path>) -> Result<(), Problem> {
    let Some(path) = path else {
        return Ok(());
    };
    check_replaceable(path, page::MARK).map_err(another_file)?;
    check_writable(path)
}

fn another_file(what: String) -> Problem {
    Problem::usage(what).hint("Name another file.")
}

/// Writes a page. If no file can be made beside an older one, or it is not a regular file, it is
/// overwritten in place.
pub(crate) fn write_page(path: &Path, page: &str) -> anyhow::Result<()> {
    match replace_page(path, page) {
        // A pipe whose reader left would be waited for.
        Err(error) if !path.exists() || is_device(path) || error.is::<Problem>() => Err(error),
        Err(_) => {
            let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
            write_over(&target, page)
        }
        Ok(()) => Ok(()),
    }
}

/// Writes a page that is written time after time: whole, or the one before stays as it was. Only
/// what is not a regular file is overwritten in place.
pub(crate) fn replace_page(path: &Path, page: &str) -> anyhow::Result<()> {
    // What a link leads to is replaced, not the link.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    // In a directory that others may write to, a link may have been put there since it was looked
    // at, to any file of this user.
    check_replaceable(&target, page::MARK).map_err(another_file)?;
    match target.exists() && !target.is_file() {
        true => write_over(&target, page),
        false => replace(&target, page.as_bytes()),
    }
}

/// Writes into what is there: a page of ours, a device or a pipe. It is looked at once it is open,
/// since another file may have taken its place before.
fn write_over(target: &Path, page: &str) -> anyhow::Result<()> {
    let writing = || format!("writing {}", target.display());
    let opened = match target.is_file() {
        true => OpenOptions::new().read(true).write(true).open(target),
        false => open_device(target),
    };
    let mut file = opened.with_context(writing)?;
    if file.metadata().with_context(writing)?.is_file() {
        check_mark(&file, target, page::MARK).map_err(another_file)?;
        file.rewind()
            .and_then(|()| file.set_len(0))
            .with_context(writing)?;
    }
    file.write_all(page.as_bytes()).with_context(writing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;

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

    #[test]
    fn no_more_of_a_file_is_read_than_it_may_have() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("text");
        let check = |bytes: &[u8], expected: Result<&str, &str>| {
            std::fs::write(&path, bytes).expect("written");
            let read = read_text(&path, 4).map_err(|error| error.to_string());
            match (read, expected) {
                (Ok(read), Ok(expected)) => assert_eq!(read, expected),
                (Err(error), Err(expected)) => assert!(error.ends_with(expected), "{error}"),
                (read, _) => panic!("{read:?}, not {expected:?}"),
            }
        };
        check(b"", Ok(""));
        check(b"four", Ok("four"));
        check(b"a five", Err("more than 4 bytes"));
        check(b"\xff", Err("not text"));
        let endless = read_text(Path::new("/dev/zero"), 4).expect_err("it has no end");
        assert!(endless.to_string().contains("more than 4"), "{endless}");
    }

    #[test]
    fn a_place_that_cannot_be_written_is_known_before() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("result");
        let exit = |path: &Path| check_writable(path).err().map(|problem| problem.exit);
        assert_eq!(exit(&path), None);
        assert!(!path.exists(), "nothing is left there");
        std::fs::write(&path, "kept").expect("written");
        assert_eq!(exit(&path), None);
        assert_eq!(std::fs::read_to_string(&path).expect("a file"), "kept");
        assert_eq!(exit(Path::new("/dev/null")), None);
        assert_eq!(exit(folder.path()), Some(Exit::Usage));
        assert_eq!(exit(&folder.path().join("none/result")), Some(Exit::Usage));
    }

    #[test]
    fn a_page_that_cannot_be_replaced_stays_as_it_was() {
        let dir = tempfile::tempdir().expect("a folder");
        let page = dir.path().join("a.html");
        let of = |text: &str| format!("{}>{text}", page::MARK);
        replace_page(&page, &of("first")).expect("it is new");
        replace_page(&page, &of("second")).expect("it can be replaced");
        assert_eq!(fs::read_to_string(&page).expect("a page"), of("second"));
        assert_eq!(fs::read_dir(dir.path()).expect("a folder").count(), 1);
        // A full disk.
        let full = Path::new("/dev/full");
        let error = replace_page(full, "third").expect_err("it is full");
        assert_eq!(error.to_string(), "writing /dev/full");
        let nowhere = dir.path().join("none").join("a.html");
        replace_page(&nowhere, "third").expect_err("there is no such folder");
    }

    #[test]
    fn a_page_is_tried_before_and_replaced_as_a_whole() {
        let dir = tempfile::tempdir().expect("a folder");
        let page = dir.path().join("a.html");
        check_page(None).expect("nothing is asked for");
        check_page(Some(&page)).expect("it can be made");
        assert!(!page.exists(), "nothing is left of the trial");
        let old = format!("{}>old", page::MARK);
        write_page(&page, &old).expect("it is new");
        check_page(Some(&page)).expect("it can be replaced");
        assert_eq!(fs::read_to_string(&page).expect("a page"), old);
        let other = dir.path().join("other");
        fs::write(&other, "my thesis").expect("written");
        let error = check_page(Some(&other)).expect_err("it is no page");
        assert!(error.message.contains("exists and is not"), "{error:?}");
        fs::remove_file(&other).expect("it is there");
        let link = dir.path().join("link.html");
        std::os::unix::fs::symlink(&page, &link).expect("a link");
        let new = format!("{}>new", page::MARK);
        write_page(&link, &new).expect("it is there");
        assert_eq!(fs::read_to_string(&page).expect("a page"), new);
        assert!(link.is_symlink());
        assert_eq!(fs::read_dir(dir.path()).expect("a folder").count(), 2);
        for wrong in [dir.path().join("none").join("a.html"), dir.path().into()] {
            let error = check_page(Some(&wrong)).expect_err("no such place");
            assert_eq!(error.exit, Exit::Usage, "{error:?}");
            assert!(write_page(&wrong, "x").is_err());
        }
        let device = Path::new("/dev/null");
        check_page(Some(device)).expect("it takes all");
        write_page(device, "x").expect("it takes all");
        assert!(!device.is_file(), "it is still a device");
    }

    /// As in `/tmp`, while a long measurement runs.
    #[test]
    fn a_link_that_was_put_there_meanwhile_costs_no_file() {
        let dir = tempfile::tempdir().expect("a folder");
        let (page, victim) = (dir.path().join("a.html"), dir.path().join("passwd"));
        fs::write(&victim, "root:x:0:0").expect("written");
        check_page(Some(&page)).expect("nothing is there");
        std::os::unix::fs::symlink(&victim, &page).expect("a link");
        for written in [write_page(&page, "new"), replace_page(&page, "new")] {
            let error = written.expect_err("another file");
            assert!(error.to_string().contains("exists and is not"), "{error}");
        }
        assert_eq!(fs::read_to_string(&victim).expect("a file"), "root:x:0:0");
    }
}
