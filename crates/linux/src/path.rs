//! The lab path: two hosts (network namespaces with real Linux TCP) and what lies between them.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;

use base::Bytes;
use lab::{Caveat, End, LinkOutcome, PathSpec};
use link::LinkSpec;

use crate::emulator::{Emulator, EmulatorSpec};
use crate::error::{Error, Result};
use crate::lab_netns::LabNetns;
use crate::netlink::route::{self, Destination};
use crate::netlink::{addr, link as interfaces};
use crate::netns::NetnsHandle;
use crate::tun::{Offloads, RING_PACKETS, Tun};

/// Name of the interface that leads to the other host, on paths that have one.
pub const INTERFACE: &str = "lab0";

/// The largest MTU of a TUN device.
const MTU_MAX: Bytes = Bytes(65_535);

/// A path between the client (host A) and the server (host B). It is gone when this is dropped.
#[derive(Debug)]
pub struct LabPath {
    // Fields are dropped in this order: first the users of the devices.
    emulated: Option<Emulated>,
    a: LabNetns,
    b: Option<LabNetns>,
    addresses: [IpAddr; 2],
    interface: &'static str,
}

/// Additional parts of an emulated path.
#[derive(Debug)]
struct Emulated {
    emulator: Emulator,
    specs: [LinkSpec; 2],
    /// Packets that each device had dropped when the path was made.
    dropped_before: [u64; 2],
}

impl LabPath {
    /// Makes the path; `seed` decides the fate of packets on emulated links.
    ///
    /// # Errors
    /// [`Error::Permission`] or [`Error::Unsupported`] where this machine does not let us, with
    /// what to do about it.
    pub fn create(spec: &PathSpec, seed: u64) -> Result<Self> {
        Self::lay(spec, seed, None)
    }

    /// As [`LabPath::create`], but the namespace of one end is not a host: it has a router that
    /// forwards between the path and a device of our stack, which some process there makes and
    /// which has the address of that end. Two stacks are two hosts, so a pair of veth devices with
    /// the MTU of the loopback interface stands for that.
    ///
    /// # Errors
    /// Those of [`LabPath::create`].
    pub fn create_with_router(spec: &PathSpec, seed: u64, router: End) -> Result<Self> {
        Self::lay(spec, seed, Some(router))
    }

    fn lay(spec: &PathSpec, seed: u64, router: Option<End>) -> Result<Self> {
        match (spec, router) {
            (PathSpec::Loopback, None) => Self::loopback(),
            (PathSpec::Loopback, Some(_)) => Self::veth(MTU_MAX, router),
            (PathSpec::Veth { mtu }, _) => Self::veth(*mtu, router),
            (
                PathSpec::Emulated {
                    mtu,
                    forward,
                    reverse,
                    ipv6,
                },
                _,
            ) => {
                let links = [forward.clone(), reverse.clone()];
                Self::emulated(links, *mtu, seed, roles(addresses(*ipv6), router))
            }
        }
    }

    /// The address of the host at one end.
    pub(crate) const fn address(&self, end: End) -> IpAddr {
        match end {
            End::Client => self.a_addr(),
            End::Server => self.b_addr(),
        }
    }

    /// Host A, the client.
    #[must_use]
    pub const fn a(&self) -> &NetnsHandle {
        self.a.handle()
    }

    /// Host B, the server; the same as host A on loopback.
    #[must_use]
    pub fn b(&self) -> &NetnsHandle {
        self.b.as_ref().unwrap_or(&self.a).handle()
    }

    /// Address of host A.
    #[must_use]
    pub const fn a_addr(&self) -> IpAddr {
        self.addresses[0]
    }

    /// Address of host B.
    #[must_use]
    pub const fn b_addr(&self) -> IpAddr {
        self.addresses[1]
    }

