//! Results folders on disk: the manifest, and a file of outcomes for each shard.

use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io::{BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use lab::Shard;
use lab::results::{self, Line, MANIFEST_FILE, Manifest, Record};

use crate::exit::{Exit, Problem};
use crate::output::Output;

/// No result is as long; a file of something else may be.
const LINE_BYTES_MAX: u64 = 4 << 20;
/// A scenario file has at most 256 KiB.
const MANIFEST_BYTES_MAX: u64 = 4 << 20;

/// A folder whose manifest was read.
#[derive(Debug)]
pub(super) struct Folder {
    pub(super) dir: PathBuf,
    pub(super) manifest: Manifest,
}

/// Where a line is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

impl Folder {
    /// Opens a folder that is there.
    pub(super) fn open(dir: &Path) -> Result<Self, Problem> {
        let file = dir.join(MANIFEST_FILE);
        let mut text = String::new();
        let read = File::open(&file)
            .and_then(|file| file.take(MANIFEST_BYTES_MAX).read_to_string(&mut text));
        if let Err(error) = read {
            let hint = "a results folder is what `tcptailor lab sweep -o DIR` makes";
            let message = format!("reading {}: {error}", file.display());
            return Err(Problem::usage(message).hint(hint));
        }
        let manifest = Manifest::read(&text)
            .map_err(|why| Problem::usage(format!("{} {why}", file.display())))?;
        let dir = dir.to_owned();
        Ok(Self { dir, manifest })
    }

    /// Makes a folder, or opens one whose runs are those of `manifest`.
    pub(super) fn make(dir: &Path, manifest: &Manifest) -> anyhow::Result<Self> {
        fs::create_dir_all(dir).with_context(|| format!("creating {}", dir.display()))?;
        let file = dir.join(MANIFEST_FILE);
        if !file.exists() {
            refuse_foreign(dir)?;
            write_new(dir, &file, manifest.to_text().as_bytes())?;
        }
        // Another process may have been the first to write it.
        let folder = Self::open(dir)?;
        match folder.manifest.difference(manifest) {
            None => Ok(folder),
            Some(why) => {
                let message = format!("{} holds another sweep: {why}", dir.display());
                let hint = "Name another folder with -o, or repeat the options of that sweep.";
                Err(Problem::usage(message).hint(hint).into())
            }
        }
    }

    /// Files of outcomes, in the order of their names.
    pub(super) fn outcome_files(&self) -> anyhow::Result<Vec<PathBuf>> {
        let reading = || format!("reading {}", self.dir.display());
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.dir).with_context(reading)? {
            let entry = entry.with_context(reading)?;
            let is_file = entry.path().is_file();
            if is_file && results::is_outcomes_file(&entry.file_name().to_string_lossy()) {
                files.push(entry.path());
            }
        }
        files.sort();
        Ok(files)
    }

    /// Hands all finished runs to `each`. A torn last line is told and left out.
    pub(super) fn read(&self, output: &Output, mut each: impl FnMut(Record)) -> anyhow::Result<()> {
        for file in self.outcome_files()? {
            if read_file(&file, |record, _| each(record))?.is_some() {
                note_torn(output, &file);
            }
        }
        Ok(())
    }
}

/// Says that the last line of a file does not count.
pub(super) fn note_torn(output: &Output, file: &Path) {
    output.note(format!(
        "{}: the last line is cut off (its writer was ended, or is writing it); that run does not \
         count yet",
        file.display()
    ));
}

/// Hands all finished runs of a file to `each`, with the place of their lines; returns where a torn
/// last line begins, if there is one.
pub(super) fn read_file(
    path: &Path,
    mut each: impl FnMut(Record, Span),
) -> anyhow::Result<Option<u64>> {
    let name = path.display();
    let file = File::open(path).with_context(|| format!("reading {name}"))?;
    let mut reader = BufReader::new(file);
    let mut bytes = Vec::new();
    let mut offset = 0;
    for number in 1_u64.. {
        bytes.clear();
        let read = reader
            .by_ref()
            .take(LINE_BYTES_MAX)
            .read_until(b'\n', &mut bytes);
        let length = read.with_context(|| format!("reading {name}"))? as u64;
        if length == 0 {
            break;
        }
        if length == LINE_BYTES_MAX {
            return Err(Problem::usage(format!("{name}:{number} is no result: too long")).into());
        }
        match results::read_line(&String::from_utf8_lossy(&bytes)) {
            Ok(Line::Whole(record)) => {
                let bytes = length;
                each(*record, Span { offset, bytes });
            }
            Ok(Line::Torn) => return Ok(Some(offset)),
            Err(why) => return Err(Problem::usage(format!("{name}:{number} {why}")).into()),
        }
        offset += length;
    }
    Ok(None)
}

