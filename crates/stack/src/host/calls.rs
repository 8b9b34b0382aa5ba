//! Calls of applications on a host.

use alloc::boxed::Box;
use core::net::SocketAddr;

use base::settings::SocketSettings;
use base::{FlowSample, Instant, KnobError, KnobValue, find_knob};
use bytes::Bytes;
use smallvec::SmallVec;

use super::incoming::is_many;
use super::sockets::Kind;
use super::{
    ConnectError, Failure, Host, ListenError, ListenOptions, Listener, ReadError, SocketId, Wait,
    WriteError, WriteFlags,
};
use crate::Arc;
use crate::packet::Payload;
use crate::tcp::counters::ConnectionCounters;
use crate::tcp::{Arrived, Connection, Opening};

/// Bytes of a write that are copied at once: a GSO packet.
const COPY_BYTES: usize = 65_536;
/// The same where the memory of the host is scarce.
const COPY_BYTES_OF_LITTLE: usize = 4096;

impl Host {
    /// Listens at `local`; an unspecified address means all addresses of its family, and with it,
    /// on a host of any address, port 0 means all ports on which no other program listens.
    ///
    /// # Errors
    /// [`ListenError`]: port 0, an address that is not the host's, or a listener there already.
    pub fn listen(
        &mut self,
        local: SocketAddr,
        options: ListenOptions,
    ) -> Result<SocketId, ListenError> {
        let local = without_scope(local);
        let takes_all = self.shared.system.any_address && local.ip().is_unspecified();
        if local.port() == 0 && !takes_all {
            return Err(ListenError::InvalidPort);
        }
        if !local.ip().is_unspecified() && !self.has_address(local.ip()) {
            return Err(ListenError::NoAddress);
        }
        if self.listeners.contains_key(&local) {
            return Err(ListenError::InUse);
        }
        let listener = Kind::Listener(Box::new(Listener::new(local, options)));
        let id = self.sockets.insert(|_| listener);
        self.listeners.insert(local, id.index);
        Ok(id)
    }

    /// Opens a connection from an address of this host and an ephemeral port; the SYN is ready to
    /// be sent.
    ///
    /// # Errors
    /// [`ConnectError`]: no address of that family, no free port, too many connections.
    pub fn connect(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        settings: SocketSettings,
    ) -> Result<SocketId, ConnectError> {
        let remote = without_scope(remote);
        let ip = self
            .addrs
            .iter()
            .copied()
            .find(|ip| ip.is_ipv4() == remote.is_ipv4())
            .ok_or(ConnectError::NoAddress)?;
        let (flows, sockets) = (&self.flows, &self.sockets);
        let range = self.shared.system.ports;
        let port = self
            .ports
            .pick(range, ip, remote, |port| {
                let ends = (remote, SocketAddr::new(ip, port));
                let is_its = |index| sockets.has_ends(index, &ends);
                flows.find(&ends, is_its).is_none()
            })
            .ok_or(ConnectError::NoPort)?;
        self.connect_from(now, SocketAddr::new(ip, port), remote, settings)
    }

    /// Opens a connection from `local`.
    ///
    /// # Errors
    /// As [`Host::connect`]; [`ConnectError::NoPort`] where that pair of ends is in use.
    pub fn connect_from(
        &mut self,
        now: Instant,
        local: SocketAddr,
        remote: SocketAddr,
        settings: SocketSettings,
    ) -> Result<SocketId, ConnectError> {
        let (local, remote) = (without_scope(local), without_scope(remote));
        let is_valid = local.port() != 0 && remote.port() != 0 && !is_many(remote.ip());
        if !is_valid {
            return Err(ConnectError::InvalidRemote);
        }
        if !self.has_address(local.ip()) || local.is_ipv4() != remote.is_ipv4() {
            return Err(ConnectError::NoAddress);
        }
        if self.flow(remote, local).is_some() {
            return Err(ConnectError::NoPort);
        }
        if !self.has_room() {
            return Err(ConnectError::TooManyConnections);
        }
        if *self.settings_of_last != settings {
            self.settings_of_last = Arc::new(settings);
        }
        let iss = self.isn.next(now, local, remote);
        let timestamp_offset = self.isn.timestamp_offset(local.ip(), remote.ip());
        let shared = &mut self.shared;
        let id = self.sockets.insert(|id| {
            let opening = Opening {
                id,
                listener: None,
                local,
                remote,
                iss,
                timestamp_offset,
                settings: &self.settings_of_last,
            };
            Kind::Connection(Connection::connect(now, shared, &opening))
        });
        self.lead_to(&(remote, local), id.index);
        self.settle(now, id.index);
        Ok(id)
    }

