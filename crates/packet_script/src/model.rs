//! Scripts as data.

use std::time::Duration;

use base::ip::Ecn;
use base::tcp::TcpFlags;

/// A script that was read and is known to make sense.
#[derive(Clone, Debug)]
pub struct PacketScript {
    /// Description.
    pub about: String,
    /// Rules that it tests, by the id of a test vector.
    pub vectors: Vec<String>,
    /// The only engine that it runs on, with the name of the behaviour that is the reason.
    pub only: Option<(Engine, String)>,
    /// Behaviours by which steps differ between the engines.
    pub excuses: Vec<String>,
    /// Settings before the first step.
    pub setup: Setup,
    /// Steps.
    pub steps: Vec<Step>,
}

/// Engine that runs scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// Our stack in virtual time.
    Stack,
    /// Linux through a TUN device.
    Kernel,
}

/// Settings before the first step.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Profile of our stack; the kernel runs `linux_6_18` only.
    pub profile: String,
    /// IPv6 instead of IPv4.
    pub ipv6: bool,
    /// MTU of the host's interface.
    pub mtu: u16,
    /// Options in the peer's SYN.
    pub peer: PeerSetup,
    /// Set on the socket before it connects or listens.
    pub settings: Vec<Setting>,
    /// Sysctls of the host, without `net.ipv4.`.
    pub sysctls: Vec<(String, String)>,
    /// Attributes of the route to the peer.
    pub routes: Vec<(String, String)>,
}

/// Options in the peer's SYN, where a script does not write the SYN itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerSetup {
    /// Its MSS option.
    pub mss: Option<u16>,
    /// Its window scale.
    pub window_scale: Option<u8>,
    /// SACK permitted.
    pub sack: bool,
    /// Timestamps.
    pub timestamps: bool,
    /// Its window in bytes after the handshake, where a packet does not say.
    pub window: u32,
}

/// A setting of the host or the socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: SettingValue,
}

/// The value of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingValue {
    /// A count or bytes; on is 1, off is 0.
    Number(u64),
    /// A time.
    Time(Duration),
    /// A name.
    Name(String),
}

/// One line.
#[derive(Clone, Debug)]
pub struct Step {
    /// From 1.
    pub line: u32,
    /// Only on this engine.
    pub engine: Option<Engine>,
    /// When.
    pub when: When,
    /// Which connection; the first is `a`.
    pub connection: String,
    /// Action.
    pub action: Action,
}

/// When a step happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct When {
    /// After what.
    pub after: After,
    /// At least this long after it.
    pub min: Duration,
    /// At most this long after it; `None`: as said, with the tolerance of a tick.
    pub max: Option<Duration>,
}

/// Reference of a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum After {
    /// The step before.
    Previous,
    /// The start of the script.
    Start,
    /// The packet that was marked so.
    Label(String),
}

/// Action of a step.
#[derive(Clone, Debug)]
pub enum Action {
    /// The peer sends a packet.
    In(PacketSpec),
    /// The host sends a packet.
    Out(PacketSpec),
    /// The network sends an error about what the host sent.
    Icmp {
        /// Kind of error.
        kind: IcmpName,
        /// Sequence number of the segment that it quotes.
        seq: i64,
    },
    /// Nothing is sent until then.
    Silence,
    /// The application calls.
    Call(Call, CallResult),
    /// Something is known of the connection.
    Check(Vec<Check>),
}

/// Call of the application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// Listens at the host's port.
    Listen {
        /// Connections that may wait.
        backlog: u32,
    },
    /// Opens a connection to the peer.
    Connect,
    /// Takes a connection of the listener.
    Accept,
    /// Writes this many bytes.
    Write {
        /// How many.
        bytes: u32,
        /// More follows (`MSG_MORE`).
        more: bool,
        /// The last byte is urgent.
        urgent: bool,
    },
    /// Reads up to this many bytes.
    Read {
        /// How many.
        bytes: u32,
    },
    /// Looks at up to so many bytes that stay to be read (`MSG_PEEK`).
    Peek {
        /// How many.
        bytes: u32,
    },
    /// No more data from here.
    Shutdown,
    /// No more data is waited for (`SHUT_RD`).
    ShutdownRead,
    /// Both at once (`SHUT_RDWR`).
    ShutdownBoth,
    /// Both directions.
    Close,
    /// Resets.
    Abort,
    /// Sets something on the living connection or the route.
    Set(Setting),
    /// Sets an attribute of the route.
    Route(String, String),
}

