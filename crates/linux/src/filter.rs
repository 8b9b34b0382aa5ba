//! Filters of flows: a small language in the manner of `ss(8)`.
//!
//! ```
//! let filter: linux::Filter = "dport = :https and dst 10.0.0.0/8 and not comm = backup".parse()?;
//! assert!(filter.needs_owners());
//! # Ok::<(), linux::FilterError>(())
//! ```
//!
//! | test | meaning |
//! |---|---|
//! | `sport = :443`, `dport >= 1024`, `dport = :https` | local or remote port |
//! | `src 10.0.0.0/8`, `dst 10.0.0.9:443`, `dst [fd00::1]:22` | local or remote address |
//! | `10.0.0.9`, `10.0.0.9:443`, `:5201`, `localhost` | the same at either end |
//! | `pid = 123`, `comm = backup`, `uid = 1000` | owner of the socket |
//! | `cgroup = /system.slice` | control group of the owner or of the socket, or one below |
//! | `state established`, `state connected` | TCP state by the names of `ss` |
//!
//! Ports are compared by `=`, `!=`, `<`, `<=`, `>`, `>=`, the others by `=` and `!=`; `=` may be
//! left out. Tests are joined by `and` (or by nothing), `or`, `not`, and parentheses; `and` binds
//! tighter than `or`. Host names are not looked up: a filter must mean the same each time.

mod parse;
mod serving;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use base::{FlowSample, ListenerSample, TcpState};
use doctor::SocketOwner;

use crate::netns::NetnsHandle;
use crate::sock_diag::SockDiag;

pub use parse::FilterError;
pub use serving::Serving;

/// A parsed filter. The default lets every flow pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    root: Expr,
}

impl Filter {
    /// Whether this flow, held by these processes, is meant. Where the owners are not known, no
    /// test for an owner holds.
    #[must_use]
    pub fn matches(&self, sample: &FlowSample, owners: &[SocketOwner]) -> bool {
        self.root.matches(sample, owners)
    }

    /// Whether all flows are meant, whatever they are.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.root == Expr::default()
    }

    /// Whether owners decide: if not, they need not be looked up before [`Filter::matches`].
    #[must_use]
    pub fn needs_owners(&self) -> bool {
        self.root.any(&is_of_owners)
    }

    /// Whether a flow may come to match that did not before: by its state, or by its owners.
    #[must_use]
    pub fn may_change(&self) -> bool {
        self.needs_owners() || self.root.any(&|test| matches!(test, Test::State(_)))
    }

    /// Whether a state outside a connection's life is asked for by name, so that listeners have to
    /// be listed too.
    #[must_use]
    pub fn names_state(&self, state: TcpState) -> bool {
        self.root
            .any(&|test| matches!(test, Test::State(states) if states.contains(&state)))
    }

    /// The local and the remote port that every matching flow has, where the filter fixes them:
    /// what the kernel can sort out by itself.
    #[must_use]
    pub fn fixed_ports(&self) -> (Option<u16>, Option<u16>) {
        let fixed = |wanted: Side| {
            self.root.conjuncts().iter().find_map(|expr| match expr {
                Expr::Test(Test::Port(side, Comparison::Equal, port)) if *side == wanted => {
                    Some(*port)
                }
                _ => None,
            })
        };
        (fixed(Side::Local), fixed(Side::Remote))
    }

    /// The process that holds every matching flow, or accepts it, where the filter fixes one.
    #[must_use]
    pub fn fixed_pid(&self) -> Option<u32> {
        self.root.conjuncts().iter().find_map(|expr| match expr {
            Expr::Test(Test::Pid(pid, _)) => Some(*pid),
            _ => None,
        })
    }

    /// The same filter for a process that serves: see [`Serving`].
    #[must_use]
    pub fn with_serving(mut self, of: u32, serving: &Serving) -> Self {
        let parts = match &mut self.root {
            Expr::All(parts) => parts.as_mut_slice(),
            other => std::slice::from_mut(other),
        };
        for part in parts {
            if let Expr::Test(Test::Pid(pid, served)) = part
                && *pid == of
            {
                *served = Some(serving.clone());
            }
        }
        self
    }

    /// Looks up anew what a process serves in a namespace, where other sockets listen than before;
    /// does nothing without [`with_serving`](Self::with_serving). What it served stays where that
    /// cannot be listed, or where it listens on nothing any more.
    pub fn renew(&mut self, netns: &NetnsHandle) {
        let serves = |part: &Expr| matches!(part, Expr::Test(Test::Pid(_, Some(_))));
        if self.root.conjuncts().iter().any(serves)
            && let Ok(listeners) = SockDiag::open_in(netns).and_then(|mut diag| diag.listeners())
        {
            self.note_listeners(&listeners);
        }
    }

    /// Looks up anew what a process serves where other sockets listen than before; whether it did.
    pub(crate) fn note_listeners(&mut self, all: &[(ListenerSample, Option<u64>)]) -> bool {
        let parts = match &mut self.root {
            Expr::All(parts) => parts.as_mut_slice(),
            other => std::slice::from_mut(other),
        };
        let mut is_new = false;
        for part in parts {
            if let Expr::Test(Test::Pid(pid, Some(serving))) = part
                && !serving.has_seen(all)
            {
                serving.follow(Serving::among(*pid, all));
                is_new = true;
            }
        }
        is_new
    }

    /// Whether this flow is meant whoever holds it.
    #[must_use]
    pub fn matches_of_anybody(&self, sample: &FlowSample) -> bool {
        self.root.conjuncts().iter().all(|part| match part {
            Expr::Test(Test::Pid(_, serving)) => accepts(serving.as_ref(), sample),
            part => !part.any(&is_of_owners) && part.matches(sample, &[]),
        })
    }

    /// Gives the control groups named in it the numbers by which the kernel calls them, so that
    /// flows can be told by group even where their owners may not be seen.
    pub fn resolve_cgroups(&mut self, resolve: &dyn Fn(&str) -> Option<u64>) {
        self.root.resolve_cgroups(resolve);
    }
}

