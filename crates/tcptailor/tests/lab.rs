//! `lab run`, `lab path` and `lab list` as a user meets them. What runs on the kernel needs what
//! lab paths need; without it the test says that it was skipped, and fails instead where
//! `REQUIRE_KERNEL` is set.

#[path = "../../linux/tests/asking/mod.rs"]
mod asking;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// Exit code for a missing permission or kernel feature.
const MISSING: i32 = 4;

const OUTCOME_KEYS: &[&str] = &[
    "engine",
    "scenario",
    "variant",
    "axes",
    "run",
    "seed",
    "usable",
    "goodput_bps",
    "duration_s",
    "response_us",
    "stall_max_us",
    "limits",
    "sender",
    "link",
    "caveats",
];

fn lab(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tcptailor"));
    command.arg("lab").args(args);
    command
}

fn run(args: &[&str]) -> Output {
    lab(args).output().expect("the program starts")
}

/// `None`, with a word about it, where this machine has no lab paths.
fn on_kernel(output: Output) -> Option<Output> {
    if output.status.code() != Some(MISSING) {
        return Some(output);
    }
    asking::skip(String::from_utf8_lossy(
        &[output.stderr, output.stdout].concat(),
    ));
    None
}

fn document(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Names of namespaces that a process made.
fn namespaces(pid: u32) -> Vec<String> {
    let own = format!("tcptailor-{pid}-");
    let listed = fs::read_dir("/run/netns").into_iter().flatten().flatten();
    listed
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.starts_with(&own))
        .collect()
}

fn keys(value: &Value) -> BTreeSet<&str> {
    let object = value.as_object().unwrap_or_else(|| panic!("{value:#}"));
    object.keys().map(String::as_str).collect()
}

fn check_keys(value: &Value, expected: &[&str]) {
    assert_eq!(keys(value), expected.iter().copied().collect());
}

