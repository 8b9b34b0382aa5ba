//! Hostile peers: clients that are many, slow, silent or wrong beside an honest one, and servers
//! that lie, or never end.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base::Bytes;
use lab::{Amount, Direction, Workload};

use super::admission::Rules;
use super::channel::Channel;
use super::opening::{ClientHandshake, REPLY_BYTES, Reply};
use super::protocol::{FromClient, FromServer, Nonce};
use super::server::STARTUPS_PER_ADDRESS;
use super::tests::{
    TIMEOUT, bench, connect, guest, host, key, local, request_response, spec, stranger,
    with_server, with_this_server,
};
use super::{BenchClient, Event, Key, Limits, Serve};
use crate::workload::{Ended, Interval, Phase, ResponseCounts, RunSpec, Session, Summary, Totals};

fn open(address: SocketAddr) -> TcpStream {
    TcpStream::connect(address).expect("connects")
}

/// Seen before this was bounded: 72 connections of one address that send one byte, or one now and
/// then, and no client is served any more.
#[test]
fn many_connections_that_say_little_shut_nobody_out() {
    with_server(Limits::default(), None, |address| {
        let crowds: [&[u8]; 4] = [b"", b"t", b"\0", b"tcptailor\x02\0"];
        let mut crowd: Vec<TcpStream> = Vec::new();
        for words in crowds {
            for _ in 0..72 {
                let mut one = open(address);
                let _ = one.write_all(words);
                crowd.push(one);
            }
            bench(&mut connect(address), &request_response()).expect("served beside them");
            // A byte more does not make them last longer.
            for one in &mut crowd {
                let _ = one.write_all(b"c");
            }
        }
        bench(&mut connect(address), &request_response()).expect("served beside them");
    });
}

#[test]
fn new_connections_do_not_harm_a_run_of_the_same_address() {
    with_server(Limits::default(), None, |address| {
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut kept = Vec::new();
                    while !over.load(Ordering::Relaxed) {
                        let Ok(mut one) = TcpStream::connect(address) else {
                            continue;
                        };
                        let _ = one.write_all(b"t");
                        kept.push(one);
                        kept.truncate(50);
                    }
                });
            }
            let outcome = std::panic::catch_unwind(|| {
                for _ in 0..5 {
                    bench(&mut connect(address), &request_response()).expect("served");
                }
            });
            over.store(true, Ordering::Relaxed);
            outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        });
    });
}

/// The whole opening has one time: what drips in does not prolong it.
#[test]
fn an_opening_that_drips_is_cut_off() {
    let events = with_server(Limits::default(), None, |address| {
        let mut slow = open(address);
        let (_, hello) = ClientHandshake::new(None);
        let cut_off = hello[..58].iter().any(|byte| {
            let written = slow.write_all(&[*byte]);
            std::thread::sleep(Duration::from_millis(200));
            written.is_err()
        });
        assert!(cut_off, "58 bytes in 11.6 s");
        // Nor does silence after it.
        let mut silent = stranger(address);
        assert!(silent.receive::<FromServer>(TIMEOUT).is_err());
    });
    let in_time = |event: &&Event| matches!(event, Event::Refused { reason, .. } if reason.contains("in time"));
    assert_eq!(events.iter().filter(in_time).count(), 2, "{events:?}");
}

#[test]
fn a_recorded_opening_is_of_no_use() {
    let key = key('a');
    with_server(Limits::default(), Some(key.clone()), |address| {
        let (_, hello) = ClientHandshake::new(Some(&key));
        let mut thief = open(address);
        thief.write_all(&hello).expect("sent");
        let _ = thief
            .read(&mut [0; 100])
            .expect("an answer that it cannot read");
        thief.write_all(&[0, 30, 1, 2, 3]).expect("sent");
        let _ = thief.write_all(&[7; 27]);
        assert_eq!(thief.read_to_end(&mut Vec::new()).unwrap_or(0), 0);
        let mut client = BenchClient::connect(address, Some(&key), TIMEOUT).expect("let in");
        bench(&mut client, &request_response()).expect("served");
    });
}

