//! State of a connection beside TCP: its owner, what its application waits for and was told, and
//! what it holds of memory and pool.
//!
//! Knows no states, segments or windows: the connection says what has happened, this decides whom
//! to notify.

use super::config::{Event, Failure, SocketId};
use super::memory::{Grant, Held};
use super::shared::Shared;

/// Owner of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// The application that opened it.
    Opener,
    /// This listener, which counts it as half open.
    HalfOpen(SocketId),
    /// This listener, until it is accepted.
    Listener(SocketId),
    /// The application that accepted it.
    Acceptor,
}

/// Event for which an application with more to write waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writer {
    /// None.
    Free,
    /// For room in the send buffer.
    AwaitsRoom,
    /// For buffers of the shared pool; there is room in the send buffer.
    AwaitsPool,
}

/// The socket of one connection.
#[derive(Debug)]
pub(crate) struct Socket {
    id: SocketId,
    owner: Owner,
    writer: Writer,
    /// The host has it in its list of waiters for the pool.
    is_pool_waiter: bool,
    /// Readability was reported, and the application has not read since.
    told_readable: bool,
    /// Closed by the application: nothing will be read any more.
    is_orphan: bool,
    /// Memory that was reported to the host.
    memory_held: Held,
}

impl Socket {
    /// Socket of a connection opened by an application, or accepted by `listener`.
    pub(crate) const fn new(id: SocketId, listener: Option<SocketId>) -> Self {
        Self {
            id,
            owner: match listener {
                Some(listener) => Owner::HalfOpen(listener),
                None => Owner::Opener,
            },
            writer: Writer::Free,
            is_pool_waiter: false,
            told_readable: false,
            is_orphan: false,
            memory_held: Held::NONE,
        }
    }

    pub(crate) const fn id(&self) -> SocketId {
        self.id
    }

    /// Whether it came to a listener.
    pub(crate) const fn is_passive(&self) -> bool {
        !matches!(self.owner, Owner::Opener)
    }

    /// The listener that counts it as half open.
    pub(crate) const fn half_open_of(&self) -> Option<SocketId> {
        match self.owner {
            Owner::HalfOpen(listener) => Some(listener),
            Owner::Opener | Owner::Listener(_) | Owner::Acceptor => None,
        }
    }

    /// Called when the connection is established, or the attempt has failed; returns, once, the
    /// listener that counts it as half open.
    pub(crate) fn leave_half_open(&mut self) -> Option<SocketId> {
        let listener = self.half_open_of()?;
        self.owner = Owner::Listener(listener);
        Some(listener)
    }

    /// Whether it has not been accepted yet.
    pub(crate) const fn is_unaccepted(&self) -> bool {
        matches!(self.owner, Owner::HalfOpen(_) | Owner::Listener(_))
    }

    /// Whether it arrived at this listener and has not been accepted yet.
    pub(crate) fn is_unaccepted_of(&self, listener: SocketId) -> bool {
        match self.owner {
            Owner::HalfOpen(its) | Owner::Listener(its) => its == listener,
            Owner::Opener | Owner::Acceptor => false,
        }
    }

    /// Called when an application accepts it; reports events that occurred before.
    pub(crate) fn on_accept(
        &mut self,
        shared: &mut Shared,
        is_readable: bool,
        failure: Option<Failure>,
    ) {
        self.owner = Owner::Acceptor;
        if is_readable {
            self.told_readable = true;
            shared.report(self.id, Event::Readable);
        }
        if let Some(failure) = failure {
            shared.report(self.id, Event::Failed(failure));
        }
    }

    /// Whether the application has closed it.
    pub(crate) const fn is_orphan(&self) -> bool {
        self.is_orphan
    }

    /// The application closes it, or there will be none.
    pub(crate) const fn let_go(&mut self) {
        self.is_orphan = true;
    }

    /// Tells the application, where there is one.
    pub(crate) fn report(&self, shared: &mut Shared, event: Event) {
        if !self.is_orphan {
            shared.report(self.id, event);
        }
    }

    /// The connection failed. An application that accepts it later is notified then.
    pub(crate) fn report_failure(&self, shared: &mut Shared, failure: Failure) {
        if !self.is_unaccepted() {
            self.report(shared, Event::Failed(failure));
        }
    }

    /// There is something to read, which is said once until the application reads.
    pub(crate) fn report_readable(&mut self, shared: &mut Shared) {
        if !self.told_readable && !self.is_unaccepted() && !self.is_orphan {
            self.told_readable = true;
            shared.report(self.id, Event::Readable);
        }
    }

    /// The application waits for another amount of data, which `is_readable` or not.
    pub(crate) fn on_lowat(&mut self, shared: &mut Shared, is_readable: bool) {
        if is_readable {
            self.report_readable(shared);
        } else {
            self.told_readable = false;
        }
    }

