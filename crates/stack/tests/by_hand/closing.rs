//! How connections end (RFC 9293 sections 3.6 and 3.10).

use base::TcpState;
use base::tcp::TcpFlags;
use tcptailor_stack::profile;
use tcptailor_stack::{Event, WriteError};

use crate::hand::{
    ACK, Bench, FIN, Peer, RST, SYN, connecting, established, flags, millis, payload_bytes, secs,
    with_mss,
};

#[test]
fn a_fin_before_the_stream_ends_nothing() {
    for (distance, length) in [(-6, 5), (-6, 3), (-1, 0), (-2, 0), (-2, 1)] {
        let (mut bench, peer, id) = established(&profile::linux_6_18());
        bench.send(peer.at(distance, ACK | FIN, &b"xxxxx"[..length]));
        assert_eq!(
            bench.state(id),
            Some(TcpState::Established),
            "{distance} {length}"
        );
        bench.send(peer.segment(ACK, b"stream"));
        assert_eq!(bench.read(id), b"stream", "{distance} {length}");
    }
}

#[test]
fn a_half_closed_connection_still_receives() {
    let (mut bench, mut peer, id) = established(&profile::linux_6_18());
    bench.write(id, b"request").unwrap();
    bench.host.shutdown(bench.now, id);
    let sent = bench.drain();
    assert!(sent.last().unwrap().flags.contains(FIN));
    peer.take(&sent);
    bench.send(peer.segment(ACK, b""));
    assert_eq!(bench.state(id), Some(TcpState::FinWait2));
    assert_eq!(bench.write(id, b"x"), Err(WriteError::Closed));
    // For as long as it takes.
    assert!(bench.pass(secs(300)).is_empty());
    bench.send(peer.segment(ACK, b"answer"));
    peer.seq += 6;
    assert_eq!(bench.read(id), b"answer");
    let sent = bench.send(peer.segment(ACK | FIN, b""));
    assert_eq!((flags(&sent), sent[0].ack), (vec![ACK], peer.seq + 1));
    assert!(bench.events(id).contains(&Event::Closed));
    // Our ACK was lost: TIME-WAIT says it again, and its time starts anew.
    bench.pass(secs(50));
    let sent = bench.send(peer.segment(ACK | FIN, b""));
    assert_eq!((flags(&sent), sent[0].ack), (vec![ACK], peer.seq + 1));
    bench.pass(secs(50));
    assert_eq!(flags(&bench.send(peer.segment(ACK | FIN, b""))), [ACK]);
    bench.pass(secs(61));
    peer.seq += 1;
    assert_eq!(flags(&bench.send(peer.segment(ACK, b""))), [RST]);
}

#[test]
fn both_close_at_once() {
    let (mut bench, mut peer, id) = established(&profile::linux_6_18());
    bench.host.shutdown(bench.now, id);
    let sent = bench.drain();
    assert_eq!(flags(&sent), [FIN | ACK]);
    // The peer's FIN does not acknowledge ours.
    let sent_again = bench.send(peer.segment(ACK | FIN, b"last"));
    assert_eq!(bench.state(id), Some(TcpState::Closing));
    assert_eq!(sent_again.last().unwrap().ack, peer.seq + 5);
    assert_eq!(bench.read(id), b"last");
    peer.take(&sent);
    peer.seq += 5;
    assert!(bench.send(peer.segment(ACK, b"")).is_empty());
    assert!(bench.events(id).contains(&Event::Closed));
    // TIME-WAIT remains.
    assert_eq!(flags(&bench.send(peer.at(-1, ACK | FIN, b""))), [ACK]);
}

#[test]
fn a_fin_that_comes_again_is_acknowledged_again() {
    let (mut bench, mut peer, id) = established(&profile::linux_6_18());
    let sent = bench.send(peer.segment(ACK | FIN, b"bye"));
    let delayed = bench.pass(millis(50));
    assert!(
        sent.iter()
            .chain(&delayed)
            .any(|sent| sent.ack == peer.seq + 4)
    );
    for _ in 0..3 {
        let sent = bench.send(peer.segment(ACK | FIN, b"bye"));
        assert_eq!((flags(&sent), sent[0].ack), (vec![ACK], peer.seq + 4));
    }
    assert_eq!(bench.read(id), b"bye");
    assert_eq!(bench.state(id), Some(TcpState::CloseWait));
    // CLOSE-WAIT still sends; then it ends.
    bench.write(id, b"thanks").unwrap();
    bench.host.close(bench.now, id);
    let sent = bench.drain();
    peer.take(&sent);
    peer.seq += 4;
    assert_eq!(payload_bytes(&sent), 6);
    assert!(bench.send(peer.segment(ACK, b"")).is_empty());
    assert_eq!(bench.host.sockets().count(), 1, "only the listener");
    assert_eq!(bench.host.poll_timeout(), None);
}

