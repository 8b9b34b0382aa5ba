//! Tests of the receiving half: the vectors of the Linux rules, the rules of the other stacks, and
//! properties against a naive model.

use alloc::vec::Vec;
use std::vec;

use base::settings::*;
use bytes::Bytes;
use proptest::prelude::*;

use super::accounting::Buffer;
use super::autotune::{Autotune, Wanted, wanted_window};
use super::*;

const HZ: u32 = 250;
const JIFFY: Duration = Duration::from_millis(4);

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn at(micros: u64) -> Instant {
    // Not on a tick, as the clocks of the tests have their own phase.
    Instant::from_nanos(1_000_000_000 + micros * 1000)
}

const ENV: Env = Env {
    srtt: Some(Duration::from_micros(40_200)),
    rto: Duration::from_millis(244),
};

/// The profile of the reference machine, as far as receiving goes.
// tidy: long because every setting is named
fn linux() -> SocketSettings {
    let buffer = |initial, max| BufferSize {
        min: 4096,
        initial,
        max,
        request_max: 4_194_304,
        fixed: None,
        rule: SizeRule::Linux(LinuxVersion::V6_18),
    };
    SocketSettings {
        small_writes: SmallWrites {
            nagle: Nagle::Minshall,
            half_window: false,
            push: Push::EachWrite,
            cork: false,
            cork_ceiling: Some(millis(200)),
            autocork: true,
        },
        acks: Acks {
            every: AckEvery::MoreThanSegments(1),
            delay: millis(40),
            delay_min: millis(40),
            delay_max: millis(200),
            timer_tick: Duration::ZERO,
            quick_max: 16,
            pingpong_threshold: 1,
            on_read: true,
            always_quick: false,
            compress: Some(SackCompression {
                delay_max: millis(1),
                rtt_percent: 5,
                count_max: 44,
            }),
            window_update_segments: None,
            challenge_per_second: 2,
        },
        send: SendMemory {
            buffer: buffer(16_384, 4_194_304),
            accounting: Accounting::Truesize { ratio: 170 },
            completion: Completion::Linux,
            unacked_budget: None,
            notsent_lowat: None,
        },
        recv: RecvMemory {
            buffer: buffer(131_072, 33_554_432),
            accounting: Accounting::Truesize { ratio: 170 },
            out_of_order_budget: None,
        },
        options: Options {
            window_scaling: true,
            timestamps: true,
            sack: true,
            dsack: true,
            ecn: Ecn::Accept,
            mss: None,
            default_mss: 536,
            initial_window_segments: None,
            window_clamp: None,
            accept_window_zero: false,
        },
        recovery: Recovery {
            detection: Detection::Rack,
            dupack_threshold: 3,
            tail_loss_probe: true,
            prr: true,
            frto: true,
            undo: true,
            limited_transmit: true,
            rto_initial: millis(1000),
            rto_min: millis(200),
            rto_max: millis(120_000),
            rto_rule: RtoRule::Linux,
        },
        congestion: Congestion {
            name: CongestionName::Cubic,
            hystart: HyStart::Classic,
            initial_window: 10,
            slow_start_after_idle: true,
            validation: Validation::Linux,
            pacing: false,
            pacing_rate_max: None,
            pacing_ss_percent: 200,
            pacing_ca_percent: 120,
            byte_counting: true,
        },
        path: Path {
            pmtu_discovery: true,
            mtu_probing: MtuProbing::Off,
            mtu_base: 1064,
            gso_max: 65_536,
            tso_min_segments: 2,
            tso_rtt_log: 9,
            tso_win_divisor: 3,
            local_queue_max: 4_194_304,
            hop_limit: 64,
        },
        life: Life {
            syn_retries: 6,
            syn_linear_timeouts: 4,
            synack_retries: 5,
            retries: 15,
            retries_timeout: None,
            user_timeout: None,
            keepalive: None,
            keepalive_interval: Duration::from_secs(75),
            keepalive_probes: 9,
            fin_timeout: Duration::from_secs(60),
            time_wait: Duration::from_secs(60),
            time_wait_reuse: true,
            unreachable_ends_opening: false,
        },
    }
}

