//! TUN devices that carry GSO packets: each packet is preceded by a virtio-net header, so that
//! segmentation and checksums are left to the receiver.

mod buffers;
mod port;

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

pub use port::{PortCounters, Received, Sent, TunPort};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

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

/// Whether an interface may have this name.
///
/// # Errors
/// What is wrong with it.
pub fn check_name(name: &str) -> Result<(), &'static str> {
    // Linux 6.18 `dev_valid_name`; what has a `%` in it is a pattern (`dev_alloc_name`).
    let is_odd = |c: char| !c.is_ascii_graphic() || matches!(c, '/' | ':' | '%');
    if name.is_empty() || name.len() >= libc::IFNAMSIZ {
        Err("names of interfaces have 1 to 15 characters")
    } else if name == "." || name == ".." || name.contains(is_odd) {
        Err("names of interfaces have letters, digits, `-`, `_` and `.`")
    } else {
        Ok(())
    }
}

/// Work left to the device, and by it to the host behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offloads {
    /// Each packet has a virtio-net header. Without it nothing else here is possible: every packet
    /// is a whole IP packet no longer than the MTU, with its checksums.
    pub vnet_header: bool,
    /// Flags of `TUNSETOFFLOAD` (`TUN_F_*`): what the host may leave undone in what it sends us.
    /// What we send may be GSO packets with open checksums whenever there is a header.
    flags: u32,
}

const CHECKSUM: u32 = libc::TUN_F_CSUM;
const TSO: u32 = libc::TUN_F_TSO4 | libc::TUN_F_TSO6;
const TSO_ECN: u32 = libc::TUN_F_TSO_ECN;
/// Linux 6.2. A host without UDP throws a GSO packet away with one read instead of dozens.
const USO: u32 = libc::TUN_F_USO4 | libc::TUN_F_USO6;

impl Offloads {
    /// Everything that this kernel offers.
    pub const ALL: Self = Self {
        vnet_header: true,
        flags: CHECKSUM | TSO | TSO_ECN | USO,
    };

    /// GSO packets of TCP alone, for who counts every packet of the wire.
    pub const TCP: Self = Self {
        vnet_header: true,
        flags: CHECKSUM | TSO | TSO_ECN,
    };

    /// Open checksums, but no GSO packets from the host.
    pub const CHECKSUMS: Self = Self {
        vnet_header: true,
        flags: CHECKSUM,
    };

    /// Nothing: plain IP packets.
    pub const NONE: Self = Self {
        vnet_header: false,
        flags: 0,
    };

    /// Whether the host sends TCP GSO packets of both IP versions.
    #[must_use]
    pub const fn has_tso(self) -> bool {
        self.flags & TSO == TSO
    }

    /// The same with less: what to ask a kernel for that refuses it.
    const fn lesser(self) -> Option<Self> {
        let flags = if self.flags & USO != 0 {
            self.flags & !USO
        } else if self.flags & TSO_ECN != 0 {
            self.flags & !TSO_ECN
        } else if self.flags & TSO != 0 {
            self.flags & !TSO
        } else if self.flags != 0 {
            0
        } else {
            return None;
        };
        Some(Self { flags, ..self })
    }
}

/// An open TUN device. It vanishes when this is dropped.
#[derive(Debug)]
pub struct Tun {
    file: File,
    /// Any socket of its namespace, which interfaces are asked through.
    inquiry: OwnedFd,
    name: String,
    offloads: Offloads,
}

impl Tun {
    /// Makes the device `name` in the namespace of the calling thread, with all offloads that the
    /// kernel has. Reads and writes do not block.
    ///
    /// # Errors
    /// [`Error::Permission`] where the node may not be opened or `CAP_NET_ADMIN` is missing,
    /// [`Error::NoDevice`] where there is none, [`Error::Unsupported`] where the kernel has no TUN
    /// driver.
    pub fn create(name: &str) -> Result<Self> {
        Self::create_with(name, Offloads::ALL)
    }

    /// As [`Tun::create`], with `wanted` offloads at most; [`Tun::offloads`] tells which it has.
    ///
    /// # Errors
    /// Those of [`Tun::create`].
    pub fn create_with(name: &str, wanted: Offloads) -> Result<Self> {
        let file = open_node()?;
        let offloads = configure(&file, name, wanted)?;
        let kind = (AddressFamily::UNIX, SocketType::DGRAM);
        let inquiry = socket_with(kind.0, kind.1, SocketFlags::CLOEXEC, None)
            .map_err(Error::errno("make a socket"))?;
        Ok(Self {
            file,
            inquiry,
            name: name.to_owned(),
            offloads,
        })
    }

    /// Name of the interface.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Work that it leaves to its reader and writer.
    #[must_use]
    pub const fn offloads(&self) -> Offloads {
        self.offloads
    }

    /// The MTU that the interface has now, which others may change at any time, as they may its
    /// name.
    ///
    /// # Errors
    /// Where the device was deleted.
    pub fn mtu(&self) -> io::Result<u16> {
        // SAFETY: all-zero bytes are a valid `ifreq`.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        // SAFETY: `request` is a valid `ifreq` that outlives the call.
        let named =
            unsafe { libc::ioctl(self.file.as_raw_fd(), libc::TUNGETIFF, &raw mut request) };
        if named < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: as above; the kernel reads the name and writes the MTU.
        let told = unsafe {
            libc::ioctl(
                self.inquiry.as_raw_fd(),
                libc::SIOCGIFMTU as _,
                &raw mut request,
            )
        };
        if told < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a successful `SIOCGIFMTU` has filled this field of the union.
        let mtu = unsafe { request.ifr_ifru.ifru_mtu };
        Ok(u16::try_from(mtu).unwrap_or(u16::MAX))
    }

