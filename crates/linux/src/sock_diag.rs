//! All TCP sockets of a namespace, or one of them, as the kernel's `sock_diag` shows them.
//!
//! Needs no privilege. Shows all sockets of the namespace in which it was opened, but not which
//! process owns them: see [`crate::SocketOwners`].

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use base::inet_diag::{
    self, INET_DIAG_CONG, INET_DIAG_INFO, INET_DIAG_SKMEMINFO, INET_DIAG_VEGASINFO,
};
use base::{FlowKey, FlowSample, Instant, ListenerSample};
use rustix::io::Errno;
use rustix::net::netlink::SOCK_DIAG;

use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::netlink_dump::{Answer, Ask, DUMP_ATTEMPTS, NetlinkSocket};
use crate::netns::NetnsHandle;

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const IPPROTO_TCP: u8 = 6;
/// `SKNLGRP_INET_TCP_DESTROY` and `SKNLGRP_INET6_TCP_DESTROY`.
const GROUPS_DESTROYED: u32 = 1 << 0 | 1 << 2;

/// The attributes that the kernel sends only where they are asked for. The number of BBR's does not
/// fit into the mask; who asks for that of Vegas gets that of any congestion control that has one.
const EXTENSIONS: u8 = (1 << (INET_DIAG_INFO - 1))
    | (1 << (INET_DIAG_VEGASINFO - 1))
    | (1 << (INET_DIAG_CONG - 1))
    | (1 << (INET_DIAG_SKMEMINFO - 1));
/// `INET_DIAG_NOCOOKIE`: any socket will do.
const NO_COOKIE: u64 = u64::MAX;

/// ESTABLISHED, SYN-SENT, FIN-WAIT-1, FIN-WAIT-2, CLOSE-WAIT, LAST-ACK, CLOSING.
const STATES_CONNECTED: u32 = 1 << 1 | 1 << 2 | 1 << 4 | 1 << 5 | 1 << 8 | 1 << 9 | 1 << 11;
const STATES_SYN_RECEIVED: u32 = 1 << 3;
const STATES_TIME_WAIT: u32 = 1 << 6;
const STATES_LISTEN: u32 = 1 << 10;

/// Which sockets a scan lists. The default is every connection from its SYN to its last ACK.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScanRequest {
    /// Listeners as well.
    pub listeners: bool,
    /// No connections.
    pub no_connections: bool,
    /// Connections that wait in TIME-WAIT as well; of these little is known.
    pub time_wait: bool,
    /// Connections that a peer began and that are not established yet as well.
    pub syn_received: bool,
    /// Only sockets with this local port. The kernel sorts them out, which is fast.
    pub local_port: Option<u16>,
    /// Only sockets with this remote port.
    pub remote_port: Option<u16>,
    /// No IPv6 sockets.
    pub skip_ipv6: bool,
    /// Only their ends, state, owner and queues: the kernel writes less.
    pub ends_only: bool,
}

/// An open door to `sock_diag`. It belongs to the namespace in which it was opened, whichever
/// thread uses it, and is meant to be kept: opening costs more than asking.
#[derive(Debug)]
pub struct SockDiag {
    netlink: NetlinkSocket,
    /// Interface to which a socket is bound, by cookie, where it is bound to one: the kernel finds
    /// such a socket only if its interface is named.
    bound: BTreeMap<u64, u32>,
}

impl SockDiag {
    /// Opens it in the calling thread's namespace.
    ///
    /// # Errors
    /// [`Error::Unsupported`] on a kernel without it, [`Error::Os`] where no descriptor is left.
    pub fn open() -> Result<Self> {
        Ok(Self {
            netlink: NetlinkSocket::open(Some(SOCK_DIAG), "sock_diag")?,
            bound: BTreeMap::new(),
        })
    }

    /// Opens it in another namespace.
    ///
    /// # Errors
    /// As [`SockDiag::open`], and [`Error::Permission`] where the namespace is not ours to enter.
    pub fn open_in(netns: &NetnsHandle) -> Result<Self> {
        netns.run(Self::open)?
    }

    /// Every TCP socket, IPv4 and IPv6. A connection of an IPv6 socket over IPv4 is shown with IPv4
    /// addresses. A socket that changes while the scan runs may be there twice or not at all. Each
    /// has the time at which it was read.
    ///
    /// # Errors
    /// [`Error::Os`] where the kernel refuses, [`Error::Unsupported`] where it lacks TCP diagnosis.
    pub fn scan(&mut self, request: &ScanRequest) -> Result<Vec<FlowSample>> {
        let mut samples = Vec::new();
        self.scan_each(request, &mut |sample| samples.push(sample.clone()))?;
        Ok(samples)
    }

