//! docs/json.md against what the program prints: each field of each document is listed there with
//! its type, and each that is listed there is printed.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[path = "../../linux/tests/asking/mod.rs"]
mod asking;
#[path = "common/command.rs"]
mod command;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};

use command::{tcptailor, text};
use serde_json::{Map, Value, json};

/// Recordings with answers of many kinds, one of the host among them.
const RECORDINGS: [&str; 4] = [
    "accept-queue-full.client.rec",
    "accept-queue-full.server.rec",
    "guest-mp-nagle.client.rec",
    "guest-kafka-consume.server.rec",
];

/// Recordings with predictions of each kind.
const PREDICTED: [&str; 3] = [
    "nagle-php.client.rec",
    "guest-mp-nagle.client.rec",
    "accept-queue-full.server.rec",
];

/// Fields of captures, of remote hosts and of rare cases, which no document here has.
const RARE: [&str; 11] = [
    "at",
    "beside_bps",
    "capture",
    "consistent_with",
    "lasting",
    "own_connection",
    "text",
    "time_limit_s",
    "time_needed_s",
    "transfer_us",
    "while_in_flight",
];

/// The tables by the title of their section, each with the types by the name of the field.
struct Page {
    tables: BTreeMap<String, BTreeMap<String, String>>,
    used: BTreeSet<String>,
    /// Names of the fields that were printed.
    printed: BTreeSet<String>,
}

impl Page {
    fn read() -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/json.md");
        let mut tables: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
        let mut title = String::new();
        for line in fs::read_to_string(path).unwrap().lines() {
            if let Some(next) = line.strip_prefix("## ") {
                title = next.into();
                tables.insert(title.clone(), BTreeMap::new());
            } else if let Some(row) = line.strip_prefix("| `") {
                let (field, rest) = row.split_once("` | ").expect(line);
                let kind = rest.split(" | ").next().expect(line);
                let table = tables.get_mut(&title).expect(line);
                let before = table.insert(field.into(), kind.into());
                assert!(before.is_none(), "{title}: {field} is listed twice");
            }
        }
        Self {
            tables,
            used: BTreeSet::new(),
            printed: BTreeSet::new(),
        }
    }

    /// Checks the document of a command.
    fn check(&mut self, command: &str, sections: &[&str], document: &Value) {
        let mut fields = BTreeMap::new();
        for section in ["Every document"].iter().chain(sections) {
            fields.extend(self.table(section));
        }
        self.check_object(
            command,
            &fields,
            "",
            document.as_object().expect("a document"),
        );
    }

    fn table(&mut self, section: &str) -> BTreeMap<String, String> {
        self.used.insert(section.into());
        let found = self.tables.get(section);
        found
            .unwrap_or_else(|| panic!("no section `{section}`"))
            .clone()
    }

    fn check_object(
        &mut self,
        place: &str,
        fields: &BTreeMap<String, String>,
        prefix: &str,
        object: &Map<String, Value>,
    ) {
        for (key, value) in object {
            let name = format!("{prefix}{key}");
            let at = format!("{place}.{key}");
            let inner = format!("{name}.");
            self.printed.insert(name.clone());
            match fields.get(&name) {
                Some(kind) => self.check_value(&at, kind, value),
                None if fields.keys().any(|field| field.starts_with(&inner)) => {
                    self.check_object(&at, fields, &inner, value.as_object().expect("an object"));
                }
                None => panic!("{at} is not listed in docs/json.md"),
            }
        }
        for (field, kind) in fields {
            let Some(own) = field.strip_prefix(prefix).filter(|own| !own.contains('.')) else {
                continue;
            };
            let may_miss = kind.ends_with(", absent");
            let is_there = object.contains_key(own);
            assert!(
                is_there || may_miss,
                "{place}: no {own}, which docs/json.md lists"
            );
        }
    }

    fn check_value(&mut self, at: &str, kind: &str, value: &Value) {
        let kind = kind.trim_end_matches(", absent");
        let mut kinds = kind.split(" or ");
        if !kinds.any(|kind| self.is_of(at, kind, value)) {
            panic!("{at} is `{kind}` in docs/json.md, and {value}");
        }
    }

    /// Whether it is of this kind; what is within an object or a list is checked.
    fn is_of(&mut self, at: &str, kind: &str, value: &Value) -> bool {
        match (kind, value) {
            ("any", _)
            | ("object", Value::Object(_))
            | ("string", Value::String(_))
            | ("number", Value::Number(_))
            | ("bool", Value::Bool(_))
            | ("null", Value::Null) => true,
            ("map of number", Value::Object(map)) => map.values().all(Value::is_number),
            (_, Value::Array(list)) => kind.strip_prefix("list of ").is_some_and(|of| {
                list.iter()
                    .for_each(|one| self.check_value(&format!("{at}[]"), of, one));
                true
            }),
            (_, Value::Object(object)) if self.tables.contains_key(kind) => {
                let table = self.table(kind);
                self.check_object(at, &table, "", object);
                true
            }
            _ => false,
        }
    }
}

/// The document that a command prints.
fn document(args: &[&str]) -> Value {
    let output = tcptailor(&[args, &["--json"]].concat()).output().unwrap();
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{args:?}: {}{}", text(&output.stdout), text(&output.stderr)))
}

