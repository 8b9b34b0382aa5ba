//! The send buffer: its size, what it is charged, and when a writer stops and goes on.

use super::*;
use base::settings::Held;

use crate::send::memory::{Fill, Reach, fixed_bytes, freebsd_bytes, linux_segment_bytes};

fn fixed(mut settings: SocketSettings, bytes: u32) -> SocketSettings {
    settings.send.buffer.fixed = Some(bytes);
    settings
}

fn no_delay(mut settings: SocketSettings) -> SocketSettings {
    settings.small_writes.nagle = Nagle::Off;
    settings
}

/// A Linux sender whose buffer is `bytes`.
fn sized(settings: SocketSettings, bytes: u32) -> Bench {
    let mut bench = Bench::new(fixed(settings, bytes));
    bench.cwnd = 10;
    bench
}

#[test]
fn b1_a_buffer_is_as_large_as_its_settings_say() {
    assert_eq!(
        Sender::new(&Arc::new(linux()))
            .memory(&Progress::default())
            .sndbuf_bytes,
        16_384
    );
    for (bytes, size) in [(0, 4608), (200_000, 200_000)] {
        let memory = Sender::new(&Arc::new(fixed(linux(), bytes))).memory(&Progress::default());
        assert_eq!((memory.sndbuf_bytes, memory.locked), (size, true));
    }
    assert_eq!(fixed_bytes(&fixed(bsd(), 40_000).send), Some(40_000));
    assert_eq!(fixed_bytes(&winsock(0).send), Some(0));
}

#[test]
fn b6_to_b10_size_after_the_handshake() {
    let check = |mss, cc_windows, size| {
        let mut sender = Sender::new(&Arc::new(linux()));
        sender.on_established(&SendMemoryEnv {
            cwnd: 10,
            reordering: 3,
            in_flight: 0,
            mss,
            peer_mss: mss,
            window: 65_535,
            cc_windows,
            is_tight: false,
        });
        assert_eq!(sender.memory(&Progress::default()).sndbuf_bytes, size);
    };
    check(1460, 2, 46_080);
    check(1460, 3, 69_120);
    check(8960, 3, 499_200);
    check(8960, 2, 332_800);
    assert_eq!(linux_segment_bytes(1460), 2304);
}

#[test]
fn a_size_that_is_no_longer_fixed_grows_again() {
    let mut bench = Bench::new(fixed(linux(), 4608));
    assert_eq!(bench.memory().sndbuf_bytes, 4608);
    bench.change(|settings| settings.send.buffer.fixed = None);
    assert_eq!(bench.memory().sndbuf_bytes, 4608);
    while bench.offer(1448, WriteFlags::default()).taken > 0 {
        bench.send();
    }
    bench.ack(1448);
    assert!(bench.is_woken());
    assert_eq!(bench.memory().sndbuf_bytes, 46_080);
}

#[test]
fn it_grows_only_where_the_congestion_window_is_not_used_up() {
    let mut bench = Bench::new(linux());
    bench.cwnd = 20;
    while bench.offer(20_000, WriteFlags::default()).taken > 0 {
        bench.send();
    }
    let size = bench.memory().sndbuf_bytes;
    let mut env = bench.memory_env();
    env.in_flight = 20;
    bench.sender.check_space(&bench.progress, &env);
    assert_eq!(bench.memory().sndbuf_bytes, size);
    env.in_flight = 19;
    bench.sender.check_space(&bench.progress, &env);
    assert_eq!(bench.memory().sndbuf_bytes, 2 * size);
}

#[test]
fn b11_charge_of_a_packet() {
    let mut bench = Bench::new(linux());
    bench.write(100);
    assert_eq!(bench.queued(), 932);
}

#[test]
fn b12_b13_small_writes_into_a_small_buffer() {
    let check = |settings, write, accepted, queued| {
        let mut bench = sized(settings, 8192);
        let mut writes = 0;
        while bench.offer(write, WriteFlags::default()).taken == write {
            writes += 1;
            bench.send();
        }
        assert_eq!((writes, bench.queued()), (accepted, queued));
        bench.send();
        assert_eq!(bench.hold, Some(Limit::SendBuffer));
        assert!(bench.memory().writer_waits);
    };
    check(no_delay(linux()), 1000, 5, 9160);
    check(linux(), 1448, 4, 9120);
}

