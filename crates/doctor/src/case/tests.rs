use std::time::Duration;

use base::{FlowSample, HostSample, Rng};

use super::timelines::timeline_of;
use super::*;
use crate::recording::{ProcessInfo, SocketOwner};

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

/// A connection of `pid` with `looks` samples, each 1 KB of payload after the other.
fn track(ends: [&str; 2], pid: u32, looks: u64) -> Track {
    let [local, remote] = ends.map(|end| end.parse().unwrap());
    let key = FlowKey { local, remote };
    let samples = (0..looks)
        .map(|look| FlowSample {
            bytes_acked: Some(look * 1000),
            bytes_sent: Some(look * 1000),
            ..FlowSample::empty(at(look * 10), key)
        })
        .map(Arc::new)
        .collect();
    let process = ProcessInfo {
        pid,
        command: "test".into(),
        cmdline: String::new(),
        cgroup: None,
    };
    Track {
        key,
        cookie: u64::from(local.port()) << 16 | u64::from(remote.port()),
        owners: vec![SocketOwner {
            fd: 3,
            process: Arc::new(process),
        }],
        samples,
        ended: false,
        interface: None,
        options_error: None,
    }
}

fn recording(flows: Vec<Track>) -> Recording {
    let host = |millis| HostSample {
        at: at(millis),
        ..HostSample::default()
    };
    Recording {
        flows,
        hosts: vec![host(0), host(1000)],
        began: at(0),
        ended: at(1000),
        ..Recording::default()
    }
}

/// The selected cases: local end, whether the other end was seen, number of connections.
fn shown(recording: &Recording, wanted: impl Fn(&Track) -> bool) -> Vec<String> {
    let cases = Cases::of(recording);
    let row = |case: &Case<'_, '_>| {
        format!(
            "{} {} x{}",
            case.track().key.local,
            case.other_end().is_some(),
            case.connections()
        )
    };
    cases.select(wanted).iter().map(row).collect()
}

const CLIENT: &str = "127.0.0.1:50000";
const SERVER: &str = "127.0.0.1:80";

#[test]
fn a_connection_with_both_ends_here_is_answered_once_by_its_sender() {
    let quiet = track([SERVER, CLIENT], 2, 1);
    let both = recording(vec![quiet, track([CLIENT, SERVER], 1, 100)]);
    assert_eq!(shown(&both, |_| true), ["127.0.0.1:50000 true x1"]);
    let of_server = shown(&both, |track| track.pid() == Some(2));
    assert_eq!(
        of_server,
        ["127.0.0.1:80 true x1"],
        "unless it was asked for"
    );
    assert_eq!(shown(&both, |track| track.pid() == Some(3)), [""; 0]);
    let alone = recording(vec![track([CLIENT, SERVER], 1, 100)]);
    assert_eq!(shown(&alone, |_| true), ["127.0.0.1:50000 false x1"]);
}

#[test]
fn the_other_end_may_be_elsewhere() {
    let here = recording(vec![track([CLIENT, SERVER], 1, 100)]);
    let there = recording(vec![track([SERVER, CLIENT], 1, 100)]);
    let elsewhere = Cases::of(&there);
    let cases = Cases::of(&here).with_other_ends(&elsewhere);
    let found = cases.select(|_| true);
    let (_, other) = found[0].other_end().expect("the server's socket");
    assert_eq!(other.key, there.flows[0].key);
}

#[test]
fn short_connections_to_one_service_are_one_case() {
    let short = |port: u32, pid| {
        let local = format!("10.0.0.1:{port}");
        Track {
            ended: true,
            ..track([&local, "10.0.0.2:443"], pid, 3)
        }
    };
    let mut flows: Vec<Track> = (40_000..40_005).map(|port| short(port, 1)).collect();
    flows.push(short(40_010, 2));
    flows.push(track(["10.0.0.1:40011", "10.0.0.2:443"], 1, 100));
    let mut cases = shown(&recording(flows), |_| true);
    cases.sort();
    assert_eq!(
        cases,
        [
            "10.0.0.1:40000 false x5",
            "10.0.0.1:40010 false x1",
            "10.0.0.1:40011 false x1"
        ]
    );
}

