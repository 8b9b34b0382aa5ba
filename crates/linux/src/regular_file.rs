//! Reading a file that somebody else may have put there: never waits for another program, and never
//! takes more than it should have.

use std::fs::{File, Metadata, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Opens a regular file. `follow` says whether a symbolic link will do.
///
/// # Errors
/// Why it cannot be used, for people.
pub(crate) fn open(path: &Path, follow: bool) -> Result<(File, Metadata), String> {
    // ELOOP: a symbolic link; a FIFO without a writer would be waited for (open(2)).
    let no_link = if follow { 0 } else { libc::O_NOFOLLOW };
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | no_link)
        .open(path)
        .map_err(|error| error.to_string())?;
    let meta = file.metadata().map_err(|error| error.to_string())?;
    match meta.is_file() {
        true => Ok((file, meta)),
        false => Err("it is not a regular file".into()),
    }
}

/// The bytes of a file, which has no more than `most`.
///
/// # Errors
/// Why it cannot be used, for people.
pub(crate) fn read(file: File, meta: &Metadata, most: u64) -> Result<Vec<u8>, String> {
    let too_long = |bytes: u64| format!("it has {bytes} bytes or more; {most} at most");
    if meta.len() > most {
        return Err(too_long(meta.len()));
    }
    let mut bytes = Vec::new();
    // It may have grown meanwhile.
    let got = file.take(most + 1).read_to_end(&mut bytes);
    got.map_err(|error| error.to_string())?;
    match u64::try_from(bytes.len()) {
        Ok(length) if length <= most => Ok(bytes),
        _ => Err(too_long(most + 1)),
    }
}
