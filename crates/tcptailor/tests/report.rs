//! A page as a browser shows it: it is drawn, writes nothing to the console, loads nothing, and has
//! the numbers of the JSON document. Without Chromium this says that it was skipped, and fails
//! instead where `REQUIRE_BROWSER` is set.

#[path = "common/browser.rs"]
mod browser;

use std::fs;
use std::path::Path;
use std::process::Command;

use browser::{between, numbers, open};
use serde_json::Value;

const SCENARIO: &str = r#"
name = "page"
about = "Three variants <b>&amp;</b> a sweep."
[path]
kind = "emulated"
rate = "10mbit"
rtt = "20ms"
queue = "1bdp"
[workload]
kind = "bulk"
direction = "up"
bytes = "500kB"
[[variant]]
name = "default"
[[variant]]
name = "small"
server.rcvbuf = "16KiB"
"#;

const SWEEP: &str = r#"
[sweep]
"path.rtt" = ["10ms", "40ms", "80ms"]
"#;

/// Runs a scenario in virtual time: its JSON, with the page beside it.
fn run(folder: &Path, text: &str) -> (Value, std::path::PathBuf) {
    let (scenario, page) = (folder.join("page.toml"), folder.join("page.html"));
    fs::write(&scenario, text).expect("a folder of ours");
    let output = Command::new(env!("CARGO_BIN_EXE_tcptailor"))
        .args([
            "lab", "run", "--engine", "virtual", "--json", "--series", "--html",
        ])
        .args([&page, &scenario])
        .output()
        .expect("the program starts");
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{message}");
    (serde_json::from_slice(&output.stdout).expect("JSON"), page)
}

#[test]
fn a_page_shows_what_json_says() {
    let folder = tempfile::tempdir().expect("a folder");
    let (document, page) = run(folder.path(), SCENARIO);
    let Some(shown) = open(&page, "") else {
        return;
    };
    assert_eq!(shown.console, [""; 0]);
    let status = between(&shown.dom, "data-state=\"ready\">", "<");
    assert_eq!(
        status,
        ["2 plots over time can be explored with pointer or arrow keys."]
    );
    let pictures = shown.dom.matches("<svg").count();
    assert!(pictures >= 3, "bars and two plots: {pictures}");
    assert!(
        shown
            .dom
            .contains("Three variants &lt;b&gt;&amp;amp;&lt;/b&gt; a sweep.")
    );

    let outcomes = document["outcomes"].as_array().expect("runs");
    let shown_numbers = numbers(&shown.dom);
    for outcome in outcomes {
        let sender = &outcome["sender"];
        let wanted = [
            outcome["goodput_bps"].as_f64(),
            outcome["stall_max_us"].as_f64(),
            sender["data_segments"].as_f64(),
            sender["retransmitted_segments"].as_f64(),
        ];
        for wanted in wanted {
            let wanted = wanted.unwrap_or_else(|| panic!("all are known: {outcome:#}"));
            assert!(
                shown_numbers.contains(&wanted),
                "{wanted} in {shown_numbers:?}"
            );
        }
    }

    let data = between(&shown.dom, "id=\"data\">", "</script>");
    let data: Value = serde_json::from_str(data[0]).expect("JSON");
    for (index, outcome) in outcomes.iter().enumerate() {
        let points = outcome["series"].as_array().expect("points");
        let line = |panel: usize, line: usize| {
            let figure = &data["figures"][index];
            figure["panels"][panel]["lines"][line]["values"].clone()
        };
        for (panel, at, key) in [
            (0, 0, "goodput_bps"),
            (1, 0, "rtt_us"),
            (2, 2, "queue_bytes"),
        ] {
            let drawn: Vec<Option<f64>> = serde_json::from_value(line(panel, at)).expect("numbers");
            let told: Vec<Option<f64>> = points.iter().map(|point| point[key].as_f64()).collect();
            assert_eq!(drawn, told, "{key}");
        }
    }
}

