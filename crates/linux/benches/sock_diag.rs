//! How long a scan of 20 000 sockets takes beside `ss -tinmO`.
//!
//! Makes a namespace of its own and child processes that hold the sockets (a process may have 20
//! 000 descriptors at most on some machines), runs `ss` and our scan in turn, and prints both
//! medians and their ratio. `SOCKETS` and `ROUNDS` change the size. Skipped with a word where a
//! namespace may not be made or `ss` is missing.

use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use linux::{Clock, LabNetns, ScanRequest, SockDiag};

const HOLDER: &str = "SOCK_DIAG_BENCH_HOLDER";
/// With both ends in one process, well below a limit of 20 000 descriptors.
const SOCKETS_PER_HOLDER: usize = 5_000;

fn main() -> Result<(), Box<dyn Error>> {
    if let Ok(task) = std::env::var(HOLDER) {
        return hold(&task);
    }
    let netns = match LabNetns::create(["scan"]) {
        Ok([netns]) => netns,
        Err(error) => {
            println!("skipped: {error}");
            return Ok(());
        }
    };
    netns
        .handle()
        .run(|| compare().map_err(|error| error.to_string()))??;
    Ok(())
}

fn compare() -> Result<(), Box<dyn Error>> {
    linux::netlink::link::set_up("lo")?;
    let sockets = from_env("SOCKETS", 20_000);
    let rounds = from_env("ROUNDS", 15).max(9);
    let mut holders = start_holders(sockets)?;
    let mut diag = SockDiag::open()?;
    let request = ScanRequest::default();
    let samples = diag.scan(&request)?;
    println!("{} sockets seen, {rounds} rounds in turn", samples.len());
    let (mut ss, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        match time_ss() {
            Some(time) => ss.push(time),
            None => println!("skipped: `ss` is not installed (package iproute2)"),
        }
        let begin = Clock.now();
        diag.scan_each(&request, &mut |sample| {
            std::hint::black_box(&sample);
        })?;
        ours.push(Clock.now().since(begin));
        if ss.is_empty() {
            break;
        }
    }
    report("ss -tinmO", &mut ss);
    report("SockDiag::scan_each", &mut ours);
    if let (Some(ss), Some(ours)) = (median(&ss), median(&ours)) {
        let ratio = ours.as_secs_f64() / ss.as_secs_f64();
        println!("ratio ours / ss: {ratio:.3} (aim: at most 0.333)");
    }
    time_one(&mut diag, &samples)?;
    for holder in &mut holders {
        drop(holder.stdin.take());
        holder.wait()?;
    }
    Ok(())
}

fn time_one(diag: &mut SockDiag, samples: &[base::FlowSample]) -> Result<(), Box<dyn Error>> {
    let mut times = Vec::new();
    for sample in samples.iter().step_by(samples.len().div_ceil(1000).max(1)) {
        let begin = Clock.now();
        let one = diag.sample_one(begin, sample.key, sample.cookie)?;
        times.push(Clock.now().since(begin));
        assert!(one.is_some(), "{} is gone", sample.key);
    }
    report("SockDiag::sample_one", &mut times);
    Ok(())
}

fn time_ss() -> Option<Duration> {
    let begin = Clock.now();
    let status = Command::new("ss")
        .arg("-tinmO")
        .stdout(Stdio::null())
        .status()
        .ok()?;
    assert!(status.success(), "ss failed: {status}");
    Some(Clock.now().since(begin))
}

fn report(name: &str, times: &mut [Duration]) {
    times.sort();
    if let (Some(least), Some(middle), Some(most)) = (times.first(), median(times), times.last()) {
        println!("{name}: median {middle:?} ({least:?} to {most:?})");
    }
}

/// Of sorted times.
fn median(times: &[Duration]) -> Option<Duration> {
    times.get(times.len() / 2).copied()
}

fn from_env(name: &str, default: usize) -> usize {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

fn start_holders(sockets: usize) -> Result<Vec<Child>, Box<dyn Error>> {
    let mut holders = Vec::new();
    let mut left = sockets;
    while left > 0 {
        let share = left.min(SOCKETS_PER_HOLDER);
        left -= share;
        let index = holders.len() + 1;
        holders.push(
            Command::new(std::env::current_exe()?)
                .env(HOLDER, format!("{index} {}", share / 2))
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()?,
        );
    }
    for holder in &mut holders {
        let output = holder.stdout.as_mut().expect("it is piped");
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        if line != "ready\n" {
            return Err(format!("a holder of sockets failed: `{line}`").into());
        }
    }
    Ok(holders)
}

/// What a child does: opens connections, says so, and keeps them until its input ends.
fn hold(task: &str) -> Result<(), Box<dyn Error>> {
    let (index, connections) = task.split_once(' ').ok_or("two numbers are expected")?;
    let listener = TcpListener::bind((Ipv4Addr::new(127, 0, 1, index.parse()?), 5201))?;
    let address = listener.local_addr()?;
    let mut held = Vec::new();
    for _ in 0..connections.parse::<usize>()? {
        let client = TcpStream::connect(address)?;
        let (mut server, _) = listener.accept()?;
        // A byte, so that there is a round-trip time.
        server.write_all(b"x")?;
        held.push((client, server));
    }
    println!("ready");
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
