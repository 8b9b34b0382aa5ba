//! An end of a connection.

use core::net::{IpAddr, SocketAddr};

/// An address and a port: a [`SocketAddr`] without the flow label and the scope of IPv6, by which a
/// host tells no connections apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    ip: IpAddr,
    port: u16,
}

impl End {
    pub(super) const fn ip(&self) -> IpAddr {
        self.ip
    }

    pub(super) const fn port(&self) -> u16 {
        self.port
    }

    pub(super) const fn is_ipv4(&self) -> bool {
        self.ip.is_ipv4()
    }

    pub(super) const fn address(&self) -> SocketAddr {
        SocketAddr::new(self.ip, self.port)
    }
}

impl From<SocketAddr> for End {
    fn from(address: SocketAddr) -> Self {
        Self {
            ip: address.ip(),
            port: address.port(),
        }
    }
}
