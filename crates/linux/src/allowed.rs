//! What this machine allows: each thing is tried, in a way that leaves nothing behind.
//!
//! What can only be tried by doing harm (changing a route, a sysctl) is judged by the capability
//! that it takes.

use std::fs::{self, OpenOptions};
use std::net::TcpListener;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::thread;

use base::{KNOBS, Scope};
use rustix::fs::{Access, access};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, Resource, getpid, getrlimit};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use crate::clock::Clock;
use crate::counters::sysctl;
use crate::error::{Error, Result};
use crate::journal::Journal;
use crate::sock_diag::{ScanRequest, SockDiag};
use crate::tun::{self, Tun};
use crate::{emulator, netns, sockopt};

/// One thing that tcptailor may want to do.
#[derive(Debug)]
pub struct Allowance {
    /// In a few words.
    pub what: &'static str,
    /// The commands that want it.
    pub wanted_for: &'static str,
    /// Whether it can be done: with a detail worth knowing, or with what is missing.
    pub answer: Result<String>,
}

/// A capability by its number (capabilities(7)) and what gives it.
#[derive(Clone, Copy)]
struct Capability {
    bit: u32,
    name: &'static str,
}

const CAP_NET_ADMIN: Capability = Capability {
    bit: 12,
    name: "CAP_NET_ADMIN",
};
const CAP_SYS_PTRACE: Capability = Capability {
    bit: 19,
    name: "CAP_SYS_PTRACE",
};

/// A thing, the commands that want it, and how it is tried.
type Trial = (&'static str, &'static str, fn() -> Result<String>);

const TRIALS: &[Trial] = &[
    ("see connections", "diagnose, fit", see_connections),
    ("see other users' programs", "diagnose", see_programs),
    (
        "reach into a program's socket",
        "diagnose, apply, fit",
        reach_sockets,
    ),
    ("socket options", "apply, fit", socket_options),
    (
        "congestion controls",
        "apply, fit, bench",
        congestion_controls,
    ),
    ("change routes and interfaces", "apply, fit", change_routes),
    ("change sysctls", "apply, fit", change_sysctls),
    ("keep a journal", "apply, fit", keep_journal),
    ("make network namespaces", "lab, fit --lab", make_namespaces),
    ("make TUN devices", "lab, fit --lab", make_tun_devices),
    ("name namespaces for `ip netns`", "lab", name_namespaces),
    ("real-time priority", "lab, fit --lab", real_time),
    ("open files", "diagnose, bench, serve", open_files),
];

/// Tries everything that tcptailor may want to do, as the calling process.
#[must_use]
pub fn allowances() -> Vec<Allowance> {
    let tried = |&(what, wanted_for, try_it): &Trial| Allowance {
        what,
        wanted_for,
        answer: try_it(),
    };
    TRIALS.iter().map(tried).collect()
}

fn see_connections() -> Result<String> {
    let sockets = SockDiag::open()?.scan(Clock.now(), &ScanRequest::default())?;
    Ok(format!("{} now", sockets.len()))
}

fn see_programs() -> Result<String> {
    CAP_SYS_PTRACE.check("seeing which program of another user holds a socket")
}

fn reach_sockets() -> Result<String> {
    let unsupported = |errno| match errno {
        rustix::io::Errno::NOSYS => Error::Unsupported {
            what: "pidfd_getfd".into(),
            hint: "it takes Linux 5.6; options and changes of open sockets are out of reach".into(),
        },
        _ => Error::errno("pidfd_getfd of this process")(errno),
    };
    let own = rustix::process::pidfd_open(getpid(), PidfdFlags::empty()).map_err(unsupported)?;
    let socket = scratch_socket()?;
    let number = socket.as_raw_fd();
    rustix::process::pidfd_getfd(&own, number, PidfdGetfdFlags::empty()).map_err(unsupported)?;
    CAP_SYS_PTRACE
        .check("changing sockets of another user's programs")
        .map_err(|_| Error::Permission {
            what: "reaching into programs other than your own".into(),
            needs: CAP_SYS_PTRACE.name,
            hint: CAP_SYS_PTRACE.remedy(),
        })
}

