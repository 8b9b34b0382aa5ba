//! Addresses of interfaces.

use std::net::IpAddr;

use netlink_bindings::rt_addr::{self, Ifaddrmsg};

use super::acknowledged;
use super::link;
use crate::error::Result;

/// `IFA_F_NODAD`: the address is usable at once; no other host can have it on a path of ours.
const FLAG_NO_DUPLICATE_DETECTION: u8 = 0x02;

/// Gives an interface an address, without duplicate address detection.
///
/// # Errors
/// [`crate::Error::NotFound`] where there is no such interface; the kernel's error otherwise.
pub fn add(interface: &str, address: IpAddr, prefix_length: u8) -> Result<()> {
    let (family, flags) = match address {
        IpAddr::V4(_) => (libc::AF_INET, 0),
        IpAddr::V6(_) => (libc::AF_INET6, FLAG_NO_DUPLICATE_DETECTION),
    };
    let header = Ifaddrmsg {
        ifa_family: u8::try_from(family).expect("address families are small numbers"),
        ifa_prefixlen: prefix_length,
        ifa_flags: flags,
        ifa_index: link::read(interface)?.index,
        ..Ifaddrmsg::new()
    };
    let mut request = rt_addr::Request::new()
        .set_create()
        .set_excl()
        .op_newaddr_do(&header);
    request.encode().push_local(address).push_address(address);
    acknowledged(
        &format!("adding {address}/{prefix_length} to {interface}"),
        &request,
    )
}
