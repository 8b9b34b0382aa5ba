//! How the receive buffer grows (rules, 16.3).

use super::*;
use crate::recv::accounting::Buffer;
use crate::recv::autotune::{Autotune, Wanted, wanted_window};

#[test]
fn r1_to_r8_measured_growth() {
    let steps = [
        (14_480, 31_856, 131_072, 326_204, 216_619),
        (31_856, 99_472, 326_204, 1_571_358, 1_043_479),
        (99_472, 207_160, 1_571_358, 1_974_817, 1_311_401),
        (207_160, 405_440, 1_974_817, 3_558_583, 2_363_121),
        (405_440, 832_600, 3_558_583, 7_791_456, 5_174_013),
        (832_600, 1_595_696, 7_791_456, 13_615_212, 9_041_351),
        (1_595_696, 3_239_304, 13_615_212, 29_853_927, 19_824_873),
        (3_239_304, 3_736_456, 29_853_927, 29_853_927, 19_824_873),
    ];
    for (row, (before, copied, bytes, bytes_after, clamp_after)) in steps.into_iter().enumerate() {
        let (bytes_grown, clamp, space) = tune(&linux(), before, copied, 0, bytes);
        assert_eq!(bytes_grown, bytes_after, "R{}", row + 1);
        assert_eq!(clamp, clamp_after, "R{}", row + 1);
        assert_eq!(u64::from(space), copied);
    }
    // R12: what is unread does not count.
    let (bytes, ..) = tune(&linux(), 14_480, 57_920, 26_064, 131_072);
    assert_eq!(bytes, 326_204);
}

/// One period of dynamic right-sizing at ratio 170: buffer, clamp and space afterwards.
fn tune(
    settings: &SocketSettings,
    before: u32,
    copied: u64,
    unread: u64,
    bytes: u32,
) -> (u32, u32, u32) {
    let mut buffer = Buffer::new(&settings.recv);
    let mut window = Window::new(&settings.options);
    window.select_first(1448, &buffer, &settings.options);
    buffer.set_for_test(bytes, 170, 0);
    window.follow_buffer(&buffer);
    let mut autotune = Autotune::new(settings.recv.buffer.rule);
    autotune.establish(at(0), &window);
    autotune.set_for_test(8 * 40_000, before);
    let progress = Progress {
        read: 1 + copied,
        unread,
        span: 0,
    };
    autotune.on_read(at(39_999), progress, &mut buffer, &mut window);
    assert_eq!(autotune.space(), before, "too early");
    autotune.on_read(at(40_000), progress, &mut buffer, &mut window);
    (buffer.bytes(), window.clamp(), autotune.space())
}

#[test]
fn r9_to_r11_other_versions() {
    let check = |id, version, copied, before, rtt_micros: u64, expected| {
        let wanted = Wanted {
            version,
            copied,
            before,
            mss: 1448,
            rtt: 8 * rtt_micros,
            span: 0,
        };
        assert_eq!(wanted_window(&wanted), expected, "{id}");
    };
    check("R9", LinuxVersion::V6_12, 31_856, 14_480, 40_000, 295_392);
    check("R10", LinuxVersion::V6_16, 31_856, 14_480, 40_000, 63_712);
    check("R11", LinuxVersion::V6_19, 100_000, 50_000, 500, 300_000);
    let rule = |version| {
        let mut settings = linux();
        settings.recv.buffer.rule = SizeRule::Linux(version);
        tune(&settings, 14_480, 31_856, 0, 131_072).0
    };
    assert_eq!(rule(LinuxVersion::V6_12), 444_825, "R9");
    assert_eq!(rule(LinuxVersion::V6_16), 131_072, "R10");
}

#[test]
fn r2_rounds_as_its_version_does() {
    let mut settings = linux();
    settings.recv.buffer.rule = SizeRule::Linux(LinuxVersion::V6_19);
    assert_eq!(tune(&settings, 31_856, 99_472, 0, 326_204).0, 1_571_359);
}

