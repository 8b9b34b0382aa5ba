//! From what was recorded to the answer: the doctor's cases, with the places at which changes can
//! be made.

use base::{FlowKey, Netns};
use doctor::{Case, Cases, Recording, Track, Verdict};
use linux::Filter;

use super::document::{Document, FlowRow, HostRow, VerdictRow};
use crate::targets::{End, Ends};

/// Asks the doctor about each connection that the filter selects.
pub(crate) fn diagnose(recording: &Recording, netns: &Netns, filter: &Filter) -> Document {
    let seen = Seen::new(recording, netns);
    let flows = seen.rows(filter);
    let host = seen.host_rows();
    Document {
        duration_s: recording.ended.since(recording.began).as_secs_f64(),
        interrupted: recording.stopped && !recording.process_ended,
        process_ended: recording.process_ended,
        findings: flows.iter().filter(|flow| flow.has_finding()).count() + host.len(),
        host,
        unseen_processes: recording.unseen_processes,
        flows_left_out: recording.flows_left_out,
        netns_left_out: 0,
        flows,
    }
}

/// Puts the most important first.
pub(crate) fn sort(flows: &mut [FlowRow]) {
    flows.sort_by(|a, b| {
        rank(b)
            .total_cmp(&rank(a))
            .then(b.rate_bps.cmp(&a.rate_bps))
    });
}

/// Findings first, then flows that do something; within them by share.
fn rank(flow: &FlowRow) -> f64 {
    let share = flow.main().map_or(0.0, |verdict| verdict.share);
    match flow.main() {
        Some(verdict) if verdict.finding => 30.0 + share,
        _ if flow.has_finding() => 20.0 + share,
        _ if flow.idle => share,
        _ => 10.0 + share,
    }
}

/// The cases of one namespace, and of another one that was recorded at the same time.
pub(crate) struct Seen<'r> {
    netns: &'r Netns,
    cases: Cases<'r>,
    elsewhere: Option<&'r Netns>,
}

impl<'r> Seen<'r> {
    pub(crate) fn new(recording: &'r Recording, netns: &'r Netns) -> Self {
        Self {
            netns,
            cases: Cases::of(recording),
            elsewhere: None,
        }
    }

    /// The same flows, whose other ends are in `elsewhere`.
    pub(crate) fn with_other_ends(mut self, elsewhere: &'r Self) -> Self {
        self.elsewhere = Some(elsewhere.netns);
        self.cases = self.cases.with_other_ends(&elsewhere.cases);
        self
    }

    /// The doctor's answers for the flows that the filter selects, the most important first.
    pub(crate) fn rows(&self, filter: &Filter) -> Vec<FlowRow> {
        let matches = |track: &Track| {
            let last = track.samples.last();
            last.is_some_and(|sample| filter.matches(sample, &track.owners))
        };
        let cases = self.cases.select(matches);
        let mut flows: Vec<FlowRow> = cases.iter().map(|case| self.row(case)).collect();
        sort(&mut flows);
        flows
    }

    /// What is wrong with the host as a whole. No change follows from here.
    fn host_rows(&self) -> Vec<HostRow> {
        let row = |verdict: &Verdict| HostRow {
            netns: self.netns.clone(),
            container: None,
            verdict: VerdictRow::of_host(verdict),
        };
        let verdicts = doctor::diagnose_host(self.cases.host());
        verdicts.iter().map(row).collect()
    }

    fn row(&self, case: &Case<'_, 'r>) -> FlowRow {
        let report = case.diagnose();
        let other = case.other_end();
        let ends = Ends {
            local: self.end(&self.cases, case.track()),
            remote: other.map(|(cases, track)| self.end(cases, track)),
            beside: report
                .verdicts
                .iter()
                .flat_map(|verdict| self.ends_beside(verdict))
                .collect(),
        };
        let mut row = FlowRow::of(case.timeline(), &ends, case.track());
        row.connections = case.connections();
        row.verdicts = report
            .verdicts
            .iter()
            .map(|verdict| VerdictRow::of(verdict, &ends))
            .collect();
        row.unknown = report.unknown;
        if row.idle && !row.has_finding() {
            // Its program is the limit, and nobody asked for more: `idle` says all.
            row.verdicts.clear();
            row.unknown = None;
        }
        row
    }

    /// The ends of other connections that a verdict wants to change.
    fn ends_beside(&self, verdict: &Verdict) -> Vec<End> {
        let keys = verdict
            .proposals
            .iter()
            .filter_map(|proposal| proposal.beside);
        let end = |key: FlowKey| {
            let (cases, track) = self.cases.find(key)?;
            Some(self.end(cases, track))
        };
        keys.filter_map(end).collect()
    }

    /// One end, in the cases of this namespace or of the other one.
    fn end(&self, cases: &Cases<'r>, track: &Track) -> End {
        let is_here = std::ptr::eq(cases, &raw const self.cases);
        let netns = match self.elsewhere {
            Some(elsewhere) if !is_here => elsewhere,
            _ => self.netns,
        };
        End {
            netns: netns.clone(),
            key: track.key,
            cookie: Some(track.cookie),
            pid: track.pid(),
            link: cases.interface(track),
        }
    }
}
