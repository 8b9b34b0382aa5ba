//! Clients of all kinds, the hostile ones beside an honest one.

use std::io::{Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::*;

/// Long enough that the kernel does not take it at once.
const LONG: usize = 8 * 1024 * 1024;

struct Running {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    counts: Arc<HttpCounts>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Running {
    fn start() -> Self {
        let server = HttpServer::bind(([127, 0, 0, 1], 0).into()).expect("loopback");
        let address = server.address().expect("it is bound");
        let stop = Arc::new(AtomicBool::new(false));
        let counts = Arc::new(HttpCounts::default());
        let (stops, counted) = (Arc::clone(&stop), Arc::clone(&counts));
        let thread = std::thread::spawn(move || {
            let page = |path: &str| {
                let body = match path {
                    "/metrics" => "up 1\n".to_owned(),
                    "/long" => "x".repeat(LONG),
                    _ => return None,
                };
                Some(Page {
                    status: Status::Ok,
                    content_type: "text/plain",
                    body,
                })
            };
            server.run(&stops, &counted, 1.0, &page).expect("it serves");
        });
        Self {
            address,
            stop,
            counts,
            thread: Some(thread),
        }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("it listens");
        let timeout = Some(Duration::from_secs(60));
        stream.set_read_timeout(timeout).expect("a socket");
        stream
    }

    fn ask(&self, request: &str) -> String {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        answer
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("it stops");
        }
    }
}

const SCRAPE: &str = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";

#[test]
fn requests_are_answered_and_counted() {
    let running = Running::start();
    let check = |request: &str, line: &str, body: &str| {
        let answer = running.ask(request);
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {line}\r\n")),
            "{answer}"
        );
        let (head, found) = answer.split_once("\r\n\r\n").expect("a head");
        assert!(head.contains("\r\nConnection: close"), "{head}");
        assert!(head.contains(&format!("\r\nContent-Length: {}\r\n", found.len())));
        assert_eq!(found, body);
        assert!(found.trim_end().lines().count() == 1, "{found}");
    };
    check(SCRAPE, "200 OK", "up 1\n");
    let missing = "not found; / lists the pages\n";
    check("GET / HTTP/1.1\r\n\r\n", "404 Not Found", missing);
    let refused = "only GET is accepted\n";
    let post = "POST /metrics HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello";
    check(post, "405 Method Not Allowed", refused);
    let long = format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(HEAD_BYTES_MAX));
    let told = "the head of the request is longer than 8 KiB\n";
    check(&long, "431 Request Header Fields Too Large", told);
    check(
        "\u{16}\u{3}\u{1}\u{2}",
        "400 Bad Request",
        "not an HTTP/1.1 request\n",
    );
    let rebound = "GET /metrics HTTP/1.1\r\nHost: rebound.example\r\n\r\n";
    let told = "ask for localhost, or for an address: this is not that host\n";
    check(rebound, "421 Misdirected Request", told);
    for (status, expected) in [
        (Status::Misdirected, 1),
        (Status::Ok, 1),
        (Status::NotFound, 1),
        (Status::MethodNotAllowed, 1),
        (Status::TooLarge, 1),
        (Status::BadRequest, 1),
        (Status::Unavailable, 0),
    ] {
        assert_eq!(running.counts.answered(status), expected, "{status:?}");
    }
}

#[test]
fn a_long_answer_arrives_whole() {
    let running = Running::start();
    let answer = running.ask("GET /long HTTP/1.1\r\n\r\n");
    let (_, body) = answer.split_once("\r\n\r\n").expect("a head");
    assert_eq!(body.len(), LONG);
}

