//! Three classic services: discard, character generator, echo (RFC 863, 864, 862), for any number
//! of connections at once.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use anyhow::Context;
use base::Instant;
use base::settings::SocketSettings;
use bytes::Bytes;
use lab::app::App;
use stack::{Event, Host, ListenOptions, Payload, ReadError, SocketId, WriteError, WriteFlags};

/// Most bytes of one read.
const READ_BYTES: usize = 256 << 10;

/// Memory that the generator writes repeatedly: little enough to stay in the cache.
const CHUNK_BYTES: usize = 128 << 10;

/// How often it does in one call. What remains of a call behind its last whole GSO packet leaves
/// as a small packet, so that few large writes cost less than many small ones.
const CHUNKS: usize = 8;

/// Service of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Service {
    /// Reads and forgets.
    Discard,
    /// Writes as fast as it goes, until the peer closes.
    Generate,
    /// Writes what it reads.
    Echo,
}

/// Ports of the services.
pub(super) const PORTS: [(u16, Service); 3] = [
    (5001, Service::Discard),
    (5002, Service::Generate),
    (5003, Service::Echo),
];

/// The program.
#[derive(Debug)]
pub(super) struct Ports {
    addrs: Vec<IpAddr>,
    backlog: u32,
    settings: SocketSettings,
    listeners: BTreeMap<SocketId, Service>,
    connections: BTreeMap<SocketId, Connection>,
    /// Whose turn it is.
    ready: VecDeque<SocketId>,
    generated: [Bytes; CHUNKS],
    accepted: u64,
    /// Received and sent by connections that have ended.
    carried: (u64, u64),
}

#[derive(Debug)]
struct Connection {
    service: Service,
    received_bytes: u64,
    sent_bytes: u64,
    /// Read and not written back yet.
    pending: Payload,
    is_ready: bool,
}

impl Ports {
    pub(super) fn new(addrs: Vec<IpAddr>, backlog: u32, settings: SocketSettings) -> Self {
        let chunk = Bytes::from(vec![0; CHUNK_BYTES]);
        Self {
            addrs,
            backlog,
            settings,
            listeners: BTreeMap::new(),
            connections: BTreeMap::new(),
            ready: VecDeque::new(),
            generated: std::array::from_fn(|_| chunk.clone()),
            accepted: 0,
            carried: (0, 0),
        }
    }

    /// Listens on every port of every address.
    ///
    /// # Errors
    /// Where the host refuses one of them.
    pub(super) fn listen(&mut self, host: &mut Host) -> anyhow::Result<()> {
        let places = self
            .addrs
            .iter()
            .flat_map(|addr| PORTS.map(|(port, service)| (SocketAddr::new(*addr, port), service)));
        for (place, service) in places {
            let options = ListenOptions::new(self.settings.clone()).with_backlog(self.backlog);
            let id = host
                .listen(place, options)
                .with_context(|| format!("listening at {place}"))?;
            self.listeners.insert(id, service);
        }
        Ok(())
    }

    /// Connections that were accepted so far.
    pub(super) const fn accepted(&self) -> u64 {
        self.accepted
    }

    /// Bytes received and sent so far.
    pub(super) fn carried(&self) -> (u64, u64) {
        self.connections
            .values()
            .fold(self.carried, |(received, sent), connection| {
                (
                    received + connection.received_bytes,
                    sent + connection.sent_bytes,
                )
            })
    }

    /// Each open connection with the bytes that it received and sent.
    pub(super) fn connections(&self) -> impl Iterator<Item = (SocketId, u64, u64)> {
        self.connections
            .iter()
            .map(|(id, connection)| (*id, connection.received_bytes, connection.sent_bytes))
    }

    fn wake(&mut self, id: SocketId) {
        if let Some(connection) = self.connections.get_mut(&id)
            && !std::mem::replace(&mut connection.is_ready, true)
        {
            self.ready.push_back(id);
        }
    }

