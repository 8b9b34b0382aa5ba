use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::time::Duration;
use std::sync::{Arc, Mutex};

use base::{Bytes, Instant, WirePacket};
use link::LinkSpec;
use stack::profile::linux_6_18;
use stack::{HostConfig, Packet};

use super::*;
use crate::app::{LAB_PORT, Program, ProgramSpec};
use crate::workload::{Amount, Direction, Workload};

fn address(host: u16) -> IpAddr {
    let [high, low] = host.to_be_bytes();
    Ipv4Addr::new(10, 0, high, low).into()
}

fn config(host: u16) -> HostConfig {
    HostConfig::of(&linux_6_18(), address(host), host.into())
}

fn link(rate: &str, delay_ms: u64) -> LinkSpec {
    LinkSpec {
        rate: Some(rate.parse().expect("a rate")),
        delay: Duration::from_millis(delay_ms),
        ..LinkSpec::ideal()
    }
}

fn spec(workload: Workload, server: u16) -> ProgramSpec {
    ProgramSpec {
        workload,
        address: SocketAddr::new(address(server), LAB_PORT),
        settings: linux_6_18().settings,
        quickack: None,
        corks_accepted: false,
        warmup: Duration::ZERO,
        costs: HostCosts::NONE,
        checks_payload: true,
    }
}

fn bulk(amount: Amount) -> Workload {
    Workload::Bulk {
        direction: Direction::Up,
        flows: 1,
        write_size: Bytes(65_536),
        unacked: None,
        amount,
    }
}

fn requests(operations: u64) -> Workload {
    Workload::RequestResponse {
        request: Bytes(100),
        response: Bytes(100),
        flows: 1,
        amount: Amount::Operations(operations),
    }
}

/// Host 1 and host 2 with these links between them, and a workload from the one to the other.
fn pair(hops: &[(LinkSpec, LinkSpec)], workload: &Workload) -> (World<Program>, NodeId, NodeId) {
    let mut world = World::new();
    world.audit();
    let a = world.add_host(config(1), HostCosts::NONE);
    let b = world.add_host(config(2), HostCosts::NONE);
    chain(&mut world, (a, b), hops, 7).expect("links that make sense");
    world.start(b, Program::server(spec(workload.clone(), 2)));
    world.start(a, Program::client(spec(workload.clone(), 2)));
    (world, a, b)
}

fn run_to_end(world: &mut World<Program>, client: NodeId) -> Instant {
    let until = Instant::ZERO + Duration::from_secs(600);
    while !world.app(client).expect("it was started").is_done() {
        assert!(world.step(until), "the client does not come to an end");
    }
    world.check();
    world.now()
}

#[test]
fn the_delays_of_a_chain_add_up() {
    let hop = || {
        (
            LinkSpec {
                rate: None,
                ..link("1gbit", 3)
            },
            LinkSpec {
                rate: None,
                ..link("1gbit", 4)
            },
        )
    };
    for hops in 1..=3 {
        let chain: Vec<_> = (0..hops).map(|_| hop()).collect();
        let (mut world, a, _) = pair(&chain, &requests(10));
        run_to_end(&mut world, a);
        let totals = world.app(a).expect("it was started").totals(world.now());
        let response = totals.response_us().expect("ten responses");
        let expected = 7_000 * hops as u64;
        // Kept to three digits.
        assert!(response.n == 10 && response.max.abs_diff(expected) <= expected / 1000);
        assert!(
            response.p50.abs_diff(expected) <= expected / 1000,
            "{response:?}"
        );
    }
}

#[test]
fn all_that_is_written_arrives_whatever_the_path_does() {
    let part = |text: &str| text.parse().expect("a share");
    let bad = LinkSpec {
        loss: link::Loss::Random(part("2%")),
        duplicate: part("1%"),
        jitter: Duration::from_millis(1),
        reorder: Some(link::Reorder {
            share: part("2%"),
            hold: Duration::from_millis(3),
        }),
        queue: base::QueueLimit::Packets(40),
        ..link("20mbit", 5)
    };
    let workload = bulk(Amount::Bytes(Bytes(3_000_000)));
    let (mut world, a, b) = pair(&[(bad.clone(), bad)], &workload);
    run_to_end(&mut world, a);
    let received = world
        .app(b)
        .expect("it was started")
        .totals(world.now())
        .received_bytes;
    assert_eq!(received, 3_000_000);
}

