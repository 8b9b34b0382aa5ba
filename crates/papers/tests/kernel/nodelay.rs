//! The two programs against each other on loopback.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use papers::nodelay::{
    Client, ClientRun, ClientSpec, HEADER_AND_PAYLOAD, Handing, PIECE_BYTES, PIECES, REPLY_BYTES,
    Server, ServerSpec, Visit, elapsed_of, line, options_used,
};

fn client_spec(server: &Server) -> ClientSpec {
    ClientSpec {
        remote: server.address().expect("it listens"),
        messages: 50,
        pieces: vec![PIECE_BYTES; PIECES],
        reply_bytes: REPLY_BYTES,
        nodelay: false,
        cork: false,
        handing: Handing::Write,
        per_second: None,
    }
}

fn server(message_bytes: usize, reply_bytes: usize) -> Server {
    Server::bind(ServerSpec {
        address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        message_bytes,
        reply_bytes,
        nodelay: false,
        cork: false,
    })
    .expect("a free port")
}

/// Runs both ends.
fn run(server: &Server, spec: ClientSpec) -> (ClientRun, Visit) {
    let mut visits = Vec::new();
    let run = thread::scope(|scope| {
        let serving = scope.spawn(|| server.run(true, &mut |visit| visits.push(visit.clone())));
        let client = Client::connect(spec, &AtomicBool::new(false)).expect("connects");
        let run = client.run(&mut |_| ()).expect("a whole run");
        serving.join().expect("it ends").expect("it served");
        run
    });
    assert_eq!(visits.len(), 1);
    let visit = visits.swap_remove(0);
    assert_eq!(
        (visit.problem.as_deref(), visit.messages),
        (None, run.messages)
    );
    assert!(!run.interrupted);
    (run, visit)
}

/// The document's three lines come out of its three times.
#[test]
fn the_line_is_that_of_the_document() {
    let check = |nanos: u64, options, expected: &str| {
        let elapsed = Duration::from_nanos(nanos);
        assert_eq!(line(10_000, 30, elapsed, options), expected);
        assert_eq!(elapsed_of(expected), Some(elapsed));
    };
    check(
        400_129_781_250,
        options_used(false, false),
        "10000 packets of 30 bytes sent in 400129.781250 ms: 0.749757 bytes/ms",
    );
    check(
        1_649_771_240,
        options_used(true, false),
        "10000 packets of 30 bytes sent in 1649.771240 ms: 181.843399 bytes/ms using TCP_NODELAY",
    );
    check(
        850_796_448,
        options_used(false, true),
        "10000 packets of 30 bytes sent in 850.796448 ms: 352.610779 bytes/ms using TCP_CORK",
    );
}

/// Each way to say that a message is finished makes one segment of it; without one, NODELAY makes
/// one of each piece.
#[test]
fn a_finished_message_is_one_segment() {
    let check = |segments_each: u64, change: &dyn Fn(&mut ClientSpec)| {
        let server = server(30, REPLY_BYTES);
        let mut spec = client_spec(&server);
        change(&mut spec);
        let shown = format!("{spec:?}");
        let (run, visit) = run(&server, spec);
        // What is corked leaves after 200 ms at the latest, and the client may not run for this
        // long.
        let one_each = 50..=52;
        let segments = run.data_segments.expect("Linux counts them");
        assert!(
            one_each.contains(&(segments / segments_each)),
            "{shown}: {segments}"
        );
        assert_eq!(run.responses_ns.len(), 50, "{shown}");
        if segments_each == 1 {
            assert!(one_each.contains(&visit.buffers), "{shown}: {visit:?}");
        } else {
            assert!((50..=750).contains(&visit.buffers), "{shown}: {visit:?}");
        }
    };
    check(15, &|spec| spec.nodelay = true);
    check(1, &|spec| spec.cork = true);
    check(1, &|spec| (spec.nodelay, spec.cork) = (true, true));
    for handing in [Handing::Writev, Handing::MsgMore, Handing::Single] {
        for nodelay in [false, true] {
            check(1, &|spec| {
                (spec.handing, spec.nodelay) = (handing, nodelay);
            });
        }
    }
    let header_and_payload = |spec: &mut ClientSpec| spec.pieces = HEADER_AND_PAYLOAD.to_vec();
    check(2, &|spec| {
        header_and_payload(spec);
        spec.nodelay = true;
    });
    check(1, &|spec| {
        header_and_payload(spec);
        spec.handing = Handing::MsgMore;
    });
    check(1, &|spec| {
        header_and_payload(spec);
        (spec.handing, spec.cork) = (Handing::Sendfile, true);
    });
    check(2, &|spec| {
        header_and_payload(spec);
        (spec.handing, spec.nodelay) = (Handing::Sendfile, true);
    });
    check(1, &|spec| {
        (spec.pieces, spec.handing) = (vec![30], Handing::Sendfile);
    });
}