/// Expected result of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallResult {
    /// Success; for counts, everything requested.
    Done,
    /// This many bytes.
    Count(u32),
    /// Not now (`EAGAIN`).
    Again,
    /// The end of the data.
    End,
    /// Failure with this name (`reset`, `refused`, `timed-out`, `unreachable`, `broken`, ...).
    Error(String),
    /// Whatever.
    Any,
}

/// One condition on what is known of the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// Name of the quantity, from `crates/stack/scripts/README.md`.
    pub field: String,
    /// The least value.
    pub min: CheckValue,
    /// The largest value.
    pub max: CheckValue,
}

/// A value of a condition; times are in microseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckValue {
    /// A number.
    Number(u64),
    /// A name.
    Name(String),
}

/// An ICMP error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IcmpName {
    /// A packet exceeded this MTU.
    TooBig(u32),
    /// Network unreachable.
    NetUnreachable,
    /// Host unreachable.
    HostUnreachable,
    /// Protocol unreachable.
    ProtocolUnreachable,
    /// Port unreachable.
    PortUnreachable,
    /// Hop limit exceeded.
    TimeExceeded,
}

/// A packet, as far as the script says it.
#[derive(Clone, Debug, Default)]
pub struct PacketSpec {
    /// The flags but ACK, which stands where [`PacketSpec::ack`] does.
    pub flags: TcpFlags,
    /// PSH does not matter.
    pub push_any: bool,
    /// Number of the first byte.
    pub seq: Seq,
    /// Bytes of payload.
    pub data: u32,
    /// The acknowledgment; `None`: no ACK flag.
    pub ack: Option<Seq>,
    /// The window.
    pub window: WindowSpec,
    /// The urgent pointer, relative to the sequence number.
    pub urgent: u16,
    /// The options.
    pub options: OptionsSpec,
    /// The ECN field; `None`: does not matter, or not capable.
    pub ecn: Option<Ecn>,
    /// Name of the moment and the packet.
    pub label: Option<String>,
    /// Its SYN begins a new connection of the same ports.
    pub renew: bool,
}

/// A sequence number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Seq {
    /// The next one of its side.
    #[default]
    Next,
    /// Any.
    Any,
    /// This one.
    Is(i64),
}

/// A window in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WindowSpec {
    /// Out: it does not matter. In: that of the setup.
    #[default]
    Default,
    /// In this range.
    Between(u32, u32),
}

/// The options of a packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OptionsSpec {
    /// Accept any.
    pub any: bool,
    /// MSS.
    pub mss: Option<u16>,
    /// Window scale.
    pub window_scale: Option<u8>,
    /// SACK permitted.
    pub sack_permitted: bool,
    /// Timestamps.
    pub timestamps: TimestampSpec,
    /// SACK blocks.
    pub sack: SackSpec,
}

/// Timestamps of a packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TimestampSpec {
    /// In a SYN none. Otherwise: out, they do not matter; in, as agreed.
    #[default]
    Default,
    /// None.
    Off,
    /// There are some.
    On {
        /// The peer's clock; `None`: it runs with the script's time.
        value: Option<u32>,
        /// Echoed timestamp; `None`: inbound, the host's latest value; outbound, any.
        echo: Option<Echo>,
    },
}

/// Which timestamp is echoed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Echo {
    /// This value of the peer's clock.
    Value(u32),
    /// Value from the packet with this label.
    Label(String),
}

/// SACK blocks of a packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SackSpec {
    /// None.
    #[default]
    None,
    /// Any.
    Any,
    /// These, in this order.
    Blocks(Vec<(i64, i64)>),
}
