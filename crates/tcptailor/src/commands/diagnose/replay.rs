//! Recordings, judged again as if they were watched now.

use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind};
use std::path::Path;

use doctor::recording::file::{self, FileError};
use flate2::bufread::MultiGzDecoder;

use super::document::Document;
use super::seen;
use crate::commands::watching::{self, Watching};
use crate::exit::Problem;

/// First bytes of a compressed file (RFC 1952).
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The recording that the first word names; filters begin with a word that has no dot and no slash.
pub(super) fn file(args: &Watching) -> Option<&Path> {
    let first = args.watched.filter.first()?;
    let is_path = first.contains(['.', '/']) && !first.contains(char::is_whitespace);
    is_path.then(|| Path::new(first))
}

/// The doctor's answers for what the rest of the words selects in it.
pub(super) fn judge(path: &Path, args: &Watching) -> anyhow::Result<Document> {
    if args.watched.netns.is_some() {
        return Err(Problem::usage("-N: a recording has a namespace of its own").into());
    }
    let filter = watching::parse_filter(&args.watched.filter[1..], args.watched.pid)?;
    let (recording, netns) = open(path)?;
    Ok(seen::diagnose(&recording, &netns, &filter))
}

/// A recording and the namespace that it was made in.
pub(crate) fn open(path: &Path) -> Result<(doctor::Recording, base::Netns), Problem> {
    let shown = path.display();
    read(path).map_err(|error| match error {
        // What is compressed is cut or damaged.
        FileError::Io(error)
            if !matches!(
                error.kind(),
                ErrorKind::UnexpectedEof | ErrorKind::InvalidInput
            ) =>
        {
            Problem::file(path, &error)
        }
        error => Problem::usage(format!("{shown}: {error}"))
            .hint("`tcptailor record -o FILE` makes recordings"),
    })
}

pub(super) fn no_plan() -> Problem {
    Problem::usage("-o: a recording is of another time; changes are planned for live connections")
}

/// Compressed or not.
fn read(path: &Path) -> Result<(doctor::Recording, base::Netns), FileError> {
    let mut raw = BufReader::new(File::open(path)?);
    if raw.fill_buf()?.starts_with(&GZIP) {
        let mut text = BufReader::new(MultiGzDecoder::new(raw));
        return file::read(&mut text);
    }
    file::read(&mut raw)
}
