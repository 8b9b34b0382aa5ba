//! One knob at one target: reading it, setting it, putting it back.
//!
//! Nothing here remembers anything; what must survive a crash is the work of [`crate::journal`].

use std::borrow::Cow;
use std::fs;
use std::io;
use std::os::fd::AsFd;

use base::knob::LinuxSite;
use base::{Change, FlowKey, Knob, KnobError, KnobValue, Netns, Target, find_knob};

use crate::error::{Error, Result};
use crate::netlink::route::{self, Destination};
use crate::netlink::{link, qdisc};
use crate::netns::NetnsHandle;
use crate::remote_socket::{OwnerProcess, RemoteSocket};
use crate::state::State;
use crate::{sockopt, sysctl};

/// Letters of a wrong name that are shown.
const NAME_SHOWN: usize = 40;

/// One knob at one target, in a namespace that is held open.
#[derive(Debug)]
pub struct Setting {
    site: Site,
    knob: &'static Knob,
    netns: NetnsHandle,
    /// Whether the calling thread is there already, so that no permission to enter is needed.
    is_here: bool,
}

/// A target whose kind fits the knob.
#[derive(Debug)]
enum Site {
    Socket(SocketSite),
    Route(Destination),
    Mtu(String),
    Txqueuelen(String),
    Qdisc(String),
    Sysctl(&'static str),
}

impl Setting {
    /// Checks that knob and target fit each other, and opens the target's namespace. The target
    /// itself is looked up by each operation.
    ///
    /// # Errors
    /// [`Error::Knob`] where the knob is unknown or not one of this kind of target;
    /// [`Error::NotFound`] and [`Error::Permission`] for the namespace.
    pub fn open(target: &Target, knob: &str) -> Result<Self> {
        // A socket is reached through its process, wherever its namespace is.
        let netns = match target {
            Target::Socket { pid, .. } => match NetnsHandle::open(target.netns()) {
                Err(Error::NotFound { .. }) => NetnsHandle::open(&Netns::OfProcess(*pid))
                    .map_err(|error| gone(error, &target.to_string()))?,
                other => other?,
            },
            _ => NetnsHandle::open(target.netns())?,
        };
        Self::open_in(netns, target, knob)
    }

    /// As [`Setting::open`], in a namespace that was found otherwise.
    pub(crate) fn open_in(netns: NetnsHandle, target: &Target, knob: &str) -> Result<Self> {
        let knob = find_knob(knob)?;
        let is_here = netns.inode()? == NetnsHandle::open(&Netns::Own)?.inode()?;
        Ok(Self {
            site: Site::of(target, knob)?,
            knob,
            netns,
            is_here,
        })
    }

    /// Checks that `change` can be asked for at all: known knob, fitting target, value in range.
    ///
    /// # Errors
    /// [`Error::Knob`], [`Error::Refused`] for a destination that cannot be read and for what an
    /// open connection cannot change.
    pub fn check(change: &Change) -> Result<()> {
        let knob = find_knob(&change.knob)?;
        knob.check_for_linux(&change.to)?;
        if matches!(change.target, Target::Socket { .. }) && knob.name == "mss" {
            // do_tcp_setsockopt would take it and tcp_sync_mss would not look at it any more: the
            // segment size was agreed in the handshake.
            return Err(Error::Refused {
                what: format!("mss of the {}", change.target),
                reason: "it is agreed when a connection opens; set route.advmss for new ones"
                    .into(),
            });
        }
        Site::of(&change.target, knob).map(drop)
    }

    /// The knob.
    #[must_use]
    pub const fn knob(&self) -> &'static Knob {
        self.knob
    }

    /// The inode number of the namespace.
    ///
    /// # Errors
    /// Where the kernel refuses `fstat`.
    pub fn netns_inode(&self) -> Result<u64> {
        self.netns.inode()
    }

    /// Cookie that tells the namespace from later ones with the same inode number; see
    /// [`NetnsHandle::cookie`].
    pub(crate) fn netns_cookie(&self) -> Option<u64> {
        self.netns.cookie()
    }

    /// Index that tells an interface from later ones of the same name; `None` for targets that are
    /// neither an interface nor its queue.
    ///
    /// # Errors
    /// [`Error::NotFound`] where there is none of this name.
    pub(crate) fn link_index(&self) -> Result<Option<u32>> {
        match &self.site {
            Site::Mtu(name) | Site::Txqueuelen(name) | Site::Qdisc(name) => {
                Ok(Some(self.inside(|| link::read(name))?.index))
            }
            Site::Socket(_) | Site::Route(_) | Site::Sysctl(_) => Ok(None),
        }
    }

