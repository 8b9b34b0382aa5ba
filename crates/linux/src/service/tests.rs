//! Client and server over loopback; and peers that misbehave.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Mutex;
use std::time::Duration;

use base::{Bytes, KnobValue};
use lab::{Amount, Completion, Direction, Quotes, Records, Workload, WriteMethod};

use super::channel::Channel;
use super::opening::{ClientHandshake, HELLO_BYTES, Heard, REPLY_BYTES, Reply, hear};
use super::protocol::{FromClient, FromServer, Nonce, REPORT_BYTES_MAX, REQUEST_BYTES_MAX};
use super::pulse::{self, Next, Pulse};
use super::*;
use crate::error::Result;
use crate::workload::{RunSpec, Session, SocketSpec};

pub(super) const TIMEOUT: Duration = Duration::from_secs(10);

pub(super) fn request_response() -> RunSpec {
    spec(Workload::RequestResponse {
        request: Bytes(100),
        response: Bytes(1000),
        flows: 2,
        amount: Amount::Operations(20),
    })
}

pub(super) fn spec(workload: Workload) -> RunSpec {
    RunSpec {
        workload,
        sockets: SocketSpec::default(),
        warmup: Duration::ZERO,
        interval: Duration::from_millis(20),
    }
}

pub(super) fn local() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

pub(super) fn key(digit: char) -> Key {
    digit.to_string().repeat(32).parse().expect("digits")
}

/// Runs `work` beside a server and returns the server's events.
pub(super) fn with_server(
    limits: Limits,
    key: Option<Key>,
    work: impl FnOnce(SocketAddr),
) -> Vec<Event> {
    with_this_server(&Serve::bind(local(), limits, key).expect("listens"), work)
}

pub(super) fn with_this_server(serve: &Serve, work: impl FnOnce(SocketAddr)) -> Vec<Event> {
    let address = serve.address().expect("bound");
    let events = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        let stopper = serve.stopper();
        let running =
            scope.spawn(|| serve.run(false, &|event| events.lock().expect("no panic").push(event)));
        // A panic in `work` must not leave the scope waiting for the server.
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(address)));
        stopper.stop();
        running.join().expect("no panic").expect("serves");
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    events.into_inner().expect("no panic")
}

pub(super) fn bench(client: &mut BenchClient, spec: &RunSpec) -> Result<BenchOutcome> {
    client.run(spec, &spec.sockets, &Session::new(), &|_, _| ())
}

pub(super) fn connect(address: SocketAddr) -> BenchClient {
    BenchClient::connect(address, None, TIMEOUT).expect("let in")
}

/// Workloads with the payload that goes up and down.
fn workloads() -> Vec<(Workload, u64, u64)> {
    let operations = Amount::Operations(10);
    let bulk = |direction| Workload::Bulk {
        direction,
        flows: 2,
        write_size: Bytes(10_000),
        unacked: None,
        amount: Amount::Bytes(Bytes(300_000)),
    };
    let burst = |reconnect| Workload::Bursts {
        burst: Bytes(100_000),
        idle: Duration::from_millis(1),
        reconnect,
        amount: operations,
    };
    vec![
        (bulk(Direction::Up), 600_000, 0),
        (bulk(Direction::Down), 0, 600_000),
        (bulk(Direction::Both), 600_000, 600_000),
        (request_response().workload, 4_000, 40_000),
        (
            Workload::ConnectRequestClose {
                request: Bytes(100),
                response: Bytes(200),
                amount: operations,
            },
            1_000,
            2_000,
        ),
        (
            Workload::WriteWriteRead {
                writes: 2,
                write_size: Bytes(50),
                pieces: Vec::new(),
                reply: Bytes(1),
                method: WriteMethod::Cork,
                amount: operations,
                uncork_after: Duration::ZERO,
            },
            1_000,
            10,
        ),
        (
            Workload::Records(Records {
                completion: Completion::Acknowledged,
                ..Records::new(Bytes(100), operations)
            }),
            1_000,
            0,
        ),
        (
            Workload::Quotes(Quotes::new(Bytes(50), Bytes(20), operations)),
            500,
            200,
        ),
        (burst(false), 1_000_000, 10),
        (burst(true), 1_000_000, 10),
    ]
}

