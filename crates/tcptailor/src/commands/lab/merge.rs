//! Shards of a sweep joined into one folder: each run once, in order.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use base::human;
use lab::Shard;
use lab::results::{self, MANIFEST_FILE, Manifest, Record, RunId, SweepPlan, Usability};
use serde::Serialize;

use super::folder::{self, Folder, Span};
use super::report::left_out;
use super::run::mistakes;
use super::sweep::quoted;
use crate::exit::{Exit, Problem};
use crate::output::Output;

/// Number of missing and of conflicting runs that are named.
const NAMED_MAX: usize = 10;

/// Join the shards of a sweep into one folder.
///
/// Takes each run once, in the order of the sweep, so that in virtual time two merged folders of
/// the same sweep are identical byte for byte. Lists the runs that are missing, and those that are
/// there twice with different numbers (the first valid one counts). Runs that do not belong to the
/// sweep are skipped and counted.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tcptailor lab merge part1 part2 part3 part4 -o all
  tcptailor lab merge shards/* -o all && tcptailor lab report all

Exit code 3 if runs are missing, differ, or are of another sweep: `tcptailor lab sweep ... -o all
--resume` makes the missing ones.")]
pub(crate) struct Args {
    /// Folders of shards of the same sweep.
    #[arg(value_name = "DIR", required = true)]
    folders: Vec<PathBuf>,
    /// The folder of the joined results; must not exist yet.
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
}

/// Place of a run's line, and its rank among several.
struct RunLine {
    file: usize,
    span: Span,
    worth: Usability,
    /// See [`Record::digest`].
    digest: u64,
}

struct Joined<'p> {
    plan: &'p SweepPlan,
    files: Vec<PathBuf>,
    /// By cell and run.
    places: BTreeMap<(u64, u32), RunLine>,
    repeated: u64,
    /// Runs of which there are two that differ.
    conflicts: Vec<RunId>,
    /// Lines of runs that the sweep does not have.
    foreign: u64,
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
    /// Lines that were left out: the sweep has no such runs.
    foreign: u64,
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
    let plan = SweepPlan::new(&first.manifest).map_err(|told| mistakes(&told))?;
    let mut joined = Joined::new(&plan);
    for folder in &folders {
        joined.add(folder, output)?;
    }
    joined.write(&args.output, &first.manifest)?;
    let document = Document::new(args, &first.manifest, &joined)?;
    output.report("lab-merge", &document, || render(&document))?;
    let findings = document.missing + document.conflicts + document.foreign;
    Ok(match findings {
        0 => Exit::Done,
        _ => Exit::Findings,
    })
}

impl<'p> Joined<'p> {
    const fn new(plan: &'p SweepPlan) -> Self {
        Self {
            plan,
            files: Vec::new(),
            places: BTreeMap::new(),
            repeated: 0,
            conflicts: Vec::new(),
            foreign: 0,
        }
    }

    fn add(&mut self, folder: &Folder, output: &Output) -> anyhow::Result<()> {
        for path in folder.outcome_files()? {
            let file = self.files.len();
            self.files.push(path.clone());
            let torn = folder::read_file(&path, |record, span| self.take(&record, file, span))?;
            if torn.is_some() {
                folder::note_torn(output, &path);
            }
        }
        Ok(())
    }

    fn take(&mut self, record: &Record, file: usize, span: Span) {
        if !record.is_of(self.plan) {
            self.foreign += 1;
            return;
        }
        let (place, worth) = (record.place(), record.worth());
        let new = RunLine {
            file,
            span,
            worth,
            digest: record.digest(),
        };
        match self.places.get_mut(&place) {
            Some(known) => {
                self.repeated += 1;
                if known.digest != new.digest && known.worth.repeats(worth) {
                    self.conflicts.push(record.id);
                }
                if worth > known.worth {
                    *known = new;
                }
            }
            None => drop(self.places.insert(place, new)),
        }
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
        folder::replace(&whole.join(MANIFEST_FILE), manifest.to_text().as_bytes())?;
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
        for RunLine { file, span, .. } in self.places.values() {
            folder::go_on()?;
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
        let file = out.into_inner().map_err(|error| error.into_error());
        let synced = file.and_then(|file| file.sync_all());
        synced.with_context(writing)
    }
}

impl Document {
    fn new(args: &Args, manifest: &Manifest, joined: &Joined<'_>) -> anyhow::Result<Self> {
        let plan = joined.plan;
        let runs = joined.places.len() as u64;
        let missing = plan.len().saturating_sub(runs);
        let mut missing_runs = Vec::new();
        let wanted = missing.min(NAMED_MAX as u64) as usize;
        let mut positions = plan.positions(Shard::WHOLE);
        while missing_runs.len() < wanted {
            folder::go_on()?;
            let Some(position) = positions.next() else {
                break;
            };
            let cells = plan.cells().max(1);
            let run = u32::try_from(position / cells).unwrap_or(u32::MAX);
            if !joined.places.contains_key(&(position % cells, run)) {
                let cell = plan.at(position).cell.id;
                missing_runs.push(format!("{cell} run {run}"));
            }
        }
        let named = joined.conflicts.iter().take(NAMED_MAX);
        Ok(Self {
            folder: args.output.display().to_string(),
            scenario: manifest.scenario.clone(),
            cells: plan.cells(),
            runs,
            repeated: joined.repeated,
            conflicts: joined.conflicts.len() as u64,
            conflicting_runs: named.map(ToString::to_string).collect(),
            missing,
            missing_runs,
            foreign: joined.foreign,
        })
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
        "there twice with different numbers (the first usable one counts)",
        &document.conflicting_runs,
    );
    list(document.missing, "missing", &document.missing_runs);
    if document.foreign > 0 {
        text.push_str(&format!("{}\n", left_out(document.foreign)));
    }
    if document.missing > 0 {
        text.push_str(&format!(
            "to make them, repeat the command of the sweep with: -o {} --resume, without --shard\n",
            quoted(&document.folder)
        ));
    }
    text
}
