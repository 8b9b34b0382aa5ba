//! Connections that were opened before a change beside those that were opened after it, over the
//! same time: for changes that act on new connections only, of a program that makes new ones while
//! it keeps the old.
//!
//! A connection counts once, however often it is looked at: looks at one connection are not
//! independent of each other. What the traffic does meanwhile, it does to old and new ones alike.

use std::collections::{BTreeMap, BTreeSet};

use base::Instant;
use doctor::{Objective, Services, Track};
use lab::Measure;

use super::timing::Timing;
use super::{ACTS_AFTER, FitEvent, Work};
use crate::candidate::Candidate;
use crate::experiment::{Arm, Experiment, Outcome};
use crate::measure::{measurable, measure_of};
use crate::subject::{Look, Subject, Values};

/// Connections that are remembered; a program with more has enough of them.
const CONNECTIONS_MAX: usize = 1000;

/// One connection.
struct Member {
    arm: Arm,
    /// When it was seen first.
    since: Instant,
    /// Whether it carried something once it had warmed up.
    was_busy: bool,
    /// A measure for each look at it, from when it had warmed up.
    measures: Vec<Measure>,
}

impl<S: Subject + ?Sized> Work<'_, S> {
    /// Makes the change, and compares until the answer is significant. The change is in force
    /// afterwards.
    pub(super) fn side_by_side(
        &mut self,
        candidate: &Candidate,
        timing: Timing,
        values: &mut Option<Vec<Values>>,
    ) -> Result<Outcome, S::Error> {
        let look = self.look(timing.slice)?;
        let old: BTreeSet<u64> = look.here.flows.iter().map(|track| track.cookie).collect();
        let objective = measurable(candidate.objective, &look.measure);
        let place = candidate.place;
        let services = Services::of(&look.here);
        let of_service = |track: &Track| services.place(track.key) == place;
        self.make(candidate, &candidate.changes)?;
        if let Some(why) = self.spoiled() {
            return Ok(Experiment::side_by_side(objective).given_up(why));
        }
        *values = self.in_force.as_ref().map(|applied| applied.values.clone());
        self.wait(ACTS_AFTER)?;
        let mut members: BTreeMap<u64, Member> = BTreeMap::new();
        let mut asked = 0;
        loop {
            let experiment = experiment(objective, members.values());
            let looks = [Arm::A, Arm::B].map(|arm| measured(&members, arm));
            let looks = looks[0].min(looks[1]);
            if looks > asked && Experiment::is_asked_at(looks) {
                asked = looks;
                if let Some(outcome) = experiment.outcome() {
                    return Ok(outcome);
                }
            }
            let bound = self.bound(&experiment);
            if self.spent + timing.slice > bound {
                let outcome = experiment.out_of_time(bound);
                let why = (looks == 0).then(|| why_none(members.values()));
                return Ok(Outcome {
                    why: outcome.why.or(why),
                    ..outcome
                });
            }
            let look = self.look(timing.slice)?;
            let subject = &*self.subject;
            let wanted = |track: &Track| subject.wants(track) && of_service(track);
            let found = self.measured_in(&look, &old, &mut members, wanted);
            for (arm, measure) in &found {
                (self.tell)(self.subject, FitEvent::Compared(*arm, measure))?;
            }
        }
    }

    /// Notes what a look shows of each connection, where it shows old and new ones.
    fn measured_in(
        &self,
        look: &Look,
        old: &BTreeSet<u64>,
        members: &mut BTreeMap<u64, Member>,
        wanted: impl Fn(&Track) -> bool,
    ) -> Vec<(Arm, Measure)> {
        let mut found = Vec::new();
        for track in look.here.flows.iter().filter(|track| wanted(track)) {
            if members.len() >= CONNECTIONS_MAX && !members.contains_key(&track.cookie) {
                continue;
            }
            let is_old = old.contains(&track.cookie);
            let since = track.samples.first().map_or(look.here.began, |s| s.at);
            let member = members.entry(track.cookie).or_insert(Member {
                arm: if is_old { Arm::A } else { Arm::B },
                since,
                was_busy: false,
                measures: Vec::new(),
            });
            let is_warm = is_old || look.here.began.since(member.since) >= self.options.warm_up;
            if !is_warm || track.ended {
                continue;
            }
            let measure = measure_of(&look.here, |other| other.cookie == track.cookie);
            // One that had nothing to carry tells nothing: of a pool, the old connections may rest
            // while new ones are used.
            if measure.goodput_bps == 0 && measure.stalled_share.is_none() {
                continue;
            }
            member.was_busy = true;
            found.push((track.cookie, member.arm, measure));
        }
        let has = |arm| found.iter().any(|(_, found, _)| *found == arm);
        if !(has(Arm::A) && has(Arm::B)) {
            return Vec::new();
        }
        for (cookie, _, measure) in &found {
            if let Some(member) = members.get_mut(cookie) {
                member.measures.push(*measure);
            }
        }
        found
            .into_iter()
            .map(|(_, arm, measure)| (arm, measure))
            .collect()
    }
}

/// Why no look has shown old and new connections.
fn why_none<'m>(mut members: impl Iterator<Item = &'m Member>) -> &'static str {
    match members.any(|member| member.arm == Arm::B && member.was_busy) {
        true => "old and new connections were never busy at the same time",
        false => "no connection was opened that stayed",
    }
}

/// How many connections were measured.
fn measured(members: &BTreeMap<u64, Member>, arm: Arm) -> usize {
    let of_arm = members.values().filter(|member| member.arm == arm);
    of_arm.filter(|member| !member.measures.is_empty()).count()
}

/// Each connection with the look that is in the middle of its looks.
fn experiment<'m>(objective: Objective, members: impl Iterator<Item = &'m Member>) -> Experiment {
    let mut experiment = Experiment::side_by_side(objective);
    for member in members {
        let mut measures = member.measures.clone();
        let value = |measure: &Measure| measure.value(objective).unwrap_or(f64::MIN);
        measures.sort_by(|one, other| value(one).total_cmp(&value(other)));
        if let Some(middle) = measures.get(measures.len() / 2) {
            experiment.add(member.arm, *middle);
        }
    }
    experiment
}
