//! Whole transfers between two hosts.

#[expect(dead_code, reason = "other tests use the rest")]
mod common;
#[path = "transfer/embedding.rs"]
mod embedding;

use std::time::Duration;

use common::{Pair, Side, Transfer};
use link::{LinkSpec, Loss};
use tcptailor_stack::profile;

fn path(rate: &str, rtt: &str, queue: &str, loss: &str) -> LinkSpec {
    LinkSpec {
        rate: Some(rate.parse().expect("a rate")),
        delay: base::parse_duration(rtt).expect("a time") / 2,
        queue: queue.parse().expect("a queue"),
        loss: match loss {
            "0" => Loss::Never,
            loss => Loss::Random(loss.parse().expect("a share")),
        },
        ..LinkSpec::ideal()
    }
}

#[test]
fn a_megabyte_arrives_over_a_clean_path() {
    let profile = profile::linux_6_18();
    let spec = path("25mbit", "40ms", "250p", "0");
    let mut pair = Pair::new(&profile, &profile, &spec, 1);
    let (sender, receiver) = pair.connect(&profile, &profile);
    let mut transfer = Transfer::new(Side::Client, sender, receiver, 4_000_000);
    let began = pair.now;
    assert!(pair.run(Duration::from_secs(60), |pair| transfer.drive(pair)));
    assert_eq!(transfer.read, transfer.total);
    let took = pair.now.since(began);
    // Rule E1: 1.482 s on Linux.
    assert!(took < Duration::from_millis(1600), "{took:?}");
}

#[test]
fn loss_costs_time_and_no_byte() {
    let profile = profile::linux_6_18();
    let spec = path("25mbit", "40ms", "100p", "1%");
    for seed in 0..20 {
        let mut pair = Pair::new(&profile, &profile, &spec, seed);
        let (sender, receiver) = pair.connect(&profile, &profile);
        let mut transfer = Transfer::new(Side::Client, sender, receiver, 1_000_000);
        assert!(
            pair.run(Duration::from_secs(60), |pair| transfer.drive(pair)),
            "seed {seed}: {} of {} after 60 s, {:?}",
            transfer.read,
            transfer.total,
            pair.client.limit(pair.now, sender),
        );
        let counters = pair.client.connection_counters(sender);
        let repeated = counters
            .expect("a connection")
            .recovery
            .retransmitted_packets;
        assert!(repeated >= 1, "seed {seed}: 690 packets, and none was lost");
    }
}