/// The stall of the document: two segments per message, and most messages wait for the timer.
#[test]
fn plain_writes_wait_for_the_delayed_ack() {
    let server = server(30, REPLY_BYTES);
    let (run, visit) = run(&server, client_spec(&server));
    let stalled = run.responses_ns.count_between(20_000_000, u64::MAX);
    // Nearly all; but where the client does not run for this long, the timer expires unseen.
    assert!(stalled > 25, "{stalled} of 50");
    let segments = run.data_segments.expect("Linux counts them");
    assert!((75..=250).contains(&segments), "{segments}");
    assert!((75..=250).contains(&visit.buffers), "{visit:?}");
}

#[test]
fn messages_at_a_rate_have_no_answer() {
    let server = server(30, 0);
    let spec = ClientSpec {
        messages: 20,
        nodelay: true,
        handing: Handing::Single,
        per_second: Some(200),
        ..client_spec(&server)
    };
    let (run, visit) = run(&server, spec);
    assert_eq!(run.responses_ns.len(), 0);
    // The last one leaves at 19 / 200 s; nothing bounds it above.
    assert!(run.elapsed >= Duration::from_millis(95), "{run:?}");
    let intervals = visit.intervals.expect("more than one");
    assert!(intervals.min <= intervals.mean && intervals.mean <= intervals.max);
}

/// More than the buffers of both ends hold, so that a server whose answers stay unread stops
/// reading.
#[test]
fn answers_that_nobody_awaits_are_read() {
    const BYTES: usize = 64 << 10;
    const MESSAGES: u64 = 600;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let spec = ClientSpec {
        remote: listener.local_addr().expect("it listens"),
        messages: MESSAGES,
        pieces: vec![BYTES],
        reply_bytes: BYTES,
        nodelay: true,
        cork: false,
        handing: Handing::Single,
        per_second: Some(1_000_000),
    };
    let echo = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("it comes");
        // Without the reading, both ends would wait for ever.
        let limit = Some(Duration::from_secs(20));
        stream.set_write_timeout(limit).expect("a socket");
        let mut buffer = vec![0; BYTES];
        for _ in 0..MESSAGES {
            stream.read_exact(&mut buffer)?;
            stream.write_all(&buffer)?;
        }
        Ok::<_, std::io::Error>(())
    });
    let client = Client::connect(spec, &AtomicBool::new(false)).expect("connects");
    let run = client.run(&mut |_| ());
    echo.join().expect("it ends").expect("it wrote them all");
    assert_eq!(run.expect("a whole run").messages, MESSAGES);
}

