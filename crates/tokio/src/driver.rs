//! The one task of a [`Net`](crate::Net): it receives packets, serves timers, and sends what the
//! sockets' own calls did not send.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use base::Instant;
use tokio::time::Sleep;

use crate::state::{Life, Shared, Timers};

/// Packets that are moved in a row before others get the lock, and other tasks the thread.
pub(crate) const BATCH_PACKETS: usize = 16;

/// Longest time for connections without a handle to deliver written data; then they are aborted.
/// Linux gives orphans the same in FIN-WAIT-2 (`tcp_fin_timeout`).
const DELIVERY_MAX: Duration = Duration::from_secs(60);

/// Longest time that the last packets may take to leave; then they are thrown away.
const CLOSE_MAX: Duration = Duration::from_secs(5);

/// Source and destination of packets.
pub(crate) trait Link: Send + Unpin + 'static {
    /// Hands packets to the host, up to a batch. Ready: there may be more.
    fn poll_receive(&mut self, cx: &mut Context<'_>, shared: &Shared) -> Poll<io::Result<()>>;

    /// Takes packets from the host, up to a batch. Ready: there may be more.
    fn poll_send(&mut self, cx: &mut Context<'_>, shared: &Shared) -> Poll<io::Result<()>>;

    /// Sends what the host has left. Ready: all of it has left, and there will be no more.
    fn poll_close(&mut self, cx: &mut Context<'_>, shared: &Shared) -> Poll<io::Result<()>>;
}

/// The task.
pub(crate) struct Driver<L> {
    shared: Arc<Shared>,
    link: L,
    sleep: Pin<Box<Sleep>>,
    /// When `sleep` ends, if a task waits for it.
    armed: Option<Instant>,
    life: Life,
    /// Deadline for remaining work, once no handle to the host is left.
    limit: Option<Pin<Box<Sleep>>>,
    /// Only packets are left to be sent.
    is_closing: bool,
}

impl<L: Link> Driver<L> {
    pub(crate) fn new(shared: Arc<Shared>, link: L) -> Self {
        Self {
            shared,
            link,
            sleep: Box::pin(tokio::time::sleep(Duration::ZERO)),
            armed: None,
            life: Life::Held,
            limit: None,
            is_closing: false,
        }
    }

    /// Ready: there may be more to do at once. Timers come last, since all else moves them.
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let received = self.link.poll_receive(cx, &self.shared)?;
        let sent = self.link.poll_send(cx, &self.shared)?;
        let served = self.poll_timers(cx);
        if received.is_ready() || sent.is_ready() || served.is_ready() {
            return Poll::Ready(Ok(()));
        }
        Poll::Pending
    }

    /// Serves what is due, and sees to it that this task is woken for what is due next. Ready:
    /// something was due. A deadline that moves away, as those of retransmissions do with every
    /// ACK, leaves the runtime's timer where it is: to look at a deadline in vain now and then is
    /// cheaper than to move it.
    fn poll_timers(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let timers = self.shared.serve_timers(self.armed);
        let Timers {
            now,
            next,
            served,
            life,
        } = timers;
        self.life = life;
        if served {
            return Poll::Ready(());
        }
        if let Some(due) = next
            && self.armed.is_none_or(|armed| due < armed)
        {
            let wake_up = self.shared.clock().wake_up(now, due);
            self.sleep.as_mut().reset(wake_up);
            self.armed = Some(due);
        }
        if self.armed.is_none() {
            return Poll::Pending;
        }
        let slept = self.sleep.as_mut().poll(cx);
        if slept.is_ready() {
            self.armed = None;
        }
        slept
    }

    /// Ready: no handle to the host is left, and no data to deliver.
    fn poll_delivered(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self.life {
            Life::Held | Life::Failed => Poll::Pending,
            Life::Delivered => Poll::Ready(()),
            Life::Delivering => {
                ready!(self.poll_limit(cx, DELIVERY_MAX));
                self.shared.abort_all();
                Poll::Ready(())
            }
        }
    }

    /// Ready: the last packets have left, or cannot.
    fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // There is no task left to report an error to.
        if self.link.poll_close(cx, &self.shared).is_ready() {
            return Poll::Ready(());
        }
        self.poll_limit(cx, CLOSE_MAX)
    }

    /// Ready `max` after the first call.
    fn poll_limit(&mut self, cx: &mut Context<'_>, max: Duration) -> Poll<()> {
        let limit = self
            .limit
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(max)));
        limit.as_mut().poll(cx)
    }
}

impl<L: Link> Future for Driver<L> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        this.shared.register_driver(cx.waker());
        if !this.is_closing {
            let turn = match this.poll_turn(cx) {
                Poll::Ready(Err(error)) => {
                    this.shared.fail(&error);
                    return Poll::Ready(());
                }
                turn => turn.is_ready(),
            };
            if this.life == Life::Failed {
                return Poll::Ready(());
            }
            if this.poll_delivered(cx).is_pending() {
                if turn {
                    // First those whom this turn woke: they make room for what comes next.
                    cx.waker().wake_by_ref();
                }
                return Poll::Pending;
            }
            this.is_closing = true;
            this.limit = None;
        }
        this.poll_closed(cx)
    }
}

impl<L> Drop for Driver<L> {
    fn drop(&mut self) {
        let gone = "the task that moves the packets of this host has ended, with its runtime";
        self.shared
            .fail(&io::Error::new(io::ErrorKind::NetworkDown, gone));
    }
}
