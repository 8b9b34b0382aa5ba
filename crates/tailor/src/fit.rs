//! The loop of `fit`: look, name the limit, try the changes against it one after the other, keep
//! what is better, look again, until nothing is left to improve.

mod done;
mod first_look;
mod given;
mod lasting;
mod side_by_side;
mod timing;

use std::time::Duration;

use base::{Change, Instant, Limit, Scope};
use doctor::{Confidence, Evidence, Objective};
use lab::Measure;
use serde::Serialize;

use crate::candidate::{Candidate, Design, NoCandidate, candidates};
use crate::experiment::{Answer, Arm, Experiment, Outcome};
use crate::measure::measurable;
use crate::subject::{Applied, Look, Subject, Undone, Values};
use crate::twin::Timing as Predicted;
use crate::what_if::{Forecast, forecast};
use done::Done;
pub use given::fit_given;
use timing::{Timing, timing};

/// Limits that are removed one after the other, at most. Every one of them was kept, so that more
/// would mean that two changes contradict each other.
const ROUNDS_MAX: usize = 8;
/// First looks in which no transfer ended, where transfers were seen before; then something else is
/// compared.
const EMPTY_LOOKS_MAX: u32 = 3;
/// A change acts on an open connection after this time, and after this many round trips.
const ACTS_AFTER: Duration = Duration::from_millis(300);
const ACTS_AFTER_RTTS: u32 = 20;
/// Connections that come and go slowly have been followed by others after this time.
const CONNECTION_ENDS: Duration = Duration::from_secs(10);
/// Why an experiment is given up whose setting does not stay as it left it.
const DISTURBED: &str = "something else has changed the setting meanwhile";
/// Why one is given up whose connections are gone.
const CLOSED: &str = "the connection closed before enough was measured; others are not compared \
                      with it, since they need not be like it";

/// Why one is given up whose connections are to other addresses than those it is for.
const UNREACHED: &str = "the clients are at more addresses than have the change: make it at the route \
                         that leads to all of them";

/// How the work is done.
#[derive(Clone, Copy, Debug)]
pub struct FitOptions {
    /// How long each look lasts that a limit is named from.
    pub observe: Duration,
    /// How long each look of an experiment lasts, at least.
    pub slice: Duration,
    /// Time that a change gets to act on an open connection, at most, where no timeout is waited
    /// for.
    pub settle: Duration,
    /// Time from new connections to the look at them.
    pub warm_up: Duration,
    /// How long one experiment may take.
    pub bound: Duration,
    /// How much longer while it is close to a result.
    pub extra: Duration,
    /// Stop after the first change that is kept.
    pub once: bool,
    /// Print the change and do not make it.
    pub dry_run: bool,
}

impl FitOptions {
    /// How a prediction has to look at an effect.
    const fn timing(&self) -> Predicted {
        Predicted {
            settle: self.settle,
            warm_up: self.warm_up,
            look: self.observe,
        }
    }
}

