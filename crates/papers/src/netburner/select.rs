//! Waiting for several sockets at once.

use core::task::Poll;
use std::collections::BTreeSet;

use base::TcpState;

use super::sockets::Blocking;
use super::{Call, Netburner};

/// Numbers of sockets.
pub type FdSet = BTreeSet<i32>;

impl Netburner<'_> {
    /// Waits until one of these sockets can be read (or has a connection to accept), written, or
    /// has failed, and leaves those in the sets. `timeout` in ticks, 0 for ever.
    ///
    /// # Returns
    /// How many are left; 0 and the sets empty where the time is over.
    pub fn select(
        &mut self,
        read: &mut FdSet,
        write: &mut FdSet,
        error: &mut FdSet,
        timeout: u16,
    ) -> Call {
        let ready = (
            self.those(read, Self::is_readable),
            self.those(write, Self::is_writable),
            self.those(error, Self::has_failed),
        );
        let count = ready.0.len() + ready.1.len() + ready.2.len();
        if count == 0 && self.wait(Blocking::Select, -1, timeout) == Poll::Pending {
            return Poll::Pending;
        }
        self.sockets.go_on(self.task);
        (*read, *write, *error) = ready;
        Poll::Ready(i32::try_from(count).unwrap_or(i32::MAX))
    }

    fn those(&self, set: &FdSet, is_ready: fn(&Self, i32) -> bool) -> FdSet {
        set.iter()
            .copied()
            .filter(|fd| is_ready(self, *fd))
            .collect()
    }

    fn is_readable(&self, fd: i32) -> bool {
        let Some(id) = self.sockets.id(fd) else {
            return false;
        };
        let has_end = matches!(
            self.host.sample(self.now, id).and_then(|flow| flow.state),
            Some(TcpState::CloseWait | TcpState::Closed)
        );
        self.host.acceptable(id) > 0 || self.host.unread_bytes(id) > 0 || has_end
    }

    fn is_writable(&self, fd: i32) -> bool {
        let flow = self
            .sockets
            .id(fd)
            .and_then(|id| self.host.sample(self.now, id));
        flow.is_some_and(|flow| {
            let may_write = matches!(
                flow.state,
                Some(TcpState::Established | TcpState::CloseWait)
            );
            may_write && self.GetFreeCount() > 0 && flow.wmem_queued_bytes < flow.sndbuf_bytes
        })
    }

    fn has_failed(&self, fd: i32) -> bool {
        let id = self.sockets.id(fd);
        id.is_some_and(|id| self.host.failure(id).is_some())
    }
}
