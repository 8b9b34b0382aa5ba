//! Permissions of this machine, determined by trying.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd};

use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, WaitOptions, pidfd_getfd, pidfd_open};
use rustix::thread::{CapabilitySet, capabilities};

use super::{allow_user_namespaces, how_to_lay_paths};
use crate::emulator::become_realtime;
use crate::error::Error;
use crate::lab_netns::LabNetns;
use crate::tun::{DEVICE_VARIABLE, NODE_HINT, device_path};

/// `SO_BUF_LOCK` of Linux 5.15 (include/uapi/asm-generic/socket.h).
const SO_BUF_LOCK: libc::c_int = 72;
/// `TCP_DELACK_MAX_US` (include/uapi/linux/tcp.h).
const TCP_DELACK_MAX_US: libc::c_int = 46;

/// One thing that this machine allows or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// Name of the capability.
    pub name: &'static str,
    /// Whether it works here.
    pub ok: bool,
    /// Result of the check.
    pub detail: String,
    /// Features that depend on it.
    pub gives: &'static str,
    /// How to get it where it is missing; empty for what every machine has.
    pub remedy: String,
}

/// Permissions of this process on this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// In the order in which they matter.
    pub facts: Vec<Fact>,
}

impl Capabilities {
    /// Whether what has this name works here.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.facts.iter().any(|fact| fact.name == name && fact.ok)
    }

    /// Tries everything. Changes nothing: what is made for a try is taken away again.
    #[must_use]
    pub fn probe() -> Self {
        let mut facts = vec![kernel(), user()];
        facts.extend(held_capabilities());
        facts.extend([
            namespaces(),
            user_namespaces(),
            tun(),
            realtime(),
            buffer_locks(),
            delayed_ack_limit(),
            descriptors_of_others(),
            calls_of_programs(),
            congestion_controls(),
            cgroups(),
        ]);
        Self { facts }
    }
}

fn fact(
    name: &'static str,
    gives: &'static str,
    outcome: Result<String, String>,
    remedy: impl Into<String>,
) -> Fact {
    Fact {
        name,
        ok: outcome.is_ok(),
        detail: outcome.unwrap_or_else(|why| why),
        gives,
        remedy: remedy.into(),
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn kernel() -> Fact {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease");
    let release = release.map(|text| format!("Linux {}", text.trim()));
    fact(
        "kernel",
        "whatever reads /proc",
        release.map_err(|error| error.to_string()),
        "mount /proc",
    )
}

fn user() -> Fact {
    let detail = match is_root() {
        true => "root".into(),
        false => format!("uid {}", rustix::process::geteuid().as_raw()),
    };
    fact("user", "", Ok(detail), "")
}

fn held_capabilities() -> [Fact; 5] {
    let held = capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective);
    let of = |name: &'static str, set, gives| {
        let outcome = match held.contains(set) {
            true => Ok("held".into()),
            false => Err("not held".into()),
        };
        let short = name.trim_start_matches("CAP_");
        fact(name, gives, outcome, how_to_hold(short))
    };
    [
        of(
            "CAP_NET_ADMIN",
            CapabilitySet::NET_ADMIN,
            "changing routes, interfaces and sysctls",
        ),
        of(
            "CAP_SYS_ADMIN",
            CapabilitySet::SYS_ADMIN,
            "entering other network namespaces (`diagnose -N`)",
        ),
        of(
            "CAP_SYS_PTRACE",
            CapabilitySet::SYS_PTRACE,
            "seeing and changing sockets of other users' processes",
        ),
        of(
            "CAP_DAC_READ_SEARCH",
            CapabilitySet::DAC_READ_SEARCH,
            "listing the sockets of other users' processes",
        ),
        of(
            "CAP_SYS_NICE",
            CapabilitySet::SYS_NICE,
            "real-time priority for lab paths",
        ),
    ]
}

/// How to get a capability. Root of a container lacks what root has.
fn how_to_hold(capability: &str) -> String {
    match is_root() {
        true => format!("give it to this process (a container: `--cap-add {capability}`)"),
        false => "run as root".to_owned(),
    }
}

fn namespaces() -> Fact {
    let outcome = match LabNetns::create(["check"]) {
        Ok([made]) if made.is_mounted() => Ok("can be made; `ip netns` shows them".into()),
        Ok([_made]) => Ok("can be made; `ip netns` does not show them".into()),
        // The advice stands apart.
        Err(Error::Permission { needs, .. }) => Err(format!("refused: needs {needs}")),
        Err(error) => Err(error.to_string()),
    };
    let gives = "lab paths with the kernel's TCP";
    fact("network namespaces", gives, outcome, how_to_lay_paths())
}

/// Tried in a child, since there is no way back. The second step finds out whether a security
/// module takes the capabilities away.
fn user_namespaces() -> Fact {
    // SAFETY: the child calls nothing but system calls, which is all that is allowed after a fork
    // of a process with threads.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: plain numbers; the child ends here without running anything of the parent.
        unsafe {
            let allowed =
                libc::unshare(libc::CLONE_NEWUSER) == 0 && libc::unshare(libc::CLONE_NEWNET) == 0;
            libc::_exit(i32::from(!allowed));
        }
    }
    let status = Pid::from_raw(child.max(0)).and_then(|child| {
        let wait = || rustix::process::waitpid(Some(child), WaitOptions::empty());
        rustix::io::retry_on_intr(wait).ok().flatten()
    });
    let allowed = status.is_some_and(|(_, status)| status.exit_status() == Some(0));
    let outcome = if allowed {
        Ok("can be made".into())
    } else {
        Err("refused".into())
    };
    let gives = "lab paths with the kernel's TCP, for ordinary users";
    fact("user namespaces", gives, outcome, allow_user_namespaces())
}

