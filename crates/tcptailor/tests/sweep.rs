//! `lab sweep`, `merge`, `report` and `compare` as a user meets them: what is interrupted, killed
//! or out of space goes on where it was, and a sweep in parts gives what a sweep in one gives.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

/// Twelve cells, twice each: a second of work for a test build.
const SWEEP: &[&str] = &[
    "sweep",
    "lan-wwr",
    "--vary",
    "path.rtt=20ms..50ms:log4",
    "--set",
    "workload.duration=40s",
    "--runs",
    "2",
];
const RUNS: usize = 24;

fn lab(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tcptailor"));
    command.arg("lab").args(args);
    command
}

fn run(args: &[&str]) -> Output {
    lab(args).output().expect("the program starts")
}

/// Runs it and expects an exit code; returns both outputs.
fn expect(code: i32, args: &[&str]) -> String {
    let output = run(args);
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert_eq!(output.status.code(), Some(code), "{args:?}: {text}");
    text
}

fn sweep<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [SWEEP, more].concat()
}

/// A folder that vanishes, and paths in it.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    fn path(&self, name: &str) -> String {
        let path = self.0.path().join(name);
        path.to_str().expect("UTF-8").to_owned()
    }
}

fn outcomes(folder: &str) -> PathBuf {
    Path::new(folder).join("outcomes-1-of-1.jsonl")
}

fn text_of(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_default()
}

fn lines(file: &Path) -> Vec<String> {
    text_of(file).lines().map(str::to_owned).collect()
}

fn sorted(file: &Path) -> Vec<String> {
    let mut lines = lines(file);
    lines.sort();
    lines
}

/// Starts a sweep and waits until it has written some lines but not all.
fn started(args: &[&str], file: &Path) -> Child {
    let mut command = lab(args);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("the program starts");
    for _ in 0..3_000 {
        if lines(file).len() >= 2 {
            break;
        }
        thread::sleep(Duration::from_millis(10));
    }
    child
}

fn signal(child: &Child, name: &str) {
    let pid = child.id().to_string();
    let sent = Command::new("kill").args([name, &pid]).status();
    assert!(sent.expect("kill starts").success());
}

#[test]
fn shards_of_which_one_is_killed_make_what_one_process_makes() {
    let place = Place::new();
    let whole = place.path("whole");
    let text = expect(0, &sweep(&["-o", &whole]));
    assert!(text.contains("24 runs of 12 cells made"), "{text}");

    let (one, two) = (place.path("one"), place.path("two"));
    let second = sweep(&["-o", &two, "--shard", "2/2", "--resume", "--jobs", "1"]);
    let file = Path::new(&two).join("outcomes-2-of-2.jsonl");
    let mut child = started(&second, &file);
    signal(&child, "-KILL");
    child.wait().expect("it ends");
    let before = lines(&file).len();
    assert!((1..RUNS / 2).contains(&before), "{before} lines");
    // What a writer leaves that was killed within a line.
    let torn = OpenOptions::new().append(true).open(&file);
    torn.and_then(|mut file| file.write_all(b"{\"id\":\"12"))
        .expect("a file");

    expect(0, &sweep(&["-o", &one, "--shard", "1/2", "--resume"]));
    let joined = place.path("half");
    let text = expect(3, &["merge", &one, &two, "-o", &joined]);
    let missing = format!("{} runs missing:", RUNS / 2 - before);
    assert!(
        text.contains(&missing) && text.contains("--resume"),
        "{text}"
    );

    let text = expect(0, &second);
    assert!(text.contains("cut off; that run is made again"), "{text}");
    assert!(
        text.contains(&format!("{before} were there already")),
        "{text}"
    );
    let joined = place.path("joined");
    let text = expect(0, &["merge", &one, &two, "-o", &joined]);
    assert!(text.contains("24 runs of 12 cells in"), "{text}");
    assert_eq!(sorted(&outcomes(&joined)), sorted(&outcomes(&whole)));
    // In the same order too, once both are joined.
    let ordered = place.path("ordered");
    expect(0, &["merge", &whole, "-o", &ordered]);
    assert_eq!(lines(&outcomes(&joined)), lines(&outcomes(&ordered)));
}

