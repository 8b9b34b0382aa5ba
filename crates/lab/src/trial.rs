//! One experiment: a path, two hosts with their settings, a workload, a seed.

use core::time::Duration;
use std::collections::BTreeMap;

use base::settings::Held;
use base::{Bytes, Fraction, KnobValue, QueueLimit, Rate};
use link::{LinkSpec, Loss};
use serde::{Deserialize, Serialize};

use crate::workload::Workload;

/// Knobs by name with their values; checked against `base::KNOBS` where it is made.
pub type Settings = BTreeMap<&'static str, KnobValue>;

/// The path between the client (host A) and the server (host B).
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "there is one per trial")]
pub enum PathSpec {
    /// The loopback interface of one namespace.
    Loopback,
    /// A veth pair between two namespaces, without emulation.
    Veth {
        /// MTU of both interfaces.
        mtu: Bytes,
    },
    /// Two links between two namespaces.
    Emulated {
        /// MTU of both interfaces.
        mtu: Bytes,
        /// Client to server.
        forward: LinkSpec,
        /// Server to client.
        reverse: LinkSpec,
        /// IPv6 instead of IPv4.
        ipv6: bool,
    },
}

impl PathSpec {
    /// A path of Ethernet without faults: the same rate and queue both ways, half of the round-trip
    /// time each way. Other properties can be set afterwards.
    #[must_use]
    pub fn emulated(rate: Rate, rtt: Duration, queue: QueueLimit) -> Self {
        let link = |delay| LinkSpec {
            rate: Some(rate),
            delay,
            queue,
            overhead_bytes: ETHERNET_HEADER_BYTES,
            ..LinkSpec::ideal()
        };
        Self::Emulated {
            mtu: Bytes(ETHERNET_MTU),
            forward: link(rtt / 2),
            reverse: link(rtt - rtt / 2),
            ipv6: false,
        }
    }

    /// The same with another MTU; one without emulation keeps its own.
    #[must_use]
    pub fn with_mtu(mut self, bytes: Bytes) -> Self {
        if let Self::Emulated { mtu, .. } = &mut self {
            *mtu = bytes;
        }
        self
    }
    /// Whether packets are lost on the wire, and not only where queues overflow.
    #[must_use]
    pub fn loses_by_chance(&self) -> bool {
        match self {
            Self::Loopback | Self::Veth { .. } => false,
            Self::Emulated {
                forward, reverse, ..
            } => [forward, reverse]
                .iter()
                .any(|link| link.loss != Loss::Never),
        }
    }

    /// The same that loses these shares of its packets by chance, from client to server and back,
    /// so many in a row on average ([`Loss::in_bursts`]).
    #[must_use]
    pub fn with_losses(mut self, losses: [Fraction; 2], in_a_row: f64) -> Self {
        if let Self::Emulated {
            forward, reverse, ..
        } = &mut self
        {
            for (link, share) in [forward, reverse].into_iter().zip(losses) {
                link.loss = Loss::in_bursts(share, in_a_row);
            }
        }
        self
    }

    /// The same without what its packets have on the wire beyond their IP length.
    #[must_use]
    pub fn without_overhead(mut self) -> Self {
        if let Self::Emulated {
            forward, reverse, ..
        } = &mut self
        {
            forward.overhead_bytes = 0;
            reverse.overhead_bytes = 0;
        }
        self
    }

    /// The same with this extra delay, drawn for each packet, each way.
    #[must_use]
    pub fn with_jitter(mut self, jitter: Duration) -> Self {
        if let Self::Emulated {
            forward, reverse, ..
        } = &mut self
        {
            forward.jitter = jitter;
            reverse.jitter = jitter;
        }
        self
    }

    /// Its round-trip time when all queues are empty; zero where nothing is emulated.
    #[must_use]
    pub fn rtt(&self) -> Duration {
        match self {
            Self::Loopback | Self::Veth { .. } => Duration::ZERO,
            Self::Emulated {
                forward, reverse, ..
            } => forward.delay + reverse.delay,
        }
    }
}

/// Without FCS, as `tc` counts; preamble, FCS and gap would be another 24 bytes.
pub(crate) const ETHERNET_HEADER_BYTES: u32 = 14;
/// IEEE 802.3; nearly every path is made for it.
pub(crate) const ETHERNET_MTU: u64 = 1500;

/// The settings of one host: knobs of every scope, for its sockets, route, interface and namespace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostSpec {
    /// By knob name.
    pub settings: Settings,
    /// The stack that it has on engines with our own, by its name in `stack::profile`; `None`: the
    /// engine's default.
    pub profile: Option<&'static str>,
    /// Processing time of each segment sent or received, one after the other, beside the link's: a
    /// slow device. In virtual time only; zero for none.
    pub cost_per_segment: Duration,
    /// What its programs keep in their send buffers. In virtual time only.
    pub held: Option<Held>,
}

/// Which end of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// Host A, which opens connections.
    Client,
    /// Host B.
    Server,
}

impl End {
    /// Name used in scenario files and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }

    /// The end that it talks to.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// One experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// The path.
    pub path: PathSpec,
    /// Host A, which opens connections.
    pub client: HostSpec,
    /// Host B.
    pub server: HostSpec,
    /// The traffic.
    pub workload: Workload,
    /// Seed of everything random.
    pub seed: u64,
}

impl Trial {
    /// The same trial with everything random drawn by `seed`.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self.workload.set_seed(seed);
        self
    }

    /// The host at one end.
    #[must_use]
    pub const fn host(&self, end: End) -> &HostSpec {
        match end {
            End::Client => &self.client,
            End::Server => &self.server,
        }
    }
}
