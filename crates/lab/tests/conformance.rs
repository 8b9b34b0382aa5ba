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