/// A `serve` on a free port, with its address.
fn serve() -> (Child, String) {
    let mut child = tcptailor(&["serve", "-p", "0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut log = BufReader::new(child.stdout.take().unwrap());
    log.read_line(&mut line).unwrap();
    let address = line
        .trim()
        .trim_start_matches("Listening on ")
        .trim_end_matches('.');
    let address = address.to_owned();
    // Its lines are read to the end, so that it can go on.
    std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
    (child, address)
}

/// The document of `status` while a change of a socket of this test is in force.
fn status() -> Option<Value> {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let ends = (client.local_addr().unwrap(), client.peer_addr().unwrap());
    let all = linux::SockDiag::open()
        .unwrap()
        .scan(&linux::ScanRequest::default());
    let mut sockets = all.unwrap().into_iter();
    let own = sockets.find(|one| (one.key.local, one.key.remote) == ends);
    let cookie = own.expect("it is open").cookie;
    let plan = folder.path().join("plan.json");
    let target = json!({
        "scope": "socket", "netns": "own", "pid": std::process::id(), "cookie": cookie,
        "key": { "local": ends.0, "remote": ends.1 },
    });
    let change = json!({ "target": target, "knob": "nodelay", "to": true });
    let made = json!({ "schema": "tcptailor/plan/2", "changes": [change] });
    fs::write(&plan, made.to_string()).unwrap();
    let command = |args: &[&str]| {
        let mut command = tcptailor(args);
        command.env("TCPTAILOR_STATE", folder.path().join("state"));
        command.output().unwrap()
    };
    let applied = command(&["apply", plan.to_str().unwrap()]);
    if !applied.status.success() {
        asking::skip(format!("the change of a socket: {}", text(&applied.stderr)));
        return None;
    }
    let output = command(&["status", "--json"]);
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

#[test]
fn each_field_is_listed_and_each_listed_field_is_printed() {
    let mut page = Page::read();
    check_recordings(&mut page, "diagnose", &RECORDINGS);
    check_bench_and_run(&mut page);
    check_predict_and_fit(&mut page);
    if let Some(status) = status() {
        page.check("status", &["tcptailor status"], &status);
    }
    let of_privilege = [
        "Setting",
        "Help",
        "tcptailor run",
        "tcptailor status",
        "Transaction",
        "Step",
    ];
    let unseen: Vec<&String> = page
        .tables
        .keys()
        .filter(|title| !page.used.contains(*title) && !of_privilege.contains(&title.as_str()))
        .collect();
    assert!(unseen.is_empty(), "printed nowhere: {unseen:?}");
    let rows = page.tables.iter().flat_map(|(title, table)| {
        let absent = table.iter().filter(|(_, kind)| kind.ends_with(", absent"));
        absent.map(move |(field, _)| (title.as_str(), field.as_str()))
    });
    let never: BTreeSet<&str> = rows
        .filter(|(title, field)| !of_privilege.contains(title) && !page.printed.contains(*field))
        .map(|(_, field)| field)
        .collect();
    assert_eq!(
        never,
        BTreeSet::from(RARE),
        "fields that are absent everywhere"
    );
}

/// Checks what a command says of recordings.
fn check_recordings(page: &mut Page, command: &str, names: &[&str]) {
    let recordings = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/recordings");
    for name in names {
        let file = recordings.join(name).display().to_string();
        let section = format!("tcptailor {command}");
        page.check(command, &[&section], &document(&[command, &file]));
    }
}

fn check_bench_and_run(page: &mut Page) {
    let (mut server, address) = serve();
    let bench = ["bench", &address, "-t", "300ms"];
    for flags in [
        &["--bidir"][..],
        &["--mode", "rr", "--compare", "nodelay=off,on", "--runs", "5"],
    ] {
        let document = document(&[&bench[..], flags].concat());
        page.check("bench", &["tcptailor bench"], &document);
    }
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.json");
    let flags = [
        "run",
        "--json",
        "--set",
        "nodelay=off",
        "-o",
        report.to_str().unwrap(),
        "--",
    ];
    let program = [
        env!("CARGO_BIN_EXE_tcptailor"),
        "bench",
        &address,
        "-t",
        "300ms",
    ];
    let ran = tcptailor(&[&flags[..], &program].concat())
        .output()
        .unwrap();
    let told = fs::read_to_string(&report).unwrap_or_default();
    match serde_json::from_str(&told) {
        Ok(document) => page.check("run", &["tcptailor run", "tcptailor diagnose"], &document),
        Err(_) => asking::skip(format!("run --set: {}", text(&ran.stderr))),
    }
    server.kill().and_then(|()| server.wait()).unwrap();
}

fn check_predict_and_fit(page: &mut Page) {
    let path = ["predict", "--rate", "100mbit", "--rtt", "40ms"];
    let tries = [
        "--set",
        "sndbuf=64KiB",
        "--try",
        "sndbuf=1MiB",
        "--try",
        "congestion=vegas",
    ];
    let predicted = document(&[&path[..], &tries].concat());
    page.check("predict", &["tcptailor predict"], &predicted);
    check_recordings(page, "predict", &PREDICTED);
    let failed = document(&["predict", "no-such-file.rec"]);
    let error = failed["error"].as_object().expect("an error");
    assert_eq!(
        error.keys().collect::<Vec<_>>(),
        ["code", "hint", "message"]
    );
    let fit = document(&["fit", "--lab", "nagle", "--engine", "virtual"]);
    page.check("fit", &["tcptailor fit"], &fit);
}
