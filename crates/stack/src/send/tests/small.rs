//! Small writes: which segments leave, and with which flags.

use super::*;

#[test]
fn s1_s2_write_4000_twice() {
    let mut bench = Bench::new(linux());
    assert_eq!(bench.write(4000), "1448 1448P 1104P");
    assert_eq!(bench.write(4000), "1448 1448P");
    assert_eq!(bench.hold, Some(Limit::Nagle));
    bench.wait(WAIT);
    assert_eq!(bench.ack(2896), "");
    assert_eq!(bench.ack(4000), "1104P");
}

#[test]
fn s3_fifteen_writes_of_2_bytes() {
    let mut bench = Bench::new(linux());
    assert_eq!(bench.write(2), "2P");
    for _ in 0..14 {
        assert_eq!(bench.write(2), "");
    }
    assert_eq!(bench.ack(2), "28P");
}

#[test]
fn s4_fifteen_writes_of_2_bytes_without_delay() {
    let mut settings = linux();
    settings.small_writes.nagle = Nagle::Off;
    let mut bench = Bench::new(settings);
    for _ in 0..10 {
        assert_eq!(bench.write(2), "2P");
    }
    for _ in 0..5 {
        assert_eq!(bench.write(2), "");
    }
    assert_eq!(bench.hold, Some(Limit::Congestion));
    assert_eq!(bench.ack(2), "10P");
}

#[test]
fn s5_s6_a_small_segment_holds_only_small_ones() {
    let mut bench = Bench::new(linux());
    assert_eq!(bench.write(100), "100P");
    assert_eq!(bench.write(1448), "1448P");
    assert_eq!(bench.write(100), "");
    assert_eq!(bench.ack(100), "100P");

    let mut bench = Bench::new(linux());
    assert_eq!(bench.write(1448), "1448P");
    assert_eq!(bench.write(100), "100P");
    assert_eq!(bench.write(100), "");
    assert_eq!(bench.ack(1448), "");
    assert_eq!(bench.ack(1548), "100P");
}

#[test]
fn s7_s8_s9_a_cork_gives_way_to_a_timer() {
    let ms = Duration::from_millis;
    let check = |corked: bool, rto: u64, delay: u64| {
        let mut settings = linux();
        settings.small_writes.cork = corked;
        let mut bench = Bench::new(settings);
        assert_eq!(bench.write_with(10, more()), "");
        assert_eq!(bench.hold, Some(Limit::Cork));
        assert_eq!(
            bench.sender.hold_delay(&bench.progress, ms(rto)),
            Some(ms(delay))
        );
        bench.sender.release_held();
        // What was to follow did not come: it is pushed as the end of a write.
        assert_eq!(bench.send(), "10P");
        assert_eq!(bench.sender.hold_delay(&bench.progress, ms(rto)), None);
    };
    for corked in [true, false] {
        check(corked, 244, 244);
        check(corked, 204, 204);
        check(corked, 10, 200);
    }
}

#[test]
fn s7_s8_s8a_the_timer_fires_on_a_tick_and_is_set_once() {
    let ms = Duration::from_millis;
    let check = |seed: u64, rto: u64, least: u64, most: u64| {
        let tick = TickClock::new(250, 63, seed);
        let mut settings = linux();
        settings.small_writes.cork = true;
        let mut bench = Bench::new(settings);
        assert_eq!(
            bench
                .sender
                .hold_deadline(bench.now, &bench.progress, ms(rto), &tick),
            None
        );
        bench.write(10);
        let armed = bench.now;
        let deadline = bench
            .sender
            .hold_deadline(armed, &bench.progress, ms(rto), &tick)
            .unwrap();
        let delay = deadline.since(armed);
        assert!(
            ms(least) < delay && delay <= ms(most),
            "{delay:?} for an RTO of {rto} ms"
        );
        // More data, and asking again, do not set it anew.
        bench.wait(ms(100));
        bench.write(10);
        assert_eq!(
            bench
                .sender
                .hold_deadline(bench.now, &bench.progress, ms(rto), &tick),
            Some(deadline)
        );
        bench.sender.release_held();
        assert_eq!(bench.send(), "20P");
        assert_eq!(
            bench
                .sender
                .hold_deadline(bench.now, &bench.progress, ms(rto), &tick),
            None
        );
    };
    for seed in 0..50 {
        check(seed, 244, 244, 248);
        check(seed, 204, 204, 208);
        check(seed, 10, 200, 204);
    }
}

