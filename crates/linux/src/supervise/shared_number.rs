//! A number that this process writes and the keeper reads, also after this process was killed.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// Memory that a process shares with those that it forks.
#[derive(Debug)]
pub(super) struct SharedNumber(NonNull<AtomicU64>);

// SAFETY: it is reached through atomic operations only, and stays until it is dropped.
unsafe impl Send for SharedNumber {}
// SAFETY: as above.
unsafe impl Sync for SharedNumber {}

impl SharedNumber {
    const BYTES: usize = size_of::<AtomicU64>();

    /// Zero at the start.
    pub(super) fn new() -> io::Result<Self> {
        // SAFETY: a new mapping at a place that the kernel chooses; pages of it hold zeroes, which
        // is a value of the type, and begin at an address that suits it.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                Self::BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        NonNull::new(address.cast())
            .map(Self)
            .ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }

    pub(super) fn set(&self, number: u64) {
        // SAFETY: mapped until it is dropped.
        unsafe { self.0.as_ref() }.store(number, Ordering::SeqCst);
    }

    /// Reads memory and nothing else, so that it may run after a `fork`.
    pub(super) fn get(&self) -> u64 {
        // SAFETY: as above.
        unsafe { self.0.as_ref() }.load(Ordering::SeqCst)
    }
}

impl Drop for SharedNumber {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and there are no references to it any more.
        unsafe { libc::munmap(self.0.as_ptr().cast(), Self::BYTES) };
    }
}
