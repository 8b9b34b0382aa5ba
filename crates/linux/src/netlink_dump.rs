//! Asking the kernel over netlink: one request, every answer to it.
//!
//! Decides when an answer is whole. What the answers mean is up to the caller, which gets the bytes
//! as they came: only so can it tell a field that the kernel does not have from one that is zero.
//! Requests that change something go through `netlink-bindings` elsewhere; this is for reading
//! many small answers fast, without an allocation for each.

use std::os::fd::OwnedFd;
use std::time::Duration;

pub(crate) use base::inet_diag::{Attributes, borrowed_text, u16_at, u32_at, u64_at};
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::sockopt::{
    Timeout, set_socket_recv_buffer_size, set_socket_recv_buffer_size_force, set_socket_timeout,
};
use rustix::net::{AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType};

use crate::error::{Error, Result};

/// How often a dump is begun again that the kernel says was torn.
pub(crate) const DUMP_ATTEMPTS: u32 = 3;

/// The kernel fills at most 32 KiB per call (measured), so a larger buffer buys nothing.
const RECEIVE_BYTES: usize = 32 * 1024;
/// No single answer that we ask for comes near it; it bounds what a bad length can cost.
const RECEIVE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Receive buffer for notifications; without privilege the kernel grants at most
/// `net.core.rmem_max`.
const WAITING_BYTES_MAX: usize = 8 * 1024 * 1024;
/// The kernel answers at once. The bound keeps a bug there from hanging us here.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

const HEADER_BYTES: usize = 16;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 0x1;
const NLM_F_MULTI: u16 = 0x2;
const NLM_F_DUMP_INTR: u16 = 0x10;
const NLM_F_DUMP: u16 = 0x300;

/// Kind of request.
#[derive(Clone, Copy)]
pub(crate) enum Ask {
    /// Every object.
    All,
    /// The object named in the body.
    One,
}

/// Whether the answers can be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// All of them, from a table that did not change meanwhile.
    Whole,
    /// Some were lost, or the table changed on the way: ask again.
    Torn,
}

/// A netlink socket and its buffer. It belongs to the namespace in which it was opened.
#[derive(Debug)]
pub(crate) struct NetlinkSocket {
    fd: OwnedFd,
    buffer: Vec<u8>,
    sequence: u32,
}

impl NetlinkSocket {
    pub(crate) fn open(protocol: Option<Protocol>, what: &str) -> Result<Self> {
        Self::open_for(protocol, what, None)
    }

    /// A socket subscribed to the multicast groups of this mask.
    pub(crate) fn listen(protocol: Option<Protocol>, what: &str, groups: u32) -> Result<Self> {
        Self::open_for(protocol, what, Some(groups))
    }

