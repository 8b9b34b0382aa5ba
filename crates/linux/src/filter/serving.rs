//! Connections of a server process: those that are accepted where it listens, whichever process
//! holds them.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use base::ListenerSample;

use crate::error::Result;
use crate::netns::NetnsHandle;
use crate::process::SocketOwners;
use crate::sock_diag::{SockDiag, accepts, preference};

/// Connections that belong to a process that listens although others hold them: its workers, a
/// process for each connection, or those that share its address (`SO_REUSEPORT`). What its children
/// connect to is their own work: the children of an `sshd` are all that its users run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Serving {
    /// All that listens on its ports.
    listeners: Vec<Listening>,
    /// All that listened in its namespace when that was looked up.
    seen: BTreeSet<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Listening {
    at: SocketAddr,
    is_its_own: bool,
}

impl Serving {
    /// That of this process, by where it listens now.
    ///
    /// # Errors
    /// Where the listeners of the namespace cannot be listed.
    pub fn of(pid: u32, netns: &NetnsHandle) -> Result<Self> {
        Ok(Self::among(pid, &SockDiag::open_in(netns)?.listeners()?))
    }

    /// That of this process, of what listens in its namespace, with the inodes.
    pub(super) fn among(pid: u32, all: &[(ListenerSample, Option<u64>)]) -> Self {
        let owners = SocketOwners::of_processes([pid]);
        let listening = all.iter().map(|(listener, inode)| Listening {
            at: listener.local,
            is_its_own: inode.is_some_and(|inode| !owners.of(inode).is_empty()),
        });
        let mut listeners: Vec<Listening> = listening.collect();
        let own = listeners.iter().filter(|listening| listening.is_its_own);
        let ports: BTreeSet<u16> = own.map(|listening| listening.at.port()).collect();
        listeners.retain(|listening| ports.contains(&listening.at.port()));
        let seen = all.iter().filter_map(|(_, inode)| *inode).collect();
        Self { listeners, seen }
    }

    /// Whether these, and no others, listened when the process was looked up.
    pub(super) fn has_seen(&self, all: &[(ListenerSample, Option<u64>)]) -> bool {
        let now: BTreeSet<u64> = all.iter().filter_map(|(_, inode)| *inode).collect();
        self.seen == now
    }

    /// Takes what was looked up later. A process that has ended, or has closed what it listened on,
    /// accepted its connections where it listened before.
    pub(super) fn follow(&mut self, later: Self) {
        if later.is_empty() {
            self.seen = later.seen;
        } else {
            *self = later;
        }
    }

    /// Whether the process listens nowhere.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.listeners.is_empty()
    }

    /// Whether it accepts connections to this address: the kernel prefers the listener of the
    /// address itself to one of all addresses.
    pub(super) fn accepts(&self, local: SocketAddr) -> bool {
        let here = self
            .listeners
            .iter()
            .filter(|listening| listening.at.port() == local.port())
            .filter(|listening| accepts(listening.at.ip(), local.ip()));
        let rank = |listening: &Listening| preference(listening.at.ip(), local.ip());
        let first = here.clone().map(rank).min();
        here.into_iter()
            .any(|listening| listening.is_its_own && Some(rank(listening)) == first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_listened_on_stays_until_it_listens_on_something_else() {
        let on = |at: &str, inode: u64| Serving {
            listeners: vec![Listening {
                at: at.parse().expect("an address"),
                is_its_own: true,
            }],
            seen: BTreeSet::from([inode]),
        };
        let local = "10.0.0.1:80".parse().expect("an address");
        let mut serving = on("0.0.0.0:80", 1);
        serving.follow(Serving::default());
        assert!(serving.accepts(local) && serving.has_seen(&[]));
        serving.follow(on("0.0.0.0:81", 2));
        assert!(!serving.accepts(local));
    }

    #[test]
    fn the_listener_of_the_address_itself_accepts() {
        let serving = |listeners: &[(&str, bool)]| Serving {
            listeners: listeners
                .iter()
                .map(|(at, is_its_own)| Listening {
                    at: at.parse().expect("an address"),
                    is_its_own: *is_its_own,
                })
                .collect(),
            seen: BTreeSet::new(),
        };
        let check = |listeners: &[(&str, bool)], expected: bool| {
            let local = "10.0.0.1:80".parse().expect("an address");
            assert_eq!(serving(listeners).accepts(local), expected, "{listeners:?}");
        };
        check(&[], false);
        check(&[("0.0.0.0:80", true)], true);
        check(&[("[::]:80", true)], true);
        check(&[("0.0.0.0:81", true)], false);
        check(&[("10.0.0.2:80", true)], false);
        check(&[("0.0.0.0:80", true), ("10.0.0.1:80", false)], false);
        check(&[("0.0.0.0:80", false), ("10.0.0.1:80", true)], true);
        // Each accepts some.
        check(&[("0.0.0.0:80", false), ("0.0.0.0:80", true)], true);
    }
}