#[test]
fn a_run_on_the_kernel_is_a_document_and_leaves_nothing() {
    let child = lab(&["run", "lan-request", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let pid = child.id();
    let Some(output) = on_kernel(child.wait_with_output().expect("it ends")) else {
        return;
    };
    let document = document(&output);
    // A machine that is too busy breaks a claim, or gives no usable run; both are told.
    let caveats = document["outcomes"][0]["caveats"].as_array();
    let is_disturbed = caveats.is_some_and(|caveats| !caveats.is_empty());
    match output.status.code() {
        Some(0) => {}
        Some(1 | 3) if is_disturbed => {}
        code => panic!("{code:?}: {document:#}"),
    }
    assert_eq!(document["schema"], "tcptailor/lab-run/2");
    assert_eq!(namespaces(pid), [""; 0]);
    let outcome = &document["outcomes"][0];
    check_keys(outcome, OUTCOME_KEYS);
    assert_eq!(outcome["engine"], "kernel");
    assert_eq!(outcome["scenario"], "lan-request");
    assert!(outcome["goodput_bps"].as_u64() > Some(0), "{outcome:#}");
    check_keys(
        &outcome["response_us"],
        &["n", "p50", "p90", "p99", "max", "stalled"],
    );
    let median = outcome["response_us"]["p50"].as_u64();
    assert!(median >= Some(200), "the path takes 200 us: {outcome:#}");
    // One request at a time: half of them take the median at least, one after the other.
    let requests = outcome["response_us"]["n"].as_f64().expect("a number");
    let half_us = requests / 2.0 * median.unwrap_or(0) as f64;
    let duration = outcome["duration_s"].as_f64().expect("a number");
    assert!(half_us <= duration * 1e6, "{half_us} us: {outcome:#}");
    check_keys(&outcome["limits"][0], &["limit", "share"]);
    for direction in ["forward", "reverse"] {
        let link = &outcome["link"][direction];
        assert!(link["delivered"].as_u64() > Some(0), "{outcome:#}");
        check_keys(&link["lateness_us"], &["p50", "p99", "max"]);
    }
    assert_eq!(document["expectations"][0]["metric"], "response_p50_us");
    assert!(document["expectations"][0]["passed"].is_boolean() || outcome["usable"] == false);
}

#[test]
fn a_calibration_is_what_virtual_hosts_take() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("here.json");
    let path = file.to_str().expect("UTF-8");
    assert_eq!(run(&["calibrate", "-o", path]).status.code(), Some(0));
    let text = fs::read_to_string(&file).expect("a file");
    let written: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(written["schema"], "tcptailor/lab-calibrate/1");
    assert!(written["costs"]["wake_ns"].as_u64() > Some(0), "{written}");

    // Fifteen small writes without delay are fifteen packets, and as much work.
    let slow = |cost: u64| {
        let mut costs = written.clone();
        costs["costs"]["send_packet_ns"] = cost.into();
        fs::write(&file, costs.to_string()).expect("a file");
        let args = [
            "run", "r2", "--engine", "virtual", "--runs", "1", "--json", "--costs", path,
        ];
        let ran = document(&run(&args));
        assert_eq!(ran["host_costs"]["send_packet_ns"], cost);
        let rows = ran["outcomes"].as_array().expect("rows").clone();
        let of = |variant: &str| {
            let row = rows.iter().find(|row| row["variant"] == variant);
            row.expect("a variant")["response_us"]["p50"]
                .as_f64()
                .expect("a time")
        };
        of("no_delay") / of("cork")
    };
    let (cheap, dear) = (slow(100), slow(100_000));
    assert!(dear > 5.0 && dear > 2.0 * cheap, "{cheap} {dear}");

    let refused = |args: &[&str], expected: &str| {
        let output = run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(told.contains(expected), "{told}");
    };
    refused(&["run", "r2", "--costs", path], "--engine virtual");
    fs::write(&file, text.replace("lab-calibrate", "lab-run")).expect("a file");
    let virtual_run = ["run", "r2", "--engine", "virtual", "--costs", path];
    refused(&virtual_run, "lab calibrate -o FILE");
    fs::write(&file, "{}").expect("a file");
    refused(&virtual_run, "not a calibration");
}

#[test]
fn a_run_in_virtual_time_is_the_same_document() {
    let args = ["run", "lan-request", "--engine", "virtual", "--json"];
    let output = run(&args);
    assert_eq!(output.status.code(), Some(0));
    let first = document(&output);
    assert_eq!(first["schema"], "tcptailor/lab-run/2");
    let outcome = &first["outcomes"][0];
    check_keys(outcome, OUTCOME_KEYS);
    assert_eq!(outcome["engine"], "virtual");
    assert_eq!(outcome["caveats"], serde_json::json!([]));
    assert!(outcome["link"]["forward"]["lateness_us"].is_null());
    let median = outcome["response_us"]["p50"].as_u64();
    // A round trip, and the work of two hosts.
    assert!(median >= Some(210) && median <= Some(225), "{outcome:#}");
    assert_eq!(first["expectations"][0]["passed"], true);
    let again = document(&run(&args));
    assert_eq!(first["outcomes"], again["outcomes"], "the same seed");
}

#[test]
fn the_packets_of_a_run_in_virtual_time_are_a_capture() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("wwr.pcapng");
    let file = path.to_str().expect("a plain name");
    let output = run(&["run", "lan-wwr", "--engine", "virtual", "--pcap", file]);
    assert_eq!(output.status.code(), Some(0));
    let bytes = std::fs::read(&path).expect("a capture");
    let mut reader = base::pcap::Reader::new(&bytes[..]).expect("a capture file");
    let mut packets = 0;
    while let Some(packet) = reader.next_packet() {
        let packet = packet.expect("a whole packet");
        let ip = base::ip::IpPacket::parse(packet.ip().expect("IP")).expect("valid IP");
        let segment = base::tcp::TcpSegment::parse(ip.payload()).expect("valid TCP");
        assert!(segment.checksum_is_right((ip.source(), ip.destination())));
        packets += 1;
    }
    // Some 88 operations of four packets and more, each seen at both ends.
    assert!(packets > 500, "{packets}");
    let refused = run(&["run", "lan-wwr", "--pcap", file]);
    assert_eq!(refused.status.code(), Some(2));
}

