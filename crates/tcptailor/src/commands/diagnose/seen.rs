//! From what was recorded to the answer: the doctor's cases, with the places at which changes can
//! be made.

use base::{FlowKey, Instant, Netns};
use doctor::{Case, Cases, Recording, Track, Verdict};
use linux::Filter;

use super::document::{self, Document, FlowRow, HostRow, VerdictRow};
use ::tailor::{End, Ends};

/// Asks the doctor about each connection that the filter selects.
pub(crate) fn diagnose(recording: &Recording, netns: &Netns, filter: &Filter) -> Document {
    let seen = Seen::new(recording, netns);
    let flows = seen.rows(filter);
    let host = seen.host_rows();
    Document {
        duration_s: recording.ended.since(recording.began).as_secs_f64(),
        interrupted: recording.stopped && !recording.process_ended,
        process_ended: recording.process_ended,
        host,
        unseen_processes: recording.unseen_processes,
        flows_left_out: recording.flows_left_out,
        ..Document::default()
    }
    .with_flows(flows)
}

/// The cases of one namespace, and of another one that was recorded at the same time.
pub(crate) struct Seen<'r> {
    netns: &'r Netns,
    began: Instant,
    cases: Cases<'r>,
    elsewhere: Option<&'r Netns>,
}

impl<'r> Seen<'r> {
    pub(crate) fn new(recording: &'r Recording, netns: &'r Netns) -> Self {
        Self {
            netns,
            began: recording.began,
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
        document::sort(&mut flows);
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
        let mut row = FlowRow::of(&case.timeline(), &ends, case.track());
        row.stand_for(case.connections(), case.payload_bytes(), self.cases.whole());
        row.verdicts = report
            .verdicts
            .iter()
            .map(|verdict| VerdictRow {
                // Each of many has its own.
                held_s: (row.connections == 1)
                    .then(|| self.held_s(verdict))
                    .flatten(),
                ..VerdictRow::of(verdict, &ends)
            })
            .collect();
        row.unknown = report.unknown;
        if row.idle && !row.has_finding() {
            // Its program is the limit, and nobody asked for more: `idle` says all.
            row.verdicts.clear();
            row.unknown = None;
        }
        row
    }

    /// From when to when the verdict's limit was seen, in seconds after the watch began.
    fn held_s(&self, verdict: &Verdict) -> Option<[f64; 2]> {
        let (first, last) = verdict.held?;
        let after = |at: Instant| (at.since(self.began).as_secs_f64() * 1e3).round() / 1e3;
        Some([after(first), after(last)])
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
