//! The one task of a [`Net`](crate::Net): it receives packets, serves timers, and sends what the
//! sockets' own calls did not send.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use base::Instant;
use tokio::time::Sleep;

use crate::state::{Shared, Timers};

/// Packets that are moved in a row before others get the lock, and other tasks the thread.
pub(crate) const BATCH_PACKETS: usize = 16;

/// Where packets come from and go to.
pub(crate) trait Link: Send + Unpin + 'static {
    /// Hands packets to the host, up to a batch. Ready: there may be more.
    fn poll_receive(&mut self, cx: &mut Context<'_>, shared: &Shared) -> Poll<io::Result<()>>;

    /// Takes packets from the host, up to a batch. Ready: there may be more.
    fn poll_send(&mut self, cx: &mut Context<'_>, shared: &Shared) -> Poll<io::Result<()>>;
}

/// The task.
pub(crate) struct Driver<L> {
    shared: Arc<Shared>,
    link: L,
    sleep: Pin<Box<Sleep>>,
    /// When `sleep` ends, if anybody waits for it.
    armed: Option<Instant>,
    /// Nobody can call the host any more, or it cannot answer.
    is_over: bool,
}

impl<L: Link> Driver<L> {
    pub(crate) fn new(shared: Arc<Shared>, link: L) -> Self {
        Self {
            shared,
            link,
            sleep: Box::pin(tokio::time::sleep(std::time::Duration::ZERO)),
            armed: None,
            is_over: false,
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
            is_over,
        } = timers;
        self.is_over = is_over;
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
}

impl<L: Link> Future for Driver<L> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        this.shared.register_driver(cx.waker());
        // What the last calls left to send has its chance in one more turn.
        let is_last = this.is_over;
        match this.poll_turn(cx) {
            Poll::Ready(Err(error)) => {
                this.shared.fail(&error);
                Poll::Ready(())
            }
            _ if is_last => Poll::Ready(()),
            Poll::Pending if !this.is_over => Poll::Pending,
            _ => {
                // First those whom this turn woke: they make room for what comes next.
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        }
    }
}

impl<L> Drop for Driver<L> {
    fn drop(&mut self) {
        let gone = "the task that moves the packets of this host has ended, with its runtime";
        self.shared
            .fail(&io::Error::new(io::ErrorKind::NetworkDown, gone));
    }
}