fn scratch_socket() -> Result<TcpListener> {
    TcpListener::bind("127.0.0.1:0").map_err(Error::os("listen on 127.0.0.1"))
}

/// Reads every option once: a kernel that lacks one says so.
fn socket_options() -> Result<String> {
    let socket = scratch_socket()?;
    let knobs = || KNOBS.iter().filter(|knob| knob.scope == Scope::Socket);
    let lacking: Vec<&str> = knobs()
        .filter(|knob| {
            matches!(
                sockopt::read(socket.as_fd(), knob),
                Err(Error::Unsupported { .. })
            )
        })
        .map(|knob| knob.name)
        .collect();
    if lacking.is_empty() {
        return Ok(format!("all {}", knobs().count()));
    }
    Err(Error::Unsupported {
        what: lacking.join(", "),
        hint: format!("the other {} work", knobs().count() - lacking.len()),
    })
}

fn congestion_controls() -> Result<String> {
    let name = "net.ipv4.tcp_available_congestion_control";
    let available = sysctl(name).ok_or_else(|| Error::NotFound {
        what: "sysctl",
        name: name.into(),
        hint: "; is /proc mounted?".into(),
    })?;
    if available.split_whitespace().any(|name| name == "bbr") {
        return Ok(available);
    }
    Err(Error::Unsupported {
        what: format!("bbr (there is {available})"),
        hint: "`modprobe tcp_bbr` loads it; it is the fix for random loss".into(),
    })
}

fn change_routes() -> Result<String> {
    CAP_NET_ADMIN.check("changing routes, interfaces and queues")
}

/// A container may have the capability, and `/proc/sys` mounted read-only.
fn change_sysctls() -> Result<String> {
    let path = "/proc/sys/net/ipv4/tcp_rmem";
    // Opening for writing changes nothing.
    match OpenOptions::new().write(true).open(path) {
        Ok(_) => Ok(String::new()),
        Err(error) if error.raw_os_error() == Some(libc::EROFS) => Err(Error::Permission {
            what: "changing sysctls".into(),
            needs: "a writable /proc/sys",
            hint: "start the container with it, or change them on the host".into(),
        }),
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            Err(Error::Permission {
                what: "changing sysctls".into(),
                needs: "root",
                hint: "run as root".into(),
            })
        }
        Err(source) => Err(Error::Os {
            op: format!("open {path}"),
            source,
        }),
    }
}

fn keep_journal() -> Result<String> {
    let directory = Journal::default_directory()?;
    let existing = directory.ancestors().find(|path| path.exists());
    let writable = existing.is_some_and(|path| access(path, Access::WRITE_OK).is_ok());
    if writable {
        return Ok(directory.display().to_string());
    }
    Err(Error::Permission {
        what: format!("writing to {}", directory.display()),
        needs: "write permission",
        hint: "set TCPTAILOR_STATE to a directory of yours".into(),
    })
}

/// On a thread of its own, whose end ends the namespace.
fn in_scratch_netns<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: only the network namespace is unshared, no descriptor table.
            unsafe { unshare_unsafe(UnshareFlags::NEWNET) }
                .map_err(Error::errno("unshare the network namespace"))?;
            work()
        });
        thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn make_namespaces() -> Result<String> {
    match in_scratch_netns(|| Ok(())) {
        Ok(()) => Ok("as this user".into()),
        Err(error) if error.is_missing_privilege() => user_namespaces(),
        Err(error) => Err(error),
    }
}

