//! Nagle's algorithm against a delayed ACK, seen from the end that delays it.
//!
//! The other end writes a message in pieces. The first arrives at once; the next one comes when
//! this end's delayed ACK has gone out. Its program waits for the rest meanwhile and has nothing
//! unread, which looks like a program at work, if it were not for the count of segments.

use base::{FlowSample, human};

use super::draft::Draft;
use super::small_writes::{nodelay, quickack_route};
use super::thresholds::{
    DELAYED_ACK_TICKS, FEW_OPERATIONS, MOST_PIECES, SMALL_SEGMENT, STALL_SHARE, TICK,
};
use crate::timeline::Timeline;
use crate::verdict::{Confidence, Verdict};
use crate::view::View;

/// The MSS that the kernel guesses of small segments is theirs.
const SMALL_MSS: f64 = 536.0;

/// Observed properties of the messages.
struct Pieces {
    /// Segments of each message that arrives.
    count: u64,
    /// Share of the looks in which a part of a message has arrived, and the rest is late.
    waits: f64,
    /// Messages of this end, per second.
    operations: f64,
}

impl Pieces {
    /// `None` where messages do not come in a steady number of small pieces, each answered by one.
    fn read(timeline: &Timeline) -> Option<Self> {
        let arrived = timeline.counted(|s| s.data_segs_in)?;
        let answers = timeline.counted(|s| s.data_segs_out)?.max(1);
        let bytes = timeline.counted(|s| s.bytes_received)?;
        let count = (arrived + answers / 2) / answers;
        let is_steady = arrived.abs_diff(count * answers) * 10 <= arrived;
        let mss = f64::from(timeline.latest(|s| s.rcv_mss_bytes.or(s.snd_mss_bytes))?);
        let are_small = (bytes as f64) < arrived as f64 * mss.max(SMALL_MSS) * SMALL_SEGMENT;
        if !(2..=MOST_PIECES).contains(&count) || !is_steady || !are_small {
            return None;
        }
        let answered = answered_before(timeline, count);
        let waits = timeline.vote_of_all(|s| {
            let is_part = (beyond(s, count)? - answered).rem_euclid(count as i64) != 0;
            let nothing_unread = s.unread_bytes.unwrap_or(0) == 0;
            Some(is_part && nothing_unread && s.since_data_received? >= TICK)
        })?;
        Some(Self {
            count,
            waits,
            operations: answers as f64 / timeline.interval().as_secs_f64(),
        })
    }
}

/// Segments that arrived beyond those of the messages that were answered: none between two
/// messages, `count` while this end works on one, apart from what was said before the first.
fn beyond(s: &FlowSample, count: u64) -> Option<i64> {
    Some(s.data_segs_in? as i64 - (count * s.data_segs_out?) as i64)
}

/// Responses that preceded the first message (a TLS handshake, a login): the smallest number seen;
/// 0 if only one state was seen.
fn answered_before(timeline: &Timeline, count: u64) -> i64 {
    let least = timeline.smallest(|s| beyond(s, count)).unwrap_or(0);
    match timeline.largest(|s| beyond(s, count)) {
        Some(most) if most > least => least,
        _ => 0,
    }
}

/// See the module. The time per operation must match a delayed ACK of this end.
pub(crate) fn nagle_delack_stall(view: &View<'_>) -> Option<Verdict> {
    let here = view.receiver.filter(|_| view.sender.is_none())?;
    let pieces = Pieces::read(here)?;
    let delay = here.latest(|s: &FlowSample| s.ato)?;
    let each = 1.0 / pieces.operations.max(FEW_OPERATIONS);
    let most = delay + TICK * DELAYED_ACK_TICKS + here.srtt()? * 2;
    if pieces.waits < STALL_SHARE || each < delay.as_secs_f64() || each > most.as_secs_f64() {
        return None;
    }
    let acks = here.counted(|s| Some(s.segs_out?.saturating_sub(s.data_segs_out?)))?;
    let bare = acks as f64 / (pieces.operations * here.interval().as_secs_f64());
    Some(
        Draft::new("nagle-delack-stall", pieces.waits, Confidence::Medium)
            .saves(pieces.waits)
            .row(
                "data_segs_in / data_segs_out",
                format!("{} segments for each response", pieces.count),
                "1: one write per message",
            )
            .row(
                "since_data_received",
                format!(
                    "waiting for the rest of a message in {} of the samples",
                    human::share(pieces.waits)
                ),
                format!("below {}", human::share(STALL_SHARE)),
            )
            .row(
                "ato",
                format!(
                    "{}, and {} per operation",
                    human::time(delay),
                    human::time(core::time::Duration::from_secs_f64(each))
                ),
                "no operation waits for a timer",
            )
            .row(
                "segs_out - data_segs_out",
                format!("{bare:.1} ACKs without data per response"),
                "0: responses carry the ACKs",
            )
            .propose(view.sender_side, nodelay())
            .propose(view.receiver_side(), quickack_route())
            .remark(
                "In the program at the other end: one write per message (writev, MSG_MORE, a \
                 buffered writer), or TCP_NODELAY after connect and accept.",
            ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{FlowKey, Instant};
    use core::time::Duration;

    /// Messages of two pieces, each answered, behind `before` segments of a handshake. Looks find
    /// them between two messages, with one piece, or with both, as `states` says.
    fn answerer(before: u64, states: [u64; 4]) -> Timeline {
        let key = FlowKey {
            local: ([10, 0, 0, 2], 5000).into(),
            remote: ([10, 0, 0, 1], 40_000).into(),
        };
        let mut timeline = Timeline::new();
        for look in 0..100_u64 {
            let (message, state) = (look / 4, states[look as usize % 4]);
            let at = Instant::ZERO + Duration::from_millis(10 * look);
            timeline.push(FlowSample {
                data_segs_in: Some(before + 2 * message + state),
                data_segs_out: Some(1 + message),
                bytes_received: Some(500 + 128 * message),
                rcv_mss_bytes: Some(536),
                unread_bytes: Some(0),
                since_data_received: Some(Duration::from_millis(10)),
                ..FlowSample::empty(at, key)
            });
        }
        timeline
    }

    fn waits(before: u64, states: [u64; 4]) -> f64 {
        Pieces::read(&answerer(before, states)).map_or(0.0, |pieces| pieces.waits)
    }

    #[test]
    fn what_was_said_before_the_first_message_does_not_count() {
        for before in [2, 3, 4, 7] {
            assert!(waits(before, [0, 1, 1, 1]) > 0.7, "{before}: one piece");
            assert!(waits(before, [0, 2, 2, 2]) < 0.1, "{before}: at work");
        }
    }
}
