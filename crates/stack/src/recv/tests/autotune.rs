//! How the receive buffer grows (vectors R of `docs/linux-tcp.md`).

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
    let mut buffer = Buffer::new(&Arc::new(settings.clone()));
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
                let mut payload = payload(connection.end, 1448);
                let mut data = segment(&mut payload, connection.end, false);
                connection.end += 1448;
                // The echo is of the time when the round began.
                let age = Duration::from_micros(20_000 + 500 * step);
                data.echo = timestamps.then_some((round as u32, age));
                connection.receiver.handle_data(at(micros), data, ENV);
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

/// The sizes of a buffer with this rule while a sender fills it in each round-trip time of 40 ms,
/// in segments of 1448 bytes. `breaks`: one of them is lost in each round-trip time.
fn sizes(rule: SizeRule, max: u32, timestamps: bool, breaks: bool) -> Vec<(u64, u32)> {
    const RTT: u64 = 40_200;
    let mut settings = bsd(65_536, 2, millis(100), Duration::ZERO);
    settings.recv.buffer.rule = rule;
    settings.recv.buffer.max = max;
    settings.recv.buffer.request_max = max;
    let mut connection = open(&settings);
    connection.send_at(0, false);
    let mut sizes = vec![(0, 65_536)];
    for round in 0..40_u64 {
        let segments = u64::from(connection.receiver.memory().rcvbuf_bytes).div_ceil(1448);
        for step in 0..segments {
            let micros = RTT * (1 + round) + RTT * step / segments;
            let mut payload = payload(connection.end, 1448);
            let mut data = segment(&mut payload, connection.end, false);
            connection.end += 1448;
            // It answers an ACK of a round-trip time ago.
            let sent = (micros / 1000) as u32;
            data.echo = timestamps.then_some((sent, Duration::from_micros(RTT)));
            connection.receiver.handle_data(at(micros), data, ENV);
            connection.read_at(micros, usize::MAX);
            connection.send_at(micros, false);
            if breaks && step == segments / 2 {
                connection.data_at(micros, connection.end + 1448, 1448, false);
                connection.data_at(micros, connection.end, 1448, false);
                connection.end += 2896;
                connection.read_at(micros, usize::MAX);
                connection.send_at(micros, false);
            }
            let size = connection.receiver.memory().rcvbuf_bytes;
            if sizes.last().is_some_and(|(_, last)| *last != size) {
                sizes.push((micros, size));
            }
        }
    }
    sizes
}

#[test]
fn f7_every_size_from_the_first_to_the_last() {
    let only = |sizes: &[(u64, u32)]| sizes.iter().map(|(_, size)| *size).collect::<Vec<_>>();
    let apart = |sizes: &[(u64, u32)]| {
        let gaps = sizes[1..].windows(2).map(|pair| pair[1].0 - pair[0].0);
        gaps.min().expect("several sizes")
    };
    // FB7, FB8 and FB16: twelve steps of 16 KiB, at most one in a round-trip time.
    let by_16k: Vec<u32> = (4..=16).map(|steps| steps * 16_384).collect();
    let rule = SizeRule::FreeBsd2006 { step: 16_384 };
    let grown = sizes(rule, 262_144, true, false);
    assert_eq!(only(&grown), by_16k);
    assert!(apart(&grown) >= 40_200, "{grown:?}");
    // FB17.
    assert_eq!(only(&sizes(rule, 262_144, false, false)), [65_536]);
    let rule = SizeRule::FreeBsd2017 { step: 16_384 };
    let grown = sizes(rule, 262_144, false, false);
    assert_eq!(only(&grown), by_16k);
    assert!(apart(&grown) >= 40_200, "{grown:?}");
    // FB19: nine steps of a half, at most two in a round-trip time.
    let by_half = [
        65_536, 98_304, 147_456, 221_184, 331_776, 497_664, 746_496, 1_119_744, 1_679_616,
        2_097_152,
    ];
    let rule = SizeRule::FreeBsd14 { step: 8192 };
    let grown = sizes(rule, 2 << 20, false, false);
    assert_eq!(only(&grown), by_half);
    assert!(apart(&grown) >= 20_100, "{grown:?}");
}

#[test]
fn fb18_a_loss_in_each_round_trip_time_stops_the_rule_of_2006_alone() {
    let last = |rule, max| {
        let grown = sizes(rule, max, true, true);
        grown.last().map(|(_, size)| *size)
    };
    assert_eq!(
        last(SizeRule::FreeBsd2006 { step: 16_384 }, 262_144),
        Some(65_536)
    );
    assert_eq!(
        last(SizeRule::FreeBsd2017 { step: 16_384 }, 262_144),
        Some(262_144)
    );
    assert_eq!(
        last(SizeRule::FreeBsd14 { step: 8192 }, 2 << 20),
        Some(2_097_152)
    );
}

#[test]
fn fb13_a_reservation_that_fails_ends_growth() {
    let mut settings = bsd(65_536, 2, millis(100), Duration::ZERO);
    settings.recv.buffer.request_max = 100_000;
    let mut buffer = Buffer::new(&Arc::new(settings.clone()));
    buffer.reserve(98_304);
    assert_eq!((buffer.bytes(), buffer.is_locked()), (98_304, false));
    buffer.reserve(114_688);
    assert_eq!((buffer.bytes(), buffer.is_locked()), (98_304, true));
}

#[test]
fn fb20_the_scale_is_offered_for_the_largest_buffer() {
    let settings = bsd(65_536, 2, millis(100), Duration::ZERO);
    let mut receiver = Receiver::new(&Arc::new(settings.clone()), clock());
    assert_eq!(receiver.first_window(1460), 65_535);
    assert_eq!(receiver.window_scale(), 3);
}
