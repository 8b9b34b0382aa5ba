//! Received and written data in the host's memory and in its pool of buffers, and its release where
//! others need room.

use base::Instant;

use super::{Connection, State};
use crate::host::{Grant, Shared, Writer};
use crate::packet::Segment;

impl Connection {
    /// Whether there is memory for received data, after this connection has freed what it can: by
    /// collapsing small packets, then by dropping out-of-order data. Bare ACKs need none: the
    /// interface holds a few buffers of its own to receive into, and ACKs are what frees those of
    /// the sending side.
    ///
    /// The segment that the application waits for is taken whatever the budget of the host says, or
    /// the connection would be stuck (RFC 9293 section 3.8.6: the receiver must take what lies in
    /// its window). A pool differs: without a free buffer there is nothing to receive into.
    #[inline]
    pub(super) fn admits(&mut self, shared: &mut Shared, start: i64, segment: &Segment) -> bool {
        let is_plenty = shared.memory.is_plenty() && !shared.pool.is_limited();
        is_plenty || self.admits_of_little(shared, start, segment)
    }

    #[inline(never)]
    fn admits_of_little(&mut self, shared: &mut Shared, start: i64, segment: &Segment) -> bool {
        let (bytes, segments) = (segment.payload.len(), segment.segments());
        let (next, end) = (self.recv.next() as i64, start + i64::from(bytes));
        if bytes == 0 || end <= next {
            return true;
        }
        let is_in_order = start <= next;
        let above = start.max(next) as u64;
        if !shared.pool.can_take(segments) {
            self.give(shared, above);
            if !shared.pool.can_take(segments) {
                shared.memory.want();
                shared.pool.on_refused();
                shared.counters.pool_drops += 1;
                return false;
            }
        }
        let more = self.recv.memory_of(bytes, segments);
        let mut grant = self.socket.ask_memory(shared, more);
        if !grant.is_given() && self.recv.collapse_where_worthwhile() {
            self.report_memory(shared);
            grant = self.socket.ask_memory(shared, more);
        }
        if !grant.is_given() {
            self.give(shared, above);
            grant = self.socket.ask_memory(shared, more);
        }
        if grant.is_given() {
            return true;
        }
        if grant == Grant::Starved {
            shared.memory.want();
        }
        if is_in_order && self.recv.unread_bytes() == 0 {
            return true;
        }
        shared.counters.memory_drops += 1;
        self.recv.refuse_for_memory(is_in_order);
        false
    }

    /// Drops out-of-order data from `above` on; the peer still has it (RFC 2018 section 8). Returns
    /// whether there was any.
    fn give(&mut self, shared: &mut Shared, above: u64) -> bool {
        let given = self.recv.give_out_of_order(above);
        shared.counters.reclaimed += given;
        self.report_memory(shared);
        given > 0
    }

    /// Others need memory: if this connection holds more than `much` of it, or buffers of a pool
    /// that is nearly empty, it drops its out-of-order data. Returns whether there was any.
    pub(crate) fn give_back(&mut self, shared: &mut Shared, much: u64) -> bool {
        let is_asked = self.socket.holds_more_than(much) || shared.pool.is_short();
        is_asked && self.give(shared, self.recv.next())
    }

    /// Bytes of so many that what all connections share lets the application write, and what it
    /// waits for beyond them; `None`: all.
    #[inline]
    pub(super) fn shared_room(&self, shared: &Shared, wanted: usize) -> Option<(usize, Writer)> {
        let is_plenty = shared.memory.is_plenty_for(wanted as u64) && !shared.pool.is_limited();
        if is_plenty {
            return None;
        }
        self.shared_room_of_little(shared, wanted)
    }

    #[inline(never)]
    fn shared_room_of_little(&self, shared: &Shared, wanted: usize) -> Option<(usize, Writer)> {
        // Its own memory is freed by ACKs, which check for room again.
        let room = self.socket.room_to_write(shared, wanted as u64);
        let memory = Some((room as usize, Writer::AwaitsRoom));
        let pool = self
            .pool_room(shared)
            .map(|room| (room, Writer::AwaitsPool));
        [pool, memory]
            .into_iter()
            .flatten()
            .filter(|(room, _)| *room < wanted)
            .min_by_key(|(room, _)| *room)
    }

    /// A write found no room in what all connections share, and was refused or cut short: what was
    /// written is pushed (Linux `tcp_push` with `TCP_NAGLE_PUSH`).
    pub(super) fn on_shared_refusal(&mut self, shared: &mut Shared, awaited: Writer) {
        self.send.on_write_refused();
        self.send.flush();
        if awaited == Writer::AwaitsPool {
            shared.pool.on_refused();
        } else {
            shared.counters.memory_write_refusals += 1;
            shared.memory.want();
        }
    }

    /// Bytes that the pool lets the application write; `None` where there is no pool.
    pub(super) fn pool_room(&self, shared: &Shared) -> Option<usize> {
        let bytes = self.mss() as usize;
        shared
            .pool
            .is_limited()
            .then(|| shared.pool.free() as usize * bytes)
    }

    /// Resets an orphaned connection if the host's memory is exhausted and it holds much of it
    /// (Linux `tcp_check_oom`: when it is closed, or one of its timers fires).
    pub(crate) fn give_way(&mut self, now: Instant, shared: &mut Shared) {
        if self.socket.gives_way(shared) && self.state != State::Closed {
            shared.counters.memory_resets += 1;
            self.abort(now, shared);
        }
    }

    /// Tells the host what it holds of its memory, after data came in or was read, and of its
    /// pool.
    pub(super) fn report_memory(&mut self, shared: &mut Shared) {
        self.socket.hold_received(shared, self.recv.memory_bytes());
        self.report_buffers(shared);
    }

    /// Tells the host what it holds of its memory, after data was written or acknowledged, and of
    /// its pool.
    #[inline]
    pub(super) fn report_sent(&mut self, shared: &mut Shared) {
        let bytes = self.send.memory_bytes(self.recovery.progress());
        self.socket.hold_sent(shared, bytes);
        self.report_buffers(shared);
    }

    /// Tells the host what it holds of its pool.
    #[inline]
    pub(super) fn report_buffers(&self, shared: &mut Shared) {
        if shared.pool.is_limited() {
            self.report_buffers_to_pool(shared);
        }
    }

    fn report_buffers_to_pool(&self, shared: &mut Shared) {
        let buffer_bytes = self.mss();
        let received = self.recv.buffers_held(buffer_bytes);
        // An ended connection has nothing to deliver.
        let sent = match self.state {
            State::Closed => 0,
            _ => {
                let progress = self.recovery.progress();
                self.send.buffers_held(progress, buffer_bytes)
            }
        };
        self.socket.hold_buffers(shared, received, sent);
    }

    /// Nothing is sent any more, and no gap will be filled: what waits to be read is all that it
    /// holds.
    pub(super) fn give_back_buffers(&mut self, shared: &mut Shared) {
        self.recv.give_out_of_order(self.recv.next());
        self.send.forget();
        self.socket.hold_received(shared, self.recv.memory_bytes());
        self.socket.hold_sent(shared, 0);
        if shared.pool.is_limited() {
            let received = self.recv.buffers_held(self.mss());
            self.socket.hold_buffers(shared, received, 0);
        }
    }

    /// The connection is about to be forgotten, and with it what it received and sent.
    pub(crate) fn forget_memory(&mut self, shared: &mut Shared) {
        self.socket.hold_received(shared, 0);
        self.socket.hold_sent(shared, 0);
    }
}
