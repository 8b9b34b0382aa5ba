//! Replays the corpora of the fuzz targets: what once broke something must not break it again.

use std::fs;
use std::path::Path;

#[path = "../../../fuzz/src/captures/mod.rs"]
mod captures;

fn replay(target: &str, check: fn(&[u8])) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let entries = fs::read_dir(root.join(target)).expect("each target has a corpus");
    let mut files: Vec<_> = entries
        .map(|entry| entry.expect("a readable directory").path())
        .collect();
    files.sort();
    assert!(!files.is_empty(), "the corpus of {target} is empty");
    for file in files {
        let bytes = fs::read(&file).expect("a readable file");
        // A panic is caught only to say which file it was.
        let outcome = std::panic::catch_unwind(|| check(&bytes));
        assert!(outcome.is_ok(), "{} breaks `{target}`", file.display());
    }
}

#[test]
fn capture() {
    replay("capture", captures::file::check);
}

#[test]
fn segments() {
    replay("segments", captures::segments::check);
}