/// Whatever is unknown, comes twice, goes back, or is another socket's.
#[test]
fn one_pass_tells_of_a_connection_what_its_timeline_does() {
    let mut busy = 0;
    for seed in 0..300 {
        let mut rng = Rng::new(seed, "looks");
        let mut track = track(["10.0.0.1:40000", "10.0.0.2:443"], 1, rng.below(12));
        let mut drawn = |s: &FlowSample| {
            let mut value = |bound| (rng.below(3) > 0).then(|| rng.below(bound));
            Arc::new(FlowSample {
                at: value(12).map_or(s.at, |tens| at(tens * 10)),
                cookie: value(8).map(|drawn| drawn / 7),
                bytes_acked: value(3),
                bytes_received: value(3),
                segs_in: value(3),
                looks: value(4).unwrap_or(1) as u32,
                state: [None, Some(TcpState::Established), Some(TcpState::Closed)]
                    [value(3).unwrap_or(1) as usize],
                ..s.clone()
            })
        };
        track.samples = track.samples.iter().map(|s| drawn(&s)).collect();
        let facts = Facts::of(&track.samples);
        assert_eq!(
            facts,
            Facts::of_timeline(&timeline_of(&track.samples, &mut Vec::new())),
            "seed {seed}"
        );
        busy += u32::from(facts.carries && facts.hears);
    }
    assert!(busy >= 20, "{busy} carry anything");
}

/// Beside many that are answered, those without an answer would not show.
#[test]
fn connections_that_nobody_answers_are_a_case_of_their_own() {
    let asks = |port: u32, timeouts: u8, state| {
        let local = format!("10.0.0.1:{port}");
        let mut track = track([&local, "10.0.0.2:443"], 1, 3);
        let sample = |s: &Arc<FlowSample>| {
            Arc::new(FlowSample {
                timeouts: Some(timeouts),
                state: Some(state),
                ..FlowSample::clone(s)
            })
        };
        track.samples = track.samples.iter().map(|s| sample(&s)).collect();
        track
    };
    let mut flows: Vec<Track> = (40_000..40_005)
        .map(|port| asks(port, 0, TcpState::Established))
        .collect();
    // Two that wait, one that has only begun, and one that was answered late.
    flows.push(asks(40_010, 3, TcpState::SynSent));
    flows.push(asks(40_011, 2, TcpState::SynSent));
    flows.push(asks(40_012, 0, TcpState::SynSent));
    flows.push(asks(40_013, 2, TcpState::Established));
    let mut cases = shown(&recording(flows), |_| true);
    cases.sort();
    assert_eq!(
        cases,
        ["10.0.0.1:40000 false x7", "10.0.0.1:40010 false x2"]
    );
}

/// A server above the ports that its host's kernel gives to clients, or among them: who listens,
/// and whose SYN was counted, tells more than which port is the larger one.
#[test]
fn a_service_is_known_by_who_accepted_and_not_by_its_port() {
    let short = |local: &str, remote: &str, syn: Option<u64>| {
        let mut track = track([local, remote], 1, 0);
        let looks = (0..3).map(|look| FlowSample {
            state: Some(base::TcpState::Established),
            unacked_pkts: Some(0),
            notsent_bytes: Some(0),
            bytes_sent: Some(100),
            bytes_retrans: Some(0),
            bytes_acked: syn.map(|syn| 100 + syn),
            ..FlowSample::empty(at(look * 10), track.key)
        });
        track.samples = looks.map(Arc::new).collect();
        track.ended = true;
        track
    };
    let clients = ["10.0.0.2:33000", "10.0.0.2:33001", "10.0.0.2:33002"];
    let accepted = |syn| clients.map(|remote| short("10.0.0.1:45000", remote, syn));
    let opened = |syn| clients.map(|local| short(local, "10.0.0.1:45000", syn));
    let by_ports = recording(accepted(None).into());
    assert_eq!(shown(&by_ports, |_| true).len(), 3, "each seems a service");
    let by_syn = recording(accepted(Some(0)).into());
    assert_eq!(shown(&by_syn, |_| true), ["10.0.0.1:45000 false x3"]);
    let by_syn = recording(opened(Some(1)).into());
    assert_eq!(shown(&by_syn, |_| true), ["10.0.0.2:33000 false x3"]);
    let mut by_listener = recording(accepted(None).into());
    by_listener.hosts[0].listeners = vec![base::ListenerSample {
        local: "0.0.0.0:45000".parse().unwrap(),
        cookie: 7,
        queue_pkts: 0,
        backlog_pkts: 128,
    }];
    assert_eq!(shown(&by_listener, |_| true), ["10.0.0.1:45000 false x3"]);
    let cases = Cases::of(&by_listener);
    assert_eq!(
        cases.place(by_listener.flows[0].key),
        Place::Listening(45_000)
    );
}

