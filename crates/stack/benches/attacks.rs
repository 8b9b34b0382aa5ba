//! What each attack of the tests costs: memory as the allocator counts it and as the process has
//! it, and the time for a byte there and back between an honest peer and its program, alone and
//! behind a batch of 64 packets of the attackers.
//!
//! `cargo bench -p tcptailor-stack --bench attacks [-- PROFILE]` prints a table. Each row is a
//! process of its own; both round trips are measured by turns. The time is that of the host and of
//! the program without a network, and of an allocator that counts.

#[path = "../tests/by_hand/attacks.rs"]
#[expect(dead_code, reason = "the tests by hand use the rest")]
mod attacks;
#[path = "../tests/by_hand/bounds.rs"]
mod bounds;
#[path = "../tests/by_hand/cost.rs"]
#[expect(dead_code, reason = "the test of memory uses the rest")]
mod cost;
#[path = "../tests/by_hand/crowd.rs"]
mod crowd;
#[path = "../tests/by_hand/crowds.rs"]
#[expect(dead_code, reason = "the test of memory uses the rest")]
mod crowds;
#[path = "../tests/by_hand/hand.rs"]
#[expect(dead_code, reason = "the tests by hand use the rest")]
mod hand;
#[path = "../tests/by_hand/honest.rs"]
mod honest;

use std::process::Command;
use std::sync::OnceLock;

use criterion::measurement::{Measurement, WallTime};
use tcptailor_stack::profile;

use attacks::{ATTACKS, Scene, scenes};
use cost::Cost;
use crowds::CROWDS;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["row", index, name] => row(index.parse().expect("a number"), name),
        _ => table(args.first().filter(|name| !name.starts_with('-'))),
    }
}

fn table(name: Option<&&str>) {
    let name = name.unwrap_or(&"linux_6_18");
    println!("{name}; KiB; microseconds, median and p99\n");
    println!(
        "| attack | packets | peak memory | bound | left after | process | alone | under attack |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|");
    let own = std::env::current_exe().expect("this program has a path");
    for index in 0..ATTACKS.len() + CROWDS.len() {
        let done = Command::new(&own)
            .args(["row", &index.to_string(), name])
            .status();
        assert!(done.is_ok_and(|status| status.success()), "row {index}");
    }
}

/// One attack, in this process.
fn row(index: usize, name: &str) {
    let before = of_process("VmRSS");
    let (attack, mut cost) = run(index, name);
    let grown = of_process("VmHWM").saturating_sub(before);
    let alone = times(cost.honest.alone_times());
    let attacked = times(&mut cost.honest.times);
    println!(
        "| {attack} | {} | {} | {} | {} | {} | {alone} | {attacked} |",
        cost.packets,
        cost.peak >> 10,
        cost.bound >> 10,
        cost.left >> 10,
        grown,
    );
}

fn run(index: usize, name: &str) -> (&'static str, Cost) {
    if let Some((attack, bound, run)) = ATTACKS.get(index) {
        let (profile, options) = scenes()
            .into_iter()
            .find(|(profile, _)| profile.name == name)
            .expect("a profile that is attacked");
        let scene = Scene::new(&profile, options);
        (attack, cost::of_one((bound, *run), &profile, scene, clock))
    } else {
        let crowd = &CROWDS[index - ATTACKS.len()];
        let profile = profile::find(name).expect("a profile");
        (crowd.name, cost::of_crowd(crowd, profile, clock))
    }
}

/// Nanoseconds since the first call.
fn clock() -> u64 {
    static START: OnceLock<<WallTime as Measurement>::Intermediate> = OnceLock::new();
    let start = START.get_or_init(|| WallTime.start());
    WallTime.end(*start).as_nanos() as u64
}

/// Median and 99th percentile in microseconds.
fn times(nanos: &mut [u64]) -> String {
    nanos.sort_unstable();
    let at = |share: usize| nanos.get(nanos.len() * share / 100).copied();
    match (at(50), at(99)) {
        (Some(median), Some(p99)) => {
            format!("{:.1}, {:.1}", median as f64 / 1e3, p99 as f64 / 1e3)
        }
        _ => "-".to_owned(),
    }
}

/// A line of the kernel's account of this process, in KiB.
fn of_process(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a Linux kernel");
    let line = status.lines().find(|line| line.starts_with(field));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
    kib.expect("a number of KiB")
}
