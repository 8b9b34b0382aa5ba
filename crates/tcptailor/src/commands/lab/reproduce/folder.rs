//! The folder of a reproduction: every run as it is made, then the document.
//!
//! `outcomes.jsonl` begins with what was asked, and gets a line for each run; nothing in it is ever
//! changed. So what was interrupted, or killed, goes on where it stopped.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::hash::Hasher;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use lab::{EngineName, Outcome};
use serde::{Deserialize, Serialize};
use siphasher::sip::SipHasher13;

use crate::exit::Problem;

const OUTCOMES: &str = "outcomes.jsonl";
const DOCUMENT: &str = "reproduce.json";
const PAGE: &str = "index.html";
const SCHEMA: &str = "tcptailor/lab-reproduce-outcomes/1";

/// What the runs of a folder belong to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Head {
    schema: String,
    version: String,
    quick: bool,
    /// By name, with a sum of the text.
    scenarios: BTreeMap<String, String>,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Line {
    pub(super) scenario: String,
    pub(super) variant: Option<String>,
    /// Keys and values of the sweep.
    pub(super) axes: Vec<(String, String)>,
    pub(super) engine: EngineName,
    /// From 0.
    pub(super) run: u32,
    /// Real time that it took.
    pub(super) elapsed_s: f64,
    pub(super) outcome: Outcome,
}

/// An open folder.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    outcomes: File,
}

impl Head {
    /// Of the scenarios that were chosen: their names and texts.
    pub(super) fn new<'s>(
        scenarios: impl Iterator<Item = (&'s str, &'s str)>,
        quick: bool,
    ) -> Self {
        let sum = |text: &str| {
            let mut hasher = SipHasher13::new();
            hasher.write(text.as_bytes());
            format!("{:016x}", hasher.finish())
        };
        Self {
            schema: SCHEMA.into(),
            version: env!("CARGO_PKG_VERSION").into(),
            quick,
            scenarios: scenarios
                .map(|(name, text)| (name.to_owned(), sum(text)))
                .collect(),
        }
    }

    /// Why runs under `self` do not belong beside those under `other`.
    fn difference(&self, other: &Self) -> Option<String> {
        if self.schema != other.schema || self.version != other.version {
            return Some(format!("results of tcptailor {}", self.version));
        }
        if self.quick != other.quick {
            let kind = if self.quick { "with" } else { "without" };
            return Some(format!("results {kind} --quick"));
        }
        if self.scenarios.keys().ne(other.scenarios.keys()) {
            let names: Vec<&str> = self.scenarios.keys().map(String::as_str).collect();
            return Some(format!(
                "results of other experiments ({})",
                names.join(" ")
            ));
        }
        let changed = self
            .scenarios
            .iter()
            .find(|(name, sum)| other.scenarios[*name] != **sum);
        changed.map(|(name, _)| format!("results of another text of experiment {name}"))
    }
}

impl Folder {
    /// Opens a folder, new or of the same experiments, and reads the runs that it has. Nobody else
    /// can open it until it is dropped.
    pub(super) fn open(path: &Path, head: &Head) -> anyhow::Result<(Self, Vec<Line>)> {
        fs::create_dir_all(path).with_context(|| format!("making {}", path.display()))?;
        let file = path.join(OUTCOMES);
        let is_used = fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some());
        if is_used && !file.exists() {
            return Err(refusal(path, "other files").into());
        }
        let opening = || format!("opening {}", file.display());
        let mut options = OpenOptions::new();
        let outcomes = options.create(true).read(true).append(true).open(&file);
        let mut folder = Self {
            path: path.to_owned(),
            outcomes: outcomes.with_context(opening)?,
        };
        match folder.outcomes.try_lock() {
            Ok(()) => (),
            Err(TryLockError::WouldBlock) => {
                let problem = Problem::usage(format!("another run writes {}", path.display()));
                return Err(problem
                    .hint("wait for its end, or name another folder with -o")
                    .into());
            }
            Err(TryLockError::Error(error)) => return Err(error).with_context(opening),
        }
        let mut text = String::new();
        let read = folder.outcomes.read_to_string(&mut text);
        read.with_context(|| format!("reading {}", file.display()))?;
        if text.is_empty() {
            folder.append(head)?;
            return Ok((folder, Vec::new()));
        }
        let lines = folder.runs_in(&text, head)?;
        Ok((folder, lines))
    }

    /// The runs of its file; a last line that was cut off is taken away.
    fn runs_in(&self, text: &str, head: &Head) -> anyhow::Result<Vec<Line>> {
        let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
        let mut lines = whole.lines();
        let found = lines
            .next()
            .and_then(|line| serde_json::from_str::<Head>(line).ok());
        let Some(found) = found else {
            return Err(refusal(&self.path, "a file outcomes.jsonl of something else").into());
        };
        if let Some(difference) = found.difference(head) {
            return Err(refusal(&self.path, &difference).into());
        }
        let file = self.path.join(OUTCOMES);
        if whole.len() < text.len() {
            self.outcomes
                .set_len(whole.len() as u64)
                .with_context(|| format!("mending {}", file.display()))?;
        }
        lines
            .enumerate()
            .map(|(index, line)| {
                serde_json::from_str(line)
                    .with_context(|| format!("{}:{}: no run", file.display(), index + 2))
            })
            .collect()
    }

    /// Adds a run.
    pub(super) fn add(&mut self, line: &Line) -> anyhow::Result<()> {
        self.append(line)
    }

    fn append(&mut self, line: &impl Serialize) -> anyhow::Result<()> {
        let mut text = serde_json::to_string(line).context("writing JSON")?;
        text.push('\n');
        // In one call, so that a line is there as a whole or not at all.
        self.outcomes
            .write_all(text.as_bytes())
            .with_context(|| format!("writing {}", self.path.join(OUTCOMES).display()))
    }

    /// Writes the document and its page, over older ones.
    pub(super) fn finish(&self, document: &str, page: &str) -> anyhow::Result<()> {
        for (name, text) in [(DOCUMENT, document), (PAGE, page)] {
            let file = self.path.join(name);
            let fresh = self.path.join(format!("{name}.new"));
            fs::write(&fresh, text)
                .and_then(|()| fs::rename(&fresh, &file))
                .with_context(|| format!("writing {}", file.display()))?;
        }
        Ok(())
    }
}

