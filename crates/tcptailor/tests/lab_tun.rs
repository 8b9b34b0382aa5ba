//! Our stack against the kernel, on real packets, as a user runs it. What these tests claim holds
//! however busy the machine is. Without the privilege for lab paths each says that it was skipped,
//! and fails instead where `REQUIRE_KERNEL` is set.

#[path = "../../linux/tests/asking/mod.rs"]
mod asking;

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

/// Exit code for a missing permission or kernel feature.
const MISSING: i32 = 4;
/// Exit code after Ctrl-C.
const INTERRUPTED: i32 = 130;
/// In the environment of a run, so that its processes are known.
const MARK: &str = "TCPTAILOR_TEST_RUN";
const BYTES: f64 = 500_000.0;
const RATE_BPS: u64 = 10_000_000;
const RTT_US: u64 = 20_000;

const EMULATED: &str = "kind = \"emulated\"\nrate = \"10mbit\"\nrtt = \"20ms\"\nqueue = \"2bdp\"";
const BULK: &str = "kind = \"bulk\"\nbytes = \"500kB\"";
const REQUESTS: &str = "request = \"100B\"\nresponse = \"1kB\"\noperations = 20";

fn scenario(path: &str, workload: &str, more: &str) -> String {
    format!(
        "name = \"x\"\nabout = \"x\"\n[path]\n{path}\n[workload]\n{workload}\n{more}\n\
         [client]\ncongestion = \"cubic\"\n[server]\ncongestion = \"cubic\"\n"
    )
}

