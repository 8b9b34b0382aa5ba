//! Bytes written to and read from each connection, to check that none were made or lost.

use core::net::SocketAddr;
use std::collections::BTreeMap;

use stack::{Host, SocketId};

use super::flow::Flow;

/// Closed connections that are remembered; those of longer runs are checked by their bytes only.
const CLOSED_MAX: usize = 100_000;

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    /// Payload that this end handed over.
    pub(crate) written: u64,
    /// Payload that this end read.
    pub(crate) read: u64,
    /// Bytes handed over that are not acknowledged, sent or not.
    pub(crate) unacked: u64,
    /// Arrived and not read.
    pub(crate) unread: u64,
    /// The end of the peer's stream was read.
    pub(crate) saw_end: bool,
}

/// Both addresses, those of this end first.
pub(crate) type Ends = (SocketAddr, SocketAddr);

/// The connections of one program.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    closed: Vec<(Ends, Account)>,
}

impl Ledger {
    /// Notes a connection that is about to be closed.
    pub(super) fn close(&mut self, host: &Host, id: SocketId, flow: &Flow) {
        if self.closed.len() < CLOSED_MAX {
            self.closed.extend(account(host, id, flow));
        }
    }

    /// All connections, those of `open` included. Of several between the same ends, the last.
    pub(super) fn accounts<'f>(
        &self,
        host: &Host,
        open: impl Iterator<Item = &'f Flow>,
    ) -> BTreeMap<Ends, Account> {
        let open = open.filter_map(|flow| account(host, flow.socket?, flow));
        self.closed.iter().copied().chain(open).collect()
    }
}

fn account(host: &Host, id: SocketId, flow: &Flow) -> Option<(Ends, Account)> {
    let ends = (host.local_addr(id)?, host.remote_addr(id)?);
    let account = Account {
        written: flow.written,
        read: flow.read,
        unacked: host.unacked_bytes(id),
        unread: host.unread_bytes(id),
        saw_end: flow.saw_end,
    };
    Some((ends, account))
}
