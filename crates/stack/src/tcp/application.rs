//! Calls of the application on a connection: it writes, reads, and takes it over.

use base::settings::Nagle;
use base::{Instant, Limit};
use bytes::Bytes;

use super::{Connection, State};
use crate::host::{Failure, ReadError, Shared, WriteError, WriteFlags, Writer};
use crate::packet::Payload;
use crate::recv::AckWanted;
use crate::send::{SegmentSizes, Source, WriteOutcome};

impl Connection {
    /// Sends data held by a cork or `MSG_MORE`, as far as Nagle's algorithm permits (Linux
    /// `tcp_push_pending_frames`, after `TCP_NODELAY` and the end of `TCP_CORK`).
    pub(crate) fn push(&mut self, now: Instant, shared: &mut Shared) {
        if self.settings.small_writes.nagle == Nagle::Off {
            self.send.flush();
        }
        self.send.end_more();
        if self.state != State::Closed {
            self.output(now, shared);
        }
    }

    /// Takes data from the application.
    pub(crate) fn write(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        chunks: &[Bytes],
        flags: WriteFlags,
    ) -> Result<usize, WriteError> {
        if let Some(failure) = self.failures.broke() {
            return Err(WriteError::Failed(failure));
        }
        if !self.state.is_synchronized() && self.state != State::Closed {
            return Err(WriteError::NotConnected);
        }
        if !self.state.may_write() {
            return Err(WriteError::Closed);
        }
        let wanted: usize = chunks.iter().map(Bytes::len).sum();
        if wanted == 0 {
            return Ok(0);
        }
        let room = self.shared_room(shared, wanted);
        let part = room.map(|(room, _)| part_of(chunks, room));
        let (taken, completed) = match &part {
            None => self.write_in_parts(now, shared, chunks, flags),
            // Flags apply to the last byte, which is in the rest.
            Some(part) => {
                let flags = WriteFlags::default().with_no_wait(flags.no_wait);
                self.write_in_parts(now, shared, part, flags)
            }
        };
        self.socket
            .on_write(match (taken < wanted, completed, room) {
                (true, _, Some((_, awaited))) => awaited,
                (false, true, _) => Writer::Free,
                _ => Writer::AwaitsRoom,
            });
        if let Some((_, awaited)) = room {
            self.on_shared_refusal(shared, awaited);
        }
        self.report_buffers(shared);
        self.output(now, shared);
        if flags.more && !matches!(self.held.limit(), Limit::Cork | Limit::PeerWindow) {
            // What does not leave by this write is ordinary data for all that comes (`tcp_push`).
            self.send.end_more();
        }
        if taken == 0 {
            Err(WriteError::Full)
        } else {
            Ok(taken)
        }
    }

    /// Hands a write over, and sends in the middle of it where the stack does.
    fn write_in_parts(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        chunks: &[Bytes],
        flags: WriteFlags,
    ) -> (usize, bool) {
        let sizes = self.segment_sizes();
        let (mut source, mut taken, mut env) = (Source::new(chunks), 0, None);
        loop {
            let outcome = self.hand_over(now, &mut source, flags, &sizes);
            taken += outcome.taken;
            let Some(pause) = outcome.pause else {
                return (taken, outcome.completed);
            };
            env = self.send_within_write(now, shared, pause, env);
        }
    }

    /// Hands over what is taken up to the next pause; each packet that it begins ends an idle time.
    fn hand_over(
        &mut self,
        now: Instant,
        source: &mut Source<'_>,
        flags: WriteFlags,
        sizes: &SegmentSizes,
    ) -> WriteOutcome {
        let before = self.send.unsent_packets();
        let outcome = self
            .send
            .write(source, flags, self.recovery.progress(), sizes);
        for _ in before..self.send.unsent_packets() {
            self.recovery.before_transmit(now);
        }
        outcome
    }

    /// Reports room to an application that waits for it: in its own buffer and in the shared ones.
    /// If the pool is empty, the host asks again; if memory is exhausted, the next ACK does, since
    /// the connection always has data in flight then.
    #[inline]
    pub(super) fn offer_room(&mut self, shared: &mut Shared) {
        if self.socket.writer() != Writer::Free {
            self.offer_room_to_writer(shared);
        }
    }

