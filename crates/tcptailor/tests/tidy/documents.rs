//! What must be documented and tried, and whether the documents hold together.

use base::KNOBS;
use doctor::DIAGNOSES;

use crate::source::{Source, is_name, is_test_path};
use crate::tree::{Complaint, Tree};

const ARCHITECTURE_LINES_MAX: usize = 200;
/// What tests here say of knobs sets none.
const OWN_FOLDER: &str = "crates/tcptailor/tests/tidy/";
/// The README's test command; `.ci/run` begins with it.
const TEST_COMMAND: &str = "cargo test --workspace";
/// Parts of paths and hosts that mean something on one machine only. Written in two halves, so that
/// this file does not name them.
const MACHINE_NAMES: &[[&str; 2]] = &[
    ["/ro", "ot/"],
    ["/ho", "me/"],
    ["/wo", "rk/"],
    ["/tmp/", "wt"],
    ["artif", "actory"],
    ["index.cra", "tes.io"],
];

pub(crate) fn check(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    let knobs: Vec<&str> = KNOBS.iter().map(|knob| knob.name).collect();
    let diagnoses: Vec<&str> = DIAGNOSES.iter().map(|diagnosis| diagnosis.id).collect();
    check_documented(tree, "docs/knobs.md", &knobs, &mut complaints);
    check_documented(tree, "docs/diagnoses.md", &diagnoses, &mut complaints);
    check_knobs_tried(tree, &knobs, &mut complaints);
    check_diagnoses_provoked(tree, &diagnoses, &mut complaints);
    check_scenarios_tried(tree, &mut complaints);
    check_snapshots_used(tree, &mut complaints);
    check_root_documents(tree, &mut complaints);
    check_links(tree, &mut complaints);
    check_machine_names(tree, &mut complaints);
    complaints
}

/// Each name has a heading of its own, and no heading names what does not exist.
pub(crate) fn check_documented(
    tree: &Tree,
    page: &str,
    names: &[&str],
    complaints: &mut Vec<Complaint>,
) {
    let text = tree.text(page).unwrap_or_default();
    for name in names {
        if !text.lines().any(|line| line == format!("### `{name}`")) {
            complaints.push(Complaint::new(
                page,
                1,
                format!("`{name}` has no heading `### `"),
            ));
        }
    }
    for (index, line) in text.lines().enumerate() {
        let heading = line
            .strip_prefix("### `")
            .and_then(|rest| rest.strip_suffix('`'));
        if let Some(name) = heading.filter(|name| !names.contains(name)) {
            let what = format!("`{name}` does not exist (any more); delete its paragraph");
            complaints.push(Complaint::new(page, index + 1, what));
        }
    }
}

/// What no scenario, fault or test sets, and why.
const NOT_SET: &[(&str, &str)] = &[
    (
        "net.core.rmem_default",
        "the setting is that of the whole machine",
    ),
    (
        "net.core.wmem_default",
        "the setting is that of the whole machine",
    ),
];

/// A scenario, a fault or a test sets each knob.
pub(crate) fn check_knobs_tried(tree: &Tree, knobs: &[&str], complaints: &mut Vec<Complaint>) {
    let tried = texts_that_try(tree);
    for knob in knobs {
        let excused = NOT_SET.iter().any(|(excused, _)| excused == knob);
        if !excused && !tried.iter().any(|text| sets(text, knob, knobs)) {
            let what = format!("no scenario, fault or test sets \"{knob}\"");
            complaints.push(Complaint::new("docs/knobs.md", 1, what));
        }
    }
}

/// Whether a text gives `knob` a value: `("nodelay", "on")` in a table, `client.nodelay=on` for the
/// command line, `"client.nodelay" = "on"` in a scenario. A list of names sets nothing.
fn sets(text: &str, knob: &str, knobs: &[&str]) -> bool {
    text.match_indices(knob).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + knob.len()..]);
        if before.ends_with(|c: char| is_name(c) || c == '-') {
            return false;
        }
        let is_assigned = |rest: &str| rest.starts_with('=') && !rest[1..].starts_with(['=', '>']);
        if is_assigned(after) || after.strip_prefix("\" ").is_some_and(is_assigned) {
            return true;
        }
        let value = after.strip_prefix("\",").map(str::trim_start);
        let value = value.and_then(|rest| rest.strip_prefix('"')?.split('"').next());
        before.ends_with('"') && value.is_some_and(|value| !knobs.contains(&value))
    })
}

/// Scenario files, the table of faults, and what only tests compile.
fn texts_that_try(tree: &Tree) -> Vec<String> {
    let mut texts: Vec<String> = tree
        .under("scenarios/", ".toml")
        .map(|file| file.text.clone())
        .collect();
    for file in tree.under("crates/", ".rs") {
        if file.path.starts_with(OWN_FOLDER) {
            continue;
        }
        if is_test_path(&file.path) || is_fault_table(&file.path) {
            texts.push(file.text.clone());
            continue;
        }
        let source = Source::new(&file.path, &file.text);
        let tests = source
            .lines
            .iter()
            .enumerate()
            .filter(|&(index, _)| source.is_test(index));
        texts.push(
            tests
                .map(|(_, line)| line.as_str())
                .collect::<Vec<_>>()
                .join("\n"),
        );
    }
    texts
}

