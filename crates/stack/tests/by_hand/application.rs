//! What an application sees and sets: urgent data, calls, and the trace.

use std::sync::{Arc, Mutex};

use base::tcp::TcpFlags;
use base::{Instant, KnobValue};
use stack::profile;
use stack::{EcnMark, IcmpKind, Segment, SegmentOptions, SocketId, Trace, TraceEvent, WriteFlags};

use crate::hand::{ACK, Bench, HOST, PORT, Peer, RST, established, secs, with_mss};

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