    /// As [`SockDiag::scan`], but shows one after the other, as the kernel does, all in the same
    /// memory: a list of thousands would not fit into the nearest caches. Returns how many of them
    /// are IPv6 sockets. Where the kernel says that a list was torn it is made again, and shown
    /// again.
    ///
    /// # Errors
    /// As [`SockDiag::scan`].
    pub fn scan_each(
        &mut self,
        request: &ScanRequest,
        take: &mut dyn FnMut(&mut FlowSample),
    ) -> Result<usize> {
        self.bound.clear();
        let families = if request.skip_ipv6 {
            &[AF_INET][..]
        } else {
            &[AF_INET, AF_INET6]
        };
        let mut of_last = 0;
        let mut sample = no_sample();
        for &family in families {
            let body = scan_body(family, request);
            for _ in 0..DUMP_ATTEMPTS {
                of_last = 0;
                let bound = &mut self.bound;
                let answer = self
                    .netlink
                    .exchange((SOCK_DIAG_BY_FAMILY, Ask::All), &body, |_, message| {
                        // The kernel writes a part of the list when the part before it is taken.
                        if read_socket(Clock.now(), message, &mut sample, bound) {
                            of_last += 1;
                            take(&mut sample);
                        }
                    })
                    .map_err(scan_error)?;
                // After the last attempt what came is used: a busy host must not go unseen.
                if answer == Answer::Whole {
                    break;
                }
            }
        }
        Ok(if request.skip_ipv6 { 0 } else { of_last })
    }

    /// The listeners, each with the length of its accept queue and its backlog, and with its inode,
    /// by which [`SocketOwners`](crate::SocketOwners) tell who holds it.
    ///
    /// # Errors
    /// As [`SockDiag::scan`].
    pub fn listeners(&mut self) -> Result<Vec<(ListenerSample, Option<u64>)>> {
        let request = ScanRequest {
            listeners: true,
            no_connections: true,
            ..ScanRequest::default()
        };
        // A scan forgets the interfaces of sockets that it does not show.
        let bound = std::mem::take(&mut self.bound);
        let samples = self.scan(&request);
        self.bound = bound;
        let listener = |sample: FlowSample| {
            let listener = ListenerSample {
                local: sample.key.local,
                cookie: sample.cookie?,
                queue_pkts: sample.unacked_pkts?,
                backlog_pkts: sample.sacked_pkts?,
            };
            Some((listener, sample.inode))
        };
        Ok(samples?.into_iter().filter_map(listener).collect())
    }

    /// One look at one connection: a single request of some microseconds, cheap enough to repeat
    /// every few milliseconds. `None` where it is gone, or another one has taken its place. A
    /// socket bound to an interface is found only if a scan showed it before.
    ///
    /// # Errors
    /// [`Error::Os`] where the kernel refuses.
    pub fn sample_one(
        &mut self,
        now: Instant,
        key: FlowKey,
        cookie: Option<u64>,
    ) -> Result<Option<FlowSample>> {
        let interface = cookie.and_then(|cookie| self.bound.get(&cookie)).copied();
        let body = one_body(key, cookie, interface);
        let (mut sample, mut is_shown) = (no_sample(), false);
        let bound = &mut self.bound;
        let answer = self
            .netlink
            .exchange((SOCK_DIAG_BY_FAMILY, Ask::One), &body, |_, message| {
                is_shown = read_socket(now, message, &mut sample, bound);
            });
        match answer {
            // Where the connection is gone the kernel may show the listener of its port.
            Ok(_) => Ok((is_shown && sample.key == key).then_some(sample)),
            Err(Errno::NOENT | Errno::STALE) => Ok(None),
            Err(errno) => Err(scan_error(errno)),
        }
    }
}

/// The last look at every TCP socket of a namespace, which the kernel tells when it takes a socket
/// down: the counters of connections that are shorter than the distance of two looks.
#[derive(Debug)]
pub struct ClosedSockets {
    netlink: NetlinkSocket,
}

impl ClosedSockets {
    /// Listens in the calling thread's namespace, from now on.
    ///
    /// # Errors
    /// [`Error::Os`] where the kernel refuses, [`Error::Unsupported`] where it has no `sock_diag`.
    pub fn open() -> Result<Self> {
        let netlink = NetlinkSocket::listen(Some(SOCK_DIAG), "sock_diag", GROUPS_DESTROYED)?;
        Ok(Self { netlink })
    }

    /// Connections closed since the last call, with the time of this call. In a flood some may be
    /// missing.
    pub fn take(&mut self, now: Instant) -> Vec<FlowSample> {
        let (mut samples, mut bound) = (Vec::new(), BTreeMap::new());
        self.netlink.told(|kind, message| {
            if kind == SOCK_DIAG_BY_FAMILY {
                let mut sample = no_sample();
                if read_socket(now, message, &mut sample, &mut bound) {
                    samples.push(sample);
                }
            }
        });
        // Of a listener, and of a connection that was never there, there is nothing to tell.
        samples.retain(|sample| sample.bytes_acked.is_some() && sample.key.remote.port() != 0);
        samples
    }
}

fn scan_error(errno: Errno) -> Error {
    match errno {
        Errno::NOENT | Errno::OPNOTSUPP => Error::Unsupported {
            what: "listing TCP sockets".into(),
            hint: "load the module tcp_diag (`modprobe tcp_diag`)".into(),
        },
        _ => Error::Os {
            op: "list TCP sockets by sock_diag".into(),
            source: errno.into(),
        },
    }
}

