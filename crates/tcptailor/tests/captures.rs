//! `diagnose` on packet captures: files of the virtual engine, and one of the kernel's packets. Of
//! the latter this test process is the program: it talks to itself over loopback.

#[path = "../../linux/tests/asking/mod.rs"]
mod asking;
mod common;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;

fn tcptailor(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tcptailor"))
        .args(args)
        .output()
        .expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn document(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("{error}: {}{}", text(&output.stdout), text(&output.stderr));
    })
}

/// A capture of both ends of a scenario in virtual time.
fn captured(scenario: &str, folder: &Path) -> PathBuf {
    let file = folder.join("packets.pcapng");
    let shown = file.to_str().expect("UTF-8");
    let run = tcptailor(&[
        "lab", "run", scenario, "--engine", "virtual", "--pcap", shown,
    ]);
    assert!(file.exists(), "{}", text(&run.stderr));
    file
}

/// The cell of the scenario with that option has a median of 1.02 ms.
#[test]
fn a_change_that_packets_show_is_predicted_from_a_capture() {
    let folder = tempfile::tempdir().expect("a directory");
    let file = captured("lan-wwr", folder.path());
    let file = file.to_str().expect("UTF-8");
    let answer = document(&tcptailor(&[
        "predict",
        file,
        "--try",
        "nodelay=on",
        "--try",
        "sndbuf=1MiB",
        "--try-far",
        "nodelay=on",
        "--json",
    ]));
    let rows = answer["predictions"].as_array().expect("a list");
    let row = |change: &str, end: &str| {
        let mut rows = rows.iter();
        rows.find(|row| row["change"] == change && row["end"] == end)
            .unwrap_or_else(|| panic!("{change} at the {end}: {answer:#}"))
    };
    let known = &row("nodelay = on", "client")["known"];
    let number = |name: &str| known["range"][name].as_f64().expect("a number");
    assert!(
        number("low") <= 1020.0 && 1020.0 <= number("high"),
        "{known}"
    );
    assert!((number("value") / 1020.0 - 1.0).abs() < 0.05, "{known}");
    for (change, end) in [("sndbuf = 1MiB", "client"), ("nodelay = on", "server")] {
        let why = &row(change, end)["unknown"]["why"];
        assert_eq!(why, "not-in-packets", "{change} at the {end}");
    }
}

#[test]
fn a_capture_is_judged_whatever_its_compression() {
    let folder = tempfile::tempdir().expect("a directory");
    let file = captured("lan-wwr", folder.path());
    let bytes = std::fs::read(&file).expect("it is there");
    let plain = document(&tcptailor(&[
        "diagnose",
        file.to_str().expect("UTF-8"),
        "--json",
    ]));
    let verdict = &plain["flows"][0]["verdicts"][0];
    assert_eq!(verdict["id"], "nagle-delack-stall", "{plain:#}");
    assert_eq!(verdict["consistent_with"], true);
    assert_eq!(
        (&verdict["confidence"], &verdict["act"]),
        (&"medium".into(), &false.into())
    );
    assert_eq!(verdict["change"]["target"], Value::Null);
    assert_eq!(verdict["change"]["at"], "10.77.0.1");
    let capture = &plain["capture"];
    assert_eq!(
        (&capture["taken"], &capture["doubts"]),
        (&"both-ends".into(), &Value::Array(vec![]))
    );

    let gzip = {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(&bytes).expect("into memory");
        encoder.finish().expect("into memory")
    };
    let level = ruzstd::encoding::CompressionLevel::Fastest;
    let half = bytes.len() / 2;
    // Two frames, as `cat` makes them of two files.
    let frames = [&bytes[..half], &bytes[half..]];
    let zstd = frames
        .map(|part| ruzstd::encoding::compress_to_vec(part, level))
        .concat();
    for (name, bytes) in [("gzip", gzip), ("zstd", zstd)] {
        let file = folder.path().join(name).with_extension("packets");
        std::fs::write(&file, bytes).expect("a file");
        let same = document(&tcptailor(&[
            "diagnose",
            file.to_str().expect("UTF-8"),
            "--json",
        ]));
        assert_eq!(same["flows"], plain["flows"], "{name}");
        assert_eq!(same["capture"], plain["capture"], "{name}");
    }
}

