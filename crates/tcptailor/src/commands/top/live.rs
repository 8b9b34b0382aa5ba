//! Each connection as it is: what it did in the last second, by the doctor's meters.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base::{FlowKey, FlowSample, Instant};
use doctor::{Held, Meters, Place, SocketOwner, Track};

use crate::commands::diagnose::document::Direction;
use crate::commands::diagnose::service;

/// Looks at a connection are never so far apart.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);

/// A connection in the last second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Now {
    /// Payload in the direction that carried more.
    pub(super) rate_bps: u64,
    pub(super) direction: Direction,
    pub(super) held: Held,
    /// For which share of the time.
    pub(super) share: f64,
}

/// A connection as it is.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    pub(super) cookie: u64,
    /// The program and its port, or that of the other host.
    pub(super) service: Arc<str>,
    /// The newest look at it.
    pub(super) sample: Arc<FlowSample>,
    pub(super) owners: Vec<SocketOwner>,
    pub(super) now: Now,
}

impl Connection {
    pub(super) fn key(&self) -> FlowKey {
        self.sample.key
    }

    pub(super) fn pid(&self) -> Option<u32> {
        self.owners.first().map(SocketOwner::pid)
    }
}

/// Meters of all connections, and the names of their services.
#[derive(Debug)]
pub(super) struct Watchlist {
    meters: Meters,
    /// With whether the program is known.
    services: BTreeMap<u64, (Arc<str>, bool)>,
    /// When those that were gone were forgotten.
    tidied: Instant,
}

impl Watchlist {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            meters: Meters::default(),
            services: BTreeMap::new(),
            tidied: now,
        }
    }

    /// Sums up the newest look at a connection.
    pub(super) fn handle_look(&mut self, track: &Track) {
        self.meters.handle_look(track);
    }

    /// What they did since the last time that this was asked. Forgets those that are gone.
    pub(super) fn poll<'t>(
        &mut self,
        now: Instant,
        tracks: impl Iterator<Item = &'t Track>,
    ) -> Vec<Connection> {
        let mut services = BTreeMap::new();
        let mut connections = Vec::new();
        for track in tracks.filter(|track| !track.ended) {
            let reading = self.meters.poll(track);
            let (Some(reading), Some(sample)) = (reading, track.samples.last_shared()) else {
                continue;
            };
            let (service, is_named) = self.service(track);
            services.insert(track.cookie, (Arc::clone(&service), is_named));
            connections.push(Connection {
                cookie: track.cookie,
                service,
                sample,
                owners: track.owners.clone(),
                now: Now {
                    rate_bps: reading.rate.bits_per_second(),
                    direction: match reading.is_receiving {
                        true => Direction::In,
                        false => Direction::Out,
                    },
                    held: reading.held,
                    share: reading.share,
                },
            });
        }
        self.services = services;
        if now.since(self.tidied) >= FORGOTTEN_AFTER {
            let before = std::mem::replace(&mut self.tidied, now);
            self.meters.forget_before(before);
        }
        connections
    }

    /// The name of a connection's service, made once its program is known.
    fn service(&self, track: &Track) -> (Arc<str>, bool) {
        let command = track.owners.first();
        let command = command.map(|owner| owner.process.command.as_str());
        match self.services.get(&track.cookie) {
            Some((name, is_named)) if *is_named || command.is_none() => {
                (Arc::clone(name), *is_named)
            }
            _ => {
                let name = service::name(Place::of(track.key), command);
                (name.into(), command.is_some())
            }
        }
    }
}