/// Packets by place, of a capture.
fn captured(file: &Path) -> BTreeMap<u32, usize> {
    let bytes = fs::read(file).expect("a capture");
    let mut reader = base::pcap::Reader::new(&bytes[..]).expect("a capture file");
    let mut counts = BTreeMap::new();
    while let Some(packet) = reader.next_packet() {
        let interface = packet.expect("a whole packet").interface;
        *counts.entry(interface).or_default() += 1;
    }
    counts
}

/// A log as lines of JSON.
fn events(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).expect("a log");
    let lines = text.lines().map(serde_json::from_str::<Value>);
    lines.map(|line| line.expect("a line of JSON")).collect()
}

#[test]
fn the_events_of_a_run_in_virtual_time_are_those_of_its_packets() {
    let folder = tempfile::tempdir().expect("a folder");
    let [pcap, log, again] =
        ["a.pcapng", "a.jsonl", "b.jsonl"].map(|name| folder.path().join(name));
    let name = |path: &Path| path.to_str().expect("a plain name").to_owned();
    let args = [
        "run",
        "wan-bulk",
        "--engine",
        "virtual",
        "--set",
        "path.loss=1%",
    ];
    let record = |more: &[&str]| {
        let args = [&args[..], &["--set", "workload.duration=1s"], more].concat();
        let output = run(&args);
        assert!(matches!(output.status.code(), Some(0 | 3)), "{output:?}");
    };
    record(&["--pcap", &name(&pcap), "--events", &name(&log)]);
    let lines = events(&log);
    check_keys(&lines[0], &["schema", "version", "trial", "seed"]);
    assert_eq!(lines[0]["schema"], "tcptailor/events/1");
    let of = |host: &str, kinds: &[&str]| {
        let is_one =
            |line: &&Value| line["host"] == host && kinds.iter().any(|kind| line["kind"] == *kind);
        lines[1..].iter().filter(is_one).count()
    };
    let packets = ["packet-sent", "packet-received"];
    let told = BTreeMap::from([(0, of("client", &packets)), (1, of("server", &packets))]);
    assert_eq!(told, captured(&pcap));
    assert!(of("client", &["lost"]) > 0 && of("client", &["retransmitted"]) > 0);
    assert!(of("client", &["limit"]) > 0 && of("server", &["timer-fired"]) > 0);
    let time = |line: &Value| line["time_us"].as_f64().expect("a time");
    assert!(lines[1..].is_sorted_by_key(time));
    let document = include_str!("../../../docs/events.md");
    for line in &lines[1..] {
        check_keys(line, &["time_us", "host", "connection", "kind", "fields"]);
        for name in keys(&line["fields"])
            .into_iter()
            .chain(line["kind"].as_str())
        {
            assert!(document.contains(&format!("`{name}`")), "{name}");
        }
    }
    record(&["--events", &name(&again)]);
    assert_eq!(fs::read(&log).ok(), fs::read(&again).ok(), "the same seed");
}

#[test]
fn an_event_log_that_cannot_be_written_is_an_error() {
    let check = |args: &[&str], code: i32, expected: &str| {
        let output = run(&[&["run", "lan-wwr"], args].concat());
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{message}");
        assert!(message.contains(expected), "{message}");
    };
    let engine = ["--engine", "virtual", "--events"];
    let full = [&engine[..], &["/dev/full"]].concat();
    check(&full, 1, "writing /dev/full: No space left");
    let nowhere = [&engine[..], &["/nowhere/a.jsonl"]].concat();
    check(&nowhere, 2, "writing /nowhere/a.jsonl: No such file");
    check(&["--events", "/dev/null"], 2, "`--engine virtual`");
}

#[test]
fn hosts_may_have_other_stacks_in_virtual_time() {
    let duration = "workload.duration=1s";
    let args = ["run", "wan-bulk", "--json", "--set", duration];
    let goodput = |more: &[&str]| {
        let output = run(&[&args[..], &["--engine", "virtual"], more].concat());
        document(&output)["outcomes"][0]["goodput_bps"].as_u64()
    };
    let linux = goodput(&[]);
    assert_ne!(linux, goodput(&["--profile", "freebsd_2006"]));
    assert_eq!(linux, goodput(&["--set", "client.profile=linux_6_18"]));
    let refused = run(&["run", "wan-bulk", "--profile", "textbook"]);
    assert_eq!(refused.status.code(), Some(2));
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(message.contains("--engine virtual"), "{message}");
}

