//! Turns proposals into changes. A verdict names a knob and the side it is to be turned on; which
//! socket, route, interface or namespace that is, follows from the flow that was seen.

use std::net::IpAddr;

use base::{Change, FlowKey, Netns, Scope, Target};
use doctor::{Proposal, Side};

/// One end of a flow, on a host where changes can be made.
#[derive(Clone, Debug)]
pub struct End {
    /// The namespace of its socket.
    pub netns: Netns,
    /// The flow as this end sees it.
    pub key: FlowKey,
    /// The socket's cookie.
    pub cookie: Option<u64>,
    /// A process that holds the socket.
    pub pid: Option<u32>,
    /// The interface through which it sends, or that drops its packets.
    pub link: Option<String>,
}

/// The ends of a flow that can be reached from here.
#[derive(Clone, Debug)]
pub struct Ends {
    /// The end on the host that was observed.
    pub local: End,
    /// `None` where it is on another machine.
    pub remote: Option<End>,
    /// Ends of other connections between the same hosts, at either side.
    pub beside: Vec<End>,
}

impl Ends {
    /// The change that carries out a proposal; `None` where it has to be made on another machine,
    /// or if the process, the cookie or the interface is unknown.
    #[must_use]
    pub fn change(&self, proposal: &Proposal) -> Option<Change> {
        let end = match (proposal.beside, proposal.side) {
            (Some(key), _) => self.beside.iter().find(|end| end.key == key)?,
            (None, Side::Local) => &self.local,
            (None, Side::Remote) => self.remote.as_ref()?,
        };
        Some(Change {
            target: end.target(proposal.knob.scope)?,
            knob: proposal.knob.name.into(),
            to: proposal.to.clone(),
        })
    }
}

impl End {
    fn target(&self, scope: Scope) -> Option<Target> {
        let netns = self.netns.clone();
        Some(match scope {
            Scope::Socket => Target::Socket {
                pid: match netns {
                    Netns::Simulated(_) => 0,
                    _ => self.pid?,
                },
                netns,
                cookie: self.cookie?,
                key: self.key,
            },
            Scope::Route => Target::Route {
                netns,
                destination: host_route(self.key.remote.ip()),
            },
            Scope::Link => Target::Link {
                netns,
                name: self.link.clone()?,
            },
            Scope::Qdisc => Target::Qdisc {
                netns,
                link: self.link.clone()?,
            },
            Scope::Namespace | Scope::Host => Target::Namespace { netns },
        })
    }
}

/// The smallest route that covers one host. A socket that speaks IPv4 through IPv6 has a mapped
/// address, and its packets follow the IPv4 route.
pub(crate) fn host_route(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(address) => format!("{address}/32"),
        IpAddr::V6(address) => format!("{address}/128"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{KnobValue, Live, find_knob};

    fn end(pid: Option<u32>, link: Option<&str>) -> End {
        End {
            netns: Netns::Named("lab-a".into()),
            key: FlowKey {
                local: "10.0.0.5:51514".parse().unwrap(),
                remote: "10.0.9.2:443".parse().unwrap(),
            },
            cookie: Some(7),
            pid,
            link: link.map(String::from),
        }
    }

    fn check(ends: &Ends, side: Side, knob: &str, expected: Option<&str>) {
        let proposal = Proposal {
            side,
            beside: None,
            knob: find_knob(knob).unwrap(),
            to: KnobValue::Flag(true),
            live: Live::Now,
            risk: "",
        };
        let change = ends.change(&proposal).map(|change| change.to_string());
        assert_eq!(change.as_deref(), expected);
    }

    #[test]
    fn each_scope_has_its_target() {
        let ends = Ends {
            local: end(Some(4127), Some("eth0")),
            remote: None,
            beside: Vec::new(),
        };
        check(
            &ends,
            Side::Local,
            "nodelay",
            Some("nodelay = on (socket 10.0.0.5:51514 10.0.9.2:443 of process 4127)"),
        );
        check(
            &ends,
            Side::Local,
            "route.quickack",
            Some("route.quickack = on (route to 10.0.9.2/32, namespace lab-a)"),
        );
        check(
            &ends,
            Side::Local,
            "link.txqueuelen",
            Some("link.txqueuelen = on (interface eth0, namespace lab-a)"),
        );
        check(
            &ends,
            Side::Local,
            "qdisc.limit",
            Some("qdisc.limit = on (queue of eth0, namespace lab-a)"),
        );
        check(
            &ends,
            Side::Local,
            "net.ipv4.tcp_sack",
            Some("net.ipv4.tcp_sack = on (sysctl, namespace lab-a)"),
        );
    }

    #[test]
    fn what_is_out_of_reach_has_none() {
        let ends = Ends {
            local: end(None, None),
            remote: None,
            beside: Vec::new(),
        };
        check(&ends, Side::Remote, "nodelay", None);
        check(&ends, Side::Local, "nodelay", None);
        check(&ends, Side::Local, "link.txqueuelen", None);
        assert_eq!(
            host_route("::ffff:10.0.0.9".parse().unwrap()),
            "10.0.0.9/32"
        );
        assert_eq!(host_route("fd00::9".parse().unwrap()), "fd00::9/128");
    }
}