    /// Reads the setting.
    ///
    /// # Errors
    /// [`Error::NotFound`] where the target is gone, [`Error::Unsupported`] where this kernel lacks
    /// the setting, [`Error::Permission`] where it is not ours to read.
    pub fn read(&self) -> Result<State> {
        match &self.site {
            Site::Socket(_) => sockopt::read(self.socket()?.as_fd(), self.knob),
            Site::Route(destination) => self.inside(|| {
                let route = route::find_exact(*destination)?;
                let value = route.as_ref().and_then(|route| route.metric(self.knob));
                Ok(State::Route { route, value })
            }),
            Site::Mtu(name) => Ok(plain(self.inside(|| link::read(name))?.mtu)),
            Site::Txqueuelen(name) => Ok(plain(self.inside(|| link::read(name))?.txqueuelen)),
            Site::Qdisc(link) => {
                let queue = self.inside(|| qdisc::read(link))?;
                Ok(State::Qdisc {
                    kind: queue.kind,
                    handle: queue.handle,
                    limit: queue.limit.into(),
                })
            }
            Site::Sysctl(name) => {
                let text = self.inside(|| sysctl::read(name))?;
                Ok(State::Sysctl { text })
            }
        }
    }

    /// Sets the setting, in one step of the kernel. The kernel may clip the value; read it back.
    ///
    /// # Errors
    /// As [`Setting::read`], and [`Error::Knob`] for a value that is none of this knob's.
    pub fn write(&self, value: &KnobValue) -> Result<()> {
        self.knob.check_for_linux(value)?;
        match &self.site {
            Site::Socket(_) => sockopt::write(self.socket()?.as_fd(), self.knob, value),
            Site::Route(destination) => {
                self.inside(|| route::set_metric(*destination, self.knob, value))
            }
            Site::Mtu(name) => {
                let mtu = self.u32_of(value)?;
                self.inside(|| set_mtu(name, mtu))
            }
            Site::Txqueuelen(name) => {
                let packets = self.u32_of(value)?;
                self.inside(|| link::set_txqueuelen(name, packets))
            }
            Site::Qdisc(link) => {
                let limit = self.u32_of(value)?;
                self.inside(|| qdisc::write(link, limit))
            }
            Site::Sysctl(name) => self.inside(|| sysctl::write(name, &sysctl_text(value))),
        }
    }

    /// Puts back the state that [`Setting::read`] returned before a [`Setting::write`].
    ///
    /// # Errors
    /// As [`Setting::write`].
    pub fn restore(&self, old: &State) -> Result<()> {
        let plain_value = || match old {
            State::Plain { value } => Ok(value.clone()),
            _ => Err(self.foreign_state()),
        };
        match (&self.site, old) {
            (Site::Socket(_), _) => sockopt::restore(self.socket()?.as_fd(), self.knob, old),
            (Site::Route(destination), State::Route { route, .. }) => self.inside(|| {
                route::restore(route.as_ref(), route::find_exact(*destination)?.as_ref())
            }),
            (Site::Mtu(_) | Site::Txqueuelen(_), _) => self.write(&plain_value()?),
            (Site::Qdisc(link), State::Qdisc { limit, .. }) => {
                let limit = self.u32_of(&KnobValue::Number(*limit))?;
                self.inside(|| qdisc::write(link, limit))
            }
            (Site::Sysctl(name), State::Sysctl { text }) => {
                self.inside(|| sysctl::write(name, text))
            }
            _ => Err(self.foreign_state()),
        }
    }

    /// Whether `present` can be what writing `to` over `old` has made of the setting: the question
    /// after a crash that came before the result was recorded.
    pub(crate) fn is_result_of(&self, present: &State, old: &State, to: &KnobValue) -> bool {
        match (present, old) {
            // The kernel limits a size from above and, far below, from below.
            (State::Buffer { bytes, locked }, _) => {
                const SMALLEST_SNDBUF: u64 = 4608;
                let asked = number_of(to).saturating_mul(2);
                *locked && *bytes <= asked.max(SMALLEST_SNDBUF)
            }
            (State::Route { route, value }, State::Route { route: before, .. }) => {
                let rest_is_same = match (route, before) {
                    (Some(route), Some(before)) => route.differs_only_in(before, self.knob),
                    (Some(_), None) => true,
                    (None, _) => false,
                };
                rest_is_same && value.as_ref() == Some(to)
            }
            (State::Sysctl { text }, _) => *text == sysctl_text(to),
            // The kernel rounds times up to its tick.
            (
                State::Plain {
                    value: KnobValue::Number(micros),
                },
                _,
            ) if self.knob.kind == base::knob::Kind::Micros => {
                const SLOWEST_TICK_MICROS: u64 = 10_000;
                (number_of(to)..=number_of(to) + SLOWEST_TICK_MICROS).contains(micros)
            }
            _ => present.value().as_ref() == Some(to),
        }
    }

