//! Construction of verdicts.

use base::{FlowKey, KnobValue, Live, find_knob, human};
use core::time::Duration;

use super::thresholds::{LARGEST_BUFFER, LOCAL_RTT};
use crate::HostTimeline;
use crate::catalogue::find_diagnosis;
use crate::verdict::{Confidence, Evidence, NextLimit, Proposal, Side, Verdict};
use crate::view::View;

/// A verdict in the making.
pub(crate) struct Draft(Verdict);

impl Draft {
    /// The diagnosis `id`, which holds for `share` of the time.
    pub(crate) fn new(id: &'static str, share: f64, confidence: Confidence) -> Self {
        let diagnosis = find_diagnosis(id).expect("rules name diagnoses of the catalogue");
        Self(Verdict {
            diagnosis,
            limit: diagnosis.limit,
            share: if share.is_finite() {
                share.clamp(0.0, 1.0)
            } else {
                0.0
            },
            held: None,
            confidence,
            evidence: Vec::new(),
            saves: None,
            saves_most: None,
            next: None,
            proposals: Vec::new(),
            remark: String::new(),
        })
    }

    /// For advice: the limit of the flow beside it.
    pub(crate) fn beside(mut self, limit: base::Limit) -> Self {
        self.0.limit = Some(limit);
        self
    }

    /// A row of evidence.
    pub(crate) fn row(
        mut self,
        field: &'static str,
        observed: impl Into<String>,
        expected: impl Into<String>,
    ) -> Self {
        self.0.evidence.push(Evidence {
            field,
            observed: observed.into(),
            expected: expected.into(),
        });
        self
    }

    /// A row of evidence where the value is known.
    pub(crate) fn row_if(
        self,
        field: &'static str,
        observed: Option<String>,
        expected: impl Into<String>,
    ) -> Self {
        match observed {
            Some(observed) => self.row(field, observed, expected),
            None => self,
        }
    }

    /// The proposed change saves this much of the time of an operation.
    pub(crate) fn saves(mut self, share: f64) -> Self {
        self.0.saves = Some(share.clamp(0.0, 1.0));
        self.0.saves_most = self.0.saves;
        self
    }

    /// It may save as much.
    pub(crate) fn saves_up_to(mut self, share: f64) -> Self {
        let least = self.0.saves.unwrap_or(0.0);
        self.0.saves_most = Some(share.clamp(least, 1.0));
        self
    }

    /// Sets the limit that follows.
    pub(crate) fn next(mut self, next: Option<NextLimit>) -> Self {
        self.0.next = next;
        self
    }

    /// A change, smaller scopes before larger ones.
    pub(crate) fn propose(self, side: Side, remedy: Remedy) -> Self {
        self.push(side, None, remedy)
    }

    /// The same for the socket of another connection, which is `key` on the host that has it.
    pub(crate) fn propose_beside(self, side: Side, key: FlowKey, remedy: Remedy) -> Self {
        self.push(side, Some(key), remedy)
    }

    /// BBR, on the open connection or for all new ones to that destination.
    pub(crate) fn propose_bbr(self, side: Side, risk: &'static str) -> Self {
        let bbr = |knob, live, risk| Remedy {
            knob,
            to: KnobValue::Name("bbr".into()),
            live,
            risk,
        };
        let lasting = "as above, for all new connections to this destination; a host route keeps the \
                       next hop of today";
        self.propose(side, bbr("congestion", Live::Now, risk))
            .propose(side, bbr("route.congctl", Live::Reconnect, lasting))
    }

    /// On, at the ends where it is off; where neither is known to be off, where it is not known.
    pub(crate) fn propose_at_both_ends(self, view: &View<'_>, flag: &BothEnds) -> Self {
        let ends = [
            (view.sender_side, flag.sender),
            (view.receiver_side(), flag.receiver),
        ];
        ends.into_iter()
            .filter(|(_, value)| match value {
                Some(value) => *value == 0,
                None => !flag.is_off(),
            })
            .fold(self, |draft, (side, _)| {
                draft.propose(
                    side,
                    Remedy {
                        knob: flag.name,
                        to: KnobValue::Flag(true),
                        live: Live::Reconnect,
                        risk: "none known",
                    },
                )
            })
    }

    fn push(mut self, side: Side, beside: Option<FlowKey>, remedy: Remedy) -> Self {
        let knob = find_knob(remedy.knob).expect("rules name knobs of the table");
        self.0.proposals.push(Proposal {
            side,
            beside,
            knob,
            to: remedy.to,
            live: remedy.live,
            risk: remedy.risk,
        });
        self
    }

    /// The verdict, with what a person should know beside it.
    pub(crate) fn remark(mut self, remark: impl Into<String>) -> Verdict {
        self.0.remark = remark.into();
        self.0
    }
}

/// A change, the time of its effect, and its risks.
pub(crate) struct Remedy {
    pub(crate) knob: &'static str,
    pub(crate) to: KnobValue,
    pub(crate) live: Live,
    pub(crate) risk: &'static str,
}

/// A flag that both ends agree on in the handshake: off where one of their sysctls is 0.
pub(crate) struct BothEnds {
    pub(crate) name: &'static str,
    pub(crate) sender: Option<u64>,
    pub(crate) receiver: Option<u64>,
}

impl BothEnds {
    pub(crate) fn read(view: &View<'_>, name: &'static str) -> Self {
        let read = |host: Option<&HostTimeline>| host?.sysctl_number(name);
        Self {
            name,
            sender: read(view.sender_host),
            receiver: read(view.receiver_host),
        }
    }

    /// Whether one end is known to be off.
    pub(crate) fn is_off(&self) -> bool {
        self.sender == Some(0) || self.receiver == Some(0)
    }
}

/// The smallest round-trip time where a program's is meant: within a machine it is that of the
/// kernel alone, and programs take longer to wake up.
pub(crate) fn of_programs(min_rtt: Duration) -> String {
    let shown = human::time(min_rtt);
    match min_rtt < LOCAL_RTT {
        true => format!("at least {shown}"),
        false => shown,
    }
}

/// High where a setting or counter confirms it, else medium.
pub(crate) fn high_if(confirmed: bool) -> Confidence {
    if confirmed {
        Confidence::High
    } else {
        Confidence::Medium
    }
}

/// `tcp_rmem` or `tcp_wmem` with a third value of at least `memory` bytes and twice the `present`
/// one; the other two stay.
pub(crate) fn raised_maximum(present: [u64; 3], memory: u64) -> KnobValue {
    let [min, default, max] = present;
    let doubled = max.saturating_mul(2);
    let target = memory.min(LARGEST_BUFFER).max(doubled).min(i32::MAX as u64);
    KnobValue::Triple([min.min(target), default.min(target), target])
}
