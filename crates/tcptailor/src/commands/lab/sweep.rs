//! Many cells of a scenario, in parallel, in several processes, in parts: into a results folder.

mod work;

use std::collections::BTreeMap;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use base::human;
use clap::builder::PossibleValuesParser;
use lab::app::HostCosts;
use lab::results::{
    FORMAT, Host, MANIFEST_FILE, Manifest, Record, RunId, SWEEP_RUNS_MAX, SweepPlan, Usability,
};
use lab::{Amount, Shard};
use serde::Serialize;
use stack::profile::PROFILES;

use self::work::Made;
use super::calibrate;
use super::folder::{Folder, go_on, open_log};
use super::run::{Engine, Runner, load_text, mistakes};
use crate::exit::{Exit, Problem};
use crate::interrupt;
use crate::output::{self, Output};

/// More runs than this are asked about.
const RUNS_UNASKED_MAX: u64 = 1_000;
/// Most runs of each cell.
const RUNS_MAX: i64 = SWEEP_RUNS_MAX as i64;
/// Time to set up and remove the path of a trial on real packets.
const REAL_TIME_SETUP: Duration = Duration::from_secs(1);
/// How often a wait for an answer checks whether the user wants the program to end.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Run a scenario with many values: each combination is a cell, the results go to a folder.
///
/// Each finished run is written to the folder at once; --resume continues an interrupted sweep.
/// With --shard several processes or machines share the work: all run the same command, each with
/// its own shard number, into one folder or into one each, which `tcptailor lab merge` joins. In
/// virtual time the numbers do not depend on how the work is divided.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tcptailor lab sweep wan-bulk --vary path.rtt=1ms..200ms:log8 -o rtt
  tcptailor lab sweep wan-bulk --vary path.rtt=10ms,80ms --vary client.congestion=cubic,reno -o cc
  tcptailor lab sweep wan-bulk --vary path.loss=0.001%..1%:log7 --runs 20 -o loss --resume
  tcptailor lab sweep ./mine.toml --vary server.rcvbuf=64KiB,256KiB,4MiB -o part3 --shard 3/16
  tcptailor lab report rtt                                   the results as a table
  tcptailor lab compare cc-before cc-after                   two folders, cell by cell

Values: a comma-separated list, or FIRST..LAST:logN or :linN for N values, both ends included.
Values that contain commas are separated by `;`. Any key of a scenario can be varied, including
every knob.

docs/sweeps.md says how to spread a sweep over Slurm, Kubernetes, GNU parallel or Dask.")]
pub(crate) struct Args {
    /// A built-in scenario, or a file.
    #[arg(value_name = "SCENARIO")]
    scenario: String,
    /// An axis of the sweep; replaces the one that the scenario has for this key. May be repeated
    /// with other keys.
    #[arg(long, value_name = "KEY=VALUES")]
    vary: Vec<String>,
    /// What runs it; see `tcptailor lab run --help`. Only `virtual` runs several at a time.
    #[arg(long, value_name = "ENGINE", default_value = "virtual")]
    engine: Engine,
    /// Runs of each cell, each with a different seed [default: `runs` of the scenario].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=RUNS_MAX))]
    runs: Option<u32>,
    /// Override one setting of all cells, such as `path.rtt=80ms` or `client.nodelay=on`.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Seed of the random number generators.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// CPU costs of hosts in virtual time, from `lab calibrate -o FILE` [default: those of a
    /// typical Linux host].
    #[arg(long, value_name = "FILE")]
    costs: Option<PathBuf>,
    /// The stack of hosts whose scenario names none (`client.profile`).
    #[arg(long, value_name = "NAME")]
    #[arg(value_parser = PossibleValuesParser::new(PROFILES.iter().map(|(name, _)| *name)))]
    profile: Option<String>,
    /// Concurrent runs [default: one per CPU]. On real packets it is always one.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Only this part of the runs: the first of four is `1/4`.
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,
    /// Continue a sweep: runs already in the folder are not repeated, except invalid ones on real
    /// packets.
    #[arg(long)]
    resume: bool,
    /// The results folder.
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Do not ask for confirmation before very many runs.
    #[arg(short, long)]
    yes: bool,
}

