//! The tailor: look, name the limit, change the smallest thing, look again, keep it or roll it
//! back. What it works on, a lab path or a remote host, is a [`Subject`].

use std::time::Duration;

use base::{Change, Live, Scope};
use lab::{Measure, Yardstick};
use serde::Serialize;

use crate::commands::diagnose::document::{ChangeRow, FlowRow, VerdictRow};
use crate::exit::{Exit, Problem};
use crate::interrupt;
use crate::subject::{Made, PutBack, Sight, Subject};

/// Below this gain a change is not worth keeping: noise gives as much.
pub(crate) const GAIN_MIN: f64 = 1.05;

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
    /// The change did not reach the open connection; new ones were looked at.
    LookedAtNew(&'s Sight),
    /// Put back, with what became of each change.
    RolledBack(&'s [PutBack]),
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Ending {
    /// Nothing limits the flow that a change could remove.
    NothingToImprove,
    /// What limits the flow could not be said.
    NoVerdict,
    /// A defect that no TCP setting removes.
    NoSettingHelps,
    /// The change has to be made on the other host, or needs new connections of a program that
    /// is not ours to start again.
    OutOfReach,
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
            Self::NothingToImprove
            | Self::NoVerdict
            | Self::NoSettingHelps
            | Self::OutOfReach
            | Self::DryRun
            | Self::Kept => Exit::Done,
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
    /// What `gain` is of.
    pub(crate) yardstick: Yardstick,
    pub(crate) ending: Ending,
    /// Number of the transaction in the journal.
    pub(crate) transaction: Option<u64>,
}

/// A change that has been decided on.
struct Decided {
    change: Change,
    live: Live,
}

/// What follows from a verdict.
enum Decision {
    /// These changes, together.
    Changes(Vec<Decided>),
    /// TCP has no setting for it.
    NoSettingHelps,
    /// There is one, but not within reach.
    OutOfReach,
}

/// Does the work.
pub(crate) fn fit(
    subject: &mut dyn Subject,
    pattern: &Pattern,
    tell: &mut dyn FnMut(Step<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<Fitting> {
    let sight = subject.look(pattern.observe)?;
    check_stopped()?;
    tell(Step::Looked(&sight))?;
    let mut fitting = Fitting::after_look(sight, pattern);
    let Some(verdict) = finding(fitting.flow.as_ref()) else {
        let is_known = fitting
            .flow
            .as_ref()
            .is_some_and(|flow| flow.main().is_some());
        let ending = if is_known {
            Ending::NothingToImprove
        } else {
            Ending::NoVerdict
        };
        return Ok(fitting.ended(ending));
    };
    let reason = format!("fit: {}", verdict.id);
    let decided = match decide(verdict, subject)? {
        Decision::Changes(decided) => decided,
        Decision::NoSettingHelps => return Ok(fitting.ended(Ending::NoSettingHelps)),
        Decision::OutOfReach => return Ok(fitting.ended(Ending::OutOfReach)),
    };
    if pattern.dry_run {
        fitting.changes = decided.iter().map(planned).collect();
        return Ok(fitting.ended(Ending::DryRun));
    }
    let changes: Vec<Change> = decided
        .iter()
        .map(|decided| decided.change.clone())
        .collect();
    let applied = subject.settings().make(&reason, &changes)?;
    fitting.transaction = applied.transaction;
    fitting.changes = decided
        .iter()
        .zip(&applied.changes)
        .map(|(d, applied)| made(d, applied))
        .collect();
    // Whatever fails from here on, the changes do not stay.
    let judged = tell(Step::Applied(&fitting.changes))
        .and_then(|()| judge(subject, pattern, &decided, &mut fitting, tell))
        .and_then(|better| {
            subject.settings().verified(better, &fitting.comparison())?;
            Ok(better)
        });
    match judged {
        Ok(true) => {
            subject.settings().keep()?;
            Ok(fitting.ended(Ending::Kept))
        }
        Ok(false) => {
            let undone = subject.settings().put_back();
            tell(Step::RolledBack(&undone))?;
            Ok(fitting.ended(Ending::RolledBack))
        }
        Err(error) => {
            let undone = subject.settings().put_back();
            // The cause is what the user has to hear; that telling fails too is not.
            let _ = tell(Step::RolledBack(&undone));
            Err(error)
        }
    }
}

/// Lets the changes act, looks, and says whether it is better.
fn judge(
    subject: &mut dyn Subject,
    pattern: &Pattern,
    decided: &[Decided],
    fitting: &mut Fitting,
    tell: &mut dyn FnMut(Step<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<bool> {
    let again = look_again(subject, pattern, decided)?;
    let better = fitting.compare(again.measure);
    tell(Step::LookedAgain(&again))?;
    if better || !fitting.acts_live() || !reaches_new_connections(decided) {
        return Ok(better);
    }
    let Some(again) = look_at_new_connections(subject, pattern)? else {
        return Ok(false);
    };
    fitting
        .changes
        .iter_mut()
        .for_each(|change| change.live = false);
    let better = fitting.compare(again.measure);
    tell(Step::LookedAtNew(&again))?;
    Ok(better)
}

/// Lets the changes act, and looks.
fn look_again(
    subject: &mut dyn Subject,
    pattern: &Pattern,
    decided: &[Decided],
) -> anyhow::Result<Sight> {
    if decided.iter().all(|decided| decided.live == Live::Now) {
        subject.wait(pattern.settle)?;
        return look_checked(subject, pattern);
    }
    subject.reconnect()?;
    subject.wait(pattern.warm_up)?;
    look_checked(subject, pattern)
}

/// The kernel reads a route or a sysctl when it next has a reason to, and an open connection may
/// never give it one: a receive buffer grows only while more is read in a round trip than in the
/// one before (Linux 6.18, `tcp_rcv_space_adjust`). New connections tell. `None` where there can be
/// none.
fn look_at_new_connections(
    subject: &mut dyn Subject,
    pattern: &Pattern,
) -> anyhow::Result<Option<Sight>> {
    if !subject.can_reconnect() {
        return Ok(None);
    }
    subject.reconnect()?;
    subject.wait(pattern.warm_up)?;
    look_checked(subject, pattern).map(Some)
}

fn look_checked(subject: &mut dyn Subject, pattern: &Pattern) -> anyhow::Result<Sight> {
    check_stopped()?;
    let sight = subject.look(pattern.observe)?;
    check_stopped()?;
    Ok(sight)
}

fn reaches_new_connections(decided: &[Decided]) -> bool {
    let is_wide = |decided: &Decided| {
        base::find_knob(&decided.change.knob).is_ok_and(|knob| knob.scope > Scope::Socket)
    };
    decided.iter().any(is_wide)
}

impl Fitting {
    fn after_look(sight: Sight, pattern: &Pattern) -> Self {
        Self {
            yardstick: pattern.yardstick.unwrap_or(Yardstick::of(&sight.measure)),
            before: sight.measure,
            flow: sight.flows.into_iter().next(),
            changes: Vec::new(),
            after: None,
            gain: None,
            ending: Ending::NothingToImprove,
            transaction: None,
        }
    }

    fn ended(self, ending: Ending) -> Self {
        Self { ending, ..self }
    }

    fn acts_live(&self) -> bool {
        self.changes.iter().all(|change| change.live)
    }

    /// Whether `after` is better than what was before, beyond noise.
    fn compare(&mut self, after: Measure) -> bool {
        self.after = Some(after);
        self.gain = self.yardstick.gain(&self.before, &after);
        self.gain.is_some_and(|gain| gain >= GAIN_MIN)
    }

    /// `44.0 ms median -> 317 us median`.
    pub(crate) fn comparison(&self) -> String {
        let is = self
            .after
            .as_ref()
            .map_or_else(String::new, |after| self.yardstick.show(after));
        format!("{} -> {is}", self.yardstick.show(&self.before))
    }
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

/// The main verdict, where it is a finding that is sure enough to act on.
fn finding(flow: Option<&FlowRow>) -> Option<&VerdictRow> {
    flow?
        .main()
        .filter(|verdict| verdict.finding && verdict.act)
}

/// The proposals of the smallest scope that can be carried out from here. Those of one scope belong
/// together (both ends of a connection, both windows of a route); wider ones are alternatives.
fn decide(verdict: &VerdictRow, subject: &mut dyn Subject) -> anyhow::Result<Decision> {
    let rows: Vec<&ChangeRow> = verdict.change.iter().chain(&verdict.alternatives).collect();
    if rows.is_empty() {
        return Ok(Decision::NoSettingHelps);
    }
    let mut reachable = Vec::new();
    for row in rows {
        if let Some(decided) = reach(row, subject)? {
            reachable.push((row.scope, decided));
        }
    }
    let Some(smallest) = reachable.iter().map(|(scope, _)| *scope).min() else {
        return Ok(Decision::OutOfReach);
    };
    let together = reachable
        .into_iter()
        .filter(|(scope, _)| *scope == smallest);
    Ok(Decision::Changes(
        together.map(|(_, decided)| decided).collect(),
    ))
}

/// The change that carries out a proposal, where one can be made from here.
fn reach(row: &ChangeRow, subject: &mut dyn Subject) -> anyhow::Result<Option<Decided>> {
    let Some(target) = row.target.clone().filter(|_| row.requires.is_none()) else {
        return Ok(None);
    };
    let change = Change {
        target,
        knob: row.knob.into(),
        to: row.to.clone(),
    };
    Ok(match row.takes_effect {
        Live::Now => Some(Decided {
            change,
            live: Live::Now,
        }),
        _ if !subject.can_reconnect() => None,
        Live::Reconnect => Some(Decided {
            change,
            live: Live::Reconnect,
        }),
        // Accepted sockets inherit the options of their listener, so that new connections are
        // reached without starting the program again.
        Live::Restart => subject.on_listener(&change)?.map(|change| Decided {
            change,
            live: Live::Reconnect,
        }),
    })
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

fn made(decided: &Decided, made: &Made) -> ChangeMade {
    ChangeMade {
        from: made.from.clone(),
        to: made.to.clone(),
        ..planned(decided)
    }
}

fn shown(change: &Change) -> String {
    base::find_knob(&change.knob)
        .map_or_else(|_| change.to.to_string(), |knob| knob.format(&change.to))
}
