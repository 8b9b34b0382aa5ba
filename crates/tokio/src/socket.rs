//! One socket of a net: what streams, halves of streams and listeners have in common.

use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use base::{Instant, KnobValue, find_knob};
use bytes::{Bytes, BytesMut};
use stack::SocketId;
use tokio::io::{Interest, ReadBuf, Ready};
use tokio::task::coop;

use crate::error;
use crate::net::Net;
use crate::state::State;
use crate::waiters::{WaiterKey, Waiters};

/// Most bytes of one write that are copied at once. What does not fit into the send buffer then was
/// copied in vain, so this is not much more than one packet holds.
const COPY_BYTES_MAX: usize = 64 << 10;

/// A connection or a listener. Dropping it lets go of it.
#[derive(Debug)]
pub(crate) struct Socket {
    net: Net,
    id: SocketId,
}

/// What a task waits for.
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

    /// Waits until the socket is ready for something of `interest`.
    pub(crate) fn ready(&self, interest: Interest) -> Readiness<'_> {
        Readiness {
            socket: self,
            interest,
            key: None,
        }
    }

    /// Tries until it needs not wait any more. Any number of tasks may do this.
    pub(crate) async fn wait<R>(
        &self,
        interest: Interest,
        mut attempt: impl FnMut(&mut State, Instant, SocketId) -> io::Result<R>,
    ) -> io::Result<R> {
        loop {
            poll_fn(|cx| coop::poll_proceed(cx).map(|budget| budget.made_progress())).await;
            let result = self.call(&mut attempt);
            if !error::is_would_block(&result) {
                return result;
            }
            self.ready(interest).await;
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
        let read = self.poll(cx, Side::Read, |state, now, id| {
            state.read(now, id, max, |chunk| into.put_slice(&chunk))
        });
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
        let chunk = joined(slices);
        self.poll(cx, Side::Write, |state, now, id| {
            state.write(now, id, chunk)
        })
    }

    pub(crate) fn try_write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        if slices.iter().all(|slice| slice.is_empty()) {
            return Ok(0);
        }
        self.net.shared().lock().may_write(self.id)?;
        let chunk = joined(slices);
        self.call(|state, now, id| state.write(now, id, chunk))
    }

    pub(crate) fn shutdown(&self) -> io::Result<()> {
        self.call(|state, now, id| state.shutdown(now, id))
    }

    pub(crate) fn set_knob(&self, name: &str, value: &KnobValue) -> io::Result<()> {
        self.call(|state, now, id| {
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

/// The front of `slices` in memory of its own.
fn joined(slices: &[IoSlice<'_>]) -> Bytes {
    let total: usize = slices.iter().map(|slice| slice.len()).sum();
    let mut joined = BytesMut::with_capacity(total.min(COPY_BYTES_MAX));
    for slice in slices {
        let room = COPY_BYTES_MAX - joined.len();
        joined.extend_from_slice(&slice[..slice.len().min(room)]);
    }
    joined.freeze()
}

impl State {
    fn waiters(&mut self, id: SocketId, side: Side) -> &mut Waiters {
        let entry = self.sockets.get_mut(&id).expect("a socket has an entry");
        match side {
            Side::Read => &mut entry.readers,
            Side::Write => &mut entry.writers,
        }
    }

    fn readiness(&mut self, now: Instant, id: SocketId, interest: Interest) -> Ready {
        let mut ready = Ready::EMPTY;
        if interest.is_readable() && self.is_readable(now, id) {
            ready |= Ready::READABLE;
        }
        if interest.is_writable() && !error::is_would_block(&self.may_write(id)) {
            ready |= Ready::WRITABLE;
        }
        ready
    }
}

/// Waits for a socket; see [`Socket::ready`].
pub(crate) struct Readiness<'s> {
    socket: &'s Socket,
    interest: Interest,
    /// Under which it waits already.
    key: Option<WaiterKey>,
}

impl Future for Readiness<'_> {
    type Output = Ready;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Ready> {
        let interest = self.interest;
        let known = self.key;
        let (ready, key) = self.socket.call(|state, now, id| {
            let ready = state.readiness(now, id, interest);
            if !ready.is_empty() {
                return (ready, known);
            }
            let key = known.unwrap_or_else(|| state.next_key());
            if interest.is_readable() {
                state.waiters(id, Side::Read).insert(key, cx.waker());
            }
            if interest.is_writable() {
                state.waiters(id, Side::Write).insert(key, cx.waker());
            }
            (ready, Some(key))
        });
        self.key = key;
        if ready.is_empty() {
            Poll::Pending
        } else {
            Poll::Ready(ready)
        }
    }
}

impl Drop for Readiness<'_> {
    fn drop(&mut self) {
        let Some(key) = self.key else {
            return;
        };
        let mut state = self.socket.net.shared().lock();
        for side in [Side::Read, Side::Write] {
            state.waiters(self.socket.id, side).remove(key);
        }
    }
}
