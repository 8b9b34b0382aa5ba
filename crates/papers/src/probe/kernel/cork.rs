//! Probes of cork on the kernel: data held, for how long, and its release; a header in front of a
//! file; and the sample programs, by themselves and under the preloaded library.
//!
//! All on loopback, with sockets and processes of its own.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, ChildStdout, Command, Stdio};

use linux::calls::{self, More};
use linux::{Clock, Error, Result, autocork};
use socket2::SockRef;

use crate::nodelay::{
    self, Client, ClientRun, ClientSpec, HEADER_AND_PAYLOAD, Handing, PIECE_BYTES, PIECES,
    REPLY_BYTES, Server, ServerSpec, Visit,
};
use crate::probe::Figures;

/// Looks at each case; the middle one is returned.
const LOOKS: usize = 3;
const LATER: Duration = Duration::from_millis(10);
/// Messages of the modes that do not stall, and of the one that does.
const MESSAGES: u64 = 10_000;
const STALLING_MESSAGES: u64 = 20;
const FILE_BYTES: usize = 1_000;
const BULK_BYTES: usize = 100_000;
const HEADER_BYTES: usize = 100;

// ---- how long it holds ----

/// One case: what is done to the socket of the client before the bytes are written, how they are
/// written, and what is done 10 ms later.
struct Case {
    figure: &'static str,
    before: fn(&SockRef<'_>) -> io::Result<()>,
    more: More,
    bytes: usize,
    later: Option<fn(&SockRef<'_>) -> io::Result<()>>,
}

const CASES: &[Case] = &[
    Case {
        figure: "corked_us",
        before: cork,
        ..Case::PLAIN
    },
    Case {
        figure: "msg_more_us",
        more: More::Follows,
        ..Case::PLAIN
    },
    Case {
        figure: "uncorked_after_10ms_us",
        before: cork,
        later: Some(|socket| socket.set_tcp_cork(false)),
        ..Case::PLAIN
    },
    Case {
        figure: "nodelay_while_corked_after_10ms_us",
        before: cork,
        later: Some(|socket| socket.set_tcp_nodelay(true)),
        ..Case::PLAIN
    },
    Case {
        figure: "nodelay_then_cork_us",
        before: |socket| {
            socket.set_tcp_nodelay(true)?;
            cork(socket)
        },
        ..Case::PLAIN
    },
    Case {
        figure: "corked_full_segments_us",
        before: cork,
        bytes: 100_000,
        ..Case::PLAIN
    },
];

impl Case {
    const PLAIN: Self = Self {
        figure: "",
        before: |_| Ok(()),
        more: More::No,
        bytes: 10,
        later: None,
    };

    /// Microseconds until the peer reads.
    fn look(&self) -> io::Result<f64> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let client = TcpStream::connect(listener.local_addr()?)?;
        let (mut server, _) = listener.accept()?;
        (self.before)(&SockRef::from(&client))?;
        let written = Clock.now();
        calls::send_part(&client, &vec![b'x'; self.bytes], self.more)?;
        if let Some(later) = self.later {
            std::thread::sleep(LATER);
            later(&SockRef::from(&client))?;
        }
        server.read_exact(&mut [0; 1])?;
        Ok(micros(Clock.now().since(written)))
    }
}

fn cork(socket: &SockRef<'_>) -> io::Result<()> {
    socket.set_tcp_cork(true)
}

pub(crate) fn ceilings(_seed: u64, stop: &AtomicBool) -> Result<Figures> {
    let mut figures = Figures::new();
    for case in CASES {
        let mut looks = Vec::new();
        for _ in 0..LOOKS {
            check_stop(stop)?;
            looks.push(case.look().map_err(Error::os("a corked connection"))?);
        }
        looks.sort_by(f64::total_cmp);
        figures.insert(case.figure, looks[LOOKS / 2]);
    }
    Ok(figures)
}

// ---- a header in front of a file ----

pub(crate) fn files(_seed: u64, stop: &AtomicBool) -> Result<Figures> {
    let mut figures = Figures::new();
    let cases = [
        (false, "plain_segments_per_message", "plain_response_us"),
        (true, "cork_segments_per_message", "cork_response_us"),
    ];
    for (corked, segments, response) in cases {
        check_stop(stop)?;
        let (run, _) = exchange(&[HEADER_BYTES, FILE_BYTES], corked, stop)?;
        figures.extend(per_message(&run).map(|number| (segments, number)));
        figures.insert(response, median_us(&run));
    }
    let cases = [
        (
            false,
            "bulk_plain_segments_per_message",
            "bulk_plain_first_read_bytes",
        ),
        (
            true,
            "bulk_cork_segments_per_message",
            "bulk_cork_first_read_bytes",
        ),
    ];
    for (corked, segments, first_read) in cases {
        check_stop(stop)?;
        let (run, _) = exchange(&[HEADER_BYTES, BULK_BYTES], corked, stop)?;
        figures.extend(per_message(&run).map(|number| (segments, number)));
        let first = first_read_bytes(corked).map_err(Error::os("sending a file"))?;
        figures.insert(first_read, first);
    }
    Ok(figures)
}

/// Bytes of the first segment of a header and a file, as a reader sees it who reads when the header
/// is written and again when the file is.
fn first_read_bytes(corked: bool) -> io::Result<f64> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let client = TcpStream::connect(listener.local_addr()?)?;
    let (mut server, _) = listener.accept()?;
    let socket = SockRef::from(&client);
    let mut buffer = vec![0; HEADER_BYTES + BULK_BYTES];
    server.set_read_timeout(Some(LATER))?;
    socket.set_tcp_cork(corked)?;
    (&client).write_all(&[b'h'; HEADER_BYTES])?;
    // What a plain write has sent is there by now; what a cork holds is not.
    match server.read(&mut buffer) {
        Ok(bytes) => return Ok(bytes as f64),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
        Err(error) => return Err(error),
    }
    let file = calls::memory_file("tcptailor-probe", &vec![b'f'; BULK_BYTES]);
    let file = file.map_err(io::Error::other)?;
    calls::send_file(&client, &file, &mut 0, BULK_BYTES)?;
    socket.set_tcp_cork(false)?;
    server.set_read_timeout(None)?;
    Ok(server.read(&mut buffer)? as f64)
}

