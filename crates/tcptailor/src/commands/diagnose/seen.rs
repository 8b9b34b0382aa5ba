//! Turns a recording into rows.

use base::Netns;
use doctor::{Recording, Track, Verdict};
use linux::Filter;
use tailor::{Answered, Observed, sort_rows};

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

/// Asks the doctor about each connection that is wanted. Those that are new were opened while it
/// was recorded: whatever they carried they carried then.
pub(crate) fn diagnose_wanted(
    recording: &Recording,
    netns: &Netns,
    wanted: impl Fn(&Track) -> bool,
    is_new: impl Fn(&Track) -> bool,
) -> Document {
    let observed = Observed::new(recording, netns);
    let rows = observed.answers_as(wanted, |answered| {
        let mut row = FlowRow::measured(&observed, answered);
        let track = answered.case.track();
        if row.connections == 1 && is_new(track) {
            row.idle = !track.samples.last().is_some_and(has_carried);
        }
        with_requirements(row.judged(&observed, answered))
    });
    document_of(recording, &observed, rows)
}

fn has_carried(sample: &base::FlowSample) -> bool {
    let bytes = [sample.bytes_sent, sample.bytes_received];
    bytes.into_iter().flatten().any(|bytes| bytes > 0)
}

/// The answer that these rows are a part of.
pub(crate) fn document_of(
    recording: &Recording,
    observed: &Observed<'_>,
    flows: Vec<FlowRow>,
) -> Document {
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
    if filter.is_empty() {
        return !track.samples.is_empty();
    }
    let last = track.samples.last();
    last.is_some_and(|sample| filter.matches(sample, &track.owners))
}

/// The doctor's answers for the connections that are wanted, the most important first.
pub(crate) fn rows(observed: &Observed<'_>, wanted: impl Fn(&Track) -> bool) -> Vec<FlowRow> {
    let mut flows = observed.answers_as(wanted, |answered| row(observed, answered));
    sort_rows(&mut flows);
    flows
}

/// Findings on the host as a whole. No change follows from here.
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
    with_requirements(FlowRow::of(observed, answered))
}

/// The row with what this process lacks to make each change.
fn with_requirements(mut row: FlowRow) -> FlowRow {
    for change in row.changes_mut() {
        change.requires = document::lacking(change);
    }
    row
}
