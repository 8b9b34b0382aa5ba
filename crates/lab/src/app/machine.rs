//! Builds a host with our stack, for every engine that has one, from its profile and the knobs of a
//! trial, with the program that runs on it.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use base::settings::Held;
use base::{Bytes, KnobValue, Scope, find_knob};
use stack::HostConfig;
use stack::profile::Profile;

use super::{HostCosts, ProgramSpec};
use crate::outcome::Caveat;
use crate::trial::{End, Settings};
use crate::workload::{Amount, Workload};

/// Time at the start of a workload that is bounded by time which does not count: slow start, and
/// the growth of automatic buffers. Workloads of an amount count from their first byte on.
pub const WARM_UP: Duration = Duration::from_secs(1);

/// A host to be: what knobs change of its profile.
#[derive(Clone, Debug)]
pub struct Machine {
    profile: Profile,
    mtu: Bytes,
    quickack: Option<bool>,
    corks: bool,
}

impl Machine {
    /// With everything as `profile` has it, on an interface of this MTU.
    #[must_use]
    pub const fn new(profile: Profile, mtu: Bytes) -> Self {
        Self {
            profile,
            mtu,
            quickack: None,
            corks: false,
        }
    }

    /// Has its programs keep so much in their send buffers.
    #[must_use]
    pub const fn holding(mut self, held: Option<Held>) -> Self {
        self.profile.settings.send.held = held;
        self
    }

    /// Whether a knob acts on more than single sockets.
    #[must_use]
    pub fn is_wide(knob: &str) -> bool {
        find_knob(knob).is_ok_and(|knob| knob.scope != Scope::Socket)
    }

    /// Sets a knob of any scope.
    ///
    /// # Errors
    /// Why it has no meaning here.
    pub fn set(&mut self, knob: &str, value: &KnobValue) -> Result<(), String> {
        match (knob, value) {
            // Accepted connections do not inherit it.
            ("cork", KnobValue::Flag(on)) => self.corks = *on,
            // The kernel clears it by itself, so programs set it before each read.
            ("quickack", KnobValue::Flag(on)) => self.quickack = Some(*on),
            ("link.mtu" | "route.mtu", KnobValue::Number(bytes)) => self.mtu = Bytes(*bytes),
            // What leaves a host here is on its path at once.
            ("link.txqueuelen", _) => {
                return Err(
                    "no packet waits in an interface here; `path.queue` is the queue before the \
                     slowest link"
                        .into(),
                );
            }
            // No connection here knows of an earlier one, and TCP has buffers of its own.
            (
                "net.ipv4.tcp_no_metrics_save" | "net.core.rmem_default" | "net.core.wmem_default",
                _,
            ) => {}
            _ => {
                let settings = &mut self.profile.settings;
                return find_knob(knob)
                    .and_then(|knob| knob.set(settings, value))
                    .map_err(|error| error.to_string());
            }
        }
        Ok(())
    }

    /// Sets all knobs: what a program asks of its socket wins over what its host gives all of them.
    ///
    /// # Returns
    /// What could not be set.
    pub fn set_all(&mut self, settings: &Settings) -> Vec<Caveat> {
        let (wide, narrow): (Vec<_>, Vec<_>) =
            settings.iter().partition(|(knob, _)| Self::is_wide(knob));
        let refused = wide.into_iter().chain(narrow).filter_map(|(knob, value)| {
            let why = self.set(knob, value).err()?;
            Some(Caveat::SettingNotApplied {
                knob: (*knob).to_owned(),
                why,
            })
        });
        refused.collect()
    }

    /// The host at this address; `seed` decides everything random.
    #[must_use]
    pub fn host_config(&self, addr: IpAddr, seed: u64) -> HostConfig {
        let mut config = HostConfig::of(&self.profile, addr, seed);
        config.mtu = u16::try_from(self.mtu.0).unwrap_or(u16::MAX);
        config
    }

