//! The program as a user meets it: exit codes, messages, JSON, a reader that goes away.

use std::fs::OpenOptions;
use std::io::Read;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn tcptailor(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tcptailor"));
    command
        .args(args)
        .env_remove("CLICOLOR_FORCE")
        .env_remove("NO_COLOR");
    command
}

fn run(args: &[&str]) -> Output {
    tcptailor(args).output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// Wrong input: the exit code, and a part of the one message on stderr. Nothing on stdout.
fn check_refused(args: &[&str], code: i32, expected: &str) {
    let output = run(args);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {message}");
    assert!(
        message.contains(expected),
        "{args:?}: `{message}` lacks `{expected}`"
    );
    assert_eq!(text(&output.stdout), "", "{args:?}");
}

#[test]
fn wrong_usage_is_answered_with_what_was_meant() {
    check_refused(&["diagnos"], 2, "'diagnose'");
    check_refused(&["knobs", "nodlay"], 2, "did you mean `nodelay`?");
    check_refused(&["knobs", "--jsn"], 2, "'--json'");
    check_refused(&["knobs", "-q", "-v"], 2, "cannot be used with");
}

/// Clap takes it for an option, and advises what would make it an argument.
#[test]
fn a_negative_value_is_told_as_such() {
    let check = |args: &[&str], expected: &str| {
        let expected = format!("invalid value {expected}: it must not be negative");
        check_refused(args, 2, &expected);
        let message = text(&run(args).stderr);
        assert!(!message.contains("tip:"), "{message}");
    };
    check(&["diagnose", "-t", "-5s"], "'-5s' for '-t'");
    check(&["diagnose", "--pid", "-1"], "'-1' for '--pid'");
    check(&["diagnose", "-vt", "-.5"], "'-.5' for '-vt'");
    check(&["predict", "--rtt", "-40ms"], "'-40ms' for '--rtt'");
    check_refused(&["diagnose", "-v", "-5"], 2, "unexpected argument '-5'");
}

#[test]
fn help_and_near_names_are_understood() {
    let page = run(&["help", "bench"]);
    assert_eq!(page.status.code(), Some(0));
    assert_eq!(text(&page.stdout), text(&run(&["bench", "--help"]).stdout));
    assert!(text(&run(&["help"]).stdout).starts_with(&text(&run(&["--help"]).stdout)[..40]));
    check_refused(&["help", "bnch"], 2, "'bench'");
    check_refused(&["knobs", "rmem_size"], 2, "did you mean `rmem_max`?");
}

/// A narrow terminal, one without a width, and none: numbers keep their units.
#[test]
fn tables_fit_the_terminal() {
    let scenario = "[lab, run, agree-buffers, --engine, virtual, --runs, 1]";
    let args: Vec<&str> = scenario.trim_matches(['[', ']']).split(", ").collect();
    let shown = |columns: &str| {
        let output = tcptailor(&args)
            .env("COLUMNS", columns)
            .env("TERM", "dumb")
            .output();
        text(&output.expect("the program starts").stdout)
    };
    let wide = shown("0");
    assert!(wide.contains("long-receive-64k  7."), "{wide}");
    assert_eq!(wide, shown("100"));
    assert_eq!(wide, shown("nonsense"));
    for columns in ["20", "30", "60"] {
        let narrow = shown(columns);
        let rates = |text: &str| text.matches(" Mbit/s").count();
        assert_eq!(rates(&narrow), rates(&wide), "{columns}: {narrow}");
        let parted = narrow.lines().any(|line| line.trim() == "Mbit/s");
        assert!(!parted, "{columns}: {narrow}");
    }
}

#[test]
fn what_cannot_be_set_is_no_result() {
    let vegas = "client.congestion=vegas";
    let args = [
        "lab", "run", "lan-wwr", "--engine", "virtual", "--set", vegas,
    ];
    check_refused(&args, 2, "--set client.congestion=vegas: ");
}

#[test]
fn results_leave_files_of_others_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (thesis, link) = (path("thesis"), path("link"));
    std::fs::write(&thesis, "my thesis").expect("written");
    std::os::unix::fs::symlink(folder.path().join("victim"), &link).expect("a link");
    let lab = [
        "lab", "run", "lan-wwr", "--engine", "virtual", "--runs", "1",
    ];
    let with = |flag: &'static str, file: &str| {
        let args: Vec<String> = lab.iter().chain(&[flag]).map(ToString::to_string).collect();
        let args: Vec<&str> = args.iter().map(String::as_str).chain([file]).collect();
        run(&args)
    };
    for flag in ["--pcap", "--html", "--events"] {
        let output = with(flag, &thesis);
        assert_eq!(
            output.status.code(),
            Some(2),
            "{flag}: {}",
            text(&output.stderr)
        );
        assert_eq!(
            std::fs::read_to_string(&thesis).expect("a file"),
            "my thesis",
            "{flag}"
        );
        let own = path("own");
        for _ in 0..2 {
            let output = with(flag, &own);
            assert_eq!(
                output.status.code(),
                Some(0),
                "{flag}: {}",
                text(&output.stderr)
            );
        }
        std::fs::remove_file(&own).expect("it was written");
    }
    for flag in ["--pcap", "--events"] {
        assert_eq!(with(flag, &link).status.code(), Some(2), "{flag}");
    }
    assert!(!folder.path().join("victim").exists());
}

