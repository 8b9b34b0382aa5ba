use super::*;

fn close(actual: f64, expected: f64, tolerance: f64) {
    assert!(
        (actual - expected).abs() <= tolerance,
        "{actual}, expected {expected}"
    );
}

#[test]
fn medians() {
    let check = |values: &[f64], expected| assert_eq!(median(values), expected, "{values:?}");
    check(&[], None);
    check(&[1.0, f64::NAN], None);
    check(&[3.0], Some(3.0));
    check(&[4.0, 1.0], Some(2.5));
    check(&[9.0, 1.0, 5.0], Some(5.0));
    check(&[9.0, 1.0, 5.0, 6.0], Some(5.5));
    check(&[1.0, 1.0, 1.0, 100.0], Some(1.0));
}

#[test]
fn p_values_equal_those_of_tables() {
    let range = |from: u32, to: u32| (from..=to).map(f64::from).collect::<Vec<_>>();
    let check = |one: &[f64], other: &[f64], expected: f64, tolerance: f64| {
        close(mann_whitney(one, other).unwrap(), expected, tolerance);
        close(mann_whitney(other, one).unwrap(), expected, tolerance);
    };
    // Apart: 2 of the binomial(n + m, n) choices.
    check(&range(1, 3), &range(4, 6), 2.0 / 20.0, 1e-12);
    check(&range(1, 5), &range(6, 10), 2.0 / 252.0, 1e-12);
    check(&range(1, 4), &range(5, 8), 2.0 / 70.0, 1e-12);
    // Tabled: n = m = 5, U = 2 has 2 * 4/252.
    check(
        &[1.0, 2.0, 3.0, 4.0, 7.0],
        &[5.0, 6.0, 8.0, 9.0, 10.0],
        8.0 / 252.0,
        1e-12,
    );
    // No difference at all.
    check(&[1.0, 4.0], &[2.0, 3.0], 1.0, 1e-12);
    check(&[5.0; 6], &[5.0; 6], 1.0, 1e-12);
    // Ties: of the 20 choices of three of {1, 2, 2, 2, 3, 4}, three are {1, 2, 2}, and three are as
    // far from the mean on the other side.
    check(&[1.0, 2.0, 2.0], &[2.0, 3.0, 4.0], 0.3, 1e-12);
    assert_eq!(mann_whitney(&[], &[1.0]), None);
}

#[test]
fn the_approximation_meets_the_exact_value() {
    // 30 and 30 values that lie a little apart: the largest case that is exact.
    let one: Vec<f64> = (0..30).map(f64::from).collect();
    let other: Vec<f64> = (0..30).map(|i| f64::from(i) + 6.3).collect();
    let (ranks, sum) = pooled_ranks(&one, &other);
    close(
        approximate_p(&ranks, 30, sum),
        exact_p(&ranks, 30, sum),
        1e-3,
    );
}

#[test]
fn erfc_meets_known_values() {
    close(erfc(0.0), 1.0, 1.5e-7);
    close(erfc(0.5), 0.479_500_122, 1.5e-7);
    close(erfc(1.959_964 / core::f64::consts::SQRT_2), 0.05, 1e-6);
    close(erfc(3.0), 2.209_05e-5, 1.5e-7);
}

#[test]
fn intervals_contain_the_truth_and_repeat() {
    // Values evenly from 0 to 100: the median's standard error is 100 / (2 sqrt(n)).
    let mut rng = Rng::new(5, "values");
    let mut covered = 0;
    for seed in 0..200 {
        let values: Vec<f64> = (0..51)
            .map(|_| rng.below(100_000) as f64 / 1000.0)
            .collect();
        let interval = median_interval(&values, seed).unwrap();
        assert_eq!(Some(interval), median_interval(&values, seed));
        assert!(interval.contains(median(&values).unwrap()));
        assert!((5.0..70.0).contains(&(interval.high - interval.low)));
        covered += usize::from(interval.contains(50.0));
    }
    // 95 % of 200 are 190; 180 are 3.2 standard deviations less.
    assert!(
        covered >= 180,
        "{covered} of 200 intervals contain the median"
    );
    assert_eq!(
        median_interval(&[7.0; 5], 1),
        Some(Interval {
            low: 7.0,
            high: 7.0
        })
    );
}

