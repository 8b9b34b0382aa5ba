//! One experiment: a path, two hosts with their settings, a workload, a seed.

use std::collections::BTreeMap;

use base::{Bytes, KnobValue};
use link::LinkSpec;

use crate::workload::Workload;

/// Knobs by name with their values; checked against `base::KNOBS` where it is made.
pub type Settings = BTreeMap<&'static str, KnobValue>;

/// What lies between the client (host A) and the server (host B).
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

/// The settings of one host: knobs of every scope, for its sockets, route, interface and namespace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostSpec {
    /// By knob name.
    pub settings: Settings,
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
    /// Of everything random.
    pub seed: u64,
}
