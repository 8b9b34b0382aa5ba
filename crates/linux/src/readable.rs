//! Waiting for a pipe, a terminal or a socket to have something.

use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Waits for this time at most, or without end if it is longer than the kernel counts, until a read
/// would return at once: with data, with the end, or with an error. A regular file is always
/// readable.
pub fn wait_readable(from: impl AsFd, time: Duration) -> bool {
    let mut polled = [PollFd::new(&from, PollFlags::IN)];
    match poll(&mut polled, Timespec::try_from(time).ok().as_ref()) {
        Ok(ready) => ready > 0,
        // Of anything but a signal the read tells.
        Err(error) => error != Errno::INTR,
    }
}
