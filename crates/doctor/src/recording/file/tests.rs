use base::{
    CongestionState, CounterSet, LinkSample, ListenerSample, PortUse, QdiscSample, Rate, TcpState,
};
use core::time::Duration;

use super::*;

fn recording() -> Recording {
    let key = FlowKey {
        local: "10.0.0.1:40000".parse().unwrap(),
        remote: "[fd00::2]:443".parse().unwrap(),
    };
    let sample = |millis: u64| FlowSample {
        cookie: Some(7),
        state: Some(TcpState::Established),
        congestion_state: Some(CongestionState::Recovery),
        bytes_acked: Some(u64::MAX - millis),
        srtt: millis
            .is_multiple_of(20)
            .then_some(Duration::from_nanos(123_456_789)),
        delivery_rate: Some(Rate::from_bits_per_second(123_456_789 + millis)),
        pacing_rate: Some(Rate::from_bits_per_second(0)),
        nodelay: Some(true),
        ..FlowSample::empty(Instant::from_nanos(millis * 1_000_000 + 1), key)
    };
    let host = |millis: u64| HostSample {
        at: Instant::from_nanos(millis * 1_000_000),
        counters: CounterSet::from([("TcpRetransSegs".into(), millis)]),
        links: vec![LinkSample {
            name: "eth0".into(),
            qdiscs: vec![QdiscSample::default()],
            ..LinkSample::default()
        }],
        listeners: vec![ListenerSample {
            local: key.local,
            cookie: 3,
            queue_pkts: 1,
            backlog_pkts: 128,
        }],
        ports: Some(PortUse {
            remote: key.remote,
            taken: 7,
            range: 28232,
        }),
        sysctls: [("net.ipv4.tcp_sack".into(), "1".into())].into(),
    };
    let process = Arc::new(ProcessInfo {
        pid: 12,
        command: "curl".into(),
        cmdline: "curl -o x".into(),
        cgroup: None,
    });
    Recording {
        flows: vec![Track {
            key,
            cookie: 7,
            owners: vec![SocketOwner { fd: 5, process }],
            samples: (0..50).map(|look| Arc::new(sample(10 * look))).collect(),
            ended: true,
            interface: Some("eth0".into()),
            options_error: None,
        }],
        hosts: (0..3).map(|look| host(200 * look)).collect(),
        began: Instant::from_nanos(5),
        ended: Instant::from_nanos(600_000_000),
        stopped: true,
        flows_left_out: 3,
        ..Recording::default()
    }
}

fn written() -> Vec<u8> {
    let mut file = Vec::new();
    write(&recording(), &Netns::Named("b".into()), &mut file).expect("memory");
    file
}

#[test]
fn what_was_written_is_read_again() {
    let (found, netns) = read(&mut written().as_slice()).expect("our own file");
    assert_eq!(found, recording());
    assert_eq!(netns, Netns::Named("b".into()));
}

/// As where each of many customers has a tunnel.
#[test]
fn a_host_with_very_many_interfaces_is_read_again() {
    let link = |index: u32| LinkSample {
        index,
        name: format!("ppp{index}"),
        tx_bytes: u64::MAX - u64::from(index),
        qdiscs: vec![QdiscSample::default()],
        ..LinkSample::default()
    };
    let host = HostSample {
        links: (1..=20_000).map(link).collect(),
        ..recording().hosts[0].clone()
    };
    let many = Recording {
        hosts: vec![host],
        ..recording()
    };
    let mut file = Vec::new();
    write(&many, &Netns::Own, &mut file).unwrap();
    let (read, _) = read(&mut &file[..]).expect("what was written can be read");
    assert!(read == many);
}

#[test]
fn a_sample_is_what_has_changed() {
    let text = String::from_utf8(written()).unwrap();
    let second = text.lines().nth(3).expect("head, flow, two samples");
    assert_eq!(
        second,
        r#"{"sample":{"at":10000001,"bytes_acked":18446744073709551605,"delivery_rate":123456799,"srtt":null}}"#
    );
}

#[test]
fn a_file_that_was_cut_anywhere_is_refused() {
    let file = written();
    for end in (1..file.len()).step_by(97).chain([file.len() - 1]) {
        let error = read(&mut &file[..end]).expect_err("cut");
        assert!(matches!(error, FileError::CutShort), "{end}: {error}");
    }
    let error = read(&mut &file[..0]).expect_err("nothing");
    assert!(matches!(error, FileError::Empty), "{error}");
}