#[test]
fn b14_b15_writable_below_two_thirds() {
    for (size, threshold, write) in [(200_000, 133_333, 168), (600_000, 400_000, 1168)] {
        let mut bench = sized(no_delay(linux()), size);
        bench.cwnd = 10_000;
        bench.window = u32::MAX;
        // Each write is a packet of 1000 or 2000 bytes in memory.
        while bench.offer(write, WriteFlags::default()).taken > 0 {
            bench.send();
        }
        assert_eq!(bench.queued(), size);
        let (mut acked, mut is_woken) = (0, false);
        while !is_woken {
            assert!(bench.queued() > threshold || acked == 0);
            acked += write as u64;
            bench.ack(acked);
            is_woken = bench.is_woken();
        }
        assert!(bench.queued() <= threshold, "{} queued", bench.queued());
        assert!(!bench.is_woken(), "it is said once");
    }
}

/// A program that keeps a share of its buffer exceeds it as it does, and is woken when there is as
/// much room as it waits for.
#[test]
fn a_program_keeps_the_share_of_its_buffer_that_it_is_given() {
    let check = |(share, room_bytes): (u32, u32), kept: usize, [early, late]: [u64; 2]| {
        let mut settings = fixed(no_delay(linux()), 40_000);
        settings.send.held = Some(Held { share, room_bytes });
        let mut bench = Bench::new(settings);
        bench.cwnd = 1000;
        bench.window = 1_000_000;
        let outcome = bench.offer(500_000, WriteFlags::default());
        assert_eq!(outcome.taken, kept, "{share}");
        bench.send();
        bench.ack(early);
        assert!(!bench.is_woken(), "{share}");
        bench.ack(late);
        assert!(bench.is_woken(), "{share}");
    };
    check((500, 5000), 20_000, [4999, 5000]);
    check((500, 20_001), 20_000, [19_999, 20_000]);
    // Not before a third of the buffer is free.
    check((5000, 2000), 200_000, [173_000, 185_000]);
}

#[test]
fn b16_b17_nagle_lets_writes_overshoot() {
    let run = |settings| {
        let mut bench = sized(settings, 200_000);
        bench.cwnd = 100_000;
        bench.window = u32::MAX;
        bench.window_max = 4 << 20;
        bench.burst = 0;
        for _ in 0..200 {
            if bench.offer(16_384, WriteFlags::default()).taken < 16_384 {
                break;
            }
            bench.send();
        }
        bench.queued()
    };
    assert!(run(linux()) > 3_000_000);
    let with_no_delay = run(no_delay(linux()));
    assert!(
        (200_000..=200_000 + 66_000).contains(&with_no_delay),
        "{with_no_delay}"
    );
}

#[test]
fn b18_one_large_write_into_the_smallest_buffer() {
    let mut bench = Bench::new(fixed(linux(), 0));
    bench.window_max = 1 << 20;
    (bench.cwnd, bench.window) = (100, 1 << 20);
    // A part of the first packet leaves while it is written, and makes room for the rest.
    let outcome = bench.offer(65_536, WriteFlags::default());
    assert_eq!((outcome.taken, outcome.completed), (65_536, true));
    bench.send();
    assert_eq!(bench.queued(), 84_672);
}

#[test]
fn a_full_window_makes_the_size_count() {
    let mut bench = Bench::new(fixed(linux(), 0));
    bench.window_max = 1 << 20;
    bench.cwnd = 10;
    // Five bursts of two leave; nothing makes room for more.
    let mut taken = 0;
    while bench.offer(65_536, WriteFlags::default()).taken == 65_536 {
        taken += 65_536;
        bench.send();
    }
    assert!(taken <= 65_536 && bench.progress.unacked_bytes() == 10 * 1448);
    assert!(bench.unsent_bytes() <= 65_160);
    assert_eq!(bench.offer(1448, WriteFlags::default()).taken, 0);
}

#[test]
fn a_write_that_ends_for_want_of_room_is_pushed() {
    let mut bench = sized(linux(), 4608);
    bench.window_max = 4096;
    assert_eq!(bench.write(10), "10P");
    // The first packet is filled up to 1448 by the size goal, two more fit.
    let outcome = bench.offer(4000, WriteFlags::default());
    assert_eq!((outcome.taken, outcome.completed), (2896, false));
    assert_eq!(bench.send(), "1448 1448P");
}

