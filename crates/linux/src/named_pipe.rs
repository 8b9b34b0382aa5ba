//! Opening what may be a named pipe. open(2) waits there for the other end for as long as it takes,
//! and is begun again after a signal: whoever asks the program to end meanwhile is not heard.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

/// How often a pipe without a reader is tried.
const LOOK: Duration = Duration::from_millis(100);

/// Whether a path leads to a named pipe.
fn is_pipe(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.file_type().is_fifo())
}

/// Opens a file to be read. A named pipe is open at once; what reads from it has to wait with
/// [`wait_readable`](crate::wait_readable) first, since a pipe that no program has opened to write
/// seems to be at its end.
///
/// # Errors
/// Those of open(2).
pub fn open_to_read(path: &Path) -> io::Result<File> {
    let flags = if is_pipe(path) { libc::O_NONBLOCK } else { 0 };
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// Opens a file that is there to be written. A named pipe is waited for until a program reads it,
/// or until `goes_on` says no; it is asked every tenth of a second.
///
/// # Errors
/// Those of open(2); [`io::ErrorKind::Interrupted`] where `goes_on` said no.
pub fn open_to_write(path: &Path, mut goes_on: impl FnMut() -> bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true);
    if !is_pipe(path) {
        return options.open(path);
    }
    options.custom_flags(libc::O_NONBLOCK);
    loop {
        match options.open(path) {
            // fifo(7): no process has it open to read.
            Err(error) if error.raw_os_error() == Some(libc::ENXIO) => {}
            opened => {
                let file = opened?;
                fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
                return Ok(file);
            }
        }
        if !goes_on() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        std::thread::sleep(LOOK);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::sync::mpsc;

    use super::*;

    fn pipe() -> (tempfile::TempDir, std::path::PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pipe");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, mode).unwrap();
        (directory, path)
    }

    #[test]
    fn a_pipe_without_another_end_is_not_waited_for_out_of_reach() {
        let (_directory, path) = pipe();
        let (done, told) = mpsc::channel();
        let of_thread = path.clone();
        std::thread::spawn(move || {
            let mut looks = 0;
            let written = open_to_write(&of_thread, || {
                looks += 1;
                looks < 3
            });
            let read = open_to_read(&of_thread).map(drop);
            done.send((
                written.map(drop).map_err(|error| error.kind()),
                read.is_ok(),
            ))
        });
        let ends = told.recv_timeout(Duration::from_secs(20));
        assert_eq!(ends, Ok((Err(io::ErrorKind::Interrupted), true)));
    }

    #[test]
    fn what_is_written_arrives_whole() {
        let (_directory, path) = pipe();
        let mut reader = open_to_read(&path).unwrap();
        assert!(!crate::wait_readable(&reader, Duration::from_millis(10)));
        // More than a pipe holds.
        let data = vec![7; 1 << 20];
        let writing = std::thread::spawn({
            let (path, data) = (path, data.clone());
            move || open_to_write(&path, || false)?.write_all(&data)
        });
        let mut got = Vec::new();
        let mut part = [0; 4096];
        while got.len() < data.len() {
            assert!(crate::wait_readable(&reader, Duration::from_secs(20)));
            let bytes = reader.read(&mut part).unwrap();
            assert!(bytes > 0, "it ended early");
            got.extend_from_slice(&part[..bytes]);
        }
        writing.join().unwrap().unwrap();
        assert!(got == data);
    }
}
