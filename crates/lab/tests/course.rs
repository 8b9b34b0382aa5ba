//! How a run went, as the virtual engine tells it: what its points add up to, and what its sender
//! counted.

use std::sync::atomic::AtomicBool;

use lab::{Outcome, POINTS_MAX, Point, Scenario, Virtual, WARM_UP};

fn run(text: &str) -> Outcome {
    let scenario = Scenario::parse("test.toml", text);
    let scenario = scenario.unwrap_or_else(|mistakes| panic!("{mistakes:?}"));
    let stop = AtomicBool::new(false);
    let trial = &scenario.trials()[0].trial;
    let outcome = Virtual::default().run(trial, &stop, &mut |_| ());
    assert_eq!(outcome.caveats, [], "{text}");
    let again = Virtual::default().run(trial, &stop, &mut |_| ());
    assert_eq!(again, outcome, "the same trial, the same outcome");
    outcome
}

/// Payload of the points that begin at `from_us` or later.
fn bytes(points: &[Point], from_us: u64) -> f64 {
    let mut before = 0;
    let mut bytes = 0.0;
    for point in points {
        if before >= from_us {
            bytes += point.goodput_bps as f64 * (point.at_us - before) as f64 / 8e6;
        }
        before = point.at_us;
    }
    bytes
}

fn bulk(amount: &str) -> Outcome {
    run(&format!(
        "name = \"t\"\nabout = \"A path.\"\n[path]\nkind = \"emulated\"\nrate = \"20mbit\"\nrtt = \"20ms\"\n\
         queue = \"60p\"\n[workload]\nkind = \"bulk\"\ndirection = \"up\"\nflows = 1\n\
         write_size = \"64KiB\"\n{amount}\n"
    ))
}

#[test]
fn the_points_of_a_time_add_up_to_its_goodput() {
    let outcome = bulk("duration = \"4s\"");
    let points = &outcome.series;
    assert!(
        (150..=POINTS_MAX).contains(&points.len()),
        "{}",
        points.len()
    );
    let warm_up_us = WARM_UP.as_micros() as u64;
    let counted = outcome.goodput_bps as f64 * outcome.duration_s / 8.0;
    let of_points = bytes(points, warm_up_us);
    // One point more or less, at 20 Mbit/s.
    assert!(
        (of_points - counted).abs() < 2.5e6 * 0.03,
        "{of_points} {counted}"
    );
    let last = points.last().expect("some");
    assert!((4_990_000..5_100_000).contains(&last.at_us), "{last:?}");
    assert!(points.iter().any(|point| point.at_us < warm_up_us));
}

#[test]
fn the_points_of_an_amount_add_up_to_it() {
    let outcome = bulk("bytes = \"10MB\"");
    let points = &outcome.series;
    assert!(
        (100..=POINTS_MAX).contains(&points.len()),
        "{}",
        points.len()
    );
    let of_points = bytes(points, 0);
    assert!((of_points - 1e7).abs() < 1e4, "{of_points}");
    // The path holds 50 kB and its queue 60 packets: slow start ends there.
    let most = |read: fn(&Point) -> Option<u64>| points.iter().filter_map(read).max();
    let queue = most(|point| point.queue_bytes).expect("an emulated path");
    assert!((60_000..=60 * 1514).contains(&queue), "{queue}");
    let cwnd = most(|point| point.cwnd_bytes).expect("our stack");
    assert!(cwnd > 50_000, "{cwnd}");
    let rtt = most(|point| point.rtt_us).expect("our stack");
    assert!((40_000..70_000).contains(&rtt), "{rtt}");
    assert!(most(|point| point.in_flight_bytes).expect("our stack") <= cwnd * 2);
    assert!(
        points
            .iter()
            .any(|point| point.limit == Some(base::Limit::Congestion))
    );

    let sender = outcome.sender.expect("our stack");
    let dropped = outcome.forward.dropped_segments;
    assert!(
        sender.retransmitted_segments >= dropped,
        "{sender:?} {dropped}"
    );
    let new = sender.data_segments - sender.retransmitted_segments;
    assert!(
        (6_905..7_300).contains(&new),
        "10 MB in segments of 1448: {sender:?}"
    );
    let mean = sender.rtt_mean_us.expect("our stack");
    assert!((20_000..rtt).contains(&mean), "{mean}");
}

fn wwr(method: &str, amount: &str) -> (Outcome, f64) {
    let outcome = run(&format!(
        "name = \"t\"\nabout = \"Pieces.\"\n[path]\nkind = \"emulated\"\nrate = \"100mbit\"\nrtt = \"1ms\"\n\
         queue = \"1000p\"\n[client]\nnodelay = \"on\"\n[workload]\nkind = \"write-write-read\"\n\
         writes = 15\nwrite_size = \"10B\"\nreply = \"1B\"\nmethod = \"{method}\"\n{amount}\n"
    ));
    let operations = outcome.response_us.expect("exchanges").n as f64;
    let segments = outcome.sender.expect("our stack").data_segments as f64;
    (outcome, segments / operations)
}

#[test]
fn segments_and_operations_are_counted_over_the_same_time() {
    // The initial window holds ten; the five pieces behind them leave as one segment.
    let pieces = 15.0 * 200.0 - 4.0;
    assert_eq!(wwr("write", "operations = 200").1, pieces / 200.0);
    assert_eq!(wwr("cork", "operations = 200").1, 1.0);
    let (outcome, per_operation) = wwr("write", "duration = \"1s\"");
    assert!((14.9..15.1).contains(&per_operation), "{per_operation}");
    assert!(outcome.series.len() <= POINTS_MAX);
}

#[test]
fn connections_that_are_closed_count_too() {
    let outcome = run(
        "name = \"t\"\nabout = \"A connection each.\"\n[path]\nkind = \"emulated\"\nrate = \"100mbit\"\nrtt = \"1ms\"\n\
         queue = \"1000p\"\n[workload]\nkind = \"connect-request-close\"\nrequest = \"100B\"\n\
         response = \"1000B\"\noperations = 50\n",
    );
    let sender = outcome.sender.expect("our stack");
    assert_eq!(sender.data_segments, 50);
    assert_eq!(sender.retransmitted_segments, 0);
}
