//! State of a socket beside the host: who waits for it, and what it was told.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;

use base::Instant;
use bytes::Bytes;
use stack::{Event, Failure, ReadError, SocketId, WriteError, WriteFlags};

use crate::error;
use crate::state::State;
use crate::waiters::{Waiters, Woken};

/// State of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The handshake is not done.
    Opening,
    Open,
    /// It ended in order.
    Closed,
    Failed {
        failure: Failure,
        /// A call has said so already.
        is_told: bool,
    },
}

/// One socket. Of a listener only `readers` is used.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) readers: Waiters,
    pub(crate) writers: Waiters,
    phase: Phase,
    /// A write would take something.
    has_room: bool,
    /// Taken out of the host to be looked at, and not read yet.
    held: VecDeque<Bytes>,
    /// Dropping the socket breaks the connection.
    pub(crate) zero_linger: bool,
}

impl Entry {
    fn in_phase(phase: Phase) -> Self {
        Self {
            readers: Waiters::default(),
            writers: Waiters::default(),
            phase,
            has_room: phase == Phase::Open,
            held: VecDeque::new(),
            zero_linger: false,
        }
    }

    /// A connection that we open.
    pub(crate) fn opening() -> Self {
        Self::in_phase(Phase::Opening)
    }

    /// A connection that was accepted, or a listener.
    pub(crate) fn open() -> Self {
        Self::in_phase(Phase::Open)
    }

    pub(crate) fn on_event(&mut self, event: Event, woken: &mut Woken) {
        match event {
            Event::Connected => {
                self.phase = Phase::Open;
                self.has_room = true;
                self.writers.take(woken);
            }
            Event::Acceptable | Event::Readable => self.readers.take(woken),
            Event::Writable => {
                self.has_room = true;
                self.writers.take(woken);
            }
            Event::Closed | Event::Failed(_) => {
                self.phase = match event {
                    Event::Failed(failure) => Phase::Failed {
                        failure,
                        is_told: false,
                    },
                    _ => Phase::Closed,
                };
                self.readers.take(woken);
                self.writers.take(woken);
            }
            // Completions are of no interest to who writes without waiting.
            _ => {}
        }
    }

    /// A write returns at once, if only with an error.
    pub(crate) fn is_writable(&self) -> bool {
        self.has_room || self.is_over()
    }

    /// The connection has ended, in order or not.
    pub(crate) const fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Closed | Phase::Failed { .. })
    }

    /// Whether it failed, and no call has reported it yet.
    const fn has_news(&self) -> bool {
        matches!(self.phase, Phase::Failed { is_told: false, .. })
    }

    /// The failure that no call has reported yet.
    pub(crate) fn take_failure(&mut self) -> Option<io::Error> {
        let Phase::Failed { failure, is_told } = &mut self.phase else {
            return None;
        };
        let is_news = !std::mem::replace(is_told, true);
        is_news.then(|| error::of_failure(*failure))
    }

    pub(crate) fn is_broken_at_close(&self) -> bool {
        self.zero_linger || !self.held.is_empty()
    }

    fn held_bytes(&self) -> usize {
        self.held.iter().map(Bytes::len).sum()
    }
}

/// Calls of one socket. What cannot be done yet is [`io::ErrorKind::WouldBlock`].
impl State {
    fn entry(&mut self, id: SocketId) -> io::Result<&mut Entry> {
        self.sockets.get_mut(&id).ok_or_else(error::not_connected)
    }

    /// Whether the handshake is done.
    pub(crate) fn finish_connect(&mut self, id: SocketId) -> io::Result<()> {
        self.check()?;
        let entry = self.entry(id)?;
        match entry.phase {
            Phase::Opening => Err(error::would_block()),
            Phase::Open | Phase::Closed => Ok(()),
            Phase::Failed { failure, .. } => Err(error::of_failure(failure)),
        }
    }

    /// Hands slices of what was received to `take`, up to `max` bytes; returns how many bytes, 0
    /// at the end of the stream.
    pub(crate) fn read(
        &mut self,
        now: Instant,
        id: SocketId,
        max: usize,
        take: impl FnMut(Bytes),
    ) -> io::Result<usize> {
        self.check_sound()?;
        let entry = self.entry(id)?;
        if let Some(mut first) = entry.held.pop_front() {
            if first.len() > max {
                entry.held.push_front(first.split_off(max));
            }
            let bytes = first.len();
            std::iter::once(first).for_each(take);
            return Ok(bytes);
        }
        match self.host.read_chunks(now, id, max) {
            Ok(payload) => {
                let bytes = payload.len() as usize;
                payload.into_chunks().for_each(take);
                Ok(bytes)
            }
            Err(ReadError::Empty) => {
                self.check()?;
                Err(error::would_block())
            }
            // As the kernel does: the first call hears why, to those after it the stream has ended.
            Err(ReadError::Failed(_)) => self.entry(id)?.take_failure().map_or(Ok(0), Err),
            Err(_) => Err(error::not_connected()),
        }
    }