// ---- the sample programs ----

/// Runs the document's client against its server, both in this process; the last piece is a file.
fn exchange(pieces: &[usize], cork: bool, stop: &AtomicBool) -> Result<(ClientRun, Visit)> {
    let server = serve(pieces.iter().sum())?;
    let spec = ClientSpec {
        remote: server.address()?,
        messages: STALLING_MESSAGES,
        pieces: pieces.to_vec(),
        reply_bytes: REPLY_BYTES,
        nodelay: false,
        cork,
        handing: Handing::Sendfile,
        per_second: None,
    };
    visited(&server, || Client::connect(spec, stop)?.run(&mut |_| ()))
}

fn serve(message_bytes: usize) -> Result<Server> {
    Server::bind(ServerSpec {
        address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        message_bytes,
        reply_bytes: REPLY_BYTES,
        nodelay: false,
        cork: false,
    })
}

/// Result of `client`, and its visit to the server.
fn visited<T>(server: &Server, client: impl FnOnce() -> Result<T>) -> Result<(T, Visit)> {
    let mut visit = None;
    let result = std::thread::scope(|scope| {
        let stop = server.stopper();
        let served = scope.spawn(|| server.run(true, &mut |seen| visit = Some(seen.clone())));
        let result = client();
        if result.is_err() {
            // There may be no client.
            stop();
        }
        let served = served
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        served.and(result)
    })?;
    let visit = visit.ok_or_else(|| Error::Peer("the client did not come".into()))?;
    Ok((result, visit))
}

