//! A program that is running on this machine, with the traffic that it has.

use std::time::Duration;

use anyhow::Context;
use base::{Change, Netns, Target};
use doctor::Track;
use linux::{Filter, NetnsHandle};
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

    fn on_listener(&mut self, _change: &Change) -> anyhow::Result<Option<Change>> {
        Ok(None)
    }

    fn settings(&mut self) -> &mut dyn Settings<Error = anyhow::Error> {
        &mut self.settings
    }
}
