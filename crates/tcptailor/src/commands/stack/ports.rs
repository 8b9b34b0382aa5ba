//! Three services of old: discard, character generator, echo (RFC 863, 864, 862), for any number of
//! connections at once.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use base::Instant;
use base::settings::SocketSettings;
use bytes::Bytes;
use lab::app::App;
use stack::{Event, Host, ListenOptions, Payload, ReadError, SocketId, WriteError, WriteFlags};

/// Most bytes of one read, and of one write of the generator.
const CHUNK_BYTES: usize = 256 << 10;

/// What is done on a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Service {
    /// Reads and forgets.
    Discard,
    /// Writes as fast as it goes, until the peer closes.
    Generate,
    /// Writes what it reads.
    Echo,
}

const PORTS: [(u16, Service); 3] = [
    (5001, Service::Discard),
    (5002, Service::Generate),
    (5003, Service::Echo),
];

/// The program.
#[derive(Debug)]
pub(super) struct Ports {
    addr: IpAddr,
    backlog: u32,
    settings: SocketSettings,
    listeners: BTreeMap<SocketId, Service>,
    connections: BTreeMap<SocketId, Connection>,
    /// Whose turn it is.
    ready: VecDeque<SocketId>,
    generated: Bytes,
    failure: Option<String>,
}

#[derive(Debug)]
struct Connection {
    service: Service,
    /// Read and not written back yet.
    pending: Payload,
    is_ready: bool,
}

impl Ports {
    pub(super) fn new(addr: IpAddr, backlog: u32, settings: SocketSettings) -> Self {
        Self {
            addr,
            backlog,
            settings,
            listeners: BTreeMap::new(),
            connections: BTreeMap::new(),
            ready: VecDeque::new(),
            generated: Bytes::from(vec![0; CHUNK_BYTES]),
            failure: None,
        }
    }

    /// Why it could not begin.
    pub(super) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
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
            let connection = Connection {
                service,
                pending: Payload::default(),
                is_ready: false,
            };
            self.connections.insert(id, connection);
            self.wake(id);
        }
    }
}

/// What one call came to.
enum Call {
    /// It may go on at once.
    More,
    /// An event tells when.
    Waits,
    /// The connection has ended.
    Ended,
}

impl Connection {
    fn call(&mut self, now: Instant, host: &mut Host, id: SocketId, generated: &Bytes) -> Call {
        match self.service {
            Service::Generate => self.generate(now, host, id, generated),
            Service::Discard => read(now, host, id, drop),
            Service::Echo if self.pending.is_empty() => {
                let pending = &mut self.pending;
                read(now, host, id, |payload| *pending = payload)
            }
            Service::Echo => self.write_back(now, host, id),
        }
    }

    fn generate(&self, now: Instant, host: &mut Host, id: SocketId, generated: &Bytes) -> Call {
        match host.write_chunk(now, id, generated.clone(), WriteFlags::default()) {
            Ok(_) => Call::More,
            Err(WriteError::Full) => read(now, host, id, drop),
            Err(_) => Call::Ended,
        }
    }

    fn write_back(&mut self, now: Instant, host: &mut Host, id: SocketId) -> Call {
        match host.write_vectored(now, id, self.pending.chunks(), WriteFlags::default()) {
            Ok(written) => {
                self.pending
                    .advance(u32::try_from(written).unwrap_or(u32::MAX));
                Call::More
            }
            Err(WriteError::Full) => Call::Waits,
            Err(_) => Call::Ended,
        }
    }
}

fn read(now: Instant, host: &mut Host, id: SocketId, take: impl FnOnce(Payload)) -> Call {
    match host.read_chunks(now, id, CHUNK_BYTES) {
        Ok(payload) if payload.is_empty() => Call::Ended,
        Ok(payload) => {
            take(payload);
            Call::More
        }
        Err(ReadError::Empty) => Call::Waits,
        Err(_) => Call::Ended,
    }
}

impl App for Ports {
    fn start(&mut self, _now: Instant, host: &mut Host) {
        for (port, service) in PORTS {
            let options = ListenOptions {
                backlog: self.backlog,
                syn_cookies: true,
                settings: self.settings.clone(),
            };
            match host.listen((self.addr, port).into(), options) {
                Ok(id) => {
                    self.listeners.insert(id, service);
                }
                Err(error) => self.failure = Some(format!("port {port}: {error}")),
            }
        }
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
        self.failure.is_some()
    }
}
