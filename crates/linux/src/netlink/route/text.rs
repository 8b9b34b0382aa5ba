//! Destinations and routes as people write them, in the words of `ip route`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use base::knob::LinuxSite;

use super::message::{
    RTA_DST, RTA_GATEWAY, RTA_OIF, RTA_PREFSRC, RTA_PRIORITY, RTA_TABLE, RTAX_LOCK, RTAX_RTO_MIN,
    Route, Table,
};
use crate::error::Error;
use crate::netlink_dump::{text, u32_at};

/// A destination prefix: `10.0.0.9/32`, `10.0.0.9`, `10.0.0.0/24`, `default` (IPv4), `::/0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination {
    address: IpAddr,
    prefix_length: u8,
}

impl Destination {
    /// One address.
    #[must_use]
    pub const fn of_host(address: IpAddr) -> Self {
        let prefix_length = match address {
            IpAddr::V4(_) => 32,
            IpAddr::V6(_) => 128,
        };
        Self {
            address,
            prefix_length,
        }
    }

    /// Everything of the address family of `other`.
    pub(super) const fn any(other: Self) -> Self {
        let address = match other.address {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        Self {
            address,
            prefix_length: 0,
        }
    }

    /// From the parts of a message; no address means the unspecified one.
    pub(super) fn from_parts(
        family: u8,
        prefix_length: u8,
        address: Option<&[u8]>,
    ) -> Option<Self> {
        let address = match i32::from(family) {
            libc::AF_INET => {
                let octets: [u8; 4] = address.unwrap_or(&[0; 4]).try_into().ok()?;
                IpAddr::from(octets)
            }
            libc::AF_INET6 => {
                let octets: [u8; 16] = address.unwrap_or(&[0; 16]).try_into().ok()?;
                IpAddr::from(octets)
            }
            _ => return None,
        };
        Some(Self {
            address,
            prefix_length,
        })
    }

    /// The address, where the destination is just one.
    #[must_use]
    pub fn host(self) -> Option<IpAddr> {
        (self == Self::of_host(self.address)).then_some(self.address)
    }

    pub(super) const fn address(self) -> IpAddr {
        self.address
    }

    pub(super) const fn prefix_length(self) -> u8 {
        self.prefix_length
    }

    pub(super) const fn family(self) -> u8 {
        match self.address {
            IpAddr::V4(_) => libc::AF_INET as u8,
            IpAddr::V6(_) => libc::AF_INET6 as u8,
        }
    }

    pub(super) fn octets(self) -> Vec<u8> {
        match self.address {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.address, self.prefix_length) {
            (IpAddr::V4(_), 0) => f.pad("default"),
            (address, length) => f.pad(&format!("{address}/{length}")),
        }
    }
}

impl FromStr for Destination {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let invalid = |reason: &str| Error::Refused {
            what: format!("destination `{text}`"),
            reason: format!("{reason}; write `10.0.0.9`, `10.0.0.0/24`, `default` or `::/0`"),
        };
        if text == "default" {
            return Ok(Self {
                address: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
                prefix_length: 0,
            });
        }
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let address = address
            .parse()
            .map_err(|_| invalid("that is not an IP address"))?;
        let mut destination = Self::of_host(address);
        if let Some(length) = length {
            let longest = destination.prefix_length;
            destination.prefix_length = length
                .parse()
                .ok()
                .filter(|length| *length <= longest)
                .ok_or_else(|| invalid(&format!("the prefix is 0 to {longest} bits long")))?;
        }
        if destination.masked() != destination.octets() {
            return Err(invalid("bits are set behind the prefix"));
        }
        Ok(destination)
    }
}

impl Destination {
    fn masked(self) -> Vec<u8> {
        let mut left = u32::from(self.prefix_length);
        let mut octets = self.octets();
        for octet in &mut octets {
            let bits = left.min(8);
            *octet &= 0xff_u8.checked_shl(8 - bits).unwrap_or(0);
            left -= bits;
        }
        octets
    }
}

impl fmt::Display for Route {
    /// The words of `ip route`. Interfaces are numbers (`dev #3`): their names belong to a
    /// namespace.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_words(f, |index| format!("#{index}"))
    }
}

