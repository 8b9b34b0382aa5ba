//! Sockets that a program gets from us because we got them: a shell's redirection, socket
//! activation, `inetd`.

use std::fs;

use doctor::SocketOwner;

use super::supervisor::{Notes, Origin};
use crate::process::process_info;
use crate::remote_socket::OwnerProcess;

/// `O_CLOEXEC` of Linux, in octal as `/proc/PID/fdinfo/FD` prints it (proc(5)).
const CLOSES_AT_EXEC: u64 = 0o2_000_000;

/// Notes and sets the TCP sockets among our descriptors that stay open in what we start, for the
/// program with this number.
pub(super) fn note(pid: u32, notes: &Notes) {
    let own = std::process::id();
    let (Some(process), Ok(ourselves)) = (process_info(pid), OwnerProcess::open(own)) else {
        // It has ended.
        return;
    };
    for fd in inheritable() {
        if let Ok(Some((socket, cookie))) = ourselves.tcp_socket(fd) {
            let owner = SocketOwner {
                fd,
                process: process.clone(),
            };
            let origin = match (socket.is_listening(), socket.is_connected()) {
                (true, _) => Origin::Listens,
                (false, true) => Origin::Inherited,
                // It will be noted when it connects or listens.
                (false, false) => continue,
            };
            notes.take_in((cookie, &socket), owner, origin);
        }
    }
}

/// The descriptors that a program keeps which we start: all of ours close.
fn inheritable() -> Vec<i32> {
    let entries = fs::read_dir("/proc/self/fdinfo").into_iter().flatten();
    let stays_open = |fd: &i32| {
        let info = fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).unwrap_or_default();
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = flags.and_then(|flags| u64::from_str_radix(flags.trim(), 8).ok());
        flags.is_some_and(|flags| flags & CLOSES_AT_EXEC == 0)
    };
    let numbers = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(stays_open).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::os::fd::AsRawFd;

    #[test]
    fn what_closes_is_not_inherited() {
        let closes = TcpListener::bind("127.0.0.1:0").expect("a port");
        let stays = TcpListener::bind("127.0.0.1:0").expect("a port");
        let none = rustix::io::FdFlags::empty();
        rustix::io::fcntl_setfd(&stays, none).expect("our own descriptor");
        let found = inheritable();
        assert!(found.contains(&stays.as_raw_fd()), "{found:?}");
        assert!(!found.contains(&closes.as_raw_fd()), "{found:?}");
    }
}