    fn accept(&mut self, now: Instant, host: &mut Host, listener: SocketId, service: Service) {
        while let Some(id) = host.accept(now, listener) {
            self.accepted += 1;
            let connection = Connection {
                service,
                received_bytes: 0,
                sent_bytes: 0,
                pending: Payload::default(),
                is_ready: false,
            };
            self.connections.insert(id, connection);
            self.wake(id);
        }
    }
}

/// Result of one call.
enum Call {
    /// Can go on at once.
    More,
    /// An event tells when.
    Waits,
    /// The connection has ended.
    Ended,
}

impl Connection {
    fn call(&mut self, now: Instant, host: &mut Host, id: SocketId, generated: &[Bytes]) -> Call {
        match self.service {
            Service::Generate => self.generate(now, host, id, generated),
            Service::Discard => self.read(now, host, id),
            Service::Echo => self.echo(now, host, id),
        }
    }

    fn generate(
        &mut self,
        now: Instant,
        host: &mut Host,
        id: SocketId,
        generated: &[Bytes],
    ) -> Call {
        match host.write_vectored(now, id, generated, WriteFlags::default()) {
            Ok(written) => {
                self.sent_bytes += written as u64;
                Call::More
            }
            Err(WriteError::Full) => self.read(now, host, id),
            Err(_) => Call::Ended,
        }
    }

    /// Reads and writes in one call: a request does not wait for another connection's turn.
    fn echo(&mut self, now: Instant, host: &mut Host, id: SocketId) -> Call {
        if self.pending.is_empty() {
            let call = self.read(now, host, id);
            if self.pending.is_empty() {
                return call;
            }
        }
        self.write_back(now, host, id)
    }

    fn write_back(&mut self, now: Instant, host: &mut Host, id: SocketId) -> Call {
        match host.write_vectored(now, id, self.pending.chunks(), WriteFlags::default()) {
            Ok(written) => {
                self.sent_bytes += written as u64;
                self.pending
                    .advance(u32::try_from(written).unwrap_or(u32::MAX));
                Call::More
            }
            Err(WriteError::Full) => Call::Waits,
            Err(_) => Call::Ended,
        }
    }

    fn read(&mut self, now: Instant, host: &mut Host, id: SocketId) -> Call {
        match host.read_chunks(now, id, READ_BYTES) {
            Ok(payload) if payload.is_empty() => Call::Ended,
            Ok(payload) => {
                self.received_bytes += u64::from(payload.len());
                if self.service == Service::Echo {
                    self.pending = payload;
                }
                Call::More
            }
            Err(ReadError::Empty) => Call::Waits,
            Err(_) => Call::Ended,
        }
    }
}

impl App for Ports {
    fn start(&mut self, _now: Instant, _host: &mut Host) {
        // It listens before that is announced.
    }

    fn handle_event(&mut self, _now: Instant, id: SocketId, _event: Event) {
        if self.listeners.contains_key(&id) {
            self.ready.push_back(id);
        } else {
            self.wake(id);
        }
    }

    fn call(&mut self, now: Instant, host: &mut Host) -> bool {
        let Some(id) = self.ready.pop_front() else {
            return false;
        };
        if let Some(&service) = self.listeners.get(&id) {
            self.accept(now, host, id, service);
            return true;
        }
        let Some(connection) = self.connections.get_mut(&id) else {
            return true;
        };
        connection.is_ready = false;
        match connection.call(now, host, id, &self.generated) {
            Call::More => self.wake(id),
            Call::Waits => {}
            Call::Ended => {
                self.carried.0 += connection.received_bytes;
                self.carried.1 += connection.sent_bytes;
                self.connections.remove(&id);
                host.close(now, id);
            }
        }
        true
    }

    fn poll_timeout(&mut self) -> Option<Instant> {
        None
    }

    fn is_done(&self) -> bool {
        false
    }
}
