//! Shards of a sweep joined into one folder: each run once, in order.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use base::human;
use lab::Shard;
use lab::results::{self, MANIFEST_FILE, Manifest, Plan, Record, RunId};
use serde::Serialize;

use super::folder::{self, Folder, Span};
use super::run::mistakes;
use super::sweep::quoted;
use crate::exit::{Exit, Problem};
use crate::output::Output;

/// Of missing and of conflicting runs so many are named.
const NAMED_MAX: usize = 10;

/// Join the shards of a sweep into one folder.
///
/// Each run is taken once, in the order of the sweep, so that two joined folders of the same sweep
/// in virtual time are equal byte for byte. Says which runs are missing, and which are there twice
/// with different numbers; of those the first counts.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tcptailor lab merge part1 part2 part3 part4 -o all
  tcptailor lab merge shards/* -o all && tcptailor lab report all

Exit code 3 if runs are missing, or differ: `tcptailor lab sweep ... -o all --resume` makes the
missing ones.")]
pub(crate) struct Args {
    /// Folders of shards of the same sweep.
    #[arg(value_name = "DIR", required = true)]
    folders: Vec<PathBuf>,
    /// The folder of the joined results; must not exist yet.
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
}

/// Where the line of a run is.
struct Place {
    file: usize,
    span: Span,
}

#[derive(Default)]
struct Joined {
    files: Vec<PathBuf>,
    /// By cell and run.
    places: BTreeMap<(u64, u32), Place>,
    repeated: u64,
    /// Runs of which there are two that differ.
    conflicts: Vec<RunId>,
}

#[derive(Serialize)]
struct Document {
    folder: String,
    scenario: String,
    cells: u64,
    /// In the joined folder.
    runs: u64,
    /// Runs that were there more than once.
    repeated: u64,
    conflicts: u64,
    conflicting_runs: Vec<String>,
    missing: u64,
    missing_runs: Vec<String>,
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<Exit> {
    let folders = args.folders.iter().map(|dir| Folder::open(dir));
    let folders = folders.collect::<Result<Vec<Folder>, Problem>>()?;
    let (first, others) = folders.split_first().context("clap asks for a folder")?;
    for other in others {
        if let Some(why) = first.manifest.difference(&other.manifest) {
            let (first, other) = (first.dir.display(), other.dir.display());
            let message = format!("{first} and {other} are shards of different sweeps: {why}");
            return Err(Problem::usage(message).into());
        }
    }
    let plan = Plan::new(&first.manifest).map_err(|told| mistakes(&told))?;
    let mut joined = Joined::default();
    for folder in &folders {
        joined.add(folder, output)?;
    }
    joined.write(&args.output, &first.manifest)?;
    let document = Document::new(args, &first.manifest, &plan, &joined);
    output.report("lab-merge", &document, || render(&document))?;
    Ok(match document.missing == 0 && document.conflicts == 0 {
        true => Exit::Done,
        false => Exit::Findings,
    })
}

impl Joined {
    fn add(&mut self, folder: &Folder, output: &Output) -> anyhow::Result<()> {
        for path in folder.outcome_files()? {
            let file = self.files.len();
            self.files.push(path.clone());
            let mut twice = Vec::new();
            let places = &mut self.places;
            let torn =
                folder::read_file(&path, |record, span| match places.get(&record.place()) {
                    Some(known) => twice.push((known.file, known.span, record)),
                    None => drop(places.insert(record.place(), Place { file, span })),
                })?;
            if torn.is_some() {
                folder::note_torn(output, &path);
            }
            for (file, span, record) in twice {
                self.repeated += 1;
                if !self.is_same(file, span, &record)? {
                    self.conflicts.push(record.id);
                }
            }
        }
        Ok(())
    }

    /// Whether the line there says the same but for its date.
    fn is_same(&self, file: usize, span: Span, record: &Record) -> anyhow::Result<bool> {
        let line = self.line(file, span)?;
        let known = match results::read_line(&String::from_utf8_lossy(&line)) {
            Ok(results::Line::Whole(known)) => known,
            _ => return Ok(false),
        };
        let at = known.at.clone();
        Ok(*known
            == Record {
                at,
                ..record.clone()
            })
    }

    fn line(&self, file: usize, span: Span) -> anyhow::Result<Vec<u8>> {
        let path = &self.files[file];
        let reading = || format!("reading {}", path.display());
        let mut file = File::open(path).with_context(reading)?;
        folder::read_span(&mut file, span).with_context(reading)
    }

    /// All runs in order, in a folder that is there whole or not at all.
    fn write(&self, dir: &Path, manifest: &Manifest) -> anyhow::Result<()> {
        let writing = || format!("writing {}", dir.display());
        if dir.exists() {
            let message = format!("{} exists", dir.display());
            let hint = "Name a new folder with -o for the joined results.";
            return Err(Problem::usage(message).hint(hint).into());
        }
        let parent = match dir.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        fs::create_dir_all(parent).with_context(writing)?;
        let half = tempfile::Builder::new().prefix(".merge").tempdir_in(parent);
        let half = half.with_context(writing)?;
        let whole = half.path().join("joined");
        fs::create_dir(&whole).with_context(writing)?;
        self.write_lines(&whole.join(results::outcomes_file(Shard::WHOLE)))?;
        fs::write(whole.join(MANIFEST_FILE), manifest.to_text()).with_context(writing)?;
        fs::rename(&whole, dir).with_context(writing)
    }

    fn write_lines(&self, path: &Path) -> anyhow::Result<()> {
        let writing = || format!("writing {}", path.display());
        let mut out = BufWriter::new(File::create(path).with_context(writing)?);
        let open = |path: &PathBuf| {
            File::open(path).with_context(|| format!("reading {}", path.display()))
        };
        // There are as many files as shards, and far fewer may be open.
        let mut current: Option<(usize, File)> = None;
        for Place { file, span } in self.places.values() {
            if current.as_ref().is_none_or(|(known, _)| known != file) {
                current = Some((*file, open(&self.files[*file])?));
            }
            if let Some((_, source)) = &mut current {
                let line = folder::read_span(source, *span);
                let line =
                    line.with_context(|| format!("reading {}", self.files[*file].display()))?;
                out.write_all(&line).with_context(writing)?;
            }
        }
        out.flush().with_context(writing)
    }
}

impl Document {
    fn new(args: &Args, manifest: &Manifest, plan: &Plan, joined: &Joined) -> Self {
        let mut missing_runs = Vec::new();
        for position in plan.positions(Shard::WHOLE) {
            let (cells, known) = (plan.cells().max(1), missing_runs.len());
            let run = u32::try_from(position / cells).unwrap_or(u32::MAX);
            if known < NAMED_MAX && !joined.places.contains_key(&(position % cells, run)) {
                let cell = plan.at(position).cell.id;
                missing_runs.push(format!("{cell} run {run}"));
            }
        }
        let named = joined.conflicts.iter().take(NAMED_MAX);
        let runs = joined.places.len() as u64;
        Self {
            folder: args.output.display().to_string(),
            scenario: manifest.scenario.clone(),
            cells: plan.cells(),
            runs,
            repeated: joined.repeated,
            conflicts: joined.conflicts.len() as u64,
            conflicting_runs: named.map(ToString::to_string).collect(),
            missing: plan.len().saturating_sub(runs),
            missing_runs,
        }
    }
}

fn render(document: &Document) -> String {
    let mut text = format!(
        "{} of {} in {}\n",
        human::count(document.runs, "run"),
        human::count(document.cells, "cell"),
        document.folder
    );
    let mut list = |count: u64, what: &str, names: &[String]| {
        if count > 0 {
            text.push_str(&format!("{} {what}:\n", human::count(count, "run")));
            for name in names {
                text.push_str(&format!("  {name}\n"));
            }
            if count > names.len() as u64 {
                text.push_str(&format!("  and {} more\n", count - names.len() as u64));
            }
        }
    };
    list(
        document.conflicts,
        "there twice with different numbers (the first counts)",
        &document.conflicting_runs,
    );
    list(document.missing, "missing", &document.missing_runs);
    if document.missing > 0 {
        text.push_str(&format!(
            "to make them, repeat the command of the sweep with: -o {} --resume, without --shard\n",
            quoted(&document.folder)
        ));
    }
    text
}
