//! The addresses of both ends of the device.

use std::net::IpAddr;
use std::str::FromStr;

use crate::exit::Problem;

/// Every link of IPv6 carries packets of this many bytes (RFC 8200 section 5).
const IPV6_MTU_MIN: u16 = 1280;

/// An address and the length of its network's prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Network {
    pub(super) addr: IpAddr,
    pub(super) prefix: u8,
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((addr, prefix)) = text.split_once('/') else {
            return Err("no length of the prefix; write it as 10.77.0.2/24".into());
        };
        let addr: IpAddr = addr
            .parse()
            .map_err(|_| format!("`{addr}` is not an IP address"))?;
        let most = if addr.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix.parse() {
            Ok(prefix) if prefix <= most => prefix,
            _ => return Err(format!("the prefix has 0 to {most} bits, not `{prefix}`")),
        };
        if addr.is_unspecified() || addr.is_multicast() || addr.is_loopback() {
            return Err(format!(
                "{addr} cannot be the address of a host on a device"
            ));
        }
        Ok(Self { addr, prefix })
    }
}

impl Network {
    /// Whether `addr` is in the same network.
    fn contains(&self, addr: IpAddr) -> bool {
        let differing = match (self.addr, addr) {
            (IpAddr::V4(left), IpAddr::V4(right)) => {
                u128::from(left.to_bits() ^ right.to_bits()) << 96
            }
            (IpAddr::V6(left), IpAddr::V6(right)) => left.to_bits() ^ right.to_bits(),
            _ => return false,
        };
        differing.leading_zeros() >= self.prefix.into()
    }
}

/// Refuses an address that is given twice, and an MTU that is too small for one of them.
pub(super) fn check(ours: &[Network], mtu: u16) -> Result<(), Problem> {
    for (index, network) in ours.iter().enumerate() {
        let addr = network.addr;
        if ours[..index].iter().any(|earlier| earlier.addr == addr) {
            return Err(Problem::usage(format!("--addr {addr}: given twice"))
                .hint("An address is in one network: give it once."));
        }
        if addr.is_ipv6() && mtu < IPV6_MTU_MIN {
            return Err(Problem::usage(format!(
                "--addr {addr} with --mtu {mtu}: IPv6 needs an MTU of at least {IPV6_MTU_MIN}"
            )));
        }
    }
    Ok(())
}

/// The kernel's addresses, each with the prefix of the network of ours that it is in.
pub(super) fn peers(ours: &[Network], peers: &[IpAddr]) -> Result<Vec<Network>, Problem> {
    let find = |&peer: &IpAddr| {
        if ours.iter().any(|network| network.addr == peer) {
            return Err(Problem::usage(format!(
                "--peer {peer}: that is the address of our TCP; give the kernel another one"
            )));
        }
        let network = ours.iter().find(|network| network.contains(peer));
        network
            .map(|network| Network {
                addr: peer,
                prefix: network.prefix,
            })
            .ok_or_else(|| {
                Problem::usage(format!("--peer {peer}: in the network of no --addr"))
                    .hint("Both ends of the device need addresses of one network.")
            })
    };
    peers.iter().map(find).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_prefix_and_belong_to_a_host() {
        let check = |text: &str, expected: Result<(&str, u8), &str>| {
            let read = text.parse::<Network>();
            match expected {
                Ok((addr, prefix)) => {
                    let addr = addr.parse().expect("an address");
                    assert_eq!(read, Ok(Network { addr, prefix }));
                }
                Err(expected) => {
                    let error = read.expect_err("refused");
                    assert!(error.contains(expected), "{text}: {error}");
                }
            }
        };
        check("10.77.0.2/24", Ok(("10.77.0.2", 24)));
        check("fd77::2/64", Ok(("fd77::2", 64)));
        check("10.77.0.2", Err("10.77.0.2/24"));
        check("10.77.0/24", Err("`10.77.0` is not an IP address"));
        check("10.77.0.2/33", Err("0 to 32 bits, not `33`"));
        check("224.0.0.1/4", Err("cannot be"));
    }

    #[test]
    fn addresses_are_given_once_and_ipv6_with_its_smallest_mtu() {
        let check = |addrs: &[&str], mtu: u16, expected: Option<&str>| {
            let networks: Vec<Network> = addrs
                .iter()
                .map(|text| text.parse().expect("a network"))
                .collect();
            let found = check(&networks, mtu).err().map(|problem| problem.message);
            match (&found, expected) {
                (Some(found), Some(part)) => assert!(found.contains(part), "{found}"),
                _ => assert_eq!(found.as_deref(), expected, "{addrs:?}"),
            }
        };
        check(&["10.77.0.2/24", "10.77.0.3/24", "fd77::2/64"], 1280, None);
        check(&["10.77.0.2/24", "10.77.0.2/16"], 1500, Some("given twice"));
        check(
            &["10.77.0.2/24", "fd77::2/64"],
            1279,
            Some("IPv6 needs an MTU of at least 1280"),
        );
        check(&["10.77.0.2/24"], 576, None);
    }

    #[test]
    fn peers_are_in_a_network_of_ours() {
        let ours: Vec<Network> = ["10.77.0.2/24", "fd77::2/64", "10.1.0.1/0"]
            .map(|text| text.parse().expect("a network"))
            .to_vec();
        let check = |peer: &str, expected: Option<u8>| {
            let peer = peer.parse().expect("an address");
            let found = peers(&ours[..2], &[peer]).ok();
            assert_eq!(found.map(|found| found[0].prefix), expected, "{peer}");
        };
        check("10.77.0.1", Some(24));
        check("10.77.1.1", None);
        check("10.77.0.2", None);
        check("fd77::1", Some(64));
        check("fd78::1", None);
        assert!(ours[2].contains("192.0.2.1".parse().expect("an address")));
    }
}
