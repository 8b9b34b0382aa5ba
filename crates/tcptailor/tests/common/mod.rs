//! What several tests need.

use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

/// Waits until Ctrl-C would not kill a program but be heard by it, which is so early in its life.
pub(crate) fn wait_until_it_hears(child: &Child) {
    const INTERRUPT: u64 = 1 << (2 - 1);
    let path = format!("/proc/{}/status", child.id());
    let hears = || {
        let status = std::fs::read_to_string(&path).expect("it runs");
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        caught.expect("a mask") & INTERRUPT != 0
    };
    let began = Instant::now();
    while !hears() {
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "it hears nothing"
        );
        thread::sleep(Duration::from_millis(5));
    }
}
