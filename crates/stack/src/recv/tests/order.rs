//! What comes out of order, twice, or last, and what keeping it costs.

use super::*;

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
fn a_fin_in_order_ends_the_stream_before_data_behind_a_hole() {
    let mut connection = open(&linux());
    connection.data_at(0, 201, 100, false);
    // Where data is already it is a duplicate.
    assert!(!connection.fin_at(0, 250, 0).fin);
    connection.data_at(0, 1, 150, false);
    assert_eq!(connection.receiver.next(), 151);
    assert!(connection.fin_at(0, 151, 20).fin);
    assert_eq!(connection.receiver.next(), 172);
    assert_eq!(connection.blocks(), []);
    assert_eq!(connection.read_at(0, usize::MAX), stream(1, 170));
    assert!(connection.receiver.is_finished());
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
    // Small out-of-order packets: memory runs out long before the window does.
    for step in 0..100 {
        connection.data_at(0, 2001 + 200 * step, 100, true);
    }
    let stats = connection.receiver.stats().queue;
    assert!(
        stats.pruned > 0 && stats.out_of_order_drops > 0,
        "{stats:?}"
    );
    // What is missing is taken all the same, and costs the highest.
    assert!(connection.data_at(0, 1, 1000, false).accepted);
    assert!(connection.data_at(0, 1001, 1000, false).accepted);
    let stats = connection.receiver.stats().queue;
    assert!(stats.out_of_order_pruned > 0, "{stats:?}");
    assert!(connection.receiver.memory().rmem_bytes <= 65_536 + 2000);
    assert_eq!(connection.read_at(0, usize::MAX)[..2000], stream(1, 2000));
}

#[test]
fn a_queue_that_was_read_leaves_its_memory_to_the_next_one() {
    let mut spare = SpareQueue::default();
    let mut first = open(&linux());
    for start in [1, 101, 201] {
        first.data_at(0, start, 100, false);
        first.receiver.give_memory(&mut spare);
    }
    let room = first.receiver.queue.room();
    assert!(room >= 3);
    assert_eq!(first.read_at(0, usize::MAX), stream(1, 300));
    first.receiver.give_memory(&mut spare);
    assert_eq!(first.receiver.queue.room(), 0, "an idle one keeps nothing");
    // What waits in the next one moves with it.
    let mut next = open(&linux());
    next.data_at(0, 1, 100, false);
    next.receiver.take_memory(&mut spare);
    assert_eq!(next.receiver.queue.room(), room);
    next.data_at(0, 101, 100, false);
    assert_eq!(next.read_at(0, usize::MAX), stream(1, 200));
}
