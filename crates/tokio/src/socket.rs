//! One socket of a net: what streams, halves of streams and listeners have in common.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use base::{Instant, KnobValue, find_knob};
use bytes::Bytes;
use smallvec::SmallVec;
use stack::SocketId;
use tokio::io::{Interest, ReadBuf, Ready};
use tokio::task::coop;

use crate::entry::Entry;
use crate::error;
use crate::net::Net;
use crate::state::State;
use crate::waiters::{WaiterKey, Waiters};

/// A connection or a listener. Dropping it lets go of it.
#[derive(Debug)]
pub(crate) struct Socket {
    net: Net,
    id: SocketId,
}

/// Direction for which a task waits.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Side {
    Read,
    Write,
}

impl Socket {
    /// `id` has an entry.
    pub(crate) const fn new(net: Net, id: SocketId) -> Self {
        Self { net, id }
    }

    pub(crate) const fn net(&self) -> &Net {
        &self.net
    }

    /// A call of the host.
    pub(crate) fn call<R>(&self, work: impl FnOnce(&mut State, Instant, SocketId) -> R) -> R {
        self.net
            .shared()
            .call(|state, now| work(state, now, self.id))
    }

    /// A call that may have to wait.
    pub(crate) fn poll<R>(
        &self,
        cx: &mut Context<'_>,
        side: Side,
        work: impl FnOnce(&mut State, Instant, SocketId) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        // A task whose socket always has something must let the driver and others run.
        let budget = ready!(coop::poll_proceed(cx));
        let result = self.call(|state, now, id| {
            let result = work(state, now, id);
            if error::is_would_block(&result) {
                state.waiters(id, side).set_task(cx.waker());
            }
            result
        });
        if error::is_would_block(&result) {
            return Poll::Pending;
        }
        budget.made_progress();
        Poll::Ready(result)
    }

    /// Tries until it needs not wait any more. Any number of futures may do this, and each may be
    /// dropped.
    pub(crate) const fn wait<R, F>(&self, interest: Interest, attempt: F) -> Waiting<'_, F>
    where
        F: FnMut(&mut State, Instant, SocketId) -> io::Result<R> + Unpin,
    {
        Waiting {
            socket: self,
            interest,
            attempt,
            key: None,
        }
    }

    pub(crate) fn poll_read(
        &self,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let max = into.remaining();
        if max == 0 {
            return Poll::Ready(Ok(()));
        }
        let mut chunks: SmallVec<[Bytes; 4]> = SmallVec::new();
        let read = self.poll(cx, Side::Read, |state, now, id| {
            state.read(now, id, max, |chunk| chunks.push(chunk))
        });
        // Others may have the lock while this is copied.
        chunks.iter().for_each(|chunk| into.put_slice(chunk));
        read.map_ok(drop)
    }

    pub(crate) fn poll_write(
        &self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if slices.iter().all(|slice| slice.is_empty()) {
            return Poll::Ready(Ok(0));
        }
        // Nothing is copied that cannot be taken now.
        {
            let mut state = self.net.shared().lock();
            let may = state.may_write(self.id);
            if error::is_would_block(&may) {
                state.waiters(self.id, Side::Write).set_task(cx.waker());
                return Poll::Pending;
            }
            may?;
        }
        let chunk = self.net.shared().copies().of(slices);
        self.poll(cx, Side::Write, |state, now, id| {
            state.write(now, id, chunk)
        })
    }

