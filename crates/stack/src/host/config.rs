//! Configuration, reports and errors of a host.

use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;
use core::time::Duration;

use base::settings::SocketSettings;
use base::{Instant, Limit};

use crate::profile::Profile;

/// Configuration of a host. Start from [`HostConfig::of`]; fields will be added.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HostConfig {
    /// Its addresses; packets to others are counted and ignored, unless
    /// [`HostSettings::any_address`] says otherwise.
    pub addrs: Vec<IpAddr>,
    /// MTU of its interface in bytes.
    pub mtu: u16,
    /// Decides everything random: phases and, where there is no `secret`, initial sequence numbers,
    /// ports and timestamp offsets.
    pub seed: u64,
    /// The key of everything that a peer must not guess (RFC 6528, RFC 6056, RFC 4987): required if
    /// packets come from untrusted peers. `None` derives it from `seed`, so that a simulation is
    /// repeatable; anyone who guesses 64 bits, or observes enough of them, then knows all.
    pub secret: Option<Secret>,
    /// Settings of connections that name none.
    pub settings: SocketSettings,
    /// Settings shared by all connections.
    pub system: HostSettings,
}

impl HostConfig {
    /// A host on Ethernet (MTU 1500) with everything else as `profile` has it.
    #[must_use]
    pub fn of(profile: &Profile, addr: IpAddr, seed: u64) -> Self {
        Self {
            addrs: alloc::vec![addr],
            mtu: 1500,
            seed,
            secret: None,
            settings: profile.settings.clone(),
            system: profile.system.clone(),
        }
    }
}

impl ListenOptions {
    /// With a backlog of 4096, SYN cookies where it is full, and these settings of its connections.
    #[must_use]
    pub const fn new(settings: SocketSettings) -> Self {
        Self {
            backlog: 4096,
            syn_cookies: true,
            settings,
        }
    }

    /// As `profile` has it.
    #[must_use]
    pub fn of(profile: &Profile) -> Self {
        Self {
            backlog: profile.backlog,
            syn_cookies: profile.syn_cookies,
            settings: profile.settings.clone(),
        }
    }

    /// With this backlog instead.
    #[must_use]
    pub fn with_backlog(self, backlog: u32) -> Self {
        Self { backlog, ..self }
    }

    /// With or without SYN cookies where the backlog is full.
    #[must_use]
    pub fn with_syn_cookies(self, syn_cookies: bool) -> Self {
        Self {
            syn_cookies,
            ..self
        }
    }
}

/// Secret random bytes, such as those of `getrandom`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret(pub [u8; 16]);

/// Never shows the secret.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
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
    /// Memory that all connections together may use for received and written data.
    pub memory: MemoryBudget,
    /// Ephemeral ports, first and last (RFC 6056).
    pub ports: (u16, u16),
    /// Most packets in the local queue (`txqueuelen`).
    pub txqueuelen: u32,
    /// A packet no longer counts against its connection once it is in the local queue, as with an
    /// interface that completes each packet as it gets it (TUN, veth, loopback): limits of the
    /// local queue do not act, and a write sends data while it runs, as far as the windows allow.
    pub completes_at_once: bool,
    /// How far ahead of its time a paced packet may be handed out with
    /// [`Packet::not_before`](crate::Packet::not_before) set; zero: the stack itself waits.
    pub pacing_horizon: Duration,
    /// Most connections and listeners; connections in TIME-WAIT have a bound of their own. Those
    /// that are half open take half of what the others leave: then SYN cookies begin, where a
    /// listener has them.
    pub connections_max: u32,
    /// Most connections in TIME-WAIT; one more is closed at once, and its ports may be used again
    /// (Linux `net.ipv4.tcp_max_tw_buckets`).
    pub time_wait_max: u32,
    /// Every address is taken for one of the host's, as a transparent proxy needs it (Linux
    /// `IP_TRANSPARENT`): a listener on the unspecified address takes connections to all, one on
    /// its port 0 those to all ports as well, and [`Host::local_addr`](crate::Host::local_addr) of
    /// a connection says where its peer wanted to go.
    pub any_address: bool,
    /// Most answers per second of the whole host to what belongs to no open connection. Challenge
    /// ACKs have a limit per connection (RFC 5961 section 7).
    pub answers_per_second: u32,
}

/// Memory of received data that was not read yet or waits out of order, and of written data that is
/// not acknowledged, of all connections of a host, with what packets take beside their bytes (Linux
/// `net.ipv4.tcp_mem`). Beyond the limit each connection may still take the one segment that its
/// application waits for, and write as much as 4096 bytes of memory hold, so that none ever stalls;
/// one that its application has closed and whose peer does not take what is left is reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryBudget {
    /// Bytes above which buffers stop growing, and only connections that hold less than an equal
    /// share of the limit may take more.
    pub pressure_bytes: u64,
    /// The limit in bytes. It should not be below `pressure_bytes`.
    pub max_bytes: u64,
}

impl MemoryBudget {
    /// Half a gibibyte; pressure begins at three quarters of it.
    pub const DEFAULT: Self = Self {
        pressure_bytes: 384 << 20,
        max_bytes: 512 << 20,
    };
    /// Each connection's own buffer is the only bound.
    pub const UNLIMITED: Self = Self {
        pressure_bytes: u64::MAX,
        max_bytes: u64::MAX,
    };
}