    /// Reads one packet with its header into `buffer`, which should have [`READ_BYTES`], and
    /// returns its length; `None` where no packet waits, as when the device is switched off.
    ///
    /// # Errors
    /// Where the device is gone.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        waiting(rustix::io::read(&self.file, buffer))
    }

    /// As [`Tun::read`], into memory that need not be initialised: the first bytes, as many as are
    /// returned, are afterwards.
    ///
    /// # Errors
    /// Those of [`Tun::read`].
    pub fn read_uninit(&self, buffer: &mut [MaybeUninit<u8>]) -> io::Result<Option<usize>> {
        waiting(rustix::io::read(&self.file, buffer).map(|(packet, _)| packet.len()))
    }

    /// Hands one packet with its header to the host behind the device.
    ///
    /// # Errors
    /// Where the host refuses it: malformed, the device switched off, or out of memory.
    pub fn write(&self, packet: &[u8]) -> io::Result<()> {
        rustix::io::write(&self.file, packet)?;
        Ok(())
    }

    /// As [`Tun::write`], of a packet in pieces (at most 1024, `IOV_MAX`), which are not copied
    /// together before.
    ///
    /// # Errors
    /// Those of [`Tun::write`].
    pub fn write_vectored(&self, pieces: &[IoSlice<'_>]) -> io::Result<()> {
        rustix::io::writev(&self.file, pieces)?;
        Ok(())
    }
}

fn waiting(outcome: rustix::io::Result<usize>) -> io::Result<Option<usize>> {
    match outcome {
        Ok(length) => Ok(Some(length)),
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// How to enable TUN devices.
pub(crate) const NODE_HINT: &str = "load the driver with `modprobe tun`; into a container pass the \
                                    device node with `--device /dev/net/tun`";

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
                    hint: format!("run as root, or give all users access: `chmod 0666 {shown}`"),
                },
                (io::ErrorKind::NotFound, _) => Error::NoDevice {
                    hint: NODE_HINT.into(),
                    path: path.clone(),
                },
                (_, Some(libc::ENXIO | libc::ENODEV)) => Error::Unsupported {
                    what: format!("a TUN device ({shown})"),
                    hint: NODE_HINT.into(),
                },
                _ => Error::Os {
                    op: format!("open {shown}"),
                    source,
                },
            }
        })
}

/// Linux 6.18 drivers/net/tun.c: names the device, then header length, then what the host may
/// leave undone.
fn configure(file: &File, name: &str, wanted: Offloads) -> Result<Offloads> {
    let with_header = wanted.vnet_header && has_vnet_header(file)?;
    create_interface(file, name, with_header)?;
    if !with_header {
        return Ok(Offloads::NONE);
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
    if sized < 0 {
        return Err(Error::Os {
            op: format!("set the header length of TUN device {name}"),
            source: io::Error::last_os_error(),
        });
    }
    let mut offloads = wanted;
    while !set_offloads(file, offloads.flags) {
        // A device that refuses to have none has none.
        let Some(lesser) = offloads.lesser() else {
            break;
        };
        offloads = lesser;
    }
    Ok(offloads)
}

/// Kernels before 2.6.27 have no header, nor have some emulations of the driver.
fn has_vnet_header(file: &File) -> Result<bool> {
    let mut features: libc::c_uint = 0;
    // SAFETY: the argument points to an `unsigned int` that outlives the call.
    let told = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNGETFEATURES, &raw mut features) };
    if told < 0 {
        return Err(Error::Os {
            op: "ask the TUN driver for its features".into(),
            source: io::Error::last_os_error(),
        });
    }
    Ok(features & libc::IFF_VNET_HDR.cast_unsigned() != 0)
}

fn set_offloads(file: &File, flags: u32) -> bool {
    // SAFETY: this request takes its argument by value.
    unsafe {
        libc::ioctl(
            file.as_raw_fd(),
            libc::TUNSETOFFLOAD,
            libc::c_ulong::from(flags),
        ) >= 0
    }
}

fn create_interface(file: &File, name: &str, with_header: bool) -> Result<()> {
    check_name(name).map_err(|reason| Error::Refused {
        what: format!("making a TUN device named `{name}`"),
        reason: reason.into(),
    })?;
    // SAFETY: all-zero bytes are a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (slot, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *slot = libc::c_char::from_ne_bytes([byte]);
    }
    let header = if with_header { libc::IFF_VNET_HDR } else { 0 };
    let flags = libc::IFF_TUN | libc::IFF_NO_PI | header | libc::IFF_TUN_EXCL;
    // IFF_TUN_EXCL is the sign bit of the 16-bit field.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the flags are 16 bits wide"
    )]
    let flags = flags as libc::c_short;
    request.ifr_ifru.ifru_flags = flags;
    // SAFETY: `request` is a valid `ifreq` that outlives the call.
    let named = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
    if named >= 0 {
        return Ok(());
    }
    let source = io::Error::last_os_error();
    Err(match source.raw_os_error() {
        Some(libc::EPERM) => Error::Permission {
            what: format!("making the TUN device {name}"),
            needs: "CAP_NET_ADMIN in its network namespace",
            hint: "run as root".into(),
        },
        Some(libc::EBUSY | libc::EEXIST) => Error::Refused {
            what: format!("making the TUN device {name}"),
            reason: "an interface of that name is there already; take another name, or remove it \
                     with `ip link del`"
                .into(),
        },
        _ => Error::Os {
            op: format!("make TUN device {name}"),
            source,
        },
    })
}
