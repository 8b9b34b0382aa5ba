//! Files in place of live connections: recordings, judged again as if they were watched now, and
//! packet captures.

use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind};
use std::os::fd::AsFd;
use std::path::Path;

use capture::Input;
use doctor::recording::file::{self, FileError};
use linux::Filter;
use tailor::Look;

use super::capture as packets;
use super::document::Document;
use super::page::Drawn;
use super::{Args, judged};
use crate::commands::watching::{self, Watching};
use crate::exit::Problem;
use crate::interrupt;
use crate::output::{Output, UntilStopped};

/// A recording is lines of JSON objects.
const RECORDING: u8 = b'{';
const MAKES_FILES: &str = "`tcptailor record -o FILE` makes recordings, `tcpdump -w FILE` captures";
/// Name of the standard input.
const STDIN: &str = "-";

/// The file that the first word names; filters begin with a word that has no dot and no slash, or
/// with an address, where no file has that name.
pub(super) fn file(args: &Watching) -> Option<&Path> {
    let first = args.watched.filter.first()?;
    let is_path = first.contains(['.', '/']) && !first.contains(char::is_whitespace);
    let is_file = is_path && (Path::new(first).exists() || first.parse::<Filter>().is_err());
    (is_file || first == STDIN).then(|| Path::new(first))
}

/// The doctor's answers for what the rest of the words selects in it.
pub(super) fn judge(
    path: &Path,
    args: &Args,
    output: &Output,
) -> anyhow::Result<(Document, Drawn)> {
    refuse(args)?;
    let mut input = input(path)?;
    if input.is_capture() {
        return packets::judge(input, path, args, output);
    }
    check_is_recording(&mut input, path)?;
    if args.write_flows.is_some() {
        return Err(Problem::usage(
            "--write-flows: a recording has no packets; `--json` tells its connections",
        )
        .into());
    }
    let watched = &args.watching.watched;
    let filter = watching::parse_filter(&watched.filter[1..], watched.pid)?;
    let (recording, netns) = file::read(&mut input.reader).map_err(|error| wrong(path, error))?;
    let (document, drawn) = judged(&recording, &netns, &filter, args.html.is_some());
    if document.flows.is_empty() && !filter.is_empty() && !recording.flows.is_empty() {
        output.note("note: no connection matches the filter");
    }
    Ok((document, drawn))
}

/// Rejects options that apply to live connections only.
fn refuse(args: &Args) -> Result<(), Problem> {
    let refused = if args.output.is_some() {
        "-o: changes are planned for live connections, not for those of a recording or capture"
    } else if args.all_netns {
        "--all-netns: a recording or capture is of one namespace"
    } else if args.watching.watched.netns.is_some() {
        "-N: a recording or capture names its namespace itself; leave -N out"
    } else {
        return Ok(());
    };
    Err(Problem::usage(refused))
}

/// Look at a recording, in the namespace that it names, or at a capture.
pub(crate) fn look(path: &Path, output: &Output) -> anyhow::Result<Look> {
    let mut input = input(path)?;
    if input.is_capture() {
        return Ok(Look::of_capture(packets::recording(input, path, output)?));
    }
    check_is_recording(&mut input, path)?;
    let recorded = file::read(&mut input.reader).map_err(|error| wrong(path, error))?;
    Ok(Look::new(recorded, None, |recording| {
        tailor::measure_of(recording, |_| true)
    }))
}

fn check_is_recording(input: &mut Input, path: &Path) -> Result<(), Problem> {
    let start = input.reader.fill_buf().unwrap_or_default();
    match start.first() {
        Some(byte) if *byte != RECORDING => Err(Problem::usage(format!(
            "{}: neither a packet capture (pcap, pcapng) nor a recording",
            path.display()
        ))
        .hint(MAKES_FILES)),
        _ => Ok(()),
    }
}

fn input(path: &Path) -> Result<Input, Problem> {
    let is_stdin = path == Path::new(STDIN);
    let opened = match is_stdin {
        true => io::stdin()
            .as_fd()
            .try_clone_to_owned()
            .map(|stdin| UntilStopped(File::from(stdin))),
        false => UntilStopped::open(path),
    };
    let input = opened.and_then(|file| {
        let meta = file.0.metadata().ok();
        let bytes = meta.filter(|meta| meta.is_file() && !is_stdin);
        let reader = BufReader::with_capacity(capture::BUFFER_BYTES, file);
        Input::of(Box::new(reader), bytes.map(|meta| meta.len()))
    });
    input.map_err(|error| wrong(path, FileError::Io(error)))
}

fn wrong(path: &Path, error: FileError) -> Problem {
    if interrupt::stopped() {
        return Problem::interrupted("interrupted while reading");
    }
    match error {
        // What is compressed is cut or damaged.
        FileError::Io(error)
            if !matches!(
                error.kind(),
                ErrorKind::UnexpectedEof | ErrorKind::InvalidInput | ErrorKind::InvalidData
            ) =>
        {
            Problem::file(path, &error)
        }
        error => Problem::usage(format!("{}: {error}", path.display())).hint(MAKES_FILES),
    }
}
