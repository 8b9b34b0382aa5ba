//! The tailor: look, name the limit, change the smallest thing, look again, keep it or roll it
//! back. What it works on, a lab path or a remote host, is a [`Subject`].

use std::time::Duration;

use base::{Change, Live};
use lab::{Measure, Yardstick};
use linux::Journal;
use linux::journal::{Applied, Undone};
use serde::Serialize;

use crate::commands::diagnose::document::{ChangeRow, FlowRow, VerdictRow};
use crate::exit::{Exit, Problem};
use crate::interrupt;

/// Below this gain a change is not worth keeping: noise gives as much.
pub(crate) const GAIN_MIN: f64 = 1.05;

/// A running workload that can be looked at and changed.
pub(crate) trait Subject {
    /// Looks for `time` at the flows and at what the program gets out of them.
    fn look(&mut self, time: Duration) -> anyhow::Result<Sight>;

    /// Waits until `time` has passed or the user stops it.
    fn wait(&mut self, time: Duration) -> anyhow::Result<()>;

    /// Makes the program open its connections anew.
    fn reconnect(&mut self) -> anyhow::Result<()>;

    /// The change that does for the listening socket what `change` does for the accepted one.
    fn on_listener(&self, change: &Change) -> anyhow::Result<Option<Change>>;
}

/// What a look gave.
#[derive(Debug)]
pub(crate) struct Sight {
    pub(crate) measure: Measure,
    /// The flows, the most important first.
    pub(crate) flows: Vec<FlowRow>,
}

/// How the work is done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pattern {
    /// How long each look lasts.
    pub(crate) observe: Duration,
    /// Time from a change to the look that judges it.
    pub(crate) settle: Duration,
    /// Time from new connections to the look that judges them.
    pub(crate) warm_up: Duration,
    /// What a change is judged by; `None` for what fits the workload.
    pub(crate) yardstick: Option<Yardstick>,
    /// Name the change and do not make it.
    pub(crate) dry_run: bool,
}

