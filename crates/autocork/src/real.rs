//! The functions of the C library behind ours, found when this library is loaded, and `errno`.

use core::ffi::{CStr, c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

/// A function that is looked up once: when this library is loaded, or by another library that is
/// loaded before it and calls it.
pub(crate) struct Real {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Real {
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self {
            name,
            found: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Address of the symbol in the next library after this one; null if none has it.
    pub(crate) fn address(&self) -> *mut c_void {
        let found = self.found.load(Ordering::Relaxed);
        if !found.is_null() {
            return found;
        }
        // SAFETY: the name ends with a zero; RTLD_NEXT asks the libraries after this one.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.found.store(found, Ordering::Relaxed);
        found
    }
}

/// Declares a function of this library's symbol table: `before` runs, then the C library's function
/// of the same name, then `after` with its result. `errno` is as that function left it.
macro_rules! hook {
    (
        fn $name:ident($($arg:ident: $kind:ty),*) -> $result:ty;
        before $before:expr;
        after |$got:ident| $after:expr;
    ) => {
        /// # Safety
        /// As the function of the C library that has this name.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $name($($arg: $kind),*) -> $result {
            static REAL: $crate::real::Real = $crate::real::Real::new(
                match core::ffi::CStr::from_bytes_with_nul(
                    concat!(stringify!($name), "\0").as_bytes()
                ) {
                    Ok(name) => name,
                    Err(_) => c"",
                }
            );
            extern "C" fn find() {
                REAL.address();
            }
            #[used]
            #[unsafe(link_section = ".init_array")]
            static FIND: extern "C" fn() = find;
            $crate::real::keep_errno(|| $before);
            let address = $crate::real::keep_errno(|| REAL.address());
            if address.is_null() {
                $crate::real::set_errno(libc::ENOSYS);
                return -1;
            }
            type Function = unsafe extern "C" fn($($kind),*) -> $result;
            // SAFETY: the C library's function of this name has this signature.
            let real = unsafe {
                core::mem::transmute::<*mut core::ffi::c_void, Function>(address)
            };
            // SAFETY: the caller keeps what the function asks for; nothing was changed.
            let $got = unsafe { real($($arg),*) };
            $crate::real::keep_errno(|| $after);
            $got
        }
    };
}
pub(crate) use hook;

/// Does something that must leave `errno` as it is.
pub(crate) fn keep_errno<T>(work: impl FnOnce() -> T) -> T {
    // SAFETY: the C library returns the address of this thread's errno, which lives as long.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { *errno };
    let result = work();
    // SAFETY: as above.
    unsafe { *errno = before };
    result
}

pub(crate) fn set_errno(value: c_int) {
    // SAFETY: as in `keep_errno`.
    unsafe { *libc::__errno_location() = value };
}

/// Sets `TCP_CORK` by the system call itself, past all hooks; whether the kernel took it.
pub(crate) fn set_cork(fd: c_int, on: bool) -> bool {
    let value = c_int::from(on);
    // SAFETY: the kernel reads one live `c_int`.
    let result = unsafe {
        libc::syscall(
            libc::SYS_setsockopt,
            fd,
            libc::IPPROTO_TCP,
            libc::TCP_CORK,
            &raw const value,
            size_of::<c_int>(),
        )
    };
    result == 0
}

/// Cookie of a socket, the same through every descriptor (`SO_COOKIE`, Linux 4.12); `None` if the
/// descriptor is not a socket.
pub(crate) fn cookie(fd: c_int) -> Option<u64> {
    option(fd, libc::SO_COOKIE)
}

/// Whether connections are accepted from it, which would inherit its options.
pub(crate) fn is_listening(fd: c_int) -> bool {
    option::<c_int>(fd, libc::SO_ACCEPTCONN) == Some(1)
}

/// An option of a socket that is a number; `None` where it has none.
fn option<N: Default>(fd: c_int, name: c_int) -> Option<N> {
    let mut value = N::default();
    let mut length = size_of::<N>() as libc::socklen_t;
    // SAFETY: both are live, and `length` is the size of `value`, of which any bytes are a number.
    let result = unsafe {
        libc::syscall(
            libc::SYS_getsockopt,
            fd,
            libc::SOL_SOCKET,
            name,
            &raw mut value,
            &raw mut length,
        )
    };
    (result == 0).then_some(value)
}