#[test]
fn what_ended_before_its_owner_was_seen_is_of_the_only_one() {
    let short = |port: u32, pid: Option<u32>| {
        let local = format!("10.0.0.1:{port}");
        let mut track = track([&local, "10.0.0.2:443"], pid.unwrap_or(0), 3);
        track.ended = true;
        track.owners.truncate(pid.iter().len());
        track
    };
    let one = recording(vec![short(40_000, Some(7)), short(40_001, None)]);
    assert_eq!(shown(&one, |_| true), ["10.0.0.1:40000 false x2"]);
    let several = recording(vec![
        short(40_000, Some(7)),
        short(40_001, None),
        short(40_002, Some(8)),
    ]);
    assert_eq!(
        shown(&several, |_| true).len(),
        3,
        "nobody knows whose it is"
    );
}

#[test]
fn siblings_are_connections_of_the_same_process_on_the_same_side() {
    let mut other = track(["127.0.0.1:50002", SERVER], 2, 100);
    Arc::make_mut(&mut other.owners[0].process).command = "other".into();
    let recording = recording(vec![
        track([CLIENT, SERVER], 1, 100),
        track([SERVER, CLIENT], 1, 100),
        track(["127.0.0.1:50001", SERVER], 1, 100),
        track([SERVER, "127.0.0.1:50001"], 1, 100),
        other,
        track(["127.0.0.1:50003", "127.0.0.2:80"], 1, 100),
    ]);
    let cases = Cases::of(&recording);
    let siblings = |index: usize| -> Vec<usize> {
        let beside = cases.beside(index);
        let keys = beside.but(index).into_iter().map(Timeline::key);
        let place = |key| {
            recording
                .flows
                .iter()
                .position(|track| Some(track.key) == key)
        };
        keys.filter_map(place).collect()
    };
    // The first answer is shared.
    for _ in 0..2 {
        assert_eq!(siblings(0), [2]);
        assert_eq!(siblings(2), [0]);
        assert_eq!(siblings(1), [3]);
        assert_eq!(siblings(3), [1]);
    }
    assert!(cases.shares_process(0));
    assert!(!cases.shares_process(4), "its process has no other");
}

/// As of a server that forks for each of them.
#[test]
fn connections_accepted_at_one_port_are_siblings_whoever_holds_them() {
    let recording = recording(vec![
        track([SERVER, CLIENT], 1, 100),
        track([SERVER, "127.0.0.1:50001"], 2, 100),
        track(["127.0.0.1:8080", "127.0.0.1:50002"], 3, 100),
    ]);
    let cases = Cases::of(&recording);
    let count = |index: usize| cases.beside(index).but(index).len();
    assert_eq!([count(0), count(1), count(2)], [1, 1, 0]);
}

/// As of a script that starts a program for each of them.
#[test]
fn connections_that_one_program_opened_to_one_place_are_siblings_whichever_process_did() {
    let mut other = track(["127.0.0.1:50003", SERVER], 4, 100);
    Arc::make_mut(&mut other.owners[0].process).command = "other".into();
    let recording = recording(vec![
        track([CLIENT, SERVER], 1, 100),
        track(["127.0.0.1:50001", SERVER], 2, 100),
        track(["127.0.0.1:50002", "127.0.0.1:81"], 3, 100),
        other,
    ]);
    let cases = Cases::of(&recording);
    let count = |index: usize| cases.beside(index).but(index).len();
    assert_eq!([count(0), count(1), count(2), count(3)], [1, 1, 0, 0]);
}

