//! Interfaces: making, removing and reading them, and their few settings.

use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use netlink_bindings::rt_link::{self, Ifinfomsg, LinkAttrs};
use netlink_bindings::traits::Pusher;
use netlink_bindings::utils;
use netlink_socket2::NetlinkSocket;

use super::{acknowledged, describe};
use crate::error::{Error, Result};

/// Attribute numbers of Linux 6.18 include/uapi/linux/if_link.h and veth.h that the generated
/// bindings lack: the specification has no sub-message for veth.
const IFLA_INFO_DATA: u16 = 2;
const VETH_INFO_PEER: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_NET_NS_FD: u16 = 28;
/// `IFF_UP`.
const FLAG_UP: u32 = 1;

/// An interface as the kernel reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkState {
    /// Number by which the kernel calls it.
    pub index: u32,
    /// Name.
    pub name: String,
    /// Whether it is switched on.
    pub up: bool,
    /// Largest packet in bytes, without the link-layer header.
    pub mtu: u32,
    /// Length of the transmit queue in packets; on a TUN device the length of its ring.
    pub txqueuelen: u32,
    /// Packets that the host sent.
    pub sent_packets: u64,
    /// Packets that the host could not send: the queue or ring was full.
    pub send_dropped: u64,
    /// Packets that the host received.
    pub received_packets: u64,
    /// Packets that the host received and threw away.
    pub receive_dropped: u64,
}

/// Reads one interface.
///
/// # Errors
/// [`Error::NotFound`] where there is none of this name.
pub fn read(name: &str) -> Result<LinkState> {
    let mut request = rt_link::Request::new().op_getlink_do(&Ifinfomsg::new());
    request.encode().push_ifname(&c_name(name)?);
    let op = format!("reading interface {name}");
    let mut socket = NetlinkSocket::new();
    let mut reply = socket
        .request(&request)
        .map_err(|error| describe(&op, error.into()))?;
    let (header, attributes) = match reply.recv_one() {
        Ok(found) => found,
        Err(error) if error.as_io_error().raw_os_error() == Some(libc::ENODEV) => {
            return Err(not_found(name));
        }
        Err(error) => return Err(describe(&op, error)),
    };
    let mut state = LinkState {
        index: header.ifi_index.unsigned_abs(),
        name: name.to_owned(),
        up: header.ifi_flags & FLAG_UP != 0,
        ..LinkState::default()
    };
    for attribute in attributes.flatten() {
        match attribute {
            LinkAttrs::Mtu(mtu) => state.mtu = mtu,
            LinkAttrs::Txqlen(length) => state.txqueuelen = length,
            LinkAttrs::Stats64(stats) => {
                state.sent_packets = stats.tx_packets;
                state.send_dropped = stats.tx_dropped;
                state.received_packets = stats.rx_packets;
                state.receive_dropped = stats.rx_dropped;
            }
            _ => {}
        }
    }
    Ok(state)
}

/// Makes a veth pair: `name` here, `peer_name` in the namespace `peer_netns`.
///
/// # Errors
/// Where the kernel refuses, as where the name is taken.
pub fn create_veth(name: &str, peer_name: &str, peer_netns: BorrowedFd<'_>) -> Result<()> {
    let peer = c_name(peer_name)?;
    let mut request = rt_link::Request::new()
        .set_create()
        .set_excl()
        .op_newlink_do(&Ifinfomsg::new());
    let mut info = request
        .encode()
        .push_ifname(&c_name(name)?)
        .nested_linkinfo()
        .push_kind(c"veth");
    let buffer = info.as_vec_mut();
    let data = utils::push_nested_header(buffer, IFLA_INFO_DATA);
    let peer_info = utils::push_nested_header(buffer, VETH_INFO_PEER);
    buffer.extend(Ifinfomsg::new().as_slice());
    push_attribute(buffer, IFLA_IFNAME, peer.as_bytes_with_nul());
    let fd = peer_netns.as_fd().as_raw_fd();
    push_attribute(buffer, IFLA_NET_NS_FD, &fd.to_ne_bytes());
    utils::finalize_nested_header(buffer, peer_info);
    utils::finalize_nested_header(buffer, data);
    info.end_nested();
    acknowledged(
        &format!("making the veth pair {name}/{peer_name}"),
        &request,
    )
}

/// Removes an interface.
///
/// # Errors
/// [`Error::NotFound`] where there is none of this name.
pub fn delete(name: &str) -> Result<()> {
    let index = read(name)?.index;
    let request = rt_link::Request::new().op_dellink_do(&header(index));
    acknowledged(&format!("removing interface {name}"), &request)
}

/// Switches an interface on.
///
/// # Errors
/// [`Error::NotFound`] where there is none of this name.
pub fn set_up(name: &str) -> Result<()> {
    switch(name, FLAG_UP, "on")
}

/// Switches an interface off.
///
/// # Errors
/// [`Error::NotFound`] where there is none of this name.
pub fn set_down(name: &str) -> Result<()> {
    switch(name, 0, "off")
}

fn switch(name: &str, flags: u32, to: &str) -> Result<()> {
    let header = Ifinfomsg {
        ifi_flags: flags,
        ifi_change: FLAG_UP,
        ..header(read(name)?.index)
    };
    let request = rt_link::Request::new().op_setlink_do(&header);
    acknowledged(&format!("switching interface {name} {to}"), &request)
}

/// Sets the largest packet in bytes.
///
/// # Errors
/// Where the device does not support this size.
pub fn set_mtu(name: &str, mtu: u32) -> Result<()> {
    let mut request = rt_link::Request::new().op_setlink_do(&header(read(name)?.index));
    request.encode().push_mtu(mtu);
    acknowledged(&format!("setting the MTU of {name} to {mtu}"), &request)
}

/// Sets the length of the transmit queue in packets.
///
/// # Errors
/// Where the kernel refuses it.
pub fn set_txqueuelen(name: &str, packets: u32) -> Result<()> {
    let mut request = rt_link::Request::new().op_setlink_do(&header(read(name)?.index));
    request.encode().push_txqlen(packets);
    acknowledged(
        &format!("setting the queue length of {name} to {packets}"),
        &request,
    )
}

fn header(index: u32) -> Ifinfomsg {
    Ifinfomsg {
        ifi_index: index.cast_signed(),
        ..Ifinfomsg::new()
    }
}

fn push_attribute(buffer: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let length = u16::try_from(value.len()).expect("names and numbers are short");
    utils::push_header(buffer, kind, length);
    buffer.extend(value);
}

/// Interface names have at most 15 bytes; the kernel's own error for longer ones is unclear.
fn c_name(name: &str) -> Result<CString> {
    if name.is_empty() || name.len() >= libc::IFNAMSIZ {
        return Err(not_found(name));
    }
    CString::new(name).map_err(|_| not_found(name))
}

fn not_found(name: &str) -> Error {
    Error::NotFound {
        what: "network interface",
        name: name.to_owned(),
        hint: "; `ip link` lists them".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_there_and_impossible_names_are_not_found() {
        let state = read("lo").expect("every namespace has a loopback interface");
        assert_eq!((state.index, state.mtu), (1, 65536));
        for name in ["", "nosuchinterface0", "tcptailor-none"] {
            let error = read(name).expect_err("no such interface");
            assert!(matches!(error, Error::NotFound { .. }), "{name}: {error}");
        }
    }
}