/// As with sshd: guesses are answered, until the address has to wait. Other addresses need not.
#[test]
fn wrong_keys_make_an_address_wait() {
    let (right, wrong) = (key('a'), key('b'));
    let limits = Limits::default();
    let rules = Rules {
        startups: limits.startups,
        startups_per_address: STARTUPS_PER_ADDRESS,
        clients: limits.clients,
        clients_per_address: limits.clients_per_address,
        spare_loopback: false,
    };
    let serve = Serve::with_rules(local(), limits, Some(right.clone()), rules).expect("listens");
    let events = with_this_server(&serve, |address| {
        let attempt = |key: &Key| {
            let outcome = BenchClient::connect(address, Some(key), TIMEOUT);
            outcome.map(drop).map_err(|error| error.to_string())
        };
        // Penalties pass while they add up: the fourth is above the least that is enforced.
        for _ in 0..4 {
            let message = attempt(&wrong).expect_err("a wrong key");
            assert!(message.contains("does not hold the key"), "{message}");
        }
        for key in [&wrong, &right] {
            let message = attempt(key).expect_err("it has to wait");
            assert!(
                message.contains("refuses connections from this address for "),
                "{message}"
            );
        }
        // From another address.
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
        let socket = socket.expect("a socket");
        let other = SocketAddr::from(([127, 0, 0, 2], 0));
        socket
            .bind(&other.into())
            .expect("all of 127.0.0.0/8 is of this host");
        socket.connect(&address.into()).expect("connects");
        let mut stream = TcpStream::from(socket);
        let (greeting, hello) = ClientHandshake::new(Some(&right));
        stream.write_all(&hello).expect("sent");
        let mut reply = [0; REPLY_BYTES];
        stream.read_exact(&mut reply).expect("an answer");
        assert!(matches!(greeting.finish(&reply), Reply::Accepted(_)));
    });
    let waits = events.iter().filter(
        |event| matches!(event, Event::Refused { reason, .. } if reason.contains("has to wait")),
    );
    assert_eq!(waits.count(), 2, "{events:?}");
}

/// `bdp` times handshakes, and health checks look whether a port is open.
#[test]
fn who_only_looks_whether_the_port_is_open_is_not_told() {
    let events = with_server(Limits::default(), None, |address| {
        for _ in 0..20 {
            drop(open(address));
        }
        bench(&mut connect(address), &request_response()).expect("served");
    });
    let told = events
        .iter()
        .filter(|event| matches!(event, Event::Refused { .. }))
        .count();
    assert_eq!(told, 0, "{events:?}");
}

#[test]
fn a_client_without_a_run_loses_its_place_whatever_it_says() {
    let limits = Limits {
        idle: Duration::from_secs(1),
        ..Limits::default()
    };
    let events = with_server(limits, None, |address| {
        let mut chatty = guest(address);
        let dropped = (0..600).any(|n| {
            std::thread::sleep(Duration::from_millis(100));
            let message = if n % 2 == 0 {
                FromClient::Alive
            } else {
                FromClient::Ping { n }
            };
            chatty.send(&message).is_err()
                || chatty
                    .receive::<FromServer>(Duration::from_millis(1))
                    .is_err()
        });
        assert!(dropped);
    });
    let idle = events.iter().any(|event| {
        matches!(event, Event::Left { reason: Some(reason), .. } if reason.contains("for a run"))
    });
    assert!(idle, "{events:?}");
}

#[test]
fn an_address_has_so_many_clients_and_no_more() {
    let limits = Limits {
        clients_per_address: 2,
        ..Limits::default()
    };
    with_server(limits, None, |address| {
        let _guests = [guest(address), guest(address)];
        let error = BenchClient::connect(address, None, TIMEOUT).expect_err("one too many");
        assert!(error.to_string().contains("one client too many"), "{error}");
    });
}

#[test]
fn garbage_after_the_opening_ends_the_connection() {
    with_server(Limits::default(), None, |address| {
        for garbage in [
            &[0, 0][..],
            &[0xff; 100],
            &[0, 17, 1, 2],
            &[
                0, 20, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9,
            ],
        ] {
            let mut stream = open(address);
            let (_, hello) = ClientHandshake::new(None);
            stream.write_all(&hello).expect("sent");
            let mut reply = [0; REPLY_BYTES];
            stream.read_exact(&mut reply).expect("an answer");
            let _ = stream.write_all(garbage);
            let _ = stream.shutdown(Shutdown::Write);
            assert_eq!(stream.read_to_end(&mut Vec::new()).unwrap_or(0), 0);
        }
        bench(&mut connect(address), &request_response()).expect("served");
    });
}

/// A server by hand that lets one run begin, and the outcome of that run at an honest client.
fn against(
    run: &RunSpec,
    play: impl FnOnce(&TcpListener, &mut Channel) + Send + 'static,
) -> Result<super::BenchOutcome, String> {
    let listener = TcpListener::bind(local()).expect("binds");
    let address = listener.local_addr().expect("bound");
    let server = std::thread::spawn(move || {
        let mut channel = host(&listener);
        let _: FromClient = channel.expect(TIMEOUT).expect("prepare");
        let token = Nonce([7; 16]);
        channel
            .send(&FromServer::Prepared { token, port: None })
            .expect("sent");
        play(&listener, &mut channel);
    });
    let outcome = bench(&mut connect(address), run).map_err(|error| error.to_string());
    server.join().expect("no panic");
    outcome
}

