//! Every workload over loopback, counted exactly at both ends.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use base::{Bytes, KnobValue, Rate};
use lab::{Amount, Completion, Direction, Quotes, Records, SizeRange, Workload, WriteMethod};

use super::*;
use crate::error::Result;

const KIB: u64 = 1 << 10;

fn spec(workload: Workload) -> RunSpec {
    RunSpec {
        workload,
        sockets: SocketSpec {
            default_congestion: Some("cubic".into()),
            ..SocketSpec::default()
        },
        warmup: Duration::ZERO,
        interval: Duration::from_millis(20),
    }
}

fn local() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// Runs both ends; the server is told to stop when the client has ended.
fn run(client: &RunSpec, server: &RunSpec) -> (Result<Summary>, Result<Summary>) {
    client.check().expect("a valid workload");
    let listener = server.sockets.listen(local()).expect("listens");
    let remote = Remote {
        address: listener.local_addr().expect("bound"),
        token: None,
        timeout: Duration::from_secs(10),
    };
    let (ours, theirs) = (Session::new(), Session::new());
    std::thread::scope(|scope| {
        let serving =
            scope.spawn(|| run_server(server, Source::Everybody(listener), &theirs, &mut |_| ()));
        let asked = run_client(client, &remote, &ours, &mut |_| ());
        theirs.stop();
        (asked, serving.join().expect("no panic"))
    })
}

fn run_same(workload: Workload) -> (Summary, Summary) {
    let spec = spec(workload);
    let (client, server) = run(&spec, &spec);
    (
        client.expect("the client ends"),
        server.expect("the server ends"),
    )
}

#[test]
fn bulk_arrives_to_the_byte_in_every_direction() {
    let check = |direction, flows, up, down| {
        let (client, server) = run_same(Workload::Bulk {
            direction,
            flows,
            write_size: Bytes(10_000),
            unacked: None,
            amount: Amount::Bytes(Bytes(1_000_003)),
        });
        let flows = u64::from(flows);
        assert_eq!(client.all_sent_bytes, up * flows, "{direction:?}");
        assert_eq!(server.all_received_bytes, up * flows, "{direction:?}");
        assert_eq!(server.all_sent_bytes, down * flows, "{direction:?}");
        assert_eq!(client.all_received_bytes, down * flows, "{direction:?}");
        let arrived = client.measured.received_bytes + server.measured.received_bytes;
        assert!(arrived > 0, "{direction:?}: something was measured");
    };
    check(Direction::Up, 1, 1_000_003, 0);
    check(Direction::Down, 2, 0, 1_000_003);
    check(Direction::Both, 3, 1_000_003, 1_000_003);
}

#[test]
fn a_bounded_bulk_arrives_to_the_byte_in_every_direction() {
    for direction in [Direction::Up, Direction::Down, Direction::Both] {
        let (client, server) = run_same(Workload::Bulk {
            direction,
            flows: 1,
            write_size: Bytes(10_000),
            unacked: Some(Bytes(5_000)),
            amount: Amount::Bytes(Bytes(100_003)),
        });
        let sent = client.all_sent_bytes + server.all_sent_bytes;
        let received = client.all_received_bytes + server.all_received_bytes;
        let ways = 1 + u64::from(direction == Direction::Both);
        assert_eq!((sent, received), (100_003 * ways, 100_003 * ways));
    }
}

#[test]
fn a_bulk_of_a_time_ends_and_loses_nothing() {
    for direction in [Direction::Up, Direction::Down] {
        let (client, server) = run_same(Workload::Bulk {
            direction,
            flows: 1,
            write_size: Bytes(128 * KIB),
            unacked: None,
            amount: Amount::Time(Duration::from_millis(200)),
        });
        assert_eq!(client.all_sent_bytes, server.all_received_bytes);
        assert_eq!(client.all_received_bytes, server.all_sent_bytes);
        assert_eq!(client.ended, Ended::Complete);
        assert_eq!(client.congestion, settable_congestion("cubic"));
    }
}

/// Runs a workload and compares what both ends counted; `up` and `down` are bytes of an operation.
#[track_caller]
fn check_counts(workload: &Workload, up: u64, down: u64, operations: u64) {
    let (client, server) = run_same(workload.clone());
    let name = format!("{workload:?}");
    assert_eq!(client.all_operations, operations, "{name}");
    assert_eq!(server.all_operations, operations, "{name}");
    assert_eq!(client.all_sent_bytes, operations * up, "{name}");
    assert_eq!(server.all_received_bytes, operations * up, "{name}");
    assert_eq!(client.all_received_bytes, operations * down, "{name}");
    let response = client.measured.response_us().expect("timed");
    assert_eq!(response.n, operations, "{name}");
    assert!(
        response.p50 <= response.p99 && response.p99 <= response.max,
        "{name}"
    );
}

