//! Reading a file of unknown origin: never waits for another program, and never reads more than it
//! should have.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Why a file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    /// For people.
    pub(crate) why: String,
    /// Whether it may be read at another time: it was the system that failed (no descriptor was
    /// left, the disk has a fault), and nothing is known to be wrong with the file.
    pub(crate) may_pass: bool,
}

impl Refused {
    /// For good, as long as the file is as it is.
    pub(crate) fn for_good(why: impl Into<String>) -> Self {
        Self {
            why: why.into(),
            may_pass: false,
        }
    }

    fn failed(error: &io::Error) -> Self {
        Self {
            why: error.to_string(),
            // ELOOP: a symbolic link. ENXIO: a socket (open(2)).
            may_pass: !matches!(error.raw_os_error(), Some(libc::ELOOP | libc::ENXIO)),
        }
    }
}

/// Opens a regular file. `follow` says whether a symbolic link will do.
///
/// # Errors
/// Why it cannot be used.
pub(crate) fn open(path: &Path, follow: bool) -> Result<(File, Metadata), Refused> {
    // ELOOP: a symbolic link; a FIFO without a writer would be waited for (open(2)).
    let no_link = if follow { 0 } else { libc::O_NOFOLLOW };
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | no_link)
        .open(path)
        .map_err(|error| Refused::failed(&error))?;
    let meta = file.metadata().map_err(|error| Refused::failed(&error))?;
    match meta.is_file() {
        true => Ok((file, meta)),
        false => Err(Refused::for_good("it is not a regular file")),
    }
}

/// The bytes of a file, which has no more than `most`.
///
/// # Errors
/// Why it cannot be used.
pub(crate) fn read(file: File, meta: &Metadata, most: u64) -> Result<Vec<u8>, Refused> {
    let too_long =
        |bytes: u64| Refused::for_good(format!("it has {bytes} bytes or more; {most} at most"));
    if meta.len() > most {
        return Err(too_long(meta.len()));
    }
    let mut bytes = Vec::new();
    // It may have grown meanwhile.
    let got = file.take(most + 1).read_to_end(&mut bytes);
    got.map_err(|error| Refused::failed(&error))?;
    match u64::try_from(bytes.len()) {
        Ok(length) if length <= most => Ok(bytes),
        _ => Err(too_long(most + 1)),
    }
}
