//! The built-in scenarios: what captures at both ends and between them say beside what is true, and
//! beside what the sockets say. `GALLERY_SEEDS=5` runs each with five seeds.

use core::time::Duration;
use std::collections::BTreeMap;

use doctor::{Recording, Shares, Track};
use lab::{Cell, End, LabelledFlow, PathSpec, gallery_cells};

use super::{EVERYWHERE, analysed, captured, said};
use base::Limit;

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
/// acknowledged before it writes more is like Nagle's algorithm, and random losses of BBR at its
/// one rate are, behind them, like those of a policer.
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

/// Counts of one place.
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

impl Total {
    fn count_shares(&mut self, run: &str, flows: &[LabelledFlow], recording: &Recording) {
        for flow in flows {
            let Some((wrong, shares)) = wrong(flow, recording) else {
                continue;
            };
            self.ends += 1;
            self.wrong += wrong;
            if wrong > WRONG_MAX {
                self.over += 1;
                println!("{run} {:?}: {wrong:.2} wrong: {shares}", flow.end);
            }
        }
    }

    /// An end that sends little shows little: packets may say what either of the two says.
    fn count_verdict(&mut self, run: &str, id: &str, sockets: &[&str], packets: &str) {
        self.verdicts += 1;
        self.same += usize::from(sockets.contains(&packets));
        self.unclear += usize::from(packets == "unclear");
        let named = || sockets.iter().filter(|said| **said != "unclear");
        if packets == "unclear" || named().any(|said| is_consistent(said, packets)) {
            return;
        }
        let list = match named().next() {
            _ if ALIKE_BY_PACKETS.contains(&(id, packets)) => &mut self.alike,
            Some(_) => &mut self.contradictions,
            None => &mut self.more,
        };
        list.push(format!("  {run}: sockets {sockets:?}, packets {packets}"));
    }

    fn print(&self, from: &str) {
        println!(
            "{from}: {} ends, {:.3} of the time wrong on average, {} ends over {WRONG_MAX}; \
             {} verdicts, {} as the sockets, {} unclear, {} where sockets are unclear, \
             {} alike by packets, {} contradictions",
            self.ends,
            self.wrong / self.ends as f64,
            self.over,
            self.verdicts,
            self.same,
            self.unclear,
            self.more.len(),
            self.alike.len(),
            self.contradictions.len(),
        );
        for line in [&self.more, &self.alike, &self.contradictions]
            .into_iter()
            .flatten()
        {
            println!("{line}");
        }
    }
}

#[test]
fn gallery() {
    let seeds = std::env::var("GALLERY_SEEDS").map_or(1, |seeds| seeds.parse().expect("a number"));
    let mut totals: BTreeMap<String, Total> = BTreeMap::new();
    for cell in gallery_cells() {
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
                total.count_shares(&run, &flows, &recording);
                total.count_verdict(&run, &cell.id, &sockets, said(&recording));
            }
        }
    }
    for (from, total) in &totals {
        total.print(from);
    }
    for (from, total) in &totals {
        assert!(total.wrong / total.ends as f64 <= WRONG_MAX, "{from}");
        assert!(total.contradictions.is_empty(), "{from}");
    }
}