#[test]
fn r13_to_r16_estimates_of_the_round_trip_time() {
    let sampled = |version, unread| {
        let mut autotune = Autotune::new(SizeRule::Linux(version));
        autotune.set_for_test(321_000, 0);
        // A window of 1000 bytes is used up after 39 ms.
        autotune.on_in_order(at(0), 1, 1000);
        autotune.on_in_order(at(10_000), 1000, 1000);
        assert_eq!(autotune.rtt_units(), 321_000);
        autotune.on_in_order(at(39_000), 1001, 1000);
        assert_eq!(autotune.rtt_units(), 312_000, "R13");
        autotune.on_in_order(at(80_000), 2001, 1000);
        assert_eq!(autotune.rtt_units(), 312_000, "R16");
        autotune.on_echo(7, Duration::from_micros(41_000), unread);
        let first = autotune.rtt_units();
        autotune.on_echo(7, Duration::from_micros(90_000), unread);
        autotune.on_echo(8, Duration::ZERO, unread);
        assert_eq!(autotune.rtt_units(), first, "the same echo, no time passed");
        first
    };
    assert_eq!(sampled(LinuxVersion::V6_18, false), 314_000, "R14");
    assert_eq!(sampled(LinuxVersion::V6_18, true), 312_000, "R15");
    assert_eq!(sampled(LinuxVersion::V6_12, true), 314_000);
}

#[test]
fn r17_a_buffer_that_was_asked_for_stays() {
    let mut settings = linux();
    settings.recv.buffer.fixed = Some(200_000);
    let (bytes, _, space) = tune(&settings, 14_480, 31_856, 0, 200_000);
    assert_eq!((bytes, space), (200_000, 31_856));
}

#[test]
fn a_gap_widens_the_buffer_since_6_16() {
    let grown = |version| {
        let mut settings = linux();
        settings.recv.buffer.rule = SizeRule::Linux(version);
        let mut connection = open(&settings);
        for step in 0..20 {
            connection.data_at(1000, 3001 + 1448 * step, 1448, false);
        }
        connection.receiver.memory().rcvbuf_bytes
    };
    assert_eq!(grown(LinuxVersion::V6_12), 131_072);
    assert!(grown(LinuxVersion::V6_18) >= 131_072);
}

#[test]
fn fb16_the_rule_of_2006_needs_timestamps() {
    let run = |timestamps: bool, loss: bool| {
        let mut settings = bsd(65_536, 2, millis(100), Duration::ZERO);
        settings.recv.buffer.rule = SizeRule::FreeBsd2006 { step: 16_384 };
        let mut connection = open(&settings);
        connection.send_at(0, false);
        let mut sizes = vec![];
        for round in 0..4_u64 {
            for step in 0..45_u64 {
                let micros = 40_000 * round + 500 * step;
                let mut data = segment(connection.end, 1448, false);
                connection.end += 1448;
                // The echo is of the time when the round began.
                data.timestamp_echo = timestamps.then_some(round as u32);
                data.timestamp_rtt = timestamps.then(|| Duration::from_micros(20_000 + 500 * step));
                connection.receiver.handle_data(at(micros), data, &ENV);
                connection.read_at(micros, usize::MAX);
                connection.send_at(micros, false);
                if loss && step == 40 {
                    connection.data_at(micros, connection.end + 5000, 100, false);
                    connection.data_at(micros, connection.end, 5100, false);
                    connection.end += 5100;
                }
            }
            sizes.push(connection.receiver.memory().rcvbuf_bytes);
        }
        sizes
    };
    let grown = run(true, false);
    assert!(grown[3] > 65_536, "{grown:?}");
    assert!(grown.iter().all(|size| (size - 65_536) % 16_384 == 0));
    assert_eq!(run(false, false), [65_536; 4], "FB17");
    assert!(run(true, true)[3] < grown[3], "FB18");
}

#[test]
fn fb19_the_rule_of_2018_grows_by_half() {
    let mut settings = bsd(65_536, 2, millis(100), Duration::ZERO);
    settings.recv.buffer.rule = SizeRule::FreeBsd14 { step: 16_384 };
    let mut connection = open(&settings);
    connection.send_at(0, false);
    for step in 0..20 {
        connection.next_at(500 * step, 1448, false);
        connection.read_at(500 * step, usize::MAX);
        connection.send_at(500 * step, false);
    }
    assert_eq!(connection.receiver.memory().rcvbuf_bytes, 65_536);
    // More than 3/8 within half the smoothed round-trip time of 40.2 ms.
    connection.next_at(20_200, 1448, false);
    assert_eq!(connection.receiver.memory().rcvbuf_bytes, 98_304);
}

#[test]
fn fb20_the_scale_is_offered_for_the_largest_buffer() {
    let settings = bsd(65_536, 2, millis(100), Duration::ZERO);
    let mut receiver = Receiver::new(&settings, clock());
    assert_eq!(receiver.first_window(1460), 65_535);
    assert_eq!(receiver.window_scale(), 3);
}
