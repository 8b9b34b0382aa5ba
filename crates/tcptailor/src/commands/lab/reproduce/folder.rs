//! The folder of a reproduction: every run as it is made, then the document.
//!
//! `outcomes.jsonl` begins with what was asked, and gets a line for each run; nothing in it is ever
//! changed. So what was interrupted, or killed, goes on where it stopped. Lines go to the disk
//! every few seconds, those of runs in real time one by one.

use std::collections::BTreeMap;
use std::fs;
use std::hash::Hasher;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::Context;
use lab::app::HostCosts;
use lab::results::Host;
use papers::reproduction::Line;
use serde::{Deserialize, Serialize};
use siphasher::sip::SipHasher13;

use crate::commands::lab::folder::{read_lines, replace};
use crate::commands::lab::line_log::{LineLog, Purpose};
use crate::exit::Problem;
use crate::output::{self, Output};

const OUTCOMES: &str = "outcomes.jsonl";
const DOCUMENT: &str = "reproduce.json";
const PAGE: &str = "index.html";
const SCHEMA: &str = "tcptailor/lab-reproduce-outcomes/1";
/// All runs of a folder are held in memory; those of all experiments take some 10 MB.
const OUTCOMES_BYTES_MAX: u64 = 1 << 30;
/// No first line is as long.
const HEAD_BYTES_MAX: u64 = 1 << 20;
/// A document has all values of all numbers.
const DOCUMENT_BYTES_MAX: u64 = 1 << 28;

/// Properties of the runs in a folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Head {
    schema: String,
    version: String,
    quick: bool,
    /// Costs of virtual hosts, where they are not the defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    host_costs: Option<HostCosts>,
    /// By name, with a sum of the text.
    scenarios: BTreeMap<String, String>,
    /// Machine on which it was begun; real-time results depend on it.
    #[serde(default)]
    host: Host,
}

/// An open folder.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    outcomes: LineLog,
}

impl Head {
    /// Head for the chosen scenarios: their names and texts.
    pub(super) fn new<'s>(
        scenarios: impl Iterator<Item = (&'s str, &'s str)>,
        quick: bool,
        host_costs: Option<HostCosts>,
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
            host_costs,
            scenarios: scenarios
                .map(|(name, text)| (name.to_owned(), sum(text)))
                .collect(),
            host: Host {
                kernel: output::kernel_release(),
                cpus: std::thread::available_parallelism().ok().map(usize::from),
            },
        }
    }

    /// Why runs under `self` do not belong beside those under `other`, some of which are made in
    /// real time or not.
    fn difference(&self, other: &Self, in_real_time: bool) -> Option<String> {
        if self.schema != other.schema || self.version != other.version {
            return Some(format!("results of tcptailor {}", self.version));
        }
        if self.quick != other.quick {
            let kind = if self.quick { "with" } else { "without" };
            return Some(format!("results {kind} --quick"));
        }
        if self.host_costs != other.host_costs {
            return Some("results with other --costs".into());
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
        changed
            .map(|(name, _)| format!("results of another text of experiment {name}"))
            .or_else(|| self.other_machine(other).filter(|_| in_real_time))
    }

    /// Describes another machine; unknown properties are no difference.
    fn other_machine(&self, other: &Self) -> Option<String> {
        let kernels = self.host.kernel.as_ref().zip(other.host.kernel.as_ref());
        if let Some((here, there)) = kernels.filter(|(here, there)| here != there) {
            return Some(format!("results of kernel {here}, and this is {there}"));
        }
        let cpus = self.host.cpus.zip(other.host.cpus);
        let (here, there) = cpus.filter(|(here, there)| here != there)?;
        let here = base::human::count(here as u64, "processor");
        Some(format!(
            "results of a machine with {here}, and this has {there}"
        ))
    }
}

