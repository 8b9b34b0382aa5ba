//! Anonymised recordings: addresses, programs and interfaces become numbers.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use base::{FlowKey, FlowSample};

use super::{ProcessInfo, Recording, SocketOwner};

/// The names that were given so far.
#[derive(Default)]
struct Names {
    addresses: BTreeMap<IpAddr, IpAddr>,
    programs: BTreeMap<String, String>,
    interfaces: BTreeMap<String, String>,
}

impl Names {
    /// Loopback addresses stay: they show that both ends are on one machine.
    fn address(&mut self, address: SocketAddr) -> SocketAddr {
        let ip = address.ip();
        if ip.to_canonical().is_loopback() || ip.is_unspecified() {
            return address;
        }
        let number = u32::try_from(self.addresses.len() + 1).unwrap_or(u32::MAX);
        let other = match ip.to_canonical() {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::from_bits(10 << 24 | number)),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::from_bits(0xfd << 120 | u128::from(number))),
        };
        let ip = *self.addresses.entry(ip.to_canonical()).or_insert(other);
        SocketAddr::new(ip, address.port())
    }

    fn key(&mut self, key: FlowKey) -> FlowKey {
        FlowKey {
            local: self.address(key.local),
            remote: self.address(key.remote),
        }
    }

    fn program(&mut self, process: &ProcessInfo) -> ProcessInfo {
        let other = format!("program-{}", self.programs.len() + 1);
        let command = self
            .programs
            .entry(process.command.clone())
            .or_insert(other);
        ProcessInfo {
            pid: process.pid,
            command: command.clone(),
            cmdline: String::new(),
            cgroup: None,
        }
    }

    fn interface(&mut self, name: &str) -> String {
        let other = format!("if{}", self.interfaces.len() + 1);
        let known = self.interfaces.entry(name.to_owned()).or_insert(other);
        known.clone()
    }
}

impl Recording {
    /// Replaces addresses, programs and interfaces consistently by numbers, and removes users,
    /// command lines and control groups. Ports and process IDs stay.
    pub fn anonymize(&mut self) {
        let mut names = Names::default();
        for track in &mut self.flows {
            track.key = names.key(track.key);
            track.interface = track.interface.as_deref().map(|name| names.interface(name));
            // It may name a path.
            if track.options_error.is_some() {
                track.options_error = Some("not read".into());
            }
            for owner in &mut track.owners {
                *owner = SocketOwner {
                    fd: owner.fd,
                    process: Arc::new(names.program(&owner.process)),
                };
            }
            let nameless = |sample: Arc<FlowSample>| FlowSample {
                key: track.key,
                uid: None,
                cgroup_id: None,
                ..FlowSample::clone(&sample)
            };
            track.samples = track.samples.iter().map(nameless).collect();
        }
        for host in &mut self.hosts {
            for link in &mut host.links {
                link.name = names.interface(&link.name);
            }
            for listener in &mut host.listeners {
                listener.local = names.address(listener.local);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::Track;
    use base::{HostSample, Instant, LinkSample};

    #[test]
    fn names_are_numbers_and_the_same_stays_the_same() {
        let track = |port: u16, remote: &str| {
            let key = FlowKey {
                local: SocketAddr::from(([192, 0, 2, 7], port)),
                remote: remote.parse().unwrap(),
            };
            let process = ProcessInfo {
                pid: 9,
                command: "secret".into(),
                cmdline: "secret --password x".into(),
                cgroup: Some("/secret".into()),
            };
            Track {
                key,
                cookie: 1,
                owners: vec![SocketOwner {
                    fd: 3,
                    process: Arc::new(process),
                }],
                samples: [FlowSample {
                    uid: Some(1000),
                    ..FlowSample::empty(Instant::ZERO, key)
                }]
                .into_iter()
                .collect(),
                ended: false,
                interface: Some("secret0".into()),
                options_error: Some("secret".into()),
            }
        };
        let link = LinkSample {
            name: "secret0".into(),
            ..LinkSample::default()
        };
        let mut recording = Recording {
            flows: vec![track(1, "198.51.100.2:443"), track(2, "[2001:db8::2]:443")],
            hosts: vec![HostSample {
                links: vec![link],
                ..HostSample::default()
            }],
            ..Recording::default()
        };
        recording.anonymize();
        let text = format!("{recording:?}");
        for word in ["secret", "192.0.2", "198.51", "2001:db8", "1000"] {
            assert!(!text.contains(word), "{word} in {text}");
        }
        let [first, second] = recording.flows.as_slice() else {
            panic!("two connections");
        };
        assert_eq!(first.key.local.ip(), second.key.local.ip());
        assert_eq!(first.samples.first().expect("one").key, first.key);
        assert_eq!(first.owners[0].process.command, "program-1");
        assert_eq!(first.interface.as_deref(), Some("if1"));
        assert_eq!(recording.hosts[0].links[0].name, "if1");
        assert_eq!(second.key.remote.to_string(), "[fd00::3]:443");
    }
}
