//! The kernel's figures of a socket, for tests.

use std::net::TcpStream;
use std::os::fd::AsRawFd;

/// `TCP_INFO` of a connection.
pub(crate) fn tcp_info(stream: &TcpStream) -> libc::tcp_info {
    // SAFETY: all-zero bytes are a valid `tcp_info`.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut length = libc::socklen_t::try_from(size_of_val(&info)).expect("it is small");
    // SAFETY: `info` has `length` bytes and outlives the call.
    let outcome = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut length,
        )
    };
    assert_eq!(outcome, 0);
    info
}
