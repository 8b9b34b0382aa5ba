//! Lab paths on the real kernel. Needs what `LabPath::create` needs; without it every test says
//! that it was skipped, and fails instead where `REQUIRE_KERNEL` is set.

mod asking;
mod tcp_info;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use base::{Bytes, Rate};
use lab::{Caveat, PathSpec};
use link::{LinkSpec, Loss, TooBig};
use linux::{LabPath, NAMED_DIR, NetnsHandle, cleanup};
use tcp_info::tcp_info;

/// In the environment of the child that is killed.
const HOLD: &str = "TCPTAILOR_TEST_HOLD_PATH";

#[test]
fn carries_a_transfer_over_both_ip_versions() {
    for ipv6 in [false, true] {
        let link = link("500mbit", Duration::from_millis(1));
        let Some(path) = path(&emulated(1500, link, ipv6)) else {
            return;
        };
        assert_eq!(path.b_addr().is_ipv6(), ipv6);
        assert_eq!(transfer(&path, 3_000_000), 3_000_000);
        let (forward, reverse) = path.outcome();
        // 3 MB are at least 2000 packets of 1500 bytes, however few GSO packets carried them.
        assert!(forward.delivered > 2000, "{forward:?}");
        assert!(forward.sent >= forward.delivered && reverse.delivered > 0);
        assert!(forward.lateness_us.is_some() && reverse.lateness_us.is_some());
    }
}

#[test]
fn rate_and_delay_are_those_of_the_links() {
    let link = link("25mbit", Duration::from_millis(20));
    let Some(path) = path(&emulated(1500, link, false)) else {
        return;
    };
    let (client, mut server) = connected(&path);
    let total = 8_000_000;
    let bytes_per_second = std::thread::scope(|scope| {
        scope.spawn(|| {
            (&client)
                .write_all(&vec![1; total])
                .expect("the peer reads");
        });
        // The first part covers slow start.
        read_exactly(&mut server, total / 2);
        let start = std::time::Instant::now();
        read_exactly(&mut server, total / 2);
        (total / 2) as f64 / start.elapsed().as_secs_f64()
    });
    let min_rtt_us = tcp_info(&client).tcpi_min_rtt;
    let invalid = |caveat: &Caveat| matches!(caveat, Caveat::EmulatorLate { .. });
    let caveats = path.caveats().expect("the path is there");
    if caveats.iter().any(invalid) {
        println!("not judged: the emulator was late");
        return;
    }
    // 1448 of 1500 bytes are payload: 0.965. A machine that is busy gives less.
    let share = bytes_per_second * 8.0 / 25e6;
    let (least, rtt_max_us) = match caveats.is_empty() {
        true => (0.95, 42_000),
        false => (0.85, 60_000),
    };
    println!("{share} of the rate, {min_rtt_us} us at 40 ms, {caveats:?}");
    assert!((least..0.98).contains(&share), "{share} of the rate");
    assert!(
        (40_000..rtt_max_us).contains(&min_rtt_us),
        "{min_rtt_us} us at 40 ms"
    );
}

#[test]
fn loss_is_seen_by_the_hosts_and_counted() {
    let mut lossy = link("100mbit", Duration::from_millis(1));
    lossy.loss = Loss::Random("2%".parse().expect("a fraction"));
    let Some(path) = path(&emulated(1500, lossy, false)) else {
        return;
    };
    let (client, mut server) = connected(&path);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            (&client)
                .write_all(&vec![1; 1_000_000])
                .expect("the peer reads");
        });
        read_exactly(&mut server, 1_000_000);
    });
    let (forward, _) = path.outcome();
    assert!(forward.dropped_segments >= 2, "{forward:?}");
    assert!(tcp_info(&client).tcpi_total_retrans >= 2);
}

#[test]
fn larger_packets_are_reported_or_vanish() {
    for ipv6 in [false, true] {
        for too_big in [TooBig::Report, TooBig::Vanish] {
            let mut narrow = link("100mbit", Duration::from_millis(1));
            narrow.mtu = Some(Bytes(1400));
            narrow.too_big = too_big;
            let Some(path) = path(&emulated(1500, narrow, ipv6)) else {
                return;
            };
            check_narrow(&path, too_big);
        }
    }
}

