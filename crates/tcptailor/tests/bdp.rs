//! `bdp` as a user meets it: the numbers, what is measured, the plan, and refusals.

#[path = "common/command.rs"]
mod command;

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Output, Stdio};

use command::{tcptailor, text};
use serde_json::Value;

fn run(args: &[&str]) -> Output {
    let output = tcptailor(&[&["bdp"], args].concat()).output();
    output.expect("the program starts")
}

fn document(args: &[&str]) -> Value {
    let output = run(&[args, &["--json"]].concat());
    let shown = text(&output.stdout);
    assert!(output.status.success(), "{shown}{}", text(&output.stderr));
    serde_json::from_str(&shown).expect("JSON")
}

/// The row of one limit.
fn limit<'d>(document: &'d Value, setting: &str) -> &'d Value {
    let rows = document["limits"].as_array().expect("rows");
    let found = rows.iter().find(|row| row["setting"] == setting);
    found.unwrap_or_else(|| panic!("{setting} in {document}"))
}

#[test]
fn the_papers_path_is_computed_and_compared_with_this_host() {
    let document = document(&["--preset", "datacenter"]);
    assert_eq!(document["schema"], "tcptailor/bdp/1");
    assert_eq!(document["bdp_bits"], 15_800_000);
    assert_eq!(document["bdp_bytes"], 1_975_000);
    assert_eq!(document["queue_needed_packets"], 1317);
    assert_eq!(document["fixed_windows"][0]["rate_bps"], 442_430_379);
    let kernels = |name: &str, place: usize| -> u64 {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        let text = std::fs::read_to_string(path).expect("a sysctl");
        let mut words = text.split_ascii_whitespace();
        words
            .nth(place)
            .expect("a number")
            .parse()
            .expect("a number")
    };
    let rmem = limit(&document, "net.ipv4.tcp_rmem[2]");
    assert_eq!(rmem["now"], kernels("net.ipv4.tcp_rmem", 2));
    let wmem = limit(&document, "net.ipv4.tcp_wmem[2]");
    assert_eq!(wmem["now"], kernels("net.ipv4.tcp_wmem", 2));
}

#[test]
fn what_is_too_small_becomes_a_plan() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("plan.json");
    let plan = file.display().to_string();
    // No host comes with buffers of half a second of this.
    let output = run(&["--rate", "10gbit", "--rtt", "500ms", "-o", &plan]);
    let shown = text(&output.stdout);
    assert!(output.status.success(), "{shown}{}", text(&output.stderr));
    assert!(
        shown.contains("What would be enough:\n  net.ipv4.tcp_rmem = "),
        "{shown}"
    );
    assert!(
        shown.contains(&format!("Next: tcptailor apply {plan}")),
        "{shown}"
    );
    let read = std::fs::read(&file).expect("a plan");
    let read: Value = serde_json::from_slice(&read).expect("JSON");
    assert_eq!(read["schema"], "tcptailor/plan/2");
    assert_eq!(read["changes"][0]["knob"], "net.ipv4.tcp_rmem");
}

#[test]
fn a_plan_for_a_path_beyond_one_connection_can_be_applied() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("plan.json");
    let plan = file.display().to_string();
    let check = |rtt: &str, parts: &[&str], absent: &str| {
        let output = run(&["--rate", "400gbit", "--rtt", rtt, "-o", &plan]);
        let shown = text(&output.stdout);
        assert!(output.status.success(), "{shown}{}", text(&output.stderr));
        let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in parts {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        assert!(!shown.contains(absent), "{shown}");
        let applied = tcptailor(&["apply", &plan, "-n"]).output().expect("starts");
        assert!(applied.status.success(), "{}", text(&applied.stderr));
    };
    check("10ms", &["What would be enough: "], "cannot fill");
    let parts = [
        "One connection cannot fill this path: its window ends at 1073725440 bytes, which give \
         85.9 Gbit/s. It takes 5 connections.",
        "What would be enough for each of 5 connections:",
    ];
    check("100ms", &parts, "4294967296");
    let document = document(&["--rate", "400gbit", "--rtt", "100ms"]);
    assert_eq!(document["connections_needed"], 5);
    assert_eq!(document["window_max_bytes"], 1_073_725_440_u64);
}

#[test]
fn where_nothing_is_too_small_the_plan_holds_no_change() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("plan.json");
    let plan = file.display().to_string();
    let write = |rate: &str| {
        let output = run(&["--rate", rate, "--rtt", "1s", "-o", &plan]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    write("10gbit");
    let shown = write("1kbit");
    let expected = format!("The plan {plan} holds no change.");
    assert!(shown.contains(&expected), "{shown}");
    let applied = tcptailor(&["apply", &plan, "-n"]).output().expect("starts");
    assert!(applied.status.success(), "{}", text(&applied.stderr));
    let said = text(&applied.stdout);
    assert!(said.contains("holds no change"), "the older one: {said}");
}

#[test]
fn a_host_is_measured_by_its_connections() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("its address").to_string();
    let document = document(&[&address, "--rate", "1gbit"]);
    assert!(document["rtt_us"].as_f64().expect("a time") > 0.0);
    assert_eq!(document["interface"]["name"], "lo");
    assert_eq!(document["rate_from"], "given");
    // Loopback comes with 65536, and no packet has as many.
    let of_link = document["interface"]["mtu_bytes"].as_u64();
    assert_eq!(
        document["mtu_bytes"].as_u64(),
        of_link.map(|mtu| mtu.min(65_535))
    );
}

struct Serve(Child);

impl Drop for Serve {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_rate_is_measured_where_serve_runs() {
    let mut child = tcptailor(&["serve", "-p", "0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    let stdout = child.stdout.take().expect("piped");
    let _serve = Serve(child);
    let mut line = String::new();
    let mut log = BufReader::new(stdout);
    log.read_line(&mut line).expect("where it listens");
    let address = line.trim_end().trim_start_matches("Listening on ");
    let document = document(&[address.trim_end_matches('.'), "--rtt", "1ms"]);
    assert!(document["rate_bps"].as_u64().expect("a rate") > 1_000_000);
    assert_eq!(document["rtt_from"], "given");
    assert_ne!(document["rate_from"], "given");
}

#[test]
fn impossible_paths_are_refused() {
    let check = |args: &[&str], code: i32, expected: &str| {
        let output = run(args);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {message}");
        assert!(message.contains(expected), "{args:?}: {message}");
        assert_eq!(text(&output.stdout), "");
    };
    check(&[], 2, "required arguments");
    check(
        &["--rate", "1gbit"],
        2,
        "the round-trip time of the path is missing",
    );
    check(&["--rtt", "1ms"], 2, "Give --rate");
    check(&["--rate", "1gbit", "--rtt", "0ms"], 2, "at most 1h");
    check(&["--preset", "home", "--mtu", "20"], 2, "68 to 65535");
    let host = ["127.0.0.1", "--rate", "1gbit", "--rtt", "1ms"];
    let mtu = |mtu| [&host[..], &["--mtu", mtu]].concat();
    check(&mtu("100000"), 2, "an MTU of 100000B is out of range");
    check(&mtu("65536"), 2, "68 to 65535");
    check(&["--preset", "hom"], 2, "home");
    check(&["--preset", "home", "10.0.0.9"], 2, "cannot be used with");
    check(
        &["--preset", "home", "-o", "/nowhere/plan"],
        2,
        "no directory",
    );
    // There is no listener.
    check(&["127.83.12.9:1", "--rate", "1gbit"], 1, "give --rtt");
}
