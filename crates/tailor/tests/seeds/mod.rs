//! Seeds that differ from run to run, unless one is given, and what so many draws may show.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

/// The number in an environment variable.
pub(crate) fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().expect("a number"))
}

/// Where the seeds of this run begin; `SIM_SEED` repeats a run.
pub(crate) fn first() -> u64 {
    static FIRST: OnceLock<u64> = OnceLock::new();
    *FIRST.get_or_init(|| {
        let seed = number("SIM_SEED").unwrap_or_else(|| RandomState::new().hash_one(()) >> 44);
        println!("SIM_SEED={seed}");
        seed
    })
}

/// Wrong answers that `runs` draws may show where at most two of a hundred are wrong. Of draws with
/// just that rate, one set of a thousand shows more: a test of a promised rate must fail where the
/// rate is broken, and not where a few draws were unlucky.
pub(crate) fn allowed(runs: usize) -> usize {
    const RATE: f64 = 0.02;
    const BY_CHANCE: f64 = 1e-3;
    // Terms of the binomial distribution, from none on.
    let mut term = (1.0 - RATE).powf(runs as f64);
    let mut left = 1.0 - term;
    let mut wrong = 0;
    while left > BY_CHANCE {
        let more = (runs - wrong) as f64 / (wrong + 1) as f64;
        term *= more * RATE / (1.0 - RATE);
        left -= term;
        wrong += 1;
    }
    wrong
}
