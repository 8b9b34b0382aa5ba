//! Our load beside the tools that people know, over loopback, in one run: bulk throughput beside
//! iperf3, 1-byte request/response beside sockperf (whose smallest message has 14 bytes).
//!
//! `cargo bench -p tcptailor --bench peers`. Needs Debian's packages iperf3 and sockperf. Pairs are
//! interleaved and take turns who begins. Both ends of the request/response share a processor, so
//! that the cost of the tools shows; the ends of the bulk have one each. `PAIRS` and `SECONDS` set
//! the length. The exit code is 1 where a ratio is worse than allowed.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitCode, Stdio};

use lab::stats::{median, ratio_interval};
use serde_json::Value;

/// The ratio that still counts as equal.
const EQUAL: std::ops::RangeInclusive<f64> = 0.95..=1.05;
const SEED: u64 = 1;

/// A server process that ends with its guard.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// How long and how often.
struct Plan {
    pairs: usize,
    seconds: u64,
}

fn main() -> ExitCode {
    if !std::env::args().any(|arg| arg == "--bench") {
        // `cargo test --all-targets` only wants to know that it builds.
        return ExitCode::SUCCESS;
    }
    let number = |name: &str, default: u64| {
        std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
    };
    let plan = Plan {
        pairs: number("PAIRS", 12).max(1) as usize,
        seconds: number("SECONDS", 2).max(1),
    };
    for tool in ["iperf3", "sockperf", "taskset"] {
        if Command::new(tool).arg("--version").output().is_err() {
            eprintln!("{tool} is missing: apt-get install iperf3 sockperf util-linux");
            return ExitCode::FAILURE;
        }
    }
    let bulk = bulk(&plan);
    let request = request_response(&plan);
    if bulk && request {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Gbit/s at the receiver, each end on a processor of its own. Servers are started anew for each
/// run: where the kernel puts a process's buffers makes a difference of 10 % that lasts its life.
fn bulk(plan: &Plan) -> bool {
    let seconds = plan.seconds.to_string();
    let theirs = || {
        let _server = start(&["0", "iperf3", "-s", "-p", "15201"]);
        let arguments = [
            "iperf3",
            "-c",
            "127.0.0.1",
            "-p",
            "15201",
            "-t",
            &seconds,
            "-J",
        ];
        let report = json(&run("1", &arguments));
        number(&report["end"]["sum_received"]["bits_per_second"]) / 1e9
    };
    let ours = || {
        let (_server, port) = start_ours("0");
        number(&bench("1", &port, &["-t", &seconds])["goodput_bps"]) / 1e9
    };
    compare("bulk, Gbit/s", "iperf3", plan, &theirs, &ours)
}

/// Operations per second, both ends on one processor.
fn request_response(plan: &Plan) -> bool {
    let seconds = plan.seconds.to_string();
    let theirs = || {
        let address = ["--tcp", "-i", "127.0.0.1", "-p", "15202"];
        let _server = start(&[&["1", "sockperf", "server"][..], &address].concat());
        let length = ["-t", &seconds, "-m", "14"];
        let words = [&["sockperf", "ping-pong"][..], &address, &length].concat();
        let text = run("1", &words);
        let field = |name: &str| -> f64 {
            let (_, rest) = text.split_once(name).expect("sockperf's total");
            let end = rest.find([' ', ';', '\n']).unwrap_or(rest.len());
            rest[..end].parse().expect("a number")
        };
        field("ReceivedMessages=") / field("RunTime=")
    };
    let ours = || {
        let (_server, port) = start_ours("1");
        // sockperf warms up for 0.4 s.
        let flags = ["--mode", "rr", "--nodelay", "-O", "400ms", "-t", &seconds];
        number(&bench("1", &port, &flags)["operations_per_s"])
    };
    let what = "1-byte request/response, per s";
    compare(what, "sockperf", plan, &theirs, &ours)
}

/// Measures pairs and prints them with the ratio of the medians.
fn compare(
    what: &str,
    peer: &str,
    plan: &Plan,
    theirs: &dyn Fn() -> f64,
    ours: &dyn Fn() -> f64,
) -> bool {
    println!("{what}\n{:>12} {:>12}", peer, "tcptailor");
    let (mut base, mut other) = (Vec::new(), Vec::new());
    for pair in 0..plan.pairs {
        if pair % 2 == 0 {
            base.push(theirs());
            other.push(ours());
        } else {
            other.push(ours());
            base.push(theirs());
        }
        println!("{:>12.2} {:>12.2}", base[pair], other[pair]);
    }
    let interval = ratio_interval(&base, &other, SEED).expect("rates above zero");
    let (base, other) = (median(&base), median(&other));
    let (base, other) = (base.expect("pairs"), other.expect("pairs"));
    let equal = interval.low <= *EQUAL.end() && interval.high >= *EQUAL.start();
    let met = equal || interval.low > 1.0;
    println!(
        "{base:>12.2} {other:>12.2}  medians; ratio {:.3}, interval {:.3} to {:.3}: {}\n",
        other / base,
        interval.low,
        interval.high,
        match (met, interval.low > 1.0) {
            (true, true) => "faster",
            (true, false) => "equal",
            _ => "SLOWER",
        }
    );
    met
}

/// Starts `tcptailor serve` on a processor and learns its port.
fn start_ours(processor: &str) -> (Server, String) {
    let program = env!("CARGO_BIN_EXE_tcptailor");
    let mut server = start(&[processor, program, "serve", "-p", "0"]);
    let output = server.0.stdout.take().expect("piped");
    let mut line = String::new();
    let mut reader = BufReader::new(output);
    reader.read_line(&mut line).expect("where it listens");
    let port = line
        .trim_end()
        .trim_end_matches('.')
        .rsplit(':')
        .next()
        .expect("a port")
        .to_owned();
    // The log is not read; it is short.
    server.0.stdout = Some(reader.into_inner());
    (server, port)
}

fn bench(processor: &str, port: &str, flags: &[&str]) -> Value {
    let program = env!("CARGO_BIN_EXE_tcptailor");
    let to = ["--json", "bench", "127.0.0.1", "-p", port];
    let report = json(&run(processor, &[&[program][..], &to, flags].concat()));
    report["variants"][0]["runs"][0].clone()
}

fn start(words: &[&str]) -> Server {
    let child = Command::new("taskset")
        .arg("-c")
        .args(words)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the server starts");
    std::thread::sleep(std::time::Duration::from_millis(300));
    Server(child)
}

fn run(processor: &str, words: &[&str]) -> String {
    let output = Command::new("taskset")
        .args(["-c", processor])
        .args(words)
        .output()
        .expect("the client starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {text}{errors}");
    text
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("a JSON document")
}

fn number(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}
