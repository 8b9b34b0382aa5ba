//! `record`, and `diagnose` on what it saved. This test process is the program that is recorded.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output};
use std::thread;

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

/// A conversation over loopback while `work` runs; its server's port.
fn while_talking<T>(work: impl FnOnce(u16) -> T) -> T {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let server = thread::spawn(move || {
        let mut stream = listener.accept().expect("a client").0;
        let mut byte = [0];
        while stream.read_exact(&mut byte).is_ok() && stream.write_all(&byte).is_ok() {}
    });
    let mut client = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
    let stop = client.try_clone().expect("a descriptor");
    let asking = thread::spawn(move || {
        let mut byte = [7];
        while client.write_all(&byte).is_ok() && client.read_exact(&mut byte).is_ok() {
            thread::sleep(std::time::Duration::from_millis(2));
        }
    });
    let result = work(port);
    stop.shutdown(std::net::Shutdown::Both).expect("open");
    asking.join().expect("the client ends");
    server.join().expect("the server ends");
    result
}

fn record(file: &Path, more: &[&str]) -> Output {
    while_talking(|port| {
        let filter = format!("dport = :{port}");
        let file = file.to_str().expect("UTF-8");
        let args = [&["record", "-o", file, "-t", "1s", &filter], more].concat();
        tcptailor(&args)
    })
}

#[test]
fn a_recording_is_judged_the_same_each_time() {
    let folder = tempfile::tempdir().expect("a directory");
    let file = folder.path().join("talk.rec");
    let saved = record(&file, &["--json"]);
    assert!(saved.status.success(), "{}", text(&saved.stderr));
    let saved: Value = serde_json::from_slice(&saved.stdout).expect("JSON");
    assert_eq!(saved["schema"], "tcptailor/record/1");
    assert_eq!(saved["connections"], 2, "both ends are here: {saved:#}");

    let path = file.to_str().expect("UTF-8");
    let judge = || tcptailor(&["diagnose", path, "--json"]);
    let (first, second) = (judge(), judge());
    assert!(first.status.success(), "{}", text(&first.stderr));
    // But for the time at which it was judged.
    let without_time = |stdout: &[u8]| -> Vec<String> {
        let lines = text(stdout);
        let lines = lines.lines().filter(|line| !line.contains("\"time\": "));
        lines.map(str::to_owned).collect()
    };
    assert_eq!(without_time(&first.stdout), without_time(&second.stdout));
    let document: Value = serde_json::from_slice(&first.stdout).expect("JSON");
    let flow = &document["flows"][0];
    assert_eq!(flow["pid"], std::process::id(), "{document:#}");
    assert_eq!(flow["both_ends_seen"], true);
    assert!(flow["verdicts"][0]["id"].is_string() || flow["unknown"].is_string());

    let nobody = tcptailor(&["diagnose", path, "--json", "sport", "=", ":1"]);
    let nobody: Value = serde_json::from_slice(&nobody.stdout).expect("JSON");
    assert_eq!(nobody["flows"], serde_json::json!([]), "a filter selects");
}

#[test]
fn names_are_left_out_where_that_is_asked_for() {
    let folder = tempfile::tempdir().expect("a directory");
    let file = folder.path().join("talk.rec");
    let saved = record(&file, &["--anonymize"]);
    assert!(saved.status.success(), "{}", text(&saved.stderr));
    assert!(text(&saved.stdout).contains("Next: tcptailor diagnose "));
    let path = file.to_str().expect("UTF-8");
    let judged = tcptailor(&["diagnose", path, "--json"]);
    let document: Value = serde_json::from_slice(&judged.stdout).expect("JSON");
    assert_eq!(document["flows"][0]["command"], "program-1", "{document:#}");
}

#[test]
fn what_cannot_be_judged_is_told() {
    let folder = tempfile::tempdir().expect("a directory");
    let at = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let check = |args: &[&str], code: i32, expected: &str| {
        let output = tcptailor(&[&["diagnose"], args].concat());
        assert_eq!(output.status.code(), Some(code), "{args:?}");
        let told = text(&output.stderr);
        assert!(told.contains(expected), "{args:?}: {told}");
    };
    check(&[&at("none.rec")], 2, "No such file");
    std::fs::write(at("other.rec"), "hello\n").expect("a file");
    check(&[&at("other.rec")], 2, "neither a packet capture");
    std::fs::write(at("packed.rec"), [0x1f, 0x8b, 8, 0, 0]).expect("a file");
    check(&[&at("packed.rec")], 2, "its gzip data ends early");
    std::fs::write(at("empty.rec"), "").expect("a file");
    check(&[&at("empty.rec")], 2, "the file is empty");
    check(&[&at("other.rec"), "-N", "x"], 2, "leave -N out");
    check(
        &[&at("other.rec"), "-o", &at("plan.json")],
        2,
        "planned for live connections",
    );
    check(&[&at("")], 2, "Is a directory");
    let saved = tcptailor(&["record", "-o", &at("x.rec"), "-t", "1s", "dport = :1"]);
    assert_eq!(saved.status.code(), Some(0));
    assert!(text(&saved.stderr).contains("only the host was recorded"));
    check(&[&at("x.rec")], 0, "");
    // An address is a filter, where no file has its name.
    let of_filter = "no connection matches the filter";
    check(&["127.0.0.1:1", "-t", "1s"], 0, of_filter);
}

/// A program calls itself what it likes, and who sends a recording writes what he likes.
#[test]
fn a_name_in_a_recording_does_not_become_markup() {
    let folder = tempfile::tempdir().expect("a directory");
    let file = folder.path().join("talk.rec");
    let saved = record(&file, &[]);
    assert!(saved.status.success(), "{}", text(&saved.stderr));
    let bytes = std::fs::read(&file).expect("it was written");
    let mut lines = String::new();
    let mut plain = flate2::read::MultiGzDecoder::new(&bytes[..]);
    plain.read_to_string(&mut lines).expect("compressed text");
    let evil = "</script><script>alert(1)</script>";
    let changed: Vec<String> = lines
        .lines()
        .map(|line| {
            let mut value: Value = serde_json::from_str(line).expect("JSON");
            rename(&mut value, evil);
            value.to_string()
        })
        .collect();
    std::fs::write(&file, changed.join("\n") + "\n").expect("written");
    let page = folder.path().join("page.html");
    let shown = tcptailor(&[
        "diagnose",
        file.to_str().expect("UTF-8"),
        "--html",
        page.to_str().expect("UTF-8"),
    ]);
    assert!(shown.status.success(), "{}", text(&shown.stderr));
    let page = std::fs::read_to_string(page).expect("it was written");
    assert!(page.contains("&lt;script&gt;alert(1)"), "{page}");
    assert!(!page.contains("<script>alert"), "{page}");
    assert_eq!(page.matches("</script>").count(), 2);
}

/// Gives every process in it another name.
fn rename(value: &mut Value, name: &str) {
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                match field.as_str() {
                    "command" => *value = Value::from(name),
                    _ => rename(value, name),
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| rename(value, name)),
        _ => {}
    }
}
