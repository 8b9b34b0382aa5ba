//! Finds the end of a connection that belongs to the service: the one that accepted it.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use base::{FlowKey, FlowSample, Source, TcpState};

use crate::recording::{Recording, Track};
use crate::timeline::opened_here;

/// The end of a connection that a service has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// The port here that clients connect to.
    Listening(u16),
    /// The address and port that a program here connected to.
    Remote(SocketAddr),
}

impl Place {
    /// Place of a connection about which nothing else is known: ephemeral ports are nearly always
    /// the larger ones. [`Services`] knows more.
    #[must_use]
    pub const fn of(key: FlowKey) -> Self {
        if key.local.port() < key.remote.port() {
            Self::Listening(key.local.port())
        } else {
            Self::Remote(key.remote)
        }
    }
}

/// The services of a recording: the ports on which its host listens, and what connections show of
/// who accepted them.
#[derive(Clone, Debug, Default)]
pub struct Services {
    /// Ports here that clients connect to.
    ports: BTreeSet<u16>,
    /// Addresses that local programs connected to.
    remotes: BTreeSet<SocketAddr>,
}

impl Services {
    /// Services of `recording`.
    #[must_use]
    pub fn of(recording: &Recording) -> Self {
        let listeners = recording.hosts.iter().flat_map(|host| &host.listeners);
        let mut services = Self {
            ports: listeners.map(|listener| listener.local.port()).collect(),
            remotes: BTreeSet::new(),
        };
        for track in &recording.flows {
            match was_opened_here(track) {
                Some(true) => {
                    services.remotes.insert(track.key.remote);
                }
                Some(false) => {
                    services.ports.insert(track.key.local.port());
                }
                None => {}
            }
        }
        services
    }

    /// The end of a connection that a service has; judged by its ports if nothing else is known.
    #[must_use]
    pub fn place(&self, key: FlowKey) -> Place {
        let accepts = |end: SocketAddr| self.ports.contains(&end.port());
        // On one machine, the other end is in the list as well.
        let is_own = key.local.ip() == key.remote.ip();
        let there = self.remotes.contains(&key.remote) || (is_own && accepts(key.remote));
        match (accepts(key.local), there) {
            (true, false) => Place::Listening(key.local.port()),
            (false, true) => Place::Remote(key.remote),
            _ => Place::of(key),
        }
    }
}

fn was_opened_here(track: &Track) -> Option<bool> {
    let by_state = |sample: &FlowSample| match sample.state {
        Some(TcpState::SynSent) => Some(true),
        Some(TcpState::SynReceived) => Some(false),
        _ => None,
    };
    // In captures only the state shows it.
    let is_live = |sample: &FlowSample| sample.source != Source::Capture;
    if !track.samples.turns().any(is_live) {
        return track.samples.turns().find_map(by_state);
    }
    let mut samples = track.samples.iter();
    samples.find_map(|sample| by_state(&sample).or_else(|| opened_here(&sample)))
}