#[test]
fn slow_and_silent_clients_do_not_keep_an_honest_one_out() {
    let running = Running::start();
    // More than there are places: silent ones, some that never end their request, and some that do
    // not read a long answer.
    let mut crowd = Vec::new();
    for index in 0..2 * CONNECTIONS_MAX {
        let mut stream = running.connect();
        match index % 3 {
            0 => {}
            1 => stream
                .write_all(b"GET /metrics HTTP/1.1\r\nX: ")
                .expect("it reads"),
            _ => stream
                .write_all(b"GET /long HTTP/1.1\r\n\r\n")
                .expect("it reads"),
        }
        crowd.push(stream);
        if index % 8 == 0 {
            assert!(running.ask(SCRAPE).ends_with("up 1\n"));
        }
    }
    assert!(running.ask(SCRAPE).ends_with("up 1\n"));
    assert!(running.counts.dropped() > 0, "there was room for all");
    // Each of the others is closed by the server, at the end of its time at the latest.
    for stream in &mut crowd {
        let mut rest = Vec::new();
        // A reset is an end too.
        let ended = stream.read_to_end(&mut rest);
        let is_reset = |error: &std::io::Error| error.kind() == std::io::ErrorKind::ConnectionReset;
        assert!(ended.as_ref().map_or_else(is_reset, |_| true), "{ended:?}");
    }
    assert!(running.ask(SCRAPE).ends_with("up 1\n"));
}

/// Four clients that connect again and again, some without a request: whoever comes beside them
/// has an answer. With 50 connections a second the queue stayed full, and the kernel dropped them.
#[test]
fn clients_that_reconnect_do_not_starve_another() {
    let running = Running::start();
    let over = AtomicBool::new(false);
    let answers: Vec<String> = std::thread::scope(|scope| {
        for index in 0..4 {
            let (address, over) = (running.address, &over);
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    let Ok(mut stream) = TcpStream::connect(address) else {
                        continue;
                    };
                    if index % 2 == 0 {
                        let _ = stream.write_all(SCRAPE.as_bytes());
                    }
                }
            });
        }
        std::thread::sleep(Duration::from_millis(300));
        let ask = |_| catch_unwind(AssertUnwindSafe(|| running.ask(SCRAPE))).unwrap_or_default();
        let answers = (0..300).map(ask).collect();
        // Also where one failed: the threads would go on.
        over.store(true, Ordering::Relaxed);
        answers
    });
    assert!(answers.iter().all(|answer| answer.ends_with("up 1\n")));
}

/// Connections that are taken in one portion.
fn taken(quota: &mut Quota) -> u32 {
    let before = quota.left;
    while quota.is_open() {
        quota.take();
    }
    before
}

#[test]
fn a_flood_is_taken_at_a_bounded_pace() {
    let mut quota = Quota::new(Instant::ZERO, 1.0);
    assert_eq!(taken(&mut quota), ACCEPTED_PER_SECOND / PORTIONS_PER_SECOND);
    quota.renew(
        Instant::ZERO + PORTION - Duration::from_micros(1),
        Duration::ZERO,
    );
    assert!(!quota.is_open());
    quota.renew(Instant::ZERO + PORTION, Duration::ZERO);
    assert!(quota.is_open());
}

/// Answering takes no more of a core than it may, but for a few connections a second.
#[test]
fn a_flood_costs_a_bounded_share_of_a_core() {
    let (share, cost) = (0.01, Duration::from_micros(40));
    let mut quota = Quota::new(Instant::ZERO, share);
    let (mut cpu, mut connections) = (Duration::ZERO, 0);
    let seconds = 60;
    for portion in 1..=seconds * PORTIONS_PER_SECOND {
        let taken = taken(&mut quota);
        connections += taken;
        cpu += cost * taken;
        quota.renew(Instant::ZERO + PORTION * portion, cpu);
    }
    let beyond = cost * ACCEPTED_PER_SECOND_BEYOND_BUDGET;
    let bound = f64::from(seconds) * (share + beyond.as_secs_f64());
    assert!(cpu.as_secs_f64() < bound * 1.05, "{cpu:?}");
    let affordable = f64::from(seconds) * share / cost.as_secs_f64();
    assert!(f64::from(connections) > affordable * 0.95, "{connections}");

    // Who asks after a quiet time is answered at once.
    let later = Instant::ZERO + Duration::from_secs(120);
    quota.renew(later, cpu);
    assert_eq!(taken(&mut quota), ACCEPTED_PER_SECOND / PORTIONS_PER_SECOND);
}

#[test]
fn an_address_that_is_taken_is_refused() {
    let running = Running::start();
    let again = HttpServer::bind(running.address);
    assert!(again.is_err(), "two servers have one address");
}