    /// The next established connection of a listener.
    pub fn accept(&mut self, now: Instant, listener: SocketId) -> Option<SocketId> {
        loop {
            let id = self.sockets.listener(listener)?.accept_queue.pop_front()?;
            let Some(connection) = self.sockets.connection(id) else {
                continue;
            };
            connection.on_accept(now, &mut self.shared);
            self.settle(now, id.index);
            return Some(id);
        }
    }

    /// Takes data; returns how many bytes, which is less than all where the buffer is full then.
    ///
    /// # Errors
    /// [`WriteError`]; with [`WriteError::Full`] an [`Event::Writable`](crate::Event) follows.
    pub fn write(&mut self, now: Instant, id: SocketId, bytes: &[u8]) -> Result<usize, WriteError> {
        // A write that is cut short keeps at most the last copy, taken in part, alive.
        let copy_bytes = match self.shared.memory.is_plenty() {
            true => COPY_BYTES,
            false => COPY_BYTES_OF_LITTLE,
        };
        let copies: SmallVec<[Bytes; 4]> = bytes
            .chunks(copy_bytes)
            .map(Bytes::copy_from_slice)
            .collect();
        self.write_vectored(now, id, &copies, WriteFlags::default())
    }

    /// As [`Host::write`], without copying: takes what fits from the front of `chunk`.
    ///
    /// # Errors
    /// [`WriteError`].
    pub fn write_chunk(
        &mut self,
        now: Instant,
        id: SocketId,
        chunk: Bytes,
        flags: WriteFlags,
    ) -> Result<usize, WriteError> {
        self.write_vectored(now, id, &[chunk], flags)
    }

    /// Several slices in one write, as `writev` does.
    ///
    /// # Errors
    /// [`WriteError`].
    pub fn write_vectored(
        &mut self,
        now: Instant,
        id: SocketId,
        chunks: &[Bytes],
        flags: WriteFlags,
    ) -> Result<usize, WriteError> {
        let connection = self.sockets.connection(id).ok_or(WriteError::Closed)?;
        let result = connection.write(now, &mut self.shared, chunks, flags);
        self.settle(now, id.index);
        result
    }

    /// Reads into `into`; 0 means that the peer has closed.
    ///
    /// # Errors
    /// [`ReadError`]; with [`ReadError::Empty`] an [`Event::Readable`](crate::Event) follows.
    pub fn read(
        &mut self,
        now: Instant,
        id: SocketId,
        into: &mut [u8],
    ) -> Result<usize, ReadError> {
        let payload = self.read_chunks(now, id, into.len())?;
        let mut at = 0;
        for chunk in payload.chunks() {
            into[at..at + chunk.len()].copy_from_slice(chunk);
            at += chunk.len();
        }
        Ok(at)
    }