fn check_narrow(path: &LabPath, too_big: TooBig) {
    // Otherwise the host finds the way out of the black hole by itself.
    let probing = "/proc/sys/net/ipv4/tcp_mtu_probing";
    let switched_off = path.a().run(|| fs::write(probing, "0"));
    switched_off.expect("ours").expect("a sysctl");
    let (mut client, mut server) = connected(path);
    client.write_all(&[1; 1000]).expect("the peer reads");
    read_exactly(&mut server, 1000);
    // As much as a send buffer takes at first, so that this does not wait for the peer.
    client
        .write_all(&[1; 20_000])
        .expect("room in the send buffer");
    match too_big {
        TooBig::Report => {
            read_exactly(&mut server, 20_000);
            assert_eq!(tcp_info(&client).tcpi_pmtu, 1400);
        }
        TooBig::Vanish => {
            // The first packets and at least one retransmission.
            wait_for(|| path.outcome().0.dropped_segments >= 12);
            server.set_nonblocking(true).expect("a socket");
            let received = server.read(&mut [0; 1500]);
            assert!(received.is_err(), "{received:?} came through");
        }
    }
}

#[test]
fn a_ring_that_is_too_short_is_told() {
    let Some(path) = path(&emulated(1500, LinkSpec::ideal(), false)) else {
        return;
    };
    assert_eq!(device_drops(&path), 0);
    let shorten = || linux::netlink::link::set_txqueuelen(linux::INTERFACE, 1);
    path.a().run(shorten).expect("ours").expect("settable");
    // The fragments of a datagram pass the device one by one, and the emulator may wake for each:
    // but not in time for every one.
    let send_some = || {
        let socket = std::net::UdpSocket::bind((path.a_addr(), 0)).expect("a port");
        for _ in 0..100 {
            let _ = socket.send_to(&[0; 60_000], (path.b_addr(), 9));
        }
    };
    wait_for(|| {
        path.a().run(send_some).expect("ours");
        device_drops(&path) > 0
    });
}

/// Waits for what must come; how long it takes is not judged.
fn wait_for(mut condition: impl FnMut() -> bool) {
    for _ in 0..2000 {
        if condition() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("it did not come within 20 s");
}

fn device_drops(path: &LabPath) -> u64 {
    let caveats = path.caveats().expect("the path is there");
    let drops = caveats.iter().map(|caveat| match caveat {
        Caveat::DeviceDropped { packets, .. } => *packets,
        _ => 0,
    });
    drops.sum()
}

#[test]
fn loopback_and_veth_carry_without_emulation() {
    for spec in [PathSpec::Loopback, PathSpec::Veth { mtu: Bytes(9000) }] {
        let Some(path) = path(&spec) else {
            return;
        };
        assert_eq!(transfer(&path, 1_000_000), 1_000_000);
        assert_eq!(path.outcome(), Default::default());
        assert_eq!(path.caveats().expect("the path is there"), []);
        let read = || linux::netlink::link::read(path.interface());
        let state = path.a().run(read).expect("ours").expect("it is there");
        let expected = if spec == PathSpec::Loopback {
            65_536
        } else {
            9000
        };
        assert_eq!((state.up, state.mtu), (true, expected));
    }
}

#[test]
fn hosts_are_separate_and_remember_nothing() {
    let Some(path) = path(&emulated(1500, LinkSpec::ideal(), false)) else {
        return;
    };
    let inode = |netns: &NetnsHandle| netns.inode().expect("an open namespace");
    assert_ne!(inode(path.a()), inode(path.b()));
    for netns in [path.a(), path.b()] {
        let again = NetnsHandle::open(netns.name()).expect("found by its name");
        assert_eq!(inode(&again), inode(netns));
        let saved = netns.run(|| fs::read_to_string("/proc/sys/net/ipv4/tcp_no_metrics_save"));
        assert_eq!(saved.expect("ours").expect("a sysctl").trim(), "1");
    }
}

#[test]
fn a_device_that_somebody_removes_ends_the_emulator_but_nothing_else() {
    let Some(path) = path(&emulated(1500, LinkSpec::ideal(), false)) else {
        return;
    };
    let remove = || linux::netlink::link::delete(linux::INTERFACE);
    path.a().run(remove).expect("ours").expect("it was there");
    let ended = |caveat: &Caveat| matches!(caveat, Caveat::EndedEarly { .. });
    wait_for(|| {
        path.caveats()
            .is_ok_and(|caveats| caveats.iter().any(ended))
    });
    assert_eq!(path.outcome().0.delivered, 0);
}

#[test]
fn dropping_a_path_leaves_nothing() {
    let Some(path) = path(&emulated(1500, LinkSpec::ideal(), false)) else {
        return;
    };
    let names = names(&path);
    drop(path);
    for name in names {
        assert!(!Path::new(NAMED_DIR).join(&name).exists(), "{name}");
        assert!(NetnsHandle::open(&base::Netns::Named(name)).is_err());
    }
}

#[test]
fn the_next_start_removes_what_a_killed_process_left() {
    if path(&PathSpec::Loopback).is_none() {
        return;
    }
    let mut child = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "holds_a_path_until_it_is_killed", "--nocapture"])
        .env(HOLD, "1")
        .stdout(Stdio::piped())
        .spawn()
        .expect("this test runs again");
    let output = BufReader::new(child.stdout.take().expect("piped"));
    let names: Vec<String> = output
        .lines()
        .map(|line| line.expect("text"))
        .filter_map(|line| line.strip_prefix("holds ").map(str::to_owned))
        .take(2)
        .collect();
    assert_eq!(names.len(), 2, "the child made a path");
    let mounted = |name: &String| Path::new(NAMED_DIR).join(name).exists();
    let were_mounted = names.iter().all(mounted);
    let kept = cleanup::remove_leftovers().expect("nothing in the way");
    assert!(!kept.contains(&names[0]), "the child is alive");
    child.kill().expect("our child");
    child.wait().expect("our child");
    if !were_mounted {
        asking::skip("names are not mounted in a user namespace");
        return;
    }
    // Another test may have come first.
    cleanup::remove_leftovers().expect("nothing in the way");
    assert!(!names.iter().any(mounted), "{names:?} must be gone");
}