    /// The interface that leads to the other host; it has the same name on both.
    #[must_use]
    pub const fn interface(&self) -> &'static str {
        self.interface
    }

    /// Counters of both directions since the path was made, forward (A to B) first. All zero where
    /// nothing is emulated.
    #[must_use]
    pub fn outcome(&self) -> (LinkOutcome, LinkOutcome) {
        self.emulated
            .as_ref()
            .map_or_else(Default::default, |emulated| {
                let [forward, reverse] = emulated.emulator.outcomes();
                (forward, reverse)
            })
    }

    /// Reasons to doubt what was measured over this path, so far.
    ///
    /// # Errors
    /// Where an interface cannot be read any more.
    pub fn caveats(&self) -> Result<Vec<Caveat>> {
        let Some(emulated) = &self.emulated else {
            return Ok(Vec::new());
        };
        let mut caveats = Vec::new();
        if !emulated.emulator.is_realtime() {
            caveats.push(Caveat::NoRealtimePriority);
        }
        let outcomes = emulated.emulator.outcomes();
        let worst = outcomes
            .iter()
            .zip(&emulated.specs)
            .filter_map(|(outcome, spec)| late(outcome, spec))
            .max_by_key(|late| match late {
                Caveat::EmulatorLate { p99_us, .. } => *p99_us,
                _ => 0,
            });
        caveats.extend(worst);
        if emulated.emulator.has_ended() {
            let why = format!("the interface {} of the path was removed", self.interface);
            caveats.push(Caveat::EndedEarly { why });
            return Ok(caveats);
        }
        let hosts = [(self.a(), "A"), (self.b(), "B")];
        for ((netns, host), before) in hosts.into_iter().zip(emulated.dropped_before) {
            let now = netns
                .run(|| interfaces::read(self.interface))??
                .send_dropped;
            if now > before {
                caveats.push(Caveat::DeviceDropped {
                    host: host.to_owned(),
                    packets: now - before,
                });
            }
        }
        Ok(caveats)
    }

    fn loopback() -> Result<Self> {
        let [a] = LabNetns::create(["a"])?;
        a.handle().run(|| prepare_host(None))??;
        Ok(Self {
            emulated: None,
            a,
            b: None,
            addresses: [IpAddr::V4(Ipv4Addr::LOCALHOST); 2],
            interface: "lo",
        })
    }

    fn veth(mtu: Bytes, router: Option<End>) -> Result<Self> {
        let mtu = device_mtu(mtu)?;
        let roles = roles(addresses(false), router);
        let [a, b] = LabNetns::create(["a", "b"])?;
        let peer = b.handle().as_fd();
        a.handle()
            .run(|| interfaces::create_veth(INTERFACE, INTERFACE, peer))??;
        for (netns, role) in [&a, &b].into_iter().zip(roles) {
            netns.handle().run(|| {
                prepare(role)?;
                configure_interface(role, mtu)
            })??;
        }
        Ok(Self {
            emulated: None,
            a,
            b: Some(b),
            addresses: roles.map(Role::address),
            interface: INTERFACE,
        })
    }

    fn emulated(specs: [LinkSpec; 2], mtu: Bytes, seed: u64, roles: [Role; 2]) -> Result<Self> {
        let mtu = device_mtu(mtu)?;
        let [a, b] = LabNetns::create(["a", "b"])?;
        let device = |netns: &LabNetns, role: Role| {
            netns.handle().run(|| {
                prepare(role)?;
                let tun = Tun::create_with(INTERFACE, Offloads::TCP)?;
                require_header(&tun)?;
                interfaces::set_txqueuelen(INTERFACE, RING_PACKETS)?;
                configure_interface(role, mtu)?;
                let dropped = interfaces::read(INTERFACE)?.send_dropped;
                Ok::<_, Error>((tun, dropped))
            })?
        };
        let (tun_a, dropped_a) = device(&a, roles[0])?;
        let (tun_b, dropped_b) = device(&b, roles[1])?;
        let emulator = Emulator::start(EmulatorSpec {
            tuns: [tun_a, tun_b],
            links: specs.clone(),
            seed,
        })?;
        Ok(Self {
            emulated: Some(Emulated {
                emulator,
                specs,
                dropped_before: [dropped_a, dropped_b],
            }),
            a,
            b: Some(b),
            addresses: roles.map(Role::address),
            interface: INTERFACE,
        })
    }
}

/// The emulator carries GSO packets.
fn require_header(tun: &Tun) -> Result<()> {
    if tun.offloads().vnet_header {
        return Ok(());
    }
    Err(Error::Unsupported {
        what: "a TUN device with virtio-net headers (IFF_VNET_HDR)".into(),
        hint: "lab paths need it; Linux has it since 2.6.27".into(),
    })
}