#[test]
fn a_pipe_is_read_and_connections_are_listed() {
    let folder = tempfile::tempdir().expect("a directory");
    let file = captured("lan-wwr", folder.path());
    let list = folder.path().join("flows.jsonl");
    let mut child = Command::new(env!("CARGO_BIN_EXE_tcptailor"))
        .args(["diagnose", "-", "--write-flows"])
        .arg(&list)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let bytes = std::fs::read(file).expect("it is there");
    child
        .stdin
        .take()
        .expect("a pipe")
        .write_all(&bytes)
        .expect("it reads");
    let shown = text(&child.wait_with_output().expect("it ends").stdout);
    assert!(shown.contains("consistent with: Nagle's"), "{shown}");
    assert!(shown.contains("made at both ends"), "{shown}");
    let lines = std::fs::read_to_string(list).expect("it was written");
    let flows: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(flows.len(), 2, "one connection at each of two devices");
    for flow in &flows {
        assert_eq!(flow["schema"], "tcptailor/capture-flow/1");
        let forward = &flow["forward"];
        assert_eq!(forward["retransmissions"], 0, "{flow:#}");
        assert!(
            forward["waited_us"]["nagle"].as_u64() > Some(1_000_000),
            "{flow:#}"
        );
    }
}

#[test]
fn a_pipe_that_begins_with_single_bytes_is_known_as_what_it_is() {
    let folder = tempfile::tempdir().expect("a directory");
    let bytes = std::fs::read(captured("lan-wwr", folder.path())).expect("it is there");
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&bytes).expect("into memory");
    let packed = encoder.finish().expect("into memory");
    for bytes in [bytes, packed] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_tcptailor"))
            .args(["diagnose", "-", "--json"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut pipe = child.stdin.take().expect("a pipe");
        let (first, rest) = bytes.split_at(6);
        for byte in first {
            pipe.write_all(&[*byte]).expect("it reads");
            thread::sleep(Duration::from_millis(20));
        }
        pipe.write_all(rest).expect("it reads");
        drop(pipe);
        let judged = document(&child.wait_with_output().expect("it ends"));
        let verdict = &judged["flows"][0]["verdicts"][0]["id"];
        assert_eq!(verdict, "nagle-delack-stall", "{judged:#}");
    }
}

