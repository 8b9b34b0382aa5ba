//! How connections begin, end and defend themselves, against a peer that is made by hand
//! (RFC 9293 section 3.10.7, RFC 5961, RFC 7323).

mod hand;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use base::tcp::TcpFlags;
use base::{Instant, KnobValue, Limit, SeqNum, TcpState};
use hand::{
    ACK, Bench, FIN, HOST, PEER, PORT, Peer, RST, SYN, established, millis, secs, with_mss,
};
use stack::profile::{self, Profile};
use stack::{
    EcnMark, Event, Failure, IcmpKind, ListenOptions, Segment, SegmentOptions, SocketId,
    Timestamps, Trace, TraceEvent, WriteError, WriteFlags,
};

/// A host that has sent a SYN to the peer.
fn connecting(profile: &Profile) -> (Bench, Peer, SocketId, Segment) {
    let mut bench = Bench::new(profile);
    let remote = SocketAddr::new(PEER, 4000);
    let id = bench
        .host
        .connect(bench.now, remote, profile.settings.clone())
        .expect("a connection knows it");
    let syn = bench.drain().remove(0);
    let mut peer = Peer::new(4000);
    peer.host_port = syn.source_port;
    peer.take(std::slice::from_ref(&syn));
    (bench, peer, id, syn)
}

fn state(bench: &Bench, id: SocketId) -> Option<TcpState> {
    bench.host.sample(bench.now, id)?.state
}

fn flags(sent: &[Segment]) -> Vec<TcpFlags> {
    sent.iter().map(|segment| segment.flags).collect()
}

#[test]
fn a_handshake_in_both_directions() {
    let profile = profile::linux_6_18();
    let (mut bench, mut peer, id, syn) = connecting(&profile);
    assert_eq!(syn.options.mss, Some(1460));
    let answer = bench.send(peer.syn_ack(with_mss(1400)));
    assert_eq!(flags(&answer), [ACK]);
    assert_eq!((answer[0].seq, answer[0].ack), (peer.ack, peer.seq + 1));
    peer.seq += 1;
    assert_eq!(bench.events(id), [Event::Connected]);
    assert_eq!(state(&bench, id), Some(TcpState::Established));
    let (bench, peer, id) = established(&profile);
    assert_eq!(state(&bench, id), Some(TcpState::Established));
    assert_eq!(
        bench.host.remote_addr(id),
        Some(SocketAddr::new(PEER, peer.port))
    );
}

#[test]
fn what_a_listener_answers() {
    let profile = profile::linux_6_18();
    let mut bench = Bench::new(&profile);
    bench.listen(&profile);
    let mut peer = Peer::new(4000);
    peer.ack = SeqNum::new(77);
    let check = |bench: &mut Bench, flags: TcpFlags, expected: Option<TcpFlags>| {
        let sent = bench.send(peer.segment(flags, b""));
        assert_eq!(sent.first().map(|sent| sent.flags), expected, "{flags}");
        if expected == Some(RST) {
            assert_eq!(sent[0].seq, peer.ack);
        }
    };
    check(&mut bench, ACK, Some(RST));
    check(&mut bench, SYN | ACK, Some(RST));
    check(&mut bench, SYN | FIN, None);
    check(&mut bench, FIN, None);
    check(&mut bench, RST, None);
    check(&mut bench, TcpFlags::NONE, None);
    check(&mut bench, SYN, Some(SYN | ACK));
    assert_eq!(bench.host.sockets().count(), 2);
    // A closed port: RST with the ACK of what came, or from where the ACK pointed.
    let closed = |segment: Segment| Segment {
        destination_port: 81,
        ..segment
    };
    let sent = bench.send(closed(peer.segment(SYN, b"")));
    assert_eq!((sent[0].flags, sent[0].ack), (RST | ACK, peer.seq + 1));
    let sent = bench.send(closed(peer.segment(ACK, b"abc")));
    assert_eq!((sent[0].flags, sent[0].seq), (RST, peer.ack));
    assert!(bench.send(closed(peer.segment(RST, b""))).is_empty());
}

