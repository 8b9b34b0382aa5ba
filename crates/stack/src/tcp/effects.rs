//! Effects of a connection's events on its host: a connection never calls its host.

use base::Instant;

use super::{Connection, State};
use crate::host::{Shared, SocketId, TimeWait, Writer};

/// Consequences for the host of the latest event of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Effects {
    /// From now on it waits for the local queue.
    pub(crate) awaits_local_queue: bool,
    /// From now on it waits for buffers of the pool.
    pub(crate) awaits_pool: bool,
    /// The listener that no longer counts it as half open.
    pub(crate) opened: Option<(SocketId, Opened)>,
    /// Next event of the connection.
    pub(crate) next: Next,
}

/// How the attempt of a peer to connect to a listener ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opened {
    /// The connection is established.
    Established,
    /// Failed already.
    Failed,
}

/// Next event of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Has a timer at this time, or none.
    At(Option<Instant>),
    /// Both sides have closed: what is left is [`Connection::begin_time_wait`].
    TimeWait,
    /// Ended.
    Over,
}

impl Connection {
    /// Whether there are [effects](Connection::take_effects) beside [`Connection::next_due`], as
    /// mostly there are not.
    #[inline]
    pub(crate) fn has_effects(&self) -> bool {
        self.local_queue.is_blocked()
            || self.socket.writer() == Writer::AwaitsPool
            || self.socket.half_open_of().is_some()
            || matches!(self.state, State::TimeWait | State::Closed)
    }

    /// When there is something to do again.
    #[inline]
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// Returns the consequences for the host. Call it after each call that takes `now`; transitions
    /// are reported once.
    pub(crate) fn take_effects(&mut self) -> Effects {
        Effects {
            awaits_local_queue: self.local_queue.begins_to_wait(),
            awaits_pool: self.socket.begins_to_await_pool(),
            opened: self.take_opened(),
            next: match self.state {
                State::TimeWait => Next::TimeWait,
                State::Closed => Next::Over,
                _ => Next::At(self.next_due()),
            },
        }
    }

    fn take_opened(&mut self) -> Option<(SocketId, Opened)> {
        self.socket.half_open_of()?;
        let opened = match self.state {
            State::SynReceived(_) => return None,
            State::Closed => Opened::Failed,
            _ => Opened::Established,
        };
        Some((self.socket.leave_half_open()?, opened))
    }

    /// Its turn to use the room in the local queue.
    pub(crate) fn on_local_queue_turn(&mut self, now: Instant, shared: &mut Shared) {
        self.local_queue.on_turn();
        self.output(now, shared);
    }

    /// Its turn to take buffers of the pool.
    pub(crate) fn on_pool_turn(&mut self, shared: &mut Shared) {
        self.socket.on_pool_turn();
        self.offer_room(shared);
    }

    /// The state that remains in TIME-WAIT; the connection itself has ended.
    pub(crate) fn begin_time_wait(&mut self, now: Instant, shared: &Shared) -> TimeWait {
        let rest = self.time_wait(now, shared);
        self.state = State::Closed;
        rest
    }

    /// Ends without TIME-WAIT, for which the host has no room.
    pub(crate) const fn skip_time_wait(&mut self) {
        self.state = State::Closed;
    }

    /// The application has dropped its handle.
    pub(crate) const fn let_go(&mut self) {
        self.socket.let_go();
    }
}
