//! One host: its addresses, listeners and connections.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use base::settings::SocketSettings;
use base::{FlowSample, Instant, KnobError, KnobValue, Limit};
use bytes::Bytes;

use crate::counters::Counters;
use crate::packet::Packet;
use crate::pool::PoolState;
use crate::trace::Trace;

/// What a host is made of.
#[derive(Clone, Debug)]
pub struct HostConfig {
    /// Its addresses; packets to others are counted and ignored.
    pub addrs: Vec<IpAddr>,
    /// MTU of its interface in bytes.
    pub mtu: u16,
    /// Decides everything random: initial sequence numbers, ports, timestamp offsets, tick phase.
    pub seed: u64,
    /// Settings of connections that name none.
    pub settings: SocketSettings,
    /// What is the same for all connections.
    pub system: HostSettings,
}

/// Settings that all connections of a host share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostSettings {
    /// Ticks per second of the timers (Linux `HZ`); 0: timers are exact.
    pub hz: u32,
    /// Ticks of one level of the timer wheel beyond which timers get coarser by 8 (Linux: 63); 0:
    /// all timers are one tick exact.
    pub coarse_above_ticks: u32,
    /// Shared packet buffers; `None`: memory is bounded by the connections' buffers alone.
    pub pool: Option<PoolSize>,
    /// Ephemeral ports, first and last (RFC 6056).
    pub ports: (u16, u16),
    /// Most packets in the local queue (`txqueuelen`).
    pub txqueuelen: u32,
    /// How far ahead of its time a paced packet may be handed out with
    /// [`Packet::not_before`] set; zero: the stack itself waits.
    pub pacing_horizon: Duration,
    /// Most connections, those in TIME-WAIT included.
    pub connections_max: u32,
    /// Most resets and challenge ACKs per second of the whole host, apart from the limit per
    /// connection (RFC 5961 section 7).
    pub answers_per_second: u32,
}

/// A pool of packet buffers (seed: `NetBurner`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSize {
    /// How many.
    pub buffers: u32,
    /// Bytes of each.
    pub buffer_bytes: u32,
    /// Of these, kept for other uses (serial ports).
    pub reserved: u32,
}

/// A connection or a listener of one host; never reused while the host lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// How a listener listens.
#[derive(Clone, Debug)]
pub struct ListenOptions {
    /// Connections that may wait to be accepted.
    pub backlog: u32,
    /// Answer statelessly when the backlog of half-open connections is full (RFC 4987).
    pub syn_cookies: bool,
    /// Settings of its connections.
    pub settings: SocketSettings,
}

/// Something that the application should know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A connection that this host opened is established.
    Connected,
    /// At a listener: [`Host::accept`] has a connection.
    Acceptable,
    /// There is data to read, or the end of it. Reported once until something was read.
    Readable,
    /// A write was refused or cut short, and there is room again.
    Writable,
    /// A write of Winsock semantics is complete, in order: so many since the last event.
    Completed(u32),
    /// The connection ended in order: both sides closed.
    Closed,
    /// The connection broke.
    Failed(Failure),
}

/// Why a connection broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// The peer reset it.
    Reset,
    /// The peer refused it (RST in answer to SYN, or a hard ICMP error).
    Refused,
    /// No answer within the retries or the user timeout.
    TimedOut,
    /// The network or host could not be reached, and the time for it ran out.
    Unreachable,
    /// We aborted it.
    Aborted,
}

/// Why a connection cannot be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectError {
    /// The host has no address of the remote's family.
    NoAddress,
    /// All ephemeral ports towards this remote are in use.
    NoPort,
    /// The host has as many connections as it may have.
    TooManyConnections,
    /// Port or address 0.
    InvalidRemote,
}

/// Why nobody can listen there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ListenError {
    /// Somebody does already.
    InUse,
    /// The host does not have that address.
    NoAddress,
    /// Port 0.
    InvalidPort,
}

/// Why nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WriteError {
    /// The buffer is full; [`Event::Writable`] tells when to try again.
    Full,
    /// The connection is not established yet.
    NotConnected,
    /// This side has closed, or there is no such connection.
    Closed,
    /// It broke.
    Failed(Failure),
}

/// Why nothing was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadError {
    /// Nothing is there yet; [`Event::Readable`] tells when.
    Empty,
    /// There is no such connection.
    Closed,
    /// It broke.
    Failed(Failure),
}

/// Why it does not send, and until when where that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The reason.
    pub limit: Limit,
    /// The latest end of it, where a timer is set.
    pub until: Option<Instant>,
}

/// How a write is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteFlags {
    /// More follows at once: a partial segment waits (`MSG_MORE`).
    pub more: bool,
    /// The last byte is urgent (RFC 9293 section 3.8.5).
    pub urgent: bool,
    /// The program does not wait: a send of Winsock beyond the quota is refused, where one that
    /// waits is buffered and completes later.
    pub no_wait: bool,
}

/// One host.
#[derive(Debug)]
pub struct Host {}