    /// A packet of new data left: the buffer of a writer that waits may grow while the congestion
    /// window is not used up (Linux `tcp_event_new_data_sent`). The writer is told when all has
    /// left.
    #[inline]
    pub(super) fn grow_send_buffer(&mut self, shared: &Shared) {
        if self.send.writer_waits() {
            let env = self.send_memory_env(shared.memory.is_tight());
            self.send.grow(&env);
        }
    }

    #[inline(never)]
    fn offer_room_to_writer(&mut self, shared: &mut Shared) {
        let env = self.send_memory_env(shared.memory.is_tight());
        if !self.send.check_space(self.recovery.progress(), &env) {
            return;
        }
        if !self.socket.has_room_to_write(shared) {
            self.send.on_write_refused();
            return;
        }
        let has_pool = self.pool_room(shared) != Some(0);
        if !has_pool {
            self.send.on_write_refused();
        }
        self.socket.on_room(shared, has_pool);
    }

    /// Gives data to the application; an empty payload means that the peer has closed.
    pub(crate) fn read(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        max: usize,
    ) -> Result<Payload, ReadError> {
        let payload = self.recv.read(now, max, shared.memory.is_tight());
        if payload.is_empty() {
            self.report_memory(shared);
            return self.read_nothing(max);
        }
        self.recv.give_memory(&mut shared.spare_queue);
        let has_more = self.recv.unread_bytes() > 0 && self.recv.is_readable();
        self.socket.on_read(has_more);
        self.report_memory(shared);
        Ok(payload)
    }

    /// Shows data to the application that stays to be read; otherwise as [`Self::read`].
    pub(crate) fn peek(&mut self, now: Instant, max: usize) -> Result<Payload, ReadError> {
        let payload = self.recv.peek(now, max);
        if payload.is_empty() {
            return self.read_nothing(max);
        }
        Ok(payload)
    }

    /// Result of a read of `max` bytes that takes none.
    fn read_nothing(&mut self, max: usize) -> Result<Payload, ReadError> {
        // Of no bytes where some wait (Linux `tcp_recvmsg_locked`).
        let takes_none = max == 0 && self.recv.unread_bytes() > 0;
        if self.recv.is_finished() || takes_none {
            return Ok(Payload::default());
        }
        match self.failures.broke() {
            None if self.recv.is_shut() => Ok(Payload::default()),
            broke => {
                self.socket.on_read(false);
                Err(broke.map_or(ReadError::Empty, ReadError::Failed))
            }
        }
    }

    /// Whether a waiting program would be woken: by data, the end, or a failure.
    pub(crate) fn is_readable(&self) -> bool {
        // Who gave up an attempt to connect waits for nothing (Linux `tcp_poll`).
        let broke = self.failures.broke();
        self.recv.is_readable() || broke.is_some_and(|why| why != Failure::Disconnected)
    }

    /// Sends the ACK that a read has made due, and nothing else (Linux `tcp_cleanup_rbuf`). Returns
    /// whether there was one.
    #[inline]
    pub(crate) fn answers_read(&mut self, now: Instant, shared: &mut Shared) -> bool {
        let answers = self.state != State::Closed && self.recv.ack_wanted() == AckWanted::Now;
        if answers {
            self.output(now, shared);
        }
        answers
    }

    /// Whether there is an event to report to an application that accepts the connection.
    pub(crate) fn on_accept(&mut self, now: Instant, shared: &mut Shared) {
        let is_readable = self.recv.is_readable();
        self.socket
            .on_accept(shared, is_readable, self.failures.broke());
        self.recv.release_window();
        if self.state != State::Closed {
            self.output(now, shared);
        }
    }
}

/// At most the first `bytes` of `chunks`.
fn part_of(chunks: &[Bytes], bytes: usize) -> smallvec::SmallVec<[Bytes; 4]> {
    let mut room = bytes;
    let mut part = smallvec::SmallVec::new();
    for chunk in chunks {
        let end = chunk.len().min(room);
        if end > 0 {
            part.push(chunk.slice(..end));
        }
        room -= end;
    }
    part
}
