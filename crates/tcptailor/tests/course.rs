//! How a run went, on every engine: its points add up to what arrived, and segments are counted
//! over the same time as operations. What these tests claim holds however busy the machine is: of
//! a run that it made late, and that must not be compared with another, as well; of one without a
//! caveat they claim more. Without the
//! privilege for lab paths each says that it was skipped, and fails instead where `REQUIRE_KERNEL`
//! is set.

#[path = "../../linux/tests/asking/mod.rs"]
mod asking;

use std::fs;
use std::ops::RangeInclusive;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Exit code for a missing permission or kernel feature.
const MISSING: i32 = 4;
const ENGINES: [&str; 4] = ["virtual", "kernel", "tun", "tun-receiver"];

/// The outcome of one run; `None`, with a word about it, where this machine has no lab paths.
fn outcome(folder: &Path, text: &str, engine: &str) -> Option<Value> {
    let file = folder.join("t.toml");
    fs::write(&file, text).expect("a folder of ours");
    let output = Command::new(env!("CARGO_BIN_EXE_tcptailor"))
        .args(["lab", "run", "--json", "--series", "--engine", engine])
        .arg(&file)
        .output()
        .expect("the program starts");
    let message = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(MISSING) {
        asking::skip(message);
        return None;
    }
    let document: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{engine}: {error}: {message}"));
    Some(document["outcomes"][0].clone())
}

/// Whether the machine did nothing else that the run noticed.
fn is_undisturbed(outcome: &Value) -> bool {
    outcome["caveats"].as_array().is_some_and(Vec::is_empty)
}

fn number(value: &Value, key: &str) -> f64 {
    value[key]
        .as_f64()
        .unwrap_or_else(|| panic!("{key} in {value:#}"))
}

fn scenario(path: &str, workload: &str) -> String {
    format!(
        "name = \"t\"\nabout = \"A test.\"\n[path]\n{path}\n[client]\nnodelay = \"on\"\n\
         [workload]\n{workload}\n"
    )
}

#[test]
fn points_add_up_to_what_arrived() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = "kind = \"emulated\"\nrate = \"10mbit\"\nrtt = \"20ms\"\nqueue = \"2bdp\"";
    let workload = "kind = \"bulk\"\ndirection = \"down\"\nbytes = \"1500kB\"";
    let text = scenario(path, workload);
    for engine in ENGINES {
        let Some(outcome) = outcome(folder.path(), &text, engine) else {
            continue;
        };
        let points = outcome["series"].as_array().expect("points");
        assert!(
            (10..=400).contains(&points.len()),
            "{engine}: {} points",
            points.len()
        );
        let mut before = 0.0;
        let mut bytes = 0.0;
        for point in points {
            let at = number(point, "at_us");
            bytes += number(point, "goodput_bps") * (at - before) / 8e6;
            before = at;
        }
        // In real time samples of 50 ms at both ends may be missing, of a late run more.
        let least = match (engine, is_undisturbed(&outcome)) {
            ("virtual", _) => 1.49e6,
            (_, true) => 1.35e6,
            (_, false) => 1.2e6,
        };
        assert!((least..1.51e6).contains(&bytes), "{engine}: {bytes}");
        let knows = |key: &str| points.iter().filter(|point| !point[key].is_null()).count();
        for key in ["rtt_us", "cwnd_bytes", "in_flight_bytes"] {
            assert!(knows(key) > points.len() / 3, "{engine}: {key}");
        }
        assert!(knows("limit") > 0, "{engine}");
        assert_eq!(knows("queue_bytes") > 0, engine == "virtual");
        let sender = &outcome["sender"];
        let again = number(sender, "retransmitted_segments");
        let new = number(sender, "data_segments") - again;
        assert!((1_035.0..1_200.0).contains(&new), "{engine}: {sender}");
        assert!(
            number(sender, "rtt_mean_us") >= 20_000.0,
            "{engine}: {sender}"
        );
    }
}

#[test]
fn segments_are_counted_over_the_time_of_operations() {
    let folder = tempfile::tempdir().expect("a folder");
    let check = |method: &str, range: RangeInclusive<f64>, disturbed: f64| {
        let exchange = "kind = \"write-write-read\"\nwrites = 15\nwrite_size = \"10B\"\n\
                        reply = \"1B\"\noperations = 200";
        let workload = format!("{exchange}\nmethod = \"{method}\"");
        let text = scenario("kind = \"veth\"", &workload);
        for engine in ENGINES {
            let Some(outcome) = outcome(folder.path(), &text, engine) else {
                continue;
            };
            let sender = &outcome["sender"];
            let new = number(sender, "data_segments") - number(sender, "retransmitted_segments");
            let each = new / number(&outcome["response_us"], "n");
            let most = match is_undisturbed(&outcome) {
                true => *range.end(),
                false => disturbed,
            };
            assert!(
                (*range.start()..=most).contains(&each),
                "{engine}, {method}: {each}, {outcome}"
            );
        }
    };
    // Where the first exchange fills the initial window of ten, the rest of it is one segment.
    check("write", 14.9..=15.0, 15.0);
    // The kernel sends what is corked after 200 ms, for which a busy machine may keep the client.
    check("cork", 1.0..=1.0, 1.02);
}
