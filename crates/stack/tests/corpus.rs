//! Replays the corpora of the fuzz targets: what once broke something must not break it again.

// The name that the fuzz targets give it.
extern crate tcptailor_stack as stack;

#[path = "../../../fuzz/src/checks/mod.rs"]
mod checks;
#[path = "../../../fuzz/src/replay.rs"]
mod replay;

use replay::replay;

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
