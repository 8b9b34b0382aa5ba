//! `watch` from outside: a Prometheus that scrapes it, a reader of its log, and clients that mean
//! it harm.

mod common;

#[path = "../../linux/tests/asking/mod.rs"]
mod asking;
#[path = "common/conversation.rs"]
mod conversation;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use conversation::Conversation;
use linux::{LabNetns, NetnsHandle};
use serde_json::Value;

/// Below all that a kernel chooses for clients, so that it is seen to be the server's.
const PORT: u16 = 8080;
/// On a busy machine a round may see too little; the next one sees more.
const PATIENCE: Duration = Duration::from_secs(180);

/// The program, with what it has told so far.
struct Watch<'n> {
    child: Child,
    lines: Receiver<Value>,
    address: SocketAddr,
    netns: &'n NetnsHandle,
}

impl<'n> Watch<'n> {
    /// Starts it in a namespace; its endpoint is there too.
    fn start(netns: &'n NetnsHandle, args: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tcptailor"));
        command
            .args(["watch", "--json", "--listen", "127.0.0.1:0"])
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = netns
            .run(|| command.spawn())
            .expect("a namespace of ours")
            .expect("the program starts");
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let line =
                    serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let mut watch = Self {
            child,
            lines,
            address: (Ipv4Addr::LOCALHOST, 0).into(),
            netns,
        };
        let first = watch.next("listening");
        watch.address = first["address"]
            .as_str()
            .and_then(|text| text.parse().ok())
            .expect("an address");
        watch
    }

    /// The next line of this kind; others are passed over.
    fn next(&self, event: &str) -> Value {
        loop {
            let line = self.lines.recv_timeout(PATIENCE);
            let line = line.unwrap_or_else(|error| panic!("waiting for {event}: {error}"));
            assert_eq!(line["schema"], "tcptailor/watch/1", "{line}");
            assert!(line["time"].is_string(), "{line}");
            if line["event"] == event {
                return line;
            }
        }
    }

    fn connect(&self) -> TcpStream {
        let address = self.address;
        let connected = self.netns.run(|| TcpStream::connect(address));
        let stream = connected.expect("a namespace of ours").expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        stream
    }

    fn ask(&self, request: &str) -> String {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        answer
    }

    /// The text of the metrics.
    fn scrape(&self) -> String {
        let answer = self.ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert!(
            head.contains("\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"),
            "{head}"
        );
        body.to_owned()
    }

    /// Ctrl-C; the exit code.
    fn interrupt(mut self) -> Option<i32> {
        common::wait_until_it_hears(&self.child);
        let pid = self.child.id().to_string();
        let killed = Command::new("kill")
            .args(["-INT", &pid])
            .status()
            .expect("kill starts");
        assert!(killed.success());
        self.child.wait().expect("it ends").code()
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        // Where a test failed before it ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A connection in a namespace.
fn conversation(netns: &NetnsHandle) -> Conversation {
    let connect = || {
        linux::netlink::link::set_up("lo").expect("a namespace of ours");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, PORT)).expect("a port");
        let client = TcpStream::connect((Ipv4Addr::LOCALHOST, PORT)).expect("it listens");
        let (server, _) = listener.accept().expect("a client");
        Conversation::between(client, server)
    };
    netns.run(connect).expect("a namespace of ours")
}

/// A namespace with nothing in it.
fn namespace() -> Option<LabNetns> {
    let [netns] = asking::permitted(LabNetns::create(["watch"]))?;
    let up = netns.handle().run(|| linux::netlink::link::set_up("lo"));
    up.expect("a namespace of ours")
        .expect("it has a loopback interface");
    Some(netns)
}

/// The values of a metric, by the text of its labels.
fn values(text: &str, name: &str) -> BTreeMap<String, f64> {
    let of = |line: &str| {
        let (labels, value) = line.strip_prefix(name)?.rsplit_once(' ')?;
        (labels.is_empty() || labels.starts_with('{'))
            .then(|| (labels.to_owned(), value.parse().expect("a number")))
    };
    text.lines().filter_map(of).collect()
}