/// Where the pointer or an arrow key stands, the numbers of that point are told.
#[test]
fn a_plot_is_read_to_the_point() {
    let folder = tempfile::tempdir().expect("a folder");
    let (document, page) = run(folder.path(), SCENARIO);
    let text = fs::read_to_string(&page).expect("it was written");
    // A page may not move its own pointer; the policy that forbids it is for pages of ours.
    let moves = "<script>addEventListener('load', () => { \
         const plot = document.querySelector('[data-series] svg.chart'); \
         const box = plot.getBoundingClientRect(); \
         plot.dispatchEvent(new PointerEvent('pointermove', \
             { clientX: box.left + box.width / 2, clientY: box.top + 9 })); \
         for (const _ of [1, 2, 3]) document.querySelectorAll('[data-series] svg.chart')[1] \
             .dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowRight' })); \
         });</script>";
    let policy = "http-equiv=\"Content-Security-Policy\"";
    let text = text.replace(policy, "name=\"none\"");
    fs::write(&page, text.replace("</body>", &format!("{moves}</body>"))).expect("ours");
    let Some(shown) = open(&page, "") else {
        return;
    };
    let readings = between(&shown.dom, "<p class=\"reading\">", "<");
    let points = |run: usize| {
        document["outcomes"][run]["series"]
            .as_array()
            .expect("points")
    };
    let at = |reading: &str| -> f64 {
        let (seconds, _) = reading
            .split_once(" s ")
            .unwrap_or_else(|| panic!("{reading}"));
        seconds.parse().expect("a number")
    };
    let end = points(0).last().expect("some")["at_us"]
        .as_f64()
        .expect("a time")
        / 1e6;
    // The plot begins at the fifth part of the picture.
    let middle = (260.0 - 104.0) / (508.0 - 104.0) * end;
    assert!((at(readings[0]) - middle).abs() < 0.1 * end, "{readings:?}");
    let third = &points(1)[2];
    let seconds = third["at_us"].as_f64().expect("a time") / 1e6;
    assert!((at(readings[1]) - seconds).abs() < 0.001, "{readings:?}");
    let rate = base::human::bps(third["goodput_bps"].as_u64().expect("a rate"));
    assert!(
        readings[1].contains(&format!("goodput {rate}")),
        "{readings:?} {rate}"
    );
}

#[test]
fn a_sweep_is_a_picture() {
    let folder = tempfile::tempdir().expect("a folder");
    let (document, page) = run(folder.path(), &format!("{SCENARIO}{SWEEP}"));
    let Some(shown) = open(&page, "") else {
        return;
    };
    assert_eq!(shown.console, [""; 0]);
    // They are folded away.
    assert!(
        shown
            .dom
            .contains("6 plots over time can be explored with pointer or arrow keys.")
    );
    let lines = shown.dom.matches("<polyline").count();
    assert!(lines >= 2, "a line for each variant: {lines}");
    let numbers = numbers(&shown.dom);
    for outcome in document["outcomes"].as_array().expect("runs") {
        let goodput = outcome["goodput_bps"].as_f64().expect("a number");
        assert!(numbers.contains(&goodput), "{goodput}");
    }
}

#[test]
fn what_a_page_may_not_do_is_seen() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_, page) = run(folder.path(), SCENARIO);
    let text = fs::read_to_string(&page).expect("it was written");
    let evil = "<script>document.title = 'changed'</script><img src=\"https://example.com/a\">";
    fs::write(&page, text.replace("</body>", &format!("{evil}</body>"))).expect("ours");
    let Some(shown) = open(&page, "") else {
        return;
    };
    assert!(
        !shown.dom.contains("<title>changed"),
        "the policy was not obeyed"
    );
    let refused = |what: &str| shown.console.iter().any(|line| line.contains(what));
    assert!(
        refused("script-src") && refused("example.com"),
        "{:?}",
        shown.console
    );
}

/// The packets of a lossy path, as a capture of both ends.
fn captured(folder: &Path) -> std::path::PathBuf {
    let scenario = folder.join("lossy.toml");
    let text = SCENARIO.replace("queue = \"1bdp\"", "queue = \"1bdp\"\nloss = \"1%\"");
    // The doctor gives no verdict on less than a second.
    let text = text.replace("500kB", "3MB");
    fs::write(&scenario, text).expect("a folder of ours");
    let packets = folder.join("packets.pcapng");
    let output = Command::new(env!("CARGO_BIN_EXE_tcptailor"))
        .args(["lab", "run", "--engine", "virtual", "--pcap"])
        .args([&packets, &scenario])
        .output()
        .expect("the program starts");
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{message}");
    packets
}

