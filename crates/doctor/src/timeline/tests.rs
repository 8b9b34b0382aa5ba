use super::*;
use core::net::SocketAddr;

fn key(port: u16) -> FlowKey {
    FlowKey {
        local: SocketAddr::from(([10, 0, 0, 1], port)),
        remote: SocketAddr::from(([10, 0, 0, 2], 80)),
    }
}

fn at(millis: u64) -> FlowSample {
    let mut sample = FlowSample::empty(Instant::from_nanos(millis * 1_000_000), key(1));
    sample.cookie = Some(7);
    sample
}

fn timeline(samples: impl IntoIterator<Item = FlowSample>) -> Timeline {
    let mut timeline = Timeline::new();
    for sample in samples {
        timeline.push(sample);
    }
    timeline
}

#[test]
fn another_socket_starts_anew_and_old_news_is_left_out() {
    let check = |change: fn(&mut FlowSample), expected: usize| {
        let mut next = at(30);
        change(&mut next);
        assert_eq!(timeline([at(10), at(20), next]).looks(), expected);
    };
    check(|_| (), 3);
    check(|s| s.cookie = Some(8), 1);
    check(|s| s.cookie = None, 3);
    check(|s| s.key = key(2), 1);
    check(|s| s.at = Instant::from_nanos(20_000_000), 2);
    check(|s| s.at = Instant::ZERO, 2);
    check(|s| s.state = Some(TcpState::TimeWait), 2);
    check(|s| s.state = Some(TcpState::CloseWait), 3);
}

#[test]
fn the_number_of_samples_is_bounded_and_they_reach_over_the_whole_time() {
    for offered in [100, SAMPLES_KEPT, SAMPLES_KEPT + 10, 20 * SAMPLES_KEPT + 7] {
        let many = timeline((0..offered as u64).map(at));
        assert!(
            many.samples().len() <= SAMPLES_KEPT + 1,
            "{offered}: {}",
            many.samples().len()
        );
        assert!(
            many.samples().len() >= offered.min(SAMPLES_KEPT / 2),
            "{offered}"
        );
        let whole = Duration::from_millis(offered as u64 - 1);
        assert_eq!(many.interval(), whole, "{offered}");
        // Evenly, so that votes are not those of the end.
        let middle = many
            .samples()
            .nth(many.samples().len() / 2)
            .expect("samples")
            .at;
        let half = middle.since(Instant::ZERO).as_secs_f64() / whole.as_secs_f64();
        assert!((0.45..0.55).contains(&half), "{offered}: {half}");
    }
}

#[test]
fn counters_are_differences_and_never_since_birth() {
    let acked = |millis, bytes| {
        let mut sample = at(millis);
        sample.bytes_acked = bytes;
        sample
    };
    let check = |values: &[Option<u64>], expected: Option<u64>| {
        let samples = values
            .iter()
            .enumerate()
            .map(|(i, v)| acked(i as u64 * 500, *v));
        let found = timeline(samples).counted(|s| s.bytes_acked);
        assert_eq!(found, expected, "{values:?}");
    };
    check(&[], None);
    check(&[Some(5)], None);
    check(&[Some(1_000_000), Some(1_000_500)], Some(500));
    check(&[None, Some(5), None, Some(9), None], Some(4));
    check(&[None, None], None);

    let rate = timeline([acked(0, Some(7)), acked(1000, Some(1_000_007))]).rate();
    assert_eq!(rate, Some(Rate::from_bits_per_second(8_000_000)));

    let backwards = timeline([acked(0, Some(7)), acked(10, Some(6)), acked(20, Some(8))]);
    assert_eq!(backwards.went_backwards(), Some("bytes_acked"));
}

#[test]
fn votes_leave_idle_samples_out() {
    let sample = |millis: u64, unacked, nodelay| {
        let mut sample = at(millis);
        sample.unacked_pkts = Some(unacked);
        sample.notsent_bytes = Some(0);
        sample.nodelay = nodelay;
        sample
    };
    let yes = (0..6).map(|i| sample(i, 1, Some(i < 3)));
    let idle = (6..12).map(|i| sample(i, 0, Some(true)));
    let seen = timeline(yes.chain(idle));
    assert_eq!(seen.idle_share(), Some(0.5));
    assert_eq!(seen.vote(|s| s.nodelay), Some(0.5));
    assert_eq!(seen.vote_of_all(|s| s.nodelay), Some(0.75));
    assert_eq!(seen.vote(|s| s.cork), None, "nobody knows");
    let few = timeline((0..3).map(|i| sample(i, 1, Some(true))));
    assert_eq!(few.vote(|s| s.nodelay), None, "too few");
}

#[test]
fn shares_of_time_need_time() {
    let sample = |millis: u64, busy, stopped| {
        let mut sample = at(millis);
        sample.busy_time = Some(Duration::from_millis(busy));
        sample.rwnd_limited_time = Some(Duration::from_millis(stopped));
        sample
    };
    let seen = timeline([sample(0, 100, 100), sample(1000, 600, 350)]);
    assert_eq!(seen.busy_share(), Some(0.5));
    assert_eq!(seen.rwnd_share(), Some(0.5));
    let idle = timeline([sample(0, 100, 100), sample(1000, 100, 100)]);
    assert_eq!(idle.rwnd_share(), None);
}