/// The caveat of one direction. Limits of the 99th percentile: 5 % of the one-way delay, but at
/// least 0.1 ms for a doubt and 0.4 ms for an outcome that must not be used.
fn late(outcome: &LinkOutcome, spec: &LinkSpec) -> Option<Caveat> {
    let p99_us = outcome.lateness_us?.p99;
    let share_us = u64::try_from(spec.delay.as_micros() / 20).unwrap_or(u64::MAX);
    let (doubt_us, invalid_us) = (share_us.max(100), share_us.max(400));
    (p99_us > doubt_us).then_some(Caveat::EmulatorLate {
        p99_us,
        limit_us: doubt_us,
        invalid: p99_us > invalid_us,
    })
}

/// Both ends lie in one network, so that no route is needed. Namespaces are separate: every path
/// has the same addresses.
fn addresses(ipv6: bool) -> [IpAddr; 2] {
    [1, 2].map(|host| {
        if ipv6 {
            IpAddr::V6(Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, host))
        } else {
            IpAddr::V4(Ipv4Addr::new(
                10,
                77,
                0,
                u8::try_from(host).expect("1 or 2"),
            ))
        }
    })
}

/// Role of one end.
#[derive(Clone, Copy, Debug)]
enum Role {
    /// Its namespace is a host with this address.
    Host(IpAddr),
    /// Its namespace is a router on the way from the host with this address to the remote one.
    Router { address: IpAddr, remote: IpAddr },
}

impl Role {
    /// Address of the host.
    const fn address(self) -> IpAddr {
        match self {
            Self::Host(address) | Self::Router { address, .. } => address,
        }
    }
}

/// Roles of both ends.
fn roles(addresses: [IpAddr; 2], router: Option<End>) -> [Role; 2] {
    let [a, b] = addresses;
    let behind = |address, remote| Role::Router { address, remote };
    match router {
        None => [Role::Host(a), Role::Host(b)],
        Some(End::Client) => [behind(a, b), Role::Host(b)],
        Some(End::Server) => [Role::Host(a), behind(b, a)],
    }
}

/// An address of a router, which none of its packets has: number 1 towards the path, 2 towards the
/// host behind it.
fn router_address(ipv6: bool, number: u8) -> IpAddr {
    match ipv6 {
        true => IpAddr::V6(Ipv6Addr::new(0xfd77, 0, 0, 1, 0, 0, 0, number.into())),
        false => IpAddr::V4(Ipv4Addr::new(10, 77, 1, number)),
    }
}

fn prepare(role: Role) -> Result<()> {
    prepare_host(Some(role.address()))?;
    match role {
        Role::Host(_) => Ok(()),
        Role::Router { address, .. } => prepare_router(address.is_ipv6()),
    }
}

/// Makes a fresh namespace a host: loopback up, and nothing remembered from connection to
/// connection.
fn prepare_host(address: Option<IpAddr>) -> Result<()> {
    interfaces::set_up("lo")?;
    write_sysctl("ipv4/tcp_no_metrics_save", "1")?;
    if !matches!(address, Some(IpAddr::V6(_))) {
        // Router solicitations and multicast reports would be counted as traffic of the path.
        if_there(write_sysctl("ipv6/conf/default/disable_ipv6", "1"))?;
        if_there(write_sysctl("ipv6/conf/all/disable_ipv6", "1"))?;
    }
    Ok(())
}

/// Lets packets through, whichever way they come and however far they have come.
fn prepare_router(ipv6: bool) -> Result<()> {
    if ipv6 {
        return write_sysctl("ipv6/conf/all/forwarding", "1");
    }
    write_sysctl("ipv4/ip_forward", "1")?;
    // The larger of "all" and the interface's own value holds, and these are inherited from the
    // machine (Linux 6.18 include/linux/inetdevice.h, IN_DEV_RPFILTER).
    write_sysctl("ipv4/conf/all/rp_filter", "0")?;
    write_sysctl("ipv4/conf/default/rp_filter", "0")
}