#[test]
fn runs_are_interleaved_and_an_interrupt_keeps_what_is_there() {
    let args = [
        "run",
        "lan-wwr",
        "--runs",
        "100",
        "--seed",
        "7",
        "--set",
        "workload.duration=100ms",
        "--jsonl",
    ];
    let mut child = lab(&args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    // Some runs, and then, most likely in the middle of one, the signal.
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped"));
    let mut text = String::new();
    for _ in 0..4 {
        lines.read_line(&mut text).expect("UTF-8");
    }
    let pid = child.id().to_string();
    let kill = Command::new("kill").args(["-INT", &pid]).status();
    kill.expect("kill starts");
    lines.read_to_string(&mut text).expect("UTF-8");
    let output = child.wait_with_output().expect("it ends");
    let Some(output) = on_kernel(output) else {
        return;
    };
    assert_eq!(output.status.code(), Some(130));
    let rows: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line of JSON"))
        .collect();
    assert!((4..100).contains(&rows.len()), "{}", rows.len());
    for (index, row) in (0_u64..).zip(&rows) {
        let variant = ["default", "nodelay", "cork"][index as usize % 3];
        assert_eq!(row["variant"], variant, "{row:#}");
        assert_eq!(row["run"], index / 3);
        assert_eq!(row["seed"], 7 + index / 3);
    }
}

#[test]
fn runs_go_on_until_the_medians_are_known() {
    let check = |loss: &str, runs: std::ops::RangeInclusive<usize>| {
        let short = "workload.duration=200ms";
        let args = ["run", "wan-bulk", "--engine", "virtual", "--runs", "auto"];
        let more = ["--set", short, "--set", loss, "--json"];
        let document = document(&run(&[&args[..], &more].concat()));
        assert_eq!(
            (&document["runs"], &document["runs_max"]),
            (&6.into(), &30.into())
        );
        let made = document["outcomes"].as_array().map_or(0, Vec::len);
        assert!(runs.contains(&made), "{loss}: {made}");
    };
    check("path.loss=0%", 6..=6);
    check("path.loss=2%", 7..=30);
    let refused = run(&["run", "wan-bulk", "--runs", "atuo"]);
    assert_eq!(refused.status.code(), Some(2));
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(message.contains("a number, or `auto`"), "{message}");
}

#[test]
fn nonsense_is_refused_with_all_that_is_wrong() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("bad.toml");
    let text = "name = \"bad\"\nabout = \"A mistake or two.\"\n\n[path]\nkind = \"emulated\"\n\
                rate = \"20mbps\"\nrtt = \"40ms\"\nqueue = \"100p\"\n\n[workload]\nkind = \"bulc\"\n\
                duration = \"3s\"\n\n[client]\nnodlay = \"on\"\n";
    fs::write(&file, text).expect("a file");
    let bad = file.to_str().expect("UTF-8");
    let check = |args: &[&str], expected: &[&str]| {
        let output = run(&[&["run"], args].concat());
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
        for part in expected {
            assert!(
                message.contains(part),
                "{args:?}: `{message}` lacks `{part}`"
            );
        }
    };
    check(&["lan-requst"], &["did you mean `lan-request`?"]);
    let places = [
        format!("{bad}:6:8: "),
        format!("{bad}:11:8: "),
        format!("{bad}:15:1: "),
    ];
    let mut expected: Vec<&str> = places.iter().map(String::as_str).collect();
    expected.extend(["did you mean `bulk`", "did you mean `nodelay`"]);
    check(&[bad], &expected);
    check(&["./none.toml"], &["./none.toml: No such file"]);
    check(
        &["wan-bulk", "--set", "path.rtt=5"],
        &["--set: path.rtt: `5` has no unit"],
    );
    check(&["wan-bulk", "--set", "path.rtt"], &["KEY=VALUE"]);
    check(
        &["wan-bulk", "--runs", "0"],
        &["error: runs: 0 is out of range; the range is 1 to 1000"],
    );
    check(&["wan-bulk", "--engine", "quantum"], &["kernel"]);
}

