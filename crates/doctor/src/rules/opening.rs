//! Connections that do not open.

use base::human;

use super::draft::Draft;
use crate::timeline::Timeline;
use crate::verdict::{Confidence, Verdict};

/// The SYN was retransmitted at least once (RFC 9293 section 3.8.3), and nothing has come back.
pub(crate) fn connect_unanswered(timeline: &Timeline) -> Option<Verdict> {
    let opening = timeline.opening()?;
    if !timeline.is_empty() || opening.timeouts == 0 {
        return None;
    }
    let waited = opening.last.since(opening.first);
    let confidence = if opening.timeouts > 1 {
        Confidence::High
    } else {
        Confidence::Medium
    };
    Some(
        Draft::new("connect-unanswered", 1.0, confidence)
            .row("state", "syn-sent", "established after one round trip")
            .row(
                "timeouts",
                format!(
                    "{} in {}",
                    human::count(opening.timeouts, "SYN retransmission"),
                    human::time(waited)
                ),
                "0",
            )
            .remark(
                "No TCP setting helps, because no answer arrives: a firewall drops the packets, \
                 the host is down, or the accept queue of its program is full. Look at the other \
                 host, and at the firewalls in between.",
            ),
    )
}