/// Payload counts, the window is the free space, ACKs by number of packets.
fn bsd(buffer: u32, every: u32, timer: Duration, timer_tick: Duration) -> SocketSettings {
    let mut settings = linux();
    settings.recv.accounting = Accounting::Payload;
    settings.recv.buffer.initial = buffer;
    settings.recv.buffer.max = 262_144;
    settings.recv.buffer.request_max = 262_144;
    settings.recv.buffer.rule = SizeRule::Fixed;
    settings.acks = Acks {
        every: AckEvery::Packets(every),
        delay: timer,
        delay_min: timer,
        delay_max: timer,
        timer_tick,
        quick_max: 0,
        pingpong_threshold: 0,
        on_read: false,
        always_quick: false,
        compress: None,
        window_update_segments: Some(2),
        challenge_per_second: 10,
    };
    settings
}

fn netburner(receive: u32, out_of_order: u32) -> SocketSettings {
    let mut settings = bsd(receive * 1460, 2, millis(200), Duration::ZERO);
    settings.recv.accounting = Accounting::Buffers {
        payload_bytes: 1460,
    };
    settings.recv.out_of_order_budget = Some(out_of_order * 1460);
    settings.options.window_scaling = false;
    settings
}

fn clock() -> TickClock {
    TickClock::new(HZ, 63, 1)
}

/// A receiver, with what a connection does around it.
struct Connection {
    receiver: Receiver,
    end: u64,
}

fn open(settings: &SocketSettings) -> Connection {
    open_with(settings, 1448)
}

fn open_with(settings: &SocketSettings, mss: u32) -> Connection {
    let mut receiver = Receiver::new(settings, clock());
    receiver.first_window(mss);
    receiver.on_established(
        at(0),
        &Agreed {
            sack: settings.options.sack,
            timestamps: settings.options.timestamps,
            window_scaling: settings.options.window_scaling,
            advmss: mss,
            send_mss: mss,
        },
    );
    Connection { receiver, end: 1 }
}

/// The stream whose byte at offset n is n in base 251.
fn stream(start: u64, length: u32) -> Bytes {
    (start..start + u64::from(length))
        .map(|offset| (offset % 251) as u8)
        .collect::<Vec<_>>()
        .into()
}

fn segment(start: u64, length: u32, push: bool) -> DataInput {
    DataInput {
        start,
        payload: Payload::from(stream(start, length)),
        segment_bytes: length,
        push,
        fin: false,
        ce: false,
        timestamp_echo: None,
        timestamp_rtt: None,
    }
}

impl Connection {
    fn data_at(&mut self, micros: u64, start: u64, length: u32, push: bool) -> DataOutcome {
        let segment = segment(start, length, push);
        self.receiver.handle_data(at(micros), segment, &ENV)
    }

    /// The next `length` bytes arrive; what is wanted then.
    fn next_at(&mut self, micros: u64, length: u32, push: bool) -> AckWanted {
        let start = self.end;
        self.end += u64::from(length);
        self.data_at(micros, start, length, push);
        self.receiver.ack_wanted()
    }

    fn fin_at(&mut self, micros: u64, start: u64, length: u32) -> DataOutcome {
        let mut segment = segment(start, length, true);
        segment.fin = true;
        self.receiver.handle_data(at(micros), segment, &ENV)
    }

    fn send_at(&mut self, micros: u64, has_data: bool) -> u32 {
        let window = self.receiver.offer_window(at(micros));
        self.receiver.on_segment_sent(at(micros), has_data, &ENV);
        window
    }

    fn read_at(&mut self, micros: u64, max: usize) -> Vec<u8> {
        self.receiver.read(at(micros), max, &ENV).to_vec()
    }

    /// Lets the timers run until `micros`; when ACKs left.
    fn run_until(&mut self, micros: u64) -> Vec<Instant> {
        let mut left = Vec::new();
        loop {
            match self.receiver.ack_wanted() {
                AckWanted::At(due) if due <= at(micros) => {
                    self.receiver.on_ack_timeout(due, &ENV);
                    assert_eq!(self.receiver.ack_wanted(), AckWanted::Now);
                    self.receiver.offer_window(due);
                    self.receiver.on_segment_sent(due, false, &ENV);
                    left.push(due);
                }
                AckWanted::At(_) | AckWanted::No | AckWanted::Now => return left,
            }
        }
    }

    fn blocks(&self) -> Vec<(u64, u64)> {
        self.receiver.sack_blocks(4).to_vec()
    }
}

// Windows (16.2).