/// A pool of packet buffers (seed: `NetBurner`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSize {
    /// How many.
    pub buffers: u32,
    /// Bytes of each.
    pub buffer_bytes: u32,
    /// Of these, reserved for other uses (serial ports).
    pub reserved: u32,
}

/// A connection or a listener of one host; never reused while the host lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl SocketId {
    /// A small number that no other socket of its host has at the same time: a place in a table of
    /// what a program keeps for each socket. One that has ended leaves its number to a later one.
    #[must_use]
    #[inline]
    pub const fn place(self) -> usize {
        self.index as usize
    }
}

/// How a listener listens; begin with [`ListenOptions::new`] or [`ListenOptions::of`].
#[derive(Clone, Debug)]
#[non_exhaustive]
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
#[non_exhaustive]
pub enum Event {
    /// A connection that this host opened is established.
    Connected,
    /// At a listener: [`Host::accept`](crate::Host::accept) has a connection.
    Acceptable,
    /// There is data to read, or the end of it. Reported once until something was read.
    Readable,
    /// A write was refused or cut short, and there is room again.
    Writable,
    /// A write of Winsock semantics is complete, in order: this many since the last event.
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
    /// The peer reset it after sending all its data, in CLOSE-WAIT: Linux distinguishes this
    /// (`tcp_reset`, `EPIPE`), the other profiles do not.
    BrokenPipe,
    /// The peer refused it (RST in answer to SYN, or a hard ICMP error).
    Refused,
    /// No answer within the retries or the user timeout.
    TimedOut,
    /// The network or host could not be reached, and the time for it ran out.
    Unreachable,
    /// This host aborted it.
    Aborted,
    /// The program shut an attempt to connect down (Linux `tcp_disconnect`): the first call says
    /// `ECONNRESET`, later reads that there is no connection.
    Disconnected,
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

/// Reason why a port cannot be listened on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ListenError {
    /// There is a listener already.
    InUse,
    /// The host does not have that address.
    NoAddress,
    /// Port 0, which only a host of any address listens on, and there on the unspecified address.
    InvalidPort,
}

/// Why nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WriteError {
    /// The buffer is full; [`Event::Writable`] reports when to try again.
    Full,
    /// The connection is not established yet.
    NotConnected,
    /// This side has closed, or the connection does not exist.
    Closed,
    /// The connection failed.
    Failed(Failure),
}

/// Why nothing was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadError {
    /// No data yet; [`Event::Readable`] reports when there is some.
    Empty,
    /// The connection does not exist.
    Closed,
    /// The connection failed.
    Failed(Failure),
}

/// Why a connection does not send, and until when, if that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Wait {
    /// The reason.
    pub limit: Limit,
    /// The latest end of it, where a timer is set.
    pub until: Option<Instant>,
}

/// How a write is made. It begins with its default, an ordinary write, and grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriteFlags {
    /// More follows at once: a partial segment waits (`MSG_MORE`).
    pub more: bool,
    /// The last byte is urgent (RFC 9293 section 3.8.5).
    pub urgent: bool,
    /// The program does not wait: a send of Winsock beyond the quota is refused, where one that
    /// waits is buffered and completes later.
    pub no_wait: bool,
}

impl WriteFlags {
    /// The same, and more follows at once, or not.
    #[must_use]
    pub const fn with_more(mut self, more: bool) -> Self {
        self.more = more;
        self
    }

    /// The same, and the last byte is urgent, or not.
    #[must_use]
    pub const fn with_urgent(mut self, urgent: bool) -> Self {
        self.urgent = urgent;
        self
    }

    /// The same, and the program waits, or not.
    #[must_use]
    pub const fn with_no_wait(mut self, no_wait: bool) -> Self {
        self.no_wait = no_wait;
        self
    }
}

/// `3.1`: the slot, and how often it was used.
impl fmt::Display for SocketId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.index, self.generation)
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoAddress => "the host has no address of that family",
            Self::NoPort => "all ports towards this destination are in use",
            Self::TooManyConnections => "the host has as many connections as it may have",
            Self::InvalidRemote => "the destination has no port or no address",
        })
    }
}

impl core::error::Error for ConnectError {}

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InUse => "the address is in use",
            Self::NoAddress => "the host does not have that address",
            Self::InvalidPort => "port 0 cannot be listened on",
        })
    }
}

impl core::error::Error for ListenError {}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reset => "the peer reset the connection",
            Self::BrokenPipe => "the peer closed its side and then reset the connection",
            Self::Refused => "the peer refused the connection",
            Self::TimedOut => "no answer came in time",
            Self::Unreachable => "the peer cannot be reached",
            Self::Aborted => "the connection was aborted here",
            Self::Disconnected => "the attempt to connect was shut down here",
        })
    }
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("the send buffer is full"),
            Self::NotConnected => f.write_str("the connection is not established yet"),
            Self::Closed => f.write_str("this side of the connection is closed"),
            Self::Failed(failure) => failure.fmt(f),
        }
    }
}

impl core::error::Error for WriteError {}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("nothing is there yet"),
            Self::Closed => f.write_str("there is no such connection"),
            Self::Failed(failure) => failure.fmt(f),
        }
    }
}

impl core::error::Error for ReadError {}