pub(crate) fn with_and_without_library(_seed: u64, stop: &AtomicBool) -> Result<Figures> {
    let library = autocork::find_library()?;
    let mut figures = Figures::new();
    let names = [
        [
            "plain_duration_us",
            "plain_segments_per_message",
            "plain_buffers_per_message",
        ],
        [
            "autocork_duration_us",
            "autocork_segments_per_message",
            "autocork_buffers_per_message",
        ],
    ];
    for ([duration, segments, buffers], preloaded) in names.into_iter().zip([false, true]) {
        check_stop(stop)?;
        let server = serve(PIECES * PIECE_BYTES)?;
        let port = server.address()?.port().to_string();
        let (document, visit) = visited(&server, || {
            let count = MESSAGES.to_string();
            let words = ["nodelay-client", "127.0.0.1", &port, &count, "no_delay"];
            let mut command = program(&words)?;
            command.arg("--json").stderr(Stdio::piped());
            command.env(autocork::STATS_VARIABLE, "1");
            if preloaded {
                command.env("LD_PRELOAD", autocork::preload(&library)?);
            }
            let output = command.output().map_err(Error::os("starting the client"))?;
            check_preloaded(&output.stderr, preloaded)?;
            serde_json::from_slice::<serde_json::Value>(&output.stdout)
                .map_err(|error| Error::Peer(format!("what the client said: {error}")))
        })?;
        let number = |name: &str| document[name].as_f64();
        figures.extend(number("elapsed_ms").map(|ms| (duration, ms * 1e3)));
        figures.extend(number("segments_per_message").map(|each| (segments, each)));
        figures.insert(buffers, visit.buffers as f64 / visit.messages.max(1) as f64);
    }
    if let (Some(plain), Some(joined)) = (
        figures.get("plain_duration_us").copied(),
        figures.get("autocork_duration_us").copied(),
    ) {
        figures.insert("speedup", plain / joined);
    }
    Ok(figures)
}

/// The library says something at the end of a process that it is in. The loader goes on without a
/// library that it cannot load, and the client would be measured twice in the same way.
fn check_preloaded(stderr: &[u8], wanted: bool) -> Result<()> {
    let said = String::from_utf8_lossy(stderr);
    let mut lines = said.lines();
    if lines.any(|line| line.starts_with(autocork::STATS_LINE)) == wanted {
        return Ok(());
    }
    Err(Error::Peer(if wanted {
        let first = said.lines().next().unwrap_or("nothing");
        format!("the library was not loaded into the client, which said: {first}")
    } else {
        "the plain client had the library, too: run this without LD_PRELOAD".into()
    }))
}

fn program(words: &[&str]) -> Result<Command> {
    let mut command = Command::new(linux::own_program()?);
    command
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    Ok(command)
}

/// The server as a process; it ends with this.
struct ServerProcess {
    child: Child,
    log: BufReader<ChildStdout>,
    port: String,
}

