//! What the simulator costs per packet, for one flow and for many: a bulk transfer over 10 Gbit/s
//! and 1.58 ms, with superpackets and with each packet by itself. Prints a table.
//!
//! `cargo bench -p tcptailor-lab --bench flows [-- FLOWS...]`

use std::sync::atomic::AtomicBool;

use lab::{Virtual, find_scenario};

fn main() {
    let chosen: Vec<u32> = std::env::args()
        .filter_map(|arg| arg.parse().ok())
        .collect();
    let flows = if chosen.is_empty() {
        vec![1, 10, 100, 1000, 10_000]
    } else {
        chosen
    };
    println!("superpackets  flows  data packets  Mbit/s  drops  ns/packet  Mpackets/s  MiB");
    for superpackets in [true, false] {
        for &flows in &flows {
            row(superpackets, flows);
        }
    }
}

fn row(superpackets: bool, flows: u32) {
    let mut scenario = find_scenario("dc-10g").expect("built in");
    let mut set = |key: &str, value: &str| scenario.set(key, value).expect("a valid setting");
    set("workload.flows", &flows.to_string());
    // Connections are opened one after the other, each in a round trip.
    set("workload.duration", &format!("{}ms", 1000 + flows * 8 / 5));
    if !superpackets {
        set("client.gso_max", "0");
    }
    let cell = scenario.trials().remove(0);
    let before = cpu_nanos();
    let outcome = Virtual::default().run(&cell.trial, &AtomicBool::new(false), &mut |_| ());
    let nanos = cpu_nanos() - before;
    let packets = outcome.forward.sent.max(1);
    println!(
        "{superpackets:>12}  {flows:>5}  {packets:>12}  {:>6}  {:>5}  {:>9}  {:>10.2}  {:>3}",
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