#[test]
fn syn_received_keeps_to_its_own_syn() {
    let profile = profile::linux_6_18();
    let mut bench = Bench::new(&profile);
    let listener = bench.listen(&profile);
    let mut peer = Peer::new(4000);
    let answer = bench.send(peer.syn(with_mss(1460)));
    peer.take(&answer);
    // The same SYN again: the same answer.
    let again = bench.send(peer.syn(with_mss(1460)));
    assert_eq!((again[0].seq, again[0].flags), (answer[0].seq, SYN | ACK));
    // An ACK of something else is reset, and the connection waits on (RFC 9293 3.10.7.4, fifth).
    peer.seq += 1;
    for wrong in [1, u32::MAX, 1 << 20] {
        let segment = Segment {
            ack: peer.ack + wrong,
            ..peer.segment(ACK, b"")
        };
        let sent = bench.send(segment);
        assert_eq!(flags(&sent), [RST], "{wrong}");
        assert_eq!(sent[0].seq, peer.ack + wrong);
    }
    // A reset that only lies in the window is questioned, with what our SYN said.
    let sent = bench.send(peer.at(100, RST, b""));
    assert!(
        flags(&sent).iter().all(|flags| *flags == SYN | ACK),
        "{sent:?}"
    );
    assert!(bench.host.accept(bench.now, listener).is_none());
    // Data with the right ACK opens it.
    let sent = bench.send(peer.segment(ACK, b"hello"));
    assert!(sent.iter().all(|sent| sent.ack == peer.seq + 5));
    let id = bench.host.accept(bench.now, listener).expect("established");
    assert_eq!(bench.read(id), b"hello");
}

#[test]
fn a_reset_gives_the_place_in_the_backlog_back() {
    let profile = profile::linux_6_18();
    let mut bench = Bench::new(&profile);
    let options = ListenOptions {
        backlog: 1,
        syn_cookies: false,
        settings: profile.settings.clone(),
    };
    let listener = bench.listen_with(options);
    let mut first = Peer::new(4000);
    let sent = bench.send(first.syn(with_mss(1460)));
    first.take(&sent);
    first.seq += 1;
    assert!(bench.send(Peer::new(4001).syn(with_mss(1460))).is_empty());
    assert_eq!(bench.host.counters().syn_backlog_drops, 1);
    assert!(bench.send(first.segment(RST, b"")).is_empty());
    assert_eq!(bench.host.sockets().count(), 1, "only the listener");
    let id = Peer::new(4002).open(&mut bench, listener, with_mss(1460));
    assert_eq!(state(&bench, id), Some(TcpState::Established));
    // Nobody accepts: as many as the backlog and one more wait, and the next SYN is not heard.
    for port in [4003, 4004] {
        let mut peer = Peer::new(port);
        let sent = bench.send(peer.syn(with_mss(1460)));
        peer.take(&sent);
        peer.seq += 1;
        bench.send(peer.segment(ACK, b""));
    }
    assert!(bench.send(Peer::new(4005).syn(with_mss(1460))).is_empty());
    assert_eq!(bench.host.counters().accept_overflows, 1);
}

#[test]
fn a_peer_that_vanishes_in_the_handshake_is_forgotten() {
    let profile = profile::linux_6_18();
    let mut bench = Bench::new(&profile);
    bench.listen(&profile);
    bench.send(Peer::new(4000).syn(with_mss(1460)));
    let sent = bench.pass(secs(300));
    assert_eq!(sent.len(), 5, "rule: five repetitions of a SYN-ACK");
    assert_eq!(bench.host.sockets().count(), 1);
    assert_eq!(bench.host.poll_timeout(), None);
}

#[test]
fn a_cookie_stands_for_a_half_open_connection() {
    let profile = profile::linux_6_18();
    let mut bench = Bench::new(&profile);
    let options = ListenOptions {
        backlog: 0,
        syn_cookies: true,
        settings: profile.settings.clone(),
    };
    let listener = bench.listen_with(options);
    let mut peer = Peer::new(4000);
    peer.timestamps = Some(Timestamps {
        value: 500,
        echo: 0,
    });
    let options = SegmentOptions {
        window_scale: Some(7),
        sack_permitted: true,
        ..with_mss(1460)
    };
    let answer = bench.send(peer.syn(options));
    assert_eq!(bench.host.sockets().count(), 1, "nothing is kept");
    peer.take(&answer);
    peer.seq += 1;
    // With a SYN it is no answer to a cookie, and leaves nothing behind.
    let sent = bench.send(peer.segment(SYN | ACK, b""));
    assert_eq!(flags(&sent), [RST]);
    let forged = Segment {
        ack: peer.ack + 1,
        ..peer.segment(ACK, b"")
    };
    assert_eq!(flags(&bench.send(forged)), [RST]);
    assert_eq!(bench.host.sockets().count(), 1);
    bench.send(peer.segment(ACK, b"x"));
    let id = bench
        .host
        .accept(bench.now, listener)
        .expect("the cookie is good");
    let sample = bench.host.sample(bench.now, id).unwrap();
    assert_eq!((sample.snd_wscale, sample.sack), (Some(7), Some(true)));
    assert_eq!(bench.read(id), b"x");
}

