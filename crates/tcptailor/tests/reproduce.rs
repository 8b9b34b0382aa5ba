//! `lab reproduce` as a user meets it. Nearly all of it runs in virtual time; the one test on the
//! kernel says that it was skipped where this machine has no lab paths, and fails instead where
//! `REQUIRE_KERNEL` is set.

#[path = "../../linux/tests/asking/mod.rs"]
mod asking;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use lab::show::show_value;
use papers::evaluation::Reproduction;
use serde_json::Value;

/// A window that limits and one that does not: the first takes 524 ms, the other is the link's.
const EXPERIMENT: &str = r#"
name = "x1"
about = "Two windows on one path."
runs = 2

[path]
kind = "emulated"
rate = "25mbit"
rtt = "8ms"
queue = "200p"

[workload]
kind = "bulk"
bytes = "512KiB"

[[variant]]
name = "small"
server.rcvbuf = "16KiB"

[[variant]]
name = "large"
server.rcvbuf = "256KiB"

[quick]
runs = 1

[experiment]
ids = "X1"
document = "netburner"
class = "shape"
claim = "A window below the bandwidth-delay product is slower."
engines = "virtual, kernel"
corrections = "D-N8"

[[published]]
variant = "large"
metric = "duration_us"
value = "180ms"
text = "0.180 s"

[[expect]]
metric = "duration_us"
variant = "small"
over = "large"
min = "1.1"

[[expect]]
metric = "goodput_bps"
max = "25mbit"
"#;

struct Files {
    dir: tempfile::TempDir,
}

impl Files {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().expect("a directory"),
        }
    }

    /// The experiment with a change.
    fn experiment(&self, from: &str, to: &str) -> String {
        assert!(EXPERIMENT.contains(from));
        let file = self.dir.path().join("x1.toml");
        fs::write(&file, EXPERIMENT.replace(from, to)).expect("a file");
        file.display().to_string()
    }

    fn results(&self) -> PathBuf {
        self.dir.path().join("results")
    }
}

fn reproduce(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tcptailor"));
    command.args(["lab", "reproduce"]).args(args);
    command
}

fn run(args: &[&str]) -> Output {
    reproduce(args).output().expect("the program starts")
}

fn text(output: &Output) -> String {
    String::from_utf8([&*output.stdout, &*output.stderr].concat()).expect("UTF-8")
}

