//! A trial on a lab path.

use std::time::Duration;

use anyhow::Context;
use base::{Change, Target};
use lab::{Caveat, Fault, LatenessMicros, LinkOutcome, Trial};
use linux::kernel::{End, Session};
use linux::{Filter, WatchProgress};
use serde::Serialize;

use super::{Sight, Subject, millis, wait};
use crate::commands::diagnose::seen::Seen;
use crate::interrupt;
use crate::output::Output;
use crate::progress::Progress;
use crate::tailor::Pattern;

/// A session and how to talk about it.
pub(crate) struct LabSubject<'o> {
    session: Session,
    output: &'o Output,
    label: String,
    /// What other work on this machine took of the processors, at most: 0 where it is not worth a
    /// word.
    busy_percent: u64,
}

impl<'o> LabSubject<'o> {
    /// Lays the path and starts the programs.
    pub(crate) fn start(trial: &Trial, label: &str, output: &'o Output) -> anyhow::Result<Self> {
        let _progress = Progress::spinner(output, format!("{label}: laying the path"));
        let session = Session::start(&linux::own_program()?, trial)?;
        Ok(Self {
            session,
            output,
            label: label.to_owned(),
            busy_percent: 0,
        })
    }

    /// What runs.
    pub(crate) const fn session(&self) -> &Session {
        &self.session
    }

    /// What the path did since it was laid, and the doubts that follow.
    pub(crate) fn path_report(&self) -> anyhow::Result<PathReport> {
        let (forward, reverse) = self.session.path().outcome();
        let mut caveats = self.session.caveats()?;
        let percent = self.busy_percent;
        caveats.extend((percent > 0).then_some(Caveat::HostBusy { percent }));
        Ok(PathReport {
            link: Links { forward, reverse },
            caveats,
        })
    }
}

/// How the path did its part: a number travels with its doubts.
#[derive(Debug, Serialize)]
pub(crate) struct PathReport {
    pub(crate) link: Links,
    pub(crate) caveats: Vec<Caveat>,
}

/// Both directions.
#[derive(Debug, Serialize)]
pub(crate) struct Links {
    pub(crate) forward: LinkOutcome,
    pub(crate) reverse: LinkOutcome,
}

impl Links {
    /// How late the emulator was, in the direction in which it was later; `None` where nothing is
    /// emulated.
    pub(crate) fn lateness(&self) -> Option<LatenessMicros> {
        let of = |link: &LinkOutcome| link.lateness_us;
        [of(&self.forward), of(&self.reverse)]
            .into_iter()
            .flatten()
            .max_by_key(|late| late.p99)
    }
}

/// How a fault of the table is fitted.
pub(crate) fn pattern(fault: &Fault, dry_run: bool) -> Pattern {
    Pattern {
        observe: fault.observe,
        settle: fault.settle,
        warm_up: fault.warm_up,
        yardstick: fault.cure.yardstick(),
        dry_run,
    }
}

/// A journal for changes on a lab path: its targets end with this process, and so does it.
pub(crate) fn scratch_journal() -> anyhow::Result<tempfile::TempDir> {
    tempfile::Builder::new()
        .prefix(&linux::cleanup::scratch_prefix()?)
        .tempdir()
        .context("making a directory for the journal")
}

impl Subject for LabSubject<'_> {
    fn look(&mut self, time: Duration) -> anyhow::Result<Sight> {
        let label = format!("{}: measuring", self.label);
        let bar = Progress::bar(self.output, label, millis(time));
        let look =
            self.session
                .look(time, interrupt::stop_flag(), &mut |seen: WatchProgress| {
                    bar.set(millis(seen.elapsed));
                })?;
        if let Some(Caveat::HostBusy { percent }) = look.load {
            self.busy_percent = self.busy_percent.max(percent);
        }
        let (client_ns, server_ns) = (
            self.session.netns(End::Client),
            self.session.netns(End::Server),
        );
        let server = Seen::new(&look.server, &server_ns);
        let client = Seen::new(&look.client, &client_ns).with_other_ends(&server);
        let flows = client.rows(&Filter::default());
        Ok(Sight {
            measure: self.session.measure(&look)?,
            flows,
        })
    }

    fn wait(&mut self, time: Duration) -> anyhow::Result<()> {
        wait(self.output, format!("{}: settling", self.label), time, None);
        Ok(())
    }

    fn can_reconnect(&self) -> bool {
        true
    }

    fn reconnect(&mut self) -> anyhow::Result<()> {
        Ok(self.session.reconnect()?)
    }

    fn on_listener(&self, change: &Change) -> anyhow::Result<Option<Change>> {
        let Target::Socket { netns, .. } = &change.target else {
            return Ok(None);
        };
        if *netns != self.session.netns(End::Server) {
            return Ok(None);
        }
        let Some((pid, sample)) = self.session.listener(End::Server)? else {
            return Ok(None);
        };
        let Some(cookie) = sample.cookie else {
            return Ok(None);
        };
        let target = Target::Socket {
            netns: netns.clone(),
            pid,
            cookie,
            key: sample.key,
        };
        Ok(Some(Change {
            target,
            ..change.clone()
        }))
    }
}