#[test]
fn an_application_that_does_not_read_resets() {
    // Unread data (RFC 2525 section 2.17).
    let (mut bench, peer, id) = established(&profile::linux_6_18());
    bench.send(peer.segment(ACK, b"unread"));
    bench.host.close(bench.now, id);
    let sent = bench.drain();
    assert_eq!((flags(&sent), sent[0].seq), (vec![RST | ACK], peer.ack));
    // Data that comes after the end.
    let (mut bench, mut peer, id) = established(&profile::linux_6_18());
    bench.host.close(bench.now, id);
    let sent = bench.drain();
    peer.take(&sent);
    bench.send(peer.segment(ACK, b""));
    let sent = bench.send(peer.segment(ACK, b"late"));
    assert!(sent[0].flags.contains(RST));
    assert_eq!(bench.host.counters().data_after_close, 1);
    // A peer that never closes is not waited for.
    let (mut bench, mut peer, id) = established(&profile::linux_6_18());
    bench.host.close(bench.now, id);
    let sent = bench.drain();
    peer.take(&sent);
    bench.send(peer.segment(ACK, b""));
    assert_eq!(bench.host.sockets().count(), 2);
    bench.pass(secs(62));
    assert_eq!(bench.host.sockets().count(), 1);
}

#[test]
fn a_new_connection_takes_over_from_time_wait() {
    let check = |is_listening: bool, distance: i32, expected: TcpFlags| {
        let profile = profile::linux_6_18();
        let (mut bench, mut peer, id) = established(&profile);
        let listener = bench.host.sockets().next().unwrap();
        bench.host.close(bench.now, id);
        let sent = bench.drain();
        peer.take(&sent);
        bench.send(peer.segment(ACK | FIN, b""));
        peer.seq += 1;
        if !is_listening {
            bench.host.close(bench.now, listener);
        }
        peer.seq += distance as u32;
        let sent = bench.send(peer.syn(with_mss(1460)));
        assert_eq!(flags(&sent), [expected], "{is_listening} {distance}");
        if expected == SYN | ACK {
            // It begins above everything that the old connection sent.
            assert!(sent[0].seq.after(peer.ack + 60_000));
            assert_eq!(bench.host.counters().time_wait_reused, 1);
        } else {
            assert_eq!(sent[0].seq, peer.ack);
        }
    };
    check(true, 1000, SYN | ACK);
    check(true, -1000, ACK);
    check(false, 1000, ACK);
}

/// RFC 9293 section 3.10.5: who is told that a connection is broken off.
#[test]
fn an_abort_is_told_to_whom_it_concerns() {
    let check = |peer_closes: bool, we_close: bool, expected: &[TcpFlags]| {
        let (mut bench, mut peer, id) = established(&profile::linux_6_18());
        if peer_closes {
            bench.send(peer.segment(ACK | FIN, b""));
            peer.seq += 1;
        }
        if we_close {
            bench.host.shutdown(bench.now, id);
        }
        bench.drain();
        bench.host.abort(bench.now, id);
        let sent = bench.drain();
        assert_eq!(flags(&sent), expected, "{peer_closes} {we_close}");
        assert_eq!(bench.host.sockets().count(), 1);
        assert!(bench.send(peer.segment(RST, b"")).is_empty());
    };
    check(false, false, &[RST | ACK]);
    check(false, true, &[RST | ACK]);
    check(true, false, &[RST | ACK]);
    check(true, true, &[]);
    // Before the handshake is over nothing is sent; a peer that answers our SYN-ACK is told then.
    let profile = profile::linux_6_18();
    let (mut bench, _, id, _) = connecting(&profile);
    bench.host.abort(bench.now, id);
    assert!(bench.drain().is_empty());
    let mut bench = Bench::new(&profile);
    let listener = bench.listen(&profile);
    let mut peer = Peer::new(4000);
    let sent = bench.send(peer.syn(with_mss(1460)));
    peer.take(&sent);
    bench.host.close(bench.now, listener);
    assert!(bench.drain().is_empty());
    assert_eq!(bench.host.sockets().count(), 0);
    peer.seq += 1;
    let sent = bench.send(peer.segment(ACK, b""));
    assert_eq!((flags(&sent), sent[0].seq), (vec![RST], peer.ack));
    // What is established and not accepted hears it at once.
    let mut bench = Bench::new(&profile);
    let listener = bench.listen(&profile);
    let mut peer = Peer::new(4000);
    peer.half_open(&mut bench, with_mss(1460));
    bench.send(peer.segment(ACK, b""));
    bench.host.close(bench.now, listener);
    let sent = bench.drain();
    assert_eq!((flags(&sent), sent[0].seq), (vec![RST | ACK], peer.ack));
    assert_eq!(bench.host.sockets().count(), 0);
}