/// The queue of a listener that does not accept is full with two; the next one waits.
#[test]
fn a_stop_ends_the_wait_for_a_connection() {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
    let socket = socket.expect("a socket");
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    socket.bind(&any.into()).expect("a free port");
    socket.listen(0).expect("it listens");
    let remote = socket.local_addr().expect("it listens").as_socket();
    let remote = remote.expect("an address");
    let slice = Duration::from_millis(300);
    let mut waiting = Vec::new();
    let full = (0..8).any(
        |_| match std::net::TcpStream::connect_timeout(&remote, slice) {
            Ok(stream) => {
                waiting.push(stream);
                false
            }
            Err(error) => error.kind() == ErrorKind::TimedOut,
        },
    );
    assert!(full, "{} let in", waiting.len());
    let spec = ClientSpec {
        remote,
        ..client_spec(&server(30, REPLY_BYTES))
    };
    let stop = AtomicBool::new(false);
    let error = thread::scope(|scope| {
        let connecting = scope.spawn(|| Client::connect(spec, &stop));
        thread::sleep(slice);
        assert!(!connecting.is_finished());
        stop.store(true, Ordering::SeqCst);
        connecting
            .join()
            .expect("it ends")
            .expect_err("nobody answers")
    });
    assert!(error.to_string().contains("stopped"), "{error}");
}

#[test]
fn a_stop_ends_both_and_keeps_what_was_done() {
    let server = server(30, REPLY_BYTES);
    let mut spec = client_spec(&server);
    spec.messages = u64::MAX;
    let mut visits = Vec::new();
    let run = thread::scope(|scope| {
        let serving = scope.spawn(|| server.run(false, &mut |visit| visits.push(visit.clone())));
        let client = Client::connect(spec, &AtomicBool::new(false)).expect("connects");
        let mut stop = Some(client.stopper());
        let run = client.run(&mut |messages| {
            if let Some(stop) = stop.take_if(|_| messages == 3) {
                stop();
            }
        });
        server.stopper()();
        serving.join().expect("it ends").expect("it served");
        run
    });
    let run = run.expect("a stop is no error");
    assert_eq!((run.messages, run.interrupted), (3, true));
    assert_eq!(visits.len(), 1);
    assert_eq!(visits[0].messages, 3);
}

/// What a client says whose server closes the connection: after some messages, or when it waits for
/// the first answer.
fn closed(server: &Server, after: Option<u64>) -> String {
    let error = thread::scope(|scope| {
        let serving = scope.spawn(|| server.run(true, &mut |_| ()));
        let mut spec = client_spec(server);
        spec.messages = u64::MAX;
        let client = Client::connect(spec, &AtomicBool::new(false)).expect("connects");
        let mut stop = Some(server.stopper());
        if after.is_none() {
            let stop = server.stopper();
            scope.spawn(move || {
                thread::sleep(Duration::from_millis(200));
                stop();
            });
        }
        let mut on_message = |messages| {
            if Some(messages) == after
                && let Some(stop) = stop.take()
            {
                stop();
            }
        };
        let error = client.run(&mut on_message).expect_err("it closes");
        serving.join().expect("it ends").expect("it served");
        error
    });
    error.to_string()
}

#[test]
fn a_server_for_other_messages_is_named() {
    let rate = "started with `rate` answers nothing: its clients need `--rate`";
    let check = |server: &Server, after: Option<u64>| {
        let error = closed(server, after);
        assert!(error.contains("the same size?"), "{error}");
        assert_eq!(error.contains(rate), after.is_none(), "{error}");
    };
    check(&server(31, REPLY_BYTES), None);
    check(&server(30, 0), None);
    // One that has answered is not waited for because of a rate.
    check(&server(30, REPLY_BYTES), Some(3));
}

/// Answers that belong to parts of a message would make every time wrong.
#[test]
fn a_server_of_shorter_messages_is_noticed() {
    let server = server(30, REPLY_BYTES);
    let spec = ClientSpec {
        pieces: vec![PIECE_BYTES; 100],
        handing: Handing::Single,
        ..client_spec(&server)
    };
    let error = thread::scope(|scope| {
        scope.spawn(|| server.run(true, &mut |_| ()));
        let client = Client::connect(spec, &AtomicBool::new(false)).expect("connects");
        client.run(&mut |_| ()).expect_err("it must not go unseen")
    });
    let told = error.to_string();
    assert!(told.ends_with("start it with `--message 200`"), "{told}");
}