impl Folder {
    /// Opens a folder, new or of the same experiments, and reads the runs that it has. It is locked
    /// until it is dropped. Runs in real time are added to those of the same machine alone.
    pub(super) fn open(
        path: &Path,
        head: &Head,
        in_real_time: bool,
        output: &Output,
    ) -> anyhow::Result<(Self, Vec<Line>)> {
        fs::create_dir_all(path).with_context(|| format!("making {}", path.display()))?;
        let file = path.join(OUTCOMES);
        let is_used = fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some());
        if is_used && !file.exists() {
            return Err(refusal(path, "other files").into());
        }
        let purpose = Purpose {
            place: &path.display().to_string(),
            taken: "Wait for its end, or name another folder with -o.",
            go_on: "run the same command again",
        };
        let mut folder = Self {
            path: path.to_owned(),
            outcomes: LineLog::open(file, purpose, output)?,
        };
        if folder.is_new()? {
            folder.outcomes.cut(0)?;
            folder.append(head)?;
            folder.outcomes.finish()?;
            return Ok((folder, Vec::new()));
        }
        let lines = folder.runs(head, in_real_time)?;
        Ok((folder, lines))
    }

    /// Whether its file is empty, or ends within our first line: its writer was killed there.
    fn is_new(&self) -> anyhow::Result<bool> {
        let mut begun = Vec::new();
        let read = self
            .outcomes
            .file()
            .take(HEAD_BYTES_MAX)
            .read_to_end(&mut begun);
        read.with_context(|| format!("reading {}", self.outcomes.path().display()))?;
        let first = format!("{{\"schema\":\"{SCHEMA}\"");
        let same = begun.len().min(first.len());
        // A disk that lost power may have kept the length alone.
        let is_ours = begun[..same] == first.as_bytes()[..same] || begun.iter().all(|b| *b == 0);
        Ok(is_ours && !begun.contains(&b'\n'))
    }

    /// The runs of its file; a last line that was cut off is taken away.
    fn runs(&mut self, head: &Head, in_real_time: bool) -> anyhow::Result<Vec<Line>> {
        let file = self.outcomes.path().to_owned();
        let mut is_head = false;
        let mut lines = Vec::new();
        check_length(self.outcomes.bytes(), &file)?;
        let torn = read_lines(&file, |line, number, _| {
            if number > 1 {
                lines.push(serde_json::from_str(line).map_err(|error| {
                    let message = format!("{}:{number} is not a run ({error})", file.display());
                    Problem::usage(message).hint("delete that line, and its run is made again")
                })?);
                return Ok(());
            }
            is_head = true;
            let found = serde_json::from_str::<Head>(line).ok();
            let difference = match found {
                None => Some("a file outcomes.jsonl of something else".into()),
                Some(found) => found.difference(head, in_real_time),
            };
            difference.map_or(Ok(()), |what| Err(refusal(&self.path, &what)))
        })?;
        if !is_head {
            return Err(refusal(&self.path, "a file outcomes.jsonl of something else").into());
        }
        if let Some(torn) = torn {
            self.outcomes.cut(torn)?;
        }
        Ok(lines)
    }

    /// Adds a run.
    pub(super) fn add(&mut self, line: &Line) -> anyhow::Result<()> {
        self.append(line)
    }

    fn append(&mut self, line: &impl Serialize) -> anyhow::Result<()> {
        let mut text = serde_json::to_string(line).context("writing JSON")?;
        text.push('\n');
        Ok(self.outcomes.append(&text)?)
    }

    /// Writes the document and its page, over older ones.
    pub(super) fn finish(&self, document: &str, page: &str) -> anyhow::Result<()> {
        self.outcomes.finish()?;
        for (name, text) in [(DOCUMENT, document), (PAGE, page)] {
            replace(&self.path.join(name), text.as_bytes())?;
        }
        Ok(())
    }
}

/// The document that a folder has.
pub(super) fn document(path: &Path) -> anyhow::Result<String> {
    let file = path.join(DOCUMENT);
    let text = crate::output::read_text(&file, DOCUMENT_BYTES_MAX).map_err(|problem| {
        problem
            .hint("a folder that `lab reproduce -o DIR` wrote has it; run that again to finish it")
    })?;
    Ok(text)
}

/// The runs that a folder has, as far as they can be read.
pub(in crate::commands::lab) fn lines(path: &Path) -> anyhow::Result<Vec<Line>> {
    let file = path.join(OUTCOMES);
    let mut lines = Vec::new();
    let metadata = fs::metadata(&file).map_err(|error| {
        Problem::usage(format!("reading {}: {error}", file.display()))
            .hint("a folder that `lab reproduce -o DIR` wrote has it")
    })?;
    check_length(metadata.len(), &file)?;
    read_lines(&file, |line, _, _| {
        // The first is none, and one that is broken is told when the folder is gone on with.
        lines.extend(serde_json::from_str::<Line>(line).ok());
        Ok(())
    })?;
    Ok(lines)
}

fn check_length(bytes: u64, name: &Path) -> Result<(), Problem> {
    match bytes > OUTCOMES_BYTES_MAX {
        false => Ok(()),
        true => Err(Problem::usage(format!(
            "{} has {}: too long",
            name.display(),
            base::human::bytes(bytes)
        ))),
    }
}

