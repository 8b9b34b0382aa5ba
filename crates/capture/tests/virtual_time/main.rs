//! Captures of our own stack in virtual time, of which is known what limited each sender and what
//! the doctor says of its sockets: judged from the packets at the client, at the server, and at a
//! place between them.

mod agreement;
mod gallery;

use core::sync::atomic::AtomicBool;
use core::time::Duration;
use std::sync::Arc;

use agreement::said;
use base::pcap::{CapturedPacket, LinkType, Reader};
use base::{FlowSample, Instant, Limit};
use capture::{Analysis, CaptureSummary, Settings, Vantage};
use doctor::{Recording, Shares};
use lab::world::Capture;
use lab::{LabelledFlow, LimitErrors, ScoredFlow, Trial, Virtual, find_fault};

/// A packet of the file, with its bytes.
struct Packet {
    at: Instant,
    interface: u32,
    bytes: Vec<u8>,
    original_bytes: u32,
}

/// Where a capture is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    Client,
    Server,
    /// So far from the server, behind the queue of the path.
    Between(Duration),
}

const EVERYWHERE: [From; 3] = [
    From::Client,
    From::Server,
    From::Between(Duration::from_micros(90)),
];

/// Runs a trial: what each connection truly waited for, and the packets at both ends.
fn captured(trial: &Trial, time: Duration) -> (Vec<LabelledFlow>, Vec<Packet>) {
    let capture = Capture::new(Vec::new(), &["client", "server"]).expect("into memory");
    let stop = AtomicBool::new(false);
    let engine = Virtual::with_machine_costs();
    let flows = engine.labelled_and_captured(trial, time, &stop, |end| capture.tap(end));
    let flows = flows.expect("our stack has these settings");
    let file = capture.finish().expect("into memory");
    let mut reader = Reader::new(&file[..]).expect("it was written by us");
    let mut packets = Vec::new();
    while let Some(packet) = reader.next_packet() {
        let packet = packet.expect("it was written by us");
        packets.push(Packet {
            at: packet.at,
            interface: packet.interface,
            bytes: packet.bytes.to_vec(),
            original_bytes: packet.original_bytes,
        });
    }
    (flows, packets)
}

fn of_fault(id: &str) -> (Vec<LabelledFlow>, Vec<Packet>) {
    let fault = find_fault(id).expect("a fault of the table");
    // Timeouts double: a dead path takes a while.
    let times = if id == "path-dead" { 3 } else { 1 };
    captured(&fault.trial(), (fault.warm_up + fault.observe) * times)
}

fn analysed(packets: &[Packet], from: From) -> (Recording, CaptureSummary) {
    let mut seen: Vec<(Instant, &Packet)> = packets
        .iter()
        .filter(|packet| (packet.interface == 0) == (from == From::Client))
        .map(|packet| {
            let at = match from {
                From::Between(away) if is_from_server(&packet.bytes) => packet.at + away,
                From::Between(away) => packet.at - away,
                From::Client | From::Server => packet.at,
            };
            (at, packet)
        })
        .collect();
    seen.sort_by_key(|(at, _)| *at);
    let mut analysis = Analysis::new(Settings::default());
    for (at, packet) in seen {
        analysis.handle(&CapturedPacket {
            at,
            interface: 0,
            link: LinkType::Raw,
            original_bytes: packet.original_bytes,
            bytes: &packet.bytes,
        });
    }
    analysis.end();
    analysis.finish()
}

/// The server of the lab has the smaller port.
fn is_from_server(ip: &[u8]) -> bool {
    let port = |at: usize| u16::from_be_bytes([ip[at], ip[at + 1]]);
    port(20) < port(22)
}

/// What may be said at the client, at the server and between: what sockets say first, then what is
/// consistent with it.
fn check(fault: &str, at_client: &[&str], at_server: &[&str], between: &[&str]) {
    let (_, packets) = of_fault(fault);
    for (from, allowed) in EVERYWHERE.into_iter().zip([at_client, at_server, between]) {
        let (recording, summary) = analysed(&packets, from);
        let said = said(&recording);
        assert!(allowed.contains(&said), "{fault} from {from:?}: {said}");
        assert_eq!(summary.missed_bytes, 0, "{fault} from {from:?}");
        assert_eq!(summary.duplicate_packets, 0, "{fault} from {from:?}");
    }
}

fn check_everywhere(fault: &str, allowed: &[&str]) {
    check(fault, allowed, allowed, allowed);
}

#[test]
fn small_writes_are_named_as_from_sockets() {
    for fault in [
        "nagle-delack-stall",
        "nagle-rtt-serialised",
        "cork-not-uncorked",
        "two-one-way-connections",
    ] {
        check_everywhere(fault, &[fault]);
    }
    // Behind a way of 255 us, timestamps of milliseconds do not tell which ACKs the sender had.
    let records = ["unbatched-records", "unclear"];
    check("unbatched-records", &records[..1], &records, &records);
}

#[test]
fn windows_are_named_as_far_as_packets_show_them() {
    // Only the receiver's socket shows why the window is not larger.
    for fault in ["rcvbuf-locked", "rmem-autotuning-off", "tcp-rmem-max-cap"] {
        check_everywhere(fault, &["peer-window"]);
    }
    check_everywhere("window-scaling-off", &["window-scaling-off"]);
    check_everywhere("slow-reader", &["slow-reader"]);
}

