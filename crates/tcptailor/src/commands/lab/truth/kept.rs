//! Looks with what was measured after them, in files: predictions can be made from them again,
//! such as by another version.

use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use base::{Change, Netns};
use doctor::recording::file;
use doctor::{Objective, Place, Recording};
use lab::Measure;
use serde::{Deserialize, Serialize};
use tailor::{Arrivals, Look, Timing};

use super::{Measured, Tried};
use crate::exit::Problem;
use crate::output::UntilStopped;

/// The file that says of which run the looks are.
const RUN: &str = "run.json";
/// Largest file of a run: a few numbers.
const RUN_BYTES_MAX: u64 = 64 * 1024;
/// Largest file of a trial without its looks.
const HEAD_BYTES_MAX: u64 = 16 << 20;

/// A run of `lab truth`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Run {
    pub(super) seed: u64,
    pub(super) trials: u32,
    pub(super) engine: String,
    pub(super) kernel: Option<String>,
}

/// All of a trial but its looks.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    label: String,
    /// The port that listens, or the address that was connected to.
    listening: Option<u16>,
    remote: Option<SocketAddr>,
    changes: Vec<Change>,
    text: String,
    objective: Objective,
    on_new: bool,
    settle: Duration,
    warm_up: Duration,
    look: Duration,
    before: Measure,
    after: Measure,
    doubts: Vec<String>,
    #[serde(default)]
    close: Vec<Arrivals>,
}

/// Makes the directory for what is kept of a run.
pub(super) fn begin(dir: &Path, run: &Run) -> anyhow::Result<()> {
    std::fs::create_dir_all(dir).with_context(|| format!("making {}", dir.display()))?;
    // The looks of two runs are not mixed.
    let path = dir.join(RUN);
    let file = File::create_new(&path).with_context(|| format!("making {}", path.display()))?;
    Ok(serde_json::to_writer(file, run)?)
}

/// The run of a directory.
pub(super) fn run_of(dir: &Path) -> anyhow::Result<Run> {
    let path = dir.join(RUN);
    const HINT: &str = "a folder that `lab truth --keep DIR` wrote has it";
    let text =
        crate::output::read_text(&path, RUN_BYTES_MAX).map_err(|problem| problem.hint(HINT))?;
    let run = serde_json::from_str(&text)
        .map_err(|error| Problem::usage(format!("{}: {error}", path.display())).hint(HINT))?;
    Ok(run)
}

/// Keeps one as the files of this number.
pub(super) fn write(dir: &Path, number: usize, measured: &Measured) -> anyhow::Result<()> {
    let Measured { tried, look, .. } = measured;
    let (listening, remote) = match tried.place {
        Place::Listening(port) => (Some(port), None),
        Place::Remote(address) => (None, Some(address)),
    };
    let head = Head {
        label: measured.label.clone(),
        listening,
        remote,
        changes: tried.changes.clone(),
        text: tried.text.clone(),
        objective: tried.objective,
        on_new: tried.on_new,
        settle: tried.timing.settle,
        warm_up: tried.timing.warm_up,
        look: tried.timing.look,
        before: look.measure,
        after: measured.after,
        doubts: measured.doubts.clone(),
        close: look.close.clone(),
    };
    let name = |what: &str| dir.join(format!("{number:03}{what}"));
    let mut to = BufWriter::new(File::create(name(".json"))?);
    serde_json::to_writer(&mut to, &head)?;
    to.flush()?;
    write_recording(&name("-here.rec"), &look.here, &look.netns)?;
    if let Some((there, netns)) = &look.there {
        write_recording(&name("-there.rec"), there, netns)?;
    }
    Ok(())
}

fn write_recording(path: &Path, recording: &Recording, netns: &Netns) -> anyhow::Result<()> {
    let mut to = BufWriter::new(File::create(path)?);
    file::write(recording, netns, &mut to)?;
    Ok(to.flush()?)
}

/// The files of all that are kept in `dir`, in order.
pub(super) fn list(dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(dir).with_context(|| format!("reading {}", dir.display()))?;
    let paths: std::io::Result<Vec<PathBuf>> =
        entries.map(|entry| entry.map(|e| e.path())).collect();
    let mut paths = paths?;
    paths.retain(|path| path.extension().is_some_and(|kind| kind == "json"));
    paths.retain(|path| path.file_name().is_some_and(|name| name != RUN));
    paths.sort_unstable();
    Ok(paths)
}

/// Reads one of [`list`].
pub(super) fn read(path: &Path) -> anyhow::Result<Measured> {
    let problem = || format!("reading {}", path.display());
    let text = crate::output::read_text(path, HEAD_BYTES_MAX)?;
    let head: Head = serde_json::from_str(&text).with_context(problem)?;
    let place = head
        .listening
        .map(Place::Listening)
        .or(head.remote.map(Place::Remote))
        .context("a port or an address is missing")
        .with_context(problem)?;
    let beside = |what: &str| {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        path.with_file_name(format!("{stem}-{what}.rec"))
    };
    let (here, netns) = read_recording(&beside("here"))?;
    let there = beside("there");
    let there = there.exists().then(|| read_recording(&there)).transpose()?;
    let mut look = Look::new((here, netns), there, |_| head.before);
    look.close.extend(head.close);
    Ok(Measured {
        label: head.label,
        tried: Tried {
            place,
            changes: head.changes,
            text: head.text,
            objective: head.objective,
            on_new: head.on_new,
            timing: Timing {
                settle: head.settle,
                warm_up: head.warm_up,
                look: head.look,
            },
        },
        look,
        after: head.after,
        doubts: head.doubts,
    })
}

fn read_recording(path: &Path) -> anyhow::Result<(Recording, Netns)> {
    let problem = || format!("reading {}", path.display());
    let mut from = BufReader::new(UntilStopped::open(path).with_context(problem)?);
    file::read(&mut from).with_context(problem)
}
