//! One rtnetlink exchange in bytes: a request, its replies, the kernel's own words on an error.
//!
//! Actuators need messages as the kernel sent them, so that what they save can be sent back whole,
//! attributes that no binding knows included. Typed bindings are for those who only read.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use netlink_bindings::utils::{IterableChunks, align, push_header};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use crate::error::{Error, Result};

/// The kernel sends at most 32 KiB at a time.
const RECEIVE_BYTES: usize = 64 << 10;
const HEADER_BYTES: usize = 16;
const DUMP_ATTEMPTS: usize = 5;

pub(crate) const ACK: u16 = 0x4;
pub(crate) const REPLACE: u16 = 0x100;
pub(crate) const EXCLUSIVE: u16 = 0x200;
pub(crate) const CREATE: u16 = 0x400;
pub(crate) const DUMP: u16 = 0x300;

/// A request: what to do (for messages), the type, flags, and everything after the header.
pub(crate) struct Request<'a> {
    pub(crate) what: &'a str,
    pub(crate) kind: u16,
    pub(crate) flags: u16,
    pub(crate) payload: &'a [u8],
}

/// Sends one request and returns the payloads of its replies. A dump that changed while it was
/// made is made again.
///
/// # Errors
/// [`Error::Permission`] where `CAP_NET_ADMIN` over the namespace is missing; [`Error::Os`] with
/// the kernel's explanation otherwise.
pub(crate) fn exchange(request: &Request<'_>) -> Result<Vec<Vec<u8>>> {
    for _ in 0..DUMP_ATTEMPTS {
        let socket = open(request.what)?;
        send(&socket, request)?;
        let reply = receive(&socket, request)?;
        if !reply.interrupted {
            return Ok(reply.payloads);
        }
    }
    Err(Error::Peer(format!(
        "{}: the kernel's table changes all the time; try again",
        request.what
    )))
}

/// Appends an attribute with padding.
pub(crate) fn push_attribute(payload: &mut Vec<u8>, kind: u16, data: &[u8]) {
    let length = u16::try_from(data.len()).expect("an attribute of ours is below 64 KiB");
    push_header(payload, kind, length);
    payload.extend_from_slice(data);
    align(payload);
}

/// The attributes in `payload` after a fixed part of `skip` bytes.
pub(crate) fn attributes(payload: &[u8], skip: usize) -> impl Iterator<Item = (u16, &[u8])> {
    let rest = payload.get(skip..).unwrap_or_default();
    IterableChunks::new(rest).map(|(header, data)| (header.r#type, data))
}

/// A number in the attribute `kind`.
pub(crate) fn attribute_u32(payload: &[u8], skip: usize, kind: u16) -> Option<u32> {
    attributes(payload, skip)
        .find(|(found, _)| *found == kind)
        .and_then(|(_, data)| u32_at(data, 0))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..at + 4)?;
    Some(u32::from_ne_bytes(word.try_into().ok()?))
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let word = bytes.get(at..at + 2)?;
    Some(u16::from_ne_bytes(word.try_into().ok()?))
}

fn open(what: &str) -> Result<OwnedFd> {
    let socket = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        None,
    )
    .map_err(Error::errno(format!("{what}: open a netlink socket")))?;
    // Errors then carry the kernel's explanation; old kernels do without.
    for option in [libc::NETLINK_EXT_ACK, libc::NETLINK_CAP_ACK] {
        let on: libc::c_int = 1;
        // SAFETY: the kernel reads `size_of::<c_int>()` bytes from a live `c_int`.
        unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_NETLINK,
                option,
                (&raw const on).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            );
        }
    }
    Ok(socket)
}

fn send(socket: &OwnedFd, request: &Request<'_>) -> Result<()> {
    const REQUEST: u16 = 0x1;
    let length = HEADER_BYTES + request.payload.len();
    let mut message = Vec::with_capacity(length);
    let words = u32::try_from(length).expect("a request of ours is small");
    message.extend_from_slice(&words.to_ne_bytes());
    message.extend_from_slice(&request.kind.to_ne_bytes());
    message.extend_from_slice(&(request.flags | REQUEST | ACK).to_ne_bytes());
    message.extend_from_slice(&[0; 8]);
    message.extend_from_slice(request.payload);
    rustix::io::retry_on_intr(|| rustix::net::send(socket, &message, SendFlags::empty()))
        .map_err(Error::errno(request.what))?;
    Ok(())
}

