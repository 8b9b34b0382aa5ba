//! A `NetBurner` and its shared pool of buffers (seed: `NetBurner`, NB7 to NB9, N6).

use std::net::SocketAddr;

use base::{Limit, TcpState};
use tcptailor_stack::profile;
use tcptailor_stack::{Event, PoolOwner, PoolSize, SocketId, WriteError};

use crate::hand::{ACK, Bench, FIN, PEER, Peer, RST, millis, secs, with_mss};

/// A host with so few buffers that a few connections use them up.
fn host(buffers: u32) -> (Bench, SocketId) {
    let mut profile = profile::netburner();
    let size = profile.system.pool.expect("it has a pool");
    profile.system.pool = Some(PoolSize {
        buffers,
        reserved: 0,
        ..size
    });
    let mut bench = Bench::new(&profile);
    let listener = bench.listen(&profile);
    (bench, listener)
}

fn open(bench: &mut Bench, listener: SocketId, port: u16) -> (Peer, SocketId) {
    let mut peer = Peer::new(port);
    let id = peer.open(bench, listener, with_mss(1460));
    (peer, id)
}

/// Who holds how many buffers, of received data and of sent.
fn owners(bench: &Bench) -> Vec<(SocketId, u32, u32)> {
    let owners = bench.host.pool().by_owner.into_iter();
    owners
        .map(|owner| (owner.socket, owner.received, owner.sent))
        .collect()
}

/// Writes until nothing more is taken; returns how much was.
fn fill(bench: &mut Bench, id: SocketId) -> usize {
    let mut taken = 0;
    loop {
        match bench.write(id, &[5; 1460]) {
            Ok(bytes) => taken += bytes,
            Err(WriteError::Full) => return taken,
            Err(error) => panic!("{error}"),
        }
        assert!(taken < 1 << 20, "a write without end");
    }
}

/// Connections whose peers never acknowledge anything, until not one buffer is left.
fn hang(bench: &mut Bench, listener: SocketId) -> Vec<(Peer, SocketId)> {
    let mut hung = Vec::new();
    for port in 4000.. {
        if bench.host.pool().free == 0 {
            break;
        }
        let (peer, id) = open(bench, listener, port);
        assert!(fill(bench, id) > 0);
        bench.drain();
        hung.push((peer, id));
    }
    assert!(hung.len() >= 3, "one alone does not use it up: {hung:?}");
    hung
}

#[test]
fn hung_peers_use_up_the_pool() {
    let (mut bench, listener) = host(32);
    let (mut live, id) = open(&mut bench, listener, 6000);
    let mut hung = hang(&mut bench, listener);
    let pool = bench.host.pool();
    assert_eq!((pool.free, pool.low_watermark), (0, 0));
    assert!(pool.refused > 0);
    let held = |owner: &PoolOwner| owner.received + owner.sent;
    assert_eq!(pool.by_owner.iter().map(held).sum::<u32>(), 32);
    // No other connection may write, and is told why; received segments are dropped.
    assert_eq!(bench.write(id, b"x"), Err(WriteError::Full));
    assert_eq!(bench.limit(id), Limit::BufferPool);
    let refused = bench.host.pool().refused;
    bench.send(live.segment(ACK, b"request"));
    assert_eq!(bench.host.pool().refused, refused + 1);
    // No ACK leaves, and no connection is opened, from neither side.
    bench.send(live.at(0, ACK, b"older"));
    let stranger = Peer::new(6001);
    assert_eq!(bench.send(stranger.syn(with_mss(1460))), []);
    bench
        .host
        .connect(
            bench.now,
            SocketAddr::new(PEER, 99),
            profile::netburner().settings,
        )
        .expect("it is opened as soon as there are buffers");
    assert_eq!(bench.drain(), []);
    assert_eq!(bench.host.counters().pool_drops, 4);
    let _ = bench.events(id);
    // One of the hung peers answers: its ACK frees its buffers, and waiting writers are told.
    let (mut first, _) = hung.remove(0);
    first.ack += 5 * 1460;
    bench.send(first.segment(ACK, b""));
    assert!(bench.host.pool().free > 0);
    assert!(bench.events(id).contains(&Event::Writable));
    assert_eq!(bench.write(id, b"x"), Ok(1));
    let sent = bench.drain();
    live.take(&sent);
    bench.send(live.segment(ACK, b"request"));
    assert_eq!(bench.read(id), b"request");
}

#[test]
fn hung_peers_are_given_up_and_give_the_pool_back() {
    let (mut bench, listener) = host(32);
    let (_, live) = open(&mut bench, listener, 6000);
    let hung = hang(&mut bench, listener);
    bench.pass(secs(4 * 3600));
    for (_, id) in &hung {
        let refused = bench.write(*id, b"x");
        assert!(matches!(refused, Err(WriteError::Failed(_))), "{refused:?}");
    }
    assert_eq!(
        bench.write(live, b"x"),
        Ok(1),
        "its peer was not asked for anything"
    );
    for (_, id) in hung {
        bench.host.close(bench.now, id);
    }
    bench.host.abort(bench.now, live);
    let pool = bench.host.pool();
    assert_eq!((pool.free, pool.by_owner), (32, vec![]));
}

