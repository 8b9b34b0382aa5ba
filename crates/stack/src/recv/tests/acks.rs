//! When an ACK leaves (vectors A of `docs/linux-tcp.md`).

use super::*;

#[test]
fn a1_quick_acks_then_the_timer() {
    let mut connection = open(&linux());
    for step in 0..40_u64 {
        let micros = 100_000 * step;
        let wanted = connection.next_at(micros, 100, true);
        if step < 16 {
            assert_eq!(wanted, AckWanted::Now, "segment {step}");
            connection.send_at(micros, false);
            continue;
        }
        let left = connection.run_until(micros + 99_000);
        let delay = left[0].since(at(micros));
        let expected = if step == 16 { 40..44 } else { 44..48 };
        let range = millis(expected.start)..=millis(expected.end);
        assert!(range.contains(&delay), "segment {step}: {delay:?}");
        assert_eq!(left.len(), 1);
    }
    assert_eq!(connection.receiver.stats().acks.quick, 16);
    assert_eq!(connection.receiver.stats().acks.delayed, 24);
}

#[test]
fn a2_the_delay_doubles_but_is_bounded_by_the_round_trip_time() {
    let mut connection = open(&linux());
    for step in 0..18_u64 {
        connection.next_at(100_000 * step, 100, true);
        if step < 16 {
            connection.send_at(100_000 * step, false);
        }
        connection.run_until(100_000 * step + 99_000);
    }
    assert_eq!(connection.receiver.acks.delay(), millis(160));
}

#[test]
fn a3_a_prompt_reader_acknowledges() {
    let mut connection = open(&linux());
    for step in 0..40_u64 {
        let micros = 100_000 * step;
        connection.next_at(micros, 100, true);
        connection.read_at(micros + 100, usize::MAX);
        assert_eq!(connection.receiver.ack_wanted(), AckWanted::Now, "{step}");
        connection.send_at(micros + 100, false);
    }
}

#[test]
fn a4_ten_milliseconds_apart() {
    let mut connection = open(&linux());
    let mut first = None;
    let mut delays = vec![];
    for step in 0..200_u64 {
        let micros = 10_000 * step;
        let due = connection.run_until(micros);
        let now_wanted = connection.next_at(micros, 100, true);
        if step < 16 {
            connection.send_at(micros, false);
            continue;
        }
        for left in due {
            delays.push(left.since(first.take().expect("data")));
        }
        let start = *first.get_or_insert(at(micros));
        if now_wanted == AckWanted::Now {
            delays.push(at(micros).since(start));
            connection.send_at(micros, false);
            first = None;
        }
    }
    assert!(delays.len() > 30);
    for delay in delays {
        assert!(
            (millis(30)..=millis(32)).contains(&delay)
                || (millis(40)..=millis(44)).contains(&delay),
            "{delay:?}"
        );
    }
}

#[test]
fn a5_a6_quick_acks_at_the_start() {
    let check = |window: u32, expected| {
        let mut connection = open(&linux());
        connection.receiver.window.on_offered(1, window);
        connection.next_at(0, 100, true);
        assert_eq!(connection.receiver.acks.quick(), expected);
    };
    check(65_160, 16);
    check(2000, 1);
    check(1000, 2);
}

#[test]
fn a7_the_delay_follows_the_pace() {
    let mut connection = open(&linux());
    let mut micros = 0;
    connection.next_at(micros, 100, true);
    for (gap, expected) in [(2, 10), (8, 13), (9, 15)] {
        micros += gap * 4000;
        connection.next_at(micros, 100, true);
        assert_eq!(connection.receiver.acks.delay(), JIFFY * expected);
    }
}

/// Two writes and a wait for the reply, from the second round on: when the first write's ACK
/// leaves after it arrived, the reader being prompt.
fn second_round(settings: &SocketSettings) -> Duration {
    let mut connection = open(settings);
    connection.next_at(0, 100, true);
    connection.read_at(0, usize::MAX);
    connection.send_at(0, false);
    connection.next_at(200, 100, true);
    connection.read_at(200, usize::MAX);
    connection.send_at(300, true);
    assert!(connection.receiver.acks.is_pingpong());
    connection.next_at(500, 100, true);
    connection.read_at(500, usize::MAX);
    let left = connection.run_until(1_000_000);
    assert!(!connection.receiver.acks.is_pingpong(), "left on expiry");
    left[0].since(at(500))
}

#[test]
fn a8_write_write_read_waits_for_the_timer() {
    let delay = second_round(&linux());
    assert!((millis(40)..=millis(44)).contains(&delay), "{delay:?}");
}

