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

/// What is seen of it.
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
        let waits = timeline.vote_of_all(|s| {
            // Of a connection on which all messages came so since it was opened.
            let is_part = !s.data_segs_in?.is_multiple_of(count);
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

/// As the module says. The time per operation has to be that of a delayed ACK of this end.
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