#[test]
fn s10_s11_options_release_what_is_held() {
    let mut settings = linux();
    settings.small_writes.nagle = Nagle::Off;
    settings.small_writes.cork = true;
    let mut bench = Bench::new(settings);
    assert_eq!(bench.write(10), "");
    let uncork = |settings: &mut SocketSettings| settings.small_writes.cork = false;
    assert_eq!(bench.change(uncork), "10P");

    let mut settings = linux();
    settings.small_writes.cork = true;
    let mut bench = Bench::new(settings);
    assert_eq!(bench.write(10), "");
    let no_delay = |settings: &mut SocketSettings| settings.small_writes.nagle = Nagle::Off;
    assert_eq!(bench.change(no_delay), "10P");
    // The cork is stronger than the option for what comes later.
    assert_eq!(bench.write(10), "");
    assert_eq!(bench.hold, Some(Limit::Cork));
}

#[test]
fn what_an_option_released_stays_released_while_the_window_is_closed() {
    let mut settings = linux();
    settings.small_writes.cork = true;
    let mut bench = Bench::new(settings);
    bench.window = 0;
    assert_eq!(bench.write(10), "");
    assert_eq!(
        bench.change(|settings| settings.small_writes.nagle = Nagle::Off),
        ""
    );
    assert_eq!(bench.hold, Some(Limit::PeerWindow));
    // It grows, as one packet.
    assert_eq!(bench.write(5), "");
    bench.window = 1000;
    assert_eq!(bench.send(), "15P");
}

#[test]
fn uncorking_leaves_the_tail_to_nagle() {
    let mut bench = Bench::new(linux());
    assert_eq!(bench.write(10), "10P");
    assert_eq!(
        bench.change(|settings| settings.small_writes.cork = true),
        ""
    );
    assert_eq!(bench.write(10), "");
    assert_eq!(
        bench.change(|settings| settings.small_writes.cork = false),
        ""
    );
    assert_eq!(bench.hold, Some(Limit::Nagle));
    assert_eq!(bench.ack(10), "10P");
}

#[test]
fn s12_a_cork_holds_only_the_partial_segment() {
    let mut settings = linux();
    settings.small_writes.cork = true;
    let mut bench = Bench::new(settings);
    let rto = Duration::from_millis(244);
    assert_eq!(bench.write(2000), "1448");
    assert_eq!(bench.sender.hold_delay(&bench.progress, rto), None);
    assert_eq!(bench.ack(1448), "");
    assert_eq!(bench.sender.hold_delay(&bench.progress, rto), Some(rto));
    bench.sender.release_held();
    assert_eq!(bench.send(), "552P");
}

#[test]
fn more_to_come_ends_with_an_ack_or_the_next_write() {
    let mut bench = Bench::new(linux());
    assert_eq!(bench.write(1448), "1448P");
    assert_eq!(bench.write_with(10, more()), "");
    assert_eq!(bench.send(), "", "nothing happened that would release it");
    assert_eq!(bench.ack(1448), "10");

    assert_eq!(bench.ack(1458), "");
    assert_eq!(bench.write_with(6, more()), "");
    assert_eq!(bench.write(24), "30P");
}

