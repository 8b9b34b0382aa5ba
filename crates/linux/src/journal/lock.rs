//! One process at a time.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

use crate::error::{Error, Result};

/// The exclusive right to change settings. The kernel takes it back when the process ends.
pub(super) struct Lock {
    file: File,
}

impl Lock {
    /// Takes the lock, or says who has it.
    pub(super) fn take(directory: &Path) -> Result<Self> {
        let path = directory.join("lock");
        let op = || format!("lock the journal with {}", path.display());
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(Error::os(op()))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let mut pid = String::new();
                file.read_to_string(&mut pid).ok();
                let known = !pid.trim().is_empty();
                return Err(Error::Busy {
                    pid: if known {
                        pid.trim().into()
                    } else {
                        "unknown".into()
                    },
                });
            }
            other => other.map_err(Error::errno(op()))?,
        }
        // For the message above only; a full disk is no reason not to go on.
        let pid = format!("{}\n", std::process::id());
        file.set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| file.write_all(pid.as_bytes()))
            .ok();
        Ok(Self { file })
    }
}

impl Drop for Lock {
    /// Closing the file is not enough: a process that another thread is just starting shares it
    /// until it runs its program, and would hold the lock so long.
    fn drop(&mut self) {
        flock(&self.file, FlockOperation::Unlock).ok();
    }
}