/// Not a test of its own: the child of the one above.
#[test]
fn holds_a_path_until_it_is_killed() {
    if std::env::var_os(HOLD).is_none() {
        return;
    }
    let path = path(&emulated(1500, LinkSpec::ideal(), false)).expect("the parent has tried");
    for name in names(&path) {
        println!("holds {name}");
    }
    std::thread::sleep(Duration::from_secs(60));
}

fn names(path: &LabPath) -> [String; 2] {
    [path.a(), path.b()].map(|netns| match netns.name() {
        base::Netns::Named(name) => name.clone(),
        other => panic!("{other} has no name"),
    })
}

fn link(rate: &str, delay: Duration) -> LinkSpec {
    LinkSpec {
        rate: Some(rate.parse::<Rate>().expect("a rate")),
        delay,
        ..LinkSpec::ideal()
    }
}

fn emulated(mtu: u64, link: LinkSpec, ipv6: bool) -> PathSpec {
    PathSpec::Emulated {
        mtu: Bytes(mtu),
        forward: link.clone(),
        reverse: link,
        ipv6,
    }
}

/// The path, or `None` where this machine does not let us and a skip is allowed.
fn path(spec: &PathSpec) -> Option<LabPath> {
    asking::permitted(LabPath::create(spec, 7))
}

/// A connection from host A to host B.
fn connected(path: &LabPath) -> (TcpStream, TcpStream) {
    let listener = path
        .b()
        .run(|| TcpListener::bind(SocketAddr::new(path.b_addr(), 0)).expect("a free port"))
        .expect("ours");
    let at = listener.local_addr().expect("bound");
    let client = path
        .a()
        .run(|| {
            let domain = socket2::Domain::for_address(at);
            let socket = socket2::Socket::new(domain, socket2::Type::STREAM, None).expect("socket");
            // The default may be any; a namespace refuses to change it by sysctl.
            let _ = socket.set_tcp_congestion(b"cubic");
            socket.connect(&at.into()).expect("a listener");
            TcpStream::from(socket)
        })
        .expect("ours");
    (client, listener.accept().expect("a client").0)
}

/// Bytes that arrived of `total` sent ones.
fn transfer(path: &LabPath, total: usize) -> usize {
    let (mut client, mut server) = connected(path);
    std::thread::scope(|scope| {
        scope.spawn(move || client.write_all(&vec![3; total]).expect("the peer reads"));
        let mut received = Vec::new();
        server.read_to_end(&mut received).expect("an orderly end");
        assert!(received.iter().all(|byte| *byte == 3));
        received.len()
    })
}

fn read_exactly(stream: &mut TcpStream, bytes: usize) {
    stream
        .read_exact(&mut vec![0; bytes])
        .expect("the peer writes");
}