#[test]
fn s13_s14_sizes_by_the_largest_window() {
    let check = |window_max, mss, goal| {
        let sizes = SegmentSizes {
            mss: MSS,
            gso_max: 65_536,
            window_max,
            option_bytes: 12,
        };
        assert_eq!((sizes.bound_mss(), sizes.size_goal()), (mss, goal));
    };
    check(65_160, 1448, 31_856);
    check(1 << 20, 1448, 65_160);
    check(2000, 1000, 1000);
    check(500, 500, 500);
    check(10, 36, 36);
    check(0, 1448, 65_160);
    let sizes = SegmentSizes {
        mss: MSS,
        gso_max: 0,
        window_max: 65_160,
        option_bytes: 12,
    };
    assert_eq!(sizes.size_goal(), 1448);
}

#[test]
fn s15_s16_s17_burst_sizes() {
    let check = |bytes_per_second, min_rtt_micros, segments| {
        let path = linux().path;
        let rate = Rate::from_bytes_per_second(bytes_per_second);
        let min_rtt = Some(Duration::from_micros(min_rtt_micros));
        assert_eq!(burst_segments(&path, rate, min_rtt, MSS), segments);
    };
    check(125_000_000, 1580, 45);
    check(10_000_000, 1580, 12);
    check(1_250_000, 40_000, 2);
    check(0, 40_000, 2);
}

#[test]
fn a_part_of_a_window_is_filled_unless_nagle_holds_it() {
    // Linux: 2000 bytes of window take 1448 + 552, the rest keeps its place in the packet.
    let mut bench = Bench::new(linux());
    bench.window = 2000;
    assert_eq!(bench.write(4000), "1448 552P");
    assert_eq!(bench.hold, Some(Limit::PeerWindow));
    bench.wait(WAIT);
    assert_eq!(bench.ack(2000), "1448 552P");

    // BSD: only whole segments, or half of the largest window.
    let mut bench = Bench::new(bsd());
    bench.window = 2000;
    assert_eq!(bench.write(4000), "1448");
    assert_eq!(bench.hold, Some(Limit::PeerWindow));
    let mut bench = Bench::new(bsd());
    bench.window = 1000;
    bench.window_max = 1000;
    assert_eq!(bench.write(4000), "1000");
}

#[test]
fn classic_nagle_holds_behind_any_segment() {
    let mut bench = Bench::new(bsd());
    // FreeBSD decides once per call: all of a write to an idle connection leaves.
    assert_eq!(bench.write(3000), "1448 1448 104P");
    assert_eq!(bench.write(1448), "1448P");
    assert_eq!(bench.write(1), "");
    assert_eq!(bench.hold, Some(Limit::Nagle));
    assert_eq!(bench.ack(3000), "");
    assert_eq!(bench.ack(4448), "1P");

    // WS6, WS7: a full segment leaves, the rest waits for its acknowledgment.
    let mut bench = Bench::new(winsock(8192));
    assert_eq!(bench.write(100), "100P");
    assert_eq!(bench.ack(100), "");
    assert_eq!(bench.write(1500), "1448");
    assert_eq!(bench.write(1396), "1448P");
    assert_eq!(bench.ack(100), "");
}

#[test]
fn a_large_part_of_the_largest_window_leaves() {
    let mut settings = bsd();
    settings.small_writes.half_window = true;
    let mut bench = Bench::new(settings);
    bench.window_max = 1000;
    bench.window = 1000;
    assert_eq!(bench.write(10), "10P");
    assert_eq!(bench.write(499), "");
    assert_eq!(bench.write(1), "500P");
}

#[test]
fn without_push_only_full_segments_leave_nb29_nb30() {
    let mut settings = bsd();
    settings.small_writes.push = Push::Never;
    settings.small_writes.nagle = Nagle::Off;
    let mut bench = Bench::new(settings);
    assert_eq!(bench.write(1000), "");
    assert_eq!(bench.hold, Some(Limit::Cork));
    assert_eq!(bench.write(1000), "1448");
    assert_eq!(bench.sender.hold_delay(&bench.progress, WAIT), None);
    // N7b: the held part leaves at once when pushing begins, though something is out.
    bench.change(|settings| settings.small_writes.nagle = Nagle::Rfc896);
    assert_eq!(bench.ack(0), "");
    assert_eq!(
        bench.change(|settings| settings.small_writes.push = Push::EachWrite),
        "552P"
    );
    assert_eq!(bench.write(10), "");
    assert_eq!(bench.hold, Some(Limit::Nagle));
}

