//! The built-in scenarios: what captures at both ends and between them say beside what is true, and
//! beside what the sockets say. `GALLERY_SEEDS=5` runs each with five seeds.

use core::time::Duration;
use std::collections::BTreeMap;

use doctor::{Recording, Shares, Track};
use lab::{Cell, End, EngineName, LabelledFlow, PathSpec, gallery_cells};

use super::agreement::{PAYLOAD_BYTES_MIN, Total, WRONG_MAX, said, shares_of};
use super::{EVERYWHERE, analysed, captured};
use base::Limit;

/// Of one direction of a fast path, no more payload than this is kept in memory.
const PAYLOAD_BYTES_MAX: f64 = 40e6;

fn time(cell: &Cell) -> Duration {
    let rate = match &cell.trial.path {
        PathSpec::Emulated {
            forward, reverse, ..
        } => forward.rate.max(reverse.rate),
        PathSpec::Loopback | PathSpec::Veth { .. } => None,
    };
    let rate_bps = rate.map_or(50e9, |rate| rate.bits_per_second() as f64);
    Duration::from_secs_f64((PAYLOAD_BYTES_MAX * 8.0 / rate_bps).min(8.0))
}

/// What the sockets of one end show, over the time of `recording`.
fn of_sockets(flows: &[LabelledFlow], end: End, recording: &Recording) -> Recording {
    let tracks = flows
        .iter()
        .filter(|flow| flow.end == end)
        .map(|flow| Track {
            key: flow.samples[0].key,
            cookie: 0,
            owners: Vec::new(),
            samples: flow.samples.iter().cloned().collect(),
            ended: false,
            interface: None,
            options_error: None,
        });
    Recording {
        flows: tracks.collect(),
        ..recording.clone()
    }
}

/// What is true of each limit, and what packets say.
fn shares(flow: &LabelledFlow, recording: &Recording) -> Option<(impl Fn(Limit) -> f64, Shares)> {
    let last = flow.samples.last()?;
    let all: Duration = flow.truth.values().sum();
    if last.bytes_sent.unwrap_or(0) < PAYLOAD_BYTES_MIN || all.is_zero() {
        return None;
    }
    let truth = move |limit| {
        let held = flow.truth.get(&limit).copied().unwrap_or_default();
        held.as_secs_f64() / all.as_secs_f64()
    };
    Some((truth, shares_of(recording, last.key)?))
}

#[test]
fn gallery() {
    let seeds = std::env::var("GALLERY_SEEDS").map_or(1, |seeds| seeds.parse().expect("a number"));
    let mut totals: BTreeMap<String, Total> = BTreeMap::new();
    for cell in gallery_cells(EngineName::Virtual) {
        for seed in 0..seeds {
            let (flows, packets) = captured(&cell.run(seed), time(&cell));
            for from in EVERYWHERE {
                let (recording, _) = analysed(&packets, from);
                if recording.flows.is_empty() {
                    continue;
                }
                let sockets: Vec<&str> = [End::Client, End::Server]
                    .map(|end| of_sockets(&flows, end, &recording))
                    .iter()
                    .filter(|sockets| !sockets.flows.is_empty())
                    .map(said)
                    .collect();
                let run = format!("{} seed {seed} {from:?}", cell.id);
                let total = totals.entry(format!("{from:?}")).or_default();
                for flow in &flows {
                    if let Some((truth, said)) = shares(flow, &recording) {
                        total.count_shares(&format!("{run} {:?}", flow.end), truth, &said);
                    }
                }
                total.count_verdict(&run, &cell.id, &sockets, said(&recording));
            }
        }
    }
    for (from, total) in &totals {
        total.print(from);
    }
    for (from, total) in &totals {
        assert!(total.wrong_mean() <= WRONG_MAX, "{from}");
        assert!(total.contradictions.is_empty(), "{from}");
    }
}