fn configure_interface(role: Role, mtu: u32) -> Result<()> {
    interfaces::set_mtu(INTERFACE, mtu)?;
    let ipv6 = role.address().is_ipv6();
    if ipv6 {
        keep_quiet(INTERFACE)?;
    }
    interfaces::set_up(INTERFACE)?;
    match role {
        Role::Host(address) => addr::add(INTERFACE, address, if ipv6 { 64 } else { 24 }),
        Role::Router { remote, .. } => {
            if !ipv6 {
                // On a veth device the other host asks who has the address of ours; at once, since
                // the kernel's answers for others wait up to 0.8 s by default.
                write_sysctl(&format!("ipv4/conf/{INTERFACE}/rp_filter"), "0")?;
                write_sysctl(&format!("ipv4/conf/{INTERFACE}/proxy_arp"), "1")?;
                write_sysctl(&format!("ipv4/neigh/{INTERFACE}/proxy_delay"), "0")?;
            }
            lead_to(INTERFACE, router_address(ipv6, 1), remote)
        }
    }
}

/// Leads from the router, in whose namespace the calling thread is, to the host with this address
/// behind the TUN device `name`.
///
/// # Errors
/// Where there is no such device, or the kernel refuses its MTU.
pub fn configure_stack_device(name: &str, mtu: u32, address: IpAddr) -> Result<()> {
    let ipv6 = address.is_ipv6();
    interfaces::set_txqueuelen(name, RING_PACKETS)?;
    interfaces::set_mtu(name, mtu)?;
    if ipv6 {
        keep_quiet(name)?;
    }
    interfaces::set_up(name)?;
    lead_to(name, router_address(ipv6, 2), address)
}

/// Gives an interface of a router an address, and one host behind it. (The kernel makes a route to
/// the peer of an address by itself, but for IPv6 some time later.)
fn lead_to(interface: &str, router: IpAddr, host: IpAddr) -> Result<()> {
    addr::add(interface, router, if router.is_ipv4() { 32 } else { 128 })?;
    route::add_on_link(Destination::of_host(host), interface)
}

/// No neighbour discovery for addresses that no other host can have.
fn keep_quiet(interface: &str) -> Result<()> {
    ["accept_dad", "router_solicitations"]
        .iter()
        .try_for_each(|what| write_sysctl(&format!("ipv6/conf/{interface}/{what}"), "0"))
}

/// Linux 6.18 net/core/dev.c: interfaces take 68 to 65535 bytes; IPv6 wants 1280.
fn device_mtu(mtu: Bytes) -> Result<u32> {
    u32::try_from(mtu.0)
        .ok()
        .filter(|mtu| (68..=65_535).contains(mtu))
        .ok_or_else(|| Error::Unsupported {
            what: format!("an MTU of {mtu}"),
            hint: "interfaces take 68 to 65535 bytes".into(),
        })
}

/// Writes one sysctl of the namespace of the calling thread.
fn write_sysctl(key: &str, value: &str) -> Result<()> {
    let path = format!("/proc/sys/net/{key}");
    fs::write(&path, value).map_err(Error::os(format!("write {value} to {path}")))
}

/// Ignores failures to disable IPv6 on kernels without it.
fn if_there(outcome: Result<()>) -> Result<()> {
    match outcome {
        Err(Error::Os { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;
    use lab::LatenessMicros;

    #[test]
    fn lateness_is_judged_by_the_delay_of_the_link() {
        fn check(delay_ms: u64, p99: u64, expected: Option<(u64, bool)>) {
            let outcome = LinkOutcome {
                lateness_us: Some(LatenessMicros {
                    p99,
                    ..LatenessMicros::default()
                }),
                ..LinkOutcome::default()
            };
            let spec = LinkSpec {
                delay: Duration::from_millis(delay_ms),
                ..LinkSpec::ideal()
            };
            let found = late(&outcome, &spec).map(|caveat| match caveat {
                Caveat::EmulatorLate {
                    limit_us, invalid, ..
                } => (limit_us, invalid),
                other => panic!("unexpected {other:?}"),
            });
            assert_eq!(found, expected, "{delay_ms} ms, {p99} us");
        }
        check(0, 100, None);
        check(0, 101, Some((100, false)));
        check(0, 401, Some((100, true)));
        check(20, 1000, None);
        check(20, 1001, Some((1000, true)));
        check(4, 300, Some((200, false)));
    }

    #[test]
    fn both_ends_lie_in_one_network() {
        assert_eq!(addresses(false)[1].to_string(), "10.77.0.2");
        assert_eq!(addresses(true)[0].to_string(), "fd77::1");
    }
}