fn tun() -> Fact {
    let path = device_path();
    let shown = path.display();
    let (outcome, remedy) = match OpenOptions::new().read(true).write(true).open(&path) {
        Ok(_) => (Ok(format!("{shown} can be opened")), String::new()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let remedy = format!("{NODE_HINT}; {DEVICE_VARIABLE} names another node");
            (Err(format!("the device node {shown} is missing")), remedy)
        }
        Err(error) => {
            let remedy = format!(
                "`chmod 0666 {shown}`, for good with the udev rule `KERNEL==\"tun\", \
                 MODE=\"0666\"`; {DEVICE_VARIABLE} names another node"
            );
            (Err(format!("{shown} cannot be opened: {error}")), remedy)
        }
    };
    let gives = "lab paths with the kernel's TCP; `stack serve`";
    fact("TUN device", gives, outcome, remedy)
}

/// On a thread of its own, which ends with the priority.
fn realtime() -> Fact {
    let granted = std::thread::spawn(become_realtime).join().unwrap_or(false);
    let outcome = if granted {
        Ok("granted".into())
    } else {
        Err("refused".into())
    };
    let remedy = "run as root with CAP_SYS_NICE, or raise `ulimit -r`";
    fact(
        "real-time priority",
        "exact times on lab paths",
        outcome,
        remedy,
    )
}

fn buffer_locks() -> Fact {
    fact(
        "SO_BUF_LOCK",
        "unlocking the buffers of a live socket",
        socket_option(libc::SOL_SOCKET, SO_BUF_LOCK),
        "Linux 5.15 or later",
    )
}

fn delayed_ack_limit() -> Fact {
    fact(
        "TCP_DELACK_MAX_US",
        "a limit of delayed ACKs for a single socket",
        socket_option(libc::IPPROTO_TCP, TCP_DELACK_MAX_US),
        "a later kernel",
    )
}

fn socket_option(level: libc::c_int, option: libc::c_int) -> Result<String, String> {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)
        .map_err(|error| error.to_string())?;
    let mut value: libc::c_int = 0;
    let mut length = libc::socklen_t::try_from(size_of_val(&value)).expect("4 bytes");
    // SAFETY: `value` has `length` bytes, and both outlive the call.
    let outcome = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw mut value).cast(),
            &raw mut length,
        )
    };
    if outcome == 0 {
        Ok("known to this kernel".into())
    } else {
        Err(io::Error::last_os_error().to_string())
    }
}

/// Tried on this very process, for which no capability is needed.
fn calls_of_programs() -> Fact {
    let outcome = match crate::supervise::is_supported() {
        true => Ok("there".into()),
        false => Err("not there, or forbidden by a seccomp filter".to_owned()),
    };
    fact(
        "seccomp notification",
        "`run`: short connections, and settings from outside",
        outcome,
        "use Linux 5.5 with CONFIG_SECCOMP_FILTER; allow `seccomp` in a container",
    )
}

fn descriptors_of_others() -> Fact {
    let copied = || {
        let own = File::open("/dev/null")?;
        let pid = rustix::process::getpid();
        let process = pidfd_open(pid, PidfdFlags::empty())?;
        pidfd_getfd(&process, own.as_fd().as_raw_fd(), PidfdGetfdFlags::empty())?;
        io::Result::Ok(pid)
    };
    fact(
        "pidfd_getfd",
        "reading and changing options of live sockets (`fit --pid`, `apply`)",
        copied()
            .map(|_: Pid| "works on own processes; on those of others with CAP_SYS_PTRACE".into())
            .map_err(|error| error.to_string()),
        "Linux 5.6 or later, and no seccomp filter of a container against it",
    )
}

fn congestion_controls() -> Fact {
    let path = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    fact(
        "congestion control",
        "the list of those that can be chosen",
        fs::read_to_string(path)
            .map(|text| text.trim().to_owned())
            .map_err(|error| error.to_string()),
        "mount /proc",
    )
}

fn cgroups() -> Fact {
    // The name of a directory may be in any encoding.
    let mounts = fs::read("/proc/self/mounts").unwrap_or_default();
    let mounts = String::from_utf8_lossy(&mounts);
    let mount = mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (at, kind) = (fields.next()?, fields.next()?);
        (kind == "cgroup2").then(|| at.to_owned())
    });
    fact(
        "cgroup2",
        "the filter `cgroup` of `diagnose`",
        mount.ok_or_else(|| "not mounted".into()),
        "`mount -t cgroup2 none /sys/fs/cgroup`",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_tried_and_what_fails_has_a_remedy() {
        let facts = Capabilities::probe().facts;
        let names: Vec<_> = facts.iter().map(|fact| fact.name).collect();
        for name in ["kernel", "CAP_NET_ADMIN", "TUN device", "user namespaces"] {
            assert!(names.contains(&name), "{name} of {names:?}");
        }
        for fact in &facts {
            assert!(!fact.detail.is_empty(), "{fact:?}");
            assert!(fact.ok || !fact.remedy.is_empty(), "{fact:?}");
        }
        assert!(facts[0].ok, "{:?}", facts[0]);
    }
}
