//! Counters of one connection.

use super::Connection;
use crate::recovery::RecoveryStats;
use crate::recv::RecvStats;
use crate::send::SendStats;

/// Everything that a connection counted since it began, drops and special events included
/// ([`Host::connection_counters`](crate::Host::connection_counters)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectionCounters {
    /// Its sending half.
    pub send: SendStats,
    /// Its receiving half.
    pub recv: RecvStats,
    /// Its loss recovery.
    pub recovery: RecoveryStats,
}

impl Connection {
    /// Counters of both halves and of loss recovery.
    pub(crate) fn counters(&self) -> ConnectionCounters {
        ConnectionCounters {
            send: self.send.stats(),
            recv: self.recv.stats(),
            recovery: self.recovery.stats(),
        }
    }
}