#[test]
fn an_interrupted_sweep_says_how_it_goes_on() {
    let place = Place::new();
    let folder = place.path("a b");
    let args = sweep(&["-o", &folder, "--jobs", "1"]);
    let child = started(&args, &outcomes(&folder));
    signal(&child, "-INT");
    let output = child.wait_with_output().expect("it ends");
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert_eq!(output.status.code(), Some(130), "{text}");
    assert!(
        text.contains("interrupted: ") && text.contains("of 24 runs are made"),
        "{text}"
    );
    let command = text
        .lines()
        .find_map(|line| line.strip_prefix("continue with: "));
    let command = command.unwrap_or_else(|| panic!("{text}"));
    assert!(command.ends_with("--resume"), "{command}");

    let text = expect(0, &["report", &folder]);
    assert!(
        text.contains("not complete: ") && text.contains("of 24 runs"),
        "{text}"
    );
    let shell = Command::new("sh").args(["-c", command]).output();
    assert!(shell.expect("a shell").status.success(), "{command}");
    assert_eq!(lines(&outcomes(&folder)).len(), RUNS);
    let text = expect(0, &["report", &folder]);
    assert!(!text.contains("not complete"), "{text}");
    assert!(text.contains("nodelay/path.rtt=50ms"), "{text}");
}

#[test]
fn a_full_disk_keeps_what_was_written() {
    let place = Place::new();
    let folder = place.path("full");
    // The limit is in blocks of 512 bytes: enough for a few lines.
    let program = env!("CARGO_BIN_EXE_tcptailor");
    let limited = format!("trap '' XFSZ; ulimit -f 6; exec \"{program}\" lab \"$@\"");
    let mut args = vec!["-c", &limited, "sh"];
    let sweep = sweep(&["-o", &folder]);
    args.extend(&sweep);
    let output = Command::new("sh").args(&args).output().expect("a shell");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.contains("outcomes-1-of-1.jsonl: File too large"),
        "{text}"
    );
    assert!(
        text.contains("make room, then continue with --resume"),
        "{text}"
    );
    let kept = fs::read_to_string(outcomes(&folder)).expect("a file");
    assert!(kept.ends_with('\n') && kept.len() > 500, "only whole lines");
    for line in kept.lines() {
        assert!(serde_json::from_str::<Value>(line).is_ok(), "{line}");
    }
    let resumed: Vec<&str> = sweep.iter().copied().chain(["--resume"]).collect();
    expect(0, &resumed);
    assert_eq!(lines(&outcomes(&folder)).len(), RUNS);
}

#[test]
fn a_folder_belongs_to_one_sweep_and_a_shard_to_one_process() {
    let place = Place::new();
    let folder = place.path("taken");
    let args = sweep(&["-o", &folder, "--jobs", "1"]);
    let mut child = started(&args, &outcomes(&folder));
    // So that it does not end while the other one waits for it.
    signal(&child, "-STOP");
    let second = [&args[..], &["--resume"]].concat();
    let text = expect(2, &second);
    assert!(
        text.contains("another process is writing shard 1/1"),
        "{text}"
    );
    signal(&child, "-KILL");
    child.wait().expect("it ends");

    let text = expect(2, &args);
    assert!(text.contains("has results of this sweep already"), "{text}");
    let other = ["sweep", "wan-bulk", "--resume", "-o", &folder];
    let text = expect(2, &other);
    assert!(
        text.contains("holds another sweep: scenario lan-wwr here, wan-bulk there"),
        "{text}"
    );
    let more = [&second[..], &["--set", "path.queue=9p"]].concat();
    let text = expect(2, &more);
    assert!(text.contains("holds another sweep: --set"), "{text}");

    let manifest = Path::new(&folder).join("run.json");
    let text = fs::read_to_string(&manifest).expect("a manifest");
    fs::write(&manifest, text.replace("\"format\": 1", "\"format\": 99")).expect("a file");
    for args in [&second[..], &["report", &folder]] {
        let text = expect(2, args);
        assert!(
            text.contains("has format 99, and this program reads format 1"),
            "{text}"
        );
    }
    fs::remove_file(&manifest).expect("a manifest");
    let text = expect(2, &second);
    assert!(
        text.contains("is not a results folder: it holds outcomes-1-of-1.jsonl"),
        "{text}"
    );
}