#[test]
fn unsent_data_stops_a_writer_notsent_lowat() {
    let mut settings = no_delay(linux());
    settings.send.notsent_lowat = Some(20_000);
    settings.send.buffer.fixed = Some(1 << 20);
    let mut bench = Bench::new(settings);
    bench.cwnd = 4;
    let mut writes = 0;
    while bench.offer(14_480, WriteFlags::default()).taken > 0 {
        bench.send();
        writes += 1;
    }
    assert_eq!(writes, 3);
    assert_eq!(bench.unsent_bytes(), 36 * 1448 - 14_480 - 5792);
    let mut acked = 0;
    while !bench.is_woken() {
        acked += 1448;
        bench.wait(WAIT);
        bench.ack(acked);
    }
    assert!(bench.unsent_bytes() < 10_000);
}

#[test]
fn bsd_takes_what_fits_and_no_less_than_its_low_water_mark() {
    let mut bench = Bench::new(fixed(bsd(), 10_000));
    bench.cwnd = 0;
    let take = |bench: &mut Bench, bytes| {
        let outcome = bench.offer(bytes, WriteFlags::default());
        (outcome.taken, outcome.completed)
    };
    assert_eq!(take(&mut bench, 7000), (7000, true));
    assert_eq!(take(&mut bench, 5000), (3000, false));
    assert_eq!(take(&mut bench, 1), (0, false));
    bench.cwnd = 10;
    bench.send();
    bench.ack(2000);
    assert!(!bench.is_woken());
    assert_eq!(take(&mut bench, 5000), (0, false));
    assert_eq!(take(&mut bench, 1999), (1999, true));
    bench.ack(2047);
    assert!(!bench.is_woken());
    bench.ack(4047);
    assert!(bench.is_woken());
    assert_eq!(take(&mut bench, 5000), (2048, false));
}

#[test]
fn netburner_counts_unsent_buffers_nb22() {
    let mut settings = fixed(bsd(), 5 * 1460);
    settings.send.accounting = Accounting::Buffers {
        payload_bytes: 1460,
    };
    let mut bench = Bench::new(settings);
    bench.mss = 1460;
    assert_eq!(bench.offer(10_000, WriteFlags::default()).taken, 7300);
    bench.cwnd = 2;
    bench.send();
    // What was sent is charged to a budget of its own.
    assert_eq!(bench.memory().wmem_queued_bytes, 4380);
    assert!(bench.is_woken());
    assert_eq!(bench.offer(10_000, WriteFlags::default()).taken, 2920);
}

#[test]
fn fb11_fb12_the_buffer_grows_in_steps() {
    /// Size after one ACK, with `used` bytes in a buffer of 32 KiB and `unsent` of them unsent.
    fn check(window: u32, cwnd: u32, used: u64, unsent: u64, grows: bool) {
        let mut settings = bsd();
        settings.send.buffer.rule = SizeRule::FreeBsd2006 { step: 8192 };
        let reach = Reach {
            cwnd,
            window,
            mss: 1460,
            is_tight: false,
        };
        let fill = Fill {
            size: 32_768,
            used,
            unsent,
        };
        let size = freebsd_bytes(&settings.send, fill, &reach);
        assert_eq!(size, if grows { 40_960 } else { 32_768 });
    }
    check(26_216, 20, 28_672, 0, true);
    check(26_212, 20, 28_672, 0, false);
    check(65_535, 20, 28_671, 0, false);
    check(65_535, 20, 30_000, 29_200, true);
    check(65_535, 20, 30_000, 29_201, false);
    check(65_535, 1, 30_000, 10_000, false);
}

#[test]
fn fb12_fb15_one_step_per_ack_up_to_the_bound() {
    let mut settings = bsd();
    settings.send.buffer.rule = SizeRule::FreeBsd2006 { step: 8192 };
    let mut bench = Bench::new(settings.clone());
    bench.cwnd = 1000;
    bench.window = 1 << 20;
    let mut sizes = Vec::new();
    let mut acked = 0;
    for _ in 0..40 {
        while bench.offer(16_384, WriteFlags::default()).taken > 0 {
            bench.send();
        }
        acked += 1448;
        bench.ack(acked);
        sizes.push(bench.memory().sndbuf_bytes);
    }
    // One step before the first ACK, and one for each.
    let most = (2_u32..).map(|steps| 32_768 + steps * 8192);
    assert!(
        sizes.iter().zip(most).all(|(&size, most)| size <= most),
        "{sizes:?}"
    );
    assert_eq!(sizes[..2], [40_960, 57_344]);
    assert_eq!(sizes[39], 262_144);
    // FB13: an explicit size turns it off.
    let mut bench = Bench::new(fixed(settings, 32_768));
    bench.cwnd = 1000;
    bench.window = 1 << 20;
    while bench.offer(16_384, WriteFlags::default()).taken > 0 {
        bench.send();
    }
    bench.ack(1448);
    assert_eq!(bench.memory().sndbuf_bytes, 32_768);
}