#[test]
fn without_push_a_full_buffer_is_not_a_dead_end() {
    let mut settings = bsd();
    settings.small_writes.push = Push::Never;
    settings.send.buffer.fixed = Some(1000);
    let mut bench = Bench::new(settings);
    assert_eq!(bench.write(1000), "");
    assert_eq!(bench.offer(10, WriteFlags::default()).taken, 0);
    assert_eq!(bench.send(), "1000");
    bench.ack(1000);
    assert!(bench.is_woken());
}

#[test]
fn fin_releases_the_tail_and_takes_its_place_behind_it() {
    let mut settings = linux();
    settings.small_writes.cork = true;
    let mut bench = Bench::new(settings);
    assert_eq!(bench.write(2000), "1448");
    bench.sender.close();
    assert_eq!(bench.send(), "552PF");
    assert!(bench.sender.is_drained(&bench.progress));
    assert_eq!(
        bench.offer(1, WriteFlags::default()),
        WriteOutcome::default()
    );
    assert_eq!(bench.send(), "");
    assert_eq!(bench.hold, Some(Limit::Application));

    let mut bench = Bench::new(linux());
    bench.window = 100;
    assert_eq!(bench.write(100), "100P");
    bench.sender.close();
    assert_eq!(bench.send(), "");
    assert_eq!(bench.hold, Some(Limit::PeerWindow));
    assert_eq!(bench.ack(100), "0F");
}

#[test]
fn urgent_data_leaves_at_once() {
    let mut bench = Bench::new(linux());
    assert_eq!(bench.write(2), "2P");
    let urgent = WriteFlags {
        urgent: true,
        ..WriteFlags::default()
    };
    assert_eq!(bench.write_with(1, urgent), "1PU");
    assert_eq!(bench.write(3000), "1448 1448 104P");
    assert_eq!(bench.ack(3), "");
    assert_eq!(bench.write(3), "", "no longer urgent");
}

#[test]
fn a_budget_limits_what_is_out_nb23() {
    let mut settings = bsd();
    settings.small_writes.nagle = Nagle::Off;
    settings.send.unacked_budget = Some(5 * 1460);
    let mut bench = Bench::new(settings.clone());
    bench.mss = 1460;
    assert_eq!(bench.write(10_000), "1460 1460 1460 1460 1460");
    assert_eq!(bench.hold, Some(Limit::UnackedBudget));
    assert_eq!(bench.ack(1460), "1460");

    // Each segment takes a whole buffer.
    settings.send.accounting = Accounting::Buffers {
        payload_bytes: 1460,
    };
    let mut bench = Bench::new(settings.clone());
    bench.mss = 1460;
    for _ in 0..5 {
        assert_eq!(bench.write(1), "1P");
    }
    assert_eq!(bench.write(1), "");
    assert_eq!(bench.hold, Some(Limit::UnackedBudget));
    assert_eq!(bench.sender.buffers_held(&bench.progress, 1460), 6);
    assert_eq!(bench.ack(1), "1P");

    // One segment may always be out.
    settings.send.unacked_budget = Some(100);
    let mut bench = Bench::new(settings);
    assert_eq!(bench.write(2000), "1448");
    assert_eq!(bench.ack(1448), "552P");
}

