//! The two halves of a connection.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::stream::TcpStream;

/// The half that reads, borrowed; see [`TcpStream::split`]. All methods of the stream are its too.
#[derive(Debug)]
pub struct ReadHalf<'s>(&'s TcpStream);

/// The half that writes, borrowed; see [`TcpStream::split`]. All methods of the stream are its too.
#[derive(Debug)]
pub struct WriteHalf<'s>(&'s TcpStream);

/// The half that reads; see [`TcpStream::into_split`]. All methods of the stream are its too.
#[derive(Debug)]
pub struct OwnedReadHalf(Arc<TcpStream>);

/// The half that writes; see [`TcpStream::into_split`]. All methods of the stream are its too.
/// Dropping it shuts the write direction down: the peer reads to the end.
#[derive(Debug)]
pub struct OwnedWriteHalf {
    stream: Arc<TcpStream>,
    shuts_down: bool,
}

/// The halves are not those of one stream.
#[derive(Debug)]
pub struct ReuniteError(pub OwnedReadHalf, pub OwnedWriteHalf);

impl fmt::Display for ReuniteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the halves belong to different connections")
    }
}

impl std::error::Error for ReuniteError {}

impl<'s> ReadHalf<'s> {
    pub(crate) const fn new(stream: &'s TcpStream) -> Self {
        Self(stream)
    }
}

impl<'s> WriteHalf<'s> {
    pub(crate) const fn new(stream: &'s TcpStream) -> Self {
        Self(stream)
    }
}

impl OwnedReadHalf {
    pub(crate) const fn new(stream: Arc<TcpStream>) -> Self {
        Self(stream)
    }

    /// Makes one stream of both halves again.
    ///
    /// # Errors
    /// [`ReuniteError`] with both, where they are not of one stream.
    pub fn reunite(self, other: OwnedWriteHalf) -> Result<TcpStream, ReuniteError> {
        if !Arc::ptr_eq(&self.0, &other.stream) {
            return Err(ReuniteError(self, other));
        }
        other.forget();
        Ok(Arc::into_inner(self.0).expect("the other half was the only other owner"))
    }
}

impl OwnedWriteHalf {
    pub(crate) const fn new(stream: Arc<TcpStream>) -> Self {
        Self {
            stream,
            shuts_down: true,
        }
    }

    /// Drops it without a shutdown.
    pub fn forget(mut self) {
        self.shuts_down = false;
    }

    /// Makes one stream of both halves again.
    ///
    /// # Errors
    /// [`ReuniteError`] with both, where they are not of one stream.
    pub fn reunite(self, other: OwnedReadHalf) -> Result<TcpStream, ReuniteError> {
        other.reunite(self)
    }
}

impl Drop for OwnedWriteHalf {
    fn drop(&mut self) {
        if self.shuts_down {
            // Where the connection has ended there is nothing to shut down.
            let _ = self.stream.socket.shutdown();
        }
    }
}

impl Deref for ReadHalf<'_> {
    type Target = TcpStream;

    fn deref(&self) -> &TcpStream {
        self.0
    }
}

impl Deref for WriteHalf<'_> {
    type Target = TcpStream;

    fn deref(&self) -> &TcpStream {
        self.0
    }
}

impl Deref for OwnedReadHalf {
    type Target = TcpStream;

    fn deref(&self) -> &TcpStream {
        &self.0
    }
}

impl Deref for OwnedWriteHalf {
    type Target = TcpStream;

    fn deref(&self) -> &TcpStream {
        &self.stream
    }
}

macro_rules! of_stream {
    ($half:ty) => {
        impl AsRef<TcpStream> for $half {
            fn as_ref(&self) -> &TcpStream {
                self
            }
        }
    };
}

of_stream!(ReadHalf<'_>);
of_stream!(OwnedReadHalf);
of_stream!(WriteHalf<'_>);
of_stream!(OwnedWriteHalf);
