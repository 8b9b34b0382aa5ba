//! What the simulator gives, as small tables of integers: a change of behaviour is a change of a
//! table.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use base::settings::CongestionName;
use base::{Bytes, Instant, QueueLimit};
use lab::app::{HostCosts, LAB_PORT, Program, ProgramSpec};
use lab::judge::{Verdict, judge_claim};
use lab::world::{World, dumbbell};
use lab::{Amount, Direction, EngineName, Outcome, Scenario, Virtual, Workload};
use link::LinkSpec;
use stack::HostConfig;
use stack::profile::linux_6_18;

fn run(scenario: &Scenario) -> Vec<(String, Outcome)> {
    let engine = Virtual {
        audit: true,
        ..Virtual::default()
    };
    let stop = AtomicBool::new(false);
    let cells = scenario.trials().into_iter();
    cells
        .map(|cell| (cell.id, engine.run(&cell.trial, &stop, &mut |_| ())))
        .collect()
}

fn scenario(text: &str) -> Scenario {
    Scenario::parse("test.toml", text).unwrap_or_else(|mistakes| panic!("{mistakes:?}"))
}

/// A table of two axes: rows by the first one, columns by the second.
fn table(text: &str, show: impl Fn(&Outcome) -> u64) -> String {
    let scenario = scenario(text);
    let mut rows: BTreeMap<usize, (String, Vec<String>)> = BTreeMap::new();
    let mut header = Vec::new();
    let outcomes = run(&scenario);
    let cells = scenario.trials();
    let columns = cells
        .iter()
        .take_while(|cell| cell.axes[0] == cells[0].axes[0])
        .count();
    for (index, (cell, (_, outcome))) in cells.iter().zip(&outcomes).enumerate() {
        assert!(
            outcome.caveats.is_empty(),
            "{}: {:?}",
            cell.id,
            outcome.caveats
        );
        if index < columns {
            header.push(cell.axes[1].1.clone());
        }
        let row = rows.entry(index / columns);
        let row = row.or_insert_with(|| (cell.axes[0].1.clone(), Vec::new()));
        row.1.push(show(outcome).to_string());
    }
    let mut text = format!("{:>12}", "");
    let line = |text: &mut String, first: &str, rest: &[String]| {
        if !first.is_empty() {
            let _ = write!(text, "\n{first:>12}");
        }
        for word in rest {
            let _ = write!(text, " {word:>9}");
        }
    };
    line(&mut text, "", &header);
    rows.values()
        .for_each(|(name, values)| line(&mut text, name, values));
    text
}

fn kbps(outcome: &Outcome) -> u64 {
    outcome.goodput_bps / 1000
}

#[test]
fn buffer_and_loss_decide_goodput() {
    let text = r#"
name = "buffer-loss"
about = "kbit/s by receive buffer and loss."
[path]
kind = "emulated"
rate = "20mbit"
rtt = "40ms"
queue = "1bdp"
[workload]
kind = "bulk"
direction = "up"
duration = "4s"
[sweep]
"server.rcvbuf" = ["8KiB", "32KiB", "128KiB", "1MiB"]
"path.loss" = ["0%", "0.1%", "1%", "5%"]
"#;
    insta::assert_snapshot!(table(text, kbps));
}

#[test]
fn window_over_round_trip_time_is_the_most() {
    let text = r#"
name = "rtt-window"
about = "kbit/s by round-trip time and receive buffer."
[path]
kind = "emulated"
rate = "1gbit"
rtt = "1ms"
queue = "1000p"
[workload]
kind = "bulk"
direction = "down"
duration = "1s"
[sweep]
"path.rtt" = ["1ms", "10ms", "50ms", "200ms"]
"client.rcvbuf" = ["16KiB", "64KiB", "256KiB"]
"#;
    insta::assert_snapshot!(table(text, kbps));
}

#[test]
fn flows_share_a_link() {
    let text = r#"
name = "flows"
about = "kbit/s of all flows, by their number and congestion control."
[path]
kind = "emulated"
rate = "50mbit"
rtt = "20ms"
queue = "1bdp"
[workload]
kind = "bulk"
direction = "up"
flows = 1
duration = "3s"
[sweep]
"workload.flows" = [1, 2, 8, 32]
"client.congestion" = ["reno", "cubic", "bbr"]
"#;
    insta::assert_snapshot!(table(text, kbps));
}