#[derive(Serialize)]
struct Document {
    folder: String,
    scenario: String,
    engine: String,
    shard: String,
    cells: u64,
    /// Number of runs in this shard.
    runs: u64,
    /// Runs that were in the folder already.
    skipped: u64,
    /// Runs that were made now.
    made: u64,
    /// Runs, made now or found in the folder, that are invalid.
    unusable: u64,
    seconds: f64,
    interrupted: bool,
}

impl Args {
    /// Whether it needs a path of this machine.
    pub(crate) const fn lays_path(&self) -> bool {
        self.engine.is_real_time()
    }

    fn jobs(&self) -> Result<usize, Problem> {
        let cpus = || std::thread::available_parallelism().map_or(1, usize::from);
        match (self.engine.is_real_time(), self.jobs) {
            (true, None | Some(1)) => Ok(1),
            (true, Some(_)) => Err(Problem::usage(format!(
                "--jobs: runs on engine `{}` would disturb each other; they are made one by one",
                self.engine
            ))
            .hint("Leave out --jobs, or use --engine virtual.")),
            (false, Some(jobs)) => Ok(jobs.into()),
            (false, None) => Ok(cpus()),
        }
    }

    /// The manifest of the sweep.
    fn manifest(&self) -> anyhow::Result<Manifest> {
        let (file, text) = load_text(&self.scenario)?;
        let scenario =
            papers::experiments::read_scenario(&file, &text).map_err(|told| mistakes(&told))?;
        let mut scenario = scenario.on(self.engine.into());
        if let Some(probe) = scenario.probe {
            let message = format!("`{}` is a probe, not a trial", scenario.name);
            return Err(Problem::usage(message).hint(probe.about).into());
        }
        let costs = self.costs.as_deref().map(calibrate::read).transpose()?;
        let is_virtual = self.engine == Engine::Virtual;
        // The number of repetitions is not a setting of a cell: the manifest has a field for it.
        let mut set = Vec::new();
        for setting in &self.set {
            match setting.split_once('=') {
                Some((key, runs)) if key.trim() == "runs" => scenario
                    .set("runs", runs.trim())
                    .map_err(|told| mistakes(&told))?,
                _ => set.push(setting.clone()),
            }
        }
        set.extend(self.seed.map(|seed| format!("seed={seed}")));
        let mut manifest = Manifest {
            format: FORMAT,
            tool_version: env!("CARGO_PKG_VERSION").into(),
            scenario: scenario.name.clone(),
            file,
            text,
            set,
            vary: self.vary.clone(),
            engine: self.engine.into(),
            profile: self.profile.clone(),
            host_costs: costs.or(is_virtual.then(HostCosts::linux)),
            runs: self.runs.unwrap_or(scenario.runs),
            cells: 0,
            host: Host {
                kernel: output::kernel_release(),
                cpus: std::thread::available_parallelism().ok().map(usize::from),
            },
            created: output::now(),
        };
        let plan = SweepPlan::new(&manifest).map_err(|told| mistakes(&told))?;
        manifest.cells = plan.cells();
        Ok(manifest)
    }
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<Exit> {
    let jobs = args.jobs()?;
    let shard = args.shard.unwrap_or(Shard::WHOLE);
    let manifest = args.manifest()?;
    let plan = SweepPlan::new(&manifest).map_err(|told| mistakes(&told))?;
    let runner = Runner::new(args.engine, args.profile.as_deref(), manifest.host_costs)?;
    let runs = plan.count(shard);
    let consent = |runs| match !args.yes && runs > RUNS_UNASKED_MAX {
        true => ask(&plan, &runner, runs, jobs),
        false => Ok(()),
    };
    // Of a sweep that goes on it is known only after a look into its folder what is left; of a new
    // one nothing is written before.
    let is_begun = args.resume && args.output.join(MANIFEST_FILE).exists();
    if !is_begun {
        consent(runs)?;
    }
    let folder = Folder::make(&args.output, &manifest)?;
    let log = open_log(&folder, shard, args.resume, output)?;
    let (done, of_shard) = done(&folder, (&plan, shard), output)?;
    if is_begun {
        consent(runs.saturating_sub(of_shard))?;
    }
    let label = if args.shard.is_some() {
        format!("{} {shard}", manifest.scenario)
    } else {
        manifest.scenario.clone()
    };
    let work = work::Work {
        plan: &plan,
        runner: &runner,
        shard,
        done: &done,
        jobs,
        label,
    };
    let made = work.run(log, output)?;
    finish(args, &manifest, &made, output)
}

/// Runs that are in the folder and are not made again, and whether their numbers count; and how
/// many of them are of this shard.
fn done(
    folder: &Folder,
    (plan, shard): (&SweepPlan, Shard),
    output: &Output,
) -> anyhow::Result<(BTreeMap<RunId, bool>, u64)> {
    let mut done = BTreeMap::new();
    let mut of_shard = 0;
    folder.read(output, |record| {
        let before = done.len();
        add_done(&mut done, &record);
        let is_new = done.len() > before;
        of_shard += u64::from(is_new && plan.is_of(shard, record.place()));
    })?;
    Ok((done, of_shard))
}

fn add_done(done: &mut BTreeMap<RunId, bool>, record: &Record) {
    match record.worth() {
        // As if it had not been made: the next try may be usable.
        Usability::Retry => (),
        Usability::Never => drop(done.entry(record.id).or_insert(false)),
        Usability::Usable => drop(done.insert(record.id, true)),
    }
}

fn finish(args: &Args, manifest: &Manifest, made: &Made, output: &Output) -> anyhow::Result<Exit> {
    let interrupted = interrupt::stopped() && made.made + made.skipped < made.runs;
    let document = Document {
        folder: args.output.display().to_string(),
        scenario: manifest.scenario.clone(),
        engine: manifest.engine.to_string(),
        shard: args.shard.unwrap_or(Shard::WHOLE).to_string(),
        cells: manifest.cells,
        runs: made.runs,
        skipped: made.skipped,
        made: made.made,
        unusable: made.unusable,
        seconds: made.time.as_secs_f64(),
        interrupted,
    };
    output.report("lab-sweep", &document, || told(&document))?;
    if interrupted {
        output.note(format!("continue with: {}", command_to_resume()));
        return Ok(Exit::Interrupted);
    }
    if made.unusable > 0 {
        output.note("some runs are not usable: `tcptailor lab report` says which");
        return Ok(Exit::Failed);
    }
    Ok(Exit::Done)
}

fn told(document: &Document) -> String {
    let Document {
        made,
        skipped,
        runs,
        ..
    } = document;
    let mut text = String::new();
    if document.interrupted {
        text.push_str(&format!(
            "interrupted: {} of {runs} runs are made\n",
            made + skipped
        ));
    }
    let before = match skipped {
        0 => String::new(),
        _ => format!(", {skipped} were there already"),
    };
    let speed = match document.seconds {
        seconds if seconds > 0.0 && *made > 0 => {
            format!(": {:.1} a second", *made as f64 / seconds)
        }
        _ => String::new(),
    };
    text.push_str(&format!(
        "{} of {} made in {:.1} s{speed}{before}\n",
        human::count(*made, "run"),
        human::count(document.cells, "cell"),
        document.seconds
    ));
    text.push_str(&format!(
        "results: tcptailor lab report {}\n",
        quoted(&document.folder)
    ));
    text
}

/// Asks before a sweep that takes long; without a terminal it is refused.
fn ask(plan: &SweepPlan, runner: &Runner, runs: u64, jobs: usize) -> Result<(), Problem> {
    let what = human::count(runs, "run");
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        let time = match runner {
            Runner::RealTime(_) => expected(plan, runs),
            Runner::Virtual(_) => String::new(),
        };
        let message = format!("{what}{time}: too many to begin unasked");
        let hint = "Add --yes, or name fewer values or --runs.";
        return Err(Problem::usage(message).hint(hint));
    }
    let time = match runner {
        Runner::RealTime(_) => expected(plan, runs),
        Runner::Virtual(_) => measured(plan, runner, runs, jobs),
    };
    let mut stderr = io::stderr();
    go_on()?;
    // A terminal that cannot be written to or read from gives no consent.
    let _ = write!(stderr, "{what}{time}: go on? [y/N] ");
    let _ = stderr.flush();
    let answer = line_of(
        |line| io::stdin().lock().read_line(line),
        interrupt::stopped,
    );
    if answer.is_none() {
        let _ = writeln!(stderr);
        go_on()?;
    }
    if matches!(answer.unwrap_or_default().trim(), "y" | "Y" | "yes") {
        return Ok(());
    }
    Err(Problem::usage("not begun; --yes begins without asking"))
}