#[test]
fn operations_are_counted_at_both_ends() {
    let amount = Amount::Operations(50);
    let quotes = |delayed_acks, amount| {
        Workload::Quotes(Quotes {
            writes: 2,
            delayed_acks,
            ..Quotes::new(Bytes(50), Bytes(101), amount)
        })
    };
    let requests = Workload::RequestResponse {
        request: Bytes(200_000),
        response: Bytes(300_001),
        flows: 2,
        amount,
    };
    check_counts(&requests, 200_000, 300_001, 100);
    let connections = Workload::ConnectRequestClose {
        request: Bytes(100),
        response: Bytes(1000),
        amount,
    };
    check_counts(&connections, 100, 1000, 50);
    check_counts(&quotes(false, amount), 100, 101, 50);
    check_counts(&quotes(true, Amount::Operations(4)), 100, 101, 4);
    for reconnect in [false, true] {
        let burst = Workload::Bursts {
            burst: Bytes(300_000),
            idle: Duration::from_millis(1),
            reconnect,
            amount: Amount::Operations(5),
        };
        check_counts(&burst, 300_000, 1, 5);
    }
}

#[test]
fn requests_in_pieces_are_counted_however_they_are_handed_over() {
    let wwr = |method| Workload::WriteWriteRead {
        writes: 3,
        write_size: Bytes(100),
        pieces: Vec::new(),
        reply: Bytes(7),
        method,
        amount: Amount::Operations(50),
        uncork_after: Duration::ZERO,
    };
    for method in [WriteMethod::Writev, WriteMethod::MsgMore, WriteMethod::Cork] {
        check_counts(&wwr(method), 300, 7, 50);
    }
    for method in [
        WriteMethod::Writev,
        WriteMethod::MsgMore,
        WriteMethod::CorkSendfile,
    ] {
        let mut workload = wwr(method);
        if let Workload::WriteWriteRead {
            pieces,
            uncork_after,
            ..
        } = &mut workload
        {
            *pieces = vec![Bytes(6), Bytes(24)];
            *uncork_after = Duration::from_millis(1);
        }
        check_counts(&workload, 30, 7, 50);
    }
}