/// Every size of a buffer of `FreeBSD`'s rule while all that it takes is written, and that between
/// two ACKs it never grows twice.
fn freebsd_sizes(settings: SocketSettings, window: u32) -> Vec<u32> {
    let mut bench = Bench::new(settings);
    bench.cwnd = 1000;
    bench.window = window;
    let mut sizes = vec![bench.memory().sndbuf_bytes];
    let mut acked = 0;
    for _ in 0..100 {
        let before = sizes.len();
        loop {
            let taken = bench.offer(16_384, WriteFlags::default()).taken;
            let size = bench.memory().sndbuf_bytes;
            sizes.extend((sizes.last() != Some(&size)).then_some(size));
            if taken == 0 {
                break;
            }
            bench.send();
        }
        assert!(sizes.len() <= before + 1, "FB12: {sizes:?}");
        acked += 1448;
        bench.ack(acked);
        let size = bench.memory().sndbuf_bytes;
        sizes.extend((sizes.last() != Some(&size)).then_some(size));
    }
    sizes
}

#[test]
fn f7s_f2_every_size_from_the_first_to_the_last() {
    let grown = |window, change: fn(&mut SocketSettings)| {
        let mut settings = bsd();
        settings.send.buffer.rule = SizeRule::FreeBsd2006 { step: 8192 };
        change(&mut settings);
        freebsd_sizes(settings, window)
    };
    // F7s: 28 steps of 8 KiB from 32 KiB to 256 KiB.
    let by_8k: Vec<u32> = (4..=32).map(|steps| steps * 8192).collect();
    assert_eq!(grown(1 << 20, |_| ()), by_8k);
    // F2: 65535 / 4 * 5 is 81915, below 81920, at which growth ends.
    assert_eq!(grown(65_535, |_| ()).last(), Some(&81_920));
    // FB14: 2048 less on both thresholds is a step more.
    let lowat = |settings: &mut SocketSettings| settings.send.auto_lowat = true;
    assert_eq!(grown(65_535, lowat).last(), Some(&90_112));
    // FB13: a reservation beyond what may be asked for fails, and that is the end of it.
    let bounded = |settings: &mut SocketSettings| settings.send.buffer.request_max = 100_000;
    assert_eq!(grown(1 << 20, bounded).last(), Some(&98_304));
    // FB3: off.
    let off = |settings: &mut SocketSettings| settings.send.buffer.rule = SizeRule::Fixed;
    assert_eq!(grown(1 << 20, off), [32_768]);
}

#[test]
fn winsock_takes_all_and_completes_later() {
    let mut bench = Bench::new(winsock(0));
    let outcome = bench.offer(100, WriteFlags::default());
    assert_eq!((outcome.taken, outcome.completed), (100, false));
    assert_eq!(bench.send(), "100P");
    assert_eq!(bench.hold, Some(Limit::SendBuffer));
    assert_eq!(bench.on_ack(101), 1);
    bench.send();
    assert_eq!(bench.hold, Some(Limit::Application));
}

#[test]
fn winsock_refuses_a_program_that_does_not_wait_ws40() {
    let no_wait = WriteFlags {
        no_wait: true,
        ..WriteFlags::default()
    };
    let mut bench = Bench::new(winsock(32_768));
    bench.mss = 1460;
    bench.cwnd = 100;
    assert_eq!(bench.offer(65_536, no_wait).taken, 65_536);
    assert_eq!(bench.offer(65_536, no_wait).taken, 0);
    bench.window = 1 << 20;
    // 44 full segments; the odd one waits for them.
    assert!(!bench.send().contains("1296"));
    assert_eq!(bench.ack(44 * 1460), "1296P");
    assert!(!bench.is_woken());
    bench.ack(65_536);
    assert!(bench.is_woken());
    assert_eq!(bench.offer(65_536, no_wait).taken, 65_536);
}

#[test]
fn sends_that_wait_for_completion_are_bounded() {
    let mut bench = Bench::new(winsock(0));
    let accepted = (0..2000)
        .filter(|_| bench.offer(1, WriteFlags::default()).taken == 1)
        .count();
    assert_eq!(accepted, 1024);
}
