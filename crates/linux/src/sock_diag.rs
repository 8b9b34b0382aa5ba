//! All TCP sockets of a namespace, or one of them, as the kernel's `sock_diag` shows them.
//!
//! Needs no privilege. Shows the sockets of the namespace in which it was opened, whoever owns
//! them, but not which process does: that is [`crate::SocketOwners`]'s part.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::time::Duration;

use base::{BbrState, FlowKey, FlowSample, Instant, KernelName, ListenerSample, Rate, TcpState};
use rustix::io::Errno;
use rustix::net::netlink::SOCK_DIAG;

use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::netlink_dump::{
    Answer, Ask, Attributes, DUMP_ATTEMPTS, NetlinkSocket, borrowed_text, u32_at, u64_at,
};
use crate::netns::NetnsHandle;
use crate::tcp_info;

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const IPPROTO_TCP: u8 = 6;
/// Length of `struct inet_diag_msg`; attributes follow.
const MESSAGE_BYTES: usize = 72;
/// `SKNLGRP_INET_TCP_DESTROY` and `SKNLGRP_INET6_TCP_DESTROY`.
const GROUPS_DESTROYED: u32 = 1 << 0 | 1 << 2;

const INET_DIAG_INFO: u16 = 2;
const INET_DIAG_VEGASINFO: u16 = 3;
const INET_DIAG_CONG: u16 = 4;
const INET_DIAG_SKMEMINFO: u16 = 7;
const INET_DIAG_BBRINFO: u16 = 16;
const INET_DIAG_ULP_INFO: u16 = 19;
const INET_DIAG_CGROUP_ID: u16 = 21;
/// The first attribute within `INET_DIAG_ULP_INFO`.
const INET_ULP_INFO_NAME: u16 = 1;
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
        self.scan_each(request, &mut |sample| samples.push(sample))?;
        Ok(samples)
    }

    /// As [`SockDiag::scan`], but shows one after the other, as the kernel does: a list of
    /// thousands would not fit into the nearest caches. Returns how many of them are IPv6 sockets.
    /// Where the kernel says that a list was torn it is made again, and shown again.
    ///
    /// # Errors
    /// As [`SockDiag::scan`].
    pub fn scan_each(
        &mut self,
        request: &ScanRequest,
        take: &mut dyn FnMut(FlowSample),
    ) -> Result<usize> {
        self.bound.clear();
        let families = if request.skip_ipv6 {
            &[AF_INET][..]
        } else {
            &[AF_INET, AF_INET6]
        };
        let mut of_last = 0;
        for &family in families {
            let body = scan_body(family, request);
            for _ in 0..DUMP_ATTEMPTS {
                of_last = 0;
                let bound = &mut self.bound;
                let answer = self
                    .netlink
                    .exchange((SOCK_DIAG_BY_FAMILY, Ask::All), &body, |_, message| {
                        // The kernel writes a part of the list when the part before it is taken.
                        if let Some(sample) = read_socket(Clock.now(), message, bound) {
                            of_last += 1;
                            take(sample);
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

    /// The listeners, each with the length of its accept queue and its backlog.
    ///
    /// # Errors
    /// As [`SockDiag::scan`].
    pub fn listeners(&mut self) -> Result<Vec<ListenerSample>> {
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
            Some(ListenerSample {
                local: sample.key.local,
                cookie: sample.cookie?,
                queue_pkts: sample.unacked_pkts?,
                backlog_pkts: sample.sacked_pkts?,
            })
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
        let mut shown = None;
        let bound = &mut self.bound;
        let answer = self
            .netlink
            .exchange((SOCK_DIAG_BY_FAMILY, Ask::One), &body, |_, message| {
                shown = read_socket(now, message, bound);
            });
        match answer {
            // Where the connection is gone the kernel may show the listener of its port.
            Ok(_) => Ok(shown.filter(|sample| sample.key == key)),
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

    /// Those that were closed since the last call, with the time of this call. In a flood some may
    /// be missing.
    pub fn take(&mut self, now: Instant) -> Vec<FlowSample> {
        let (mut samples, mut bound) = (Vec::new(), BTreeMap::new());
        self.netlink.told(|kind, message| {
            if kind == SOCK_DIAG_BY_FAMILY {
                samples.extend(read_socket(now, message, &mut bound));
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
    body.extend_from_slice(&[family, IPPROTO_TCP, EXTENSIONS, 0]);
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

/// The socket that one `struct inet_diag_msg` with its attributes tells of; `None` where the
/// message is cut short.
fn read_socket(now: Instant, message: &[u8], bound: &mut BTreeMap<u64, u32>) -> Option<FlowSample> {
    let (head, attributes) = message.split_at_checked(MESSAGE_BYTES)?;
    let word = |offset| u32_at(head, offset).unwrap_or(0);
    let interface = word(40);
    let cookie = u64::from(word(44)) | u64::from(word(48)) << 32;
    let mut shown = FlowSample::empty(now, flow_key(head, interface));
    let sample = &mut shown;
    sample.cookie = Some(cookie);
    sample.state = tcp_info::tcp_state(head[1]);
    sample.uid = Some(word(64));
    // A connection whose owner closed it has none.
    sample.inode = Some(u64::from(word(68))).filter(|&inode| inode != 0);
    if interface != 0 {
        bound.insert(cookie, interface);
    }
    for (number, payload) in Attributes(attributes) {
        match number {
            INET_DIAG_INFO => tcp_info::fill(sample, payload),
            INET_DIAG_CONG => sample.congestion = Some(KernelName::from(&*borrowed_text(payload))),
            INET_DIAG_SKMEMINFO => fill_memory(sample, payload),
            INET_DIAG_ULP_INFO => {
                let mut inner = Attributes(payload);
                let name = inner.find(|(number, _)| *number == INET_ULP_INFO_NAME);
                sample.upper = name.map(|(_, name)| KernelName::from(&*borrowed_text(name)));
            }
            INET_DIAG_BBRINFO => sample.bbr = bbr_state(payload),
            INET_DIAG_CGROUP_ID => sample.cgroup_id = u64_at(payload, 0),
            _ => {}
        }
    }
    match sample.state {
        // Length and limit of the accept queue, also from kernels whose tcp_info lacks them.
        Some(TcpState::Listen) => {
            sample.unacked_pkts = Some(word(56));
            sample.sacked_pkts = Some(word(60));
        }
        Some(TcpState::TimeWait | TcpState::SynReceived) => {}
        _ => {
            sample.unread_bytes = Some(word(56));
            sample.send_queue_bytes = Some(word(60));
        }
    }
    Some(shown)
}

/// `skmeminfo`, in the order of `include/uapi/linux/sock_diag.h`.
fn fill_memory(sample: &mut FlowSample, memory: &[u8]) {
    sample.rmem_bytes = u32_at(memory, 0);
    sample.rcvbuf_bytes = u32_at(memory, 4);
    sample.local_queue_bytes = u32_at(memory, 8);
    sample.sndbuf_bytes = u32_at(memory, 12);
    sample.wmem_queued_bytes = u32_at(memory, 20);
    sample.backlog_bytes = u32_at(memory, 28);
    sample.socket_drops = u32_at(memory, 32).map(u64::from);
}

/// `struct tcp_bbr_info`: the bandwidth in bytes per second as two words, then microseconds and two
/// gains in 1/256. `None` where it is cut short.
fn bbr_state(info: &[u8]) -> Option<BbrState> {
    let word = |index: usize| u32_at(info, 4 * index);
    let bytes_per_second = u64::from(word(0)?) | u64::from(word(1)?) << 32;
    Some(BbrState {
        bandwidth: Rate::from_bytes_per_second(bytes_per_second),
        min_rtt: Duration::from_micros(word(2)?.into()),
        pacing_gain: word(3)?,
        cwnd_gain: word(4)?,
    })
}

fn flow_key(head: &[u8], interface: u32) -> FlowKey {
    let port = |offset: usize| u16::from_be_bytes([head[offset], head[offset + 1]]);
    let (local_port, remote_port) = (port(4), port(6));
    if head[0] == AF_INET {
        let ip = |offset: usize| {
            Ipv4Addr::new(
                head[offset],
                head[offset + 1],
                head[offset + 2],
                head[offset + 3],
            )
        };
        return v4_key((ip(8), local_port), (ip(24), remote_port));
    }
    let ip = |offset: usize| {
        let octets: [u8; 16] = head[offset..offset + 16]
            .try_into()
            .expect("sixteen bytes of a fixed part");
        Ipv6Addr::from(octets)
    };
    let (local, remote) = (ip(8), ip(24));
    if let Some(local) = local.to_ipv4_mapped() {
        let remote = remote.to_ipv4_mapped().unwrap_or(Ipv4Addr::UNSPECIFIED);
        return v4_key((local, local_port), (remote, remote_port));
    }
    let end = |ip: Ipv6Addr, port| {
        let scope = if ip.is_unicast_link_local() {
            interface
        } else {
            0
        };
        SocketAddr::V6(SocketAddrV6::new(ip, port, 0, scope))
    };
    FlowKey {
        local: end(local, local_port),
        remote: end(remote, remote_port),
    }
}

fn v4_key(local: (Ipv4Addr, u16), remote: (Ipv4Addr, u16)) -> FlowKey {
    FlowKey {
        local: SocketAddr::V4(SocketAddrV4::new(local.0, local.1)),
        remote: SocketAddr::V4(SocketAddrV4::new(remote.0, remote.1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(family: u8, state: u8, local: [u8; 16], remote: [u8; 16]) -> Vec<u8> {
        let mut head = vec![family, state, 0, 0];
        head.extend_from_slice(&5201_u16.to_be_bytes());
        head.extend_from_slice(&40000_u16.to_be_bytes());
        head.extend_from_slice(&local);
        head.extend_from_slice(&remote);
        for word in [3_u32, 0x1234, 1, 0, 11, 22, 1000, 4711] {
            head.extend_from_slice(&word.to_ne_bytes());
        }
        head
    }

    fn read(message: &[u8]) -> Option<FlowSample> {
        read_socket(Instant::ZERO, message, &mut BTreeMap::new())
    }

    fn v4(octets: [u8; 4]) -> [u8; 16] {
        let mut address = [0; 16];
        address[..4].copy_from_slice(&octets);
        address
    }

    #[test]
    fn bbr_tells_its_estimates() {
        let info: Vec<u8> = [1_000_000_u32, 1, 40_000, 739, 512]
            .iter()
            .flat_map(|w| w.to_ne_bytes())
            .collect();
        let bbr = bbr_state(&info).expect("whole");
        assert_eq!(
            bbr.bandwidth,
            Rate::from_bytes_per_second((1 << 32) + 1_000_000)
        );
        assert_eq!(bbr.min_rtt, Duration::from_millis(40));
        assert_eq!((bbr.pacing_gain, bbr.cwnd_gain), (739, 512));
        assert_eq!(bbr_state(&info[..19]), None);
    }

    #[test]
    fn the_fixed_part_gives_ends_identity_and_queues() {
        let bytes = message(AF_INET, 1, v4([10, 0, 0, 1]), v4([10, 0, 0, 9]));
        let sample = read(&bytes).expect("a socket");
        assert_eq!(sample.key.to_string(), "10.0.0.1:5201 10.0.0.9:40000");
        assert_eq!(sample.cookie, Some(0x1_0000_1234));
        assert_eq!((sample.uid, sample.inode), (Some(1000), Some(4711)));
        assert_eq!(sample.unread_bytes, Some(11));
        assert_eq!(sample.send_queue_bytes, Some(22));
        assert_eq!(sample.srtt, None, "no tcp_info came");
        for length in 0..MESSAGE_BYTES {
            assert!(read(&bytes[..length]).is_none());
        }
    }

    #[test]
    fn a_listener_has_a_queue_of_connections_and_no_bytes() {
        let sample = read(&message(AF_INET, 10, v4([0; 4]), v4([0; 4]))).expect("a socket");
        assert_eq!(
            (sample.unacked_pkts, sample.sacked_pkts),
            (Some(11), Some(22))
        );
        assert_eq!((sample.unread_bytes, sample.send_queue_bytes), (None, None));
    }

    #[test]
    fn mapped_addresses_are_shown_as_ipv4() {
        let mapped = |last| Ipv4Addr::new(127, 0, 0, last).to_ipv6_mapped().octets();
        let key = read(&message(AF_INET6, 1, mapped(1), mapped(2)))
            .expect("a socket")
            .key;
        assert_eq!(key.to_string(), "127.0.0.1:5201 127.0.0.2:40000");
        let local: Ipv6Addr = "fe80::1".parse().expect("an address");
        let key = read(&message(AF_INET6, 1, local.octets(), local.octets()))
            .expect("a socket")
            .key;
        assert_eq!(key.to_string(), "[fe80::1%3]:5201 [fe80::1%3]:40000");
    }

    #[test]
    fn the_request_for_one_names_both_ends() {
        let key = read(&message(AF_INET, 1, v4([10, 0, 0, 1]), v4([10, 0, 0, 9])))
            .expect("a socket")
            .key;
        let body = one_body(key, Some(0x1_0000_1234), Some(3));
        // The identity has the same layout in the request and in the answer.
        let answer = message(AF_INET, 1, v4([10, 0, 0, 1]), v4([10, 0, 0, 9]));
        assert_eq!(body[8..56], answer[4..52]);
        assert_eq!(scan_body(AF_INET, &ScanRequest::default()).len(), 56);
    }
}