#[test]
fn a_known_limit_is_scraped_and_its_finding_is_logged_once() {
    let Some(netns) = namespace() else {
        return;
    };
    let conversation = conversation(netns.handle());
    let watch = Watch::start(netns.handle(), &["--every", "2s", "--max-cpu", "100%"]);
    let began = watch.next("finding-began");
    assert_eq!(began["diagnosis"], "nagle-delack-stall", "{began:#}");
    let service = began["service"].as_str().expect("a name").to_owned();
    assert!(service.ends_with(&format!(" to :{PORT}")), "{service}");
    assert!(
        began["evidence"]
            .as_array()
            .is_some_and(|rows| rows.len() > 1),
        "{began:#}"
    );
    assert_eq!(began["remedy"]["knob"], "nodelay", "{began:#}");
    let remedy = began["remedy"]["command"].as_str().unwrap_or_default();
    assert!(remedy.contains(&format!("dport = :{PORT}")), "{remedy}");

    let text = watch.scrape();
    let limits = values(&text, "tcptailor_limit_seconds_total");
    let of_service: Vec<_> = limits
        .iter()
        .filter(|(labels, _)| labels.contains(&service))
        .collect();
    let largest = of_service
        .iter()
        .max_by(|a, b| a.1.total_cmp(b.1))
        .expect("a limit");
    assert!(largest.0.contains("limit=\"nagle\""), "{of_service:#?}");
    assert!(*largest.1 > 0.5, "{of_service:#?}");
    let found = values(&text, "tcptailor_findings_total");
    assert_eq!(
        found["{diagnosis=\"nagle-delack-stall\"}"], 1.0,
        "{found:#?}"
    );
    let findings = values(&text, "tcptailor_finding_connections");
    assert!(
        findings.keys().any(|labels| labels.contains(&service)),
        "{findings:#?}"
    );
    assert!(values(&text, "process_cpu_seconds_total")[""] > 0.0);
    check_by_promtool(&text);

    conversation.client.set_nodelay(true).expect("an option");
    // No second line began it meanwhile, whatever number of rounds saw it.
    let line = watch
        .lines
        .recv_timeout(PATIENCE)
        .expect("the end of the finding");
    assert_eq!(line["event"], "finding-ended", "{line:#}");
    assert_eq!(line["diagnosis"], "nagle-delack-stall");
    assert_eq!(line["service"], service);
    assert!(line["lasted_s"].as_f64().is_some_and(|lasted| lasted > 0.0));
    assert_eq!(watch.interrupt(), Some(130));
}

#[test]
fn hostile_clients_do_not_keep_a_scrape_out() {
    let Some(netns) = namespace() else {
        return;
    };
    let watch = Watch::start(netns.handle(), &["--every", "1h"]);
    let check = |request: &str, line: &str, body: &str| {
        let answer = watch.ask(request);
        assert!(answer.starts_with(line), "{answer}");
        assert!(answer.ends_with(&format!("\r\n\r\n{body}\n")), "{answer}");
    };
    check("GET /healthz HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK", "ok");
    let missing = "not found; / lists the pages";
    check("GET /status HTTP/1.1\r\n\r\n", "HTTP/1.1 404 ", missing);
    let start = watch.ask("GET / HTTP/1.1\r\n\r\n");
    assert!(start.starts_with("HTTP/1.1 200 "), "{start}");
    assert!(start.contains("href=\"/metrics\""), "{start}");
    check(
        "GET /../etc/passwd HTTP/1.1\r\n\r\n",
        "HTTP/1.1 404 ",
        missing,
    );
    check(
        "PUT /metrics HTTP/1.1\r\n\r\n",
        "HTTP/1.1 405 ",
        "only GET is accepted",
    );
    // Silent ones, and some that never end their request, more than there are places.
    let mut crowd: Vec<TcpStream> = (0..300).map(|_| watch.connect()).collect();
    for stream in crowd.iter_mut().step_by(2) {
        stream
            .write_all(b"GET /metrics HTTP/1.1\r\nX: y\r\n")
            .expect("it reads");
    }
    let text = watch.scrape();
    assert_eq!(
        values(&text, "tcptailor_http_requests_total")["{code=\"404\"}"],
        2.0
    );
    assert_eq!(
        values(&text, "tcptailor_http_requests_total")["{code=\"405\"}"],
        1.0
    );
    let threads = std::fs::read_dir(format!("/proc/{}/task", watch.child.id())).expect("it runs");
    assert!(threads.count() <= 8, "a thread for each client");
    drop(crowd);
    assert_eq!(watch.interrupt(), Some(130));
}

#[test]
fn a_page_is_kept_and_a_full_disk_ends_nothing() {
    let Some(netns) = namespace() else {
        return;
    };
    let _conversation = conversation(netns.handle());
    let start = |path: &str| {
        let args = ["--every", "2s", "--max-cpu", "100%", "--html", path];
        Watch::start(netns.handle(), &args)
    };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("watch.html");
    let watch = start(path.to_str().expect("text"));
    watch.next("finding-began");
    assert_eq!(watch.interrupt(), Some(130));
    let page = std::fs::read_to_string(&path).expect("it was written");
    for text in ["nagle-delack-stall", "tcptailor rollback", "has ended"] {
        assert!(page.contains(text), "{text} is not in {page}");
    }

    let watch = start("/dev/full");
    let failed = watch.next("page-failed");
    let message = failed["message"].as_str().unwrap_or_default();
    assert!(message.contains("/dev/full"), "{failed:#}");
    while values(&watch.scrape(), "tcptailor_rounds_total")[""] < 3.0 {
        thread::sleep(Duration::from_millis(100));
    }
    let mut rest = watch.lines.try_iter();
    assert!(rest.all(|line| line["event"] != "page-failed"));
    assert_eq!(watch.interrupt(), Some(130));
}