fn start(folder: &Path, text: &str, args: &[&str]) -> Child {
    let file = folder.join("x.toml");
    fs::write(&file, text).expect("a folder of ours");
    Command::new(env!("CARGO_BIN_EXE_tcptailor"))
        .args(["lab", "run"])
        .arg(file)
        .args(args)
        .env(MARK, folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts")
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

/// The outcome of one run; `None` where it could not be made.
fn outcome(text: &str, engine: &str, more: &[&str]) -> Option<Value> {
    let folder = tempfile::tempdir().expect("a folder");
    let args = [&["--engine", engine, "--json"], more].concat();
    let child = start(folder.path(), text, &args);
    let pid = child.id();
    let output = on_kernel(child.wait_with_output().expect("it ends"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let document: Value = serde_json::from_str(&text).unwrap_or_else(|error| {
        panic!("{error}: {text}{}", String::from_utf8_lossy(&output.stderr))
    });
    assert_nothing_is_left(folder.path(), pid);
    let outcome = document["outcomes"][0].clone();
    assert_eq!(outcome["engine"], engine);
    assert!(!has(&outcome, "ended-early"), "{outcome:#}");
    assert!(!has(&outcome, "stack-dropped"), "{outcome:#}");
    Some(outcome)
}

fn has(outcome: &Value, caveat: &str) -> bool {
    let caveats = outcome["caveats"].as_array().expect("a list");
    caveats.iter().any(|found| found["caveat"] == caveat)
}

/// Neither namespaces nor processes; those of killed programs end with their input, a moment later.
fn assert_nothing_is_left(mark: &Path, pid: u32) {
    let own = format!("tcptailor-{pid}-");
    let listed = fs::read_dir("/run/netns").into_iter().flatten().flatten();
    let names: Vec<_> = listed
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.starts_with(&own))
        .collect();
    assert_eq!(names, [""; 0]);
    assert_processes_end(mark);
}

fn assert_processes_end(mark: &Path) {
    let began = Instant::now();
    while marked(mark) > 0 {
        assert!(began.elapsed() < Duration::from_secs(20), "they still run");
        thread::sleep(Duration::from_millis(50));
    }
}

/// Processes that have this run in their environment.
fn marked(mark: &Path) -> usize {
    let wanted = format!("{MARK}={}", mark.display());
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let has_mark = |environment: Vec<u8>| {
        let mut variables = environment.split(|byte| *byte == 0);
        variables.any(|variable| variable == wanted.as_bytes())
    };
    all.filter_map(|entry| fs::read(entry.path().join("environ")).ok())
        .filter(|environment| has_mark(environment.clone()))
        .count()
}

const ENGINES: [&str; 2] = ["tun", "tun-receiver"];

#[test]
fn bulk_arrives_to_the_byte_and_no_faster_than_the_path() {
    for engine in ENGINES {
        for direction in ["up", "down"] {
            let more = format!("direction = \"{direction}\"");
            let Some(outcome) = outcome(&scenario(EMULATED, BULK, &more), engine, &[]) else {
                return;
            };
            let goodput = outcome["goodput_bps"].as_u64().expect("a number");
            assert!(
                goodput > 0 && goodput < RATE_BPS,
                "{engine} {direction}: {goodput}"
            );
            let time = outcome["duration_s"].as_f64().expect("a number");
            let arrived = goodput as f64 * time / 8.0;
            assert!(
                (arrived - BYTES).abs() < 100.0,
                "{engine} {direction}: {arrived}"
            );
            let link = |way: &str| {
                outcome["link"][way]["delivered"]
                    .as_u64()
                    .expect("a number")
            };
            assert!(link("forward").max(link("reverse")) > 340, "{outcome:#}");
            // True ones where our stack sends.
            let limits = outcome["limits"].as_array().expect("a list");
            assert!(engine != "tun" || !limits.is_empty(), "{outcome:#}");
            assert!(outcome["stall_max_us"].is_u64(), "{outcome:#}");
        }
    }
}

#[test]
fn answers_take_at_least_a_round_trip() {
    let check = |workload: &str, more: &str, round_trips: u64| {
        for engine in ENGINES {
            let text = scenario(EMULATED, workload, more);
            let Some(outcome) = outcome(&text, engine, &[]) else {
                return;
            };
            let response = &outcome["response_us"];
            assert_eq!(response["n"], 20, "{workload} on {engine}: {outcome:#}");
            let fastest = response["p50"].as_u64().expect("a number");
            assert!(
                fastest >= round_trips * RTT_US,
                "{workload} on {engine}: {fastest} us"
            );
        }
    };
    check("kind = \"request-response\"", REQUESTS, 1);
    check("kind = \"connect-request-close\"", REQUESTS, 2);
    let pieces = "writes = 2\nwrite_size = \"100B\"\nreply = \"100B\"\noperations = 20";
    check("kind = \"write-write-read\"", pieces, 2);
    let corked = format!("{pieces}\nmethod = \"cork\"");
    check("kind = \"write-write-read\"", &corked, 1);
}

#[test]
fn every_kind_of_path_leads_to_our_stack() {
    let wide = "kind = \"bulk\"\nbytes = \"20MB\"";
    let emulated6 = format!("{EMULATED}\nipv6 = true");
    for engine in ENGINES {
        for (path, workload) in [
            ("kind = \"loopback\"", wide),
            ("kind = \"veth\"\nmtu = 1500", wide),
            ("kind = \"veth\"\nmtu = 9000", wide),
            (&emulated6, BULK),
        ] {
            let text = scenario(path, workload, "direction = \"up\"");
            let Some(outcome) = outcome(&text, engine, &[]) else {
                return;
            };
            assert!(
                outcome["goodput_bps"].as_u64() > Some(0),
                "{path}: {outcome:#}"
            );
            let is_loopback = path.contains("loopback");
            assert_eq!(
                has(&outcome, "setting-not-applied"),
                is_loopback,
                "{outcome:#}"
            );
        }
    }
}

#[test]
fn settings_act_on_whichever_stack_an_end_has() {
    let text = scenario(EMULATED, BULK, "direction = \"up\"");
    let with = |engine: &str, settings: &[&str]| {
        let set: Vec<&str> = settings.iter().flat_map(|one| ["--set", one]).collect();
        outcome(&text, engine, &set)
    };
    // 8 KiB per round trip of 20 ms are 3.3 Mbit/s, in either direction.
    for (engine, setting) in [
        ("tun", "server.rcvbuf=4KiB"),
        ("tun-receiver", "server.rcvbuf=4KiB"),
        ("tun-receiver", "server.net.ipv4.tcp_rmem=4096 8192 8192"),
    ] {
        let Some(outcome) = with(engine, &[setting]) else {
            return;
        };
        let goodput = outcome["goodput_bps"].as_u64().expect("a number");
        assert!(goodput < 4_000_000, "{engine} {setting}: {goodput}");
    }
    let text = text.replace(
        "[client]\n",
        "[client]\nprofile = \"winsock\"\nqdisc.limit = \"5p\"\n",
    );
    let Some(outcome) = outcome(&text, "tun", &[]) else {
        return;
    };
    let why = outcome["caveats"].to_string();
    assert!(
        has(&outcome, "setting-not-applied") && why.contains("qdisc.limit"),
        "{why}"
    );
    assert!(!why.contains("winsock"), "{why}");
    let Some(outcome) = self::outcome(&text, "tun-receiver", &[]) else {
        return;
    };
    assert!(
        outcome["caveats"]
            .to_string()
            .contains("the kernel cannot behave as `winsock`")
    );
}

fn assert_was_stopped(output: &Output) {
    assert_eq!(output.status.code(), Some(INTERRUPTED));
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let outcome = &document["outcomes"][0];
    assert!(has(outcome, "ended-early"), "{outcome:#}");
    let caveats = outcome["caveats"].to_string();
    assert!(caveats.contains("it was stopped"), "{caveats}");
}

#[test]
fn an_interrupt_leaves_nothing_behind() {
    for (signal, direction) in [("-INT", "up"), ("-INT", "down"), ("-KILL", "up")] {
        for engine in ENGINES {
            let folder = tempfile::tempdir().expect("a folder");
            // Of no certain time: all of it is measured, and there is no end to wait for.
            let workload = format!("kind = \"bulk\"\ndirection = \"{direction}\"");
            let text = scenario(EMULATED, &workload, "bytes = \"10GB\"");
            let mut child = start(folder.path(), &text, &["--engine", engine, "--json"]);
            let began = Instant::now();
            // The program and its two workers.
            let mut seen = 0;
            while seen < 3 && began.elapsed() < Duration::from_secs(20) {
                if child.try_wait().expect("ours").is_some() {
                    break;
                }
                thread::sleep(Duration::from_millis(50));
                seen = marked(folder.path());
            }
            // Something shall have been measured, without which there is no outcome.
            thread::sleep(Duration::from_secs(2));
            let pid = child.id();
            let kill = Command::new("kill")
                .args([signal, &pid.to_string()])
                .status();
            kill.expect("kill starts");
            let output = child.wait_with_output().expect("it ends");
            let Some(output) = on_kernel(output) else {
                return;
            };
            assert!(seen >= 3, "{engine}: {seen} processes");
            match signal {
                "-INT" => {
                    assert_was_stopped(&output);
                    assert_nothing_is_left(folder.path(), pid);
                }
                // The names of its namespaces are removed by the next start.
                _ => assert_processes_end(folder.path()),
            }
        }
    }
}

#[test]
fn engines_are_compared_with_the_kernel() {
    let agree = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tcptailor"));
        let output = command.args(["lab", "agree"]).args(args).output();
        output.expect("the program starts")
    };
    let refused = agree(&["--engines", "kernel"]);
    assert_eq!(refused.status.code(), Some(2));
    let engines = "tun-receiver,virtual,tun,tun";
    let args = ["wwr/cork", "--quick", "--engines", engines, "--json"];
    let Some(output) = on_kernel(agree(&args)) else {
        return;
    };
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(document["schema"], "tcptailor/lab-agree/1");
    let row = &document["rows"][0];
    let engines = row["engines"].as_array().expect("a list");
    let names: Vec<&str> = engines
        .iter()
        .filter_map(|value| value["engine"].as_str())
        .collect();
    assert_eq!(names, ["virtual", "tun", "tun-receiver"]);
    let values = engines.iter().map(|value| &value["value"]);
    for (value, name) in values
        .chain([&row["kernel"]])
        .zip([&names[..], &["kernel"]].concat())
    {
        match value.as_f64() {
            Some(value) => assert!(value >= 1000.0, "the path takes 1 ms: {row:#}"),
            // On a busy machine a run in real time may be one that must not be used, which is told.
            None => assert!(
                value.is_null() && name != "virtual" && has_doubt(row),
                "{row:#}"
            ),
        }
    }
}

/// Whether something is told that may have made a run useless.
fn has_doubt(row: &Value) -> bool {
    let caveats = row["caveats"].as_array();
    caveats.is_some_and(|caveats| !caveats.is_empty())
}
