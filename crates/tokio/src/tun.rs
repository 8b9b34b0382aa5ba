//! A TUN device, and what the driver sees of it: when there is something to read. Packets are
//! written by the call that made the host send them, and by the driver if they are many.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::task::{Context, Poll, ready};

use linux::tun::TunPort;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::driver::Link;
use crate::error::of_system;
use crate::state::Shared;

/// A TUN device of Linux, with the offloads that the kernel has: packets of up to 64 KiB pass in
/// both directions, their checksums left to the kernel. It vanishes when what holds it is dropped.
#[derive(Debug)]
pub struct Tun(linux::tun::Tun);

impl Tun {
    /// Makes the device `name` in the network namespace of the calling thread.
    ///
    /// # Errors
    /// `PermissionDenied` where `/dev/net/tun` may not be opened or `CAP_NET_ADMIN` is missing,
    /// `NotFound` where there is no such node, `Unsupported` where the kernel has no TUN driver;
    /// the message says what to do.
    pub fn create(name: &str) -> io::Result<Self> {
        linux::tun::Tun::create(name).map(Self).map_err(of_system)
    }

    /// Name of the interface.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// The MTU that the interface has now, which others may change at any time.
    ///
    /// # Errors
    /// Where the device was deleted.
    pub fn mtu(&self) -> io::Result<u16> {
        self.0.mtu()
    }

    pub(crate) fn into_port(self) -> TunPort {
        TunPort::new(self.0)
    }
}

/// A second descriptor of the device, for the runtime.
#[derive(Debug)]
pub(crate) struct TunReadiness(AsyncFd<OwnedFd>);

impl TunReadiness {
    pub(crate) fn of(port: &TunPort) -> io::Result<Self> {
        let descriptor = port.as_fd().try_clone_to_owned()?;
        #[expect(
            deprecated,
            reason = "its successor is unsafe, for types that change their descriptor; this one \
                      owns its own"
        )]
        AsyncFd::with_interest(descriptor, Interest::READABLE | Interest::WRITABLE).map(Self)
    }
}

impl Link for TunReadiness {
    fn poll_receive(&mut self, cx: &mut Context<'_>, shared: &Shared) -> Poll<io::Result<()>> {
        // Of a device that is deleted, the runtime only says that it cannot be written to. It wakes
        // this task then if it was asked in vain before: it is asked until it has nothing to say.
        while let Poll::Ready(writable) = self.0.poll_write_ready(cx) {
            let mut writable = writable?;
            if writable.ready().is_write_closed() {
                shared.receive_from_tun()?;
                break;
            }
            writable.clear_ready();
        }
        loop {
            let mut readable = ready!(self.0.poll_read_ready(cx))?;
            if shared.receive_from_tun()? {
                return Poll::Ready(Ok(()));
            }
            // The next look asks the runtime to tell when there is more.
            readable.clear_ready();
        }
    }

    fn poll_send(&mut self, _cx: &mut Context<'_>, shared: &Shared) -> Poll<io::Result<()>> {
        if shared.send_to_tun() {
            return Poll::Ready(Ok(()));
        }
        Poll::Pending
    }

    fn poll_close(&mut self, cx: &mut Context<'_>, shared: &Shared) -> Poll<io::Result<()>> {
        if shared.send_to_tun() {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }
}