#[test]
fn a_smaller_hop_in_the_middle_is_found_by_its_errors() {
    let wide = || (link("50mbit", 1), link("50mbit", 1));
    let narrow = LinkSpec {
        mtu: Some(Bytes(1300)),
        ..link("50mbit", 1)
    };
    let hops = [wide(), (narrow, link("50mbit", 1)), wide()];
    let workload = bulk(Amount::Bytes(Bytes(1_000_000)));
    let (mut world, a, b) = pair(&hops, &workload);
    let end = run_to_end(&mut world, a);
    let received = world
        .app(b)
        .expect("it was started")
        .totals(end)
        .received_bytes;
    assert_eq!(received, 1_000_000);
    assert!(world.net.counts.reported > 0, "a router said so");
    assert!(
        end < Instant::ZERO + Duration::from_secs(1),
        "{end:?}: without waiting for timers"
    );
}

#[test]
fn many_hosts_share_one_link() {
    const PAIRS: u16 = 40;
    let mut world = World::new();
    world.audit();
    let configs = |first: u16| (first..first + PAIRS).map(config).collect::<Vec<_>>();
    let shared = (
        LinkSpec {
            queue: base::QueueLimit::Packets(500),
            ..link("100mbit", 5)
        },
        link("100mbit", 5),
    );
    let hosts = (configs(1), configs(1001));
    let bell = dumbbell(&mut world, hosts, &link("1gbit", 1), shared, 3).expect("valid links");
    let time = Duration::from_secs(2);
    for (index, server) in (1001..).zip(&bell.right) {
        world.start(
            *server,
            Program::server(spec(bulk(Amount::Time(time)), index)),
        );
    }
    for (index, client) in (1001..).zip(&bell.left) {
        world.start(
            *client,
            Program::client(spec(bulk(Amount::Time(time)), index)),
        );
    }
    world.run(Instant::ZERO + time);
    world.check();
    let received = |node: &NodeId| {
        let program = world.app(*node).expect("it was started");
        program.totals(world.now()).received_bytes
    };
    let bytes: Vec<u64> = bell.right.iter().map(received).collect();
    let all: u64 = bytes.iter().sum();
    let possible = 100_000_000 / 8 * 2;
    assert!(
        all < possible && all > possible * 85 / 100,
        "{all} of {possible} bytes"
    );
    assert!(
        bytes.iter().all(|bytes| *bytes > 0),
        "nobody starves: {bytes:?}"
    );
    let stats = world.link_stats(bell.forward);
    assert!(
        stats.queue_packets_max <= 500 && stats.queue_dropped > 0,
        "{stats:?}"
    );
}

#[derive(Debug)]
struct Count(Arc<Mutex<(Instant, u64)>>);

impl Tap for Count {
    fn on_packet(&mut self, at: Instant, packet: &Packet) {
        let mut count = self.0.lock().expect("nobody panics with it");
        assert!(at >= count.0, "in order");
        *count = (at, count.1 + u64::from(packet.segments()));
    }
}

#[test]
fn a_tap_sees_what_passes() {
    let workload = bulk(Amount::Bytes(Bytes(100_000)));
    let (mut world, a, _) = pair(&[(link("10mbit", 5), link("10mbit", 5))], &workload);
    let counts = [TapPoint::Entry, TapPoint::Exit].map(|place| {
        let count = Arc::new(Mutex::new((Instant::ZERO, 0)));
        world.add_tap(LinkId(0), place, Box::new(Count(Arc::clone(&count))));
        count
    });
    run_to_end(&mut world, a);
    let stats = world.link_stats(LinkId(0));
    let seen = counts.map(|count| count.lock().expect("nobody panics with it").1);
    assert_eq!(seen, [stats.sent, stats.delivered]);
}

#[test]
fn work_takes_its_time() {
    let costs = HostCosts {
        wake: Duration::from_micros(10),
        system_call: Duration::from_micros(1),
        receive_packet: Duration::from_micros(2),
        send_packet: Duration::from_micros(3),
        ..HostCosts::NONE
    };
    let mut world = World::new();
    let [a, b] = [1, 2].map(|host| world.add_host(config(host), costs));
    let plain = LinkSpec {
        delay: Duration::from_micros(100),
        ..LinkSpec::ideal()
    };
    chain(&mut world, (a, b), &[(plain.clone(), plain)], 1).expect("valid links");
    let workload = requests(50);
    let program = |workload: &Workload| ProgramSpec {
        costs,
        ..spec(workload.clone(), 2)
    };
    world.start(b, Program::server(program(&workload)));
    world.start(a, Program::client(program(&workload)));
    run_to_end(&mut world, a);
    let totals = world.app(a).expect("it was started").totals(world.now());
    // Each way: sending 3, the wire 100, taking in 2, waking 10, and the call that reads 1.
    assert_eq!(totals.response_us().expect("responses").p50, 232);
}
