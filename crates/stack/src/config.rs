//! The few settings of a host that most programs need.

use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;

use base::settings::{CongestionName, Nagle};

use crate::host::{HostConfig, MemoryBudget, Secret};
use crate::keyed_hash::Keys;
use crate::profile::{self, Profile};

/// A host with the defaults of today: what Linux 6.18 does (CUBIC with `HyStart`, RACK-TLP, SACK,
/// timestamps, buffers that size themselves), with timers that are exact, and with reports of a
/// smaller MTU that wait for a timeout where such packets have passed. For everything else there
/// is [`HostConfig`], of which this is the short form, and for other stacks [`profile`].
///
/// ```
/// use tcptailor_stack::{Config, Host, Secret};
///
/// # let random = [7; 16];
/// let mut config = Config::new([10, 0, 0, 1].into(), Secret(random));
/// config.nodelay = true;
/// config.recv_buffer_bytes_max = 1 << 20;
/// let host = Host::new(config);
/// assert_eq!(host.default_settings().recv.buffer.max, 1 << 20);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// Its addresses, IPv4, IPv6 or both.
    pub addrs: Vec<IpAddr>,
    /// MTU of its interface in bytes.
    pub mtu: u16,
    /// Secret random bytes: sequence numbers, ports and cookies derive from them.
    pub secret: Secret,
    /// Congestion control: CUBIC, `NewReno` or BBR (version 1);
    /// [`Host::set_controllers`](crate::Host::set_controllers) brings others.
    pub congestion: CongestionName,
    /// Small writes are sent at once (`TCP_NODELAY`); off: they wait while an earlier small one is
    /// unacknowledged (Nagle's algorithm).
    pub nodelay: bool,
    /// Idle time after which keepalive probes are sent; `None`: never.
    pub keepalive: Option<Duration>,
    /// Bytes to which a send buffer may grow (Linux `tcp_wmem`, third value: 4 MiB).
    pub send_buffer_bytes_max: u32,
    /// Bytes to which a receive buffer may grow (Linux `tcp_rmem`, third value: 32 MiB).
    pub recv_buffer_bytes_max: u32,
    /// Memory that all connections together may use for received and written data.
    pub memory: MemoryBudget,
    /// Most connections and listeners.
    pub connections_max: u32,
}

impl Config {
    /// One address on Ethernet (MTU 1500).
    #[must_use]
    pub fn new(addr: IpAddr, secret: Secret) -> Self {
        let Profile {
            settings, system, ..
        } = profile::linux_6_18();
        Self {
            addrs: alloc::vec![addr],
            mtu: 1500,
            secret,
            congestion: settings.congestion.name,
            nodelay: false,
            keepalive: settings.life.keepalive,
            send_buffer_bytes_max: settings.send.buffer.max,
            recv_buffer_bytes_max: settings.recv.buffer.max,
            memory: system.memory,
            connections_max: system.connections_max,
        }
    }
}

impl From<Config> for HostConfig {
    fn from(config: Config) -> Self {
        let Config {
            addrs,
            mtu,
            secret,
            congestion,
            nodelay,
            keepalive,
            send_buffer_bytes_max,
            recv_buffer_bytes_max,
            memory,
            connections_max,
        } = config;
        let Profile {
            mut settings,
            mut system,
            ..
        } = profile::linux_6_18();
        settings.congestion.name = congestion;
        if nodelay {
            settings.small_writes.nagle = Nagle::Off;
        }
        settings.life.keepalive = keepalive;
        // Linux believes such reports at once, but they may be forged.
        settings.path.pmtu_confirm = true;
        for (buffer, max) in [
            (&mut settings.send.buffer, send_buffer_bytes_max),
            (&mut settings.recv.buffer, recv_buffer_bytes_max),
        ] {
            buffer.max = max;
            buffer.initial = buffer.initial.min(max);
            buffer.min = buffer.min.min(max);
        }
        // Kernels count in ticks; a driver that calls `handle_timeout` on time need not.
        (system.hz, system.coarse_above_ticks) = (0, 0);
        system.memory = memory;
        system.connections_max = connections_max;
        Self {
            addrs,
            mtu,
            // Does not reveal the keys derived from the same secret.
            seed: Keys::new(0, Some(secret)).key("seed").0,
            secret: Some(secret),
            settings,
            system,
        }
    }
}
