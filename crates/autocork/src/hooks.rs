//! Wrappers of the C library's socket calls.

use core::ffi::{c_int, c_uint, c_ulong, c_void};

use libc::{
    epoll_event, fd_set, iovec, mmsghdr, msghdr, nfds_t, off_t, off64_t, pollfd, sigset_t, size_t,
    sockaddr, socklen_t, ssize_t, timespec, timeval,
};

use crate::real::{cookie, hook, is_listening, set_cork};
use crate::{process, stats, table};

/// Whether something is noted of a descriptor of this process: only then may it be changed.
fn is_known_here(fd: c_int) -> bool {
    table::is_known(fd) && process::is_owner()
}

/// Corks a connection whose program asked for no delay.
fn take_on(fd: c_int) {
    if table::is_ours(fd) || table::is_programs(fd) || !process::is_owner() || is_listening(fd) {
        return;
    }
    let mut corked = false;
    for_each_copy(fd, |copy| {
        if table::adopt(copy) && !cork(copy) {
            table::release(copy);
        }
        corked |= table::is_ours(copy);
    });
    if corked {
        stats::CORKED.count();
    }
}

/// Puts the cork into a descriptor that is ours; whether the kernel took it.
fn cork(fd: c_int) -> bool {
    if !set_cork(fd, true) {
        return false;
    }
    // Another thread may have closed it, and its number may be another connection's by now: that
    // was removed from the table before it was closed, and what it holds would never be flushed.
    if !table::is_ours(fd) {
        set_cork(fd, false);
    }
    true
}

/// Takes the cork out for good.
fn let_go(fd: c_int) {
    if !table::is_ours(fd) || !process::is_owner() {
        return;
    }
    for_each_copy(fd, table::release);
    set_cork(fd, false);
}

/// From here on the program knows when a message is finished.
fn leave_to_program(fd: c_int) {
    if !table::is_programs(fd) && process::is_owner() {
        for_each_copy(fd, table::leave_to_program);
    }
}

/// Calls `work` for the descriptor and for the others of the same connection.
fn for_each_copy(fd: c_int, mut work: impl FnMut(c_int)) {
    work(fd);
    if !table::is_copied(fd) {
        return;
    }
    let Some(connection) = cookie(fd) else { return };
    table::for_each_copied(|other| {
        if other != fd && cookie(other) == Some(connection) {
            work(other);
        }
    });
}

/// Lets go what is held. What was written through a copy of the descriptor is marked there.
fn flush(fd: c_int) {
    if !table::is_ours(fd) || !process::is_owner() {
        return;
    }
    if table::is_copied(fd) {
        table::for_each_held(flush_one);
    }
    flush_one(fd);
}

/// Clears and sets the cork. A descriptor that is no longer a connection is removed from the table.
fn flush_one(fd: c_int) {
    if table::take_held(fd) {
        stats::FLUSHES.count();
    }
    // Another thread may have closed it since.
    if !table::is_ours(fd) {
        return;
    }
    if !(set_cork(fd, false) && cork(fd)) {
        table::forget(fd);
    }
}

fn flush_all() {
    if table::holds_something() && process::is_owner() {
        table::for_each_held(flush_one);
    }
}

/// Adds marks and takes none, so it need not know the owner of the descriptor: an extra mark causes
/// an empty flush.
fn on_sent(fd: c_int, is_taken: bool) {
    // Of what the kernel refuses nothing is held.
    if !is_taken {
        return;
    }
    if let Some(writes) = table::on_written(fd) {
        stats::WRITES.count();
        if writes >= stats::held_max() {
            flush(fd);
        }
    }
}

/// The kernel sends what is held in front of the end of the stream, unless a copy of the descriptor
/// keeps the connection open, here or in another process. That must not stay corked by us; a copy
/// that is ours is corked again with its next flush.
fn on_close(fd: c_int) {
    if !is_known_here(fd) {
        return;
    }
    if table::take_held(fd) {
        stats::FLUSHES.count();
    }
    if table::forget(fd) {
        set_cork(fd, false);
    }
}

