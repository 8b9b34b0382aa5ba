//! A command of this program that runs beside the screen: `fit`, `rollback`. It does what it does
//! without a screen, journal and lease included, and its lines are shown.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;

use anyhow::Context;
use linux::supervise::send_signal;
use signal_hook::consts::SIGINT;

use super::model::Event;
use crate::commands::guard::OWN_PROGRAM;

/// The command, until it has ended.
#[derive(Debug)]
pub(super) struct Running {
    child: Child,
    readers: Vec<JoinHandle<()>>,
    has_ended: bool,
}

impl Running {
    /// Starts it; what it says, for a screen of this many columns, goes to `events`.
    pub(super) fn start(
        words: &[String],
        columns: u16,
        events: &Sender<Event>,
    ) -> anyhow::Result<Self> {
        let mut child = Command::new(OWN_PROGRAM)
            .args(words)
            .env("COLUMNS", columns.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("starting the command")?;
        let stdout = child.stdout.take().map(|pipe| tell_lines(pipe, events));
        let stderr = child.stderr.take().map(|pipe| tell_lines(pipe, events));
        Ok(Self {
            child,
            readers: stdout.into_iter().chain(stderr).collect(),
            has_ended: false,
        })
    }

    /// Asks it to end, as Ctrl-C does: `fit` then rolls back what it has changed.
    pub(super) fn interrupt(&self) {
        if !self.has_ended {
            // It may have ended a moment ago.
            let _ = send_signal(self.child.id(), SIGINT);
        }
    }

    /// Exit status, once the command has ended and its output was read.
    pub(super) fn poll_end(&mut self) -> anyhow::Result<Option<Option<i32>>> {
        if !self.readers.iter().all(JoinHandle::is_finished) {
            return Ok(None);
        }
        let ended = self.child.try_wait().context("waiting for the command")?;
        self.has_ended |= ended.is_some();
        Ok(ended.map(|status| status.code()))
    }
}

impl Drop for Running {
    /// Rolls its changes back before this program ends.
    fn drop(&mut self) {
        self.interrupt();
        let _ = self.child.wait();
    }
}

fn tell_lines(pipe: impl Read + Send + 'static, events: &Sender<Event>) -> JoinHandle<()> {
    let events = events.clone();
    std::thread::spawn(move || {
        let mut lines = BufReader::new(pipe);
        let mut line = Vec::new();
        while lines
            .read_until(b'\n', &mut line)
            .is_ok_and(|read| read > 0)
        {
            let text = String::from_utf8_lossy(&line).trim_end().to_owned();
            line.clear();
            if events.send(Event::Output(text)).is_err() {
                return;
            }
        }
    })
}
