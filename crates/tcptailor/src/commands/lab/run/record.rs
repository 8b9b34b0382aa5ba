//! Files written by a run in virtual time: packets, and what happens inside the hosts.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use anyhow::Context;
use lab::world::Capture;
use lab::{Cell, Trial, VirtualRun};

use super::events::EventLog;
use crate::exit::Problem;

/// The ends, in the order of their numbers.
const HOSTS: [&str; 2] = ["client", "server"];

/// The files that are wanted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Records<'a> {
    /// For the packets at both ends.
    pub(super) pcap: Option<&'a Path>,
    /// For the events of both hosts.
    pub(super) events: Option<&'a Path>,
}

impl Records<'_> {
    pub(super) const fn is_empty(self) -> bool {
        self.pcap.is_none() && self.events.is_none()
    }

    /// Why no other engine writes them.
    pub(super) fn refusal(self) -> Problem {
        Problem::usage(match self.pcap {
            Some(_) => {
                "--pcap: only `--engine virtual` writes packets; capture the others' with tcpdump"
            }
            None => {
                "--events: only the hosts of `--engine virtual` tell what happens inside them; \
                 `tcptailor diagnose` looks at the kernel's connections"
            }
        })
    }
}

/// Files that are being written while a run goes on. What goes wrong then is told at the end.
pub(super) struct Recording<'a> {
    records: Records<'a>,
    capture: Option<Capture<BufWriter<File>>>,
    log: Option<EventLog<BufWriter<File>>>,
}

impl<'a> Recording<'a> {
    /// Creates the files and listens to the run.
    pub(super) fn start(
        records: Records<'a>,
        cell: &Cell,
        trial: &Trial,
        run: &mut VirtualRun,
    ) -> anyhow::Result<Self> {
        let mut recording = Self {
            records,
            capture: None,
            log: None,
        };
        if let Some(file) = records.pcap {
            let capture =
                Capture::new(create(file, &is_capture)?, &HOSTS).with_context(|| writing(file))?;
            run.add_taps(|end| capture.tap(end));
            recording.capture = Some(capture);
        }
        if let Some(file) = records.events {
            let log = EventLog::new(create(file, &is_events)?, &cell.id, trial.seed);
            let log = log.with_context(|| writing(file))?;
            run.set_traces(|end| log.trace(HOSTS[end as usize]));
            recording.log = Some(log);
        }
        Ok(recording)
    }

    /// Ends the files; the run must be over.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        if let (Some(capture), Some(file)) = (self.capture, self.records.pcap) {
            capture.finish().with_context(|| writing(file))?;
        }
        if let (Some(log), Some(file)) = (self.log, self.records.events) {
            log.finish().with_context(|| writing(file))?;
        }
        Ok(())
    }
}

/// Replaces an earlier record; other files are left alone, and no link is followed.
fn create(file: &Path, is_ours: &dyn Fn(&[u8]) -> bool) -> anyhow::Result<BufWriter<File>> {
    crate::output::open_result(file, is_ours).map(BufWriter::new)
}

/// Whether a file begins as a capture (pcapng, its block type) whose interfaces are our hosts.
fn is_capture(start: &[u8]) -> bool {
    const SECTION_HEADER: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
    let has = |name: &str| {
        start
            .windows(name.len())
            .any(|part| part == name.as_bytes())
    };
    start.starts_with(&SECTION_HEADER) && HOSTS.iter().all(|host| has(host))
}

fn is_events(start: &[u8]) -> bool {
    String::from_utf8_lossy(start).contains("tcptailor/")
}

fn writing(file: &Path) -> String {
    format!("writing {}", file.display())
}
