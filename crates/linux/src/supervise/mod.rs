//! Running a program and knowing its TCP sockets from their first packet, for unmodified programs
//! of any language; and giving those sockets other settings from outside.
//!
//! The program runs under a seccomp filter that shows us its calls of `connect` and `listen`, and
//! those by which it would change what is set from outside. While such a call waits, the socket is
//! taken by `pidfd_getfd`, looked at and set, and given back; then the kernel carries the call out.
//! Sockets that the program accepts inherit from the one that listens. It never reads or changes
//! the program's memory, and never holds a call up longer than that.
//!
//! What it does not see: connections opened through `io_uring`, sockets that the program got from
//! others, and programs that others run for it (a container's daemon).

mod filter;
mod inherited;
mod keeper;
mod listener;
mod setting;
mod shared_number;
mod supervisor;
mod tree;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};

use self::keeper::Keeper;
use self::listener::Listener;
pub use self::setting::SocketSetting;
pub use self::supervisor::{Noted, Notes, SettingOutcome, Tally};
use crate::error::{Error, Result};
use crate::netns::NetnsHandle;

/// A program to run.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// The program and its arguments.
    pub command: &'a [OsString],
    /// Namespace to run in; the calling thread's if `None`.
    pub netns: Option<&'a NetnsHandle>,
    /// Settings of its sockets, and the place where they are noted.
    pub notes: &'a Notes,
    /// Whether it is put under a filter. Settings need one.
    pub filter: Filtering,
}

/// Whether a program is put under a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filtering {
    /// Not at all.
    Never,
    /// Where the program loses nothing by it: it is not set-uid, and the kernel permits it.
    WherePossible,
    /// Or it does not run.
    Required,
}

/// Why a program did not start.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// There is none of this name.
    #[error("{name}: no such program")]
    NotFound {
        /// Name as given.
        name: String,
    },
    /// It exists and cannot be run.
    #[error("{name}: {source}")]
    NotRunnable {
        /// Name as given.
        name: String,
        /// Why not.
        source: io::Error,
    },
    /// Something of ours failed.
    #[error(transparent)]
    Ours(#[from] Error),
}

/// A program that runs.
#[derive(Debug)]
pub struct Running {
    pid: Pid,
    /// Why there is no filter, where there is none.
    unfiltered: Option<String>,
    /// Takes over when this is dropped, or this process ends.
    _keeper: Option<Keeper>,
    /// Its processes are looked for until this is set.
    ended: Arc<AtomicBool>,
}

/// How often the processes of the program are looked for: where a filter tells who connects, those
/// matter only that got their sockets otherwise.
const FAMILY_EVERY_UNFILTERED: Duration = Duration::from_millis(5);
const FAMILY_EVERY: Duration = Duration::from_millis(50);

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

impl Ended {
    /// As a shell shows it: 128 and the number of the signal.
    #[must_use]
    pub fn shell_code(self) -> u8 {
        let code = match self {
            Self::Code(code) => code,
            Self::Signal(signal) => 128 + signal,
        };
        u8::try_from(code & 0xff).unwrap_or(u8::MAX)
    }
}

impl From<ExitStatus> for Ended {
    fn from(status: ExitStatus) -> Self {
        match status.code() {
            Some(code) => Self::Code(code),
            None => Self::Signal(status.signal().unwrap_or_default()),
        }
    }
}

/// Processes that descend from this one now, 10 000 at most.
#[must_use]
pub fn descendants(pid: u32) -> BTreeSet<u32> {
    let mut seen = BTreeSet::new();
    tree::add_descendants(pid, &mut seen);
    seen
}

/// Starts a program. Its descriptors, its environment and its terminal are ours. From now on, what
/// its descendants leave behind when their parents end become children of this process.
///
/// # Errors
/// [`LaunchError`]; a filter that is required and not permitted is a permission or a feature that
/// is missing.
pub fn launch(launch: &Launch<'_>) -> Result<Running, LaunchError> {
    match launch.netns {
        None => launch_here(launch),
        Some(netns) => netns.run(|| launch_here(launch))?,
    }
}

