//! What the simulator costs per packet, for one flow and for many: a bulk transfer over 10 Gbit/s
//! and 1.58 ms, with GSO packets and with each packet by itself. Prints a table.
//!
//! `cargo bench -p tcptailor-lab --bench flows [-- FLOWS...]`; `-- count MIB` sends this much in
//! single packets of one flow, for `.ci/instructions`, and prints how many they were.

use std::sync::atomic::AtomicBool;

use base::Bytes;
use lab::{Amount, Outcome, Trial, Virtual, Workload, find_scenario};

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if let Some(at) = args.iter().position(|arg| arg == "count") {
        let mib = args.get(at + 1).and_then(|arg| arg.parse::<u64>().ok());
        let mut trial = trial(false, 1, 1000);
        let Workload::Bulk { amount, .. } = &mut trial.workload else {
            unreachable!("the scenario is a bulk transfer");
        };
        *amount = Amount::Bytes(Bytes(mib.expect("a number of MiB") << 20));
        println!("{}", run(&trial).forward.sent);
        return;
    }
    let chosen: Vec<u32> = args.iter().filter_map(|arg| arg.parse().ok()).collect();
    let flows = if chosen.is_empty() {
        vec![1, 10, 100, 1000, 10_000]
    } else {
        chosen
    };
    println!(" GSO packets  flows  data packets  Mbit/s  drops  ns/packet  Mpackets/s  MiB");
    for gso_packets in [true, false] {
        for &flows in &flows {
            row(gso_packets, flows);
        }
    }
}

/// A bulk transfer.
fn trial(gso_packets: bool, flows: u32, millis: u32) -> Trial {
    let mut scenario = find_scenario("dc-10g").expect("built in");
    let mut set = |key: &str, value: &str| scenario.set(key, value).expect("a valid setting");
    set("workload.flows", &flows.to_string());
    set("workload.duration", &format!("{millis}ms"));
    if !gso_packets {
        set("client.gso_max", "0");
    }
    scenario.trials().remove(0).trial
}

fn run(trial: &Trial) -> Outcome {
    Virtual::default().run(trial, &AtomicBool::new(false), &mut |_| ())
}

fn row(gso_packets: bool, flows: u32) {
    // Connections are opened one after the other, each in a round trip.
    let trial = trial(gso_packets, flows, 1000 + flows * 8 / 5);
    let before = cpu_nanos();
    let outcome = run(&trial);
    let nanos = cpu_nanos() - before;
    let packets = outcome.forward.sent.max(1);
    println!(
        "{gso_packets:>12}  {flows:>5}  {packets:>12}  {:>6}  {:>5}  {:>9}  {:>10.2}  {:>3}",
        outcome.goodput_bps / 1_000_000,
        outcome.forward.queue_dropped_segments,
        nanos / packets,
        1e3 * packets as f64 / nanos as f64,
        peak_bytes() >> 20,
    );
}

/// CPU time of this process: other work on the machine does not count.
fn cpu_nanos() -> u64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").expect("a Linux kernel");
    let first = text.split_whitespace().next().expect("three numbers");
    first.parse().expect("nanoseconds")
}

/// Most memory that the process ever had.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a Linux kernel");
    let line = status.lines().find(|line| line.starts_with("VmHWM"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}