/// A line, or `None` where the user wants the program to end before there is one. A read that a
/// signal interrupts begins anew, so another thread waits in it.
fn line_of(
    read: impl FnOnce(&mut String) -> io::Result<usize> + Send + 'static,
    stopped: impl Fn() -> bool,
) -> Option<String> {
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        let mut line = String::new();
        // A failed read is not an answer, and the receiver may be gone.
        let _ = read(&mut line);
        let _ = sender.send(line);
    });
    while !stopped() {
        match lines.recv_timeout(LOOK_EVERY) {
            Ok(line) => return Some(line),
            Err(mpsc::RecvTimeoutError::Timeout) => (),
            Err(mpsc::RecvTimeoutError::Disconnected) => return None,
        }
    }
    None
}

/// Estimated duration of trials in real time, from the first of them.
fn expected(plan: &SweepPlan, runs: u64) -> String {
    match plan.at(0).trial.workload.amount() {
        Amount::Time(time) => {
            let each = time + linux::kernel::WARM_UP + REAL_TIME_SETUP;
            format!(
                ", about {} in real time",
                about(each.as_secs_f64() * runs as f64)
            )
        }
        _ => String::new(),
    }
}

/// Estimate from the duration of the first run.
fn measured(plan: &SweepPlan, runner: &Runner, runs: u64, jobs: usize) -> String {
    let begun = linux::Clock.now();
    if runner.run(&plan.at(0).trial, &mut |_| ()).is_err() {
        return String::new();
    }
    let each = linux::Clock.now().since(begun).as_secs_f64();
    format!(", about {}", about(each * runs as f64 / jobs as f64))
}