/// Bulk from `pairs` hosts to as many others over one link; what each got in the last four of five
/// seconds, in kbit/s, ordered.
fn shares(pairs: u16, congestion: CongestionName) -> Vec<u64> {
    let mut profile = linux_6_18();
    profile.settings.congestion.name = congestion;
    let config = |host: u16| HostConfig::of(&profile, address(host), host.into());
    let link = |rate: &str, millis, queue| LinkSpec {
        rate: Some(rate.parse().expect("a rate")),
        delay: Duration::from_millis(millis),
        queue: QueueLimit::Packets(queue),
        ..LinkSpec::ideal()
    };
    let shared = (link("40mbit", 8, 130), link("40mbit", 8, 130));
    let sides = [1..=pairs, 1001..=1000 + pairs];
    let [left, right] = sides.map(|hosts| hosts.map(config).collect());
    let mut world = World::new();
    let bell = dumbbell(
        &mut world,
        (left, right),
        &link("1gbit", 1, 1000),
        shared,
        5,
    );
    let bell = bell.expect("links that make sense");
    let program = |server| ProgramSpec {
        workload: Workload::Bulk {
            direction: Direction::Up,
            flows: 1,
            write_size: Bytes(65_536),
            unacked: None,
            amount: Amount::Time(Duration::from_secs(4)),
        },
        address: SocketAddr::new(address(server), LAB_PORT),
        settings: profile.settings.clone(),
        quickack: None,
        corks_accepted: false,
        warmup: Duration::from_secs(1),
        costs: HostCosts::NONE,
        checks_payload: true,
    };
    for ((server, client), host) in bell.right.iter().zip(&bell.left).zip(1001..) {
        world.start(*server, Program::server(program(host)));
        world.start(*client, Program::client(program(host)));
    }
    world.run(Instant::ZERO + Duration::from_secs(6));
    world.check();
    let got = bell.right.iter().map(|server| {
        let program = world.app(*server).expect("it was started");
        program.totals(world.now()).received_bytes * 8 / 4 / 1000
    });
    let mut got: Vec<u64> = got.collect();
    got.sort_unstable();
    got
}

fn address(host: u16) -> IpAddr {
    let [high, low] = host.to_be_bytes();
    Ipv4Addr::new(10, 0, high, low).into()
}

/// Jain's index in thousandths: 1000 where all have the same.
fn fairness(shares: &[u64]) -> u64 {
    let sum: u64 = shares.iter().sum();
    let squares: u64 = shares.iter().map(|share| share * share).sum();
    1000 * sum * sum / (shares.len() as u64 * squares)
}

#[test]
fn flows_get_fair_shares() {
    let mut text = format!(
        "{:>8} {:>8} {:>8} {:>8} {:>8} {:>8}",
        "flows", "control", "all", "least", "most", "jain"
    );
    for pairs in [2, 5, 20] {
        for congestion in [
            CongestionName::NewReno,
            CongestionName::Cubic,
            CongestionName::Bbr,
        ] {
            let shares = shares(pairs, congestion);
            let name = format!("{congestion:?}");
            let _ = write!(
                text,
                "\n{pairs:>8} {name:>8} {:>8} {:>8} {:>8} {:>8}",
                shares.iter().sum::<u64>(),
                shares[0],
                shares[shares.len() - 1],
                fairness(&shares)
            );
        }
    }
    insta::assert_snapshot!(text);
}

#[test]
fn small_writes_wait_for_what_they_are_told_to() {
    let text = r#"
name = "small-writes"
about = "Median response time in us, by method and round-trip time."
[path]
kind = "emulated"
rate = "100mbit"
rtt = "1ms"
[workload]
kind = "write-write-read"
writes = 2
write_size = "100B"
reply = "100B"
duration = "2s"
[sweep]
"workload.method" = ["write", "writev", "msg-more", "cork", "cork-forever"]
"path.rtt" = ["1ms", "20ms", "100ms"]
"#;
    let p50 = |outcome: &Outcome| outcome.response_us.map_or(0, |response| response.p50);
    insta::assert_snapshot!(table(text, p50));
}

#[test]
fn the_same_seed_gives_the_same_outcome() {
    let text = |seed: u64| {
        format!(
            r#"
name = "seeds"
about = "Random loss."
seed = {seed}
[path]
kind = "emulated"
rate = "20mbit"
rtt = "20ms"
queue = "1bdp"
loss = "1%"
jitter = "1ms"
[workload]
kind = "bulk"
direction = "up"
duration = "1s"
"#
        )
    };
    let outcome = |seed| run(&scenario(&text(seed))).remove(0).1;
    assert_eq!(outcome(1), outcome(1));
    assert_ne!(outcome(1), outcome(2));
}

/// Every built-in scenario keeps its claims in virtual time too.
#[test]
fn builtin_scenarios_keep_their_claims() {
    for (name, _) in lab::BUILTIN_SCENARIOS {
        let scenario = lab::find_scenario(name).expect("it is listed");
        let scenario = scenario.on(EngineName::Virtual);
        let cells = scenario.trials();
        let outcomes = run(&scenario);
        for (cell, (id, outcome)) in cells.iter().zip(&outcomes) {
            assert!(outcome.is_usable(), "{id}: {:?}", outcome.caveats);
            let claims = scenario.expectations.iter();
            let claims = claims.filter(|claim| claim.applies_on(EngineName::Virtual));
            for claim in claims.filter(|claim| claim.applies_to(cell.variant.as_deref())) {
                let of = |outcome: &Outcome| Vec::from_iter(claim.metric.of(outcome));
                let over = claim.over.as_ref().map(|over| {
                    let mut pairs = cells.iter().zip(&outcomes);
                    let base = pairs.find(|(base, _)| {
                        base.variant.as_ref() == Some(over) && base.axes == cell.axes
                    });
                    of(&base.expect("a claim names a variant").1.1)
                });
                let judged = judge_claim(claim, &of(outcome), over.as_deref());
                assert_eq!(judged.verdict, Verdict::Holds, "{id}: {:?}", judged.why);
            }
        }
    }
}