/// What the tailor is doing, for a narrator.
#[derive(Debug)]
pub(crate) enum Step<'s> {
    /// The first look is done.
    Looked(&'s Sight),
    /// These changes are in force now.
    Applied(&'s [ChangeMade]),
    /// The judging look is done.
    LookedAgain(&'s Sight),
    /// Put back, with what became of each change.
    RolledBack(&'s [Undone]),
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Ending {
    /// Nothing limits the flow that a change could remove.
    NothingToImprove,
    /// A defect that no TCP setting removes.
    NoSettingHelps,
    /// The change was named only.
    DryRun,
    /// Better by at least [`GAIN_MIN`].
    Kept,
    /// Not better.
    RolledBack,
}

impl Ending {
    /// The exit code of the command.
    pub(crate) const fn exit(self) -> Exit {
        match self {
            Self::RolledBack => Exit::RolledBack,
            Self::NothingToImprove | Self::NoSettingHelps | Self::DryRun | Self::Kept => Exit::Done,
        }
    }
}

/// One change that was made.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ChangeMade {
    pub(crate) knob: String,
    pub(crate) target: String,
    pub(crate) from: String,
    pub(crate) to: String,
    /// Whether it acts on the open connection.
    pub(crate) live: bool,
}

/// The whole story.
#[derive(Debug, Serialize)]
pub(crate) struct Fitting {
    pub(crate) before: Measure,
    /// The flow that was fitted, with its verdicts.
    pub(crate) flow: Option<FlowRow>,
    /// What was changed, or would be.
    pub(crate) changes: Vec<ChangeMade>,
    pub(crate) after: Option<Measure>,
    /// How many times better.
    pub(crate) gain: Option<f64>,
    pub(crate) yardstick: &'static str,
    pub(crate) ending: Ending,
    /// Number of the transaction in the journal.
    pub(crate) transaction: Option<u64>,
}

/// A change that has been decided on.
struct Decided {
    change: Change,
    live: Live,
}

/// Does the work.
pub(crate) fn fit(
    subject: &mut dyn Subject,
    journal: &mut Journal,
    pattern: &Pattern,
    tell: &mut dyn FnMut(Step<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<Fitting> {
    let sight = subject.look(pattern.observe)?;
    check_stopped()?;
    tell(Step::Looked(&sight))?;
    let yardstick = pattern.yardstick.unwrap_or(Yardstick::of(&sight.measure));
    let mut fitting = Fitting {
        before: sight.measure,
        flow: sight.flows.into_iter().next(),
        changes: Vec::new(),
        after: None,
        gain: None,
        yardstick: yardstick.name(),
        ending: Ending::NothingToImprove,
        transaction: None,
    };
    let Some(verdict) = finding(fitting.flow.as_ref()) else {
        return Ok(fitting);
    };
    let reason = format!("fit: {}", verdict.id);
    let decided = decide(verdict, subject)?;
    if decided.is_empty() {
        fitting.ending = Ending::NoSettingHelps;
        return Ok(fitting);
    }
    if pattern.dry_run {
        fitting.changes = decided.iter().map(planned).collect();
        fitting.ending = Ending::DryRun;
        return Ok(fitting);
    }
    let mut transaction = journal.begin(&reason)?;
    fitting.transaction = Some(transaction.id());
    let changes: Vec<Change> = decided
        .iter()
        .map(|decided| decided.change.clone())
        .collect();
    let applied = transaction.apply_all(&changes)?;
    fitting.changes = decided
        .iter()
        .zip(&applied)
        .map(|(d, applied)| made(d, applied))
        .collect();
    tell(Step::Applied(&fitting.changes))?;
    if decided.iter().all(|decided| decided.live == Live::Now) {
        subject.wait(pattern.settle)?;
    } else {
        subject.reconnect()?;
        subject.wait(pattern.warm_up)?;
    }
    check_stopped()?;
    let again = subject.look(pattern.observe)?;
    check_stopped()?;
    tell(Step::LookedAgain(&again))?;
    fitting.after = Some(again.measure);
    fitting.gain = yardstick.gain(&fitting.before, &again.measure);
    let better = fitting.gain.is_some_and(|gain| gain >= GAIN_MIN);
    let (was, is) = (
        yardstick.show(&fitting.before),
        yardstick.show(&again.measure),
    );
    transaction.verified(better, &format!("{was} before, {is} after"))?;
    if better {
        transaction.keep()?;
        fitting.ending = Ending::Kept;
    } else {
        let undone = transaction.roll_back();
        tell(Step::RolledBack(&undone))?;
        fitting.ending = Ending::RolledBack;
    }
    Ok(fitting)
}

/// Ctrl-C ends the work; what was changed is rolled back when the transaction is dropped.
fn check_stopped() -> anyhow::Result<()> {
    if interrupt::stopped() {
        return Err(Problem {
            exit: Exit::Interrupted,
            message: "interrupted; nothing stays changed".into(),
            hint: None,
        }
        .into());
    }
    Ok(())
}

/// The main verdict, where it is a finding.
fn finding(flow: Option<&FlowRow>) -> Option<&VerdictRow> {
    flow?.main().filter(|verdict| verdict.finding)
}

/// The proposals of the smallest scope that can be carried out from here. Those of one scope belong
/// together (both ends of a connection, both windows of a route); wider ones are alternatives.
fn decide(verdict: &VerdictRow, subject: &dyn Subject) -> anyhow::Result<Vec<Decided>> {
    let reachable: Vec<&ChangeRow> = verdict
        .change
        .iter()
        .chain(&verdict.alternatives)
        .filter(|row| row.target.is_some())
        .collect();
    let Some(smallest) = reachable.iter().map(|row| row.scope).min() else {
        return Ok(Vec::new());
    };
    let mut decided = Vec::new();
    for row in reachable.into_iter().filter(|row| row.scope == smallest) {
        let change = Change {
            target: row.target.clone().expect("filtered above"),
            knob: row.knob.into(),
            to: row.to.clone(),
        };
        decided.push(match row.takes_effect {
            // Accepted sockets inherit the options of their listener, so that new connections are
            // reached without starting the program again.
            Live::Restart => match subject.on_listener(&change)? {
                Some(change) => Decided {
                    change,
                    live: Live::Reconnect,
                },
                None => continue,
            },
            live => Decided { change, live },
        });
    }
    Ok(decided)
}

fn planned(decided: &Decided) -> ChangeMade {
    ChangeMade {
        knob: decided.change.knob.clone(),
        target: decided.change.target.to_string(),
        from: String::new(),
        to: shown(&decided.change),
        live: decided.live == Live::Now,
    }
}

fn made(decided: &Decided, applied: &Applied) -> ChangeMade {
    ChangeMade {
        from: applied.old.to_string(),
        to: applied.now.to_string(),
        ..planned(decided)
    }
}

fn shown(change: &Change) -> String {
    base::find_knob(&change.knob)
        .map_or_else(|_| change.to.to_string(), |knob| knob.format(&change.to))
}