fn launch_here(launch: &Launch<'_>) -> Result<Running, LaunchError> {
    let [name, arguments @ ..] = launch.command else {
        return Err(not_found(&OsString::new()));
    };
    // Descendants stay descendants: `tree`, and Yama, which lets us look into those only.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(Error::errno("become the parent of what the program leaves"))?;
    let mut command = Command::new(name);
    command.args(arguments);
    if let Some(unfiltered) = refusal(launch, name) {
        let pid = spawn(&mut command).map_err(|source| start_error(name, source))?;
        return Ok(Running::new(pid, launch.notes, Err(unfiltered)));
    }
    let (ours, theirs) = UnixStream::pair().map_err(Error::os("make a pair of sockets"))?;
    let is_required = launch.filter == Filtering::Required;
    let settings = launch.notes.settings();
    prepare(&mut command, &settings, is_required, theirs);
    let spawned = spawn(&mut command);
    let received = listener::receive(&ours);
    // Our copy of the other end goes with the command.
    drop(command);
    if let Ok(Err(source)) = received {
        let error = filter_error(source);
        if is_required {
            return Err(error.into());
        }
        let pid = spawned.map_err(|source| start_error(name, source))?;
        return Ok(Running::new(pid, launch.notes, Err(error.to_string())));
    }
    let pid = spawned.map_err(|source| start_error(name, source))?;
    let listener = received.ok().and_then(Result::ok);
    let keeper = listener.and_then(|listener| supervise(listener, launch.notes));
    Ok(Running::new(pid, launch.notes, Ok(keeper)))
}

/// Why the program is not to be put under a filter; `None` where it is.
fn refusal(launch: &Launch<'_>, name: &OsString) -> Option<String> {
    match launch.filter {
        Filtering::Never => Some("it was not asked for".into()),
        Filtering::Required => None,
        Filtering::WherePossible if !filter::is_supported() => {
            Some("no filter is made for this processor".into())
        }
        Filtering::WherePossible => {
            let gains = found_in_path(name).is_some_and(|path| gains_privileges(&path));
            (gains && !may_filter_freely())
                .then(|| format!("{} is set-uid", Path::new(name).display()))
        }
    }
}

/// Has the process put itself under the filter before it becomes the program.
fn prepare(
    command: &mut Command,
    settings: &[SocketSetting],
    is_required: bool,
    theirs: UnixStream,
) {
    let program = filter::program(settings);
    let install = move || {
        let installed = listener::install(&program, &theirs);
        match installed {
            Err(error) if is_required => Err(error),
            _ => Ok(()),
        }
    };
    // SAFETY: between `fork` and `exec` it only makes system calls on what is there already: no
    // allocation, no lock.
    unsafe { command.pre_exec(install) };
}

