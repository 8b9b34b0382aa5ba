//! Changes that do nothing for the traffic at hand.

use std::time::Duration;

use base::{Bytes, Live};
use doctor::{Objective, Proposal, Side};

use super::{Draw, ENDLESS, KnownChange, bulk, bursts, propose, requests};
use crate::trial::PathSpec;
use crate::workload::{Records, SizeRange, Workload};

/// The useless change number `number` of a seed; numbers cycle through all kinds of traffic, scopes
/// and designs.
#[must_use]
pub fn useless(seed: u64, number: usize) -> KnownChange {
    use Live::{Now, Reconnect};
    use Objective::{Goodput, Response, Rtt, Tail, Transfer};
    use Side::{Local, Remote};
    let draw = &mut Draw::new(seed, number, "useless");
    // Nagle waits for ACKs of small segments: neither a bulk transfer nor one request at a time has
    // several of them. Slow start, windows and buffers do not matter for what fits into a segment.
    let knobs = |knob, value, live, side| vec![propose(side, knob, value, live)];
    match number / 3 % 12 {
        0 => draw.of_requests(Response, knobs("nodelay", "on", Now, Local)),
        1 => draw.of_requests(Tail, knobs("route.initcwnd", "20", Reconnect, Local)),
        2 => draw.of_requests(Response, knobs("sndbuf", "256KiB", Now, Local)),
        3 => {
            let knob = "net.ipv4.tcp_slow_start_after_idle";
            draw.of_requests(Response, knobs(knob, "off", Now, Local))
        }
        4 => draw.of_requests(
            Response,
            knobs(
                "net.ipv4.tcp_rmem",
                "4096 131072 16777216",
                Reconnect,
                Remote,
            ),
        ),
        5 => draw.of_bulk(Goodput, knobs("nodelay", "on", Now, Local)),
        6 => {
            let knob = "net.ipv4.tcp_slow_start_after_idle";
            draw.of_bulk(Goodput, knobs(knob, "off", Now, Local))
        }
        7 => draw.of_bulk(Rtt, knobs("notsent_lowat", "1MB", Now, Local)),
        8 => draw.of_bulk(
            Goodput,
            knobs("net.ipv4.tcp_mtu_probing", "1", Reconnect, Local),
        ),
        9 => draw.of_records(Goodput, knobs("nodelay", "on", Now, Local)),
        10 => draw.of_records(Goodput, knobs("route.initcwnd", "40", Reconnect, Local)),
        _ => draw.of_bursts(Transfer, knobs("nodelay", "on", Now, Local)),
    }
}

impl Draw {
    fn of_requests(&mut self, objective: Objective, proposals: Vec<Proposal>) -> KnownChange {
        let rtt = self.millis(2, 30);
        let kbps = self.between(1000, 8000);
        let path = self.path(kbps, rtt, Duration::from_millis(300));
        let response = self.between(100, 1200);
        let name = named("requests", &proposals);
        self.known(&name, path, requests(100, response), objective, proposals)
    }

    fn of_bulk(&mut self, objective: Objective, proposals: Vec<Proposal>) -> KnownChange {
        let rtt = self.millis(5, 40);
        let kbps = self.between(1500, 5000);
        let path = self.path(kbps, rtt, Duration::from_millis(80));
        let name = named("bulk", &proposals);
        self.known(&name, path, bulk(), objective, proposals)
    }

    /// The program's own load varies, on a path that carries all of it.
    fn of_records(&mut self, objective: Objective, proposals: Vec<Proposal>) -> KnownChange {
        let rtt = self.millis(5, 40);
        let per_second = self.between(40, 160);
        let steps = self.traffic.steps(&mut self.rng);
        let rate = |share: u64| u32::try_from(per_second * share / 1000).unwrap_or(1).max(1);
        let workload = Workload::Records(Records {
            record: SizeRange {
                min: Bytes(200),
                max: Bytes(1400),
            },
            seed: self.rng.next_u64(),
            per_second: u32::try_from(per_second).ok(),
            rates: steps.iter().map(|(t, share)| (*t, rate(*share))).collect(),
            ..Records::new(Bytes(1400), ENDLESS)
        });
        let mut path = self.path(20_000, rtt, Duration::from_millis(100));
        if let PathSpec::Emulated {
            forward, reverse, ..
        } = &mut path
        {
            forward.rate_trace.clear();
            reverse.rate_trace.clear();
        }
        let name = named("records", &proposals);
        self.known(&name, path, workload, objective, proposals)
    }

    fn of_bursts(&mut self, objective: Objective, proposals: Vec<Proposal>) -> KnownChange {
        let rtt = self.millis(5, 40);
        let kbps = self.between(2000, 8000);
        let path = self.path(kbps, rtt, Duration::from_millis(300));
        let idle = self.millis(250, 600);
        let name = named("bursts", &proposals);
        self.known(
            &name,
            path,
            bursts(40_000, idle, false),
            objective,
            proposals,
        )
    }
}

pub(super) fn named(workload: &str, proposals: &[Proposal]) -> String {
    let knobs: Vec<String> = proposals
        .iter()
        .map(|proposal| {
            format!(
                "{} = {}",
                proposal.knob.name,
                proposal.knob.format(&proposal.to)
            )
        })
        .collect();
    format!("{workload}, {}", knobs.join(", "))
}
