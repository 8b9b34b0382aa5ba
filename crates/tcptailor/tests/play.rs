//! The lab in a browser has the numbers of the command line. Without Chromium this says that it was
//! skipped, and fails instead where `REQUIRE_BROWSER` is set.

#[path = "common/browser.rs"]
mod browser;

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use browser::{between, numbers, open};
use serde_json::Value;

const PAGE: &str = include_str!("../../../docs/play/index.html");

/// A copy of the page that is not done before its engine has answered: a browser that is asked for
/// what it made of a page waits for pictures that are on their way, not for threads. One is asked
/// of `port` at the beginning, and another one when the engine has answered. The policy, which
/// forbids both, is not in it.
fn page(folder: &Path, port: u16) -> PathBuf {
    let page = folder.join("play.html");
    let text = PAGE.replace("http-equiv=\"Content-Security-Policy\"", "name=\"none\"");
    let ask = format!("new Image().src = 'http://127.0.0.1:{port}/'");
    let told = format!(
        "<script>{ask} + 'hold'; new MutationObserver((_, self) => {{ \
             if (['loading', 'running'].includes(document.body.dataset.state)) return; \
             self.disconnect(); {ask} + 'done'; \
         }}).observe(document.body, {{ attributes: true }});</script></header>"
    );
    fs::write(&page, text.replacen("</header>", &told, 1)).expect("a folder of ours");
    page
}

/// Answers what [`page`] asks for: at once what is asked when the engine has answered, and what was
/// asked at the beginning after it.
fn answer(listener: &TcpListener) {
    let mut held = Vec::new();
    for stream in listener.incoming() {
        let stream = stream.expect("a browser");
        let mut line = String::new();
        BufReader::new(&stream)
            .read_line(&mut line)
            .expect("a request");
        if !line.starts_with("GET /done") {
            held.push(stream);
            continue;
        }
        for stream in held.drain(..).chain([stream]) {
            write_nothing(stream);
        }
    }
}

fn write_nothing(mut stream: TcpStream) {
    let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
}

/// What `lab run` makes of the scenario that a page shows.
fn run(folder: &Path, dom: &str) -> Value {
    let shown = between(dom, "tabindex=\"0\">", "</pre>");
    let text = shown[0].replace("&quot;", "\"").replace("&amp;", "&");
    let scenario = folder.join("play.toml");
    fs::write(&scenario, text).expect("a folder of ours");
    let output = Command::new(env!("CARGO_BIN_EXE_tcptailor"))
        .args(["lab", "run", "--engine", "virtual", "--json"])
        .arg(&scenario)
        .output()
        .expect("the program starts");
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{message}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn a_page_and_the_command_line_have_the_same_numbers() {
    let folder = tempfile::tempdir().expect("a folder");
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = listener.local_addr().expect("it has one").port();
    std::thread::spawn(move || answer(&listener));
    let page = page(folder.path(), port);
    // What a page begins with, a lossy transfer, and two stacks whose settings differ.
    let states = [
        "",
        "#path.rate=20mbit&path.rtt=40ms&path.loss=0.5%25&workload.direction=up&seed=3&b.client.congestion=bbr",
        "#client.profile=winsock&server.profile=freebsd_14&workload.kind=quotes&b.client.nodelay=on&b.server.nodelay=on",
    ];
    for state in states {
        let Some(shown) = open(&page, state) else {
            return;
        };
        assert!(
            shown.dom.contains("data-state=\"ready\""),
            "{state}: {:?}",
            shown.console
        );
        assert_eq!(shown.console, [""; 0], "{state}");
        let document = run(folder.path(), &shown.dom);
        let shown = numbers(&shown.dom);
        let outcomes = document["outcomes"].as_array().expect("runs");
        assert_eq!(outcomes.len(), 2, "{state}");
        let mut wanted: Vec<f64> = Vec::new();
        for outcome in outcomes {
            let numbers = [
                &outcome["goodput_bps"],
                &outcome["response_us"]["p50"],
                &outcome["response_us"]["p99"],
                &outcome["response_us"]["stalled"],
                &outcome["sender"]["rtt_mean_us"],
                &outcome["sender"]["retransmitted_segments"],
            ];
            wanted.extend(numbers.into_iter().filter_map(Value::as_f64));
        }
        assert_eq!(
            shown, wanted,
            "{state}: run .ci/play if our TCP has changed"
        );
    }
}

/// The policy of the page lets its script run and start the engine.
#[test]
fn the_page_obeys_its_policy() {
    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("play.html");
    fs::write(&page, PAGE).expect("a folder of ours");
    let Some(shown) = open(&page, "") else {
        return;
    };
    assert_eq!(shown.console, [""; 0]);
    assert!(shown.dom.contains("Nagle meets delayed ACKs</option>"));
}

#[test]
fn the_page_is_written_where_it_is_wanted() {
    let folder = tempfile::tempdir().expect("a folder");
    let (page, other) = (folder.path().join("play.html"), folder.path().join("mine"));
    let play = |file: &Path| {
        Command::new(env!("CARGO_BIN_EXE_tcptailor"))
            .args(["lab", "play", "-o"])
            .arg(file)
            .output()
            .expect("the program starts")
    };
    for _ in 0..2 {
        let output = play(&page);
        assert!(output.status.success(), "{output:?}");
        assert_eq!(fs::read_to_string(&page).expect("it was written"), PAGE);
    }
    fs::write(&other, "notes of mine").expect("a folder of ours");
    let output = play(&other);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let kept = fs::read_to_string(&other).expect("it is there");
    assert_eq!(kept, "notes of mine");
}