fn refusal(path: &Path, what: &str) -> Problem {
    Problem::usage(format!("{} has {what}", path.display()))
        .hint("name another folder with -o, or remove this one")
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::Write;

    use lab::{EngineName, Outcome};

    use super::*;
    use crate::cli::Globals;

    fn head(names: &[&str], quick: bool) -> Head {
        Head::new(names.iter().map(|name| (*name, *name)), quick, None)
    }

    fn open(path: &Path, head: &Head) -> anyhow::Result<(Folder, Vec<Line>)> {
        Folder::open(path, head, true, &output())
    }

    fn output() -> Output {
        Output::new(&Globals::default())
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
        let (mut folder, lines) = open(&path, &head(&["n1"], false)).expect("it is new");
        assert_eq!(lines, []);
        folder.add(&line(0)).expect("it is written");
        let file = OpenOptions::new().append(true).open(path.join(OUTCOMES));
        let written = file.and_then(|mut file| file.write_all(b"{\"scenario\": \"n"));
        written.expect("half of a line");
        let busy = open(&path, &head(&["n1"], false)).expect_err("it is open");
        assert!(
            busy.to_string().contains("another process is writing"),
            "{busy}"
        );
        drop(folder);
        let (mut folder, lines) = open(&path, &head(&["n1"], false)).expect("the same");
        assert_eq!(lines, [line(0)]);
        folder.add(&line(1)).expect("it is written");
        drop(folder);
        let (folder, lines) = open(&path, &head(&["n1"], false)).expect("the same");
        assert_eq!(lines, [line(0), line(1)]);
        folder.finish("{}", "<p>").expect("it is written");
        assert_eq!(document(&path).expect("it is there"), "{}");
    }

    #[test]
    fn what_belongs_elsewhere_is_refused() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path();
        let refused = |head: &Head, part: &str| {
            let error = open(path, head).expect_err(part).to_string();
            assert!(error.contains(part), "{error}");
        };
        fs::write(path.join("notes"), "x").expect("a file");
        refused(&head(&["n1"], false), "has other files");
        fs::remove_file(path.join("notes")).expect("it is there");
        open(path, &head(&["n1"], false)).expect("it is new");
        refused(&head(&["n1"], true), "has results without --quick");
        refused(&head(&["n1", "n4"], false), "of other experiments (n1)");
        let mut other = head(&["n1"], false);
        other.scenarios.insert("n1".into(), "0".into());
        refused(&other, "another text of experiment n1");
        other.version = "9".into();
        let text = serde_json::to_string(&other).expect("plain data") + "\n";
        fs::write(path.join(OUTCOMES), text).expect("a file");
        refused(&head(&["n1"], false), "has results of tcptailor 9");
        for text in ["hello\n", "hello", "\n", "{}\n{}\n"] {
            fs::write(path.join(OUTCOMES), text).expect("a file");
            refused(&head(&["n1"], false), "something else");
            let kept = fs::read_to_string(path.join(OUTCOMES)).expect("a file");
            assert_eq!(kept, text, "what is not ours is left alone");
        }
        assert!(document(path).is_err());
    }

    #[test]
    fn a_writer_may_be_killed_anywhere() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path();
        let mut one = line(0);
        one.variant = Some("Größe".into());
        let (mut folder, _) = open(path, &head(&["n1"], false)).expect("it is new");
        folder.add(&one).expect("it is written");
        drop(folder);
        let whole = fs::read(path.join(OUTCOMES)).expect("a file");
        let first = 1 + whole
            .iter()
            .position(|byte| *byte == b'\n')
            .expect("a line");
        for end in 0..=whole.len() {
            fs::write(path.join(OUTCOMES), &whole[..end]).expect("a file");
            let (folder, lines) = open(path, &head(&["n1"], false)).expect("the same");
            drop(folder);
            assert_eq!(lines.len(), usize::from(end == whole.len()), "{end}");
            let kept = fs::read(path.join(OUTCOMES)).expect("a file");
            let expected = if end == whole.len() { end } else { first };
            assert_eq!(kept, whole[..expected], "{end}");
        }
        fs::write(path.join(OUTCOMES), [0; 99]).expect("a file");
        open(path, &head(&["n1"], false)).expect("only its length was kept");
    }

    #[test]
    fn runs_in_real_time_are_of_one_machine() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path();
        let on = |kernel: Option<&str>, cpus: Option<usize>| {
            let mut head = head(&["n1"], false);
            let kernel = kernel.map(str::to_owned);
            head.host = Host { kernel, cpus };
            head
        };
        open(path, &on(Some("6.1"), Some(2))).expect("it is new");
        let check = |head: &Head, part: &str| {
            Folder::open(path, head, false, &output())
                .expect("virtual time is the same everywhere");
            let error = open(path, head).expect_err(part).to_string();
            assert!(error.contains(part), "{error}");
        };
        check(
            &on(Some("6.2"), Some(2)),
            "has results of kernel 6.1, and this is 6.2",
        );
        check(
            &on(Some("6.1"), Some(8)),
            "has results of a machine with 2 processors, and this has 8",
        );
        open(path, &on(Some("6.1"), Some(2))).expect("the same");
        open(path, &on(None, None)).expect("what is unknown is no difference");
    }
}
