//! A listener, and its decision about a SYN.

use alloc::collections::VecDeque;
use core::net::SocketAddr;
use core::time::Duration;

use base::Instant;
use base::settings::SocketSettings;

use super::config::{ListenOptions, SocketId};
use crate::Arc;

/// Longer than a cookie is valid.
const COOKIE_AGE_MAX: Duration = Duration::from_secs(128);

/// RFC 9293's LISTEN state.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) local: SocketAddr,
    backlog: u32,
    syn_cookies: bool,
    /// Settings of its connections, which share them.
    pub(crate) settings: Arc<SocketSettings>,
    /// When a cookie was sent last.
    pub(crate) cookie_sent: Option<Instant>,
    /// Connections in SYN-RECEIVED.
    pub(crate) half_open: u32,
    /// Established connections that have not been accepted yet.
    pub(crate) accept_queue: VecDeque<SocketId>,
}

/// Treatment of a SYN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SynDisposition {
    /// Begin a connection in SYN-RECEIVED.
    Open,
    /// Answer with a SYN cookie, without keeping state (RFC 4987 section 3.6).
    Cookie,
    /// Drop: too many are half open.
    DropHalfOpen,
    /// Drop: the accept queue is full.
    DropUnaccepted,
}

impl Listener {
    pub(crate) fn new(local: SocketAddr, options: ListenOptions) -> Self {
        let ListenOptions {
            backlog,
            syn_cookies,
            settings,
        } = options;
        Self {
            local,
            backlog,
            syn_cookies,
            settings: Arc::new(settings),
            cookie_sent: None,
            half_open: 0,
            accept_queue: VecDeque::new(),
        }
    }

    /// Linux `sk_acceptq_is_full`: one more than the backlog may wait.
    pub(crate) fn is_accept_queue_full(&self) -> bool {
        self.accept_queue.len() > self.backlog as usize
    }

    /// Whether a cookie may come back: none is accepted unless one was sent within its lifetime
    /// (Linux `tcp_synq_no_recent_overflow`).
    pub(crate) fn expects_cookie(&self, now: Instant) -> bool {
        self.syn_cookies
            && self
                .cookie_sent
                .is_some_and(|at| now.since(at) <= COOKIE_AGE_MAX)
    }

    /// Linux `tcp_conn_request`: one more than the backlog may be half open, too. Where the host is
    /// `crowded` by half-open connections, cookies keep room for those that complete theirs.
    pub(crate) fn judge_syn(&self, crowded: bool) -> SynDisposition {
        let is_full = self.half_open > self.backlog || crowded && self.syn_cookies;
        if self.is_accept_queue_full() {
            SynDisposition::DropUnaccepted
        } else if is_full && self.syn_cookies {
            SynDisposition::Cookie
        } else if is_full {
            SynDisposition::DropHalfOpen
        } else {
            SynDisposition::Open
        }
    }
}
