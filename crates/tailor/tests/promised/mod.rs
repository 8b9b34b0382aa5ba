//! How many wrong answers a number of draws may show where their rate is promised.

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
