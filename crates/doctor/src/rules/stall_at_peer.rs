//! Nagle's algorithm against a delayed ACK, seen from the end that delays it.
//!
//! The other end writes a message in pieces. The first arrives at once; the next one comes when
//! this end's delayed ACK has gone out. Its program waits for the rest meanwhile and has nothing
//! unread, which looks like a program at work, if it were not for the count of segments.

use base::{FlowSample, human};
use core::time::Duration;

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

/// Ends of waits that must be known to tell what they were for, and how many arrivals there must be
/// for each time that this end went on by itself.
const KNOWN_ENDS: usize = 3;
const ARRIVALS_PER_SENDING: usize = 4;

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
    /// `None` if messages do not come in a steady number of small segments, each answered by one.
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
        let order_shows = order_shows(timeline);
        let waits = timeline.vote_of_all(|s| {
            let is_part = (beyond(s, count)? - answered).rem_euclid(count as i64) != 0;
            let nothing_unread = s.unread_bytes.unwrap_or(0) == 0;
            // What left with the last arrival, or after it, is a question, and what is waited for
            // is its answer: a screen that is asked for again when it has come.
            let asks = order_shows && s.since_data_sent <= s.since_data_received;
            Some(is_part && nothing_unread && !asks && s.since_data_received? >= TICK)
        })?;
        Some(Self {
            count,
            waits,
            operations: answers as f64 / timeline.interval().as_secs_f64(),
        })
    }
}