#[test]
fn the_best_rate_is_one_that_the_application_did_not_limit() {
    let sample = |millis: u64, mbit: u64, limited| {
        let mut sample = at(millis);
        sample.delivery_rate = Some(Rate::from_bits_per_second(mbit * 1_000_000));
        sample.delivery_app_limited = limited;
        sample.min_rtt = Some(Duration::from_millis(40));
        sample
    };
    let mixed = [sample(0, 50, Some(true)), sample(1, 40, Some(false))];
    assert_eq!(timeline(mixed).bdp_bytes(), Some(200_000));
    let limited = [sample(0, 50, Some(true)), sample(1, 40, None)];
    assert_eq!(timeline(limited).bdp_bytes(), Some(250_000));
}

#[test]
fn bursts_are_split_at_gaps_longer_than_the_timeout() {
    let sample = |millis: u64, cwnd: Option<u32>| {
        let mut sample = at(millis);
        sample.rto = Some(Duration::from_millis(240));
        sample.unacked_pkts = Some(u32::from(cwnd.is_some()));
        sample.notsent_bytes = Some(0);
        sample.cwnd_pkts = cwnd;
        sample
    };
    let seen = timeline([
        sample(0, Some(10)),
        sample(20, Some(40)),
        sample(40, None),
        sample(200, Some(30)),
        sample(220, None),
        sample(900, Some(10)),
        sample(910, Some(20)),
    ]);
    let bursts = seen.bursts();
    let windows: Vec<_> = bursts
        .iter()
        .map(|b| (b.cwnd_begin_pkts, b.cwnd_max_pkts))
        .collect();
    assert_eq!(windows, [(Some(10), Some(40)), (Some(10), Some(20))]);
    assert_eq!(bursts[0].end, Instant::from_nanos(200_000_000));
}

#[test]
fn a_window_that_holds_still_is_not_that_of_the_beginning() {
    let window = |millis: u64, window: Option<u32>| FlowSample {
        snd_wnd_bytes: window,
        ..at(millis)
    };
    let largest = |later: &[Option<u32>]| {
        let handshake = [window(0, Some(65_160)), window(10, Some(65_160))];
        let later = later.iter().copied().cycle();
        let rest = (2..20)
            .zip(later)
            .map(|(look, bytes)| window(look * 10, bytes));
        timeline(handshake.into_iter().chain(rest)).largest_that_holds(|s| s.snd_wnd_bytes)
    };
    assert_eq!(largest(&[Some(20_480)]), Some(20_480));
    let moves = [Some(20_480), Some(4096), Some(8192)];
    assert_eq!(largest(&moves), Some(65_160), "a reader moves it");
    assert_eq!(largest(&[None]), Some(65_160), "nothing else tells");
}

/// 10 Mbit/s, of which a bucket lets 60 kB pass at 200 Mbit/s each second: no path carries that.
#[test]
fn a_burst_is_no_rate_that_lasts() {
    let acked = |millis: u64| millis * 1250 + (millis / 1000 + 1) * 60_000;
    let look = |millis: u64| {
        let mut sample = at(millis);
        sample.bytes_acked = Some(acked(millis));
        sample.srtt = Some(Duration::from_millis(20));
        sample.delivery_app_limited = Some(false);
        let is_burst = millis % 1000 < 3;
        let mbit = if is_burst { 200 } else { 10 };
        sample.delivery_rate = Some(Rate::from_bits_per_second(mbit * 1_000_000));
        sample
    };
    let seen = timeline((0..4000).step_by(10).map(look));
    let mbit = |rate: Option<Rate>| rate.map(|rate| rate.bits_per_second() / 1_000_000);
    assert_eq!(mbit(seen.best_rate()), Some(200));
    assert_eq!(mbit(seen.lasting_rate()), Some(10));
}

/// A queue makes round trips of 300 ms: four of them are longer than the watch, or most of it.
#[test]
fn a_short_watch_of_long_round_trips_tells_no_rate_that_lasts() {
    let lasting = |watch: u64| {
        let look = |millis: u64| FlowSample {
            bytes_acked: Some(millis * 1250),
            srtt: Some(Duration::from_millis(300)),
            ..at(millis)
        };
        timeline((0..=watch).step_by(10).map(look)).lasting_rate()
    };
    for watch in [1000, 1400, 4700] {
        assert_eq!(lasting(watch), None, "in {watch} ms");
    }
    assert_eq!(lasting(4800), Some(Rate::from_bits_per_second(10_000_000)));
    let unseen = (0..=4800).step_by(10).map(|millis| FlowSample {
        srtt: Some(Duration::from_millis(300)),
        ..at(millis)
    });
    assert_eq!(
        timeline(unseen).lasting_rate(),
        None,
        "nothing was measured"
    );
}

/// A program that writes 250 kB every 200 ms, which the path carries in 40 ms.
#[test]
fn blocks_arrive_as_densely_as_the_path_carries_them() {
    let dense = |rtt_ms: u64| {
        let look = |millis: u64| FlowSample {
            bytes_acked: Some(millis / 200 * 250_000 + (millis % 200).min(40) * 6250),
            min_rtt: Some(Duration::from_millis(rtt_ms)),
            ..at(millis)
        };
        let dense = timeline((0..4000).step_by(10).map(look)).dense_rate();
        dense.map(|rate| rate.bits_per_second() / 1_000_000)
    };
    for rtt_ms in [1, 30, 60] {
        assert_eq!(dense(rtt_ms), Some(50), "{rtt_ms} ms");
    }
    // Over 150 ms a block has come and nothing behind it.
    assert_eq!(dense(300), Some(13));
    assert_eq!(timeline([at(0), at(10)]).dense_rate(), None);
}
