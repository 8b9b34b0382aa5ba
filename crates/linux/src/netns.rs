//! Network namespaces: opening one and doing something in it.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use base::Netns;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::error::{Error, Result};

/// Directory in which `ip netns` keeps its names.
pub const NAMED_DIR: &str = "/run/netns";

/// `SO_NETNS_COOKIE` (include/uapi/asm-generic/socket.h, Linux 5.14).
const SO_NETNS_COOKIE: libc::c_int = 71;

/// The file system of namespaces (include/uapi/linux/magic.h).
pub(crate) const NSFS_MAGIC: rustix::fs::FsWord = 0x6e73_6673;

/// Whether a namespace can have this name: it is that of a file in one directory.
pub(crate) fn is_name(name: &str) -> bool {
    (1..=255).contains(&name.len()) && !matches!(name, "." | "..") && !name.contains(['/', '\0'])
}

/// An open network namespace. It lives at least as long as this handle.
#[derive(Debug)]
pub struct NetnsHandle {
    name: Netns,
    file: File,
}

impl NetnsHandle {
    /// Opens the namespace that a user named, or one of a lab path of this process.
    ///
    /// # Errors
    /// [`Error::NotFound`] where there is none of this name, [`Error::Permission`] where it is not
    /// ours to enter.
    pub fn open(name: &Netns) -> Result<Self> {
        let path = match name {
            Netns::Own => PathBuf::from("/proc/thread-self/ns/net"),
            Netns::Named(name) => PathBuf::from(NAMED_DIR).join(name),
            Netns::OfProcess(pid) => PathBuf::from(format!("/proc/{pid}/ns/net")),
            Netns::Simulated(_) => return Err(not_found(name)),
        };
        if let Netns::Named(own) = name
            && !is_name(own)
        {
            return Err(not_found(name));
        }
        if let Netns::Named(own) = name
            && let Some(file) = crate::lab_netns::find_own(own)
        {
            return Ok(Self::from_file(name.clone(), file));
        }
        // Whatever else lies there is not waited for.
        let opened = File::options()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(&path);
        let file = opened.map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => not_found(name),
            io::ErrorKind::PermissionDenied => Error::Permission {
                what: format!("entering the {name}"),
                needs: "CAP_SYS_ADMIN",
                hint: "run as root, or as the owner of the process".into(),
            },
            _ => Error::Os {
                op: format!("open {}", path.display()),
                source,
            },
        })?;
        let is_namespace = rustix::fs::fstatfs(&file).is_ok_and(|fs| fs.f_type == NSFS_MAGIC);
        if !is_namespace {
            return Err(not_found(name));
        }
        Ok(Self {
            name: name.clone(),
            file,
        })
    }

    /// Takes over a namespace that was made without a name; `name` is how messages call it.
    #[must_use]
    pub const fn from_file(name: Netns, file: File) -> Self {
        Self { name, file }
    }

    /// Name as given by the user.
    #[must_use]
    pub const fn name(&self) -> &Netns {
        &self.name
    }

    /// The inode number, which tells namespaces apart while they live. That of one that is gone is
    /// given again, often to the next that is made; see [`NetnsHandle::cookie`].
    ///
    /// # Errors
    /// Where the kernel refuses `fstat`.
    pub fn inode(&self) -> Result<u64> {
        use std::os::unix::fs::MetadataExt;
        Ok(self
            .file
            .metadata()
            .map_err(Error::os("fstat of a namespace"))?
            .ino())
    }

    /// The number that no other namespace has until the machine is started again; `None` before
    /// Linux 5.14, and where the namespace is not ours to enter.
    #[must_use]
    pub fn cookie(&self) -> Option<u64> {
        if self.is_current() {
            return cookie_here();
        }
        self.run(cookie_here).ok().flatten()
    }

    /// Runs `work` on a thread of its own inside the namespace and returns what it returns.
    /// Sockets, TUN devices and child processes made there stay in the namespace.
    ///
    /// # Errors
    /// Where the namespace may not be entered, or no thread can be started.
    ///
    /// # Panics
    /// Where `work` panics.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        std::thread::scope(|scope| {
            let inside = || {
                self.enter()?;
                Ok(work())
            };
            std::thread::Builder::new()
                .spawn_scoped(scope, inside)
                .map_err(Error::os("start a thread"))?
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Whether the calling thread is in it.
    fn is_current(&self) -> bool {
        let here = Self::open(&Netns::Own).and_then(|own| own.inode());
        matches!((here, self.inode()), (Ok(here), Ok(there)) if here == there)
    }

    /// Moves the calling thread into the namespace, for good. Meant for threads made for it. Needs
    /// nothing where the thread is there already.
    ///
    /// # Errors
    /// [`Error::Permission`] without `CAP_SYS_ADMIN` over the namespace.
    pub fn enter(&self) -> Result<()> {
        if self.is_current() {
            return Ok(());
        }
        move_into_link_name_space(self.file.as_fd(), Some(LinkNameSpaceType::Network)).map_err(
            |errno| match errno {
                rustix::io::Errno::PERM => Error::Permission {
                    what: format!("entering the {}", self.name),
                    needs: "CAP_SYS_ADMIN",
                    hint: "run as root".into(),
                },
                _ => Error::Os {
                    op: format!("setns to the {}", self.name),
                    source: errno.into(),
                },
            },
        )
    }
}

/// The cookie of the calling thread's namespace, which any socket made here tells.
fn cookie_here() -> Option<u64> {
    let socket = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::DGRAM, None).ok()?;
    let mut cookie = 0_u64;
    let mut length = size_of_val(&cookie) as libc::socklen_t;
    // SAFETY: `cookie` has `length` bytes, and both outlive the call.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut length,
        )
    };
    (result == 0).then_some(cookie)
}

fn not_found(name: &Netns) -> Error {
    let (what, name, hint) = match name {
        Netns::Own => ("directory", "/proc/thread-self".into(), "; mount /proc"),
        Netns::Named(name) => (
            "network namespace",
            name.clone(),
            "; `ip netns` lists the named ones",
        ),
        Netns::OfProcess(pid) => (
            "process",
            pid.to_string(),
            " (any more); `ps` lists those that run",
        ),
        Netns::Simulated(name) => (
            "simulated host",
            name.clone(),
            " any more: it ended with its simulation",
        ),
    };
    Error::NotFound {
        what,
        name,
        hint: hint.into(),
    }
}

impl AsFd for NetnsHandle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_has_one_cookie_and_another_one_another() {
        let own = NetnsHandle::open(&Netns::Own).expect("our own");
        let Some(cookie) = own.cookie() else {
            return crate::asking::skip("no cookies before Linux 5.14");
        };
        assert_eq!(own.cookie(), Some(cookie));
        if let Some([other]) = crate::asking::permitted(crate::LabNetns::create(["cookie"])) {
            assert_ne!(other.handle().cookie(), Some(cookie));
        }
    }

    #[test]
    fn own_namespace_opens_and_an_unknown_one_says_so() {
        assert!(
            NetnsHandle::open(&Netns::Own)
                .and_then(|ns| ns.inode())
                .is_ok()
        );
        let error = NetnsHandle::open(&Netns::Named("tcptailor-none".into())).expect_err("none");
        assert_eq!(
            error.to_string(),
            "network namespace `tcptailor-none` does not exist; `ip netns` lists the named ones"
        );
    }
}
