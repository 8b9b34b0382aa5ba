//! Whether a network card cuts large packets into segments.

use std::os::fd::AsRawFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::error::{Error, Result};

/// `ETHTOOL_GTSO` of `include/uapi/linux/ethtool.h`: TCP segmentation offload.
const GET_TSO: u32 = 0x1e;

/// `struct ethtool_value`.
#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

/// Asks the interfaces of the calling thread's namespace.
pub(crate) struct OffloadReader {
    inquiry: rustix::fd::OwnedFd,
}

impl OffloadReader {
    /// # Errors
    /// Where no descriptor is left.
    pub(crate) fn new() -> Result<Self> {
        let inquiry = socket_with(
            AddressFamily::INET,
            SocketType::DGRAM,
            SocketFlags::CLOEXEC,
            None,
        )
        .map_err(Error::errno("make a socket"))?;
        Ok(Self { inquiry })
    }

    /// Whether TCP segmentation offload is on; `None` where there is no such interface, or it has
    /// no such setting. Needs no privilege.
    pub(crate) fn tso(&self, interface: &str) -> Option<bool> {
        let mut value = EthtoolValue {
            command: GET_TSO,
            data: 0,
        };
        // SAFETY: all-zero bytes are a valid `ifreq`.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        // The last byte stays zero.
        let places = request.ifr_name.len() - 1;
        if interface.len() > places {
            return None;
        }
        for (place, byte) in request.ifr_name.iter_mut().zip(interface.bytes()) {
            *place = libc::c_char::from_ne_bytes([byte]);
        }
        request.ifr_ifru.ifru_data = (&raw mut value).cast();
        // SAFETY: `request` and the `value` that it points to are valid and outlive the call, which
        // writes no more than `data`.
        let told = unsafe {
            libc::ioctl(
                self.inquiry.as_raw_fd(),
                libc::SIOCETHTOOL as _,
                &raw mut request,
            )
        };
        (told >= 0).then_some(value.data != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_segments_late() {
        let reader = OffloadReader::new().expect("a socket");
        assert_eq!(reader.tso("lo"), Some(true));
        assert_eq!(reader.tso("tcptailor-none"), None);
        assert_eq!(reader.tso("a name that is too long"), None);
        assert_eq!(reader.tso(""), None);
    }
}
