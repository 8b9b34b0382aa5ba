//! What the change for a finding would have given: the one place from which the report takes it.

use doctor::Recording;

use crate::commands::diagnose::document::{FlowRow, VerdictRow};

/// What the change for a finding on a connection of `recording` would have given; `None` where that
/// is not known. It is what the doctor expects to limit the connection then.
pub(super) fn expected(
    _recording: &Recording,
    _flow: &FlowRow,
    verdict: &VerdictRow,
) -> Option<String> {
    let next = verdict.next.as_ref()?;
    let rate = next.rate.map(base::human::rate);
    let rate = rate.filter(|rate| !next.what.contains(rate));
    let rate = rate.map(|rate| format!(" ({rate})"));
    Some(format!(
        "then limited by {}{}",
        next.what,
        rate.unwrap_or_default()
    ))
}