/// A copy of a descriptor is the same connection.
fn on_copied(from: c_int, to: c_int) {
    if to >= 0 && to != from && process::is_owner() {
        table::forget(to);
        table::copy(from, to);
    }
}

fn on_new(fd: c_int) {
    // The number may have been closed behind our back.
    if is_known_here(fd) {
        table::forget(fd);
    }
}

fn on_option(fd: c_int, level: c_int, name: c_int, value: *const c_void, length: socklen_t) {
    if level != libc::IPPROTO_TCP || value.is_null() || (length as usize) < size_of::<c_int>() {
        return;
    }
    // SAFETY: the C library's function has just read an int there.
    let on = unsafe { value.cast::<c_int>().read_unaligned() } != 0;
    match name {
        libc::TCP_NODELAY if on => take_on(fd),
        libc::TCP_NODELAY => let_go(fd),
        libc::TCP_CORK => leave_to_program(fd),
        _ => {}
    }
}

// ---- what begins and ends it ----

hook! {
    fn setsockopt(
        fd: c_int, level: c_int, name: c_int, value: *const c_void, length: socklen_t
    ) -> c_int;
    before ();
    after |result| if result == 0 { on_option(fd, level, name, value, length) };
}
hook! {
    // Connections that it accepts inherit the options of a listener, and would never be flushed.
    fn listen(fd: c_int, backlog: c_int) -> c_int;
    before let_go(fd);
    after |_result| ();
}
hook! {
    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    before ();
    after |fd| on_new(fd);
}
hook! {
    fn accept(listener: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int;
    before flush_all();
    after |fd| on_new(fd);
}
hook! {
    fn accept4(
        listener: c_int, address: *mut sockaddr, length: *mut socklen_t, flags: c_int
    ) -> c_int;
    before flush_all();
    after |fd| on_new(fd);
}
hook! {
    fn close(fd: c_int) -> c_int;
    before on_close(fd);
    after |_result| ();
}
hook! {
    fn shutdown(fd: c_int, how: c_int) -> c_int;
    before flush(fd);
    after |_result| ();
}
hook! {
    fn dup(fd: c_int) -> c_int;
    before ();
    after |copy| on_copied(fd, copy);
}
hook! {
    fn dup2(fd: c_int, to: c_int) -> c_int;
    before ();
    after |copy| on_copied(fd, copy);
}
hook! {
    fn dup3(fd: c_int, to: c_int, flags: c_int) -> c_int;
    before ();
    after |copy| on_copied(fd, copy);
}
hook! {
    // Variadic in C. Where arguments of both kinds of function travel in the same registers, as
    // on all targets with glibc that pass three integers in registers, one that always takes the
    // third is the same.
    fn fcntl(fd: c_int, command: c_int, argument: c_ulong) -> c_int;
    before ();
    after |result| on_command(fd, command, result);
}
hook! {
    fn fcntl64(fd: c_int, command: c_int, argument: c_ulong) -> c_int;
    before ();
    after |result| on_command(fd, command, result);
}

fn on_command(fd: c_int, command: c_int, result: c_int) {
    if command == libc::F_DUPFD || command == libc::F_DUPFD_CLOEXEC {
        on_copied(fd, result);
    }
}

// ---- what is held ----

hook! {
    fn write(fd: c_int, from: *const c_void, count: size_t) -> ssize_t;
    before ();
    after |sent| on_sent(fd, sent > 0);
}
hook! {
    fn writev(fd: c_int, from: *const iovec, count: c_int) -> ssize_t;
    before ();
    after |sent| on_sent(fd, sent > 0);
}
hook! {
    fn send(fd: c_int, from: *const c_void, count: size_t, flags: c_int) -> ssize_t;
    before ();
    after |sent| on_sent(fd, sent > 0);
}
hook! {
    fn sendto(
        fd: c_int, from: *const c_void, count: size_t, flags: c_int,
        address: *const sockaddr, length: socklen_t
    ) -> ssize_t;
    before ();
    after |sent| on_sent(fd, sent > 0);
}
hook! {
    fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t;
    before ();
    after |sent| on_sent(fd, sent > 0);
}
hook! {
    fn sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int;
    before ();
    after |sent| on_sent(fd, sent > 0);
}
hook! {
    fn sendfile(to: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t;
    before ();
    after |sent| on_sent(to, sent > 0);
}
hook! {
    fn sendfile64(to: c_int, from: c_int, offset: *mut off64_t, count: size_t) -> ssize_t;
    before ();
    after |sent| on_sent(to, sent > 0);
}
hook! {
    fn splice(
        from: c_int, from_offset: *mut off64_t, to: c_int, to_offset: *mut off64_t,
        count: size_t, flags: c_uint
    ) -> ssize_t;
    before flush(from);
    after |sent| on_sent(to, sent > 0);
}

// ---- reading: the message is finished ----

hook! {
    fn read(fd: c_int, to: *mut c_void, count: size_t) -> ssize_t;
    before flush(fd);
    after |_got| ();
}
hook! {
    fn __read_chk(fd: c_int, to: *mut c_void, count: size_t, room: size_t) -> ssize_t;
    before flush(fd);
    after |_got| ();
}
hook! {
    fn readv(fd: c_int, to: *const iovec, count: c_int) -> ssize_t;
    before flush(fd);
    after |_got| ();
}
hook! {
    fn recv(fd: c_int, to: *mut c_void, count: size_t, flags: c_int) -> ssize_t;
    before flush(fd);
    after |_got| ();
}
hook! {
    fn __recv_chk(
        fd: c_int, to: *mut c_void, count: size_t, room: size_t, flags: c_int
    ) -> ssize_t;
    before flush(fd);
    after |_got| ();
}
hook! {
    fn recvfrom(
        fd: c_int, to: *mut c_void, count: size_t, flags: c_int,
        address: *mut sockaddr, length: *mut socklen_t
    ) -> ssize_t;
    before flush(fd);
    after |_got| ();
}
hook! {
    fn __recvfrom_chk(
        fd: c_int, to: *mut c_void, count: size_t, room: size_t, flags: c_int,
        address: *mut sockaddr, length: *mut socklen_t
    ) -> ssize_t;
    before flush(fd);
    after |_got| ();
}
hook! {
    fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t;
    before flush(fd);
    after |_got| ();
}
hook! {
    fn recvmmsg(
        fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int, timeout: *mut timespec
    ) -> c_int;
    before flush(fd);
    after |_got| ();
}

// ---- waiting: whatever is held must go ----

hook! {
    fn poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int;
    before flush_all();
    after |_ready| ();
}
hook! {
    fn __poll_chk(fds: *mut pollfd, count: nfds_t, timeout: c_int, room: size_t) -> c_int;
    before flush_all();
    after |_ready| ();
}
hook! {
    fn ppoll(
        fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t
    ) -> c_int;
    before flush_all();
    after |_ready| ();
}
hook! {
    fn __ppoll_chk(
        fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t,
        room: size_t
    ) -> c_int;
    before flush_all();
    after |_ready| ();
}
hook! {
    fn select(
        count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set,
        timeout: *mut timeval
    ) -> c_int;
    before flush_all();
    after |_ready| ();
}
hook! {
    fn pselect(
        count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set,
        timeout: *const timespec, mask: *const sigset_t
    ) -> c_int;
    before flush_all();
    after |_ready| ();
}
hook! {
    fn epoll_wait(epoll: c_int, events: *mut epoll_event, room: c_int, timeout: c_int) -> c_int;
    before flush_all();
    after |_ready| ();
}
hook! {
    fn epoll_pwait(
        epoll: c_int, events: *mut epoll_event, room: c_int, timeout: c_int, mask: *const sigset_t
    ) -> c_int;
    before flush_all();
    after |_ready| ();
}
hook! {
    fn epoll_pwait2(
        epoll: c_int, events: *mut epoll_event, room: c_int, timeout: *const timespec,
        mask: *const sigset_t
    ) -> c_int;
    before flush_all();
    after |_ready| ();
}
