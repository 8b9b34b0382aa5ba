//! Zero windows and silent peers: what is probed, how often, and for how long.

use core::time::Duration;

use base::{Limit, TcpState};
use tcptailor_stack::profile;
use tcptailor_stack::{Event, Failure, SegmentOptions};

use crate::hand::{
    ACK, Bench, Peer, RST, established, established_with, flags, payload_bytes, secs, with_mss,
};

/// RFC 9293 section 3.8.6.1: probes, in intervals that double, for as long as they are answered.
#[test]
fn a_shut_window_is_probed_ever_less_often() {
    let (mut bench, mut peer, id) = established(&profile::linux_6_18());
    peer.window = 0;
    bench.send(peer.segment(ACK, b""));
    bench.write(id, b"waits").unwrap();
    assert!(bench.drain().is_empty());
    assert_eq!(bench.limit(id), Limit::PeerWindow);
    let mut gaps = Vec::new();
    let mut last = bench.now;
    while gaps.len() < 12 {
        let due = bench.host.poll_timeout().expect("a probe is due");
        let time = due.since(bench.now);
        let sent = bench.pass(time);
        if sent.is_empty() {
            continue;
        }
        assert_eq!((sent.len(), sent[0].seq), (1, peer.ack - 1));
        gaps.push(bench.now.since(last).as_millis());
        last = bench.now;
        assert!(bench.send(peer.segment(ACK, b"")).is_empty());
    }
    let doubled = gaps
        .windows(2)
        .all(|pair| pair[1] >= pair[0] * 3 / 2 || pair[1] > 100_000);
    assert!(doubled && gaps[11] < 130_000, "{gaps:?}");
    // An application waits as long as it likes.
    assert_eq!(bench.state(id), Some(TcpState::Established));
    peer.window = 1000;
    let sent = bench.send(peer.segment(ACK, b""));
    assert_eq!(payload_bytes(&sent), 5);
}

/// As Linux's `tcp_chrono` counts: the wait that goes on now, and the one that an ACK for all ends.
#[test]
fn time_with_something_to_send_is_busy_to_its_end() {
    let (mut bench, mut peer, id) = established(&profile::linux_6_18());
    bench.pass(secs(3));
    let times = |bench: &Bench| {
        let sample = bench.sample(id);
        let seconds = |time: Option<Duration>| time.expect("our stack counts it").as_secs();
        (
            seconds(sample.busy_time),
            seconds(sample.rwnd_limited_time),
            sample.send_queue_bytes,
        )
    };
    assert_eq!(times(&bench), (0, 0, Some(0)), "idle");
    peer.window = 0;
    bench.send(peer.segment(ACK, b""));
    bench.write(id, b"waits").unwrap();
    bench.pass(secs(4));
    assert_eq!(times(&bench), (4, 4, Some(5)), "unsent counts, and so far");
    peer.window = 1000;
    let sent = bench.send(peer.segment(ACK, b""));
    bench.pass(Duration::from_millis(100));
    peer.take(&sent);
    bench.send(peer.segment(ACK, b""));
    bench.pass(secs(10));
    assert_eq!(times(&bench), (4, 4, Some(0)), "nothing is left to send");
}

#[test]
fn nobody_probes_for_ever() {
    // Without answers the peer is gone.
    let (mut bench, mut peer, id) = established(&profile::linux_6_18());
    peer.window = 0;
    bench.send(peer.segment(ACK, b""));
    bench.write(id, b"waits").unwrap();
    let probes = bench.pass(secs(3 * 3600)).len();
    assert_eq!(probes, 15);
    assert_eq!(bench.events(id), [Event::Failed(Failure::TimedOut)]);
    // With answers, but without an application.
    let (mut bench, mut peer, id) = established(&profile::linux_6_18());
    peer.window = 0;
    bench.send(peer.segment(ACK, b""));
    bench.write(id, b"waits").unwrap();
    bench.host.close(bench.now, id);
    for _ in 0..3 * 3600 {
        if !bench.pass(secs(1)).is_empty() {
            bench.send(peer.segment(ACK, b""));
        }
    }
    assert_eq!(bench.host.sockets().count(), 1, "only the listener");
    // With a user timeout (RFC 5482).
    let mut profile = profile::linux_6_18();
    profile.settings.life.user_timeout = Some(secs(30));
    let (mut bench, mut peer, id) = established(&profile);
    peer.window = 0;
    bench.send(peer.segment(ACK, b""));
    bench.write(id, b"waits").unwrap();
    bench.pass(secs(120));
    assert_eq!(bench.events(id), [Event::Failed(Failure::TimedOut)]);
}