#[test]
fn what_is_no_recording_is_told() {
    let text = String::from_utf8(written()).unwrap();
    let check = |text: String, expected: &str| {
        let error = read(&mut text.as_bytes()).expect_err("not a recording");
        assert!(error.to_string().starts_with(expected), "{error}");
    };
    check("hello\n".into(), "line 1: not a tcptailor recording");
    check("{}\n".into(), "line 1: not a tcptailor recording");
    check(
        text.replace("recording/1", "recording/9"),
        "line 1: it is tcptailor/recording/9, and this program reads tcptailor/recording/1",
    );
    check(
        text.replace("\"began\"", "\"begun\""),
        "line 1: missing field `began`",
    );
    check(
        text.replacen("\"established\"", "\"estab\"", 1),
        "line 3: unknown variant `estab`",
    );
    let mut lines: Vec<&str> = text.lines().collect();
    lines.remove(5);
    check(
        lines.join("\n") + "\n",
        "line 55: lines are missing before it",
    );
    lines.remove(1);
    check(
        lines.join("\n") + "\n",
        "line 2: a sample of another connection",
    );
    let long = format!(
        "{}\n{}",
        text.lines().next().unwrap(),
        "x".repeat(LINE_MAX as usize)
    );
    check(long, "line 2: it is too long");
}

/// A line of a few bytes may stand for all that came before it.
#[test]
fn a_short_file_that_stands_for_much_is_refused() {
    let text = String::from_utf8(written()).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let name = "x".repeat(1 << 20);
    lines[2] = lines[2].replacen(
        "{\"sample\":{",
        &format!("{{\"sample\":{{\"congestion\":\"{name}\","),
        1,
    );
    let file = lines.join("\n") + "\n";
    assert!(file.len() < 2 << 20);
    let error = read_within(10 << 20, VALUES_MAX, &mut file.as_bytes());
    let error = error.expect_err("50 samples of 1 MiB");
    let told = error.to_string();
    assert!(
        told.ends_with("more data than a recording may have"),
        "{told}"
    );
    assert!(told.starts_with("line 1"), "before it is all held: {told}");
}

/// What stands in a line takes much more memory than its text.
#[test]
fn maps_of_a_line_are_counted_before_it_is_read() {
    let text = String::from_utf8(written()).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let maps = vec!["{\"\":0}"; 20_000].join(",");
    lines[2] = format!("{{\"host\":[{maps}]}}");
    let file = lines.join("\n") + "\n";
    let error = read_within(10 << 20, VALUES_MAX, &mut file.as_bytes());
    let told = error.expect_err("20 000 maps").to_string();
    assert_eq!(told, "line 3: more data than a recording may have");
}

/// Nothing is held of a field that no sample has; it takes time with each sample all the same.
#[test]
fn a_short_file_that_takes_long_to_read_is_refused() {
    let text = String::from_utf8(written()).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let fields: String = (0..10_000).map(|at| format!("\"x{at}\":0,")).collect();
    lines[2] = lines[2].replacen("{\"sample\":{", &format!("{{\"sample\":{{{fields}"), 1);
    let file = lines.join("\n") + "\n";
    read(&mut file.as_bytes()).expect("50 samples take no time");
    let error = read_within(MEMORY_MAX, 100_000, &mut file.as_bytes());
    let told = error.expect_err("ten of them are too many").to_string();
    assert_eq!(told, "line 12: more data than a recording may have");
}

/// Its names are untrusted.
#[test]
fn names_of_a_file_stay_on_their_line() {
    let text = String::from_utf8(written()).unwrap();
    let text = text.replace("\"curl\"", r#""curl\n\u001b[2Jroot""#);
    let text = text.replace("\"TcpRetransSegs\"", "\"Tcp\u{202e}RetransSegs\"");
    let (found, _) = read(&mut text.as_bytes()).expect("a recording");
    let process = &found.flows[0].owners[0].process;
    assert_eq!(process.command, "curl\u{fffd}\u{fffd}[2Jroot");
    let counters = format!("{:?}", found.hosts[0].counters);
    assert!(counters.contains("Tcp\u{fffd}RetransSegs"), "{counters}");
}