#[test]
fn w1_to_w11_first_windows_and_scales() {
    let check = |id: &str, mss, change: &dyn Fn(&mut SocketSettings), window, scale| {
        let mut settings = linux();
        change(&mut settings);
        let mut receiver = Receiver::new(&settings, clock());
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
        assert_eq!(Buffer::new(&settings.recv).bytes(), expected);
    };
    check(0, 2304);
    check(200_000, 200_000);
    assert_eq!(Buffer::new(&linux().recv).bytes(), 131_072, "B1");
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
    let mut buffer = Buffer::new(&linux().recv);
    assert!(buffer.measure(1448, 2304));
    assert_eq!(buffer.ratio(), 160, "W13");
    buffer.set_for_test(131_072, 170, 0);
    assert_eq!(buffer.full(), 87_040, "W14");
    buffer.set_for_test(326_204, 170, 0);
    assert_eq!(buffer.full(), 216_619, "W15");

    let mut connection = open(&linux());
    connection.next_at(0, 1448, false);
    assert_eq!(connection.receiver.buffer.ratio(), 170);
    assert_eq!(connection.receiver.memory().window_clamp, 87_040);
    assert_eq!(connection.receiver.memory().rcv_mss, 1448);
    assert_eq!(connection.receiver.memory().rmem_bytes, 2180);
}

