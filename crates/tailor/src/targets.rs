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
    /// Whether it is a subflow of Multipath TCP: the kernel made its socket, and only its program
    /// reaches the options of it.
    pub is_subflow: bool,
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
        Some(Change {
            target: self.end(proposal)?.target(proposal.knob.scope)?,
            knob: proposal.knob.name.into(),
            to: proposal.to.clone(),
        })
    }

    /// The same; `None` also where its program alone can make it.
    pub(crate) fn change_by_others(&self, proposal: &Proposal) -> Option<Change> {
        let is_its_own = proposal.knob.scope == Scope::Socket && self.end(proposal)?.is_subflow;
        match is_its_own {
            true => None,
            false => self.change(proposal),
        }
    }

    fn end(&self, proposal: &Proposal) -> Option<&End> {
        match (proposal.beside, proposal.side) {
            (Some(key), _) => self.beside.iter().find(|end| end.key == key),
            (None, Side::Local) => Some(&self.local),
            (None, Side::Remote) => self.remote.as_ref(),
        }
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
                destination: host_route(self.key.remote.ip())?,
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
/// address, and its packets follow the IPv4 route. `None` for an address that means another host on
/// each link: a route to it alone does not say which (RFC 4007, section 6).
pub(crate) fn host_route(address: IpAddr) -> Option<String> {
    match address.to_canonical() {
        IpAddr::V4(address) => Some(format!("{address}/32")),
        IpAddr::V6(address) => (!address.is_unicast_link_local()).then(|| format!("{address}/128")),
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
            is_subflow: false,
        }
    }

    fn proposal(side: Side, knob: &str) -> Proposal {
        Proposal {
            side,
            beside: None,
            knob: find_knob(knob).unwrap(),
            to: KnobValue::Flag(true),
            live: Live::Now,
            risk: "",
        }
    }

    fn check(ends: &Ends, side: Side, knob: &str, expected: Option<&str>) {
        let change = ends
            .change(&proposal(side, knob))
            .map(|change| change.to_string());
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

    /// It is reported, but cannot be tried.
    #[test]
    fn only_its_program_sets_options_of_a_subflow() {
        let ends = |is_subflow| Ends {
            local: End {
                is_subflow,
                ..end(Some(4127), None)
            },
            remote: None,
            beside: Vec::new(),
        };
        let check = |is_subflow: bool, knob: &str, expected: bool| {
            let proposal = proposal(Side::Local, knob);
            let by_others = ends(is_subflow).change_by_others(&proposal);
            assert_eq!(by_others.is_some(), expected, "{knob}, {is_subflow}");
            assert!(ends(is_subflow).change(&proposal).is_some());
        };
        check(true, "nodelay", false);
        check(true, "route.initcwnd", true);
        check(true, "net.ipv4.tcp_wmem", true);
        check(false, "nodelay", true);
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
        let check = |address: &str, expected: Option<&str>| {
            assert_eq!(host_route(address.parse().unwrap()).as_deref(), expected);
        };
        check("::ffff:10.0.0.9", Some("10.0.0.9/32"));
        check("fd00::9", Some("fd00::9/128"));
        check("fe80::9", None);
    }
}