    fn open_for(protocol: Option<Protocol>, what: &str, groups: Option<u32>) -> Result<Self> {
        let fd = rustix::net::socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            protocol,
        )
        .map_err(|errno| open_error(errno, what))?;
        if let Some(groups) = groups {
            // A smaller buffer only loses more in a flood.
            let _ = set_socket_recv_buffer_size_force(&fd, WAITING_BYTES_MAX)
                .or_else(|_| set_socket_recv_buffer_size(&fd, WAITING_BYTES_MAX));
            rustix::net::bind(&fd, &SocketAddrNetlink::new(0, groups))
                .map_err(Error::errno(format!("listen to {what}")))?;
        }
        // Linux 6.18 net/netlink/af_netlink.c, netlink_getsockbyportid: a socket that is connected
        // takes messages of that one sender only. In a container's namespace, its own root could
        // send us answers otherwise.
        rustix::net::connect(&fd, &SocketAddrNetlink::new(0, 0))
            .map_err(Error::errno(format!("connect the {what} socket")))?;
        set_socket_timeout(&fd, Timeout::Recv, Some(ANSWER_TIMEOUT))
            .map_err(Error::errno(format!("set a timeout on the {what} socket")))?;
        Ok(Self {
            fd,
            buffer: vec![0; RECEIVE_BYTES],
            sequence: 0,
        })
    }

    /// Sends one request and hands each answer's type and payload to `each`. An error code in the
    /// kernel's answer is returned as it is.
    pub(crate) fn exchange(
        &mut self,
        (kind, ask): (u16, Ask),
        body: &[u8],
        mut each: impl FnMut(u16, &[u8]),
    ) -> Result<Answer, Errno> {
        self.send(kind, ask, body)?;
        let mut answer = Answer::Whole;
        loop {
            let length = match self.receive() {
                Ok(Some(length)) => length,
                Ok(None) | Err(Errno::NOBUFS) => {
                    answer = Answer::Torn;
                    continue;
                }
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno),
            };
            for message in Messages(&self.buffer[..length]) {
                if message.sequence != self.sequence {
                    continue; // left over from a request that was given up
                }
                if message.flags & NLM_F_DUMP_INTR != 0 {
                    answer = Answer::Torn;
                }
                match message.kind {
                    NLMSG_DONE => return done_code(message.payload).map_or(Ok(answer), Err),
                    NLMSG_ERROR => return error_code(message.payload).map_or(Ok(answer), Err),
                    kind => each(kind, message.payload),
                }
                if message.flags & NLM_F_MULTI == 0 {
                    return Ok(answer);
                }
            }
        }
    }

    /// Hands what the kernel has told by itself since the last call to `each`, without waiting.
    /// What did not fit into the socket's memory is lost.
    pub(crate) fn told(&mut self, mut each: impl FnMut(u16, &[u8])) {
        loop {
            match rustix::net::recv(&self.fd, &mut self.buffer[..], RecvFlags::DONTWAIT) {
                Ok((_, length)) => {
                    let whole = length.min(self.buffer.len());
                    Messages(&self.buffer[..whole])
                        .for_each(|message| each(message.kind, message.payload));
                }
                Err(Errno::INTR | Errno::NOBUFS) => {}
                Err(_) => return,
            }
        }
    }

    fn send(&mut self, kind: u16, ask: Ask, body: &[u8]) -> Result<(), Errno> {
        self.sequence = self.sequence.wrapping_add(1);
        let flags = match ask {
            Ask::All => NLM_F_REQUEST | NLM_F_DUMP,
            Ask::One => NLM_F_REQUEST,
        };
        let mut request = Vec::with_capacity(HEADER_BYTES + body.len());
        let length = u32::try_from(HEADER_BYTES + body.len()).expect("requests are short");
        request.extend_from_slice(&length.to_ne_bytes());
        request.extend_from_slice(&kind.to_ne_bytes());
        request.extend_from_slice(&flags.to_ne_bytes());
        request.extend_from_slice(&self.sequence.to_ne_bytes());
        request.extend_from_slice(&0_u32.to_ne_bytes());
        request.extend_from_slice(body);
        rustix::io::retry_on_intr(|| rustix::net::send(&self.fd, &request, SendFlags::empty()))?;
        Ok(())
    }

    /// The number of bytes now in the buffer; `None` where they did not fit and are lost.
    fn receive(&mut self) -> Result<Option<usize>, Errno> {
        let (_, length) = rustix::net::recv(&self.fd, &mut self.buffer[..], RecvFlags::TRUNC)?;
        if length <= self.buffer.len() {
            return Ok(Some(length));
        }
        let larger = length.next_power_of_two().min(RECEIVE_BYTES_MAX);
        if larger > self.buffer.len() {
            self.buffer.resize(larger, 0);
        }
        Ok(None)
    }
}

fn open_error(errno: Errno, what: &str) -> Error {
    match errno {
        Errno::MFILE | Errno::NFILE => Error::Os {
            op: format!("open a {what} socket (raise the limit of open files: `ulimit -n`)"),
            source: errno.into(),
        },
        Errno::PROTONOSUPPORT | Errno::AFNOSUPPORT => Error::Unsupported {
            what: what.into(),
            hint: format!("the kernel was built without {what}"),
        },
        _ => Error::Os {
            op: format!("open a {what} socket"),
            source: errno.into(),
        },
    }
}

/// `None` for the code 0, which acknowledges.
fn error_code(payload: &[u8]) -> Option<Errno> {
    match u32_at(payload, 0).map(u32::cast_signed) {
        Some(0) => None,
        Some(code) => Some(Errno::from_raw_os_error(code.saturating_neg())),
        None => Some(Errno::BADMSG),
    }
}

/// The code with which a list ended: what kept the kernel from going on (Linux 6.18
/// net/netlink/af_netlink.c, netlink_dump_done). Some kinds of lists send a length or nothing here.
fn done_code(payload: &[u8]) -> Option<Errno> {
    let code = u32_at(payload, 0)?.cast_signed();
    (code < 0).then(|| Errno::from_raw_os_error(code.saturating_neg()))
}

