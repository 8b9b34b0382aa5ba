//! Errors, as the kernel's sockets report them.

use std::io::{self, ErrorKind};

use stack::{ConnectError, Failure, ListenError};

/// Why a connection broke.
pub(crate) fn of_failure(failure: Failure) -> io::Error {
    let kind = match failure {
        Failure::Reset | Failure::Disconnected => ErrorKind::ConnectionReset,
        Failure::BrokenPipe => ErrorKind::BrokenPipe,
        Failure::Refused => ErrorKind::ConnectionRefused,
        Failure::TimedOut => ErrorKind::TimedOut,
        Failure::Unreachable => ErrorKind::HostUnreachable,
        Failure::Aborted => ErrorKind::ConnectionAborted,
        _ => ErrorKind::Other,
    };
    io::Error::new(kind, failure.to_string())
}

/// Why the machine does not do what a host needs of it.
pub(crate) fn of_system(error: linux::Error) -> io::Error {
    let kind = match &error {
        linux::Error::Permission { .. } => ErrorKind::PermissionDenied,
        linux::Error::NoDevice { .. } => ErrorKind::NotFound,
        linux::Error::Unsupported { .. } => ErrorKind::Unsupported,
        linux::Error::Os { source, .. } => source.kind(),
        _ => ErrorKind::Other,
    };
    io::Error::new(kind, error)
}

/// Why a connection cannot be opened.
pub(crate) fn of_connect(error: ConnectError) -> io::Error {
    let kind = match error {
        ConnectError::NoAddress => ErrorKind::NetworkUnreachable,
        ConnectError::NoPort => ErrorKind::AddrNotAvailable,
        ConnectError::TooManyConnections => ErrorKind::QuotaExceeded,
        _ => ErrorKind::InvalidInput,
    };
    io::Error::new(kind, error)
}

/// Error of a failed listen.
pub(crate) fn of_listen(error: ListenError) -> io::Error {
    let kind = match error {
        ListenError::InUse => ErrorKind::AddrInUse,
        ListenError::NoAddress => ErrorKind::AddrNotAvailable,
        _ => ErrorKind::InvalidInput,
    };
    io::Error::new(kind, error)
}

/// Would block; an event reports when to try again.
pub(crate) fn would_block() -> io::Error {
    ErrorKind::WouldBlock.into()
}

/// This side has shut down sending, or the peer no longer receives.
pub(crate) fn broken_pipe() -> io::Error {
    io::Error::new(
        ErrorKind::BrokenPipe,
        "this side of the connection is closed",
    )
}

/// There is no connection (any more).
pub(crate) fn not_connected() -> io::Error {
    io::Error::new(ErrorKind::NotConnected, "the connection is not open")
}

pub(crate) fn is_would_block<T>(result: &io::Result<T>) -> bool {
    matches!(result, Err(error) if error.kind() == ErrorKind::WouldBlock)
}