struct Reply {
    payloads: Vec<Vec<u8>>,
    interrupted: bool,
}

fn receive(socket: &OwnedFd, request: &Request<'_>) -> Result<Reply> {
    const DUMP_INTERRUPTED: u16 = 0x10;
    let mut buffer = vec![0; RECEIVE_BYTES];
    let mut reply = Reply {
        payloads: Vec::new(),
        interrupted: false,
    };
    loop {
        let (length, whole) = rustix::io::retry_on_intr(|| {
            rustix::net::recv(socket, &mut buffer[..], RecvFlags::TRUNC)
        })
        .map_err(Error::errno(request.what))?;
        if whole > length {
            return Err(Error::Peer(format!(
                "{}: the kernel's answer is too long",
                request.what
            )));
        }
        let mut rest = &buffer[..length];
        while let Some(message) = next_message(&mut rest) {
            let kind = u16_at(message, 4).unwrap_or_default();
            let flags = u16_at(message, 6).unwrap_or_default();
            reply.interrupted |= flags & DUMP_INTERRUPTED != 0;
            match i32::from(kind) {
                libc::NLMSG_ERROR | libc::NLMSG_DONE => {
                    return finish(message, request).map(|()| reply);
                }
                libc::NLMSG_NOOP => {}
                _ => reply.payloads.push(message[HEADER_BYTES..].to_vec()),
            }
        }
    }
}

fn next_message<'b>(rest: &mut &'b [u8]) -> Option<&'b [u8]> {
    let length = u32_at(rest, 0)? as usize;
    let message = rest.get(..length).filter(|_| length >= HEADER_BYTES)?;
    *rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some(message)
}

/// The error code of the last message of an answer: 0, or a negative number and an explanation.
fn finish(message: &[u8], request: &Request<'_>) -> Result<()> {
    let code = u32_at(message, HEADER_BYTES).unwrap_or_default();
    if code == 0 {
        return Ok(());
    }
    let source = io::Error::from_raw_os_error(code.cast_signed().wrapping_neg());
    if source.raw_os_error() == Some(libc::EPERM) {
        return Err(Error::Permission {
            what: request.what.into(),
            needs: "CAP_NET_ADMIN over the network namespace",
            hint: "run as root".into(),
        });
    }
    let op = match explanation(message) {
        Some(text) => format!("{} ({text})", request.what),
        None => request.what.into(),
    };
    Err(Error::Os { op, source })
}

/// `NLMSGERR_ATTR_MSG` of an error. With `NETLINK_CAP_ACK` only the header of the request comes
/// back before the attributes.
fn explanation(message: &[u8]) -> Option<String> {
    const ATTRIBUTE_MESSAGE: u16 = 1;
    attributes(message, HEADER_BYTES + 4 + HEADER_BYTES)
        .find(|(kind, _)| *kind == ATTRIBUTE_MESSAGE)
        .map(|(_, text)| {
            let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
            String::from_utf8_lossy(text).into_owned()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_carries_the_errno_and_the_kernels_words() {
        const RTM_GETLINK: u16 = 18;
        let mut payload = vec![0; 16];
        push_attribute(&mut payload, 3, b"no-such-link\0");
        let error = exchange(&Request {
            what: "look for a link",
            kind: RTM_GETLINK,
            flags: 0,
            payload: &payload,
        })
        .expect_err("there is none");
        let Error::Os { op, source } = error else {
            panic!("{error}");
        };
        assert_eq!(source.raw_os_error(), Some(libc::ENODEV));
        assert!(op.starts_with("look for a link"), "{op}");
    }

    #[test]
    fn a_dump_lists_the_loopback_interface() {
        const RTM_GETLINK: u16 = 18;
        let links = exchange(&Request {
            what: "list links",
            kind: RTM_GETLINK,
            flags: DUMP,
            payload: &[0; 16],
        })
        .expect("everybody may list links");
        let named =
            |link: &Vec<u8>| attributes(link, 16).any(|(kind, name)| (kind, name) == (3, b"lo\0"));
        assert!(links.iter().any(named));
    }
}