fn document(output: &Output) -> Reproduction {
    let text = text(output);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn text_and_json_have_the_same_numbers() {
    let files = Files::new();
    let file = files.experiment("x1", "x1");
    let args = [&*file, "--engines", "virtual", "--quick"];
    let told = run(&args);
    assert_eq!(told.status.code(), Some(0), "{}", text(&told));
    let output = run(&[&args[..], &["--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(value["schema"], "tcptailor/lab-reproduce/1");
    assert!(value["summary"]["elapsed_s"].as_f64() > Some(0.0));

    let document = document(&output);
    let told = text(&told);
    let [experiment] = &document.experiments[..] else {
        panic!("{value:#}");
    };
    assert_eq!(experiment.rows.len(), 4, "{value:#}");
    for row in &experiment.rows {
        let [value] = &row.engines[..] else {
            panic!("{row:?}");
        };
        let spread = value.spread.as_ref().expect("it was measured");
        assert_eq!((spread.n, spread.low), (1, spread.median));
        let shown = show_value(&row.unit, spread.median);
        let name = row.variant.as_deref().expect("a variant");
        let mut lines = told.lines().filter(|line| line.starts_with(name));
        let is_shown = |line: &str| line.contains(&shown) && line.contains(row.verdict.words());
        assert!(lines.any(is_shown), "{shown} of {row:?}\n{told}");
    }
    for part in ["X1 (x1, shape)", "0.180 s", "D-N8", "1 pass"] {
        assert!(told.contains(part), "{part} is missing in\n{told}");
    }
}

#[test]
fn a_claim_that_fails_is_a_finding() {
    let files = Files::new();
    let file = files.experiment("min = \"1.1\"", "min = \"9\"");
    let output = run(&[&file, "--engines", "virtual", "--runs", "1"]);
    let told = text(&output);
    assert_eq!(output.status.code(), Some(3), "{told}");
    assert!(told.contains("expected at least 9"), "{told}");
    assert!(told.contains("fail: x1"), "{told}");
}

#[test]
fn a_folder_keeps_each_run_and_shows_it_again() {
    let files = Files::new();
    let file = files.experiment("x1", "x1");
    let results = files.results();
    let folder = results.display().to_string();
    let args = [&*file, "--engines", "virtual", "--json", "-o", &folder];
    let output = run(&args);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let first = document(&output);
    assert_eq!((first.summary.runs, first.summary.runs_found), (4, 0));
    let lines = |folder: &Path| {
        let text = fs::read_to_string(folder.join("outcomes.jsonl")).expect("it was written");
        text.lines().count()
    };
    assert_eq!(lines(&results), 1 + 4);
    let page = fs::read_to_string(results.join("index.html")).expect("it was written");
    assert!(page.contains("0.180 s") && page.contains("D-N8"));

    // The same again has nothing to run.
    let again = document(&run(&args));
    assert_eq!((again.summary.runs, again.summary.runs_found), (4, 4));
    assert_eq!(again.experiments, first.experiments);
    assert_eq!(lines(&results), 1 + 4);
    let shown = document(&run(&["--show", &folder, "--json"]));
    assert_eq!(shown, again);

    // What a killed program left of its last line is made anew.
    let whole = fs::read_to_string(results.join("outcomes.jsonl")).expect("it was written");
    fs::write(results.join("outcomes.jsonl"), &whole[..whole.len() - 9]).expect("it is ours");
    let mended = document(&run(&args));
    assert_eq!((mended.summary.runs, mended.summary.runs_found), (4, 3));
    assert_eq!(mended.experiments, first.experiments);

    let other = files.experiment("512KiB", "513KiB");
    let refused = run(&[&other, "--engines", "virtual", "-o", &folder]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        text(&refused).contains("another text of experiment x1"),
        "{}",
        text(&refused)
    );
    assert!(
        text(&refused).contains("name another folder"),
        "{}",
        text(&refused)
    );
}

#[test]
fn a_full_disk_keeps_what_was_written() {
    let files = Files::new();
    let file = files.experiment("x1", "x1");
    let results = files.results();
    let folder = results.display().to_string();
    let args = [&*file, "--engines", "virtual", "-o", &folder];
    // The limit is in blocks of 512 bytes: enough for a few lines.
    let program = env!("CARGO_BIN_EXE_tcptailor");
    let limited = format!("trap '' XFSZ; ulimit -f 4; exec \"{program}\" lab reproduce \"$@\"");
    let mut shell = Command::new("sh");
    shell.args(["-c", &limited, "sh"]).args(args);
    let output = shell.output().expect("a shell");
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let told = text(&output);
    assert!(told.contains("outcomes.jsonl: File too large"), "{told}");
    assert!(told.contains("make room, then run the same"), "{told}");
    let kept = fs::read_to_string(results.join("outcomes.jsonl")).expect("a file");
    assert!(kept.ends_with('\n'), "only whole lines: {kept}");
    let output = run(&args);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
}

#[test]
fn a_page_that_cannot_be_written_is_told_before_the_first_run() {
    let files = Files::new();
    let file = files.experiment("x1", "x1");
    let folder = files.results().display().to_string();
    let page = files
        .dir
        .path()
        .join("none/page.html")
        .display()
        .to_string();
    let output = run(&[
        &*file,
        "--engines",
        "virtual",
        "-o",
        &folder,
        "--html",
        &page,
    ]);
    let told = text(&output);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("there is no directory "), "{told}");
    assert!(!files.results().exists(), "nothing was run");
}

#[test]
fn what_is_interrupted_shows_what_it_has_and_goes_on() {
    let files = Files::new();
    // Minutes, however fast the machine is.
    let long = EXPERIMENT
        .replace("runs = 2", "runs = 900")
        .replace("512KiB", "32MiB");
    let file = files.dir.path().join("x1.toml").display().to_string();
    fs::write(&file, long).expect("a file");
    let folder = files.results().display().to_string();
    let args = [&*file, "--engines", "virtual", "--json", "-o", &folder];
    let child = reproduce(&args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    while fs::read(files.results().join("outcomes.jsonl"))
        .unwrap_or_default()
        .is_empty()
    {
        thread::sleep(Duration::from_millis(20));
    }
    let pid = child.id().to_string();
    let kill = Command::new("kill").args(["-INT", &pid]).status();
    assert!(kill.expect("kill starts").success(), "it is over already");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130), "{}", text(&output));
    let first = document(&output);
    assert!(first.summary.interrupted);
    assert!(first.summary.runs < 1800, "{}", first.summary.runs);
    let told = text(&run(&["--show", &folder]));
    assert!(
        told.contains("interrupted: not all runs were made"),
        "{told}"
    );
}

#[test]
fn what_is_unknown_is_refused_with_what_may_be_meant() {
    let check = |args: &[&str], part: &str| {
        let output = run(args);
        let told = text(&output);
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains(part), "{part} is missing in {told}");
    };
    check(&["netburnr"], "did you mean `netburner`?");
    check(&["n7c"], "did you mean `n7a`?");
    check(
        &["./no-such-file.toml"],
        "./no-such-file.toml: No such file",
    );
    check(&["all", "--engines", "kernl"], "invalid value 'kernl'");
    check(
        &["--show", "/no/such/folder"],
        "/no/such/folder/reproduce.json: No such file",
    );
    let files = Files::new();
    let end = EXPERIMENT.find("[experiment]").expect("it has one");
    let plain = files.dir.path().join("plain.toml");
    fs::write(&plain, &EXPERIMENT[..end]).expect("a file");
    check(&[&plain.display().to_string()], "is not an experiment");
}

#[test]
fn the_kernel_stands_beside_virtual_time() {
    let files = Files::new();
    let file = files.experiment("x1", "x1");
    let output = run(&[&file, "--runs", "1", "--json"]);
    let document = document(&output);
    let [experiment] = &document.experiments[..] else {
        panic!("{document:?}");
    };
    // A machine that is too busy breaks a claim, or gives no usable run; both are told.
    match output.status.code() {
        Some(0) => {}
        Some(3) if !experiment.doubts.is_empty() => {}
        code => panic!("{code:?}: {}", text(&output)),
    }
    if let Some(missing) = experiment.not_run.first() {
        assert_eq!(document.summary.missing[0], *missing);
        return asking::skip(&missing.why);
    }
    for row in &experiment.rows {
        let engines: Vec<&str> = row
            .engines
            .iter()
            .map(|value| value.engine.name())
            .collect();
        assert_eq!(engines, ["virtual", "kernel"], "{row:?}");
    }
}

#[test]
fn a_figure_is_drawn_and_printed_as_a_table() {
    let dir = tempfile::tempdir().expect("a folder");
    let folder = dir.path().display().to_string();
    let drawn = text(&run(&[
        "p2",
        "--quick",
        "--engines",
        "virtual",
        "-o",
        &folder,
    ]));
    assert!(drawn.contains("BUFFERS  VIRTUAL GOODPUT"), "{drawn}");
    assert!(drawn.contains("RTT MEAN  RTT P99"), "{drawn}");
    let page = fs::read_to_string(dir.path().join("index.html")).expect("it was written");
    assert!(page.contains("P2: round-trip time"));
    let table = text(&run(&["--show", &folder, "--markdown"]));
    assert!(table.contains("| RTT | buffers | virtual |\n"), "{table}");
    assert!(table.contains("\n**pass** ("), "{table}");
    let rows = table.lines().filter(|line| line.contains(" (p99 "));
    assert_eq!(rows.count(), 10, "{table}");
    let data = run(&["--show", &folder, "--markdown", "--json"]);
    let data: serde_json::Value = serde_json::from_slice(&data.stdout).expect("JSON");
    let spots = data["figures"][0]["spots"].as_array().expect("spots");
    assert_eq!(spots.len(), 10);
    assert!(
        spots
            .iter()
            .all(|spot| spot["rtt_p99_us"].as_f64() >= spot["rtt_mean_us"].as_f64())
    );
}
