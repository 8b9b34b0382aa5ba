//! How connections begin (RFC 9293 section 3.10.7), and what a listener answers.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use base::tcp::TcpFlags;
use base::{SeqNum, TcpState};
use tcptailor_stack::profile;
use tcptailor_stack::{Body, Event, Failure, IcmpKind, Packet, Segment, SegmentOptions};

use crate::hand::{
    ACK, Bench, FIN, HOST, PEER, PORT, Peer, RST, SYN, connecting, established, established_with,
    flags, packet, secs, with_mss,
};

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
    assert_eq!(bench.state(id), Some(TcpState::Established));
    let (bench, peer, id) = established(&profile);
    assert_eq!(bench.state(id), Some(TcpState::Established));
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

/// A SYN from the very end that it is for ("LAND"), or from a foreign loopback address.
#[test]
fn packets_that_claim_to_be_of_the_host_are_not_answered() {
    let profile = profile::linux_6_18();
    let mut bench = Bench::new(&profile);
    bench.listen(&profile);
    let syn = Peer::new(PORT).syn(with_mss(1460));
    for source in [HOST, IpAddr::V4(Ipv4Addr::LOCALHOST)] {
        let forged = Packet {
            source,
            ..packet(Body::Tcp(syn.clone()))
        };
        bench.host.handle_packet(bench.now, forged);
        assert!(bench.drain().is_empty(), "{source}");
    }
    assert_eq!(bench.host.sockets().count(), 1, "only the listener");
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
    let listener = bench.listen_with(&profile, 1, false);
    let mut first = Peer::new(4000);
    let sent = bench.send(first.syn(with_mss(1460)));
    first.take(&sent);
    first.seq += 1;
    // One more than the backlog may be half open.
    let mut second = Peer::new(4001);
    second.half_open(&mut bench, with_mss(1460));
    assert!(bench.send(Peer::new(4006).syn(with_mss(1460))).is_empty());
    assert_eq!(bench.host.counters().syn_backlog_drops, 1);
    assert!(bench.send(second.segment(RST, b"")).is_empty());
    assert!(bench.send(first.segment(RST, b"")).is_empty());
    assert_eq!(bench.host.sockets().count(), 1, "only the listener");
    let id = Peer::new(4002).open(&mut bench, listener, with_mss(1460));
    assert_eq!(bench.state(id), Some(TcpState::Established));
    // Without accepts, as many as the backlog and one more wait, and the next SYN is dropped.
    for port in [4003, 4004] {
        let mut peer = Peer::new(port);
        peer.half_open(&mut bench, with_mss(1460));
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
    assert_eq!(sent.len(), 5, "rule: five retransmissions of a SYN-ACK");
    assert_eq!(bench.host.sockets().count(), 1);
    assert_eq!(bench.host.poll_timeout(), None);
}

#[test]
fn a_cookie_stands_for_a_half_open_connection() {
    let profile = profile::linux_6_18();
    let mut bench = Bench::new(&profile);
    let listener = bench.listen_with(&profile, 0, true);
    // One more than the backlog may be half open.
    Peer::new(3999).half_open(&mut bench, with_mss(1460));
    let mut peer = Peer::with_clock(4000, 500);
    let options = SegmentOptions {
        window_scale: Some(7),
        sack_permitted: true,
        ..with_mss(1460)
    };
    let answer = bench.send(peer.syn(options));
    assert_eq!(bench.host.sockets().count(), 2, "nothing is kept");
    peer.take(&answer);
    peer.seq += 1;
    // With a SYN it is not an answer to a cookie, and leaves no state.
    let sent = bench.send(peer.segment(SYN | ACK, b""));
    assert_eq!(flags(&sent), [RST]);
    let forged = Segment {
        ack: peer.ack + 1,
        ..peer.segment(ACK, b"")
    };
    assert_eq!(flags(&bench.send(forged)), [RST]);
    assert_eq!(bench.host.sockets().count(), 2);
    bench.send(peer.segment(ACK, b"x"));
    let id = bench
        .host
        .accept(bench.now, listener)
        .expect("the cookie is good");
    let sample = bench.sample(id);
    assert_eq!((sample.snd_wscale, sample.sack), (Some(7), Some(true)));
    assert_eq!(bench.read(id), b"x");
}

/// RFC 4987: a host that has sent no cookie lately accepts none, and one without room does not
/// answer.
#[test]
fn a_cookie_counts_for_a_while_and_where_there_is_room() {
    let profile = profile::linux_6_18();
    let check = |wait: u64, unaccepted: u32, expected: &[TcpFlags]| {
        let mut bench = Bench::new(&profile);
        let listener = bench.listen_with(&profile, 0, true);
        let open = |bench: &mut Bench, port: u16| {
            let mut peer = Peer::new(port);
            peer.half_open(bench, with_mss(1460));
            peer
        };
        // The first is remembered, the others are answered by cookies.
        open(&mut bench, 3999);
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
    assert_eq!(bench.state(id), Some(TcpState::SynReceived));
    // The peer's SYN-ACK with data behind the SYN counts as little as another SYN (Linux).
    let with_data = Segment {
        options,
        ..peer.segment(SYN | ACK, b"hello")
    };
    assert_eq!(flags(&bench.send(with_data)), [ACK]);
    assert_eq!(bench.state(id), Some(TcpState::SynReceived));
    // Without it it does; Linux scales its window.
    let both = Segment {
        options,
        ..peer.segment(SYN | ACK, b"")
    };
    bench.send(both);
    assert_eq!(bench.events(id), [Event::Connected]);
    let sample = bench.sample(id);
    assert_eq!(
        (sample.snd_wscale, sample.snd_wnd_bytes),
        (Some(7), Some(1000 << 7))
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
    assert_eq!(bench.state(id), Some(TcpState::SynSent));
    peer.ack += u32::MAX - 4;
    bench.send(peer.segment(RST | ACK, b""));
    assert_eq!(bench.events(id), [Event::Failed(Failure::Refused)]);
    // No answer at all.
    let (mut bench, _, id, _) = connecting(&profile);
    bench.pass(secs(200));
    assert_eq!(bench.events(id), [Event::Failed(Failure::TimedOut)]);
    // ICMP: what is hard ends the attempt if it quotes our SYN, or the next number.
    let (mut bench, peer, id, syn) = connecting(&profile);
    bench.send_error(IcmpKind::Refused, &peer, syn.seq + 2);
    assert_eq!(bench.events(id), []);
    bench.send_error(IcmpKind::Refused, &peer, syn.seq);
    assert_eq!(bench.events(id), [Event::Failed(Failure::Refused)]);
}

#[test]
fn options_of_a_syn_are_kept_within_bounds() {
    let profile = profile::linux_6_18();
    let check = |mss, scale: u8, expected_mss, expected_scale| {
        let options = SegmentOptions {
            mss,
            window_scale: Some(scale),
            ..SegmentOptions::default()
        };
        let (bench, _, id) = established_with(&profile, Peer::new(4000), options);
        let sample = bench.sample(id);
        assert_eq!(sample.snd_mss_bytes, Some(expected_mss), "{mss:?}");
        assert_eq!(sample.snd_wscale, Some(expected_scale), "{scale}");
    };
    check(Some(1460), 7, 1460, 7);
    check(Some(0), 15, 536, 14);
    check(None, 255, 536, 14);
    check(Some(1), 14, 48, 14);
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
        let sample = bench.sample(id);
        assert_eq!(sample.ecn, Some(expected));
    };
    check(false, false);
    check(true, true);
}

/// A host has one interface: the scope of an address names nothing.
#[test]
fn addresses_with_a_scope_lead_to_the_same_connection() {
    use std::net::{Ipv6Addr, SocketAddrV6};

    let profile = profile::linux_6_18();
    let host: Ipv6Addr = "fe80::1".parse().unwrap();
    let peer: Ipv6Addr = "fe80::2".parse().unwrap();
    let mut bench = Bench::new(&profile);
    bench.host =
        tcptailor_stack::Host::new(tcptailor_stack::HostConfig::of(&profile, host.into(), 7));
    let now = bench.now;
    let at = |addr, port| SocketAddr::V6(SocketAddrV6::new(addr, port, 0, 3));
    let settings = profile.settings.clone();
    let id = bench.host.connect(now, at(peer, 4000), settings).unwrap();
    let syn = bench.host.poll_transmit(now).expect("the SYN");
    let sent = syn.segment().expect("a segment");
    let mut answer = Segment {
        source_port: 4000,
        destination_port: sent.source_port,
        seq: SeqNum::new(1),
        ack: sent.seq + 1,
        flags: SYN | ACK,
        window: 1000,
        ..Segment::default()
    };
    let packet = |segment| tcptailor_stack::Packet {
        source: peer.into(),
        destination: host.into(),
        body: tcptailor_stack::Body::Tcp(segment),
        ..crate::hand::packet(tcptailor_stack::Body::Tcp(Segment::default()))
    };
    bench.host.handle_packet(now, packet(answer.clone()));
    assert_eq!(bench.events(id), [Event::Connected]);
    // And for a listener.
    let options = tcptailor_stack::ListenOptions::of(&profile);
    let listener = bench.host.listen(at(host, 80), options).unwrap();
    answer.flags = SYN;
    answer.destination_port = 80;
    bench.host.handle_packet(now, packet(answer));
    assert_eq!(bench.host.sockets().count(), 3, "{listener}");
}

/// A handshake without an answer is counted once.
#[test]
fn a_timeout_is_counted_once() {
    let (mut bench, _, id, _) = connecting(&profile::linux_6_18());
    bench.pass(secs(400));
    assert_eq!(bench.events(id), [Event::Failed(Failure::TimedOut)]);
    assert_eq!(bench.host.counters().timed_out, 1);
}

/// No peer can be reached at a multicast or broadcast address, or at port 0 (RFC 9293 section
/// 3.9.2.1).
#[test]
fn odd_remotes_are_refused() {
    let profile = profile::linux_6_18();
    let mut bench = Bench::new(&profile);
    let now = bench.now;
    for remote in [
        "0.0.0.0:1",
        "224.0.0.1:1",
        "255.255.255.255:1",
        "10.0.0.2:0",
    ] {
        let settings = profile.settings.clone();
        let result = bench.host.connect(now, remote.parse().unwrap(), settings);
        assert_eq!(
            result,
            Err(tcptailor_stack::ConnectError::InvalidRemote),
            "{remote}"
        );
    }
}