#[test]
fn both_open_at_once() {
    let profile = profile::linux_6_18();
    let (mut bench, mut peer, id, syn) = connecting(&profile);
    let options = SegmentOptions {
        window_scale: Some(7),
        ..with_mss(1460)
    };
    peer.window = 1000;
    let sent = bench.send(peer.syn(options));
    assert_eq!(flags(&sent), [SYN | ACK]);
    assert_eq!((sent[0].seq, sent[0].ack), (syn.seq, peer.seq + 1));
    assert_eq!(state(&bench, id), Some(TcpState::SynReceived));
    // The peer's SYN-ACK, with data behind the SYN. Its window is not scaled.
    let both = Segment {
        options,
        ..peer.segment(SYN | ACK, b"hello")
    };
    bench.send(both);
    assert_eq!(bench.events(id), [Event::Connected, Event::Readable]);
    assert_eq!(bench.read(id), b"hello");
    let sample = bench.host.sample(bench.now, id).unwrap();
    assert_eq!(
        (sample.snd_wscale, sample.snd_wnd_bytes),
        (Some(7), Some(1000))
    );
}

#[test]
fn answers_to_our_syn() {
    let profile = profile::linux_6_18();
    // An ACK of something else is reset, whatever else it says.
    let (mut bench, mut peer, id, _) = connecting(&profile);
    peer.ack += 5;
    let sent = bench.send(peer.syn_ack(with_mss(1460)));
    assert_eq!((flags(&sent), sent[0].seq), (vec![RST], peer.ack));
    // So is a reset without the right ACK not believed.
    bench.send(peer.segment(RST | ACK, b""));
    bench.send(Segment {
        ack: SeqNum::default(),
        ..peer.segment(RST, b"")
    });
    assert_eq!(state(&bench, id), Some(TcpState::SynSent));
    peer.ack += u32::MAX - 4;
    bench.send(peer.segment(RST | ACK, b""));
    assert_eq!(bench.events(id), [Event::Failed(Failure::Refused)]);
    // No answer at all.
    let (mut bench, _, id, _) = connecting(&profile);
    bench.pass(secs(200));
    assert_eq!(bench.events(id), [Event::Failed(Failure::TimedOut)]);
    // ICMP: what is hard ends the attempt if it quotes our SYN.
    let (mut bench, peer, id, syn) = connecting(&profile);
    bench.send_error(IcmpKind::Refused, &peer, syn.seq + 1);
    assert_eq!(bench.events(id), []);
    bench.send_error(IcmpKind::Refused, &peer, syn.seq);
    assert_eq!(bench.events(id), [Event::Failed(Failure::Refused)]);
}

#[test]
fn options_of_a_syn_are_kept_within_bounds() {
    let profile = profile::linux_6_18();
    let check = |mss, scale: u8, expected_mss, expected_scale| {
        let mut bench = Bench::new(&profile);
        let listener = bench.listen(&profile);
        let mut peer = Peer::new(4000);
        let options = SegmentOptions {
            mss,
            window_scale: Some(scale),
            ..SegmentOptions::default()
        };
        let id = peer.open(&mut bench, listener, options);
        let sample = bench.host.sample(bench.now, id).unwrap();
        assert_eq!(sample.snd_mss_bytes, Some(expected_mss), "{mss:?}");
        assert_eq!(sample.snd_wscale, Some(expected_scale), "{scale}");
    };
    check(Some(1460), 7, 1460, 7);
    check(Some(0), 15, 536, 14);
    check(None, 255, 536, 14);
    check(Some(1), 14, 36, 14);
    check(Some(65_535), 0, 1460, 0);
}

#[test]
fn ecn_is_agreed_by_who_asked_only() {
    let check = |wants: bool, expected| {
        let mut profile = profile::linux_6_18();
        if wants {
            profile.settings.options.ecn = base::settings::Ecn::Request;
        }
        let (mut bench, peer, id, syn) = connecting(&profile);
        assert_eq!(syn.flags.contains(TcpFlags::ECE | TcpFlags::CWR), wants);
        let answer = peer.syn_ack(with_mss(1460));
        bench.send(Segment {
            flags: answer.flags | TcpFlags::ECE,
            ..answer
        });
        let sample = bench.host.sample(bench.now, id).unwrap();
        assert_eq!(sample.ecn, Some(expected));
    };
    check(false, false);
    check(true, true);
}

