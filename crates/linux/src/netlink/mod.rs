//! Links, addresses, routes and queues over rtnetlink. Every call acts in the network namespace of
//! the calling thread; `NetnsHandle::run` chooses another one.

pub mod addr;
pub mod link;
pub mod qdisc;
pub(crate) mod raw;
pub mod route;

use std::io;

use netlink_bindings::traits::NetlinkRequest;
use netlink_socket2::{NetlinkSocket, ReplyError};

use crate::error::{Error, Result};
use crate::netlink_dump::NetlinkSocket as NetlinkDump;

/// Sends a request that is answered by an acknowledgement only. `op` names it in the error.
pub(crate) fn acknowledged<R: NetlinkRequest>(op: &str, request: &R) -> Result<()> {
    let mut socket = NetlinkSocket::new();
    let outcome = match socket.request(request) {
        Ok(mut reply) => reply.recv_ack(),
        Err(error) => Err(error.into()),
    };
    outcome.map_err(|error| describe(op, error))
}

/// Names the operation, and the missing capability where that is the cause.
pub(crate) fn describe(op: &str, error: ReplyError) -> Error {
    let detail = error.to_string();
    let source = io::Error::from(error);
    match source.raw_os_error() {
        // netlink-socket2 says EPERM whatever kept it from opening its socket, such as the limit of
        // descriptors; opening another one tells.
        Some(libc::EPERM | libc::EACCES) => match NetlinkDump::open(None, "rtnetlink") {
            Err(cause) => cause,
            Ok(_) => Error::Permission {
                what: op.to_owned(),
                needs: "CAP_NET_ADMIN in this network namespace",
                hint: "run as root".into(),
            },
        },
        // The kernel's own words (extended acknowledgement) are in `detail`.
        Some(code) => Error::Os {
            op: format!("{op} ({detail})"),
            source: io::Error::from_raw_os_error(code),
        },
        None => Error::Os {
            op: op.to_owned(),
            source,
        },
    }
}
