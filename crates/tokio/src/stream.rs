//! Connections.

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use base::{FlowSample, KnobValue};
use bytes::{Buf as _, BufMut, Bytes};
use smallvec::SmallVec;
use stack::Wait;
use tokio::io::{Interest, ReadBuf, Ready};
use tokio::net::{ToSocketAddrs, lookup_host};

use crate::error;
use crate::net::Net;
use crate::options::TcpSocket;
use crate::socket::{Side, Socket};
use crate::split::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, WriteHalf};
use crate::state::State;

/// Most bytes that [`TcpStream::read_chunk`] takes out of the receive buffer at once.
const CHUNK_BYTES_MAX: usize = 256 << 10;

/// A connection between a socket of ours and its peer; the counterpart of `tokio::net::TcpStream`.
///
/// Dropping it closes the connection: what was written is still delivered, by the task of its
/// [`Net`] (for a minute at most where nothing else holds that net, and only while the runtime
/// lives; see [`Net::wait_idle`]), unless there is data that arrived and was not read; then the
/// peer sees a reset, as with the kernel's sockets.
///
/// What breaks the connection is told once, by the first read, write or
/// [`take_error`](Self::take_error) after it; then reads are at the end of the stream, and writes
/// are broken pipes.
///
/// # Cancel safety
/// Each method here does its work at once or not at all: a future that is dropped before it is
/// ready has read, written and changed nothing.
pub struct TcpStream {
    pub(crate) socket: Socket,
}

impl TcpStream {
    pub(crate) const fn of(socket: Socket) -> Self {
        Self { socket }
    }

