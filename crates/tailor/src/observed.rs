//! What was recorded at one end of connections, or at both, and what the doctor says of each.

use std::sync::Arc;

use base::{FlowKey, Instant, Netns};
use doctor::{Case, Cases, Recording, Report, Timeline, Track, Verdict};

use crate::targets::{End, Ends};

/// The cases of one namespace, and of another one that was recorded at the same time.
#[derive(Debug)]
pub struct Observed<'r> {
    netns: &'r Netns,
    began: Instant,
    recording: &'r Recording,
    cases: Cases<'r>,
    elsewhere: Option<&'r Netns>,
}

/// One connection, or several short ones of one service, with the doctor's answer.
#[derive(Debug)]
pub struct Answered<'o, 'r> {
    /// What is known of it.
    pub case: Case<'o, 'r>,
    /// What the doctor says.
    pub report: Report,
    /// Where its settings are.
    pub ends: Ends,
    /// The program keeps several connections of this service open for long, and opened one of them
    /// while it was watched.
    pub is_pool: bool,
}

impl<'r> Observed<'r> {
    /// Those of `recording`, which was made in `netns`.
    #[must_use]
    pub fn new(recording: &'r Recording, netns: &'r Netns) -> Self {
        Self {
            netns,
            began: recording.began,
            recording,
            cases: Cases::of(recording),
            elsewhere: None,
        }
    }

    /// The same connections, whose other ends are in `elsewhere`.
    #[must_use]
    pub fn with_other_ends(mut self, elsewhere: &'r Self) -> Self {
        self.elsewhere = Some(elsewhere.netns);
        self.cases = self.cases.with_other_ends(&elsewhere.cases);
        self
    }

    /// The cases.
    #[must_use]
    pub const fn cases(&self) -> &Cases<'r> {
        &self.cases
    }

    /// The namespace.
    #[must_use]
    pub const fn netns(&self) -> &'r Netns {
        self.netns
    }

    /// When the recording began.
    #[must_use]
    pub const fn began(&self) -> Instant {
        self.began
    }

    /// Asks the doctor about every connection that is `wanted`; the most important first.
    pub fn answers(&self, wanted: impl Fn(&Track) -> bool) -> Vec<Answered<'_, 'r>> {
        let mut answers = Vec::new();
        self.each_answer(wanted, |answered| answers.push(answered));
        answers.sort_by(|a, b| b.rank().total_cmp(&a.rank()));
        answers
    }

    /// The same one after the other, in no order that means something: where there are very many,
    /// all answers at once would take more memory than what was recorded.
    pub fn each_answer<'o>(
        &'o self,
        wanted: impl Fn(&Track) -> bool,
        mut take: impl FnMut(Answered<'o, 'r>),
    ) {
        for case in self.cases.select(wanted) {
            take(self.answer(case));
        }
    }

    fn answer<'o>(&'o self, case: Case<'o, 'r>) -> Answered<'o, 'r> {
        let report = case.diagnose();
        let other = case.other_end();
        let ends = Ends {
            local: self.end(&self.cases, case.track()),
            remote: other.map(|(cases, track)| self.end(cases, track)),
            beside: report
                .verdicts
                .iter()
                .flat_map(|verdict| self.ends_beside(verdict))
                .collect(),
        };
        Answered {
            is_pool: self.is_pool(case.track()),
            case,
            report,
            ends,
        }
    }

    /// Whether the service of a connection is a pool: one was opened, and more stay than go.
    fn is_pool(&self, track: &Track) -> bool {
        let first_look = self.recording.first_look();
        // A connection that ended early does not show its process.
        let is_same = |other: Option<u32>| {
            other.is_none() || track.pid().is_none_or(|own| other == Some(own))
        };
        let place = self.cases.place(track.key);
        let of_service =
            |other: &&Track| self.cases.place(other.key) == place && is_same(other.pid());
        let (mut opened, mut stayed, mut went) = (0, 0, 0);
        for other in self.recording.flows.iter().filter(of_service) {
            match (other.ended, other.was_open_at(first_look)) {
                (true, _) => went += 1,
                (false, true) => stayed += 1,
                (false, false) => opened += 1,
            }
        }
        opened > 0 && stayed > 0 && went <= stayed
    }

    /// The ends of other connections that a verdict wants to change.
    fn ends_beside(&self, verdict: &Verdict) -> Vec<End> {
        let keys = verdict
            .proposals
            .iter()
            .filter_map(|proposal| proposal.beside);
        let end = |key: FlowKey| {
            let (cases, track) = self.cases.find(key)?;
            Some(self.end(cases, track))
        };
        keys.filter_map(end).collect()
    }

    /// One end, in the cases of this namespace or of the other one.
    fn end(&self, cases: &Cases<'r>, track: &Track) -> End {
        let is_here = std::ptr::eq(cases, &raw const self.cases);
        let netns = match self.elsewhere {
            Some(elsewhere) if !is_here => elsewhere,
            _ => self.netns,
        };
        End {
            netns: netns.clone(),
            key: track.key,
            cookie: Some(track.cookie),
            pid: track.pid(),
            link: cases.interface(track),
        }
    }
}

impl Answered<'_, '_> {
    /// What limits it, where that could be said.
    #[must_use]
    pub fn main(&self) -> Option<&Verdict> {
        self.report.main()
    }

    /// The main verdict, where it is a finding that is sure enough to act on.
    #[must_use]
    pub fn actionable(&self) -> Option<&Verdict> {
        self.main().filter(|verdict| {
            verdict.diagnosis.is_finding() && verdict.confidence >= verdict.diagnosis.act_from
        })
    }

    /// Its samples as one timeline.
    #[must_use]
    pub fn timeline(&self) -> Arc<Timeline> {
        self.case.timeline()
    }

    /// Findings first, then connections that do something; within them by share.
    fn rank(&self) -> f64 {
        match self.main() {
            Some(verdict) if verdict.diagnosis.is_finding() => 3.0 + verdict.share,
            Some(verdict) => 1.0 + verdict.share,
            None => 0.0,
        }
    }
}
