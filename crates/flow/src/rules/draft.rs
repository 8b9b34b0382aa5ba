//! How a rule writes its verdict down.

use core::time::Duration;

use base::{FlowKey, KnobValue, Live, Rate, find_knob};

use super::thresholds::LARGEST_BUFFER;
use crate::catalogue::find_diagnosis;
use crate::verdict::{Confidence, Evidence, NextLimit, Proposal, Side, Verdict};

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
            confidence,
            evidence: Vec::new(),
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

    /// What limits the flow afterwards.
    pub(crate) fn next(mut self, next: Option<NextLimit>) -> Self {
        self.0.next = next;
        self
    }

    /// A change, smaller scopes before larger ones.
    pub(crate) fn propose(self, side: Side, change: Step) -> Self {
        self.push(side, None, change)
    }

    /// The same for the socket of another connection, which is `key` on the host that has it.
    pub(crate) fn propose_beside(self, side: Side, key: FlowKey, change: Step) -> Self {
        self.push(side, Some(key), change)
    }

    fn push(mut self, side: Side, beside: Option<FlowKey>, change: Step) -> Self {
        let knob = find_knob(change.knob).expect("rules name knobs of the table");
        self.0.proposals.push(Proposal {
            side,
            beside,
            knob,
            to: change.to,
            live: change.live,
            risk: change.risk,
        });
        self
    }

    /// The verdict, with what a person should know beside it.
    pub(crate) fn remark(mut self, remark: impl Into<String>) -> Verdict {
        self.0.remark = remark.into();
        self.0
    }
}

/// What to set, when it works and what it costs.
pub(crate) struct Step {
    pub(crate) knob: &'static str,
    pub(crate) to: KnobValue,
    pub(crate) live: Live,
    pub(crate) risk: &'static str,
}

/// `tcp_rmem` or `tcp_wmem` with a third value of at least `memory` bytes and twice the `present`
/// one; the other two stay.
pub(crate) fn raised_maximum(present: [u64; 3], memory: u64) -> KnobValue {
    let [min, default, max] = present;
    let doubled = max.saturating_mul(2);
    let target = memory.min(LARGEST_BUFFER).max(doubled).min(i32::MAX as u64);
    KnobValue::Triple([min.min(target), default.min(target), target])
}

/// `44.8 Mbit/s`.
pub(crate) fn show_rate(rate: Rate) -> String {
    let bits = rate.bits_per_second() as f64;
    match rate.bits_per_second() {
        0..1_000 => format!("{bits:.0} bit/s"),
        1_000..1_000_000 => format!("{:.1} kbit/s", bits / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} Mbit/s", bits / 1e6),
        _ => format!("{:.2} Gbit/s", bits / 1e9),
    }
}

/// `44.0 ms`.
pub(crate) fn show_time(time: Duration) -> String {
    let millis = time.as_secs_f64() * 1e3;
    if millis >= 10_000.0 {
        format!("{:.1} s", millis / 1e3)
    } else if millis >= 10.0 {
        format!("{millis:.1} ms")
    } else {
        format!("{millis:.2} ms")
    }
}

/// `97 %`, with decimals where they are all there is.
pub(crate) fn show_share(share: f64) -> String {
    let percent = share * 100.0;
    if percent > 0.0 && percent < 10.0 {
        format!("{percent:.2} %")
    } else {
        format!("{percent:.0} %")
    }
}

/// `65536 bytes`.
pub(crate) fn show_bytes(bytes: impl Into<u64>) -> String {
    format!("{} bytes", bytes.into())
}

/// `13 segments`.
pub(crate) fn show_pkts(pkts: impl Into<u64>) -> String {
    format!("{} segments", pkts.into())
}

/// `on`, `off`.
pub(crate) fn show_flag(on: bool) -> String {
    if on { "on" } else { "off" }.into()
}
