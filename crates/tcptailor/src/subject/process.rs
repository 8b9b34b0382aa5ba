//! A program that is running on this machine, with the traffic that it has.

use std::time::Duration;

use anyhow::Context;
use base::{Change, Netns};
use lab::Measure;
use linux::{Filter, Journal, NetnsHandle};

use super::journalled::Journalled;
use super::{Settings, Sight, Subject, wait, watch};
use crate::commands::diagnose::seen::Seen;
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
    pub(crate) fn open(pid: u32, output: &'o Output) -> anyhow::Result<Self> {
        crate::commands::watching::check_may_see(pid)?;
        let filter = format!("pid = {pid}")
            .parse()
            .context("the filter for one process")?;
        let netns_name = crate::commands::watching::netns_of_process(pid);
        let netns = NetnsHandle::open(&netns_name)?;
        Ok(Self {
            settings: Journalled::open(Journal::default_directory()?)?,
            pid,
            filter,
            netns,
            netns_name,
            output,
        })
    }
}

impl Subject for ProcessSubject<'_> {
    fn look(&mut self, time: Duration) -> anyhow::Result<Sight> {
        let watched = watch(self.output, &self.netns, self.filter.clone(), time)?;
        if watched.process_ended {
            anyhow::bail!("process {} ended while it was measured", self.pid);
        }
        let flows = Seen::new(&watched, &self.netns_name).rows(&self.filter);
        let measure = Measure {
            duration_s: watched.ended.since(watched.began).as_secs_f64(),
            // What its connections carry is all that is known of a strange program's success.
            goodput_bps: flows.iter().filter_map(|flow| flow.rate_bps).sum(),
            srtt_us: flows.first().and_then(|flow| flow.srtt_us),
            ..Measure::default()
        };
        Ok(Sight { measure, flows })
    }

    fn wait(&mut self, time: Duration) -> anyhow::Result<()> {
        wait(self.output, "settling".into(), time, None);
        Ok(())
    }

    fn can_reconnect(&self) -> bool {
        false
    }

    fn reconnect(&mut self) -> anyhow::Result<()> {
        anyhow::bail!("a strange program cannot be made to reconnect")
    }

    fn on_listener(&mut self, _change: &Change) -> anyhow::Result<Option<Change>> {
        Ok(None)
    }

    fn settings(&mut self) -> &mut dyn Settings {
        &mut self.settings
    }
}
