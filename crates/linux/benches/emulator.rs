//! What the emulated path carries, with kernel TCP (CUBIC) at both ends.
//!
//! `cargo bench -p tcptailor-linux --bench emulator [-- RUNS [SECONDS [CASE]]]` prints goodput, its
//! share of what the rate allows, lateness, and the processor time of the emulator's thread. It
//! needs root, or a user namespace (`unshare -rn`) and a TUN device node that may be opened.

use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use base::{Bytes, QueueLimit, Rate};
use lab::{LatenessMicros, PathSpec};
use link::LinkSpec;
use linux::LabPath;

/// Headers of IPv4 and of TCP with timestamps.
const HEADER_BYTES: u64 = 52;
const WARM_UP: Duration = Duration::from_secs(1);
const PINGS: usize = 50;

struct Case {
    name: &'static str,
    rate: &'static str,
    delay: Duration,
    mtu: u64,
}

const CASES: [Case; 3] = [
    Case {
        name: "10 Gbit/s, 1.58 ms, MTU 1500",
        rate: "10gbit",
        delay: Duration::from_micros(790),
        mtu: 1500,
    },
    Case {
        name: "10 Gbit/s, 1.58 ms, MTU 9000",
        rate: "10gbit",
        delay: Duration::from_micros(790),
        mtu: 9000,
    },
    Case {
        name: "25 Mbit/s, 40 ms, MTU 1500",
        rate: "25mbit",
        delay: Duration::from_millis(20),
        mtu: 1500,
    },
];

#[derive(Clone, Debug)]
struct Run {
    goodput_bps: f64,
    ping_ms: f64,
    lateness: [LatenessMicros; 2],
    dropped: u64,
    emulator_core: f64,
    process_cores: f64,
    others_cores: f64,
    caveats: String,
}

fn main() {
    let mut numbers = std::env::args()
        .skip(1)
        .filter_map(|text| text.parse().ok());
    let runs: u64 = numbers.next().unwrap_or(5);
    let seconds: u64 = numbers.next().unwrap_or(4);
    let _ = linux::cleanup::remove_leftovers();
    let only: Option<u64> = numbers.next();
    for (number, case) in (0..).zip(&CASES) {
        if only.is_some_and(|only| only != number) {
            continue;
        }
        let mut done: Vec<Run> = Vec::new();
        for seed in 0..runs {
            let run = measure(case, seed, Duration::from_secs(seconds));
            println!("  {}", describe(&run));
            done.push(run);
        }
        let goodput = median(done.iter().map(|run| run.goodput_bps));
        let ping = median(done.iter().map(|run| run.ping_ms));
        let rate: Rate = case.rate.parse().expect("a valid rate");
        let payload = (case.mtu - HEADER_BYTES) as f64 / case.mtu as f64;
        let possible = rate.bits_per_second() as f64 * payload;
        println!(
            "{}: median of {runs}: {:.3} Gbit/s = {:.2} % of the possible {:.3}; ping {ping:.3} ms",
            case.name,
            goodput / 1e9,
            100.0 * goodput / possible,
            possible / 1e9,
        );
    }
}

fn describe(run: &Run) -> String {
    let [forward, reverse] = run.lateness;
    format!(
        "{:.3} Gbit/s, ping {:.3} ms, late p50/p99/max {}/{}/{} and {}/{}/{} us, \
         {} dropped, emulator {:.0} %, process {:.0} % and others {:.0} % \
         of a core{}",
        run.goodput_bps / 1e9,
        run.ping_ms,
        forward.p50,
        forward.p99,
        forward.max,
        reverse.p50,
        reverse.p99,
        reverse.max,
        run.dropped,
        100.0 * run.emulator_core,
        100.0 * run.process_cores,
        100.0 * run.others_cores,
        run.caveats,
    )
}