#[test]
fn every_waiting_writer_is_woken() {
    let (mut bench, listener) = host(16);
    let (mut hog, hog_id) = open(&mut bench, listener, 4000);
    let (_second, second_id) = open(&mut bench, listener, 4001);
    let (_third, third_id) = open(&mut bench, listener, 4002);
    let waiting: Vec<(Peer, SocketId)> = (0..6)
        .map(|index| open(&mut bench, listener, 5000 + index))
        .collect();
    let taken = [hog_id, second_id, third_id].map(|id| fill(&mut bench, id));
    let sent = bench.drain();
    assert!(taken[0] > 0 && bench.host.pool().free == 0, "{taken:?}");
    for (_, id) in &waiting {
        assert_eq!(bench.write(*id, b"x"), Err(WriteError::Full));
        // Asking again does not queue twice.
        assert_eq!(bench.write(*id, b"x"), Err(WriteError::Full));
    }
    while bench.host.poll_event().is_some() {}
    for segment in sent
        .iter()
        .filter(|segment| segment.destination_port == 4000)
    {
        hog.take(std::slice::from_ref(segment));
    }
    let mut woken = Vec::new();
    for _ in 0..20 {
        let sent = bench.send(hog.segment(ACK, b""));
        let sent: Vec<_> = sent
            .into_iter()
            .filter(|sent| sent.destination_port == 4000)
            .collect();
        hog.take(&sent);
        while let Some((id, event)) = bench.host.poll_event() {
            if event == Event::Writable && id != hog_id {
                woken.push(id);
            }
        }
        bench.pass(millis(300));
    }
    for (_, id) in &waiting {
        assert_eq!(
            woken.iter().filter(|woken| *woken == id).count(),
            1,
            "{woken:?}"
        );
    }
    assert!(bench.host.pool().free > 0);
}

/// Neither unread nor out-of-order data is kept for a peer that is gone.
#[test]
fn received_data_holds_buffers_until_it_is_read() {
    let (mut bench, listener) = host(16);
    let (mut peer, id) = open(&mut bench, listener, 4000);
    bench.send(peer.segment(ACK, &[1; 1000]));
    peer.seq += 1000;
    bench.send(peer.at(1000, ACK | FIN, &[1; 1000]));
    assert_eq!(owners(&bench), [(id, 2, 0)]);
    assert_eq!(bench.read(id).len(), 1000);
    assert_eq!(owners(&bench), [(id, 1, 0)]);
    bench.send(peer.segment(ACK, &[1; 1000]));
    assert_eq!(bench.read(id).len(), 2000);
    bench.host.close(bench.now, id);
    let sent = bench.drain();
    peer.take(&sent);
    peer.seq += 2001;
    bench.send(peer.segment(ACK, b""));
    bench.pass(secs(300));
    assert_eq!(
        (bench.host.pool().free, bench.host.sockets().count()),
        (16, 1)
    );
}

/// Out-of-order data is dropped for others that need a buffer: the peer still has it.
#[test]
fn data_behind_gaps_does_not_stop_the_host() {
    let (mut bench, listener) = host(32);
    let (live, id) = open(&mut bench, listener, 6000);
    let mut others = Vec::new();
    for port in 4000..4050 {
        let (peer, other) = open(&mut bench, listener, port);
        for gap in 1..8 {
            bench.send(peer.at(200 * gap, ACK, &[3; 100]));
        }
        others.push((peer, other));
    }
    assert_eq!(bench.host.pool().low_watermark, 0);
    // One segment may be dropped before the others have given; its retransmission is kept.
    for _ in 0..2 {
        bench.send(live.segment(ACK, &[1; 1460]));
    }
    assert_eq!(bench.read(id).len(), 1460);
    assert!(bench.host.counters().reclaimed > 0);
    // Those who gave get theirs when it is retransmitted.
    let (peer, other) = &mut others[0];
    for _ in 0..2 {
        bench.send(peer.segment(ACK, &[3; 400]));
    }
    assert_eq!(bench.read(*other).len(), 400);
}

/// What was never delivered is not charged any more, whatever is read afterwards.
#[test]
fn a_read_after_the_end_charges_nothing() {
    let (mut bench, listener) = host(16);
    let (mut peer, id) = open(&mut bench, listener, 4000);
    bench.send(peer.segment(ACK, &[1; 1000]));
    peer.seq += 1000;
    assert!(bench.write(id, &[2; 4000]).is_ok());
    bench.drain();
    bench.send(peer.segment(ACK | RST, b""));
    assert_eq!(bench.state(id), Some(TcpState::Closed));
    assert_eq!(owners(&bench), [(id, 1, 0)]);
    let now = bench.now;
    let part = bench.host.read_chunks(now, id, 500).expect("it is there");
    assert_eq!(part.len(), 500);
    assert_eq!(owners(&bench), [(id, 1, 0)]);
    assert_eq!(bench.read(id).len(), 500);
    assert_eq!(owners(&bench), []);
}