/// Linux 6.18 net/ipv4/tcp_output.c, tcp_nagle_check: the second segment waits for the ACK of the
/// first one, which the reader delays by 40 ms. The ratio to the fix is beyond doubt.
#[test]
fn the_faults_stall_and_their_cures_do_not() {
    let run = |method, settings: &[(&'static str, KnobValue)]| {
        let mut spec = spec(Workload::WriteWriteRead {
            writes: 2,
            write_size: Bytes(100),
            pieces: Vec::new(),
            reply: Bytes(1),
            method,
            amount: Amount::Operations(12),
            uncork_after: Duration::ZERO,
        });
        spec.sockets.settings.extend(settings.iter().cloned());
        let (client, server) = super::tests::run(&spec, &spec);
        server.expect("the server ends");
        client
            .expect("the client ends")
            .measured
            .responses_ns
            .quantile(0.5)
    };
    let stalled = run(WriteMethod::Write, &[]);
    let cured = run(WriteMethod::Write, &[("nodelay", KnobValue::Flag(true))]);
    let corked = run(
        WriteMethod::CorkForever,
        &[("nodelay", KnobValue::Flag(true))],
    );
    assert!(stalled > cured * 5, "{stalled:?} against {cured:?}");
    assert!(corked > cured * 5, "{corked:?} against {cured:?}");
}

#[test]
fn records_are_done_when_written_or_when_acknowledged() {
    for (completion, per_second) in [
        (Completion::Written, None),
        (Completion::Written, Some(1000)),
        (Completion::Acknowledged, None),
    ] {
        let (client, server) = run_same(Workload::Records(Records {
            per_second,
            completion,
            ..Records::new(Bytes(100), Amount::Operations(40))
        }));
        assert_eq!(server.all_received_bytes, 4_000);
        assert_eq!(client.measured.response_us().expect("timed").n, 40);
    }
}

#[test]
fn joined_records_and_quotes_count_one_by_one() {
    let sizes = SizeRange {
        min: Bytes(20),
        max: Bytes(100),
    };
    let records = Records {
        record: sizes,
        seed: 7,
        joined: 8,
        header: Bytes(4),
        ..Records::new(Bytes(1), Amount::Operations(80))
    };
    let mut writes = records.writes();
    let expected: u64 = (0..10).map(|_| writes.next_bytes()).sum();
    let (client, server) = run_same(Workload::Records(records));
    assert_eq!(client.all_operations, 80);
    assert_eq!(client.measured.response_us().expect("timed").n, 80);
    assert_eq!(server.all_received_bytes, expected);

    let (client, server) = run_same(Workload::Quotes(Quotes {
        joined: 10,
        one_connection: true,
        ..Quotes::new(Bytes(8), Bytes(32), Amount::Operations(50))
    }));
    assert_eq!((client.all_operations, server.all_operations), (50, 50));
    assert_eq!(server.all_received_bytes, 400);
    assert_eq!(client.all_received_bytes, 1600);
}

#[test]
fn a_writer_that_does_not_block_waits_for_room() {
    let mut spec = spec(Workload::Records(Records {
        non_blocking: true,
        read_size: Some(Bytes(30_000)),
        read_pause: Duration::from_millis(1),
        ..Records::new(Bytes(100_000), Amount::Operations(20))
    }));
    let small = KnobValue::Number(4608);
    for buffer in ["sndbuf", "rcvbuf"] {
        spec.sockets.settings.insert(buffer, small.clone());
    }
    let (client, server) = run(&spec, &spec);
    let (client, server) = (client.expect("it ends"), server.expect("it ends"));
    assert_eq!(client.all_sent_bytes, 2_000_000);
    assert_eq!(server.all_received_bytes, 2_000_000);
    // A megabyte per 34 reads: the writer had to wait.
    assert!(client.measured.response_us().expect("timed").max >= 1000);
}

#[test]
fn readers_and_writers_keep_their_pace() {
    let (_, server) = run_same(Workload::SlowReader {
        read_size: Bytes(5 * KIB),
        every: Duration::from_millis(10),
        amount: Amount::Time(Duration::from_millis(300)),
    });
    // One read per period of the time that was really measured, and one at either end.
    let reads = server.measured.received_bytes / (5 * KIB);
    assert!(
        reads as f64 <= server.measured.duration_s * 100.0 + 2.0,
        "{server:?}"
    );
    let (client, server) = run_same(Workload::Paced {
        rate: Rate::from_bits_per_second(8_000_000),
        write_size: Bytes(1000),
        amount: Amount::Time(Duration::from_millis(300)),
    });
    let writes = client.all_sent_bytes / 1000;
    assert!(
        writes as f64 <= client.measured.duration_s * 1000.0 + 2.0,
        "{client:?}"
    );
    assert_eq!(server.all_received_bytes, client.all_sent_bytes);
}

/// As long as the longest pause of the other end, and no shorter; a transfer without pauses has
/// none of that length.
#[test]
fn the_longest_silence_of_a_reader_is_told() {
    let pause = Duration::from_millis(60);
    let bursts = Workload::Bursts {
        burst: Bytes(30_000),
        idle: pause,
        reconnect: false,
        amount: Amount::Operations(4),
    };
    let (client, server) = run_same(bursts);
    let silence = server.silence_max_us.expect("several bursts were read");
    assert!(silence >= 60_000, "{silence} us");
    // What a client reads are answers, one a burst.
    assert!(client.silence_max_us >= Some(60_000), "{client:?}");
}

#[test]
fn a_server_that_closes_early_is_an_error() {
    let listener = TcpListener::bind(local()).expect("binds");
    let remote = Remote {
        address: listener.local_addr().expect("bound"),
        token: None,
        timeout: Duration::from_secs(10),
    };
    let spec = spec(Workload::RequestResponse {
        request: Bytes(1),
        response: Bytes(1),
        flows: 1,
        amount: Amount::Time(Duration::from_secs(60)),
    });
    let closer = std::thread::spawn(move || drop(listener.accept()));
    let error = run_client(&spec, &remote, &Session::new(), &mut |_| ()).expect_err("closed");
    assert!(
        error.to_string().contains("closed the connection"),
        "{error}"
    );
    closer.join().expect("no panic");
}

#[test]
fn a_client_that_was_reset_is_named() {
    let listener = TcpListener::bind(local()).expect("binds");
    let client = TcpStream::connect(listener.local_addr().expect("bound")).expect("connects");
    let (accepted, client_address) = listener.accept().expect("a connection");
    let session = Session::new();
    let amount = Amount::Operations(1);
    let flow = flow::Flow::new(&session, &SocketSpec::default(), amount, accepted);
    socket2::SockRef::from(&client)
        .set_linger(Some(Duration::ZERO))
        .expect("it can be set");
    drop(client);
    let failed = std::io::Read::read(&mut &*flow.stream, &mut [0]).expect_err("a reset");
    let error = flow.error(failed).to_string();
    let expected = format!("{client_address} closed the connection in the middle of the test");
    assert_eq!(error, expected);
}

#[test]
fn a_server_outlives_its_clients_and_stops_on_command() {
    let spec = spec(Workload::RequestResponse {
        request: Bytes(10),
        response: Bytes(10),
        flows: 1,
        amount: Amount::Operations(5),
    });
    let listener = spec.sockets.listen(local()).expect("listens");
    let remote = Remote {
        address: listener.local_addr().expect("bound"),
        token: None,
        timeout: Duration::from_secs(10),
    };
    let session = Session::new();
    let summary = std::thread::scope(|scope| {
        let serving =
            scope.spawn(|| run_server(&spec, Source::Everybody(listener), &session, &mut |_| ()));
        for _ in 0..3 {
            run_client(&spec, &remote, &Session::new(), &mut |_| ()).expect("served");
            // Breaks off in the middle of a request.
            drop(TcpStream::connect(remote.address).expect("connects"));
        }
        session.stop();
        serving.join().expect("no panic").expect("no failure")
    });
    assert_eq!(summary.all_operations, 15);
    assert_eq!(summary.ended, Ended::Stopped);
}

#[test]
fn nonsense_is_refused_with_its_range() {
    let check = |workload: Workload, expected: &str| {
        let message = spec(workload).check().expect_err("nonsense");
        assert!(message.contains(expected), "{message}");
    };
    let bulk = |flows, write_size, amount| Workload::Bulk {
        direction: Direction::Up,
        flows,
        write_size: Bytes(write_size),
        unacked: None,
        amount,
    };
    let second = Amount::Time(Duration::from_secs(1));
    check(bulk(0, 1, second), "flows 0: the range is 1 to 128");
    check(bulk(1, 0, second), "write size 0B: the range is 1B to 1MiB");
    let mut bounded = bulk(1, 1, second);
    if let Workload::Bulk { unacked, .. } = &mut bounded {
        *unacked = Some(Bytes(0));
    }
    check(bounded, "unacked 0B: the range is 1B to 1GiB");
    check(bulk(1, 1, Amount::Bytes(Bytes(0))), "an amount of nothing");
    check(
        bulk(1, 1, Amount::Time(Duration::ZERO)),
        "time: the range is 1ms",
    );
}

/// Connections of a distant client come one after the other, and what it sends comes when all are
/// open: the time before that is not measured.
#[test]
fn a_server_measures_from_the_first_byte_on() {
    let spec = spec(Workload::Bulk {
        direction: Direction::Up,
        flows: 2,
        write_size: Bytes(64 * KIB),
        amount: Amount::Time(Duration::from_millis(300)),
        unacked: None,
    });
    let listener = TcpListener::bind(local()).expect("binds");
    let address = listener.local_addr().expect("bound");
    let connect = || {
        let client = TcpStream::connect(address).expect("connects");
        (client, listener.accept().expect("accepts").0)
    };
    let (coming, queue) = std::sync::mpsc::channel();
    let session = Session::new();
    let summary = std::thread::scope(|scope| {
        let serving =
            scope.spawn(|| run_server(&spec, Source::Queue(queue), &session, &mut |_| ()));
        let mut clients = Vec::new();
        for _ in 0..2 {
            let (client, server) = connect();
            coming.send(server).expect("is served");
            clients.push(client);
            std::thread::sleep(Duration::from_millis(400));
        }
        for client in &mut clients {
            // With its greeting unread, the close would reset the connection.
            std::io::Read::read_exact(client, &mut [0]).expect("is greeted");
            std::io::Write::write_all(client, &[1; 1000]).expect("is read");
        }
        drop(clients);
        serving.join().expect("no panic").expect("no failure")
    });
    assert_eq!(summary.measured.received_bytes, 2000);
}
