//! The rules, their order, and what happens where several of them hold.
//!
//! Each rule is a pure function of a [`View`]. Rules are grouped in stages; in each stage the
//! first that holds speaks, and the first stage that speaks gives the main verdict. Later ones
//! may add notes, within the rules of [`may_follow`].

pub(crate) mod application;
mod draft;
mod held_acks;
pub(crate) mod host;
pub(crate) mod loss;
mod next;
pub(crate) mod opening;
pub(crate) mod path;
pub(crate) mod queue;
pub(crate) mod receive_window;
mod restarts;
pub(crate) mod send_buffer;
pub(crate) mod short;
pub(crate) mod small_writes;
mod stall_at_peer;
pub(crate) mod startup;
pub(crate) mod steady;
pub(crate) mod thresholds;

use core::cell::OnceCell;

use base::{Limit, Live};

use crate::catalogue::{DIAGNOSES, Diagnosis, Rule, Stage};
use crate::host_timeline::HostTimeline;
use crate::shares;
use crate::timeline::Timeline;
use crate::verdict::{Confidence, Verdict};
use crate::view::View;
use thresholds::{INTERVAL_SLACK, WORTHWHILE_GAIN};

/// How many of the stages are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// All.
    All,
    /// The direction that carries less: only what blocks a flow altogether.
    OtherDirection,
    /// Too little was seen of this flow itself: only what its predecessors can show, and a fixed
    /// buffer that stops it all the time.
    ShortLived,
}

/// The verdicts on one direction, the main one first.
pub(crate) fn evaluate(view: &View<'_>, scope: Scope) -> Vec<Verdict> {
    let mut verdicts: Vec<Verdict> = Vec::new();
    let mut small_gains: Vec<Verdict> = Vec::new();
    let mut stage_done: Option<Stage> = None;
    let window_bound = OnceCell::new();
    let is_silenced =
        |stage| is_behind_window(stage) && *window_bound.get_or_init(|| view.window_bound());
    for row in DIAGNOSES.iter().filter(|row| is_asked(row, scope, view)) {
        if stage_done == Some(row.stage) || is_silenced(row.stage) {
            continue;
        }
        let Rule::Flow(rule) = row.rule else {
            continue;
        };
        let Some(mut verdict) = rule(view) else {
            continue;
        };
        debug_assert_eq!(
            verdict.diagnosis, row,
            "a rule gives the diagnosis of its row"
        );
        stage_done = Some(row.stage);
        weaken_if_short(&mut verdict, view, scope);
        verdict.held = view
            .sender
            .zip(verdict.limit)
            .and_then(|(sender, limit)| shares::held(sender.samples(), limit));
        if verdicts.is_empty() && gains_little(&verdict, view) {
            small_gains.push(verdict);
        } else if verdicts
            .first()
            .is_none_or(|main| may_follow(main, &verdict))
        {
            verdicts.push(verdict);
        }
    }
    // Better a change of little use than no answer.
    verdicts.append(&mut small_gains);
    verdicts
}

/// Verdicts on a connection that has not carried data yet.
pub(crate) fn evaluate_opening(timeline: &Timeline) -> Vec<Verdict> {
    let rules = DIAGNOSES.iter().filter_map(|row| match row.rule {
        Rule::Opening(rule) => Some(rule),
        _ => None,
    });
    rules.filter_map(|rule| rule(timeline)).collect()
}

/// Verdicts on a host.
pub(crate) fn evaluate_host(host: &HostTimeline) -> Vec<Verdict> {
    let rules = DIAGNOSES.iter().filter_map(|row| match row.rule {
        Rule::Host(rule) => Some(rule),
        _ => None,
    });
    rules.filter_map(|rule| rule(host)).collect()
}

/// Both directions of a connection may stall: the one that loses so much more time is named.
const LARGER_STALL: f64 = 2.0;

/// Of the answers for both directions, the one whose main verdict has the earlier stage; for equal
/// stages, the direction with most payload, unless a piece is held in the other one for
/// [`LARGER_STALL`] times as long.
pub(crate) fn prefer(main: Vec<Verdict>, other: Vec<Verdict>) -> Vec<Verdict> {
    let stage = |verdicts: &[Verdict]| Some(verdicts.first()?.diagnosis.stage);
    let held = |verdicts: &[Verdict]| {
        let first = verdicts.first()?;
        (first.limit == Some(Limit::Nagle)).then_some(first.share)
    };
    let is_larger = held(&main)
        .zip(held(&other))
        .is_some_and(|(main, other)| other >= main * LARGER_STALL);
    match (stage(&main), stage(&other)) {
        _ if is_larger => other,
        (Some(of_main), Some(of_other)) if of_main <= of_other => main,
        (_, Some(_)) => other,
        (_, None) => main,
    }
}

fn is_asked(row: &Diagnosis, scope: Scope, view: &View<'_>) -> bool {
    match scope {
        Scope::All => true,
        Scope::OtherDirection => {
            matches!(row.stage, Stage::DeadPath | Stage::Stall) || row.id == "slow-reader"
        }
        Scope::ShortLived => match row.id {
            "initcwnd-too-small" | "round-trip-bound" | "application-thinks" => true,
            "sndbuf-locked" => view.sender.is_some_and(send_buffer::fixed_buffer_stops),
            _ => false,
        },
    }
}

/// While the peer's window decides, nothing is said of start-up, application, loss, queue or path.
fn is_behind_window(stage: Stage) -> bool {
    stage >= Stage::Startup
}

/// Whether a verdict of a later stage may stand as a note behind the main one: a finding about
/// another limit, or the answer to "and what does it reach?" behind mere advice.
fn may_follow(main: &Verdict, note: &Verdict) -> bool {
    // On a dead path everything else stands still as well.
    if !main.diagnosis.is_finding() || main.diagnosis.stage == Stage::DeadPath {
        return false;
    }
    // A stall makes the application look like the limit, and a full window like any other wait.
    let waits_for_other_end = matches!(
        main.limit,
        Some(Limit::Nagle | Limit::Cork | Limit::PeerWindow)
    );
    let is_advice = main.diagnosis.limit.is_none();
    !waits_for_other_end
        && (note.diagnosis.is_finding() || is_advice)
        && (note.limit != main.limit || is_advice)
}

/// A change on the open connection that the next limit behind it makes worthless.
fn gains_little(verdict: &Verdict, view: &View<'_>) -> bool {
    let buffers = matches!(verdict.limit, Some(Limit::PeerWindow | Limit::SendBuffer));
    let live = verdict
        .proposals
        .first()
        .is_some_and(|p| p.live == Live::Now);
    let behind = verdict.next.as_ref().and_then(|next| next.rate);
    match (behind, view.rate()) {
        (Some(behind), Some(rate)) if buffers && live => {
            (behind.bits_per_second() as f64) < rate.bits_per_second() as f64 * WORTHWHILE_GAIN
        }
        _ => false,
    }
}

/// A flow that was seen for fewer round trips than it takes to judge it, with others of its service
/// that agree, gives weaker verdicts.
fn weaken_if_short(verdict: &mut Verdict, view: &View<'_>, scope: Scope) {
    let Some(timeline) = view.main_timeline() else {
        return;
    };
    let wanted = timeline.wanted_interval().mul_f64(INTERVAL_SLACK);
    if scope != Scope::ShortLived
        && timeline.interval() + view.seen_alike < wanted
        && verdict.confidence == Confidence::Medium
    {
        verdict.confidence = Confidence::Low;
    }
}

#[cfg(test)]
mod tests;