#[test]
fn scenarios_are_listed_with_the_faults() {
    let output = run(&["list", "--json"]);
    assert_eq!(output.status.code(), Some(0));
    let document = document(&output);
    assert_eq!(document["schema"], "tcptailor/lab-list/1");
    let scenarios = document["scenarios"].as_array().expect("a list");
    let wwr = scenarios.iter().find(|row| row["scenario"] == "lan-wwr");
    let wwr = wwr.expect("it is part of the program");
    assert_eq!(wwr["variants"].as_array().map(Vec::len), Some(3));
    assert!(document["faults"].as_array().is_some_and(|f| f.len() > 10));
    let text = String::from_utf8(run(&["list"]).stdout).expect("UTF-8");
    assert!(text.contains("lan-wwr") && text.contains("lab faults"));
}

#[test]
fn a_path_stays_for_other_programs_and_goes_with_its_command() {
    let script = "ip -n $CLIENT_NETNS route get $SERVER_ADDRESS";
    let flags = [
        "path", "--rtt", "20ms", "--rate", "50mbit", "--queue", "1bdp",
    ];
    let args = [&flags[..], &["--json", "--", "sh", "-c", script]].concat();
    if asking::witness("ip").is_none() {
        return;
    }
    let Some(output) = on_kernel(run(&args)) else {
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(text.contains("dev lab0"), "{text}");
    let lines = text.lines().filter(|line| line.starts_with('{'));
    let lines: Vec<Value> = lines
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let [ready, ended] = &lines[..] else {
        panic!("two lines: {text}");
    };
    check_keys(ready, &["schema", "client", "server", "interface", "seed"]);
    check_keys(ended, &["schema", "link", "caveats", "usable"]);
    assert_eq!(ended["usable"], true, "{text}");
    let name = ready["client"]["netns"].as_str().expect("a name");
    assert!(!Path::new("/run/netns").join(name).exists(), "{name}");
}

#[test]
fn a_path_ends_with_the_exit_code_of_its_command() {
    let check = |command: &[&str], code: i32, expected: &str| {
        let Some(output) = on_kernel(run(&[&["path", "--"], command].concat())) else {
            return;
        };
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{command:?}: {told}");
        assert!(told.contains(expected), "{command:?}: {told}");
    };
    check(&["sh", "-c", "exit 7"], 7, "forward: 0 of 0 packets");
    check(&["sh", "-c", "kill -9 $$"], 137, "forward: 0 of 0 packets");
    check(&["/nosuchprogram"], 127, "/nosuchprogram: no such program");
}

#[test]
fn a_path_stays_until_it_is_stopped() {
    let mut child = lab(&["path", "--rtt", "1ms"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut line = String::new();
    let stdout = child.stdout.take().expect("it is piped");
    BufReader::new(stdout).read_line(&mut line).expect("a line");
    if !line.is_empty() {
        assert_eq!(namespaces(child.id()).len(), 2, "{line}");
        let pid = child.id().to_string();
        let kill = Command::new("kill").args(["-TERM", &pid]).status();
        kill.expect("kill starts");
    }
    let pid = child.id();
    let output = child.wait_with_output().expect("it ends");
    let Some(output) = on_kernel(output) else {
        return;
    };
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(told.contains("emulator late by"), "{told}");
    assert_eq!(namespaces(pid), Vec::<String>::new());
}

#[test]
fn mistakes_of_a_path_are_told_before_it_is_made() {
    let check = |args: &[&str], expected: &str| {
        let output = run(&[&["path"], args].concat());
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
        assert!(message.contains(expected), "{args:?}: {message}");
    };
    check(&["--rate", "5"], "path.rate");
    check(&["--queue", "2bdp"], "needs a rate");
    check(&["--set", "client.nodelay=on"], "write path.KEY=VALUE");
    check(&["--set", "path.reorde.share=1%"], "reorde");
    check(&["--set", "path.reorder.share=1%"], "path.reorder.hold");
    check(&["--set", "path.x\"=1"], "write path.KEY=VALUE");
    check(&["--rate", "1mbit\" \n"], "path.rate");
}