/// Whether a round trip is long enough to tell an answer from what left at the same time: the times
/// since sending and receiving are known to a kernel tick.
fn order_shows(timeline: &Timeline) -> bool {
    timeline.min_rtt().is_some_and(|rtt| rtt >= TICK)
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

/// Waits of this end for the rest of a message, where each of its own messages takes several
/// segments, so that their number does not tell the messages apart.
struct Waits {
    /// How long each has lasted when it was last seen, in order.
    lasted: Vec<Duration>,
    /// Known to end when more arrived, before anything was sent.
    by_arrival: usize,
    /// ... and when this end sent something, so that its program had been at work.
    by_sending: usize,
}

impl Waits {
    fn read(timeline: &Timeline) -> Self {
        let order_shows = order_shows(timeline);
        let mut waits = Self {
            lasted: Vec::new(),
            by_arrival: 0,
            by_sending: 0,
        };
        let mut samples = timeline.samples().peekable();
        while let Some(s) = samples.next() {
            let Some(next) = samples.peek() else { break };
            let more = |read: fn(&FlowSample) -> Option<u64>| read(next)?.checked_sub(read(s)?);
            let (Some(arrived), Some(sent)) = (more(|s| s.data_segs_in), more(|s| s.data_segs_out))
            else {
                continue;
            };
            if (arrived, sent) == (0, 0) || awaits_rest(s) != Some(true) {
                continue;
            }
            waits.lasted.extend(s.since_data_received);
            let arrived_first = next.since_data_sent <= next.since_data_received;
            match (arrived, sent) {
                (0, _) => waits.by_sending += 1,
                (_, 0) => waits.by_arrival += 1,
                (1, _) if order_shows && arrived_first => waits.by_arrival += 1,
                (1, _) if order_shows => waits.by_sending += 1,
                _ => {}
            }
        }
        waits.lasted.sort_unstable();
        waits
    }

    /// Whether it is a timer that they wait for, which takes `delay`, and the network.
    fn are_of_timer(&self, delay: Duration, srtt: Duration) -> bool {
        let at = |tenths: usize| self.lasted.get(self.lasted.len() * tenths / 10).copied();
        let (Some(middle), Some(long)) = (at(5), at(9)) else {
            return false;
        };
        let longest = delay + TICK * DELAYED_ACK_TICKS + srtt * 2;
        middle >= delay / 2
            && (delay.saturating_sub(TICK)..=longest).contains(&long)
            && self.by_arrival >= KNOWN_ENDS
            && self.by_arrival >= self.by_sending * ARRIVALS_PER_SENDING
    }
}

/// Whether the last thing that happened is that data arrived, a while ago, and this end's program
/// has all of it, while all that it wrote has reached the other end. What was sent in the same tick
/// may be the next question.
fn awaits_rest(s: &FlowSample) -> Option<bool> {
    let is_quiet = s.unread_bytes? == 0 && s.unacked_pkts? == 0 && s.notsent_bytes? == 0;
    let received = s.since_data_received?;
    Some(is_quiet && received >= TICK && s.since_data_sent? > received)
}

impl Pieces {
    /// The same of messages of which each is answered by several segments: `None` where the waits
    /// are not those for the delayed ACK of this end.
    fn between_long_ones(timeline: &Timeline) -> Option<Self> {
        let arrived = timeline.counted(|s| s.data_segs_in)?;
        let sent = timeline.counted(|s| s.data_segs_out)?;
        let bytes = timeline.counted(|s| s.bytes_received)?;
        let mss = f64::from(timeline.latest(|s| s.rcv_mss_bytes.or(s.snd_mss_bytes))?);
        let are_small = (bytes as f64) < arrived as f64 * mss.max(SMALL_MSS) * SMALL_SEGMENT;
        let waits = Waits::read(timeline);
        let operations = waits.lasted.len().max(1) as u64;
        let count = (arrived + operations / 2) / operations;
        let are_answered = sent >= operations && sent <= operations * MOST_PIECES;
        if !are_small || !are_answered || !(2..=MOST_PIECES).contains(&count) {
            return None;
        }
        let delay = timeline.latest(|s: &FlowSample| s.ato)?;
        if !waits.are_of_timer(delay, timeline.srtt()?) {
            return None;
        }
        Some(Self {
            count,
            waits: timeline.vote_of_all(awaits_rest)?,
            operations: operations as f64 / timeline.interval().as_secs_f64(),
        })
    }
}

/// See the module. The time per operation must match a delayed ACK of this end.
pub(crate) fn nagle_delack_stall(view: &View<'_>) -> Option<Verdict> {
    let here = view.receiver.filter(|_| view.sender.is_none())?;
    of_single_answers(view, here).or_else(|| {
        let pieces = Pieces::between_long_ones(here)?;
        let delay = here.latest(|s: &FlowSample| s.ato)?;
        (pieces.waits >= STALL_SHARE).then(|| verdict(view, here, &pieces, delay))?
    })
}

/// The same where each message is answered by one segment.
fn of_single_answers(view: &View<'_>, here: &Timeline) -> Option<Verdict> {
    let pieces = Pieces::read(here)?;
    let delay = here.latest(|s: &FlowSample| s.ato)?;
    let each = 1.0 / pieces.operations.max(FEW_OPERATIONS);
    let most = delay + TICK * DELAYED_ACK_TICKS + here.srtt()? * 2;
    if pieces.waits < STALL_SHARE || each < delay.as_secs_f64() || each > most.as_secs_f64() {
        return None;
    }
    verdict(view, here, &pieces, delay)
}

fn verdict(view: &View<'_>, here: &Timeline, pieces: &Pieces, delay: Duration) -> Option<Verdict> {
    let each = 1.0 / pieces.operations.max(FEW_OPERATIONS);
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
                    human::time(Duration::from_secs_f64(each))
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

    /// Requests of three segments over 4 ms, each answered in two pieces, of which the second comes
    /// `apart` ms after the first; `thinks` ms later the next request leaves. Samples every 8 ms.
    fn long_requests(apart: u64, thinks: u64) -> Timeline {
        let key = FlowKey {
            local: ([10, 0, 0, 1], 40_000).into(),
            remote: ([10, 0, 0, 2], 5000).into(),
        };
        let ms = Duration::from_millis;
        let mut timeline = Timeline::new();
        let each = 8 + apart + thinks;
        for look in 0..500_u64 {
            let at = look * 8;
            let (operation, since) = (at / each, at % each);
            let (pieces, received) = match since {
                0..8 => (0, since + thinks),
                _ if since < 8 + apart => (1, since - 8),
                _ => (2, since - 8 - apart),
            };
            timeline.push(FlowSample {
                data_segs_in: Some(2 * operation + pieces),
                data_segs_out: Some(3 * (operation + 1)),
                bytes_received: Some(57 * (2 * operation + pieces)),
                rcv_mss_bytes: Some(536),
                unread_bytes: Some(0),
                unacked_pkts: Some(if since < 4 { 3 } else { 0 }),
                notsent_bytes: Some(0),
                since_data_received: Some(ms(received)),
                since_data_sent: Some(ms(since)),
                srtt: Some(ms(5)),
                min_rtt: Some(ms(4)),
                ato: Some(ms(40)),
                ..FlowSample::empty(Instant::ZERO + ms(at), key)
            });
        }
        timeline
    }

    /// An image is stored in three segments, and the answer comes in two, of which the second waits
    /// for the ACK of the first.
    #[test]
    fn the_rest_of_an_answer_is_waited_for_between_requests_of_several_segments() {
        let found = Pieces::between_long_ones(&long_requests(44, 1)).expect("a stall");
        assert_eq!(found.count, 2);
        assert!(found.waits > 0.6, "{}", found.waits);
    }

    /// A program that works for as long as an ACK is delayed sends when it has done so.
    #[test]
    fn a_program_at_work_between_two_requests_waits_for_nothing() {
        for apart in [0, 44] {
            let found = Pieces::between_long_ones(&long_requests(apart, 44));
            assert!(found.is_none(), "pieces {apart} ms apart");
        }
    }

    /// A question that leaves as soon as an answer has come is what is waited for then.
    #[test]
    fn what_leaves_with_the_last_arrival_is_a_question() {
        let key = answerer(0, [0; 4]).key().expect("it has samples");
        let waits = |sent: u64| {
            awaits_rest(&FlowSample {
                unread_bytes: Some(0),
                unacked_pkts: Some(0),
                notsent_bytes: Some(0),
                since_data_received: Some(Duration::from_millis(20)),
                since_data_sent: Some(Duration::from_millis(sent)),
                ..FlowSample::empty(Instant::ZERO, key)
            })
        };
        assert_eq!(
            [24, 20, 16].map(waits),
            [Some(true), Some(false), Some(false)]
        );
    }

    fn waits(before: u64, states: [u64; 4]) -> f64 {
        Pieces::read(&answerer(before, states)).map_or(0.0, |pieces| pieces.waits)
    }

    /// The rest of a message comes after a part of it, and that after the question.
    #[test]
    fn who_has_just_asked_waits_for_an_answer_and_not_for_the_rest_of_one() {
        let share = |sent: u64| {
            let part = answerer(0, [1; 4]);
            let mut timeline = Timeline::new();
            for (look, sample) in part.samples().enumerate() {
                timeline.push(FlowSample {
                    // Between two messages at first.
                    data_segs_in: sample.data_segs_in.map(|count| count - u64::from(look < 4)),
                    min_rtt: Some(Duration::from_millis(40)),
                    since_data_sent: Some(Duration::from_millis(sent)),
                    ..sample.clone()
                });
            }
            Pieces::read(&timeline).map_or(0.0, |pieces| pieces.waits)
        };
        assert!(share(50) > 0.7, "{}", share(50));
        assert!(share(10) < 0.1, "{}", share(10));
    }

    #[test]
    fn what_was_said_before_the_first_message_does_not_count() {
        for before in [2, 3, 4, 7] {
            assert!(waits(before, [0, 1, 1, 1]) > 0.7, "{before}: one piece");
            assert!(waits(before, [0, 2, 2, 2]) < 0.1, "{before}: at work");
        }
    }
}
