//! Windows: the first one, its scale, and how it moves within the buffer (vectors B and W of
//! `docs/linux-tcp.md`).

use super::*;
use crate::recv::accounting::Buffer;

#[test]
fn w1_to_w11_first_windows_and_scales() {
    let check = |id: &str, mss, change: &dyn Fn(&mut SocketSettings), window, scale| {
        let mut settings = linux();
        change(&mut settings);
        let mut receiver = Receiver::new(&Arc::new(settings.clone()), clock());
        let offered = receiver.first_window(mss);
        assert_eq!((offered, receiver.window_scale()), (window, scale), "{id}");
        receiver
    };
    check("W1", 1460, &|_| (), 64_240, 10);
    check("W2", 1448, &|_| (), 65_160, 10);
    check("W3", 1460, &|it| it.recv.buffer.max = 6_291_456, 64_240, 7);
    check("W4", 1460, &|it| it.recv.buffer.max = 16_777_216, 64_240, 9);
    check("W5", 1460, &|it| it.options.timestamps = false, 64_240, 10);
    check("W6 SYN", 8960, &|_| (), 62_720, 10);
    check("W6 SYN-ACK", 8948, &|_| (), 62_636, 10);
    let asked = |bytes| move |it: &mut SocketSettings| it.recv.buffer.fixed = Some(bytes);
    let receiver = check("W7", 1460, &asked(200_000), 65_535, 1);
    assert_eq!(receiver.memory().rcvbuf_bytes, 200_000);
    assert_eq!(receiver.memory().rcv_ssthresh, 99_280, "W8");
    check("W9", 1448, &asked(65_536), 31_856, 0);
    let segments = |it: &mut SocketSettings| it.options.initial_window_segments = Some(4);
    check("W10", 1460, &segments, 5_840, 10);
    let clamp = |it: &mut SocketSettings| it.options.window_clamp = Some(30_000);
    check("W11", 1460, &clamp, 29_200, 0);
    let unscaled = |it: &mut SocketSettings| it.options.window_scaling = false;
    check("no scaling", 1460, &unscaled, 64_240, 0);
}

#[test]
fn b1_a_buffer_is_as_large_as_its_settings_say() {
    let check = |fixed, expected| {
        let mut settings = linux();
        settings.recv.buffer.fixed = Some(fixed);
        assert_eq!(Buffer::new(&Arc::new(settings.clone())).bytes(), expected);
    };
    check(0, 2304);
    check(200_000, 200_000);
    assert_eq!(Buffer::new(&Arc::new(linux())).bytes(), 131_072, "B1");
}

#[test]
fn w12_established() {
    let memory = open(&linux()).receiver.memory();
    assert_eq!(memory.rcv_ssthresh, 64_088);
    assert_eq!(memory.window_clamp, 64_088);
    assert_eq!(memory.space, 14_480);
    assert_eq!(memory.rcv_mss, 536);
}

#[test]
fn w13_to_w15_ratio_is_measured_on_the_first_full_segment() {
    let mut buffer = Buffer::new(&Arc::new(linux()));
    assert!(buffer.measure(1448, 2304));
    assert_eq!(buffer.ratio(), 160, "W13");
    buffer.set_for_test(131_072, 170, 0);
    assert_eq!(buffer.full(), 87_040, "W14");
    buffer.set_for_test(326_204, 170, 0);
    assert_eq!(buffer.full(), 216_619, "W15");

    let mut connection = open(&linux());
    connection.next_at(0, 1448, false);
    assert_eq!(connection.receiver.buffer.ratio(), 160, "W13");
    assert_eq!(connection.receiver.memory().window_clamp, 81_920);
    assert_eq!(connection.receiver.memory().rcv_mss, 1448);
    assert_eq!(connection.receiver.memory().rmem_bytes, 2304);
}

/// A window whose state is set as a vector wants it.
fn window_with(scale: u8, threshold: u32, full: u32, segment: u32) -> (Window, Buffer) {
    let mut settings = linux();
    settings.options.window_scaling = scale > 0;
    let mut buffer = Buffer::new(&Arc::new(settings.clone()));
    buffer.set_for_test(full * 2, 128, 0);
    let mut window = Window::new(&settings.options);
    window.select_first(1460, &buffer, &settings.options);
    window.set_for_test(scale, full, threshold, segment);
    (window, buffer)
}

#[test]
fn w16_scaled_windows_round_up() {
    let check = |free, expected| {
        let (mut window, buffer) = window_with(10, free, 4_000_000, 1448);
        window.on_offered(1, 0);
        assert_eq!(window.select(1, &buffer).bytes, expected);
    };
    check(84_150, 84_992);
    check(208_289, 208_896);
    check(622_609, 623_616);
    check(1_302_689, 1_303_552);
}