    /// Opens a connection from `net` to `addr`, an address, or a name that the resolver of this
    /// machine knows; the first of its addresses that answers. A future that is dropped gives the
    /// attempt up.
    ///
    /// # Errors
    /// [`io::ErrorKind::ConnectionRefused`], [`io::ErrorKind::TimedOut`],
    /// [`io::ErrorKind::HostUnreachable`]; [`io::ErrorKind::NetworkUnreachable`] where the host has
    /// no address of that IP version; what the resolver says.
    pub async fn connect(net: &Net, addr: impl ToSocketAddrs) -> io::Result<Self> {
        let mut last = None;
        for addr in lookup_host(addr).await? {
            match TcpSocket::new(net).connect(addr).await {
                Ok(stream) => return Ok(stream),
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

    /// The net that it belongs to.
    #[must_use]
    pub const fn net(&self) -> &Net {
        self.socket.net()
    }

    /// Our end; after the end of the connection too.
    ///
    /// # Errors
    /// None.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket
            .look(|state, _, id| state.host.local_addr(id))
            .ok_or_else(error::not_connected)
    }

    /// The other end; after the end of the connection too, when the kernel's sockets have forgotten
    /// it.
    ///
    /// # Errors
    /// None.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.socket
            .look(|state, _, id| state.host.remote_addr(id))
            .ok_or_else(error::not_connected)
    }

    /// Why the connection broke, if it did and no call has said so.
    ///
    /// # Errors
    /// None.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        Ok(self.socket.call(|state, _, id| {
            let entry = state.sockets.get_mut(&id)?;
            entry.take_failure()
        }))
    }

    /// Waits until it may be read from, written to, or both, as `interest` asks. What it says may
    /// have changed by the time of the call.
    ///
    /// [`Ready::READ_CLOSED`] comes once nothing is left to read and nothing more arrives,
    /// [`Ready::WRITE_CLOSED`] once the connection has ended, and [`Ready::ERROR`], for who asks
    /// for it, while no call has said what broke it.
    ///
    /// # Errors
    /// None; those of the connection come from the call that follows.
    pub async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        let readiness = move |state: &mut State, now, id| state.readiness(now, id, interest);
        self.socket.wait(interest, readiness).await
    }

    /// Waits until [`TcpStream::try_read`] has something to say.
    ///
    /// # Errors
    /// None.
    pub async fn readable(&self) -> io::Result<()> {
        self.ready(Interest::READABLE).await.map(drop)
    }

    /// Waits until [`TcpStream::try_write`] has something to say.
    ///
    /// # Errors
    /// None.
    pub async fn writable(&self) -> io::Result<()> {
        self.ready(Interest::WRITABLE).await.map(drop)
    }

    /// As [`TcpStream::readable`], for the task that polls last.
    ///
    /// # Errors
    /// None.
    pub fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket.poll(cx, Side::Read, |state, now, id| {
            let is_readable = state.is_readable(now, id);
            is_readable.then_some(()).ok_or_else(error::would_block)
        })
    }

    /// As [`TcpStream::writable`], for the task that polls last.
    ///
    /// # Errors
    /// What keeps packets from moving.
    pub fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket
            .poll(cx, Side::Write, |state, _, id| state.may_write(id))
    }

    /// Reads what is there; 0 at the end of the stream.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] where nothing is there yet; what broke the connection.
    pub fn try_read(&self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        self.socket.call(|state, now, id| {
            let mut at = 0;
            state.read(now, id, into.len(), |chunk| {
                into[at..at + chunk.len()].copy_from_slice(&chunk);
                at += chunk.len();
            })
        })
    }

    /// As [`TcpStream::try_read`], into several slices, each filled before the next.
    ///
    /// # Errors
    /// Those of [`TcpStream::try_read`].
    pub fn try_read_vectored(&self, slices: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let max = slices.iter().map(|slice| slice.len()).sum();
        let chunks = self.try_read_chunks(max)?;
        let mut chunks_left = chunks.iter().flatten();
        for slice in slices {
            slice
                .iter_mut()
                .zip(&mut chunks_left)
                .for_each(|(place, byte)| *place = *byte);
        }
        Ok(chunks.iter().map(Bytes::len).sum())
    }

    /// As [`TcpStream::try_read`], at the end of what is in `into`, up to its capacity; a buffer
    /// that grows has 64 bytes of room at least.
    ///
    /// # Errors
    /// Those of [`TcpStream::try_read`].
    pub fn try_read_buf(&self, into: &mut impl BufMut) -> io::Result<usize> {
        // What room there is without growing; where there is none, what it grows by.
        let max = into.chunk_mut().len();
        let chunks = self.try_read_chunks(max)?;
        chunks.iter().for_each(|chunk| into.put_slice(chunk));
        Ok(chunks.iter().map(Bytes::len).sum())
    }

    fn try_read_chunks(&self, max: usize) -> io::Result<SmallVec<[Bytes; 4]>> {
        let mut chunks = SmallVec::new();
        if max > 0 {
            self.socket
                .call(|state, now, id| state.read(now, id, max, |chunk| chunks.push(chunk)))?;
        }
        Ok(chunks)
    }

    /// Writes what fits; returns how many bytes.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] where nothing fits; [`io::ErrorKind::BrokenPipe`] after a
    /// shutdown; what broke the connection.
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.try_write(&[IoSlice::new(bytes)])
    }

    /// As [`TcpStream::try_write`], of several slices in one write.
    ///
    /// # Errors
    /// Those of [`TcpStream::try_write`].
    pub fn try_write_vectored(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.socket.try_write(slices)
    }

    /// Copies what the next reads will return, without taking it; 0 at the end of the stream.
    ///
    /// # Errors
    /// What broke the connection.
    pub async fn peek(&self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        let interest = Interest::READABLE;
        self.socket
            .wait(interest, |state, now, id| state.peek(now, id, into))
            .await
    }

    /// As [`TcpStream::peek`], for the task that polls last.
    ///
    /// # Errors
    /// What broke the connection.
    pub fn poll_peek(
        &self,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<usize>> {
        let unfilled = into.initialize_unfilled();
        if unfilled.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let peeked = self.socket.poll(cx, Side::Read, |state, now, id| {
            state.peek(now, id, unfilled)
        });
        if let Poll::Ready(Ok(bytes)) = peeked {
            into.advance(bytes);
        }
        peeked
    }

    /// Reads without copying: a slice of what arrived, as it arrived, of at most `max` bytes. An
    /// empty one is the end of the stream.
    ///
    /// # Errors
    /// What broke the connection.
    ///
    /// # Panics
    /// Where `max` is 0.
    pub async fn read_chunk(&self, max: usize) -> io::Result<Bytes> {
        assert!(
            max > 0,
            "a chunk of no bytes would be the end of the stream"
        );
        let max = max.min(CHUNK_BYTES_MAX);
        let interest = Interest::READABLE;
        self.socket
            .wait(interest, |state, now, id| state.read_chunk(now, id, max))
            .await
    }

    /// Writes without copying: waits until some of `chunk` fits, cuts that off its front, and
    /// returns how many bytes. The peer gets slices of the same memory.
    ///
    /// # Errors
    /// [`io::ErrorKind::BrokenPipe`] after a shutdown; what broke the connection.
    pub async fn write_chunk(&self, chunk: &mut Bytes) -> io::Result<usize> {
        if chunk.is_empty() {
            return Ok(0);
        }
        let interest = Interest::WRITABLE;
        let written = self
            .socket
            .wait(interest, |state, now, id| {
                state.write(now, id, chunk.clone())
            })
            .await?;
        chunk.advance(written);
        Ok(written)
    }

    /// Whether small writes leave at once (`TCP_NODELAY`).
    ///
    /// # Errors
    /// None.
    pub fn nodelay(&self) -> io::Result<bool> {
        Ok(self.knob("nodelay")? == KnobValue::Flag(true))
    }

    /// Makes small writes leave at once, or no longer so.
    ///
    /// # Errors
    /// None but those of [`TcpStream::set_knob`].
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.set_knob("nodelay", &KnobValue::Flag(nodelay))
    }

    /// Whether the next ACKs are immediate.
    ///
    /// # Errors
    /// None.
    pub fn quickack(&self) -> io::Result<bool> {
        Ok(self.knob("quickack")? == KnobValue::Flag(true))
    }

    /// Makes the next ACKs immediate, or no longer so (`TCP_QUICKACK`).
    ///
    /// # Errors
    /// None but those of [`TcpStream::set_knob`].
    pub fn set_quickack(&self, quickack: bool) -> io::Result<()> {
        self.set_knob("quickack", &KnobValue::Flag(quickack))
    }

    /// Hop limit of what it sends (`IP_TTL`).
    ///
    /// # Errors
    /// None.
    pub fn ttl(&self) -> io::Result<u32> {
        match self.knob("hop_limit")? {
            KnobValue::Number(hops) => Ok(u32::try_from(hops).unwrap_or(u32::MAX)),
            _ => Err(error::not_connected()),
        }
    }

    /// Sets the hop limit.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] outside 1 to 255.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.set_knob("hop_limit", &KnobValue::Number(ttl.into()))
    }

    /// Makes dropping the stream break the connection: the peer sees a reset, and what was not
    /// delivered never is (`SO_LINGER` of 0).
    ///
    /// # Errors
    /// None.
    pub fn set_zero_linger(&self) -> io::Result<()> {
        self.socket.call(|state, _, id| {
            if let Some(entry) = state.sockets.get_mut(&id) {
                entry.zero_linger = true;
            }
        });
        Ok(())
    }

    /// The value of a knob of [`base::KNOBS`].
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`]: no such knob, or none of this stack's.
    pub fn knob(&self, name: &str) -> io::Result<KnobValue> {
        self.socket.knob(name)
    }

    /// Turns a knob of [`base::KNOBS`], on the open connection. What acts only in the handshake has
    /// no effect any more; see [`TcpSocket::set_knob`] for that.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`]: no such knob, none of this stack's, or a value out of its
    /// range.
    pub fn set_knob(&self, name: &str, value: &KnobValue) -> io::Result<()> {
        self.socket.set_knob(name, value)
    }

    /// Why it does not send more at this moment, and until when at the latest; `None` after the end
    /// of the connection.
    #[must_use]
    pub fn limit(&self) -> Option<Wait> {
        self.socket.look(|state, now, id| {
            let entry = state.sockets.get(&id)?;
            // Who has ended waits for nothing.
            if entry.is_over() {
                return None;
            }
            state.host.limit(now, id)
        })
    }

    /// The flow record: window, round-trip time, losses and what else `tcp_info` has; after the
    /// end of the connection, as it was then.
    #[must_use]
    pub fn sample(&self) -> Option<FlowSample> {
        self.socket
            .look(|state, now, id| state.host.sample(now, id))
    }

    /// Two halves that are used at the same time, by one task.
    pub fn split(&mut self) -> (ReadHalf<'_>, WriteHalf<'_>) {
        (ReadHalf::new(self), WriteHalf::new(self))
    }

    /// Two halves for two tasks. The connection is closed when both are dropped.
    #[must_use]
    pub fn into_split(self) -> (OwnedReadHalf, OwnedWriteHalf) {
        let stream = Arc::new(self);
        (
            OwnedReadHalf::new(Arc::clone(&stream)),
            OwnedWriteHalf::new(stream),
        )
    }

    pub(crate) fn poll_connected(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket
            .poll(cx, Side::Write, |state, _, id| state.finish_connect(id))
    }
}

impl fmt::Debug for TcpStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpStream")
            .field("local", &self.local_addr().ok())
            .field("peer", &self.peer_addr().ok())
            .finish()
    }
}
