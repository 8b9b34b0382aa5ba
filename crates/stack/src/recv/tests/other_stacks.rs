//! The receivers of stacks other than Linux.

use super::*;

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
    assert_eq!(connection.receiver.stats().acks.window_updates, 1);

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
    connection
        .receiver
        .configure(at(0), &Arc::new(settings.clone()));
    assert_eq!(connection.send_at(0, false), 43 * 1460);
    settings.recv.buffer.fixed = Some(100 * 1460);
    connection
        .receiver
        .configure(at(0), &Arc::new(settings.clone()));
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
    let mut receiver = Receiver::new(&Arc::new(netburner(5, 5)), clock());
    receiver.hold_window();
    assert_eq!(receiver.first_window(1460), 0);
    let agreed = Agreed {
        sack: false,
        timestamps: false,
        window_scaling: false,
        advmss: 1460,
        send_mss: 1460,
        headers: 40,
    };
    receiver.on_established(at(0), &agreed);
    assert_eq!(receiver.offer_window(at(0)), 0);
    assert_eq!(receiver.ack_wanted(), AckWanted::No);
    receiver.release_window();
    assert_eq!(receiver.ack_wanted(), AckWanted::Now);
    assert_eq!(receiver.offer_window(at(1)), 7300);
}