/// A peer that takes its window back (RFC 9293 section 3.8.6) is asked with the first byte only,
/// and keeps the connection while it answers.
#[test]
fn a_window_that_shrinks_is_kept_to() {
    shrink(with_mss(1460));
    // With tail-loss probes.
    shrink(SegmentOptions {
        sack_permitted: true,
        ..with_mss(1460)
    });
}

fn shrink(options: SegmentOptions) {
    let profile = profile::linux_6_18();
    let (mut bench, mut peer, id) = established_with(&profile, Peer::new(4000), options);
    bench.write(id, &[7; 14_600]).expect("there is room");
    let sent: u32 = bench.drain().iter().map(|sent| sent.payload.len()).sum();
    assert_eq!(sent, 14_600);
    peer.window = 0;
    let first = peer.ack;
    bench.send(peer.segment(ACK, b""));
    let mut retransmitted = 0;
    for _ in 0..3600 {
        for segment in bench.pass(secs(1)) {
            retransmitted += 1;
            assert_eq!(segment.seq, first, "behind the window");
            bench.send(peer.segment(ACK, b""));
        }
    }
    assert!((15..60).contains(&retransmitted), "{retransmitted}");
    assert_eq!(bench.state(id), Some(TcpState::Established));
    peer.window = 65_535;
    let mut sent = bench.send(peer.segment(ACK, b""));
    // The first byte is retransmitted when the timer fires, at the latest after its two minutes.
    for _ in 0..200 {
        peer.take(&sent);
        sent.extend(bench.send(peer.segment(ACK, b"")));
        sent.extend(bench.pass(secs(1)));
    }
    assert_eq!(peer.ack, first + 14_600);
}

/// Every profile gives a dead peer up, and leaves nothing behind.
#[test]
fn a_dead_peer_is_given_up_by_all() {
    for (name, make) in profile::PROFILES {
        let (mut bench, _, id) = established(&make());
        bench.write(id, &[1; 3000]).unwrap();
        bench.pass(secs(4 * 3600));
        assert!(
            bench.events(id).contains(&Event::Failed(Failure::TimedOut)),
            "{name}"
        );
        assert_eq!(bench.host.poll_timeout(), None, "{name}");
        bench.host.close(bench.now, id);
        assert_eq!(bench.host.sockets().count(), 1, "{name}");
    }
}

#[test]
fn keepalive_finds_a_dead_peer_and_keeps_a_live_one() {
    let mut profile = profile::linux_6_18();
    profile.settings.life.keepalive = Some(secs(60));
    profile.settings.life.keepalive_interval = secs(10);
    profile.settings.life.keepalive_probes = 3;
    let (mut bench, peer, id) = established(&profile);
    for _ in 0..20 {
        let sent = bench.pass(secs(65));
        assert_eq!(sent.len(), 1);
        assert_eq!(sent[0].seq, peer.ack - 1);
        bench.send(peer.segment(ACK, b""));
    }
    assert_eq!(bench.state(id), Some(TcpState::Established));
    let sent = bench.pass(secs(200));
    assert_eq!(flags(&sent), [ACK, ACK, ACK, RST | ACK]);
    assert_eq!(bench.events(id), [Event::Failed(Failure::TimedOut)]);
}
