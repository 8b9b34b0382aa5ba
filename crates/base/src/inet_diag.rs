//! Answers of the kernel's `sock_diag`, parsed from bytes: the head that all have, and the
//! attributes behind it, of which `tcp_info` is the largest.
//!
//! It stands here because thousands of sockets are read so ten times a second: this crate is
//! compiled for speed wherever the program is.

use alloc::borrow::Cow;
use alloc::string::String;
use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use core::time::Duration;

use crate::{BbrState, FlowKey, FlowSample, Instant, KernelName, Rate, TcpState, tcp_info};

/// IPv4, as the kernel numbers families.
const AF_INET: u8 = 2;
/// Length of `struct inet_diag_msg`; attributes follow.
const MESSAGE_BYTES: usize = 72;

/// Attribute of an answer: `struct tcp_info`.
pub const INET_DIAG_INFO: u16 = 2;
/// Requests the information of any congestion control that has some.
pub const INET_DIAG_VEGASINFO: u16 = 3;
/// The name of the congestion control.
pub const INET_DIAG_CONG: u16 = 4;
/// Memory of the socket.
pub const INET_DIAG_SKMEMINFO: u16 = 7;
const INET_DIAG_BBRINFO: u16 = 16;
const INET_DIAG_ULP_INFO: u16 = 19;
const INET_DIAG_CGROUP_ID: u16 = 21;
/// The first attribute within `INET_DIAG_ULP_INFO`.
const INET_ULP_INFO_NAME: u16 = 1;

/// Fills `sample` from a `struct inet_diag_msg` with its attributes, as of `now`; returns the
/// interface to which the socket is bound, 0 for none. `None` if the message is truncated.
pub fn read(now: Instant, message: &[u8], sample: &mut FlowSample) -> Option<u32> {
    let (head, attributes) = message.split_at_checked(MESSAGE_BYTES)?;
    let word = |offset| u32_at(head, offset).unwrap_or(0);
    let interface = word(40);
    let cookie = u64::from(word(44)) | u64::from(word(48)) << 32;
    *sample = FlowSample::empty(now, flow_key(head, interface));
    sample.cookie = Some(cookie);
    sample.state = tcp_info::tcp_state(head[1]);
    sample.uid = Some(word(64));
    // A connection whose owner closed it has none.
    sample.inode = Some(u64::from(word(68))).filter(|&inode| inode != 0);
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
    Some(interface)
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

/// The attributes of a message or of a nested attribute: number and payload. Ends at the first that
/// does not fit.
#[derive(Debug)]
pub struct Attributes<'m>(pub &'m [u8]);

impl<'m> Iterator for Attributes<'m> {
    type Item = (u16, &'m [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        /// Without the bits that say "nested" and "network byte order".
        const NUMBER: u16 = 0x3fff;
        let length = usize::from(u16_at(self.0, 0)?);
        let number = u16_at(self.0, 2)? & NUMBER;
        let payload = self.0.get(4..length)?;
        self.0 = self.0.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((number, payload))
    }
}

/// The number at this offset in the machine's byte order; `None` where the bytes end before it.
#[inline]
#[must_use]
pub fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(
        bytes.get(offset..offset + 2)?.try_into().ok()?,
    ))
}

/// See [`u16_at`].
#[inline]
#[must_use]
pub fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(
        bytes.get(offset..offset + 4)?.try_into().ok()?,
    ))
}

/// See [`u16_at`].
#[inline]
#[must_use]
pub fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(
        bytes.get(offset..offset + 8)?.try_into().ok()?,
    ))
}

/// Text up to its first zero byte, without an allocation where it is UTF-8.
#[must_use]
pub fn borrowed_text(bytes: &[u8]) -> Cow<'_, str> {
    let end = bytes.iter().position(|&byte| byte == 0);
    String::from_utf8_lossy(&bytes[..end.unwrap_or(bytes.len())])
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;
    use alloc::vec;
    use alloc::vec::Vec;

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

    fn shown(message: &[u8]) -> Option<FlowSample> {
        let end = SocketAddr::from(([0; 4], 0));
        let key = FlowKey {
            local: end,
            remote: end,
        };
        let mut sample = FlowSample::empty(Instant::ZERO, key);
        read(Instant::ZERO, message, &mut sample).map(|_| sample)
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
        let sample = shown(&bytes).expect("a socket");
        assert_eq!(sample.key.to_string(), "10.0.0.1:5201 10.0.0.9:40000");
        assert_eq!(sample.cookie, Some(0x1_0000_1234));
        assert_eq!((sample.uid, sample.inode), (Some(1000), Some(4711)));
        assert_eq!(sample.unread_bytes, Some(11));
        assert_eq!(sample.send_queue_bytes, Some(22));
        assert_eq!(sample.srtt, None, "no tcp_info came");
        for length in 0..MESSAGE_BYTES {
            assert!(shown(&bytes[..length]).is_none());
        }
    }

    #[test]
    fn a_listener_has_a_queue_of_connections_and_no_bytes() {
        let sample = shown(&message(AF_INET, 10, v4([0; 4]), v4([0; 4]))).expect("a socket");
        assert_eq!(
            (sample.unacked_pkts, sample.sacked_pkts),
            (Some(11), Some(22))
        );
        assert_eq!((sample.unread_bytes, sample.send_queue_bytes), (None, None));
    }

    #[test]
    fn mapped_addresses_are_shown_as_ipv4() {
        let mapped = |last| Ipv4Addr::new(127, 0, 0, last).to_ipv6_mapped().octets();
        let key = shown(&message(10, 1, mapped(1), mapped(2)))
            .expect("a socket")
            .key;
        assert_eq!(key.to_string(), "127.0.0.1:5201 127.0.0.2:40000");
        let local: Ipv6Addr = "fe80::1".parse().expect("an address");
        let key = shown(&message(10, 1, local.octets(), local.octets()))
            .expect("a socket")
            .key;
        assert_eq!(key.to_string(), "[fe80::1%3]:5201 [fe80::1%3]:40000");
    }
}
