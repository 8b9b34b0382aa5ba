//! How far what a capture says agrees with what is true, or with what the sockets say.

use base::{FlowKey, Limit};
use doctor::{Cases, Recording, Report, Shares};

/// Less payload does not show a limit.
pub(crate) const PAYLOAD_BYTES_MIN: u64 = 20_000;

/// Share of the time that may be attributed to the wrong limit.
pub(crate) const WRONG_MAX: f64 = 0.1;

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

fn report(recording: &Recording) -> Report {
    let cases = Cases::of(recording);
    let cases = cases.select(|_| true);
    let largest = cases.iter().max_by_key(|case| {
        let (sent, received) = case.payload_bytes();
        sent + received
    });
    largest.expect("a connection").diagnose()
}

/// The main verdict, or `unclear`.
pub(crate) fn said(recording: &Recording) -> &'static str {
    let report = report(recording);
    report.main().map_or("unclear", |main| main.diagnosis.id)
}

/// The shares of the end that has this key, in the longest of its connections.
pub(crate) fn shares_of(recording: &Recording, key: FlowKey) -> Option<Shares> {
    let tracks = recording.flows.iter();
    let track = tracks
        .filter(|track| track.key == key)
        .max_by_key(|track| track.samples.len())?;
    let samples: Vec<_> = track.samples.iter().collect();
    Shares::of_samples(samples.iter().map(|sample| &**sample))
}

/// Counts of one place.
#[derive(Default)]
pub(crate) struct Total {
    ends: usize,
    wrong: f64,
    over: usize,
    verdicts: usize,
    same: usize,
    unclear: usize,
    /// Named where the sockets are unclear.
    more: Vec<String>,
    alike: Vec<String>,
    pub(crate) contradictions: Vec<String>,
}

impl Total {
    /// Counts the share of the time that is attributed to a limit which packets can tell from the
    /// true one.
    pub(crate) fn count_shares(&mut self, end: &str, truth: impl Fn(Limit) -> f64, said: &Shares) {
        let shares = ALIKE.map(|alike| {
            let truth: f64 = alike.iter().map(|&limit| truth(limit)).sum();
            let said: f64 = alike.iter().map(|&limit| said.get(limit)).sum();
            (alike[0], truth, said)
        });
        let over = shares
            .iter()
            .map(|(_, truth, said)| (said - truth).max(0.0));
        let wrong: f64 = over.sum();
        self.ends += 1;
        self.wrong += wrong;
        if wrong > WRONG_MAX {
            self.over += 1;
            println!("{end}: {wrong:.2} wrong: {shares:.2?}");
        }
    }

    /// An end that sends little shows little: packets may say what either of the two says.
    pub(crate) fn count_verdict(&mut self, run: &str, id: &str, sockets: &[&str], packets: &str) {
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

    pub(crate) fn wrong_mean(&self) -> f64 {
        self.wrong / self.ends.max(1) as f64
    }

    pub(crate) fn print(&self, from: &str) {
        println!(
            "{from}: {} ends, {:.3} of the time wrong on average, {} ends over {WRONG_MAX}; \
             {} verdicts, {} as the sockets, {} unclear, {} where sockets are unclear, \
             {} alike by packets, {} contradictions",
            self.ends,
            self.wrong_mean(),
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
