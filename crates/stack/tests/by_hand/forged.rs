//! What is believed of a segment or a report that may be forged or old (RFC 5961, RFC 7323,
//! RFC 5927).

use base::TcpState;
use tcptailor_stack::profile;
use tcptailor_stack::{Event, Failure, IcmpKind, SocketId, Timestamps};

use crate::hand::{
    ACK, Bench, Peer, RST, SYN, established, established_with, flags, secs, with_mss,
};

/// A connection with timestamps; the peer's clock shows 10000.
fn with_clocks() -> (Bench, Peer, SocketId) {
    let peer = Peer::with_clock(4000, 10_000);
    established_with(&profile::linux_6_18(), peer, with_mss(1460))
}

/// RFC 5961 section 3, and what a timestamp has to do with it (RFC 7323 section 5.2).
#[test]
fn which_resets_count() {
    let check = |distance: i32, with_old_clock: bool, resets: bool, answers: usize| {
        let (mut bench, mut peer, id) = with_clocks();
        if with_old_clock {
            peer.timestamps = Some(Timestamps { value: 1, echo: 0 });
        }
        let sent = bench.send(peer.at(distance, RST, b""));
        let what = format!("{distance}, old clock: {with_old_clock}");
        assert_eq!(flags(&sent), vec![ACK; answers], "{what}");
        let expected = if resets {
            vec![Event::Failed(Failure::Reset)]
        } else {
            vec![]
        };
        assert_eq!(bench.events(id), expected, "{what}");
    };
    check(0, false, true, 0);
    check(0, true, true, 0);
    check(1, false, false, 1);
    check(60_000, false, false, 1);
    check(-1, false, false, 0);
    check(1 << 30, false, false, 0);
}

#[test]
fn a_syn_on_a_connection_is_questioned_and_changes_nothing() {
    let (mut bench, peer, id) = established(&profile::linux_6_18());
    for (round, distance) in [0, 1, -1, -5000, 100_000, 1 << 30].into_iter().enumerate() {
        let sent = bench.send(peer.at(distance, SYN, b""));
        assert_eq!(flags(&sent), [ACK], "{distance}");
        assert_eq!((sent[0].seq, sent[0].ack), (peer.ack, peer.seq));
        assert_eq!(bench.host.counters().syn_challenges, 1 + round as u64);
        bench.pass(secs(1));
    }
    assert_eq!(bench.state(id), Some(TcpState::Established));
}

#[test]
fn an_old_clock_makes_a_segment_old() {
    let (mut bench, mut peer, id) = with_clocks();
    let fresh = peer.clone();
    peer.timestamps = Some(Timestamps {
        value: 1000,
        echo: 0,
    });
    let sent = bench.send(peer.segment(ACK, b"forged"));
    assert_eq!((flags(&sent), sent[0].ack), (vec![ACK], peer.seq));
    assert_eq!(bench.read(id), b"");
    assert_eq!(bench.host.counters().paws_rejected, 1);
    bench.send(fresh.segment(ACK, b"right"));
    assert_eq!(bench.read(id), b"right");
}

/// RFC 7323 section 5.3 answers each; bare ACKs only as often as other forgeries (Linux
/// `tcp_oow_rate_limited`). Written down before the first run: two at one moment, and no byte kept.
#[test]
fn old_clocks_are_a_flood_without_effect() {
    let (mut bench, mut peer, id) = with_clocks();
    let fresh = peer.clone();
    let before = bench.host.memory_bytes();
    let mut answers = [0, 0];
    for step in 0..3000_u32 {
        peer.timestamps = Some(Timestamps {
            value: step,
            echo: 0,
        });
        answers[0] += bench.send(peer.segment(ACK, b"")).len();
        let distance = (step % 60_000) as i32;
        answers[1] += bench.send(peer.at(distance, ACK, b"forged")).len();
    }
    assert!(answers[0] <= 2, "{answers:?}");
    assert!(answers[1] <= 3000, "{answers:?}");
    assert_eq!(bench.host.memory_bytes(), before);
    assert_eq!(bench.read(id), b"");
    bench.send(fresh.segment(ACK, b"right"));
    assert_eq!(bench.read(id), b"right");
}

/// RFC 5927 section 7.2 doubts a report below what has passed; nothing of that size has.
#[test]
fn a_router_is_believed_before_full_segments_have_passed() {
    let mut profile = profile::linux_6_18();
    profile.settings.small_writes.nagle = base::settings::Nagle::Off;
    profile.settings.path.pmtu_confirm = true;
    let (mut bench, mut peer, id) = established(&profile);
    bench.write(id, b"small").unwrap();
    let sent = bench.drain();
    peer.take(&sent);
    bench.send(peer.segment(ACK, b""));
    bench.write(id, &[3; 8000]).unwrap();
    bench.drain();
    let mss = |bench: &Bench| bench.sample(id).snd_mss_bytes;
    assert_eq!(mss(&bench), Some(1460));
    let sent = bench.send_error(IcmpKind::TooBig { mtu: 1200 }, &peer, peer.ack);
    assert_eq!(mss(&bench), Some(1160));
    assert!(
        !sent.is_empty()
            && sent
                .iter()
                .all(|sent| sent.payload.len() <= 1160 || sent.gso_size == 1160)
    );
    peer.take(&sent);
    let sent = bench.send(peer.segment(ACK, b""));
    peer.take(&sent);
    bench.send(peer.segment(ACK, b""));
    bench.write(id, &[3; 8000]).unwrap();
    let sent = bench.drain();
    peer.take(&sent);
    bench.send(peer.segment(ACK, b""));
    // Now such segments have passed: a forger has to wait for a timeout.
    bench.write(id, &[3; 8000]).unwrap();
    bench.drain();
    bench.send_error(IcmpKind::TooBig { mtu: 600 }, &peer, peer.ack);
    assert_eq!(mss(&bench), Some(1160));
}

/// After 24 days without a timestamp clocks may have wrapped: the next one is believed, whatever it
/// is, and echoed (RFC 7323 section 5.5).
#[test]
fn an_outdated_timestamp_is_replaced() {
    let (mut bench, mut peer, id) = with_clocks();
    bench.pass(secs(25 * 24 * 3600));
    peer.timestamps = Some(Timestamps { value: 7, echo: 0 });
    bench.send(peer.segment(ACK, b"x"));
    peer.seq += 1;
    bench.send(peer.segment(ACK, b"y"));
    assert_eq!(bench.read(id), b"xy");
    let taken = bench.write(id, b"z");
    assert_eq!(taken, Ok(1));
    let sent = bench.drain();
    let echo = sent[0].options.timestamps.expect("they were agreed").echo;
    assert_eq!(echo, 7);
}