/// The three switches with which distributions close user namespaces.
fn user_namespaces() -> Result<String> {
    const SWITCHES: [(&str, &str, &str); 3] = [
        ("user.max_user_namespaces", "0", "10000"),
        ("kernel.unprivileged_userns_clone", "0", "1"),
        ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
    ];
    let closed = SWITCHES
        .iter()
        .find(|(name, off, _)| sysctl(name).as_deref() == Some(off));
    match closed {
        None => Ok("in a user namespace".into()),
        Some((name, _, on)) => Err(Error::Permission {
            what: "making network namespaces".into(),
            needs: "root or a user namespace",
            hint: format!("run as root, or allow user namespaces: `sysctl {name}={on}`"),
        }),
    }
}

/// In a scratch namespace where one can be made; else only the node is opened, as a user namespace
/// gives the rest.
fn make_tun_devices() -> Result<String> {
    match in_scratch_netns(|| Tun::create("tcptailor0")) {
        Err(Error::Os { .. }) => tun::open_node().map(drop)?,
        other => drop(other?),
    }
    Ok(tun::device_path().display().to_string())
}

fn name_namespaces() -> Result<String> {
    let directory = Path::new(netns::NAMED_DIR);
    let existing = directory.ancestors().find(|path| path.exists());
    if existing.is_some_and(|path| access(path, Access::WRITE_OK).is_ok()) {
        return Ok(netns::NAMED_DIR.into());
    }
    Err(Error::Permission {
        what: format!("writing to {}", netns::NAMED_DIR),
        needs: "root",
        hint: "lab paths work without; only `ip netns` does not list them".into(),
    })
}

fn real_time() -> Result<String> {
    // The priority ends with the thread.
    let granted = thread::scope(|scope| scope.spawn(emulator::become_realtime).join());
    if granted.unwrap_or(false) {
        return Ok("SCHED_FIFO".into());
    }
    Err(Error::Permission {
        what: "SCHED_FIFO for the emulator".into(),
        needs: "CAP_SYS_NICE",
        hint: "lab paths work without, a little later; results say how late".into(),
    })
}

fn open_files() -> Result<String> {
    let limit = getrlimit(Resource::Nofile);
    Ok(limit
        .current
        .map_or_else(|| "no limit".into(), |files| format!("at most {files}")))
}

impl Capability {
    fn check(self, what: &str) -> Result<String> {
        if effective_capabilities()? & (1 << self.bit) != 0 {
            return Ok(String::new());
        }
        Err(Error::Permission {
            what: what.into(),
            needs: self.name,
            hint: self.remedy(),
        })
    }

    fn remedy(self) -> String {
        format!(
            "run as root, or `setcap {}+ep` on the program",
            self.name.to_lowercase()
        )
    }
}

/// The line `CapEff` of proc_pid_status(5), a mask in hexadecimal.
fn effective_capabilities() -> Result<u64> {
    let path = "/proc/thread-self/status";
    let text = fs::read_to_string(path).map_err(Error::os(format!("read {path}")))?;
    let mask = text.lines().find_map(|line| line.strip_prefix("CapEff:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .ok_or_else(|| Error::File {
            path: path.into(),
            what: "there is no line `CapEff`".into(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_answered_and_the_caller_stays_where_it_was() {
        let own_netns = || fs::read_link("/proc/thread-self/ns/net").expect("a namespace");
        let own_before = own_netns();
        for allowance in allowances() {
            if let Err(error) = &allowance.answer {
                let missing = matches!(error, Error::Permission { .. } | Error::Unsupported { .. });
                assert!(missing, "{}: {error}", allowance.what);
            }
        }
        assert_eq!(own_netns(), own_before);
    }

    #[test]
    fn a_capability_that_is_missing_says_how_to_get_it() {
        let nobody_has = Capability {
            bit: 63,
            name: "CAP_NOTHING",
        };
        let error = nobody_has.check("flying").expect_err("bit 63 is never set");
        assert_eq!(
            error.to_string(),
            "flying needs CAP_NOTHING: run as root, or `setcap cap_nothing+ep` on the program"
        );
    }
}