#[test]
fn every_workload_runs_against_a_server() {
    let events = with_server(Limits::default(), None, |address| {
        let mut client = connect(address);
        for (workload, up, down) in workloads() {
            let name = format!("{workload:?}");
            let outcome = bench(&mut client, &spec(workload)).expect(&name);
            assert_eq!(outcome.client.all_sent_bytes, up, "{name}");
            assert_eq!(outcome.server.all_received_bytes, up, "{name}");
            assert_eq!(outcome.server.all_sent_bytes, down, "{name}");
            assert_eq!(outcome.client.all_received_bytes, down, "{name}");
        }
    });
    let ran = events
        .iter()
        .filter(|event| matches!(event, Event::Ran { outcome: Ok(_), .. }))
        .count();
    assert_eq!(ran, 10, "{events:?}");
}

#[test]
fn settings_reach_the_servers_sockets() {
    with_server(Limits::default(), None, |address| {
        let mut client = connect(address);
        for (knob, value) in [
            ("rcvbuf", KnobValue::Number(65_536)),
            ("congestion", KnobValue::Name("reno".into())),
        ] {
            let mut spec = request_response();
            spec.sockets
                .settings
                .insert("congestion", KnobValue::Name("reno".into()));
            spec.sockets.settings.insert(knob, value);
            let outcome = bench(&mut client, &spec).expect("runs");
            assert_eq!(outcome.server.congestion, "reno", "{knob}");
            assert_eq!(outcome.client.congestion, "reno", "{knob}");
        }
        // The client stays welcome after a run that cannot be.
        let mut spec = request_response();
        spec.sockets
            .settings
            .insert("congestion", KnobValue::Name("none".into()));
        let message = bench(&mut client, &spec).expect_err("unknown").to_string();
        // The server says so before any socket asks the kernel to load a module of that name.
        let expected = "`none` does not exist on this server";
        assert!(message.contains(expected), "{message}");
        let message = client.check(&spec, &spec.sockets).expect_err("unknown");
        assert!(message.to_string().contains(expected), "{message}");
        client
            .check(&request_response(), &SocketSpec::default())
            .expect("would be taken, and is not run");
        spec.sockets.settings.remove("congestion");
        spec.sockets.default_congestion = Some("none".into());
        bench(&mut client, &spec).expect("a wish that nobody can grant");
        bench(&mut client, &request_response()).expect("still served");
    });
}

#[test]
fn both_ends_prove_the_key() {
    let check = |server: Option<char>, client: Option<char>, expected: &str| {
        with_server(Limits::default(), server.map(key), |address| {
            let client = client.map(key);
            let outcome = BenchClient::connect(address, client.as_ref(), TIMEOUT)
                .and_then(|mut client| bench(&mut client, &request_response()));
            match outcome {
                Ok(_) => assert_eq!(expected, "", "{server:?} {client:?}"),
                Err(error) => {
                    let message = error.to_string();
                    let matches = !expected.is_empty() && message.contains(expected);
                    assert!(matches, "{server:?} {client:?}: {message}");
                }
            }
        });
    };
    check(None, None, "");
    check(Some('a'), Some('a'), "");
    check(Some('a'), Some('b'), "does not hold the key");
    check(Some('a'), None, "asks for a key");
    check(None, Some('a'), "does not hold the key that was given here");
}

#[test]
fn limits_are_kept() {
    let limits = Limits {
        clients: 1,
        time: Duration::from_secs(2),
        bytes: 5_000_000,
        ..Limits::default()
    };
    let bulk = |amount| {
        spec(Workload::Bulk {
            direction: Direction::Down,
            flows: 1,
            write_size: Bytes(1000),
            unacked: None,
            amount,
        })
    };
    with_server(limits, None, |address| {
        let mut client = connect(address);
        let mut refused = |spec: &RunSpec, expected: &str| {
            let message = bench(&mut client, spec).expect_err("a limit").to_string();
            assert!(message.contains(expected), "{message}");
        };
        let time = Amount::Time(Duration::from_secs(3));
        refused(&bulk(time), "3s is above the limit of 2s per run");
        let bytes = Amount::Bytes(Bytes(6_000_000));
        refused(&bulk(bytes), "above the limit of 5000000B per run");
        // A run of unknown size is cut off.
        let time = Amount::Time(Duration::from_secs(2));
        refused(&bulk(time), "the limit of 5000000B per run");
        refused(
            &spec(Workload::Records(Records {
                per_second: Some(1),
                ..Records::new(Bytes(1), Amount::Operations(100))
            })),
            "the limit of 2s per run",
        );

        let second = BenchClient::connect(address, None, TIMEOUT).expect_err("one too many");
        assert!(
            second.to_string().contains("one client too many"),
            "{second}"
        );
        bench(&mut client, &request_response()).expect("still served");
    });
}