    /// Whether writing `to` over `old` would change nothing.
    #[must_use]
    pub fn is_already(&self, old: &State, to: &KnobValue) -> bool {
        old.is_exactly(to) && !self.is_volatile()
    }

    /// Whether the process that the target names holds the socket itself. It can be set all the
    /// same where only another one holds it, as a child that inherited it.
    #[must_use]
    pub fn is_of_named_process(&self) -> bool {
        match &self.site {
            Site::Socket(socket) => socket.open_in(socket.pid).is_ok(),
            _ => false,
        }
    }

    /// Whether the kernel changes the value by itself, so that a value other than the one we wrote
    /// has no meaning (`TCP_QUICKACK`: tcp(7), "the flag is not permanent").
    pub(crate) fn is_volatile(&self) -> bool {
        self.knob.name == "quickack"
    }

    /// Shell commands that do what [`Setting::write`] does, or a comment where no command can.
    ///
    /// # Errors
    /// As [`Setting::read`].
    pub fn shell_command(&self, target: &Target, value: &KnobValue) -> Result<String> {
        let inside = |program: &str| match target.netns() {
            Netns::Own => program.to_owned(),
            Netns::Named(name) => format!("ip netns exec {} {program}", quoted(name)),
            Netns::OfProcess(pid) => format!("nsenter --net --target {pid} {program}"),
            Netns::Simulated(name) => format!("# on simulated {name}: {program}"),
        };
        Ok(match &self.site {
            Site::Socket(_) => {
                format!("# no shell command sets {} of the {target}", self.knob.name)
            }
            Site::Route(destination) => self.inside(|| {
                let route = route::preview(*destination, self.knob, value)?;
                Ok(match route.command_words(link_name) {
                    Some(words) => inside(&format!("ip route replace {words}")),
                    None => format!("# the route {route} has parts that `ip route` cannot say"),
                })
            })?,
            Site::Mtu(name) => inside(&format!("ip link set dev {} mtu {value}", quoted(name))),
            Site::Txqueuelen(name) => inside(&format!(
                "ip link set dev {} txqueuelen {value}",
                quoted(name)
            )),
            Site::Qdisc(link) => {
                let queue = self.inside(|| qdisc::read(link))?;
                let link = quoted(link);
                match queue.kind.as_str() {
                    "pfifo" | "bfifo" => inside(&format!(
                        "tc qdisc change dev {link} root handle {:x}: {} limit {value}",
                        queue.handle >> 16,
                        queue.kind
                    )),
                    kind => format!(
                        "# `tc qdisc change dev {link} root {kind} ... limit {value}`, with the \
                         rate and burst that `tc qdisc show dev {link}` prints"
                    ),
                }
            }
            Site::Sysctl(name) => inside(&format!("sysctl -w '{name}={}'", sysctl_text(value))),
        })
    }

    /// Does `work` in the namespace.
    fn inside<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        if self.is_here {
            work()
        } else {
            self.netns.run(work)?
        }
    }

    fn socket(&self) -> Result<RemoteSocket> {
        match &self.site {
            Site::Socket(socket) => socket.open(),
            _ => Err(self.foreign_state()),
        }
    }

    fn u32_of(&self, value: &KnobValue) -> Result<u32> {
        match value {
            KnobValue::Number(number) => u32::try_from(*number).map_err(|_| self.foreign_state()),
            _ => Err(self.foreign_state()),
        }
    }

    fn foreign_state(&self) -> Error {
        Error::Peer(format!("the saved state is not one of {}", self.knob.name))
    }
}

/// Refuses what cannot be the name of anything, before it becomes a part of a path.
fn check_names(target: &Target) -> Result<()> {
    let refuse = |name: &str, what: &str| {
        // A long one is not repeated.
        let name: String = name.chars().take(NAME_SHOWN).collect();
        Err(Error::Refused {
            what: format!("`{name}`"),
            reason: format!("not the name of {what}"),
        })
    };
    if let Netns::Named(name) = target.netns()
        && !crate::netns::is_name(name)
    {
        return refuse(name, "a namespace (`ip netns` lists them)");
    }
    // dev_valid_name: shorter than IFNAMSIZ, without `/`, `:` and white space.
    let is_link_name = |name: &str| {
        let is_bad = |byte: u8| matches!(byte, b'/' | b':' | 0) || byte.is_ascii_whitespace();
        (1..16).contains(&name.len()) && !matches!(name, "." | "..") && !name.bytes().any(is_bad)
    };
    match target {
        Target::Link { name, .. } | Target::Qdisc { link: name, .. } if !is_link_name(name) => {
            refuse(name, "an interface (`ip link` lists them)")
        }
        _ => Ok(()),
    }
}

