//! Replays the corpora of the fuzz targets: what once broke something must not break it again.

use std::fs;
use std::path::{Path, PathBuf};

// The name that the fuzz targets give it.
extern crate tcptailor_stack as stack;

#[path = "../../../fuzz/src/checks/mod.rs"]
mod checks;

/// The files of one corpus, in the order of their names.
fn corpus(target: &str) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let entries = fs::read_dir(root.join(target)).expect("each target has a corpus");
    let mut files: Vec<_> = entries
        .map(|entry| entry.expect("a readable directory").path())
        .collect();
    files.sort();
    assert!(!files.is_empty(), "the corpus of {target} is empty");
    files
}

fn replay(target: &str, check: fn(&[u8])) {
    for file in corpus(target) {
        let bytes = fs::read(&file).expect("a readable file");
        // A panic is caught only to say which file it was.
        let outcome = std::panic::catch_unwind(|| check(&bytes));
        assert!(outcome.is_ok(), "{} breaks `{target}`", file.display());
    }
}

#[test]
fn options() {
    replay("options", checks::options::check);
}

#[test]
fn wire() {
    replay("wire", checks::wire::check);
}

#[test]
fn host() {
    replay("host", checks::host::check);
}