/// A window whose state is set as a vector wants it.
fn window_with(scale: u8, threshold: u32, full: u32, segment: u32) -> (Window, Buffer) {
    let mut settings = linux();
    settings.options.window_scaling = scale > 0;
    let mut buffer = Buffer::new(&settings.recv);
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
    let mut buffer = Buffer::new(&settings.recv);
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
    assert!(!window.grow(127, 768, &buffer), "too small");
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

// Receive autotuning (16.3).

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

// ACKs (16.5).

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
    assert_eq!(connection.receiver.stats().quick_acks, 16);
    assert_eq!(connection.receiver.stats().delayed_acks, 24);
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
    let env = Env { srtt: None, ..ENV };
    let data = segment(connection.end, 10, false);
    connection.receiver.handle_data(at(1001), data, &env);
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
        assert_eq!(connection.receiver.stats().compressed_acks, 43);
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

#[test]
fn a_fin_is_reached_behind_all_data_and_duplicates_are_answered() {
    let mut connection = open(&linux());
    let outcome = connection.fin_at(0, 101, 50);
    assert!(outcome.out_of_order && !outcome.fin);
    let outcome = connection.data_at(100, 1, 100, false);
    assert!(outcome.fin && outcome.readable);
    assert_eq!(connection.receiver.next(), 152);
    connection.send_at(100, false);
    assert!(connection.fin_at(200, 151, 0).duplicate);
    assert_eq!(connection.receiver.ack_wanted(), AckWanted::Now);
    assert!(!connection.receiver.is_finished());
    assert_eq!(connection.read_at(300, usize::MAX), stream(1, 150));
    assert!(connection.receiver.is_finished());
    let behind = connection.data_at(400, 152, 10, false);
    assert_eq!(behind.dropped, Some(DropReason::BehindFin));
}

#[test]
fn a_fin_in_the_middle_of_data_is_ignored() {
    let mut connection = open(&linux());
    connection.data_at(0, 201, 100, false);
    assert!(!connection.fin_at(0, 1, 100).fin);
    connection.data_at(0, 101, 100, false);
    assert_eq!(connection.receiver.next(), 301);
    assert!(connection.fin_at(0, 301, 0).fin);
}

#[test]
fn blocks_name_the_latest_range_first_and_duplicates_once() {
    let mut connection = open(&linux());
    connection.data_at(0, 101, 100, false);
    connection.data_at(0, 301, 100, false);
    connection.data_at(0, 501, 100, false);
    assert_eq!(connection.blocks(), [(501, 601), (301, 401), (101, 201)]);
    connection.data_at(0, 201, 50, false);
    assert_eq!(connection.blocks(), [(101, 251), (501, 601), (301, 401)]);
    // RFC 2883: the duplicate first, then the block that holds it.
    connection.data_at(0, 301, 100, false);
    assert_eq!(
        connection.blocks(),
        [(301, 401), (301, 401), (101, 251), (501, 601)]
    );
    connection.send_at(0, false);
    assert_eq!(connection.blocks(), [(301, 401), (101, 251), (501, 601)]);
    connection.data_at(0, 201, 100, false);
    assert_eq!(connection.blocks()[0], (201, 251), "the part that was here");
    connection.send_at(0, false);
    connection.data_at(0, 1, 100, false);
    assert_eq!(connection.blocks(), [(501, 601)]);
    assert_eq!(connection.receiver.next(), 401);
    connection.data_at(0, 1, 50, false);
    assert_eq!(connection.blocks()[0], (1, 51));
}

// Other stacks.

#[test]
fn ws1_to_ws5_every_second_packet_or_the_timer() {
    let settings = bsd(17_520, 2, millis(200), millis(100));
    let mut connection = open(&settings);
    let AckWanted::At(due) = connection.next_at(0, 100, true) else {
        panic!("no timer");
    };
    // WS1, WS38: on a tick of 100 ms, at most 200 ms later; WS5: a read does not help.
    assert!(due.since(at(0)) <= millis(200) && due.since(at(0)) > millis(100));
    assert_eq!(due.as_nanos() % 100_000_000, 0);
    connection.read_at(100, usize::MAX);
    assert_eq!(connection.receiver.ack_wanted(), AckWanted::At(due));
    // WS2: the second packet.
    assert_eq!(connection.next_at(1000, 100, true), AckWanted::Now);
    connection.send_at(1000, false);
    assert_eq!(connection.receiver.ack_wanted(), AckWanted::No);
    // WS3: own data carries it.
    connection.next_at(2000, 100, true);
    connection.send_at(2100, true);
    assert_eq!(connection.receiver.ack_wanted(), AckWanted::No);
    // WS4: the timer.
    connection.next_at(3000, 100, true);
    assert_eq!(connection.run_until(400_000).len(), 1);
}

#[test]
fn ws36_ws39_the_frequency_is_data() {
    let check = |every: u32| {
        let mut connection = open(&bsd(65_536, every, millis(200), millis(100)));
        let mut count = 0;
        while connection.next_at(1, 100, true) != AckWanted::Now {
            count += 1;
        }
        assert_eq!(count + 1, every.max(1));
    };
    for every in [0, 1, 2, 5, 13] {
        check(every);
    }
}

#[test]
fn every_duplicate_ack_leaves_where_none_are_merged() {
    let mut connection = open(&bsd(65_536, 2, millis(100), Duration::ZERO));
    for step in 0..20 {
        connection.data_at(1, 2001 + 100 * step, 100, false);
        assert_eq!(connection.receiver.ack_wanted(), AckWanted::Now);
        connection.send_at(1, false);
    }
    connection.data_at(1, 1, 100, false);
    assert_eq!(
        connection.receiver.ack_wanted(),
        AckWanted::Now,
        "part of a gap"
    );
}

#[test]
fn fb31_window_updates() {
    // Two segments and a quarter of the buffer.
    let mut connection = open(&bsd(65_536, 2, millis(100), Duration::ZERO));
    for step in 0..20 {
        connection.next_at(step, 1448, false);
        connection.send_at(step, false);
    }
    let mut reads = 0;
    while connection.receiver.ack_wanted() != AckWanted::Now {
        assert_eq!(connection.read_at(100, 1448).len(), 1448);
        reads += 1;
    }
    assert_eq!(reads, 12, "17376 bytes are the first above 16384");
    assert_eq!(connection.receiver.stats().window_updates, 1);

    // A small buffer: two segments are enough.
    let mut connection = open(&bsd(8 * 1448, 2, millis(100), Duration::ZERO));
    for step in 0..6 {
        connection.next_at(step, 1448, false);
        connection.send_at(step, false);
    }
    connection.read_at(100, 1448);
    assert_eq!(connection.receiver.ack_wanted(), AckWanted::No);
    connection.read_at(100, 1448);
    assert_eq!(connection.receiver.ack_wanted(), AckWanted::Now);
}

#[test]
fn nb17_nb18_the_window_is_free_buffers() {
    let mut connection = open_with(&netburner(5, 5), 1460);
    assert_eq!(connection.receiver.current_window(), 7300);
    connection.next_at(0, 1460, false);
    assert_eq!(connection.send_at(0, false), 4 * 1460);
    // A small packet takes a whole buffer, yet what was offered stays offered.
    connection.next_at(0, 10, true);
    assert_eq!(connection.send_at(0, false), 4 * 1460 - 10);
    assert_eq!(connection.receiver.buffers_held(1548), 2);
    connection.read_at(0, usize::MAX);
    assert_eq!(connection.receiver.buffers_held(1548), 0);
    assert_eq!(connection.send_at(0, false), 7300);
    // NB18: more buffers at run time; NB14: never more than the field holds.
    let mut settings = netburner(5, 5);
    settings.recv.buffer.fixed = Some(43 * 1460);
    connection.receiver.configure(at(0), &settings);
    assert_eq!(connection.send_at(0, false), 43 * 1460);
    settings.recv.buffer.fixed = Some(100 * 1460);
    connection.receiver.configure(at(0), &settings);
    assert_eq!(connection.send_at(0, false), 65_535);
}

#[test]
fn nb16_small_packets_use_up_the_buffers() {
    let mut connection = open_with(&netburner(5, 5), 1460);
    for step in 0..5 {
        assert!(connection.data_at(0, 1 + step, 1, true).accepted);
        connection.send_at(0, false);
    }
    let refused = connection.data_at(0, 6, 1, true);
    assert_eq!(refused.dropped, Some(DropReason::BufferFull));
    assert_eq!(connection.receiver.ack_wanted(), AckWanted::Now);
    // What was offered stays offered, though there is no buffer for it.
    assert_eq!(connection.send_at(0, false), 7300 - 5);
    assert_eq!(connection.read_at(0, usize::MAX), stream(1, 5));
    assert_eq!(connection.send_at(0, false), 7300);
}

#[test]
fn nb19_out_of_order_buffers() {
    let mut connection = open_with(&netburner(10, 3), 1460);
    let kept = |connection: &mut Connection, index: u64| {
        let start = 1 + 1460 * index;
        connection.data_at(0, start, 1460, false).accepted
    };
    assert!(kept(&mut connection, 1) && kept(&mut connection, 2) && kept(&mut connection, 4));
    let refused = connection.data_at(0, 1 + 1460 * 5, 1460, false);
    assert_eq!(refused.dropped, Some(DropReason::OutOfOrderFull));
    assert!(kept(&mut connection, 0));
    assert_eq!(connection.receiver.next(), 1 + 3 * 1460);
    assert!(kept(&mut connection, 5), "two are free again");
}

#[test]
fn a_window_that_is_held_until_accept() {
    let mut receiver = Receiver::new(&netburner(5, 5), clock());
    receiver.hold_window();
    assert_eq!(receiver.first_window(1460), 0);
    let agreed = Agreed {
        sack: false,
        timestamps: false,
        window_scaling: false,
        advmss: 1460,
        send_mss: 1460,
    };
    receiver.on_established(at(0), &agreed);
    assert_eq!(receiver.offer_window(at(0)), 0);
    assert_eq!(receiver.ack_wanted(), AckWanted::No);
    receiver.release_window();
    assert_eq!(receiver.ack_wanted(), AckWanted::Now);
    assert_eq!(receiver.offer_window(at(1)), 7300);
}

#[test]
fn single_bytes_do_not_pile_up_packets() {
    let mut connection = open(&bsd(262_144, 2, millis(100), Duration::ZERO));
    for _ in 0..50_000 {
        connection.next_at(0, 1, true);
    }
    let packets = connection.receiver.queue.ready_packets();
    assert!(packets <= 262_144 / 256 + 32, "{packets}");
    assert_eq!(connection.read_at(0, usize::MAX), stream(1, 50_000));
    for step in 0..5000 {
        connection.data_at(0, 60_001 + 2 * step, 1, true);
    }
    let packets = connection.receiver.queue.range_packets();
    assert!(packets <= 262_144 / 256 + 32, "{packets}");
}

#[test]
fn a_full_linux_buffer_is_collapsed_and_pruned() {
    let mut settings = linux();
    settings.recv.buffer.fixed = Some(65_536);
    let mut connection = open(&settings);
    // Small packets behind a gap: memory runs out long before the window does.
    for step in 0..100 {
        connection.data_at(0, 2001 + 200 * step, 100, true);
    }
    let stats = *connection.receiver.stats();
    assert!(
        stats.pruned > 0 && stats.out_of_order_drops > 0,
        "{stats:?}"
    );
    // What is missing is taken all the same, and costs the highest.
    assert!(connection.data_at(0, 1, 1000, false).accepted);
    assert!(connection.data_at(0, 1001, 1000, false).accepted);
    let stats = connection.receiver.stats();
    assert!(stats.out_of_order_pruned > 0, "{stats:?}");
    assert!(connection.receiver.memory().rmem_bytes <= 65_536 + 2000);
    assert_eq!(connection.read_at(0, usize::MAX)[..2000], stream(1, 2000));
}

// Properties.

#[derive(Clone, Debug)]
enum Step {
    /// Bytes at a distance from the next one, backwards or forwards.
    Data(i64, u32, bool),
    Read(usize),
    Send,
    Wait(u64),
    Resize(u32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (-3000_i64..6000, 1_u32..3000, any::<bool>())
            .prop_map(|(distance, length, push)| Step::Data(distance, length, push)),
        6 => (1_u32..3000, any::<bool>()).prop_map(|(b, c)| Step::Data(0, b, c)),
        2 => (0_usize..20_000).prop_map(Step::Read),
        5 => Just(Step::Send),
        1 => (0_u64..300_000).prop_map(Step::Wait),
        1 => (1000_u32..100_000).prop_map(Step::Resize),
    ]
}

fn any_settings() -> impl Strategy<Value = SocketSettings> {
    prop_oneof![
        Just(linux()),
        Just({
            let mut small = linux();
            small.recv.buffer.fixed = Some(16_384);
            small
        }),
        Just(bsd(16_384, 2, millis(100), Duration::ZERO)),
        Just(netburner(5, 4)),
    ]
}

proptest! {
    #[test]
    fn bytes_are_conserved_windows_kept_and_memory_bounded(
        settings in any_settings(),
        steps in prop::collection::vec(step(), 1..100),
    ) {
        let mut settings = settings;
        let mut connection = open(&settings);
        let mut received = vec![false; 2 << 20];
        let (mut read, mut micros, mut edge) = (1_u64, 0, connection.receiver.window_end());
        let mut largest = connection.receiver.memory().rcvbuf_bytes;
        for step in steps {
            micros += 7;
            match step {
                Step::Data(distance, length, push) => {
                    let start = (connection.receiver.next() as i64 + distance).max(1) as u64;
                    let before = connection.receiver.next();
                    let end = (start + u64::from(length)).min(connection.receiver.window_end());
                    let outcome = connection.data_at(micros, start, length, push);
                    if outcome.accepted {
                        received[start as usize..end as usize].fill(true);
                    }
                    let advanced = connection.receiver.next() > before;
                    prop_assert_eq!(outcome.readable, advanced);
                    prop_assert!(all_of(&received, before, connection.receiver.next()));
                    if outcome.accepted && start <= before {
                        prop_assert!(connection.receiver.next() >= end);
                    }
                    prop_assert_ne!(connection.receiver.ack_wanted(), AckWanted::No);
                }
                Step::Read(max) => {
                    let taken = connection.read_at(micros, max);
                    prop_assert_eq!(&taken[..], &stream(read, taken.len() as u32)[..]);
                    read += taken.len() as u64;
                }
                Step::Send => {
                    connection.send_at(micros, push_of(micros));
                    prop_assert_eq!(connection.receiver.ack_wanted(), AckWanted::No);
                }
                Step::Wait(wait) => {
                    micros += wait;
                    connection.run_until(micros);
                }
                Step::Resize(bytes) => {
                    settings.recv.buffer.fixed = Some(bytes);
                    connection.receiver.configure(at(micros), &settings);
                }
            }
            let receiver = &connection.receiver;
            prop_assert!(receiver.window_end() >= edge);
            edge = receiver.window_end();
            prop_assert_eq!(receiver.next(), read + receiver.unread_bytes());
            let memory = receiver.memory();
            largest = largest.max(memory.rcvbuf_bytes);
            // One packet too many in each queue; whole buffers round up.
            prop_assert!(memory.rmem_bytes <= 2 * largest + 12_000, "{memory:?}");
            if receiver.buffer.is_truesize() {
                prop_assert!(memory.rmem_bytes <= largest + 2 * 6000, "{memory:?}");
            }
        }
        check_blocks(&connection.receiver, &received)?;
    }
}

fn push_of(micros: u64) -> bool {
    micros.is_multiple_of(2)
}

/// Every block is data that came, that is not in order, and that was not named before.
fn check_blocks(receiver: &Receiver, received: &[bool]) -> Result<(), TestCaseError> {
    let blocks = receiver.queue.blocks(4);
    for (index, &(start, end)) in blocks.iter().enumerate() {
        prop_assert!(start > receiver.next() && start < end);
        prop_assert!(all_of(received, start, end));
        prop_assert!(blocks[..index].iter().all(|&(other, _)| other != start));
    }
    prop_assert_eq!(receiver.has_out_of_order(), receiver.queue.span() > 0);
    Ok(())
}

fn all_of(received: &[bool], start: u64, end: u64) -> bool {
    received[start as usize..end as usize].iter().all(|it| *it)
}