#[test]
fn what_is_wrong_with_a_capture_is_told() {
    let folder = tempfile::tempdir().expect("a directory");
    let packet = |seq: u32| {
        let mut bytes = vec![0x45, 0, 0, 140, 0, 1, 0, 0, 64, 6, 0, 0];
        bytes.extend([10, 0, 0, 1, 10, 0, 0, 2, 0x9c, 0x40, 0, 80]);
        bytes.extend(seq.to_be_bytes());
        bytes.extend([0, 0, 0, 1, 0x50, 0x18, 0xff, 0xff, 0, 0, 0, 0]);
        bytes
    };
    let mut writer =
        base::pcap::Writer::pcapng(Vec::new(), &["\u{1b}[2J\u{7}eth0"]).expect("memory");
    let second = 1_000_000_000;
    let far = 0x8000_0000;
    let times = [
        (1, 1000),
        (2, 1100),
        (3, far),
        (u64::MAX / second, 1200),
        (4, 1300),
    ];
    for (seconds, seq) in times {
        let at = base::Instant::from_nanos(seconds * second);
        writer.write(0, at, &packet(seq)).expect("memory");
    }
    let mut bytes = writer.finish().expect("memory");
    // A block of nearly 4 GiB.
    bytes.extend([6, 0, 0, 0, 0xfc, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
    let file = folder.path().join("odd.pcapng");
    std::fs::write(&file, bytes).expect("a file");
    let output = tcptailor(&["diagnose", file.to_str().expect("UTF-8"), "-v"]);
    let shown = text(&output.stdout);
    assert!(output.status.success(), "{shown}{}", text(&output.stderr));
    assert!(!shown.contains(['\u{1b}', '\u{7}']), "{shown:?}");
    let told = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    for expected in [
        "a block of more than 8 MB",
        "2 jumps of its clock",
        "1 segment with numbers far from those of its connection",
        "2 connections seen in one direction only",
    ] {
        assert!(told.contains(expected), "{expected}: {shown}");
    }
}

#[test]
fn what_makes_no_sense_is_refused_by_name() {
    let folder = tempfile::tempdir().expect("a directory");
    let file = captured("lan-wwr", folder.path());
    let file = file.to_str().expect("UTF-8");
    let check = |args: &[&str], code: i32, expected: &str| {
        let output = tcptailor(&[&["diagnose"], args].concat());
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {told}");
        assert!(told.contains(expected), "{args:?}: {told}");
    };
    check(&[file, "-t", "3s"], 2, "-t: a capture");
    let plan = folder.path().join("plan.json");
    let plan = plan.to_str().expect("UTF-8");
    check(
        &[file, "-o", plan],
        2,
        "-o: changes are planned for live connections",
    );
    check(&[file, "-N", "x"], 2, "leave -N out");
    check(
        &[file, "--all-netns"],
        2,
        "--all-netns: a recording or capture",
    );
    check(&[file, "comm = x"], 2, "packets do not tell of processes");
    check(&[file, "-i", "1us"], 2, "-i");
    let flows = folder.path().join("flows.jsonl");
    let flows = flows.to_str().expect("UTF-8");
    check(&["--write-flows", flows], 2, "--write-flows: live");
    let noise = folder.path().join("noise.pcap");
    std::fs::write(&noise, [0x55; 999]).expect("a file");
    check(
        &[noise.to_str().expect("UTF-8")],
        2,
        "neither a packet capture",
    );
    // What is good of a damaged one is judged.
    let bytes = std::fs::read(file).expect("it is there");
    let cut = folder.path().join("cut.pcapng");
    std::fs::write(&cut, &bytes[..bytes.len() - 5]).expect("a file");
    let output = tcptailor(&["diagnose", cut.to_str().expect("UTF-8")]);
    let shown = text(&output.stdout);
    assert!(shown.contains("the file ends within a packet"), "{shown}");
    assert!(shown.contains("nagle-delack-stall"), "{shown}");
}

/// Writes what passes the loopback interface as a pcap file, until its input ends; as libpcap,
/// without the second look at each packet.
const CAPTURE: &str = r#"
import select, socket, struct, sys, time
seen = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.ntohs(3))
seen.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
seen.bind(("lo", 0))
out = open(sys.argv[1], "wb")
out.write(struct.pack("=IHHiIII", 0xa1b23c4d, 2, 4, 0, 0, 65535, 1))
print("ready", flush=True)
while True:
    ready, _, _ = select.select([seen, sys.stdin], [], [])
    if sys.stdin in ready:
        break
    data, address = seen.recvfrom(1 << 17)
    if address[2] != 4:
        now = time.time_ns()
        head = struct.pack("=IIII", now // 10**9, now % 10**9, len(data), len(data))
        out.write(head + data)
out.close()
"#;

/// A client that writes its request in two pieces, and a server that answers.
fn talk(time: Duration) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let server = thread::spawn(move || {
        let mut stream = listener.accept().expect("a client").0;
        let mut request = [0; 104];
        while stream.read_exact(&mut request).is_ok() && stream.write_all(&[b'r'; 100]).is_ok() {}
    });
    let client = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
    let mut speaker = client.try_clone().expect("a descriptor");
    let asking = thread::spawn(move || {
        let mut reply = [0; 100];
        while speaker.write_all(b"head").is_ok()
            && speaker.write_all(&[b'b'; 100]).is_ok()
            && speaker.read_exact(&mut reply).is_ok()
        {}
    });
    thread::sleep(time);
    // Both sides then read the end of the stream, or fail to write, and return.
    let _ = client.shutdown(Shutdown::Both);
    asking.join().expect("the client ends");
    server.join().expect("the server ends");
    port
}

#[test]
fn packets_of_the_kernel_show_the_stall_too() {
    let folder = tempfile::tempdir().expect("a directory");
    let file = folder.path().join("lo.pcap");
    let spawned = Command::new("python3")
        .args(["-c", CAPTURE])
        .arg(&file)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut sniffer) = spawned else {
        return asking::skip("there is no python3");
    };
    let mut ready = [0; 6];
    let pipe = sniffer.stdout.as_mut().expect("a pipe");
    if pipe.read_exact(&mut ready).is_err() {
        sniffer.wait().expect("it ends");
        return asking::skip("packet sockets need CAP_NET_RAW");
    }
    let port = talk(Duration::from_secs(3));
    drop(sniffer.stdin.take());
    assert!(sniffer.wait().expect("it ends").success());
    let filter = format!("dport = :{port}");
    let shown = file.to_str().expect("UTF-8");
    let judged = document(&tcptailor(&["diagnose", shown, &filter, "--json"]));
    let flow = &judged["flows"][0];
    assert_eq!(
        flow["verdicts"][0]["id"], "nagle-delack-stall",
        "{judged:#}"
    );
    assert_eq!(flow["verdicts"][0]["consistent_with"], true);
    assert_eq!(judged["capture"]["taken"], "same-host", "{judged:#}");
}