fn measure(case: &Case, seed: u64, time: Duration) -> Run {
    let link = LinkSpec {
        rate: Some(case.rate.parse().expect("a valid rate")),
        delay: case.delay,
        queue: QueueLimit::Packets(1000),
        ..LinkSpec::ideal()
    };
    let spec = PathSpec::Emulated {
        mtu: Bytes(case.mtu),
        forward: link.clone(),
        reverse: link,
        ipv6: false,
    };
    let path = LabPath::create(&spec, seed).unwrap_or_else(|error| panic!("no path: {error}"));
    let ping_ms = ping(&path);
    let received = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    let listener = listen(&path);
    let at = listener.local_addr().expect("a bound address");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut buffer = vec![0; 1 << 20];
            while let Ok(length @ 1..) = stream.read(&mut buffer) {
                received.fetch_add(length as u64, Ordering::Relaxed);
            }
        });
        scope.spawn(|| {
            let mut stream = connect(&path, at);
            let block = vec![7; 1 << 20];
            while !stop.load(Ordering::Relaxed) {
                if stream.write_all(&block).is_err() {
                    break;
                }
            }
        });
        std::thread::sleep(WARM_UP);
        let before = (Instant::now(), received.load(Ordering::Relaxed), cpu());
        std::thread::sleep(time);
        let bytes = received.load(Ordering::Relaxed) - before.1;
        let [emulator, process, all] = cpu();
        let elapsed = before.0.elapsed().as_secs_f64();
        stop.store(true, Ordering::Relaxed);
        let (forward, reverse) = path.outcome();
        let caveats = path.caveats().expect("the path is there");
        Run {
            goodput_bps: bytes as f64 * 8.0 / elapsed,
            ping_ms,
            lateness: [forward, reverse].map(|link| link.lateness_us.unwrap_or_default()),
            dropped: forward.dropped_segments + reverse.dropped_segments,
            emulator_core: (emulator - before.2[0]) / elapsed,
            process_cores: (process - before.2[1]) / elapsed,
            others_cores: (all - process - before.2[2] + before.2[1]) / elapsed,
            caveats: caveats
                .iter()
                .map(|caveat| format!("; {caveat:?}"))
                .collect(),
        }
    })
}

/// Median round trip of one byte, in milliseconds.
fn ping(path: &LabPath) -> f64 {
    let listener = listen(path);
    let at = listener.local_addr().expect("a bound address");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut byte = [0];
            while stream.read_exact(&mut byte).is_ok() && stream.write_all(&byte).is_ok() {}
        });
        let mut stream = connect(path, at);
        let mut byte = [0];
        median((0..PINGS).map(|_| {
            let start = Instant::now();
            stream.write_all(&byte).expect("the peer reads");
            stream.read_exact(&mut byte).expect("the peer answers");
            start.elapsed().as_secs_f64() * 1e3
        }))
    })
}

fn listen(path: &LabPath) -> TcpListener {
    let bind = |address: IpAddr| TcpListener::bind(SocketAddr::new(address, 0));
    path.b()
        .run(|| bind(path.b_addr()))
        .expect("the namespace is ours")
        .expect("a free port")
}

fn connect(path: &LabPath, at: SocketAddr) -> TcpStream {
    path.a()
        .run(|| {
            let socket = socket2::Socket::new(
                socket2::Domain::for_address(at),
                socket2::Type::STREAM,
                None,
            )?;
            socket.set_tcp_congestion(b"cubic")?;
            socket.set_tcp_nodelay(true)?;
            socket.connect(&at.into())?;
            std::io::Result::Ok(TcpStream::from(socket))
        })
        .expect("the namespace is ours")
        .expect("a listening peer")
}

/// Processor time so far of the emulator's threads, the process and the machine, in seconds.
fn cpu() -> [f64; 3] {
    let mut emulator = 0.0;
    for task in fs::read_dir("/proc/self/task")
        .expect("/proc is mounted")
        .flatten()
    {
        let comm = fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        if comm.trim() == "lab-emulator" {
            emulator += ticks(&fs::read_to_string(task.path().join("stat")).unwrap_or_default());
        }
    }
    let process = ticks(&fs::read_to_string("/proc/self/stat").expect("/proc is mounted"));
    // User, nice, system, idle, waiting, interrupts, soft interrupts, stolen.
    let machine = fs::read_to_string("/proc/stat").expect("/proc is mounted");
    let first = machine.lines().next().unwrap_or_default();
    let states = first.split_ascii_whitespace().skip(1).take(8).enumerate();
    let busy = states.filter(|(state, _)| !matches!(state, 3 | 4));
    let busy = busy.filter_map(|(_, field)| field.parse::<f64>().ok());
    [emulator, process, busy.sum::<f64>() / 100.0]
}

/// Fields 14 and 15 of proc(5)'s stat: user and system time, in hundredths of a second.
fn ticks(stat: &str) -> f64 {
    let rest = stat.rsplit(')').next().unwrap_or_default();
    let fields = rest.split_ascii_whitespace().skip(11).take(2);
    fields
        .filter_map(|field| field.parse::<f64>().ok())
        .sum::<f64>()
        / 100.0
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