/// `struct inet_diag_req_v2` for many sockets.
fn scan_body(family: u8, request: &ScanRequest) -> Vec<u8> {
    let mut states = if request.no_connections {
        0
    } else {
        STATES_CONNECTED
    };
    for (wanted, bits) in [
        (request.listeners, STATES_LISTEN),
        (request.time_wait, STATES_TIME_WAIT),
        (request.syn_received, STATES_SYN_RECEIVED),
    ] {
        if wanted {
            states |= bits;
        }
    }
    let mut body = Vec::with_capacity(56);
    let extensions = if request.ends_only { 0 } else { EXTENSIONS };
    body.extend_from_slice(&[family, IPPROTO_TCP, extensions, 0]);
    body.extend_from_slice(&states.to_ne_bytes());
    body.extend_from_slice(&request.local_port.unwrap_or(0).to_be_bytes());
    body.extend_from_slice(&request.remote_port.unwrap_or(0).to_be_bytes());
    body.resize(48, 0);
    body.extend_from_slice(&NO_COOKIE.to_ne_bytes());
    body
}

/// `struct inet_diag_req_v2` for one socket.
fn one_body(key: FlowKey, cookie: Option<u64>, interface: Option<u32>) -> Vec<u8> {
    let family = if key.local.is_ipv4() {
        AF_INET
    } else {
        AF_INET6
    };
    let mut body = Vec::with_capacity(56);
    body.extend_from_slice(&[family, IPPROTO_TCP, EXTENSIONS, 0]);
    body.extend_from_slice(&u32::MAX.to_ne_bytes());
    body.extend_from_slice(&key.local.port().to_be_bytes());
    body.extend_from_slice(&key.remote.port().to_be_bytes());
    for end in [key.local, key.remote] {
        let mut address = [0; 16];
        match end.ip() {
            IpAddr::V4(ip) => address[..4].copy_from_slice(&ip.octets()),
            IpAddr::V6(ip) => address = ip.octets(),
        }
        body.extend_from_slice(&address);
    }
    body.extend_from_slice(&interface.unwrap_or(0).to_ne_bytes());
    // Two 32-bit words, the lower one first.
    let cookie = cookie.unwrap_or(NO_COOKIE);
    body.extend_from_slice(&(cookie as u32).to_ne_bytes());
    body.extend_from_slice(&((cookie >> 32) as u32).to_ne_bytes());
    body
}

/// Makes `sample` what one answer tells of its socket, and notes where that is bound to an
/// interface. False where the message is cut short.
fn read_socket(
    now: Instant,
    message: &[u8],
    sample: &mut FlowSample,
    bound: &mut BTreeMap<u64, u32>,
) -> bool {
    let Some(interface) = inet_diag::read(now, message, sample) else {
        return false;
    };
    if let Some(cookie) = sample.cookie.filter(|_| interface != 0) {
        bound.insert(cookie, interface);
    }
    true
}

/// Memory for a sample.
fn no_sample() -> FlowSample {
    let end = SocketAddr::from(([0; 4], 0));
    let key = FlowKey {
        local: end,
        remote: end,
    };
    FlowSample::empty(Instant::ZERO, key)
}

/// Whether a listener at `listening` accepts connections to `local`, on its port.
#[must_use]
pub fn accepts(listening: IpAddr, local: IpAddr) -> bool {
    match (listening, local.to_canonical()) {
        (IpAddr::V4(any), IpAddr::V4(_)) if any.is_unspecified() => true,
        // That of IPv6 accepts both, unless it is told not to (IPV6_V6ONLY).
        (IpAddr::V6(any), _) if any.is_unspecified() => true,
        (listening, local) => listening.to_canonical() == local,
    }
}

/// Which of several listeners that accept connections to `local` the kernel prefers, the least
/// first: that of the address itself, and then that of its family.
pub(crate) fn preference(listening: IpAddr, local: IpAddr) -> (bool, bool) {
    (
        listening.is_unspecified(),
        listening.is_ipv4() != local.to_canonical().is_ipv4(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_for_one_names_both_ends() {
        let key = FlowKey {
            local: ([10, 0, 0, 1], 5201).into(),
            remote: ([10, 0, 0, 9], 40_000).into(),
        };
        let body = one_body(key, Some(0x1_0000_1234), Some(3));
        // The identity has the same layout in the request and in the answer.
        let mut answer = vec![AF_INET, 1, 0, 0];
        answer.extend_from_slice(&body[8..56]);
        answer.resize(72, 0);
        let (mut sample, mut bound) = (no_sample(), BTreeMap::new());
        assert!(read_socket(Instant::ZERO, &answer, &mut sample, &mut bound));
        assert_eq!((sample.key, sample.cookie), (key, Some(0x1_0000_1234)));
        assert_eq!(bound, BTreeMap::from([(0x1_0000_1234, 3)]));
        assert_eq!(scan_body(AF_INET, &ScanRequest::default()).len(), 56);
    }
}
