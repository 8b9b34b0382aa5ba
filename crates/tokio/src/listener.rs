//! Waiting for connections.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};

use stack::SocketId;
use tokio::io::Interest;
use tokio::net::{ToSocketAddrs, lookup_host};

use crate::net::Net;
use crate::options::TcpSocket;
use crate::socket::{Side, Socket};
use crate::state::State;
use crate::stream::TcpStream;

/// Connections that may wait to be accepted, as in `tokio::net`.
const BACKLOG: u32 = 1024;

/// Waits for connections; the counterpart of `tokio::net::TcpListener`. Dropping it resets
/// connections that were not accepted.
pub struct TcpListener {
    socket: Socket,
    local: SocketAddr,
}

impl TcpListener {
    pub(crate) const fn of(socket: Socket, local: SocketAddr) -> Self {
        Self { socket, local }
    }

    /// Listens at `addr` of `net`: an address of its host, or an unspecified one for all of that IP
    /// version. Port 0 is a port that is free; on the unspecified address of a host that takes
    /// every address for its own it is all of them, and [`TcpStream::local_addr`] says where a
    /// peer wanted to go.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrInUse`]; [`io::ErrorKind::AddrNotAvailable`] where the host does not
    /// have that address.
    pub async fn bind(net: &Net, addr: impl ToSocketAddrs) -> io::Result<Self> {
        let mut last = None;
        for addr in lookup_host(addr).await? {
            let socket = TcpSocket::new(net);
            socket.bind(addr)?;
            match socket.listen(BACKLOG) {
                Ok(listener) => return Ok(listener),
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                "no address was given, or found",
            )
        }))
    }

    /// Local address.
    ///
    /// # Errors
    /// None.
    pub const fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.local)
    }

    /// The net that it belongs to.
    #[must_use]
    pub const fn net(&self) -> &Net {
        self.socket.net()
    }

    /// Waits for the next connection, and returns it with the address of its peer.
    ///
    /// # Cancel safety
    /// A future that is dropped has accepted nothing.
    ///
    /// # Errors
    /// Where packets cannot move any more.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let accepted = self
            .socket
            .wait(Interest::READABLE, |state, now, id| state.accept(now, id))
            .await?;
        Ok(self.stream(accepted))
    }

    /// As [`TcpListener::accept`], for the task that polls last.
    ///
    /// # Errors
    /// Where packets cannot move any more.
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
        let accept = |state: &mut State, now, id| state.accept(now, id);
        let accepted = self.socket.poll(cx, Side::Read, accept);
        accepted.map_ok(|accepted| self.stream(accepted))
    }

    fn stream(&self, (id, peer): (SocketId, SocketAddr)) -> (TcpStream, SocketAddr) {
        let socket = Socket::new(self.net().clone(), id);
        (TcpStream::of(socket), peer)
    }
}

impl fmt::Debug for TcpListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpListener")
            .field("local", &self.local)
            .finish()
    }
}
