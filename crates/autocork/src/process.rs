//! Tells a forked child from the process that loaded the library.
//!
//! A child of `vfork` has descriptors of its own and the memory of its parent: what it closes or
//! copies on its way to `exec` does not affect the parent's descriptors, so it must leave the table
//! alone. A child of `fork` has memory of its own, and takes the table over.

use core::sync::atomic::{AtomicI32, Ordering};

/// The process that the table is of; 0 until this library is loaded whole.
static OWNER: AtomicI32 = AtomicI32::new(0);

/// Notes whose memory this is, now and after each `fork`. `vfork` and `posix_spawn` do not call
/// what is registered here, nor does a `clone` by the system call.
pub(crate) fn on_load() {
    take_over();
    // SAFETY: the function stays loaded, and makes only calls that a child of `fork` may make.
    // Where there is no memory to note it, children keep their hands off the table.
    let _ = unsafe { libc::pthread_atfork(None, None, Some(take_over)) };
}

extern "C" fn take_over() {
    OWNER.store(this(), Ordering::Relaxed);
}

/// Whether the table is of this process. A system call: ask where there is something to do.
pub(crate) fn is_owner() -> bool {
    let owner = OWNER.load(Ordering::Relaxed);
    owner == 0 || owner == this()
}

fn this() -> i32 {
    // SAFETY: it takes nothing and cannot fail.
    unsafe { libc::getpid() }
}