impl FromStr for Filter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        Ok(Self {
            root: parse::parse(text)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Expr {
    /// All of them; with none, everything.
    All(Vec<Expr>),
    /// At least one of them.
    Any(Vec<Expr>),
    Not(Box<Expr>),
    Test(Test),
}

impl Default for Expr {
    fn default() -> Self {
        Self::All(Vec::new())
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    Port(Side, Comparison, u16),
    Address(Side, Address),
    /// With what it serves, where that is asked for.
    Pid(u32, Option<Serving>),
    Uid(u32),
    Command(String),
    Cgroup {
        path: String,
        id: Option<u64>,
    },
    State(Vec<TcpState>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Local,
    Remote,
    Either,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// An address must lie in one of the prefixes, where there are any, and have the port, where there
/// is one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Address {
    prefixes: Vec<Prefix>,
    port: Option<u16>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Prefix {
    address: IpAddr,
    length_bits: u32,
}

impl Expr {
    fn matches(&self, sample: &FlowSample, owners: &[SocketOwner]) -> bool {
        match self {
            Self::All(parts) => parts.iter().all(|part| part.matches(sample, owners)),
            Self::Any(parts) => parts.iter().any(|part| part.matches(sample, owners)),
            Self::Not(part) => !part.matches(sample, owners),
            Self::Test(test) => test.matches(sample, owners),
        }
    }

    fn any(&self, wanted: &dyn Fn(&Test) -> bool) -> bool {
        match self {
            Self::All(parts) | Self::Any(parts) => parts.iter().any(|part| part.any(wanted)),
            Self::Not(part) => part.any(wanted),
            Self::Test(test) => wanted(test),
        }
    }

    /// Conditions that must hold in every case.
    fn conjuncts(&self) -> &[Self] {
        match self {
            Self::All(parts) => parts,
            _ => std::slice::from_ref(self),
        }
    }

    fn resolve_cgroups(&mut self, resolve: &dyn Fn(&str) -> Option<u64>) {
        match self {
            Self::All(parts) | Self::Any(parts) => {
                for part in parts {
                    part.resolve_cgroups(resolve);
                }
            }
            Self::Not(part) => part.resolve_cgroups(resolve),
            Self::Test(Test::Cgroup { path, id }) => *id = resolve(path),
            Self::Test(_) => {}
        }
    }
}

impl Test {
    fn matches(&self, sample: &FlowSample, owners: &[SocketOwner]) -> bool {
        match self {
            Self::Port(side, comparison, port) => {
                side.any(sample, |end| comparison.holds(end.port(), *port))
            }
            Self::Address(side, address) => side.any(sample, |end| address.contains(end)),
            Self::Pid(pid, serving) => {
                owners.iter().any(|owner| owner.pid() == *pid) || accepts(serving.as_ref(), sample)
            }
            Self::Uid(uid) => sample.uid == Some(*uid),
            Self::Command(name) => owners
                .iter()
                .any(|owner| is_command(&owner.process.command, name)),
            Self::Cgroup { path, id } => {
                (id.is_some() && sample.cgroup_id == *id)
                    || owners.iter().any(|owner| {
                        owner
                            .process
                            .cgroup
                            .as_deref()
                            .is_some_and(|group| is_below(group, path))
                    })
            }
            Self::State(states) => sample.state.is_some_and(|state| states.contains(&state)),
        }
    }
}

impl Side {
    fn any(self, sample: &FlowSample, holds: impl Fn(SocketAddr) -> bool) -> bool {
        match self {
            Self::Local => holds(sample.key.local),
            Self::Remote => holds(sample.key.remote),
            Self::Either => holds(sample.key.local) || holds(sample.key.remote),
        }
    }
}

impl Comparison {
    const fn holds(self, left: u16, right: u16) -> bool {
        match self {
            Self::Equal => left == right,
            Self::NotEqual => left != right,
            Self::Less => left < right,
            Self::LessOrEqual => left <= right,
            Self::Greater => left > right,
            Self::GreaterOrEqual => left >= right,
        }
    }
}

impl Address {
    fn contains(&self, end: SocketAddr) -> bool {
        self.port.is_none_or(|port| port == end.port())
            && (self.prefixes.is_empty()
                || self.prefixes.iter().any(|prefix| prefix.contains(end.ip())))
    }
}

impl Prefix {
    fn contains(self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(net), IpAddr::V4(address)) => {
                let differs = net.to_bits() ^ address.to_bits();
                differs.leading_zeros() >= self.length_bits
            }
            (IpAddr::V6(net), IpAddr::V6(address)) => {
                let differs = net.to_bits() ^ address.to_bits();
                differs.leading_zeros() >= self.length_bits
            }
            _ => false,
        }
    }
}

fn accepts(serving: Option<&Serving>, sample: &FlowSample) -> bool {
    serving.is_some_and(|serving| serving.accepts(sample.key.local))
}

/// Whether only those who hold a socket tell.
const fn is_of_owners(test: &Test) -> bool {
    matches!(
        test,
        Test::Pid(..) | Test::Command(_) | Test::Cgroup { id: None, .. }
    )
}

/// The kernel keeps the first 15 bytes of a name.
fn is_command(command: &str, name: &str) -> bool {
    command == name || (name.len() > 15 && command.len() == 15 && name.starts_with(command))
}

/// Both begin with `/`; `path` does not end with it.
fn is_below(group: &str, path: &str) -> bool {
    group
        .strip_prefix(path)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
