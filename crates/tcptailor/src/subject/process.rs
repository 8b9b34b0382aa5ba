//! A program that is running on this machine, with its present traffic.

use std::time::Duration;

use anyhow::Context;
use base::{Change, FlowSample, Netns, Target};
use doctor::{Place, Services, Track};
use lab::Measure;
use linux::{Clock, Filter, NetnsHandle, OwnerProcess, ScanRequest, Setting, SockDiag};
use tailor::{Counters, Look, Others, Settings, Subject};

use super::journalled::Journalled;
use super::{lacks, wait, watch};
use crate::commands::diagnose::seen;
use crate::output::Output;

/// A process and the namespace of its sockets.
pub(crate) struct ProcessSubject<'o> {
    settings: Journalled,
    pid: u32,
    /// Held, so that its number cannot come to mean another one; `None` before Linux 5.3.
    process: Option<OwnerProcess>,
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
        crate::commands::workers::check_has_connections(pid)?;
        Self::with(Journalled::of_machine(lease)?, pid, output)
    }

    /// The connections of `pid`, to be looked at only.
    pub(crate) fn look_only(pid: u32, output: &'o Output) -> anyhow::Result<Self> {
        crate::commands::watching::check_may_see(pid)?;
        crate::commands::workers::check_has_connections(pid)?;
        Self::with(Journalled::none(), pid, output)
    }

    fn with(settings: Journalled, pid: u32, output: &'o Output) -> anyhow::Result<Self> {
        let process = match OwnerProcess::open(pid) {
            Err(linux::Error::Unsupported { .. }) => None,
            opened => Some(opened?),
        };
        let filter: Filter = format!("pid = {pid}")
            .parse()
            .context("the filter for one process")?;
        let filter = filter.with_serving(pid, &crate::commands::watching::serving(pid));
        let netns_name = crate::commands::watching::netns_of_process(pid);
        let netns = NetnsHandle::open(&netns_name)?;
        Ok(Self {
            settings,
            pid,
            process,
            filter,
            netns,
            netns_name,
            output,
        })
    }

    fn check_runs(&self) -> anyhow::Result<()> {
        if self.process.as_ref().is_some_and(OwnerProcess::has_ended) {
            anyhow::bail!("process {} ended while it was measured", self.pid);
        }
        Ok(())
    }
}

impl Subject for ProcessSubject<'_> {
    type Error = anyhow::Error;

    fn look(&mut self, time: Duration) -> anyhow::Result<Look> {
        self.check_runs()?;
        let mut diag = SockDiag::open_in(&self.netns)?;
        let mut before = Counters::new(Clock.now());
        let all = ScanRequest::default();
        diag.scan_each(&all, &mut |sample| before.note(sample))?;
        let here = watch(self.output, &self.netns, self.filter.clone(), time)?;
        self.filter.renew(&self.netns);
        let mut others = Others::since(&before, Clock.now());
        diag.scan_each(&all, &mut |sample| others.note(&before, sample))?;
        // Another one may have its number by now.
        self.check_runs()?;
        let mut look = Look::new((here, self.netns_name.clone()), None, |here| Measure {
            beside_bps: others.bps_beside(here, |track| self.wants(track)),
            ..tailor::measure_of(here, |track| self.wants(track))
        });
        look.others = others;
        Ok(look)
    }

    fn measure_of_service(&self, look: &Look, place: Place) -> Measure {
        let services = Services::of(&look.here);
        let is_of_it = |track: &Track| self.wants(track) && services.place(track.key) == place;
        Measure {
            beside_bps: look.others.bps_beside(&look.here, is_of_it),
            ..tailor::measure_of(&look.here, is_of_it)
        }
    }

    fn wait(&mut self, time: Duration) -> anyhow::Result<()> {
        wait(self.output, "settling".into(), time, None)?;
        self.check_runs()
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

    fn on_listener(&mut self, change: &Change) -> anyhow::Result<Vec<Change>> {
        let Target::Socket {
            netns, pid, key, ..
        } = &change.target
        else {
            return Ok(Vec::new());
        };
        if *netns != self.netns_name {
            return Ok(Vec::new());
        }
        let request = ScanRequest {
            listeners: true,
            no_connections: true,
            local_port: Some(key.local.port()),
            ..ScanRequest::default()
        };
        let mut listeners = SockDiag::open_in(&self.netns)?.scan(&request)?;
        let accepted = key.local.ip();
        listeners.retain(|listener| linux::accepts(listener.key.local.ip(), accepted));
        // The kernel prefers the one of the address itself.
        listeners.sort_by_key(|listener| listener.key.local.ip().is_unspecified());
        let on_socket = |sample: &FlowSample, pid: u32| {
            Some(Change {
                target: Target::Socket {
                    netns: netns.clone(),
                    pid,
                    cookie: sample.cookie?,
                    key: sample.key,
                },
                ..change.clone()
            })
        };
        // Another process may listen on the same port: at another address, by SO_REUSEPORT, or for
        // this one, to which it hands connections on. A listener that neither it nor the process
        // that was asked for holds is not to change, nor one that has the value already.
        let own = |change: &Change| {
            Setting::open(&change.target, &change.knob).is_ok_and(|setting| {
                let differs = || setting.read().is_ok_and(|now| !now.is_exactly(&change.to));
                setting.is_of_named_process() && differs()
            })
        };
        let holders = [*pid, self.pid];
        let mut found: Vec<Change> = listeners
            .iter()
            .filter_map(|listener| {
                let changes = holders.iter().filter_map(|pid| on_socket(listener, *pid));
                changes.into_iter().find(own)
            })
            .collect();
        let address = |change: &Change| match &change.target {
            Target::Socket { key, .. } => Some(key.local),
            _ => None,
        };
        if let Some(preferred) = found.first().map(address) {
            found.retain(|change| address(change) == preferred);
        }
        Ok(found)
    }

    fn settings(&mut self) -> &mut dyn Settings<Error = anyhow::Error> {
        &mut self.settings
    }
}

#[cfg(test)]
mod tests;