impl Site {
    fn of(target: &Target, knob: &Knob) -> Result<Self> {
        let Some(linux) = knob.linux else {
            return Err(KnobError::NotInLinux { knob: knob.name }.into());
        };
        check_names(target)?;
        Ok(match (target, linux) {
            (
                Target::Socket {
                    netns: _,
                    pid,
                    cookie,
                    key,
                },
                LinuxSite::SocketOption { .. },
            ) => Self::Socket(SocketSite {
                pid: *pid,
                cookie: *cookie,
                key: *key,
                name: target.to_string(),
            }),
            (Target::Route { destination, .. }, LinuxSite::RouteMetric { .. }) => {
                Self::Route(destination.parse()?)
            }
            (Target::Link { name, .. }, LinuxSite::LinkMtu) => Self::Mtu(name.clone()),
            (Target::Link { name, .. }, LinuxSite::LinkTxqueuelen) => {
                Self::Txqueuelen(name.clone())
            }
            (Target::Qdisc { link, .. }, LinuxSite::QdiscLimit) => Self::Qdisc(link.clone()),
            (Target::Namespace { .. }, LinuxSite::Sysctl { name }) => Self::Sysctl(name),
            _ => {
                return Err(Error::Knob(KnobError::Invalid {
                    knob: knob.name,
                    reason: format!("it is a setting of a {:?}, not of the {target}", knob.scope)
                        .to_lowercase(),
                }));
            }
        })
    }
}

/// A socket, and where it was when it was found.
#[derive(Debug)]
struct SocketSite {
    pid: u32,
    cookie: u64,
    key: FlowKey,
    name: String,
}

impl SocketSite {
    /// The socket that has this cookie: that of the process, or, where that has ended or closed it,
    /// of another one that holds it still, as a child does that inherited it. It is to be dropped
    /// soon: while it is open, the connection does not end when the program closes it.
    fn open(&self) -> Result<RemoteSocket> {
        let missing = match self.open_in(self.pid) {
            Err(error @ Error::NotFound { .. }) => error,
            other => return other,
        };
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        processes
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter(|other| *other != self.pid)
            .find_map(|other| self.open_in(other).ok())
            .ok_or_else(|| match self.is_subflow() {
                true => Error::Refused {
                    what: format!("the {}", self.name),
                    reason: "it is a subflow of Multipath TCP, whose options only its program can \
                             set"
                    .into(),
                },
                false => missing,
            })
    }

    /// The socket that has this cookie in this process, whatever its descriptor is.
    fn open_in(&self, pid: u32) -> Result<RemoteSocket> {
        let process = OwnerProcess::open(pid).map_err(|error| gone(error, &self.name))?;
        for number in self.sockets_of(pid)? {
            match process.socket(number, self.cookie) {
                // Another socket, or closed since it was listed.
                Err(Error::NotFound { .. }) => {}
                other => return other,
            }
        }
        Err(not_there(&self.name))
    }

    /// Whether the process has it as a connection of Multipath TCP.
    fn is_subflow(&self) -> bool {
        let process = OwnerProcess::open(self.pid);
        let (Ok(process), Ok(mut numbers)) = (process, self.sockets_of(self.pid)) else {
            return false;
        };
        numbers.any(|number| process.holds_multipath(number, self.key))
    }

    /// The descriptors of this process that are sockets.
    fn sockets_of(&self, pid: u32) -> Result<impl Iterator<Item = i32>> {
        let directory = format!("/proc/{pid}/fd");
        let entries = fs::read_dir(&directory).map_err(|source| match source.kind() {
            io::ErrorKind::PermissionDenied => Error::Permission {
                what: format!("reaching the {}", self.name),
                needs: "CAP_SYS_PTRACE",
                hint: "run as root, or as the user of that process".into(),
            },
            _ => Error::Os {
                op: format!("list {directory}"),
                source,
            },
        })?;
        let is_socket = |entry: &fs::DirEntry| {
            fs::read_link(entry.path())
                .is_ok_and(|link| link.as_os_str().as_encoded_bytes().starts_with(b"socket:"))
        };
        let sockets = entries.flatten().filter(is_socket);
        Ok(sockets.filter_map(|entry| entry.file_name().to_str()?.parse().ok()))
    }
}

