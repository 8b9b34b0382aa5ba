//! A TUN device without offloads: what it carries are packets as on a wire.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

/// One device, in the namespace of the thread that made it.
pub(crate) struct PlainTun {
    file: File,
}

impl PlainTun {
    pub(crate) fn create(name: &str) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open(linux::tun::device_path())?;
        // SAFETY: all-zero bytes are a valid `ifreq`.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (slot, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *slot = byte.cast_signed();
        }
        let flags = libc::IFF_TUN | libc::IFF_NO_PI;
        request.ifr_ifru.ifru_flags = i16::try_from(flags).expect("small flags");
        // SAFETY: `request` is a valid `ifreq` that outlives the call.
        let made = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
        if made < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { file })
    }

    /// The next packet, if one waits.
    pub(crate) fn read(&self, buffer: &mut [u8]) -> Option<usize> {
        (&self.file).read(buffer).ok()
    }

    pub(crate) fn write(&self, packet: &[u8]) {
        (&self.file).write_all(packet).expect("the device is up");
    }
}

impl AsFd for PlainTun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
