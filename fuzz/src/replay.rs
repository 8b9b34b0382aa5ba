//! Replays the corpus of a fuzz target, for the tests of the crate that it is about: what once
//! broke something must not break it again.

use std::fs;
use std::path::Path;

/// Checks each file of the corpus of `target`, in the order of their names.
pub(crate) fn replay(target: &str, check: fn(&[u8])) {
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