/// Below an MTU of 1280, Linux takes IPv6 off an interface (RFC 8200 section 5), with addresses
/// that no undo brings back.
fn set_mtu(link: &str, mtu: u32) -> Result<()> {
    const IPV6_MTU_MIN: u32 = 1280;
    let has_ipv6 = || {
        fs::read_to_string("/proc/thread-self/net/if_inet6").is_ok_and(|table| {
            let mut links = table.lines().map(|line| line.split_whitespace().last());
            links.any(|found| found == Some(link))
        })
    };
    if mtu < IPV6_MTU_MIN && has_ipv6() {
        return Err(Error::Refused {
            what: format!("interface {link}: MTU {mtu}"),
            reason: format!(
                "below {IPV6_MTU_MIN} it loses its IPv6 addresses for good; set route.mtu, or \
                 remove the addresses first"
            ),
        });
    }
    link::set_mtu(link, mtu)
}

fn gone(error: Error, name: &str) -> Error {
    match error {
        Error::NotFound { .. } => not_there(name),
        other => other,
    }
}

fn not_there(name: &str) -> Error {
    Error::NotFound {
        what: "connection",
        name: name.into(),
        hint: " any more; it was closed or its process has ended".into(),
    }
}

fn plain(number: u32) -> State {
    State::Plain {
        value: KnobValue::Number(number.into()),
    }
}

fn number_of(value: &KnobValue) -> u64 {
    match value {
        KnobValue::Number(number) => *number,
        KnobValue::Flag(on) => u64::from(*on),
        KnobValue::Triple(_) | KnobValue::Name(_) => 0,
    }
}

/// The text that the kernel takes for a value.
pub(crate) fn sysctl_text(value: &KnobValue) -> String {
    match value {
        KnobValue::Flag(on) => u8::from(*on).to_string(),
        other => other.to_string(),
    }
}

/// A name as one word of a shell. Linux 6.18 net/core/dev.c, dev_valid_name, keeps little out of
/// the name of an interface: `;reboot;` is one, and a container names its own.
fn quoted(name: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.@".contains(c);
    if !name.is_empty() && name.chars().all(is_plain) {
        return name.into();
    }
    format!("'{}'", name.replace('\'', r"'\''")).into()
}

/// The name of an interface in the namespace of the calling thread, as a word of a shell.
fn link_name(index: u32) -> Option<String> {
    let any = rustix::net::socket(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::DGRAM,
        None,
    )
    .ok()?;
    let name = rustix::net::netdevice::index_to_name(&any, index).ok()?;
    Some(quoted(&name).into_owned())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use socket2::{Domain, Protocol, Socket, Type};

    use super::*;

    #[test]
    fn a_name_stays_one_word_of_the_shell() {
        let check = |name: &str, expected: &str| assert_eq!(quoted(name), expected);
        check("eth0.5", "eth0.5");
        check("veth@if3", "veth@if3");
        check(";reboot;", "';reboot;'");
        check("$(x)'`y`", r"'$(x)'\''`y`'");
        check("", "''");
    }

    #[test]
    fn a_subflow_of_multipath_tcp_is_said_to_be_one() {
        let kind = Some(Protocol::from(libc::IPPROTO_MPTCP));
        let client = match Socket::new(Domain::IPV4, Type::STREAM, kind) {
            Ok(client) => client,
            Err(error) => return crate::asking::skip(format!("Multipath TCP: {error}")),
        };
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let remote = listener.local_addr().expect("bound");
        client.connect(&remote.into()).expect("a listener");
        let local = client.local_addr().expect("connected").as_socket();
        let key = FlowKey {
            local: local.expect("an address of IP"),
            remote,
        };
        let check = |key: FlowKey, expected: &str| {
            let target = Target::Socket {
                netns: Netns::Own,
                pid: std::process::id(),
                // That of the subflow, which no descriptor has.
                cookie: u64::MAX,
                key,
            };
            let setting = Setting::open(&target, "nodelay").expect("it fits");
            let error = setting.read().expect_err("no such socket").to_string();
            assert!(error.contains(expected), "{error}");
        };
        check(key, "it is a subflow of Multipath TCP");
        check(key.reversed(), "does not exist any more");
        // One of the same end here to another one is none of it, and may have closed.
        let remote = ([127, 0, 0, 2], remote.port()).into();
        check(FlowKey { remote, ..key }, "does not exist any more");
    }
}
