//! A program that is running on this machine, with its present traffic.

use std::time::Duration;

use anyhow::Context;
use base::{Change, FlowSample, Netns, Target};
use doctor::Track;
use linux::{Filter, NetnsHandle, ScanRequest, Setting, SockDiag};
use tailor::{Look, Settings, Subject};

use super::journalled::Journalled;
use super::{lacks, wait, watch};
use crate::commands::diagnose::seen;
use crate::output::Output;

/// A process and the namespace of its sockets.
pub(crate) struct ProcessSubject<'o> {
    settings: Journalled,
    pid: u32,
    filter: Filter,
    netns: NetnsHandle,
    netns_name: Netns,
    output: &'o Output,
}

impl<'o> ProcessSubject<'o> {
    /// The connections of `pid`.
    pub(crate) fn open(pid: u32, lease: Duration, output: &'o Output) -> anyhow::Result<Self> {
        // What the user may not see he hears of first.
        crate::commands::watching::check_may_see(pid)?;
        Self::with(Journalled::of_machine(lease)?, pid, output)
    }

    /// The connections of `pid`, to be looked at only.
    pub(crate) fn look_only(pid: u32, output: &'o Output) -> anyhow::Result<Self> {
        crate::commands::watching::check_may_see(pid)?;
        Self::with(Journalled::none(), pid, output)
    }

    fn with(settings: Journalled, pid: u32, output: &'o Output) -> anyhow::Result<Self> {
        let filter = format!("pid = {pid}")
            .parse()
            .context("the filter for one process")?;
        let netns_name = crate::commands::watching::netns_of_process(pid);
        let netns = NetnsHandle::open(&netns_name)?;
        Ok(Self {
            settings,
            pid,
            filter,
            netns,
            netns_name,
            output,
        })
    }
}

impl Subject for ProcessSubject<'_> {
    type Error = anyhow::Error;

    fn look(&mut self, time: Duration) -> anyhow::Result<Look> {
        let here = watch(self.output, &self.netns, self.filter.clone(), time)?;
        if here.process_ended {
            anyhow::bail!("process {} ended while it was measured", self.pid);
        }
        Ok(Look::new((here, self.netns_name.clone()), None, |here| {
            tailor::measure_of(here, |track| self.wants(track))
        }))
    }

    fn wait(&mut self, time: Duration) -> anyhow::Result<()> {
        wait(self.output, "settling".into(), time, None)
    }

    fn wants(&self, track: &Track) -> bool {
        seen::selects(&self.filter, track)
    }

    fn lacks(&self, target: &Target) -> Option<&'static str> {
        lacks(target)
    }

    fn can_reconnect(&self) -> bool {
        false
    }

    fn reconnect(&mut self) -> anyhow::Result<()> {
        anyhow::bail!("process {} opens its connections itself", self.pid)
    }

    fn on_listener(&mut self, change: &Change) -> anyhow::Result<Option<Change>> {
        let Target::Socket {
            netns, pid, key, ..
        } = &change.target
        else {
            return Ok(None);
        };
        if *netns != self.netns_name {
            return Ok(None);
        }
        let request = ScanRequest {
            listeners: true,
            no_connections: true,
            local_port: Some(key.local.port()),
            ..ScanRequest::default()
        };
        let listeners = SockDiag::open_in(&self.netns)?.scan(&request)?;
        let on_socket = |sample: FlowSample| {
            Some(Change {
                target: Target::Socket {
                    netns: netns.clone(),
                    pid: *pid,
                    cookie: sample.cookie?,
                    key: sample.key,
                },
                ..change.clone()
            })
        };
        // Of a socket that is in nobody's hands nothing can be read.
        let own = |change: &Change| {
            Setting::open(&change.target, &change.knob).is_ok_and(|setting| setting.read().is_ok())
        };
        Ok(listeners.into_iter().filter_map(on_socket).find(own))
    }

    fn settings(&mut self) -> &mut dyn Settings<Error = anyhow::Error> {
        &mut self.settings
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use base::{FlowKey, KnobValue};

    use super::*;

    #[test]
    fn the_listener_of_an_accepted_socket_is_found_by_its_port() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let client = TcpStream::connect(listener.local_addr().expect("bound")).expect("a server");
        let (accepted, _) = listener.accept().expect("a client");
        let output = Output::new(&crate::cli::Globals::default());
        let pid = std::process::id();
        let mut subject = ProcessSubject::look_only(pid, &output).expect("it is ours");
        let mut change = |socket: &TcpStream, pid: u32| {
            let target = Target::Socket {
                netns: subject.netns_name.clone(),
                pid,
                cookie: 1,
                key: FlowKey {
                    local: socket.local_addr().expect("connected"),
                    remote: socket.peer_addr().expect("connected"),
                },
            };
            let change = Change {
                target,
                knob: "buf_lock".into(),
                to: KnobValue::Number(0),
            };
            subject.on_listener(&change).expect("sockets are listed")
        };
        let found = change(&accepted, pid).expect("a listener");
        let Target::Socket { key, .. } = &found.target else {
            panic!("{found:?}");
        };
        assert_eq!(key.local, listener.local_addr().expect("bound"));
        assert_eq!(found.to, KnobValue::Number(0));
        // Who connected listens nowhere.
        assert_eq!(change(&client, pid), None);
    }
}
