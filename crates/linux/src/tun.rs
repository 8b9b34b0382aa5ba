//! TUN devices that carry superpackets: each packet is preceded by a virtio-net header, so that
//! segmentation and checksums are left to whoever needs them.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use crate::error::{Error, Result};

/// Names another device node than `/dev/net/tun`, for machines on which only that one may be
/// opened.
pub const DEVICE_VARIABLE: &str = "TCPTAILOR_TUN";

/// Length of the virtio-net header in front of each packet.
pub const VNET_HEADER_BYTES: usize = base::VirtioHeader::BYTES;

/// Most bytes that one read returns: the header and the largest IP packet.
pub const READ_BYTES: usize = VNET_HEADER_BYTES + 65_536;

/// Packets that the device holds for its reader. The device drops what finds its ring full, so it
/// must outlast the longest time that the reader may be away: 4 ms of a 10 Gbit/s flow of 1500-byte
/// packets are 3400.
pub const RING_PACKETS: u32 = 10_000;

/// The node that is opened: `/dev/net/tun`, or what [`DEVICE_VARIABLE`] names.
#[must_use]
pub fn device_path() -> PathBuf {
    std::env::var_os(DEVICE_VARIABLE).map_or_else(|| PathBuf::from("/dev/net/tun"), PathBuf::from)
}

/// An open TUN device. It vanishes when this is dropped.
#[derive(Debug)]
pub struct Tun {
    file: File,
    name: String,
}

impl Tun {
    /// Makes the device `name` in the namespace of the calling thread. Reads and writes do not
    /// block.
    ///
    /// # Errors
    /// [`Error::Permission`] where the node may not be opened or `CAP_NET_ADMIN` is missing,
    /// [`Error::Unsupported`] where the kernel has no TUN driver.
    pub fn create(name: &str) -> Result<Self> {
        let file = open_node()?;
        configure(&file, name)?;
        Ok(Self {
            file,
            name: name.to_owned(),
        })
    }

    /// Name of the interface.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads one packet with its header into `buffer`, which should have [`READ_BYTES`], and
    /// returns its length; `None` where no packet waits.
    ///
    /// # Errors
    /// Where the device is gone or switched off.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match rustix::io::read(&self.file, buffer) {
            Ok(length) => Ok(Some(length)),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Hands one packet with its header to the host behind the device.
    ///
    /// # Errors
    /// Where the host refuses it: malformed, the device switched off, or out of memory.
    pub fn write(&self, packet: &[u8]) -> io::Result<()> {
        rustix::io::write(&self.file, packet)?;
        Ok(())
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn open_node() -> Result<File> {
    let path = device_path();
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open(&path)
        .map_err(|source| {
            let shown = path.display();
            match (source.kind(), source.raw_os_error()) {
                (io::ErrorKind::PermissionDenied, _) => Error::Permission {
                    what: format!("opening {shown}"),
                    needs: "read and write permission on the device node",
                    hint: format!("run as root, or let everybody use it: `chmod 0666 {shown}`"),
                },
                (io::ErrorKind::NotFound, _) | (_, Some(libc::ENXIO | libc::ENODEV)) => {
                    Error::Unsupported {
                        what: format!("a TUN device ({shown})"),
                        hint: "load the driver with `modprobe tun`; in a container pass the \
                               device node in"
                            .into(),
                    }
                }
                _ => Error::Os {
                    op: format!("open {shown}"),
                    source,
                },
            }
        })
}

/// Linux 6.18 drivers/net/tun.c: names the device, then header length, then what the host may
/// leave undone.
fn configure(file: &File, name: &str) -> Result<()> {
    // SAFETY: all-zero bytes are a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.is_empty() || name.len() >= request.ifr_name.len() {
        return Err(Error::NotFound {
            what: "network interface",
            name: name.to_owned(),
            hint: "; names have 1 to 15 bytes".into(),
        });
    }
    for (slot, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *slot = byte.cast_signed();
    }
    let flags = libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR | libc::IFF_TUN_EXCL;
    // IFF_TUN_EXCL is the sign bit of the 16-bit field.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the flags are 16 bits wide"
    )]
    let flags = flags as libc::c_short;
    request.ifr_ifru.ifru_flags = flags;
    // SAFETY: `request` is a valid `ifreq` that outlives the call.
    let named = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
    if named < 0 {
        let source = io::Error::last_os_error();
        return Err(match source.raw_os_error() {
            Some(libc::EPERM) => Error::Permission {
                what: format!("making the TUN device {name}"),
                needs: "CAP_NET_ADMIN in its network namespace",
                hint: "run as root".into(),
            },
            _ => Error::Os {
                op: format!("make TUN device {name}"),
                source,
            },
        });
    }
    let header_bytes = libc::c_int::try_from(VNET_HEADER_BYTES).expect("10 fits");
    // SAFETY: the argument points to a `c_int` that outlives the call.
    let sized = unsafe {
        libc::ioctl(
            file.as_raw_fd(),
            libc::TUNSETVNETHDRSZ,
            &raw const header_bytes,
        )
    };
    checked(sized, name, "set the header length")?;
    let offloads = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
    // SAFETY: this request takes its argument by value.
    let offloaded = unsafe {
        libc::ioctl(
            file.as_raw_fd(),
            libc::TUNSETOFFLOAD,
            libc::c_ulong::from(offloads),
        )
    };
    checked(offloaded, name, "set the offloads")
}

fn checked(outcome: libc::c_int, name: &str, what: &str) -> Result<()> {
    if outcome < 0 {
        return Err(Error::Os {
            op: format!("{what} of TUN device {name}"),
            source: io::Error::last_os_error(),
        });
    }
    Ok(())
}
