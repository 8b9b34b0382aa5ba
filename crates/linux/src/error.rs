//! Errors at the boundary to the kernel.

use std::io;
use std::path::PathBuf;

/// `Result` with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An operation that failed, with its object. The message says what happened; where the remedy is
/// known it says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A permission is missing: an expected answer, rendered as advice.
    #[error("{what} needs {needs}: {hint}")]
    Permission {
        /// The attempted operation.
        what: String,
        /// The capability or file permission.
        needs: &'static str,
        /// How to give it.
        hint: String,
    },
    /// The kernel lacks something.
    #[error("{what} is not supported by this kernel: {hint}")]
    Unsupported {
        /// The attempted operation.
        what: String,
        /// The consequence, or a remedy.
        hint: String,
    },
    /// A device node is not there.
    #[error("the device node {} is missing: {hint}", path.display())]
    NoDevice {
        /// The path that was searched.
        path: PathBuf,
        /// How to create it.
        hint: String,
    },
    /// Another part of tcptailor is not where it is looked for.
    #[error("{what} is not installed: {hint}")]
    NotInstalled {
        /// The part.
        what: String,
        /// How to get it.
        hint: String,
    },
    /// Something named by the user is not there (any more).
    #[error("{what} `{name}` does not exist{hint}")]
    NotFound {
        /// Kind of the object.
        what: &'static str,
        /// Its name.
        name: String,
        /// A remedy that begins with a separator; may be empty.
        hint: String,
    },
    /// A system call failed.
    #[error("{op}{}: {source}", remedy(op, source))]
    Os {
        /// The operation with its object, such as `open /dev/net/tun`.
        op: String,
        /// The cause.
        source: io::Error,
    },
    /// A file holds what it should not.
    #[error("{}: {what}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The problem, and a remedy.
        what: String,
    },
    /// Another side did not keep to the protocol, or went away.
    #[error("{0}")]
    Peer(String),
    /// There is no listener.
    #[error("{remote} refuses connections; is `tcptailor serve` running there?")]
    ConnectionRefused {
        /// Remote address.
        remote: std::net::SocketAddr,
    },
    /// Possible, but it would do harm, or the object cannot do it.
    #[error("{what}: {reason}")]
    Refused {
        /// The attempted operation and its object.
        what: String,
        /// Why not, and what to do instead.
        reason: String,
    },
    /// Another process is changing settings.
    #[error(
        "another tcptailor (process {pid}) is changing settings; wait until it is done, or stop it \
         and run `tcptailor recover`"
    )]
    Busy {
        /// The process that holds the lock.
        pid: String,
    },
    /// Another process compares settings.
    #[error(
        "another tcptailor (process {pid}) runs an experiment on this machine, and each would \
         measure the changes of the other; wait until it is done, or stop it with Ctrl-C or \
         SIGTERM, which rolls back what it has not kept"
    )]
    Experimenting {
        /// The process that runs it.
        pid: String,
    },
    /// A knob or its value is wrong.
    #[error(transparent)]
    Knob(#[from] base::KnobError),
}

/// A remedy for causes that lie outside of the operation.
fn remedy(op: &str, source: &io::Error) -> &'static str {
    match source.raw_os_error() {
        Some(libc::EMFILE | libc::ENFILE) if !op.contains("ulimit") => {
            " (raise the limit of open files: `ulimit -n`)"
        }
        _ => "",
    }
}

impl Error {
    /// For `map_err`: names the operation that failed.
    pub fn os(op: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let op = op.into();
        move |source| Self::Os { op, source }
    }

    /// For `map_err` on rustix calls.
    pub fn errno(op: impl Into<String>) -> impl FnOnce(rustix::io::Errno) -> Self {
        let op = op.into();
        move |errno| Self::Os {
            op,
            source: errno.into(),
        }
    }

    /// A remedy, where one is known; else the whole message.
    #[must_use]
    pub fn advice(&self) -> String {
        match self {
            Self::Permission { hint, .. }
            | Self::Unsupported { hint, .. }
            | Self::NoDevice { hint, .. }
            | Self::NotInstalled { hint, .. } => hint.clone(),
            other => other.to_string(),
        }
    }

    /// Whether a missing permission or kernel feature is the cause (exit code 4).
    #[must_use]
    pub fn is_missing_privilege(&self) -> bool {
        let is_feature = matches!(
            self,
            Self::Unsupported { .. } | Self::NoDevice { .. } | Self::NotInstalled { .. }
        );
        is_feature || self.is_denied()
    }

    /// Whether a missing permission is.
    pub(crate) fn is_denied(&self) -> bool {
        match self {
            Self::Permission { .. } => true,
            Self::Os { source, .. } => source.kind() == io::ErrorKind::PermissionDenied,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_open_files_is_told_with_its_remedy() {
        let shown = |op, errno| Error::os(op)(io::Error::from_raw_os_error(errno)).to_string();
        assert!(shown("open x", libc::EMFILE).starts_with("open x (raise the limit"));
        assert!(!shown("open x (raise `ulimit -n`)", libc::EMFILE).contains("limit of open"));
        assert!(shown("open x", libc::ENOENT).starts_with("open x: No such file"));
    }
}
