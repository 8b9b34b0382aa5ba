//! A fault on a lab path, as something that the tailor works on.

use std::time::Duration;

use anyhow::Context;
use base::{Change, Target};
use lab::{Fault, Trial};
use linux::kernel::{End, Session};
use linux::{Filter, WatchProgress};

use crate::commands::diagnose::seen::Seen;
use crate::interrupt;
use crate::output::Output;
use crate::progress::Progress;
use crate::tailor::{Pattern, Sight, Subject};

/// How often a wait looks whether the user wants to stop.
const STOP_CHECK: Duration = Duration::from_millis(50);

/// A session and how to talk about it.
pub(crate) struct LabSubject<'o> {
    session: Session,
    output: &'o Output,
    label: String,
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
        })
    }

    /// What runs.
    pub(crate) const fn session(&self) -> &Session {
        &self.session
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
        .prefix("tcptailor-lab-")
        .tempdir()
        .context("making a directory for the journal")
}

impl Subject for LabSubject<'_> {
    fn look(&mut self, time: Duration) -> anyhow::Result<Sight> {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let label = format!("{}: measuring", self.label);
        let bar = Progress::bar(self.output, label, millis(time));
        let look =
            self.session
                .look(time, interrupt::stop_flag(), &mut |seen: WatchProgress| {
                    bar.set(millis(seen.elapsed));
                })?;
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
        let label = format!("{}: settling", self.label);
        wait(self.output, label, time);
        Ok(())
    }

    fn reconnect(&mut self) -> anyhow::Result<()> {
        Ok(self.session.reconnect()?)
    }

    fn on_listener(&self, change: &Change) -> anyhow::Result<Option<Change>> {
        let Target::Socket { netns, .. } = &change.target else {
            return Ok(None);
        };
        let Some((pid, sample)) = self.session.listener(End::Server)? else {
            return Ok(None);
        };
        let Some(cookie) = sample.cookie else {
            return Ok(None);
        };
        let is_server = *netns == self.session.netns(End::Server);
        let target = Target::Socket {
            netns: netns.clone(),
            pid,
            cookie,
            key: sample.key,
        };
        Ok(is_server.then(|| Change {
            target,
            ..change.clone()
        }))
    }
}

/// Waits with a bar, and not longer than the user wants.
pub(crate) fn wait(output: &Output, label: String, time: Duration) {
    let steps = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let bar = Progress::bar(output, label, steps);
    let began = linux::Clock.now();
    loop {
        let elapsed = linux::Clock.now().since(began);
        if elapsed >= time || interrupt::stopped() {
            return;
        }
        bar.set(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX));
        std::thread::sleep(STOP_CHECK.min(time - elapsed));
    }
}