/// Progress of a fit, for reports.
#[derive(Debug)]
pub enum FitEvent<'s> {
    /// A look is done, and a limit is named from it.
    Looked(&'s Look),
    /// A candidate is about to be tried.
    Trying(&'s Finding, &'s Candidate, Design),
    /// Predicted effect, or the reason why it is unknown.
    Predicted(&'s Forecast),
    /// A look of an experiment is done.
    Compared(Arm, &'s Measure),
    /// An experiment is done.
    Tried(&'s Tried),
    /// Changes were undone that are not kept.
    Undone(&'s [Undone]),
}

/// Result of a fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// At least one change is better, and stays.
    Kept,
    /// The last change made things worse, and was rolled back.
    Worse,
    /// The change made no significant difference, and was rolled back.
    NotDistinguishable,
    /// The time that an experiment may take did not suffice.
    OutOfTime,
    /// The change was named only.
    DryRun,
    /// Nothing limits the connections that a change could remove.
    NothingToImprove,
    /// Their limit could not be determined.
    NoVerdict,
    /// A defect that no TCP setting removes.
    NoSettingHelps,
    /// The change has to be made on the other host, needs a permission, or needs new connections of
    /// a program that opens none.
    OutOfReach,
}

/// The limit of a connection.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// Id of the diagnosis.
    pub diagnosis: &'static str,
    /// In words.
    pub sentence: &'static str,
    /// The limit, where it is one.
    pub limit: Option<Limit>,
    /// Share of the time.
    pub share: f64,
    /// How sure.
    pub confidence: Confidence,
    /// Why.
    pub evidence: Vec<Evidence>,
}

/// A change of a setting.
#[derive(Clone, Debug, Serialize)]
pub struct ChangeMade {
    /// The setting.
    pub knob: String,
    /// Scope.
    pub target: String,
    /// The value before; empty where it was not made.
    pub from: String,
    /// The value with the change.
    pub to: String,
    /// Whether it acts on open connections.
    pub live: bool,
}

/// One candidate and its result.
#[derive(Clone, Debug, Serialize)]
pub struct Tried {
    /// The finding that it is to fix.
    pub finding: Finding,
    /// Changes made, or that would be made.
    pub changes: Vec<ChangeMade>,
    /// Risks.
    pub risk: &'static str,
    /// Predicted effect, from the look before the change.
    pub predicted: Option<Forecast>,
    /// The experiment; `None` for a dry run.
    pub outcome: Option<Outcome>,
    /// Whether they stay.
    pub kept: bool,
    /// Number of the transaction that stays.
    pub transaction: Option<u64>,
}

/// All that happened.
#[derive(Debug, Serialize)]
pub struct Fitting {
    /// Results of the program at first.
    pub before: Measure,
    /// Results in the last look, where something was kept.
    pub after: Option<Measure>,
    /// In order.
    pub tried: Vec<Tried>,
    /// The result.
    pub ending: Ending,
    /// Result of the search that followed a kept change.
    pub left: Option<Ending>,
}

/// Consequence of a look.
enum Next {
    Try(Finding, Timing, Vec<Candidate>),
    End(Ending),
}

/// Receives each event, with the subject.
pub type Tell<'t, S> = dyn FnMut(&S, FitEvent<'_>) -> Result<(), <S as Subject>::Error> + 't;

struct Work<'w, S: Subject + ?Sized> {
    subject: &'w mut S,
    options: &'w FitOptions,
    tell: &'w mut Tell<'w, S>,
    /// Candidates not to be tried again.
    done: Done,
    /// Kept changes: other connections may need them too.
    kept: Vec<Change>,
    /// Predicted effects of the candidates, by their texts.
    forecasts: Vec<(String, Forecast)>,
    /// Whether transfers were seen, so that looks may wait for one.
    has_transfers: bool,
    /// Unconfirmed changes that are in force.
    in_force: Option<Applied>,
    /// Values found when the experiment first made its change.
    found: Option<Vec<String>>,
    /// Whether something else has set what the experiment sets.
    is_disturbed: bool,
    /// Whether all connections have closed that the change is for.
    is_closed: bool,
    /// Since the experiment began.
    spent: Duration,
    /// When it began, by the time of the subject.
    began: Instant,
}

/// Runs the loop.
///
/// # Errors
/// Those of the subject; what was not kept by then is undone.
pub fn fit<S: Subject + ?Sized>(
    subject: &mut S,
    options: &FitOptions,
    tell: &mut Tell<'_, S>,
) -> Result<Fitting, S::Error> {
    let mut work = Work::new(subject, options, tell);
    let done = work.run();
    work.undone_on_error(done)
}