    /// The program at one end, with a server at `address`. Its calls take no time, and it looks at
    /// all payload.
    #[must_use]
    pub fn program(self, end: End, workload: &Workload, address: SocketAddr) -> ProgramSpec {
        let mut settings = self.profile.settings;
        // An accepted socket does not inherit a cork.
        settings.small_writes.cork = self.corks && end == End::Client;
        let warmup = match workload.amount() {
            Amount::Time(_) => WARM_UP,
            Amount::Bytes(_) | Amount::Operations(_) => Duration::ZERO,
        };
        ProgramSpec {
            workload: workload.clone(),
            address,
            settings,
            quickack: self.quickack,
            corks_accepted: self.corks && end == End::Server,
            warmup,
            costs: HostCosts::NONE,
            checks_payload: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use stack::profile;

    use super::*;

    #[test]
    fn what_a_program_asks_of_its_socket_wins_over_its_host() {
        let set = |pairs: &[(&str, &str)]| -> (Machine, Vec<String>) {
            let settings = pairs.iter().map(|(name, text)| {
                let knob = find_knob(name).expect("a knob");
                (knob.name, knob.parse(text).expect("a value"))
            });
            let mut machine = Machine::new(profile::linux_6_18(), Bytes(1500));
            let refused = machine.set_all(&settings.collect());
            (machine, refused.iter().map(ToString::to_string).collect())
        };
        let congestion = |machine: &Machine| machine.profile.settings.congestion.clone();
        let (wanted, _) = set(&[("congestion", "reno")]);
        let (both, refused) = set(&[
            ("congestion", "reno"),
            ("route.congctl", "bbr"),
            ("link.mtu", "1400"),
        ]);
        assert_eq!(refused, [""; 0]);
        assert_eq!(congestion(&both), congestion(&wanted));
        let address = IpAddr::from([10, 77, 0, 1]);
        assert_eq!(both.host_config(address, 1).mtu, 1400);

        for knob in ["qdisc.limit", "link.txqueuelen"] {
            let (_, refused) = set(&[(knob, "5")]);
            assert_eq!(refused.len(), 1, "{refused:?}");
            assert!(refused[0].starts_with(&format!("{knob} was not set")));
        }
    }

    #[test]
    fn what_a_program_may_ask_for_does_not_bound_what_sizes_itself() {
        let set = |pairs: &[(&'static str, u64)]| {
            let mut machine = Machine::new(profile::linux_6_18(), Bytes(1500));
            let value = |bytes: &u64| KnobValue::Number(*bytes);
            let settings = pairs.iter().map(|(knob, bytes)| (*knob, value(bytes)));
            assert_eq!(machine.set_all(&settings.collect()), []);
            machine.profile.settings
        };
        let asked = set(&[("net.core.rmem_max", 20_000), ("rcvbuf", 1_000_000)]);
        assert_eq!(asked.recv.buffer.fixed, Some(40_000));
        let asked = set(&[("net.core.wmem_max", 20_000), ("sndbuf", 1_000_000)]);
        assert_eq!(asked.send.buffer.fixed, Some(40_000));

        let plain = profile::linux_6_18().settings;
        let by_itself = set(&[("net.core.rmem_max", 20_000)]);
        assert_eq!(by_itself.recv.buffer.max, plain.recv.buffer.max);
        assert_eq!(by_itself.recv.buffer.fixed, None);
        // TCP begins with the middle value of tcp_rmem.
        assert_eq!(set(&[("net.core.rmem_default", 20_000)]), plain);
        assert_eq!(set(&[("net.core.wmem_default", 20_000)]), plain);
    }

    #[test]
    fn a_cork_acts_where_linux_has_it() {
        let mut machine = Machine::new(profile::linux_6_18(), Bytes(1500));
        machine.set("cork", &KnobValue::Flag(true)).expect("a flag");
        let workload = Workload::Bulk {
            direction: crate::workload::Direction::Up,
            flows: 1,
            write_size: Bytes(1),
            unacked: None,
            amount: Amount::Operations(1),
        };
        let address = SocketAddr::from(([10, 77, 0, 2], 1));
        let of = |end| machine.clone().program(end, &workload, address);
        let corks = |spec: ProgramSpec| (spec.settings.small_writes.cork, spec.corks_accepted);
        assert_eq!(corks(of(End::Client)), (true, false));
        assert_eq!(corks(of(End::Server)), (false, true));
    }
}
