//! Each connection as it is: what it did in the last second, by the doctor's meters.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base::{FlowKey, FlowSample, Instant};
use doctor::{Held, Meters, Place, SocketOwner, Track};
use linux::NetnsPlace;

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
    /// The network namespace that it is in.
    pub(super) place: Arc<NetnsPlace>,
    /// The program and its port, or that of the other host.
    pub(super) service: Arc<str>,
    /// The newest look at it.
    pub(super) sample: Arc<FlowSample>,
    pub(super) owners: Arc<[SocketOwner]>,
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

/// What is known of a connection from second to second.
#[derive(Debug)]
struct Known {
    service: Arc<str>,
    /// Its name tells the program.
    is_named: bool,
    owners: Arc<[SocketOwner]>,
}

/// Meters of all connections of a namespace, and the names of their services.
#[derive(Debug)]
pub(super) struct Watchlist {
    place: Arc<NetnsPlace>,
    meters: Meters,
    known: BTreeMap<u64, Known>,
    /// When those that were gone were forgotten.
    tidied: Instant,
}

impl Watchlist {
    pub(super) fn new(place: Arc<NetnsPlace>, now: Instant) -> Self {
        Self {
            place,
            meters: Meters::default(),
            known: BTreeMap::new(),
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
        let mut all_known = BTreeMap::new();
        let mut connections = Vec::with_capacity(self.known.len());
        for track in tracks.filter(|track| !track.ended) {
            let reading = self.meters.poll(track);
            let (Some(reading), Some(sample)) = (reading, track.samples.last_shared()) else {
                continue;
            };
            let known = self.known(track);
            connections.push(Connection {
                cookie: track.cookie,
                place: Arc::clone(&self.place),
                service: Arc::clone(&known.service),
                sample,
                owners: Arc::clone(&known.owners),
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
            all_known.insert(track.cookie, known);
        }
        self.known = all_known;
        if now.since(self.tidied) >= FORGOTTEN_AFTER {
            let before = std::mem::replace(&mut self.tidied, now);
            self.meters.forget_before(before);
        }
        connections
    }

    /// What is known of a connection. The name of its service is made once its program is known;
    /// nothing is made anew where nothing has changed.
    fn known(&self, track: &Track) -> Known {
        let command = track.owners.first();
        let command = command.map(|owner| owner.process.command.as_str());
        let before = self.known.get(&track.cookie);
        let owners = match before {
            Some(known) if *known.owners == *track.owners => Arc::clone(&known.owners),
            _ => Arc::from(track.owners.as_slice()),
        };
        match before {
            Some(known) if known.is_named || command.is_none() => Known {
                service: Arc::clone(&known.service),
                is_named: known.is_named,
                owners,
            },
            _ => Known {
                service: service::name(Place::of(track.key), command).into(),
                is_named: command.is_some(),
                owners,
            },
        }
    }
}
