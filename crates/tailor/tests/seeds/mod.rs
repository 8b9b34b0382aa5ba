//! Seeds that differ from run to run, unless one is given.

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