#[test]
fn quiet_results_have_no_advice() {
    let folder = tempfile::tempdir().expect("a folder");
    let plan = folder.path().join("plan.json").display().to_string();
    let bdp = ["bdp", "--rate", "10gbit", "--rtt", "150ms", "-o", &plan];
    let shown = |flags: &[&str]| text(&run(&[&bdp[..], flags].concat()).stdout);
    assert!(shown(&[]).contains("\nNext: "), "{}", shown(&[]));
    assert!(!shown(&["-q"]).contains("Next: "), "{}", shown(&["-q"]));
}

/// `-q` means results alone for every command: what was found, not what to do about it.
#[test]
fn quiet_diagnoses_have_no_advice_either() {
    let recordings = concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus/recordings/");
    let file = format!("{recordings}guest-mp-nagle.client.rec");
    let shown = |flags: &[&str]| text(&run(&[&["diagnose", &file][..], flags].concat()).stdout);
    let advice = ["   change ", "   or ", "   note ", "   then "];
    let told = |text: &str| advice.iter().any(|word| text.contains(word));
    assert!(told(&shown(&[])), "{}", shown(&[]));
    let quiet = shown(&["-q"]);
    assert!(quiet.contains("nagle-"), "{quiet}");
    assert!(!told(&quiet), "{quiet}");
}

#[test]
fn a_congestion_control_that_does_not_exist_is_told_before_any_work() {
    let path = ["predict", "--rate", "10mbit", "--rtt", "20ms", "--try"];
    let predicted = run(&[&path[..], &["congestion=cubix"]].concat());
    // No host has to answer for it. Where this process may not choose `cubic`, that comes second.
    let compared = run(&[
        "bench",
        "127.0.0.1:1",
        "--compare",
        "congestion=cubix,cubic",
    ]);
    for output in [predicted, compared] {
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains("`cubix`"), "{told}");
    }
    // What only a kernel may have is an answer of another kind.
    let kernels = run(&[&path[..], &["congestion=vegas"]].concat());
    assert_eq!(kernels.status.code(), Some(3), "{}", text(&kernels.stderr));
}

#[test]
fn errors_are_json_documents_where_json_was_asked_for() {
    for args in [["knobs", "nodlay", "--json"], ["-j", "knobs", "nodlay"]] {
        let output = run(&args);
        assert_eq!(output.status.code(), Some(2));
        let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(document["error"]["code"], "usage");
        let message = document["error"]["message"].as_str().expect("a message");
        assert!(message.contains("nodelay"), "{message}");
    }
    let output = run(&["diagnos", "--json"]);
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(output.status.code(), Some(2));
    assert!(
        document["error"]["hint"]
            .as_str()
            .is_some_and(|hint| hint.contains("'diagnose'"))
    );
}

#[test]
fn documents_name_their_schema_and_their_machine() {
    let output = run(&["knobs", "nodelay", "--json"]);
    assert_eq!(output.status.code(), Some(0));
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(document["schema"], "tcptailor/knobs/1");
    assert!(document["tool"]["version"].is_string());
    assert!(document["host"]["kernel"].is_string());
    assert!(
        document["host"]["cpus"]
            .as_u64()
            .is_some_and(|cpus| cpus > 0)
    );
    assert_eq!(document["knobs"][0]["name"], "nodelay");
}

#[test]
fn colours_follow_the_conventions() {
    let coloured = |command: &mut Command| {
        text(&command.output().expect("the program starts").stdout).contains('\u{1b}')
    };
    assert!(
        !coloured(&mut tcptailor(&["knobs"])),
        "a pipe has no colours"
    );
    assert!(coloured(&mut tcptailor(&["knobs", "--color", "always"])));
    assert!(coloured(tcptailor(&["knobs"]).env("CLICOLOR_FORCE", "1")));
    assert!(!coloured(
        tcptailor(&["knobs", "--color", "never"]).env("CLICOLOR_FORCE", "1")
    ));
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let mut child = tcptailor(&["knobs"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    // Closed before the program has written: its first write has no reader.
    drop(child.stdout.take());
    let mut stderr = String::new();
    child
        .stderr
        .take()
        .expect("piped")
        .read_to_string(&mut stderr)
        .expect("UTF-8");
    assert!(child.wait().expect("it ends").success(), "{stderr}");
    assert_eq!(stderr, "");
}

#[test]
fn a_full_disk_is_a_failure() {
    let full = OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .expect("/dev/full");
    let output = tcptailor(&["knobs"])
        .stdout(full)
        .output()
        .expect("the program starts");
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("No space left"),
        "{}",
        text(&output.stderr)
    );
}
