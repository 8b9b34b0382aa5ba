//! Runs one attack and measures what it costs, by a counting allocator.

use peak_alloc::PeakAlloc;
use tcptailor_stack::profile::{self, Profile};

use crate::attacks::{Attack, Bound, Scene};
use crate::crowd::Crowd;
use crate::crowds::CrowdRow;
use crate::hand::secs;
use crate::honest::Honest;

/// Counts what is allocated. Only one thread may do so while something is measured.
#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

/// Most requests that are timed.
const TIMES_MAX: usize = 20_000;

/// What an attack has cost.
pub(crate) struct Cost {
    pub(crate) packets: u64,
    /// Bytes of the host above what it had before, when it had most.
    pub(crate) peak: u64,
    pub(crate) bound: u64,
    /// Bytes above the same when the attackers had gone and the timers had passed.
    pub(crate) left: u64,
    pub(crate) left_bound: u64,
    pub(crate) honest: Honest,
}

/// Whose stacks are attacked by many: Linux charges packets, `FreeBSD` bytes.
pub(crate) fn crowded() -> [Profile; 2] {
    [profile::linux_6_18(), profile::freebsd_14()]
}

/// Bytes allocated since a moment, and the most since then.
struct Since(usize);

impl Since {
    fn now() -> Self {
        HEAP.reset_peak_usage();
        Self(HEAP.current_usage())
    }

    fn most(&self) -> u64 {
        HEAP.peak_usage().saturating_sub(self.0) as u64
    }

    fn left(&self) -> u64 {
        HEAP.current_usage().saturating_sub(self.0) as u64
    }
}

/// An attack of many on a host with `profile`, with requests timed by `clock`.
pub(crate) fn of_crowd(row: &CrowdRow, profile: Profile, clock: fn() -> u64) -> Cost {
    let profile = (row.adapt)(profile);
    let mut crowd = Crowd::new(&profile, row.attackers);
    crowd.honest.set_clock(clock, TIMES_MAX, &profile);
    let since = Since::now();
    (row.run)(&mut crowd);
    let peak = since.most();
    crowd.leave();
    assert_eq!(crowd.bench.host.sockets().count(), 2, "{}", row.name);
    Cost {
        packets: crowd.packets,
        peak,
        bound: row.holds.bytes(&profile),
        left: since.left(),
        left_bound: row.holds.left_bytes(&profile),
        honest: crowd.honest,
    }
}

/// An attack on one connection.
pub(crate) fn of_one(
    (bound, run): (&Bound, Attack),
    profile: &Profile,
    mut scene: Scene,
    clock: fn() -> u64,
) -> Cost {
    scene.honest.set_clock(clock, TIMES_MAX, profile);
    let since = Since::now();
    run(&mut scene);
    let peak = since.most();
    scene.bench.host.close(scene.bench.now, scene.id);
    scene.bench.drain();
    // Timeouts last at most 2 minutes each.
    for _ in 0..120 {
        scene.bench.pass(secs(60));
    }
    Cost {
        packets: scene.packets,
        peak,
        bound: bound.holds.bytes(profile),
        left: since.left(),
        left_bound: bound.holds.left_bytes(profile),
        honest: scene.honest,
    }
}
