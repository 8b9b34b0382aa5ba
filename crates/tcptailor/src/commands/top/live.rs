//! Each connection as it is: what it did in the last second, by the doctor's meters.

use std::sync::Arc;
use std::time::Duration;

use base::{FlowKey, FlowSample, Instant};
use doctor::{ByCookie, Held, Meters, Place, SocketOwner, Track};
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

/// State of a connection from second to second.
#[derive(Debug)]
struct Known {
    service: Arc<str>,
    /// Its name tells the program.
    is_named: bool,
    owners: Arc<[SocketOwner]>,
    /// When it was asked for last.
    seen: Instant,
}

/// Meters of all connections of a namespace, and the names of their services.
#[derive(Debug)]
pub(super) struct Watchlist {
    place: Arc<NetnsPlace>,
    meters: Meters,
    known: ByCookie<Known>,
    /// When those that were gone were forgotten.
    tidied: Instant,
}

impl Watchlist {
    pub(super) fn new(place: Arc<NetnsPlace>, now: Instant) -> Self {
        Self {
            place,
            meters: Meters::default(),
            known: ByCookie::default(),
            tidied: now,
        }
    }

    /// Sums up a look at a connection.
    pub(super) fn handle_look(&mut self, cookie: u64, sample: &FlowSample) {
        self.meters.handle_look(cookie, sample);
    }

    /// Changes since the previous call. Forgets connections that are gone.
    pub(super) fn poll<'t>(
        &mut self,
        now: Instant,
        tracks: impl Iterator<Item = &'t Track>,
    ) -> Vec<Connection> {
        let mut connections = Vec::with_capacity(self.known.len());
        for track in tracks.filter(|track| !track.ended) {
            let reading = self.meters.poll(track.cookie);
            let (Some(reading), Some(sample)) = (reading, track.samples.last_shared()) else {
                continue;
            };
            let (service, owners) = self.known(track, now);
            connections.push(Connection {
                cookie: track.cookie,
                place: Arc::clone(&self.place),
                service,
                sample,
                owners,
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
        if now.since(self.tidied) >= FORGOTTEN_AFTER {
            let before = std::mem::replace(&mut self.tidied, now);
            self.meters.forget_before(before);
            self.known.retain(|known| known.seen >= before);
        }
        connections
    }

    /// The service and the owners of a connection, made anew only where they have changed: the name
    /// is made once the program is known.
    fn known(&mut self, track: &Track, now: Instant) -> (Arc<str>, Arc<[SocketOwner]>) {
        let command = track.owners.first();
        let command = command.map(|owner| owner.process.command.as_str());
        let name = || service::name(Place::of(track.key), command).into();
        let Some(known) = self.known.value_mut(track.cookie) else {
            let known = Known {
                service: name(),
                is_named: command.is_some(),
                owners: track.owners.as_slice().into(),
                seen: now,
            };
            let told = (Arc::clone(&known.service), Arc::clone(&known.owners));
            self.known.insert(track.cookie, known);
            return told;
        };
        known.seen = now;
        if !known.is_named && command.is_some() {
            (known.service, known.is_named) = (name(), true);
        }
        if *known.owners != *track.owners {
            known.owners = track.owners.as_slice().into();
        }
        (Arc::clone(&known.service), Arc::clone(&known.owners))
    }
}