#[test]
fn judgements() {
    let near = |centre: f64, count: u32| -> Vec<f64> {
        (0..count)
            .map(|i| centre + f64::from(i * 7 % 10) / 10.0)
            .collect()
    };
    let check = |base: &[f64], other: &[f64], expected: Judgement| {
        let comparison = compare(base, other, 1).unwrap();
        assert_eq!(comparison.judgement, expected, "{comparison:?}");
    };
    check(&near(100.0, 10), &near(110.0, 10), Judgement::Larger);
    check(&near(110.0, 10), &near(100.0, 10), Judgement::Smaller);
    check(
        &near(100.0, 10),
        &near(100.1, 10),
        Judgement::NotDistinguishable,
    );
    check(&near(100.0, 4), &near(110.0, 4), Judgement::Larger);
    check(
        &near(100.0, 3),
        &near(110.0, 3),
        Judgement::NotDistinguishable,
    );
    let comparison = compare(&[10.0; 5], &[20.0; 5], 1).unwrap();
    assert_eq!((comparison.ratio, comparison.interval.low), (2.0, 2.0));
    assert_eq!(compare(&[1.0], &[], 1), None);
}

#[test]
fn a_ratio_needs_a_base_above_zero() {
    let of = |base: &[f64], other: &[f64]| ratio_interval(base, other, 1);
    assert_eq!(of(&[0.0], &[1.0]), None);
    assert_eq!(of(&[0.0, 0.0, 1.0], &[1.0]), None, "the median is 0");
    assert_eq!(of(&[0.0, 1.0], &[1.0]), None, "the median may be 0");
    assert_eq!(of(&[0.0, 0.0, 5.0, 5.0, 5.0], &[1.0; 5]), None);
    // One of eight: five of eight draws are so seldom all that one, that it decides no end.
    let mut base = [100.0; 8];
    base[3] = 0.0;
    let found = compare(&base, &[200.0; 8], 1).expect("a ratio");
    assert_eq!((found.base, found.ratio), (100.0, 2.0));
    assert_eq!((found.interval.low, found.interval.high), (2.0, 2.0));
    assert_eq!(found.judgement, Judgement::Larger);
    // What comes to nothing in the other one is a ratio of 0.
    let back = compare(&[200.0; 8], &base, 1).expect("a ratio");
    assert_eq!((back.ratio, back.judgement), (0.5, Judgement::Smaller));
    // 0 of 0 widens both ends.
    let mut seldom = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
    seldom[0] = 0.0;
    let zero = of(&seldom, &seldom).expect("a ratio");
    assert!(zero.low < 1.0 && zero.high > 1.0, "{zero:?}");
    assert_eq!(
        of(&seldom, &[0.0; 8]),
        Some(Interval {
            low: 0.0,
            high: 0.0
        })
    );
}

#[test]
fn percentiles_of_times() {
    let mut times = TimeHistogram::new();
    assert_eq!((times.response(), times.lateness()), (None, None));
    for micros in 1..=1000 {
        times.record(Duration::from_micros(micros));
    }
    let expected = ResponseMicros {
        n: 1000,
        p50: 500,
        p90: 900,
        p99: 990,
        max: 1000,
        stalled: 0,
    };
    assert_eq!(times.response(), Some(expected));
    let mut more = TimeHistogram::new();
    more.record(Duration::from_nanos(1_234_567_999));
    assert_eq!(
        more.response().map(|r| (r.p50, r.max)),
        Some((1_234_567, 1_234_567))
    );
    more.record(Duration::MAX);
    times.merge(&more);
    let response = times.response().unwrap();
    assert_eq!((response.n, response.max), (1002, 3_600_000_000));
    assert_eq!(times.lateness().map(|lateness| lateness.p50), Some(501));
    times.clear();
    assert_eq!(times.count(), 0);
}

#[test]
fn whole_numbers_have_a_mean_and_percentiles() {
    let hundred: Vec<u64> = (1..=100).rev().collect();
    assert_eq!(whole_mean(&hundred), Some(50));
    assert_eq!(whole_percentile(&hundred, 99), Some(99));
    assert_eq!(whole_percentile(&hundred, 0), Some(1));
    assert_eq!(whole_percentile(&[7, 5], 99), Some(7));
    assert_eq!(whole_mean(&[u64::MAX, u64::MAX]), Some(u64::MAX));
    assert_eq!((whole_mean(&[]), whole_percentile(&[], 99)), (None, None));
}
