//! The MTU and the transmit queue length of one interface.

use std::fs;

use super::raw::{Request, attribute_u32, exchange, push_attribute, u32_at};
use crate::error::{Error, Result};

const RTM_GETLINK: u16 = 18;
const RTM_SETLINK: u16 = 19;
const IFLA_IFNAME: u16 = 3;
/// `struct ifinfomsg`.
const INFO_BYTES: usize = 16;
/// Below this MTU, Linux takes IPv6 off an interface, with all its addresses (RFC 8200 section 5).
const IPV6_MTU_MIN: u32 = 1280;

/// A number of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkSetting {
    /// Largest packet, bytes.
    Mtu,
    /// Packets that wait in front of the interface.
    Txqueuelen,
}

impl LinkSetting {
    const fn attribute(self) -> u16 {
        match self {
            Self::Mtu => 4,
            Self::Txqueuelen => 13,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Mtu => "MTU",
            Self::Txqueuelen => "txqueuelen",
        }
    }
}

/// The index of an interface in the namespace of the calling thread.
///
/// # Errors
/// [`Error::NotFound`] where there is no interface of this name.
pub fn index_of(link: &str) -> Result<u32> {
    u32_at(&info(link)?, 4).ok_or_else(|| missing(link))
}

/// Reads a setting of an interface in the namespace of the calling thread.
///
/// # Errors
/// [`Error::NotFound`] where there is no interface of this name.
pub fn read(link: &str, setting: LinkSetting) -> Result<u32> {
    let value = attribute_u32(&info(link)?, INFO_BYTES, setting.attribute());
    value.ok_or_else(|| Error::Unsupported {
        what: format!("the {} of interface {link}", setting.name()),
        hint: "this kernel does not tell it".into(),
    })
}

/// Changes a setting of an interface in the namespace of the calling thread.
///
/// # Errors
/// [`Error::NotFound`] where there is no interface of this name, [`Error::Permission`] without
/// `CAP_NET_ADMIN`, [`Error::Os`] with the kernel's reason where it refuses the value, and
/// [`Error::Refused`] for an MTU that would cost the interface its IPv6 addresses.
pub fn write(link: &str, setting: LinkSetting, value: u32) -> Result<()> {
    if setting == LinkSetting::Mtu && value < IPV6_MTU_MIN && has_ipv6(link) {
        return Err(Error::Refused {
            what: format!("interface {link}: MTU {value}"),
            reason: format!(
                "below {IPV6_MTU_MIN} the interface loses its IPv6 addresses, which no undo brings \
                 back; set route.mtu, or remove the addresses first"
            ),
        });
    }
    let index = index_of(link)?;
    let mut payload = vec![0; INFO_BYTES];
    payload[4..8].copy_from_slice(&index.to_ne_bytes());
    push_attribute(&mut payload, setting.attribute(), &value.to_ne_bytes());
    exchange(&Request {
        what: &format!("set the {} of interface {link} to {value}", setting.name()),
        kind: RTM_SETLINK,
        flags: 0,
        payload: &payload,
    })?;
    Ok(())
}

fn info(link: &str) -> Result<Vec<u8>> {
    // The kernel's names end with a NUL within 16 bytes.
    if link.is_empty() || link.len() > 15 {
        return Err(missing(link));
    }
    let mut payload = vec![0; INFO_BYTES];
    push_attribute(&mut payload, IFLA_IFNAME, format!("{link}\0").as_bytes());
    let replies = exchange(&Request {
        what: &format!("look up interface {link}"),
        kind: RTM_GETLINK,
        flags: 0,
        payload: &payload,
    });
    match replies {
        Ok(replies) => replies.into_iter().next().ok_or_else(|| missing(link)),
        Err(Error::Os { source, .. }) if source.raw_os_error() == Some(libc::ENODEV) => {
            Err(missing(link))
        }
        Err(error) => Err(error),
    }
}

fn has_ipv6(link: &str) -> bool {
    fs::read_to_string("/proc/thread-self/net/if_inet6").is_ok_and(|table| {
        table
            .lines()
            .any(|line| line.split_whitespace().last() == Some(link))
    })
}

fn missing(link: &str) -> Error {
    Error::NotFound {
        what: "interface",
        name: link.into(),
        hint: "; `ip link` lists those of a namespace".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_has_both_settings_and_a_missing_one_says_so() {
        assert!(read("lo", LinkSetting::Mtu).unwrap() >= 1500);
        read("lo", LinkSetting::Txqueuelen).unwrap();
        for name in ["no-such-link", "", "a-name-of-more-than-fifteen-letters"] {
            let error = read(name, LinkSetting::Mtu).expect_err("none");
            assert!(matches!(error, Error::NotFound { .. }), "{error}");
        }
    }
}
