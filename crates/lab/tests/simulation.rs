//! What the simulator gives, as small tables of integers: a change of behaviour is a change of a
//! table.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::AtomicBool;

use lab::{Outcome, Scenario, Virtual};

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
    let mut line = |text: &mut String, first: &str, rest: &[String]| {
        if !first.is_empty() {
            let _ = write!(text, "\n{first:>12}");
        }
        rest.iter()
            .for_each(|word| drop(write!(text, " {word:>9}")));
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

/// Every built-in scenario keeps its claims in virtual time too, where it does not ask for a gigabit
/// and more: those are for release builds.
#[test]
fn builtin_scenarios_keep_their_claims() {
    for (name, _) in lab::BUILTIN_SCENARIOS {
        let scenario = lab::find_scenario(name).expect("it is listed");
        if cfg!(debug_assertions) && name.contains("10g") {
            continue;
        }
        for (cell, (id, outcome)) in scenario.trials().iter().zip(run(&scenario)) {
            assert!(outcome.is_usable(), "{id}: {:?}", outcome.caveats);
            let claims = scenario.expectations.iter();
            for claim in claims.filter(|claim| claim.applies_to(cell.variant.as_deref())) {
                let held = claim.check_value(claim.metric.of(&outcome));
                assert_eq!(held, Ok(()), "{id}");
            }
        }
    }
}