#[test]
fn a_line_that_is_no_result_is_named() {
    let place = Place::new();
    let folder = place.path("broken");
    expect(0, &sweep(&["-o", &folder]));
    let file = outcomes(&folder);
    let text = fs::read_to_string(&file).expect("a file");
    let (first, rest) = text.split_once('\n').expect("lines");
    let half = first.len() / 2;
    fs::write(&file, format!("{}\n{rest}", &first[..half])).expect("a file");
    let text = expect(2, &["report", &folder]);
    assert!(
        text.contains("outcomes-1-of-1.jsonl:1 is not a result"),
        "{text}"
    );
    assert!(text.contains("delete that line"), "{text}");
    fs::write(&file, rest).expect("a file");
    let text = expect(0, &sweep(&["-o", &folder, "--resume"]));
    assert!(text.contains("1 run of 12 cells made"), "{text}");
}

/// A sweep with these options is refused, and leaves nothing behind.
fn refuses(args: &[&str], part: &str) {
    let place = Place::new();
    let folder = place.path("none");
    let args = [&["sweep", "wan-bulk"], args, &["-o", &folder]].concat();
    let text = expect(2, &args);
    assert!(text.contains(part), "{args:?}: {text}");
    assert!(!Path::new(&folder).exists(), "{args:?}");
}

#[test]
fn a_key_that_is_given_twice_is_refused() {
    refuses(
        &["--set", "path.rtt=1ms", "--vary", "path.rtt=1ms,2ms"],
        "set to one value with --set",
    );
    refuses(
        &["--seed", "5", "--vary", "seed=1,2"],
        "seed is set to one value with --seed or --set; name it once",
    );
    refuses(
        &["--set", "path.rtt=1ms", "--vary", "path.delay=1ms,2ms"],
        "path.delay makes no difference",
    );
    refuses(
        &["--vary", "path.rtt=1ms,2ms", "--vary", "path.rtt=3ms"],
        "--vary: path.rtt is given twice; name it once",
    );
}

#[test]
fn nonsense_is_refused_before_anything_is_written() {
    let check = refuses;
    check(&["--shard", "0/4"], "counted from 1: `1/4` to `4/4`");
    check(&["--shard", "5/4"], "there is no shard 5 of 4");
    check(&["--shard", "x"], "write for example `3/16`");
    check(
        &["--vary", "path.rtt"],
        "write for example `path.rtt=1ms..200ms:log8`",
    );
    check(&["--vary", "path.rtt=1ms..2ms"], "how many values?");
    check(&["--vary", "path.rtt=0s..2ms:log3"], "begins above 0");
    check(&["--vary", "path.rt=1ms,2ms"], "did you mean `rtt`?");
    check(
        &["--vary", "server.rcvbuff=1MiB,2MiB"],
        "did you mean `rcvbuf`?",
    );
    check(
        &["--vary", "path.rtt=1ms,2", "--yes"],
        "path.rtt: `2` has no unit",
    );
    check(&["--set", "path.rtt"], "write KEY=VALUE");
    check(&["--runs", "0"], "0 is not in");
    check(&["--engine", "kernel", "--jobs", "4"], "made one by one");
    check(&["--runs", "2000"], "2000 runs: too many to begin unasked");
    let often = ["--set", "runs=700", "--vary", "path.rtt=1ms,2ms"];
    check(&often, "1400 runs: too many");
    check(
        &[&often[..], &["--runs", "600"]].concat(),
        "1200 runs: too many",
    );
    check(&["--set", "runs=0"], "error: runs: 0 is out of range");
    let many = "path.rate=1mbit..1gbit:lin1000";
    check(
        &["--vary", many, "--vary", "path.rtt=1ms..1s:lin1000"],
        "1000000 runs",
    );
    let too_many = ["--vary", "seed=1..10000:lin10000", "--vary", many];
    let too_many = [
        &too_many[..],
        &["--vary", "path.rtt=1ms..1s:lin1000", "--yes"],
    ]
    .concat();
    check(&too_many, "more than 100000000 cells");
    check(&["--vary", "path.rtt=1ms..2s:lin10001"], "at most 10000");

    let place = Place::new();
    let text = expect(2, &["report", &place.path("none")]);
    assert!(text.contains("run.json: No such file"), "{text}");
    let here = place.path("");
    fs::write(place.path("notes.txt"), "mine").expect("a file");
    let text = expect(2, &sweep(&["-o", &here]));
    assert!(
        text.contains("is not a results folder: it holds notes.txt"),
        "{text}"
    );
}