/// Takes a data connection and all that comes on it, and returns how much that was; 0 if the client
/// opens none, as one that left before.
fn swallow(listener: &TcpListener) -> u64 {
    let waits = socket2::SockRef::from(listener).set_read_timeout(Some(TIMEOUT));
    waits.expect("set");
    let Ok((mut data, _)) = listener.accept() else {
        return 0;
    };
    data.read_exact(&mut [0; 17]).expect("the token");
    data.write_all(&[6]).expect("sent");
    std::io::copy(&mut data, &mut std::io::sink()).unwrap_or(0)
}

fn upload(amount: Amount) -> RunSpec {
    spec(Workload::Bulk {
        direction: Direction::Up,
        flows: 1,
        write_size: Bytes(10_000),
        unacked: None,
        amount,
    })
}

#[test]
fn a_server_that_lies_is_not_believed() {
    let check = |duration_s: f64, factor: u64, expected: Option<&str>| {
        let outcome = against(
            &upload(Amount::Bytes(Bytes(1_000_000))),
            move |listener, channel| {
                let got = swallow(listener) * factor;
                let summary = Summary {
                    measured: Totals {
                        duration_s,
                        received_bytes: got,
                        ..Totals::default()
                    },
                    all_received_bytes: got,
                    ..Summary::default()
                };
                channel
                    .send(&FromServer::Done(Box::new(summary)))
                    .expect("sent");
            },
        );
        match (outcome, expected) {
            (Ok(outcome), None) => {
                // 1 MB in 3.4 us would be 2.33 Tbit/s.
                let (sent, told) = (&outcome.client.measured, &outcome.server.measured);
                assert!(told.duration_s >= sent.duration_s / 4.0, "{outcome:?}");
            }
            (Err(message), Some(expected)) => assert!(message.contains(expected), "{message}"),
            (outcome, _) => panic!("{duration_s} {factor}: {outcome:?}"),
        }
    };
    check(1000.0, 1, None);
    check(1000.0, 5, Some("at most 3097152B were sent"));
    check(3.43e-6, 1, None);
}

#[test]
fn reports_of_a_server_that_lies_end_the_run() {
    let outcome = against(
        &upload(Amount::Time(Duration::from_secs(60))),
        |listener, channel| {
            let interval = Interval {
                end_ns: 0,
                length_ns: 1_000_000,
                phase: Phase::Measured,
                received_bytes: 1 << 50,
                sent_bytes: 0,
                operations: 0,
                responses_ns: ResponseCounts::default(),
                sending: None,
            };
            channel.send(&FromServer::Interval(interval)).expect("sent");
            swallow(listener);
        },
    );
    let message = outcome.expect_err("a lie");
    assert!(message.contains("it received 1048576GiB"), "{message}");
}

/// Was seen: `alive` for ever hangs a client.
#[test]
fn a_server_that_only_says_that_it_is_there_is_left() {
    let outcome = against(
        &upload(Amount::Time(Duration::from_millis(100))),
        |listener, channel| {
            swallow(listener);
            // As long as there is a listener, at most for a minute.
            let left = (0..600).any(|_| {
                std::thread::sleep(Duration::from_millis(100));
                channel.send(&FromServer::Alive).is_err()
            });
            assert!(left);
        },
    );
    let message = outcome.expect_err("no summary");
    assert!(message.contains("its time is over"), "{message}");
}

#[test]
fn a_server_that_says_nothing_else_before_a_run_is_left() {
    let listener = TcpListener::bind(local()).expect("binds");
    let address = listener.local_addr().expect("bound");
    let server = std::thread::spawn(move || {
        let channel = host(&listener);
        // As long as there is a listener, at most for a minute.
        (0..600).any(|_| {
            std::thread::sleep(Duration::from_millis(100));
            channel.send(&FromServer::Alive).is_err()
        })
    });
    let timeout = Duration::from_secs(1);
    let mut client = BenchClient::connect(address, None, timeout).expect("let in");
    client.idle_rtt().expect_err("no answer");
    bench(&mut client, &request_response()).expect_err("not prepared");
    drop(client);
    assert!(server.join().expect("no panic"), "it was left");
}

#[test]
fn a_server_that_answers_what_was_not_asked_is_left() {
    let outcome = against(
        &upload(Amount::Time(Duration::from_secs(60))),
        |listener, channel| {
            channel.send(&FromServer::Pong { n: 99 }).expect("sent");
            swallow(listener);
        },
    );
    let message = outcome.expect_err("not asked");
    assert!(message.contains("what was not asked"), "{message}");
}

#[test]
fn an_honest_run_says_how_late_answers_are_under_load() {
    with_server(Limits::default(), None, |address| {
        let mut client = connect(address);
        let idle = client.idle_rtt().expect("answers");
        assert_eq!(idle.len(), 10);
        let run = upload(Amount::Time(Duration::from_millis(500)));
        let outcome = client.run(&run, &run.sockets, &Session::new(), &|_, _| ());
        let outcome = outcome.expect("runs");
        assert_eq!(outcome.client.ended, Ended::Complete);
        assert!(!outcome.loaded_rtt.is_empty());
    });
}
