//! Verdicts on a flow.

use core::fmt;

use base::{FlowKey, Instant, Knob, KnobValue, Limit, Live, Rate, human};

use crate::catalogue::Diagnosis;

/// How sure a verdict is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Confidence {
    /// The signal is there, but other causes may explain it.
    Low,
    /// The signal is there and other causes were ruled out.
    Medium,
    /// A setting or counter that only this cause has confirms it.
    High,
}

/// One row of evidence: what was seen, and what the rule asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Evidence {
    /// Name of the field, as in `FlowSample`, `nstat` or sysctl.
    pub field: &'static str,
    /// Observed value, with its unit.
    pub observed: String,
    /// Threshold of the rule, with its unit.
    pub expected: String,
}

/// On which host a change has to be made, seen from the host that was observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Side {
    /// Here.
    Local,
    /// On the host at the other end.
    Remote,
}

impl Side {
    pub(crate) fn other(self) -> Self {
        match self {
            Self::Local => Self::Remote,
            Self::Remote => Self::Local,
        }
    }
}

/// A change that would help. It names the knob, whose scope is a kind of object; the caller
/// determines which socket, route, interface or namespace that is.
#[derive(Clone, Debug)]
pub struct Proposal {
    /// Which host.
    pub side: Side,
    /// For a knob of a socket: the connection it belongs to as that host sees it, where that is
    /// another one than the observed.
    pub beside: Option<FlowKey>,
    /// Which setting.
    pub knob: &'static Knob,
    /// The value to set.
    pub to: KnobValue,
    /// When it takes effect.
    pub live: Live,
    /// Possible drawbacks.
    pub risk: &'static str,
}

/// The limit that would follow if this verdict's were removed.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct NextLimit {
    /// In words, such as `at most 13.1 Mbit/s (window scale: 65535 bytes per round trip)`.
    pub what: String,
    /// The rate that it permits, if known; `rate_bps` in JSON, in bit/s.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "rate_bps", serialize_with = "rate_bps")
    )]
    pub rate: Option<Rate>,
}

impl fmt::Display for NextLimit {
    /// The description, with the rate if that does not contain it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        match self.rate.map(human::rate) {
            Some(rate) if !self.what.contains(&rate) => write!(f, " ({rate})"),
            _ => Ok(()),
        }
    }
}

#[cfg(feature = "serde")]
fn rate_bps<S: serde::Serializer>(rate: &Option<Rate>, serializer: S) -> Result<S::Ok, S::Error> {
    serde::Serialize::serialize(&rate.map(Rate::bits_per_second), serializer)
}

/// One answer to "what limits this flow", with its reasons.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// Which diagnosis, with its id, sentence and kind.
    pub diagnosis: &'static Diagnosis,
    /// The limit it refines; for advice, what the flow's limit is beside it.
    pub limit: Option<Limit>,
    /// Share of the observed time, 0 to 1.
    pub share: f64,
    /// The first and the last time at which the limit held, of the samples of the sender; `None`
    /// where they do not show it by themselves.
    pub held: Option<(Instant, Instant)>,
    /// How sure.
    pub confidence: Confidence,
    /// Why.
    pub evidence: Vec<Evidence>,
    /// Share of the time of an operation that the proposed change saves, where arithmetic tells.
    pub saves: Option<f64>,
    /// The most of it that it may save: as much, where nothing else decides.
    pub saves_most: Option<f64>,
    /// The limit that follows.
    pub next: Option<NextLimit>,
    /// Proposed changes, smallest scope first. Empty where no TCP setting helps.
    pub proposals: Vec<Proposal>,
    /// Advice on the program or the path, or the reason why no TCP setting helps.
    pub remark: String,
}

impl Verdict {
    /// Whether it is sure enough to act on.
    #[must_use]
    pub fn is_sure(&self) -> bool {
        self.confidence >= self.diagnosis.act_from
    }

    /// Whether it is a finding that is sure enough to act on.
    #[must_use]
    pub fn is_actionable(&self) -> bool {
        self.diagnosis.is_finding() && self.is_sure()
    }

    /// Whether it is a finding without enough evidence to act on: neither an answer nor a sign that
    /// all is well.
    #[must_use]
    pub fn is_unsure(&self) -> bool {
        self.diagnosis.is_finding() && !self.is_sure()
    }

    /// Whether it is a finding whose cause can only be confirmed, and removed, on the host at the
    /// other end: a longer look from here tells no more. Not if too little was seen.
    #[must_use]
    pub fn is_for_the_other_end(&self) -> bool {
        let mut sides = self.proposals.iter().map(|proposal| proposal.side);
        self.diagnosis.is_finding()
            && self.confidence >= Confidence::Medium
            && !self.proposals.is_empty()
            && sides.all(|side| side == Side::Remote)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::find_diagnosis;

    /// What a diagnosis requires is its own: a wrong change of a buffer costs more than one of
    /// Nagle's algorithm.
    #[test]
    fn a_finding_is_sure_where_its_diagnosis_says_so() {
        let check = |id, confidence, [sure, actionable, unsure]: [bool; 3]| {
            let verdict = Verdict {
                diagnosis: find_diagnosis(id).expect("in the catalogue"),
                limit: None,
                share: 1.0,
                held: None,
                confidence,
                evidence: Vec::new(),
                saves: None,
                saves_most: None,
                next: None,
                proposals: Vec::new(),
                remark: String::new(),
            };
            let found = [
                verdict.is_sure(),
                verdict.is_actionable(),
                verdict.is_unsure(),
            ];
            assert_eq!(found, [sure, actionable, unsure], "{id} {confidence:?}");
        };
        check("rcvbuf-locked", Confidence::High, [true, true, false]);
        check("rcvbuf-locked", Confidence::Medium, [false, false, true]);
        check(
            "nagle-delack-stall",
            Confidence::Medium,
            [true, true, false],
        );
        check("nagle-delack-stall", Confidence::Low, [false, false, true]);
        // No finding: nothing to act on, however sure.
        check("app-limited", Confidence::High, [true, false, false]);
        check("app-limited", Confidence::Low, [false, false, false]);
    }
}
