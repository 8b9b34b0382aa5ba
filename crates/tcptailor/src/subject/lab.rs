//! A trial on a lab path of the kernel.

use std::fs::File;
use std::time::Duration;

use anyhow::Context;
use base::{Change, Target};
use doctor::Track;
use lab::{Caveat, EngineName, Trial};
use linux::WatchProgress;
use linux::kernel::{End, Session};
use tailor::{LOOK_INTERVAL, Look, Settings, Subject};

use super::journalled::Journalled;
use super::path::{Links, PathReport, PathSubject};
use super::{check_stopped, millis, wait};
use crate::interrupt;
use crate::output::Output;
use crate::progress::Progress;

/// A session and how to talk about it.
pub(crate) struct LabSubject<'o> {
    // The order of fields is the order of ending: changes are put back before their hosts end.
    settings: Journalled,
    /// Directory of the journal. The targets of changes end with this process, and so does it.
    _scratch: tempfile::TempDir,
    /// Marks it as used.
    _mark: Option<File>,
    session: Session,
    output: &'o Output,
    label: String,
    /// Largest share of the processors used by other work on this machine; 0 where negligible.
    busy_percent: u64,
}

impl<'o> LabSubject<'o> {
    /// Lays the path and starts the programs.
    pub(crate) fn start(trial: &Trial, label: &str, output: &'o Output) -> anyhow::Result<Self> {
        let _progress = Progress::spinner(output, format!("{label}: laying the path"));
        linux::cleanup::remove_leftovers()?;
        let session = Session::start(&linux::own_program()?, trial)?;
        let scratch = tempfile::Builder::new()
            .prefix(&linux::cleanup::scratch_prefix()?)
            .tempdir()
            .context("making a directory for the journal")?;
        let mark = File::open(scratch.path()).ok();
        mark.as_ref().map(linux::cleanup::mark_used);
        Ok(Self {
            settings: Journalled::of_lab(scratch.path())?,
            _scratch: scratch,
            _mark: mark,
            session,
            output,
            label: label.to_owned(),
            busy_percent: 0,
        })
    }
}

impl PathSubject for LabSubject<'_> {
    fn engine(&self) -> EngineName {
        EngineName::Kernel
    }

    fn programs(&self) -> [String; 2] {
        [End::Client, End::Server].map(|end| {
            let pid = self.session.worker(end).pid();
            format!("process {pid} in {}", self.session.netns(end))
        })
    }

    fn path_report(&mut self) -> anyhow::Result<PathReport> {
        let (forward, reverse) = self.session.path().outcome();
        let mut caveats = self.session.caveats()?;
        let percent = self.busy_percent;
        caveats.extend((percent > 0).then_some(Caveat::HostBusy { percent }));
        Ok(PathReport {
            engine: self.engine(),
            link: Links { forward, reverse },
            caveats,
        })
    }
}

impl Subject for LabSubject<'_> {
    type Error = anyhow::Error;

    fn look(&mut self, time: Duration) -> anyhow::Result<Look> {
        let label = format!("{}: measuring", self.label);
        let bar = Progress::bar(self.output, label, millis(time));
        let look = self.session.look(
            (time, LOOK_INTERVAL),
            interrupt::stop_flag(),
            &mut |seen: WatchProgress| {
                bar.set(millis(seen.elapsed));
            },
        )?;
        check_stopped()?;
        if let Some(Caveat::HostBusy { percent }) = look.load {
            self.busy_percent = self.busy_percent.max(percent);
        }
        let measure = self.session.measure(&look)?;
        Ok(Look::new(
            (look.client, self.session.netns(End::Client)),
            Some((look.server, self.session.netns(End::Server))),
            |client| tailor::completed(measure, client, |track| self.wants(track)),
        ))
    }

    fn wait(&mut self, time: Duration) -> anyhow::Result<()> {
        wait(self.output, format!("{}: settling", self.label), time, None)
    }

    fn wants(&self, _track: &Track) -> bool {
        true
    }

    fn lacks(&self, _target: &Target) -> Option<&'static str> {
        // Its namespaces are ours.
        None
    }

    fn can_reconnect(&self) -> bool {
        true
    }

    fn reconnect(&mut self) -> anyhow::Result<()> {
        Ok(self.session.reconnect()?)
    }

    fn on_listener(&mut self, change: &Change) -> anyhow::Result<Vec<Change>> {
        let Target::Socket { netns, .. } = &change.target else {
            return Ok(Vec::new());
        };
        if *netns != self.session.netns(End::Server) {
            return Ok(Vec::new());
        }
        let Some((pid, sample)) = self.session.listener(End::Server)? else {
            return Ok(Vec::new());
        };
        let Some(cookie) = sample.cookie else {
            return Ok(Vec::new());
        };
        let target = Target::Socket {
            netns: netns.clone(),
            pid,
            cookie,
            key: sample.key,
        };
        Ok(vec![Change {
            target,
            ..change.clone()
        }])
    }

    fn settings(&mut self) -> &mut dyn Settings<Error = anyhow::Error> {
        &mut self.settings
    }
}