#[test]
fn strangers_get_nothing_and_do_no_harm() {
    let events = with_server(Limits::default(), None, |address| {
        let long_line = vec![b'x'; REQUEST_BYTES_MAX + 2];
        let mut token = vec![0; 17];
        token[16] = 9;
        for words in [
            &b"GET / HTTP/1.1\r\n\r\n"[..],
            &long_line,
            &token,
            b"",
            b"t",
            b"tcptailor",
            b"\n",
        ] {
            let mut stream = TcpStream::connect(address).expect("connects");
            // The server may have hung up before it has heard all of it.
            let _ = stream.write_all(words);
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer);
            assert_eq!(answer, b"", "{}", String::from_utf8_lossy(words));
        }
        bench(&mut connect(address), &request_response()).expect("served");
    });
    let refused = events
        .iter()
        .filter(|event| matches!(event, Event::Refused { .. }))
        .count();
    assert!(refused >= 4, "{events:?}");
}

#[test]
fn a_server_of_something_else_is_recognised() {
    let listener = TcpListener::bind(local()).expect("binds");
    let address = listener.local_addr().expect("bound");
    let other = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        stream
            .write_all(b"SSH-2.0-OpenSSH_9.2\r\n")
            .expect("written");
    });
    let error = BenchClient::connect(address, None, TIMEOUT).expect_err("not ours");
    assert!(
        error.to_string().contains("does not speak the protocol"),
        "{error}"
    );
    other.join().expect("no panic");
}

#[test]
fn a_server_that_vanishes_ends_the_run() {
    let listener = TcpListener::bind(local()).expect("binds");
    let address = listener.local_addr().expect("bound");
    let nonce = Nonce([7; 16]);
    let vanishing = std::thread::spawn(move || {
        let mut channel = host(&listener);
        let _: FromClient = channel.expect(TIMEOUT).expect("prepare");
        let prepared = FromServer::Prepared {
            token: nonce,
            port: None,
        };
        channel.send(&prepared).expect("sent");
        let (mut data, _) = listener.accept().expect("a data connection");
        data.read_exact(&mut [0; 17]).expect("the token");
        data.write_all(&[6]).expect("sent");
        // The control connection goes first, the data connection a moment later.
        drop(channel);
        let _ = data.read(&mut [0; 1000]);
    });
    let mut spec = request_response();
    spec.workload = Workload::RequestResponse {
        request: Bytes(100),
        response: Bytes(1000),
        flows: 1,
        amount: Amount::Time(Duration::from_secs(60)),
    };
    let error = bench(&mut connect(address), &spec).expect_err("vanished");
    assert!(
        error.to_string().contains("closed the connection"),
        "{error}"
    );
    vanishing.join().expect("no panic");
}

/// A client that was let in, by hand.
pub(super) fn guest(address: SocketAddr) -> Channel {
    let mut channel = stranger(address);
    channel.send(&FromClient::Hello).expect("sent");
    let _: FromServer = channel.expect(TIMEOUT).expect("welcome");
    channel
}

/// One that has not said anything after its opening.
pub(super) fn stranger(address: SocketAddr) -> Channel {
    let mut stream = TcpStream::connect(address).expect("connects");
    let (greeting, hello) = ClientHandshake::new(None);
    stream.write_all(&hello).expect("sent");
    let mut reply = [0; REPLY_BYTES];
    stream.read_exact(&mut reply).expect("an answer");
    let Reply::Accepted(noise) = greeting.finish(&reply) else {
        panic!("not let in");
    };
    Channel::new(stream, *noise, REPORT_BYTES_MAX).expect("options")
}