impl Route {
    /// Arguments of `ip route replace`, where words can say all that the route holds.
    /// `name_of` gives the name of an interface.
    #[must_use]
    pub fn command_words(&self, name_of: impl Fn(u32) -> Option<String>) -> Option<String> {
        /// Attributes that [`Route::write_words`] prints.
        const PRINTED: [u16; 7] = [
            RTA_DST,
            RTA_OIF,
            RTA_GATEWAY,
            RTA_PRIORITY,
            RTA_PREFSRC,
            RTA_TABLE,
            /* RTA_PREF of IPv6, whose default is not printed */ 20,
        ];
        let whole = self.attribute_kinds().all(|kind| PRINTED.contains(&kind))
            && self.metrics().all(|(kind, _)| metric_name(kind).is_some())
            && !self.has_unlocked_timeout();
        let name = match self.number(RTA_OIF) {
            Some(index) => name_of(index)?,
            None => String::new(),
        };
        struct Words<'r>(&'r Route, String);
        impl fmt::Display for Words<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.write_words(f, |_| self.1.clone())
            }
        }
        whole.then(|| Words(self, name).to_string())
    }

    fn write_words(
        &self,
        f: &mut fmt::Formatter<'_>,
        name_of: impl Fn(u32) -> String,
    ) -> fmt::Result {
        if self.is_local() {
            f.write_str("local ")?;
        }
        match self.destination() {
            Some(destination) => write!(f, "{destination}")?,
            None => f.write_str("?")?,
        }
        if let Some(gateway) = self.address(RTA_GATEWAY) {
            write!(f, " via {gateway}")?;
        }
        if let Some(index) = self.number(RTA_OIF) {
            write!(f, " dev {}", name_of(index))?;
        }
        if self.table() != Table::MAIN {
            write!(f, " table {}", self.table())?;
        }
        write!(f, " proto {}", self.protocol())?;
        if self.scope() != 0 {
            write!(f, " scope {}", self.scope())?;
        }
        if let Some(source) = self.address(RTA_PREFSRC) {
            write!(f, " src {source}")?;
        }
        if self.priority() != 0 {
            write!(f, " metric {}", self.priority())?;
        }
        if self.is_onlink() {
            f.write_str(" onlink")?;
        }
        self.write_metrics(f)
    }

    fn write_metrics(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (kind, data) in self.metrics().filter(|(kind, _)| *kind != RTAX_LOCK) {
            let name = metric_name(kind).unwrap_or("unknown");
            let lock = if self.is_locked(kind) { "lock " } else { "" };
            match (kind, u32_at(data, 0)) {
                (CONGESTION, _) => write!(f, " {name} {lock}{}", text(data))?,
                // `ip route` locks it unasked, and does not know the word here.
                (RTAX_RTO_MIN, Some(number)) => write!(f, " {name} {number}ms")?,
                (_, Some(number)) => write!(f, " {name} {lock}{number}")?,
                (_, None) => write!(f, " {name} ?")?,
            }
            if kind == RTAX_RTO_MIN && !self.is_locked(kind) {
                f.write_str(" (not locked)")?;
            }
        }
        Ok(())
    }

    /// Whether it has a least timeout that the kernel does not obey; `ip route` cannot make such.
    fn has_unlocked_timeout(&self) -> bool {
        self.metrics().any(|(kind, _)| kind == RTAX_RTO_MIN) && !self.is_locked(RTAX_RTO_MIN)
    }
}

const CONGESTION: u16 = 16;

/// The name of a metric in `ip route`.
fn metric_name(kind: u16) -> Option<&'static str> {
    let of_a_knob = base::KNOBS.iter().find_map(|knob| match knob.linux {
        Some(LinuxSite::RouteMetric { metric, name }) if metric == kind => Some(name),
        _ => None,
    });
    of_a_knob.or(match kind {
        RTAX_LOCK => Some("lock"),
        3 => Some("window"),
        4 => Some("rtt"),
        5 => Some("rttvar"),
        6 => Some("ssthresh"),
        7 => Some("cwnd"),
        9 => Some("reordering"),
        10 => Some("hoplimit"),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destinations_are_read_and_printed() {
        let check = |text: &str, expected: &str| {
            let shown = match text.parse::<Destination>() {
                Ok(destination) => destination.to_string(),
                Err(error) => error.to_string(),
            };
            assert!(shown.contains(expected), "{text}: {shown}");
        };
        check("10.0.0.9", "10.0.0.9/32");
        check("10.0.0.0/24", "10.0.0.0/24");
        check("default", "default");
        check("0.0.0.0/0", "default");
        check("::/0", "::/0");
        check("fd00::1", "fd00::1/128");
        check("10.0.0.1/24", "behind the prefix");
        check("10.0.0.0/33", "0 to 32");
        check("example.org", "not an IP address");
    }
}
