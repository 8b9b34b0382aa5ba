//! The built-in scenarios with five seeds each, which no rule was fitted to: what captures at both
//! ends and between them say beside what is true, and beside what the sockets say.
//!
//! docs/ci.md tells how to run it; it prints a line for each connection end that is judged wrong,
//! and the totals.

use core::time::Duration;
use std::collections::BTreeMap;

use doctor::{Recording, Shares, Track};
use lab::{Cell, End, LabelledFlow, PathSpec, gallery_cells};

use super::{EVERYWHERE, analysed, captured, said};
use base::Limit;

const SEEDS: u32 = 5;

/// Of one direction of a fast path, no more payload than this is kept in memory.
const PAYLOAD_BYTES_MAX: f64 = 40e6;

/// Less payload says nothing of a limit.
const PAYLOAD_BYTES_MIN: u64 = 20_000;

/// Share of the time that may be attributed to the wrong limit.
const WRONG_MAX: f64 = 0.1;

/// Limits that packets show as one: what a sender holds back until an ACK comes, for whatever
/// reason of its own, and what it has not begun to send.
const ALIKE: [&[Limit]; 5] = [
    &[Limit::Application, Limit::Handshake],
    &[Limit::Nagle],
    &[Limit::Cork],
    &[Limit::PeerWindow],
    &[
        Limit::Congestion,
        Limit::Recovery,
        Limit::SendBuffer,
        Limit::UnackedBudget,
        Limit::Pacing,
        Limit::BufferPool,
        Limit::Interface,
    ],
];

/// What packets may say where sockets say the first: the same, or what is consistent with it.
const CONSISTENT: &[(&str, &[&str])] = &[
    ("rcvbuf-locked", &["peer-window"]),
    ("rmem-autotuning-off", &["peer-window"]),
    ("tcp-rmem-max-cap", &["peer-window"]),
    ("bufferbloat", &["path-full"]),
    ("slow-start-after-idle", &["app-limited"]),
];

/// Where packets look like something else: a program that asks its socket whether all is
/// acknowledged before it writes more is like Nagle's algorithm, and BBR that loses at random at
/// its one rate is, behind the losses, like one that a policer drops.
const ALIKE_BY_PACKETS: &[(&str, &str)] = &[
    ("records/acknowledged", "nagle-delack-stall"),
    ("lossy-wan/bbr", "policed"),
];

/// Whether what packets show does not contradict what sockets show.
fn is_consistent(sockets: &str, packets: &str) -> bool {
    let named = CONSISTENT.iter().find(|(id, _)| *id == sockets);
    packets == sockets || named.is_some_and(|(_, others)| others.contains(&packets))
}

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

/// Share of the time that is attributed to a limit that packets can tell from the true one.
fn wrong(flow: &LabelledFlow, recording: &Recording) -> Option<(f64, String)> {
    let last = flow.samples.last()?;
    let all: Duration = flow.truth.values().sum();
    if last.bytes_sent.unwrap_or(0) < PAYLOAD_BYTES_MIN || all.is_zero() {
        return None;
    }
    let tracks = recording.flows.iter();
    let track = tracks
        .filter(|track| track.key == last.key)
        .max_by_key(|track| track.samples.len())?;
    let samples: Vec<_> = track.samples.iter().collect();
    let said = Shares::of_samples(samples.iter().map(|sample| &**sample))?;
    let shares = ALIKE.map(|alike| {
        let truth: Duration = alike.iter().filter_map(|limit| flow.truth.get(limit)).sum();
        let said: f64 = alike.iter().map(|&limit| said.get(limit)).sum();
        (alike[0], truth.as_secs_f64() / all.as_secs_f64(), said)
    });
    let over = shares
        .iter()
        .map(|(_, truth, said)| (said - truth).max(0.0));
    Some((over.sum(), format!("{shares:.2?}")))
}

#[derive(Default)]
struct Total {
    ends: usize,
    wrong: f64,
    over: usize,
    verdicts: usize,
    same: usize,
    unclear: usize,
    /// Named where the sockets are unclear.
    more: Vec<String>,
    alike: Vec<String>,
    contradictions: Vec<String>,
}

#[test]
#[ignore = "takes minutes; docs/ci.md"]
fn gallery() {
    let mut totals: BTreeMap<String, Total> = BTreeMap::new();
    for cell in gallery_cells() {
        for run in 0..SEEDS {
            let (flows, packets) = captured(&cell.run(run), time(&cell));
            for from in EVERYWHERE {
                let (recording, _) = analysed(&packets, from);
                if recording.flows.is_empty() {
                    continue;
                }
                let total = totals.entry(format!("{from:?}")).or_default();
                for flow in &flows {
                    let Some((wrong, shares)) = wrong(flow, &recording) else {
                        continue;
                    };
                    total.ends += 1;
                    total.wrong += wrong;
                    if wrong > WRONG_MAX {
                        total.over += 1;
                        let (id, end) = (&cell.id, flow.end);
                        println!("{id} seed {run} {from:?} {end:?}: {wrong:.2} wrong: {shares}");
                    }
                }
                // What both ends know together: an end that sends little tells little.
                let packets = said(&recording);
                let sockets: Vec<&str> = [End::Client, End::Server]
                    .map(|end| of_sockets(&flows, end, &recording))
                    .iter()
                    .filter(|sockets| !sockets.flows.is_empty())
                    .map(said)
                    .collect();
                total.verdicts += 1;
                total.same += usize::from(sockets.contains(&packets));
                total.unclear += usize::from(packets == "unclear");
                let named = || sockets.iter().copied().filter(|said| *said != "unclear");
                if packets == "unclear" || named().any(|said| is_consistent(said, packets)) {
                    continue;
                }
                let line = format!(
                    "{} seed {run}: sockets {sockets:?}, packets {packets}",
                    cell.id
                );
                if ALIKE_BY_PACKETS.contains(&(cell.id.as_str(), packets)) {
                    total.alike.push(line);
                } else if named().next().is_some() {
                    total.contradictions.push(line);
                } else {
                    total.more.push(line);
                }
            }
        }
    }
    let mut contradictions = 0;
    for (from, total) in &totals {
        println!(
            "{from}: {} ends, {:.3} of the time wrong on average, {} ends over {WRONG_MAX}; \
             {} verdicts, {} as the sockets, {} unclear, {} where sockets are unclear, \
             {} alike by packets, {} contradictions",
            total.ends,
            total.wrong / total.ends as f64,
            total.over,
            total.verdicts,
            total.same,
            total.unclear,
            total.more.len(),
            total.alike.len(),
            total.contradictions.len(),
        );
        for line in total
            .more
            .iter()
            .chain(&total.alike)
            .chain(&total.contradictions)
        {
            println!("  {line}");
        }
        contradictions += total.contradictions.len();
        assert!(total.wrong / total.ends as f64 <= WRONG_MAX, "{from}");
    }
    assert_eq!(contradictions, 0);
}
