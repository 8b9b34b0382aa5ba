//! Chooses the connections to judge at the end of a window.
//!
//! Looks at all connections are summed up ten times a second, which is cheap: rates, and what holds
//! them. To judge one, all its looks are unpacked and read many times. Where there are many, that
//! is done of those that are on the screen, that are new, or whose counters tell of something else
//! than when they were judged last; of the others, which go on as they did, in each sixth window,
//! a sixth of them in each. In between their last answer stands, and few looks at them are kept.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base::{CongestionState, FlowSample, KernelName, Netns, TcpState};
use doctor::{Recording, Track};
use linux::Filter;
use tailor::Observed;

use crate::commands::diagnose::document::{Document, FlowRow};
use crate::commands::diagnose::seen;
use crate::commands::top::WHOLE_WINDOW;

/// Up to this many all are judged each time: that costs little.
const ALL_JUDGED_UP_TO: usize = 200;
/// A steady connection is judged once in this many windows.
const WINDOWS_EACH: u64 = 6;
/// A share of the time that has changed by more says something else.
const SHARE_CHANGED: f64 = 0.1;

/// The doctor's answers for the connections of a namespace, from window to window.
#[derive(Debug, Default)]
pub(super) struct Judge {
    /// Latest answers on many connections.
    known: BTreeMap<u64, Known>,
    surroundings: Surroundings,
    windows: u64,
}

/// Answer on a connection.
#[derive(Debug)]
struct Known {
    row: FlowRow,
    mark: Mark,
    /// All looks of a whole window were there.
    is_whole: bool,
}

/// Circumstances on which verdicts depend, beside the connection.
#[derive(Debug, Default, PartialEq)]
struct Surroundings {
    sysctls: BTreeMap<String, String>,
    /// Interfaces that drop packets.
    dropping: Vec<String>,
    host: Vec<&'static str>,
}

impl Judge {
    /// Whether the answer for a connection is to stand after the next window, too, if it goes on as
    /// it did.
    pub(super) fn rests(&self, cookie: u64, shown: &BTreeSet<u64>) -> bool {
        let known = self.known.get(&cookie);
        known.is_some_and(|known| known.is_whole)
            && !is_due(cookie, self.windows + 1)
            && !shown.contains(&cookie)
    }

    /// The answer for a window, in which these connections were on the screen.
    pub(super) fn judge(
        &mut self,
        recording: &Recording,
        netns: &Netns,
        filter: &Filter,
        shown: &BTreeSet<u64>,
    ) -> Document {
        let observed = Observed::new(recording, netns);
        let cases = observed
            .cases()
            .select(|track| seen::selects(filter, track));
        let are_many = cases.len() > ALL_JUDGED_UP_TO;
        let surroundings = Surroundings::of(recording, &observed);
        let may_stand = surroundings == self.surroundings;
        let is_whole = recording.ended.since(recording.began) >= WHOLE_WINDOW;
        let mut known = BTreeMap::new();
        let mut rows = Vec::with_capacity(cases.len());
        for case in cases {
            let (track, connections) = (case.track(), case.connections());
            let cookie = track.cookie;
            let is_lasting = connections == 1 && !track.ended;
            let mark = Mark::of(track).filter(|_| are_many && is_lasting);
            let Some(mark) = mark else {
                rows.push(seen::row(&observed, &observed.answer(case)));
                continue;
            };
            let rested = self.rests(cookie, &BTreeSet::new());
            let stands = |before: &Known| may_stand && before.mark.is_like(&mark);
            let before = self.known.remove(&cookie);
            let before = before.filter(|_| rested && !shown.contains(&cookie));
            let now = before.filter(stands).unwrap_or_else(|| Known {
                row: seen::row(&observed, &observed.answer(case)),
                mark,
                is_whole: is_whole && !rested,
            });
            rows.push(now.row.clone());
            known.insert(cookie, now);
        }
        (self.known, self.surroundings) = (known, surroundings);
        self.windows += 1;
        seen::document_of(recording, &observed, rows)
    }
}

/// Whether a connection is judged after this window whatever it does.
fn is_due(cookie: u64, window: u64) -> bool {
    let turn = (cookie.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32).wrapping_add(window);
    turn.is_multiple_of(WINDOWS_EACH)
}