impl Host {
    /// A host without connections.
    pub fn new(config: HostConfig) -> Self {
        unimplemented!()
    }
    /// Listens at `local` (an unspecified address: all addresses of that family).
    pub fn listen(
        &mut self,
        local: SocketAddr,
        options: ListenOptions,
    ) -> Result<SocketId, ListenError> {
        unimplemented!()
    }
    /// Opens a connection; the SYN is ready to be sent. `local` None: an address and an ephemeral port.
    pub fn connect(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        settings: SocketSettings,
    ) -> Result<SocketId, ConnectError> {
        unimplemented!()
    }
    pub fn connect_from(
        &mut self,
        now: Instant,
        local: SocketAddr,
        remote: SocketAddr,
        settings: SocketSettings,
    ) -> Result<SocketId, ConnectError> {
        unimplemented!()
    }
    /// The next established connection of a listener.
    pub fn accept(&mut self, now: Instant, listener: SocketId) -> Option<SocketId> {
        unimplemented!()
    }

    pub fn handle_packet(&mut self, now: Instant, packet: Packet) {
        unimplemented!()
    }
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Packet> {
        unimplemented!()
    }
    pub fn poll_timeout(&self) -> Option<Instant> {
        unimplemented!()
    }
    pub fn handle_timeout(&mut self, now: Instant) {
        unimplemented!()
    }
    pub fn poll_event(&mut self) -> Option<(SocketId, Event)> {
        unimplemented!()
    }

    /// Bytes taken; less than asked for where the buffer is full then.
    pub fn write(&mut self, now: Instant, id: SocketId, bytes: &[u8]) -> Result<usize, WriteError> {
        unimplemented!()
    }
    /// As write, with slices that are not copied; takes what fits from the front of `chunk`.
    pub fn write_chunk(
        &mut self,
        now: Instant,
        id: SocketId,
        chunk: Bytes,
        flags: WriteFlags,
    ) -> Result<usize, WriteError> {
        unimplemented!()
    }
    /// Several slices in one write (`writev`).
    pub fn write_vectored(
        &mut self,
        now: Instant,
        id: SocketId,
        chunks: &[Bytes],
        flags: WriteFlags,
    ) -> Result<usize, WriteError> {
        unimplemented!()
    }
    /// Ok(0): the peer has closed.
    pub fn read(
        &mut self,
        now: Instant,
        id: SocketId,
        into: &mut [u8],
    ) -> Result<usize, ReadError> {
        unimplemented!()
    }
    /// Up to `max` bytes without copying (one slice); None: the peer has closed.
    pub fn read_chunk(
        &mut self,
        now: Instant,
        id: SocketId,
        max: usize,
    ) -> Result<Option<Bytes>, ReadError> {
        unimplemented!()
    }
    /// A whole `read(2)` of up to `max` bytes, as slices; empty: the peer has closed.
    pub fn read_chunks(
        &mut self,
        now: Instant,
        id: SocketId,
        max: usize,
    ) -> Result<crate::packet::Payload, ReadError> {
        unimplemented!()
    }
    /// No more data from us; reading goes on.
    pub fn shutdown(&mut self, now: Instant, id: SocketId) {
        unimplemented!()
    }
    /// Both directions; unread data makes it a reset (RFC 2525 2.17). The id is gone when all is sent and the state machine ends.
    pub fn close(&mut self, now: Instant, id: SocketId) {
        unimplemented!()
    }
    pub fn abort(&mut self, now: Instant, id: SocketId) {
        unimplemented!()
    }

    /// Sets a knob of `base::KNOBS` on a living connection (or a listener: of its future connections).
    pub fn set(
        &mut self,
        now: Instant,
        id: SocketId,
        knob: &str,
        value: &KnobValue,
    ) -> Result<(), KnobError> {
        unimplemented!()
    }
    pub fn get(&self, id: SocketId, knob: &str) -> Result<KnobValue, KnobError> {
        unimplemented!()
    }
    /// All settings at once; what only acts in the handshake is ignored afterwards.
    pub fn settings(&self, id: SocketId) -> Option<&SocketSettings> {
        unimplemented!()
    }
    pub fn configure(
        &mut self,
        now: Instant,
        id: SocketId,
        change: impl FnOnce(&mut SocketSettings),
    ) {
        unimplemented!()
    }

    pub fn limit(&self, now: Instant, id: SocketId) -> Option<Wait> {
        unimplemented!()
    }
    pub fn sample(&self, now: Instant, id: SocketId) -> Option<FlowSample> {
        unimplemented!()
    }
    pub fn counters(&self) -> &Counters {
        unimplemented!()
    }
    pub fn pool(&self) -> PoolState {
        unimplemented!()
    }
    /// unread bytes, bytes unacked+unsent (SIOCOUTQ) of a connection
    pub fn unread_bytes(&self, id: SocketId) -> u64 {
        unimplemented!()
    }
    pub fn unacked_bytes(&self, id: SocketId) -> u64 {
        unimplemented!()
    }
    pub fn unsent_bytes(&self, id: SocketId) -> u64 {
        unimplemented!()
    }
    pub fn local_addr(&self, id: SocketId) -> Option<SocketAddr> {
        unimplemented!()
    }
    pub fn remote_addr(&self, id: SocketId) -> Option<SocketAddr> {
        unimplemented!()
    }
    pub fn sockets(&self) -> alloc::vec::IntoIter<SocketId> {
        unimplemented!()
    }
    /// What happens is told to `trace` from now on.
    pub fn set_trace(&mut self, trace: Box<dyn Trace>) {
        unimplemented!()
    }
}