fn spawn(command: &mut Command) -> io::Result<Pid> {
    // Not waited for by this handle: `Running::wait` waits for all children.
    let child = command.spawn()?;
    pid_of(child.id()).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn pid_of(number: u32) -> Option<Pid> {
    i32::try_from(number).ok().and_then(Pid::from_raw)
}

/// Answers the program's calls from now on, on a thread that ends with it or with us.
fn supervise(listener: Listener, notes: &Notes) -> Option<Keeper> {
    // Without one the program is in danger only where we are killed.
    let keeper = Keeper::start(&listener).ok();
    let notes = notes.clone();
    let serve = move || supervisor::serve(&listener, &notes);
    let started = std::thread::Builder::new()
        .name("supervisor".into())
        .spawn(serve);
    match started {
        Ok(_) => keeper,
        // The keeper takes over at once.
        Err(_) => None,
    }
}

impl Running {
    /// With its keeper, if it is under a filter, or the reason why it is not.
    fn new(pid: Pid, notes: &Notes, filter: Result<Option<Keeper>, String>) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        inherited::note(pid.as_raw_pid().cast_unsigned(), notes);
        let (keeper, unfiltered) = match filter {
            Ok(keeper) => (keeper, None),
            Err(reason) => (None, Some(reason)),
        };
        let every = match unfiltered {
            Some(_) => FAMILY_EVERY_UNFILTERED,
            None => FAMILY_EVERY,
        };
        let (keeper_pid, is_over) = (keeper.as_ref().and_then(|k| k.pid), Arc::clone(&ended));
        let notes = notes.clone();
        let look = move || {
            while !is_over.load(Ordering::Relaxed) {
                let mut seen = BTreeSet::new();
                tree::add_descendants(std::process::id(), &mut seen);
                seen.retain(|&pid| keeper_pid != pid_of(pid));
                notes.lock().processes.extend(seen);
                std::thread::sleep(every);
            }
        };
        // Without it, sockets whose `connect` was not seen have no owner here.
        let _ = std::thread::Builder::new()
            .name("family".into())
            .spawn(look);
        Self {
            pid,
            unfiltered,
            _keeper: keeper,
            ended,
        }
    }

    /// The number of the program's process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid.as_raw_pid().cast_unsigned()
    }

    /// Why it is not under a filter, so that connections are known as the program's only if their
    /// owner was seen.
    #[must_use]
    pub fn unfiltered(&self) -> Option<&str> {
        self.unfiltered.as_deref()
    }

    /// Waits until the program has ended. What its descendants left to us is waited for as well.
    ///
    /// # Errors
    /// Where it is no longer our child.
    pub fn wait(&self) -> Result<Ended> {
        loop {
            let waited = rustix::io::retry_on_intr(|| rustix::process::wait(WaitOptions::empty()));
            match waited.map_err(Error::errno("wait for the program"))? {
                Some((pid, status)) if pid == self.pid => {
                    if let Some(ended) = ended(status) {
                        return Ok(ended);
                    }
                }
                _ => {}
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

/// Whether the kernel can show a program's calls to its parent (Linux 5.0), on this processor and
/// within the filters of this process.
#[must_use]
pub fn is_supported() -> bool {
    filter::is_supported() && listener::is_supported()
}

/// Sends a signal to a process that [`launch`] has started.
///
/// # Errors
/// Where it has ended.
pub fn send_signal(pid: u32, signal: i32) -> Result<()> {
    let failed = || Error::Peer(format!("signal {signal} cannot be sent to process {pid}"));
    let signal = Signal::from_named_raw(signal).ok_or_else(failed)?;
    let pid = pid_of(pid).ok_or_else(failed)?;
    rustix::process::kill_process(pid, signal).map_err(Error::errno("send a signal"))
}

/// Whether a Ctrl-C in this terminal reaches the program as it reaches us.
#[must_use]
pub fn shares_terminal() -> bool {
    let Ok(terminal) = std::fs::File::open("/dev/tty") else {
        return false;
    };
    let foreground = rustix::termios::tcgetpgrp(&terminal);
    foreground.is_ok_and(|group| group == rustix::process::getpgrp())
}

fn ended(status: WaitStatus) -> Option<Ended> {
    let code = status.exit_status().map(Ended::Code);
    code.or_else(|| status.terminating_signal().map(Ended::Signal))
}

fn not_found(name: &OsString) -> LaunchError {
    LaunchError::NotFound {
        name: Path::new(name).display().to_string(),
    }
}

fn start_error(name: &OsString, source: io::Error) -> LaunchError {
    match source.kind() {
        io::ErrorKind::NotFound => not_found(name),
        // execvp(3): so it ends too where a directory of PATH may not be searched.
        io::ErrorKind::PermissionDenied if !is_in_path(name) => not_found(name),
        _ => LaunchError::NotRunnable {
            name: Path::new(name).display().to_string(),
            source,
        },
    }
}

/// Whether a name leads to a file: by itself where it is a path, else in a directory of `PATH`.
fn is_in_path(name: &OsString) -> bool {
    let name = Path::new(name);
    if name.components().count() > 1 || name.is_absolute() {
        return true;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

fn filter_error(source: io::Error) -> Error {
    let what = "looking at a program's calls (seccomp user notification)".to_owned();
    match source.raw_os_error() {
        Some(libc::EBUSY) => Error::Refused {
            what,
            reason: "this process runs under such a filter already; only one is possible".into(),
        },
        Some(libc::EINVAL | libc::ENOSYS) => Error::Unsupported {
            what,
            hint: "it needs Linux 5.5 with CONFIG_SECCOMP_FILTER".into(),
        },
        Some(libc::EPERM | libc::EACCES) => Error::Permission {
            what,
            needs: "seccomp(2)",
            hint: "a container's own filter forbids it; allow the call `seccomp` there".into(),
        },
        _ => Error::Os { op: what, source },
    }
}

/// Whether a filter can be installed without taking from the program the right to gain privileges.
fn may_filter_freely() -> bool {
    let sets = rustix::thread::capabilities(None);
    sets.is_ok_and(|sets| {
        sets.effective
            .contains(rustix::thread::CapabilitySet::SYS_ADMIN)
    })
}

/// The file that `exec` will run.
fn found_in_path(name: &OsString) -> Option<PathBuf> {
    if Path::new(name).components().count() > 1 {
        return Some(PathBuf::from(name));
    }
    let path = std::env::var_os("PATH")?;
    let mut places = std::env::split_paths(&path).map(|place| place.join(name));
    places.find(|place| {
        place
            .metadata()
            .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    })
}

/// Whether running a file gives privileges that the caller does not have: set-uid, set-gid, or
/// capabilities of the file.
fn gains_privileges(path: &Path) -> bool {
    const SET_IDS: u32 = libc::S_ISUID | libc::S_ISGID;
    let by_mode = path.metadata().is_ok_and(|file| file.mode() & SET_IDS != 0);
    let mut value = [0; 64];
    by_mode || rustix::fs::getxattr(path, "security.capability", &mut value[..]).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_uid_programs_are_recognised() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        std::fs::write(&path, "").unwrap();
        assert!(!gains_privileges(&path));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o4755)).unwrap();
        assert!(gains_privileges(&path));
        let found = |name: &str| found_in_path(&OsString::from(name));
        assert!(found("sh").is_some_and(|path| path.ends_with("sh")));
        assert_eq!(found("no-such-program"), None);
        assert_eq!(found("./x/y"), Some(PathBuf::from("./x/y")));
    }
}