/// A download over 150 ms that takes a small window in each round trip; the receiver's samples,
/// each 25 ms. Of one that ends early the socket options were not read in time.
fn download(port: u16, began_ms: u64, lasts_ms: u64, unread_bytes: u32) -> Track {
    let rtt = Duration::from_millis(150);
    let window_bytes = 6272;
    let mut track = track([&format!("10.0.0.1:{port}"), "10.0.0.2:80"], 1, 0);
    let key = track.key;
    let look = |since_ms: u64| {
        let trips = since_ms / 150;
        FlowSample {
            bytes_received: Some(trips * u64::from(window_bytes)),
            data_segs_in: Some(trips * 5),
            bytes_acked: Some(100),
            bytes_sent: Some(100),
            since_data_received: Some(Duration::from_millis(since_ms % 150)),
            rcv_wnd_bytes: Some(window_bytes),
            rcv_ssthresh_bytes: Some(window_bytes),
            rcvbuf_bytes: Some(12_288),
            rcv_rtt: Some(rtt),
            rcv_wscale: Some(7),
            snd_wscale: Some(7),
            window_scaling: Some(true),
            rmem_bytes: Some(unread_bytes),
            unread_bytes: Some(unread_bytes),
            unacked_pkts: Some(0),
            notsent_bytes: Some(0),
            srtt: Some(rtt),
            min_rtt: Some(rtt),
            owner_cpu_time: Some(Duration::ZERO),
            ..FlowSample::empty(at(began_ms + since_ms), key)
        }
    };
    let looks = (0..=lasts_ms).step_by(25).map(look).map(Arc::new);
    track.samples = looks.collect();
    track
}

#[test]
fn short_connections_that_agree_are_as_good_as_a_long_one() {
    let check = |flows: Vec<Track>, expected: &str| {
        let mut recording = recording(flows);
        for host in &mut recording.hosts {
            let sysctl = ("net.ipv4.tcp_rmem".into(), "4096 8192 12288".into());
            host.sysctls.extend([sysctl]);
        }
        recording.ended = at(6000);
        let cases = Cases::of(&recording);
        let [case] = &cases.select(|_| true)[..] else {
            panic!("they are one case");
        };
        let report = case.diagnose();
        let main = report.main().map(|main| {
            let confidence = main.confidence;
            format!(
                "{} {confidence:?} x{}",
                main.diagnosis.id,
                case.connections()
            )
        });
        assert_eq!(main.as_deref(), Some(expected), "{:?}", report.unknown);
    };
    let capped = |port, began_ms| download(port, began_ms, 2000, 0);
    let with_options = |track: Track| Track {
        samples: track
            .samples
            .iter()
            .map(|sample| {
                Arc::new(FlowSample {
                    rcvbuf_locked: Some(false),
                    ..(*sample).clone()
                })
            })
            .collect(),
        ..track
    };
    check(vec![capped(40_000, 0)], "tcp-rmem-max-cap Low x1");
    let shorter = with_options(download(40_001, 2500, 1500, 0));
    let both = vec![capped(40_000, 0), shorter.clone()];
    check(both, "tcp-rmem-max-cap High x2");
    // Without the options it is not sure enough to act on, however many agree.
    let without = vec![capped(40_000, 0), capped(40_001, 2500)];
    check(without, "tcp-rmem-max-cap Low x2");
    // Of one that was hardly seen nothing is known; one with another answer is a doubt.
    let hardly = download(40_001, 2500, 100, 0);
    check(vec![capped(40_000, 0), hardly], "tcp-rmem-max-cap Low x2");
    let other = download(40_002, 2500, 1800, 6000);
    let doubted = vec![capped(40_000, 0), other, shorter];
    check(doubted, "tcp-rmem-max-cap Low x3");
}