#[test]
fn programs_are_named_as_from_sockets() {
    check_everywhere("app-limited", &["app-limited"]);
    check_everywhere("healthy-paced", &["app-limited"]);
    check_everywhere("round-trip-bound", &["round-trip-bound"]);
    check_everywhere("healthy-request", &["round-trip-bound"]);
    // The congestion window of each burst shows at its sender.
    let behind = ["slow-start-after-idle", "app-limited"];
    check("slow-start-after-idle", &behind[..1], &behind, &behind);
    check_everywhere("initcwnd-too-small", &["initcwnd-too-small"]);
}

#[test]
fn paths_are_named_as_from_sockets() {
    check_everywhere("path-full", &["path-full"]);
    check_everywhere("healthy-bulk", &["path-full"]);
    let loss = ["random-loss", "unclear"];
    check("random-loss", &loss[..1], &loss, &loss);
    check_everywhere("retransmission-timeouts", &["retransmission-timeouts"]);
    check_everywhere("reordering", &["reordering"]);
    check_everywhere("sack-or-timestamps-off", &["sack-or-timestamps-off"]);
    // What a send buffer lets out looks like a congestion window, but for its pauses.
    check_everywhere("sndbuf-locked", &["unclear"]);
    check_everywhere("tcp-wmem-max-cap", &["unclear"]);
    // How long the queue in front of the capture is, shows at its other side.
    let queue = ["bufferbloat", "path-full"];
    check("bufferbloat", &queue[..1], &queue, &queue);
    // What never arrives is seen at its sender only.
    check(
        "pmtu-blackhole",
        &["pmtu-blackhole"],
        &["unclear"],
        &["unclear"],
    );
    check("path-dead", &["path-dead"], &["unclear"], &["unclear"]);
}

#[test]
fn where_a_capture_was_made_shows() {
    let check = |fault: &str, expected: [Vantage; 3]| {
        let (_, packets) = of_fault(fault);
        let away = Duration::from_millis(10);
        let places = [From::Client, From::Server, From::Between(away)];
        for (from, expected) in places.into_iter().zip(expected) {
            let (_, summary) = analysed(&packets, from);
            assert_eq!(summary.taken, Some(expected), "{fault} from {from:?}");
        }
    };
    let (sender, receiver, between) = (Vantage::Sender, Vantage::Receiver, Vantage::Between);
    check("path-full", [sender, receiver, between]);
    check("rcvbuf-locked", [sender, receiver, between]);
    check("random-loss", [sender, receiver, between]);
}

/// What limited each sender, by the stack and by the doctor from packets.
fn scored(fault: &str, from: From, scores: &mut Vec<ScoredFlow>) {
    let (flows, packets) = of_fault(fault);
    let (recording, _) = analysed(&packets, from);
    for flow in &flows {
        let key = flow.samples[0].key;
        let all: Duration = flow.truth.values().sum();
        let tracks = recording.flows.iter();
        let Some(track) = tracks
            .filter(|track| track.key == key)
            .max_by_key(|t| t.samples.len())
        else {
            continue;
        };
        let samples: Vec<Arc<FlowSample>> = track.samples.iter().collect();
        let said = Shares::of_samples(samples.iter().map(|sample| &**sample));
        if let (Some(said), false) = (said, all.is_zero()) {
            let share = |limit| {
                let time = flow.truth.get(&limit).copied().unwrap_or_default();
                time.as_secs_f64() / all.as_secs_f64()
            };
            scores.push(ScoredFlow {
                end: flow.end,
                truth: Limit::ALL.map(share),
                said,
            });
        }
    }
}

/// Faults whose limits packets can show: a full send buffer looks like a full congestion window,
/// and a small write that the next one joins before it leaves was never there.
const VISIBLE: [&str; 16] = [
    "nagle-delack-stall",
    "nagle-rtt-serialised",
    "cork-not-uncorked",
    "two-one-way-connections",
    "rcvbuf-locked",
    "rmem-autotuning-off",
    "window-scaling-off",
    "slow-reader",
    "unbatched-records",
    "round-trip-bound",
    "random-loss",
    "bufferbloat",
    "slow-start-after-idle",
    "sack-or-timestamps-off",
    "path-full",
    "healthy-request",
];

#[test]
fn inferred_shares_are_near_the_true_ones() {
    let mut all = Vec::new();
    for from in EVERYWHERE {
        let mut scores = Vec::new();
        for fault in VISIBLE {
            scored(fault, from, &mut scores);
        }
        let errors = LimitErrors::of(&scores);
        println!(
            "{from:?}: {:.3} of the time wrong, {} ends",
            errors.wrong_mean, errors.flows
        );
        all.append(&mut scores);
    }
    let errors = LimitErrors::of(&all);
    for row in &errors.limits {
        println!("{}: {:.3} {:?}", row.limit, row.error_mean, row.error_where);
    }
    assert!(errors.wrong_mean <= 0.1, "{errors:#?}");
}
