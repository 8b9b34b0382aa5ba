//! Records samples into a file that `diagnose` judges again: for bug reports, for later, for tests.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use doctor::recording::file;
use doctor::{Recording, Track};
use flate2::Compression;
use flate2::write::GzEncoder;
use linux::NetnsHandle;
use serde::Serialize;

use super::watching::{self, Watching};
use crate::exit::{Exit, Problem};
use crate::interrupt;
use crate::output::{self, Output};

/// Record connections to a file, to diagnose them later.
///
/// Records what `diagnose` evaluates: counters, settings and options of sockets, counters and
/// queues of the host. Payload is neither read nor stored. `tcptailor diagnose FILE` gives the
/// same answer
/// again.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tcptailor record -o slow.rec -t 30s                 all connections, for 30 seconds
  tcptailor record -o slow.rec --pid 4127             of one process
  tcptailor record -o slow.rec --anonymize dport = :443     without addresses and names
  tcptailor diagnose ./slow.rec -v                    diagnose it

Filters are those of `tcptailor diagnose`. The file is gzip-compressed text, one line of JSON each:
`zcat slow.rec` shows it.")]
pub(crate) struct Args {
    #[command(flatten)]
    watching: Watching,
    /// Output file; an existing one is replaced at the end of the recording.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Replace addresses, programs and interfaces with numbers; omit users and commands.
    #[arg(long)]
    anonymize: bool,
}

/// The saved recording.
#[derive(Debug, Serialize)]
struct Saved {
    file: String,
    duration_s: f64,
    connections: usize,
    samples: usize,
    bytes: u64,
    anonymized: bool,
    interrupted: bool,
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<Exit> {
    check(&args.output)?;
    let mut filter = args.watching.filter()?;
    let netns = args.watching.netns();
    let handle = NetnsHandle::open(&netns)?;
    let mut recording = watching::watch(&args.watching, &handle, &filter, output)?;
    filter.renew(&handle);
    keep_wanted(&mut recording, |track| {
        super::diagnose::seen::selects(&filter, track)
    });
    if recording.flows.is_empty() {
        output.note("note: no connection matched; only the host was recorded");
    }
    let mut saved_netns = netns;
    if args.anonymize {
        recording.anonymize();
        saved_netns = base::Netns::Own;
    }
    let bytes = save(&recording, &saved_netns, &args.output)
        .with_context(|| format!("writing {}", args.output.display()))?;
    let saved = Saved {
        file: args.output.display().to_string(),
        duration_s: recording.ended.since(recording.began).as_secs_f64(),
        connections: recording.flows.len(),
        samples: recording.flows.iter().map(|flow| flow.samples.len()).sum(),
        bytes,
        anonymized: args.anonymize,
        interrupted: interrupt::stopped(),
    };
    output.report("record", &saved, || shown(&saved))?;
    Ok(if saved.interrupted {
        Exit::Interrupted
    } else {
        Exit::Done
    })
}

fn shown(saved: &Saved) -> String {
    format!(
        "{}: {}, {} in {}, {}\nNext: tcptailor diagnose {}\n",
        saved.file,
        base::human::count(saved.connections as u64, "connection"),
        base::human::count(saved.samples as u64, "sample"),
        base::human::time(Duration::from_secs_f64(saved.duration_s)),
        base::human::count(saved.bytes, "byte"),
        if saved.file.contains(['.', '/']) {
            saved.file.clone()
        } else {
            format!("./{}", saved.file)
        },
    )
}

/// Keeps the wanted connections and their other ends: with few sockets all were watched.
pub(crate) fn keep_wanted(recording: &mut Recording, wanted: impl Fn(&Track) -> bool) {
    let tracks = recording.flows.iter().filter(|track| wanted(track));
    let keys: std::collections::BTreeSet<base::FlowKey> = tracks.map(|track| track.key).collect();
    let is_kept = |key: base::FlowKey| keys.contains(&key) || keys.contains(&key.reversed());
    recording.flows.retain(|track| is_kept(track.key));
}

/// Refuses a place for a recording, before anybody has waited for it.
///
/// # Errors
/// Where nothing can be written, and a symbolic link to a file, which would be replaced.
pub(crate) fn check(path: &Path) -> Result<(), Problem> {
    output::check_writable(path)?;
    output::check_no_link(path)
}

/// Into a file beside it first, so that nothing half written stands there; into a device or a pipe
/// as it comes.
pub(crate) fn save(recording: &Recording, netns: &base::Netns, path: &Path) -> anyhow::Result<u64> {
    if output::is_device(path) {
        return pack(recording, netns, &output::open_device(path)?);
    }
    check(path)?;
    let scratch = tempfile::NamedTempFile::new_in(output::folder_of(path))?;
    let bytes = pack(recording, netns, scratch.as_file())?;
    scratch.persist(path)?;
    Ok(bytes)
}

/// Writes it as it is kept; how many bytes that are.
fn pack(recording: &Recording, netns: &base::Netns, to: &File) -> anyhow::Result<u64> {
    let counted = Counted { to, bytes: 0 };
    // Lines are written in small parts, and the encoder takes long for each call.
    let mut packed = BufWriter::new(GzEncoder::new(counted, Compression::best()));
    file::write(recording, netns, &mut packed)?;
    let packed = packed.into_inner().map_err(|error| error.into_error())?;
    Ok(packed.finish()?.bytes)
}

/// How much was written: a pipe does not say.
struct Counted<'f> {
    to: &'f File,
    bytes: u64,
}

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}
