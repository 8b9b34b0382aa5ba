//! The rules, their order, and what happens where several of them hold.
//!
//! Each rule is a pure function of a [`View`]. Rules are grouped in stages; in each stage the
//! first that holds speaks, and the first stage that speaks gives the main verdict. Later ones
//! may add notes, within the rules of [`may_follow`].

mod application;
mod draft;
mod loss;
mod next;
mod path;
mod queue;
mod receive_window;
mod send_buffer;
mod small_writes;
mod startup;
pub(crate) mod thresholds;

use base::{Limit, Live};

use crate::verdict::{Confidence, Verdict};
use crate::view::View;
use thresholds::{INTERVAL_SLACK, WORTHWHILE_GAIN};

/// The questions in their order. Start-up comes before the application: a flow of bursts is idle
/// most of the time, and that alone would make each of them application-limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    DeadPath,
    ReceiveWindow,
    Stall,
    SendBuffer,
    Startup,
    Application,
    Loss,
    Queue,
    PathFull,
}

/// How many of the stages are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// All.
    All,
    /// The direction that carries less: only what blocks a flow altogether.
    OtherDirection,
    /// Too little was seen of this flow itself: only what its predecessors can show.
    ShortLived,
}

/// A rule: its stage, the id of the diagnosis that it gives, and the function.
pub(crate) struct Rule {
    pub(crate) stage: Stage,
    pub(crate) id: &'static str,
    pub(crate) apply: fn(&View<'_>) -> Option<Verdict>,
}

const fn rule(stage: Stage, id: &'static str, apply: fn(&View<'_>) -> Option<Verdict>) -> Rule {
    Rule { stage, id, apply }
}

/// All rules in the order of evaluation. Within a stage the more special one comes first.
pub(crate) const RULES: &[Rule] = &[
    rule(Stage::DeadPath, "pmtu-blackhole", path::pmtu_blackhole),
    rule(
        Stage::ReceiveWindow,
        "slow-reader",
        receive_window::slow_reader,
    ),
    rule(
        Stage::ReceiveWindow,
        "window-scaling-off",
        receive_window::window_scaling_off,
    ),
    rule(
        Stage::ReceiveWindow,
        "tcp-rmem-max-cap",
        receive_window::tcp_rmem_max_cap,
    ),
    rule(
        Stage::ReceiveWindow,
        "rcvbuf-locked",
        receive_window::rcvbuf_locked,
    ),
    rule(
        Stage::Stall,
        "cork-not-uncorked",
        small_writes::cork_not_uncorked,
    ),
    rule(
        Stage::Stall,
        "two-one-way-connections",
        small_writes::two_one_way_connections,
    ),
    rule(
        Stage::Stall,
        "nagle-delack-stall",
        small_writes::nagle_delack_stall,
    ),
    rule(
        Stage::Stall,
        "nagle-rtt-serialised",
        small_writes::nagle_rtt_serialised,
    ),
    rule(Stage::SendBuffer, "sndbuf-tiny", send_buffer::sndbuf_tiny),
    rule(
        Stage::SendBuffer,
        "sndbuf-locked",
        send_buffer::sndbuf_locked,
    ),
    rule(
        Stage::SendBuffer,
        "tcp-wmem-max-cap",
        send_buffer::tcp_wmem_max_cap,
    ),
    rule(
        Stage::Startup,
        "slow-start-after-idle",
        startup::slow_start_after_idle,
    ),
    rule(
        Stage::Startup,
        "initcwnd-too-small",
        startup::initcwnd_too_small,
    ),
    rule(
        Stage::Application,
        "small-writes-cpu",
        application::small_writes_cpu,
    ),
    rule(
        Stage::Application,
        "unbatched-records",
        application::unbatched_records,
    ),
    rule(
        Stage::Application,
        "round-trip-bound",
        application::round_trip_bound,
    ),
    rule(Stage::Application, "app-limited", application::app_limited),
    rule(
        Stage::Loss,
        "sack-or-timestamps-off",
        loss::sack_or_timestamps_off,
    ),
    rule(Stage::Loss, "local-qdisc-drops", loss::local_qdisc_drops),
    rule(Stage::Loss, "random-loss", loss::random_loss),
    rule(Stage::Queue, "bufferbloat", queue::bufferbloat),
    rule(Stage::PathFull, "path-full", path::path_full),
];

/// The verdicts on one direction, the main one first.
pub(crate) fn evaluate(view: &View<'_>, scope: Scope) -> Vec<Verdict> {
    let mut verdicts: Vec<Verdict> = Vec::new();
    let mut small_gains: Vec<Verdict> = Vec::new();
    let mut stage_done: Option<Stage> = None;
    for rule in RULES.iter().filter(|rule| is_asked(rule, scope)) {
        if stage_done == Some(rule.stage) || is_silenced(rule.stage, view) {
            continue;
        }
        let Some(mut verdict) = (rule.apply)(view) else {
            continue;
        };
        debug_assert_eq!(verdict.diagnosis.id, rule.id, "the table names its rules");
        stage_done = Some(rule.stage);
        weaken_if_short(&mut verdict, view, scope);
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

/// Of the answers for both directions the one whose main verdict stands in the earlier stage;
/// the direction with most payload where they are equal.
pub(crate) fn prefer(main: Vec<Verdict>, other: Vec<Verdict>) -> Vec<Verdict> {
    let stage = |verdicts: &[Verdict]| {
        let id = verdicts.first()?.diagnosis.id;
        RULES
            .iter()
            .find(|rule| rule.id == id)
            .map(|rule| rule.stage)
    };
    match (stage(&main), stage(&other)) {
        (Some(of_main), Some(of_other)) if of_main <= of_other => main,
        (_, Some(_)) => other,
        (_, None) => main,
    }
}

fn is_asked(rule: &Rule, scope: Scope) -> bool {
    match scope {
        Scope::All => true,
        Scope::OtherDirection => matches!(rule.stage, Stage::DeadPath | Stage::Stall),
        Scope::ShortLived => rule.id == "initcwnd-too-small",
    }
}

/// While the peer's window decides, nothing is said of start-up, application, loss, queue or path.
fn is_silenced(stage: Stage, view: &View<'_>) -> bool {
    stage >= Stage::Startup && view.window_bound()
}

/// Whether a verdict of a later stage may stand as a note behind the main one: a finding about
/// another limit, or the answer to "and what does it reach?" behind mere advice.
fn may_follow(main: &Verdict, note: &Verdict) -> bool {
    if !main.diagnosis.is_finding() {
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

/// A flow that was seen for fewer round trips than it takes to judge it gives weaker verdicts.
fn weaken_if_short(verdict: &mut Verdict, view: &View<'_>, scope: Scope) {
    let Some(timeline) = view.main_timeline() else {
        return;
    };
    let wanted = timeline.wanted_interval().mul_f64(INTERVAL_SLACK);
    if scope != Scope::ShortLived
        && timeline.interval() < wanted
        && verdict.confidence == Confidence::Medium
    {
        verdict.confidence = Confidence::Low;
    }
}

#[cfg(test)]
mod tests;