#[test]
fn a12_a14_the_timer_is_shorter_where_settings_say_so() {
    let check = |id, delay_max, rto_min, jiffies: u32| {
        let mut settings = linux();
        settings.acks.delay_max = delay_max;
        settings.recovery.rto_min = rto_min;
        let delay = second_round(&settings);
        let range = JIFFY * jiffies..=JIFFY * (jiffies + 1);
        assert!(range.contains(&delay), "{id}: {delay:?}");
    };
    check("A12, 5 ms", millis(5), millis(200), 2);
    check("A12, 8 ms", millis(8), millis(200), 2);
    check("A12, 20 ms", millis(20), millis(200), 5);
    check("A14", millis(200), millis(10), 2);
}

#[test]
fn a15_always_quick() {
    let mut settings = linux();
    settings.acks.always_quick = true;
    let mut connection = open(&settings);
    connection.next_at(0, 100, true);
    connection.send_at(0, true);
    assert_eq!(connection.next_at(200, 100, true), AckWanted::Now);
}

#[test]
fn a16_no_ack_waits_as_long_as_the_least_timeout() {
    let mut settings = linux();
    settings.acks.delay = millis(200);
    settings.acks.delay_min = millis(40);
    let mut connection = open(&settings);
    connection.next_at(0, 100, true);
    connection.receiver.acks.clear_quick();
    connection.send_at(0, true);
    connection.next_at(1000, 100, true);
    let env = Env {
        srtt_micros: 0,
        ..ENV
    };
    let mut payload = payload(connection.end, 10);
    let data = segment(&mut payload, connection.end, false);
    connection.receiver.handle_data(at(1001), data, env);
    let left = connection.run_until(1_000_000);
    assert!(left[0].since(at(1000)) <= JIFFY * 50, "{left:?}");
}

#[test]
fn a18_duplicate_acks_are_compressed() {
    let check = |rtt_micros: u64, percent, expected: Duration| {
        let mut settings = linux();
        settings.acks.compress = settings.acks.compress.map(|rule| SackCompression {
            rtt_percent: percent,
            ..rule
        });
        let mut connection = open(&settings);
        connection.next_at(0, 100, true);
        connection.send_at(0, false);
        connection.receiver.acks.clear_quick();
        let space = connection.receiver.autotune.space();
        connection
            .receiver
            .autotune
            .set_for_test(8 * rtt_micros, space);
        for step in 0..100 {
            let start = 5001 + 500 * step;
            connection.receiver.acks.clear_quick();
            connection.data_at(10, start, 100, false);
            let wanted = connection.receiver.ack_wanted();
            match step {
                0..3 => assert_eq!(wanted, AckWanted::Now, "{step}"),
                3..47 => assert_eq!(wanted, AckWanted::At(at(10) + expected), "{step}"),
                _ => {
                    assert_eq!(wanted, AckWanted::Now, "44 are merged");
                    break;
                }
            }
            if wanted == AckWanted::Now {
                connection.send_at(10, false);
            }
        }
        connection.send_at(10, false);
        assert_eq!(connection.receiver.stats().acks.compressed, 43);
    };
    check(40_000, 5, millis(1));
    check(1000, 5, Duration::from_micros(50));
    check(1000, 33, Duration::from_micros(330));
}

#[test]
fn a19_two_short_segments_in_pingpong_mode_are_acknowledged_at_the_read() {
    let mut connection = open(&linux());
    connection.next_at(0, 100, true);
    connection.read_at(50, 100);
    connection.send_at(100, true);
    connection.next_at(1000, 100, true);
    assert_ne!(connection.receiver.ack_wanted(), AckWanted::Now);
    connection.next_at(1100, 100, true);
    assert_ne!(connection.receiver.ack_wanted(), AckWanted::Now);
    connection.read_at(1200, 100);
    assert_ne!(connection.receiver.ack_wanted(), AckWanted::Now);
    connection.read_at(1200, 100);
    assert_eq!(connection.receiver.ack_wanted(), AckWanted::Now);
}

#[test]
fn more_than_one_full_segment_is_acknowledged_at_once() {
    let mut connection = open(&linux());
    let mut now = vec![];
    for step in 0..40 {
        let wanted = connection.next_at(step, 1448, false);
        connection.receiver.acks.clear_quick();
        connection.read_at(step, usize::MAX);
        if wanted == AckWanted::Now {
            connection.send_at(step, false);
            now.push(step);
        }
    }
    assert_eq!(now[now.len() - 5..], [31, 33, 35, 37, 39]);
}

#[test]
fn quickack_leaves_and_enters_pingpong_mode() {
    let mut connection = open(&linux());
    connection.next_at(0, 100, true);
    connection.read_at(50, 100);
    connection.send_at(100, true);
    connection.next_at(1000, 100, true);
    connection.receiver.set_quickack(at(1100), 1);
    assert!(!connection.receiver.acks.is_pingpong());
    assert_ne!(connection.receiver.ack_wanted(), AckWanted::Now, "unread");
    connection.read_at(1100, 100);
    assert_eq!(connection.receiver.ack_wanted(), AckWanted::Now);
    connection.send_at(1100, false);
    connection.receiver.set_quickack(at(1200), 0);
    assert!(connection.receiver.acks.is_pingpong());
}