/// Makes a change without a comparison, and looks once: for callers that know what to expect.
/// `is_enough` says whether the open connection shows it; else new ones are looked at, where the
/// change reaches them and the subject opens some. The change is unconfirmed.
///
/// # Errors
/// Those of the subject.
pub fn apply_and_look<S: Subject + ?Sized>(
    subject: &mut S,
    options: &FitOptions,
    candidate: &Candidate,
    is_enough: impl Fn(&Measure) -> bool,
) -> Result<(Vec<ChangeMade>, Measure), S::Error> {
    let applied = subject
        .settings()
        .make(candidate.diagnosis, &candidate.changes)?;
    let mut changes = made(candidate, &applied.values);
    if candidate.live {
        subject.wait(options.settle)?;
        let measure = subject.look(options.observe)?.measure;
        // The kernel reads a route or a sysctl when it next has a reason to, and an open connection
        // may never give it one: a receive buffer grows only while more is read in a round trip
        // than in the one before (Linux 6.18, `tcp_rcv_space_adjust`).
        let reaches_new_ones = candidate.scope > Scope::Socket && subject.can_reconnect();
        if is_enough(&measure) || !reaches_new_ones {
            return Ok((changes, measure));
        }
        changes.iter_mut().for_each(|change| change.live = false);
    }
    subject.reconnect()?;
    subject.wait(options.warm_up)?;
    Ok((changes, subject.look(options.observe)?.measure))
}

impl<'w, S: Subject + ?Sized> Work<'w, S> {
    fn new(subject: &'w mut S, options: &'w FitOptions, tell: &'w mut Tell<'w, S>) -> Self {
        Self {
            subject,
            options,
            tell,
            done: Done::default(),
            kept: Vec::new(),
            forecasts: Vec::new(),
            has_transfers: false,
            in_force: None,
            found: None,
            is_disturbed: false,
            is_closed: false,
            spent: Duration::ZERO,
            began: Instant::ZERO,
        }
    }

    /// Passes `done` on, and undoes what is not kept if the work failed.
    fn undone_on_error<T>(&mut self, done: Result<T, S::Error>) -> Result<T, S::Error> {
        if done.is_err() {
            let undone = self.subject.settings().undo();
            // Reports the cause; a failure of the report itself is ignored.
            let _ = (self.tell)(self.subject, FitEvent::Undone(&undone));
        }
        done
    }

    fn run(&mut self) -> Result<Fitting, S::Error> {
        let mut look = self.first_look()?;
        (self.tell)(self.subject, FitEvent::Looked(&look))?;
        let before = look.measure;
        let mut tried: Vec<Tried> = Vec::new();
        let left = loop {
            let (finding, timing, found) = match self.next(&look)? {
                Next::Try(finding, timing, found) => (finding, timing, found),
                Next::End(left) => break left,
            };
            let measured = self.measured_service(&look, &found);
            self.has_transfers = measured.value(Objective::Transfer).is_some();
            self.forecasts = forecast(&look, (&found, &measured), self.options.timing());
            if self.options.dry_run {
                tried.extend(found.iter().map(|candidate| Tried {
                    predicted: self.forecast_of(candidate).cloned(),
                    ..planned(&finding, candidate)
                }));
                break Ending::DryRun;
            }
            let better = self.first_better(&finding, timing, found, &mut tried)?;
            let kept = tried.iter().filter(|tried| tried.kept).count();
            look = self.look(self.options.observe)?;
            if better {
                (self.tell)(self.subject, FitEvent::Looked(&look))?;
            }
            if (better && self.options.once) || kept >= ROUNDS_MAX {
                break match self.next(&look)? {
                    Next::Try(..) => Ending::Kept,
                    Next::End(left) => left,
                };
            }
        };
        let kept = tried.iter().any(|tried| tried.kept);
        let answer = tried.last().and_then(|tried| tried.outcome.as_ref());
        let ending = match answer {
            _ if kept => Ending::Kept,
            Some(outcome) if outcome.answer == Answer::Worse => Ending::Worse,
            Some(outcome) if outcome.time_limit_s.is_some() => Ending::OutOfTime,
            Some(_) => Ending::NotDistinguishable,
            None => left,
        };
        Ok(Fitting {
            before,
            after: kept.then_some(look.measure),
            tried,
            ending,
            left: kept.then_some(left),
        })
    }

