//! What an application sees and sets: urgent data, calls, and the trace.

use std::sync::{Arc, Mutex};

use base::tcp::TcpFlags;
use base::{Instant, KnobValue};
use tcptailor_stack::profile;
use tcptailor_stack::{
    EcnMark, Event, IcmpKind, Segment, SegmentOptions, SocketId, Trace, TraceEvent, WriteFlags,
};

use crate::hand::{
    ACK, Bench, HOST, PORT, Peer, RST, established, established_with, secs, with_mss,
};

#[test]
fn urgent_data_stays_in_line() {
    let (mut bench, peer, id) = established(&profile::linux_6_18());
    let segment = Segment {
        urgent: 2,
        ..peer.segment(ACK | TcpFlags::URG, b"ab!cd")
    };
    bench.send(segment);
    assert_eq!(bench.read(id), b"ab!cd");
    let urgent = WriteFlags::default().with_urgent(true);
    let chunk = bytes::Bytes::from_static(b"stop");
    bench
        .host
        .write_chunk(bench.now, id, chunk, urgent)
        .unwrap();
    let sent = bench.drain();
    assert!(sent[0].flags.contains(TcpFlags::URG));
    assert_eq!((sent[0].urgent, sent[0].payload.len()), (4, 4));
}

#[test]
fn settings_that_are_calls() {
    let (mut bench, mut peer, id) = established(&profile::linux_6_18());
    let now = bench.now;
    let size = bench.sample(id).sndbuf_bytes.unwrap();
    bench
        .host
        .set(now, id, "buf_lock", &KnobValue::Number(1))
        .unwrap();
    let sample = bench.sample(id);
    assert_eq!(
        (sample.sndbuf_locked, sample.sndbuf_bytes),
        (Some(true), Some(size))
    );
    assert_eq!(sample.rcvbuf_locked, Some(false));
    bench
        .host
        .set(now, id, "buf_lock", &KnobValue::Number(0))
        .unwrap();
    assert_eq!(bench.sample(id).sndbuf_locked, Some(false));
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
    let options = SegmentOptions {
        sack_permitted: true,
        ..with_mss(1460)
    };
    let id = peer.open(&mut bench, listener, options);
    bench.write(id, &[1; 5000]).unwrap();
    let sent = bench.drain();
    bench.pass(secs(1));
    peer.take(&sent);
    bench.send_marked(peer.segment(ACK, b"abc"), EcnMark::Ce);
    bench.send(peer.at(1 << 29, ACK, b"far"));
    bench.write(id, &[1; 5000]).unwrap();
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

/// Events of a socket that its application has closed are not reported.
#[test]
fn nothing_is_told_of_a_closed_socket() {
    let (mut bench, mut peer, id) = established(&profile::linux_6_18());
    let now = bench.now;
    while bench.write(id, &[1; 60_000]) == Ok(60_000) {}
    let sent = bench.drain();
    bench.host.close(now, id);
    let _ = bench.events(id);
    peer.take(&sent);
    for _ in 0..200 {
        let sent = bench.send(peer.segment(ACK, b""));
        peer.take(&sent);
    }
    assert_eq!(bench.events(id), []);
    assert_eq!(bench.host.unacked_bytes(id), 0, "all of it arrived");
}

/// Another way to find losses counts when nothing is marked by the old one.
#[test]
fn loss_detection_changes_between_two_recoveries() {
    for (first, then) in [
        ("rack", "newreno"),
        ("newreno", "rack"),
        ("dupsack", "newreno"),
    ] {
        let sack = SegmentOptions {
            sack_permitted: true,
            ..with_mss(1460)
        };
        let (mut bench, mut peer, id) =
            established_with(&profile::linux_6_18(), Peer::new(4000), sack);
        let set = |bench: &mut Bench, name: &str| {
            let knob = base::find_knob("loss_detection").unwrap();
            let value = knob.parse(name).unwrap();
            let now = bench.now;
            bench.host.set(now, id, "loss_detection", &value).unwrap();
        };
        set(&mut bench, first);
        assert_eq!(bench.write(id, &[1; 14_600]), Ok(14_600));
        let sent = bench.drain();
        let (from, to) = (sent[0].seq + 1460, sent[0].seq + 4380);
        let blocks = base::tcp::SackBlocks::new(&[(from, to)]);
        let mut ack = peer.segment(ACK, b"");
        ack.options.sack = Some(blocks);
        for _ in 0..2 {
            bench.send(ack.clone());
        }
        set(&mut bench, then);
        bench.send(ack.clone());
        bench.pass(secs(1));
        peer.take(&sent);
        bench.send(peer.segment(ACK, b""));
        let sample = bench.sample(id);
        assert_eq!(
            (sample.unacked_pkts, sample.sacked_pkts, sample.lost_pkts),
            (Some(0), Some(0), Some(0)),
            "{first} to {then}"
        );
        assert_eq!(bench.write(id, b"more"), Ok(4));
        let more = bench.drain();
        peer.take(&more);
        bench.send(peer.segment(ACK, b""));
        let state = bench.sample(id).congestion_state;
        assert_eq!(
            state,
            Some(base::CongestionState::Open),
            "{first} to {then}"
        );
    }
}

/// Linux `tcp_data_ready`, `inet_shutdown`: by what a reader is woken, and how often.
#[test]
fn a_reader_is_told_once_of_as_much_as_it_waits_for() {
    let (mut bench, mut peer, id) = established(&profile::linux_6_18());
    bench.events(id);
    let wait_for = |bench: &mut Bench, bytes| {
        let value = KnobValue::Number(bytes);
        bench.host.set(bench.now, id, "rcvlowat", &value).unwrap();
        bench.events(id)
    };
    let mut arrive = |bench: &mut Bench, text: &str| {
        bench.send(peer.segment(ACK, text.as_bytes()));
        peer.seq += text.len() as u32;
        bench.events(id)
    };
    assert!(wait_for(&mut bench, 10).is_empty());
    assert!(arrive(&mut bench, "four").is_empty(), "too little");
    assert_eq!(arrive(&mut bench, "and six"), [Event::Readable]);
    assert!(arrive(&mut bench, "more").is_empty(), "it is told already");
    let seen = bench.host.peek_chunks(bench.now, id, 8).unwrap();
    assert_eq!(seen.to_vec(), b"fourand ");
    let taken = bench.host.read_chunks(bench.now, id, 8).unwrap();
    assert_eq!(taken.to_vec(), b"fourand ");
    // Too little is left, so that the next is told again.
    assert!(!bench.host.is_readable(id));
    assert_eq!(arrive(&mut bench, "ten"), [Event::Readable]);
    assert!(wait_for(&mut bench, 20).is_empty());
    assert_eq!(wait_for(&mut bench, 5), [Event::Readable]);
    assert_eq!(bench.read(id), b"sixmoreten");
    assert!(!bench.host.is_readable(id));
    bench.host.shutdown_read(bench.now, id);
    assert_eq!(bench.events(id), [Event::Readable]);
    let end = bench.host.read_chunks(bench.now, id, 8).unwrap();
    assert!(end.is_empty() && bench.drain().is_empty());
}