/// An approximate time.
fn about(seconds: f64) -> String {
    match seconds {
        s if s < 90.0 => format!("{s:.0} s"),
        s if s < 5_400.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.0} h", s / 3_600.0),
        s => format!("{:.0} days", s / 86_400.0),
    }
}

/// The command line of this process, with `--resume`.
fn command_to_resume() -> String {
    let mut words: Vec<String> = std::env::args_os()
        .map(|word| quoted(&word.to_string_lossy()))
        .collect();
    if !words.iter().any(|word| word == "--resume") {
        words.push("--resume".into());
    }
    words.join(" ")
}

/// As a shell reads it as one word.
pub(super) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,%+@".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_a_shell() {
        let check = |word: &str, expected: &str| assert_eq!(quoted(word), expected);
        check("path.rtt=1ms..200ms:log8", "path.rtt=1ms..200ms:log8");
        check("a b", "'a b'");
        check("it's", "'it'\\''s'");
        check("", "''");
        check("$HOME", "'$HOME'");
    }

    #[test]
    fn an_answer_is_awaited_until_the_user_wants_the_end() {
        let yes = |line: &mut String| {
            line.push_str("y\n");
            Ok(2)
        };
        assert_eq!(line_of(yes, || false).as_deref(), Some("y\n"));
        let (_open, never) = mpsc::channel::<()>();
        let read = move |_: &mut String| Ok(usize::from(never.recv().is_ok()));
        let looks = std::cell::Cell::new(0);
        let stopped = || looks.replace(looks.get() + 1) == 2;
        assert_eq!(line_of(read, stopped), None);
    }

    #[test]
    fn times_are_told_roughly() {
        let check = |seconds: f64, expected: &str| assert_eq!(about(seconds), expected);
        check(12.4, "12 s");
        check(600.0, "10 min");
        check(10_800.0, "3 h");
        check(864_000.0, "10 days");
    }
}
