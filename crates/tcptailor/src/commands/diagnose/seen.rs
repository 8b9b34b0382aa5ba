//! From what was recorded to the answer as rows.

use base::{Instant, Netns};
use doctor::{Recording, Track, Verdict};
use linux::Filter;
use tailor::{Answered, Observed};

use super::document::{self, Document, FlowRow, HostRow, VerdictRow};
use super::page::Courses;

/// Asks the doctor about each connection that the filter selects.
pub(crate) fn diagnose(recording: &Recording, netns: &Netns, filter: &Filter) -> Document {
    let observed = Observed::new(recording, netns);
    let flows = rows(&observed, |track| selects(filter, track));
    document_of(recording, &observed, flows)
}

/// The same, with how the most important connections went, for a page.
pub(crate) fn diagnose_drawn(
    recording: &Recording,
    netns: &Netns,
    filter: &Filter,
) -> (Document, Courses) {
    let observed = Observed::new(recording, netns);
    let answers = observed.answers(|track| selects(filter, track));
    let flows = answers.iter().map(|answered| row(&observed, answered));
    let document = document_of(recording, &observed, flows.collect());
    let courses = Courses::of(&document, recording, &answers);
    (document, courses)
}

/// The same with the answers one after the other: all at once would take much memory where there
/// are thousands of connections.
pub(crate) fn diagnose_many(recording: &Recording, netns: &Netns, filter: &Filter) -> Document {
    let observed = Observed::new(recording, netns);
    let mut flows = Vec::new();
    observed.each_answer(
        |track| selects(filter, track),
        |answered| flows.push(row(&observed, &answered)),
    );
    document_of(recording, &observed, flows)
}

/// Asks the doctor about each connection that is wanted. Those that are new were opened while it
/// was recorded: whatever they carried they carried then.
pub(crate) fn diagnose_wanted(
    recording: &Recording,
    netns: &Netns,
    wanted: impl Fn(&Track) -> bool,
    is_new: impl Fn(&Track) -> bool,
) -> Document {
    let observed = Observed::new(recording, netns);
    let answers = observed.answers(wanted);
    let rows = answers.iter().map(|answered| {
        let mut row = numbers(&observed, answered);
        let track = answered.case.track();
        if row.connections == 1 && is_new(track) {
            row.idle = !track.samples.last().is_some_and(has_carried);
        }
        judged(row, &observed, answered)
    });
    let rows = rows.collect();
    document_of(recording, &observed, rows)
}

fn has_carried(sample: &base::FlowSample) -> bool {
    let bytes = [sample.bytes_sent, sample.bytes_received];
    bytes.into_iter().flatten().any(|bytes| bytes > 0)
}

fn document_of(recording: &Recording, observed: &Observed<'_>, flows: Vec<FlowRow>) -> Document {
    let host = host_rows(observed);
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

/// Whether the filter selects a connection, as it was when it was seen last.
pub(crate) fn selects(filter: &Filter, track: &Track) -> bool {
    let last = track.samples.last();
    last.is_some_and(|sample| filter.matches(sample, &track.owners))
}

/// The doctor's answers for the connections that are wanted, the most important first.
pub(crate) fn rows(observed: &Observed<'_>, wanted: impl Fn(&Track) -> bool) -> Vec<FlowRow> {
    let answers = observed.answers(wanted);
    let mut flows: Vec<FlowRow> = answers
        .iter()
        .map(|answered| row(observed, answered))
        .collect();
    document::sort(&mut flows);
    flows
}

/// What is wrong with the host as a whole. No change follows from here.
pub(crate) fn host_rows(observed: &Observed<'_>) -> Vec<HostRow> {
    let row = |verdict: &Verdict| HostRow {
        netns: observed.netns().clone(),
        container: None,
        verdict: VerdictRow::of_host(verdict),
    };
    let verdicts = doctor::diagnose_host(observed.cases().host());
    verdicts.iter().map(row).collect()
}

/// The doctor's answer for one of them.
pub(crate) fn row(observed: &Observed<'_>, answered: &Answered<'_, '_>) -> FlowRow {
    judged(numbers(observed, answered), observed, answered)
}

/// The numbers of a row.
fn numbers(observed: &Observed<'_>, answered: &Answered<'_, '_>) -> FlowRow {
    let Answered { case, ends, .. } = answered;
    let mut row = FlowRow::of(&case.timeline(), ends, case);
    row.stand_for(
        case.connections(),
        case.payload_bytes(),
        observed.cases().whole(),
    );
    row
}

/// The row with what the doctor says of it.
fn judged(mut row: FlowRow, observed: &Observed<'_>, answered: &Answered<'_, '_>) -> FlowRow {
    let Answered { report, ends, .. } = answered;
    row.verdicts = report
        .verdicts
        .iter()
        .map(|verdict| VerdictRow {
            // Each of many has its own.
            held_s: (row.connections == 1)
                .then(|| held_s(verdict, observed.began()))
                .flatten(),
            ..VerdictRow::of(verdict, ends)
        })
        .collect();
    row.unknown.clone_from(&report.unknown);
    if row.idle && !row.has_finding() {
        // Its program is the limit, and nobody asked for more: `idle` says all.
        row.verdicts.clear();
        row.unknown = None;
    }
    row
}

/// From when to when the verdict's limit was seen, in seconds after the watch began.
fn held_s(verdict: &Verdict, began: Instant) -> Option<[f64; 2]> {
    let (first, last) = verdict.held?;
    let after = |at: Instant| (at.since(began).as_secs_f64() * 1e3).round() / 1e3;
    Some([after(first), after(last)])
}