#[test]
fn a_diagnosis_shows_what_json_and_the_list_of_flows_say() {
    let folder = tempfile::tempdir().expect("a folder");
    let packets = captured(folder.path());
    let at = |name: &str| folder.path().join(name);
    let output = Command::new(env!("CARGO_BIN_EXE_tcptailor"))
        .args(["diagnose", "--json", "--html"])
        .arg(at("page.html"))
        .arg("--write-flows")
        .args([&at("flows.jsonl"), &packets])
        .output()
        .expect("the program starts");
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{message}");
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let flows = fs::read_to_string(at("flows.jsonl")).expect("it was written");
    let flows = flows.lines();
    // Two devices saw it; that at the sender is the one that is shown.
    let flows = flows.map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let mut at_sender = flows.filter(|flow| flow["taken"] == "sender");
    let flow = at_sender.next_back();
    let flow = flow.expect("the client is the sender");
    let Some(shown) = open(&at("page.html"), "") else {
        return;
    };
    assert_eq!(shown.console, [""; 0]);
    let status = between(&shown.dom, "data-state=\"ready\">", "<");
    assert_eq!(
        status,
        ["1 plot over time can be explored with pointer or arrow keys."]
    );
    let numbers = numbers(&shown.dom);
    let row = &document["flows"][0];
    let wanted = [
        &row["rate_bps"],
        &row["min_rtt_us"],
        &row["srtt_us"],
        &row["seen_s"],
        &row["verdicts"][0]["share"],
        &row["limits"][0]["share"],
        &flow["forward"]["payload_bytes"],
        &flow["forward"]["retransmissions"],
        &flow["forward"]["fast_retransmissions"],
    ];
    for wanted in wanted {
        let wanted = wanted
            .as_f64()
            .unwrap_or_else(|| panic!("{row:#} {flow:#}"));
        assert!(numbers.contains(&wanted), "{wanted} in {numbers:?}");
    }
    assert!(
        flow["forward"]["retransmissions"].as_u64() > Some(0),
        "{flow:#}"
    );
    // What is drawn over time sums up to what was counted.
    let data = between(&shown.dom, "id=\"data\">", "</script>");
    let data: Value = serde_json::from_str(data[0]).expect("JSON");
    let figure = &data["figures"][0];
    let list = |value: &Value| -> Vec<f64> {
        let values = value.as_array().expect("a list").iter();
        values.map(|value| value.as_f64().unwrap_or(0.0)).collect()
    };
    let times = list(&figure["at_s"]);
    let rates = list(&figure["panels"][0]["lines"][0]["values"]);
    let part = times[0];
    let bytes: f64 = rates.iter().map(|rate| rate * part / 8.0).sum();
    let rate = bytes * 8.0 / times[times.len() - 1];
    let told = row["rate_bps"].as_f64().expect("a rate");
    assert!((rate / told - 1.0).abs() < 0.01, "{rate} and {told}");
}

#[test]
fn a_fitting_shows_what_json_says() {
    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("fit.html");
    let output = Command::new(env!("CARGO_BIN_EXE_tcptailor"))
        .args(["fit", "--lab", "nagle", "--engine", "virtual", "--once"])
        .args(["--json", "--html"])
        .arg(&page)
        .output()
        .expect("the program starts");
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{message}");
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let Some(shown) = open(&page, "") else {
        return;
    };
    assert_eq!(shown.console, [""; 0]);
    let numbers = numbers(&shown.dom);
    let tried = &document["tried"][0];
    let wanted = [
        &document["before"]["goodput_bps"],
        &document["before"]["response_us"]["p50"],
        &document["after"]["response_us"]["p99"],
        &tried["finding"]["share"],
        &tried["outcome"]["before"],
        &tried["outcome"]["after"],
        &tried["outcome"]["gain"],
        &tried["outcome"]["gain_interval"][0],
        &tried["outcome"]["p_value"],
    ];
    for wanted in wanted {
        let wanted = wanted.as_f64().unwrap_or_else(|| panic!("{document:#}"));
        assert!(numbers.contains(&wanted), "{wanted} in {numbers:?}");
    }
    let runs = document["experiments"][0]["runs"].as_array().expect("runs");
    let looks = tried["outcome"]["looks"].as_u64().expect("a number");
    assert_eq!(runs.len() as u64, 2 * looks);
    assert!(shown.dom.contains("run by run"), "the runs are drawn");
}

/// Before anything is measured, and not only when it is written.
#[test]
fn a_page_that_cannot_be_written_is_told_first() {
    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("none").join("page.html");
    for command in [&["diagnose", "-t", "1h"][..], &["fit", "--lab", "nagle"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_tcptailor"))
            .args(command)
            .arg("--html")
            .arg(&page)
            .output()
            .expect("the program starts");
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains("there is no directory"), "{message}");
    }
}
