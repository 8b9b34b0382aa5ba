//! Owners of sockets: process, name, CPU time, and control group.
//!
//! Read from `/proc`. The descriptors of other users' processes are visible only with
//! `CAP_SYS_PTRACE` (root); what could not be seen is counted, not guessed.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use doctor::{ProcessInfo, SocketOwner};

use crate::error::{Error, Result};

/// Owners of sockets at the time of the scan.
#[derive(Clone, Debug, Default)]
pub struct SocketOwners {
    by_inode: BTreeMap<u64, Vec<SocketOwner>>,
    unseen_processes: usize,
}

impl SocketOwners {
    /// Looks through the descriptors of every process once.
    ///
    /// # Errors
    /// Where `/proc` is not mounted, or no descriptor is left to look with. A process that ends
    /// meanwhile is not an error.
    pub fn scan() -> Result<Self> {
        let entries = fs::read_dir("/proc").map_err(Error::os("list /proc"))?;
        let mut owners = Self::default();
        for entry in entries.flatten() {
            if let Some(pid) = number(&entry.file_name()) {
                owners
                    .add_process(pid)
                    .map_err(Error::os("look into the processes"))?;
            }
        }
        Ok(owners)
    }

    /// Looks through the descriptors of these processes only.
    #[must_use]
    pub fn of_processes(pids: impl IntoIterator<Item = u32>) -> Self {
        let mut owners = Self::default();
        for pid in pids {
            // What is not found here is looked for everywhere, which reports the cause.
            owners.add_process(pid).ok();
        }
        owners
    }

    /// The holders of the socket with this inode; several where a process forked, none where it is
    /// not known. The lowest process number comes first.
    #[must_use]
    pub fn of(&self, inode: u64) -> &[SocketOwner] {
        self.by_inode.get(&inode).map_or(&[], Vec::as_slice)
    }

    /// Number of sockets whose holder is known.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_inode.len()
    }

    /// Whether no socket was seen.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_inode.is_empty()
    }

    /// Processes whose descriptors we may not see: their sockets seem to have no owner.
    #[must_use]
    pub const fn unseen_processes(&self) -> usize {
        self.unseen_processes
    }

    /// Adds what a later scan saw; where both know a socket, the later one is right.
    pub(crate) fn update(&mut self, newer: Self) {
        self.unseen_processes = self.unseen_processes.max(newer.unseen_processes);
        for (inode, owners) in newer.by_inode {
            self.by_inode.insert(inode, owners);
        }
    }

    /// Drops what is known of a socket, as where its owner no longer holds it.
    pub(crate) fn forget(&mut self, inode: u64) {
        self.by_inode.remove(&inode);
    }

    /// Drops what is known of all other sockets.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(u64) -> bool) {
        self.by_inode.retain(|inode, _| is_kept(*inode));
    }

    fn add_process(&mut self, pid: u32) -> io::Result<()> {
        let entries = match fs::read_dir(format!("/proc/{pid}/fd")) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.unseen_processes += 1;
                return Ok(());
            }
            Err(error) if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) => {
                return Err(error);
            }
            Err(_) => return Ok(()), // it ended
        };
        // Made at the first socket: most processes have none.
        let mut process = None;
        for entry in entries.flatten() {
            let Ok(link) = fs::read_link(entry.path()) else {
                continue;
            };
            let (Some(inode), Some(fd)) = (socket_inode(&link), number(&entry.file_name())) else {
                continue;
            };
            let Some(process) = process.get_or_insert_with(|| process_info(pid)) else {
                return Ok(());
            };
            self.by_inode.entry(inode).or_default().push(SocketOwner {
                fd: fd.cast_signed(),
                process: Arc::clone(process),
            });
        }
        Ok(())
    }
}

/// The names of a process; `None` where it is gone.
#[must_use]
pub fn process_info(pid: u32) -> Option<Arc<ProcessInfo>> {
    let command = fs::read(format!("/proc/{pid}/comm")).ok()?;
    let cmdline = cmdline(pid).unwrap_or_default();
    let words: Vec<_> = cmdline
        .split(|&byte| byte == 0)
        .filter(|word| !word.is_empty())
        .map(harmless)
        .collect();
    Some(Arc::new(ProcessInfo {
        pid,
        command: harmless(command.trim_ascii_end()),
        cmdline: words.join(" "),
        cgroup: process_cgroup(pid),
    }))
}