struct Message<'m> {
    kind: u16,
    flags: u16,
    sequence: u32,
    payload: &'m [u8],
}

/// The messages of one datagram; ends at the first that does not fit into it.
struct Messages<'m>(&'m [u8]);

impl<'m> Iterator for Messages<'m> {
    type Item = Message<'m>;

    fn next(&mut self) -> Option<Message<'m>> {
        let length = u32_at(self.0, 0)? as usize;
        let message = Message {
            kind: u16_at(self.0, 4)?,
            flags: u16_at(self.0, 6)?,
            sequence: u32_at(self.0, 8)?,
            payload: self.0.get(HEADER_BYTES..length)?,
        };
        self.0 = self.0.get(aligned(length)..).unwrap_or_default();
        Some(message)
    }
}

const fn aligned(length: usize) -> usize {
    length.next_multiple_of(4)
}

/// Text up to its first zero byte.
pub(crate) fn text(bytes: &[u8]) -> String {
    borrowed_text(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(number: u16, payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&(payload.len() as u16 + 4).to_ne_bytes());
        bytes.extend_from_slice(&number.to_ne_bytes());
        bytes.extend_from_slice(payload);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn attributes_are_read_with_padding_and_flags() {
        let bytes = [attribute(4, b"bbr\0"), attribute(0x8008, &[3])].concat();
        let read: Vec<_> = Attributes(&bytes).collect();
        assert_eq!(read, [(4, &b"bbr\0"[..]), (8, &[3][..])]);
        assert_eq!(text(b"bbr\0rest"), "bbr");
    }

    #[test]
    fn a_cut_or_lying_length_ends_the_reading() {
        let whole = [attribute(1, &[1; 8]), attribute(2, &[2; 8])].concat();
        for length in 0..whole.len() {
            let read = Attributes(&whole[..length]).count();
            assert_eq!(read, usize::from(length >= 12), "{length}");
        }
        // Lengths below the header's own: no progress would be an endless loop.
        assert_eq!(Attributes(&[0, 0, 1, 0, 9, 9, 9, 9]).count(), 0);
        assert_eq!(Attributes(&[3, 0, 1, 0, 9, 9, 9, 9]).count(), 0);
        assert_eq!(Messages(&[0; 64]).count(), 0);
        assert_eq!(Messages(&[7; 12]).count(), 0);
    }

    #[test]
    fn a_list_that_breaks_off_is_an_error_and_not_an_empty_list() {
        const SOCK_DIAG_BY_FAMILY: u16 = 20;
        const NO_PROTOCOL: u8 = 253;
        let mut netlink = NetlinkSocket::open(Some(rustix::net::netlink::SOCK_DIAG), "sock_diag")
            .expect("needs no privilege");
        let mut body = vec![libc::AF_INET as u8, NO_PROTOCOL, 0, 0];
        body.resize(56, 0xff);
        let answer = netlink.exchange((SOCK_DIAG_BY_FAMILY, Ask::All), &body, |_, _| ());
        assert_eq!(answer, Err(Errno::NOENT));
    }

    #[test]
    fn nobody_but_the_kernel_can_answer() {
        let netlink = NetlinkSocket::open(None, "rtnetlink").expect("needs no privilege");
        let ours = rustix::net::getsockname(&netlink.fd).expect("bound");
        let ours = SocketAddrNetlink::try_from(ours).expect("of netlink");
        let stranger = rustix::net::socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            None,
        )
        .expect("needs no privilege");
        let sent = rustix::net::sendto(&stranger, &[0; 16], SendFlags::empty(), &ours);
        // Without CAP_NET_ADMIN the kernel refuses even to try.
        assert!(
            matches!(sent, Err(Errno::CONNREFUSED | Errno::PERM)),
            "{sent:?}"
        );
    }

    #[test]
    fn error_codes_are_negative_and_zero_acknowledges() {
        assert_eq!(error_code(&0_i32.to_ne_bytes()), None);
        assert_eq!(error_code(&(-2_i32).to_ne_bytes()), Some(Errno::NOENT));
        assert_eq!(error_code(&[1]), Some(Errno::BADMSG));
        assert_eq!(done_code(&(-2_i32).to_ne_bytes()), Some(Errno::NOENT));
        assert_eq!(done_code(&0_i32.to_ne_bytes()), None);
        assert_eq!(done_code(&[]), None);
    }
}