/// A server that lets the next client in, by hand.
pub(super) fn host(listener: &TcpListener) -> Channel {
    let (mut stream, _) = listener.accept().expect("a connection");
    let mut hello = [0; HELLO_BYTES];
    stream.read_exact(&mut hello).expect("a hello");
    let Heard::Welcome(greeted) = hear(&hello, None) else {
        panic!("not ours");
    };
    let (reply, noise) = greeted.answer();
    stream.write_all(&reply).expect("sent");
    let mut channel = Channel::new(stream, noise, REQUEST_BYTES_MAX).expect("options");
    let _: FromClient = channel.expect(TIMEOUT).expect("hello");
    let limits = Limits::default();
    channel.send(&FromServer::Welcome { limits }).expect("sent");
    channel
}

#[test]
fn a_client_that_never_ends_its_run_loses_its_place() {
    let limits = Limits {
        time: Duration::from_secs(1),
        ..Limits::default()
    };
    let events = with_server(limits, None, |address| {
        let mut channel = guest(address);
        let run = Box::new(request_response());
        channel.send(&FromClient::Prepare { run }).expect("sent");
        // It sends keepalive messages as long as there is a listener, at most for a minute.
        let dropped = (0..600).any(|_| {
            std::thread::sleep(Duration::from_millis(100));
            let received = channel.receive::<FromServer>(Duration::from_millis(1));
            received.is_err() || channel.send(&FromClient::Alive).is_err()
        });
        assert!(dropped);
    });
    let expected = "does not end its run";
    let left = events.iter().any(|event| {
        matches!(event, Event::Left { reason: Some(reason), .. } if reason.contains(expected))
    });
    assert!(left, "{events:?}");
}

#[test]
fn what_a_client_says_is_logged_without_control_characters() {
    let events = with_server(Limits::default(), None, |address| {
        let mut channel = guest(address);
        channel.send(&"\u{1b}]0;owned\u{7}").expect("sent");
        let ended = channel.receive::<FromServer>(TIMEOUT);
        assert!(ended.is_err(), "{ended:?}");
    });
    let reason = events.iter().find_map(|event| match event {
        Event::Left { reason, .. } => reason.clone(),
        _ => None,
    });
    let reason = reason.expect("it broke off");
    assert!(reason.contains("owned"), "{reason}");
    assert!(!reason.contains(char::is_control), "{reason}");
}

#[test]
fn a_client_that_leaves_in_the_middle_frees_its_place() {
    let limits = Limits {
        clients: 1,
        ..Limits::default()
    };
    let events = with_server(limits, None, |address| {
        let mut channel = guest(address);
        let run = Box::new(request_response());
        channel.send(&FromClient::Prepare { run }).expect("sent");
        let _: FromServer = channel.expect(TIMEOUT).expect("prepared");
        drop(channel);
        // The place is free as soon as the server has noticed.
        let served = (0..100).any(|_| {
            std::thread::sleep(Duration::from_millis(50));
            BenchClient::connect(address, None, TIMEOUT)
                .and_then(|mut client| bench(&mut client, &request_response()))
                .is_ok()
        });
        assert!(served);
    });
    let left = events.iter().any(|event| {
        matches!(
            event,
            Event::Left {
                reason: Some(_),
                ..
            }
        )
    });
    assert!(left, "{events:?}");
}

#[test]
fn silence_is_noticed() {
    let listener = TcpListener::bind(local()).expect("binds");
    let address = listener.local_addr().expect("bound");
    let client = std::thread::spawn(move || guest(address));
    let mut channel = host(&listener);
    let _silent = client.join().expect("no panic");
    let mut ticks = 0;
    let mut on_tick = |_| {
        ticks += 1;
        Ok(())
    };
    let mut on_message = |_: FromClient, _| Ok(Next::Listen);
    let pulse = Pulse {
        tick: Duration::from_millis(100),
        silence_max: Duration::from_millis(300),
    };
    let error = pulse::listen(&mut channel, &pulse, &mut on_tick, &mut on_message)
        .expect_err("nothing was said");
    assert!(
        error.to_string().contains("nothing was heard for 300ms"),
        "{error}"
    );
    assert!(ticks >= 1);
}