/// RFC 5961 section 3, and what a timestamp has to do with it (RFC 7323 section 5.2).
#[test]
fn which_resets_count() {
    let check = |distance: i32, with_old_clock: bool, resets: bool, answers: usize| {
        let profile = profile::linux_6_18();
        let mut bench = Bench::new(&profile);
        let listener = bench.listen(&profile);
        let mut peer = Peer::new(4000);
        peer.timestamps = Some(Timestamps {
            value: 10_000,
            echo: 0,
        });
        let id = peer.open(&mut bench, listener, with_mss(1460));
        let _ = bench.events(id);
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
    assert_eq!(state(&bench, id), Some(TcpState::Established));
}

#[test]
fn an_old_clock_makes_a_segment_old() {
    let profile = profile::linux_6_18();
    let mut bench = Bench::new(&profile);
    let listener = bench.listen(&profile);
    let mut peer = Peer::new(4000);
    peer.timestamps = Some(Timestamps {
        value: 10_000,
        echo: 0,
    });
    let id = peer.open(&mut bench, listener, with_mss(1460));
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

#[test]
fn a_fin_before_the_stream_ends_nothing() {
    for (distance, length) in [(-6, 5), (-6, 3), (-1, 0), (-2, 0), (-2, 1)] {
        let (mut bench, peer, id) = established(&profile::linux_6_18());
        bench.send(peer.at(distance, ACK | FIN, &b"xxxxx"[..length]));
        assert_eq!(
            state(&bench, id),
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
    bench.host.write(bench.now, id, b"request").unwrap();
    bench.host.shutdown(bench.now, id);
    let sent = bench.drain();
    assert!(sent.last().unwrap().flags.contains(FIN));
    peer.take(&sent);
    bench.send(peer.segment(ACK, b""));
    assert_eq!(state(&bench, id), Some(TcpState::FinWait2));
    assert_eq!(
        bench.host.write(bench.now, id, b"x"),
        Err(WriteError::Closed)
    );
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
    assert_eq!(state(&bench, id), Some(TcpState::Closing));
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
    assert_eq!(state(&bench, id), Some(TcpState::CloseWait));
    // CLOSE-WAIT still sends; then it ends.
    bench.host.write(bench.now, id, b"thanks").unwrap();
    bench.host.close(bench.now, id);
    let sent = bench.drain();
    peer.take(&sent);
    peer.seq += 4;
    assert_eq!(sent.iter().map(|sent| sent.payload.len()).sum::<u32>(), 6);
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

#[test]
fn urgent_data_stays_in_line() {
    let (mut bench, peer, id) = established(&profile::linux_6_18());
    let segment = Segment {
        urgent: 2,
        ..peer.segment(ACK | TcpFlags::URG, b"ab!cd")
    };
    bench.send(segment);
    assert_eq!(bench.read(id), b"ab!cd");
    let urgent = WriteFlags {
        urgent: true,
        ..WriteFlags::default()
    };
    let chunk = bytes::Bytes::from_static(b"stop");
    bench
        .host
        .write_chunk(bench.now, id, chunk, urgent)
        .unwrap();
    let sent = bench.drain();
    assert!(sent[0].flags.contains(TcpFlags::URG));
    assert_eq!((sent[0].urgent, sent[0].payload.len()), (4, 4));
}

/// RFC 9293 section 3.8.6.1: probes, in intervals that double, for as long as they are answered.
#[test]
fn a_shut_window_is_probed_ever_less_often() {
    let (mut bench, mut peer, id) = established(&profile::linux_6_18());
    peer.window = 0;
    bench.send(peer.segment(ACK, b""));
    bench.host.write(bench.now, id, b"waits").unwrap();
    assert!(bench.drain().is_empty());
    assert_eq!(
        bench.host.limit(bench.now, id).unwrap().limit,
        Limit::PeerWindow
    );
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
    assert_eq!(state(&bench, id), Some(TcpState::Established));
    peer.window = 1000;
    let sent = bench.send(peer.segment(ACK, b""));
    assert_eq!(sent.iter().map(|sent| sent.payload.len()).sum::<u32>(), 5);
}

#[test]
fn nobody_probes_for_ever() {
    // Without answers the peer is gone.
    let (mut bench, mut peer, id) = established(&profile::linux_6_18());
    peer.window = 0;
    bench.send(peer.segment(ACK, b""));
    bench.host.write(bench.now, id, b"waits").unwrap();
    let probes = bench.pass(secs(3 * 3600)).len();
    assert_eq!(probes, 15);
    assert_eq!(bench.events(id), [Event::Failed(Failure::TimedOut)]);
    // With answers, but without an application.
    let (mut bench, mut peer, id) = established(&profile::linux_6_18());
    peer.window = 0;
    bench.send(peer.segment(ACK, b""));
    bench.host.write(bench.now, id, b"waits").unwrap();
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
    bench.host.write(bench.now, id, b"waits").unwrap();
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
    let mut bench = Bench::new(&profile);
    let listener = bench.listen(&profile);
    let mut peer = Peer::new(4000);
    let id = peer.open(&mut bench, listener, options);
    bench
        .host
        .write(bench.now, id, &[7; 14_600])
        .expect("there is room");
    let sent: u32 = bench.drain().iter().map(|sent| sent.payload.len()).sum();
    assert_eq!(sent, 14_600);
    peer.window = 0;
    let first = peer.ack;
    bench.send(peer.segment(ACK, b""));
    let mut repeated = 0;
    for _ in 0..3600 {
        for segment in bench.pass(secs(1)) {
            repeated += 1;
            assert_eq!(segment.seq, first, "behind the window");
            bench.send(peer.segment(ACK, b""));
        }
    }
    assert!((15..60).contains(&repeated), "{repeated}");
    assert_eq!(state(&bench, id), Some(TcpState::Established));
    peer.window = 65_535;
    let mut sent = bench.send(peer.segment(ACK, b""));
    // The first byte leaves again when the timer says so, at the latest after its two minutes.
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
        bench.host.write(bench.now, id, &[1; 3000]).unwrap();
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
    assert_eq!(state(&bench, id), Some(TcpState::Established));
    let sent = bench.pass(secs(200));
    assert_eq!(flags(&sent), [ACK, ACK, ACK, RST | ACK]);
    assert_eq!(bench.events(id), [Event::Failed(Failure::TimedOut)]);
}

#[test]
fn settings_that_are_calls() {
    let (mut bench, mut peer, id) = established(&profile::linux_6_18());
    let now = bench.now;
    let size = bench.host.sample(now, id).unwrap().sndbuf_bytes.unwrap();
    bench
        .host
        .set(now, id, "buf_lock", &KnobValue::Number(1))
        .unwrap();
    let sample = bench.host.sample(now, id).unwrap();
    assert_eq!(
        (sample.sndbuf_locked, sample.sndbuf_bytes),
        (Some(true), Some(size))
    );
    assert_eq!(sample.rcvbuf_locked, Some(false));
    bench
        .host
        .set(now, id, "buf_lock", &KnobValue::Number(0))
        .unwrap();
    assert_eq!(
        bench.host.sample(now, id).unwrap().sndbuf_locked,
        Some(false)
    );
    // Rule 8.7. The first ACKs are quick; then they are delayed; then they are quick again.
    let mut quick = |bench: &mut Bench| {
        let sent = bench.send(peer.segment(ACK, b"x"));
        peer.seq += 1;
        bench.pass(secs(1));
        !sent.is_empty()
    };
    for _ in 0..100 {
        let _ = quick(&mut bench);
    }
    bench
        .host
        .set(bench.now, id, "quickack", &KnobValue::Flag(false))
        .unwrap();
    assert!(!quick(&mut bench));
    bench
        .host
        .set(bench.now, id, "quickack", &KnobValue::Number(7))
        .unwrap_err();
    assert!(id.to_string().contains('.'));
}

/// RFC 5927 section 7.2 doubts a report below what has passed; nothing of that size has.
#[test]
fn a_router_is_believed_before_full_segments_have_passed() {
    let mut profile = profile::linux_6_18();
    profile.settings.small_writes.nagle = base::settings::Nagle::Off;
    let (mut bench, mut peer, id) = established(&profile);
    bench.host.write(bench.now, id, b"small").unwrap();
    let sent = bench.drain();
    peer.take(&sent);
    bench.send(peer.segment(ACK, b""));
    bench.host.write(bench.now, id, &[3; 8000]).unwrap();
    bench.drain();
    let mss = |bench: &Bench| bench.host.sample(bench.now, id).unwrap().snd_mss_bytes;
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
    bench.host.write(bench.now, id, &[3; 8000]).unwrap();
    let sent = bench.drain();
    peer.take(&sent);
    bench.send(peer.segment(ACK, b""));
    // Now such segments have passed: a forger has to wait for a timeout.
    bench.host.write(bench.now, id, &[3; 8000]).unwrap();
    bench.drain();
    bench.send_error(IcmpKind::TooBig { mtu: 600 }, &peer, peer.ack);
    assert_eq!(mss(&bench), Some(1160));
}

#[derive(Debug, Default)]
struct Names(Arc<Mutex<Vec<String>>>);

impl Trace for Names {
    fn on_event(&mut self, _: Instant, socket: Option<SocketId>, event: &TraceEvent<'_>) {
        let line = format!("{} {}", event.name(), socket.is_some());
        self.0.lock().expect("a connection knows it").push(line);
    }
}

#[test]
fn a_trace_hears_all_that_it_is_promised() {
    let names = Names::default();
    let heard = Arc::clone(&names.0);
    let mut profile = profile::linux_6_18();
    profile.settings.options.ecn = base::settings::Ecn::Accept;
    let mut bench = Bench::new(&profile);
    let listener = bench.listen(&profile);
    bench.host.set_trace(Box::new(names));
    let mut peer = Peer::new(4000);
    let id = peer.open(
        &mut bench,
        listener,
        SegmentOptions {
            sack_permitted: true,
            ..with_mss(1460)
        },
    );
    bench.host.write(bench.now, id, &[1; 5000]).unwrap();
    let sent = bench.drain();
    bench.pass(secs(1));
    peer.take(&sent);
    bench.send_marked(peer.segment(ACK, b"abc"), EcnMark::Ce);
    bench.send(peer.at(1 << 29, ACK, b"far"));
    bench.host.write(bench.now, id, &[1; 5000]).unwrap();
    bench.drain();
    bench.send_error(IcmpKind::TooBig { mtu: 1000 }, &peer, peer.ack);
    bench.pass(secs(2));
    bench.send(peer.at(3, RST, b""));
    let heard = heard.lock().unwrap();
    for name in [
        "packet-sent true",
        "packet-received true",
        "packet-received false",
        "state true",
        "failed true",
        "timer-fired true",
        "retransmitted true",
        "congestion true",
        "window true",
        "rtt true",
        "limit true",
        "mtu true",
    ] {
        assert!(heard.iter().any(|line| line == name), "{name} is missing");
    }
    assert_eq!(
        PORT,
        bench
            .host
            .local_addr(listener)
            .map_or(PORT, |addr| addr.port())
    );
    assert_eq!(bench.host.addrs(), [HOST]);
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
    // Before the handshake is over: a peer that has our SYN-ACK hears it, one that has no SYN not.
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
    let sent = bench.drain();
    assert_eq!((flags(&sent), sent[0].seq), (vec![RST | ACK], peer.ack));
    assert_eq!(bench.host.sockets().count(), 0);
}

/// RFC 4987: who has sent no cookie lately believes none, and who has no room says nothing.
#[test]
fn a_cookie_counts_for_a_while_and_where_there_is_room() {
    let profile = profile::linux_6_18();
    let check = |wait: u64, unaccepted: u32, expected: &[TcpFlags]| {
        let mut bench = Bench::new(&profile);
        let listener = bench.listen_with(ListenOptions {
            backlog: 0,
            syn_cookies: true,
            settings: profile.settings.clone(),
        });
        let open = |bench: &mut Bench, port: u16| {
            let mut peer = Peer::new(port);
            let sent = bench.send(peer.syn(with_mss(1460)));
            peer.take(&sent);
            peer.seq += 1;
            peer
        };
        let peer = open(&mut bench, 4000);
        for index in 0..unaccepted {
            let other = open(&mut bench, 5000 + index as u16);
            bench.send(other.segment(ACK, b""));
        }
        bench.pass(secs(wait));
        let sent = bench.send(peer.segment(ACK, b""));
        assert_eq!(
            flags(&sent),
            expected,
            "after {wait} s, {unaccepted} unaccepted"
        );
        let accepted = std::iter::from_fn(|| bench.host.accept(bench.now, listener)).count();
        let is_new = wait < 60 && unaccepted == 0;
        assert_eq!(accepted, unaccepted as usize + usize::from(is_new));
    };
    check(0, 0, &[]);
    check(30, 0, &[]);
    check(0, 1, &[]);
    check(300, 0, &[RST]);
}
