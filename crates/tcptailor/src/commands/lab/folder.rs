//! Results folders on disk: the manifest, and a file of outcomes for each shard.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::Context;
use lab::Shard;
use lab::results::{self, Line, MANIFEST_FILE, Manifest, Record};

use super::line_log::{LineLog, Purpose};
use crate::exit::Problem;
use crate::interrupt;
use crate::output::{self, Output, UntilStopped};

pub(super) use crate::output::{
    check_page, fill, folder_of, new_file, replace, sync_folder, write_page,
};

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

/// Place of a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

impl Folder {
    /// Opens a folder that is there.
    pub(super) fn open(dir: &Path) -> Result<Self, Problem> {
        let file = dir.join(MANIFEST_FILE);
        let text = output::read_text(&file, MANIFEST_BYTES_MAX).map_err(|problem| {
            problem.hint("a results folder is what `tcptailor lab sweep -o DIR` makes")
        })?;
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
    read_lines(path, |line, number, span| match results::read_line(line) {
        Ok(Line::Whole(record)) => {
            each(*record, span);
            Ok(())
        }
        // Only whole lines come here.
        Ok(Line::Torn) => Ok(()),
        Err(why) => Err(Problem::usage(format!("{}:{number} {why}", path.display()))),
    })
}

/// Hands the whole lines of a file to `each`, with their ends, their numbers from 1 and their
/// places; returns where a torn last line begins, if there is one. Bytes that are no text are
/// replaced. Ctrl-C ends it with an error.
pub(super) fn read_lines(
    path: &Path,
    mut each: impl FnMut(&str, u64, Span) -> Result<(), Problem>,
) -> anyhow::Result<Option<u64>> {
    let name = path.display();
    let file = UntilStopped::open(path).with_context(|| format!("reading {name}"))?;
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    let mut offset = 0;
    for number in 1_u64.. {
        go_on()?;
        line.clear();
        let read = reader
            .by_ref()
            .take(LINE_BYTES_MAX)
            .read_until(b'\n', &mut line);
        let bytes = read.with_context(|| format!("reading {name}"))? as u64;
        if bytes == 0 {
            break;
        }
        if bytes == LINE_BYTES_MAX {
            return Err(
                Problem::usage(format!("{name}:{number} is not a result: too long")).into(),
            );
        }
        if line.last() != Some(&b'\n') {
            // Of a file that is no longer read, nothing is torn.
            go_on()?;
            return Ok(Some(offset));
        }
        each(
            &String::from_utf8_lossy(&line),
            number,
            Span { offset, bytes },
        )?;
        offset += bytes;
    }
    go_on()?;
    Ok(None)
}

/// An error where the user wants the program to end.
pub(super) fn go_on() -> Result<(), Problem> {
    match interrupt::stopped() {
        false => Ok(()),
        true => Err(Problem::interrupted("interrupted")),
    }
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
            let message = format!("{} is not a results folder: it holds {name}", dir.display());
            let hint = "Name a folder with -o that is empty or does not exist.";
            Err(Problem::usage(message).hint(hint).into())
        }
    }
}

/// Makes a file whole or not at all; leaves one that is there already.
fn write_new(dir: &Path, path: &Path, text: &[u8]) -> anyhow::Result<()> {
    let writing = || format!("writing {}", path.display());
    let mut file = new_file(dir).with_context(writing)?;
    fill(&mut file, text).with_context(writing)?;
    match file.persist_noclobber(path) {
        Ok(_) => {
            sync_folder(dir);
            Ok(())
        }
        Err(error) if error.error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error.error).with_context(writing),
    }
}

/// Opens the file of a shard, to which this process alone adds lines, or makes it. What a killed
/// writer left of a line is cut off.
pub(super) fn open_log(
    folder: &Folder,
    shard: Shard,
    resume: bool,
    output: &Output,
) -> anyhow::Result<LineLog> {
    let purpose = Purpose {
        place: &format!("shard {shard} of {}", folder.dir.display()),
        taken: "Wait until it ends, or give each process a --shard of its own.",
        go_on: "continue with --resume",
    };
    let mut log = LineLog::open(
        folder.dir.join(results::outcomes_file(shard)),
        purpose,
        output,
    )?;
    if log.bytes() > 0 && !resume {
        let message = format!("{} has results of this sweep already", folder.dir.display());
        let hint = "Continue with --resume, or name another folder with -o.";
        return Err(Problem::usage(message).hint(hint).into());
    }
    if let Some(torn) = read_file(log.path(), |_, _| ())? {
        log.cut(torn)?;
        output.note(format!(
            "{}: the last line was cut off; that run is made again",
            log.path().display()
        ));
    }
    Ok(log)
}

/// Reads one line again.
pub(super) fn read_span(file: &mut File, span: Span) -> std::io::Result<Vec<u8>> {
    let mut line = vec![0; usize::try_from(span.bytes).unwrap_or(0)];
    file.seek(SeekFrom::Start(span.offset))?;
    file.read_exact(&mut line)?;
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_whole_and_bounded() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("lines");
        let check = |bytes: &[u8], lines: &[&str], torn: Option<u64>| {
            fs::write(&file, bytes).expect("a file");
            let mut found = Vec::new();
            let end = read_lines(&file, |line, number, span| {
                assert_eq!(number, found.len() as u64 + 1);
                assert_eq!(span.bytes > 0, !line.is_empty());
                found.push(line.to_owned());
                Ok(())
            });
            assert_eq!(end.expect("it is read"), torn);
            assert_eq!(found, lines);
        };
        check(b"", &[], None);
        check(b"a\nb\n", &["a\n", "b\n"], None);
        check(b"a\nb", &["a\n"], Some(2));
        check(
            "a\nü".as_bytes().split_last().expect("bytes").1,
            &["a\n"],
            Some(2),
        );
        check(b"\xff\n", &["\u{fffd}\n"], None);
        let long = vec![b'x'; LINE_BYTES_MAX as usize];
        fs::write(&file, &long).expect("a file");
        let error = read_lines(&file, |_, _, _| Ok(())).expect_err("too long");
        assert!(
            error
                .to_string()
                .contains("lines:1 is not a result: too long"),
            "{error}"
        );
    }
}