/// The pipe of a capture that is running may bring nothing for hours.
#[test]
fn a_pipe_that_brings_nothing_is_left_when_that_is_asked_for() {
    let header = [
        &[0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0][..],
        &[0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 1, 0, 0, 0],
    ];
    let header = header.concat();
    for sent in [&header[..0], &header[..10], &header, b"{"] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_tcptailor"))
            .args(["diagnose", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        let mut pipe = child.stdin.take().expect("a pipe");
        pipe.write_all(sent).expect("it reads");
        common::wait_until_it_hears(&child);
        let pid = child.id().to_string();
        let told = Command::new("kill").args(["-TERM", &pid]).status();
        assert!(told.expect("kill").success());
        let mut ended = None;
        for _ in 0..600 {
            ended = child.try_wait().expect("our child");
            if ended.is_some() {
                break;
            }
            thread::sleep(Duration::from_millis(50));
        }
        if ended.is_none() {
            child.kill().expect("our child");
            child.wait().expect("our child");
        }
        let ended = ended.and_then(|status| status.code());
        assert_eq!(ended, Some(130), "after {} bytes", sent.len());
        drop(pipe);
    }
}

/// The packets of one host, as the capture of a device with asymmetric routing has them.
fn one_way(file: &Path, host: [u8; 4]) -> PathBuf {
    let bytes = std::io::BufReader::new(std::fs::File::open(file).expect("it is there"));
    let mut reader = base::pcap::Reader::new(bytes).expect("a capture");
    let mut kept = Vec::new();
    for word in [0xa1b2_3c4d_u32, 0x0004_0002, 0, 0, 65_535, 101] {
        kept.extend(word.to_le_bytes());
    }
    while let Some(Ok(packet)) = reader.next_packet() {
        let ip = packet.ip().expect("IP");
        if packet.interface != 0 || ip[12..16] != host {
            continue;
        }
        let (seconds, nanos) = {
            let at = packet.at.as_nanos();
            (at / 1_000_000_000, at % 1_000_000_000)
        };
        let cut = packet.bytes.len() - ip.len();
        let original = packet.original_bytes as usize - cut;
        for word in [seconds, nanos, ip.len() as u64, original as u64] {
            kept.extend((word as u32).to_le_bytes());
        }
        kept.extend(ip);
    }
    let file = file.with_extension("one-way.pcap");
    std::fs::write(&file, kept).expect("a file");
    file
}

#[test]
fn one_direction_tells_a_rate_and_no_limit() {
    let folder = tempfile::tempdir().expect("a directory");
    let file = captured("wan-bulk", folder.path());
    for host in [[10, 77, 0, 1], [10, 77, 0, 2]] {
        let file = one_way(&file, host);
        let answer = document(&tcptailor(&[
            "diagnose",
            file.to_str().expect("UTF-8"),
            "--json",
        ]));
        let flow = &answer["flows"][0];
        assert_eq!(answer["capture"]["one_way_connections"], 1, "{answer:#}");
        let sends = flow["local"]
            .as_str()
            .expect("an address")
            .starts_with("10.77.0.1:");
        let direction = if sends { "out" } else { "in" };
        assert_eq!(flow["direction"], direction, "{host:?}: {flow:#}");
        assert!(flow["rate_bps"].as_u64() > Some(1_000_000), "{flow:#}");
        assert_eq!(flow["idle"], false, "{flow:#}");
        assert_eq!(flow["verdicts"], Value::Array(vec![]), "{host:?}");
        let why = flow["unknown"].as_str().expect("a reason");
        assert!(!why.contains("-t 30s"), "{why}");
    }
}
