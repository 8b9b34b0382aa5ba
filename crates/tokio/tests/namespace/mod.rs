//! A network namespace with a TUN device in it, at whose other end is a host of ours. Without what
//! that needs a test says that it was skipped, and fails instead where `REQUIRE_KERNEL` is set.

#[path = "../../../linux/tests/asking/mod.rs"]
pub(crate) mod asking;

use std::io;
use std::net::IpAddr;

use linux::netlink::{addr, link};
use linux::{Error, LabNetns};
use tcptailor_tokio::stack::{HostConfig, profile};
use tcptailor_tokio::{Net, Tun};

pub(crate) const TUN: &str = "tokio0";
const MTU: u16 = 1500;
/// The kernel's addresses there.
pub(crate) const KERNEL: [&str; 2] = ["10.77.0.1", "fd77::1"];
/// Those of the host of ours.
pub(crate) const OURS: [&str; 2] = ["10.77.0.2", "fd77::2"];

pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// A namespace with a device in it.
pub(crate) fn namespace() -> Option<(LabNetns, Tun)> {
    let namespace = asking::namespace_for_devices("tokio")?;
    let tun = namespace.handle().run(|| {
        let tun = Tun::create(TUN).expect("a device, as one was made before");
        link::set_mtu(TUN, MTU.into())?;
        link::set_up("lo")?;
        link::set_up(TUN)?;
        addr::add(TUN, ip(KERNEL[0]), 24)?;
        addr::add(TUN, ip(KERNEL[1]), 64)?;
        Ok::<_, Error>(tun)
    });
    let tun = tun
        .expect("the namespace is entered")
        .expect("a device is set up");
    Some((namespace, tun))
}

/// A host of ours on the device.
pub(crate) fn net(tun: Tun) -> io::Result<Net> {
    let mut config = HostConfig::of(&profile::linux_6_18(), ip(OURS[0]), 1);
    config.addrs.push(ip(OURS[1]));
    config.mtu = MTU;
    Net::over_tun(config, tun)
}
