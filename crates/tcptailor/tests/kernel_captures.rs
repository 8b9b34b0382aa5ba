//! Captures of Linux TCP on lab paths: what packets at both ends say beside what the sockets say
//! at the same time. `KERNEL_GALLERY=all` takes all built-in scenarios, which lasts minutes.

#[path = "../../capture/tests/virtual_time/agreement.rs"]
mod agreement;
#[path = "../../linux/tests/asking/mod.rs"]
mod asking;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use agreement::{PAYLOAD_BYTES_MIN, Total, WRONG_MAX, said, shares_of};
use base::Netns;
use base::pcap::Reader;
use capture::{Analysis, Settings};
use doctor::{Recording, Shares};
use lab::{Caveat, Cell, End, EngineName, gallery_cells};
use linux::kernel::{Look, Session};

/// How long each is looked at, and how often.
const TIME: Duration = Duration::from_secs(5);
const INTERVAL: Duration = Duration::from_millis(10);

/// Cells of an ordinary run.
const ORDINARY: [&str; 4] = [
    "wan-bulk",
    "lan-wwr/default",
    "lossy-wan/cubic",
    "satellite/64k",
];

/// A capture that is being written.
struct Tcpdump {
    program: Child,
    /// Held, so that what it says at its end does not end it.
    _messages: BufReader<ChildStderr>,
}

impl Tcpdump {
    /// Captures what passes an interface; it has begun when this returns.
    fn start(netns: &Netns, interface: &str, file: &Path) -> Self {
        let Netns::Named(name) = netns else {
            panic!("namespaces of a lab path have names, and not {netns}")
        };
        let mut program = Command::new("ip")
            .args(["netns", "exec", name, "tcpdump", "-n", "-s", "128"])
            .args(["-B", "65536", "-i", interface, "-w"])
            .arg(file)
            .arg("tcp")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("tcpdump starts");
        let mut messages = BufReader::new(program.stderr.take().expect("a pipe"));
        let mut line = String::new();
        while !line.contains("listening on") {
            line.clear();
            let length = messages.read_line(&mut line).expect("text");
            assert!(length > 0, "tcpdump does not listen");
        }
        Self {
            program,
            _messages: messages,
        }
    }

    fn end(mut self) {
        let pid = self.program.id().to_string();
        let kill = Command::new("kill").args(["-s", "INT", &pid]).status();
        assert!(kill.expect("`kill` runs").success());
        self.program.wait().expect("tcpdump ends");
    }
}

/// What packets of a file show.
fn analysed(file: &Path) -> Recording {
    let file = BufReader::new(File::open(file).expect("tcpdump has written it"));
    let mut reader = Reader::new(file).expect("a capture");
    let mut analysis = Analysis::new(Settings::default());
    while let Some(packet) = reader.next_packet() {
        analysis.handle(&packet.expect("a whole packet"));
    }
    analysis.end();
    analysis.finish().0
}

/// Looks at the sockets of both ends, and captures the packets there meanwhile, from the first of
/// their connections on.
fn looked_at(cell: &Cell) -> linux::Result<(Look, [Recording; 2], Vec<Caveat>)> {
    let program = Path::new(env!("CARGO_BIN_EXE_tcptailor"));
    let mut session = Session::start(program, &cell.trial)?;
    let folder = tempfile::tempdir().expect("a directory");
    let ends = [End::Client, End::Server];
    let files = ends.map(|end| folder.path().join(end.name()));
    let interface = session.path().interface().to_owned();
    let captures: Vec<Tcpdump> = ends
        .into_iter()
        .zip(&files)
        .map(|(end, file)| Tcpdump::start(&session.netns(end), &interface, file))
        .collect();
    session.reconnect()?;
    let look = session.look((TIME, INTERVAL), &AtomicBool::new(false), &mut |_| ())?;
    captures.into_iter().for_each(Tcpdump::end);
    let caveats = session.caveats()?;
    Ok((look, files.map(|file| analysed(&file)), caveats))
}

/// Limit shares by the sockets of the senders, beside those by packets. Connections that were there
/// for a small part of the time are left out: those of the first client, which end when the second
/// one starts, were not captured from their beginning.
fn count_shares(total: &mut Total, run: &str, look: &Look, packets: &Recording) {
    for track in look.client.flows.iter().chain(&look.server.flows) {
        let samples: Vec<_> = track.samples.iter().collect();
        let (Some(first), Some(last)) = (samples.first(), samples.last()) else {
            continue;
        };
        let is_whole = last.at.since(first.at) >= TIME / 2;
        if !is_whole || last.bytes_sent < Some(PAYLOAD_BYTES_MIN) {
            continue;
        }
        let shares = Shares::of_samples(samples.iter().map(|sample| &**sample));
        if let Some((shares, said)) = shares.zip(shares_of(packets, track.key)) {
            let end = format!("{run} {}", track.key);
            total.count_shares(&end, |limit| shares.get(limit), &said);
        }
    }
}

#[test]
fn packets_agree_with_the_sockets_of_linux() {
    // `ip` starts the other one in a namespace.
    if asking::witness("tcpdump").is_none() || asking::witness("ip").is_none() {
        return;
    }
    let all = std::env::var("KERNEL_GALLERY").ok();
    let mut totals: BTreeMap<&str, Total> = BTreeMap::new();
    for cell in gallery_cells(EngineName::Kernel) {
        let is_asked = match all.as_deref() {
            None => ORDINARY.contains(&cell.id.as_str()),
            Some("all") => true,
            Some(part) => cell.id.contains(part),
        };
        if !is_asked {
            continue;
        }
        let (look, packets, caveats) = match looked_at(&cell) {
            Ok(seen) => seen,
            Err(error) if all.is_some() => {
                println!("{}: left out: {error}", cell.id);
                continue;
            }
            Err(error) => {
                asking::permitted::<()>(Err(error));
                return;
            }
        };
        let is_late = |caveat: &&Caveat| matches!(caveat, Caveat::EmulatorLate { .. });
        if let Some(late) = caveats.iter().find(is_late) {
            println!("{}: does not count: {late}", cell.id);
            continue;
        }
        let sockets = [said(&look.client), said(&look.server)];
        for (from, packets) in ["client", "server"].into_iter().zip(packets) {
            let run = format!("{} {from}", cell.id);
            let total = totals.entry(from).or_default();
            count_shares(total, &run, &look, &packets);
            total.count_verdict(&run, &cell.id, &sockets, said(&packets));
        }
    }
    assert!(!totals.is_empty(), "none could be used");
    for (from, total) in &totals {
        total.print(from);
    }
    // Of three ends one that a busy machine disturbs must not decide.
    let wrong_max = if all.is_some() {
        WRONG_MAX
    } else {
        2.0 * WRONG_MAX
    };
    for (from, total) in &totals {
        assert!(total.wrong_mean() <= wrong_max, "{from}");
        assert!(total.contradictions.is_empty(), "{from}");
    }
}