/// A folder with other things in it is none of ours.
fn refuse_foreign(dir: &Path) -> anyhow::Result<()> {
    let entries = fs::read_dir(dir).with_context(|| format!("reading {}", dir.display()))?;
    let is_foreign = |name: &str| !name.starts_with('.');
    let names = entries.flatten().map(|entry| entry.file_name());
    let foreign = names
        .map(|name| name.to_string_lossy().into_owned())
        .find(|name| is_foreign(name));
    // A shard that was started at the same moment may have made the manifest meanwhile.
    match foreign.filter(|_| !dir.join(MANIFEST_FILE).exists()) {
        None => Ok(()),
        Some(name) => {
            let message = format!("{} is no results folder: it holds {name}", dir.display());
            let hint = "Name a folder with -o that is empty or does not exist.";
            Err(Problem::usage(message).hint(hint).into())
        }
    }
}

/// Makes a file whole or not at all; leaves one that is there already.
fn write_new(dir: &Path, path: &Path, text: &[u8]) -> anyhow::Result<()> {
    let writing = || format!("writing {}", path.display());
    let mut file = new_file(dir).with_context(writing)?;
    file.write_all(text).with_context(writing)?;
    match file.persist_noclobber(path) {
        Ok(_) => Ok(()),
        Err(error) if error.error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error.error).with_context(writing),
    }
}

/// A file without its final name, readable to whom the user lets read new files.
pub(super) fn new_file(dir: &Path) -> std::io::Result<tempfile::NamedTempFile> {
    tempfile::Builder::new()
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(dir)
}

/// The file of a shard, to which this process alone adds lines.
#[derive(Debug)]
pub(super) struct Log {
    file: File,
    path: PathBuf,
    /// Of whole lines.
    bytes: u64,
}

impl Log {
    /// Opens or makes it. What a killed writer left of a line is cut off.
    pub(super) fn open(
        folder: &Folder,
        shard: Shard,
        resume: bool,
        output: &Output,
    ) -> anyhow::Result<Self> {
        let path = folder.dir.join(results::outcomes_file(shard));
        let opening = || format!("opening {}", path.display());
        let mut options = OpenOptions::new();
        let file = options.create(true).append(true).read(true).open(&path);
        let file = file.with_context(opening)?;
        if !file.metadata().with_context(opening)?.is_file() {
            return Err(Problem::usage(format!("{} is no file", path.display())).into());
        }
        lock(&file, shard, folder, output)?;
        let bytes = file.metadata().with_context(opening)?.len();
        if bytes > 0 && !resume {
            let message = format!("{} has results of this sweep already", folder.dir.display());
            let hint = "Go on with --resume, or name another folder with -o.";
            return Err(Problem::usage(message).hint(hint).into());
        }
        let mut log = Self { file, path, bytes };
        if let Some(torn) = read_file(&log.path, |_, _| ())? {
            log.file
                .set_len(torn)
                .with_context(|| format!("repairing {}", log.path.display()))?;
            log.bytes = torn;
            output.note(format!(
                "{}: the last line was cut off; that run is made again",
                log.path.display()
            ));
        }
        Ok(log)
    }

    /// Adds a whole line, or nothing.
    pub(super) fn append(&mut self, line: &str) -> anyhow::Result<()> {
        match self.file.write_all(line.as_bytes()) {
            Ok(()) => {
                self.bytes += line.len() as u64;
                Ok(())
            }
            Err(error) => {
                // A full disk has room for less; where even that fails the next start repairs it.
                let _ = self.file.set_len(self.bytes);
                let exit = Exit::Failed;
                let message = format!("writing {}: {error}", self.path.display());
                let hint = "What was written before is whole: make room, then go on with --resume.";
                let hint = Some(hint.into());
                Err(Problem {
                    exit,
                    message,
                    hint,
                }
                .into())
            }
        }
    }
}

/// Where the file system knows no locks, nothing keeps a second process away.
fn lock(file: &File, shard: Shard, folder: &Folder, output: &Output) -> Result<(), Problem> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => {
            let dir = folder.dir.display();
            let message = format!("another process is writing shard {shard} of {dir}");
            let hint = "Wait until it ends, or give each process a --shard of its own.";
            let (exit, hint) = (Exit::Failed, Some(hint.into()));
            Err(Problem {
                exit,
                message,
                hint,
            })
        }
        Err(TryLockError::Error(error)) => {
            output.note(format!(
                "{} cannot be locked ({error}): start no second process for shard {shard}",
                folder.dir.display()
            ));
            Ok(())
        }
    }
}

/// Reads one line again.
pub(super) fn read_span(file: &mut File, span: Span) -> std::io::Result<Vec<u8>> {
    let mut line = vec![0; usize::try_from(span.bytes).unwrap_or(0)];
    file.seek(SeekFrom::Start(span.offset))?;
    file.read_exact(&mut line)?;
    Ok(line)
}