#[test]
fn only_runs_that_are_still_to_be_made_are_asked_about() {
    let place = Place::new();
    let folder = place.path("many");
    let args = ["sweep", "lan-wwr", "--set", "workload.operations=1"];
    let often = ["--runs", "700", "-o", &folder];
    let args = [&args[..], &often].concat();
    let go_on = |more: &[&'static str]| [&args[..], &["--resume"], more].concat();
    let text = expect(2, &go_on(&[]));
    assert!(text.contains("2100 runs: too many"), "{text}");
    assert!(!Path::new(&folder).exists());
    expect(0, &[&args[..], &["--yes"]].concat());
    let text = expect(0, &go_on(&[]));
    assert!(text.contains("2100 were there already"), "{text}");

    // Of each shard half is left: of one of two not too much, of the whole sweep too much.
    let file = outcomes(&folder);
    let kept = sorted(&file).split_off(1049);
    fs::write(&file, kept.join("\n") + "\n").expect("a file");
    let text = expect(2, &go_on(&[]));
    assert!(text.contains("1049 runs: too many to begin"), "{text}");
    let text = expect(0, &go_on(&["--shard", "1/2"]));
    assert!(text.contains(" were there already"), "{text}");
    expect(0, &go_on(&[]));
}

#[test]
fn two_sweeps_are_compared_cell_by_cell() {
    let place = Place::new();
    let (before, after, same) = (
        place.path("before"),
        place.path("after"),
        place.path("same"),
    );
    let sweep = |more: &[&str]| {
        let args = [
            "sweep",
            "lan-request",
            "--runs",
            "6",
            "--set",
            "workload.duration=200ms",
            "--set",
            "path.loss=0.2%",
        ];
        expect(0, &[&args[..], more].concat());
    };
    let axis = ["--vary", "path.rtt=10ms,20ms"];
    sweep(&[&axis[..], &["-o", &before]].concat());
    sweep(&[
        "-o",
        &after,
        "--set",
        "path.reverse.delay=30ms",
        "--vary",
        "path.rtt=10ms,20ms,30ms",
    ]);
    sweep(&[&axis[..], &["-o", &same, "--seed", "77"]].concat());
    let output = run(&["compare", &before, &after, "--json"]);
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(document["schema"], "tcptailor/lab-compare/1");
    let cells = document["cells"].as_array().expect("a list");
    assert!(!cells.is_empty());
    for cell in cells {
        assert_eq!(cell["judgement"], "larger", "{cell:#}");
    }
    assert!(
        document["only_other"]
            .as_array()
            .is_some_and(|list| !list.is_empty())
    );
    let text = expect(0, &["compare", &before, &same]);
    assert!(text.contains("not distinguishable"), "{text}");

    let output = run(&["report", &before, &after, "--json"]);
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(document["schema"], "tcptailor/lab-report/1");
    let sweeps = document["sweeps"].as_array().expect("a list");
    assert_eq!(sweeps.len(), 2, "each by itself");
    assert_eq!(sweeps[0]["complete"], true);
    let text = expect(2, &["merge", &before, &after, "-o", &place.path("no")]);
    assert!(text.contains("are shards of different sweeps"), "{text}");
    let text = expect(2, &["merge", &before, "-o", &after]);
    assert!(text.contains("Name a new folder"), "{text}");
}

#[test]
fn few_runs_and_other_cells_are_told_as_such() {
    let place = Place::new();
    let (one, two, other) = (place.path("one"), place.path("two"), place.path("other"));
    let sweep = |scenario: &str, folder: &str, more: &[&str]| {
        let args = ["sweep", scenario, "--runs", "1", "-o", folder];
        let short = ["--set", "workload.duration=200ms"];
        expect(0, &[&args[..], &short, more].concat());
    };
    let axis = ["--vary", "path.rtt=1ms,10ms,2ms"];
    sweep("lan-wwr", &one, &axis);
    sweep(
        "lan-wwr",
        &two,
        &[&axis[..], &["--set", "client.nodelay=on"]].concat(),
    );
    sweep("lan-request", &other, &[]);

    let text = expect(0, &["compare", &one, &two]);
    // The lines above the table name folders, whose names may hold anything.
    let is_row = |line: &&str| line.split_whitespace().nth(1) == Some("p50");
    let rows = text.lines().filter(is_row);
    let rows: Vec<&str> = rows.collect();
    assert_eq!(rows.len(), 9, "{text}");
    for (row, cell) in rows.iter().zip(["1ms", "10ms", "2ms"]) {
        assert!(
            row.starts_with(&format!("default/path.rtt={cell} ")),
            "{text}"
        );
        assert!(row.ends_with("too few runs"), "{text}");
    }
    let text = expect(2, &["compare", &one, &other]);
    assert!(
        text.contains("no cell in common: scenario lan-wwr here, lan-request there"),
        "{text}"
    );
}

#[test]
fn cells_without_a_ratio_are_told_as_such() {
    let place = Place::new();
    let (base, other) = (place.path("base"), place.path("other"));
    expect(0, &sweep(&["-o", &base]));
    expect(0, &sweep(&["-o", &other]));
    let file = outcomes(&base);
    let zero = |cell: &str| {
        let changed = lines(&file).into_iter().map(|line| {
            let mut run: Value = serde_json::from_str(&line).expect("JSON");
            if run["cell"].as_str().is_some_and(|name| name.contains(cell)) {
                run["outcome"]["goodput_bps"] = Value::from(0);
                if let Some(p50) = run["outcome"].pointer_mut("/response_us/p50") {
                    *p50 = Value::from(0);
                }
            }
            format!("{run}\n")
        });
        fs::write(&file, changed.collect::<String>()).expect("a file");
    };
    zero("nodelay/path.rtt=50ms");
    let text = expect(0, &["compare", &base, &other]);
    assert!(text.contains("1 cell without a ratio, because"), "{text}");
    assert!(!text.contains("usable"), "{text}");
    zero("");
    let text = expect(1, &["compare", &base, &other]);
    assert!(text.contains("there is no ratio to runs of 0"), "{text}");
    assert!(!text.contains("usable"), "{text}");
}

#[test]
fn runs_that_differ_are_told() {
    let place = Place::new();
    let (one, two) = (place.path("one"), place.path("two"));
    expect(0, &sweep(&["-o", &one]));
    expect(0, &sweep(&["-o", &two]));
    let text = expect(0, &["merge", &one, &two, "-o", &place.path("equal")]);
    assert!(!text.contains("different"), "{text}");
    let file = outcomes(&two);
    let text = fs::read_to_string(&file).expect("a file");
    let changed = text.replacen("\"goodput_bps\":", "\"goodput_bps\":9", 1);
    fs::write(&file, changed).expect("a file");
    let joined = place.path("joined");
    let text = expect(3, &["merge", &one, &two, "-o", &joined]);
    assert!(
        text.contains("1 run there twice with different numbers"),
        "{text}"
    );
    let ordered = place.path("ordered");
    expect(0, &["merge", &one, "-o", &ordered]);
    assert_eq!(
        lines(&outcomes(&joined)),
        lines(&outcomes(&ordered)),
        "the first counts"
    );

    // In something that no table shows.
    let hidden = text_of(&outcomes(&one)).replacen("\"delivered\":", "\"delivered\":9", 1);
    fs::write(&file, hidden).expect("a file");
    let text = expect(3, &["merge", &one, &two, "-o", &place.path("again")]);
    assert!(text.contains("1 run there twice with different"), "{text}");
    let text = expect(0, &["report", &one, &two]);
    assert!(text.contains("1 run twice with different"), "{text}");
}

#[test]
fn runs_of_no_such_sweep_are_left_out_and_counted() {
    let place = Place::new();
    let (own, joined) = (place.path("own"), place.path("joined"));
    expect(0, &sweep(&["-o", &own]));
    let file = outcomes(&own);
    let first = lines(&file).swap_remove(0);
    let mut other: Value = serde_json::from_str(&first).expect("JSON");
    let mut text = fs::read_to_string(&file).expect("a file");
    for (key, value) in [("run", 7), ("index", 1_i64 << 40)] {
        other[key] = Value::from(value);
        text.push_str(&format!("{other}\n"));
    }
    text.push_str(&first.replacen("\"id\":\"", "\"id\":\"0123456789abcdef\",\"x\":\"", 1));
    fs::write(&file, text + "\n").expect("a file");
    let text = expect(3, &["merge", &own, "-o", &joined]);
    assert!(text.contains("24 runs of 12 cells in"), "{text}");
    assert!(
        text.contains("3 lines left out: this sweep has no such runs"),
        "{text}"
    );
    assert_eq!(lines(&outcomes(&joined)).len(), RUNS);

    // Nor do they stand for those that are missing.
    let kept: Vec<String> = lines(&file).split_off(1);
    fs::write(&file, kept.join("\n") + "\n").expect("a file");
    let text = expect(0, &["report", &own]);
    let left_out = "3 lines left out: this sweep has no such runs";
    assert!(text.contains(left_out), "{text}");
    assert!(
        text.contains("not complete: 11 of 12 cells, 23 of 24 runs"),
        "{text}"
    );
    let output = run(&["report", &own, "--json"]);
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let sweep = &document["sweeps"][0];
    assert_eq!(sweep["foreign"], 3, "{sweep:#}");
    assert_eq!(
        (&sweep["runs"], &sweep["complete"]),
        (&23.into(), &false.into())
    );
    assert_eq!(sweep["results"].as_array().map(Vec::len), Some(12));
    let text = expect(0, &["compare", &joined, &own]);
    assert!(text.contains(&format!("{own}: {left_out}")), "{text}");
    assert!(!text.contains(&format!("{joined}: ")), "{text}");
    assert!(!text.contains("only in"), "{text}");

    // Which runs it has is not known without its scenario.
    let manifest = Path::new(&own).join("run.json");
    let wrong = text_of(&manifest).replace("duration = ", "duratoin = ");
    fs::write(&manifest, wrong).expect("a file");
    let text = expect(2, &["report", &own]);
    assert!(text.contains("did you mean `duration`"), "{text}");
    assert!(text.contains("own/run.json has that scenario"), "{text}");
}

#[test]
fn runs_that_do_not_count_are_not_forgotten() {
    let place = Place::new();
    let (folder, joined) = (place.path("own"), place.path("joined"));
    expect(0, &sweep(&["-o", &folder, "--jobs", "1"]));
    let file = outcomes(&folder);
    let whole = lines(&file);
    let mut broken: Value = serde_json::from_str(&whole[5]).expect("JSON");
    broken["outcome"]["goodput_bps"] = Value::from(1);
    broken["outcome"]["caveats"] = serde_json::json!([{"caveat": "ended-early", "why": "x"}]);
    let with = |line: String| {
        let mut changed = whole.clone();
        changed[5] = line;
        fs::write(&file, changed.join("\n") + "\n").expect("a file");
    };

    // In virtual time the next try would be the same.
    with(broken.to_string());
    let again = sweep(&["-o", &folder, "--resume"]);
    for _ in 0..2 {
        let text = expect(1, &again);
        assert!(text.contains("0 runs of 12 cells made"), "{text}");
        assert!(text.contains("some runs are not usable"), "{text}");
    }
    let text = expect(0, &["report", &folder]);
    let cell = broken["cell"].as_str().expect("a name");
    let cell = cell.strip_prefix("lan-wwr/").expect("its scenario");
    let told = format!("runs that are not usable:\n  {cell}: 1 of 2: ended early: x\n");
    assert!(text.contains(&told), "{told}: {text}");
    let output = run(&["report", &folder, "--json"]);
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let cells = document["sweeps"][0]["results"].as_array().expect("cells");
    let unusable = |cell: &&Value| cell["unusable"] != serde_json::json!([]);
    let unusable: Vec<&Value> = cells.iter().filter(unusable).collect();
    assert_eq!(unusable.len(), 1, "{unusable:#?}");
    let reason = serde_json::json!([{"why": "ended early: x", "runs": 1}]);
    assert_eq!(unusable[0]["unusable"], reason);
    let text = expect(0, &sweep(&["-o", &folder, "--resume", "--shard", "1/24"]));
    assert!(text.contains("1 were there already"), "{text}");

    // In real time, which a date tells, it may be better.
    broken["at"] = Value::from("2026-11-21T10:00:02Z");
    with(broken.to_string());
    let text = expect(0, &again);
    assert!(text.contains("1 run of 12 cells made"), "{text}");
    assert_eq!(lines(&file).len(), RUNS + 1);
    let text = expect(0, &again);
    assert!(text.contains("24 were there already"), "{text}");
    let text = expect(0, &["merge", &folder, "-o", &joined]);
    assert!(text.contains("24 runs of 12 cells in"), "{text}");
    let mut usable = whole.clone();
    usable.sort();
    assert_eq!(sorted(&outcomes(&joined)), usable);
    let text = expect(0, &["report", &folder]);
    assert!(!text.contains("1/2"), "{text}");
    assert!(!text.contains("not usable"), "{text}");
}