    pub(crate) fn try_write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        if slices.iter().all(|slice| slice.is_empty()) {
            return Ok(0);
        }
        self.net.shared().lock().may_write(self.id)?;
        let chunk = self.net.shared().copies().of(slices);
        self.call(|state, now, id| state.write(now, id, chunk))
    }

    pub(crate) fn shutdown(&self) -> io::Result<()> {
        self.call(|state, now, id| state.shutdown(now, id))
    }

    pub(crate) fn set_knob(&self, name: &str, value: &KnobValue) -> io::Result<()> {
        self.call(|state, now, id| {
            state.check_sound()?;
            let set = state.host.set(now, id, name, value);
            set.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
        })
    }

    pub(crate) fn knob(&self, name: &str) -> io::Result<KnobValue> {
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidInput, error);
        let state = self.net.shared().lock();
        let knob = find_knob(name).map_err(invalid)?;
        let settings = state
            .host
            .settings(self.id)
            .ok_or_else(error::not_connected)?;
        knob.get(settings).map_err(invalid)
    }

    /// Looks at the host.
    pub(crate) fn look<R>(&self, look: impl FnOnce(&State, Instant, SocketId) -> R) -> R {
        let state = self.net.shared().lock();
        let now = self.net.shared().clock().now();
        look(&state, now, self.id)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.call(|state, now, id| state.close(now, id));
    }
}

impl State {
    fn waiters(&mut self, id: SocketId, side: Side) -> &mut Waiters {
        let entry = self.sockets.get_mut(&id).expect("a socket has an entry");
        match side {
            Side::Read => &mut entry.readers,
            Side::Write => &mut entry.writers,
        }
    }

    fn insert_waiter(&mut self, id: SocketId, interest: Interest, waiter: (WaiterKey, &Waker)) {
        let (key, waker) = waiter;
        // What breaks it wakes both.
        if interest.is_readable() || interest.is_error() {
            self.waiters(id, Side::Read).insert(key, waker);
        }
        if interest.is_writable() {
            self.waiters(id, Side::Write).insert(key, waker);
        }
    }

    fn remove_waiter(&mut self, id: SocketId, key: WaiterKey) {
        for side in [Side::Read, Side::Write] {
            self.waiters(id, side).remove(key);
        }
    }

    /// The part of `interest` that is ready now.
    pub(crate) fn readiness(
        &mut self,
        now: Instant,
        id: SocketId,
        interest: Interest,
    ) -> io::Result<Ready> {
        let mut ready = Ready::EMPTY;
        if interest.is_readable() && self.is_readable(now, id) {
            ready |= Ready::READABLE;
            if self.is_read_to_end(id) {
                ready |= Ready::READ_CLOSED;
            }
        }
        if interest.is_writable() && !error::is_would_block(&self.may_write(id)) {
            ready |= Ready::WRITABLE;
            if self.sockets.get(&id).is_none_or(Entry::is_over) {
                ready |= Ready::WRITE_CLOSED;
            }
        }
        if interest.is_error() && self.has_error(id) {
            ready |= Ready::ERROR;
        }
        if ready.is_empty() {
            return Err(error::would_block());
        }
        Ok(ready)
    }
}

/// Waits for a call; see [`Socket::wait`].
#[must_use = "futures do nothing unless they are awaited"]
pub(crate) struct Waiting<'s, F> {
    socket: &'s Socket,
    interest: Interest,
    attempt: F,
    /// Under which it waits already.
    key: Option<WaiterKey>,
}

impl<R, F> Future for Waiting<'_, F>
where
    F: FnMut(&mut State, Instant, SocketId) -> io::Result<R> + Unpin,
{
    type Output = io::Result<R>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<R>> {
        let Self {
            socket,
            interest,
            attempt,
            key,
        } = self.get_mut();
        let budget = ready!(coop::poll_proceed(cx));
        let result = socket.call(|state, now, id| {
            let result = attempt(state, now, id);
            if error::is_would_block(&result) {
                let key = *key.get_or_insert_with(|| state.next_key());
                state.insert_waiter(id, *interest, (key, cx.waker()));
            } else if let Some(key) = key.take() {
                state.remove_waiter(id, key);
            }
            result
        });
        if error::is_would_block(&result) {
            return Poll::Pending;
        }
        budget.made_progress();
        Poll::Ready(result)
    }
}

impl<F> Drop for Waiting<'_, F> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            let mut state = self.socket.net.shared().lock();
            state.remove_waiter(self.socket.id, key);
        }
    }
}