impl ServerProcess {
    fn start() -> Result<Self> {
        let child = program(&["nodelay-server", "0", "10000"])?.spawn();
        let mut child = child.map_err(Error::os("starting the server"))?;
        let stdout = child.stdout.take().expect("it is piped");
        let mut server = Self {
            child,
            log: BufReader::new(stdout),
            port: String::new(),
        };
        let line = server.line()?;
        let (_, port) = line
            .trim_end_matches(['.', '\n'])
            .rsplit_once(':')
            .ok_or_else(|| {
                Error::Peer(format!("the server does not say where it listens: {line}"))
            })?;
        server.port = port.into();
        Ok(server)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        let read = self.log.read_line(&mut line);
        read.map_err(Error::os("reading what the server says"))?;
        Ok(line)
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // It fails only where it has ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn sample_programs(_seed: u64, stop: &AtomicBool) -> Result<Figures> {
    let mut server = ServerProcess::start()?;
    let mut figures = Figures::new();
    let mut of_form = 0.0;
    let modes: [(&[&str], u64, [&'static str; 2]); 3] = [
        (
            &[],
            STALLING_MESSAGES,
            ["baseline_response_us", "baseline_buffers_per_message"],
        ),
        (
            &["no_delay"],
            MESSAGES,
            ["no_delay_response_us", "no_delay_buffers_per_message"],
        ),
        (
            &["cork"],
            MESSAGES,
            ["cork_response_us", "cork_buffers_per_message"],
        ),
    ];
    for (option, messages, [response, buffers]) in modes {
        check_stop(stop)?;
        let count = messages.to_string();
        let words = ["nodelay-client", "localhost", &server.port, &count];
        let output = program(&[&words, option].concat())?.output();
        let output = output.map_err(Error::os("starting the client"))?;
        let line = String::from_utf8_lossy(&output.stdout).into_owned();
        let Some(elapsed) = nodelay::elapsed_of(line.trim_end_matches('\n')) else {
            return Err(Error::Peer(format!("not the line of the document: {line}")));
        };
        let bytes = HEADER_AND_PAYLOAD.iter().sum();
        let options = nodelay::options_used(option == ["no_delay"], option == ["cork"]);
        let expected = nodelay::line(messages, bytes, elapsed, options);
        of_form += f64::from(u8::from(line == format!("{expected}\n")));
        figures.insert(response, micros(elapsed) / messages as f64);
        let said = server.line()?;
        let read = said
            .split_once("received ")
            .and_then(|(_, rest)| rest.split(' ').next()?.parse::<f64>().ok());
        figures.extend(read.map(|read| (buffers, read / messages as f64)));
    }
    figures.insert("lines_of_form", of_form);
    Ok(figures)
}

fn check_stop(stop: &AtomicBool) -> Result<()> {
    if stop.load(Ordering::Relaxed) {
        Err(Error::Peer("stopped before the probe was through".into()))
    } else {
        Ok(())
    }
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn median_us(run: &ClientRun) -> f64 {
    run.responses_ns.value_at_quantile(0.5) as f64 / 1e3
}

fn per_message(run: &ClientRun) -> Option<f64> {
    Some(run.data_segments? as f64 / run.messages.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ratios that no load of the machine turns around.
    #[test]
    fn a_cork_holds_until_something_lets_it_go() {
        let figures = ceilings(1, &AtomicBool::new(false)).expect("loopback");
        for held in ["corked_us", "msg_more_us", "nodelay_then_cork_us"] {
            assert!(figures[held] >= 195_000.0, "{figures:?}");
        }
        for free in [
            "uncorked_after_10ms_us",
            "nodelay_while_corked_after_10ms_us",
        ] {
            assert!(figures[free] >= 10_000.0, "{figures:?}");
            assert!(figures[free] < figures["corked_us"], "{figures:?}");
        }
        assert!(figures["corked_full_segments_us"] < figures["corked_us"]);
    }

    #[test]
    fn a_client_without_the_library_is_not_taken_for_one_with_it() {
        let with = b"tcptailor-autocork: corked 1 writes 2 flushes 1\n";
        let without = b"ERROR: ld.so: object 'x.so' from LD_PRELOAD cannot be preloaded\n";
        assert!(check_preloaded(with, true).is_ok());
        assert!(check_preloaded(without, false).is_ok());
        assert!(check_preloaded(b"", true).is_err());
        let error = check_preloaded(without, true).expect_err("it was not loaded");
        assert!(error.to_string().contains("cannot be preloaded"), "{error}");
        assert!(check_preloaded(with, false).is_err());
    }

    #[test]
    fn a_corked_header_shares_a_segment_with_its_file() {
        let figures = files(1, &AtomicBool::new(false)).expect("loopback");
        let number = |name: &str| figures[name];
        assert_eq!(number("plain_segments_per_message"), 2.0);
        assert_eq!(number("cork_segments_per_message"), 1.0);
        assert!(number("plain_response_us") > 5.0 * number("cork_response_us"));
        assert_eq!(number("bulk_plain_first_read_bytes"), HEADER_BYTES as f64);
        assert!(number("bulk_cork_first_read_bytes") > HEADER_BYTES as f64);
    }
}