#[test]
fn w17_below_a_sixteenth_nothing_is_offered() {
    let (mut window, mut buffer) = window_with(10, 65_536, 65_536, 536);
    window.on_offered(1, 0);
    let check = |buffer: &mut Buffer, free: u32, expected| {
        buffer.set_for_test(131_072, 128, 131_072 - 2 * free);
        assert_eq!(window.select(1, buffer).bytes, expected, "free {free}");
    };
    check(&mut buffer, 4095, 0);
    check(&mut buffer, 4096, 4096);
}

/// Linux `tcp_rcvbuf_grow`, `tcp_grow_window`, `tcp_adjust_rcv_ssthresh` under `tcp_mem` pressure.
#[test]
fn a_host_short_of_memory_keeps_buffers_and_windows_small() {
    let (mut window, mut buffer) = window_with(0, 60_000, 60_000, 1460);
    window.on_offered(1, 0);
    for is_tight in [false, true] {
        buffer.set_for_test(120_000, 128, 0);
        buffer.set_tight(is_tight);
        assert_eq!(buffer.grow_to(200_000), !is_tight);
        buffer.set_for_test(120_000, 128, 80_000);
        let offered = window.select(1, &buffer).bytes;
        let expected = if is_tight { 4 * 1460 } else { 18_980 };
        assert_eq!(offered, expected, "short of memory: {is_tight}");
    }
}

#[test]
fn w18_w19_unscaled_windows_move_by_whole_segments() {
    let check = |id, free: u32, expected| {
        let (mut window, mut buffer) = window_with(0, 60_000, 60_000, 1460);
        window.on_offered(1, 14_600);
        buffer.set_for_test(120_000, 128, 120_000 - 2 * free);
        assert_eq!(window.select(1, &buffer).bytes, expected, "{id}");
    };
    check("W18", 15_500, 14_600);
    check("W19", 16_060, 16_060);
}

#[test]
fn w20_w21_the_window_grows_in_the_buffer() {
    let mut settings = linux();
    settings.recv.buffer.max = 6_291_456;
    let mut buffer = Buffer::new(&Arc::new(settings.clone()));
    buffer.set_for_test(1 << 20, 160, 0);
    let mut window = Window::new(&settings.options);
    window.select_first(1448, &buffer, &settings.options);
    window.set_for_test(7, 1 << 20, 64_088, 1448);
    assert!(window.grow(1448, 2304, &buffer));
    assert_eq!(window.threshold(), 64_088 + 2896, "W20");

    buffer.set_for_test(1 << 20, 128, 0);
    window.set_for_test(7, 1 << 20, 64_088, 536);
    assert!(window.grow(200, 1280, &buffer));
    assert_eq!(window.threshold(), 64_088 + 1072, "W21");
    window.set_for_test(7, 64_088, 64_088, 536);
    assert!(!window.grow(200, 1280, &buffer), "no room");
}

#[test]
fn a_full_buffer_closes_the_window_and_reading_opens_it() {
    let mut connection = open(&linux());
    let mut offered = u32::MAX;
    for _ in 0..100 {
        if connection.receiver.current_window() < 1448 {
            break;
        }
        connection.next_at(1000, 1448, false);
        offered = connection.send_at(1000, false);
    }
    assert!(offered < 1448, "{offered}");
    let refused = connection.data_at(2000, connection.end, 1448, true);
    assert!(refused.dropped.is_some() || connection.receiver.current_window() == 0);
    connection.read_at(3000, usize::MAX);
    assert_eq!(connection.receiver.ack_wanted(), AckWanted::Now);
    assert!(connection.send_at(3000, false) > 40_000);
}

/// The header field counts in units of 16 KiB here, of which a smaller buffer holds none.
#[test]
fn a_buffer_below_the_unit_of_windows_keeps_one_open() {
    let mut settings = bsd(262_144, 2, millis(200), Duration::ZERO);
    settings.recv.buffer.request_max = 1 << 30;
    settings.options.initial_window_segments = Some(2);
    let mut connection = open(&settings);
    assert_eq!(connection.receiver.window_scale(), 14);
    settings.recv.buffer.fixed = Some(10_050);
    let settings = Arc::new(settings);
    connection.receiver.configure(at(1), &settings);
    for packet in 1..=2 {
        connection.next_at(packet, 1448, false);
    }
    connection.read_at(3, usize::MAX);
    assert_eq!(connection.send_at(4, false), 1 << 14);
}
