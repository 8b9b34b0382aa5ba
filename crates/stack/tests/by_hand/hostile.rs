//! What an attacker may cost: each attack on one connection keeps to its bounds, and what else has
//! a bound for all connections.

use base::SeqNum;
use base::settings::CongestionName;
use tcptailor_stack::profile;
use tcptailor_stack::{Event, SegmentOptions};

use crate::attacks::{ATTACKS, Scene, scenes};
use crate::hand::{ACK, Bench, PEER, Peer, secs, with_mss};

#[test]
fn no_attack_costs_more_than_its_bound() {
    for (attack, bound, run) in ATTACKS {
        for (profile, options) in scenes() {
            let with = if options.sack_permitted { "all" } else { "no" };
            let what = format!("{attack} on {}, {with} options", profile.name);
            let mut scene = Scene::new(&profile, options);
            let _note = Note(&what);
            run(&mut scene);
            let answers = scene.answers;
            assert!(answers <= bound.answers, "{answers} answers");
            bound.check_work(&scene);
            let honest = &scene.honest;
            assert_eq!((honest.unanswered, honest.ahead), (0, 0));
            if bound.survives {
                scene.check_alive();
            }
        }
    }
}

/// Says which row it was.
struct Note<'a>(&'a str);

impl Drop for Note<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("attack: {}", self.0);
        }
    }
}

#[test]
fn cookies_let_an_honest_peer_through_a_flood() {
    let profile = profile::linux_6_18();
    let mut bench = Bench::new(&profile);
    let listener = bench.listen_with(&profile, 8, true);
    let flood = |bench: &mut Bench, from: u32| {
        for step in from..from + 5000 {
            let mut peer = Peer::new(10_000 + step as u16 % 50_000);
            peer.seq = SeqNum::new(step.wrapping_mul(0x9e37_79b9));
            let sent = bench.send(peer.syn(with_mss(1460)));
            assert!(sent.len() <= 1);
        }
    };
    flood(&mut bench, 0);
    assert!(bench.host.sockets().count() <= 1 + 9);
    let mut peer = Peer::with_clock(4000, 77);
    peer.half_open(&mut bench, with_mss(1460));
    flood(&mut bench, 5000);
    bench.send(peer.segment(ACK, b"hello"));
    let id = bench
        .host
        .accept(bench.now, listener)
        .expect("it holds a good cookie");
    assert_eq!(bench.read(id), b"hello");
    // Guesses are not believed, and answered at a limited rate.
    let before = bench.host.counters().resets_sent;
    for step in 0..20_000_u32 {
        let mut guess = Peer::new(20_000);
        guess.ack = SeqNum::new(step.wrapping_mul(0x85eb_ca6b));
        bench.send(guess.segment(ACK, b""));
    }
    let limit = u64::from(profile.system.answers_per_second);
    assert!(bench.host.counters().resets_sent - before <= limit);
    assert!(bench.host.sockets().count() <= 2 + 9);
}

/// A small host has fewer places for connections than an ordinary backlog: half of them are for
/// peers that answer.
#[test]
fn cookies_let_an_honest_peer_through_to_a_host_with_few_places() {
    let mut profile = profile::linux_6_18();
    profile.system.connections_max = 16;
    let mut bench = Bench::new(&profile);
    let listener = bench.listen_with(&profile, 4096, true);
    for port in 10_000..11_000 {
        bench.send(Peer::new(port).syn(with_mss(1460)));
    }
    assert!(bench.host.sockets().count() <= 1 + 8);
    for port in 4000..4007 {
        let mut peer = Peer::with_clock(port, 77);
        peer.half_open(&mut bench, with_mss(1460));
        bench.send(peer.segment(ACK, b"hello"));
        let id = bench.host.accept(bench.now, listener);
        let id = id.expect("half of the places are for those that answer");
        assert_eq!(bench.read(id), b"hello");
    }
    assert_eq!(bench.host.counters().too_many_connections, 0);
}

/// The same where ordinary connections have taken more than half of the places.
#[test]
fn cookies_let_an_honest_peer_through_to_a_busy_host_with_few_places() {
    let mut profile = profile::linux_6_18();
    profile.system.connections_max = 16;
    let mut bench = Bench::new(&profile);
    let listener = bench.listen_with(&profile, 4096, true);
    let connect = |bench: &mut Bench, port| {
        let mut peer = Peer::with_clock(port, 77);
        peer.half_open(bench, with_mss(1460));
        bench.send(peer.segment(ACK, b"hello"));
        bench.host.accept(bench.now, listener)
    };
    for port in 4000..4009 {
        assert!(connect(&mut bench, port).is_some());
    }
    for port in 10_000..11_000 {
        bench.send(Peer::new(port).syn(with_mss(1460)));
    }
    assert!(connect(&mut bench, 5000).is_some());
    assert_eq!(bench.host.counters().too_many_connections, 0);
}

/// RFC 879, CVE-2019-11479: a peer that announces an MSS of 1 gets segments that are worth it, and
/// thousands of them SACKed in turn cost what they cost once.
#[test]
fn many_small_packets_with_sack_stay_cheap() {
    let mut profile = profile::linux_6_18();
    profile.settings.congestion.name = CongestionName::NewReno;
    profile.settings.congestion.initial_window = 10_000;
    profile.settings.congestion.pacing = false;
    profile.settings.path.gso_max = 65_536;
    profile.settings.send.buffer.fixed = Some(8 << 20);
    let options = SegmentOptions {
        window_scale: Some(5),
        sack_permitted: true,
        ..with_mss(1)
    };
    let mut scene = Scene::new(&profile, options);
    scene.send_at(0, ACK, b"");
    for _ in 0..20 {
        scene.write(10_000);
    }
    let mss = scene.sample().snd_mss_bytes.unwrap();
    assert!(mss >= 36, "{mss}");
    let out = scene.sample().unacked_pkts.unwrap();
    assert!(out <= 200_000 / mss + 20 && out > 1000, "{out}");
    let una = scene.peer.ack;
    for step in 0..3000_u32 {
        let at = |index: u32| (step * 61 + index * 60_000) % 190_000;
        let block = |index: u32| (una + (1 + at(index)), una + (1 + at(index) + mss));
        let blocks = [block(0), block(1), block(2)];
        scene.send_sack(&blocks);
        scene.pass(1);
    }
    assert!(
        scene.answers <= 4 * u64::from(out) + 6000,
        "{}",
        scene.answers
    );
    scene.check_alive();
}

#[test]
fn connections_are_bounded() {
    let mut profile = profile::linux_6_18();
    profile.system.connections_max = 10;
    let mut bench = Bench::new(&profile);
    let listener = bench.listen(&profile);
    for port in 4000..4020 {
        let mut peer = Peer::new(port);
        let sent = bench.send(peer.syn(with_mss(1460)));
        peer.take(&sent);
        peer.seq += 1;
        bench.send(peer.segment(ACK, b""));
        while bench.host.accept(bench.now, listener).is_some() {}
    }
    assert_eq!(bench.host.sockets().count(), 10, "with the listener");
    assert!(bench.host.counters().too_many_connections > 0);
    let remote = std::net::SocketAddr::new(PEER, 9);
    let settings = profile.settings.clone();
    bench.host.connect(bench.now, remote, settings).unwrap_err();
    bench.pass(secs(10));
    assert!(
        !std::iter::from_fn(|| bench.host.poll_event())
            .any(|(_, event)| matches!(event, Event::Failed(_)))
    );
}