impl Surroundings {
    fn of(recording: &Recording, observed: &Observed<'_>) -> Self {
        let host = observed.cases().host();
        let dropping = host.link_drops().into_iter();
        let dropping = dropping.filter(|link| link.dropped_pkts() > 0);
        let verdicts = doctor::diagnose_host(host);
        Self {
            sysctls: recording
                .hosts
                .last()
                .map_or_else(BTreeMap::new, |host| host.sysctls.clone()),
            dropping: dropping.map(|link| link.name).collect(),
            host: verdicts
                .iter()
                .map(|verdict| verdict.diagnosis.id)
                .collect(),
        }
    }
}

/// First and last look of a window at a connection: shows whether it continues as before, without
/// the looks between them.
#[derive(Clone, Debug)]
struct Mark {
    traits: Traits,
    /// Shares of time.
    shares: [Option<f64>; 3],
    amounts: [f64; AMOUNTS],
}

/// Properties of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Traits {
    state: Option<TcpState>,
    is_open: bool,
    congestion: Option<KernelName>,
    upper: Option<KernelName>,
    timeouts: bool,
    retransmissions: bool,
    out_of_order: bool,
    needless: bool,
    marks: bool,
    has_owner: bool,
}

const AMOUNTS: usize = 12;

impl Mark {
    fn of(track: &Track) -> Option<Self> {
        let (first, last) = (track.samples.first()?, track.samples.last()?);
        let time_s = last.at.since(first.at).as_secs_f64();
        if time_s <= 0.0 {
            return None;
        }
        let counted = |read: fn(&FlowSample) -> Option<u64>| {
            let both = read(first).zip(read(last));
            both.map(|(old, new)| new.saturating_sub(old))
        };
        let per_second = |read| counted(read).unwrap_or(0) as f64 / time_s;
        let grew = |read| counted(read) > Some(0);
        let share = |read: fn(&FlowSample) -> Option<Duration>| {
            let spent = read(last)?.checked_sub(read(first)?)?;
            Some(spent.as_secs_f64() / time_s)
        };
        let bytes = |read: fn(&FlowSample) -> Option<u32>| f64::from(read(last).unwrap_or(0));
        let millis = |time: Option<Duration>| time.unwrap_or_default().as_secs_f64() * 1e3;
        // Each with enough that more or less of it has no meaning.
        let amounts = [
            per_second(|s| s.bytes_acked) + 1e3,
            per_second(|s| s.bytes_received) + 1e3,
            per_second(|s| s.data_segs_out) + 2.0,
            per_second(|s| s.data_segs_in) + 2.0,
            per_second(|s| s.retrans_total_pkts) + 0.5,
            millis(last.srtt) + 5.0,
            millis(last.min_rtt) + 0.5,
            bytes(|s| s.cwnd_pkts) + 8.0,
            bytes(|s| s.snd_wnd_bytes) + 8e3,
            bytes(|s| s.notsent_bytes) + 16e3,
            bytes(|s| s.unread_bytes) + 16e3,
            bytes(|s| s.sndbuf_bytes) + bytes(|s| s.rcvbuf_bytes),
        ];
        Some(Self {
            traits: Traits {
                state: last.state,
                is_open: last.congestion_state == Some(CongestionState::Open),
                congestion: last.congestion,
                upper: last.upper,
                timeouts: last.timeouts > Some(0) || grew(|s| s.rto_total),
                retransmissions: grew(|s| s.retrans_total_pkts),
                out_of_order: grew(|s| s.out_of_order_pkts) || grew(|s| s.reord_seen),
                needless: grew(|s| s.dsack_dups),
                marks: grew(|s| s.delivered_ce_pkts),
                has_owner: !track.owners.is_empty(),
            },
            shares: [
                share(|s| s.busy_time),
                share(|s| s.rwnd_limited_time),
                share(|s| s.sndbuf_limited_time),
            ],
            amounts,
        })
    }

    /// Whether this tells of the same.
    fn is_like(&self, other: &Self) -> bool {
        let near = |(a, b): (&Option<f64>, &Option<f64>)| match (a, b) {
            (Some(a), Some(b)) => (a - b).abs() <= SHARE_CHANGED,
            (a, b) => a.is_none() && b.is_none(),
        };
        let alike = |(a, b): (&f64, &f64)| a.max(*b) <= 1.5 * a.min(*b);
        self.traits == other.traits
            && self.shares.iter().zip(&other.shares).all(near)
            && self.amounts.iter().zip(&other.amounts).all(alike)
    }
}

#[cfg(test)]
mod tests;