/// The beginning of a process's arguments: it may give itself megabytes of them.
fn cmdline(pid: u32) -> std::io::Result<Vec<u8>> {
    const BYTES_MAX: u64 = 4096;
    let mut bytes = Vec::new();
    fs::File::open(format!("/proc/{pid}/cmdline"))?
        .take(BYTES_MAX)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A name that a process or its user chose, fit for a terminal: invalid text and control characters
/// are replaced.
fn harmless(name: &[u8]) -> String {
    base::harmless(&String::from_utf8_lossy(name))
}

/// Whether this process ignores a signal, as `nohup` has its program ignore SIGHUP (proc(5),
/// `SigIgn`).
#[must_use]
pub fn ignores_signal(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// When a process started, in clock ticks since the boot: with it, a number that was given again is
/// told from the process that had it before. `None` where there is none, or it has ended and was
/// only not waited for yet.
pub(crate) fn process_start_ticks(pid: u32) -> Option<u64> {
    start_ticks_in(&fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// Field 22 of `/proc/PID/stat` (proc(5)), counted behind the command in field 2. The command is
/// whatever the process calls itself: it may hold spaces and brackets, and bytes that are no text
/// (the kernel cuts it at 15 bytes, also within a letter).
fn start_ticks_in(stat: &[u8]) -> Option<u64> {
    const FIELDS_FROM_STATE: usize = 22 - 3;
    let command_end = stat.iter().rposition(|&byte| byte == b')')?;
    let behind = std::str::from_utf8(&stat[command_end + 1..]).ok()?;
    let mut fields = behind.split_ascii_whitespace();
    let has_ended = matches!(fields.clone().next(), Some("Z" | "X"));
    if has_ended {
        return None;
    }
    fields.nth(FIELDS_FROM_STATE)?.parse().ok()
}

/// CPU time that all threads of a process have used since it began, to the nanosecond; `None` where
/// it is gone. Needs no privilege.
#[must_use]
pub fn process_cpu_time(pid: u32) -> Option<Duration> {
    let pid = libc::pid_t::try_from(pid).ok().filter(|&pid| pid > 0)?;
    let mut clock: libc::clockid_t = 0;
    // SAFETY: `clock` is a valid place for the clock's number during the call.
    if unsafe { libc::clock_getcpuclockid(pid, &raw mut clock) } != 0 {
        return None;
    }
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid place for the time during the call; a clock whose process ended
    // meanwhile is answered by an error.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return None;
    }
    let seconds = u64::try_from(time.tv_sec).ok()?;
    Some(Duration::new(seconds, u32::try_from(time.tv_nsec).ok()?))
}

/// The control group (version 2) of a process, beginning with `/`; `None` where the process is gone
/// or in none.
#[must_use]
pub fn process_cgroup(pid: u32) -> Option<String> {
    let text = fs::read(format!("/proc/{pid}/cgroup")).ok()?;
    // Version 1 hierarchies have a number other than 0 or a controller's name.
    let mut lines = text.split(|&byte| byte == b'\n');
    lines
        .find_map(|line| line.strip_prefix(b"0::"))
        .map(harmless)
}

/// The number by which the kernel calls a control group (`FlowSample::cgroup_id`): the inode of its
/// directory. `None` where there is no such group, or version 2 is not mounted.
#[must_use]
pub fn cgroup_id(path: &str) -> Option<u64> {
    let mounts = fs::read("/proc/self/mountinfo").ok()?;
    let mounts = String::from_utf8_lossy(&mounts);
    let root = mounts.lines().find_map(cgroup2_mount)?;
    let directory = root.join(path.trim_start_matches('/'));
    Some(fs::metadata(directory).ok()?.ino())
}

/// The place of a cgroup2 file system in a line of `mountinfo`.
fn cgroup2_mount(line: &str) -> Option<PathBuf> {
    let (mount, file_system) = line.split_once(" - ")?;
    file_system
        .starts_with("cgroup2 ")
        .then(|| mount.split(' ').nth(4).map(PathBuf::from))?
}

fn number(name: &std::ffi::OsStr) -> Option<u32> {
    name.to_str()?.parse().ok()
}

/// The inode in `socket:[4711]`.
fn socket_inode(link: &Path) -> Option<u64> {
    let inode = link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
    inode.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn our_own_socket_is_found_with_its_descriptor() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let link = fs::read_link(format!("/proc/self/fd/{}", socket.as_raw_fd())).expect("a link");
        let inode = socket_inode(&link).expect("a socket");
        let pid = std::process::id();
        for owners in [
            SocketOwners::scan().expect("/proc"),
            SocketOwners::of_processes([pid]),
        ] {
            let owner = owners
                .of(inode)
                .iter()
                .find(|owner| owner.pid() == pid)
                .expect("our own socket");
            assert_eq!(owner.fd, socket.as_raw_fd());
            assert!(!owner.process.command.is_empty());
            assert!(!owner.process.cmdline.contains('\0'));
        }
        assert!(SocketOwners::of_processes([pid]).of(0).is_empty());
    }

    #[test]
    fn the_start_is_found_behind_any_name() {
        let check = |name: &[u8], state: &str, expected| {
            let mut stat = [b"17 (", name, b") "].concat();
            stat.extend_from_slice(state.as_bytes());
            stat.extend_from_slice(b" 1 17 17 0 -1 4194560 1 0 0 0 2 3 4 5 20 0 1 0 4711 8 9\n");
            assert_eq!(start_ticks_in(&stat), expected, "{name:?}");
        };
        check(b"sleep", "S", Some(4711));
        check(b"a) R 1 2 (b c", "S", Some(4711));
        // A Cyrillic name, cut within its second letter.
        check(b"\xd1\x81\xd0", "R", Some(4711));
        check(b"gone", "Z", None);
        assert_eq!(start_ticks_in(b"17 (cut"), None);
        assert_eq!(start_ticks_in(b"17 (cut) S 1 2"), None);
        assert!(process_start_ticks(std::process::id()).is_some());
    }

    #[test]
    fn a_process_that_is_gone_has_nothing() {
        let gone = u32::MAX;
        assert!(process_info(gone).is_none());
        assert!(process_cpu_time(gone).is_none());
        assert!(process_cpu_time(0).is_none(), "0 would be ourselves");
        assert!(process_cgroup(gone).is_none());
        assert!(SocketOwners::of_processes([gone]).is_empty());
    }

    #[test]
    fn a_process_cannot_write_to_the_terminal_by_its_name() {
        let evil = "\u{1b}]0;owned\u{7}";
        let long = "x".repeat(20_000);
        let mut child = std::process::Command::new("sh")
            .args(["-c", "echo; read line", evil, &long])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("a shell");
        let stdout = child.stdout.as_mut().expect("piped");
        stdout.read_exact(&mut [0]).expect("it runs");
        let info = process_info(child.id());
        child.kill().expect("our own child");
        child.wait().expect("our own child");
        let info = info.expect("it ran");
        assert!(info.cmdline.contains("owned"), "{info:?}");
        assert!(!info.cmdline.contains(char::is_control), "{info:?}");
        assert!(info.cmdline.len() < 5_000, "{}", info.cmdline.len());
        assert_eq!(
            harmless(b"caf\xc3\xa9 \xff\n"),
            "caf\u{e9} \u{fffd}\u{fffd}"
        );
    }

    #[test]
    fn our_own_cpu_time_grows_with_work() {
        let before = process_cpu_time(std::process::id()).expect("we live");
        let mut sum = 0_u64;
        while process_cpu_time(std::process::id()).expect("we live") == before {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
    }

    #[test]
    fn the_mount_of_version_2_is_found_among_others() {
        let v1 = "31 24 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu";
        let v2 = "30 24 0:26 / /sys/fs/cgroup/unified rw,nosuid - cgroup2 cgroup2 rw";
        assert_eq!(cgroup2_mount(v1), None);
        assert_eq!(
            cgroup2_mount(v2),
            Some(PathBuf::from("/sys/fs/cgroup/unified"))
        );
        assert_eq!(cgroup2_mount(""), None);
    }

    #[test]
    fn only_links_to_sockets_have_an_inode() {
        let check = |link: &str, inode| assert_eq!(socket_inode(Path::new(link)), inode, "{link}");
        check("socket:[4711]", Some(4711));
        check("pipe:[4711]", None);
        check("socket:[]", None);
        check("/tmp/socket:[1]", None);
    }
}
