//! What `docs/conformance.md` and `docs/linux-tcp.md` name as proof exists.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn scripts_and_tests_that_show_conformance_exist() {
    check("docs/conformance.md", |line| {
        let cells = line.strip_prefix("| ")?;
        cells.rsplit("| ").next()
    });
}

#[test]
fn scripts_and_tests_that_show_rules_of_linux_exist() {
    check("docs/linux-tcp.md", |line| {
        line.strip_prefix("- Shown by: ")
    });
}

/// The table of counts at the top of the page is that of its rows.
#[test]
fn requirements_are_counted() {
    let text = fs::read_to_string(root().join("docs/conformance.md")).expect("the document");
    let mut counted = String::new();
    let mut all = [0; 5];
    for section in text.split("\n## ").skip(1) {
        let title = section.lines().next().unwrap_or_default();
        let counts = counts_of(section);
        if section.contains("\n| requirement | kept |") {
            counted += &row(title, &counts);
            all = std::array::from_fn(|at| all[at] + counts[at]);
        }
    }
    counted += &row("all", &all);
    assert!(all[0] > 100, "{all:?}: the page has another form");
    assert!(text.contains(&counted), "the counts are\n{counted}");
}

/// Rows of a section; of these kept, not kept, and otherwise; and what shows them.
fn counts_of(section: &str) -> [usize; 5] {
    let mut counts = [0; 5];
    let rows = section.lines().filter_map(|line| line.strip_prefix("| "));
    for row in rows.skip(1) {
        let Some((_, row)) = row.split_once(" | ") else {
            continue;
        };
        let (kept, proof) = row.split_once(" | ").unwrap_or((row, ""));
        counts[0] += 1;
        counts[match kept.split([' ', ',', ';', ':']).next() {
            Some("yes") => 1,
            Some("no") => 2,
            _ => 3,
        }] += 1;
        counts[4] += proof.split('`').skip(1).step_by(2).count();
    }
    counts
}

fn row(title: &str, counts: &[usize; 5]) -> String {
    let [rows, yes, no, otherwise, proofs] = counts;
    format!("| {title} | {rows} | {yes} | {no} | {otherwise} | {proofs} |\n")
}

/// `proof_in`: the part of a line that names scripts and tests.
fn check(page: &str, proof_in: fn(&str) -> Option<&str>) {
    let text = fs::read_to_string(root().join(page)).expect("the document");
    let scripts = root().join("crates/stack/scripts");
    let tests = tests();
    let (mut named, mut missing) = (0, Vec::new());
    for (number, line) in text.lines().enumerate() {
        let proof = proof_in(line).unwrap_or_default();
        for word in proof.split('`').skip(1).step_by(2) {
            named += 1;
            let exists = match word.strip_suffix("()") {
                Some(test) => tests.contains(test),
                None => scripts.join(format!("{word}.script")).is_file(),
            };
            if !exists {
                missing.push(format!("line {}: {word}", number + 1));
            }
        }
    }
    assert!(named > 100, "{named} in {page}: it has another form");
    assert_eq!(missing, Vec::<String>::new(), "{page}");
}

/// The names of all functions behind `#[test]` in `stack` and `base`, those of property tests too.
fn tests() -> BTreeSet<String> {
    let mut files = Vec::new();
    for crate_name in ["stack", "base"] {
        for part in ["src", "tests"] {
            find(
                &root().join("crates").join(crate_name).join(part),
                &mut files,
            );
        }
    }
    let mut names = BTreeSet::new();
    for file in files {
        let text = fs::read_to_string(file).expect("it was listed");
        let mut lines = text.lines().map(str::trim);
        while let Some(line) = lines.next() {
            if line != "#[test]" {
                continue;
            }
            let name = lines.next().and_then(|line| line.strip_prefix("fn "));
            names.extend(
                name.and_then(|name| name.split('(').next())
                    .map(str::to_owned),
            );
        }
    }
    names
}

fn find(directory: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    for entry in entries {
        let path = entry.expect("its entry").path();
        if path.is_dir() {
            find(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