    /// The application has read; `has_more`: not everything.
    pub(crate) const fn on_read(&mut self, has_more: bool) {
        self.told_readable = has_more;
    }

    /// Records the event for which the application waits after a write.
    pub(crate) const fn on_write(&mut self, writer: Writer) {
        self.writer = writer;
    }

    /// Event for which the application waits in order to write.
    pub(crate) const fn writer(&self) -> Writer {
        self.writer
    }

    /// There is room in the send buffer for an application that waits for it. `has_pool`: and
    /// buffers of the pool.
    pub(crate) fn on_room(&mut self, shared: &mut Shared, has_pool: bool) {
        if has_pool {
            self.writer = Writer::Free;
            self.report(shared, Event::Writable);
        } else {
            self.writer = Writer::AwaitsPool;
        }
    }

    /// Whether it waits for the pool from now on, which is said once until
    /// [`Socket::on_pool_turn`].
    pub(crate) fn begins_to_await_pool(&mut self) -> bool {
        self.writer == Writer::AwaitsPool && !core::mem::replace(&mut self.is_pool_waiter, true)
    }

    /// Its turn to take buffers of the pool.
    pub(crate) fn on_pool_turn(&mut self) {
        self.is_pool_waiter = false;
        if self.writer == Writer::AwaitsPool {
            self.writer = Writer::AwaitsRoom;
        }
    }

    /// Whether the host lets it take `more` memory for received data.
    pub(crate) fn ask_memory(&self, shared: &Shared, more: u64) -> Grant {
        shared.memory.grant(self.memory_held, more)
    }

    /// How many of these bytes the host lets its application write.
    pub(crate) fn room_to_write(&self, shared: &Shared, wanted: u64) -> u64 {
        shared.memory.room_to_write(self.memory_held, wanted)
    }

    /// Whether the host lets a waiting application write.
    pub(crate) fn has_room_to_write(&self, shared: &Shared) -> bool {
        shared.memory.has_room_to_write(self.memory_held)
    }

    /// Whether it holds more than this much memory.
    pub(crate) const fn holds_more_than(&self, much: u64) -> bool {
        self.memory_held.total() > much
    }

    /// Whether it is orphaned and holds memory that the host lacks (Linux `tcp_check_oom`).
    pub(crate) const fn gives_way(&self, shared: &Shared) -> bool {
        self.is_orphan && shared.memory.is_exhausted() && self.memory_held.is_much_for_an_orphan()
    }

    /// Reports the memory held by received data.
    #[inline]
    pub(crate) fn hold_received(&mut self, shared: &mut Shared, bytes: u64) {
        if let Some(held) = self.memory_held.with_received(bytes) {
            self.hold(shared, held);
        }
    }

    /// Reports the memory held by written data.
    #[inline]
    pub(crate) fn hold_sent(&mut self, shared: &mut Shared, bytes: u64) {
        if let Some(held) = self.memory_held.with_sent(bytes) {
            self.hold(shared, held);
        }
    }

    const fn hold(&mut self, shared: &mut Shared, held: Held) {
        shared.memory.set_held(self.memory_held, held);
        self.memory_held = held;
    }

    /// Reports the buffers of the pool held by received and by sent data.
    pub(crate) fn hold_buffers(&self, shared: &mut Shared, received: u32, sent: u32) {
        shared.pool.set_held(self.id, received, sent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn id(index: u32) -> SocketId {
        SocketId {
            index,
            generation: 0,
        }
    }

    #[test]
    fn it_goes_from_the_peer_by_its_listener_to_an_application() {
        let mut socket = Socket::new(id(2), Some(id(1)));
        assert!(socket.is_passive() && socket.is_unaccepted_of(id(1)));
        assert!(!socket.is_unaccepted_of(id(3)));
        assert_eq!(socket.half_open_of(), Some(id(1)));
        assert_eq!(socket.leave_half_open(), Some(id(1)));
        assert_eq!(socket.leave_half_open(), None);
        assert!(socket.is_unaccepted());
        socket.owner = Owner::Acceptor;
        assert!(socket.is_passive() && !socket.is_unaccepted());
        let socket = Socket::new(id(2), None);
        assert!(!socket.is_passive() && !socket.is_unaccepted());
    }

    #[test]
    fn it_joins_the_queue_for_the_pool_once() {
        let mut socket = Socket::new(id(1), None);
        assert!(!socket.begins_to_await_pool());
        socket.on_write(Writer::AwaitsPool);
        assert!(socket.begins_to_await_pool() && !socket.begins_to_await_pool());
        // It stays in the list until its turn, whatever it waits for meanwhile.
        socket.on_write(Writer::Free);
        socket.on_write(Writer::AwaitsPool);
        assert!(!socket.begins_to_await_pool());
        socket.on_pool_turn();
        assert_eq!(socket.writer(), Writer::AwaitsRoom);
        socket.on_write(Writer::AwaitsPool);
        assert!(socket.begins_to_await_pool());
    }
}
