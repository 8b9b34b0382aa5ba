//! Netlink messages as bytes, for callers that later send back what the kernel sent: saved state
//! must be complete, including attributes that no binding knows.

use netlink_bindings::traits::{NetlinkRequest, Protocol};
use netlink_bindings::utils::{align, push_header};

use super::acknowledged;
use crate::error::{Error, Result};
use crate::netlink_dump::{Answer, Ask, Attributes, DUMP_ATTEMPTS, NetlinkSocket};

pub(crate) const REPLACE: u16 = 0x100;
pub(crate) const EXCLUSIVE: u16 = 0x200;
pub(crate) const CREATE: u16 = 0x400;

/// Asks for one object or for all, and returns the answers without their headers. `op` names it in
/// the error, whose number is the kernel's.
pub(crate) fn ask(op: &str, kind: u16, ask: Ask, body: &[u8]) -> Result<Vec<Vec<u8>>> {
    let mut socket = NetlinkSocket::open(None, "rtnetlink")?;
    for _ in 0..DUMP_ATTEMPTS {
        let mut answers = Vec::new();
        let answer = socket
            .exchange((kind, ask), body, |_, message| {
                answers.push(message.to_vec());
            })
            .map_err(Error::errno(op))?;
        if answer == Answer::Whole {
            return Ok(answers);
        }
    }
    Err(Error::Peer(format!(
        "{op}: the kernel's table changes all the time; try again"
    )))
}

/// Has the kernel change something.
pub(crate) fn change(op: &str, (kind, flags): (u16, u16), payload: Vec<u8>) -> Result<()> {
    let request = Message {
        kind,
        flags,
        payload,
    };
    acknowledged(op, &request)
}

/// Appends an attribute with padding.
pub(crate) fn push_attribute(payload: &mut Vec<u8>, kind: u16, data: &[u8]) {
    let length = u16::try_from(data.len()).expect("an attribute of ours is below 64 KiB");
    push_header(payload, kind, length);
    payload.extend_from_slice(data);
    align(payload);
}

/// The attributes in `payload` after a fixed part of `skip` bytes.
pub(crate) fn attributes(payload: &[u8], skip: usize) -> Attributes<'_> {
    Attributes(payload.get(skip..).unwrap_or_default())
}

struct Message {
    kind: u16,
    flags: u16,
    payload: Vec<u8>,
}

impl NetlinkRequest for Message {
    fn protocol(&self) -> Protocol {
        Protocol::Raw {
            protonum: libc::NETLINK_ROUTE as u16,
            request_type: self.kind,
        }
    }

    fn flags(&self) -> u16 {
        self.flags
    }

    fn payload(&self) -> &[u8] {
        &self.payload
    }

    type ReplyType<'buf> = ();

    fn decode_reply(_: &[u8]) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink_dump::u32_at;

    const RTM_GETLINK: u16 = 18;

    #[test]
    fn an_error_carries_its_number_and_its_operation() {
        let mut body = vec![0; 16];
        push_attribute(&mut body, 3, b"no-such-link\0");
        let error = ask("look for a link", RTM_GETLINK, Ask::One, &body).expect_err("none");
        let Error::Os { op, source } = error else {
            panic!("{error}");
        };
        assert_eq!(source.raw_os_error(), Some(libc::ENODEV));
        assert_eq!(op, "look for a link");
    }

    #[test]
    fn a_dump_lists_the_loopback_interface() {
        let links = ask("list links", RTM_GETLINK, Ask::All, &[0; 16]).expect("no privilege");
        let is_loopback =
            |link: &Vec<u8>| attributes(link, 16).any(|attribute| attribute == (3, b"lo\0"));
        assert!(links.iter().any(is_loopback));
        assert_eq!(u32_at(&links[0], 4), Some(1));
    }
}
