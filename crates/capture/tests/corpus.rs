//! Replays the corpora of the fuzz targets: what once broke something must not break it again.

#[path = "../../../fuzz/src/captures/mod.rs"]
mod captures;
#[path = "../../../fuzz/src/replay.rs"]
mod replay;

use replay::replay;

#[test]
fn capture() {
    replay("capture", captures::file::check);
}

#[test]
fn segments() {
    replay("segments", captures::segments::check);
}