    /// Reads up to `max` bytes without copying; an empty payload means that the peer has closed.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn read_chunks(
        &mut self,
        now: Instant,
        id: SocketId,
        max: usize,
    ) -> Result<Payload, ReadError> {
        let connection = self.sockets.connection(id).ok_or(ReadError::Closed)?;
        let result = connection.read(now, &mut self.shared, max);
        // Mostly a read needs no ACK, since one was sent already.
        let has_read = matches!(&result, Ok(payload) if !payload.is_empty());
        if has_read
            && (connection.answers_read(now, &mut self.shared) || self.shared.pool.is_limited())
        {
            self.settle(now, id.index);
        }
        result
    }

    /// Shows up to `max` bytes of what a read would return, which stay to be read (`MSG_PEEK`); an
    /// empty payload means that the peer has closed.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn peek_chunks(
        &mut self,
        now: Instant,
        id: SocketId,
        max: usize,
    ) -> Result<Payload, ReadError> {
        let connection = self.sockets.connection(id).ok_or(ReadError::Closed)?;
        let result = connection.peek(now, max);
        if connection.answers_read(now, &mut self.shared) {
            self.settle(now, id.index);
        }
        result
    }

    /// Whether [`Event::Readable`](crate::Event) would be due, had it not been reported: at least
    /// `rcvlowat` bytes can be read, or the end, or a failure (`poll` with `POLLIN`).
    #[must_use]
    pub fn is_readable(&self, id: SocketId) -> bool {
        self.sockets.look(id).is_some_and(Connection::is_readable)
    }

    /// Shuts down the receiving side (`SHUT_RD`): reads return the data that has arrived and then
    /// the end, and [`Event::Readable`](crate::Event) is reported. Later data is still acknowledged
    /// and can be read, but resets the connection if [`Host::shutdown`] has closed our side.
    pub fn shutdown_read(&mut self, now: Instant, id: SocketId) {
        if let Some(connection) = self.sockets.connection(id) {
            connection.shutdown_read(now, &mut self.shared);
            self.settle(now, id.index);
        }
    }

    /// Shuts down the sending side; reading continues (RFC 9293 section 3.9.1.4).
    pub fn shutdown(&mut self, now: Instant, id: SocketId) {
        if let Some(connection) = self.sockets.connection(id) {
            connection.shutdown(now, &mut self.shared);
            self.settle(now, id.index);
        }
    }

    /// Closes a connection or a listener: `id` is invalid afterwards, and what was written is still
    /// delivered. Data that arrived and was not read makes it a reset (RFC 2525 section 2.17).
    pub fn close(&mut self, now: Instant, id: SocketId) {
        if self.sockets.listener(id).is_some() {
            self.close_listener(now, id);
        } else if let Some(connection) = self.sockets.connection(id) {
            connection.close(now, &mut self.shared);
            connection.give_way(now, &mut self.shared);
            self.settle(now, id.index);
        }
    }

    /// Aborts a connection: the peer receives a RST, and nothing more is delivered.
    pub fn abort(&mut self, now: Instant, id: SocketId) {
        if let Some(connection) = self.sockets.connection(id) {
            connection.abort(now, &mut self.shared);
            self.settle(now, id.index);
        }
    }

    fn close_listener(&mut self, now: Instant, id: SocketId) {
        if let Some(listener) = self.sockets.listener(id) {
            let local = listener.local;
            self.listeners.remove(&local);
        }
        let children: alloc::vec::Vec<SocketId> = self
            .sockets
            .ids()
            .filter(|child| {
                self.sockets
                    .look(*child)
                    .is_some_and(|connection| connection.socket().is_unaccepted_of(id))
            })
            .collect();
        for child in children {
            self.abort(now, child);
        }
        self.sockets.remove(id);
    }

    /// Sets a knob of [`base::KNOBS`] on an open connection, or on a listener for its future
    /// connections.
    ///
    /// # Errors
    /// [`KnobError`]: no such knob, none of this stack's, or a value out of its range.
    pub fn set(
        &mut self,
        now: Instant,
        id: SocketId,
        knob: &str,
        value: &KnobValue,
    ) -> Result<(), KnobError> {
        let knob = find_knob(knob)?;
        match (knob.name, value) {
            ("quickack", _) => {
                knob.check(value)?;
                self.set_quickack(now, id, u32::from(*value == KnobValue::Flag(true)));
                return Ok(());
            }
            ("buf_lock", KnobValue::Number(bits)) => {
                knob.check(value)?;
                self.keep_buffer_sizes(now, id, *bits);
            }
            _ => {}
        }
        let mut result = Ok(());
        self.configure(now, id, |settings| {
            result = knob.set(settings, value);
        });
        let pushes = matches!(
            (knob.name, value),
            ("nodelay", KnobValue::Flag(true)) | ("cork", KnobValue::Flag(false))
        );
        if pushes && result.is_ok() {
            self.push(now, id);
        }
        result
    }

    /// Sends held segments where Nagle's algorithm is off: for applications that set `TCP_NODELAY`
    /// or clear `TCP_CORK`, also repeatedly (Linux `__tcp_sock_set_nodelay`,
    /// `__tcp_sock_set_cork`). [`Host::set`] calls it.
    pub fn push(&mut self, now: Instant, id: SocketId) {
        if let Some(connection) = self.sockets.connection(id) {
            connection.push(now, &mut self.shared);
            self.settle(now, id.index);
        }
    }

    /// Locking keeps the present size of the buffer (Linux `SO_BUF_LOCK`).
    fn keep_buffer_sizes(&mut self, now: Instant, id: SocketId, bits: u64) {
        let Some(connection) = self.sockets.connection(id) else {
            return;
        };
        let (sndbuf_bytes, rcvbuf_bytes) = connection.buffer_bytes();
        self.configure(now, id, |settings| {
            if bits & 1 != 0 {
                settings.send.buffer.fixed.get_or_insert(sndbuf_bytes);
            }
            if bits & 2 != 0 {
                settings.recv.buffer.fixed.get_or_insert(rcvbuf_bytes);
            }
        });
    }

    /// The value of a knob.
    ///
    /// # Errors
    /// [`KnobError`]: no such knob, or none of this stack's.
    pub fn get(&self, id: SocketId, knob: &str) -> Result<Option<KnobValue>, KnobError> {
        let knob = find_knob(knob)?;
        self.settings(id)
            .map(|settings| knob.get(settings))
            .transpose()
    }

    /// Why a connection broke; `None` where it did not.
    #[must_use]
    pub fn failure(&self, id: SocketId) -> Option<Failure> {
        self.sockets.look(id)?.failure()
    }

    /// Connections of a listener that wait to be accepted; 0 if `id` is not a listener.
    #[must_use]
    pub fn acceptable(&self, id: SocketId) -> usize {
        self.sockets
            .look_at_listener(id)
            .map_or(0, |listener| listener.accept_queue.len())
    }

    /// Whether a connection is established and still waits to be accepted.
    #[must_use]
    pub fn is_unaccepted(&self, id: SocketId) -> bool {
        self.sockets.look(id).is_some_and(Connection::is_acceptable)
    }

    /// All settings of a connection.
    #[must_use]
    pub fn settings(&self, id: SocketId) -> Option<&SocketSettings> {
        self.sockets.look(id).map(Connection::settings)
    }

    /// Settings that a listener passes on to new connections.
    #[must_use]
    pub fn listener_settings(&self, id: SocketId) -> Option<&SocketSettings> {
        self.sockets
            .look_at_listener(id)
            .map(|listener| &*listener.settings)
    }

    /// Changes settings of an open connection, or of a listener for the connections to come. What
    /// acts only in the handshake has no effect on a connection any more.
    pub fn configure(
        &mut self,
        now: Instant,
        id: SocketId,
        change: impl FnOnce(&mut SocketSettings),
    ) {
        if let Some(listener) = self.sockets.listener(id) {
            change(Arc::make_mut(&mut listener.settings));
        } else if let Some(connection) = self.sockets.connection(id) {
            connection.configure(now, &mut self.shared, change);
            self.settle(now, id.index);
        }
    }

    /// Enters or leaves quick-ACK mode (Linux `TCP_QUICKACK`; rule 8.7).
    pub fn set_quickack(&mut self, now: Instant, id: SocketId, value: u32) {
        if let Some(connection) = self.sockets.connection(id) {
            connection.set_quickack(now, &mut self.shared, value);
            self.settle(now, id.index);
        }
    }

    /// Sends a keepalive probe now (seed: `NetBurner` `TcpSendKeepAlive`).
    pub fn send_keepalive(&mut self, now: Instant, id: SocketId) {
        if let Some(connection) = self.sockets.connection(id)
            && connection.is_synchronized()
        {
            connection.send_keepalive(now, &mut self.shared);
            self.settle(now, id.index);
        }
    }

    /// Why a connection does not send more at this moment, and until when at the latest.
    #[must_use]
    pub fn limit(&self, _now: Instant, id: SocketId) -> Option<Wait> {
        self.sockets.look(id).map(|connection| connection.wait())
    }

    /// The flow record of a connection.
    #[must_use]
    pub fn sample(&self, now: Instant, id: SocketId) -> Option<FlowSample> {
        self.sockets
            .look(id)
            .map(|connection| connection.sample(now))
    }

    /// Bytes that have arrived at either end of a connection so far.
    #[must_use]
    pub fn arrived(&self, id: SocketId) -> Option<Arrived> {
        self.sockets.look(id).map(Connection::arrived)
    }

    /// All counters of a connection.
    #[must_use]
    pub fn connection_counters(&self, id: SocketId) -> Option<ConnectionCounters> {
        self.sockets.look(id).map(Connection::counters)
    }

    /// Bytes received in order and not read.
    #[must_use]
    pub fn unread_bytes(&self, id: SocketId) -> u64 {
        self.sockets.look(id).map_or(0, Connection::unread_bytes)
    }

    /// Bytes written and not acknowledged, sent or not (`SIOCOUTQ`).
    #[must_use]
    pub fn unacked_bytes(&self, id: SocketId) -> u64 {
        self.sockets
            .look(id)
            .map_or(0, Connection::outstanding_bytes)
    }

    /// Bytes written and not sent (`SIOCOUTQNSD`).
    #[must_use]
    pub fn unsent_bytes(&self, id: SocketId) -> u64 {
        self.sockets.look(id).map_or(0, Connection::unsent_bytes)
    }

    /// Accepted writes that are not complete, for Winsock's completion
    /// ([`base::settings::Completion`]): a blocking program waits until there are none;
    /// [`Event::Completed`](crate::Event) reports when there are fewer.
    #[must_use]
    pub fn incomplete_writes(&self, id: SocketId) -> usize {
        self.sockets
            .look(id)
            .map_or(0, Connection::incomplete_sends)
    }

    /// Our end of a connection; on a host of any address, where its peer wanted to go.
    #[must_use]
    pub fn local_addr(&self, id: SocketId) -> Option<SocketAddr> {
        self.sockets.look(id).map(Connection::local)
    }

    /// The other end of a connection.
    #[must_use]
    pub fn remote_addr(&self, id: SocketId) -> Option<SocketAddr> {
        self.sockets.look(id).map(Connection::remote)
    }

    /// All listeners and connections.
    pub fn sockets(&self) -> impl Iterator<Item = SocketId> + '_ {
        self.sockets.ids()
    }
}

/// A host has one interface: scope and flow label of an IPv6 address are ignored; packets do not
/// carry the scope.
fn without_scope(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip(), address.port())
}