    /// Results of the service that the candidates are for, as the runs of an experiment have them.
    fn measured_service(&self, look: &Look, found: &[Candidate]) -> Measure {
        match found.first() {
            Some(first) => self.subject.measure_of_service(look, first.place),
            None => look.measure,
        }
    }

    fn forecast_of(&self, candidate: &Candidate) -> Option<&Forecast> {
        let text = candidate.text();
        let mut all = self.forecasts.iter();
        all.find_map(|(of, forecast)| (*of == text).then_some(forecast))
    }

    /// Tries one candidate after the other until one is better.
    fn first_better(
        &mut self,
        finding: &Finding,
        timing: Timing,
        found: Vec<Candidate>,
        tried: &mut Vec<Tried>,
    ) -> Result<bool, S::Error> {
        for candidate in found {
            let result = self.try_out(finding, timing, &candidate)?;
            (self.tell)(self.subject, FitEvent::Tried(&result))?;
            let is_kept = result.kept;
            match is_kept {
                false => self.done.leave(&candidate, result.outcome.as_ref()),
                true => self.done.keep(&candidate),
            }
            tried.push(result);
            if is_kept {
                self.kept.extend(candidate.changes);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Next step after a look: the most important finding that has untried candidates.
    fn next(&mut self, look: &Look) -> Result<Next, S::Error> {
        let (options, done, kept) = (self.options, self.done.names(), &self.kept);
        let subject = &mut *self.subject;
        look.observed(|observed| {
            let mut answers = observed.answers(|track| subject.wants(track));
            for answered in &mut answers {
                lasting::note(answered, look, (kept, done), subject)?;
            }
            let mut left = match answers.first() {
                Some(first) if first.is_unsure() => match first.is_for_the_other_end() {
                    true => Ending::OutOfReach,
                    false => Ending::NoVerdict,
                },
                Some(first) if first.main().is_some() => Ending::NothingToImprove,
                _ => Ending::NoVerdict,
            };
            for (index, answered) in answers.iter().enumerate() {
                // Another connection is the cause, and has its own answer.
                let is_behind = index > 0 && answered.is_held_up;
                let Some(verdict) = answered.actionable().filter(|_| !is_behind) else {
                    continue;
                };
                let mut found = match candidates(answered, subject)? {
                    Ok(found) => found,
                    Err(why) => {
                        if left == Ending::NothingToImprove {
                            left = match why {
                                NoCandidate::NoSetting => Ending::NoSettingHelps,
                                NoCandidate::OutOfReach => Ending::OutOfReach,
                            };
                        }
                        continue;
                    }
                };
                let can_reconnect = subject.can_reconnect();
                found.retain(|candidate| candidate.is_left((kept, done), can_reconnect));
                for candidate in &mut found {
                    candidate.extend_to(&answers, index, subject)?;
                }
                if !found.is_empty() {
                    return Ok(Next::Try(
                        Finding::of(verdict),
                        timing(answered, options),
                        found,
                    ));
                }
                left = Ending::NotDistinguishable;
            }
            Ok(Next::End(left))
        })
    }

    /// Tries a candidate; the changes are in force afterwards if and only if they are kept.
    fn try_out(
        &mut self,
        finding: &Finding,
        timing: Timing,
        candidate: &Candidate,
    ) -> Result<Tried, S::Error> {
        let timing = match candidate.outlasts_a_look() {
            true => timing.with_settle(CONNECTION_ENDS),
            false => timing,
        };
        let can_reconnect = self.subject.can_reconnect();
        let design = candidate.design(can_reconnect);
        let design = design.expect("the others were sorted out");
        (self.tell)(self.subject, FitEvent::Trying(finding, candidate, design))?;
        let predicted = self.forecast_of(candidate).cloned();
        if let Some(predicted) = &predicted {
            (self.tell)(self.subject, FitEvent::Predicted(predicted))?;
        }
        self.start_clock();
        let mut values = None;
        let mut outcome = match design {
            Design::SideBySide => self.side_by_side(candidate, timing, &mut values)?,
            _ => self.compare(candidate, design, timing, &mut values)?,
        };
        if outcome.answer == Answer::Better {
            if self.in_force.is_none() {
                self.enter(Arm::B, candidate, design, timing)?;
            }
            if let Some(why) = self.spoiled() {
                outcome.answer = Answer::NotDistinguishable;
                outcome.why = Some(why);
            }
            if design == Design::BeforeAfter && self.still_limits(candidate)? {
                outcome.answer = Answer::NotDistinguishable;
                outcome.why = Some("the limit is still there, so that something else changed");
            }
        }
        let kept = outcome.answer == Answer::Better;
        let mut tried = Tried {
            changes: made(candidate, values.as_deref().unwrap_or_default()),
            kept,
            predicted,
            ..planned(finding, candidate)
        };
        if kept {
            self.subject
                .settings()
                .verified(true, &comparison(&outcome))?;
            self.subject.settings().keep()?;
            tried.transaction = self.in_force.take().and_then(|applied| applied.transaction);
        } else {
            self.take_back(design)?;
        }
        tried.outcome = Some(outcome);
        Ok(tried)
    }

    /// Looks at A and B in turn until the answer is significant.
    fn compare(
        &mut self,
        candidate: &Candidate,
        design: Design,
        timing: Timing,
        values: &mut Option<Vec<Values>>,
    ) -> Result<Outcome, S::Error> {
        let of = |objective| match design {
            Design::BeforeAfter => Experiment::before_after(objective),
            _ => Experiment::alternating(objective),
        };
        let (mut experiment, mut empty_looks) = (of(candidate.objective), 0);
        let needed = self.least_time(&experiment, candidate, design, timing);
        if needed > self.options.bound {
            return Ok(experiment.too_long(needed, self.options.bound));
        }
        loop {
            if let Some(outcome) = experiment.outcome() {
                return Ok(outcome);
            }
            let arm = experiment.next();
            let switches = (arm == Arm::B) != self.in_force.is_some();
            let enter = self.time_to_enter((arm, switches), candidate, design, timing);
            let cost = enter + timing.slice;
            let bound = self.bound(&experiment);
            if self.spent + cost > bound {
                return Ok(experiment.out_of_time(bound));
            }
            self.enter(arm, candidate, design, timing)?;
            if let Some(why) = self.spoiled() {
                return Ok(experiment.given_up(why));
            }
            if let Some(applied) = &self.in_force {
                *values = Some(applied.values.clone());
            }
            let look = self.look(timing.slice)?;
            if arm == Arm::B && candidate.misses_most(&look) {
                return Ok(experiment.given_up(UNREACHED));
            }
            let measure = self.subject.measure_of_service(&look, candidate.place);
            if experiment.is_first() {
                let seen = measurable(candidate.objective, &measure);
                empty_looks += 1;
                let may_wait = self.has_transfers && empty_looks <= EMPTY_LOOKS_MAX;
                if !(may_wait && candidate.objective == Objective::Transfer) {
                    experiment = of(seen);
                }
            }
            (self.tell)(self.subject, FitEvent::Compared(arm, &measure))?;
            experiment.add(arm, measure);
        }
    }

    /// How long this experiment may take: longer where its result is close. What has to be shown
    /// for a gain stays the same.
    fn bound(&self, experiment: &Experiment) -> Duration {
        let extra = match experiment.is_close() {
            true => self.options.extra,
            false => Duration::ZERO,
        };
        self.options.bound + extra
    }

    /// Why the experiment cannot continue: overwriting a foreign change would be wrong, and A is no
    /// longer what it was.
    fn spoiled(&self) -> Option<&'static str> {
        match (self.is_disturbed, self.is_closed) {
            (true, _) => Some(DISTURBED),
            (_, true) => Some(CLOSED),
            _ => None,
        }
    }

    /// How long the shortest experiment takes.
    fn least_time(
        &self,
        experiment: &Experiment,
        candidate: &Candidate,
        design: Design,
        timing: Timing,
    ) -> Duration {
        let mut before = Arm::A;
        let time = |arm| {
            let switches = arm != core::mem::replace(&mut before, arm);
            self.time_to_enter((arm, switches), candidate, design, timing) + timing.slice
        };
        experiment.shortest().into_iter().map(time).sum()
    }

    /// How long it takes until A or B can be looked at, where that switches or not.
    fn time_to_enter(
        &self,
        (arm, switches): (Arm, bool),
        candidate: &Candidate,
        design: Design,
        timing: Timing,
    ) -> Duration {
        let anew = match arm {
            Arm::B if candidate.is_of_one_connection() => ACTS_AFTER + timing.settle,
            _ => Duration::ZERO,
        };
        match design {
            Design::NewConnections => timing.warm_up + anew,
            _ if switches => timing.settle,
            _ => Duration::ZERO,
        }
    }

    /// Establishes A or B.
    fn enter(
        &mut self,
        arm: Arm,
        candidate: &Candidate,
        design: Design,
        timing: Timing,
    ) -> Result<(), S::Error> {
        let is_in_force = self.in_force.is_some();
        if design != Design::NewConnections {
            match (arm, is_in_force) {
                (Arm::B, false) => self.make(candidate, &candidate.changes)?,
                (Arm::A, true) => drop(self.undo()),
                _ => return Ok(()),
            }
            return self.wait(timing.settle);
        }
        let each_its_own = candidate.is_of_one_connection();
        match (arm, is_in_force) {
            (Arm::A, true) => drop(self.undo()),
            (Arm::B, true) if each_its_own => drop(self.undo()),
            (Arm::B, false) if !each_its_own => self.make(candidate, &candidate.changes)?,
            _ => {}
        }
        self.subject.reconnect()?;
        self.wait(timing.warm_up)?;
        if arm == Arm::B && each_its_own {
            let look = self.look(ACTS_AFTER)?;
            let changes = self.again(candidate, &look);
            self.make(candidate, &changes)?;
            self.wait(timing.settle)?;
        }
        Ok(())
    }

    /// The changes for the connections that have taken the place of the first ones.
    fn again(&self, candidate: &Candidate, look: &Look) -> Vec<Change> {
        look.observed(|observed| {
            let answers = observed.answers(|track| self.subject.wants(track));
            let same = answers
                .iter()
                .filter(|answered| answered.case.place() == candidate.place);
            let again = same.filter_map(|answered| candidate.again(answered));
            let changes: Vec<Change> = again.take(candidate.connections()).flatten().collect();
            // Then it fails with the reason.
            match changes.is_empty() {
                true => candidate.changes.clone(),
                false => changes,
            }
        })
    }

    /// Whether the finding is still what limits the connections.
    fn still_limits(&mut self, candidate: &Candidate) -> Result<bool, S::Error> {
        let look = self.look(self.options.observe)?;
        Ok(look.observed(|observed| {
            let answers = observed.answers(|track| self.subject.wants(track));
            answers.iter().any(|answered| {
                answered.case.place() == candidate.place
                    && answered
                        .actionable()
                        .is_some_and(|verdict| verdict.diagnosis.id == candidate.diagnosis)
            })
        }))
    }

    fn make(&mut self, candidate: &Candidate, changes: &[Change]) -> Result<(), S::Error> {
        let reason = format!("fit: {}", candidate.diagnosis);
        let applied = self.subject.settings().make(&reason, changes)?;
        self.is_closed |= applied.all_closed;
        if applied.all_closed {
            return Ok(());
        }
        // A program may well set the options of its own sockets, and new ones have others.
        if candidate.scope > Scope::Socket {
            let from = applied.values.iter().map(|values| values.from.clone());
            let from: Vec<String> = from.collect();
            self.is_disturbed |= self.found.as_ref().is_some_and(|found| *found != from);
            self.found.get_or_insert(from);
        }
        self.in_force = Some(applied);
        Ok(())
    }

    fn undo(&mut self) -> Vec<Undone> {
        self.in_force = None;
        let undone = self.subject.settings().undo();
        self.is_disturbed |= undone.iter().any(|undone| undone.is_theirs);
        undone
    }

    /// Undoes what is not kept, and gives the program connections without it.
    fn take_back(&mut self, design: Design) -> Result<(), S::Error> {
        if self.in_force.is_none() {
            return Ok(());
        }
        let undone = self.undo();
        (self.tell)(self.subject, FitEvent::Undone(&undone))?;
        if design == Design::NewConnections {
            self.subject.reconnect()?;
            self.wait(self.options.warm_up)?;
        }
        Ok(())
    }

    /// The experiment begins.
    fn start_clock(&mut self) {
        self.began += self.spent;
        self.spent = Duration::ZERO;
        (self.found, self.is_disturbed, self.is_closed) = (None, false, false);
    }

    /// Looks. What was spent follows the subject's own time, in which a switch of connections or a
    /// busy machine may cost more than was planned.
    fn look(&mut self, time: Duration) -> Result<Look, S::Error> {
        let look = self.subject.look(time)?;
        if self.began == Instant::ZERO {
            self.began = look.here.began;
        }
        self.spent = (self.spent + time).max(look.here.ended.since(self.began));
        Ok(look)
    }

    fn wait(&mut self, time: Duration) -> Result<(), S::Error> {
        self.spent += time;
        self.subject.wait(time)
    }
}

impl Finding {
    fn of(verdict: &doctor::Verdict) -> Self {
        Self {
            diagnosis: verdict.diagnosis.id,
            sentence: verdict.diagnosis.sentence,
            limit: verdict.limit,
            share: verdict.share,
            confidence: verdict.confidence,
            evidence: verdict.evidence.clone(),
        }
    }
}

/// The changes of a candidate, with the values read before and after where they were made.
fn made(candidate: &Candidate, values: &[Values]) -> Vec<ChangeMade> {
    let change = |(at, change): (usize, &Change)| ChangeMade {
        knob: change.knob.clone(),
        target: change.target.to_string(),
        from: values.get(at).map_or_else(String::new, |v| v.from.clone()),
        to: match (values.get(at), base::find_knob(&change.knob)) {
            (Some(values), _) => values.to.clone(),
            (None, Ok(knob)) => knob.format(&change.to),
            (None, Err(_)) => change.to.to_string(),
        },
        live: candidate.live,
    };
    let changes = candidate.changes.iter().enumerate();
    changes.map(change).collect()
}

fn planned(finding: &Finding, candidate: &Candidate) -> Tried {
    Tried {
        finding: finding.clone(),
        changes: made(candidate, &[]),
        risk: candidate.risk,
        predicted: None,
        outcome: None,
        kept: false,
        transaction: None,
    }
}

/// `44.0 ms median -> 317 us median`; what was compared by the time in flight says so.
#[must_use]
pub fn comparison(outcome: &Outcome) -> String {
    let shown = |value: Option<f64>| {
        value.map_or_else(
            || "nothing".into(),
            |value| lab::show_value(outcome.objective, value),
        )
    };
    let per = match outcome.while_in_flight {
        true => " while data is in flight",
        false => "",
    };
    format!("{} -> {}{per}", shown(outcome.before), shown(outcome.after))
}