/// The document that a folder has.
pub(super) fn document(path: &Path) -> anyhow::Result<String> {
    let file = path.join(DOCUMENT);
    fs::read_to_string(&file).map_err(|error| {
        Problem::usage(format!("reading {}: {error}", file.display()))
            .hint("a folder that `lab reproduce -o DIR` wrote has it; run that again to finish it")
            .into()
    })
}

/// The runs that a folder has, as far as they can be read.
pub(super) fn lines(path: &Path) -> anyhow::Result<Vec<Line>> {
    let file = path.join(OUTCOMES);
    let text = fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
    let lines = text.lines().skip(1);
    Ok(lines
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect())
}

fn refusal(path: &Path, what: &str) -> Problem {
    Problem::usage(format!("{} has {what}", path.display()))
        .hint("name another folder with -o, or remove this one")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(names: &[&str], quick: bool) -> Head {
        Head::new(names.iter().map(|name| (*name, *name)), quick)
    }

    fn line(run: u32) -> Line {
        Line {
            scenario: "n1".into(),
            variant: Some("n5".into()),
            axes: Vec::new(),
            engine: EngineName::Virtual,
            run,
            elapsed_s: 0.5,
            outcome: Outcome {
                duration_s: 5.66,
                ..Outcome::default()
            },
        }
    }

    #[test]
    fn a_folder_goes_on_where_it_was_cut_off() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("results");
        let (mut folder, lines) = Folder::open(&path, &head(&["n1"], false)).expect("it is new");
        assert_eq!(lines, []);
        folder.add(&line(0)).expect("it is written");
        folder
            .outcomes
            .write_all(b"{\"scenario\": \"n")
            .expect("half of a line");
        let busy = Folder::open(&path, &head(&["n1"], false)).expect_err("it is open");
        assert!(busy.to_string().contains("another run writes"), "{busy}");
        drop(folder);
        let (mut folder, lines) = Folder::open(&path, &head(&["n1"], false)).expect("the same");
        assert_eq!(lines, [line(0)]);
        folder.add(&line(1)).expect("it is written");
        drop(folder);
        let (folder, lines) = Folder::open(&path, &head(&["n1"], false)).expect("the same");
        assert_eq!(lines, [line(0), line(1)]);
        folder.finish("{}", "<p>").expect("it is written");
        assert_eq!(document(&path).expect("it is there"), "{}");
    }

    #[test]
    fn what_belongs_elsewhere_is_refused() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path();
        let refused = |head: &Head, part: &str| {
            let error = Folder::open(path, head).expect_err(part).to_string();
            assert!(error.contains(part), "{error}");
        };
        fs::write(path.join("notes"), "x").expect("a file");
        refused(&head(&["n1"], false), "has other files");
        fs::remove_file(path.join("notes")).expect("it is there");
        Folder::open(path, &head(&["n1"], false)).expect("it is new");
        refused(&head(&["n1"], true), "has results without --quick");
        refused(&head(&["n1", "n4"], false), "of other experiments (n1)");
        let mut other = head(&["n1"], false);
        other.scenarios.insert("n1".into(), "0".into());
        refused(&other, "another text of experiment n1");
        other.version = "9".into();
        let text = serde_json::to_string(&other).expect("plain data") + "\n";
        fs::write(path.join(OUTCOMES), text).expect("a file");
        refused(&head(&["n1"], false), "has results of tcptailor 9");
        fs::write(path.join(OUTCOMES), "hello\n").expect("a file");
        refused(&head(&["n1"], false), "something else");
        assert!(document(path).is_err());
    }
}
