//! Probes on the kernel of this machine.

use std::sync::atomic::AtomicBool;

use papers::probe::find_probe;

/// Both buffers of each end of 1001 connections, twice the 128 KiB that are asked for.
const FIXED_BYTES: f64 = (4 * (128 << 10) * 1001) as f64;

#[test]
fn idle_connections_are_charged_nothing_and_limits_are_what_was_asked() {
    let probe = find_probe("freebsd-memory").expect("it is announced");
    let run = probe.run_on_kernel.expect("the kernel has it");
    let Some(figures) = crate::asking::permitted(run(1, &AtomicBool::new(false))) else {
        return;
    };
    let is_announced = |name: &&str| probe.figures.contains(name);
    assert!(figures.keys().all(is_announced), "{figures:?}");
    assert_eq!(figures["fixed_reserved_bytes"], FIXED_BYTES);
    assert_eq!(figures["idle_used_bytes"], 0.0, "{figures:?}");
    assert!(figures["fixed_used_max_bytes"] > 0.0, "{figures:?}");
    assert!(figures["automatic_grown_bytes"] > 0.0, "{figures:?}");
}