fn is_fault_table(path: &str) -> bool {
    path.starts_with("crates/lab/src/fault")
}

/// What neither the lab nor the situations provoke, and why.
const NOT_PROVOKED: &[(&str, &str)] = &[
    ("syn-queue-full", "a flood of SYNs is an attack"),
    (
        "tcp-memory-pressure",
        "the limit is that of the whole machine",
    ),
    ("receive-drops", "the limit is that of the whole machine"),
    ("conntrack-full", "the limit is that of the whole machine"),
];

/// The lab has a fault that provokes each diagnosis, or the corpus a situation that is labelled so.
pub(crate) fn check_diagnoses_provoked(
    tree: &Tree,
    diagnoses: &[&str],
    complaints: &mut Vec<Complaint>,
) {
    for id in diagnoses {
        let quoted = format!("\"{id}\"");
        let provoked = tree
            .under("crates/lab/src/", ".rs")
            .chain(tree.under("corpus/", ".py"))
            .any(|file| {
                let is_table = is_fault_table(&file.path) || file.path.starts_with("corpus/");
                is_table && file.text.contains(&quoted)
            });
        let excused = NOT_PROVOKED.iter().any(|(excused, _)| excused == id);
        if !provoked && !excused {
            let what = format!("no row of lab::FAULTS and no situation provokes \"{id}\"");
            complaints.push(Complaint::new("docs/diagnoses.md", 1, what));
        }
    }
}

/// A scenario that no code and no test names is dead.
fn check_scenarios_tried(tree: &Tree, complaints: &mut Vec<Complaint>) {
    for file in tree.under("scenarios/", ".toml") {
        let name = file.path.rsplit('/').next().unwrap_or_default();
        let listed = format!("\"{}\"", name.trim_end_matches(".toml"));
        if !tree
            .under("crates/", ".rs")
            .any(|code| code.text.contains(name) || code.text.contains(&listed))
        {
            let what = "no code and no test names this scenario; name it or delete it";
            complaints.push(Complaint::new(&file.path, 1, what));
        }
    }
}

/// `snapshots/crate__module__test.snap` belongs to a test of that name.
fn check_snapshots_used(tree: &Tree, complaints: &mut Vec<Complaint>) {
    for file in tree.under("crates/", ".snap") {
        let name = file
            .path
            .rsplit('/')
            .next()
            .unwrap_or_default()
            .trim_end_matches(".snap");
        let test = name.rsplit("__").next().unwrap_or_default();
        let (by_function, by_name) = (format!("fn {test}("), format!("\"{test}\""));
        let used = tree
            .under("crates/", ".rs")
            .any(|code| code.text.contains(&by_function) || code.text.contains(&by_name));
        if !used {
            let what = format!("no test `{test}` makes this snapshot; delete it");
            complaints.push(Complaint::new(&file.path, 1, what));
        }
    }
}

fn check_root_documents(tree: &Tree, complaints: &mut Vec<Complaint>) {
    let architecture = tree
        .text("ARCHITECTURE.md")
        .unwrap_or_default()
        .lines()
        .count();
    if architecture > ARCHITECTURE_LINES_MAX {
        let what = format!("{architecture} lines; {ARCHITECTURE_LINES_MAX} at most");
        complaints.push(Complaint::new("ARCHITECTURE.md", 1, what));
    }
    for path in ["README.md", ".ci/run"] {
        if !tree
            .text(path)
            .is_some_and(|text| text.contains(TEST_COMMAND))
        {
            let what = format!("does not name the test command `{TEST_COMMAND}`");
            complaints.push(Complaint::new(path, 1, what));
        }
    }
}

/// Links between our documents lead somewhere.
fn check_links(tree: &Tree, complaints: &mut Vec<Complaint>) {
    for file in tree.under("", ".md") {
        let dir = file.path.rsplit_once('/').map_or("", |(dir, _)| dir);
        for (index, line) in file.text.lines().enumerate() {
            for target in line
                .split("](")
                .skip(1)
                .filter_map(|rest| rest.split(')').next())
            {
                let target = target.split('#').next().unwrap_or_default();
                if target.is_empty() || target.contains("://") {
                    continue;
                }
                let path = resolve(dir, target);
                let found = tree
                    .files
                    .iter()
                    .any(|known| known.path == path || known.path.starts_with(&format!("{path}/")));
                if !found {
                    let what = format!("the link to `{target}` leads nowhere");
                    complaints.push(Complaint::new(&file.path, index + 1, what));
                }
            }
        }
    }
}

/// `docs` and `../README.md` make `README.md`.
fn resolve(dir: &str, target: &str) -> String {
    let mut parts: Vec<&str> = dir.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/').filter(|part| !part.is_empty()) {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    parts.join("/")
}

fn check_machine_names(tree: &Tree, complaints: &mut Vec<Complaint>) {
    for file in tree.files.iter().filter(|file| file.path != "Cargo.lock") {
        for (index, line) in file.text.lines().enumerate() {
            for halves in MACHINE_NAMES {
                let name = halves.concat();
                if line.contains(&name) {
                    let what = format!("`{name}` means something on one machine only");
                    complaints.push(Complaint::new(&file.path, index + 1, what));
                }
            }
        }
    }
}