    /// As [`State::read`] of at most one slice; what else came out of the host waits for the next
    /// call.
    pub(crate) fn read_chunk(
        &mut self,
        now: Instant,
        id: SocketId,
        max: usize,
    ) -> io::Result<Bytes> {
        let mut chunks = VecDeque::new();
        self.read(now, id, max, |chunk| chunks.push_back(chunk))?;
        let first = chunks.pop_front().unwrap_or_default();
        self.entry(id)?.held.append(&mut chunks);
        Ok(first)
    }

    /// Copies what the next reads return, up to the length of `into`.
    pub(crate) fn peek(
        &mut self,
        now: Instant,
        id: SocketId,
        into: &mut [u8],
    ) -> io::Result<usize> {
        self.check_sound()?;
        let held = self.entry(id)?.held_bytes();
        if held < into.len() {
            let more = self.host.read_chunks(now, id, into.len() - held);
            match more {
                Ok(payload) => self.entry(id)?.held.extend(payload.into_chunks()),
                Err(_) if held > 0 => {}
                // Nothing is there to look at: say why.
                Err(_) => return self.read(now, id, 0, drop),
            }
        }
        let mut at = 0;
        for chunk in &self.entry(id)?.held {
            let bytes = chunk.len().min(into.len() - at);
            into[at..at + bytes].copy_from_slice(&chunk[..bytes]);
            at += bytes;
        }
        Ok(at)
    }

    /// A read returns at once, if only with an error.
    pub(crate) fn is_readable(&mut self, now: Instant, id: SocketId) -> bool {
        let is_held = |entry: &Entry| !entry.held.is_empty();
        self.check().is_err()
            || self.sockets.get(&id).is_none_or(is_held)
            || self.host.unread_bytes(id) > 0
            || self.host.remote_addr(id).is_some()
                && !matches!(self.host.read_chunks(now, id, 0), Err(ReadError::Empty))
    }

    /// Nothing is left to read, and nothing more arrives, of what is readable.
    pub(crate) fn is_read_to_end(&self, id: SocketId) -> bool {
        let is_held = self
            .sockets
            .get(&id)
            .is_some_and(|entry| !entry.held.is_empty());
        !is_held && self.host.unread_bytes(id) == 0
    }

    /// Whether there is an error that no call has reported yet.
    pub(crate) fn has_error(&self, id: SocketId) -> bool {
        self.check().is_err() || self.sockets.get(&id).is_some_and(Entry::has_news)
    }

    /// Whether a write may be tried; without looking at the host.
    pub(crate) fn may_write(&mut self, id: SocketId) -> io::Result<()> {
        self.check()?;
        if self.entry(id)?.is_writable() {
            Ok(())
        } else {
            Err(error::would_block())
        }
    }

    /// Takes what fits from the front of `chunk`.
    pub(crate) fn write(&mut self, now: Instant, id: SocketId, chunk: Bytes) -> io::Result<usize> {
        self.may_write(id)?;
        let wanted = chunk.len();
        // A program that waits is woken by `Event::Writable`, not by the host's own queue of
        // waiting writes.
        let flags = WriteFlags::default().with_no_wait(true);
        let written = self.host.write_chunk(now, id, chunk, flags);
        let entry = self.entry(id)?;
        match written {
            Ok(bytes) => {
                entry.has_room = bytes == wanted;
                Ok(bytes)
            }
            Err(WriteError::Full) => {
                entry.has_room = false;
                Err(error::would_block())
            }
            Err(WriteError::NotConnected) => Err(error::not_connected()),
            // As the kernel does: the first call hears why, those after it that it is so.
            Err(WriteError::Failed(_)) => {
                Err(entry.take_failure().unwrap_or_else(error::broken_pipe))
            }
            Err(_) => Err(error::broken_pipe()),
        }
    }

    /// No more data from us.
    pub(crate) fn shutdown(&mut self, now: Instant, id: SocketId) -> io::Result<()> {
        self.check()?;
        let Some(entry) = self.sockets.get_mut(&id) else {
            return Err(error::not_connected());
        };
        match entry.phase {
            Phase::Open => {
                // Who waits for room hears at once that there will be none.
                entry.has_room = true;
                entry.writers.take(&mut self.woken);
                self.host.shutdown(now, id);
                Ok(())
            }
            // As in tokio: there is nothing left to shut down.
            Phase::Closed | Phase::Failed { .. } => Ok(()),
            Phase::Opening => Err(error::not_connected()),
        }
    }

    /// The next connection of a listener, with its own entry.
    pub(crate) fn accept(
        &mut self,
        now: Instant,
        listener: SocketId,
    ) -> io::Result<(SocketId, SocketAddr)> {
        self.check()?;
        let accepted = self.host.accept(now, listener);
        let id = accepted.ok_or_else(error::would_block)?;
        let peer = self.host.remote_addr(id);
        self.sockets.insert(id, Entry::open());
        Ok((id, peer.ok_or_else(error::not_connected)?))
    }
}
