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
            row.idle = !has_carried(track);
        }
        with_requirements(row.judged(&observed, answered))
    });
    document_of(recording, &observed, rows)
}

/// Whether a connection has carried data. Its last samples need not say so: once it has closed,
/// the kernel tells little more of it than its state.
fn has_carried(track: &Track) -> bool {
    let mut samples = track.samples.iter();
    samples.any(|sample| sample.bytes_sent > Some(0) || sample.bytes_received > Some(0))
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
    let upper = row.upper.clone();
    for change in row.changes_mut() {
        change.requires = document::lacking(change, upper.as_deref());
    }
    row
}

#[cfg(test)]
mod tests {
    use base::{FlowKey, FlowSample, Instant};
    use doctor::Samples;

    use super::*;

    /// The last look at a connection that has closed shows its state alone.
    #[test]
    fn what_a_closed_connection_has_carried_is_remembered() {
        let key = FlowKey {
            local: ([10, 0, 0, 1], 40_000).into(),
            remote: ([10, 0, 0, 2], 80).into(),
        };
        let closed = || FlowSample::empty(Instant::ZERO, key);
        let busy = FlowSample {
            bytes_sent: Some(1),
            ..closed()
        };
        let check = |samples: Vec<FlowSample>, expected: bool| {
            let track = Track {
                key,
                cookie: 7,
                owners: Vec::new(),
                samples: samples.into_iter().collect::<Samples>(),
                ended: true,
                interface: None,
                options_error: None,
            };
            assert_eq!(has_carried(&track), expected);
        };
        check(vec![busy, closed()], true);
        check(vec![closed()], false);
    }
}