#[test]
fn a_watch_of_a_process_ends_with_it() {
    let Some(netns) = namespace() else {
        return;
    };
    let mut program = Command::new("sleep");
    let started = netns.handle().run(|| program.arg("1000").spawn());
    let mut program = started.expect("a namespace of ours").expect("sleep starts");
    let pid = program.id().to_string();
    // Its end is seen in the pause too: the next round would be an hour later.
    let mut watch = Watch::start(netns.handle(), &["--every", "1h", "--pid", &pid]);
    while !watch.scrape().contains("\ntcptailor_rounds_total 1\n") {
        thread::sleep(Duration::from_millis(100));
    }
    program.kill().expect("it runs");
    program.wait().expect("it ends");
    let ended = watch.child.wait().expect("it ends");
    assert_eq!(ended.code(), Some(0));
    let mut told = String::new();
    let stderr = watch.child.stderr.as_mut().expect("a pipe");
    stderr.read_to_string(&mut told).expect("text");
    assert!(told.contains("note: the process ended"), "{told}");
}

#[test]
fn nonsense_is_refused_with_what_to_do() {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let taken = taken.local_addr().expect("an address").to_string();
    let check = |args: &[&str], code: i32, expected: &str| {
        let output = run(args);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {message}");
        assert!(
            message.contains(expected),
            "{args:?}: `{message}` lacks `{expected}`"
        );
    };
    check(&["--listen", "9917"], 2, "such as 127.0.0.1:9917");
    check(&["--listen", "localhost:9917"], 2, "such as 127.0.0.1:9917");
    check(&["--listen", &taken], 1, "type another port");
    check(&["--listen", "192.0.2.1:9917"], 1, "`ip addr` lists them");
    check(
        &["--every", "1s"],
        2,
        "--every 1s: the range is 2s to 3600s",
    );
    check(&["--max-cpu", "0%"], 2, "--max-cpu 0%: at least 0.1%");
    check(&["--max-cpu", "2"], 2, "0.1%");
    check(&["--services", "0"], 2, "1..=200");
    check(&["dprt = :443"], 2, "did you mean `dport`?");
    check(
        &["--html", "/tcptailor-none/a.html"],
        2,
        "there is no directory",
    );
    check(
        &["-N", "tcptailor-none", "--listen", "127.0.0.1:0"],
        1,
        "`ip netns` lists",
    );
    check(&["--pid", "4194304"], 1, "`ps` lists");
    check(&["--all-netns", "-N", "x"], 2, "cannot be used with");
}

fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tcptailor"))
        .arg("watch")
        .args(args)
        .output()
        .expect("the program starts")
}

/// Prometheus' own tool, where it is installed; where `REQUIRE_PROMTOOL` is set, it has to be.
fn promtool(args: &[&str]) -> Option<Command> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if !std::env::split_paths(&path).any(|folder| folder.join("promtool").is_file()) {
        let message = "`promtool` is not installed (Debian: prometheus)";
        assert!(std::env::var_os("REQUIRE_PROMTOOL").is_none(), "{message}");
        println!("skipped: {message}");
        return None;
    }
    let mut command = Command::new("promtool");
    command.args(args);
    Some(command)
}

fn check_by_promtool(text: &str) {
    let Some(mut command) = promtool(&["check", "metrics"]) else {
        return;
    };
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(text.as_bytes()).expect("it reads");
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    // It also prints advice without failing.
    assert!(
        output.status.success() && output.stdout.is_empty() && output.stderr.is_empty(),
        "{output:?}\n{text}"
    );
}

fn dist(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../dist/watch")
        .join(name)
}

#[test]
fn the_alert_rules_do_what_they_say() {
    let rules = dist("rules.yml");
    let tests = dist("rules-test.yml");
    for (words, file) in [(["check", "rules"], rules), (["test", "rules"], tests)] {
        let Some(mut command) = promtool(&words) else {
            return;
        };
        let output = command.arg(file).output().expect("promtool starts");
        assert!(output.status.success(), "{output:?}");
    }
}

/// Grafana's own models checked its fields; this is what they do not: places and references.
#[test]
fn the_dashboard_is_whole() {
    let text = std::fs::read_to_string(dist("dashboard.json")).expect("a file");
    let dashboard: Value = serde_json::from_str(&text).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let mut taken = std::collections::BTreeSet::new();
    let mut ids = std::collections::BTreeSet::new();
    for panel in panels {
        assert!(ids.insert(panel["id"].as_u64()), "{panel:#}");
        let at = |name: &str| panel["gridPos"][name].as_u64().expect("a place");
        let columns = at("x")..at("x") + at("w");
        assert!(columns.end <= 24, "{panel:#}");
        for column in columns {
            for row in at("y")..at("y") + at("h") {
                assert!(taken.insert((column, row)), "two panels overlap: {panel:#}");
            }
        }
        let is_row = panel["type"] == "row";
        let targets = panel["targets"].as_array().map_or(0, Vec::len);
        assert_eq!(is_row, targets == 0, "{panel:#}");
    }
}