#[test]
fn a_gso_packet_waits_for_the_next_ack() {
    let mut settings = linux();
    settings.send.buffer.fixed = Some(1 << 20);
    let mut bench = Bench::new(settings);
    bench.cwnd = 100;
    bench.window = 1 << 20;
    bench.window_max = 1 << 20;
    bench.burst = 45;
    let near = |bench: &Bench, cwnd: u32| {
        let mut env = bench.env();
        env.srtt = Some(Duration::from_micros(1500));
        env.allowance = cwnd.saturating_sub(bench.packets_out());
        env
    };
    bench.offer(45 * 1448, WriteFlags::default());
    let first = bench.sender.poll_segment(&near(&bench, 100)).unwrap();
    assert_eq!(first.end - first.start, 45 * 1448);
    bench.on_sent(&first);
    bench.offer(45 * 1448, WriteFlags::default());
    bench.wait(Duration::from_micros(900));
    // 10 packets of allowance are below a third of the window, and the ACK is due in 0.6 ms.
    let held = bench.sender.poll_segment(&near(&bench, 55));
    assert_eq!(
        held,
        Err(Hold {
            limit: Limit::Congestion
        })
    );
    assert_eq!(bench.sender.stats().deferrals, 1);
    // A third of the window is worth sending.
    let env = near(&bench, 79);
    assert!(bench.sender.poll_segment(&env).is_ok());
    // So is anything 1 ms after the last packet.
    bench.wait(Duration::from_micros(200));
    assert!(bench.sender.poll_segment(&near(&bench, 55)).is_ok());
}

#[test]
fn the_local_queue_holds_packets() {
    let mut bench = Bench::new(linux());
    bench.local_queue = 100_000;
    // The first two always leave.
    assert_eq!(bench.write(1448), "1448P");
    assert_eq!(bench.write(1448), "", "autocork does not know");
    assert_eq!(bench.hold, Some(Limit::Interface));
    assert_eq!(bench.send(), "1448P");
    assert_eq!(bench.write(1448), "");
    assert_eq!(bench.hold, Some(Limit::Interface));
    bench.local_queue = 0;
    assert_eq!(bench.send(), "1448P");
}

#[test]
fn autocork_joins_small_writes_while_a_packet_is_queued() {
    let mut settings = linux();
    settings.small_writes.nagle = Nagle::Off;
    let mut bench = Bench::new(settings);
    assert_eq!(bench.write(100), "100P");
    bench.local_queue = 1100;
    assert_eq!(bench.write(50), "");
    assert_eq!(bench.hold, Some(Limit::Interface));
    assert_eq!(bench.write(50), "");
    bench.local_queue = 0;
    assert_eq!(bench.send(), "100P");
}

#[test]
fn a_probe_leaves_in_spite_of_everything_but_the_window() {
    let mut bench = Bench::new(linux());
    bench.window = 1000;
    assert_eq!(bench.write(2000), "");
    assert_eq!(bench.hold, Some(Limit::PeerWindow));
    let sizes = bench.sizes();
    let probe = bench
        .sender
        .poll_probe(&bench.progress, 1001, &sizes, NewProbe::OfWindow)
        .unwrap();
    assert_eq!((probe.start, probe.end, probe.push), (1, 1001, true));
    assert_eq!(
        bench
            .sender
            .poll_probe(&bench.progress, 1, &sizes, NewProbe::OfWindow),
        None
    );
    bench.on_sent(&probe);
    assert_eq!(bench.progress.unacked_bytes(), 1000);
    bench.window = 60_000;
    assert_eq!(bench.ack(1000), "1000P");
}

#[test]
fn a_tail_that_a_full_buffer_cut_off_is_the_buffers() {
    // Something is out already: what is written to an idle connection leaves whole.
    let mut bench = Bench::new(bsd());
    bench.cwnd = 1000;
    assert_eq!(bench.write(1448), "1448P");
    bench.offer(40_000, WriteFlags::default());
    bench.send();
    // 22 full segments are out; what is left of 32 KiB waits for the ACK that makes room.
    assert_eq!(bench.packets_out(), 22);
    assert_eq!(bench.hold, Some(Limit::SendBuffer));
    let mut bench = Bench::new(bsd());
    bench.cwnd = 1000;
    assert_eq!(bench.write(1448), "1448P");
    bench.offer(32_768 - 1448, WriteFlags::default());
    bench.send();
    assert_eq!(bench.packets_out(), 22);
    assert_eq!(bench.hold, Some(Limit::Nagle), "the writer does not wait");
}
